"""Archives: the raw files of a drive in one file with their SHA-256 sums, analysed where there is no such drive."""

import dataclasses
import hashlib
import io
import json
import lzma
import os
import re
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

import msgspec

from iopatterns.base import files, messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw import cells
from iopatterns.raw.records import Specification
from iopatterns.raw.sidecars import UNPACKED, read_sidecar, sidecar_path

# Raise it when an archive is written in a way that older readers would misread. Since 2 each sidecar holds its own sum
VERSION = 2
_FORMAT = "iopatterns archive"
_MANIFEST = "manifest.json"
_SIDECAR = ".sidecar.json"
_BLOCK = 512  # POSIX.1-2017, pax, "ustar Interchange Format": headers and contents are padded to it
_CHUNK = 2**16
# What an archive may have, so that a file made to harm takes neither memory nor hours. The archive of a default run's
# drive has 20 MB, its manifest 1 MB, a raw file at most 1 MB; JSON in xz is a tenth to a hundredth of itself.
_MOST_ARCHIVE_BYTES = 2 * 2**30
_MOST_MANIFEST_BYTES = 16 * 2**20
_MOST_MEMBER_BYTES = 64 * 2**20
_MOST_EXPANSION = 250
_SMALL_BYTES = 64 * 2**20  # so much may come out of a file of any size
_MOST_MEMORY_BYTES = 128 * 2**20  # for decompression; preset 6 takes 9 MiB, preset 9 takes 65 MiB (xz(1))
_LONGEST_NAME_BYTES = 255  # of a file or folder (limits.h, NAME_MAX)
_RAW_NAME = re.compile(r"\d{2,}\.json")
_COPY_AGAIN = "Copy the archive anew from where it was made"


class ArchiveError(IoPatternsError):
    """An archive cannot be made or is not what it should be; the message names it, the member, and what to do."""


class ArchivedCell(msgspec.Struct, frozen=True, rename={"sums": "sha256"}):
    """One cell of an archive, as the manifest lists it.

    Attributes:
        study: The study.
        name: The name of the cell's folder.
        specification: The specification, with keys of other versions of this package: they are part of its digest.
        experiments: The experiments that asked for the cell where it was measured; none for a cell of an earlier
            configuration.
        sums: The SHA-256 of each raw file and each metadata file, by file name.
    """

    study: str
    name: str
    specification: Specification
    experiments: tuple[str, ...]
    sums: Mapping[str, Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]]

    @property
    def executions(self) -> int:
        """How many executions it holds: the first so many, without a gap."""
        return len(self.sums) // 2


@dataclass(frozen=True)
class Contents:
    """What an archive says it holds. ``sha256`` is that of the whole file; ``drive`` the name where it was measured."""

    sha256: str
    drive: str
    cells: Sequence[ArchivedCell]

    def sums(self) -> dict[str, str]:
        """Return the SHA-256 of each member but the manifest, by path, in the archive's order."""
        found = {f"{cell.study}/{cell.name}/{file}": sum_ for cell in self.cells for file, sum_ in cell.sums.items()}
        return dict(sorted(found.items()))


class _Manifest(msgspec.Struct):
    """The first member of an archive."""

    drive: str
    cells: list[ArchivedCell]
    format: str = _FORMAT
    version: int = VERSION


class Origin(TypedDict):
    """Where the raw files of a drive come from: the archive's file name and sum, and the drive's name in it."""

    archive: str
    sha256: str
    drive: str


# ---- Packing


def pack(raw: Path, experiments: Mapping[str, Sequence[str]], output: Path) -> Contents:
    """Pack the raw files of a drive into the file ``output`` and return what it holds.

    ``raw`` is the drive's folder below data/raw. ``experiments`` has the names of the experiments that ask for each
    cell, by the cell's folder, ``<drive>/<study>/<cell>``; their order is that of the cells. The same raw files give
    the same bytes. ``output`` appears whole or not at all. Raises ArchiveError, and SidecarError for a raw file that is
    not what was measured.
    """
    _check_output(output, raw.name)
    by_cell: dict[str, list[Path]] = {}
    for path in sorted(raw.glob("*/*/*.json")):
        if _RAW_NAME.fullmatch(path.name):
            by_cell.setdefault("/".join(path.parts[-4:-1]), []).append(path)
    if not by_cell:
        there = sorted(path.name for path in raw.parent.glob("[!.]*") if any(path.glob("*/*/*.json")))
        raise ArchiveError(
            f"drive '{raw.name}': there are no raw files below {raw}. Measure it first, or name a drive that has"
            f" been measured: {', '.join(there) or 'none yet'}."
        )
    if not experiments.keys() & by_cell.keys():
        raise ArchiveError(
            f"drive '{raw.name}': none of the {len(by_cell)} cells below {raw} is one that config/ asks for, so that"
            " nobody could analyse them. Set runtime, warmup, file_size, seed and the studies to what was measured."
        )
    order = [folder for folder in experiments if folder in by_cell]
    order += [folder for folder in by_cell if folder not in experiments]
    found = [_packed(by_cell[folder], experiments.get(folder, ())) for folder in order]
    contents = Contents("", raw.name, found)
    files.write(output, lambda temporary: _write(temporary, raw, contents))
    return Contents(files.sha256(output), raw.name, found)


