"""Read block traces in text formats with one request per line.

A block trace lists the requests that a drive received. The formats are CSV with a header, CSV of MSR Cambridge, and I/O
logs of fio.
"""

import csv
from collections.abc import Iterator

import pandas as pd

from iopatterns.base.fio_iolog import read_iolog_actions
from iopatterns.base.input_file import MAX_NUMBER, printable, whole_number
from iopatterns.twin.traces.form import (
    OPERATION_NUMBERS,
    OPERATIONS,
    REQUEST_COLUMNS,
    TIME_COLUMNS,
    UNKNOWN_TIME,
    TraceFile,
    TraceRequests,
    request_tables,
)

# Nanoseconds per unit of each time column
_UNIT_NS = {"time_ns": 1, "time_us": 1000, "dispatched_ns": 1, "completed_ns": 1}
MSR_COLUMNS = ("Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime")
_MSR_TICK_NS = 100
_BYTES = "whole number of bytes from 0 to 2^62"


def _split(line: str) -> list[str]:
    """Return the fields of a line of CSV.

    Raises:
        ValueError: The quotes in the line are not valid.
    """
    if '"' not in line:
        return line.rstrip("\r\n").split(",")
    try:
        return next(csv.reader([line]))
    except csv.Error as error:  # for example, a carriage return between fields
        raise ValueError(f"not a line of CSV: {error}") from None


