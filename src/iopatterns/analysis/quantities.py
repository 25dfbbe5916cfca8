"""What was measured of each execution: the quantities that tables, figures, claims and published values are about."""

import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import pandas as pd

from iopatterns import _twin
from iopatterns.analysis import replays
from iopatterns.base.errors import IoPatternsError

# With this begins the name of a column that holds a counter of a twin
COUNTER_PREFIX = "counter_"


class QuantityError(IoPatternsError):
    """No quantity has the name that a claim, a published value or a notebook gives."""


# The unit of what a twin has counted
_COUNTED = "per request"
# How many of a quantity's own unit one of a unit is that a source may print
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
    """A quantity: the column of the executions that holds it, its name on an axis, and its unit."""

    column: str
    label: str
    unit: str

    def from_unit(self, unit: str) -> float | None:
        """Return how many of this quantity's unit one of ``unit`` is; None where they measure different things."""
        return _UNITS[self.unit].get(unit)

    @property
    def axis_label(self) -> str:
        """The name with the unit, if it has one."""
        return f"{self.label} ({self.unit})" if self.unit else self.label

    @property
    def units(self) -> list[str]:
        """The units in which a source may print it."""
        return list(_UNITS[self.unit])

    @property
    def is_counted(self) -> bool:
        """Whether it is what a twin has counted, which a real drive does not tell."""
        return self.unit == _COUNTED


# By the name that published values (column quantity) and claims (key of) have for them
QUANTITIES = {
    "bandwidth": Quantity("bandwidth_mb_per_s", "Bandwidth", "MB/s"),
    "iops": Quantity("iops", "Rate", "IOPS"),
    "read iops": Quantity("read_iops", "Rate of reads", "IOPS"),
    "write iops": Quantity("write_iops", "Rate of writes", "IOPS"),
    "latency": Quantity("latency_ms", "Mean latency", "ms"),
    "read latency": Quantity("read_latency_ms", "Mean latency of reads", "ms"),
    "write latency": Quantity("write_latency_ms", "Mean latency of writes", "ms"),
    # by Little's law: the rate times the time that a request takes
    "outstanding requests": Quantity("outstanding", "Outstanding requests", "requests"),
}
# Of replays of traces, see `replays.replay_results`
_OF_REPLAYS = {
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
    "miss ratio": Quantity("miss_ratio", "Miss ratio", ""),
    "occupied space": Quantity("occupied", "Blocks with valid data, of the drive", ""),
    "valid space": Quantity("area", "Valid data, of the drive", ""),
    "valid ratio": Quantity("mean_valid_ratio", "Mean valid ratio", ""),
    "share of zombies": Quantity("zombies", "Share of partly valid blocks", ""),
    "longest run": Quantity("longest_run_s", "Longest run", "s"),
    "mean run": Quantity("mean_run_s", "Mean of the runs", "s"),
    "spread of runs": Quantity("spread_of_runs", "Longest less shortest run, over the mean", ""),
    "median latency": Quantity("median_latency_ms", "Median latency", "ms"),
    "largest latency": Quantity("largest_latency_ms", "Largest latency", "ms"),
    "latency of peaks": Quantity("peak_latency_ms", "Mean latency of the peaks", "ms"),
    "peaks per thousand": Quantity("peaks_per_thousand", "Peaks in a thousand requests", ""),
    "irregularity of peaks": Quantity("irregularity_of_peaks", "Deviation of the distances between peaks", ""),
}
# What fio tells of the time that submitting takes (slat), of the time from then on (clat), and of both together (lat)
_OF_FIO = re.compile(r"(slat|clat|lat) (min|max|mean|stddev|p[0-9.]+)")
# What fio tells of the half seconds, by default, into which it divides an execution
_OF_INTERVALS = re.compile(r"(bandwidth|iops) in intervals (min|max|mean|stddev|share)")
# The shares of requests and of calls that fio counts in classes
_OF_SHARES = re.compile(
    r"share (?:with a (?P<latency>latency) up to (?P<most>\d+) (?P<time>ns|us|ms)"
    r"|at depth (?P<depth>\d+)(?P<from> and more)?"
    r"|of (?P<call>submissions|completions) of (?:up to (?P<batch>\d+)|more than 64))"
)
_FIOS_OWN = re.compile(r"iops_(min|max|mean|stddev)|(iodepth|latency|bandwidth)_.*_percent")
# What a twin has counted: `Counters` in src/twin/core/counters.h, without underscores
_OF_TWINS = re.compile(rf"(.+) {_COUNTED}")


