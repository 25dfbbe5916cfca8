"""A file system that is full, under a drive's file or under the raw files: told, nothing half written, and mended."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import pytest
from loops import loop_device, run, undone
from patience import run as run_patiently
from support import file_cell

from iopatterns.measuring import fio
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata

MIB = 2**20
Spec = Any  # a `records.Specification`, or one that a test has spoilt


@pytest.fixture
def small(disk_folder: Path) -> Iterator[Path]:
    """Where a file system of 24 MiB is mounted."""
    point = disk_folder / "small"
    point.mkdir()
    with loop_device(disk_folder, "small.img", 24) as loop:
        run("mkfs.ext4", "-q", "-O", "^has_journal", loop.device)
        run("mount", loop.device, point)
        with undone("umount", point):
            yield point


def fill(folder: Path, left_bytes: int = 0) -> Path:
    """Fill a file system but for so many bytes, and return the file that does."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for block_bytes in (MIB, 4096):
            with pytest.raises(OSError, match="No space left"):
                write_on_and_on(file, bytes(block_bytes))
        file.truncate(file.tell() - left_bytes)
        os.fsync(file.fileno())
    return ballast


def write_on_and_on(file: FileIO, block: bytes) -> None:
    while True:
        file.write(block)
        os.fsync(file.fileno())


def attempt(folder: Path, specification: Spec, *options: str) -> tuple["subprocess.CompletedProcess[str]", list[Path]]:
    """Measure two executions of a cell in the project ``folder``; return how that went, and their raw files."""
    raws = [
        folder / f"data/raw/test/study/x-{cells.specification_digest(specification)[:8]}/0{number}.json"
        for number in (1, 2)
    ]
    words = ["measure", "--specification", json.dumps(specification), *options, *map(str, raws)]
    command = [sys.executable, "-m", "iopatterns", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return run_patiently(command, 60, cwd=folder, text=True, **streams), raws


def refused(went: "subprocess.CompletedProcess[str]") -> str:
    """Return what a measurement that failed has said: one message, and no traceback."""
    assert went.returncode == 1, went.stderr
    assert "Traceback" not in went.stderr
    assert went.stderr.count("iopatterns: error: ") == 1
    return went.stderr


def assert_whole(raws: list[Path], specification: Spec) -> None:
    for raw in raws:
        fio.check_result(raw, specification)
        read_metadata(raw)


def test_file_that_does_not_fit_leaves_nothing_and_comes_once_there_is_room(small: Path, disk_folder: Path) -> None:
    specification = file_cell(small)
    specification["drive"]["file_size_bytes"] = 20 * MIB
    went, raws = attempt(disk_folder, specification)
    assert "Free some space, make file_size in config/config.yaml smaller" in refused(went)
    assert {path.name for path in small.iterdir()} == {"lost+found", ".iopatterns"}
    assert list(raws[0].parent.iterdir()) == []


def test_file_system_that_fills_while_the_file_is_made(disk_folder: Path) -> None:
    """As on thin provisioning: the file system says that there is room, and the disk below has none."""
    memory, point = disk_folder / "memory", disk_folder / "thin"
    memory.mkdir()
    point.mkdir()
    specification = file_cell(point)
    specification["drive"]["file_size_bytes"] = 32 * MIB
    try:
        run("mount", "-t", "tmpfs", "-o", "size=24m", "none", memory)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs can be mounted here: {error.stderr}")
    with undone("umount", memory), loop_device(memory, "thin.img", 256) as loop:
        run("mkfs.ext4", "-q", "-O", "^has_journal", loop.device)
        run("mount", loop.device, point)
        with undone("umount", point):
            went, raws = attempt(disk_folder, specification)
            said = refused(went)
            assert "No space left" in said or "Input/output error" in said
            assert {path.name for path in point.iterdir()} == {"lost+found", ".iopatterns"}
            assert list(raws[0].parent.iterdir()) == []
            run("fstrim", point)
            run("mount", "-o", "remount,size=128m", memory)
            went, raws = attempt(disk_folder, specification)
            assert went.returncode == 0, went.stderr
            assert_whole(raws, specification)


@pytest.mark.parametrize("left", [0, 4096, 12288, 20480], ids=lambda left: f"{left} bytes left")
def test_full_file_system_under_the_raw_files(left: int, small: Path, disk_folder: Path) -> None:
    specification = file_cell(disk_folder)
    project = small / "project"
    project.mkdir()
    ballast = fill(small, left)
    went, raws = attempt(project, specification, "--log", "measure.log")
    said = refused(went)
    assert "No space left on" in said
    assert "run again" in said
    assert_whole([raw for raw in raws if raw.exists()], specification)
    assert not raws[1].exists()
    assert not list(raws[0].parent.glob(".*"))
    ballast.unlink()
    went, raws = attempt(project, specification, "--log", "measure.log")
    assert went.returncode == 0, went.stderr
    assert_whole(raws, specification)


def test_file_system_that_fills_between_two_executions_keeps_the_first(small: Path, disk_folder: Path) -> None:
    specification = file_cell(disk_folder)
    project = small / "project"
    project.mkdir()
    _, raws = attempt(project, specification)
    assert_whole(raws, specification)
    raws[1].unlink()
    first = raws[0].read_bytes()
    ballast = fill(small)
    went, raws = attempt(project, specification)
    assert "No space left on" in refused(went)
    assert raws[0].read_bytes() == first
    assert not raws[1].exists()
    ballast.unlink()
    went, raws = attempt(project, specification)
    assert went.returncode == 0, went.stderr
    assert raws[0].read_bytes() == first
    assert_whole(raws, specification)
