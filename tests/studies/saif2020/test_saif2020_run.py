"""A small run of all experiments of RR-9319 on twins: outputs, summary and scorecard."""

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml
from support import ROOT, Project, copy_project, shortened

from iopatterns.workflow.planned_cells import load_cells

pytestmark = pytest.mark.slow

STUDY = "config/studies/saif2020.yaml"
DRIVES = ["px02ssf020", "px05smb040", "c400", "mz7km240", "ssdsc2bb300g4", "ssdsc2kg480g7"]
LITTLE = {"patterns": ["read", "randread", "write", "randwrite"], "reads": ["read", "randread"]}
LITTLE |= {"block_sizes": ["4k", "64k"], "small_and_usual": ["4k", "28k"]}


@pytest.fixture(scope="module")
def done(module_disk_folder: Path) -> Project:
    """Run all experiments with two block sizes, two numbers of jobs and two short repetitions per cell."""
    project = copy_project(module_disk_folder / "project")
    study = yaml.safe_load((ROOT / STUDY).read_text())
    study["levels"] = LITTLE
    study["experiments"]["concurrency"]["vary"] |= {"numjobs": [1, 4], "bs": ["4k", "64k"]}
    project.edit(STUDY, **study | {"experiments": shortened(study["experiments"])})
    project.edit("config/config.yaml", drives=DRIVES, studies=["saif2020"], runtime="20 ms", file_size="64 MiB")
    ran = project.snakemake("--cores", "2")
    assert ran.returncode == 0, ran.stdout
    assert project.iopatterns("scorecard", "--expect").returncode == 0
    return project


def test_all_tables_and_figures_are_made(done: Project) -> None:
    made = {path.stem for path in (done.root / "results/figures/saif2020").glob("*.svg")}
    assert made == {"initial", "figure2", "figure3", "figure3-all", "figure4", "figure5"}
    made = {path.stem for path in (done.root / "results/tables/saif2020").glob("*.csv")}
    assert made == {"table1", "table2", "table3", "table4", "ratios", "schedulers", "settings", "refusals"}


def test_each_experiment_runs_on_its_drives(done: Project) -> None:
    executions = pd.read_parquet(done.root / "results/measurements/saif2020.parquet")
    table = executions.assign(experiment=executions["experiments"].str.split()).explode("experiment")
    drives = table.groupby("experiment")["drive"].agg(lambda names: sorted(set(names))).to_dict()
    assert drives["initial"] == sorted(DRIVES[:3])
    assert drives["refusing"] == sorted(DRIVES[3:])
    assert all(drives[name] == ["px05smb040"] for name in drives.keys() - {"initial", "refusing"})


def test_a_refused_setting_has_an_outcome_and_no_repetitions(done: Project) -> None:
    steps = json.loads((done.root / "results/measurements/saif2020.tuning.json").read_text())
    refused = {step["drive"]: step["outcome"] for step in steps if not step["measured"]}
    assert refused == {"mz7km240": "not changeable", "ssdsc2bb300g4": "ignored", "ssdsc2kg480g7": "ignored"}
    executions = pd.read_parquet(done.root / "results/measurements/saif2020.parquet")
    assert not ((executions["drive"] == "mz7km240") & (executions["set_DRA"] == 1)).any()


def test_the_summary_counts_repetitions_of_fio(done: Project) -> None:
    said = done.iopatterns("summary", "--since", "0")
    assert said.returncode == 0, said.stdout
    executions = pd.read_parquet(done.root / "results/measurements/saif2020.parquet")
    assert f"Measured: {len(executions)} repetitions" in said.stdout
    cells = load_cells(done.root)
    planned = len(cells.raw_files(cells.of_study("saif2020")))
    left_out = re.search(r"does not accept their settings: (\d+) of saif2020\.", said.stdout)
    assert left_out is not None
    assert 2 * int(left_out[1]) == planned - len(executions)


def test_the_scorecard_agrees_with_what_is_expected(done: Project) -> None:
    said = done.snakemake("scorecard")
    assert said.returncode == 0, said.stdout
    assert "independent claims reproduced" in said.stdout


def test_the_scorecard_fails_and_names_a_regression(done: Project, disk_folder: Path) -> None:
    project = Project(disk_folder / "copy")
    shutil.copytree(done.root, project.root)
    expected = project.root / "data/published/saif2020/expectations.yaml"
    text = expected.read_text()
    missed = re.search(r"^  (\S+): not reproduced$", text, re.MULTILINE)
    assert missed is not None
    expected.write_text(text.replace(missed[0], f"  {missed[1]}: reproduced"))
    said = project.snakemake("scorecard")
    assert said.returncode != 0
    change = "expected 'reproduced', is now 'not reproduced'"
    assert re.search(rf"saif2020: {re.escape(missed[1])} \(.*\): {change}", said.stdout)
