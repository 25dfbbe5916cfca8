"""Measuring a disk: the pre-write checks, settings, preconditioning and doubts."""

import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import patience
import pytest
from loops import Loop, loop_device, run, undone
from measurements import MIB, block_entry, describe_drive, measured
from support import ROOT, disk_cell

from iopatterns.measuring import machine
from iopatterns.measuring.drives import DriveError
from iopatterns.raw.metadata_files import read_metadata


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder) as found:
        yield found


@pytest.fixture
def bystander(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder, "bystander", 16) as found:
        found.image.write_bytes(os.urandom(16 * MIB))
        yield found


def attempt(folder: Path, drive: dict[str, Any], rw: str = "randwrite", *, direct: int = 1, **settings: Any) -> Path:
    """Measure a short cell on a disk with this entry; return the raw file."""
    describe_drive(folder, drive)
    (raw,) = measured(folder, disk_cell(drive, "disk", rw, direct=direct, **settings))
    return raw


def refusal(folder: Path, drive: dict[str, Any], rw: str = "randwrite") -> str:
    with pytest.raises(DriveError) as caught:
        attempt(folder, drive, rw)
    return str(caught.value)


def test_reading_requires_no_consent_and_writes_nothing(disk: Loop, disk_folder: Path) -> None:
    disk.image.write_bytes(os.urandom(64 * MIB))
    before = disk.checksum()
    raw = attempt(disk_folder, block_entry(disk, destroy=None), "randread")
    metadata = read_metadata(raw)
    assert "--readonly" in metadata["command"]
    assert metadata["drive"]["serial"] == disk.serial
    assert disk.checksum() == before


def test_with_consent_only_the_given_disk_is_written(disk: Loop, bystander: Loop, disk_folder: Path) -> None:
    before = disk.checksum(), bystander.checksum()
    attempt(disk_folder, block_entry(disk))
    assert disk.checksum() != before[0]
    assert bystander.checksum() == before[1]


def test_without_consent_nothing_is_written(disk: Loop, disk_folder: Path) -> None:
    before = disk.checksum()
    message = refusal(disk_folder, block_entry(disk, destroy=None))
    assert "refused by the check of consent" in message
    assert f"add `destroy: {disk.serial}`" in message
    assert disk.checksum() == before


def test_consent_to_writing_another_disk_is_not_enough(disk: Loop, bystander: Loop, disk_folder: Path) -> None:
    message = refusal(disk_folder, block_entry(disk, destroy=bystander.serial))
    assert f"consents to destroying '{bystander.serial}'" in message


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_a_disk_with_another_serial_number_is_refused(disk: Loop, disk_folder: Path, rw: str) -> None:
    message = refusal(disk_folder, block_entry(disk, serial="S0001", destroy="S0001"), rw)
    assert "refused by the check of identity" in message
    assert disk.serial in message


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"size": "1 GiB"}, "says size_bytes"),
        ({"path": "/dev/no-such-disk"}, "Is the name mistyped?"),
        ({"path": __file__}, "is a file"),
    ],
)
def test_an_entry_that_does_not_match_the_disk_is_refused(
    changes: dict[str, str], reason: str, disk: Loop, disk_folder: Path
) -> None:
    assert reason in refusal(disk_folder, block_entry(disk, **changes))
    assert not Path("/dev/no-such-disk").exists()


def mounted(device: Path, folder: Path) -> Path:
    point = folder / "mounted here"
    point.mkdir()
    run("mkfs.ext4", "-q", device)
    run("mount", device, point)
    return point


@pytest.mark.parametrize("by_link", [False, True])
def test_a_mounted_disk_is_refused(by_link: bool, disk: Loop, disk_folder: Path) -> None:
    point = mounted(disk.device, disk_folder)
    link = disk_folder / "link"
    link.symlink_to(disk.device)
    changes = {"path": str(link)} if by_link else {}
    with undone("umount", point):
        message = refusal(disk_folder, block_entry(disk, expendable=["ext4"], **changes))
    assert "refused by the check of mounts" in message
    assert str(point) in message


