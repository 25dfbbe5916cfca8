"""Reading of numbers from columns of Parquet files that other programs wrote.

Such a column may have another type, missing values, or numbers out of range.
"""

from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base.input_file import MAX_NUMBER, printable


def checked_numbers(
    column: Any, name: str, faults: dict[int, str], expected: str, factor: int = 1, *, unknown: int | None = None
) -> np.ndarray:
    """Convert a Parquet column of numbers to int64, and report faulty rows.

    Each number is multiplied by ``factor``. A number is faulty if it is not a finite number, is negative, or has a
    product of 2^62 or more. A product with a fraction is rounded; it is faulty instead if ``expected`` begins with
    "whole".

    Args:
        column: The column (pyarrow.Array). Text such as "12" is read as a number.
        name: The name of the column, for messages.
        faults: Receives a message for each faulty row, by the index of the row, from 0. A row that already has a
            message keeps it.
        expected: A description of a valid number, for messages, such as ``whole number of bytes from 0 to 2^62``.
        factor: The factor, such as 512 to convert sectors to bytes.
        unknown: The result for a missing value, such as -1. It is not multiplied. None makes a missing value faulty.

    Returns:
        An array with the product of each row. A faulty row has the product 0.
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
