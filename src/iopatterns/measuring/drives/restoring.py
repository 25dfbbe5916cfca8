"""Restore the disk settings that a run changed, even if the run was killed.

Each original value is recorded in a journal, a file on this host, before the setting changes.
"""

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from iopatterns.base import messages, signals
from iopatterns.base.errors import IoPatternsError
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.lock import DiskBusyError, locked
from iopatterns.measuring.tuning import disk_settings, journal
from iopatterns.measuring.tuning.journal import Disk, Journal, Owner
from iopatterns.raw import tuning_steps


@contextlib.contextmanager
def restored_on_exit(disk: Disk, owner: Owner) -> Iterator[Journal]:
    """Yield a journal for a disk; restore the settings recorded in it on exit.

    A journal is a file with the original values of changed settings, such as the I/O scheduler. Settings that an
    earlier, interrupted run left changed are restored first. On exit, settings are restored even after an error or a
    stop signal.

    Args:
        disk: The disk whose settings may be changed. If this user may open the disk, the caller must hold the disk's
            lock, see `locked`.
        owner: The drive that is measured, and the project folder. The journal names both.

    Yields:
        The journal. Each setting must be recorded in the journal before the setting is changed.

    Raises:
        DriveError: Root left settings of the disk changed, and this user may not restore them.
        RestoreError: A setting could not be restored.
    """
    _restore_leftovers(disk)
    own_journal = Journal(disk, owner)
    try:
        yield own_journal
    finally:
        _restore_despite_stop_signal(own_journal)


def _restore_despite_stop_signal(own_journal: Journal) -> None:
    """Restore the settings in a journal, even if a stop signal arrives meanwhile.

    A signal that arrives before signals are blocked still raises an exception. Restoring then starts again. The handler
    of the signal has ignored all further ones (`base.signals.interruptible`), so that nothing interrupts the second
    attempt.
    """
    try:
        with signals.stop_signals_blocked():
            own_journal.restore()
    except Exception:
        raise
    except BaseException:
        own_journal.restore()
        raise


@contextlib.contextmanager
def locked_disks(disks: Sequence[Disk], owner: Owner, *, exclusive: bool, subject: str) -> Iterator[Journal]:
    """Lock the disks under a file; yield a journal for the settings of the first disk.

    A journal is a file with the original values of changed settings. Settings that interrupted runs left changed on any
    of the disks are restored first. On exit, the settings recorded in the journal are restored, and the locks are
    released.

    If another process holds a lock, a message is printed, and the lock is waited for. A disk that this user may not
    open is not locked: this user cannot change its settings either.

    Args:
        disks: The disks, at least one.
        owner: The drive that is measured, and the project folder. The journal names both.
        exclusive: Whether the locks exclude all other measurements. Changing settings requires this. If false,
            measurements that change no settings share the locks. The lock of a disk whose settings must be restored
            first is exclusive in any case.
        subject: What is to be measured, such as ``the disk under drive 'lab'``, for the message.

    Yields:
        The journal. Each setting must be recorded in the journal before the setting is changed.

    Raises:
        DriveError: A disk is gone, or root left its settings changed.
        RestoreError: A setting could not be restored.
    """
    with contextlib.ExitStack() as locks:
        # one order for all processes, so that no two wait for each other
        for disk in sorted(disks, key=lambda each: each.device_number):
            _add_lock(locks, disk, subject, shared=not exclusive)
        for disk in disks[1:]:
            _restore_leftovers(disk)
        with restored_on_exit(disks[0], owner) as own_journal:
            yield own_journal


