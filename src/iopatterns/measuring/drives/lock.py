"""Locks of drives: one measurement of a disk or file at a time, of whatever checkout, and under whatever name."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from iopatterns.measuring import machine
from iopatterns.measuring.drives.descriptors import device_number_text
from iopatterns.measuring.drives.error import DriveError


class DiskBusyError(DriveError):
    """Somebody else holds the disk; ``owner`` says who, such as ``process 123``."""

    def __init__(self, name: str, owner: str) -> None:
        self.owner = owner
        super().__init__(f"{name} is in use by {owner}")


@contextlib.contextmanager
def locked(number: int, *, waiting: Callable[[str], object] | None, shared: bool = False) -> Iterator[None]:
    """Hold the lock of the block device with that number (``st_rdev``) while the context lasts.

    The lock is flock(2) on the kernel's own node of the disk, whatever node or link the user named: two nodes of one
    disk are one lock, and udev leaves a disk alone while it is held. Where somebody else has it, ``waiting`` is called
    once with who that is, and the lock is waited for; without ``waiting`` DiskBusyError is raised. DriveError where the
    kernel has no such disk any more. With ``shared``, others who share it hold it at the same time.
    """
    node = kernel_node(number)
    try:
        descriptor = os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise DriveError(f"{node} cannot be opened: {error.strerror}. Is the disk still connected?") from None
    try:
        if os.fstat(descriptor).st_rdev != number:
            raise DriveError(
                f"{node} is not the disk {device_number_text(number)}. Is /dev as the kernel or udev made it?"
            )
        take_lock(descriptor, str(node), waiting=waiting, shared=shared)
        yield
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked_file(path: Path, *, waiting: Callable[[str], object]) -> Iterator[None]:
    """Hold the lock of a file that is made for that, and deleted at the end; ``waiting`` as of `locked`.

    On a file system that several hosts share it holds over all of them. Raises OSError where there are no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            take_lock(descriptor, str(path), waiting=waiting)
            if _is_at(descriptor, path):  # else whoever had the lock before has deleted it meanwhile
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


def take_lock(descriptor: int, name: str, *, waiting: Callable[[str], object] | None, shared: bool = False) -> None:
    """Take the lock of an open file, which lasts until it is closed; ``waiting``, ``shared`` as of `locked`."""
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = _owner(descriptor)
        if waiting is None:
            raise DiskBusyError(name, owner) from None
        waiting(owner)
        fcntl.flock(descriptor, kind)


def kernel_node(number: int) -> Path:
    """Return the kernel's node of a block device, ``/dev/sdb``. Raises DriveError where there is no such device."""
    entry = machine.sysfs_folder(number)
    if entry is None:
        raise DriveError(f"there is no disk {device_number_text(number)} any more. Is it still connected?")
    return Path("/dev") / entry.name.replace("!", "/")


def _owner(descriptor: int) -> str:
    """Return who holds a lock on an open file, by the kernel's list of locks (proc(5), /proc/locks)."""
    state = os.fstat(descriptor)
    place = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    with contextlib.suppress(OSError):
        for line in Path("/proc/locks").read_text(encoding="ascii").splitlines():
            words = line.split()
            if "FLOCK" in words and "->" not in words and words[5] == place and int(words[4]) > 0:
                return f"process {words[4]}"
    return "another program"
