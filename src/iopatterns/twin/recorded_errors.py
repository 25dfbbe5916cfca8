"""Errors of the models against measurements of the real drives, as a default run recorded them.

The record, `errors.csv` beside the model files, has the errors on points that decided nothing about a model: neither
its parameters nor its mechanisms. `snakemake readme` writes it.
"""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

from iopatterns.twin.models import Model
from iopatterns.twin.state import models_folder

FILE = "errors.csv"
# Figures of the record by the first part of a column's name, with their names for people
FIGURES: Mapping[str, str] = {"iops": "IOPS", "lat_mean": "mean latency", "p50": "p50", "p99": "p99"}
# A model serves for a figure up to the first mean error, and does not serve above the second one
_GOOD, _BAD = 0.10, 0.25

ErrorRows = Sequence[Mapping[str, str]]


def load_errors(model: Model) -> ErrorRows:
    """Return the recorded errors of a model, as `all_errors` describes them.

    Args:
        model: The model. A file outside of the project's models has no record.
    """
    folder = Path(models_folder())
    is_shipped = model.path.resolve().parent == folder.resolve()
    return [row for row in all_errors() if row["model"] == model.name] if is_shipped else []


def all_errors() -> ErrorRows:
    """Return the recorded errors of all models: a row for each kind of workload and range of outstanding requests.

    Returns:
        Rows of text by column: study, model, digest (see `Model.digest`), workloads, outstanding, points (their
        number), and for each of `FIGURES` the mean of the absolute errors and the largest error with its sign, such as
        ``iops_mean`` and ``iops_worst``; 0.05 is 5 %, and empty text is unknown. A model that was not compared with
        its real drive has no row.
    """
    path = Path(models_folder()) / FILE
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def use_text(rows: ErrorRows) -> list[str]:
    """Return what a model should and should not be used for, one sentence per line.

    Args:
        rows: The recorded errors of the model.
    """
    uses: dict[str, dict[str, list[str]]] = {"good": {}, "bad": {}}
    for row in rows:
        place = f"{row['workloads']} with {row['outstanding']} outstanding"
        for figure, name in FIGURES.items():
            error = row[f"{figure}_mean"]
            use = "" if not error else "good" if float(error) <= _GOOD else "bad" if float(error) > _BAD else ""
            if use:
                uses[use].setdefault(place, []).append(name)

    def listed(found: Mapping[str, Sequence[str]]) -> str:
        return "; ".join(f"{', '.join(names)} of {place}" for place, names in found.items()) or "nothing"

    return [
        f"Use it for (mean error up to {_GOOD:.0%}): {listed(uses['good'])}.",
        f"Do not use it for (mean error above {_BAD:.0%}): {listed(uses['bad'])}.",
    ]


def error_lines(model: Model) -> list[str]:
    """Return the lines that describe the errors of a model to a user.

    Args:
        model: The model.
    """
    rows = load_errors(model)
    if not rows:
        return [
            "Error on fio runs of the real drive: unknown, because no such runs were compared with this model.",
            "The section `fit` of the model file and docs/twins.md have its errors against published values.",
        ]
    studies = ", ".join(dict.fromkeys(row["study"] for row in rows))
    points = sum(int(row["points"]) for row in rows)
    lines = [f"Error against the real drive at {points} points that decided nothing about the model (study {studies}):"]
    lines.append(
        f"  {'workload':<10}{'outstanding':<14}{'points':>6}" + "".join(f"{name:>18}" for name in FIGURES.values())
    )
    for row in rows:
        cells = "".join(f"{cell_text(row, figure):>18}" for figure in FIGURES)
        lines.append(f"  {row['workloads']:<10}{row['outstanding']:<14}{row['points']:>6}{cells}")
    lines.append("  Each cell has the mean absolute error and, in parentheses, the largest error.")
    if any(row["digest"] != model.digest for row in rows):
        lines.append("  The model has changed since: `snakemake --cores 1 readme` records its errors again.")
    return [*lines, *use_text(rows)]


def cell_text(row: Mapping[str, str], figure: str) -> str:
    """Return the mean and the largest error of a figure, such as ``4 % (-12 %)``.

    Args:
        row: A row of the record.
        figure: A key of `FIGURES`.
    """
    mean, worst = row[f"{figure}_mean"], row[f"{figure}_worst"]
    return f"{100 * float(mean):.0f} % ({100 * float(worst):+.0f} %)" if mean and worst else "–"
