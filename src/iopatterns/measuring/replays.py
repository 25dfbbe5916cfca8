"""Replay a phase of a block trace on a simulated drive, and summarise the result.

A block trace lists requests to a drive with their times. A phase is a named part of a trace.
"""

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
    """The error raised if a block trace has changed, or lacks the requested phase.

    A block trace lists requests to a drive with their times. A phase is a named part of a trace.
    """


def phase_bounds(path: Path, phase: str) -> list[tuple[int, int]]:
    """Return the begin and end of each selected phase of a block trace, in ns.

    A block trace lists requests to a drive with their times. A phase is a named part of a trace.

    Args:
        path: The path of the trace, a Parquet file.
        phase: The name of a phase. ``NAME*`` selects all phases whose name begins with NAME.

    Returns:
        A pair of begin and end for each selected phase, in the order of the trace. The times count from the first
        request of the trace.

    Raises:
        ReplayError: The trace has no such phase.
        TwinError: The file is not a trace.
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
    """Replay a phase of a block trace on a new simulated drive, and summarise it.

    A block trace lists requests to a drive with their times. A phase is a named part of a trace. The requests before
    the phase are replayed, too, because they determine the state of the drive. They are not part of the result, except
    where noted.

    Each request is submitted at its time in the trace. The option ``depth`` changes this: requests are submitted in the
    order of the trace, as soon as fewer than ``depth`` requests are outstanding. The phase then begins once all earlier
    requests have ended.

    A name of a phase that ends with ``*`` may select several phases, which are then called runs. In this case, the keys
    ``depth`` and ``counters`` of the result also cover the time between the runs.

    Args:
        model: The model of the drive.
        path: The path of the trace, a Parquet file.
        replay: The key ``replay`` of a cell's specification: the name of the phase (key ``phase``), and the options
            ``depth``, ``latencies`` and ``blocks_over_time``, which `records.Replay` describes.

    Returns:
        The content of the raw file, and the drive's counters from the first request of the trace to the end of the
        phase. The keys of the content are:

        - ``replay``: the name of the phase, the options, and the SHA-256 of the trace
        - ``requests``: number, sizes and mean latency of the requests, by operation
        - ``duration_ns``: from the first submission to the last end; for several runs, the sum of their durations
        - ``depth``: how often the drive's queue reached each depth, and the extremes of the depth over time
        - ``counters``: the counters of the phase only
        - ``blocks``: how many flash blocks have 0, 1, … valid pages at the end of the phase
        - ``blocks_before_discards``: the same counts when the first discard of the phase is submitted; only if the
          phase has discards
        - ``blocks_over_time``: the same counts at equally spaced times; only with the option ``blocks_over_time``
        - ``runs_ns``: the duration of each run; only if the name of the phase ends with ``*``
        - ``latency``: the largest latency over time, the median, and the peaks; only with the option ``latencies``

    Raises:
        ReplayError: The trace has changed since the run was planned, or lacks the phase. Or the phase has no request.
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
    in_runs = np.concatenate(runs)
    discard_ns = None if model.kind == "hard_disk" else _first_discard(trace.iloc[in_runs])
    if discard_ns:
        # snapshots are at multiples of the interval: one is at the first discard, less the remainder of the division
        interval_ns = discard_ns // -(-discard_ns // max(1, interval_ns))
    recorded, series = _replay_recorded(model, trace, end_ns, max(1, interval_ns))
    # in a closed loop, a request ends when its thread receives it, which only the first replay knows
    result = closed or recorded
    requests = result.latencies.set_index("request").sort_index()
    spans_ns = [_span(requests.loc[run]) for run in runs]
    began_ns, ended_ns = spans_ns[0][0], max(ended for _, ended in spans_ns)
    content = {
        "replay": {**replay, "sha256": sha256},
        "requests": _summarise_requests(trace.iloc[in_runs], requests["latency_ns"]),
        "duration_ns": sum(ended - began for began, ended in spans_ns),
        "depth": _summarise_depth(series, began_ns, ended_ns),
        "counters": {name: number - counters_before.get(name, 0) for name, number in result.counters.items()},
        "blocks": _summarise_blocks(series, model),
    }
    if discard_ns is not None:
        content["blocks_before_discards"] = _blocks_before(series, model, began_ns, discard_ns)
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

    The times in the trace are ignored. At each position in `starts`, the replay waits until all requests have ended.

    Args:
        model: The model of the drive.
        trace: The trace.
        depth: The number of outstanding requests.
        starts: The positions of the first request of each selected phase.

    Returns:
        The result of the complete replay, and the drive's counters at the start of the first phase.
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
    """Return a trace whose times are those at which a closed loop submitted requests.

    A replay of this trace submits the same requests at the same times. Unlike the closed loop, it can record the state
    of the drive until after the last request.

    Args:
        trace: The trace.
        closed: The result of replaying the trace with a fixed number of outstanding requests.
        first: The position of the first request of the phase.

    Returns:
        The trace with new times, the submission time of the first request of the phase, and the end of the last
        request. Times are in ns.
    """
    issue_ns = closed.latencies.set_index("request")["issue_ns"].sort_index()
    submitted = trace.assign(arrival_ns=issue_ns.to_numpy()).astype(trace.dtypes)
    return submitted, int(issue_ns[first]), closed.duration_ns


