"""Contents of figures, and equal bytes for equal data."""

import itertools
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from PIL import Image
from support import FIXTURE

from iopatterns.analysis.plots import (
    WIDTH_INCH,
    Panel,
    PlotError,
    bandwidth_figure,
    curves_figure,
    heat_map,
    panels_by_level,
    save_figure,
    write_png,
)
from iopatterns.analysis.published import load_values
from iopatterns.analysis.quantities import QuantityError

pytestmark = pytest.mark.slow  # some eighty figures together

PUBLISHED = load_values(FIXTURE / "data/published/tiny").query("experiment == 'initial'")
HOLLOW = "#00000000"
WHITE = "#ffffffff"
MEANS = {"read": 300.0, "randread": 150.0, "write": 200.0, "randwrite": 180.0}


def summary(*drives: str, half: float = 10.0, sizes: tuple[int, ...] = (4096, 28672)) -> pd.DataFrame:
    rows = [
        {"drive": drive, "rw": rw, "bs_bytes": size, "mean": mean, "low": mean - half, "high": mean + half}
        for drive in drives
        for size in sizes
        for rw, mean in MEANS.items()
    ]
    return pd.DataFrame(rows)


def test_a_legend_of_long_names_fits_into_the_width() -> None:
    names = ["a-drive-with-quite-a-long-name-1", "a-drive-with-quite-a-long-name-2"]
    rows = pd.concat([summary("d").assign(variant=name) for name in names])
    figure = curves_figure([Panel("d", rows)], "bs_bytes", columns=1)
    figure.canvas.draw()
    (legend,) = figure.legends
    box, whole = legend.get_window_extent(), figure.get_window_extent()
    assert whole.x0 <= box.x0
    assert box.x1 <= whole.x1


def test_a_heat_map_prints_the_means_and_has_a_panel_per_other_level() -> None:
    rows = [
        {"drive": "d", "rw": rw, "bs_bytes": 4096, "iodepth": depth, "numjobs": jobs}
        for rw in ("randread", "randwrite")
        for depth in (1, 8)
        for jobs in (1, 2)
    ]
    table = pd.DataFrame(rows).assign(executions=2, mean=lambda rows: 1000.0 * rows["iodepth"] * rows["numjobs"])
    figure = heat_map(table, "iodepth", "numjobs", "iops")
    panels = [axes for axes in figure.axes if axes.get_title(loc="left")]
    assert [axes.get_title(loc="left") for axes in panels] == ["Rand. read", "Rand. write"]
    for axes in panels:
        assert sorted(text.get_text() for text in axes.texts) == ["16k", "1k", "2k", "8k"]
    with pytest.raises(PlotError, match="nothing to draw"):
        heat_map(table[:0], "iodepth", "numjobs", "iops")


def xs(line: Line2D) -> list[float]:
    """Return the x of each point of a line."""
    return [round(float(x), 6) for x in np.asarray(line.get_xdata())]


def ys(line: Line2D) -> list[float]:
    """Return the y of each point of a line."""
    return [float(y) for y in np.asarray(line.get_ydata())]


def filling(line: Line2D) -> str:
    """Return the fill colour of a line's markers, with its opacity."""
    return to_hex(line.get_markerfacecolor(), keep_alpha=True)


def dashed(line: Line2D) -> bool:
    """Return whether a line is dashed; ``get_linestyle`` returns "--" for seaborn's solid lines too."""
    return line._unscaled_dash_pattern[1] is not None  # type: ignore[attr-defined]


def x_scale(axes: Axes) -> str:
    """Return whether x is logarithmic; the names of seaborn's scales do not show it."""
    return "log" if axes.transScale.transform((8.0, 1.0))[0] == pytest.approx(3) else "linear"


def segments(axes: Axes) -> list[Any]:
    """Return the error bars of a panel."""
    bars = [bar for bar in axes.collections if isinstance(bar, LineCollection)]
    return [segment for bar in bars for segment in bar.get_segments()]


def shown(figure: Figure) -> dict[str, list[Line2D]]:
    """Return the lines with markers of each visible panel, by the title of the panel."""
    return {
        axes.get_title(loc="left"): [line for line in axes.lines if line.get_marker() in ("o", "s")]
        for axes in figure.axes
        if axes.get_visible()
    }


