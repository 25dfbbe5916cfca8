"""What a configuration asks for, as the workflow's rules need it: its files, and what is still to measure."""

import collections
import contextlib
import dataclasses
import fcntl
import functools
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TextIO

from iopatterns.base import children, messages, units, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, grid, kinds, sources
from iopatterns.measuring import fio, health, machine, progress
from iopatterns.measuring.drives.precondition import MOST_ROUNDS
from iopatterns.raw import cells
from iopatterns.raw.sidecars import UNPACKED, sidecar_path
from iopatterns.twin.state import find_model
from iopatterns.workflow import ablation, capture, digest, durations, hosts, notebooks, own_twin, rule_code

RAW = "data/raw"
PROGRESS = f"{RAW}/.progress"
# What fio takes beside its runtime, to start and to stop; and what a twin takes for an execution, and for each second
# of its virtual time. Only estimates rest on these.
_FIO_START_STOP_S = 0.35
_TWIN_START_STOP_S, _TWIN_S_PER_S = 0.02, 0.04
# What a job of the workflow measures: enough that its own start weighs little, little enough that several cores share a
# run evenly. Its command line must fit what the kernel takes for one word (MAX_ARG_STRLEN, 128 KiB)
_BATCH_S, _BATCH_CHARACTERS = 8.0, 90_000
# A cluster ends a job that exceeds its time limit. The limit is _JOB_START_S, for starting Snakemake twice and waiting
# for a drive that is in use, and _JOB_SLACK times what the job's cells are estimated to take.
_JOB_START_S, _JOB_SLACK = 600.0, 4.0
# How fast a drive is supposed to take data where only an upper limit of what is written is wanted
_WRITE_RATE_BYTES_PER_S = 1e9
# And how slow one may be where it is the time that matters
_SLOWEST_WRITE_BYTES_PER_S = 2e7
# What Snakemake takes for its own wherever it stands in the path of a rule's file
_UNUSABLE = {"{": "braces", "}": "braces", "\n": "a line break"}


# The plan of the Snakefile that this process runs, for what Snakemake calls besides
_current: "Plan | None" = None


@dataclass(frozen=True)
class Forecast:
    """What is still to be measured on a drive: executions, about how many seconds, at most how many bytes written."""

    drive: str
    executions: int
    seconds: float
    written_bytes: int


@dataclass(frozen=True)
class Batch:
    """Cells of a study on one drive that one job measures, one after another, by their raw files."""

    name: str
    drive: str
    study: str
    raw_files: tuple[str, ...]


