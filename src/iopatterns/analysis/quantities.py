"""The quantities that repetitions have, such as bandwidth or mean latency.

A repetition is one run of fio for a cell (one configuration: a drive, its settings and a workload). Tables, figures,
claims and published values refer to a quantity by its name.
"""

import math
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import pandas as pd

from iopatterns import _twin
from iopatterns.analysis import replays
from iopatterns.base.errors import IoPatternsError

# Prefix of the columns that hold counters of a simulated drive
COUNTER_PREFIX = "counter_"


class QuantityError(IoPatternsError):
    """The error raised for a name of a quantity that does not exist.

    A quantity is a measured number such as the bandwidth. Claims, published values and notebooks refer to it by name.
    """


# The unit of counters of a simulated drive
_COUNTED = "per request"
# For the unit of a quantity, the units in which a source may print the quantity, each with its conversion factor
_UNITS = {
    "MB/s": {"MB/s": 1.0, "MiB/s": 2**20 / 1e6, "KiB/s": 2**10 / 1e6},
    "IOPS": {"IOPS": 1.0},
    "ms": {"ms": 1.0, "us": 1e-3, "µs": 1e-3, "s": 1e3},
    "requests": {"requests": 1.0},
    "%": {"%": 1.0},
    _COUNTED: {_COUNTED: 1.0},
    "s": {"s": 1.0, "ms": 1e-3},
    "KiB": {"KB": 1.0, "MB": 1024.0, "B": 1 / 1024},
    "MiB": {"MiB": 1.0, "KiB": 1 / 1024, "GiB": 1024.0},
    "times": {"times": 1.0},
    "": {"": 1.0},
}


@dataclass(frozen=True)
class Quantity:
    """A quantity that each repetition (run of fio) has, such as the bandwidth.

    Attributes:
        column: The column of the quantity in the table of repetitions that `read_executions` returns, such as
            ``bandwidth_mb_per_s``.
        label: The name for axes and headers, without the unit, such as ``Bandwidth``.
        unit: The unit of the values in `column`, such as ``MB/s``; empty for a number without unit.
        is_share: Whether the value is a part of a whole, so that it is at most 1 or 100 %.
    """

    column: str
    label: str
    unit: str
    is_share: bool = False

    @property
    def largest(self) -> float:
        """The largest value that the quantity can have; infinity if there is no limit. The smallest value is 0."""
        return (100.0 if self.unit == "%" else 1.0) if self.is_share else math.inf

    def from_unit(self, unit: str) -> float | None:
        """Return the factor that converts values in a unit to the unit of the quantity.

        For example, the factor for ``us`` is 0.001 if the quantity is in ms. The result is None if values of the
        quantity cannot be given in the unit.

        Args:
            unit: The unit to convert from, such as ``MiB/s``.
        """
        return _UNITS[self.unit].get(unit)

    @property
    def axis_label(self) -> str:
        """The label with the unit in parentheses, such as ``Bandwidth (MB/s)``.

        The label of a quantity without unit has no parentheses.
        """
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def units(self) -> list[str]:
        """The units that published values of the quantity may have, such as ``MiB/s``."""
        return list(_UNITS[self.unit])

    @property
    def is_counted(self) -> bool:
        """Whether the quantity is a counter of a simulated drive, divided by the requests.

        An example is ``block erases per request``. Real drives have no such quantities.
        """
        return self.unit == _COUNTED


