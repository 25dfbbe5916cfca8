"""The cells of a run's studies, their repetitions and existing raw files.

A cell is one configuration: a drive, its settings and a workload. A repetition is one run of fio for a cell, and writes
one raw file.
"""

import contextlib
import enum
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from iopatterns.base.checksum_cache import ChecksumCache
from iopatterns.configuration import config, grid, kinds
from iopatterns.measuring import builds
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.raw.metadata_files import UNPACKED, metadata_path
from iopatterns.workflow import capture

PROGRESS_FILE = f"{RAW_FOLDER}/.progress"


class StopReason(enum.Enum):
    """Which file limits the number of repetitions of a cell.

    A repetition is one run of fio for a cell. A cell is one configuration: a drive, its settings and a workload. The
    value of each member is a text for the user, such as ``repetitions of the study's file``.
    """

    CONFIGURATION = f"repetitions of {config.CONFIG_FILE}"
    STUDY = "repetitions of the study's file"


@dataclass(frozen=True, slots=True)
class Completion:
    """The number of repetitions that a cell needs, and what sets this number.

    A repetition is one run of fio for a cell. A cell is one configuration: a drive, its settings and a workload.

    Attributes:
        repetitions: The number of repetitions.
        reason: The file that sets this number: config/config.yaml or the study's own file.
    """

    repetitions: int
    reason: StopReason


class ArchiveFile(NamedTuple):
    """The file with the packed raw files of a drive that was measured elsewhere.

    Attributes:
        path: The path of the file, as in the drive's entry in config/drives.yaml.
        sha256: The SHA-256 checksum of the file.
    """

    path: str
    sha256: str


