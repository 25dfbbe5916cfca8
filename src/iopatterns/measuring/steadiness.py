"""Whether repetitions are comparable: steady state, outliers and two levels."""

import itertools
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # measuring imports this module, and must not import pandas
    import pandas as pd

# Steady state (SNIA Solid State Storage Performance Test Specification 2.0.2): over five rounds, the range is at most
# 20 % of the mean, and the best linear fit rises by at most 10 % of the mean.
ROUNDS = 5
_MAX_EXCURSION = 0.20
_MAX_RISE = 0.10
_SLACK = 1e-9  # for rounding

# Iglewicz and Hoaglin (1993): a value is an outlier if its modified z-score exceeds 3.5. The score is the distance from
# the median in units of the median absolute deviation, times 0.6745 (its ratio to a normal standard deviation).
_OUTLIER_SCORE = 3.5
_Z_FACTOR = 0.6745
# With fewer values, two levels may be a matter of chance
_MIN_FOR_LEVELS = 8
_MIN_PER_LEVEL = 3


@dataclass(frozen=True)
class Steadiness:
    """The variation of a series of rounds.

    Attributes:
        excursion: Range over mean.
        rise: Rise of the best linear fit over mean.
    """

    excursion: float
    rise: float

    @property
    def steady(self) -> bool:
        """Whether excursion and rise are within SNIA's limits for steady state."""
        return self.excursion <= _MAX_EXCURSION + _SLACK and abs(self.rise) <= _MAX_RISE + _SLACK


def steadiness(values: Sequence[float]) -> Steadiness | None:
    """Return the steadiness of the last five values.

    Returns None if there are fewer, or if their mean is not positive.
    """
    last = list(values[-ROUNDS:])
    mean = statistics.fmean(last) if last else 0.0
    if len(last) < ROUNDS or mean <= 0:
        return None
    slope, _ = statistics.linear_regression(range(ROUNDS), last)
    return Steadiness((max(last) - min(last)) / mean, slope * (ROUNDS - 1) / mean)


def steadiness_of_summary(least: float, most: float, mean: float, deviation: float, rounds: int) -> Steadiness | None:
    """Return the steadiness of rounds, given the summary that fio reports.

    The order of the rounds is unknown. The rise is therefore the largest that the best linear fit through values of
    this standard deviation can have: no fit explains more than their variance.

    Args:
        least: The smallest value.
        most: The largest value.
        mean: The mean.
        deviation: The standard deviation of the sample.
        rounds: The number of rounds.

    Returns:
        The steadiness; None for fewer than five rounds, or if the mean is not positive.
    """
    if rounds < ROUNDS or mean <= 0:
        return None
    rise = deviation * (rounds - 1) * math.sqrt(12 / (rounds * (rounds + 1)))
    return Steadiness((most - least) / mean, rise / mean)


def is_steady(rows: "pd.DataFrame") -> bool | None:
    """Return whether a repetition was in steady state; None if that is unknown.

    It is unknown if fio reports fewer than five rounds, as for a replay that ended early. The extremes of all jobs are
    added. If jobs take bandwidth from each other, a steady total rate may therefore be found unsteady, but an unsteady
    total rate is never found steady.

    Args:
        rows: The rows of the repetition's jobs and directions, from `fio_parser_json.jobs`.
    """
    if "iops_samples" not in rows:  # all rows are of replayed block traces
        return None
    counted = rows.dropna(subset=["iops_min", "iops_max", "iops_mean", "iops_stddev", "iops_samples"])
    counted = counted[counted["iops_samples"] > 0]
    if counted.empty:
        return None
    # for grouped jobs, fio adds extremes, means and samples, but reports the deviation of one job
    jobs: pd.Series | int = 1
    if {"numjobs", "group_reporting"} <= set(counted):
        jobs = counted["numjobs"].fillna(1).where(counted["group_reporting"].fillna(0).astype(bool), 1)
    found = steadiness_of_summary(
        float(counted["iops_min"].sum()),
        float(counted["iops_max"].sum()),
        float(counted["iops_mean"].sum()),
        float((counted["iops_stddev"] * jobs).sum()),
        int((counted["iops_samples"] // jobs).min()),
    )
    return None if found is None else found.steady


def outliers(values: Sequence[float]) -> list[int]:
    """Return the indices of outliers by the modified z-score.

    Source: Iglewicz and Hoaglin 1993.
    """
    if len(values) < ROUNDS:
        return []
    median = statistics.median(values)
    deviation = statistics.median(abs(value - median) for value in values)
    if deviation == 0:
        return [index for index, value in enumerate(values) if value != median]
    scores = [_Z_FACTOR * abs(value - median) / deviation for value in values]
    return [index for index, score in enumerate(scores) if score > _OUTLIER_SCORE]


def has_two_levels(values: Sequence[float]) -> bool:
    """Return whether values form two groups, so that their mean describes neither.

    Each group has at least three values, and the gap between the groups is wider than all other gaps together.
    """
    ordered = sorted(values)
    if len(ordered) < _MIN_FOR_LEVELS:
        return False
    gaps = [after - before for before, after in itertools.pairwise(ordered)]
    widest = gaps.index(max(gaps))
    below, above = widest + 1, len(ordered) - widest - 1
    return min(below, above) >= _MIN_PER_LEVEL and gaps[widest] > sum(gaps) - gaps[widest]


def steadiness_doubts(values: Sequence[float]) -> list[str]:
    """Return what makes the mean of a cell's repetitions doubtful.

    The result is empty if nothing does.
    """
    last = steadiness(values)
    doubts = [
        (last is not None and not last.steady, "not in a steady state"),
        (bool(outliers(values)), "outliers among the executions"),
        (has_two_levels(values), "executions at two levels"),
    ]
    return [text for is_doubtful, text in doubts if is_doubtful]
