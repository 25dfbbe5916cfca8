"""Tests of help, error messages and shell completion."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner
from support import ROOT

import iopatterns
from iopatterns.base import command_line
from iopatterns.base.errors import IoPatternsError
from iopatterns.cli import iopatterns_command
from iopatterns.commands.arguments import StudyName
from iopatterns.twin.cli import twin_command

PROGRAMS = {"iopatterns": iopatterns_command, "twin": twin_command}
PAGE = (ROOT / "docs/faq.md").read_text(encoding="utf-8")
MODULES = {"iopatterns": ["-m", "iopatterns"], "twin": ["-m", "iopatterns.twin"]}


def groups() -> list[tuple[str, click.Group]]:
    """Return each group of commands, after the words that call it."""
    found: list[tuple[str, click.Group]] = []
    for program, group in PROGRAMS.items():
        found.append((program, group))
        found += [(f"{program} {name}", each) for name, each in group.commands.items() if isinstance(each, click.Group)]
    return found


GROUPS = groups()


def help_of(program: str, group: click.Group) -> str:
    done = CliRunner().invoke(group, ["--help"], prog_name=program, terminal_width=80)
    assert done.exit_code == 0
    return done.output


# ---- Help


@pytest.mark.parametrize(("program", "group"), GROUPS, ids=[program for program, _ in GROUPS])
def test_every_summary_fits_in_80_columns(program: str, group: click.Group) -> None:
    lines = help_of(program, group).splitlines()
    summaries = lines[lines.index("Commands:") + 1 :]
    assert len(summaries) == sum(not each.hidden for each in group.commands.values())
    assert [line for line in lines if line.endswith(("…", "...")) and not line.startswith("Usage:")] == []
    assert [line for line in lines if len(line) > 80] == []


def test_commands_for_the_workflow_are_hidden() -> None:
    hidden = [name for name, each in iopatterns_command.commands.items() if each.hidden]
    assert hidden == ["measure", "unpack"]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_version_is_printed(program: str) -> None:
    done = run(program, "--version")
    assert (done.returncode, done.stdout) == (0, f"{program}, version {iopatterns.__version__}\n")


def test_a_command_imports_no_other_command() -> None:
    code = (
        "import sys; from iopatterns.cli import iopatterns_command; iopatterns_command.commands['measure'];"
        "print(*(name for name in sys.modules if name.startswith('iopatterns.commands.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {f"iopatterns.commands.{name}" for name in ("arguments", "job", "measure")}


# ---- Errors


def run(program: str, *words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *MODULES[program], *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("iopatterns restoer", "No such command 'restoer'. Did you mean 'restore'?\nTry 'iopatterns --help' for help."),
        ("iopatterns check", "Missing argument 'DRIVE'.\nTry 'iopatterns check --help' for help."),
        (
            "iopatterns manifest --rite",
            "No such option '--rite'. Did you mean '--write'?\nTry 'iopatterns manifest --help' for help.",
        ),
        (
            "iopatterns check scratchh",
            "neither config/drives.yaml nor a study has a drive 'scratchh'. Did you mean 'scratch'?",
        ),
        ("twin fti", "No such command 'fti'. Did you mean 'fit'?\nTry 'twin --help' for help."),
        ("twin run c400", "requires a command after --.\nTry 'twin run --help' for help."),
        ("twin run c400 -- no-such-program", "no-such-program: No such file or directory"),
        ("twin reset c400 --state data/twins/c400.yaml/x", "data/twins/c400.yaml/x: Not a directory"),
    ],
)
def test_errors_have_one_form(words: str, message: str) -> None:
    program, *rest = words.split()
    done = run(program, *rest)
    assert done.returncode in {1, 2}
    assert done.stderr == f"{program}: error: {message}\n"


def test_a_program_without_a_command_prints_its_help() -> None:
    done = run("twin")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Usage: twin [OPTIONS] COMMAND")


def test_a_failed_restore_does_not_hide_the_first_error(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            raise IoPatternsError("the drive has failed")
        finally:
            raise IoPatternsError("a setting was not restored")

    with pytest.raises(SystemExit) as ended, command_line.errors_reported("iopatterns"):
        fail()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "iopatterns: error: the drive has failed\na setting was not restored\n"


def test_the_cause_of_an_error_is_not_printed_twice(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> None:
        try:
            raise IoPatternsError("cause")
        except IoPatternsError as error:
            raise IoPatternsError(f"file: {error}") from None

    with pytest.raises(SystemExit), command_line.errors_reported("twin"):
        fail()
    assert capsys.readouterr().err == "twin: error: file: cause\n"


# ---- Completion

DRIVES = "scratch: {kind: file, path: data/scratch.bin}\nsample: {kind: twin, model: c400}\n"
STUDY = """
twins:
  small: {model: c400, set: {capacity.size: 1 GiB}}
