"""Compute the statistics of checks and their confidence intervals."""

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

DIFFERENCE = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial"}
OUTCOME = {"outcome": "DRA", "to": 1, "experiment": "initial", "is": ["ignored", "refused"]}


def step(outcome: str, drive: str = "d", setting: str = "DRA", wanted: Any = 1) -> TuningRecord:
    about: Any = {"setting": setting, "wanted": wanted, "drive": drive, "outcome": outcome}
    return cast(TuningRecord, {**about, "experiments": ["initial", "refusing"]})


# ---- Statistics


@pytest.mark.parametrize(
    ("check", "value"),
    [
        ({**RANDOM_TO_SEQUENTIAL, "at_most": 1}, 0.25),
        ({**MEAN_OF_READS, "at_least": 1}, 100.0),
        ({**DIFFERENCE, "at_most": 200}, 75.0),
        (arithmetic("100 * random / (read + random)", READ_AND_RANDOM), 20.0),
    ],
)
def test_a_statistic_is_computed_from_the_means_in_mb_per_s(check: dict[str, Any], value: float) -> None:
    judge_ = reads_and_random_reads([90.0, 110.0], [20.0, 30.0])
    assert values(parts_of(judge_, check)) == [pytest.approx(value)]


def test_a_ratio_can_be_divided_by_another_ratio() -> None:
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


def test_the_interval_of_a_ratio_contains_the_ratio() -> None:
    judge_ = reads_and_random_reads([90.0, 110.0, 100.0], [24.0, 25.0, 26.0])
    part = parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "at_most": 1})[0]
    assert part.low < 0.25 < part.high


@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_a_difference_has_the_interval_of_welch(confidence: float) -> None:
    sequential, random = [90.0, 100.0, 110.0, 104.0], [24.0, 25.0, 26.0]
    table = executions((sequential, {}), (random, {"rw": "randread"}))
    part = parts_of(Judge(table, [], confidence), {**DIFFERENCE, "at_most": 200})[0]
    expected = stats.ttest_ind(sequential, random, equal_var=False).confidence_interval(confidence)
    assert (part.low, part.high) == pytest.approx((expected.low, expected.high))


def test_the_interval_of_equal_values_has_no_width() -> None:
    judge_ = reads_and_random_reads([100.0, 100.0], [25.0, 25.0])
    part = parts_of(judge_, {**DIFFERENCE, "at_most": 200})[0]
    assert (part.low, part.high) == (75.0, 75.0)


@pytest.mark.parametrize("method", ["t", "bca"])
def test_a_mean_has_the_same_interval_as_in_tables(method: str) -> None:
    sample = [90.0, 100.0, 110.0, 104.0, 99.0, 93.0, 101.0, 102.0, 97.0]
    part = parts_of(Judge(executions((sample, {})), [], 0.9, method), {**MEAN_OF_READS, "at_least": 1})[0]
    assert (part.low, part.high) == mean_interval(sample, 0.9, method, 1)[:2]


def test_growth_compares_each_level_with_the_previous_one() -> None:
    judge_ = judge(([10.0], {"bs_bytes": 4096}), ([30.0], {"bs_bytes": 16384}), ([60.0], {"bs_bytes": 8192}))
    parts = parts_of(judge_, {"growth": "bs", "experiment": "initial", "at_least": 1})
    assert values(parts) == [pytest.approx(6.0), pytest.approx(0.5)]


def test_labels_of_growth_name_both_levels() -> None:
    judge_ = judge(([10.0], {"bs_bytes": 4096}), ([30.0], {"bs_bytes": 2**20}))
    parts = parts_of(judge_, {"growth": "bs", "experiment": "initial", "at_least": 1, "where": {"drive": "d"}})
    assert labels(parts) == ["d, 4 KiB to 1 MiB"]


def test_growth_of_jobs_is_in_numerical_order() -> None:
    judge_ = judge(*(([100.0 * jobs], {"numjobs": jobs}) for jobs in (16, 2, 1)))
    parts = parts_of(judge_, {"growth": "numjobs", "experiment": "initial", "at_least": 1})
    assert labels(parts) == ["1 jobs to 2 jobs", "2 jobs to 16 jobs"]


