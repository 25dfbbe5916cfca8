"""Plausible ranges of the parameters of simulated drives.

A data sheet fixes some parameters of a drive. The other parameters are fitted or assumed, and other values are as
plausible. The table plausible_ranges.yaml has a range for each of them, and a model file may replace a range. Samples
of the ranges show whether a conclusion depends on the chosen values.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from iopatterns.base import yaml_schema
from iopatterns.twin import models
from iopatterns.twin.error import TwinError

_TABLE = Path(__file__).with_name("plausible_ranges.yaml")
# The search of a fit goes from a tenth to ten times a value, and over this many doublings of sizes and counts
_SEARCH_FACTOR, _SEARCH_DOUBLINGS = 10, (-2, 2)
_FIXED_BY_SHEET = "a data sheet or standard states the value"


@dataclass(frozen=True)
class PlausibleRange:
    """The plausible values of a parameter: a list of values, or all values between two.

    Attributes:
        name: The parameter as ``group.name``.
        values: The plausible values in the unit of the simulated drive, if they can be listed; otherwise empty. A
            single value if the parameter is fixed.
        low: The smallest plausible value, if `values` is empty.
        high: The largest plausible value, if `values` is empty.
        because: The reason, in a line.
    """

    name: str
    values: tuple[models.ParameterValue, ...]
    low: float
    high: float
    because: str

    @property
    def is_fixed(self) -> bool:
        """Whether there is only one plausible value."""
        return len(self.values) == 1

    def value_at(self, share: float) -> models.ParameterValue:
        """Return the value at a position in the range.

        Positions are equally far apart by the logarithm of the value, unless the range begins at 0.

        Args:
            share: The position, from 0 (the first or smallest value) to 1.
        """
        if self.values:
            return self.values[min(int(share * len(self.values)), len(self.values) - 1)]
        if self.low > 0:
            value = math.exp(math.log(self.low) + share * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + share * (self.high - self.low)
        if models.declared_parameters()[self.name]["kind"] == "ratio":
            return min(max(_significant(value), self.low), self.high)
        return round(min(max(value, self.low), self.high))

    def share_of(self, value: models.ParameterValue) -> float:
        """Return the position of a value in the range, see `value_at`.

        Raises:
            ValueError: The value is not in the list of values.
        """
        if self.values:
            return (self.values.index(value) + 0.5) / len(self.values)
        number = float(value)
        if self.low > 0:
            return (math.log(number) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))
        return (number - self.low) / (self.high - self.low)

    @property
    def text(self) -> str:
        """The plausible values for people, such as ``10 us to 40 us``; ``fixed`` for a single value."""
        if self.is_fixed:
            return "fixed"
        if self.values:
            return ", ".join(models.format_value(self.name, value) for value in self.values)
        return " to ".join(self.text_of(end) for end in (self.low, self.high))

    def text_of(self, end: float) -> str:
        """Return an end of the range for people, such as ``10 us``.

        Args:
            end: The value of `low` or `high`.
        """
        is_ratio = models.declared_parameters()[self.name]["kind"] == "ratio"
        return f"{end:.4g}" if is_ratio else models.format_value(self.name, round(end))


@cache
def _table() -> Mapping[str, Any]:
    content: Mapping[str, Any] = yaml_schema.read_yaml(_TABLE.parent, _TABLE.name)
    return content


def plausible_range(model: models.Model, name: str) -> PlausibleRange:
    """Return the plausible values of a parameter of a model.

    Args:
        model: The model.
        name: The parameter as ``group.name``, such as ``flash.read_time``.

    Raises:
        TwinError: The model file has an invalid range.
        KeyError: The model has no such parameter.
    """
    value, (provenance, _) = model.values[name], model.sources[name]
    parameter, table = models.declared_parameters()[name], _table()
    kind = parameter["unit"] if parameter["kind"] == "number" else parameter["kind"]
    if provenance == "datasheet":
        return PlausibleRange(name, (value,), 0, 0, _FIXED_BY_SHEET)
    usual = table["fitted"] if provenance == "fitted" else table["parameters"].get(name, table["kinds"][kind])
    found = model.ranges.get(name, usual)
    if found is usual and "choices" in usual and value not in usual["choices"]:
        return PlausibleRange(name, (value,), 0, 0, "a property of the drive's kind")
    try:
        return _parsed(found, name, parameter, value)
    except ValueError as error:
        raise TwinError(f"{model.name}: parameters.{name}.range: {error}") from None


def search_range(model: models.Model, name: str, *, chosen: bool = False) -> PlausibleRange:
    """Return the values of a parameter among which a fit searches.

    A fit begins at the model of another drive, so its range is wider than the plausible values of a model that is known
    to be near. The section ``searched`` of the table has such ranges, also for mechanisms that are switched off. Of
    other parameters, the range is a tenth to ten times the value instead of a factor, and a quarter to four times
    instead of doublings. Ranges of the model file are used as they are.

    Args:
        model: The model with the initial values.
        name: The parameter as ``group.name``, such as ``flash.read_time``.
        chosen: Whether the user chose the parameter. It then has a range even if the table fixes its value.

    Raises:
        TwinError: The model file has an invalid range.
        KeyError: The model has no such parameter.
    """
    value, parameter, table = model.values[name], models.declared_parameters()[name], _table()
    kind = parameter["unit"] if parameter["kind"] == "number" else parameter["kind"]
    usual = table["parameters"].get(name, table["kinds"][kind])
    found = model.ranges.get(name, table["searched"].get(name, usual))
    if found is usual and "factor" in found:
        found = {**found, "factor": _SEARCH_FACTOR}
    elif found is usual and "doublings" in found:
        found = {**found, "doublings": _SEARCH_DOUBLINGS}
    elif "fixed" in found and chosen and not isinstance(value, (bool, str)):
        found = {"factor": _SEARCH_FACTOR, "because": "the user chose the parameter"}
    try:
        if "between" in found and not isinstance(value, (bool, str)):  # a fit may begin outside
            low, high = (float(models.parse_value(parameter, each)) for each in found["between"])
            return PlausibleRange(name, (), min(low, value), max(high, value), str(found["because"]))
        if "choices" in found:  # a fit may begin at another value
            values = [value, *(models.parse_value(parameter, each) for each in found["choices"])]
            ordered = tuple(dict.fromkeys(values if isinstance(value, str) else sorted(values)))
            return PlausibleRange(name, ordered, 0, 0, str(found["because"]))
        return _parsed(found, name, parameter, value)
    except ValueError as error:
        raise TwinError(f"{model.name}: parameters.{name}.range: {error}") from None


def has_search_range(name: str) -> bool:
    """Return whether the table has a range for the fit of a parameter, whatever the provenance of its value.

    Args:
        name: The parameter as ``group.name``.
    """
    return name in _table()["searched"]


def _parsed(found: Mapping[str, Any], name: str, parameter: Any, value: models.ParameterValue) -> PlausibleRange:
    """Return a range of the table or of a model file.

    Args:
        found: The range, which is valid by `models.RANGE_SCHEMA`.
        name: The parameter as ``group.name``.
        parameter: The declaration of the parameter.
        value: The value of the model.

    Raises:
        ValueError: The range does not fit the parameter.
    """
    because = str(found["because"])
    if "choices" in found:
        values = tuple(models.parse_value(parameter, each) for each in found["choices"])
        if value not in values:
            raise ValueError(f"the value {models.format_value(name, value)} is not one of the choices")
        return PlausibleRange(name, values, 0, 0, because)
    if "fixed" in found:
        return PlausibleRange(name, (value,), 0, 0, because)
    if isinstance(value, (bool, str)):
        raise ValueError("only a number can be between two values; give choices")
    if "between" in found:
        low, high = (float(models.parse_value(parameter, each)) for each in found["between"])
    elif "doublings" in found:
        first, last = found["doublings"]
        powers = (value * 2.0**power for power in range(first, last + 1))
        whole = [round(each) for each in powers if each == int(each)]
        values = tuple(each for each in whole if parameter["minimum"] <= each <= parameter["maximum"])
        return PlausibleRange(name, tuple(dict.fromkeys(values)) or (value,), 0, 0, because)
    else:
        low = max(_significant(value / found["factor"]), parameter["minimum"])
        high = min(_significant(value * found["factor"]), parameter["maximum"])
    if not low <= value <= high:
        raise ValueError(f"the value {models.format_value(name, value)} is not in the range")
    return PlausibleRange(name, (value,) if low == high else (), low, high, because)


def _significant(value: float) -> float:
    """Return a number with four significant digits."""
    return float(f"{value:.4g}")


def free_parameters(
    model: models.Model, stated: Mapping[str, Any] | frozenset[str] = frozenset()
) -> list[PlausibleRange]:
    """Return the ranges of the parameters that may have other values.

    Args:
        model: The model.
        stated: The names of further parameters that are fixed, such as the parameters that a study sets.
    """
    found = (plausible_range(model, name) for name in model.values if name not in stated)
    return [each for each in found if not each.is_fixed]


def parameter_rows(model: models.Model) -> list[tuple[str, str, str, str, str, str, str]]:
    """Return the parameters and the mode page of a model as rows of text for people.

    The mode page has the drive's cache settings, such as ``WCE``. The rows of its fields follow the rows of the
    parameters.

    Returns:
        A row of seven texts for each parameter and each field: name (``group.name`` or ``mode_page.FIELD``), value,
        provenance (``datasheet``, ``fitted`` or ``assumed``), source, meaning, the range of plausible values, and the
        reason of the range. If the value was chosen for published statements, the source names the statements. A field
        of the mode page has no range.

    Raises:
        TwinError: The model file has an invalid range.
    """

    def origin(name: str) -> tuple[str, str]:
        provenance, source = model.sources[name]
        chosen = model.chosen_for.get(name)
        return provenance, f"{source}; chosen for {', '.join(chosen)}" if chosen else source

    rows = []
    for name, value in model.values.items():
        plausible = plausible_range(model, name)
        meaning = models.declared_parameters()[name]["text"]
        text = models.format_value(name, value)
        rows.append((name, text, *origin(name), meaning, plausible.text, plausible.because))
    for name, (value, behaviour) in model.mode_page.items():
        full = f"mode_page.{name}"
        rows.append((full, f"{value}, {behaviour}", *origin(full), "field of the caching mode page", "", ""))
    return rows
