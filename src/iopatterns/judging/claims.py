"""Read claims from claims.yaml, and judge them by the measurements.

The way from a claim to its verdict: `load_claims` reads and checks the file. `ClaimChecks.parse` returns the checks of
a claim. Each `ClaimCheck` has a statistic (`check_statistics`) and a criterion. `Judge.results` computes the statistic
and its confidence interval at each combination of levels, and compares it with the criterion (`Criterion.evaluate`).
The claim has the status of its worst part (`worst_status`).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from iopatterns.analysis.quantities import Quantity
from iopatterns.analysis.statistics import EQUIVALENCE_ALPHA, StatisticsError, equivalence_of_interval
from iopatterns.base import yaml_schema
from iopatterns.judging.check_statistics import (
    ALL_LEVELS,
    STATISTICS,
    CachedExecutions,
    ClaimsError,
    Estimate,
    FormulaValue,
    Growth,
    IntervalMethod,
    ObservedOutcome,
    Ratio,
    SettingOutcome,
    Statistic,
    listed_levels,
)
from iopatterns.raw.tuning_steps import TuningRecords

CLAIMS_SCHEMA = "workflow/schemas/claims.schema.yaml"

REPRODUCED = "reproduced"
WITHIN_TOLERANCE = "within tolerance"
NOT_REPRODUCED = "not reproduced"
UNDECIDED = "undecided"  # the confidence interval contains the bound; more repetitions would decide
CONTRADICTED = "contradicted by the source itself"
UNTESTABLE = "not testable here"
# The statuses of claims that are counted as reproduced
COUNT_AS_REPRODUCED = frozenset({REPRODUCED, WITHIN_TOLERANCE})
_FROM_BEST_TO_WORST = (REPRODUCED, WITHIN_TOLERANCE, UNDECIDED, NOT_REPRODUCED)

# A published number is reproduced up to the first relative error, and within tolerance up to the second
EXACT_ERROR, DEFAULT_TOLERANCE = 0.05, 0.20
_ROUNDING = 1e-9  # relative difference that arithmetic leaves between equal numbers


# ---- The file


def load_claims(root: Path, file: str, values: pd.DataFrame) -> dict[str, Any]:
    """Return the checked content of a file of claims.

    A file without claims has the key ``held_out``: no model may be fitted to its published values.

    Args:
        root: The folder of the project.
        file: The path of the file below ``root``.
        values: The published values of the study, as `published.load` returns them.

    Raises:
        ClaimsError: A claim or contradiction is wrong; the message names file and claim.
        ConfigError: The file violates the schema.
    """
    content: dict[str, Any] = yaml_schema.read_yaml(root, file)
    yaml_schema.require_valid(file, content, yaml_schema.read_yaml(root, CLAIMS_SCHEMA))
    if "claims" not in content and "held_out" not in content:
        raise ClaimsError(f"{file}: has neither 'claims' nor 'held_out'. Give one of the two keys.")
    content.setdefault("claims", [])
    known = set(values["id"])
    for name in content.get("held_out", {}).get("misses", ()):
        if name not in known:
            near = yaml_schema.did_you_mean(name, known)
            raise ClaimsError(f"{file}: held_out.misses: no published value has the id '{name}'.{near}")
    for claim in content["claims"]:
        where = f"{file}: claim '{claim['id']}'"
        if claim["id"] in known:
            raise ClaimsError(f"{where}: another claim or published value has this id. Choose another.")
        known.add(claim["id"])
        if len({"check", "checks", "untestable"} & claim.keys()) != 1:
            raise ClaimsError(
                f"{where}: give exactly one of 'check', 'checks' (a list of checks) and 'untestable' (the reason why"
                " there is no check)"
            )
        try:
            ClaimChecks.parse(claim, values)
        except ClaimsError as error:
            raise ClaimsError(f"{where}: {error}") from None
    for contradiction in content.get("contradictions", []):
        where = f"{file}: contradiction '{contradiction['id']}'"
        for name in [*contradiction["between"], *contradiction["contradicted"]]:
            if name not in known:
                near = yaml_schema.did_you_mean(name, known)
                raise ClaimsError(f"{where}: no claim and no published value has the id '{name}'.{near}")
        stray = set(contradiction["contradicted"]) - set(contradiction["between"])
        if stray:
            raise ClaimsError(f"{where}: {', '.join(sorted(stray))} must also be listed under 'between'")
    return content


# ---- The verdict


@dataclass(frozen=True)
class PartResult:
    """The result of a check at one combination of levels.

    Attributes:
        label: The combination of levels.
        value: The statistic in its unit, or the outcome of changing a setting.
        low: Lower end of the confidence interval that decided; NaN without an interval.
        high: Upper end of the confidence interval that decided; NaN without an interval.
        status: One of `REPRODUCED`, `WITHIN_TOLERANCE`, `UNDECIDED` and `NOT_REPRODUCED`.
        off: Distance of the value from the bound, relative to the bound; 0 if the value respects the bound.
    """

    label: str
    value: float | str
    low: float
    high: float
    status: str
    off: float


@dataclass(frozen=True)
class Judge:
    """A judge of a study's claims: the measurements, and how intervals are computed.

    Attributes:
        executions: One row per repetition, as `quantities.read_executions` returns it.
        tuned: The tuning steps, as `collect.tuned` returns them.
        confidence: Confidence level of intervals.
        method: ``t`` or ``bca``, see `statistics.interval`.
    """

    executions: pd.DataFrame
    tuned: TuningRecords
    confidence: float = 0.95
    method: str = "t"

    def results(self, checks: ClaimChecks) -> list[PartResult]:
        """Return a result for each combination of levels that was measured.

        Raises:
            ClaimsError: A statistic divides by a mean of zero.
        """
        return list(checks.results(self.selected, self.tuned, IntervalMethod(self.confidence, self.method)))

    @functools.cached_property
    def selected(self) -> CachedExecutions:
        """The repetitions, from which all checks select."""
        return CachedExecutions(self.executions)


def worst_status(results: Iterable[PartResult]) -> str:
    """Return the worst status of a claim's parts, or `UNTESTABLE` if no part was measured."""
    return max((result.status for result in results), key=_FROM_BEST_TO_WORST.index, default=UNTESTABLE)


