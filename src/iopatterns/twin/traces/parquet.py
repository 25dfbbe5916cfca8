"""Read and write block traces as Parquet files, table by table.

A block trace lists the requests that a drive received.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iopatterns.base.coverage import Coverage
from iopatterns.base.input_file import printable
from iopatterns.base.numeric_columns import checked_numbers
from iopatterns.base.parquet import open_parquet, read_batches, write_tables
from iopatterns.twin.error import TwinError
from iopatterns.twin.traces.form import (
    OPERATION_NUMBERS,
    OPERATIONS,
    PIECE_REQUESTS,
    REQUEST_COLUMNS,
    TIME_COLUMNS,
    UNKNOWN_TIME,
    RecordedDrive,
    TraceFile,
)

if TYPE_CHECKING:
    import pyarrow

_VERSION = "1"
_PHASES = "iopatterns.trace.phases"
_DRIVE = "iopatterns.trace.drive"
_COVERAGE = "iopatterns.trace.coverage"


def read_requests(source: TraceFile) -> Iterator[pd.DataFrame]:
    """Yield the requests of a block trace in a Parquet file as tables.

    The file needs the columns operation (such as ``read``), offset_bytes and size_bytes. The time columns are optional:
    time_ns or time_us, dispatched_ns, completed_ns. `traces.read_pieces` describes the columns of the tables.

    Args:
        source: The trace file.

    Raises:
        TwinError: A required column is missing. Or a row is faulty, and ``source.skipped`` is None. The message has the
            position of the row, from 0.
    """
    with open_parquet(source.path) as file:
        names = file.schema_arrow.names
        source.check_columns(names)
        times = {column: name for column, name in TIME_COLUMNS.items() if name in names}
        factor = 1
        if "arrival_ns" not in times and "time_us" in names:
            times, factor = {"arrival_ns": "time_us", **times}, 1000
        if "arrival_ns" not in times:
            times = {}
        source.coverage.update(json.loads((file.metadata.metadata or {}).get(_COVERAGE.encode(), b"{}")))
        row = 0
        for batch in read_batches(file, source.path, [*REQUEST_COLUMNS, *times.values()], PIECE_REQUESTS):
            piece, faults = _convert_batch(batch, times, factor)
            for at, problem in sorted(faults.items()):
                source.fault(f"request {row + at}", problem)
            row += len(batch)
            if faults:
                piece = {name: np.delete(values, list(faults)) for name, values in piece.items()}
            if len(piece["operation"]):
                yield pd.DataFrame(piece)


def _convert_batch(batch: Any, times: dict[str, str], factor: int) -> tuple[dict[str, np.ndarray], dict[int, str]]:
    """Convert a batch of rows of a Parquet file to the columns of a trace.

    Args:
        batch: The rows (pyarrow.RecordBatch).
        times: Names of the time columns in the file, by their names in the result.
        factor: Nanoseconds per unit of the arrival times.

    Returns:
        The columns by name, and the problem of each faulty row by its position in the batch.
    """
    faults: dict[int, str] = {}
    piece = {"operation": _operations(batch.column("operation"), faults)}
    for column in ("offset_bytes", "size_bytes"):
        numbers = checked_numbers(batch.column(column), column, faults, "whole number of bytes from 0 to 2^62")
        piece[column] = numbers.astype(np.uint64)
    for column, name in times.items():
        unit, unknown = (factor, None) if column == "arrival_ns" else (1, UNKNOWN_TIME)
        piece[column] = checked_numbers(
            batch.column(name), name, faults, "time from 0 to 146 years", unit, unknown=unknown
        )
    earlier = piece.get("arrival_ns")
    for column in ("dispatched_ns", "completed_ns"):
        if earlier is not None and column in piece:
            known = piece[column] != UNKNOWN_TIME
            for at in np.flatnonzero(known & (piece[column] < earlier)):
                problem = f"{column} is {piece[column][at]}, before the request was queued or dispatched"
                faults.setdefault(int(at), problem)
            earlier = np.where(known, piece[column], earlier)
    return piece, faults


def _operations(column: Any, faults: dict[int, str]) -> np.ndarray:
    """Return the operations in a column of names as numbers.

    Args:
        column: The names of the operations (pyarrow.Array).
        faults: Receives the problem of each faulty row by its position, unless the row already has one.
    """
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


def read_phases(path: Path) -> dict[str, int]:
    """Return the start of each phase of a block trace, in order of time.

    A phase is a part of the recorded program's run that has a name, such as ``prepare``. The metadata of the Parquet
    file contain the names and starts of the phases.

    Args:
        path: The trace, a Parquet file.

    Returns:
        Starts in nanoseconds since the first request, by name of the phase. The last entry, ``end``, is not a phase:
        its time is the end of the last phase. The result is empty for a trace without phases.

    Raises:
        TwinError: The file cannot be read, or is not a trace.
    """
    found: dict[str, int] = _read_metadata(path, _PHASES) or {}
    return found


def read_recorded_drive(path: Path) -> RecordedDrive | None:
    """Return the simulated drive on which a block trace was recorded.

    Args:
        path: The trace, a Parquet file.

    Returns:
        The drive; None if the trace was not recorded by `twin linux`.

    Raises:
        TwinError: The file cannot be read, or is not a trace.
    """
    found = _read_metadata(path, _DRIVE)
    try:
        return None if found is None else RecordedDrive(**found)
    except TypeError as error:
        raise TwinError(f"{path}: not readable as a trace: {_DRIVE}: {printable(error)}") from None


def _read_metadata(path: Path, key: str) -> Any:
    """Return a value in the metadata of a Parquet file, which is stored as JSON; None if there is none.

    Raises:
        TwinError: The file cannot be read, or is not a trace.
    """
    import pyarrow.parquet

    try:
        text = (pyarrow.parquet.read_schema(path).metadata or {}).get(key.encode())
        return None if text is None else json.loads(text)
    except (OSError, ValueError) as error:  # errors of pyarrow are ValueErrors
        raise TwinError(f"{path}: not readable as a trace: {printable(error)}") from None


def write_requests(
    path: Path,
    pieces: Iterable[pd.DataFrame],
    form: str,
    phases_ns: Mapping[str, int] | None = None,
    recorded_on: RecordedDrive | None = None,
    *,
    coverage: Coverage | None = None,
) -> None:
    """Write the requests of a block trace to a Parquet file, which is overwritten.

    The same trace always gives the same bytes.

    Args:
        path: The file.
        pieces: Consecutive parts of the trace, at least one, as tables with the columns of `traces.read_pieces`. All
            have the same columns.
        form: Name of the original format, which is recorded in the file.
        phases_ns: Start of each phase by name, see `read_phases`; None for a trace without phases.
        recorded_on: The simulated drive on which the trace was recorded; None if it was recorded elsewhere.
        coverage: How much of the original the requests represent, which is recorded in the file. It must be complete
            when ``pieces`` ends. None for a trace of this project.
    """
    metadata = {"iopatterns.trace": _VERSION, "iopatterns.trace.source": form}
    if phases_ns:
        metadata[_PHASES] = json.dumps(dict(phases_ns))
    if recorded_on is not None:
        defaults = {field.name: field.default for field in dataclasses.fields(recorded_on)}
        values = dataclasses.asdict(recorded_on).items()
        metadata[_DRIVE] = json.dumps({name: value for name, value in values if value != defaults[name]})
    write_tables(
        path,
        map(_table, pieces),
        metadata,
        ("operation",),
        lambda: {} if coverage is None else {_COVERAGE: coverage.to_json()},
    )


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
