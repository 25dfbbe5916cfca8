"""Archives: the raw files of a drive in one file with their SHA-256 sums, analysed where there is no such drive."""

import hashlib
import io
import json
import lzma
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from iopatterns import cells, files, messages
from iopatterns.errors import IoPatternsError
from iopatterns.measure import UNPACKED, read_sidecar, sidecar_path

# Raise it when an archive is written in a way that older readers would misread
VERSION = 1
_FORMAT = "iopatterns archive"
_MANIFEST = "manifest.json"
_SIDECAR = ".sidecar.json"
_BLOCK = 512  # POSIX.1-2017, pax, "ustar Interchange Format": headers and contents are padded to it
_CHUNK = 2**16
_RAW_NAME = re.compile(r"\d{2,}\.json")
# A study's or a cell's name is one folder, and no hidden one: so no path made of them leads out
_FOLDER_NAME = re.compile(r"[^./\0][^/\0]*")
_COPY_AGAIN = "Copy the archive anew from where it was made"


class ArchiveError(IoPatternsError):
    """An archive cannot be made or is not what it should be; the message names it, the member, and what to do."""


@dataclass(frozen=True)
class ArchivedCell:
    """One cell of an archive.

    ``experiments``: those of the study that asked for it where it was measured, none for a cell left from an earlier
    configuration. ``sums``: the SHA-256 of each raw file and each sidecar, by file name.
    """

    study: str
    name: str
    specification: Mapping[str, Any]
    experiments: tuple[str, ...]
    sums: Mapping[str, str]

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


# ---- Packing


