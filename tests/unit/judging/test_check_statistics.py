"""Facts about the statistics of checks: what each computes, and its confidence interval."""

from typing import Any, cast

import pandas as pd
import pytest
from claim_checks import (
    MEAN_OF_READS,
    RANDOM_TO_SEQUENTIAL,
    READ_AND_RANDOM,
    arithmetic,
    executions,
    judge,
    labels,
    parts_of,
    ratio_checks,
    reads_and_random_reads,
    samples,
    statuses,
    values,
)
from hypothesis import given, settings
from scipy import stats

from iopatterns.analysis.statistics import mean_interval
from iopatterns.judging.claims import NOT_REPRODUCED, REPRODUCED, UNDECIDED, WITHIN_TOLERANCE, Judge
from iopatterns.raw.tuning_steps import TuningRecord


def step(outcome: str, drive: str = "d", setting: str = "DRA", wanted: Any = 1) -> TuningRecord:
    about: Any = {"setting": setting, "wanted": wanted, "drive": drive, "outcome": outcome}
    return cast(TuningRecord, {**about, "experiments": ["initial", "refusing"]})


# ---- Statistics


def test_a_ratio_is_that_of_the_means() -> None:
    judge_ = reads_and_random_reads([90.0, 110.0], [20.0, 30.0])
    assert values(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "at_most": 1})) == [pytest.approx(0.25)]


def test_a_ratio_over_a_ratio_divides_the_one_by_the_other() -> None:
    judge_ = judge(
        ([100.0], {"set_DRA": 0}),
        ([25.0], {"set_DRA": 0, "rw": "randread"}),
        ([50.0], {"set_DRA": 1}),
        ([40.0], {"set_DRA": 1, "rw": "randread"}),
    )
    check = {
        "ratio": {"rw": "randread", "DRA": 1},
        "to": {"rw": "read", "DRA": 1},
        "over_ratio": {"rw": "randread", "DRA": 0},
        "over_to": {"rw": "read", "DRA": 0},
        "experiment": "initial",
        "at_least": 1,
    }
    assert values(parts_of(judge_, check)) == [pytest.approx(0.8 / 0.25)]


def test_a_ratio_compares_drives_where_its_selections_name_them() -> None:
    judge_ = judge(([30.0], {"drive": "a"}), ([60.0], {"drive": "b"}))
    check = {"ratio": {"drive": "a"}, "to": {"drive": "b"}, "experiment": "initial", "at_most": 1}
    assert values(parts_of(judge_, check)) == [pytest.approx(0.5)]


def test_the_interval_of_a_ratio_holds_the_ratio() -> None:
    part = parts_of(
        reads_and_random_reads([90.0, 110.0, 100.0], [24.0, 25.0, 26.0]), {**RANDOM_TO_SEQUENTIAL, "at_most": 1}
    )[0]
    assert part.low < 0.25 < part.high


def test_a_difference_is_in_mb_per_s() -> None:
    judge_ = reads_and_random_reads([90.0, 110.0], [20.0, 30.0])
    check = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial", "at_most": 200}
    assert values(parts_of(judge_, check)) == [pytest.approx(75.0)]


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_of_a_difference_is_that_of_welch(confidence: float) -> None:
    sequential, random = [90.0, 100.0, 110.0, 104.0], [24.0, 25.0, 26.0]
    table = executions((sequential, {}), (random, {"rw": "randread"}))
    check = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial", "at_most": 200}
    part = parts_of(Judge(table, [], confidence), check)[0]
    expected = stats.ttest_ind(sequential, random, equal_var=False).confidence_interval(confidence)
    assert (part.low, part.high) == pytest.approx((expected.low, expected.high))


def test_a_difference_that_does_not_vary_has_an_interval_of_no_width() -> None:
    judge_ = reads_and_random_reads([100.0, 100.0], [25.0, 25.0])
    check = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial", "at_most": 200}
    part = parts_of(judge_, check)[0]
    assert (part.low, part.high) == (75.0, 75.0)


def test_a_mean_is_in_mb_per_s() -> None:
    assert values(parts_of(judge(([90.0, 110.0], {})), {**MEAN_OF_READS, "at_least": 1})) == [pytest.approx(100.0)]


