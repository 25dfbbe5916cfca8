"""Checksums of unchanged files come from the cache, and every change of a file is noticed."""

import os
import shutil
import time
from pathlib import Path

import pytest

from iopatterns.base import files
from iopatterns.base.checksum_cache import ChecksumCache


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file whose checksum is in the cache tmp_path/cache."""
    path = tmp_path / "values.csv"
    path.write_text("1")
    later_ns = time.time_ns() + 10**10
    monkeypatch.setattr(time, "time_ns", lambda: later_ns)  # the file is then no longer a recent one
    cache = ChecksumCache(tmp_path / "cache")
    assert cache.file_text(path, files.sha256) == files.sha256(path)
    cache.save()
    return path


def _asked(folder: Path, path: Path) -> tuple[str | None, bool]:
    """Return the checksum of a file from a new cache, and whether the file was read for it."""
    read: list[Path] = []

    def derive(each: Path) -> str:
        read.append(each)
        return files.sha256(each)

    return ChecksumCache(folder / "cache").file_text(path, derive), bool(read)


def test_an_unchanged_file_is_not_read(cached: Path, tmp_path: Path) -> None:
    assert _asked(tmp_path, cached) == (files.sha256(cached), False)


def test_a_changed_file_with_its_old_time_is_read(cached: Path, tmp_path: Path) -> None:
    state = cached.stat()
    with cached.open("r+") as file:  # the same inode and size
        file.write("2")
    os.utime(cached, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert _asked(tmp_path, cached) == (files.sha256(cached), True)


def test_a_replaced_file_with_its_old_time_is_read(cached: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("2")
    shutil.copystat(cached, other)
    other.replace(cached)
    assert _asked(tmp_path, cached) == (files.sha256(cached), True)


def test_a_recently_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "recent"
    path.write_text("1")
    cache = ChecksumCache(tmp_path / "cache")
    cache.file_text(path, files.sha256)
    cache.save()
    assert _asked(tmp_path, path) == (files.sha256(path), True)


@pytest.mark.parametrize("content", [b"", b"[]", b"{", b'{"x": ["y"]}', b"\xff", b"[" * 10**5], ids=repr)
def test_a_damaged_cache_is_an_empty_one(content: bytes, cached: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(content)
    assert _asked(tmp_path, cached) == (files.sha256(cached), True)


def test_a_missing_file_and_a_folder_have_no_checksum(tmp_path: Path) -> None:
    assert ChecksumCache().file_text(tmp_path / "missing", files.sha256) is None
    assert ChecksumCache().file_text(tmp_path, files.sha256) is None


def test_a_group_has_the_checksum_of_its_list(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).write_text(name)
    stats = {name: (tmp_path / name).stat() for name in ("b", "a")}
    listed = tmp_path / "list"
    listed.write_text("".join(f"{files.sha256(tmp_path / name)}  {name}\n" for name in ("a", "b")))
    assert ChecksumCache().group_sha256(tmp_path, stats) == files.sha256(listed)
