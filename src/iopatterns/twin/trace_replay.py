"""Replay block traces on a simulated drive without fio.

A block trace lists the requests that a drive received: reads, writes, flushes and discards.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from iopatterns import _twin
from iopatterns.base.ownership import OutputFile
from iopatterns.twin import counters, traces
from iopatterns.twin.dependencies import Dependencies
from iopatterns.twin.error import TwinError
from iopatterns.twin.models import Model

_QUANTILES = {"50": 0.5, "90": 0.9, "99": 0.99, "99_9": 0.999}
_NO_TIMES = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ReplayResult:
    """Result of replaying a block trace on a simulated drive.

    A block trace lists the requests that a drive received.

    Attributes:
        latencies: A row for each request, in order of completion. The column ``request`` is the position of the request
            in the trace, from 0. ``issue_ns`` is the simulated time at which the request was issued. ``latency_ns`` is
            the time from the issue until the submitting thread has the result. Both times are in nanoseconds.
        counters: Final values of the drive's counters by name, such as ``write_bytes`` and ``block_erases``.
        duration_ns: Simulated time from the start of the trace to the last completion, in nanoseconds.
    """

    latencies: pd.DataFrame
    counters: dict[str, int]
    duration_ns: int

    def summary(self) -> dict[str, float]:
        """Return the number of requests, the duration, the rate and the latencies.

        The percentiles have an error of at most 0.4 %. All other values are exact.

        Returns:
            A mapping with the keys ``requests``, ``duration_s``, ``iops``, ``latency_mean_us``, ``latency_p50_us``,
            ``latency_p90_us``, ``latency_p99_us``, ``latency_p99_9_us`` and ``latency_max_us``. Latencies are in
            microseconds. Without requests the only key is ``requests``.
        """
        histogram = LatencyHistogram()
        histogram.add(self.latencies["latency_ns"].to_numpy())
        return histogram.summary(self.duration_ns)


class LatencyHistogram:
    """Histogram of latencies that uses constant memory.

    The relative error of a quantile is at most 0.4 %. The mean and the maximum are exact.
    """

    _BINS_PER_OCTAVE = 256

    def __init__(self) -> None:
        self._counts = np.zeros(64 * self._BINS_PER_OCTAVE, dtype=np.int64)
        self._total_ns = 0
        self._max_ns = 0

    def add(self, latency_ns: np.ndarray) -> None:
        """Add latencies in nanoseconds to the histogram.

        Args:
            latency_ns: Array of integers; may be empty.
        """
        if not len(latency_ns):
            return
        bins = (np.log2(np.maximum(latency_ns, 1)) * self._BINS_PER_OCTAVE).astype(np.int64)
        self._counts += np.bincount(bins, minlength=len(self._counts))
        self._total_ns += int(latency_ns.sum())
        self._max_ns = max(self._max_ns, int(latency_ns.max()))

    def quantile_ns(self, share: float) -> float:
        """Return a quantile of the latencies in nanoseconds.

        Its relative error is at most 0.4 %. The quantile of an empty histogram is 0.

        Args:
            share: Share of the requests, from 0 to 1, that do not exceed the quantile: 0.5 gives the median.
        """
        cumulated = np.cumsum(self._counts)
        place = int(np.searchsorted(cumulated, share * cumulated[-1]))
        return float(min(2 ** ((place + 0.5) / self._BINS_PER_OCTAVE), self._max_ns))

    def summary(self, duration_ns: int) -> dict[str, float]:
        """Return the number of requests, the duration, the rate and the latencies.

        Args:
            duration_ns: Simulated duration of the replay in nanoseconds, from which the rate is computed.

        Returns:
            A mapping with the keys ``requests``, ``duration_s``, ``iops``, ``latency_mean_us``, ``latency_p50_us``,
            ``latency_p90_us``, ``latency_p99_us``, ``latency_p99_9_us`` and ``latency_max_us``. Latencies are in
            microseconds. Without requests the only key is ``requests``.
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
    arrival_times: bool = False,
    counters_file: Path | None = None,
    interval_ns: int = 100_000_000,
) -> ReplayResult:
    """Replay a block trace on a new simulated drive, and return the latencies.

    A block trace lists the requests that a drive received. The result holds the latencies of all requests in memory.
    `replay_to_files` replays traces of any length.

    Args:
        model: The model of the drive.
        trace: A trace file of any supported format, see `traces.read_pieces`. Or one table, or several consecutive
            tables, with the columns operation, offset_bytes, size_bytes and, unless ``depth`` is given, arrival_ns. The
            column completed_ns is optional.
        depth: Number of requests that each thread keeps outstanding, whatever the times of the trace; None to keep the
            dependencies or the arrival times of the trace, see `ReplaySession`.
        threads: Number of threads that submit requests with a ``depth``.
        arrival_times: Whether to keep the arrival times, even if the trace has completion times.
        counters_file: New file for a table of the drive's counters (statistics such as the bytes written) over time,
            .parquet or .csv; None to write no file.
        interval_ns: Simulated time between two records of the counters, in nanoseconds.

    Raises:
        TwinError: The trace or an argument is not valid.
        OutputError: ``counters_file`` exists.
    """
    pieces: Iterable[pd.DataFrame]
    recorded_on = None
    if isinstance(trace, (str, Path)):
        pieces, recorded_on = traces.read_pieces(Path(trace)), traces.recorded_drive(Path(trace))
    else:
        pieces = [trace] if isinstance(trace, pd.DataFrame) else trace
    session = ReplaySession(model, depth=depth, threads=threads, arrival_times=arrival_times, recorded_on=recorded_on)
    with ExitStack() as stack:
        if counters_file is not None:
            stack.enter_context(session.recording(OutputFile(counters_file), interval_ns, 0))
        done = list(session.run(pieces))
    return ReplayResult(pd.concat(done, ignore_index=True), session.counters(), session.duration_ns)


