"""Facts about what a study's notebook works with, on the recorded measurement."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support import ROOT

from iopatterns import access_gap
from iopatterns.analysis import BANDWIDTH, AnalysisError, Study
from iopatterns.statistics import interval
from iopatterns.tables import write_numbers

RECORDED = ROOT / "tests/notebooks/data"
RAW = pd.read_parquet(RECORDED / "saif2020.parquet").assign(mb=lambda rows: rows["bandwidth_bytes_per_s"] / 1e6)
STEPS = json.loads((RECORDED / "saif2020.tuning.json").read_text(encoding="utf-8"))
LIMIT = "section3-write-gap"
REFUSERS = ["mz7km240", "ssdsc2bb300g4", "ssdsc2kg480g7"]


@cache
def study(confidence: float = 0.95, method: str = "t") -> Study:
    return Study.load(
        measurements=RECORDED / "saif2020.parquet",
        tuning=RECORDED / "saif2020.tuning.json",
        published=ROOT / "data/published/saif2020",
        twins=ROOT / "data/twins",
        confidence=confidence,
        method=method,
    )


@cache
def numbers() -> dict[str, Any]:
    return access_gap.numbers(study(), study().summary("initial"), study().ratios("initial"), LIMIT)


def only(*drives: str) -> Study:
    """Return the study with the executions of some drives alone."""
    whole = study()
    return replace(whole, executions=whole.executions[whole.executions["drive"].isin(drives)])


def asks(experiment: str) -> pd.DataFrame:
    """Return the raw executions of an experiment."""
    return RAW[RAW["experiments"].map(lambda names: experiment in names.split())]


def mean_of(experiment: str, **levels: object) -> float:
    """Return the mean bandwidth (MB/s) of the raw executions of an experiment at some levels."""
    rows = asks(experiment)
    for name, level in levels.items():
        rows = rows[rows[name] == level]
    assert rows["cell"].nunique() == 1
    return float(np.mean(rows["mb"].to_list()))


# ---- Experiments and drives


def test_experiments_are_those_of_the_study_s_configuration() -> None:
    assert sorted(study().experiments) == [
        *("block-size", "concurrency", "initial", "read-ahead", "refusing", "schedulers"),
        *("toggle-dra", "toggle-fsw", "toggle-rcd", "toggle-wce"),
    ]


def test_experiments_begin_with_the_initial_one() -> None:
    assert study().experiments[0] == "initial"


def test_an_experiment_whose_settings_no_drive_took_was_run_all_the_same() -> None:
    steps = [{**step, "experiments": "forbidden"} for step in STEPS if not step["measured"]]
    assert replace(study(), steps=steps).experiments[-1] == "forbidden"


def test_kinds_tell_how_each_drive_was_measured() -> None:
    assert study().kinds == dict.fromkeys(["px02ssf020", "px05smb040", "c400", *REFUSERS], "twin")


def test_bandwidth_is_in_megabytes_per_second() -> None:
    assert study().executions[BANDWIDTH].to_list() == pytest.approx(RAW["mb"].to_list())


def test_overview_counts_cells_and_executions_of_each_experiment_and_drive() -> None:
    table = study().overview().set_index(["experiment", "drive"])
    assert table.loc[("schedulers", "px05smb040")].to_list() == [160, 1600]
    assert table.loc[("refusing", "mz7km240")].to_list() == [4, 40]


def test_overview_counts_a_cell_for_each_experiment_that_asks_for_it() -> None:
    table = study().overview().groupby("experiment")["executions"].sum()
    assert table.to_dict() == {name: len(asks(name)) for name in study().experiments}


def test_the_executions_of_an_experiment_are_all_that_it_asks_for() -> None:
    assert list(study().rows("read-ahead").index) == list(asks("read-ahead").index)


def test_an_experiment_is_not_taken_for_another_whose_name_holds_its_own() -> None:
    assert study().rows("size").empty


def test_executions_of_several_experiments_are_each_there_once() -> None:
    both = study().rows("read-ahead", "toggle-dra")
    assert len(both) == 480
    assert not both.index.duplicated().any()


def test_steps_are_those_of_the_experiments_asked_for() -> None:
    assert study().tuned("refusing") == [step for step in STEPS if step["drive"] in REFUSERS]


def test_initial_drives_are_those_of_the_source_s_first_table() -> None:
    assert study().drives("initial") == ["px02ssf020", "px05smb040", "c400"]


def test_drives_of_an_experiment_are_each_there_once() -> None:
    assert study().drives("initial", "schedulers", "toggle-dra") == ["px02ssf020", "px05smb040", "c400"]


def test_drives_that_refused_their_settings_belong_to_the_experiment() -> None:
    assert study().drives("refusing") == REFUSERS


def test_drives_without_any_execution_belong_to_the_experiment_whose_settings_they_refused() -> None:
    assert only("px05smb040").drives("refusing") == REFUSERS


def test_an_experiment_that_was_not_run_has_no_drives() -> None:
    assert study().drives("other") == []


# ---- Why a drive was not measured


def test_a_drive_that_refused_says_why_it_was_not_measured() -> None:
    assert study().why_not("refusing", "ssdsc2bb300g4") == "ignored:\naccepted, but DRA still reads back as 0"


def test_a_drive_of_which_nothing_is_known_was_not_measured() -> None:
    assert study().why_not("refusing", "other") == "not measured"


# ---- Summaries


def test_summary_has_one_row_per_cell() -> None:
    assert len(study().summary("initial")) == 24
    assert len(study().summary("schedulers", ["set_scheduler"])) == 160


def test_summary_recomputed_from_the_raw_executions_is_the_same() -> None:
    rows = study().summary("initial")
    row = rows[(rows["drive"] == "c400") & (rows["rw"] == "randread") & (rows["bs_bytes"] == 28672)].iloc[0]
    cell = asks("initial").query("drive == 'c400' and rw == 'randread' and bs_bytes == 28672")
    low, high, method = interval(cell["mb"].to_list())
    assert row[["mean", "low", "high"]].to_list() == pytest.approx([cell["mb"].mean(), low, high])
    assert row[["executions", "method", "iodepth_reached"]].to_list() == [10, method, cell["iodepth_reached"].max()]


LEVELS = [
    ("schedulers", "set_scheduler"),
    ("concurrency", "numjobs"),
    ("read-ahead", "set_DRA"),
    ("toggle-rcd", "set_RCD"),
]


@pytest.mark.parametrize(("experiment", "by"), LEVELS)
def test_a_summary_that_would_average_over_two_cells_is_refused(experiment: str, by: str) -> None:
    with pytest.raises(AnalysisError, match=f"'{experiment}': two cells share drive, rw, bs_bytes"):
        study().summary(experiment)


@pytest.mark.parametrize(("experiment", "by"), LEVELS)
def test_a_summary_by_the_level_that_tells_cells_apart_averages_over_one_cell(experiment: str, by: str) -> None:
    assert set(study().summary(experiment, [by])["executions"]) == {10}


def test_summary_of_an_experiment_without_executions_is_empty() -> None:
    assert study().summary("other").empty


def test_an_empty_summary_has_the_columns_of_any_other() -> None:
    full, empty = study().summary("read-ahead", ["set_DRA"]), study().summary("other", ["set_DRA"])
    assert list(empty) == list(full)


def test_summary_has_the_study_s_confidence_and_method() -> None:
    rows = study(0.9, "bca").summary("initial")
    assert set(rows["confidence"]) == {0.9}
    assert set(rows["method"]) == {"bca"}


def test_ratios_are_random_over_sequential_of_each_drive_and_block_size() -> None:
    rows = study().ratios("initial").set_index(["drive", "operation", "bs_bytes"])
    at = {"drive": "px05smb040", "bs_bytes": 4096}
    expected = mean_of("initial", rw="randread", **at) / mean_of("initial", rw="read", **at)
    assert len(rows) == 12
    assert rows.loc[("px05smb040", "read", 4096), "ratio"] == pytest.approx(expected)


# ---- Published values


def test_published_values_of_an_experiment_are_those_marked_so() -> None:
    rows = study().published("initial")
    assert len(rows) == 24
    assert set(rows["experiment"]) == {"initial"}


def test_published_values_are_selected_by_drive() -> None:
    rows = study().published("initial", "c400")
    assert len(rows) == 8
    assert set(rows["drive_key"]) == {"c400"}


def test_published_values_are_selected_by_workload() -> None:
    rows = study().published("initial", rw=["write", "randwrite"])
    assert len(rows) == 12
    assert set(rows["rw"]) == {"write", "randwrite"}


def test_published_values_are_selected_by_drive_and_workload_together() -> None:
    rows = study().published("initial", "px05smb040", ["randread"])
    assert rows["value"].to_list() == [40.1, 220]


def test_published_values_of_a_drive_that_the_source_does_not_have_are_none() -> None:
    assert study().published("initial", "other").empty


def test_published_values_over_jobs_have_the_number_of_jobs() -> None:
    assert study().published("concurrency")["numjobs"].to_list() == [16, 16, 16]


def test_a_value_that_a_twin_was_fitted_to_says_so() -> None:
    uses = study().values.set_index("id")["use"]
    assert uses["table2-px05smb040-read-4k"] == "fitted"
    assert uses["section4.2-read"] == "predicted"


def test_values_of_no_experiment_are_neither_fitted_nor_predicted() -> None:
    values = study().values
    assert set(values[values["experiment"] == ""]["use"]) == {""}


def test_values_of_a_drive_that_was_measured_as_a_file_are_neither_fitted_nor_predicted(
    tmp_path: Path,
) -> None:
    RAW.assign(drive_kind="file").drop(columns="mb").to_parquet(tmp_path / "m.parquet")
    tuning, published = RECORDED / "saif2020.tuning.json", ROOT / "data/published/saif2020"
    found = Study.load(
        measurements=tmp_path / "m.parquet", tuning=tuning, published=published, twins=ROOT / "data/twins"
    )
    assert set(found.values["use"]) == {""}


# ---- Numbers of the text


def test_numbers_have_the_keys_that_the_report_reads() -> None:
    assert set(numbers()) == {
        *("facts", "initial_block_sizes", "jobs", "margins_percent", "drives", "gaps", "published"),
    }
    assert set(numbers()["facts"]) == {
        *("experiments", "drives", "block_sizes", "left_out", "doubts", "executions", "interval"),
    }


def test_numbers_name_the_drives_of_each_experiment() -> None:
    assert numbers()["facts"]["experiments"] == {name: study().drives(name) for name in study().experiments}


def test_numbers_list_block_sizes_by_their_size() -> None:
    sizes = ["4 KiB", "8 KiB", "16 KiB", "28 KiB", "32 KiB", "64 KiB", "128 KiB", "256 KiB", "512 KiB", "1 MiB"]
    assert numbers()["facts"]["block_sizes"] == sizes
    assert numbers()["initial_block_sizes"] == ["4 KiB", "28 KiB"]


def test_numbers_list_the_jobs_of_the_experiment_on_concurrency() -> None:
    assert numbers()["jobs"] == [1, 2, 4, 8, 16]


def test_margins_are_told_in_percent() -> None:
    assert numbers()["margins_percent"] == pytest.approx({"settings": 10, "schedulers": 5})


def gaps(experiment: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = numbers()["gaps"][experiment]
    return found


@pytest.mark.parametrize(
    ("experiment", "levels"),
    [("block-size", {}), ("concurrency", {"numjobs": "numjobs"}), ("read-ahead", {"DRA": "set_DRA"})],
)
def test_gaps_recomputed_from_the_raw_executions_are_the_same(experiment: str, levels: dict[str, str]) -> None:
    for gap in gaps(experiment):
        at = {"drive": gap["drive"], "bs_bytes": gap["bs_bytes"]} | {name: gap[key] for key, name in levels.items()}
        sequential = mean_of(experiment, rw=gap["operation"], **at)
        random = mean_of(experiment, rw=f"rand{gap['operation']}", **at)
        found = [gap[name] for name in ("sequential_mb_per_s", "random_mb_per_s", "random_to_sequential")]
        assert found == pytest.approx([sequential, random, random / sequential])


@pytest.mark.parametrize(
    ("experiment", "by"), [("block-size", []), ("concurrency", ["numjobs"]), ("read-ahead", ["set_DRA"])]
)
def test_there_is_a_gap_for_each_pair_of_cells_of_an_experiment(experiment: str, by: list[str]) -> None:
    cells = asks(experiment).drop_duplicates(["drive", "rw", "bs_bytes", *by])
    keys = {
        (gap["drive"], gap["operation"], gap["bs_bytes"], *(gap[name.removeprefix("set_")] for name in by))
        for gap in gaps(experiment)
    }
    assert len(gaps(experiment)) == len(keys) == len(cells) / 2


def test_an_experiment_that_was_not_run_has_no_gaps() -> None:
    some = only("c400", *REFUSERS)
    found = access_gap.numbers(some, some.summary("initial"), some.ratios("initial"), LIMIT)
    assert found["gaps"] == {"block-size": [], "concurrency": [], "read-ahead": []}


def test_each_setting_that_was_not_taken_is_left_out_once() -> None:
    keys = ("drive", "setting", "wanted", "outcome")
    found = [tuple(step[key] for key in keys) for step in numbers()["facts"]["left_out"]]
    assert found == [
        ("mz7km240", "DRA", 1, "not changeable"),
        ("ssdsc2bb300g4", "DRA", 1, "ignored"),
        ("ssdsc2kg480g7", "DRA", 1, "ignored"),
    ]


def test_numbers_of_drives_hold_every_initial_cell() -> None:
    found = {drive["name"]: drive["cells"] for drive in numbers()["drives"]}
    expected = mean_of("initial", drive="c400", rw="randwrite", bs_bytes=28672)
    assert {name: len(cells) for name, cells in found.items()} == {"px02ssf020": 8, "px05smb040": 8, "c400": 8}
    assert found["c400"]["randwrite_28k"]["bandwidth_mean_mb_per_s"] == pytest.approx(expected)


def test_a_drive_s_write_gap_is_its_largest_difference_of_writes() -> None:
    found = {drive["name"]: drive["write_gap"] for drive in numbers()["drives"]}
    differences = {
        size: mean_of("initial", drive="c400", rw="write", bs_bytes=size)
        - mean_of("initial", drive="c400", rw="randwrite", bs_bytes=size)
        for size in (4096, 28672)
    }
    assert found["c400"]["difference_mb_per_s"] == pytest.approx(max(differences.values()))


def test_a_write_gap_holds_where_it_is_within_the_published_limit() -> None:
    gaps_of_writes = [drive["write_gap"] for drive in numbers()["drives"]]
    assert all(gap["holds"] == (gap["difference_mb_per_s"] <= 30) for gap in gaps_of_writes)


def test_the_published_write_gap_is_that_of_the_source_s_own_values() -> None:
    # PX05SMB040 at 28 KiB: 496 − 470; the other drives' differences are smaller
    gap = numbers()["published"]["write_gap"]
    assert gap == {"drive": "PX05SMB040", "block_size": "28 KiB", "difference_mb_per_s": 26, "holds": True}


def test_the_published_ratios_of_reads_are_those_of_the_source_s_own_values() -> None:
    found = numbers()["published"]
    assert [found["read_ratio_smallest"], found["read_ratio_largest"]] == pytest.approx([40.1 / 136, 148 / 172])


def test_numbers_count_the_executions_of_a_cell() -> None:
    found = numbers()["facts"]["executions"]
    assert (found["per_cell_smallest"], found["per_cell_largest"]) == (10, 10)


def test_the_largest_variation_is_that_of_the_most_varied_cell() -> None:
    values = RAW.groupby(["drive", "cell"])["mb"]
    expected = 100 * (values.std() / values.mean()).max()
    assert numbers()["facts"]["executions"]["cv_largest_percent"] == pytest.approx(expected)


@pytest.mark.parametrize(("method", "name"), [("t", "Student’s t"), ("bca", "BCa bootstrap")])
def test_numbers_name_the_method_of_the_intervals(method: str, name: str) -> None:
    some = replace(only("c400"), method=method)
    found = access_gap.numbers(some, some.summary("initial"), some.ratios("initial"), LIMIT)
    assert found["facts"]["interval"] == {"confidence_percent": 95, "method": name}


def test_numbers_can_be_written_as_json_and_read_again(tmp_path: Path) -> None:
    read = json.loads(write_numbers(numbers(), tmp_path / "numbers.json").read_text(encoding="utf-8"))
    assert read["gaps"]["read-ahead"][0]["random_to_sequential"] == pytest.approx(
        gaps("read-ahead")[0]["random_to_sequential"]
    )


# ---- Findings


def test_findings_have_a_line_for_each_ratio_and_each_setting_not_taken() -> None:
    ratios = study().ratios("initial")
    lines = access_gap.findings(study(), ratios)
    assert len(lines) == len(ratios) + 3
    assert lines[-1] == "- ssdsc2kg480g7, DRA=1: ignored, accepted, but DRA still reads back as 0"


def test_a_finding_tells_apart_only_what_the_interval_tells_apart() -> None:
    ratio = {"drive": "d", "operation": "read", "bs_bytes": 4096, "ratio": 0.9, "low": 0.7, "high": 1.1}
    other = {**ratio, "operation": "write", "high": 0.95}
    lines = access_gap.findings(replace(study(), steps=[]), pd.DataFrame([ratio, other]))
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["not told apart", "slower"]


def test_twins_raise_no_doubts() -> None:
    assert study().doubts() == []


def test_doubts_about_a_real_drive_are_counted_by_cell() -> None:
    executions = study().executions
    rows = executions[executions["drive"] == "c400"].assign(drive="mydisk", drive_kind="file")
    rising = rows["cell"] == rows["cell"].iloc[0]
    rows.loc[rising, "bandwidth_mb_per_s"] *= 1 + 0.1 * rows.loc[rising, "execution"].astype(float)
    (found,) = [each for each in replace(study(), executions=rows).doubts() if each["doubt"] == "not in a steady state"]
    assert found == {"drive": "mydisk", "doubt": "not in a steady state", "cells": 1, "of": 8}
