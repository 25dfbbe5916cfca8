"""What is drawn beside means: rates over time out of fio's logs, and figures with a place for each cell."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from iopatterns.analysis import execution_figures
from iopatterns.analysis.plots import PlotError

BINS = 232  # of a log with log_hist_coarseness=3


def log(path: Path, *lines: tuple[int, int, int]) -> Path:
    """Write a log of so many requests (third) of a direction (second) in the interval that ends at a time in ms."""
    rest = ", 0" * (BINS - 101)
    text = [f"{time_ms}, {way}, 4096{', 0' * 100}, {count}{rest}\n" for time_ms, way, count in lines]
    path.write_text("".join(text))
    return path


def test_a_rate_is_the_requests_of_an_interval_over_its_length(tmp_path: Path) -> None:
    found = execution_figures.rates_over_time(
        [log(tmp_path / "01_clat_hist.log", (10, 0, 100), (20, 0, 300), (30, 0, 200))]
    )
    assert list(found["time_s"]) == pytest.approx([0.01, 0.02, 0.03])
    assert list(found["iops"]) == pytest.approx([10_000, 30_000, 20_000])


def test_jobs_and_directions_add_up_though_their_intervals_differ(tmp_path: Path) -> None:
    lines = [
        (10, 0, 100),
        (20, 0, 100),
        (30, 0, 100),
        (11, 0, 110),
        (21, 0, 100),
        (31, 0, 100),
        (10, 1, 50),
        (30, 1, 100),
    ]
    found = execution_figures.rates_over_time([log(tmp_path / "01_clat_hist.log", *lines)])
    assert list(found["iops"]) == pytest.approx([25_000, 25_000, 25_000])


def test_an_empty_log_gives_no_rate(tmp_path: Path) -> None:
    (tmp_path / "01_clat_hist.log").touch()
    assert execution_figures.rates_over_time([tmp_path / "01_clat_hist.log"]).empty


def test_there_is_a_bar_for_each_cell_and_a_panel_for_each_quantity() -> None:
    rows = pd.DataFrame(
        {
            "drive": "d",
            "rw": ["randread", "randread", "write"],
            "bs_bytes": 4096,
            "iodepth": [1, 8, 1],
            "executions": 2,
            "mean": [100.0, 700.0, 50.0],
            "low": [90.0, 650.0, float("nan")],
            "high": [110.0, 750.0, float("nan")],
        }
    )
    figure = execution_figures.quantity_bars({"iops": rows, "latency": rows}, ["iodepth"])
    assert [axes.get_xlabel() for axes in figure.axes] == ["Rate (IOPS)", "Mean latency (ms)"]
    bars = [patch for patch in figure.axes[0].patches if isinstance(patch, Rectangle)]
    assert [bar.get_width() for bar in bars] == [100, 700, 50]
    names = [text.get_text() for text in figure.axes[0].get_yticklabels()]
    assert names == ["Rand. read 4 KiB, I/O depth 1", "Rand. read 4 KiB, I/O depth 8", "Write 4 KiB, I/O depth 1"]


def test_percentiles_stand_where_so_much_of_the_requests_is_below() -> None:
    executions = pd.DataFrame({"rw": "randread", "bs_bytes": 4096, "source": ["a"]})
    found = pd.DataFrame({"source": "a", "latency_ns": [100_000, 1_000_000], "count": [98, 2]})
    figure = execution_figures.latency_histograms(executions, found, [])
    (axes,) = figure.axes
    lines = {str(line.get_marker()): list(np.asarray(line.get_xdata())) for line in axes.get_lines()}
    marks = {marker: at[0] for marker, at in lines.items() if marker in execution_figures._PERCENTILES.values()}
    assert marks == {"o": 100.0, "s": 1000.0, "^": 1000.0}
    assert axes.get_xlabel().startswith("Completion latency")


def test_nothing_to_draw_is_told() -> None:
    nothing = pd.DataFrame(columns=["drive", "rw", "bs_bytes", "source", "latency_ns", "count", "mean"])
    with pytest.raises(PlotError, match="nothing to draw"):
        execution_figures.latency_histograms(nothing, nothing, [])
    with pytest.raises(PlotError, match="nothing to draw"):
        execution_figures.quantity_bars({"iops": nothing}, [])
