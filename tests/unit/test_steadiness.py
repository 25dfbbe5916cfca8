"""Steady state, outliers and levels: what the definitions say, and what no definition would call doubtful."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns.measuring.steadiness import doubts, has_two_levels, outliers, steadiness


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
    assert doubts([100.0] * 10) == []


def test_doubts_are_told_in_words() -> None:
    assert doubts([100, 101, 99, 100, 100, 101, 60, 140, 60, 140]) == [
        "not in a steady state",
        "outliers among the executions",
    ]
