"""A sidecar that is not as it was written, or not of its raw file, is noticed by whoever reads it."""

import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import file_cell

from iopatterns.analysis import collect
from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import archive, cells
from iopatterns.raw.metadata_files import UNPACKED, MetadataError, metadata_path, read_metadata
from iopatterns.workflow import summary

FLIPS = 600


@pytest.fixture(scope="module")
def measured(module_disk_folder: Path) -> Path:
    """The project's folder with two executions of a cell."""
    spec = file_cell(module_disk_folder)
    cell = module_disk_folder / f"data/raw/test/study/cell-{cells.specification_digest(spec)[:8]}"
    measure_cell(module_disk_folder, spec, [cell / "01.json", cell / "02.json"])
    return module_disk_folder


@pytest.fixture
def raw(measured: Path, tmp_path: Path) -> Path:
    """The first of these raw files, copied with all that is beside it: to be damaged."""
    shutil.copytree(measured / "data", tmp_path / "data")
    return next((tmp_path / "data/raw").glob("*/*/*/01.json"))


def told(raw: Path) -> str:
    """Return the one line that is said of a raw file with its sidecar."""
    with pytest.raises(MetadataError) as caught:
        read_metadata(raw)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 1000
    return str(caught.value)


@pytest.mark.parametrize("of", [lambda raw: raw, metadata_path], ids=["raw file", "sidecar"])
def test_each_changed_bit_is_noticed(of: Callable[[Path], Path], raw: Path) -> None:
    path = of(raw)
    good = path.read_bytes()
    chance = random.Random(12)
    for place in chance.sample(range(8 * len(good)), FLIPS):
        bad = bytearray(good)
        bad[place // 8] ^= 1 << place % 8
        path.write_bytes(bad)
        said = told(raw)
        assert path.name in said, place
        assert "elete" in said, place
        assert "it is measured again." in said, place
    path.write_bytes(good)
    assert read_metadata(raw)["execution"] == 1


def with_right_sum(raw: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change what a sidecar says, and give it the sum that fits, as somebody who knows how it is made would."""
    path = metadata_path(raw)
    content = json.loads(path.read_bytes())
    del content["sha256"]
    change(content)

    def text() -> str:
        return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"

    content["sha256"] = hashlib.sha256(text().encode()).hexdigest()
    path.write_text(text())


def test_a_sum_made_by_hand_fits(raw: Path) -> None:
    with_right_sum(raw, lambda content: None)
    read_metadata(raw)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content["specification"]["fio"].update(bs=12345), "is of another cell than its name says"),
        (lambda content: content["specification"]["drive"].update(name="other"), "is of another cell"),
        (lambda content: content.update(execution=2), "is of another execution than its name says"),
        (lambda content: content.update(randseed=1), "is of another execution"),
        (lambda content: content.update(execution="1"), "not a sidecar of this package"),
        (lambda content: content.update(raw=None), "not a sidecar of this package"),
        (lambda content: content.pop("raw"), "not a sidecar of this package"),
        (lambda content: content.pop("tuning"), "missing required field `tuning`"),
        (lambda content: content["drive"].update(model=3), "Expected `str | null`, got `int` - at `$.drive.model`"),
        (lambda content: content.update(specification=[]), "not a sidecar of this package"),
        (lambda content: content["raw"].update(sha256="0" * 64), "changed since it was measured"),
    ],
)
def test_what_it_says_is_held_against_folder_and_file(
    change: Callable[[dict[str, Any]], object], words: str, raw: Path
) -> None:
    with_right_sum(raw, change)
    assert words in told(raw)


def test_another_executions_raw_file_and_sidecar_are_noticed(raw: Path) -> None:
    second = raw.with_name("02.json")
    shutil.copy(second, raw)
    shutil.copy(metadata_path(second), metadata_path(raw))
    assert "01.sidecar.json: is of another execution than its name says. Delete 01.json" in told(raw)


def test_one_of_an_earlier_version_is_told_as_such(raw: Path) -> None:
    path = metadata_path(raw)
    content = json.loads(path.read_bytes())
    del content["sha256"]
    path.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
    assert "holds no SHA-256 of its own content: it was written by an earlier version" in told(raw)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"[" * 10**5, b"\xff" * 99, b'  "sha256": "x",\n'], ids=repr)
def test_anything_else_in_its_place_is_told(content: bytes, raw: Path) -> None:
    metadata_path(raw).write_bytes(content)
    assert "Delete 01.json; it is measured again." in told(raw)


def test_a_sum_of_nonsense_is_told(raw: Path) -> None:
    for nonsense in (b"[" * 10**5, b'{"execution": ' + b"9" * 5000 + b"}"):
        own = f'  "sha256": "{hashlib.sha256(nonsense).hexdigest()}",\n'.encode()
        metadata_path(raw).write_bytes(own + nonsense)
        assert "not a sidecar of this package" in told(raw)


def test_a_damaged_one_that_came_out_of_an_archive_comes_out_of_it_again(raw: Path) -> None:
    (raw.parent.parent.parent / UNPACKED).write_text("{}")
    metadata_path(raw).write_bytes(b"{}")
    assert "Delete 01.json; it is unpacked again." in told(raw)


def test_whoever_reads_one_notices(raw: Path) -> None:
    root = raw.parents[5]
    path = metadata_path(raw)
    path.write_bytes(path.read_bytes().replace(b'"bs": 4096', b'"bs": 8192'))
    spec = json.loads(path.read_bytes())["specification"] | {"fio": file_cell(root)["fio"]}
    cell = "/".join(raw.parts[-4:-1])
    colophon = {"executions": 2, "fio_versions": [], "drives": [], "studies": {}}
    (root / "results").mkdir()
    (root / "results" / summary.COLOPHON_FILE).write_text(json.dumps(colophon))
    readers: list[Callable[[], object]] = [
        lambda: collect.measurement_table([raw], {cell: ["one"]}),
        lambda: collect.tuning_records([raw], {cell: ["one"]}),
        lambda: collect.study_provenance([raw]),
        lambda: archive.pack_archive(raw.parents[2], {cell: ["one"]}, root / "a.tar.xz"),
        lambda: summary.run_summary(root, 0.0),
        lambda: measure_cell(root, spec, [raw]),
    ]
    for read in readers:
        with pytest.raises(MetadataError, match=r"01\.sidecar\.json: changed since it was written"):
            read()
