"""Tests that malicious packages of studies are refused."""

import hashlib
import json
import lzma
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from support import make_odd_files, refusal_message

from iopatterns.base import sealed_tar
from iopatterns.workflow.study_package import PACKAGE_VERSION, Addition, StudyError

GRID = "config/studies/mine.yaml"
CONTENT = b"title: A study\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project that a refused package must not change."""
    root = tmp_path / "deep/project"
    for folder in ("config/studies", "notebooks", "data/twins"):
        (root / folder).mkdir(parents=True)
    (root / "config/config.yaml").write_text("studies: [other]\n")
    return root


def member(name: str, content: bytes, kind: bytes = tarfile.REGTYPE, size: int | None = None) -> bytes:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, "/etc/passwd" if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE} else ""
    header.size = len(content) if size is None else size
    return header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def manifest(sums: dict[str, str], **changes: Any) -> bytes:
    content = {
        "format": "iopatterns study",
        "version": PACKAGE_VERSION,
        "study": "mine",
        "iopatterns": "0.1.0",
        "protocol": 2,
        "studies": ["other"],
        "references": {},
        "executable": [],
        "sha256": sums,
        **changes,
    }
    return member("manifest.json", json.dumps(content).encode())


def package(root: Path, *files: str, members: list[bytes] | None = None, **changes: Any) -> Path:
    """Write a package with a grid and files, or with the given members.

    Returns the path of the package.
    """
    names = sorted({GRID, *files})
    sums = dict.fromkeys(names, hashlib.sha256(CONTENT).hexdigest())
    parts = [
        manifest(sums, **changes),
        *(members if members is not None else [member(name, CONTENT) for name in names]),
    ]
    path = root.parent.parent / "mine.tar.xz"
    path.write_bytes(lzma.compress(b"".join(parts) + bytes(1024), preset=0))
    return path


def package_of_grid(root: Path, grid: bytes) -> Path:
    return package(root, members=[member(GRID, grid)], sha256={GRID: hashlib.sha256(grid).hexdigest()})


def refused(root: Path, path: Path) -> str:
    """Return the message that refuses a package.

    Nothing may have been written.
    """

    def all_files() -> dict[Path, bytes]:
        top = root.parent.parent
        return {each: each.read_bytes() for each in sorted(top.rglob("*")) if each.is_file() and not each.is_symlink()}

    before = all_files() if path.is_relative_to(root.parent.parent) and path.name == "mine.tar.xz" else None
    message = refusal_message(lambda: Addition.of(root, path).write(), StudyError, 1000)
    assert message.isprintable()
    if before is not None:
        assert all_files() == before
    return message


def test_a_good_package_is_added(root: Path) -> None:
    Addition.of(root, package(root, "notebooks/mine.py", "data/traces/mine/deep/file")).write()
    assert (root / "data/traces/mine/deep/file").read_bytes() == CONTENT
    assert (root / "config/config.yaml").read_text() == "studies: [other, mine]\n"


@pytest.mark.parametrize(
    "name",
    [
        *("../evil", "data/traces/mine/../../../../evil", "/tmp/evil", "data/traces/mine//evil"),
        *("data/traces/mine/./evil", "data/traces/mine/", "data/traces/mine/.hidden", "data/traces/mine/line\nbreak"),
        *(f"data/traces/mine/{'x' * 256}", "data/traces/mine", "data/traces/other/file", "data/published/README.md"),
        *("notebooks/other.ipynb", "notebooks/mine.ipynb/file", "notebooks/conftest.py", "config/config.yaml"),
        *("config/studies/other.yaml", "data/manifests/mine.sha256", "data/manifests/a/b/mine.sha256"),
        *("data/twins/model.py", "data/twins/deep/model.yaml", "data/raw/disk/other/cell/01.json"),
        *("data/raw/disk/mine/01.json", "src/iopatterns/__init__.py", "Snakefile", ".git/hooks/pre-commit"),
        "mine.tar.xz",
    ],
)
def test_a_file_outside_the_places_of_the_study_is_refused(root: Path, name: str) -> None:
    assert "is outside its folder, or is not a valid file name" in refused(root, package(root, name))


@pytest.mark.parametrize("study", ["", "..", "../mine", "Mine", "mine\n", "a/b", "*", 5, None])
def test_an_invalid_name_of_a_study_is_refused(root: Path, study: object) -> None:
    assert "its manifest.json is not valid for version 1" in refused(root, package(root, study=study))


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": {}},
        {"sha256": {GRID: "0"}},
        {"sha256": {GRID: None}},
        {"sha256": []},
        {"studies": 3},
        {"studies": [3]},
        {"protocol": "2"},
        {"iopatterns": "\x1b[2J"},
        {"executable": ["/bin/sh"]},
        {"references": {"a": "b:\n  type: misc\n"}},
        {"references": {"a": "a: {type: misc}\nb: {type: misc}\n"}},
        {"references": {"a": "a: &a [*a]\n"}},
        {"references": {"a": "[" * 10_000}},
        {"references": {"a": 1}},
    ],
)
def test_a_malformed_manifest_is_refused(root: Path, changes: dict[str, Any]) -> None:
    assert "its manifest.json is not valid for version 1" in refused(root, package(root, **changes))


