"""The report of kapoor on some of its drives."""

from pathlib import Path

import pytest
from reports import text_of_one_drive

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("drive", ["kapoor-128m", "kapoor-1g"])
def test_a_run_on_one_drive_has_a_report(tmp_path: Path, drive: str) -> None:
    assert drive in text_of_one_drive(tmp_path / "project", "kapoor", drive)
