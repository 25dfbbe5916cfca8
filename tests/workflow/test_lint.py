"""`.ci/lint-workflow` makes all checks of `snakemake --lint` except for conda environments."""

import subprocess
from pathlib import Path

import pytest
from support import ROOT

RULE = 'rule copy:\n    output:\n        "copy",\n{log}    shell:\n        "touch {{output}}"\n'


@pytest.mark.parametrize(
    ("log", "status"),
    [pytest.param('    log:\n        "log",\n', 0, id="no conda environment"), pytest.param("", 1, id="no log")],
)
def test_lint_requires_a_log_but_no_conda_environment(tmp_path: Path, log: str, status: int) -> None:
    (tmp_path / "Snakefile").write_text(RULE.format(log=log))
    done = subprocess.run([ROOT / ".ci/lint-workflow"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert ("No log directive" in done.stderr) == bool(status)
    assert "conda" not in done.stderr


def test_no_rule_names_a_conda_environment() -> None:
    rules = [ROOT / "Snakefile", *(ROOT / "workflow").rglob("*.smk")]
    assert len(rules) > 1
    assert not [path.name for path in rules if "conda:" in path.read_text(encoding="utf-8")]
