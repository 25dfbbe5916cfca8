"""Read block traces with one request per line and a fixed order of columns, such as CSV.

A block trace lists the requests that a drive received. `LAYOUTS` describes the formats. A block of lines is parsed by
pyarrow. Where pyarrow finds a value that is not plain, or a line is faulty, the block is parsed line by line.
"""

import contextlib
import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.twin.traces.form import (
    OPERATION_NUMBERS,
    OPERATIONS,
    TIME_COLUMNS,
    UNKNOWN_TIME,
    TraceFile,
    TraceRequest,
    request_tables,
)
from iopatterns.twin.traces.line_blocks import (
    DECIMALS,
    NotPlainError,
    encoded_words,
    line_blocks,
    numbered_lines,
    require_plain,
    scaled_decimals,
)

if TYPE_CHECKING:
    import pyarrow

_BYTES = "whole number of bytes from 0 to 2^62"
_S, _MS, _US, _TICK, _NS = 10**9, 10**6, 10**3, 100, 1  # nanoseconds per unit
_SECTOR = 512
_UNEVEN = (b"  ", b"\t", b"\n ", b" \n", b" \r")  # marks of lines with other separators than single spaces
_EXACT_NUMBER = re.compile(r"\s*(\d{1,18})(?:\.(\d{0,9}))?\s*")
_READ, _WRITE = OPERATIONS["read"], OPERATIONS["write"]