# ---- The checks of a claim


@dataclass(frozen=True)
class ClaimChecks:
    """All checks of one claim. The claim is reproduced if every check is.

    Attributes:
        each: The checks.
        says: What each check verifies, in words. Empty for a claim with a single ``check``. If not empty, texts and
            labels begin with the number of the check.
    """

    each: tuple[ClaimCheck, ...]
    says: tuple[str, ...] = ()

    @classmethod
    def parse(cls, claim: Mapping[str, Any], published: pd.DataFrame) -> ClaimChecks | None:
        """Return the checks of a claim; None if the claim is untestable.

        Args:
            claim: The claim as claims.yaml has it, with ``check`` or ``checks``.
            published: The published values of the study, as `published.load` returns them.

        Raises:
            ClaimsError: A check is wrong.
        """
        if "check" in claim:
            return cls((ClaimCheck.parse(claim["check"], published),))
        if "checks" not in claim:
            return None
        parsed = tuple(ClaimCheck.parse(one["check"], published) for one in claim["checks"])
        return cls(parsed, tuple(one["says"] for one in claim["checks"]))

    def results(
        self, executions: CachedExecutions, steps: TuningRecords, method: IntervalMethod
    ) -> Iterator[PartResult]:
        """Yield a result for each combination of levels that was measured, see `Judge.results`."""
        for number, check in enumerate(self.each, 1):
            for result in check.results(executions, steps, method):
                yield replace(result, label=self._numbered(number, result.label).strip())

    def estimates(self, executions: CachedExecutions) -> Iterator[Estimate]:
        """Yield the statistic of each check at each combination of levels that was measured, without outcomes."""
        for check in self.each:
            for _, observed in check.statistic.observe(executions, ()):
                if isinstance(observed, Estimate):
                    yield observed

    @property
    def drives(self) -> set[str]:
        """The drives that the checks name."""
        return {drive for check in self.each for drive in check.drives}

    @property
    def is_of_counters(self) -> bool:
        """Whether all checks need counters of a twin (simulated drive), which a real drive lacks."""
        return all(check.statistic.is_of_counters for check in self.each)

    @property
    def published_ids(self) -> list[str]:
        """The ids of the published values that the statistics are compared with."""
        return [name for check in self.each for name in check.published_ids]

    def on(self, drive: str) -> ClaimChecks | None:
        """Return the checks that can be applied to another drive; None if there are none."""
        moved = [check.on(drive) for check in self.each]
        each = tuple(check for check in moved if check is not None)
        says = tuple(text for text, check in zip(self.says, moved, strict=False) if check is not None)
        return ClaimChecks(each, says) if each else None

    def describe(self) -> str:
        """Return the statistics as text."""
        return self._joined(check.statistic.describe() for check in self.each)

    def expected(self) -> str:
        """Return the criteria as text, with units and tolerances."""
        return self._joined(check.expected() for check in self.each)

    def found(self, results: Sequence[PartResult]) -> str:
        """Return the range of the computed statistics as text."""
        return self._joined(check.found(own) for check, own in self.with_results(results))

    def with_results(self, results: Sequence[PartResult]) -> list[tuple[ClaimCheck, list[PartResult]]]:
        """Return each check with its own results, selected from what `results` yields."""
        return [
            (check, [one for one in results if one.label.startswith(self._numbered(number, "").strip())])
            for number, check in enumerate(self.each, 1)
        ]

    def in_published_unit(self, results: Sequence[PartResult]) -> float | None:
        """Return the statistic in the unit of the published value that it should equal.

        Returns None unless the claim has a single check for equality with a single result.
        """
        criterion = self.each[0].criterion
        if self.says or len(results) != 1 or not isinstance(criterion, Equals):
            return None
        value = results[0].value
        return None if isinstance(value, str) else value / criterion.number.unit

    def _numbered(self, number: int, text: str) -> str:
        return f"({number}) {text}" if self.says else text

    def _joined(self, texts: Iterable[str]) -> str:
        return "; ".join(self._numbered(number, text) for number, text in enumerate(texts, 1))


