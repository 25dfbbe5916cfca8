"""A cell's identity: the canonical text of its specification, its hash, and the seeds that follow from it."""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def canonical_json(specification: Mapping[str, Any]) -> str:
    """Return the one JSON text of a specification: sorted keys, no spaces."""
    return json.dumps(specification, sort_keys=True, separators=(",", ":"))


def specification_digest(specification: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a specification, 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(specification).encode()).hexdigest()


def folder_matches(folder: str, specification: Mapping[str, Any]) -> bool:
    """Return whether the name of a cell's folder ends with the first digits of the specification's digest."""
    return folder.endswith(f"-{specification_digest(specification)[:8]}")


def randseed(specification: Mapping[str, Any], execution: int) -> int:
    """Return fio's ``randseed`` of an execution: 32 bits of a hash of the cell (seed included) and its number."""
    return int.from_bytes(
        hashlib.sha256(f"{specification_digest(specification)}/{execution}".encode()).digest()[:4], "big"
    )
