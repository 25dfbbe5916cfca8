"""Write tables as CSV, LaTeX, typst or text, and the numbers of a report as JSON."""

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
    """A table or a file of numbers cannot be made from the given data."""


@dataclass(frozen=True)
class Column:
    """A printed column of a table.

    Attributes:
        names: The data columns that the printed column shows.
        label: Header of the column.
        formatter: Takes the values of `names` in one row and returns the printed text.
        unit: Unit, printed below the label.
        spanner: Header above the labels of neighbouring columns with an equal spanner.
        align_right: Whether the texts are aligned right instead of left.
        hide_repeats: Whether to leave out a text that repeats the text above it.
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
    """A table to be printed and saved.

    Attributes:
        data: All data at full precision, with units in the column names.
        columns: The columns that are printed.
        group: A data column. Space or a rule separates consecutive rows with different values of this column.
    """

    data: pd.DataFrame
    columns: tuple[Column, ...]
    group: str

    def __post_init__(self) -> None:
        """Raise TableError if the data have no rows or lack a printed column."""
        wanted = {self.group, *(name for column in self.columns for name in column.names)}
        missing = sorted(wanted - set(self.data.columns))
        if missing:
            raise TableError(f"the table has no column {', '.join(missing)}, only {', '.join(self.data.columns)}")
        if self.data.empty:
            raise TableError("the table has no rows")


def fixed_decimals(digits: int) -> Callable[[float], str]:
    """Return a formatter that prints numbers with `digits` decimals, NaN as a dash."""
    return lambda value: NO_VALUE if pd.isna(value) else f"{value:z.{digits}f}"


def shared_decimals(values: Iterable[float]) -> Callable[[float], str]:
    """Return a formatter that prints all numbers of a column with equally many decimals.

    Their number gives the smallest of `values` three significant digits. It is at most three, and none if the smallest
    value is 100 or more.
    """
    smallest = min((abs(value) for value in values if not pd.isna(value) and value), default=1.0)
    return fixed_decimals(min(3, max(0, 2 - math.floor(math.log10(smallest)))))


def three_digits(value: float) -> str:
    """Return a number as text with three significant digits, NaN as a dash.

    Numbers from 1000 on keep all their integer digits; numbers below 0.1 have three decimals.
    """
    return shared_decimals([value])(value)


def signed_percent(value: float) -> str:
    """Return a relative error in percent as text with its sign, such as ``+1.5``; NaN as a dash."""
    text = fixed_decimals(1)(value).replace("-", "−")
    return f"+{text}" if round(value, 1) > 0 else text


def interval_format(formatter: Callable[[float], str]) -> Callable[[float, float], str]:
    """Return a formatter that prints an interval as ``low–high``, NaN as a dash.

    If both ends are equal as printed, one number is printed.
    """
    return lambda low, high: "–".join(dict.fromkeys((formatter(low), formatter(high))))


def interval_decimals(digits: int) -> Callable[[float, float], str]:
    """Return a formatter that prints an interval with `digits` decimals, see `interval_format`."""
    return interval_format(fixed_decimals(digits))


def sort_rows(rows: pd.DataFrame, by: Sequence[str], **orders: Sequence[str]) -> pd.DataFrame:
    """Return rows sorted by some columns, with drives in the order in which they first appear.

    Args:
        rows: Any table with the column drive.
        by: The columns to sort by.
        orders: For a column, its values in the wanted order.
    """
    places = {"drive": list(dict.fromkeys(rows["drive"])), **orders}

    def place(column: pd.Series) -> pd.Series:
        return column.map(list(places[column.name]).index) if column.name in places else column

    return rows.sort_values(list(by), key=place, kind="stable", ignore_index=True)


def block_label(size_bytes: int) -> str:
    """Return a block size as text with a unit: ``4 KiB`` for 4096."""
    text = format_size(size_bytes)
    return f"{text[:-1]} {text[-1].upper()}iB" if text[-1].isalpha() else f"{text} B"


def printed_frame(table: Table) -> pd.DataFrame:
    """Return the printed texts of a table, with spanner, label and unit as column levels."""
    frame = pd.DataFrame(dict(enumerate(_texts(table, column) for column in table.columns)))
    frame.columns = pd.MultiIndex.from_tuples(
        [(column.spanner, column.label, _unit_text(column.unit)) for column in table.columns]
    )
    return frame


def write_table(table: Table, stem: Path) -> None:
    """Write ``stem.csv`` (all data), ``stem.tex`` and ``stem.typ``; create folders as needed.

    Equal tables give equal bytes.
    """
    for suffix, text in (("csv", to_csv(table)), ("tex", to_latex(table)), ("typ", to_typst(table))):
        files.write_text(Path(f"{stem}.{suffix}"), text)


def write_numbers(numbers: Mapping[str, Any], path: Path) -> Path:
    """Write numbers as JSON with sorted keys, and return `path`.

    Floats are rounded to `SIGNIFICANT_DIGITS`; NaN becomes null.

    Raises:
        TableError: A value has a type that JSON does not have.
    """
    files.write_json(path, _json_value(numbers))
    return path


def to_csv(table: Table) -> str:
    """Return the data of a table as CSV, with floats rounded to `SIGNIFICANT_DIGITS`."""
    text: str = table.data.to_csv(index=False, lineterminator="\n", float_format=f"%.{SIGNIFICANT_DIGITS}g")
    return text


def to_text(table: Table) -> str:
    """Return the printed columns of a table as text for a terminal."""
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
    """Return a table as a LaTeX ``tabular``, which needs only the package booktabs."""
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
    """Return typst source of a ``table`` with rules as in booktabs, for ``include``.

    pandas' ``Styler.to_typst`` cannot be used: it has no rules, alignment or spanners, and does not escape markup.
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
    """Return the printed text of a column in each row."""
    rows = table.data[list(column.names)].itertuples(index=False, name=None)
    texts = [column.formatter(*row) for row in rows]
    if not column.hide_repeats:
        return texts
    starts = {0, *_group_starts(table)}
    return ["" if number not in starts and text == texts[number - 1] else text for number, text in enumerate(texts)]


def _group_starts(table: Table) -> list[int]:
    """Return the row numbers, counted from 0, at which a group other than the first begins."""
    groups = list(table.data[table.group])
    return [number for number in range(1, len(groups)) if groups[number] != groups[number - 1]]


def _spanners(table: Table) -> list[tuple[str, int, int]]:
    """Return each spanner with the numbers of its first column and of the column after its last."""
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
    """Return a value with types that JSON has; see `write_numbers`."""
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
