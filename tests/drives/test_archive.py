"""Archives: packing and unpacking preserve every byte, and damage is an error."""

import hashlib
import io
import json
import lzma
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measurements import measured as measured_files
from support import Project, file_cell

from iopatterns.base.errors import OutputError
from iopatterns.measuring.cell import MeasureError, measure_cell
from iopatterns.raw import archive, cells
from iopatterns.raw.archive import ArchiveError
from iopatterns.raw.metadata_files import MetadataError


def files_of(raw: Path) -> dict[str, bytes]:
    """Return the content of all files below the raw folder of a drive, by path."""
    return {str(path.relative_to(raw)): path.read_bytes() for path in sorted(raw.glob("*/*/*"))}


@pytest.fixture(scope="module")
def measured(module_disk_folder: Path) -> Path:
    """Return the raw folder of a drive with one measured cell and another.

    The setting of the other cell has no effect, so that it was not measured.
    """
    plain = file_cell(module_disk_folder)
    raws = measured_files(module_disk_folder, plain, 2)
    measured_files(module_disk_folder, plain | {"settings": {"DRA": 1}})
    return raws[0].parents[2]


@pytest.fixture
def raw(measured: Path, disk_folder: Path) -> Path:
    """Return a copy of the raw folder."""
    return Path(shutil.copytree(measured, disk_folder / "data/raw/test"))


def pack(raw: Path, output: Path) -> archive.ArchiveContents:
    asked = {f"test/{cell.relative_to(raw)}": ["one", "two"] for cell in sorted(raw.glob("*/*"))}
    return archive.pack_archive(raw, asked, output)


@pytest.fixture
def packed(raw: Path, disk_folder: Path) -> Path:
    """Return an archive of the drive."""
    pack(raw, disk_folder / "test.tar.xz")
    return disk_folder / "test.tar.xz"


def test_unpacking_restores_every_byte(raw: Path, packed: Path, disk_folder: Path) -> None:
    there = disk_folder / "there"
    assert archive.unpack_archive(packed, there) == 3
    assert files_of(there) == files_of(raw)
    assert len(files_of(there)) == 6
    assert archive.read_origin(there) == {
        "archive": "test.tar.xz",
        "sha256": hashlib.sha256(packed.read_bytes()).hexdigest(),
        "drive": "test",
    }
    assert archive.read_origin(raw) is None


def test_the_same_raw_files_give_the_same_archive(raw: Path, packed: Path, disk_folder: Path) -> None:
    for path in raw.rglob("*"):
        os.utime(path, (1e9, 1e9))
    copy = disk_folder / "copy/data/raw/test"
    shutil.copytree(raw, copy)
    for number, path in enumerate(copy.glob("*/*/*")):
        path.chmod(0o600 if number % 2 else 0o644)
    pack(raw, disk_folder / "again.tar.xz")
    pack(copy, disk_folder / "copy.tar.xz")
    assert (disk_folder / "again.tar.xz").read_bytes() == packed.read_bytes()
    assert (disk_folder / "copy.tar.xz").read_bytes() == packed.read_bytes()


def test_an_archive_is_a_tar_file_that_begins_with_its_manifest(raw: Path, packed: Path) -> None:
    with tarfile.open(packed) as tar:
        members = tar.getmembers()
        manifest = json.load(tar.extractfile("manifest.json"))  # type: ignore[arg-type]
    names = [member.name for member in members]
    assert names == ["manifest.json", *sorted(files_of(raw))]
    assert {(member.mtime, member.uid, member.gid, member.uname, member.mode) for member in members} == {
        (0, 0, 0, "", 0o644)
    }
    assert (manifest["version"], manifest["drive"]) == (archive.ARCHIVE_VERSION, "test")
    for cell in manifest["cells"]:
        assert cell["experiments"] == ["one", "two"]
        assert cell["name"].endswith(cells.specification_digest(cell["specification"])[:8])
    listed = [(f"{each['study']}/{each['name']}", each["sha256"]) for each in manifest["cells"]]
    sums = {f"{cell}/{file}": sum_ for cell, of_cell in listed for file, sum_ in of_cell.items()}
    assert sums == {name: hashlib.sha256(content).hexdigest() for name, content in files_of(raw).items()}


