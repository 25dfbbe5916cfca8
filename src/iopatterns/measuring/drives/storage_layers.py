"""Follow a file or block device down to the hardware that stores its data.

A file system may be on a device mapper, on a RAID, or on a loop device whose file is on another file system. What is at
the bottom decides what a measurement describes: a disk, memory, or a program.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from iopatterns.measuring import machine
from iopatterns.measuring.drives import file_users

_IN_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})
_OF_THE_KERNEL = frozenset({"proc", "sysfs", "cgroup", "cgroup2"})
# File systems on which I/O measures no drive
NO_DISK = _IN_MEMORY | _OF_THE_KERNEL
# File systems of other hosts. In a virtual machine, 9p and virtiofs are folders of the machine's host.
_REMOTE = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "gfs2", "gpfs", "lustre", "nfs", "nfs4", "ocfs2", "orangefs", "smb3"}
    | {"virtiofs"}
)
_OVERLAYS = frozenset({"aufs", "overlay", "overlayfs"})  # stat(1) reports "overlayfs"
# Block devices that are no disks, by the start of the kernel's name (Documentation/admin-guide/devices.txt)
_DEVICES = {
    "zram": "in memory",
    "ram": "in memory",
    "nullb": "nowhere",
    "nbd": "on another host",
    "rbd": "on another host",
}
_UNKNOWN = "on an unknown device"
_BY_PROGRAM = "by a program"


@dataclass(frozen=True)
class StoragePath:
    """A chain of layers from a file or device down to what stores its data.

    A layer is a file system or a device. A device on several disks has several chains, one for each disk.

    Attributes:
        layers: The names of the layers, from top to bottom, such as ``("ext4", "loop0", "tmpfs")``.
        stored: Where the data are stored if not on a disk, such as ``in memory``; empty for a disk.
        page_cache_of: The name of a loop device in the chain that accesses its file through the page cache; empty if
            there is none.
    """

    layers: tuple[str, ...]
    stored: str = ""
    page_cache_of: str = ""

    def below(self, layer: str, page_cache_of: str = "") -> "StoragePath":
        """Return this chain of layers with one more layer on top.

        Args:
            layer: The name of the new top layer, such as ``ext4`` or ``loop0``.
            page_cache_of: The name of the new layer if it is a loop device that accesses its file through the page
                cache. Empty keeps the value of this chain.
        """
        return StoragePath((layer, *self.layers), self.stored, page_cache_of or self.page_cache_of)


def storage_doubts(paths: Iterator[StoragePath]) -> list[str]:
    """Return what makes measurements doubtful because of where the data are stored.

    Each doubt names all layers between file and storage, such as "stored in memory: ext4 on loop0 on tmpfs". The list
    is empty if all data are on disks, and no loop device accesses its file through the page cache.

    Args:
        paths: All chains of layers from the measured file or device down to what stores its data, from
            `paths_below_file` or `paths_below_device`.
    """
    doubts = []
    for path in paths:
        layers = " on ".join(path.layers)
        if path.stored:
            doubts.append(f"stored {path.stored}: {layers}")
        if path.page_cache_of:
            doubts.append(f"through the page cache below {path.page_cache_of} (losetup --direct-io): {layers}")
    return list(dict.fromkeys(doubts))


def paths_below_file(path: Path, overlays: frozenset[int] = frozenset()) -> Iterator[StoragePath]:
    """Yield all chains of layers from a file or folder down to what stores its data.

    A layer is a file system or a device, such as in ``ext4`` on ``loop0`` on ``tmpfs``. There are several chains if the
    file system is on several disks.

    Args:
        path: The file or folder, which must exist.
        overlays: The kernel's numbers of the overlay mounts that were already followed; callers leave it empty. It
            prevents an endless loop, which a path of another mount namespace may cause.
    """
    kind = machine.file_system_type(path) or "an unknown file system"
    if kind in _OVERLAYS:
        mount = machine.mount_of(path)
        upper = Path(mount.options.get("upperdir", "")) if mount is not None else Path()
        # in a container, the folder is usually not visible
        if mount is None or mount.identifier in overlays or not upper.is_absolute() or not upper.is_dir():
            yield StoragePath((kind,), _UNKNOWN)
            return
        for below in paths_below_file(upper, overlays | {mount.identifier}):
            yield below.below(kind)
    elif stored := _stored_without_device(kind):
        yield StoragePath((kind,), stored)
    else:
        disk = machine.disk_folder(path)
        if disk is None:
            yield StoragePath((kind,), _UNKNOWN)
        for member in _members(kind, disk):
            for below in _paths_below(member):
                yield below.below(kind)


def paths_below_device(number: int) -> Iterator[StoragePath]:
    """Yield all chains of layers from a block device down to what stores its data.

    A layer is a file system or a device, such as in ``dm-0`` on ``sda``. There are several chains if the device is on
    several disks.

    Args:
        number: The device number (``st_rdev``). For an unknown device, the only chain has ``on an unknown device`` as
            the place where the data are stored.
    """
    folder = machine.sysfs_folder(number)
    if folder is None:
        yield StoragePath((f"{os.major(number)}:{os.minor(number)}",), _UNKNOWN)
    else:
        yield from _paths_below(folder)


def _stored_without_device(kind: str) -> str:
    """Return where a file system of a type stores data; empty if it is on a device."""
    if kind in _IN_MEMORY:
        return "in memory"
    if kind in _OF_THE_KERNEL:
        return "by the kernel"
    if kind in _REMOTE:
        return "on another host"
    return _BY_PROGRAM if kind.startswith("fuse") else ""


def _members(kind: str, disk: Path | None) -> list[Path]:
    """Return the sysfs folders of all devices of a file system, given one of them.

    Only btrfs has several devices.
    """
    if disk is None:
        return []
    if kind == "btrfs":
        for devices in Path("/sys/fs/btrfs").glob("*/devices"):
            members = [_whole(device.resolve()) for device in sorted(devices.iterdir())]
            if disk in members:
                return members
    return [disk]


def _whole(device: Path) -> Path:
    return device.parent if (device / "partition").exists() else device


def _paths_below(device: Path) -> Iterator[StoragePath]:
    """Yield all ways from a block device down, given its sysfs folder."""
    device = _whole(device)
    members = sorted((device / "slaves").glob("*"))
    if (device / "loop").is_dir():
        is_cached = machine.read_kernel_file(device / "loop/dio") == "0"
        for below in _paths_below_loop(device):
            yield below.below(device.name, device.name if is_cached else "")
    elif members:
        for member in members:
            for below in _paths_below(member.resolve()):
                yield below.below(device.name)
    elif (device / "dm").is_dir():  # a target without a device, such as zero
        yield StoragePath((device.name,), "nowhere")
    else:
        yield StoragePath((device.name,), _DEVICES.get(device.name.rstrip("0123456789"), ""))


def _paths_below_loop(device: Path) -> Iterator[StoragePath]:
    path = file_users.backing_path(device)
    try:
        backing = file_users.loop_backing_of(device)
    except OSError:
        yield StoragePath((str(path),), _UNKNOWN)
        return
    if backing.number:
        yield from paths_below_device(backing.number)
    elif path.name.startswith("memfd:"):  # memfd_create(2); its file system is not in the mount table
        yield StoragePath(("memfd",), "in memory")
    elif file_users.is_file(path, backing.device, backing.inode):
        yield from paths_below_file(path)
    else:  # deleted, or not visible in this mount namespace
        kind = next((mount.type for mount in machine.mounts() if mount.number == backing.device), "a deleted file")
        if stored := _stored_without_device(kind):
            yield StoragePath((kind,), stored)
        else:
            for below in paths_below_device(backing.device):
                yield below.below(kind)
