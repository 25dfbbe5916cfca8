"""Settings that a disk stores itself, and the kernel's view of its write cache.

The program that reads and sets a setting depends on the disk: sdparm for SCSI and SATA disks, hdparm for one setting of
SATA disks, nvme-cli for NVMe disks.
"""

import contextlib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from iopatterns.configuration import factors
from iopatterns.measuring import machine
from iopatterns.measuring.tuning import mode_page, queue_settings, sg_commands
from iopatterns.raw.records import WriteCache
from iopatterns.raw.tuning_steps import CHANGED, NOT_APPLICABLE, CommandResult, TuningStep, tuning_step

DISK_SETTINGS = factors.factor_names(factors.FactorRole.MODE_PAGE, factors.FactorRole.LOOK_AHEAD)

_LOOK_AHEAD = "look_ahead"
_WRITE_CACHE = "WCE"
_SYS_BLOCK = Path("/sys/block")
# The kernel's view of a drive with a write cache, and of one without
_BACK, _THROUGH = map(str, factors.FACTORS["write_cache"].choices)
_VOLATILE_WRITE_CACHE = 6  # number of this feature of an NVMe controller (NVMe 1.4, 5.21.1.6)
_CHANGEABLE = 4  # bit of a feature's capabilities, which `--sel=3` reads (NVMe 1.4, 5.21.1)

# Called with the name and the value of a setting before it changes; see `journal.Journal.record`
RecordSetting = Callable[[str, int | str], None]


def set_on_disk(device: Path, setting: str, wanted: int, note: RecordSetting | None = None) -> TuningStep:
    """Set a setting of a disk until the disk's next power cycle, and verify it.

    The setting is one of `DISK_SETTINGS`:

    - ``RCD``, ``WCE``, ``FSW`` and ``DRA`` are bits of the caching mode page, a block of settings in the disk. ``WCE``
      (write cache enable) is the write cache of the disk. After a change of it, the kernel's view of the write cache is
      updated. NVMe disks have only ``WCE``.
    - ``look_ahead`` (read look-ahead) exists on SATA disks only.

    Args:
        device: The path of the disk's node, such as ``/dev/sda``.
        setting: The name of the setting.
        wanted: The value to set, 0 or 1.
        note: Function that is called before the change, once for each setting that the change affects. Its arguments
            are the name and the old value of the setting. None to call nothing.

    Returns:
        The values before and after, and whether the wanted value is in effect. A setting that the disk lacks has the
        outcome ``not applicable``.
    """
    access = _access(device, setting)
    if isinstance(access, str):
        return tuning_step(setting, wanted, NOT_APPLICABLE, access)
    if setting == _WRITE_CACHE:
        return _set_write_cache(device, access, wanted, note)
    return sg_commands.set_value(access, setting, wanted, note)


def current_value(device: Path, setting: str) -> int | str | None:
    """Return the present value of a setting of a disk.

    The disk itself stores some settings, such as ``WCE`` (write cache enable). The kernel stores others for the disk's
    request queue, such as ``scheduler``.

    Args:
        device: The path of the disk's node, such as ``/dev/sda``.
        setting: The name of the setting.

    Returns:
        The value, such as 1 or ``mq-deadline``. None if the disk has no such setting.
    """
    if setting in queue_settings.QUEUE_SETTINGS:
        return _queue_value(device, setting)
    access = _access(device, setting)
    return None if isinstance(access, str) else sg_commands.read_value(access)


def manual_command(device: Path, setting: str, value: int) -> str:
    """Return the command by which a user sets a setting of a disk.

    An example is ``sdparm --set=WCE=1 /dev/sda``. If there is no such command, return the reason as text instead.

    Args:
        device: The path of the disk's node, such as ``/dev/sda``.
        setting: One of `DISK_SETTINGS`, such as ``WCE``.
        value: The value to set, 0 or 1.
    """
    access = _access(device, setting)
    return access if isinstance(access, str) else shlex.join(access.order(value))


def read_write_cache(disk: str) -> WriteCache:
    """Return the state of a disk's write cache, according to disk and kernel.

    Args:
        disk: The kernel's name of the disk, such as ``sda``.

    Returns:
        Two keys, each of which is None if unknown:

        - ``drive``: what the disk reports, 1 (on) or 0 (off)
        - ``kernel``: what the kernel assumes, ``write back`` (on) or ``write through`` (off)
    """
    device = Path("/dev") / disk
    access = _access(device, _WRITE_CACHE) if disk.startswith(("sd", "nvme")) else ""
    known = None if isinstance(access, str) else sg_commands.read_value(access)
    return {"drive": known, "kernel": _queue_value(device, "write_cache")}


def write_caches_disagree(seen: WriteCache) -> bool:
    """Return whether disk and kernel disagree on whether the write cache is on.

    If they disagree, the kernel omits flushes that the disk needs, or sends flushes that have no effect. The result is
    False if the state in the disk or in the kernel is unknown.

    Args:
        seen: The state according to disk and kernel, from `read_write_cache`.
    """
    return None not in seen.values() and seen["kernel"] != (_BACK if seen["drive"] else _THROUGH)


def _queue_value(device: Path, setting: str) -> int | str | None:
    return queue_settings.attribute_value(queue_settings.attribute_path(device.name, setting))


