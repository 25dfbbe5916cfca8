"""Read claims from claims.yaml, and compare them with the measurements.

A claim is a statement of a source (a paper or data sheet), such as "random reads are slower than sequential reads". A
claim has one or more checks. A check has a statistic, such as a ratio of two means, and a criterion, such as "at least
1".

`load_claims` reads the file. `ClaimChecks.parse` returns the checks of a claim. `Judge.results` computes the statistic
of each check with its confidence interval, and compares the statistic with the criterion (`Criterion.evaluate`). There
is a separate result for each combination of levels that the check names, such as each block size. The status of the
claim is the worst status among these results (`worst_status`).
"""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
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
from iopatterns.raw.tuning_steps import OUTCOMES, TuningRecords

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

# A number that must be met from both sides is reproduced up to this relative error, unless less is tolerated
EXACT_ERROR = 0.05
# The relative error of a published value that is within tolerance
VALUE_TOLERANCE = 0.20
# A verdict is close if the value that decides it is this close to a threshold that we chose
CLOSE = 0.05
_ROUNDING = 1e-9  # relative difference that arithmetic leaves between equal numbers


# ---- The file


def load_claims(root: Path, file: str, values: pd.DataFrame) -> dict[str, Any]:
    """Return the validated content of a claims.yaml.

    A claim is a published statement that is compared with the measurements. The file must have the key ``claims``, the
    key ``held_out``, or both. The key ``held_out`` marks a study whose published values are reserved for testing
    models: no model of a simulated drive may be fitted to them.

    Args:
        root: The folder of the project.
        file: The path of the file below ``root``, such as ``data/published/park2009/claims.yaml``.
        values: The published values of the study, as `published.load_values` returns them.

    Returns:
        The content of the file, a dictionary. Its key ``claims`` is a list of claims, each a dictionary with the key
        ``id`` and others; the list is empty if the file has no claims.

    Raises:
        ClaimsError: A claim, a contradiction or an id is invalid, or no measurement could make a check fail. The
            message names the file and the entry.
        ConfigError: The file is missing, or violates the schema `CLAIMS_SCHEMA`.
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
            parsed = ClaimChecks.parse(claim, values)
            for check in parsed.each if parsed else ():
                check.require_fallible()
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
    """The result of a check at one combination of levels, such as one block size.

    A check compares a statistic of the measurements with the number or bound that a published claim states.

    Attributes:
        label: The combination of levels as text, such as ``4 KiB``; may be empty if there is only one combination.
        value: The value of the statistic, in the unit of the statistic. For a check of a drive setting: what happened
            when the setting was changed, such as ``refused``.
        low: Lower end of the value's confidence interval; NaN without an interval.
        high: Upper end of the value's confidence interval; NaN without an interval.
        status: One of `REPRODUCED`, `WITHIN_TOLERANCE`, `UNDECIDED` and `NOT_REPRODUCED`.
        off: Relative distance of the value from the bound or number that the check requires: 0.1 for 10 %. It is 0 if
            the value respects the bound or margin, and 0 for a drive setting.
        close: Whether the value differs by at most `CLOSE` from a threshold that we chose, see `Criterion.is_chosen`.
    """

    label: str
    value: float | str
    low: float
    high: float
    status: str
    off: float
    close: bool = False

    @property
    def holds(self) -> bool:
        """Whether the part counts as reproduced."""
        return self.status in COUNT_AS_REPRODUCED


@dataclass(frozen=True)
class Judge:
    """The measurements of a study, and the method of confidence intervals.

    A judge compares the measurements with the checks of published claims.

    Attributes:
        executions: One row per repetition (run of fio), as `quantities.read_executions` returns it.
        tuned: What happened to each drive setting, as `tuning_steps.read_tuning_records` returns it.
        confidence: Confidence level of intervals, between 0 and 1.
        method: Method of intervals: ``t`` (Student) or ``bca`` (bootstrap), see `statistics.mean_interval`.
    """

    executions: pd.DataFrame
    tuned: TuningRecords
    confidence: float = 0.95
    method: str = "t"

    def results(self, checks: ClaimChecks) -> list[PartResult]:
        """Return the results of a claim's checks, one for each combination of levels.

        A combination of levels is, for example, a block size and a depth that the check names. Combinations that were
        not measured have no result.

        Args:
            checks: The checks of the claim.

        Returns:
            The results in the order of the checks; empty if nothing was measured for the claim.

        Raises:
            ClaimsError: A statistic divides by a mean of zero, or its interval cannot be computed.
        """
        return list(checks.results(self.selected, self.tuned, IntervalMethod(self.confidence, self.method)))

    @functools.cached_property
    def selected(self) -> CachedExecutions:
        """The table ``executions`` with a cache of selected rows, which all checks share."""
        return CachedExecutions(self.executions)


def worst_status(results: Iterable[PartResult]) -> str:
    """Return the worst status among the results of a claim.

    The order from best to worst is `REPRODUCED`, `WITHIN_TOLERANCE`, `UNDECIDED`, `NOT_REPRODUCED`.

    Args:
        results: The results of the claim's checks.

    Returns:
        The status. `UNTESTABLE` if there are no results, because nothing was measured.
    """
    return max((result.status for result in results), key=_FROM_BEST_TO_WORST.index, default=UNTESTABLE)


def is_close(results: Sequence[PartResult]) -> bool:
    """Return whether other thresholds of ours would give a claim another status.

    Only thresholds within `CLOSE` of the values are considered. A claim that counts as reproduced is close if one of
    its parts is. A claim that does not is close if all parts that do not count as reproduced are.

    Args:
        results: The results of the claim's checks.
    """
    failing = [result for result in results if not result.holds]
    return all(result.close for result in failing) if failing else any(result.close for result in results)


# ---- The checks of a claim


@dataclass(frozen=True)
class ClaimChecks:
    """All checks of one claim (published statement).

    The claim is reproduced if every check is reproduced. In claims.yaml, a claim has a single check under the key
    ``check``, or a list of checks under the key ``checks``. The checks of a list are numbered: the texts of `describe`,
    `expected` and `found`, and the labels of results, contain the number, such as ``(1)``.

    Attributes:
        each: The checks.
        says: What each check of a list verifies, in words. Empty for a claim with the key ``check``.
    """

    each: tuple[ClaimCheck, ...]
    says: tuple[str, ...] = ()

    @classmethod
    def parse(cls, claim: Mapping[str, Any], published: pd.DataFrame) -> ClaimChecks | None:
        """Return the checks of a claim in claims.yaml.

        Args:
            claim: An entry of ``claims`` in claims.yaml. It has the key ``check``, ``checks`` or ``untestable``.
            published: The published values of the study, as `published.load_values` returns them.

        Returns:
            The checks. None if the claim has the key ``untestable``, because it cannot be checked here.

        Raises:
            ClaimsError: A check is invalid.
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
        """Yield the results of all checks of the claim, in the order of the checks.

        A check has one result for each measured combination of levels, such as a block size and an iodepth.

        Args:
            executions: The repetitions (runs of fio) of all experiments.
            steps: What happened to each drive setting, as `tuning_steps.read_tuning_records` returns it.
            method: The method and confidence level of confidence intervals.

        Raises:
            ClaimsError: A statistic divides by a mean of zero, or its interval cannot be computed.
        """
        for number, check in enumerate(self.each, 1):
            for result in check.results(executions, steps, method):
                yield replace(result, label=self._numbered(number, result.label).strip())

    def estimates(self, executions: CachedExecutions) -> Iterator[Estimate]:
        """Yield the statistics of all checks, one for each measured combination of levels.

        A combination of levels is, for example, a block size and a depth that the check names. Checks of the outcome of
        a drive setting are skipped, because their statistic is not a number.

        Args:
            executions: The repetitions (runs of fio) of all experiments.

        Yields:
            The statistic as an estimate: a number that is computed from groups of measured values.
        """
        for check in self.each:
            for _, observed in check.statistic.observe(executions, ()):
                if isinstance(observed, Estimate):
                    yield observed

    @property
    def drives(self) -> set[str]:
        """The names of the drives that the checks select in claims.yaml.

        The set is empty if no check names a drive.
        """
        return {drive for check in self.each for drive in check.drives}

    @property
    def is_of_counters(self) -> bool:
        """Whether every check needs internal counters of a drive.

        An example is a check of block erases per request. Simulated drives have such counters, and real drives do not
        report them.
        """
        return all(check.statistic.is_of_counters for check in self.each)

    @property
    def published_ids(self) -> list[str]:
        """The ids of the published values with which the checks compare their statistics.

        Published values that describe the set-up of the source, such as the largest I/O depth, are left out.
        """
        return [name for check in self.each for name in check.published_ids]

    def on(self, drive: str, named: Mapping[str, frozenset[str]] = MappingProxyType({})) -> ClaimChecks | None:
        """Return the checks that make sense on another drive, applied to that drive.

        `ClaimCheck.on` lists the checks that make no sense there.

        Args:
            drive: The name of the other drive.
            named: The drives that the study names for each experiment, by the name of the experiment.

        Returns:
            The checks, restricted to repetitions on the drive. None if no check makes sense on the drive.
        """
        moved = [check.on(drive, named.get(check.statistic.experiment, frozenset())) for check in self.each]
        each = tuple(check for check in moved if check is not None)
        says = tuple(text for text, check in zip(self.says, moved, strict=False) if check is not None)
        return ClaimChecks(each, says) if each else None

    def describe(self) -> str:
        """Return the statistics of all checks as text: what is computed, at which levels.

        An example for a ratio is ``mean bandwidth, read / randread; 4k|64k, c400``. The texts of several checks are
        numbered and joined by semicolons.
        """
        return self._joined(check.statistic.describe() for check in self.each)

    def expected(self) -> str:
        """Return the criteria of all checks as text, such as ``≤ 3 ms, tolerance 10 %``.

        The texts of several checks are numbered and joined by semicolons: ``(1) ≤ 3 ms; (2) ≥ 1``.
        """
        return self._joined(check.expected() for check in self.each)

    def found(self, results: Sequence[PartResult]) -> str:
        """Return the smallest and the largest measured value of each check as text.

        Args:
            results: The results of the checks, as the method `results` yields them.

        Returns:
            A text such as ``1.2 to 3.4 ms``, with a dash for a check that was not measured. For a check of a drive
            setting, the text lists the observed outcomes. The texts of several checks are joined by semicolons.
        """
        return self._joined(check.found(own) for check, own in self.with_results(results))

    def with_results(self, results: Sequence[PartResult]) -> list[tuple[ClaimCheck, list[PartResult]]]:
        """Return each check paired with its own results.

        Args:
            results: The results of all checks, as the method `results` yields them. Their labels contain the number of
                the check.

        Returns:
            A pair for each check, in the order of the checks. The list of results is empty for a check that was not
            measured.
        """
        return [
            (check, [one for one in results if one.label.startswith(self._numbered(number, "").strip())])
            for number, check in enumerate(self.each, 1)
        ]

    def in_published_unit(self, results: Sequence[PartResult]) -> float | None:
        """Return the measured statistic in the unit of the published value to equal.

        Args:
            results: The results of the claim, as the method `results` yields them.

        Returns:
            The measured number. None if the claim has a list of checks, if its check does not require equality
            (`Equals`), or if there is not exactly one result.
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
    """A statistic of the measurements, and the criterion that the statistic must meet.

    Attributes:
        statistic: What is computed from the repetitions (runs of fio), such as a ratio of two means.
        criterion: The condition, such as an upper bound.
    """

    statistic: Statistic
    criterion: Criterion

    @classmethod
    def parse(cls, check: Mapping[str, Any], published: pd.DataFrame) -> ClaimCheck:
        """Return the check that an entry of claims.yaml describes.

        Args:
            check: The content of ``check`` in claims.yaml: a statistic, an experiment and a criterion, such as
                ``{"mean": {"rw": "read"}, "of": "latency", "experiment": "mix", "at_most": 3}``.
            published: The published values of the study, as `published.load_values` returns them.

        Raises:
            ClaimsError: The check does not have exactly one statistic and one criterion, or a key of the check is
                invalid.
        """
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
        if "tolerance" in check and not issubclass(criterion, NumericCriterion):
            raise ClaimsError(f"'{criterion.key}' has no 'tolerance'; only {_NUMERIC_KEYS} can have it")
        if criterion is Equals and not check.get("tolerance"):
            raise ClaimsError("'equals' requires a 'tolerance' above 0: the largest relative error, such as 0.2")
        statistic = kind.parse(check)
        return cls(statistic, criterion.parse(check, statistic.quantity, published))

    def require_fallible(self) -> None:
        """Raise ClaimsError if no measurement could make the check fail."""
        if self.criterion.always_holds(self.statistic):
            raise ClaimsError(
                f"the check cannot fail: '{self.expected()}' holds for each value that the statistic can have"
                f" ({self.statistic.possible_text()}). Choose a criterion that some measurement would violate."
            )

    def results(
        self, executions: CachedExecutions, steps: TuningRecords, method: IntervalMethod
    ) -> Iterator[PartResult]:
        """Yield the result of the check at each measured combination of levels.

        A combination of levels is, for example, a block size and a depth that the check names.

        Args:
            executions: The repetitions (runs of fio) of all experiments.
            steps: What happened to each drive setting, as `tuning_steps.read_tuning_records` returns it.
            method: The method and confidence level of confidence intervals.

        Raises:
            ClaimsError: The statistic divides by a mean of zero, or its interval cannot be computed.
        """
        for label, observed in self.statistic.observe(executions, steps):
            try:
                yield self.criterion.evaluate(label, observed, method)
            except (ZeroDivisionError, StatisticsError) as error:
                raise ClaimsError(f"{label or 'its statistic'}: {error}") from None

    @property
    def drives(self) -> set[str]:
        """The names of the drives that the check selects in claims.yaml.

        The set is empty if the check names no drive, or selects ``all`` drives.
        """
        named = [self.statistic.where, *(selection.levels for selection in self.statistic.selections)]
        return {
            str(drive) for levels in named for drive in listed_levels(levels.get("drive", [])) if drive != ALL_LEVELS
        }

    @property
    def published_ids(self) -> list[str]:
        """The id of the published value in the criterion, as a list of at most one id.

        The list is empty if the criterion has no published value. It is also empty if the statistic describes the
        set-up of the source, such as the largest I/O depth, instead of a result.
        """
        if not isinstance(self.criterion, NumericCriterion) or self.statistic.is_of_set_up:
            return []
        return [self.criterion.number.id] if self.criterion.number.id else []

    def on(self, drive: str, named: frozenset[str] = frozenset()) -> ClaimCheck | None:
        """Return the check for another drive.

        A check makes no sense on another drive if it

        - is about some of the drives that the study names for the experiment, and not about all of them,
        - compares several drives,
        - is about the outcome of changing a drive setting, or
        - compares its statistic with a published number, which describes a particular drive.

        Args:
            drive: The name of the other drive.
            named: The drives that the study names for the experiment of the check.

        Returns:
            The check, restricted to repetitions on the drive. None if the check makes no sense there.
        """
        is_about_some = bool(self.drives) and self.drives < named
        statistic = None if is_about_some or self.published_ids else self.statistic.on(drive)
        return None if statistic is None else replace(self, statistic=statistic)

    def expected(self) -> str:
        """Return the criterion as text, such as ``≤ 3 ms, tolerance 10 %``."""
        return self.criterion.describe(self.statistic.unit)

    def found(self, results: Sequence[PartResult]) -> str:
        """Return the range of the measured values as text, such as ``1.2 to 3.4 ms``.

        For a check of a drive setting, the text lists the observed outcomes. If nothing was measured, the text is a
        dash.

        Args:
            results: The results of this check only.
        """
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
    """A condition that a claim (published statement) imposes on a statistic.

    Each subclass stands for one key of a check in claims.yaml.

    Attributes:
        key: The key, such as ``at_most``.
    """

    key: ClassVar[str]

    @classmethod
    @abstractmethod
    def parse(cls, check: Mapping[str, Any], quantity: Quantity | None, published: pd.DataFrame) -> Criterion:
        """Return the criterion that a check in claims.yaml has.

        Call this method on the subclass for the key of the check, such as `AtMost` for ``at_most``; see `CRITERIA`.

        Args:
            check: The content of ``check`` in claims.yaml.
            quantity: The quantity whose unit the statistic has; None if the statistic has no unit.
            published: The published values of the study, as `published.load_values` returns them.

        Raises:
            ClaimsError: The check names a published value that does not exist, or whose unit cannot be converted.
        """

    @abstractmethod
    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of comparing a statistic with the criterion.

        Args:
            label: The combination of levels for which the statistic was computed, as text, such as ``4 KiB``.
            observed: The statistic, or the outcome of changing a drive setting.
            method: The method and confidence level of the statistic's confidence interval.

        Raises:
            ZeroDivisionError: The statistic divides by a mean of zero.
            StatisticsError: The confidence interval of the statistic cannot be computed.
        """

    @abstractmethod
    def describe(self, unit: str) -> str:
        """Return the criterion as text for the report, such as ``≤ 3 ms``.

        Args:
            unit: Unit of the statistic with a leading space, such as ``" ms"``; empty if the statistic has no unit.
        """

    @property
    @abstractmethod
    def is_chosen(self) -> bool:
        """Whether the criterion has a threshold that we chose, and not the source.

        The source chose a published number. The numbers 0 and 1 are no choice, because they are what "more", "less" and
        "as much" mean.
        """

    @abstractmethod
    def always_holds(self, statistic: Statistic) -> bool:
        """Return whether each possible value of a statistic fulfils the criterion.

        No measurement could then make the check fail.

        Args:
            statistic: The statistic, whose method `Statistic.possible` or `SettingOutcome` gives the possible values.
        """


