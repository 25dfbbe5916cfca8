"""Facts about the checks of claims: what each statistic comes to, how it is judged, and files that are refused."""

import itertools
import math
import shutil
from pathlib import Path
from typing import Any, cast

import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from support import ROOT

from iopatterns.analysis import quantities
from iopatterns.analysis.statistics import interval
from iopatterns.base.yaml_schema import ConfigError
from iopatterns.configuration.factors import column_of
from iopatterns.judging import checks, claims
from iopatterns.judging.checks.criteria import Against
from iopatterns.judging.checks.findings import (
    DEVIATES,
    REPRODUCED,
    UNDECIDED,
    WITHIN,
    ClaimsError,
    Part,
    of_error,
)
from iopatterns.judging.checks.selections import Executions
from iopatterns.judging.claims import UNTESTABLE, Judge, status_of
from iopatterns.raw.tuning_steps import TuningRecord

FROM_BEST_TO_WORST = [REPRODUCED, WITHIN, UNDECIDED, DEVIATES]
VALUES = pd.DataFrame({"id": ["table1-read", "table1-limit"], "value": [100.0, 30.0], "unit": "MB/s"})
RANDOM_TO_SEQUENTIAL = {"ratio": {"rw": "randread"}, "to": {"rw": "read"}, "experiment": "initial"}
MEAN_OF_READS = {"mean": {"rw": "read"}, "experiment": "initial"}
bandwidths = st.floats(1.0, 1e4)
samples = st.lists(bandwidths, min_size=1, max_size=6)
tolerances = st.floats(0.0, 2.0)
bounds = st.floats(0.01, 100.0)


def executions(*cells: tuple[list[float], dict[str, Any]]) -> pd.DataFrame:
    """One row per bandwidth; each cell is sequential reads of 4 KiB by one job on drive d but for what it says."""
    usual = {
        "drive": "d",
        "experiments": "initial",
        "rw": "read",
        "bs_bytes": 4096,
        "numjobs": 1,
        "set_DRA": None,
        "set_scheduler": None,
        "iodepth_reached": 1,
    }
    rows = [{**usual, **cell, "bandwidth_mb_per_s": one} for many, cell in cells for one in many]
    return pd.DataFrame(rows).astype({"set_DRA": "Int64", "bs_bytes": "Int64"})


def judge(*cells: tuple[list[float], dict[str, Any]]) -> Judge:
    return Judge(executions(*cells), [])


def parts_of(judge_: Judge, check: dict[str, Any], published: pd.DataFrame = VALUES) -> list[Part]:
    """Return the parts of a check as claims.yaml has it."""
    return judge_.parts(checks.parse(check, published))


def reads_and_random_reads(sequential: list[float], random: list[float]) -> Judge:
    return judge((sequential, {}), (random, {"rw": "randread"}))


def step(outcome: str, drive: str = "d", setting: str = "DRA", wanted: Any = 1) -> TuningRecord:
    about: Any = {"setting": setting, "wanted": wanted, "drive": drive, "outcome": outcome}
    return cast(TuningRecord, {**about, "experiments": ["initial", "refusing"]})


def statuses(parts: list[Part]) -> list[str]:
    return [part.status for part in parts]


def labels(parts: list[Part]) -> list[str]:
    return [part.label for part in parts]


def values(parts: list[Part]) -> list[float | str]:
    return [part.value for part in parts]


def badness(parts: list[Part]) -> int:
    return FROM_BEST_TO_WORST.index(status_of(parts))


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
    assert (part.low, part.high) == interval(sample, 0.9, method, 1)[:2]


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
    assert statuses(parts_of(judge_, check)) == [DEVIATES]


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


# ---- Expectations


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ({"at_most": 100}, REPRODUCED),
        ({"at_most": 99}, DEVIATES),
        ({"at_most": 99, "tolerance": 0.1}, WITHIN),
        ({"at_most": 80, "tolerance": 0.1}, DEVIATES),
        ({"at_least": 100}, REPRODUCED),
        ({"at_least": 101}, DEVIATES),
        ({"at_least": 101, "tolerance": 0.1}, WITHIN),
        ({"at_least": 120, "tolerance": 0.1}, DEVIATES),
        ({"at_most": "table1-read"}, REPRODUCED),
        ({"at_most": "table1-limit"}, DEVIATES),
        ({"equals": "table1-read"}, REPRODUCED),
        ({"equals": "table1-limit"}, DEVIATES),
    ],
)
def test_executions_that_do_not_vary_are_judged_by_their_mean(check: dict[str, Any], status: str) -> None:
    assert statuses(parts_of(judge(([100.0, 100.0], {})), {**MEAN_OF_READS, **check})) == [status]


