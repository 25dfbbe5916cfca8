"""Write block traces in the formats of other programs, table by table."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from iopatterns.base.coverage import Coverage
from iopatterns.twin.traces.form import OPERATIONS, REQUEST_COLUMNS, TIME_COLUMNS, UNKNOWN_TIME
from iopatterns.twin.traces.oracle_general import OBJECT_BYTES, RECORD

_SECTOR_BYTES = 512
_READ, _WRITE, _FLUSH, _DISCARD = (OPERATIONS[name] for name in ("read", "write", "flush", "discard"))
_DRIVE = "drive"

Writer = Callable[[Path, Iterable[pd.DataFrame], Coverage], None]


def _write_csv(path: Path, pieces: Iterable[pd.DataFrame], _coverage: Coverage) -> None:
    import pyarrow as pa
    import pyarrow.csv

    writer = None
    with path.open("wb") as file:
        for piece in pieces:
            names = pa.DictionaryArray.from_arrays(piece["operation"].to_numpy().astype(np.int8), list(OPERATIONS))
            columns = {"operation": names.cast(pa.string())}
            columns |= {name: pa.array(piece[name].to_numpy()) for name in REQUEST_COLUMNS[1:]}
            for column, name in TIME_COLUMNS.items():
                if column in piece:
                    values = piece[column].to_numpy()
                    columns[name] = pa.array(values, mask=values == UNKNOWN_TIME)
            table = pa.table(columns)
            if writer is None:
                file.write(",".join(table.schema.names).encode() + b"\n")
                options = pyarrow.csv.WriteOptions(include_header=False, quoting_style="none")
                writer = pyarrow.csv.CSVWriter(file, table.schema, write_options=options)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _rows(pieces: Iterable[pd.DataFrame]) -> Iterator[tuple[int, int, int, int, int, int]]:
    """Yield operation, offset, size and the three times of each request; 0 for the arrival in a trace without times."""
    for piece in pieces:
        columns = [piece[name] for name in REQUEST_COLUMNS]
        for name in TIME_COLUMNS:
            missing = 0 if name == "arrival_ns" else UNKNOWN_TIME
            columns.append(piece[name] if name in piece else pd.Series(missing, index=piece.index))
        yield from zip(*(column.tolist() for column in columns), strict=True)


def _sectors(offset: int, size: int, coverage: Coverage) -> tuple[int, int]:
    """Return the sectors that a request touches: the first, and their number.

    Args:
        offset: Offset in bytes.
        size: Size in bytes.
        coverage: Receives the number of requests that do not begin and end at sectors.
    """
    begin, end = offset // _SECTOR_BYTES, -(-(offset + size) // _SECTOR_BYTES)
    if (offset | size) % _SECTOR_BYTES:
        coverage.represented["of these extended to sectors of 512 bytes"] += 1
    return begin, end - begin


def _write_blkparse(path: Path, pieces: Iterable[pd.DataFrame], coverage: Coverage) -> None:
    """Write the queuing (Q), issue (D) and completion (C) of each request, in the order of time."""
    kinds = {_READ: "R", _WRITE: "W", _DISCARD: "D"}
    later: list[tuple[int, int, str]] = []
    number = 0

    with path.open("w", encoding="utf-8", newline="\n") as file:

        def write(until_ns: int | None) -> None:
            while later and (until_ns is None or later[0][0] <= until_ns):
                time_ns, order, rest = heapq.heappop(later)
                seconds, fraction = divmod(time_ns, 10**9)
                file.write(f"  8,0    0 {order:8d} {seconds:5d}.{fraction:09d}     0  {rest}\n")

        for operation, offset, size, arrival, dispatched, completed in _rows(pieces):
            write(arrival - 1)
            if operation == _FLUSH:
                what, end = "FN [twin]", "FN 0 + 0 [0]"
            else:
                begin, count = _sectors(offset, size, coverage)
                request = f"{kinds[operation]} {begin} + {count}"
                what, end = f"{request} [twin]", f"{request} [0]"
            issued = arrival if dispatched == UNKNOWN_TIME else dispatched
            for time_ns, action, text in ((arrival, "Q", what), (issued, "D", what), (completed, "C", end)):
                if time_ns != UNKNOWN_TIME:
                    number += 1
                    heapq.heappush(later, (time_ns, number, f"{action}  {text}"))
        write(None)


def _write_iolog(path: Path, pieces: Iterable[pd.DataFrame], _coverage: Coverage) -> None:
    """Write an I/O log of fio, version 3, whose file is named ``drive``: replay it with ``--replay_redirect``."""
    actions = {_READ: "read", _WRITE: "write", _FLUSH: "sync", _DISCARD: "trim"}
    last_us = 1
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write(f"fio version 3 iolog\n1 {_DRIVE} add\n1 {_DRIVE} open\n")
        for operation, offset, size, arrival, _, _ in _rows(pieces):
            last_us = 1 + arrival // 1000  # fio ignores a time of 0, and would not wait for the second request
            file.write(f"{last_us} {_DRIVE} {actions[operation]} {offset} {size}\n")
        file.write(f"{last_us} {_DRIVE} close\n")


def _write_mqsim(path: Path, pieces: Iterable[pd.DataFrame], coverage: Coverage) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for operation, offset, size, arrival, _, _ in _rows(pieces):
            if operation in {_READ, _WRITE}:
                begin, count = _sectors(offset, size, coverage)
                file.write(f"{arrival} 0 {begin} {count} {int(operation == _READ)}\n")
            else:
                coverage.left_out["flushes and discards, which the written format does not have"] += 1


def _write_oracle_general(path: Path, pieces: Iterable[pd.DataFrame], coverage: Coverage) -> None:
    """Write records of libCacheSim.

    The position of the next request for an object is found at the end, which needs 16 bytes of memory per request.
    """
    objects = []
    with path.open("wb") as file:
        for piece in pieces:
            moving = piece[piece["operation"].isin([_READ, _WRITE])]
            coverage.left_out["flushes and discards, which the written format does not have"] += len(piece) - len(
                moving
            )
            records = np.zeros(len(moving), dtype=RECORD)
            records["object"] = moving["offset_bytes"].to_numpy() // np.uint64(OBJECT_BYTES)
            records["size_bytes"] = np.minimum(moving["size_bytes"].to_numpy(), np.uint64(2**32 - 1))
            if "arrival_ns" in moving:
                records["time_s"] = moving["arrival_ns"].to_numpy() // 10**9
            records.tofile(file)
            objects.append(records["object"].copy())
    coverage.remark("the written format has no operations, no times below a second, and no completions")
    every = np.concatenate([np.empty(0, dtype=np.uint64), *objects])
    if len(every):
        order = np.argsort(every, kind="stable")
        again = every[order[1:]] == every[order[:-1]]
        # libCacheSim counts requests from 1
        np.memmap(path, dtype=RECORD, mode="r+")["next"] = _following(order, again)


def _following(order: np.ndarray, again: np.ndarray) -> np.ndarray:
    """Return the position of the next request for the same object, from 1; -1 if there is none.

    Args:
        order: Positions of the requests, sorted by object, then by position.
        again: Whether the request at the next place of ``order`` is for the same object.
    """
    following = np.full(len(order), -1, dtype=np.int64)
    following[order[:-1][again]] = order[1:][again] + 1
    return following


# Writer by the name of the format, which is the suffix of its files
WRITERS: Mapping[str, Writer] = {
    "csv": _write_csv,
    "blkparse": _write_blkparse,
    "iolog": _write_iolog,
    "mqsim": _write_mqsim,
    "oracleGeneral": _write_oracle_general,
}


def compress(path: Path) -> None:
    """Replace a file by the same file compressed with zstd."""
    import pyarrow as pa

    packed = path.with_name(f"{path.name}.packed")
    with path.open("rb") as file, pa.CompressedOutputStream(str(packed), "zstd") as output:
        while content := file.read(2**20):
            output.write(content)
    packed.replace(path)