def drive_kinds(executions: pd.DataFrame) -> dict[str, str]:
    """Return the kind of each measured drive (twin, file …), by name."""
    return dict(zip(executions["drive"], executions["drive_kind"], strict=True))


def find_quantity(name: str) -> Quantity | None:
    """Return the quantity of that name, or None: one of `QUANTITIES`, one that fio tells, or a counter of twins.

    Of fio: ``clat mean``, ``clat p99.9``; ``iops in intervals stddev``; ``share with a latency up to 250 us``; ``share
    at depth 64 and more``; ``share of submissions of up to 4``, ``share of completions of more than 64``. Of twins, per
    request that reached the drive: ``block erases per request``.
    """
    if match := _OF_FIO.fullmatch(name):
        column = "_".join(match.groups()).replace(".", "_")
        return Quantity(f"{column}_ms", name, "ms")
    if match := _OF_INTERVALS.fullmatch(name):
        of, statistic = match.groups()
        if statistic == "share":
            return Quantity("bandwidth_share_percent", name, "%") if of == "bandwidth" else None
        unit = QUANTITIES[of].unit
        return Quantity(f"{of}_{statistic}{'_mb_per_s' if unit == 'MB/s' else ''}", name, unit)
    if match := _OF_SHARES.fullmatch(name):
        return Quantity(_share_column(match), name, "%")
    if (match := _OF_TWINS.fullmatch(name)) and match[1].replace(" ", "_") in _twin.counter_names():
        return Quantity(f"{match[1].replace(' ', '_')}_per_request", name, _COUNTED)
    return QUANTITIES.get(name) or _OF_REPLAYS.get(name)


def _share_column(match: re.Match[str]) -> str:
    if match["latency"]:
        return f"latency_{match['most']}_{match['time']}_percent"
    if match["call"]:
        call = {"submissions": "submit", "completions": "complete"}[match["call"]]
        return f"iodepth_{call}_{match['batch'] or 'ge64'}_percent"
    return f"iodepth_level_{'ge' if match['from'] else ''}{match['depth']}_percent"


def get_quantity(name: str) -> Quantity:
    """Return the quantity of that name, see `find_quantity`. Raises QuantityError."""
    measure = find_quantity(name)
    if measure is None:
        near = get_close_matches(name, [*QUANTITIES, *_OF_REPLAYS], n=1)
        valid = f"valid are {', '.join(QUANTITIES)}, as in 'clat p99.9', and of twins as in 'block erases per request'"
        hint = f"did you mean '{near[0]}'?" if near else valid
        raise QuantityError(f"there is no quantity '{name}'; {hint}")
    return measure


def available_quantities(rows: pd.DataFrame) -> list[str]:
    """Return the quantities of a name of their own that some executions tell, see `read_executions`."""
    named = {**QUANTITIES, **_OF_REPLAYS}
    return [name for name, each in named.items() if each.column in rows and rows[each.column].notna().any()]


