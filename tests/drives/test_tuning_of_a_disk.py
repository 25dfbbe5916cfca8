"""The I/O scheduler of a real disk: switched through sysfs, put back whatever dies, and never without being asked."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from loops import Loop, loop_device, run, undone
from patience import wait, wait_for
from support import ROOT

from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.drives import open_drive, restoring
from iopatterns.measuring.tuning import mode_page, sg_commands
from iopatterns.measuring.tuning.journal import Disk as OnDisk
from iopatterns.measuring.tuning.journal import (
    Journal,
    Owner,
    RestoreError,
    connected_disk,
    journal_paths,
    read_journal,
    restore_entry,
)
from iopatterns.measuring.tuning.queue_settings import set_attribute
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import is_measured, read_metadata

Spec = Any  # a `records.Specification`, or one that a test has spoilt


@dataclass
class Disk:
    """A loop device with a file system of its own, mounted; its settings are nobody else's."""

    loop: Loop
    folder: Path

    @property
    def name(self) -> str:
        return self.loop.device.name

    @property
    def scheduler(self) -> Path:
        return self.loop.scheduler

    def present(self) -> str:
        return self.loop.present_scheduler()

    def journal(self) -> Journal:
        found = connected_disk(self.name)
        assert found is not None
        return Journal(found, Owner("loop", str(self.folder.parent)))


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Disk]:
    """Such a disk; a test without the right to make one is skipped, and says so."""
    mounted = disk_folder / "mounted"
    mounted.mkdir()
    with loop_device(disk_folder, "image", 256) as loop:
        if "mq-deadline" not in loop.scheduler.read_text():
            pytest.skip("this kernel offers no mq-deadline")
        loop.scheduler.write_text("none")
        run("mkfs.ext4", "-q", loop.device)
        run("mount", loop.device, mounted)
        with undone("umount", mounted):
            yield Disk(loop, mounted)


def specification(disk: Disk, **settings: Any) -> Spec:
    drive = {"kind": "file", "name": "loop", "path": str(disk.folder / "drive.bin"), "file_size_bytes": 8 * 2**20}
    return {
        "protocol": 2,
        "runtime_ms": 100,
        "warmup_ms": 0,
        "seed": 1,
        "drive": {**drive, "tune": ["scheduler"]},
        "fio": {"rw": "randread", "bs": 4096, "ioengine": "psync", "direct": 1, "group_reporting": 1},
        "settings": settings,
    }


def raw(folder: Path, spec: Spec) -> Path:
    return folder / f"raw/loop/study/randread-4k-j1-{cells.specification_digest(spec)[:8]}/01.json"


def test_a_scheduler_is_switched_for_the_cell_and_put_back(disk: Disk, disk_folder: Path) -> None:
    spec = specification(disk, scheduler="deadline")
    assert measure_cell(disk_folder, spec, [raw(disk_folder, spec)]) == 1
    sidecar = read_metadata(raw(disk_folder, spec))
    assert is_measured(sidecar)
    (step,) = sidecar["tuning"]
    assert (step["before"], step["after"], step["outcome"]) == ("none", "mq-deadline", "changed")
    assert "in place of deadline" in step["reason"]
    assert sidecar["drive"]["scheduler"] == "mq-deadline"
    assert disk.present() == "none"


def test_noop_of_old_is_none_of_today(disk: Disk) -> None:
    step = set_attribute(disk.name, "scheduler", "noop", disk.journal().record)
    assert (step.outcome, step.after) == ("already so", "none")


def test_a_scheduler_that_the_kernel_has_not_is_not_applicable(disk: Disk) -> None:
    journal = disk.journal()
    step = set_attribute(disk.name, "scheduler", "anticipatory", journal.record)
    journal.restore()
    assert step.outcome == "not applicable"
    assert "mq-deadline" in step.reason
    assert disk.present() == "none"


def test_without_leave_in_the_configuration_nothing_is_switched(disk: Disk, disk_folder: Path) -> None:
    spec = specification(disk, scheduler="deadline")
    del spec["drive"]["tune"]
    assert measure_cell(disk_folder, spec, [raw(disk_folder, spec)]) == 0
    (step,) = read_metadata(raw(disk_folder, spec))["tuning"]
    assert step["outcome"] == "not applicable"
    assert not (disk_folder / "data").exists()


