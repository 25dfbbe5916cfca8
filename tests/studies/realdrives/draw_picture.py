"""Draw the picture of README.md from recorded measurements: `python tests/studies/realdrives/draw_picture.py`."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

from iopatterns.analysis.plots import report_style, write_png
from iopatterns.base import files
from iopatterns.workflow.notebooks import study_code

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "tests/studies/realdrives/recorded.parquet"
PICTURE = ROOT / "docs/images/realdrives.png"


def draw(path: Path, recorded: Path = RECORDED) -> None:
    """Write the heat maps and the leaderboard, as the notebook of `realdrives` draws them.

    Args:
        path: The file to write.
        recorded: The measurements of the study.
    """
    realdrives = study_code("realdrives")
    points = realdrives.load_points(ROOT / "data/published/realdrives/points.csv")
    errors = realdrives.errors_of(points, realdrives.simulated_figures(points, pd.read_parquet(recorded)))
    figure = realdrives.leaderboard_figure(errors)
    with report_style():
        files.write_atomically(path, lambda temporary: write_png(figure, temporary))
    plt.close(figure)


if __name__ == "__main__":
    draw(PICTURE, *map(Path, sys.argv[1:]))
    print(PICTURE.relative_to(ROOT), file=sys.stderr)
