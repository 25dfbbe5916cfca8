"""Each public name of the packages has one meaning."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from support import ROOT

PACKAGES = ("src/iopatterns", "src/fio_parser_json", "src/twin", "notebooks")
# Names with the same meaning in every module that defines them: click, `python -m` and type checkers look for them
PROTOCOLS = {"command", "main", "TYPE_CHECKING"}


def public_names(module: ast.Module) -> Iterator[str]:
    """Yield the public names that the top level of a module defines."""
    for node in module.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name)):
                names = [name]
            case _:
                names = []
        yield from (name for name in names if not name.startswith("_"))


def modules() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


def test_no_public_name_is_defined_in_two_modules() -> None:
    places = defaultdict(set)
    for path in modules():
        for name in public_names(ast.parse(path.read_text(encoding="utf-8"))):
            places[name].add(str(path.relative_to(ROOT)))
    ambiguous = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1 and name not in PROTOCOLS}
    assert ambiguous == {}
