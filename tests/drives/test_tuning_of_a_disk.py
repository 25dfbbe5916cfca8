"""Settings of a real disk: changed only with permission, and always restored."""

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
from measurements import Spec, measured, raw_files, start
from patience import wait, wait_for
from support import ROOT, file_cell

from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.drives import open_drive, restoring
from iopatterns.measuring.tuning import journal, mode_page, sg_commands
from iopatterns.measuring.tuning.journal import Journal, Owner, RestoreError
from iopatterns.measuring.tuning.queue_settings import set_attribute
from iopatterns.raw.metadata_files import is_measured, read_metadata


@dataclass
class MountedDisk:
    """A loop device with a mounted file system, whose settings nobody else needs."""

    loop: Loop
    folder: Path

    @property
    def name(self) -> str:
        return self.loop.device.name

    def attribute(self, setting: str) -> Path:
        return self.loop.scheduler.with_name(setting)

    def scheduler(self) -> str:
        return self.loop.present_scheduler()

    def set_scheduler(self, scheduler: str) -> None:
        self.loop.scheduler.write_text(scheduler)

    def connected(self) -> journal.Disk:
        found = journal.connected_disk(self.name)
        assert found is not None
        return found

    def journal(self) -> Journal:
        return Journal(self.connected(), Owner("loop", str(self.folder.parent)))


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[MountedDisk]:
    """Yield a mounted loop device; skip the test if none can be made."""
    folder = disk_folder / "mounted"
    folder.mkdir()
    with loop_device(disk_folder, "image", 256) as loop:
        if "mq-deadline" not in loop.scheduler.read_text():
            pytest.skip("this kernel offers no mq-deadline")
        loop.scheduler.write_text("none")
        run("mkfs.ext4", "-q", loop.device)
        run("mount", loop.device, folder)
        with undone("umount", folder):
            yield MountedDisk(loop, folder)


def cell(disk: MountedDisk, **settings: Any) -> Spec:
    """Return a cell on a file of the disk, which may change the given settings."""
    found = file_cell(disk.folder)
    return {**found, "drive": {**found["drive"], "name": "loop", "tune": list(settings)}, "settings": settings}


def test_the_scheduler_is_set_for_the_cell_and_restored(disk: MountedDisk, disk_folder: Path) -> None:
    (raw,) = measured(disk_folder, cell(disk, scheduler="deadline"))
    metadata = read_metadata(raw)
    assert is_measured(metadata)
    (step,) = metadata["tuning"]
    assert (step["before"], step["after"], step["outcome"]) == ("none", "mq-deadline", "changed")
    assert "in place of deadline" in step["reason"]
    assert metadata["drive"]["scheduler"] == "mq-deadline"
    assert disk.scheduler() == "none"


def test_the_legacy_scheduler_noop_is_none(disk: MountedDisk) -> None:
    step = set_attribute(disk.name, "scheduler", "noop", disk.journal().record)
    assert (step["outcome"], step["after"]) == ("already so", "none")


def test_a_scheduler_that_the_kernel_lacks_is_not_applicable(disk: MountedDisk) -> None:
    own_journal = disk.journal()
    step = set_attribute(disk.name, "scheduler", "anticipatory", own_journal.record)
    own_journal.restore()
    assert step["outcome"] == "not applicable"
    assert "mq-deadline" in step["reason"]
    assert disk.scheduler() == "none"


def test_a_setting_is_not_changed_without_permission(disk: MountedDisk, disk_folder: Path) -> None:
    spec = cell(disk, scheduler="deadline")
    del spec["drive"]["tune"]
    (raw,) = measured(disk_folder, spec)
    (step,) = read_metadata(raw)["tuning"]
    assert step["outcome"] == "not applicable"


