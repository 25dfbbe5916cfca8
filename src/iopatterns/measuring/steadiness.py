"""Whether executions can be trusted to be alike: steady state after SNIA, outliers, two levels."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # at run time this module, which measuring imports, needs no pandas
    import pandas as pd

# SNIA Solid State Storage Performance Test Specification 2.0.2, definition of steady state: over five rounds, the
# largest minus the smallest value is within 20 % of their mean, and the rise of their best linear fit within 10 %.
ROUNDS = 5
MAX_EXCURSION = 0.20
MAX_RISE = 0.10
_SLACK = 1e-9  # of arithmetic

# Iglewicz and Hoaglin (1993): a value is an outlier from 3.5 median absolute deviations (0.6745 of a normal deviation)
_OUTLIER_SCORE = 3.5
# Below this many executions two levels cannot be told from chance
_LEAST_FOR_LEVELS = 8
_LEAST_A_LEVEL = 3


@dataclass(frozen=True)
class Steadiness:
    """The last rounds of a series: excursion (range over mean) and rise of the linear fit over them, both fractions."""

    excursion: float
    rise: float

    @property
    def steady(self) -> bool:
        """Whether both are within the limits of the specification."""
        return self.excursion <= MAX_EXCURSION + _SLACK and abs(self.rise) <= MAX_RISE + _SLACK


def steadiness(values: Sequence[float], rounds: int = ROUNDS) -> Steadiness | None:
    """Return the steadiness of the last ``rounds`` values; None where there are fewer, or their mean is not above 0."""
    last = list(values[-rounds:])
    mean = statistics.fmean(last) if last else 0.0
    if len(last) < rounds or mean <= 0:
        return None
    slope, _ = statistics.linear_regression(range(rounds), last)
    return Steadiness((max(last) - min(last)) / mean, slope * (rounds - 1) / mean)


def steadiness_of_summary(least: float, most: float, mean: float, deviation: float, rounds: int) -> Steadiness | None:
    """Return the steadiness of so many equal rounds, of which fio tells these four alone, in one unit.

    Their order is lost: the rise is the most that the best linear fit through values of this standard deviation (of a
    sample) can have, since no fit explains more than their variance. None for fewer than five rounds, or a mean not
    above 0.
    """
    if rounds < ROUNDS or mean <= 0:
        return None
    rise = deviation * (rounds - 1) * math.sqrt(12 / (rounds * (rounds + 1)))
    return Steadiness((most - least) / mean, rise / mean)


def is_steady(rows: "pd.DataFrame") -> bool | None:
    """Return whether an execution was in a steady state, by SNIA's limits for five rounds of it; None if unknown.

    ``rows`` are those of its jobs and directions, as `fio_parser_json.jobs` returns them. Their extremes are added up:
    that can find an even rate uneven where jobs take from each other, but no uneven one even. It is unknown where fio
    counted fewer rounds, as of a replay that was over early.
    """
    if "iops_samples" not in rows:  # of replays of traces alone
        return None
    counted = rows.dropna(subset=["iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"])
    counted = counted[counted["iops_samples"] > 0]
    if counted.empty:
        return None
    # of jobs reported as one, fio adds up the extremes and the means, and gives the deviation that one of them has
    together: pd.Series | int = 1
    if {"numjobs", "group_reporting"} <= set(counted):
        together = counted["numjobs"].fillna(1).where(counted["group_reporting"].fillna(0).astype(bool), 1)
    found = steadiness_of_summary(
        float(counted["iops_min"].sum()),
        float(counted["iops_max"].sum()),
        float(counted["iops_mean"].sum()),
        float((counted["iops_stddev"] * together).sum()),
        int((counted["iops_samples"] // together).min()),
    )
    return None if found is None else found.steady


def outliers(values: Sequence[float]) -> list[int]:
    """Return the places of values that stand apart from all others, by the modified z-score."""
    if len(values) < ROUNDS:
        return []
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    if deviation == 0:
        return [place for place, value in enumerate(values) if value != median]
    return [place for place, value in enumerate(values) if 0.6745 * abs(value - median) / deviation > _OUTLIER_SCORE]


def has_two_levels(values: Sequence[float]) -> bool:
    """Return whether values lie at two levels: the gap between is wider than all others together, three on each side.

    A mean of such values describes neither level.
    """
    ordered = sorted(values)
    if len(ordered) < _LEAST_FOR_LEVELS:
        return False
    gaps = [after - before for before, after in itertools.pairwise(ordered)]
    widest = gaps.index(max(gaps))
    below, above = widest + 1, len(ordered) - widest - 1
    return min(below, above) >= _LEAST_A_LEVEL and gaps[widest] > sum(gaps) - gaps[widest]


def steadiness_doubts(values: Sequence[float]) -> list[str]:
    """Return in words what makes the mean of a cell's executions doubtful; nothing where they are alike."""
    found = []
    last = steadiness(values)
    if last is not None and not last.steady:
        found.append("not in a steady state")
    if outliers(values):
        found.append("outliers among the executions")
    if has_two_levels(values):
        found.append("executions at two levels")
    return found
