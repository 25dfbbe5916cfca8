"""Types and tables for traces of system calls.

A trace lists the system calls with which the processes of a program accessed files.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from iopatterns.base import input_file
from iopatterns.base.coverage import Coverage
from iopatterns.base.errors import IoPatternsError

_CALLS_BY_KIND = {
    "open": ("open", "openat", "creat"),
    "close": ("close",),
    "duplicate": ("dup", "dup2", "dup3"),
    "read": ("read", "readv", "pread64", "preadv", "preadv2", "iread"),
    "write": ("write", "writev", "pwrite64", "pwritev", "pwritev2", "iwrite"),
    "wait": ("iowait",),
    "seek": ("lseek", "_llseek", "lseek64"),
    "truncate": ("ftruncate",),
    "sync": ("fsync", "fdatasync"),
}
# Recorded calls and their kinds, in the order of the categories in Parquet files
CALL_KINDS = {call: kind for kind, calls in _CALLS_BY_KIND.items() for call in calls}
READS = _CALLS_BY_KIND["read"]
WRITES = _CALLS_BY_KIND["write"]
CALL_COLUMNS = ("process", "time_ns", "call", "file", "offset_bytes", "size_bytes", "duration_ns")
UNKNOWN = -1  # an offset of a call without offset, or a duration that was not recorded
PIECE_CALLS = 100_000

TraceOrigin = Literal["recorded", "stand-in"]
CALL_TYPE = pd.CategoricalDtype(list(CALL_KINDS))


class CallsError(IoPatternsError):
    """Error in a trace of system calls, or in its use.

    The message has the file, and the line if there is one.

    Attributes:
        exit_status: Exit status of the command line for this error, 2.
    """

    exit_status = 2


class Call(NamedTuple):
    """One system call on a file.

    Attributes:
        process: Number of the process.
        time_ns: Time at which the call began, in nanoseconds since the start of the trace.
        call: Name of the call, a key of `CALL_KINDS`, such as ``pread64``.
        file: Path of the file.
        offset_bytes: Offset of a read or write, new position in the file after a seek, or new size of a truncated file;
            `UNKNOWN` (-1) for all other calls.
        size_bytes: Number of bytes read or written; 0 for all other calls.
        duration_ns: Duration of the call in nanoseconds; `UNKNOWN` (-1) if it was not recorded.
    """

    process: int
    time_ns: int
    call: str
    file: str
    offset_bytes: int = UNKNOWN
    size_bytes: int = 0
    duration_ns: int = UNKNOWN


@dataclass(frozen=True)
class CallTraceFile(input_file.InputFile):
    """File with a trace of system calls, which is read line by line.

    A faulty line raises CallsError, or is skipped and counted.

    Attributes:
        path: The file.
        skipped: The counter of faulty lines, which are skipped. None raises an error at the first faulty line instead.
    """

    ERROR = CallsError
    ADVICE = ". `iopatterns calls convert --skip-bad` leaves out faulty lines"
    MOST_LINE = 2**20  # strace can print all transferred data in a line


@dataclass(frozen=True)
class Trace:
    """Trace of system calls, with which the processes of a program accessed files.

    The calls are not in memory. `pieces` and `table` read them.

    Attributes:
        name: Name of the trace.
        origin: ``recorded``, or ``stand-in`` for a synthetic trace that replaces an unpublished trace.
        form: Name of the original format, such as ``strace``.
        read: Function that reads the trace from its start, and returns an iterator over its tables. `pieces` describes
            the tables.
        coverage: How much of its source the trace represents; complete after a reading to the end.
    """

    name: str
    origin: TraceOrigin
    form: str
    read: Callable[[], Iterator[pd.DataFrame]]
    coverage: Coverage = field(default_factory=Coverage)

    @property
    def label(self) -> str:
        """Name of the trace for tables and figures, such as ``Sandia-cth (stand-in)``.

        A stand-in is a synthetic trace that replaces an unpublished trace. The label of any other trace is its name
        alone.
        """
        return f"{self.name} (stand-in)" if self.origin == "stand-in" else self.name

    def pieces(self) -> Iterator[pd.DataFrame]:
        """Yield the system calls as tables with a row for each call.

        A table has at most `PIECE_CALLS` (100,000) rows. The columns are the fields of `Call`: ``process``,
        ``time_ns``, ``call``, ``file``, ``offset_bytes``, ``size_bytes`` and ``duration_ns``. ``call`` is categorical,
        ``file`` is str, all others are int64. The calls of each process are in order of time.

        Each call of this method reads the trace from its start. Memory use does not grow with the length of the trace,
        except for logs of Darshan.

        Raises:
            CallsError: The trace is not valid.
        """
        return self.read()

    def table(self) -> pd.DataFrame:
        """Return all system calls as one table, with the columns that `pieces` describes.

        The complete trace must fit into memory.

        Raises:
            CallsError: The trace is not valid.
        """
        return pd.concat([empty_calls(), *self.pieces()], ignore_index=True)


def call_tables(calls: Iterable[Call]) -> Iterator[pd.DataFrame]:
    """Yield system calls as tables of at most `PIECE_CALLS` (100,000) rows.

    A table has a row for each call, in the given order. The columns are the fields of `Call`.
    """
    calls = iter(calls)
    while rows := list(islice(calls, PIECE_CALLS)):
        yield _table(rows)


def empty_calls() -> pd.DataFrame:
    """Return a table without rows that has the columns of `Trace.pieces`."""
    return _table([])


def _table(rows: list[Call]) -> pd.DataFrame:
    values = list(zip(*rows, strict=True)) or [()] * len(CALL_COLUMNS)
    types: dict[str, Any] = {**dict.fromkeys(CALL_COLUMNS, np.int64), "call": CALL_TYPE, "file": object}
    return pd.DataFrame(
        {name: pd.Series(column, dtype=types[name]) for name, column in zip(CALL_COLUMNS, values, strict=True)}
    )
