"""Executes the analysis notebooks: parameters checked first, then papermill, then one clear error or none."""

import ast
import hashlib
import importlib.util
import itertools
import json
import logging
import os
import sys
import types
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_origin

import msgspec

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration.study_files import GRID

_INJECTED = "# Parameters\n"  # with which the cell begins that papermill puts behind a notebook's own
KERNEL_NAME = "python3"  # the name that notebooks have for it; which one it is, no search decides
# What users set for their own interpreters and notebooks, and what starts code or changes imports in a kernel
_OWN_SETTINGS = ("IPYTHON", "JUPYTER", "PYTHON")
_TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}


class NotebookError(IoPatternsError):
    """A notebook has a wrong parameter, or failed; the message names the notebook and the cell."""


class NotebookParameter(NamedTuple):
    """One line of a parameters cell: name, type (``float``, ``list[int]``, ``str | None``)."""

    name: str
    type: Any
    required: bool


def project_root(start: Path | str | None = None) -> Path:
    """Return the nearest folder at or above ``start`` that holds the Snakefile.

    ``start`` is the working directory by default. Raises NotebookError if there is none.
    """
    folder = Path(start if start is not None else Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / "Snakefile").is_file():
            return candidate
    raise NotebookError(
        f"{folder} is not inside the project: no folder at or above it holds a Snakefile. Start in the project's"
        " folder, or give papermill that folder with --cwd."
    )


def from_root(path: Path | str) -> Path:
    """Return ``path``, in the project's folder if it is relative, wherever the notebook was started.

    Where papermill was called by itself, which takes any parameter, those that it was given are checked first. Raises
    NotebookError.
    """
    _check_injected()
    return project_root() / path


