"""Modules of the user that have the name of a module of Python or of a library."""

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import nbformat
import pytest
from support import Project, copy_project
from twins import TWIN

from iopatterns.workflow.notebooks import execute_notebook

TRAPS = ("json.py", "pandas.py", "statistics.py")


def set_traps(folder: Path) -> Path:
    """Write modules that create the file ``sprung`` when they are imported; return this file."""
    folder.mkdir(exist_ok=True)
    sprung = folder / "sprung"
    for name in TRAPS:
        (folder / name).write_text(f"open({os.fspath(sprung)!r}, 'a').write('{name} ')\n")
    return sprung


COMMANDS = {
    "iopatterns": ("-m", "iopatterns", "study", "list"),
    "script of iopatterns": (str(Path(sys.executable).with_name("iopatterns")), "study", "list"),
    "twin": ("-m", "iopatterns.twin", "list"),
    "twin run": ("-m", "iopatterns.twin", "run", "px05smb040", "--", "true"),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("place", ["working directory", "PYTHONPATH"])
def test_commands_do_not_import_modules_of_the_user(command: str, place: str, tmp_path: Path) -> None:
    sprung = set_traps(tmp_path)
    environment = {**os.environ, "HOME": os.fspath(tmp_path)}
    if place == "PYTHONPATH":
        environment["PYTHONPATH"] = os.fspath(tmp_path)
    folder = tmp_path if place == "working directory" else Path.cwd()
    subprocess.run([sys.executable, *COMMANDS[command]], cwd=folder, env=environment, check=True, timeout=300)
    assert not sprung.exists()


def test_the_program_on_a_twin_has_the_search_path_of_the_user(tmp_path: Path) -> None:
    sprung = set_traps(tmp_path)
    words = [
        *TWIN,
        "run",
        "px05smb040",
        "--state",
        str(tmp_path / "state"),
        "--",
        sys.executable,
        "-c",
        "import statistics",
    ]
    subprocess.run(words, env={**os.environ, "PYTHONPATH": os.fspath(tmp_path)}, check=True, timeout=300)
    assert sprung.read_text() == "statistics.py "


def test_a_notebook_does_not_import_modules_of_the_project(tmp_path: Path) -> None:
    sprung = set_traps(tmp_path)
    (tmp_path / "Snakefile").touch()
    parameters = nbformat.v4.new_code_cell("level: float = 0.5", metadata={"tags": ["parameters"]})
    book = nbformat.v4.new_notebook(cells=[parameters, nbformat.v4.new_code_cell("import json, pandas, statistics")])
    nbformat.write(book, tmp_path / "a.ipynb")
    execute_notebook(tmp_path / "a.ipynb", tmp_path / "executed.ipynb")
    assert not sprung.exists()


@pytest.mark.slow
def test_the_workflow_does_not_import_modules_of_the_project(disk_folder: Path) -> None:
    project: Project = copy_project(disk_folder / "project", without=("data/traces", "data/workloads"))
    sprung = set_traps(project.root)
    snakemake = [str(Path(sys.executable).with_name("snakemake")), "--cores", "1", "results/numbers/tiny.json"]
    subprocess.run(snakemake, cwd=project.root, check=True, timeout=600)
    assert not sprung.exists()


def test_a_module_that_snakemake_has_imported_from_the_user_is_refused(disk_folder: Path) -> None:
    project: Project = copy_project(disk_folder / "project", without=("data/traces", "data/workloads"))
    # a copy of Python's module, so that Snakemake starts
    module = Path(shutil.copy(textwrap.__file__, project.root))
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "-n"], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"{module} was imported in place of Python's module 'textwrap'" in done.stderr
    assert "Traceback" not in done.stderr
