"""Steady state, outliers and levels: what the definitions say, and what no definition would call doubtful."""

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


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=5))
def test_rounds_without_their_order_are_never_called_steady_where_the_order_says_otherwise(values: list[float]) -> None:
    known = steadiness(values)
    told = steadiness_of_summary(min(values), max(values), statistics.fmean(values), statistics.stdev(values), 5)
    assert known is not None
    assert told is not None
    assert told.excursion == pytest.approx(known.excursion)
    assert told.rise >= abs(known.rise) - 1e-6
    assert known.steady or not told.steady


def test_the_rise_of_a_straight_line_is_found_without_its_order() -> None:
    rising = [95, 97.5, 100, 102.5, 105]
    told = steadiness_of_summary(95, 105, 100, statistics.stdev(rising), 5)
    assert told is not None
    assert told.rise == pytest.approx(0.10)


def test_four_rounds_say_nothing() -> None:
    assert steadiness_of_summary(100, 100, 100, 0, 4) is None
    assert steadiness_of_summary(0, 0, 0, 0, 5) is None


def test_fewer_rounds_say_nothing() -> None:
    assert steadiness([100.0] * 4) is None


@given(st.lists(st.floats(1, 1e6), min_size=5, max_size=20), st.floats(0.1, 1000))
def test_steadiness_does_not_depend_on_the_unit(values: list[float], factor: float) -> None:
    one, other = steadiness(values), steadiness([factor * value for value in values])
    assert one is not None
    assert other is not None
    assert one.excursion == pytest.approx(other.excursion, rel=1e-6, abs=1e-9)
    assert one.rise == pytest.approx(other.rise, rel=1e-6, abs=1e-6)


def test_a_value_that_stands_apart_is_found() -> None:
    assert outliers([100, 101, 99, 100, 102, 100, 250, 98, 101, 100]) == [6]


def test_values_of_a_usual_spread_have_no_outliers() -> None:
    assert outliers([100, 104, 97, 101, 95, 103, 99, 106, 94, 100]) == []


def test_two_levels_are_told_from_one_and_from_a_single_outlier() -> None:
    assert has_two_levels([100, 101, 99, 100, 200, 201, 199, 200, 100, 200])
    assert not has_two_levels([100, 104, 97, 101, 95, 103, 99, 106, 94, 100])
    assert not has_two_levels([100, 101, 99, 100, 100, 101, 99, 100, 100, 200])


def test_executions_that_are_alike_raise_no_doubt() -> None:
    assert steadiness_doubts([100.0] * 10) == []


def test_doubts_are_told_in_words() -> None:
    assert steadiness_doubts([100, 101, 99, 100, 100, 101, 60, 140, 60, 140]) == [
        "not in a steady state",
        "outliers among the executions",
    ]


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


def test_an_execution_is_steady_or_not_by_all_of_its_directions() -> None:
    assert is_steady(rows([990, 480], [1010, 520], [1000, 500], [8, 16], 5)) is True
    assert is_steady(rows([990, 250], [1010, 750], [1000, 500], [8, 200], 5)) is False


def test_of_an_execution_with_fewer_rounds_nothing_is_known() -> None:
    assert is_steady(rows([990], [1010], [1000], [8], 3)) is None
    assert is_steady(rows([0], [0], [0], [0], 0)) is None


def test_of_jobs_that_fio_reports_as_one_each_has_its_rounds() -> None:
    together = rows([38_314], [38_703], [38_503.4], [37.6], 20).assign(numjobs=4, group_reporting=1)
    assert is_steady(together) is True
    assert is_steady(together.assign(iops_samples=16)) is None
