"""Times of replayed applications over those of a disk, their spread, and latencies over time: Park and Shen's figures.

What was replayed are stand-ins for the traces of the source, and each table and figure says so; a reader's own traces
stand beside them by their names.
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

# Against it all times are held
DISK = "caviar-se"
# Times within this share of each other are told as the same
_SAME = 0.01
_FILLS = ("0.15", "0.55", "0.85", "0.95", "1.0")
_HATCHES = ("", "", "", "//", "..")


def label(experiment: str) -> str:
    """Return how an experiment's workload is printed: ``Sandia-cth (stand-in)``."""
    name = experiment.partition("-")[2] if not experiment.startswith("no-journal-") else experiment.split("-", 2)[2]
    return next((f"{known} (stand-in)" for known in stand_ins.STAND_IN_NAMES if known.lower() == name), name)


def workloads(own: Iterable[Trace] = ()) -> list[applications.TraceCharacteristics]:
    """Return what each of the stand-ins, and of a reader's own traces, looks like: of table I, figures 1 and 2."""
    return [
        applications.characterise_trace(trace) for trace in (*map(stand_ins.stand_in, stand_ins.STAND_IN_NAMES), *own)
    ]


def times(study: Study, kind: str, of: str) -> pd.DataFrame:
    """Return the times of the experiments whose names begin with ``kind``, in their order.

    ``of``: the column of the executions that holds them, ``longest_run_s`` or ``mean_run_s``. Columns: workload (as it
    is printed), drive, numjobs, time_s, spread (longest less shortest run, over their mean), and over_disk, which is
    missing where the disk was not measured.
    """
    parts = []
    for experiment in study.experiments:
        if not experiment.startswith(f"{kind}-"):
            continue
        rows = study.rows(experiment)
        asked = rows["numjobs"] if "numjobs" in rows else pd.Series(1, index=rows.index)
        part = rows[["drive"]].assign(
            workload=label(experiment),
            numjobs=asked.astype("Int64").fillna(1).astype(int),
            time_s=rows[of].astype(float),
            spread=rows["spread_of_runs"].astype(float),
        )
        disk = part[part["drive"] == DISK].set_index("numjobs")["time_s"]
        parts.append(part.assign(over_disk=part["time_s"] / part["numjobs"].map(disk)))
    found = pd.concat(parts, ignore_index=True)
    return found[["workload", "drive", "numjobs", "time_s", "spread", "over_disk"]]


@report_style()
def sequential_figure(found: pd.DataFrame) -> Figure:
    """Return figure 3: for each workload a bar for each drive, its time over that of the disk, which stands on top.

    Where the disk was not measured, the bars are seconds.
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
    axes.set_ylabel("Time over that of the disk" if height == "over_disk" else "Completion time (s)")
    figure.legend(loc="outside upper center", ncols=5)
    return figure


@report_style()
def parallel_figure(found: pd.DataFrame) -> Figure:
    """Return figure 4: a panel for each workload, the mean time of its runs over the number of processes."""
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
    """Draw a group of bars for each value of a column, one for each drive; with the ``spread`` of the runs on top."""
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


def latencies(measurements: Path) -> pd.DataFrame:
    """Return a row for each replay whose latencies were kept, with ``latency`` as `measuring.replays` made it."""
    table = replay_details(measurements, "latency")
    return table[table["latency"].notna()].reset_index(drop=True)


@report_style()
def latency_figure(replays: pd.DataFrame) -> Figure:
    """Return a panel for each drive: the largest latency in each two-hundred-and-fiftieth of the replay, over time."""
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


def told(found: pd.DataFrame) -> str:
    """Return the range of each drive's times over those of the disk, in words; ``found`` is that of `times`."""
    sentences = []
    for drive, rows in found[found["drive"] != DISK].dropna(subset=["over_disk"]).groupby("drive", sort=False):
        ordered = rows.sort_values("over_disk", kind="stable")
        ends = [f"{row['over_disk']:.2f} ({_named(row)})" for row in (ordered.iloc[0], ordered.iloc[-1])]
        behind = f", and is behind it in {int((rows['over_disk'] > 1).sum())} of {len(rows)}"
        sentences.append(f"{drive} takes {ends[0]} to {ends[1]} of the disk's time{behind}.")
    return " ".join(sentences)


def told_of_peaks(table: Table) -> str:
    """Return how latencies stand out, in words; ``table`` is `cleaning_table`."""
    sentences = []
    for _, row in table.data.iterrows():
        times = three_digits(row["peak_latency_ms_mean"] / row["median_latency_ms_mean"])
        share = three_digits(row["peaks_per_thousand_mean"])
        sentences.append(f"On {row['drive']} {share} of a thousand writes take {times} times as long as the median.")
    return " ".join(sentences)


def told_of_journals(table: Table) -> str:
    """Return what a journal costs, in words; ``table`` is `journal_table`."""
    rows = table.data
    same = int((abs(rows["writeback"] / rows["ordered"] - 1) < _SAME).sum())
    least, most = rows["ordered_over_none"].min(), rows["ordered_over_none"].max()
    return (
        f"With ordered data a process takes {least:.2f} to {most:.2f} times as long as without a journal."
        f" Writeback takes as long as ordered in {same} of {len(rows)} cases, since each process ends by writing all to"
        " the drive."
    )


