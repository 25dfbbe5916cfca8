"""Archives: all raw files of a drive in one file, for analysis on other machines.

An archive is a compressed tar file. Its first member, the manifest, lists the cells and the SHA-256 of every other
member: the raw files and their metadata files.
"""

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

from iopatterns.base import files, messages, ownership, sealed_tar
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.ownership import OutputFile
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import UNPACKED, metadata_path, read_metadata
from iopatterns.raw.records import Specification

# To be increased when older readers would misread a new archive. Since version 2, metadata files contain their own sum.
ARCHIVE_VERSION = 2
_METADATA_SUFFIX = ".sidecar.json"
_RAW_NAME = re.compile(r"\d{2,}\.json")


class ArchiveError(IoPatternsError):
    """The error raised if an archive cannot be made or is not valid.

    An archive is one file with all raw files of a drive. The message names the file and the problem, and says what the
    user can do.
    """


_FORMAT = sealed_tar.SealedTarFormat(
    "iopatterns archive", ARCHIVE_VERSION, "archive", "iopatterns archive DRIVE", ArchiveError
)


class ArchivedCell(msgspec.Struct, frozen=True, rename={"sums": "sha256"}):
    """The entry of one cell in the manifest (list of contents) of an archive.

    A cell is one configuration: a drive, its settings and a workload. In the manifest, the attribute `sums` has the key
    ``sha256``.

    Attributes:
        study: The name of the study that the cell belongs to.
        name: The name of the cell's folder, such as ``randread-4k-q1-j1-1a2b3c4d``. It ends with the first eight digits
            of the specification's SHA-256.
        specification: Everything that determines what is measured. Keys that this version of the package does not know
            are kept, because the SHA-256 covers them.
        experiments: The names of the study's experiments that used the cell when the archive was packed. Empty if none
            did.
        sums: The SHA-256 of each raw file and each metadata file, by file name.
    """

    study: str
    name: str
    specification: Specification
    experiments: tuple[str, ...]
    sums: Mapping[str, Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f]{64}\Z")]]

    @property
    def executions(self) -> int:
        """The number of repetitions. Each has a raw file and a metadata file."""
        return len(self.sums) // 2


@dataclass(frozen=True)
class ArchiveContents:
    """The content of an archive according to its manifest (list of contents).

    Attributes:
        sha256: The SHA-256 of the complete archive file.
        drive: The name that the drive had on the machine on which it was measured.
        cells: The cells (configurations of drive, settings and workload), in the order of the manifest.
    """

    sha256: str
    drive: str
    cells: Sequence[ArchivedCell]

    def sums(self) -> dict[str, str]:
        """Return the SHA-256 of each member of the archive except the manifest.

        The keys are the paths of the members, ``<study>/<cell>/<file>``, in sorted order. The members are raw files and
        metadata files.
        """
        found = {f"{cell.study}/{cell.name}/{file}": sum_ for cell in self.cells for file, sum_ in cell.sums.items()}
        return dict(sorted(found.items()))


class _Manifest(msgspec.Struct):
    """The content of ``manifest.json``, the first member of an archive.

    Attributes:
        drive: The name of the drive on the machine where it was measured.
        cells: One entry for each cell.
        format: The name of the archive format.
        version: The version of the archive format.
    """

    drive: str
    cells: list[ArchivedCell]
    format: str = _FORMAT.name
    version: int = ARCHIVE_VERSION


class ArchiveOrigin(TypedDict):
    """The archive from which the raw files of a drive were unpacked.

    The note ``.unpacked.json`` in the drive's folder below data/raw has these keys.

    Attributes:
        archive: The file name of the archive.
        sha256: The SHA-256 of the archive file.
        drive: The drive's name in the archive, which may differ from the drive's name in this project.
    """

    archive: str
    sha256: str
    drive: str


# ---- Packing


def pack_archive(
    raw: Path, experiments: Mapping[str, Sequence[str]], output: Path, *, overwrite: bool = False
) -> ArchiveContents:
    """Pack the raw files and metadata files of a drive into an archive.

    A raw file is the result of one repetition of a cell. A metadata file says how a raw file was made. The same files
    always give an archive with the same bytes. After an error, `output` is unchanged.

    Args:
        raw: The drive's folder below data/raw, such as ``data/raw/lab``.
        experiments: For each cell, the names of the experiments that use it. The keys are the paths of the cells'
            folders, ``<drive>/<study>/<cell>``. The archive lists these cells first, in the order of the keys. Cells
            that no experiment uses follow.
        output: The path of the archive. An older archive of the same drive is replaced.
        overwrite: Whether any other existing file is replaced.

    Returns:
        The content of the new archive.

    Raises:
        ArchiveError: One of these is true:

            - there are no raw files, or no experiment uses any of their cells
            - a repetition is missing
            - the archive would exceed a limit of the format
        MetadataError: A raw file or a metadata file has changed since it was measured.
        OutputError: `output` exists, is not an archive of this drive, and `overwrite` is false. Or `output` is a folder
            or a symbolic link.
    """
    archive_file = OutputFile(output, overwrite=overwrite, is_ours=lambda path: _is_archive_of(raw.name, path))
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
            f"drive '{raw.name}': config/ asks for none of the {len(by_cell)} cells below {raw}, so that the archive"
            " could not be analysed. Set runtime, warmup, file_size, seed and the studies to what was measured."
        )
    order = [folder for folder in experiments if folder in by_cell]
    order += [folder for folder in by_cell if folder not in experiments]
    found = [_packed(by_cell[folder], experiments.get(folder, ())) for folder in order]
    contents = ArchiveContents("", raw.name, found)
    with archive_file as temporary:
        _write(temporary, raw, contents)
    return ArchiveContents(files.sha256(output), raw.name, found)


