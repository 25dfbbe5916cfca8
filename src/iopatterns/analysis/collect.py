"""Collect raw files and their metadata files into a tidy table and the provenance of the measurements."""

import importlib.metadata
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NotRequired, TypedDict, TypeVar, cast

import pandas as pd

import fio_parser_json
import iopatterns
from fio_parser_json import options as fio_options
from iopatterns.analysis import quantities, replays
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import factors, kinds
from iopatterns.measuring.steadiness import is_steady
from iopatterns.raw import archive
from iopatterns.raw.metadata_files import is_measured, read_metadata
from iopatterns.raw.records import DriveIdentity, MachineFacts, MetadataFile
from iopatterns.raw.tuning_steps import TuningRecord

# The libraries whose versions can change a number or a figure
_SOFTWARE = ("snakemake", "papermill", "pandas", "numpy", "scipy", "matplotlib", "typst")

_NOTHING_MEASURED = "nothing was measured: no drive took the settings that its cells ask for"

_Item = TypeVar("_Item")


class DescribedDrive(DriveIdentity):
    """The identity that a drive reported, under the drive's name in this project.

    Attributes:
        archive: The archive from which the raw files of the drive were unpacked, if any.
        simulated: Whether the drive is simulated; only in a colophon.
    """

    archive: NotRequired[archive.ArchiveOrigin]
    simulated: NotRequired[bool]


class _RunTotals(TypedDict):
    """Totals over all repetitions.

    The results of simulated drives depend on neither clock nor machine, so that times are of real drives only.

    Attributes:
        executions: Number of repetitions.
        real_executions: Number of repetitions on real drives.
        fio_seconds: Wall time of all fio processes on real drives.
        started: Begin of the first repetition on a real drive (UTC); None if there is none.
        ended: End of the last repetition on a real drive (UTC); None if there is none.
    """

    executions: int
    real_executions: int
    fio_seconds: float
    started: str | None
    ended: str | None


class StudySummary(_RunTotals):
    """The measurements of one study, as the colophon describes them.

    Attributes:
        cells: Number of measured cells.
        left_out: Number of cells that were not measured because a drive did not take their settings.
        doubts: For each doubt about measurements of real drives, the number of repetitions.
        runtime_ms: The most frequent run time of a repetition.
        warmup_ms: The longest warm-up.
        command: One of the command lines.
        title: Title of the study; only in a report.
        source: Source of the study; only in a report.
    """

    cells: int
    left_out: int
    doubts: dict[str, int]
    runtime_ms: int
    warmup_ms: int
    command: str
    title: NotRequired[str]
    source: NotRequired[str]


class _MeasuredWith(TypedDict):
    fio_versions: list[str]
    machines: list[MachineFacts]  # of real drives
    drives: list[DescribedDrive]


class StudyProvenance(StudySummary, _MeasuredWith):
    """The measurements of one study, with fio versions, machines and drives."""


class Colophon(_RunTotals, _MeasuredWith):
    """The measurements of all studies of a report.

    Attributes:
        version: Version of iopatterns.
        order: The studies in the order of the report.
        software: Versions of libraries.
        studies: The summary of each study.
    """

    version: str
    order: list[str]
    software: dict[str, str]
    studies: dict[str, StudySummary]


class CollectError(IoPatternsError):
    """The raw files of a study contain no measurement."""


