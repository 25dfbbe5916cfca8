"""Paths with odd characters in the tables of /proc are read as the kernel wrote them."""

import os
import subprocess
from pathlib import Path

import pytest
from loops import loop_device, mounted_or_skipped, run, undone
from measurements import MIB, Spec, block_entry, describe_drive, measured
from support import disk_cell, file_cell

from iopatterns.measuring import machine
from iopatterns.measuring.drives import DriveError

# Characters at which Python's methods for text separate words or lines, and the kernel does not; and no UTF-8
ODD_NAMES = ["no\u00a0break", "line\u2028end", "next\u0085line", "form\ffeed", "back\\slash", "a b\tc\nd", "\udcff"]


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_memory_at_a_path_with_odd_characters_is_refused(name: str, disk_folder: Path) -> None:
    folder = disk_folder / name
    folder.mkdir()
    mounted_or_skipped("-t", "tmpfs", "-o", "size=64m", "none", folder)
    with undone("umount", folder):
        assert machine.file_system_type(folder) == "tmpfs"
        with pytest.raises(DriveError, match="tmpfs, which is no disk"):
            measured(disk_folder, file_cell(folder))


def test_a_mount_point_with_odd_characters_anywhere_is_no_error(specification: Spec, disk_folder: Path) -> None:
    for name in ODD_NAMES:
        (disk_folder / name).mkdir()
        mounted_or_skipped("-t", "tmpfs", "none", disk_folder / name)
    try:
        assert {disk_folder / name for name in ODD_NAMES} <= {mount.point for mount in machine.mounts()}
        assert measured(disk_folder, specification)[0].exists()
    finally:
        for name in ODD_NAMES:
            run("umount", disk_folder / name)


@pytest.mark.parametrize("name", ODD_NAMES, ids=ascii)
def test_a_swap_file_with_odd_characters_in_its_name_is_refused(name: str, disk_folder: Path) -> None:
    with loop_device(disk_folder, name, 24) as disk:
        disk.image.chmod(0o600)
        with open(disk.image, "r+b") as file:
            file.write(os.urandom(24 * MIB))  # swap has no holes
        run("mkswap", disk.image)
        try:
            run("swapon", disk.image)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no swap can be switched on here: {error.stderr}")
        with undone("swapoff", disk.image):
            assert str(disk.image) in machine.active_swaps("file")
            entry = block_entry(disk, serial=machine.disk_facts(disk.device)["serial"], expendable=["swap", "data"])
            describe_drive(disk_folder, entry | {"destroy": entry["serial"]})
            with pytest.raises(DriveError, match="it is in use as swap"):
                measured(disk_folder, disk_cell(entry, "disk", "randwrite"))