@dataclass(frozen=True)
class Cells:
    """The cells of a run, and the files that existed when the run was planned.

    A cell is one configuration to measure: a drive, its settings and a workload. Each repetition (run of fio) of a cell
    gives one raw file. The raw files of a cell are in a folder of the cell. In the attributes, the path of this folder
    below data/raw identifies the cell, such as ``c400/saif2020/randread-4k-q1-j1-1a2b3c4d``.

    Attributes:
        config: The checked configuration of the run.
        by_study: The cells of each study, by folder. Drives are in the order of config/config.yaml, and the cells of a
            drive in the order of the study's file.
        completions: The number of repetitions of each cell, by folder.
        modified_ns: The modification time of each existing file of a cell in nanoseconds, by folder and file name. Raw
            files of simulated drives that another simulator or another fio made are left out, because they are measured
            again.
        outdated: The folders of the cells that have such raw files.
        raw_folder: The folder of the raw files, relative to the project's folder.
    """

    config: config.Config
    by_study: Mapping[str, Mapping[str, grid.Cell]]
    completions: Mapping[str, Completion]
    modified_ns: Mapping[str, Mapping[str, int]]
    outdated: frozenset[str] = frozenset()
    raw_folder: str = RAW_FOLDER

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self.config.root

    @property
    def studies(self) -> list[str]:
        """The names of the configured studies, in the order of config/config.yaml."""
        return list(self.by_study)

    def __iter__(self) -> Iterator[grid.Cell]:
        """Iterate over the cells of all studies, study by study."""
        for of_study in self.by_study.values():
            yield from of_study.values()

    def of_study(self, study: str, drive: str | None = None) -> list[grid.Cell]:
        """Return the cells of a study, drive by drive.

        Drives are in the order of config/config.yaml, and the cells of a drive in the order of the study's file.

        Args:
            study: The name of the study.
            drive: The drive whose cells are returned; None for the cells of all drives.

        Raises:
            KeyError: The study is not configured.
        """
        return [cell for cell in self.by_study[study].values() if drive in {None, cell.drive}]

    def of_files(self, raw_files: Iterable[str]) -> list[grid.Cell]:
        """Return the cells to which raw files belong, each cell once.

        A raw file is what fio wrote in one repetition of a cell.

        Args:
            raw_files: Paths of raw files relative to the project's folder, such as
                ``data/raw/c400/saif2020/randread-4k-q1-j1-1a2b3c4d/01.json``.

        Raises:
            KeyError: A raw file belongs to no cell of the run.
        """
        folders = dict.fromkeys(raw.removeprefix(f"{self.raw_folder}/").rpartition("/")[0] for raw in raw_files)
        return [self.by_study[folder.split("/")[1]][folder] for folder in folders]

    def raw_files(self, cells: Iterable[grid.Cell]) -> list[str]:
        """Return the paths of all raw files that some cells need, existing or not.

        There is one raw file for each repetition (run of fio) of a cell. The paths are relative to the project's
        folder.
        """
        return [f"{self.raw_folder}/{cell.folder}/{name}" for cell in cells for name in self._names(cell)]

    def missing(self, cells: Iterable[grid.Cell]) -> list[str]:
        """Return the paths of raw files of some cells that have not been measured.

        The paths are relative to the project's folder. The result describes the files at the time at which the run was
        planned: a raw file that was written later still counts as missing. A raw file of a simulated drive counts as
        missing, too, if another simulator or another fio made it.
        """
        return [
            f"{self.raw_folder}/{cell.folder}/{name}"
            for cell in cells
            for name in self._names(cell)
            if name not in self.modified_ns[cell.folder]
        ]

    def unfinished(self, cells: Iterable[grid.Cell]) -> list[grid.Cell]:
        """Return the given cells that have missing raw files, see `Cells.missing`."""
        return [cell for cell in cells if self.missing([cell])]

    def declared_outputs(self, cells: Iterable[grid.Cell]) -> list[str]:
        """Return the raw files to declare to Snakemake as outputs of the cells.

        The last raw file of each cell is declared. Repetitions are measured in order, so the last raw file shows that
        all earlier raw files were measured. If the last raw file exists, each earlier raw file that is missing or newer
        than the last one is declared, too.

        Few declared files save time and memory of Snakemake. The paths are relative to the project's folder.
        """
        found = []
        for cell in cells:
            *others, last = self._names(cell)
            modified_ns = self.modified_ns[cell.folder]
            newer = [name for name in others if last in modified_ns and _is_newer(name, last, modified_ns)]
            found += [f"{self.raw_folder}/{cell.folder}/{name}" for name in (*newer, last)]
        return found

    def experiments(self, study: str) -> dict[str, list[str]]:
        """Return the names of the experiments that contain each cell of a study.

        A study consists of experiments. Several experiments may contain the same cell.

        Args:
            study: The name of the study.

        Returns:
            A list of names for each cell. The key is the folder of the cell below data/raw.
        """
        return {folder: list(cell.experiments) for folder, cell in self.by_study[study].items()}

    def own_repetitions(self) -> dict[str, int]:
        """Return the number of repetitions of each study whose own file sets the number.

        For the studies that are left out, config/config.yaml sets the number.
        """
        completions = {study: self.completions[next(iter(cells))] for study, cells in self.by_study.items()}
        return {study: each.repetitions for study, each in completions.items() if each.reason is StopReason.STUDY}

    def _names(self, cell: grid.Cell) -> list[str]:
        return [f"{name}.json" for name in grid.repetition_names(self.completions[cell.folder].repetitions)]


def load_cells(root: Path, overrides: Mapping[str, Any] | None = None, cache: ChecksumCache | None = None) -> Cells:
    """Load a project's configuration; return its cells and their existing raw files.

    A cell is one configuration to measure: a drive, its settings and a workload.

    Args:
        root: The project's folder.
        overrides: Values that replace keys of config/config.yaml, such as ``{"repetitions": 3}``.
        cache: A cache of facts about unchanged files, with which the function looks for raw files that another
            simulator or another fio made. None: such raw files are not looked for.

    Raises:
        ConfigError: The configuration is invalid, or a study has no cell on any of the drives.
        CaptureError: Traces are to be recorded, but the Linux kernel for recording has not been built.
    """
    conf = config.load_config(root, overrides)
    if conf.live:
        conf = replace(conf, recordings=capture.planned_recordings(root, conf.studies))
    by_study = {study: {cell.folder: cell for cell in grid.expand_grid(conf, study)} for study in conf.studies}
    for study, cells in by_study.items():
        if not cells:
            raise grid.GridError(f"{config.CONFIG_FILE}: drives: {_no_drive(conf, study)}")
    stats = {folder: _stats(root / RAW_FOLDER / folder) for cells in by_study.values() for folder in cells}
    outdated: dict[str, list[str]] = {}
    if cache is not None:
        twins = {drive for drive, entry in conf.drives.items() if kinds.is_simulated(entry)}
        outdated = {
            cell.folder: _outdated(root / RAW_FOLDER / cell.folder, stats[cell.folder], cache)
            for cells in by_study.values()
            for cell in cells.values()
            if cell.drive in twins
        }
    return Cells(
        conf,
        by_study,
        {folder: _completion(conf, study) for study, cells in by_study.items() for folder in cells},
        {
            folder: {name: each.st_mtime_ns for name, each in found.items() if name not in outdated.get(folder, ())}
            for folder, found in stats.items()
        },
        frozenset(folder for folder, names in outdated.items() if names),
    )


