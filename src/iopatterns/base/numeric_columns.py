"""Reading of numbers from Parquet columns that other programs wrote."""

from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable


def checked_numbers(
    column: Any, name: str, faults: dict[int, str], expected: str, factor: int = 1, *, unknown: int | None = None
) -> np.ndarray:
    """Return a column multiplied by a factor, as int64.

    Valid numbers are at least 0 and, after the multiplication, below 2^62. Fractions are rounded, or faulty if only
    whole numbers are expected. Faulty values become 0 in the result, and their rows are added to ``faults``.

    Args:
        column: The column (pyarrow.Array).
        name: Name of the column, for messages.
        faults: A message for each faulty row, by index of the row. The first message of a row is kept.
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
