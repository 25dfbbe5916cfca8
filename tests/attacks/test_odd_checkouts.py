"""Tests of checkouts at paths with unusual characters."""

import shutil
import subprocess
from pathlib import Path

import pytest
from support import Project, copy_project, file_cell
from twins import JOB

from iopatterns.base.yaml_schema import ConfigError
from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import cells
from iopatterns.twin import running, state
from iopatterns.twin.error import TwinError
from iopatterns.workflow import entry
from iopatterns.workflow.notebooks import execute_notebook
from iopatterns.workflow.report import compile_report

ODD = [
    "a b",
    "it's",
    'dou"ble',
    "co:lon",
    "com,ma",
    "per%cent %s",
    "dol$lar $HOME `id`",
    "ünï 日本",
    "back\\slash",
    "*[x]?",
]
PROBE = """{"cells": [{"cell_type": "code", "execution_count": null, "id": "a", "metadata": {"tags": ["parameters"]},
"outputs": [], "source": "level: float = 0.5"}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}"""


@pytest.mark.parametrize("name", ["a {braces} b", "new\nline"])
def test_a_path_that_snakemake_cannot_use_is_refused_with_one_line(
    disk_folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = disk_folder / name
    root.mkdir()
    monkeypatch.chdir(root)
    with pytest.raises(ConfigError, match=r"\A[^\n]*Move or rename the folder\.\Z"):
        entry.check_folder(root)


def test_snakemake_in_another_folder_names_the_right_folder(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"is the project's folder\. Run Snakemake there\."):
        entry.check_folder(project.root)


@pytest.mark.parametrize("name", ["semi;colon", "ha#sh", "blank behind "])
def test_a_file_at_a_path_that_fio_would_truncate_is_written(
    disk_folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = disk_folder / name
    folder.mkdir()
    monkeypatch.chdir(folder)
    cell = file_cell(folder)
    cell["fio"]["rw"] = "randwrite"
    assert (
        measure_cell(folder, cell, [Path(f"data/raw/test/study/x-{cells.specification_digest(cell)[:8]}/01.json")]) == 1
    )
    assert (folder / "drive.bin").stat().st_size > cell["drive"]["file_size_bytes"]
    assert [path.name for path in disk_folder.iterdir()] == [name]


@pytest.mark.parametrize("name", ODD)
def test_a_report_is_compiled_in_an_odd_folder(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    (root / "paper").mkdir(parents=True)
    (root / "paper/report.typ").write_text('#read("/paper/report.typ").len()')
    assert compile_report(root / "paper/report.typ", root / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_notebook_is_executed_in_an_odd_folder(tmp_path: Path) -> None:
    root = tmp_path / "a {connection_file} %s $HOME: 'x'"
    root.mkdir()
    (root / "Snakefile").touch()
    (root / "a.ipynb").write_text(PROBE)
    assert execute_notebook(root / "a.ipynb", root / "executed.ipynb").is_file()


def test_cells_are_measured_and_analysed_in_an_odd_folder(disk_folder: Path) -> None:
    project = copy_project(disk_folder / 'it\'s a: "b", 100 %s $HOME `id` ü\\*[x]?')
    project.edit("config/config.yaml", repetitions=1, drives=["scratch", "c400"])
    done = project.snakemake("results/measurements/tiny.parquet")
    assert done.returncode == 0, done.stdout[-2000:]
    assert {path.split("/")[0] for path in project.raw_files()} == {"scratch", "c400"}


def on_a_twin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], dict[str, str]]:
    """Return command and environment of a run of fio on a simulated drive.

    The preload library is copied to a folder.
    """
    folder.mkdir()
    copy = shutil.copy(state.preload_library(), folder)
    monkeypatch.setattr(state, "preload_library", lambda: str(copy))
    environment = running.prepare_environment("c400", str(folder / "state"))
    return running.command_on_drive(
        [*JOB, "--rw=randwrite", "--runtime=10ms", "--time_based=1"], environment
    ), environment


@pytest.mark.parametrize("name", ["a b", "two  blanks ", "it's", "ünï 日本", "tab\there"])
def test_a_preload_library_in_an_odd_folder_works(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    command, environment = on_a_twin(tmp_path / name, monkeypatch)
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "cannot be preloaded" not in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert not Path(environment["TWIN_DRIVE"]).exists()


@pytest.mark.parametrize("name", ["co:lon", "semi;colon"])
def test_a_library_that_the_loader_cannot_find_is_refused_before_fio_runs(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(TwinError, match=r"contains a colon or a semicolon\. Move"):
        on_a_twin(tmp_path / name, monkeypatch)
