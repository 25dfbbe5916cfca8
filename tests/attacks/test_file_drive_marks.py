"""A drive's file that was replaced or changed is refused and not written."""

import hashlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from loops import run, undone
from measurements import MIB, Spec, measured, raw_files, start, writing
from patience import wait_for
from support import other_writer

from iopatterns.measuring.cell import MeasureError
from iopatterns.measuring.drives import DriveError, open_drive
from iopatterns.raw.metadata_files import read_metadata

THESIS = b"three years of work\n" * 10_000


def checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def refusal(folder: Path, specification: Spec, **drive: object) -> str:
    """Return why a new cell is refused; require that no file was changed."""
    before = {path: checksum(path) for path in folder.glob("*") if path.is_file()}
    specification = {**writing(specification, bs=8192), "drive": {**specification["drive"], **drive}}
    with pytest.raises(DriveError) as caught:
        measured(folder, specification)
    assert {path: checksum(path) for path in folder.glob("*") if path.is_file()} == before
    return str(caught.value)


def in_place(path: Path) -> None:
    with open(path, "r+b") as file:
        file.write(THESIS)


def in_place_and_shorter(path: Path) -> None:
    path.write_bytes(THESIS)


def under_the_same_inode(path: Path) -> None:
    inode = path.stat().st_ino
    others = []
    path.unlink()
    for number in range(200):  # the file system gives the inode to one of the next files
        path.write_bytes(THESIS)
        if path.stat().st_ino == inode:
            break
        others.append(path.rename(path.with_name(f"other{number}")))
    for other in others:
        other.unlink()
    if not path.exists() or path.stat().st_ino != inode:
        pytest.skip("this file system does not give the inode to a new file")


def under_the_same_inode_and_as_long(path: Path) -> None:
    size_bytes = path.stat().st_size
    under_the_same_inode(path)
    with open(path, "ab") as file:
        file.write(os.urandom(size_bytes - file.tell()))


def as_a_file_system(path: Path) -> None:
    run("mkfs.ext4", "-q", "-F", path)


@pytest.mark.parametrize("size_bytes", [8 * MIB, 4 * MIB], ids=["same size", "another size"])
@pytest.mark.parametrize(
    "replace",
    [in_place, in_place_and_shorter, under_the_same_inode, under_the_same_inode_and_as_long, as_a_file_system],
)
def test_a_changed_or_replaced_file_is_refused(
    replace: Callable[[Path], None], size_bytes: int, specification: Spec, disk_folder: Path
) -> None:
    measured(disk_folder, writing(specification))
    replace(disk_folder / "drive.bin")
    message = refusal(disk_folder, specification, file_size_bytes=size_bytes)
    assert "did not make" in message
    assert "delete it only if nothing in it is needed" in message


def test_reading_does_not_change_the_note(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, specification)
    note = (disk_folder / ".iopatterns/drive.bin.mark").read_text()
    measured(disk_folder, {**specification, "seed": 2})
    assert (disk_folder / ".iopatterns/drive.bin.mark").read_text() == note


def start_and_kill(folder: Path, specification: Spec) -> None:
    """Kill a measurement (SIGKILL) after its first repetition."""
    found = raw_files(folder, specification, 9)
    process = start(folder, specification, found)
    wait_for(lambda: found[0].exists() or process.poll() is not None)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    time.sleep(0.2)  # fio dies with it, but not at once


def test_after_a_kill_the_file_is_not_written_until_it_is_deleted(specification: Spec, disk_folder: Path) -> None:
    start_and_kill(disk_folder, writing(specification))
    for _ in range(2):  # the refusal must not make the next run less careful
        message = refusal(disk_folder, specification)
        assert "the last measurement was killed, or its disk failed, while it wrote the file" in message
        assert "Delete the file if nothing in it is needed" in message
    (disk_folder / "drive.bin").unlink()
    measured(disk_folder, writing(specification))


def test_after_a_kill_the_file_may_be_read_but_is_still_not_written(specification: Spec, disk_folder: Path) -> None:
    start_and_kill(disk_folder, writing(specification))
    measured(disk_folder, specification)
    assert "while it wrote the file" in refusal(disk_folder, specification)
    other_size = {**specification["drive"], "file_size_bytes": 4 * MIB}
    with pytest.raises(DriveError, match="while it wrote the file"):
        measured(disk_folder, {**specification, "drive": other_size})