def study_code(study: str) -> types.ModuleType:
    """Return the module ``notebooks/<study>.py``: the code that only the notebook of a study needs.

    An ``import`` would find the module in some working directories only, and no study with a hyphen in its name.
    Raises NotebookError if there is no such file.
    """
    path = project_root() / f"notebooks/{study}.py"
    spec = importlib.util.spec_from_file_location(study, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise NotebookError(f"{path}: there is no such file. It holds the code of the notebook of study '{study}'.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_injected() -> None:
    """Raise NotebookError where papermill has put parameters into this kernel that its notebook does not declare."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    executed = shell.user_ns.get("In", []) if shell is not None else []
    for declaring, injected in itertools.pairwise(executed):
        if injected.startswith(_INJECTED):
            given = {}
            for statement in ast.parse(injected).body:
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                    given[statement.targets[0].id] = ast.literal_eval(statement.value)
            _checked(given, _declared(declaring, "papermill"), "papermill")
            return


def source_sha256(notebook: Path | str) -> str:
    """Return the SHA-256 of what a notebook executes: types, tags and sources of its cells, without their outputs.

    Empty for a file that is missing or no notebook: the check of all inputs reports it.
    """
    try:
        cells = json.loads(Path(notebook).read_text(encoding="utf-8"))["cells"]
        executed = [
            (cell["cell_type"], cell["metadata"].get("tags", []), "".join(cell["source"]))
            for cell in cells
            if cell["cell_type"] == "code"
        ]
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return ""
    return hashlib.sha256(json.dumps(executed).encode()).hexdigest()


def declared_notebook_parameters(notebook: Path | str) -> dict[str, NotebookParameter]:
    """Return the parameters that a notebook declares in its cell tagged ``parameters``, in their order.

    Each is an annotated assignment, ``confidence: float = 0.95``; without a value it must be given on
    execution. Raises NotebookError for a notebook without such a cell, or with a line in it that declares
    nothing.
    """
    return _parameters(_read(Path(notebook)), Path(notebook))


def execute_notebook(
    notebook: Path | str,
    executed: Path | str,
    parameters: Mapping[str, Any] | None = None,
    *,
    timeout_s: int | None = None,
) -> Path:
    """Execute ``notebook`` with ``parameters``, write the executed copy to ``executed`` and return that path.

    The kernel is this very interpreter, started in the project's folder with an empty IPython profile: no kernel,
    variable or package that a user has set up for interpreters or notebooks of their own changes a result.
    ``timeout_s`` limits each cell. The copy holds no times and no paths of this machine other than those that cells
    print; a failing notebook leaves it too, traceback included. Raises NotebookError: before the kernel starts for a
    parameter that is unknown, missing or of another type, afterwards for a cell that fails.
    """
    notebook, executed = Path(notebook), Path(executed)
    node = _read(notebook)
    values = _checked(dict(parameters or {}), _parameters(node, notebook), notebook)
    root = project_root(notebook.parent)
    with TemporaryDirectory(prefix="iopatterns-") as folder:
        copy = Path(folder) / "executed.ipynb"
        (Path(folder) / "ipython").mkdir()
        try:
            _run(node, copy, values, notebook=notebook, root=root, timeout_s=timeout_s)
        finally:
            if copy.is_file():
                _keep(copy, executed)
    return executed


def require_outputs(notebook: Path | str, declared: Iterable[str], began_s: float) -> None:
    """Raise NotebookError unless an executed notebook has written all files that its study declares.

    Snakemake alone would suspect a slow file system. ``began_s`` is the time at which the notebook began: the message
    lists the files that were written since then.
    """
    paths = [Path(path) for path in declared]
    missing = [path for path in paths if not path.exists()]
    if not missing:
        return
    beside = sorted({file for folder in {path.parent for path in paths} for file in folder.glob("[!.]*.*")})
    # file systems keep times in steps, Linux in those of its timer
    written = [file for file in beside if file not in paths and file.stat().st_mtime >= began_s - 1]
    study = Path(notebook).stem
    raise NotebookError(
        f"{notebook}: does not write {', '.join(map(str, missing))}, which {GRID.format(study=study)} declares."
        f" It writes {', '.join(map(str, written)) or 'nothing'} besides what is declared. Correct `tables` and"
        " `figures` there, or the name that the notebook gives."
    )


def _read(notebook: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(notebook, as_version=4)
    except FileNotFoundError:
        raise NotebookError(f"{notebook}: there is no such notebook") from None
    except Exception as error:  # nbformat has no common base for what a broken file makes it raise
        raise NotebookError(f"{notebook}: not a notebook: {_one_line(error)}") from None


def _parameters(node: Any, notebook: Path) -> dict[str, NotebookParameter]:
    # not by papermill.inspect_notebook, which passes over lines that it does not understand, and types as we write them
    cells = [cell for cell in node.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise NotebookError(f"{notebook}: {len(cells)} cells are tagged 'parameters'; there must be one")
    return _declared(cells[0].source, notebook)


def _declared(source: str, notebook: Path | str) -> dict[str, NotebookParameter]:
    """Return the parameters that the source of a parameters cell declares."""
    found: dict[str, NotebookParameter] = {}
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise NotebookError(f"{notebook}: the parameters cell is no valid Python: {error}") from None
    for statement in statements:
        text = ast.unparse(statement)
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            raise NotebookError(
                f"{notebook}, parameters cell: '{text}' is no typed parameter like 'level: float = 0.95'"
            )
        name = statement.target.id
        found[name] = NotebookParameter(
            name, _type(statement.annotation, f"{notebook}: '{text}'"), statement.value is None
        )
    return found


def _type(node: ast.expr, where: str) -> Any:
    """Return the type that an annotation spells; only types that JSON and YAML have are known."""
    match node:
        case ast.Constant(value=None):
            return type(None)
        case ast.Name(id=name) if name in _TYPES:
            return _TYPES[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _type(left, where) | _type(right, where)
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return types.GenericAlias(list, (_type(inner, where),))
    known = ", ".join(_TYPES)
    raise NotebookError(f"{where}: the type {ast.unparse(node)} is unknown; known are {known}, list[...] and X | None")


def _checked(given: dict[str, Any], declared: Mapping[str, NotebookParameter], notebook: Path | str) -> dict[str, Any]:
    """Return the values to inject, in the order in which the notebook declares them."""
    for name in given:
        if name not in declared:
            nearest = get_close_matches(name, declared, n=1)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"it has {', '.join(declared)}"
            raise NotebookError(f"{notebook}: the notebook has no parameter {name!r}; {hint}")
    for parameter in declared.values():
        if parameter.required and parameter.name not in given:
            raise NotebookError(f"{notebook}: the parameter {parameter.name!r} must be given; it has no default")
    return {
        name: _converted(given[name], parameter.type, f"{notebook}: the parameter {name!r}")
        for name, parameter in declared.items()
        if name in given
    }


def _converted(value: Any, wanted: Any, where: str) -> Any:
    """Return ``value`` as the type wanted; an integer becomes a float, nothing else is converted."""
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        name = wanted.__name__ if isinstance(wanted, type) and get_origin(wanted) is None else str(wanted)
        raise NotebookError(
            f"{where} must be of type {name}, but {value!r} is of type {type(value).__name__}"
        ) from None


def _run(node: Any, copy: Path, values: dict[str, Any], *, notebook: Path, root: Path, timeout_s: int | None) -> None:
    # papermill takes two seconds to import; a wrong parameter is told without it
    import papermill
    from papermill.exceptions import PapermillExecutionError

    # it calls a parameter without a default unknown; what it logs besides is of no use here
    logging.getLogger("papermill").setLevel(logging.ERROR)
    try:
        papermill.execute_notebook(
            node,
            copy,
            values,
            kernel_name=KERNEL_NAME,
            language="python",
            cwd=root,
            progress_bar=False,
            record_timing=False,
            execution_timeout=timeout_s,
            kernel_manager_class=_kernel_manager(copy.parent),
            extra_arguments=[f"--ipython-dir={copy.parent / 'ipython'}", "--log-level=ERROR"],
        )
    except PapermillExecutionError as error:
        first = next((line for line in error.source.splitlines() if line.strip()), "")
        what = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
        raise NotebookError(f"{notebook}: cell {error.exec_count} ({first.strip()}) failed: {what}") from None
    except Exception as error:  # no kernel, a kernel that dies, a cell that takes too long
        raise NotebookError(f"{notebook}: not executed: {_one_line(error)}") from error


def _kernel_manager(folder: Path) -> type:
    """Return a manager whose kernel is this interpreter, whatever kernels there are; its files lie in ``folder``."""
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    # isolated: neither PYTHONPATH nor packages of the user's own account
    command = [sys.executable, "-I", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = KernelSpec(argv=command, display_name=KERNEL_NAME, language="python")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_SETTINGS)}

    class OwnKernel(AsyncKernelManager):
        """Starts this interpreter, and nothing that is found elsewhere."""

        kernel_spec = spec

        def __init__(self, **keywords: Any) -> None:
            super().__init__(connection_file=str(folder / "connection.json"), **keywords)

        async def _async_pre_start_kernel(self, **keywords: Any) -> Any:
            return await super()._async_pre_start_kernel(**{**keywords, "env": environment})

    return OwnKernel


def _keep(copy: Path, executed: Path) -> None:
    """Write the executed copy to its place, without what differs from one run or machine to the next."""
    import nbformat

    node = _read(copy)
    node.metadata.pop("papermill", None)
    node.metadata.pop("widgets", None)  # bears random names, and what sliders show is the kernel's
    node.metadata.get("language_info", {}).pop("version", None)
    for number, cell in enumerate(node.cells):
        cell.metadata.pop("papermill", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
        tags = cell.metadata.get("tags", [])
        if not tags:
            cell.metadata.pop("tags", None)  # papermill adds an empty list to each cell
        if "injected-parameters" in tags:
            cell.id = "injected-parameters"  # papermill's own is random
        elif "papermill-error-cell-tag" in tags:
            cell.id = f"error-{number}"
    files.write_atomically(executed, lambda temporary: nbformat.write(node, temporary))


def _one_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
