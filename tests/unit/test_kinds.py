"""Tests of the kinds of drive, and that no other module refers to a kind by its name."""

import ast
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


def names_of_kinds(node: ast.AST) -> set[str]:
    """Return the kinds that an expression names."""
    texts = (each.value for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {text for text in texts if isinstance(text, str) and text in kinds.DRIVE_KINDS}


def kind_comparisons(text: str) -> list[int]:
    """Return the lines of a module that compare with the name of a kind, or look something up by it."""
    found = []
    for node in ast.walk(ast.parse(text)):
        parts: list[ast.expr] = []
        if isinstance(node, ast.Compare):
            # `"archive" in drive` looks for a key
            parts = [*node.comparators, *([] if isinstance(node.ops[0], ast.In) else [node.left])]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in {"eq", "ne"}:
            parts = node.args
        elif isinstance(node, ast.Dict):
            parts = [key for key in node.keys if key is not None]
            parts = (
                parts if len(names_of_kinds(ast.List(parts))) > 1 else []
            )  # a single name may be a key of another kind
        elif isinstance(node, ast.match_case):
            found += [node.pattern.lineno] if names_of_kinds(node.pattern) else []
        found += [part.lineno for part in parts if names_of_kinds(part)]
    return found


@pytest.mark.parametrize(
    "text",
    [
        'drive["kind"] == "twin"',
        'drive["kind"] not in {"twin", "archive"}',
        '"block" == kind',
        'table["drive_kind"].eq("twin")',
        'WORDS = {"twin": "a simulated drive", "file": "a file"}',
        'match kind:\n    case "file" | "block":\n        pass',
    ],
)
def test_a_comparison_with_a_kind_is_found(text: str) -> None:
    assert kind_comparisons(text)


def test_only_the_table_and_the_drives_refer_to_a_kind_by_its_name() -> None:
    # in `calls`, "file" is a file that a program has opened
    apart = {"drives", "calls"}
    modules = [path for path in PACKAGE.rglob("*.py") if path != TABLE and not apart.intersection(path.parts)]
    assert len(modules) > 50
    assert {str(path): lines for path in modules if (lines := kind_comparisons(path.read_text(encoding="utf-8")))} == {}


# in typst and notebooks: a comparison with the field `kind`, or with the quoted name of a kind
_NAMED = "|".join(f'"{name}"' for name in kinds.DRIVE_KINDS)
_COMPARED = re.compile(rf'\bkind"?\)?\s*(==|!=|in\b|not in\b)|(==|!=)\s*({_NAMED})|({_NAMED})\s*(==|!=)')


@pytest.mark.parametrize(
    "text", ['drive.kind == "twin"', 'if kind in ("file", "block")', '"block" == of(drive, "kind")']
)
def test_a_comparison_with_a_kind_is_found_in_the_paper(text: str) -> None:
    assert _COMPARED.search(text)


def test_paper_and_notebooks_do_not_refer_to_a_kind_by_its_name() -> None:
    typst = [*(ROOT / "paper").rglob("*.typ"), *PACKAGE.rglob("*.typ")]
    notebooks = [*(ROOT / "notebooks").glob("*.ipynb"), *PACKAGE.rglob("*.ipynb")]
    texts = {str(path): path.read_text(encoding="utf-8") for path in typst}
    for path in notebooks:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        texts[str(path)] = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    assert len(texts) > 8
    assert {name: found[0] for name, text in texts.items() if (found := _COMPARED.search(text))} == {}


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