@pytest.mark.parametrize(
    ("check", "status"),
    [
        ({"at_most": 100}, REPRODUCED),
        ({"at_most": 99}, DEVIATES),
        ({"at_most": 99, "tolerance": 0.1}, WITHIN),
        ({"at_least": 101}, DEVIATES),
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
    assert statuses(parts_of(judge_, {**MEAN_OF_READS, "at_most": 98, "tolerance": 0.1})) == [WITHIN]


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
    [(100, REPRODUCED), (104, REPRODUCED), (96, REPRODUCED), (106, WITHIN), (119, WITHIN), (121, DEVIATES)],
)
def test_a_published_number_holds_up_to_20_percent_and_is_reproduced_up_to_5(measured: float, status: str) -> None:
    assert statuses(parts_of(judge(([measured], {})), {**MEAN_OF_READS, "equals": "table1-read"})) == [status]


def test_the_tolerance_of_a_check_takes_the_place_of_20_percent() -> None:
    check = {**MEAN_OF_READS, "equals": "table1-read", "tolerance": 0.3}
    assert statuses(parts_of(judge(([129.0], {})), check)) == [WITHIN]


@pytest.mark.parametrize(
    ("error", "status"),
    [(0.0, REPRODUCED), (-0.05, REPRODUCED), (0.06, WITHIN), (-0.2, WITHIN), (0.21, DEVIATES), (-0.5, DEVIATES)],
)
def test_an_error_counts_alike_in_both_directions(error: float, status: str) -> None:
    assert of_error(error) == status


@pytest.mark.parametrize(
    ("random", "status"),
    [
        ([100.0, 101.0, 99.0], REPRODUCED),
        ([80.0, 81.0, 79.0], DEVIATES),
        ([125.0, 126.0, 124.0], DEVIATES),
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


# ---- Where


def test_all_levels_are_those_that_the_experiment_measured() -> None:
    judge_ = judge(
        ([1.0], {"bs_bytes": 8192}),
        ([1.0], {"bs_bytes": 4096}),
        ([1.0], {"bs_bytes": 2**20, "experiments": "other"}),
    )
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"bs": "all"}, "at_least": 1})
    assert labels(parts) == ["4 KiB", "8 KiB"]


def test_all_levels_of_a_setting_leave_out_cells_that_do_not_ask_for_it() -> None:
    judge_ = judge(([1.0], {"set_scheduler": "noop"}), ([1.0], {"set_scheduler": "cfq"}), ([1.0], {}))
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"scheduler": "all"}, "at_least": 1})
    assert labels(parts) == ["cfq", "noop"]


def test_lists_are_combined_in_their_order() -> None:
    cells = [([1.0], {"drive": drive, "bs_bytes": size}) for drive, size in itertools.product(["d", "e"], [4096, 8192])]
    parts = parts_of(
        judge(*cells), {**MEAN_OF_READS, "where": {"drive": ["e", "d"], "bs": ["4k", "8k"]}, "at_least": 1}
    )
    assert labels(parts) == ["e, 4 KiB", "e, 8 KiB", "d, 4 KiB", "d, 8 KiB"]


def test_levels_that_were_not_measured_are_skipped() -> None:
    judge_ = judge(([1.0], {"bs_bytes": 8192}))
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"bs": ["4k", "8k", "1m"]}, "at_least": 1})
    assert labels(parts) == ["8 KiB"]


def test_a_level_measured_on_one_side_of_a_ratio_is_skipped() -> None:
    judge_ = judge(
        ([100.0], {"bs_bytes": 4096}),
        ([100.0], {"bs_bytes": 8192}),
        ([50.0], {"bs_bytes": 8192, "rw": "randread"}),
    )
    parts = parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "where": {"bs": "all"}, "at_most": 1})
    assert labels(parts) == ["8 KiB"]


def test_a_list_in_the_statistic_gives_a_part_each() -> None:
    judge_ = judge(
        ([50.0], {"set_scheduler": "noop"}),
        ([75.0], {"set_scheduler": "deadline"}),
        ([100.0], {"set_scheduler": "cfq"}),
    )
    check = {"ratio": {"scheduler": ["noop", "deadline"]}, "to": {"scheduler": "cfq"}, "experiment": "initial"}
    parts = parts_of(judge_, {**check, "at_most": 1})
    assert dict(zip(labels(parts), values(parts), strict=True)) == pytest.approx({"noop": 0.5, "deadline": 0.75})


def test_parts_name_jobs_and_settings() -> None:
    judge_ = judge(([1.0], {"numjobs": 4, "set_DRA": 1}))
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"numjobs": 4, "DRA": 1}, "at_least": 1})
    assert labels(parts) == ["4 jobs, DRA 1"]


def test_executions_of_other_experiments_do_not_count() -> None:
    judge_ = judge(([100.0], {}), ([900.0], {"experiments": "other"}))
    assert values(parts_of(judge_, {**MEAN_OF_READS, "at_least": 1})) == [100.0]


