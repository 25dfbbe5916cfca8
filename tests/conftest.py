"""Fixtures of all layers of tests."""

import contextlib
import os
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import skipped
from patience import bounded
from support import ROOT, Project, copy_project, file_cell

from iopatterns.base import host_state

# the time of an example depends on the load of the machine
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# `./reproduce.sh test --quick`
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("any machine"), max_examples=10)
hypothesis.settings.load_profile("any machine")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for tests that take hours of a processor."""
    parser.addoption(
        "--nightly", action="store_true", help="let every system call of a measurement fail, and fuzz for an hour"
    )


def pytest_xdist_auto_num_workers() -> int:
    """Return the number of workers: processors plus two, at most six.

    Some tests mostly wait.
    """
    return min(len(os.sched_getaffinity(0)), 4) + 2


# Folders and files with the slowest tests first, so that all workers finish at about the same time. The tests of Slurm
# mostly wait, and run beside tests that need a processor.
SLOWEST_FIRST = ("workflow/test_slurm.py", "guest", "workflow", "studies", "native", "attacks", "notebooks", "drives")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest tests first. Within a folder, the order remains."""

    def turn(item: pytest.Item) -> int:
        path = os.path.relpath(item.path, ROOT / "tests")
        return next(
            (number for number, start in enumerate(SLOWEST_FIRST) if path.startswith(start)), len(SLOWEST_FIRST)
        )

    items.sort(key=turn)


# Limit for each attack, and for each of its fixtures
ATTACK_LIMIT_S = 300


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Limit the time of the fixtures of an attack."""
    with _bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Limit the time of an attack."""
    with _bounded(item):
        return (yield)


def _bounded(item: pytest.Item) -> contextlib.AbstractContextManager[None]:
    is_bounded = item.path.is_relative_to(ROOT / "tests/attacks") and not item.config.getoption("nightly")
    return bounded(ATTACK_LIMIT_S) if is_bounded else contextlib.nullcontext()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print which tests were skipped, and what is needed to run them."""
    reports = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    lines = skipped.summary([each[2].removeprefix("Skipped: ") for each in reports if isinstance(each, tuple)])
    if lines:
        terminalreporter.section("skipped tests, and what is needed to run them")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def host_state_folder() -> Iterator[Path]:
    """Use a temporary folder for the state of disks."""
    with tempfile.TemporaryDirectory(prefix="iopatterns-state-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(host_state.STATE_VARIABLE, folder)
        yield Path(folder)


@pytest.fixture
def disk_folder() -> Iterator[Path]:
    """Yield an empty folder on the disk of the checkout.

    /tmp may be in memory.
    """
    yield from _folder_on_disk()


@pytest.fixture(scope="module")
def module_disk_folder() -> Iterator[Path]:
    """Yield a folder as `disk_folder` does, for all tests of a module."""
    yield from _folder_on_disk()


def _folder_on_disk() -> Iterator[Path]:
    parent = ROOT / "data/scratch/tests"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        yield Path(folder)


@pytest.fixture
def project(disk_folder: Path) -> Project:
    """Return a fresh copy of the project."""
    return copy_project(disk_folder / "project")


@pytest.fixture
def specification(disk_folder: Path) -> Any:
    """Return the specification of a short random read of a small file."""
    return file_cell(disk_folder)
