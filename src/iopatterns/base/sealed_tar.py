"""Sealed tar files: xz-compressed tar files that begin with a manifest.

The manifest, ``manifest.json``, lists the SHA-256 sum of each other member (file in the tar file). Equal members give
equal bytes.

A sealed tar file may come from a stranger. Reading therefore takes bounded time and memory whatever the file contains,
refuses members that the manifest does not list, and raises one clear error for a damaged or malicious file.
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
# Limits for reading. In a default run, the archive of a drive has 20 MB, its manifest 1 MB, a raw file at most 1 MB. xz
# compresses JSON to 1/10 to 1/100.
MAX_MANIFEST_BYTES = 16 * 2**20
MAX_MEMBER_BYTES = 64 * 2**20
_MOST_FILE_BYTES = 2 * 2**30
_MOST_EXPANSION = 250
_SMALL_BYTES = 64 * 2**20  # any file may expand to this size
_MOST_MEMORY_BYTES = 128 * 2**20  # for decompression; preset 9 needs 65 MiB (xz(1))
_LONGEST_NAME_BYTES = 255  # of a file or folder (limits.h, NAME_MAX)
_BLOCK = 512  # headers and contents are padded to blocks (POSIX.1-2017, pax, "ustar Interchange Format")
_CHUNK = 2**16


@dataclass(frozen=True)
class SealedTarFormat:
    """A format of sealed tar files, such as archives of drives.

    A sealed tar file is an xz-compressed tar file. Its first member (file in the tar file) is a manifest in JSON, which
    has the SHA-256 sum of each other member.

    Attributes:
        name: The value of ``format`` in the manifest, such as ``iopatterns archive``.
        version: The value of ``version`` in the manifest.
        noun: Noun for a file of this format, for messages, such as ``archive``.
        command: The command that writes such a file, for messages, such as ``iopatterns archive DRIVE``.
        error: The type of the errors about files of this format, a subclass of IoPatternsError.
    """

    name: str
    version: int
    noun: str
    command: str
    error: type[IoPatternsError]

    @property
    def a_noun(self) -> str:
        """The noun with its indefinite article, such as "an archive"."""
        return f"{'an' if self.noun[0] in 'aeio' else 'a'} {self.noun}"

    @property
    def copy_again(self) -> str:
        """The advice for a damaged file, such as "Copy the archive again from its origin"."""
        return f"Copy the {self.noun} again from its origin"


# ---- Writing


def write_sealed_tar(output: Path, members: Iterable[tuple[str, bytes]]) -> None:
    """Write a sealed tar file: an xz-compressed tar file that begins with a manifest.

    Equal members give equal bytes: the file contains neither times nor users. An existing file is overwritten.

    Args:
        output: The file.
        members: Path and content of each member (file in the tar file), in the order of writing. The first member must
            be ``manifest.json``, a JSON object with the keys ``format`` and ``version`` of a `SealedTarFormat`, and
            with the SHA-256 sums of the other members under a key of the caller's choice.

    Raises:
        ValueError: The path of a member is too long for a tar file. The message names the member.
    """
    with (
        lzma.open(output, "wb", preset=6) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, content in members:
            header = tarfile.TarInfo(name)  # time 0, user 0
            header.size = len(content)
            header.mode = 0o644
            try:
                tar.addfile(header, io.BytesIO(content))
            except ValueError as error:
                raise ValueError(f"{name}: cannot be packed: {error}") from None


# ---- Reading


class _Stream:
    """The decompressed content of an xz file, read in order.

    Data are decompressed on demand. A damaged part is therefore reported when the member (file in the tar file) that
    contains the part is read.
    """

    def __init__(self, path: Path, file: io.BufferedReader, format_: SealedTarFormat) -> None:
        self._path = path
        self._file = file
        self._format = format_
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY_BYTES)
        self._most_bytes = _MOST_EXPANSION * os.fstat(file.fileno()).st_size + _SMALL_BYTES
        self._read_bytes = 0

    def read(self, size: int) -> bytes:
        """Return the next ``size`` decompressed bytes; fewer only at the stream's end.

        Raises:
            LZMAError: The file is damaged.
            EOFError: The file is cut short.
            IoPatternsError: The decompressed content is too large for a file of this size.
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
                    f"unpacks to more than {self._most_bytes} bytes, too much for {self._format.a_noun} of its size"
                )
        return b"".join(parts)

    def too_large(self, what: str) -> IoPatternsError:
        """Return an error for a file that is too large, or has a part that is too large.

        The caller raises the error. This package never writes such a file. The message therefore advises the user not
        to use the file.

        Args:
            what: What is too large, such as ``has a member x of 99 bytes``. It follows the path of the file in the
                message.
        """
        return self._format.error(f"{self._path}: {what}. Nothing was unpacked. Do not use this file.")

    def exactly(self, size: int) -> bytes:
        """Return the next ``size`` decompressed bytes.

        Raises:
            EOFError: Fewer bytes are left.
            LZMAError: The file is damaged.
            IoPatternsError: The decompressed content is too large for a file of this size.
        """
        content = self.read(size)
        if len(content) < size:
            raise EOFError
        return content

    def at_end(self) -> bool:
        """Read the rest of the file, and return whether it is only padding (zero bytes).

        The tar format ends with such padding. The result is False if any other data follow.

        Raises:
            LZMAError: The file is damaged.
            EOFError: The file is cut short.
            IoPatternsError: The decompressed content is too large for a file of this size.
        """
        while part := self.read(_CHUNK):
            if part.strip(b"\0"):
                return False
        return not self._xz.unused_data and not self._file.read(1)