@dataclass(frozen=True)
class ClaimCheck:
    """A statistic and the criterion that it must meet."""

    statistic: Statistic
    criterion: Criterion

    @classmethod
    def parse(cls, check: Mapping[str, Any], published: pd.DataFrame) -> ClaimCheck:
        """Return a check as claims.yaml has it, see `ClaimChecks.parse`. Raises ClaimsError."""
        kinds = [kind for key, kind in STATISTICS.items() if key in check]
        if Growth in kinds and Ratio in kinds:
            kinds.remove(Ratio)  # the ratio is what grows
        wanted = [kind for key, kind in CRITERIA.items() if key in check]
        for found, known in ((kinds, STATISTICS), (wanted, CRITERIA)):
            if len(found) != 1:
                raise ClaimsError(f"a check needs exactly one of {', '.join(known)}, and has {len(found)}")
        (kind,), (criterion,) = kinds, wanted
        if (kind.has_to or Ratio.key in check) != ("to" in check):
            raise ClaimsError("'to' is required with ratio, difference and outcome, and not allowed otherwise")
        if ("over_ratio" in check) != ("over_to" in check) or ("over_to" in check and kind is not Ratio):
            raise ClaimsError("'over_ratio' and 'over_to' require each other, and a 'ratio'")
        if (kind is SettingOutcome) != (criterion is OneOf):
            raise ClaimsError("'outcome' requires 'is', and 'is' requires 'outcome'")
        if criterion is EquivalentToOne and not kind.is_around_one:
            raise ClaimsError("'within' is a margin around 1; only ratio, growth and value can have it")
        if "with" in check and kind is not FormulaValue:
            raise ClaimsError("'with' names the means of a 'value'; no other check can have it")
        statistic = kind.parse(check)
        return cls(statistic, criterion.parse(check, statistic.quantity, published))

    def results(
        self, executions: CachedExecutions, steps: TuningRecords, method: IntervalMethod
    ) -> Iterator[PartResult]:
        """Yield a result for each combination of levels that was measured, see `Judge.results`."""
        for label, observed in self.statistic.observe(executions, steps):
            try:
                yield self.criterion.evaluate(label, observed, method)
            except (ZeroDivisionError, StatisticsError) as error:
                raise ClaimsError(f"{label or 'its statistic'}: {error}") from None

    @property
    def drives(self) -> set[str]:
        """The drives that the check names."""
        named = [self.statistic.where, *(selection.levels for selection in self.statistic.selections)]
        return {
            str(drive) for levels in named for drive in listed_levels(levels.get("drive", [])) if drive != ALL_LEVELS
        }

    @property
    def published_ids(self) -> list[str]:
        """The id of the published value that a measured statistic is compared with, if any."""
        if not isinstance(self.criterion, NumericCriterion) or self.statistic.is_of_set_up:
            return []
        return [self.criterion.number.id] if self.criterion.number.id else []

    def on(self, drive: str) -> ClaimCheck | None:
        """Return the check for another drive; None if it compares drives or is about a particular drive."""
        statistic = None if isinstance(self.criterion, Equals) else self.statistic.on(drive)
        return None if statistic is None else replace(self, statistic=statistic)

    def expected(self) -> str:
        """Return the criterion as text, with unit and tolerance."""
        return self.criterion.describe(self.statistic.unit)

    def found(self, results: Sequence[PartResult]) -> str:
        """Return the range of the computed statistic as text, with unit; a dash if nothing was measured."""
        texts = sorted({result.value for result in results if isinstance(result.value, str)})
        numbers = [result.value for result in results if not isinstance(result.value, str)]
        if texts:
            return ", ".join(texts)
        if not numbers:
            return "–"
        low, high = (self.statistic.format(value) for value in (min(numbers), max(numbers)))
        unit = self.statistic.unit
        return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"


