"""Every command answers a typical mistake in one bounded message with a status that is not 0, never a traceback."""

import os
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


def _told(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], program: str = "iopatterns"
) -> str:
    """Return what a command that fails says; a traceback fails the test, for it is an exception here."""
    monkeypatch.setattr("sys.argv", [program, *command.split()])
    with pytest.raises(SystemExit) as ended:
        (cli if program == "iopatterns" else twin_cli).main()
    assert ended.value.code in {1, 2}
    said = capsys.readouterr().err
    assert said.startswith(f"{program}: error: ")
    assert len(said) < 5_000
    return said.removeprefix(f"{program}: error: ")


@pytest.mark.parametrize(
    "command",
    [
        *("archive x", "check x", "summary", "scorecard", "scorecard --expect", "manifest", "manifest --write"),
        *("study mine", "study No", "unpack a b", "measure --specification {} a.json", "measure --specification [ a"),
        *("measure --specification [] a", f"measure --specification {'[' * 100_000} a", "measure", "nonsense"),
        f"check {'x' * 1_000_000}",
    ],
)
def test_outside_of_a_project(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _told(command, monkeypatch, capsys)


@pytest.mark.parametrize(
    "drives",
    ["[]", "null", "text", "1: {kind: twin}", "a:", "a: {kind: file, path: 1}", "a: {kind: [x]}", "- {kind: twin}", ""],
)
@pytest.mark.parametrize("command", ["check a", "archive a", "manifest --write"])
def test_drives_that_are_no_drives(
    checkout: Project, drives: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout.root)
    path = checkout.root / drive_entries.DRIVES_FILE
    whole = path.read_text()
    path.write_text(drives)
    try:
        said = _told(command, monkeypatch, capsys)
    finally:
        path.write_text(whole)
    assert len(said.splitlines()) == 1
    assert said.startswith(drive_entries.DRIVES_FILE)


@pytest.mark.parametrize("kind", ["kind: block, serial: x", "kind: file", "kind: archive"])
@pytest.mark.parametrize("command", ["check looped", "archive looped"])
def test_a_path_that_leads_round_in_a_circle(
    checkout: Project, kind: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(checkout.root)
    if not os.path.lexists("loop"):
        Path("loop").symlink_to("loop")
    path = checkout.root / drive_entries.DRIVES_FILE
    whole = path.read_text()
    path.write_text(f"{whole}\nlooped: {{{kind}, path: loop/x}}\n")
    try:
        said = _told(command, monkeypatch, capsys)
        with pytest.raises(yaml_schema.ConfigError, match="Too many levels of symbolic links"):
            load_cells(checkout.root)
    finally:
        path.write_text(whole)
    assert said.startswith(f"{drive_entries.DRIVES_FILE}: looped.path: loop/x: Too many levels of symbolic links")


@pytest.mark.parametrize(
    "content", ["[]", "{", "{}", "null", '{"studies": {"a": 1}}', '{"studies": []}', "[" * 100_000]
)
@pytest.mark.parametrize("command", ["summary", "scorecard", "scorecard --expect"])
def test_results_of_another_version(
    tmp_path: Path, content: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    for name in ("scorecard", "colophon"):
        (tmp_path / f"results/{name}.json").write_text(content)
    assert "not as this version writes it" in _told(command, monkeypatch, capsys)


@pytest.mark.parametrize(
    "command",
    [
        *("describe nope", "describe /dev/zero", "describe .", "reset nope", "power-cycle nope", "fit nope"),
        *("reset c400 --state /dev/null", "fit c400 --points nope.csv --move x", "fit c400 --points . --move x"),
        *("fit c400 --points /dev/zero --move flash.read_time", "describe", "nonsense", f"describe {'x' * 100_000}"),
    ],
)
def test_twins(
    tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    _told(command, monkeypatch, capsys, "twin")


def test_a_message_is_bounded_and_shows_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    messages.say("a\x1b[31m\r" + "b" * 1_000_000 + "\n" + "line\n" * 100_000)
    said = capsys.readouterr().err
    assert len(said) < 5_000
    assert said.startswith("a\\x1b[31m\\rbbb")
    assert said.endswith("… and 99962 more lines\n")
    assert messages.printable("short") == "short"
    assert len(messages.printable("x" * 1_000)) < 210
