"""Figures of the report, in one style that is legible in grey.

The figures are drawn with seaborn and matplotlib. Equal data give files with equal bytes.
"""

import textwrap
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import matplotlib as mpl
import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator

from iopatterns.analysis import quantities
from iopatterns.analysis.seaborn_objects import so
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label
from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration.factors import level_scale

_STYLE_FILE = Path(__file__).with_name("plots.mplstyle")
WIDTH_INCH = 166 / 25.4  # the report's text width
_ROW_INCH = 52 / 25.4
_PANEL_INCH = 2.35  # height of a panel of curves
_LEGEND_COLUMNS = 4  # fit into the width
_LEGEND_CHARACTERS = 110  # of all names in a row
_PANELS_PER_ROW = 4
_NOTE_WIDTH = 44  # letters that fit into the narrowest panel
_MARKERS = "osD^vP"
# An axis is logarithmic if the largest level is at least this many times the smallest
_SPREAD = 8
# Factor of the axis limit over the highest point, so that no marker is cut off
_ROOM = 1.08
_HOLLOW = {"fillcolor": (0, 0, 0, 0), "pointsize": 8.0}
_THEME = ("axes", "figure", "font", "grid", "legend", "lines", "patch", "svg", "xtick", "ytick")


class PlotError(IoPatternsError):
    """The error raised if there is nothing to draw, or too much to distinguish.

    The second case means more kinds of data, such as block sizes, than a figure has markers or line styles for.
    """


@contextmanager
def report_style() -> Iterator[None]:
    """Draw in the style of the report, whatever the user's matplotlib settings are.

    This function returns a context manager, which is also a decorator for functions that draw. The previous settings
    are restored afterwards.
    """
    with matplotlib.style.context(["default", _STYLE_FILE]):
        yield


def save_figure(figure: Figure, stem: Path | str) -> tuple[Path, Path]:
    """Write a figure as ``stem.svg`` and ``stem.png``, and return both paths.

    Equal figures give files with equal bytes, because no dates or versions are written. Existing files are replaced.
    The function computes the layout of `figure` and then fixes it, so that later changes no longer adapt it.

    Args:
        figure: The figure.
        stem: Path of the files without suffix.

    Returns:
        The paths of the SVG and of the PNG file.

    Raises:
        NoRoomError: The file system is full or cannot be written to.
    """
    svg, png = Path(f"{stem}.svg"), Path(f"{stem}.png")
    with report_style():
        # computing the layout takes longer than drawing, and is done once for both files
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        files.write_atomically(svg, lambda path: _write_svg(figure, path))
        files.write_atomically(png, lambda path: write_png(figure, path))
    return svg, png


def _write_svg(figure: Figure, to: Path) -> None:
    canvas = FigureCanvasSVG(figure)
    canvas.print_svg(to, metadata={"Date": None, "Creator": None})  # type: ignore[no-untyped-call]


def write_png(figure: Figure, to: Path | IO[bytes], dpi: float | None = None) -> None:
    """Write a figure as a PNG image that does not contain matplotlib's version.

    Args:
        figure: The figure.
        to: The path of the file, or a file that is open for writing in binary mode.
        dpi: Dots per inch; None for the resolution of the current matplotlib style.
    """
    own_dpi = figure.get_dpi()
    figure.set_dpi(mpl.rcParams["savefig.dpi"] if dpi is None else dpi)
    try:
        canvas = FigureCanvasAgg(figure)
        canvas.print_png(to, metadata={"Software": None})  # type: ignore[no-untyped-call]
    finally:
        figure.set_dpi(own_dpi)


