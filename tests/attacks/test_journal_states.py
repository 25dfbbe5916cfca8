"""Whatever happens to runs, users and disks: no original value of a setting is lost.

Hypothesis chooses what happens. The journals are real files. Each run is a process that may be killed at any system
call on a journal. One file simulates the kernel and the disks, because real ones can neither be restarted nor renamed.
"""

import contextlib
import functools
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from failing_calls import Crash, Observed, require_filter, run_observed
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from iopatterns.base import host_state
from iopatterns.base.errors import IoPatternsError
from iopatterns.measuring import machine
from iopatterns.measuring.drives import restoring
from iopatterns.measuring.tuning import disk_settings, journal, queue_settings
from iopatterns.raw import tuning_steps

NOBODY = 65534
DEFAULTS: dict[str, int | str] = {"scheduler": "none", "nr_requests": 64, "read_ahead_kb": 128}
SCHEDULERS = ("none", "mq-deadline", "kyber")
VALUES: dict[str, tuple[int | str, ...]] = {
    "scheduler": SCHEDULERS,
    "nr_requests": (32, 64, 100),
    "read_ahead_kb": (0, 128, 256),
    "WCE": (0, 1),
}
SERIALS = {"with": "S1", "twin of with": "S2", "without": None}


class Kernel:
    """A kernel with disks, kept in one file that is replaced atomically."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.write({"boot": 1, "sequence": 0, "disks": {}})

    def read(self) -> Any:
        return json.loads((self.folder / "kernel.json").read_text())

    def write(self, content: Any) -> None:
        new = self.folder / f"new-{os.getpid()}"
        new.write_text(json.dumps(content))
        new.replace(self.folder / "kernel.json")

    def connect(self, disk: str, device: str) -> None:
        """Connect a disk under a name; its queue has the kernel's defaults."""
        content = self.read()
        content["sequence"] += 1
        before = content["disks"].get(disk, {"WCE": 1})
        queue = {**DEFAULTS, "device": device, "sequence": content["sequence"]}
        content["disks"][disk] = {"WCE": before["WCE"], **queue}
        self.write(content)

    def disconnect(self, disk: str) -> None:
        content = self.read()
        content["disks"][disk]["device"] = None
        self.write(content)

    def at(self, device: str) -> tuple[str, Any] | None:
        """Return the name and the state of the disk that has a kernel's name."""
        found = self.read()["disks"].items()
        return next(((name, disk) for name, disk in found if disk["device"] == device), None)

    def set(self, disk: str, setting: str, value: int | str) -> None:
        content = self.read()
        if setting == "scheduler" and content["disks"][disk]["scheduler"] != value:
            content["disks"][disk]["nr_requests"] = DEFAULTS["nr_requests"]
        content["disks"][disk][setting] = value
        self.write(content)

    # ---- In place of the functions that ask the real kernel

    def read_file(self, path: Path | str) -> str | None:
        if str(path) == "/proc/sys/kernel/random/boot_id":
            return f"{self.read()['boot']:036d}"
        device, _, attribute = str(path).removeprefix("/sys/block/").partition("/")
        found = self.at(device)
        if found is None:
            return None
        disk = found[1]
        if attribute == "dev":
            return f"8:{ord(device[-1])}"
        if attribute == "diskseq":
            return str(disk["sequence"])
        if attribute == "queue/scheduler":
            return " ".join(f"[{name}]" if name == disk["scheduler"] else name for name in SCHEDULERS)
        return str(disk[attribute.removeprefix("queue/")])

    def facts(self, node: Path) -> Any:
        found = self.at(node.name)
        if found is None:
            raise FileNotFoundError(node)
        return {"device": node.name, "serial": SERIALS[found[0]], "model": "M", "size_bytes": 4096}

    def set_on_disk(self, node: Path, setting: str, wanted: int, note: Any = None) -> tuning_steps.TuningStep:
        found = self.at(node.name)
        assert found is not None
        before = found[1][setting]
        if before != wanted:
            if note is not None:
                note(setting, before)
            self.set(found[0], setting, wanted)
        return tuning_steps.tuning_step(setting, wanted, tuning_steps.CHANGED, "", before=before, after=wanted)


class Attribute:
    """A file of sysfs that only root can write."""

    def __init__(self, kernel: Kernel, device: str, setting: str) -> None:
        self._kernel, self._device, self._setting = kernel, device, setting

    def __str__(self) -> str:
        return f"/sys/block/{self._device}/queue/{self._setting}"

    def read_text(self, encoding: str, errors: str) -> str:
        return self._kernel.read_file(str(self)) or ""

    def write_text(self, text: str, encoding: str) -> None:
        if os.geteuid() != 0 and os.getuid() != os.stat(self._kernel.folder).st_uid:
            raise PermissionError(13, "Permission denied")
        found = self._kernel.at(self._device)
        assert found is not None
        self._kernel.set(found[0], self._setting, int(text) if text.isdecimal() else text)