def read_csv_trace(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of a block trace, a CSV file with a header, as tables.

    The file needs the columns operation (such as ``read``), offset_bytes and size_bytes. The time columns are optional:
    time_ns or time_us, dispatched_ns, completed_ns. `traces.read_pieces` describes the columns of the tables.

    Args:
        source: The trace file.

    Raises:
        TwinError: A required column is missing. Or a line is faulty, and ``source.skipped`` is None.
    """
    lines = source.lines()
    _, head = next(lines, (1, ""))
    names = [name.strip() for name in _split(head)]
    source.check_columns(names)
    operation, offset, size = map(names.index, REQUEST_COLUMNS)
    times = {}
    for column, name in TIME_COLUMNS.items():
        spellings = (name, name.replace("_ns", "_us"))
        found = next((each for each in spellings if each in names and each in _UNIT_NS), None)
        if found is not None and (column == "arrival_ns" or "arrival_ns" in times):
            times[column] = (found, names.index(found), _UNIT_NS[found])

    def parse(line: str) -> TraceRequests:
        values = _split(line)
        if len(values) != len(names):
            if not line.strip():
                return ()
            raise ValueError(f"{len(values)} values, but the header has {len(names)} columns")
        moments = [UNKNOWN_TIME] * len(TIME_COLUMNS)
        for place, column in enumerate(TIME_COLUMNS):
            if column in times:
                name, at, unit_ns = times[column]
                moments[place] = _time_ns(values[at], name, unit_ns, may_be_unknown=place > 0)
        arrival, dispatched, completed = moments
        if UNKNOWN_TIME != dispatched < arrival:
            raise ValueError(f"dispatched_ns is {dispatched}, before the request was queued")
        if UNKNOWN_TIME != completed < max(arrival, dispatched):
            raise ValueError(f"completed_ns is {completed}, before the request was queued or dispatched")
        number = OPERATION_NUMBERS.get(values[operation].strip().lower())
        if number is None:
            raise ValueError(f"no operation '{printable(values[operation])}'. Valid: {', '.join(OPERATIONS)}")
        start, length = _bytes(values[offset], "offset_bytes"), _bytes(values[size], "size_bytes")
        return ((number, start, length, arrival, dispatched, completed),)

    yield from request_tables(source.parsed(lines, parse), times)


def _bytes(word: str, name: str) -> int:
    """Return a number of bytes, given as text such as ``4096`` or ``4096.0``.

    Args:
        word: The text.
        name: Name of the column, for messages.

    Raises:
        ValueError: The text is not a whole number of bytes from 0 to 2^62.
    """
    if word.isdigit() and word.isascii():
        return whole_number(word, name, _BYTES)
    number = _number(word)
    if not (0 <= number < MAX_NUMBER and number == int(number)):
        raise ValueError(f"{name} is '{printable(word)}', not a {_BYTES}")
    return int(number)


def _time_ns(word: str, name: str, unit_ns: int, *, may_be_unknown: bool) -> int:
    """Return a time in nanoseconds, given as text.

    Args:
        word: The time as text.
        name: Name of the column, for messages.
        unit_ns: Nanoseconds per unit of the text.
        may_be_unknown: Whether an empty text is valid and gives `UNKNOWN_TIME`.

    Raises:
        ValueError: The text is not a time from 0 to 146 years.
    """
    if word.isdigit() and word.isascii() and len(word) <= 19:
        time_ns = int(word) * unit_ns
    elif may_be_unknown and not word.strip():
        return UNKNOWN_TIME
    else:
        number = _number(word) * unit_ns
        time_ns = round(number) if 0 <= number < MAX_NUMBER else MAX_NUMBER
    if time_ns >= MAX_NUMBER:
        raise ValueError(f"{name} is '{printable(word)}', not a time from 0 to 146 years")
    return time_ns


def _number(word: str) -> float:
    """Return a number, given as text with or without decimal point and exponent.

    The result is NaN if the text is not a number.
    """
    try:
        return float(word) if "_" not in word else float("nan")
    except ValueError:
        return float("nan")


def read_msr(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests in a block trace of MSR Cambridge as tables.

    The trace is a CSV file with the requests of one disk, with or without a header. The timestamp of a line is the
    arrival time of the request. The completion time is the arrival time plus the response time. `traces.read_pieces`
    describes the columns of the tables.

    Args:
        source: The trace file.

    Raises:
        TwinError: A line is faulty or is about another disk, and ``source.skipped`` is None.
    """
    start: int | None = None
    disk: tuple[str, str] | None = None

    def parse(line: str) -> TraceRequests:
        nonlocal start, disk
        values = line.strip().split(",")
        if len(values) != len(MSR_COLUMNS):
            raise ValueError(f"{len(values)} values, but there are {len(MSR_COLUMNS)}: {', '.join(MSR_COLUMNS)}")
        timestamp, host, number, kind, offset, size, response = values
        operation = kind.lower()
        if operation not in {"read", "write"}:
            raise ValueError(f"Type is '{printable(kind)}', but must be Read or Write")
        if disk is not None and (host, number) != disk:
            raise ValueError(
                f"another disk ({printable(f'{host} {number}')}) than before ({printable(' '.join(disk))}). Give the"
                " requests of one disk"
            )
        ticks, lasted = whole_number(timestamp, "Timestamp"), whole_number(response, "ResponseTime")
        arrival_ns = (ticks - (ticks if start is None else start)) * _MSR_TICK_NS
        if not -MAX_NUMBER < arrival_ns < MAX_NUMBER or lasted * _MSR_TICK_NS >= MAX_NUMBER:
            raise ValueError("more than 146 years between requests")
        request = (
            OPERATIONS[operation],
            whole_number(offset, "Offset", _BYTES),
            whole_number(size, "Size", _BYTES),
            arrival_ns,
            UNKNOWN_TIME,
            arrival_ns + lasted * _MSR_TICK_NS,
        )
        start, disk = ticks if start is None else start, (host, number)
        return (request,)

    lines = ((number, line) for number, line in source.lines() if number > 1 or line[:1].isdigit())
    yield from request_tables(source.parsed(lines, parse), ("arrival_ns", "completed_ns"))


def read_iolog(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of an I/O log of fio as tables.

    A request arrives at the time at which fio would submit it. `traces.read_pieces` describes the columns of the
    tables; arrival_ns is the only time column. Actions that are not requests, such as ``open``, are left out.

    Args:
        source: The log file.

    Raises:
        TwinError: A line is faulty, and ``source.skipped`` is None.
    """
    operations = {action: OPERATION_NUMBERS[action] for action in ("read", "write", "trim", "sync", "datasync")}
    requests = (
        (operations[each.action], each.offset_bytes, each.size_bytes, each.time_ns, UNKNOWN_TIME, UNKNOWN_TIME)
        for each in read_iolog_actions(source)
        if each.action in operations
    )
    yield from request_tables(requests, ("arrival_ns",))
