"""The checks of claims: a statistic of what was measured, and what is expected of it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from iopatterns.analysis.statistics import StatisticsError
from iopatterns.judging.checks.criteria import EXPECTATIONS, Equals, Expectation, How, Is, Within
from iopatterns.judging.checks.estimates import Estimate, Observed
from iopatterns.judging.checks.findings import ClaimsError, Part
from iopatterns.judging.checks.kinds import STATISTICS, Growth, Outcome, Ratio, Statistic, Value
from iopatterns.judging.checks.selections import ALL, Executions, listed
from iopatterns.raw.tuning_steps import TuningRecords


@dataclass(frozen=True)
class Check:
    """A statistic, and what is expected of it."""

    statistic: Statistic
    expectation: Expectation

    def parts(self, executions: Executions, steps: TuningRecords, how: How) -> Iterator[Part]:
        """Yield the parts for which there are measurements.

        ``steps``: as ``collect.tuned`` returns it. Raises ClaimsError where the statistic does not exist, for it
        divides by a mean of zero.
        """
        for label, found in self.observe(executions, steps):
            try:
                yield self.expectation.part(label, found, how)
            except (ZeroDivisionError, StatisticsError) as error:
                raise ClaimsError(f"{label or 'its statistic'}: {error}") from None

    def observe(self, executions: Executions, steps: TuningRecords) -> Iterator[tuple[str, Estimate | Observed]]:
        """Yield (label, what was found) for each part for which there are measurements, see `parts`."""
        yield from self.statistic.observe(executions, steps)

    @property
    def drives(self) -> set[str]:
        """The drives that it names."""
        named = [self.statistic.where, *(selection.levels for selection in self.statistic.selections)]
        return {str(drive) for levels in named for drive in listed(levels.get("drive", [])) if drive != ALL}

    @property
    def is_of_counters(self) -> bool:
        """Whether it asks for what only twins count."""
        return self.statistic.is_of_counters

    def on(self, drive: str) -> "Check | None":
        """Return the check put to another drive; None for one that compares drives or is about a certain one."""
        statistic = None if isinstance(self.expectation, Equals) else self.statistic.on(drive)
        return None if statistic is None else replace(self, statistic=statistic)

    def describe(self) -> str:
        """Return the statistic in words."""
        return self.statistic.describe()

    def expected(self) -> str:
        """Return what is expected in words, with the tolerance."""
        return self.expectation.describe(self.statistic.unit)

    def found(self, parts: Sequence[Part]) -> str:
        """Return what the statistic came to over all parts, as text."""
        texts = sorted({part.value for part in parts if isinstance(part.value, str)})
        numbers = [part.value for part in parts if not isinstance(part.value, str)]
        if texts:
            return ", ".join(texts)
        if not numbers:
            return "–"
        low, high = (self.statistic.printed(value) for value in (min(numbers), max(numbers)))
        unit = self.statistic.unit
        return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"

    def published_ids(self) -> list[str]:
        """Return the ids of the published values that the statistic is held against.

        Of the set-up, which a column tells, they are none.
        """
        name = self.expectation.published_id
        return [] if name is None or self.statistic.is_of_set_up else [name]

    def compared(self, parts: Sequence[Part]) -> float | str | None:
        """Return what stands beside the published value that the statistic should equal, in the unit of that."""
        return self.expectation.compared(parts[0].value) if len(parts) == 1 else None


@dataclass(frozen=True)
class Checks:
    """Several checks of one claim, each of a part or a reading of its words, which it ``says``; all must hold.

    It is used as a `Check` is. What it says of each begins with the number of the check.
    """

    says: tuple[str, ...]
    each: tuple[Check, ...]

    def parts(self, executions: Executions, steps: TuningRecords, how: How) -> Iterator[Part]:
        """Yield the parts of each, see `Check.parts`."""
        for number, check in enumerate(self.each, 1):
            for part in check.parts(executions, steps, how):
                yield replace(part, label=f"({number}) {part.label}".strip())

    def observe(self, executions: Executions, steps: TuningRecords) -> Iterator[tuple[str, Estimate | Observed]]:
        """Yield what was found of each, see `Check.observe`."""
        for number, check in enumerate(self.each, 1):
            for label, found in check.observe(executions, steps):
                yield f"({number}) {label}".strip(), found

    @property
    def drives(self) -> set[str]:
        """The drives that any of them names."""
        return {drive for check in self.each for drive in check.drives}

    @property
    def is_of_counters(self) -> bool:
        """Whether all of them ask for what only twins count."""
        return all(check.is_of_counters for check in self.each)

    def on(self, drive: str) -> "Checks | None":
        """Return those that can be put to another drive; None without any."""
        there = [(says, check.on(drive)) for says, check in zip(self.says, self.each, strict=True)]
        kept = [(says, check) for says, check in there if check is not None]
        return Checks(tuple(says for says, _ in kept), tuple(check for _, check in kept)) if kept else None

    def describe(self) -> str:
        """Return the statistics in words."""
        return _numbered(check.describe() for check in self.each)

    def expected(self) -> str:
        """Return what is expected of each in words."""
        return _numbered(check.expected() for check in self.each)

    def found(self, parts: Sequence[Part]) -> str:
        """Return what each came to over its parts, as text."""
        return _numbered(check.found(own) for check, own in self.of_each(parts))

    def of_each(self, parts: Sequence[Part]) -> list[tuple[Check, list[Part]]]:
        """Return each check with its own of the parts that `parts` has yielded."""
        return [
            (check, [part for part in parts if part.label.startswith(f"({number})")])
            for number, check in enumerate(self.each, 1)
        ]

    def published_ids(self) -> list[str]:
        """Return the ids of the published values that any is held against."""
        return [name for check in self.each for name in check.published_ids()]

    def compared(self, _parts: Sequence[Part]) -> None:
        """Return None: no published value is what several statistics should equal."""


def _numbered(texts: Iterable[str]) -> str:
    return "; ".join(f"({number}) {text}" for number, text in enumerate(texts, 1))


def of_claim(claim: Mapping[str, Any], published: pd.DataFrame) -> Check | Checks | None:
    """Return the check of a claim as claims.yaml has it, or its several ``checks``; None where it is untestable.

    ``published``: as ``published.load`` returns it. Raises ClaimsError.
    """
    if "check" in claim:
        return parse(claim["check"], published)
    if "checks" not in claim:
        return None
    each = claim["checks"]
    return Checks(tuple(one["says"] for one in each), tuple(parse(one["check"], published) for one in each))


def parse(check: Mapping[str, Any], published: pd.DataFrame) -> Check:
    """Return a check as claims.yaml has it; ``published``: as ``published.load`` returns it. Raises ClaimsError."""
    kinds = [kind for key, kind in STATISTICS.items() if key in check]
    if Growth in kinds and Ratio in kinds:
        kinds.remove(Ratio)  # it is what grows
    wanted = [kind for key, kind in EXPECTATIONS.items() if key in check]
    for found, known in ((kinds, STATISTICS), (wanted, EXPECTATIONS)):
        if len(found) != 1:
            raise ClaimsError(f"a check has one of {', '.join(known)}, not {len(found)} of them")
    (kind,), (expectation,) = kinds, wanted
    if kind.has_two_sides(check) != ("to" in check):
        raise ClaimsError("ratio, difference and outcome need 'to', and nothing else has it")
    if ("over_ratio" in check) != ("over_to" in check) or ("over_to" in check and kind is not Ratio):
        raise ClaimsError("over_ratio and over_to belong together, and to a ratio")
    if (kind is Outcome) != (expectation is Is):
        raise ClaimsError("an outcome is held against 'is', and nothing else is")
    if expectation is Within and not kind.is_around_one:
        raise ClaimsError("'within' is a margin around 1, for ratio, growth and value alone")
    if "with" in check and kind is not Value:
        raise ClaimsError("'with' names the means of a 'value', and belongs to nothing else")
    statistic = kind.parse(check)
    return Check(statistic, expectation.parse(check, statistic.measure, published))
