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
from typing import Any, TypedDict, cast

from iopatterns.base import files, messages, sealed_tar
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw import cells
from iopatterns.raw.records import Specification
from iopatterns.raw.sidecars import UNPACKED, read_sidecar, sidecar_path

# Raise it when an archive is written in a way that older readers would misread. Since 2 each sidecar holds its own sum
VERSION = 2
_SIDECAR = ".sidecar.json"
_RAW_NAME = re.compile(r"\d{2,}\.json")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class ArchiveError(IoPatternsError):
    """An archive cannot be made or is not what it should be; the message names it, the member, and what to do."""


_FORMAT = sealed_tar.Format("iopatterns archive", VERSION, "archive", "iopatterns archive DRIVE", ArchiveError)


@dataclass(frozen=True)
class ArchivedCell:
    """One cell of an archive.

    ``experiments``: those of the study that asked for it where it was measured, none for a cell left from an earlier
    configuration. ``sums``: the SHA-256 of each raw file and each sidecar, by file name.
    """

    study: str
    name: str
    specification: Specification
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


class Origin(TypedDict):
    """Where the raw files of a drive come from: the archive's file name and sum, and the drive's name in it."""

    archive: str
    sha256: str
    drive: str


# ---- Packing


def pack(raw: Path, experiments: Mapping[str, str], output: Path) -> Contents:
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
    paths = sorted([*raws, *map(sidecar_path, raws)])
    sums = {path.name: files.sha256(path) for path in paths}
    return ArchivedCell(cell.parent.name, cell.name, specifications[0], tuple(experiments), sums)


def _write(output: Path, raw: Path, contents: Contents) -> None:
    """Write the archive: no clock, no owner and no order of a folder goes into it."""
    manifest = {
        "format": _FORMAT.name,
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
    if len(text) > sealed_tar.MOST_MANIFEST_BYTES:
        raise ArchiveError(
            f"drive '{contents.drive}': has too many raw files for one archive: its {sealed_tar.MANIFEST} would have"
            f" {len(text)} bytes, and at most {sealed_tar.MOST_MANIFEST_BYTES} are read. Delete cells that nobody asks"
            " for."
        )
    members = ((name, _content(raw / name)) for name in contents.sums())
    try:
        sealed_tar.write(output, itertools.chain([(sealed_tar.MANIFEST, text.encode())], members))
    except ValueError as error:
        raise ArchiveError(f"{error}. Give the study a shorter name.") from None


def _content(path: Path) -> bytes:
    """Return the content of a file to pack. Raises ArchiveError where it is too large to be read again."""
    content = path.read_bytes()
    if len(content) > sealed_tar.MOST_MEMBER_BYTES:
        raise ArchiveError(
            f"{path}: has {len(content)} bytes, and a file in an archive has at most {sealed_tar.MOST_MEMBER_BYTES}."
            " Measure its cell with group_reporting, and so with less to say of each job."
        )
    return content


# ---- Reading


def _contents(path: Path, reader: sealed_tar.Reader, sha256: str) -> Contents:
    """Return what the manifest of an archive lists. Raises ArchiveError."""
    manifest = reader.manifest()
    try:
        found = [_cell(path, reader, entry) for entry in manifest["cells"]]
        if len({(cell.study, cell.name) for cell in found}) < len(found):
            raise ValueError("a cell twice")
        if not isinstance(manifest["drive"], str) or not sealed_tar.is_name(manifest["drive"]):
            raise ValueError("drive")
        return Contents(sha256, manifest["drive"], found)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise reader.malformed(repr(error)) from None


def _cell(path: Path, reader: sealed_tar.Reader, entry: Mapping[str, Any]) -> ArchivedCell:
    study, name, sums = entry["study"], entry["name"], dict(sorted(entry["sha256"].items()))
    experiments, specification = entry["experiments"], entry["specification"]
    if not isinstance(experiments, list) or not all(isinstance(each, str) for each in experiments):
        raise TypeError("experiments")
    if not isinstance(specification, dict) or not all(isinstance(specification[key], dict) for key in ("drive", "fio")):
        raise TypeError("specification")
    for part in (study, name, *sums):
        if not sealed_tar.is_name(part):
            raise reader.escape(f"{study}/{name}/{part}")
    if not all(isinstance(sum_, str) and _SHA256.fullmatch(sum_) for sum_ in sums.values()):
        raise TypeError("sha256")
    raws = [Path(f"{number:02d}.json") for number in range(1, len(sums) // 2 + 1)]
    expected = {path.name for raw in raws for path in (raw, sidecar_path(raw))}
    if not raws or sums.keys() != expected or not cells.names(name, specification):
        raise ArchiveError(
            f"{path}: {sealed_tar.MANIFEST} does not list the executions of the cell {study}/{name}, first to last, or"
            f" not its specification. {_FORMAT.copy_again}."
        )
    return ArchivedCell(study, name, cast(Specification, specification), tuple(experiments), sums)


def read(path: Path) -> Contents:
    """Return what an archive says it holds; its other members are not looked at. Raises ArchiveError."""
    with sealed_tar.opened(path, _FORMAT) as file:
        contents = _contents(
            path, sealed_tar.Reader(path, file, _FORMAT), ""
        )  # first, for that is bounded whatever the file is
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
    with sealed_tar.opened(path, _FORMAT) as file:
        reader = sealed_tar.Reader(path, file, _FORMAT)
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
        files.write(path, lambda temporary: temporary.write_bytes(content))


def origin(raw: Path) -> Origin | None:
    """Return where the raw files of a drive's folder come from; None where they were measured here."""
    try:
        about: Origin = json.loads((raw / UNPACKED).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{raw / UNPACKED}: not readable ({error}). Delete it and {raw}; both come again.") from None
    return about