# ---- The criteria


@dataclass(frozen=True)
class Criterion(ABC):
    """A condition that a claim imposes on a statistic. Each subclass is one key of a check in claims.yaml."""

    key: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, check: Mapping[str, Any], quantity: Quantity | None, published: pd.DataFrame) -> Criterion:
        """Return the criterion of a check.

        Args:
            check: The check as claims.yaml has it.
            quantity: The quantity in whose unit the statistic is; None if the statistic has no unit.
            published: The published values of the study, as `published.load` returns them.

        Raises:
            ClaimsError: The check names a published value that does not exist, or whose unit cannot be converted.
        """

    @abstractmethod
    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of comparing a statistic with the criterion.

        Args:
            label: The combination of levels for which the statistic was computed.
            observed: The statistic.
            method: How to compute the confidence interval of the statistic.

        Raises:
            ZeroDivisionError: The statistic divides by a mean of zero.
            StatisticsError: The confidence interval of the statistic cannot be computed.
        """

    @abstractmethod
    def describe(self, unit: str) -> str:
        """Return the criterion as text for the report, such as ``≤ 3 ms``.

        Args:
            unit: Unit of the statistic with a leading space; empty if the statistic has no unit.
        """


@dataclass(frozen=True)
class ReferenceValue:
    """A number that a statistic is compared with.

    Attributes:
        value: The number, in the unit of the statistic.
        id: The id of the published value; None if the check contains the number itself.
        unit: The unit in which the value was published, in units of the statistic: 1.048576 for MiB/s and MB/s.
    """

    value: float
    id: str | None = None
    unit: float = 1.0

    @classmethod
    def parse(cls, given: float | str, quantity: Quantity | None, published: pd.DataFrame) -> ReferenceValue:
        """Return the reference value for a number, or for the id of a published value.

        Raises:
            ClaimsError: No published value has the id, or its unit cannot be converted to the unit of ``quantity``.
        """
        if not isinstance(given, str):
            return cls(float(given))
        if given not in set(published["id"]):
            near = yaml_schema.did_you_mean(given, published["id"])
            raise ClaimsError(f"no published value has the id '{given}'.{near}")
        row = published[published["id"] == given].iloc[0]
        unit = 1.0 if quantity is None else quantity.from_unit(str(row["unit"]))
        if unit is None:
            assert quantity is not None
            raise ClaimsError(
                f"'{given}' was published in '{row['unit']}', which cannot be converted to '{quantity.unit}'"
            )
        return cls(float(row["value"]) * unit, given, unit)


@dataclass(frozen=True)
class NumericCriterion(Criterion):
    """A comparison with a number.

    Attributes:
        number: The number.
        tolerance: Accepted relative error, 0.1 for 10 %. None is 0 for bounds, `DEFAULT_TOLERANCE` for `Equals`.
        symbol: The comparison as printed in the report.
    """

    number: ReferenceValue
    tolerance: float | None
    symbol: ClassVar[str]

    @classmethod
    def parse(cls, check: Mapping[str, Any], quantity: Quantity | None, published: pd.DataFrame) -> NumericCriterion:
        """Return the criterion of a check, see `Criterion.parse`."""
        return cls(ReferenceValue.parse(check[cls.key], quantity, published), check.get("tolerance"))

    def describe(self, unit: str) -> str:
        """Return the number with unit and tolerance, such as ``≤ 3 ms, tolerance 10 %``."""
        text = f"{self.symbol} {self.number.value:g}{unit}"
        return text if self.tolerance is None else f"{text}, tolerance {100 * self.tolerance:g} %"


@dataclass(frozen=True)
class AtMost(NumericCriterion):
    """An upper bound on the statistic."""

    key = "at_most"
    symbol = "≤"
    sign: ClassVar[float] = 1.0

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of comparing the whole confidence interval with the bound.

        The statistic is reproduced if its whole interval respects the bound. It is within tolerance if its whole
        interval respects the bound relaxed by the tolerance, and not reproduced if its whole interval violates the
        relaxed bound. Otherwise it is undecided. A single repetition has no interval: the value alone decides.
        """
        assert isinstance(observed, Estimate)
        value = observed.value()
        low, high, _ = observed.interval(method)
        low_used, high_used = (value, value) if math.isnan(low) else (low, high)
        bound = self.number.value
        # how far the ends of the interval exceed the bound, negative inside
        worst, best = sorted((self.sign * (high_used - bound), self.sign * (low_used - bound)), reverse=True)
        slack = (self.tolerance or 0.0) * abs(bound) + _ROUNDING * abs(bound)
        status = (
            REPRODUCED
            if worst <= _ROUNDING * abs(bound)
            else WITHIN_TOLERANCE
            if worst <= slack
            else NOT_REPRODUCED
            if best > slack
            else UNDECIDED
        )
        return PartResult(label, value, low, high, status, max(0.0, self.sign * (value - bound) / (abs(bound) or 1.0)))


