"""Our own form of traces as Parquet: read and written piece by piece."""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable
from iopatterns.base.parquet import write_tables
from iopatterns.twin.error import TwinError
from iopatterns.twin.traces.form import (
    OPERATION_NUMBERS,
    OPERATIONS,
    PIECE_REQUESTS,
    REQUEST_COLUMNS,
    TIME_COLUMNS,
    UNKNOWN_TIME,
    TraceFile,
    subtract_start,
)

if TYPE_CHECKING:
    import pyarrow

_VERSION = "1"
_PHASES = "iopatterns.trace.phases"


def read_requests(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of a file; a faulty row is named by its number, from 0."""
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(source.path) as file:
        names = file.schema_arrow.names
        source.check_columns(names)
        times = {column: name for column, name in TIME_COLUMNS.items() if name in names}
        factor = 1
        if "arrival_ns" not in times and "time_us" in names:
            times, factor = {"arrival_ns": "time_us", **times}, 1000
        if "arrival_ns" not in times:
            times = {}
        row = 0
        start_ns: int | None = None
        for batch in file.iter_batches(batch_size=PIECE_REQUESTS, columns=[*REQUEST_COLUMNS, *times.values()]):
            piece, faults = _piece(batch, times, factor)
            for at, why in sorted(faults.items()):
                source.fault(f"request {row + at}", why)
            row += len(batch)
            if faults:
                piece = {name: np.delete(values, list(faults)) for name, values in piece.items()}
            if len(piece["operation"]):
                if times:
                    start_ns = subtract_start(piece, start_ns)
                yield pd.DataFrame(piece)


def _piece(batch: Any, times: dict[str, str], factor: int) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Return the columns of a batch of rows, and of each faulty row what is wrong with it."""
    faults: dict[int, str] = {}
    piece = {"operation": _operations(batch.column("operation"), faults)}
    for column in ("offset_bytes", "size_bytes"):
        numbers = _numbers(batch.column(column), column, faults, "whole number of bytes from 0 to 2^62")
        piece[column] = numbers.astype(np.uint64)
    for column, name in times.items():
        its_factor = factor if column == "arrival_ns" else 1
        may_be_unknown = column != "arrival_ns"
        piece[column] = _numbers(
            batch.column(name), name, faults, "time from 0 to 146 years", its_factor, may_be_unknown=may_be_unknown
        )
    queued = piece.get("arrival_ns")
    for column in ("dispatched_ns", "completed_ns"):
        if queued is not None and column in piece:
            known = piece[column] != UNKNOWN_TIME
            for at in np.flatnonzero(known & (piece[column] < queued)):
                faults.setdefault(
                    int(at), f"{column} is {piece[column][at]}, before the request was queued or dispatched"
                )
            queued = np.where(known, piece[column], queued)
    return piece, faults


def _operations(column: Any, faults: dict[int, str]) -> np.ndarray:
    """Return the numbers of a column of operations; what is none is put into ``faults`` by its row."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    names = [str(name) for name in column.dictionary.to_pylist()]
    known = [OPERATION_NUMBERS.get(name.strip().lower(), -1) for name in names]
    codes = column.indices.fill_null(len(names)).to_numpy(zero_copy_only=False)
    numbers: np.ndarray = np.array([*known, -1])[codes]
    for at in np.flatnonzero(numbers < 0):
        name = names[codes[at]] if codes[at] < len(names) else None
        faults.setdefault(int(at), f"no operation '{printable(name)}'. Valid: {', '.join(OPERATIONS)}")
    return numbers.astype(np.uint8)


def _numbers(
    column: Any, name: str, faults: dict[int, str], what: str, factor: int = 1, *, may_be_unknown: bool = False
) -> np.ndarray:
    """Return a column as int64, times a factor; what is no such number is put into ``faults`` by its row.

    Sizes and offsets must be whole; fractions of a nanosecond are rounded. ``what`` names a number in messages.
    """
    import pyarrow as pa

    null = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type):
        given: np.ndarray = column.fill_null(0).to_numpy(zero_copy_only=False)
    else:
        given = pd.to_numeric(column.to_pandas(), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        as_float = given.astype(np.float64) * factor
        bad = ~((as_float >= 0) & (as_float < MAX_NUMBER)) & ~(null & may_be_unknown)
        if what.startswith("whole"):
            bad |= as_float != np.floor(as_float)
        bad |= null & (not may_be_unknown)
        scaled = given * factor if given.dtype.kind != "f" else np.round(given * factor)
        numbers: np.ndarray = np.where(null | bad, 0, scaled).astype(np.int64)
    for at in np.flatnonzero(bad):
        faults.setdefault(int(at), f"{name} is '{printable(column[int(at)])}', no {what}")
    return np.where(null, UNKNOWN_TIME, numbers) if may_be_unknown else numbers


def read_phases(path: Path) -> dict[str, int]:
    """Return when each phase of a trace begins, in nanoseconds from its first request, in order of time.

    The last is its end. Nothing is returned of a trace without phases. Raises TwinError for a file that is no trace.
    """
    import pyarrow.parquet

    try:
        about = pyarrow.parquet.read_schema(path).metadata or {}
        found: dict[str, int] = json.loads(about.get(_PHASES.encode(), b"{}"))
    except (OSError, ValueError) as error:  # pyarrow's own are of the latter
        raise TwinError(f"{path}: not readable as a trace: {printable(error)}") from None
    return found


def write_requests(
    path: Path, pieces: Iterable[pd.DataFrame], form: str, phases_ns: Mapping[str, int] | None = None
) -> None:
    """Write pieces of a trace (columns as of `read_pieces`) to a new file. ``form`` is the one that they came in.

    ``phases_ns``: see `read_phases`. The same trace gives the same bytes.
    """
    about = {"iopatterns.trace": _VERSION, "iopatterns.trace.source": form}
    if phases_ns:
        about[_PHASES] = json.dumps(dict(phases_ns))
    write_tables(path, map(_table, pieces), about, ("operation",))


def _table(piece: pd.DataFrame) -> "pyarrow.Table":
    import pyarrow as pa

    codes = piece["operation"].to_numpy().astype(np.int8)
    columns: dict[str, Any] = {
        "operation": pa.DictionaryArray.from_arrays(codes, np.array(list(OPERATIONS), dtype=object))
    }
    columns |= {name: pa.array(piece[name].to_numpy()) for name in REQUEST_COLUMNS[1:]}
    for column, name in TIME_COLUMNS.items():
        if column in piece:
            values = piece[column].to_numpy()
            columns[name] = pa.array(values, mask=values == UNKNOWN_TIME)
    return pa.table(columns)
