"""Memory, programs and unknown storage are not mistaken for a disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import Loop, loop_device, mounted_or_skipped, run, undone
from measurements import MIB, Spec, block_entry, describe_drive, measured, writing
from support import disk_cell, file_cell

from iopatterns.measuring import machine
from iopatterns.measuring.drives import DriveError, storage_layers
from iopatterns.measuring.tuning.journal import connected_disk
from iopatterns.raw.metadata_files import read_metadata


@pytest.fixture
def memory(disk_folder: Path) -> Iterator[Path]:
    """Yield a folder in memory."""
    folder = disk_folder / "memory"
    folder.mkdir()
    mounted_or_skipped("-t", "tmpfs", "-o", "size=256m", "none", folder)
    with undone("umount", folder):
        yield folder


def doubts(folder: Path, specification: Spec) -> list[str]:
    (raw,) = measured(folder, specification)
    return [doubt for doubt in read_metadata(raw)["doubts"] if doubt.startswith(("stored", "through the page cache b"))]


def test_memory_that_names_a_disk_as_its_source_is_refused(disk_folder: Path) -> None:
    folder = disk_folder / "memory"
    folder.mkdir()
    disk = machine.disk_facts_under(disk_folder)["device"]
    mounted_or_skipped("-t", "tmpfs", f"/dev/{disk}", folder)
    with undone("umount", folder):
        assert machine.disk_folder(folder) is None
        with pytest.raises(DriveError, match="tmpfs, which is no disk"):
            measured(disk_folder, file_cell(folder))


def test_a_file_on_an_overlay_in_memory_is_doubtful(memory: Path, disk_folder: Path) -> None:
    merged = overlay(memory, disk_folder)
    with undone("umount", merged):
        assert doubts(disk_folder, writing(file_cell(merged))) == ["stored in memory: overlay on tmpfs"]


def test_a_file_on_an_overlay_of_a_disk_is_not_doubtful(disk_folder: Path) -> None:
    merged = overlay(disk_folder, disk_folder)
    with undone("umount", merged):
        assert doubts(disk_folder, file_cell(merged)) == []


def overlay(upper: Path, folder: Path) -> Path:
    merged, lower = folder / "merged", folder / "lower"
    for each in (merged, lower, upper / "upper", upper / "work"):
        each.mkdir()
    options = f"lowerdir={lower},upperdir={upper / 'upper'},workdir={upper / 'work'}"
    mounted_or_skipped("-t", "overlay", "-o", options, "overlay", merged)
    return merged


def test_an_overlay_whose_folder_is_not_visible_is_doubtful(disk_folder: Path) -> None:
    """Measure on an overlay whose upper folder has another name since, as for a container."""
    merged = overlay(disk_folder, disk_folder)
    (disk_folder / "upper").rename(disk_folder / "renamed")
    with undone("umount", merged):
        assert doubts(disk_folder, file_cell(merged)) == ["stored on an unknown device: overlay"]


def test_an_overlay_that_seems_to_be_on_itself_is_doubtful(disk_folder: Path) -> None:
    merged = overlay(disk_folder, disk_folder)
    (disk_folder / "upper").rename(disk_folder / "renamed")
    (disk_folder / "upper").symlink_to(merged)
    with undone("umount", merged):
        assert doubts(disk_folder, file_cell(merged)) == ["stored on an unknown device: overlay on overlay"]


def mounted(device: Path | str, folder: Path, kind: str = "ext4") -> Path:
    point = folder / "point"
    point.mkdir()
    run(f"mkfs.{kind}", "-q", device)
    mounted_or_skipped(device, point)
    return point


def test_a_file_system_on_a_loop_device_in_memory_is_doubtful(memory: Path, disk_folder: Path) -> None:
    with loop_device(memory, size_mib=120) as loop:
        point = mounted(loop.device, disk_folder)
        with undone("umount", point):
            found = doubts(disk_folder, file_cell(point))
    assert f"stored in memory: ext4 on {loop.device.name} on tmpfs" in found


def test_a_loop_device_in_memory_is_doubtful(memory: Path, disk_folder: Path) -> None:
    with loop_device(memory) as loop:
        entry = block_entry(loop)
        describe_drive(disk_folder, entry)
        found = doubts(disk_folder, disk_cell(entry, "disk", "randread"))
    assert f"stored in memory: {loop.device.name} on tmpfs" in found


def test_a_loop_device_whose_file_was_deleted_is_followed_to_memory(memory: Path) -> None:
    with loop_device(memory) as loop:
        loop.image.unlink()
        assert layers(loop) == [((loop.device.name, "tmpfs"), "in memory")]


def test_a_loop_device_whose_file_was_deleted_is_followed_to_its_disk(disk_folder: Path) -> None:
    disk = machine.disk_facts_under(disk_folder)["device"]
    kind = machine.file_system_type(disk_folder)
    with loop_device(disk_folder) as loop:
        assert layers(loop) == [((loop.device.name, kind, disk), "")]
        loop.image.unlink()
        assert layers(loop) == [((loop.device.name, kind, disk), "")]


def test_a_loop_device_on_anonymous_memory_is_followed_to_memory(disk_folder: Path) -> None:
    memory = os.memfd_create("disk")
    try:
        os.truncate(memory, 16 * MIB)
        device = run("losetup", "--find", "--show", f"/proc/{os.getpid()}/fd/{memory}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no loop device can be made here: {error}")
    finally:
        os.close(memory)
    with undone("losetup", "--detach", device):
        assert layers(Loop(device, disk_folder)) == [((Path(device).name, "memfd"), "in memory")]


def layers(loop: Loop) -> list[tuple[tuple[str | None, ...], str]]:
    number = os.stat(loop.device).st_rdev
    return [(each.layers, each.stored) for each in storage_layers.paths_below_device(number)]


def test_a_loop_device_without_direct_io_is_doubtful(disk_folder: Path) -> None:
    with loop_device(disk_folder) as loop:
        run("losetup", "--direct-io=off", loop.device)
        entry = block_entry(loop)
        describe_drive(disk_folder, entry)
        (found,) = doubts(disk_folder, disk_cell(entry, "disk", "randread"))
    assert found.startswith(
        f"through the page cache below {loop.device.name} (losetup --direct-io): {loop.device.name}"
    )


def test_each_device_of_a_file_system_is_followed(memory: Path, disk_folder: Path) -> None:
    if shutil.which("mkfs.btrfs") is None:
        pytest.skip("mkfs.btrfs is not installed")
    with loop_device(disk_folder, "first", 256) as first, loop_device(memory, "second", 256) as second:
        run("mkfs.btrfs", "-q", "-d", "raid0", first.device, second.device)
        point = disk_folder / "point"
        point.mkdir()
        mounted_or_skipped("-o", f"device={second.device}", first.device, point)
        with undone("umount", point):
            found = [(each.layers[:2], each.stored) for each in storage_layers.paths_below_file(point)]
    assert sorted(found) == [(("btrfs", first.device.name), ""), (("btrfs", second.device.name), "in memory")]


def test_a_disk_of_compressed_memory_is_followed_to_memory() -> None:
    zram = connected_disk("zram0")
    if zram is None:
        pytest.skip("this kernel has no zram0")
    (found,) = storage_layers.paths_below_device(zram.device_number)
    assert found == storage_layers.StoragePath(("zram0",), "in memory")
