"""Replay a phase of a block trace on a simulated drive, and summarise it."""

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw.records import Replay
from iopatterns.twin import traces
from iopatterns.twin.models import Model
from iopatterns.twin.trace_replay import ReplayResult, ReplaySession, replay_trace
from iopatterns.twin.traces import parquet

# Values over time are stored as their extremes in this many equal parts of the phase
_PARTS = 250
# Number of snapshots of the flash blocks if only those at the end matter
_SNAPSHOTS = 4
# Number of snapshots for each time of `blocks_over_time`, so that one is close to that time
_SNAPSHOTS_PER_TIME = 4
# A latency peak is at least this many times the median latency
_MIN_PEAK = 5


class ReplayError(IoPatternsError):
    """A trace has changed, or has no such phase."""


def phase_bounds(path: Path, phase: str) -> list[tuple[int, int]]:
    """Return the begin and end of a phase of a trace, in ns.

    Args:
        path: The trace.
        phase: The name of the phase. ``NAME*`` selects all phases whose name begins with NAME, in their order.

    Raises:
        ReplayError: The trace has no such phase.
        TwinError: The file is no trace.
    """
    marks = parquet.read_phases(path)
    names = list(marks)
    found = [
        (marks[name], marks[after])
        for name, after in itertools.pairwise(names)
        if name == phase or (phase.endswith("*") and name.startswith(phase[:-1]))
    ]
    if not found:
        raise ReplayError(f"{path}: has no phase '{phase}'. It has {', '.join(names[:-1]) or 'none'}.")
    return found


def replay_phase(model: Model, path: Path, replay: Replay) -> tuple[dict[str, Any], dict[str, int]]:
    """Replay a phase of a trace on a new drive.

    Returns the content of the raw file, and the drive's counters.

    All requests of the trace up to the end of the phase are replayed. Requests before the phase bring the drive into
    its state, and are not part of the result. Each request is submitted at its time in the trace. With the option
    ``depth``, requests are submitted in the order of the trace instead, as soon as fewer than that many are
    outstanding; a phase begins when all requests before it have ended.

    If several phases are selected, each is a run. ``depth`` and ``counters`` then include the time between the runs.

    Args:
        model: The model of the drive.
        path: The trace.
        replay: The phase and the options, as the cell's specification has them.

    Returns:
        The content of the raw file, and the counters of the complete replay. The keys of the content are:

        - ``replay``: the phase and the options
        - ``requests``: see `_summarise_requests`
        - ``duration_ns``: from the first request to the end of the last; of several runs the sum
        - ``depth``: see `_summarise_depth`
        - ``counters``: the counters of the phase only
        - ``blocks``: see `_summarise_blocks`; at the end of the phase, or with ``blocks_every_ms`` at the last of these
          times, which are counted from the first request of the trace
        - ``blocks_over_time``: see `_blocks_over_time`; only with this option
        - ``runs_ns``: the duration of each run, if the name of the phase ends with ``*``
        - ``latency``: see `_summarise_latency`; only with the option ``latencies``

    Raises:
        ReplayError: The trace has changed, or has no such phase.
        TwinError: The trace or the model is not valid.
    """
    sha256 = files.sha256(path)
    if replay.get("sha256", sha256) != sha256:
        raise ReplayError(f"{path}: has changed since the run was planned. Run again.")
    bounds = phase_bounds(path, replay["phase"])
    begin_ns, end_ns = bounds[0][0], bounds[-1][1]
    trace = pd.concat(list(traces.read_pieces(path)), ignore_index=True)
    trace = trace[trace["arrival_ns"] < end_ns]
    count_before = int((trace["arrival_ns"] < begin_ns).sum())
    runs = [
        np.flatnonzero(trace["arrival_ns"].between(begin, end, inclusive="left").to_numpy()) for begin, end in bounds
    ]
    if not all(map(len, runs)):
        raise ReplayError(f"{path}: has no request in the phase '{replay['phase']}'.")
    closed = None
    if "depth" in replay:
        closed, counters_before = _replay_closed_loop(model, trace, replay["depth"], [int(run[0]) for run in runs])
        trace, begin_ns, end_ns = _with_submission_times(trace, closed, first=count_before)
    else:
        counters_before = replay_trace(model, trace.iloc[:count_before]).counters if count_before else {}
    times = replay.get("blocks_over_time", 0)
    interval_ns = (end_ns - begin_ns) // (times * _SNAPSHOTS_PER_TIME) if times else end_ns // _SNAPSHOTS
    recorded, series = _replay_recorded(model, trace, end_ns, max(1, interval_ns))
    # in a closed loop, a request ends when its thread receives it, which only the first replay knows
    result = closed or recorded
    requests = result.latencies.set_index("request").sort_index()
    spans_ns = [_span(requests.loc[run]) for run in runs]
    began_ns, ended_ns = spans_ns[0][0], max(ended for _, ended in spans_ns)
    in_runs = np.concatenate(runs)
    content = {
        "replay": {**replay, "sha256": sha256},
        "requests": _summarise_requests(trace.iloc[in_runs], requests["latency_ns"]),
        "duration_ns": sum(ended - began for began, ended in spans_ns),
        "depth": _summarise_depth(series, began_ns, ended_ns),
        "counters": {name: number - counters_before.get(name, 0) for name, number in result.counters.items()},
        "blocks": _summarise_blocks(series, model),
    }
    if "blocks_every_ms" in replay:
        _, regular = _replay_recorded(model, trace, end_ns, replay["blocks_every_ms"] * 1_000_000)
        content["blocks"] = _summarise_blocks(regular[regular["time_ns"] <= ended_ns], model)
    if times:
        content["blocks_over_time"] = _blocks_over_time(series, model, began_ns, ended_ns, times)
    if replay["phase"].endswith("*"):
        content["runs_ns"] = [ended - began for began, ended in spans_ns]
    if replay.get("latencies"):
        content["latency"] = _summarise_latency(requests.loc[in_runs], began_ns, ended_ns)
    return content, result.counters


