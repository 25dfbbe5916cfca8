"""Sealed tar files: a manifest of SHA-256 sums, then the members that it lists, in one xz stream.

The same members give the same bytes. A reader takes bounded time and memory whatever the file is, and no member that
the manifest does not list: a file made to harm is one clear error.
"""

import hashlib
import io
import lzma
import os
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from iopatterns.base import files, messages
from iopatterns.base.errors import IoPatternsError

MANIFEST_MEMBER = "manifest.json"
# Bounds of what is read. The archive of a default run's drive has 20 MB, its manifest 1 MB, a raw file at most 1 MB;
# JSON in xz is a tenth to a hundredth of itself.
MAX_MANIFEST_BYTES = 16 * 2**20
MAX_MEMBER_BYTES = 64 * 2**20
_MOST_FILE_BYTES = 2 * 2**30
_MOST_EXPANSION = 250
_SMALL_BYTES = 64 * 2**20  # a file of any size may expand to this
_MOST_MEMORY_BYTES = 128 * 2**20  # for decompression; preset 6 takes 9 MiB, preset 9 takes 65 MiB (xz(1))
_LONGEST_NAME_BYTES = 255  # of a file or folder (limits.h, NAME_MAX)
_BLOCK = 512  # POSIX.1-2017, pax, "ustar Interchange Format": headers and contents are padded to it
_CHUNK = 2**16


@dataclass(frozen=True)
class SealedTarFormat:
    """One use of sealed tar files, and the words of its messages.

    Attributes:
        name: The value of ``format`` in the manifest.
        version: The value of ``version`` in the manifest.
        noun: What a file is called, such as "archive".
        command: The command that writes a file.
        error: The type of all errors.
    """

    name: str
    version: int
    noun: str
    command: str
    error: type[IoPatternsError]

    @property
    def a_noun(self) -> str:
        """The noun with its article."""
        return f"{'an' if self.noun[0] in 'aeio' else 'a'} {self.noun}"

    @property
    def copy_again(self) -> str:
        """The remedy for a damaged file."""
        return f"Copy the {self.noun} anew from where it was made"


# ---- Writing