def write_partition_table(image: Path) -> None:
    """Write a DOS partition table with one partition, without sfdisk."""
    start, sectors = 2048, image.stat().st_size // 512 - 2048
    entry = struct.pack("<BBBBBBBBII", 0, 0, 0, 0, 0x83, 0, 0, 0, start, sectors)
    with open(image, "r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


@pytest.fixture
def partitioned(disk_folder: Path) -> Iterator[Loop]:
    """Yield a disk with one partition that the kernel has read."""
    image = disk_folder / "disk"
    image.touch()
    os.truncate(image, 64 * MIB)
    write_partition_table(image)
    with loop_device(disk_folder, "disk", 64, "--partscan") as found:
        node = Path(f"{found.device}p1")
        if not Path(f"/sys/class/block/{node.name}").exists():
            pytest.skip("this kernel reads no partition tables")
        if node.exists():
            yield found
            return
        # create the node that udev would create
        major, minor = map(int, Path(f"/sys/class/block/{node.name}/dev").read_text().split(":"))
        os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
        with undone("rm", "-f", node):
            yield found


def test_a_disk_with_a_mounted_partition_is_refused(partitioned: Loop, disk_folder: Path) -> None:
    point = mounted(Path(f"{partitioned.device}p1"), disk_folder)
    with undone("umount", point):
        message = refusal(disk_folder, block_entry(partitioned, expendable=["dos", "ext4"]))
    assert f"{partitioned.device}p1 is mounted on {point}" in message


def test_a_partition_is_refused(partitioned: Loop, disk_folder: Path) -> None:
    message = refusal(disk_folder, block_entry(partitioned, path=f"{partitioned.device}p1"))
    assert f"is a partition of {partitioned.device}" in message


def test_a_partition_table_is_refused(disk: Loop, disk_folder: Path) -> None:
    write_partition_table(disk.image)
    assert "carries a signature of type dos" in refusal(disk_folder, block_entry(disk))


def test_a_file_system_is_refused_unless_it_is_expendable(disk: Loop, disk_folder: Path) -> None:
    run("mkfs.ext4", "-q", disk.device)
    before = disk.checksum()
    assert "carries a signature of type ext4" in refusal(disk_folder, block_entry(disk))
    assert disk.checksum() == before
    attempt(disk_folder, block_entry(disk, expendable=["ext4"]))
    assert disk.checksum() != before


def test_swap_in_use_is_refused(disk: Loop, disk_folder: Path) -> None:
    run("mkswap", disk.device)
    try:
        run("swapon", disk.device)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no swap can be switched on here: {error.stderr}")
    with undone("swapoff", disk.device):
        assert "is in use as swap" in refusal(disk_folder, block_entry(disk, expendable=["swap"]))


def test_a_disk_below_a_device_mapper_is_refused(disk: Loop, disk_folder: Path) -> None:
    if shutil.which("dmsetup") is None:
        pytest.skip("dmsetup is not installed")
    table = f"0 2048 linear {disk.device} 0"
    try:
        run("dmsetup", "create", "iopatterns-test", "--table", table)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no device mapper here: {error.stderr}")
    with undone("dmsetup", "remove", "iopatterns-test"):
        assert "refused by the check of holders" in refusal(disk_folder, block_entry(disk))


def test_a_disk_that_a_program_has_opened_exclusively_is_refused(disk: Loop, disk_folder: Path) -> None:
    descriptor = os.open(disk.device, os.O_RDONLY | os.O_EXCL)
    try:
        assert "refused by the check of exclusive use" in refusal(disk_folder, block_entry(disk))
    finally:
        os.close(descriptor)


def test_a_read_only_disk_is_not_written(disk_folder: Path) -> None:
    with loop_device(disk_folder, "disk", 64, "--read-only") as found:
        assert "is read-only" in refusal(disk_folder, block_entry(found))


def test_a_disk_smaller_than_file_size_is_refused(disk_folder: Path) -> None:
    with loop_device(disk_folder, "disk", 4) as found:
        assert "Make file_size smaller" in refusal(disk_folder, block_entry(found))


def test_a_claimed_disk_cannot_be_mounted(disk: Loop, disk_folder: Path) -> None:
    run("mkfs.ext4", "-q", disk.device)
    point = disk_folder / "point"
    point.mkdir()
    code = (
        "import sys; from pathlib import Path; from iopatterns.measuring.drives.prewrite_checks import PrewriteChecks\n"
        "gate = PrewriteChecks({'path': sys.argv[1], 'serial': ''})\n"
        "next(gate.checks(writing=False))\n"
        "with gate.claimed(): print('claimed', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(disk.device)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "claimed\n"
        tried = subprocess.run(["mount", str(disk.device), str(point)], capture_output=True, text=True, check=False)
    assert tried.returncode != 0


def test_the_scheduler_is_set_and_restored(disk: Loop, disk_folder: Path) -> None:
    disk.scheduler.write_text("none")
    raw = attempt(disk_folder, block_entry(disk, tune=["scheduler"]), "randread", scheduler="deadline")
    (step,) = read_metadata(raw)["tuning"]
    assert (step["outcome"], step["after"]) == ("changed", "mq-deadline")
    assert disk.present_scheduler() == "none"


@pytest.mark.parametrize(
    ("settings", "tune", "reason"),
    [
        ({"DRA": 1}, ["DRA"], "the drive reports no DRA"),
        ({"scheduler": "deadline"}, [], "does not have scheduler under `tune`"),
    ],
)
def test_a_missing_or_forbidden_setting_is_not_applicable(
    settings: dict[str, Any], tune: list[str], reason: str, disk: Loop, disk_folder: Path
) -> None:
    (step,) = read_metadata(attempt(disk_folder, block_entry(disk, tune=tune), "randread", **settings))["tuning"]
    assert step["outcome"] == "not applicable"
    assert reason in step["reason"]


def preconditioned(folder: Path, disk: Loop, mode: str, rw: str = "randread", **changes: Any) -> dict[str, Any]:
    drive = block_entry(disk, precondition={"mode": mode, "round_ms": 50}, **changes)
    return dict(read_metadata(attempt(folder, drive, rw))["drive"]["preconditioned"] or {})


def test_a_disk_is_filled_once_before_it_is_measured(disk: Loop, disk_folder: Path) -> None:
    record = preconditioned(disk_folder, disk, "fill")
    assert (record["mode"], record["size_bytes"]) == ("fill", 8 * MIB)
    first = disk.image.read_bytes()
    assert all(any(first[start : start + MIB]) for start in range(0, 8 * MIB, MIB))
    assert not any(first[8 * MIB :])
    preconditioned(disk_folder, disk, "fill", "read")
    assert disk.image.read_bytes() == first


def test_a_disk_is_written_randomly_until_it_is_steady(disk: Loop, disk_folder: Path) -> None:
    record = preconditioned(disk_folder, disk, "steady")
    assert 5 <= len(record["rounds"]) <= 25
    last = record["rounds"][-5:]
    excursion = (max(last) - min(last)) / (sum(last) / 5)
    assert record["excursion"] == pytest.approx(excursion)
    assert record["steady"] == (excursion <= 0.2 and abs(record["rise"]) <= 0.1)


def test_filling_needs_consent_also_for_a_reading_workload(disk: Loop, disk_folder: Path) -> None:
    before = disk.checksum()
    drive = block_entry(disk, destroy=None, precondition={"mode": "fill", "round_ms": 50})
    assert "refused by the check of consent" in refusal(disk_folder, drive, "randread")
    assert disk.checksum() == before


def test_without_other_io_there_is_no_doubt(disk: Loop, disk_folder: Path) -> None:
    metadata = read_metadata(attempt(disk_folder, block_entry(disk), "randread"))
    assert metadata["others_bytes"] == 0
    assert "other I/O on the disk" not in metadata["doubts"]


def test_other_io_on_the_disk_is_a_doubt(disk: Loop, disk_folder: Path) -> None:
    code = "while true; do dd if=$0 of=/dev/null bs=1M iflag=direct status=none; done"
    others = subprocess.Popen(["sh", "-c", code, str(disk.device)], process_group=0)
    try:
        metadata = read_metadata(attempt(disk_folder, block_entry(disk), "randread"))
    finally:
        os.killpg(others.pid, signal.SIGKILL)
        others.wait()
    assert "other I/O on the disk" in metadata["doubts"]
    others_bytes = metadata["others_bytes"]
    assert others_bytes is not None
    assert others_bytes > MIB


def checked(folder: Path, drive: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    describe_drive(folder, drive)
    shutil.copytree(ROOT / "workflow/schemas", folder / "workflow/schemas", dirs_exist_ok=True)
    command = [sys.executable, "-m", "iopatterns", "check", "disk", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_check_prints_all_checks_of_a_disk_that_may_be_written(disk: Loop, disk_folder: Path) -> None:
    result = checked(disk_folder, block_entry(disk))
    assert result.returncode == 0, result.stderr
    names = ["block device", "identity", "writable", "root device", "mounts", "swap", "holders"]
    for name in [*names, "exclusive use", "backing file", "signatures", "data", "consent"]:
        assert f"passed   {name}: " in result.stdout
    assert "disk may be written." in result.stdout


@pytest.mark.parametrize(
    ("missing", "words", "printed"),
    [
        ("destroy", (), "REFUSED  consent: config/drives.yaml does not say that its data may be destroyed. If all"),
        ("destroy", (), "disk may not be written."),
        ("destroy", ("--reading",), "disk may be read."),
        ("serial", (), "gives no serial, the device says '"),
    ],
)
def test_check_prints_the_first_refusal(
    missing: str, words: tuple[str, ...], printed: str, disk: Loop, disk_folder: Path
) -> None:
    result = checked(disk_folder, block_entry(disk, **{missing: None}), *words)
    assert result.returncode == (0 if words else 1)
    assert printed in result.stdout


def view_of(disk: Loop) -> Path:
    return disk.scheduler.with_name("write_cache")


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_the_kernels_view_of_the_write_cache_is_set_and_restored(disk: Loop, disk_folder: Path, rw: str) -> None:
    before = view_of(disk).read_text()
    raw = attempt(disk_folder, block_entry(disk, tune=["write_cache"]), rw, write_cache="write through")
    metadata = read_metadata(raw)
    assert metadata["tuning"][0]["after"] == metadata["write_cache"]["kernel"] == "write through"
    assert view_of(disk).read_text() == before == "write back\n"


def test_the_kernels_view_of_a_mounted_disk_is_not_changed(disk: Loop, disk_folder: Path) -> None:
    point = mounted(disk.device, disk_folder)
    with undone("umount", point):
        drive = block_entry(disk, tune=["write_cache"])
        raw = attempt(disk_folder, drive, "randread", write_cache="write through")
    (step,) = read_metadata(raw)["tuning"]
    assert step["outcome"] == "not applicable"
    assert "may lose its data" in step["reason"]


def test_a_disk_without_health_has_the_reason_in_its_metadata(disk: Loop, disk_folder: Path) -> None:
    metadata = read_metadata(attempt(disk_folder, block_entry(disk), "randread"))
    for moment in ("before", "after"):
        assert list(metadata["health"][moment]) == ["not available"]
    assert metadata["write_cache"] == {"drive": None, "kernel": "write back"}
    assert not [doubt for doubt in metadata["doubts"] if doubt.startswith("drive")]


def test_without_direct_io_the_page_cache_is_emptied_but_doubted(disk: Loop, disk_folder: Path) -> None:
    disk.image.write_bytes(os.urandom(64 * MIB))
    with open(disk.device, "rb") as held:  # the kernel keeps the pages of a disk while it is open
        # read-ahead would go on while the traffic is measured
        os.posix_fadvise(held.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        held.read(8 * MIB)

        def traffic_bytes() -> int:
            found = machine.disk_traffic_bytes(disk.device.name)
            assert found is not None
            return found

        def traffic_of_reading_again() -> int:
            before = traffic_bytes()
            held.seek(0)
            held.read(8 * MIB)
            return traffic_bytes() - before

        # another test may make LVM scan all disks
        patience.wait_for(lambda: traffic_of_reading_again() == 0, 10)
        before = traffic_bytes()
        raw = attempt(disk_folder, block_entry(disk), "randread", direct=0)
        metadata = read_metadata(raw)
        # a page is read once; on a busy machine, few pages are
        asked_bytes = min(json.loads(raw.read_text())["jobs"][0]["read"]["io_bytes"], 4 * MIB)
        assert traffic_bytes() > before + asked_bytes // 2
    assert "through the page cache" in metadata["doubts"]