def _named(row: pd.Series) -> str:
    return f"{row['workload']}, {row['numjobs']} at once" if row["numjobs"] > 1 else str(row["workload"])


def _over(drive: str) -> str:
    return f"{drive}_over_disk"


def _pivoted(found: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return a row for each combination of keys, and for each drive a column ``<drive>_<value>`` of each value."""
    data = found[list(keys)].drop_duplicates().reset_index(drop=True)
    for drive in dict.fromkeys(found["drive"]):
        here = found[found["drive"] == drive][[*keys, *values]]
        data = data.merge(
            here.rename(columns={value: f"{drive}_{value}" for value in values}), on=list(keys), how="left"
        )
    return data


def sequential_table(found: pd.DataFrame) -> Table:
    """Return the times of figure 3: a row for each workload, seconds, and over those of the disk."""
    data = _pivoted(found, ["workload"], ["time_s", "over_disk"])
    drives = list(dict.fromkeys(found["drive"]))
    columns = [
        Column(("workload",), "Workload", align_right=False),
        *(Column((f"{drive}_time_s",), drive, three_digits, "s", "Longest of ten processes") for drive in drives),
        *(Column((_over(drive),), drive, fixed_decimals(2), "", "Over the disk") for drive in drives if drive != DISK),
    ]
    return Table(data, tuple(columns), "workload")


def parallel_table(found: pd.DataFrame) -> Table:
    """Return the times of figure 4: a row for each workload and number of processes, with the spread of the runs."""
    data = _pivoted(found, ["workload", "numjobs"], ["time_s", "over_disk", "spread"])
    drives = list(dict.fromkeys(found["drive"]))
    columns = [
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("numjobs",), "At once"),
        *(Column((f"{drive}_time_s",), drive, three_digits, "s", "Mean of three runs") for drive in drives),
        *(Column((_over(drive),), drive, fixed_decimals(2), "", "Over the disk") for drive in drives if drive != DISK),
        *(Column((f"{drive}_spread",), drive, fixed_decimals(3), "", "Spread") for drive in drives),
    ]
    return Table(data, tuple(columns), "workload")


def journal_table(study: Study) -> Table:
    """Return what journalling adds: a row for each workload and drive, the times with each journal and with none."""
    kinds = {"sequential": "ordered", "writeback": "writeback", "no-journal": "none"}
    parts = [times(study, kind, "longest_run_s").assign(journal=name) for kind, name in kinds.items()]
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
    """Return the rates of table II beside those measured."""
    data = study.comparison("transfer", of=["bandwidth"]).assign(group="transfer")
    columns = [
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Requests", lambda rw: WORKLOAD_NAMES[rw], align_right=False),
        Column(("bandwidth_mb_per_s_mean",), "Here", three_digits, "MB/s"),
        Column(("published_bandwidth_mb_per_s",), "Table II", three_digits, "MB/s"),
        Column(("use",), "Class", align_right=False),
    ]
    return Table(data, tuple(columns), "group")


def bare_table(study: Study) -> Table:
    """Return the rates of the first process of each stand-in on the bare drives, and those over the disk's."""
    parts = [study.comparison(name, ["stand_in"], ["bandwidth"]) for name in ("bare", "bare-writes")]
    found = pd.concat(parts, ignore_index=True)
    return _rates_table(found.assign(workload=found["stand_in"] + " (stand-in)"), "bare")


def own_table(study: Study, own: Iterable[Trace]) -> Table:
    """Return the same of one process of each of a reader's own traces."""
    labels = {trace.name: trace.label for trace in own}
    found = study.comparison("own", ["trace"], ["bandwidth"])
    return _rates_table(found.assign(workload=found["trace"].map(labels)), "own")


def _rates_table(found: pd.DataFrame, group: str) -> Table:
    """Return rates on the bare drives, a row for each ``workload``; ``found`` has a row for each and each drive."""
    found = found.rename(columns={"bandwidth_mb_per_s_mean": "mb_per_s"})
    disk = found[found["drive"] == DISK].set_index("workload")["mb_per_s"]
    found["over_disk"] = found["mb_per_s"] / found["workload"].map(disk)
    data = _pivoted(found, ["workload"], ["mb_per_s", "over_disk"]).assign(group=group)
    drives = list(dict.fromkeys(found["drive"]))
    columns = [
        Column(("workload",), "Workload", align_right=False),
        *(Column((f"{drive}_mb_per_s",), drive, three_digits, "MB/s", "Bare drive") for drive in drives),
        *(Column((_over(drive),), drive, fixed_decimals(2), "", "Over the disk") for drive in drives if drive != DISK),
    ]
    return Table(data, tuple(columns), "group")


def cleaning_table(study: Study) -> Table:
    """Return what stands out of the latencies of random writes, a row for each drive."""
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
