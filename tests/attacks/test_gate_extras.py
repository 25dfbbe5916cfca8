"""Pre-write checks beyond the kernel's own view of a disk."""

import os
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loops import Loop, loop_device, run, undone
from measurements import MIB, block_entry, describe_drive, measured, raw_files, start
from patience import wait_for
from support import disk_cell, other_writer, processes_matching

from iopatterns.measuring.drives import DriveError

SIZE_MIB = 24


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder, size_mib=SIZE_MIB) as found:
        yield found


def attempt(folder: Path, disk: Loop, rw: str = "randwrite", *, seed: int = 1, **changes: Any) -> None:
    """Measure a disk, with consent to writing."""
    entry = block_entry(disk, **changes)
    describe_drive(folder, entry)
    measured(folder, disk_cell(entry, "disk", rw) | {"seed": seed})


def refusal(folder: Path, disk: Loop, **changes: Any) -> str:
    """Return why writing is refused, after checking that nothing was written."""
    before = disk.checksum()
    with pytest.raises(DriveError) as caught:
        attempt(folder, disk, seed=99, **changes)
    assert disk.checksum() == before
    return str(caught.value)


def write_table(disk: Loop) -> None:
    """Write a DOS partition table with one partition, which the kernel does not read.

    The partition begins at 1 MiB and has 16 MiB.

    The partition begins at 1 MiB and has 16 MiB.
    """
    entry = struct.pack("<BBBBBBBBII", 0, 0, 0, 0, 0x83, 0, 0, 0, 2048, 32768)
    with open(disk.device, "r+b", buffering=0) as file:
        first = bytearray(file.read(512))
        first[446:512] = entry + bytes(48) + b"\x55\xaa"
        file.seek(0)
        file.write(first)
        os.fsync(file.fileno())


def test_a_file_system_in_an_unread_partition_is_refused(disk: Loop, disk_folder: Path) -> None:
    write_table(disk)
    run("mkfs.ext4", "-q", "-F", "-E", f"offset={MIB}", disk.image, "16M")
    message = refusal(disk_folder, disk, expendable=["dos"])
    assert "refused by the check of signatures" in message
    assert f"partition 1 of {disk.device.name} (from byte {MIB} on, and not read by the kernel)" in message
    assert "carries a signature of type ext4" in message
    attempt(disk_folder, disk, expendable=["dos", "ext4"])


def test_data_in_a_partition_without_a_signature_are_refused(disk: Loop, disk_folder: Path) -> None:
    write_table(disk)
    attempt(disk_folder, disk, expendable=["dos"])
    write_table(disk)
    with open(disk.device, "r+b") as file:
        file.seek(10 * MIB)
        file.write(os.urandom(4 * MIB))
    message = refusal(disk_folder, disk, expendable=["dos"])
    assert "refused by the check of data" in message
    assert "add `expendable: [dos, data]`" in message


def test_a_backing_file_mounted_through_another_loop_device_is_refused(disk: Loop, disk_folder: Path) -> None:
    point = disk_folder / "point"
    point.mkdir()
    run("mkfs.ext4", "-q", disk.device)
    other = run("losetup", "--find", "--show", disk.image)  # mount would use the existing loop device
    with undone("losetup", "--detach", other):
        run("mount", other, point)
        with undone("umount", point):
            message = refusal(disk_folder, disk, expendable=["ext4"])
    assert "refused by the check of backing file" in message
    assert f"{disk.image} is behind {disk.device.name}, and it is behind the loop device {other}" in message


def test_a_backing_file_that_a_program_writes_is_refused(disk: Loop, disk_folder: Path) -> None:
    with other_writer(disk.image) as process:
        message = refusal(disk_folder, disk)
    assert f"process {process} has it open for writing" in message


def test_a_mounted_backing_device_is_refused(disk: Loop, disk_folder: Path) -> None:
    point = disk_folder / "point"
    point.mkdir()
    run("mkfs.ext4", "-q", disk.device)
    device = run("losetup", "--find", "--show", disk.device)
    upper = Loop(device, disk.image)
    upper.serial = str(disk.device)
    with undone("losetup", "--detach", device):
        run("mount", disk.device, point)
        with undone("umount", point):
            message = refusal(disk_folder, upper, expendable=["ext4"])
        assert f"and {disk.device} is mounted on {point}" in message
        descriptor = os.open(disk.device, os.O_RDONLY | os.O_EXCL)
        try:
            assert f"and {disk.device} is in use" in refusal(disk_folder, upper, expendable=["ext4"])
        finally:
            os.close(descriptor)


