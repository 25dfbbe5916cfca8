"""Puts back what interrupted runs have left changed on disks: before each measurement of a disk, and when asked to."""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from iopatterns.base import messages, signals
from iopatterns.base.errors import IoPatternsError
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.lock import DiskBusyError, locked
from iopatterns.measuring.tuning import disk, journal, queue
from iopatterns.measuring.tuning.journal import Author, Disk, Journal
from iopatterns.raw import tuning_steps


@contextlib.contextmanager
def kept(of: Disk, by: Author) -> Iterator[Journal]:
    """Put back what others have left changed on a disk whose lock is held, and at the end what is changed meanwhile.

    Yields the journal in which the latter is noted. Raises DriveError where settings are left changed that this user
    may not put back, and RestoreError where they cannot be.
    """
    _put_back_noted(of)
    noting = Journal(of, by)
    try:
        yield noting
    finally:
        _restore_whatever_comes(noting)


def _restore_whatever_comes(noting: Journal) -> None:
    """Put back what a journal has noted, also where a signal to stop comes at the very moment that this begins.

    The first such signal is the only one that raises (`measuring.cell.interruptible`): from then on nothing disturbs.
    """
    try:
        with signals.held_back():
            noting.restore()
    except Exception:
        raise
    except BaseException:
        noting.restore()
        raise


@contextlib.contextmanager
def held(disks: Sequence[Disk], by: Author, *, changing: bool, waiting: Callable[[str], object]) -> Iterator[Journal]:
    """Hold the locks of the disks under a file, with `kept` of each; settings of the first are what may be changed.

    Measurements that change no settings hold them together, any other alone. A user who may not open a disk cannot lock
    it either, nor change its settings; what others have noted of it he is told of all the same.
    """
    with contextlib.ExitStack() as locks:
        for each in sorted(disks, key=lambda found: found.device_number):
            _lock(locks, each, waiting, shared=not changing)
        for each in disks[1:]:
            _put_back_noted(each)
        with kept(disks[0], by) as noting:
            yield noting


def _lock(locks: contextlib.ExitStack, of: Disk, waiting: Callable[[str], object], *, shared: bool) -> None:
    try:
        os.close(os.open(of.node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:  # of a user's, or of root's in a container to which the disk is not given
        return
    while True:
        alone = not shared or bool(journal.paths(of))  # what a killed run has left is put back by one alone
        with contextlib.ExitStack() as attempt:
            attempt.enter_context(locked(of.device_number, waiting=waiting, shared=not alone))
            if alone or not journal.paths(of):  # else whoever noted something was killed before this one had the lock
                locks.push(attempt.pop_all())
                return


def _put_back_noted(of: Disk) -> None:
    for path in journal.paths(of):
        if journal.is_another_user_s(path):
            raise DriveError(
                f"{of.node}: settings of this disk are left changed, or are just being changed, by root: {path}."
                " Put them back before you measure: sudo iopatterns restore"
            )
        noted = journal.read(path)
        if noted is not None and journal.disk_of(path, noted) == of:
            for line in journal.put_back(path, noted, of):
                messages.say(f"after an interrupted run for {journal.shown(noted.by.drive)}: {line}")


def restore_all() -> tuple[list[str], list[str]]:
    """Put back what is left changed on all disks of this host; return what was done, and what is in the way.

    A disk that is being measured is left alone: that measurement puts its settings back.
    """
    told: list[str] = []
    problems: list[str] = []
    for path in journal.paths():
        try:
            told += _restore(path)
        except IoPatternsError as error:
            problems.append(str(error))
        except OSError as error:
            problems.append(f"{journal.shown(path)}: {error.strerror}")
    return told, problems


def _restore(path: Path) -> list[str]:
    if journal.is_another_user_s(path):
        raise DriveError(f"{path}: noted by root, who alone can put it back: sudo iopatterns restore")
    noted = journal.read(path)
    if noted is None:  # put back meanwhile
        return []
    drive = journal.shown(noted.by.drive)
    if journal.needs_no_disk(noted):
        return [f"{drive}: {line}" for line in journal.put_back(path, noted, noted.disk)]
    of = journal.disk_of(path, noted)
    try:
        with locked(of.device_number, waiting=None):
            if (still := journal.read(path)) is None:
                return []
            return [f"{drive}: {line}" for line in journal.put_back(path, still, of)]
    except DiskBusyError as busy:
        changed = ", ".join(noted.settings)
        return [f"{drive}: {of.node} is being measured by {busy.owner}; {changed}: put back when that ends"]


def changed_settings(device: str, steps: Sequence[tuning_steps.Record]) -> list[str]:
    """Return which settings of a disk are not as they were read back when they were set: name, that, what they are."""
    found = []
    for step in steps:
        setting, wanted = step["setting"], step["after"]
        if wanted is None:
            continue
        if setting in queue.SETTINGS:
            now = queue.present(queue.file(device, setting))
        else:
            now = disk.present(Path("/dev") / device, setting)
        if now != wanted:
            found.append(f"{setting} of {device} was set to {wanted} and is {now}")
    return found
