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
_TIMES = {"time_ns": 1, "time_us": 1000}
_MOST = 2**62  # bytes and nanoseconds: their sums stay within 64 bits
_MOST_SHOWN = 200
_MOST_LINE = 4096  # of an I/O log, as fio reads it
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
        if not path.is_file():  # reading a pipe or a device may never end
            what = "no such file" if not path.exists() else "no regular file"
            raise TwinError(f"{_shown(path)}: {what}. Give a trace as CSV, Parquet or fio I/O log.")
        if path.suffix == ".csv":
            yield from _tables(path, pd.read_csv(path, chunksize=PIECE_REQUESTS))
        elif path.suffix == ".parquet":
            yield from _tables(path, _parquet(path))
        else:
            yield from _iolog(path)
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise TwinError(f"{_shown(path)}: not readable as a trace: {_shown(error)}") from None


def _shown(value: object) -> str:
    """Return what a file holds, or is called, as it may stand in a message: in one line, and not too long."""
    text = "".join(letter if letter.isprintable() else "?" for letter in str(value)[:_MOST_SHOWN])
    return text if len(str(value)) <= _MOST_SHOWN else f"{text}…"


def _parquet(path: Path) -> Iterator[pd.DataFrame]:
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        names = file.schema_arrow.names
        wanted = [name for name in names if name in _COLUMNS or name in _TIMES]
        if not set(_COLUMNS) <= set(wanted):
            yield pd.DataFrame(columns=names)  # _tables() says what is missing
            return
        for batch in file.iter_batches(batch_size=PIECE_REQUESTS, columns=wanted):
            yield batch.to_pandas()


def _tables(path: Path, tables: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    row = 0
    start_ns: int | None = None
    for table in tables:
        missing = [column for column in _COLUMNS if column not in table.columns]
        if missing:
            raise TwinError(
                f"{_shown(path)}: no column '{missing[0]}'. Needed: {', '.join(_COLUMNS)}, and time_ns or time_us where"
                f" the trace is to be replayed by its times. There: {_shown(', '.join(map(str, table.columns)))}."
            )
        piece = pd.DataFrame(index=range(len(table)))
        names = table["operation"].astype(str).str.strip().str.lower().to_numpy()
        piece["operation"] = _operation_numbers(path, names, row)
        for column in ("offset_bytes", "size_bytes"):
            piece[column] = _whole_numbers(path, table[column], row, least=0).astype(np.uint64)
        for column, factor in _TIMES.items():
            if column in table.columns:
                times_ns = _whole_numbers(path, table[column], row, least=-_MOST, factor=factor)
                start_ns = int(times_ns[0]) if start_ns is None and len(times_ns) else start_ns
                piece["arrival_ns"] = times_ns - (start_ns or 0)
                break
        row += len(table)
        yield piece


def _whole_numbers(path: Path, column: pd.Series, row: int, *, least: int, factor: int = 1) -> np.ndarray:
    """Return a column as int64, times a factor. Raises TwinError for what is no number, or less or more than allowed.

    Sizes and offsets (``least`` is 0) must be whole; fractions of a nanosecond are rounded.
    """
    numbers = pd.to_numeric(column, errors="coerce").to_numpy()
    with np.errstate(invalid="ignore", over="ignore"):
        scaled = numbers * factor if numbers.dtype.kind != "f" else np.round(numbers * factor)
        as_float = numbers.astype(np.float64) * factor
        bad = ~((as_float >= least) & (as_float < _MOST))
        if least == 0:
            bad |= as_float != np.floor(as_float)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        what = "whole number of bytes from 0 to 2^62" if least == 0 else "time within 146 years of 0"
        value = _shown(column.iloc[place])
        raise TwinError(f"{_shown(path)}: request {row + place}: {column.name} is {value!r}, no {what}")
    return scaled.astype(np.int64)


def _operation_numbers(path: Path, names: np.ndarray, row: int) -> np.ndarray:
    known = {**OPERATIONS, **{short: OPERATIONS[name] for short, name in _SYNONYMS.items()}}
    numbers = np.array([known.get(name, 255) for name in names], dtype=np.uint8)
    unknown = np.flatnonzero(numbers == 255)
    if len(unknown):
        raise TwinError(
            f"{_shown(path)}: request {row + unknown[0]}: no operation {_shown(names[unknown[0]])!r}."
            f" Valid: {', '.join(OPERATIONS)}."
        )
    return numbers


def _iolog(path: Path) -> Iterator[pd.DataFrame]:  # noqa: PLR0912 - a case for each kind of line
    """Yield the I/O of one of fio's own logs; opens, closes and additions of files are passed over."""
    with path.open(encoding="utf-8") as file:
        head = file.readline(_MOST_LINE).split()
        if len(head) != 4 or head[:2] != ["fio", "version"] or head[2] not in {"2", "3"} or head[3] != "iolog":
            raise TwinError(
                f"{_shown(path)}, line 1: not a trace: neither .csv nor .parquet nor an I/O log of fio (version 2, 3)"
            )
        version = int(head[2])
        rows: list[tuple[int, int, int, int]] = []
        now_us = 0
        for number, line in enumerate(iter(lambda: file.readline(_MOST_LINE), ""), start=2):
            if len(line) == _MOST_LINE:
                raise TwinError(f"{_shown(path)}, line {number}: longer than fio's {_MOST_LINE} characters")
            words = line.split()
            timed = version == 3
            if timed and words:
                now_us = _whole(path, number, words.pop(0))
            if len(words) < 2:
                if words:
                    raise TwinError(
                        f"{_shown(path)}, line {number}: neither a file nor an I/O action: '{_shown(line.strip())}'"
                    )
                continue
            action = words[1]
            if action == "wait" and not timed:
                now_us += 1000 * _whole(path, number, words[2] if len(words) > 2 else "")
                continue
            if action not in _IOLOG_ACTIONS:
                if action in {"add", "open", "close"}:
                    continue
                raise TwinError(f"{_shown(path)}, line {number}: no action '{_shown(action)}' in a fio I/O log")
            if now_us * 1000 >= _MOST:
                raise TwinError(f"{_shown(path)}, line {number}: more than 146 years after the start")
            operation = OPERATIONS[_SYNONYMS.get(action, action)]
            is_flush = operation == OPERATIONS["flush"]
            if len(words) < 4 and not is_flush:
                raise TwinError(f"{_shown(path)}, line {number}: '{action}' needs an offset and a length")
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
    if not (word.isascii() and word.isdigit() and len(word) <= 19 and int(word) < _MOST):
        raise TwinError(f"{_shown(path)}, line {number}: '{_shown(word)}' is no whole number below 2^62")
    return int(word)