def test_cells_have_the_order_of_the_experiments(raw: Path, disk_folder: Path) -> None:
    folders = [f"test/{cell.relative_to(raw)}" for cell in sorted(raw.glob("*/*"))]
    made = archive.pack_archive(raw, {folders[1]: ["one"], folders[0]: ["two"]}, disk_folder / "a.tar.xz")
    assert [f"test/{cell.study}/{cell.name}" for cell in made.cells] == [folders[1], folders[0]]
    assert archive.read_archive(disk_folder / "a.tar.xz") == made


def test_a_cell_of_no_experiment_is_packed(raw: Path, disk_folder: Path) -> None:
    first, second = sorted(raw.glob("*/*"))
    made = archive.pack_archive(raw, {f"test/{second.relative_to(raw)}": ["one"]}, disk_folder / "a.tar.xz")
    assert [(cell.name, cell.experiments) for cell in made.cells] == [(second.name, ("one",)), (first.name, ())]


# ---- Refused packing


def refused(act: Callable[[], object]) -> str:
    with pytest.raises(ArchiveError) as caught:
        act()
    return str(caught.value)


def test_a_drive_without_raw_files_is_an_error_with_the_measured_drives(raw: Path, disk_folder: Path) -> None:
    message = refused(lambda: archive.pack_archive(raw.parent / "other", {}, disk_folder / "a.tar.xz"))
    assert "drive 'other': there are no raw files below" in message
    assert "that has been measured: test." in message
    assert not (disk_folder / "a.tar.xz").exists()


def test_raw_files_of_no_experiment_are_an_error(raw: Path, disk_folder: Path) -> None:
    message = refused(
        lambda: archive.pack_archive(raw, {"test/study/another-12345678": ["one"]}, disk_folder / "a.tar.xz")
    )
    assert "none of the 2 cells" in message
    assert "Set runtime, warmup" in message


def test_a_changed_raw_file_is_not_packed(raw: Path, disk_folder: Path) -> None:
    changed = sorted(raw.glob("*/*/02.json"))[0]
    changed.write_bytes(changed.read_bytes() + b" ")
    with pytest.raises(MetadataError, match=r"02\.json: changed since it was measured"):
        pack(raw, disk_folder / "a.tar.xz")
    assert not list(disk_folder.glob("*a.tar.xz*"))


def test_a_missing_repetition_is_an_error(raw: Path, disk_folder: Path) -> None:
    first = next(path for path in raw.glob("*/*/01.json") if path.with_name("02.json").exists())
    first.unlink()
    assert "01.json is missing, but 02.json exists" in refused(lambda: pack(raw, disk_folder / "a.tar.xz"))


def test_a_renamed_cell_is_an_error(raw: Path, disk_folder: Path) -> None:
    cell = sorted(raw.glob("*/*"))[0]
    cell.rename(cell.with_name("read-4k-j1-00000000"))
    with pytest.raises(MetadataError, match=r"read-4k-j1-00000000/01\.sidecar\.json: belongs to another cell"):
        pack(raw, disk_folder / "a.tar.xz")


@pytest.mark.parametrize("there", ["notes", "another drive"])
def test_another_file_is_not_replaced(there: str, raw: Path, packed: Path, disk_folder: Path) -> None:
    output = disk_folder / "notes.txt"
    if there == "notes":
        output.write_text("notes")
    else:
        other = raw.with_name("other")
        shutil.copytree(raw, other)
        archive.pack_archive(other, {f"other/{cell.relative_to(other)}": ["one"] for cell in other.glob("*/*")}, output)
    before = output.read_bytes()
    with pytest.raises(OutputError, match=r"the file exists\. Give another name, or add --overwrite"):
        pack(raw, output)
    assert output.read_bytes() == before


def test_an_archive_of_the_same_drive_is_replaced(raw: Path, packed: Path) -> None:
    before = packed.read_bytes()
    shutil.rmtree(sorted(raw.glob("*/*"))[0])
    pack(raw, packed)
    assert packed.read_bytes() != before


# ---- Refused unpacking


def unpack_error(path: Path, folder: Path) -> str:
    """Return the error of unpacking an archive; require that nothing was unpacked."""
    message = refused(lambda: archive.unpack_archive(path, folder))
    assert message.startswith(f"{path}: ")
    assert not folder.exists()
    return message


def rewritten(packed: Path, change: Callable[[str, bytes], tuple[str, bytes]]) -> Path:
    """Write a copy of an archive with some members changed."""
    output = packed.with_name("rewritten.tar.xz")
    with tarfile.open(packed) as old, tarfile.open(output, "w:xz", format=tarfile.USTAR_FORMAT) as new:
        for member in old:
            name, content = change(member.name, old.extractfile(member).read())  # type: ignore[union-attr]
            header = tarfile.TarInfo(name)
            header.size = len(content)
            new.addfile(header, io.BytesIO(content))
    return output


