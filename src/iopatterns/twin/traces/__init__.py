"""Read block traces in several formats, and convert them to Parquet.

A block trace lists the requests that a drive received. docs/traces.md describes the formats.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from iopatterns.base.input_file import SkippedLines, printable
from iopatterns.base.ownership import OutputFile
from iopatterns.twin.error import TwinError
from iopatterns.twin.traces import blktrace, form, line_formats, parquet
from iopatterns.twin.traces.form import (
    OPERATIONS,
    REQUEST_COLUMNS,
    UNKNOWN_TIME,
    RecordedDrive,
    TraceFile,
    check_order,
)

__all__ = [
    "OPERATIONS",
    "REQUEST_COLUMNS",
    "TRACE_FORMS",
    "UNKNOWN_TIME",
    "RecordedDrive",
    "SkippedLines",
    "TraceForm",
    "check_order",
    "convert_trace",
    "read_pieces",
    "recorded_drive",
]


@dataclass(frozen=True)
class TraceForm:
    """File format of block traces.

    A block trace lists the requests that a drive received.

    Attributes:
        name: Name of the format, such as ``I/O log of fio``, as recorded in converted files.
        matches: Function that returns whether a file has the format. Its arguments are the first bytes of the file (at
            most 4096), the first line that is not part of a header of blkparse, and the path of the file.
        read: Function that yields the requests of a file as tables, with the columns of `read_pieces`.
        has_issued: Whether the format records both the requests queued in the kernel and the requests issued to the
            drive.
    """

    name: str
    matches: Callable[[bytes, str, Path], bool]
    read: Callable[[TraceFile], Iterator[pd.DataFrame]]
    has_issued: bool = False


def _is_msr(_head: bytes, line: str, _path: Path) -> bool:
    values = line.strip().split(",")
    return len(values) == len(line_formats.MSR_COLUMNS) and (
        values == list(line_formats.MSR_COLUMNS) or (values[0].isdigit() and values[3].lower() in {"read", "write"})
    )


def _is_csv(_head: bytes, line: str, path: Path) -> bool:
    return path.suffix == ".csv" or bool(set(form.REQUEST_COLUMNS) & {name.strip() for name in line.split(",")})


def _is_blktrace(head: bytes, _line: str, path: Path) -> bool:
    return bool(blktrace.byte_order(head)) or (not head and blktrace.is_per_cpu_file(path))


def _is_blkparse(_head: bytes, line: str, _path: Path) -> bool:
    return bool(blktrace.BLKPARSE_LINE.match(line))


# A file has the first format that matches
TRACE_FORMS = (
    TraceForm("Parquet", lambda head, _, path: head[:4] == b"PAR1" or path.suffix == ".parquet", parquet.read_requests),
    TraceForm("binary records of blktrace", _is_blktrace, blktrace.read_blktrace, True),
    TraceForm("I/O log of fio", lambda _, line, __: line.startswith("fio version "), line_formats.read_iolog),
    TraceForm("CSV of MSR Cambridge", _is_msr, line_formats.read_msr),
    TraceForm("text of blkparse", _is_blkparse, blktrace.read_blkparse, True),
    TraceForm("CSV with a head", _is_csv, line_formats.read_csv_trace),
)
_VALID_FORMS = f"Valid formats: {', '.join(each.name for each in TRACE_FORMS)} (docs/traces.md)."
_HEAD_BYTES = 4096


def _detect_form(path: Path) -> TraceForm:
    """Return the format of a trace file, which its content or name determines.

    Raises:
        TwinError: The file is missing, or is not a trace.
        OSError: The file cannot be read.
    """
    if not path.is_file():  # reading a pipe or a device may never end
        problem = "no such file" if not path.exists() else "not a regular file"
        raise TraceFile(path).error(f"{problem}. {_VALID_FORMS}")
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
    lines = (line.decode(errors="replace") for line in head.split(b"\n"))
    line = next((line for line in lines if not line.startswith(blktrace.BLKPARSE_HEADER)), "")
    for each in TRACE_FORMS:
        if each.matches(head, line, path):
            return each
    raise TraceFile(path).error(f"not a trace. {_VALID_FORMS}", "line 1")


def read_pieces(path: Path, *, skipped: SkippedLines | None = None, issued: bool = False) -> Iterator[pd.DataFrame]:
    """Yield the requests of a block trace as tables, in the order of the trace.

    A block trace lists the requests that a drive received. Each table has at most 100,000 rows, so that memory use does
    not grow with the length of the trace. The format is determined from the content and the name of the file;
    docs/traces.md describes the formats. Columns:

    - ``operation`` (uint8): 0 for a read, 1 for a write, 2 for a flush, 3 for a discard; see `OPERATIONS`.
    - ``offset_bytes`` and ``size_bytes`` (uint64).
    - ``arrival_ns`` (int64): time of the request's arrival.
    - ``dispatched_ns`` (int64): time at which the request was issued to the drive.
    - ``completed_ns`` (int64): time at which the request completed.

    All times are nanoseconds since the arrival of the first request. A time that is unknown for the whole trace has no
    column. A time that is unknown for a single request is `UNKNOWN_TIME`.

    Args:
        path: The trace file.
        skipped: Receives the number of faulty lines, which are skipped. None to raise an error at the first faulty
            line.
        issued: Whether to read the requests issued to the drive instead of those queued in the kernel. Only the formats
            of blktrace and blkparse record both.

    Raises:
        TwinError: The file is missing, or is not a valid trace. The message has the file and the line, byte, request or
            column. Or ``issued`` is set, and the format does not record issued requests separately.
    """
    source = TraceFile(path, skipped, issued)
    try:
        trace_form = _detect_form(path)
        if issued and not trace_form.has_issued:
            raise source.error(f"the format {trace_form.name} does not record issued requests separately")
        has_requests = False
        for piece in trace_form.read(source):
            has_requests = has_requests or len(piece) > 0
            yield piece
        if skipped is not None and skipped.count and not has_requests:
            raise source.error(f"all lines are faulty. The first: {skipped.first[0].removeprefix(f'{path}, ')}")
    except (OSError, ValueError, TypeError, NotImplementedError, OverflowError) as error:
        raise source.error(f"not readable as a trace: {printable(error)}") from None


def recorded_drive(path: Path) -> RecordedDrive | None:
    """Return the simulated drive on which a block trace was recorded; None if it was recorded elsewhere.

    Args:
        path: The trace file, of any supported format.

    Raises:
        TwinError: The file is missing, or is not a trace.
    """
    return parquet.read_recorded_drive(path) if _detect_form(path).read is parquet.read_requests else None


@dataclass(frozen=True)
class TraceConversion:
    """Result of converting a block trace to Parquet.

    Attributes:
        form: Name of the original format, such as ``I/O log of fio``.
        requests: Number of requests.
        duration_ns: Time from the first to the last arrival, in nanoseconds; None if the trace has no times.
    """

    form: str
    requests: int
    duration_ns: int | None


def convert_trace(
    path: Path, output: Path, *, skipped: SkippedLines | None = None, issued: bool = False, overwrite: bool = False
) -> TraceConversion:
    """Convert a block trace of any supported format to a Parquet file.

    A block trace lists the requests that a drive received. docs/traces.md describes the formats.

    Args:
        path: The trace file.
        output: The Parquet file to write.
        skipped: Receives the number of faulty lines, which are skipped. None to raise an error at the first faulty
            line.
        issued: Whether to read the requests issued to the drive instead of those queued in the kernel.
        overwrite: Whether an existing output is replaced.

    Returns:
        The original format, the number of requests and the duration.

    Raises:
        TwinError: The trace is not valid or has no requests, its arrival times decrease, or ``output`` does not end in
            .parquet.
        OutputError: The output is the trace itself, or exists and ``overwrite`` is false.
    """
    if output.suffix != ".parquet":
        raise TwinError(f"{printable(output)}: the name of the output must end in .parquet")
    with OutputFile(output, inputs=[path], overwrite=overwrite) as temporary:
        done = write_as_parquet(path, temporary, skipped=skipped, issued=issued)
        if not done.requests:
            raise TwinError(f"{printable(path)}: the trace has no requests")
    return done


def write_as_parquet(
    path: Path,
    temporary: Path,
    *,
    skipped: SkippedLines | None = None,
    issued: bool = False,
    recorded_on: RecordedDrive | None = None,
) -> TraceConversion:
    """Write the requests of a block trace to a Parquet file, which is overwritten.

    A block trace lists the requests that a drive received. `convert_trace` does the same, but checks the output path,
    and leaves no partial file behind.

    Args:
        path: The trace file, of any supported format.
        temporary: The Parquet file, which is overwritten.
        skipped: Receives the number of faulty lines, which are skipped. None to raise an error at the first faulty
            line.
        issued: Whether to read the requests issued to the drive instead of those queued in the kernel.
        recorded_on: The simulated drive on which the trace was recorded; None if it was recorded elsewhere.

    Returns:
        The original format, the number of requests, which may be 0, and the duration.

    Raises:
        TwinError: The trace is not valid, or its arrival times decrease.
    """
    requests = 0
    last_ns: int | None = None

    def checked(pieces: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        nonlocal requests, last_ns
        for piece in pieces:
            if "arrival_ns" in piece and len(piece):
                last_ns = check_order(piece["arrival_ns"].to_numpy(), last_ns or 0, requests, printable(path))
            requests += len(piece)
            yield piece

    pieces = checked(read_pieces(path, skipped=skipped, issued=issued))
    first = next((piece for piece in pieces if len(piece)), form.empty_requests())
    form_name = _detect_form(path).name
    parquet.write_requests(temporary, itertools.chain([first], pieces), form_name, recorded_on=recorded_on)
    return TraceConversion(form_name, requests, last_ns)
