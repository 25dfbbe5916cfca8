"""Phases of block traces, and comparisons of recordings of one program on several drives.

A block trace lists requests to a drive with their times. A recording is a trace of a program that ran on a simulated
drive. A phase is a named part of a trace. A dependent replay keeps the dependencies between requests, see
`dependencies`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.raw.records import Replay, TraceReference
from iopatterns.twin import traces
from iopatterns.twin.dependencies import Dependencies
from iopatterns.twin.models import Model
from iopatterns.twin.trace_replay import ReplaySession
from iopatterns.twin.traces import parquet


class ReplayError(IoPatternsError):
    """The error raised if a block trace has changed, or lacks the requested phase.

    A block trace lists requests to a drive with their times. A phase is a named part of a trace.
    """


@dataclass(frozen=True)
class TracePhase:
    """A phase of a block trace, with all requests before it.

    A name of a phase that ends with ``*`` may select several phases, which are called runs.

    Attributes:
        name: The path of the trace, a Parquet file, as the cell names it.
        phase: The name of the phase.
        path: The path of the trace.
        sha256: The SHA-256 of the trace.
        requests: The requests of the trace until the end of the phase, with the columns of `traces.read_pieces`.
        runs: The positions of the requests of each run.
        idle_ns: The time from the last completion to the end of the phase; from the last arrival if the trace has no
            completion times.
        recorded_on: The simulated drive on which the trace was recorded; None if it was recorded elsewhere.
        live: Whether the same run of the workflow recorded the trace.
    """

    name: str
    phase: str
    path: Path
    sha256: str
    requests: pd.DataFrame
    runs: Sequence[np.ndarray]
    idle_ns: int
    recorded_on: traces.RecordedDrive | None
    live: bool

    @classmethod
    def read(cls, root: Path, trace: Replay | TraceReference, phase: str) -> "TracePhase":
        """Read a phase of a trace.

        Args:
            root: The folder to which the path of the trace is relative.
            trace: The trace.
            phase: The name of the phase. ``NAME*`` selects all phases whose name begins with NAME.

        Raises:
            ReplayError: The trace has another checksum, or lacks the phase. Or the phase has no request.
            TwinError: The file is not a trace.
        """
        path = root / trace["trace"]
        sha256 = files.sha256(path)
        if trace.get("sha256", sha256) != sha256:
            raise ReplayError(f"{path}: has changed since the run was planned. Run again.")
        bounds = phase_bounds(path, phase)
        end_ns = bounds[-1][1]
        requests = pd.concat(list(traces.read_pieces(path)), ignore_index=True)
        requests = requests[requests["arrival_ns"] < end_ns]
        arrival_ns = requests["arrival_ns"]
        runs = [np.flatnonzero(arrival_ns.between(begin, end, inclusive="left").to_numpy()) for begin, end in bounds]
        if not all(map(len, runs)):
            raise ReplayError(f"{path}: has no request in the phase '{phase}'.")
        last_ns = int(requests.get("completed_ns", arrival_ns).max())
        idle_ns = max(0, end_ns - last_ns)
        return cls(
            trace["trace"],
            phase,
            path,
            sha256,
            requests,
            runs,
            idle_ns,
            parquet.read_recorded_drive(path),
            "made_of" in trace,
        )

    @property
    def begins_idle(self) -> bool:
        """Whether all requests before the phase were complete when the phase began.

        False if the trace has no completion times.
        """
        first = int(self.runs[0][0])
        if "completed_ns" not in self.requests:
            return False
        return bool((self.requests["completed_ns"].iloc[:first] <= self.requests["arrival_ns"].iloc[first]).all())

    def was_on(self, model: Model) -> bool:
        """Return whether the trace was recorded on a drive with this model."""
        return self.recorded_on is not None and self.recorded_on.model_digest == model.digest

    def fits_on(self, model: Model) -> bool:
        """Return whether all requests are within the capacity of a drive."""
        ends = self.requests["offset_bytes"] + self.requests["size_bytes"]
        return bool(ends.max() <= model.size_bytes)


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


def compare_recordings(
    model: Model, phase: TracePhase, others: Sequence[TracePhase], replayed: pd.DataFrame | None
) -> list[dict[str, Any]]:
    """Compare recordings of a program on several drives with their dependent replays on one of these drives.

    The recording on this drive shows what the program really does on it. The replays of the other recordings show how
    well a dependent replay predicts this.

    Args:
        model: The model of this drive.
        phase: The phase in one recording.
        others: The phase in the other recordings.
        replayed: The dependent replay of `phase` on this drive, with the columns ``issue_ns`` and ``latency_ns``; None
            if it was not yet replayed in this way.

    Returns:
        A dictionary for each recording. If none of them was on this drive, there is only the replayed one, and only if
        its dependent replay is given. A recording with requests beyond the end of this drive is left out. Keys:

        - ``trace``: the path of the trace, as the cell names it
        - ``phase``: the name of the phase
        - ``drive``: the name of the drive on which it was recorded
        - ``on_this_drive``: whether this is the drive of the replay, with the same parameters
        - ``live``: whether the same run of the workflow recorded the trace
        - ``requests``: the number of requests of the phase
        - ``largest_depth``: the largest number of outstanding requests in the recording of the phase
        - ``recorded_ns`` and ``replayed_ns``: the duration of each run in the recording, and in the replay
        - ``recorded_latency_ns`` and ``replayed_latency_ns``: the mean latencies of the requests of the phase

    Raises:
        TwinError: A trace or the model is not valid.
    """
    if not any(each.was_on(model) for each in (phase, *others)):
        return [] if replayed is None or phase.recorded_on is None else [_compare(model, phase, replayed)]
    fitting = [(each, None) for each in others if each.recorded_on is not None and each.fits_on(model)]
    known = [] if phase.recorded_on is None else [(phase, replayed)]
    return [_compare(model, *each) for each in (*known, *fitting)]


def _compare(model: Model, phase: TracePhase, replayed: pd.DataFrame | None) -> dict[str, Any]:
    assert phase.recorded_on is not None, "compared traces are recordings"
    if replayed is None:
        session = ReplaySession(model, recorded_on=phase.recorded_on, trace=str(phase.path))
        replayed = pd.concat(list(session.run([phase.requests])), ignore_index=True).set_index("request").sort_index()
    times = phase.requests
    recorded = pd.DataFrame(
        {"issue_ns": times["arrival_ns"], "latency_ns": times["completed_ns"] - times["arrival_ns"]}
    )
    in_runs = np.concatenate(phase.runs)
    after, _ = Dependencies().of(times["arrival_ns"].to_numpy(), times["completed_ns"].to_numpy())
    return {
        "trace": phase.name,
        "phase": phase.phase,
        "drive": phase.recorded_on.name,
        "on_this_drive": phase.was_on(model),
        "live": phase.live,
        "requests": len(in_runs),
        "largest_depth": int((np.arange(1, len(after) + 1) - after)[in_runs].max()),
        **{
            f"{name}_ns": [ended - began for began, ended in (span(requests.iloc[run]) for run in phase.runs)]
            for name, requests in (("recorded", recorded), ("replayed", replayed))
        },
        **{
            f"{name}_latency_ns": float(requests["latency_ns"].iloc[in_runs].mean())
            for name, requests in (("recorded", recorded), ("replayed", replayed))
        },
    }


def span(requests: pd.DataFrame) -> tuple[int, int]:
    """Return the first submission time and the last end of some requests, in ns.

    Args:
        requests: The requests, with the columns ``issue_ns`` and ``latency_ns``.
    """
    return int(requests["issue_ns"].min()), int((requests["issue_ns"] + requests["latency_ns"]).max())
