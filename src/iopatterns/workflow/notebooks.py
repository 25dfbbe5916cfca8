"""Execute notebooks with checked parameters.

Notebooks import this module to find the project's folder and the module with their own code.
"""

import ast
import importlib.util
import itertools
import logging
import os
import sys
import types
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple, get_origin

import msgspec

from iopatterns.base import files, units
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.configuration import config
from iopatterns.configuration.study_files import GRID

_INJECTED = "# Parameters\n"  # the first line of the cell that papermill inserts after the parameters cell
KERNEL_NAME = "python3"  # the name in the metadata of notebooks; the kernel is always this interpreter
# Prefixes of environment variables that configure a user's own Python and Jupyter; they must not change results
_OWN_SETTINGS = ("IPYTHON", "JUPYTER", "PYTHON")
# Long enough for any notebook: the limit only ends cells that would never end
_CELL_LIMIT_S = units.parse_duration_us(config.DEFAULT_NOTEBOOK_TIME_LIMIT) // 10**6
_TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool, "list": list, "dict": dict}


class NotebookError(IoPatternsError):
    """A notebook or one of its parameters is invalid, or one of its cells failed.

    Also raised if the project's folder is not found, or if a notebook did not write a file that it should have written.
    """


class NotebookParameter(NamedTuple):
    """A parameter that a notebook declares in its cell with the tag ``parameters``.

    Attributes:
        name: The name of the variable.
        type: The declared type, such as ``float``, ``list[int]`` or ``str | None``.
        required: Whether the parameter has no default value, so that the caller must give one.
    """

    name: str
    type: Any
    required: bool


def project_root(start: Path | str | None = None) -> Path:
    """Return the project's folder: the nearest folder with a Snakefile.

    Args:
        start: The folder in which the search begins. The search continues in the folders above it. None: the working
            directory.

    Raises:
        NotebookError: Neither the folder nor a folder above it has a Snakefile.
    """
    folder = Path(start or Path.cwd()).resolve()
    for candidate in (folder, *folder.parents):
        if (candidate / "Snakefile").is_file():
            return candidate
    raise NotebookError(
        f"{folder} is not inside the project: no folder at or above it has a Snakefile. Start in the project's folder,"
        " or pass this folder to papermill with --cwd."
    )


def from_root(path: Path | str) -> Path:
    """Return the absolute path of a path relative to the project's folder.

    An absolute path is returned unchanged. The project's folder is found from the working directory, see
    `project_root`.

    In a notebook that papermill executes, the function first checks the parameters that papermill inserted. A notebook
    thus checks its parameters by calling this function.

    Raises:
        NotebookError: The project is not found, or an inserted parameter is unknown, missing or of another type.
    """
    _check_injected()
    return project_root() / path