# Keys are the names in published values (column quantity) and claims (key of)
QUANTITIES = {
    "bandwidth": Quantity("bandwidth_mb_per_s", "Bandwidth", "MB/s"),
    "iops": Quantity("iops", "Rate", "IOPS"),
    "read iops": Quantity("read_iops", "Rate of reads", "IOPS"),
    "write iops": Quantity("write_iops", "Rate of writes", "IOPS"),
    "latency": Quantity("latency_ms", "Mean latency", "ms"),
    "read latency": Quantity("read_latency_ms", "Mean latency of reads", "ms"),
    "write latency": Quantity("write_latency_ms", "Mean latency of writes", "ms"),
    # by Little's law: the rate times the mean latency
    "outstanding requests": Quantity("outstanding", "Outstanding requests", "requests"),
}
# Quantities of replays of traces, see `replays.replay_results`
_REPLAY_QUANTITIES = {
    "workload duration": Quantity("duration_s", "Duration", "s"),
    "maximum request size": Quantity("largest_write_kib", "Largest write request", "KiB"),
    "median write": Quantity("median_write_kib", "Median write request", "KiB"),
    "written": Quantity("written_mib", "Written to the drive", "MiB"),
    "flushes": Quantity("flushes", "Flushes", "times"),
    "write amplification": Quantity("write_amplification", "Write amplification of the drive", ""),
    "queue depth": Quantity("depth_mean", "Mean queue depth", "requests"),
    "queue depth first quartile": Quantity("depth_first_quartile", "First quartile of the queue depth", "requests"),
    "queue depth median": Quantity("depth_median", "Median queue depth", "requests"),
    "queue depth third quartile": Quantity("depth_third_quartile", "Third quartile of the queue depth", "requests"),
    "largest queue depth": Quantity("depth_largest", "Largest queue depth", "requests"),
    "times drained": Quantity("drained", "Times that the queue was emptied", "times"),
    "miss ratio": Quantity("miss_ratio", "Miss ratio", "", is_share=True),
    "occupied space": Quantity("occupied", "Blocks with valid data, of the drive", ""),
    "valid space": Quantity("area", "Valid data, of the drive", ""),
    "valid ratio": Quantity("mean_valid_ratio", "Mean valid ratio", "", is_share=True),
    "share of zombies": Quantity("zombies", "Share of partly valid blocks", "", is_share=True),
    # the same before the first discard of the phase
    "occupied space before discards": Quantity("occupied_before_discards", "Blocks with valid data, of the drive", ""),
    "valid space before discards": Quantity("area_before_discards", "Valid data, of the drive", ""),
    "valid ratio before discards": Quantity("mean_valid_ratio_before_discards", "Mean valid ratio", "", is_share=True),
    "share of zombies before discards": Quantity(
        "zombies_before_discards", "Share of partly valid blocks", "", is_share=True
    ),
    "time of the first discard": Quantity("first_discard_s", "First discard", "s"),
    "longest run": Quantity("longest_run_s", "Longest run", "s"),
    "mean run": Quantity("mean_run_s", "Mean of the runs", "s"),
    "spread of runs": Quantity("spread_of_runs", "Longest less shortest run, over the mean", ""),
    "median latency": Quantity("median_latency_ms", "Median latency", "ms"),
    "largest latency": Quantity("largest_latency_ms", "Largest latency", "ms"),
    "latency of peaks": Quantity("peak_latency_ms", "Mean latency of the peaks", "ms"),
    "peaks per thousand": Quantity("peaks_per_thousand", "Peaks in a thousand requests", ""),
    "irregularity of peaks": Quantity("irregularity_of_peaks", "Deviation of the distances between peaks", ""),
}
# Statistics of fio's submission latency (slat), completion latency (clat) and total latency (lat)
_FIO_LATENCY = re.compile(r"(slat|clat|lat) (min|max|mean|stddev|p[0-9.]+)")
# Statistics over the intervals, half a second by default, into which fio divides a run
_FIO_INTERVALS = re.compile(r"(bandwidth|iops) in intervals (min|max|mean|stddev|share)")
# fio's distributions of latency, depth and batch size
_FIO_SHARES = re.compile(
    r"share (?:with a latency up to (?P<latency>\d+) (?P<time>ns|us|ms)"
    r"|at depth (?P<depth>\d+)(?P<open> and more)?"
    r"|of (?P<call>submissions|completions) of (?:up to (?P<batch>\d+)|more than 64))"
)
_FIO_COLUMNS = re.compile(r"iops_(min|max|mean|stddev)|(iodepth|latency|bandwidth)_.*_percent")
# A counter of a simulated drive: `Counters` in src/twin/core/counters.h, with blanks for underscores
_TWIN_COUNTER = re.compile(rf"(.+) {_COUNTED}")


def drive_kinds(executions: pd.DataFrame) -> dict[str, str]:
    """Return the kind of each measured drive, by the drive's name.

    Args:
        executions: A row per repetition (run of fio), with the columns drive and drive_kind. Kinds are ``twin`` (a
            simulated drive), ``file``, ``block`` and others.
    """
    return dict(zip(executions["drive"], executions["drive_kind"], strict=True))


