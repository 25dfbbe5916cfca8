"""The health of real drives, read with smartctl or nvme."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from iopatterns.measuring import machine
from iopatterns.measuring.tuning import sg_commands
from iopatterns.raw.records import Health
from iopatterns.raw.tuning_steps import CommandResult

# A drive that has become this much hotter may be about to throttle itself
_RISE_C = 10
_TIMEOUT_S = 30.0
_SYS_BLOCK = Path("/sys/block")
_ZERO_C_IN_K = 273
# SMART attributes of SATA disks that count media errors: reallocated, reported uncorrectable, pending, and offline
# uncorrectable sectors
_MEDIA_ATTRIBUTES = frozenset({5, 187, 197, 198})
UNAVAILABLE: Final = "not available"

# The values that are compared before and after a repetition
_Counter = Literal["temperature_c", "media_errors", "overheated"]


def read_health(device: str | None) -> Health:
    """Return the health of the disk that a block device is on.

    The program smartctl, or nvme if smartctl is not installed, reads the health. The health has these keys. A value
    that the disk does not report is None.

    - ``temperature_c``, ``warning_c``, ``critical_c``: the temperature and its two limits, in °C
    - ``passed``: the disk's SMART self-assessment
    - ``critical_warning``: NVMe's critical-warning bits
    - ``media_errors``, ``overheated``: counts of media errors and of overheating
    - ``firmware``: the firmware version
    - ``program``: ``smartctl`` or ``nvme``

    If nothing can be read, or the device is on several disks, the only key is ``not available``, with the reason.

    Args:
        device: The kernel's name of the device, such as ``sda``. None if the name is unknown.
    """
    disks = machine.physical_disks(device) if device else []
    if len(disks) != 1:
        return {UNAVAILABLE: f"the file is on {len(disks)} disks" if disks else "the kernel knows no disk of it"}
    (disk,) = disks
    if health_program() is None:
        return {UNAVAILABLE: "neither smartctl nor nvme is installed (apt-get install smartmontools)"}
    if health_program() == "smartctl":
        command = ["smartctl", "--json", "-a", "-l", "scttemp", f"/dev/{disk}"]
        found = from_smartctl(sg_commands.run_command(command, _TIMEOUT_S))
    else:
        found = _by_nvme(disk)
    return found if UNAVAILABLE in found else found | _limits(disk)


def health_program() -> str | None:
    """Return the installed program that reads the health of disks.

    The result is ``smartctl`` if it is installed, otherwise ``nvme``. None if neither is installed.
    """
    return next((program for program in ("smartctl", "nvme") if shutil.which(program)), None)


def health_doubts(before: Health, after: Health) -> list[str]:
    """Return what makes a repetition doubtful, according to the health of its drive.

    Each doubt is a short text, such as "media errors on the drive meanwhile". There is a doubt in these cases:

    - the drive reached a temperature limit, or became at least 10 °C hotter
    - the drive overheated or slowed itself down to cool, or had media errors, between `before` and `after`
    - the drive reports failure (SMART) or a critical warning (NVMe)
    - the firmware version changed

    The list is empty in all other cases, and if the health after the repetition is not available.

    Args:
        before: The health before the first repetition of the cell, from `read_health`.
        after: The health after this repetition, from `read_health`.
    """
    if UNAVAILABLE in after:
        return []
    hottest = max((degrees for each in (before, after) if (degrees := each.get("temperature_c"))), default=None)
    limits = ((after["critical_c"], "critical"), (after["warning_c"], "warning"))
    exceeded = [name for limit, name in limits if hottest is not None and limit is not None and hottest >= limit]
    firmware = {before.get("firmware"), after["firmware"]}
    doubts = [
        (bool(exceeded), f"drive at its {exceeded[0] if exceeded else ''} temperature"),
        (
            _growth("temperature_c", before, after) >= _RISE_C,
            f"drive {_RISE_C} °C hotter, or more, than when the cell began",
        ),
        (_growth("overheated", before, after) > 0, "drive too hot meanwhile, or throttling"),
        (after["passed"] is False, "drive failing by its own SMART judgement"),
        (bool(after["critical_warning"]), "drive with a critical warning"),
        (_growth("media_errors", before, after) > 0, "media errors on the drive meanwhile"),
        (None not in firmware and len(firmware) > 1, "other firmware than when the cell began"),
    ]
    return [text for is_doubtful, text in doubts if is_doubtful]


def _growth(key: _Counter, before: Health, after: Health) -> int:
    first, last = before.get(key), after.get(key)
    return 0 if first is None or last is None else last - first


def from_smartctl(result: CommandResult) -> Health:
    """Return the health in the output of ``smartctl --json -a``.

    If the output has no health, the only key is ``not available``, with the reason.

    Args:
        result: The command and its output, from `sg_commands.run_command`.

    Returns:
        The health with the keys that `read_health` describes.
    """
    try:
        report = json.loads(result["stdout"])
    except ValueError:
        return {UNAVAILABLE: f"smartctl: {sg_commands.last_output_line(result)}"}
    if "device" not in report or report["smartctl"]["exit_status"] & 0b11:  # bits: wrong usage, device cannot be opened
        messages = [message["string"] for message in report["smartctl"].get("messages", ())]
        return {UNAVAILABLE: f"smartctl: {'; '.join(messages) or 'no answer from the drive'}"}
    temperature, log = report.get("temperature", {}), report.get("nvme_smart_health_information_log", {})
    return Health(
        program="smartctl",
        temperature_c=temperature.get("current") or None,  # SCSI disks report 0 if they do not know
        warning_c=temperature.get("op_limit_max") or None,
        critical_c=temperature.get("drive_trip") or None,
        passed=report.get("smart_status", {}).get("passed"),
        critical_warning=log.get("critical_warning"),
        media_errors=_media_errors(report),
        overheated=_overheated(log),
        firmware=report.get("firmware_version") or report.get("scsi_revision"),
    )


def _overheated(log: Mapping[str, Any]) -> int | None:
    """Return the sum of the overheating counters in the SMART log of an NVMe disk.

    The counters are minutes above the temperature limits, and transitions to thermal throttling.

    Args:
        log: The log, as smartctl or nvme prints it in JSON.

    Returns:
        The sum. None if the log has none of the counters.
    """
    names = ("warning_temp_time", "critical_comp_time", "thm_temp1_trans_count", "thm_temp2_trans_count")
    known = [int(log[name]) for name in names if name in log]
    return sum(known) if known else None


def _media_errors(report: Mapping[str, Any]) -> int | None:
    """Return the number of media errors in a smartctl report.

    It is the sum of the counters that an NVMe, SATA or SCSI disk has.

    Args:
        report: The output of ``smartctl --json -a``.

    Returns:
        The number. None if the report has no such counter.
    """
    counts = []
    if "nvme_smart_health_information_log" in report:
        counts.append(report["nvme_smart_health_information_log"].get("media_errors"))
    for attribute in report.get("ata_smart_attributes", {}).get("table", ()):
        if attribute["id"] in _MEDIA_ATTRIBUTES:
            counts.append(attribute["raw"]["value"])
    counts += [each.get("total_uncorrected_errors") for each in report.get("scsi_error_counter_log", {}).values()]
    counts.append(report.get("scsi_grown_defect_list"))
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def _by_nvme(disk: str) -> Health:
    if not disk.startswith("nvme"):
        return {UNAVAILABLE: "smartctl is not installed (apt-get install smartmontools); nvme knows NVMe disks alone"}
    firmware = machine.disk_facts(Path("/dev") / disk)["firmware"]
    return from_nvme(sg_commands.run_command(["nvme", "smart-log", f"/dev/{disk}", "-o", "json"], _TIMEOUT_S), firmware)


def from_nvme(result: CommandResult, firmware: str | None) -> Health:
    """Return the health in the output of ``nvme smart-log -o json``.

    If the output is not valid, the only key is ``not available``, with the reason.

    Args:
        result: The command and its output, from `sg_commands.run_command`.
        firmware: The firmware version, which the output lacks; None if unknown.

    Returns:
        The health with the keys that `read_health` describes. The temperature limits and the SMART self-assessment are
        None, because the output lacks them.
    """
    try:
        report = json.loads(result["stdout"])
        return Health(
            program="nvme",
            temperature_c=report["temperature"] - _ZERO_C_IN_K,
            warning_c=None,
            critical_c=None,
            passed=None,
            critical_warning=report["critical_warning"],
            media_errors=int(report["media_errors"]),
            overheated=_overheated(report),
            firmware=firmware,
        )
    except (ValueError, KeyError, TypeError):
        return {UNAVAILABLE: f"nvme: {sg_commands.last_output_line(result)}"}


def _limits(disk: str) -> Health:
    """Return the temperature limits of a disk from the kernel's hwmon interface.

    The result has the keys ``warning_c`` and ``critical_c``, each only if the kernel reports the limit.
    """
    limits: Health = {}
    for folder in (_SYS_BLOCK / disk / "device").glob("hwmon*"):
        for place in (folder, *folder.glob("hwmon*")):  # some drivers have another folder in between
            if (degrees := _degrees(place / "temp1_max")) > 0:
                limits["warning_c"] = degrees
            if (degrees := _degrees(place / "temp1_crit")) > 0:
                limits["critical_c"] = degrees
    return limits


def _degrees(file: Path) -> int:
    """Return the temperature in a hwmon file, in °C; 0 if the file is missing."""
    return round(int(machine.read_kernel_file(file) or 0) / 1000)
