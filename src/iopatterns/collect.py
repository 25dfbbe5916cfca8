"""Turns raw files and their sidecars into what the analysis reads: a tidy table and how it came about."""

import importlib.metadata
import itertools
import json
import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import fio_parser_json
import iopatterns
from iopatterns.measure import read_sidecar

# The libraries whose version can change a number or a figure, named in the report's colophon; Python's own cannot
_SOFTWARE = ("snakemake", "papermill", "pandas", "numpy", "scipy", "matplotlib", "typst")


def measurements(raw_files: Sequence[Path]) -> pd.DataFrame:
    """Return one row per execution x job x direction.

    Columns: study, drive, cell, execution, drive_kind (twin, file); the cell's fio options in canonical units (rw,
    bs_bytes, numjobs, iodepth, ioengine …); then the columns of `fio_parser_json.jobs`. Raises MeasureError for a raw
    file that is not what was measured, FioParseError for one that is no result of fio.
    """
    rows = []
    for raw in raw_files:
        cell = raw.parent
        sidecar = read_sidecar(raw)
        options = dict(sidecar["specification"]["fio"])
        options["bs_bytes"] = options.pop("bs")
        options["drive_kind"] = sidecar["specification"]["drive"]["kind"]
        keys = {"study": cell.parent.name, "drive": cell.parent.parent.name, "cell": cell.name}
        rows.append({"source": str(raw), **keys, "execution": sidecar["execution"], **options})
    parsed = fio_parser_json.jobs(raw_files)
    # fio's own rendering of the options is in the raw files; here the canonical ones stand for them
    parsed = parsed[[column for column in parsed.columns if not column.startswith("option_")]]
    return pd.DataFrame(rows).merge(parsed, on="source", validate="one_to_many").drop(columns="source")


def provenance(raw_files: Sequence[Path]) -> dict[str, Any]:
    """Return how the raw files of one study came about.

    Keys: cells, executions, runtime_ms, warmup_ms (the longest), command (one real command line), fio_versions, drives;
    and of the executions on real drives real_executions, fio_seconds (wall time of all fio processes kept), started,
    ended (UTC; None without any), machines: what a twin gives depends on neither clock nor machine, and what is said of
    it does not either. Raises MeasureError.
    """
    sidecars = [read_sidecar(raw) for raw in raw_files]
    real = [sidecar for sidecar in sidecars if sidecar["drive"]["kind"] != "twin"]
    first = sidecars[0]
    return {
        "cells": len({raw.parent for raw in raw_files}),
        "executions": len(raw_files),
        "real_executions": len(real),
        "fio_seconds": round(sum(sidecar["wall_s"] for sidecar in real), 3),
        "started": min((sidecar["started"] for sidecar in real), default=None),
        "ended": max((sidecar["ended"] for sidecar in real), default=None),
        "runtime_ms": first["specification"]["runtime_ms"],
        "warmup_ms": max(sidecar["specification"]["warmup_ms"] for sidecar in sidecars),
        "command": shlex.join(first["command"]),
        "fio_versions": sorted({sidecar["fio_version"] for sidecar in sidecars}),
        "machines": _distinct(sidecar["machine"] for sidecar in real),
        "drives": _distinct(sidecar["drive"] for sidecar in sidecars),
    }


def colophon(studies: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return how the whole report came about, from the `provenance` of each study (title and source added).

    Keys: version, executions, real_executions, fio_seconds, started, ended (None where no real drive was measured),
    fio_versions, software (name to version), machines, drives, studies.
    """
    parts = list(studies.values())
    together = ("fio_versions", "machines", "drives")
    real = [part for part in parts if part["real_executions"]]
    return {
        "version": iopatterns.__version__,
        "executions": sum(part["executions"] for part in parts),
        "real_executions": sum(part["real_executions"] for part in parts),
        "fio_seconds": round(sum(part["fio_seconds"] for part in parts), 3),
        "started": min((part["started"] for part in real), default=None),
        "ended": max((part["ended"] for part in real), default=None),
        **{key: _distinct(itertools.chain.from_iterable(part[key] for part in parts)) for key in together},
        "software": {name: importlib.metadata.version(name) for name in _SOFTWARE},
        "studies": {
            name: {key: value for key, value in part.items() if key not in together} for name, part in studies.items()
        },
    }


def _distinct(items: Iterable[Any]) -> list[Any]:
    """Return equal items once, in the order in which they first come."""
    return list({json.dumps(item, sort_keys=True): item for item in items}.values())
