"""Helpers that run programs with `twin linux`; tests are skipped if its kernel is not built."""

import csv
import io
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import patience
import pytest
from support import ROOT
from twins import TWIN, json_of

KERNEL = ROOT / ".linux/linux"
needs_kernel = pytest.mark.skipif(not KERNEL.exists(), reason="no kernel for `twin linux`: ./reproduce.sh linux")
needs_debian_kernel = pytest.mark.skipif(
    not Path("/usr/bin/linux.uml").exists(), reason="linux.uml is not installed (apt-get install user-mode-linux)"
)
# whether other users may run this Python, which may be in the home of a user
_FOR_ALL = all(folder.stat().st_mode & 0o001 for folder in Path(sys.executable).resolve().parents)
needs_other_users = pytest.mark.skipif(
    os.geteuid() != 0 or not _FOR_ALL, reason="only root can be another user, who must be able to run this Python"
)
# a small drive, on which creating a file system is fast
SMALL = ("--set", "capacity.size=4GiB")
# programs take no time by themselves
NO_CHARGES = ("--call-ns", "0", "--fault-ns", "0")
FIO = ("fio", "--name=job", "--bs=4k", "--randrepeat=0", "--randseed=7", "--eta=never", "--output-format=json")


def let_others_in(path: Path) -> None:
    """Give other users access to a folder. A guest that root starts runs as another user."""
    for folder in (path, *path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)


def linux(
    *words: str, model: str = "px05smb040", timeout_s: float = 120, environment: Mapping[str, str] | None = None,
    within: Sequence[str] = (), **how: Any,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run `twin linux OPTIONS MODEL -- COMMAND`.

    Args:
        words: The options, ``--`` and the command.
        model: The model.
        timeout_s: Time limit on an idle machine.
        environment: Additional environment variables.
        within: A program, with its arguments, that runs the command given after them.
        how: Arguments of `subprocess.Popen`.
    """
    place = words.index("--")
    argv = [*within, *TWIN, "linux", *SMALL, *words[:place], model, *words[place:]]
    given = {**os.environ, **(environment or {})}
    return patience.run(argv, timeout_s, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given, **how)


def shell(script: str, *options: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a shell script, which must succeed, with `twin linux`."""
    done = linux(*options, "--", "sh", "-ec", script, **how)
    assert done.returncode == 0, done.stderr
    return done


def fio(*words: str, options: tuple[str, ...] = (), **how: Any) -> dict[str, Any]:
    """Run fio, which must succeed, with `twin linux`; return its first job."""
    done = linux(*options, "--", *FIO, *words, **how)
    assert done.returncode == 0, done.stderr
    job: dict[str, Any] = json_of(done.stdout)["jobs"][0]
    assert job["error"] == 0
    return job


def rows(trace: Path) -> list[dict[str, str]]:
    """Return the rows of a trace in CSV."""
    return list(csv.DictReader(io.StringIO(trace.read_text())))
