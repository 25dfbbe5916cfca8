"""Replays block traces on a twin, without fio: latencies of all requests, a summary, the drive's counters."""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    """A replay's outcome.

    ``latencies`` has a row per request in the order in which they were over: ``request`` (place in the trace),
    ``issue_ns``, ``latency_ns`` (int64; from the issue to the return to the caller). ``counters`` are the drive's
    totals by name; ``duration_ns`` is the simulated time from 0 to the last return.
    """

    latencies: pd.DataFrame
    counters: dict[str, int]
    duration_ns: int

    def summary(self) -> dict[str, float]:
        """Return requests, duration_s, iops, and mean, quantiles and maximum of the latencies in microseconds."""
        histogram = LatencyHistogram()
        histogram.add(self.latencies["latency_ns"].to_numpy())
        return histogram.summary(self.duration_ns)


class LatencyHistogram:
    """Latencies by size, in memory that does not grow with their number; quantiles are within 0.4 %."""

    _PER_OCTAVE = 256

    def __init__(self) -> None:
        self.counts = np.zeros(64 * self._PER_OCTAVE, dtype=np.int64)
        self.total_ns = 0
        self.max_ns = 0

    def add(self, latency_ns: np.ndarray) -> None:
        """Count an array of latencies in nanoseconds."""
        if not len(latency_ns):
            return
        bins = (np.log2(np.maximum(latency_ns, 1)) * self._PER_OCTAVE).astype(np.int64)
        self.counts += np.bincount(bins, minlength=len(self.counts))
        self.total_ns += int(latency_ns.sum())
        self.max_ns = max(self.max_ns, int(latency_ns.max()))

    def quantile_ns(self, share: float) -> float:
        """Return the latency in nanoseconds below which ``share`` of the requests lie."""
        cumulated = np.cumsum(self.counts)
        place = int(np.searchsorted(cumulated, share * cumulated[-1]))
        return float(min(2 ** ((place + 0.5) / self._PER_OCTAVE), self.max_ns))

    def summary(self, duration_ns: int) -> dict[str, float]:
        """Return a replay's figures: requests, duration_s, iops, latencies in microseconds."""
        requests = int(self.counts.sum())
        if requests == 0:
            return {"requests": 0}
        return {
            "requests": requests,
            "duration_s": duration_ns / 1e9,
            "iops": requests / duration_ns * 1e9,
            "latency_mean_us": self.total_ns / requests / 1e3,
            **{f"latency_p{name}_us": self.quantile_ns(share) / 1e3 for name, share in _QUANTILES.items()},
            "latency_max_us": self.max_ns / 1e3,
        }


