"""Draws the report's figures: one style, legible in grey, the same bytes each time."""

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.style
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from iopatterns.analysis import quantities
from iopatterns.analysis.report_tables import drive_label
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label
from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration.factors import scale

STYLE = Path(__file__).with_name("plots.mplstyle")
WIDTH_INCH = 166 / 25.4  # the report's text width
_ROW_INCH = 52 / 25.4
_LEGEND_COLUMNS = 4  # as many as the width holds
_PANELS_PER_ROW = 4
_NOTE_WIDTH = 44  # letters that fit into the narrowest panel
_MARKERS = "osD^vP"
# From this ratio of the largest to the smallest level on, an axis is logarithmic
_SPREAD = 8
_PAIRS = (("read", "randread"), ("write", "randwrite"))


class PlotError(IoPatternsError):
    """There is nothing to draw, or more kinds of it than the figure can tell apart."""


@contextmanager
def styled() -> Iterator[None]:
    """Draw with the report's style, whatever the user's own matplotlib settings are."""
    with matplotlib.style.context(["default", STYLE]):
        yield


def save(figure: Figure, stem: Path | str) -> tuple[Path, Path]:
    """Write ``stem``.svg and ``stem``.png without dates or versions in them, and return the two paths."""
    svg, png = Path(f"{stem}.svg"), Path(f"{stem}.png")
    with styled():
        files.write(svg, lambda path: figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None}))
        files.write(png, lambda path: figure.savefig(path, format="png", metadata={"Software": None}))
    return svg, png


def bandwidth_figure(summary: pd.DataFrame, published: pd.DataFrame) -> Figure:
    """Return the figure of bandwidth by workload and block size, one panel per drive, measured drives first.

    ``summary``: columns drive, rw, bs_bytes and mean, low, high in MB/s, as ``statistics.summarise`` makes it
    from MB/s; its means are filled markers with the interval as error bars. ``published``: as
    ``published.load`` returns it, bandwidth in MB/s; its values are hollow markers, in the panel of the
    measured drive of the same name if there is one. A line joins sequential and random: on the logarithmic
    axis the same slope is the same ratio. Raises PlotError for an empty summary or more block sizes than
    there are markers.
    """
    values = published[published["quantity"] == "bandwidth"]
    sizes = sorted({int(size) for size in summary["bs_bytes"]})
    if summary.empty or len(sizes) > len(_MARKERS):
        raise PlotError(f"a figure of 1 to {len(_MARKERS)} block sizes can be drawn, not of {len(sizes)}")
    drives = list(dict.fromkeys([*summary["drive"], *values["drive_key"]]))
    with styled():
        rows = -(-len(drives) // _PANELS_PER_ROW)
        figure = Figure(figsize=(WIDTH_INCH, rows * _ROW_INCH + 0.25), layout="constrained")
        grid = figure.subplots(rows, min(len(drives), _PANELS_PER_ROW), sharex=True, sharey=True, squeeze=False)
        for axes, drive in zip(grid.flat[: len(drives)], drives, strict=True):  # the last row may have empty places
            here, there = summary[summary["drive"] == drive], values[values["drive_key"] == drive]
            _head(axes, drive, not here.empty, not there.empty)
            _draw(axes, here, sizes, hollow=False)
            _draw(axes, there.rename(columns={"value": "mean"}), sizes, hollow=True)
            _scale(axes)
        panels = list(grid.flat)
        for axes in panels[len(drives) :]:
            axes.set_visible(False)
        for axes in panels[max(0, len(drives) - _PANELS_PER_ROW) : len(drives)]:
            axes.tick_params(labelbottom=True)  # the lowest of each column, also above an empty place
        figure.supylabel("Bandwidth (MB/s, logarithmic)", fontsize="medium")
        handles = _legend(sizes, {int(size) for size in values["bs_bytes"].dropna()})
        figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), _LEGEND_COLUMNS))
    return figure


@dataclass(frozen=True)
class Panel:
    """One panel of a figure of curves.

    ``rows``: columns ``rw``, the x of the figure, and ``mean``, ``low``, ``high`` of its quantity; and ``variant``
    where a workload has several curves in it. ``published``: rows of the source's values with ``rw``, x and
    ``value``, or None. ``note``: what is written in a panel without rows. ``of``: the quantity, see ``measures``; its
    axis begins at 0, unless it is ``logarithmic``.
    """

    title: str
    rows: pd.DataFrame
    published: pd.DataFrame | None = None
    note: str = "not measured"
    of: str = "bandwidth"
    logarithmic: bool = False


