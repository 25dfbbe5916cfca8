"""Figures and tables of Park and Shen (2009).

The paper is "A Performance Evaluation of Scientific I/O Workloads on Flash-Based SSDs". The figures and tables show
completion times relative to a hard disk, the spread of these times, and latencies over time.

The replayed workloads are synthetic stand-ins for the traces of the paper, and labelled as such. Traces that the reader
adds are shown under their own names.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis import applications
from iopatterns.analysis.plots import figure_with_panels, report_style
from iopatterns.analysis.replays import replay_details
from iopatterns.analysis.tables import WORKLOAD_NAMES, Column, Table, fixed_decimals, three_digits
from iopatterns.base.yaml_schema import read_yaml
from iopatterns.calls import Trace, stand_ins
from iopatterns.study import Study

DISK = "caviar-se"
# Kinds of experiments at the ends of the range of the stand-ins' assumptions
ASSUMPTIONS = {
    "sequential": "as assumed",
    "scattered": "no request sequential",
    "ordered": "most sequential, reads first",
    "uncached": "reads what another process wrote",
}
# Keys of a check in claims.yaml that `claims_over_assumptions` understands; the first four select what is divided
_SELECTIONS = ("ratio", "to", "over_ratio", "over_to")
_CHECK_KEYS = {*_SELECTIONS, "of", "experiment", "where", "at_least", "at_most"}
_NOT_MEASURED = "not measured"
_FILLS = ("0.15", "0.55", "0.85", "0.95", "1.0")
_HATCHES = ("", "", "", "//", "..")


def workload_label(experiment: str) -> str:
    """Return the printed name of an experiment's workload.

    An example is ``Sandia-cth (stand-in)`` for the experiment ``sequential-sandia-cth``. The first part of the
    experiment's name, such as ``sequential-`` or ``no-journal-``, is removed. If the rest is not the name of a stand-in
    (a synthetic trace that replaces a trace of the paper), the rest is returned unchanged.

    Args:
        experiment: The name of the experiment.
    """
    name = experiment.removeprefix("no-").partition("-")[2]
    return next((f"{known} (stand-in)" for known in stand_ins.STAND_IN_NAMES if known.lower() == name), name)


def workload_characteristics(own: Iterable[Trace] = ()) -> list[applications.TraceCharacteristics]:
    """Return the characteristics of all stand-ins, then of other traces.

    A stand-in is a synthetic trace that replaces a trace of the paper. The characteristics of a trace are counts and
    patterns of its requests, processes and files.

    Args:
        own: Traces that the reader added.

    Raises:
        CallsError: A trace cannot be read.
    """
    traces = (*map(stand_ins.stand_in, stand_ins.STAND_IN_NAMES), *own)
    return [applications.characterise_trace(trace) for trace in traces]


def completion_times(study: Study, kind: str, of: str) -> pd.DataFrame:
    """Return the completion times in the experiments of one kind.

    Args:
        study: The study.
        kind: Start of the names of the experiments: ``sequential`` (processes one after another), ``first`` (the
            process before them), ``parallel`` (several processes at once), ``barriers`` or ``no-journal`` (one after
            another, on another file system), or another key of `ASSUMPTIONS`.
        of: The column of the measurements with the times in seconds: ``longest_run_s``, ``mean_run_s`` or
            ``duration_s``.

    Returns:
        A row for each workload, drive and number of processes, in the order of the study. Columns:

        - workload: printed name of the workload
        - drive
        - numjobs: number of processes at once
        - time_s: the completion time
        - spread: longest minus shortest run, divided by the mean of the runs
        - over_disk: time_s divided by that of the hard disk; missing if the hard disk was not measured

    Raises:
        ValueError: The study has no experiment of this kind.
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
    """Return figure 3 of Park and Shen (2009): times relative to the hard disk.

    There is a group of bars per workload, with a bar per drive. The time of the hard disk in seconds is printed above
    each group. If the disk was not measured, the bars are in seconds.

    Args:
        found: The completion times of processes that run one after another: a row per workload and drive, with the
            columns of `completion_times`. The hard disk is the drive `DISK`.
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
    """Return figure 4 of Park and Shen (2009): times of several processes at once.

    There is a panel per workload. Its bars show the mean time of the runs in seconds, by number of processes and drive.
    The line on a bar is centred at the mean, and as long as the longest run takes longer than the shortest run.

    Args:
        found: Times of several processes at once, as `completion_times` returns them for ``parallel``.
    """
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
        height: The column with the heights of the bars.
        spread: Whether to draw a line as long as the spread of the runs on each bar.
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
    """Return the replays of the study whose latencies over time were recorded.

    A replay submits the requests of a recorded block trace to a simulated drive.

    Args:
        measurements: The Parquet file of the study's measurements.

    Returns:
        A row per replay, with the columns of the measurements and the column latency. Each value of latency is a
        dictionary. Its keys include:

        - largest_ns: the largest latency in each of 250 equal parts of the replay
        - part_ns: the length of a part
        - median_ns: the median latency
    """
    table = replay_details(measurements, "latency")
    return table[table["latency"].notna()].reset_index(drop=True)


@report_style()
def latency_figure(replays: pd.DataFrame) -> Figure:
    """Return a figure of the largest latency over time, with a panel per drive.

    A replay is divided into equal parts. The curve shows the largest latency (ms, logarithmic) in each part, and a
    dashed line the median latency of the replay.

    Args:
        replays: The replays, as `recorded_latencies` returns them.
    """
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
    """Return a paragraph with each drive's range of times relative to the hard disk.

    For each drive, a sentence gives the smallest and the largest ratio, and the number of cases in which the drive is
    slower than the disk. A case is a workload and a number of processes. Cases that were not measured on the disk are
    left out.

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
    """Return a paragraph about the frequency and height of each drive's latency peaks.

    The height of a peak is given as a multiple of the median latency.

    Args:
        table: The table that `cleaning_table` returns, which defines a peak.
    """
    sentences = []
    for _, row in table.data.iterrows():
        ratio = three_digits(row["peak_latency_ms_mean"] / row["median_latency_ms_mean"])
        share = three_digits(row["peaks_per_thousand_mean"])
        sentences.append(f"On {row['drive']}, {share} of a thousand writes take {ratio} times as long as the median.")
    return " ".join(sentences)


