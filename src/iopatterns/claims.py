"""Holds what a source states against what was measured: each claim's check, its parts, and how it came out."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns import config
from iopatterns.errors import IoPatternsError
from iopatterns.statistics import difference_interval, equivalence, product_interval
from iopatterns.tables import block_label
from iopatterns.tuning.queue import SETTINGS as QUEUE_SETTINGS
from iopatterns.units import size_bytes

SCHEMA = "workflow/schemas/claims.schema.yaml"
BANDWIDTH = "bandwidth_mb_per_s"

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

_STATISTICS = ("ratio", "difference", "mean", "growth", "column", "outcome")
_EXPECTATIONS = ("at_most", "at_least", "equals", "within", "is")

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
class Judge:
    """All that the claims of one study are held against.

    ``executions``: as ``collect.measurements`` returns it, with the column bandwidth_mb_per_s. ``tuned``: as
    ``collect.tuned`` returns it. ``values``: as ``published.load`` returns it.
    """

    executions: pd.DataFrame
    tuned: Sequence[Mapping[str, Any]]
    values: pd.DataFrame
    confidence: float = 0.95
    method: str = "t"
    seed: int = 1

    def parts(self, check: Mapping[str, Any]) -> list[Part]:
        """Return the parts of a check for which there are measurements."""
        if "outcome" in check:
            return list(self._outcomes(check))
        rows = of_experiment(self.executions, check["experiment"])
        where = {factor: self._levels(rows, factor, level) for factor, level in check.get("where", {}).items()}
        found = []
        for levels in _combinations(where):
            here = select(rows, levels)
            for label, above, below in self._groups(check, here, levels):
                if all(len(group) for group in [*above, *below]):
                    found.append(self._part(check, label, above, below))
        return found

    def _levels(self, rows: pd.DataFrame, factor: str, level: Any) -> list[Any]:
        if level != "all":
            return list(level) if isinstance(level, list) else [level]
        column = column_of(factor)
        return sorted(rows[column].dropna().unique().tolist()) if column in rows else []

    def _groups(
        self, check: Mapping[str, Any], rows: pd.DataFrame, levels: Selection
    ) -> Iterator[tuple[str, list[Any], list[Any]]]:
        """Yield (label, groups above, groups below the fraction line) of each statistic at one combination."""
        first = next(name for name in _STATISTICS if name in check)

        def take(selection: Selection, among: pd.DataFrame = rows) -> Any:
            return select(among, selection)[BANDWIDTH].to_numpy(dtype=np.float64)

        if "growth" in check:
            factor = check["growth"]
            if column_of(factor) not in rows:
                return
            steps = sorted(rows[column_of(factor)].dropna().unique().tolist())
            for lower, upper in itertools.pairwise(steps):
                label = _label({**levels, factor: f"{_text(factor, lower)} to {_text(factor, upper)}"})
                before, after = (rows[rows[column_of(factor)] == step] for step in (lower, upper))
                if "ratio" in check:
                    above = [take(check["ratio"], after), take(check["to"], before)]
                    yield label, above, [take(check["to"], after), take(check["ratio"], before)]
                else:
                    yield label, [take({}, after)], [take({}, before)]
        elif first == "column" and check["column"] not in rows:
            return
        elif first == "column":
            yield _label(levels), [rows[check["column"]].to_numpy(dtype=np.float64)], []
        else:
            given = {name: self._levels(rows, name, level) for name, level in check[first].items()}
            for selection in _combinations(given):
                varied = {name: level for name, level in selection.items() if check[first][name] != level}
                above, below = [take(selection)], [take(check["to"])] if "to" in check else []
                if "over_ratio" in check:
                    above.append(take(check["over_to"]))
                    below.append(take(check["over_ratio"]))
                yield _label({**levels, **varied}), above, below

    def _part(self, check: Mapping[str, Any], label: str, above: list[Any], below: list[Any]) -> Part:
        if "difference" in check:
            value = float(above[0].mean() - below[0].mean())
            low, high, _ = difference_interval(above[0], below[0], self.confidence)
        elif "column" in check:
            value = float(above[0].max())
            low = high = value
        else:
            value = math.prod(float(g.mean()) for g in above) / math.prod(float(g.mean()) for g in below)
            low, high, _ = product_interval(above, below, self.confidence, self.method, self.seed)
        if "within" in check:
            test = equivalence(above, below, check["within"])
            margin = 1 + check["within"]
            off = max(value / margin, 1 / (value * margin)) - 1
            status = {"equivalent": REPRODUCED, "undecided": UNDECIDED}.get(test.verdict)
            status = status or (DEVIATES if test.high < 1 / margin or test.low > margin else UNDECIDED)
            return Part(label, value, test.low, test.high, status, max(off, 0.0))
        if "equals" in check:
            error = value / self.bound(check["equals"]) - 1
            return Part(label, value, low, high, of_error(error, check.get("tolerance", TOLERANCE)), abs(error))
        return self._against_bound(check, label, value, low, high)

    def _against_bound(self, check: Mapping[str, Any], label: str, value: float, low: float, high: float) -> Part:
        """Judge by the whole interval, or by the value alone where one execution gives none."""
        low_used, high_used = (value, value) if math.isnan(low) else (low, high)
        name = "at_most" if "at_most" in check else "at_least"
        bound, tolerance = self.bound(check[name]), check.get("tolerance", 0.0)
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

    def bound(self, bound: float | str) -> float:
        """Return a bound: a number, or the published value of that id."""
        if isinstance(bound, str):
            return float(self.values.loc[self.values["id"] == bound, "value"].iloc[0])
        return float(bound)


def of_error(error: float, tolerance: float = TOLERANCE) -> str:
    """Return the status of a published number that was missed by a relative error."""
    return REPRODUCED if abs(error) <= EXACT else WITHIN if abs(error) <= tolerance else DEVIATES


def status_of(parts: Sequence[Part]) -> str:
    """Return the status of a claim: that of its worst part, or not testable without any."""
    return max((part.status for part in parts), key=_ORDER.index, default=UNTESTABLE)


def read_executions(path: Path) -> pd.DataFrame:
    """Return the measurements of a study, as ``collect.measurements`` made them, with the bandwidth in MB/s."""
    executions = pd.read_parquet(path)
    executions[BANDWIDTH] = executions["bandwidth_bytes_per_s"] / 1e6
    return executions


def kinds(executions: pd.DataFrame) -> dict[str, str]:
    """Return the kind of each drive measured (twin, file …), by name."""
    return dict(zip(executions["drive"], executions["drive_kind"], strict=True))


def of_experiment(executions: pd.DataFrame, *experiments: str) -> pd.DataFrame:
    """Return the executions that any of some experiments asks for, each once; a cell may serve several."""
    wanted = set(experiments)
    return executions[executions["experiments"].map(lambda names: bool(wanted & set(names.split()))).astype(bool)]


def column_of(factor: str) -> str:
    """Return the column of the measurements that holds a factor of a study: bs is bs_bytes, DRA is set_DRA."""
    if factor == "bs":
        return "bs_bytes"
    return f"set_{factor}" if factor[0].isupper() or factor in QUEUE_SETTINGS else factor


def select(rows: pd.DataFrame, levels: Selection) -> pd.DataFrame:
    """Return the rows at some levels, by factor: ``{"rw": "read", "bs": "4k", "DRA": 1}``."""
    for factor, level in levels.items():
        if column_of(factor) not in rows:
            return rows.iloc[:0]
        value = size_bytes(level) if factor == "bs" and isinstance(level, str) else level
        rows = rows[(rows[column_of(factor)] == value).fillna(False).astype(bool)]
    return rows


def _listed(level: Any) -> list[Any]:
    return level if isinstance(level, list) else [level]


def _combinations(levels: Mapping[str, Sequence[Any]]) -> Iterator[dict[str, Any]]:
    for combination in itertools.product(*levels.values()):
        yield dict(zip(levels, combination, strict=True))


def _text(factor: str, level: Any) -> str:
    if factor == "bs":
        return block_label(size_bytes(level) if isinstance(level, str) else int(level))
    return f"{level} jobs" if factor == "numjobs" else f"{factor} {level}" if factor[0].isupper() else str(level)


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
    if "within" in check and statistics not in (["ratio"], ["growth"]):
        raise ClaimsError(f"{where}: 'within' is a margin around 1, for ratio and growth alone")
    _check_selections(check, where)
    bound = check.get("at_most", check.get("at_least", check.get("equals", 0)))
    if isinstance(bound, str) and bound not in set(values["id"]):
        raise ClaimsError(f"{where}: no published value has the id '{bound}'.{_near(bound, values['id'])}")


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
    for name in ("to", "over_ratio", "over_to"):
        selection = check.get(name, {})
        if not isinstance(selection, dict) or any(
            isinstance(level, list) or level == "all" for level in selection.values()
        ):
            raise ClaimsError(f"{where}: '{name}' needs one level for each factor, such as {{rw: read}}")


def _near(name: str, known: Any) -> str:
    return config.nearest(name, known)
