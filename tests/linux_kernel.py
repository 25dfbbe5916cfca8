"""Runs programs under `twin linux`, for tests: skips them where its kernel has not been built."""

import csv
import io
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import patience
import pytest
from support import ROOT
from twins import TWIN

KERNEL = ROOT / ".linux/linux"
needs_kernel = pytest.mark.skipif(not KERNEL.exists(), reason="no kernel for `twin linux`: ./reproduce.sh linux")
# A drive small enough that making a file system on it takes no time
SMALL = ("--set", "capacity.size=4GiB")
FIO = ("fio", "--name=job", "--bs=4k", "--randrepeat=0", "--randseed=7", "--eta=never", "--output-format=json")


def let_others_in(path: Path) -> None:
    """Let other users go to what is in a folder of ours; started by root, a guest is one of them."""
    for folder in (path, *path.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)


def linux(
    *words: str, model: str = "px05smb040", timeout_s: float = 120, environment: Mapping[str, str] | None = None,
    within: Sequence[str] = (), **how: Any,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run `twin linux OPTIONS MODEL -- COMMAND`; ``words`` are the options, ``--`` and the command.

    ``within`` is a program that runs what it is given behind its own options.
    """
    place = words.index("--")
    argv = [*within, *TWIN, "linux", *SMALL, *words[:place], model, *words[place:]]
    given = {**os.environ, **(environment or {})}
    return patience.run(argv, timeout_s, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=given, **how)


def shell(script: str, *options: str, **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a script of the shell so, which must succeed."""
    done = linux(*options, "--", "sh", "-ec", script, **how)
    assert done.returncode == 0, done.stderr
    return done


def fio(*words: str, options: tuple[str, ...] = (), **how: Any) -> dict[str, Any]:
    """Run fio so, and return the first of its jobs."""
    done = linux(*options, "--", *FIO, *words, **how)
    assert done.returncode == 0, done.stderr
    text = done.stdout
    job: dict[str, Any] = json.JSONDecoder().raw_decode(text[text.index("{") :])[0]["jobs"][0]
    assert job["error"] == 0
    return job


def rows(trace: Path) -> list[dict[str, str]]:
    """Return the rows of a trace."""
    return list(csv.DictReader(io.StringIO(trace.read_text())))