def curves_figure(panels: Sequence[Panel], x: str, columns: int, *, height_inch: float = 2.35) -> Figure:
    """Return a figure of quantities over the levels of a factor, a curve for each workload.

    ``x`` is the factor's column in the executions (bs_bytes, numjobs, iodepth …). Levels above 0 that span a factor
    of eight or more stand on a logarithmic axis, others as far apart as their numbers say; where some are 0 or
    below and they span much, and where they are names, they stand side by side. Markers are means with their
    intervals as error bars; hollow markers, larger, are published values. Panels stand in rows of ``columns`` and
    share x, and y where all show one quantity. Raises PlotError for no panels at all, or more than two variants,
    QuantityError.
    """
    variants = list(dict.fromkeys(name for panel in panels for name in panel.rows.get("variant", ())))
    if not panels:
        raise PlotError("there are no panels to draw")
    if len(variants) > 2:
        raise PlotError(f"two variants can be told apart, not {len(variants)}: {', '.join(variants)}")
    with styled():
        rows = -(-len(panels) // columns)
        figure = Figure(figsize=(WIDTH_INCH, rows * height_inch + 0.3), layout="constrained")
        grid = figure.subplots(
            rows, columns, sharex=True, sharey=len({panel.of for panel in panels}) == 1, squeeze=False
        )
        drawn = [rows for panel in panels for rows in (panel.rows, panel.published) if rows is not None]
        axis = _Axis.of(x, [level for rows in drawn for level in rows[x].dropna()])
        handles: dict[str, Any] = {}
        used = grid.flat[: len(panels)]  # the last row may have empty places
        for axes, panel in zip(used, panels, strict=True):
            axes.set_title(panel.title, loc="left")
            _curves(axes, panel, axis, variants or [""], handles)
            if panel.rows.empty:
                width = max(12, 2 * _NOTE_WIDTH // columns) if columns > 1 else _NOTE_WIDTH
                note = "\n".join(textwrap.fill(line, width) for line in panel.note.splitlines())
                axes.text(0.5, 0.5, note, transform=axes.transAxes, ha="center", va="center")
        for axes in list(grid.flat)[len(panels) :]:
            axes.set_visible(False)
        axis.apply(grid.flat[0])
        for number, (axes, panel) in enumerate(zip(used, panels, strict=True)):
            if panel.logarithmic:
                _logarithmic(axes)
            else:
                axes.set_ylim(bottom=0)
            if number % columns == 0 or panel.of != panels[number - 1].of:
                measure = quantities.get(panel.of)
                axes.set_ylabel(f"{measure.label} ({measure.unit})")
        for axes in list(grid.flat)[max(0, len(panels) - columns) : len(panels)]:
            axes.tick_params(labelbottom=True)  # the lowest of each column, also above an empty place
            axes.set_xlabel(axis.label)
        if handles:
            columns_of_legend = min(len(handles), _LEGEND_COLUMNS)
            figure.legend(handles.values(), handles, loc="outside lower center", ncols=columns_of_legend)
    return figure


def panel_letter(number: int) -> str:
    """Return the letter of a figure's panel: a, b … z, then aa, ab …; ``number`` counts from 0."""
    text = ""
    while number >= 0:
        number, last = divmod(number, 26)
        text = chr(ord("a") + last) + text
        number -= 1
    return text


def level_panels(summary: pd.DataFrame, by: Sequence[str], of: str, published: pd.DataFrame) -> tuple[str, list[Panel]]:
    """Return the x of a figure of any experiment, and its panels: one for each drive and level of the other factors.

    x is the factor with the most levels, of ``by`` or the block size. ``summary`` and ``published``: as
    ``analysis.Study`` returns them of the quantity ``of``, by ``by``.
    """
    factors = list(dict.fromkeys([*by, "bs_bytes"]))
    x = max(factors, key=lambda factor: summary[factor].nunique())
    others = [factor for factor in factors if factor != x and summary[factor].nunique() > 1]
    texts = {factor: scale(factor, summary[factor]) for factor in others}
    # a value that does not say its level of a factor has no place
    values = published.reindex(columns=[*dict.fromkeys([*published.columns, *factors])]).dropna(subset=[x, *others])
    panels = []
    for (drive, *levels), rows in summary.groupby(["drive", *others], sort=False):
        here = values[values["drive_key"] == drive]
        for factor, level in zip(others, levels, strict=True):
            here = here[here[factor] == level]
        told = (f"{texts[name].label}: {texts[name].texts[level]}" for name, level in zip(others, levels, strict=True))
        panels.append(Panel("\n".join(filter(None, (str(drive), ", ".join(told)))), rows, here, of=of))
    return x, panels


@dataclass(frozen=True)
class _Axis:
    """Where the levels of a factor stand: ``places`` by level; ``base`` of a logarithmic axis, 0 for none."""

    factor: str
    label: str
    places: Mapping[Any, float]
    texts: Mapping[Any, str]
    base: int = 0

    @classmethod
    def of(cls, factor: str, levels: Iterable[Any]) -> "_Axis":
        names = list(dict.fromkeys(levels))
        shown = scale(factor, names)
        if any(isinstance(level, str) for level in names):
            return cls(factor, shown.label, {level: float(at) for at, level in enumerate(names)}, shown.texts)
        names.sort()
        side_by_side = {level: float(at) for at, level in enumerate(names)}
        as_they_are = {level: float(level) for level in names}
        if names and names[0] > 0:
            return cls(factor, shown.label, as_they_are, shown.texts, 2 if names[-1] >= _SPREAD * names[0] else 0)
        wide = len(names) > 1 and names[-1] - names[0] >= _SPREAD * min(np.diff(names))
        return cls(factor, shown.label, side_by_side if wide else as_they_are, shown.texts)

    def at(self, levels: Iterable[Any]) -> list[float]:
        return [self.places[level] for level in levels]

    def apply(self, axes: Axes) -> None:
        """Scale x and name its levels; of block sizes the powers of two alone, since 28 has no room beside 32."""
        if self.base:
            axes.set_xscale("log", base=self.base)
        named = list(self.places)
        if self.factor == "bs_bytes":
            named = [level for level in named if int(level) & (int(level) - 1) == 0] or named
        axes.set_xticks([self.places[level] for level in named], [self.texts[level] for level in named])
        axes.xaxis.set_minor_locator(NullLocator())


def _curves(axes: Axes, panel: Panel, axis: _Axis, variants: Sequence[str], handles: dict[str, Any]) -> None:
    """Draw the curves of one panel, and add those that are new to the figure's legend."""
    x = axis.factor
    for rw in [rw for rw in WORKLOAD_NAMES if rw in set(panel.rows["rw"])]:
        for number, variant in enumerate(variants):
            part = panel.rows[panel.rows["rw"] == rw]
            part = part[part["variant"] == variant] if "variant" in part else part
            if part.empty:
                continue
            part = part.assign(at=axis.at(part[x])).sort_values("at")
            label = f"{WORKLOAD_NAMES[rw]}, {variant}" if variant else WORKLOAD_NAMES[rw]
            error = [(part["mean"] - part["low"]).fillna(0), (part["high"] - part["mean"]).fillna(0)]
            look = _curve_look(rw, number)
            drawn = axes.errorbar(
                part["at"],
                part["mean"],
                yerr=error,
                label=label,
                capsize=2,
                elinewidth=0.8,
                capthick=0.8,
                **look,
            )
            handles.setdefault(label, drawn)
    if panel.published is not None:
        for rw in dict.fromkeys(panel.published["rw"]):
            values = panel.published[panel.published["rw"] == rw]
            look = _curve_look(rw, 0) | {"linestyle": "none", "markerfacecolor": "none", "markersize": 8}
            (points,) = axes.plot(axis.at(values[x]), values["value"], zorder=1, **look)
            handles.setdefault(f"{WORKLOAD_NAMES[rw]}, published", points)


def _curve_look(rw: str, variant: int) -> dict[str, Any]:
    """Return how a curve looks: colour and marker tell the workload, dashes random access, filling the variant.

    What is drawn later is smaller, so that of curves that fall on one another all can be seen.
    """
    number = list(WORKLOAD_NAMES).index(rw)
    random = rw.startswith("rand")
    return {
        "color": f"C{number}",
        "marker": _MARKERS[number],
        "linestyle": "--" if random else "-",
        "markersize": (3.0 if random else 5.0) * (0.6 if variant else 1.0),
        "markerfacecolor": "white" if variant else f"C{number}",
        "markeredgewidth": 0.7,
    }


def _head(axes: Axes, drive: str, measured: bool, published: bool) -> None:
    name = drive if measured else drive_label(drive)
    kinds = [kind for kind, is_there in (("measured", measured), ("published", published)) if is_there]
    axes.set_title(f"{name}\n{' and '.join(kinds)}", loc="left")


def _draw(axes: Axes, cells: pd.DataFrame, sizes: list[int], hollow: bool) -> None:
    spread = 0.14 * (np.arange(len(sizes)) - (len(sizes) - 1) / 2)
    for number, size in enumerate(sizes):
        rows = cells[cells["bs_bytes"] == size].set_index("rw")
        for first, pair in zip((0, 2), _PAIRS, strict=True):
            found = [rw for rw in pair if rw in rows.index]
            if not found:
                continue
            part = rows.loc[found]
            at = [first + pair.index(rw) + spread[number] for rw in found]
            error = None if hollow else [part["mean"] - part["low"], part["high"] - part["mean"]]
            look = _look(number, hollow)
            axes.errorbar(at, part["mean"], yerr=error, capsize=2, elinewidth=0.8, capthick=0.8, **look)


def _look(number: int, hollow: bool) -> dict[str, Any]:
    return {
        "color": f"C{number}",
        "marker": _MARKERS[number],
        "markerfacecolor": "white" if hollow else f"C{number}",
        "linestyle": "--" if hollow else "-",
    }


def _legend(sizes: list[int], published_sizes: set[int]) -> list[Line2D]:
    return [
        Line2D([], [], label=f"{block_label(size)}, {kind}", **_look(number, kind == "published"))
        for kind, drawn in (("measured", set(sizes)), ("published", published_sizes))
        for number, size in enumerate(sizes)
        if size in drawn
    ]


def _logarithmic(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _scale(axes: Axes) -> None:
    _logarithmic(axes)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    # two lines each, so that all stand on one base line
    names = [WORKLOAD_NAMES[rw] for pair in _PAIRS for rw in pair]
    axes.set_xticks(range(4), [f"{name} ".replace(" ", "\n", 1) for name in names])
    axes.set_xlim(-0.5, 3.5)