def _is_archive_of(drive: str, path: Path) -> bool:
    """Return whether a file is an archive of a drive."""
    try:
        return read_archive(path).drive == drive
    except ArchiveError:
        return False


def _packed(raws: Sequence[Path], experiments: Sequence[str]) -> ArchivedCell:
    """Return the manifest entry of one cell.

    Args:
        raws: The raw files of the cell, sorted by name.
        experiments: The names of the experiments that use the cell.

    Raises:
        ArchiveError: The raw files are not numbered 01, 02, … without a gap.
        MetadataError: A raw file or a metadata file has changed since it was measured.
    """
    cell = raws[0].parent
    for number, path in enumerate(raws, start=1):
        if path.stem != f"{number:02d}":
            raise ArchiveError(
                f"{cell}: {number:02d}.json is missing, but {path.name} exists. Run `snakemake --cores 1` to measure"
                " the missing repetition."
            )
    specifications = [read_metadata(path)["specification"] for path in raws]
    paths = sorted([*raws, *map(metadata_path, raws)])
    sums = {path.name: files.sha256(path) for path in paths}
    return ArchivedCell(cell.parent.name, cell.name, specifications[0], tuple(experiments), sums)


def _write(output: Path, raw: Path, contents: ArchiveContents) -> None:
    """Write an archive whose bytes depend only on `contents` and on the packed files.

    They depend neither on the time, nor on the owner, nor on the order of files in a folder.

    Args:
        output: The path to write to.
        raw: The drive's folder below data/raw.
        contents: The cells and files to pack.

    Raises:
        ArchiveError: The manifest or a file would be too large, or the path of a member too long.
    """
    manifest = msgspec.to_builtins(_Manifest(contents.drive, list(contents.cells)))
    text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
    if len(text) > sealed_tar.MAX_MANIFEST_BYTES:
        raise ArchiveError(
            f"drive '{contents.drive}': has too many raw files for one archive: {sealed_tar.MANIFEST_MEMBER} would have"
            f" {len(text)} bytes; at most {sealed_tar.MAX_MANIFEST_BYTES} can be read again. Delete the cells that no"
            " study asks for."
        )
    members = ((name, _content(raw / name)) for name in contents.sums())
    try:
        sealed_tar.write_sealed_tar(output, itertools.chain([(sealed_tar.MANIFEST_MEMBER, text.encode())], members))
    except ValueError as error:
        raise ArchiveError(f"{error}. Give the study a shorter name.") from None


def _content(path: Path) -> bytes:
    """Return the bytes of a file to pack.

    Raises ArchiveError if the file is larger than the largest member that can be read from an archive.
    """
    content = path.read_bytes()
    if len(content) > sealed_tar.MAX_MEMBER_BYTES:
        raise ArchiveError(
            f"{path}: has {len(content)} bytes; a file in an archive has at most {sealed_tar.MAX_MEMBER_BYTES}."
            " Measure its cell with group_reporting, which writes one result for all jobs."
        )
    return content


# ---- Reading