def with_manifest(packed: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    def changed(name: str, content: bytes) -> tuple[str, bytes]:
        if name != "manifest.json":
            return name, content
        manifest = json.loads(content)
        change(manifest)
        return name, json.dumps(manifest).encode()

    return rewritten(packed, changed)


def test_changed_bytes_are_an_error(packed: Path, disk_folder: Path) -> None:
    good = packed.read_bytes()
    bad = disk_folder / "bad.tar.xz"
    # the complete header and footer of the container, which the manifest does not cover, and samples between
    places = {*range(64), *range(0, len(good), 7), *range(len(good) - 64, len(good))}
    for place in sorted(places):
        bad.write_bytes(good[:place] + bytes([good[place] ^ 0x10]) + good[place + 1 :])
        message = unpack_error(bad, disk_folder / "there")
        assert re.search(
            r"its member \S+ is not|manifest\.json, is damaged|after its last member|cut short", message
        ), place


def test_the_error_for_a_changed_byte_names_the_member(raw: Path, packed: Path, disk_folder: Path) -> None:
    good = packed.read_bytes()
    bad = disk_folder / "bad.tar.xz"
    named = []
    for place in range(0, len(good), len(good) // 40):
        bad.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        message = unpack_error(bad, disk_folder / "there")
        assert "Copy the archive again" in message
        named += re.findall(r"its member (\S+) is not what was packed", message)
    # both members and changed bytes are in order; small members may be between two changed bytes
    assert named == sorted(named)
    large = {str(path.relative_to(raw)) for path in raw.glob("*/*/0?.json") if path.stat().st_size > 1000}
    assert len(large) == 2
    assert large <= set(named)


@pytest.mark.parametrize("is_missing", [False, True])
def test_a_changed_or_missing_member_is_an_error(is_missing: bool, raw: Path, packed: Path, disk_folder: Path) -> None:
    name = sorted(files_of(raw))[2]
    changed = ("else", b"") if is_missing else (name, b"x")
    bad = rewritten(packed, lambda each, content: changed if each == name else (each, content))
    assert f"its member {name} is not what was packed" in unpack_error(bad, disk_folder / "there")


def test_truncated_archives_are_an_error(packed: Path, disk_folder: Path) -> None:
    good = packed.read_bytes()
    bad = disk_folder / "bad.tar.xz"
    for length in {0, 1, 6, 12, *range(0, len(good), 61), *range(len(good) - 40, len(good))}:
        bad.write_bytes(good[:length])
        message = unpack_error(bad, disk_folder / "there")
        assert "cut short, " in message or "manifest.json, is damaged" in message, length


def test_data_after_the_archive_are_an_error(packed: Path, disk_folder: Path) -> None:
    bad = disk_folder / "bad.tar.xz"
    for more in (b"x", b"\0\0\0\0", packed.read_bytes()):
        bad.write_bytes(packed.read_bytes() + more)
        assert "damaged after its last member" in unpack_error(bad, disk_folder / "there")


@pytest.mark.parametrize(
    "content",
    [b"", b"notes\n", b"\0" * 2000, lzma.compress(b"notes"), lzma.compress(b"\0" * 10240), lzma.compress(b"x" * 10240)],
    ids=["empty", "text", "zeros", "xz of text", "xz of an empty tar", "xz of no tar"],
)
def test_a_file_that_is_no_archive_is_an_error(content: bytes, disk_folder: Path) -> None:
    (disk_folder / "a.tar.xz").write_bytes(content)
    assert "not an archive of iopatterns" in unpack_error(disk_folder / "a.tar.xz", disk_folder / "there")


@pytest.mark.parametrize("manifest", [b"[]", b"7", b"{}", b'{"format": "x"}', b"\xff", b"[" * 10**5], ids=str)
def test_another_tar_file_is_an_error(manifest: bytes, packed: Path, disk_folder: Path) -> None:
    other = rewritten(packed, lambda name, content: (name, manifest if name == "manifest.json" else content))
    assert "not an archive of iopatterns" in unpack_error(other, disk_folder / "there")


def test_the_error_for_another_version_names_both_versions(packed: Path, disk_folder: Path) -> None:
    newer = with_manifest(packed, lambda manifest: manifest.update(version=99))
    message = unpack_error(newer, disk_folder / "there")
    assert "an archive of format version 99; this iopatterns reads version 2." in message


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("cells"),
        lambda manifest: manifest.update(cells=3),
        lambda manifest: manifest["cells"].append({}),
        lambda manifest: manifest["cells"][0].update(sha256={}),
        lambda manifest: manifest["cells"][0]["sha256"].pop("01.sidecar.json"),
        lambda manifest: manifest["cells"].append(manifest["cells"][0]),
    ],
)
def test_an_incomplete_manifest_is_an_error(
    change: Callable[[dict[str, Any]], object], packed: Path, disk_folder: Path
) -> None:
    assert "manifest.json " in unpack_error(with_manifest(packed, change), disk_folder / "there")


