"""Statistics of repetitions: means, intervals, ratios and tests of equivalence.

A repetition is one run of fio for a cell (one configuration: a drive, its settings and a workload).
"""

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

# Significance level of each of the two one-sided tests of a test of equivalence
EQUIVALENCE_ALPHA = 0.05

# With fewer repetitions the BCa bootstrap is markedly too narrow (Hesterberg 2015), and its acceleration, a third
# moment from a jackknife, is mostly noise.
BCA_MIN_EXECUTIONS = 8
_BCA_RESAMPLES = 9999


class StatisticsError(IoPatternsError):
    """The error raised for values that cannot be summarised, or an invalid argument.

    Invalid arguments are an unknown method, or a confidence level or margin that is out of range.
    """


class Interval(NamedTuple):
    """A confidence interval. Its ends are in the unit of the values.

    Attributes:
        low: Lower end; NaN if there is no interval.
        high: Upper end; NaN if there is no interval.
        method: ``t`` (Student's t), ``bca`` (bootstrap), or ``none`` if there is no interval.
    """

    low: float
    high: float
    method: str


_NO_INTERVAL = Interval(math.nan, math.nan, "none")


def mean_interval(
    values: Sequence[float] | FloatArray, confidence: float = 0.95, method: str = "t", seed: int = 0
) -> Interval:
    """Return the confidence interval of the mean of `values`.

    The method ``t`` gives mean ± t(n-1) · s / √n (Student 1908). It suits values that are close to normal, as the
    average of one repetition over thousands of requests is. It has its nominal coverage for any number of normal
    values, whereas bootstrap intervals are too narrow for the usual ten repetitions (Hesterberg 2015).

    The method ``bca`` is the bias-corrected and accelerated bootstrap (Efron 1987), for clearly skewed values.

    Equal values have an interval of zero width. A single value has no interval: both ends are NaN.

    Args:
        values: A value per repetition.
        confidence: Confidence level, between 0 and 1.
        method: ``t`` or ``bca``. With fewer than `BCA_MIN_EXECUTIONS` (8) values, ``t`` is used in place of ``bca``.
        seed: Seed of the bootstrap.

    Raises:
        StatisticsError: There are no values, a value is not finite, or the method or level is invalid.
    """
    sample = checked_sample(values)
    check_interval_method(confidence, method)
    if sample.size < 2:
        return _NO_INTERVAL
    mean = float(sample.mean())
    used = interval_method_used(sample.size, method)
    if np.ptp(sample) == 0:
        return Interval(mean, mean, used)
    if used == "bca":
        return _bootstrap([sample], np.mean, confidence, seed)
    half = _t_quantile(sample.size - 1, confidence) * _deviation(sample) / math.sqrt(sample.size)
    return Interval(mean - half, mean + half, "t")


def interval_method_used(executions: int, method: str) -> str:
    """Return the method that is used for an interval: ``t``, ``bca`` or ``none``.

    It is ``none`` for fewer than two values, and ``t`` instead of ``bca`` for fewer than `BCA_MIN_EXECUTIONS` (8).

    Args:
        executions: Number of values, which is the number of repetitions (runs of fio).
        method: The configured method, ``t`` (Student's t) or ``bca`` (bootstrap).
    """
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
    """Return the confidence interval of a quotient of products of means.

    The quotient is the product of the means of the groups in `above`, divided by the product of the means of the groups
    in `below`. With one group each, it is a ratio of two means. With two groups each, it compares two ratios. For
    example, it compares the ratio of random to sequential bandwidth with a setting to the same ratio without the
    setting.

    With method ``t``, the interval is symmetric for the logarithm of the quotient. The standard error of the logarithm
    is √Σ cᵢ²/nᵢ, where cᵢ is the coefficient of variation of a group and nᵢ its size (first-order propagation). The
    degrees of freedom are those of Welch (1947). Method ``bca`` resamples all groups.

    There is no interval (both ends are NaN) if a group has a single value. If all values within each group are equal,
    the interval has zero width.

    Args:
        above: Independent groups of values, whose means are multiplied for the numerator.
        below: Independent groups of values, whose means are multiplied for the denominator.
        confidence: Confidence level, between 0 and 1.
        method: ``t`` (Student's t) or ``bca`` (bootstrap). If a group has fewer than 8 values, ``t`` is used in place
            of ``bca``.
        seed: Seed of the bootstrap.

    Raises:
        StatisticsError: The mean of a group is not above 0, a group has no values, a value is not finite, or the method
            or level is invalid.
    """
    check_interval_method(confidence, method)
    groups = [checked_sample(group) for group in [*above, *below]]
    signs = np.array([1.0] * len(above) + [-1.0] * len(below))
    if min(group.mean() for group in groups) <= 0:
        raise StatisticsError("a ratio needs means above zero")
    smallest = min(group.size for group in groups)
    if smallest < 2:
        return _NO_INTERVAL
    product = math.prod(float(group.mean()) ** sign for group, sign in zip(groups, signs, strict=True))
    used = interval_method_used(smallest, method)
    if all(np.ptp(group) == 0 for group in groups):
        return Interval(product, product, used)
    if used == "bca":

        def statistic(*samples: FloatArray, axis: int = -1) -> FloatArray:
            powers = [sample.mean(axis=axis) ** sign for sample, sign in zip(samples, signs, strict=True)]
            return np.asarray(np.prod(powers, axis=0))

        return _bootstrap(groups, statistic, confidence, seed)
    variances = [(_deviation(group) / group.mean()) ** 2 / group.size for group in groups]
    freedom = _welch_freedom(variances, groups)
    factor = math.exp(_t_quantile(freedom, confidence) * math.sqrt(sum(variances)))
    return Interval(product / factor, product * factor, "t")


