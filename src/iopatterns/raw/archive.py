"""Archives: the raw files of a drive in one file with their SHA-256 sums, analysed where there is no such drive."""

import dataclasses
import hashlib
import itertools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

import msgspec

from iopatterns.base import files, messages, sealed_tar
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import UNPACKED, metadata_path, read_metadata
from iopatterns.raw.records import Specification

# Raise it when an archive is written in a way that older readers would misread. Since 2 each sidecar holds its own sum
ARCHIVE_VERSION = 2
_SIDECAR = ".sidecar.json"
_RAW_NAME = re.compile(r"\d{2,}\.json")


class ArchiveError(IoPatternsError):
    """An archive cannot be made or is not what it should be; the message names it, the member, and what to do."""


_FORMAT = sealed_tar.SealedTarFormat(
    "iopatterns archive", ARCHIVE_VERSION, "archive", "iopatterns archive DRIVE", ArchiveError
)


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
class ArchiveContents:
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
    format: str = _FORMAT.name
    version: int = ARCHIVE_VERSION


class ArchiveOrigin(TypedDict):
    """Where the raw files of a drive come from: the archive's file name and sum, and the drive's name in it."""

    archive: str
    sha256: str
    drive: str


# ---- Packing


def pack_archive(raw: Path, experiments: Mapping[str, Sequence[str]], output: Path) -> ArchiveContents:
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
    contents = ArchiveContents("", raw.name, found)
    files.write_atomically(output, lambda temporary: _write(temporary, raw, contents))
    return ArchiveContents(files.sha256(output), raw.name, found)


def _check_output(output: Path, drive: str) -> None:
    """Raise ArchiveError where ``output`` is something else than an archive of this drive, which a new one replaces."""
    if not output.exists():
        return
    try:
        there = f"an archive of drive '{read_archive(output).drive}'"
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
    specifications = [read_metadata(path)["specification"] for path in raws]
    paths = sorted([*raws, *map(metadata_path, raws)])
    sums = {path.name: files.sha256(path) for path in paths}
    return ArchivedCell(cell.parent.name, cell.name, specifications[0], tuple(experiments), sums)


def _write(output: Path, raw: Path, contents: ArchiveContents) -> None:
    """Write the archive: no clock, no owner and no order of a folder goes into it."""
    manifest = msgspec.to_builtins(_Manifest(contents.drive, list(contents.cells)))
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    if len(text) > sealed_tar.MAX_MANIFEST_BYTES:
        raise ArchiveError(
            f"drive '{contents.drive}': has too many raw files for one archive: its {sealed_tar.MANIFEST_MEMBER} would have"
            f" {len(text)} bytes, and at most {sealed_tar.MAX_MANIFEST_BYTES} are read. Delete cells that nobody asks"
            " for."
        )
    members = ((name, _content(raw / name)) for name in contents.sums())
    try:
        sealed_tar.write_sealed_tar(output, itertools.chain([(sealed_tar.MANIFEST_MEMBER, text.encode())], members))
    except ValueError as error:
        raise ArchiveError(f"{error}. Give the study a shorter name.") from None


def _content(path: Path) -> bytes:
    """Return the content of a file to pack. Raises ArchiveError where it is too large to be read again."""
    content = path.read_bytes()
    if len(content) > sealed_tar.MAX_MEMBER_BYTES:
        raise ArchiveError(
            f"{path}: has {len(content)} bytes, and a file in an archive has at most {sealed_tar.MAX_MEMBER_BYTES}."
            " Measure its cell with group_reporting, and so with less to say of each job."
        )
    return content


# ---- Reading


def _contents(path: Path, reader: sealed_tar.SealedTarReader, sha256: str) -> ArchiveContents:
    """Return what the manifest of an archive lists. Raises ArchiveError."""
    manifest = reader.manifest()
    try:
        checked = msgspec.convert(manifest, _Manifest)
        # `convert` leaves out keys that `Specification` does not declare
        found = [
            msgspec.structs.replace(cell, specification=entry["specification"], sums=dict(sorted(cell.sums.items())))
            for cell, entry in zip(checked.cells, manifest["cells"], strict=True)
        ]
        for cell in found:
            _check(path, reader, cell)
        if len({(cell.study, cell.name) for cell in found}) < len(found):
            raise ValueError("a cell twice")
        if not sealed_tar.is_plain_name(checked.drive):
            raise ValueError("drive")
        return ArchiveContents(sha256, checked.drive, found)
    except (ValueError, RecursionError) as error:
        raise reader.malformed(error) from None


