"""What a notebook writes: tables and figures in their folders, each shown as well."""

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
    """The folders of a study's ``tables`` and ``figures``."""

    tables: Path
    figures: Path

    def table(self, table: Table, name: str) -> pd.DataFrame:
        """Write a table's files, and return it as it is printed."""
        write_table(table, self.tables / name)
        return printed_frame(table)

    def figure(self, figure: Figure, name: str) -> Image:
        """Write a figure's files, and return it as an image of few bytes, which a committed notebook holds."""
        save_figure(figure, self.figures / name)
        return Image(small_png(figure))  # type: ignore[no-untyped-call]


def small_png(figure: Figure) -> bytes:
    """Return a figure as an image of few bytes, of the size at which a notebook shows it."""
    drawn, small = io.BytesIO(), io.BytesIO()
    with report_style():
        write_png(figure, drawn, _SHOWN_DPI)
    # lines and letters of few colours: a palette takes a third of the bytes
    PIL.Image.open(drawn).convert("RGB").quantize(_SHOWN_COLOURS, dither=PIL.Image.Dither.NONE).save(
        small, format="png", optimize=True
    )
    return small.getvalue()
