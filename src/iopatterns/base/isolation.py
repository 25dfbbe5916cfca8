"""Keep modules of the user from hiding modules of Python and of libraries.

A file such as ``json.py`` in the working directory or on PYTHONPATH would be imported in their place. This module
imports nothing that the interpreter has not loaded already.
"""

# pathlib, which the linter prefers, imports many modules
# ruff: noqa: PTH100, PTH109, PTH120
import os
import sys


def ignore_user_modules() -> None:
    """Search modules last in the folders of PYTHONPATH, and not in the working directory, which ``python -m`` adds.

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
    """Return the files that were imported in place of modules of Python, by the name of the module."""
    library = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
    return {
        name: file
        for name, file in files.items()
        if name in sys.stdlib_module_names and file and not os.path.realpath(file).startswith(library)
    }
