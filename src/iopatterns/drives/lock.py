"""The lock of a disk, by its device number: one measurement at a time, of whatever checkout and name of the disk."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from iopatterns.drives.error import DriveError


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
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    node = _node(number)
    descriptor = os.open(node, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if os.fstat(descriptor).st_rdev != number:
            raise DriveError(f"{node} is not the disk {_text(number)} any more. Run again.")
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _owner(descriptor)
            if waiting is None:
                raise DiskBusyError(str(node), owner) from None
            waiting(owner)
            fcntl.flock(descriptor, kind)
        yield
    finally:
        os.close(descriptor)


def _text(number: int) -> str:
    return f"{os.major(number)}:{os.minor(number)}"


def _node(number: int) -> Path:
    """Return the kernel's node of a block device, ``/dev/sdb``."""
    try:
        return Path("/dev") / (Path("/sys/dev/block") / _text(number)).resolve(strict=True).name.replace("!", "/")
    except OSError:
        raise DriveError(f"there is no disk {_text(number)} any more. Is it still connected?") from None


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
