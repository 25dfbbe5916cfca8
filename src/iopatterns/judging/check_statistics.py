"""Compute the statistics that claims.yaml names, such as a ratio of two means.

A claim is a statement of a paper or data sheet. The file claims.yaml lists claims, and each claim has one or more
checks. A check names a statistic (`Statistic`). The statistic selects repetitions (`Selection`, `CachedExecutions`) and
computes numbers from them (`Estimate`). The module `claims` compares these numbers with the claim.

A repetition is one run of fio. A factor is an option or drive setting that an experiment varies, such as the block
size. The values of a factor are its levels.
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
from iopatterns.raw.tuning_steps import OUTCOMES, TuningRecords

ALL_LEVELS = "all"
# Keys of a selection that are not factors: its quantity, and its experiment if it is not the experiment of the check
_NO_FACTORS = frozenset({"of", "experiment"})

Levels = Mapping[str, Any]


class ClaimsError(IoPatternsError):
    """The error raised for an invalid claim, or a statistic that cannot be computed.

    Claims are listed in the claims.yaml of a study. The message of `claims.load_claims` names the file and the claim.
    The functions that parse or compute a part of a claim raise the error with a message about this part only.
    """

    exit_status = 2


# ---- Selecting repetitions


@dataclass(frozen=True)
class Selection:
    """The repetitions over which one mean is taken, and the quantity to average.

    A repetition is one run of fio. Repetitions are selected by levels (values) of factors (fio options or drive
    settings).

    Attributes:
        written: The selection as a check in claims.yaml contains it: levels by factor, such as ``{rw: read, bs: 4k}``.
            The optional keys ``of`` and ``experiment`` replace the quantity and the experiment of the check.
        of: The name of the quantity, such as ``bandwidth`` or ``clat p99``; see `quantities.get_quantity`.
    """

    written: Levels
    of: str

    @classmethod
    def parse(cls, key: str, written: Any, of: str, *, single: bool = False) -> Selection:
        """Return the selection under one key of a check in claims.yaml.

        For the key ``to`` of the check ``{ratio: {rw: read}, to: {rw: randread}, at_least: 1}``, the selection is the
        repetitions of random reads.

        Args:
            key: The key that contains the selection, such as ``to``; used in error messages.
            written: The value of the key: a mapping of factors to a level, a list of levels, or ``all``.
            of: The quantity of the check, used if the selection has no key ``of``.
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
        """The selected levels by factor: one level, a list of levels, or ``all``.

        The levels are as in claims.yaml, such as ``{"rw": "read", "bs": ["4k", "64k"]}``. The keys ``of`` and
        ``experiment`` of the selection are left out, because they are not factors.
        """
        return {name: level for name, level in self.written.items() if name not in _NO_FACTORS}

    def each(self, rows: CachedExecutions) -> Iterator[tuple[Levels, Selection]]:
        """Yield a selection for each combination of the selected levels.

        The selection ``{rw: read, bs: [4k, 64k]}``, for example, gives one selection for 4k and another one for 64k.

        Args:
            rows: The repetitions of the check's experiment. The level ``all`` stands for all levels that occur in them.

        Yields:
            A pair: the levels that were taken from a list or from ``all``, such as ``{"bs": "4k"}``; and a selection
            with a single level of each factor.
        """
        given = {name: rows.levels_in(name, level) for name, level in self.levels.items()}
        others = {name: self.written[name] for name in _NO_FACTORS & self.written.keys()}
        for one in _combinations(given):
            yield (
                {name: level for name, level in one.items() if self.written[name] != level},
                Selection({**one, **others}, self.of),
            )

    def values(self, executions: CachedExecutions, rows: CachedExecutions, levels: Levels) -> FloatArray:
        """Return the values of the quantity in the selected repetitions.

        Each factor of the selection must have a single level, as in the selections that `each` yields.

        Args:
            executions: The repetitions of all experiments. They are used if the selection names its own experiment.
            rows: The repetitions of the check's experiment.
            levels: One level of each further factor, such as ``{"iodepth": 8}``. For a factor that the selection names,
                the level of the selection is used instead.

        Returns:
            One value for each repetition, in the unit of the quantity. Missing values are left out.
        """
        if "experiment" in self.written:
            rows = executions.of_experiment(self.written["experiment"])
        return rows.values(quantities.get_quantity(self.of).column, {**levels, **self.levels})

    def describe(self) -> str:
        """Return the levels of the selection as text, such as ``randread, 4k|64k``.

        The text also names the experiment, if the selection does.
        """
        return _levels_text({name: level for name, level in self.written.items() if name != "of"})

    def describe_with_quantity(self) -> str:
        """Return quantity and levels of the selection as text: ``latency, read, 4k``.

        The text also names the experiment, if the selection does.
        """
        return ", ".join(filter(None, (self.of, self.describe())))


