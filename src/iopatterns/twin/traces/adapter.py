"""Read block traces in other formats, with a class of the user. docs/traces.md has an example."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.base.user_class import load_class
from iopatterns.twin.error import TwinError
from iopatterns.twin.traces.form import (
    OPERATION_NUMBERS,
    OPERATIONS,
    TIME_COLUMNS,
    UNKNOWN_TIME,
    TraceFile,
    TraceRequests,
    request_tables,
)

__all__ = ["BlockAdapter", "BlockRequest", "read_adapted_requests"]


class BlockRequest(NamedTuple):
    """Request in a block trace, as an adapter returns it.

    Attributes:
        operation: ``read``, ``write``, ``flush`` or ``discard``.
        offset_bytes: Offset of the request on its volume.
        size_bytes: Size of the request.
        time_ns: Arrival time in nanoseconds from any starting point.
        dispatched_ns: Time at which the request was issued to the drive; None if it is unknown.
        completed_ns: Time at which the request completed; None if it is unknown.
        volume: Name of the disk or file of the request; empty for a trace of one.
    """

    operation: str
    offset_bytes: int
    size_bytes: int
    time_ns: int
    dispatched_ns: int | None = None
    completed_ns: int | None = None
    volume: str = ""


class BlockAdapter:
    """Base class for readers of block traces that this package does not know.

    Derive a class, and implement `requests`, which parses one line of text. The object of the class can store what it
    needs from earlier lines.

    Attributes:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def requests(self, line: str) -> Iterable[BlockRequest]:
        """Return the requests in a line, usually one or none. Arrival times must not decrease.

        Args:
            line: A line of the file.

        Raises:
            ValueError: The line is faulty. The message states the problem.
        """
        raise NotImplementedError


def read_adapted_requests(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests in a file that an adapter class of the user parses, as tables.

    `traces.read_pieces` describes the columns of the tables.

    Args:
        source: The trace file, with the name of the class in ``adapter``.

    Raises:
        TwinError: The class cannot be imported. Or a line is faulty, and ``source.skipped`` is None.
    """
    adapter = load_class(source.adapter, BlockAdapter, TwinError)(source.path)

    def parse(line: str) -> TraceRequests:
        for each in adapter.requests(line):
            number = OPERATION_NUMBERS.get(each.operation)
            if number is None:
                raise ValueError(f"no operation '{printable(each.operation)}'. Valid: {', '.join(OPERATIONS)}")
            times = [UNKNOWN_TIME if time is None else time for time in each[3:6]]
            for value in (*each[1:3], *(time for time in times if time != UNKNOWN_TIME)):
                if not 0 <= value < MAX_NUMBER:
                    raise ValueError(f"{value} is not a number from 0 to 2^62")
            yield (number, each.offset_bytes, each.size_bytes, times[0], times[1], times[2], each.volume)

    yield from request_tables(source.parsed(source.lines(), parse), TIME_COLUMNS)
