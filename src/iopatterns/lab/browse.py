"""Draw the measurements of finished runs over any factor that was varied."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis import plots, quantities
from iopatterns.analysis.statistics import summarise_groups
from iopatterns.base.errors import IoPatternsError
from iopatterns.study import varied_columns

# The results folders of the whole report, the quick report and `iopatterns bench`
_RESULTS = ("results", "results/*", "results/bench/*")
NO_FINISHED_RUN = (
    "There are no measurements yet. Run `./reproduce.sh quick` or `snakemake --cores 1` in the folder of the project,"
    " then run this cell again."
)


class BrowseError(IoPatternsError):
    """The measurements do not have the requested figure; the message names what they have."""

    exit_status = 2


def finished_runs(root: Path) -> dict[str, Path]:
    """Return the tables of measurements of all finished runs, by ``results folder/study``."""
    found = [path for folder in _RESULTS for path in sorted(root.glob(f"{folder}/measurements/*.parquet"))]
    return {f"{path.parents[1].relative_to(root)}/{path.stem}": path for path in found}


def varied_levels(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the sorted levels of each factor that varies in some repetitions, by column."""
    return {name: sorted(set(rows[name].dropna())) for name in varied_columns(rows)}


def draw_figure(
    executions: pd.DataFrame,
    experiment: str,
    of: str,
    x: str,
    *,
    curve: str | None = None,
    panel: str | None = None,
    at: Mapping[str, Any] | None = None,
) -> Figure:
    """Return the figure of a quantity over a factor, with 95 % intervals, see `plots.factors_figure`.

    Args:
        executions: One row per repetition, as `quantities.read_executions` returns it.
        experiment: The name of the experiment.
        of: The name of the quantity.
        x: The column of the horizontal axis.
        curve: The column whose levels are curves.
        panel: The column whose levels are panels.
        at: The level of every other column that varies. Repetitions of different cells are never averaged.

    Raises:
        BrowseError: A column does not vary, or the level of a column is missing.
        PlotError: The figure cannot be drawn.
    """
    rows, at = quantities.select_experiments(executions, experiment), at or {}
    varied = varied_columns(rows)
    shown = list(dict.fromkeys(name for name in (x, curve, panel) if name))
    for name in [*shown[1:], *at]:
        if name not in varied:
            raise BrowseError(f"experiment '{experiment}': '{name}' does not vary. Varied: {', '.join(varied)}.")
    if missing := [name for name in varied if name not in {*shown, *at}]:
        raise BrowseError(f"experiment '{experiment}': {', '.join(missing)} also varies. Give a level with `at`.")
    for name, level in at.items():
        rows = rows[rows[name] == level]
    column = quantities.get_quantity(of).column
    summary = summarise_groups(rows[rows[column].notna()], shown, column)
    return plots.factors_figure(summary, of, x, curve, panel)
