"""Traces of calls as Parquet, the form in which they are kept: read and written piece by piece."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.base.parquet import write_tables
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
_ABOUT = "iopatterns.calls"
_ORIGINS = ("recorded", "stand-in")
_MAY_BE_UNKNOWN = frozenset({"offset_bytes", "duration_ns"})


def read_trace_origin(source: CallTraceFile) -> tuple[str, TraceOrigin]:
    """Return the name and the origin of the trace in a file. Raises CallsError where it does not say them."""
    import pyarrow.parquet

    entries = pyarrow.parquet.read_schema(source.path).metadata or {}
    said = {key: entries.get(f"{_ABOUT}.{key}".encode(), b"").decode(errors="replace") for key in ("name", "origin")}
    if said["origin"] not in _ORIGINS:
        raise source.error(
            f"no trace of calls: the entry '{_ABOUT}.origin' of its metadata is '{printable(said['origin'])}'. Valid:"
            f" {', '.join(_ORIGINS)}. Write such files with `iopatterns calls convert`."
        )
    return said["name"] or source.path.stem, cast("TraceOrigin", said["origin"])


def read_calls(source: CallTraceFile) -> Iterator[pd.DataFrame]:
    """Yield the calls of a file; a faulty row is named by its number, from 0."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(source.path) as file:
        names = file.schema_arrow.names
        for column in CALL_COLUMNS:
            if column not in names:
                raise source.error(
                    f"no column '{column}'. Needed: {', '.join(CALL_COLUMNS)}. There: {printable(names)}."
                )
        row = 0
        for batch in file.iter_batches(batch_size=PIECE_CALLS, columns=list(CALL_COLUMNS)):
            piece, faults = _piece(batch)
            for at, why in sorted(faults.items()):
                source.fault(f"call {row + at}", why)
            row += len(batch)
            piece = piece.drop(index=list(faults)).reset_index(drop=True)
            if len(piece):
                yield piece


def _piece(batch: Any) -> tuple[pd.DataFrame, dict[int, str]]:
    """Return the columns of a batch of rows, and of each faulty row what is wrong with it."""
    import pyarrow as pa

    faults: dict[int, str] = {}
    columns: dict[str, Any] = {}
    for name in CALL_COLUMNS:
        column = batch.column(name)
        if name in {"call", "file"}:
            texts = column.cast(pa.string()).to_pandas()
            bad = ~texts.isin(list(CALL_KINDS)) if name == "call" else texts.isna()
            kept = pd.Categorical(texts.mask(bad), dtype=CALL_TYPE) if name == "call" else texts.astype(object)
            columns[name] = kept
            given, what = texts, "call that is kept" if name == "call" else "name"
        else:
            given = column.to_pandas()
            numbers = pd.to_numeric(given, errors="coerce")
            null = given.isna()
            bad = ~((numbers >= 0) & (numbers < MAX_NUMBER) & (numbers == np.floor(numbers)))
            bad &= ~(null & (name in _MAY_BE_UNKNOWN))
            exact = column.fill_null(UNKNOWN).to_pandas() if pa.types.is_integer(column.type) else numbers
            columns[name] = exact.where(~bad & ~null, UNKNOWN).astype(np.int64)
            what = "whole number from 0 to 2^62"
        for at in np.flatnonzero(bad):
            faults.setdefault(int(at), f"{name} is '{printable(given.iloc[at])}', no {what}")
    return pd.DataFrame(columns)[list(CALL_COLUMNS)], faults


def write_calls(path: Path, trace: Trace, pieces: Iterable[pd.DataFrame]) -> None:
    """Write pieces of a trace (columns as of `Trace.pieces`) to a new file. The same trace gives the same bytes."""
    entries = {"": _VERSION, ".name": trace.name, ".origin": trace.origin, ".source": trace.form}
    # so that a trace of no call has its columns as well
    tables = map(_table, itertools.chain([empty_calls()], pieces))
    write_tables(path, tables, {f"{_ABOUT}{key}": value for key, value in entries.items()}, ("call", "file"))


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
