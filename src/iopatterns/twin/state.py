"""Where models and the state of twins lie. Imports nothing that takes time: `twin run` begins with it."""

import os
import sys

# A twin's folder has: `model` (what the simulated drive reads), `model.source` (what that was made of), two such files
# for each set of parameters given with --set (`model-<number>`), `mode-pages` (its settings), `content` (kept data).
SETTINGS_FILE = "mode-pages"

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes as long as all of this


def models_folder() -> str:
    """Return the folder of the models: data/twins of the checkout, or that of the installed package."""
    checkout = os.path.join(_HERE, "..", "..", "..", "data", "twins")  # noqa: PTH118
    folder = checkout if os.path.isdir(checkout) else os.path.join(_HERE, "..", "models")  # noqa: PTH112, PTH118
    return os.path.normpath(folder)


def model_file_path(name: str) -> str:
    """Return the path of the file of a model, which may be missing: ``name`` itself if it is a path."""
    if "/" in name or name.endswith(".yaml"):
        return name
    return os.path.join(models_folder(), f"{name.lower()}.yaml")  # noqa: PTH118


def model_name(path: str) -> str:
    """Return the name that goes with a model's file: ``px05smb040``."""
    return os.path.basename(path).removesuffix(".yaml")  # noqa: PTH119


def default_state_folder(path: str) -> str:
    """Return the folder in which a twin keeps its settings unless another is given."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "iopatterns", "twins", model_name(path))  # noqa: PTH118


def installed_file(name: str) -> str:
    """Return the path of a file that the build puts beside the native module. Raises FileNotFoundError."""
    for folder in sys.path:
        path = os.path.join(folder, "iopatterns", name)  # noqa: PTH118
        if os.path.exists(path):  # noqa: PTH110
            return path
    raise FileNotFoundError(f"{name} is not installed. Run ./reproduce.sh setup.")


def preload_library() -> str:
    """Return the path of the library that puts programs on a twin."""
    return installed_file("libtwin_preload.so")