class Plan:
    """The cells of all studies that a configuration names, and their files below ``data/raw``."""

    def __init__(self, root: Path, overrides: Mapping[str, Any] | None = None) -> None:
        """Read and expand the configuration. Raises ConfigError."""
        self.config = config.load(root, overrides)
        if self.config.live:
            recordings = capture.planned(root, self.config.studies)
            self.config = dataclasses.replace(self.config, recordings=recordings)
        self._root = root
        self._durations = durations.Durations.load(root)
        self._run: durations.Run | None = None
        self._watched_names: dict[str, list[str]] = {}
        self._cells = {
            study: {cell.folder: cell for cell in grid.expand(self.config, study)} for study in self.config.studies
        }
        self._check_disks()
        empty = [study for study, found in self._cells.items() if not found]
        if empty:
            raise grid.GridError(f"{config.CONFIG_FILE}: drives: {self._no_drive(empty[0])}")

    def _no_drive(self, study: str) -> str:
        """Return why a study has no cell, and what to do."""
        experiments = self.config.studies[study]["experiments"].values()
        named = list(dict.fromkeys(drive for body in experiments for drive in body.get("drives", ())))
        remedy = f"Add one of those that it names ({', '.join(named)})" if named else "Name drives in its file"
        return f"none has a cell of the study {study}. {remedy}, or one of your own, which no study names."

    @classmethod
    def or_exit(cls, root: Path, overrides: Mapping[str, Any] | None = None) -> "Plan":
        """Return the plan, or print what is wrong with the folder or the configuration and end with exit status 2."""
        global _current  # noqa: PLW0603 - Snakemake has one workflow a process
        try:
            _check_folder(root)
            _current = cls(root, overrides)
        except IoPatternsError as error:
            _end(str(error))
        return _current

    def require_sources(self, files: Iterable[object]) -> None:
        """End with a message and exit status 2 unless each source among the input files of all rules can be used.

        A source is what no rule makes. Snakemake alone would not do: where a source is missing, and what is made of it
        is there from an earlier run, it takes that for a source itself, measures everything and analyses nothing.
        """
        made = (f"{RAW}/", "results/")
        wanted = [file for file in files if isinstance(file, str) and "{" not in file and not file.startswith(made)]
        problems = sources.problems(self._root, wanted)
        if problems:
            _end("\n".join(["Nothing is run, for files that the report is made of cannot be used:", *problems]))

    @property
    def studies(self) -> list[str]:
        """The names of the studies, in the order of the configuration."""
        return list(self.config.studies)

    def executions(self, study: str) -> list[str]:
        """Return the names of the executions of each cell of a study: ``["01", … "10"]``."""
        return grid.execution_names(grid.repetitions(self.config, study))

    def raw_files(self, study: str, drive: str | None = None) -> list[str]:
        """Return the paths of all raw files of a study, of one drive where it is given."""
        executions = self.executions(study)
        wanted = [folder for folder, cell in self._cells[study].items() if drive in {None, cell.drive}]
        return [f"{RAW}/{folder}/{execution}.json" for folder in wanted for execution in executions]

    def watched_files(self, study: str, drive: str | None = None) -> list[str]:
        """Return those of `raw_files` that Snakemake is told of, see `watched`."""
        return self.watched(self.raw_files(study, drive))

    def watched(self, raw_files: Iterable[str]) -> list[str]:
        """Return those of some raw files, all of some cells, by which Snakemake sees what is to be done.

        They are the last of each cell, and where that is there each other that is missing or newer than it. A cell's
        executions are measured in turn, so that Snakemake decides as if it were told of all. Its time and memory grow
        with the number of files that it is told of: where cells have ten executions, they are a tenth.
        """
        of_cells: dict[str, list[str]] = {}
        for raw in raw_files:
            folder, _, name = raw.rpartition("/")
            of_cells.setdefault(folder, []).append(name)
        return [f"{folder}/{name}" for folder, names in of_cells.items() for name in self._watched(folder, names)]

    def _watched(self, folder: str, names: list[str]) -> list[str]:
        if folder not in self._watched_names:  # as it was when it was first asked for, for all rules alike
            try:
                with os.scandir(self._root / folder) as entries:
                    changed_ns = {entry.name: entry.stat().st_mtime_ns for entry in entries}
            except OSError:
                changed_ns = {}
            last = names[-1]
            others = names[:-1] if last in changed_ns else []
            self._watched_names[folder] = [*(name for name in others if _is_newer(name, last, changed_ns)), last]
        return self._watched_names[folder]

    def batches(self, study: str) -> list[Batch]:
        """Return the cells of a study in batches, those of drives that are measured here.

        The configuration alone decides which cells share one, not what is measured already: a job that is started on
        another host must find the same. A drive whose cells take long has one cell in each.
        """
        found: list[list[grid.Cell]] = []
        room_s, room_characters, drive = 0.0, 0, ""
        for cell in self._cells[study].values():
            if kinds.is_archived(self.config.drives[cell.drive]):
                continue
            names = self.executions(study)
            seconds = self._seconds(cell, len(names))
            # two bytes for what quoting adds, and the blank between
            words = [cells.canonical(cell.specification), *(f"{RAW}/{cell.folder}/{name}.json" for name in names)]
            characters = sum(len(word) + 3 for word in words)
            if cell.drive != drive or seconds > room_s or characters > room_characters:
                found.append([])
                room_s, room_characters, drive = _BATCH_S, _BATCH_CHARACTERS, cell.drive
            room_s, room_characters = room_s - seconds, room_characters - characters
            found[-1].append(cell)
        return [self._batch(study, number, batch) for number, batch in enumerate(found, start=1)]

    def _batch(self, study: str, number: int, batch: list[grid.Cell]) -> Batch:
        raws = [f"{RAW}/{cell.folder}/{name}.json" for cell in batch for name in self.executions(study)]
        return Batch(f"measure_{study}_{number}", batch[0].drive, study, tuple(raws))

    @functools.cache  # noqa: B019 - of the one plan that a process has
    def batches_by_name(self) -> dict[str, Batch]:
        """Return the batches of all studies by their names, which are those of their rules."""
        return {batch.name: batch for study in self.studies for batch in self.batches(study)}

    def why(self, batches: Iterable[Batch]) -> list[str]:
        """Return for people which cells of some batches lack any raw file, and why: a line for each cell of a few, or
        what they have in common.
        """
        raws = [raw for batch in batches for raw in batch.raw_files]
        missing = self._cells_of(self._missing(raws))
        wanted = {study: [cell for cell in missing if cell.study == study] for study in self.studies}
        planned = {study: list(found.values()) for study, found in self._cells.items()}
        told = digest.lines(self._root / RAW, wanted, planned)
        if not missing or len(missing) > digest.FEW:
            return told
        return [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in missing] + told

    def all_of_cells(self, raw_files: Iterable[str]) -> list[str]:
        """Return all raw files of the cells of some."""
        names = {study: self.executions(study) for study in self.studies}
        return [f"{RAW}/{cell.folder}/{name}.json" for cell in self._cells_of(raw_files) for name in names[cell.study]]

    def specifications(self, raw_files: Iterable[str]) -> list[str]:
        """Return the words by which the measuring command is told the specifications of the cells of some raw files."""
        return [f"--specification={cells.canonical(cell.specification)}" for cell in self._cells_of(raw_files)]

    def to_measure(self, raw_files: Iterable[str]) -> str:
        """Return for people which of the cells of some raw files lack any: a line for each."""
        wanted = self.all_of_cells(raw_files)
        missing = self._cells_of(self._missing(wanted))
        lines = [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in missing]
        return "\n".join(lines) or f"Seeing that all is there of {len(self._cells_of(wanted))} cells"

    def _cells_of(self, raw_files: Iterable[str]) -> list[grid.Cell]:
        # drive, study and cell are the parts of a path below the raw folder
        folders = dict.fromkeys(map(_folder, raw_files))
        return [self._cells[folder.split("/")[1]][folder] for folder in folders]

    def experiments(self, study: str) -> dict[str, list[str]]:
        """Return the experiments that ask for each cell of a study, by the cell's folder."""
        return {folder: list(cell.experiments) for folder, cell in self._cells[study].items()}

    def _check_disks(self) -> None:
        """Raise ConfigError where two drives that are said to be independent lie on one disk."""
        on: dict[str, str] = {}
        for drive in self.config.independent_drives:
            for disk in self._disks(drive) if self._is_here(drive) else ():
                if disk in on:
                    raise yaml_schema.ConfigError(
                        f"{config.CONFIG_FILE}: independent_drives: '{on[disk]}' and '{drive}' are both on {disk}, and"
                        f" disturb each other. Leave one of them out."
                    )
                on[disk] = drive

    def _disks(self, drive: str) -> list[str]:
        """Return the kernel's names of the disks under a real drive; none where there is nothing yet."""
        entry = self.config.drives[drive]
        if not kinds.is_real(entry):
            return []
        place = self._root / entry["path"]
        try:
            if kinds.is_whole_disk(entry):
                return machine.physical_disks(place.resolve().name)
            folder = next(folder for folder in place.resolve().parents if folder.exists())
            return sorted(disk.name for disk in machine.disks_under(folder))
        except OSError:
            return []

    @property
    def resources(self) -> list[str]:
        """The resources, one of each, that keep drives from being measured at the same time: one for each host that a
        drive names, one for all other drives, and one for each independent drive.
        """
        hosts_of = dict.fromkeys(["", *(self.host(drive) for drive in self.config.drives)])
        independent = [f"real_drive_{drive}" for drive in self.config.independent_drives]
        return [*(self._of_host(host) for host in hosts_of), *independent]

    def occupies(self, drive: str, resource: str) -> int:
        """Return how much of a resource measuring a drive takes: an independent one its own, another real one those of
        its host and of all independent drives there.
        """
        if drive in self.config.independent_drives:
            return int(resource == f"real_drive_{drive}")
        there = [other for other in self.config.independent_drives if self.host(other) == self.host(drive)]
        taken = {self._of_host(self.host(drive)), *(f"real_drive_{other}" for other in there)}
        return int(self.is_real(drive) and resource in taken)

    @staticmethod
    def _of_host(host: str) -> str:
        return f"real_drives_of_{host}" if host else "real_drive"

    def host(self, drive: str) -> str:
        """Return the name of the host that has a drive, nothing where it is measured wherever the job is."""
        return kinds.host_of(self.config.drives[drive])

    def _is_here(self, drive: str) -> bool:
        return not self.host(drive) or machine.is_named(self.host(drive))

    def slurm_extra(self, drive: str) -> str:
        """Return what Slurm is told of a job that measures a drive: its host, and that it has this for itself.

        Drives that are independent share their host: nothing else on it disturbs them.
        """
        host = self.host(drive)
        # the host comes last: the plugin takes the end of a name and a blank behind it for an option
        alone = "" if drive in self.config.independent_drives else "--exclusive "
        return f"{alone}--nodelist={host}" if host else ""

    def time_limit_min(self, batch: Batch, attempt: int) -> int:
        """Return how many minutes a job of a cluster may take for a batch, more with each attempt."""
        seconds = sum(self._seconds(cell, len(self.executions(cell.study))) for cell in self._cells_of(batch.raw_files))
        if kinds.of(self.config.drives[batch.drive]).is_preconditioned and self.config.precondition == "steady":
            seconds += MOST_ROUNDS * self.config.precondition_round_ms / 1000
        if self.is_real(batch.drive):  # it may have to be written once before
            seconds += self.config.file_size_bytes / _SLOWEST_WRITE_BYTES_PER_S
        return math.ceil(attempt * (_JOB_START_S + _JOB_SLACK * seconds) / 60)

    def is_real(self, drive: str) -> bool:
        """Return whether a drive is one of this machine."""
        return kinds.is_real(self.config.drives[drive])

    def measured_drives(self) -> list[str]:
        """Return the drives that are measured here."""
        return [drive for drive, entry in self.config.drives.items() if not kinds.is_archived(entry)]

    def archived_drives(self) -> list[str]:
        """Return the drives that were measured elsewhere, and come out of archives."""
        return [drive for drive, entry in self.config.drives.items() if kinds.is_archived(entry)]

    def archive(self, drive: str) -> tuple[str, str]:
        """Return the path of a drive's archive, and the SHA-256 that the file has now."""
        entry = self.config.drives[drive]
        assert kinds.is_archived(entry)  # one of `archived_drives`
        return os.path.normpath(entry["path"]), entry["contents"].sha256

    def unpacked(self, drive: str) -> str:
        """Return the file that says from which archive the raw files of a drive come."""
        return f"{RAW}/{drive}/{UNPACKED}"

    def code(self, *of: str) -> list[str]:
        """Return the files of the package that some scripts and notebooks, by their paths, or modules, by their dotted
        names, rest on.
        """
        return rule_code.behind(self._root, *of)

    @functools.cache  # noqa: B019 - of the one plan that a process has
    def built(self, *of: str) -> str:
        """Return a sum of the compiled parts of the package that some scripts, notebooks or modules rest on.

        It is a parameter of those rules alone of which a default run makes nothing. What is measured has its name from
        what is asked for, and raw files and manifests are the same whatever build made them. With this parameter, each
        build would have all drives measured again, and so analysed and reported.
        """
        return rule_code.built(self._root, *of)

    def fitted_models(self) -> list[str]:
        """Return the names of the models in data/twins that record a fit."""
        files = sorted((self._root / "data/twins").glob("*.yaml"))
        return [file.stem for file in files if "\nfit:" in file.read_text(encoding="utf-8")]

    def fitted_to(self, model: str) -> str:
        """Return the table of published values to which a model of `fitted_models` has been fitted."""
        return str(yaml_schema.read_yaml(self._root, f"data/twins/{model}.yaml")["fit"]["points"])

    def models(self) -> list[str]:
        """Return the files of the models of twins that are measured."""
        models = {drive["model"] for drive in self.config.drives.values() if kinds.is_simulated(drive)}
        return [os.path.relpath(find_model(model), self._root) for model in sorted(models)]

    def ablations(self) -> list[str]:
        """Return the names of the runs of an ablation, or end with a message where its declaration is wrong."""
        try:
            return ablation.runs(self._root)
        except IoPatternsError as error:
            _end(str(error))

    def ablation(self) -> list[str]:
        """Return the files that say what an ablation found and whether that is stale, if there has been one."""
        if not (self._root / ablation.RECORD).exists():
            return []
        return [ablation.DECLARED, ablation.RECORD, *self.ablated_traces()]

    def ablated_traces(self) -> list[str]:
        """Return the traces that an ablation replays, or end with a message where its declaration is wrong."""
        try:
            found = ablation.traces(self._root, self.judged_studies).values()
        except IoPatternsError as error:
            _end(str(error))
        return sorted({trace for traces in found for trace in traces})

    def recordings(self) -> list[str]:
        """Return the traces that are recorded for studies, ``study/name`` each."""
        return [f"{each.study}/{each.name}" for each in capture.recordings(self._root)]

    def recorded(self, batch: Batch) -> list[str]:
        """Return the traces that the cells of a batch replay and that are recorded in this run."""
        replays = (cell.specification.get("replay") for cell in self._cells_of(batch.raw_files))
        return list(dict.fromkeys(replay["trace"] for replay in replays if replay and "made_of" in replay))

    def made_of(self, study: str, recording: str) -> str:
        """Return the SHA-256 of all that a recording of this run is made of; nothing where none is asked for."""
        found = self.config.recordings.get(f"{capture.SHIPPED}/{study}/{recording}.parquet")
        return found.made_of if found else ""

    def own_drives(self) -> list[str]:
        """Return the drives of which a twin can be made, or end with a message where another one is asked for."""
        try:
            return own_twin.drives(self._root)
        except IoPatternsError as error:
            _end(str(error))

    def workloads(self, study: str) -> list[str]:
        """Return the files that say what is recorded for a study."""
        folder = f"{capture.WORKLOADS}/{study}"
        return sorted(f"{folder}/{path.name}" for path in (self._root / folder).iterdir() if path.suffix != ".md")

    @property
    def judged_studies(self) -> list[str]:
        """The studies whose source published what they can be held against."""
        return [study for study in self.studies if sources.has_published(self._root, study)]

    def published(self, study: str) -> list[str]:
        """Return the files of what a study's source published of values and drives; none where it published nothing."""
        files = ("values.csv", "drives.csv") if study in self.judged_studies else ()
        return [f"{sources.PUBLISHED}/{study}/{file}" for file in files]

    def claimed(self) -> list[str]:
        """Return the files of published values and claims of the studies."""
        files = ("values.csv", "claims.yaml")
        return [f"{sources.PUBLISHED}/{study}/{file}" for study in self.judged_studies for file in files]

    def models_of(self) -> dict[str, str]:
        """Return the name of the model of each twin that is measured, by the name of the drive."""
        return {name: drive["model"] for name, drive in self.config.drives.items() if kinds.is_simulated(drive)}

    def tables(self, study: str) -> list[str]:
        """Return the table files that a study's notebook writes: CSV, LaTeX and typst for each table it names."""
        names = self._outputs(study, "tables")
        return [f"results/tables/{study}/{name}.{suffix}" for name in names for suffix in ("csv", "tex", "typ")]

    def figures(self, study: str) -> list[str]:
        """Return the figure files that a study's notebook writes: SVG and PNG for each figure it names."""
        names = self._outputs(study, "figures")
        return [f"results/figures/{study}/{name}.{suffix}" for name in names for suffix in ("svg", "png")]

    def _outputs(self, study: str, kind: Literal["tables", "figures"]) -> list[str]:
        """Return what a study's notebook makes of one kind: of each experiment that runs on any drive configured."""
        content = self.config.studies[study]
        names = list(content.get(kind, []))
        for experiment, body in content["experiments"].items():
            if grid.drives_of(self.config, study, experiment):
                names += body.get(kind, [])
        return list(dict.fromkeys(names))

    def traces(self, study: str) -> list[str]:
        """Return the files of the user's own traces, where a study's notebook shows them."""
        notebook = self._root / f"notebooks/{study}.ipynb"
        if not (self.config.traces and notebook.exists()):
            return []
        shown = "traces" in notebooks.parameters_of(notebook)
        return [f"results/calls/{name}.parquet" for name in self.config.traces if shown]

    def analysis_parameters(self, study: str) -> dict[str, Any]:
        """Return the parameters of a study's notebook that the configuration decides."""
        given = {"confidence": self.config.confidence, "interval": self.config.interval}
        traces = self.traces(study)
        return {**given, "traces": traces} if traces else given

    def titles(self) -> dict[str, dict[str, str]]:
        """Return title and source of each study, for the report."""
        return {
            study: {"title": content["title"], "source": content.get("source", "measured for no source")}
            for study, content in self.config.studies.items()
        }

    def forecasts(self) -> list[Forecast]:
        """Return for each drive that is measured here what is still to be measured on it."""
        missing: dict[str, list[tuple[grid.Cell, int]]] = {drive: [] for drive in self.measured_drives()}
        for study in self.studies:
            wanted = {f"{execution}.json" for execution in self.executions(study)}
            for folder, cell in self._cells[study].items():
                if cell.drive in missing:
                    missing[cell.drive].append((cell, len(wanted - self._present(folder))))
        return [self._forecast(drive, cells_of) for drive, cells_of in missing.items()]

    def _seconds(self, cell: grid.Cell, executions: int) -> float:
        """Return about how long so many executions of a cell take, whatever earlier runs took."""
        if not self.is_real(cell.drive):
            return executions * _TWIN_START_STOP_S + _TWIN_S_PER_S * _io_seconds(cell, executions)
        runs = executions + bool(executions and cell.specification["warmup_ms"])
        return runs * _FIO_START_STOP_S + _io_seconds(cell, executions)

    def _forecast(self, drive: str, missing: list[tuple[grid.Cell, int]]) -> Forecast:
        executions = sum(count for _, count in missing)
        seconds = sum(self._seconds(cell, count) for cell, count in missing)
        seconds = self._durations.measuring_s(drive, seconds, real=self.is_real(drive))
        if not self.is_real(drive):
            return Forecast(drive, executions, seconds, 0)
        writing = sum(
            _io_seconds(cell, count) for cell, count in missing if not fio.only_reads(cell.specification["fio"])
        )
        kind, mode = kinds.of(self.config.drives[drive]), self.config.precondition
        filled = executions and (kind.is_filled or (kind.is_preconditioned and mode != "none"))
        if executions and kind.is_preconditioned and mode == "steady":
            rounds_s = MOST_ROUNDS * self.config.precondition_round_ms / 1000
            seconds, writing = seconds + rounds_s, writing + rounds_s
        written_bytes = int(writing * _WRITE_RATE_BYTES_PER_S) + (self.config.file_size_bytes if filled else 0)
        return Forecast(drive, executions, seconds, written_bytes)

    def forecast(self) -> str:
        """Return for people what is still to be measured: how many executions, how long, how much is written."""
        lines, forecasts = [], self.forecasts()
        in_use = {cell.drive for found in self._cells.values() for cell in found.values()}
        for each in forecasts:
            if each.drive not in in_use:
                lines.append(f"{each.drive}: named by no experiment of {', '.join(self.studies)}: nothing to measure")
                continue
            if not each.executions:
                continue
            line = f"{each.drive}: {each.executions} executions, about {units.format_duration(each.seconds)}"
            if each.written_bytes:
                line += f", at most {each.written_bytes / 1e9:.1f} GB written (at 1 GB/s){self._wear(each)}"
            lines.append(line + ("" if self.is_real(each.drive) else ", simulated: nothing is written"))
        lines += [f"{drive}: measured elsewhere, out of {self.archive(drive)[0]}" for drive in self.archived_drives()]
        seconds, together = sum(each.seconds for each in forecasts), self.config.independent_drives
        steps = self._steps()
        if not any(each.executions for each in forecasts):
            lines.append("Nothing is left to measure.")
        if steps:
            lines.append(f"Then {len(steps)} steps of analysis and report, about {self._steps_duration(steps)}.")
        total = f"In all about {units.format_duration(self._total_s(seconds, steps))}, one drive after the other"
        if len(together) > 1:
            total += f"; less with --cores {len(together)}: {', '.join(together)} are measured at the same time then"
        return "\n".join([*lines, f"{total}."])

    def _steps(self) -> list[str]:
        """Return the rules that a run will follow after measuring, as far as that can be told before it begins."""
        changed = [
            study
            for study in self.studies
            if not (self._root / f"results/numbers/{study}.json").exists() or self._missing(self.raw_files(study))
        ]
        if not changed and (self._root / "results/report.pdf").exists():
            return []
        return [f"{rule}_{study}" for study in changed for rule in ("collect", "analyse")] + ["judge", "report"]

    def _total_s(self, measuring_s: float, steps: list[str]) -> float:
        """Return how long a run takes that measures for so long, and then takes these steps."""
        if not measuring_s and not steps:
            return 0.0
        return measuring_s + sum(map(self._durations.step_s, steps)) + self._durations.beside_s

    def _steps_duration(self, steps: list[str]) -> str:
        return units.format_duration(sum(map(self._durations.step_s, steps)) + self._durations.beside_s)

    def measuring_s(self, batch: Batch) -> float:
        """Return about how long the cells of a batch take that lack executions, whatever earlier runs took."""
        counts = collections.Counter(map(_folder, self._missing(batch.raw_files)))
        return sum(self._seconds(self._cells[batch.study][folder], count) for folder, count in counts.items())

    def took(self, rule: str, forecast_s: float, took_s: float) -> None:
        """Note that a job of this run has ended, for the forecasts of later ones; ``forecast_s``: of a batch."""
        if self._run is None:
            return
        batch = self.batches_by_name().get(rule)
        if batch is None:
            self._run.step(rule, took_s)
        elif forecast_s:
            self._run.measuring(batch.drive, forecast_s, took_s, real=self.is_real(batch.drive))

    def end(self) -> None:
        """Keep what this run took, for the forecasts of later ones."""
        if self._run is not None:
            with contextlib.suppress(OSError):  # a forecast that is less good is better than a run that fails
                self._run.keep(self._root)

    def _wear(self, forecast: Forecast) -> str:
        """Return what the bytes written are of a disk's capacity: how often the run fills it."""
        drive = self.config.drives[forecast.drive]
        try:
            whole_disk = kinds.is_whole_disk(drive) and self._is_here(forecast.drive)
            size_bytes = machine.disk(Path(str(drive.get("path"))))["size_bytes"] if whole_disk else None
        except OSError:
            size_bytes = None  # the gate will say that it is not there
        return f", {100 * forecast.written_bytes / size_bytes:.2g} % of its capacity" if size_bytes else ""

    def ask_hosts(self, where: hosts.Submission, drives: Iterable[str]) -> list[hosts.Answer]:
        """Ask the hosts of a cluster what they lack to measure some drives. Raises ConfigError or ClusterError."""
        of_hosts: dict[str, list[str]] = {}
        for drive in drives:
            if host := self.host(drive):
                of_hosts.setdefault(host, []).append(drive)
        found = hosts.of_cluster(where, of_hosts)
        hosts.check_names({drive: self.config.drives[drive] for each in of_hosts.values() for drive in each}, found)
        return hosts.ask(self._root, found, of_hosts)

    def _require_hosts(self, drives: list[str], cluster: hosts.Submission | None) -> None:
        """Raise ConfigError or ClusterError unless some drives can be measured where they are."""
        if cluster is None:
            elsewhere = [drive for drive in drives if not self._is_here(drive)]
            if elsewhere:
                raise yaml_schema.ConfigError(
                    "\n".join(
                        f"{config.DRIVES_FILE}: {drive}.host: {self.host(drive)} has this drive, and this host is"
                        f" {machine.host_name()}. Measure it through Slurm: snakemake --profile profiles/slurm"
                        for drive in elsewhere
                    )
                )
            return
        answers = self.ask_hosts(cluster, drives)
        lacking = hosts.lines(each for each in answers if each.is_ready is False)
        if lacking:
            raise hosts.ClusterError("\n".join(["Nothing is queued, for hosts lack what jobs need there:", *lacking]))
        if not any(each.is_ready for each in answers):
            raise hosts.ClusterError("\n".join(["Nothing is queued, for no host is ready:", *hosts.lines(answers)]))
        for line in hosts.lines(each for each in answers if each.is_ready is None):
            messages.say(line)

    def _missing(self, raw_files: Iterable[str]) -> list[str]:
        """Return those of some raw files that are not there; each cell's folder is read once."""
        present: dict[str, set[str]] = {}
        missing = []
        for raw in raw_files:
            folder = _folder(raw)
            if folder not in present:
                present[folder] = self._present(folder)
            if raw.rpartition("/")[2] not in present[folder]:
                missing.append(raw)
        return missing

    def _present(self, folder: str) -> set[str]:
        try:
            return set(os.listdir(self._root / RAW / folder))
        except (FileNotFoundError, NotADirectoryError):
            return set()

    def begin(self, cluster: hosts.Submission | None = None) -> None:
        """Keep other runs out of this folder, say what this one will measure, and start its progress count.

        ``cluster``: where the jobs go if they do not stay on this host. Ends with a message where a host lacks what
        they need, or a drive to be measured is another host's.
        """
        self._lock = _lock_folder(self._root / RAW)
        children.make_uniform()
        forecasts = self.forecasts()
        try:
            self._require_hosts([each.drive for each in forecasts if each.executions], cluster)
        except IoPatternsError as error:
            _end(str(error), error.exit_status)
        executions, seconds = sum(each.executions for each in forecasts), sum(each.seconds for each in forecasts)
        progress.begin(self._root / PROGRESS, executions)
        self._run = durations.Run()
        if executions:
            drives = ", ".join(each.drive for each in forecasts if each.executions)
            whole = units.format_duration(self._total_s(seconds, self._steps()))
            messages.say(
                f"To measure: {executions} executions on {drives}, about {units.format_duration(seconds)};"
                f" with analysis and report about {whole}."
            )
        if any(each.executions and self.is_real(each.drive) for each in forecasts) and health.tool() is None:
            messages.say(
                "Temperature and health of drives are not recorded, for neither smartctl nor nvme is installed:"
                " apt-get install smartmontools"
            )


