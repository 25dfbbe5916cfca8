"""Locks the environment: requirements.in to the hash-locked requirements.txt (``.venv/bin/python envs/lock.py``)."""

import subprocess
import sys
from pathlib import Path

ENVS = Path(__file__).resolve().parent
UV = Path(sys.executable).with_name("uv")  # the uv of the environment, active or not
OLDEST_PYTHON = "3.11"  # Debian 12's; the lock holds for every later one too


def lock_requirements() -> None:
    """Resolve ``requirements.in`` for every supported Python at once, one version a package, with hashes."""
    command = [str(UV), "pip", "compile", "--quiet", "--universal", "--generate-hashes", "--no-emit-index-url"]
    command += ["--no-emit-find-links", "--fork-strategy", "fewest", "--python-version", OLDEST_PYTHON]
    command += ["--excludes", "excluded.txt"]
    command += [
        "--custom-compile-command",
        "python envs/lock.py",
        "requirements.in",
        "-o",
        "requirements.txt",
    ]
    subprocess.run(command, cwd=ENVS, check=True)


if __name__ == "__main__":
    lock_requirements()