def test_a_cell_serves_each_experiment_that_it_names() -> None:
    table = executions(([1.0], {"experiments": "initial block-size"}), ([2.0], {"experiments": "block-size"}))
    assert [len(quantities.of_experiment(table, name)) for name in ("initial", "block-size", "block")] == [1, 2, 0]


# ---- Status of a claim


def test_a_claim_of_which_nothing_was_measured_is_not_testable() -> None:
    judge_ = judge(([100.0], {}))
    assert status_of(parts_of(judge_, {**MEAN_OF_READS, "experiment": "absent", "at_least": 1})) == UNTESTABLE


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
        parts = [Part("", 1.0, 1.0, 1.0, status, 0.0) for status in some]
        assert status_of(parts) == max(some, key=FROM_BEST_TO_WORST.index)


def test_one_level_that_deviates_makes_the_claim_deviate() -> None:
    judge_ = judge(([100.0], {"bs_bytes": 4096}), ([50.0], {"bs_bytes": 8192}))
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"bs": "all"}, "at_least": 100})
    assert (statuses(parts), status_of(parts)) == ([REPRODUCED, DEVIATES], DEVIATES)


# ---- Selections


@pytest.mark.parametrize(
    ("factor", "column"),
    [
        ("bs", "bs_bytes"),
        ("rw", "rw"),
        ("drive", "drive"),
        ("numjobs", "numjobs"),
        ("DRA", "set_DRA"),
        ("scheduler", "set_scheduler"),
        ("look_ahead", "set_look_ahead"),
    ],
)
def test_each_factor_has_its_column(factor: str, column: str) -> None:
    assert column_of(factor) == column


@pytest.mark.parametrize(
    ("setting", "levels"),
    [
        ("look_ahead", (0, 1)),
        ("read_ahead_kb", (0, 128)),
        ("nr_requests", (4, 64)),
        ("write_cache", ("write through", "write back")),
        ("scheduler", ("none", "cfq")),
        ("DRA", (1, 0)),
    ],
)
def test_a_claim_about_any_setting_is_judged(tmp_path: Path, setting: str, levels: tuple[Any, Any]) -> None:
    check = {"ratio": {setting: levels[1]}, "to": {setting: levels[0]}, "at_least": 2}
    check = load(tmp_path, with_check(**check))["claims"][0]["check"]
    cells = [([value], {f"set_{setting}": level}) for value, level in zip((10.0, 40.0), levels, strict=True)]
    assert statuses(parts_of(Judge(pd.concat(executions(cell) for cell in cells), []), check)) == [REPRODUCED]


@pytest.mark.parametrize("level", ["4k", "4 KiB", "4096", 4096])
def test_a_block_size_is_selected_however_it_is_written(level: str | int) -> None:
    table = executions(([1.0], {"bs_bytes": 4096}), ([2.0], {"bs_bytes": 8192}))
    assert Executions(table).select({"bs": level})["bandwidth_mb_per_s"].tolist() == [1.0]


def test_a_selection_holds_all_its_levels_at_once() -> None:
    table = executions(
        ([1.0], {"set_DRA": 1}), ([2.0], {"set_DRA": 1, "rw": "write"}), ([3.0], {"set_DRA": 0}), ([4.0], {})
    )
    assert Executions(table).select({"rw": "read", "DRA": 1})["bandwidth_mb_per_s"].tolist() == [1.0]


def test_a_selection_of_nothing_is_all() -> None:
    table = executions(([1.0, 2.0], {}))
    assert Executions(table).select({}).equals(table)


def test_a_selection_by_a_setting_that_no_cell_asks_for_is_empty() -> None:
    assert Executions(executions(([1.0], {}))).select({"FSW": 1}).empty


# ---- Facts about any measurement


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


ratio_checks = st.one_of(
    st.fixed_dictionaries({"at_most": bounds, "tolerance": tolerances}),
    st.fixed_dictionaries({"at_least": bounds, "tolerance": tolerances}),
    st.fixed_dictionaries({"within": st.floats(0.01, 0.9)}),
)


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


# ---- Files


GOOD: dict[str, Any] = {
    "id": "reads-affected",
    "place": "Section 3",
    "quote": "has a significant effect",
    "says": "Random reads are slower",
    "check": {**RANDOM_TO_SEQUENTIAL, "at_most": 0.95},
}
UNTESTED = {key: GOOD[key] for key in ("place", "quote", "says")} | {
    "id": "adjacency",
    "untestable": "It is not shown.",
}
CONTRADICTION = {"id": "of-reads", "between": ["reads-affected", "table1-read"], "contradicted": [], "says": "Both."}


def load(root: Path, *listed: dict[str, Any], **more: Any) -> dict[str, Any]:
    (root / "workflow/schemas").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / claims.SCHEMA, root / claims.SCHEMA)
    (root / "claims.yaml").write_text(yaml.safe_dump({"claims": list(listed), **more}), encoding="utf-8")
    return claims.load(root, "claims.yaml", VALUES)


