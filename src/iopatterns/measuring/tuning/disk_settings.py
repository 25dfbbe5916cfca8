"""Settings that a disk stores itself, and the kernel's view of its write cache.

The program that reads and sets a setting depends on the transport: sdparm for SCSI and SATA, hdparm for SATA only,
nvme-cli for NVMe.
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
    """Set a setting until the disk's next power cycle.

    Returns the tuning step with the value read back.

    WCE of an NVMe disk is its volatile write cache. ``look_ahead`` is a setting of SATA disks. After a change of WCE,
    the kernel's view of the write cache is updated.

    Args:
        device: The node of the disk.
        setting: One of `DISK_SETTINGS`.
        wanted: The value to set.
        note: Called with the name and the old value of each setting that the change affects, before the change.
    """
    access = _access(device, setting)
    if isinstance(access, str):
        return tuning_step(setting, wanted, NOT_APPLICABLE, access)
    if setting == _WRITE_CACHE:
        return _set_write_cache(device, access, wanted, note)
    return sg_commands.set_value(access, setting, wanted, note)


def current_value(device: Path, setting: str) -> int | str | None:
    """Return the present value of a setting of a disk or of its queue.

    Returns None if the disk has no such setting.
    """
    if setting in queue_settings.QUEUE_SETTINGS:
        return _queue_value(device, setting)
    access = _access(device, setting)
    return None if isinstance(access, str) else sg_commands.read_value(access)


def manual_command(device: Path, setting: str, value: int) -> str:
    """Return the command by which a user sets a setting, or why there is none."""
    access = _access(device, setting)
    return access if isinstance(access, str) else shlex.join(access.order(value))


def read_write_cache(disk: str) -> WriteCache:
    """Return the state of a disk's write cache.

    ``disk`` is the kernel's name of the disk.
    """
    device = Path("/dev") / disk
    access = _access(device, _WRITE_CACHE) if disk.startswith(("sd", "nvme")) else ""
    known = None if isinstance(access, str) else sg_commands.read_value(access)
    return {"drive": known, "kernel": _queue_value(device, "write_cache")}


def write_caches_disagree(seen: WriteCache) -> bool:
    """Return whether drive and kernel disagree on the write cache.

    If they do, the kernel omits flushes that the drive needs, or sends flushes that have no effect.
    """
    return None not in seen.values() and seen["kernel"] != (_BACK if seen["drive"] else _THROUGH)


def _queue_value(device: Path, setting: str) -> int | str | None:
    return queue_settings.attribute_value(queue_settings.attribute_path(device.name, setting))


def _access(device: Path, setting: str) -> sg_commands.SettingAccess | str:
    """Return the commands that read and set a setting, or why there is none."""
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
    """Return the commands for the write cache of an NVMe disk's controller.

    The disk must have one controller, and the controller no other disk. Otherwise, return the reason.
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

    Until both agree again, the kernel's view is ``write back``: otherwise, it would send no flushes to the drive.
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
    """Update the kernel's view of the write cache to the state of the disk."""
    seen = read_write_cache(device.name)
    if write_caches_disagree(seen):
        _rescan(device)
        if write_caches_disagree(read_write_cache(device.name)):
            view = _BACK if seen["drive"] else _THROUGH
            _write_sysfs(queue_settings.attribute_path(device.name, "write_cache"), view)


def _rescan(device: Path) -> None:
    """Have the kernel read the properties of a SCSI or SATA disk again.

    If such a disk reported no write cache when it was last read, the kernel rejects ``write back`` until it is read
    again. The kernel does not rescan NVMe disks: it keeps what the controller supports.
    """
    _write_sysfs(_SYS_BLOCK / device.name / "device/rescan", "1")


def _write_sysfs(file: Path, text: str) -> None:
    """Write to a sysfs file. Errors are ignored: callers read the value back."""
    with contextlib.suppress(OSError):
        file.write_text(text, encoding="ascii")
