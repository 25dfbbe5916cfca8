"""Conversion of a simulated drive's recorded counters to a tidy table."""

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
    """Raise TwinError unless the path ends in .parquet or .csv."""
    if Path(path).suffix not in {".parquet", ".csv"}:
        raise TwinError(f"{path}: the name of this file must end in .parquet or .csv")


def table_writer(path: Path, schema: "pyarrow.Schema") -> AbstractContextManager[Any]:
    """Return a writer of tables with this schema, to a Parquet or CSV file.

    Raises:
        TwinError: The path ends neither in .parquet nor in .csv.
    """
    import pyarrow.csv
    import pyarrow.parquet

    check_table_path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    kind = pyarrow.parquet.ParquetWriter if path.suffix == ".parquet" else pyarrow.csv.CSVWriter
    writer: AbstractContextManager[Any] = kind(path, schema)
    return writer


def counter_variables(path: str, interval: str | None, interval_bytes: str | None) -> dict[str, str]:
    """Return the environment variables that set the times of snapshots.

    The preload library reads the variables.

    Args:
        path: File for the counters, as given by the user.
        interval: Virtual time between two snapshots; by default 100 ms.
        interval_bytes: Bytes written between two snapshots; by default no limit.

    Raises:
        TwinError: An argument is not valid.
    """
    check_table_path(path)
    try:
        interval_ns = units.parse_duration_us(interval or "100 ms") * 1000
        written_bytes = units.parse_size(interval_bytes or "0")
    except ValueError as error:
        raise TwinError(f"--interval, --interval-bytes: {error}; give values such as '10 ms' and '64 MiB'") from None
    return {"TWIN_COUNTERS_INTERVAL_NS": str(interval_ns), "TWIN_COUNTERS_INTERVAL_BYTES": str(written_bytes)}


def convert_counters(binary: Path, path: Path) -> None:
    """Write the binary records of a simulated drive to a Parquet or CSV table.

    Memory use does not grow with the number of records. The columns of the table:

    - ``time_ns`` (int64): virtual time.
    - ``series``: ``queue_depth`` after each issue and each completion, the name of a counter, ``erase_count`` or
      ``valid_ratio``.
    - ``index``: number of the block for ``erase_count`` and ``valid_ratio``; 0 for all other series.
    - ``value``: the value.
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