def current() -> Plan | None:
    """Return the plan of the Snakefile that this process runs, if there is one."""
    return _current


def _io_seconds(cell: grid.Cell, executions: int) -> float:
    """Return for how long the workload of a cell runs in so many executions, and before the first of them."""
    specification = cell.specification
    ramp_s, warm_up_s = specification["fio"].get("ramp_time", 0) / 1e6, specification["warmup_ms"] / 1000
    before_s = ramp_s + warm_up_s if executions and warm_up_s else 0.0
    return float(executions * (ramp_s + specification["runtime_ms"] / 1000) + before_s)


def _check_folder(root: Path) -> None:
    """Raise ConfigError for a project in a folder in which Snakemake cannot run it."""
    path = str(root.absolute())
    if root.resolve() != Path.cwd().resolve():
        raise yaml_schema.ConfigError(f"{messages.printable(path)} is the project's folder. Run Snakemake there.")
    for character, name in _UNUSABLE.items():
        if character in path:
            raise yaml_schema.ConfigError(
                f"{messages.printable(path)}: Snakemake cannot run in a folder with {name} in its path. Move or rename"
                " the folder."
            )


def _is_newer(name: str, last: str, changed_ns: Mapping[str, int]) -> bool:
    """Return whether a raw file is missing, or newer than another one, by its own time or by that of its sidecar.

    Snakemake sets the times of the files that it is told of anew when their job ends. Sidecars keep theirs.
    """
    if name not in changed_ns:
        return True
    sidecar_ns, last_sidecar_ns = (changed_ns.get(sidecar_path(Path(each)).name, 0) for each in (name, last))
    return changed_ns[name] > changed_ns[last] or sidecar_ns > last_sidecar_ns


def _folder(raw_file: str) -> str:
    """Return the folder of a raw file's cell, below the raw folder."""
    return raw_file.removeprefix(f"{RAW}/").rpartition("/")[0]


def _end(message: str, exit_status: int = yaml_schema.ConfigError.exit_status) -> NoReturn:
    messages.say(message)
    raise SystemExit(exit_status)


def _lock_folder(folder: Path) -> TextIO:
    """Return an open lock file, held until this process ends; end with a message while another process holds it.

    Snakemake's own lock outlives a killed run and must then be removed by hand; the kernel releases this one.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open(folder / ".run.lock", "a+", encoding="utf-8")  # noqa: SIM115 - held as long as the process lives
    except OSError as error:
        _end(f"{messages.printable(error.filename)}: {error.strerror}. Raw files are written there.")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        messages.say(f"Process {lock.read().strip()} is running this workflow already. Wait for it, or stop it.")
        raise SystemExit(1) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
