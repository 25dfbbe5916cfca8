"""Reading of numbers from Parquet columns that other programs wrote."""

from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable


def checked_numbers(
    column: Any, name: str, faults: dict[int, str], expected: str, factor: int = 1, *, unknown: int | None = None
) -> np.ndarray:
    """Return the numbers in a column, each multiplied by a factor, as int64.

    A valid number is at least 0, and its product is below 2^62. A product with a fraction is rounded. If only whole
    numbers are expected, such a product is faulty instead. For each faulty row, the result is 0, and a message is added
    to ``faults``.

    Args:
        column: The column (pyarrow.Array).
        name: Name of the column, for messages.
        faults: The messages, by index of the row. A row that already has a message keeps it.
        expected: Description of a valid number, for messages. If it begins with "whole", only whole numbers are
            expected.
        factor: The factor.
        unknown: The number that replaces a missing value; None if a missing value is faulty.
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
