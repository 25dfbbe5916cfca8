"""Paths of models, of built files, and of the state folders of simulated drives.

This module imports only fast standard modules, because `twin run` imports it first.
"""

import os
import sys

# A state folder contains:
# `model`           the parameters in the form that the simulated drive reads
# `model.source`    the model file, options and library from which `model` was made
# `model-<number>`  and `model-<number>.source`: the same for one combination of --set options
# `mode-pages`      the drive's current and saved settings
# `content`         the written data, with --keep-data
SETTINGS_FILE = "mode-pages"

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes too long


def models_folder() -> str:
    """Return the folder of the models: data/twins, or a folder of the package."""
    checkout = os.path.join(_HERE, "..", "..", "..", "data", "twins")  # noqa: PTH118
    folder = checkout if os.path.isdir(checkout) else os.path.join(_HERE, "..", "models")  # noqa: PTH112, PTH118
    return os.path.normpath(folder)


def model_file_path(name: str) -> str:
    """Return the path of a model's file, whether or not the file exists.

    Args:
        name: Name of a model in `models_folder`, or the path of a model file.
    """
    if "/" in name or name.endswith(".yaml"):
        return name
    return os.path.join(models_folder(), f"{name.lower()}.yaml")  # noqa: PTH118


def model_name(path: str) -> str:
    """Return the name of the model in a file, such as ``px05smb040``."""
    return os.path.basename(path).removesuffix(".yaml")  # noqa: PTH119


def default_state_folder(path: str) -> str:
    """Return the default state folder for a model file, in the user's home."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "iopatterns", "twins", model_name(path))  # noqa: PTH118


def installed_file(name: str) -> str:
    """Return the path of a library or program that the build installs in the package.

    Raises:
        FileNotFoundError: The file is not installed.
    """
    for folder in sys.path:
        path = os.path.join(folder, "iopatterns", name)  # noqa: PTH118
        if os.path.exists(path):  # noqa: PTH110
            return path
    raise FileNotFoundError(f"{name} is not installed. Run ./reproduce.sh setup.")


def preload_library() -> str:
    """Return the path of the library that redirects I/O to a simulated drive."""
    return installed_file("libtwin_preload.so")
