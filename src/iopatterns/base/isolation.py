"""Keep modules of the user from hiding modules of Python and of libraries.

Python would import a file such as ``json.py`` from the working directory or from PYTHONPATH in place of its own module
of this name. The module `isolation` imports nothing that the interpreter has not loaded already.
"""

# pathlib, which the linter prefers, imports many modules
# ruff: noqa: PTH100, PTH109, PTH120
import os
import sys


def ignore_user_modules() -> None:
    """Prevent modules of the user from hiding modules of Python and of libraries.

    Modules in the folders of PYTHONPATH are found only if no other folder has a module of this name. Modules in the
    working directory, which ``python -m`` adds to the search path, are not found.

    Modules that are already imported stay, so that this function must be called before other imports. The environment
    does not change, because `twin run` passes it to the user's program.
    """
    try:
        here = os.getcwd()
    except FileNotFoundError:
        here = ""
    if sys.path[:1] == [here]:
        del sys.path[0]
    given = {os.path.abspath(folder) for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder}
    # not removed: PYTHONPATH may contain the source code of an editable installation
    sys.path.sort(key=given.__contains__)


def hiding_files() -> dict[str, str]:
    """Return files that were imported in place of Python's standard modules.

    Returns:
        The path of each such file, by the name of the module, such as ``{"json": "/home/me/json.py"}``.
    """
    library = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return {
        name: file
        for name, file in files.items()
        if name in sys.stdlib_module_names and file and not os.path.realpath(file).startswith(library)
    }