def test_the_note_is_on_the_disk_before_the_change(disk: Disk, disk_folder: Path) -> None:
    drive = open_drive(disk_folder, specification(disk, scheduler="deadline"))
    with drive.hold():
        drive.tune({"scheduler": "deadline"})
        assert disk.present() == "mq-deadline"
        (path,) = journal_paths(connected_disk(disk.name))
        noted = read_journal(path)
        assert noted is not None
        assert list(noted.settings) == ["scheduler", "nr_requests"]
        assert noted.settings["scheduler"] == "none"
        assert noted.owner == Owner("loop", str(disk_folder))
        assert path.stat().st_mode & 0o777 == 0o600
    assert disk.present() == "none"
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_the_scheduler_is_put_back_whatever_ends_the_run(disk: Disk, disk_folder: Path, number: signal.Signals) -> None:
    spec = specification(disk, scheduler="deadline") | {"runtime_ms": 20_000}
    words = ["measure", "--specification", cells.canonical_json(spec), str(raw(disk_folder, spec))]
    process = subprocess.Popen([sys.executable, "-m", "iopatterns", *words], cwd=disk_folder)
    wait_for(lambda: disk.present() == "mq-deadline", otherwise="the scheduler was not switched")
    process.send_signal(number)
    assert wait(process, 20) != 0
    if number == signal.SIGKILL:  # nothing could be put back yet: the note is still there
        assert disk.present() == "mq-deadline"
        said = subprocess.run(
            [sys.executable, "-m", "iopatterns", "restore"], cwd=disk_folder, capture_output=True, text=True, check=True
        )
        assert f"loop: put back scheduler of {disk.loop.device}: none" in said.stdout
    assert disk.present() == "none"


def test_the_next_measurement_puts_back_what_a_killed_one_left(disk: Disk, disk_folder: Path) -> None:
    disk.journal().record("scheduler", "none")
    disk.scheduler.write_text("mq-deadline")
    spec = specification(disk, scheduler="none")
    assert measure_cell(disk_folder, spec, [raw(disk_folder, spec)]) == 1
    assert read_metadata(raw(disk_folder, spec))["tuning"][0]["outcome"] == "already so"
    assert disk.present() == "none"


def test_a_cell_that_is_all_there_puts_back_what_a_killed_run_left(disk: Disk, disk_folder: Path) -> None:
    spec = specification(disk, scheduler="deadline")
    assert measure_cell(disk_folder, spec, [raw(disk_folder, spec)]) == 1
    disk.journal().record("scheduler", "none")
    disk.scheduler.write_text("mq-deadline")
    assert measure_cell(disk_folder, spec, [raw(disk_folder, spec)]) == 0
    assert disk.present() == "none"


# Puts back what is noted of a disk, and ends as a measurement does that is asked to stop.
_RESTORING = """
import sys
from iopatterns.measuring.drives import restoring
from iopatterns.measuring.cell import Interrupted, interruptible
from iopatterns.measuring.tuning.journal import Owner, present_disk
try:
    with interruptible(), restoring.restored_on_exit(present_disk(sys.argv[1]), Owner("loop", "/")):
        pass
except Interrupted as interrupt:
    sys.exit(128 + interrupt.signal_number)
"""


def test_a_signal_while_settings_are_put_back_waits_until_all_are(disk: Disk, disk_folder: Path) -> None:
    # a stand-in for hdparm that takes its time over each order
    tool = disk_folder / "bin/hdparm"
    tool.parent.mkdir()
    state = disk_folder / "look-ahead"
    state.write_text("0")
    tool.write_text(
        f'#!/bin/sh\ncase $1 in -A?) touch {disk_folder}/asked; sleep 1; echo "${{1#-A}}" >{state};; esac\n'
        f'echo " look-ahead = $(cat {state})"\n'
    )
    tool.chmod(0o755)
    journal = disk.journal()
    journal.record("look_ahead", 1)
    journal.record("scheduler", "none")
    disk.scheduler.write_text("mq-deadline")
    program = _RESTORING.replace(
        "try:", "from iopatterns.measuring.tuning import disk_settings\ndisk._vendor = lambda _: 'ATA'\ntry:", 1
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, disk.name],
        env={**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"},
        stderr=subprocess.DEVNULL,
    )
    wait_for((disk_folder / "asked").exists, 20, otherwise="nothing was put back")
    process.send_signal(signal.SIGTERM)
    assert disk.present() == "mq-deadline", "the signal came too late to show anything"
    assert wait(process, 20) == 128 + signal.SIGTERM
    assert (state.read_text(), disk.present()) == ("1\n", "none")
    assert not journal.path.exists()


