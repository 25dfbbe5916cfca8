"""A disk whose path leads elsewhere meanwhile: only the checked disk is written."""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from loops import Loop, loop_device, run
from measurements import MIB, Spec, block_entry, describe_drive, measured, raw_files, start
from patience import communicate
from support import disk_cell

from iopatterns.measuring.drives import DriveError
from iopatterns.raw.metadata_files import read_metadata

SIZE_MIB = 16
# When the path is changed, as a share of the duration of a measurement
MOMENTS = [0.05, 0.3, 0.5, 0.7, 0.9]


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder, size_mib=SIZE_MIB) as found:
        yield found


@pytest.fixture
def other(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder, "other", SIZE_MIB) as found:
        found.image.write_bytes(os.urandom(SIZE_MIB * MIB))
        yield found


def described(folder: Path, disk: Loop, path: Path, rw: str = "randwrite") -> Spec:
    """Describe the disk under a path, with consent; return a cell on it."""
    entry = block_entry(disk, path=str(path))
    describe_drive(folder, entry)
    return disk_cell(entry, "disk", rw)


def node(path: Path, disk: Loop) -> Path:
    """Create a device node of a disk at a path."""
    os.mknod(path, 0o600 | stat.S_IFBLK, os.stat(disk.device).st_rdev)
    return path


def link(path: Path, disk: Loop) -> Path:
    path.symlink_to(disk.device)
    return path


@pytest.mark.parametrize("make", [link, node])
def test_a_path_that_changes_between_repetitions_has_no_effect(
    make: Callable[[Path, Loop], Path], disk: Loop, other: Loop, disk_folder: Path
) -> None:
    path, elsewhere = make(disk_folder / "drive", disk), make(disk_folder / "elsewhere", other)
    specification = described(disk_folder, disk, path)
    first, _, third = raw_files(disk_folder, specification, 3)
    before = other.checksum()

    def lead_away() -> None:
        end = time.monotonic() + 30
        while not first.exists() and time.monotonic() < end:
            time.sleep(0.002)
        elsewhere.replace(path)

    leading = threading.Thread(target=lead_away)
    leading.start()
    measured(disk_folder, specification, 3)
    leading.join()
    assert os.stat(path).st_rdev == os.stat(other.device).st_rdev
    assert other.checksum() == before
    opened = read_metadata(third)["drive"]["opened"]
    assert opened is not None
    number = os.stat(disk.device).st_rdev
    assert opened["number"] == f"{os.major(number)}:{os.minor(number)}"
    assert opened["size_bytes"] == SIZE_MIB * MIB
    assert opened["path"] == str(disk.device if make is link else path)


def test_a_path_that_changes_at_any_time_has_no_effect(disk: Loop, other: Loop, disk_folder: Path) -> None:
    path = link(disk_folder / "drive", disk)
    before = other.checksum()
    lasts_s = 1.0
    for moment in MOMENTS:
        path.unlink()
        link(path, disk)
        elsewhere = link(disk_folder / "elsewhere", other)
        specification = described(disk_folder, disk, path) | {"seed": int(100 * moment)}
        leading = threading.Timer(moment * lasts_s, elsewhere.replace, [path])
        started = time.monotonic()
        leading.start()
        try:
            found = measured(disk_folder, specification, 3)
        except DriveError as error:  # the path was changed before it was opened
            if "refused by the check of identity" not in str(error):
                raise
        else:
            lasts_s = time.monotonic() - started
            assert {read_metadata(raw)["drive"]["serial"] for raw in found} == {disk.serial}
        leading.join()
        assert other.checksum() == before, moment


def test_a_disk_that_shrinks_is_an_error(disk: Loop, disk_folder: Path) -> None:
    specification = described(disk_folder, disk, disk.device, "randread")
    first, _, third = raw_files(disk_folder, specification, 3)

    def shrink() -> None:
        while not first.exists():
            time.sleep(0.002)
        os.truncate(disk.image, 12 * MIB)
        run("losetup", "--set-capacity", disk.device)

    shrinking = threading.Thread(target=shrink, daemon=True)
    shrinking.start()
    with pytest.raises(DriveError, match=r"it had size_bytes 16777216 when it was checked, and now has 12582912"):
        measured(disk_folder, specification, 3)
    shrinking.join()
    assert first.exists()
    assert not third.exists()


def test_two_nodes_of_one_disk_share_its_lock(disk: Loop, disk_folder: Path) -> None:
    running, found = [], []
    for name in ("here", "there"):
        checkout = disk_folder / name
        specification = described(checkout, disk, node(disk_folder / f"node-{name}", disk), "randread")
        specification["runtime_ms"] = 500
        found.append(raw_files(checkout, specification, 2))
        running.append(start(checkout, specification, found[-1]))
    printed = [communicate(process, 60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], printed
    spans = sorted((read_metadata(cell[0])["started"], read_metadata(cell[1])["ended"]) for cell in found)
    assert spans[0][1] <= spans[1][0], spans
    assert sum("is being measured by process" in text for text in printed) == 1


@pytest.mark.parametrize("kind", ["circle", "fifo"])
def test_a_path_to_no_disk_is_refused(kind: str, disk: Loop, disk_folder: Path) -> None:
    path = disk_folder / kind
    if kind == "circle":
        path.symlink_to(path)
    else:
        os.mkfifo(path)  # opening it would block
    reason = "Too many levels of symbolic links" if kind == "circle" else "is no block device"
    with pytest.raises(DriveError, match=reason):
        measured(disk_folder, described(disk_folder, disk, path))
