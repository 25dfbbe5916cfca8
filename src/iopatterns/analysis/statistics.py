"""Summarises the executions of a cell: mean, confidence interval, variation, and ratios of means."""

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import special

from iopatterns.base.errors import IoPatternsError

Method = Literal["t", "bca"]
FloatArray = npt.NDArray[np.float64]

METHOD_NAMES = {"t": "Student’s t", "bca": "BCa bootstrap", "none": "no interval"}

# Level of each of the two one-sided tests of an equivalence
EQUIVALENCE_ALPHA = 0.05

# Below this many executions the BCa bootstrap is markedly too narrow (Hesterberg 2015), and its
# acceleration, a third moment from a jackknife, is mostly noise.
BCA_MIN_EXECUTIONS = 8
_BCA_RESAMPLES = 9999


class StatisticsError(IoPatternsError):
    """Values that cannot be summarised, or an unknown method or confidence level."""


class Interval(NamedTuple):
    """A confidence interval and the method behind it: ``t``, ``bca``, or ``none`` with low and high NaN."""

    low: float
    high: float
    method: str


def mean_interval(
    values: Sequence[float] | FloatArray, confidence: float = 0.95, method: str = "t", seed: int = 0
) -> Interval:
    """Return the confidence interval of the mean of ``values``, in their unit.

    ``t`` (the default) is mean ± t(n-1) · s / √n (Student 1908). One value here is one execution's average
    over thousands of requests, so it is close to normal, and for normal values the interval holds its level
    at any n; bootstraps are too narrow for the ten executions that are usual here (Hesterberg 2015). ``bca``
    is the bias-corrected and accelerated bootstrap (Efron 1987) with a fixed ``seed``, for values that are
    clearly skewed; with fewer than eight executions the t interval is given in its place, and named so.

    One value has no interval (``none``); values that are all equal give an interval of zero width.
    Raises StatisticsError for no values at all, values that are not finite, or an unknown method or level.
    """
    sample = checked_sample(values)
    check_interval_method(confidence, method)
    if sample.size < 2:
        return Interval(math.nan, math.nan, "none")
    mean = float(sample.mean())
    used = interval_method_used(sample.size, method)
    if np.ptp(sample) == 0:
        return Interval(mean, mean, used)
    if used == "bca":
        return _bootstrap([sample], np.mean, confidence, seed)
    half = _student(sample.size - 1, confidence) * _deviation(sample) / math.sqrt(sample.size)
    return Interval(mean - half, mean + half, "t")


def interval_method_used(executions: int, method: str) -> str:
    """Return the method that gives the interval of so many executions when ``method`` is asked for."""
    if executions < 2:
        return "none"
    return "bca" if method == "bca" and executions >= BCA_MIN_EXECUTIONS else "t"


def product_interval(
    above: Sequence[Sequence[float] | FloatArray],
    below: Sequence[Sequence[float] | FloatArray],
    confidence: float = 0.95,
    method: str = "t",
    seed: int = 0,
) -> Interval:
    """Return the confidence interval of the product of the means ``above`` over that of the means ``below``.

    The groups are independent, their means above zero. One group in each is a ratio; two in each compare two ratios,
    such as the gap between random and sequential access with a setting and without. ``t``: the standard error of the
    logarithm is √Σ cᵢ²/nᵢ, cᵢ the coefficients of variation (first-order propagation), with the degrees of freedom of
    Welch (1947). ``bca`` resamples all groups, as in ``mean_interval``. A group of one execution gives no interval. Raises
    StatisticsError as ``mean_interval`` does, and for means that are not above zero.
    """
    check_interval_method(confidence, method)
    groups = [checked_sample(group) for group in [*above, *below]]
    signs = np.array([1.0] * len(above) + [-1.0] * len(below))
    if min(group.mean() for group in groups) <= 0:
        raise StatisticsError("a ratio needs means above zero")
    smallest = min(group.size for group in groups)
    if smallest < 2:
        return Interval(math.nan, math.nan, "none")
    product = math.prod(float(group.mean()) ** sign for group, sign in zip(groups, signs, strict=True))
    used = interval_method_used(smallest, method)
    if all(np.ptp(group) == 0 for group in groups):
        return Interval(product, product, used)
    if used == "bca":

        def statistic(*samples: FloatArray, axis: int = -1) -> FloatArray:
            return np.asarray(
                np.prod([s.mean(axis=axis) ** sign for s, sign in zip(samples, signs, strict=True)], axis=0)
            )

        return _bootstrap(groups, statistic, confidence, seed)
    parts = [(_deviation(group) / group.mean()) ** 2 / group.size for group in groups]
    factor = math.exp(_student(_freedom(parts, groups), confidence) * math.sqrt(sum(parts)))
    return Interval(product / factor, product * factor, "t")


