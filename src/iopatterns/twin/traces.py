"""Reads block traces piece by piece: CSV, Parquet, and fio's own I/O logs."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from iopatterns.twin.error import TwinError

# The operations of a trace, in the numbers of the simulated drive.
OPERATIONS = {"read": 0, "write": 1, "flush": 2, "discard": 3}
_SYNONYMS = {"r": "read", "w": "write", "sync": "flush", "datasync": "flush", "trim": "discard", "d": "discard"}
_COLUMNS = ("operation", "offset_bytes", "size_bytes")
PIECE_REQUESTS = 500_000
_IOLOG_ACTIONS = frozenset({"read", "write", "sync", "datasync", "trim"})


def read_pieces(path: Path) -> Iterator[pd.DataFrame]:
    """Yield a trace in pieces of at most `PIECE_REQUESTS` rows, so that a long one costs no memory.

    Each piece has the columns ``operation`` (uint8, see `OPERATIONS`), ``offset_bytes``, ``size_bytes`` (uint64) and,
    where the trace has times, ``arrival_ns`` (int64, from the trace's own start). What is read, by its suffix:
    ``.csv`` and ``.parquet`` with the columns ``operation``, ``offset_bytes``, ``size_bytes`` and either of ``time_ns``
    or ``time_us``; anything else is an I/O log of fio, version 2 or 3 (HOWTO, "Trace file format"). Raises TwinError
    naming the file and the line or column.
    """
    try:
        if path.suffix == ".csv":
            yield from _tables(path, pd.read_csv(path, chunksize=PIECE_REQUESTS))
        elif path.suffix == ".parquet":
            yield from _tables(path, _parquet(path))
        else:
            yield from _iolog(path)
    except FileNotFoundError:
        raise TwinError(f"{path}: no such file. Give a trace as CSV, Parquet or fio I/O log.") from None
    except (OSError, ValueError) as error:
        raise TwinError(f"{path}: not readable as a trace: {error}") from None


def _parquet(path: Path) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=PIECE_REQUESTS):
            yield batch.to_pandas()


def _tables(path: Path, tables: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    row = 0
    start_ns: int | None = None
    for table in tables:
        missing = [column for column in _COLUMNS if column not in table.columns]
        if missing:
            raise TwinError(
                f"{path}: no column '{missing[0]}'. Needed: {', '.join(_COLUMNS)}, and time_ns or time_us where the"
                f" trace is to be replayed by its times. There: {', '.join(map(str, table.columns))}."
            )
        piece = pd.DataFrame(index=range(len(table)))
        names = table["operation"].astype(str).str.strip().str.lower().to_numpy()
        piece["operation"] = _operation_numbers(path, names, row)
        for column in ("offset_bytes", "size_bytes"):
            values = pd.to_numeric(table[column], errors="coerce").to_numpy()
            bad = np.flatnonzero(~(values >= 0) | (values != np.floor(values)))
            if len(bad):
                value = table[column].iloc[bad[0]]
                raise TwinError(f"{path}: request {row + bad[0]}: {column} is {value!r}, no whole number of bytes")
            piece[column] = values.astype(np.uint64)
        for column, factor in (("time_ns", 1), ("time_us", 1000)):
            if column in table.columns:
                times_ns = np.round(table[column].to_numpy() * factor).astype(np.int64)
                start_ns = int(times_ns[0]) if start_ns is None and len(times_ns) else start_ns
                piece["arrival_ns"] = times_ns - (start_ns or 0)
                break
        row += len(table)
        yield piece


def _operation_numbers(path: Path, names: np.ndarray, row: int) -> np.ndarray:
    known = {**OPERATIONS, **{short: OPERATIONS[name] for short, name in _SYNONYMS.items()}}
    numbers = np.array([known.get(name, 255) for name in names], dtype=np.uint8)
    unknown = np.flatnonzero(numbers == 255)
    if len(unknown):
        raise TwinError(
            f"{path}: request {row + unknown[0]}: no operation {names[unknown[0]]!r}. Valid: {', '.join(OPERATIONS)}."
        )
    return numbers


def _iolog(path: Path) -> Iterator[pd.DataFrame]:
    """Yield the I/O of one of fio's own logs; opens, closes and additions of files are passed over."""
    with path.open(encoding="utf-8") as file:
        head = file.readline().split()
        if len(head) != 4 or head[:2] != ["fio", "version"] or head[2] not in {"2", "3"} or head[3] != "iolog":
            raise TwinError(
                f"{path}, line 1: not a trace: neither .csv nor .parquet nor an I/O log of fio (version 2, 3)"
            )
        version = int(head[2])
        rows: list[tuple[int, int, int, int]] = []
        now_us = 0
        for number, line in enumerate(file, start=2):
            words = line.split()
            timed = version == 3
            if timed and words:
                now_us = _whole(path, number, words.pop(0))
            if len(words) < 2:
                if words:
                    raise TwinError(f"{path}, line {number}: neither a file nor an I/O action: {line.strip()!r}")
                continue
            action = words[1]
            if action == "wait" and not timed:
                now_us += 1000 * _whole(path, number, words[2] if len(words) > 2 else "")
                continue
            if action not in _IOLOG_ACTIONS:
                if action in {"add", "open", "close"}:
                    continue
                raise TwinError(f"{path}, line {number}: no action '{action}' in a fio I/O log")
            operation = OPERATIONS[_SYNONYMS.get(action, action)]
            is_flush = operation == OPERATIONS["flush"]
            if len(words) < 4 and not is_flush:
                raise TwinError(f"{path}, line {number}: '{action}' needs an offset and a length")
            offset, size = (0, 0) if is_flush else (_whole(path, number, words[2]), _whole(path, number, words[3]))
            rows.append((operation, offset, size, now_us * 1000))
            if len(rows) == PIECE_REQUESTS:
                yield _rows(rows)
                rows = []
        if rows:
            yield _rows(rows)


def _rows(rows: list[tuple[int, int, int, int]]) -> pd.DataFrame:
    operation, offset, size, arrival = zip(*rows, strict=True)
    return pd.DataFrame(
        {
            "operation": np.array(operation, dtype=np.uint8),
            "offset_bytes": np.array(offset, dtype=np.uint64),
            "size_bytes": np.array(size, dtype=np.uint64),
            "arrival_ns": np.array(arrival, dtype=np.int64),
        }
    )


def _whole(path: Path, number: int, word: str) -> int:
    if not word.isdigit():
        raise TwinError(f"{path}, line {number}: '{word}' is no whole number")
    return int(word)
