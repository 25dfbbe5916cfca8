"""What the machine says of itself, held against other tools that ask the same kernel."""

import os
import subprocess
from pathlib import Path

import pytest

from iopatterns.measuring import machine


def test_machine_is_the_one_that_runs_this() -> None:
    facts = machine.machine_facts()
    assert facts["kernel"].split()[1] == os.uname().release
    assert facts["cpu_count"] == os.cpu_count()
    assert facts["memory_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def test_machine_gives_no_host_name() -> None:
    assert os.uname().nodename not in machine.machine_facts().values()


def test_memory_is_told_from_disk() -> None:
    if not Path("/dev/shm").is_dir():
        pytest.skip("no /dev/shm here")
    assert machine.file_system_type(Path("/dev/shm")) == "tmpfs"
    assert machine.file_system_type(Path("/proc")) == "proc"


def test_file_system_is_the_one_that_stat_names(disk_folder: Path) -> None:
    asked = subprocess.run(["stat", "-f", "-c", "%T", disk_folder], capture_output=True, text=True, check=True)
    assert machine.file_system_type(disk_folder) in asked.stdout.strip().replace("ext2/ext3", "ext2 ext3 ext4").split()


def test_disk_is_a_whole_disk(disk_folder: Path) -> None:
    facts = machine.disk_facts_under(disk_folder)
    if facts["device"] is None:
        pytest.skip("the kernel names no disk under this checkout")
    assert Path(f"/sys/block/{facts['device']}").exists()
    assert (facts["size_bytes"] or 0) >= os.statvfs(disk_folder).f_blocks * os.statvfs(disk_folder).f_frsize


def test_nothing_is_said_of_a_disk_that_is_none() -> None:
    assert set(machine.disk_facts_under(Path("/proc")).values()) == {None}
