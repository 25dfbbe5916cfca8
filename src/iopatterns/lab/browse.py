"""What finished runs have measured, over any of the factors that were varied."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis import plots, quantities
from iopatterns.analysis.statistics import summarise_groups
from iopatterns.base.errors import IoPatternsError
from iopatterns.study import varied_columns

# Where the commands put what they have measured: the whole report, the quick one, `iopatterns bench`
_RESULTS = ("results", "results/*", "results/bench/*")
NO_FINISHED_RUN = (
    "No run has finished yet, so there is nothing to look at: run `./reproduce.sh quick` or `snakemake --cores 1` in"
    " the project's folder, then this cell again."
)


class BrowseError(IoPatternsError):
    """A figure is asked for that the measurements do not have; the message says what they have."""

    exit_status = 2


def finished_runs(root: Path) -> dict[str, Path]:
    """Return the tables of executions of all finished runs below the project's folder, by ``results/study``."""
    found = [path for folder in _RESULTS for path in sorted(root.glob(f"{folder}/measurements/*.parquet"))]
    return {f"{path.parents[1].relative_to(root)}/{path.stem}": path for path in found}


@dataclass(frozen=True)
class StudyResults:
    """The executions of a study, a row each, see `quantities.read_executions`."""

    rows: pd.DataFrame

    @classmethod
    def read(cls, path: Path) -> "StudyResults":
        """Read a table of `finished_runs`."""
        return cls(quantities.read_executions(path))

    @property
    def experiments(self) -> list[str]:
        """The experiments that were run, in their order."""
        return quantities.experiment_names(self.rows)

    def levels(self, experiment: str) -> dict[str, list[Any]]:
        """Return the columns of an experiment's executions that have several levels, each with these in order."""
        rows = quantities.select_experiments(self.rows, experiment)
        return {name: sorted(set(rows[name].dropna())) for name in varied_columns(rows)}

    def quantities(self, experiment: str) -> list[str]:
        """Return the quantities that an experiment's executions tell, of those that have a name of their own."""
        return quantities.available_quantities(quantities.select_experiments(self.rows, experiment))

    def figure(
        self,
        experiment: str,
        of: str,
        x: str,
        *,
        curve: str | None = None,
        panel: str | None = None,
        at: Mapping[str, Any] | None = None,
    ) -> Figure:
        """Return the figure of a quantity over ``x``, see `plots.factors_figure`, with intervals of 95 %.

        ``at`` has the level of each column that varies beside those three: executions of different cells are never
        averaged. Raises BrowseError for a column that does not vary or whose level is not given, PlotError.
        """
        levels, at = self.levels(experiment), at or {}
        shown = list(dict.fromkeys(name for name in (x, curve, panel) if name))
        for name in [*shown[1:], *at]:
            if name not in levels:
                raise BrowseError(f"experiment '{experiment}': '{name}' does not vary; {', '.join(levels)} do")
        open_ones = [name for name in levels if name not in {*shown, *at}]
        if open_ones:
            raise BrowseError(f"experiment '{experiment}': give the level of {', '.join(open_ones)}, which vary, too")
        rows = quantities.select_experiments(self.rows, experiment)
        for name, level in at.items():
            rows = rows[rows[name] == level]
        column = quantities.get_quantity(of).column
        summary = summarise_groups(rows[rows[column].notna()], shown, column)
        return plots.factors_figure(summary, of, x, curve, panel)
