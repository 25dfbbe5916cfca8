"""Writes finished tables as CSV, LaTeX and typst, and the numbers of a report's text as JSON."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns import files
from iopatterns.errors import IoPatternsError
from iopatterns.statistics import random_to_sequential
from iopatterns.units import format_size

WORKLOAD_NAMES = {"read": "Read", "randread": "Rand. read", "write": "Write", "randwrite": "Rand. write"}
NOTHING = "–"  # printed where there is no value
# Of numbers in JSON: fewer than where processors differ, and so many that rounding once more for print gives what
# rounding the number itself gives (with six, 1.044997 became 1.045 here, and 1.05 in the text beside 1.04 in a table).
SIGNIFICANT_DIGITS = 12


class TableError(IoPatternsError):
    """A table or a file of numbers cannot be made from what was given."""


@dataclass(frozen=True)
class Column:
    """One printed column: the data columns it shows, how, and its head.

    ``form`` takes the values of ``names`` in one row and returns the printed text. Columns side by side with
    the same ``over`` share that as a head above theirs. ``once`` leaves out a text that repeats the one above
    it.
    """

    names: tuple[str, ...]
    head: str
    form: Callable[..., str] = str
    unit: str = ""
    over: str = ""
    right: bool = True
    once: bool = False


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


def fixed(digits: int) -> Callable[[float], str]:
    """Return a form that prints a number with so many decimals, and a dash for none."""
    return lambda value: NOTHING if pd.isna(value) else f"{value:.{digits}f}"


def between(digits: int) -> Callable[[float, float], str]:
    """Return a form that prints an interval as ``low–high``, and a dash for none."""
    return lambda low, high: NOTHING if pd.isna(low) else f"{low:.{digits}f}–{high:.{digits}f}"


def block_label(size_bytes: int) -> str:
    """Return a block size as it is printed: 4096 is ``4 KiB``."""
    text = format_size(size_bytes)
    return f"{text[:-1]} {text[-1].upper()}iB" if text[-1].isalpha() else f"{text} B"


def drive_label(key: str) -> str:
    """Return the printed name of a published drive: ``px02ssf020`` is ``PX02SSF020``."""
    return key.upper()


def bandwidth_table(summary: pd.DataFrame, published: pd.DataFrame, workloads: Sequence[str]) -> Table:
    """Return the table of some workloads' bandwidth, measured, with the published drives' beside it.

    ``summary``: columns drive, rw, bs_bytes, executions, mean, low, high (MB/s), cv (a fraction), method,
    confidence and iodepth_reached, as ``statistics.summarise`` makes it from MB/s. ``published``: as
    ``published.load`` returns it, bandwidth in MB/s. One row per drive, workload and block size. Columns of
    the data: drive, rw, bs_bytes, executions, bandwidth_mean_mb_per_s, bandwidth_low_mb_per_s,
    bandwidth_high_mb_per_s, confidence, interval_method, cv_percent, iodepth_reached and
    published_<drive>_mb_per_s; and for a drive that bears the name of a published one, published_mb_per_s (its own
    value), error_percent (of the mean measured against it) and use (fitted or predicted, for a twin; from the
    optional column ``use`` of ``published``).
    """
    wanted = summary[summary["rw"].isin(workloads)]
    if wanted.empty:
        raise TableError(f"no drive was measured with {' or '.join(workloads)}, so that there is no table of it")
    cells = _ordered(wanted, "rw", workloads)
    data = cells[["drive", "rw", "bs_bytes", "executions"]].copy()
    for name in ("mean", "low", "high"):
        data[f"bandwidth_{name}_mb_per_s"] = cells[name]
    data["confidence"], data["interval_method"] = cells["confidence"], cells["method"]
    data["cv_percent"] = (100 * cells["cv"]).round(9)  # what is left of equal values is the noise of arithmetic
    data["iodepth_reached"] = cells["iodepth_reached"]
    values = published[(published["quantity"] == "bandwidth") & published["rw"].isin(workloads)]
    data, own = _own(data, values)
    data, beside = _beside(data, values, ["rw", "bs_bytes"], "value", "published_{}_mb_per_s")
    here = "Measured here"
    columns = (
        Column(("drive",), "Drive", right=False, once=True),
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, right=False, once=True),
        Column(("bs_bytes",), "Block size", block_label),
        Column(("bandwidth_mean_mb_per_s",), "Mean", fixed(1), "MB/s", here),
        Column(
            ("bandwidth_low_mb_per_s", "bandwidth_high_mb_per_s"),
            _interval_head(summary),
            between(1),
            "MB/s",
            here,
        ),
        Column(("cv_percent",), "CV", fixed(1), "%", here),
        Column(("iodepth_reached",), "Depth", fixed(0), "", here),
        *own,
        *(Column((name,), head, _as_published, "MB/s", "Published") for name, head in _others(data, beside)),
    )
    return Table(data, columns, "drive")


def _own(data: pd.DataFrame, values: pd.DataFrame) -> tuple[pd.DataFrame, list[Column]]:
    """Return ``data`` with the values published for the very drives measured, and the columns to print of them."""
    own = values.assign(use=values.get("use", ""))[["drive_key", "rw", "bs_bytes", "value", "use"]]
    own = own.rename(columns={"drive_key": "drive", "value": "published_mb_per_s"}).astype({"bs_bytes": "int64"})
    data = data.merge(own, on=["drive", "rw", "bs_bytes"], how="left", validate="many_to_one")
    data["use"] = data["use"].fillna("")
    data["error_percent"] = 100 * (data["bandwidth_mean_mb_per_s"] / data["published_mb_per_s"] - 1)
    if data["published_mb_per_s"].isna().all():
        return data, []
    columns = [
        Column(("published_mb_per_s",), "Value", _as_published, "MB/s", "Published"),
        Column(("error_percent",), "Error", _signed, "%", "Published"),
    ]
    if data["use"].any():
        columns.append(Column(("use",), "Use", str, right=False, over="Published"))
    return data, columns


def _others(data: pd.DataFrame, beside: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the published drives to show beside: none when each drive measured has its own published values."""
    keys = {head.lower() for _, head in beside}
    return [] if set(data["drive"]) <= keys else beside


