"""A reader's own trace in a complete run on a file and on a twin, and live recordings."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from linux_kernel import KERNEL, needs_kernel
from support import ROOT, Project, copy_project, pdf_text, shortened

from iopatterns.base import files

STUDY = "config/studies/park2009.yaml"
pytestmark = pytest.mark.slow

RECORDED = ROOT / "data/traces/park2009/calls/mpi-n-to-1.parquet"


def trace_of_dd(folder: Path) -> Path:
    """Return a trace of dd, which reads 80 KiB in ten requests; without strace, a shipped trace."""
    if shutil.which("strace") is None:
        return Path(shutil.copy(RECORDED, folder / "my.trace"))
    folder.mkdir(exist_ok=True)
    (folder / "in").write_bytes(b"x" * 81_920)
    command = ["dd", f"if={folder}/in", "of=/dev/null", "bs=8k"]
    path = folder / "my.trace"
    strace = ["strace", "-f", "-y", "-ttt", "-T", "-s", "0", "-o", str(path), *command]
    subprocess.run(strace, check=True, capture_output=True)
    return path


def sidecars(project: Project) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in sorted(project.root.glob("data/raw/*/park2009/*/*.sidecar.json"))]


def keep(project: Project, *experiments: str) -> None:
    """Keep some experiments of the study, shortened."""
    content = yaml.safe_load((project.root / STUDY).read_text())["experiments"]
    project.edit(STUDY, experiments=shortened({name: content[name] for name in experiments}))


@pytest.fixture(scope="module")
def project(module_disk_folder: Path) -> Project:
    """Run the study with a trace that only reads, on a file and on a twin."""
    made = copy_project(module_disk_folder / "project")
    trace = trace_of_dd(module_disk_folder / "traced")
    keep(made, "transfer", "own")
    made.edit("config/drives.yaml", mine={"kind": "twin", "model": "c400"})
    only = {"only": "*/in"} if shutil.which("strace") else {}
    made.edit(
        "config/config.yaml",
        studies=["park2009"],
        drives=["scratch", "mine"],
        file_size="64 MiB",
        traces={"my.program": {"path": str(trace), **only}},
    )
    done = made.snakemake("--config", "runtime=100 ms", timeout_s=600)
    assert done.returncode == 0, done.stdout[-4000:]
    return made


def test_a_trace_is_replayed_on_a_file_and_on_a_twin(project: Project) -> None:
    own = [each for each in sidecars(project) if "calls" in each["specification"]]
    assert [each["drive"]["kind"] for each in own] == ["twin", "file"]
    for each in own:
        assert each["specification"]["fio"]["trace"] == "my.program"
        assert ("--readonly" in each["command"]) == (each["specification"]["fio"]["rw"] == "randread")
    table = pd.read_csv(project.root / "results/tables/park2009/own.csv")
    assert list(table["workload"]) == ["my.program"]
    assert (table[["scratch_mb_per_s", "mine_mb_per_s"]] > 0).all(axis=None)


def test_all_traced_requests_are_made(project: Project) -> None:
    table = pd.read_parquet(project.root / "results/measurements/park2009.parquet")
    of_trace = pd.read_csv(project.root / "results/tables/park2009/characteristics.csv").set_index("label")
    own = table[table["experiments"] == "own"].groupby("drive")["total_ios"].sum()
    traced = of_trace.loc["my.program"]
    if shutil.which("strace"):  # the shipped trace has several processes
        # a busy disk may not complete all requests in time
        assert (own["mine"], 0 < own["scratch"] <= 10) == (10, True)
        assert (traced["reads"], traced["read_pattern"], traced["read_bytes"]) == (10, "Sequential", 81_920)


def test_the_trace_is_shown_under_its_name_and_not_as_a_stand_in(project: Project) -> None:
    folder = project.root / "results"
    table = pd.read_csv(folder / "tables/park2009/characteristics.csv")
    assert list(table["origin"]) == ["stand-in"] * 6 + ["recorded"]
    for figure in ("read-sizes", "own-access"):
        text = (folder / f"figures/park2009/{figure}.svg").read_text()
        assert "my.program" in text
        assert "my.program (stand-in)" not in text
    assert "The reader’s own traces" in pdf_text(folder / "report.pdf")


def test_only_a_changed_trace_is_measured_again(project: Project) -> None:
    assert "Nothing to be done" in project.snakemake("-n", "--config", "runtime=100 ms").stdout
    (path,) = {each["specification"]["calls"]["path"] for each in sidecars(project) if "calls" in each["specification"]}
    before = project.raw_files()
    shutil.copy(ROOT / "data/traces/park2009/calls/mpi-hdf5.parquet", path)
    project.edit("config/config.yaml", traces={"my.program": {"path": path}})
    done = project.snakemake("--config", "runtime=100 ms", "--", "measure_park2009", timeout_s=300)
    assert done.returncode == 0, done.stdout[-4000:]
    after = project.raw_files()
    assert {name: after[name] for name in before} == before
    assert {name.split("/")[0] for name in after.keys() - before.keys()} == {"scratch", "mine"}
    assert all("-my.program-" in name for name in after.keys() - before.keys())


@needs_kernel
def test_a_live_run_replays_its_own_recording(disk_folder: Path) -> None:
    project = copy_project(disk_folder / "project")
    keep(project, "random-writes")
    project.edit("config/config.yaml", studies=["park2009"], drives=["mtron-7500"], live=True)
    shutil.copytree(KERNEL.parent, project.root / ".linux")
    done = project.snakemake("--", "measure_park2009", timeout_s=900)
    assert done.returncode == 0, done.stdout[-4000:]
    trace = "results/traces/park2009/random-writes-mtron-7500.parquet"
    (raw,) = project.raw_files().values()
    replay = json.loads(raw)["replay"]
    assert (replay["trace"], replay["sha256"]) == (trace, files.sha256(project.root / trace))
    assert json.loads(raw)["requests"]["write"]["count"] > 0
    assert "Nothing to be done" in project.snakemake("-n", "--", "measure_park2009").stdout