def test_what_cannot_be_put_back_is_told_and_stays_noted(disk: Disk) -> None:
    journal = disk.journal()
    journal.record("nr_requests", 999_999_999)
    with pytest.raises(RestoreError, match=r"echo 999999999 > /sys/block/loop\d+/queue/nr_requests"):
        journal.restore()
    assert journal.path.exists()
    journal.path.unlink()


def test_the_first_value_noted_counts(disk: Disk) -> None:
    journal = disk.journal()
    for value in ("none", "mq-deadline"):
        journal.record("scheduler", value)
    disk.scheduler.write_text("mq-deadline")
    journal.restore()
    assert disk.present() == "none"


def test_the_kernel_s_read_ahead_is_set_and_put_back(disk: Disk) -> None:
    file = disk.scheduler.with_name("read_ahead_kb")
    before = file.read_text()
    found = connected_disk(disk.name)
    assert found is not None
    with restoring.restored_on_exit(found, Owner("loop", "/")) as journal:
        step = set_attribute(disk.name, "read_ahead_kb", 64, journal.record)
        assert (step.outcome, step.before, step.after) == ("changed", int(before), 64)
        assert file.read_text() == "64\n"
    assert file.read_text() == before


def test_a_number_of_requests_that_the_kernel_does_not_take_is_refused(disk: Disk) -> None:
    file = disk.scheduler.with_name("nr_requests")
    before = file.read_text()
    journal = disk.journal()
    step = set_attribute(disk.name, "nr_requests", 10**6, journal.record)
    assert step.outcome in {"refused", "ignored"}  # EINVAL under none; what else the kernel makes of it reads back
    journal.restore()
    assert file.read_text() == before


def test_scheduler_and_requests_are_both_put_back(disk: Disk, disk_folder: Path) -> None:
    requests = disk.scheduler.with_name("nr_requests")
    requests.write_text("100")  # the user's own, which a switch of the scheduler would lose
    before = disk.present(), requests.read_text()
    spec = specification(disk, scheduler="deadline", nr_requests=32)
    spec["drive"]["tune"] = ["scheduler", "nr_requests"]
    measure_cell(disk_folder, spec, [raw(disk_folder, spec)])
    outcomes = {step["setting"]: step["outcome"] for step in read_metadata(raw(disk_folder, spec))["tuning"]}
    assert outcomes == {"scheduler": "changed", "nr_requests": "changed"}
    assert (disk.present(), requests.read_text()) == before


def test_what_was_refused_needs_no_putting_back(disk: Disk) -> None:
    requests = int(disk.scheduler.with_name("nr_requests").read_text())
    with pytest.raises(OSError, match=r".*"):  # too few even for the kernel's own needs
        disk.scheduler.with_name("nr_requests").write_text("-1")
    journal = disk.journal()
    journal.record("nr_requests", requests)
    journal.restore()
    assert not journal.path.exists()


def test_a_bit_that_was_refused_needs_no_putting_back(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = (ROOT / "data/twins/px05smb040.yaml").read_text()
    model = model.replace("DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: refused")
    (disk_folder / "refusing.yaml").write_text(model)
    # real sdparm on a twin, under the name by which a real drive's is called
    shim = disk_folder / "bin/sdparm"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\nexec twin run refusing.yaml --state state -- {shutil.which("sdparm")} "$1" {{drive}}\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(disk_folder)
    # the kernel knows nothing of a twin
    notes = Journal(OnDisk("twin-refusing", "0:0", None, "TWIN", None, None), Owner("twin", str(disk_folder)))
    access = mode_page.sdparm_access([], "/dev/twin-refusing", "DRA")
    assert sg_commands.set_value(access, "DRA", 1, notes.record).outcome == "refused"
    assert notes.path.exists()
    noted = read_journal(notes.path)
    assert noted is not None
    restore_entry(notes.path, noted, noted.disk)
    assert not notes.path.exists()


@pytest.mark.parametrize(("setting", "wanted"), [("write_cache", "write through"), ("look_ahead", 0), ("WCE", 0)])
def test_the_caches_of_a_disk_that_serves_others_are_left_alone(
    disk: Disk, disk_folder: Path, setting: str, wanted: int | str
) -> None:
    view = disk.scheduler.with_name("write_cache")
    before = view.read_text()
    spec = specification(disk, **{setting: wanted})
    spec["drive"]["tune"] = [setting]
    drive = open_drive(disk_folder, spec)
    with drive.hold():
        (step,) = drive.tune(spec["settings"])
        assert step.outcome == "not applicable"
        assert "serves others too" in step.reason
        assert view.read_text() == before