class CachedExecutions:
    """A table of repetitions that remembers which rows it has selected.

    A repetition is one run of fio. Rows are selected by levels (values) of factors (fio options or drive settings). The
    scorecard selects rows from one table thousands of times; the cache makes this fast.

    Attributes:
        table: The table, one row per repetition, as `quantities.read_executions` returns it.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        """Keep a reference to the table; the caller must not change the table afterwards.

        Args:
            table: One row per repetition, as `quantities.read_executions` returns it.
        """
        self.table = table
        self._of_experiments: dict[str, CachedExecutions] = {}
        self._at_levels: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}
        self._columns: dict[str, FloatArray] = {}

    def of_experiment(self, experiment: str) -> CachedExecutions:
        """Return the repetitions of one experiment.

        The table of the result has no rows if no repetition belongs to the experiment.

        Args:
            experiment: The name of the experiment.
        """
        if experiment not in self._of_experiments:
            self._of_experiments[experiment] = CachedExecutions(quantities.select_experiments(self.table, experiment))
        return self._of_experiments[experiment]

    def select(self, levels: Levels) -> pd.DataFrame:
        """Return the rows in which all given factors have the given levels.

        A factor is a fio option or drive setting, and its values are levels.

        Args:
            levels: One level for each factor, such as ``{"rw": "read", "bs": "4k", "thinktime": "1 ms", "DRA": 1}``.
                Levels are written as in claims.yaml (``4k``), or as in the columns of the table (4096).

        Returns:
            The selected rows, with all columns. There are none if the table lacks the column of a factor.

        Raises:
            FactorError: A factor does not exist.
            ValueError: A level is not valid for its factor.
        """
        return self.table[self._at(levels)]

    def values(self, column: str, levels: Levels) -> FloatArray:
        """Return the values of a column in the rows with the given levels.

        Args:
            column: The name of a column with numbers, such as ``bandwidth_mb_per_s``.
            levels: One level for each factor, such as ``{"rw": "read", "bs": "4k"}``.

        Returns:
            One value for each row. Missing values are left out. The array is empty if the table has no such column.
        """
        if column not in self.table:
            return np.empty(0)
        if column not in self._columns:
            self._columns[column] = self.table[column].to_numpy(dtype=np.float64, na_value=np.nan)
        found = self._columns[column][self._at(levels)]
        return found[~np.isnan(found)]

    def measured_levels(self, factor: str, levels: Levels = MappingProxyType({})) -> list[Any]:
        """Return the levels of a factor that occur in the table, sorted.

        Args:
            factor: The name of the factor, such as ``bs``.
            levels: One level for each of some other factors. Only rows with these levels count.

        Returns:
            The levels as in the column of the factor: block sizes, for example, in bytes. The list is empty if the
            table has no such column.
        """
        column = factors.column_of(factor)
        if column not in self.table:
            return []
        return sorted(self.table[column][self._at(levels)].dropna().unique().tolist())

    def levels_in(self, factor: str, level: Any) -> list[Any]:
        """Return the levels of a factor that claims.yaml selects, as a list.

        Args:
            factor: The name of the factor, such as ``bs``.
            level: The selection in claims.yaml: one level (``4k``), a list of levels (``[4k, 64k]``), or `ALL_LEVELS`
                for all levels that occur in the table.
        """
        return self.measured_levels(factor) if level == ALL_LEVELS else listed_levels(level)

    def _at(self, levels: Levels) -> npt.NDArray[np.bool_]:
        """Return a Boolean mask of the rows in which all factors have the given levels.

        No row matches if the table has no column for a factor.
        """
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
        confidence: Confidence level between 0 and 1, such as 0.95.
        method: ``t`` (Student's t) or ``bca`` (bias-corrected and accelerated bootstrap), see
            `statistics.mean_interval`.
        seed: Seed of the bootstrap.
    """

    confidence: float
    method: str
    seed: int = 1


