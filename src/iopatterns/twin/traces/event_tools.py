"""Read the block events that perf, ftrace and biosnoop print."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.twin.traces.blktrace import (
    KERNEL_SECTOR_BYTES,
    BlockEvent,
    event_table,
    events_of_lines,
    operation_of,
    read_events,
)
from iopatterns.twin.traces.form import OPERATIONS, TIME_COLUMNS, TraceFile, TraceRequests, request_tables
from iopatterns.twin.traces.line_blocks import (
    NotPlainError,
    encoded_words,
    extract_columns,
    line_blocks,
    numbered_lines,
    require_plain,
    scaled_decimals,
    split_lines,
    whole_numbers,
)

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
# The columns of an event in blocks of lines of perf script
_PLAIN_COLUMNS = (
    r"^.*?\s(?P<seconds>\d{1,12})\.(?P<fraction>\d{1,9}):\s+(?:\d+\s+)?(?:block:)?block_(?P<action>[a-z_]+):\s+"
    r"(?P<device>\d+,\d+)\s+(?P<rwbs>[A-Z]+)\s+(?:\d+\s+)?(?:\(.*?\)\s+)?(?P<sector>\d{1,20}) \+ "
    r"(?P<count>\d{1,10})(?:\s|$)"
)
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


def _perf_events(source: TraceFile, actions: str) -> Iterator[pd.DataFrame]:
    return events_of_lines(source, actions, _parse_plain, _parse_event)


def _parse_plain(source: TraceFile, block: bytes, actions: str) -> pd.DataFrame:
    """Return the events in lines of perf script or ftrace as a table.

    Args:
        source: The trace file.
        block: The lines.
        actions: Letters of the actions whose events are returned.

    Raises:
        NotPlainError: A line needs a closer look, such as a line of perf trace.
    """
    import pyarrow.compute as pc

    lines = split_lines(source, block)
    require_plain(pc.all(pc.match_substring(lines, ":")).as_py())
    names = "|".join(name for name, action in _ACTIONS.items() if action in actions)
    columns = extract_columns(lines.filter(pc.match_substring_regex(lines, rf"\bblock_(?:{names})\b")), _PLAIN_COLUMNS)
    return event_table(columns, _ACTIONS)


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
# Pattern of each column; COMM and DISK may be empty, and COMM may have spaces
_PATTERNS = {
    "COMM": r"(?:(?P<COMM>.*?)\s+)??",
    "PID": r"(?P<PID>\d+)\s+",
    "DISK": r"(?:(?P<DISK>\S+)\s+)?",
    "T": r"(?P<T>[A-Z-]+)\s+",
    "SECTOR": r"(?P<SECTOR>\d{1,20})\s+",
    "BYTES": r"(?P<BYTES>\d{1,19})\s+",
    **{name: rf"(?P<{name}>\d{{1,12}}(?:\.\d{{1,9}})?)\s+" for name in ("TIME", "LAT", "QUE")},
}


def is_biosnoop_line(line: str) -> bool:
    """Return whether a line is the header of biosnoop, or a line of biosnoop with the columns of bcc."""
    return line.startswith("TIME(") or re.match(_line_pattern(_BCC_HEADER.split()), line + " ") is not None


def _line_pattern(columns: Sequence[str]) -> str:
    """Return the pattern of a line with a space at its end, in which a group has the name of each known column.

    Args:
        columns: The words of the header.
    """
    names = [column.partition("(")[0] for column in columns]
    return r"^\s*" + "".join(_PATTERNS.get(name, r"\S+\s+") for name in names) + "$"


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
    first = next(source.lines(), (1, ""))[1]
    columns = (first if first.startswith("TIME(") else _BCC_HEADER).split()
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
    pattern = re.compile(_line_pattern(columns))

    def parse(line: str) -> TraceRequests:
        if not line.strip() or line.startswith("TIME("):
            return ()
        found = pattern.match(f"{line.rstrip()} ")
        if found is None:
            raise ValueError(f"not a line of biosnoop ({' '.join(columns)}): '{printable(line.strip())}'")
        field = found.groupdict()
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

    def tables() -> Iterator[pd.DataFrame]:
        for begin, block in line_blocks(source):
            rest, number = block, begin
            if number == 1 and first.startswith("TIME("):
                rest, number = block.partition(b"\n")[2], 2
            try:
                yield _parse_plain_requests(source, rest, pattern.pattern, units_ns)
            except NotPlainError:
                yield from request_tables(source.parsed(numbered_lines(source, rest, number), parse), TIME_COLUMNS)

    yield from _sorted(tables())


def _parse_plain_requests(source: TraceFile, block: bytes, pattern: str, units_ns: Mapping[str, int]) -> pd.DataFrame:
    """Return the requests in lines of biosnoop as a table.

    Args:
        source: The trace file.
        block: The lines.
        pattern: Pattern of a line, see `_line_pattern`.
        units_ns: Nanoseconds per unit of the columns of times.

    Raises:
        NotPlainError: A line needs a closer look.
    """
    import pyarrow.compute as pc

    lines = pc.utf8_rtrim_whitespace(split_lines(source, block))
    columns = extract_columns(pc.binary_join_element_wise(lines, "", " "), pattern)
    kinds, codes = encoded_words(columns["T"])
    size = whole_numbers(columns["BYTES"], MAX_NUMBER)
    meanings = [operation_of(kind) for kind in kinds]
    is_flush = np.array([flushes for _, flushes in meanings], dtype=bool)[codes] & (size == 0)
    operation = np.array([-1 if each is None else each for each, _ in meanings], dtype=np.int64)[codes]
    operation = np.where(is_flush, _FLUSH, operation)
    sector = np.where(is_flush, 0, whole_numbers(columns["SECTOR"], 2**64))
    require_plain((operation >= 0).all() and (sector < MAX_NUMBER // KERNEL_SECTOR_BYTES).all())
    completed, latency, queued = (
        scaled_decimals(columns[name], units_ns[name]) if name in units_ns else np.zeros(len(size), dtype=np.int64)
        for name in ("TIME", "LAT", "QUE")
    )
    table = pd.DataFrame(
        {
            "operation": operation.astype(np.uint8),
            "offset_bytes": sector * np.uint64(KERNEL_SECTOR_BYTES),
            "size_bytes": size,
            "arrival_ns": completed - latency - queued,
            "dispatched_ns": completed - latency,
            "completed_ns": completed,
        }
    )
    if "DISK" not in columns:
        return table
    disks, codes = encoded_words(columns["DISK"])
    return table.assign(volume=pd.Categorical.from_codes(codes, pd.Index(disks)))


def _sorted(tables: Iterable[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Yield requests in the order of their arrival; at most 100,000 requests may come before an earlier request.

    Args:
        tables: The requests in the order of their completion.
    """
    later: list[pd.DataFrame] = []
    for table in tables:
        if "volume" in table:
            table["volume"] = table["volume"].astype(object)
        every = pd.concat([*later, table], ignore_index=True).sort_values("arrival_ns", kind="stable")
        count = max(0, len(every) - _MOST_LATE)
        later = [every.iloc[count:]]
        if count:
            yield _with_volumes(every.iloc[:count])
    yield from map(_with_volumes, later)


def _with_volumes(requests: pd.DataFrame) -> pd.DataFrame:
    requests = requests.reset_index(drop=True)
    if "volume" not in requests:
        return requests
    volumes = requests.pop("volume").fillna("")
    return requests.assign(volume=pd.Categorical(volumes)) if volumes.any() else requests
