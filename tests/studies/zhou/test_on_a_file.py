"""The study zhou on a real file."""

from pathlib import Path

import pytest
import yaml
from on_a_file import check_on_a_file
from support import ROOT


@pytest.mark.slow
def test_the_study_runs_on_a_real_file(tmp_path: Path) -> None:
    experiments = yaml.safe_load((ROOT / "config/studies/zhou.yaml").read_text())["experiments"]
    # shortened: the measurements are not used
    experiments["locality"]["vary"]["size"] = ["1m", "4m"]
    experiments["pause"]["vary"]["thinktime"] = ["10 ms"]
    experiments["rewritten"]["fio"]["size"] = "4m"
    experiments["bursts"]["fio"]["thinktime"] = "5 ms"
    check_on_a_file(tmp_path / "project", "zhou", experiments, has_general_claims=False)