def test_a_backing_file_in_use_as_swap_is_refused(disk: Loop, disk_folder: Path) -> None:
    disk.image.chmod(0o600)
    with open(disk.image, "r+b") as file:
        file.write(os.urandom(SIZE_MIB * MIB))  # swap has no holes
    run("mkswap", disk.image)
    try:
        run("swapon", disk.image)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no swap can be switched on here: {error.stderr}")
    with undone("swapoff", disk.image), pytest.raises(DriveError) as caught:
        attempt(disk_folder, disk, expendable=["swap", "data"])
    assert f"it is in use as swap (swapoff {disk.image}" in str(caught.value)


@pytest.mark.parametrize("at_mib", [0, 12, 23])
def test_data_without_a_signature_are_refused_unless_expendable(at_mib: int, disk: Loop, disk_folder: Path) -> None:
    with open(disk.device, "r+b") as file:
        file.seek(at_mib * MIB)
        file.write(os.urandom(MIB))
    message = refusal(disk_folder, disk)
    assert "refused by the check of data: there are data without a signature" in message
    assert "add `expendable: [data]`" in message
    attempt(disk_folder, disk, expendable=["data"])


def test_an_erased_disk_may_be_written(disk: Loop, disk_folder: Path) -> None:
    with open(disk.device, "r+b") as file:
        file.write(b"\xff" * (SIZE_MIB * MIB))
    attempt(disk_folder, disk)


def test_data_of_this_package_may_be_overwritten(disk: Loop, disk_folder: Path) -> None:
    attempt(disk_folder, disk)
    attempt(disk_folder, disk, seed=2)


def test_data_written_since_are_refused(disk: Loop, disk_folder: Path) -> None:
    attempt(disk_folder, disk)
    with open(disk.device, "r+b") as file:
        file.seek(16 * MIB)
        file.write(os.urandom(4 * MIB))
    message = refusal(disk_folder, disk)
    assert "other than this package left there" in message


def kill_while_writing(folder: Path, disk: Loop) -> None:
    """Kill a measurement (SIGKILL) while it writes."""
    entry = block_entry(disk)
    describe_drive(folder, entry)
    specification = disk_cell(entry, "disk", "randwrite", 30_000)
    (raw,) = raw_files(folder, specification)
    process = start(folder, specification, [raw])
    wait_for(lambda: processes_matching(f"--output={raw.parent}"))
    wait_for(lambda: bool(any(disk.image.read_bytes())))
    process.kill()
    process.communicate()
    wait_for(lambda: not processes_matching(f"--output={raw.parent}"), 5)


def test_after_a_kill_the_disk_is_not_written_unless_its_data_are_expendable(disk: Loop, disk_folder: Path) -> None:
    kill_while_writing(disk_folder, disk)
    # the refusal must not make the next run less careful
    for folder in (disk_folder, disk_folder / "another checkout"):
        message = refusal(folder, disk)
        assert "refused by the check of data" in message
        assert "the last measurement was killed, or the disk failed, while it wrote" in message
        assert "add `expendable: [data]`" in message
    attempt(disk_folder, disk, expendable=["data"])
    attempt(disk_folder, disk, seed=2)  # its data are this package's again


def test_after_a_kill_the_data_of_others_are_refused(disk: Loop, disk_folder: Path) -> None:
    kill_while_writing(disk_folder, disk)
    with open(disk.device, "r+b") as file:
        file.write(os.urandom(16 * MIB))
    assert "the last measurement was killed, or the disk failed, while it wrote" in refusal(disk_folder, disk)


def test_after_a_kill_an_erased_disk_may_be_written(disk: Loop, disk_folder: Path) -> None:
    kill_while_writing(disk_folder, disk)
    with open(disk.device, "r+b") as file:
        file.write(bytes(SIZE_MIB * MIB))
    attempt(disk_folder, disk)


def test_a_disk_with_data_may_be_read(disk: Loop, disk_folder: Path) -> None:
    disk.image.write_bytes(os.urandom(SIZE_MIB * MIB))
    attempt(disk_folder, disk, "randread", destroy=None)
