"""Files that are either whole or not there: a temporary name, fsync, rename."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any


def partial(path: Path) -> Path:
    """Return the temporary name beside ``path`` under which it is written."""
    return path.with_name(f".{path.name}.partial")


def commit(temporary: Path, path: Path) -> None:
    """Make a finished temporary file the file at ``path``: on the disk first, under its name then."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write(path: Path, fill: Callable[[Path], object]) -> None:
    """Have ``fill`` write to a temporary name, then make it the file at ``path``; on an error nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = partial(path)
    try:
        fill(temporary)
        commit(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file for people and programs: sorted keys, two spaces, one newline at the end."""
    text = json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
