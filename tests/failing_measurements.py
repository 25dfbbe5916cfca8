"""Measure a cell while a system call fails, and check that nothing is lost."""

import contextlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from failing_calls import Fault, Observed, Site, run_alone, run_observed, stable_name
from loops import Loop, loop_device
from measurements import Spec, block_entry, describe_drive, raw_files, twin_cell, writing
from support import disk_cell, file_cell

from iopatterns import cli
from iopatterns.base.host_state import STATE_VARIABLE
from iopatterns.measuring.tuning import queue_settings
from iopatterns.raw.metadata_files import read_metadata

# imported before the forks, so that no fork imports them
from iopatterns.measuring import drives, fio, health  # noqa: F401  isort: skip
from iopatterns.measuring.drives import block, file, twin  # noqa: F401  isort: skip
from iopatterns.commands import measure, restore  # noqa: F401  isort: skip

FOUND = {"scheduler": "none", "nr_requests": "100", "read_ahead_kb": "64"}
ASKED_FOR: dict[str, Any] = {"scheduler": "mq-deadline", "nr_requests": 32, "read_ahead_kb": 256}
KINDS = ("twin", "file", "block")


@dataclass
class Subject:
    """A project with a cell, and files of a user beside the files of the package.

    Attributes:
        root: The project.
        specification: The specification of the cell.
        loop: The disk that is measured; None if it is no disk.
    """

    root: Path
    specification: Spec
    loop: Loop | None

    @classmethod
    def made(cls, kind: str, root: Path, loop: Loop | None) -> "Subject":
        (root / "drive").mkdir(parents=True)
        if kind == "twin":
            specification = {**twin_cell(settings={"DRA": 1}, log_hist_msec=20), "runtime_ms": 50, "warmup_ms": 20}
        elif kind == "file":
            specification = writing(file_cell(root / "drive"))
        else:
            assert loop is not None
            loop.discard()
            for name, value in FOUND.items():
                _attribute(loop, name).write_text(value)
            entry = block_entry(loop, tune=list(ASKED_FOR))
            describe_drive(root, entry)
            specification = disk_cell(entry, "disk", "randwrite", 50, **ASKED_FOR)
        subject = cls(root, specification, loop)
        subject.raw.parent.mkdir(parents=True)
        for folder in (root, root / "drive", root / "data", subject.raw.parent, root / "state"):
            folder.mkdir(exist_ok=True)
            (folder / "mine.json").write_text(f"a user's file in {folder.name}")
        return subject

    @property
    def raw(self) -> Path:
        (raw,) = raw_files(self.root, self.specification)
        return raw

    def watched(self) -> dict[str, Path]:
        found = {"project": self.root}
        if self.loop is not None:
            name = self.loop.device.name
            found |= {"node": self.loop.device, "sysfs": Path("/sys/block") / name}
        return found

    def call(self, *words: str) -> None:
        """Run a command of the package in this process."""
        os.chdir(self.root)
        os.environ[STATE_VARIABLE] = str(self.root / "state")
        cli.main(words)

    def measure(self) -> None:
        self.call("measure", "--specification", json.dumps(self.specification), str(self.raw))

    def settings(self) -> dict[str, str]:
        if self.loop is None:
            return {}
        return {name: str(queue_settings.attribute_value(_attribute(self.loop, name))) for name in FOUND}

    def is_changed(self) -> bool:
        return self.loop is not None and self.settings() != FOUND

    def journals(self) -> list[Path]:
        return list((self.root / "state/journal").glob("*.json"))

    def users(self) -> dict[Path, str]:
        return {path: path.read_text() for path in self.root.rglob("mine.json")}

    def files(self) -> set[str]:
        """Return the names of the package's files.

        The state of a simulated drive is left out: each measurement deletes it before it begins.
        """
        found = {str(path.relative_to(self.root)) for path in self.root.rglob("*") if not path.is_dir()}
        return {stable_name(name) for name in found if not name.endswith("mine.json") and "/.twins/" not in name}


def _attribute(loop: Loop, name: str) -> Path:
    return Path("/sys/block") / loop.device.name / "queue" / name


def most_turns(call: str, path: str) -> int:
    """Return how many of the calls on a path count.

    How often fio reads and writes the content of the drive depends on the speed of the machine. The same lines of code
    read the kernel's files about the disk again and again.
    """
    is_content = path == "node" or re.search(r"/drive\.bin(\.part)?$", path)
    return 2 if is_content or (path.startswith("sysfs") and call != "write") else 2**30


