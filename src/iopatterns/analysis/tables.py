"""Tables of a report, written as CSV, LaTeX, typst or text; and numbers as JSON."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.units import format_size

WORKLOAD_NAMES = {
    "read": "Read",
    "randread": "Rand. read",
    "write": "Write",
    "randwrite": "Rand. write",
    "readwrite": "Mixed",
    "randrw": "Rand. mixed",
}
NO_VALUE = "–"  # printed in place of a missing value
# How many digits a number has in CSV and JSON files. There are too few for the last ones, which differ between
# processors, and enough that rounding such a number once more for print gives the same as rounding the number itself.
# With six digits, 1.044997 became 1.045 in the file, and 1.05 in the text beside 1.04 in a table.
SIGNIFICANT_DIGITS = 12


class TableError(IoPatternsError):
    """The error raised for data that cannot be a table, or a value that JSON lacks.

    Data cannot be a table if they have no rows, or if a column is missing.
    """


@dataclass(frozen=True)
class Column:
    """A printed column of a table.

    A printed column may show several data columns, such as both ends of an interval.

    Attributes:
        names: The data columns that the printed column shows.
        label: Header of the column.
        formatter: A function that is called with the values of `names` in one row, in this order. It returns the
            printed text.
        unit: Unit, printed in parentheses below the label; empty for none.
        spanner: Common header above the labels of neighbouring columns; empty for none. Neighbouring columns with an
            equal spanner share it.
        align_right: Whether the texts are aligned right instead of left.
        hide_repeats: Whether a text that is equal to the text in the row above is left blank. The text is printed in
            the first row of each group (see `Table`) in any case.
    """

    names: tuple[str, ...]
    label: str
    formatter: Callable[..., str] = str
    unit: str = ""
    spanner: str = ""
    align_right: bool = True
    hide_repeats: bool = False


@dataclass(frozen=True)
class Table:
    """Data, and the columns in which the data are printed.

    Attributes:
        data: All data at full precision, at least one row. The CSV file has all columns of the data, printed or not.
        columns: The columns that are printed, from left to right.
        group: A data column. Space or a rule separates consecutive rows with different values of this column.

    Raises:
        TableError: The data have no rows, or lack a printed column or `group`.
    """

    data: pd.DataFrame
    columns: tuple[Column, ...]
    group: str

    def __post_init__(self) -> None:
        """Raise TableError if the data have no rows, or lack a printed column or `group`."""
        wanted = {self.group, *(name for column in self.columns for name in column.names)}
        missing = sorted(wanted - set(self.data.columns))
        if missing:
            raise TableError(f"the table has no column {', '.join(missing)}, only {', '.join(self.data.columns)}")
        if self.data.empty:
            raise TableError("the table has no rows")


def fixed_decimals(digits: int) -> Callable[[float], str]:
    """Return a function that formats a number with a fixed number of decimals.

    The function returns a dash for NaN.

    Args:
        digits: The number of decimals.
    """
    return lambda value: NO_VALUE if pd.isna(value) else f"{value:z.{digits}f}"


def shared_decimals(values: Iterable[float]) -> Callable[[float], str]:
    """Return a formatter that gives all numbers of a column the same decimals.

    The smallest number other than 0 determines the decimals. It gets three significant digits, but at most three
    decimals, and no decimals from 100 on. NaN becomes a dash. Without such a number, there are two decimals.

    Args:
        values: All numbers of the column, compared by absolute value.
    """
    smallest = min((abs(value) for value in values if not pd.isna(value) and value), default=1.0)
    return fixed_decimals(min(3, max(0, 2 - math.floor(math.log10(smallest)))))


def three_digits(value: float) -> str:
    """Return a number as text with three significant digits, such as ``12.3``.

    There are three exceptions. Numbers from 1000 on are rounded to integers. Numbers below 0.1 have three decimals.
    Zero is ``0.00``. The sign of the number does not matter. NaN is a dash.
    """
    return shared_decimals([value])(value)


def signed_percent(value: float) -> str:
    """Return a percentage as text with its sign and one decimal, such as ``+1.5``.

    The text has no percent sign. NaN is a dash.

    Args:
        value: The percentage, such as 1.5 for 1.5 %.
    """
    text = fixed_decimals(1)(value).replace("-", "−")
    return f"+{text}" if round(value, 1) > 0 else text


def interval_format(formatter: Callable[[float], str]) -> Callable[[float, float], str]:
    """Return a function that formats an interval as ``low–high``.

    The function takes both ends. If both ends are equal as printed, or NaN, the text is a single dash: an interval
    without width would look as if the mean were known exactly.

    Args:
        formatter: A function that formats one end.
    """

    def interval_text(low: float, high: float) -> str:
        ends = (formatter(low), formatter(high))
        return NO_VALUE if ends[0] == ends[1] else "–".join(ends)

    return interval_text


def interval_decimals(digits: int) -> Callable[[float, float], str]:
    """Return a function that formats intervals as ``low–high`` with fixed decimals.

    The function takes both ends. If both ends are equal as printed, or NaN, the text is a single dash: an interval
    without width would look as if the mean were known exactly.

    Args:
        digits: The number of decimals of both ends.
    """
    return interval_format(fixed_decimals(digits))


def sort_rows(rows: pd.DataFrame, by: Sequence[str], **orders: Sequence[str]) -> pd.DataFrame:
    """Return rows sorted by some columns, with drives in order of first appearance.

    Args:
        rows: Any table with the column drive.
        by: The columns to sort by, the most important first. The column drive is sorted by the first appearance of the
            drives in `rows`.
        orders: For a column, all its values in the wanted order, such as ``rw=["read", "write"]``. Columns without an
            order are sorted by value.

    Returns:
        The sorted rows with a new index from 0.

    Raises:
        ValueError: A column has a value that is not in its order.
    """
    places = {"drive": list(dict.fromkeys(rows["drive"])), **orders}

    def place(column: pd.Series) -> pd.Series:
        return column.map(list(places[column.name]).index) if column.name in places else column

    return rows.sort_values(list(by), key=place, kind="stable", ignore_index=True)


def block_label(size_bytes: int) -> str:
    """Return a block size as text with a binary unit, such as ``4 KiB`` for 4096.

    Sizes that are not a multiple of 1024 are in bytes, such as ``512 B``.
    """
    text = format_size(size_bytes)
    return f"{text[:-1]} {text[-1].upper()}iB" if text[-1].isalpha() else f"{text} B"


def printed_frame(table: Table) -> pd.DataFrame:
    """Return the printed texts of a table as a frame.

    Returns:
        A row per row of the data, and a column per printed column. The frame's columns have three levels: spanner
        (header above several columns), label, and unit in parentheses.
    """
    frame = pd.DataFrame(dict(enumerate(_texts(table, column) for column in table.columns)))
    frame.columns = pd.MultiIndex.from_tuples(
        [(column.spanner, column.label, _unit_text(column.unit)) for column in table.columns]
    )
    return frame


def write_table(table: Table, stem: Path) -> None:
    """Write a table as ``stem.csv`` (all data), ``stem.tex`` and ``stem.typ``.

    Missing folders are created, and existing files are replaced. Equal tables give equal bytes.

    Args:
        table: The table.
        stem: Path of the files without suffix.

    Raises:
        NoRoomError: The file system is full or cannot be written to.
    """
    for suffix, text in (("csv", to_csv(table)), ("tex", to_latex(table)), ("typ", to_typst(table))):
        files.write_text(Path(f"{stem}.{suffix}"), text)


def write_numbers(numbers: Mapping[str, Any], path: Path) -> Path:
    """Write the numbers of a report's text as JSON with sorted keys.

    Floats are rounded to `SIGNIFICANT_DIGITS` (12) significant digits. NaN and infinite numbers become null.

    Args:
        numbers: Numbers, texts, and nested lists and mappings of them; numpy and pandas scalars are accepted.
        path: The file to write.

    Returns:
        `path`.

    Raises:
        TableError: A value has a type that JSON does not have.
        NoRoomError: The file system is full or cannot be written to.
    """
    files.write_json(path, _json_value(numbers))
    return path


def to_csv(table: Table) -> str:
    """Return all data of a table as CSV text with a header line.

    Columns that are not printed are included. Floats have `SIGNIFICANT_DIGITS` (12) significant digits.
    """
    text: str = table.data.to_csv(index=False, lineterminator="\n", float_format=f"%.{SIGNIFICANT_DIGITS}g")
    return text


def to_text(table: Table) -> str:
    """Return the printed columns of a table as plain text for a terminal.

    The text has up to three header lines (common header, label, unit), a rule, and a line per row. Texts are padded so
    that columns are aligned.
    """
    columns = []
    for column in table.columns:
        # a spanner cannot extend over columns here: it is repeated, with its unit below
        spanner, _, unit = column.spanner.partition(" (")
        header = [spanner, column.label, _unit_text(column.unit) or (f"({unit}" if unit else "")]
        texts = [*header, *_texts(table, column)]
        width = max(map(len, texts))
        columns.append([text.rjust(width) if column.align_right else text.ljust(width) for text in texts])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    return "\n".join([*filter(None, lines[:3]), "─" * max(map(len, lines)), *lines[3:]])


def to_latex(table: Table) -> str:
    """Return the printed columns of a table as LaTeX source of a ``tabular``.

    The source needs the LaTeX package booktabs only.
    """
    frame = printed_frame(table)
    if not any(column.unit for column in table.columns):
        frame.columns = pd.MultiIndex.from_tuples([(column.spanner, column.label) for column in table.columns])
    style = frame.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis="columns")
    layout = "".join("r" if column.align_right else "l" for column in table.columns)
    lines = style.to_latex(hrules=True, column_format=layout, multicol_align="c").splitlines()
    rules = " ".join(f"\\cmidrule(lr){{{first + 1}-{after}}}" for _, first, after in _spanners(table))
    start = lines.index("\\midrule") + 1
    header, body = lines[:start], lines[start:]
    if rules:
        header.insert(header.index("\\toprule") + 2, rules)
    else:
        del header[header.index("\\toprule") + 1]  # the level of spanners, which are all empty
    for row in reversed(_group_starts(table)):
        body.insert(row, "\\addlinespace")
    return "\n".join(["% Needs \\usepackage{booktabs}", *header, *body]) + "\n"


def to_typst(table: Table) -> str:
    """Return the printed columns of a table as typst source of a ``table``.

    A typst document shows the table with ``include``. The table has horizontal rules like those of LaTeX's booktabs,
    alignment, and spanners (headers above several columns).
    """
    columns = table.columns
    align = ", ".join("right" if column.align_right else "left" for column in columns)
    lines = [
        "#table(",
        f"  columns: {len(columns)},",
        f"  align: ({align},),",
        "  column-gutter: 0.4em,",  # separates the rules below neighbouring spanners
        "  stroke: none,",
        "  table.hline(stroke: 0.08em),",
        "  table.header(",
    ]
    spanners = _spanners(table)
    if spanners:
        cells = {
            first: f"table.cell(colspan: {after - first}, align: center, {_typst_string(text)})"
            for text, first, after in spanners
        }
        covered = {number for _, first, after in spanners for number in range(first + 1, after)}
        row = [cells.get(number, '""') for number in range(len(columns)) if number not in covered]
        lines.append(f"    {', '.join(row)},")
        lines += [f"    table.hline(start: {first}, end: {after}, stroke: 0.03em)," for _, first, after in spanners]
    lines.append(f"    {_typst_row(column.label for column in columns)},")
    if any(column.unit for column in columns):
        lines.append(f"    {_typst_row(_unit_text(column.unit) for column in columns)},")
    lines += ["  ),", "  table.hline(stroke: 0.05em),"]
    starts = _group_starts(table)
    for number, texts in enumerate(printed_frame(table).itertuples(index=False, name=None)):
        if number in starts:
            lines.append("  table.hline(stroke: 0.03em),")
        lines.append(f"  {_typst_row(texts)},")
    return "\n".join([*lines, "  table.hline(stroke: 0.08em),", ")"]) + "\n"


def _texts(table: Table, column: Column) -> list[str]:
    """Return the printed text of a column in each row; "" for hidden repeats."""
    rows = table.data[list(column.names)].itertuples(index=False, name=None)
    texts = [column.formatter(*row) for row in rows]
    if not column.hide_repeats:
        return texts
    starts = {0, *_group_starts(table)}
    return ["" if number not in starts and text == texts[number - 1] else text for number, text in enumerate(texts)]


def _group_starts(table: Table) -> list[int]:
    """Return the numbers of the rows at which a new group begins.

    Rows are counted from 0. The first row, where the first group begins, is not included.
    """
    groups = list(table.data[table.group])
    return [number for number in range(1, len(groups)) if groups[number] != groups[number - 1]]


def _spanners(table: Table) -> list[tuple[str, int, int]]:
    """Return each spanner with its range of column numbers, counted from 0.

    A spanner is a header above several columns.

    Returns:
        Triples of the spanner's text, the number of its first column, and the number of its last column plus 1.
    """
    spanners = []
    for text, columns in groupby(enumerate(table.columns), key=lambda item: item[1].spanner):
        numbers = [number for number, _ in columns]
        if text:
            spanners.append((text, numbers[0], numbers[-1] + 1))
    return spanners


def _unit_text(unit: str) -> str:
    return f"({unit})" if unit else ""


def _typst_row(texts: Iterable[str]) -> str:
    return ", ".join(map(_typst_string, texts))


def _typst_string(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _json_value(value: Any) -> Any:
    """Return a value converted to types that JSON has, for `write_numbers`.

    Floats are rounded, NaN becomes None, and numpy and pandas scalars become Python numbers.

    Raises:
        TableError: A value has a type that JSON does not have.
    """
    if isinstance(value, Mapping):
        return {str(key): _json_value(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(part) for part in value]
    if value is pd.NA:
        return None
    if hasattr(value, "item"):
        return _json_value(value.item())
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    raise TableError(f"a value of type {type(value).__name__} cannot be written as JSON: {value!r}")