def replay_to_files(
    model: Model,
    trace: Path,
    *,
    depth: int | None = None,
    threads: int = 1,
    arrival_times: bool = False,
    output: Path | None = None,
    counters_file: Path | None = None,
    interval_ns: int,
    interval_bytes: int,
    reading: traces.ReadingOptions | None = None,
    overwrite: bool = False,
) -> "ReplaySession":
    """Replay a block trace of any length on a new simulated drive.

    A block trace lists the requests that a drive received. Memory use does not grow with the length of the trace.

    Args:
        model: The model of the drive.
        trace: The trace file, of any supported format; see `traces.read_pieces`.
        depth: Number of requests that each thread keeps outstanding; None to keep the dependencies or the arrival times
            of the trace, see `ReplaySession`.
        threads: Number of threads that submit requests with a ``depth``.
        arrival_times: Whether to keep the arrival times, even if the trace has completion times.
        output: File for the latencies of all requests, .parquet or .csv, with the columns of `ReplayResult.latencies`;
            None to write no file.
        counters_file: File for a table of the drive's counters (statistics such as the bytes written) over time,
            .parquet or .csv; None to write no file.
        interval_ns: Simulated time between two records of the counters, in nanoseconds.
        interval_bytes: Written bytes between two records of the counters; 0 to record by time only.
        reading: Which requests of the trace are replayed, and what happens to its faulty lines. None to replay all, and
            to raise an error at the first faulty line.
        overwrite: Whether ``output`` and ``counters_file`` may replace existing files.

    Returns:
        The session after the replay, with a summary and the counters of the drive.

    Raises:
        TwinError: The trace or an argument is not valid.
        OutputError: An output is the trace or the model file, or exists and ``overwrite`` is false.
    """
    import pyarrow as pa

    reading = reading or {}
    outputs = {}
    for path in filter(None, (output, counters_file)):
        counters.check_table_path(path)
        outputs[path] = OutputFile(path, inputs=[trace, model.path], overwrite=overwrite)
    if output is not None and output == counters_file:
        raise TwinError(f"{output}: is named for two outputs. Give two names.")
    session = ReplaySession(
        model,
        depth=depth,
        threads=threads,
        arrival_times=arrival_times,
        recorded_on=traces.recorded_drive(trace, reading.get("adapter", "")),
        trace=str(trace),
    )
    schema = pa.schema([("request", pa.uint64()), ("issue_ns", pa.int64()), ("latency_ns", pa.int64())])
    with ExitStack() as stack:
        writer = None
        if output is not None:
            writer = stack.enter_context(counters.table_writer(stack.enter_context(outputs[output]), schema))
        if counters_file is not None:
            stack.enter_context(session.recording(outputs[counters_file], interval_ns, interval_bytes))
        for done in session.run(traces.read_pieces(trace, **reading)):
            if writer is not None:
                writer.write_table(pa.Table.from_pandas(done, schema=schema, preserve_index=False))
    return session


