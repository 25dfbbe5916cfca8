"""`iopatterns bench`: measure a drive without a study, and make a study of it."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from measurements import rewrite_metadata
from support import Project, copy_project

import fio_parser_json
from iopatterns.measuring.cell import latency_log_path
from iopatterns.raw.metadata_files import read_metadata

LEVELS = ("--rw", "randread,randwrite", "--bs", "4k,64k", "--iodepth", "1,8", "--numjobs", "1,2")
LITTLE = ("--repetitions", "2", "--runtime", "20ms", "--file-size", "64MiB")


@pytest.fixture(scope="module")
def benched(module_disk_folder: Path) -> tuple[Project, str]:
    """Measure a twin in a project; return the project and what was printed."""
    project = copy_project(module_disk_folder / "project")
    result = project.iopatterns("bench", "--drive", "c400", *LEVELS, *LITTLE)
    assert result.returncode == 0, result.stdout
    return project, result.stdout


@pytest.fixture(scope="module")
def folder(benched: tuple[Project, str]) -> Path:
    (found,) = (benched[0].root / "results/bench").iterdir()
    return found


def raw_files(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_mtime_ns for path in folder.glob("raw/*/*/*/[0-9][0-9].json")}


def test_each_combination_of_levels_is_measured(folder: Path) -> None:
    metadata = [read_metadata(raw) for raw in raw_files(folder)]
    asked = [
        (fio["rw"], fio["bs"], fio["iodepth"], fio["numjobs"])
        for fio in (each["specification"]["fio"] for each in metadata)
    ]
    assert len(asked) == 2 * len(set(asked)) == 2 * 16
    assert {each["specification"]["runtime_ms"] for each in metadata} == {20}


def test_the_printed_table_has_a_row_for_each_combination(benched: tuple[Project, str], folder: Path) -> None:
    written = pd.read_csv(folder / "tables/bench.csv")
    assert len(written) == 16
    head = benched[1].index("Largest CV (%)")
    rows = benched[1][head:].splitlines()[3:19]
    rates = [float(re.split(r"\s{2,}", row.strip())[-5]) for row in rows]
    assert rates == pytest.approx(written["iops_mean"].tolist(), rel=0.01)


def test_figures_are_drawn(folder: Path) -> None:
    drawn = {"iops", "latency", "iodepth-numjobs", "bars", "histogram", "over-time"}
    assert {path.stem for path in (folder / "figures").glob("*.svg")} == drawn
    assert {path.stem for path in (folder / "figures").glob("*.png")} == drawn


def test_each_raw_file_has_a_latency_log(folder: Path) -> None:
    raws = list(raw_files(folder))
    assert {latency_log_path(raw) for raw in raws} == set(folder.glob("raw/*/*/*/*.log"))
    for raw in raws[:4]:
        requests = fio_parser_json.jobs(raw)["total_ios"].sum()
        assert 0 < fio_parser_json.log_bins(latency_log_path(raw))["count"].sum() <= requests


def test_the_project_is_not_changed(benched: tuple[Project, str]) -> None:
    assert benched[0].raw_files() == {}
    assert not (benched[0].root / "config/studies/bench.yaml").exists()


def test_the_same_command_measures_nothing_again(benched: tuple[Project, str], folder: Path) -> None:
    before = raw_files(folder)
    again = benched[0].iopatterns("bench", "--drive", "c400", *LEVELS, *LITTLE)
    assert again.returncode == 0, again.stdout
    assert "0 of 32 repetitions to measure" in again.stdout
    assert raw_files(folder) == before


def test_repetitions_of_another_host_are_left_out_and_named(benched: tuple[Project, str], disk_folder: Path) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(benched[0].root, project.root)
    (found,) = (project.root / "results/bench").iterdir()
    raw = next(each for each in sorted(raw_files(found)) if each.name == "02.json")
    rewrite_metadata(raw, {"host": "other"})
    again = project.iopatterns("bench", "--drive", "c400", *LEVELS, *LITTLE)
    assert again.returncode == 0, again.stdout
    assert re.search(r"^doubt: 1 repetitions of .*, host other in \S+, left out", again.stdout, flags=re.MULTILINE)


def test_repetitions_of_another_simulator_are_measured_again(benched: tuple[Project, str], disk_folder: Path) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(benched[0].root, project.root)
    (found,) = (project.root / "results/bench").iterdir()
    before = {raw: raw.read_bytes() for raw in raw_files(found)}
    rewrite_metadata(min(before), {"simulator": "0" * 64})
    again = project.iopatterns("bench", "--drive", "c400", *LEVELS, *LITTLE)
    assert again.returncode == 0, again.stdout
    assert "1 of 32 repetitions to measure" in again.stdout
    assert {raw: raw.read_bytes() for raw in raw_files(found)} == before


def test_the_printed_commands_make_a_study(benched: tuple[Project, str], disk_folder: Path) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(benched[0].root, project.root)
    commands = [line for line in benched[1].splitlines() if line.startswith("  ")][-4:]
    assert [line.split()[0] for line in commands] == ["cp", "mkdir", "iopatterns", "snakemake"]
    run = f'export PATH="{Path(sys.executable).parent}:$PATH"\n' + "\n".join(commands)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", run], cwd=project.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "To measure" not in done.stderr
    assert json.loads((project.root / "results/scorecard.json").read_text()) == {"studies": {}}
    assert (project.root / "results/report.pdf").is_file()


def test_any_other_factor_may_be_given(project: Project) -> None:
    words = ("--rw", "randread", "--bs", "4k", "DRA=0,1", "thinktime=100us,1ms")
    result = project.iopatterns("bench", "--drive", "px05smb040", *words, *LITTLE)
    assert result.returncode == 0, result.stdout
    (found,) = (project.root / "results/bench").iterdir()
    written = pd.read_csv(found / "tables/bench.csv")
    assert set(zip(written["set_DRA"], written["thinktime"], strict=True)) == {(0, 100), (0, 1000), (1, 100), (1, 1000)}


@pytest.mark.parametrize(
    ("changes", "more", "message"),
    [
        ({"--drive": "c40"}, (), "a drive 'c40'. Did you mean 'c400'?"),
        ({"--rw": "rread"}, (), "rw[0]: 'rread'"),
        ({"--bs": "4q"}, (), "bs[0]"),
        ({"--iodepth": "many"}, (), "'many' is not a whole number"),
        ({"--runtime": "soon"}, (), "runtime"),
        ({}, ("thinktme=1ms",), "did you mean 'thinktime'?"),
        ({}, ("thinktime",), "is not OPTION=LEVELS"),
        ({"--bs": None}, (), "Missing option '--bs'"),
    ],
)
def test_a_mistake_is_an_error_and_measures_nothing(
    project: Project, changes: dict[str, str | None], more: tuple[str, ...], message: str
) -> None:
    options = {"--drive": "c400", "--rw": "read", "--bs": "4k", **changes}
    words = [word for name, value in options.items() if value is not None for word in (name, value)]
    result = project.iopatterns("bench", *words, *more)
    assert result.returncode == 2, result.stdout
    assert message in result.stdout
    assert "Traceback" not in result.stdout
    assert not list((project.root).glob("results/bench/*/raw"))


def test_a_file_is_created_before_it_is_read(project: Project) -> None:
    result = project.iopatterns("bench", "--drive", "scratch", "--rw", "read", "--bs", "64k", *LITTLE[:4])
    assert result.returncode == 0, result.stdout
    assert "drive 'scratch': writing 0.01 GiB of data" in result.stdout
