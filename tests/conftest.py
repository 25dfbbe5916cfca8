"""Fixtures of all layers: a place on a real disk, a copy of the project, and a small cell's specification."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import ROOT, Project, cell_on_a_file, copy_project

from iopatterns import host_state


@pytest.fixture(scope="session", autouse=True)
def host_state_folder() -> Iterator[Path]:
    """A folder of this test run's own for what is kept of the host's disks, in place of /var/lib/iopatterns."""
    with tempfile.TemporaryDirectory(prefix="iopatterns-state-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(host_state.VARIABLE, folder)
        yield Path(folder)


@pytest.fixture(autouse=True)
def _state_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of this host's disks is the test's own."""
    monkeypatch.setenv("IOPATTERNS_STATE", str(tmp_path / "state"))


@pytest.fixture
def disk_folder() -> Iterator[Path]:
    """An empty folder on the disk that holds the checkout: /tmp may be memory, on which no drive is measured."""
    yield from _folder_on_disk()


@pytest.fixture(scope="module")
def module_disk_folder() -> Iterator[Path]:
    """Like `disk_folder`, for all tests of a module."""
    yield from _folder_on_disk()


def _folder_on_disk() -> Iterator[Path]:
    parent = ROOT / "data/scratch/tests"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@pytest.fixture
def project(disk_folder: Path) -> Project:
    """A fresh copy of the project."""
    return copy_project(disk_folder / "project")


@pytest.fixture
def specification(disk_folder: Path) -> dict[str, object]:
    """The specification of a short random read of a small file in `disk_folder`."""
    return cell_on_a_file(disk_folder)
