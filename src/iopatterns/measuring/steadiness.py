"""Tests of whether measured values are comparable.

They find out whether a series is in steady state, has outliers, or varies between two levels.
"""

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
    """How much the rate varies over the rounds of a measurement.

    A round is one of several equally long parts of the measurement. Each round has a rate, such as its IOPS.

    Attributes:
        excursion: The range of the rates (maximum minus minimum), divided by their mean.
        rise: The rise of the best linear fit from the first to the last round, divided by the mean of the rates. It is
            negative if the rate falls.
    """

    excursion: float
    rise: float

    @property
    def steady(self) -> bool:
        """Whether the rate is in steady state according to SNIA.

        The limits are 20 % for the excursion and 10 % for the rise or fall (Solid State Storage Performance Test
        Specification 2.0.2).
        """
        return self.excursion <= _MAX_EXCURSION + _SLACK and abs(self.rise) <= _MAX_RISE + _SLACK


def steadiness(values: Sequence[float]) -> Steadiness | None:
    """Return how much the last five values of a series vary.

    The result has their range and the rise of their best linear fit, both divided by their mean.

    Args:
        values: The rate in each round, such as the IOPS, in order of time. A round is one of several equally long parts
            of a measurement.

    Returns:
        The variation. None if there are fewer than five values, or if the mean of the last five is not positive.
    """
    last = list(values[-ROUNDS:])
    mean = statistics.fmean(last) if last else 0.0
    if len(last) < ROUNDS or mean <= 0:
        return None
    slope, _ = statistics.linear_regression(range(ROUNDS), last)
    return Steadiness((max(last) - min(last)) / mean, slope * (ROUNDS - 1) / mean)


def steadiness_of_summary(least: float, most: float, mean: float, deviation: float, rounds: int) -> Steadiness | None:
    """Return how much the rates of a series of rounds vary, given only a summary.

    A round is one of several equally long parts of a measurement. The summary does not contain the order of the rates,
    so that the rise of their best linear fit is unknown. The result has the largest rise that is possible with the
    given standard deviation.

    Args:
        least: The smallest rate.
        most: The largest rate.
        mean: The mean rate.
        deviation: The sample standard deviation of the rates.
        rounds: The number of rounds.

    Returns:
        Range and largest possible rise of the rates of all rounds, divided by the mean. None for fewer than five
        rounds, or if the mean is not positive.
    """
    if rounds < ROUNDS or mean <= 0:
        return None
    rise = deviation * (rounds - 1) * math.sqrt(12 / (rounds * (rounds + 1)))
    return Steadiness((most - least) / mean, rise / mean)


def is_steady(rows: "pd.DataFrame") -> bool | None:
    """Return whether the total rate (IOPS) of a repetition was in steady state.

    Steady state has SNIA's limits, see `Steadiness.steady`. fio reports how the rate of each job varied, but not how
    their sum varied. The variations of the jobs are added here, as if all jobs were slow and fast at the same time. An
    unsteady total rate is therefore never found steady. A steady total rate may be found unsteady, for example if one
    job is slow while another is fast.

    Args:
        rows: One row for each job and direction (read or write) of the repetition, from `fio_parser_json.jobs`. The
            columns ``iops_min``, ``iops_max``, ``iops_mean``, ``iops_stddev`` and ``iops_samples`` are used, and
            ``numjobs`` and ``group_reporting`` if they exist.

    Returns:
        Whether the rate was steady. None if fio reports no rates or fewer than five rounds, such as for a replay that
        ended early.
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
    """Return the indices of the values that are outliers, in ascending order.

    A value is an outlier if its modified z-score exceeds 3.5 (Iglewicz and Hoaglin 1993). This score is 0.6745 times
    the distance from the median, divided by the median absolute deviation. If more than half of the values are equal,
    all values that differ from these are outliers. The list is empty for fewer than five values.
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
    """Return whether values form two separate groups.

    The mean of such values describes neither group. The sorted values are split at the widest gap between neighbours.
    They form two groups if both conditions hold:

    - each part has at least three values
    - the widest gap is wider than all other gaps together

    The result is False for fewer than eight values.
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

    Each doubt is one of the texts "not in a steady state", "outliers among the executions" (that is, repetitions) and
    "executions at two levels". The list is empty if there is no doubt.

    Args:
        values: The result of each repetition, such as its bandwidth, in the order in which the repetitions ran.
    """
    last = steadiness(values)
    doubts = [
        (last is not None and not last.steady, "not in a steady state"),
        (bool(outliers(values)), "outliers among the executions"),
        (has_two_levels(values), "executions at two levels"),
    ]
    return [text for is_doubtful, text in doubts if is_doubtful]
