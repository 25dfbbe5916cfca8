"""A full file system under a drive's file or under the raw files."""

import os
import subprocess
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

import pytest
from loops import loop_device, run, undone
from measurements import MIB, Spec, raw_files, start
from patience import communicate
from support import file_cell

from iopatterns.measuring import fio
from iopatterns.raw.metadata_files import read_metadata


@pytest.fixture
def small(disk_folder: Path) -> Iterator[Path]:
    """Yield the mount point of a file system of 24 MiB."""
    point = disk_folder / "small"
    point.mkdir()
    with loop_device(disk_folder, "small.img", 24) as loop:
        run("mkfs.ext4", "-q", "-O", "^has_journal", loop.device)
        run("mount", loop.device, point)
        with undone("umount", point):
            yield point


def fill(folder: Path, left_bytes: int = 0) -> Path:
    """Fill a file system except ``left_bytes``; return the file that fills it."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        for block_bytes in (MIB, 4096):
            with pytest.raises(OSError, match="No space left"):
                write_until_error(file, bytes(block_bytes))
        file.truncate(file.tell() - left_bytes)
        os.fsync(file.fileno())
    return ballast


def write_until_error(file: FileIO, block: bytes) -> None:
    while True:
        file.write(block)
        os.fsync(file.fileno())


def attempt(folder: Path, specification: Spec, *options: str) -> tuple[int, str, list[Path]]:
    """Measure two repetitions; return exit status, standard error and raw files."""
    raws = raw_files(folder, specification, 2)
    process = start(folder, specification, raws, *options)
    _, printed = communicate(process, 60)
    return process.returncode, printed, raws


def refused(folder: Path, specification: Spec, *options: str) -> tuple[str, list[Path]]:
    """Return the error message of a failed measurement, and its raw files."""
    status, printed, raws = attempt(folder, specification, *options)
    assert status == 1, printed
    assert "Traceback" not in printed
    assert printed.count("iopatterns: error: ") == 1
    return printed, raws


def require_success(folder: Path, specification: Spec, *options: str) -> list[Path]:
    status, printed, raws = attempt(folder, specification, *options)
    assert status == 0, printed
    require_complete(raws, specification)
    return raws


def require_complete(raws: list[Path], specification: Spec) -> None:
    for raw in raws:
        fio.check_result(raw, specification)
        read_metadata(raw)


def test_a_file_that_does_not_fit_is_refused(small: Path, disk_folder: Path) -> None:
    specification = file_cell(small)
    specification["drive"]["file_size_bytes"] = 20 * MIB
    printed, raws = refused(disk_folder, specification)
    assert "Free some space, make file_size in config/config.yaml smaller" in printed
    assert {path.name for path in small.iterdir()} == {"lost+found", ".iopatterns"}
    assert list(raws[0].parent.iterdir()) == []


def test_a_file_system_that_fills_while_the_file_is_created(disk_folder: Path) -> None:
    """Fill a disk whose file system reports free space, as thin provisioning does."""
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
            printed, raws = refused(disk_folder, specification)
            assert "No space left" in printed or "Input/output error" in printed
            assert {path.name for path in point.iterdir()} == {"lost+found", ".iopatterns"}
            assert list(raws[0].parent.iterdir()) == []
            run("fstrim", point)
            run("mount", "-o", "remount,size=128m", memory)
            require_success(disk_folder, specification)


@pytest.mark.parametrize("left", [0, 4096, 12288, 20480], ids=lambda left: f"{left} bytes left")
def test_a_full_file_system_of_the_raw_files_is_an_error(left: int, small: Path, disk_folder: Path) -> None:
    specification = file_cell(disk_folder)
    project = small / "project"
    project.mkdir()
    ballast = fill(small, left)
    printed, raws = refused(project, specification, "--log", "measure.log")
    assert "No space left on" in printed
    assert "run again" in printed
    require_complete([raw for raw in raws if raw.exists()], specification)
    assert not raws[1].exists()
    assert not list(raws[0].parent.glob(".*"))
    ballast.unlink()
    require_success(project, specification, "--overwrite", "--log", "measure.log")


def test_finished_repetitions_are_kept_when_the_file_system_fills(small: Path, disk_folder: Path) -> None:
    specification = file_cell(disk_folder)
    project = small / "project"
    project.mkdir()
    raws = require_success(project, specification)
    raws[1].unlink()
    first = raws[0].read_bytes()
    ballast = fill(small)
    assert "No space left on" in refused(project, specification)[0]
    assert raws[0].read_bytes() == first
    assert not raws[1].exists()
    ballast.unlink()
    require_success(project, specification)
    assert raws[0].read_bytes() == first
