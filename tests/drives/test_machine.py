"""Facts about the machine, compared with other sources."""

import os
import subprocess
from pathlib import Path

import pytest
from loops import run, undone

from iopatterns.measuring import machine


def test_facts_are_those_of_this_machine() -> None:
    facts = machine.machine_facts()
    assert facts["kernel"].split()[1] == os.uname().release
    assert facts["cpu_count"] == os.cpu_count()
    assert facts["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert os.uname().nodename not in facts.values()


def test_file_systems_without_disk_have_their_type() -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm here")
    assert machine.file_system_type(Path("/dev/shm")) == "tmpfs"
    assert machine.file_system_type(Path("/proc")) == "proc"


def test_the_file_system_type_equals_that_of_stat(disk_folder: Path) -> None:
    asked = subprocess.run(["stat", "-f", "-c", "%T", disk_folder], capture_output=True, text=True, check=True)
    assert machine.file_system_type(disk_folder) in asked.stdout.strip().replace("ext2/ext3", "ext2 ext3 ext4").split()


def test_the_disk_under_a_folder_is_larger_than_its_file_system(disk_folder: Path) -> None:
    facts = machine.disk_facts_under(disk_folder)
    if facts["device"] is None:
        pytest.skip("the kernel names no disk under this checkout")
    assert Path(f"/sys/block/{facts['device']}").exists()
    assert (facts["size_bytes"] or 0) >= os.statvfs(disk_folder).f_blocks * os.statvfs(disk_folder).f_frsize


def test_all_facts_are_none_without_a_disk() -> None:
    assert set(machine.disk_facts_under(Path("/proc")).values()) == {None}


@pytest.mark.parametrize(
    "name", ["line\u2028separator", "next\x85line", "wide\u3000blank", "\udcff", "a - b", "tab\tline\n"]
)
def test_mounts_have_the_names_that_the_kernel_gives_them(name: str, tmp_path: Path) -> None:
    """Mount a file system whose name has a character that only Python takes for a blank or a line's end."""
    point = tmp_path / name
    point.mkdir()
    try:
        run("mount", "-t", "tmpfs", "", point)  # of a source without a name
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs can be mounted here: {error.stderr}")
    with undone("umount", point):
        found = {mount.point: mount for mount in machine.mounts()}
        assert (found[point].type, found[point].source) == ("tmpfs", "")
        assert found[point].number == point.stat().st_dev
        assert machine.file_system_type(point) == "tmpfs"
