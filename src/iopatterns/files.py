"""Files that are either whole or not there: a temporary name, fsync, rename."""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from iopatterns.errors import IoPatternsError

# With less than that nothing of ours can be written: raw files are some 100 kB
_ROOM_BYTES = 2**20


class NoRoomError(IoPatternsError):
    """A file system takes no more files of ours; the message names the folder."""


def require_room(folder: Path) -> None:
    """Raise NoRoomError unless something can be written to ``folder``, or to what there is of the way to it.

    It is tried, for quotas, reserved blocks and file systems that became read-only show in no number of free bytes.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there) as file:
            os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)
    except OSError as error:
        raise NoRoomError(
            f"{there}: {error.strerror}. Make room there, or make it writable, and run again; what is finished is kept."
        ) from None


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
    text = json_text(content)
    write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def json_text(content: Any) -> str:
    """Return what `write_json` writes."""
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
