"""Holds what a source states against what was measured: each claim's check, its parts, and how it came out."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns import config, factors
from iopatterns.analysis import quantities
from iopatterns.analysis.formulas import Formula, FormulaError
from iopatterns.analysis.statistics import (
    EQUIVALENCE_ALPHA,
    Interval,
    StatisticsError,
    difference_interval,
    equivalence_of,
    function_interval,
    interval,
    product_interval,
)
from iopatterns.analysis.tables import block_label
from iopatterns.errors import IoPatternsError
from iopatterns.factors import column_of

SCHEMA = "workflow/schemas/claims.schema.yaml"

REPRODUCED = "reproduced"
WITHIN = "within tolerance"
DEVIATES = "deviates"
UNDECIDED = "undecided"  # the interval reaches to both sides of the bound; more executions would tell
CONTRADICTED = "contradicted by the source itself"
UNTESTABLE = "not testable here"
# From best to worst: the status of a claim is that of its worst part
_ORDER = (REPRODUCED, WITHIN, UNDECIDED, DEVIATES)

# A published number counts as reproduced up to this relative error, and as within tolerance up to the second
EXACT, TOLERANCE = 0.05, 0.20

_STATISTICS = ("ratio", "difference", "mean", "growth", "value", "column", "outcome")
_EXPECTATIONS = ("at_most", "at_least", "equals", "within", "is")

# What a selection may say beside levels by factor: the quantity, and the experiment where it is not the check's own
_NO_FACTORS = frozenset({"of", "experiment"})

Selection = Mapping[str, Any]


class ClaimsError(IoPatternsError):
    """A file of claims is wrong; the message names the file and the claim."""

    exit_status = 2


@dataclass(frozen=True)
class Part:
    """A check at one combination of levels: ``label`` says which, ``value`` has the unit of the statistic.

    ``low`` and ``high`` are the interval that decided (NaN without one); ``off`` is how far the value lies on the wrong
    side of its bound, relative to the bound, 0 on the right side.
    """

    label: str
    value: float | str
    low: float
    high: float
    status: str
    off: float


@dataclass(frozen=True)
class _Product:
    """The product of the means ``above`` over that of the means ``below``."""

    above: list[Any]
    below: list[Any]

    @property
    def groups(self) -> list[Any]:
        return [*self.above, *self.below]

    def value(self) -> float:
        return math.prod(float(g.mean()) for g in self.above) / math.prod(float(g.mean()) for g in self.below)

    def interval(self, confidence: float, method: str, seed: int) -> Interval:
        return product_interval(self.above, self.below, confidence, method, seed)


@dataclass(frozen=True)
class _Mean:
    """The mean of the one group."""

    groups: list[Any]

    def value(self) -> float:
        return float(self.groups[0].mean())

    def interval(self, confidence: float, method: str, seed: int) -> Interval:
        return interval(self.groups[0], confidence, method, seed)


@dataclass(frozen=True)
class _Difference:
    """The mean of the first group minus that of the second."""

    groups: list[Any]

    def value(self) -> float:
        return float(self.groups[0].mean() - self.groups[1].mean())

    def interval(self, confidence: float, _method: str, _seed: int) -> Interval:
        return difference_interval(self.groups[0], self.groups[1], confidence)


@dataclass(frozen=True)
class _Largest:
    """The largest value of the one group: no estimate, so its interval is the value."""

    groups: list[Any]

    def value(self) -> float:
        return float(self.groups[0].max())

    def interval(self, _confidence: float, _method: str, _seed: int) -> Interval:
        return Interval(self.value(), self.value(), "none")


@dataclass(frozen=True)
class _Function:
    """What a formula comes to for the groups' means, named in their order, and constants."""

    formula: Formula
    names: list[str]
    groups: list[Any]
    constants: Mapping[str, float]

    def _at(self, means: Sequence[float]) -> float:
        return self.formula({**self.constants, **dict(zip(self.names, means, strict=True))})

    def value(self) -> float:
        return self._at([float(group.mean()) for group in self.groups])

    def interval(self, confidence: float, _method: str, _seed: int) -> Interval:
        return function_interval(self._at, self.groups, confidence)


_Statistic = _Product | _Mean | _Difference | _Largest | _Function


