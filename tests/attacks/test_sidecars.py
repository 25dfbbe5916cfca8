"""Changes of metadata files and raw files are noticed by all readers."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from measurements import measured as measured_files
from support import file_cell

from iopatterns.analysis import collect
from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import archive
from iopatterns.raw.metadata_files import UNPACKED, MetadataError, metadata_path, read_metadata

FLIPS = 600


@pytest.fixture(scope="module")
def measured(module_disk_folder: Path) -> Path:
    """Return a project with two repetitions of a cell."""
    spec = file_cell(module_disk_folder)
    measured_files(module_disk_folder, spec, 2)
    return module_disk_folder


@pytest.fixture
def raw(measured: Path, tmp_path: Path) -> Path:
    """Return the first raw file in a copy of the project."""
    shutil.copytree(measured / "data", tmp_path / "data")
    return next((tmp_path / "data/raw").glob("*/*/*/01.json"))


def error_of(raw: Path) -> str:
    """Return the error for a raw file and its metadata file, which is one line."""
    with pytest.raises(MetadataError) as caught:
        read_metadata(raw)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.parametrize("of", [lambda raw: raw, metadata_path], ids=["raw file", "metadata file"])
def test_each_changed_bit_is_an_error(of: Callable[[Path], Path], raw: Path) -> None:
    path = of(raw)
    good = path.read_bytes()
    chance = random.Random(12)
    for place in chance.sample(range(8 * len(good)), FLIPS):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        path.write_bytes(bad)
        message = error_of(raw)
        assert path.name in message, place
        assert "elete" in message, place
        assert "it is measured again." in message, place
    path.write_bytes(good)
    assert read_metadata(raw)["execution"] == 1


def with_right_sum(raw: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change metadata and update the checksum."""
    path = metadata_path(raw)
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)

    def text() -> str:
        return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    content["sha256"] = hashlib.sha256(text().encode()).hexdigest()
    path.write_text(text())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content["specification"]["fio"].update(bs=12345), "belongs to another cell than its name"),
        (lambda content: content["specification"]["drive"].update(name="other"), "belongs to another cell"),
        (lambda content: content.update(execution=2), "belongs to another repetition than its name says"),
        (lambda content: content.update(execution="1"), "not a metadata file of this package"),
        (lambda content: content.update(raw=None), "not a metadata file of this package"),
        (lambda content: content.pop("raw"), "not a metadata file of this package"),
        (lambda content: content.pop("tuning"), "missing required field `tuning`"),
        (lambda content: content["drive"].update(model=3), "Expected `str | null`, got `int` - at `$.drive.model`"),
        (lambda content: content.update(specification=[]), "not a metadata file of this package"),
        (lambda content: content["raw"].update(sha256="0" * 64), "changed since it was measured"),
    ],
)
def test_metadata_must_match_folder_and_raw_file(
    change: Callable[[dict[str, Any]], object], words: str, raw: Path
) -> None:
    with_right_sum(raw, change)
    assert words in error_of(raw)


def test_the_files_of_another_repetition_are_an_error(raw: Path) -> None:
    second = raw.with_name("02.json")
    shutil.copy(second, raw)
    shutil.copy(metadata_path(second), metadata_path(raw))
    assert "01.sidecar.json: belongs to another repetition than its name says. Delete 01.json" in error_of(raw)


def test_metadata_of_an_earlier_version_are_an_error(raw: Path) -> None:
    path = metadata_path(raw)
    content = json.loads(path.read_bytes())
    del content["sha256"]
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    assert "contains no SHA-256 of its own content: it was written by an earlier version" in error_of(raw)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 10**5, b"\xff" * 99, b'  "sha256": "x",\n'], ids=repr)
def test_any_other_content_is_an_error(content: bytes, raw: Path) -> None:
    metadata_path(raw).write_bytes(content)
    assert "Delete 01.json; it is measured again." in error_of(raw)


@pytest.mark.parametrize("content", [b"[" * 10**5, b'{"execution": ' + b"9" * 5000 + b"}"], ids=["nested", "number"])
def test_nonsense_with_a_valid_checksum_is_an_error(content: bytes, raw: Path) -> None:
    own = f'  "sha256": "{hashlib.sha256(content).hexdigest()}",\n'.encode()
    metadata_path(raw).write_bytes(own + content)
    assert "not a metadata file of this package" in error_of(raw)


def test_the_remedy_for_an_archive_is_to_unpack_again(raw: Path) -> None:
    (raw.parent.parent.parent / UNPACKED).write_text("{}")
    metadata_path(raw).write_bytes(b"{}")
    assert "Delete 01.json; it is unpacked again." in error_of(raw)


def test_all_readers_check_metadata(raw: Path) -> None:
    root = raw.parents[5]
    path = metadata_path(raw)
    path.write_bytes(path.read_bytes().replace(b'"bs": 4096', b'"bs": 8192'))
    spec = json.loads(path.read_bytes())["specification"] | {"fio": file_cell(root)["fio"]}
    cell = "/".join(raw.parts[-4:-1])
    readers: list[Callable[[], object]] = [
        lambda: collect.measurement_table(collect.load_metadata([raw]), {cell: ["one"]}),
        lambda: collect.tuning_records(collect.load_metadata([raw]), {cell: ["one"]}),
        lambda: collect.study_provenance(collect.load_metadata([raw])),
        lambda: archive.pack_archive(raw.parents[2], {cell: ["one"]}, root / "a.tar.xz"),
        lambda: measure_cell(root, spec, [raw]),
    ]
    for read in readers:
        with pytest.raises(MetadataError, match=r"01\.sidecar\.json: changed since it was written"):
            read()
