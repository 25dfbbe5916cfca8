"""Writes that a drive rejects after fio has ended are not kept as a measurement."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import Loop, loop_device, mounted_or_skipped, run, undone
from measurements import MIB, Spec, block_entry, describe_drive, raw_files
from support import disk_cell

from iopatterns.measuring import machine
from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.fio import FioError


@pytest.fixture
def thin(disk_folder: Path) -> Iterator[Loop]:
    """Yield a disk that rejects all writes: the file behind it is sparse, on a file system that is full."""
    point = disk_folder / "point"
    point.mkdir()
    with loop_device(disk_folder, "full", 32) as full:
        run("mkfs.ext4", "-q", "-O", "^has_journal", full.device)
        mounted_or_skipped(full.device, point)
        with undone("umount", point), loop_device(point, "thin", 64) as found:
            fill(point / "ballast")
            yield found


def fill(path: Path) -> None:
    """Fill a file system with a file, to the last block."""
    with path.open("wb") as file:
        for size_bytes in (MIB, 65536, 4096, 1024):
            with contextlib.suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size_bytes)


def cell(disk: Loop, folder: Path, *, direct: int) -> Spec:
    entry = block_entry(disk)
    describe_drive(folder, entry)
    return disk_cell(entry, "disk", "randwrite", direct=direct)


@pytest.mark.parametrize(
    ("direct", "reason"),
    [(0, "the drive did not accept all its buffered writes"), (1, "No space left on device: write")],
)
def test_a_repetition_whose_writes_are_lost_is_not_kept(
    direct: int, reason: str, thin: Loop, disk_folder: Path
) -> None:
    specification = cell(thin, disk_folder, direct=direct)
    raws = raw_files(disk_folder, specification, 2)
    with pytest.raises(FioError, match=reason):
        measure_cell(disk_folder, specification, raws)
    assert not list(raws[0].parent.iterdir())


def test_buffered_writes_are_on_the_drive_when_a_repetition_ends(disk_folder: Path) -> None:
    with loop_device(disk_folder) as disk:
        specification = cell(disk, disk_folder, direct=0)
        (raw,) = raw_files(disk_folder, specification)
        written = Path(f"/sys/block/{disk.device.name}/stat")
        before = int(written.read_text().split()[6])
        measure_cell(disk_folder, specification, [raw])
        after = int(written.read_text().split()[6])
        run("blockdev", "--flushbufs", disk.device)
        assert int(written.read_text().split()[6]) == after
        assert (after - before) * 512 >= MIB // 64


def test_the_count_of_failed_commands_is_unknown_without_a_disk() -> None:
    assert machine.disk_error_count(None) is None
    assert machine.disk_error_count("no-such-disk") is None
