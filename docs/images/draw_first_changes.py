"""Draws the pictures of docs/first-changes.md from what was measured: `python docs/images/draw_first_changes.py`.

`first-changes/` holds the table that the page's study had after each of its runs; tests/workflow/test_first_changes.py
types the page's commands and holds the tables against what comes out.
"""

import sys
from pathlib import Path

import pandas as pd

from iopatterns.analysis.outputs import small_png
from iopatterns.analysis.plots import Panel, curves_figure
from iopatterns.base import files

FOLDER = Path(__file__).resolve().parent / "first-changes"
# The change that each run but the first follows
CHANGES = ("block size", "repetitions", "window")


def draw(number: int, path: Path) -> None:
    """Write the figure of the study before and after a change, side by side; the first change is 0."""
    panels = []
    for title, run in (("before", number), ("after", number + 1)):
        table = pd.read_csv(FOLDER / f"run-{run}.csv")
        rows = table.rename(columns={f"iops_{stat}": stat for stat in ("mean", "low", "high")})
        panels.append(Panel(title, rows, of="iops"))
    figure = curves_figure(panels, "bs_bytes", 2, height_inch=2.0)
    files.write_atomically(path, lambda temporary: temporary.write_bytes(small_png(figure)))


def picture(number: int) -> Path:
    """Return where the picture of a change lies."""
    return FOLDER / f"{CHANGES[number].replace(' ', '-')}.png"


if __name__ == "__main__":
    for each in range(len(CHANGES)):
        draw(each, picture(each))
        print(picture(each).name, file=sys.stderr)