drives: [c400]
experiments:
  first: {vary: {bs: [4k]}, drives: [small, px05smb040]}
  second: {vary: {bs: [4k]}}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "config/studies").mkdir(parents=True)
    (tmp_path / "config/drives.yaml").write_text(DRIVES)
    (tmp_path / "config/studies/mine.yaml").write_text(STUDY)
    (tmp_path / "config/studies/broken.yaml").write_text("{")
    return tmp_path


def completed(line: str, cwd: Path) -> list[str]:
    """Return the completions of the last word of a line in bash."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        [sys.executable, *MODULES[words[0]]],
        cwd=cwd,
        env={**os.environ, **variables, f"_{words[0].upper()}_COMPLETE": "bash_complete"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize("line", ["iopatterns check ", "iopatterns bench --drive ", "iopatterns spread c400 "])
def test_drives_are_those_of_the_user_and_of_the_studies(project: Path, line: str) -> None:
    names = ["c400", "px05smb040", "sample", "scratch", "small"]
    assert completed(line, project) == [f"plain,{name}" for name in names]
    assert completed(f"{line}sc", project) == ["plain,scratch"]


@pytest.mark.parametrize("line", ["twin describe px0", "twin run px0", "twin run --keep-data px0", "twin linux px0"])
def test_models_are_those_of_data_twins(line: str, tmp_path: Path) -> None:
    names = sorted(path.stem for path in (ROOT / "data/twins").glob("px0*.yaml"))
    assert completed(line, tmp_path) == [f"plain,{name}" for name in names]


def test_studies_are_those_of_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    command = click.Command("show", params=[click.Argument(["study"], type=StudyName())])
    found = ShellComplete(command, {}, "show", "_SHOW_COMPLETE").get_completions([], "m")
    assert [each.value for each in found] == ["mine"]


def test_the_completion_of_paths_is_left_to_the_shell(project: Path) -> None:
    assert completed("twin describe ./mo", project) == ["file,./mo"]
    assert completed("iopatterns compare results/", project) == ["file,results/"]


def test_hidden_commands_are_not_completed(project: Path) -> None:
    assert completed("iopatterns ma", project) == ["plain,manifest"]
    assert completed("iopatterns me", project) == []
    assert completed("iopatterns calls st", project) == ["plain,stand-in"]


@pytest.mark.parametrize("line", ["iopatterns check ", "iopatterns bench --drive x"])
def test_nothing_is_completed_outside_a_project(tmp_path: Path, line: str) -> None:
    assert completed(line, tmp_path) == []


def test_completion_imports_neither_pandas_nor_schemas(project: Path) -> None:
    code = (
        "import sys; from iopatterns.commands.arguments import DriveName; assert list(DriveName().names());"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=True)
    assert not {"pandas", "jsonschema_rs", "iopatterns._twin"} & set(done.stdout.split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_documented_commands_set_up_completion(shell: str, project: Path) -> None:
    (block,) = re.findall(rf"^For {shell}[^`]*```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    environment = {**os.environ, "HOME": str(project), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    subprocess.run(["bash", "-euc", block], cwd=project, env=environment, check=True)
    scripts = [path for path in project.rglob("*") if path.is_file() and "COMPLETE=" in path.read_text()]
    written = "".join(path.read_text() for path in scripts)
    assert f"_IOPATTERNS_COMPLETE={shell}_complete" in written
    assert f"_TWIN_COMPLETE={shell}_complete" in written
    if shutil.which(shell):
        for path in scripts:
            subprocess.run([shell, "-n", str(path)], check=True)
    if shell == "bash":
        press_tab = (
            ". ~/.bashrc; COMP_WORDS=(iopatterns check sc); COMP_CWORD=2; _iopatterns_completion iopatterns;"
            'echo "${COMPREPLY[@]}"'
        )
        done = subprocess.run(
            ["bash", "-c", press_tab], cwd=project, env=environment, capture_output=True, text=True, check=False
        )
        assert done.stdout == "scratch\n"