def test_each_drive_has_a_panel_titled_measured_or_published() -> None:
    assert list(shown(bandwidth_figure(summary("scratch"), PUBLISHED))) == [
        "scratch\nmeasured",
        "C400\npublished",
        "SSDSC2KG480G7\npublished",
    ]


def test_a_measured_drive_of_the_source_shares_the_panel_of_its_published_values() -> None:
    panels = shown(bandwidth_figure(summary("c400", "other"), PUBLISHED))
    assert next(iter(panels)) == "c400\nmeasured and published"
    assert len(panels) == 3
    assert len(panels["c400\nmeasured and published"]) == 8
    assert len(panels["other\nmeasured"]) == 4


def test_markers_show_the_means_and_the_published_values() -> None:
    panels = shown(bandwidth_figure(summary("scratch"), PUBLISHED))
    assert [ys(line) for line in panels["scratch\nmeasured"]] == [[300, 150], [200, 180]] * 2
    assert ys(panels["C400\npublished"][0]) == [62, 25.3]


def test_published_markers_are_hollow_and_block_sizes_have_different_markers() -> None:
    panels = shown(bandwidth_figure(summary("scratch"), PUBLISHED))
    measured = panels["scratch\nmeasured"]
    assert {filling(line) for line in panels["C400\npublished"]} == {HOLLOW}
    assert HOLLOW not in {filling(line) for line in measured}
    assert {line.get_marker() for line in measured} == {"o", "s"}


def test_error_bars_are_the_intervals() -> None:
    axes = bandwidth_figure(summary("scratch", half=25.0), PUBLISHED).axes[0]
    bars = segments(axes)
    assert {(bar[0][1], bar[1][1]) for bar in bars} == {(275, 325), (125, 175), (175, 225), (155, 205)}


def test_a_cell_without_an_interval_is_drawn_without_error_bars(tmp_path: Path) -> None:
    once = summary("scratch").assign(low=math.nan, high=math.nan)
    figure = bandwidth_figure(once, PUBLISHED)
    assert len(shown(figure)["scratch\nmeasured"]) == 4
    assert all(path.stat().st_size > 5000 for path in save_figure(figure, tmp_path / "figure"))


def test_the_lowest_panel_of_each_column_names_the_workloads() -> None:
    figure = bandwidth_figure(summary("a", "b", "c"), PUBLISHED)
    figure.canvas.draw()
    labels = [len(axes.get_xticklabels()) for axes in figure.axes if axes.get_visible()]
    assert labels == [0, 4, 4, 4, 4]


