"""The one form of traces: its columns, the tables they are given in, and what becomes of a fault in a file."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from iopatterns.base import messages
from iopatterns.twin.error import TwinError

# The operations of a trace, in the numbers of the simulated drive.
OPERATIONS = {"read": 0, "write": 1, "flush": 2, "discard": 3}
_SYNONYMS = {"r": "read", "w": "write", "sync": "flush", "datasync": "flush", "trim": "discard", "d": "discard"}
OPERATION_NUMBERS = {**OPERATIONS, **{short: OPERATIONS[name] for short, name in _SYNONYMS.items()}}
COLUMNS = ("operation", "offset_bytes", "size_bytes")
# The times of a table of requests, and what the same are called in a file of the form
TIMES = {"arrival_ns": "time_ns", "dispatched_ns": "dispatched_ns", "completed_ns": "completed_ns"}
UNKNOWN = -(2**63)  # a time that the source does not say
MOST = 2**62  # bytes and nanoseconds: their sums stay within 64 bits
PIECE_REQUESTS = 100_000
_MOST_LINE = 4096  # as fio reads its logs
_FAULTS_KEPT = 3

# A request: operation, offset_bytes, size_bytes, arrival_ns, dispatched_ns, completed_ns
Request = tuple[int, int, int, int, int, int]
Requests = Iterable[Request]


@dataclass
class Skipped:
    """The faulty lines (records, rows) that were left out of a trace: how many, and what the first ones were."""

    count: int = 0
    first: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Source:
    """A trace's file as it is being read.

    Where ``skipped`` is given, a fault is counted there and its line left out; else the first one ends the reading.
    ``issued`` asks for the requests as they went to the drive, of a form that has these apart.
    """

    path: Path
    skipped: Skipped | None = None
    issued: bool = False

    def fault(self, place: str, why: object, count: int = 1) -> None:
        """Count the fault at a place of the file, which stands for ``count`` of them. Raises TwinError."""
        error = self.error(why, place)
        if self.skipped is None:
            raise error
        if len(self.skipped.first) < _FAULTS_KEPT:
            self.skipped.first.append(str(error))
        self.skipped.count += count

    def error(self, why: object, place: str = "") -> TwinError:
        """Return the error that names the file and the place in it."""
        return TwinError(f"{shown(self.path)}{f', {place}' if place else ''}: {why}")

    def check_columns(self, names: Sequence[str]) -> None:
        """Raise TwinError where a table with these columns is no trace."""
        for column in COLUMNS:
            if column not in names:
                raise self.error(
                    f"no column '{column}'. Needed: {', '.join(COLUMNS)}, and time_ns or time_us where the trace is to"
                    f" be replayed by its times. There: {shown(', '.join(names))}."
                )

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of a text with their numbers, from 1. One too long to be one is a fault."""
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            number = 0
            while line := file.readline(_MOST_LINE):
                number += 1
                if len(line) == _MOST_LINE and line[-1] != "\n":
                    self.fault(f"line {number}", f"longer than {_MOST_LINE} characters")
                    while (rest := file.readline(_MOST_LINE)) and rest[-1] != "\n":
                        pass
                    continue
                yield number, line

    def parsed(self, lines: Iterable[tuple[int, str]], parse: Callable[[str], Requests]) -> Iterator[Request]:
        """Yield the requests of lines. ``parse`` returns those of a line, and raises ValueError with what is wrong."""
        for number, line in lines:
            try:
                yield from parse(line)
            except ValueError as why:
                self.fault(f"line {number}", why)


def tables(requests: Requests, times: Iterable[str]) -> Iterator[pd.DataFrame]:
    """Yield requests as tables of at most `PIECE_REQUESTS` rows (columns as of `read_pieces`).

    ``times`` are those of `TIMES` that the trace has. They are counted from the arrival of the first request.
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
        for name, values in zip(TIMES, moments, strict=True):
            if name in times:
                piece[name] = np.array(values, dtype=np.int64)
        if "arrival_ns" in piece:
            start_ns = from_start(piece, start_ns)
        yield pd.DataFrame(piece)


def no_requests() -> pd.DataFrame:
    """Return a table of no requests that has all columns."""
    sizes = {name: np.empty(0, np.uint64) for name in COLUMNS[1:]}
    times = {name: np.empty(0, np.int64) for name in TIMES}
    return pd.DataFrame({"operation": np.empty(0, np.uint8), **sizes, **times})


def from_start(piece: dict[str, np.ndarray], start_ns: int | None) -> int:
    """Make the times of a piece count from the first arrival, which is returned; ``start_ns`` is that once known."""
    start = int(piece["arrival_ns"][0]) if start_ns is None else start_ns
    for name in TIMES:
        if name in piece:
            piece[name] = np.where(piece[name] == UNKNOWN, UNKNOWN, piece[name] - start)
    return start


def early_arrival(arrival_ns: np.ndarray, arrived_ns: int) -> tuple[int, int] | None:
    """Return the place of the first arrival that is before the one in front of it, and by how many nanoseconds.

    ``arrived_ns`` is the arrival in front of the first. None where all are in order.
    """
    before = np.concatenate(([arrived_ns], arrival_ns[:-1]))
    early = np.flatnonzero(arrival_ns < before)
    return (int(early[0]), int(before[early[0]] - arrival_ns[early[0]])) if len(early) else None


def whole_number(word: str, name: str, what: str = "whole number below 2^62") -> int:
    """Return a number of a text. Raises ValueError naming it where it is none, or too large."""
    if word.isdigit() and word.isascii() and len(word) <= 19 and (number := int(word)) < MOST:
        return number
    raise ValueError(f"{name} is '{shown(word)}', no {what}")


def shown(value: object) -> str:
    """Return what a file holds, or is called, as it may stand in a message: in one line, and not too long."""
    return messages.printable(value)
