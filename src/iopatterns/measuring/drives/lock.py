"""Locks of drives, so that two measurements never use the same disk concurrently.

A lock applies to all checkouts of the project on this machine.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from iopatterns.base import messages
from iopatterns.measuring import machine
from iopatterns.measuring.drives.descriptors import device_number_text
from iopatterns.measuring.drives.error import DriveError


class DiskBusyError(DriveError):
    """The error raised if another process holds the lock of a disk or file.

    It is raised only if the caller does not want to wait for the lock.

    Attributes:
        owner: The other process, such as ``process 123``. If its number is unknown, ``another program``.
    """

    def __init__(self, name: str, owner: str) -> None:
        self.owner = owner
        super().__init__(f"{name} is in use by {owner}")


@contextlib.contextmanager
def locked(number: int, *, subject: str | None, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a block device while the context lasts.

    If another process holds the lock, `subject` decides whether the lock is waited for or an error is raised.

    The device is locked with flock(2) on the kernel's own device node, such as ``/dev/sdb``. All paths to the device
    therefore share one lock. udev leaves a locked device alone.

    Args:
        number: The device number (``st_rdev``).
        subject: What is to be measured, such as ``drive 'lab'``. Before waiting for the lock, a message with this text
            is printed. With None, the lock is not waited for.
        shared: Whether other processes may hold a shared lock meanwhile. If false, the lock is exclusive.

    Raises:
        DiskBusyError: Another process holds the lock, and `subject` is None.
        DriveError: The kernel no longer has this device, or the device cannot be opened.
    """
    node = kernel_node(number)
    try:
        descriptor = os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise DriveError(f"{node} cannot be opened: {error.strerror}. Is the disk still connected?") from None
    try:
        if os.fstat(descriptor).st_rdev != number:
            raise wrong_node(node, number)
        take_lock(descriptor, str(node), subject=subject, shared=shared)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_file(path: Path, *, subject: str) -> Iterator[None]:
    """Create a lock file and hold its lock while the context lasts.

    If another process holds the lock, a message is printed, and the lock is waited for. The file is deleted on exit. On
    a file system that several hosts share, the lock excludes processes on all of them.

    Args:
        path: The path of the lock file. Missing parent folders are created.
        subject: What the lock protects, such as ``drive 'lab'``, for the message.

    Raises:
        OSError: The file cannot be created, or the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            take_lock(descriptor, str(path), subject=subject)
            if _is_at(descriptor, path):  # the process that held the lock before may have deleted the file
                try:
                    yield
                finally:
                    path.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def take_lock(descriptor: int, name: str, *, subject: str | None, shared: bool = False) -> None:
    """Lock an open file or device with flock(2), if necessary after waiting.

    If another process holds the lock, `subject` decides whether the lock is waited for or an error is raised. The lock
    is released when the descriptor is closed.

    Args:
        descriptor: The file descriptor of the file or device.
        name: The name of the file or device, for the error message.
        subject: What the lock protects, such as ``drive 'lab'``. Before waiting for the lock, a message with this text
            is printed. With None, the lock is not waited for.
        shared: Whether other processes may hold a shared lock meanwhile. If false, the lock is exclusive.

    Raises:
        DiskBusyError: Another process holds the lock, and `subject` is None.
    """
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(descriptor)
        if subject is None:
            raise DiskBusyError(name, owner) from None
        messages.say(f"{subject} is being measured by {owner}; waiting for it")
        fcntl.flock(descriptor, kind)


def kernel_node(number: int) -> Path:
    """Return the path of a block device's node in /dev, such as ``/dev/sdb``.

    The path follows from the kernel's name of the device. It is not verified that the node exists.

    Args:
        number: The device number (``st_rdev``).

    Raises:
        DriveError: The device does not exist any more.
    """
    entry = machine.sysfs_folder(number)
    if entry is None:
        raise DriveError(f"there is no disk {device_number_text(number)} any more. Is it still connected?")
    return Path("/dev") / entry.name.replace("!", "/")


def wrong_node(node: Path, number: int) -> DriveError:
    """Return the error to raise if a node in /dev leads to an unexpected device.

    Args:
        node: The path of the node, such as ``/dev/sdb``.
        number: The device number that the node should have (``st_rdev``).
    """
    return DriveError(f"{node} is not the disk {device_number_text(number)}. Was /dev changed by hand?")


def _owner(descriptor: int) -> str:
    """Return who holds the lock of an open file, such as ``process 123``.

    The source is /proc/locks. If it does not list the lock, the result is ``another program``.
    """
    state = os.fstat(descriptor)
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if "FLOCK" in words and "->" not in words and words[5] == place and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another program"
