"""Traces of the kernel's block layer: the text of blkparse(1), and the binary records of blktrace(8)."""

import heapq
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, SkippedLines, printable
from iopatterns.twin.traces.form import OPERATIONS, UNKNOWN_TIME, TraceFile, TraceRequest, request_tables

_SECTOR_BYTES = 512
_READ, _WRITE, _FLUSH, _DISCARD = (OPERATIONS[name] for name in ("read", "write", "flush", "discard"))
_EVENTS_LOOKED_AT = 100_000  # to see which requests a trace has
_MOST_IN_FLIGHT = 100_000  # of a trace whose completions were lost


class BlockEvent(NamedTuple):
    """A request on its way: queued (Q), issued to the drive (D), taken back from it (R), or completed (C)."""

    time_ns: int
    device: str
    action: str
    flushes: bool  # before its data, or alone
    operation: int
    offset_bytes: int
    size_bytes: int  # 0 where it has no data


BlockEvents = Iterable[tuple[str, BlockEvent]]  # each with its place in the file


# ---- Requests out of events


def _pieces(source: TraceFile, events: Callable[[TraceFile], BlockEvents]) -> Iterator[pd.DataFrame]:
    """Yield the requests queued, or, with their completions, those issued to the drive.

    The latter where they are asked for, or no request was queued among the first events.
    """
    quiet = replace(source, skipped=None if source.skipped is None else SkippedLines())
    actions = {event.action for _, event in islice(events(quiet), _EVENTS_LOOKED_AT)}
    if "Q" in actions and not source.issued:
        yield from request_tables(_queued(_of_one_device(source, events(source))), ("arrival_ns",))
    elif "D" in actions:
        times = ("arrival_ns", "dispatched_ns", *(["completed_ns"] if "C" in actions else []))
        yield from request_tables(_issued(_of_one_device(source, events(source))), times)
    else:
        which = "issued to the drive (D)" if source.issued else "queued (Q) or issued to the drive (D)"
        raise source.error(f"no request {which} among the first {_EVENTS_LOOKED_AT} events")


def _of_one_device(source: TraceFile, events: BlockEvents) -> Iterator[BlockEvent]:
    device = ""
    for place, event in events:
        device = device or event.device
        if event.device != device:
            source.fault(
                place, f"device {event.device}, but {device} before. Give the events of one device (blkparse -i NAME)."
            )
        elif event.time_ns >= MAX_NUMBER:
            source.fault(place, "more than 146 years after the start")
        else:
            yield event


def _queued(events: Iterable[BlockEvent]) -> Iterator[TraceRequest]:
    """Yield the requests as the host made them; a flush in front of a write becomes both."""
    for time_ns, _, action, flushes, operation, offset, size in events:
        if action == "Q":
            if flushes:
                yield _FLUSH, 0, 0, time_ns, UNKNOWN_TIME, UNKNOWN_TIME
            if size:
                yield operation, offset, size, time_ns, UNKNOWN_TIME, UNKNOWN_TIME


def _issued(events: Iterable[BlockEvent]) -> Iterator[TraceRequest]:
    """Yield the requests as the drive got them, in that order; one that was taken back is left out."""
    in_order: deque[list[int]] = deque()
    in_flight: dict[tuple[int, int], deque[list[int]]] = {}  # by operation and offset
    for time_ns, _, action, flushes, operation, offset, size in events:
        key = (operation, offset) if size else (_FLUSH, 0)
        if action == "D":
            if flushes and size:  # ends with its write
                in_order.append([_FLUSH, 0, 0, time_ns, time_ns, UNKNOWN_TIME])
            if flushes or size:
                in_order.append([*key, size, time_ns, time_ns, UNKNOWN_TIME])
                in_flight.setdefault(key, deque()).append(in_order[-1])
        elif action in "CR" and (waiting := in_flight.get(key)):
            request = waiting.popleft() if action == "C" else waiting.pop()
            request[5] = time_ns if action == "C" else _TAKEN_BACK
            if not waiting:
                del in_flight[key]
        while in_order and (in_order[0][5] != UNKNOWN_TIME or len(in_order) > _MOST_IN_FLIGHT):
            yield from _over(in_order.popleft(), in_flight)
    for request in in_order:
        yield from _over(request, {})


