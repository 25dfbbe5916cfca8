"""What fio keeps of executions beside their means, drawn: bars of cells, histograms of latencies, rates over time."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

import fio_parser_json
from iopatterns.analysis import quantities
from iopatterns.analysis.plots import PlotError, add_legend_below, figure_with_panels, level_labels, report_style
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label

# Marked in histograms, each with the point of the line at which it stands
_PERCENTILES = {50.0: "o", 99.0: "s", 99.9: "^"}
_MARKERS = {"o": "circle", "s": "square", "^": "triangle"}
# A class of a histogram is so much wider than the one before: about a tenth
_CLASS_RATIO = 1.1
_PANELS_A_ROW, _ROW_INCH, _BAR_INCH = 2, 2.1, 0.16
_KEYS = ["drive", "rw", "bs_bytes"]


def completion_latencies(raws: Sequence[Path]) -> pd.DataFrame:
    """Return the bins of completion latency of raw files: source, latency_ns and count, directions added up."""
    bins = fio_parser_json.latency_bins(raws)
    bins = bins[bins["latency"] == "clat"].rename(columns={"bin_ns": "latency_ns"})
    return bins.groupby(["source", "latency_ns"], sort=True)["count"].sum().reset_index()


def rates_over_time(logs: Sequence[Path]) -> pd.DataFrame:
    """Return the rate in each interval of logs of latencies: source, time_s (where it ends) and iops, jobs added up.

    A log has the lines of one job after those of another, each job with intervals of its own, which the rates are
    read from at the middle of common ones. What a job did after its last line is in no log.
    """
    bins = fio_parser_json.log_bins(logs)
    parts = []
    for source, rows in bins.groupby("source", sort=False):
        jobs = [job for _, of in rows.groupby("direction", sort=False) for job in _jobs(of)]
        step_s = float(np.median(np.concatenate([np.diff(ends_s, prepend=0.0) for ends_s, _ in jobs])))
        last_s = min(ends_s[-1] for ends_s, _ in jobs)
        ends = np.arange(1, max(1, int(last_s / step_s + 0.5)) + 1) * step_s
        middles = np.minimum(ends - step_s / 2, last_s)
        iops = sum(rates[np.searchsorted(ends_s, middles)] for ends_s, rates in jobs)
        parts.append(pd.DataFrame({"source": source, "time_s": ends, "iops": iops}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["source", "time_s", "iops"])


def _jobs(rows: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return of each job of a log where its intervals end, in seconds, and its rate in each of them."""
    job = (rows["time_ms"].diff().fillna(0) < 0).cumsum()
    found = []
    for _, of_job in rows.groupby(job):
        counts = of_job.groupby("time_ms")["count"].sum().astype("float64")
        ends_s = counts.index.to_numpy("float64") / 1e3
        lengths_s = np.diff(ends_s, prepend=0.0)
        if (lengths_s > 0).all():
            found.append((ends_s, counts.to_numpy() / lengths_s))
    return found


@report_style()
def quantity_bars(summaries: Mapping[str, pd.DataFrame], by: Sequence[str]) -> Figure:
    """Return the figure of some quantities as bars, a row for each cell and a panel for each quantity.

    ``summaries``: by the name of a quantity, as ``analysis.study.Study.summary`` returns it by ``by``. Intervals are
    drawn at the ends of the bars. Raises PlotError for empty summaries.
    """
    first = next(iter(summaries.values()))
    if first.empty:
        raise PlotError("there is nothing to draw")
    height_inch = max(1.2, len(first) * _BAR_INCH + 0.6)
    figure, panels = figure_with_panels(len(summaries), len(summaries), height_inch, sharey=True)
    names = _names(first, by)
    for axes, (of, summary) in zip(panels, summaries.items(), strict=True):
        at = np.arange(len(summary))
        colours = [f"C{list(WORKLOAD_NAMES).index(rw)}" for rw in summary["rw"]]
        reach = np.array([summary["mean"] - summary["low"], summary["high"] - summary["mean"]], dtype="float64")
        axes.barh(at, summary["mean"].astype("float64"), color=colours, height=0.7)
        known = ~np.isnan(reach).any(axis=0)
        axes.errorbar(
            summary["mean"].to_numpy("float64")[known],
            at[known],
            xerr=np.clip(reach[:, known], 0, None),
            fmt="none",
            ecolor="black",
            elinewidth=0.7,
            capsize=1.5,
        )
        axes.set_xlabel(quantities.get_quantity(of).axis_label)
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    panels[0].set_yticks(np.arange(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


@report_style()
def latency_histograms(executions: pd.DataFrame, found: pd.DataFrame, by: Sequence[str]) -> Figure:
    """Return the figure of latencies: a panel for each workload and block size, a line for each level of the rest.

    ``executions``: a row for each execution, with ``source`` and the factors. ``found``: as `completion_latencies` returns it. A
    line is the share of requests in classes of a latency, all executions of a cell together. Raises PlotError.
    """

    def draw(axes: Axes, sources: set[str], look: Mapping[str, Any]) -> None:
        rows = found[found["source"].isin(sources)]
        counts = rows.groupby("latency_ns")["count"].sum()
        latency_us = counts.index.to_numpy("float64") / 1e3
        share = counts.to_numpy("float64") / counts.sum()
        class_ = np.floor(np.log(latency_us) / np.log(_CLASS_RATIO))
        shares = pd.Series(share).groupby(class_).sum()
        shares = shares.reindex(np.arange(class_.min() - 1, class_.max() + 2), fill_value=0.0)
        middle = _CLASS_RATIO ** (shares.index.to_numpy() + 0.5)
        axes.plot(middle, 100 * shares.to_numpy(), drawstyle="steps-mid", **look)
        for percentile, marker in _PERCENTILES.items():
            at = min(int(np.searchsorted(share.cumsum(), percentile / 100 - 1e-12)), len(share) - 1)
            axes.plot(latency_us[at], 100 * shares[class_[at]], marker, color=look["color"], markersize=3.5)

    figure = _of_levels(executions, by, draw, found)
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: _latency_text(value)))
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Completion latency, in classes of a tenth")
    figure.supylabel("Requests (%)", fontsize=mpl.rcParams["axes.labelsize"])
    marks = ", ".join(f"{_MARKERS[marker]} {percentile:g} %" for percentile, marker in _PERCENTILES.items())
    figure.suptitle(f"Percentiles: {marks}", fontsize=mpl.rcParams["axes.titlesize"])
    return figure