@dataclass(frozen=True)
class Estimate:
    """A number computed from the means of groups of repetitions, with its interval.

    A repetition is one run of fio. The number is computed only when ``value`` is called, and the interval only when
    ``interval`` is called.

    Attributes:
        groups: The measured values of each group, one array for each mean.
        value: A function without arguments that computes the number. It raises ZeroDivisionError if a divisor is zero.
        interval: A function that computes the confidence interval of the number by a given method. It raises
            ZeroDivisionError or StatisticsError.
    """

    groups: Sequence[FloatArray]
    value: Callable[[], float]
    interval: Callable[[IntervalMethod], Interval]


@dataclass(frozen=True)
class ObservedOutcome:
    """What happened when a drive setting was changed.

    A drive setting is, for example, a bit of the caching mode page.

    Attributes:
        outcome: ``already so``, ``changed``, ``not changeable``, ``refused``, ``ignored`` or ``not applicable``. The
            module `tuning_steps` explains these outcomes.
    """

    outcome: str


def _mean(group: FloatArray) -> float:
    return float(group.mean())


def _quotient_of_products(above: Sequence[FloatArray], below: Sequence[FloatArray]) -> Estimate:
    """Return the estimate of a quotient of products of means.

    Args:
        above: The groups whose means are multiplied in the numerator.
        below: The groups whose means are multiplied in the denominator.
    """
    return Estimate(
        [*above, *below],
        lambda: math.prod(map(_mean, above)) / math.prod(map(_mean, below)),
        lambda method: product_interval(above, below, *method),
    )


# ---- The kinds of statistic