class Folders:
    """In place of /sys/block: the names of the connected disks."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def __truediv__(self, name: str) -> Path:
        return Path("/sys/block") / name

    def iterdir(self) -> Iterator[Path]:
        devices = (disk["device"] for disk in self._kernel.read()["disks"].values())
        return iter([self / device for device in devices if device])


class JournalStates(RuleBasedStateMachine):
    """Runs of two users change settings, are killed, and are followed by anything."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="journal-"))
        for name in ("", "kernel", "user"):
            (self.folder / name).mkdir(exist_ok=True)
            (self.folder / name).chmod(0o777 if name == "kernel" else 0o755)
        if os.geteuid() == 0:
            os.chown(self.folder / "user", NOBODY, NOBODY)
        self.kernel = kernel = Kernel(self.folder / "kernel")
        self.users: dict[tuple[str, str], int | str] = {}  # the original value of each setting of each disk
        self.patch = pytest.MonkeyPatch()
        self.patch.delenv(host_state.STATE_VARIABLE, raising=False)
        self.patch.setenv("XDG_STATE_HOME", str(self.folder / "user"))
        self.patch.setattr(host_state, "_ROOT_FOLDER", self.folder / "root")
        self.patch.setattr(machine, "read_kernel_file", kernel.read_file)
        self.patch.setattr(machine, "disk_facts", kernel.facts)
        self.patch.setattr(journal, "_SYS_BLOCK", Folders(kernel))
        self.patch.setattr(queue_settings, "attribute_path", functools.partial(Attribute, kernel))
        self.patch.setattr(disk_settings, "set_on_disk", kernel.set_on_disk)
        self.patch.setattr(disk_settings, "align_kernel_write_cache", lambda node: None)
        self.patch.setattr(restoring, "locked", lambda *_, **__: contextlib.nullcontext())

    def teardown(self) -> None:
        try:
            self.check_end()
        finally:
            self.patch.undo()
            shutil.rmtree(self.folder)

    # ---- What happens

    @initialize()
    def disks_are_connected(self) -> None:
        for disk, device in zip(SERIALS, ("sda", "sdb", "sdc"), strict=True):
            self._appear(disk, device)

    def _appear(self, disk: str, device: str) -> None:
        self.kernel.connect(disk, device)
        self.users |= {(disk, setting): value for setting, value in DEFAULTS.items()}
        self.users.setdefault((disk, "WCE"), 1)

    def _is_connected(self, disk: str) -> bool:
        return self.kernel.read()["disks"][disk]["device"] is not None

    @rule(
        disk=st.sampled_from(sorted(SERIALS)),
        wanted=st.fixed_dictionaries({}, optional={name: st.sampled_from(each) for name, each in VALUES.items()}),
        crash=st.sampled_from([None, "measuring"]) | st.integers(0, 80),
        is_root=st.booleans(),
    )
    def a_run_changes_settings(self, disk: str, wanted: dict[str, Any], crash: int | str | None, is_root: bool) -> None:
        def change() -> None:
            found = journal.connected_disk(self.kernel.read()["disks"][disk]["device"])
            assert found is not None
            with restoring.restored_on_exit(found, journal.Owner("drive", "/checkout")) as own_journal:
                for setting, value in wanted.items():
                    if setting == "WCE":
                        disk_settings.set_on_disk(found.node, setting, value, own_journal.record)
                    else:
                        queue_settings.set_attribute(found.device, setting, value, own_journal.record)
                if crash == "measuring":
                    os.kill(os.getpid(), signal.SIGKILL)

        if self._is_connected(disk):
            self._run(change, crash if isinstance(crash, int) else None, is_root=is_root)

    @rule(crash=st.none() | st.integers(0, 30), is_root=st.booleans())
    def settings_are_restored(self, crash: int | None, is_root: bool) -> None:
        self._restore(crash, is_root=is_root)

    @rule(has_lost_power=st.booleans())
    def the_machine_restarts(self, has_lost_power: bool) -> None:
        content = self.kernel.read()
        content["boot"] += 1
        self.kernel.write(content)
        for disk, state in content["disks"].items():
            if state["device"] is not None:
                self._appear(disk, state["device"])
            if has_lost_power:
                self.kernel.set(disk, "WCE", self.users[disk, "WCE"])

    @rule(disk=st.sampled_from(sorted(SERIALS)), device=st.sampled_from(["sda", "sdb", "sdc", "sdd"]))
    def a_disk_is_connected_under_a_name(self, disk: str, device: str) -> None:
        if self.kernel.at(device) is None:
            self._appear(disk, device)

    @rule(disk=st.sampled_from(sorted(SERIALS)))
    def a_disk_is_disconnected(self, disk: str) -> None:
        self.kernel.disconnect(disk)

    @precondition(lambda self: not self.journals())
    @rule(disk=st.sampled_from(sorted(SERIALS)), setting=st.sampled_from(sorted(VALUES)), data=st.data())
    def the_user_changes_a_setting(self, disk: str, setting: str, data: st.DataObject) -> None:
        if self._is_connected(disk):
            self.kernel.set(disk, setting, data.draw(st.sampled_from(VALUES[setting])))
            state = self.kernel.read()["disks"][disk]
            self.users |= {(disk, each): state[each] for each in VALUES}

    # ---- What must hold

    @invariant()
    def each_original_value_is_set_or_in_a_journal(self) -> None:
        noted = [(entry["disk"], each) for entry in self.journals() for each in entry["settings"]]
        for (disk, setting), original in self.users.items():
            state = self.kernel.read()["disks"][disk]
            if state["device"] is None and setting != "WCE":
                continue  # the kernel sets up the queue of a disk when it is connected
            values = [
                each["value"]
                for of_disk, each in noted
                if each["setting"] == setting and of_disk["serial"] == SERIALS[disk]
            ]
            assert state[setting] == original or original in values, (disk, setting, state[setting], original, noted)

    def check_end(self) -> None:
        """Require that each value is restored, or that a message names the setting and its original value."""
        # a user restores only after root, and each of the two names the disks of its own journals only
        _, *last = [self._restore(None, is_root=is_root).printed for is_root in (True, False, True)]
        printed = "".join(last)
        for (disk, setting), original in self.users.items():
            state = self.kernel.read()["disks"].get(disk, {})
            if state.get("device") is not None and state[setting] != original:
                assert any(entry["disk"]["serial"] == SERIALS[disk] for entry in self.journals())
                assert f"{setting} (originally {original})" in printed, (disk, setting, printed)

    # ---- Processes

    def journals(self) -> list[Any]:
        paths = [*self.folder.glob("root/journal/[!.]*"), *self.folder.glob("user/iopatterns/journal/[!.]*")]
        return [json.loads(path.read_text()) for path in paths]

    def _restore(self, crash: int | None, *, is_root: bool) -> Observed:
        def restore() -> None:
            _, problems = restoring.restore_all_disks()
            print("\n".join(problems), flush=True)

        return self._run(restore, crash, is_root=is_root)

    def _run(self, function: Callable[[], object], crash: int | None, *, is_root: bool) -> Observed:
        """Run a function in a process of a user, and kill it at a call on a journal."""

        def as_user() -> None:
            if not is_root and os.geteuid() == 0:
                os.setresgid(NOBODY, NOBODY, NOBODY)
                os.setresuid(NOBODY, NOBODY, NOBODY)
            try:
                function()
            except IoPatternsError as error:
                print(f"refused: {error}", flush=True)

        watched = {name: self.folder / name for name in ("root", "user")}
        run = run_observed(as_user, watched, fault=None if crash is None else Crash(crash))
        assert "Traceback" not in run.printed, run.printed
        assert run.status in {0, -signal.SIGKILL}, run.printed
        return run


