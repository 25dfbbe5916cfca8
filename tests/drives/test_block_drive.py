"""Measuring a whole disk: the gate's refusals, each for its own reason, and what is never touched."""

import fcntl
import json
import os
import shutil
import signal
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import patience
import pytest
import yaml
from loops import Loop, loop_device, run, undone
from support import ROOT, disk_cell

from iopatterns.measuring import machine
from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.drives import DriveError
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata

MIB = 2**20


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder) as found:
        yield found


@pytest.fixture
def bystander(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder, "bystander", 16) as found:
        found.image.write_bytes(os.urandom(16 * MIB))
        yield found


def entry(loop: Loop, **changes: Any) -> dict[str, Any]:
    """Return a disk's entry of config/drives.yaml, with consent to writing it."""
    usual = {"kind": "block", "path": str(loop.device), "serial": loop.serial, "destroy": loop.serial}
    return {key: value for key, value in {**usual, **changes}.items() if value is not None}


def attempt(folder: Path, drive: dict[str, Any], rw: str = "randwrite", *, direct: int = 1, **settings: Any) -> Path:
    """Measure a short cell on a disk described so, and return its raw file."""
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config/drives.yaml").write_text(yaml.safe_dump({"disk": drive}))
    specification = disk_cell(drive, "disk", rw, direct=direct, **settings)
    raw = folder / f"raw/disk/study/x-{cells.specification_digest(specification)[:8]}/01.json"
    measure_cell(folder, specification, [raw])
    return raw


def refusal(folder: Path, drive: dict[str, Any], rw: str = "randwrite") -> str:
    with pytest.raises(DriveError) as caught:
        attempt(folder, drive, rw)
    return str(caught.value)


def test_a_disk_is_read_without_consent_and_not_written(disk: Loop, disk_folder: Path) -> None:
    disk.image.write_bytes(os.urandom(64 * MIB))
    before = disk.checksum()
    raw = attempt(disk_folder, entry(disk, destroy=None), "randread")
    sidecar = read_metadata(raw)
    assert "--readonly" in sidecar["command"]
    assert sidecar["drive"]["serial"] == disk.serial
    assert disk.checksum() == before


def test_a_disk_is_written_with_consent_and_no_other_is(disk: Loop, bystander: Loop, disk_folder: Path) -> None:
    before = disk.checksum(), bystander.checksum()
    attempt(disk_folder, entry(disk))
    assert disk.checksum() != before[0]
    assert bystander.checksum() == before[1]


def test_without_consent_nothing_is_written(disk: Loop, disk_folder: Path) -> None:
    before = disk.checksum()
    said = refusal(disk_folder, entry(disk, destroy=None))
    assert "refused by the check of consent" in said
    assert f"add `destroy: {disk.serial}`" in said
    assert disk.checksum() == before


def test_consent_for_another_disk_is_none(disk: Loop, bystander: Loop, disk_folder: Path) -> None:
    said = refusal(disk_folder, entry(disk, destroy=bystander.serial))
    assert f"consents to destroying '{bystander.serial}'" in said


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_another_disk_under_the_name_is_neither_read_nor_written(disk: Loop, disk_folder: Path, rw: str) -> None:
    said = refusal(disk_folder, entry(disk, serial="S0001", destroy="S0001"), rw)
    assert "refused by the check of identity" in said
    assert disk.serial in said


def test_a_disk_of_another_size_is_refused(disk: Loop, disk_folder: Path) -> None:
    assert "says size_bytes" in refusal(disk_folder, entry(disk, size="1 GiB"))


def mounted(device: Path, folder: Path) -> Path:
    point = folder / "mounted here"
    point.mkdir()
    run("mkfs.ext4", "-q", device)
    run("mount", device, point)
    return point


def test_a_mounted_disk_is_refused_and_its_mount_point_told(disk: Loop, disk_folder: Path) -> None:
    point = mounted(disk.device, disk_folder)
    with undone("umount", point):
        said = refusal(disk_folder, entry(disk, expendable=["ext4"]))
    assert "refused by the check of mounts" in said
    assert str(point) in said


def test_a_mounted_disk_is_refused_through_a_symbolic_link(disk: Loop, disk_folder: Path) -> None:
    point = mounted(disk.device, disk_folder)
    link = disk_folder / "link"
    link.symlink_to(disk.device)
    with undone("umount", point):
        assert "refused by the check of mounts" in refusal(disk_folder, entry(disk, path=str(link)))


