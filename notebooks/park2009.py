"""Park and Shen's figures and tables: completion times relative to a disk, their spread, and latencies over time.

The replayed workloads are stand-ins for the traces of the source, and labelled as such in tables and figures. Traces of
the reader are shown under their own names.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis import applications
from iopatterns.analysis.plots import figure_with_panels, report_style
from iopatterns.analysis.replays import replay_details
from iopatterns.analysis.tables import WORKLOAD_NAMES, Column, Table, fixed_decimals, three_digits
from iopatterns.calls import Trace, stand_ins
from iopatterns.study import Study

DISK = "caviar-se"
# Times that differ by at most this share count as equal
_EQUAL = 0.01
_FILLS = ("0.15", "0.55", "0.85", "0.95", "1.0")
_HATCHES = ("", "", "", "//", "..")


def workload_label(experiment: str) -> str:
    """Return the printed name of an experiment's workload, such as ``Sandia-cth (stand-in)``."""
    name = experiment.removeprefix("no-").partition("-")[2]
    return next((f"{known} (stand-in)" for known in stand_ins.STAND_IN_NAMES if known.lower() == name), name)


def workload_characteristics(own: Iterable[Trace] = ()) -> list[applications.TraceCharacteristics]:
    """Return the characteristics of all stand-ins and of the reader's own traces."""
    traces = (*map(stand_ins.stand_in, stand_ins.STAND_IN_NAMES), *own)
    return [applications.characterise_trace(trace) for trace in traces]


def completion_times(study: Study, kind: str, of: str) -> pd.DataFrame:
    """Return the completion times of the experiments whose names begin with `kind`, in the order of the study.

    Args:
        study: The study.
        kind: The first part of the names, such as ``sequential``.
        of: The column with the times, ``longest_run_s`` or ``mean_run_s``.

    Returns:
        A row for each workload, drive and number of processes. Columns: workload (printed name), drive, numjobs,
        time_s, spread (longest minus shortest run, divided by their mean), and over_disk (time divided by that of the
        disk; missing if the disk was not measured).
    """
    parts = []
    for experiment in study.experiments:
        if not experiment.startswith(f"{kind}-"):
            continue
        rows = study.rows(experiment)
        jobs = rows["numjobs"] if "numjobs" in rows else pd.Series(1, index=rows.index)
        part = rows[["drive"]].assign(
            workload=workload_label(experiment),
            numjobs=jobs.astype("Int64").fillna(1).astype(int),
            time_s=rows[of].astype(float),
            spread=rows["spread_of_runs"].astype(float),
        )
        disk = part[part["drive"] == DISK].set_index("numjobs")["time_s"]
        parts.append(part.assign(over_disk=part["time_s"] / part["numjobs"].map(disk)))
    found = pd.concat(parts, ignore_index=True)
    return found[["workload", "drive", "numjobs", "time_s", "spread", "over_disk"]]


@report_style()
def sequential_figure(found: pd.DataFrame) -> Figure:
    """Return figure 3: the time of each drive relative to the time of the disk, which is printed on top.

    If the disk was not measured, the bars are in seconds.
    """
    figure, (axes,) = figure_with_panels(1, 1, 2.6)
    height = "over_disk" if found["over_disk"].notna().any() else "time_s"
    _bars(axes, found, "workload", height)
    names = list(dict.fromkeys(found["workload"]))
    disk = found[found["drive"] == DISK].set_index("workload")["time_s"]
    top = float(found[height].max())
    for place, name in enumerate(names):
        if name in disk:
            axes.text(place, 1.02 * top, f"{three_digits(disk[name])} s", ha="center", va="bottom", fontsize="small")
    axes.set_ylim(0, 1.14 * top)
    axes.set_xticks(range(len(names)), [name.replace(" (", "\n(") for name in names], fontsize="small")
    if height == "over_disk":
        axes.axhline(1, color="0.3", linewidth=0.6, zorder=0)
    axes.set_ylabel("Time, relative to the disk" if height == "over_disk" else "Completion time (s)")
    figure.legend(loc="outside upper center", ncols=5)
    return figure


@report_style()
def parallel_figure(found: pd.DataFrame) -> Figure:
    """Return figure 4: the mean time of the runs by number of processes, with a panel per workload."""
    names = list(dict.fromkeys(found["workload"]))
    figure, panels = figure_with_panels(len(names), len(names), 2.4)
    for number, (axes, name) in enumerate(zip(panels, names, strict=True)):
        here = found[found["workload"] == name].assign(processes=lambda rows: rows["numjobs"].astype(str))
        _bars(axes, here, "processes", "time_s", spread=True, named=number == 0)
        counts = list(dict.fromkeys(here["processes"]))
        axes.set_xticks(range(len(counts)), counts)
        axes.set(title=name.replace(" (", "\n("), xlabel="Processes at once")
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel("Completion time (s)")
    figure.legend(loc="outside upper center", ncols=5)
    return figure


