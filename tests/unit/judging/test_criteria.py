"""Facts about criteria: how a statistic is compared with a bound, a published number or a margin."""

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
    executions,
    judge,
    parts_of,
    reads_and_random_reads,
    statuses,
)

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
    status_of_error,
    worst_status,
)

FROM_BEST_TO_WORST = [REPRODUCED, WITHIN_TOLERANCE, UNDECIDED, NOT_REPRODUCED]


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
        ({"equals": "table1-read"}, REPRODUCED),
        ({"equals": "table1-limit"}, NOT_REPRODUCED),
    ],
)
def test_executions_that_do_not_vary_are_judged_by_their_mean(check: dict[str, Any], status: str) -> None:
    assert statuses(parts_of(judge(([100.0, 100.0], {})), {**MEAN_OF_READS, **check})) == [status]


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ({"at_most": 100}, REPRODUCED),
        ({"at_most": 99}, NOT_REPRODUCED),
        ({"at_most": 99, "tolerance": 0.1}, WITHIN_TOLERANCE),
        ({"at_least": 101}, NOT_REPRODUCED),
        ({"equals": "table1-read"}, REPRODUCED),
    ],
)
def test_one_execution_is_judged_by_itself(check: dict[str, Any], status: str) -> None:
    assert statuses(parts_of(judge(([100.0], {})), {**MEAN_OF_READS, **check})) == [status]


def test_one_execution_has_no_interval() -> None:
    part = parts_of(judge(([100.0], {})), {**MEAN_OF_READS, "at_least": 1})[0]
    assert math.isnan(part.low)
    assert math.isnan(part.high)


@pytest.mark.parametrize("expectation", [{"at_most": 101}, {"at_least": 99}, {"at_most": 99}, {"at_least": 101}])
def test_an_interval_that_reaches_to_both_sides_of_the_bound_decides_nothing(expectation: dict[str, Any]) -> None:
    judge_ = judge(([90.0, 100.0, 110.0], {}))
    assert statuses(parts_of(judge_, {**MEAN_OF_READS, **expectation})) == [UNDECIDED]


def test_a_difference_whose_interval_straddles_the_bound_is_undecided() -> None:
    judge_ = reads_and_random_reads([90.0, 100.0, 110.0], [24.0, 25.0, 26.0])
    check = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial", "at_most": 76}
    assert statuses(parts_of(judge_, check)) == [UNDECIDED]


def test_an_interval_that_ends_within_the_tolerance_is_within_it() -> None:
    judge_ = judge(([99.0, 100.0, 101.0], {}))
    assert statuses(parts_of(judge_, {**MEAN_OF_READS, "at_most": 98, "tolerance": 0.1})) == [WITHIN_TOLERANCE]


def test_an_interval_that_straddles_the_end_of_the_tolerance_is_undecided() -> None:
    judge_ = judge(([90.0, 100.0, 110.0], {}))
    assert statuses(parts_of(judge_, {**MEAN_OF_READS, "at_most": 90, "tolerance": 0.1})) == [UNDECIDED]


def test_a_wider_confidence_can_leave_a_part_undecided() -> None:
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
        ({"equals": "table1-limit"}, 70 / 30),
    ],
)
def test_how_far_off_a_part_is_is_relative_to_the_bound(check: dict[str, Any], off: float) -> None:
    assert parts_of(judge(([100.0], {})), {**MEAN_OF_READS, **check})[0].off == pytest.approx(off)


@pytest.mark.parametrize(
    ("measured", "status"),
    [
        (100, REPRODUCED),
        (104, REPRODUCED),
        (96, REPRODUCED),
        (106, WITHIN_TOLERANCE),
        (119, WITHIN_TOLERANCE),
        (121, NOT_REPRODUCED),
    ],
)
def test_a_published_number_holds_up_to_20_percent_and_is_reproduced_up_to_5(measured: float, status: str) -> None:
    assert statuses(parts_of(judge(([measured], {})), {**MEAN_OF_READS, "equals": "table1-read"})) == [status]


def test_the_tolerance_of_a_check_takes_the_place_of_20_percent() -> None:
    check = {**MEAN_OF_READS, "equals": "table1-read", "tolerance": 0.3}
    assert statuses(parts_of(judge(([129.0], {})), check)) == [WITHIN_TOLERANCE]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (0.0, REPRODUCED),
        (-0.05, REPRODUCED),
        (0.06, WITHIN_TOLERANCE),
        (-0.2, WITHIN_TOLERANCE),
        (0.21, NOT_REPRODUCED),
        (-0.5, NOT_REPRODUCED),
    ],
)
def test_an_error_counts_alike_in_both_directions(error: float, status: str) -> None:
    assert status_of_error(error) == status


