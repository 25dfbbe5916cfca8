"""Load and check the values and drives that a study's source published.

The files are ``data/published/<study>/values.csv`` and ``drives.csv``. They were copied by hand from the source.
"""

import re
from pathlib import Path

import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.base.messages import printable
from iopatterns.base.units import parse_size
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.configuration import factors
from iopatterns.configuration.sources import DRIVE_COLUMNS, VALUE_COLUMNS, PublishedError, read_published_table

_WORKLOADS = tuple(map(str, factors.find_factor("rw").choices))
_RELATIONS = ("=", "<", "<=", ">", ">=", "~")
_REQUIRED = ("id", "place", "quantity", "relation", "value", "quote")
# Small numbers that a source may print as a word
_WORDS = {"1": ("one", "single"), "2": ("two", "twice"), "3": ("three",), "4": ("four",), "10": ("ten",)}


def load_values(folder: Path | str) -> pd.DataFrame:
    """Return the numbers that the source of a study published.

    Args:
        folder: The study's folder of published data, such as ``data/published/saif2020``, with the file ``values.csv``.
            If the folder does not exist, there are no values.

    Returns:
        A row per value, in the order of the file. ``data/published/README.md`` explains the columns: id, place (in the
        source), quantity, drive (as printed), drive_key (the drive's name in this project), rw (fio's name of the
        workload), bs (block size), experiment, conditions, relation, value, unit and quote. They are text ("" for an
        empty field), except value, which is a float in the unit of the column unit. Two columns are added:

        - printed: the digits of the value as the source prints them
        - bs_bytes: the block size in bytes, a nullable integer

    Raises:
        PublishedError: The file is missing, or a row is not valid. The message has the file and the line.
    """
    path = Path(folder) / "values.csv"
    rows = read_published_table(path, VALUE_COLUMNS) if path.parent.exists() else []
    lines: dict[str, int] = {}
    for line, row in rows:
        where = f"{path}, line {line}"
        _check_row(row, where)
        first = lines.setdefault(row["id"], line)
        if first != line:
            raise PublishedError(f"{where}: line {first} already has the id {row['id']!r}")
    table = pd.DataFrame([row for _, row in rows], columns=list(VALUE_COLUMNS))
    table["printed"] = table["value"]
    table["value"] = table["value"].astype("float64")
    table[factors.column_of("bs")] = pd.array([parse_size(bs) if bs else None for bs in table["bs"]], dtype="Int64")
    return table


def load_source_drives(folder: Path | str) -> pd.DataFrame:
    """Return the drives that the source of a study describes.

    Args:
        folder: The study's folder of published data, such as ``data/published/saif2020``, with the file ``drives.csv``.
            If the folder does not exist, there are no drives.

    Returns:
        A row per drive, all as text. Columns: table (the number of the table in the source; "" without a number), drive
        (the name as printed), drive_key (the drive's name in this project), and all other columns of the file.

    Raises:
        PublishedError: The file is missing or not valid. The message has the file and, if known, the line.
    """
    if not Path(folder).exists():
        return pd.DataFrame(columns=list(DRIVE_COLUMNS), dtype="object")
    return pd.DataFrame([row for _, row in read_published_table(Path(folder) / "drives.csv", DRIVE_COLUMNS, more=True)])


def parse_conditions(text: str) -> dict[str, int | str]:
    """Return the conditions of a published value: the level of each factor, by name.

    A factor is a fio option or a drive setting that a study varies. For example, the text ``numjobs=16; offset=1k``
    gives ``{"numjobs": 16, "offset": "1k"}``. Levels of decimal digits become integers, other levels stay text.

    Args:
        text: The column conditions of ``values.csv``; "" gives an empty dictionary.
    """
    pairs = (part.partition("=") for part in text.split(";") if part.strip())
    levels = {name.strip(): level.strip() for name, _, level in pairs}
    return {name: int(level) if level.isdecimal() else level for name, level in levels.items()}


def _check_row(row: dict[str, str], where: str) -> None:
    """Raise PublishedError unless a row of ``values.csv`` is valid.

    Args:
        row: The fields by column, as text.
        where: File and line, with which the message begins.
    """
    for name in _REQUIRED:
        if not row[name]:
            raise PublishedError(f"{where}: {name} is empty")
    _check_choice(row["relation"], _RELATIONS, f"{where}: relation")
    if row["rw"]:
        _check_choice(row["rw"], _WORKLOADS, f"{where}: rw")
    if bool(row["drive"]) != bool(row["drive_key"]):
        raise PublishedError(f"{where}: give both drive and drive_key, or neither")
    if not re.fullmatch(r"[0-9]{1,20}(\.[0-9]{1,20})?", row["value"]):
        raise PublishedError(f"{where}: value '{printable(row['value'])}' is not a number such as 172 or 43.2")
    if not any(text in row["quote"].lower() for text in (row["value"], *_WORDS.get(row["value"], ()))):
        quote = printable(row["quote"])
        raise PublishedError(f"{where}: the quote '{quote}' does not contain the value {row['value']}")
    if row["bs"]:
        try:
            parse_size(row["bs"])
        except ValueError as error:
            raise PublishedError(f"{where}: bs: {error}") from None
    for factor, level in parse_conditions(row["conditions"]).items():
        if not factor or level == "":
            given = printable(row["conditions"])
            raise PublishedError(f"{where}: conditions '{given}' are not levels such as 'numjobs=16; DRA=1'")
        if row["experiment"]:
            _check_level(factor, level, f"{where}: conditions")
    if row["experiment"]:
        _check_quantity(row["quantity"], row["unit"], where)


def _check_level(factor: str, level: int | str, where: str) -> None:
    """Raise PublishedError unless a factor exists and can have the level.

    Args:
        factor: Name of the factor, such as numjobs.
        level: The level.
        where: File and line, with which the message begins.
    """
    try:
        factors.find_factor(factor).read(level)
    except factors.FactorError as error:
        raise PublishedError(f"{where}: {error}") from None
    except ValueError as error:
        raise PublishedError(f"{where}: {factor}: {error}") from None


def _check_quantity(name: str, unit: str, where: str) -> None:
    """Raise PublishedError unless experiments can measure a quantity in a unit.

    Args:
        name: Name of the quantity, such as ``bandwidth``.
        unit: The unit, as printed in the source.
        where: File and line, with which the message begins.
    """
    try:
        quantity = quantities.get_quantity(name)
    except quantities.QuantityError as error:
        raise PublishedError(f"{where}: quantity: {error}; or leave experiment empty") from None
    if quantity.from_unit(unit) is None:
        raise PublishedError(f"{where}: unit: {name} can be in {' or '.join(quantity.units)}, not in '{unit}'")


def _check_choice(value: str, valid: tuple[str, ...], where: str) -> None:
    if value not in valid:
        hint = did_you_mean(value, valid) or f" Valid are {', '.join(valid)}."
        raise PublishedError(f"{where} '{printable(value)}' is unknown.{hint}")