def _bars(axes: Any, found: pd.DataFrame, group: str, height: str, *, spread: bool = False, named: bool = True) -> None:
    """Draw a group of bars for each value of a column, with a bar per drive.

    Args:
        axes: Where to draw.
        found: Times, as `completion_times` returns them.
        group: The column with a group per value.
        height: The column of the heights.
        spread: Whether to draw the spread of the runs.
        named: Whether the bars are named in the legend.
    """
    drives, groups = list(dict.fromkeys(found["drive"])), list(dict.fromkeys(found[group]))
    width = 0.8 / len(drives)
    for number, drive in enumerate(drives):
        rows = found[found["drive"] == drive].set_index(group).reindex(groups)
        places = np.arange(len(groups)) + (number - (len(drives) - 1) / 2) * width
        look = {"color": _FILLS[number % len(_FILLS)], "hatch": _HATCHES[number % len(_HATCHES)]}
        half = rows["spread"] * rows["time_s"] / 2 if spread else None
        axes.bar(
            places, rows[height], width, edgecolor="0.0", linewidth=0.5, yerr=half,
            error_kw={"elinewidth": 0.7, "capsize": 1.5, "ecolor": "0.4"}, label=drive if named else None, **look,
        )  # fmt: skip


def recorded_latencies(measurements: Path) -> pd.DataFrame:
    """Return a row for each replay with recorded latencies; the column latency has the form of a raw file."""
    table = replay_details(measurements, "latency")
    return table[table["latency"].notna()].reset_index(drop=True)


@report_style()
def latency_figure(replays: pd.DataFrame) -> Figure:
    """Return a figure of the largest latency in each part of a replay over time, with a panel per drive."""
    count = max(1, len(replays))
    figure, panels = figure_with_panels(count, count, 2.2, sharey=True)
    for axes, (_, row) in zip(panels, replays.iterrows(), strict=True):
        latency = row["latency"]
        seconds = np.arange(len(latency["largest_ns"])) * latency["part_ns"] / 1e9
        milliseconds = np.array(latency["largest_ns"]) / 1e6
        axes.plot(seconds, np.where(milliseconds > 0, milliseconds, np.nan), color="0.0", linewidth=0.8)
        axes.axhline(latency["median_ns"] / 1e6, color="0.5", linestyle="--", linewidth=0.8)
        axes.set(title=row["drive"], xlabel="Time (s)", yscale="log")
    panels[0].set_ylabel("Largest latency (ms)")
    return figure


def disk_ratios_text(found: pd.DataFrame) -> str:
    """Return a paragraph with the range of each drive's times relative to the disk.

    Args:
        found: Times, as `completion_times` returns them.
    """
    sentences = []
    for drive, rows in found[found["drive"] != DISK].dropna(subset=["over_disk"]).groupby("drive", sort=False):
        ends = rows.sort_values("over_disk", kind="stable").iloc[[0, -1]]
        low, high = (f"{row['over_disk']:.2f} ({_row_label(row)})" for _, row in ends.iterrows())
        slower = int((rows["over_disk"] > 1).sum())
        sentences.append(
            f"{drive} takes {low} to {high} of the disk's time, and is slower than the disk in {slower} of"
            f" {len(rows)} cases."
        )
    return " ".join(sentences)


def peaks_text(table: Table) -> str:
    """Return a paragraph about the latency peaks in the table of `cleaning_table`."""
    sentences = []
    for _, row in table.data.iterrows():
        ratio = three_digits(row["peak_latency_ms_mean"] / row["median_latency_ms_mean"])
        share = three_digits(row["peaks_per_thousand_mean"])
        sentences.append(f"On {row['drive']}, {share} of a thousand writes take {ratio} times as long as the median.")
    return " ".join(sentences)


def journals_text(table: Table) -> str:
    """Return a paragraph about the cost of journals in the table of `journal_table`."""
    rows = table.data
    equal = int((abs(rows["writeback"] / rows["ordered"] - 1) < _EQUAL).sum())
    least, most = rows["ordered_over_none"].min(), rows["ordered_over_none"].max()
    return (
        f"With ordered data, a process takes {least:.2f} to {most:.2f} times as long as without a journal."
        f" Writeback takes as long as ordered in {equal} of {len(rows)} cases, because each process ends by writing all"
        " its data to the drive."
    )


def _row_label(row: pd.Series) -> str:
    return f"{row['workload']}, {row['numjobs']} at once" if row["numjobs"] > 1 else str(row["workload"])


