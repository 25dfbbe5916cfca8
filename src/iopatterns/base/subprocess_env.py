"""The environment of child processes: the same time zone and locale everywhere.

Without it, the output of fio and other programs would depend on the host and the user.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

# fio writes local times into its results, and other programs format numbers, dates and messages by the locale
_FIXED = {
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    # without LC_NUMERIC, fio selects the locale en_US, which not every host has (initialize_fio in its libfio.c)
    "LC_NUMERIC": "C",
}
# Other variables that set locale or time zone; and POSIXLY_CORRECT, which changes options and sizes of GNU programs
_DROPPED = frozenset({"LANG", "LANGUAGE", "LOCPATH", "NLSPATH", "TZDIR", "POSIXLY_CORRECT"})
# Variables with which Python finds other modules, skips assertions, or turns warnings into errors, and with which
# matplotlib uses another backend or other settings
_DROPPED_FOR_JOBS = frozenset(
    {"PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "MPLBACKEND", "MATPLOTLIBRC"}
)


def child_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables for child processes, with UTC and the C locale.

    Variables that set another locale or time zone, and POSIXLY_CORRECT, are removed.

    Args:
        given: The variables to start from; by default the environment of this process.
    """
    given = os.environ if given is None else given
    others = {name: value for name, value in given.items() if name not in _DROPPED and not name.startswith("LC_")}
    return others | _FIXED


def make_environment_uniform() -> None:
    """Set time zone, locale and PATH of this process and its future children.

    - The time zone becomes UTC, and the locale C.
    - Variables that change the behaviour of Python or matplotlib, such as PYTHONPATH, are removed.
    - Jobs, which are started with ``python -m``, do not import modules from the working directory (PYTHONSAFEPATH).
    - The folder of the running Python becomes the first in PATH. Jobs of a workflow therefore find the commands of this
      package, even if its virtual environment is not activated.
    """
    uniform = {name: value for name, value in child_environment().items() if name not in _DROPPED_FOR_JOBS}
    for name in os.environ.keys() - uniform.keys():
        del os.environ[name]
    os.environ.update(uniform)
    os.environ["PYTHONSAFEPATH"] = "1"
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