def difference_interval(
    first: Sequence[float] | FloatArray, second: Sequence[float] | FloatArray, confidence: float = 0.95
) -> Interval:
    """Return the confidence interval of mean(first) - mean(second), by Welch (1947); independent groups.

    A group of one execution gives no interval. Raises StatisticsError as ``mean_interval`` does.
    """
    check_interval_method(confidence)
    groups = [checked_sample(group) for group in (first, second)]
    if min(group.size for group in groups) < 2:
        return Interval(math.nan, math.nan, "none")
    return _welch(float(groups[0].mean() - groups[1].mean()), (1.0, 1.0), groups, confidence)


def function_interval(
    function: Callable[[Sequence[float]], float],
    groups: Sequence[Sequence[float] | FloatArray],
    confidence: float = 0.95,
) -> Interval:
    """Return the confidence interval of a function of the means of independent groups.

    The delta method: its variance is Σ (∂f/∂mᵢ)² sᵢ²/nᵢ to first order, the derivatives taken by central differences,
    with the degrees of freedom of Welch (1947). A group of one execution gives no interval. Raises StatisticsError as
    ``mean_interval`` does.
    """
    check_interval_method(confidence)
    samples = [checked_sample(group) for group in groups]
    means = [float(sample.mean()) for sample in samples]
    value = function(means)
    if min(sample.size for sample in samples) < 2:
        return Interval(math.nan, math.nan, "none")
    slopes = []
    for number in range(len(samples)):
        step = 1e-6 * (abs(means[number]) or 1.0)
        up, down = ([*means[:number], means[number] + sign * step, *means[number + 1 :]] for sign in (1, -1))
        slopes.append((function(up) - function(down)) / (2 * step))
    return _welch(value, slopes, samples, confidence)


def _welch(value: float, slopes: Sequence[float], samples: Sequence[FloatArray], confidence: float) -> Interval:
    """Return the interval of a value with the derivatives ``slopes`` by the means of the samples (Welch 1947)."""
    parts = [
        slope**2 * float(sample.var(ddof=1)) / sample.size if np.ptp(sample) else 0.0
        for slope, sample in zip(slopes, samples, strict=True)
    ]
    if not any(parts):
        return Interval(value, value, "t")
    half = _student(_freedom(parts, samples), confidence) * math.sqrt(sum(parts))
    return Interval(value - half, value + half, "t")


class EquivalenceResult(NamedTuple):
    """A test of equivalence: the interval that was held against the margin, and ``verdict``.

    ``equivalent``: the whole interval lies within the margin. ``different``: it does not, and holds no 1.
    ``undecided``: neither, or no interval; more executions would tell.
    """

    low: float
    high: float
    verdict: Literal["equivalent", "different", "undecided"]


def equivalence_test(
    above: Sequence[Sequence[float] | FloatArray],
    below: Sequence[Sequence[float] | FloatArray],
    margin: float,
    alpha: float = EQUIVALENCE_ALPHA,
) -> EquivalenceResult:
    """Return whether a product of means (see `product_interval`) is 1 but for a ``margin``: 0.1 is 1/1.1 to 1.1.

    Two one-sided tests (Schuirmann 1987), each at level ``alpha``: equivalence is shown where the interval of
    confidence 1 − 2·alpha lies within the margin. That nothing significant was found would show nothing.
    """
    return equivalence_of_interval(product_interval(above, below, 1 - 2 * alpha), margin)


def equivalence_of_interval(found: Interval, margin: float) -> EquivalenceResult:
    """Return what an interval of confidence 1 − 2·alpha says of equivalence with 1, see `equivalence_test`."""
    if not margin > 0:
        raise StatisticsError(f"a margin of equivalence lies above 0, {margin} does not")
    low, high, method = found
    if method == "none":
        return EquivalenceResult(low, high, "undecided")
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return EquivalenceResult(low, high, "equivalent")
    return EquivalenceResult(low, high, "undecided" if low <= 1 <= high else "different")


def ratio_verdict(low: float, high: float) -> Literal["slower", "faster", "not told apart"]:
    """Return what the interval of a ratio of rates says: the whole of it, in the two decimals printed, is off 1.

    On a simulated drive chance may have no part, and the interval no width: a ratio of 0.9996 is then below 1 by the
    interval, and nothing that a reader could see or a user feel. Without an interval nothing is told apart.
    """
    if round(high, 2) < 1:
        return "slower"
    return "faster" if round(low, 2) > 1 else "not told apart"


