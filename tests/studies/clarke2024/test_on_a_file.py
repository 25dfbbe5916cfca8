"""The study clarke2024 on a real file."""

from pathlib import Path

import pytest
from on_a_file import check_on_a_file


@pytest.mark.slow
def test_the_study_runs_on_a_real_file(tmp_path: Path) -> None:
    check_on_a_file(tmp_path / "project", "clarke2024")
