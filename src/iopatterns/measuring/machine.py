"""Facts about this machine and its disks, read from /proc and /sys."""

import functools
import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, cast

from iopatterns.base.subprocess_env import minimal_environment
from iopatterns.raw.records import DiskFacts, LoadSnapshot, MachineFacts

_SYS_BLOCK = Path("/sys/dev/block")


def read_kernel_file(path: Path | str) -> str | None:
    """Return the text of a small kernel file without whitespace at its ends.

    A kernel file is a file in /proc or /sys. Only ASCII whitespace is removed. Returns None if the file is missing,
    empty or not readable.
    """
    try:
        return Path(path).read_bytes().strip().decode("utf-8", errors="replace") or None
    except OSError:
        return None


def _table_lines(path: str) -> list[bytes]:
    """Return the lines of a table in /proc; an empty list if it cannot be read.

    The kernel separates lines by a newline and columns by spaces, and escapes both within a column (``mangle_path`` in
    fs/seq_file.c). All other bytes belong to the columns. Python's methods for text would also split at characters such
    as U+00A0 and U+2028, which paths may contain.
    """
    try:
        return [line for line in Path(path).read_bytes().split(b"\n") if line]
    except OSError:
        return []


def _meminfo_bytes(key: str) -> int | None:
    found = re.search(rf"^{key}:\s*(\d+)", read_kernel_file("/proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


@functools.cache
def machine_facts() -> MachineFacts:
    """Return the properties of this machine that stay constant during a run.

    The keys are ``kernel`` (such as ``Linux 6.1.0 x86_64``), ``cpu_model``, ``cpu_count`` and ``memory_bytes``. A value
    that is unknown is None. The host name is left out for privacy.
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
    """Return whether a name is the name of this host, with or without its domain.

    Args:
        host: The name to compare with that from `host_name`.
    """
    name = host_name()
    return host in {name, name.partition(".")[0]}


def host_name() -> str:
    """Return the name of this host, as the kernel reports it.

    In a Slurm job, return the name of the node instead (the environment variable SLURMD_NODENAME).
    """
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def load_snapshot() -> LoadSnapshot:
    """Return the present load of this machine.

    The keys are ``memory_available_bytes``, ``load_average`` (over 1, 5 and 15 minutes) and ``cpu_governor`` (the
    frequency governor of the first CPU). The first and the last value are None if unknown.
    """
    return {
        "memory_available_bytes": _meminfo_bytes("MemAvailable"),
        "load_average": list(os.getloadavg()),
        "cpu_governor": read_kernel_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    }


def disk_traffic_bytes(device: str | None) -> int | None:
    """Return how many bytes a disk has read and written in total since it appeared.

    Args:
        device: The kernel's name of the disk, such as ``sda``; None if the name is unknown.

    Returns:
        The number of bytes. None if `device` is None or no such disk exists.
    """
    words = (read_kernel_file(f"/sys/block/{device}/stat") or "").split() if device else []
    return (int(words[2]) + int(words[6])) * 512 if words else None


def disk_error_count(device: str | None) -> int | None:
    """Return how many commands to a disk have failed since it appeared.

    Only SCSI and SATA disks have this count. For a device on several disks, the result is the sum of their counts.

    Args:
        device: The kernel's name of the device, such as ``sda``; None if the name is unknown.

    Returns:
        The number of failed commands. None if `device` is None, or if no disk below it counts them.
    """
    disks = physical_disks(device) if device else []
    counts = [read_kernel_file(f"/sys/block/{disk}/device/ioerr_cnt") for disk in disks]
    known = [int(count, 16) for count in counts if count]
    return sum(known) if known else None


def file_system_type(folder: Path) -> str | None:
    """Return the type of the file system that contains a folder, such as ``ext4``.

    Returns None if neither the mount table nor stat(1) reports the type.
    """
    mount = mount_of(folder)
    if mount:
        return mount.type
    # in a chroot, the mount table may lack the root; stat(1) has the type from statfs(2)
    result = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=minimal_environment(),
    )
    return result.stdout.strip().replace("ext2/ext3", "ext4") or None


class Mount(NamedTuple):
    """An entry of the mount table.

    Attributes:
        identifier: The kernel's number of the mount.
        point: The folder on which the file system is mounted.
        number: The device number of the file system (``st_dev``).
        type: The type of the file system, such as ``ext4``.
        source: The mounted device, such as ``/dev/sda1``. For a file system without a device, another text.
        options: The values of the file system's options, by name, such as ``upperdir``. An option without a value has
            an empty text.
    """

    identifier: int
    point: Path
    number: int
    type: str
    source: str
    options: Mapping[str, str]


def mounts() -> list[Mount]:
    """Return all mounts that this process sees.

    The mounts have the order of /proc/self/mountinfo, see proc(5). The list is empty if this file cannot be read.
    """
    found = []
    for line in _table_lines("/proc/self/mountinfo"):
        before, _, after = line.partition(b" - ")
        words, (kind, source, options) = before.split(b" "), after.split(b" ", 2)
        major, minor = map(int, words[2].split(b":"))
        pairs = (option.partition(b"=") for option in options.split(b","))
        found.append(
            Mount(
                identifier=int(words[0]),
                point=Path(_unescaped(words[4])),
                number=os.makedev(major, minor),
                type=_unescaped(kind),
                source=_unescaped(source),
                options={_unescaped(name): _unescaped(value) for name, _, value in pairs},
            )
        )
    return found


def mount_of(path: Path) -> Mount | None:
    """Return the entry of the mount table for the file system of a file or folder.

    The kernel reports the number of the mount. The result is therefore right even if another file system is mounted
    over this one, or if names of mount points are unusual. Returns None if the path does not exist, or if the mount
    table lacks the mount, as in a chroot.

    Args:
        path: The file or folder.
    """
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        facts = dict(line.partition(b":\t")[::2] for line in _table_lines(f"/proc/self/fdinfo/{descriptor}"))
    finally:
        os.close(descriptor)
    identifier = int(facts.get(b"mnt_id", b"-1"))
    return next((mount for mount in mounts() if mount.identifier == identifier), None)


def disk_facts_under(folder: Path) -> DiskFacts:
    """Return what the kernel reports about the disk that stores a folder.

    For a partition, the facts are those of its disk. All values are None if the folder is not on a disk, such as in a
    network or memory file system.

    Args:
        folder: The folder.

    Returns:
        The keys that `disk_facts` describes.

    Raises:
        OSError: The folder does not exist.
    """
    return _facts(disk_folder(folder))


def disk_facts(node: Path | int) -> DiskFacts:
    """Return what the kernel reports about a block device.

    Args:
        node: The path of the device's node, such as ``/dev/sda``, or its device number (``st_rdev``).

    Returns:
        The keys ``device`` (the kernel's name, such as ``sda``), ``model``, ``serial``, ``firmware``, ``size_bytes``,
        ``rotational``, ``logical_block_bytes`` and ``scheduler``. A value that the kernel does not report is None. For
        a loop device, the serial number is the path of the file behind it. All values are None if the kernel does not
        have this device.

    Raises:
        OSError: `node` is a path that does not exist.
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

    Raises:
        OSError: `node` is a path that does not exist.
    """
    device = node if isinstance(node, int) else os.stat(node).st_rdev
    entry = _SYS_BLOCK / f"{os.major(device)}:{os.minor(device)}"
    return entry.resolve() if entry.exists() else None


def whole_disks_under(folder: Path) -> list[Path]:
    """Return the sysfs folders of the physical disks that store a folder.

    Layers above the disks, such as partitions, LVM, RAID or encryption, are followed down to the disks. The list is
    empty if the folder is not on a disk.

    Args:
        folder: The folder.

    Raises:
        OSError: The folder does not exist.
    """
    return _whole_disks(disk_folder(folder))


def physical_disks(device: str) -> list[str]:
    """Return the kernel's names of the physical disks that a block device is built on.

    Layers such as LVM, RAID or encryption are followed down to the disks. If the device is itself a disk, the list has
    only the name of the device. The list is sorted, and empty if there is no such device.

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

    The list is empty if there are none, or if /proc/swaps cannot be read.

    Args:
        kind: ``partition`` (block devices) or ``file``.
    """
    areas = (line.partition(b" ") for line in _table_lines("/proc/swaps")[1:])
    return [_unescaped(path) for path, _, columns in areas if columns.split()[0].decode() == kind]


def _unescaped(column: bytes) -> str:
    r"""Return the text of a column of a table in /proc, with octal escapes replaced.

    The kernel writes a space as ``\040``, and escapes other special characters alike. Bytes that are not UTF-8 become
    surrogates, as in all paths of Python.
    """
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda code: bytes([int(code[1], 8)]), column))


def disk_folder(path: Path) -> Path | None:
    """Return the sysfs folder of the disk under a file or folder, such as /sys/…/sda.

    For a partition, the result is the folder of its disk. Layers such as LVM or RAID are not followed: the result is
    the folder of their device, such as ``dm-0``. Returns None for network, memory and overlay file systems.

    Args:
        path: The file or folder.

    Raises:
        OSError: The path does not exist.
    """
    entry = sysfs_folder(os.stat(path).st_dev)
    if entry is None:
        # some file systems, such as btrfs, have device numbers of their own; the mount's source is the disk
        mount = mount_of(path)
        if mount is None or not _has_device(mount.type) or not Path(mount.source).is_block_device():
            return None
        entry = sysfs_folder(Path(mount.source))
    return entry.parent if entry is not None and (entry / "partition").exists() else entry


def _has_device(file_system: str) -> bool:
    """Return whether file systems of a type are always on a block device.

    The mount source of any other type is an arbitrary text, such as the name of a device.
    """
    return [b"", os.fsencode(file_system)] in [line.split(b"\t") for line in _table_lines("/proc/filesystems")]
