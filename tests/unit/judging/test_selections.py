"""Select the repetitions of a check by levels, quantity and experiment."""

import itertools
import math
from typing import Any

import pytest
from claim_checks import MEAN_OF_READS, RANDOM_TO_SEQUENTIAL, executions, judge, labels, parts_of, values

from iopatterns.analysis import quantities
from iopatterns.judging.check_statistics import CachedExecutions
from iopatterns.judging.claims import Judge


def rates(*cells: tuple[list[float], dict[str, Any]]) -> Judge:
    """Return a judge like `judge`, with the numbers as rates in IOPS and equal bandwidths."""
    table = executions(*cells)
    return Judge(table.assign(iops=table["bandwidth_mb_per_s"], bandwidth_mb_per_s=1.0), [])


# ---- Levels


def test_all_stands_for_the_measured_levels_of_the_experiment() -> None:
    judge_ = judge(
        ([1.0], {"bs_bytes": 8192}),
        ([1.0], {"bs_bytes": 4096}),
        ([1.0], {"bs_bytes": 2**20, "experiments": "other"}),
    )
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": {"bs": "all"}, "at_least": 1})
    assert labels(parts) == ["4 KiB", "8 KiB"]


def test_all_levels_of_a_setting_skip_cells_without_the_setting() -> None:
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


def test_each_level_of_a_list_in_the_statistic_is_a_part() -> None:
    judge_ = judge(
        ([50.0], {"set_scheduler": "noop"}),
        ([75.0], {"set_scheduler": "deadline"}),
        ([100.0], {"set_scheduler": "cfq"}),
    )
    check = {"ratio": {"scheduler": ["noop", "deadline"]}, "to": {"scheduler": "cfq"}, "experiment": "initial"}
    parts = parts_of(judge_, {**check, "at_most": 1})
    assert dict(zip(labels(parts), values(parts), strict=True)) == pytest.approx({"noop": 0.5, "deadline": 0.75})


def test_repetitions_of_other_experiments_are_skipped() -> None:
    judge_ = judge(([100.0], {}), ([900.0], {"experiments": "other"}))
    assert values(parts_of(judge_, {**MEAN_OF_READS, "at_least": 1})) == [100.0]


def test_a_cell_belongs_to_each_experiment_that_it_names() -> None:
    table = executions(([1.0], {"experiments": "initial block-size"}), ([2.0], {"experiments": "block-size"}))
    assert [len(quantities.select_experiments(table, name)) for name in ("initial", "block-size", "block")] == [1, 2, 0]


@pytest.mark.parametrize("level", ["4k", "4 KiB", "4096", 4096])
def test_a_block_size_is_selected_in_every_spelling(level: str | int) -> None:
    table = executions(([1.0], {"bs_bytes": 4096}), ([2.0], {"bs_bytes": 8192}))
    assert CachedExecutions(table).select({"bs": level})["bandwidth_mb_per_s"].tolist() == [1.0]


def test_a_selection_combines_all_its_levels() -> None:
    table = executions(
        ([1.0], {"set_DRA": 1}), ([2.0], {"set_DRA": 1, "rw": "write"}), ([3.0], {"set_DRA": 0}), ([4.0], {})
    )
    assert CachedExecutions(table).select({"rw": "read", "DRA": 1})["bandwidth_mb_per_s"].tolist() == [1.0]


def test_a_selection_by_a_setting_that_no_cell_has_is_empty() -> None:
    assert CachedExecutions(executions(([1.0], {}))).select({"FSW": 1}).empty


def test_labels_name_the_factors_of_numbers() -> None:
    judge_ = judge(([1.0], {"rwmixread": 99, "set_scheduler": "cfq", "numjobs": 4, "set_DRA": 1}))
    where = {"rwmixread": 99, "scheduler": "cfq", "drive": "d", "numjobs": 4, "DRA": 1}
    parts = parts_of(judge_, {**MEAN_OF_READS, "where": where, "at_least": 1})
    assert labels(parts) == ["rwmixread 99, cfq, d, 4 jobs, DRA 1"]


@pytest.mark.parametrize(
    ("factor", "written"), [("offset", "1k"), ("offset", 1024), ("thinktime", "2 ms"), ("skip", "-8k")]
)
def test_sizes_and_durations_are_selected_by_their_value(factor: str, written: object) -> None:
    table = executions(
        ([1.0], {"offset": 1024, "thinktime": 2000, "skip": -8192}),
        ([2.0], {"offset": 0, "thinktime": 0, "skip": 8192}),
    )
    assert CachedExecutions(table).select({factor: written})["bandwidth_mb_per_s"].tolist() == [1.0]


# ---- Quantities and other experiments


def test_a_check_uses_the_quantity_that_it_names() -> None:
    judge_ = rates(([100.0], {}), ([25.0], {"rw": "randread"}))
    assert values(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "of": "iops", "at_most": 1})) == [0.25]
    assert values(parts_of(judge_, {**RANDOM_TO_SEQUENTIAL, "at_most": 1})) == [1.0]


def test_a_selection_may_have_a_quantity_of_its_own() -> None:
    judge_ = rates(([100.0], {}))
    check = {"ratio": {"of": "iops"}, "to": {"of": "bandwidth"}, "experiment": "initial", "at_least": 1}
    assert values(parts_of(judge_, check)) == [100.0]


def test_the_quantity_of_a_selection_overrides_the_one_of_the_check() -> None:
    check = {"mean": {"of": "iops"}, "of": "bandwidth", "experiment": "initial", "at_least": 1}
    assert values(parts_of(rates(([100.0], {})), check)) == [100.0]


def test_growth_is_computed_from_the_quantity() -> None:
    judge_ = rates(([10.0], {"numjobs": 1}), ([40.0], {"numjobs": 2}))
    assert values(parts_of(judge_, {"growth": "numjobs", "of": "iops", "experiment": "initial", "at_least": 1})) == [
        4.0
    ]


def test_repetitions_without_the_quantity_are_skipped() -> None:
    table = executions(([10.0, 20.0], {})).assign(latency_ms=[3.0, math.nan])
    check = {**MEAN_OF_READS, "of": "latency", "at_least": 1}
    assert values(parts_of(Judge(table, []), check)) == [3.0]


def test_a_selection_may_be_from_another_experiment() -> None:
    judge_ = judge(([90.0], {"experiments": "mix"}), ([30.0], {"experiments": "mix baseline", "rw": "randread"}))
    check = {"ratio": {"rw": "read"}, "to": {"experiment": "baseline", "rw": "randread"}, "experiment": "mix"}
    assert values(parts_of(judge_, {**check, "at_least": 1})) == [3.0]


def test_where_also_selects_in_the_other_experiment() -> None:
    cells = [([float(size)], {"bs_bytes": size, "experiments": name}) for size in (4096, 8192) for name in ("a", "b")]
    check = {"ratio": {}, "to": {"experiment": "b"}, "experiment": "a", "where": {"bs": "all"}, "within": 0.1}
    assert values(parts_of(judge(*cells), check)) == [1.0, 1.0]


def test_the_level_of_a_selection_overrides_the_one_of_where() -> None:
    judge_ = judge(([10.0], {"numjobs": 1}), ([40.0], {"numjobs": 4}), ([80.0], {"numjobs": 8}))
    check = {"ratio": {}, "to": {"numjobs": 1}, "experiment": "initial", "where": {"numjobs": [4, 8]}, "at_least": 1}
    assert values(parts_of(judge_, check)) == [4.0, 8.0]
