"""The rules of .gitlint accept an imperative subject with a body, and refuse other commit messages."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from gitlint.cli import cli
from support import ROOT

BODY = "\n\nA body that says why the change is made.\n"


def is_accepted(message: str, folder: Path) -> bool:
    (folder / "message").write_text(message, encoding="utf-8")
    options = ["--config", str(ROOT / ".gitlint"), "--msg-filename", str(folder / "message")]
    done = CliRunner().invoke(cli, options)
    assert done.exit_code < 10, done.output  # else the number is no count of violations
    return done.exit_code == 0


@pytest.mark.parametrize(
    "subject",
    ["Refuse iodepth above 1 with synchronous engines", "Pass the seed to fio", "Feed it", "Bring it up"],
)
def test_an_imperative_subject_with_a_body_is_accepted(subject: str, tmp_path: Path) -> None:
    assert is_accepted(subject + BODY, tmp_path)


@pytest.mark.parametrize(
    "message",
    [
        "Refused iodepth above 1" + BODY,
        "Refuses iodepth above 1" + BODY,
        "Refusing iodepth above 1" + BODY,
        "The iodepth is refused" + BODY,
        "refuse iodepth above 1" + BODY,
        "Refuse iodepth above 1 with synchronous engines, and say on which line it is" + BODY,
        "Refuse iodepth above 1\n",
    ],
)
def test_another_message_is_refused(message: str, tmp_path: Path) -> None:
    assert not is_accepted(message, tmp_path)
