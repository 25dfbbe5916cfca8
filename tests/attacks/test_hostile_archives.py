"""Malicious archives: one error, in bounded time and memory."""

import dataclasses
import hashlib
import json
import lzma
import os
import resource
import subprocess
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from iopatterns.base import sealed_tar
from iopatterns.raw import archive, cells
from iopatterns.raw.archive import ArchiveError

# Processor time, which does not depend on the load of the machine. Waiting for a fifo takes none.
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
    """Return the error of `iopatterns unpack`, run with limits of time and memory."""
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
    """Return the error of unpacking in this process; for small archives."""
    with pytest.raises(ArchiveError) as caught:
        archive.unpack_archive(path, folder)
    return line_of(str(caught.value), path, folder)


def line_of(message: str, path: Path, folder: Path) -> str:
    assert message.isprintable()
    assert len(message) < 1500
    assert str(path) in message
    assert not folder.exists()
    return message


def member(name: str, content: bytes, size: int | None = None) -> bytes:
    """Return a member of a tar file; ``size`` replaces its size in the header."""
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


ENTRY = b',\n"01.sidecar.json": "' + b"0" * 64 + b'"'
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


# ---- Special files


def test_a_fifo_is_refused(path: Path, folder: Path) -> None:
    os.mkfifo(path)
    assert "cannot be read: it is not a regular file" in refusal(path, folder)


@pytest.mark.parametrize(
    ("special", "reason"), [("/dev/zero", "not a regular file"), ("/dev/tty0", "not a regular file"), (".", "a folder")]
)
def test_a_device_or_a_folder_is_refused(special: str, reason: str, tmp_path: Path, folder: Path) -> None:
    found = tmp_path / special
    if not found.exists():
        pytest.skip(f"{special} does not exist here")
    assert f"cannot be read: it is {reason}" in refusal(found, folder)


def test_a_circle_of_symbolic_links_is_refused(path: Path, folder: Path) -> None:
    path.symlink_to(path)
    assert "cannot be read: Too many levels of symbolic links" in refusal(path, folder)


@pytest.mark.parametrize(
    ("size_bytes", "reason"),
    [(2**40, "it has 1,099,511,627,776 bytes; at most"), (2**31, "not an archive of iopatterns")],
)
def test_a_sparse_file_is_refused(size_bytes: int, reason: str, path: Path, folder: Path) -> None:
    path.touch()
    os.truncate(path, size_bytes)
    assert reason in refusal(path, folder)


# ---- Archives that unpack to too much


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        (
            lambda: [member("manifest.json", b"", 2_500_000_000), *[bytes(2**20)] * 20],
            "has a member manifest.json of 2500000000 bytes",
        ),
        (
            lambda: [manifest(cell(SUMS)), member("study/cell/01.json", b"", 2_500_000_000), bytes(2**20)],
            "of 2500000000 bytes; at most",
        ),
        (lambda: [manifest(cell(SUMS)), member("study/cell/01.json", b"", -512)], "damaged: its member study/cell-"),
        (lambda: [manifest(), *[bytes(2**20)] * 90], "unpacks to more than"),
        (
            lambda: [member("manifest.json", b"", 10**7 * len(ENTRY)), *[ENTRY * 10_000] * 20],
            "has a member manifest.json of",
        ),
    ],
    ids=["manifest", "member", "negative size", "data after the last member", "entries of the manifest"],
)
def test_an_endless_archive_is_refused(
    members: Callable[[], list[bytes]], reason: str, path: Path, folder: Path
) -> None:
    compressed(members(), path)
    assert reason in refusal(path, folder)


def test_many_large_members_are_refused(path: Path, folder: Path) -> None:
    zeros = bytes(20 * 2**20)
    sum_ = hashlib.sha256(zeros).hexdigest()
    sums = {f"{number:02d}.{kind}": sum_ for number in range(1, 3) for kind in ("json", "sidecar.json")}
    entry = cell(sums)
    names = [f"study/{entry['name']}/{name}" for name in sorted(sums)]
    compressed([manifest(entry), *(member(name, zeros) for name in names)], path)
    assert path.stat().st_size < 200_000
    assert "unpacks to more than" in refusal(path, folder)


