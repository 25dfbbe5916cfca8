"""The report of park2009 on some of its drives."""

from pathlib import Path

import pytest
from reports import text_of_one_drive

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("drive", ["x25-m-used", "caviar-se"])
def test_a_run_on_one_drive_has_a_report(tmp_path: Path, drive: str) -> None:
    assert drive in text_of_one_drive(tmp_path / "project", "park2009", drive)