@dataclass(frozen=True, kw_only=True)
class Statistic(ABC):
    """A statistic of the repetitions of one experiment, named by a check of a claim.

    A claim is a published statement, and a check of the claim compares a statistic with a number. Each subclass stands
    for one key of a check in claims.yaml, such as ``ratio``. A selection is the set of repetitions over which one mean
    is taken.

    Attributes:
        key: The key of the check that names the statistic, such as ``ratio``.
        selection_keys: The keys of the check that contain selections, in the order of ``selections``.
        has_to: Whether the check must have the key ``to``. A check with the key ``ratio`` must always have it.
        is_around_one: Whether a check may test if the statistic is equivalent to 1.
        has_unit: Whether the statistic has a unit: that of the first selection's quantity.
        is_of_set_up: Whether the statistic describes the set-up of an experiment instead of a result.
        experiment: The name of the experiment.
        where: The levels of each factor, such as ``{"bs": ["4k", "64k"]}``. The statistic is computed for each
            combination of these levels.
        of: The name of the quantity for selections that name none, such as ``bandwidth``.
        selections: The selection of each mean.
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
        """Return the statistic that a check in claims.yaml names.

        Call this method on the subclass for the key of the check, such as `Ratio` for ``ratio``; see `STATISTICS`.

        Args:
            check: The content of ``check`` in claims.yaml. It contains at least the key of the subclass and
                ``experiment``, such as ``{"mean": {"rw": "read"}, "experiment": "mix"}``.

        Raises:
            ClaimsError: A factor, level, quantity or key of the check is invalid.
        """
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
        """Return the constructor arguments that depend on the kind of statistic.

        These are ``selections``, and the fields that a subclass adds.

        Raises:
            ClaimsError: A factor, level or quantity does not exist.
        """
        given = [key for key in cls.selection_keys if key in check]
        return {"selections": tuple(Selection.parse(key, check[key], of, single=key != cls.key) for key in given)}

    @property
    def is_of_counters(self) -> bool:
        """Whether a selection averages an internal counter of a drive.

        Examples are block erases per request. Simulated drives have such counters, and real drives do not report them.
        """
        return any(quantities.get_quantity(selection.of).is_counted for selection in self.selections)

    @property
    def quantity(self) -> quantities.Quantity | None:
        """The quantity whose unit the statistic has; None if the statistic has no unit."""
        return quantities.get_quantity(self.selections[0].of) if self.has_unit else None

    @property
    def unit(self) -> str:
        """The unit of the statistic with a leading space, such as ``" MB/s"``.

        The text is empty if the statistic has no unit.
        """
        return f" {self.quantity.unit}" if self.quantity and self.quantity.unit else ""

    def format(self, value: float) -> str:
        """Return a value of the statistic as text, without its unit.

        A ratio, a growth and the value of a formula have three decimals, and so has 0. Any other value is rounded to
        four significant digits (``1.235``), or to a whole number if that has more digits (``123457``).

        Args:
            value: The value, in the unit of the statistic.
        """
        if not self.quantity or not value:
            return f"{value:.3f}"
        return f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}"

    def possible(self) -> tuple[float, float]:
        """Return the smallest and the largest value that any measurement could give.

        Means of quantities are at least 0. A mean divided by itself is 1.
        """
        return (0.0, math.inf)

    def possible_text(self) -> str:
        """Return the possible values as text, such as ``0 or more``."""
        low, high = self.possible()
        return f"{low:g}{self.unit} or more" if math.isinf(high) else f"{low:g} to {high:g}{self.unit}"

    def on(self, drive: str) -> Self | None:
        """Return the same statistic for another drive.

        Args:
            drive: The name of the other drive.

        Returns:
            The statistic, restricted to repetitions on the drive. None if a selection names a drive: such a statistic
            compares drives, so it cannot be about a single drive.
        """
        if any("drive" in selection.levels for selection in self.selections):
            return None
        return replace(self, where={**self.where, "drive": drive})

    def describe(self) -> str:
        """Return the statistic as text: what is computed, and at which levels.

        An example for a ratio is ``mean bandwidth, read / randread; 4k|64k, c400``.
        """
        text = self._describe_own()
        return f"{text}; {_levels_text(self.where)}" if self.where else text

    @abstractmethod
    def _describe_own(self) -> str:
        """Return what is computed as text, without the levels in ``where``."""

    def observe(
        self, executions: CachedExecutions, _steps: TuningRecords
    ) -> Iterator[tuple[str, Estimate | ObservedOutcome]]:
        """Yield the value of the statistic for each measured combination of levels.

        A combination has one level of each factor, such as a block size of 4 KiB and a depth of 8. A combination
        without a measured value for one of the means is left out.

        Args:
            executions: The repetitions of all experiments.
            _steps: What happened to each drive setting, as `tuning_steps.read_tuning_records` returns it. Only
                `SettingOutcome` uses it.

        Yields:
            A pair: the combination of levels as text, such as ``4 KiB, iodepth 8``; and the estimate of the statistic,
            or the outcome of changing a drive setting (`SettingOutcome`). The text may be empty if there is only one
            combination.
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
        """Yield the estimates at one combination of the levels in ``where``.

        A selection with several levels of a factor gives several estimates.

        Args:
            executions: The repetitions of all experiments.
            rows: The repetitions of the statistic's experiment.
            levels: The combination of levels, by factor.

        Yields:
            The levels as text, and the estimate.
        """
        first, *others = self.selections
        for varied, one in first.each(rows):
            groups = [selection.values(executions, rows, levels) for selection in (one, *others)]
            yield _label({**levels, **varied}), self._estimate(groups)

    def _estimate(self, groups: Sequence[FloatArray]) -> Estimate:
        """Return the estimate that follows from the measured values of each selection."""
        raise NotImplementedError

    def _describe_means(self) -> tuple[str, list[str]]:
        """Return the quantity and the selections as text.

        Returns:
            ``mean`` with the name of the quantity, and the levels of each selection. If the quantities differ,
            ``means``, and the quantity and levels of each selection.
        """
        names = list(dict.fromkeys(selection.of for selection in self.selections)) or [self.of]
        if len(names) == 1:
            return f"mean {names[0]}", [selection.describe() for selection in self.selections]
        return "means", [selection.describe_with_quantity() for selection in self.selections]


