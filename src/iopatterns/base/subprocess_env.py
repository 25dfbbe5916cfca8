"""How other programs are started: in one time zone and one locale, whatever those of the user are."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

# fio writes the local time into its result, and other programs print numbers, dates and messages as the locale has them
_FIXED = {
    "TZ": "UTC",
    "LC_ALL": "C.UTF-8",
    # without it fio asks for the locale en_US by itself, which not every host has (initialize_fio in its libfio.c)
    "LC_NUMERIC": "C",
}
# The other ways to say a locale or a zone; and POSIXLY_CORRECT, with which GNU's programs read options and print
# sizes in another way
_DROPPED = frozenset({"LANG", "LANGUAGE", "LOCPATH", "NLSPATH", "TZDIR", "POSIXLY_CORRECT"})
# What would have the Python of a job find other modules, leave checks out, or take a warning for an error
_OF_PYTHON = frozenset({"PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS"})
# Where matplotlib would find another backend and other settings
_OF_MATPLOTLIB = frozenset({"MPLBACKEND", "MATPLOTLIBRC"})


def child_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment in which other programs run: ``given``, this process's own by default, made uniform."""
    given = os.environ if given is None else given
    kept = {name: value for name, value in given.items() if name not in _DROPPED and not name.startswith("LC_")}
    return kept | _FIXED


def make_environment_uniform() -> None:
    """Make this process's own environment uniform: all that it starts from now on has it, jobs of a workflow too.

    Jobs call this package's programs by name: they lie beside the Python that runs, active environment or not.
    """
    uniform = {name: value for name, value in child_environment().items() if name not in _OF_PYTHON | _OF_MATPLOTLIB}
    for name in os.environ.keys() - uniform.keys():
        del os.environ[name]
    os.environ.update(uniform)
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
