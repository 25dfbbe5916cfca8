"""Find the source files that a script, notebook or module depends on.

The Snakemake rules declare these files as inputs, so that Snakemake reruns a rule when its code changes.
"""

import ast
import functools
import hashlib
import importlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

from iopatterns.base import files

# The packages of the project, and the folders that contain them
_PACKAGES = {"iopatterns": "src", "fio_parser_json": "src/fio_parser_json"}
_NATIVE = "iopatterns._twin"


def dependencies_of(root: Path, *names: str) -> list[str]:
    """Return the project's source files that scripts, notebooks and modules import.

    Indirect imports and imports within functions count. A data file with the folder and name of a module, such as
    ``plots.mplstyle`` beside ``plots.py``, counts as a part of this module.

    Args:
        root: The project's folder.
        names: Paths of scripts and notebooks relative to `root`, such as ``notebooks/kapoor.ipynb``, and dotted names
            of modules, such as ``iopatterns.study``.

    Returns:
        Paths relative to `root` in alphabetical order. The files of the named modules are included, and so is the
        module beside a notebook (``notebooks/kapoor.py``). The named scripts and notebooks, and packages outside the
        project, are left out.

    Raises:
        ValueError: A named module does not exist.
    """
    beside = {str(path.relative_to(root)) for path in _modules_beside_notebooks(root, names)}
    return sorted(beside.union(*(_files(root, module) for module in _modules(root, names))))


def native_checksum(root: Path, *names: str) -> str:
    """Return a SHA-256 of the compiled files that scripts and modules use.

    The compiled files are the native module ``iopatterns._twin``, and the programs and libraries in its folder. Code
    uses the native module if the code imports it. Code uses a program or library if a string in the code is the name of
    its file. Code that is imported counts, too.

    A rule with this checksum as a parameter runs again after a new build.

    Args:
        root: The project's folder.
        names: Paths of scripts and notebooks relative to `root`, and dotted names of modules.

    Raises:
        ValueError: A named module does not exist.
    """
    sources = [path for path in dependencies_of(root, *names) if path.endswith(".py")]
    codes = [*_codes(root, names), *(code for path in sources for code in _code(root / path))]
    parts = _native_parts()
    used = {parts[name] for code in codes for name in (*_imports(code), *_texts(code)) if name in parts}
    sums = [f"{path.name} {files.sha256(path)}" for path in sorted(used)]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _native_parts() -> dict[str, Path]:
    """Return the paths of the compiled files, by the name that code uses for each.

    This is the dotted name of the native module, and the file name of every other file.
    """
    native = Path(importlib.import_module(_NATIVE).__file__ or "")
    beside = (path for path in native.parent.iterdir() if path.suffix in {"", ".so"} and path.is_file())
    return {_NATIVE if path == native else path.name: path for path in beside}


def _is_file(name: str) -> bool:
    return name.endswith((".py", ".ipynb"))


def _modules(root: Path, names: Iterable[str]) -> frozenset[str]:
    """Return the modules of the project that scripts, notebooks and modules import.

    Indirect imports count, and the named modules are included. The modules are dotted names.

    Raises:
        ValueError: A named module does not exist.
    """
    modules = {name for name in names if not _is_file(name)}
    if missing := sorted(modules - _graph().modules):
        raise ValueError(f"There is no module {', '.join(missing)}.")
    return _closure(frozenset(modules.union(*(_imports(code) for code in _codes(root, names)))))


def _codes(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Yield the code of scripts and notebooks, and of modules beside notebooks.

    A notebook yields each of its code cells.
    """
    for file in [*(root / name for name in names if _is_file(name)), *_modules_beside_notebooks(root, names)]:
        yield from _code(file)


def _modules_beside_notebooks(root: Path, names: Iterable[str]) -> list[Path]:
    """Return the existing modules that belong to notebooks.

    The module of ``notebooks/NAME.ipynb`` is ``notebooks/NAME.py``.

    Args:
        root: The project's folder.
        names: Paths of notebooks. Other paths and names are ignored.
    """
    modules = [(root / name).with_suffix(".py") for name in names if name.endswith(".ipynb")]
    return [module for module in modules if module.is_file()]


def _code(file: Path) -> list[str]:
    """Return the code of a script (one text) or of a notebook (a text for each cell).

    The list is empty for a missing or invalid file, which `entry.require_sources` reports once all rules are known.
    """
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix != ".ipynb":
            return [text]
        return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _imports(code: str) -> Iterator[str]:
    """Yield the dotted names that Python code imports.

    ``from a import b`` yields ``a`` and ``a.b``, because ``a.b`` may be a module.
    """
    for node in _nodes(code):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _texts(code: str) -> Iterator[str]:
    """Yield each string constant in Python code."""
    yield from (node.value for node in _nodes(code) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _nodes(code: str) -> Iterator[ast.AST]:
    """Yield all nodes of the syntax tree of Python code.

    Code that is not plain Python, such as a notebook cell with an IPython command, yields none.
    """
    try:
        yield from ast.walk(ast.parse(code))
    except (SyntaxError, ValueError):
        return


@functools.cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*_PACKAGES, cache_dir=None)


@functools.cache
def _closure(names: frozenset[str]) -> frozenset[str]:
    """Return modules with everything that they import, directly or not.

    The packages that contain the modules are included, because Python runs the code of a package first.

    Args:
        names: Dotted names. Names that are no modules of the project are ignored.
    """
    graph = _graph()
    modules = names & graph.modules
    modules = modules.union(*(graph.find_upstream_modules(name) for name in modules))
    parts = [module.split(".") for module in modules]
    return frozenset(".".join(each[:count]) for each in parts for count in range(1, len(each) + 1))


@functools.cache
def _files(root: Path, module: str) -> tuple[str, ...]:
    """Return the paths of a module's source and of the data files with its name.

    An example of a data file is the style file of ``plots``. The native module has no files, because the workflow does
    not build it.

    The files are listed in the installed package. If one of them is missing below `root`, its path is therefore still
    returned, and Snakemake reports it.

    Args:
        root: The project's folder.
        module: The dotted name of the module.

    Returns:
        Paths relative to `root`.
    """
    package, _, rest = module.partition(".")
    here = Path(str(importlib.import_module(package).__file__)).parent
    below = root / _PACKAGES[package] / package
    place = here / rest.replace(".", "/")
    found = [place / "__init__.py"] if place.is_dir() else place.parent.glob(f"{place.name}.*")
    return tuple(
        str((below / path.relative_to(here)).relative_to(root)) for path in found if path.suffix not in {".so", ".pyi"}
    )