@dataclass(frozen=True)
class AtLeast(AtMost):
    """A lower bound on the statistic, evaluated as `AtMost` with the signs reversed."""

    key = "at_least"
    symbol = "≥"
    sign = -1.0


@dataclass(frozen=True)
class Equals(NumericCriterion):
    """Equality with a published number, up to a relative error."""

    key = "equals"
    symbol = "="

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of comparing the value with the published number.

        The relative error of the value alone decides, see `status_of_error`. The confidence interval is only reported.
        """
        assert isinstance(observed, Estimate)
        value = observed.value()
        low, high, _ = observed.interval(method)
        error = relative_error(value, self.number.value)
        tolerance = DEFAULT_TOLERANCE if self.tolerance is None else self.tolerance
        return PartResult(label, value, low, high, status_of_error(error, tolerance), abs(error))


@dataclass(frozen=True)
class EquivalentToOne(Criterion):
    """Equivalence of a statistic to 1, within a margin.

    Attributes:
        margin: Relative margin: 0.1 accepts values from 1/1.1 to 1.1.
    """

    key = "within"
    margin: float

    @classmethod
    def parse(cls, check: Mapping[str, Any], _quantity: Quantity | None, _published: pd.DataFrame) -> EquivalentToOne:
        """Return the criterion of a check, see `Criterion.parse`."""
        return cls(check[cls.key])

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of two one-sided tests (Schuirmann 1987) of equivalence.

        The statistic is reproduced if its interval of confidence 1 − 2·`EQUIVALENCE_ALPHA` is inside the margin. It is
        not reproduced if that interval is completely outside the margin. Otherwise, and without an interval, it is
        undecided.
        """
        assert isinstance(observed, Estimate)
        value = observed.value()
        method = method._replace(confidence=1 - 2 * EQUIVALENCE_ALPHA, method="t")
        test = equivalence_of_interval(observed.interval(method), self.margin)
        limit = 1 + self.margin
        excess = max(value / limit, 1 / (value * limit)) - 1 if value > 0 else math.inf
        status = {"equivalent": REPRODUCED, "undecided": UNDECIDED}.get(test.verdict)
        status = status or (NOT_REPRODUCED if test.high < 1 / limit or test.low > limit else UNDECIDED)
        return PartResult(label, value, test.low, test.high, status, max(excess, 0.0))

    def describe(self, _unit: str) -> str:
        """Return the margin as text: ``1, within a factor of 1.1 (equivalence test)``."""
        return f"1, within a factor of {1 + self.margin:g} (equivalence test)"