class ReplaySession:
    """Replay of one block trace on a new simulated drive, table by table.

    A block trace lists the requests that a drive received. The method `run` replays the trace. A session replays one
    trace only.

    A session keeps one property of the trace or of the programs:

    - ``DEPTH``: Each thread keeps a given number of requests outstanding. Times in the trace have no effect.
    - ``DEPENDENCIES``: Each request is submitted when as many requests are complete as in the trace, after the same
      delay (see `dependencies`). A faster drive ends the replay earlier. This is the default for a trace with
      completion times.
    - ``ARRIVAL_TIMES``: Each request is submitted at its time in the trace, even if earlier requests are outstanding.
      This is the default for a trace without completion times.

    Times of the session are nanoseconds since the start of the drive. They differ from the times of the trace if the
    trace was recorded on a simulated drive that had started earlier.
    """

    DEPTH = "depth"
    DEPENDENCIES = "dependencies"
    ARRIVAL_TIMES = "arrival times"
    # A larger share of prompt requests means that programs waited for the drive
    _MAX_PROMPT_SHARE = 0.5

    def __init__(
        self,
        model: Model,
        *,
        depth: int | None = None,
        threads: int = 1,
        arrival_times: bool = False,
        recorded_on: traces.RecordedDrive | None = None,
        trace: str = "",
    ) -> None:
        """Create the simulated drive on which a trace is replayed.

        Args:
            model: The model of the drive.
            depth: Number of requests that each thread keeps outstanding; None to keep the dependencies or the arrival
                times of the trace.
            threads: Number of threads that submit requests with a ``depth``.
            arrival_times: Whether to keep the arrival times, even if the trace has completion times.
            recorded_on: The simulated drive on which the trace was recorded, beneath the block layer of a kernel. The
                replay then has no block layer either, and starts at the same time with the same seed. None if the trace
                was recorded elsewhere.
            trace: Name of the trace for error messages; may be empty.

        Raises:
            TwinError: ``depth`` or ``threads`` is less than 1, or ``arrival_times`` is given with a ``depth``.
        """
        if depth is not None and depth < 1:
            raise TwinError(f"depth is {depth}, but must be at least 1 (leave it out to use the times of the trace)")
        if depth is not None and arrival_times:
            raise TwinError("a replay keeps either a depth or the arrival times: leave out one of them")
        if threads < 1:
            raise TwinError(f"threads is {threads}, but must be at least 1")
        self._kept = self.DEPTH if depth else self.ARRIVAL_TIMES if arrival_times else None
        self._trace = trace
        self._fed = 0
        self._last_ns = 0
        # with a depth, the first request is submitted when the drive starts
        self._start_ns = 0 if recorded_on is None or depth is not None else recorded_on.start_ns
        self._dependencies = Dependencies()
        self._histogram = LatencyHistogram()
        drive = model if recorded_on is None else model.without_block_layer()
        self._native = _twin.Replay(drive.text, threads, depth or 0, 0 if recorded_on is None else recorded_on.seed)

    @contextmanager
    def recording(self, file: OutputFile, interval_ns: int, interval_bytes: int) -> Iterator[None]:
        """Record the drive's counters over time, and write them to a file on exit.

        Counters are statistics of the drive, such as the bytes written. The context manager must enclose the iteration
        over `run`. `counters.convert_counters` describes the table.

        Args:
            file: File for the table, .parquet or .csv.
            interval_ns: Simulated time between two records, in nanoseconds.
            interval_bytes: Written bytes between two records; 0 to record by time only.

        Raises:
            TwinError: The file has another ending.
        """
        counters.check_table_path(file.path)
        with tempfile.NamedTemporaryFile(prefix="twin-counters-") as binary:
            self._native.record(binary.name, interval_ns, interval_bytes)
            yield
            with file as temporary:
                counters.convert_counters(Path(binary.name), temporary)

    def run(self, pieces: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Submit the requests of a trace; yield the latencies of completed requests.

        Args:
            pieces: Consecutive parts of the trace. Each is a table with the columns operation, offset_bytes,
                size_bytes and, without a depth, arrival_ns; see `traces.read_pieces`. To keep dependencies, each
                table must have the column completed_ns.

        Yields:
            A table after each part of the trace, and one more at the end. The table has a row for each request that has
            completed since the previous table, with the columns of `ReplayResult.latencies`. It may be empty.

        Raises:
            TwinError: A request is not valid. Or, without a depth, the arrival times are missing or decrease.
        """
        for piece in pieces:
            delay_ns, after = _NO_TIMES, None
            if self._kept != self.DEPTH:
                delay_ns, after = self._times(piece)
            operation, offset_bytes, size_bytes = (piece[name].to_numpy() for name in traces.REQUEST_COLUMNS)
            try:
                done = self._native.feed(delay_ns, operation, offset_bytes, size_bytes, after)
            except ValueError as error:
                raise TwinError(f"{self._trace}: {error}" if self._trace else str(error)) from None
            self._fed += len(piece)
            yield self._latency_table(done)
        yield self._latency_table(self._native.finish())

    def _times(self, piece: pd.DataFrame) -> tuple[np.ndarray, np.ndarray | None]:
        """Return when the requests of a piece of a trace are issued.

        Returns:
            The delay of each request in nanoseconds, and the number of completions after which the delay begins; None
            if each delay begins at the start of the drive.

        Raises:
            TwinError: The arrival times are missing or decrease.
        """
        if "arrival_ns" not in piece:
            raise TwinError("the trace has no times (time_ns or time_us): give a depth to replay it without them")
        arrival_ns = piece["arrival_ns"].to_numpy()
        self._last_ns = traces.check_order(arrival_ns, self._last_ns, self._fed, self._trace)
        if self._kept is None:
            self._kept = self.DEPENDENCIES if "completed_ns" in piece else self.ARRIVAL_TIMES
        if "completed_ns" not in piece:
            return arrival_ns + self._start_ns, None
        after, delay_ns = self._dependencies.of(arrival_ns, piece["completed_ns"].to_numpy())
        if self._kept == self.ARRIVAL_TIMES:
            return arrival_ns + self._start_ns, None
        return np.where(after == 0, delay_ns + self._start_ns, delay_ns), after

    def _latency_table(self, columns: tuple[np.ndarray, np.ndarray, np.ndarray]) -> pd.DataFrame:
        request, issue_ns, latency_ns = columns
        self._histogram.add(latency_ns)
        return pd.DataFrame({"request": request, "issue_ns": issue_ns, "latency_ns": latency_ns})

    def summary(self) -> dict[str, str | float]:
        """Return what the replay keeps, the number of requests, the duration, the rate and the latencies.

        Returns:
            A mapping with the key ``keeps``, which is ``depth``, ``dependencies`` or ``arrival times``, and the keys of
            `LatencyHistogram.summary`.
        """
        kept = {} if self._kept is None else {"keeps": self._kept}
        return {**kept, **self._histogram.summary(self.duration_ns)}

    def warning(self) -> str:
        """Return a warning if the replay keeps the arrival times of programs that waited for the drive.

        The text is empty if there is nothing to warn of, and if the trace has no completion times.
        """
        share = self._dependencies.prompt_share
        if self._kept != self.ARRIVAL_TIMES or share <= self._MAX_PROMPT_SHARE:
            return ""
        return (
            f"{share:.0%} of the requests follow a completion at once: the programs waited for the recorded drive. On"
            " another drive, their requests would not arrive at these times. Leave out --arrival-times to keep their"
            " dependencies."
        )

    def counters(self) -> dict[str, int]:
        """Return the present values of the drive's counters by name.

        Counters are statistics of the drive since its start, such as ``write_bytes`` and ``block_erases``.
        """
        return dict(self._native.counters())

    @property
    def duration_ns(self) -> int:
        """Simulated time from the start of the trace to the last completion, in nanoseconds."""
        return max(0, int(self._native.end_ns) - self._start_ns)