def test_a_user_restores_only_after_root() -> None:
    """Root has found the value that the user's killed run had set, and would restore that value last."""
    require_filter()
    if os.geteuid() != 0:
        pytest.skip("needs root, who becomes another user")
    states = JournalStates()
    states.disks_are_connected()
    for is_root in (False, True):
        JournalStates.a_run_changes_settings(states, "with", {"WCE": int(is_root)}, "measuring", is_root=is_root)
    assert "Restore them first: sudo iopatterns restore" in states._restore(None, is_root=False).printed
    states.each_original_value_is_set_or_in_a_journal()
    states.teardown()


def test_the_scheduler_is_restored_before_the_number_of_requests() -> None:
    """The kernel sets the number of requests when the scheduler changes, whichever setting a run changed first."""
    require_filter()
    states = JournalStates()
    states.disks_are_connected()
    states.kernel.set("with", "nr_requests", 100)
    states.users["with", "nr_requests"] = 100
    wanted: dict[str, Any] = {"nr_requests": 64, "scheduler": "kyber"}
    JournalStates.a_run_changes_settings(states, "with", wanted, None, is_root=True)
    states.each_original_value_is_set_or_in_a_journal()
    states.teardown()


@pytest.mark.slow
def test_no_original_value_is_lost() -> None:
    require_filter()
    settings = hypothesis.settings(max_examples=60, stateful_step_count=15)
    hypothesis.stateful.run_state_machine_as_test(JournalStates, settings=settings)
