"""Compare statistics with bounds, published numbers and margins, and judge claims by their parts."""

import itertools
import math
from typing import Any

import pandas as pd
import pytest
from claim_checks import (
    MEAN_OF_READS,
    RANDOM_TO_SEQUENTIAL,
    VALUES,
    arithmetic,
    bounds,
    executions,
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

from iopatterns.judging.check_statistics import ClaimsError
from iopatterns.judging.claims import (
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    UNTESTABLE,
    WITHIN_TOLERANCE,
    ClaimChecks,
    Judge,
    NumericCriterion,
    PartResult,
    is_close,
    status_of_error,
    worst_status,
)

FROM_BEST_TO_WORST = [REPRODUCED, WITHIN_TOLERANCE, UNDECIDED, NOT_REPRODUCED]
some_tolerances = tolerances.filter(bool)  # equality requires one
DIFFERENCE = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial"}


def badness(parts: list[PartResult]) -> int:
    return FROM_BEST_TO_WORST.index(worst_status(parts))


# ---- Criteria


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ({"at_most": 100}, REPRODUCED),
        ({"at_most": 99}, NOT_REPRODUCED),
        ({"at_most": 99, "tolerance": 0.1}, WITHIN_TOLERANCE),
        ({"at_most": 80, "tolerance": 0.1}, NOT_REPRODUCED),
        ({"at_least": 100}, REPRODUCED),
        ({"at_least": 101}, NOT_REPRODUCED),
        ({"at_least": 101, "tolerance": 0.1}, WITHIN_TOLERANCE),
        ({"at_least": 120, "tolerance": 0.1}, NOT_REPRODUCED),
        ({"at_most": "table1-read"}, REPRODUCED),
        ({"at_most": "table1-limit"}, NOT_REPRODUCED),
        ({"equals": "table1-read", "tolerance": 0.2}, REPRODUCED),
        ({"equals": "table1-limit", "tolerance": 0.2}, NOT_REPRODUCED),
    ],
)
@pytest.mark.parametrize("repetitions", [1, 2])
def test_the_mean_alone_decides_if_repetitions_do_not_vary(
    check: dict[str, Any], status: str, repetitions: int
) -> None:
    judge_ = judge(([100.0] * repetitions, {}))
    assert statuses(parts_of(judge_, {**MEAN_OF_READS, **check})) == [status]


def test_one_repetition_has_no_interval() -> None:
    part = parts_of(judge(([100.0], {})), {**MEAN_OF_READS, "at_least": 1})[0]
    assert math.isnan(part.low)
    assert math.isnan(part.high)


@pytest.mark.parametrize(
    ("sample", "check", "status"),
    [
        ([90.0, 100.0, 110.0], {"at_most": 101}, UNDECIDED),
        ([90.0, 100.0, 110.0], {"at_most": 99}, UNDECIDED),
        ([90.0, 100.0, 110.0], {"at_least": 99}, UNDECIDED),
        ([90.0, 100.0, 110.0], {"at_least": 101}, UNDECIDED),
        ([90.0, 100.0, 110.0], {"at_most": 90, "tolerance": 0.1}, UNDECIDED),
        ([99.0, 100.0, 101.0], {"at_most": 98, "tolerance": 0.1}, WITHIN_TOLERANCE),
    ],
)
def test_the_whole_interval_must_be_on_one_side_of_the_bound(
    sample: list[float], check: dict[str, Any], status: str
) -> None:
    assert statuses(parts_of(judge((sample, {})), {**MEAN_OF_READS, **check})) == [status]