def _pivoted(found: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return a row per combination of keys, with a column ``<drive>_<value>`` for each drive and value."""
    data = found[list(keys)].drop_duplicates().reset_index(drop=True)
    for drive in found["drive"].unique():
        here = found[found["drive"] == drive][[*keys, *values]]
        names = {value: f"{drive}_{value}" for value in values}
        data = data.merge(here.rename(columns=names), on=list(keys), how="left")
    return data


def _drive_columns(found: pd.DataFrame, value: str, unit: str, spanner: str) -> list[Column]:
    """Return the columns of a value and of its ratio to the disk, for the data of `_pivoted`."""
    drives = list(found["drive"].unique())
    return [
        *(Column((f"{drive}_{value}",), drive, three_digits, unit, spanner) for drive in drives),
        *(
            Column((f"{drive}_over_disk",), drive, fixed_decimals(2), "", "Relative to the disk")
            for drive in drives
            if drive != DISK
        ),
    ]


def sequential_table(found: pd.DataFrame) -> Table:
    """Return the table of the times of figure 3 in seconds and relative to the disk, with a row per workload."""
    data = _pivoted(found, ["workload"], ["time_s", "over_disk"])
    columns = _drive_columns(found, "time_s", "s", "Longest of ten processes")
    return Table(data, (Column(("workload",), "Workload", align_right=False), *columns), "workload")


def parallel_table(found: pd.DataFrame) -> Table:
    """Return the table of the times of figure 4 and their spread, with a row per workload and number of processes."""
    data = _pivoted(found, ["workload", "numjobs"], ["time_s", "over_disk", "spread"])
    columns = [
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("numjobs",), "At once"),
        *_drive_columns(found, "time_s", "s", "Mean of three runs"),
        *(Column((f"{drive}_spread",), drive, fixed_decimals(3), "", "Spread") for drive in found["drive"].unique()),
    ]
    return Table(data, tuple(columns), "workload")


def journal_table(study: Study) -> Table:
    """Return the table of times with and without a journal, with a row per workload and drive."""
    kinds = {"sequential": "ordered", "writeback": "writeback", "no-journal": "none"}
    parts = [completion_times(study, kind, "longest_run_s").assign(journal=name) for kind, name in kinds.items()]
    found = pd.concat(parts).pivot_table(index=["workload", "drive"], columns="journal", values="time_s", sort=False)
    data = found.dropna().reset_index()
    data["ordered_over_none"] = data["ordered"] / data["none"]
    columns = [
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("drive",), "Drive", align_right=False),
        *(Column((name,), name.capitalize(), three_digits, "s", "Journal") for name in kinds.values()),
        Column(("ordered_over_none",), "Ordered over none", fixed_decimals(2)),
    ]
    return Table(data, tuple(columns), "workload")


def transfer_table(study: Study) -> Table:
    """Return the table of the measured rates beside table II."""
    data = study.comparison("transfer", of=["bandwidth"]).assign(group="transfer")
    columns = [
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Requests", WORKLOAD_NAMES.__getitem__, align_right=False),
        Column(("bandwidth_mb_per_s_mean",), "Here", three_digits, "MB/s"),
        Column(("published_bandwidth_mb_per_s",), "Table II", three_digits, "MB/s"),
        Column(("use",), "Class", align_right=False),
    ]
    return Table(data, tuple(columns), "group")


def bare_table(study: Study) -> Table:
    """Return the table of the rates of the first process of each stand-in on the bare drives."""
    parts = [study.comparison(name, ["stand_in"], ["bandwidth"]) for name in ("bare", "bare-writes")]
    found = pd.concat(parts, ignore_index=True)
    return _rates_table(found.assign(workload=found["stand_in"] + " (stand-in)"), "bare")


def own_table(study: Study, own: Iterable[Trace]) -> Table:
    """Return the table of the rates of one process of each of the reader's own traces on the bare drives."""
    labels = {trace.name: trace.label for trace in own}
    found = study.comparison("own", ["trace"], ["bandwidth"])
    return _rates_table(found.assign(workload=found["trace"].map(labels)), "own")


def _rates_table(found: pd.DataFrame, group: str) -> Table:
    """Return the table of rates on the bare drives, with a row per workload.

    Args:
        found: Bandwidths, as `Study.comparison` returns them, with the column workload.
        group: Name of the table's only group.
    """
    found = found.rename(columns={"bandwidth_mb_per_s_mean": "mb_per_s"})
    disk = found[found["drive"] == DISK].set_index("workload")["mb_per_s"]
    found["over_disk"] = found["mb_per_s"] / found["workload"].map(disk)
    data = _pivoted(found, ["workload"], ["mb_per_s", "over_disk"]).assign(group=group)
    columns = _drive_columns(found, "mb_per_s", "MB/s", "Bare drive")
    return Table(data, (Column(("workload",), "Workload", align_right=False), *columns), "group")


def cleaning_table(study: Study) -> Table:
    """Return the table of latencies of random writes and their peaks, with a row per drive."""
    of = ["median latency", "largest latency", "latency of peaks", "peaks per thousand", "irregularity of peaks"]
    data = study.comparison("random-writes", of=of).assign(group="random-writes")
    columns = [
        Column(("drive",), "Drive", align_right=False),
        Column(("median_latency_ms_mean",), "Median", three_digits, "ms", "Latency"),
        Column(("peak_latency_ms_mean",), "Peaks", three_digits, "ms", "Latency"),
        Column(("largest_latency_ms_mean",), "Largest", three_digits, "ms", "Latency"),
        Column(("peaks_per_thousand_mean",), "In 1000 requests", three_digits, spanner="Peaks"),
        Column(("irregularity_of_peaks_mean",), "Irregularity", fixed_decimals(2), spanner="Peaks"),
    ]
    return Table(data, tuple(columns), "group")
