"""Collect the raw files of a study into tables.

A raw file holds what fio printed in one repetition (run of fio). The metadata file beside a raw file says how it was
made. Raw files and metadata files are combined into a table of measurements, a list of the outcomes of drive settings,
and the provenance of the measurements.
"""

import importlib.metadata
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar, cast

import pandas as pd

import fio_parser_json
import iopatterns
from fio_parser_json import options as fio_options
from iopatterns.analysis import quantities, replays
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import factors, kinds
from iopatterns.measuring.steadiness import is_steady
from iopatterns.raw import archive
from iopatterns.raw.cells import canonical_json
from iopatterns.raw.metadata_files import is_measured, read_metadata
from iopatterns.raw.records import DriveIdentity, MachineFacts, MetadataFile
from iopatterns.raw.tuning_steps import TuningRecord

# The libraries whose versions can change a number or a figure
_SOFTWARE = ("snakemake", "papermill", "pandas", "numpy", "scipy", "matplotlib", "typst")

_NOTHING_MEASURED = "nothing was measured: no drive took the settings that its cells ask for"

_Item = TypeVar("_Item")
# The version of fio, the SHA-256 of the simulator's sources, and the host; None if unknown
_Origin = tuple[str | None, ...]


class DescribedDrive(DriveIdentity):
    """The identity that a drive reported, with the drive's name in this project.

    Attributes:
        archive: The archive from which the raw files (fio's results) of the drive were unpacked. Drives whose raw files
            were measured here do not have this key.
        simulated: Whether the drive is simulated. Only the drives of a `Colophon` have this key; those of a
            `StudyProvenance` do not.
    """

    archive: NotRequired[archive.ArchiveOrigin]
    simulated: NotRequired[bool]


class _RunTotals(TypedDict):
    """Totals over all repetitions of one or several studies.

    Times are of real drives only, because the results of simulated drives depend on neither clock nor machine.

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
    """Numbers about the measurements of one study, for the end of a report.

    A cell is one configuration: a drive, its settings and a workload. A repetition is one run of fio for a cell. In
    addition to the attributes below, there are these keys:

    - executions and real_executions: number of all repetitions, and of repetitions on real (not simulated) drives
    - fio_seconds: wall time of fio on real drives, in seconds
    - started and ended: begin of the first and end of the last repetition on a real drive (UTC); None if there is none

    Attributes:
        cells: Number of measured cells.
        left_out: Number of cells that were not measured because a drive did not take their settings.
        doubts: For each reason to doubt a measurement, such as a change of firmware, the number of repetitions with
            this reason.
        runtime_ms: The most frequent run time of a repetition.
        warmup_ms: The longest warm-up.
        command: The command line of the first measured repetition, as an example.
        title: Title of the study. `study_provenance` does not return this key; callers add it.
        source: The publication that the study reproduces. `study_provenance` does not return this key; callers add it.
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
    """The numbers of a `StudySummary`, with the software and hardware of the study.

    Three keys are added:

    - fio_versions: list of the versions of fio, such as ``fio-3.33``
    - machines: list of the machines on which real drives were measured
    - drives: list of the drives, real and simulated, each a `DescribedDrive`
    """


class Colophon(_RunTotals, _MeasuredWith):
    """The provenance of all measurements of a report, which is printed at its end.

    Totals are over the repetitions (runs of fio) of all studies. Besides the attributes below, there are these keys:

    - executions and real_executions: number of all repetitions, and of repetitions on real (not simulated) drives
    - fio_seconds: wall time of fio on real drives, in seconds
    - started and ended: begin of the first and end of the last repetition on a real drive (UTC); None if there is none
    - fio_versions: list of the versions of fio
    - machines: list of the machines on which real drives were measured
    - drives: list of the drives, real and simulated, each a `DescribedDrive`

    Attributes:
        version: Version of iopatterns.
        order: The names of the studies in the order of the report.
        software: Versions of the libraries that can change a number or a figure, by name.
        studies: The summary of each study, by name.
    """

    version: str
    order: list[str]
    software: dict[str, str]
    studies: dict[str, StudySummary]