@pytest.mark.slow
def test_equal_data_give_equal_bytes_regardless_of_user_settings(tmp_path: Path) -> None:
    first = save_figure(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "one")
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": "other", "svg.fonttype": "none", "savefig.dpi": 50}):
        second = save_figure(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "two")
        assert mpl.rcParams["font.size"] == 30
    assert [path.suffix for path in first] == [".svg", ".png"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


@pytest.mark.slow
def test_different_data_give_different_bytes(tmp_path: Path) -> None:
    first = save_figure(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "one")
    second = save_figure(bandwidth_figure(summary("scratch", half=30.0), PUBLISHED), tmp_path / "two")
    assert all(one.read_bytes() != two.read_bytes() for one, two in zip(first, second, strict=True))


def test_a_png_has_the_requested_resolution_and_the_figure_keeps_its_own(tmp_path: Path) -> None:
    figure = bandwidth_figure(summary("scratch"), PUBLISHED)
    own_dpi, (width_inch, height_inch) = figure.get_dpi(), figure.get_size_inches()
    for dpi in (50, 120):
        write_png(figure, tmp_path / "figure.png", dpi)
        with Image.open(tmp_path / "figure.png") as image:
            assert image.size == pytest.approx((width_inch * dpi, height_inch * dpi), abs=1)
    assert figure.get_dpi() == own_dpi


def test_a_saved_figure_keeps_its_layout(tmp_path: Path) -> None:
    figure = bandwidth_figure(summary("scratch"), PUBLISHED)
    save_figure(figure, tmp_path / "one")
    places = [axes.get_position().bounds for axes in figure.axes]
    save_figure(figure, tmp_path / "two")
    assert [axes.get_position().bounds for axes in figure.axes] == places
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_files_contain_neither_dates_nor_versions(tmp_path: Path) -> None:
    svg, png = save_figure(bandwidth_figure(summary("scratch"), PUBLISHED), tmp_path / "figure")
    text = svg.read_text()
    assert not re.search(r"<dc:date>|<dc:creator>|\d{4}-\d\d-\d\dT", text)
    assert mpl.__version__ not in text
    assert b"Matplotlib" not in png.read_bytes()
    assert b"tIME" not in png.read_bytes()


@pytest.mark.parametrize("sizes", [(), tuple(range(1, 8))])
def test_no_block_sizes_and_more_than_markers_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(PlotError, match=f"can have 1 to 6 block sizes, not {len(sizes)}"):
        bandwidth_figure(summary("a", sizes=sizes) if sizes else summary("a").iloc[:0], PUBLISHED)


def test_the_legend_names_all_block_sizes_and_stays_inside() -> None:
    figure = bandwidth_figure(summary("scratch", sizes=(4096, 16384, 28672, 2**20)), PUBLISHED)
    legend = figure.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == [
        *(f"{size}, measured" for size in ("4 KiB", "16 KiB", "28 KiB", "1 MiB")),
        *(f"{size}, published" for size in ("4 KiB", "28 KiB")),
    ]
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0 < box.x1 <= figure.bbox.x1


# ---- Figures of curves


def curve_rows(
    *levels: object, x: str = "bs_bytes", workloads: tuple[str, ...] = ("read", "randread"), half: float = 10.0
) -> pd.DataFrame:
    """Return the rows of a panel, in which means grow by 1 from level to level."""
    rows = [
        {"rw": rw, x: level, "mean": MEANS[rw] + number, "low": MEANS[rw] + number - half, "high": MEANS[rw] + 2 * half}
        for rw in workloads
        for number, level in enumerate(levels)
    ]
    return pd.DataFrame(rows, columns=["rw", x, "mean", "low", "high"])


def curves(axes: Axes) -> dict[str, Line2D]:
    """Return the lines of measured means, by their labels."""
    return {str(line.get_label()): line for line in axes.lines if "published" not in str(line.get_label())}


def hollow(axes: Axes) -> list[Line2D]:
    """Return the published markers of a panel."""
    return [line for line in axes.lines if filling(line) == HOLLOW and line.get_linewidth() == 0]


def x_labels(figure: Figure) -> list[str]:
    """Return the visible x label of each panel, or an empty text."""
    return [axes.get_xlabel() if axes.xaxis.label.get_visible() else "" for axes in figure.axes]


def source_values(**values: float) -> pd.DataFrame:
    return pd.DataFrame([{"rw": rw, "bs_bytes": 4096, "value": value} for rw, value in values.items()])


def test_each_panel_has_its_title() -> None:
    panels = [Panel(title, curve_rows(4096, 8192)) for title in ("a) one", "b) two", "c) three")]
    figure = curves_figure(panels, "bs_bytes", columns=2)
    titles = [axes.get_title(loc="left") for axes in figure.axes if axes.get_visible()]
    assert titles == ["a) one", "b) two", "c) three"]


def test_panels_are_in_rows_with_the_requested_columns() -> None:
    figure = curves_figure([Panel(str(number), curve_rows(4096)) for number in range(5)], "bs_bytes", columns=3)
    place = figure.axes[0].get_subplotspec()
    assert place is not None
    assert place.get_geometry()[:2] == (2, 3)
    assert figure.get_figwidth() == WIDTH_INCH


def test_curves_show_the_means_in_the_order_of_x() -> None:
    rows = curve_rows(16384, 4096, 8192, workloads=("read",))
    line = curves(curves_figure([Panel("one", rows)], "bs_bytes", columns=1).axes[0])["Read"]
    assert xs(line) == [4096, 8192, 16384]
    assert ys(line) == [301, 302, 300]


def test_each_workload_of_a_panel_has_a_curve() -> None:
    rows = curve_rows(4096, 8192, workloads=("randwrite", "read", "write"))
    axes = curves_figure([Panel("one", rows)], "bs_bytes", columns=1).axes[0]
    assert list(curves(axes)) == ["Read", "Write", "Rand. write"]


def test_error_bars_of_curves_are_the_intervals() -> None:
    rows = curve_rows(4096, 8192, workloads=("read",), half=25.0)
    axes = curves_figure([Panel("one", rows)], "bs_bytes", columns=1).axes[0]
    bars = segments(axes)
    assert [(bar[0][1], bar[1][1]) for bar in bars] == [(275, 350), (276, 350)]


def test_means_without_intervals_have_no_error_bars() -> None:
    rows = curve_rows(4096, 8192, workloads=("read",)).assign(low=math.nan, high=math.nan)
    axes = curves_figure([Panel("one", rows)], "bs_bytes", columns=1).axes[0]
    assert ys(curves(axes)["Read"]) == [300, 301]
    assert segments(axes) == []


def test_published_values_are_larger_hollow_markers_in_the_shape_of_their_workload() -> None:
    panel = Panel("one", curve_rows(4096, 8192), source_values(read=136.0, randread=40.1))
    axes = curves_figure([panel], "bs_bytes", columns=1).axes[0]
    points, lines = hollow(axes), curves(axes)
    assert [(xs(line), ys(line)) for line in points] == [([4096], [136]), ([4096], [40.1])]
    assert points[0].get_markersize() > lines["Read"].get_markersize()
    assert [line.get_marker() for line in points] == [lines[name].get_marker() for name in ("Read", "Rand. read")]


def test_measured_curves_without_variants_have_filled_markers() -> None:
    axes = curves_figure([Panel("one", curve_rows(4096, 8192))], "bs_bytes", columns=1).axes[0]
    assert not {WHITE, HOLLOW} & {filling(line) for line in curves(axes).values()}
    assert hollow(axes) == []


def test_a_panel_without_rows_shows_its_note() -> None:
    panels = [Panel("one", curve_rows(4096)), Panel("two", curve_rows(), note="ignored:\nDRA reads back as 0")]
    figure = curves_figure(panels, "bs_bytes", columns=2)
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [[], ["ignored:\nDRA reads back as 0"]]


def test_a_figure_of_panels_without_rows_has_no_legend_and_can_be_saved(tmp_path: Path) -> None:
    figure = curves_figure([Panel("one", curve_rows()), Panel("two", curve_rows())], "bs_bytes", columns=2)
    assert [text.get_text() for axes in figure.axes for text in axes.texts] == ["not measured"] * 2
    assert figure.legends == []
    assert all(path.is_file() for path in save_figure(figure, tmp_path / "figure"))


@pytest.mark.parametrize(
    ("x", "levels", "texts"),
    [
        ("bs_bytes", (4096, 16384, 28672, 32768, 2**20), ["4", "16", "32", "1024"]),
        ("bs_bytes", (512, 1024, 4096), ["0.5", "1", "4"]),
        ("bs_bytes", (12288, 28672), ["12", "28"]),
        ("numjobs", (1, 2, 4, 16), ["1", "2", "4", "16"]),
    ],
)
def test_levels_are_named_block_sizes_only_at_powers_of_two_if_there_are_any(
    x: str, levels: tuple[int, ...], texts: list[str]
) -> None:
    axes = curves_figure([Panel("one", curve_rows(*levels, x=x))], x, columns=1).axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == texts
    assert list(axes.get_xticks(minor=True)) == []


def test_y_extends_from_0_to_the_largest_interval_of_all_panels() -> None:
    panels = [Panel("one", curve_rows(4096)), Panel("two", curve_rows(4096, half=500.0))]
    figure = curves_figure(panels, "bs_bytes", columns=2)
    assert {axes.get_ylim()[0] for axes in figure.axes} == {0}
    assert {axes.get_ylim()[1] > 1300 for axes in figure.axes} == {True}


@pytest.mark.parametrize(("x", "label"), [("bs_bytes", "Block size (KiB)"), ("numjobs", "Number of jobs")])
def test_x_is_labelled_below_each_column_and_y_left_of_each_row(x: str, label: str) -> None:
    panels = [Panel(str(number), curve_rows(4096, 8192, x=x)) for number in range(4)]
    figure = curves_figure(panels, x, columns=2)
    assert x_labels(figure) == ["", "", label, label]
    assert [axes.get_ylabel() for axes in figure.axes] == ["Bandwidth (MB/s)", ""] * 2
    assert x_labels(curves_figure(panels[:3], x, columns=2)) == ["", label, label]


def test_curves_differ_in_marker_and_dashes_which_mean_random_access() -> None:
    axes = curves_figure([Panel("one", curve_rows(4096, 8192, workloads=tuple(MEANS)))], "bs_bytes", columns=1).axes[0]
    lines = curves(axes)
    assert len({(line.get_marker(), dashed(line)) for line in lines.values()}) == 4
    assert [label for label, line in lines.items() if dashed(line)] == ["Rand. read", "Rand. write"]


def variants(*names: str) -> pd.DataFrame:
    return pd.concat([curve_rows(4096, 8192).assign(variant=name) for name in names])


def test_each_variant_of_a_workload_has_a_curve_with_its_own_filling() -> None:
    lines = curves(curves_figure([Panel("one", variants("cfq", "none"))], "bs_bytes", columns=1).axes[0])
    assert list(lines) == ["Read, cfq", "Read, none", "Rand. read, cfq", "Rand. read, none"]
    assert filling(lines["Read, cfq"]) != WHITE
    assert filling(lines["Read, none"]) == WHITE


def test_the_legend_names_each_curve_once() -> None:
    panels = [Panel(title, curve_rows(4096, 8192), source_values(read=300.0)) for title in ("one", "two")]
    legend = curves_figure(panels, "bs_bytes", columns=2).legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["Read", "Rand. read", "Read, published"]


@pytest.mark.slow
def test_equal_curves_give_equal_bytes_regardless_of_user_settings(tmp_path: Path) -> None:
    panels = [Panel("one", variants("cfq", "none"), source_values(read=250.0)), Panel("two", curve_rows())]
    first = save_figure(curves_figure(panels, "bs_bytes", columns=2), tmp_path / "one")
    with mpl.rc_context({"font.size": 30, "svg.hashsalt": "other", "lines.linewidth": 9}):
        second = save_figure(curves_figure(panels, "bs_bytes", columns=2), tmp_path / "two")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_a_figure_without_panels_is_refused() -> None:
    with pytest.raises(PlotError, match="no panels"):
        curves_figure([], "bs_bytes", columns=2)


def test_a_variant_has_one_look_in_all_panels() -> None:
    both = pd.concat([curve_rows(4096).assign(variant=name) for name in ("cfq", "none")])
    one = both[both["variant"] == "none"]
    figure = curves_figure([Panel("a", both), Panel("b", one)], "bs_bytes", columns=2)
    looks = [filling(curves(axes)["Read, none"]) for axes in figure.axes[:2]]
    assert looks == [WHITE, WHITE]


def test_more_variants_than_can_be_distinguished_are_refused() -> None:
    rows = pd.concat([curve_rows(4096).assign(variant=name) for name in ("a", "b", "c")])
    with pytest.raises(PlotError, match="not 3: a, b, c"):
        curves_figure([Panel("one", rows)], "bs_bytes", columns=1)


def test_a_long_note_stays_inside_its_panel() -> None:
    note = "not applicable:\nother users share the disk; config/drives.yaml has no `tune: [scheduler]` for it"
    figure = curves_figure([Panel(name, curve_rows(), note=note) for name in "ab"], "bs_bytes", columns=2)
    figure.draw_without_rendering()
    for axes in figure.axes:
        inside, text = axes.get_window_extent(), axes.texts[0].get_window_extent()
        assert inside.x0 <= text.x0 < text.x1 <= inside.x1


# ---- Any factor, any quantity


def ticks(axes: Axes) -> dict[float, str]:
    """Return the text of each tick of x."""
    return dict(zip(axes.get_xticks(), [label.get_text() for label in axes.get_xticklabels()], strict=True))


def over(x: str, *levels: object, **panel: object) -> Axes:
    """Return the panel of a figure over the levels of a factor."""
    figure = curves_figure([Panel("one", curve_rows(*levels, x=x), **panel)], x, columns=1)  # type: ignore[arg-type]
    figure.draw_without_rendering()
    return figure.axes[0]


@pytest.mark.parametrize(
    ("x", "levels", "scale", "named"),
    [
        ("iodepth", [1, 4, 1024], "log", {1: "1", 4: "4", 1024: "1024"}),
        ("rwmixread", [50, 75, 99], "linear", {50: "50", 75: "75", 99: "99"}),
        ("rwmixread", [0, 30, 100], "linear", {0: "0", 30: "30", 100: "100"}),
        ("thinktime", [1000, 10_000], "log", {1000: "1", 10_000: "10"}),
        ("offset", [0, 512, 1024, 2048], "linear", {0: "0", 512: "512", 1024: "1024", 2048: "2048"}),
        ("size", [2**20, 2**24, 2**27], "log", {2**20: "1", 2**24: "16", 2**27: "128"}),
        ("numjobs", [4], "linear", {4: "4"}),
    ],
)
def test_numbers_are_on_a_linear_or_logarithmic_axis(
    x: str, levels: list[int], scale: str, named: dict[int, str]
) -> None:
    axes = over(x, *levels)
    assert (x_scale(axes), ticks(axes)) == (scale, named)


@pytest.mark.parametrize(
    ("x", "levels", "texts"),
    [
        ("skip", [-8192, -4096, 4096, 61440], ["−8", "−4", "4", "60"]),
        ("thinktime", [0, 1000, 100_000], ["0", "1", "100"]),
        ("replay", ["write-read", "read-write"], ["write-read", "read-write"]),
        ("set_scheduler", ["none", "cfq", "noop"], ["none", "cfq", "noop"]),
    ],
)
def test_names_and_wide_ranges_with_zero_are_equally_spaced(x: str, levels: list[object], texts: list[str]) -> None:
    axes = over(x, *levels)
    assert ticks(axes) == {float(number): text for number, text in enumerate(texts)}
    assert xs(curves(axes)["Read"]) == list(range(len(levels)))


def test_levels_are_sorted() -> None:
    line = curves(over("skip", 61440, -8192, 4096, -4096))["Read"]
    assert xs(line) == [0, 1, 2, 3]
    assert ys(line) == [301, 303, 302, 300]


@pytest.mark.parametrize("dtype", ["int64", "Int64"])
def test_a_published_level_that_was_not_measured_has_a_tick(dtype: str) -> None:
    values = pd.DataFrame({"rw": ["read"], "bs_bytes": [16384], "value": [250.0]}).astype({"bs_bytes": dtype})
    axes = over("bs_bytes", 4096, 8192, published=values)
    assert ticks(axes) == {4096: "4", 8192: "8", 16384: "16"}
    assert [xs(line) for line in hollow(axes)] == [[16384]]


@pytest.mark.parametrize(
    ("of", "label"),
    [
        ("iops", "Rate (IOPS)"),
        ("read latency", "Mean latency of reads (ms)"),
        ("clat p99.9", "clat p99.9 (ms)"),
        ("bandwidth", "Bandwidth (MB/s)"),
    ],
)
def test_the_y_label_has_the_quantity_and_its_unit(of: str, label: str) -> None:
    assert over("numjobs", 1, 2, of=of).get_ylabel() == label


def test_an_unknown_quantity_is_refused() -> None:
    with pytest.raises(QuantityError, match="did you mean 'iops'"):
        over("numjobs", 1, 2, of="iosp")


def test_panels_of_two_quantities_have_separate_axes() -> None:
    panels = [Panel(of, curve_rows(1, 2, x="numjobs"), of=of) for of in ("iops", "latency")]
    panels[1].rows[["mean", "low", "high"]] /= 1000
    left, right = curves_figure(panels, "numjobs", columns=2).axes
    assert [left.get_ylabel(), right.get_ylabel()] == ["Rate (IOPS)", "Mean latency (ms)"]
    assert right.get_ylim()[1] < 1 < left.get_ylim()[1]


def test_no_published_marker_is_cut_off_at_the_top() -> None:
    values = pd.DataFrame({"rw": ["read"], "numjobs": [2], "value": [400.0]})
    axes = over("numjobs", 1, 2, published=values, of="iops")
    [point] = hollow(axes)
    top = axes.transData.transform((2, 400.0))[1] + point.get_markersize() / 2 * axes.figure.dpi / 72
    assert top <= axes.get_window_extent().y1


def test_panels_of_one_quantity_share_an_axis() -> None:
    panels = [Panel(str(factor), curve_rows(1, 2, x="numjobs"), of="iops") for factor in (1, 1000)]
    panels[1].rows[["mean", "low", "high"]] *= 1000
    left, right = curves_figure(panels, "numjobs", columns=2).axes
    assert left.get_ylim() == right.get_ylim()


def test_only_logarithmic_panels_are_logarithmic() -> None:
    panels = [
        Panel("one", curve_rows(1, 2, x="numjobs"), of="iops"),
        Panel("two", curve_rows(1, 2, x="numjobs"), of="latency", logarithmic=True),
    ]
    scales = [axes.get_yscale() for axes in curves_figure(panels, "numjobs", columns=2).axes]
    assert [scale == "log" for scale in scales] == [False, True]


# ---- Panels of any experiment


def cells(**levels: list[Any]) -> pd.DataFrame:
    """Return a summary of reads with a row for each combination of levels."""
    grid: dict[str, list[Any]] = {"drive": ["d"], "bs_bytes": [4096], **levels}
    rows = [dict(zip(grid, combination, strict=True)) for combination in itertools.product(*grid.values())]
    return pd.DataFrame(rows).assign(rw="read", mean=5.0, low=4.0, high=6.0)


def printed_values(**columns: list[object]) -> pd.DataFrame:
    return pd.DataFrame({"rw": "read", "drive_key": "d", "bs_bytes": [4096], "value": [5.5]} | columns)


NOTHING_PUBLISHED = printed_values().iloc[:0]


@pytest.mark.parametrize(
    ("levels", "by", "x", "titles"),
    [
        ({"bs_bytes": [4096, 8192]}, [], "bs_bytes", ["d"]),
        ({"numjobs": [1, 2]}, ["numjobs"], "numjobs", ["d"]),
        (
            {"numjobs": [1, 2, 4], "bs_bytes": [4096, 8192]},
            ["numjobs"],
            "numjobs",
            ["d\nBlock size (KiB): 4", "d\nBlock size (KiB): 8"],
        ),
        (
            {"set_DRA": [0, 1], "bs_bytes": [4096, 8192, 16384]},
            ["set_DRA"],
            "bs_bytes",
            ["d\nDRA: 0", "d\nDRA: 1"],
        ),
        ({"drive": ["a", "b"], "numjobs": [1, 2]}, ["numjobs"], "numjobs", ["a", "b"]),
        (
            {"replay": ["r", "w"], "iodepth": [1, 2, 3], "thinktime": [1000, 2000]},
            ["replay", "iodepth", "thinktime"],
            "iodepth",
            [f"d\nReplay: {replay}, Pause (ms): {pause}" for replay in "rw" for pause in (1, 2)],
        ),
    ],
)
def test_the_factor_with_most_levels_is_x_and_the_others_have_panels(
    levels: dict[str, list[object]], by: list[str], x: str, titles: list[str]
) -> None:
    found, panels = panels_by_level(cells(**levels), by, "iops", NOTHING_PUBLISHED)
    assert (found, [panel.title for panel in panels]) == (x, titles)
    assert {panel.of for panel in panels} == {"iops"}


def test_each_row_is_in_one_panel_and_each_x_once_in_a_panel() -> None:
    summary = cells(numjobs=[1, 2, 4], bs_bytes=[4096, 8192], set_DRA=[0, 1], drive=["a", "b"])
    x, panels = panels_by_level(summary, ["numjobs", "set_DRA"], "iops", NOTHING_PUBLISHED)
    assert sorted(index for panel in panels for index in panel.rows.index) == list(summary.index)
    assert all(not panel.rows[["rw", x]].duplicated().any() for panel in panels)


def published_of(panels: list[Panel]) -> list[list[float]]:
    return [[] if panel.published is None else panel.published["value"].tolist() for panel in panels]


def test_published_values_are_in_the_panel_of_their_drive_and_levels() -> None:
    summary = cells(numjobs=[1, 2, 4], bs_bytes=[4096, 8192], drive=["d", "e"])
    values = printed_values(numjobs=[4], bs_bytes=[8192])
    _, panels = panels_by_level(summary, ["numjobs"], "iops", values)
    assert [panel.title for panel in panels][1] == "d\nBlock size (KiB): 8"
    assert published_of(panels) == [[], [5.5], [], []]


@pytest.mark.parametrize("columns", [{}, {"numjobs": [None]}], ids=["no column", "no level"])
def test_published_values_without_a_level_are_not_drawn(columns: dict[str, list[object]]) -> None:
    _, panels = panels_by_level(cells(numjobs=[1, 2]), ["numjobs"], "iops", printed_values(**columns))
    assert published_of(panels) == [[]]
    assert curves_figure(panels, "numjobs", columns=1).axes


def test_plots_do_not_import_scipy_stats() -> None:
    code = (
        "import sys; import iopatterns.analysis.plots; print('scipy.stats' in sys.modules);"
        " from scipy.stats import bootstrap; print(bootstrap.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["False", "bootstrap"], done.stderr
