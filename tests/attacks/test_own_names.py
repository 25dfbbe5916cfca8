"""Names of this package's own beside a drive's file: no file of anybody else's is touched under any of them."""

import os
from pathlib import Path
from typing import Any

import pytest

from iopatterns.measuring.drives import DriveError, open_drive

Spec = Any  # a `records.Specification`, or one that a test has spoilt
THESIS = "three years of work"
# What this package calls its own in its folder, for a drive's file drive.bin
OWN = ["owner", "drive.bin.lock", "drive.bin.mark", "drive.bin.mark.new", "drive.bin.part", "drive.bin.trial"]


def attempt(specification: Spec) -> str:
    """Hold and prepare the drive; return the refusal, or nothing."""
    drive = open_drive(Path("/"), specification)
    try:
        with drive.hold():
            drive.guard()
            drive.prepare()
    except DriveError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["lock", "layout", "made-by-iopatterns", "mark", "part", "new"])
@pytest.mark.parametrize("kind", ["file", "symbolic link", "hard link"])
def test_files_of_such_names_beside_it_stay_as_they_are(
    name: str, kind: str, specification: Spec, disk_folder: Path
) -> None:
    thesis, beside = disk_folder / "thesis", disk_folder / f"drive.bin.{name}"
    thesis.write_text(THESIS)
    if kind == "file":
        beside.write_text(THESIS)
    elif kind == "symbolic link":
        beside.symlink_to(thesis)
    else:
        beside.hardlink_to(thesis)
    assert attempt(specification) == ""
    assert beside.read_text() == thesis.read_text() == THESIS
    assert beside.is_symlink() == (kind == "symbolic link")


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("kind", ["symbolic link", "hard link"])
def test_what_a_link_in_our_folder_leads_to_stays_as_it_is(
    name: str, kind: str, specification: Spec, disk_folder: Path
) -> None:
    assert attempt(specification) == ""
    thesis, own = disk_folder / "thesis", disk_folder / ".iopatterns" / name
    thesis.write_text(THESIS)
    own.unlink(missing_ok=True)
    if kind == "symbolic link":
        own.symlink_to(thesis)
    else:
        own.hardlink_to(thesis)
    specification["drive"]["file_size_bytes"] = 4 * 2**20  # to be laid out anew
    said = attempt(specification)
    assert thesis.read_text() == THESIS
    if name in {"owner", "drive.bin.lock", "drive.bin.mark"}:  # those that are read, not made anew
        assert ".iopatterns" in said or "did not make" in said
    else:
        assert said == ""


@pytest.mark.parametrize("what", ["folder", "file", "symbolic link", "open to others"])
def test_a_name_like_that_of_our_folder_is_refused_and_left_as_it_is(
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
    said = attempt(specification)
    assert f"move {own} away" in said
    assert {path: path.read_bytes() if path.is_file() else None for path in disk_folder.rglob("*")} == before


def test_nothing_is_made_beside_a_file_that_is_refused(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / "drive.bin").write_text(THESIS)
    assert "did not make" in attempt(specification)
    assert {path.name for path in disk_folder.iterdir()} == {"drive.bin"}
    assert (disk_folder / "drive.bin").read_text() == THESIS


def test_nothing_is_made_where_the_path_is_a_folder(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / "drive.bin").mkdir()
    assert "the path is a folder" in attempt(specification)
    assert {path.name for path in disk_folder.iterdir()} == {"drive.bin"}


def test_our_folder_is_for_its_user_alone_whatever_the_umask(specification: Spec, disk_folder: Path) -> None:
    before = os.umask(0)
    try:
        assert attempt(specification) == ""
    finally:
        os.umask(before)
    assert (disk_folder / ".iopatterns").stat().st_mode & 0o7777 == 0o700
    for path in [disk_folder / "drive.bin", *(disk_folder / ".iopatterns").iterdir()]:
        assert path.stat().st_mode & 0o7777 == 0o600, path


def test_a_folder_that_a_killed_run_left_empty_is_used(specification: Spec, disk_folder: Path) -> None:
    (disk_folder / ".iopatterns").mkdir(mode=0o700)
    assert attempt(specification) == ""
