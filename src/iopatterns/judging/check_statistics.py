"""The statistics in the checks of claims: parsed from claims.yaml, computed from repetitions, described as text.

A statistic selects repetitions (`Selection`, `CachedExecutions`) and computes numbers from them (`Estimate`).
`claims` compares these numbers with the statements of the source.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.statistics import (
    FloatArray,
    Interval,
    difference_interval,
    function_interval,
    mean_interval,
    product_interval,
)
from iopatterns.analysis.tables import block_label
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.configuration import factors
from iopatterns.judging.formulas import Formula, FormulaError
from iopatterns.raw.tuning_steps import TuningRecords

ALL_LEVELS = "all"
# Keys of a selection that are not factors: its quantity, and its experiment if it is not the experiment of the check
_NO_FACTORS = frozenset({"of", "experiment"})

Levels = Mapping[str, Any]


class ClaimsError(IoPatternsError):
    """A claim in a claims file is invalid; the message names the file and the claim."""

    exit_status = 2


# ---- Selecting repetitions


@dataclass(frozen=True)
class Selection:
    """The repetitions over which one mean is taken.

    Attributes:
        written: The selection as claims.yaml has it: levels by factor, and optionally ``of`` and ``experiment``.
        of: The name of the quantity, see `quantities.get_quantity`.
    """

    written: Levels
    of: str

    @classmethod
    def parse(cls, key: str, written: Any, of: str, *, single: bool = False) -> Selection:
        """Return the selection under a key of a check.

        Args:
            key: The key, for error messages.
            written: The selection as claims.yaml has it.
            of: The quantity of the check, used if the selection names none.
            single: Whether each factor must have exactly one level.

        Raises:
            ClaimsError: A factor, level or quantity does not exist, or a factor has several levels despite ``single``.
        """
        if single and not (
            isinstance(written, Mapping)
            and all(not isinstance(level, list) and level != ALL_LEVELS for level in written.values())
        ):
            raise ClaimsError(f"'{key}' needs one level for each factor, such as {{rw: read}}")
        found = cls(written, str(written.get("of", of)))
        _check_levels(key, found.levels)
        with _errors_prefixed("of"):
            quantities.get_quantity(found.of)
        return found

    @property
    def levels(self) -> Levels:
        """The selected levels by factor."""
        return {name: level for name, level in self.written.items() if name not in _NO_FACTORS}

    def each(self, rows: CachedExecutions) -> Iterator[tuple[Levels, Selection]]:
        """Yield each combination of the factors with several levels, and the selection of that combination."""
        given = {name: rows.levels_in(name, level) for name, level in self.levels.items()}
        others = {name: self.written[name] for name in _NO_FACTORS & self.written.keys()}
        for one in _combinations(given):
            yield (
                {name: level for name, level in one.items() if self.written[name] != level},
                Selection({**one, **others}, self.of),
            )

    def values(self, executions: CachedExecutions, rows: CachedExecutions, levels: Levels) -> FloatArray:
        """Return the quantity in the selected repetitions, without missing values.

        Args:
            executions: The repetitions of all experiments.
            rows: The repetitions of the check's experiment.
            levels: Further levels by factor. A level of the selection itself takes precedence.
        """
        if "experiment" in self.written:
            rows = executions.of_experiment(self.written["experiment"])
        return rows.values(quantities.get_quantity(self.of).column, {**levels, **self.levels})

    def describe(self) -> str:
        """Return the levels as text."""
        return _levels_text({name: level for name, level in self.written.items() if name != "of"})

    def describe_with_quantity(self) -> str:
        """Return the quantity and the levels as text."""
        return ", ".join(filter(None, (self.of, self.describe())))


class CachedExecutions:
    """A table of repetitions that caches selections. A scorecard makes thousands of selections from one table."""

    def __init__(self, table: pd.DataFrame) -> None:
        """Keep the table, which must not change.

        Args:
            table: One row per repetition, as `quantities.read_executions` returns it.
        """
        self.table = table
        self._of_experiments: dict[str, CachedExecutions] = {}
        self._at_levels: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}
        self._columns: dict[str, FloatArray] = {}

    def of_experiment(self, experiment: str) -> CachedExecutions:
        """Return the repetitions of one experiment."""
        if experiment not in self._of_experiments:
            self._of_experiments[experiment] = CachedExecutions(quantities.select_experiments(self.table, experiment))
        return self._of_experiments[experiment]

    def select(self, levels: Levels) -> pd.DataFrame:
        """Return the rows at some levels, such as ``{"rw": "read", "bs": "4k", "thinktime": "1 ms", "DRA": 1}``."""
        return self.table[self._at(levels)]

    def values(self, column: str, levels: Levels) -> FloatArray:
        """Return a column at some levels without missing values; an empty array if there is no such column."""
        if column not in self.table:
            return np.empty(0)
        if column not in self._columns:
            self._columns[column] = self.table[column].to_numpy(dtype=np.float64, na_value=np.nan)
        found = self._columns[column][self._at(levels)]
        return found[~np.isnan(found)]

    def measured_levels(self, factor: str, levels: Levels = MappingProxyType({})) -> list[Any]:
        """Return the measured levels of a factor at some levels of other factors, sorted."""
        column = factors.column_of(factor)
        if column not in self.table:
            return []
        return sorted(self.table[column][self._at(levels)].dropna().unique().tolist())

    def levels_in(self, factor: str, level: Any) -> list[Any]:
        """Return the levels that ``level`` stands for: one level, a list, or all measured levels for `ALL_LEVELS`."""
        return self.measured_levels(factor) if level == ALL_LEVELS else listed_levels(level)

    def _at(self, levels: Levels) -> npt.NDArray[np.bool_]:
        """Return for each row whether it has all levels; False if a factor has no column."""
        found = np.ones(len(self.table), dtype=np.bool_)
        for name, level in levels.items():
            key = (name, repr(level))
            if key not in self._at_levels:
                factor = factors.find_factor(name)
                if factor.column not in self.table:
                    return np.zeros(len(self.table), dtype=np.bool_)
                matches = self.table[factor.column] == factor.read(level)
                self._at_levels[key] = matches.fillna(False).to_numpy(dtype=np.bool_)
            found &= self._at_levels[key]
        return found


# ---- Estimates


class IntervalMethod(NamedTuple):
    """The method by which confidence intervals are computed.

    Attributes:
        confidence: Confidence level, between 0 and 1.
        method: ``t`` or ``bca``, see `statistics.interval`.
        seed: Seed of the bootstrap.
    """

    confidence: float
    method: str
    seed: int = 1


@dataclass(frozen=True)
class Estimate:
    """A number computed from the means of groups of repetitions.

    Attributes:
        groups: The measured values of each group.
        value: Returns the number. Raises ZeroDivisionError.
        interval: Returns the confidence interval of the number. Raises ZeroDivisionError or StatisticsError.
    """

    groups: Sequence[FloatArray]
    value: Callable[[], float]
    interval: Callable[[IntervalMethod], Interval]


@dataclass(frozen=True)
class ObservedOutcome:
    """What happened when a setting was changed, such as ``refused``."""

    outcome: str


def _mean(group: FloatArray) -> float:
    return float(group.mean())


def _quotient_of_products(above: Sequence[FloatArray], below: Sequence[FloatArray]) -> Estimate:
    """Return the product of the means ``above`` divided by the product of the means ``below``."""
    return Estimate(
        [*above, *below],
        lambda: math.prod(map(_mean, above)) / math.prod(map(_mean, below)),
        lambda method: product_interval(above, below, *method),
    )


# ---- The kinds of statistic


@dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """A statistic of the repetitions of one experiment. Each subclass is one key of a check in claims.yaml.

    Attributes:
        key: The key of the check that holds the statistic.
        selection_keys: The keys of the check that hold selections, in the order of ``selections``.
        has_to: Whether the check also has the key ``to``. A check with ``ratio`` always has it.
        is_around_one: Whether the statistic can be compared with 1.
        has_unit: Whether the statistic is in the unit of its first selection's quantity.
        is_of_set_up: Whether the statistic describes the set-up instead of a result.
        experiment: The name of the experiment.
        where: Levels by factor. The statistic is computed at each combination of these levels.
        of: The name of the quantity for selections that name none.
        selections: The selections of all means.
    """

    key: ClassVar[str]
    selection_keys: ClassVar[tuple[str, ...]] = ()
    has_to: ClassVar[bool] = False
    is_around_one: ClassVar[bool] = False
    has_unit: ClassVar[bool] = False
    is_of_set_up: ClassVar[bool] = False

    experiment: str
    where: Levels
    of: str
    selections: tuple[Selection, ...] = ()

    @classmethod
    def parse(cls, check: Mapping[str, Any]) -> Self:
        """Return the statistic of a check. Raises ClaimsError."""
        of = str(check.get("of", "bandwidth"))
        with _errors_prefixed("of"):
            quantities.get_quantity(of)
        where = check.get("where", {})
        own = cls._parse_own(check, of)
        for name in where:
            if name in _NO_FACTORS:
                raise ClaimsError(
                    f"'where' selects levels of factors; write '{name}' beside 'where', or in a selection"
                )
        _check_levels("where", where)
        return cls(experiment=check["experiment"], where=where, of=of, **own)

    @classmethod
    def _parse_own(cls, check: Mapping[str, Any], of: str) -> dict[str, Any]:
        """Return the selections, and the fields that this kind of statistic adds. Raises ClaimsError."""
        given = [key for key in cls.selection_keys if key in check]
        return {"selections": tuple(Selection.parse(key, check[key], of, single=key != cls.key) for key in given)}

    @property
    def is_of_counters(self) -> bool:
        """Whether the statistic is computed from counters of a twin (simulated drive), which a real drive lacks."""
        return any(quantities.get_quantity(selection.of).is_counted for selection in self.selections)

    @property
    def quantity(self) -> quantities.Quantity | None:
        """The quantity in whose unit the statistic is; None if the statistic has no unit."""
        return quantities.get_quantity(self.selections[0].of) if self.has_unit else None

    @property
    def unit(self) -> str:
        """The unit with a leading space; empty if the statistic has no unit."""
        return f" {self.quantity.unit}" if self.quantity and self.quantity.unit else ""

    def format(self, value: float) -> str:
        """Return a value as text without its unit: three decimals for ratios, four significant digits for amounts."""
        if not self.quantity or not value:
            return f"{value:.3f}"
        return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"

    def on(self, drive: str) -> Self | None:
        """Return this statistic for another drive; None if it compares drives or is about a particular drive."""
        if any("drive" in selection.levels for selection in self.selections):
            return None
        return replace(self, where={**self.where, "drive": drive})

    def describe(self) -> str:
        """Return the statistic as text: what is computed, and at which levels."""
        text = self._describe_own()
        return f"{text}; {_levels_text(self.where)}" if self.where else text

    @abstractmethod
    def _describe_own(self) -> str:
        """Return the statistic as text without ``where``."""

    def observe(
        self, executions: CachedExecutions, _steps: TuningRecords
    ) -> Iterator[tuple[str, Estimate | ObservedOutcome]]:
        """Yield a label and the statistic for each combination of levels that was measured.

        Args:
            executions: The repetitions of all experiments.
            steps: The tuning steps, as `collect.tuned` returns them.
        """
        rows = executions.of_experiment(self.experiment)
        where = {factor: rows.levels_in(factor, level) for factor, level in self.where.items()}
        for levels in _combinations(where):
            for text, estimate in self._estimates(executions, rows, levels):
                if all(len(group) for group in estimate.groups):
                    yield text, estimate

    def _estimates(
        self, executions: CachedExecutions, rows: CachedExecutions, levels: Levels
    ) -> Iterator[tuple[str, Estimate]]:
        """Yield labels and estimates at one combination of the levels of ``where``.

        Args:
            executions: The repetitions of all experiments.
            rows: The repetitions of the statistic's experiment.
            levels: The combination.
        """
        first, *others = self.selections
        for varied, one in first.each(rows):
            groups = [selection.values(executions, rows, levels) for selection in (one, *others)]
            yield _label({**levels, **varied}), self._estimate(groups)

    def _estimate(self, groups: Sequence[FloatArray]) -> Estimate:
        """Return the estimate from the measured values of each selection."""
        raise NotImplementedError

    def _describe_means(self) -> tuple[str, list[str]]:
        """Return ``mean <quantity>`` and each selection as text; ``means`` if the quantities differ."""
        names = list(dict.fromkeys(selection.of for selection in self.selections)) or [self.of]
        if len(names) == 1:
            return f"mean {names[0]}", [selection.describe() for selection in self.selections]
        return "means", [selection.describe_with_quantity() for selection in self.selections]


class Mean(Statistic):
    """The mean of a quantity, in the unit of the quantity."""

    key = "mean"
    selection_keys = ("mean",)
    has_unit = True

    def _describe_own(self) -> str:
        mean, (text,) = self._describe_means()
        return f"{mean}, {text}"

    def _estimate(self, groups: Sequence[FloatArray]) -> Estimate:
        (group,) = groups
        return Estimate(groups, lambda: _mean(group), lambda method: mean_interval(group, *method))


class Difference(Statistic):
    """The difference of two means, in the unit of the first one."""

    key = "difference"
    selection_keys = ("difference", "to")
    has_to = True
    has_unit = True

    def _describe_own(self) -> str:
        mean, (text, to) = self._describe_means()
        return f"{mean}, {text} − {to}"

    def _estimate(self, groups: Sequence[FloatArray]) -> Estimate:
        first, second = groups
        return Estimate(
            groups,
            lambda: float(first.mean() - second.mean()),
            lambda method: difference_interval(first, second, method.confidence),
        )


class Ratio(Statistic):
    """The ratio of two means; divided by another ratio if the check has ``over_ratio``."""

    key = "ratio"
    selection_keys = ("ratio", "to", "over_ratio", "over_to")
    is_around_one = True

    def _describe_own(self) -> str:
        mean, (text, to, *over) = self._describe_means()
        ratio = f"{text} / {to}"
        return f"{mean}, ({ratio}) / ({over[0]} / {over[1]})" if over else f"{mean}, {ratio}"

    def _estimate(self, groups: Sequence[FloatArray]) -> Estimate:
        above, below, *over = groups
        # (a / b) / (c / d) is a · d / (b · c)
        return _quotient_of_products([above, *over[1:]], [below, *over[:1]])


@dataclass(frozen=True, kw_only=True)
class Growth(Statistic):
    """The mean (or a ``ratio`` of means) at each level of a factor, divided by the value at the previous level."""

    key = "growth"
    selection_keys = ("ratio", "to")
    is_around_one = True
    factor: str

    @classmethod
    def _parse_own(cls, check: Mapping[str, Any], of: str) -> dict[str, Any]:
        with _errors_prefixed(cls.key):
            factors.find_factor(check[cls.key])
        return {"factor": check[cls.key], **super()._parse_own(check, of)}

    def _describe_own(self) -> str:
        mean, texts = self._describe_means()
        what = f"{mean}, {' / '.join(texts)}" if texts else mean
        return f"{what}, from each {self.factor} to the next"

    def _estimates(
        self, executions: CachedExecutions, rows: CachedExecutions, levels: Levels
    ) -> Iterator[tuple[str, Estimate]]:
        selections = self.selections or (Selection({}, self.of),)
        for before, after in itertools.pairwise(rows.measured_levels(self.factor, levels)):
            grown = f"{_level_label(self.factor, before)} to {_level_label(self.factor, after)}"
            texts = {factor: _level_label(factor, level) for factor, level in levels.items()} | {self.factor: grown}
            old, new = (
                [selection.values(executions, rows, {**levels, self.factor: level}) for selection in selections]
                for level in (before, after)
            )
            yield ", ".join(texts.values()), _quotient_of_products([new[0], *old[1:]], [*new[1:], old[0]])


@dataclass(frozen=True, kw_only=True)
class FormulaValue(Statistic):
    """A formula over named means, and over factors of ``where``, which stand for their levels."""

    key = "value"
    is_around_one = True
    formula: Formula
    text: str
    means: Mapping[str, Selection]

    @classmethod
    def _parse_own(cls, check: Mapping[str, Any], of: str) -> dict[str, Any]:
        given, text = check.get("with", {}), check[cls.key]
        with _errors_prefixed(cls.key):
            formula = Formula(text)
        known = {**given, **check.get("where", {})}
        for name in formula.names:
            if name not in known:
                hint = did_you_mean(name, list(known))
                raise ClaimsError(f"{cls.key}: '{name}' is named neither under 'with' nor under 'where'.{hint}")
            if name not in given and name in factors.FACTORS and factors.find_factor(name).is_text:
                raise ClaimsError(f"{cls.key}: the levels of '{name}' are not numbers")
        if not set(formula.names) & set(given):
            raise ClaimsError(f"{cls.key}: the formula uses no mean of measurements; name one under 'with'")
        means = {name: Selection.parse(f"with.{name}", one, of, single=True) for name, one in given.items()}
        return {"formula": formula, "text": text, "means": means, "selections": tuple(means.values())}

    def _describe_own(self) -> str:
        given = [f"{name}: mean {selection.describe_with_quantity()}" for name, selection in self.means.items()]
        return f"{self.text} ({'; '.join(given)})"

    def _estimates(
        self, executions: CachedExecutions, rows: CachedExecutions, levels: Levels
    ) -> Iterator[tuple[str, Estimate]]:
        names = [name for name in self.formula.names if name in self.means]
        others = [name for name in self.formula.names if name not in self.means]
        constants = {name: float(factors.find_factor(name).read(levels[name])) for name in others}
        groups = [self.means[name].values(executions, rows, levels) for name in names]

        def evaluate(means: Sequence[float]) -> float:
            return self.formula({**constants, **dict(zip(names, means, strict=True))})

        yield (
            _label(levels),
            Estimate(
                groups,
                lambda: evaluate([_mean(group) for group in groups]),
                lambda method: function_interval(evaluate, groups, method.confidence),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class ColumnMaximum(Statistic):
    """The maximum of a column of the measurements. It is not an estimate, so its interval has no width."""

    key = "column"
    is_of_set_up = True
    name: str

    @classmethod
    def _parse_own(cls, check: Mapping[str, Any], _of: str) -> dict[str, Any]:
        return {"name": check[cls.key]}

    def _describe_own(self) -> str:
        return f"largest {self.name.replace('_', ' ')}"

    def format(self, value: float) -> str:
        """Return a value as a whole number."""
        return f"{value:.0f}"

    def _estimates(
        self, _executions: CachedExecutions, rows: CachedExecutions, levels: Levels
    ) -> Iterator[tuple[str, Estimate]]:
        selected = rows.select(levels)
        if self.name in selected:
            column = selected[self.name].to_numpy(dtype=np.float64)
            largest = float(column.max()) if len(column) else math.nan
            yield _label(levels), Estimate([column], lambda: largest, lambda _: Interval(largest, largest, "none"))


@dataclass(frozen=True, kw_only=True)
class SettingOutcome(Statistic):
    """What happened when a setting of a drive was changed to a value."""

    key = "outcome"
    has_to = True
    setting: str
    to: int | str

    @classmethod
    def _parse_own(cls, check: Mapping[str, Any], _of: str) -> dict[str, Any]:
        with _errors_prefixed(cls.key):
            factors.find_setting(check[cls.key])
        where = check.get("where", {})
        if isinstance(check["to"], Mapping) or set(where) - {"drive"} or ALL_LEVELS in where.values():
            raise ClaimsError("with 'outcome', 'to' must be a value, and 'where' can only name drives")
        return {"setting": check[cls.key], "to": check["to"]}

    def on(self, _drive: str) -> Self | None:
        """Return None: the outcome depends on the drive, so the claim does not apply to another drive."""
        return None

    def _describe_own(self) -> str:
        return f"outcome of setting {self.setting} to {self.to}"

    def observe(
        self, _executions: CachedExecutions, steps: TuningRecords
    ) -> Iterator[tuple[str, Estimate | ObservedOutcome]]:
        """Yield each observed outcome once per drive, see `Statistic.observe`."""
        for levels in _combinations({name: listed_levels(level) for name, level in self.where.items()}):
            outcomes = {
                step["outcome"]
                for step in steps
                if step["setting"] == self.setting
                and step["wanted"] == self.to
                and self.experiment in step["experiments"]
                and step["drive"] == levels.get("drive", step["drive"])
            }
            for outcome in sorted(outcomes):
                yield _label(levels), ObservedOutcome(outcome)


# In the order in which error messages name them
STATISTICS: dict[str, type[Statistic]] = {
    kind.key: kind for kind in (Ratio, Difference, Mean, Growth, FormulaValue, ColumnMaximum, SettingOutcome)
}


# ---- Checking, combining and describing levels


def listed_levels(level: Any) -> list[Any]:
    """Return the levels of a list, or a list of the one level."""
    return list(level) if isinstance(level, list) else [level]


@contextlib.contextmanager
def _errors_prefixed(key: str) -> Iterator[None]:
    """Raise ClaimsError, with the key of the check in the message, for a name or level that does not exist."""
    try:
        yield
    except (factors.FactorError, FormulaError, quantities.QuantityError, ValueError) as error:
        raise ClaimsError(f"{key}: {error}") from None


def _check_levels(key: str, levels: Levels) -> None:
    """Raise ClaimsError, with ``key`` in the message, unless all names are factors and all levels can be read."""
    for name, level in levels.items():
        with _errors_prefixed(key):
            factor = factors.find_factor(name)
        with _errors_prefixed(f"{key}.{name}"):
            for each in listed_levels(level) if level != ALL_LEVELS else ():
                factor.read(each)


def _combinations(levels: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each combination of levels by factor."""
    for combination in itertools.product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def _level_label(factor: str, level: Any) -> str:
    if factor == "bs":
        return block_label(int(factors.find_factor(factor).read(level)))
    return level if isinstance(level, str) else factors.find_factor(factor).phrase.format(level)


def _label(levels: Levels) -> str:
    """Return the label of the part of a check that is computed at some levels."""
    return ", ".join(_level_label(factor, level) for factor, level in levels.items())


def _levels_text(levels: Levels) -> str:
    """Return levels as text, as claims.yaml has them."""
    texts = []
    for name, level in levels.items():
        phrase = factors.find_factor(name).phrase if name not in _NO_FACTORS else f"{name} {{}}"
        texts.append(f"each {name}" if level == ALL_LEVELS else phrase.format("|".join(map(str, listed_levels(level)))))
    return ", ".join(texts)