def write_partition_table(image: Path) -> None:
    """Write a DOS partition table with one partition, from 1 MiB to the end: sfdisk is not everywhere."""
    start, sectors = 2048, image.stat().st_size // 512 - 2048
    entry = struct.pack("<BBBBBBBBII", 0, 0, 0, 0, 0x83, 0, 0, 0, start, sectors)
    with open(image, "r+b") as file:
        file.seek(446)
        file.write(entry + bytes(48) + b"\x55\xaa")


@pytest.fixture
def partitioned(disk_folder: Path) -> Iterator[Loop]:
    """A disk with one partition, which the kernel knows."""
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
        # without udev: the node as it would make it
        major, minor = map(int, Path(f"/sys/class/block/{node.name}/dev").read_text().split(":"))
        os.mknod(node, 0o600 | stat.S_IFBLK, os.makedev(major, minor))
        with undone("rm", "-f", node):
            yield found


def test_a_disk_with_a_mounted_partition_is_refused(partitioned: Loop, disk_folder: Path) -> None:
    point = mounted(Path(f"{partitioned.device}p1"), disk_folder)
    with undone("umount", point):
        said = refusal(disk_folder, entry(partitioned, expendable=["dos", "ext4"]))
    assert f"{partitioned.device}p1 is mounted on {point}" in said


def test_a_partition_is_no_whole_disk(partitioned: Loop, disk_folder: Path) -> None:
    said = refusal(disk_folder, entry(partitioned, path=f"{partitioned.device}p1"))
    assert f"is a partition of {partitioned.device}" in said


def test_a_partition_table_is_somebody_s_data(disk: Loop, disk_folder: Path) -> None:
    write_partition_table(disk.image)
    assert "carries a signature of type dos" in refusal(disk_folder, entry(disk))


def test_a_file_system_is_somebody_s_data_unless_it_is_named_expendable(disk: Loop, disk_folder: Path) -> None:
    run("mkfs.ext4", "-q", disk.device)
    before = disk.checksum()
    assert "carries a signature of type ext4" in refusal(disk_folder, entry(disk))
    assert disk.checksum() == before
    attempt(disk_folder, entry(disk, expendable=["ext4"]))
    assert disk.checksum() != before


def test_swap_in_use_is_refused(disk: Loop, disk_folder: Path) -> None:
    run("mkswap", disk.device)
    try:
        run("swapon", disk.device)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no swap can be switched on here: {error.stderr}")
    with undone("swapoff", disk.device):
        assert "is in use as swap" in refusal(disk_folder, entry(disk, expendable=["swap"]))


def test_a_disk_that_something_is_built_upon_is_refused(disk: Loop, disk_folder: Path) -> None:
    if shutil.which("dmsetup") is None:
        pytest.skip("dmsetup is not installed")
    table = f"0 2048 linear {disk.device} 0"
    try:
        run("dmsetup", "create", "iopatterns-test", "--table", table)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no device mapper here: {error.stderr}")
    with undone("dmsetup", "remove", "iopatterns-test"):
        assert "refused by the check of holders" in refusal(disk_folder, entry(disk))


def test_a_disk_that_a_program_holds_is_refused(disk: Loop, disk_folder: Path) -> None:
    descriptor = os.open(disk.device, os.O_RDONLY | os.O_EXCL)
    try:
        assert "refused by the check of exclusive use" in refusal(disk_folder, entry(disk))
    finally:
        os.close(descriptor)


def test_a_read_only_disk_is_not_written(disk_folder: Path) -> None:
    with loop_device(disk_folder, "disk", 64, "--read-only") as found:
        assert "is read-only" in refusal(disk_folder, entry(found))


def test_a_mistyped_name_makes_nothing_in_dev(disk: Loop, disk_folder: Path) -> None:
    said = refusal(disk_folder, entry(disk, path="/dev/no-such-disk"))
    assert "Is the name mistyped?" in said
    assert not Path("/dev/no-such-disk").exists()


def test_a_file_is_no_disk(disk: Loop, disk_folder: Path) -> None:
    assert "is a file" in refusal(disk_folder, entry(disk, path=str(disk.image)))


def test_a_disk_smaller_than_what_is_asked_for_is_refused(disk_folder: Path) -> None:
    with loop_device(disk_folder, "disk", 4) as found:
        assert "Make file_size smaller" in refusal(disk_folder, entry(found))


def test_while_a_disk_is_written_nothing_can_mount_it(disk: Loop, disk_folder: Path) -> None:
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


