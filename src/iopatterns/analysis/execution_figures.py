"""Figures of single repetitions and cells.

The figures are bar charts of cells, histograms of latency, and rates over time. A repetition is one run of fio for a
cell (one configuration: a drive, its settings and a workload).
"""

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
from matplotlib.ticker import MaxNLocator, NullLocator

import fio_parser_json
from iopatterns.analysis import quantities
from iopatterns.analysis.plots import PlotError, add_legend_below, figure_with_panels, level_labels, report_style
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label

# Marked in histograms, each with its marker
_PERCENTILES = {50.0: "o", 99.0: "s", 99.9: "^"}
_MARKER_NAMES = {"o": "circle", "s": "square", "^": "triangle"}
# Ratio of the limits of a class of a histogram
_CLASS_RATIO = 1.1
_PANELS_PER_ROW, _ROW_INCH, _BAR_INCH = 2, 2.1, 0.16
_KEYS = ["drive", "rw", "bs_bytes"]


def completion_latencies(raw_files: Sequence[Path]) -> pd.DataFrame:
    """Return the histograms of completion latency in raw files of fio.

    Args:
        raw_files: JSON files that fio wrote with ``--output-format=json+``, one per repetition (run of fio).

    Returns:
        A row per non-empty bin, sorted by source and latency. Columns: source (the path of the raw file), latency_ns
        (middle of the bin) and count (number of requests over all jobs and directions).

    Raises:
        FioParseError: A raw file is not complete, valid output of fio.
        OSError: A raw file cannot be read.
    """
    bins = fio_parser_json.latency_bins(raw_files)
    bins = bins[bins["latency"] == "clat"].rename(columns={"bin_ns": "latency_ns"})
    return bins.groupby(["source", "latency_ns"], sort=True)["count"].sum().reset_index()


def rates_over_time(logs: Sequence[Path]) -> pd.DataFrame:
    """Return the rate of requests over time from fio's latency histogram logs.

    A rate is the sum over all jobs and directions (read, write, trim). In a log, each job has its own intervals. In the
    result, the intervals have equal length, which is the median length of the log's intervals. The rate of a job in
    such an interval is its logged rate at the middle of the interval. Requests after the last line of a job were not
    logged, and so are not in the result.

    Args:
        logs: Files named ``*_clat_hist.1.log``, one per repetition (run of fio).

    Returns:
        A row per log and interval. Columns: source (the path of the log), time_s (the end of the interval) and iops.

    Raises:
        FioParseError: A file is not such a log.
        OSError: A file cannot be read.
    """
    bins = fio_parser_json.log_bins(logs)
    parts = []
    for source, rows in bins.groupby("source", sort=False):
        jobs = [job for _, lines in rows.groupby("direction", sort=False) for job in _job_rates(lines)]
        step_s = float(np.median(np.concatenate([np.diff(ends_s, prepend=0.0) for ends_s, _ in jobs])))
        last_s = min(ends_s[-1] for ends_s, _ in jobs)
        ends = np.arange(1, max(1, int(last_s / step_s + 0.5)) + 1) * step_s
        middles = np.minimum(ends - step_s / 2, last_s)
        iops = sum(rates[np.searchsorted(ends_s, middles)] for ends_s, rates in jobs)
        parts.append(pd.DataFrame({"source": source, "time_s": ends, "iops": iops}))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=["source", "time_s", "iops"])