@dataclass(frozen=True)
class Judge:
    """All that the claims of one study are held against.

    ``executions``: as ``quantities.read_executions`` returns it. ``tuned``: as ``collect.tuned`` returns it.
    ``values``: as ``published.load`` returns it.
    """

    executions: pd.DataFrame
    tuned: Sequence[Mapping[str, Any]]
    values: pd.DataFrame
    confidence: float = 0.95
    method: str = "t"
    seed: int = 1

    def parts(self, check: Mapping[str, Any]) -> list[Part]:
        """Return the parts of a check for which there are measurements.

        Raises ClaimsError where the statistic does not exist, for it divides by a mean of zero.
        """
        if "outcome" in check:
            return list(self._outcomes(check))
        rows = of_experiment(self.executions, check["experiment"])
        where = {factor: self._levels(rows, factor, level) for factor, level in check.get("where", {}).items()}
        found = []
        for levels in _combinations(where):
            for label, statistic in self._statistics(check, rows, levels):
                if not all(len(group) for group in statistic.groups):
                    continue
                try:
                    found.append(self._part(check, label, statistic))
                except (ZeroDivisionError, StatisticsError) as error:
                    raise ClaimsError(f"{label or 'its statistic'}: {error}") from None
        return found

    def _levels(self, rows: pd.DataFrame, factor: str, level: Any) -> list[Any]:
        if level != "all":
            return list(level) if isinstance(level, list) else [level]
        column = column_of(factor)
        return sorted(rows[column].dropna().unique().tolist()) if column in rows else []

    def _values(self, check: Mapping[str, Any], rows: pd.DataFrame, levels: Selection, selection: Selection) -> Any:
        """Return the quantity of a check, or that of the selection, in the executions that the selection names."""
        if "experiment" in selection:
            rows = of_experiment(self.executions, selection["experiment"])
        measure = quantities.get(quantity_of(check, selection))
        asked = {name: level for name, level in selection.items() if name not in _NO_FACTORS}
        values = select(rows, {**levels, **asked}).get(measure.column, pd.Series(dtype="float64"))
        return values.dropna().to_numpy(dtype=np.float64)

    def _statistics(
        self, check: Mapping[str, Any], rows: pd.DataFrame, levels: Selection
    ) -> Iterator[tuple[str, "_Statistic"]]:
        """Yield (label, statistic) at one combination of levels."""
        first = next(name for name in _STATISTICS if name in check)

        def take(selection: Selection) -> Any:
            return self._values(check, rows, levels, selection)

        if "growth" in check:
            yield from self._growth(check, rows, levels)
        elif first == "column":
            here = select(rows, levels)
            if check["column"] in here:
                yield _label(levels), _Largest([here[check["column"]].to_numpy(dtype=np.float64)])
        elif first == "value":
            formula, given = Formula(check["value"]), check.get("with", {})
            names = [name for name in formula.names if name in given]
            numbers = {name: factors.get(name).read(level) for name, level in levels.items()}
            constants = {name: float(numbers[name]) for name in formula.names if name not in given}
            yield _label(levels), _Function(formula, names, [take(given[name]) for name in names], constants)
        else:
            given = {name: self._levels(rows, name, level) for name, level in check[first].items()}
            for selection in _combinations(given):
                varied = {name: level for name, level in selection.items() if check[first][name] != level}
                label, above = _label({**levels, **varied}), [take(selection)]
                below = [take(check["to"])] if "to" in check else []
                if "over_ratio" in check:
                    above.append(take(check["over_to"]))
                    below.append(take(check["over_ratio"]))
                if first == "ratio":
                    yield label, _Product(above, below)
                else:
                    yield label, _Mean(above) if first == "mean" else _Difference([*above, *below])

    def _growth(
        self, check: Mapping[str, Any], rows: pd.DataFrame, levels: Selection
    ) -> Iterator[tuple[str, "_Statistic"]]:
        """Yield (label, statistic) from each level of the factor that a check is about to the next."""
        factor, here = check["growth"], select(rows, levels)
        if column_of(factor) not in here:
            return

        def take(level: Any, selection: Selection) -> Any:
            return self._values(check, rows, {**levels, factor: level}, selection)

        for before, after in itertools.pairwise(sorted(here[column_of(factor)].dropna().unique().tolist())):
            label = _label({**levels, factor: f"{_text(factor, before)} to {_text(factor, after)}"})
            if "ratio" in check:
                above = [take(after, check["ratio"]), take(before, check["to"])]
                yield label, _Product(above, [take(after, check["to"]), take(before, check["ratio"])])
            else:
                yield label, _Product([take(after, {})], [take(before, {})])

    def _part(self, check: Mapping[str, Any], label: str, statistic: "_Statistic") -> Part:
        value = statistic.value()
        if "within" in check:
            test = equivalence_of(statistic.interval(1 - 2 * EQUIVALENCE_ALPHA, "t", self.seed), check["within"])
            margin = 1 + check["within"]
            off = max(value / margin, 1 / (value * margin)) - 1 if value > 0 else math.inf
            status = {"equivalent": REPRODUCED, "undecided": UNDECIDED}.get(test.verdict)
            status = status or (DEVIATES if test.high < 1 / margin or test.low > margin else UNDECIDED)
            return Part(label, value, test.low, test.high, status, max(off, 0.0))
        low, high, _ = statistic.interval(self.confidence, self.method, self.seed)
        if "equals" in check:
            error = error_of(value, self.bound(check))
            return Part(label, value, low, high, of_error(error, check.get("tolerance", TOLERANCE)), abs(error))
        return self._against_bound(check, label, value, low, high)

    def _against_bound(self, check: Mapping[str, Any], label: str, value: float, low: float, high: float) -> Part:
        """Judge by the whole interval, or by the value alone where one execution gives none."""
        low_used, high_used = (value, value) if math.isnan(low) else (low, high)
        name = "at_most" if "at_most" in check else "at_least"
        bound, tolerance = self.bound(check), check.get("tolerance", 0.0)
        sign = 1.0 if name == "at_most" else -1.0
        # far from the bound on the wrong side is positive; an interval's ends by how bad they are
        worst, best = sorted((sign * (high_used - bound), sign * (low_used - bound)), reverse=True)
        slack = tolerance * abs(bound) + 1e-9 * abs(bound)
        status = (
            REPRODUCED
            if worst <= 1e-9 * abs(bound)
            else WITHIN
            if worst <= slack
            else DEVIATES
            if best > slack
            else UNDECIDED
        )
        return Part(label, value, low, high, status, max(0.0, sign * (value - bound) / (abs(bound) or 1.0)))

    def _outcomes(self, check: Mapping[str, Any]) -> Iterator[Part]:
        where = {name: _listed(level) for name, level in check.get("where", {}).items()}
        for levels in _combinations(where):
            outcomes = {
                step["outcome"]
                for step in self.tuned
                if step["setting"] == check["outcome"]
                and step["wanted"] == check["to"]
                and check["experiment"] in step["experiments"].split()
                and step["drive"] == levels.get("drive", step["drive"])
            }
            for outcome in sorted(outcomes):
                status = REPRODUCED if outcome in check["is"] else DEVIATES
                yield Part(_label(levels), outcome, math.nan, math.nan, status, 0.0)

    def bound(self, check: Mapping[str, Any]) -> float:
        """Return the bound of a check in the unit of its statistic: a number, or the published value of that id."""
        bound = _bound(check)
        if isinstance(bound, str):
            return float(self.values.loc[self.values["id"] == bound, "value"].iloc[0]) * self.unit_of_bound(check)
        return float(bound)

    def unit_of_bound(self, check: Mapping[str, Any]) -> float:
        """Return how many of the statistic's unit one of the unit is in which the bound was published."""
        measure, bound = measure_of(check), _bound(check)
        if measure is None or not isinstance(bound, str):
            return 1.0
        return measure.from_unit(str(self.values.loc[self.values["id"] == bound, "unit"].iloc[0])) or 1.0


