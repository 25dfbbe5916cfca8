"""What a statistic is held against: a bound, a published number, a margin around 1, or outcomes."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pandas as pd

from iopatterns.analysis.quantities import Quantity
from iopatterns.analysis.statistics import EQUIVALENCE_ALPHA, equivalence_of
from iopatterns.base.yaml_schema import nearest
from iopatterns.judging.checks.estimates import Estimate, Observed
from iopatterns.judging.checks.findings import (
    DEVIATES,
    REPRODUCED,
    TOLERANCE,
    UNDECIDED,
    WITHIN,
    ClaimsError,
    Part,
    error_of,
    of_error,
)


class How(NamedTuple):
    """How intervals are made: their confidence, method and seed."""

    confidence: float
    method: str
    seed: int


@dataclass(frozen=True)
class Expectation(ABC):
    """What a check expects of its statistic."""

    key: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, check: Mapping[str, Any], measure: Quantity | None, published: pd.DataFrame) -> "Expectation":
        """Return what a check expects of a statistic in the unit of ``measure``. Raises ClaimsError.

        ``published``: as ``published.load`` returns it.
        """

    @abstractmethod
    def part(self, label: str, found: Estimate | Observed, how: How) -> Part:
        """Return how a statistic came out. Raises ZeroDivisionError or StatisticsError."""

    @abstractmethod
    def describe(self, unit: str) -> str:
        """Return what is expected in words; ``unit`` is that of the statistic, with a space before it."""

    @property
    def published_id(self) -> str | None:
        """The id of the published value that the statistic is held against, if any."""
        return None

    def compared(self, _value: float | str) -> float | str | None:
        """Return what stands beside the published value that the statistic should equal, in its unit; None if none."""
        return None


@dataclass(frozen=True)
class Number:
    """A number that a statistic is held against, in the statistic's unit.

    A published one has an ``id``; one of the unit that it was published in is ``unit`` of the statistic's.
    """

    value: float
    id: str | None = None
    unit: float = 1.0

    @classmethod
    def parse(cls, given: float | str, measure: Quantity | None, published: pd.DataFrame) -> "Number":
        """Return a number that is given itself, or by the id of a published value. Raises ClaimsError."""
        if not isinstance(given, str):
            return cls(float(given))
        if given not in set(published["id"]):
            raise ClaimsError(f"no published value has the id '{given}'.{nearest(given, published['id'])}")
        row = published[published["id"] == given].iloc[0]
        unit = 1.0 if measure is None else measure.from_unit(str(row["unit"]))
        if unit is None:
            assert measure is not None
            raise ClaimsError(
                f"'{given}' was published in '{row['unit']}', what is held against it is in {measure.unit}"
            )
        return cls(float(row["value"]) * unit, given, unit)


@dataclass(frozen=True)
class Against(Expectation):
    """A number, which may be missed by a share of it; ``tolerance`` is None where the check says nothing of it."""

    number: Number
    tolerance: float | None
    symbol: ClassVar[str]

    @classmethod
    def parse(cls, check: Mapping[str, Any], measure: Quantity | None, published: pd.DataFrame) -> "Against":
        """Return the number under the key. Raises ClaimsError."""
        return cls(Number.parse(check[cls.key], measure, published), check.get("tolerance"))

    def describe(self, unit: str) -> str:
        """Return the number with its unit and tolerance."""
        text = f"{self.symbol} {self.number.value:g}{unit}"
        return text if self.tolerance is None else f"{text}, tolerance {100 * self.tolerance:g} %"

    @property
    def published_id(self) -> str | None:
        """The id of the published number."""
        return self.number.id


@dataclass(frozen=True)
class AtMost(Against):
    """A bound from above; the whole interval must lie on its right side."""

    key = "at_most"
    symbol = "≤"
    sign: ClassVar[float] = 1.0

    def part(self, label: str, found: Estimate | Observed, how: How) -> Part:
        """Judge by the whole interval, or by the value alone where one execution gives none."""
        assert isinstance(found, Estimate)
        value = found.value()
        low, high, _ = found.interval(*how)
        low_used, high_used = (value, value) if math.isnan(low) else (low, high)
        bound = self.number.value
        # far from the bound on the wrong side is positive; an interval's ends by how bad they are
        worst, best = sorted((self.sign * (high_used - bound), self.sign * (low_used - bound)), reverse=True)
        slack = (self.tolerance or 0.0) * abs(bound) + 1e-9 * abs(bound)
        status = (
            REPRODUCED
            if worst <= 1e-9 * abs(bound)
            else WITHIN
            if worst <= slack
            else DEVIATES
            if best > slack
            else UNDECIDED
        )
        return Part(label, value, low, high, status, max(0.0, self.sign * (value - bound) / (abs(bound) or 1.0)))


@dataclass(frozen=True)
class AtLeast(AtMost):
    """A bound from below, likewise."""

    key = "at_least"
    symbol = "≥"
    sign = -1.0


@dataclass(frozen=True)
class Equals(Against):
    """A published number that the value should be, up to a relative error."""

    key = "equals"
    symbol = "="

    def part(self, label: str, found: Estimate | Observed, how: How) -> Part:
        """Judge by the value."""
        assert isinstance(found, Estimate)
        value = found.value()
        low, high, _ = found.interval(*how)
        error = error_of(value, self.number.value)
        tolerance = TOLERANCE if self.tolerance is None else self.tolerance
        return Part(label, value, low, high, of_error(error, tolerance), abs(error))

    def compared(self, value: float | str) -> float | str | None:
        """Return the value in the unit in which the number was published."""
        return value if isinstance(value, str) else value / self.number.unit


@dataclass(frozen=True)
class Within(Expectation):
    """A margin around 1, shown by a test of equivalence."""

    key = "within"
    share: float

    @classmethod
    def parse(cls, check: Mapping[str, Any], _measure: Quantity | None, _published: pd.DataFrame) -> "Within":
        """Return the margin."""
        return cls(check[cls.key])

    def part(self, label: str, found: Estimate | Observed, how: How) -> Part:
        """Judge by two one-sided tests."""
        assert isinstance(found, Estimate)
        value = found.value()
        test = equivalence_of(found.interval(1 - 2 * EQUIVALENCE_ALPHA, "t", how.seed), self.share)
        margin = 1 + self.share
        off = max(value / margin, 1 / (value * margin)) - 1 if value > 0 else math.inf
        status = {"equivalent": REPRODUCED, "undecided": UNDECIDED}.get(test.verdict)
        status = status or (DEVIATES if test.high < 1 / margin or test.low > margin else UNDECIDED)
        return Part(label, value, test.low, test.high, status, max(off, 0.0))

    def describe(self, _unit: str) -> str:
        """Return the margin in percent."""
        return f"1 ± {100 * self.share:g} % (equivalence)"


@dataclass(frozen=True)
class Is(Expectation):
    """The outcomes that bear a claim about a setting out."""

    key = "is"
    outcomes: tuple[str, ...]

    @classmethod
    def parse(cls, check: Mapping[str, Any], _measure: Quantity | None, _published: pd.DataFrame) -> "Is":
        """Return the outcomes."""
        return cls(tuple(check[cls.key]))

    def part(self, label: str, found: Estimate | Observed, _how: How) -> Part:
        """Judge an outcome by whether it is one of these."""
        assert isinstance(found, Observed)
        status = REPRODUCED if found.outcome in self.outcomes else DEVIATES
        return Part(label, found.outcome, math.nan, math.nan, status, 0.0)

    def describe(self, _unit: str) -> str:
        """Return the outcomes."""
        return " or ".join(self.outcomes)


EXPECTATIONS: dict[str, type[Expectation]] = {kind.key: kind for kind in (AtMost, AtLeast, Equals, Within, Is)}
