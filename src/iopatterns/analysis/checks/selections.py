"""Which executions a claim is about: levels by factor, an experiment, and the quantity asked of them."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.checks.findings import ClaimsError
from iopatterns.analysis.tables import block_label
from iopatterns.configuration import factors

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

    def each(self, rows: pd.DataFrame) -> Iterator[tuple[Levels, "Selection"]]:
        """Yield each combination of levels of factors that have several (those alone), with its own selection."""
        given = {name: levels_in(rows, name, level) for name, level in self.levels.items()}
        same = {name: self.written[name] for name in _NO_FACTORS & self.written.keys()}
        for one in combinations(given):
            yield (
                {name: level for name, level in one.items() if self.written[name] != level},
                Selection({**one, **same}, self.of),
            )

    def values(self, executions: pd.DataFrame, rows: pd.DataFrame, levels: Levels) -> Any:
        """Return the quantity in the executions that are selected, missing ones left out.

        ``rows`` are the executions of the check's own experiment, ``levels`` those of its ``where``.
        """
        if "experiment" in self.written:
            rows = of_experiment(executions, self.written["experiment"])
        column = quantities.get(self.of).column
        if column not in rows:
            return np.empty(0)
        # of the one column alone: a table has some eighty, and a scorecard a thousand selections
        return rows[column][_at(rows, {**levels, **self.levels})].dropna().to_numpy(dtype=np.float64)

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


def of_experiment(executions: pd.DataFrame, *experiments: str) -> pd.DataFrame:
    """Return the executions that any of some experiments asks for, each once; a cell may serve several."""
    wanted = set(experiments)
    return executions[executions["experiments"].map(lambda names: bool(wanted & set(names.split()))).astype(bool)]


def select(rows: pd.DataFrame, levels: Levels) -> pd.DataFrame:
    """Return the rows at some levels, by factor: ``{"rw": "read", "bs": "4k", "thinktime": "1 ms", "DRA": 1}``."""
    return rows[_at(rows, levels)]


def _at(rows: pd.DataFrame, levels: Levels) -> npt.NDArray[np.bool_]:
    """Return which rows are at some levels; none where a factor has no column."""
    found = np.ones(len(rows), dtype=np.bool_)
    for name, level in levels.items():
        factor = factors.get(name)
        if factor.column not in rows:
            return np.zeros(len(rows), dtype=np.bool_)
        found &= (rows[factor.column] == factor.read(level)).fillna(False).to_numpy(dtype=np.bool_)
    return found


def measured_levels(rows: pd.DataFrame, factor: str) -> list[Any]:
    """Return the levels that rows have of a factor, in order; none where they do not have the factor."""
    column = factors.column_of(factor)
    return sorted(rows[column].dropna().unique().tolist()) if column in rows else []


def levels_in(rows: pd.DataFrame, factor: str, level: Any) -> list[Any]:
    """Return the levels that a level of a selection stands for: one, those of a list, or all that were measured."""
    return measured_levels(rows, factor) if level == ALL else listed(level)


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