@report_style()
def rate_curves(executions: pd.DataFrame, found: pd.DataFrame, by: Sequence[str]) -> Figure:
    """Return the figure of rates over time, panels and lines as in `latency_histograms`; ``found``: as `rates_over_time` returns it.

    A line is the mean over the executions of a cell. Raises PlotError.
    """

    def draw(axes: Axes, sources: set[str], look: Mapping[str, Any]) -> None:
        rows = found[found["source"].isin(sources)]
        curve = rows.groupby("time_s")["iops"].mean()
        axes.plot(curve.index, curve, **look)

    figure = _of_levels(executions, by, draw, found)
    for axes in figure.axes:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
        axes.set_xlabel("Time (s)")
    figure.supylabel("Rate (IOPS)", fontsize=mpl.rcParams["axes.labelsize"])
    return figure


def _latency_text(value_us: float) -> str:
    """Return a latency as an axis has it: ``100 µs``, ``2 ms``."""
    return f"{value_us:g} µs" if value_us < 1000 else f"{value_us / 1000:g} ms"


def _of_levels(executions: pd.DataFrame, by: Sequence[str], draw: Any, found: pd.DataFrame) -> Figure:
    """Return a figure with a panel for each workload and block size, in which ``draw`` has drawn each cell."""
    if executions.empty or found.empty:
        raise PlotError("there is nothing to draw")
    others = [name for name in by if name not in _KEYS]
    panels: list[tuple[Any, pd.DataFrame]] = list(executions.groupby(["rw", "bs_bytes"], sort=False))
    columns = min(_PANELS_A_ROW, len(panels))
    figure, grid = figure_with_panels(len(panels), columns, _ROW_INCH, frame_inch=0.6, sharex=True)
    all_levels = [key for key, _ in _groups(executions, others)]
    looks = dict(zip(all_levels, _looks(len(all_levels)), strict=True))
    for axes, ((rw, size), here) in zip(grid, panels, strict=True):
        axes.set_title(f"{WORKLOAD_NAMES[rw]}, {block_label(int(size))}")
        axes.tick_params(labelbottom=True)
        for key, cell in _groups(here, others):
            sources = set(cell["source"]) & set(found["source"])
            if sources:
                draw(axes, sources, looks[key])
    if others:
        texts = [level_labels(name, executions[name], " ") for name in others]
        names = [", ".join(of[level] for of, level in zip(texts, key, strict=True)) for key in looks]
        lines = [Line2D([], [], **look) for look in looks.values()]
        add_legend_below(figure, lines, names, len(names))
    return figure


def _groups(rows: pd.DataFrame, others: Sequence[str]) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield the levels of some factors that rows have, with those rows; all of them under () where there is none."""
    if not others:
        yield (), rows
        return
    yield from rows.groupby(list(others), sort=True, dropna=False)


def _looks(count: int) -> list[dict[str, Any]]:
    """Return how each of so many lines looks: from light to dark, so that an order shows, dashed by turns."""
    shades = mpl.colormaps["viridis_r"](np.linspace(0.15, 1, max(count, 2)))[-count:]
    return [{"color": to_hex(shade), "linestyle": ("-", "--", ":")[number % 3]} for number, shade in enumerate(shades)]


def _names(summary: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return what tells each row of a summary apart, in words."""
    others = [name for name in by if name not in _KEYS and summary[name].nunique() > 1]
    texts = {name: level_labels(name, summary[name], " ") for name in others}
    names = []
    for row in summary.to_dict("records"):
        cell = f"{WORKLOAD_NAMES[row['rw']]} {block_label(int(row['bs_bytes']))}"
        names.append(", ".join([cell, *(texts[name][row[name]] for name in others)]))
    return names