def journals_text(table: Table) -> str:
    """Return a paragraph about the cost of barriers and of a file system journal.

    Args:
        table: The table that `journal_table` returns.
    """
    rows = table.data
    barriers, journal = (
        f"{rows[name].min():.2f} to {rows[name].max():.2f}" for name in ("barriers_over_none", "journal_over_none")
    )
    return (
        f"With a journal and no barriers, the longest process takes {journal} times as long as without a journal."
        f" With barriers, it takes {barriers} times as long as without barriers."
    )


def _row_label(row: pd.Series) -> str:
    return f"{row['workload']}, {row['numjobs']} at once" if row["numjobs"] > 1 else str(row["workload"])


def _pivoted(found: pd.DataFrame, keys: Sequence[str], values: Sequence[str]) -> pd.DataFrame:
    """Return a row per combination of keys, with columns for each drive.

    Args:
        found: A row for each drive and combination of keys.
        keys: The columns that become the rows.
        values: The columns that become columns ``<drive>_<value>``.
    """
    data = found[list(keys)].drop_duplicates().reset_index(drop=True)
    for drive in found["drive"].unique():
        here = found[found["drive"] == drive][[*keys, *values]]
        names = {value: f"{drive}_{value}" for value in values}
        data = data.merge(here.rename(columns=names), on=list(keys), how="left")
    return data


def _drive_columns(found: pd.DataFrame, value: str, unit: str, spanner: str) -> list[Column]:
    """Return the printed columns of each drive's value and its ratio to the disk.

    Args:
        found: A table with the column drive.
        value: The value, whose columns in the data are ``<drive>_<value>``, see `_pivoted`. The ratio is
            ``<drive>_over_disk``.
        unit: The printed unit of the value.
        spanner: The header above the columns of the value.
    """
    drives = list(found["drive"].unique())
    return [
        *(Column((f"{drive}_{value}",), drive, three_digits, unit, spanner) for drive in drives),
        *(
            Column((f"{drive}_over_disk",), drive, fixed_decimals(2), "", "Relative to the disk")
            for drive in drives
            if drive != DISK
        ),
    ]


