"""The fixture study from end to end on real block devices: a loop device, and a SCSI disk of a guest."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from guest.guest import Disk, Guest
from loops import Loop, loop_device
from support import FIXTURE, Project, copy_project, pdf_text

from iopatterns.measuring.tuning import journal

STUDY = "config/studies/tiny.yaml"
DISK = Disk("a", "scsi", "T1", "GUEST SSD", 32)
BYSTANDER = Disk("b", "scsi", "T2", "GUEST SSD", 8)
BITS = ["RCD", "WCE", "FSW", "DRA"]
PATTERNS, READS = ["read", "randread", "write", "randwrite"], ["read", "randread"]


def little(root: Path, entry: dict[str, Any], experiments: dict[str, dict[str, Any]]) -> Project:
    """Return a project that measures one drive with all experiments of the study, each with few levels."""
    project = copy_project(root)
    study = yaml.safe_load((FIXTURE / STUDY).read_text())
    study["levels"] = {"patterns": PATTERNS, "reads": READS, "sizes": ["4k"], "small": ["4k"]}
    toggle = study["experiments"].pop("toggle-wce")
    for bit in BITS:
        study["experiments"][f"toggle-{bit.lower()}"] = {**toggle, "vary": {bit: [0, 1], "rw": PATTERNS, "bs": ["4k"]}}
    for name, vary in {"schedulers": {"scheduler": ["none", "cfq"]}, "concurrency": {"numjobs": [1, 2]}}.items():
        study["experiments"][name]["vary"] |= vary
    for name, vary in experiments.items():
        study["experiments"][name]["vary"] |= vary
    project.edit(STUDY, **study)
    project.edit("config/drives.yaml", labdisk=entry)
    project.edit("config/config.yaml", drives=["labdisk"], file_size="16 MiB")
    return project


def outcomes(project: Project) -> dict[tuple[str, Any], str]:
    steps = json.loads((project.root / "results/measurements/tiny.tuning.json").read_text())
    return {(step["setting"], step["wanted"]): step["outcome"] for step in steps}


def executions(project: Project) -> pd.DataFrame:
    """Return the measurements, after checks that hold for every block device."""
    found = pd.read_parquet(project.root / "results/measurements/tiny.parquet")
    assert set(found["drive_kind"]) == {"block"}
    assert set(found.groupby("cell").size()) == {2}
    assert json.loads((project.root / "results/scorecard.json").read_text())
    return found


def report(project: Project) -> str:
    return pdf_text(project.root / "results/report.pdf")


def table(project: Project, name: str, key: str, value: str) -> dict[Any, str]:
    """Return two columns of a table of the study as keys and values."""
    return dict(pd.read_csv(project.root / f"results/tables/tiny/{name}.csv").set_index(key)[value])


@dataclass
class Measured:
    """A complete project, the loop device that it measured, and whether the other loop device is unchanged."""

    project: Project
    loop: Loop
    bystander_unchanged: bool


@pytest.fixture(scope="module")
def on_a_loop(module_disk_folder: Path) -> Iterator[Measured]:
    folder = module_disk_folder
    with loop_device(folder, "disk", 32) as loop, loop_device(folder, "bystander", 8) as bystander:
        bystander.image.write_bytes(os.urandom(8 * 2**20))
        before = bystander.checksum()
        loop.scheduler.write_text("mq-deadline")
        entry = {"kind": "block", "path": str(loop.device), "serial": loop.serial, "destroy": loop.serial}
        project = little(folder / "project", {**entry, "tune": ["scheduler", *BITS]}, {})
        done = project.snakemake()
        assert done.returncode == 0, done.stdout
        yield Measured(project, loop, bystander.checksum() == before)


def test_a_loop_device_is_measured_through_to_report_and_scorecard(on_a_loop: Measured) -> None:
    project = on_a_loop.project
    assert "labdisk" in report(project)
    made = {path.stem for path in (project.root / "results/figures/tiny").glob("*.svg")}
    assert made == {"initial", "block-size", "concurrency"}
    assert set(executions(project)["set_scheduler"].dropna()) == {"none", "cfq"}


def test_results_have_the_outcome_of_each_setting_of_a_loop_device(on_a_loop: Measured) -> None:
    found = outcomes(on_a_loop.project)
    assert found.pop(("scheduler", "none")) == "changed"
    assert found.pop(("scheduler", "cfq")) == "changed"
    assert found == {(bit, value): "not applicable" for bit in BITS for value in (0, 1)}
    assert table(on_a_loop.project, "refusals", "wanted", "outcome") == {0: "not applicable", 1: "not applicable"}
    assert "not applicable" in report(on_a_loop.project)


def test_a_loop_device_is_restored_and_no_other_is_changed(on_a_loop: Measured) -> None:
    assert on_a_loop.loop.present_scheduler() == "mq-deadline"
    assert on_a_loop.bystander_unchanged
    assert not journal.journal_paths(journal.connected_disk(on_a_loop.loop.device.name))


def test_a_second_run_on_a_loop_device_does_nothing(on_a_loop: Measured) -> None:
    assert "Nothing to be done" in on_a_loop.project.snakemake("-n").stdout


# An emulated processor takes minutes to import the analysis, so the guest measures and the host analyses the archive.
MEASURE = r"""
cp -r "$SHARE/project" /run/project && cd /run/project || exit 1
state() {
  grep -o "\[.*\]" /sys/block/${A#/dev/}/queue/scheduler
  sdparm --get=WCE "$A" | awk "/^WCE/ {print \$1, \$2}"
}
state >/run/before
"$PYTHON" -m snakemake --cores 1 measure_tiny || exit 1
state | diff - /run/before && echo SETTINGS RESTORED
"$PYTHON" -m iopatterns archive labdisk --output "$SHARE/labdisk.tar.xz"
"""


@dataclass
class Office:
    """A project that analyses the archive of a guest's drive, the guest's output, and the unchanged drives."""

    project: Project
    output: str
    unchanged: list[str]


@pytest.fixture(scope="module")
def on_a_scsi_disk(guests: None, module_disk_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Office:
    guest = Guest(tmp_path_factory.mktemp("guest"), [DISK, BYSTANDER])
    before = guest.fill()
    varied = [*(f"toggle-{bit.lower()}" for bit in BITS), "schedulers", "refusing", "concurrency"]
    less = {name: {"rw": ["read"]} for name in varied}
    less["schedulers"]["scheduler"] = ["none", "cfq"]
    lab = little(guest.share / "project", DISK.entry(tune=["scheduler", *BITS]), less)
    said = guest.run(MEASURE, timeout_s=600)
    print(said.stdout)
    assert said.returncode == 0, said.stdout
    office = Project(module_disk_folder / "office")
    shutil.copytree(lab.root, office.root)
    office.edit("config/drives.yaml", labdisk={"kind": "archive", "path": str(guest.share / "labdisk.tar.xz")})
    done = office.snakemake()
    assert done.returncode == 0, done.stdout
    return Office(office, said.stdout, guest.unchanged(before))


def test_a_scsi_disk_is_measured_in_a_guest_and_analysed_here(on_a_scsi_disk: Office) -> None:
    assert set(executions(on_a_scsi_disk.project)["set_WCE"].dropna()) == {0, 1}
    text = report(on_a_scsi_disk.project)
    assert "GUEST SSD" in text
    assert "archive of kind block" in text
    assert "not changeable" in text


def test_results_have_the_outcome_of_each_setting_of_a_scsi_disk(on_a_scsi_disk: Office) -> None:
    project = on_a_scsi_disk.project
    found = outcomes(project)
    assert {key: found[key] for key in found if key[0] != "scheduler"} == {
        ("WCE", 1): "already so",
        ("WCE", 0): "changed",
        **{(bit, 0): "already so" for bit in ("RCD", "FSW", "DRA")},
        **{(bit, 1): "not changeable" for bit in ("RCD", "FSW", "DRA")},
    }
    assert found["scheduler", "cfq"] == "changed"  # to bfq, a module that was not loaded before
    assert table(project, "refusals", "wanted", "outcome") == {1: "not changeable"}
    verdicts = table(project, "settings", "setting", "verdict")
    assert {key: verdicts[key] for key in verdicts if "=" in key} == dict.fromkeys(
        ["RCD=1", "FSW=1", "DRA=1"], "not changeable"
    )


def test_a_scsi_disk_is_restored_and_no_other_is_changed(on_a_scsi_disk: Office) -> None:
    assert "SETTINGS RESTORED" in on_a_scsi_disk.output
    assert on_a_scsi_disk.unchanged == [BYSTANDER.name]
