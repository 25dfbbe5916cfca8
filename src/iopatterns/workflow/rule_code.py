"""The files of the package that a script, notebook or module depends on.

Snakemake reruns a rule if one of its inputs changes. The rules declare these files as inputs.
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
    """Return the files of the packages that scripts, notebooks and modules import.

    Indirect imports and imports in functions count. A data file beside a module, with the module's name, counts as a
    part of the module.

    Args:
        root: The project's folder.
        names: Paths of scripts and notebooks relative to `root`, and dotted names of modules.

    Returns:
        Paths relative to `root` in alphabetical order, including the files of the named modules.

    Raises:
        ValueError: A named module does not exist.
    """
    beside = {str(path.relative_to(root)) for path in _modules_beside_notebooks(root, names)}
    return sorted(beside.union(*(_files(root, module) for module in _modules(root, names))))


def native_checksum(root: Path, *names: str) -> str:
    """Return a checksum of the compiled parts that scripts and modules use.

    Code uses a part if it imports the native module, or contains the name of the part's file. Builds with the same
    bytes have the same checksum.

    Only rules outside the default run have this checksum as a parameter. Every build gives the same raw files, so that
    a new build is no reason to measure again.

    Args:
        root: The project's folder.
        names: Paths and names as for `dependencies_of`.
    """
    sources = [path for path in dependencies_of(root, *names) if path.endswith(".py")]
    codes = [*_codes(root, names), *(code for path in sources for code in _code(root / path))]
    parts = _native_parts()
    used = {parts[name] for code in codes for name in (*_imports(code), *_texts(code)) if name in parts}
    sums = [f"{path.name} {files.sha256(path)}" for path in sorted(used)]
    return hashlib.sha256("\n".join(sums).encode()).hexdigest()


def _native_parts() -> dict[str, Path]:
    """Return the installed compiled files, by the names that code uses.

    These are the name of the native module, and file names.
    """
    native = Path(importlib.import_module(_NATIVE).__file__ or "")
    beside = (path for path in native.parent.iterdir() if path.suffix in {"", ".so"} and path.is_file())
    return {_NATIVE if path == native else path.name: path for path in beside}


def _is_file(name: str) -> bool:
    return name.endswith((".py", ".ipynb"))


def _modules(root: Path, names: Iterable[str]) -> frozenset[str]:
    """Return the named modules, and all modules that are imported.

    Modules of other packages are left out.
    """
    modules = {name for name in names if not _is_file(name)}
    if missing := sorted(modules - _graph().modules):
        raise ValueError(f"There is no module {', '.join(missing)}.")
    return _closure(frozenset(modules.union(*(_imports(code) for code in _codes(root, names)))))


def _codes(root: Path, names: Iterable[str]) -> Iterator[str]:
    """Yield the code of named scripts and notebooks, and modules beside them."""
    for file in [*(root / name for name in names if _is_file(name)), *_modules_beside_notebooks(root, names)]:
        yield from _code(file)


def _modules_beside_notebooks(root: Path, names: Iterable[str]) -> list[Path]:
    """Return the existing modules that have the name and folder of a named notebook."""
    modules = [(root / name).with_suffix(".py") for name in names if name.endswith(".ipynb")]
    return [module for module in modules if module.is_file()]


def _code(file: Path) -> list[str]:
    """Return the code of a script, or of each code cell of a notebook.

    A missing or invalid file has no code.

    `entry.require_sources` reports missing and invalid files once all rules are known.
    """
    try:
        text = file.read_text(encoding="utf-8")
        if file.suffix != ".ipynb":
            return [text]
        return ["".join(cell["source"]) for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _imports(code: str) -> Iterator[str]:
    """Yield the dotted names that code imports.

    ``from a import b`` yields ``a`` and ``a.b``, which may be a module.
    """
    for node in _nodes(code):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _texts(code: str) -> Iterator[str]:
    """Yield each string constant in code."""
    yield from (node.value for node in _nodes(code) if isinstance(node, ast.Constant) and isinstance(node.value, str))


def _nodes(code: str) -> Iterator[ast.AST]:
    """Yield the syntax nodes of code.

    Code that is not plain Python, such as a cell with an IPython command, has none.
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
    """Return the modules among some names with everything that they import.

    The packages of all these modules are included, because Python runs their code first.
    """
    graph = _graph()
    modules = names & graph.modules
    modules = modules.union(*(graph.find_upstream_modules(name) for name in modules))
    parts = [module.split(".") for module in modules]
    return frozenset(".".join(each[:count]) for each in parts for count in range(1, len(each) + 1))


@functools.cache
def _files(root: Path, module: str) -> tuple[str, ...]:
    """Return the source of a module and the data files with its name.

    An example of a data file is the style file of ``plots``.

    The files are listed in the package that runs, so that a file that is missing below `root` is found missing. The
    native module has no files: its build is not a matter of the workflow.
    """
    package, _, rest = module.partition(".")
    here = Path(str(importlib.import_module(package).__file__)).parent
    below = root / _PACKAGES[package] / package
    place = here / rest.replace(".", "/")
    found = [place / "__init__.py"] if place.is_dir() else place.parent.glob(f"{place.name}.*")
    return tuple(
        str((below / path.relative_to(here)).relative_to(root)) for path in found if path.suffix not in {".so", ".pyi"}
    )
