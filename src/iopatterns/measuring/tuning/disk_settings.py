"""Settings that a disk keeps itself, by the program of its transport; and the kernel's view of its write cache."""

import contextlib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

from iopatterns.configuration import factors
from iopatterns.measuring import machine
from iopatterns.measuring.tuning import mode_page, queue_settings, sg_commands
from iopatterns.raw.records import WriteCache
from iopatterns.raw.tuning_steps import CHANGED, CommandResult, Step, not_applicable_step

LOOK_AHEAD = "look_ahead"
DISK_SETTINGS = factors.factor_names(factors.FactorRole.MODE_PAGE, factors.FactorRole.LOOK_AHEAD)

_WRITE_CACHE = "WCE"
_SYS_BLOCK = Path("/sys/block")
# of a drive that has a write cache, and that has none
_BACK, _THROUGH = map(str, factors.FACTORS["write_cache"].choices)
_VOLATILE_WRITE_CACHE = 6  # NVMe 1.4, 5.21.1.6: a feature of the whole controller
# Gets the name and the value of what is about to change; see `journal.Journal.record`
RecordSetting = Callable[[str, int | str], None]

_CHANGEABLE = 4  # NVMe 1.4, 5.21.1: among the capabilities of a feature, which `--sel=3` asks for


def set_on_disk(device: Path, setting: str, wanted: int, note: RecordSetting | None = None) -> Step:
    """Set one of `DISK_SETTINGS` on a disk, until its next power cycle, and read it back.

    Bits of the caching mode page go through sdparm; WCE of an NVMe disk is its volatile write cache, through nvme-cli;
    ``look_ahead`` is that of a SATA disk, through hdparm. After a change of WCE the kernel learns of it. ``note`` gets
    what is about to change, the kernel's settings that follow it among that.
    """
    access = _access(device, setting)
    if isinstance(access, str):
        return not_applicable_step(setting, wanted, access)
    if setting == _WRITE_CACHE:
        return _set_write_cache(device, access, wanted, note)
    return sg_commands.set_value(access, setting, wanted, note)


def current_value(device: Path, setting: str) -> int | None:
    """Return what a disk reports of one of `DISK_SETTINGS`, None where it reports no such setting."""
    access = _access(device, setting)
    return None if isinstance(access, str) else sg_commands.read_value(access)


def manual_command(device: Path, setting: str, value: int) -> str:
    """Return the command with which a user sets it."""
    access = _access(device, setting)
    return access if isinstance(access, str) else shlex.join(access.order(value))


def read_write_cache(disk: str) -> WriteCache:
    """Return whether a disk's write cache is on by what it says itself (``drive``: 0, 1) and by the ``kernel``'s view.

    None for what nobody says. ``disk`` is the kernel's name of it.
    """
    device = Path("/dev") / disk
    access = _access(device, _WRITE_CACHE) if disk.startswith(("sd", "nvme")) else "neither SCSI nor NVMe"
    found = None if isinstance(access, str) else sg_commands.read_value(access)
    return {"drive": found, "kernel": _of_queue(device, "write_cache")}


def write_caches_disagree(seen: WriteCache) -> bool:
    """Return whether drive and kernel disagree on the write cache: then flushes are left out, or are for nothing."""
    return None not in seen.values() and seen["kernel"] != (_BACK if seen["drive"] else _THROUGH)


def _of_queue(device: Path, setting: str) -> int | str | None:
    return queue_settings.attribute_value(queue_settings.attribute_path(device.name, setting))


def _access(device: Path, setting: str) -> sg_commands.SettingAccess | str:
    """Return how a setting of a disk is read and set, or why there is none."""
    if setting == LOOK_AHEAD:
        if _vendor(device) != "ATA":  # what libata, and SCSI's translation to ATA, give as the vendor
            return "the disk is no SATA disk, and hdparm knows the look-ahead of these alone; on SCSI it is DRA"
        return _look_ahead(device)
    if not device.name.startswith("nvme"):
        return mode_page.sdparm_access([], str(device), setting)
    if setting != _WRITE_CACHE:  # sdparm makes a page up for NVMe disks
        return "an NVMe disk has no caching mode page; WCE alone has its like there, the volatile write cache"
    return _volatile_write_cache(device)


def _vendor(device: Path) -> str | None:
    return machine.read_kernel_file(_SYS_BLOCK / device.name / "device/vendor")


