"""The guests that other tests use: their drives, kernel and programs, and the errors of `guest.Guest`."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from guest import guest as harness
from guest.guest import FOUR_DISKS, PROJECT, Guest, GuestError, GuestUnavailableError, Section

LINKS = " ".join(f"/dev/disk/by-id/{disk.by_id}" for disk in FOUR_DISKS)
# Scripts that do not change a drive, all run in one boot
FACTS = {
    "who": "id -u; uname -r; cat /proc/1/comm; pwd",
    "scsi": 'cat /sys/block/${SCSI#/dev/}/device/model; sg_inq "$SCSI"',
    "sata": 'cat /sys/block/${SATA#/dev/}/device/model; sg_vpd --page=sn "$SATA"',
    "nvme": 'cat /sys/block/${NVME#/dev/}/device/{model,serial}; echo "$NVME"',
    "virtio": 'cat /sys/block/${VIRTIO#/dev/}/serial; blockdev --getsize64 "$VIRTIO"',
    "buses": "for disk in $SCSI $SATA $NVME $VIRTIO; do readlink -f /sys/block/${disk#/dev/}; done",
    "links": "for disk in $SCSI $SATA $NVME $VIRTIO; do echo $disk; done; readlink -f " + LINKS,
    "write cache": 'sdparm --get=WCE "$SCSI"',
    "read-ahead": 'sdparm --get=DRA "$SCSI"; sdparm --set=DRA=1 "$SCSI"',
    "scheduler": "cd /sys/block/${SCSI#/dev/}/queue; echo bfq >scheduler && cat scheduler",
    "fio": """
        fio --name=a --filename="$NVME" --readonly --rw=randread --bs=4k --size=1m --direct=1 --ioengine=libaio \\
            --iodepth=4 --output-format=json --output="$SHARE/fio.json"
        """,
    "help": '"$PYTHON" -m iopatterns --help',
    "writing": 'touch "$PROJECT/made-in-the-guest" && ls "$PROJECT/made-in-the-guest"',
    "status": "exit 7",
}


@pytest.fixture(scope="module")
def sums(module_guest: Guest) -> dict[str, str]:
    """Return the checksums of the drives before the boot."""
    return module_guest.fill()


@pytest.fixture(scope="module")
def facts(module_guest: Guest, sums: dict[str, str]) -> dict[str, Section]:
    return module_guest.run_sections(FACTS)


def passed(facts: dict[str, Section], name: str) -> str:
    assert facts[name].status == 0, facts[name].output
    return facts[name].output


def test_the_script_runs_as_root_under_the_guest_s_kernel(facts: dict[str, Section]) -> None:
    user, kernel, first, folder = passed(facts, "who").split()
    assert user == "0"
    assert kernel != os.uname().release
    assert first == "init"
    assert folder == str(PROJECT)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("scsi", ["GUEST SSD", "Unit serial number: S0001"]),
        ("sata", ["GUEST SATA SSD", "A0001"]),
        ("nvme", ["QEMU NVMe Ctrl", "N0001", "/dev/nvme0n1"]),
        ("virtio", ["V0001", str(64 * 2**20)]),
        ("scheduler", ["[bfq]"]),
        ("help", ["restore"]),
    ],
)
def test_drives_scheduler_and_project_work_in_a_guest(
    facts: dict[str, Section], name: str, expected: list[str]
) -> None:
    output = passed(facts, name)
    assert [words for words in expected if words not in output] == []


def test_drives_are_on_buses_of_their_kinds(facts: dict[str, Section]) -> None:
    scsi, sata, nvme, virtio = passed(facts, "buses").split()
    assert re.search("/virtio.*/host", scsi)
    assert "/ata" in sata
    assert "/nvme/" in nvme
    assert "/virtio" in virtio
    assert "/host" not in virtio


def test_links_by_id_lead_to_the_drives(facts: dict[str, Section]) -> None:
    devices = passed(facts, "links").split()
    assert devices[:4] == devices[4:]


def test_scsi_disk_has_a_write_cache_to_set_and_no_read_ahead(facts: dict[str, Section]) -> None:
    # ignores the status: sdparm prints the current value and returns 5, because the drive has no saved values
    assert re.search(r"^WCE +1 +\[cha: y", facts["write cache"].output, re.MULTILINE)
    assert re.search(r"^DRA +0 +\[cha: n", facts["read-ahead"].output, re.MULTILINE)
    assert "failed setting page" in facts["read-ahead"].output
    assert facts["read-ahead"].status != 0


def test_fio_reads_the_nvme_drive(facts: dict[str, Section], module_guest: Guest) -> None:
    passed(facts, "fio")
    (job,) = json.loads((module_guest.share / "fio.json").read_text())["jobs"]
    assert job["error"] == 0
    assert job["read"]["total_ios"] == 256


def test_host_does_not_see_what_the_guest_writes(facts: dict[str, Section]) -> None:
    assert "made-in-the-guest" in passed(facts, "writing")
    assert not (PROJECT / "made-in-the-guest").exists()


def test_each_section_has_a_status(facts: dict[str, Section]) -> None:
    assert list(facts) == list(FACTS)
    assert (facts["status"].status, facts["status"].output) == (7, "")


def test_reading_does_not_change_drives(facts: dict[str, Section], module_guest: Guest, sums: dict[str, str]) -> None:
    assert module_guest.checksums() == sums


def test_a_run_that_exceeds_its_time_limit_fails(guest: Guest) -> None:
    with pytest.raises(subprocess.TimeoutExpired, match="the script had not started"):
        guest.run("echo never", timeout_s=0.3)


def test_a_guest_that_ends_before_the_script_fails(guest: Guest) -> None:
    with pytest.raises(GuestError, match="before the script did\nthe script was running"):
        guest.run("/guest/bin/busybox poweroff -f; sleep 60")


def test_a_failed_download_is_reported_and_leaves_no_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    commands = {"apt-get": "echo 'E: no network' >&2; exit 100", "apt-cache": "echo 'Depends: linux-image-1.2.3-amd64'"}
    for name, command in commands.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GuestUnavailableError, match="no network"):
        harness.prepare()
    assert [path.name for path in (tmp_path / "iopatterns-guest").iterdir()] == ["lock"]