def test_two_measurements_never_use_a_disk_at_a_time(disk: Loop, disk_folder: Path) -> None:
    (disk_folder / "config").mkdir()
    (disk_folder / "config/drives.yaml").write_text(yaml.safe_dump({"disk": entry(disk)}))
    with open(disk.device, "rb") as node:
        fcntl.flock(node, fcntl.LOCK_EX)
        code = (
            "import sys; sys.path[:0] = sys.argv[1].split(':'); from pathlib import Path; import yaml\n"
            "from test_block_drive import attempt\n"
            "attempt(Path(sys.argv[2]), yaml.safe_load(sys.argv[3]), 'randread')"
        )
        words = [f"{Path(__file__).parent}:{Path(__file__).parents[1]}", str(disk_folder), yaml.safe_dump(entry(disk))]
        said = disk_folder / "said"
        with said.open("w") as errors:
            waiting = subprocess.Popen([sys.executable, "-c", code, *words], stderr=errors)
        told = f"is being measured by process {os.getpid()}; waiting for it"
        patience.wait_for(lambda: told in said.read_text() or waiting.poll() is not None)
        time.sleep(0.5)
        assert waiting.poll() is None, said.read_text()
        assert told in said.read_text()
    assert patience.wait(waiting, 60) == 0, said.read_text()


def test_a_scheduler_is_switched_and_put_back(disk: Loop, disk_folder: Path) -> None:
    disk.scheduler.write_text("none")
    raw = attempt(disk_folder, entry(disk, tune=["scheduler"]), "randread", scheduler="deadline")
    (step,) = read_metadata(raw)["tuning"]
    assert (step["outcome"], step["after"]) == ("changed", "mq-deadline")
    assert disk.present_scheduler() == "none"


def test_a_bit_that_the_disk_does_not_have_is_not_applicable(disk: Loop, disk_folder: Path) -> None:
    raw = attempt(disk_folder, entry(disk, tune=["DRA"]), "randread", DRA=1)
    (step,) = read_metadata(raw)["tuning"]
    assert step["outcome"] == "not applicable"


def test_without_leave_no_setting_is_touched(disk: Loop, disk_folder: Path) -> None:
    raw = attempt(disk_folder, entry(disk), "randread", scheduler="deadline")
    (step,) = read_metadata(raw)["tuning"]
    assert "does not have scheduler under `tune`" in step["reason"]


def preconditioned(folder: Path, disk: Loop, mode: str, rw: str = "randread", **changes: Any) -> dict[str, Any]:
    drive = entry(disk, precondition={"mode": mode, "round_ms": 50}, **changes)
    return dict(read_metadata(attempt(folder, drive, rw))["drive"]["preconditioned"] or {})


def test_a_disk_is_filled_before_it_is_measured_and_once_only(disk: Loop, disk_folder: Path) -> None:
    told = preconditioned(disk_folder, disk, "fill")
    assert (told["mode"], told["size_bytes"]) == ("fill", 8 * MIB)
    first = disk.image.read_bytes()
    assert all(any(first[start : start + MIB]) for start in range(0, 8 * MIB, MIB))
    assert not any(first[8 * MIB :])
    preconditioned(disk_folder, disk, "fill", "read")
    assert disk.image.read_bytes() == first


def test_random_writes_go_on_until_they_are_steady(disk: Loop, disk_folder: Path) -> None:
    told = preconditioned(disk_folder, disk, "steady")
    assert 5 <= len(told["rounds"]) <= 25
    last = told["rounds"][-5:]
    excursion = (max(last) - min(last)) / (sum(last) / 5)
    assert told["excursion"] == pytest.approx(excursion)
    assert told["steady"] == (excursion <= 0.2 and abs(told["rise"]) <= 0.1)


def test_filling_needs_consent_also_for_a_reading_workload(disk: Loop, disk_folder: Path) -> None:
    before = disk.checksum()
    drive = entry(disk, destroy=None, precondition={"mode": "fill", "round_ms": 50})
    assert "refused by the check of consent" in refusal(disk_folder, drive, "randread")
    assert disk.checksum() == before


def test_an_undisturbed_execution_moves_what_the_disk_moved(disk: Loop, disk_folder: Path) -> None:
    sidecar = read_metadata(attempt(disk_folder, entry(disk), "randread"))
    assert sidecar["others_bytes"] == 0
    assert "other I/O on the disk" not in sidecar["doubts"]


def test_what_others_do_on_the_disk_meanwhile_is_told(disk: Loop, disk_folder: Path) -> None:
    code = "while true; do dd if=$0 of=/dev/null bs=1M iflag=direct status=none; done"
    others = subprocess.Popen(["sh", "-c", code, str(disk.device)], process_group=0)
    try:
        sidecar = read_metadata(attempt(disk_folder, entry(disk), "randread"))
    finally:
        os.killpg(others.pid, signal.SIGKILL)
        others.wait()
    assert "other I/O on the disk" in sidecar["doubts"]
    others_bytes = sidecar["others_bytes"]
    assert others_bytes is not None
    assert others_bytes > MIB