def _check_output(output: Path, drive: str) -> None:
    """Raise ArchiveError where ``output`` is something else than an archive of this drive, which a new one replaces."""
    if not output.exists():
        return
    try:
        there = f"an archive of drive '{read(output).drive}'"
    except ArchiveError:
        there = "something else than an archive"
    if there != f"an archive of drive '{drive}'":
        raise ArchiveError(f"{output}: {there} is there. Give another path with --output, or delete it.")


def _packed(raws: Sequence[Path], experiments: Sequence[str]) -> ArchivedCell:
    """Return the entry of a cell in the manifest. Raises ArchiveError where its files are not those of one cell."""
    cell = raws[0].parent
    for number, path in enumerate(raws, start=1):
        if path.stem != f"{number:02d}":
            raise ArchiveError(
                f"{cell}: {number:02d}.json is missing, though {path.name} is there. Run `snakemake --cores 1`, which"
                " measures it."
            )
    specifications = [read_sidecar(path)["specification"] for path in raws]
    paths = sorted([*raws, *map(sidecar_path, raws)])
    sums = {path.name: files.sha256(path) for path in paths}
    return ArchivedCell(cell.parent.name, cell.name, specifications[0], tuple(experiments), sums)


def _write(output: Path, raw: Path, contents: Contents) -> None:
    """Write the archive: no clock, no owner and no order of a folder goes into it."""
    manifest = msgspec.to_builtins(_Manifest(contents.drive, list(contents.cells)))
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    if len(text) > _MOST_MANIFEST_BYTES:
        raise ArchiveError(
            f"drive '{contents.drive}': has too many raw files for one archive: its {_MANIFEST} would have"
            f" {len(text)} bytes, and at most {_MOST_MANIFEST_BYTES} are read. Delete cells that nobody asks for."
        )
    with (
        lzma.open(output, "wb", preset=6) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        _add(tar, _MANIFEST, text.encode())
        for name in contents.sums():
            _add(tar, name, _content(raw / name))


def _content(path: Path) -> bytes:
    """Return the content of a file to pack. Raises ArchiveError where it is too large to be read again."""
    content = path.read_bytes()
    if len(content) > _MOST_MEMBER_BYTES:
        raise ArchiveError(
            f"{path}: has {len(content)} bytes, and a file in an archive has at most {_MOST_MEMBER_BYTES}. Measure its"
            " cell with group_reporting, and so with less to say of each job."
        )
    return content


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)  # made at second 0, by user 0
    header.size = len(content)
    header.mode = 0o644
    try:
        tar.addfile(header, io.BytesIO(content))
    except ValueError as error:
        raise ArchiveError(f"{name}: cannot be packed: {error}. Give the study a shorter name.") from None


# ---- Reading


class _TooLargeError(Exception):
    """An archive, or a part of it, is larger than any that this package makes; the message says what and how large."""