def sequential_table(found: pd.DataFrame, first: pd.DataFrame) -> Table:
    """Return the table of completion times of processes one after another.

    These are the data of figure 3 of Park and Shen (2009). There are two rows per workload: the longest of the ten
    processes, and the process that runs before them. For each drive there is a column with the
    time in seconds, and one with the time relative to the hard disk.

    Args:
        found: Times of the ten processes, as `completion_times` returns them for ``sequential``.
        first: Times of the process before them, as `completion_times` returns them for ``first``.
    """
    both = pd.concat([found.assign(process="Longest of ten"), first.assign(process="First, left out")])
    data = _pivoted(both, ["workload", "process"], ["time_s", "over_disk"])
    order = data["workload"].map({name: place for place, name in enumerate(found["workload"].unique())})
    data = data.loc[order.sort_values(kind="stable").index].reset_index(drop=True)
    columns = (
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("process",), "Process", align_right=False),
        *_drive_columns(found, "time_s", "s", "Time"),
    )
    return Table(data, columns, "workload")


def assumptions_table(study: Study) -> Table:
    """Return the table of completion times at the ends of the range of the assumptions.

    Each assumption of a stand-in (synthetic trace) that decides claims has a range of plausible values. There is a row
    for each workload and end of the range. The columns are those of `sequential_table`.

    Raises:
        ValueError: The study lacks the experiments of a key of `ASSUMPTIONS`.
    """
    found = _over_assumptions(study)
    data = _pivoted(found, ["workload", "assumption"], ["time_s", "over_disk"])
    order = data["workload"].map({name: place for place, name in enumerate(found["workload"].unique())})
    data = data.loc[order.sort_values(kind="stable").index].reset_index(drop=True)
    columns = (
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("assumption",), "Requests", align_right=False),
        *_drive_columns(found, "time_s", "s", "Longest process"),
    )
    return Table(data, columns, "workload")


def _over_assumptions(study: Study) -> pd.DataFrame:
    """Return the times of all workloads that were recorded at several ends of a range.

    Args:
        study: The study.

    Returns:
        The columns of `completion_times`, and assumption: a value of `ASSUMPTIONS`.
    """
    found = pd.concat(
        [completion_times(study, kind, "longest_run_s").assign(assumption=name) for kind, name in ASSUMPTIONS.items()]
    )
    varied = found.loc[found["assumption"] != ASSUMPTIONS["sequential"], "workload"]
    return found[found["workload"].isin(set(varied))].reset_index(drop=True)


def source_claims(file: Path) -> list[dict[str, Any]]:
    """Return the claims of a source, each as a dictionary.

    Args:
        file: The file, data/published/<study>/claims.yaml.

    Raises:
        ConfigError: The file cannot be read, or is not valid YAML.
    """
    claims: list[dict[str, Any]] = read_yaml(file.parent, file.name)["claims"]
    return claims


