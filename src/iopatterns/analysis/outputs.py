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
    """The folders in which a study's notebook writes its tables and figures."""

    tables: Path
    figures: Path

    def table(self, table: Table, name: str) -> pd.DataFrame:
        """Write the files of a table, and return its printed form."""
        write_table(table, self.tables / name)
        return printed_frame(table)

    def figure(self, figure: Figure, name: str) -> Image:
        """Write the files of a figure, and return it as a small image for a committed notebook."""
        save_figure(figure, self.figures / name)
        return Image(small_png(figure))  # type: ignore[no-untyped-call]


def small_png(figure: Figure) -> bytes:
    """Return a figure as a PNG image with few bytes, in the size at which a notebook shows it."""
    drawn, small = io.BytesIO(), io.BytesIO()
    with report_style():
        write_png(figure, drawn, _SHOWN_DPI)
    # lines and letters need few colours, and a palette takes a third of the bytes
    image = PIL.Image.open(drawn).convert("RGB").quantize(_SHOWN_COLOURS, dither=PIL.Image.Dither.NONE)
    image.save(small, format="png", optimize=True)
    return small.getvalue()