def test_the_journal_is_written_before_the_change(disk: MountedDisk, disk_folder: Path) -> None:
    drive = open_drive(disk_folder, cell(disk, scheduler="deadline"))
    with drive.hold():
        drive.tune({"scheduler": "deadline"})
        assert disk.scheduler() == "mq-deadline"
        (path,) = journal.journal_paths(disk.connected())
        entry = journal.read_journal(path)
        assert entry is not None
        assert list(entry.settings) == ["scheduler", "nr_requests"]
        assert entry.settings["scheduler"] == "none"
        assert entry.owner == Owner("loop", str(disk_folder))
        assert path.stat().st_mode & 0o777 == 0o600
    assert disk.scheduler() == "none"
    assert not path.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_the_scheduler_is_restored_after_a_signal(disk: MountedDisk, disk_folder: Path, number: signal.Signals) -> None:
    spec = cell(disk, scheduler="deadline") | {"runtime_ms": 20_000}
    process = start(disk_folder, spec, raw_files(disk_folder, spec))
    wait_for(lambda: disk.scheduler() == "mq-deadline", otherwise="the scheduler was not set")
    process.send_signal(number)
    assert wait(process, 20) != 0
    assert disk.scheduler() == "none"


def test_a_complete_cell_restores_what_a_killed_run_changed(disk: MountedDisk, disk_folder: Path) -> None:
    spec = cell(disk, scheduler="none")
    raws = measured(disk_folder, spec)
    disk.journal().record("scheduler", "none")
    disk.set_scheduler("mq-deadline")
    assert measure_cell(disk_folder, spec, raws) == 0
    assert disk.scheduler() == "none"


# Restores what the journal of a disk lists, and ends like a measurement that gets a stop signal.
_RESTORING = """
import sys
from iopatterns.measuring.drives import restoring
from iopatterns.base.signals import Interrupted, interruptible
from iopatterns.measuring.tuning import disk_settings
from iopatterns.measuring.tuning.journal import Owner, connected_disk
disk_settings._vendor = lambda _: 'ATA'
try:
    with interruptible(), restoring.restored_on_exit(connected_disk(sys.argv[1]), Owner("loop", "/")):
        pass
except Interrupted as interrupt:
    sys.exit(128 + interrupt.signal_number)
"""


def test_a_stop_signal_waits_until_all_settings_are_restored(disk: MountedDisk, disk_folder: Path) -> None:
    # stands for hdparm, and takes a second for each setting
    tool = disk_folder / "bin/hdparm"
    tool.parent.mkdir()
    state = disk_folder / "look-ahead"
    state.write_text("0")
    tool.write_text(
        f'#!/bin/sh\ncase $1 in -A?) touch {disk_folder}/begun; sleep 1; echo "${{1#-A}}" >{state};; esac\n'
        f'echo " look-ahead = $(cat {state})"\n'
    )
    tool.chmod(0o755)
    own_journal = disk.journal()
    own_journal.record("look_ahead", 1)
    # a setting that is restored after the look-ahead
    own_journal.record("read_ahead_kb", 128)
    disk.attribute("read_ahead_kb").write_text("64")
    process = subprocess.Popen(
        [sys.executable, "-c", _RESTORING, disk.name],
        env={**os.environ, "PATH": f"{tool.parent}:{os.environ['PATH']}"},
        stderr=subprocess.DEVNULL,
    )
    wait_for((disk_folder / "begun").exists, 20, otherwise="nothing was restored")
    process.send_signal(signal.SIGTERM)
    assert disk.attribute("read_ahead_kb").read_text() == "64\n", "the signal came too late"
    assert wait(process, 20) == 128 + signal.SIGTERM
    assert (state.read_text(), disk.attribute("read_ahead_kb").read_text()) == ("1\n", "128\n")
    assert not own_journal.path.exists()


def test_a_setting_that_cannot_be_restored_is_an_error_and_stays_in_the_journal(disk: MountedDisk) -> None:
    own_journal = disk.journal()
    own_journal.record("nr_requests", 999_999_999)
    with pytest.raises(RestoreError, match=r"echo 999999999 > /sys/block/loop\d+/queue/nr_requests"):
        own_journal.restore()
    assert own_journal.path.exists()
    own_journal.path.unlink()


