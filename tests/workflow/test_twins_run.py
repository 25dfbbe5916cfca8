"""Runs on simulated drives: the same bytes on a loaded machine, compared by a manifest."""

import shutil
from pathlib import Path

import pytest
from support import Project, busy_processors, copy_project

TWINS = {"drives": ["c400", "mine"], "file_size": "64 MiB", "runtime": "50 ms"}


def results_of(project: Project) -> dict[str, bytes]:
    """Return the raw files and results that every run must reproduce, by path."""
    results = project.root / "results"
    folders = ("measurements", "tables", "figures", "numbers")
    files = [path for folder in folders for path in sorted((results / folder).rglob("*.*"))]
    derived = {str(path.relative_to(results)): path.read_bytes() for path in [*files, results / "report.pdf"]}
    return {**project.raw_files(), **derived}


def on_twins(root: Path) -> Project:
    """Return a copy of the project with two simulated drives, one of them with a name of the user."""
    project = copy_project(root)
    project.edit("config/config.yaml", **TWINS)
    project.edit("config/drives.yaml", mine={"kind": "twin", "model": "ssdsc2kg480g7"})
    return project


@pytest.fixture(scope="module")
def idle(module_disk_folder: Path) -> Project:
    """Return a tiny run on simulated drives."""
    project = on_twins(module_disk_folder / "idle")
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project


def test_a_run_on_a_loaded_machine_gives_the_same_bytes(idle: Project, disk_folder: Path) -> None:
    project = on_twins(disk_folder / "loaded")
    with busy_processors():
        done = project.snakemake("--cores", "2")
    assert done.returncode == 0, done.stdout
    expected, found = results_of(idle), results_of(project)
    assert len(idle.raw_files()) == 32
    assert found.keys() == expected.keys()
    assert [name for name in expected if found[name] != expected[name]] == []


def test_no_temporary_files_are_left(idle: Project) -> None:
    assert not list((idle.root / "data/raw/.twins").glob("*"))
    assert not (idle.root / "data/scratch").exists()


def test_the_manifest_of_the_same_run_agrees_and_of_another_run_names_the_files(
    idle: Project, disk_folder: Path
) -> None:
    written = idle.iopatterns("manifest", "--write")
    assert written.returncode == 0, written.stdout
    same = idle.iopatterns("manifest")
    assert same.returncode == 0
    assert "byte for byte" in same.stdout
    other = Project(disk_folder / "other")
    shutil.copytree(idle.root, other.root)
    table = other.root / "results/tables/tiny/reads.csv"
    table.write_text(table.read_text() + "added\n")
    differs = other.iopatterns("manifest")
    assert differs.returncode == 1
    assert "results/tables/tiny/reads.csv" in differs.stdout
    other.edit("config/config.yaml", seed=1)
    not_compared = other.iopatterns("manifest")
    assert not_compared.returncode == 0
    assert "the configuration is not the one" in not_compared.stdout


def test_a_changed_model_measures_its_cells_again(idle: Project, disk_folder: Path) -> None:
    project = Project(disk_folder / "changed")
    shutil.copytree(idle.root, project.root)
    model = project.root / "data/twins/own.yaml"
    text = (project.root / "data/twins/ssdsc2kg480g7.yaml").read_text()
    model.write_text(text.replace("page_time: {value: 100 ns", "page_time: {value: 200 ns"))
    project.edit("config/drives.yaml", mine={"kind": "twin", "model": "data/twins/own.yaml"})
    dry = project.snakemake("-n")
    assert dry.returncode == 0, dry.stdout
    assert dry.stdout.count("Measuring tiny on mine: ") == 8
    assert "Measuring tiny on c400" not in dry.stdout


def test_an_unknown_model_is_refused_with_the_nearest_name(project: Project) -> None:
    project.edit("config/drives.yaml", mine={"kind": "twin", "model": "c40"})
    project.edit("config/config.yaml", drives=["mine"])
    wrong = project.snakemake("-n")
    assert wrong.returncode == 2
    assert "no such model. Did you mean 'c400'?" in wrong.stdout
    assert "Traceback" not in wrong.stdout