def _access(device: Path, setting: str) -> sg_commands.SettingAccess | str:
    """Return the commands that read and set a setting of a disk.

    If the disk has no such setting, return the reason as text.
    """
    if setting == _LOOK_AHEAD:
        if _vendor(device) != "ATA":  # the vendor that libata and SCSI-to-ATA bridges report
            return "the disk is no SATA disk, and hdparm knows the look-ahead of these alone; on SCSI it is DRA"
        return _look_ahead_access(device)
    if not device.name.startswith("nvme"):
        return mode_page.sdparm_access([], str(device), setting)
    if setting != _WRITE_CACHE:  # sdparm emulates a mode page for NVMe disks
        return "an NVMe disk has no caching mode page; WCE alone has its like there, the volatile write cache"
    return _volatile_write_cache_access(device)


def _vendor(device: Path) -> str | None:
    return machine.read_kernel_file(_SYS_BLOCK / device.name / "device/vendor")


def _look_ahead_access(device: Path) -> sg_commands.SettingAccess:
    def find(ask: sg_commands.CommandRunner) -> tuple[int, bool | None] | None:
        printed = ask(["hdparm", "-A", str(device)])["stdout"]
        found = re.search(r"^\s*look-ahead\s*=\s*([01])\b", printed, re.MULTILINE)
        return (int(found[1]), None) if found else None

    return sg_commands.SettingAccess(
        program="hdparm",
        find=find,
        order=lambda value: ["hdparm", f"-A{value}", str(device)],
        rejected=lambda result: bool(result["exit_status"] or result["stderr"]),  # hdparm exits with 0 after an error
    )


def _volatile_write_cache_access(device: Path) -> sg_commands.SettingAccess | str:
    """Return the commands that read and set the write cache of an NVMe disk.

    The write cache belongs to the controller. If the disk has several controllers, or the controller has several disks,
    return the reason why the cache cannot be set, as text.
    """
    above = (_SYS_BLOCK / device.name / "device").resolve()
    controllers = [path for path in (above, *above.glob("*")) if re.fullmatch(r"nvme\d+", path.name)]
    if len(controllers) != 1:
        return f"the disk is reached through {len(controllers)} controllers, each with a write cache of its own"
    others = [path.name for path in controllers[0].glob("nvme*n*") if (path / "size").exists()]
    if len(others) > 1:
        return f"its controller's write cache serves other disks too: {', '.join(sorted(others))}"
    node = f"/dev/{controllers[0].name}"  # not the disk's own node: it names a namespace, and commands are rejected

    def command(verb: str, *options: str) -> Sequence[str]:
        return ["nvme", verb, node, f"--feature-id={_VOLATILE_WRITE_CACHE}", *options]

    def value(result: CommandResult) -> int | None:
        found = re.search(r"value:\s*(?:0x)?([0-9a-fA-F]+)", result["stdout"])
        return int(found[1], 16) if found and not result["exit_status"] else None

    def find(ask: sg_commands.CommandRunner) -> tuple[int, bool | None] | None:
        capabilities = value(ask(command("get-feature", "--sel=3")))
        now = value(ask(command("get-feature")))
        is_changeable = None if capabilities is None else bool(capabilities & _CHANGEABLE)
        return None if now is None else (now & 1, is_changeable)

    return sg_commands.SettingAccess(
        program="nvme", find=find, order=lambda wanted: command("set-feature", f"--value={wanted}")
    )


def _set_write_cache(
    device: Path, access: sg_commands.SettingAccess, wanted: int, note: RecordSetting | None
) -> TuningStep:
    """Set the write cache of a disk, and update the kernel's view of it.

    While the two differ, the kernel's view is ``write back``. With ``write through``, it would send no flushes to the
    disk.

    Args:
        device: The node of the disk, such as ``/dev/sda``.
        access: The commands that read and set the write cache.
        wanted: 1 for on, 0 for off.
        note: Called before the change with the name and the old value of each setting that the change affects.

    Returns:
        The values before and after, and whether the wanted value is in effect.
    """
    # some kernels reset the read-ahead when they rescan a disk
    queue_values = ((name, _queue_value(device, name)) for name in ("write_cache", "read_ahead_kb"))
    seen = {name: value for name, value in queue_values if value is not None}

    def note_all(setting: str, value: int | str) -> None:
        if note is not None:
            note(setting, value)
            for name, found in seen.items():
                note(name, found)
        _write_sysfs(queue_settings.attribute_path(device.name, "write_cache"), _BACK)

    step = sg_commands.set_value(access, _WRITE_CACHE, wanted, note_all)
    if "write_cache" in seen and step["outcome"] == CHANGED:
        _rescan(device)
        for name, found in {**seen, "write_cache": _BACK if step["after"] else _THROUGH}.items():
            if _queue_value(device, name) != found:
                _write_sysfs(queue_settings.attribute_path(device.name, name), str(found))
    return step


def align_kernel_write_cache(device: Path) -> None:
    """Update the kernel's view of a disk's write cache to what the disk reports.

    Nothing happens if disk and kernel agree, or if the state in one of them is unknown. Errors are ignored.

    Args:
        device: The path of the disk's node, such as ``/dev/sda``.
    """
    seen = read_write_cache(device.name)
    if write_caches_disagree(seen):
        _rescan(device)
        if write_caches_disagree(read_write_cache(device.name)):
            view = _BACK if seen["drive"] else _THROUGH
            _write_sysfs(queue_settings.attribute_path(device.name, "write_cache"), view)


def _rescan(device: Path) -> None:
    """Have the kernel read the properties of a SCSI or SATA disk again.

    This is necessary after the write cache was turned on: if the disk reported no cache when the kernel last read it,
    the kernel rejects ``write back``. On NVMe disks, nothing happens.
    """
    _write_sysfs(_SYS_BLOCK / device.name / "device/rescan", "1")


def _write_sysfs(file: Path, text: str) -> None:
    """Write to a sysfs file, ignoring errors, because callers read the value back."""
    with contextlib.suppress(OSError):
        file.write_text(text, encoding="ascii")
