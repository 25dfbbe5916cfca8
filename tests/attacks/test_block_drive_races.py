"""A disk whose name leads elsewhere while it is measured: what was checked is what is written, and told of."""

import json
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from loops import Loop, loop_device, run
from support import disk_cell

from iopatterns.measuring.cell import measure_cell
from iopatterns.measuring.drives import DriveError
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata

MIB = 2**20
SIZE_MIB = 16
# Moments of a cell's measurement at which its drive's name is led elsewhere, in shares of how long it takes
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


def described(folder: Path, disk: Loop, path: Path, rw: str = "randwrite", **fio: Any) -> Any:
    """Write the entry of the disk under a path of its own, with consent; return a cell on it."""
    entry = {"kind": "block", "path": str(path), "serial": disk.serial, "destroy": disk.serial}
    (folder / "config").mkdir(exist_ok=True, parents=True)
    (folder / "config/drives.yaml").write_text(yaml.safe_dump({"disk": entry}))
    cell = disk_cell(entry, "disk", rw)
    return {**cell, "fio": {**cell["fio"], **fio}}


def raws(folder: Path, specification: Any, count: int = 3) -> list[Path]:
    cell = folder / f"data/raw/disk/study/x-{cells.specification_digest(specification)[:8]}"
    return [cell / f"{execution:02d}.json" for execution in range(1, count + 1)]


def node(path: Path, disk: Loop) -> Path:
    """Make a block device node of a disk at a path."""
    os.mknod(path, 0o600 | stat.S_IFBLK, os.stat(disk.device).st_rdev)
    return path


def link(path: Path, disk: Loop) -> Path:
    path.symlink_to(disk.device)
    return path


@pytest.mark.parametrize("make", [link, node])
def test_a_name_that_is_led_to_another_disk_between_two_executions(
    make: Callable[[Path, Loop], Path], disk: Loop, other: Loop, disk_folder: Path
) -> None:
    path, elsewhere = make(disk_folder / "drive", disk), make(disk_folder / "elsewhere", other)
    specification = described(disk_folder, disk, path)
    first, second, third = raws(disk_folder, specification)
    before = other.checksum()

    def lead_away() -> None:
        end = time.monotonic() + 30
        while not first.exists() and time.monotonic() < end:
            time.sleep(0.002)
        elsewhere.replace(path)

    leading = threading.Thread(target=lead_away)
    leading.start()
    assert measure_cell(disk_folder, specification, [first, second, third]) == 3
    leading.join()
    assert os.stat(path).st_rdev == os.stat(other.device).st_rdev
    assert other.checksum() == before
    opened = read_metadata(third)["drive"]["opened"]
    assert opened is not None
    number = os.stat(disk.device).st_rdev
    assert opened["number"] == f"{os.major(number)}:{os.minor(number)}"
    assert opened["size_bytes"] == SIZE_MIB * MIB
    assert opened["path"] == str(disk.device if make is link else path)


def test_a_name_that_is_led_to_another_disk_at_any_moment(disk: Loop, other: Loop, disk_folder: Path) -> None:
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
        found = raws(disk_folder, specification)
        try:
            measure_cell(disk_folder, specification, found)
        except DriveError as error:  # it was led away before it was opened
            if "refused by the check of identity" not in str(error):
                raise
        else:
            lasts_s = time.monotonic() - started
            assert {read_metadata(raw)["drive"]["serial"] for raw in found} == {disk.serial}
        leading.join()
        assert other.checksum() == before, moment


def test_a_disk_that_shrinks_while_it_is_measured_is_not_taken_for_the_one_that_was_checked(
    disk: Loop, disk_folder: Path
) -> None:
    specification = described(disk_folder, disk, disk.device, "randread")
    first, second, third = raws(disk_folder, specification)

    def shrink() -> None:
        while not first.exists():
            time.sleep(0.002)
        os.truncate(disk.image, 12 * MIB)
        run("losetup", "--set-capacity", disk.device)

    shrinking = threading.Thread(target=shrink, daemon=True)
    shrinking.start()
    with pytest.raises(DriveError, match=r"it had size_bytes 16777216 when it was checked, and now has 12582912"):
        measure_cell(disk_folder, specification, [first, second, third])
    shrinking.join()
    assert first.exists()
    assert not third.exists()


def test_two_reading_cells_through_two_nodes_of_one_disk_run_one_after_the_other(disk: Loop, disk_folder: Path) -> None:
    running, found = [], []
    for name in ("here", "there"):
        checkout = disk_folder / name
        specification = described(checkout, disk, node(disk_folder / f"node-{name}", disk), "randread")
        specification["runtime_ms"] = 500
        found.append(raws(checkout, specification, 2))
        running.append(start(checkout, specification, found[-1]))
    said = [process.communicate(timeout=60)[1] for process in running]
    assert [process.returncode for process in running] == [0, 0], said
    spans = sorted((read_metadata(cell[0])["started"], read_metadata(cell[1])["ended"]) for cell in found)
    assert spans[0][1] <= spans[1][0], spans
    assert sum("is being measured by process" in text for text in said) == 1


def start(checkout: Path, specification: dict[str, Any], found: list[Path]) -> "subprocess.Popen[str]":
    words = ["measure", "--specification", json.dumps(specification), *map(str, found)]
    command = [sys.executable, "-m", "iopatterns", *words]
    return subprocess.Popen(command, cwd=checkout, stderr=subprocess.PIPE, text=True)


def test_a_path_of_symbolic_links_in_a_circle_is_refused(disk: Loop, disk_folder: Path) -> None:
    circle = disk_folder / "circle"
    circle.symlink_to(circle)
    specification = described(disk_folder, disk, circle)
    with pytest.raises(DriveError, match="Too many levels of symbolic links"):
        measure_cell(disk_folder, specification, raws(disk_folder, specification))


def test_a_fifo_is_no_disk_and_does_not_keep_anybody_waiting(disk: Loop, disk_folder: Path) -> None:
    os.mkfifo(disk_folder / "fifo")
    specification = described(disk_folder, disk, disk_folder / "fifo")
    with pytest.raises(DriveError, match="is no block device"):
        measure_cell(disk_folder, specification, raws(disk_folder, specification))