def claims_over_assumptions(study: Study, claims: Iterable[Mapping[str, Any]]) -> Table:
    """Return the table of claims at the ends of the range of the assumptions.

    Each assumption of a stand-in (synthetic trace) that decides claims has a range of plausible values. There is a row
    for each check and drive. The columns are the claim, what is checked, the drive, the smallest and the largest value
    over the range, the bound, and whether the check holds everywhere, nowhere or in a part of the range, or was not
    measured because a drive is missing. All workloads of a check that have the same assumption are changed together.

    Args:
        study: The study.
        claims: The claims of the source, as `source_claims` returns them. Only checks of the longest of the processes
            one after another count.

    Raises:
        ValueError: The study lacks the experiments of a key of `ASSUMPTIONS`.
    """
    base = _times(completion_times(study, "sequential", "longest_run_s"))
    by_end = _over_assumptions(study).groupby("assumption", sort=False)
    ends = [({*rows["workload"]}, {**base, **_times(rows)}) for _, rows in by_end]
    rows = []
    for claim in claims:
        for part in claim.get("checks", [claim]):
            check = part.get("check", {})
            if not _is_of_longest_process(check):
                continue
            workloads = {workload_label(name) for name in _experiments(check)}
            drives = check.get("where", check["ratio"]).get("drive")
            for drive in drives if isinstance(drives, list) else [drives]:
                values = [_checked(check, drive, times) for changed, times in ends if workloads & changed]
                if not values:
                    continue
                low, high = check.get("at_least", -np.inf), check.get("at_most", np.inf)
                held = [low <= value <= high for value in values]
                holds = "everywhere" if all(held) else "in a part" if any(held) else "nowhere"
                rows.append(
                    {
                        "claim": claim["id"],
                        "check": part["says"],
                        "drive": drive,
                        "lowest": np.min(values),
                        "highest": np.max(values),
                        "bound": f"at least {low}" if "at_least" in check else f"at most {high}",
                        "holds": _NOT_MEASURED if np.isnan(values).any() else holds,
                    }
                )
    columns = (
        Column(("claim",), "Claim", align_right=False, hide_repeats=True),
        Column(("check",), "Check", align_right=False),
        Column(("drive",), "Drive", align_right=False),
        Column(("lowest",), "Lowest", fixed_decimals(2), "", "Over the range"),
        Column(("highest",), "Highest", fixed_decimals(2), "", "Over the range"),
        Column(("bound",), "Bound", align_right=False),
        Column(("holds",), "Holds", align_right=False),
    )
    return Table(pd.DataFrame(rows), columns, "claim")


def _times(found: pd.DataFrame) -> dict[tuple[str, str], float]:
    """Return the time in seconds by workload and drive, of a table of `completion_times`."""
    return dict(zip(zip(found["workload"], found["drive"], strict=True), found["time_s"], strict=True))


def _is_of_longest_process(check: Mapping[str, Any]) -> bool:
    """Return whether a check of claims.yaml compares the longest of processes one after another."""
    return (
        check.get("of") == "longest run"
        and _CHECK_KEYS.issuperset(check)
        and all(name.startswith("sequential-") for name in _experiments(check))
    )


def _experiments(check: Mapping[str, Any]) -> list[str]:
    """Return the names of the experiments that a check of claims.yaml compares, in the order of `_SELECTIONS`."""
    return [check[key].get("experiment", check["experiment"]) for key in _SELECTIONS if key in check]


def _checked(check: Mapping[str, Any], drive: str, times: Mapping[tuple[str, str], float]) -> float:
    """Return the ratio, or ratio of ratios, that a check of claims.yaml compares with its bound.

    Args:
        check: The check.
        drive: The drive of all selections that name no drive.
        times: The time in seconds by workload and drive. The result is NaN if a time is missing.
    """
    drives = [check[key].get("drive", drive) for key in _SELECTIONS if key in check]
    of = [
        times.get((workload_label(name), each), np.nan) for name, each in zip(_experiments(check), drives, strict=True)
    ]
    return of[0] / of[1] if len(of) == 2 else (of[0] / of[1]) / (of[2] / of[3])


def parallel_table(found: pd.DataFrame) -> Table:
    """Return the table of completion times of several processes at once.

    These are the data of figure 4 of Park and Shen (2009). There is a row for each workload and number of processes.
    For each drive there are columns with the time in seconds, the time relative to the hard disk, and the spread of the
    runs (longest minus shortest run, divided by the mean).

    Args:
        found: Times of several processes at once, as `completion_times` returns them for ``parallel``.
    """
    data = _pivoted(found, ["workload", "numjobs"], ["time_s", "over_disk", "spread"])
    columns = [
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("numjobs",), "At once"),
        *_drive_columns(found, "time_s", "s", "Mean of three runs"),
        *(Column((f"{drive}_spread",), drive, fixed_decimals(3), "", "Spread") for drive in found["drive"].unique()),
    ]
    return Table(data, tuple(columns), "workload")


