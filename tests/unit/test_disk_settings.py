"""Programs and reasons for settings of disks, according to /sys."""

from pathlib import Path

import pytest

from iopatterns.configuration import factors
from iopatterns.measuring.tuning import disk_settings
from iopatterns.raw import tuning_steps


@pytest.fixture
def block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder that replaces /sys/block."""
    monkeypatch.setattr(disk_settings, "_SYS_BLOCK", tmp_path / "block")
    (tmp_path / "block").mkdir()
    return tmp_path / "block"


def namespaces(block: Path, *names: str, controllers: int = 1) -> None:
    """Create the files of NVMe disks in /sys, for one or several controllers."""
    above = block.parent / ("nvme0" if controllers == 1 else "nvme-subsys0")
    for number in range(controllers if controllers > 1 else 0):
        (above / f"nvme{number}").mkdir(parents=True)
    for name in names:
        (above / name).mkdir(parents=True)
        (above / name / "size").write_text("8\n")
        (above / name / "device").symlink_to(above)
        (block / name).symlink_to(above / name)


def reason(device: str, setting: str) -> str:
    step = disk_settings.set_on_disk(Path(device), setting, 0)
    assert step["outcome"] == tuning_steps.NOT_APPLICABLE
    assert step["exchange"] == []  # no command was run
    return step["reason"]


def test_a_write_cache_shared_with_other_disks_is_not_changed(block: Path) -> None:
    namespaces(block, "nvme0n1", "nvme0n2")
    assert "serves other disks too: nvme0n1, nvme0n2" in reason("/dev/nvme0n1", "WCE")


def test_a_disk_with_two_controllers_has_no_own_write_cache(block: Path) -> None:
    namespaces(block, "nvme0n1", controllers=2)
    assert "through 2 controllers" in reason("/dev/nvme0n1", "WCE")


def test_nvme_commands_address_the_controller(block: Path) -> None:
    namespaces(block, "nvme0n1")
    assert (
        disk_settings.manual_command(Path("/dev/nvme0n1"), "WCE", 1)
        == "nvme set-feature /dev/nvme0 --feature-id=6 --value=1"
    )


@pytest.mark.parametrize("vendor", ["SEAGATE", None])
def test_only_a_sata_disk_has_look_ahead(block: Path, vendor: str | None) -> None:
    (block / "sda/device").mkdir(parents=True)
    if vendor:
        (block / "sda/device/vendor").write_text(f"{vendor}\n")
    assert "no SATA disk" in reason("/dev/sda", "look_ahead")


def test_the_manual_command_has_the_right_program(block: Path) -> None:
    (block / "sda/device").mkdir(parents=True)
    (block / "sda/device/vendor").write_text("ATA     \n")
    assert disk_settings.manual_command(Path("/dev/sda"), "look_ahead", 1) == "hdparm -A1 /dev/sda"
    assert disk_settings.manual_command(Path("/dev/sda"), "WCE", 0) == "sdparm --set=WCE=0 /dev/sda"


@pytest.mark.parametrize(
    ("drive", "kernel", "disagree"),
    [
        (1, "write back", False),
        (0, "write through", False),
        (1, "write through", True),
        (0, "write back", True),
        (None, "write back", False),
        (1, None, False),
    ],
)
def test_drive_and_kernel_disagree_only_if_both_are_known(
    drive: int | None, kernel: str | None, disagree: bool
) -> None:
    assert disk_settings.write_caches_disagree({"drive": drive, "kernel": kernel}) == disagree


def test_settings_that_change_others_come_first() -> None:
    assert factors.in_setting_order(["write_cache", "nr_requests", "look_ahead", "WCE", "scheduler"]) == [
        "scheduler",
        "WCE",
        "look_ahead",
        "nr_requests",
        "write_cache",
    ]