def replay_trace(
    model: Model,
    trace: pd.DataFrame | Iterable[pd.DataFrame] | Path | str,
    *,
    depth: int | None = None,
    threads: int = 1,
    counters_file: Path | None = None,
    interval_ns: int = 100_000_000,
    interval_bytes: int = 0,
) -> ReplayResult:
    """Replay a trace on a new drive of the model; everything is kept in memory.

    ``trace`` is a file (see `traces.read_pieces`) or tables with its columns. With ``depth``, ``threads`` threads keep
    that many requests each in flight (closed loop); without, each request is submitted at its ``arrival_ns`` (open
    loop). ``counters_file`` takes the drive's series, a snapshot every ``interval_ns`` of simulated time and
    ``interval_bytes`` written (0: never). Raises TwinError.
    """
    session = ReplaySession(model, depth=depth, threads=threads)
    with session.recording(counters_file, interval_ns, interval_bytes):
        done = list(session.run(_pieces(trace)))
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
    """Replay a trace of any length in bounded memory; return the summary and the drive's totals.

    ``output`` takes the latencies of all requests (columns as in `ReplayResult`), as .parquet or .csv. ``skipped`` is of
    `traces.read_pieces`. Raises TwinError.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    for path in filter(None, (output, counters_file)):
        counters.check_table_path(path)
    session = ReplaySession(model, depth=depth, threads=threads, trace=str(trace))
    histogram = LatencyHistogram()
    writer: Any = None
    if output is not None:
        schema = pa.schema([("request", pa.uint64()), ("issue_ns", pa.int64()), ("latency_ns", pa.int64())])
        parquet = output.suffix == ".parquet"
        writer = pa.parquet.ParquetWriter(output, schema) if parquet else pa.csv.CSVWriter(output, schema)
    try:
        with session.recording(counters_file, interval_ns, interval_bytes):
            for done in session.run(traces.read_pieces(trace, skipped=skipped)):
                histogram.add(done["latency_ns"].to_numpy())
                if writer is not None:
                    writer.write_table(pa.Table.from_pandas(done, schema=schema, preserve_index=False))
    finally:
        if writer is not None:
            writer.close()
    return histogram.summary(session.duration_ns), session.counters()


def _pieces(trace: pd.DataFrame | Iterable[pd.DataFrame] | Path | str) -> Iterable[pd.DataFrame]:
    if isinstance(trace, pd.DataFrame):
        return [trace]
    return traces.read_pieces(Path(trace)) if isinstance(trace, (str, Path)) else trace


class ReplaySession:
    """A replay that takes its trace, and gives back its latencies, piece by piece."""

    def __init__(self, model: Model, *, depth: int | None = None, threads: int = 1, trace: str = "") -> None:
        """Make a new drive of the model. ``trace`` is the trace's name in messages. Raises TwinError."""
        if depth is not None and depth < 1:
            raise TwinError(f"depth is {depth}, but must be at least 1 (leave it out to go by the trace's times)")
        if threads < 1:
            raise TwinError(f"threads is {threads}, but must be at least 1")
        self._open_loop = depth is None
        self._trace = trace
        self._fed = 0
        self._arrived_ns = 0
        self._native = _twin.Replay(model.text, threads, depth or 0)

    @contextmanager
    def recording(self, file: Path | None, interval_ns: int, interval_bytes: int) -> Iterator[None]:
        """Write the drive's series of what is replayed in the context to ``file`` (None: nowhere)."""
        if file is None:
            yield
            return
        with tempfile.NamedTemporaryFile(prefix="twin-counters-") as binary:
            self._native.record(binary.name, interval_ns, interval_bytes)
            yield
            counters.convert_counters(Path(binary.name), file)

    def run(self, pieces: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Yield the latencies (see `ReplayResult`) of the requests that are over after each piece, then of the rest."""
        for piece in pieces:
            if self._open_loop and "arrival_ns" not in piece:
                raise TwinError("the trace has no times (time_ns or time_us): give a depth to replay it without them")
            arrival = self._arrivals(piece) if self._open_loop else _NO_TIMES
            columns = [piece[name].to_numpy() for name in ("operation", "offset_bytes", "size_bytes")]
            try:
                yield _frame(self._native.feed(arrival, *columns))
            except ValueError as error:
                raise TwinError(f"{self._trace}: {error}" if self._trace else str(error)) from None
            self._fed += len(piece)
        yield _frame(self._native.finish())

    def _arrivals(self, piece: pd.DataFrame) -> np.ndarray:
        """Return a piece's times. Raises TwinError where one is before that of the request in front of it."""
        arrival = piece["arrival_ns"].to_numpy()
        if early := traces.first_unordered(arrival, self._arrived_ns):
            raise traces.unsorted_error(self._trace, self._fed + early[0], early[1])
        self._arrived_ns = int(arrival[-1]) if len(arrival) else self._arrived_ns
        return arrival

    def counters(self) -> dict[str, int]:
        """Return the drive's totals by name."""
        return dict(self._native.counters())

    @property
    def duration_ns(self) -> int:
        """Simulated time until the last request was over."""
        return int(self._native.end_ns)


def _frame(columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> pd.DataFrame:
    request, issue_ns, latency_ns = columns
    return pd.DataFrame({"request": request, "issue_ns": issue_ns, "latency_ns": latency_ns})