@pytest.mark.parametrize(
    ("sequential", "random", "bound", "status"),
    [
        ([90.0, 100.0, 110.0], [24.0, 25.0, 26.0], {"at_most": 76}, UNDECIDED),
        ([100.0, 101.0], [40.0, 41.0], {"at_least": 0}, REPRODUCED),
        ([100.0, 101.0], [40.0, 41.0], {"at_most": 0}, NOT_REPRODUCED),
    ],
)
def test_a_difference_is_compared_by_its_interval(
    sequential: list[float], random: list[float], bound: dict[str, float], status: str
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    assert statuses(parts_of(judge_, {**DIFFERENCE, **bound})) == [status]


def test_a_higher_confidence_level_can_leave_a_part_undecided() -> None:
    table = executions(([98.0, 100.0, 102.0], {}))
    check = {**MEAN_OF_READS, "at_most": 104}
    found = [statuses(parts_of(Judge(table, [], confidence), check)) for confidence in (0.8, 0.99)]
    assert found == [[REPRODUCED], [UNDECIDED]]


@pytest.mark.parametrize(
    ("check", "off"),
    [
        ({"at_most": 80}, 0.25),
        ({"at_most": 100}, 0.0),
        ({"at_least": 125}, 0.2),
        ({"at_least": 50}, 0.0),
        ({"equals": "table1-limit", "tolerance": 0.2}, 70 / 30),
    ],
)
def test_the_distance_of_a_part_is_relative_to_the_bound(check: dict[str, Any], off: float) -> None:
    assert parts_of(judge(([100.0], {})), {**MEAN_OF_READS, **check})[0].off == pytest.approx(off)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (0.0, REPRODUCED),
        (0.04, REPRODUCED),
        (0.06, WITHIN_TOLERANCE),
        (0.19, WITHIN_TOLERANCE),
        (0.21, NOT_REPRODUCED),
        (0.5, NOT_REPRODUCED),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_a_published_number_is_reproduced_up_to_5_and_within_tolerance_up_to_20_percent(
    error: float, status: str, sign: int
) -> None:
    assert status_of_error(sign * error) == status
    judge_ = judge(([100 * (1 + sign * error)], {}))
    assert statuses(parts_of(judge_, {**MEAN_OF_READS, "equals": "table1-read", "tolerance": 0.2})) == [status]


@pytest.mark.parametrize("kind", ["equals", "at_most", "at_least"])
@pytest.mark.parametrize("tolerance", [0.02, 0.04, 0.1])
def test_each_comparison_with_a_number_accepts_the_tolerance_and_no_more(kind: str, tolerance: float) -> None:
    sign = -1 if kind == "at_least" else 1
    check = {**MEAN_OF_READS, kind: "table1-read", "tolerance": tolerance}
    for error, accepted in ((0.99 * tolerance, True), (1.01 * tolerance, False)):
        (part,) = parts_of(judge(([100 * (1 + sign * error)], {})), check)
        assert part.holds is accepted


@pytest.mark.parametrize("kind", ["at_most", "at_least"])
def test_without_a_tolerance_a_bound_accepts_no_error(kind: str) -> None:
    check = {**MEAN_OF_READS, kind: "table1-read"}
    values = (100.1, 99.9) if kind == "at_most" else (99.9, 100.1)
    assert [parts_of(judge(([value], {})), check)[0].holds for value in values] == [False, True]


def test_equality_without_a_tolerance_is_refused() -> None:
    with pytest.raises(ClaimsError, match="'equals' requires a 'tolerance' above 0"):
        parts_of(judge(([100.0], {})), {**MEAN_OF_READS, "equals": "table1-read"})


@pytest.mark.parametrize("check", [{**RANDOM_TO_SEQUENTIAL, "within": 0.1}])
def test_only_a_comparison_with_a_number_has_a_tolerance(check: dict[str, Any]) -> None:
    with pytest.raises(ClaimsError, match="'within' has no 'tolerance'; only at_most, at_least, equals can have it"):
        parts_of(judge(([100.0], {})), {**check, "tolerance": 0.1})


# ---- Thresholds that we chose


@pytest.mark.parametrize(
    ("check", "value", "close"),
    [
        ({"at_most": 100}, 104.0, True),
        ({"at_most": 100}, 96.0, True),
        ({"at_most": 100}, 94.0, False),
        ({"at_most": 100, "tolerance": 0.1}, 100.0, False),
        ({"at_most": 100, "tolerance": 0.1}, 106.0, True),
        ({"at_most": "table1-read"}, 99.0, False),  # the source's bound
        ({"at_most": 1}, 0.99, False),  # what "less" means
        ({"equals": "table1-read", "tolerance": 0.2}, 119.5, True),
        ({"equals": "table1-read", "tolerance": 0.2}, 101.0, False),
    ],
)
def test_a_value_close_to_a_threshold_of_ours_is_marked(check: dict[str, Any], value: float, *, close: bool) -> None:
    assert parts_of(judge(([value], {})), {**MEAN_OF_READS, **check})[0].close is close


@pytest.mark.parametrize(("random", "close"), [(100.0, False), (109.0, False), (109.7, True), (110.4, True)])
def test_a_ratio_is_close_to_a_margin_if_its_distance_from_one_is(random: float, *, close: bool) -> None:
    judge_ = reads_and_random_reads([100.0], [random])
    assert parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "within": 0.1})[0].close is close


