"""Read and write traces of system calls as Parquet files, table by table."""

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from iopatterns.base.coverage import Coverage
from iopatterns.base.input_file import printable
from iopatterns.base.numeric_columns import checked_numbers
from iopatterns.base.parquet import open_parquet, read_batches, write_tables
from iopatterns.calls.form import (
    CALL_COLUMNS,
    CALL_KINDS,
    CALL_TYPE,
    PIECE_CALLS,
    UNKNOWN,
    CallTraceFile,
    Trace,
    TraceOrigin,
    empty_calls,
)

if TYPE_CHECKING:
    import pyarrow

_VERSION = "1"
_METADATA = "iopatterns.calls"
_COVERAGE = f"{_METADATA}.coverage"
_ORIGINS = ("recorded", "stand-in")
_MAY_BE_UNKNOWN = frozenset({"offset_bytes", "duration_ns"})


def read_trace_origin(source: CallTraceFile) -> tuple[str, TraceOrigin]:
    """Return name and origin of the trace of system calls in a Parquet file.

    Returns:
        The name and the origin. The name is that in the metadata of the file. Without a name there, it is the file name
            without its suffix. The origin is ``recorded``, or ``stand-in`` for a synthetic trace that replaces an
            unpublished trace.

    Raises:
        CallsError: The metadata of the file do not contain the origin.
        ValueError: The file is not a Parquet file.
    """
    import pyarrow.parquet

    metadata = pyarrow.parquet.read_schema(source.path).metadata or {}
    name, origin = (
        metadata.get(f"{_METADATA}.{key}".encode(), b"").decode(errors="replace") for key in ("name", "origin")
    )
    if origin not in _ORIGINS:
        raise source.error(
            f"not a trace of system calls: the entry '{_METADATA}.origin' of its metadata is '{printable(origin)}'."
            f" Valid: {', '.join(_ORIGINS)}. Write such files with `iopatterns calls convert`."
        )
    return name or source.path.stem, cast("TraceOrigin", origin)


def read_calls(source: CallTraceFile, coverage: Coverage) -> Iterator[pd.DataFrame]:
    """Yield the system calls in a Parquet file as tables.

    The tables have the columns of `Trace.pieces`. A row is faulty if it has a value that is not valid for its column.
    Messages name a faulty row by its position, from 0.

    Args:
        source: A file that `write_calls` has written, or another file with these columns.
        coverage: Receives what the file's metadata contain about the coverage of its source.

    Raises:
        CallsError: A column is missing, or a row is faulty and faulty rows are not skipped (``skipped`` of the file is
            None).
    """
    with open_parquet(source.path) as file:
        names = file.schema_arrow.names
        missing = [column for column in CALL_COLUMNS if column not in names]
        if missing:
            raise source.error(
                f"no column '{missing[0]}'. Required: {', '.join(CALL_COLUMNS)}. The file has: {printable(names)}."
            )
        stored = (file.metadata.metadata or {}).get(_COVERAGE.encode(), b"{}")
        coverage.update(json.loads(stored))
        row = 0
        for batch in read_batches(file, source.path, CALL_COLUMNS, PIECE_CALLS):
            piece, faults = _convert_batch(batch)
            for at, problem in sorted(faults.items()):
                source.fault(f"call {row + at}", problem)
            row += len(batch)
            piece = piece.drop(index=list(faults)).reset_index(drop=True)
            if len(piece):
                yield piece


def _convert_batch(batch: Any) -> tuple[pd.DataFrame, dict[int, str]]:
    """Convert a batch of rows of a Parquet file to a table of calls.

    Args:
        batch: The rows (pyarrow.RecordBatch).

    Returns:
        The table, and the problem of each faulty row by its position in the batch. The table includes the faulty rows.
    """
    import pyarrow as pa

    faults: dict[int, str] = {}
    columns: dict[str, Any] = {}
    for name in CALL_COLUMNS:
        if name not in {"call", "file"}:
            unknown = UNKNOWN if name in _MAY_BE_UNKNOWN else None
            expected = "whole number from 0 to 2^62"
            columns[name] = checked_numbers(batch.column(name), name, faults, expected, unknown=unknown)
            continue
        texts = batch.column(name).cast(pa.string()).to_pandas()
        bad = ~texts.isin(list(CALL_KINDS)) if name == "call" else texts.isna()
        columns[name] = texts.mask(bad).astype(CALL_TYPE if name == "call" else object)
        for at in np.flatnonzero(bad):
            expected = "recorded call" if name == "call" else "name"
            faults.setdefault(int(at), f"{name} is '{printable(texts.iloc[at])}', not a {expected}")
    return pd.DataFrame(columns), faults


def write_calls(path: Path, trace: Trace, pieces: Iterable[pd.DataFrame]) -> None:
    """Write the system calls of a trace to a Parquet file.

    The same trace always gives the same bytes. An existing file is overwritten.

    Args:
        path: The file.
        trace: The trace. Its name, origin, original format and coverage are recorded in the metadata of the file.
        pieces: The calls: consecutive parts of the trace, as tables with the columns of `Trace.pieces`.
    """
    entries = {"": _VERSION, ".name": trace.name, ".origin": trace.origin, ".source": trace.form}
    # the empty table gives a trace without calls its columns
    tables = map(_table, itertools.chain([empty_calls()], pieces))
    metadata = {f"{_METADATA}{key}": value for key, value in entries.items()}
    write_tables(path, tables, metadata, ("call", "file"), lambda: {_COVERAGE: trace.coverage.to_json()})


def _table(piece: pd.DataFrame) -> "pyarrow.Table":
    import pyarrow as pa

    codes = piece["call"].cat.codes.to_numpy().astype(np.int8)
    columns: dict[str, Any] = {
        "call": pa.DictionaryArray.from_arrays(codes, np.array(list(CALL_KINDS), dtype=object)),
        "file": pa.array(piece["file"], type=pa.string()),
    }
    for name in CALL_COLUMNS:
        if name not in columns:
            numbers = piece[name].to_numpy()
            columns[name] = pa.array(numbers, mask=numbers == UNKNOWN if name in _MAY_BE_UNKNOWN else None)
    return pa.table({name: columns[name] for name in CALL_COLUMNS})
