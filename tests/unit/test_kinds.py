"""Tests of the kinds of drive, and of the modules that know kinds."""

import json
import re
from typing import Any, get_args, get_type_hints

import pytest
from support import ROOT

from iopatterns.configuration import kinds, schemas
from iopatterns.measuring.drives import open_drive
from iopatterns.twin import models

PACKAGE = ROOT / "src/iopatterns"
TABLE = PACKAGE / "configuration/kinds.py"
ENTRIES: list[kinds.DriveEntry] = [
    {"kind": "twin", "model": "c400"},
    {"kind": "file", "path": "a"},
    {"kind": "block", "path": "/dev/x", "serial": "S"},
    {"kind": "archive", "path": "a.tar.xz"},
]


# a comparison with the quoted name of a kind, a match of it, or a list of several
_NAMED = "|".join(f'"{name}"' for name in kinds.DRIVE_KINDS)
_COMPARED = re.compile(
    rf"(==|!=)\s*({_NAMED})|({_NAMED})\s*(==|!=)|\b(eq|ne)\(({_NAMED})|\bcase ({_NAMED})|\bin [\[({{]({_NAMED})"
)


@pytest.mark.parametrize(
    "text",
    [
        *('drive["kind"] == "twin"', 'drive["kind"] not in {"twin", "archive"}', '"block" == kind'),
        *('table["drive_kind"].eq("twin")', 'case "file" | "block":', '"block" == of(drive, "kind")'),
    ],
)
def test_a_comparison_with_a_kind_is_found(text: str) -> None:
    assert _COMPARED.search(text)


def test_only_the_table_and_the_drives_refer_to_a_kind_by_its_name() -> None:
    paths = [path for pattern in ("*.py", "*.typ") for path in PACKAGE.rglob(pattern)]
    texts = {path: path.read_text(encoding="utf-8") for path in [*paths, *(ROOT / "paper").rglob("*.typ")]}
    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *PACKAGE.rglob("*.ipynb")]:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts[path] = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    # in `calls`, "file" is a file that a program has opened
    checked = {path: text for path, text in texts.items() if path != TABLE and not {"drives", "calls"} & {*path.parts}}
    assert len(checked) > 50
    assert {path: found[0] for path, text in checked.items() if (found := _COMPARED.search(text))} == {}


@pytest.mark.parametrize("kind", kinds.DRIVE_KINDS.values(), ids=lambda kind: kind.name)
def test_an_entry_has_its_kind_in_the_table(kind: kinds.DriveKind) -> None:
    assert get_args(get_type_hints(kind.entry)["kind"]) == (kind.name,)
    assert get_args(kinds.DriveEntry)[list(kinds.DRIVE_KINDS).index(kind.name)] is kind.entry


def test_needed_keys_are_in_the_order_of_the_entry() -> None:
    needed = {name: kind.needed for name, kind in kinds.DRIVE_KINDS.items()}
    assert needed == {"twin": ["model"], "file": ["path"], "block": ["path", "serial"], "archive": ["path"]}


def test_the_schema_has_a_property_for_each_key_of_each_kind_and_no_other() -> None:
    properties = schemas.load_schema(ROOT, "drives")["additionalProperties"]["properties"]
    assert set(properties) == set().union(*(kind.allowed for kind in kinds.DRIVE_KINDS.values()))


def test_a_drive_is_either_simulated_or_archived_or_real() -> None:
    found = [(kinds.is_simulated(each), kinds.is_archived(each), kinds.is_real(each)) for each in ENTRIES]
    assert found == [(True, False, False), (False, False, True), (False, False, True), (False, True, False)]
    assert [kinds.is_whole_disk(each) for each in ENTRIES] == [False, False, True, False]


def test_a_real_drive_is_either_filled_or_preconditioned() -> None:
    for kind in kinds.DRIVE_KINDS.values():
        assert kind.is_filled + kind.is_preconditioned == kind.is_real


def test_every_kind_that_is_measured_here_can_be_opened() -> None:
    about = {"name": "x", "file_size_bytes": 2**20, "model_digest": models.load_model("c400").digest}
    for entry in ENTRIES:
        if not kinds.is_archived(entry):
            specification: Any = {"drive": {**about, **entry}, "fio": {"rw": "read"}}
            drive = open_drive(ROOT, specification)
            assert type(drive).__name__ == f"{entry['kind'].capitalize()}Drive"
