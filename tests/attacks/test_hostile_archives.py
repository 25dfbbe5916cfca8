"""A file made to harm, given as an archive, is one clear line: in bounded time and memory, and nothing is unpacked."""

import dataclasses
import hashlib
import json
import lzma
import os
import re
import resource
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from iopatterns.base import sealed_tar
from iopatterns.raw import archive, cells
from iopatterns.raw.archive import ArchiveError

# Of processor time, which no other program's work adds to; who waits for a fifo takes none
_MOST_CPU_S = 20
_LONGEST_WAIT_S = 120
_MOST_MEMORY_BYTES = 2**30
SPECIFICATION: dict[str, Any] = {
    "protocol": 2,
    "runtime_ms": 100,
    "warmup_ms": 0,
    "seed": 0,
    "drive": {"kind": "file", "name": "x", "file_size_bytes": 2**20},
    "fio": {"rw": "read"},
}


def refusal(path: Path, folder: Path) -> str:
    """Return what `iopatterns unpack` says, within limits of time and memory, and see that nothing came of it."""
    ran = subprocess.run(
        [sys.executable, "-m", "iopatterns", "unpack", str(path), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST_WAIT_S,
        preexec_fn=_limited,
    )
    assert ran.returncode == 1, ran.stderr
    return line_of(ran.stderr.removesuffix("\n"), path, folder)


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY_BYTES, _MOST_MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (_MOST_CPU_S, _MOST_CPU_S))


def refusal_here(path: Path, folder: Path) -> str:
    """Return what is said likewise, of a file that is small whatever comes out of it: in this process."""
    with pytest.raises(ArchiveError) as caught:
        archive.unpack_archive(path, folder)
    return line_of(str(caught.value), path, folder)


def line_of(said: str, path: Path, folder: Path) -> str:
    assert said.isprintable()
    assert len(said) < 1500
    assert str(path) in said
    assert not folder.exists()
    return said


def member(name: str, content: bytes, size: int | None = None) -> bytes:
    """Return a file in a tar; one that has the ``size`` given where it is not the content's."""
    header = tarfile.TarInfo(name)
    header.size = len(content) if size is None else size
    return header.tobuf(tarfile.GNU_FORMAT) + content + bytes(-len(content) % 512)


def compressed(parts: Iterator[bytes] | list[bytes], path: Path) -> Path:
    packer = lzma.LZMACompressor(preset=0)
    with open(path, "wb") as file:
        for part in parts:
            file.write(packer.compress(part))
        file.write(packer.flush())
    return path


def cell(sums: dict[str, str], **changes: Any) -> dict[str, Any]:
    digest = cells.specification_digest(changes.get("specification", SPECIFICATION))
    entry = {"study": "study", "name": f"cell-{digest[:8]}", "specification": SPECIFICATION, "experiments": ["one"]}
    return {**entry, "sha256": sums, **changes}


SUMS = {"01.json": "0" * 64, "01.sidecar.json": "0" * 64}


def manifest(*found: Any, **changes: Any) -> bytes:
    content = {
        "format": "iopatterns archive",
        "version": archive.ARCHIVE_VERSION,
        "drive": "x",
        "cells": found,
        **changes,
    }
    return member("manifest.json", json.dumps(content).encode())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evil.tar.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "there"


# ---- What is no file


def test_a_fifo_is_told(path: Path, folder: Path) -> None:
    os.mkfifo(path)
    assert "cannot be read: it is not a regular file" in refusal(path, folder)


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/urandom", "/dev/tty0"])
def test_a_device_is_told(device: str, folder: Path) -> None:
    if not Path(device).exists():
        pytest.skip(f"{device}: not here")
    assert "cannot be read: it is not a regular file" in refusal(Path(device), folder)


def test_a_folder_is_told(tmp_path: Path, folder: Path) -> None:
    assert "cannot be read: it is a folder" in refusal(tmp_path, folder)


def test_a_loop_of_links_is_told(path: Path, folder: Path) -> None:
    path.symlink_to(path)
    assert "cannot be read: Too many levels of symbolic links" in refusal(path, folder)


def test_a_huge_sparse_file_is_told_by_its_size(path: Path, folder: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**40)
    assert "it has 1,099,511,627,776 bytes; at most" in refusal(path, folder)