@dataclass(frozen=True)
class ReferenceValue:
    """A number that a statistic is compared with.

    Attributes:
        value: The number, in the unit of the statistic.
        id: The id of the published value in values.csv; None if claims.yaml contains the number itself.
        unit: How many units of the statistic a published unit is. If a value is published in MiB/s and the statistic is
            in MB/s, this is 1.048576. It is 1 if claims.yaml contains the number itself.
    """

    value: float
    id: str | None = None
    unit: float = 1.0

    @classmethod
    def parse(cls, given: float | str, quantity: Quantity | None, published: pd.DataFrame) -> ReferenceValue:
        """Return the reference value that a check names.

        Args:
            given: The number itself, or the id of a published value.
            quantity: The quantity whose unit the statistic has; None if the statistic has no unit. A published value is
                then not converted.
            published: The published values of the study, as `published.load_values` returns them.

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
    """A comparison of the statistic with a number.

    Attributes:
        number: The number, which is published or written in the check.
        tolerance: The largest relative error that is accepted, such as 0.1 for 10 %.
        symbol: The comparison as printed in the report, such as ``≤``.
    """

    number: ReferenceValue
    tolerance: float
    symbol: ClassVar[str]

    @classmethod
    def parse(cls, check: Mapping[str, Any], quantity: Quantity | None, published: pd.DataFrame) -> NumericCriterion:
        """Return the numeric criterion that a check in claims.yaml has.

        The number is under the key of the criterion, such as ``at_most``. The tolerance is under the key ``tolerance``;
        it is 0 without this key. The arguments and errors are those of `Criterion.parse`.
        """
        return cls(ReferenceValue.parse(check[cls.key], quantity, published), check.get("tolerance", 0.0))

    @property
    def is_chosen(self) -> bool:
        """Whether we chose the number, or a tolerance; see `Criterion.is_chosen`."""
        return self.tolerance > 0 or (self.number.id is None and self.number.value not in {0, 1})

    def describe(self, unit: str) -> str:
        """Return the criterion as text, such as ``≤ 3 ms, tolerance 10 %``.

        A tolerance of 0 is left out.

        Args:
            unit: Unit of the statistic with a leading space, such as ``" ms"``; empty if the statistic has no unit.
        """
        text = f"{self.symbol} {self.number.value:g}{unit}"
        return f"{text}, tolerance {100 * self.tolerance:g} %" if self.tolerance else text


@dataclass(frozen=True)
class AtMost(NumericCriterion):
    """An upper bound on the statistic.

    Attributes:
        sign: 1 for an upper bound, -1 for the lower bound of the subclass `AtLeast`.
    """

    key = "at_most"
    symbol = "≤"
    sign: ClassVar[float] = 1.0

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of comparing the complete confidence interval with the bound.

        The tolerance relaxes the bound. The status is

        - `REPRODUCED` if the complete interval respects the bound,
        - `WITHIN_TOLERANCE` if the complete interval respects the relaxed bound only,
        - `NOT_REPRODUCED` if the complete interval violates the relaxed bound,
        - `UNDECIDED` otherwise.

        A single repetition has no interval. The value itself is then compared with the bound. The arguments and errors
        are those of `Criterion.evaluate`.
        """
        assert isinstance(observed, Estimate)
        value = observed.value()
        low, high, _ = observed.interval(method)
        low_used, high_used = (value, value) if math.isnan(low) else (low, high)
        bound, slack = self.number.value, self._slack
        # how far the ends of the interval exceed the bound, negative inside
        worst, best = sorted((self.sign * (high_used - bound), self.sign * (low_used - bound)), reverse=True)
        status = (
            REPRODUCED
            if worst <= _ROUNDING * abs(bound)
            else WITHIN_TOLERANCE
            if worst <= slack
            else NOT_REPRODUCED
            if best > slack
            else UNDECIDED
        )
        off = max(0.0, self.sign * (value - bound) / (abs(bound) or 1.0))
        relaxed = bound + self.sign * slack
        close = self.is_chosen and abs(value - relaxed) <= CLOSE * abs(relaxed)
        return PartResult(label, value, low, high, status, off, close)

    @property
    def _slack(self) -> float:
        """How far a value may exceed the bound, in the unit of the bound."""
        return (self.tolerance + _ROUNDING) * abs(self.number.value)

    def always_holds(self, statistic: Statistic) -> bool:
        """Return whether no possible value of a statistic violates the relaxed bound.

        Args:
            statistic: The statistic.
        """
        low, high = statistic.possible()
        return self.sign * ((high if self.sign > 0 else low) - self.number.value) <= self._slack