def _add_lock(locks: contextlib.ExitStack, disk: Disk, subject: str, *, shared: bool) -> None:
    """Take the lock of a disk, and let a stack of contexts release it.

    Nothing happens if this process may not open the disk.

    Args:
        locks: The stack that releases the lock.
        disk: The disk.
        subject: What is to be measured, for the message that is printed before waiting for the lock.
        shared: Whether others may share the lock. It is exclusive in any case if an interrupted run left settings
            changed.
    """
    try:
        os.close(os.open(disk.node, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except PermissionError:  # raised for root, too, in a container without access to the device
        return
    while True:
        exclusive = not shared or bool(journal.journal_paths(disk))  # restoring leftovers requires an exclusive lock
        with contextlib.ExitStack() as attempt:
            attempt.enter_context(locked(disk.device_number, subject=subject, shared=not exclusive))
            # a run that was killed between the two look-ups has left a journal: lock again, exclusively
            if exclusive or not journal.journal_paths(disk):
                locks.push(attempt.pop_all())
                return


def _restore_leftovers(disk: Disk) -> None:
    """Restore the settings of a locked disk that interrupted runs left changed.

    What was restored is printed.

    Raises:
        DriveError: Root left settings changed, and this user is not root.
        RestoreError: A setting could not be restored.
    """
    _require_restored_by_root(disk)
    for path in journal.journal_paths(disk):
        entry = journal.read_journal(path)
        if entry is not None and journal.find_disk(path, entry) == disk:
            for line in journal.restore_entry(path, entry, disk):
                messages.say(f"after an interrupted run for {messages.printable(entry.owner.drive)}: {line}")


def _require_restored_by_root(disk: Disk) -> None:
    """Raise DriveError if root left settings of a disk changed, and this user is not root.

    Root's journal has the values that root found. If this user had changed settings before, these are not the original
    values. Root must therefore restore first.
    """
    for path in filter(journal.is_reserved_for_root, journal.journal_paths(disk)):
        raise DriveError(
            f"{disk.node}: root has changed settings of this disk and not restored them: {path}."
            " Restore them first: sudo iopatterns restore"
        )


def restore_all_disks() -> tuple[list[str], list[str]]:
    """Restore all disk settings that interrupted runs left changed on this host.

    Each such run left a journal: a file with the original values of the settings that the run changed. A disk that is
    being measured is skipped, because the measurement restores its settings.

    Returns:
        Two lists of text. The first says what was restored or skipped. The second has an error message for each journal
        whose settings could not be restored.
    """
    results: list[str] = []
    errors: list[str] = []
    for path in journal.journal_paths():
        try:
            results += _restore_journal(path)
        except IoPatternsError as error:
            errors.append(str(error))
        except OSError as error:
            errors.append(f"{messages.printable(path)}: {error.strerror}")
    return results, errors


def _restore_journal(path: Path) -> list[str]:
    """Restore the settings that one journal records.

    Args:
        path: The path of the journal.

    Returns:
        A line for each setting that says what was done. If the disk is being measured, a line that says so.

    Raises:
        DriveError: The journal belongs to root, and this user is not root.
        RestoreError: A setting could not be restored.
    """
    if journal.is_reserved_for_root(path):
        raise DriveError(f"{path}: only root can restore these settings: sudo iopatterns restore")
    entry = journal.read_journal(path)
    if entry is None:  # restored by another process since the folder was listed
        return []
    _require_restored_by_root(entry.disk)
    drive = messages.printable(entry.owner.drive)
    if journal.is_undone_by_reboot(entry):
        return [f"{drive}: {line}" for line in journal.restore_entry(path, entry, entry.disk)]
    disk = journal.find_disk(path, entry)
    try:
        with locked(disk.device_number, subject=None):
            if (locked_entry := journal.read_journal(path)) is None:
                return []
            return [f"{drive}: {line}" for line in journal.restore_entry(path, locked_entry, disk)]
    except DiskBusyError as busy:
        changed = ", ".join(entry.settings)
        return [f"{drive}: {disk.node} is being measured by {busy.owner}, which will restore {changed} at its end"]


def settings_changed_since_tuning(device: str, steps: Sequence[tuning_steps.TuningStep]) -> list[str]:
    """Return a message for each setting that no longer has its value after tuning.

    An example is "scheduler of sda was none after tuning and is kyber now". Settings that the disk did not report after
    tuning are skipped. The list is empty if nothing has changed.

    Args:
        device: The kernel's name of the disk, such as ``sda``.
        steps: The steps that tuning returned. Their key ``after`` is the value that was read back.
    """
    changed = []
    for step in steps:
        setting, tuned = step["setting"], step["after"]
        if tuned is None:
            continue
        current = disk_settings.current_value(Path("/dev") / device, setting)
        if current != tuned:
            changed.append(f"{setting} of {device} was {tuned} after tuning and is {current} now")
    return changed
