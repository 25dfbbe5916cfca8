"""Identify a measured figure by its drive, its workload and its quantity.

Two figures are the same figure if a simulated drive with the same parameters was asked to do the same. The study, the
experiment and the cell that measured a figure do not matter. How long, on how much of the drive and with which random
numbers it was measured do not matter either.
"""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns.analysis import published, quantities
from iopatterns.base import engines, yaml_schema
from iopatterns.configuration import factors, study_files

# What fio is asked to do: pairs of the name of a factor and its level. Levels that are fio's defaults are left out.
WorkloadLevels = frozenset[tuple[str, Any]]

# The first column of the executions that is a result
FIRST_RESULT = "bandwidth_bytes_per_s"
# The columns that follow from each other within one workload, and the name that stands for all of them. A workload
# fixes the size of requests, their share of reads and the queue depth. So each rate follows from any other rate, and by
# Little's law from a mean latency.
_RATE = "rate"
_RATE_COLUMNS = {quantity.column for quantity in quantities.QUANTITIES.values()} | {FIRST_RESULT}
# Levels without effect
_DEFAULTS = {"numjobs": 1, "iodepth": 1, "offset": 0, "skip": 0, "direct": 1, "fsync": 0, "fdatasync": 0}
_MIXED = frozenset({"randrw", "readwrite"})
# The parameter that says how much of a drive is simulated
_SIZE = "capacity.size"


@dataclass(frozen=True)
class Figure:
    """A number that can be measured: a simulated drive, a workload and a quantity.

    Attributes:
        model: The name of the drive's model, such as ``c400``.
        parameters: The parameters of the drive that differ from the model, as pairs of name and value.
        workload: What fio is asked to do.
        family: The column of the quantity in a table of repetitions; ``rate`` for all columns that follow from each
            other, such as bandwidth and mean latency.
    """

    model: str
    parameters: frozenset[tuple[str, str]]
    workload: WorkloadLevels
    family: str


def quantity_family(column: str) -> str:
    """Return ``rate`` for a column that follows from a rate, otherwise the column.

    Args:
        column: A column of a table of repetitions, such as ``latency_ms``.
    """
    return _RATE if column in _RATE_COLUMNS or column.endswith("_mean_ms") else column


def drive_parameters(replaced: Mapping[str, Any]) -> frozenset[tuple[str, str]]:
    """Return the parameters that distinguish a simulated drive from its model.

    The simulated part of the drive, ``capacity.size``, is left out.

    Args:
        replaced: The parameters that replace parameters of the model, such as ``{"ftl.initial_state": "random"}``.
    """
    return frozenset((name, str(value).replace(" ", "")) for name, value in replaced.items() if name != _SIZE)


def workload_of_row(row: Mapping[Any, Any]) -> WorkloadLevels:
    """Return the workload of a repetition.

    Args:
        row: The repetition, a row of the table that `quantities.read_executions` returns. For a replay of a trace, the
            workload is the trace. The table does not contain it, so that the name of the cell stands for it.
    """
    levels = {name: row.get(factor.column) for name, factor in factors.FACTORS.items()}
    found = _workload({name: level for name, level in levels.items() if not _is_missing(level)})
    return found if _is_missing(row.get("duration_s")) else found | {("replay", row["cell"])}


def workload_of_value(row: Mapping[Any, Any], grid: Mapping[str, Any]) -> WorkloadLevels:
    """Return the workload that a published value is about.

    Args:
        row: The published value: a row of the table that `published.load_values` returns, as a mapping.
        grid: The content of the study's file in config/studies; empty if there is none. The experiment of the value
            fixes the options that the value does not state.
    """
    fixed = {**grid.get("fio", {}), **grid.get("experiments", {}).get(row["experiment"], {}).get("fio", {})}
    stated = {name: row[name] for name in ("rw", "bs") if row[name]}
    levels = {**fixed, **stated, **published.parse_conditions(row["conditions"])}
    return _workload({name: factors.find_factor(name).read(level) for name, level in levels.items()})


def _workload(levels: Mapping[str, Any]) -> WorkloadLevels:
    """Return a workload from levels of factors in canonical units."""
    known = dict(levels)
    if known.get("ioengine") in engines.SYNCHRONOUS_ENGINES:
        known["iodepth"] = 1  # whatever the option says
    if known.get("rw") in _MIXED:
        known.setdefault("rwmixread", 50)
    else:
        known.pop("rwmixread", None)
    return frozenset(
        (name, level)
        for name, level in known.items()
        if factors.find_factor(name).is_of_workload and _DEFAULTS.get(name) != level
    )


def _is_missing(level: Any) -> bool:
    return level is None or level is pd.NA or (isinstance(level, float) and math.isnan(level))


def figures_of_rows(cells: pd.DataFrame) -> list[Figure]:
    """Return the figure of each cell, with an empty quantity.

    Args:
        cells: A row for each cell, with the columns of the table that `quantities.read_executions` returns. A table
            without the column drive_set is of an earlier version.
    """
    return [
        Figure(
            str(row["drive_model"]),
            drive_parameters(json.loads(row.get("drive_set") or "{}")),
            workload_of_row(row),
            "",
        )
        for row in cells.to_dict("records")
    ]


def published_figures(root: Path, study: str) -> Iterator[tuple[str, Figure]]:
    """Yield the figures that the published values of a study are about, with the ids of the values.

    Values that no experiment measures are left out.

    Args:
        root: The folder of the project.
        study: The name of the study. Its files need not exist.

    Raises:
        PublishedError: The published values are invalid.
    """
    file = study_files.GRID.format(study=study)
    grid = yaml_schema.read_yaml(root, file) if (root / file).exists() else {}
    values = published.load_values(root / study_files.PUBLISHED_PLACE.format(study=study))
    for row in values[values["experiment"] != ""].to_dict("records"):
        drive = grid.get("twins", {}).get(row["drive_key"], {"model": row["drive_key"]})
        family = quantity_family(quantities.get_quantity(row["quantity"]).column)
        parameters = drive_parameters(drive.get("set", {}))
        yield row["id"], Figure(drive.get("model", ""), parameters, workload_of_value(row, grid), family)