def pack(raw: Path, experiments: Mapping[str, str], output: Path) -> Contents:
    """Pack the raw files of a drive into the file ``output`` and return what it holds.

    ``raw`` is the drive's folder below data/raw. ``experiments`` has the names of the experiments that ask for each
    cell, by the cell's folder, ``<drive>/<study>/<cell>``; their order is that of the cells. The same raw files give
    the same bytes. ``output`` appears whole or not at all. Raises ArchiveError, and MeasureError for a raw file that is
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
    found = [_packed(by_cell[folder], experiments.get(folder, "").split()) for folder in order]
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
    if any(cells.digest(each) != cells.digest(specifications[0]) for each in specifications) or not _is_name_of(
        cell.name, specifications[0]
    ):
        raise ArchiveError(
            f"{cell}: its sidecars are not of the cell that its name says. Delete it, and measure it anew."
        )
    paths = sorted([*raws, *map(sidecar_path, raws)])
    sums = {path.name: files.sha256(path) for path in paths}
    return ArchivedCell(cell.parent.name, cell.name, specifications[0], tuple(experiments), sums)


def _is_name_of(cell: str, specification: Mapping[str, Any]) -> bool:
    return cell.endswith(f"-{cells.digest(specification)[:8]}")


def _write(output: Path, raw: Path, contents: Contents) -> None:
    """Write the archive: no clock, no owner and no order of a folder goes into it."""
    manifest = {
        "format": _FORMAT,
        "version": VERSION,
        "drive": contents.drive,
        "cells": [
            {
                "study": cell.study,
                "name": cell.name,
                "specification": cell.specification,
                "experiments": list(cell.experiments),
                "sha256": cell.sums,
            }
            for cell in contents.cells
        ],
    }
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    with (
        lzma.open(output, "wb", preset=6) as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        _add(tar, _MANIFEST, text.encode())
        for name in contents.sums():
            _add(tar, name, (raw / name).read_bytes())


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    header = tarfile.TarInfo(name)  # made at second 0, by user 0
    header.size = len(content)
    header.mode = 0o644
    try:
        tar.addfile(header, io.BytesIO(content))
    except ValueError as error:
        raise ArchiveError(f"{name}: cannot be packed: {error}. Give the study a shorter name.") from None


# ---- Reading


class _Stream:
    """What an xz file holds, decompressed no further than is asked for: damage shows in the member that has it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._xz = lzma.LZMADecompressor(lzma.FORMAT_XZ)

    def read(self, size: int) -> bytes:
        """Return so many bytes, fewer only at the end. Raises LZMAError or EOFError where the file is damaged."""
        parts, left = [], size
        while left > 0 and not self._xz.eof:
            data = self._file.read(_CHUNK) if self._xz.needs_input else b""
            if self._xz.needs_input and not data:
                raise EOFError
            part = self._xz.decompress(data, max_length=left)
            parts.append(part)
            left -= len(part)
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

    def __init__(self, path: Path, file: BinaryIO) -> None:
        self._path = path
        self._stream = _Stream(file)

    def contents(self, sha256: str) -> Contents:
        """Return what the manifest says. Raises ArchiveError."""
        try:
            name, content = self._member()
        except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError):
            name, content = "", b""
        try:
            manifest: Any = json.loads(content) if name == _MANIFEST else None
            is_archive = manifest["format"] == _FORMAT if isinstance(manifest, dict) else False
        except (ValueError, KeyError, RecursionError):
            is_archive = False
        if not is_archive:
            raise ArchiveError(
                f"{self._path}: not an archive of this package, or one whose first member, {_MANIFEST}, is damaged."
                f" {_COPY_AGAIN} (`iopatterns archive DRIVE` makes one)."
            )
        if manifest.get("version") != VERSION:
            raise ArchiveError(
                f"{self._path}: an archive of format version {manifest.get('version')}; this iopatterns reads version"
                f" {VERSION}. Analyse it with the iopatterns that made it, or have it made anew with this one."
            )
        try:
            found = [self._cell(entry) for entry in manifest["cells"]]
            if len({(cell.study, cell.name) for cell in found}) < len(found):
                raise ValueError("a cell twice")
            return Contents(sha256, str(manifest["drive"]), found)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ArchiveError(
                f"{self._path}: its {_MANIFEST} is not as version {VERSION} has it ({error!r}). {_COPY_AGAIN}."
            ) from None

    def _cell(self, entry: Mapping[str, Any]) -> ArchivedCell:
        study, name, sums = entry["study"], entry["name"], dict(sorted(entry["sha256"].items()))
        if not isinstance(entry["experiments"], list):
            raise TypeError("experiments")
        for part in (study, name, *sums):
            if not _FOLDER_NAME.fullmatch(part):
                raise ArchiveError(self._escape(f"{study}/{name}/{part}"))
        raws = [Path(f"{number:02d}.json") for number in range(1, len(sums) // 2 + 1)]
        expected = {path.name for raw in raws for path in (raw, sidecar_path(raw))}
        if not raws or sums.keys() != expected or not _is_name_of(name, entry["specification"]):
            raise ArchiveError(
                f"{self._path}: {_MANIFEST} does not list the executions of the cell {study}/{name}, first to last, or"
                f" not its specification. {_COPY_AGAIN}."
            )
        return ArchivedCell(study, name, entry["specification"], tuple(entry["experiments"]), sums)

    def _escape(self, name: str) -> str:
        return (
            f"{self._path}: its member {name!r} would lead out of the drive's folder, so nothing was unpacked. No"
            " `iopatterns archive` writes such a thing: do not use this file."
        )

    def members(self, contents: Contents) -> Iterator[tuple[str, bytes]]:
        """Yield path and content of each member after the manifest; when all are yielded, the file is whole.

        Raises ArchiveError that names the member which is not what the manifest says.
        """
        for expected, sum_ in contents.sums().items():
            try:
                name, content = self._member()
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
        except lzma.LZMAError:
            whole = False
        if not whole:
            raise ArchiveError(f"{self._path}: damaged after its last member. {_COPY_AGAIN}.")

    def _damaged(self, name: str) -> str:
        return f"{self._path}: damaged: its member {name} is not what was packed (SHA-256). {_COPY_AGAIN}."

    def _member(self) -> tuple[str, bytes]:
        header = tarfile.TarInfo.frombuf(self._stream.exactly(_BLOCK), "utf-8", "strict")
        content = self._stream.exactly(header.size)
        self._stream.exactly(-header.size % _BLOCK)
        return header.name, content


def _opened(path: Path) -> BinaryIO:
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise ArchiveError(f"{path}: there is no such file. Put the archive there, or give the path of one.") from None
    except OSError as error:
        raise ArchiveError(f"{path}: cannot be read: {error.strerror}. Give the path of an archive.") from None


def read(path: Path) -> Contents:
    """Return what an archive says it holds; its other members are not looked at. Raises ArchiveError."""
    with _opened(path) as file:
        sha256 = files.sha256(path)
        return _Reader(path, file).contents(sha256)


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
    _each(path, lambda *_: None)  # the first pass finds damage, the second writes
    about = {"archive": path.name, "sha256": contents.sha256, "drive": contents.drive}
    # first of all: whatever lies in the folder from here on was not measured here
    files.write_json(raw / UNPACKED, about)
    for leftover in raw.glob("*/*/.*.partial"):
        leftover.unlink()
    _each(path, lambda name, content: _lay_out(raw / name, content))
    count = sum(cell.executions for cell in contents.cells)
    messages.say(f"{raw.name}: {count} executions of {len(contents.cells)} cells unpacked from {path}")
    return count


def _each(path: Path, do: Callable[[str, bytes], object]) -> None:
    """Call ``do`` with path and content of each member but the manifest, each sidecar before its raw file."""
    with _opened(path) as file:
        reader = _Reader(path, file)
        before: tuple[str, bytes] = ("", b"")
        for name, content in reader.members(reader.contents("")):
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


def origin(raw: Path) -> dict[str, str] | None:
    """Return where the raw files of a drive's folder come from: archive (file name), sha256, drive (its name there).

    None where they were measured here.
    """
    try:
        about: dict[str, str] = json.loads((raw / UNPACKED).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{raw / UNPACKED}: not readable ({error}). Delete it and {raw}; both come again.") from None
    return about