@dataclass(frozen=True)
class AtLeast(AtMost):
    """A lower bound on the statistic, evaluated like the upper bound `AtMost`.

    The signs are reversed: values below the bound violate it.
    """

    key = "at_least"
    symbol = "≥"
    sign = -1.0


@dataclass(frozen=True)
class Equals(NumericCriterion):
    """Equality with a number that the source states, up to a relative error: the tolerance."""

    key = "equals"
    symbol = "="

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of comparing the value with the number of the criterion.

        The relative error of the value alone decides, see `status_of_error`. The confidence interval is part of the
        result, but does not influence the status. The arguments and errors are those of `Criterion.evaluate`.
        """
        assert isinstance(observed, Estimate)
        value = observed.value()
        low, high, _ = observed.interval(method)
        error = abs(relative_error(value, self.number.value))
        close = abs(error - self.tolerance) <= CLOSE * self.tolerance
        return PartResult(label, value, low, high, status_of_error(error, self.tolerance), error, close)

    def always_holds(self, statistic: Statistic) -> bool:
        """Return whether each possible value of a statistic is within the tolerance.

        Args:
            statistic: The statistic.
        """
        return all(abs(relative_error(end, self.number.value)) <= self.tolerance for end in statistic.possible())


@dataclass(frozen=True)
class EquivalentToOne(Criterion):
    """Equivalence of the statistic to 1, within a margin.

    The key ``within`` in claims.yaml gives the margin. The claim is, for example, that a setting makes no difference.

    Attributes:
        margin: Relative margin: 0.1 accepts values from 1/1.1 to 1.1.
    """

    key = "within"
    margin: float

    @classmethod
    def parse(cls, check: Mapping[str, Any], _quantity: Quantity | None, _published: pd.DataFrame) -> EquivalentToOne:
        """Return the criterion of a check with the key ``within`` (``within: 0.1``).

        Args:
            check: The content of ``check`` in claims.yaml.
            _quantity: Not used.
            _published: Not used.
        """
        return cls(check[cls.key])

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, method: IntervalMethod) -> PartResult:
        """Return the result of testing the statistic for equivalence to 1.

        The test consists of two one-sided tests (Schuirmann 1987). It uses a confidence interval of level 1 −
        2·`EQUIVALENCE_ALPHA` by Student's t, whatever the level and method of ``method``. The status is

        - `REPRODUCED` if the complete interval is inside the margin,
        - `NOT_REPRODUCED` if the complete interval is outside the margin,
        - `UNDECIDED` otherwise, and if there is no interval.

        The arguments and errors are those of `Criterion.evaluate`.
        """
        assert isinstance(observed, Estimate)
        value = observed.value()
        method = method._replace(confidence=1 - 2 * EQUIVALENCE_ALPHA, method="t")
        test = equivalence_of_interval(observed.interval(method), self.margin)
        limit = 1 + self.margin
        factor = max(value, 1 / value) if value > 0 else math.inf
        status = {"equivalent": REPRODUCED, "undecided": UNDECIDED}.get(test.verdict)
        status = status or (NOT_REPRODUCED if test.high < 1 / limit or test.low > limit else UNDECIDED)
        close = abs(factor - limit) <= CLOSE * self.margin
        return PartResult(label, value, test.low, test.high, status, max(factor / limit - 1, 0.0), close)

    def describe(self, _unit: str) -> str:
        """Return the tested limits as text: ``0.9091 to 1.1 (equivalence test)``.

        Args:
            _unit: Not used, because the statistic has no unit.
        """
        return f"{1 / (1 + self.margin):.4g} to {1 + self.margin:.4g} (equivalence test)"

    @property
    def is_chosen(self) -> bool:
        """True: no source states a margin of equivalence."""
        return True

    def always_holds(self, statistic: Statistic) -> bool:
        """Return whether each possible value of a statistic is within the margin.

        Args:
            statistic: The statistic.
        """
        low, high = statistic.possible()
        return low >= 1 / (1 + self.margin) and high <= 1 + self.margin


@dataclass(frozen=True)
class OneOf(Criterion):
    """A set of accepted outcomes of changing a drive setting.

    The key ``is`` in claims.yaml lists them.

    Attributes:
        outcomes: The outcomes that confirm the claim, such as ``not changeable`` or ``refused``. The module
            `tuning_steps` defines all outcomes.
    """

    key = "is"
    outcomes: tuple[str, ...]

    @classmethod
    def parse(cls, check: Mapping[str, Any], _quantity: Quantity | None, _published: pd.DataFrame) -> OneOf:
        """Return the criterion of a check with the key ``is`` (``is: [refused]``).

        Args:
            check: The content of ``check`` in claims.yaml.
            _quantity: Not used.
            _published: Not used.
        """
        return cls(tuple(check[cls.key]))

    def evaluate(self, label: str, observed: Estimate | ObservedOutcome, _method: IntervalMethod) -> PartResult:
        """Return the result of comparing the observed outcome with the accepted ones.

        The status is `REPRODUCED` if the observed outcome is accepted, and otherwise `NOT_REPRODUCED`. The result has
        no confidence interval.

        Args:
            label: The combination of levels as text: the name of the drive, or an empty text.
            observed: The outcome of changing a drive setting.
            _method: Not used.
        """
        assert isinstance(observed, ObservedOutcome)
        status = REPRODUCED if observed.outcome in self.outcomes else NOT_REPRODUCED
        return PartResult(label, observed.outcome, math.nan, math.nan, status, 0.0)

    def describe(self, _unit: str) -> str:
        """Return the accepted outcomes as text, such as ``refused or ignored``.

        Args:
            _unit: Not used, because an outcome has no unit.
        """
        return " or ".join(self.outcomes)

    @property
    def is_chosen(self) -> bool:
        """False: an outcome is no threshold."""
        return False

    def always_holds(self, _statistic: Statistic) -> bool:
        """Return whether each possible outcome is accepted.

        Args:
            _statistic: Not used, because all settings have the same possible outcomes.
        """
        return set(OUTCOMES) <= set(self.outcomes)


CRITERIA: dict[str, type[Criterion]] = {kind.key: kind for kind in (AtMost, AtLeast, Equals, EquivalentToOne, OneOf)}
_NUMERIC_KEYS = ", ".join(key for key, kind in CRITERIA.items() if issubclass(kind, NumericCriterion))


# ---- Published numbers


def relative_error(measured: float, published: float) -> float:
    """Return the relative error of a measured number: 0.1 if it is 10 % too large.

    For a published zero, the error is 0 if zero was measured, and otherwise infinite.

    Args:
        measured: The measured number.
        published: The published number, in the same unit.
    """
    if published:
        return measured / published - 1
    return 0.0 if not measured else math.inf


def status_of_error(error: float, tolerance: float = VALUE_TOLERANCE) -> str:
    """Return the status that follows from the relative error of a measured number.

    Args:
        error: The relative error, as `relative_error` returns it.
        tolerance: The largest relative error that is accepted, regardless of its sign.

    Returns:
        `NOT_REPRODUCED` if the error without its sign is above the tolerance. Otherwise `REPRODUCED` if it is at most
        `EXACT_ERROR`, else `WITHIN_TOLERANCE`.
    """
    if abs(error) > tolerance:
        return NOT_REPRODUCED
    return REPRODUCED if abs(error) <= EXACT_ERROR else WITHIN_TOLERANCE
