"""Conversion of a simulated drive's recorded counters to a tidy table.

Counters are statistics of the drive, such as the bytes written and the blocks erased. The simulated drive records them
over time in a binary file.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from iopatterns import _twin
from iopatterns.base import units
from iopatterns.twin.error import TwinError

if TYPE_CHECKING:
    import pyarrow

# Numbered as in src/twin/core/counters.h
_SERIES = ("queue_depth", "counter", "erase_count", "valid_ratio")
_RECORD = np.dtype([("time_ns", "<i8"), ("series", "<u2"), ("zero", "<u2"), ("index", "<u4"), ("value", "<f8")])
_RECORDS_PER_CHUNK = 1_000_000


def check_table_path(path: Path | str) -> None:
    """Check that the path of a table ends in .parquet or .csv.

    The file itself is neither read nor created.

    Raises:
        TwinError: The path has another ending.
    """
    if Path(path).suffix not in {".parquet", ".csv"}:
        raise TwinError(f"{path}: the name of this file must end in .parquet or .csv")


def table_writer(path: Path, schema: "pyarrow.Schema") -> AbstractContextManager[Any]:
    """Return a context manager that writes Arrow tables to a Parquet or CSV file.

    The ending of the path selects the format. On entry, the context manager returns a `pyarrow.parquet.ParquetWriter`
    or a `pyarrow.csv.CSVWriter`. Both have the method ``write_table``, which appends a table. The file is complete when
    the context ends.

    Args:
        path: The file, which is overwritten; for example, the temporary file of an `ownership.OutputFile`.
        schema: Schema of all tables that are written.

    Raises:
        TwinError: The path ends neither in .parquet nor in .csv.
    """
    import pyarrow.csv
    import pyarrow.parquet

    check_table_path(path)
    kind = pyarrow.parquet.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
    writer: AbstractContextManager[Any] = kind(path, schema)
    return writer


def counter_variables(path: str, interval: str | None, interval_bytes: str | None) -> dict[str, str]:
    """Return the environment variables that say when to record a drive's counters.

    Counters are statistics of a simulated drive, such as the bytes written. The preload library, which connects a
    program to its simulated drive, reads these variables. It records all counters whenever ``interval`` has passed, and
    whenever ``interval_bytes`` have been written.

    Args:
        path: File for the table of counters. Only its ending is checked here.
        interval: Simulated time between two records, such as ``10 ms``; None for 100 ms.
        interval_bytes: Written bytes between two records, such as ``64 MiB``; None to record by time only.

    Returns:
        TWIN_COUNTERS_INTERVAL_NS (nanoseconds) and TWIN_COUNTERS_INTERVAL_BYTES (bytes; 0 to record by time only), with
        their values as text.

    Raises:
        TwinError: The path ends neither in .parquet nor in .csv, or an interval is not a valid number with a unit.
    """
    check_table_path(path)
    try:
        interval_ns = units.parse_duration_us(interval or "100 ms") * 1000
        written_bytes = units.parse_size(interval_bytes or "0")
    except ValueError as error:
        raise TwinError(f"--interval, --interval-bytes: {error}; give values such as '10 ms' and '64 MiB'") from None
    return {"TWIN_COUNTERS_INTERVAL_NS": str(interval_ns), "TWIN_COUNTERS_INTERVAL_BYTES": str(written_bytes)}


def convert_counters(binary: Path, path: Path) -> None:
    """Convert the recorded counters of a simulated drive to a Parquet or CSV file.

    Counters are statistics of the drive, such as the bytes written. The table has a row for each recorded value. Its
    columns:

    - ``time_ns`` (int64): simulated time.
    - ``series``: name of the recorded quantity, see below.
    - ``index`` (uint32): number of the flash block for ``erase_count`` and ``valid_ratio``; 0 for all other series.
    - ``value`` (float64): the recorded value.

    The values of ``series``:

    - ``queue_depth``: outstanding requests, recorded at each issue and completion of a request.
    - ``erase_count``: number of times that a flash block has been erased.
    - ``valid_ratio``: share of a flash block that holds current data, from 0 to 1.
    - Any other name, such as ``write_bytes``: the counter of this name.

    Args:
        binary: File that the simulated drive has written.
        path: File for the table, .parquet or .csv, which is overwritten.

    Raises:
        TwinError: The path of the table has another ending.
        OSError: A file cannot be read or written.
    """
    import pyarrow as pa

    names = [*_SERIES, *_twin.counter_names()]
    is_parquet = path.suffix == ".parquet"
    series_type = pa.dictionary(pa.int32(), pa.string()) if is_parquet else pa.string()
    schema = pa.schema(
        [("time_ns", pa.int64()), ("series", series_type), ("index", pa.uint32()), ("value", pa.float64())]
    )
    with table_writer(path, schema) as writer, open(binary, "rb") as file:
        while (records := np.fromfile(file, _RECORD, _RECORDS_PER_CHUNK)).size:
            is_counter = records["series"] == _SERIES.index("counter")
            codes = np.where(is_counter, len(_SERIES) + records["index"], records["series"]).astype(np.int32)
            series = pa.DictionaryArray.from_arrays(codes, names)
            columns = [
                pa.array(records["time_ns"]),
                series.cast(series_type),
                pa.array(np.where(is_counter, 0, records["index"]).astype(np.uint32)),
                pa.array(records["value"]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
