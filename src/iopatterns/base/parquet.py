"""Reading and writing of Parquet files in parts, so that little memory is needed."""

import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from iopatterns.base import reading_progress

if TYPE_CHECKING:
    import pyarrow.parquet

_BUFFER_BYTES = 2**20


def open_parquet(path: Path) -> "pyarrow.parquet.ParquetFile":
    """Open a Parquet file for reading in batches, with little memory.

    With its defaults, pyarrow reads complete row groups, and keeps what it has read until the file is closed. This
    function disables that. Use the result as a context manager, or close it.
    """
    import pyarrow.parquet

    return pyarrow.parquet.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER_BYTES)


def read_batches(
    file: "pyarrow.parquet.ParquetFile", path: Path, columns: Sequence[str], rows: int
) -> "Iterator[pyarrow.RecordBatch]":
    """Yield the rows of a Parquet file in batches.

    The progress bar of `reading_progress.shown` includes this file while its rows are read.

    Args:
        file: The file, opened with `open_parquet`.
        path: The path of the file, which gives its size for the progress bar.
        columns: The names of the columns to read.
        rows: The largest number of rows in a batch.
    """
    size_bytes, row_count, read_rows = path.stat().st_size, max(1, file.metadata.num_rows), 0
    with reading_progress.watched_position(lambda: size_bytes * read_rows / row_count, size_bytes):
        for batch in file.iter_batches(batch_size=rows, columns=list(columns)):
            yield batch
            read_rows += len(batch)


def write_tables(
    path: Path,
    tables: "Iterable[pyarrow.Table]",
    about: Mapping[str, str],
    dictionary: Collection[str],
    about_at_end: Callable[[], Mapping[str, str]] = dict,
) -> None:
    """Write tables to one Parquet file, one after another.

    All tables must have the same columns. Equal tables give equal bytes. Only one table at a time is in memory if
    ``tables`` is a generator.

    Args:
        path: The file.
        tables: The tables, at least one.
        about: The metadata of the file, as keys and values.
        dictionary: The names of the columns to encode as a dictionary of distinct values: all columns that are not
            integers, and integer columns with few distinct values. All other columns are delta-encoded.
        about_at_end: Returns more metadata, after the last table.
    """
    import pyarrow.parquet

    tables = iter(tables)
    first = next(tables)
    schema = first.schema.with_metadata(about)
    numbers = {name: "DELTA_BINARY_PACKED" for name in schema.names if name not in dictionary}
    with pyarrow.parquet.ParquetWriter(
        path, schema, compression="zstd", use_dictionary=list(dictionary), column_encoding=numbers
    ) as writer:
        for table in itertools.chain([first], tables):
            writer.write_table(table)
        if more := dict(about_at_end()):
            writer.add_key_value_metadata(more)
