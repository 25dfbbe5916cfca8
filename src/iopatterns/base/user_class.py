"""Import of a class from a Python file of the user."""

import importlib.util
from pathlib import Path
from typing import TypeVar

from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable

_Class = TypeVar("_Class")


def load_class(name: str, base: type[_Class], error_type: type[IoPatternsError]) -> type[_Class]:
    """Import a class of the user, and return the class.

    The Python file is executed.

    Args:
        name: Python file and class, as ``FILE.py:CLASS``, such as ``sandia.py:SandiaLog``.
        base: The class from which the class of the user must derive.
        error_type: Type of the errors.

    Raises:
        IoPatternsError: An error of ``error_type``: the file cannot be imported, or does not contain such a class.
    """
    path, colon, class_name = name.rpartition(":")
    if not (colon and path.endswith(".py") and class_name):
        raise error_type(f"'{printable(name)}' is not an adapter. Give it as FILE.py:CLASS.")
    if not Path(path).is_file():
        raise error_type(f"{printable(path)}: no such file. Give the adapter as FILE.py:CLASS.")
    spec = importlib.util.spec_from_file_location("iopatterns_adapter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the user's module may raise anything
        raise error_type(
            f"{printable(path)}: cannot be imported: {type(error).__name__}: {printable(error)}"
        ) from error
    found = getattr(module, class_name, None)
    if not (isinstance(found, type) and issubclass(found, base)):
        raise error_type(f"{printable(path)}: no class '{printable(class_name)}' that derives from {base.__name__}")
    return found
