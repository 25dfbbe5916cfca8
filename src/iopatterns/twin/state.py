"""Paths of models, installed files and state folders of simulated drives.

A model is a YAML file with the parameters of a drive. A state folder contains what a simulated drive keeps from one run
to the next, such as its settings.

This module imports only fast standard modules, because `twin run` imports it first.
"""

import os
import stat
import sys

from iopatterns.base import ownership

TYPE_CHECKING = False  # importing `typing` takes too long
if TYPE_CHECKING:
    from collections.abc import Sequence

# A state folder contains:
# `model`           the parameters in the form that the simulated drive reads
# `model.source`    the model file, options and library from which `model` was made
# `model-<number>`  and `model-<number>.source`: the same for one combination of --set options
# `mode-pages`      the drive's current and saved settings
# `content`         the written data, with --keep-data
# `counters-<process>.bin`  the counters of a running program, with --counters
# `sys`, `uptime`   what the kernel would show in /sys and /proc/uptime, for programs that read these files
# `totals`          the final counters of a program, if a measurement started the program
# and the mark of `base.ownership`
SETTINGS_FILE = "mode-pages"
# What a message begins with if the simulation fails, in contrast to the program on the simulated drive
ERROR_PREFIX = "twin: error: "

_HERE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - importing pathlib takes too long


def models_folder() -> str:
    """Return the path of the folder that contains the models of simulated drives.

    A model is a YAML file with the parameters of a drive. In a checkout of the project this folder is ``data/twins``.
    Otherwise it is the folder ``models`` of the installed package.
    """
    checkout = os.path.join(_HERE, "..", "..", "..", "data", "twins")  # noqa: PTH118
    folder = checkout if os.path.isdir(checkout) else os.path.join(_HERE, "..", "models")  # noqa: PTH112, PTH118
    return os.path.normpath(folder)


def model_file_path(name: str) -> str:
    """Return the path of a model file, whether or not the file exists.

    A model is a YAML file with the parameters of a simulated drive.

    Args:
        name: Name of a model in `models_folder`, in upper or lower case, such as ``px05smb040``. Or the path of a model
            file, which is returned unchanged. A text with a slash, or with the ending .yaml, is a path.
    """
    if "/" in name or name.endswith(".yaml"):
        return name
    return os.path.join(models_folder(), f"{name.lower()}.yaml")  # noqa: PTH118


def model_name(path: str) -> str:
    """Return the name of the model in a file: the file name without ``.yaml``.

    The name of ``data/twins/px05smb040.yaml`` is ``px05smb040``.

    Args:
        path: Path of the model file, which need not exist.
    """
    return os.path.basename(path).removesuffix(".yaml")  # noqa: PTH119


def default_state_folder(path: str) -> str:
    """Return the path of the state folder that a simulated drive has by default.

    A state folder contains what the drive keeps from one run to the next, such as its settings. The default is
    ``iopatterns/twins/NAME`` below ``$XDG_STATE_HOME`` (by default ``~/.local/state``). The folder is not created.

    Args:
        path: Path of the model file of the drive; its file name without ``.yaml`` is NAME.
    """
    base = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")  # noqa: PTH111, PTH118
    return os.path.join(base, "iopatterns", "twins", model_name(path))  # noqa: PTH118


def claim_state_folder(folder: str) -> None:
    """Create the state folder of a simulated drive, or accept an existing one.

    A state folder contains what the drive keeps from one run to the next, such as its settings. An existing folder is
    accepted if it is empty, if this package created it, or if all its files are those of a simulated drive.

    Args:
        folder: Path of the folder.

    Raises:
        OutputError: The folder contains files that no simulated drive wrote, or is a symbolic link.
        OSError: The folder cannot be created.
    """
    ownership.claim_folder(folder, is_ours=_is_unmarked_state_folder)


def _is_unmarked_state_folder(folder: str, names: "Sequence[str]") -> bool:
    """Return whether an earlier version, which did not mark folders, made a state folder.

    The folder must contain only files that a state folder has. At least one of them must have the content of such a
    file, and none may have another content.

    Args:
        folder: Path of the folder.
        names: Names of everything in the folder.
    """
    import re

    own = re.compile(
        r"\.?(model(-[0-9a-f]{8})?(\.source)?|mode-pages)(\.partial|\.\d+)?|content|totals|counters-\d+\.bin"
    )
    recognised = False
    for name in names:
        path = os.path.join(folder, name)  # noqa: PTH118
        state = os.lstat(path)
        if not own.fullmatch(name) or not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
            return False
        if name == SETTINGS_FILE:
            expected = rb"current [0-9a-f]{40}\nsaved [0-9a-f]{40}\n"
        elif name.startswith("model") and name.endswith(".source"):
            expected = rb"\d+\n"
        elif re.fullmatch(r"model(-[0-9a-f]{8})?", name):
            expected = rb"kind \w+\nidentity\.\w+ "
        else:
            continue
        with open(path, "rb") as file:
            if not re.match(expected, file.read(200)):
                return False
        recognised = True
    return recognised


def installed_file(name: str) -> str:
    """Return the path of a compiled library or program of this package.

    The folders of `sys.path` are searched in order.

    Args:
        name: File name, such as ``libtwin_preload.so``.

    Raises:
        FileNotFoundError: The file is not installed.
    """
    for folder in sys.path:
        path = os.path.join(folder, "iopatterns", name)  # noqa: PTH118
        if os.path.exists(path):  # noqa: PTH110
            return path
    raise FileNotFoundError(f"{name} is not installed. Run ./reproduce.sh setup.")


def preload_library() -> str:
    """Return the path of the library that connects programs to a simulated drive.

    The library, ``libtwin_preload.so``, redirects the I/O of a program. The environment variable LD_PRELOAD loads the
    library into the program.

    Raises:
        FileNotFoundError: The library is not installed.
    """
    return installed_file("libtwin_preload.so")
