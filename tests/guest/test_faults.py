"""Drives of a kernel of their own that must not be written, that fail, and whose measurement is killed."""

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from guest.guest import Disk, Guest, Section
from guest.measuring import PARTITION, entry
from support import cell_on_a_disk, cell_on_a_file

LAB = Disk("a", "scsi", "T1", "TWO ALIKE", 16)
OTHER = Disk("b", "scsi", "T2", "TWO ALIKE", 16)  # differs in its serial number alone
BYSTANDER = Disk("c", "nvme", "N1", "", 16)

# Nothing is written to it later, when nobody expects it any more
MAKE_FILE_SYSTEM = "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0"

# Measures two executions of the cell in a file. What the kernel alone knows is put in: @A@ is the device of the drive
# of that name, @DEBUG@ that of scsi_debug, @SERIAL@ the serial number of the latter.
MEASURE = """
import os
import sys
from pathlib import Path

import yaml

from iopatterns import cells, cli, config, machine

drives = Path("config/drives.yaml")
text = Path(sys.argv[1]).read_text().replace("@A@", os.environ["A"])
if "@DEBUG@" in text:
    text = text.replace("@DEBUG@", os.environ["DEBUG"])
    text = text.replace("@SERIAL@", machine.disk(Path(os.environ["DEBUG"]))["serial"])
entry, cell = yaml.safe_load(text)
name = cell["drive"]["name"]
drives.write_text(yaml.safe_dump({name: entry}))
folder = f"data/raw/{name}/study/x-{cells.digest(cell)[:8]}"
sys.argv = ["iopatterns", "measure", "--specification", cells.canonical(cell), f"{folder}/01.json", f"{folder}/02.json"]
cli.main()
"""

# What the sections below are made of
WORDS = """
cd /tmp/here
measure() { "$PYTHON" "$SHARE/measure.py" "$SHARE/$1.json"; }
raws() { find data/raw -name '0?.json' | sort; }

# The drive of scsi_debug, with options of that module's
debug_drive() {
  modprobe scsi_debug dev_size_mb=16 "$@"
  until ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/* >/dev/null 2>&1; do sleep 0.1; done
  export DEBUG=/dev/$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block)
}

# To be refused: says of each drive whether it is as before, and what lies in /dev that does not belong there
attempt() {
  sync
  for drive in $A $B $C; do dd if=$drive of=/tmp/before-${drive#/dev/} bs=1M iflag=direct status=none; done
  measure "$1"; local status=$?
  for drive in A B C; do
    dd if=${!drive} bs=1M iflag=direct status=none | cmp - /tmp/before-${!drive#/dev/} && echo "AS BEFORE: $drive"
  done
  find /dev -xdev -type f | sed 's/^/FILE IN DEV: /'
  raws | sed 's/^/RAW FILE: /'
  return $status
}
"""

# Name: what is done, the drive by its name in CELLS, and of the refusal the check, what was found, what to do
REFUSED = {
    "mounted, by device": (
        f'{MAKE_FILE_SYSTEM} "$A"; mount "$A" /mnt/a; attempt plain',
        ("mounts", "is mounted on /mnt/a", "If nothing on it is needed: umount /mnt/a"),
    ),
    "mounted, by symbolic link": ("attempt lab", ("mounts", "is mounted on /mnt/a", "umount /mnt/a")),
    "mounted, by another node": (
        "mknod /tmp/node b $(lsblk -dno MAJ:MIN $A | tr : ' '); attempt node",
        ("mounts", "is mounted on /mnt/a", "umount /mnt/a"),
    ),
    "the root file system": (
        """
        for entry in /*; do
          if [ -L $entry ]; then cp -P $entry /mnt/a
          elif [ $entry != /mnt ]; then mkdir -p /mnt/a$entry; mount --rbind $entry /mnt/a$entry; fi
        done
        export -f measure attempt raws
        chroot /mnt/a bash -c "cd /tmp/here; attempt lab"
        """,
        ("root device", "holds the root file system", "Take another disk"),
    ),
    "mounted elsewhere": (
        """
        umount -R /mnt/a
        unshare --mount sh -c 'mount "$A" /mnt/a; touch /tmp/mounted; while [ -e /tmp/mounted ]; do sleep 0.1; done' &
        until [ -e /tmp/mounted ]; do sleep 0.1; done
        attempt lab; status=$?; rm /tmp/mounted; wait; exit $status
        """,
        ("exclusive use", "is in use", "Find out by what"),
    ),
    "file system": ("attempt strict", ("signatures", "signature of type ext4", "add `expendable: [ext4]`")),
    "swap": (
        'mkswap "$A" >/dev/null; swapon "$A"; attempt lab; status=$?; swapoff "$A"; exit $status',
        ("swap", "is in use as swap", "If it is not needed: swapoff /dev/sd"),
    ),
    "partition mounted": (
        f"""
        part() {{ {PARTITION} }}; wipefs -qa "$A"; part "$A"; blockdev --rereadpt "$A"; until [ -e "${{A}}1" ]; do sleep 0.1; done
        {MAKE_FILE_SYSTEM} "${{A}}1"; mount "${{A}}1" /mnt/a; attempt lab; status=$?; umount /mnt/a; exit $status
        """,
        ("mounts", "1 is mounted on /mnt/a", "umount /mnt/a"),
    ),
    "partition's file system": (
        "attempt table",
        ("signatures", "1 carries a signature of type ext4", "add `expendable: [ext4]`"),
    ),
    "partition as swap": (
        'mkswap "${A}1" >/dev/null; swapon "${A}1"; attempt lab; status=$?; swapoff "${A}1"; exit $status',
        ("swap", "1 is in use as swap", "swapoff /dev/sd"),
    ),
    "volume in use": (
        """
        wipefs -qa "${A}1" "$A"; blockdev --rereadpt "$A"
        lvm pvcreate -qq "$A" && lvm vgcreate -qq group "$A" && lvm lvcreate -qq --size 4M --name volume group || exit 77
        attempt volume
        """,
        ("holders", "is part of dm-0 (LVM, RAID or encryption)", "Take that apart first"),
    ),
    "volume at rest": (
        "lvm vgchange -qq --activate n group || exit 77; attempt lab",
        ("signatures", "signature of type LVM2_member", "add `expendable: [LVM2_member]`"),
    ),
    "array in use": (
        """
        wipefs -qa "$A"; modprobe raid1
        mdadm --quiet --create /dev/md0 --level=1 --raid-devices=2 --metadata=1.2 --run "$A" missing || exit 77
        attempt array
        """,
        ("holders", "is part of md0 (LVM, RAID or encryption)", "Take that apart first"),
    ),
    "array at rest": (
        "mdadm --quiet --stop /dev/md0 || exit 77; attempt lab",
        ("signatures", "signature of type linux_raid_member", "add `expendable: [linux_raid_member]`"),
    ),
    "encrypted": (
        r"""wipefs -qa "$A"; printf 'LUKS\xba\xbe\x00\x01' | dd of="$A" conv=notrunc status=none; attempt lab""",
        ("signatures", "signature of type crypto_LUKS", "add `expendable: [crypto_LUKS]`"),
    ),
    "serial number": (
        'wipefs -qa "$A"; attempt wrong',
        ("identity", "says serial 'T1', the device says 'T2'", "Correct the entry only if this is the drive you mean"),
    ),
    "consent": (
        "attempt unconsented",
        ("consent", "consents to destroying 'T2', and this is 'T1'", "add `destroy: T1` there"),
    ),
    "mistyped": ("attempt mistyped", ("block device", "/dev/sdzz: No such file", "Is the name mistyped? In /dev/disk")),
    "a file in /dev": (
        "touch /dev/mistake; attempt mistake; status=$?; rm /dev/mistake; exit $status",
        ("block device", "/dev/mistake is a file", "take 'file' for a file"),
    ),
    "read-only": (
        'blockdev --setro "$A"; attempt lab; status=$?; blockdev --setrw "$A"; exit $status',
        ("writable", "is read-only", "Measure reading workloads alone"),
    ),
    "write-protected": (
        "debug_drive wp=1; attempt debug; status=$?; rmmod scsi_debug; exit $status",
        ("writable", "is read-only", "Measure reading workloads alone"),
    ),
}
# Which tools and modules some of them need, that a machine may lack
NEEDS = {"volume": "lvm (apt-get install lvm2)", "array": "mdadm (apt-get install mdadm)"}


