"""Settings of a disk come back whoever changed them, and nothing else is written, whatever a journal says."""

import copy
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from loops import Loop, loop_device, run, undone
from support import ROOT, disk_cell, processes_matching

from iopatterns.base import signals
from iopatterns.measuring.cell import Interrupted, interruptible
from iopatterns.measuring.drives import restoring
from iopatterns.measuring.tuning import journal, queue_settings
from iopatterns.raw import cells

NOBODY = 65534
FOUND, ASKED_FOR = "none", "mq-deadline"
TUNE = ["scheduler"]
Spec = Any  # a `records.Specification`, or one that a test has spoilt


@dataclass
class Checkout:
    """A folder with a configuration of its own, and commands run in it."""

    root: Path

    def describe(self, spec: Spec) -> Spec:
        (self.root / "config").mkdir(parents=True, exist_ok=True)
        entry = {key: value for key, value in spec["drive"].items() if key not in {"name", "file_size_bytes"}}
        (self.root / "config/drives.yaml").write_text(yaml.safe_dump({spec["drive"]["name"]: entry}))
        return spec

    def raws(self, spec: Spec, count: int = 1) -> list[Path]:
        folder = self.root / f"data/raw/{spec['drive']['name']}/study/x-{cells.specification_digest(spec)[:8]}"
        return [folder / f"{number:02d}.json" for number in range(1, count + 1)]

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "iopatterns", *words]

    def measuring(self, spec: Spec, count: int = 1) -> list[str]:
        self.describe(spec)
        return self.command("measure", "--specification", json.dumps(spec), *map(str, self.raws(spec, count)))

    def start(self, spec: Spec, count: int = 1, umask: int = 0o022) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            self.measuring(spec, count), cwd=self.root, stderr=subprocess.PIPE, text=True, umask=umask
        )

    def measure(self, spec: Spec) -> subprocess.CompletedProcess[str]:
        return self.run(self.measuring(spec))

    def restore(self) -> subprocess.CompletedProcess[str]:
        return self.run(self.command("restore"))

    def run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=self.root, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def state(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the journals, of this test's own."""
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
    """A file system on the disk, which anybody may write to."""
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


def wait_until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def killed(checkout: Checkout, spec: Spec, loop: Loop, umask: int = 0o022) -> None:
    """Kill a measurement (SIGKILL) once it has switched the scheduler."""
    process = checkout.start({**spec, "runtime_ms": 60_000}, umask=umask)
    wait_until(lambda: loop.present_scheduler() == ASKED_FOR or process.poll() is not None, "nothing was switched")
    process.send_signal(signal.SIGKILL)
    _, said = process.communicate(timeout=20)
    assert loop.present_scheduler() == ASKED_FOR, said
    wait_until(lambda: not processes_matching("--runtime=60000ms"), "fio goes on")


def journals(state: Path, checkout: Checkout) -> list[Path]:
    """Return what is noted, where it lies now and where a checkout brings it along."""
    return [*state.glob("*.json"), *checkout.root.glob("data/raw/*/.restore/*.json")]


# ---- Who finds what a killed run has left


@pytest.mark.parametrize("other", ["checkout", "entry", "file"])
def test_whoever_uses_the_disk_next_finds_what_a_killed_run_has_left(
    other: str, here: Checkout, loop: Loop, mounted: Path, disk_folder: Path
) -> None:
    killed(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    checkout = Checkout(disk_folder / "there") if other == "checkout" else here
    spec = on_file(mounted) if other == "file" else on_disk(loop, "other" if other == "entry" else "disk")
    done = checkout.measure(spec)
    assert done.returncode == 0, done.stderr
    sidecar = json.loads(checkout.raws(spec)[0].with_suffix(".sidecar.json").read_text())
    assert sidecar["drive"]["scheduler"] == FOUND
    assert loop.present_scheduler() == FOUND
    assert f"after an interrupted run for disk: put back scheduler of {loop.device}: {FOUND}" in done.stderr
    assert here.restore().stdout == "Nothing to restore.\n"


def test_the_journal_of_a_file_is_of_the_disk_under_it(
    here: Checkout, loop: Loop, mounted: Path, state: Path, disk_folder: Path
) -> None:
    killed(here, on_file(mounted, scheduler=ASKED_FOR), loop)
    run("umount", mounted)
    run("losetup", "--detach", loop.device)
    other = disk_folder / "other"
    other.touch()
    os.truncate(other, 256 * 2**20)
    run("losetup", loop.device, other)
    loop.scheduler.write_text(ASKED_FOR)
    done = here.restore()
    assert (done.returncode, loop.present_scheduler()) == (1, ASKED_FOR), "another disk had its setting changed"
    assert f"{loop.device} is no longer the disk with the serial '{loop.serial}'" in done.stderr
    assert len(journals(state, here)) == 1
    run("losetup", "--detach", loop.device)
    run("losetup", loop.device, loop.image)
    run("mount", loop.device, mounted)
    assert here.restore().returncode == 0
    assert loop.present_scheduler() == FOUND
    assert journals(state, here) == []


def test_a_restart_has_put_back_the_kernel_s_settings(here: Checkout, loop: Loop, state: Path) -> None:
    killed(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    (path,) = journals(state, here)
    noted = json.loads(path.read_text())
    path.write_text(json.dumps({**noted, "boot": "00000000-0000-0000-0000-000000000000"}))
    done = here.restore()
    assert done.returncode == 0, done.stderr
    assert f"disk: the kernel has set scheduler of {loop.device} up anew since" in done.stdout
    assert loop.present_scheduler() == ASKED_FOR  # as whoever sets the machine up has it now
    assert journals(state, here) == []


# ---- What a journal may say


def test_a_journal_names_no_file_that_is_written(here: Checkout, disk_folder: Path, state: Path) -> None:
    victim = disk_folder / "any-path"
    victim.write_text("the user's")
    text = json.dumps([{"file": str(victim), "value": "0wned"}])
    for folder in (here.root / "data/raw/disk/.restore", state):
        folder.mkdir(parents=True)
        (folder / "journal.json").write_text(text)
    done = here.restore()
    assert victim.read_text() == "the user's"
    assert done.returncode == 1
    assert "journal.json" in done.stderr


def test_a_journal_is_its_owner_s_alone_whatever_the_umask(here: Checkout, loop: Loop, state: Path) -> None:
    killed(here, on_disk(loop, scheduler=ASKED_FOR), loop, umask=0)
    (path,) = journals(state, here)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert not folder.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), folder


@pytest.mark.parametrize("whose", ["another user's", "open to others", "a link", "a fifo", "in an open folder"])
def test_what_others_can_have_written_is_not_carried_out(whose: str, here: Checkout, loop: Loop, state: Path) -> None:
    killed(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    (path,) = journals(state, here)
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
    # nor does anybody measure with settings of which nothing is known
    measured = here.measure(on_disk(loop))
    assert measured.returncode == 1
    assert "not trusted" in measured.stderr


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


MALFORMED = {
    "not JSON": "{",
    "not text": b"\xff\xfe",
    "empty": "",
    "a list": "[]",
    "a number": "7",
    "null": "null",
    "missing keys": json.dumps({key: GOOD[key] for key in ("disk", "boot")}),
    "another key": changed("file", value="/any/path"),
    "nothing noted": changed("settings", value=[]),
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
def said_of_malformed(module_disk_folder: Path) -> tuple[int, list[str]]:
    """What `iopatterns restore` says of all that are malformed, and its exit status."""
    checkout = Checkout(module_disk_folder)
    for number, (name, text) in enumerate(MALFORMED.items()):
        old = module_disk_folder / f"data/raw/{number}/.restore/journal.json"
        for path in (module_disk_folder / "state/journal" / f"bad-{number:012x}.loop0.json", old):
            path.parent.mkdir(parents=True, exist_ok=True)
            if text is None:
                path.mkdir()
            else:
                path.write_bytes(text if isinstance(text, bytes) else text.encode())
        assert name
    (module_disk_folder / "state/journal/\x1b[2Jof\nnobody.json").write_text("{}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IOPATTERNS_STATE", str(module_disk_folder / "state"))
        done = checkout.restore()
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.returncode, done.stderr.splitlines()


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_journal_is_told_in_one_line(name: str, said_of_malformed: tuple[int, list[str]]) -> None:
    status, said = said_of_malformed
    assert status == 1
    (line,) = (line for line in said if f"bad-{list(MALFORMED).index(name):012x}.loop0.json: not " in line)
    assert line.endswith("then delete it.")
    assert line.isprintable()
    assert len(line) < 600


def test_nothing_else_is_said_of_what_is_no_journal(said_of_malformed: tuple[int, list[str]]) -> None:
    (other,) = (line for line in said_of_malformed[1] if "/bad-" not in line)
    assert r"\x1b[2Jof\nnobody.json" in other
    assert other.isprintable()


def test_restore_goes_on_past_a_bad_journal(here: Checkout, loop: Loop, state: Path) -> None:
    killed(here, on_disk(loop, "middle", scheduler=ASKED_FOR), loop)
    (good,) = journals(state, here)
    for name in ("0-000000000000.sda.json", "zz-000000000000.sda.json"):
        (good.parent / name).write_text("{")
    for entry in ("before", "zz"):
        bad = here.root / f"data/raw/{entry}/.restore/journal.json"
        bad.parent.mkdir(parents=True)
        bad.write_text("{")
    done = here.restore()
    assert done.returncode == 1
    assert f"middle: put back scheduler of {loop.device}: {FOUND}\n" in done.stdout
    assert loop.present_scheduler() == FOUND
    assert not good.exists()
    assert [line for line in ("/0-", "/zz-") if line in done.stderr] == ["/0-", "/zz-"]


# ---- Beside a running measurement


@pytest.mark.parametrize("kind", ["block", "file"])
def test_restore_beside_a_running_measurement_leaves_its_settings(
    kind: str, here: Checkout, loop: Loop, mounted: Path
) -> None:
    spec = on_disk(loop, "disk", 4000) if kind == "block" else on_file(mounted, "disk", 4000)
    spec["settings"] = {"scheduler": ASKED_FOR}
    process = here.start(spec)
    wait_until(lambda: loop.present_scheduler() == ASKED_FOR or process.poll() is not None, "nothing was switched")
    done = here.restore()
    now = loop.present_scheduler()
    assert process.wait(timeout=60) == 0
    assert now == ASKED_FOR
    assert done.returncode == 0, done.stderr
    assert f"disk: {loop.device} is being measured by process {process.pid}, which will restore " in done.stdout
    assert loop.present_scheduler() == FOUND
    assert here.raws(spec)[0].exists()


def test_a_file_is_not_measured_while_settings_of_its_disk_are_changed(
    here: Checkout, loop: Loop, mounted: Path
) -> None:
    process = here.start(on_disk(loop, "disk", 3000, scheduler=ASKED_FOR))
    wait_until(lambda: loop.present_scheduler() == ASKED_FOR or process.poll() is not None, "nothing was switched")
    spec = on_file(mounted)
    del spec["drive"]["tune"]
    done = Checkout(here.root.parent / "there").measure(spec)
    assert process.wait(timeout=60) == 0
    assert done.returncode == 0, done.stderr
    assert f"the disk under drive 'filed' is being measured by process {process.pid}; waiting for it" in done.stderr
    raw = here.root.parent / "there" / Checkout(Path()).raws(spec)[0]
    assert json.loads(raw.with_suffix(".sidecar.json").read_text())["drive"]["scheduler"] == FOUND


def test_measurements_that_change_no_settings_share_a_disk(loop: Loop) -> None:
    from iopatterns.measuring.drives.lock import DiskBusyError, locked

    number = loop.device.stat().st_rdev
    with locked(number, waiting=None, shared=True):
        with locked(number, waiting=None, shared=True):
            pass
        with pytest.raises(DiskBusyError, match=f"process {os.getpid()}"), locked(number, waiting=None):
            pass


@pytest.mark.parametrize("kind", ["block", "file"])
def test_an_execution_during_which_a_setting_changes_is_not_kept(
    kind: str, here: Checkout, loop: Loop, mounted: Path
) -> None:
    spec = on_disk(loop, "disk", 2500) if kind == "block" else on_file(mounted, "disk", 2500)
    spec["settings"] = {"scheduler": ASKED_FOR}
    process = here.start(spec, 2)
    first, second = here.raws(spec, 2)
    wait_until(lambda: first.exists() or process.poll() is not None, "nothing was measured")
    time.sleep(0.5)
    loop.scheduler.write_text("kyber" if "kyber" in loop.scheduler.read_text() else FOUND)
    changed_to = loop.present_scheduler()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    assert f"02.json: not kept, for settings changed while it was measured: scheduler of {loop.device.name}" in said
    assert f"was {ASKED_FOR} after tuning and is {changed_to} now" in said
    assert first.exists()
    assert not second.exists()
    assert not list(second.parent.glob(".*"))
    assert loop.present_scheduler() == FOUND


def test_a_twin_whose_settings_change_is_not_as_it_was_tuned(
    disk_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from iopatterns.measuring.drives import open_drive
    from iopatterns.twin import models

    monkeypatch.chdir(disk_folder)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    drive = {"kind": "twin", "model": "px05smb040", "name": "twin", "file_size_bytes": 64 * 2**20}
    digest = models.load_model("px05smb040").digest
    spec: Spec = {"drive": {**drive, "model_digest": digest}, "fio": {"rw": "read"}}
    twin: Any = open_drive(disk_folder, spec)
    with twin.hold():
        twin.prepare()
        steps = [step.record() for step in twin.tune({"DRA": 1})]
        read = ["fio", "--name=job", "--filename={drive}", "--size=1m", "--direct=1"]
        subprocess.run([*twin.prefix, *read], capture_output=True, check=True)
        assert twin.changed_settings(steps) == []
        subprocess.run([*twin.prefix, "sdparm", "--set=DRA=0", "{drive}"], capture_output=True, check=True)
        (told,) = twin.changed_settings(steps)
        assert "DRA (set to 1)" in told


# ---- Users


def as_a_user(command: list[str], of_root: Path, home: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder as a user who has no rights, where ``of_root`` lies in /var/lib/iopatterns.

    That is in a mount namespace of its own, in which the user can also reach what the tests run, wherever that lies.
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


def test_a_user_is_told_of_what_root_has_left_changed(
    here: Checkout, loop: Loop, mounted: Path, state: Path, disk_folder: Path
) -> None:
    if shutil.which("unshare") is None or shutil.which("setpriv") is None:
        pytest.skip("needs unshare and setpriv (apt-get install util-linux)")
    killed(here, on_disk(loop, scheduler=ASKED_FOR), loop)
    there = Checkout(disk_folder / "there")
    command = there.measuring(on_file(mounted))
    for path in (there.root, *there.root.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    done = as_a_user(command, state.parent, there.root)
    assert done.returncode == 1, done.stderr
    assert f"{loop.device}: root has changed settings of this disk" in done.stderr
    assert "/var/lib/iopatterns/journal/" in done.stderr
    assert "sudo iopatterns restore" in done.stderr
    assert "Traceback" not in done.stderr
    done = as_a_user(there.command("restore"), state.parent, there.root)
    assert done.returncode == 1
    assert "only root can restore these settings: sudo iopatterns restore" in done.stderr
    assert loop.present_scheduler() == ASKED_FOR
    assert here.restore().returncode == 0
    done = as_a_user(command, state.parent, there.root)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("module", "name"), [(journal, "disk_of"), (signals, "stop_signals_blocked")])
def test_a_signal_at_the_moment_that_settings_begin_to_be_put_back_waits_until_they_are(
    loop: Loop, state: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    """The signal comes with the first call of a function on that way: no sender could choose the moment so well."""
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
        with interruptible(), restoring.restored_on_exit(found, journal.Owner("disk", "/here")) as noting:
            queue_settings.set_attribute(loop.device.name, "scheduler", ASKED_FOR, noting.record)
            assert loop.present_scheduler() == ASKED_FOR
            monkeypatch.setattr(module, name, disturbed)

    with pytest.raises(Interrupted):
        measure()
    assert sent
    assert loop.present_scheduler() == FOUND
    assert not list(state.glob("*.json"))