def difference_interval(
    first: Sequence[float] | FloatArray, second: Sequence[float] | FloatArray, confidence: float = 0.95
) -> Interval:
    """Return the confidence interval of mean(first) − mean(second).

    The groups are independent and may have different variances (Welch 1947). There is no interval (both ends are NaN)
    if a group has a single value. If all values within each group are equal, the interval has zero width.

    Args:
        first: Values of the first group.
        second: Values of the second group.
        confidence: Confidence level, between 0 and 1.

    Raises:
        StatisticsError: A group has no values, a value is not finite, or the level is invalid.
    """
    check_interval_method(confidence)
    groups = [checked_sample(group) for group in (first, second)]
    return _welch_interval(float(groups[0].mean() - groups[1].mean()), (1.0, 1.0), groups, confidence)


def function_interval(
    function: Callable[[Sequence[float]], float],
    groups: Sequence[Sequence[float] | FloatArray],
    confidence: float = 0.95,
) -> Interval:
    """Return the confidence interval of a function of the means of independent groups.

    This is the delta method: to first order, the variance of the function is Σ (∂f/∂mᵢ)² sᵢ²/nᵢ, where mᵢ is the mean
    of a group, sᵢ its standard deviation and nᵢ its size. Derivatives are central differences, and the degrees of
    freedom are those of Welch (1947). There is no interval (both ends are NaN) if a group has a single value.

    Args:
        function: A function that gets the means of the groups, in their order, and returns a number.
        groups: Groups of values, at least one.
        confidence: Confidence level, between 0 and 1.

    Raises:
        StatisticsError: A group has no values, a value is not finite, or the level is invalid.
    """
    check_interval_method(confidence)
    samples = [checked_sample(group) for group in groups]
    means = [float(sample.mean()) for sample in samples]
    value = function(means)
    slopes = []
    for number, mean in enumerate(means):
        step = 1e-6 * (abs(mean) or 1.0)
        up, down = ([*means[:number], mean + sign * step, *means[number + 1 :]] for sign in (1, -1))
        slopes.append((function(up) - function(down)) / (2 * step))
    return _welch_interval(value, slopes, samples, confidence)


def _welch_interval(
    value: float, slopes: Sequence[float], samples: Sequence[FloatArray], confidence: float
) -> Interval:
    """Return the interval of a value that depends on the means of independent samples.

    Args:
        value: The value.
        slopes: The derivative of the value with respect to the mean of each sample.
        samples: The samples. If one has a single value, there is no interval.
        confidence: Confidence level, between 0 and 1.
    """
    if min(sample.size for sample in samples) < 2:
        return _NO_INTERVAL
    variances = [
        slope**2 * float(sample.var(ddof=1)) / sample.size if np.ptp(sample) else 0.0
        for slope, sample in zip(slopes, samples, strict=True)
    ]
    if not any(variances):
        return Interval(value, value, "t")
    half = _t_quantile(_welch_freedom(variances, samples), confidence) * math.sqrt(sum(variances))
    return Interval(value - half, value + half, "t")