def checked(folder: Path, drive: dict[str, Any], *words: str) -> subprocess.CompletedProcess[str]:
    (folder / "config").mkdir(exist_ok=True)
    (folder / "config/drives.yaml").write_text(yaml.safe_dump({"disk": drive}))
    shutil.copytree(ROOT / "workflow/schemas", folder / "workflow/schemas", dirs_exist_ok=True)
    command = [sys.executable, "-m", "iopatterns", "check", "disk", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_check_shows_each_check_and_that_the_disk_may_be_written(disk: Loop, disk_folder: Path) -> None:
    said = checked(disk_folder, entry(disk))
    assert said.returncode == 0, said.stderr
    names = ["block device", "identity", "writable", "root device", "mounts", "swap", "holders"]
    for name in [*names, "exclusive use", "backing file", "signatures", "data", "consent"]:
        assert f"passed   {name}: " in said.stdout
    assert "disk may be written." in said.stdout


def test_check_shows_the_first_refusal_and_what_to_do(disk: Loop, disk_folder: Path) -> None:
    said = checked(disk_folder, entry(disk, destroy=None))
    assert said.returncode == 1
    assert "REFUSED  consent: config/drives.yaml does not say that its data may be destroyed. If all" in said.stdout
    assert "disk may not be written." in said.stdout


def test_check_of_reading_needs_no_consent(disk: Loop, disk_folder: Path) -> None:
    assert checked(disk_folder, entry(disk, destroy=None), "--reading").returncode == 0


def test_check_tells_the_serial_number_of_a_disk_whose_entry_has_none(disk: Loop, disk_folder: Path) -> None:
    said = checked(disk_folder, entry(disk, serial=None))
    assert said.returncode == 1
    assert f"gives no serial, the device says '{disk.serial}'" in said.stdout


def view_of(disk: Loop) -> Path:
    return disk.scheduler.with_name("write_cache")


@pytest.mark.parametrize("rw", ["randread", "randwrite"])
def test_the_kernel_s_view_of_the_write_cache_is_set_and_put_back(disk: Loop, disk_folder: Path, rw: str) -> None:
    before = view_of(disk).read_text()
    raw = attempt(disk_folder, entry(disk, tune=["write_cache"]), rw, write_cache="write through")
    sidecar = read_metadata(raw)
    assert sidecar["tuning"][0]["after"] == sidecar["write_cache"]["kernel"] == "write through"
    assert view_of(disk).read_text() == before == "write back\n"


def test_the_kernel_s_view_of_a_mounted_disk_is_left_alone(disk: Loop, disk_folder: Path) -> None:
    point = mounted(disk.device, disk_folder)
    with undone("umount", point):
        drive = entry(disk, tune=["write_cache"])
        raw = attempt(disk_folder, drive, "randread", write_cache="write through")
    (step,) = read_metadata(raw)["tuning"]
    assert step["outcome"] == "not applicable"
    assert "may lose its data" in step["reason"]


def test_a_disk_without_health_has_the_reason_and_no_doubt_in_its_sidecar(disk: Loop, disk_folder: Path) -> None:
    sidecar = read_metadata(attempt(disk_folder, entry(disk), "randread"))
    for moment in ("before", "after"):
        assert list(sidecar["health"][moment]) == ["not available"]
    assert sidecar["write_cache"] == {"drive": None, "kernel": "write back"}
    assert not [doubt for doubt in sidecar["doubts"] if doubt.startswith("drive")]


def test_without_direct_io_what_lay_in_memory_is_read_anew_and_doubted_all_the_same(
    disk: Loop, disk_folder: Path
) -> None:
    disk.image.write_bytes(os.urandom(64 * MIB))
    with open(disk.device, "rb") as held:  # the kernel keeps a disk's pages while somebody has it open
        # what the kernel reads ahead of need would still come in while the disk's traffic is looked at
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

        # another test may make LVM look at all disks of the machine
        patience.wait_for(lambda: traffic_of_reading_again() == 0, 10)
        before = traffic_bytes()
        raw = attempt(disk_folder, entry(disk), "randread", direct=0)
        sidecar = read_metadata(raw)
        # pages that come twice are read once; on a busy machine few come at all
        asked_bytes = min(json.loads(raw.read_text())["jobs"][0]["read"]["io_bytes"], 4 * MIB)
        assert traffic_bytes() > before + asked_bytes // 2
    assert "through the page cache" in sidecar["doubts"]
