"""Fixtures of all layers: a place on a real disk, a copy of the project, and a small cell's specification."""

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

# How long an example takes is no fact about what is tested, and on a busy machine it may be long
hypothesis.settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# `./reproduce.sh test --quick`
hypothesis.settings.register_profile("quick", hypothesis.settings.get_profile("any machine"), max_examples=10)
hypothesis.settings.load_profile("any machine")


def pytest_xdist_auto_num_workers() -> int:
    """Return how many run tests at once: two more than there are cores, for some tests mostly wait; six at most."""
    return min(len(os.sched_getaffinity(0)), 4) + 2


# Which tests take longest, the longest first: of several workers none then ends long after the others. Those of Slurm
# wait for most of their time, and go beside those that want a processor.
SLOWEST_FIRST = ("workflow/test_slurm.py", "guest", "workflow", "studies", "native", "attacks", "notebooks", "drives")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the slowest first; within a folder the order stays."""

    def turn(item: pytest.Item) -> int:
        path = os.path.relpath(item.path, ROOT / "tests")
        return next(
            (number for number, start in enumerate(SLOWEST_FIRST) if path.startswith(start)), len(SLOWEST_FIRST)
        )

    items.sort(key=turn)


# Attacks end in bounded time: each test, and each of its fixtures, by itself
ATTACK_LIMIT_S = 300


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    """Bound what an attack prepares."""
    with _bounded(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    """Bound the attack itself."""
    with _bounded(item):
        return (yield)


def _bounded(item: pytest.Item) -> contextlib.AbstractContextManager[None]:
    attack = item.path.is_relative_to(ROOT / "tests/attacks")
    return bounded(ATTACK_LIMIT_S) if attack else contextlib.nullcontext()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was skipped, and what would enable it."""
    reasons = []
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):
            reasons.append(report.longrepr[2].removeprefix("Skipped: "))
    lines = skipped.summary(reasons)
    if lines:
        terminalreporter.section("what was skipped, and what would enable it")
        for line in lines:
            terminalreporter.write_line(line)


@pytest.fixture(scope="session", autouse=True)
def host_state_folder() -> Iterator[Path]:
    """A folder of this test run's own for what is kept of the host's disks, in place of /var/lib/iopatterns."""
    with tempfile.TemporaryDirectory(prefix="iopatterns-state-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv(host_state.STATE_VARIABLE, folder)
        yield Path(folder)


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
def specification(disk_folder: Path) -> Any:
    """The specification of a short random read of a small file in `disk_folder`."""
    return file_cell(disk_folder)