def _span(requests: pd.DataFrame) -> tuple[int, int]:
    """Return the first submission time and the last end of some requests, in ns."""
    return int(requests["issue_ns"].min()), int((requests["issue_ns"] + requests["latency_ns"]).max())


def _part_ns(began_ns: int, ended_ns: int) -> int:
    """Return the length of one of the 250 equal parts of a phase, in ns.

    The phase is divided into these parts to store values over time. The length is rounded up, so that the parts cover
    the complete phase.
    """
    return max(1, -(-(ended_ns - began_ns + 1) // _PARTS))


def _summarise_latency(requests: pd.DataFrame, began_ns: int, ended_ns: int) -> dict[str, Any]:
    """Return the latencies of the requests of a phase over time.

    The phase is divided into equal parts. Adjacent requests whose latency is at least five times the median form a
    peak.

    Args:
        requests: The requests of the phase, with the columns ``issue_ns`` and ``latency_ns``.
        began_ns: The begin of the phase.
        ended_ns: The end of the phase.

    Returns:
        A dictionary with these keys:

        - ``began_ns``: the begin of the phase
        - ``part_ns``: the length of a part
        - ``largest_ns``: the largest latency in each part, 0 without requests
        - ``median_ns``: the median latency
        - ``standing_out``: the peaks, as the lists ``request`` (position of the first request in the phase) and
          ``largest_ns`` (largest latency)
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
    """Replay a trace while recording the state of the drive.

    To get a snapshot of the state after `end_ns`, a flush request long after that time is appended to the trace. It is
    not counted in the result.

    Args:
        model: The model of the drive.
        trace: The trace.
        end_ns: The end of the phase.
        interval_ns: The time between two snapshots of the flash blocks.

    Returns:
        The result, and a table with the columns ``series``, ``time_ns`` and ``value``. The series are the depth of the
        drive's queue, and the share of valid pages of each flash block in each snapshot.
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
    """Return the number, sizes and mean latency of the requests of each operation.

    Args:
        trace: The requests.
        latency_ns: The latency of each request, with the same index as the trace.

    Returns:
        For each operation that occurs, such as ``read``, a dictionary with the keys ``count``, ``bytes`` (in total),
        ``largest_bytes``, ``median_bytes`` and ``latency_mean_ns``.
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

    The phase is divided into equal parts.

    Args:
        series: The recorded series of the drive.
        began_ns: The begin of the phase.
        ended_ns: The end of the phase.

    Returns:
        A dictionary with these keys:

        - ``events``: how often the queue reached a depth of 0, 1, … requests
        - ``began_ns``: the begin of the phase
        - ``part_ns``: the length of a part
        - ``least``: the smallest depth in each part
        - ``most``: the largest depth in each part
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

    Args:
        series: The recorded series of the drive.
        model: The model of the drive.

    Returns:
        A dictionary with the keys ``block_bytes`` (size of a flash block; 0 for a hard disk, which has none),
        ``capacity_bytes`` (size of the drive) and ``by_valid_pages`` (number of blocks, by number of valid pages).
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
    """Return how many flash blocks have 0, 1, … valid pages in one snapshot.

    Args:
        ratios: The rows of the snapshot: for each block, the share of its pages that are valid.
        model: The model of the drive.
    """
    pages = int(model.number("flash.pages_per_block"))
    valid = np.rint(ratios["value"].to_numpy() * pages).astype(np.int64)
    return [int(count) for count in np.bincount(valid, minlength=pages + 1)]


def _first_discard(requests: pd.DataFrame) -> int | None:
    """Return the submission time of the first discard of some requests, in ns; None without discards."""
    times_ns = requests.loc[requests["operation"] == traces.OPERATIONS["discard"], "arrival_ns"]
    return int(times_ns.min()) if len(times_ns) else None


def _blocks_before(series: pd.DataFrame, model: Model, began_ns: int, submitted_ns: int) -> dict[str, Any]:
    """Return the valid pages of the flash blocks when a request reaches the drive.

    Args:
        series: The recorded series of the drive, with a snapshot at `submitted_ns`.
        model: The model of the drive.
        began_ns: The begin of the phase.
        submitted_ns: The submission time of the request.

    Returns:
        A dictionary with the keys ``at_ns`` (time since the begin of the phase) and ``by_valid_pages`` (number of
        blocks, by number of valid pages).
    """
    ratios = series[(series["series"] == "valid_ratio") & (series["time_ns"] <= submitted_ns)]
    last = ratios[ratios["time_ns"] == ratios["time_ns"].max()]
    return {"at_ns": submitted_ns - began_ns, "by_valid_pages": _count_by_valid_pages(last, model)}


def _blocks_over_time(
    series: pd.DataFrame, model: Model, began_ns: int, ended_ns: int, times: int
) -> list[dict[str, Any]]:
    """Return the valid pages of the flash blocks at equally spaced times of a phase.

    Args:
        series: The recorded series of the drive.
        model: The model of the drive.
        began_ns: The begin of the phase.
        ended_ns: The end of the phase.
        times: The number of times. The last is the end of the phase.

    Returns:
        For each time, a dictionary with the keys ``at_ns`` (time since the begin of the phase) and ``by_valid_pages``:
        how many blocks have 0, 1, … valid pages in the first snapshot at or after that time. The list is empty for a
        hard disk.
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
