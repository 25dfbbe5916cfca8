"""Who else uses a file: loop devices, swap, and programs that have it open for writing. Looks, and changes nothing."""

import contextlib
import fcntl
import os
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iopatterns.measuring import machine

_LOOP_GET_STATUS64 = 0x4C05  # linux/loop.h; its answer begins with device, inode and, of a device behind it, number
_STATUS_BYTES = 232
_WRITING = os.O_WRONLY | os.O_RDWR


@dataclass(frozen=True)
class LoopBacking:
    """What lies behind a loop device: a file, by device and inode; ``number`` where it is a block device itself."""

    device: int
    inode: int
    number: int


def find_file_user(device: int, inode: int, *, but_loop: str | None = None) -> str | None:
    """Return in words what else uses the file of that device and inode, None where nothing does.

    The loop device ``but_loop`` does not count. A user other than root sees programs of their own alone.
    """
    for name, backing in _loops():
        if name != but_loop and (backing.device, backing.inode) == (device, inode):
            return f"it is behind the loop device /dev/{name} (losetup --detach /dev/{name} if that is not needed)"
    for path in machine.active_swaps("file"):
        if _is(path, device, inode):
            return f"it is in use as swap (swapoff {path} if that is not needed)"
    for process, descriptor in _open_files():
        if _is(descriptor, device, inode) and _writes(process, descriptor.name):
            return f"process {process} has it open for writing"
    return None


def _is(path: Path | str, device: int, inode: int) -> bool:
    try:
        state = os.stat(path)
    except OSError:
        return False
    return (state.st_dev, state.st_ino) == (device, inode)


def _loops() -> Iterator[tuple[str, LoopBacking]]:
    for entry in sorted(Path("/sys/block").glob("loop*/loop")):
        name = entry.parent.name
        with contextlib.suppress(OSError):
            try:
                descriptor = os.open(f"/dev/{name}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except PermissionError:  # by the path of the file then, which may mean another one in a container
                state = os.stat((entry / "backing_file").read_text().rstrip("\n"))
                yield name, LoopBacking(state.st_dev, state.st_ino, state.st_rdev)
                continue
            try:
                found = loop_backing(descriptor)
            finally:
                os.close(descriptor)
            yield name, found


def loop_backing(loop: int) -> LoopBacking:
    """Return what lies behind the loop device that a descriptor names. Raises OSError where nothing does."""
    answer = fcntl.ioctl(loop, _LOOP_GET_STATUS64, bytes(_STATUS_BYTES))
    device, inode, number = struct.unpack_from("<QQQ", answer)
    return LoopBacking(_decoded(device), inode, _decoded(number))


def _decoded(number: int) -> int:
    """Return a device number as stat(2) gives it, of the form in which the kernel hands it out elsewhere."""
    return os.makedev((number >> 8) & 0xFFF, (number & 0xFF) | ((number >> 12) & 0xFFF00))


def _open_files() -> Iterator[tuple[int, Path]]:
    """Yield each process with each of its open files, this process left out."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            with contextlib.suppress(OSError):  # of another user's, or gone meanwhile
                for descriptor in (folder / "fd").iterdir():
                    yield int(folder.name), descriptor


def _writes(process: int, descriptor: str) -> bool:
    try:
        text = Path(f"/proc/{process}/fdinfo/{descriptor}").read_text(encoding="ascii")
    except OSError:
        return False
    flags = re.search(r"^flags:\s*([0-7]+)", text, re.MULTILINE)
    return flags is not None and bool(int(flags[1], 8) & _WRITING)