def _job_rates(rows: pd.DataFrame) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the rates over time of each job in a log of one direction.

    Args:
        rows: Histogram bins with the columns time_ms and count. A time smaller than the one before begins a new job.

    Returns:
        A pair per job: the interval end times in seconds, and the rate in each interval in requests per second.
    """
    job = (rows["time_ms"].diff().fillna(0) < 0).cumsum()
    found = []
    for _, lines in rows.groupby(job):
        counts = lines.groupby("time_ms")["count"].sum().astype("float64")
        ends_s = counts.index.to_numpy("float64") / 1e3
        lengths_s = np.diff(ends_s, prepend=0.0)
        if (lengths_s > 0).all():
            found.append((ends_s, counts.to_numpy() / lengths_s))
    return found


@report_style()
def quantity_bars(summaries: Mapping[str, pd.DataFrame], by: Sequence[str]) -> Figure:
    """Return a bar chart of quantities, with a panel per quantity and a bar per cell.

    A cell is one configuration: a drive, its settings and a workload. A bar shows a mean with its confidence interval.
    The colour shows the workload.

    Args:
        summaries: For each quantity, its means as `Study.summary` returns them for the factors `by`: a row per cell
            with the columns rw, bs_bytes, mean, low and high, among others. The keys are names of quantities, such as
            ``iops``. All quantities have the same rows.
        by: The columns of the factors (varied fio options or settings) that distinguish the cells, such as iodepth.

    Raises:
        PlotError: The summaries are empty.
        QuantityError: A quantity does not exist.
    """
    first = next(iter(summaries.values()))
    if first.empty:
        raise PlotError("there is nothing to draw")
    height_inch = max(1.2, len(first) * _BAR_INCH + 0.6)
    figure, panels = figure_with_panels(len(summaries), len(summaries), height_inch, sharey=True)
    names = _cell_names(first, by)
    for axes, (name, summary) in zip(panels, summaries.items(), strict=True):
        places = np.arange(len(summary))
        means = summary["mean"].to_numpy("float64")
        colours = [f"C{list(WORKLOAD_NAMES).index(rw)}" for rw in summary["rw"]]
        axes.barh(places, means, color=colours, height=0.7)
        reach = np.array([summary["mean"] - summary["low"], summary["high"] - summary["mean"]], dtype="float64")
        known = ~np.isnan(reach).any(axis=0)
        axes.errorbar(
            means[known],
            places[known],
            xerr=np.clip(reach[:, known], 0, None),
            fmt="none",
            ecolor="black",
            elinewidth=0.7,
            capsize=1.5,
        )
        axes.set_xlabel(quantities.get_quantity(name).axis_label)
        axes.grid(visible=True, axis="x")
        axes.grid(visible=False, axis="y")
        axes.set_xlim(left=0)
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.xaxis.set_major_formatter(_thousands)
    panels[0].set_yticks(np.arange(len(names)), names)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    return figure


@report_style()
def latency_histograms(executions: pd.DataFrame, found: pd.DataFrame, by: Sequence[str]) -> Figure:
    """Return a figure of latency distributions, with a line per cell.

    A cell is one configuration: a drive, its settings and a workload. There is a panel for each workload and block
    size. The cells in a panel differ in other factors. A line shows the share of requests in each range of latency,
    over all repetitions of the cell. Marks on a line show the percentiles 50, 99 and 99.9.

    Args:
        executions: A row per repetition (run of fio), all on one drive. Columns: source (the path of the raw file), rw
            (fio's name of the workload), bs_bytes and the columns in `by`.
        found: Histogram bins, as `completion_latencies` returns them.
        by: The columns of the factors (varied fio options or settings) that distinguish the cells, such as iodepth.

    Raises:
        PlotError: `executions` or `found` is empty.
    """

    def draw(axes: Axes, sources: set[str], look: Mapping[str, Any]) -> None:
        counts = found[found["source"].isin(sources)].groupby("latency_ns")["count"].sum()
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

    figure = _figure_of_cells(executions, by, draw, found)
    for axes in figure.axes:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(lambda us, _: f"{us:g} µs" if us < 1000 else f"{us / 1000:g} ms")
        axes.set_ylim(bottom=0)
        axes.set_xlabel("Completion latency, in classes of a tenth")
    figure.supylabel("Requests (%)", fontsize=mpl.rcParams["axes.labelsize"])
    marks = ", ".join(f"{_MARKER_NAMES[marker]} {percentile:g} %" for percentile, marker in _PERCENTILES.items())
    figure.suptitle(f"Percentiles: {marks}", fontsize=mpl.rcParams["axes.titlesize"])
    return figure


@report_style()
def rate_curves(executions: pd.DataFrame, found: pd.DataFrame, by: Sequence[str]) -> Figure:
    """Return a figure of rates over time, with a line per cell.

    A cell is one configuration: a drive, its settings and a workload. There is a panel for each workload and block
    size. The cells in a panel differ in other factors. A line is the mean over all repetitions of the cell, in IOPS.

    Args:
        executions: A row per repetition (run of fio), all on one drive. Columns: source (the path of the log), rw
            (fio's name of the workload), bs_bytes and the columns in `by`.
        found: The rates, as `rates_over_time` returns them.
        by: The columns of the factors (varied fio options or settings) that distinguish the cells, such as iodepth.

    Raises:
        PlotError: `executions` or `found` is empty.
    """

    def draw(axes: Axes, sources: set[str], look: Mapping[str, Any]) -> None:
        curve = found[found["source"].isin(sources)].groupby("time_s")["iops"].mean()
        axes.plot(curve.index, curve, **look)

    figure = _figure_of_cells(executions, by, draw, found)
    for axes in figure.axes:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(_thousands)
        axes.set_xlabel("Time (s)")
    figure.supylabel("Rate (IOPS)", fontsize=mpl.rcParams["axes.labelsize"])
    return figure


def _thousands(value: float, _position: float) -> str:
    return f"{value:,.6g}"


def _figure_of_cells(executions: pd.DataFrame, by: Sequence[str], draw: Any, found: pd.DataFrame) -> Figure:
    """Return a figure with a panel per workload and block size, and a line per cell.

    The legend has the levels of the factors other than drive, workload and block size.

    Args:
        executions: A row per repetition, with source, rw, bs_bytes and the factors.
        by: The columns of the factors that distinguish the cells.
        draw: Draws a cell. It is called with the axes, the set of sources of the cell's repetitions, and the matplotlib
            properties of the line.
        found: The data to draw, with the column source.

    Raises:
        PlotError: There is nothing to draw.
    """
    if executions.empty or found.empty:
        raise PlotError("there is nothing to draw")
    others = [name for name in by if name not in _KEYS]
    panels: list[tuple[Any, pd.DataFrame]] = list(executions.groupby(["rw", "bs_bytes"], sort=False))
    columns = min(_PANELS_PER_ROW, len(panels))
    figure, grid = figure_with_panels(len(panels), columns, _ROW_INCH, frame_inch=0.6, sharex=True)
    all_levels = [levels for levels, _ in _groups(executions, others)]
    looks = dict(zip(all_levels, _line_looks(len(all_levels)), strict=True))
    for axes, ((rw, size), here) in zip(grid, panels, strict=True):
        axes.set_title(f"{WORKLOAD_NAMES[rw]}, {block_label(int(size))}")
        axes.tick_params(labelbottom=True)
        for levels, cell in _groups(here, others):
            sources = set(cell["source"]) & set(found["source"])
            if sources:
                draw(axes, sources, looks[levels])
    if others:
        texts = [level_labels(name, executions[name], " ") for name in others]
        names = [", ".join(text[level] for text, level in zip(texts, levels, strict=True)) for levels in looks]
        lines = [Line2D([], [], **look) for look in looks.values()]
        add_legend_below(figure, lines, names, len(names))
    return figure


def _groups(rows: pd.DataFrame, factors: Sequence[str]) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield each combination of levels of some factors with its rows.

    A combination is a tuple. Without factors, all rows belong to the empty tuple.
    """
    if factors:
        yield from rows.groupby(list(factors), sort=True, dropna=False)
    else:
        yield (), rows


def _line_looks(count: int) -> list[dict[str, Any]]:
    """Return matplotlib properties (colour and line style) of a number of lines.

    Colours go from light to dark, which shows the order of the lines. Line styles alternate.
    """
    shades = mpl.colormaps["viridis_r"](np.linspace(0.15, 1, max(count, 2)))[-count:]
    return [{"color": to_hex(shade), "linestyle": ("-", "--", ":")[number % 3]} for number, shade in enumerate(shades)]


def _cell_names(summary: pd.DataFrame, by: Sequence[str]) -> list[str]:
    """Return a name for each row, such as ``Rand. read 4 KiB, I/O depth 8``.

    A name has workload, block size, and the level of each other factor of `by` that has several levels.
    """
    others = [name for name in by if name not in _KEYS and summary[name].nunique() > 1]
    texts = {name: level_labels(name, summary[name], " ") for name in others}
    return [
        ", ".join(
            [
                f"{WORKLOAD_NAMES[row['rw']]} {block_label(int(row['bs_bytes']))}",
                *(texts[name][row[name]] for name in others),
            ]
        )
        for row in summary.to_dict("records")
    ]