def test_growth_of_a_ratio_divides_successive_ratios() -> None:
    judge_ = judge(
        ([100.0], {"bs_bytes": 4096}),
        ([20.0], {"bs_bytes": 4096, "rw": "randread"}),
        ([200.0], {"bs_bytes": 8192}),
        ([100.0], {"bs_bytes": 8192, "rw": "randread"}),
    )
    parts = parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "growth": "bs", "at_least": 1})
    assert values(parts) == [pytest.approx(0.5 / 0.2)]


def test_a_column_stands_for_its_largest_value() -> None:
    judge_ = judge(([1.0], {"iodepth_reached": 4}), ([1.0], {"iodepth_reached": 64, "drive": "e"}))
    check = {"column": "iodepth_reached", "experiment": "initial", "at_least": 64}
    assert values(parts_of(judge_, check)) == [64.0]


@pytest.mark.parametrize(("outcome", "status"), [("ignored", REPRODUCED), ("changed", NOT_REPRODUCED)])
def test_an_outcome_is_reproduced_if_the_check_lists_it(outcome: str, status: str) -> None:
    assert statuses(parts_of(Judge(executions(([1.0], {})), [step(outcome)]), OUTCOME)) == [status]


def test_each_observed_outcome_is_a_part() -> None:
    judge_ = Judge(executions(([1.0], {})), [step("refused"), step("changed"), step("refused")])
    assert values(parts_of(judge_, OUTCOME)) == ["changed", "refused"]


@pytest.mark.parametrize(
    "other", [step("changed", drive="e"), step("changed", setting="RCD"), step("changed", wanted=0)]
)
def test_an_outcome_belongs_to_its_drive_setting_and_value(other: TuningRecord) -> None:
    judge_ = Judge(executions(([1.0], {})), [step("refused"), other])
    assert values(parts_of(judge_, {**OUTCOME, "where": {"drive": "d"}})) == ["refused"]


@pytest.mark.parametrize(("steps", "experiment"), [([], "initial"), ([step("refused")], "another")])
def test_an_outcome_that_the_experiment_does_not_have_is_no_part(steps: list[TuningRecord], experiment: str) -> None:
    assert parts_of(Judge(executions(([1.0], {})), steps), {**OUTCOME, "experiment": experiment}) == []


def test_a_factor_that_no_cell_has_gives_no_parts() -> None:
    judge_ = judge(([100.0], {}))
    assert parts_of(judge_, {"growth": "FSW", "experiment": "initial", "at_least": 1}) == []
    assert parts_of(judge_, {"column": "missing", "experiment": "initial", "at_least": 1}) == []


# ---- Formulas


def test_a_factor_in_arithmetic_stands_for_its_level() -> None:
    judge_ = judge(*(([25.0 * jobs], {"numjobs": jobs}) for jobs in (1, 4)))
    check = arithmetic("rate / numjobs", {"rate": {}}, where={"numjobs": "all"})
    parts = parts_of(judge_, check)
    assert dict(zip(labels(parts), values(parts), strict=True)) == {"1 jobs": 25.0, "4 jobs": 25.0}


def test_a_size_in_arithmetic_is_in_bytes() -> None:
    judge_ = judge(([8.0], {"bs_bytes": 4096}))
    assert values(parts_of(judge_, arithmetic("bs / rate", {"rate": {}}, where={"bs": "4k"}))) == [512.0]


def test_arithmetic_with_a_mean_that_was_not_measured_gives_no_part() -> None:
    assert parts_of(judge(([10.0], {})), arithmetic("read / random", READ_AND_RANDOM)) == []


def test_a_mean_that_the_formula_does_not_use_need_not_be_measured() -> None:
    assert values(parts_of(judge(([10.0], {})), arithmetic("2 * read", READ_AND_RANDOM))) == [20.0]


@settings(deadline=None)
@given(samples, samples, ratio_checks)
def test_a_ratio_equals_the_corresponding_formula(
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
        ({"equals": "quarter", "tolerance": 0.2}, REPRODUCED),
    ],
)
def test_arithmetic_is_judged_by_its_interval(expectation: dict[str, Any], status: str) -> None:
    table = executions(([99.0, 100.0, 101.0], {}), ([24.9, 25.0, 25.1], {"rw": "randread"}))
    published = pd.DataFrame({"id": ["quarter"], "value": [0.25], "unit": ""})
    check = {"value": "random / read", "with": READ_AND_RANDOM, "experiment": "initial", **expectation}
    assert statuses(parts_of(Judge(table, []), check, published)) == [status]