def measurement_table(raw_files: Sequence[Path], experiments: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return a row for each job and direction of each repetition.

    Cells whose settings the drive did not take have no rows; `tuning_records` lists them.

    Args:
        raw_files: The raw files of a study, with their metadata files beside them.
        experiments: The names of the experiments of each cell, by the cell's folder ``<drive>/<study>/<cell>``.

    Returns:
        Columns, in this order: study, drive, cell, execution (number of the repetition), experiments (names separated
        by blanks); the fio options of the cell in canonical units (rw, bs_bytes, numjobs, iodepth, ioengine …);
        drive_kind (twin, file, block), drive_model (of a simulated drive), tuned (whether the cell has settings),
        set_<setting> for each setting (missing in cells without the setting); the columns of `fio_parser_json.jobs`;
        steady (whether the repetition was in a steady state, see `measuring.steadiness.is_steady`); and counter_<name>
        for each counter of a simulated drive, counted over the complete repetition (missing for other drives).

    Raises:
        MetadataError: A raw file is not the file that was measured.
        FioParseError: A raw file is not a result of fio.
        CollectError: There are no measurements.
    """
    rows, counted = [], []
    of_fio: list[Path] = []
    of_replays: list[Path] = []
    for raw in raw_files:
        metadata = read_metadata(raw)
        if not is_measured(metadata):
            continue
        specification = metadata["specification"]
        (of_replays if "replay" in specification else of_fio).append(raw)
        drive, study, cell = raw.parent.parts[-3:]
        # a column of Parquet files that other programs read: text, separated by blanks
        names = " ".join(experiments[f"{drive}/{study}/{cell}"])
        keys = {"study": study, "drive": drive, "cell": cell, "execution": metadata["execution"], "experiments": names}
        options = dict(specification["fio"])
        options[factors.column_of("bs")] = options.pop("bs")
        settings = specification.get("settings", {})
        kind, model = specification["drive"]["kind"], specification["drive"].get("model", "")
        options |= {"drive_kind": kind, "drive_model": model, "tuned": bool(settings)}
        options |= {factors.setting_column(setting): value for setting, value in settings.items()}
        rows.append({"source": str(raw), **keys, **options})
        counters = metadata.get("counters", {})
        counted.append(
            {"source": str(raw), **{f"{quantities.COUNTER_PREFIX}{name}": number for name, number in counters.items()}}
        )
    if not rows:
        raise CollectError(_NOTHING_MEASURED)
    table = pd.DataFrame(rows).convert_dtypes(convert_string=False, convert_floating=False)
    table = table.merge(_results(of_fio, of_replays), on="source", validate="one_to_many")
    steady = {source: is_steady(rows) for source, rows in table.groupby("source")}
    table = table.assign(steady=table["source"].map(steady).astype("boolean"))
    counter_table = pd.DataFrame(counted).convert_dtypes(convert_string=False)
    return table.merge(counter_table, on="source", validate="many_to_one").drop(columns="source")


def _results(of_fio: Sequence[Path], of_replays: Sequence[Path]) -> pd.DataFrame:
    """Return the results in raw files of fio and of replays, with a row for each source, job and direction."""
    found = []
    if of_fio:
        parsed = fio_parser_json.jobs(of_fio)
        # the options as fio prints them are replaced by those in canonical units
        printed = [name for name in parsed.columns if name.startswith("option_") or name in fio_options.NUMBERS]
        found.append(parsed.drop(columns=printed))
    if of_replays:
        found.append(replays.replay_rows(of_replays))
    return found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)


def tuning_records(raw_files: Sequence[Path], experiments: Mapping[str, Sequence[str]]) -> list[TuningRecord]:
    """Return the outcome of each setting of each cell.

    Args:
        raw_files: The raw files of a study, with their metadata files beside them.
        experiments: The names of the experiments of each cell, as for `measurement_table`.

    Raises:
        MetadataError: A raw file is not the file that was measured.
    """
    first_files: dict[Path, Path] = {}
    for raw in raw_files:
        first_files.setdefault(raw.parent, raw)
    records: list[TuningRecord] = []
    for cell, raw in first_files.items():
        metadata = read_metadata(raw)
        drive, study, name = cell.parts[-3:]
        names, measured = list(experiments[f"{drive}/{study}/{name}"]), is_measured(metadata)
        records += [
            {"drive": drive, "cell": name, "experiments": names, "measured": measured, **step}
            for step in metadata["tuning"]
        ]
    return records


def study_provenance(raw_files: Sequence[Path]) -> StudyProvenance:
    """Return the provenance of the measurements of one study.

    Args:
        raw_files: The raw files of the study, with their metadata files beside them.

    Raises:
        MetadataError: A raw file is not the file that was measured.
        ArchiveError: The record of the archive of a drive is not valid.
        CollectError: There are no measurements.
    """
    all_metadata = [read_metadata(raw) for raw in raw_files]
    measured = [metadata for metadata in all_metadata if is_measured(metadata)]
    if not measured:
        raise CollectError(_NOTHING_MEASURED)
    cells = {raw.parent: is_measured(metadata) for raw, metadata in zip(raw_files, all_metadata, strict=True)}
    real = [metadata for metadata in measured if metadata["drive"]["kind"] not in kinds.SIMULATED_KINDS]
    return {
        "cells": sum(cells.values()),
        "left_out": len(cells) - sum(cells.values()),
        "executions": len(measured),
        "real_executions": len(real),
        "doubts": dict(sorted(count_doubts(real).items())),
        "fio_seconds": round(sum(metadata["wall_s"] for metadata in real), 3),
        "started": min((metadata["started"] for metadata in real), default=None),
        "ended": max((metadata["ended"] for metadata in real), default=None),
        "runtime_ms": Counter(each["specification"]["runtime_ms"] for each in measured).most_common(1)[0][0],
        "warmup_ms": max(metadata["specification"]["warmup_ms"] for metadata in measured),
        "command": shlex.join(measured[0]["command"]),
        "fio_versions": sorted({metadata["fio_version"] for metadata in measured}),
        "machines": _distinct(metadata["machine"] for metadata in real),
        "drives": _distinct(_described(raw, metadata) for raw, metadata in zip(raw_files, all_metadata, strict=True)),
    }


def count_doubts(real: Iterable[MetadataFile]) -> Counter[str]:
    """Return the number of repetitions on real drives that each doubt concerns.

    A change of firmware is a doubt that only shows by comparing repetitions.
    """
    found: Counter[str] = Counter()
    first: dict[str, str | None] = {}
    for metadata in sorted(real, key=lambda metadata: str(metadata["started"])):
        found.update(metadata.get("doubts", ()))
        name, firmware = metadata["drive"]["name"], metadata["drive"].get("firmware")
        if first.setdefault(name, firmware) != firmware:
            found["other firmware than at first"] += 1
    return found


def _described(raw: Path, metadata: MetadataFile) -> DescribedDrive:
    """Return the identity of a drive under its name in this project, with the archive that it comes from, if any."""
    folder = raw.parent.parent.parent
    origin = archive.read_origin(folder)
    described = cast(DescribedDrive, {**metadata["drive"], "name": folder.name})
    return {**described, "archive": origin} if origin else described


def report_colophon(studies: Mapping[str, StudyProvenance]) -> Colophon:
    """Return the colophon of a report.

    Args:
        studies: The provenance of each study, see `study_provenance`, with title and source added.
    """
    parts = list(studies.values())
    drives = _distinct(drive for part in parts for drive in part["drives"])
    real = [part for part in parts if part["real_executions"]]
    return {
        "version": iopatterns.__version__,
        "executions": sum(part["executions"] for part in parts),
        "real_executions": sum(part["real_executions"] for part in parts),
        "fio_seconds": round(sum(part["fio_seconds"] for part in parts), 3),
        "started": min((str(part["started"]) for part in real), default=None),
        "ended": max((str(part["ended"]) for part in real), default=None),
        "fio_versions": _distinct(version for part in parts for version in part["fio_versions"]),
        "machines": _distinct(machine for part in parts for machine in part["machines"]),
        "drives": [{**drive, "simulated": drive["kind"] in kinds.SIMULATED_KINDS} for drive in drives],
        "order": list(studies),
        "software": {name: importlib.metadata.version(name) for name in _SOFTWARE},
        "studies": {name: _summary(part) for name, part in studies.items()},
    }


def _summary(part: StudyProvenance) -> StudySummary:
    shared = _MeasuredWith.__annotations__
    return cast(StudySummary, {key: value for key, value in part.items() if key not in shared})


def _distinct(items: Iterable[_Item]) -> list[_Item]:
    """Return equal items once, in the order in which they first appear."""
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())
