"""The terminal output of a run: reasons, progress, failures, and the command that continues."""

import os
import re
import shlex
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
# Output of Snakemake's own logger
SNAKEMAKES_OWN = re.compile(
    r"Building DAG|Job stats|jobid|Select jobs|Exiting because|RuleException|CalledProcessError|Error in rule|"
    r"Shutting down|Complete log|Elapsed time|Reason:|keep-incomplete|set -euo"
)


@pytest.fixture(scope="module")
def done(module_disk_folder: Path) -> tuple[Project, str]:
    """Return a run on a simulated drive, and its output."""
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
    """Return the lines of a dry run without the line about the profile."""
    done = project.snakemake("-n", *words)
    assert done.returncode == 0, done.stdout
    assert not SNAKEMAKES_OWN.search(done.stdout)
    return [line for line in done.stdout.splitlines() if not line.startswith("Using workflow specific profile")]


def experiments(project: Project, **of_initial: object) -> None:
    content = yaml.safe_load((project.root / STUDY).read_text())
    content["experiments"]["initial"] |= of_initial
    project.edit(STUDY, **content)


def test_a_run_prints_a_line_for_each_study_and_step(done: tuple[Project, str]) -> None:
    assert not SNAKEMAKES_OWN.search(done[1])
    assert "\ntiny is measured - 16 of 16 repetitions done\n" in done[1]
    assert done[1].count("Collecting the raw files of tiny") == 1
    assert "randread-4k" not in done[1].split("tiny is measured")[1]


def test_a_run_on_a_terminal_shows_a_bar_and_removes_it(copy: Project) -> None:
    copy.edit("config/config.yaml", repetitions=3)
    said = subprocess.run(
        ["script", "--quiet", "--return", "--command", shlex.join([*SNAKEMAKE, "collect_tiny"]), "/dev/null"],
        cwd=copy.root,
        env={**os.environ, "TERM": "xterm"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "tiny: 8 cells with repetitions to add" in said
    assert re.search(r"Measuring .*\d/8.* repetitions, left: ", said)
    assert "tiny is measured" not in said
    assert said.rindex("\x1b[2K") < said.index("Collecting the raw files of tiny")


def test_the_log_of_a_job_has_a_line_for_each_cell(done: tuple[Project, str]) -> None:
    (log,) = (done[0].root / "results/logs/measure/c400").glob("*.log")
    assert log.read_text().count("2 repetitions in ") == 8


def test_the_dry_run_of_the_committed_configuration_fits_a_screen(disk_folder: Path) -> None:
    project = copy_project(disk_folder / "whole")
    shutil.rmtree(project.root / "config")
    shutil.copytree(ROOT / "config", project.root / "config")
    lines = dry(project)
    assert len(lines) <= SCREEN[0]
    assert max(map(len, lines)) <= SCREEN[1]
    studies = yaml.safe_load((ROOT / "config/config.yaml").read_text())["studies"]
    assert sum(line.endswith(" cells new (the complete study)") for line in lines) == len(studies)


def test_new_cells_are_described_by_their_new_levels(copy: Project) -> None:
    experiments(copy, vary={"rw": ["read", "randread", "write"], "bs": ["4k", "28k", "12k", "1m", "20k"]})
    lines = dry(copy)
    assert "tiny: 9 cells new: bs=12k,1m,20k" in lines
    assert not [line for line in lines if "Measuring" in line]
    assert any("Typesetting results/report.pdf" in line for line in lines)


def test_studies_with_their_own_repetitions_are_listed(copy: Project) -> None:
    copy.edit(STUDY, **(yaml.safe_load((copy.root / STUDY).read_text()) | {"repetitions": 3}))
    lines = dry(copy)
    assert "tiny: 8 cells with repetitions to add" in lines
    assert "Repetitions of a cell: 2; set by the study's file: tiny 3" in lines


def test_a_step_that_runs_again_names_the_newer_input(copy: Project) -> None:
    os.utime(copy.root / "src/iopatterns/analysis/collect.py")
    path = copy.root / "src/iopatterns/analysis/collect.py"
    path.write_text(path.read_text() + "\n# another line\n")
    lines = dry(copy, "collect_tiny")
    assert lines == [
        "To do: 1 step:",
        "  Collecting the raw files of tiny into one table (newer: src/iopatterns/analysis/collect.py)",
    ]


def test_snakemake_plan_needs_no_number_of_cores(copy: Project) -> None:
    copy.edit("config/config.yaml", repetitions=3)
    command = [sys.executable, "-m", "snakemake", "plan"]
    done = subprocess.run(command, cwd=copy.root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "c400: 8 repetitions, about" in done.stdout


def test_a_failed_cell_is_reported_with_its_error_and_the_command_that_continues(project: Project) -> None:
    experiments(project, vary={"rw": ["randread"], "bs": ["4k"], "random_distribution": ["odd"]})
    failed = project.snakemake("collect_tiny")
    assert failed.returncode == 1
    assert "random_distribution" in failed.stdout
    assert not SNAKEMAKES_OWN.search(failed.stdout)
    *_, what, ending = failed.stdout.strip().splitlines()
    assert what.startswith("Failed: Measuring tiny on scratch: randread-4k-j1-odd-")
    assert "results/logs/measure/scratch/measure_tiny_1.log" in what
    assert ending == (
        "Finished measurements are kept: 0 of 2 repetitions done. To continue: snakemake --cores 1 collect_tiny"
    )


def test_a_failed_analysis_is_reported_with_its_error_and_the_calling_script(
    copy: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IOPATTERNS_COMMAND", "./reproduce.sh quick")
    raw = next((copy.root / "data/raw").rglob("01.json"))
    raw.write_bytes(raw.read_bytes() + b" ")
    (copy.root / "results/measurements/tiny.parquet").unlink()
    failed = copy.snakemake("collect_tiny")
    assert failed.returncode == 1
    assert not SNAKEMAKES_OWN.search(failed.stdout)
    assert "changed since it was measured" in failed.stdout
    assert "\nFailed: Collecting the raw files of tiny into one table.\n" in failed.stdout
    assert failed.stdout.strip().endswith("To continue: ./reproduce.sh quick")


def test_after_ctrl_c_the_kept_repetitions_and_the_continuing_command_are_printed(project: Project) -> None:
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
    assert re.search(r"Finished measurements are kept: \d+ of 480 repetitions done\. To continue: snakemake", said)


def test_verbose_prints_snakemakes_own_messages(copy: Project) -> None:
    said = copy.snakemake("-n", "--verbose", "--forcerun", "collect_tiny")
    assert "Building DAG of jobs" in said.stdout