@pytest.mark.parametrize("method", ["t", "bca"])
def test_the_interval_of_a_mean_is_that_of_the_tables(method: str) -> None:
    sample = [90.0, 100.0, 110.0, 104.0, 99.0, 93.0, 101.0, 102.0, 97.0]
    part = parts_of(Judge(executions((sample, {})), [], 0.9, method), {**MEAN_OF_READS, "at_least": 1})[0]
    assert (part.low, part.high) == mean_interval(sample, 0.9, method, 1)[:2]


def test_growth_is_from_each_level_to_the_next() -> None:
    judge_ = judge(([10.0], {"bs_bytes": 4096}), ([30.0], {"bs_bytes": 16384}), ([60.0], {"bs_bytes": 8192}))
    parts = parts_of(judge_, {"growth": "bs", "experiment": "initial", "at_least": 1})
    assert values(parts) == [pytest.approx(6.0), pytest.approx(0.5)]


def test_growth_names_the_levels_from_which_and_to_which() -> None:
    judge_ = judge(([10.0], {"bs_bytes": 4096}), ([30.0], {"bs_bytes": 2**20}))
    parts = parts_of(judge_, {"growth": "bs", "experiment": "initial", "at_least": 1, "where": {"drive": "d"}})
    assert labels(parts) == ["d, 4 KiB to 1 MiB"]


def test_growth_of_one_level_has_no_part() -> None:
    assert parts_of(judge(([10.0], {})), {"growth": "bs", "experiment": "initial", "at_least": 1}) == []


def test_growth_of_jobs_is_in_the_order_of_their_number() -> None:
    judge_ = judge(*(([100.0 * jobs], {"numjobs": jobs}) for jobs in (16, 2, 1)))
    parts = parts_of(judge_, {"growth": "numjobs", "experiment": "initial", "at_least": 1})
    assert labels(parts) == ["1 jobs to 2 jobs", "2 jobs to 16 jobs"]


def test_growth_of_a_ratio_divides_the_ratio_after_by_the_ratio_before() -> None:
    judge_ = judge(
        ([100.0], {"bs_bytes": 4096}),
        ([20.0], {"bs_bytes": 4096, "rw": "randread"}),
        ([200.0], {"bs_bytes": 8192}),
        ([100.0], {"bs_bytes": 8192, "rw": "randread"}),
    )
    parts = parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "growth": "bs", "at_least": 1})
    assert values(parts) == [pytest.approx(0.5 / 0.2)]


def test_a_column_is_the_largest_of_its_values() -> None:
    judge_ = judge(([1.0], {"iodepth_reached": 4}), ([1.0], {"iodepth_reached": 64, "drive": "e"}))
    check = {"column": "iodepth_reached", "experiment": "initial", "at_least": 64}
    assert values(parts_of(judge_, check)) == [64.0]


def test_an_outcome_that_is_expected_is_reproduced() -> None:
    judge_ = Judge(executions(([1.0], {})), [step("ignored")])
    check = {"outcome": "DRA", "to": 1, "experiment": "initial", "is": ["ignored", "refused"]}
    assert statuses(parts_of(judge_, check)) == [REPRODUCED]


def test_an_outcome_that_is_not_expected_deviates() -> None:
    judge_ = Judge(executions(([1.0], {})), [step("changed")])
    check = {"outcome": "DRA", "to": 1, "experiment": "initial", "is": ["ignored", "refused"]}
    assert statuses(parts_of(judge_, check)) == [NOT_REPRODUCED]


def test_each_outcome_that_came_out_is_a_part() -> None:
    judge_ = Judge(executions(([1.0], {})), [step("refused"), step("changed"), step("refused")])
    check = {"outcome": "DRA", "to": 1, "experiment": "initial", "is": ["refused"]}
    assert values(parts_of(judge_, check)) == ["changed", "refused"]


@pytest.mark.parametrize(
    "other", [step("changed", drive="e"), step("changed", setting="RCD"), step("changed", wanted=0)]
)
def test_an_outcome_is_that_of_its_drive_setting_and_value(other: TuningRecord) -> None:
    judge_ = Judge(executions(([1.0], {})), [step("refused"), other])
    check = {"outcome": "DRA", "to": 1, "experiment": "initial", "where": {"drive": "d"}, "is": ["refused"]}
    assert values(parts_of(judge_, check)) == ["refused"]