def test_a_sparse_file_of_a_size_that_is_taken_is_told(path: Path, folder: Path) -> None:
    with open(path, "wb") as file:
        file.truncate(2**31)
    assert "not an archive of iopatterns" in refusal(path, folder)


# ---- What unpacks to more than it should


def test_a_manifest_that_unpacks_to_gigabytes_is_told(path: Path, folder: Path) -> None:
    compressed([member("manifest.json", b"", 2_500_000_000), *[bytes(2**20)] * 20], path)
    assert "has a member manifest.json of 2500000000 bytes" in refusal(path, folder)


def test_a_member_that_unpacks_to_gigabytes_is_told(path: Path, folder: Path) -> None:
    compressed([manifest(cell(SUMS)), member("study/cell/01.json", b"", 2_500_000_000), bytes(2**20)], path)
    assert "of 2500000000 bytes; at most" in refusal(path, folder)


def test_a_member_of_negative_size_is_told(path: Path, folder: Path) -> None:
    compressed([manifest(cell(SUMS)), member("study/cell/01.json", b"", -512)], path)
    assert "damaged: its member study/cell-" in refusal(path, folder)


def test_many_members_that_unpack_to_too_much_are_told(path: Path, folder: Path) -> None:
    zeros = bytes(20 * 2**20)
    sum_ = hashlib.sha256(zeros).hexdigest()
    sums = {f"{number:02d}.{kind}": sum_ for number in range(1, 3) for kind in ("json", "sidecar.json")}
    entry = cell(sums)
    names = [f"study/{entry['name']}/{name}" for name in sorted(sums)]
    compressed([manifest(entry), *(member(name, zeros) for name in names)], path)
    assert path.stat().st_size < 200_000
    assert "unpacks to more than" in refusal(path, folder)


def test_something_endless_after_the_last_member_is_told(path: Path, folder: Path) -> None:
    compressed([manifest(), *[bytes(2**20)] * 90], path)
    assert "unpacks to more than" in refusal(path, folder)


def test_a_dictionary_larger_than_memory_is_told(path: Path, folder: Path) -> None:
    good = bytearray(lzma.compress(manifest(cell(SUMS)), preset=0))
    # the block's header follows the stream's 12 bytes: size, flags, filter LZMA2, its one byte, padding, CRC32
    assert good[14:16] == b"\x21\x01"
    good[16] = 40  # 4 GiB
    end = 12 + (good[12] + 1) * 4
    good[end - 4 : end] = zlib.crc32(good[12 : end - 4]).to_bytes(4, "little")
    path.write_bytes(good)
    assert "not an archive of iopatterns" in refusal(path, folder)


# ---- What a manifest may say


def test_ten_million_entries_are_told(path: Path, folder: Path) -> None:
    entries = b',\n"01.sidecar.json": "' + b"0" * 64 + b'"'
    compressed([member("manifest.json", b"", 10**7 * len(entries)), *[entries * 10_000] * 20], path)
    assert re.search(r"has a member manifest\.json of \d+ bytes; at most \d+ are read", refusal(path, folder))


@pytest.mark.parametrize("one", ["{}", "[[[]]]"])
def test_as_many_entries_as_a_manifest_takes_are_told(one: str, path: Path, folder: Path) -> None:
    start = f'{{"format": "iopatterns archive", "version": {archive.ARCHIVE_VERSION}, "drive": "x", "cells": ['
    count = (sealed_tar.MAX_MANIFEST_BYTES - len(start) - 2) // (len(one) + 1)
    compressed([member("manifest.json", f"{start}{','.join([one] * count)}]}}".encode())], path)
    assert "its manifest.json is not valid for version" in refusal(path, folder)


@pytest.mark.parametrize("depth", [900, 30_000, 1_000_000])
def test_nested_brackets_are_told(depth: int, path: Path, folder: Path) -> None:
    nested = b"[" * depth + b"]" * depth
    text = manifest(cell(SUMS, specification={**SPECIFICATION, "x": "HERE"}))[512:].rstrip(b"\0")
    compressed([member("manifest.json", text.replace(b'"HERE"', nested))], path)
    assert "manifest.json" in refusal(path, folder)


@pytest.mark.parametrize("number", [b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5000])
def test_numbers_that_are_none_are_told(number: bytes, path: Path, folder: Path) -> None:
    text = manifest(cell(SUMS, specification={**SPECIFICATION, "x": "HERE"}))[512:].rstrip(b"\0")
    compressed([member("manifest.json", text.replace(b'"HERE"', number))], path)
    assert "manifest.json, is damaged" in refusal_here(path, folder)


