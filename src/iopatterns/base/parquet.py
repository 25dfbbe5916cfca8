"""Writing of Parquet files, table by table, so that memory stays small."""

import itertools
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow


def write_tables(
    path: Path, tables: "Iterable[pyarrow.Table]", about: Mapping[str, str], dictionary: Collection[str]
) -> None:
    """Write tables with the same columns to a new Parquet file, one after another.

    Equal tables give equal bytes.

    Args:
        path: The file.
        tables: The tables, at least one.
        about: The metadata of the file, as keys and values.
        dictionary: The names of all columns that are not integers, and of integer columns with few distinct values.
            These columns are dictionary-encoded, and all others are delta-encoded.
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
