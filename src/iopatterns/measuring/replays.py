"""Replay a phase of a block trace on a simulated drive, and summarise the result.

A block trace lists requests to a drive with their times. A phase is a named part of a trace.
"""

import dataclasses
import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base.ownership import OutputFile
from iopatterns.measuring.recordings import TracePhase, compare_recordings, span
from iopatterns.raw.records import Replay
from iopatterns.twin import traces
from iopatterns.twin.models import Model
from iopatterns.twin.trace_replay import ReplaySession

# Values over time are stored as their extremes in this many equal parts of the phase
_PARTS = 250
# Number of snapshots of the flash blocks if only those at the end matter
_SNAPSHOTS = 4
# Number of snapshots for each time of `blocks_over_time`, so that one is close to that time
_SNAPSHOTS_PER_TIME = 4
# A latency peak is at least this many times the median latency
_MIN_PEAK = 5


def replay_phase(model: Model, root: Path, replay: Replay) -> tuple[dict[str, Any], dict[str, int]]:
    """Replay a phase of a block trace on a new simulated drive, and summarise it.

    A block trace lists requests to a drive with their times. A phase is a named part of a trace. The requests before
    the phase are replayed, too, because they determine the state of the drive. They are not part of the result, except
    where noted.

    A request is submitted when as many requests are complete as in the trace, after the same delay, see
    `dependencies`. On the drive on which the trace was recorded, all times are therefore those of the recorded run. Two
    options change this: with ``arrival_times``, requests are submitted at their times in the trace. With ``depth``,
    requests are submitted in the order of the trace, as soon as fewer than ``depth`` requests are outstanding. The
    phase then begins once all earlier requests have ended.

    A name of a phase that ends with ``*`` may select several phases, which are then called runs. In this case, the keys
    ``depth`` and ``counters`` of the result also cover the time between the runs.

    Args:
        model: The model of the drive.
        root: The folder to which the paths of traces are relative.
        replay: The key ``replay`` of a cell's specification: the trace, the name of the phase, and the options that
            `records.Replay` describes.

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
        - ``recordings``: what `recordings.compare_recordings` returns; only if there is something to compare

    Raises:
        ReplayError: The trace has changed since the run was planned, or lacks the phase. Or the phase has no request.
        TwinError: The trace or the model is not valid.
    """
    phase = TracePhase.read(root, replay, replay["phase"])
    requests, counters_before, counters = _replay(model, phase, replay)
    submitted = _SubmittedRequests(model, phase, requests["issue_ns"])
    spans_ns = [span(requests.loc[run]) for run in phase.runs]
    began_ns, ended_ns = spans_ns[0][0], max(ended for _, ended in spans_ns)
    end_ns = span(requests)[1] + (0 if "depth" in replay else phase.idle_ns)
    times = replay.get("blocks_over_time", 0)
    interval_ns = (end_ns - began_ns) // (times * _SNAPSHOTS_PER_TIME) if times else end_ns // _SNAPSHOTS
    in_runs = np.concatenate(phase.runs)
    discard_ns = None
    if model.kind != "hard_disk":
        discard_ns = _first_discard(phase.requests.iloc[in_runs].assign(arrival_ns=requests["issue_ns"]))
    if discard_ns:
        # snapshots are at multiples of the interval: one is at the first discard, less the remainder of the division
        interval_ns = discard_ns // -(-discard_ns // max(1, interval_ns))
    series = submitted.record_state(end_ns, max(1, interval_ns))
    content = {
        "replay": {**replay, "sha256": phase.sha256},
        "requests": _summarise_requests(phase.requests.iloc[in_runs], requests["latency_ns"]),
        "duration_ns": sum(ended - began for began, ended in spans_ns),
        "depth": _summarise_depth(series, began_ns, ended_ns),
        "counters": {name: number - counters_before.get(name, 0) for name, number in counters.items()},
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
    others = [TracePhase.read(root, each, replay["phase"]) for each in replay.get("compare", ())]
    if compared := compare_recordings(model, phase, others, requests if _keeps_dependencies(replay) else None):
        content["recordings"] = compared
    return content, counters


def _keeps_dependencies(replay: Replay) -> bool:
    return "depth" not in replay and not replay.get("arrival_times")


def _replay(model: Model, phase: TracePhase, replay: Replay) -> tuple[pd.DataFrame, dict[str, int], dict[str, int]]:
    """Replay a phase of a trace and all requests before it, as the options of the replay say.

    With the option ``depth``, the replay waits before each run until all requests have ended.

    Args:
        model: The model of the drive.
        phase: The phase.
        replay: The options, see `replay_phase`.

    Returns:
        The columns ``issue_ns`` and ``latency_ns`` of each request; the drive's counters when the requests before the
        phase have ended; and the counters at the end. If requests are outstanding when the phase begins, the former
        are the counters at the last submission before the phase.
    """
    session = ReplaySession(
        model,
        depth=replay.get("depth"),
        arrival_times=replay.get("arrival_times", False),
        recorded_on=phase.recorded_on,
        trace=str(phase.path),
    )
    first = int(phase.runs[0][0])
    starts = [int(run[0]) for run in phase.runs] if "depth" in replay else [first]
    pieces = [phase.requests.iloc[begin:end] for begin, end in itertools.pairwise([0, *starts, len(phase.requests)])]
    if "depth" in replay or (_keeps_dependencies(replay) and phase.begins_idle):
        done = list(session.run(pieces[:1]))
        counters_before = session.counters()
        done += [each for piece in pieces[1:] for each in session.run([piece])]
    else:
        replaying = session.run(pieces)
        done = [next(replaying)]
        counters_before = session.counters()
        done += replaying
    requests = pd.concat(done, ignore_index=True).set_index("request").sort_index()
    return requests, counters_before, session.counters()


class _SubmittedRequests:
    """The requests of a trace with the times at which a replay submitted them.

    Submitting them again at these times gives the same results. This shows the state of the drive at any time, also
    after the last request, which the first replay cannot, because it does not yet know the times.
    """

    def __init__(self, model: Model, phase: TracePhase, issue_ns: pd.Series) -> None:
        """Set the times of submission.

        Args:
            model: The model of the drive.
            phase: The phase of the trace.
            issue_ns: The time at which each request was submitted, since the start of the drive.
        """
        self._model = model
        drive = phase.recorded_on
        self._recorded_on = None if drive is None else dataclasses.replace(drive, start_ns=0)  # times include the start
        requests = phase.requests[list(traces.REQUEST_COLUMNS)]
        self._requests = requests.assign(arrival_ns=issue_ns.to_numpy())

    def record_state(self, end_ns: int, interval_ns: int) -> pd.DataFrame:
        """Return the state of the drive over time.

        To get a snapshot of the state after `end_ns`, a flush request long after that time is appended to the trace.

        Args:
            end_ns: The time until which the state is needed, since the start of the drive.
            interval_ns: The time between two snapshots of the flash blocks.

        Returns:
            A table with the columns ``series``, ``time_ns`` and ``value``. The series are the depth of the drive's
            queue, and the share of valid pages of each flash block in each snapshot.
        """
        flush = self._requests.iloc[-1:].assign(operation=traces.OPERATIONS["flush"], offset_bytes=0, size_bytes=0)
        flush["arrival_ns"] = max(end_ns, int(flush["arrival_ns"].iloc[0])) + 2 * interval_ns
        with_flush = pd.concat([self._requests, flush.astype(self._requests.dtypes)], ignore_index=True)
        session = ReplaySession(self._model, arrival_times=True, recorded_on=self._recorded_on)
        with tempfile.TemporaryDirectory(prefix="replay-") as folder:
            file = Path(folder) / "series.parquet"
            with session.recording(OutputFile(file), interval_ns, 0):
                for _ in session.run([with_flush]):
                    pass
            return pd.read_parquet(file)


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
