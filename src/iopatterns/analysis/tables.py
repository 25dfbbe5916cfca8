"""Writes finished tables as CSV, LaTeX and typst, and the numbers of a report's text as JSON."""

import json
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
NO_VALUE = "–"  # printed where there is no value
# How many digits a number has in CSV and JSON files. There are too few for the last ones, which differ between
# processors, and enough that rounding such a number once more for print gives the same as rounding the number itself.
# With six digits, 1.044997 became 1.045 in the file, and 1.05 in the text beside 1.04 in a table.
SIGNIFICANT_DIGITS = 12


class TableError(IoPatternsError):
    """A table or a file of numbers cannot be made from what was given."""


@dataclass(frozen=True)
class Column:
    """One printed column: the data columns it shows, how, and its head.

    ``formatter`` takes the values of ``names`` in one row and returns the printed text. Columns side by side with
    the same ``spanner`` share that as a head above theirs. ``hide_repeats`` leaves out a text that repeats the one above
    it.
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
    """``data`` at full precision with units in its column names, and the ``columns`` of it that are printed.

    Rows that follow each other with the same value of ``group`` stand together; a space parts them from the
    next.
    """

    data: pd.DataFrame
    columns: tuple[Column, ...]
    group: str

    def __post_init__(self) -> None:
        """Raise TableError if a column is to be printed that the data do not have, or if there is no row."""
        wanted = {self.group, *(name for column in self.columns for name in column.names)}
        missing = sorted(wanted - set(self.data.columns))
        if missing:
            raise TableError(f"the table has no column {', '.join(missing)}, only {', '.join(self.data.columns)}")
        if self.data.empty:
            raise TableError("the table has no rows")


def fixed_decimals(digits: int) -> Callable[[float], str]:
    """Return a form that prints a number with so many decimals, and a dash for none."""
    return lambda value: NO_VALUE if pd.isna(value) else f"{value:.{digits}f}"


def shared_decimals(values: Iterable[float]) -> Callable[[float], str]:
    """Return a form that prints numbers of one column with so many decimals as its smallest needs for three digits.

    Never more than three decimals; from 100 on none.
    """
    smallest = min((abs(value) for value in values if not pd.isna(value) and value), default=1.0)
    digits = min(3, max(0, 2 - math.floor(math.log10(smallest))))
    return fixed_decimals(digits)


def three_digits(value: float) -> str:
    """Print a number with three significant digits, or all of its whole ones; a dash for none."""
    return NO_VALUE if pd.isna(value) else shared_decimals([value])(value)


def interval_decimals(digits: int) -> Callable[[float, float], str]:
    """Return a form that prints an interval as ``low–high``, and a dash for none."""
    return lambda low, high: NO_VALUE if pd.isna(low) else f"{low:.{digits}f}–{high:.{digits}f}"


def sort_rows(rows: pd.DataFrame, by: Sequence[str], **orders: Sequence[str]) -> pd.DataFrame:
    """Return rows sorted by some columns, drives in the order in which they first appear.

    Args:
        rows: Any table with the column drive.
        by: The columns to sort by.
        orders: By column, its values in the order that they are to have.
    """
    places = {"drive": list(dict.fromkeys(rows["drive"])), **orders}

    def place(column: pd.Series) -> pd.Series:
        return column.map(list(places[column.name]).index) if column.name in places else column

    return rows.sort_values(list(by), key=place, kind="stable", ignore_index=True)


def block_label(size_bytes: int) -> str:
    """Return a block size as it is printed: 4096 is ``4 KiB``."""
    text = format_size(size_bytes)
    return f"{text[:-1]} {text[-1].upper()}iB" if text[-1].isalpha() else f"{text} B"


def printed_frame(table: Table) -> pd.DataFrame:
    """Return the table as it is printed: strings, under heads of three levels (above, head, unit)."""
    columns = [_texts(table, column) for column in table.columns]
    heads = [(column.spanner, column.label, _unit(column)) for column in table.columns]
    frame = pd.DataFrame(dict(enumerate(columns)))
    frame.columns = pd.MultiIndex.from_tuples(heads)
    return frame


def write_table(table: Table, stem: Path | str) -> tuple[Path, Path, Path]:
    """Write ``stem``.csv (all data), ``stem``.tex and ``stem``.typ; return the paths.

    The same table gives the same bytes. The LaTeX is a ``tabular`` that needs booktabs alone; the typst file
    is to be included and gives a ``table``. Folders are made as needed.
    """
    texts = {".csv": to_csv(table), ".tex": to_latex(table), ".typ": to_typst(table)}
    csv, tex, typ = (_write(Path(f"{stem}{suffix}"), text) for suffix, text in texts.items())
    return csv, tex, typ


def write_numbers(numbers: Mapping[str, Any], path: Path | str) -> Path:
    """Write numbers as JSON with sorted keys, floats rounded to twelve significant digits, NaN as null."""
    text = json.dumps(_plain(numbers), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False)
    return _write(Path(path), text + "\n")


def to_csv(table: Table) -> str:
    """Return the table's data as CSV, floats with twelve significant digits: the same on every processor."""
    text: str = table.data.to_csv(index=False, lineterminator="\n", float_format=f"%.{SIGNIFICANT_DIGITS}g")
    return text


