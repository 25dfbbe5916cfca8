"""Find who else uses a file: loop devices, swap, and programs that write to it."""

import contextlib
import fcntl
import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iopatterns.measuring import machine

_LOOP_GET_STATUS64 = 0x4C05  # linux/loop.h; the result begins with the fields of `LoopBacking`
_STATUS_BYTES = 232
_WRITING = os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True)
class LoopBacking:
    """The file or block device that stores the data of a loop device.

    A block device is identified by its device node, the file in /dev that represents it.

    Attributes:
        device: The device number of the file system that contains the file or the device node (``st_dev``).
        inode: The inode of the file or the device node.
        number: The device number of the block device itself (``st_rdev``); 0 for a file.
    """

    device: int
    inode: int
    number: int


def find_file_user(device: int, inode: int, *, but_loop: str | None = None) -> str | None:
    """Return what else uses a file, as text for a message; None if nothing does.

    An example is ``process 123 has it open for writing``, where "it" is the file. Three kinds of use are found:

    - the file stores the data of a loop device
    - the file is an active swap file
    - another process has the file open for writing. Without root, only processes of this user are seen

    Args:
        device: The device number of the file's file system (``st_dev``).
        inode: The inode of the file.
        but_loop: The name of a loop device to ignore, such as ``loop0``. None ignores no loop device.
    """
    for name, backing in _loops():
        if name != but_loop and (backing.device, backing.inode) == (device, inode):
            return f"it is behind the loop device /dev/{name} (losetup --detach /dev/{name} if that is not needed)"
    for path in machine.active_swaps("file"):
        if is_file(path, device, inode):
            return f"it is in use as swap (swapoff {path} if that is not needed)"
    for process, descriptor in _open_files():
        if is_file(descriptor, device, inode) and _writes(process, descriptor.name):
            return f"process {process} has it open for writing"
    return None


def is_file(path: Path | str, device: int, inode: int) -> bool:
    """Return whether a path leads to a given file. Symbolic links are followed.

    Args:
        path: The path. If it does not exist or cannot be reached, the result is False.
        device: The device number of the file's file system (``st_dev``).
        inode: The inode of the file.
    """
    try:
        state = os.stat(path)
    except OSError:
        return False
    return (state.st_dev, state.st_ino) == (device, inode)


def _loops() -> Iterator[tuple[str, LoopBacking]]:
    for entry in sorted(Path("/sys/block").glob("loop*/loop")):
        with contextlib.suppress(OSError):
            yield entry.parent.name, loop_backing_of(entry.parent)


def loop_backing_of(folder: Path) -> LoopBacking:
    """Return what stores the data of a loop device, given its sysfs folder.

    The kernel is asked through the open loop device. If this user may not open the loop device, the path in the sysfs
    folder decides. In a container, this path may lead to another file.

    Args:
        folder: The sysfs folder of the loop device, such as /sys/block/loop0.

    Raises:
        OSError: The loop device has no file, or cannot be opened.
    """
    try:
        descriptor = os.open(f"/dev/{folder.name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except PermissionError:
        state = os.stat(backing_path(folder))
        return LoopBacking(state.st_dev, state.st_ino, state.st_rdev if stat.S_ISBLK(state.st_mode) else 0)
    try:
        return loop_backing(descriptor)
    finally:
        os.close(descriptor)


def backing_path(folder: Path) -> Path:
    """Return the path of the file behind a loop device, as the kernel reports it.

    Args:
        folder: The sysfs folder of the loop device, such as /sys/block/loop0.

    Raises:
        OSError: The loop device has no file.
    """
    return Path(os.fsdecode((folder / "loop/backing_file").read_bytes().removesuffix(b"\n")))


def loop_backing(loop: int) -> LoopBacking:
    """Return what stores the data of a loop device, given its open descriptor.

    Args:
        loop: The file descriptor of the open loop device.

    Raises:
        OSError: The loop device has no file.
    """
    status = fcntl.ioctl(loop, _LOOP_GET_STATUS64, bytes(_STATUS_BYTES))
    device, inode, number = struct.unpack_from("<QQQ", status)
    return LoopBacking(_decoded(device), inode, _decoded(number))


def _decoded(number: int) -> int:
    """Convert a device number from the loop driver's encoding to stat(2)'s."""
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))


def _open_files() -> Iterator[tuple[int, Path]]:
    """Yield each file that another process has open.

    Each item is the number of the process and the path ``/proc/<process>/fd/<descriptor>``. Processes that this user
    may not inspect are skipped.
    """
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):  # a process of another user, or one that has ended
                for descriptor in (folder / "fd").iterdir():
                    yield int(folder.name), descriptor


def _writes(process: int, descriptor: str) -> bool:
    try:
        text = Path(f"/proc/{process}/fdinfo/{descriptor}").read_text(encoding="ascii")
    except OSError:
        return False
    flags = re.search(r"^flags:\s*([0-7]+)", text, re.MULTILINE)
    return flags is not None and bool(int(flags[1], 8) & _WRITING)
