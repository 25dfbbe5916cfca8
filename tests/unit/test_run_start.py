"""The start of a run: its lock and its first messages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import copy_project

from iopatterns.measuring import health, progress
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.workflow import run_start
from iopatterns.workflow.planned_cells import load_cells


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the variables that the start of a run sets for its jobs."""
    for variable in ("PATH", progress.PROGRESS_VARIABLE):
        monkeypatch.setenv(variable, os.environ.get(variable, ""))


@pytest.mark.parametrize(
    ("drive", "program", "times"), [("scratch", "smartctl", 0), ("scratch", None, 1), ("c400", None, 0)]
)
def test_a_missing_health_program_is_reported_once_for_real_drives(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    *,
    drive: str,
    program: str | None,
    times: int,
) -> None:
    monkeypatch.setattr(health, "health_program", lambda: program)
    run_start.begin_run(load_cells(copy_project(tmp_path / drive).root, {"drives": [drive]}))
    output = "".join(capfd.readouterr())
    assert output.startswith(f"To measure: 16 repetitions on {drive}, about ")
    assert output.count("apt-get install smartmontools") == times


def test_many_drives_are_counted_and_not_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    project = copy_project(tmp_path / "project")
    names = [f"drive{number}" for number in range(6)]
    project.edit("config/drives.yaml", **{name: {"kind": "twin", "model": "c400"} for name in names})
    run_start.begin_run(load_cells(project.root, {"drives": names}))
    assert "To measure: 96 repetitions on 6 drives, about " in capfd.readouterr().err


def test_a_second_run_is_refused_until_the_process_of_the_first_has_ended(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    folder = project.root / RAW_FOLDER
    code = (
        "import sys; from pathlib import Path; from iopatterns.workflow import run_start;"
        " run_start.lock_raw_folder(Path(sys.argv[1])); print('locked', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(run_start.RunLockError, match=f"Process {first.pid} is running this workflow already"):
            run_start.begin_run(load_cells(project.root, {"drives": ["c400"]}))
        first.kill()
    run_start.begin_run(load_cells(project.root, {"drives": ["c400"]}))
    assert (folder / ".run.lock").read_text() == str(os.getpid())
