"""Health of drives, from the output of smartctl and nvme, and its doubts."""

import json
from typing import Any, cast

import pytest

from iopatterns.analysis.collect import count_doubts
from iopatterns.measuring import health
from iopatterns.raw.records import Health
from iopatterns.raw.tuning_steps import CommandResult

NVME = {
    "smartctl": {"exit_status": 0},
    "device": {"name": "/dev/nvme0n1", "protocol": "NVMe"},
    "firmware_version": "7.2.22",
    "smart_status": {"passed": True, "nvme": {"value": 0}},
    "nvme_smart_health_information_log": {
        "critical_warning": 0,
        "media_errors": 3,
        "warning_temp_time": 2,
        "critical_comp_time": 1,
    },
    "temperature": {"current": 50},
}
SATA = {
    "smartctl": {"exit_status": 64},  # a bit that says that the error log has entries
    "device": {"name": "/dev/sda", "protocol": "ATA"},
    "firmware_version": "GXT5404Q",
    "smart_status": {"passed": False},
    "ata_smart_attributes": {
        "table": [
            {"id": 5, "raw": {"value": 4}},
            {"id": 9, "raw": {"value": 12000}},
            {"id": 197, "raw": {"value": 1}},
        ]
    },
    "temperature": {"current": 31, "op_limit_max": 70},
}
SCSI = {
    "smartctl": {"exit_status": 4},
    "device": {"name": "/dev/sdb", "protocol": "SCSI"},
    "scsi_revision": "0503",
    "smart_status": {"passed": True},
    "scsi_grown_defect_list": 2,
    "scsi_error_counter_log": {"read": {"total_uncorrected_errors": 1}, "write": {"total_uncorrected_errors": 0}},
    "temperature": {"current": 0, "drive_trip": 65},
}
# Output of nvme-cli 2.3: counters of 128 bits are text
BY_NVME = {
    "critical_warning": 2,
    "temperature": 323,
    "media_errors": "5",
    "warning_temp_time": 0,
    "critical_comp_time": 0,
    "thm_temp1_trans_count": 7,
    "thm_temp2_trans_count": 1,
}


def result(printed: Any, stderr: str = "") -> CommandResult:
    text = printed if isinstance(printed, str) else json.dumps(printed)
    return {"command": ["smartctl"], "exit_status": 1, "stdout": text, "stderr": stderr}


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (NVME, {"temperature_c": 50, "passed": True, "critical_warning": 0, "media_errors": 3, "overheated": 3}),
        (SATA, {"temperature_c": 31, "warning_c": 70, "passed": False, "media_errors": 5, "overheated": None}),
        (SCSI, {"temperature_c": None, "critical_c": 65, "media_errors": 3, "firmware": "0503"}),
    ],
    ids=["NVMe", "SATA", "SCSI"],
)
def test_the_output_for_each_transport_is_understood(printed: dict[str, Any], expected: dict[str, Any]) -> None:
    found = cast(dict[str, Any], health.from_smartctl(result(printed)))
    assert {key: found[key] for key in expected} == expected


def test_temperatures_of_nvme_are_converted_from_kelvin() -> None:
    found = health.from_nvme(result(BY_NVME), "2B4QGXA7")
    assert (found["temperature_c"], found["overheated"], found["firmware"]) == (50, 8, "2B4QGXA7")
    assert found["passed"] is None


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        (health.from_smartctl(result("", "smartctl: killed")), "smartctl: smartctl: killed"),
        (health.from_smartctl(result({"smartctl": {"exit_status": 2}})), "smartctl: no answer from the drive"),
        (health.from_nvme(result("", "smart log: Invalid argument"), None), "nvme: smart log: Invalid argument"),
        (health.from_nvme(result({"temperature": 323}), None), "nvme: "),
    ],
)
def test_missing_health_has_a_reason(found: dict[str, Any], reason: str) -> None:
    assert list(found) == ["not available"]
    assert found["not available"].startswith(reason)


HEALTHY = {
    "program": "smartctl",
    "temperature_c": 40,
    "warning_c": 70,
    "critical_c": 80,
    "passed": True,
    "critical_warning": 0,
    "media_errors": 0,
    "overheated": 0,
    "firmware": "1",
}


@pytest.mark.parametrize(
    ("before", "after", "doubts"),
    [
        ({}, {}, []),
        ({}, {"temperature_c": 49}, []),
        ({}, {"temperature_c": 50}, ["drive 10 °C hotter, or more, than when the cell began"]),
        ({"temperature_c": 62}, {"temperature_c": 69}, []),
        ({"temperature_c": 70}, {"temperature_c": 69}, ["drive at its warning temperature"]),
        ({"temperature_c": 75}, {"temperature_c": 80}, ["drive at its critical temperature"]),
        ({"temperature_c": None}, {"temperature_c": 79, "warning_c": None}, []),
        ({}, {"overheated": 1}, ["drive too hot meanwhile, or throttling"]),
        ({}, {"passed": False}, ["drive failing by its own SMART judgement"]),
        ({}, {"passed": None}, []),
        ({}, {"critical_warning": 4}, ["drive with a critical warning"]),
        ({"media_errors": 3}, {"media_errors": 3}, []),
        ({"media_errors": 3}, {"media_errors": 4}, ["media errors on the drive meanwhile"]),
        ({"media_errors": None}, {"media_errors": 4}, []),
        ({}, {"firmware": "2"}, ["other firmware than when the cell began"]),
        ({"firmware": None}, {}, []),
    ],
)
def test_changes_of_health_raise_doubts(before: dict[str, Any], after: dict[str, Any], doubts: list[str]) -> None:
    states = [cast(Health, {**HEALTHY, **each}) for each in (before, after)]
    assert health.health_doubts(states[0], states[1]) == doubts


def test_health_without_a_first_value_raises_doubts() -> None:
    unknown: Health = {"not available": "no answer within 30 s"}
    hot = cast(Health, {**HEALTHY, "temperature_c": 71})
    assert health.health_doubts(unknown, hot) == ["drive at its warning temperature"]
    assert health.health_doubts(hot, unknown) == []


def test_changed_firmware_is_a_doubt_about_later_repetitions() -> None:
    def metadata(day: int, firmware: str, name: str = "lab") -> Any:
        drive = {"name": name, "firmware": firmware}
        return {"started": f"2026-01-0{day}T00:00:00.000+00:00", "drive": drive, "doubts": ["a busy machine"]}

    real = [metadata(3, "2"), metadata(1, "1"), metadata(2, "1"), metadata(4, "2"), metadata(1, "9", "other")]
    assert count_doubts(real) == {"a busy machine": 5, "other firmware than at first": 2}