def write_sealed_tar(output: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write members, by name and content, to a file; no clock, owner or order of a folder goes into it.

    Raises ValueError with the member's name for a name that is too long.
    """
    with (
        lzma.open(output, "wb", preset=6) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in members:
            header = tarfile.TarInfo(name)  # of second 0 and user 0
            header.size = len(content)
            header.mode = 0o644
            try:
                tar.addfile(header, io.BytesIO(content))
            except ValueError as error:
                raise ValueError(f"{name}: cannot be packed: {error}") from None


# ---- Reading


class _Stream:
    """The decompressed content of an xz file, read on demand: damage shows in the member that has it."""

    def __init__(self, path: Path, file: io.BufferedReader, format_: SealedTarFormat) -> None:
        self._path = path
        self._file = file
        self._format = format_
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY_BYTES)
        self._most_bytes = _MOST_EXPANSION * os.fstat(file.fileno()).st_size + _SMALL_BYTES
        self._read_bytes = 0

    def read(self, size: int) -> bytes:
        """Return ``size`` bytes, fewer only at the end.

        Raises LZMAError or EOFError where the file is damaged, the format's error where it expands to more than a file
        of its size may.
        """
        parts, left = [], size
        while left > 0 and not self._xz.eof:
            data = self._file.read(_CHUNK) if self._xz.needs_input else b""
            if self._xz.needs_input and not data:
                raise EOFError
            part = self._xz.decompress(data, max_length=left)
            parts.append(part)
            left -= len(part)
            self._read_bytes += len(part)
            if self._read_bytes > self._most_bytes:
                raise self.too_large(
                    f"unpacks to more than {self._most_bytes} bytes, as no {self._format.noun} of its size does"
                )
        return b"".join(parts)

    def too_large(self, what: str) -> IoPatternsError:
        """Return the error for a file that is larger, or has a larger part, than any that this package makes."""
        return self._format.error(f"{self._path}: {what}, so nothing was unpacked: do not use this file.")

    def exactly(self, size: int) -> bytes:
        """Return ``size`` bytes, or raise EOFError where there are fewer."""
        content = self.read(size)
        if len(content) < size:
            raise EOFError
        return content

    def at_end(self) -> bool:
        """Return whether only padding follows, in the tar and in the file; reads both to their ends."""
        while part := self.read(_CHUNK):
            if part.strip(b"\0"):
                return False
        return not self._xz.unused_data and not self._file.read(1)


class SealedTarReader:
    """The manifest of a sealed tar file, then its members one after another, each checked as it is read."""

    def __init__(self, path: Path, file: io.BufferedReader, format_: SealedTarFormat) -> None:
        self._path = path
        self._format = format_
        self._stream = _Stream(path, file, format_)

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of a file of this format and version. Raises the format's error."""
        format_ = self._format
        try:
            name, content = self._member(MAX_MANIFEST_BYTES)
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError):
            name, content = "", b""
        try:
            manifest: Any = msgspec.json.decode(content) if name == MANIFEST_MEMBER else None
            is_ours = manifest["format"] == format_.name if isinstance(manifest, dict) else False
        except (ValueError, KeyError, RecursionError):
            is_ours = False
        if not is_ours:
            raise format_.error(
                f"{self._path}: not {format_.a_noun} of iopatterns, or one whose first member, {MANIFEST_MEMBER}, is"
                f" damaged. {format_.copy_again} (`{format_.command}` makes one)."
            )
        found: dict[str, Any] = manifest
        if found.get("version") != format_.version:
            version = messages.printable(found.get("version"))
            raise format_.error(
                f"{self._path}: {format_.a_noun} of format version {version}; this iopatterns reads version"
                f" {format_.version}. Use the iopatterns that made it, or have it made anew with this one."
            )
        return found

    def malformed(self, why: object) -> IoPatternsError:
        """Return the error for a manifest that lacks something or has it in another form."""
        return self._format.error(
            f"{self._path}: its {MANIFEST_MEMBER} is not as version {self._format.version} has it"
            f" ({messages.printable(why)}). {self._format.copy_again}."
        )

    def escape(self, name: str) -> IoPatternsError:
        """Return the error for a member that would lie elsewhere than where this format has its files."""
        return self._format.error(
            f"{self._path}: its member '{messages.printable(name)}' would lead out of the folder for it, or is no name"
            f" of a file, so nothing was unpacked. No `{self._format.command}` writes such a thing: do not use this"
            " file."
        )

    def members(self, sums: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each member after the manifest; when all are yielded, the file is whole.

        ``sums`` are the SHA-256 sums by path, in the file's order. Raises the format's error, which names the member
        that is not as the manifest lists it.
        """
        error_of = self._format.error
        for expected, sum_ in sums.items():
            try:
                name, content = self._member(MAX_MEMBER_BYTES)
            except EOFError:
                raise error_of(
                    f"{self._path}: cut short, at its member {expected}. {self._format.copy_again}."
                ) from None
            except (tarfile.TarError, lzma.LZMAError, ValueError):
                raise self._damaged(expected) from None
            if name != expected and (name.startswith("/") or ".." in name.split("/")):
                raise self.escape(name)
            if name != expected or hashlib.sha256(content).hexdigest() != sum_:
                raise self._damaged(expected)
            yield expected, content
        try:
            whole = self._stream.at_end()
        except EOFError:
            raise error_of(f"{self._path}: cut short, after its last member. {self._format.copy_again}.") from None
        except lzma.LZMAError:
            whole = False
        if not whole:
            raise error_of(f"{self._path}: damaged after its last member. {self._format.copy_again}.")

    def _damaged(self, name: str) -> IoPatternsError:
        return self._format.error(
            f"{self._path}: damaged: its member {name} is not what was packed (SHA-256). {self._format.copy_again}."
        )

    def _member(self, most_bytes: int) -> tuple[str, bytes]:
        """Return name and content of the next member. Raises the format's error where it is too large."""
        header = tarfile.TarInfo.frombuf(self._stream.exactly(_BLOCK), "utf-8", "strict")
        if header.size < 0 or not header.isreg():
            raise ValueError(header.name)
        if header.size > most_bytes:
            name = messages.printable(header.name)
            raise self._stream.too_large(
                f"has a member {name} of {header.size} bytes, and at most {most_bytes} are read"
            )
        content = self._stream.exactly(header.size)
        self._stream.exactly(-header.size % _BLOCK)
        return header.name, content


def is_plain_name(text: str) -> bool:
    """Return whether a text is the name of one file or folder, and not hidden: a path of such names leads nowhere else.

    The text must be printable, without slashes, and of at most 255 bytes.
    """
    return (
        text.isprintable()
        and text[:1] not in {"", "."}
        and "/" not in text
        and len(text.encode()) <= _LONGEST_NAME_BYTES
    )


def open_sealed_tar(path: Path, format_: SealedTarFormat) -> io.BufferedReader:
    """Return a sealed tar file open for reading.

    Raises the format's error at once for what is no plain file, or too large for one.
    """
    try:
        return files.open_bounded(path, _MOST_FILE_BYTES)
    except FileNotFoundError:
        raise format_.error(
            f"{path}: there is no such file. Put the {format_.noun} there, or give the path of one."
        ) from None
    except files.UnreadableError as error:
        raise format_.error(
            f"{messages.printable(path)}: cannot be read: {error}. Give the path of {format_.a_noun}."
        ) from None
