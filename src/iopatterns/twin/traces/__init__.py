"""Block traces: read piece by piece from each form that there is, and converted into one, our own.

docs/traces.md describes the form.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from iopatterns.base import files
from iopatterns.base.input_file import SkippedLines, printable
from iopatterns.twin.error import TwinError
from iopatterns.twin.traces import blktrace, form, parquet, texts
from iopatterns.twin.traces.form import OPERATIONS, UNKNOWN_TIME, TraceFile, first_unordered

__all__ = [
    "OPERATIONS",
    "TRACE_FORMS",
    "UNKNOWN_TIME",
    "SkippedLines",
    "TraceForm",
    "convert_trace",
    "detect_form",
    "first_unordered",
    "first_unordered",
    "read_pieces",
]


@dataclass(frozen=True)
class TraceForm:
    """A form of traces. ``begins`` says of a file's first bytes, first line and path whether it is of the form.

    ``has_issued``: whether it tells the requests that went to the drive from those that were queued.
    """

    name: str
    begins: Callable[[bytes, str, Path], bool]
    read: Callable[[TraceFile], Iterator[pd.DataFrame]]
    has_issued: bool = False


def _is_msr(line: str) -> bool:
    values = line.strip().split(",")
    return len(values) == len(texts.MSR_COLUMNS) and (
        values == list(texts.MSR_COLUMNS) or (values[0].isdigit() and values[3].lower() in {"read", "write"})
    )


def _is_table(line: str, path: Path) -> bool:
    return path.suffix == ".csv" or bool(set(form.REQUEST_COLUMNS) & {name.strip() for name in line.split(",")})


# The first one that fits is that of a file
TRACE_FORMS = (
    TraceForm("Parquet", lambda head, _, path: head[:4] == b"PAR1" or path.suffix == ".parquet", parquet.read_requests),
    TraceForm("binary records of blktrace", lambda head, _, path: _is_binary(head, path), blktrace.read_blktrace, True),
    TraceForm("I/O log of fio", lambda _, line, __: line.startswith("fio version "), texts.read_iolog),
    TraceForm("CSV of MSR Cambridge", lambda _, line, __: _is_msr(line), texts.read_msr),
    TraceForm(
        "text of blkparse", lambda _, line, __: bool(blktrace.BLKPARSE_LINE.match(line)), blktrace.read_blkparse, True
    ),
    TraceForm("CSV with a head", lambda _, line, path: _is_table(line, path), texts.read_csv_trace),
)
_EXPECTED = f"Give a trace as one of: {', '.join(each.name for each in TRACE_FORMS)} (docs/traces.md)."
_HEAD_BYTES = 4096


def _is_binary(head: bytes, path: Path) -> bool:
    return bool(blktrace.byte_order(head)) or (not head and blktrace.is_per_cpu_file(path))


def detect_form(path: Path) -> TraceForm:
    """Return the form of a trace by its content. Raises TwinError where it is none, or OSError."""
    if not path.is_file():  # reading a pipe or a device may never end
        what = "no such file" if not path.exists() else "no regular file"
        raise TraceFile(path).error(f"{what}. {_EXPECTED}")
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        start, line = head, _first_line(head)
        while line.startswith(blktrace.BLKPARSE_HEADER):
            start = start.partition(b"\n")[2]
            line = _first_line(start)
    for each in TRACE_FORMS:
        if each.begins(head, line, path):
            return each
    raise TraceFile(path).error(f"not a trace. {_EXPECTED}", "line 1")


def _first_line(head: bytes) -> str:
    return head.partition(b"\n")[0].decode(errors="replace")


def read_pieces(path: Path, *, skipped: SkippedLines | None = None, issued: bool = False) -> Iterator[pd.DataFrame]:
    """Yield a trace in pieces of at most `form.PIECE_REQUESTS` rows, so that a long one costs no memory.

    Each piece has the columns ``operation`` (uint8, see `OPERATIONS`), ``offset_bytes``, ``size_bytes`` (uint64) and,
    where the trace has times, ``arrival_ns`` (int64, from the first request of the trace), and as the source has them
    ``dispatched_ns`` and ``completed_ns`` (int64; `UNKNOWN_TIME` for a request of which it says nothing). The form is told
    by the content (`TRACE_FORMS`; docs/traces.md).

    With ``skipped``, faulty lines are left out and counted there; without, the first one raises. ``issued`` asks for
    the requests as they went to the drive, where the trace has these beside those that were queued.

    Raises TwinError naming the file and the line, byte, request or column, and what is wrong there.
    """
    source = TraceFile(path, skipped, issued)
    try:
        its_form = detect_form(path)
        if issued and not its_form.has_issued:
            raise source.error(f"a trace of the form {its_form.name} has no requests issued apart from those queued")
        there = False
        for piece in its_form.read(source):
            there = there or len(piece) > 0
            yield piece
        if skipped is not None and skipped.count and not there:
            raise source.error(f"no line is sound. The first: {skipped.first[0].removeprefix(f'{path}, ')}")
    except (OSError, ValueError, TypeError, NotImplementedError, OverflowError) as error:
        raise source.error(f"not readable as a trace: {printable(error)}") from None


@dataclass(frozen=True)
class TraceConversion:
    """What a conversion wrote: the form that was read, how many requests, and the time from the first to the last."""

    form: str
    requests: int
    duration_ns: int | None


def convert_trace(
    path: Path, output: Path, *, skipped: SkippedLines | None = None, issued: bool = False, may_be_empty: bool = False
) -> TraceConversion:
    """Write a trace of any form to ``output`` in our own, Parquet; see `read_pieces`.

    Raises TwinError, also for a trace without a request unless it ``may_be_empty``.
    """
    if output.suffix != ".parquet":
        raise TwinError(f"{printable(output)}: traces are written as .parquet; give the file this ending")
    if output.exists() and path.exists() and path.samefile(output):
        raise TwinError(f"{printable(output)}: is the trace that is to be read; give another name")
    requests = 0
    arrived: int | None = None

    def in_order(pieces: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        nonlocal requests, arrived
        for piece in pieces:
            if "arrival_ns" in piece and len(piece):
                arrival = piece["arrival_ns"].to_numpy()
                if early := first_unordered(arrival, arrived or 0):
                    raise unsorted_error(printable(path), requests + early[0], early[1])
                arrived = int(arrival[-1])
            requests += len(piece)
            yield piece

    pieces = in_order(read_pieces(path, skipped=skipped, issued=issued))
    first = next((piece for piece in pieces if len(piece)), None)
    if first is None:
        if not may_be_empty:
            raise TwinError(f"{printable(path)}: no request in it")
        first = form.empty_requests()
    its_form = detect_form(path).name
    files.write_atomically(
        output, lambda temporary: parquet.write_requests(temporary, itertools.chain([first], pieces), its_form)
    )
    return TraceConversion(its_form, requests, arrived)


def unsorted_error(trace: str, request: int, early_ns: int) -> TwinError:
    """Return the error that a request of a trace arrives before the one in front of it."""
    return TwinError(
        f"{f'{trace}: ' if trace else ''}request {request}: arrives {early_ns} ns before the one in front of it. Sort"
        " the trace by time, or give a depth to replay it without its times."
    )
