"""What a notebook writes: tables and figures in their folders, each shown as well."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis.plots import save
from iopatterns.analysis.tables import Table, printed, write_table


@dataclass(frozen=True)
class Outputs:
    """The folders of a study's ``tables`` and ``figures``."""

    tables: Path
    figures: Path

    def table(self, table: Table, name: str) -> pd.DataFrame:
        """Write a table's files, and return it as it is printed."""
        write_table(table, self.tables / name)
        return printed(table)

    def figure(self, figure: Figure, name: str) -> None:
        """Write a figure's files, and name them: images are no part of a committed notebook."""
        print(*(path.name for path in save(figure, self.figures / name)))