@dataclass(frozen=True)
class Layout:
    """Order and units of the columns of a block trace.

    Attributes:
        name: Name of the format.
        columns: Names of the columns in their order. Further columns of a line are ignored if `has_more`.
        operation: Column of the operation.
        offset: Column of the offset, and its unit in bytes.
        size: Column of the size, and its unit in bytes.
        times: Column and unit in nanoseconds of each time, by the name of the time in tables; see `TIME_COLUMNS`.
        duration: Column of the time between arrival and completion, and its unit in nanoseconds; None if there is none.
        volume: Columns that together name the disk of a request.
        operations: Meaning of the words for operations in lower case, such as ``0``; None for those of this project.
        separator: A character between the columns, or a space for any number of spaces and tabs.
        has_more: Whether a line may have more columns.
        origin: Arrival time, in its unit, that is subtracted from all arrival times from this time on. In nanoseconds,
            such times would not fit into 64 bits.
    """

    name: str
    columns: tuple[str, ...]
    operation: str
    offset: tuple[str, int]
    size: tuple[str, int]
    times: Mapping[str, tuple[str, int]]
    duration: tuple[str, int] | None = None
    volume: tuple[str, ...] = ()
    operations: Mapping[str, int] | None = None
    separator: str = ","
    has_more: bool = False
    origin: int = 0

    def number(self, word: str) -> int | None:
        """Return the number of an operation in `OPERATIONS`, or None if the word is not an operation.

        Args:
            word: The word in a line, such as ``R``.
        """
        return (OPERATION_NUMBERS if self.operations is None else self.operations).get(word.strip().lower())

    @property
    def description(self) -> str:
        """Columns with their units, such as ``offset (bytes), timestamp (µs)``."""
        units = {1: "bytes", _SECTOR: "sectors of 512 bytes"}
        named = {column: units[unit] for column, unit in (self.offset, self.size)}
        spans = {_S: "s", _MS: "ms", _US: "µs", _TICK: "100 ns", _NS: "ns"}
        named |= {column: spans[unit] for column, unit in self.times.values()}
        if self.duration is not None:
            named[self.duration[0]] = spans[self.duration[1]]
        if self.operations is not None:
            names = {word: list(OPERATIONS)[number] for word, number in self.operations.items()}
            named[self.operation] = ", ".join(f"{word.upper()} {name}" for word, name in names.items() if word != name)
        return ", ".join(f"{column} ({named[column]})" if column in named else column for column in self.columns)

    @property
    def time_columns(self) -> list[str]:
        """Names of the times in tables."""
        return [*self.times, *(["completed_ns"] if self.duration is not None else [])]

    def split(self, line: str) -> list[str]:
        """Return the fields of a line.

        Raises:
            ValueError: The quotes in the line are not valid.
        """
        if self.separator == " ":
            return line.split()
        if '"' not in line:
            return line.rstrip("\r\n").split(self.separator)
        try:
            return next(csv.reader([line], delimiter=self.separator))
        except csv.Error as error:  # for example, a carriage return between fields
            raise ValueError(f"not a line of CSV: {error}") from None

    def with_header(self, line: str) -> "Layout | None":
        """Return the layout with the order of columns that a header has, or None if the line is no header of it.

        Args:
            line: The first line of a file.
        """
        try:
            names = self.split(line)
        except ValueError:
            return None
        own = {_plain(column): column for column in self.columns}
        found = [own.get(_plain(name), name.strip()) for name in names]
        return replace(self, columns=tuple(found)) if set(self.columns) <= set(found) else None

    def fits(self, line: str) -> bool:
        """Return whether a line has valid values in all columns of this layout.

        Args:
            line: A line of a file without a header.
        """
        try:
            values = self.split(line)
            self.request(values)
        except ValueError:
            return False
        return _is_typical(self, dict(zip(self.columns, values, strict=False)))

    def request(self, values: Sequence[str]) -> TraceRequest:
        """Return the request in the fields of a line.

        Raises:
            ValueError: A field is missing or not valid.
        """
        if len(values) < len(self.columns) or (len(values) > len(self.columns) and not self.has_more):
            raise ValueError(f"{len(values)} values, but there are {len(self.columns)}: {', '.join(self.columns)}")
        field = dict(zip(self.columns, values, strict=False))
        times = dict.fromkeys(TIME_COLUMNS, UNKNOWN_TIME)
        for column, (name, unit_ns) in self.times.items():
            word = field[name]
            if self.origin and column == "arrival_ns" and word.strip().isdigit():
                word = str(int(word) - (self.origin if int(word) >= self.origin else 0))
            times[column] = _time_ns(word, name, unit_ns, may_be_unknown=column != "arrival_ns")
        if self.duration is not None:
            lasted = _time_ns(field[self.duration[0]], *self.duration, may_be_unknown=True)
            times["completed_ns"] = UNKNOWN_TIME if lasted == UNKNOWN_TIME else times["arrival_ns"] + lasted
        arrival, dispatched, completed = times.values()
        if UNKNOWN_TIME != dispatched < arrival:
            raise ValueError(f"dispatched_ns is {dispatched}, before the request was queued")
        if UNKNOWN_TIME != completed < max(arrival, dispatched):
            raise ValueError(f"completed_ns is {completed}, before the request was queued or dispatched")
        word = field[self.operation]
        number = self.number(word)
        if number is None:
            valid = ", ".join(self.operations or OPERATIONS)
            raise ValueError(f"no operation '{printable(word)}' in the column {self.operation}. Valid: {valid}")
        offset, size = (_bytes(field[column], column, unit) for column, unit in (self.offset, self.size))
        volume = "_".join(field[column].strip() for column in self.volume)
        return number, offset, size, arrival, dispatched, completed, volume


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _is_typical(layout: Layout, field: Mapping[str, str]) -> bool:
    """Return whether a line is likely to have this layout, beyond having valid values.

    Args:
        layout: The layout.
        field: The values of the line, by column.
    """
    time, unit = layout.times["arrival_ns"]
    if layout.name == _TENCENT:  # five whole numbers, as in a table of anything: the time must be of this century
        return 946_684_800 <= int(field[time]) < 4_102_444_800
    if layout.name == _DISKSIM:  # as in MQSim's traces, but the time has a fraction
        return "." in field[time]
    return unit != _NS or field[time].isdigit()