def summarise_groups(
    table: pd.DataFrame,
    by: Sequence[str],
    value: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    seed: int = 0,
) -> pd.DataFrame:
    """Return one row per group of executions, in the order in which the groups first appear.

    ``table`` has one row per execution. Columns returned: those of ``by``; ``executions`` (n); ``mean``,
    ``low``, ``high`` in the unit of ``value``; ``cv``, the sample standard deviation over the mean, a
    fraction (NaN for one execution or a mean of zero); ``method`` (what gave the interval: ``t``, ``bca`` or
    ``none``) and ``confidence``. Raises StatisticsError naming the group whose values cannot be summarised,
    or a column that is missing.
    """
    check_interval_method(confidence, method)
    _check_columns(table, [*by, value])
    rows = []
    for key, group in table.groupby(list(by), sort=False, dropna=False)[value]:
        values = group.to_numpy(dtype=np.float64)
        try:
            low, high, used = mean_interval(values, confidence, method, seed)
        except StatisticsError as error:
            raise StatisticsError(f"{value} of {_spell(by, key)}: {error}") from None
        rows.append((*key, len(values), float(values.mean()), low, high, _variation(values), used, confidence))
    head = [*by, "executions", "mean", "low", "high", "cv", "method", "confidence"]
    return pd.DataFrame(rows, columns=head)


def random_to_sequential_ratios(
    table: pd.DataFrame,
    by: Sequence[str],
    value: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    seed: int = 0,
) -> pd.DataFrame:
    """Return, per group and operation, how much of the sequential mean the random workload reaches.

    ``table`` has one row per execution and the column ``rw``. Columns returned: those of ``by``;
    ``operation`` (read, write); ``ratio``, ``low``, ``high`` (random over sequential, no unit); ``gap``
    (sequential minus random mean, in the unit of ``value``); ``method`` and ``confidence``. A group without
    both workloads of an operation has no row for it. Raises StatisticsError as ``summarise_groups`` does.
    """
    check_interval_method(confidence, method)
    _check_columns(table, [*by, "rw", value])
    rows = []
    # of a table of some eighty columns these alone are taken apart
    for key, group in table.groupby(list(by), sort=False, dropna=False)[["rw", value]]:
        for operation in ("read", "write"):
            random, sequential = (
                group.loc[group["rw"] == rw, value].to_numpy(dtype=np.float64) for rw in (f"rand{operation}", operation)
            )
            if not random.size or not sequential.size:
                continue
            try:
                low, high, used = product_interval([random], [sequential], confidence, method, seed)
            except StatisticsError as error:
                raise StatisticsError(f"{value} of {_spell(by, key)}, {operation}: {error}") from None
            means = float(random.mean()), float(sequential.mean())
            rows.append((*key, operation, means[0] / means[1], low, high, means[1] - means[0], used, confidence))
    head = [*by, "operation", "ratio", "low", "high", "gap", "method", "confidence"]
    return pd.DataFrame(rows, columns=head)


def checked_sample(values: Sequence[float] | FloatArray) -> FloatArray:
    """Return values as an array. Raises StatisticsError if there are none, or some that are not finite."""
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise StatisticsError("there are no executions to summarise")
    if not np.isfinite(sample).all():
        raise StatisticsError("a value is missing or not finite")
    return sample


def check_interval_method(confidence: float, method: str = "t") -> None:
    """Raise StatisticsError unless the interval method exists and the confidence level is between 0 and 1."""
    if method not in get_args(Method):
        raise StatisticsError(f"interval method {method!r} is unknown; valid are t and bca")
    if not 0 < confidence < 1:
        raise StatisticsError(f"a confidence level lies between 0 and 1, {confidence} does not")


def _check_columns(table: pd.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise StatisticsError(f"the executions have no column {name!r}, only {', '.join(table.columns)}")


def _spell(by: Sequence[str], key: tuple[Any, ...]) -> str:
    return ", ".join(f"{name} {part}" for name, part in zip(by, key, strict=True))


def _deviation(sample: FloatArray) -> float:
    return float(sample.std(ddof=1))


def _variation(sample: FloatArray) -> float:
    mean = float(sample.mean())
    if sample.size < 2 or mean == 0:
        return math.nan
    # what is left of equal values would be the noise of arithmetic
    return 0.0 if np.ptp(sample) == 0 else _deviation(sample) / abs(mean)


def _freedom(parts: Sequence[float], groups: Sequence[FloatArray]) -> float:
    """Return the degrees of freedom of a sum of variances of means, one part a group (Welch 1947)."""
    return float(sum(parts) ** 2 / sum(p**2 / (group.size - 1) for p, group in zip(parts, groups, strict=True)))


def _student(freedom: float, confidence: float) -> float:
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def _bootstrap(groups: list[FloatArray], statistic: Callable[..., Any], confidence: float, seed: int) -> Interval:
    # scipy.stats takes over a second to import, and the default method does without it
    from scipy.stats import bootstrap

    result = bootstrap(
        groups,
        statistic,
        n_resamples=_BCA_RESAMPLES,
        confidence_level=confidence,
        method="BCa",
        rng=np.random.default_rng(seed),
    )
    return Interval(float(result.confidence_interval.low), float(result.confidence_interval.high), "bca")