def _replay_closed_loop(
    model: Model, trace: pd.DataFrame, depth: int, starts: Sequence[int]
) -> tuple[ReplayResult, dict[str, int]]:
    """Replay a trace with a fixed number of outstanding requests.

    Args:
        model: The model of the drive.
        trace: The trace.
        depth: The number of outstanding requests.
        starts: The positions of the first request of each phase. All requests before have ended then.

    Returns:
        The result, and the counters at the start of the first phase.
    """
    session = ReplaySession(model, depth=depth)
    done: list[pd.DataFrame] = []
    counters_before: dict[str, int] = {}
    for begin, end in itertools.pairwise([0, *starts, len(trace)]):
        if begin == starts[0]:
            counters_before = session.counters()
        if begin < end:
            done += session.run([trace.iloc[begin:end]])
    return ReplayResult(pd.concat(done, ignore_index=True), session.counters(), session.duration_ns), counters_before


def _with_submission_times(trace: pd.DataFrame, closed: ReplayResult, first: int) -> tuple[pd.DataFrame, int, int]:
    """Return a trace with the times at which a closed loop submitted its requests.

    A replay of this trace submits the same requests at the same times, and can be recorded up to a time after the end.

    Args:
        trace: The trace.
        closed: The result of replaying it in a closed loop.
        first: The position of the first request of the phase.

    Returns:
        The trace, the submission time of the first request of the phase, and the end of the last request, in ns.
    """
    issue_ns = closed.latencies.set_index("request")["issue_ns"].sort_index()
    submitted = trace.assign(arrival_ns=issue_ns.to_numpy()).astype(trace.dtypes)
    return submitted, int(issue_ns[first]), closed.duration_ns


def _span(requests: pd.DataFrame) -> tuple[int, int]:
    """Return the first submission and the last end of some requests, in ns."""
    return int(requests["issue_ns"].min()), int((requests["issue_ns"] + requests["latency_ns"]).max())