def with_check(**check: Any) -> dict[str, Any]:
    return GOOD | {"check": {"experiment": "initial", **check}}


def test_a_file_of_claims_is_returned_as_it_is_written(tmp_path: Path) -> None:
    content = load(tmp_path, GOOD, UNTESTED, contradictions=[CONTRADICTION])
    assert content == {"claims": [GOOD, UNTESTED], "contradictions": [CONTRADICTION]}


@pytest.mark.parametrize(
    "check",
    [
        {"ratio": {"rw": "randread"}, "to": {"rw": "read"}, "within": 0.1},
        {"ratio": {"rw": "a"}, "to": {"rw": "b"}, "over_ratio": {"rw": "c"}, "over_to": {"rw": "d"}, "at_least": 1},
        {"difference": {"rw": "write"}, "to": {"rw": "randwrite"}, "at_most": "table1-limit"},
        {"mean": {"rw": "read"}, "equals": "table1-read", "tolerance": 0.2},
        {"growth": "bs", "at_least": 1},
        {"growth": "bs", "ratio": {"rw": "randread"}, "to": {"rw": "read"}, "at_least": 1},
        {"column": "iodepth_reached", "at_least": "table1-limit"},
        {"outcome": "DRA", "to": 1, "is": ["refused"]},
    ],
)
def test_each_kind_of_check_is_accepted(tmp_path: Path, check: dict[str, Any]) -> None:
    assert load(tmp_path, with_check(**check))["claims"][0]["check"] == {"experiment": "initial", **check}


RATIO = {"ratio": {"rw": "randread"}, "to": {"rw": "read"}}


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (GOOD | {"untestable": "It is not shown."}, "give either a check, or several under checks, or with untestable"),
        (
            {key: GOOD[key] for key in GOOD if key != "check"},
            "give either a check, or several under checks, or with untestable",
        ),
        (with_check(**RATIO, mean={"rw": "read"}, at_most=1), "a check has one of ratio, .*, not 2 of them"),
        (with_check(**RATIO, growth="bs", column="numjobs", at_most=1), "a check has one of ratio, .*, not 2 of them"),
        (with_check(at_most=1), "a check has one of ratio, .*, not 0 of them"),
        (with_check(**RATIO, at_most=1, at_least=1), "a check has one of at_most, .*, not 2 of them"),
        (with_check(**RATIO), "a check has one of at_most, .*, not 0 of them"),
        (with_check(ratio={"rw": "read"}, at_most=1), "ratio, difference and outcome need 'to'"),
        (with_check(difference={"rw": "read"}, at_most=1), "ratio, difference and outcome need 'to'"),
        (with_check(outcome="DRA", **{"is": ["refused"]}), "ratio, difference and outcome need 'to'"),
        (with_check(growth="bs", ratio={"rw": "read"}, at_most=1), "ratio, difference and outcome need 'to'"),
        (with_check(mean={"rw": "read"}, to={"rw": "write"}, at_most=1), "nothing else has it"),
        (with_check(**RATIO, over_ratio={"rw": "write"}, at_most=1), "over_ratio and over_to belong together"),
        (with_check(**RATIO, over_to={"rw": "write"}, at_most=1), "over_ratio and over_to belong together"),
        (with_check(**RATIO, at_most="table1-raed"), "no published value has the id 'table1-raed'"),
        (with_check(**RATIO, at_least="table1-raed"), "Did you mean 'table1-read'"),
        (with_check(**RATIO, equals="table1-limits"), "Did you mean 'table1-limit'"),
    ],
)
def test_a_wrong_claim_is_named_by_file_and_id(tmp_path: Path, claim: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimsError, match=rf"^claims\.yaml: claim 'reads-affected': .*{message}"):
        load(tmp_path, claim)


def test_an_id_of_two_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClaimsError, match="claim 'reads-affected': another claim or published value has this id"):
        load(tmp_path, GOOD, GOOD)


def test_an_id_of_a_claim_and_a_published_value_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ClaimsError, match="claim 'table1-read': another claim or published value has this id"):
        load(tmp_path, GOOD | {"id": "table1-read"})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"between": ["reads-afected"]}, "no claim and no published value has the id 'reads-afected'"),
        ({"between": ["reads-afected"]}, "Did you mean 'reads-affected'"),
        ({"contradicted": ["table1-raed"]}, "Did you mean 'table1-read'"),
        ({"contradicted": ["table1-limit"]}, "table1-limit must also stand under between"),
    ],
)
def test_a_wrong_contradiction_is_named_by_file_and_id(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimsError, match=rf"^claims\.yaml: contradiction 'of-reads': .*{message}"):
        load(tmp_path, GOOD, contradictions=[CONTRADICTION | change])


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (GOOD | {"chekk": {}}, "chekk"),
        (with_check(**RATIO, at_mots=1), "at_mots"),
        ({key: GOOD[key] for key in GOOD if key != "quote"}, "quote"),
        (GOOD | {"id": "Reads affected"}, "Reads affected"),
        (with_check(**RATIO, equals=1), "equals"),
        (with_check(**RATIO, within=0), "within"),
        (with_check(**RATIO, at_most=1, tolerance=-0.1), "tolerance"),
    ],
)
def test_what_the_schema_does_not_know_is_named(tmp_path: Path, claim: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"claims\.yaml: .*{message}"):
        load(tmp_path, claim)


