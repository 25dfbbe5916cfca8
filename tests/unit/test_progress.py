"""The progress of a run, as its measuring commands see it."""

import re
import time
from pathlib import Path

import pytest

from iopatterns.measuring import progress


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, "")


def test_cell_measured_by_hand_has_no_outlook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.PROGRESS_VARIABLE)
    progress.count_repetition()
    assert progress.progress_text() == ""


def test_outlook_counts_what_is_done_and_estimates_what_is_left(tmp_path: Path) -> None:
    progress.begin_count(tmp_path / "progress", executions=4)
    progress.count_repetition()
    assert re.fullmatch(r" - 1 of 4 repetitions done, about \d+ s left", progress.progress_text())


def test_last_execution_leaves_nothing(tmp_path: Path) -> None:
    progress.begin_count(tmp_path / "progress", executions=1)
    progress.count_repetition()
    assert progress.progress_text() == " - 1 of 1 repetitions done"


def test_new_run_starts_from_nothing(tmp_path: Path) -> None:
    progress.begin_count(tmp_path / "progress", executions=1)
    progress.count_repetition()
    progress.begin_count(tmp_path / "progress", executions=3)
    progress.count_repetition()
    assert " - 1 of 3 repetitions done" in progress.progress_text()


def test_what_jobs_took_is_summed_by_part_and_counts_as_no_execution(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    begun = time.time()
    progress.begin_count(path, executions=2)
    progress.record_job_time("measuring")
    progress.count_repetition()
    progress.record_job_time("analysis")
    progress.record_job_time("measuring")
    assert " - 1 of 2 repetitions done" in progress.progress_text()
    found = progress.seconds_by_part(path, begun)
    assert list(found) == ["measuring", "analysis"]
    # each is the age of this very process
    assert found["measuring"] == pytest.approx(2 * found["analysis"], rel=0.5)
    assert progress.seconds_by_part(path, time.time() + 1) == {}


def test_a_run_that_noted_nothing_has_no_parts(tmp_path: Path) -> None:
    assert progress.seconds_by_part(tmp_path / "none", 0) == {}
    progress.begin_count(tmp_path / "progress", executions=1)
    assert progress.seconds_by_part(tmp_path / "progress", 0) == {}
