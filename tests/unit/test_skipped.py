"""The summary of skipped tests names the command that would enable them."""

import shutil

import pytest
from guest.guest import GuestUnavailableError, prepare
from skipped import PACKAGES, packages_of, summary
from support import ROOT


def test_tests_without_a_guest_are_counted_with_the_command_that_enables_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(GuestUnavailableError) as caught:
        prepare()
    assert summary([f"no guest: {caught.value}"] * 29) == [
        "29 tests need a guest kernel: apt-get install qemu-system-x86",
        "All of these are installed and then run by: ./reproduce.sh test --all",
    ]


@pytest.mark.parametrize(
    ("reason", "packages"),
    [
        ("mdadm is not installed", ["mdadm"]),
        ("mkfs.ext4 is not installed", ["e2fsprogs"]),
        ("bonnie++ is not installed", ["bonnie++"]),
        ("needs lvm and its kernel modules: modprobe: not found", ["lvm2"]),
        ("not installed: nvme (apt-get install hdparm nvme-cli smartmontools)", ["nvme-cli"]),
        (
            "not installed: hdparm, smartctl (apt-get install hdparm nvme-cli smartmontools)",
            ["hdparm", "smartmontools"],
        ),
        ("munged, slurmctld, slurmd, sbatch not installed", ["slurm-wlm", "munge"]),
        ("only root can start a Slurm cluster of its own", []),
        ("this kernel offers no mq-deadline", []),
        ("no loop device can be made here (as root, with losetup): refused", []),
    ],
)
def test_a_reason_names_its_packages(reason: str, packages: list[str]) -> None:
    assert packages_of(reason) == packages


def test_other_reasons_are_counted_unchanged() -> None:
    assert summary(["this kernel offers no mq-deadline"] * 2) == ["2 × this kernel offers no mq-deadline"]
    assert summary([]) == []


def test_reproduce_sh_test_all_installs_each_named_package() -> None:
    lines = (ROOT / "envs/apt-tests.txt").read_text(encoding="utf-8").splitlines()
    listed = {line.split()[0] for line in lines if line and not line.startswith("#")}
    assert set(PACKAGES.values()) == listed