def test_after_a_kill_while_reading_the_same_file_is_used(specification: Spec, disk_folder: Path) -> None:
    start_and_kill(disk_folder, specification)
    inode = (disk_folder / "drive.bin").stat().st_ino
    measured(disk_folder, writing(specification))
    assert (disk_folder / "drive.bin").stat().st_ino == inode


def in_the_middle(path: Path) -> None:
    with open(path, "r+b") as file:
        file.seek(MIB)
        file.write(THESIS)


@pytest.mark.parametrize(
    "replace", [in_the_middle, in_place_and_shorter, under_the_same_inode_and_as_long, as_a_file_system]
)
def test_after_a_kill_a_changed_or_replaced_file_is_refused(
    replace: Callable[[Path], None], specification: Spec, disk_folder: Path
) -> None:
    start_and_kill(disk_folder, writing(specification))
    replace(disk_folder / "drive.bin")
    message = refusal(disk_folder, specification)
    assert "did not make" in message or "while it wrote the file" in message


def test_a_file_with_two_hard_links_is_refused(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, writing(specification))
    os.link(disk_folder / "drive.bin", disk_folder / "another name")
    assert "has 2 names (hard links)" in refusal(disk_folder, specification)


def test_a_file_behind_a_loop_device_is_refused(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, writing(specification))
    try:
        device = run("losetup", "--find", "--show", disk_folder / "drive.bin")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device can be made here: {error.stderr}")
    with undone("losetup", "--detach", device):
        assert f"it is behind the loop device {device}" in refusal(disk_folder, specification)


def test_a_file_that_another_program_writes_is_refused(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, writing(specification))
    with other_writer(disk_folder / "drive.bin") as process:
        message = refusal(disk_folder, specification)
    assert f"process {process} has it open for writing" in message


def test_a_file_that_replaced_ours_after_the_check_is_put_back(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, writing(specification))
    drive = open_drive(disk_folder, specification | {"drive": {**specification["drive"], "file_size_bytes": 4 * MIB}})
    with drive.hold():
        drive.guard()
        thesis = disk_folder / "thesis"
        thesis.write_bytes(THESIS)
        thesis.replace(disk_folder / "drive.bin")
        with pytest.raises(DriveError, match="did not make"):
            drive.prepare()
    assert (disk_folder / "drive.bin").read_bytes() == THESIS


@pytest.mark.parametrize("rw", ["read", "write"])
@pytest.mark.parametrize("skip", [-8192, 4096, 61440, 2 * MIB])
def test_requests_with_skip_never_reach_the_mark(rw: str, skip: int, specification: Spec, disk_folder: Path) -> None:
    specification = {**writing(specification, rw=rw, skip=skip, bs=65536), "runtime_ms": 300}
    for raw in measured(disk_folder, specification, 2):
        opened = read_metadata(raw)["drive"]["opened"]
        assert opened is not None
        assert opened["inode"] == (disk_folder / "drive.bin").stat().st_ino


def test_a_repetition_during_which_the_file_changes_is_discarded(specification: Spec, disk_folder: Path) -> None:
    measured(disk_folder, writing(specification))
    path = disk_folder / "drive.bin"
    specification = writing(specification, bs=8192)
    found = raw_files(disk_folder, specification, 3)
    script = 'while [ ! -e "$0" ]; do sleep 0.01; done; truncate --size=+1 "$1"'
    with subprocess.Popen(["sh", "-c", script, found[0], path]), pytest.raises((DriveError, MeasureError)) as caught:
        measured(disk_folder, specification, 3)
    assert "the file was changed while it was measured" in str(caught.value)
    assert found[0].exists()
    assert not found[2].exists()


def test_a_path_of_symbolic_links_in_a_circle_is_refused(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / "drive.bin").symlink_to("drive.bin")
    specification = writing(specification)
    with pytest.raises(DriveError, match="symbolic links lead in a circle"):
        measured(disk_folder, specification)
    assert not (disk_folder / ".iopatterns").exists()
