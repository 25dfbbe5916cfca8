"""Which executions a claim is about: levels by factor, an experiment, and the quantity asked of them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.tables import block_label
from iopatterns.configuration import factors
from iopatterns.judging.checks.findings import ClaimsError

ALL = "all"
# What a selection may say beside levels by factor: the quantity, and the experiment where it is not the check's own
_NO_FACTORS = frozenset({"of", "experiment"})

Levels = Mapping[str, Any]


@dataclass(frozen=True)
class Selection:
    """What selects executions for one mean, as it is ``written``; ``of`` is the quantity."""

    written: Levels
    of: str

    @classmethod
    def parse(cls, key: str, written: Any, of: str, *, single: bool = False) -> "Selection":
        """Return the selection under a key of a check. Raises ClaimsError.

        ``of`` is the quantity where it names none itself. Where it must be ``single``, no factor may have several
        levels.
        """
        if single and not (isinstance(written, Mapping) and all(_is_one(level) for level in written.values())):
            raise ClaimsError(f"'{key}' needs one level for each factor, such as {{rw: read}}")
        found = cls(written, str(written.get("of", of)))
        check_levels(key, found.levels)
        try:
            quantities.get(found.of)
        except quantities.QuantityError as error:
            raise ClaimsError(f"of: {error}") from None
        return found

    @property
    def levels(self) -> Levels:
        """Return the levels by factor."""
        return {name: level for name, level in self.written.items() if name not in _NO_FACTORS}

    def each(self, rows: "Executions") -> Iterator[tuple[Levels, "Selection"]]:
        """Yield each combination of levels of factors that have several (those alone), with its own selection."""
        given = {name: rows.levels_in(name, level) for name, level in self.levels.items()}
        same = {name: self.written[name] for name in _NO_FACTORS & self.written.keys()}
        for one in combinations(given):
            yield (
                {name: level for name, level in one.items() if self.written[name] != level},
                Selection({**one, **same}, self.of),
            )

    def values(self, executions: "Executions", rows: "Executions", levels: Levels) -> npt.NDArray[np.float64]:
        """Return the quantity in the executions that are selected, missing ones left out.

        ``rows`` are the executions of the check's own experiment, ``levels`` those of its ``where``.
        """
        if "experiment" in self.written:
            rows = executions.of_experiment(self.written["experiment"])
        return rows.values(quantities.get(self.of).column, {**levels, **self.levels})

    def described(self) -> str:
        """Return its levels in words."""
        return described({name: level for name, level in self.written.items() if name != "of"})

    def described_with_quantity(self) -> str:
        """Return its quantity and its levels in words."""
        return ", ".join(filter(None, (self.of, self.described())))


def check_levels(key: str, levels: Levels) -> None:
    """Raise ClaimsError unless each name is a factor's, and each level reads as one of it; ``key`` has them."""
    for name, level in levels.items():
        try:
            factor = factors.get(name)
        except factors.FactorError as error:
            raise ClaimsError(f"{key}: {error}") from None
        for each in listed(level) if level != ALL else ():
            try:
                factor.read(each)
            except ValueError as error:
                raise ClaimsError(f"{key}.{name}: {error}") from None


def check_where(where: Levels) -> None:
    """Raise ClaimsError unless what stands under ``where`` are levels by factor."""
    for name in where:
        if name in _NO_FACTORS:
            raise ClaimsError(f"where has levels by factor; '{name}' belongs beside it, or to a mean")
    check_levels("where", where)


class Executions:
    """A table of executions that is asked again and again: a scorecard makes some thousand selections of it.

    ``table``: as ``quantities.read_executions`` returns it. What has been looked up is kept, so it must not change.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.table = table
        self._of_experiments: dict[str, Executions] = {}
        self._at_levels: dict[tuple[str, str], npt.NDArray[np.bool_]] = {}
        self._columns: dict[str, npt.NDArray[np.float64]] = {}

    def of_experiment(self, experiment: str) -> "Executions":
        """Return those that an experiment asks for."""
        if experiment not in self._of_experiments:
            self._of_experiments[experiment] = Executions(quantities.of_experiment(self.table, experiment))
        return self._of_experiments[experiment]

    def select(self, levels: Levels) -> pd.DataFrame:
        """Return the rows at some levels, by factor: ``{"rw": "read", "bs": "4k", "thinktime": "1 ms", "DRA": 1}``."""
        return self.table[self._at(levels)]

    def values(self, column: str, levels: Levels) -> npt.NDArray[np.float64]:
        """Return a column at some levels, missing values left out; nothing where there is no such column."""
        if column not in self.table:
            return np.empty(0)
        if column not in self._columns:
            self._columns[column] = self.table[column].to_numpy(dtype=np.float64, na_value=np.nan)
        found = self._columns[column][self._at(levels)]
        return found[~np.isnan(found)]

    def measured_levels(self, factor: str, levels: Levels = MappingProxyType({})) -> list[Any]:
        """Return the levels that a factor has where others are at theirs, in order; none where it has no column."""
        column = factors.column_of(factor)
        if column not in self.table:
            return []
        return sorted(self.table[column][self._at(levels)].dropna().unique().tolist())

    def levels_in(self, factor: str, level: Any) -> list[Any]:
        """Return the levels that a level of a selection stands for: one, those of a list, or all that were measured."""
        return self.measured_levels(factor) if level == ALL else listed(level)

    def _at(self, levels: Levels) -> npt.NDArray[np.bool_]:
        """Return which rows are at some levels; none where a factor has no column."""
        found = np.ones(len(self.table), dtype=np.bool_)
        for name, level in levels.items():
            key = (name, repr(level))
            if key not in self._at_levels:
                self._at_levels[key] = self._at_level(factors.get(name), level)
            found &= self._at_levels[key]
        return found

    def _at_level(self, factor: factors.Factor, level: Any) -> npt.NDArray[np.bool_]:
        if factor.column not in self.table:
            return np.zeros(len(self.table), dtype=np.bool_)
        there: npt.NDArray[np.bool_] = (
            (self.table[factor.column] == factor.read(level)).fillna(False).to_numpy(dtype=np.bool_)
        )
        return there


def listed(level: Any) -> list[Any]:
    """Return the levels of a list, or the one."""
    return list(level) if isinstance(level, list) else [level]


def _is_one(level: Any) -> bool:
    return not isinstance(level, list) and level != ALL


def combinations(levels: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    """Yield each combination of levels by factor, in their order."""
    for combination in itertools.product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def level_text(factor: str, level: Any) -> str:
    """Return a level as the label of a part has it."""
    if factor == "bs":
        return block_label(int(factors.get(factor).read(level)))
    return level if isinstance(level, str) else factors.get(factor).phrase.format(level)


def label(levels: Levels) -> str:
    """Return the label of a part of a check at some levels."""
    return ", ".join(level_text(factor, level) for factor, level in levels.items())


def described(levels: Levels) -> str:
    """Return levels in words, as they are written."""
    texts = []
    for name, level in levels.items():
        phrase = factors.get(name).phrase if name not in _NO_FACTORS else f"{name} {{}}"
        texts.append(f"each {name}" if level == ALL else phrase.format("|".join(map(str, listed(level)))))
    return ", ".join(texts)