def journal_table(study: Study) -> Table:
    """Return the table of completion times with and without barriers and a journal.

    There is a row for each workload and drive that was measured in all three ways. The columns of times (s) are ext3
    without barriers as in the source, ext3 with barriers, and ext2, which has no journal. The last two columns are the
    second of these times divided by the first, and the first divided by the third.

    Raises:
        ValueError: The study lacks the experiments for one of the three columns.
    """
    kinds = {"sequential": "ext3", "barriers": "ext3 with barriers", "no-journal": "ext2"}
    parts = [completion_times(study, kind, "longest_run_s").assign(kind=kind) for kind in kinds]
    found = pd.concat(parts).pivot_table(index=["workload", "drive"], columns="kind", values="time_s", sort=False)
    data = found.dropna().reset_index()
    data["barriers_over_none"] = data["barriers"] / data["sequential"]
    data["journal_over_none"] = data["sequential"] / data["no-journal"]
    columns = [
        Column(("workload",), "Workload", align_right=False, hide_repeats=True),
        Column(("drive",), "Drive", align_right=False),
        *(Column((kind,), name, three_digits, "s", "Longest of ten processes") for kind, name in kinds.items()),
        Column(("barriers_over_none",), "Barriers over none", fixed_decimals(2)),
        Column(("journal_over_none",), "Journal over none", fixed_decimals(2)),
    ]
    return Table(data, tuple(columns), "workload")


def transfer_table(study: Study) -> Table:
    """Return the table of measured and published transfer rates, in MB/s.

    The published rates are in table II of Park and Shen (2009). There is a row for each drive and workload. The last
    column has the evidence class of the published value: ``fitted`` (the drive's model was fitted to the value),
    ``built into the model``, or ``independent``.
    """
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
    """Return the table of rates of stand-ins on bare drives, with a row per stand-in.

    A stand-in is a synthetic trace. A bare drive has no file system. The requests of the first process of each stand-in
    are submitted one after another. The columns are the rate of each drive in MB/s, and its ratio to the rate of the
    hard disk.
    """
    parts = [study.comparison(name, ["stand_in"], ["bandwidth"]) for name in ("bare", "bare-writes")]
    found = pd.concat(parts, ignore_index=True)
    return _rates_table(found.assign(workload=found["stand_in"] + " (stand-in)"), "bare")


def own_table(study: Study, own: Iterable[Trace]) -> Table:
    """Return the table of rates of the reader's own traces on bare drives.

    A bare drive has no file system. The requests of one process of each trace are submitted one after another. There is
    a row per trace. The columns are the rate of each drive in MB/s, its ratio to the rate of the hard disk, and how
    much of its recording the trace represents.

    Args:
        study: The study, with the experiment ``own``.
        own: Traces that the reader added, which have been read.
    """
    labels = {trace.name: trace.label for trace in own}
    coverages = {trace.label: trace.coverage.short_text() for trace in own}
    found = study.comparison("own", ["trace"], ["bandwidth"])
    table = _rates_table(found.assign(workload=found["trace"].map(labels)), "own")
    data = table.data.assign(coverage=table.data["workload"].map(coverages))
    return Table(data, (*table.columns, Column(("coverage",), "Of the recording", align_right=False)), "group")


def _rates_table(found: pd.DataFrame, group: str) -> Table:
    """Return the table of rates on drives without a file system, a row per workload.

    Args:
        found: Bandwidths, as `Study.comparison` returns them, with the additional column workload (printed name).
        group: Name of the table's only group of rows.
    """
    found = found.rename(columns={"bandwidth_mb_per_s_mean": "mb_per_s"})
    disk = found[found["drive"] == DISK].set_index("workload")["mb_per_s"]
    found["over_disk"] = found["mb_per_s"] / found["workload"].map(disk)
    data = _pivoted(found, ["workload"], ["mb_per_s", "over_disk"]).assign(group=group)
    columns = _drive_columns(found, "mb_per_s", "MB/s", "Bare drive")
    return Table(data, (Column(("workload",), "Workload", align_right=False), *columns), "group")


def cleaning_table(study: Study) -> Table:
    """Return the table of the latencies of random writes and their peaks.

    A peak is one request, or several in succession, with at least five times the median latency. Cleaning (garbage
    collection) and merges in the drive cause peaks.

    There is a row per drive. The columns are:

    - the median latency (ms)
    - the mean over all peaks of the largest latency in the peak (ms)
    - the largest latency (ms)
    - the number of peaks per thousand requests
    - how irregular the distances between peaks are: their standard deviation divided by their mean, which is 0 for
      periodic peaks and about 1 for random peaks
    """
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
