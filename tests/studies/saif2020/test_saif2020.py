"""Facts about the numbers and findings that the report tells of RR-9319, on the recorded measurement."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import saif2020
from recorded import Recorded

from iopatterns.analysis.tables import write_numbers

pytestmark = pytest.mark.slow  # each recomputes a recorded study

LIMIT = "section3-write-gap"
SAIF2020 = Recorded("saif2020")
study, only, asks, mean_of = SAIF2020.study, SAIF2020.only, SAIF2020.asks, SAIF2020.mean_of
REFUSERS = ["mz7km240", "ssdsc2bb300g4", "ssdsc2kg480g7"]


@cache
def numbers() -> dict[str, Any]:
    return saif2020.numbers(study(), study().summary("initial"), study().ratios("initial"), LIMIT)


def test_numbers_have_the_keys_that_the_report_reads() -> None:
    assert set(numbers()) == {
        *("facts", "initial_block_sizes", "jobs", "margins_percent", "drives", "gaps", "published"),
    }
    assert set(numbers()["facts"]) == {
        *("experiments", "drives", "block_sizes", "left_out", "doubts", "steady", "executions", "interval"),
    }


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
    found = saif2020.numbers(some, some.summary("initial"), some.ratios("initial"), LIMIT)
    assert found["gaps"] == {"block-size": [], "concurrency": [], "read-ahead": []}


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


def test_numbers_can_be_written_as_json_and_read_again(tmp_path: Path) -> None:
    read = json.loads(write_numbers(numbers(), tmp_path / "numbers.json").read_text(encoding="utf-8"))
    assert read["gaps"]["read-ahead"][0]["random_to_sequential"] == pytest.approx(
        gaps("read-ahead")[0]["random_to_sequential"]
    )


def test_findings_have_a_line_for_each_ratio_and_each_setting_not_taken() -> None:
    ratios = study().ratios("initial")
    lines = saif2020.findings(study(), ratios)
    assert len(lines) == len(ratios) + 3
    assert lines[-1] == "- ssdsc2kg480g7, DRA=1: ignored, accepted, but DRA still reads back as 0"


def test_a_finding_tells_apart_only_what_the_interval_tells_apart() -> None:
    ratio = {"drive": "d", "operation": "read", "bs_bytes": 4096, "ratio": 0.9, "low": 0.7, "high": 1.1}
    other = {**ratio, "operation": "write", "high": 0.95}
    lines = saif2020.findings(replace(study(), steps=[]), pd.DataFrame([ratio, other]))
    assert [line.rsplit(": ", 1)[1] for line in lines] == ["not told apart", "slower"]


def test_a_value_that_a_twin_was_fitted_to_says_so() -> None:
    uses = study().values.set_index("id")["use"]
    assert uses["table2-px05smb040-read-4k"] == "fitted"
    assert uses["section4.2-read"] == "independent"
