"""Draw the picture of README.md from recorded measurements: `python tests/studies/saif2020/draw_picture.py`."""

import sys
from pathlib import Path

import matplotlib.pyplot as plt

from iopatterns.analysis.plots import bandwidth_figure, report_style, write_png
from iopatterns.base import files
from iopatterns.study import Study

ROOT = Path(__file__).resolve().parents[3]
RECORDED = ROOT / "tests/studies/saif2020"
PICTURE = ROOT / "docs/images/saif2020-initial.png"


def draw(path: Path) -> None:
    """Write the figure of tables 2 and 3 of RR-9319, as the notebook of `saif2020` draws it."""
    study = Study.load(
        measurements=RECORDED / "recorded.parquet",
        tuning=RECORDED / "recorded.tuning.json",
        published=ROOT / "data/published/saif2020",
        twins=ROOT / "data/twins",
    )
    figure = bandwidth_figure(study.summary("initial"), study.published("initial"))
    with report_style():
        files.write_atomically(path, lambda temporary: write_png(figure, temporary))
    plt.close(figure)


if __name__ == "__main__":
    draw(PICTURE)
    print(PICTURE.relative_to(ROOT), file=sys.stderr)
