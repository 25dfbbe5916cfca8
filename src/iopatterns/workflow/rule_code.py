"""The files of the package that a script, notebook or module depends on, derived from imports."""

import ast
import functools
import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

from iopatterns.base import files

# Our packages, and the folders that hold them
_PACKAGES = {"iopatterns": "src", "fio_parser_json": "src/fio_parser_json"}
_NATIVE = "iopatterns._twin"


def dependencies_of(root: Path, *of: str) -> list[str]:
    """Return the files of the package that some scripts, notebooks and modules import, directly or not.

    Imports inside functions count, and data beside a module that have its name.

    Args:
        root: The project's folder.
        of: Paths of scripts and notebooks below `root`, and dotted names of modules.

    Returns:
        Paths below `root` in alphabetical order. A module that is named is among them.

    Raises:
        ValueError: There is no module of a name.
    """
    beside = {str(path.relative_to(root)) for path in _beside_notebooks(root, of)}
    return sorted(beside | {path for module in _modules(root, of) for path in _files(root, module)})


def native_checksum(root: Path, *of: str) -> str:
    """Return a checksum of the compiled parts of the package that some scripts, notebooks and modules use.

    Code uses a part if it imports the native module, or names the part's file. Another build of the same bytes has the
    same checksum.

    Only rules that a default run does not use have this checksum as a parameter. A cell's name depends on what is asked
    for, and raw files are the same for every build: as a parameter of all rules, each build would measure all anew.

    Args:
        root: The project's folder.
        of: Paths and names as for `dependencies_of`.
    """
    codes = list(_sources(root, of))
    paths = {path for module in _modules(root, of) for path in _files(root, module) if path.endswith(".py")}
    codes += [code for path in sorted(paths) for code in _code(root / path)]
    parts = _native_parts()
    named = {parts[name] for code in codes for name in _words(code) if name in parts}
    sums = [f"{path.name} {files.sha256(path)}" for path in sorted(named)]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _native_parts() -> dict[str, Path]:
    """Return the files that the build has installed, by what they are called in code: the native module by its name."""
    native = Path(importlib.import_module(_NATIVE).__file__ or "")
    beside = (path for path in native.parent.iterdir() if path.suffix in {"", ".so"} and path.is_file())
    return {_NATIVE if path == native else path.name: path for path in beside}


def _words(code: str) -> Iterator[str]:
    """Yield what code imports, and each text in it."""
    yield from _imported(code)
    yield from (node.value for node in _nodes(code) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _is_file(name: str) -> bool:
    """Return whether a name is that of a script or notebook, and not of a module."""
    return name.endswith((".py", ".ipynb"))


def _modules(root: Path, of: Iterable[str]) -> frozenset[str]:
    """Return the modules that some files import, and those named, with all that these import, directly or not."""
    named = {each for each in of if not _is_file(each)}
    if missing := sorted(named - _graph().modules):
        raise ValueError(f"There is no module {', '.join(missing)}.")
    imported = {module for code in _sources(root, of) for module in _imported(code)}
    return _closure(frozenset(named | imported))


def _sources(root: Path, of: Iterable[str]) -> Iterator[str]:
    """Yield the code of some scripts and notebooks, and of the modules beside the notebooks."""
    named = [root / each for each in of if _is_file(each)]
    yield from (code for file in [*named, *_beside_notebooks(root, of)] for code in _code(file))


def _beside_notebooks(root: Path, of: Iterable[str]) -> list[Path]:
    """Return the modules that lie beside some notebooks under their names."""
    modules = [(root / each).with_suffix(".py") for each in of if each.endswith(".ipynb")]
    return [module for module in modules if module.is_file()]


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
    for node in _nodes(code):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _nodes(code: str) -> Iterator[ast.AST]:
    """Yield all parts of code. A notebook cell with a command of IPython's in it cannot be read, and has none."""
    try:
        yield from ast.walk(ast.parse(code))
    except (SyntaxError, ValueError):
        return


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
