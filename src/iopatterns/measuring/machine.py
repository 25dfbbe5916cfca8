"""What the machine says of itself and of a disk: /proc, /sys and mounts, for sidecars and guards. Reads only."""

import functools
import os
import re
import subprocess
from pathlib import Path
from typing import cast

from iopatterns.base import subprocess_env
from iopatterns.raw.records import DiskFacts, LoadSnapshot, MachineFacts

_SYS_BLOCK = Path("/sys/dev/block")


def read_kernel_file(path: Path | str) -> str | None:
    """Return a small kernel file's text without the outer spaces, or None where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _meminfo_bytes(key: str) -> int | None:
    found = re.search(rf"^{key}:\s*(\d+)", read_kernel_file("/proc/meminfo") or "", re.MULTILINE)
    return int(found[1]) * 1024 if found else None


@functools.cache
def machine_facts() -> MachineFacts:
    """Return what stays the same during a run: kernel, cpu_model, cpu_count, memory_bytes. No host name."""
    cpu_model = re.search(r"^(?:model name|Model).*?:(.*)", read_kernel_file("/proc/cpuinfo") or "", re.MULTILINE)
    uname = os.uname()
    return {
        "kernel": f"{uname.sysname} {uname.release} {uname.machine}",
        "cpu_model": cpu_model[1].strip() if cpu_model else None,
        "cpu_count": os.cpu_count(),
        "memory_bytes": _meminfo_bytes("MemTotal"),
    }


def is_this_host(host: str) -> bool:
    """Return whether this is the host of that name, see `host_name`; the domain behind it may be left out."""
    name = host_name()
    return host in {name, name.partition(".")[0]}


def host_name() -> str:
    """Return how Slurm calls this host in one of its jobs, elsewhere how it calls itself."""
    return os.environ.get("SLURMD_NODENAME") or os.uname().nodename


def load_snapshot() -> LoadSnapshot:
    """Return what changes: memory_available_bytes, load_average (1, 5, 15 min), cpu_governor of the first CPU."""
    return {
        "memory_available_bytes": _meminfo_bytes("MemAvailable"),
        "load_average": list(os.getloadavg()),
        "cpu_governor": read_kernel_file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    }


def disk_traffic_bytes(device: str | None) -> int | None:
    """Return how many bytes a disk has read and written since it is there, by its kernel name (sysfs-block, stat)."""
    words = (read_kernel_file(f"/sys/block/{device}/stat") or "").split() if device else []
    return (int(words[2]) + int(words[6])) * 512 if words else None


def file_system_type(folder: Path) -> str | None:
    """Return the type of the file system that holds ``folder``: ``ext4``, ``xfs``, ``tmpfs`` …"""
    mount = _mount_of(folder)
    if mount:
        return mount["type"]
    # in a chroot the mount table has no line for the root itself; coreutils' stat knows the type from statfs(2)
    asked = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=subprocess_env.child_environment(),
    )
    return asked.stdout.strip().replace("ext2/ext3", "ext4") or None


def _mount_of(folder: Path) -> dict[str, str] | None:
    """Return type and source of the mount that ``folder`` lies on (proc(5), /proc/self/mountinfo)."""
    resolved = folder.resolve()
    best: tuple[int, dict[str, str]] | None = None
    for line in (read_kernel_file("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        kind, source, *_ = after.split()
        point = Path(_unescaped(before.split()[4]))
        # of two mounts on one point the later line is the one that is seen
        if resolved.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), {"type": kind, "source": source})
    return best[1] if best else None


def disk_facts_under(folder: Path) -> DiskFacts:
    """Return what the kernel says of the disk under ``folder``: `disk_facts` of it, with None for all where there is none."""
    return _facts(_sysfs_disk(folder))


def disk_facts(node: Path | int) -> DiskFacts:
    """Return what the kernel says of a block device, by its node or number; None for each thing that it does not say.

    Keys: device, model, serial, firmware, size_bytes, rotational, logical_block_bytes, scheduler. A loop device has no
    serial number of its own: the path of the file behind it stands for one.
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
    """Return the serial number of a disk, from where its kind has it: NVMe, virtio, SCSI's page 0x80, a loop's file."""
    for name in ("device/serial", "serial", "loop/backing_file"):
        if found := read_kernel_file(entry / name):
            return found
    try:  # SPC-5, 7.7.19: four bytes of header, then the serial number
        return (entry / "device/vpd_pg80").read_bytes()[4:].decode("ascii", errors="replace").strip("\0 ") or None
    except OSError:
        return None


def sysfs_folder(node: Path | int) -> Path | None:
    """Return the sysfs folder of a block device, by its node or number, or None where the kernel shows none."""
    device = node if isinstance(node, int) else os.stat(node).st_rdev
    entry = _SYS_BLOCK / f"{os.major(device)}:{os.minor(device)}"
    return entry.resolve() if entry.exists() else None


def whole_disks_under(folder: Path) -> list[Path]:
    """Return the sysfs folders of all whole disks that ``folder`` lies on, LVM, RAID and encryption looked through."""
    return _whole_disks(_sysfs_disk(folder))


def physical_disks(device: str) -> list[str]:
    """Return the kernel's names of the whole disks that a device of the kernel's is made of, itself where of none."""
    entry = Path("/sys/block") / device
    return sorted(disk.name for disk in _whole_disks(entry.resolve() if entry.exists() else None))


def _whole_disks(entry: Path | None) -> list[Path]:
    found, waiting = [], [entry]
    while waiting:
        entry = waiting.pop()
        if entry is None:
            continue
        below = [path.resolve() for path in (entry / "slaves").glob("*")]
        waiting += [path.parent if (path / "partition").exists() else path for path in below]
        if not below:
            found.append(entry)
    return found


def mounted_devices() -> list[tuple[str, int]]:
    """Return mount point and device number of everything mounted, swap left out (proc(5), /proc/self/mountinfo)."""
    found = []
    for line in (read_kernel_file("/proc/self/mountinfo") or "").splitlines():
        words = line.split()
        major, minor = map(int, words[2].split(":"))
        found.append((_unescaped(words[4]), os.makedev(major, minor)))
    return found


def active_swaps(kind: str) -> list[str]:
    """Return what is in use as swap (proc(5), /proc/swaps): the devices (``partition``), or the files (``file``)."""
    lines = (read_kernel_file("/proc/swaps") or "").splitlines()[1:]
    return [_unescaped(line.split()[0]) for line in lines if line.split()[1] == kind]


def _unescaped(text: str) -> str:
    """Return a path as it is: the kernel writes spaces and the like as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), text)


def _sysfs_disk(folder: Path) -> Path | None:
    """Return the sysfs folder of the whole disk under ``folder``, or None (network, memory, overlay)."""
    entry = sysfs_folder(os.stat(folder).st_dev)
    if entry is None:
        # btrfs and some others give files a device number of their own; the mount's source is the real one
        mount = _mount_of(folder)
        if not mount or not mount["source"].startswith("/dev/") or not Path(mount["source"]).exists():
            return None
        entry = sysfs_folder(Path(mount["source"]))
    return entry.parent if entry is not None and (entry / "partition").exists() else entry
