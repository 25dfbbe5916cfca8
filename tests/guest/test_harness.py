"""What tests in guests rest on: the drives are there, the project runs, and what happens in the guest is told here."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from guest import guest as harness
from guest.guest import PROJECT, Disk, Guest, GuestError, GuestUnavailableError, Section, four_disks

LINKS = " ".join(f"/dev/disk/by-id/{disk.by_id}" for disk in four_disks())
# All that one boot can show without changing a drive
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
    "scsi_debug": "modprobe scsi_debug dev_size_mb=16 && cat /sys/block/sd*/device/model",
    "null_blk": "modprobe null_blk nr_devices=1 gb=1 && blockdev --getsize64 /dev/nullb0",
    "dm-error": """
        modprobe dm-mod && dmsetup create bad --table "0 2048 error" && ! dd if=/dev/mapper/bad of=/dev/null
        """,
    "dm-flakey": """
        modprobe dm-flakey && dmsetup create flaky --table "0 2048 flakey $VIRTIO 0 60 0" &&
        dd if=/dev/mapper/flaky of=/dev/null
        """,
    "ext4": """
        truncate -s 32M /dev/shm/image && modprobe loop && device=$(losetup -f --show /dev/shm/image) &&
        mkfs.ext4 -q "$device" && mkdir /mnt/ext4 && mount "$device" /mnt/ext4 && findmnt -no FSTYPE /mnt/ext4
        """,
    "swap": """
        truncate -s 32M /dev/shm/swap && device=$(losetup -f --show /dev/shm/swap) &&
        mkswap "$device" && swapon "$device" && cat /proc/swaps
        """,
    "writing": 'touch "$PROJECT/made-in-the-guest" && ls "$PROJECT/made-in-the-guest"',
    "status": "exit 7",
}


@pytest.fixture(scope="module")
def sums(module_guest: Guest) -> dict[str, str]:
    """The drives' sums before any boot."""
    for disk in module_guest.disks:
        module_guest.image(disk.name).write_bytes(os.urandom(disk.size_mb * 2**20))
    return module_guest.checksums()


@pytest.fixture(scope="module")
def facts(module_guest: Guest, sums: dict[str, str]) -> dict[str, Section]:
    found = module_guest.run_sections(FACTS)
    print(f"booted in {module_guest.boot_s} s")
    for name, section in found.items():
        print(f"== {name}: status {section.status} after {section.duration_s:.2f} s\n{section.output}")
    return found


def passed(facts: dict[str, Section], name: str) -> str:
    assert facts[name].status == 0, facts[name].output
    return facts[name].output


def test_script_is_root_under_a_kernel_of_its_own(facts: dict[str, Section]) -> None:
    user, kernel, first, folder = passed(facts, "who").split()
    assert user == "0"
    assert kernel != os.uname().release
    assert first == "init"
    assert folder == str(PROJECT)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("scsi", ["GUEST SSD", "Unit serial number: S0001"]),
        ("sata", ["GUEST SATA SSD", "A0001"]),
        ("nvme", ["QEMU NVMe Ctrl", "N0001", "/dev/nvme0n1"]),
        ("virtio", ["V0001", str(64 * 2**20)]),
    ],
)
def test_drive_has_its_model_and_serial(facts: dict[str, Section], name: str, told: list[str]) -> None:
    said = passed(facts, name)
    assert [words for words in told if words not in said] == []


def test_drives_are_on_buses_of_their_kinds(facts: dict[str, Section]) -> None:
    scsi, sata, nvme, virtio = passed(facts, "buses").split()
    assert "/virtio" in scsi
    assert "/host" in scsi
    assert "/ata" in sata
    assert "/nvme/" in nvme
    assert "/virtio" in virtio
    assert "/host" not in virtio


def test_links_by_id_lead_to_the_drives(facts: dict[str, Section]) -> None:
    devices = passed(facts, "links").split()
    assert devices[:4] == devices[4:]


def test_scsi_disk_has_a_write_cache_to_set_and_no_read_ahead(facts: dict[str, Section]) -> None:
    # the status is not asked for: sdparm says 5, as the drive has no saved values, and yet prints the current one
    assert re.search(r"^WCE +1 +\[cha: y", facts["write cache"].output, re.MULTILINE)
    assert re.search(r"^DRA +0 +\[cha: n", facts["read-ahead"].output, re.MULTILINE)
    assert "failed setting page" in facts["read-ahead"].output
    assert facts["read-ahead"].status != 0