def measure_of(check: Mapping[str, Any]) -> quantities.Quantity | None:
    """Return the quantity in whose unit a check's statistic is: a mean's or a difference's; all others have no unit."""
    selection = check.get("mean", check.get("difference"))
    return None if selection is None else quantities.get(quantity_of(check, selection))


def quantity_of(check: Mapping[str, Any], selection: Selection) -> str:
    """Return the name of the quantity that a selection of a check is about."""
    return str(selection.get("of", check.get("of", "bandwidth")))


def _bound(check: Mapping[str, Any]) -> float | str:
    bound: float | str = next(check[name] for name in ("at_most", "at_least", "equals") if name in check)
    return bound


def error_of(measured: float, published: float) -> float:
    """Return by what share a published number was missed; infinite for a published zero that is none."""
    if published:
        return measured / published - 1
    return 0.0 if not measured else math.inf


def of_error(error: float, tolerance: float = TOLERANCE) -> str:
    """Return the status of a published number that was missed by a relative error."""
    return REPRODUCED if abs(error) <= EXACT else WITHIN if abs(error) <= tolerance else DEVIATES


def status_of(parts: Sequence[Part]) -> str:
    """Return the status of a claim: that of its worst part, or not testable without any."""
    return max((part.status for part in parts), key=_ORDER.index, default=UNTESTABLE)