_TAKEN_BACK = UNKNOWN_TIME + 1


def _over(request: list[int], in_flight: dict[tuple[int, int], deque[list[int]]]) -> Iterator[TraceRequest]:
    """Yield a request that nothing more will be heard of, and forget it."""
    operation, offset, size, arrival, dispatched, completed = request
    key = (operation, offset)
    waiting = in_flight.get(key, ())
    if completed == UNKNOWN_TIME and waiting and waiting[0] is request:
        waiting.popleft()
        if not waiting:
            del in_flight[key]
    if completed != _TAKEN_BACK:
        yield operation, offset, size, arrival, dispatched, completed


# ---- blkparse's default text

BLKPARSE_LINE = re.compile(
    r"\s*(\d{1,9},\d{1,9})\s+\d+\s+\d+\s+(\d{1,10})\.(\d{1,9})\s+\d+\s+([A-Za-z]{1,2})\s+([A-Z]+)(\s.*)?$"
)
_SECTORS = re.compile(r"\s+(\d{1,16}) \+ (\d{1,12})(?:\s|$)")
_PACKET = re.compile(r"\s+(?:\d+ )?\(")  # a packet command, such as an INQUIRY: its bytes, in place of sectors
# What blkparse writes before the events, and the summaries after them
BLKPARSE_HEADER = "Input file"
_AFTER = ("CPU", "Total (", "Events (", "Throughput", "Skips:")
_KINDS = {"R": _READ, "W": _WRITE, "D": _DISCARD}


