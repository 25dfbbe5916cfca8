"""The environment: requested packages, and the lock made from them."""

import re

import pytest
from support import ROOT

ENVS = ROOT / "envs"


def entries(file: str) -> list[tuple[str, str]]:
    lines = (ENVS / file).read_text().splitlines()
    return [
        (line.split("#")[0].strip(), line.partition("#")[2].strip()) for line in lines if line.split("#")[0].strip()
    ]


def test_every_requested_package_is_locked_with_hashes_and_no_excluded_one() -> None:
    text = (ENVS / "requirements.txt").read_text()
    for requirement, _ in entries("requirements.in"):
        name = re.split(r"[<>=; ]", requirement)[0]  # without a limit of the version and a marker
        assert re.search(rf"^{re.escape(name)}==\S+( ; .*)? \\\n    --hash=sha256:", text, flags=re.MULTILINE), name
    assert not [name for name, _ in entries("excluded.txt") if f"\n{name}==" in text]
    assert "://" not in text  # the lock names no host


@pytest.mark.parametrize("file", ["requirements.in", "excluded.txt", "apt.txt", "apt-tests.txt", "apt-linux.txt"])
def test_every_package_has_its_reason(file: str) -> None:
    for name, reason in entries(file):
        assert reason, name