class EquivalenceResult(NamedTuple):
    """The result of a test whether a ratio is equivalent to 1.

    Attributes:
        low: Lower end of the ratio's confidence interval; NaN if there is no interval.
        high: Upper end of the ratio's confidence interval; NaN if there is no interval.
        verdict: ``equivalent`` if the complete interval is within the margin around 1. ``different`` if the interval is
            neither within the margin nor contains 1. ``undecided`` in all other cases, and if there is no interval.
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
    """Test whether a quotient of products of means is equivalent to 1.

    The quotient is the product of the means of the groups in `above`, divided by the product of the means of the groups
    in `below`. With one group in each, it is a ratio of two means.

    The test consists of two one-sided tests (Schuirmann 1987): the quotient is equivalent to 1 if its interval with
    confidence 1 − 2·alpha is within the margin. A quotient can be neither significantly different from 1 nor
    equivalent to 1, because its interval is too wide.

    Args:
        above: Groups of values, whose means are multiplied for the numerator.
        below: Groups of values, whose means are multiplied for the denominator.
        margin: Relative margin: 0.1 accepts quotients from 1/1.1 to 1.1.
        alpha: Significance level of each one-sided test.

    Returns:
        The interval, and the verdict ``equivalent``, ``different`` or ``undecided``.

    Raises:
        StatisticsError: The margin or the mean of a group is not above 0, a group has no values, a value is not
            finite, or 1 − 2·alpha is not between 0 and 1.
    """
    return equivalence_of_interval(product_interval(above, below, 1 - 2 * alpha), margin)


def equivalence_of_interval(found: Interval, margin: float) -> EquivalenceResult:
    """Test whether a ratio with a known confidence interval is equivalent to 1.

    Args:
        found: The interval of the ratio. A test with significance level alpha needs an interval with confidence
            1 − 2·alpha, such as 90 % for an alpha of 0.05.
        margin: Relative margin: 0.1 accepts ratios from 1/1.1 to 1.1.

    Returns:
        The ends of `found`, and the verdict ``equivalent``, ``different`` or ``undecided``.

    Raises:
        StatisticsError: The margin is not above 0.
    """
    if not margin > 0:
        raise StatisticsError(f"a margin of equivalence must be above 0, not {margin}")
    low, high, method = found
    if method == "none":
        return EquivalenceResult(low, high, "undecided")
    if 1 / (1 + margin) <= low and high <= 1 + margin:
        return EquivalenceResult(low, high, "equivalent")
    return EquivalenceResult(low, high, "undecided" if low <= 1 <= high else "different")


def ratio_verdict(low: float, high: float) -> Literal["slower", "faster", "indistinguishable"]:
    """Return whether a ratio of rates differs from 1, as one of three words.

    Both ends of the interval are first rounded to two decimals, as they are printed, so that the word agrees with the
    printed numbers.

    Args:
        low: Lower end of the ratio's confidence interval.
        high: Upper end of the ratio's confidence interval.

    Returns:
        ``slower`` if the complete interval is below 1, ``faster`` if the complete interval is above 1. Otherwise, and
        if the ends are NaN, ``indistinguishable``.
    """
    if round(high, 2) < 1:
        return "slower"
    return "faster" if round(low, 2) > 1 else "indistinguishable"


def summarise_groups(
    table: pd.DataFrame,
    by: Sequence[str],
    value: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    seed: int = 0,
) -> pd.DataFrame:
    """Return mean, confidence interval and variation of each group of repetitions.

    Args:
        table: A row per repetition (run of fio).
        by: The columns whose values define the groups, such as drive and bs_bytes. Rows with equal values in these
            columns are one group.
        value: The column to summarise.
        confidence: Confidence level, between 0 and 1.
        method: ``t`` (Student's t) or ``bca`` (bootstrap), see `mean_interval`.
        seed: Seed of the bootstrap.

    Returns:
        A row per group, in the order in which the groups first appear. Columns:

        - the columns in `by`
        - executions: the number of repetitions
        - mean, in the unit of `value`
        - low and high: the ends of the interval of the mean; NaN for a single repetition
        - cv: the coefficient of variation, which is the sample standard deviation divided by the mean; NaN for a single
          repetition or a mean of 0
        - method: the method used, ``t``, ``bca`` or ``none``
        - confidence: the confidence level

    Raises:
        StatisticsError: A column is missing, a value is missing or not finite, or the method or level is invalid.
    """
    check_interval_method(confidence, method)
    _check_columns(table, [*by, value])
    rows = []
    for key, group in table.groupby(list(by), sort=False, dropna=False)[value]:
        values = group.to_numpy(dtype=np.float64)
        try:
            low, high, used = mean_interval(values, confidence, method, seed)
        except StatisticsError as error:
            raise StatisticsError(f"{value} of {_group_text(by, key)}: {error}") from None
        rows.append((*key, len(values), float(values.mean()), low, high, _variation(values), used, confidence))
    return pd.DataFrame(rows, columns=[*by, "executions", "mean", "low", "high", "cv", "method", "confidence"])


def random_to_sequential_ratios(
    table: pd.DataFrame,
    by: Sequence[str],
    value: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    seed: int = 0,
) -> pd.DataFrame:
    """Return the ratio of random to sequential means for each group and operation.

    Args:
        table: A row per repetition (run of fio), or per published value. The column rw has fio's names of workloads:
            read, randread, write and randwrite. Other workloads are ignored.
        by: The columns whose values define the groups, such as drive and bs_bytes.
        value: The column with the values, such as a bandwidth.
        confidence: Confidence level, between 0 and 1.
        method: ``t`` (Student's t) or ``bca`` (bootstrap), see `mean_interval`.
        seed: Seed of the bootstrap.

    Returns:
        A row for each group and operation. Operations of which only the random or only the sequential workload was
        measured are left out. Columns:

        - the columns in `by`
        - operation: ``read`` or ``write``
        - ratio: mean of random access divided by mean of sequential access
        - low and high: the ends of the ratio's confidence interval; NaN if a workload has a single row
        - gap: mean of sequential access minus mean of random access, in the unit of `value`
        - method: the method used for the interval, ``t``, ``bca`` or ``none``
        - confidence: the confidence level

    Raises:
        StatisticsError: A column is missing, a value is missing or not finite, a mean is not above 0, or the method or
            level is invalid.
    """
    check_interval_method(confidence, method)
    _check_columns(table, [*by, "rw", value])
    rows = []
    # grouping only these of some eighty columns is faster
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
                raise StatisticsError(f"{value} of {_group_text(by, key)}, {operation}: {error}") from None
            means = float(random.mean()), float(sequential.mean())
            rows.append((*key, operation, means[0] / means[1], low, high, means[1] - means[0], used, confidence))
    return pd.DataFrame(rows, columns=[*by, "operation", "ratio", "low", "high", "gap", "method", "confidence"])


def checked_sample(values: Sequence[float] | FloatArray) -> FloatArray:
    """Return values as an array of floats, after checking that they are finite.

    Raises:
        StatisticsError: There are no values, or a value is missing or not finite.
    """
    sample = np.asarray(values, dtype=np.float64)
    if sample.size == 0:
        raise StatisticsError("there are no repetitions to summarise")
    if not np.isfinite(sample).all():
        raise StatisticsError("a value is missing or not finite")
    return sample


def check_interval_method(confidence: float, method: str = "t") -> None:
    """Raise StatisticsError unless a method and a confidence level are valid.

    Args:
        confidence: Confidence level; valid are numbers between 0 and 1.
        method: Method of intervals; valid are ``t`` (Student's t) and ``bca`` (bootstrap).
    """
    if method not in get_args(Method):
        raise StatisticsError(f"unknown interval method {method!r}; valid are t and bca")
    if not 0 < confidence < 1:
        raise StatisticsError(f"a confidence level must be between 0 and 1, not {confidence}")


def _check_columns(table: pd.DataFrame, names: Sequence[str]) -> None:
    for name in names:
        if name not in table.columns:
            raise StatisticsError(f"the repetitions have no column {name!r}, only {', '.join(table.columns)}")


def _group_text(by: Sequence[str], key: tuple[Any, ...]) -> str:
    return ", ".join(f"{name} {part}" for name, part in zip(by, key, strict=True))


def _deviation(sample: FloatArray) -> float:
    return float(sample.std(ddof=1))


def _variation(sample: FloatArray) -> float:
    """Return the coefficient of variation: standard deviation over mean.

    It is NaN for a single value or a mean of 0, and exactly 0 for equal values.
    """
    mean = float(sample.mean())
    if sample.size < 2 or mean == 0:
        return math.nan
    # the standard deviation of equal values may be a rounding error
    return 0.0 if np.ptp(sample) == 0 else _deviation(sample) / abs(mean)


def _welch_freedom(variances: Sequence[float], groups: Sequence[FloatArray]) -> float:
    """Return the degrees of freedom of a sum of variances of means (Welch 1947).

    Args:
        variances: The variance of the mean of each group.
        groups: The values of each group.
    """
    terms = (variance**2 / (group.size - 1) for variance, group in zip(variances, groups, strict=True))
    return float(sum(variances) ** 2 / sum(terms))


def _t_quantile(freedom: float, confidence: float) -> float:
    """Return the quantile t of Student's t distribution for a two-sided interval.

    A variable with `freedom` degrees of freedom is between −t and t with probability `confidence`.
    """
    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def _bootstrap(groups: list[FloatArray], statistic: Callable[..., Any], confidence: float, seed: int) -> Interval:
    # importing scipy.stats takes over a second, and the default method does not need it
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
