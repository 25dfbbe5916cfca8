"""Turns raw files and their sidecars into what the analysis reads: a tidy table and how it came about."""

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

# The libraries whose version can change a number or a figure, named in the report's colophon; Python's own cannot
_SOFTWARE = ("snakemake", "papermill", "pandas", "numpy", "scipy", "matplotlib", "typst")


_Item = TypeVar("_Item")


class DescribedDrive(DriveIdentity):
    """What a drive said of itself, by the name that it has here; the colophon adds whether it is ``simulated``."""

    archive: NotRequired[archive.ArchiveOrigin]
    simulated: NotRequired[bool]


class _OfExecutions(TypedDict):
    executions: int  # of fio
    # Of those on real drives: how many, the wall time of all fio processes kept, begin and end of all (UTC; None
    # without any). What a twin gives depends on neither clock nor machine, and what is said of it does not either.
    real_executions: int
    fio_seconds: float
    started: str | None
    ended: str | None


class StudySummary(_OfExecutions):
    """How the raw files of one study came about; a report adds the study's title and source."""

    cells: int
    left_out: int  # cells whose settings the drive did not take
    doubts: dict[str, int]  # what makes how many executions on real drives doubtful
    runtime_ms: int  # of most executions
    warmup_ms: int  # the longest
    command: str  # one real command line
    title: NotRequired[str]
    source: NotRequired[str]


class StudyProvenance(StudySummary):
    """The same, with what studies may have in common; ``machines`` are those of real drives."""

    fio_versions: list[str]
    machines: list[MachineFacts]
    drives: list[DescribedDrive]


class Colophon(_OfExecutions):
    """How a report came about: what its studies have in common once, then each; ``order`` is that of the studies."""

    version: str
    fio_versions: list[str]
    machines: list[MachineFacts]
    drives: list[DescribedDrive]
    order: list[str]
    software: dict[str, str]  # versions by name
    studies: dict[str, StudySummary]


class CollectError(IoPatternsError):
    """The raw files of a study hold no measurement at all."""