class _Stream:
    """What an xz file holds, decompressed no further than is asked for: damage shows in the member that has it."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MOST_MEMORY_BYTES)
        self._most_bytes = _MOST_EXPANSION * os.fstat(file.fileno()).st_size + _SMALL_BYTES
        self._read_bytes = 0

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end.

        Raises LZMAError or EOFError where the file is damaged, _TooLargeError where more comes out of it than a file of
        its size may hold.
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
                raise _TooLargeError(f"unpacks to more than {self._most_bytes} bytes, as no archive of its size does")
        return b"".join(parts)

    def exactly(self, size: int) -> bytes:
        """Return so many bytes, or raise EOFError where there are fewer."""
        content = self.read(size)
        if len(content) < size:
            raise EOFError
        return content

    def at_end(self) -> bool:
        """Return whether nothing but padding follows, in the archive and in the file; reads both to their ends."""
        while part := self.read(_CHUNK):
            if part.strip(b"\0"):
                return False
        return not self._xz.unused_data and not self._file.read(1)


class _Reader:
    """The members of an archive, one after the other, each checked as it is read."""

    def __init__(self, path: Path, file: io.BufferedReader) -> None:
        self._path = path
        self._stream = _Stream(file)

    def contents(self, sha256: str) -> Contents:
        """Return what the manifest says. Raises ArchiveError."""
        try:
            name, content = self._member(_MOST_MANIFEST_BYTES)
        except _TooLargeError as error:
            raise self._too_large(error) from None
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError):
            name, content = "", b""
        try:
            manifest: Any = msgspec.json.decode(content) if name == _MANIFEST else None
            is_archive = isinstance(manifest, dict) and manifest.get("format") == _FORMAT
        except (ValueError, RecursionError):
            is_archive = False
        if not is_archive:
            raise ArchiveError(
                f"{self._path}: not an archive of this package, or one whose first member, {_MANIFEST}, is damaged."
                f" {_COPY_AGAIN} (`iopatterns archive DRIVE` makes one)."
            )
        if manifest.get("version") != VERSION:
            version = messages.printable(manifest.get("version"))
            raise ArchiveError(
                f"{self._path}: an archive of format version {version}; this iopatterns reads version {VERSION}."
                " Analyse it with the iopatterns that made it, or have it made anew with this one."
            )
        try:
            checked = msgspec.convert(manifest, _Manifest)
            # `convert` leaves out keys that `Specification` does not declare
            found = [
                msgspec.structs.replace(cell, specification=entry["specification"])
                for cell, entry in zip(checked.cells, manifest["cells"], strict=True)
            ]
            for cell in found:
                self._check(cell)
            if len({(cell.study, cell.name) for cell in found}) < len(found):
                raise ValueError("a cell twice")
            if not _is_name(checked.drive):
                raise ValueError("drive")
            return Contents(sha256, checked.drive, found)
        except (ValueError, RecursionError) as error:
            raise ArchiveError(
                f"{self._path}: its {_MANIFEST} is not as version {VERSION} has it"
                f" ({messages.printable(error)}). {_COPY_AGAIN}."
            ) from None

    def _check(self, cell: ArchivedCell) -> None:
        """Raise ArchiveError unless the manifest lists a complete cell under names that are safe."""
        for part in (cell.study, cell.name, *cell.sums):
            if not _is_name(part):
                raise ArchiveError(self._escape(f"{cell.study}/{cell.name}/{part}"))
        raws = [Path(f"{number:02d}.json") for number in range(1, len(cell.sums) // 2 + 1)]
        expected = {path.name for raw in raws for path in (raw, sidecar_path(raw))}
        if not raws or cell.sums.keys() != expected or not cells.folder_matches(cell.name, cell.specification):
            raise ArchiveError(
                f"{self._path}: {_MANIFEST} does not list the executions of the cell {cell.study}/{cell.name}, first to"
                f" last, or not its specification. {_COPY_AGAIN}."
            )

    def _escape(self, name: str) -> str:
        return (
            f"{self._path}: its member '{messages.printable(name)}' would lead out of the drive's folder, or is no name"
            " of a file, so nothing was unpacked. No `iopatterns archive` writes such a thing: do not use this file."
        )

    def members(self, contents: Contents) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each member after the manifest; when all are yielded, the file is whole.

        Raises ArchiveError that names the member which is not what the manifest says.
        """
        for expected, sum_ in contents.sums().items():
            try:
                name, content = self._member(_MOST_MEMBER_BYTES)
            except _TooLargeError as error:
                raise self._too_large(error) from None
            except EOFError:
                raise ArchiveError(f"{self._path}: cut short, at its member {expected}. {_COPY_AGAIN}.") from None
            except (tarfile.TarError, lzma.LZMAError, ValueError):
                raise ArchiveError(self._damaged(expected)) from None
            if name != expected and (name.startswith("/") or ".." in name.split("/")):
                raise ArchiveError(self._escape(name))
            if name != expected or hashlib.sha256(content).hexdigest() != sum_:
                raise ArchiveError(self._damaged(expected))
            yield expected, content
        try:
            whole = self._stream.at_end()
        except EOFError:
            raise ArchiveError(f"{self._path}: cut short, after its last member. {_COPY_AGAIN}.") from None
        except _TooLargeError as error:
            raise self._too_large(error) from None
        except lzma.LZMAError:
            whole = False
        if not whole:
            raise ArchiveError(f"{self._path}: damaged after its last member. {_COPY_AGAIN}.")

    def _damaged(self, name: str) -> str:
        return f"{self._path}: damaged: its member {name} is not what was packed (SHA-256). {_COPY_AGAIN}."

    def _too_large(self, error: _TooLargeError) -> ArchiveError:
        return ArchiveError(f"{self._path}: {error}, so nothing was unpacked: do not use this file.")

    def _member(self, most_bytes: int) -> tuple[str, bytes]:
        """Return name and content of the next member. Raises _TooLargeError where that has more bytes than given."""
        header = tarfile.TarInfo.frombuf(self._stream.exactly(_BLOCK), "utf-8", "strict")
        if header.size < 0:
            raise ValueError("size")
        if header.size > most_bytes:
            name = messages.printable(header.name)
            raise _TooLargeError(f"has a member {name} of {header.size} bytes, and at most {most_bytes} are read")
        content = self._stream.exactly(header.size)
        self._stream.exactly(-header.size % _BLOCK)
        return header.name, content