@pytest.mark.parametrize(
    ("random", "status"),
    [
        ([100.0, 101.0, 99.0], REPRODUCED),
        ([80.0, 81.0, 79.0], NOT_REPRODUCED),
        ([125.0, 126.0, 124.0], NOT_REPRODUCED),
        ([80.0, 100.0, 120.0], UNDECIDED),
        ([95.0, 100.0, 105.0], REPRODUCED),
        ([91.5, 91.0, 90.5], UNDECIDED),  # slower beyond doubt, but the interval reaches to both sides of the margin
    ],
)
def test_what_lies_within_a_margin_is_decided_by_a_test_of_equivalence(random: list[float], status: str) -> None:
    judge_ = reads_and_random_reads([100.0, 100.1, 99.9], random)
    assert statuses(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "within": 0.1})) == [status]


def test_equivalence_of_one_execution_each_is_undecided() -> None:
    judge_ = reads_and_random_reads([100.0], [100.0])
    assert statuses(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "within": 0.1})) == [UNDECIDED]


@pytest.mark.parametrize(("random", "off"), [(100.0, 0.0), (110.0, 0.0), (121.0, 0.1), (1e4 / 121, 0.1)])
def test_how_far_a_ratio_is_off_its_margin_is_alike_on_both_sides(random: float, off: float) -> None:
    part = parts_of(reads_and_random_reads([100.0], [random]), {**RANDOM_TO_SEQUENTIAL, "within": 0.1})[0]
    assert part.off == pytest.approx(off, abs=1e-12)


def test_a_difference_is_held_against_a_bound_of_zero() -> None:
    judge_ = reads_and_random_reads([100.0, 101.0], [40.0, 41.0])
    check = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial"}
    assert statuses(parts_of(judge_, {**check, "at_least": 0})) == [REPRODUCED]
    assert statuses(parts_of(judge_, {**check, "at_most": 0})) == [NOT_REPRODUCED]


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
def test_a_published_bound_counts_in_the_unit_that_it_was_printed_in(unit: str, value: float, kind: str) -> None:
    check = {**MEAN_OF_READS, "of": "latency", kind: "limit"}
    judge_ = Judge(executions(([1.0, 1.0], {})).assign(latency_ms=0.2), [])
    assert bound_of(check, published_in(unit, value)) == pytest.approx(0.2)
    assert statuses(parts_of(judge_, check, published_in(unit, value))) == [REPRODUCED]


@pytest.mark.parametrize("unit", ["us", "%", "reads", ""])
def test_a_bound_of_a_ratio_has_no_unit(unit: str) -> None:
    check = {**RANDOM_TO_SEQUENTIAL, "of": "latency", "at_most": "limit"}
    assert bound_of(check, published_in(unit, 3.0)) == 3.0


@pytest.mark.parametrize(("measured", "status", "off"), [(0.0, REPRODUCED, 0.0), (0.1, NOT_REPRODUCED, math.inf)])
def test_a_published_zero_is_met_by_zero_alone(measured: float, status: str, off: float) -> None:
    table = executions(([1.0, 1.0], {})).assign(write_iops=measured)
    check = {**MEAN_OF_READS, "of": "write iops", "equals": "limit"}
    (part,) = parts_of(Judge(table, []), check, published_in("IOPS", 0.0))
    assert (part.status, part.off) == (status, off)


def test_a_published_zero_bounds_from_above() -> None:
    table = executions(([1.0, 1.0], {})).assign(write_iops=0.0)
    check = {**MEAN_OF_READS, "of": "write iops", "at_most": "limit"}
    assert statuses(parts_of(Judge(table, []), check, published_in("IOPS", 0.0))) == [REPRODUCED]


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
@pytest.mark.parametrize("executions_", [1, 3])
def test_what_divides_by_a_mean_of_zero_is_told_and_no_traceback(check: dict[str, Any], executions_: int) -> None:
    cells = [([1.0] * executions_, {"rw": rw, "numjobs": jobs}) for rw in ("read", "randread") for jobs in (1, 2)]
    judge_ = Judge(executions(*cells).assign(write_iops=0.0), [])
    with pytest.raises(ClaimsError, match=r"its statistic: .*(zero|above zero)|1 jobs to 2 jobs: .*zero"):
        parts_of(judge_, check)


# ---- The status of a claim


def test_a_claim_of_which_nothing_was_measured_is_not_testable() -> None:
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
def test_the_status_of_a_claim_is_that_of_its_worst_part(number: int) -> None:
    for some in itertools.permutations(FROM_BEST_TO_WORST, number):
        parts = [PartResult("", 1.0, 1.0, 1.0, status, 0.0) for status in some]
        assert worst_status(parts) == max(some, key=FROM_BEST_TO_WORST.index)


def test_one_level_that_deviates_makes_the_claim_deviate() -> None:
    judge_ = judge(([100.0], {"bs_bytes": 4096}), ([50.0], {"bs_bytes": 8192}))
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"bs": "all"}, "at_least": 100})
    assert (statuses(parts), worst_status(parts)) == ([REPRODUCED, NOT_REPRODUCED], NOT_REPRODUCED)


def test_a_claim_of_several_checks_has_the_parts_of_each_under_its_number() -> None:
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
