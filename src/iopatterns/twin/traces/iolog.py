"""Read I/O logs of fio as block traces.

A block trace lists the requests that a drive received.
"""

import re
from collections.abc import Iterator

import pandas as pd

from iopatterns.base.fio_iolog import IologParser
from iopatterns.twin.traces.delimited import Layout, parse_block
from iopatterns.twin.traces.form import (
    OPERATION_NUMBERS,
    OPERATIONS,
    UNKNOWN_TIME,
    TraceFile,
    TraceRequest,
    request_tables,
)
from iopatterns.twin.traces.line_blocks import line_blocks, numbered_lines

_OPERATIONS = {action: OPERATION_NUMBERS[action] for action in ("read", "write", "trim", "sync", "datasync")}
_TIMES = ("arrival_ns",)
# Lines of actions without requests; in version 3 they begin with a time
_FILE_ACTION = re.compile(rb"^(?:\d{1,15} )?[^ \t\n]+ (?:add|open|close)\r?\n", re.M)
_FILE_ACTIONS = (b" add", b" open", b" close")


def read_iolog(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of an I/O log of fio as tables.

    A request arrives at the time at which fio would submit it. `traces.read_pieces` describes the columns of the
    tables; arrival_ns is the only time column. Actions that are not requests, such as ``open``, are left out. Each file
    of the log is a volume.

    Args:
        source: The log file.

    Raises:
        TwinError: A line is faulty, and ``source.skipped`` is None.
    """
    parser: IologParser | None = None

    def parse(line: str) -> Iterator[TraceRequest]:
        for each in parser.parse(line) if parser else ():
            if (operation := _OPERATIONS.get(each.action)) is not None:
                times = (each.time_ns, UNKNOWN_TIME, UNKNOWN_TIME)
                yield (operation, each.offset_bytes, each.size_bytes, *times, each.file)

    for begin, block in line_blocks(source):
        rest, number = block, begin
        if parser is None:
            header, _, rest = block.partition(b"\n")
            parser, number = IologParser(source, header.decode("utf-8-sig", errors="replace")), 2
        piece = _parse_plain(rest, parser)
        if piece is None:
            yield from request_tables(source.parsed(numbered_lines(source, rest, number), parse), _TIMES)
        elif len(piece):
            yield piece


def _parse_plain(block: bytes, parser: IologParser) -> pd.DataFrame | None:
    """Return the requests in lines as a table, or None if a line needs a closer look.

    Args:
        block: The lines.
        parser: The parser of the log.
    """
    if any(action in block for action in _FILE_ACTIONS):
        block = _FILE_ACTION.sub(b"", block)
    columns = ("file", "action", "offset", "length")
    times = {"arrival_ns": ("time", 1000)} if parser.is_timed else {}
    layout = Layout(
        "I/O log of fio",
        ("time", *columns) if times else columns,
        "action",
        ("offset", 1),
        ("length", 1),
        times,
        volume=("file",),
        operations=_OPERATIONS,
        separator=" ",
    )
    piece = parse_block(block, layout) if block else None
    if piece is None or not len(piece):
        return piece
    if not times:
        piece.insert(3, "arrival_ns", parser.now_ns)
    piece.loc[piece["operation"] == OPERATIONS["flush"], ["offset_bytes", "size_bytes"]] = 0
    return piece
