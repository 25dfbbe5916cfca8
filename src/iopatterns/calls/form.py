"""The one form of traces of system calls: its calls and columns, the tables they are given in, and a trace's origin."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

from iopatterns.base import input_file
from iopatterns.base.errors import IoPatternsError

# Each call that is kept, and what it does to its file
CALL_KINDS = {
    "open": "open",
    "openat": "open",
    "creat": "open",
    "close": "close",
    "dup": "duplicate",
    "dup2": "duplicate",
    "dup3": "duplicate",
    "read": "read",
    "readv": "read",
    "pread64": "read",
    "preadv": "read",
    "preadv2": "read",
    "iread": "read",
    "write": "write",
    "writev": "write",
    "pwrite64": "write",
    "pwritev": "write",
    "pwritev2": "write",
    "iwrite": "write",
    "iowait": "wait",
    "lseek": "seek",
    "_llseek": "seek",
    "lseek64": "seek",
    "ftruncate": "truncate",
    "fsync": "sync",
    "fdatasync": "sync",
}
READS = tuple(call for call, kind in CALL_KINDS.items() if kind == "read")
WRITES = tuple(call for call, kind in CALL_KINDS.items() if kind == "write")
CALL_COLUMNS = ("process", "time_ns", "call", "file", "offset_bytes", "size_bytes", "duration_ns")
UNKNOWN = -1  # an offset that a call has not, a duration that the source does not say
PIECE_CALLS = 100_000

TraceOrigin = Literal["recorded", "stand-in"]
CALL_TYPE = pd.CategoricalDtype(list(CALL_KINDS))


class CallsError(IoPatternsError):
    """A trace of calls is none, or holds what cannot be; the message names file and line."""

    exit_status = 2


class Call(NamedTuple):
    """One call, as a row of a table of calls.

    ``offset_bytes``: of a read or write where it begins, of a seek where the file's position is then, of a truncation
    the new length of the file; `UNKNOWN` of all others. ``size_bytes``: what was read or written, else 0.
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
    """A file of a trace as it is being read."""

    ERROR = CallsError
    MOST_LINE = 2**20  # strace writes all that a call has moved into its line, if asked to


@dataclass(frozen=True)
class Trace:
    """A trace: what it is called, whether it was recorded or stands in for one that was, and its calls.

    ``form`` is the one that it was given in. ``read`` starts reading it anew.
    """

    name: str
    origin: TraceOrigin
    form: str
    read: Callable[[], Iterator[pd.DataFrame]]

    @property
    def label(self) -> str:
        """The name as tables and figures show it, which says of a stand-in that it is one."""
        return f"{self.name} (stand-in)" if self.origin == "stand-in" else self.name

    def pieces(self) -> Iterator[pd.DataFrame]:
        """Yield the calls in tables of at most `PIECE_CALLS` rows, so that a long trace costs no memory.

        Columns: ``process`` (int64), ``time_ns`` (int64, from the beginning of the trace), ``call`` (categorical of
        `CALL_KINDS`), ``file`` (str), ``offset_bytes``, ``size_bytes`` and ``duration_ns`` (int64), see `Call`. The calls of
        one process are in the order in which it made them. Raises CallsError.
        """
        return self.read()

    def table(self) -> pd.DataFrame:
        """Return all calls as one table, columns as of `pieces`. Raises CallsError."""
        return pd.concat([empty_calls(), *self.pieces()], ignore_index=True)


def call_tables(calls: Iterable[Call]) -> Iterator[pd.DataFrame]:
    """Yield calls as tables of at most `PIECE_CALLS` rows, columns as of `Trace.pieces`."""
    calls = iter(calls)
    while rows := list(islice(calls, PIECE_CALLS)):
        yield _table(rows)


def empty_calls() -> pd.DataFrame:
    """Return a table of no calls that has all columns."""
    return _table([])


def _table(rows: list[Call]) -> pd.DataFrame:
    columns = list(zip(*rows, strict=True)) or [()] * len(CALL_COLUMNS)
    numbers = {
        name: np.array(values, dtype=np.int64)
        for name, values in zip(CALL_COLUMNS, columns, strict=True)
        if name not in {"call", "file"}
    }
    call = pd.Categorical(columns[2], dtype=CALL_TYPE)
    table = pd.DataFrame({**numbers, "call": call, "file": pd.Series(columns[3], dtype=object)})
    return table[list(CALL_COLUMNS)]