class SealedTarReader:
    """A reader of a sealed tar file: an xz-compressed tar file with a manifest.

    Call `manifest` first. Then iterate over `members`, which reads the other members (files in the tar file) one by
    one. It checks each member against its SHA-256 sum. Reading takes bounded time and memory, even for a malicious
    file.

    Args:
        path: Path of the file, for messages.
        file: The opened file, as returned by `open_sealed_tar`. The caller closes it.
        format_: The expected format.
    """

    def __init__(self, path: Path, file: io.BufferedReader, format_: SealedTarFormat) -> None:
        self._path = path
        self._format = format_
        self._stream = _Stream(path, file, format_)

    def manifest(self) -> dict[str, Any]:
        """Read the first member of the file, and return it as a decoded JSON object.

        The keys ``format`` and ``version`` have been checked, all others have not. Call this method once, before
        `members`.

        Raises:
            IoPatternsError: The file does not begin with a manifest of the expected format and version, or is damaged.
                The type of the error is that of the format.
        """
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
                f"{self._path}: not {format_.a_noun} of iopatterns, or its first member, {MANIFEST_MEMBER}, is damaged."
                f" {format_.copy_again} (`{format_.command}` makes one)."
            )
        found: dict[str, Any] = manifest
        if found.get("version") != format_.version:
            version = messages.printable(found.get("version"))
            raise format_.error(
                f"{self._path}: {format_.a_noun} of format version {version}; this iopatterns reads version"
                f" {format_.version}. Use the iopatterns that made it, or make it again with this one."
            )
        return found

    def malformed(self, why: object) -> IoPatternsError:
        """Return an error for a manifest that lacks a key or has a wrong value.

        The caller raises the error. Its message names the file, and advises the user to copy the file again.

        Args:
            why: What is wrong in the manifest, for the message.
        """
        version, reason = self._format.version, messages.printable(why)
        return self._damaged(f"its {MANIFEST_MEMBER} is not valid for version {version} ({reason})")

    def escape(self, name: str) -> IoPatternsError:
        """Return an error for a member with a path that is not safe to unpack.

        Such a path leads out of the folder in which the file is unpacked, or contains an invalid file name. The caller
        raises the error.

        Args:
            name: Path of the member (file in the tar file).
        """
        return self._format.error(
            f"{self._path}: its member '{messages.printable(name)}' is outside its folder, or is not a valid file"
            f" name. Nothing was unpacked. `{self._format.command}` does not write such members: do not use this file."
        )

    def members(self, sums: Mapping[str, str]) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each member after the manifest, in order.

        Call `manifest` before. The file is complete and undamaged only if the iteration ends without an error.

        Args:
            sums: The expected members (files in the tar file): SHA-256 sum in hexadecimal digits, by path of the
                member. The paths are in the order of the members in the file.

        Raises:
            IoPatternsError: A member is missing, is too large, or does not have the expected path or SHA-256 sum. Or
                data follow the last member. The type of the error is that of the format.
        """
        for expected, sum_ in sums.items():
            damage = f"damaged: its member {expected} is not what was packed (SHA-256)"
            try:
                name, content = self._member(MAX_MEMBER_BYTES)
            except EOFError:
                raise self._damaged(f"cut short, at its member {expected}") from None
            except (tarfile.TarError, lzma.LZMAError, ValueError):
                raise self._damaged(damage) from None
            if name != expected and (name.startswith("/") or ".." in name.split("/")):
                raise self.escape(name)
            if name != expected or hashlib.sha256(content).hexdigest() != sum_:
                raise self._damaged(damage)
            yield expected, content
        try:
            complete = self._stream.at_end()
        except EOFError:
            raise self._damaged("cut short, after its last member") from None
        except lzma.LZMAError:
            complete = False
        if not complete:
            raise self._damaged("damaged after its last member")

    def _damaged(self, what: str) -> IoPatternsError:
        return self._format.error(f"{self._path}: {what}. {self._format.copy_again}.")

    def _member(self, most_bytes: int) -> tuple[str, bytes]:
        """Return path and content of the next member.

        Args:
            most_bytes: The largest accepted content.

        Raises:
            IoPatternsError: The member is too large.
            ValueError: The member is not a regular file.
            tarfile.TarError, lzma.LZMAError: The file is damaged.
            EOFError: The file is cut short.
        """
        header = tarfile.TarInfo.frombuf(self._stream.exactly(_BLOCK), "utf-8", "strict")
        if header.size < 0 or not header.isreg():
            raise ValueError(header.name)
        if header.size > most_bytes:
            name = messages.printable(header.name)
            raise self._stream.too_large(f"has a member {name} of {header.size} bytes; at most {most_bytes} are read")
        content = self._stream.exactly(header.size)
        self._stream.exactly(-header.size % _BLOCK)
        return header.name, content


def is_plain_name(text: str) -> bool:
    """Return whether a text is a safe name for one file or folder, and not hidden.

    Such a name is printable, has no slash, does not begin with a dot, and has 1 to 255 bytes in UTF-8. A path that
    consists of such names cannot lead outside its folder.
    """
    return (
        text.isprintable()
        and text[:1] not in {"", "."}
        and "/" not in text
        and len(text.encode()) <= _LONGEST_NAME_BYTES
    )


def open_sealed_tar(path: Path, format_: SealedTarFormat) -> io.BufferedReader:
    """Open a sealed tar file for `SealedTarReader`, and return the binary file.

    A sealed tar file is an xz-compressed tar file that begins with a manifest. Its content is not checked here. The
    caller closes the file.

    Args:
        path: The file.
        format_: The expected format, for error messages.

    Raises:
        IoPatternsError: The file does not exist, cannot be read, is not a regular file, or has more than 2 GiB. The
            type of the error is that of the format.
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
