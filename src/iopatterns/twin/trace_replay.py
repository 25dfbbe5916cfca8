"""Replay block traces on a simulated drive without fio."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from iopatterns import _twin
from iopatterns.twin import counters, traces
from iopatterns.twin.error import TwinError
from iopatterns.twin.models import Model

_QUANTILES = {"50": 0.5, "90": 0.9, "99": 0.99, "99_9": 0.999}
_NO_TIMES = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ReplayResult:
    """The result of replaying a block trace on a simulated drive.

    Attributes:
        latencies: A row for each request, in order of completion. Columns: ``request`` (position in the trace, from 0),
            ``issue_ns`` and ``latency_ns`` (from the issue until the caller has the result; int64).
        counters: Final values of the drive's counters, by name.
        duration_ns: Simulated time from 0 to the last completion.
    """

    latencies: pd.DataFrame
    counters: dict[str, int]
    duration_ns: int

    def summary(self) -> dict[str, float]:
        """Return rate and latencies, see `LatencyHistogram.summary`."""
        histogram = LatencyHistogram()
        histogram.add(self.latencies["latency_ns"].to_numpy())
        return histogram.summary(self.duration_ns)


class LatencyHistogram:
    """A histogram of latencies in constant memory.

    The error of its quantiles is at most 0.4 %.
    """

    _BINS_PER_OCTAVE = 256

    def __init__(self) -> None:
        self._counts = np.zeros(64 * self._BINS_PER_OCTAVE, dtype=np.int64)
        self._total_ns = 0
        self._max_ns = 0

    def add(self, latency_ns: np.ndarray) -> None:
        """Add latencies in nanoseconds."""
        if not len(latency_ns):
            return
        bins = (np.log2(np.maximum(latency_ns, 1)) * self._BINS_PER_OCTAVE).astype(np.int64)
        self._counts += np.bincount(bins, minlength=len(self._counts))
        self._total_ns += int(latency_ns.sum())
        self._max_ns = max(self._max_ns, int(latency_ns.max()))

    def quantile_ns(self, share: float) -> float:
        """Return the latency that a share of the requests does not exceed.

        The share is from 0 to 1, the latency in nanoseconds.
        """
        cumulated = np.cumsum(self._counts)
        place = int(np.searchsorted(cumulated, share * cumulated[-1]))
        return float(min(2 ** ((place + 0.5) / self._BINS_PER_OCTAVE), self._max_ns))

    def summary(self, duration_ns: int) -> dict[str, float]:
        """Return the number of requests, the duration, the rate and the latencies.

        The latencies are mean, quantiles and maximum in microseconds. Each key ends with its unit.

        Args:
            duration_ns: Duration of the replay.
        """
        requests = int(self._counts.sum())
        if requests == 0:
            return {"requests": 0}
        return {
            "requests": requests,
            "duration_s": duration_ns / 1e9,
            "iops": requests / duration_ns * 1e9,
            "latency_mean_us": self._total_ns / requests / 1e3,
            **{f"latency_p{name}_us": self.quantile_ns(share) / 1e3 for name, share in _QUANTILES.items()},
            "latency_max_us": self._max_ns / 1e3,
        }


def replay_trace(
    model: Model,
    trace: pd.DataFrame | Iterable[pd.DataFrame] | Path | str,
    *,
    depth: int | None = None,
    threads: int = 1,
    counters_file: Path | None = None,
    interval_ns: int = 100_000_000,
) -> ReplayResult:
    """Replay a trace on a new drive; return the latencies of all requests.

    All latencies are in memory. For traces of any length see `replay_to_files`.

    Args:
        model: The model of the drive.
        trace: A trace file, or one or several tables with the columns of `traces.read_pieces`.
        depth: Number of requests that each thread keeps outstanding (closed loop). None submits each request at its
            ``arrival_ns`` (open loop).
        threads: Number of threads that submit requests.
        counters_file: File for the drive's counters over time, .parquet or .csv.
        interval_ns: Simulated time between two snapshots of the counters.

    Raises:
        TwinError: The trace or an argument is not valid.
    """
    session = ReplaySession(model, depth=depth, threads=threads)
    pieces: Iterable[pd.DataFrame]
    if isinstance(trace, (str, Path)):
        pieces = traces.read_pieces(Path(trace))
    else:
        pieces = [trace] if isinstance(trace, pd.DataFrame) else trace
    with session.recording(counters_file, interval_ns, 0):
        done = list(session.run(pieces))
    return ReplayResult(pd.concat(done, ignore_index=True), session.counters(), session.duration_ns)


def replay_to_files(
    model: Model,
    trace: Path,
    *,
    depth: int | None = None,
    threads: int = 1,
    output: Path | None = None,
    counters_file: Path | None = None,
    interval_ns: int,
    interval_bytes: int,
    skipped: traces.SkippedLines | None = None,
) -> tuple[dict[str, float], dict[str, int]]:
    """Replay a trace in bounded memory; return a summary and the counters.

    Args:
        model: The model of the drive.
        trace: The trace file.
        depth: See `replay_trace`.
        threads: See `replay_trace`.
        output: File for the latencies of all requests (columns of `ReplayResult.latencies`), .parquet or .csv.
        counters_file: See `replay_trace`.
        interval_ns: See `replay_trace`.
        interval_bytes: Bytes written between two snapshots; 0 for no limit.
        skipped: Counts faulty lines, which are skipped; None to raise an error at the first.

    Raises:
        TwinError: The trace or an argument is not valid.
    """
    import pyarrow as pa

    for path in filter(None, (output, counters_file)):
        counters.check_table_path(path)
    session = ReplaySession(model, depth=depth, threads=threads, trace=str(trace))
    histogram = LatencyHistogram()
    schema = pa.schema([("request", pa.uint64()), ("issue_ns", pa.int64()), ("latency_ns", pa.int64())])
    opened = nullcontext() if output is None else counters.table_writer(output, schema)
    with opened as writer, session.recording(counters_file, interval_ns, interval_bytes):
        for done in session.run(traces.read_pieces(trace, skipped=skipped)):
            histogram.add(done["latency_ns"].to_numpy())
            if writer is not None:
                writer.write_table(pa.Table.from_pandas(done, schema=schema, preserve_index=False))
    return histogram.summary(session.duration_ns), session.counters()


class ReplaySession:
    """A replay on a new drive that reads its trace table by table."""

    def __init__(self, model: Model, *, depth: int | None = None, threads: int = 1, trace: str = "") -> None:
        """Create a drive of the model.

        Args:
            model: The model of the drive.
            depth: See `replay_trace`.
            threads: See `replay_trace`.
            trace: Name of the trace for messages.

        Raises:
            TwinError: ``depth`` or ``threads`` is less than 1.
        """
        if depth is not None and depth < 1:
            raise TwinError(f"depth is {depth}, but must be at least 1 (leave it out to use the times of the trace)")
        if threads < 1:
            raise TwinError(f"threads is {threads}, but must be at least 1")
        self._open_loop = depth is None
        self._trace = trace
        self._fed = 0
        self._last_ns = 0
        self._native = _twin.Replay(model.text, threads, depth or 0)

    @contextmanager
    def recording(self, file: Path | None, interval_ns: int, interval_bytes: int) -> Iterator[None]:
        """Record the drive's counters, and write them to a file on exit.

        Args:
            file: The file, .parquet or .csv; None to record nothing.
            interval_ns: Simulated time between two snapshots.
            interval_bytes: Bytes written between two snapshots; 0 for no limit.
        """
        if file is None:
            yield
            return
        with tempfile.NamedTemporaryFile(prefix="twin-counters-") as binary:
            self._native.record(binary.name, interval_ns, interval_bytes)
            yield
            counters.convert_counters(Path(binary.name), file)

    def run(self, pieces: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Replay tables of requests; yield the latencies of completed requests.

        Latencies are yielded after each table and at the end.

        Args:
            pieces: Tables with the columns of `traces.read_pieces`, in the order of the trace.

        Yields:
            Tables with the columns of `ReplayResult.latencies`.

        Raises:
            TwinError: The trace has no times in an open loop, its times decrease, or a request is not valid.
        """
        for piece in pieces:
            if self._open_loop and "arrival_ns" not in piece:
                raise TwinError("the trace has no times (time_ns or time_us): give a depth to replay it without them")
            arrival = _NO_TIMES
            if self._open_loop:
                arrival = piece["arrival_ns"].to_numpy()
                self._last_ns = traces.check_order(arrival, self._last_ns, self._fed, self._trace)
            columns = [piece[name].to_numpy() for name in ("operation", "offset_bytes", "size_bytes")]
            try:
                yield _latency_table(self._native.feed(arrival, *columns))
            except ValueError as error:
                raise TwinError(f"{self._trace}: {error}" if self._trace else str(error)) from None
            self._fed += len(piece)
        yield _latency_table(self._native.finish())

    def counters(self) -> dict[str, int]:
        """Return the present values of the drive's counters by name."""
        return dict(self._native.counters())

    @property
    def duration_ns(self) -> int:
        """Simulated time from 0 to the last completion."""
        return int(self._native.end_ns)


def _latency_table(columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> pd.DataFrame:
    request, issue_ns, latency_ns = columns
    return pd.DataFrame({"request": request, "issue_ns": issue_ns, "latency_ns": latency_ns})