def measurement_table(raw_files: Sequence[Path], experiments: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return one row per execution x job x direction.

    ``experiments`` has the names of each cell's experiments by its folder, ``<drive>/<study>/<cell>``. Columns: study,
    drive, cell, execution, experiments, drive_kind (twin, file, block), drive_model (of a twin); tuned (whether the
    cell asks for any setting) and set_<setting> for each setting that a cell asks for (missing in cells that do not);
    the cell's fio options in canonical units (rw, bs_bytes, numjobs, iodepth, ioengine …); then the columns of
    `fio_parser_json.jobs`; then steady (whether the execution was in a steady state, see
    `measuring.steadiness.is_steady`) and counter_<name> for each counter of a twin (of the whole execution, in each of
    its rows; missing on other drives). Cells whose settings the drive did not take have no rows (`tuning_records` lists them).
    Raises SidecarError for a raw file that is not what was measured, FioParseError for one that is no result of fio,
    CollectError where nothing was measured.
    """
    rows, counted = [], []
    measured: list[Path] = []
    replayed: list[Path] = []
    for raw in raw_files:
        cell = raw.parent
        sidecar = read_metadata(raw)
        if not is_measured(sidecar):
            continue
        (replayed if "replay" in sidecar["specification"] else measured).append(raw)
        settings = sidecar["specification"].get("settings", {})
        options = dict(sidecar["specification"]["fio"])
        options[factors.column_of("bs")] = options.pop("bs")
        drive = sidecar["specification"]["drive"]
        options |= {"drive_kind": drive["kind"], "drive_model": drive.get("model", ""), "tuned": bool(settings)}
        options |= {factors.setting_column(setting): value for setting, value in settings.items()}
        keys = {"study": cell.parent.name, "drive": cell.parent.parent.name, "cell": cell.name}
        asked_by = experiments["/".join((keys["drive"], keys["study"], keys["cell"]))]
        # a column of Parquet files that other programs read: text, joined by blanks
        about = {**keys, "execution": sidecar["execution"], "experiments": " ".join(asked_by)}
        rows.append({"source": str(raw), **about, **options})
        counters = sidecar.get("counters", {})
        counted.append(
            {"source": str(raw), **{f"{quantities.COUNTER_PREFIX}{name}": number for name, number in counters.items()}}
        )
    if not rows:
        raise CollectError("nothing was measured: no drive took the settings that its cells ask for")
    parsed = _parsed(measured, replayed)
    table = pd.DataFrame(rows).convert_dtypes(convert_string=False, convert_floating=False)
    table = table.merge(parsed, on="source", validate="one_to_many")
    steady = {source: is_steady(rows) for source, rows in table.groupby("source")}
    table = table.assign(steady=table["source"].map(steady).astype("boolean"))
    of_twins = pd.DataFrame(counted).convert_dtypes(convert_string=False)
    return table.merge(of_twins, on="source", validate="many_to_one").drop(columns="source")


def _parsed(of_fio: Sequence[Path], replayed: Sequence[Path]) -> pd.DataFrame:
    """Return what raw files of fio and of replays tell, in rows by source and direction."""
    found = []
    if of_fio:
        parsed = fio_parser_json.jobs(of_fio)
        # fio's own rendering of the options is in the raw files; the canonical ones stand for them
        rendered = [name for name in parsed.columns if name.startswith("option_") or name in fio_options.NUMBERS]
        found.append(parsed.drop(columns=rendered))
    if replayed:
        found.append(replays.replay_rows(replayed))
    return found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)


def tuning_records(raw_files: Sequence[Path], experiments: Mapping[str, Sequence[str]]) -> list[TuningRecord]:
    """Return what became of each setting of each cell that asks for any: one record per cell and setting.

    Raises SidecarError.
    """
    records: list[TuningRecord] = []
    seen = set()
    for raw in raw_files:
        cell = raw.parent
        if cell in seen:
            continue
        seen.add(cell)
        sidecar = read_metadata(raw)
        for step in sidecar["tuning"]:
            drive = cell.parent.parent.name
            asked_by = list(experiments["/".join((drive, cell.parent.name, cell.name))])
            measured = is_measured(sidecar)
            records.append({"drive": drive, "cell": cell.name, "experiments": asked_by, "measured": measured, **step})
    return records


def study_provenance(raw_files: Sequence[Path]) -> StudyProvenance:
    """Return how the raw files of one study came about. Raises SidecarError, ArchiveError, CollectError."""
    all_sidecars = [read_metadata(raw) for raw in raw_files]
    sidecars = [sidecar for sidecar in all_sidecars if is_measured(sidecar)]
    if not sidecars:
        raise CollectError("nothing was measured: no drive took the settings that its cells ask for")
    cells = {raw.parent: is_measured(sidecar) for raw, sidecar in zip(raw_files, all_sidecars, strict=True)}
    real = [sidecar for sidecar in sidecars if sidecar["drive"]["kind"] not in kinds.SIMULATED_KINDS]
    first = sidecars[0]
    return {
        "cells": sum(cells.values()),
        "left_out": len(cells) - sum(cells.values()),
        "executions": len(sidecars),
        "real_executions": len(real),
        "doubts": dict(sorted(count_doubts(real).items())),
        "fio_seconds": round(sum(sidecar["wall_s"] for sidecar in real), 3),
        "started": min((sidecar["started"] for sidecar in real), default=None),
        "ended": max((sidecar["ended"] for sidecar in real), default=None),
        "runtime_ms": Counter(each["specification"]["runtime_ms"] for each in sidecars).most_common(1)[0][0],
        "warmup_ms": max(sidecar["specification"]["warmup_ms"] for sidecar in sidecars),
        "command": shlex.join(first["command"]),
        "fio_versions": sorted({sidecar["fio_version"] for sidecar in sidecars}),
        "machines": _distinct(sidecar["machine"] for sidecar in real),
        "drives": _distinct(_identity(raw, sidecar) for raw, sidecar in zip(raw_files, all_sidecars, strict=True)),
    }


def count_doubts(real: Iterable[MetadataFile]) -> Counter[str]:
    """Return how many executions on real drives have which doubt; one shows only beside the others: newer firmware."""
    found: Counter[str] = Counter()
    first: dict[str, str | None] = {}
    for sidecar in sorted(real, key=lambda sidecar: str(sidecar["started"])):
        found.update(sidecar.get("doubts", ()))
        name, firmware = sidecar["drive"]["name"], sidecar["drive"].get("firmware")
        if first.setdefault(name, firmware) != firmware:
            found["other firmware than at first"] += 1
    return found


def _identity(raw: Path, sidecar: MetadataFile) -> DescribedDrive:
    """Return what a drive said of itself, by the name that it has here, and which archive that comes from if any."""
    folder = raw.parent.parent.parent
    elsewhere = archive.read_origin(folder)
    named = cast(DescribedDrive, {**sidecar["drive"], "name": folder.name})
    return {**named, "archive": elsewhere} if elsewhere else named


def report_colophon(studies: Mapping[str, StudyProvenance]) -> Colophon:
    """Return how the whole report came about, from the `study_provenance` of each study (title and source added)."""
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
        "studies": {name: _alone(part) for name, part in studies.items()},
    }


def _alone(part: StudyProvenance) -> StudySummary:
    """Return what is said of one study alone."""
    shared = {"fio_versions", "machines", "drives"}
    return cast(StudySummary, {key: value for key, value in part.items() if key not in shared})


def _distinct(items: Iterable[_Item]) -> list[_Item]:
    """Return equal items once, in the order in which they first come."""
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())