def find_quantity(name: str) -> Quantity | None:
    """Return the quantity with a name, or None if there is none.

    A quantity is a measured number such as the bandwidth. Valid names are:

    - the fixed names, which are the keys of `QUANTITIES`, such as ``bandwidth``, and the names of results of replayed
      block traces, such as ``queue depth``
    - names of fio's statistics: ``clat mean``, ``clat p99.9``, ``iops in intervals stddev``, ``share with a latency up
      to 250 us``, ``share at depth 64 and more``, ``share of submissions of up to 4``, ``share of completions of more
      than 64``
    - a counter of simulated drives, divided by the requests that reached the drive: ``block erases per request``

    A statistic of fio is not checked further: a repetition need not have a value for it.
    """
    if match := _FIO_LATENCY.fullmatch(name):
        return Quantity("_".join(match.groups()).replace(".", "_") + "_ms", name, "ms")
    if match := _FIO_INTERVALS.fullmatch(name):
        base, statistic = match.groups()
        if statistic == "share":
            return Quantity("bandwidth_share_percent", name, "%", is_share=True) if base == "bandwidth" else None
        suffix = "_mb_per_s" if base == "bandwidth" else ""
        return Quantity(f"{base}_{statistic}{suffix}", name, QUANTITIES[base].unit)
    if match := _FIO_SHARES.fullmatch(name):
        return Quantity(_share_column(match), name, "%", is_share=True)
    if match := _TWIN_COUNTER.fullmatch(name):
        counter = match[1].replace(" ", "_")
        if counter in _twin.counter_names():
            return Quantity(f"{counter}_per_request", name, _COUNTED)
    return QUANTITIES.get(name) or _REPLAY_QUANTITIES.get(name)


def _share_column(match: re.Match[str]) -> str:
    """Return the column with the share that a match of `_FIO_SHARES` names.

    An example is ``latency_250_us_percent`` for ``share with a latency up to 250 us``.
    """
    if match["latency"]:
        return f"latency_{match['latency']}_{match['time']}_percent"
    if match["call"]:
        call = {"submissions": "submit", "completions": "complete"}[match["call"]]
        return f"iodepth_{call}_{match['batch'] or 'ge64'}_percent"
    return f"iodepth_level_{'ge' if match['open'] else ''}{match['depth']}_percent"


def get_quantity(name: str) -> Quantity:
    """Return the quantity with a name, such as ``bandwidth`` or ``clat p99.9``.

    A quantity is a measured number, with its label, unit and column in tables. `find_quantity` lists the valid names.

    Raises:
        QuantityError: There is no such quantity. The message suggests a similar name or lists valid names.
    """
    quantity = find_quantity(name)
    if quantity is None:
        near = get_close_matches(name, [*QUANTITIES, *_REPLAY_QUANTITIES], n=1)
        valid = (
            f"valid are {', '.join(QUANTITIES)}, 'clat p99.9' and its like, and 'block erases per request' for twins"
        )
        hint = f"did you mean '{near[0]}'?" if near else valid
        raise QuantityError(f"there is no quantity '{name}'; {hint}")
    return quantity


def available_quantities(rows: pd.DataFrame) -> list[str]:
    """Return the names of the quantities that some repetition has a value for.

    Only fixed names such as ``latency`` are returned, in a fixed order. Statistics of fio such as ``clat p99.9`` and
    counters of simulated drives are not included.

    Args:
        rows: A row per repetition (run of fio), as `read_executions` returns it.
    """
    named = {**QUANTITIES, **_REPLAY_QUANTITIES}
    return [name for name, each in named.items() if each.column in rows and rows[each.column].notna().any()]