@pytest.mark.parametrize(
    ("parts", "close"),
    [
        ([(REPRODUCED, False), (REPRODUCED, True)], True),
        ([(REPRODUCED, True), (NOT_REPRODUCED, False)], False),
        ([(REPRODUCED, False), (NOT_REPRODUCED, True)], True),
        ([(NOT_REPRODUCED, True), (NOT_REPRODUCED, False)], False),
        ([], False),
    ],
)
def test_a_verdict_is_close_if_other_thresholds_would_change_it(parts: list[tuple[str, bool]], *, close: bool) -> None:
    assert is_close([PartResult("", 1.0, 1.0, 1.0, status, 0.0, each) for status, each in parts]) is close


def test_the_tolerance_of_a_check_replaces_20_percent() -> None:
    check = {**MEAN_OF_READS, "equals": "table1-read", "tolerance": 0.3}
    assert statuses(parts_of(judge(([129.0], {})), check)) == [WITHIN_TOLERANCE]


@pytest.mark.parametrize(
    ("sequential", "random", "status"),
    [
        ([100.0, 100.1, 99.9], [100.0, 101.0, 99.0], REPRODUCED),
        ([100.0, 100.1, 99.9], [80.0, 81.0, 79.0], NOT_REPRODUCED),
        ([100.0, 100.1, 99.9], [125.0, 126.0, 124.0], NOT_REPRODUCED),
        ([100.0, 100.1, 99.9], [80.0, 100.0, 120.0], UNDECIDED),
        ([100.0, 100.1, 99.9], [95.0, 100.0, 105.0], REPRODUCED),
        ([100.0, 100.1, 99.9], [91.5, 91.0, 90.5], UNDECIDED),  # certainly slower, but the interval contains the limit
        ([100.0], [100.0], UNDECIDED),
    ],
)
def test_a_margin_is_decided_by_a_test_of_equivalence(
    sequential: list[float], random: list[float], status: str
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    assert statuses(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "within": 0.1})) == [status]


@pytest.mark.parametrize(("random", "off"), [(100.0, 0.0), (110.0, 0.0), (121.0, 0.1), (1e4 / 121, 0.1)])
def test_the_distance_from_a_margin_is_symmetric(random: float, off: float) -> None:
    part = parts_of(reads_and_random_reads([100.0], [random]), {**RANDOM_TO_SEQUENTIAL, "within": 0.1})[0]
    assert part.off == pytest.approx(off, abs=1e-12)


# ---- Any sample


@settings(deadline=None)
@given(samples, samples, bounds, st.tuples(tolerances, tolerances), st.sampled_from(["at_most", "at_least"]))
def test_a_larger_tolerance_never_worsens_the_status_of_a_bound(
    sequential: list[float], random: list[float], bound: float, both: tuple[float, float], kind: str
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    small, large = (
        parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, kind: bound, "tolerance": tolerance}) for tolerance in sorted(both)
    )
    assert badness(large) <= badness(small)