def _outdated(folder: Path, stats: Mapping[str, os.stat_result], cache: ChecksumCache) -> list[str]:
    """Return the names of raw files that another simulator or another fio made.

    Args:
        folder: The folder of a cell on a simulated drive.
        stats: The results of ``stat`` of the files in the folder, by name.
        cache: A cache of facts about unchanged files.
    """
    raws = [name for name in stats if f"{metadata_path(Path(name))}" in stats]
    if not raws:
        return []
    lines = cache.text(f"programs:{folder}", stats, lambda: _programs(folder, raws)).splitlines()
    by_programs = dict(line.rsplit(": ", 1) for line in lines)
    return [
        name for programs, names in by_programs.items() if not builds.are_current(programs) for name in names.split()
    ]


def _programs(folder: Path, raws: Iterable[str]) -> str:
    """Return which programs made raw files, as text.

    The text has a line ``PROGRAMS: NAMES`` for each combination of programs, with the names of its raw files. Raw files
    whose metadata cannot be read are left out. They are reported when they are used.
    """
    found: dict[str, list[str]] = {}
    for name in sorted(raws):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            metadata = json.loads(metadata_path(folder / name).read_bytes())
            found.setdefault(builds.programs_of(metadata), []).append(name)
    return "\n".join(f"{programs}: {' '.join(names)}" for programs, names in found.items())


def archives_by_drive(conf: config.Config) -> dict[str, ArchiveFile]:
    """Return the archive of each drive that was measured elsewhere, by drive name.

    An archive is a file with the packed raw files of a drive. The entry of such a drive in config/drives.yaml has the
    path of the archive instead of a disk.
    """
    return {
        drive: ArchiveFile(os.path.normpath(entry["path"]), entry["contents"].sha256)
        for drive, entry in conf.drives.items()
        if kinds.is_archived(entry)
    }


def unpacked_marker(drive: str) -> str:
    """Return the path of the file that marks the archive of a drive as unpacked.

    The archive contains the packed raw files of a drive that was measured elsewhere. The returned path is in
    data/raw/<drive>, relative to the project's folder. The file need not exist.

    Args:
        drive: The name of the drive.
    """
    return f"{RAW_FOLDER}/{drive}/{UNPACKED}"


def _completion(conf: config.Config, study: str) -> Completion:
    has_own = "repetitions" in conf.studies[study]
    return Completion(grid.repetitions(conf, study), StopReason.STUDY if has_own else StopReason.CONFIGURATION)


def _no_drive(conf: config.Config, study: str) -> str:
    """Return a message that no configured drive has a cell of a study, with a remedy."""
    experiments = conf.studies[study]["experiments"].values()
    named = list(dict.fromkeys(drive for body in experiments for drive in body.get("drives", ())))
    remedy = f"Add a drive that the study names ({', '.join(named)})" if named else "Name drives in its file"
    return f"none has a cell of the study {study}. {remedy}, or add a drive that no study names."


def _stats(folder: Path) -> dict[str, os.stat_result]:
    """Return the results of ``stat`` of the files in a folder, by name.

    The result is empty if there is no folder.
    """
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat() for entry in entries}
    except OSError:
        return {}


def _is_newer(name: str, last: str, modified_ns: Mapping[str, int]) -> bool:
    """Return whether a raw file is missing, or newer than the last one of its cell.

    Each raw file has a metadata file, whose time is compared as well: Snakemake updates the time of a declared output
    when its job ends, but never that of a metadata file.

    Args:
        name: The name of the raw file.
        last: The name of the cell's last raw file.
        modified_ns: The modification time of each existing file of the cell.
    """
    if name not in modified_ns:
        return True
    metadata_ns, last_metadata_ns = (modified_ns.get(metadata_path(Path(each)).name, 0) for each in (name, last))
    return modified_ns[name] > modified_ns[last] or metadata_ns > last_metadata_ns
