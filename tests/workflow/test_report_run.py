"""A complete run of a tiny configuration, from a fresh copy of the project to the PDF, and interrupted runs."""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from patience import wait, wait_for
from support import SNAKEMAKE, WITH_DEFAULT_SIGINT, Project, copy_project, pdf_text, processes_matching


@pytest.fixture(scope="module")
def built(module_disk_folder: Path) -> Project:
    project = copy_project(module_disk_folder / "project")
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project


def test_the_report_has_what_was_measured(built: Project) -> None:
    text = pdf_text(built.root / "results/report.pdf")
    colophon = json.loads((built.root / "results/colophon.json").read_text())
    assert colophon["executions"] == 16
    assert len(built.raw_files()) == 16
    assert colophon["fio_versions"][0] in text
    assert "scratch" in text


def test_every_declared_result_exists_and_is_not_empty(built: Project) -> None:
    results = built.root / "results"
    for name in ("reads", "writes"):
        for suffix in ("csv", "tex", "typ"):
            assert (results / f"tables/tiny/{name}.{suffix}").stat().st_size > 0
    assert (results / "figures/tiny/initial.svg").stat().st_size > 0
    assert (results / "notebooks/tiny.ipynb").stat().st_size > 0


def test_a_second_run_does_nothing(built: Project) -> None:
    assert "Nothing to be done" in built.snakemake().stdout


def test_the_same_raw_files_give_the_same_bytes(built: Project) -> None:
    def derived() -> dict[str, bytes]:
        folders = ("tables", "figures", "numbers", "measurements")
        files = [path for folder in folders for path in sorted((built.root / "results" / folder).rglob("*.*"))]
        return {str(path): path.read_bytes() for path in [*files, built.root / "results/report.pdf"]}

    before = derived()
    again = built.snakemake("--forcerun", "collect_tiny")
    assert again.returncode == 0, again.stdout
    assert derived() == before


def test_a_report_of_a_single_repetition_is_typeset(built: Project, module_disk_folder: Path) -> None:
    single = Project(module_disk_folder / "single")
    shutil.copytree(built.root, single.root, symlinks=True)
    done = single.snakemake("--config", "repetitions=1")
    assert done.returncode == 0, done.stdout
    assert json.loads((single.root / "results/colophon.json").read_text())["executions"] == 8
    facts = json.loads((single.root / "results/numbers/tiny.json").read_text())["facts"]
    assert facts["executions"]["cv_largest_percent"] is None


def test_the_summary_has_measurements_report_time_claims_and_next_step(built: Project) -> None:
    said = built.iopatterns("summary", "--since", "0")
    assert said.returncode == 0
    assert "Report:   results/report.pdf\nMeasured: 16 repetitions with fio-" in said.stdout
    assert re.search(r"^Time: .*\(shares of the jobs' time: .*\d+ %\)$", said.stdout, re.MULTILINE)
    assert re.search(r"^tiny +8 .*\ntiny, on scratch: \d of \d claims reproduced$", said.stdout, re.MULTILINE)
    assert "\nNext:     `iopatterns scorecard` prints every verdict." in said.stdout


def test_a_summary_without_results_prints_what_to_do(project: Project) -> None:
    said = project.iopatterns("summary")
    assert said.returncode == 1
    assert "Run `snakemake --cores 1`" in said.stdout


def test_a_changed_raw_file_is_reported_and_gives_no_table(project: Project) -> None:
    project.edit("config/studies/tiny.yaml", experiments={"one": {"vary": {"rw": ["read"], "bs": ["4k"]}}})
    assert project.snakemake("collect_tiny").returncode == 0
    raw = sorted((project.root / "data/raw").rglob("01.json"))[0]
    raw.write_bytes(raw.read_bytes().replace(b'"iops" : ', b'"iops" : 9'))
    (project.root / "results/measurements/tiny.parquet").unlink()
    failed = project.snakemake("collect_tiny")
    assert failed.returncode == 1
    assert f"{raw.relative_to(project.root)}: changed since it was measured" in failed.stdout
    assert not (project.root / "results/measurements/tiny.parquet").exists()


def start(project: Project) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [*WITH_DEFAULT_SIGINT, *SNAKEMAKE, "collect_tiny"],
        cwd=project.root,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def wait_for_first_raw_file(project: Project) -> None:
    wait_for(project.raw_files, 60, otherwise="nothing was measured")


def scratch_processes(project: Project) -> list[int]:
    """Return the processes of fio and of measuring commands in this project."""
    found = []
    for number in processes_matching("data/scratch/scratch.bin"):
        try:
            if Path(f"/proc/{number}/cwd").resolve() == project.root:
                found.append(number)
        except OSError:
            continue
    return found


@pytest.mark.parametrize("how", ["Ctrl-C", "SIGKILL"])
def test_an_interrupted_run_stops_at_once_and_continues_where_it_stopped(project: Project, how: str) -> None:
    project.edit("config/config.yaml", runtime="300 ms", repetitions=4)
    project.edit("config/studies/tiny.yaml", experiments={"one": {"vary": {"rw": ["read", "write"], "bs": ["4k"]}}})
    run = start(project)
    wait_for_first_raw_file(project)
    if how == "Ctrl-C":
        os.killpg(run.pid, signal.SIGINT)  # a terminal sends it to the whole foreground group
    else:
        run.kill()
    wait(run, 20)
    wait_for(lambda: not scratch_processes(project), 3, otherwise="fio still runs")
    before = project.raw_files()
    assert 1 <= len(before) < 8
    done = project.snakemake("collect_tiny")
    assert done.returncode == 0, done.stdout
    after = project.raw_files()
    assert len(after) == 8
    assert {name: after[name] for name in before} == before
    assert not list((project.root / "data/raw").rglob("*.partial"))


def test_a_failure_of_fio_is_reported_and_leaves_no_raw_file(project: Project) -> None:
    vary = {"rw": ["randread"], "bs": ["4k"], "random_distribution": ["odd"]}
    project.edit("config/studies/tiny.yaml", experiments={"one": {"vary": vary}})
    failed = project.snakemake("collect_tiny")
    assert failed.returncode == 1
    assert "random_distribution" in failed.stdout
    assert "odd" in failed.stdout
    assert "Traceback" not in failed.stdout
    assert project.raw_files() == {}


def test_a_second_run_in_the_same_folder_is_refused(project: Project) -> None:
    project.edit("config/config.yaml", runtime="500 ms", repetitions=3)
    run = start(project)
    try:
        wait_for_first_raw_file(project)
        second = project.snakemake("collect_tiny")
        assert second.returncode == 1
        assert f"Process {run.pid} is running this workflow already" in second.stdout
    finally:
        os.killpg(run.pid, signal.SIGINT)
        wait(run, 20)
