"""The environment: one source, and the lock made from it in step."""

import re

import pytest
from support import ROOT

ENVS = ROOT / "envs"


def entries(file: str) -> list[tuple[str, str]]:
    lines = (ENVS / file).read_text().splitlines()
    return [
        (line.split("#")[0].strip(), line.partition("#")[2].strip()) for line in lines if line.split("#")[0].strip()
    ]


def test_every_package_asked_for_is_locked_with_hashes() -> None:
    text = (ENVS / "requirements.txt").read_text()
    for name, _ in entries("requirements.in"):
        assert re.search(rf"^{re.escape(name)}==\S+( ; .*)? \\\n    --hash=sha256:", text, flags=re.MULTILINE), name


@pytest.mark.parametrize("file", ["requirements.in", "excluded.txt", "apt.txt", "apt-tests.txt", "apt-linux.txt"])
def test_every_package_has_its_reason(file: str) -> None:
    for name, reason in entries(file):
        assert reason, name


def test_lock_names_no_host() -> None:
    assert "://" not in (ENVS / "requirements.txt").read_text()


def test_what_is_left_out_is_not_locked() -> None:
    text = (ENVS / "requirements.txt").read_text()
    for name, _ in entries("excluded.txt"):
        assert f"\n{name}==" not in text
