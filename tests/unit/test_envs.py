"""The environment: one source, and everything generated from it in step."""

import importlib.util
import re
from types import ModuleType

import pytest
from support import ROOT

ENVS = ROOT / "envs"


def entries(file: str) -> list[tuple[str, str]]:
    lines = (ENVS / file).read_text().splitlines()
    return [
        (line.split("#")[0].strip(), line.partition("#")[2].strip()) for line in lines if line.split("#")[0].strip()
    ]


@pytest.fixture(scope="module")
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock", ENVS / "lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_conda_environment_is_what_the_lock_gives(lock: ModuleType) -> None:
    generated = lock.conda_environment((ENVS / "requirements.txt").read_text())
    assert (ENVS / "environment.yaml").read_text() == generated


def test_conda_environment_holds_every_locked_package(lock: ModuleType) -> None:
    locked = re.findall(r"^([\w.\-]+)==", (ENVS / "requirements.txt").read_text(), flags=re.MULTILINE)
    assert [re.split("==", pin)[0] for pin in lock.locked_pins((ENVS / "requirements.txt").read_text())] == locked


def test_every_package_asked_for_is_locked_with_hashes() -> None:
    text = (ENVS / "requirements.txt").read_text()
    for name, _ in entries("requirements.in"):
        assert re.search(rf"^{re.escape(name)}==\S+( ; .*)? \\\n    --hash=sha256:", text, flags=re.MULTILINE), name


@pytest.mark.parametrize("file", ["requirements.in", "apt.txt", "apt-tests.txt"])
def test_every_package_has_its_reason(file: str) -> None:
    for name, reason in entries(file):
        assert reason, name


def test_lock_names_no_host() -> None:
    assert "://" not in (ENVS / "requirements.txt").read_text()
