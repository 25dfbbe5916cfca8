"""Properties of criteria for any sample."""

import pytest
from claim_checks import (
    MEAN_OF_READS,
    RANDOM_TO_SEQUENTIAL,
    bounds,
    judge,
    parts_of,
    ratio_checks,
    reads_and_random_reads,
    samples,
    statuses,
    tolerances,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from iopatterns.judging.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, WITHIN_TOLERANCE, PartResult, worst_status

FROM_BEST_TO_WORST = [REPRODUCED, WITHIN_TOLERANCE, UNDECIDED, NOT_REPRODUCED]


def badness(parts: list[PartResult]) -> int:
    return FROM_BEST_TO_WORST.index(worst_status(parts))


@settings(deadline=None)
@given(samples, samples, bounds, st.tuples(tolerances, tolerances), st.sampled_from(["at_most", "at_least"]))
def test_a_larger_tolerance_never_makes_a_bound_worse(
    sequential: list[float], random: list[float], bound: float, both: tuple[float, float], kind: str
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    small, large = (
        parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, kind: bound, "tolerance": tolerance}) for tolerance in sorted(both)
    )
    assert badness(large) <= badness(small)


@settings(deadline=None)
@given(samples, tolerances, tolerances)
def test_a_larger_tolerance_never_makes_a_published_number_worse(
    sequential: list[float], first: float, second: float
) -> None:
    judge_ = judge((sequential, {}))
    small, large = (
        parts_of(judge_, {**MEAN_OF_READS, "equals": "table1-read", "tolerance": tolerance})
        for tolerance in sorted((first, second))
    )
    assert badness(large) <= badness(small)


@settings(deadline=None)
@given(samples, samples, st.floats(0.01, 0.9), st.floats(0.01, 0.9))
def test_what_is_equivalent_within_a_margin_is_so_within_a_larger_one(
    sequential: list[float], random: list[float], first: float, second: float
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    small, large = (parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "within": margin}) for margin in sorted((first, second)))
    assert badness(large) <= badness(small)


@settings(deadline=None)
@given(samples, samples, ratio_checks, st.integers(-20, 20))
def test_the_status_of_a_ratio_does_not_depend_on_the_unit_of_the_bandwidths(
    sequential: list[float], random: list[float], expectation: dict[str, float], power: int
) -> None:
    # a power of two leaves all digits as they are: what lies on its bound stays there
    factor = 2.0**power
    check = {**RANDOM_TO_SEQUENTIAL, **expectation}
    before = reads_and_random_reads(sequential, random)
    after = reads_and_random_reads([factor * one for one in sequential], [factor * one for one in random])
    assert statuses(parts_of(after, check)) == statuses(parts_of(before, check))


@settings(deadline=None)
@given(samples, samples, st.floats(1e-3, 1e3))
def test_a_ratio_does_not_depend_on_the_unit_of_the_bandwidths(
    sequential: list[float], random: list[float], factor: float
) -> None:
    check = {**RANDOM_TO_SEQUENTIAL, "at_most": 1}
    before = reads_and_random_reads(sequential, random)
    after = reads_and_random_reads([factor * one for one in sequential], [factor * one for one in random])
    assert parts_of(after, check)[0].value == pytest.approx(parts_of(before, check)[0].value)


@settings(deadline=None)
@given(samples, samples, bounds)
def test_a_bound_that_is_reproduced_from_above_is_not_so_from_below_unless_it_is_met(
    sequential: list[float], random: list[float], bound: float
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    found = [statuses(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, kind: bound}))[0] for kind in ("at_most", "at_least")]
    value = parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "at_most": bound})[0].value
    assert found != [REPRODUCED, REPRODUCED] or value == pytest.approx(bound, rel=1e-8)
