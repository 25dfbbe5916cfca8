"""Traces that are a line a request: CSV with a head, CSV of MSR Cambridge, and fio's own I/O logs."""

import csv
from collections.abc import Iterator

import pandas as pd

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

# A column with times, and how many nanoseconds one of its units is
_FACTORS = {"time_ns": 1, "time_us": 1000, "dispatched_ns": 1, "completed_ns": 1}
MSR_COLUMNS = ("Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime")
_MSR_TICK_NS = 100
_IOLOG_MOVING = frozenset({"read", "write", "trim"})
_IOLOG_SYNCING = frozenset({"sync", "datasync"})
_IOLOG_FILES = frozenset({"add", "open", "close"})


def _split(line: str) -> list[str]:
    """Return the fields of a line. Raises ValueError where its quotation marks fit no CSV."""
    if '"' not in line:
        return line.rstrip("\r\n").split(",")
    try:
        return next(csv.reader([line]))
    except csv.Error as error:  # a carriage return among the fields, for one
        raise ValueError(f"no line of CSV: {error}") from None


def read_csv_trace(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of CSV in the columns of the form."""
    lines = source.lines()
    _, head = next(lines, (1, ""))
    names = [name.strip() for name in _split(head)]
    source.check_columns(names)
    operation, offset, size = map(names.index, REQUEST_COLUMNS)
    times = {}
    for column, name in TIME_COLUMNS.items():
        its = next((each for each in (name, name.replace("_ns", "_us")) if each in names and each in _FACTORS), None)
        if its is not None and (column == "arrival_ns" or "arrival_ns" in times):
            times[column] = (its, names.index(its), _FACTORS[its])

    def parse(line: str) -> TraceRequests:
        values = _split(line)
        if len(values) != len(names):
            if not line.strip():
                return ()
            raise ValueError(f"{len(values)} values, but the head names {len(names)} columns")
        moments = [UNKNOWN_TIME] * len(TIME_COLUMNS)
        for place, column in enumerate(TIME_COLUMNS):
            if column in times:
                name, at, factor = times[column]
                moments[place] = _time(values[at], name, factor, may_be_unknown=place > 0)
        arrival, dispatched, completed = moments
        _check_order(arrival, dispatched, completed)
        number = _operation(values[operation])
        start, length = _bytes(values[offset], "offset_bytes"), _bytes(values[size], "size_bytes")
        return ((number, start, length, arrival, dispatched, completed),)

    yield from request_tables(source.parsed(lines, parse), times)


def _check_order(arrival_ns: int, dispatched_ns: int, completed_ns: int) -> None:
    """Raise ValueError where a request ends before it begins."""
    if UNKNOWN_TIME != dispatched_ns < arrival_ns:
        raise ValueError(f"dispatched_ns is {dispatched_ns}, before the request was queued")
    if UNKNOWN_TIME != completed_ns < max(arrival_ns, dispatched_ns):
        raise ValueError(f"completed_ns is {completed_ns}, before the request was queued or dispatched")


def _operation(word: str) -> int:
    number = OPERATION_NUMBERS.get(word)
    if number is None:
        number = OPERATION_NUMBERS.get(word.strip().lower())
    if number is None:
        raise ValueError(f"no operation '{printable(word)}'. Valid: {', '.join(OPERATIONS)}")
    return number


def _bytes(word: str, name: str) -> int:
    if word.isdigit() and word.isascii():
        return whole_number(word, name, "whole number of bytes from 0 to 2^62")
    number = _number(word)
    if not (0 <= number < MAX_NUMBER and number == int(number)):
        raise ValueError(f"{name} is '{printable(word)}', no whole number of bytes from 0 to 2^62")
    return int(number)


def _time(word: str, name: str, factor: int, *, may_be_unknown: bool) -> int:
    if word.isdigit() and word.isascii() and len(word) <= 19:
        time_ns = int(word) * factor
    elif may_be_unknown and not word.strip():
        return UNKNOWN_TIME
    else:
        number = _number(word) * factor
        time_ns = round(number) if 0 <= number < MAX_NUMBER else MAX_NUMBER
    if time_ns >= MAX_NUMBER:
        raise ValueError(f"{name} is '{printable(word)}', no time from 0 to 146 years")
    return time_ns


def _number(word: str) -> float:
    """Return a number of a table written by other programs, which may have points and exponents; NaN for none."""
    try:
        return float(word) if "_" not in word else float("nan")
    except ValueError:
        return float("nan")


def read_msr(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of a trace of MSR Cambridge, which have a file for each disk.

    A request has been completed its response time after its time stamp. There is no head, or the names of the columns.
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
                f"another disk ({printable(host)} {printable(number)}) than before ({printable(disk[0])} {printable(disk[1])}). Give"
                " the requests of one disk"
            )
        ticks, lasted = whole_number(timestamp, "Timestamp"), whole_number(response, "ResponseTime")
        arrival_ns = (ticks - (ticks if start is None else start)) * _MSR_TICK_NS
        if not -MAX_NUMBER < arrival_ns < MAX_NUMBER or lasted * _MSR_TICK_NS >= MAX_NUMBER:
            raise ValueError("more than 146 years between requests")
        request = (
            OPERATIONS[operation],
            whole_number(offset, "Offset", "whole number of bytes from 0 to 2^62"),
            whole_number(size, "Size", "whole number of bytes from 0 to 2^62"),
            arrival_ns,
            UNKNOWN_TIME,
            arrival_ns + lasted * _MSR_TICK_NS,
        )
        start, disk = ticks if start is None else start, (host, number)
        return (request,)

    lines = ((number, line) for number, line in source.lines() if number > 1 or line[:1].isdigit())
    yield from request_tables(source.parsed(lines, parse), ("arrival_ns", "completed_ns"))


def read_iolog(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the I/O of one of fio's own logs; opens, closes and additions of files are passed over.

    Times are those at which fio would submit a request: a ``wait`` of version 2 ends that many milliseconds after the
    log began (`read_iolog_get` in fio's iolog.c), whatever fio's HOWTO says of it.
    """
    lines = source.lines()
    _, head = next(lines, (1, ""))
    words = head.split()
    if len(words) != 4 or words[:2] != ["fio", "version"] or words[2] not in {"2", "3"} or words[3] != "iolog":
        raise source.error("not a trace: no I/O log of fio, version 2 or 3", "line 1")
    timed = words[2] == "3"
    now_ns = 0

    def parse(line: str) -> TraceRequests:
        nonlocal now_ns
        words = line.split()
        if not words:
            return ()
        time_ns = 1000 * whole_number(words.pop(0), "the time") if timed else now_ns
        if len(words) < 2:
            raise ValueError(f"neither a file nor an I/O action: '{printable(line.strip())}'")
        action, numbers = words[1], words[2:4]
        if action == "wait" and not timed:
            time_ns = max(now_ns, 1_000_000 * whole_number(numbers[0] if numbers else "", "the time"))
        if time_ns >= MAX_NUMBER:
            raise ValueError("more than 146 years after the start")
        now_ns = time_ns
        if action in _IOLOG_SYNCING:
            return ((OPERATIONS["flush"], 0, 0, time_ns, UNKNOWN_TIME, UNKNOWN_TIME),)
        if action in _IOLOG_MOVING:
            if len(numbers) < 2:
                raise ValueError(f"'{action}' needs an offset and a length")
            offset, size = whole_number(numbers[0], "the offset"), whole_number(numbers[1], "the length")
            return ((OPERATION_NUMBERS[action], offset, size, time_ns, UNKNOWN_TIME, UNKNOWN_TIME),)
        if action not in _IOLOG_FILES and action != "wait":
            raise ValueError(f"no action '{printable(action)}' in a fio I/O log")
        return ()

    yield from request_tables(source.parsed(lines, parse), ("arrival_ns",))