def _look_ahead(device: Path) -> sg_commands.SettingAccess:
    def find(ask: sg_commands.CommandRunner) -> tuple[int, bool | None] | None:
        said = re.search(r"^\s*look-ahead\s*=\s*([01])\b", ask(["hdparm", "-A", str(device)])["stdout"], re.MULTILINE)
        return (int(said[1]), None) if said else None

    return sg_commands.SettingAccess(
        program="hdparm",
        find=find,
        order=lambda value: ["hdparm", f"-A{value}", str(device)],
        rejected=lambda result: bool(result["exit_status"] or result["stderr"]),  # it exits with 0 all the same
    )


def _volatile_write_cache(device: Path) -> sg_commands.SettingAccess | str:
    """Return how the volatile write cache of a controller is set, for which this disk must be all that it has."""
    above = (_SYS_BLOCK / device.name / "device").resolve()
    controllers = [path for path in (above, *above.glob("*")) if re.fullmatch(r"nvme\d+", path.name)]
    if len(controllers) != 1:
        return f"the disk is reached through {len(controllers)} controllers, each with a write cache of its own"
    others = [path.name for path in controllers[0].glob("nvme*n*") if (path / "size").exists()]
    if len(others) > 1:
        return f"its controller's write cache serves other disks too: {', '.join(sorted(others))}"
    node = f"/dev/{controllers[0].name}"  # commands to the disk's own node name a namespace, and are rejected

    def command(verb: str, *options: str) -> Sequence[str]:
        return ["nvme", verb, node, f"--feature-id={_VOLATILE_WRITE_CACHE}", *options]

    def value(result: CommandResult) -> int | None:
        said = re.search(r"value:\s*(?:0x)?([0-9a-fA-F]+)", result["stdout"])
        return int(said[1], 16) if said and not result["exit_status"] else None

    def find(ask: sg_commands.CommandRunner) -> tuple[int, bool | None] | None:
        can = value(ask(command("get-feature", "--sel=3")))
        now = value(ask(command("get-feature")))
        return None if now is None else (now & 1, None if can is None else bool(can & _CHANGEABLE))

    return sg_commands.SettingAccess(
        program="nvme", find=find, order=lambda wanted: command("set-feature", f"--value={wanted}")
    )


def _set_write_cache(device: Path, access: sg_commands.SettingAccess, wanted: int, note: RecordSetting | None) -> Step:
    """Set the write cache; the kernel must not think for long that there is none: it would send no flushes to it."""
    # the read-ahead, too, some kernels set anew when they ask a disk anew
    seen = {name: value for name in ("write_cache", "read_ahead_kb") if (value := _of_queue(device, name)) is not None}

    def noting(setting: str, value: int | str) -> None:
        if note is not None:
            note(setting, value)
            for name, found in seen.items():
                note(name, found)
        _write_sysfs(queue_settings.attribute_path(device.name, "write_cache"), _BACK)

    step = sg_commands.set_value(access, _WRITE_CACHE, wanted, noting)
    if "write_cache" in seen and step.outcome == CHANGED:
        _rescan(device)
        for name, found in {**seen, "write_cache": _BACK if step.after else _THROUGH}.items():
            if _of_queue(device, name) != found:
                _write_sysfs(queue_settings.attribute_path(device.name, name), str(found))
    return step


def align_kernel_write_cache(device: Path) -> None:
    """Have the kernel's view of a disk's write cache be what the disk says, where something has set the disk alone."""
    seen = read_write_cache(device.name)
    if write_caches_disagree(seen):
        _rescan(device)
        if write_caches_disagree(read_write_cache(device.name)):
            _write_sysfs(
                queue_settings.attribute_path(device.name, "write_cache"), _BACK if seen["drive"] else _THROUGH
            )


def _rescan(device: Path) -> None:
    # SCSI's disks, SATA among them, are asked anew; an NVMe disk's view is what its controller could do. A disk that
    # said at that time that it has no write cache has the kernel refuse `write back` until it is asked again.
    _write_sysfs(_SYS_BLOCK / device.name / "device/rescan", "1")


def _write_sysfs(file: Path, text: str) -> None:
    """Write to a file of the kernel that it may lack or refuse: what it then says is read back by who wants to know."""
    with contextlib.suppress(OSError):
        file.write_text(text, encoding="ascii")
