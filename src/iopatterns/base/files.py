"""Files written whole or not at all (temporary name, fsync, rename), and a user's files read within bounds."""

import contextlib
import hashlib
import io
import json
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from iopatterns.base.errors import IoPatternsError

# With less than that nothing of ours can be written: raw files are some 100 kB
_ROOM_BYTES = 2**20

_Decoded = TypeVar("_Decoded")


class NoRoomError(IoPatternsError):
    """A file system takes no more files of ours; the message names the folder."""


class UnreadableError(IoPatternsError):
    """A user's file is there and cannot be read. The message is the reason alone: the caller names the file."""


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file that a user has named. Raises UnreadableError, or FileNotFoundError.

    The file is opened as by `open_bounded`, and no more than ``most_bytes`` are read.
    """
    with open_bounded(path, most_bytes) as file:
        try:
            content = file.read(most_bytes + 1)
        except OSError as error:
            raise UnreadableError(error.strerror or str(error)) from None
    if len(content) > most_bytes:
        raise UnreadableError(f"it grows while it is read, to more than {most_bytes:,} bytes")
    return content


def open_bounded(path: Path, most_bytes: int) -> io.BufferedReader:
    """Return a file that a user has named, open for reading. Raises UnreadableError, or FileNotFoundError.

    A file of more than ``most_bytes`` is refused. What is no plain file is never opened: a named pipe would wait for
    ever, and opening some devices has effects.
    """
    try:
        _check_plain(os.stat(path), most_bytes)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from None
    except ValueError:  # a NUL in the path
        raise UnreadableError("no file can have that name") from None
    try:
        _check_plain(os.fstat(descriptor), most_bytes)
    except UnreadableError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def read_text_bounded(path: Path, most_bytes: int) -> str:
    """Return the UTF-8 text of a file that a user has named, read and refused as `read_bounded` does."""
    try:
        return read_bounded(path, most_bytes).decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"no UTF-8 text at byte {error.start}") from None


def _check_plain(state: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise UnreadableError("it is a folder" if stat.S_ISDIR(state.st_mode) else "it is no plain file")
    if state.st_size > most_bytes:
        raise UnreadableError(f"it has {state.st_size:,} bytes, and at most {most_bytes:,} are read")


class OutdatedResultError(IoPatternsError):
    """A file of results is not as this version of the package writes it."""


@contextlib.contextmanager
def outdated_results_reported(file: str) -> Iterator[None]:
    """Raise ForeignResultError where what is read of a file of results meanwhile is not what this version writes."""
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise OutdatedResultError(
            f"{file}: not as this version writes it ({type(error).__name__}: {error}). Delete it, and run"
            " `snakemake --cores 1`."
        ) from error


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


def partial_path(path: Path) -> Path:
    """Return the temporary name beside ``path`` under which it is written."""
    return path.with_name(f".{path.name}.partial")


def commit_file(temporary: Path, path: Path) -> None:
    """Make a finished temporary file the file at ``path``: on the disk first, under its name then."""
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_atomically(path: Path, fill: Callable[[Path], object]) -> None:
    """Have ``fill`` write to a temporary name, then make it the file at ``path``; on an error nothing is left."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = partial_path(path)
    try:
        fill(temporary)
        commit_file(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file as `write_atomically` does."""
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def write_json(path: Path, content: Any) -> None:
    """Write a JSON file for people and programs: sorted keys, two spaces, one newline at the end."""
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """Return what `write_json` writes."""
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def decode_json(content: bytes, expected: type[_Decoded]) -> _Decoded:
    """Return the value of a JSON text, with keys that `expected` does not declare.

    Raises:
        ValueError: The text is not JSON, or the value is not of the expected type; the message names the key.
        RecursionError: The value is nested too deeply.
    """
    value: _Decoded = msgspec.json.decode(content)
    msgspec.convert(value, expected)
    return value


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, 64 hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
