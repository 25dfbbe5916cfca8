"""Read I/O logs of fio as block traces.

A block trace lists the requests that a drive received.
"""

from collections.abc import Iterator

import pandas as pd

from iopatterns.base.fio_iolog import read_iolog_actions
from iopatterns.twin.traces.form import OPERATION_NUMBERS, UNKNOWN_TIME, TraceFile, TraceRequests, request_tables


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
    operations = {action: OPERATION_NUMBERS[action] for action in ("read", "write", "trim", "sync", "datasync")}

    def requests() -> TraceRequests:
        for each in read_iolog_actions(source):
            if (operation := operations.get(each.action)) is not None:
                times = (each.time_ns, UNKNOWN_TIME, UNKNOWN_TIME)
                yield (operation, each.offset_bytes, each.size_bytes, *times, each.file)

    yield from request_tables(requests(), ("arrival_ns",))
