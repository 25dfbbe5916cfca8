"""Two concurrent runs on one drive: the second waits for the first."""

import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from loops import Loop, loop_device
from measurements import Spec, block_entry, describe_drive, raw_files, start
from patience import communicate, wait, wait_for
from support import disk_cell, file_cell

from iopatterns.raw.metadata_files import read_metadata

SETTINGS: dict[str, Any] = {"scheduler": "mq-deadline", "read_ahead_kb": 256}


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder) as found:
        yield found


def on_disk(disk: Loop, checkouts: list[Path], rw: str = "randread", runtime_ms: int = 300) -> Spec:
    """Return a cell that changes settings of the disk; describe it in each checkout."""
    entry = block_entry(disk, tune=list(SETTINGS))
    for checkout in checkouts:
        describe_drive(checkout, entry)
    return disk_cell(entry, "disk", rw, runtime_ms, **SETTINGS)


def begin(checkout: Path, specification: Spec) -> tuple["subprocess.Popen[str]", list[Path]]:
    raws = raw_files(checkout, specification, 2)
    return start(checkout, specification, raws), raws


def spans(raws: list[Path]) -> list[tuple[str, str]]:
    return [(metadata["started"], metadata["ended"]) for metadata in map(read_metadata, raws)]


def waiting_message(checkouts: list[Path], specifications: list[Spec]) -> str:
    """Measure in two processes; return what the process that waited has printed."""
    running = [begin(checkout, each) for checkout, each in zip(checkouts, specifications, strict=True)]
    printed = [communicate(process, 60)[1] for process, _ in running]
    assert [process.returncode for process, _ in running] == [0, 0], printed
    measured = sorted(span for _, raws in running for span in spans(raws))
    assert all(before[1] <= after[0] for before, after in pairwise(measured)), measured
    (waited,) = (text for text in printed if "waiting for it" in text)
    return str(waited)


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_two_checkouts_measure_one_disk_one_after_the_other(rw: str, disk: Loop, disk_folder: Path) -> None:
    disk.scheduler.write_text("none")
    checkouts = [disk_folder / "here", disk_folder / "there"]
    specification = on_disk(disk, checkouts, rw)
    assert "drive 'disk' is being measured by process " in waiting_message(checkouts, [specification] * 2)
    # each run found the original settings
    for raw in disk_folder.glob("*/data/raw/disk/study/*/0[12].json"):
        outcomes = {step["setting"]: (step["before"], step["after"]) for step in read_metadata(raw)["tuning"]}
        assert outcomes["scheduler"] == ("none", "mq-deadline")
    assert disk.present_scheduler() == "none"


def test_two_processes_of_one_checkout_measure_one_disk_one_after_the_other(disk: Loop, disk_folder: Path) -> None:
    first = on_disk(disk, [disk_folder])
    message = waiting_message([disk_folder] * 2, [first, {**first, "seed": 2}])
    assert "drive 'disk' is being measured by " in message


def test_two_processes_measure_one_cell_once(disk: Loop, disk_folder: Path) -> None:
    specification = on_disk(disk, [disk_folder])
    first, raws = begin(disk_folder, specification)
    second, _ = begin(disk_folder, specification)
    printed = [communicate(process, 60)[1] for process in (first, second)]
    assert [first.returncode, second.returncode] == [0, 0], printed
    assert sum("2 repetitions in" in text for text in printed) == 1
    assert sum("all 2 repetitions exist" in text for text in printed) == 1
    assert len(spans(raws)) == 2


def test_two_checkouts_measure_one_file_one_after_the_other(disk_folder: Path) -> None:
    specification = {**file_cell(disk_folder), "runtime_ms": 300}
    checkouts = [disk_folder / "here", disk_folder / "there"]
    for checkout in checkouts:
        checkout.mkdir()
    assert "drive 'test' is being measured by process " in waiting_message(checkouts, [specification] * 2)


def test_a_waiting_run_can_be_stopped(disk: Loop, disk_folder: Path) -> None:
    checkouts = [disk_folder / "here", disk_folder / "there"]
    specification = on_disk(disk, checkouts, runtime_ms=2000)
    first, _ = begin(checkouts[0], specification)
    wait_for(lambda: disk.present_scheduler() == "mq-deadline", otherwise="the first did not start")
    second, raws = begin(checkouts[1], specification)
    assert second.stderr is not None
    assert "waiting for it" in second.stderr.readline()
    second.terminate()
    _, printed = communicate(second, 5)
    assert second.returncode == 143, printed
    assert not raws[0].parent.exists()
    assert wait(first, 20) == 0
