"""Which files of the package a script or notebook rests on, read out of its imports; no list is kept by hand."""

import ast
import functools
import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

# Our packages, and the folders that hold them
_PACKAGES = {"iopatterns": "src", "fio_parser_json": "src/fio_parser_json"}


def behind(root: Path, *files: str) -> list[str]:
    """Return what the package's part in some scripts and notebooks is: every module that they import, and so on.

    ``files`` and what is returned are paths below ``root``, in alphabetical order; data that lie beside a module are
    among them. Imports inside functions count like all others.
    """
    named = {module for file in files for code in _code(root / file) for module in _imported(code)}
    return sorted({path for module in _closure(frozenset(named)) for path in _files(root, module)})


def _code(file: Path) -> Iterator[str]:
    """Yield the Python code of a script, or of each code cell of a notebook; what is missing or broken has none.

    Which of a rule's inputs are missing or broken is told by the plan, once all rules are known.
    """
    try:
        text = file.read_text(encoding="utf-8")
        cells = json.loads(text)["cells"] if file.suffix == ".ipynb" else None
        found = [text] if cells is None else ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    yield from found


def _imported(code: str) -> Iterator[str]:
    """Yield the dotted names that code imports; of ``from a import b`` both, for b may be a module."""
    try:
        nodes = ast.walk(ast.parse(code))
    except (SyntaxError, ValueError):  # as a notebook may have, with a command of IPython's in it
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*_PACKAGES, cache_dir=None)


@functools.cache
def _closure(names: frozenset[str]) -> frozenset[str]:
    """Return the modules of those names, and all that they import, directly or not."""
    graph = _graph()
    there = names & graph.modules
    return frozenset(_with_packages({*there, *(up for name in there for up in graph.find_upstream_modules(name))}))


def _with_packages(modules: Iterable[str]) -> Iterator[str]:
    """Yield modules with the packages that they are in, whose own code runs first."""
    for module in modules:
        parts = module.split(".")
        yield from (".".join(parts[: count + 1]) for count in range(len(parts)))


@functools.cache
def _files(root: Path, module: str) -> tuple[str, ...]:
    """Return a module's source, and the data beside it that bear its name, such as the style of ``plots``.

    Which there are is read off the package that runs, so that one that is missing below ``root`` is missed. The native
    module has none; it is rebuilt by its own means.
    """
    package, _, rest = module.partition(".")
    here = Path(str(importlib.import_module(package).__file__)).parent
    below = root / _PACKAGES[package] / package
    place = here / rest.replace(".", "/")
    found = [place / "__init__.py"] if place.is_dir() else place.parent.glob(f"{place.name}.*")
    return tuple(
        str((below / path.relative_to(here)).relative_to(root)) for path in found if path.suffix not in {".so", ".pyi"}
    )
