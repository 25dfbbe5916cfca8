"""Read traces of the kernel's block layer, by blkparse(1) or blktrace(8).

The kernel records several events for each request: queued, issued to the drive, completed. This module combines the
events of each request to one request.
"""

import contextlib
import itertools
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from iopatterns.base import compressed
from iopatterns.base.coverage import Coverage
from iopatterns.base.input_file import MAX_NUMBER, SkippedLines, printable
from iopatterns.twin.traces.form import (
    OPERATIONS,
    PIECE_REQUESTS,
    UNKNOWN_TIME,
    TraceFile,
    TraceRequest,
    request_tables,
)
from iopatterns.twin.traces.line_blocks import (
    BLOCK_BYTES,
    NotPlainError,
    encoded_words,
    extract_columns,
    line_blocks,
    numbered_lines,
    require_plain,
    split_lines,
    whole_numbers,
)

if TYPE_CHECKING:
    import pyarrow

KERNEL_SECTOR_BYTES = 512
_READ, _WRITE, _FLUSH, _DISCARD = (OPERATIONS[name] for name in ("read", "write", "flush", "discard"))
_EXAMINED_EVENTS = 100_000  # events that determine which requests a trace contains
_MAX_IN_FLIGHT = 100_000  # bounds the memory if completions were lost
_COUNTED = frozenset({"Q", "D"})  # a request that is left out counts once for each of these events
_IMPOSSIBLE = "events at the impossible sector {}"
_PACKETS_LEFT_OUT = "events of packet commands, such as INQUIRY"


class BlockEvent(NamedTuple):
    """Event of a request in the kernel's block layer.

    Attributes:
        time_ns: Time of the event in nanoseconds since the start of the trace.
        device: Major and minor number of the device, such as ``8,0``.
        action: ``Q`` (queued), ``D`` (issued to the drive), ``R`` (returned by the drive to be issued again) or ``C``
            (completed).
        flushes: Whether the request flushes the drive's cache. If the request has data, the flush precedes the data.
        operation: Number of the operation: 0 for a read, 1 for a write, 3 for a discard. It has no meaning for a
            request without data.
        offset_bytes: Offset of the data on the device.
        size_bytes: Size of the data; 0 for a request without data.
    """

    time_ns: int
    device: str
    action: str
    flushes: bool
    operation: int
    offset_bytes: int
    size_bytes: int


BlockEvents = Iterable[tuple[str, BlockEvent]]  # each with its place in the file, for messages
_ALL = "QDRC"  # the actions of events, by their numbers in tables


# ---- Tables of events

# The columns are the attributes of `BlockEvent`: device is categorical, action is a position in `_ALL`
_TYPES = {"time_ns": np.int64, "action": np.uint8, "flushes": np.bool_, "operation": np.uint8}
_TYPES |= {"offset_bytes": np.int64, "size_bytes": np.int64}
_MOST_SECTORS = MAX_NUMBER // KERNEL_SECTOR_BYTES


def event_tables(source: TraceFile, events: BlockEvents, actions: str) -> Iterator[pd.DataFrame]:
    """Yield events as tables, in the same order.

    An event without a place on the device is counted in the coverage of the trace, and left out.

    Args:
        source: The trace file, which receives the faults.
        events: The events, each with its place in the file.
        actions: Letters of the actions whose events are returned, see `BlockEvent`.
    """
    checked = _checked_events(source, (each for each in events if each[1].action in actions))
    while rows := list(islice(checked, PIECE_REQUESTS)):
        columns = dict(zip(BlockEvent._fields, zip(*rows, strict=True), strict=True))
        columns["action"] = tuple(map(_ALL.index, columns["action"]))
        table = pd.DataFrame({name: np.array(columns[name], dtype=each) for name, each in _TYPES.items()})
        yield table.assign(device=pd.Categorical(columns["device"]))