def test_scheduler_can_be_switched(facts: dict[str, Section]) -> None:
    assert "[bfq]" in passed(facts, "scheduler")


def test_fio_reads_the_nvme_drive(facts: dict[str, Section], module_guest: Guest) -> None:
    passed(facts, "fio")
    (job,) = json.loads((module_guest.share / "fio.json").read_text())["jobs"]
    assert job["error"] == 0
    assert job["read"]["total_ios"] == 256


def test_project_runs(facts: dict[str, Section]) -> None:
    assert "restore" in passed(facts, "help")


def test_kernel_makes_further_devices(facts: dict[str, Section]) -> None:
    assert "scsi_debug" in passed(facts, "scsi_debug")
    assert passed(facts, "null_blk").strip() == str(2**30)
    assert "Input/output error" in passed(facts, "dm-error")
    passed(facts, "dm-flakey")


def test_kernel_has_file_systems_and_swap(facts: dict[str, Section]) -> None:
    assert "ext4" in passed(facts, "ext4")
    assert "/dev/loop" in passed(facts, "swap")


def test_host_does_not_see_what_the_guest_writes(facts: dict[str, Section]) -> None:
    assert "made-in-the-guest" in passed(facts, "writing")
    assert not (PROJECT / "made-in-the-guest").exists()


def test_sections_have_statuses_of_their_own(facts: dict[str, Section]) -> None:
    assert list(facts) == list(FACTS)
    assert (facts["status"].status, facts["status"].output) == (7, "")


def test_reading_leaves_drives_as_they_were(
    facts: dict[str, Section], module_guest: Guest, sums: dict[str, str]
) -> None:
    assert module_guest.checksums() == sums


def test_drives_keep_what_was_written_when_power_is_cut(guests: None, tmp_path: Path) -> None:
    """Two boots on the same images: a drive keeps what it was given, memory does not, and bystanders nothing at all."""
    first, second = (Disk(name, "scsi", serial, "TWO ALIKE", size_mb=8) for name, serial in (("a", "T1"), ("b", "T2")))
    guest = Guest(tmp_path, disks=[first, second])
    before = guest.checksums()
    cut = guest.run(
        """
        echo given | dd of="$A" oflag=direct conv=sync status=none
        exec 3<>"$A" # the kernel writes what it holds of a drive when nobody has it open any more
        echo in memory | dd seek=8 conv=notrunc status=none >&3
        echo NOW
        sleep 60
        """,
        cut_at="NOW",
    )
    assert (cut.returncode, cut.stdout) == (-9, "NOW\n")
    again = guest.run('for sector in 0 8; do dd if="$A" skip=$sector count=1 status=none | tr -d "\\0"; done; exit 3')
    assert (again.returncode, again.stdout) == (3, "given\n")
    after = guest.checksums()
    assert after["a"] != before["a"]
    assert after["b"] == before["b"]


def test_run_that_takes_too_long_is_told(guest: Guest) -> None:
    with pytest.raises(subprocess.TimeoutExpired, match="the script had not started"):
        guest.run("echo never", timeout_s=0.3)


def test_guest_that_goes_down_is_told(guest: Guest) -> None:
    with pytest.raises(GuestError, match="before the script did\nthe script was running"):
        guest.run("/guest/bin/busybox poweroff -f; sleep 60")


def test_missing_qemu_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(GuestUnavailableError, match="install the package qemu-system-x86"):
        Guest(tmp_path)


def test_failed_download_is_told_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: name)
    (tmp_path / "apt-get").write_text("#!/bin/sh\necho 'E: no network' >&2; exit 100\n")
    (tmp_path / "apt-cache").write_text("#!/bin/sh\necho '  Depends: linux-image-1.2.3-amd64'\n")
    for name in ("apt-get", "apt-cache"):
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GuestUnavailableError, match="no network"):
        harness.prepare()
    assert [path.name for path in (tmp_path / "iopatterns-guest").iterdir()] == ["lock"]