@pytest.mark.parametrize("name", ["../../../evil.json", "/tmp/evil.json", "study/../../evil.json"])
def test_a_member_outside_the_folder_is_refused(name: str, packed: Path, disk_folder: Path) -> None:
    evil = rewritten(packed, lambda each, content: (name if each.endswith("02.json") else each, content))
    message = unpack_error(evil, disk_folder / "a/b/c/there")
    assert f"its member '{name}' is outside its folder" in message
    assert not list(disk_folder.rglob("evil*"))


def test_a_missing_archive_is_an_error(disk_folder: Path) -> None:
    assert "there is no such file" in unpack_error(disk_folder / "none.tar.xz", disk_folder / "there")


def test_an_archive_that_changed_since_planning_is_an_error(packed: Path, disk_folder: Path) -> None:
    message = refused(lambda: archive.unpack_archive(packed, disk_folder / "there", "0" * 64))
    assert "has changed since the run was planned. Run again." in message
    assert not (disk_folder / "there").exists()


# ---- Existing files


def test_raw_files_measured_here_are_not_replaced(raw: Path, packed: Path) -> None:
    before = files_of(raw)
    message = refused(lambda: archive.unpack_archive(packed, raw))
    assert f"{raw}: contains raw files that were measured on this machine" in message
    assert files_of(raw) == before


def test_changed_or_deleted_files_are_restored(raw: Path, packed: Path, disk_folder: Path) -> None:
    there = disk_folder / "there"
    archive.unpack_archive(packed, there)
    first, second, *_ = sorted(there.glob("*/*/*.json"))
    first.write_text("changed")
    second.unlink()
    archive.unpack_archive(packed, there)
    assert files_of(there) == files_of(raw)


def test_unpacking_updates_all_modification_times(packed: Path, disk_folder: Path) -> None:
    there = disk_folder / "there"
    archive.unpack_archive(packed, there)
    for path in there.glob("*/*/*"):
        os.utime(path, (1e9, 1e9))
    archive.unpack_archive(packed, there)
    assert all(path.stat().st_mtime > 1.5e9 for path in there.glob("*/*/*"))


def test_unpacked_cells_cannot_be_measured(packed: Path, disk_folder: Path) -> None:
    there = disk_folder / "there"
    archive.unpack_archive(packed, there)
    cell = archive.read_archive(packed).cells[0]
    with pytest.raises(MeasureError, match="contains raw files from an archive"):
        measure_cell(disk_folder, cell.specification, [there / cell.study / cell.name / "03.json"])


# ---- The commands


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "iopatterns", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "PATH": "/nowhere"})


def test_the_command_unpacks_without_fio(packed: Path, disk_folder: Path) -> None:
    done = run("unpack", "--log", disk_folder / "log/a.log", packed, disk_folder / "there")
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"there: 3 repetitions of 2 cells unpacked from {packed}\n"
    assert (disk_folder / "log/a.log").read_text() == done.stderr


def test_damage_is_an_error_of_one_line(packed: Path, disk_folder: Path) -> None:
    packed.write_bytes(packed.read_bytes()[:-50])
    done = run("unpack", packed, disk_folder / "there")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(f"iopatterns: error: {packed}: cut short")


def test_an_unknown_drive_is_an_error_with_a_suggestion(project: Project) -> None:
    result = project.iopatterns("archive", "scratchh")
    assert result.returncode == 2
    assert "neither config/drives.yaml nor a study has a drive 'scratchh'. Did you mean 'scratch'?" in result.stdout


def test_a_drive_that_was_not_measured_is_an_error(project: Project) -> None:
    result = project.iopatterns("archive", "scratch")
    assert result.returncode == 1
    assert result.stdout.startswith(
        "iopatterns: error: drive 'scratch': there are no raw files below data/raw/scratch. Measure it first"
    )
    assert not (project.root / "data/archives").exists()