@report_style()
def bandwidth_figure(summary: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """Return the figure of bandwidths by workload and block size, a panel per drive.

    Filled markers are measured means with their confidence intervals. Hollow markers are published values. A drive that
    was only published has a panel of its own. A line joins the markers of sequential and random access with equal block
    size. The vertical axis is logarithmic, so that equal slopes are equal ratios.

    Args:
        summary: Means in MB/s by drive, rw (fio's name of the workload) and bs_bytes, as `statistics.summarise_groups`
            returns them.
        published: The published values of all quantities, as `published.load_values` returns them. Those of the
            bandwidth must be in MB/s.

    Raises:
        PlotError: The summary is empty, or there are more block sizes than markers (6).
    """
    values = published[published["quantity"] == "bandwidth"]
    sizes = sorted({int(size) for size in summary["bs_bytes"]})
    if summary.empty or len(sizes) > len(_MARKERS):
        raise PlotError(f"a figure can have 1 to {len(_MARKERS)} block sizes, not {len(sizes)}")
    drives = list(dict.fromkeys([*summary["drive"], *values["drive_key"]]))
    places = {rw: float(at) for at, rw in enumerate(("read", "randread", "write", "randwrite"))}
    spread = {size: 0.14 * (number - (len(sizes) - 1) / 2) for number, size in enumerate(sizes)}
    values = values.drop(columns="drive", errors="ignore").rename(columns={"drive_key": "drive", "value": "mean"})
    points = pd.concat([summary.assign(kind="measured"), values.assign(kind="published")], ignore_index=True)
    points = points[points["rw"].isin(places) & points["bs_bytes"].isin(sizes)]
    points = points.assign(
        panel=points["drive"].map(drives.index),
        at=points["rw"].map(places) + points["bs_bytes"].map(spread).astype(float),
        curve=points["bs_bytes"].astype(int).map(block_label) + ", " + points["kind"],
        operation=points["rw"].str.removeprefix("rand"),
    )
    looks = {
        f"{block_label(size)}, {kind}": _look(number, _MARKERS[number], 3.5, dashed=kind == "published")
        | (_HOLLOW if kind == "published" else {})
        for kind in ("measured", "published")
        for number, size in enumerate(sizes)
    }
    titles = []
    for drive in drives:
        kinds = list(dict.fromkeys(points.loc[points["drive"] == drive, "kind"]))
        titles.append(f"{drive if 'measured' in kinds else drive.upper()}\n{' and '.join(kinds)}")
    # two lines each, so that all have one base line
    names = {at: f"{WORKLOAD_NAMES[rw]} ".replace(" ", "\n", 1) for rw, at in places.items()}
    x = so.Continuous().tick(at=list(names)).label(like=lambda at, _: names[at])
    figure = _drawn(
        points, looks, titles, x, columns=_PANELS_PER_ROW, row_inch=_ROW_INCH, frame_inch=0.25, group="operation"
    )
    for axes in figure.axes:
        axes.set_xlim(-0.5, 3.5)
        _logarithmic(axes)
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    figure.supylabel("Bandwidth (MB/s, logarithmic)", fontsize=figure.axes[0].title.get_fontsize())
    return figure


@dataclass(frozen=True)
class Panel:
    """A panel of the figure that `curves_figure` draws.

    Attributes:
        title: Title of the panel.
        rows: The measured points. Columns: rw (fio's name of the workload); the factor (varied fio option or setting)
            on the horizontal axis; mean, low and high (ends of the confidence interval) of the quantity; and, if a
            workload has several curves, variant (the name of the curve).
        published: The published points, with the columns rw, the factor on the horizontal axis, and value; None if
            there are none.
        note: Text that is printed in a panel without rows.
        of: Name of the quantity on the vertical axis, such as ``bandwidth`` or ``iops``.
        logarithmic: Whether the vertical axis is logarithmic. Otherwise the axis is linear and begins at 0.
    """

    title: str
    rows: pd.DataFrame
    published: pd.DataFrame | None = None
    note: str = "not measured"
    of: str = "bandwidth"
    logarithmic: bool = False


@report_style()
def curves_figure(panels: Sequence[Panel], x: str, columns: int, *, height_inch: float = _PANEL_INCH) -> Figure:
    """Return a figure of quantities over the levels of a factor, a curve per workload.

    A factor is a fio option or setting that is varied. Markers are means with their confidence intervals. Larger,
    hollow markers are published values.

    The horizontal axis depends on the levels of the factor:

    - logarithmic, if all levels are above 0 and the largest is at least eight times the smallest
    - equally spaced levels, if the levels are texts, or if they span a wide range that includes 0 or negative numbers
    - linear otherwise

    Args:
        panels: The panels, row by row. All share the horizontal axis. They also share the vertical axis if all show the
            same quantity.
        x: The column of the factor on the horizontal axis, such as bs_bytes, numjobs or iodepth.
        columns: Panels per row.
        height_inch: Height of a row in inches. The width of the figure is that of the report's text.

    Raises:
        PlotError: There are no panels, or their rows have more than two variants (see `Panel`).
        QuantityError: A quantity does not exist.
    """
    variants = list(dict.fromkeys(name for panel in panels for name in panel.rows.get("variant", ()))) or [""]
    if not panels:
        raise PlotError("there are no panels to draw")
    if len(variants) > 2:
        raise PlotError(f"a figure can distinguish two variants, not {len(variants)}: {', '.join(variants)}")
    points = pd.concat([_points(panel, x, number) for number, panel in enumerate(panels)], ignore_index=True)
    axis = _Axis.of(x, points[x])
    points["at"] = points[x].map(axis.places)
    points = points.astype(dict.fromkeys(("at", "mean", "low", "high"), "float64"))
    figure = _drawn(
        points,
        _curve_looks(variants),
        [panel.title for panel in panels],
        axis.scale(),
        columns=columns,
        row_inch=height_inch,
        share_y=len({panel.of for panel in panels}) == 1,
        label=axis.label,
    )
    tops = points[["mean", "high"]].max(axis=1).groupby([panels[at].of for at in points["panel"]]).max() * _ROOM
    for number, (axes, panel) in enumerate(zip(figure.axes, panels, strict=True)):
        if panel.logarithmic:
            _logarithmic(axes)
        else:
            axes.set_ylim(0, tops.get(panel.of))
        if number % columns == 0 or panel.of != panels[number - 1].of:
            axes.set_ylabel(quantities.get_quantity(panel.of).axis_label, visible=True)
        if panel.rows.empty:
            width = max(12, 2 * _NOTE_WIDTH // columns) if columns > 1 else _NOTE_WIDTH
            note = "\n".join(textwrap.fill(line, width) for line in panel.note.splitlines())
            axes.text(0.5, 0.5, note, transform=axes.transAxes, ha="center", va="center")
    return figure


@report_style()
def factors_figure(
    summary: pd.DataFrame, of: str, x: str, curve: str | None = None, panel: str | None = None
) -> Figure:
    """Return a figure of a quantity over a factor, by curve and panel.

    A factor is what an experiment varies: a fio option, a drive setting or the drive.

    Args:
        summary: Means of the quantity by the factors, as `statistics.summarise_groups` returns them. Only the columns
            `x`, `curve` and `panel` may have several levels.
        of: The name of the quantity, such as ``bandwidth``.
        x: The column of the factor on the horizontal axis, such as bs_bytes.
        curve: The column of the factor that has a curve per level; None for a single curve.
        panel: The column of the factor that has a panel per level; None for a single panel.

    Raises:
        PlotError: The summary is empty.
        QuantityError: The quantity does not exist.
    """
    if summary.empty:
        raise PlotError("there is nothing to draw")
    axis = _Axis.of(x, summary[x])
    order = {name: sorted(set(summary[name].dropna())) for name in (x, curve, panel) if name}
    summary = summary.sort_values([name for name in order if name], kind="stable")
    quantity = quantities.get_quantity(of)
    points = summary.assign(at=summary[x].map(axis.places), curve=quantity.label, panel=0)
    points = points.astype(dict.fromkeys(("at", "mean", "low", "high"), "float64"))
    if curve:
        points["curve"] = summary[curve].map(level_labels(curve, order[curve]))
    names = list(dict.fromkeys(points["curve"]))
    looks = {name: _look(number, _MARKERS[number % len(_MARKERS)], 3.5) for number, name in enumerate(names)}
    titles = [""]
    if panel:
        points["panel"] = summary[panel].map(order[panel].index)
        titles = list(level_labels(panel, order[panel]).values())
    columns = min(len(titles), _PANELS_PER_ROW - 1)
    figure = _drawn(points, looks, titles, axis.scale(), columns=columns, label=axis.label)
    for axes in figure.axes:
        axes.set_ylim(0, float(np.nanmax(points[["mean", "high"]].to_numpy(dtype=float))) * _ROOM)
    figure.supylabel(quantity.axis_label, fontsize=7)
    return figure


def level_labels(factor: str, levels: Iterable[Any], separator: str = ": ") -> dict[Any, str]:
    """Return a label for each level of a factor, such as ``I/O depth: 8`` for 8.

    A factor is what an experiment varies; its levels are the values. Drives and workloads are labelled with their names
    alone, such as ``Rand. read`` for randread.

    Args:
        factor: The column of the factor, such as iodepth.
        levels: The levels.
        separator: Text between the name of the factor and the level.

    Returns:
        The labels by level.
    """
    if factor == "rw":
        return {level: WORKLOAD_NAMES.get(level, level) for level in levels}
    scale = level_scale(factor, levels)
    prefix = "" if factor == "drive" else f"{scale.label}{separator}"
    return {level: f"{prefix}{text}" for level, text in scale.texts.items()}


@report_style()
def heat_map(summary: pd.DataFrame, x: str, y: str, of: str) -> Figure:
    """Return a heat map of a quantity over two factors.

    A factor is a fio option or setting that is varied. A square shows the mean as colour and as number. If the summary
    has other factors, there is a panel for each of their combinations that occurs in the summary. The drive does not
    count as a factor: the summary should be of one drive.

    Args:
        summary: Means of the quantity by `x`, `y` and other factors, as `Study.summary` returns them.
        x: The column of the factor on the horizontal axis.
        y: The column of the factor on the vertical axis.
        of: The name of the quantity, such as ``bandwidth``.

    Raises:
        PlotError: The summary is empty.
        QuantityError: The quantity does not exist.
    """
    if summary.empty:
        raise PlotError("there is nothing to draw")
    places = {factor: {level: at for at, level in enumerate(sorted(set(summary[factor])))} for factor in (x, y)}
    texts = {factor: level_scale(factor, places[factor]) for factor in (x, y)}
    factors = summary.columns[: summary.columns.get_loc("executions")].drop([x, y])
    titles = summary[list(factors)].apply(lambda row: _panel_title(row, summary), axis="columns")
    points = summary.assign(panel=titles, across=summary[x].map(places[x]), up=summary[y].map(places[y]))
    points["shown"] = [f"{mean:.3g}" if mean < 1000 else f"{mean / 1000:.3g}k" for mean in points["mean"]]
    panels = list(dict.fromkeys(titles))
    plot = so.Plot(points, x="across", y="up", color="mean", text="shown").facet("panel", order=panels, wrap=2)
    plot = plot.add(so.Dot(marker="s", pointsize=26, edgewidth=0), legend=False).add(so.Text(color="black", fontsize=6))
    for axis, factor in (("x", x), ("y", y)):
        names = {float(at): texts[factor].texts[level] for level, at in places[factor].items()}
        ticks = so.Continuous().tick(at=list(names)).label(like=lambda at, _, names=names: names.get(at, ""))
        plot = plot.scale(**{axis: ticks})
    plot = plot.scale(color=so.Continuous(("#f0f6fb", "#6aaed6")))
    plot = plot.limit(x=(-0.6, len(places[x]) - 0.4), y=(-0.6, len(places[y]) - 0.4))
    plot = plot.label(x=texts[x].label, y=texts[y].label, title=str)
    figure = _plotted(plot, -(-len(panels) // 2) * _PANEL_INCH + 0.3)
    figure.suptitle(quantities.get_quantity(of).axis_label, fontsize=mpl.rcParams["axes.titlesize"])
    return figure


def _panel_title(row: pd.Series, summary: pd.DataFrame) -> str:
    """Return the title of a panel of a heat map.

    It has the workload, and the level of each other factor that has several levels. The drive is not included.

    Args:
        row: The levels of the panel, by column.
        summary: The means of all panels.
    """
    parts = [WORKLOAD_NAMES[row["rw"]]]
    for name, level in row.items():
        if name not in {"rw", "drive"} and summary[name].nunique() > 1:
            parts.append(level_labels(str(name), [level])[level])
    return ", ".join(parts)


def panel_letter(number: int) -> str:
    """Return the letter of a panel: ``a`` for 0, ``b`` for 1, …, ``aa`` for 26.

    Args:
        number: The number of the panel, counted from 0.
    """
    text = ""
    while number >= 0:
        number, last = divmod(number, 26)
        text = chr(ord("a") + last) + text
        number -= 1
    return text


def panels_by_level(
    summary: pd.DataFrame, by: Sequence[str], of: str, published: pd.DataFrame
) -> tuple[str, list[Panel]]:
    """Choose the horizontal axis of an experiment's figure, and make its panels.

    A factor is a fio option or setting that the experiment varies. The horizontal axis shows the factor with the most
    levels. For each drive there is a panel for each measured combination of levels of the other factors, for example
    one for each pair of I/O depth and number of jobs.

    Args:
        summary: Means of the quantity, as `Study.summary` returns them for the factors `by`.
        by: The columns of the factors, such as iodepth. The block size (bs_bytes) is added if it is not among them.
        of: The name of the quantity, such as ``bandwidth``.
        published: The published values of the experiment, as `Study.published` returns them.

    Returns:
        The column on the horizontal axis, and the panels. Both are arguments of `curves_figure`.
    """
    factors = list(dict.fromkeys([*by, "bs_bytes"]))
    x = max(factors, key=lambda factor: summary[factor].nunique())
    others = [factor for factor in factors if factor != x and summary[factor].nunique() > 1]
    names = {factor: level_labels(factor, summary[factor]) for factor in others}
    # published values without a level of a factor cannot be drawn
    values = published.reindex(columns=[*dict.fromkeys([*published.columns, *factors])]).dropna(subset=[x, *others])
    panels = []
    for (drive, *levels), rows in summary.groupby(["drive", *others], sort=False):
        here = values[values["drive_key"] == drive]
        for factor, level in zip(others, levels, strict=True):
            here = here[here[factor] == level]
        labels = ", ".join(names[factor][level] for factor, level in zip(others, levels, strict=True))
        panels.append(Panel("\n".join(filter(None, (str(drive), labels))), rows, here, of=of))
    return x, panels


@dataclass(frozen=True)
class _Axis:
    """The horizontal axis of a figure, with a place for each level of a factor.

    Attributes:
        factor: The column of the factor.
        label: The label of the axis.
        places: The coordinate of each level.
        texts: The printed text of each level.
        logarithmic: Whether the axis is logarithmic.
    """

    factor: str
    label: str
    places: Mapping[Any, float]
    texts: Mapping[Any, str]
    logarithmic: bool = False

    @classmethod
    def of(cls, factor: str, levels: pd.Series) -> "_Axis":
        names = list(dict.fromkeys(levels.dropna()))
        scale = level_scale(factor, names)
        is_text = any(isinstance(level, str) for level in names)
        if not is_text:
            names.sort()
        equally_spaced = {level: float(at) for at, level in enumerate(names)}
        if is_text:
            return cls(factor, scale.label, equally_spaced, scale.texts)
        as_numbers = {level: float(level) for level in names}
        if names and names[0] > 0:
            return cls(factor, scale.label, as_numbers, scale.texts, names[-1] >= _SPREAD * names[0])
        wide = len(names) > 1 and names[-1] - names[0] >= _SPREAD * min(np.diff(names))
        return cls(factor, scale.label, equally_spaced if wide else as_numbers, scale.texts)

    def scale(self) -> so.Continuous:
        """Return seaborn's scale of the axis, with a tick for each level.

        Among block sizes, only powers of two have ticks, because there is no room for others, such as 28 KiB beside 32
        KiB.
        """
        named = list(self.places)
        if self.factor == "bs_bytes":
            named = [level for level in named if int(level) & (int(level) - 1) == 0] or named
        texts = {self.places[level]: self.texts[level] for level in named}
        ticked = so.Continuous(trans="log2" if self.logarithmic else None).tick(at=list(texts))
        return ticked.label(like=lambda at, _: texts.get(at, ""))


def _points(panel: Panel, x: str, number: int) -> pd.DataFrame:
    """Return the points of a panel as a table.

    Args:
        panel: The panel.
        x: The column on the horizontal axis.
        number: The number of the panel.

    Returns:
        A row per measured and per published point. Columns: `x`, mean, low, high, curve (name of the curve) and panel
        (the number). Published points have no low and high.
    """
    rows = panel.rows.assign(curve=panel.rows["rw"].map(WORKLOAD_NAMES))
    if "variant" in rows:
        rows["curve"] += ", " + rows["variant"]
    parts = [rows]
    if panel.published is not None:
        values = panel.published.rename(columns={"value": "mean"})
        parts.append(values.assign(curve=values["rw"].map(WORKLOAD_NAMES) + ", published"))
    columns = [x, "mean", "low", "high", "curve"]
    return pd.concat([part.reindex(columns=columns).astype({x: object}) for part in parts]).assign(panel=number)


def _curve_looks(variants: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return seaborn's properties of each curve, by name, in drawing order.

    Colour and marker show the workload, dashes show random access, and white markers show the second variant. Later
    curves have smaller markers, so that all of several coinciding curves can be seen.

    Args:
        variants: The variants of the curves of a workload, at most two; ``[""]`` if there are none.
    """
    looks = {}
    for number, (rw, name) in enumerate(WORKLOAD_NAMES.items()):
        random = rw.startswith("rand")
        for variant, variant_name in enumerate(variants):
            look = _look(number, _MARKERS[number], (3.0 if random else 5.0) * (0.6 if variant else 1), dashed=random)
            looks[f"{name}, {variant_name}" if variant_name else name] = look | (
                {"fillcolor": "white"} if variant else {}
            )
    for number, name in enumerate(WORKLOAD_NAMES.values()):
        looks[f"{name}, published"] = _look(number, _MARKERS[number], 8.0) | _HOLLOW | {"linewidth": 0.0}
    return looks


def _look(number: int, marker: str, pointsize: float, *, dashed: bool = False) -> dict[str, Any]:
    """Return seaborn's properties of a curve, such as colour and marker.

    The properties remain distinguishable in grey and in bad print.

    Args:
        number: Number of the colour in the style.
        marker: matplotlib's code of the marker.
        pointsize: Size of the marker.
        dashed: Whether the line is dashed.
    """
    colour = f"C{number}"
    return {
        "color": colour,
        "fillcolor": colour,
        "marker": marker,
        "pointsize": pointsize,
        "linestyle": "--" if dashed else "-",
        "linewidth": 0.9,
    }


def _drawn(
    points: pd.DataFrame,
    looks: Mapping[str, Mapping[str, Any]],
    titles: Sequence[str],
    x: so.Continuous,
    *,
    columns: int,
    row_inch: float = _PANEL_INCH,
    frame_inch: float = 0.3,
    share_y: bool = True,
    group: str | None = None,
    label: str = "",
) -> Figure:
    """Return a figure of points, with a panel per title and a line per curve.

    Args:
        points: Columns panel (the number of its title), at (horizontal coordinate), mean, low, high and curve.
        looks: seaborn's properties of each curve, by name, in drawing order.
        titles: The titles of the panels.
        x: The scale of the horizontal axis.
        columns: Panels per row.
        row_inch: Height of a row.
        frame_inch: Height of legend and labels.
        share_y: Whether the panels share the vertical axis.
        group: A column; a line joins only points that have equal values in it. None joins all points of a curve.
        label: Label of the horizontal axis.
    """
    plot = so.Plot(points, x="at", y="mean", group=group)
    plot = plot.facet("panel", order=list(range(len(titles))), wrap=min(columns, len(titles)))
    plot = plot.share(x=True, y=share_y).scale(x=x)
    # a layer per curve: seaborn would try every combination of properties that depend on the curve
    for name, look in looks.items():
        rows = points[points["curve"] == name]
        if rows.empty:
            continue
        limited = rows.dropna(subset=["low", "high"])
        if not limited.empty:
            bars = so.Range(color=look["color"], linewidth=0.8, linestyle="-")
            plot = plot.add(bars, data=limited, legend=False, ymin="low", ymax="high")
        plot = plot.add(so.Line(edgewidth=0.7, artist_kws={"label": name}, **look), data=rows, label=name)
    plot = plot.label(x=label, y="", legend="", title=lambda number: titles[int(number)])
    figure = _plotted(plot, -(-len(titles) // columns) * row_inch + frame_inch)
    if figure.legends:
        # seaborn's legend is beside the panels, and seaborn.move_legend does not find it in the figure's list
        beside = figure.legends.pop()
        names = [text.get_text() for text in beside.get_texts()]
        handles = [handle for handle in beside.legend_handles if handle is not None]
        add_legend_below(figure, handles, names, _LEGEND_COLUMNS)
    return figure


def _plotted(plot: so.Plot, height_inch: float) -> Figure:
    """Return the figure of a seaborn plot in the style of the report.

    Args:
        plot: The plot.
        height_inch: Height of the figure. Its width is that of the report's text.
    """
    theme = {name: value for name, value in mpl.rcParams.items() if name.partition(".")[0] in _THEME}
    figure = Figure(figsize=(WIDTH_INCH, height_inch), layout="constrained")
    with warnings.catch_warnings():
        # seaborn 0.13 passes pandas a keyword that pandas 3 deprecates
        warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"seaborn\.")
        plot.theme(theme).on(figure).plot()
    return figure


def add_legend_below(figure: Figure, handles: Sequence[Artist], names: Sequence[str], most_columns: int) -> None:
    """Add a legend below all panels of a figure.

    Args:
        figure: The figure.
        handles: The artists (such as lines) that the legend explains, at least one.
        names: The text of each handle.
        most_columns: The largest number of columns. There are fewer if the names are too long for the width.
    """
    fitting = max(1, _LEGEND_CHARACTERS // max(map(len, names)))
    figure.legend(handles, names, loc="outside lower center", ncols=min(len(names), most_columns, fitting))


def figure_with_panels(
    count: int, columns: int, row_inch: float, *, frame_inch: float = 0.0, sharex: bool = False, sharey: bool = False
) -> tuple[Figure, list[Axes]]:
    """Return an empty figure as wide as the report's text, and its panels row by row.

    Args:
        count: Number of panels.
        columns: Panels per row. The last row may have fewer.
        row_inch: Height of a row of panels, in inches.
        frame_inch: Height above and below all panels together, in inches, for a common title or legend.
        sharex: Whether the panels share the horizontal axis.
        sharey: Whether the panels share the vertical axis.

    Returns:
        The figure, and the axes of the `count` panels.
    """
    rows = -(-count // columns)
    figure = Figure(figsize=(WIDTH_INCH, rows * row_inch + frame_inch), layout="constrained")
    panels = list(figure.subplots(rows, columns, sharex=sharex, sharey=sharey, squeeze=False).flat)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
