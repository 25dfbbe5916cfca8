"""Guests for tests. Where there can be none, the tests that want one are skipped, and the reason is told."""

import functools
from pathlib import Path

import pytest
from guest.guest import Guest, GuestUnavailableError, prepare


@functools.cache
def _why_not() -> str | None:
    try:
        prepare()
    except GuestUnavailableError as error:
        return str(error)
    return None


@pytest.fixture(scope="session")
def guests() -> None:
    """Skip unless guests can be had; the first time, this downloads a kernel."""
    if (reason := _why_not()) is not None:
        pytest.skip(f"no guest: {reason}")


@pytest.fixture
def guest(guests: None, tmp_path: Path) -> Guest:
    """A guest with one empty drive of each kind: scsi, sata, nvme and virtio."""
    return Guest(tmp_path / "guest")


@pytest.fixture(scope="module")
def module_guest(guests: None, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Like `guest`, for all tests of a module."""
    return Guest(tmp_path_factory.mktemp("guest"))
