"""Tests that each command answers a mistake with one bounded message."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Project, copy_project

from iopatterns import cli
from iopatterns.base import messages, yaml_schema
from iopatterns.configuration import drive_entries
from iopatterns.twin import cli as twin_cli
from iopatterns.workflow.planned_cells import load_cells


@pytest.fixture(scope="module")
def checkout(module_disk_folder: Path) -> Project:
    return copy_project(module_disk_folder / "project")


Refused = Callable[[Path, str], str]


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Return a function that runs a command in a folder and returns its error message."""

    def run(folder: Path, line: str) -> str:
        monkeypatch.chdir(folder)
        program, *arguments = line.split()
        monkeypatch.setattr("sys.argv", [program, *arguments])
        with pytest.raises(SystemExit) as ended:  # any other exception would be a traceback
            (cli if program == "iopatterns" else twin_cli).main()
        assert ended.value.code in {1, 2}
        printed = capsys.readouterr().err
        assert printed.startswith(f"{program}: error: ")
        assert len(printed) < 5_000
        return printed.removeprefix(f"{program}: error: ")

    return run


@pytest.mark.parametrize(
    "command",
    [
        *("archive x", "check x", "summary", "scorecard", "scorecard --expect", "manifest", "manifest --write"),
        *("study mine", "study No", "unpack a b", "measure --specification {} a.json", "measure --specification [ a"),
        *("measure --specification [] a", f"measure --specification {'[' * 100_000} a", "measure", "nonsense"),
        f"check {'x' * 1_000_000}",
    ],
)
def test_a_command_outside_a_project_is_refused(tmp_path: Path, command: str, refused: Refused) -> None:
    refused(tmp_path, f"iopatterns {command}")


@pytest.mark.parametrize(
    "command",
    [
        *("describe nope", "describe /dev/zero", "describe .", "reset nope", "power-cycle nope", "fit nope"),
        *("reset c400 --state /dev/null", "fit c400 --points nope.csv --move x", "fit c400 --points . --move x"),
        *("fit c400 --points /dev/zero --move flash.read_time", "describe", "nonsense", f"describe {'x' * 100_000}"),
    ],
)
def test_a_wrong_command_of_twin_is_refused(tmp_path: Path, command: str, refused: Refused) -> None:
    refused(tmp_path, f"twin {command}")


@pytest.mark.parametrize(
    "drives",
    ["[]", "null", "text", "1: {kind: twin}", "a:", "a: {kind: file, path: 1}", "a: {kind: [x]}", "- {kind: twin}", ""],
)
@pytest.mark.parametrize("command", ["check a", "archive a", "manifest --write"])
def test_malformed_drives_are_refused(checkout: Project, drives: str, command: str, refused: Refused) -> None:
    path = checkout.root / drive_entries.DRIVES_FILE
    original = path.read_text()
    path.write_text(drives)
    try:
        message = refused(checkout.root, f"iopatterns {command}")
    finally:
        path.write_text(original)
    assert len(message.splitlines()) == 1
    assert message.startswith(drive_entries.DRIVES_FILE)


@pytest.mark.parametrize("kind", ["kind: block, serial: x", "kind: file", "kind: archive"])
@pytest.mark.parametrize("command", ["check looped", "archive looped"])
def test_a_path_with_a_loop_of_links_is_refused(checkout: Project, kind: str, command: str, refused: Refused) -> None:
    loop = checkout.root / "loop"
    if not os.path.lexists(loop):
        loop.symlink_to("loop")
    path = checkout.root / drive_entries.DRIVES_FILE
    original = path.read_text()
    path.write_text(f"{original}\nlooped: {{{kind}, path: loop/x}}\n")
    try:
        message = refused(checkout.root, f"iopatterns {command}")
        with pytest.raises(yaml_schema.ConfigError, match="Too many levels of symbolic links"):
            load_cells(checkout.root)
    finally:
        path.write_text(original)
    assert message.startswith(f"{drive_entries.DRIVES_FILE}: looped.path: loop/x: Too many levels of symbolic links")


@pytest.mark.parametrize(
    "content", ["[]", "{", "{}", "null", '{"studies": {"a": 1}}', '{"studies": []}', "[" * 100_000]
)
@pytest.mark.parametrize("command", ["summary", "scorecard", "scorecard --expect"])
def test_results_of_another_version_are_refused(tmp_path: Path, content: str, command: str, refused: Refused) -> None:
    (tmp_path / "results").mkdir()
    for name in ("scorecard", "colophon"):
        (tmp_path / f"results/{name}.json").write_text(content)
    assert "not in the format of this version" in refused(tmp_path, f"iopatterns {command}")


def test_a_message_is_bounded_and_shows_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    messages.say("a\x1b[31m\r" + "b" * 1_000_000 + "\n" + "line\n" * 100_000)
    printed = capsys.readouterr().err
    assert len(printed) < 5_000
    assert printed.startswith("a\\x1b[31m\\rbbb")
    assert printed.endswith("… and 99962 more lines\n")
    assert messages.printable("short") == "short"
    assert len(messages.printable("x" * 1_000)) < 210