@settings(deadline=None)
@given(samples, st.tuples(some_tolerances, some_tolerances))
def test_a_larger_tolerance_never_worsens_the_status_of_a_number(
    sample: list[float], both: tuple[float, float]
) -> None:
    small, large = (
        parts_of(judge((sample, {})), {**MEAN_OF_READS, "equals": "table1-read", "tolerance": tolerance})
        for tolerance in sorted(both)
    )
    assert badness(large) <= badness(small)


@settings(deadline=None)
@given(samples, samples, st.tuples(st.floats(0.01, 0.9), st.floats(0.01, 0.9)))
def test_a_larger_margin_never_worsens_the_status_of_an_equivalence(
    sequential: list[float], random: list[float], both: tuple[float, float]
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    small, large = (parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "within": margin}) for margin in sorted(both))
    assert badness(large) <= badness(small)


@settings(deadline=None)
@given(samples, samples, ratio_checks, st.integers(-20, 20))
def test_a_ratio_does_not_depend_on_the_unit_of_the_bandwidths(
    sequential: list[float], random: list[float], expectation: dict[str, float], power: int
) -> None:
    factor = 2.0**power  # a power of two changes no digit, so that a value equal to its bound remains equal
    check = {**RANDOM_TO_SEQUENTIAL, **expectation}
    before = parts_of(reads_and_random_reads(sequential, random), check)
    scaled = reads_and_random_reads([factor * one for one in sequential], [factor * one for one in random])
    after = parts_of(scaled, check)
    assert statuses(after) == statuses(before)
    assert after[0].value == pytest.approx(before[0].value)


@settings(deadline=None)
@given(samples, samples, bounds)
def test_an_upper_and_a_lower_bound_are_both_reproduced_only_by_the_bound_itself(
    sequential: list[float], random: list[float], bound: float
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    parts = [parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, kind: bound})[0] for kind in ("at_most", "at_least")]
    assert statuses(parts) != [REPRODUCED, REPRODUCED] or parts[0].value == pytest.approx(bound, rel=1e-8)


# ---- Published numbers


def published_in(unit: str, value: float) -> pd.DataFrame:
    return pd.DataFrame({"id": ["limit"], "value": [value], "unit": unit})


def bound_of(check: dict[str, Any], published: pd.DataFrame) -> float:
    parsed = ClaimChecks.parse({"check": check}, published)
    assert parsed is not None
    criterion = parsed.each[0].criterion
    assert isinstance(criterion, NumericCriterion)
    return criterion.number.value


@pytest.mark.parametrize(("unit", "value"), [("us", 200.0), ("ms", 0.2), ("s", 0.0002)])
@pytest.mark.parametrize("kind", ["equals", "at_most", "at_least"])
def test_a_published_bound_is_converted_from_its_unit(unit: str, value: float, kind: str) -> None:
    check = {**MEAN_OF_READS, "of": "latency", kind: "limit", "tolerance": 0.1}
    judge_ = Judge(executions(([1.0, 1.0], {})).assign(latency_ms=0.2), [])
    assert bound_of(check, published_in(unit, value)) == pytest.approx(0.2)
    assert statuses(parts_of(judge_, check, published_in(unit, value))) == [REPRODUCED]


@pytest.mark.parametrize("unit", ["us", "%", "reads", ""])
def test_a_bound_of_a_ratio_has_no_unit(unit: str) -> None:
    check = {**RANDOM_TO_SEQUENTIAL, "of": "latency", "at_most": "limit"}
    assert bound_of(check, published_in(unit, 3.0)) == 3.0


@pytest.mark.parametrize(
    ("kind", "measured", "status", "off"),
    [
        ("equals", 0.0, REPRODUCED, 0.0),
        ("equals", 0.1, NOT_REPRODUCED, math.inf),
        ("at_most", 0.0, REPRODUCED, 0.0),
    ],
)
def test_only_zero_reproduces_a_published_zero(kind: str, measured: float, status: str, off: float) -> None:
    table = executions(([1.0, 1.0], {})).assign(write_iops=measured)
    check = {**MEAN_OF_READS, "of": "write iops", kind: "limit", "tolerance": 0.1}
    (part,) = parts_of(Judge(table, []), check, published_in("IOPS", 0.0))
    assert (part.status, part.off) == (status, off)


