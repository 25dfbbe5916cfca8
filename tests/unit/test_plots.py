"""Facts about the figures: what they show, and that they are the same bytes each time."""

import math
import re
from pathlib import Path

import matplotlib as mpl
import pandas as pd
import pytest
from matplotlib.figure import Figure

from iopatterns.plots import WIDTH_INCH, PlotError, bandwidth_figure, save
from iopatterns.published import load

PUBLISHED = load(Path(__file__).parents[2] / "data" / "published" / "saif2020").query("experiment == 'initial'")
MEANS = {"read": 300.0, "randread": 150.0, "write": 200.0, "randwrite": 180.0}


def summary(*drives: str, half: float = 10.0, sizes: tuple[int, ...] = (4096, 28672)) -> pd.DataFrame:
    rows = [
        {"drive": drive, "rw": rw, "bs_bytes": size, "mean": mean, "low": mean - half, "high": mean + half}
        for drive in drives
        for size in sizes
        for rw, mean in MEANS.items()
    ]
    return pd.DataFrame(rows)


def shown(figure: Figure) -> dict[str, list[object]]:
    """Return the marked lines of each visible panel by the panel's heading."""
    return {
        axes.get_title(loc="left"): [line for line in axes.lines if line.get_marker() in ("o", "s")]
        for axes in figure.axes
        if axes.get_visible()
    }


def test_each_drive_has_a_panel_that_says_whether_it_was_measured() -> None:
    assert list(shown(bandwidth_figure(summary("scratch"), PUBLISHED))) == [
        "scratch\nmeasured",
        "PX02SSF020\npublished",
        "PX05SMB040\npublished",
        "C400\npublished",
    ]


def test_a_measured_drive_of_the_source_shares_the_panel_of_its_published_values() -> None:
    panels = shown(bandwidth_figure(summary("px05smb040", "other"), PUBLISHED))
    assert next(iter(panels)) == "px05smb040\nmeasured and published"
    assert len(panels) == 4
    assert len(panels["px05smb040\nmeasured and published"]) == 8
    assert len(panels["other\nmeasured"]) == 4


def test_markers_show_the_means_and_the_published_values() -> None:
    panels = shown(bandwidth_figure(summary("scratch"), PUBLISHED))
    assert [list(line.get_ydata()) for line in panels["scratch\nmeasured"]] == [[300, 150], [200, 180]] * 2
    assert list(panels["PX05SMB040\npublished"][0].get_ydata()) == [136, 40.1]


def test_published_markers_are_hollow_and_measured_ones_filled() -> None:
    panels = shown(bandwidth_figure(summary("scratch"), PUBLISHED))
    assert {line.get_markerfacecolor() for line in panels["C400\npublished"]} == {"white"}
    assert "white" not in {line.get_markerfacecolor() for line in panels["scratch\nmeasured"]}


def test_block_sizes_differ_in_more_than_colour() -> None:
    lines = shown(bandwidth_figure(summary("scratch"), PUBLISHED))["scratch\nmeasured"]
    assert {line.get_marker() for line in lines} == {"o", "s"}


def test_error_bars_are_the_intervals() -> None:
    axes = bandwidth_figure(summary("scratch", half=25.0), PUBLISHED).axes[0]
    bars = axes.collections[0].get_segments()
    assert [(bar[0][1], bar[1][1]) for bar in bars] == [(275, 325), (125, 175)]


def test_a_cell_without_an_interval_is_drawn_without_error_bars(tmp_path: Path) -> None:
    once = summary("scratch").assign(low=math.nan, high=math.nan)
    figure = bandwidth_figure(once, PUBLISHED)
    assert len(shown(figure)["scratch\nmeasured"]) == 4
    assert all(path.stat().st_size > 5000 for path in save(figure, tmp_path / "figure"))


def test_the_lowest_panel_of_each_column_names_the_workloads() -> None:
    figure = bandwidth_figure(summary("a", "b"), PUBLISHED)
    figure.canvas.draw()
    labels = [len(axes.get_xticklabels()) for axes in figure.axes if axes.get_visible()]
    assert labels == [0, 4, 4, 4, 4]


def test_a_figure_is_as_wide_as_the_report_s_text() -> None:
    assert bandwidth_figure(summary("a"), PUBLISHED).get_figwidth() == WIDTH_INCH


def test_the_same_data_give_the_same_bytes_whatever_the_user_s_settings(tmp_path: Path) -> None:
    first = save(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "one")
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": "other", "svg.fonttype": "none", "savefig.dpi": 50}):
        second = save(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "two")
    assert [path.suffix for path in first] == [".svg", ".png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_other_data_give_other_bytes(tmp_path: Path) -> None:
    first = save(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "one")
    second = save(bandwidth_figure(summary("scratch", half=30.0), PUBLISHED), tmp_path / "two")
    assert all(one.read_bytes() != two.read_bytes() for one, two in zip(first, second, strict=True))


def test_files_hold_neither_dates_nor_versions(tmp_path: Path) -> None:
    svg, png = save(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "figure")
    text = svg.read_text()
    assert not re.search(r"<dc:date>|<dc:creator>|\d{4}-\d\d-\d\dT", text)
    assert mpl.__version__ not in text
    assert b"Matplotlib" not in png.read_bytes()
    assert b"tIME" not in png.read_bytes()


def test_drawing_leaves_the_user_s_settings_alone() -> None:
    before = mpl.rcParams["font.size"]
    bandwidth_figure(summary("scratch"), PUBLISHED)
    assert mpl.rcParams["font.size"] == before


def test_nothing_to_draw_is_refused() -> None:
    with pytest.raises(PlotError, match="not of 0"):
        bandwidth_figure(summary("a").iloc[:0], PUBLISHED)


def test_more_block_sizes_than_markers_are_refused() -> None:
    with pytest.raises(PlotError, match="not of 7"):
        bandwidth_figure(summary("a", sizes=tuple(range(1, 8))), PUBLISHED)


def test_legend_of_many_block_sizes_names_what_is_drawn_and_stays_inside() -> None:
    figure = bandwidth_figure(summary("scratch", sizes=(4096, 16384, 28672, 2**20)), PUBLISHED)
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        *(f"{size}, measured" for size in ("4 KiB", "16 KiB", "28 KiB", "1 MiB")),
        *(f"{size}, published" for size in ("4 KiB", "28 KiB")),
    ]
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1
