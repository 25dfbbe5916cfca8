"""Draw the measurements of finished runs over any factor that a study varies.

A factor is an option of fio or a drive setting, such as the block size.
"""

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
    """The error raised if a requested figure cannot be drawn.

    The message names the factors (fio options or drive settings) that vary in the experiment.
    """

    exit_status = 2


def finished_runs(root: Path) -> dict[str, Path]:
    """Return the files with the measurements of all finished runs.

    A run is the whole report, the quick report or a run of ``iopatterns bench``, each with its own results folder.

    Args:
        root: The folder of the project.

    Returns:
        The path of each Parquet file. The key consists of results folder and study, such as ``results/quick/kapoor``.
        Empty if nothing was measured.
    """
    found = [path for folder in _RESULTS for path in sorted(root.glob(f"{folder}/measurements/*.parquet"))]
    return {f"{path.parents[1].relative_to(root)}/{path.stem}": path for path in found}


def varied_levels(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """Return the levels of each factor that has several levels.

    A factor is an option of fio or a drive setting, and its values are levels.

    Args:
        rows: One row per repetition, as `quantities.read_executions` returns it.

    Returns:
        The sorted levels, by the factor's column in ``rows``, such as ``{"bs_bytes": [4096, 65536]}``. Missing levels
        are left out.
    """
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
    """Return a figure of a quantity over one factor, with 95 % confidence intervals.

    A factor is an option of fio or a drive setting, and its values are levels. Each factor that varies in the
    experiment must be on the axis, in the curves, in the panels, or have one level in ``at``.

    Args:
        executions: One row per repetition, as `quantities.read_executions` returns it.
        experiment: The name of the experiment.
        of: The name of the quantity, such as ``bandwidth``.
        x: The column of the factor on the horizontal axis, such as ``bs_bytes``.
        curve: The column of the factor with a curve per level; None for a single curve.
        panel: The column of the factor with a panel per level; None for a single panel.
        at: One level of every other factor that varies, by column, such as ``{"iodepth": 8}``. Only repetitions with
            these levels are drawn.

    Raises:
        BrowseError: A column in ``curve``, ``panel`` or ``at`` does not vary, or a factor varies that none of the
            arguments names.
        PlotError: There are no measurements to draw.
        QuantityError: The quantity does not exist.
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
