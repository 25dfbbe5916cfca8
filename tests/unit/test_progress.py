"""The progress of a run, as its measuring commands see it."""

import re
from pathlib import Path

import pytest

from iopatterns.measuring import progress


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(progress.VARIABLE, "")


def test_cell_measured_by_hand_has_no_outlook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(progress.VARIABLE)
    progress.advance()
    assert progress.outlook() == ""


def test_outlook_counts_what_is_done_and_estimates_what_is_left(tmp_path: Path) -> None:
    progress.begin(tmp_path / "progress", executions=4)
    progress.advance()
    assert re.fullmatch(r" - 1 of 4 executions done, about \d+ s left", progress.outlook())


def test_last_execution_leaves_nothing(tmp_path: Path) -> None:
    progress.begin(tmp_path / "progress", executions=1)
    progress.advance()
    assert progress.outlook() == " - 1 of 1 executions done"


def test_new_run_starts_from_nothing(tmp_path: Path) -> None:
    progress.begin(tmp_path / "progress", executions=1)
    progress.advance()
    progress.begin(tmp_path / "progress", executions=3)
    progress.advance()
    assert " - 1 of 3 executions done" in progress.outlook()
