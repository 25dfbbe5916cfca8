"""The environment of child processes: the same time zone and locale everywhere.

Otherwise the output of fio and other programs would depend on the host and the user. Programs that access a real drive
get nothing else from the user's environment than PATH.
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
# Variables that load libraries into a program before its own
_LOADERS = ("LD_PRELOAD", "LD_AUDIT")
_SYSTEM_PRELOADS = Path("/etc/ld.so.preload")
_START_ENVIRONMENT = Path("/proc/self/environ")
# Variables with which Python finds other modules, skips assertions, or turns warnings into errors, and with which
# matplotlib uses another backend or other settings
_DROPPED_FOR_JOBS = frozenset(
    {"PYTHONHOME", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONWARNINGS", "MPLBACKEND", "MATPLOTLIBRC"}
)


def child_environment(given: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables for child processes, in UTC and one locale.

    The time zone becomes UTC, and the locale C.UTF-8. Variables that set another locale or time zone, and
    POSIXLY_CORRECT, are removed. All other variables are kept.

    Args:
        given: The variables to start from; None for the environment of this process.
    """
    given = os.environ if given is None else given
    others = {name: value for name, value in given.items() if name not in _DROPPED and not name.startswith("LC_")}
    return others | _FIXED


def minimal_environment() -> dict[str, str]:
    """Return environment variables for programs that access a real drive.

    They are PATH of this process, and the variables for the time zone UTC and the locale C.UTF-8. No other variable of
    this process is passed on. Variables such as LD_PRELOAD, LD_LIBRARY_PATH, FAKETIME, GCONV_PATH and GLIBC_TUNABLES
    load other code into a program, or change what it does: the library of eatmydata, for example, omits all flushes.
    """
    return {"PATH": os.environ.get("PATH", os.defpath), **_FIXED}


def preloaded_libraries() -> str:
    """Return the libraries that LD_PRELOAD and LD_AUDIT loaded into this process.

    The result is one text: the values of the two variables when this process started, separated by a blank. It is empty
    if neither was set, or if /proc cannot be read. ld.so(8) describes the variables.
    """
    try:
        entries = _START_ENVIRONMENT.read_bytes().split(b"\0")
    except OSError:
        return ""
    started_with = dict(entry.partition(b"=")[::2] for entry in entries)
    return " ".join(os.fsdecode(started_with[name]) for name in map(os.fsencode, _LOADERS) if started_with.get(name))


def system_preloads() -> str:
    """Return the libraries that this system loads into every program.

    The result is one text: the entries of /etc/ld.so.preload, separated by blanks. It is empty if there are none, or if
    the file cannot be read. A process cannot prevent this loading through its environment.
    """
    try:
        lines = _SYSTEM_PRELOADS.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return " ".join(" ".join(line.partition("#")[0].split()) for line in lines).strip()


def restart_without_preloads() -> None:
    """Start this process again if LD_PRELOAD or LD_AUDIT was set when it started.

    Libraries in these variables may give this process a wrong time, or omit its flushes. The new program has the same
    arguments and the same process number, and its environment lacks the two variables. The function then does not
    return. It does nothing if neither variable was set.
    """
    if preloaded_libraries():
        environment = {name: value for name, value in os.environ.items() if name not in _LOADERS}
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], environment)


def make_environment_uniform() -> None:
    """Change the environment of this process, for itself and its future children.

    - The time zone becomes UTC, and the locale C.UTF-8.
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