def test_a_dictionary_larger_than_memory_is_refused(path: Path, folder: Path) -> None:
    good = bytearray(lzma.compress(manifest(cell(SUMS)), preset=0))
    # the block's header follows the stream's 12 bytes: size, flags, filter LZMA2, its one byte, padding, CRC32
    assert good[14:16] == b"\x21\x01"
    good[16] = 40  # 4 GiB
    end = 12 + (good[12] + 1) * 4
    good[end - 4 : end] = zlib.crc32(good[12 : end - 4]).to_bytes(4, "little")
    path.write_bytes(good)
    assert "not an archive of iopatterns" in refusal(path, folder)


# ---- Invalid manifests


@pytest.mark.parametrize("one", ["{}", "[[[]]]"])
def test_a_manifest_of_maximum_size_is_refused(one: str, path: Path, folder: Path) -> None:
    start = f'{{"format": "iopatterns archive", "version": {archive.ARCHIVE_VERSION}, "drive": "x", "cells": ['
    count = (sealed_tar.MAX_MANIFEST_BYTES - len(start) - 2) // (len(one) + 1)
    compressed([member("manifest.json", f"{start}{','.join([one] * count)}]}}".encode())], path)
    assert "its manifest.json is not valid for version" in refusal(path, folder)


@pytest.mark.parametrize(
    ("value", "is_large"),
    [
        *((b"[" * depth + b"]" * depth, True) for depth in (900, 30_000, 1_000_000)),
        *((number, False) for number in (b"1e999", b"-1e999", b"NaN", b"Infinity", b"9" * 5000)),
    ],
    ids=lambda value: str(value)[:12],
)
def test_an_invalid_value_is_an_error(value: bytes, is_large: bool, path: Path, folder: Path) -> None:
    text = manifest(cell(SUMS, specification={**SPECIFICATION, "x": "HERE"}))[512:].rstrip(b"\0")
    compressed([member("manifest.json", text.replace(b'"HERE"', value))], path)
    assert "manifest.json" in (refusal if is_large else refusal_here)(path, folder)


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
def test_an_unsafe_name_is_refused(key: str, name: str, path: Path, folder: Path) -> None:
    sums = {name: "0" * 64, "01.json": "0" * 64}
    changes = {key: sums if key == "sha256" else name}
    compressed([manifest(cell(SUMS), **changes) if key == "drive" else manifest(cell(SUMS, **changes))], path)
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
def test_an_invalid_manifest_is_an_error_of_one_line(changes: dict[str, Any], path: Path, folder: Path) -> None:
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
def test_an_invalid_cell_is_an_error(changes: dict[str, Any], path: Path, folder: Path) -> None:
    compressed([manifest(cell(SUMS, **changes))], path)
    assert "manifest.json is not valid for version" in refusal_here(path, folder)


@pytest.mark.parametrize("name", ["\x1b[2Jx", "a\nb", "x" * 90, "../../evil"])
def test_an_unsafe_name_of_a_member_is_refused(name: str, path: Path, folder: Path) -> None:
    compressed([manifest(cell(SUMS)), member(name, b"x")], path)
    refusal_here(path, folder)


# ---- Changes meanwhile


def good(path: Path, content: bytes) -> None:
    files = {"01.json": content, "01.sidecar.json": content}
    entry = cell({name: hashlib.sha256(each).hexdigest() for name, each in files.items()})
    members = [member(f"study/{entry['name']}/{name}", each) for name, each in files.items()]
    compressed([manifest(entry), *members, bytes(1024)], path)


def test_an_archive_that_changes_while_it_is_unpacked_is_an_error(
    path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good(path, b"good")
    each = archive._visit_members
    passes: list[Any] = []

    def replaced(*words: Any) -> None:
        if passes:
            good(path, b"evil")  # another valid archive
        passes.append(words)
        each(*words)

    monkeypatch.setattr(archive, "_visit_members", replaced)
    with pytest.raises(ArchiveError, match="has changed while it was read"):
        archive.unpack_archive(path, folder)
    assert len(passes) == 2
    assert not list(folder.rglob("0*"))


def test_a_valid_archive_is_unpacked(path: Path, folder: Path) -> None:
    good(path, b"good")
    assert archive.unpack_archive(path, folder) == 1
    assert [file.read_bytes() for file in sorted(folder.rglob("0*.json"))] == [b"good", b"good"]


def test_what_is_too_large_for_reading_is_not_packed(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
