"""The rules in .gitlint accept commit messages with an imperative subject and a body, and refuse others."""

import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

BODY = "\n\nA body that says why the change is made.\n"


def is_accepted(message: str, folder: Path) -> bool:
    (folder / "message").write_text(message, encoding="utf-8")
    # in another process, because importing gitlint changes the exit status of click's usage errors
    command = [sys.executable, "-m", "gitlint.cli", "--config", str(ROOT / ".gitlint")]
    done = subprocess.run([*command, "--msg-filename", str(folder / "message")], capture_output=True, check=False)
    assert done.returncode < 10, done.stderr  # a larger status is an error, and not the number of violations
    return done.returncode == 0


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
