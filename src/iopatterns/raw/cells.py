"""The identity of a cell: the SHA-256 of its specification, and fio's seeds.

A cell is one configuration: a drive, its settings and a workload. Its specification is a dictionary of everything that
can change what is measured.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

RAW_FOLDER = "data/raw"  # in the project folder


def canonical_json(specification: Mapping[str, Any]) -> str:
    """Return the specification of a cell as the JSON text that is hashed.

    Keys are sorted, and there are no spaces between tokens: ``{"protocol":2,"runtime_ms":1000}``. Equal specifications
    give equal texts.

    Args:
        specification: The specification of a cell, see `records.Specification`; or any mapping of JSON values.
    """
    return json.dumps(specification, sort_keys=True, separators=(",", ":"))


def specification_digest(specification: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a cell's specification as 64 hexadecimal digits.

    A cell is one configuration: a drive, its settings and a workload. The digest identifies the cell.

    Args:
        specification: The specification of the cell, see `records.Specification`.
    """
    return hashlib.sha256(canonical_json(specification).encode()).hexdigest()


def folder_matches(folder: str, specification: Mapping[str, Any]) -> bool:
    """Return whether a folder has the name that a cell's specification requires.

    The name must end with a hyphen and the first eight digits of the specification's SHA-256, as in
    ``randread-4k-q1-j1-1a2b3c4d``. The rest of the name is not checked.

    Args:
        folder: The name of the folder, with or without its path.
        specification: The specification of the cell (a drive, its settings and a workload), see
            `records.Specification`.
    """
    return folder.endswith(f"-{specification_digest(specification)[:8]}")


def randseed(specification: Mapping[str, Any], execution: int) -> int:
    """Return the value of fio's option ``randseed`` for one repetition of a cell.

    A repetition is one run of the workload, usually by fio. The seed is an integer from 0 to 2^32 - 1. It is computed
    from a hash of the number of the repetition and of the specification without the key ``model_digest`` of the drive.
    The digest of the model is left out, so that a new parameter of the model, at a value without effect, does not
    change results.

    Args:
        specification: The specification of the cell (a drive, its settings and a workload), see
            `records.Specification`.
        execution: The number of the repetition, from 1.
    """
    drive = {key: value for key, value in specification["drive"].items() if key != "model_digest"}
    text = f"{specification_digest({**specification, 'drive': drive})}/{execution}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big")