_TENCENT, _DISKSIM = "Tencent", "DiskSim"
_UNIX_EPOCH_TICKS = 116_444_736_000_000_000  # 100 ns since 1601, as Windows counts
_01 = {"0": _READ, "1": _WRITE}
_10 = {"0": _WRITE, "1": _READ}
_RW = {"r": _READ, "w": _WRITE, "read": _READ, "write": _WRITE}
_ALI = ("device_id", "opcode", "offset", "length", "timestamp")
# A file has the first layout whose header or values it has
LAYOUTS = (
    Layout(
        "MSR Cambridge",
        ("Timestamp", "Hostname", "DiskNumber", "Type", "Offset", "Size", "ResponseTime"),
        "Type",
        ("Offset", 1),
        ("Size", 1),
        {"arrival_ns": ("Timestamp", _TICK)},
        ("ResponseTime", _TICK),
        ("Hostname", "DiskNumber"),
        _RW,
        origin=_UNIX_EPOCH_TICKS,
    ),
    Layout(
        "SYSTOR 2017",
        ("Timestamp", "Response", "IOType", "LUN", "Offset", "Size"),
        "IOType",
        ("Offset", 1),
        ("Size", 1),
        {"arrival_ns": ("Timestamp", _S)},
        ("Response", _S),
        ("LUN",),
        _RW,
    ),
    Layout(
        "Alibaba",
        _ALI,
        "opcode",
        ("offset", 1),
        ("length", 1),
        {"arrival_ns": ("timestamp", _US)},
        volume=("device_id",),
        operations=_RW,
    ),
    Layout(
        "SPC (UMass)",
        ("ASU", "LBA", "Size", "Opcode", "Timestamp"),
        "Opcode",
        ("LBA", _SECTOR),
        ("Size", 1),
        {"arrival_ns": ("Timestamp", _S)},
        volume=("ASU",),
        operations=_RW,
        has_more=True,
    ),
    Layout(
        _TENCENT,
        ("Timestamp", "Offset", "Size", "IOType", "VolumeID"),
        "IOType",
        ("Offset", _SECTOR),
        ("Size", _SECTOR),
        {"arrival_ns": ("Timestamp", _S)},
        volume=("VolumeID",),
        operations=_01,
    ),
    Layout(
        "FIU",
        ("timestamp", "pid", "process", "lba", "size", "opcode", "major", "minor"),
        "opcode",
        ("lba", _SECTOR),
        ("size", _SECTOR),
        {"arrival_ns": ("timestamp", _NS)},
        volume=("major", "minor"),
        operations=_RW,
        separator=" ",
        has_more=True,
    ),
    Layout(
        _DISKSIM,
        ("time", "device", "block", "blocks", "flags"),
        "flags",
        ("block", _SECTOR),
        ("blocks", _SECTOR),
        {"arrival_ns": ("time", _MS)},
        volume=("device",),
        operations=_10,
        separator=" ",
    ),
    Layout(
        "MQSim",
        ("time", "device", "sector", "sectors", "type"),
        "type",
        ("sector", _SECTOR),
        ("sectors", _SECTOR),
        {"arrival_ns": ("time", _NS)},
        volume=("device",),
        operations=_10,
        separator=" ",
    ),
)


def separator(line: str) -> str:
    """Return the character that separates the columns of CSV in a line: a comma, a tab or a semicolon."""
    return next((each for each in (",", "\t", ";") if each in line), ",")


def layouts(line: str) -> list[Layout]:
    """Return `LAYOUTS` with the character that separates the columns of a line.

    Args:
        line: The first line of a file.
    """
    given = separator(line)
    return [each if each.separator == " " else replace(each, separator=given) for each in LAYOUTS]


def own_layout(names: Sequence[str], separator: str) -> Layout:
    """Return the layout of a CSV file of this project, whose header has the columns of docs/traces.md in any order.

    Args:
        names: The names of the columns.
        separator: The character between the columns.
    """
    times = {column: (name, _NS) for column, name in TIME_COLUMNS.items() if name in names}
    if "arrival_ns" not in times and "time_us" in names:
        times = {"arrival_ns": ("time_us", _US), **times}
    if "arrival_ns" not in times:
        times = {}
    named = Layout("CSV with a head", tuple(names), "operation", ("offset_bytes", 1), ("size_bytes", 1), times)
    return replace(named, separator=separator)


