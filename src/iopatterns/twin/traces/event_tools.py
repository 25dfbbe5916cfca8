"""Read the block events that perf, ftrace and biosnoop print."""

import heapq
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.twin.traces.blktrace import KERNEL_SECTOR_BYTES, BlockEvent, BlockEvents, operation_of, read_events
from iopatterns.twin.traces.form import OPERATIONS, TraceFile, TraceRequest, TraceRequests, request_tables

_FLUSH = OPERATIONS["flush"]

# ---- perf script, ftrace, trace-cmd, and perf trace

_ACTIONS = {"bio_queue": "Q", "rq_issue": "D", "rq_requeue": "R", "rq_complete": "C"}
_EVENT = r"(?:block:)?block_([a-z_]+)"
# Time in seconds, event, device, RWBS, and sectors, such as
# `fio 12 [001] 5.000001: block:block_rq_issue: 8,0 W 4096 () 2048 + 8 [fio]`
_SCRIPT = re.compile(rf".*?\s(\d{{1,12}})\.(\d{{1,9}}):\s+(?:\d+\s+)?{_EVENT}:\s+(.*)$")
_SCRIPT_REQUEST = re.compile(r"(\d+,\d+)\s+([A-Z]+)\s+(?:\d+\s+)?(?:\(.*?\)\s+)?(\d{1,20}) \+ (\d{1,10})(?:\s|$)")
# Time in ms, event, and fields, such as
# `1.250 fio/12 block:block_rq_issue(dev: 8388608, sector: 2048, nr_sector: 8, bytes: 4096, rwbs: "W", comm: "fio")`
_TRACE = re.compile(rf"\s*(\d{{1,12}})\.(\d{{1,6}})\s+(?:\(.*?\):\s+)?(?:.*?\s)?{_EVENT}[(:](.*)$")
_TRACE_FIELD = re.compile(r'\b(dev|sector|nr_sector|rwbs): ?"?([A-Za-z0-9]*)')
_MINOR_BITS = 20


def is_perf_line(line: str) -> bool:
    """Return whether a line may be a block event of perf script, perf trace, ftrace or trace-cmd."""
    return bool(_SCRIPT.match(line) or _TRACE.match(line))


