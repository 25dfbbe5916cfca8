"""Loads the values that a source published, and refuses a transcription that cannot be right."""

import re
from difflib import get_close_matches
from pathlib import Path

import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.base.messages import printable
from iopatterns.base.units import parse_size
from iopatterns.configuration import factors
from iopatterns.configuration.sources import DRIVE_COLUMNS, VALUE_COLUMNS, PublishedError, read_published_table

_WORKLOADS = tuple(map(str, factors.find_factor("rw").choices))
_RELATIONS = ("=", "<", "<=", ">", ">=", "~")
_REQUIRED = ("id", "place", "quantity", "relation", "value", "quote")
# Small numbers that a source may print as a word
_WORDS = {"1": ("one", "single"), "2": ("two", "twice"), "3": ("three",), "4": ("four",), "10": ("ten",)}


def load_values(folder: Path | str) -> pd.DataFrame:
    """Return the published values of one study.

    ``folder`` holds ``values.csv`` (``data/published/README.md`` explains its columns); where there is no such folder,
    there are no values. One row per value, in the order of the file, with the columns of the file as strings ("" where
    the file has nothing), but ``value`` is a float in ``unit``, and two more: ``printed`` (the digits as printed) and
    ``bs_bytes`` (nullable integer, bytes). Raises PublishedError naming file and line.
    """
    path = Path(folder) / "values.csv"
    rows = read_published_table(path, VALUE_COLUMNS) if path.parent.exists() else []
    seen: dict[str, int] = {}
    for line, row in rows:
        where = f"{path}, line {line}"
        _check(row, where)
        if row["id"] in seen:
            raise PublishedError(f"{where}: id {row['id']!r} is already that of line {seen[row['id']]}")
        seen[row["id"]] = line
    table = pd.DataFrame([row for _, row in rows], columns=list(VALUE_COLUMNS))
    table["printed"] = table["value"]
    table["value"] = table["value"].astype("float64")
    table[factors.column_of("bs")] = pd.array([parse_size(bs) if bs else None for bs in table["bs"]], dtype="Int64")
    return table


def load_source_drives(folder: Path | str) -> pd.DataFrame:
    """Return the drives that a study's source describes: ``drives.csv``, all columns as printed there.

    Columns: table (its number in the source), drive, drive_key, and those that the file has besides. A study without
    such a folder has none. Raises PublishedError.
    """
    if not Path(folder).exists():
        return pd.DataFrame(columns=list(DRIVE_COLUMNS), dtype="object")
    return pd.DataFrame([row for _, row in read_published_table(Path(folder) / "drives.csv", DRIVE_COLUMNS, more=True)])


def parse_conditions(text: str) -> dict[str, int | str]:
    """Return the levels that a value's conditions name, by factor: ``numjobs=16; offset=1k; DRA=1``."""
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    levels = {name.strip(): level.strip() for name, _, level in pairs}
    return {name: int(level) if level.isdecimal() else level for name, level in levels.items()}


def _check(row: dict[str, str], where: str) -> None:
    for name in _REQUIRED:
        if not row[name]:
            raise PublishedError(f"{where}: {name} is empty")
    _check_choice(row["relation"], _RELATIONS, f"{where}: relation")
    if row["rw"]:
        _check_choice(row["rw"], _WORKLOADS, f"{where}: rw")
    if bool(row["drive"]) != bool(row["drive_key"]):
        raise PublishedError(f"{where}: drive and drive_key must both be given, or neither")
    if not re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?", row["value"]):
        raise PublishedError(f"{where}: value '{printable(row['value'])}' is no number such as 172 or 43.2")
    printed = (row["value"], *_WORDS.get(row["value"], ()))
    if not any(text in row["quote"].lower() for text in printed):
        quote = printable(row["quote"])
        raise PublishedError(f"{where}: the quote '{quote}' does not contain the value {row['value']}")
    if row["bs"]:
        try:
            parse_size(row["bs"])
        except ValueError as error:
            raise PublishedError(f"{where}: bs: {error}") from None
    for factor, level in parse_conditions(row["conditions"]).items():
        if not factor or level == "":
            shown = printable(row["conditions"])
            raise PublishedError(f"{where}: conditions '{shown}' are no levels such as 'numjobs=16; DRA=1'")
        if row["experiment"]:
            _check_level(factor, level, f"{where}: conditions")
    if row["experiment"]:
        _check_quantity(row["quantity"], row["unit"], where)


def _check_level(factor: str, level: int | str, where: str) -> None:
    """Raise PublishedError unless a factor of that name can have that level."""
    try:
        factors.find_factor(factor).read(level)
    except factors.FactorError as error:
        raise PublishedError(f"{where}: {error}") from None
    except ValueError as error:
        raise PublishedError(f"{where}: {factor}: {error}") from None


def _check_quantity(quantity: str, unit: str, where: str) -> None:
    """Raise PublishedError unless an experiment can measure a quantity in that unit."""
    try:
        measure = quantities.get_quantity(quantity)
    except quantities.QuantityError as error:
        raise PublishedError(f"{where}: quantity: {error}; or leave experiment empty") from None
    if measure.from_unit(unit) is None:
        raise PublishedError(f"{where}: unit: {quantity} is in {' or '.join(measure.units)}, not in '{unit}'")


def _check_choice(value: str, valid: tuple[str, ...], where: str) -> None:
    if value not in valid:
        nearest = get_close_matches(value, valid, n=1, cutoff=0.5)
        hint = f"did you mean {nearest[0]!r}?" if nearest else f"valid are {', '.join(valid)}"
        raise PublishedError(f"{where} '{printable(value)}' is unknown; {hint}")
