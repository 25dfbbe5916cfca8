"""Draw the pictures of docs/first-changes.md from measured tables: `python docs/images/draw_first_changes.py`.

`first-changes/` has the table of the page's study after each run. tests/workflow/test_first_changes.py runs the page's
commands and compares their tables with these tables.
"""

import sys
from pathlib import Path

import pandas as pd

from iopatterns.analysis.outputs import small_png
from iopatterns.analysis.plots import Panel, curves_figure
from iopatterns.base import files

FOLDER = Path(__file__).resolve().parent / "first-changes"
# The change before each run, from the second run on
CHANGES = ("block size", "repetitions", "window")


def draw(number: int, path: Path) -> None:
    """Write the figure of the study before and after a change, side by side.

    Args:
        number: Number of the change, from 0.
        path: Path of the PNG file.
    """
    panels = []
    for title, run in (("before", number), ("after", number + 1)):
        table = pd.read_csv(FOLDER / f"run-{run}.csv")
        rows = table.rename(columns={f"iops_{stat}": stat for stat in ("mean", "low", "high")})
        panels.append(Panel(title, rows, of="iops"))
    figure = curves_figure(panels, "bs_bytes", 2, height_inch=2.0)
    files.write_atomically(path, lambda temporary: temporary.write_bytes(small_png(figure)))


def picture(number: int) -> Path:
    """Return the path of the picture of a change."""
    return FOLDER / f"{CHANGES[number].replace(' ', '-')}.png"


if __name__ == "__main__":
    for each in range(len(CHANGES)):
        draw(each, picture(each))
        print(picture(each).name, file=sys.stderr)