def _signed(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:+.1f}".replace("-", "−")


def ratio_table(ratios: pd.DataFrame, published: pd.DataFrame) -> Table:
    """Return the table of random over sequential bandwidth, with those of the published drives beside it.

    ``ratios``: as ``statistics.random_to_sequential`` makes it by drive and bs_bytes; ``published``: as
    ``published.load`` returns it. One row per drive, operation and block size. Columns of the data: drive,
    operation, bs_bytes, random_to_sequential, random_to_sequential_low, random_to_sequential_high,
    confidence, interval_method and published_<drive>_random_to_sequential.
    """
    cells = _ordered(ratios, "operation", ("read", "write"))
    data = cells[["drive", "operation", "bs_bytes"]].copy()
    data["random_to_sequential"] = cells["ratio"]
    data["random_to_sequential_low"], data["random_to_sequential_high"] = cells["low"], cells["high"]
    data["confidence"], data["interval_method"] = cells["confidence"], cells["method"]
    values = random_to_sequential(published[published["quantity"] == "bandwidth"], ["drive_key", "bs_bytes"], "value")
    name = "published_{}_random_to_sequential"
    data, beside = _beside(data, values, ["operation", "bs_bytes"], "ratio", name)
    limits = ("random_to_sequential_low", "random_to_sequential_high")
    columns = (
        Column(("drive",), "Drive", right=False, once=True),
        Column(("operation",), "Operation", str.capitalize, right=False, once=True),
        Column(("bs_bytes",), "Block size", block_label),
        Column(("random_to_sequential",), "Ratio", fixed(2), "", "Measured here"),
        Column(limits, _interval_head(ratios), between(2), "", "Measured here"),
        *(Column((column,), head, fixed(2), "", "Published") for column, head in beside),
    )
    return Table(data, columns, "drive")


def printed(table: Table) -> pd.DataFrame:
    """Return the table as it is printed: strings, under heads of three levels (above, head, unit)."""
    columns = [_texts(table, column) for column in table.columns]
    heads = [(column.over, column.head, _unit(column)) for column in table.columns]
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


def to_latex(table: Table) -> str:
    """Return the table as a LaTeX ``tabular`` with the rules of booktabs."""
    frame = printed(table)
    if not any(column.unit for column in table.columns):
        frame.columns = pd.MultiIndex.from_tuples([(column.over, column.head) for column in table.columns])
    style = frame.style.hide(axis="index").format(escape="latex").format_index(escape="latex", axis="columns")
    layout = "".join("r" if column.right else "l" for column in table.columns)
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
    """Return typst source that gives a ``table`` with the rules of booktabs, for ``include``."""
    count = len(table.columns)
    align = ", ".join("right" if column.right else "left" for column in table.columns)
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
    lines.append(f"    {', '.join(_string(column.head) for column in table.columns)},")
    if any(column.unit for column in table.columns):
        lines.append(f"    {', '.join(_string(_unit(column)) for column in table.columns)},")
    lines += ["  ),", "  table.hline(stroke: 0.05em),"]
    starts = _starts(table)
    for number, row in enumerate(printed(table).itertuples(index=False, name=None)):
        if number in starts:
            lines.append("  table.hline(stroke: 0.03em),")
        lines.append(f"  {', '.join(_string(text) for text in row)},")
    return "\n".join([*lines, "  table.hline(stroke: 0.08em),", ")"]) + "\n"


def _ordered(cells: pd.DataFrame, name: str, order: Sequence[str]) -> pd.DataFrame:
    """Return the rows by drive (as they first appear), then by ``name`` in its ``order``, then block size."""
    drives = list(dict.fromkeys(cells["drive"]))
    keys = pd.DataFrame(
        {
            "drive": cells["drive"].map(drives.index),
            "name": cells[name].map(list(order).index),
            "bs_bytes": cells["bs_bytes"],
        }
    )
    return cells.loc[keys.sort_values(["drive", "name", "bs_bytes"]).index].reset_index(drop=True)


def _beside(
    data: pd.DataFrame, values: pd.DataFrame, by: list[str], value: str, pattern: str
) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return ``data`` with a column per published drive, and the (name, head) of each of these columns."""
    beside = []
    for key in dict.fromkeys(values["drive_key"]):
        name = pattern.format(key)
        drive = values.loc[values["drive_key"] == key, [*by, value]].rename(columns={value: name})
        data = data.merge(drive.astype({"bs_bytes": "int64"}), on=by, how="left", validate="many_to_one")
        beside.append((name, drive_label(key)))
    return data, beside


def _interval_head(summary: pd.DataFrame) -> str:
    levels = sorted(set(summary["confidence"]))
    if len(levels) != 1:
        raise TableError(f"one table has one confidence level, not {len(levels)}")
    return f"{100 * levels[0]:g} % interval"


def _as_published(value: float) -> str:
    return NOTHING if pd.isna(value) else f"{value:g}"


def _texts(table: Table, column: Column) -> list[str]:
    rows = table.data[list(column.names)].itertuples(index=False, name=None)
    texts = [column.form(*row) for row in rows]
    if not column.once:
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
    for over, columns in groupby(table.columns, key=lambda column: column.over):
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
    files.write(path, lambda temporary: temporary.write_text(text, encoding="utf-8", newline="\n"))
    return path
