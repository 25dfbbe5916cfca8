"""Processor time of judging all claims and of writing figures, with and without caches.

Run it as ``python tests/benchmarks/bench_analysis.py``. The studies are the recorded measurements of tests/studies.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from recorded import TINY

from iopatterns.analysis import plots
from iopatterns.judging import scorecard
from iopatterns.judging.check_statistics import CachedExecutions

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/studies"
STUDIES = sorted(path.parent.name for path in RECORDED.glob("*/recorded.parquet"))
ROUNDS = 3
SHOWN_DPI = 100


class Forgetful(dict[Any, Any]):
    """A dictionary in which no key is found."""

    def __contains__(self, _key: object) -> bool:
        return False


def forget(executions: CachedExecutions, table: pd.DataFrame) -> None:
    """Initialise executions without caches; replaces ``CachedExecutions.__init__``."""
    executions.table = table
    executions._of_experiments, executions._at_levels, executions._columns = Forgetful(), Forgetful(), Forgetful()


def cpu_s(work: Callable[[], object]) -> float:
    """Return the shortest processor time of `ROUNDS` calls, in seconds."""
    took = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        work()
        took.append(time.process_time() - begin)
    return min(took)


def judging() -> None:
    """Print the processor time of judging all recorded studies, with and without caches."""
    keeping = CachedExecutions.__init__
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "results/measurements").mkdir(parents=True)
        for link in ("data", "workflow"):
            (root / link).symlink_to(ROOT / link)
        for study in STUDIES:
            for kind in ("parquet", "tuning.json"):
                link = f"results/measurements/{study}.{kind}"
                (root / link).symlink_to(RECORDED / study / f"recorded.{kind}")

        def judge() -> None:
            for study in STUDIES:
                scorecard.judge_study(root, study)

        cached_s = cpu_s(judge)
        try:
            CachedExecutions.__init__ = forget  # type: ignore[method-assign,assignment]
            uncached_s = cpu_s(judge)
        finally:
            CachedExecutions.__init__ = keeping  # type: ignore[method-assign]
    ratio = f"{uncached_s / cached_s:.1f} x as long without a cache of selections"
    print(f"judging {len(STUDIES)} studies: {cached_s:.2f} s of processor time, {ratio}")


def ours(figure: Figure, folder: Path) -> None:
    """Write a figure as the package does: SVG, PNG, and a small PNG for notebooks."""
    plots.save_figure(figure, folder / "figure")
    with plots.report_style():
        plots.write_png(figure, folder / "small.png", SHOWN_DPI)


def by_savefig(figure: Figure, folder: Path) -> None:
    """Write an SVG, a PNG and a small PNG, each by ``Figure.savefig``."""
    with plots.report_style():
        figure.savefig(folder / "figure.svg")
        figure.savefig(folder / "figure.png")
        figure.savefig(folder / "small.png", dpi=SHOWN_DPI)


def drawing() -> None:
    """Print the processor time of writing the files of a figure of the fixture study."""
    study = TINY.study()
    summary, published = study.summary("initial"), study.published("initial")
    ways: dict[str, Callable[[Figure, Path], None]] = {"here": ours, "savefig": by_savefig}
    took: dict[str, list[float]] = {name: [] for name in ways}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(ROUNDS):
            for name, write in ways.items():
                figure = plots.bandwidth_figure(summary, published)
                begin = time.process_time()
                write(figure, Path(folder))
                took[name].append(time.process_time() - begin)
                plt.close(figure)
    here_s, savefig_s = min(took["here"]), min(took["savefig"])
    ratio = f"{savefig_s / here_s:.1f} x as long by savefig, which lays the figure out for each file"
    print(f"the files of a figure: {here_s:.2f} s of processor time, {ratio}")


if __name__ == "__main__":
    judging()
    drawing()