class CollectError(IoPatternsError):
    """The error raised if the raw files of a study contain no measurement.

    The reason is that each drive rejected the settings of its cells (configurations to measure).
    """


def load_metadata(raw_files: Iterable[Path]) -> dict[Path, MetadataFile]:
    """Return the metadata of raw files, after checking the raw files and their metadata files.

    The metadata file of each raw file is beside it. The functions of this module that need the metadata get them from
    the caller, so that all files are checked once.

    Args:
        raw_files: The raw files.

    Returns:
        The metadata, by the path of the raw file, in the given order.

    Raises:
        MetadataError: A raw file or its metadata file has changed, or the metadata file is missing.
    """
    return {raw: read_metadata(raw) for raw in raw_files}


def measurement_table(
    all_metadata: Mapping[Path, MetadataFile], experiments: Mapping[str, Sequence[str]]
) -> pd.DataFrame:
    """Return all measurements of a study as a table.

    A raw file holds what fio printed in one repetition (run) of a cell. A cell is one configuration: a drive, its
    settings and a workload. Cells whose settings the drive did not take have no rows; `tuning_records` lists them.

    Args:
        all_metadata: The metadata of the raw files of the study, from `load_metadata`.
        experiments: For each cell, the names of the experiments that contain the cell. A key is the end of the path of
            the cell's folder, ``<drive>/<study>/<cell>``, such as ``c400/saif2020/randread-4k-j1-c1b1ddf5``.

    Returns:
        A row for each fio job and direction (read or write) of each repetition. Columns, in this order:

        - study, drive and cell
        - execution: number of the repetition
        - experiments: names of the experiments that contain the cell, separated by blanks
        - the fio options of the cell in canonical units: rw, bs_bytes, numjobs, iodepth, ioengine, …
        - drive_kind: ``twin`` (a simulated drive), ``file``, ``block`` or another kind
        - drive_model: the model of a simulated drive; "" for other drives
        - drive_set: the parameters of a simulated drive that replace those of its model, as a JSON object
        - tuned: whether the cell changes settings of the drive
        - set_<setting> for each setting, such as set_scheduler; missing in cells without the setting
        - results of fio: the columns of `fio_parser_json.jobs`
        - results of replayed block traces: the columns of `replays.replay_rows`
        - steady: whether the repetition was in a steady state; missing if unknown
        - counter_<name> for each counter of a simulated drive, over the complete repetition; missing for other drives

    Raises:
        FioParseError: A raw file is not a result of fio.
        CollectError: There are no measurements.
    """
    rows, counted = [], []
    of_fio: list[Path] = []
    of_replays: list[Path] = []
    for raw, metadata in all_metadata.items():
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
        replaced = cast(Mapping[str, Any], specification["drive"]).get("set", {})
        options |= {
            "drive_kind": kind,
            "drive_model": model,
            "drive_set": canonical_json(replaced),
            "tuned": bool(settings),
        }
        options |= {factors.setting_column(setting): value for setting, value in settings.items()}
        rows.append({"source": str(raw), **keys, **options})
        counters = metadata.get("counters", {})
        counted.append(
            {"source": str(raw), **{f"{quantities.COUNTER_PREFIX}{name}": number for name, number in counters.items()}}
        )
    if not rows:
        raise CollectError(_NOTHING_MEASURED)
    table = replays.with_nullable_columns(pd.DataFrame(rows))
    table = table.merge(_results(of_fio, of_replays), on="source", validate="one_to_many")
    steady = {source: is_steady(rows) for source, rows in table.groupby("source")}
    table = table.assign(steady=table["source"].map(steady).astype("boolean"))
    counter_table = replays.with_nullable_columns(pd.DataFrame(counted))
    return table.merge(counter_table, on="source", validate="many_to_one").drop(columns="source")