def test_an_outcome_of_a_setting_that_was_never_asked_for_has_no_part() -> None:
    check = {"outcome": "DRA", "to": 1, "experiment": "initial", "is": ["refused"]}
    assert parts_of(judge(([1.0], {})), check) == []


def test_a_factor_that_no_cell_has_gives_no_parts() -> None:
    judge_ = judge(([100.0], {}))
    assert parts_of(judge_, {"growth": "FSW", "experiment": "initial", "at_least": 1}) == []
    assert parts_of(judge_, {"column": "missing", "experiment": "initial", "at_least": 1}) == []


def test_an_outcome_counts_for_its_experiment_alone() -> None:
    check = {"outcome": "DRA", "to": 1, "experiment": "another", "is": ["refused"]}
    assert parts_of(Judge(executions(([1.0], {})), [step("refused")]), check) == []


# ---- Formulas


def test_arithmetic_is_done_with_means() -> None:
    judge_ = reads_and_random_reads([90.0, 110.0], [20.0, 30.0])
    assert values(parts_of(judge_, arithmetic("100 * random / (read + random)", READ_AND_RANDOM))) == [20.0]


def test_arithmetic_may_name_a_factor_for_its_level() -> None:
    judge_ = judge(*(([25.0 * jobs], {"numjobs": jobs}) for jobs in (1, 4)))
    check = arithmetic("rate / numjobs", {"rate": {}}, where={"numjobs": "all"})
    parts = parts_of(judge_, check)
    assert dict(zip(labels(parts), values(parts), strict=True)) == {"1 jobs": 25.0, "4 jobs": 25.0}


def test_a_size_in_arithmetic_is_in_bytes() -> None:
    judge_ = judge(([8.0], {"bs_bytes": 4096}))
    assert values(parts_of(judge_, arithmetic("bs / rate", {"rate": {}}, where={"bs": "4k"}))) == [512.0]


def test_arithmetic_with_a_mean_that_was_not_measured_gives_no_part() -> None:
    assert parts_of(judge(([10.0], {})), arithmetic("read / random", READ_AND_RANDOM)) == []


def test_a_mean_that_arithmetic_does_not_name_need_not_be_measured() -> None:
    assert values(parts_of(judge(([10.0], {})), arithmetic("2 * read", READ_AND_RANDOM))) == [20.0]


@settings(deadline=None)
@given(samples, samples, ratio_checks)
def test_a_ratio_and_the_same_as_arithmetic_have_the_same_value(
    sequential: list[float], random: list[float], expectation: dict[str, float]
) -> None:
    judge_ = reads_and_random_reads(sequential, random)
    ratio = parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, **expectation})[0]
    check = {"value": "random / read", "with": READ_AND_RANDOM, "experiment": "initial", **expectation}
    assert parts_of(judge_, check)[0].value == pytest.approx(ratio.value)


@pytest.mark.parametrize(
    ("expectation", "status"),
    [
        ({"at_most": 0.3}, REPRODUCED),
        ({"at_least": 0.3}, NOT_REPRODUCED),
        ({"at_least": 0.25}, UNDECIDED),
        ({"at_most": 0.25, "tolerance": 0.5}, WITHIN_TOLERANCE),
        ({"within": 0.1}, NOT_REPRODUCED),
        ({"equals": "quarter"}, REPRODUCED),
    ],
)
def test_arithmetic_is_judged_by_its_interval(expectation: dict[str, Any], status: str) -> None:
    table = executions(([99.0, 100.0, 101.0], {}), ([24.9, 25.0, 25.1], {"rw": "randread"}))
    published = pd.DataFrame({"id": ["quarter"], "value": [0.25], "unit": ""})
    check = {"value": "random / read", "with": READ_AND_RANDOM, "experiment": "initial", **expectation}
    assert statuses(parts_of(Judge(table, []), check, published)) == [status]


def test_equal_means_are_equivalent_by_arithmetic() -> None:
    judge_ = reads_and_random_reads([99.0, 100.0, 101.0], [99.0, 100.0, 101.0])
    check = {"value": "random / read", "with": READ_AND_RANDOM, "experiment": "initial", "within": 0.1}
    assert statuses(parts_of(judge_, check)) == [REPRODUCED]
