"""A checkout at a path of odd characters works, or one line says why it cannot before anything runs."""

from pathlib import Path

import pytest
from support import Project, copy_project

from iopatterns.base import yaml_schema
from iopatterns.workflow.notebooks import execute
from iopatterns.workflow.plan import Plan
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
def test_a_path_that_snakemake_cannot_use_is_told_in_one_line(
    disk_folder: Path, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = copy_project(disk_folder / name).root
    monkeypatch.chdir(root)
    with pytest.raises(SystemExit) as ended:
        Plan.or_exit(root)
    assert ended.value.code == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert "Move or rename the folder" in said[0]


def test_snakemake_started_elsewhere_says_where_to_start_it(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        Plan.or_exit(project.root)
    assert "is the project's folder. Run Snakemake there." in capsys.readouterr().err


@pytest.mark.parametrize("name", ["semi;colon", "ha#sh"])
def test_a_path_that_fio_would_cut_is_refused_for_fio_would_write_another_file(disk_folder: Path, name: str) -> None:
    project = copy_project(disk_folder / name)
    with pytest.raises(yaml_schema.ConfigError, match="beginning of a comment, and would use another file"):
        Plan(project.root)
    project.edit("config/config.yaml", drives=["px05smb040"])  # a twin has no path
    assert Plan(project.root).raw_files("saif2020")
    (disk_folder / "plain").symlink_to(project.root)
    with pytest.raises(yaml_schema.ConfigError, match="beginning of a comment"):
        Plan(disk_folder / "plain", {"drives": ["scratch"]})


@pytest.mark.parametrize("name", ODD)
def test_a_report_is_set_in_an_odd_folder(tmp_path: Path, name: str) -> None:
    root = tmp_path / name
    (root / "paper").mkdir(parents=True)
    (root / "paper/report.typ").write_text('#read("/paper/report.typ").len()')
    assert compile_report(root / "paper/report.typ", root / "report.pdf").read_bytes().startswith(b"%PDF")


def test_a_notebook_is_executed_in_an_odd_folder(tmp_path: Path) -> None:
    root = tmp_path / "a {connection_file} %s $HOME: 'x'"
    root.mkdir()
    (root / "Snakefile").touch()
    (root / "a.ipynb").write_text(PROBE)
    assert execute(root / "a.ipynb", root / "executed.ipynb").is_file()


def test_cells_are_measured_and_analysed_in_an_odd_folder(disk_folder: Path) -> None:
    project = copy_project(disk_folder / 'it\'s a: "b", 100 %s $HOME `id` ü\\*[x]?')
    project.edit("config/config.yaml", repetitions=1, drives=["scratch", "px05smb040"])
    said = project.snakemake("results/measurements/saif2020.parquet")
    assert said.returncode == 0, said.stdout[-2000:]
    assert {path.split("/")[0] for path in project.raw_files()} == {"scratch", "px05smb040"}
