"""Turns what a simulated drive records over time into a tidy table."""

from pathlib import Path

import numpy as np

from iopatterns import _twin
from iopatterns.base import units
from iopatterns.twin.error import TwinError

# As the drive numbers them (src/twin/core/counters.h).
SERIES = ("queue_depth", "counter", "erase_count", "valid_ratio")
_RECORD = np.dtype([("time_ns", "<i8"), ("series", "<u2"), ("zero", "<u2"), ("index", "<u4"), ("value", "<f8")])
_RECORDS_AT_ONCE = 1_000_000
_DEFAULT_INTERVAL_NS = 100_000_000
_SUFFIXES = (".parquet", ".csv")


def check_table_path(path: Path | str) -> None:
    """Raise TwinError unless the file's name says in which form it is wanted."""
    if Path(path).suffix not in _SUFFIXES:
        raise TwinError(f"{path}: counters are written as .parquet or .csv; give the file one of these endings")


def parse_interval_ns(text: str | None) -> int:
    """Return a time between snapshots in nanoseconds; 100 ms where none is given. Raises TwinError."""
    if text is None:
        return _DEFAULT_INTERVAL_NS
    try:
        return units.parse_duration_us(text) * 1000
    except ValueError as error:
        raise TwinError(f"--interval: {error}; give such as '10 ms'") from None


def parse_interval_bytes(text: str | None) -> int:
    """Return the bytes written between two snapshots; 0, for none, where nothing is given. Raises TwinError."""
    try:
        return units.parse_size(text) if text else 0
    except ValueError as error:
        raise TwinError(f"--interval-bytes: {error}; give such as '64 MiB'") from None


def counter_variables(path: str, interval: str | None, written: str | None) -> dict[str, str]:
    """Return what tells the preload library how often to take snapshots. Raises TwinError."""
    check_table_path(path)
    return {
        "TWIN_COUNTERS_INTERVAL_NS": str(parse_interval_ns(interval)),
        "TWIN_COUNTERS_INTERVAL_BYTES": str(parse_interval_bytes(written)),
    }


def convert_counters(binary: Path, path: Path) -> None:
    """Write a drive's records to ``path``, in pieces, so that many cost no memory.

    Columns: ``time_ns`` (int64, simulated), ``series`` (queue_depth after each issue and completion; the name of a
    counter; erase_count; valid_ratio), ``index`` (block number for the last two, else 0), ``value``.
    """
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    check_table_path(path)
    names = [*SERIES, *_twin.counter_names()]
    schema = pa.schema(
        [
            ("time_ns", pa.int64()),
            ("series", pa.dictionary(pa.int32(), pa.string()) if path.suffix == ".parquet" else pa.string()),
            ("index", pa.uint32()),
            ("value", pa.float64()),
        ]
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = pa.parquet.ParquetWriter(path, schema) if path.suffix == ".parquet" else pa.csv.CSVWriter(path, schema)
    with writer, open(binary, "rb") as file:
        while (records := np.fromfile(file, _RECORD, _RECORDS_AT_ONCE)).size:
            is_counter = records["series"] == SERIES.index("counter")
            codes = np.where(is_counter, len(SERIES) + records["index"], records["series"]).astype(np.int32)
            series = pa.DictionaryArray.from_arrays(codes, names)
            columns = [
                pa.array(records["time_ns"]),
                series if path.suffix == ".parquet" else series.cast(pa.string()),
                pa.array(np.where(is_counter, 0, records["index"]).astype(np.uint32)),
                pa.array(records["value"]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))
