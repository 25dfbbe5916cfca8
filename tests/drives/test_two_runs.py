"""Two runs on one drive at once, in one checkout or in two: the second waits, says so, and nothing overlaps."""

import json
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from loops import Loop, loop_device
from patience import communicate, wait, wait_for
from support import disk_cell, file_cell

from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata

Spec = Any  # a `records.Specification`, or one that a test has spoilt
SETTINGS: dict[str, Any] = {"scheduler": "mq-deadline", "read_ahead_kb": 256}


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder) as found:
        yield found


def on_the_disk(disk: Loop, checkouts: list[Path], rw: str) -> Spec:
    """Return a cell that changes settings of the disk, described in each checkout."""
    entry = {"kind": "block", "path": str(disk.device), "serial": disk.serial, "tune": list(SETTINGS)}
    for checkout in checkouts:
        (checkout / "config").mkdir(parents=True, exist_ok=True)
        (checkout / "config/drives.yaml").write_text(yaml.safe_dump({"disk": {**entry, "destroy": disk.serial}}))
    return disk_cell(entry, "disk", rw, 300, **SETTINGS)


def start(checkout: Path, specification: Spec) -> tuple["subprocess.Popen[str]", list[Path]]:
    drive = specification["drive"]["name"]
    folder = checkout / f"data/raw/{drive}/study/x-{cells.specification_digest(specification)[:8]}"
    raws = [folder / "01.json", folder / "02.json"]
    words = ["measure", "--specification", json.dumps(specification), *map(str, raws)]
    command = [sys.executable, "-m", "iopatterns", *words]
    return subprocess.Popen(command, cwd=checkout, stderr=subprocess.PIPE, text=True), raws


def spans(raws: list[Path]) -> list[tuple[str, str]]:
    sidecars = [read_metadata(raw) for raw in raws]
    return [(sidecar["started"], sidecar["ended"]) for sidecar in sidecars]


def one_after_the_other(checkouts: list[Path], specifications: list[Spec]) -> str:
    """Measure in two processes at once; return what the one that waited has said."""
    running = [start(checkout, each) for checkout, each in zip(checkouts, specifications, strict=True)]
    said = [communicate(process, 60)[1] for process, _ in running]
    assert [process.returncode for process, _ in running] == [0, 0], said
    measured = sorted(span for _, raws in running for span in spans(raws))
    assert all(before[1] <= after[0] for before, after in pairwise(measured)), measured
    waited = [text for text in said if "waiting for it" in text]
    assert len(waited) == 1, said
    return str(waited[0])


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_runs_of_two_checkouts_on_one_disk(rw: str, disk: Loop, disk_folder: Path) -> None:
    disk.scheduler.write_text("none")
    checkouts = [disk_folder / "here", disk_folder / "there"]
    specification = on_the_disk(disk, checkouts, rw)
    said = one_after_the_other(checkouts, [specification] * 2)
    assert "drive 'disk' is being measured by process " in said
    # each found the disk as its user has it, not as the other had set it
    for raw in disk_folder.glob("*/data/raw/disk/study/*/0[12].json"):
        outcomes = {step["setting"]: (step["before"], step["after"]) for step in read_metadata(raw)["tuning"]}
        assert outcomes["scheduler"] == ("none", "mq-deadline")
    assert disk.present_scheduler() == "none"


def test_two_processes_of_one_checkout_on_one_disk(disk: Loop, disk_folder: Path) -> None:
    first = on_the_disk(disk, [disk_folder], "randread")
    said = one_after_the_other([disk_folder] * 2, [first, {**first, "seed": 2}])
    assert "drive 'disk' is being measured by " in said


def test_two_processes_on_one_cell_measure_it_once(disk: Loop, disk_folder: Path) -> None:
    specification = on_the_disk(disk, [disk_folder], "randread")
    first, raws = start(disk_folder, specification)
    second, _ = start(disk_folder, specification)
    said = [communicate(process, 60)[1] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], said
    assert sum("2 executions in" in text for text in said) == 1
    assert sum("all 2 executions are there" in text for text in said) == 1
    assert len(spans(raws)) == 2


def test_runs_of_two_checkouts_on_one_file(disk_folder: Path) -> None:
    specification = {**file_cell(disk_folder), "runtime_ms": 300}
    checkouts = [disk_folder / "here", disk_folder / "there"]
    for checkout in checkouts:
        checkout.mkdir()
    said = one_after_the_other(checkouts, [specification] * 2)
    assert "drive 'test' is being measured by process " in said


def test_a_run_that_waits_can_be_stopped(disk: Loop, disk_folder: Path) -> None:
    checkouts = [disk_folder / "here", disk_folder / "there"]
    specification = {**on_the_disk(disk, checkouts, "randread"), "runtime_ms": 2000}
    first, _ = start(checkouts[0], specification)
    wait_for(lambda: disk.present_scheduler() == "mq-deadline", otherwise="the first did not start")
    second, raws = start(checkouts[1], specification)
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    second.terminate()
    _, said = communicate(second, 5)
    assert second.returncode == 143, said
    assert not raws[0].parent.exists()
    assert wait(first, 20) == 0
