"""Fixtures of guests. Tests that need a guest are skipped, with the reason, on machines that cannot run one."""

from pathlib import Path

import pytest
from guest.guest import Guest, GuestUnavailableError, prepare


@pytest.fixture(scope="session")
def guests() -> None:
    """Skip the test if guests cannot run here; the first call downloads a kernel."""
    try:
        prepare()
    except GuestUnavailableError as error:
        pytest.skip(f"no guest: {error}")


@pytest.fixture
def guest(guests: None, tmp_path: Path) -> Guest:
    """Return a guest with one empty drive of each kind: scsi, sata, nvme and virtio."""
    return Guest(tmp_path / "guest")


@pytest.fixture(scope="module")
def module_guest(guests: None, tmp_path_factory: pytest.TempPathFactory) -> Guest:
    """Return a guest such as `guest`, shared by all tests of a module."""
    return Guest(tmp_path_factory.mktemp("guest"))
