"""Tests that foreign files with names like ours are not touched."""

import os
from pathlib import Path
from typing import Any

import pytest

from iopatterns.measuring.drives import DriveError, open_drive

Spec = Any  # a `records.Specification`, possibly modified by a test
THESIS = "three years of work"
# the files of this package in its own folder, for the drive drive.bin
OWN = ["owner", "drive.bin.lock", "drive.bin.mark", "drive.bin.mark.new", "drive.bin.part", "drive.bin.trial"]


def attempt(specification: Spec) -> str:
    """Lock and prepare the drive; return the error message, or an empty text."""
    drive = open_drive(Path("/"), specification)
    try:
        with drive.hold():
            drive.guard()
            drive.prepare()
    except DriveError as error:
        return str(error)
    return ""


def make_link_or_file(path: Path, kind: str, thesis: Path) -> None:
    thesis.write_text(THESIS)
    if kind == "file":
        path.write_text(THESIS)
    elif kind == "symbolic link":
        path.symlink_to(thesis)
    else:
        path.hardlink_to(thesis)


@pytest.mark.parametrize("name", ["lock", "layout", "made-by-iopatterns", "mark", "part", "new"])
@pytest.mark.parametrize("kind", ["file", "symbolic link", "hard link"])
def test_foreign_files_beside_a_drive_are_not_changed(
    name: str, kind: str, specification: Spec, disk_folder: Path
) -> None:
    thesis, beside = disk_folder / "thesis", disk_folder / f"drive.bin.{name}"
    make_link_or_file(beside, kind, thesis)
    assert attempt(specification) == ""
    assert beside.read_text() == thesis.read_text() == THESIS
    assert beside.is_symlink() == (kind == "symbolic link")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("kind", ["symbolic link", "hard link"])
def test_the_target_of_a_link_in_our_folder_is_not_changed(
    name: str, kind: str, specification: Spec, disk_folder: Path
) -> None:
    assert attempt(specification) == ""
    thesis, own = disk_folder / "thesis", disk_folder / ".iopatterns" / name
    own.unlink(missing_ok=True)
    make_link_or_file(own, kind, thesis)
    specification["drive"]["file_size_bytes"] = 4 * 2**20  # so that the file is written again
    message = attempt(specification)
    assert thesis.read_text() == THESIS
    if name in {"owner", "drive.bin.lock", "drive.bin.mark"}:  # files that are read, not replaced
        assert ".iopatterns" in message or "did not make" in message
    else:
        assert message == ""


@pytest.mark.parametrize("what", ["folder", "file", "symbolic link", "open to others"])
def test_a_foreign_file_or_folder_with_the_name_of_our_folder_is_refused(
    what: str, specification: Spec, disk_folder: Path
) -> None:
    own, thesis = disk_folder / ".iopatterns", disk_folder / "thesis/drive.bin.lock"
    thesis.parent.mkdir(mode=0o700)
    thesis.write_text(THESIS)
    if what == "file":
        own.write_text(THESIS)
    elif what == "symbolic link":
        own.symlink_to(thesis.parent)
    elif what == "folder":
        thesis.parent.rename(own)
    else:
        own.mkdir()
        own.chmod(0o777)
    before = {path: path.read_bytes() if path.is_file() else None for path in disk_folder.rglob("*")}
    assert f"move {own} away" in attempt(specification)
    assert {path: path.read_bytes() if path.is_file() else None for path in disk_folder.rglob("*")} == before


@pytest.mark.parametrize(("kind", "message"), [("file", "did not make"), ("folder", "the path is a folder")])
def test_nothing_is_created_beside_a_refused_file(
    kind: str, message: str, specification: Spec, disk_folder: Path
) -> None:
    drive = disk_folder / "drive.bin"
    if kind == "file":
        drive.write_text(THESIS)
    else:
        drive.mkdir()
    assert message in attempt(specification)
    assert list(disk_folder.iterdir()) == [drive]
    assert kind == "folder" or drive.read_text() == THESIS


def test_only_its_user_may_open_our_folder_whatever_the_umask(specification: Spec, disk_folder: Path) -> None:
    before = os.umask(0)
    try:
        assert attempt(specification) == ""
    finally:
        os.umask(before)
    assert (disk_folder / ".iopatterns").stat().st_mode & 0o7777 == 0o700
    for path in [disk_folder / "drive.bin", *(disk_folder / ".iopatterns").iterdir()]:
        assert path.stat().st_mode & 0o7777 == 0o600, path


def test_an_empty_folder_of_a_killed_run_is_used(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / ".iopatterns").mkdir(mode=0o700)
    assert attempt(specification) == ""


@pytest.mark.parametrize("written", [b"", b"This folder and all"])
def test_a_folder_whose_mark_is_unfinished_is_used(written: bytes, specification: Spec, disk_folder: Path) -> None:
    (disk_folder / ".iopatterns").mkdir(mode=0o700)
    (disk_folder / ".iopatterns/owner").write_bytes(written)
    assert attempt(specification) == ""


def test_a_folder_with_other_files_and_an_unfinished_mark_is_not_used(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / ".iopatterns").mkdir(mode=0o700)
    (disk_folder / ".iopatterns/owner").touch()
    (disk_folder / ".iopatterns/thesis").write_text(THESIS)
    assert "did not create it" in attempt(specification)
    assert (disk_folder / ".iopatterns/thesis").read_text() == THESIS
