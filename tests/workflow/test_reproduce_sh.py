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


def test_help_names_the_two_ways_to_run_less_or_more_tests() -> None:
    said = run(ROOT, "--help").stdout
    assert "test --quick [ARGS]" in said
    assert "test --all [ARGS]" in said


def handed_to_python(folder: Path, *arguments: str) -> list[str]:
    """Return the lists of packages that a command asks for, and then what it hands to python."""
    text = (ROOT / "reproduce.sh").read_text(encoding="utf-8")
    assert text.count("\nset_up() {") == 1
    dispatch = text.replace("\nset_up() {", '\nset_up() { printf "%s\\n" "$@"; }\nunused() {')
    (folder / "reproduce.sh").write_text(dispatch, encoding="utf-8")
    (folder / "python").write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n', encoding="utf-8")
    (folder / "python").chmod(0o755)
    said = run(folder, *arguments, prefix=("env", f"PATH={folder}:{os.environ['PATH']}"))
    assert said.returncode == 0, said.stderr
    return said.stdout.split()


PYTEST = ["-m", "pytest", "--numprocesses=auto", "--maxprocesses=4", "--dist=loadfile"]


def test_tests_take_what_pytest_takes(tmp_path: Path) -> None:
    assert handed_to_python(tmp_path, "test") == PYTEST
    assert handed_to_python(tmp_path, "test", "tests/attacks", "-x") == [*PYTEST, "tests/attacks", "-x"]


def test_quick_tests_are_those_of_units_and_twins(tmp_path: Path) -> None:
    assert handed_to_python(tmp_path, "test", "--quick", "-x") == [*PYTEST, "tests/unit", "tests/twin", "-x"]


def test_all_tests_have_the_packages_that_some_need(tmp_path: Path) -> None:
    assert handed_to_python(tmp_path, "test", "--all", "-x") == ["envs/apt-tests.txt", *PYTEST, "-x"]


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
    (disk_folder / "envs/apt-tests.txt").write_text("no-such-package-2   # for this test\n")
    disk_folder.chmod(0o755)
    nobody = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    if subprocess.run([*nobody, "test", "-r", str(disk_folder / "reproduce.sh")], check=False).returncode:
        pytest.skip("another user cannot read this checkout")
    said = run(disk_folder, prefix=nobody)
    assert said.returncode == 1
    assert "    apt-get update && apt-get install --yes --no-install-recommends no-such-package-1\n" in said.stderr
    for words in (("test",), ("test", "--all")):
        said = run(disk_folder, *words, prefix=nobody)
        assert ("install --yes --no-install-recommends no-such-package-1\n" in said.stderr) == (len(words) == 1)
        assert ("no-such-package-1 no-such-package-2\n" in said.stderr) == (len(words) == 2)
    assert not (disk_folder / ".venv").exists()