def to_text(table: Table) -> str:
    """Return the table as it is printed, for a terminal: heads, a rule, and columns side by side."""
    columns = []
    for column, texts in zip(table.columns, (_texts(table, column) for column in table.columns), strict=True):
        over, _, unit = column.spanner.partition(" (")
        # a head above heads is said once for each column, its unit below all
        heads = [over, column.label, _unit(column) or (f"({unit}" if unit else "")]
        width = max(map(len, [*heads, *texts]))
        columns.append([text.rjust(width) if column.align_right else text.ljust(width) for text in [*heads, *texts]])
    lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
    heads, rows = [line for line in lines[:3] if line.strip()], lines[3:]
    return "\n".join([*heads, "─" * max(map(len, lines)), *rows])


def to_latex(table: Table) -> str:
    """Return the table as a LaTeX ``tabular`` with the rules of booktabs."""
    frame = printed_frame(table)
    if not any(column.unit for column in table.columns):
        frame.columns = pd.MultiIndex.from_tuples([(column.spanner, column.label) for column in table.columns])
    style = frame.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis="columns")
    layout = "".join("r" if column.align_right else "l" for column in table.columns)
    lines = style.to_latex(hrules=True, column_format=layout, multicol_align="c").splitlines()
    rules = " ".join(f"\\cmidrule(lr){{{first + 1}-{last}}}" for _, first, last in _spans(table))
    head, body = lines[: lines.index("\\midrule") + 1], lines[lines.index("\\midrule") + 1 :]
    if rules:
        head.insert(head.index("\\toprule") + 2, rules)
    else:
        del head[head.index("\\toprule") + 1]  # the level of heads above heads, all of it empty
    for row in reversed(_starts(table)):
        body.insert(row, "\\addlinespace")
    return "\n".join(["% Needs \\usepackage{booktabs}", *head, *body]) + "\n"


def to_typst(table: Table) -> str:
    """Return typst source that gives a ``table`` with the rules of booktabs, for ``include``.

    Not by pandas' ``Styler.to_typst``: it has neither rules, alignment nor heads over several columns, and does not
    escape what typst reads as markup.
    """
    count = len(table.columns)
    align = ", ".join("right" if column.align_right else "left" for column in table.columns)
    lines = [
        "#table(",
        f"  columns: {count},",
        f"  align: ({align},),",
        "  column-gutter: 0.4em,",  # parts the rules below heads that stand side by side
        "  stroke: none,",
        "  table.hline(stroke: 0.08em),",
        "  table.header(",
    ]
    spans = _spans(table)
    if spans:
        lines.append(f"    {_over_cells(table, spans)},")
        lines += [f"    table.hline(start: {first}, end: {last}, stroke: 0.03em)," for _, first, last in spans]
    lines.append(f"    {', '.join(_string(column.label) for column in table.columns)},")
    if any(column.unit for column in table.columns):
        lines.append(f"    {', '.join(_string(_unit(column)) for column in table.columns)},")
    lines += ["  ),", "  table.hline(stroke: 0.05em),"]
    starts = _starts(table)
    for number, row in enumerate(printed_frame(table).itertuples(index=False, name=None)):
        if number in starts:
            lines.append("  table.hline(stroke: 0.03em),")
        lines.append(f"  {', '.join(_string(text) for text in row)},")
    return "\n".join([*lines, "  table.hline(stroke: 0.08em),", ")"]) + "\n"


def _texts(table: Table, column: Column) -> list[str]:
    rows = table.data[list(column.names)].itertuples(index=False, name=None)
    texts = [column.formatter(*row) for row in rows]
    if not column.hide_repeats:
        return texts
    starts = _starts(table)
    return [
        "" if number and number not in starts and text == texts[number - 1] else text
        for number, text in enumerate(texts)
    ]


def _starts(table: Table) -> list[int]:
    """Return the numbers of the rows, counted from 0, with which a group other than the first begins."""
    groups = list(table.data[table.group])
    return [number for number in range(1, len(groups)) if groups[number] != groups[number - 1]]


def _spans(table: Table) -> list[tuple[str, int, int]]:
    """Return (text, first column, column after the last) of each head that stands above others."""
    spans, first = [], 0
    for over, columns in groupby(table.columns, key=lambda column: column.spanner):
        after = first + len(list(columns))
        if over:
            spans.append((over, first, after))
        first = after
    return spans


def _over_cells(table: Table, spans: list[tuple[str, int, int]]) -> str:
    cells, at = [], 0
    for text, first, after in spans:
        cells += ['""'] * (first - at)
        cells.append(f"table.cell(colspan: {after - first}, align: center, {_string(text)})")
        at = after
    return ", ".join(cells + ['""'] * (len(table.columns) - at))


def _unit(column: Column) -> str:
    return f"({column.unit})" if column.unit else ""


def _string(text: str) -> str:
    """Return a typst string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(value: Any) -> Any:
    """Return ``value`` as JSON knows it: no numpy, no NaN, floats rounded."""
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if value is pd.NA:
        return None
    if hasattr(value, "item"):
        return _plain(value.item())
    if isinstance(value, float):
        return float(f"{value:.{SIGNIFICANT_DIGITS}g}") if math.isfinite(value) else None
    if value is None or isinstance(value, str | int):
        return value
    raise TableError(f"{value!r} of type {type(value).__name__} is nothing that JSON holds")


def _write(path: Path, text: str) -> Path:
    files.write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
    return path