def _results(of_fio: Sequence[Path], of_replays: Sequence[Path]) -> pd.DataFrame:
    """Return the results in raw files, with a row for each file, job and direction.

    Args:
        of_fio: Raw files of fio.
        of_replays: Raw files of replayed block traces.
    """
    found = []
    if of_fio:
        parsed = fio_parser_json.jobs(of_fio)
        # the options as fio prints them are replaced by those in canonical units
        printed = [name for name in parsed.columns if name.startswith("option_") or name in fio_options.NUMBERS]
        found.append(parsed.drop(columns=printed))
    if of_replays:
        found.append(replays.replay_rows(of_replays))
    return found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)


def tuning_records(
    all_metadata: Mapping[Path, MetadataFile], experiments: Mapping[str, Sequence[str]]
) -> list[TuningRecord]:
    """Return the outcome of each drive setting that each cell of a study asks for.

    A cell is one configuration: a drive, its settings and a workload.

    Args:
        all_metadata: The metadata of the raw files of the study, from `load_metadata`.
        experiments: For each cell, the names of the experiments that contain the cell. A key is the end of the path of
            the cell's folder, ``<drive>/<study>/<cell>``.

    Returns:
        A record per cell and setting, in the order of the raw files. It has the wanted value, the values before and
        after, and the outcome, such as ``changed`` or ``refused``.
    """
    first: dict[Path, MetadataFile] = {}
    for raw, metadata in all_metadata.items():
        first.setdefault(raw.parent, metadata)
    records: list[TuningRecord] = []
    for cell, metadata in first.items():
        drive, study, name = cell.parts[-3:]
        names, measured = list(experiments[f"{drive}/{study}/{name}"]), is_measured(metadata)
        records += [
            {"drive": drive, "cell": name, "experiments": names, "measured": measured, **step}
            for step in metadata["tuning"]
        ]
    return records


def select_by_origin(
    all_metadata: Mapping[Path, MetadataFile], *, average: bool
) -> tuple[dict[Path, MetadataFile], dict[str, int]]:
    """Select the raw files of each cell that have the same origin.

    A raw file is the result of one run of fio for a cell (one configuration: a drive, its settings and a workload). Its
    origin is the version of fio, the simulator and the host that made it. If the raw files of a cell have several
    origins, only the raw files with the most frequent origin are selected. If two origins are equally frequent, the
    first one counts. An older metadata file may lack one of the three values; the cell's most frequent value is then
    assumed.

    Args:
        all_metadata: The metadata of the raw files, from `load_metadata`.
        average: Whether to select the raw files of all origins. Doubts are returned nevertheless.

    Returns:
        The metadata of the selected raw files, and the doubts. A doubt is a text that names a cell, a less frequent
        origin and the most frequent one, with the number of raw files of the less frequent origin.
    """
    origins: dict[Path, dict[Path, _Origin]] = {}
    for raw, metadata in all_metadata.items():
        origins.setdefault(raw.parent, {})[raw] = _origin(metadata)
    selected: dict[Path, MetadataFile] = {}
    doubts: dict[str, int] = {}
    for cell, of_cell in origins.items():
        usual = [Counter(filter(None, values)).most_common(1) for values in zip(*of_cell.values(), strict=True)]
        defaults = [most[0][0] if most else None for most in usual]
        known = {
            raw: tuple(value or default for value, default in zip(values, defaults, strict=True))
            for raw, values in of_cell.items()
        }
        main, *others = Counter(known.values()).most_common()
        selected |= {raw: all_metadata[raw] for raw, origin in known.items() if average or origin == main[0]}
        for origin, count in others:
            what = "averaged with those of" if average else "left out, because most repetitions are of"
            name = "/".join(cell.parts[-3:])
            doubts[f"of {_origin_text(origin)} in {name}, {what} {_origin_text(main[0])}"] = count
    return selected, doubts


def _origin(metadata: MetadataFile) -> _Origin:
    return metadata.get("fio_version"), metadata.get("simulator"), metadata.get("host")


def _origin_text(origin: _Origin) -> str:
    version, simulator, host = origin
    parts = [version, simulator and f"simulator {simulator[:8]}", host and f"host {host}"]
    return ", ".join(part for part in parts if part)