@dataclass(frozen=True)
class OneOf(Criterion):
    """Membership of an outcome in a set: what happened when a setting was changed.

    Attributes:
        outcomes: The outcomes that confirm the claim, from `tuning_steps`, such as ``not changeable``.
    """

    key = "is"
    outcomes: tuple[str, ...]

    @classmethod
    def parse(cls, check: Mapping[str, Any], _quantity: Quantity | None, _published: pd.DataFrame) -> OneOf:
        """Return the criterion of a check, see `Criterion.parse`."""
        return cls(tuple(check[cls.key]))

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, _method: IntervalMethod) -> PartResult:
        """Return the result: reproduced if the claim lists the observed outcome."""
        assert isinstance(observed, ObservedOutcome)
        status = REPRODUCED if observed.outcome in self.outcomes else NOT_REPRODUCED
        return PartResult(label, observed.outcome, math.nan, math.nan, status, 0.0)

    def describe(self, _unit: str) -> str:
        """Return the outcomes as text, joined by "or"."""
        return " or ".join(self.outcomes)


CRITERIA: dict[str, type[Criterion]] = {kind.key: kind for kind in (AtMost, AtLeast, Equals, EquivalentToOne, OneOf)}


# ---- Published numbers


def relative_error(measured: float, published: float) -> float:
    """Return the relative error of a measured number; infinite if zero was published and something else measured."""
    if published:
        return measured / published - 1
    return 0.0 if not measured else math.inf


def status_of_error(error: float, tolerance: float = DEFAULT_TOLERANCE) -> str:
    """Return the status of a published number by the relative error of what was measured."""
    return REPRODUCED if abs(error) <= EXACT_ERROR else WITHIN_TOLERANCE if abs(error) <= tolerance else NOT_REPRODUCED