def _part_ns(began_ns: int, ended_ns: int) -> int:
    """Return the length of one of the `_PARTS` parts of a phase, rounded up."""
    return max(1, -(-(ended_ns - began_ns + 1) // _PARTS))


def _summarise_latency(requests: pd.DataFrame, began_ns: int, ended_ns: int) -> dict[str, Any]:
    """Return the latencies of the requests of a phase over time.

    Returns:
        A dictionary with the keys ``began_ns``, ``part_ns`` (length of a part), ``largest_ns`` (in each part),
        ``median_ns``, and ``standing_out``: the peaks, with their largest latency and the position of their first
        request. Adjacent requests with at least `_MIN_PEAK` times the median latency are one peak.
    """
    part_ns = _part_ns(began_ns, ended_ns)
    part = (requests["issue_ns"] - began_ns) // part_ns
    largest = requests["latency_ns"].groupby(part).max().reindex(range(_PARTS), fill_value=0)
    latency_ns = requests["latency_ns"].to_numpy()
    median_ns = float(np.median(latency_ns))
    positions = np.flatnonzero(latency_ns >= _MIN_PEAK * median_ns)
    peaks = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1) if len(positions) else []
    return {
        "began_ns": began_ns,
        "part_ns": part_ns,
        "largest_ns": largest.astype(int).tolist(),
        "median_ns": median_ns,
        "standing_out": {
            "request": [int(peak[0]) for peak in peaks],
            "largest_ns": [int(latency_ns[peak].max()) for peak in peaks],
        },
    }


def _replay_recorded(
    model: Model, trace: pd.DataFrame, end_ns: int, interval_ns: int
) -> tuple[ReplayResult, pd.DataFrame]:
    """Replay a trace.

    Returns the result, and the drive's series with a snapshot in each interval.

    A flush long after ``end_ns`` makes sure that there is a snapshot after that time. It is not counted.
    """
    flush = trace.iloc[:1].assign(operation=traces.OPERATIONS["flush"], offset_bytes=0, size_bytes=0)
    flush_ns = max(end_ns, int(trace["arrival_ns"].iloc[-1])) + 2 * interval_ns
    flush = flush.assign(arrival_ns=flush_ns).astype(trace.dtypes)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        file = Path(folder) / "series.parquet"
        with_flush = pd.concat([trace, flush], ignore_index=True)
        result = replay_trace(model, with_flush, counters_file=file, interval_ns=interval_ns)
        series = pd.read_parquet(file)
    result.counters["flush_commands"] -= 1
    return result, series


def _summarise_requests(trace: pd.DataFrame, latency_ns: pd.Series) -> dict[str, dict[str, float]]:
    """Return the number, sizes and mean latency of requests, by operation.

    ``latency_ns`` has the trace's index.
    """
    found = {}
    for name, number in traces.OPERATIONS.items():
        sizes = trace.loc[trace["operation"] == number, "size_bytes"].astype("int64")
        if len(sizes):
            found[name] = {
                "count": len(sizes),
                "bytes": int(sizes.sum()),
                "largest_bytes": int(sizes.max()),
                "median_bytes": float(sizes.median()),
                "latency_mean_ns": float(latency_ns.loc[sizes.index].mean()),
            }
    return found


def _summarise_depth(series: pd.DataFrame, began_ns: int, ended_ns: int) -> dict[str, Any]:
    """Return the depth of the drive's queue during a phase.

    Returns:
        A dictionary with the keys ``events`` (how often the queue reached each depth), ``began_ns``, ``part_ns``
        (length of a part), and ``least`` and ``most`` (in each part).
    """
    depths = series[(series["series"] == "queue_depth") & series["time_ns"].between(began_ns, ended_ns)]
    values = depths["value"].to_numpy().astype(np.int64)
    part_ns = _part_ns(began_ns, ended_ns)
    part = (depths["time_ns"].to_numpy() - began_ns) // part_ns
    parts = pd.Series(values).groupby(part).agg(["min", "max", "last"]).reindex(range(_PARTS))
    # in a part without events, the depth is that at the end of the part before
    carried = parts["last"].ffill().fillna(0).shift(fill_value=0)
    return {
        "events": np.bincount(values).tolist(),
        "began_ns": began_ns,
        "part_ns": part_ns,
        "least": parts["min"].fillna(carried).astype(int).tolist(),
        "most": parts["max"].fillna(carried).astype(int).tolist(),
    }


def _summarise_blocks(series: pd.DataFrame, model: Model) -> dict[str, Any]:
    """Return how many flash blocks have 0, 1, … valid pages in the last snapshot.

    A hard disk has no flash blocks: their size is 0.
    """
    if model.kind == "hard_disk":
        return {"block_bytes": 0, "capacity_bytes": model.size_bytes, "by_valid_pages": [0]}
    ratios = series[series["series"] == "valid_ratio"]
    return {
        "block_bytes": int(model.number("flash.pages_per_block")) * int(model.number("flash.page")),
        "capacity_bytes": model.size_bytes,
        "by_valid_pages": _count_by_valid_pages(ratios[ratios["time_ns"] == ratios["time_ns"].max()], model),
    }


def _count_by_valid_pages(ratios: pd.DataFrame, model: Model) -> list[int]:
    """Return how many blocks have 0, 1, … valid pages, given the rows of one snapshot."""
    pages = int(model.number("flash.pages_per_block"))
    valid = np.rint(ratios["value"].to_numpy() * pages).astype(np.int64)
    return [int(count) for count in np.bincount(valid, minlength=pages + 1)]


def _blocks_over_time(
    series: pd.DataFrame, model: Model, began_ns: int, ended_ns: int, times: int
) -> list[dict[str, Any]]:
    """Return the valid pages of the flash blocks at equally spaced times.

    Returns:
        For each time, a dictionary with the keys ``at_ns``, counted from the first request, and ``by_valid_pages``,
        from the next snapshot. The list is empty for a hard disk.
    """
    if model.kind == "hard_disk":
        return []
    ratios = series[series["series"] == "valid_ratio"]
    snapshots = dict(iter(ratios.groupby("time_ns")))
    times_ns = np.unique(ratios["time_ns"].to_numpy())
    found = []
    for number in range(1, times + 1):
        at_ns = (ended_ns - began_ns) * number // times
        index = min(int(np.searchsorted(times_ns, began_ns + at_ns)), len(times_ns) - 1)
        found.append({"at_ns": at_ns, "by_valid_pages": _count_by_valid_pages(snapshots[times_ns[index]], model)})
    return found
