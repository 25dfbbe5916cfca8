"""Types and tables that all formats of block traces share.

A block trace lists the requests that a drive received.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import pandas as pd

from iopatterns.base import input_file
from iopatterns.base.coverage import Coverage
from iopatterns.base.input_file import printable
from iopatterns.twin.error import TwinError

# Operations with their numbers in the simulated drive
OPERATIONS = {"read": 0, "write": 1, "flush": 2, "discard": 3}
_SYNONYMS = {"r": "read", "w": "write", "sync": "flush", "datasync": "flush", "trim": "discard", "d": "discard"}
OPERATION_NUMBERS = {**OPERATIONS, **{short: OPERATIONS[name] for short, name in _SYNONYMS.items()}}
REQUEST_COLUMNS = ("operation", "offset_bytes", "size_bytes")
# Time columns of a table of requests, and their names in a CSV or Parquet file
TIME_COLUMNS = {"arrival_ns": "time_ns", "dispatched_ns": "dispatched_ns", "completed_ns": "completed_ns"}
UNKNOWN_TIME = -(2**63)
PIECE_REQUESTS = 100_000

# operation, offset_bytes, size_bytes, arrival_ns, dispatched_ns, completed_ns, volume
TraceRequest = tuple[int, int, int, int, int, int, str]
TraceRequests = Iterable[TraceRequest]


@dataclass(frozen=True)
class RecordedDrive:
    """The simulated drive on which a block trace was recorded, beneath the block layer of a kernel.

    A replay on this drive, with this seed and from this time on, serves each request exactly as in the recording,
    provided that the trace has all requests since the start of the drive.

    Attributes:
        name: Name of the drive: of the model, or of the drive in a study.
        model_digest: `Model.digest` of the drive, with the parameters that were set.
        seed: Seed of the drive's random behaviour.
        start_ns: Time of the first request, in nanoseconds since the start of the drive.
        call_ns: Virtual time of each system call of the recorded program, in nanoseconds.
        fault_ns: Virtual time of each page fault of the recorded program, in nanoseconds.
        repeatable: Whether another recording gives the same trace. False if the clock of the host had an influence.
    """

    name: str
    model_digest: str
    seed: int
    start_ns: int
    call_ns: int = 0
    fault_ns: int = 0
    repeatable: bool = True


@dataclass(frozen=True)
class TraceFile(input_file.InputFile):
    """File with a block trace, and how to read it.

    A block trace lists the requests that a drive received.

    Attributes:
        path: The file.
        skipped: Receives the number of faulty lines, which are skipped. None to raise an error at the first faulty
            line.
        issued: Whether to read the requests issued to the drive instead of those queued in the kernel, if the format
            contains both.
        adapter: A class of the user, as ``FILE.py:CLASS``, that parses the file; empty for a format that this package
            reads.
        coverage: Receives the numbers of records that the reader leaves out.
    """

    issued: bool = False
    adapter: str = ""
    coverage: Coverage = field(default_factory=Coverage)

    ERROR = TwinError
    ADVICE = ". `twin trace --skip-bad` leaves out faulty lines"

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise TwinError unless a table has the columns that each trace requires.

        The required columns are ``operation``, ``offset_bytes`` and ``size_bytes``. Other columns may be present.

        Args:
            names: The names of the table's columns.
        """
        for column in REQUEST_COLUMNS:
            if column not in names:
                raise self.error(
                    f"no column '{column}'. Required: {', '.join(REQUEST_COLUMNS)}, and time_ns or time_us for a replay"
                    f" by the times of the trace. The file has: {printable(', '.join(names))}. Read another format"
                    " with --adapter FILE.py:CLASS."
                )


def request_tables(requests: TraceRequests, times: Iterable[str]) -> Iterator[pd.DataFrame]:
    """Yield the requests of a block trace as tables, in the same order.

    Each table has at most 100,000 rows and the columns operation, offset_bytes and size_bytes, followed by the time
    columns in ``times``; see `traces.read_pieces`. Times count from any starting point. The last column, volume, is the
    name of the disk or file, and is missing if no request has one.

    Args:
        requests: The requests, in order. Each is a tuple of operation, offset_bytes, size_bytes, arrival_ns,
            dispatched_ns, completed_ns and volume; an unknown time is `UNKNOWN_TIME`.
        times: Names of the time columns that the tables have: any of ``arrival_ns``, ``dispatched_ns`` and
            ``completed_ns``.
    """
    requests = iter(requests)
    while rows := list(islice(requests, PIECE_REQUESTS)):
        piece = pd.DataFrame(_columns(rows, times))
        volumes = [row[-1] for row in rows]
        yield piece.assign(volume=pd.Categorical(volumes)) if any(volumes) else piece


def _columns(rows: Sequence[TraceRequest], times: Iterable[str]) -> dict[str, np.ndarray]:
    types = {"operation": np.uint8, "offset_bytes": np.uint64, "size_bytes": np.uint64}
    types |= dict.fromkeys(TIME_COLUMNS, np.int64)
    *values, _ = list(zip(*rows, strict=True)) or [()] * (len(types) + 1)
    return {
        name: np.array(column, dtype=types[name])
        for name, column in zip(types, values, strict=True)
        if name in REQUEST_COLUMNS or name in times
    }


def empty_requests() -> pd.DataFrame:
    """Return a table without rows that has all columns of a block trace.

    The columns are those of `traces.read_pieces`, including all three time columns.
    """
    return pd.DataFrame(_columns([], TIME_COLUMNS))


def check_order(arrival_ns: np.ndarray, previous_ns: int, first_request: int, trace: str) -> int:
    """Raise TwinError if arrival times decrease; return the last arrival time.

    Args:
        arrival_ns: Arrival times of consecutive requests, in nanoseconds. If the array is empty, ``previous_ns`` is
            returned.
        previous_ns: Arrival time of the request before these requests.
        first_request: Position of the first of these requests in the trace, from 0, for messages.
        trace: Name of the trace for messages; may be empty.
    """
    steps_ns = np.diff(arrival_ns.astype(np.int64), prepend=previous_ns)
    early = np.flatnonzero(steps_ns < 0)
    if len(early):
        at = early[0]
        raise TwinError(
            f"{f'{trace}: ' if trace else ''}request {first_request + at}: arrives {-steps_ns[at]} ns before the"
            " previous request. Sort the trace by time, or give a depth to replay it without its times."
        )
    return int(arrival_ns[-1]) if len(arrival_ns) else previous_ns
