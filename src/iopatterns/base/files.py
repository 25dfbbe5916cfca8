"""Atomic writing of files, and reading of user files up to a maximum size."""

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

# enough for the next raw file, which has about 100 kB
_ROOM_BYTES = 2**20

_Decoded = TypeVar("_Decoded")


class NoRoomError(IoPatternsError):
    """The error raised if a file system is full or cannot be written to.

    The message names the folder, and asks the user to free space or to make it writable.
    """


class UnreadableError(IoPatternsError):
    """The error raised for a user file that exists, but cannot be read.

    The message is only the reason, such as "it is a folder". The code that catches the error adds the name of the file.
    """


def read_bounded(path: Path, most_bytes: int) -> bytes:
    """Return the content of a user file, after checking its size.

    Args:
        path: The file.
        most_bytes: The largest accepted size of the file, in bytes.

    Raises:
        UnreadableError: The file cannot be read, is not a regular file, or has more than ``most_bytes`` bytes.
        FileNotFoundError: There is no such file.
    """
    with open_bounded(path, most_bytes) as file:
        try:
            content = file.read(most_bytes + 1)
        except OSError as error:
            raise UnreadableError(error.strerror or str(error)) from None
    if len(content) > most_bytes:
        raise UnreadableError(f"it grows beyond {most_bytes:,} bytes while it is read")
    return content


def open_bounded(path: Path, most_bytes: int) -> io.BufferedReader:
    """Open a user file in binary mode for reading, after checking its size.

    Only regular files are opened. Opening a named pipe would block, and opening some devices has side effects. The
    caller closes the file. Reads are not limited if the file grows later.

    Args:
        path: The file.
        most_bytes: The largest accepted size of the file, in bytes.

    Raises:
        UnreadableError: The file cannot be opened, is not a regular file, or has more than ``most_bytes`` bytes.
        FileNotFoundError: There is no such file.
    """
    try:
        _check_regular(os.stat(path), most_bytes)
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UnreadableError(error.strerror or str(error)) from None
    except ValueError:  # a NUL in the path
        raise UnreadableError("no file can have this name") from None
    try:
        _check_regular(os.fstat(descriptor), most_bytes)
    except UnreadableError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")


def read_text_bounded(path: Path, most_bytes: int) -> str:
    """Return the text of a user file in UTF-8, after checking its size.

    Args:
        path: The file.
        most_bytes: The largest accepted size of the file, in bytes.

    Raises:
        UnreadableError: The file cannot be read, is not a regular file, has more than ``most_bytes`` bytes, or is not
            UTF-8.
        FileNotFoundError: There is no such file.
    """
    try:
        return read_bounded(path, most_bytes).decode()
    except UnicodeDecodeError as error:
        raise UnreadableError(f"not UTF-8 text at byte {error.start}") from None


def _check_regular(state: os.stat_result, most_bytes: int) -> None:
    if not stat.S_ISREG(state.st_mode):
        raise UnreadableError("it is a folder" if stat.S_ISDIR(state.st_mode) else "it is not a regular file")
    if state.st_size > most_bytes:
        raise UnreadableError(f"it has {state.st_size:,} bytes; at most {most_bytes:,} are read")


class OutdatedResultError(IoPatternsError):
    """The error raised for a result file that is not in the format of this version.

    Usually another version of this package wrote the file.
    """


@contextlib.contextmanager
def outdated_results_reported(file: str) -> Iterator[None]:
    """Raise OutdatedResultError if code in this context cannot read a result file.

    The function returns a context manager. Unexpected content of a result file causes an AttributeError, KeyError,
    RecursionError, TypeError or ValueError. Each of these errors becomes an OutdatedResultError. The message advises
    the user to delete the file and to run the workflow again.

    Args:
        file: Name of the result file, for the message.

    Raises:
        OutdatedResultError: The code raised one of the errors above.
    """
    try:
        yield
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise OutdatedResultError(
            f"{file}: not in the format of this version ({type(error).__name__}: {error}). Delete it, and run"
            " `snakemake --cores 1`."
        ) from error


def require_room(folder: Path) -> None:
    """Raise NoRoomError unless 1 MiB can be written to a folder.

    The check writes a temporary file, because the number of free bytes does not show quotas, reserved blocks and
    read-only file systems. The temporary file is deleted again.

    Args:
        folder: The folder. If it does not exist, its nearest existing parent is checked.

    Raises:
        NoRoomError: A file of 1 MiB cannot be created.
    """
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            os.posix_fallocate(file.fileno(), 0, _ROOM_BYTES)
    except OSError as error:
        raise NoRoomError(
            f"{existing}: {error.strerror}. Free space there or make it writable, and run again. Finished results are"
            " kept."
        ) from None


