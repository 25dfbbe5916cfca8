"""Turns raw files and their sidecars into what the analysis reads: a tidy table and how it came about."""

import importlib.metadata
import itertools
import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import fio_parser_json
import iopatterns
from iopatterns.analysis import quantities, replays
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import factors, kinds
from iopatterns.measuring import steadiness
from iopatterns.raw import archive
from iopatterns.raw.records import Sidecar
from iopatterns.raw.sidecars import is_measured, read_sidecar

# The libraries whose version can change a number or a figure, named in the report's colophon; Python's own cannot
_SOFTWARE = ("snakemake", "papermill", "pandas", "numpy", "scipy", "matplotlib", "typst")


class CollectError(IoPatternsError):
    """The raw files of a study hold no measurement at all."""


def measurements(raw_files: Sequence[Path], experiments: Mapping[str, str]) -> pd.DataFrame:
    """Return one row per execution x job x direction.

    ``experiments`` has the names of each cell's experiments by its folder, ``<drive>/<study>/<cell>``. Columns: study,
    drive, cell, execution, experiments, drive_kind (twin, file, block), drive_model (of a twin); tuned (whether the
    cell asks for any setting) and set_<setting> for each setting that a cell asks for (missing in cells that do not);
    the cell's fio options in canonical units (rw, bs_bytes, numjobs, iodepth, ioengine …); then the columns of
    `fio_parser_json.jobs`; then steady (whether the execution was in a steady state, see `is_steady`) and
    counter_<name> for each counter of a twin (of the whole execution, in each of its rows; missing on other drives).
    Cells whose settings the drive did not take have no rows (`tuned` lists them). Raises SidecarError for a raw file
    that is not what was measured, FioParseError for one that is no result of fio, CollectError where nothing was
    measured.
    """
    rows, counted = [], []
    measured: list[Path] = []
    replayed: list[Path] = []
    for raw in raw_files:
        cell = raw.parent
        sidecar = read_sidecar(raw)
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
        about = {**keys, "execution": sidecar["execution"], "experiments": asked_by}
        rows.append({"source": str(raw), **about, **options})
        counters = sidecar.get("counters", {})
        counted.append(
            {"source": str(raw), **{f"{quantities.COUNTER}{name}": number for name, number in counters.items()}}
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
        found.append(parsed[[column for column in parsed.columns if not column.startswith("option_")]])
    if replayed:
        found.append(replays.rows(replayed))
    return found[0] if len(found) == 1 else pd.concat(found, ignore_index=True)


def is_steady(rows: pd.DataFrame) -> bool | None:
    """Return whether an execution was in a steady state, by SNIA's limits for five rounds of it; None if unknown.

    ``rows`` are those of its jobs and directions, whose extremes are added up: that can find an even rate uneven where
    jobs take from each other, but no uneven one even. It is unknown where fio counted fewer rounds, as of a replay that
    was over early.
    """
    if "iops_samples" not in rows:
        return None
    counted = rows.dropna(subset=["iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"])
    counted = counted[counted["iops_samples"] > 0]
    if counted.empty:
        return None
    # of jobs reported as one, fio adds up the extremes and the means, and gives the deviation that one of them has
    jobs = counted["numjobs"].fillna(1) if "numjobs" in counted else pd.Series(1, counted.index)
    together = jobs.where(counted["group_reporting"].fillna(0).astype(bool), 1) if "group_reporting" in counted else 1
    found = steadiness.of_rounds(
        float(counted["iops_min"].sum()),
        float(counted["iops_max"].sum()),
        float(counted["iops_mean"].sum()),
        float((counted["iops_stddev"] * together).sum()),
        int((counted["iops_samples"] // together).min()),
    )
    return None if found is None else found.steady


def tuned(raw_files: Sequence[Path], experiments: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return what became of each setting of each cell that asks for any: one record per cell and setting.

    Keys: drive, cell, experiments (see `measurements`), measured (whether all its settings were taken), and those of
    `tuning_steps.Step`. Raises SidecarError.
    """
    records = []
    seen = set()
    for raw in raw_files:
        cell = raw.parent
        if cell in seen:
            continue
        seen.add(cell)
        sidecar = read_sidecar(raw)
        for step in sidecar["tuning"]:
            drive = cell.parent.parent.name
            asked_by = experiments["/".join((drive, cell.parent.name, cell.name))]
            about = {"drive": drive, "cell": cell.name, "experiments": asked_by}
            records.append({**about, "measured": is_measured(sidecar), **step})
    return records


def provenance(raw_files: Sequence[Path]) -> dict[str, Any]:
    """Return how the raw files of one study came about.

    Keys: cells, doubts (what makes how many executions on real drives doubtful), executions (of fio), left_out (cells
    whose settings the drive did not take), runtime_ms (of most executions), warmup_ms (the longest), command (one real
    command line), fio_versions, drives (what each said of itself; with ``archive`` where it was measured elsewhere, see
    `archive.origin`); and of the executions on real drives real_executions, fio_seconds (wall time of all fio processes
    kept), started, ended (UTC; None without any), machines: what a twin gives depends on neither clock nor machine, and
    what is said of it does not either. Raises SidecarError or ArchiveError.
    """
    all_sidecars = [read_sidecar(raw) for raw in raw_files]
    sidecars = [sidecar for sidecar in all_sidecars if is_measured(sidecar)]
    if not sidecars:
        raise CollectError("nothing was measured: no drive took the settings that its cells ask for")
    cells = {raw.parent: is_measured(sidecar) for raw, sidecar in zip(raw_files, all_sidecars, strict=True)}
    real = [sidecar for sidecar in sidecars if sidecar["drive"]["kind"] not in kinds.SIMULATED]
    first = sidecars[0]
    return {
        "cells": sum(cells.values()),
        "left_out": len(cells) - sum(cells.values()),
        "executions": len(sidecars),
        "real_executions": len(real),
        "doubts": dict(sorted(doubts_of(real).items())),
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


def doubts_of(real: Iterable[Sidecar]) -> Counter[str]:
    """Return how many executions on real drives have which doubt; one shows only beside the others: newer firmware."""
    found: Counter[str] = Counter()
    first: dict[str, str | None] = {}
    for sidecar in sorted(real, key=lambda sidecar: str(sidecar["started"])):
        found.update(sidecar.get("doubts", ()))
        name, firmware = sidecar["drive"]["name"], sidecar["drive"].get("firmware")
        if first.setdefault(name, firmware) != firmware:
            found["other firmware than at first"] += 1
    return found


def _identity(raw: Path, sidecar: Sidecar) -> dict[str, Any]:
    """Return what a drive said of itself, by the name that it has here, and which archive that comes from if any."""
    folder = raw.parent.parent.parent
    elsewhere = archive.origin(folder)
    return {**sidecar["drive"], "name": folder.name, **({"archive": elsewhere} if elsewhere else {})}


def colophon(studies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the whole report came about, from the `provenance` of each study (title and source added).

    Keys: version, executions, real_executions, fio_seconds, started, ended (None where no real drive was measured),
    fio_versions, software (name to version), machines, drives (with ``simulated``: whether it is a twin), studies, and
    their order.
    """
    parts = list(studies.values())
    together = ("fio_versions", "machines", "drives")
    merged = {key: _distinct(itertools.chain.from_iterable(part[key] for part in parts)) for key in together}
    drives = [{**drive, "simulated": drive["kind"] in kinds.SIMULATED} for drive in merged["drives"]]
    real = [part for part in parts if part["real_executions"]]
    return {
        "version": iopatterns.__version__,
        "executions": sum(part["executions"] for part in parts),
        "real_executions": sum(part["real_executions"] for part in parts),
        "fio_seconds": round(sum(part["fio_seconds"] for part in parts), 3),
        "started": min((part["started"] for part in real), default=None),
        "ended": max((part["ended"] for part in real), default=None),
        **merged,
        "drives": drives,
        "order": list(studies),
        "software": {name: importlib.metadata.version(name) for name in _SOFTWARE},
        "studies": {
            name: {key: value for key, value in part.items() if key not in together} for name, part in studies.items()
        },
    }


def _distinct(items: Iterable[Any]) -> list[Any]:
    """Return equal items once, in the order in which they first come."""
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())
