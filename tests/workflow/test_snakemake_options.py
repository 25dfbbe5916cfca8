"""Options of Snakemake that have no meaning in this workflow."""

from pathlib import Path

import pytest
from support import Project, copy_project


@pytest.fixture(scope="module")
def project(module_disk_folder: Path) -> Project:
    return copy_project(module_disk_folder / "project")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--touch",), "--touch: there is no report"),
        (("-t",), "--touch: there is no report"),
        (("--containerize",), "--containerize: no rule has a Conda environment"),
        (("--containerize=apptainer",), "--containerize: no rule has a Conda environment"),
        (("--sdm", "conda"), "--software-deployment-method conda: all rules run in the Python environment"),
        (("--use-apptainer", "-n"), "--software-deployment-method apptainer: all rules run in the Python environment"),
    ],
)
def test_an_option_without_a_meaning_is_refused_in_one_line(
    words: tuple[str, ...], message: str, project: Project
) -> None:
    done = project.snakemake(*words)
    lines = [line for line in done.stdout.splitlines() if not line.startswith("Using workflow specific profile")]
    assert done.returncode == 2
    assert len(lines) == 1
    assert lines[0].startswith(message)