@contextlib.contextmanager
def full_disk_reported(folder: Path) -> Iterator[None]:
    """Raise NoRoomError if code in this context fails because a disk is full.

    The function returns a context manager. If the code raises an OSError other than NotADirectoryError and
    FileExistsError, `require_room` checks the file system. The error number is not used, because not every library
    passes it on. If there is room, the error of the code is raised.

    The partial file must still exist at that time, because it occupies the space that is missing.

    Args:
        folder: The folder into which the code writes. It need not exist.

    Raises:
        NoRoomError: The code failed with an OSError, and the file system is full or cannot be written to.
    """
    try:
        yield
    except OSError as error:
        if not isinstance(error, (NotADirectoryError, FileExistsError)):
            require_room(folder)
        raise


def partial_path(path: Path) -> Path:
    """Return the path of the temporary file for a file that is being written.

    The temporary file is in the same folder: ``results/.a.json.partial`` for ``results/a.json``.
    """
    return path.with_name(f".{path.name}.partial")


def commit_file(temporary: Path, path: Path, rename: Callable[[Path, Path], object] = Path.replace) -> None:
    """Flush a finished temporary file to disk, then rename it.

    The folder is also flushed, so that the new name survives a power failure.

    Args:
        temporary: The temporary file.
        path: The new path, in the same file system.
        rename: The function that renames the file, called with both paths. By default, an existing file is replaced.

    Raises:
        OSError: The file cannot be flushed or renamed.
    """
    with open(temporary, "rb") as file:
        os.fsync(file.fileno())
    rename(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_atomically(path: Path, fill: Callable[[Path], object]) -> None:
    """Write a file under a temporary name, flush it to disk, then rename it.

    Other processes therefore see either the old file or the complete new file. After an error, the temporary file is
    removed.

    Args:
        path: The file. Missing parent folders are created. An existing file is replaced.
        fill: A function that gets the path of the temporary file, and writes the content to it.

    Raises:
        NoRoomError: The file system is full or cannot be written to.
        OSError: The file cannot be written for another reason. The error names a file.
    """
    temporary = partial_path(path)
    temporary.unlink(missing_ok=True)  # a symbolic link would be followed
    try:
        with full_disk_reported(path.parent):
            path.parent.mkdir(parents=True, exist_ok=True)
            fill(temporary)
            commit_file(temporary, path)
    except OSError as error:
        error.filename = error.filename or str(path)  # a failed write has no file name
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, atomically (see `write_atomically`).

    Args:
        path: The file. Missing parent folders are created. An existing file is replaced.
        text: The content.

    Raises:
        NoRoomError: The file system is full or cannot be written to.
    """
    write_atomically(path, lambda temporary: temporary.write_bytes(text.encode()))


def write_json(path: Path, content: Any) -> None:
    """Write a value as a JSON file, atomically (see `write_atomically`).

    The keys are sorted, and the indentation is two spaces.

    Args:
        path: The file. Missing parent folders are created. An existing file is replaced.
        content: A value that `json.dumps` accepts.

    Raises:
        NoRoomError: The file system is full or cannot be written to.
        TypeError: The value has a type that JSON does not have.
    """
    write_text(path, json_text(content))


def json_text(content: Any) -> str:
    """Return a value as the text of a JSON file.

    Keys are sorted, the indentation is two spaces, non-ASCII characters are not escaped, and the text ends with a line
    break.

    Raises:
        TypeError: The value has a type that JSON does not have.
    """
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def decode_json(content: bytes, expected: type[_Decoded]) -> _Decoded:
    """Return the value of a JSON text, after checking it against a type.

    The value is returned as plain dictionaries and lists. It keeps keys that the type does not declare.

    Args:
        content: The JSON text in UTF-8.
        expected: The type, such as a TypedDict.

    Raises:
        ValueError: The text is not JSON, or the value is not of the expected type. In the second case, the message
            names the key.
        RecursionError: The value is nested too deeply.
    """
    value: _Decoded = msgspec.json.decode(content)
    msgspec.convert(value, expected)
    return value


def sha256(path: Path) -> str:
    """Return the SHA-256 checksum of a file as 64 hexadecimal digits.

    Raises:
        OSError: The file cannot be read.
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