NAMES = {
    "newline": "a\nREFUSED",
    "escape": "\x1b[2J\x1b[31m",
    "zero": "a\0b",
    "above": "..",
    "hidden": ".bashrc",
    "slash": "a/b",
    "long": "x" * 10**6,
    "surrogate": "\ud800",
    "right to left": "\u202egpj.exe",
    "empty": "",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
@pytest.mark.parametrize("key", ["study", "name", "drive", "sha256"])
def test_names_that_are_none_are_told(key: str, name: str, path: Path, folder: Path) -> None:
    if key == "drive":
        found = manifest(cell(SUMS), drive=name)
    else:
        found = manifest(cell(SUMS, **{key: {name: "0" * 64, "01.json": "0" * 64} if key == "sha256" else name}))
    compressed([found], path)
    assert "manifest.json" in (line := refusal_here(path, folder)) or "or is not a valid file name" in line


@pytest.mark.parametrize(
    "changes",
    [
        {"version": "x" * 10**6},
        {"version": [["x\n"] * 1000]},
        {"cells": {"x" * 10**6: 1}},
        {"cells": "\n" * 100},
        {"drive": ["x"]},
    ],
)
def test_anything_else_is_told_in_one_short_line(changes: dict[str, Any], path: Path, folder: Path) -> None:
    compressed([manifest(**changes)], path)
    refusal_here(path, folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"experiments": [["one"]]},
        {"experiments": [None]},
        {"specification": []},
        {"specification": {**SPECIFICATION, "runtime_ms": "100"}},
        {"specification": {"fio": 3, "drive": {}}},
        {"sha256": {"01.json": 3, "01.sidecar.json": "0" * 64}},
        {"sha256": {"01.json": "\n" * 10**5, "01.sidecar.json": "0" * 64}},
    ],
)
def test_a_cell_of_another_shape_is_told(changes: dict[str, Any], path: Path, folder: Path) -> None:
    compressed([manifest(cell(SUMS, **changes))], path)
    assert "manifest.json is not valid for version" in refusal_here(path, folder)


@pytest.mark.parametrize("name", ["\x1b[2Jx", "a\nb", "x" * 90, "../../evil"])
def test_a_members_own_name_is_told_with_nothing_of_it_acted_on(name: str, path: Path, folder: Path) -> None:
    compressed([manifest(cell(SUMS)), member(name, b"x")], path)
    refusal_here(path, folder)


# ---- What changes meanwhile


def good(path: Path, content: bytes) -> None:
    files = {"01.json": content, "01.sidecar.json": content}
    entry = cell({name: hashlib.sha256(each).hexdigest() for name, each in files.items()})
    members = [member(f"study/{entry['name']}/{name}", each) for name, each in files.items()]
    compressed([manifest(entry), *members, bytes(1024)], path)


def test_an_archive_that_changes_between_the_passes_is_told(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(path, b"good")
    each = archive._each
    passes: list[Any] = []

    def replaced(*words: Any) -> None:
        if passes:
            good(path, b"evil")  # a whole archive as well, of something else
        passes.append(words)
        each(*words)

    monkeypatch.setattr(archive, "_each", replaced)
    with pytest.raises(ArchiveError, match="has changed while it was read"):
        archive.unpack_archive(path, folder)
    assert len(passes) == 2
    assert not list(folder.rglob("0*"))


def test_what_is_good_is_unpacked(path: Path, folder: Path) -> None:
    good(path, b"good")
    assert archive.unpack_archive(path, folder) == 1
    assert [file.read_bytes() for file in sorted(folder.rglob("0*.json"))] == [b"good", b"good"]


def test_what_is_too_large_to_be_read_again_is_not_packed(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(path, b"good")
    archive.unpack_archive(path, folder)
    contents = dataclasses.replace(archive.read_archive(path), drive="there")
    limits = {
        "MAX_MANIFEST_BYTES": "has too many raw files for one archive",
        "MAX_MEMBER_BYTES": "a file in an archive has at most 3",
    }
    for name, words in limits.items():
        with monkeypatch.context() as context:
            context.setattr(sealed_tar, name, 3)
            with pytest.raises(ArchiveError, match=words):
                archive._write(folder.parent / "a.tar.xz", folder, contents)
