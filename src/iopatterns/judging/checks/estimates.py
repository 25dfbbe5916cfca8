"""What a statistic computes of groups of executions: a value, and the interval that it lies in."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iopatterns.analysis.statistics import (
    Interval,
    difference_interval,
    function_interval,
    interval,
    product_interval,
)
from iopatterns.judging.formulas import Formula


@dataclass(frozen=True)
class Estimate(ABC):
    """A number computed of ``groups``, an array of values of a quantity each."""

    groups: Sequence[Any]

    @abstractmethod
    def value(self) -> float:
        """Return the number. Raises ZeroDivisionError."""

    @abstractmethod
    def interval(self, confidence: float, method: str, seed: int) -> Interval:
        """Return its confidence interval. Raises ZeroDivisionError or StatisticsError."""


@dataclass(frozen=True)
class Observed:
    """What became of a setting: no number."""

    outcome: str


@dataclass(frozen=True)
class Mean(Estimate):
    """The mean of the one group."""

    def value(self) -> float:
        """Return the mean."""
        return float(self.groups[0].mean())

    def interval(self, confidence: float, method: str, seed: int) -> Interval:
        """Return its interval as the tables have it."""
        return interval(self.groups[0], confidence, method, seed)


@dataclass(frozen=True)
class Difference(Estimate):
    """The mean of the first group minus that of the second."""

    def value(self) -> float:
        """Return the difference."""
        return float(self.groups[0].mean() - self.groups[1].mean())

    def interval(self, confidence: float, _method: str, _seed: int) -> Interval:
        """Return the interval of Welch."""
        return difference_interval(self.groups[0], self.groups[1], confidence)


@dataclass(frozen=True)
class Product(Estimate):
    """The product of the means of the first ``above`` groups over that of the means of the others."""

    above: int

    def value(self) -> float:
        """Return the quotient."""
        over, under = self._sides()
        return math.prod(float(group.mean()) for group in over) / math.prod(float(group.mean()) for group in under)

    def interval(self, confidence: float, method: str, seed: int) -> Interval:
        """Return the interval of the quotient."""
        return product_interval(*self._sides(), confidence, method, seed)

    def _sides(self) -> tuple[list[Any], list[Any]]:
        return list(self.groups[: self.above]), list(self.groups[self.above :])


@dataclass(frozen=True)
class Largest(Estimate):
    """The largest value of the one group: no estimate, so its interval is the value."""

    def value(self) -> float:
        """Return the largest value."""
        return float(self.groups[0].max())

    def interval(self, _confidence: float, _method: str, _seed: int) -> Interval:
        """Return an interval of no width."""
        return Interval(self.value(), self.value(), "none")


@dataclass(frozen=True)
class Computed(Estimate):
    """What a formula comes to for the groups' means, named in their order, and constants."""

    formula: Formula
    names: Sequence[str]
    constants: Mapping[str, float]

    def _at(self, means: Sequence[float]) -> float:
        return self.formula({**self.constants, **dict(zip(self.names, means, strict=True))})

    def value(self) -> float:
        """Return what the formula comes to."""
        return self._at([float(group.mean()) for group in self.groups])

    def interval(self, confidence: float, _method: str, _seed: int) -> Interval:
        """Return the interval of the delta method."""
        return function_interval(self._at, self.groups, confidence)