def _check(path: Path, reader: sealed_tar.SealedTarReader, cell: ArchivedCell) -> None:
    """Raise ArchiveError unless the manifest lists a complete cell under names that are safe."""
    for part in (cell.study, cell.name, *cell.sums):
        if not sealed_tar.is_plain_name(part):
            raise reader.escape(f"{cell.study}/{cell.name}/{part}")
    raws = [Path(f"{number:02d}.json") for number in range(1, len(cell.sums) // 2 + 1)]
    expected = {path.name for raw in raws for path in (raw, metadata_path(raw))}
    if not raws or cell.sums.keys() != expected or not cells.folder_matches(cell.name, cell.specification):
        raise ArchiveError(
            f"{path}: {sealed_tar.MANIFEST_MEMBER} does not list the executions of the cell {cell.study}/{cell.name}, first to"
            f" last, or not its specification. {_FORMAT.copy_again}."
        )


def read_archive(path: Path) -> ArchiveContents:
    """Return what an archive says it holds; its other members are not looked at. Raises ArchiveError."""
    with sealed_tar.open_sealed_tar(path, _FORMAT) as file:
        contents = _contents(
            path, sealed_tar.SealedTarReader(path, file, _FORMAT), ""
        )  # first, for that is bounded whatever the file is
        file.seek(0)
        return dataclasses.replace(contents, sha256=hashlib.file_digest(file, "sha256").hexdigest())


# ---- Unpacking


def unpack_archive(path: Path, raw: Path, sha256: str | None = None) -> int:
    """Lay the files of an archive out below ``raw``, byte for byte as packed; return how many raw files that are.

    ``raw`` is the folder of the drive below data/raw. Nothing is written before the whole archive is found to be good.
    What an archive left there before is replaced where it differs; what was measured here never is. Where ``sha256`` is
    given, the archive must still be the file with that sum. Raises ArchiveError.
    """
    contents = read_archive(path)
    if sha256 not in {None, contents.sha256}:
        raise ArchiveError(f"{path}: has changed since the run was planned. Run again.")
    if not (raw / UNPACKED).exists() and any(raw.glob("*/*/*.json")):
        raise ArchiveError(
            f"{raw}: holds raw files that were measured here, which those of {path} would replace. Give the archived"
            f" drive another name in config/drives.yaml, or move {raw} away."
        )
    _each(path, contents, lambda *_: None)  # the first pass finds damage, the second writes
    about: ArchiveOrigin = {"archive": path.name, "sha256": contents.sha256, "drive": contents.drive}
    # first of all: whatever lies in the folder from here on was not measured here
    files.write_json(raw / UNPACKED, about)
    for leftover in raw.glob("*/*/.*.partial"):
        leftover.unlink()
    _each(path, contents, lambda name, content: _lay_out(raw / name, content))
    count = sum(cell.executions for cell in contents.cells)
    messages.say(f"{raw.name}: {count} executions of {len(contents.cells)} cells unpacked from {path}")
    return count


def _each(path: Path, contents: ArchiveContents, do: Callable[[str, bytes], object]) -> None:
    """Call ``do`` with path and content of each member but the manifest, each sidecar before its raw file.

    Raises ArchiveError where the archive no longer says that it holds ``contents``, or a member is none of these.
    """
    with sealed_tar.open_sealed_tar(path, _FORMAT) as file:
        reader = sealed_tar.SealedTarReader(path, file, _FORMAT)
        before: tuple[str, bytes] = ("", b"")
        if _contents(path, reader, contents.sha256) != contents:
            raise ArchiveError(f"{path}: has changed while it was read. Run again.")
        for name, content in reader.members(contents.sums()):
            # a raw file stands before its sidecar, and must not be seen under its own name without it
            if name.endswith(_SIDECAR):
                do(name, content)
                do(*before)
            before = (name, content)


def _lay_out(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        os.utime(path)  # as new as if it were written, for Snakemake compares times with the archive's
    else:
        files.write_atomically(path, lambda temporary: temporary.write_bytes(content))


def read_origin(raw: Path) -> ArchiveOrigin | None:
    """Return where the raw files of a drive's folder come from; None where they were measured here."""
    try:
        return files.decode_json((raw / UNPACKED).read_bytes(), ArchiveOrigin)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{raw / UNPACKED}: not readable ({error}). Delete it and {raw}; both come again.") from None
