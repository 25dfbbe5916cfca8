"""Read and write the format oracleGeneral of libCacheSim, a simulator of caches.

A record has a time in seconds, the number and the size of an object, and the position of the next request for it. In a
block trace, an object is the first sector of a request.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pandas as pd

from iopatterns.base import compressed
from iopatterns.base.input_file import MAX_NUMBER
from iopatterns.twin.traces.form import OPERATIONS, PIECE_REQUESTS, TraceFile

RECORD = np.dtype([("time_s", "<u4"), ("object", "<u8"), ("size_bytes", "<u4"), ("next", "<i8")])
OBJECT_BYTES = 512
_NEVER = (-1, np.iinfo(np.int64).max)
_S = 10**9


def is_oracle_general(head: bytes, path: Path) -> bool:
    """Return whether a file has the format, which has no mark at its start.

    Either its name contains ``oracleGeneral``, or the times of its first records do not fall, and each next request is
    later.

    Args:
        head: The first bytes of the file.
        path: The path of the file.
    """
    if "oraclegeneral" in path.name.lower():
        return True
    records = np.frombuffer(head[: len(head) // RECORD.itemsize * RECORD.itemsize], dtype=RECORD)
    if len(records) < 2 or b"\0" not in head:
        return False
    following = records["next"]
    later = np.isin(following, _NEVER) | (following > np.arange(len(records))) & (following < 2**40)
    return bool(later.all() and (np.diff(records["time_s"].astype(np.int64)) >= 0).all())


def read_oracle_general(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests in a file of the format oracleGeneral as tables.

    The format has no operations: all requests become reads. It does not state what the number of an object is; the
    number is taken as that of a sector of 512 bytes, as in libCacheSim's traces of CloudPhysics.

    Args:
        source: The trace file.

    Raises:
        TwinError: The file ends within a record, and ``source.skipped`` is None.
    """
    source.coverage.remark(
        "the format has no operations, whole seconds, and no unit of its objects: all requests are taken as reads,"
        f" arrive at the beginning of their second, and begin at sectors of {OBJECT_BYTES} bytes"
    )
    with compressed.opened(source.path) as file:
        for content in _parts(file):
            whole = len(content) // RECORD.itemsize * RECORD.itemsize
            if whole < len(content):
                source.fault("the last record", f"is cut off: {len(content) - whole} of {RECORD.itemsize} bytes")
            records = np.frombuffer(content[:whole], dtype=RECORD)
            far = records["object"] >= MAX_NUMBER // OBJECT_BYTES
            if far.any():
                source.coverage.left_out["requests for objects whose number is a hash, not a place"] += int(far.sum())
                records = records[~far]
            yield pd.DataFrame(
                {
                    "operation": np.full(len(records), OPERATIONS["read"], dtype=np.uint8),
                    "offset_bytes": records["object"] * np.uint64(OBJECT_BYTES),
                    "size_bytes": records["size_bytes"].astype(np.uint64),
                    "arrival_ns": records["time_s"].astype(np.int64) * _S,
                }
            )


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    most = PIECE_REQUESTS * RECORD.itemsize
    content = b""
    while more := file.read(most - len(content)):
        content += more
        if len(content) == most:
            yield content
            content = b""
    if content:
        yield content