def written(name: str, entry: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    return [entry, cell_on_a_disk(entry, name, "randwrite", 300, **settings)]


CELLS = {
    "lab": written("lab", entry(LAB)),
    "plain": written("plain", entry(LAB, path="@A@")),
    "node": written("node", entry(LAB, path="/tmp/node")),
    "strict": written("strict", entry(LAB, expendable=[])),
    "table": written("table", entry(LAB, expendable=["dos"])),
    "volume": written("volume", entry(LAB, expendable=["LVM2_member"])),
    "array": written("array", entry(LAB, expendable=["linux_raid_member"])),
    "wrong": written("wrong", entry(OTHER, serial=LAB.serial, destroy=LAB.serial)),
    "unconsented": written("unconsented", entry(LAB, destroy=OTHER.serial)),
    "mistyped": written("mistyped", entry(LAB, path="/dev/sdzz")),
    "mistake": written("mistake", entry(LAB, path="/dev/mistake")),
    "debug": written("debug", {"kind": "block", "path": "@DEBUG@", "serial": "@SERIAL@", "destroy": "@SERIAL@"}),
}


@pytest.fixture(scope="module")
def said(guests: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Section]:
    """What each section said, in one boot."""
    guest = Guest(tmp_path_factory.mktemp("guest"), disks=[LAB, OTHER, BYSTANDER])
    for disk in guest.disks:
        guest.image(disk.name).write_bytes(os.urandom(disk.size_mb * 2**20))
    (guest.share / "measure.py").write_text(MEASURE)
    for name, content in CELLS.items():
        (guest.share / f"{name}.json").write_text(json.dumps(content))
    sections = {name: script for name, (script, _) in REFUSED.items()}
    setup = "mkdir -p /tmp/here/config /mnt/a; modprobe dm-mod; modprobe ext4"
    found = guest.run_sections(
        {"setup": setup} | {name: WORDS + each for name, each in sections.items()}, timeout_s=500
    )
    for name, section in found.items():
        print(f"== {name}: status {section.status} after {section.duration_s:.1f} s\n{section.output}")
    return found


@pytest.mark.parametrize("name", REFUSED)
def test_a_drive_that_must_not_be_written_is_refused_and_no_byte_of_any_changes(
    said: dict[str, Section], name: str
) -> None:
    section = said[name]
    if section.status == 77:
        pytest.skip(f"needs {NEEDS[name.partition(' ')[0]]} and its kernel modules: {section.output}")
    check, what, remedy = REFUSED[name][1]
    assert section.status == 1, section.output
    assert f"refused by the check of {check}: " in section.output
    assert what in section.output
    assert remedy in section.output
    assert section.output.count("iopatterns measure: ") == 1
    assert re.findall("AS BEFORE: (.)", section.output) == ["A", "B", "C"]
    assert "RAW FILE: " not in section.output
    assert "FILE IN DEV: " not in section.output.replace("FILE IN DEV: /dev/mistake\n", "")