def test_a_mistyped_contradiction_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="betwixt"):
        load(tmp_path, GOOD, contradictions=[CONTRADICTION | {"betwixt": []}])


def test_a_file_without_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"claims\.yaml: claims"):
        load(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.yaml: there is no such file"):
        claims.load(tmp_path, "none.yaml", VALUES)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"outcome": "DRA", "to": 1, "at_most": 1}, "an outcome is held against 'is'"),
        ({"ratio": {"rw": "read"}, "to": {"rw": "write"}, "is": ["refused"]}, "an outcome is held against 'is'"),
        ({"difference": {"rw": "read"}, "to": {"rw": "write"}, "within": 0.1}, "for ratio, growth and value alone"),
        ({"ratio": {"rw": "read"}, "to": 3, "at_most": 1}, "'to' needs one level for each factor"),
        ({"ratio": {"rw": "read"}, "to": {"rw": ["read", "write"]}, "at_most": 1}, "'to' needs one level"),
        ({"mean": {"rw": "a"}, "over_ratio": {"rw": "c"}, "over_to": {"rw": "d"}, "at_least": 1}, "belong together"),
        ({"outcome": "DRA", "to": 1, "is": ["ignored"], "where": {"drive": "all"}}, "has drives alone"),
        (
            {"growth": "bs", "ratio": {"rw": "all"}, "to": {"rw": "read"}, "at_most": 1},
            "'ratio' needs one level for each",
        ),
    ],
)
def test_a_check_that_cannot_be_judged_is_refused(tmp_path: Path, check: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimsError, match=message):
        load(tmp_path, with_check(**check))


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"mean": {"lookahead": 1}, "at_most": 1}, "mean: there is no factor 'lookahead'; did you mean 'look_ahead'?"),
        ({"mean": {}, "where": {"dra": 1}, "at_most": 1}, "where: there is no factor 'dra'; did you mean 'DRA'?"),
        (
            {"mean": {}, "where": {"bss": 1}, "at_most": 1},
            "where: there is no factor 'bss'; did you mean 'bs'?",
        ),
        ({"ratio": {}, "to": {"numjob": 1}, "at_most": 1}, "to: there is no factor 'numjob'; did you mean 'numjobs'?"),
        (
            {"value": "a", "with": {"a": {"iodeph": 1}}, "at_most": 1},
            "with.a: there is no factor 'iodeph'; did you mean 'iodepth'?",
        ),
        ({"growth": "iodepths", "at_most": 1}, "growth: there is no factor 'iodepths'; did you mean 'iodepth'?"),
        ({"outcome": "DAR", "to": 1, "is": ["refused"]}, "outcome: there is no setting 'DAR'; did you mean 'DRA'?"),
        ({"outcome": "bs", "to": 1, "is": ["refused"]}, "outcome: there is no setting 'bs'; valid are RCD, "),
        ({"mean": {"xyzzy": 1}, "at_most": 1}, "mean: there is no factor 'xyzzy'; valid are drive, rw, bs, "),
    ],
)
def test_a_factor_that_does_not_exist_is_refused_with_the_nearest(
    tmp_path: Path, check: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClaimsError) as caught:
        load(tmp_path, with_check(**check))
    assert str(caught.value).startswith(f"claims.yaml: claim 'reads-affected': {message}")


def test_a_difference_is_held_against_a_bound_of_zero() -> None:
    judge_ = reads_and_random_reads([100.0, 101.0], [40.0, 41.0])
    check = {"difference": {"rw": "read"}, "to": {"rw": "randread"}, "experiment": "initial"}
    assert statuses(parts_of(judge_, {**check, "at_least": 0})) == [REPRODUCED]
    assert statuses(parts_of(judge_, {**check, "at_most": 0})) == [DEVIATES]


def test_a_factor_that_no_cell_has_gives_no_parts() -> None:
    judge_ = judge(([100.0], {}))
    assert parts_of(judge_, {"growth": "FSW", "experiment": "initial", "at_least": 1}) == []
    assert parts_of(judge_, {"column": "missing", "experiment": "initial", "at_least": 1}) == []


def test_an_outcome_counts_for_its_experiment_alone() -> None:
    check = {"outcome": "DRA", "to": 1, "experiment": "another", "is": ["refused"]}
    assert parts_of(Judge(executions(([1.0], {})), [step("refused")]), check) == []


