"""Replays phases of a trace on a simulated drive: what the cells give of which the program ran before, in a guest."""

import itertools
import tempfile
from collections.abc import Mapping, Sequence
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

# The queue depth over time is kept as its extremes in so many equal parts of the phase
_PARTS = 250
# The blocks are looked at so often; what they are like at the end is kept
_SNAPSHOTS = 4
# and for each time that is asked for, so that one is near it
_SNAPSHOTS_A_TIME = 4
# A request that takes so many times as long as the median one stands out
_STANDS_OUT = 5


class ReplayError(IoPatternsError):
    """A trace is not the one that was planned, or has no such phase."""


def phase_bounds(path: Path, phase: str) -> list[tuple[int, int]]:
    """Return begin and end of a phase of a trace in nanoseconds.

    Where ``phase`` ends with ``*`` they are those of each phase that begins so, in their order. Raises ReplayError, or
    TwinError for no trace.
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


def replay_phase(model: Model, path: Path, asked: Replay) -> tuple[dict[str, Any], dict[str, int]]:
    """Return what a phase of a trace gives on a new drive of a model, and what the drive has counted in all.

    Each request is submitted at its time in the trace; or, where a ``depth`` is asked for, in the trace's order as soon
    as fewer than so many are outstanding, and the trace's times say no more than which requests are of which phase. A
    phase then begins once all before it is over. What is before and between the phases brings the drive into its state
    and is no part of what is told. Keys: replay (what was asked for), requests (by operation), duration_ns (from
    the first request to the end of the last), depth (of the drive's queue: how often it became each depth, and its
    extremes over time), counters (of the phase alone), blocks (how many have how many valid pages at its end).

    Where several phases are asked for, each is a run: runs_ns has their durations, duration_ns is their sum, and
    depth and counters are of all from the first to the end of the last. With ``latencies`` there is latency, too: see
    `_latency`; and with ``blocks_over_time`` that: see `_blocks_over_time`. With ``blocks_every_ms`` blocks are not of
    the end but of the last of the times that are so far apart, from the first request of the trace on. Raises
    ReplayError and TwinError.
    """
    sha256 = files.sha256(path)
    if asked.get("sha256", sha256) != sha256:
        raise ReplayError(f"{path}: has changed since the run was planned. Run again.")
    bounds = phase_bounds(path, asked["phase"])
    begin_ns, end_ns = bounds[0][0], bounds[-1][1]
    trace = pd.concat(list(traces.read_pieces(path)), ignore_index=True)
    trace = trace[trace["arrival_ns"] < end_ns]
    before = int((trace["arrival_ns"] < begin_ns).sum())
    runs = [
        np.flatnonzero(((trace["arrival_ns"] >= begin) & (trace["arrival_ns"] < end)).to_numpy())
        for begin, end in bounds
    ]
    if not all(map(len, runs)):
        raise ReplayError(f"{path}: has no request in the phase '{asked['phase']}'.")
    closed = None
    if "depth" in asked:
        closed, earlier = _in_closed_loop(model, trace, asked["depth"], [int(run[0]) for run in runs])
        trace, begin_ns, end_ns = _as_submitted(trace, closed, first=before)
    else:
        earlier = replay_trace(model, trace.iloc[:before]).counters if before else {}
    times = asked.get("blocks_over_time", 0)
    interval_ns = (end_ns - begin_ns) // (times * _SNAPSHOTS_A_TIME) if times else end_ns // _SNAPSHOTS
    recorded, series = _recorded(model, trace, end_ns, max(1, interval_ns))
    # what has its times in a closed loop is taken from that: there a request is over once its thread takes it back
    whole = closed or recorded
    done = whole.latencies.set_index("request").sort_index()
    spans_ns = [_span(done.loc[run]) for run in runs]
    began_ns, ended_ns = spans_ns[0][0], max(ended for _, ended in spans_ns)
    content = {
        "replay": {**asked, "sha256": sha256},
        "requests": _requests(trace, whole, np.concatenate(runs)),
        "duration_ns": sum(ended - began for began, ended in spans_ns),
        "depth": _depth(series, began_ns, ended_ns),
        "counters": {name: number - earlier.get(name, 0) for name, number in whole.counters.items()},
        "blocks": _blocks(series, model),
    }
    if "blocks_every_ms" in asked:
        _, regular = _recorded(model, trace, end_ns, asked["blocks_every_ms"] * 1_000_000)
        content["blocks"] = _blocks(regular[regular["time_ns"] <= ended_ns], model)
    if times:
        content["blocks_over_time"] = _blocks_over_time(series, model, began_ns, ended_ns, times)
    if asked["phase"].endswith("*"):
        content["runs_ns"] = [ended - began for began, ended in spans_ns]
    if asked.get("latencies"):
        content["latency"] = _latency(done.loc[np.concatenate(runs)], began_ns, ended_ns)
    return content, whole.counters


def _in_closed_loop(
    model: Model, trace: pd.DataFrame, depth: int, starts: Sequence[int]
) -> tuple[ReplayResult, dict[str, int]]:
    """Replay a trace with so many requests outstanding; return what came of it, and the counters at the first start.

    At each of ``starts``, the places of the first requests of phases, all before must be over.
    """
    session = ReplaySession(model, depth=depth)
    done: list[pd.DataFrame] = []
    earlier: dict[str, int] = {}
    for begin, end in itertools.pairwise([0, *starts, len(trace)]):
        if begin == starts[0]:
            earlier = session.counters()
        if begin < end:
            done += session.run([trace.iloc[begin:end]])
    return ReplayResult(pd.concat(done, ignore_index=True), session.counters(), session.duration_ns), earlier


def _as_submitted(trace: pd.DataFrame, closed: ReplayResult, first: int) -> tuple[pd.DataFrame, int, int]:
    """Return a trace with the times at which a closed loop submitted it, that of request ``first``, and the end of all.

    The drive is asked the same at the same times where it is replayed by these, so that what comes long after the end,
    by which the last state is known, can be put behind it.
    """
    issue_ns = closed.latencies.set_index("request")["issue_ns"].sort_index()
    submitted = trace.assign(arrival_ns=issue_ns.to_numpy()).astype(trace.dtypes)
    return submitted, int(issue_ns[first]), closed.duration_ns


def _span(done: pd.DataFrame) -> tuple[int, int]:
    """Return when the first of some requests was submitted, and when the last of them was over."""
    return int(done["issue_ns"].min()), int((done["issue_ns"] + done["latency_ns"]).max())


def _latency(done: pd.DataFrame, began_ns: int, ended_ns: int) -> dict[str, Any]:
    """Return what the latencies of requests were over time, in the order of the requests.

    Keys: began_ns and part_ns; largest_ns, by part; median_ns; standing_out: of the requests that took `_STANDS_OUT`
    times as long as that, adjacent ones taken together, the latency (``largest_ns``) and the place of the first
    (``request``).
    """
    part_ns = max(1, -(-(ended_ns - began_ns + 1) // _PARTS))
    part = (done["issue_ns"] - began_ns) // part_ns
    largest = done["latency_ns"].groupby(part).max().reindex(range(_PARTS), fill_value=0)
    latency_ns = done["latency_ns"].to_numpy()
    median_ns = float(np.median(latency_ns))
    places = np.flatnonzero(latency_ns >= _STANDS_OUT * median_ns)
    groups = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1) if len(places) else []
    return {
        "began_ns": began_ns,
        "part_ns": int(part_ns),
        "largest_ns": largest.astype(int).tolist(),
        "median_ns": median_ns,
        "standing_out": {
            "request": [int(group[0]) for group in groups],
            "largest_ns": [int(latency_ns[group].max()) for group in groups],
        },
    }


def _recorded(model: Model, trace: pd.DataFrame, end_ns: int, interval_ns: int) -> tuple[ReplayResult, pd.DataFrame]:
    """Replay a trace; return what came of it, and the drive's series, the last snapshot after ``end_ns``.

    A flush long after the end sees to that; it is not counted.
    """
    late = trace.iloc[:1].assign(operation=traces.OPERATIONS["flush"], offset_bytes=0, size_bytes=0)
    late = late.assign(arrival_ns=max(end_ns, int(trace["arrival_ns"].iloc[-1])) + 2 * interval_ns).astype(trace.dtypes)
    with tempfile.TemporaryDirectory(prefix="replay-") as folder:
        file = Path(folder) / "series.parquet"
        whole = replay_trace(
            model, pd.concat([trace, late], ignore_index=True), counters_file=file, interval_ns=interval_ns
        )
        series = pd.read_parquet(file)
    whole.counters["flush_commands"] -= 1
    return whole, series


def _requests(trace: pd.DataFrame, whole: ReplayResult, wanted: np.ndarray) -> dict[str, dict[str, float]]:
    """Return by operation how many of the requests ``wanted`` there were, their sizes, and their mean latency."""
    latency = pd.Series(whole.latencies["latency_ns"].to_numpy(), index=whole.latencies["request"].to_numpy())
    found = {}
    for name, number in traces.OPERATIONS.items():
        rows = trace.iloc[wanted]
        sizes = rows.loc[rows["operation"] == number, "size_bytes"].astype("int64")
        if len(sizes):
            found[name] = {
                "count": len(sizes),
                "bytes": int(sizes.sum()),
                "largest_bytes": int(sizes.max()),
                "median_bytes": float(sizes.median()),
                "latency_mean_ns": float(latency.loc[sizes.index].mean()),
            }
    return found


def _depth(series: pd.DataFrame, began_ns: int, ended_ns: int) -> Mapping[str, Any]:
    depths = series[(series["series"] == "queue_depth") & series["time_ns"].between(began_ns, ended_ns)]
    values = depths["value"].to_numpy().astype(np.int64)
    part_ns = max(1, -(-(ended_ns - began_ns + 1) // _PARTS))
    part = (depths["time_ns"].to_numpy() - began_ns) // part_ns
    groups = pd.Series(values).groupby(part)
    # where nothing happened, the depth is the one before
    last = groups.last().reindex(range(_PARTS)).ffill().fillna(0).astype(int)
    carried = last.shift(fill_value=0)
    least = groups.min().reindex(range(_PARTS)).fillna(carried).astype(int)
    most = groups.max().reindex(range(_PARTS)).fillna(carried).astype(int)
    return {
        "events": np.bincount(values).tolist(),
        "began_ns": began_ns,
        "part_ns": int(part_ns),
        "least": least.tolist(),
        "most": most.tolist(),
    }


def _blocks(series: pd.DataFrame, model: Model) -> dict[str, Any]:
    if model.kind == "hard_disk":
        return {"block_bytes": 0, "capacity_bytes": model.size_bytes, "by_valid_pages": [0]}
    ratios = series[series["series"] == "valid_ratio"]
    return {
        "block_bytes": int(model.number("flash.pages_per_block")) * int(model.number("flash.page")),
        "capacity_bytes": model.size_bytes,
        "by_valid_pages": _by_valid_pages(ratios[ratios["time_ns"] == ratios["time_ns"].max()], model),
    }


def _by_valid_pages(ratios: pd.DataFrame, model: Model) -> list[int]:
    """Return how many blocks have 0, 1, … valid pages, of the ratios of one snapshot."""
    pages = int(model.number("flash.pages_per_block"))
    valid = np.rint(ratios["value"].to_numpy() * pages).astype(np.int64)
    return [int(count) for count in np.bincount(valid, minlength=pages + 1)]


def _blocks_over_time(
    series: pd.DataFrame, model: Model, began_ns: int, ended_ns: int, times: int
) -> list[dict[str, Any]]:
    """Return the blocks at so many equal times, the last one the end of the last request.

    Keys of each: at_ns, from the first request on; by_valid_pages, of the snapshot at that time or next after it. A
    hard disk has no blocks.
    """
    if model.kind == "hard_disk":
        return []
    ratios = series[series["series"] == "valid_ratio"]
    snapshots = np.unique(ratios["time_ns"].to_numpy())
    of_time = dict(iter(ratios.groupby("time_ns")))
    found = []
    for number in range(1, times + 1):
        at_ns = (ended_ns - began_ns) * number // times
        place = min(int(np.searchsorted(snapshots, began_ns + at_ns)), len(snapshots) - 1)
        found.append({"at_ns": at_ns, "by_valid_pages": _by_valid_pages(of_time[snapshots[place]], model)})
    return found
