"""The drawings and the table of the architecture page agree with the code."""

import ast
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from support import ROOT, script


@pytest.fixture(scope="module")
def drawing() -> ModuleType:
    return script(ROOT / "docs/images/draw_architecture.py")


def defined(tree: ast.AST) -> Iterator[str]:
    """Yield the functions, classes and constants that a Python file defines."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def test_drawings_and_table_are_up_to_date(drawing: ModuleType) -> None:
    remedy = "python docs/images/draw_architecture.py renews the drawings and the table"
    for name, file in drawing.DRAWINGS.items():
        assert (ROOT / file).read_text(encoding="utf-8") == getattr(drawing, name)(), remedy
    text = drawing.PAGE.read_text(encoding="utf-8")
    assert text == drawing.page(text), remedy
    assert all(file.removeprefix("docs/") in text for file in drawing.DRAWINGS.values())


def test_every_named_place_exists(drawing: ModuleType) -> None:
    missing = []
    for name, place in drawing.PLACES.items():
        text = (ROOT / place.file).read_text(encoding="utf-8")
        if place.file.endswith(".py"):
            found = place.symbol in set(defined(ast.parse(text)))
        else:
            found = re.search(rf"{re.escape(place.symbol)}\(", text) is not None
        if not (found and (ROOT / place.test).is_file()):
            missing.append(name)
    assert missing == []


def test_every_place_is_shown(drawing: ModuleType) -> None:
    shown = {place for _, _, place in (*drawing.CELL, *drawing.REQUEST)}
    shown |= {place for _, places in drawing.WHERE for place in places}
    assert shown == set(drawing.PLACES)


def test_folders_in_boxes_exist(drawing: ModuleType) -> None:
    named = [what.partition(":")[0] for _, what, _ in drawing.CELL if "/" in what]
    made = ("data/raw", "results")  # by a run
    assert [path for path in named if not path.startswith(made) and not (ROOT / path.split()[0]).exists()] == []


def test_text_wider_than_its_box_is_refused(drawing: ModuleType) -> None:
    with pytest.raises(ValueError, match="shorten the text"):
        list(drawing._box(0, 0, 1, ("A title", "words " * 20, "grid")))


def test_layers_are_those_of_the_contract_and_the_build(drawing: ModuleType) -> None:
    layers = [name for each in drawing.package_layers() for name in each.split(" | ")]
    package = ROOT / "src/iopatterns"
    there = {path.parent.name for path in package.glob("*/__init__.py")} | {path.stem for path in package.glob("*.py")}
    assert there - {"__init__"} == set(layers)
    folders = {path.name for path in (ROOT / "src/twin").iterdir() if path.is_dir()}
    assert folders - {"python"} == set(drawing.twin_folders())