class Mean(Statistic):
    """The mean of a quantity, in the unit of the quantity.

    An example in claims.yaml is ``{mean: {rw: read}, of: latency, at_most: 3}``.
    """

    key = "mean"
    selection_keys = ("mean",)
    has_unit = True

    def possible(self) -> tuple[float, float]:
        """Return 0 and the largest possible mean of the quantity; 1 for a share."""
        return (0.0, _largest(self.selections[0]))

    def _describe_own(self) -> str:
        mean, (text,) = self._describe_means()
        return f"{mean}, {text}"

    def _estimate(self, groups: Sequence[FloatArray]) -> Estimate:
        (group,) = groups
        return Estimate(groups, lambda: _mean(group), lambda method: mean_interval(group, *method))


class Difference(Statistic):
    """The difference of the means of two groups of measurements, in the unit of the first.

    A check of a claim selects each group by a key in claims.yaml. The result is the mean of the group under the key
    ``difference``, minus the mean of the group under the key ``to``.
    """

    key = "difference"
    selection_keys = ("difference", "to")
    has_to = True
    has_unit = True

    def possible(self) -> tuple[float, float]:
        """Return the possible values: from minus the largest mean under ``to`` to the largest first mean."""
        first, second = self.selections
        return (0.0, 0.0) if first == second else (-_largest(second), _largest(first))

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
    """The ratio of two means, optionally divided by the ratio of two further means.

    The mean of the selection under ``ratio`` is divided by the mean of the selection under ``to``. If the check has the
    keys ``over_ratio`` and ``over_to``, this ratio is divided by the ratio of their means.
    """

    key = "ratio"
    selection_keys = ("ratio", "to", "over_ratio", "over_to")
    is_around_one = True

    def possible(self) -> tuple[float, float]:
        """Return 1 and 1 if the statistic divides each mean by itself, otherwise 0 and infinity."""
        above, below, *over = self.selections
        same = {repr(each) for each in (above, *over[1:])} == {repr(each) for each in (below, *over[:1])}
        return (1.0, 1.0) if same else super().possible()

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
    """The growth of a mean from each level of a factor to the next, as a ratio.

    An example is the bandwidth with 8 jobs, divided by the bandwidth with 4 jobs. If the check of the claim has the
    keys ``ratio`` and ``to``, it selects two groups of measurements. The mean of the first group is then divided by the
    mean of the second at each level, and the growth of this quotient is computed.

    Attributes:
        factor: The name of the factor, such as ``iodepth``.
    """

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
    """The value of an arithmetic formula over means and over levels of factors.

    A factor is an option or drive setting, such as the I/O depth, and its values are levels.

    Attributes:
        formula: The parsed formula.
        text: The formula as in claims.yaml, such as ``100 / (99 + cost)``.
        means: The selection of each mean, by the name of the mean in the formula. The other names in the formula are
            factors in ``where``. Each of them stands for the level of the factor.
    """

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

    def possible(self) -> tuple[float, float]:
        """Return the values that the formula can have, whatever its means are."""
        means = {name: (0.0, _largest(selection)) for name, selection in self.means.items()}
        levels = {
            name: [float(factors.find_factor(name).read(level)) for level in listed_levels(self.where[name])]
            for name in self.formula.names
            if name not in means and self.where[name] != ALL_LEVELS
        }
        known = {name: (min(numbers), max(numbers)) for name, numbers in levels.items()}
        unknown = dict.fromkeys(self.formula.names, (-math.inf, math.inf))
        return self.formula.possible({**unknown, **known, **means})

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
    """The maximum of a column of the measurements.

    The column describes the set-up of an experiment, such as the largest I/O depth, instead of a result. The maximum is
    known exactly, so its confidence interval has zero width.

    Attributes:
        name: The name of the column in the table that `quantities.read_executions` returns, such as
            ``iodepth_reached``.
    """

    key = "column"
    is_of_set_up = True
    name: str

    @classmethod
    def _parse_own(cls, check: Mapping[str, Any], _of: str) -> dict[str, Any]:
        return {"name": check[cls.key]}

    def _describe_own(self) -> str:
        return f"largest {self.name.replace('_', ' ')}"

    def format(self, value: float) -> str:
        """Return a value of the statistic as text, rounded to an integer.

        Args:
            value: The value, in the unit of the column.
        """
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
    """What happened when a setting of a drive was changed to a value.

    Attributes:
        setting: The name of the drive setting, such as ``DRA`` (disable read-ahead).
        to: The value that the setting was changed to, such as 1.
    """

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
        """Return None, because the outcome on one drive cannot be confirmed on another."""
        return None

    def possible_text(self) -> str:
        """Return the possible outcomes as text."""
        return ", ".join(OUTCOMES)

    def _describe_own(self) -> str:
        return f"outcome of setting {self.setting} to {self.to}"

    def observe(
        self, _executions: CachedExecutions, steps: TuningRecords
    ) -> Iterator[tuple[str, Estimate | ObservedOutcome]]:
        """Yield each outcome of changing the drive setting to the value.

        An example of an outcome is ``refused``. Equal outcomes are yielded once for each drive that ``where`` names,
        and once in total if ``where`` names no drive.

        Args:
            _executions: Not used.
            steps: What happened to each drive setting, as `tuning_steps.read_tuning_records` returns it.

        Yields:
            A pair: the drive as text (empty if ``where`` names no drive), and the outcome.
        """
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


