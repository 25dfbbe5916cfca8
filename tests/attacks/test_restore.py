"""Settings of a disk are restored, and a journal cannot cause other writes."""

import copy
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from loops import Loop, loop_device, run, undone
from measurements import Spec, describe_drive, raw_files, start, twin_cell
from patience import communicate, wait, wait_for
from support import ROOT, disk_cell, processes_matching

from iopatterns.base import signals
from iopatterns.base.signals import Interrupted, interruptible
from iopatterns.measuring.drives import open_drive, restoring
from iopatterns.measuring.drives.lock import DiskBusyError, locked
from iopatterns.measuring.tuning import journal, queue_settings
from iopatterns.raw.metadata_files import read_metadata

NOBODY = 65534
FOUND, ASKED_FOR = "none", "mq-deadline"
TUNE = ["scheduler"]


@dataclass
class Checkout:
    """A folder with a configuration of its own, and commands run in it."""

    root: Path

    def raws(self, spec: Spec, count: int = 1) -> list[Path]:
        return raw_files(self.root, spec, count)

    def start(self, spec: Spec, count: int = 1, umask: int = 0o022) -> "subprocess.Popen[str]":
        entry = {key: value for key, value in spec["drive"].items() if key not in {"name", "file_size_bytes"}}
        describe_drive(self.root, entry, spec["drive"]["name"])
        return start(self.root, spec, self.raws(spec, count), umask=umask)

    def measure(self, spec: Spec) -> tuple[int, str]:
        """Measure a cell; return the exit status and what was printed."""
        process = self.start(spec)
        _, printed = communicate(process, 60)
        return process.returncode, printed

    def restore(self) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "iopatterns", "restore"]
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def state(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a folder of journals for this test only."""
    disk_folder.chmod(0o755)
    monkeypatch.setenv("IOPATTERNS_STATE", str(disk_folder / "state"))
    return disk_folder / "state/journal"


@pytest.fixture
def loop(disk_folder: Path, state: Path) -> Iterator[Loop]:
    with loop_device(disk_folder, "image", 256) as found:
        if ASKED_FOR not in found.scheduler.read_text():
            pytest.skip(f"this kernel offers no {ASKED_FOR}")
        found.scheduler.write_text(FOUND)
        yield found


@pytest.fixture
def mounted(loop: Loop, disk_folder: Path) -> Iterator[Path]:
    """Mount a file system on the disk that everybody may write to."""
    folder = disk_folder / "mounted"
    folder.mkdir()
    run("mkfs.ext4", "-q", loop.device)
    run("mount", loop.device, folder)
    folder.chmod(0o1777)
    with undone("umount", folder):
        yield folder


@pytest.fixture
def here(disk_folder: Path) -> Checkout:
    return Checkout(disk_folder / "here")


def on_disk(loop: Loop, name: str = "disk", runtime_ms: int = 100, **settings: Any) -> Spec:
    entry = {"kind": "block", "path": str(loop.device), "serial": loop.serial, "tune": TUNE}
    return disk_cell(entry, name, "randread", runtime_ms, **settings)


def on_file(folder: Path, name: str = "filed", runtime_ms: int = 100, **settings: Any) -> Spec:
    entry = {"kind": "file", "path": str(folder / "drive.bin"), "tune": TUNE}
    return disk_cell(entry, name, "randread", runtime_ms, **settings)


def wait_until_set(loop: Loop, process: "subprocess.Popen[str]") -> None:
    """Wait until a process has changed the scheduler."""
    wait_for(lambda: loop.present_scheduler() == ASKED_FOR or process.poll() is not None, 60)
    assert loop.present_scheduler() == ASKED_FOR


def kill_tuned(checkout: Checkout, spec: Spec, loop: Loop, umask: int = 0o022) -> None:
    """Kill a measurement (SIGKILL) after it has changed the scheduler."""
    process = checkout.start({**spec, "runtime_ms": 60_000}, umask=umask)
    wait_until_set(loop, process)
    process.send_signal(signal.SIGKILL)
    communicate(process, 20)
    assert loop.present_scheduler() == ASKED_FOR
    wait_for(lambda: not processes_matching("--runtime=60000ms"))


def journals(state: Path) -> list[Path]:
    return list(state.glob("*.json"))


# ---- After a killed run


@pytest.mark.parametrize("other", ["checkout", "entry", "file"])
def test_the_next_user_of_the_disk_restores_its_settings(
    other: str, here: Checkout, loop: Loop, mounted: Path, disk_folder: Path
) -> None:
    kill_tuned(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    checkout = Checkout(disk_folder / "there") if other == "checkout" else here
    spec = on_file(mounted) if other == "file" else on_disk(loop, "other" if other == "entry" else "disk")
    status, printed = checkout.measure(spec)
    assert status == 0, printed
    assert read_metadata(checkout.raws(spec)[0])["drive"]["scheduler"] == FOUND
    assert loop.present_scheduler() == FOUND
    assert f"after an interrupted run for disk: restored scheduler of {loop.device}: {FOUND}" in printed
    assert here.restore().stdout == "Nothing to restore.\n"


def test_the_journal_of_a_file_drive_is_for_the_disk_under_it(
    here: Checkout, loop: Loop, mounted: Path, state: Path, disk_folder: Path
) -> None:
    kill_tuned(here, on_file(mounted, scheduler=ASKED_FOR), loop)
    run("umount", mounted)
    run("losetup", "--detach", loop.device)
    other = disk_folder / "other"
    other.touch()
    os.truncate(other, 256 * 2**20)
    run("losetup", loop.device, other)
    loop.scheduler.write_text(ASKED_FOR)
    done = here.restore()
    assert (done.returncode, loop.present_scheduler()) == (1, ASKED_FOR), "the setting of another disk was changed"
    assert f"{loop.device} is no longer the disk with the serial '{loop.serial}'" in done.stderr
    assert len(journals(state)) == 1
    run("losetup", "--detach", loop.device)
    run("losetup", loop.device, loop.image)
    run("mount", loop.device, mounted)
    assert here.restore().returncode == 0
    assert loop.present_scheduler() == FOUND
    assert journals(state) == []


def test_settings_of_the_kernel_are_not_restored_after_a_restart(here: Checkout, loop: Loop, state: Path) -> None:
    kill_tuned(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    (path,) = journals(state)
    entry = json.loads(path.read_text())
    path.write_text(json.dumps({**entry, "boot": "00000000-0000-0000-0000-000000000000"}))
    done = here.restore()
    assert done.returncode == 0, done.stderr
    assert f"disk: left scheduler of {loop.device} as it is: the kernel has set it up again since" in done.stdout
    assert loop.present_scheduler() == ASKED_FOR  # as it was set up after the restart
    assert journals(state) == []


# ---- Journals that are not valid


def test_a_journal_cannot_name_a_file_to_write(here: Checkout, disk_folder: Path, state: Path) -> None:
    victim = disk_folder / "any-path"
    victim.write_text("the user's")
    here.root.mkdir()
    state.mkdir(parents=True)
    (state / "journal.json").write_text(json.dumps([{"file": str(victim), "value": "0wned"}]))
    done = here.restore()
    assert victim.read_text() == "the user's"
    assert done.returncode == 1
    assert "journal.json" in done.stderr


def test_only_the_owner_may_read_a_journal_for_any_umask(here: Checkout, loop: Loop, state: Path) -> None:
    kill_tuned(here, on_disk(loop, scheduler=ASKED_FOR), loop, umask=0)
    (path,) = journals(state)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert not folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), folder


@pytest.mark.parametrize("whose", ["another user's", "open to others", "a link", "a fifo", "in an open folder"])
def test_a_journal_that_others_may_have_written_is_not_trusted(
    whose: str, here: Checkout, loop: Loop, state: Path
) -> None:
    kill_tuned(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    (path,) = journals(state)
    if whose == "another user's":
        os.chown(path, NOBODY, NOBODY)
    elif whose == "open to others":
        path.chmod(0o620)
    elif whose == "a link":
        path.rename(path.with_name(".elsewhere"))
        path.symlink_to(".elsewhere")
    elif whose == "a fifo":
        path.unlink()
        os.mkfifo(path, 0o600)
    else:
        path.parent.chmod(0o777)
    done = here.restore()
    assert done.returncode == 1
    assert loop.present_scheduler() == ASKED_FOR
    assert len(done.stderr.splitlines()) == 1
    assert str(path.parent) in done.stderr
    assert "not trusted" in done.stderr
    # nor is the disk measured with unknown settings
    status, printed = here.measure(on_disk(loop))
    assert status == 1
    assert "not trusted" in printed


GOOD: dict[str, Any] = {
    "disk": {"device": "loop0", "number": "7:0", "sequence": 1, "serial": "S", "model": None, "size_bytes": 4096},
    "boot": "",
    "by": {"drive": "disk", "checkout": "/"},
    "process": 1,
    "settings": [{"setting": "scheduler", "value": "none"}],
}


def changed(*keys: str | int, value: Any) -> str:
    content: Any = copy.deepcopy(GOOD)
    inner = content
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return json.dumps(content)


def with_setting(setting: Any, value: Any) -> str:
    return changed("settings", 0, value={"setting": setting, "value": value})


INVALID = {
    "not JSON": "{",
    "not text": b"\xff\xfe",
    "empty": "",
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "missing keys": json.dumps({key: GOOD[key] for key in ("disk", "boot")}),
    "another key": changed("file", value="/any/path"),
    "no settings": changed("settings", value=[]),
    "a setting that is no mapping": changed("settings", value=["scheduler"]),
    "a setting without a value": changed("settings", value=[{"setting": "scheduler"}]),
    "a setting twice": changed("settings", value=GOOD["settings"] * 2),
    "unknown setting": with_setting("nomerges", 1),
    "a setting that is a path": with_setting("../../../../any/path", "none"),
    "a setting that is a list": with_setting(["scheduler"], "none"),
    "a scheduler of two words": with_setting("scheduler", "none\nmq-deadline"),
    "a scheduler with NUL": with_setting("scheduler", "none\0"),
    "requests as text": with_setting("nr_requests", "64"),
    "requests below zero": with_setting("nr_requests", -1),
    "requests beyond all": with_setting("nr_requests", 10**400),
    "requests that are no number": with_setting("nr_requests", float("nan")),
    "a view that is none": with_setting("write_cache", "write nowhere"),
    "a bit of two": with_setting("WCE", 2),
    "a bit that is true": with_setting("WCE", True),
    "a bit as text": with_setting("WCE", "1"),
    "a device that is a path": changed("disk", "device", value="../../etc"),
    "a device with NUL": changed("disk", "device", value="loop0\0"),
    "a device that is a number": changed("disk", "device", value=7),
    "a disk that is a list": changed("disk", value=[]),
    "a number that is none": changed("disk", "number", value="7:0:1"),
    "a size that is text": changed("disk", "size_bytes", value="4096"),
    "a serial that is a mapping": changed("disk", "serial", value={"a": 1}),
    "a serial of a megabyte": changed("disk", "serial", value="S" * 900_000),
    "an entry with escapes": changed("by", "drive", value="\x1b[2J\n" * 2000),
    "another disk's name": json.dumps(GOOD),
    "nested": "[" * 200_000,
    "huge": "[" + "0," * 2**20 + "0]",
    "a folder": None,
}


@pytest.fixture(scope="module")
def errors_of_invalid(module_disk_folder: Path) -> tuple[int, list[str]]:
    """Return exit status and errors of `iopatterns restore` for invalid journals."""
    folder = module_disk_folder / "state/journal"
    folder.mkdir(parents=True)
    for number, text in enumerate(INVALID.values()):
        path = folder / f"bad-{number:012x}.loop0.json"
        if text is None:
            path.mkdir()
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "\x1b[2Jof\nnobody.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IOPATTERNS_STATE", str(module_disk_folder / "state"))
        done = Checkout(module_disk_folder).restore()
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("name", INVALID)
def test_an_invalid_journal_is_an_error_of_one_line(name: str, errors_of_invalid: tuple[int, list[str]]) -> None:
    status, printed = errors_of_invalid
    assert status == 1
    (line,) = (line for line in printed if f"bad-{list(INVALID).index(name):012x}.loop0.json: not " in line)
    assert line.endswith("then delete it.")
    assert line.isprintable()
    assert len(line) < 600


def test_the_only_other_error_is_of_a_file_with_control_characters(errors_of_invalid: tuple[int, list[str]]) -> None:
    (other,) = (line for line in errors_of_invalid[1] if "/bad-" not in line)
    assert r"\x1b[2Jof\nnobody.json" in other
    assert other.isprintable()


def test_restore_continues_after_an_invalid_journal(here: Checkout, loop: Loop, state: Path) -> None:
    kill_tuned(here, on_disk(loop, "middle", scheduler=ASKED_FOR), loop)
    (good,) = journals(state)
    for name in ("0-000000000000.sda.json", "zz-000000000000.sda.json"):
        (good.parent / name).write_text("{")
    done = here.restore()
    assert done.returncode == 1
    assert f"middle: restored scheduler of {loop.device}: {FOUND}\n" in done.stdout
    assert loop.present_scheduler() == FOUND
    assert not good.exists()
    assert [line for line in ("/0-", "/zz-") if line in done.stderr] == ["/0-", "/zz-"]


# ---- Beside a running measurement


@pytest.mark.parametrize("kind", ["block", "file"])
def test_restore_does_not_change_settings_of_a_running_measurement(
    kind: str, here: Checkout, loop: Loop, mounted: Path
) -> None:
    spec = on_disk(loop, "disk", 4000) if kind == "block" else on_file(mounted, "disk", 4000)
    spec["settings"] = {"scheduler": ASKED_FOR}
    process = here.start(spec)
    wait_until_set(loop, process)
    done = here.restore()
    now = loop.present_scheduler()
    assert wait(process, 60) == 0
    assert now == ASKED_FOR
    assert done.returncode == 0, done.stderr
    assert f"disk: {loop.device} is being measured by process {process.pid}, which will restore " in done.stdout
    assert loop.present_scheduler() == FOUND
    assert here.raws(spec)[0].exists()


def test_a_file_is_not_measured_while_settings_of_its_disk_are_changed(
    here: Checkout, loop: Loop, mounted: Path
) -> None:
    process = here.start(on_disk(loop, "disk", 3000, scheduler=ASKED_FOR))
    wait_until_set(loop, process)
    spec = on_file(mounted)
    del spec["drive"]["tune"]
    there = Checkout(here.root.parent / "there")
    status, printed = there.measure(spec)
    assert wait(process, 60) == 0
    assert status == 0, printed
    assert f"the disk under drive 'filed' is being measured by process {process.pid}; waiting for it" in printed
    assert read_metadata(there.raws(spec)[0])["drive"]["scheduler"] == FOUND


def test_measurements_that_change_no_settings_share_a_disk(loop: Loop) -> None:
    number = loop.device.stat().st_rdev
    with locked(number, subject=None, shared=True):
        with locked(number, subject=None, shared=True):
            pass
        with pytest.raises(DiskBusyError, match=f"process {os.getpid()}"), locked(number, subject=None):
            pass


@pytest.mark.parametrize("kind", ["block", "file"])
def test_a_repetition_during_which_a_setting_changes_is_discarded(
    kind: str, here: Checkout, loop: Loop, mounted: Path
) -> None:
    spec = on_disk(loop, "disk", 2500) if kind == "block" else on_file(mounted, "disk", 2500)
    spec["settings"] = {"scheduler": ASKED_FOR}
    process = here.start(spec, 2)
    first, second = here.raws(spec, 2)
    wait_for(lambda: first.exists() or process.poll() is not None, 60)
    time.sleep(0.5)
    loop.scheduler.write_text("kyber" if "kyber" in loop.scheduler.read_text() else FOUND)
    changed_to = loop.present_scheduler()
    _, printed = communicate(process, 60)
    assert process.returncode == 1, printed
    assert f"02.json: discarded, because settings changed meanwhile: scheduler of {loop.device.name}" in printed
    assert f"was {ASKED_FOR} after tuning and is {changed_to} now" in printed
    assert first.exists()
    assert not second.exists()
    assert not list(second.parent.glob(".*"))
    assert loop.present_scheduler() == FOUND


def test_a_changed_setting_of_a_twin_is_noticed(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(disk_folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    spec = twin_cell(rw="read")
    twin: Any = open_drive(disk_folder, spec)
    with twin.hold():
        twin.prepare()
        steps = twin.tune({"DRA": 1})
        read = ["fio", "--name=job", "--filename={drive}", "--size=1m", "--direct=1"]
        subprocess.run([*twin.prefix, *read], capture_output=True, check=True)
        assert twin.changed_settings(steps) == []
        subprocess.run([*twin.prefix, "sdparm", "--set=DRA=0", "{drive}"], capture_output=True, check=True)
        (message,) = twin.changed_settings(steps)
        assert "DRA (set to 1)" in message


# ---- Users


def as_a_user(command: list[str], of_root: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command as an unprivileged user, with a state folder of root.

    ``of_root`` is mounted at /var/lib/iopatterns, and ``home`` is the working directory.

    The mount namespace also gives the user access to the checkout and to Python, wherever they are.
    """
    script = ["set -e", "mount -t tmpfs none /var/lib", f"cp -rp {of_root} /var/lib/iopatterns", "mkdir /var/lib/shut"]
    needed = [Path(sys.base_prefix).resolve(), ROOT]
    shut = {
        next((up for up in reversed([path, *path.parents]) if not up.stat().st_mode & stat.S_IXOTH), None)
        for path in needed
    }
    for number, folder in enumerate(sorted(shut - {None}, key=str)):
        aside = f"/var/lib/shut/{number}"
        script += [f"mkdir {aside}", f"mount --rbind {folder} {aside}", f"mount -t tmpfs -o mode=755 none {folder}"]
        for path in needed:
            if folder is not None and path.is_relative_to(folder):
                script += [f"mkdir -p {path}", f"mount --rbind {aside}/{path.relative_to(folder)} {path}"]
    script += [f"cd {home}", 'exec "$@"']
    user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", "-u", "IOPATTERNS_STATE"]
    words = ["unshare", "--mount", "sh", "-c", "\n".join(script), "sh", *user, f"XDG_STATE_HOME={home / 'state'}"]
    done = subprocess.run([*words, *command], capture_output=True, text=True, timeout=120, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount namespace can be made here: {done.stderr}")
    return done


def test_a_user_cannot_measure_before_root_has_restored(
    here: Checkout, loop: Loop, mounted: Path, state: Path, disk_folder: Path
) -> None:
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs unshare and setpriv (apt-get install util-linux)")
    kill_tuned(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    there = Checkout(disk_folder / "there")
    spec = on_file(mounted)
    describe_drive(there.root, {key: spec["drive"][key] for key in ("kind", "path", "tune")}, "filed")
    python = [sys.executable, "-m", "iopatterns"]
    command = [*python, "measure", "--specification", json.dumps(spec), *map(str, there.raws(spec))]
    for path in (there.root, *there.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    done = as_a_user(command, state.parent, there.root)
    assert done.returncode == 1, done.stderr
    assert f"{loop.device}: root has changed settings of this disk" in done.stderr
    assert "/var/lib/iopatterns/journal/" in done.stderr
    assert "sudo iopatterns restore" in done.stderr
    assert "Traceback" not in done.stderr
    done = as_a_user([*python, "restore"], state.parent, there.root)
    assert done.returncode == 1
    assert "only root can restore these settings: sudo iopatterns restore" in done.stderr
    assert loop.present_scheduler() == ASKED_FOR
    assert here.restore().returncode == 0
    done = as_a_user(command, state.parent, there.root)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("module", "name"), [(journal, "find_disk"), (signals, "stop_signals_blocked")])
def test_a_signal_when_restoring_begins_does_not_prevent_it(
    loop: Loop, state: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    """Send a signal in the first call of a function, at the worst possible time."""
    really = getattr(module, name)
    sent: list[int] = []

    def disturbed(*given: Any) -> Any:
        if not sent:
            sent.append(signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)
        return really(*given)

    def measure() -> None:
        found = journal.connected_disk(loop.device.name)
        assert found is not None
        with interruptible(), restoring.restored_on_exit(found, journal.Owner("disk", "/here")) as own_journal:
            queue_settings.set_attribute(loop.device.name, "scheduler", ASKED_FOR, own_journal.record)
            assert loop.present_scheduler() == ASKED_FOR
            monkeypatch.setattr(module, name, disturbed)

    with pytest.raises(Interrupted):
        measure()
    assert sent
    assert loop.present_scheduler() == FOUND
    assert not list(state.glob("*.json"))
