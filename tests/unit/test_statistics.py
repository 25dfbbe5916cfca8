"""Means, confidence intervals, ratios and tests of equivalence."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from iopatterns.analysis.statistics import (
    BCA_MIN_EXECUTIONS,
    FloatArray,
    Interval,
    StatisticsError,
    difference_interval,
    equivalence_of_interval,
    equivalence_test,
    function_interval,
    interval_method_used,
    mean_interval,
    product_interval,
    random_to_sequential_ratios,
    ratio_verdict,
    summarise_groups,
)

# Means 10 and 20 over 5 and 40; the squared coefficients of variation over n are 3, 1, 4 and 1 three-hundredths
ABOVE, BELOW = ([9.0, 11.0], [18.0, 20.0, 22.0]), ([4.0, 5.0, 6.0], [36.0, 40.0, 44.0])
SKEWED = [10.0, 11.0, 10.5, 10.2, 10.8, 10.1, 10.4, 10.3, 10.6, 25.0]
bandwidths = st.floats(1.0, 1e4, allow_nan=False)
samples = st.lists(bandwidths, min_size=2, max_size=12)


def ratio_interval(
    above: Sequence[float] | FloatArray, below: Sequence[float] | FloatArray, method: str = "t"
) -> Interval:
    return product_interval([above], [below], method=method)


def table(**values: list[float]) -> pd.DataFrame:
    rows = [{"drive": "d", "rw": rw, "bs_bytes": 4096, "mb": one} for rw, many in values.items() for one in many]
    return pd.DataFrame(rows)


def mean_of_one(means: Sequence[float]) -> float:
    return means[0]


def difference_of_two(means: Sequence[float]) -> float:
    return means[0] - means[1]


def ratio_of_two(means: Sequence[float]) -> float:
    return means[0] / means[1]


def width(found: Interval) -> float:
    return found.high - found.low


def test_the_t_interval_equals_the_textbook_formula() -> None:
    # mean 3, s = sqrt(2.5), t(4, 97.5 %) = 2.776445
    low, high, method = mean_interval([1, 2, 3, 4, 5])
    assert method == "t"
    assert (low, high) == pytest.approx((3 - 1.963243, 3 + 1.963243), abs=1e-6)


def test_the_t_interval_of_normal_values_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(7)
    intervals = [mean_interval(rng.normal(100, 10, size=10), confidence=0.9) for _ in range(3000)]
    covered = sum(low <= 100 <= high for low, high, _ in intervals) / len(intervals)
    assert covered == pytest.approx(0.9, abs=0.015)


@given(samples)
def test_the_t_interval_contains_the_mean(values: list[float]) -> None:
    low, high, _ = mean_interval(values)
    mean = float(np.mean(values))
    assert low <= mean * (1 + 1e-12)
    assert high >= mean * (1 - 1e-12)


@given(samples, st.sampled_from([0.001, 0.5, 1e3, 1e6]))
def test_the_t_interval_scales_with_the_unit(values: list[float], scale: float) -> None:
    low, high, _ = mean_interval(values)
    scaled = mean_interval([scale * value for value in values])
    assert (scaled.low, scaled.high) == pytest.approx((scale * low, scale * high), rel=1e-6, abs=1e-6 * scale)


@given(samples)
def test_a_higher_confidence_never_gives_a_narrower_interval(values: list[float]) -> None:
    narrow, wide = mean_interval(values, 0.8), mean_interval(values, 0.99)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@settings(max_examples=15, deadline=None)
@given(st.lists(bandwidths, min_size=8, max_size=10, unique=True))
def test_the_bca_interval_is_within_the_values_and_scales(values: list[float]) -> None:
    low, high, method = mean_interval(values, method="bca", seed=3)
    assert method == "bca"
    assert min(values) <= low <= high <= max(values)
    doubled = mean_interval([2 * value for value in values], method="bca", seed=3)
    assert (doubled.low, doubled.high) == pytest.approx((2 * low, 2 * high))


def test_the_bca_interval_depends_only_on_its_seed() -> None:
    assert mean_interval(SKEWED, method="bca", seed=1) == mean_interval(SKEWED, method="bca", seed=1)
    assert mean_interval(SKEWED, method="bca", seed=1) != mean_interval(SKEWED, method="bca", seed=2)


def test_the_bca_interval_is_longer_on_the_side_of_the_outlier() -> None:
    low, high, _ = mean_interval(SKEWED, method="bca")
    mean = float(np.mean(SKEWED))
    assert high - mean > mean - low


def test_bca_of_too_few_repetitions_is_a_t_interval() -> None:
    few = SKEWED[: BCA_MIN_EXECUTIONS - 1]
    assert mean_interval(few, method="bca") == mean_interval(few, method="t")


def has_no_interval(found: Sequence[Any]) -> bool:
    return math.isnan(found[0]) and math.isnan(found[1])


@pytest.mark.parametrize("method", ["t", "bca"])
def test_a_single_repetition_has_no_interval(method: str) -> None:
    found = [
        mean_interval([5.0], method=method),
        product_interval([SKEWED, [3.0]], [SKEWED, SKEWED], method=method),
        function_interval(ratio_of_two, [[9.0, 10.0], [2.0]]),
    ]
    assert all(has_no_interval(each) and each.method == "none" for each in found)


@pytest.mark.parametrize("method", ["t", "bca"])
def test_equal_repetitions_have_an_interval_of_zero_width(method: str) -> None:
    assert mean_interval([5.0] * 10, method=method) == (5.0, 5.0, method)
    assert product_interval([[3.0] * 8, [8.0] * 8], [[2.0] * 8, [4.0] * 8], method=method) == (3.0, 3.0, method)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "no repetitions"),
        ([1.0, math.nan], {}, "not finite"),
        ([1.0, math.inf], {}, "not finite"),
        ([1.0, 2.0], {"method": "normal"}, "valid are t and bca"),
        ([1.0, 2.0], {"confidence": 95}, "between 0 and 1"),
    ],
)
def test_values_and_options_without_an_interval_are_refused(
    values: list[float], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(StatisticsError, match=message):
        mean_interval(values, **options)


@given(samples, samples)
def test_the_inverse_ratio_has_the_inverse_interval(above: list[float], below: list[float]) -> None:
    low, high, _ = ratio_interval(above, below)
    turned = ratio_interval(below, above)
    assert (turned.low, turned.high) == pytest.approx((1 / high, 1 / low), rel=1e-9)
    assert low <= np.mean(above) / np.mean(below) * (1 + 1e-9)


def test_the_ratio_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(8)
    pairs = [(rng.normal(50, 5, size=10), rng.normal(100, 5, size=10)) for _ in range(3000)]
    covered = np.mean([low <= 0.5 <= high for low, high, _ in (ratio_interval(*pair) for pair in pairs)])
    assert covered == pytest.approx(0.95, abs=0.015)


def test_both_methods_agree_about_a_ratio_of_near_normal_values() -> None:
    rng = np.random.default_rng(9)
    above, below = rng.normal(50, 2, size=40), rng.normal(100, 4, size=40)
    student, bootstrap = ratio_interval(above, below), ratio_interval(above, below, method="bca")
    assert (bootstrap.low, bootstrap.high) == pytest.approx((student.low, student.high), rel=0.01)


@pytest.mark.parametrize(
    ("above", "below"), [([[1.0, 2.0]], [[0.0, 0.0]]), ([[1.0, 2.0], [-3.0, 1.0]], [[1.0, 2.0], [3.0, 4.0]])]
)
def test_a_mean_that_is_not_above_zero_has_no_ratio(above: list[list[float]], below: list[list[float]]) -> None:
    with pytest.raises(StatisticsError, match="above zero"):
        product_interval(above, below)


def test_a_summary_has_one_row_per_group_in_order_of_appearance() -> None:
    result = summarise_groups(table(write=[1, 3], read=[2, 2, 2]), ["drive", "rw"], "mb")
    assert list(result["rw"]) == ["write", "read"]
    assert list(result["executions"]) == [2, 3]
    assert list(result["mean"]) == [2, 2]
    assert result["cv"].tolist() == pytest.approx([math.sqrt(2) / 2, 0])
    assert set(result["method"]) == {"t"}
    assert set(result["confidence"]) == {0.95}


def test_a_summary_of_one_repetition_only_has_a_mean() -> None:
    row = summarise_groups(table(read=[7]), ["rw"], "mb").iloc[0]
    assert row["mean"] == 7
    assert row[["low", "high", "cv"]].isna().all()
    assert row["method"] == "none"


def test_the_summary_of_a_group_does_not_depend_on_other_groups() -> None:
    alone = summarise_groups(table(read=SKEWED), ["rw"], "mb", method="bca", seed=5)
    beside = summarise_groups(table(write=SKEWED[::-1], read=SKEWED), ["rw"], "mb", method="bca", seed=5)
    pd.testing.assert_frame_equal(beside[beside["rw"] == "read"].reset_index(drop=True), alone)


def test_the_group_with_a_missing_value_is_named() -> None:
    with pytest.raises(StatisticsError, match="mb of drive d, rw read: a value is missing"):
        summarise_groups(table(write=[1, 2], read=[1, math.nan]), ["drive", "rw"], "mb")


def test_a_missing_column_is_named() -> None:
    with pytest.raises(StatisticsError, match="no column 'iops'"):
        summarise_groups(table(read=[1]), ["drive"], "iops")


def test_random_and_sequential_workloads_are_paired_by_operation() -> None:
    executions = table(read=[100, 102], randread=[50, 51], write=[80], randwrite=[60])
    result = random_to_sequential_ratios(executions, ["drive", "bs_bytes"], "mb").set_index("operation")
    assert result["ratio"].to_dict() == {"read": 0.5, "write": 0.75}
    assert result["gap"].to_dict() == {"read": 50.5, "write": 20}
    assert result.loc["read", "method"] == "t"
    assert result.loc["write", "method"] == "none"


def test_an_operation_without_its_counterpart_has_no_ratio() -> None:
    result = random_to_sequential_ratios(table(read=[1, 2], randread=[1, 2], write=[3]), ["drive"], "mb")
    assert list(result["operation"]) == ["read"]


def test_the_t_interval_of_four_groups_equals_a_calculation_by_hand() -> None:
    # product 1; standard error of the logarithm sqrt(0.03); Welch: 0.03² / (0.01² + (0.01² + 0.04² + 0.01²) / 18) = 4.5
    factor = math.exp(stats.t.ppf(0.975, 4.5) * math.sqrt(0.03))
    low, high, method = product_interval(ABOVE, BELOW)
    assert method == "t"
    assert (low, high) == pytest.approx((1 / factor, factor), rel=1e-9)


def test_a_product_with_one_noisy_group_has_the_freedom_of_that_group() -> None:
    # mean 10, s² = 10, n = 5, so the standard error of the logarithm is sqrt(0.1 / 5)
    low, high, _ = product_interval([[6.0, 8.0, 10.0, 12.0, 14.0], [2.0] * 3], [[5.0] * 9, [4.0] * 7])
    factor = math.exp(stats.t.ppf(0.975, 4) * math.sqrt(0.02))
    assert (low, high) == pytest.approx((1 / factor, factor), rel=1e-9)


def test_a_product_does_not_depend_on_the_order_of_its_groups() -> None:
    turned = product_interval(ABOVE[::-1], BELOW[::-1])
    assert (turned.low, turned.high) == pytest.approx(product_interval(ABOVE, BELOW)[:2], rel=1e-12)


def test_the_smallest_group_decides_whether_a_product_can_use_bca() -> None:
    few = SKEWED[: BCA_MIN_EXECUTIONS - 1]
    assert product_interval([SKEWED, few], [SKEWED, SKEWED], method="bca").method == "t"
    assert product_interval([SKEWED, SKEWED], [SKEWED, SKEWED], method="bca").method == "bca"


@given(samples, samples, samples, samples, st.sampled_from([0.001, 0.5, 1e3, 1e6]))
def test_a_common_factor_of_numerator_and_denominator_cancels_out(
    one: list[float], two: list[float], three: list[float], four: list[float], scale: float
) -> None:
    low, high, method = product_interval([one, two], [three, four])
    scaled = product_interval([[scale * value for value in one], two], [[scale * value for value in three], four])
    assert scaled.method == method
    assert (scaled.low, scaled.high) == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize(
    ("executions", "asked", "used"),
    [
        (1, "t", "none"),
        (1, "bca", "none"),
        (2, "t", "t"),
        (BCA_MIN_EXECUTIONS - 1, "bca", "t"),
        (BCA_MIN_EXECUTIONS, "bca", "bca"),
        (BCA_MIN_EXECUTIONS, "t", "t"),
    ],
)
def test_the_interval_method_depends_on_the_number_of_repetitions(executions: int, asked: str, used: str) -> None:
    assert interval_method_used(executions, asked) == used


@given(st.integers(1, 12), st.sampled_from(["t", "bca"]))
@settings(deadline=None, max_examples=20)
def test_the_predicted_interval_method_is_used(executions: int, asked: str) -> None:
    values = [100.0 + number**2 for number in range(executions)]
    assert mean_interval(values, method=asked).method == interval_method_used(executions, asked)


@pytest.mark.parametrize(
    ("above", "verdict"), [([100.0, 101.0, 99.0, 100.0], "equivalent"), ([150.0, 151.0, 149.0, 150.0], "different")]
)
def test_equivalence_compares_the_interval_with_the_margin(above: list[float], verdict: str) -> None:
    assert equivalence_test([above], [[100.0, 100.5, 99.5, 100.0]], 0.05).verdict == verdict


def test_a_difference_that_is_not_significant_does_not_show_equivalence() -> None:
    above, below = [60.0, 140.0, 100.0], [130.0, 70.0, 100.0]
    assert ratio_interval(above, below).low < 1 < ratio_interval(above, below).high
    assert equivalence_test([above], [below], 0.1).verdict == "undecided"


def test_a_significant_difference_within_the_margin_is_equivalent() -> None:
    above, below = [102.0, 102.1, 101.9, 102.0], [100.0, 100.1, 99.9, 100.0]
    assert ratio_interval(above, below).low > 1
    assert equivalence_test([above], [below], 0.05).verdict == "equivalent"


def test_equivalence_of_a_single_repetition_is_undecided() -> None:
    found = equivalence_test([[100.0]], [[100.0]], 0.1)
    assert has_no_interval(found)
    assert found.verdict == "undecided"


def test_a_test_of_equivalence_uses_confidence_1_minus_twice_alpha() -> None:
    found = equivalence_test(ABOVE, BELOW, 0.1, alpha=0.1)
    assert (found.low, found.high) == product_interval(ABOVE, BELOW, confidence=0.8)[:2]


@pytest.mark.parametrize(("value", "verdict"), [(109.0, "equivalent"), (111.0, "different")])
def test_the_margin_extends_to_its_inverse_below_1(value: float, verdict: str) -> None:
    more, less = [value] * 3, [100.0] * 3
    assert equivalence_test([more], [less], 0.1).verdict == verdict
    assert equivalence_test([less], [more], 0.1).verdict == verdict


# ---- Functions of means


@given(samples, st.sampled_from([0.8, 0.95, 0.99]))
def test_the_function_interval_of_a_mean_is_the_t_interval(values: list[float], confidence: float) -> None:
    found, expected = function_interval(mean_of_one, [values], confidence), mean_interval(values, confidence)
    assert found[:2] == pytest.approx(expected[:2], rel=1e-6, abs=1e-6)


@given(samples, samples, st.sampled_from([0.8, 0.95]))
def test_the_function_interval_of_a_difference_is_the_difference_interval(
    first: list[float], second: list[float], confidence: float
) -> None:
    found = function_interval(difference_of_two, [first, second], confidence)
    expected = difference_interval(first, second, confidence)
    assert found[:2] == pytest.approx(expected[:2], rel=1e-5, abs=1e-5)


def test_the_function_interval_of_a_difference_equals_that_of_scipy() -> None:
    first, second = [90.0, 100.0, 110.0, 104.0], [24.0, 25.0, 26.0]
    expected = stats.ttest_ind(first, second, equal_var=False).confidence_interval(0.9)
    found = function_interval(difference_of_two, [first, second], 0.9)
    assert found[:2] == pytest.approx((expected.low, expected.high), rel=1e-6)


small = st.lists(st.floats(0.98, 1.02), min_size=3, max_size=8)


@given(small, small, st.floats(1.0, 1e4), st.floats(1.0, 1e4))
def test_the_function_interval_of_a_ratio_is_close_to_the_product_interval(
    above: list[float], below: list[float], high: float, low: float
) -> None:
    # one is computed for the ratio, the other for its logarithm: they differ to second order
    above, below = [high * one for one in above], [low * one for one in below]
    found, expected = function_interval(ratio_of_two, [above, below]), product_interval([above], [below])
    ratio = float(np.mean(above) / np.mean(below))
    second_order = (width(expected) / ratio) ** 2 * ratio + 1e-6 * ratio
    assert found.low == pytest.approx(expected.low, abs=second_order)
    assert found.high == pytest.approx(expected.high, abs=second_order)


@given(samples, samples, st.floats(1e-3, 1e3))
def test_a_function_interval_scales_with_the_function(first: list[float], second: list[float], scale: float) -> None:
    plain = function_interval(ratio_of_two, [first, second])
    scaled = function_interval(lambda means: scale * ratio_of_two(means), [first, second])
    assert scaled[:2] == pytest.approx([scale * one for one in plain[:2]], rel=1e-6)


@given(samples, samples)
def test_a_function_interval_does_not_depend_on_the_order_of_groups(first: list[float], second: list[float]) -> None:
    turned = function_interval(lambda means: means[1] / means[0], [second, first])
    assert turned[:2] == pytest.approx(function_interval(ratio_of_two, [first, second])[:2], rel=1e-9)


@given(samples, samples)
def test_the_value_is_the_middle_of_a_function_interval(first: list[float], second: list[float]) -> None:
    low, high, method = function_interval(ratio_of_two, [first, second])
    value = np.mean(first) / np.mean(second)
    assert method == "t"
    assert (low + high) / 2 == pytest.approx(value, rel=1e-6)
    assert low <= high


def test_the_delta_method_equals_the_textbook_formula() -> None:
    # x·y² has slopes 4 and 40 at means 10 and 2
    x, y = [9.0, 10.0, 11.0], [1.9, 2.1, 1.9, 2.1]
    parts = [4**2 * 1 / 3, 40**2 * float(np.var(y, ddof=1)) / 4]
    freedom = sum(parts) ** 2 / (parts[0] ** 2 / 2 + parts[1] ** 2 / 3)
    half = stats.t.ppf(0.975, freedom) * math.sqrt(sum(parts))
    found = function_interval(lambda means: means[0] * means[1] ** 2, [x, y])
    assert found[:2] == pytest.approx((40 - half, 40 + half), rel=1e-6)


def test_a_function_interval_has_its_nominal_coverage() -> None:
    rng = np.random.default_rng(9)

    def share(means: Sequence[float]) -> float:
        return 100 * means[0] / (means[1] + means[0])

    found = [
        function_interval(share, [rng.normal(30, 2, size=8), rng.normal(90, 9, size=5)], confidence=0.9)
        for _ in range(3000)
    ]
    covered = sum(low <= 25 <= high for low, high, _ in found) / len(found)
    assert covered == pytest.approx(0.9, abs=0.015)


def test_a_function_interval_is_close_to_that_of_a_bootstrap() -> None:
    rng = np.random.default_rng(11)
    groups = [rng.normal(mean, 0.03 * mean, size=40) for mean in (2440.0, 3360.0, 190.0)]

    def of_means(*samples_: Any, axis: int = -1) -> Any:
        mix, read, write = (sample.mean(axis=axis) for sample in samples_)
        return mix / read * (100 + read / write) / 100

    found = function_interval(lambda means: means[0] / means[1] * (100 + means[1] / means[2]) / 100, groups)
    resampled = stats.bootstrap(groups, of_means, method="percentile", rng=np.random.default_rng(3))
    expected = resampled.confidence_interval
    assert found.low == pytest.approx(expected.low, rel=0.003)
    assert found.high == pytest.approx(expected.high, rel=0.003)
    assert width(found) == pytest.approx(expected.high - expected.low, rel=0.1)


@pytest.mark.parametrize(
    ("function", "groups", "value"),
    [(ratio_of_two, [[6.0, 6.0], [2.0, 2.0, 2.0]], 3.0), (lambda _: 7.0, [[9.0, 10.0]], 7.0)],
)
def test_a_function_that_does_not_vary_has_an_interval_of_zero_width(
    function: Any, groups: list[list[float]], value: float
) -> None:
    assert function_interval(function, groups) == (value, value, "t")


def test_a_group_without_variation_does_not_widen_a_function_interval() -> None:
    found = function_interval(difference_of_two, [[9.0, 10.0, 11.0], [4.0] * 7])
    alone = mean_interval([9.0, 10.0, 11.0])
    assert found[:2] == pytest.approx((alone.low - 4, alone.high - 4), rel=1e-6)


@pytest.mark.parametrize(
    ("groups", "confidence", "message"),
    [
        ([[1.0, 2.0], []], 0.95, "no repetitions"),
        ([[1.0, math.nan]], 0.95, "missing or not finite"),
        ([[1.0, 2.0]], 1.0, "confidence level must be between 0 and 1"),
    ],
)
def test_a_function_of_invalid_groups_is_refused(groups: list[list[float]], confidence: float, message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        function_interval(sum, groups, confidence)


def test_a_function_that_divides_by_a_mean_of_zero_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        function_interval(ratio_of_two, [[1.0, 2.0], [0.0, 0.0]])


# ---- Equivalence of any statistic with 1


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (Interval(0.95, 1.05, "t"), "equivalent"),
        (Interval(1 / 1.1, 1.1, "t"), "equivalent"),
        (Interval(0.9, 1.05, "t"), "undecided"),
        (Interval(0.95, 1.2, "t"), "undecided"),
        (Interval(1.05, 1.2, "t"), "different"),
        (Interval(0.5, 0.6, "t"), "different"),
        (Interval(-1.0, 3.0, "t"), "undecided"),
        (Interval(math.nan, math.nan, "none"), "undecided"),
    ],
)
def test_the_equivalence_verdict_follows_from_the_interval(found: Interval, verdict: str) -> None:
    assert equivalence_of_interval(found, 0.1).verdict == verdict
    assert equivalence_of_interval(found, 0.1)[:2] == pytest.approx(found[:2], nan_ok=True)


@pytest.mark.parametrize("margin", [0.0, -0.1, math.nan])
def test_a_margin_that_is_not_above_0_is_refused(margin: float) -> None:
    with pytest.raises(StatisticsError, match="margin of equivalence must be above 0"):
        equivalence_of_interval(Interval(0.9, 1.1, "t"), margin)


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.2857, 0.2857, "slower"),
        (0.9, 0.98, "slower"),
        (0.9996, 0.9996, "indistinguishable"),
        (0.9, 0.9999, "indistinguishable"),
        (0.9, 1.1, "indistinguishable"),
        (1.0004, 1.0004, "indistinguishable"),
        (1.02, 1.05, "faster"),
        (math.nan, math.nan, "indistinguishable"),
    ],
)
def test_a_ratio_differs_from_one_only_if_its_printed_digits_do(low: float, high: float, verdict: str) -> None:
    assert ratio_verdict(low, high) == verdict
