"""Facts about means, confidence intervals and ratios."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iopatterns.statistics import (
    BCA_MIN_EXECUTIONS,
    StatisticsError,
    interval,
    random_to_sequential,
    ratio_interval,
    summarise,
)

SKEWED = [10.0, 11.0, 10.5, 10.2, 10.8, 10.1, 10.4, 10.3, 10.6, 25.0]
bandwidths = st.floats(1.0, 1e4, allow_nan=False)
samples = st.lists(bandwidths, min_size=2, max_size=12)


def table(**values: list[float]) -> pd.DataFrame:
    rows = [{"drive": "d", "rw": rw, "bs_bytes": 4096, "mb": one} for rw, many in values.items() for one in many]
    return pd.DataFrame(rows)


def test_t_interval_is_that_of_the_textbook() -> None:
    # mean 3, s = sqrt(2.5), t(4, 97.5 %) = 2.776445
    low, high, method = interval([1, 2, 3, 4, 5])
    assert method == "t"
    assert (low, high) == pytest.approx((3 - 1.963243, 3 + 1.963243), abs=1e-6)


def test_t_interval_covers_the_true_mean_of_normal_values_as_often_as_it_says() -> None:
    rng = np.random.default_rng(7)
    intervals = [interval(rng.normal(100, 10, size=10), confidence=0.9) for _ in range(3000)]
    covered = sum(low <= 100 <= high for low, high, _ in intervals) / len(intervals)
    assert covered == pytest.approx(0.9, abs=0.015)


@given(samples)
def test_t_interval_contains_the_mean(values: list[float]) -> None:
    low, high, _ = interval(values)
    mean = float(np.mean(values))
    assert low <= mean * (1 + 1e-12)
    assert high >= mean * (1 - 1e-12)


@given(samples, st.sampled_from([0.001, 0.5, 1e3, 1e6]))
def test_t_interval_scales_with_the_unit(values: list[float], scale: float) -> None:
    low, high, _ = interval(values)
    scaled = interval([scale * value for value in values])
    assert (scaled.low, scaled.high) == pytest.approx((scale * low, scale * high), rel=1e-6, abs=1e-6 * scale)


@given(samples)
def test_a_higher_confidence_never_gives_a_narrower_interval(values: list[float]) -> None:
    narrow, wide = interval(values, 0.8), interval(values, 0.99)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@settings(max_examples=15, deadline=None)
@given(st.lists(bandwidths, min_size=8, max_size=10, unique=True))
def test_bca_interval_lies_within_the_values_and_scales(values: list[float]) -> None:
    low, high, method = interval(values, method="bca", seed=3)
    assert method == "bca"
    assert min(values) <= low <= high <= max(values)
    doubled = interval([2 * value for value in values], method="bca", seed=3)
    assert (doubled.low, doubled.high) == pytest.approx((2 * low, 2 * high))


def test_bca_interval_is_fixed_by_its_seed() -> None:
    assert interval(SKEWED, method="bca", seed=1) == interval(SKEWED, method="bca", seed=1)
    assert interval(SKEWED, method="bca", seed=1) != interval(SKEWED, method="bca", seed=2)


def test_bca_interval_leans_to_the_side_of_the_outlier() -> None:
    low, high, _ = interval(SKEWED, method="bca")
    mean = float(np.mean(SKEWED))
    assert high - mean > mean - low


def test_too_few_executions_for_bca_give_a_t_interval_that_says_so() -> None:
    few = SKEWED[: BCA_MIN_EXECUTIONS - 1]
    assert interval(few, method="bca") == interval(few, method="t")
    assert interval(SKEWED[:BCA_MIN_EXECUTIONS], method="bca").method == "bca"


@pytest.mark.parametrize("method", ["t", "bca"])
def test_one_execution_has_no_interval(method: str) -> None:
    low, high, used = interval([5.0], method=method)
    assert math.isnan(low)
    assert math.isnan(high)
    assert used == "none"


@pytest.mark.parametrize("method", ["t", "bca"])
def test_equal_executions_have_an_interval_of_no_width(method: str) -> None:
    assert interval([5.0] * 10, method=method) == (5.0, 5.0, method)
    assert ratio_interval([2.0] * 10, [4.0] * 10, method=method) == (0.5, 0.5, method)


@pytest.mark.parametrize(
    ("values", "options", "message"),
    [
        ([], {}, "no executions"),
        ([1.0, math.nan], {}, "not finite"),
        ([1.0, math.inf], {}, "not finite"),
        ([1.0, 2.0], {"method": "normal"}, "valid are t and bca"),
        ([1.0, 2.0], {"confidence": 95}, "between 0 and 1"),
    ],
)
def test_what_has_no_interval_is_refused(values: list[float], options: dict[str, float], message: str) -> None:
    with pytest.raises(StatisticsError, match=message):
        interval(values, **options)


@given(samples, samples)
def test_the_ratio_turned_round_has_the_interval_turned_round(above: list[float], below: list[float]) -> None:
    low, high, _ = ratio_interval(above, below)
    turned = ratio_interval(below, above)
    assert (turned.low, turned.high) == pytest.approx((1 / high, 1 / low), rel=1e-9)
    assert low <= np.mean(above) / np.mean(below) * (1 + 1e-9)


def test_ratio_interval_covers_the_true_ratio_as_often_as_it_says() -> None:
    rng = np.random.default_rng(8)
    pairs = [(rng.normal(50, 5, size=10), rng.normal(100, 5, size=10)) for _ in range(3000)]
    covered = np.mean([low <= 0.5 <= high for low, high, _ in (ratio_interval(*pair) for pair in pairs)])
    assert covered == pytest.approx(0.95, abs=0.015)


def test_both_methods_agree_about_a_ratio_of_near_normal_values() -> None:
    rng = np.random.default_rng(9)
    above, below = rng.normal(50, 2, size=40), rng.normal(100, 4, size=40)
    student, bootstrap = ratio_interval(above, below), ratio_interval(above, below, method="bca")
    assert (bootstrap.low, bootstrap.high) == pytest.approx((student.low, student.high), rel=0.01)


def test_a_mean_of_zero_has_no_ratio() -> None:
    with pytest.raises(StatisticsError, match="above zero"):
        ratio_interval([1.0, 2.0], [0.0, 0.0])


def test_summary_has_one_row_per_group_in_the_order_of_appearance() -> None:
    result = summarise(table(write=[1, 3], read=[2, 2, 2]), ["drive", "rw"], "mb")
    assert list(result["rw"]) == ["write", "read"]
    assert list(result["executions"]) == [2, 3]
    assert list(result["mean"]) == [2, 2]
    assert result["cv"].tolist() == pytest.approx([math.sqrt(2) / 2, 0])
    assert set(result["method"]) == {"t"}
    assert set(result["confidence"]) == {0.95}


def test_summary_of_one_execution_has_a_mean_and_nothing_else() -> None:
    row = summarise(table(read=[7]), ["rw"], "mb").iloc[0]
    assert row["mean"] == 7
    assert row[["low", "high", "cv"]].isna().all()
    assert row["method"] == "none"


def test_summary_of_a_group_does_not_depend_on_the_other_groups() -> None:
    alone = summarise(table(read=SKEWED), ["rw"], "mb", method="bca", seed=5)
    beside = summarise(table(write=SKEWED[::-1], read=SKEWED), ["rw"], "mb", method="bca", seed=5)
    pd.testing.assert_frame_equal(beside[beside["rw"] == "read"].reset_index(drop=True), alone)


def test_summary_names_the_group_that_is_not_whole() -> None:
    with pytest.raises(StatisticsError, match="mb of drive d, rw read: a value is missing"):
        summarise(table(write=[1, 2], read=[1, math.nan]), ["drive", "rw"], "mb")


def test_summary_names_a_missing_column() -> None:
    with pytest.raises(StatisticsError, match="no column 'iops'"):
        summarise(table(read=[1]), ["drive"], "iops")


def test_random_to_sequential_pairs_each_operation() -> None:
    executions = table(read=[100, 102], randread=[50, 51], write=[80], randwrite=[60])
    result = random_to_sequential(executions, ["drive", "bs_bytes"], "mb").set_index("operation")
    assert result["ratio"].to_dict() == {"read": 0.5, "write": 0.75}
    assert result["gap"].to_dict() == {"read": 50.5, "write": 20}
    assert result.loc["read", "method"] == "t"
    assert result.loc["write", "method"] == "none"


def test_an_operation_without_its_counterpart_has_no_ratio() -> None:
    result = random_to_sequential(table(read=[1, 2], randread=[1, 2], write=[3]), ["drive"], "mb")
    assert list(result["operation"]) == ["read"]