def study_code(study: str) -> types.ModuleType:
    """Import the module ``notebooks/<study>.py``, the code of a study's notebook.

    Unlike an ``import`` statement, the function works in any working directory of the project, and for a study with a
    hyphen in its name.

    Raises:
        NotebookError: There is no such file, or the working directory is not in a project.
    """
    path = project_root() / f"notebooks/{study}.py"
    spec = importlib.util.spec_from_file_location(study, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise NotebookError(f"{path}: there is no such file. The notebook of study '{study}' needs its code.")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _check_injected() -> None:
    """Raise NotebookError if papermill inserted an invalid parameter here.

    Outside a notebook that papermill executes, the function does nothing.
    """
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    executed = shell.user_ns.get("In", []) if shell is not None else []
    for declaring, injected in itertools.pairwise(executed):
        if injected.startswith(_INJECTED):
            given = {
                statement.targets[0].id: ast.literal_eval(statement.value)
                for statement in ast.parse(injected).body
                if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
            }
            _checked_values(given, _declared_in(declaring, "papermill"), "papermill")
            return


def declared_notebook_parameters(notebook: Path | str) -> dict[str, NotebookParameter]:
    """Return the parameters that a notebook declares, by name.

    The parameters are declared in the cell with the tag ``parameters``. Each line of this cell is an annotated
    assignment, such as ``confidence: float = 0.95``. A parameter without a value, such as ``tables: str``, must be
    given when the notebook is executed.

    Raises:
        NotebookError: The notebook cannot be read, does not have exactly one such cell, or has a line in this cell that
            declares no parameter.
    """
    return _declared_parameters(_read(Path(notebook)), Path(notebook))


def execute_notebook(
    notebook: Path | str,
    executed: Path | str,
    parameters: Mapping[str, Any] | None = None,
    *,
    cell_limit_s: int = _CELL_LIMIT_S,
) -> Path:
    """Execute a notebook, and write a copy with the outputs of its cells.

    The kernel is this Python interpreter, started in the project's folder with an empty IPython profile. A user's own
    kernels, environment variables and packages therefore do not change results. The copy contains no times, and no
    paths of this machine except in the outputs of cells. If a cell fails, the copy is still written, with the
    traceback.

    Args:
        notebook: The path of the notebook. The project's folder is found from it, see `project_root`.
        executed: The path of the copy to write.
        parameters: Values of the notebook's parameters, by name. Other parameters keep their default values.
        cell_limit_s: How long each cell may run, in seconds.

    Returns:
        The path of the copy.

    Raises:
        NotebookError: The notebook cannot be read; a parameter is unknown, missing or of another type; or a cell fails
            or runs for too long. Parameters are checked before the kernel starts.
        NoRoomError: The disk with temporary files or the copy is full.
    """
    notebook, executed = Path(notebook), Path(executed)
    node = _read(notebook)
    values = _checked_values(dict(parameters or {}), _declared_parameters(node, notebook), notebook)
    root = project_root(notebook.parent)
    with TemporaryDirectory(prefix="iopatterns-") as folder:
        copy = Path(folder) / "executed.ipynb"
        (Path(folder) / "ipython").mkdir()
        try:
            _run(node, copy, values, notebook=notebook, root=root, limit_s=cell_limit_s)
        finally:
            if copy.is_file():
                _write_reproducible(copy, executed)
    return executed


def require_outputs(notebook: Path | str, declared: Iterable[str], began_s: float) -> None:
    """Raise NotebookError if a file that a notebook should have written is missing.

    The message lists the missing files, and the files that the notebook has written without a declaration.

    Args:
        notebook: The path of the notebook.
        declared: The paths of the tables, figures and numbers that the study's file declares.
        began_s: The time at which the notebook was started, in seconds since the epoch.
    """
    paths = [Path(path) for path in declared]
    missing = [path for path in paths if not path.exists()]
    if not missing:
        return
    beside = sorted({file for folder in {path.parent for path in paths} for file in folder.glob("[!.]*.*")})
    # the time of a file may be up to one tick of the kernel's timer too early
    written = [file for file in beside if file not in paths and file.stat().st_mtime >= began_s - 1]
    raise NotebookError(
        f"{notebook}: did not write {', '.join(map(str, missing))}, which"
        f" {GRID.format(study=Path(notebook).stem)} declares. Undeclared files that it wrote:"
        f" {', '.join(map(str, written)) or 'none'}. Correct `tables` and `figures` in the study's file, or the name in"
        " the notebook."
    )


def _read(notebook: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(notebook, as_version=4)
    except FileNotFoundError:
        raise NotebookError(f"{notebook}: there is no such notebook") from None
    except Exception as error:  # nbformat's errors for invalid files have no common base class
        raise NotebookError(f"{notebook}: not a notebook: {_first_line(error)}") from None


def _declared_parameters(node: Any, notebook: Path) -> dict[str, NotebookParameter]:
    # papermill.inspect_notebook ignores lines that it does not understand, and returns types as text
    cells = [cell for cell in node.cells if "parameters" in cell.metadata.get("tags", [])]
    if len(cells) != 1:
        raise NotebookError(f"{notebook}: {len(cells)} cells have the tag 'parameters'. Exactly one cell must have it.")
    return _declared_in(cells[0].source, notebook)


def _declared_in(source: str, notebook: Path | str) -> dict[str, NotebookParameter]:
    """Return the parameters that the source of a parameters cell declares, by name.

    Args:
        source: The source of the cell.
        notebook: The notebook, for error messages.

    Raises:
        NotebookError: The source is not valid Python, or a line declares no parameter.
    """
    found: dict[str, NotebookParameter] = {}
    try:
        statements = ast.parse(source).body
    except SyntaxError as error:
        raise NotebookError(f"{notebook}: the parameters cell is not valid Python: {error}") from None
    for statement in statements:
        text = ast.unparse(statement)
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            raise NotebookError(
                f"{notebook}, parameters cell: '{text}' is not a typed parameter such as 'level: float = 0.95'"
            )
        name, parameter_type = statement.target.id, _type(statement.annotation, f"{notebook}: '{text}'")
        found[name] = NotebookParameter(name, parameter_type, statement.value is None)
    return found


def _type(node: ast.expr, where: str) -> Any:
    """Return the type that an annotation names.

    Only types that JSON and YAML have are valid.

    Args:
        node: The annotation.
        where: The beginning of an error message.

    Raises:
        NotebookError: The annotation names another type.
    """
    match node:
        case ast.Constant(value=None):
            return type(None)
        case ast.Name(id=name) if name in _TYPES:
            return _TYPES[name]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return _type(left, where) | _type(right, where)
        case ast.Subscript(value=ast.Name(id="list"), slice=inner):
            return types.GenericAlias(list, (_type(inner, where),))
    valid = ", ".join(_TYPES)
    raise NotebookError(f"{where}: unknown type {ast.unparse(node)}. Valid types: {valid}, list[...] and X | None.")


def _checked_values(
    given: dict[str, Any], declared: Mapping[str, NotebookParameter], notebook: Path | str
) -> dict[str, Any]:
    """Return the given values of parameters, checked and in the order of declaration.

    An integer is converted if the notebook declares a float.

    Args:
        given: The values by name.
        declared: The declared parameters by name.
        notebook: The notebook, for error messages.

    Raises:
        NotebookError: A parameter is unknown, missing or of another type.
    """
    for name in given:
        if name not in declared:
            hint = did_you_mean(name, declared) or f" Parameters: {', '.join(declared)}."
            raise NotebookError(f"{notebook}: the notebook has no parameter {name!r}.{hint}")
    for parameter in declared.values():
        if parameter.required and parameter.name not in given:
            raise NotebookError(f"{notebook}: the parameter {parameter.name!r} has no default and must be given")
    return {
        name: _converted(given[name], parameter.type, f"{notebook}: the parameter {name!r}")
        for name, parameter in declared.items()
        if name in given
    }


def _converted(value: Any, wanted: Any, where: str) -> Any:
    """Return a value as the declared type.

    Only an integer is converted, to a float. Other values must have the type.

    Args:
        value: The value.
        wanted: The declared type.
        where: The beginning of an error message.

    Raises:
        NotebookError: The value is of another type.
    """
    try:
        return msgspec.convert(value, wanted)
    except msgspec.ValidationError:
        name = wanted.__name__ if isinstance(wanted, type) and get_origin(wanted) is None else str(wanted)
        raise NotebookError(
            f"{where} must be of type {name}, but {value!r} is of type {type(value).__name__}"
        ) from None


def _run(node: Any, copy: Path, values: dict[str, Any], *, notebook: Path, root: Path, limit_s: int) -> None:
    # importing papermill takes two seconds, which a wrong parameter should not wait for
    import papermill
    from nbclient.exceptions import CellTimeoutError
    from papermill.exceptions import PapermillExecutionError

    # papermill logs a parameter without a default as unknown
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
            execution_timeout=limit_s,
            kernel_manager_class=_kernel_manager(copy.parent),
            extra_arguments=[f"--ipython-dir={copy.parent / 'ipython'}", "--log-level=ERROR"],
        )
    except PapermillExecutionError as error:
        what = f"{error.ename}: {error.evalue}".strip().splitlines()[0]
        raise NotebookError(f"{notebook}: {_cell_name(error.exec_count, error.source)} failed: {what}") from None
    except CellTimeoutError:
        raise NotebookError(
            f"{notebook}: {_last_cell(copy)} was stopped after {units.format_duration(limit_s)}, the limit for a cell."
            " If it only computes for long, raise notebook_time_limit in config/config.yaml"
        ) from None
    except Exception as error:  # such as a kernel that does not start or dies
        files.require_room(copy.parent)
        raise NotebookError(f"{notebook}: not executed: {_first_line(error)}") from error


def _cell_name(number: int, source: str) -> str:
    """Return how messages name a cell, such as ``cell 3 (import numpy)``.

    Args:
        number: The execution count of the cell.
        source: The code of the cell.
    """
    first = next((line for line in source.splitlines() if line.strip()), "")
    return f"cell {number} ({first.strip()})"


def _last_cell(copy: Path) -> str:
    """Return the name of the last cell that papermill started.

    Args:
        copy: The notebook as papermill wrote it.
    """
    started = [
        cell
        for cell in _read(copy).cells
        if cell.cell_type == "code" and cell.metadata.get("papermill", {}).get("start_time")
    ]
    return _cell_name(len(started), started[-1].source)


def _kernel_manager(folder: Path) -> type:
    """Return a class of Jupyter kernel managers that start this Python interpreter.

    Args:
        folder: The folder for the kernel's connection file.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    # -I: without PYTHONPATH and without packages of the user's account
    command = [sys.executable, "-I", "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = KernelSpec(argv=command, display_name=KERNEL_NAME, language="python")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OWN_SETTINGS)}

    class OwnKernel(AsyncKernelManager):
        """A kernel manager that starts this interpreter for every kernel name."""

        kernel_spec = spec

        def __init__(self, **keywords: Any) -> None:
            super().__init__(connection_file=str(folder / "connection.json"), **keywords)

        async def _async_pre_start_kernel(self, **keywords: Any) -> Any:
            return await super()._async_pre_start_kernel(**{**keywords, "env": environment})

    return OwnKernel


def _write_reproducible(copy: Path, executed: Path) -> None:
    """Write an executed notebook without data that differ between equal runs.

    Args:
        copy: The notebook as papermill wrote it.
        executed: The file to write.
    """
    import nbformat

    node = _read(copy)
    node.metadata.pop("papermill", None)
    node.metadata.pop("widgets", None)  # random names; sliders need a running kernel anyway
    node.metadata.get("language_info", {}).pop("version", None)
    for number, cell in enumerate(node.cells):
        cell.metadata.pop("papermill", None)
        for output in cell.get("outputs", ()):
            output.get("data", {}).pop("application/vnd.jupyter.widget-view+json", None)
        tags = cell.metadata.get("tags", [])
        if not tags:
            cell.metadata.pop("tags", None)  # papermill adds an empty list to each cell
        if "injected-parameters" in tags:
            cell.id = "injected-parameters"  # papermill's id is random
        elif "papermill-error-cell-tag" in tags:
            cell.id = f"error-{number}"
    files.write_atomically(executed, lambda temporary: nbformat.write(node, temporary))


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
