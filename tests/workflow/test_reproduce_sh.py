"""The script behind the two commands, as far as it can be tried without a bare machine."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from support import ROOT


def run(root: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    command = [*prefix, "bash", str(root / "reproduce.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


def test_help_names_the_two_commands() -> None:
    said = run(ROOT, "--help")
    assert said.returncode == 0
    assert "snakemake --cores 1" in said.stdout
    assert "run the tests" in said.stdout


def test_unknown_command_is_refused() -> None:
    said = run(ROOT, "tset")
    assert said.returncode == 2
    assert "no command 'tset'" in said.stderr


def test_user_who_may_not_install_gets_the_line_to_run(disk_folder: Path) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("no Debian or Ubuntu")
    if shutil.which("sudo"):
        pytest.skip("sudo is installed here, and would ask for a password")
    shutil.copy(ROOT / "reproduce.sh", disk_folder)
    (disk_folder / "envs").mkdir()
    (disk_folder / "envs/apt.txt").write_text("no-such-package-1   # for this test\nbash   # is there\n")
    disk_folder.chmod(0o755)
    nobody = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    if subprocess.run([*nobody, "test", "-r", str(disk_folder / "reproduce.sh")], check=False).returncode:
        pytest.skip("another user cannot read this checkout")
    said = run(disk_folder, prefix=nobody)
    assert said.returncode == 1
    assert "    apt-get update && apt-get install --yes --no-install-recommends no-such-package-1\n" in said.stderr
    assert not (disk_folder / ".venv").exists()
