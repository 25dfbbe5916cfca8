"""The drive kind `file` on real file systems: what it makes, what it refuses, and that it touches nothing else."""

import os
import stat
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from iopatterns.measuring.drives import DriveError, open_drive

Spec = Any  # a `records.Specification`, or one that a test has spoilt
# Room for requests that `skip` makes behind the part that is measured, and the block with the mark
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


def test_file_is_laid_out_whole_with_incompressible_data(specification: Spec) -> None:
    path = prepare(specification)
    state = path.stat()
    assert state.st_size == specification["drive"]["file_size_bytes"] + BEHIND_BYTES
    assert state.st_blocks * 512 >= state.st_size
    data = path.read_bytes()
    assert len(zlib.compress(data)) > 0.95 * len(data)


def test_file_is_kept_when_it_is_there(specification: Spec) -> None:
    before = prepare(specification).stat()
    after = prepare(specification).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_file_of_another_size_is_laid_out_anew(specification: Spec) -> None:
    prepare(specification)
    assert prepare(specification, file_size_bytes=4 * 2**20).stat().st_size == 4 * 2**20 + BEHIND_BYTES


def test_file_that_became_sparse_is_refused(specification: Spec) -> None:
    path = prepare(specification)
    size = path.stat().st_size
    os.truncate(path, 0)
    os.truncate(path, size)
    assert "does not bear this package's mark" in refusal(specification)


def test_only_the_file_its_mark_and_its_lock_are_made(specification: Spec, disk_folder: Path) -> None:
    prepare(specification)
    assert {path.name for path in disk_folder.iterdir()} == {"drive.bin", ".iopatterns"}
    own = {path.name for path in (disk_folder / ".iopatterns").iterdir()}
    assert own == {"owner", "drive.bin.lock", "drive.bin.mark"}


def refusal(specification: Spec, **changes: object) -> str:
    with pytest.raises(DriveError) as caught:
        prepare(specification, **changes)
    assert str(caught.value).startswith("drive 'test' (")
    return str(caught.value)


def test_somebody_elses_file_is_refused_and_left_alone(specification: Spec, disk_folder: Path) -> None:
    thesis = disk_folder / "drive.bin"
    thesis.write_text("three years of work")
    assert "this package did not make" in refusal(specification)
    assert thesis.read_text() == "three years of work"


def test_somebody_elses_file_behind_a_symbolic_link_is_refused(specification: Spec, disk_folder: Path) -> None:
    thesis = disk_folder / "thesis"
    thesis.write_text("three years of work")
    (disk_folder / "drive.bin").symlink_to(thesis)
    assert "this package did not make" in refusal(specification)
    assert thesis.read_text() == "three years of work"


def test_file_put_in_the_place_of_ours_is_refused(specification: Spec, disk_folder: Path) -> None:
    path = prepare(specification)
    other = disk_folder / "other"
    other.write_bytes(b"x" * path.stat().st_size)
    other.replace(path)
    assert "this package did not make" in refusal(specification)


def test_missing_folder_is_refused_not_made(specification: Spec, disk_folder: Path) -> None:
    path = disk_folder / "not-mounted/drive.bin"
    of: Spec = {"drive": {**specification["drive"], "path": str(path)}}
    made = open_drive(disk_folder / "project", of)
    with pytest.raises(DriveError, match=r"Is the disk mounted\?"), made.hold():
        pass
    assert not path.parent.exists()


def test_missing_folder_of_the_project_is_made(specification: Spec, disk_folder: Path) -> None:
    of: Spec = {"drive": {**specification["drive"], "path": "data/scratch/drive.bin"}}
    made = open_drive(disk_folder, of)
    with made.hold():
        made.guard()
    assert (disk_folder / "data/scratch").is_dir()


def test_folder_is_refused(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / "drive.bin").mkdir()
    assert "the path is a folder" in refusal(specification)


def test_memory_is_refused(specification: Spec) -> None:
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("no writable /dev/shm here")
    assert "tmpfs, which is no disk" in refusal(specification, path="/dev/shm/iopatterns-test.bin")
    assert not list(Path("/dev/shm").glob("iopatterns-test*"))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a device node")
def test_device_is_refused(specification: Spec, disk_folder: Path) -> None:
    os.mknod(disk_folder / "drive.bin", stat.S_IFBLK | 0o600, os.makedev(7, 250))
    assert "the path is a block device" in refusal(specification)


def test_lack_of_space_is_seen_before_anything_is_written(specification: Spec, disk_folder: Path) -> None:
    message = refusal(specification, file_size_bytes=2**60)
    assert "are free" in message
    assert "file_size in config/config.yaml" in message
    assert not (disk_folder / "drive.bin").exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_folder_without_permission_is_refused(specification: Spec, disk_folder: Path) -> None:
    disk_folder.chmod(0o500)
    try:
        assert "is not writable for this user" in refusal(specification)
    finally:
        disk_folder.chmod(0o700)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may open everything")
def test_lock_that_cannot_be_opened_is_named(specification: Spec, disk_folder: Path) -> None:
    prepare(specification)
    (disk_folder / ".iopatterns/drive.bin.lock").chmod(0o000)
    assert "Permission denied" in refusal(specification)


# Runs in a mount name space of its own: an overlay on ramfs is a file system that refuses O_DIRECT.
_ON_RAMFS = """
import sys
from pathlib import Path
from iopatterns.measuring.drives import open_drive
drive = open_drive(Path("/"), {"drive": {"kind": "file", "name": "test", "path": sys.argv[1] + "/merged/drive.bin",
                                         "file_size_bytes": 2**20}})
with drive.hold():
    drive.guard()
"""


def test_file_system_without_direct_io_is_refused(disk_folder: Path) -> None:
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
    if identity["device"] is not None:  # an overlay or network file system has none
        assert identity["size_bytes"] > 0
        assert identity["logical_block_bytes"] >= 512