def test_the_first_recorded_value_is_restored(disk: MountedDisk) -> None:
    own_journal = disk.journal()
    for value in ("none", "mq-deadline"):
        own_journal.record("scheduler", value)
    disk.set_scheduler("mq-deadline")
    own_journal.restore()
    assert disk.scheduler() == "none"


def test_the_read_ahead_of_the_kernel_is_set_and_restored(disk: MountedDisk) -> None:
    file = disk.attribute("read_ahead_kb")
    before = file.read_text()
    with restoring.restored_on_exit(disk.connected(), Owner("loop", "/")) as own_journal:
        step = set_attribute(disk.name, "read_ahead_kb", 64, own_journal.record)
        assert (step["outcome"], step["before"], step["after"]) == ("changed", int(before), 64)
        assert file.read_text() == "64\n"
    assert file.read_text() == before


def test_a_number_of_requests_that_the_kernel_rejects_is_refused(disk: MountedDisk) -> None:
    file = disk.attribute("nr_requests")
    before = file.read_text()
    own_journal = disk.journal()
    step = set_attribute(disk.name, "nr_requests", 10**6, own_journal.record)
    assert step["outcome"] in {"refused", "ignored"}  # depends on the scheduler
    own_journal.restore()
    assert file.read_text() == before


def test_the_number_of_requests_is_restored_after_the_scheduler(disk: MountedDisk, disk_folder: Path) -> None:
    requests = disk.attribute("nr_requests")
    requests.write_text("100")  # changing the scheduler resets it
    before = disk.scheduler(), requests.read_text()
    (raw,) = measured(disk_folder, cell(disk, scheduler="deadline", nr_requests=32))
    outcomes = {step["setting"]: step["outcome"] for step in read_metadata(raw)["tuning"]}
    assert outcomes == {"scheduler": "changed", "nr_requests": "changed"}
    assert (disk.scheduler(), requests.read_text()) == before


def test_a_bit_whose_change_was_refused_needs_no_restoring(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = (ROOT / "data/twins/px05smb040.yaml").read_text()
    model = model.replace("DRA: {value: 0, behaviour: changeable", "DRA: {value: 0, behaviour: refused")
    (disk_folder / "refusing.yaml").write_text(model)
    # runs sdparm on a simulated drive instead of a real one
    shim = disk_folder / "bin/sdparm"
    shim.parent.mkdir()
    shim.write_text(
        f'#!/bin/sh\nexec twin run refusing.yaml --state state -- {shutil.which("sdparm")} "$1" {{drive}}\n'
    )
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{shim.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(disk_folder)
    disk = journal.Disk("twin-refusing", "0:0", None, "TWIN", None, None)
    own_journal = Journal(disk, Owner("twin", str(disk_folder)))
    access = mode_page.sdparm_access([], "/dev/twin-refusing", "DRA")
    assert sg_commands.set_value(access, "DRA", 1, own_journal.record)["outcome"] == "refused"
    entry = journal.read_journal(own_journal.path)
    assert entry is not None
    journal.restore_entry(own_journal.path, entry, entry.disk)
    assert not own_journal.path.exists()


@pytest.mark.parametrize(("setting", "wanted"), [("write_cache", "write through"), ("look_ahead", 0), ("WCE", 0)])
def test_the_caches_of_a_disk_under_a_file_are_not_changed(
    disk: MountedDisk, disk_folder: Path, setting: str, wanted: int | str
) -> None:
    view = disk.attribute("write_cache")
    before = view.read_text()
    spec = cell(disk, **{setting: wanted})
    drive = open_drive(disk_folder, spec)
    with drive.hold():
        (step,) = drive.tune(spec["settings"])
        assert step["outcome"] == "not applicable"
        assert "serves others too" in step["reason"]
        assert view.read_text() == before
