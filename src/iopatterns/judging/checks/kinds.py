"""The kinds of statistic that a check may have: how each is written, computed, and put into words."""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from iopatterns.analysis import quantities
from iopatterns.base.yaml_schema import nearest
from iopatterns.configuration import factors
from iopatterns.judging.checks import estimates
from iopatterns.judging.checks.estimates import Estimate, Observed
from iopatterns.judging.checks.findings import ClaimsError
from iopatterns.judging.checks.selections import (
    ALL,
    Executions,
    Levels,
    Selection,
    check_where,
    combinations,
    described,
    label,
    level_text,
    listed,
)
from iopatterns.judging.formulas import Formula, FormulaError
from iopatterns.raw.tuning_steps import TuningRecords

Written = Mapping[str, Any]


@dataclass(frozen=True)
class Statistic(ABC):
    """What a check computes of the executions of an ``experiment``, at each combination of the levels of ``where``.

    ``of`` is the quantity where a selection names none.
    """

    key: ClassVar[str]
    is_around_one: ClassVar[bool] = False  # a margin around 1 makes sense of it
    is_of_set_up: ClassVar[bool] = False  # it tells what was asked for, not what was measured

    experiment: str
    where: Levels
    of: str

    @classmethod
    def has_two_sides(cls, _check: Written) -> bool:
        """Return whether a check of this kind has ``to``: it names what is subtracted, divided by, or asked for."""
        return "to" in cls.__annotations__

    @classmethod
    def parse(cls, check: Written) -> Self:
        """Return the statistic of a check. Raises ClaimsError."""
        of = str(check.get("of", "bandwidth"))
        try:
            quantities.get(of)
        except quantities.QuantityError as error:
            raise ClaimsError(f"of: {error}") from None
        where = check.get("where", {})
        own = cls.parse_own(check, of)
        cls.check_where(where)
        return cls(check["experiment"], where, of, **own)

    @classmethod
    @abstractmethod
    def parse_own(cls, check: Written, of: str) -> dict[str, Any]:
        """Return the fields of this kind of statistic. Raises ClaimsError."""

    @classmethod
    def check_where(cls, where: Levels) -> None:
        """Raise ClaimsError unless ``where`` is one for this kind."""
        check_where(where)

    @property
    def selections(self) -> list[Selection]:
        """What it selects executions by, besides ``where``."""
        return []

    @property
    def is_of_counters(self) -> bool:
        """Whether it is computed of what a twin has counted, which a real drive does not tell."""
        return any(quantities.get(selection.of).is_counted for selection in self.selections)

    @property
    def measure(self) -> quantities.Quantity | None:
        """The quantity in whose unit it is; None where it has no unit."""
        return None

    @property
    def unit(self) -> str:
        """Its unit, with a space before it; empty without any."""
        return f" {self.measure.unit}" if self.measure and self.measure.unit else ""

    def printed(self, value: float) -> str:
        """Return a value of it as text, without unit: a ratio with three decimals, an amount with four digits."""
        if not self.measure or not value:
            return f"{value:.3f}"
        return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"

    def on(self, drive: str) -> Self | None:
        """Return the same statistic of another drive; None where it compares drives or is about a certain one."""
        if any("drive" in selection.levels for selection in self.selections):
            return None
        return replace(self, where={**self.where, "drive": drive})

    def describe(self) -> str:
        """Return it in words: what is divided by what, and where."""
        text = self.describe_own()
        return f"{text}; {described(self.where)}" if self.where else text

    @abstractmethod
    def describe_own(self) -> str:
        """Return it in words without ``where``."""

    def observe(self, executions: Executions, _steps: TuningRecords) -> Iterator[tuple[str, Estimate | Observed]]:
        """Yield (label, what was found) for each part for which there are measurements.

        ``steps``: as ``collect.tuned`` returns it.
        """
        rows = executions.of_experiment(self.experiment)
        where = {factor: rows.levels_in(factor, level) for factor, level in self.where.items()}
        for levels in combinations(where):
            for text, estimate in self.estimates(executions, rows, levels):
                if all(len(group) for group in estimate.groups):
                    yield text, estimate

    def estimates(self, executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield (label, estimate) at one combination of levels; ``rows`` are the executions of the experiment."""
        raise NotImplementedError

    def _named(self, selections: Sequence[Selection]) -> tuple[str, list[str]]:
        """Return the mean of which quantity it is, and each selection in words, with its quantity if they differ."""
        names = list(dict.fromkeys(selection.of for selection in selections)) or [self.of]
        if len(names) == 1:
            return f"mean {names[0]}", [selection.described() for selection in selections]
        return "means", [selection.described_with_quantity() for selection in selections]


@dataclass(frozen=True)
class Mean(Statistic):
    """The mean at some levels, in the quantity's unit."""

    key = "mean"
    selection: Selection

    @classmethod
    def parse_own(cls, check: Written, of: str) -> dict[str, Any]:
        """Return the selection."""
        return {"selection": Selection.parse(cls.key, check[cls.key], of)}

    @property
    def selections(self) -> list[Selection]:
        """The one selection."""
        return [self.selection]

    @property
    def measure(self) -> quantities.Quantity:
        """The quantity."""
        return quantities.get(self.selection.of)

    def describe_own(self) -> str:
        """Return the quantity and the levels."""
        mean, (text,) = self._named(self.selections)
        return f"{mean}, {text}"

    def estimates(self, executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield the mean at each level of the selection."""
        for varied, one in self.selection.each(rows):
            yield label({**levels, **varied}), estimates.Mean([one.values(executions, rows, levels)])


@dataclass(frozen=True)
class Difference(Statistic):
    """The mean at some levels minus that at others, in the first one's unit."""

    key = "difference"
    selection: Selection
    to: Selection

    @classmethod
    def parse_own(cls, check: Written, of: str) -> dict[str, Any]:
        """Return both selections."""
        return {
            "selection": Selection.parse(cls.key, check[cls.key], of),
            "to": Selection.parse("to", check["to"], of, single=True),
        }

    @property
    def selections(self) -> list[Selection]:
        """Both selections."""
        return [self.selection, self.to]

    @property
    def measure(self) -> quantities.Quantity:
        """The quantity of the first selection."""
        return quantities.get(self.selection.of)

    def describe_own(self) -> str:
        """Return what is subtracted of what."""
        mean, (text, to) = self._named(self.selections)
        return f"{mean}, {text} − {to}"

    def estimates(self, executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield the difference at each level of the first selection."""
        for varied, one in self.selection.each(rows):
            groups = [each.values(executions, rows, levels) for each in (one, self.to)]
            yield label({**levels, **varied}), estimates.Difference(groups)


@dataclass(frozen=True)
class Ratio(Statistic):
    """The mean at some levels over that at others; and that ratio over another one, where there is one in ``over``."""

    key = "ratio"
    is_around_one = True
    selection: Selection
    to: Selection
    over: tuple[Selection, Selection] | None

    @classmethod
    def parse_own(cls, check: Written, of: str) -> dict[str, Any]:
        """Return both selections, and those of the ratio that theirs is divided by."""
        over = None
        if "over_ratio" in check:
            over = tuple(Selection.parse(key, check[key], of, single=True) for key in ("over_ratio", "over_to"))
        selection, to = (
            Selection.parse(cls.key, check[cls.key], of),
            Selection.parse("to", check["to"], of, single=True),
        )
        return {"selection": selection, "to": to, "over": over}

    @property
    def selections(self) -> list[Selection]:
        """All selections."""
        return [self.selection, self.to, *(self.over or ())]

    def describe_own(self) -> str:
        """Return what is divided by what."""
        mean, (text, to, *over) = self._named(self.selections)
        ratio = f"{text} / {to}"
        return f"{mean}, ({ratio}) / ({over[0]} / {over[1]})" if over else f"{mean}, {ratio}"

    def estimates(self, executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield the ratio at each level of the first selection."""
        for varied, one in self.selection.each(rows):
            above, below = [one], [self.to]
            if self.over:
                above.append(self.over[1])
                below.append(self.over[0])
            groups = [each.values(executions, rows, levels) for each in (*above, *below)]
            yield label({**levels, **varied}), estimates.Product(groups, len(above))


@dataclass(frozen=True)
class Growth(Statistic):
    """The mean, or a ``ratio`` of means, at each level of a factor over that at the level before."""

    key = "growth"
    is_around_one = True
    factor: str
    ratio: tuple[Selection, Selection] | None

    @classmethod
    def has_two_sides(cls, check: Written) -> bool:
        """Return whether a ratio grows."""
        return Ratio.key in check

    @classmethod
    def parse_own(cls, check: Written, of: str) -> dict[str, Any]:
        """Return the factor, and the selections of the ratio."""
        try:
            factors.get(check[cls.key])
        except factors.FactorError as error:
            raise ClaimsError(f"{cls.key}: {error}") from None
        ratio = None
        if Ratio.key in check:
            ratio = (
                Selection.parse(Ratio.key, check[Ratio.key], of, single=True),
                Selection.parse("to", check["to"], of, single=True),
            )
        return {"factor": check[cls.key], "ratio": ratio}

    @property
    def selections(self) -> list[Selection]:
        """Those of the ratio."""
        return list(self.ratio or ())

    def describe_own(self) -> str:
        """Return what grows, and with what."""
        mean, texts = self._named(self.selections)
        what = f"{mean}, {' / '.join(texts)}" if texts else mean
        return f"{what}, from each {self.factor} to the next"

    def estimates(self, executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield the growth from each level of the factor to the next."""
        above, below = self.ratio or (Selection({}, self.of), None)

        def take(selection: Selection, level: Any) -> Any:
            return selection.values(executions, rows, {**levels, self.factor: level})

        for before, after in itertools.pairwise(rows.measured_levels(self.factor, levels)):
            grown = f"{level_text(self.factor, before)} to {level_text(self.factor, after)}"
            texts = {factor: level_text(factor, level) for factor, level in levels.items()} | {self.factor: grown}
            groups = [take(above, after), take(above, before)]
            if below:
                groups = [groups[0], take(below, before), take(below, after), groups[1]]
            yield ", ".join(texts.values()), estimates.Product(groups, len(groups) // 2)


@dataclass(frozen=True)
class Value(Statistic):
    """Arithmetic over named means, and over factors of ``where`` by their level."""

    key = "value"
    is_around_one = True
    formula: Formula
    text: str
    means: Mapping[str, Selection]

    @classmethod
    def parse_own(cls, check: Written, of: str) -> dict[str, Any]:
        """Return the formula and its means."""
        given, text = check.get("with", {}), check[cls.key]
        try:
            formula = Formula(text)
        except FormulaError as error:
            raise ClaimsError(f"{cls.key}: {error}") from None
        known = {**given, **check.get("where", {})}
        for name in formula.names:
            if name not in known:
                raise ClaimsError(
                    f"{cls.key}: '{name}' is neither under with nor under where.{nearest(name, list(known))}"
                )
            if name not in given and name in factors.FACTORS and factors.get(name).is_text:
                raise ClaimsError(f"{cls.key}: the levels of '{name}' are no numbers to compute with")
        if not set(formula.names) & set(given):
            raise ClaimsError(f"{cls.key}: it needs a mean from what was measured; name one under with")
        means = {name: Selection.parse(f"with.{name}", one, of, single=True) for name, one in given.items()}
        return {"formula": formula, "text": text, "means": means}

    @property
    def selections(self) -> list[Selection]:
        """Those of the means."""
        return list(self.means.values())

    def describe_own(self) -> str:
        """Return the formula, and each mean in it."""
        given = [f"{name}: mean {selection.described_with_quantity()}" for name, selection in self.means.items()]
        return f"{self.text} ({'; '.join(given)})"

    def estimates(self, executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield what the formula comes to."""
        names = [name for name in self.formula.names if name in self.means]
        others = [name for name in self.formula.names if name not in self.means]
        constants = {name: float(factors.get(name).read(levels[name])) for name in others}
        groups = [self.means[name].values(executions, rows, levels) for name in names]
        yield label(levels), estimates.Computed(groups, self.formula, names, constants)


@dataclass(frozen=True)
class Column(Statistic):
    """The largest value of a column of the measurements."""

    key = "column"
    is_of_set_up = True
    name: str

    @classmethod
    def parse_own(cls, check: Written, _of: str) -> dict[str, Any]:
        """Return the name of the column."""
        return {"name": check[cls.key]}

    def describe_own(self) -> str:
        """Return the column."""
        return f"largest {self.name.replace('_', ' ')}"

    def printed(self, value: float) -> str:
        """Return a whole number."""
        return f"{value:.0f}"

    def estimates(self, _executions: Executions, rows: Executions, levels: Levels) -> Iterator[tuple[str, Estimate]]:
        """Yield the largest value."""
        here = rows.select(levels)
        if self.name in here:
            yield label(levels), estimates.Largest([here[self.name].to_numpy(dtype=np.float64)])


@dataclass(frozen=True)
class Outcome(Statistic):
    """What became of setting a drive's setting to a value."""

    key = "outcome"
    setting: str
    to: int | str

    @classmethod
    def parse_own(cls, check: Written, _of: str) -> dict[str, Any]:
        """Return the setting and the value asked for."""
        try:
            factors.get_setting(check[cls.key])
        except factors.FactorError as error:
            raise ClaimsError(f"{cls.key}: {error}") from None
        where = check.get("where", {})
        if isinstance(check["to"], Mapping) or set(where) - {"drive"} or ALL in where.values():
            raise ClaimsError("an outcome's 'to' is a value, and its 'where' has drives alone, by name")
        return {"setting": check[cls.key], "to": check["to"]}

    def on(self, _drive: str) -> Self | None:
        """Return None: how a setting comes out is a matter of the drive."""
        return None

    def describe_own(self) -> str:
        """Return the setting and the value asked for."""
        return f"outcome of setting {self.setting} to {self.to}"

    def observe(self, _executions: Executions, steps: TuningRecords) -> Iterator[tuple[str, Estimate | Observed]]:
        """Yield each outcome that came out, once for each drive."""
        for levels in combinations({name: listed(level) for name, level in self.where.items()}):
            outcomes = {
                step["outcome"]
                for step in steps
                if step["setting"] == self.setting
                and step["wanted"] == self.to
                and self.experiment in step["experiments"]
                and step["drive"] == levels.get("drive", step["drive"])
            }
            for outcome in sorted(outcomes):
                yield label(levels), Observed(outcome)


# In the order in which messages name them
STATISTICS: dict[str, type[Statistic]] = {
    kind.key: kind for kind in (Ratio, Difference, Mean, Growth, Value, Column, Outcome)
}
