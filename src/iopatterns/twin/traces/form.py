"""The one form of traces: its columns, the tables they are given in, and what becomes of a fault in a file."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd

from iopatterns.base import input_file
from iopatterns.base.input_file import printable
from iopatterns.twin.error import TwinError

# The operations of a trace, in the numbers of the simulated drive.
OPERATIONS = {"read": 0, "write": 1, "flush": 2, "discard": 3}
_SYNONYMS = {"r": "read", "w": "write", "sync": "flush", "datasync": "flush", "trim": "discard", "d": "discard"}
OPERATION_NUMBERS = {**OPERATIONS, **{short: OPERATIONS[name] for short, name in _SYNONYMS.items()}}
REQUEST_COLUMNS = ("operation", "offset_bytes", "size_bytes")
# The times of a table of requests, and what the same are called in a file of the form
TIME_COLUMNS = {"arrival_ns": "time_ns", "dispatched_ns": "dispatched_ns", "completed_ns": "completed_ns"}
UNKNOWN_TIME = -(2**63)  # a time that the source does not say
PIECE_REQUESTS = 100_000

# A request: operation, offset_bytes, size_bytes, arrival_ns, dispatched_ns, completed_ns
TraceRequest = tuple[int, int, int, int, int, int]
TraceRequests = Iterable[TraceRequest]


@dataclass(frozen=True)
class TraceFile(input_file.InputFile):
    """A trace's file as it is being read. ``issued`` asks for the requests as they went to the drive, of a form that
    has these apart.
    """

    issued: bool = False

    ERROR = TwinError

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise TwinError where a table with these columns is no trace."""
        for column in REQUEST_COLUMNS:
            if column not in names:
                raise self.error(
                    f"no column '{column}'. Needed: {', '.join(REQUEST_COLUMNS)}, and time_ns or time_us where the trace is to"
                    f" be replayed by its times. There: {printable(', '.join(names))}."
                )


def request_tables(requests: TraceRequests, times: Iterable[str]) -> Iterator[pd.DataFrame]:
    """Yield requests as tables of at most `PIECE_REQUESTS` rows (columns as of `read_pieces`).

    ``times`` are those of `TIME_COLUMNS` that the trace has. They are counted from the arrival of the first request.
    """
    requests = iter(requests)
    start_ns: int | None = None
    while rows := list(islice(requests, PIECE_REQUESTS)):
        operation, offset, size, *moments = zip(*rows, strict=True)
        piece: dict[str, np.ndarray] = {
            "operation": np.array(operation, dtype=np.uint8),
            "offset_bytes": np.array(offset, dtype=np.uint64),
            "size_bytes": np.array(size, dtype=np.uint64),
        }
        for name, values in zip(TIME_COLUMNS, moments, strict=True):
            if name in times:
                piece[name] = np.array(values, dtype=np.int64)
        if "arrival_ns" in piece:
            start_ns = subtract_start(piece, start_ns)
        yield pd.DataFrame(piece)


def empty_requests() -> pd.DataFrame:
    """Return a table of no requests that has all columns."""
    sizes = {name: np.empty(0, np.uint64) for name in REQUEST_COLUMNS[1:]}
    times = {name: np.empty(0, np.int64) for name in TIME_COLUMNS}
    return pd.DataFrame({"operation": np.empty(0, np.uint8), **sizes, **times})


def subtract_start(piece: dict[str, np.ndarray], start_ns: int | None) -> int:
    """Make the times of a piece count from the first arrival, which is returned; ``start_ns`` is that once known."""
    start = int(piece["arrival_ns"][0]) if start_ns is None else start_ns
    for name in TIME_COLUMNS:
        if name in piece:
            piece[name] = np.where(piece[name] == UNKNOWN_TIME, UNKNOWN_TIME, piece[name] - start)
    return start


def first_unordered(arrival_ns: np.ndarray, arrived_ns: int) -> tuple[int, int] | None:
    """Return the place of the first arrival that is before the one in front of it, and by how many nanoseconds.

    ``arrived_ns`` is the arrival in front of the first. None where all are in order.
    """
    before = np.concatenate(([arrived_ns], arrival_ns[:-1]))
    early = np.flatnonzero(arrival_ns < before)
    return (int(early[0]), int(before[early[0]] - arrival_ns[early[0]])) if len(early) else None