# ---- In a process of a pool


@contextlib.contextmanager
def _disk(kind: str, folder: Path) -> Iterator[Loop | None]:
    if kind != "block":
        yield None
        return
    with loop_device(folder) as loop:
        yield loop


@dataclass
class Undisturbed:
    """What an undisturbed measurement does.

    Attributes:
        sites: Its calls.
        files: The names of its files.
        raw: The content of its raw file.
    """

    sites: list[Site]
    files: set[str]
    raw: bytes


def undisturbed_sites(kind: str, folder: Path) -> list[Site]:
    """Return the calls of a measurement without a fault."""
    with tempfile.TemporaryDirectory(dir=folder) as inside, _disk(kind, Path(inside)) as loop:
        return _undisturbed(kind, Path(inside) / "here", loop).sites


def _undisturbed(kind: str, root: Path, loop: Loop | None) -> Undisturbed:
    subject = Subject.made(kind, root, loop)
    run = run_observed(subject.measure, subject.watched(), most_turns=most_turns)
    assert run.status == 0, run.printed
    assert not subject.is_changed()
    found = Undisturbed(run.sites, subject.files(), subject.raw.read_bytes())
    shutil.rmtree(root)
    return found


def faulty(kind: str, folder: Path, faults: Sequence[Fault]) -> tuple[int, list[str]]:
    """Measure once with each fault; return how many faults occurred, and what was wrong after them."""
    problems: list[str] = []
    occurred = 0
    with tempfile.TemporaryDirectory(dir=folder) as inside, _disk(kind, Path(inside)) as loop:
        root = Path(inside) / "here"  # raw files contain paths, so that each measurement has the same
        expected = _undisturbed(kind, root, loop)
        for fault in faults:
            subject = Subject.made(kind, root, loop)
            users = subject.users()
            run = run_observed(subject.measure, subject.watched(), fault=fault, most_turns=most_turns)
            occurred += run.has_failed
            found = [*_after_fault(subject, run, users, fault), *_after_resuming(subject, expected, users)]
            problems += [f"{kind}: {fault}: {each}\n{run.printed}" for each in found]
            shutil.rmtree(root)
    return occurred, problems


def _after_fault(subject: Subject, run: Observed, users: dict[Path, str], fault: Fault) -> Iterator[str]:
    """Yield what is wrong after a measurement with a fault."""
    if run.status not in {0, 1, 2}:
        yield f"exit status {run.status}"
    if "Traceback" in run.printed or "Exception ignored" in run.printed:
        yield "a traceback"
    if run.status and run.printed.count("iopatterns: error: ") != 1:
        yield "not one error message"
    named = f"{subject.root}|data/raw/|config/|drive '|/dev/loop|/sys/"
    if run.status and not re.search(f"error: .*({named})", run.printed, re.DOTALL):
        yield "an error message that names no file and no drive"
    if subject.users() != users:
        yield "a user's file has changed"
    if subject.raw.exists():
        try:
            read_metadata(subject.raw)
            # an error of the kernel's file is the answer of the disk, which the raw file records
            is_refused = fault.site.path.startswith("sysfs/") and "not measured" in json.loads(subject.raw.read_text())
            assert is_refused or json.loads(subject.raw.read_text())["jobs"], "no result"
        except Exception as error:
            yield f"an incomplete raw file: {error}"
    elif run.status == 0:
        yield "success without a raw file"
    if subject.is_changed() and not subject.journals():
        yield f"settings are neither restored nor journalled: {subject.settings()}"
    if subject.is_changed() and run.status == 0:
        yield "success with changed settings"


def _after_resuming(subject: Subject, expected: Undisturbed, users: dict[Path, str]) -> Iterator[str]:
    """Measure again without a fault; yield what is wrong."""
    kept = subject.raw.read_bytes() if subject.raw.exists() else None
    run = run_alone(subject.measure)
    if run.status:
        yield f"cannot be resumed: {run.printed}"
        return
    if subject.files() != expected.files:
        yield f"other files: {sorted(subject.files() ^ expected.files)}"
    read_metadata(subject.raw)
    raw = subject.raw.read_bytes()
    if kept not in {None, raw}:
        yield "a complete raw file was measured again"
    if subject.specification["drive"]["kind"] == "twin" and raw != expected.raw:
        yield "other bytes"
    if subject.users() != users:
        yield "a user's file has changed in the next run"
    if subject.is_changed() or subject.journals():
        yield f"settings are not restored by the next run: {subject.settings()}"