def _largest(selection: Selection) -> float:
    """Return the largest value that the quantity of a selection can have."""
    return quantities.get_quantity(selection.of).largest


def listed_levels(level: Any) -> list[Any]:
    """Return the levels of a factor as a list.

    Args:
        level: A single level, such as ``"4k"``, or a list of levels. A list is copied.
    """
    return list(level) if isinstance(level, list) else [level]


@contextlib.contextmanager
def _errors_prefixed(key: str) -> Iterator[None]:
    """Turn an error about a name or level into a ClaimsError that names a key.

    Args:
        key: The key of the check in which the name or level occurs.
    """
    try:
        yield
    except (factors.FactorError, FormulaError, quantities.QuantityError, ValueError) as error:
        raise ClaimsError(f"{key}: {error}") from None


def _check_levels(key: str, levels: Levels) -> None:
    """Raise ClaimsError unless all factors exist and all their levels are valid.

    Args:
        key: The key of the check that contains the levels, for the message.
        levels: The levels by factor, as in claims.yaml.
    """
    for name, level in levels.items():
        with _errors_prefixed(key):
            factor = factors.find_factor(name)
        with _errors_prefixed(f"{key}.{name}"):
            for each in listed_levels(level) if level != ALL_LEVELS else ():
                factor.read(each)


def _combinations(levels: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each combination of levels, one level per factor, as a mapping by factor.

    Args:
        levels: The levels of each factor.
    """
    for combination in itertools.product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def _level_label(factor: str, level: Any) -> str:
    if factor == "bs":
        return block_label(int(factors.find_factor(factor).read(level)))
    return level if isinstance(level, str) else factors.find_factor(factor).phrase.format(level)


def _label(levels: Levels) -> str:
    """Return a combination of levels as text, such as ``4 KiB, iodepth 8``."""
    return ", ".join(_level_label(factor, level) for factor, level in levels.items())


def _levels_text(levels: Levels) -> str:
    """Return levels of claims.yaml as text; several levels are joined by ``|``."""
    texts = []
    for name, level in levels.items():
        phrase = factors.find_factor(name).phrase if name not in _NO_FACTORS else f"{name} {{}}"
        texts.append(f"each {name}" if level == ALL_LEVELS else phrase.format("|".join(map(str, listed_levels(level)))))
    return ", ".join(texts)