def read_perf(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests in block events of perf script, perf trace, ftrace or trace-cmd as tables.

    `blktrace.read_events` describes which events become requests.

    Args:
        source: The trace file.

    Raises:
        TwinError: The first 100,000 events contain no request. Or a line is faulty, and ``source.skipped`` is None.
    """
    return read_events(source, _perf_events)


def _perf_events(source: TraceFile) -> BlockEvents:
    for number, line in source.lines():
        try:
            event = _parse_event(line)
        except ValueError as problem:
            source.fault(f"line {number}", problem)
            continue
        if event is not None:
            yield f"line {number}", event


def _parse_event(line: str) -> BlockEvent | None:
    """Return the event in a line, or None for a comment or an event without effect on a replay.

    Raises:
        ValueError: The line is not an event, or a field is missing.
    """
    script, trace = _SCRIPT.match(line), _TRACE.match(line)
    found = script or trace
    if found is None:
        if not line.strip() or line.lstrip().startswith("#") or ":" in line:  # another event
            return None
        raise ValueError(f"not a block event of perf or ftrace: '{printable(line.strip())}'")
    whole, fraction, name, rest = found.groups()
    action = _ACTIONS.get(name)
    if action is None:
        return None
    time_ns = int(whole) * 10**9 + int(fraction.ljust(9, "0"))
    request = _SCRIPT_REQUEST.match(rest)
    if request is not None:
        device, rwbs, sector, count = request.groups()
    else:
        field = dict(_TRACE_FIELD.findall(rest))
        if not {"dev", "sector", "nr_sector", "rwbs"} <= field.keys():
            raise ValueError(f"no device, RWBS and sectors in '{printable(rest.strip())}'")
        number = int(field["dev"])
        device = f"{number >> _MINOR_BITS},{number & (1 << _MINOR_BITS) - 1}"
        rwbs, sector, count = field["rwbs"], field["sector"], field["nr_sector"]
    if script is None:  # perf trace prints milliseconds
        time_ns = int(whole) * 10**6 + int(fraction.ljust(6, "0"))
    operation, flushes = operation_of(rwbs)
    if operation is None and not flushes:
        return None
    size = 0 if operation is None else int(count) * KERNEL_SECTOR_BYTES
    return BlockEvent(time_ns, device, action, flushes, operation or 0, int(sector) * KERNEL_SECTOR_BYTES, size)


# ---- biosnoop of bcc, of libbpf-tools and of bpftrace

_MOST_LATE = 100_000  # requests among which a request may complete late
_UNITS_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_BCC_HEADER = "TIME(s) COMM PID DISK T SECTOR BYTES LAT(ms)"
_PATTERNS = {
    "COMM": r"(?:(.*?)\s+)??",
    "PID": r"(\d+)\s+",
    "DISK": r"(?:(\S+)\s+)?",
    "T": r"([A-Z-]+)\s+",
    "SECTOR": r"(\d{1,20})\s+",
    "BYTES": r"(\d{1,19})\s+",
}
_NUMBER = r"(\d{1,12}(?:\.\d{1,9})?)\s+"


def is_biosnoop_line(line: str) -> bool:
    """Return whether a line is the header of biosnoop, or a line of biosnoop with the columns of bcc."""
    return line.startswith("TIME(") or _line_pattern(_BCC_HEADER.split()).match(line + " ") is not None


def _line_pattern(columns: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of a line, with a group for each column.

    Args:
        columns: The words of the header.
    """
    names = [column.partition("(")[0] for column in columns]
    parts = [_NUMBER if name in {"TIME", "LAT", "QUE"} else _PATTERNS.get(name, r"(\S+)\s+") for name in names]
    return re.compile(r"\s*" + "".join(parts) + "$")


def read_biosnoop(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests that biosnoop has printed as tables.

    biosnoop prints a request when it completes. Its latency then gives the time of its issue, and the column QUE, if
    there is one, the time before that in the queue. The requests are returned in the order of their arrival.

    Args:
        source: The trace file.

    Raises:
        TwinError: The output has no sectors and sizes, as of bpftrace's biosnoop.bt. Or a line is faulty, and
            ``source.skipped`` is None.
    """
    lines = source.lines()
    first = next(lines, (1, ""))
    has_header = first[1].startswith("TIME(")
    columns = (first[1] if has_header else _BCC_HEADER).split()
    names = [column.partition("(")[0] for column in columns]
    if not {"TIME", "T", "SECTOR", "BYTES", "LAT"} <= set(names):
        raise source.error(
            "this output of biosnoop has no sectors and sizes, as that of bpftrace's biosnoop.bt. Record with biosnoop"
            " of bcc, or with blktrace"
        )
    units_ns = {
        name: _UNITS_NS[column.partition("(")[2].rstrip(")")]
        for name, column in zip(names, columns, strict=True)
        if name in {"TIME", "LAT", "QUE"}
    }
    pattern = _line_pattern(columns)

    def parse(line: str) -> TraceRequests:
        if not line.strip() or line.startswith("TIME("):
            return ()
        found = pattern.match(f"{line.rstrip()} ")
        if found is None:
            raise ValueError(f"not a line of biosnoop ({' '.join(columns)}): '{printable(line.strip())}'")
        field = dict(zip(names, found.groups(), strict=True))
        completed, latency, queued = (
            round(Decimal(field.get(name) or 0) * units_ns.get(name, 0)) for name in ("TIME", "LAT", "QUE")
        )
        sector, size = int(field["SECTOR"]), int(field["BYTES"])
        operation, flushes = operation_of(field["T"])
        volume = field.get("DISK") or ""
        dispatched = completed - latency
        if flushes and not size:
            operation, sector = _FLUSH, 0
        if operation is None or sector * KERNEL_SECTOR_BYTES >= MAX_NUMBER:
            where = f"at the impossible sector {sector}" if operation is not None else f"of type {field['T']}"
            source.coverage.left_out[f"requests {where}"] += 1
            return ()
        return ((operation, sector * KERNEL_SECTOR_BYTES, size, dispatched - queued, dispatched, completed, volume),)

    requests = source.parsed(lines if has_header else itertools.chain([first], lines), parse)
    yield from request_tables(_sorted(requests), ("arrival_ns", "dispatched_ns", "completed_ns"))


def _sorted(requests: Iterable[TraceRequest]) -> Iterator[TraceRequest]:
    """Yield requests in the order of their arrival; at most 100,000 requests may come before an earlier request."""
    waiting: list[tuple[int, int, TraceRequest]] = []
    for position, request in enumerate(requests):
        heapq.heappush(waiting, (request[3], position, request))
        if len(waiting) > _MOST_LATE:
            yield heapq.heappop(waiting)[2]
    while waiting:
        yield heapq.heappop(waiting)[2]
