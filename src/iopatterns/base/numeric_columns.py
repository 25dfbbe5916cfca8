"""Numbers in columns of Parquet files that other programs wrote."""

from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable


def checked_numbers(
    column: Any, name: str, faults: dict[int, str], expected: str, factor: int = 1, *, unknown: int | None = None
) -> np.ndarray:
    """Return a column multiplied by a factor, as int64.

    The problems of faulty rows are added to ``faults``. Valid numbers are from 0 to 2^62 after the multiplication.
    Fractions are rounded, or are faulty if only whole numbers are expected.

    Args:
        column: The column (pyarrow.Array).
        name: Name of the column, for messages.
        faults: Problems by row. The first problem of a row is kept.
        expected: Description of the valid numbers, for messages. Fractions are faulty if it begins with "whole".
        factor: The factor.
        unknown: The number that replaces missing values; None if missing values are faulty.
    """
    import pyarrow as pa

    null = column.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_integer(column.type):
        given: np.ndarray = column.fill_null(0).to_numpy(zero_copy_only=False)
    else:
        given = pd.to_numeric(column.to_pandas(), errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    with np.errstate(invalid="ignore", over="ignore"):
        as_float = given.astype(np.float64) * factor
        bad = ~((as_float >= 0) & (as_float < MAX_NUMBER))
        if expected.startswith("whole"):
            bad |= as_float != np.floor(as_float)
        bad = bad & ~null | null & (unknown is None)
        scaled = given * factor if given.dtype.kind != "f" else np.round(given * factor)
        numbers: np.ndarray = np.where(null | bad, 0, scaled).astype(np.int64)
    for at in np.flatnonzero(bad):
        faults.setdefault(int(at), f"{name} is '{printable(column[int(at)])}', not a {expected}")
    return numbers if unknown is None else np.where(null, unknown, numbers)
