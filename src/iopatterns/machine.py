"""What the machine says of itself and of a disk: /proc, /sys and mounts, for sidecars and guards. Reads only."""

import functools
import os
import re
import subprocess
from pathlib import Path
from typing import Any

_SYS_BLOCK = Path("/sys/dev/block")


def _read(path: Path | str) -> str | None:
    """Return a small kernel file's text without the outer spaces, or None where there is none."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _meminfo_bytes(key: str) -> int | None:
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith(f"{key}:"):
            return int(line.split()[1]) * 1024
    return None


@functools.cache
def machine() -> dict[str, Any]:
    """Return what stays the same during a run: kernel, cpu_model, cpu_count, memory_bytes. No host name."""
    cpu_model = None
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith(("model name", "Model")):
            cpu_model = line.split(":", 1)[1].strip()
            break
    uname = os.uname()
    return {
        "kernel": f"{uname.sysname} {uname.release} {uname.machine}",
        "cpu_model": cpu_model,
        "cpu_count": os.cpu_count(),
        "memory_bytes": _meminfo_bytes("MemTotal"),
    }


def moment() -> dict[str, Any]:
    """Return what changes: memory_available_bytes, load_average (1, 5, 15 min), cpu_governor of the first CPU."""
    return {
        "memory_available_bytes": _meminfo_bytes("MemAvailable"),
        "load_average": list(os.getloadavg()),
        "cpu_governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    }


def file_system(folder: Path) -> str | None:
    """Return the type of the file system that holds ``folder``: ``ext4``, ``xfs``, ``tmpfs`` …"""
    mount = _mount_of(folder)
    if mount:
        return mount["type"]
    # in a chroot the mount table has no line for the root itself; coreutils' stat knows the type from statfs(2)
    asked = subprocess.run(
        ["stat", "--file-system", "--format=%T", str(folder)], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip().replace("ext2/ext3", "ext4") or None


def _mount_of(folder: Path) -> dict[str, str] | None:
    """Return type and source of the mount that ``folder`` lies on (proc(5), /proc/self/mountinfo)."""
    resolved = folder.resolve()
    best: tuple[int, dict[str, str]] | None = None
    for line in (_read("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        kind, source, *_ = after.split()
        # the kernel writes spaces and the like as three octal digits
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4]))
        # of two mounts on one point the later line is the one that is seen
        if resolved.is_relative_to(point) and (best is None or len(point.parts) >= best[0]):
            best = (len(point.parts), {"type": kind, "source": source})
    return best[1] if best else None


def disk_under(folder: Path) -> dict[str, Any]:
    """Return what the kernel says of the disk under ``folder``; None for each thing that it does not say.

    Keys: device, model, serial, firmware, size_bytes, rotational, logical_block_bytes, scheduler.
    """
    keys = (
        "device",
        "model",
        "serial",
        "firmware",
        "size_bytes",
        "rotational",
        "logical_block_bytes",
        "scheduler",
    )
    facts: dict[str, Any] = dict.fromkeys(keys)
    disk = _sysfs_disk(folder)
    if disk is None:
        return facts
    facts["device"] = disk.name
    facts["model"] = _read(disk / "device/model")
    facts["serial"] = _read(disk / "device/serial") or _read(disk / "serial")
    facts["firmware"] = _read(disk / "device/firmware_rev") or _read(disk / "device/rev")
    sectors = _read(disk / "size")
    facts["size_bytes"] = int(sectors) * 512 if sectors else None
    rotational = _read(disk / "queue/rotational")
    facts["rotational"] = rotational == "1" if rotational else None
    block = _read(disk / "queue/logical_block_size")
    facts["logical_block_bytes"] = int(block) if block else None
    scheduler = _read(disk / "queue/scheduler") or ""
    facts["scheduler"] = scheduler[scheduler.find("[") + 1 : scheduler.find("]")] if "[" in scheduler else None
    return facts


def _sysfs_disk(folder: Path) -> Path | None:
    """Return the sysfs folder of the whole disk under ``folder``, or None (network, memory, overlay)."""
    device = os.stat(folder).st_dev
    entry = _SYS_BLOCK / f"{os.major(device)}:{os.minor(device)}"
    if not entry.exists():
        # btrfs and some others give files a device number of their own; the mount's source is the real one
        mount = _mount_of(folder)
        if not mount or not mount["source"].startswith("/dev/") or not Path(mount["source"]).exists():
            return None
        device = os.stat(mount["source"]).st_rdev
        entry = _SYS_BLOCK / f"{os.major(device)}:{os.minor(device)}"
        if not entry.exists():
            return None
    disk = entry.resolve()
    return disk.parent if (disk / "partition").exists() else disk