def study_provenance(
    all_metadata: Mapping[Path, MetadataFile], doubts: Mapping[str, int] | None = None
) -> StudyProvenance:
    """Return numbers, software, machines and drives of one study's measurements.

    Args:
        all_metadata: The metadata of the raw files of the study, from `load_metadata`.
        doubts: Further reasons to doubt measurements, each with the number of repetitions, as `select_by_origin`
            returns them. None for no further doubts.

    Returns:
        All keys of `StudyProvenance`, except title and source.

    Raises:
        ArchiveError: The file that says which archive a drive's raw files were unpacked from is not valid.
        CollectError: There are no measurements.
    """
    measured = [metadata for metadata in all_metadata.values() if is_measured(metadata)]
    if not measured:
        raise CollectError(_NOTHING_MEASURED)
    cells = {raw.parent: is_measured(metadata) for raw, metadata in all_metadata.items()}
    real = [metadata for metadata in measured if metadata["drive"]["kind"] not in kinds.SIMULATED_KINDS]
    return {
        "cells": sum(cells.values()),
        "left_out": len(cells) - sum(cells.values()),
        "executions": len(measured),
        "real_executions": len(real),
        "doubts": dict(sorted({**count_doubts(real), **(doubts or {})}.items())),
        "fio_seconds": round(sum(metadata["wall_s"] for metadata in real), 3),
        "started": min((metadata["started"] for metadata in real), default=None),
        "ended": max((metadata["ended"] for metadata in real), default=None),
        "runtime_ms": Counter(each["specification"]["runtime_ms"] for each in measured).most_common(1)[0][0],
        "warmup_ms": max(metadata["specification"]["warmup_ms"] for metadata in measured),
        "command": shlex.join(measured[0]["command"]),
        "fio_versions": sorted({metadata["fio_version"] for metadata in measured}),
        "machines": _distinct(metadata["machine"] for metadata in real),
        "drives": _distinct(_described(raw, metadata) for raw, metadata in all_metadata.items()),
    }


def measured_by(all_metadata: Mapping[Path, MetadataFile]) -> dict[str, list[str]]:
    """Return the versions of fio and simulator, and the hosts, that made raw files.

    Args:
        all_metadata: The metadata of the raw files, from `load_metadata`; of at least one.

    Returns:
        Sorted lists under the keys ``fio`` (such as ``fio-3.33``), ``simulator`` (SHA-256 of the sources) and ``host``
        (name). A list is empty if no metadata file has the value: earlier versions of this package stored neither
        simulator nor host.
    """
    origins = map(_origin, all_metadata.values())
    distinct = [sorted(set(filter(None, values))) for values in zip(*origins, strict=True)]
    return dict(zip(("fio", "simulator", "host"), distinct, strict=True))


def count_doubts(real: Iterable[MetadataFile]) -> Counter[str]:
    """Return the number of repetitions for each reason to doubt a measurement.

    Most reasons were recorded in the metadata, for example that other programs used the drive. This function adds one
    reason, ``other firmware than at first``: the firmware of the drive differs from the firmware in its first
    repetition.

    Args:
        real: The metadata of repetitions (runs of fio) on real drives, in any order.
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
    """Return the identity of the drive of a raw file, under its name in this project.

    The archive that the raw file was unpacked from is added, if any.

    Args:
        raw: The raw file. Its folder is ``<drive>/<study>/<cell>``.
        metadata: Its metadata.
    """
    folder = raw.parent.parent.parent
    origin = archive.read_origin(folder)
    described = cast(DescribedDrive, {**metadata["drive"], "name": folder.name})
    return {**described, "archive": origin} if origin else described


def report_colophon(studies: Mapping[str, StudyProvenance]) -> Colophon:
    """Return the provenance of all measurements of a report.

    Args:
        studies: The provenance of each study, as `study_provenance` returns it, with the keys title and source added.
            The keys of the mapping are the names of the studies, in the order of the report.

    Returns:
        Totals over all studies, the software, machines and drives without duplicates, and the numbers of each study.
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
    """Return the items without duplicates, in the order in which they first appear.

    Items are equal if their JSON texts are equal.
    """
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())