def read_executions(path: Path) -> pd.DataFrame:
    """Return one row per execution from the measurements of a study, as ``collect.measurements`` made them.

    What an execution read and wrote, and its jobs, are taken together. Columns: those of the measurements that say what
    was asked for; and of what came out bandwidth_mb_per_s, iops, read_iops, write_iops (sums); latency_ms,
    read_latency_ms, write_latency_ms (means over requests of fio's ``lat``); outstanding; iodepth_reached; fio's own
    slat_*, clat_* and lat_* in ms (e.g. clat_p99_9_ms), and its statistics of intervals and shares in percent (see
    `find_quantity`), missing where an execution has several rows, for it both read and wrote; bandwidth_bytes_per_s; and
    <counter>_per_request of twins, what their drive counted over the requests that reached it. Latencies that fio does
    not tell are missing.
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
    sums = parts.groupby(keys, sort=False).sum(min_count=1)  # what fio does not tell stays missing, and is no 0
    times = [name for name in rows.columns if re.fullmatch(r"(slat|clat|lat)_.*_ns", name)]
    first = rows.groupby(keys, sort=False).first()
    alone = rows.groupby(keys, sort=False).size() == 1
    in_ms = (first[times].astype("float64") / 1e6).where(alone)
    outcome = pd.DataFrame(
        {
            "bandwidth_bytes_per_s": sums["bandwidth_bytes_per_s"],
            "bandwidth_mb_per_s": sums["bandwidth_bytes_per_s"] / 1e6,
            "iops": sums["iops"].astype("float64"),
            "read_iops": sums["read_iops"].astype("float64"),
            "write_iops": sums["write_iops"].astype("float64"),
            "latency_ms": _mean(sums["time_ms"], sums["requests"]),
            "read_latency_ms": _mean(sums["read_time_ms"], sums["reads"]),
            "write_latency_ms": _mean(sums["write_time_ms"], sums["writes"]),
            "iodepth_reached": rows.groupby(keys, sort=False)["iodepth_reached"].max(),
        }
    )
    outcome["outstanding"] = outcome["iops"] * outcome["latency_ms"] / 1e3
    in_ms.columns = [f"{name.removesuffix('_ns')}_ms" for name in in_ms.columns]
    told = [name for name in rows.columns if _FIOS_OWN.fullmatch(name)]
    in_mb = {
        f"bandwidth_{name}_mb_per_s": first[column].astype("float64") / 1e6
        for name in ("min", "max", "mean", "stddev")
        if (column := f"bandwidth_{name}_bytes_per_s") in first
    }
    own = {name: first[name].astype("float64") for name in told} | in_mb
    fios = pd.DataFrame({name: column.where(alone) for name, column in own.items()}, index=first.index)
    asked = first[list(first.columns[: first.columns.get_loc("document")])]
    replayed = first[
        [name for name in rows.columns if name.startswith(replays.REPLAY_PREFIX) and name != replays.DETAILS_COLUMN]
    ]
    replayed.columns = replayed.columns.str.removeprefix(replays.REPLAY_PREFIX)
    return pd.concat([asked, outcome, in_ms, fios, replayed, _counted(first)], axis=1).reset_index()


def _counted(first: pd.DataFrame) -> pd.DataFrame:
    """Return what twins have counted, per request that reached the drive: those before fio counts are among both."""
    counters = first[[name for name in first.columns if name.startswith(COUNTER_PREFIX)]].astype("float64")
    counters.columns = counters.columns.str.removeprefix(COUNTER_PREFIX)
    if counters.empty:
        return counters
    requests = counters["read_commands"] + counters["write_commands"]
    return counters.div(requests.where(requests > 0), axis=0).add_suffix("_per_request")


def _mean(total: pd.Series, count: pd.Series) -> pd.Series:
    """Return the mean of so many, missing where there are none."""
    return (total / count.where(count > 0)).astype("float64")


def experiment_names(executions: pd.DataFrame) -> list[str]:
    """Return the experiments of a table, in its order. The column joins the experiments of a cell by blanks."""
    return list(dict.fromkeys(name for names in executions["experiments"].unique() for name in names.split()))


def select_experiments(executions: pd.DataFrame, *experiments: str) -> pd.DataFrame:
    """Return the executions of all cells that any of the experiments asks for."""
    wanted = set(experiments)
    served = executions["experiments"]
    asked = {names: bool(wanted & set(names.split())) for names in served.unique()}
    return executions[served.map(asked).astype(bool)]