def events_of_lines(
    source: TraceFile,
    actions: str,
    parse_plain: Callable[[TraceFile, bytes, str], pd.DataFrame],
    parse: Callable[[str], BlockEvent | None],
) -> Iterator[pd.DataFrame]:
    """Yield the events in the lines of a text file as tables: a block of lines at once, or line by line.

    Args:
        source: The trace file, which receives the faults.
        actions: Letters of the actions whose events are returned, see `BlockEvent`.
        parse_plain: Returns the events in a block of lines, given the source, the block and `actions`. It raises
            NotPlainError if a line needs a closer look.
        parse: Returns the event in a line, or None for a line without an event. It raises ValueError for a faulty line.
    """

    def parsed(lines: Iterable[tuple[int, str]]) -> BlockEvents:
        for number, line in lines:
            try:
                event = parse(line)
            except ValueError as problem:
                source.fault(f"line {number}", problem)
                continue
            if event is not None:
                yield f"line {number}", event

    for begin, block in line_blocks(source):
        try:
            yield parse_plain(source, block, actions)
        except NotPlainError:
            yield from event_tables(source, parsed(numbered_lines(source, block, begin)), actions)


def event_table(columns: Mapping[str, "pyarrow.Array"], action_names: Mapping[str, str]) -> pd.DataFrame:
    """Return the events in the columns of a text as a table.

    Events of requests that have no effect on a replay are left out.

    Args:
        columns: The columns as strings: ``device``, ``seconds``, ``fraction`` (at most nine digits), ``action``,
            ``rwbs``, ``sector`` and ``count``. The last two are empty for a request without sectors.
        action_names: Letters of actions, see `BlockEvent`, by their names in the text.

    Raises:
        NotPlainError: A value is not valid, or has no place on the device.
    """
    import pyarrow.compute as pc

    actions, action_codes = encoded_words(columns["action"])
    action = np.array([_ALL.index(action_names[name]) for name in actions], dtype=np.uint8)[action_codes]
    kinds, kind_codes = encoded_words(columns["rwbs"])
    meanings = [operation_of(kind) for kind in kinds]
    moves = np.array([operation is not None for operation, _ in meanings], dtype=bool)[kind_codes]
    flushes = np.array([flushes for _, flushes in meanings], dtype=bool)[kind_codes]
    operation = np.array([operation or 0 for operation, _ in meanings], dtype=np.uint8)[kind_codes]
    has_place = pc.not_equal(columns["sector"], "").to_numpy(zero_copy_only=False)
    # a packet command has no sectors, and a line without them may be faulty
    require_plain((has_place | ~moves | flushes | np.isin(action, [_ALL.index("R"), _ALL.index("C")])).all())
    count = np.where(moves, whole_numbers(columns["count"], _MOST_SECTORS), 0)
    sector = np.where(count > 0, whole_numbers(columns["sector"], 2**64), 0)
    require_plain((sector < _MOST_SECTORS).all())
    seconds = whole_numbers(columns["seconds"], MAX_NUMBER // 10**9).astype(np.int64)
    fraction = whole_numbers(pc.utf8_rpad(columns["fraction"], 9, "0"), 10**9).astype(np.int64)
    devices, device_codes = encoded_words(columns["device"])
    table = pd.DataFrame(
        {
            "time_ns": seconds * 10**9 + fraction,
            "action": action,
            "flushes": flushes,
            "operation": operation,
            "offset_bytes": sector.astype(np.int64) * KERNEL_SECTOR_BYTES,
            "size_bytes": count.astype(np.int64) * KERNEL_SECTOR_BYTES,
            "device": pd.Categorical.from_codes(device_codes, pd.Index(devices)),
        }
    )
    has_effect = (moves & has_place) | flushes
    return table if has_effect.all() else table[has_effect]


def _checked_events(source: TraceFile, events: BlockEvents) -> Iterator[BlockEvent]:
    """Yield the events at valid times and places.

    Events without a place on the device are counted in the coverage of the trace. All others are faults.

    Args:
        source: The trace file, which receives the faults.
        events: The events, each with its place in the file.
    """
    for place, event in events:
        if event.time_ns >= MAX_NUMBER:
            source.fault(place, "more than 146 years after the start")
        elif event.size_bytes and event.offset_bytes >= MAX_NUMBER:
            if event.action in _COUNTED:
                source.coverage.left_out[_IMPOSSIBLE.format(event.offset_bytes // KERNEL_SECTOR_BYTES)] += 1
        else:
            yield event if event.size_bytes else event._replace(offset_bytes=0)


# ---- From events to requests

_Issued = list[Any]  # as `TraceRequest`, and changed at its completion
_InFlight = dict[tuple[str, int, int], deque[_Issued]]  # by device, operation and offset


def read_events(
    source: TraceFile, events: Callable[[TraceFile, str], Iterator[pd.DataFrame]]
) -> Iterator[pd.DataFrame]:
    """Yield the requests of a trace as tables, see `traces.read_pieces`.

    These are the requests issued to the drive if ``source.issued`` is set, or if the first 100,000 events do not
    contain a queued request. Otherwise they are the queued requests.

    Args:
        source: The trace file.
        events: Yields the events of the trace with some actions as tables, see `event_tables`; it is called twice.

    Raises:
        TwinError: The first 100,000 events contain no such request.
    """
    quiet = replace(source, skipped=None if source.skipped is None else SkippedLines(), coverage=Coverage())
    examined = 0
    actions: set[str] = set()
    for table in events(quiet, _ALL):
        actions |= {_ALL[number] for number in table["action"].iloc[: _EXAMINED_EVENTS - examined].unique()}
        examined += len(table)
        if examined >= _EXAMINED_EVENTS:
            break
    if "Q" in actions and not source.issued:
        yield from filter(len, map(_queued_requests, events(source, "Q")))
    elif "D" in actions:
        times = ("arrival_ns", "dispatched_ns", *(["completed_ns"] if "C" in actions else []))
        yield from request_tables(_issued_requests(events(source, "DRC")), times)
    else:
        which = "issued to the drive (D)" if source.issued else "queued (Q) or issued to the drive (D)"
        raise source.error(f"no request {which} among the first {_EXAMINED_EVENTS} events. Record these events, too")


def _queued_requests(events: pd.DataFrame) -> pd.DataFrame:
    """Return a request for each event ``Q`` (queued).

    A write that flushes the drive's cache first becomes two requests: a flush and a write.
    """
    queued = events[events["flushes"] | (events["size_bytes"] > 0)]
    flushes, has_data = queued["flushes"].to_numpy(), (queued["size_bytes"] > 0).to_numpy()
    rows = np.repeat(np.arange(len(queued)), flushes.astype(int) + has_data)
    is_flush = flushes[rows] & np.concatenate([[True], rows[1:] != rows[:-1]])[: len(rows)]
    requests = queued.iloc[rows]
    return pd.DataFrame(
        {
            "operation": np.where(is_flush, _FLUSH, requests["operation"]).astype(np.uint8),
            "offset_bytes": np.where(is_flush, 0, requests["offset_bytes"]).astype(np.uint64),
            "size_bytes": np.where(is_flush, 0, requests["size_bytes"]).astype(np.uint64),
            "arrival_ns": requests["time_ns"].to_numpy(),
            "volume": requests["device"].array,
        }
    )


def _issued_requests(tables: Iterable[pd.DataFrame]) -> Iterator[TraceRequest]:
    """Yield the requests in the order in which they were issued to the drive.

    Each has the time of its completion, or `UNKNOWN_TIME` if the trace has none. An issue that the drive returned to be
    issued again is left out.
    """
    in_order: deque[_Issued] = deque()
    in_flight: _InFlight = {}
    for time_ns, action, flushes, operation, offset, size, device in itertools.chain.from_iterable(map(_rows, tables)):
        key = (device, operation, offset) if size else (device, _FLUSH, 0)
        if action == _D:
            if flushes and size:  # the completion of the flush is not recorded
                in_order.append([_FLUSH, 0, 0, time_ns, time_ns, UNKNOWN_TIME, device])
            if flushes or size:
                in_order.append([*key[1:], size, time_ns, time_ns, UNKNOWN_TIME, device])
                in_flight.setdefault(key, deque()).append(in_order[-1])
        elif waiting := in_flight.get(key):
            request = waiting.popleft() if action == _C else waiting.pop()
            request[5] = time_ns if action == _C else _REQUEUED
            if not waiting:
                del in_flight[key]
        while in_order and (in_order[0][5] != UNKNOWN_TIME or len(in_order) > _MAX_IN_FLIGHT):
            yield from _finished(in_order.popleft(), in_flight)
    for request in in_order:
        yield from _finished(request, {})


def _rows(events: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """Return an iterator over events as tuples."""
    return zip(*(events[name].tolist() for name in (*_TYPES, "device")), strict=True)


_D, _C = _ALL.index("D"), _ALL.index("C")
_REQUEUED = UNKNOWN_TIME + 1  # in place of the completion time


def _finished(request: _Issued, in_flight: _InFlight) -> Iterator[TraceRequest]:
    """Yield a request that has ended, unless the drive returned it to be issued again.

    A request whose completion the trace does not contain is also removed from ``in_flight``.

    Args:
        request: Operation, offset, size, arrival time, time of the issue, time of the completion, and device. The time
            of the completion is `_REQUEUED` if the drive returned the request, and `UNKNOWN_TIME` if it is not known.
        in_flight: Issued requests that have not completed, by device, operation and offset.
    """
    operation, offset, size, arrival, dispatched, completed, device = request
    key = (device, operation, offset)
    waiting = in_flight.get(key, ())
    if completed == UNKNOWN_TIME and waiting and waiting[0] is request:
        waiting.popleft()
        if not waiting:
            del in_flight[key]
    if completed != _REQUEUED:
        yield operation, offset, size, arrival, dispatched, completed, device


# ---- The default text output of blkparse

BLKPARSE_LINE = re.compile(
    r"\s*(\d{1,9},\d{1,9})\s+\d+\s+\d+\s+(\d{1,10})\.(\d{1,9})\s+\d+\s+([A-Za-z]{1,2})\s+([A-Z]+)(\s.*)?$"
)
_SECTORS = re.compile(r"\s+(\d{1,20}) \+ (\d{1,12})(?:\s|$)")
_PACKET = re.compile(r"\s+(?:\d+ )?\(")  # a packet command, such as INQUIRY, has its bytes in place of sectors
# The same for blocks of lines: any event, and the columns of an event of `_ALL`
_PLAIN_START = r"^\s*\d{1,9},\d{1,9}\s+\d+\s+\d+\s+\d{1,10}\.\d{1,9}\s+\d+\s+"
_PLAIN_LINE = _PLAIN_START + r"[A-Za-z]{1,2}\s+[A-Z]+(?:\s|$)"
_PLAIN_COLUMNS = (
    r"^\s*(?P<device>\d+,\d+)\s+\d+\s+\d+\s+(?P<seconds>\d+)\.(?P<fraction>\d+)\s+\d+\s+(?P<action>[QDRC])"
    r"\s+(?P<rwbs>[A-Z]+)(?:\s+(?P<sector>\d{1,20}) \+ (?P<count>\d{1,12})(?:\s|$))?"
)
# Start of the lines before the events, and of the lines of the summary after them
BLKPARSE_HEADER = "Input file"
_SUMMARY = ("CPU", "Total (", "Events (", "Throughput", "Skips:")
_LOST = re.compile(r"Skips: \d+ forward \((\d+)")
_KINDS = {"R": _READ, "W": _WRITE, "D": _DISCARD}


def read_blkparse(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests in blkparse's default text output as tables.

    blkparse prints the events that blktrace has recorded in the kernel: queued, issued to the drive, completed. The
    tables have the queued requests. They have the requests issued to the drive instead if ``source.issued`` is set, or
    if the first 100,000 events contain no queued request. `traces.read_pieces` describes the columns of the tables.

    Args:
        source: The trace file.

    Raises:
        TwinError: The first 100,000 events contain no such request. Or a line is faulty, and ``source.skipped`` is
            None.
    """
    return read_events(source, _text_events)


def _text_events(source: TraceFile, actions: str) -> Iterator[pd.DataFrame]:
    is_over = False

    def parse(line: str) -> BlockEvent | None:
        nonlocal is_over
        if line.startswith(_SUMMARY):
            lost = _LOST.match(line)
            source.coverage.left_out["events that blktrace lost"] += int(lost[1]) if lost else 0
            is_over = True
        if is_over and not BLKPARSE_LINE.match(line):
            return None
        return None if line.startswith(BLKPARSE_HEADER) or not line.strip() else _parse_event(line)

    return events_of_lines(source, actions, _parse_plain, parse)


def _parse_plain(source: TraceFile, block: bytes, actions: str) -> pd.DataFrame:
    """Return the events in lines of blkparse as a table.

    Args:
        source: The trace file.
        block: The lines.
        actions: Letters of the actions whose events are returned.

    Raises:
        NotPlainError: A line needs a closer look.
    """
    import pyarrow.compute as pc

    lines = split_lines(source, block)
    require_plain(pc.all(pc.match_substring_regex(lines, _PLAIN_LINE)).as_py())
    columns = extract_columns(
        lines.filter(pc.match_substring_regex(lines, rf"{_PLAIN_START}[{actions}]\s")), _PLAIN_COLUMNS
    )
    return event_table(columns, {action: action for action in _ALL})


def operation_of(rwbs: str) -> tuple[int | None, bool]:
    """Return the operation in a field RWBS, and whether the request flushes the drive's cache first.

    The operation is None for a flush without data, and for commands such as the reset of a zone.

    Args:
        rwbs: The field, as blkparse, perf and biosnoop print it, such as ``WS``.
    """
    return _KINDS.get(rwbs.lstrip("F")[:1]), rwbs[:1] == "F"


def _parse_event(line: str) -> BlockEvent | None:
    """Return the event in a line of blkparse.

    Returns None for an event without effect on a replay.

    The field RWBS of the line (see blkparse(1)) describes the request. It begins with F if the drive's cache is flushed
    before the data. Then comes R (read), W (write), D (discard) or N (no operation). The remaining letters (F, A, S, M)
    have no effect on a replay.

    Raises:
        ValueError: The line is not an event, or has no sectors.
    """
    found = BLKPARSE_LINE.match(line)
    if found is None:
        raise ValueError(
            f"not an event of blkparse (device, CPU, number, time, process, action, RWBS): '{printable(line.strip())}'"
        )
    device, seconds, fraction, action, rwbs, rest = found.groups()
    if action not in {"Q", "D", "R", "C"}:
        return None
    operation, flushes = operation_of(rwbs)
    sectors = _SECTORS.match(rest or "") if operation is not None else None
    if sectors is None:
        if operation is not None and not flushes and action in "QD" and not _PACKET.match(rest or ""):
            raise ValueError(f"'{rwbs}' requires 'SECTOR + SECTORS', not '{printable((rest or '').strip())}'")
        if not flushes:
            return None
    sector, count = map(int, sectors.groups()) if sectors else (0, 0)
    time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
    offset, size = sector * KERNEL_SECTOR_BYTES, count * KERNEL_SECTOR_BYTES
    return BlockEvent(time_ns, device, action, flushes, _READ if operation is None else operation, offset, size)


# ---- The binary records of blktrace (struct blk_io_trace in the kernel's include/uapi/linux/blktrace_api.h)

_MAGIC = 0x65617400
_VERSION = 7
_FIELDS = "IIQQIIIIIHH"  # magic, sequence, time, sector, bytes, action, pid, device, cpu, error, pdu_len
_RECORD_BYTES = struct.calcsize("=" + _FIELDS)
_RECORD = np.dtype(
    {
        "names": ["time_ns", "sector", "size", "action", "device", "extra"],
        "formats": ["<u8", "<u8", "<u4", "<u4", "<u4", "<u2"],
        "offsets": [8, 16, 24, 28, 36, 46],
        "itemsize": _RECORD_BYTES,
    }
)
_RECORDS = {"<": _RECORD, ">": _RECORD.newbyteorder(">")}  # by byte order
_ACTIONS = {1: "Q", 6: "R", 7: "D", 8: "C"}
_WRITES, _FLUSHES, _PACKETS, _NOTES, _DISCARDS = (1 << bit for bit in (1, 2, 9, 10, 13))  # BLK_TC_*
_CGROUP = 1 << 8
_SEARCHED_BYTES = 1 << 16
_PER_CPU_FILE = re.compile(r"(.*\.blktrace\.)\d+$")


def byte_order(head: bytes) -> str:
    """Return the byte order of blktrace records: ``<`` (little) or ``>`` (big).

    The result is an empty text if the bytes do not begin with a record.

    Args:
        head: The first bytes of a file; four suffice.
    """
    for order in ("<", ">"):
        if len(head) >= 4 and struct.unpack_from(f"{order}I", head)[0] >> 8 == _MAGIC >> 8:
            return order
    return ""


def read_blktrace(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests in the binary records of blktrace as tables.

    blktrace records events of requests in the kernel (queued, issued to the drive, completed), and writes a file
    ``NAME.blktrace.CPU`` for each CPU. If the source has such a name, the files of all CPUs are read and merged by
    time. A source with another name, such as the output of ``blkparse -d``, is read alone.

    The tables have the queued requests. They have the requests issued to the drive instead if ``source.issued`` is set,
    or if the first 100,000 events contain no queued request. `traces.read_pieces` describes the columns of the tables.

    Args:
        source: The trace file, or one of the files of the CPUs.

    Raises:
        TwinError: The first 100,000 events contain no such request, or a file has another version of the format. Or a
            record is faulty, and ``source.skipped`` is None.
    """
    return read_events(source, _binary_events)


def is_per_cpu_file(path: Path) -> bool:
    """Return whether a file is named like blktrace's files: ``sda.blktrace.0``.

    blktrace writes a file for each CPU. The file of an idle CPU is empty, so that only its name shows the format.

    Args:
        path: The path of the file, which is not read.
    """
    return _PER_CPU_FILE.match(path.name) is not None


def _binary_events(source: TraceFile, actions: str) -> Iterator[pd.DataFrame]:
    per_cpu = _PER_CPU_FILE.match(source.path.name)
    paths = [source.path]
    if per_cpu is not None:
        prefix = per_cpu[1]
        paths = sorted(
            path
            for path in source.path.parent.iterdir()
            if path.name.startswith(prefix) and path.name.removeprefix(prefix).isdigit() and path.is_file()
        )
    return _merged([_file_tables(replace(source, path=path), actions) for path in paths])


def _merged(streams: Sequence[Iterator[pd.DataFrame]]) -> Iterator[pd.DataFrame]:
    """Yield the events of several files in the order of time; events of one file keep their order.

    Args:
        streams: The events of each file.
    """
    waiting: dict[int, pd.DataFrame] = {}
    reached_ns = dict.fromkeys(range(len(streams)), -1)  # the latest time of each file that has not ended
    while reached_ns:
        slowest = min(reached_ns, key=reached_ns.__getitem__)
        table = next(streams[slowest], None)
        if table is None:
            del reached_ns[slowest]
        elif len(table):
            times = np.maximum.accumulate(np.maximum(table["time_ns"].to_numpy(), reached_ns[slowest]))
            reached_ns[slowest] = int(times[-1])
            table = table.assign(merged_ns=times, device=table["device"].astype(object))
            waiting[slowest] = pd.concat([waiting[slowest], table]) if slowest in waiting else table
        until_ns = min(reached_ns.values(), default=MAX_NUMBER)
        ready = {stream: table[table["merged_ns"] < until_ns] for stream, table in sorted(waiting.items())}
        waiting = {stream: table.iloc[len(ready[stream]) :] for stream, table in waiting.items()}
        if any(map(len, ready.values())):
            every = pd.concat(ready.values(), ignore_index=True).sort_values("merged_ns", kind="stable")
            yield every.drop(columns="merged_ns").assign(device=pd.Categorical(every["device"]))


def _file_tables(source: TraceFile, actions: str) -> Iterator[pd.DataFrame]:
    """Yield the events in one file of binary records as tables.

    After a record that is not plain, or is faulty, the file is parsed record by record.

    Args:
        source: The file.
        actions: Letters of the actions whose events are returned.
    """
    at, content = 0, b""
    with compressed.opened(source.path) as file, contextlib.suppress(NotPlainError):
        while more := file.read(BLOCK_BYTES):
            content += more
            table, end = _parse_records(source, content, actions)
            yield table
            at, content = at + end, content[end:]
        require_plain(at and not content)
        return
    yield from event_tables(source, _file_events(source, at), actions)


def _parse_records(source: TraceFile, content: bytes, actions: str) -> tuple[pd.DataFrame, int]:
    """Return the events in binary records as a table, and the end of the last complete record.

    Args:
        source: The file, whose coverage receives the number of packet commands.
        content: The records; the last may be incomplete.
        actions: Letters of the actions whose events are returned.

    Raises:
        NotPlainError: A record is faulty, or has no place on the device.
    """
    order = byte_order(content)
    require_plain(order)
    magic = struct.pack(f"{order}I", _MAGIC | _VERSION)
    octets = np.frombuffer(content, dtype=np.uint8)
    starts = np.flatnonzero(octets[: max(0, len(content) - _RECORD_BYTES + 1)] == magic[0])
    for place, octet in enumerate(magic):
        starts = starts[octets[starts + place] == octet]
    records = octets[starts[:, None] + np.arange(_RECORD_BYTES)].view(_RECORDS[order]).ravel()
    ends = starts + _RECORD_BYTES + records["extra"]
    require_plain(len(starts) and starts[0] == 0 and (starts[1:] == ends[:-1]).all())
    if ends[-1] > len(content):
        records, ends = records[:-1], ends[:-1]
    category, action = records["action"] >> 16, records["action"] & 0xFFFF & ~np.uint32(_CGROUP)
    letters = np.array([_ALL.find(_ACTIONS.get(number, "-")) for number in range(max(_ACTIONS) + 1)])
    letter = np.where(action < len(letters), letters[np.minimum(action, len(letters) - 1)], -1)
    is_packet = (category & _PACKETS) != 0
    counted = np.isin(letter, [_ALL.index(each) for each in _COUNTED])
    flushes, has_data = (category & _FLUSHES) != 0, records["size"] > 0
    kept = np.isin(letter, [_ALL.index(each) for each in actions]) & ((category & _NOTES) == 0) & ~is_packet
    kept &= flushes | has_data
    found, flushes, category, has_data = records[kept], flushes[kept], category[kept], has_data[kept]
    sector = np.where(has_data, found["sector"], 0)
    require_plain((found["time_ns"] < MAX_NUMBER).all() and (sector < _MOST_SECTORS).all())
    source.coverage.left_out[_PACKETS_LEFT_OUT] += int((is_packet & counted).sum())
    is_discard, is_write = (category & _DISCARDS) != 0, (category & _WRITES) != 0
    devices, codes = np.unique(found["device"], return_inverse=True)
    table = pd.DataFrame(
        {
            "time_ns": found["time_ns"].astype(np.int64),
            "action": letter[kept].astype(np.uint8),
            "flushes": flushes,
            "operation": np.select([is_discard, is_write], [_DISCARD, _WRITE], _READ).astype(np.uint8),
            "offset_bytes": sector.astype(np.int64) * KERNEL_SECTOR_BYTES,
            "size_bytes": found["size"].astype(np.int64),
            "device": pd.Categorical.from_codes(codes, pd.Index([_device_name(int(each)) for each in devices])),
        }
    )
    return table, int(ends[-1]) if len(ends) else 0


def _device_name(number: int) -> str:
    return f"{number >> 20},{number & 0xFFFFF}"


def _file_events(source: TraceFile, at: int) -> Iterator[tuple[str, BlockEvent]]:
    """Yield the events in one file of binary records, from a record on.

    Each event comes with its position in the file in words, such as ``byte 480``, for messages. Faulty records are
    reported to the source.

    Args:
        source: The file.
        at: Position of the first record in bytes.

    Raises:
        TwinError: The file does not begin with a record, or has another version of the format.
    """
    with compressed.opened(source.path) as file:
        order = byte_order(file.read(4))
        if not order:
            if file.tell():  # the file of an idle CPU is empty
                raise source.error("not a record of blktrace", "byte 0")
            return
        record = struct.Struct(order + _FIELDS)
        file.seek(at)
        while head := file.read(_RECORD_BYTES):
            place = f"byte {at}"
            if len(head) < _RECORD_BYTES:
                source.fault(place, f"the record is cut off: {len(head)} of {_RECORD_BYTES} bytes")
                return
            magic, _, time_ns, sector, size, action, _, device, _, _, extra = record.unpack(head)
            if magic != _MAGIC | _VERSION:
                if magic >> 8 == _MAGIC >> 8:
                    raise source.error(
                        f"version {magic & 0xFF} of blktrace; only version {_VERSION} is supported", place
                    )
                source.fault(place, "not a record of blktrace")
                at = _seek_record(file, at + 1, struct.pack(f"{order}I", _MAGIC | _VERSION))
                continue
            if extra and len(file.read(extra)) < extra:
                source.fault(place, f"the {extra} bytes after the record are cut off")
                return
            at += _RECORD_BYTES + extra
            category = action >> 16
            letter = _ACTIONS.get(action & 0xFFFF & ~_CGROUP)
            if letter is None or category & (_NOTES | _PACKETS):
                source.coverage.left_out[_PACKETS_LEFT_OUT] += letter in _COUNTED and bool(category & _PACKETS)
                continue
            flushes = bool(category & _FLUSHES)
            operation = _DISCARD if category & _DISCARDS else _WRITE if category & _WRITES else _READ
            if not (size or flushes):
                continue
            offset = sector * KERNEL_SECTOR_BYTES
            yield place, BlockEvent(time_ns, _device_name(device), letter, flushes, operation, offset, size)


def _seek_record(file: IO[bytes], at: int, magic: bytes) -> int:
    """Seek to the next possible record, or to the end of the file.

    Args:
        file: The file.
        at: Position in bytes at which the search begins.
        magic: The first bytes of each record.

    Returns:
        The new position in bytes.
    """
    file.seek(at)
    window = b""
    while True:
        more = file.read(_SEARCHED_BYTES)
        window += more
        found = window.find(magic)
        if found >= 0 or not more:
            at += found if found >= 0 else len(window)
            file.seek(at)
            return at
        at += max(len(window) - len(magic) + 1, 0)
        window = window[-len(magic) + 1 :]
