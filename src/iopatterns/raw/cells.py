"""The identity of a cell: the hash of its specification, and derived seeds.

A cell is one configuration: a drive, its settings and a workload.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(specification: Mapping[str, Any]) -> str:
    """Return the JSON text of a specification that is hashed: sorted keys, no spaces."""
    return json.dumps(specification, sort_keys=True, separators=(",", ":"))


def specification_digest(specification: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a specification as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(specification).encode()).hexdigest()


def folder_matches(folder: str, specification: Mapping[str, Any]) -> bool:
    """Return whether a folder name ends with eight digits of the cell's digest."""
    return folder.endswith(f"-{specification_digest(specification)[:8]}")


def randseed(specification: Mapping[str, Any], execution: int) -> int:
    """Return fio's ``randseed`` for a repetition of a cell.

    The seed is 32 bits of a hash of the specification, which includes the configured seed, and the repetition's number.
    """
    text = f"{specification_digest(specification)}/{execution}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
