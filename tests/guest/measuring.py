"""Measuring a guest's drives: their entries in config/drives.yaml, and the command that measures a cell there."""

import json
from typing import Any

from guest.guest import Disk

from iopatterns.raw import cells

# A DOS partition table with one partition, as sfdisk writes it, which is not everywhere
PARTITION = """
"$PYTHON" - "$1" <<'END'
import struct, sys
entry = struct.pack("<BBBBBBBBII", 0, 0, 0, 0, 0x83, 0, 0, 0, 2048, 32768)
with open(sys.argv[1], "r+b") as disk:
    disk.seek(446)
    disk.write(entry + bytes(48) + b"\\x55\\xaa")
END
"""


def entry(disk: Disk, **changes: Any) -> dict[str, Any]:
    """Return a drive's entry, with consent to writing it."""
    usual = {"kind": "block", "path": f"/dev/disk/by-id/{disk.by_id}", "serial": disk.serial, "destroy": disk.serial}
    return {**usual, "expendable": ["ext4", "dos", "swap", "data"], **changes}


def measuring(found: dict[str, Any]) -> str:
    """Return the command that measures a cell; its sidecar is printed behind it."""
    folder = f"raw/{found['drive']['name']}/study/x-{cells.specification_digest(found)[:8]}"
    return (
        f"\"$PYTHON\" -m iopatterns measure --specification '{json.dumps(found)}' {folder}/01.json;"
        f" s=$?; cat {folder}/01.sidecar.json; (exit $s)"
    )
