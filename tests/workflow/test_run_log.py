"""What a run says on the terminal: reasons that fit a screen, a line a batch, and how it goes on after it was ended."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from patience import wait_for
from support import ROOT, SNAKEMAKE, WITH_DEFAULT_SIGINT, Project, copy_project

STUDY = "config/studies/tiny.yaml"
SCREEN = (24, 200)  # lines, and characters of each
TWIN = {"drives": ["c400"], "runtime": "20 ms", "file_size": "64 MiB"}
# What only Snakemake would say
SNAKEMAKES_OWN = re.compile(
    r"Building DAG|Job stats|jobid|Select jobs|Exiting because|RuleException|CalledProcessError|Error in rule|"
    r"Shutting down|Complete log|Elapsed time|Reason:|keep-incomplete|set -euo"
)


@pytest.fixture(scope="module")
def done(module_disk_folder: Path) -> tuple[Project, str]:
    """A run on a twin, and what it said."""
    project = copy_project(module_disk_folder / "project")
    project.edit("config/config.yaml", **TWIN)
    ran = project.snakemake("collect_tiny")
    assert ran.returncode == 0, ran.stdout
    return project, ran.stdout


@pytest.fixture
def copy(done: tuple[Project, str], disk_folder: Path) -> Project:
    project = Project(disk_folder / "copy")
    shutil.copytree(done[0].root, project.root)
    return project


def dry(project: Project, *words: str) -> list[str]:
    """Return the lines of a dry run, that about the profile left out."""
    said = project.snakemake("-n", *words)
    assert said.returncode == 0, said.stdout
    assert not SNAKEMAKES_OWN.search(said.stdout)
    return [line for line in said.stdout.splitlines() if not line.startswith("Using workflow specific profile")]


def experiments(project: Project, **of_initial: object) -> None:
    content = yaml.safe_load((project.root / STUDY).read_text())
    content["experiments"]["initial"] |= of_initial
    project.edit(STUDY, **content)


def test_a_run_says_a_line_for_each_batch_and_step(done: tuple[Project, str]) -> None:
    assert not SNAKEMAKES_OWN.search(done[1])
    assert re.search(r"^tiny on c400: 8 cells in \d+ s - 16 of 16 repetitions done$", done[1], re.MULTILINE)
    assert done[1].count("Collecting the raw files of tiny") == 1
    assert "randread-4k" not in done[1].split("tiny on c400")[1]


def test_what_a_job_tells_of_each_cell_is_in_its_log(done: tuple[Project, str]) -> None:
    (log,) = (done[0].root / "results/logs/measure/c400").glob("*.log")
    assert log.read_text().count("2 repetitions in ") == 8


def test_the_dry_run_of_the_whole_fits_a_screen(disk_folder: Path) -> None:
    project = copy_project(disk_folder / "whole")
    shutil.rmtree(project.root / "config")
    shutil.copytree(ROOT / "config", project.root / "config")
    lines = dry(project)
    assert len(lines) <= SCREEN[0]
    assert max(map(len, lines)) <= SCREEN[1]
    studies = yaml.safe_load((ROOT / "config/config.yaml").read_text())["studies"]
    assert sum(line.endswith(" cells new, all that there are") for line in lines) == len(studies)


def test_new_cells_are_told_by_the_levels_that_are_new(copy: Project) -> None:
    experiments(copy, vary={"rw": ["read", "randread", "write"], "bs": ["4k", "28k", "12k", "1m", "20k"]})
    lines = dry(copy)
    assert "tiny: 9 cells new: bs=12k,1m,20k" in lines
    assert not [line for line in lines if "Measuring" in line]
    assert any("Typesetting results/report.pdf" in line for line in lines)


def test_changed_cells_are_told_by_what_has_changed(copy: Project) -> None:
    copy.edit("config/config.yaml", seed=2, file_size="32 MiB")
    assert "tiny: 8 cells changed: seed, file_size" in dry(copy)


def test_cells_that_lack_executions_are_told(copy: Project) -> None:
    copy.edit("config/config.yaml", repetitions=3)
    assert "tiny: 8 cells with repetitions to add" in dry(copy)


def test_studies_that_set_their_repetitions_are_listed(copy: Project) -> None:
    copy.edit(STUDY, **(yaml.safe_load((copy.root / STUDY).read_text()) | {"repetitions": 3}))
    lines = dry(copy)
    assert "tiny: 8 cells with repetitions to add" in lines
    assert "Repetitions of a cell: 2; set by the study's file: tiny 3" in lines


def test_a_step_that_runs_by_itself_says_what_it_is_newer_than(copy: Project) -> None:
    os.utime(copy.root / "src/iopatterns/analysis/collect.py")
    path = copy.root / "src/iopatterns/analysis/collect.py"
    path.write_text(path.read_text() + "\n# another line\n")
    lines = dry(copy, "collect_tiny")
    assert lines == [
        "To do: 1 step:",
        "  Collecting the raw files of tiny into one table (newer: src/iopatterns/analysis/collect.py)",
    ]


def test_the_plan_needs_no_number_of_cores(copy: Project) -> None:
    copy.edit("config/config.yaml", repetitions=3)
    said = subprocess.run(
        [sys.executable, "-m", "snakemake", "plan"], cwd=copy.root, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "c400: 8 repetitions, about" in said.stdout


def test_a_cell_that_fails_says_its_own_words_and_how_to_go_on(project: Project) -> None:
    experiments(project, vary={"rw": ["randread"], "bs": ["4k"], "random_distribution": ["odd"]})
    failed = project.snakemake("collect_tiny")
    assert failed.returncode == 1
    assert "random_distribution" in failed.stdout
    assert not SNAKEMAKES_OWN.search(failed.stdout)
    *_, what, ending = failed.stdout.strip().splitlines()
    assert what.startswith("Failed: Measuring tiny on scratch: randread-4k-j1-odd-")
    assert "results/logs/measure/scratch/measure_tiny_1.log" in what
    assert ending == (
        "What is finished is kept: 0 of 2 repetitions done. This goes on from there: snakemake --cores 1 collect_tiny"
    )


def test_a_script_that_calls_snakemake_is_what_goes_on(copy: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("IOPATTERNS_COMMAND", "./reproduce.sh quick")
    raw = next((copy.root / "data/raw").rglob("01.json"))
    raw.write_bytes(raw.read_bytes() + b" ")
    failed = copy.snakemake("--forcerun", "collect_tiny", "--", "collect_tiny")
    assert failed.returncode == 1
    assert failed.stdout.strip().endswith("This goes on from there: ./reproduce.sh quick")


def test_an_analysis_that_fails_says_its_own_words_alone(copy: Project) -> None:
    raw = next((copy.root / "data/raw").rglob("01.json"))
    raw.write_bytes(raw.read_bytes() + b" ")
    (copy.root / "results/measurements/tiny.parquet").unlink()
    failed = copy.snakemake("collect_tiny")
    assert failed.returncode == 1
    assert not SNAKEMAKES_OWN.search(failed.stdout)
    assert "changed since it was measured" in failed.stdout
    assert "\nFailed: Collecting the raw files of tiny into one table.\n" in failed.stdout


def test_ctrl_c_says_what_is_kept_and_the_command_that_goes_on(project: Project) -> None:
    project.edit("config/config.yaml", runtime="300 ms", repetitions=60)
    run = subprocess.Popen(
        [*WITH_DEFAULT_SIGINT, *SNAKEMAKE, "collect_tiny"],
        cwd=project.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
    )
    wait_for(project.raw_files, 60, otherwise="nothing was measured")
    os.killpg(run.pid, signal.SIGINT)
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 1
    assert not SNAKEMAKES_OWN.search(said)
    assert "Traceback" not in said
    assert said.strip().splitlines()[-2] == "Stopped."
    assert re.search(
        r"What is finished is kept: \d+ of 480 repetitions done\. This goes on from there: snakemake", said
    )


def test_snakemake_speaks_for_itself_where_it_is_asked_to(copy: Project) -> None:
    said = copy.snakemake("-n", "--verbose", "--forcerun", "collect_tiny")
    assert "Building DAG of jobs" in said.stdout