def _bytes(word: str, name: str, unit: int) -> int:
    """Return a number of bytes, given as text such as ``4096`` or ``4096.0``.

    Args:
        word: The text.
        name: Name of the column, for messages.
        unit: Bytes per unit of the text.

    Raises:
        ValueError: The text is not a whole number of bytes from 0 to 2^62.
    """
    found = _EXACT_NUMBER.fullmatch(word)
    if found is not None and not (found[2] or "").strip("0"):
        number = int(found[1]) * unit
    else:
        floating = _number(word) * unit
        number = int(floating) if 0 <= floating < MAX_NUMBER and floating == int(floating) else MAX_NUMBER
    if number >= MAX_NUMBER:
        raise ValueError(f"{name} is '{printable(word)}', not a {_BYTES}")
    return number


def _time_ns(word: str, name: str, unit_ns: int, *, may_be_unknown: bool = False) -> int:
    """Return a time in nanoseconds, given as text.

    Args:
        word: The time as text.
        name: Name of the column, for messages.
        unit_ns: Nanoseconds per unit of the text.
        may_be_unknown: Whether an empty text is valid and gives `UNKNOWN_TIME`.

    Raises:
        ValueError: The text is not a time from 0 to 2^62 ns.
    """
    found = _EXACT_NUMBER.fullmatch(word)
    if found is not None:
        time_ns: int = (int(found[1]) * 10**DECIMALS + int((found[2] or "").ljust(DECIMALS, "0"))) * unit_ns
        time_ns = (time_ns + 10**DECIMALS // 2) // 10**DECIMALS
    elif may_be_unknown and not word.strip():
        return UNKNOWN_TIME
    else:
        number = _number(word) * unit_ns
        time_ns = round(number) if 0 <= number < MAX_NUMBER else int(MAX_NUMBER)
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


# ---- Blocks of lines


def read_delimited(source: TraceFile, layout: Layout, header_lines: int) -> Iterator[pd.DataFrame]:
    """Yield the requests in a text file with one request per line, as tables.

    `traces.read_pieces` describes the columns of the tables. Times count from any starting point.

    Args:
        source: The trace file.
        layout: The order of the columns.
        header_lines: Number of lines before the first request.

    Raises:
        TwinError: A line is faulty, and ``source.skipped`` is None.
    """

    def parse(line: str) -> Iterator[TraceRequest]:
        if line.strip():
            yield layout.request(layout.split(line))

    for begin, block in line_blocks(source):
        rest, number = block, begin
        while number <= header_lines and rest:
            rest, number = rest.partition(b"\n")[2], number + 1
        if rest:
            piece = parse_block(rest, layout)
            if piece is None:
                requests = source.parsed(numbered_lines(source, rest, number), parse)
                yield from request_tables(requests, layout.time_columns)
            elif len(piece):
                yield piece


def parse_block(block: bytes, layout: Layout) -> pd.DataFrame | None:
    """Return the requests in lines as a table, or None if a line needs a closer look.

    Args:
        block: The lines.
        layout: The order of the columns.
    """
    import pyarrow as pa
    import pyarrow.csv

    if b"0x" in block or b"0X" in block:  # pyarrow would read hexadecimal numbers, which no layout has
        return None
    if layout.separator == " " and (block.startswith(b" ") or any(mark in block for mark in _UNEVEN)):
        block = re.sub(rb"(?m)^ +| +\r?$", b"", re.sub(rb"[ \t]+", b" ", block))
    types = dict.fromkeys((layout.operation, *layout.volume), pa.dictionary(pa.int32(), pa.string()))
    types |= {column: pa.int64() for column, _ in (layout.offset, layout.size)}
    spans = [*layout.times.values(), *([] if layout.duration is None else [layout.duration])]
    types |= {column: pa.int64() if unit < _MS else pa.decimal128(28, DECIMALS) for column, unit in spans}
    for shorten in (False, True)[: 1 + layout.has_more]:
        content = _truncated(block, layout) if shorten else block
        with contextlib.suppress(pa.ArrowInvalid, NotPlainError):
            table = pyarrow.csv.read_csv(
                pa.BufferReader(content),
                pyarrow.csv.ReadOptions(column_names=layout.columns, use_threads=False, block_size=len(content) + 1),
                pyarrow.csv.ParseOptions(delimiter=layout.separator),
                pyarrow.csv.ConvertOptions(column_types=types, include_columns=list(types), null_values=[""]),
            )
            return _requests(table, layout)
    return None


def _truncated(block: bytes, layout: Layout) -> bytes:
    """Return lines without the columns that a layout does not name."""
    separator = re.escape(layout.separator.encode())
    field = b"[^" + separator + b"\n]*"
    kept = field + (separator + field) * (len(layout.columns) - 1)
    return re.sub(b"(?m)^(" + kept + b")" + separator + b"[^\n]*$", rb"\1", block)


def _requests(table: "pyarrow.Table", layout: Layout) -> pd.DataFrame:
    """Return the requests in the columns of a file as a table.

    Args:
        table: The columns, by their names in the layout.
        layout: The units of the columns.

    Raises:
        NotPlainError: A value is missing or not valid.
    """
    import pyarrow.compute as pc

    names, codes = encoded_words(table.column(layout.operation).combine_chunks())
    numbers = [layout.number(word) for word in names]
    require_plain(None not in numbers)
    columns: dict[str, np.ndarray] = {"operation": np.array(numbers, dtype=np.uint8)[codes]}
    for name, (column, unit) in {"offset_bytes": layout.offset, "size_bytes": layout.size}.items():
        columns[name] = _scaled(table.column(column), unit).astype(np.uint64)
    for name, (column, unit) in layout.times.items():
        times = table.column(column)
        if layout.origin and name == "arrival_ns":
            times = pc.subtract(times, pc.if_else(pc.greater_equal(times, layout.origin), layout.origin, 0))
        columns[name] = _scaled(times, unit, unknown=name != "arrival_ns")
    if layout.duration is not None:
        lasted = _scaled(table.column(layout.duration[0]), layout.duration[1], unknown=True)
        columns["completed_ns"] = np.where(lasted == UNKNOWN_TIME, UNKNOWN_TIME, columns["arrival_ns"] + lasted)
    earlier = columns.get("arrival_ns", np.empty(0))
    for name in ("dispatched_ns", "completed_ns"):
        if name in columns:
            known = columns[name] != UNKNOWN_TIME
            require_plain(not (columns[name][known] < earlier[known]).any())
            earlier = np.where(known, columns[name], earlier)
    order = ["operation", "offset_bytes", "size_bytes", *TIME_COLUMNS]
    piece = pd.DataFrame({name: columns[name] for name in order if name in columns})
    if not layout.volume:
        return piece
    names, places = [""], np.zeros(len(piece), dtype=np.int64)
    for column in layout.volume:
        values, codes = encoded_words(table.column(column).combine_chunks())
        places = places * len(values) + codes
        names = [f"{name}_{value.strip()}" if name else value.strip() for name in names for value in values]
    require_plain(len(set(names)) == len(names))
    return piece.assign(volume=pd.Categorical.from_codes(places, pd.Index(names)))


def _scaled(column: "pyarrow.ChunkedArray", unit: int, *, unknown: bool = False) -> np.ndarray:
    """Return numbers in bytes or nanoseconds.

    Args:
        column: The numbers: integers, or decimals with nine digits after the point.
        unit: Bytes or nanoseconds per unit of the column.
        unknown: Whether a missing number is valid, and gives `UNKNOWN_TIME`.

    Raises:
        NotPlainError: A number is missing, or is not from 0 to 2^62.
    """
    import pyarrow as pa

    array = column.combine_chunks()
    missing = array.is_null().to_numpy(zero_copy_only=False)
    require_plain(unknown or not missing.any())
    if pa.types.is_decimal(array.type):
        values = scaled_decimals(array.fill_null(0), unit)
    else:
        values = array.fill_null(0).to_numpy(zero_copy_only=False)
        require_plain(not ((values < 0) | (values >= MAX_NUMBER // unit)).any())
        values = values * unit
    require_plain(not (values >= MAX_NUMBER).any())
    return np.where(missing, UNKNOWN_TIME, values)
