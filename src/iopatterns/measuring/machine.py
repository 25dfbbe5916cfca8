"""Facts about this machine and its disks, read from /proc and /sys."""

import functools
import os
import re
import subprocess
from pathlib import Path
from typing import NamedTuple, cast

from iopatterns.base.subprocess_env import child_environment
from iopatterns.raw.records import DiskFacts, LoadSnapshot, MachineFacts

_SYS_BLOCK = Path("/sys/dev/block")


def read_kernel_file(path: Path | str) -> str | None:
    """Return the stripped text of a small kernel file; None if it is missing or empty."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _meminfo_bytes(key: str) -> int | None:
    found = re.search(rf"^{key}:\s*(\d+)", read_kernel_file("/proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


@functools.cache
def machine_facts() -> MachineFacts:
    """Return the properties of this machine that stay constant during a run.

    They are kernel, CPU model, number of CPUs and size of memory. The host name is left out for privacy.
    """
    cpu_model = re.search(r"^(?:model name|Model).*?:(.*)", read_kernel_file("/proc/cpuinfo") or "", re.MULTILINE)
    uname = os.uname()
    return {
        "kernel": f"{uname.sysname} {uname.release} {uname.machine}",
        "cpu_model": cpu_model[1].strip() if cpu_model else None,
        "cpu_count": os.cpu_count(),
        "memory_bytes": _meminfo_bytes("MemTotal"),
    }


def is_this_host(host: str) -> bool:
    """Return whether `host` is the name of this host, with or without its domain.

    The name of this host is that of `host_name`.
    """
    name = host_name()
    return host in {name, name.partition(".")[0]}


def host_name() -> str:
    """Return the name of this host.

    In a Slurm job, it is the name of the node (the environment variable SLURMD_NODENAME).
    """
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def load_snapshot() -> LoadSnapshot:
    """Return the present load of this machine.

    It consists of the available memory, the load averages, and the frequency governor of the first CPU.
    """
    return {
        "memory_available_bytes": _meminfo_bytes("MemAvailable"),
        "load_average": list(os.getloadavg()),
        "cpu_governor": read_kernel_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    }


def disk_traffic_bytes(device: str | None) -> int | None:
    """Return how many bytes a disk has read and written in total since it appeared.

    Args:
        device: The kernel's name of the disk, such as ``sda``.

    Returns:
        The number of bytes. None if `device` is None or no such disk exists.
    """
    words = (read_kernel_file(f"/sys/block/{device}/stat") or "").split() if device else []
    return (int(words[2]) + int(words[6])) * 512 if words else None


def file_system_type(folder: Path) -> str | None:
    """Return the type of the file system of a folder, such as ``ext4`` or ``tmpfs``.

    Returns None if neither the mount table nor stat(1) reports it.
    """
    mount = _mount_of(folder)
    if mount:
        return mount.type
    # in a chroot, the mount table may lack the root; stat(1) has the type from statfs(2)
    result = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment(),
    )
    return result.stdout.strip().replace("ext2/ext3", "ext4") or None


class Mount(NamedTuple):
    """An entry of the mount table.

    Attributes:
        point: The folder on which the file system is mounted.
        number: The device number of the file system.
        type: The type of the file system, such as ``ext4``.
        source: The mounted device, such as ``/dev/sda1``; another text for file systems without a device.
    """

    point: Path
    number: int
    type: str
    source: str


def mounts() -> list[Mount]:
    """Return all mounts that this process sees.

    They have the order of /proc/self/mountinfo, see proc(5).
    """
    found = []
    for line in _table_lines("/proc/self/mountinfo"):
        before, _, after = line.partition(" - ")
        words, (kind, source, *_) = before.split(" "), after.split(" ")
        major, minor = map(int, words[2].split(":"))
        found.append(Mount(Path(_unescaped(words[4])), os.makedev(major, minor), kind, source))
    return found


def _mount_of(folder: Path) -> Mount | None:
    """Return the mount that a folder is on; None if the mount table has none."""
    resolved = folder.resolve()
    # of several mounts at one mount point, the last one is visible
    inside = [mount for mount in mounts() if resolved.is_relative_to(mount.point)]
    return max(reversed(inside), key=lambda mount: len(mount.point.parts), default=None)


def disk_facts_under(folder: Path) -> DiskFacts:
    """Return what the kernel reports about the disk that stores a folder.

    All values are None if the folder is not on a disk, such as in a network or memory file system.
    """
    return _facts(_sysfs_disk(folder))


def disk_facts(node: Path | int) -> DiskFacts:
    """Return what the kernel reports about a block device.

    For a loop device, the serial number is the path of the file behind it. All values are None if the kernel does not
    have this device.

    Args:
        node: The path of the device's node, such as ``/dev/sda``, or its device number (``st_rdev``).
    """
    return _facts(sysfs_folder(node))


def _facts(entry: Path | None) -> DiskFacts:
    if entry is None:
        return cast(DiskFacts, dict.fromkeys(DiskFacts.__required_keys__))
    sectors, block = read_kernel_file(entry / "size"), read_kernel_file(entry / "queue/logical_block_size")
    rotational = read_kernel_file(entry / "queue/rotational")
    scheduler = re.search(r"\[(.*?)\]", read_kernel_file(entry / "queue/scheduler") or "")
    return {
        "device": entry.name,
        "model": read_kernel_file(entry / "device/model"),
        "serial": _serial(entry),
        "firmware": read_kernel_file(entry / "device/firmware_rev") or read_kernel_file(entry / "device/rev"),
        "size_bytes": int(sectors) * 512 if sectors else None,
        "rotational": rotational == "1" if rotational else None,
        "logical_block_bytes": int(block) if block else None,
        "scheduler": scheduler[1] if scheduler else None,
    }


def _serial(entry: Path) -> str | None:
    """Return the serial number of a disk; for a loop device, the path of its file.

    Args:
        entry: The sysfs folder of the disk.

    Returns:
        The serial number. None if the kernel reports none. SCSI disks report it in the vital product data, page 0x80.
    """
    for name in ("device/serial", "serial", "loop/backing_file"):
        if found := read_kernel_file(entry / name):
            return found
    try:  # SPC-5, 7.7.19: four bytes of header, then the serial number
        return (entry / "device/vpd_pg80").read_bytes()[4:].decode("ascii", errors="replace").strip("\0 ") or None
    except OSError:
        return None


def sysfs_folder(node: Path | int) -> Path | None:
    """Return the sysfs folder of a block device, such as /sys/devices/…/block/sda.

    Args:
        node: The path of the device's node, such as ``/dev/sda``, or its device number (``st_rdev``).

    Returns:
        The folder, with symbolic links resolved. None if the kernel does not have this device.
    """
    device = node if isinstance(node, int) else os.stat(node).st_rdev
    entry = _SYS_BLOCK / f"{os.major(device)}:{os.minor(device)}"
    return entry.resolve() if entry.exists() else None


def whole_disks_under(folder: Path) -> list[Path]:
    """Return the sysfs folders of the physical disks that store a folder.

    Layers above the disks, such as partitions, LVM, RAID or encryption, are followed down to the disks. The list is
    empty if the folder is not on a disk.
    """
    return _whole_disks(_sysfs_disk(folder))


def physical_disks(device: str) -> list[str]:
    """Return the kernel's names of the physical disks that a block device is built on.

    Layers such as LVM, RAID or encryption are followed down to the disks. If the device is itself a disk, the only name
    is its own. The list is empty if there is no such device.

    Args:
        device: The kernel's name of the device, such as ``dm-0`` or ``sda``.
    """
    entry = Path("/sys/block") / device
    return sorted(disk.name for disk in _whole_disks(entry.resolve() if entry.exists() else None))


def _whole_disks(entry: Path | None) -> list[Path]:
    found, queue = [], [entry]
    while queue:
        entry = queue.pop()
        if entry is None:
            continue
        below = [path.resolve() for path in (entry / "slaves").glob("*")]
        queue += [path.parent if (path / "partition").exists() else path for path in below]
        if not below:
            found.append(entry)
    return found


def active_swaps(kind: str) -> list[str]:
    """Return the paths of all active swap areas of one kind, from /proc/swaps.

    Args:
        kind: ``partition`` or ``file``.
    """
    rows = [re.split(r"[ \t]+", line) for line in _table_lines("/proc/swaps")[1:]]
    return [_unescaped(row[0]) for row in rows if row[1] == kind]


def _table_lines(path: str) -> list[str]:
    """Return the lines of a table in /proc that contains names of files; none if it cannot be read.

    In names, the kernel escapes blanks, tabs and line feeds. It does not escape other characters that Python takes for
    a blank or for the end of a line, such as U+2028.
    """
    try:
        return os.fsdecode(Path(path).read_bytes()).split("\n")[:-1]
    except OSError:
        return []


def _unescaped(text: str) -> str:
    r"""Return a path from a file in /proc with its octal escapes replaced.

    The kernel writes a space as ``\040``, and escapes other special characters alike.
    """
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def _sysfs_disk(folder: Path) -> Path | None:
    """Return the sysfs folder of the disk under a folder of the file system.

    For a partition, it is the folder of its disk. Returns None for network, memory and overlay file systems.
    """
    entry = sysfs_folder(os.stat(folder).st_dev)
    if entry is None:
        # some file systems, such as btrfs, have device numbers of their own; the mount's source is the disk
        mount = _mount_of(folder)
        if not mount or not mount.source.startswith("/dev/") or not Path(mount.source).exists():
            return None
        entry = sysfs_folder(Path(mount.source))
    return entry.parent if entry is not None and (entry / "partition").exists() else entry
