"""The progress of a run, recorded in a file and printed."""

import re
import time
from pathlib import Path

import pytest

from iopatterns.measuring import progress


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.PROGRESS_VARIABLE, "")


def test_without_a_run_there_is_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.PROGRESS_VARIABLE)
    progress.count_repetition()
    assert progress.progress_text() == ""


@pytest.mark.parametrize(
    ("total", "text"), [(4, r" - 1 of 4 repetitions done, about \d+ s left"), (1, " - 1 of 1 repetitions done")]
)
def test_progress_has_the_finished_repetitions_and_an_estimate(total: int, text: str, tmp_path: Path) -> None:
    for _ in range(2):  # a new run starts from zero
        progress.begin_count(tmp_path / "progress", total)
        progress.count_repetition()
    assert re.fullmatch(text, progress.progress_text())


def test_times_of_jobs_are_added_by_part(tmp_path: Path) -> None:
    path = tmp_path / "progress"
    started = time.time()
    progress.begin_count(path, 2)
    progress.record_job_time("measuring")
    progress.count_repetition()
    progress.record_job_time("analysis")
    progress.record_job_time("measuring")
    assert " - 1 of 2 repetitions done" in progress.progress_text()
    found = progress.seconds_by_part(path, started)
    assert list(found) == ["measuring", "analysis"]
    # each time is the age of this process
    assert found["measuring"] == pytest.approx(2 * found["analysis"], rel=0.5)
    assert progress.seconds_by_part(path, time.time() + 1) == {}


def test_without_jobs_there_are_no_parts(tmp_path: Path) -> None:
    assert progress.seconds_by_part(tmp_path / "none", 0) == {}
    progress.begin_count(tmp_path / "progress", 1)
    assert progress.seconds_by_part(tmp_path / "progress", 0) == {}
