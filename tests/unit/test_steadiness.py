"""Steady state, outliers and two levels, according to their definitions."""

import statistics

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.measuring.steadiness import (
    has_two_levels,
    is_steady,
    outliers,
    steadiness,
    steadiness_doubts,
    steadiness_of_summary,
)


def test_equal_rounds_are_steady() -> None:
    found = steadiness([100.0] * 5)
    assert found is not None
    assert (found.excursion, found.rise, found.steady) == (0.0, 0.0, True)


def test_the_limits_are_those_of_the_specification() -> None:
    up_to_20_percent = [100, 110, 90, 110, 90]  # a range of 20 % of the mean, and next to no rise
    assert steadiness(up_to_20_percent).steady  # type: ignore[union-attr]
    assert not steadiness([100, 111, 90, 111, 90]).steady  # type: ignore[union-attr]
    rising = [95, 97.5, 100, 102.5, 105]  # a rise of 10 % of the mean over five rounds
    assert steadiness(rising).rise == pytest.approx(0.10)  # type: ignore[union-attr]
    assert steadiness(rising).steady  # type: ignore[union-attr]
    assert not steadiness([94, 97, 100, 103, 106]).steady  # type: ignore[union-attr]


def test_only_the_last_five_rounds_count() -> None:
    assert steadiness([1.0, 1000.0, *[100.0] * 5]).steady  # type: ignore[union-attr]
    assert steadiness([100.0] * 4) is None


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=5))
def test_a_summary_is_steady_only_if_the_rounds_are(values: list[float]) -> None:
    known = steadiness(values)
    summary = steadiness_of_summary(min(values), max(values), statistics.fmean(values), statistics.stdev(values), 5)
    assert known is not None
    assert summary is not None
    assert summary.excursion == pytest.approx(known.excursion)
    assert summary.rise >= abs(known.rise) - 1e-6
    assert known.steady or not summary.steady


def test_the_rise_in_a_summary_is_exact_for_a_straight_line() -> None:
    summary = steadiness_of_summary(95, 105, 100, statistics.stdev([95, 97.5, 100, 102.5, 105]), 5)
    assert summary is not None
    assert summary.rise == pytest.approx(0.10)


def test_too_few_rounds_or_a_mean_of_zero_have_no_steadiness() -> None:
    assert steadiness_of_summary(100, 100, 100, 0, 4) is None
    assert steadiness_of_summary(0, 0, 0, 0, 5) is None


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=20), st.floats(0.1, 1000))
def test_steadiness_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    one, other = steadiness(values), steadiness([factor * value for value in values])
    assert one is not None
    assert other is not None
    assert one.excursion == pytest.approx(other.excursion, rel=1e-6, abs=1e-9)
    assert one.rise == pytest.approx(other.rise, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "indices"),
    [
        ([100, 101, 99, 100, 102, 100, 250, 98, 101, 100], [6]),
        ([100, 104, 97, 101, 95, 103, 99, 106, 94, 100], []),
    ],
)
def test_only_distant_values_are_outliers(values: list[float], indices: list[int]) -> None:
    assert outliers(values) == indices


def test_two_levels_differ_from_one_level_and_from_an_outlier() -> None:
    assert has_two_levels([100, 101, 99, 100, 200, 201, 199, 200, 100, 200])
    assert not has_two_levels([100, 104, 97, 101, 95, 103, 99, 106, 94, 100])
    assert not has_two_levels([100, 101, 99, 100, 100, 101, 99, 100, 100, 200])


@pytest.mark.parametrize(
    ("values", "doubts"),
    [
        ([100.0] * 10, []),
        ([100, 101, 99, 100, 100, 101, 60, 140, 60, 140], ["not in a steady state", "outliers among the executions"]),
    ],
)
def test_doubts_are_texts(values: list[float], doubts: list[str]) -> None:
    assert steadiness_doubts(values) == doubts


def rows(least: list[int], most: list[int], mean: list[float], deviation: list[float], samples: int) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "iops_min": least,
            "iops_max": most,
            "iops_mean": mean,
            "iops_stddev": deviation,
            "iops_samples": [samples] * len(least),
        }
    )


def test_a_repetition_is_steady_if_all_its_directions_are() -> None:
    assert is_steady(rows([990, 480], [1010, 520], [1000, 500], [8, 16], 5)) is True
    assert is_steady(rows([990, 250], [1010, 750], [1000, 500], [8, 200], 5)) is False


def test_with_too_few_rounds_it_is_unknown() -> None:
    assert is_steady(rows([990], [1010], [1000], [8], 3)) is None
    assert is_steady(rows([0], [0], [0], [0], 0)) is None


def test_grouped_jobs_have_the_rounds_of_one_job() -> None:
    together = rows([38_314], [38_703], [38_503.4], [37.6], 20).assign(numjobs=4, group_reporting=1)
    assert is_steady(together) is True
    assert is_steady(together.assign(iops_samples=16)) is None