@pytest.mark.parametrize(
    "check",
    [
        {**RANDOM_TO_SEQUENTIAL, "of": "write iops", "at_most": 1},
        {"growth": "numjobs", "of": "write iops", "experiment": "initial", "at_most": 1},
        arithmetic("1 / writes", {"writes": {"of": "write iops", "rw": "read"}}),
        arithmetic("1 / (read - read)", {"read": {"rw": "read"}}),
    ],
    ids=["ratio", "growth", "value", "formula"],
)
@pytest.mark.parametrize("repetitions", [1, 3])
def test_division_by_a_mean_of_zero_is_an_error_of_the_claim(check: dict[str, Any], repetitions: int) -> None:
    cells = [([1.0] * repetitions, {"rw": rw, "numjobs": jobs}) for rw in ("read", "randread") for jobs in (1, 2)]
    judge_ = Judge(executions(*cells).assign(write_iops=0.0), [])
    with pytest.raises(ClaimsError, match=r"its statistic: .*(zero|above zero)|1 jobs to 2 jobs: .*zero"):
        parts_of(judge_, check)


# ---- The status of a claim


def test_a_claim_without_a_measured_part_is_not_testable() -> None:
    judge_ = judge(([100.0], {}))
    assert worst_status(parts_of(judge_, {**MEAN_OF_READS, "experiment": "absent", "at_least": 1})) == UNTESTABLE


@pytest.mark.parametrize(
    "check",
    [
        {"ratio": {"rw": "randread"}, "to": {"rw": "read"}},
        {"difference": {"rw": "randread"}, "to": {"rw": "read"}},
        {"mean": {"rw": "randread"}},
        {"growth": "bs", "where": {"rw": "randread"}},
        {"growth": "bs", "ratio": {"rw": "randread"}, "to": {"rw": "read"}},
        {"column": "iodepth_reached", "where": {"rw": "randread"}},
    ],
)
def test_each_statistic_without_rows_has_no_part(check: dict[str, Any]) -> None:
    judge_ = judge(([100.0], {"bs_bytes": 4096}), ([100.0], {"bs_bytes": 8192}))
    assert parts_of(judge_, {**check, "experiment": "initial", "at_most": 1}) == []


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_claim_has_the_status_of_its_worst_part(number: int) -> None:
    for some in itertools.permutations(FROM_BEST_TO_WORST, number):
        parts = [PartResult("", 1.0, 1.0, 1.0, status, 0.0) for status in some]
        assert worst_status(parts) == max(some, key=FROM_BEST_TO_WORST.index)


def test_a_claim_is_not_reproduced_if_one_level_is_not() -> None:
    judge_ = judge(([100.0], {"bs_bytes": 4096}), ([50.0], {"bs_bytes": 8192}))
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"bs": "all"}, "at_least": 100})
    assert (statuses(parts), worst_status(parts)) == ([REPRODUCED, NOT_REPRODUCED], NOT_REPRODUCED)


def test_the_parts_of_several_checks_are_numbered_by_check() -> None:
    claim = {
        "checks": [
            {"says": "Random reads are slower", "check": {**RANDOM_TO_SEQUENTIAL, "at_most": 0.95}},
            {"says": "They are not half as fast", "check": {**RANDOM_TO_SEQUENTIAL, "at_least": 0.5}},
        ]
    }
    judge_ = judge(([100.0, 101.0], {"rw": "read"}), ([40.0, 41.0], {"rw": "randread"}))
    found = ClaimChecks.parse(claim, VALUES)
    assert found is not None
    parts = judge_.results(found)
    assert [part.label[:3] for part in parts] == ["(1)", "(2)"]
    assert [part.status for part in parts] == [REPRODUCED, NOT_REPRODUCED]
    assert worst_status(parts) == NOT_REPRODUCED
    assert found.expected() == "(1) ≤ 0.95; (2) ≥ 0.5"
    assert found.found(parts) == "(1) 0.403; (2) 0.403"