def checks_of(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return each check of a file of claims."""
    claims = content.get("claims", [])
    several = [one["check"] for claim in claims for one in claim.get("checks", [])]
    return [claim["check"] for claim in claims if "check" in claim] + several


@pytest.mark.parametrize("study", ["saif2020", "clarke2024", "zhou"])
def test_every_claim_names_experiments_of_the_study_and_drives_that_they_are_of(study: str) -> None:
    content = yaml.safe_load((ROOT / f"config/studies/{study}.yaml").read_text())
    for check in checks_of(yaml.safe_load((ROOT / f"data/published/{study}/claims.yaml").read_text())):
        selections = [check.get(name, {}) for name in ("where", "ratio", "to", "over_ratio", "over_to", "difference")]
        for selection in [*selections, check.get("mean", {}), *check.get("with", {}).values()]:
            named = selection if isinstance(selection, dict) else {}
            experiment = content["experiments"][named.get("experiment", check["experiment"])]
            drives = named.get("drive", [])
            wanted = {drives} if isinstance(drives, str) else set(drives)
            assert wanted <= {*experiment.get("drives", content.get("drives", []))}, check


@pytest.mark.parametrize("study", ["saif2020", "clarke2024", "zhou"])
def test_a_claim_that_the_twins_do_not_bear_out_says_why(study: str) -> None:
    content = yaml.safe_load((ROOT / f"data/published/{study}/claims.yaml").read_text())
    expected = yaml.safe_load((ROOT / f"data/expectations/{study}.yaml").read_text())
    contradicted = {name for each in content["contradictions"] for name in each["contradicted"]}
    reasons = {"deviates": "deviation", "undecided": "undecided"}
    for claim in content["claims"]:
        key = reasons.get(expected.get(claim["id"], ""))
        assert key is None or claim["id"] in contradicted or claim.get(key), claim["id"]


def test_a_claim_of_several_checks_has_the_parts_of_each_under_its_number() -> None:
    claim = {
        "checks": [
            {"says": "Random reads are slower", "check": {**RANDOM_TO_SEQUENTIAL, "at_most": 0.95}},
            {"says": "They are not half as fast", "check": {**RANDOM_TO_SEQUENTIAL, "at_least": 0.5}},
        ]
    }
    judge_ = judge(([100.0, 101.0], {"rw": "read"}), ([40.0, 41.0], {"rw": "randread"}))
    found = checks.of_claim(claim, VALUES)
    assert isinstance(found, checks.Checks)
    parts = judge_.parts(found)
    assert [part.label[:3] for part in parts] == ["(1)", "(2)"]
    assert [part.status for part in parts] == [REPRODUCED, DEVIATES]
    assert status_of(parts) == DEVIATES
    assert found.expected() == "(1) ≤ 0.95; (2) ≥ 0.5"
    assert found.found(parts) == "(1) 0.403; (2) 0.403"


def test_a_claim_has_either_a_check_or_several(tmp_path: Path) -> None:
    several = [{"says": "One", "check": GOOD["check"]}, {"says": "Two", "check": GOOD["check"]}]
    assert load(tmp_path, {key: GOOD[key] for key in GOOD if key != "check"} | {"checks": several})
    with pytest.raises(ClaimsError, match="give either a check, or several under checks"):
        load(tmp_path, GOOD | {"checks": several})


# ---- Quantities, other experiments, and arithmetic


def rates(*cells: tuple[list[float], dict[str, Any]]) -> Judge:
    """Like `judge`, but of the rate in IOPS; the bandwidth is the same everywhere."""
    table = executions(*cells)
    return Judge(table.assign(iops=table["bandwidth_mb_per_s"], bandwidth_mb_per_s=1.0), [])


def arithmetic(value: str, names: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"value": value, "with": names, "experiment": "initial", "at_least": 0, **more}


READ_AND_RANDOM = {"read": {"rw": "read"}, "random": {"rw": "randread"}}


def test_a_check_is_about_the_quantity_that_it_names() -> None:
    judge_ = rates(([100.0], {}), ([25.0], {"rw": "randread"}))
    assert values(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "of": "iops", "at_most": 1})) == [0.25]
    assert values(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "at_most": 1})) == [1.0]


def test_a_selection_may_be_about_a_quantity_of_its_own() -> None:
    judge_ = rates(([100.0], {}))
    check = {"ratio": {"of": "iops"}, "to": {"of": "bandwidth"}, "experiment": "initial", "at_least": 1}
    assert values(parts_of(judge_, check)) == [100.0]


def test_a_selection_s_quantity_takes_the_place_of_the_check_s() -> None:
    check = {"mean": {"of": "iops"}, "of": "bandwidth", "experiment": "initial", "at_least": 1}
    assert values(parts_of(rates(([100.0], {})), check)) == [100.0]


def test_growth_is_that_of_the_quantity() -> None:
    judge_ = rates(([10.0], {"numjobs": 1}), ([40.0], {"numjobs": 2}))
    assert values(parts_of(judge_, {"growth": "numjobs", "of": "iops", "experiment": "initial", "at_least": 1})) == [
        4.0
    ]


def test_executions_without_the_quantity_do_not_count() -> None:
    table = executions(([10.0, 20.0], {})).assign(latency_ms=[3.0, math.nan])
    check = {**MEAN_OF_READS, "of": "latency", "at_least": 1}
    assert values(parts_of(Judge(table, []), check)) == [3.0]


def test_a_quantity_that_was_not_measured_gives_no_part() -> None:
    assert parts_of(rates(([10.0], {})), {**MEAN_OF_READS, "of": "clat p99.9", "at_least": 1}) == []


def test_a_selection_may_be_from_another_experiment() -> None:
    judge_ = judge(([90.0], {"experiments": "mix"}), ([30.0], {"experiments": "mix baseline", "rw": "randread"}))
    check = {"ratio": {"rw": "read"}, "to": {"experiment": "baseline", "rw": "randread"}, "experiment": "mix"}
    assert values(parts_of(judge_, {**check, "at_least": 1})) == [3.0]


def test_a_selection_from_an_experiment_that_was_not_run_gives_no_part() -> None:
    check = {"ratio": {"rw": "read"}, "to": {"experiment": "other", "rw": "read"}, "experiment": "initial"}
    assert parts_of(judge(([90.0], {})), {**check, "at_least": 1}) == []


def test_where_selects_in_the_other_experiment_too() -> None:
    cells = [([float(size)], {"bs_bytes": size, "experiments": name}) for size in (4096, 8192) for name in ("a", "b")]
    check = {"ratio": {}, "to": {"experiment": "b"}, "experiment": "a", "where": {"bs": "all"}, "within": 0.1}
    assert values(parts_of(judge(*cells), check)) == [1.0, 1.0]


def test_a_selection_s_level_takes_the_place_of_where_s() -> None:
    judge_ = judge(([10.0], {"numjobs": 1}), ([40.0], {"numjobs": 4}), ([80.0], {"numjobs": 8}))
    check = {"ratio": {}, "to": {"numjobs": 1}, "experiment": "initial", "where": {"numjobs": [4, 8]}, "at_least": 1}
    assert values(parts_of(judge_, check)) == [4.0, 8.0]


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
        ({"at_least": 0.3}, DEVIATES),
        ({"at_least": 0.25}, UNDECIDED),
        ({"at_most": 0.25, "tolerance": 0.5}, WITHIN),
        ({"within": 0.1}, DEVIATES),
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


def test_labels_name_factors_that_are_numbers() -> None:
    judge_ = judge(([1.0], {"rwmixread": 99, "set_scheduler": "cfq"}))
    parts = parts_of(
        judge_, {**MEAN_OF_READS, "where": {"rwmixread": 99, "scheduler": "cfq", "drive": "d"}, "at_least": 1}
    )
    assert labels(parts) == ["rwmixread 99, cfq, d"]


@pytest.mark.parametrize(("factor", "written"), [("offset", "1k"), ("offset", 1024), ("thinktime", "2 ms")])
def test_sizes_and_durations_are_selected_as_people_write_them(factor: str, written: object) -> None:
    table = executions(([1.0], {"offset": 1024, "thinktime": 2000}), ([2.0], {"offset": 0, "thinktime": 0}))
    assert Executions(table).select({factor: written})["bandwidth_mb_per_s"].tolist() == [1.0]


def test_a_negative_size_is_selected() -> None:
    table = executions(([1.0], {"skip": -8192}), ([2.0], {"skip": 8192}))
    assert Executions(table).select({"skip": "-8k"})["bandwidth_mb_per_s"].tolist() == [1.0]


# ---- Bounds that were published, zeros, and what does not exist


def published_in(unit: str, value: float) -> pd.DataFrame:
    return pd.DataFrame({"id": ["limit"], "value": [value], "unit": unit})


def bound_of(check: dict[str, Any], published: pd.DataFrame) -> float:
    expectation = checks.parse(check, published).expectation
    assert isinstance(expectation, Against)
    return expectation.number.value


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


@pytest.mark.parametrize(("measured", "status", "off"), [(0.0, REPRODUCED, 0.0), (0.1, DEVIATES, math.inf)])
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


# ---- Files: quantities and arithmetic


@pytest.mark.parametrize(
    "check",
    [
        {"mean": {"rw": "read"}, "of": "iops", "at_most": 1},
        {"mean": {"rw": "read", "of": "clat p99.9"}, "at_most": 1},
        {"ratio": {"of": "read iops"}, "to": {"experiment": "other", "of": "iops"}, "at_most": 1},
        {"value": "read / 2", "with": {"read": {"rw": "read", "experiment": "other"}}, "within": 0.1},
        {"value": "read / numjobs", "with": {"read": {}}, "where": {"numjobs": "all"}, "at_most": 1},
        {"value": "read * bs", "with": {"read": {}}, "where": {"bs": ["4k", 8192]}, "equals": "table1-read"},
        {"growth": "iodepth", "of": "latency", "at_least": 3},
        {"mean": {"skip": "-4k"}, "where": {"thinktime": "1 ms"}, "at_least": 3},
    ],
)
def test_each_kind_of_quantity_and_arithmetic_is_accepted(tmp_path: Path, check: dict[str, Any]) -> None:
    assert load(tmp_path, with_check(**check))["claims"][0]["check"] == {"experiment": "initial", **check}


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            {"mean": {}, "of": "bandwidt", "at_most": 1},
            "of: there is no quantity 'bandwidt'; did you mean 'bandwidth'?",
        ),
        ({"mean": {"of": "iosp"}, "at_most": 1}, "of: there is no quantity 'iosp'; did you mean 'iops'?"),
        ({**RATIO, "to": {"of": "xyz"}, "at_most": 1}, "of: there is no quantity 'xyz'; valid are bandwidth"),
        ({"value": "a", "with": {"a": {"of": "clat p"}}, "at_most": 1}, "of: there is no quantity 'clat p'"),
        ({"value": "a +", "with": {"a": {}}, "at_most": 1}, "value: 'a +' is no arithmetic expression such as"),
        ({"value": "a ** 2", "with": {"a": {}}, "at_most": 1}, "value: 'a ** 2' in 'a ** 2' is no number, name or"),
        ({"value": "abs(a)", "with": {"a": {}}, "at_most": 1}, "value: 'abs(a)' in 'abs(a)' is no number, name or"),
        (
            {"value": "rread / 2", "with": {"read": {}}, "at_most": 1},
            "value: 'rread' is neither under with nor under where. Did you mean 'read'?",
        ),
        (
            {"value": "1 / numjobs", "where": {"numjobs": 1}, "at_most": 1},
            "value: it needs a mean from what was measured",
        ),
        ({"value": "1 + 1", "with": {"a": {}}, "at_most": 1}, "value: it needs a mean from what was measured"),
        (
            {"value": "a * rw", "with": {"a": {}}, "where": {"rw": "read"}, "at_most": 1},
            "value: the levels of 'rw' are no numbers to compute with",
        ),
        (
            {"value": "a * scheduler", "with": {"a": {}}, "where": {"scheduler": "all"}, "at_most": 1},
            "value: the levels of 'scheduler' are no numbers to compute with",
        ),
        (
            {**RATIO, "with": {"a": {}}, "at_most": 1},
            "'with' names the means of a 'value', and belongs to nothing else",
        ),
        ({"value": "a", "with": {"a": {}}, "mean": {}, "at_most": 1}, "a check has one of ratio, "),
        ({"value": "a", "with": {"a": {"rw": ["read"]}}, "at_most": 1}, "'with.a' needs one level for each factor"),
        ({"value": "a", "with": {"a": {"bs": "all"}}, "at_most": 1}, "'with.a' needs one level for each factor"),
        ({"mean": {"bs": "4q"}, "at_most": 1}, "mean.bs: '4q' is no size"),
        ({"mean": {}, "where": {"offset": ["1k", "2x"]}, "at_most": 1}, "where.offset: '2x' is no size"),
        ({"mean": {}, "where": {"thinktime": "10"}, "at_most": 1}, "where.thinktime: '10' is no duration"),
        ({"value": "a", "with": {"a": {"skip": "--1"}}, "at_most": 1}, "with.a.skip: '-1' is no size"),
        ({"mean": {}, "where": {"of": "iops"}, "at_most": 1}, "where has levels by factor; 'of' belongs beside it"),
        ({"mean": {}, "where": {"experiment": "x"}, "at_most": 1}, "where has levels by factor; 'experiment' belongs"),
        (
            {"mean": {}, "of": "iops", "equals": "table1-read"},
            "'table1-read' was published in 'MB/s', what is held against it is in IOPS",
        ),
        (
            {"difference": {"of": "latency"}, "to": {"of": "latency"}, "at_most": "table1-limit"},
            "'table1-limit' was published in 'MB/s', what is held against it is in ms",
        ),
    ],
)
def test_a_wrong_quantity_or_formula_is_told_with_file_and_claim(
    tmp_path: Path, check: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClaimsError) as caught:
        load(tmp_path, with_check(**check))
    assert str(caught.value).startswith(f"claims.yaml: claim 'reads-affected': {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("check", [{"mean": {"of": 3}, "at_most": 1}, {"mean": {"experiment": ["a"]}, "at_most": 1}])
def test_a_quantity_or_experiment_that_is_no_text_is_told(tmp_path: Path, check: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^claims\.yaml: claims\[0\]\.check\.mean\.(of|experiment): "):
        load(tmp_path, with_check(**check))