def kinds(executions: pd.DataFrame) -> dict[str, str]:
    """Return the kind of each drive measured (twin, file …), by name."""
    return dict(zip(executions["drive"], executions["drive_kind"], strict=True))


def of_experiment(executions: pd.DataFrame, *experiments: str) -> pd.DataFrame:
    """Return the executions that any of some experiments asks for, each once; a cell may serve several."""
    wanted = set(experiments)
    return executions[executions["experiments"].map(lambda names: bool(wanted & set(names.split()))).astype(bool)]


def select(rows: pd.DataFrame, levels: Selection) -> pd.DataFrame:
    """Return the rows at some levels, by factor: ``{"rw": "read", "bs": "4k", "thinktime": "1 ms", "DRA": 1}``."""
    for factor, level in levels.items():
        column = column_of(factor)
        if column not in rows:
            return rows.iloc[:0]
        rows = rows[(rows[column] == factors.get(factor).read(level)).fillna(False).astype(bool)]
    return rows


def _listed(level: Any) -> list[Any]:
    return level if isinstance(level, list) else [level]


def _combinations(levels: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for combination in itertools.product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def _text(factor: str, level: Any) -> str:
    if factor == "bs":
        return block_label(int(factors.get(factor).read(level)))
    return f"{level} jobs" if factor == "numjobs" else str(level) if isinstance(level, str) else f"{factor} {level}"


def _label(levels: Selection) -> str:
    return ", ".join(
        level if isinstance(level, str) and " to " in level else _text(factor, level)
        for factor, level in levels.items()
    )


def load(root: Path, file: str, values: pd.DataFrame) -> dict[str, Any]:
    """Return the content of a file of claims, checked. Raises ClaimsError or ConfigError naming file and claim."""
    content: dict[str, Any] = config.read_yaml(root, file)
    config.check(file, content, config.read_yaml(root, SCHEMA))
    known = set(values["id"])
    for claim in content["claims"]:
        where = f"{file}: claim '{claim['id']}'"
        if claim["id"] in known:
            raise ClaimsError(f"{where}: another claim or published value has this id. Choose another.")
        known.add(claim["id"])
        if ("check" in claim) == ("untestable" in claim):
            raise ClaimsError(f"{where}: give either a check, or with untestable the reason why there is none")
        if "check" in claim:
            _check_check(claim["check"], values, where)
    for contradiction in content.get("contradictions", []):
        where = f"{file}: contradiction '{contradiction['id']}'"
        for name in [*contradiction["between"], *contradiction["contradicted"]]:
            if name not in known:
                raise ClaimsError(f"{where}: no claim and no published value has the id '{name}'.{_near(name, known)}")
        stray = set(contradiction["contradicted"]) - set(contradiction["between"])
        if stray:
            raise ClaimsError(f"{where}: {', '.join(sorted(stray))} must also stand under between")
    return content


def _check_check(check: Mapping[str, Any], values: pd.DataFrame, where: str) -> None:
    statistics = [name for name in _STATISTICS if name in check and not (name == "ratio" and "growth" in check)]
    expectations = [name for name in _EXPECTATIONS if name in check]
    if len(statistics) != 1:
        raise ClaimsError(f"{where}: a check has one of {', '.join(_STATISTICS)}, not {len(statistics)} of them")
    if len(expectations) != 1:
        raise ClaimsError(f"{where}: a check has one of {', '.join(_EXPECTATIONS)}, not {len(expectations)} of them")
    if ("ratio" in check or "difference" in check or "outcome" in check) != ("to" in check):
        raise ClaimsError(f"{where}: ratio, difference and outcome need 'to', and nothing else has it")
    if ("over_ratio" in check) != ("over_to" in check) or ("over_to" in check and statistics != ["ratio"]):
        raise ClaimsError(f"{where}: over_ratio and over_to belong together, and to a ratio")
    if (statistics == ["outcome"]) != (expectations == ["is"]):
        raise ClaimsError(f"{where}: an outcome is held against 'is', and nothing else is")
    if "within" in check and statistics not in (["ratio"], ["growth"], ["value"]):
        raise ClaimsError(f"{where}: 'within' is a margin around 1, for ratio, growth and value alone")
    if ("with" in check) and statistics != ["value"]:
        raise ClaimsError(f"{where}: 'with' names the means of a 'value', and belongs to nothing else")
    try:
        _check_factors(check)
    except factors.FactorError as error:
        raise ClaimsError(f"{where}: {error}") from None
    if "value" in check:
        _check_formula(check, where)
    for each in [check, *(selection for _, selection in selections_of(check))]:
        try:
            quantities.get(each.get("of", "bandwidth") if isinstance(each, dict) else "bandwidth")
        except quantities.QuantityError as error:
            raise ClaimsError(f"{where}: of: {error}") from None
    _check_selections(check, where)
    if expectations[0] in ("at_most", "at_least", "equals"):
        _check_bound(check, values, where)


def _check_factors(check: Mapping[str, Any]) -> None:
    """Raise FactorError for the name of a factor or setting that does not exist."""
    if "growth" in check:
        _of("growth", factors.get, check["growth"])
    if "outcome" in check:
        _of("outcome", factors.get_setting, check["outcome"])
    for name, selection in selections_of(check):
        for factor in selection if isinstance(selection, dict) else ():
            if factor not in _NO_FACTORS:
                _of(name, factors.get, factor)


def _of(key: str, get: Callable[[str], factors.Factor], name: str) -> None:
    try:
        get(name)
    except factors.FactorError as error:
        raise factors.FactorError(f"{key}: {error}") from None


def _check_bound(check: Mapping[str, Any], values: pd.DataFrame, where: str) -> None:
    """Raise ClaimsError unless a bound is a number, or the id of a published value in a unit of the statistic."""
    bound, measure = _bound(check), measure_of(check)
    if not isinstance(bound, str):
        return
    if bound not in set(values["id"]):
        raise ClaimsError(f"{where}: no published value has the id '{bound}'.{_near(bound, values['id'])}")
    unit = values.loc[values["id"] == bound, "unit"].iloc[0]
    if measure is not None and measure.from_unit(unit) is None:
        raise ClaimsError(f"{where}: '{bound}' was published in '{unit}', what is held against it is in {measure.unit}")


def _check_formula(check: Mapping[str, Any], where: str) -> None:
    """Raise ClaimsError unless each name of a formula is a mean of ``with`` or a factor of ``where``."""
    try:
        names = Formula(check["value"]).names
    except FormulaError as error:
        raise ClaimsError(f"{where}: value: {error}") from None
    known = {**check.get("with", {}), **check.get("where", {})}
    for name in names:
        if name not in known:
            raise ClaimsError(f"{where}: value: '{name}' is neither under with nor under where.{_near(name, known)}")
        if name not in check.get("with", {}) and factors.get(name).is_text:
            raise ClaimsError(f"{where}: value: the levels of '{name}' are no numbers to compute with")
    if not set(names) & set(check.get("with", {})):
        raise ClaimsError(f"{where}: value: it needs a mean from what was measured; name one under with")


def _check_selections(check: Mapping[str, Any], where: str) -> None:
    """Raise ClaimsError for levels that stand where one selection of executions is asked for."""
    if "outcome" in check:
        if (
            isinstance(check["to"], dict)
            or set(check.get("where", {})) - {"drive"}
            or "all" in check.get("where", {}).values()
        ):
            raise ClaimsError(f"{where}: an outcome's 'to' is a value, and its 'where' has drives alone, by name")
        return
    for name, selection in selections_of(check):
        for factor, level in selection.items() if isinstance(selection, dict) else ():
            if factor in _NO_FACTORS and name == "where":
                raise ClaimsError(f"{where}: where has levels by factor; '{factor}' belongs beside it, or to a mean")
            for each in _listed(level) if factor not in _NO_FACTORS and level != "all" else ():
                try:
                    factors.get(factor).read(each)
                except ValueError as error:
                    raise ClaimsError(f"{where}: {name}.{factor}: {error}") from None
    named = {f"with.{name}": selection for name, selection in check.get("with", {}).items()}
    for name, selection in {**{name: check.get(name, {}) for name in ("to", "over_ratio", "over_to")}, **named}.items():
        if not isinstance(selection, dict) or any(
            isinstance(level, list) or level == "all" for level in selection.values()
        ):
            raise ClaimsError(f"{where}: '{name}' needs one level for each factor, such as {{rw: read}}")


def selections_of(check: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield (key, selection) for all that a check selects executions by."""
    for name in ("where", "ratio", "to", "over_ratio", "over_to", "difference", "mean"):
        if name in check:
            yield name, check[name]
    for name, selection in check.get("with", {}).items():
        yield f"with.{name}", selection


def _near(name: str, known: Any) -> str:
    return config.nearest(name, known)
