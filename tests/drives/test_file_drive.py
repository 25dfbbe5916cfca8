"""Drive kind `file` on real file systems: what it creates and what it refuses."""

import contextlib
import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from measurements import Spec

from iopatterns.measuring.drives import DriveError, open_drive

# Space for requests with `skip` behind the measured part, and the block with the mark
BEHIND_BYTES = 2**20 + 4096


def drive(specification: Spec, **changes: object) -> Any:
    of: Spec = {"drive": {**specification["drive"], **changes}}
    return open_drive(Path.cwd(), of)


def prepare(specification: Spec, **changes: object) -> Path:
    made = drive(specification, **changes)
    with made.hold():
        made.guard()
        made.prepare()
    return Path(specification["drive"]["path"])


def test_the_file_is_complete_and_incompressible(specification: Spec) -> None:
    path = prepare(specification)
    state = path.stat()
    assert state.st_size == specification["drive"]["file_size_bytes"] + BEHIND_BYTES
    assert state.st_blocks * 512 >= state.st_size
    data = path.read_bytes()
    assert len(zlib.compress(data)) > 0.95 * len(data)


def test_an_existing_file_is_kept(specification: Spec) -> None:
    before = prepare(specification).stat()
    after = prepare(specification).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_a_file_of_another_size_is_replaced(specification: Spec) -> None:
    prepare(specification)
    assert prepare(specification, file_size_bytes=4 * 2**20).stat().st_size == 4 * 2**20 + BEHIND_BYTES


def test_a_sparse_file_is_refused(specification: Spec) -> None:
    path = prepare(specification)
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)
    assert "does not have this package's mark" in refusal(specification)


def test_only_the_file_and_our_folder_are_created(specification: Spec, disk_folder: Path) -> None:
    prepare(specification)
    assert {path.name for path in disk_folder.iterdir()} == {"drive.bin", ".iopatterns"}
    own = {path.name for path in (disk_folder / ".iopatterns").iterdir()}
    assert own == {"owner", "drive.bin.lock", "drive.bin.mark"}


def refusal(specification: Spec, **changes: object) -> str:
    with pytest.raises(DriveError) as caught:
        prepare(specification, **changes)
    assert str(caught.value).startswith("drive 'test' (")
    return str(caught.value)


@pytest.mark.parametrize("by_link", [False, True])
def test_somebody_elses_file_is_refused_and_not_changed(by_link: bool, specification: Spec, disk_folder: Path) -> None:
    thesis = disk_folder / ("thesis" if by_link else "drive.bin")
    thesis.write_text("three years of work")
    if by_link:
        (disk_folder / "drive.bin").symlink_to(thesis)
    assert "this package did not make" in refusal(specification)
    assert thesis.read_text() == "three years of work"


@pytest.mark.parametrize(("path", "is_created"), [("../not-mounted/drive.bin", False), ("data/new/drive.bin", True)])
def test_a_missing_folder_is_created_only_in_the_project(
    path: str, is_created: bool, specification: Spec, disk_folder: Path
) -> None:
    project = disk_folder / "project"
    of: Spec = {"drive": {**specification["drive"], "path": path}}
    made = open_drive(project, of)
    refused = contextlib.nullcontext() if is_created else pytest.raises(DriveError, match=r"Is the disk mounted\?")
    with refused, made.hold():
        made.guard()
    assert (project / path).parent.is_dir() == is_created


def test_a_folder_is_refused(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / "drive.bin").mkdir()
    assert "the path is a folder" in refusal(specification)


def test_a_file_system_in_memory_is_refused(specification: Spec) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no writable /dev/shm here")
    assert "tmpfs, which is no disk" in refusal(specification, path="/dev/shm/iopatterns-test.bin")
    assert not list(Path("/dev/shm").glob("iopatterns-test*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a device node")
def test_a_device_is_refused(specification: Spec, disk_folder: Path) -> None:
    os.mknod(disk_folder / "drive.bin", stat.S_IFBLK | 0o600, os.makedev(7, 250))
    assert "the path is a block device" in refusal(specification)


def test_lack_of_space_is_an_error_before_writing(specification: Spec, disk_folder: Path) -> None:
    message = refusal(specification, file_size_bytes=2**60)
    assert "are free" in message
    assert "file_size in config/config.yaml" in message
    assert not (disk_folder / "drive.bin").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission_is_refused(specification: Spec, disk_folder: Path) -> None:
    disk_folder.chmod(0o500)
    try:
        assert "is not writable for this user" in refusal(specification)
    finally:
        disk_folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_a_lock_that_cannot_be_opened_is_an_error(specification: Spec, disk_folder: Path) -> None:
    prepare(specification)
    (disk_folder / ".iopatterns/drive.bin.lock").chmod(0o000)
    assert "Permission denied" in refusal(specification)


# For a mount namespace of its own: an overlay on ramfs does not support O_DIRECT.
_ON_RAMFS = """
import sys
from pathlib import Path
from iopatterns.measuring.drives import open_drive
drive = open_drive(Path("/"), {"drive": {"kind": "file", "name": "test", "path": sys.argv[1] + "/merged/drive.bin",
                                         "file_size_bytes": 2**20}})
with drive.hold():
    drive.guard()
"""


def test_a_file_system_without_direct_io_is_refused(disk_folder: Path) -> None:
    base = disk_folder / "ram"
    base.mkdir()
    mounts = (
        "mount -t ramfs none $0 && mkdir $0/upper $0/work $0/lower $0/merged &&"
        " mount -t overlay overlay -o lowerdir=$0/lower,upperdir=$0/upper,workdir=$0/work $0/merged || exit 77;"
        ' exec "$1" -c "$2" $0'
    )
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    ran = subprocess.run(
        [*unshare, "sh", "-c", mounts, str(base), sys.executable, _ON_RAMFS],
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode == 77 or "unshare" in ran.stderr:
        pytest.skip(f"no such file system can be mounted here: {ran.stderr.strip()}")
    assert "offers no direct I/O (O_DIRECT)" in ran.stderr


def test_identity_names_the_disk_under_the_file(specification: Spec) -> None:
    prepare(specification)
    identity = drive(specification).identify()
    assert identity["kind"] == "file"
    assert identity["file_system"]
    if identity["device"] is not None:  # None on overlay and network file systems
        assert identity["size_bytes"] > 0
        assert identity["logical_block_bytes"] >= 512