def read_blkparse(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of blkparse's default text."""
    return _pieces(source, _text_events)


def _text_events(source: TraceFile) -> Iterator[tuple[str, BlockEvent]]:
    for number, line in source.lines():
        if line.startswith(_AFTER):
            break
        if line.startswith(BLKPARSE_HEADER) or not line.strip():
            continue
        try:
            event = _text_event(line)
        except ValueError as why:
            source.fault(f"line {number}", why)
            continue
        if event is not None:
            yield f"line {number}", event


def _text_event(line: str) -> BlockEvent | None:
    """Return the event of a line, or None where it is none of a request's. Raises ValueError.

    RWBS is as blkparse(1) has it: F in front is a flush; then R, W, D (discard) or N (none); what follows (F, A, S, M)
    says how, of which a replay knows nothing.
    """
    found = BLKPARSE_LINE.match(line)
    if found is None:
        raise ValueError(
            f"no event of blkparse (device, CPU, number, time, process, action, RWBS): '{printable(line.strip())}'"
        )
    device, seconds, fraction, action, rwbs, rest = found.groups()
    if action not in {"Q", "D", "R", "C"}:
        return None
    flushes = rwbs[0] == "F"
    operation = _KINDS.get(rwbs.lstrip("F")[:1])
    sectors = _SECTORS.match(rest or "") if operation is not None else None
    if sectors is None:
        if operation is not None and not flushes and action in "QD" and not _PACKET.match(rest or ""):
            raise ValueError(f"'{rwbs}' needs 'SECTOR + SECTORS', not '{printable((rest or '').strip())}'")
        if not flushes:
            return None
    sector, count = map(int, sectors.groups()) if sectors else (0, 0)
    time_ns = int(seconds) * 10**9 + int(fraction.ljust(9, "0"))
    offset, size = sector * _SECTOR_BYTES, count * _SECTOR_BYTES
    return BlockEvent(time_ns, device, action, flushes, _READ if operation is None else operation, offset, size)


# ---- blktrace's binary records (struct blk_io_trace in the kernel's include/uapi/linux/blktrace_api.h)

_MAGIC = 0x65617400
_VERSION = 7
_FIELDS = "IIQQIIIIIHH"  # magic, sequence, time, sector, bytes, action, pid, device, cpu, error, pdu_len
_RECORD_BYTES = struct.calcsize("=" + _FIELDS)
_ACTIONS = {1: "Q", 6: "R", 7: "D", 8: "C"}
_WRITES, _FLUSHES, _PACKETS, _NOTES, _DISCARDS = (1 << bit for bit in (1, 2, 9, 10, 13))  # BLK_TC_*
_CGROUP = 1 << 8
_SEARCHED_BYTES = 1 << 16
_OF_ONE_CPU = re.compile(r"(.*\.blktrace\.)\d+$")


def byte_order(head: bytes) -> str:
    """Return the byte order of records by the first bytes of their file, as `struct` names it; '' for no records."""
    for order in ("<", ">"):
        if len(head) >= 4 and struct.unpack_from(f"{order}I", head)[0] >> 8 == _MAGIC >> 8:
            return order
    return ""


def read_blktrace(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of the records of blktrace: of a file ``NAME.blktrace.CPU`` with those of all other CPUs.

    The files of the CPUs are merged by time; any other file, such as of ``blkparse -d``, is taken as it is.
    """
    return _pieces(source, _binary_events)


def is_per_cpu_file(path: Path) -> bool:
    """Return whether a file is called as those that blktrace writes, one a CPU; that of an idle CPU is empty."""
    return _OF_ONE_CPU.match(path.name) is not None


def _binary_events(source: TraceFile) -> BlockEvents:
    found = _OF_ONE_CPU.match(source.path.name)
    paths = [source.path]
    if found is not None:
        paths = sorted(path for path in source.path.parent.iterdir() if _is_of(path, found[1]))
    streams = [_records(replace(source, path=path)) for path in paths]
    return heapq.merge(*streams, key=lambda each: each[1].time_ns)


def _is_of(path: Path, name: str) -> bool:
    return path.name.startswith(name) and path.name.removeprefix(name).isdigit() and path.is_file()


def _records(source: TraceFile) -> Iterator[tuple[str, BlockEvent]]:
    with source.path.open("rb") as file:
        order = byte_order(file.read(4))
        if not order:
            if file.tell():  # a CPU may have no event
                raise source.error("no record of blktrace", "byte 0")
            return
        record = struct.Struct(order + _FIELDS)
        at = 0
        file.seek(0)
        while head := file.read(_RECORD_BYTES):
            place = f"byte {at}"
            if len(head) < _RECORD_BYTES:
                source.fault(place, f"a record ends after {len(head)} bytes, but has {_RECORD_BYTES}")
                return
            magic, _, time_ns, sector, size, action, _, device, _, _, extra = record.unpack(head)
            if magic != _MAGIC | _VERSION:
                if magic >> 8 == _MAGIC >> 8:
                    raise source.error(
                        f"records of blktrace's version {magic & 0xFF}, but only {_VERSION} is known", place
                    )
                source.fault(place, "no record of blktrace begins here")
                at = _next_record(file, at + 1, struct.pack(f"{order}I", _MAGIC | _VERSION))
                continue
            if extra and len(file.read(extra)) < extra:
                source.fault(place, f"the {extra} bytes after a record are not all there")
                return
            at += _RECORD_BYTES + extra
            category = action >> 16
            letter = _ACTIONS.get(action & 0xFFFF & ~_CGROUP)
            if letter is None or category & (_NOTES | _PACKETS):
                continue
            flushes = bool(category & _FLUSHES)
            operation = _DISCARD if category & _DISCARDS else _WRITE if category & _WRITES else _READ
            if not (size or flushes):
                continue
            offset = sector * _SECTOR_BYTES
            if offset >= MAX_NUMBER:
                source.fault(place, f"sector {sector} is beyond all drives")
                continue
            name = f"{device >> 20},{device & 0xFFFFF}"
            yield place, BlockEvent(time_ns, name, letter, flushes, operation, offset, size)


def _next_record(file: BinaryIO, at: int, magic: bytes) -> int:
    """Go to where the next record may begin, at a byte or later, or to the file's end; return the place."""
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