def _contents(path: Path, reader: sealed_tar.SealedTarReader, sha256: str) -> ArchiveContents:
    """Return the content of an archive according to its manifest.

    Args:
        path: The path of the archive, for error messages.
        reader: The reader of the open archive, before its first member.
        sha256: The SHA-256 of the archive, which the result repeats.

    Raises:
        ArchiveError: The manifest is not valid.
    """
    manifest = reader.manifest()
    try:
        checked = msgspec.convert(manifest, _Manifest)
        # `convert` drops the keys that `Specification` does not declare, but the digest covers them
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
    """Raise ArchiveError unless the manifest entry of a cell is complete and safe.

    The entry must list a raw file and a metadata file for each repetition from 1, its folder name must match its
    specification, and none of its names may lead out of the folder.
    """
    for part in (cell.study, cell.name, *cell.sums):
        if not sealed_tar.is_plain_name(part):
            raise reader.escape(f"{cell.study}/{cell.name}/{part}")
    raws = [Path(f"{number:02d}.json") for number in range(1, len(cell.sums) // 2 + 1)]
    expected = {path.name for raw in raws for path in (raw, metadata_path(raw))}
    if not raws or cell.sums.keys() != expected or not cells.folder_matches(cell.name, cell.specification):
        raise ArchiveError(
            f"{path}: {sealed_tar.MANIFEST_MEMBER} does not list all repetitions of the cell {cell.study}/{cell.name},"
            f" or has the specification of another cell. {_FORMAT.copy_again}."
        )


def read_archive(path: Path) -> ArchiveContents:
    """Return the content of an archive according to its manifest (list of contents).

    The raw files in the archive are not unpacked or checked.

    Args:
        path: The path of the archive.

    Raises:
        ArchiveError: The file is not an archive, or its manifest is not valid.
    """
    with sealed_tar.open_sealed_tar(path, _FORMAT) as file:
        # before the checksum: reading the manifest is bounded in time and memory, even for a malicious file
        contents = _contents(path, sealed_tar.SealedTarReader(path, file, _FORMAT), "")
        file.seek(0)
        return dataclasses.replace(contents, sha256=hashlib.file_digest(file, "sha256").hexdigest())


# ---- Unpacking


def unpack_archive(path: Path, raw: Path, sha256: str | None = None) -> int:
    """Write the files of an archive below `raw`, byte for byte as they were packed.

    The complete archive is checked before anything is written. If `raw` has files from an earlier archive, files with
    the same path and other content are replaced. The note ``.unpacked.json`` in `raw` says which archive was unpacked.

    Args:
        path: The path of the archive.
        raw: The drive's folder below data/raw, such as ``data/raw/lab``.
        sha256: The expected SHA-256 of the archive file. With None, any archive is accepted.

    Returns:
        The number of raw files in the archive.

    Raises:
        ArchiveError: The archive is damaged or has another SHA-256, or `raw` contains files that were measured on this
            machine.
        OutputError: `raw` has files, and none of them is from an archive.
    """
    contents = read_archive(path)
    if sha256 not in {None, contents.sha256}:
        raise ArchiveError(f"{path}: has changed since the run was planned. Run again.")
    if not (raw / UNPACKED).exists() and any(raw.glob("*/*/*.json")):
        raise ArchiveError(
            f"{raw}: contains raw files that were measured on this machine, and {path} would replace them. Give the"
            f" archived drive another name in config/drives.yaml, or move {raw} away."
        )
    _visit_members(path, contents, lambda *_: None)  # the first pass finds damage, the second writes
    if not (raw / UNPACKED).exists():
        ownership.create_folder(str(raw))
    about: ArchiveOrigin = {"archive": path.name, "sha256": contents.sha256, "drive": contents.drive}
    # written first: from now on, the raw files in the folder were not measured on this machine
    files.write_json(raw / UNPACKED, about)
    for leftover in raw.glob("*/*/.*.partial"):
        leftover.unlink()
    _visit_members(path, contents, lambda name, content: _write_if_changed(raw / name, content))
    count = sum(cell.executions for cell in contents.cells)
    messages.say(f"{raw.name}: {count} repetitions of {len(contents.cells)} cells unpacked from {path}")
    return count


def _visit_members(path: Path, contents: ArchiveContents, do: Callable[[str, bytes], object]) -> None:
    """Call `do` with the path and the bytes of each member except the manifest.

    The metadata file of a raw file comes before the raw file.

    Args:
        path: The archive.
        contents: The content that the manifest is expected to list.
        do: The function to call.

    Raises:
        ArchiveError: A member is damaged, or the manifest no longer lists `contents`.
    """
    with sealed_tar.open_sealed_tar(path, _FORMAT) as file:
        reader = sealed_tar.SealedTarReader(path, file, _FORMAT)
        before: tuple[str, bytes] = ("", b"")
        if _contents(path, reader, contents.sha256) != contents:
            raise ArchiveError(f"{path}: has changed while it was read. Run again.")
        for name, content in reader.members(contents.sums()):
            # the archive has a raw file before its metadata file, but a raw file must never exist without one
            if name.endswith(_METADATA_SUFFIX):
                do(name, content)
                do(*before)
            before = (name, content)


def _write_if_changed(path: Path, content: bytes) -> None:
    if path.exists() and path.read_bytes() == content:
        os.utime(path)  # Snakemake compares its modification time with the time of the archive
    else:
        files.write_atomically(path, lambda temporary: temporary.write_bytes(content))


def read_origin(raw: Path) -> ArchiveOrigin | None:
    """Return the archive that the raw files of a drive were unpacked from.

    Args:
        raw: The drive's folder below data/raw, such as ``data/raw/lab``.

    Returns:
        The archive's file name and SHA-256, and the drive's name in it. None if the raw files were not unpacked from an
        archive.

    Raises:
        ArchiveError: The note about the archive, ``.unpacked.json``, is damaged.
    """
    try:
        return files.decode_json((raw / UNPACKED).read_bytes(), ArchiveOrigin)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{raw / UNPACKED}: not readable ({error}). Delete {raw}; it is unpacked again.") from None