def test_a_file_within_a_file_is_refused(root: Path) -> None:
    path = package(root, "data/traces/mine/a", "data/traces/mine/a/b")
    assert "its manifest.json is not valid for version 1" in refused(root, path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.DIRTYPE]
)
def test_a_member_that_is_not_a_regular_file_is_refused(root: Path, kind: bytes) -> None:
    path = package(root, members=[member(GRID, b"", kind)], sha256={GRID: hashlib.sha256(b"").hexdigest()})
    assert f"damaged: its member {GRID}" in refused(root, path)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member(GRID, b"other")], "is not what was packed"),
        ([member("notebooks/mine.py", CONTENT)], "is not what was packed"),
        ([member("../evil", CONTENT)], "is outside its folder"),
        ([member(GRID, CONTENT), member(GRID, CONTENT)], "damaged after its last member"),
        ([member(GRID, CONTENT), member("evil", CONTENT)], "damaged after its last member"),
        ([member(GRID, b"", size=2**31)], f"of {2**31} bytes; at most"),
        ([member(GRID, b"", size=-512)], "damaged: its member"),
        ([], "damaged: its member"),
    ],
    ids=["content", "name", "path", "twice", "more", "huge", "negative", "none"],
)
def test_a_member_that_differs_from_the_manifest_is_refused(root: Path, members: list[bytes], expected: str) -> None:
    assert expected in refused(root, package(root, members=members))


def test_a_package_that_expands_too_much_is_refused(root: Path) -> None:
    names = [f"data/traces/mine/{number}" for number in range(4)]
    zeros = bytes(20 * 2**20)
    sums = {GRID: hashlib.sha256(CONTENT).hexdigest()} | dict.fromkeys(names, hashlib.sha256(zeros).hexdigest())
    path = package(root, members=[member(GRID, CONTENT), *(member(name, zeros) for name in names)], sha256=sums)
    assert "unpacks to more than" in refused(root, path)


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9])
def test_a_package_that_is_cut_short_is_refused(root: Path, share: float) -> None:
    path = package(root, "data/traces/mine/noise", members=[member(GRID, CONTENT), member("a", os.urandom(4096))])
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    assert re.search("not a package of iopatterns|cut short|damaged", refused(root, path))


def test_an_archive_or_another_version_is_not_a_package(root: Path) -> None:
    path = package(root, format="iopatterns archive")
    assert "not a package of iopatterns" in refused(root, path)
    assert "of format version 99; this iopatterns reads version 1" in refused(root, package(root, version=99))


@pytest.mark.parametrize("grid", [b"\xff", b"[]", b"a: b", b"title: [" + b"[" * 1000])
def test_an_invalid_grid_is_refused(root: Path, grid: bytes) -> None:
    assert "its grid cannot be read" in refused(root, package_of_grid(root, grid))


def test_a_title_cannot_control_the_terminal(root: Path) -> None:
    path = package_of_grid(root, b'title: "\\e[2Jfine"\n')
    assert all(line.isprintable() for line in Addition.of(root, path).text().splitlines())


@pytest.mark.parametrize("odd", ["fifo", "zero", "folder", "loop", "sparse"])
def test_a_file_that_is_not_regular_is_refused_at_once(root: Path, tmp_path: Path, odd: str) -> None:
    make_odd_files(tmp_path)
    assert str(tmp_path / odd) in refused(root, tmp_path / odd)


def test_an_existing_link_is_not_followed(root: Path, tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (root / "notebooks/mine.py").symlink_to(tmp_path / "precious")
    path = package(root, "notebooks/mine.py")
    with pytest.raises(StudyError, match=r"notebooks/mine\.py"):
        Addition.of(root, path)
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_link_created_before_writing_is_not_followed(root: Path, tmp_path: Path) -> None:
    addition = Addition.of(root, package(root, "notebooks/mine.py"))
    (root / "notebooks/mine.py").symlink_to(tmp_path / "new")
    with pytest.raises(FileExistsError):
        addition.write()
    assert not (tmp_path / "new").exists()
    assert not (root / GRID).exists()


def test_a_package_that_changes_before_the_confirmation_is_not_added(root: Path) -> None:
    addition = Addition.of(root, package(root, "notebooks/mine.py"))
    package(root, "notebooks/mine.py", "data/traces/mine/more")
    with pytest.raises(StudyError, match="has changed while it was read"):
        addition.write()
    assert not (root / GRID).exists()


def test_the_length_of_members_is_limited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealed_tar, "MAX_MEMBER_BYTES", 3)
    assert f"has a member {GRID} of {len(CONTENT)} bytes; at most 3 are read" in refused(root, package(root))
