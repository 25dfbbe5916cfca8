"""Files that version 0.1.0 wrote are read as they are: nobody's measurements are lost by an update.

tests/earlier_formats was recorded with commit 35b2b2e: a packed study with raw files (study.tar.xz) and the model that
it uses (own.yaml), the configuration (config.yaml), the collected table (measurements.parquet), an archive of one of
its drives (own-full.tar.xz), a block trace with the result of its replay on a model (c400.yaml), and a trace of system
calls.
"""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from support import ROOT, Project, copy_project

from iopatterns.analysis import collect
from iopatterns.cli import iopatterns_command
from iopatterns.twin.cli import twin_command
from iopatterns.workflow import planned_cells

FILES = ROOT / "tests/earlier_formats"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project of today to which the packed study was added, with the configuration of then."""
    project = copy_project(tmp_path_factory.mktemp("earlier") / "project")
    shutil.copy(FILES / "own.yaml", project.root / "data/twins")
    shutil.copy(FILES / "config.yaml", project.root / "config")
    added = project.iopatterns("study", "add", str(FILES / "study.tar.xz"), "--yes")
    assert added.returncode == 0, added.stdout
    return project


def test_raw_files_give_the_same_table(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.root)
    cells = planned_cells.load_cells(project.root)
    raws = [Path(raw) for raw in cells.raw_files(cells.of_study("earlier"))]
    now = collect.measurement_table(collect.load_metadata(raws), cells.experiments("earlier"))
    earlier = pd.read_parquet(FILES / "measurements.parquet")
    assert set(now) - set(earlier) == {"drive_set"}
    pd.testing.assert_frame_equal(now[earlier.columns], earlier, check_dtype=False)


def test_raw_files_of_the_earlier_simulator_are_measured_again(project: Project) -> None:
    planned = project.snakemake("-n", "collect_earlier")
    assert planned.returncode == 0, planned.stdout
    assert "measured with another simulator or fio" in planned.stdout


def test_claims_and_expected_verdicts_are_compared(project: Project) -> None:
    judged = project.snakemake("scorecard")
    assert judged.returncode == 0, judged.stdout
    assert project.iopatterns("scorecard").returncode == 0


def test_an_archive_replaces_the_drive(project: Project) -> None:
    shutil.copy(FILES / "own-full.tar.xz", project.root)
    drives = yaml.safe_load((project.root / "config/drives.yaml").read_text())
    project.edit("config/drives.yaml", **drives, packed={"kind": "archive", "path": "own-full.tar.xz"})
    project.edit("config/config.yaml", drives=["packed"], results="results/packed")
    collected = project.snakemake("collect_earlier")
    assert collected.returncode == 0, collected.stdout
    table = pd.read_parquet(project.root / "results/packed/measurements/earlier.parquet")
    then = pd.read_parquet(FILES / "measurements.parquet").query("drive == 'own-full'")
    assert sorted(table["iops"]) == sorted(then["iops"])


def test_a_block_trace_is_replayed_to_the_same_result() -> None:
    replayed = CliRunner().invoke(twin_command, ["replay", str(FILES / "c400.yaml"), str(FILES / "blocks.parquet")])
    assert replayed.exit_code == 0, replayed.output
    found, earlier = json.loads(replayed.stdout), json.loads((FILES / "replayed.json").read_text())
    assert found["summary"].pop("keeps") == "arrival times"
    assert found == earlier


def test_a_trace_of_system_calls_is_read() -> None:
    shown = CliRunner().invoke(iopatterns_command, ["calls", "show", str(FILES / "calls.parquet")])
    assert shown.exit_code == 0, shown.output
    assert "4 KB 20.0%" in shown.output
