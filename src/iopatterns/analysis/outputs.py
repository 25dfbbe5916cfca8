"""Write the tables and figures of a notebook, and return them for display."""

import io
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import PIL.Image
from IPython.display import Image
from matplotlib.figure import Figure

from iopatterns.analysis.plots import report_style, save_figure, write_png
from iopatterns.analysis.tables import Table, printed_frame, write_table

_SHOWN_DPI = 100
_SHOWN_COLOURS = 64


@dataclass(frozen=True)
class Outputs:
    """The folders in which a study's notebook writes its tables and figures.

    Attributes:
        tables: Folder of tables (CSV, LaTeX and typst files).
        figures: Folder of figures (SVG and PNG files).
    """

    tables: Path
    figures: Path

    def table(self, table: Table, name: str) -> pd.DataFrame:
        """Write the files of a table, and return its printed texts as a frame.

        The files are ``name.csv``, ``name.tex`` and ``name.typ`` in the folder `tables`. Existing files are replaced.

        Args:
            table: The table.
            name: File name without suffix.

        Returns:
            A frame for display in a notebook. It has the printed columns, and its values are the printed texts.
        """
        write_table(table, self.tables / name)
        return printed_frame(table)

    def figure(self, figure: Figure, name: str) -> Image:
        """Write the files of a figure, and return it as a small image.

        The files are ``name.svg`` and ``name.png`` in the folder `figures`. Existing files are replaced.

        Args:
            figure: The figure.
            name: File name without suffix.

        Returns:
            A PNG image with few bytes (see `small_png`), for display in a notebook whose outputs are committed.
        """
        save_figure(figure, self.figures / name)
        return Image(small_png(figure))  # type: ignore[no-untyped-call]


def small_png(figure: Figure) -> bytes:
    """Return a figure as a small PNG image for a notebook.

    The image has 100 dots per inch and at most 64 colours, which keeps the file small.
    """
    drawn, small = io.BytesIO(), io.BytesIO()
    with report_style():
        write_png(figure, drawn, _SHOWN_DPI)
    # lines and letters need few colours, and a palette takes a third of the bytes
    image = PIL.Image.open(drawn).convert("RGB").quantize(_SHOWN_COLOURS, dither=PIL.Image.Dither.NONE)
    image.save(small, format="png", optimize=True)
    return small.getvalue()