def _is_name(text: str) -> bool:
    """Return whether a text is the name of one file or folder, and of no hidden one: no path made of such leads out."""
    return (
        text.isprintable()
        and text[:1] not in {"", "."}
        and "/" not in text
        and len(text.encode()) <= _LONGEST_NAME_BYTES
    )


def _opened(path: Path) -> io.BufferedReader:
    """Return an archive open for reading. Raises ArchiveError at once for what is no file, or too large for one."""
    try:
        # a fifo would otherwise wait for somebody who writes to it
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ArchiveError(f"{path}: there is no such file. Put the archive there, or give the path of one.") from None
    except (OSError, ValueError) as error:  # ValueError for a path that holds a zero byte
        what = error.strerror if isinstance(error, OSError) else str(error)
        raise ArchiveError(
            f"{messages.printable(path)}: cannot be read: {what}. Give the path of an archive."
        ) from None
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        os.close(descriptor)
        raise ArchiveError(f"{path}: not a file but {_kind(state.st_mode)}. Give the path of an archive.")
    if state.st_size > _MOST_ARCHIVE_BYTES:
        os.close(descriptor)
        raise ArchiveError(
            f"{path}: has {state.st_size} bytes, and an archive has at most {_MOST_ARCHIVE_BYTES}. Give the path of an"
            " archive."
        )
    return open(descriptor, "rb")


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a fifo", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def read(path: Path) -> Contents:
    """Return what an archive says it holds; its other members are not looked at. Raises ArchiveError."""
    with _opened(path) as file:
        contents = _Reader(path, file).contents("")  # first, for that is bounded whatever the file is
        file.seek(0)
        return dataclasses.replace(contents, sha256=hashlib.file_digest(file, "sha256").hexdigest())


# ---- Unpacking


def unpack(path: Path, raw: Path, sha256: str | None = None) -> int:
    """Lay the files of an archive out below ``raw``, byte for byte as packed; return how many raw files that are.

    ``raw`` is the folder of the drive below data/raw. Nothing is written before the whole archive is found to be good.
    What an archive left there before is replaced where it differs; what was measured here never is. Where ``sha256`` is
    given, the archive must still be the file with that sum. Raises ArchiveError.
    """
    contents = read(path)
    if sha256 not in {None, contents.sha256}:
        raise ArchiveError(f"{path}: has changed since the run was planned. Run again.")
    if not (raw / UNPACKED).exists() and any(raw.glob("*/*/*.json")):
        raise ArchiveError(
            f"{raw}: holds raw files that were measured here, which those of {path} would replace. Give the archived"
            f" drive another name in config/drives.yaml, or move {raw} away."
        )
    _each(path, contents, lambda *_: None)  # the first pass finds damage, the second writes
    about: Origin = {"archive": path.name, "sha256": contents.sha256, "drive": contents.drive}
    # first of all: whatever lies in the folder from here on was not measured here
    files.write_json(raw / UNPACKED, about)
    for leftover in raw.glob("*/*/.*.partial"):
        leftover.unlink()
    _each(path, contents, lambda name, content: _lay_out(raw / name, content))
    count = sum(cell.executions for cell in contents.cells)
    messages.say(f"{raw.name}: {count} executions of {len(contents.cells)} cells unpacked from {path}")
    return count


def _each(path: Path, contents: Contents, do: Callable[[str, bytes], object]) -> None:
    """Call ``do`` with path and content of each member but the manifest, each sidecar before its raw file.

    Raises ArchiveError where the archive no longer says that it holds ``contents``, or a member is none of these.
    """
    with _opened(path) as file:
        reader = _Reader(path, file)
        before: tuple[str, bytes] = ("", b"")
        if reader.contents(contents.sha256) != contents:
            raise ArchiveError(f"{path}: has changed while it was read. Run again.")
        for name, content in reader.members(contents):
            # a raw file stands before its sidecar, and must not be seen under its own name without it
            if name.endswith(_SIDECAR):
                do(name, content)
                do(*before)
            before = (name, content)


def _lay_out(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        os.utime(path)  # as new as if it were written, for Snakemake compares times with the archive's
    else:
        files.write(path, lambda temporary: temporary.write_bytes(content))


def origin(raw: Path) -> Origin | None:
    """Return where the raw files of a drive's folder come from; None where they were measured here."""
    try:
        return files.decode_json((raw / UNPACKED).read_bytes(), Origin)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{raw / UNPACKED}: not readable ({error}). Delete it and {raw}; both come again.") from None
