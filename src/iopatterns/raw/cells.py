"""The identity of a cell: the SHA-256 of its specification, and derived seeds.

A cell is one configuration: a drive, its settings and a workload. Its specification is a dictionary of everything that
can change what is measured.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

RAW_FOLDER = "data/raw"  # in the project folder


def canonical_json(specification: Mapping[str, Any]) -> str:
    """Return a specification as the JSON text that is hashed.

    Keys are sorted, and there are no spaces between tokens.
    """
    return json.dumps(specification, sort_keys=True, separators=(",", ":"))


def specification_digest(specification: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a cell's specification as 64 hexadecimal digits."""
    return hashlib.sha256(canonical_json(specification).encode()).hexdigest()


def folder_matches(folder: str, specification: Mapping[str, Any]) -> bool:
    """Return whether a folder name belongs to the cell of a specification.

    The name of a cell's folder ends with a hyphen and the first eight digits of the specification's SHA-256.
    """
    return folder.endswith(f"-{specification_digest(specification)[:8]}")


def randseed(specification: Mapping[str, Any], execution: int) -> int:
    """Return fio's ``randseed`` option for one repetition of a cell.

    The seed is 32 bits of a hash of the number of the repetition and of what the configuration asks for: drive,
    workload and the ``seed`` of config/config.yaml. It does not depend on digests of models. A new parameter of a
    model, at a value without effect, therefore does not change results.

    Args:
        specification: The specification of the cell.
        execution: The number of the repetition, from 1.
    """
    drive = {key: value for key, value in specification["drive"].items() if key != "model_digest"}
    text = f"{specification_digest({**specification, 'drive': drive})}/{execution}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