def read_executions(path: Path) -> pd.DataFrame:
    """Return a study's measurements as one row per repetition.

    A repetition is one run of fio for a cell. A cell is one configuration: a drive, its settings and a workload. The
    file has one row for each job and direction (read or write). The rows of a repetition are combined here: rates are
    added, and latencies are averaged over requests.

    Args:
        path: A Parquet file with the table that `collect.measurement_table` returns.

    Returns:
        A table with these columns:

        - what identifies the repetition: study, drive, cell, execution (the number of the repetition) and experiments
        - the fio options and settings of the cell, such as rw, bs_bytes, iodepth and set_scheduler
        - bandwidth_bytes_per_s, bandwidth_mb_per_s, iops, read_iops and write_iops
        - latency_ms, read_latency_ms and write_latency_ms: means over all requests of fio's ``lat``, the time from
          submission to completion
        - outstanding: the mean number of outstanding requests, by Little's law: iops times the mean latency in seconds
        - iodepth_reached: the largest I/O depth that fio reached
        - fio's latency statistics in ms, such as clat_p99_9_ms, and its statistics of intervals and shares, which
          `find_quantity` lists. They are missing if a repetition has several rows, because they cannot be combined.
        - for replayed block traces, the results of `replays.replay_results`
        - for simulated drives, <counter>_per_request: each counter divided by the requests that reached the drive

        Values that fio did not measure are missing.
    """
    rows = pd.read_parquet(path)
    keys = ["drive", "cell", "execution"]
    reading = rows["direction"] == "read"
    requests, time_ms = rows["total_ios"], rows["total_ios"] * rows["lat_mean_ns"] / 1e6
    parts = rows[keys].assign(
        bandwidth_bytes_per_s=rows["bandwidth_bytes_per_s"],
        iops=rows["iops"],
        read_iops=rows["iops"].where(reading, 0.0),
        write_iops=rows["iops"].where(~reading, 0.0),
        requests=requests,
        reads=requests.where(reading),
        writes=requests.where(~reading),
        time_ms=time_ms,
        read_time_ms=time_ms.where(reading),
        write_time_ms=time_ms.where(~reading),
    )
    groups = rows.groupby(keys, sort=False)
    sums = parts.groupby(keys, sort=False).sum(min_count=1)  # values that fio did not measure stay missing
    first = groups.first()
    results = pd.DataFrame(
        {
            "bandwidth_bytes_per_s": sums["bandwidth_bytes_per_s"],
            "bandwidth_mb_per_s": sums["bandwidth_bytes_per_s"] / 1e6,
            **{name: sums[name].astype("float64") for name in ("iops", "read_iops", "write_iops")},
            "latency_ms": _mean(sums["time_ms"], sums["requests"]),
            "read_latency_ms": _mean(sums["read_time_ms"], sums["reads"]),
            "write_latency_ms": _mean(sums["write_time_ms"], sums["writes"]),
            "iodepth_reached": groups["iodepth_reached"].max(),
        }
    )
    results["outstanding"] = results["iops"] * results["latency_ms"] / 1e3
    columns = {
        f"{name.removesuffix('_ns')}_ms": first[name].astype("float64") / 1e6
        for name in rows.columns
        if re.fullmatch(r"(slat|clat|lat)_.*_ns", name)
    }
    columns |= {name: first[name].astype("float64") for name in rows.columns if _FIO_COLUMNS.fullmatch(name)}
    columns |= {
        f"bandwidth_{name}_mb_per_s": first[column].astype("float64") / 1e6
        for name in ("min", "max", "mean", "stddev")
        if (column := f"bandwidth_{name}_bytes_per_s") in first
    }
    fio_statistics = pd.DataFrame(columns, index=first.index).where(groups.size() == 1)
    options = first[list(first.columns[: first.columns.get_loc("document")])]
    replayed = first[
        [name for name in rows.columns if name.startswith(replays.REPLAY_PREFIX) and name != replays.DETAILS_COLUMN]
    ]
    replayed.columns = replayed.columns.str.removeprefix(replays.REPLAY_PREFIX)
    return pd.concat([options, results, fio_statistics, replayed, _counters_per_request(first)], axis=1).reset_index()


def _counters_per_request(first: pd.DataFrame) -> pd.DataFrame:
    """Return the counters of simulated drives per request that reached the drive.

    Counters and requests are both of the complete repetition, including the time before fio begins to measure.

    Args:
        first: A row per repetition, with a column counter_<name> for each counter.

    Returns:
        The same rows with a column <name>_per_request for each counter; missing for drives without counters.
    """
    counters = first[[name for name in first.columns if name.startswith(COUNTER_PREFIX)]].astype("float64")
    counters.columns = counters.columns.str.removeprefix(COUNTER_PREFIX)
    if counters.empty:
        return counters
    requests = counters["read_commands"] + counters["write_commands"]
    return counters.div(requests.where(requests > 0), axis=0).add_suffix("_per_request")


def _mean(total: pd.Series, count: pd.Series) -> pd.Series:
    return (total / count.where(count > 0)).astype("float64")


def experiment_names(executions: pd.DataFrame) -> list[str]:
    """Return the names of all experiments in a table of repetitions, each once.

    The names are in the order in which they first appear.

    Args:
        executions: A row per repetition (run of fio). Its column experiments has the names of the experiments that use
            the repetition, separated by blanks.
    """
    return list(dict.fromkeys(name for names in executions["experiments"].unique() for name in names.split()))


def select_experiments(executions: pd.DataFrame, *experiments: str) -> pd.DataFrame:
    """Return the repetitions that at least one of the named experiments uses.

    Args:
        executions: A row per repetition (run of fio). Its column experiments has the names of the experiments that use
            the repetition, separated by blanks.
        experiments: Names of experiments. A name that does not occur selects nothing.

    Returns:
        The selected rows with all columns, in their order.
    """
    wanted = {names for names in executions["experiments"].unique() if not set(experiments).isdisjoint(names.split())}
    return executions[executions["experiments"].isin(wanted)]
