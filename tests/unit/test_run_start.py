"""The start of a run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import copy_project

from iopatterns.measuring import health, progress
from iopatterns.workflow import run_start
from iopatterns.workflow.planned_cells import RAW_FOLDER, load_cells


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore what the start of a run sets for its jobs."""
    for variable in ("PATH", progress.PROGRESS_VARIABLE):
        monkeypatch.setenv(variable, os.environ.get(variable, ""))


@pytest.mark.parametrize(("tool", "times"), [("smartctl", {"scratch": 0}), (None, {"scratch": 1, "c400": 0})])
def test_a_run_says_once_that_the_health_of_real_drives_is_not_recorded(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    tool: str | None,
    times: dict[str, int],
) -> None:
    monkeypatch.setattr(health, "tool", lambda: tool)
    for drive, expected in times.items():
        project = copy_project(tmp_path / drive)
        run_start.begin_run(load_cells(project.root, {"drives": [drive]}))
        assert "".join(capfd.readouterr()).count("apt-get install smartmontools") == expected


def test_a_second_run_is_refused_until_the_process_of_the_first_has_ended(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    folder = project.root / RAW_FOLDER
    code = "import sys; from pathlib import Path; from iopatterns.workflow import run_start"
    code += "; run_start.lock(Path(sys.argv[1])); print('locked', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(run_start.RunLockError, match=f"Process {first.pid} is running this workflow already"):
            run_start.begin_run(load_cells(project.root, {"drives": ["c400"]}))
        first.kill()
    run_start.begin_run(load_cells(project.root, {"drives": ["c400"]}))
    assert (folder / ".run.lock").read_text() == str(os.getpid())
