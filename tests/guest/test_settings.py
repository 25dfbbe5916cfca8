"""Settings and health of real SCSI, SATA and NVMe drives: write caches, look-ahead, temperature."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from guest.guest import Disk, Guest, Section
from support import disk_cell

from iopatterns.raw import cells

SCSI = Disk("a", "scsi", "T1", "LAB SSD", 32)
SATA = Disk("b", "sata", "A1", "LAB SATA", 32)
NVME = Disk("c", "nvme", "N1", "QEMU NVMe Ctrl", 32)
VIRTIO = Disk("d", "virtio", "V1", "", 32)
TUNE = ["WCE", "DRA", "write_cache", "look_ahead"]

Spec = dict[str, Any]


def drive(disk: Disk) -> dict[str, Any]:
    return {"kind": "block", "path": f"/dev/disk/by-id/{disk.by_id}", "serial": disk.serial, "tune": TUNE}


def cell(disk: Disk, runtime_ms: int = 200, **settings: Any) -> Spec:
    found: Spec = disk_cell(drive(disk), disk.name, "randread", runtime_ms, **settings)
    if runtime_ms > 1000:
        found["fio"]["thinktime"] = 20_000  # the emulated processor rests during a long measurement
    return found


def measuring(specification: Spec, name: str) -> str:
    """Return the command that measures a cell and copies the metadata file to the share under ``name``."""
    folder = f"raw/{specification['drive']['name']}/study/{name}-{cells.specification_digest(specification)[:8]}"
    text = json.dumps(specification)
    return (
        f"\"$PYTHON\" -m iopatterns measure --specification '{text}' {folder}/01.json; s=$?;"
        f' cp {folder}/01.sidecar.json "$SHARE/{name}.json"; (exit $s)'
    )


def killed(specification: Spec, changed: str, expected: str) -> str:
    """Return a script that kills a measurement and restores the settings.

    SIGKILL is sent as soon as the command ``changed`` prints the text ``expected``.
    """
    text = json.dumps(specification)
    raw = f"raw/{specification['drive']['name']}/study/k-{cells.specification_digest(specification)[:8]}/01.json"
    return (
        f"(\"$PYTHON\" -m iopatterns measure --specification '{text}' {raw}) & "
        f"while kill -0 $! && ! {changed} | grep -q '{expected}'; do sleep 1; done; echo before:; {changed};"
        f' kill -9 $!; pkill -9 fio; sleep 1; echo killed:; {changed}; "$PYTHON" -m iopatterns restore;'
        f" echo after:; {changed}"
    )


HERE = 'mkdir -p /tmp/here/config; cd /tmp/here; cp "$SHARE/drives.yaml" config/; '
# Commands that print in one line the state of a write cache according to the disk and to the kernel
OF_SCSI = "echo WCE $(sdparm --get=WCE $A | awk '/^WCE/ {print $2}'), $(cat /sys/block/${A#/dev/}/queue/write_cache)"
OF_SATA = OF_SCSI.replace("$A", "$B").replace("{A", "{B")
OF_NVME = (
    "echo WCE $(nvme get-feature --feature-id=6 /dev/nvme0 | grep -o '[01]$'),"
    " $(cat /sys/block/${C#/dev/}/queue/write_cache)"
)
# A replacement for hdparm, because QEMU's SATA disk has no look-ahead. The file /tmp/mode selects how the disk takes
# the setting, because programs on a real drive get no other variable of the environment than PATH.
STAND_IN = """
mkdir -p /tmp/bin; echo 1 >/tmp/look-ahead; cat >/tmp/bin/hdparm <<'END'
#!/bin/bash
case "$(cat /tmp/mode) $1" in
  "takes -A0" | "takes -A1") echo "${1#-A}" >/tmp/look-ahead ;;
  "rejects -A0") echo "SG_IO: bad/missing sense data" >&2 ;;
esac
printf '\\n%s:\\n look-ahead    =  %s\\n' "$2" "$(cat /tmp/look-ahead) (on)"
END
chmod +x /tmp/bin/hdparm; export PATH=/tmp/bin:$PATH;
"""


def look_ahead(mode: str) -> str:
    """Return a script that measures with look-ahead off, and prints the setting during and after the measurement."""
    return (
        STAND_IN + f"echo {mode} >/tmp/mode; ({measuring(cell(SATA, 1500, look_ahead=0), mode)}) & sleep 0;"
        " while kill -0 $! 2>/dev/null; do read now </tmp/look-ahead; [ $now = 0 ] && echo off meanwhile && break;"
        " sleep 0.1; done; wait $!; s=$?; echo then $(cat /tmp/look-ahead); exit $s"
    )


SECTIONS = {
    "scsi off": f"{OF_SCSI}; {measuring(cell(SCSI, WCE=0), 'scsi-off')}; {OF_SCSI}",
    "sata off": f"{OF_SATA}; {measuring(cell(SATA, WCE=0), 'sata-off')}; {OF_SATA}",
    "nvme off": f"{OF_NVME}; {measuring(cell(NVME, WCE=0), 'nvme-off')}; {OF_NVME}",
    "nvme on": f"{measuring(cell(NVME, WCE=1), 'nvme-on')}; {OF_NVME}",
    "nvme killed": killed(cell(NVME, 60_000, WCE=0), OF_NVME, "WCE 0, write through"),
    "scsi killed": killed(cell(SCSI, 60_000, WCE=0), OF_SCSI, "WCE 0, write through"),
    "scsi changed meanwhile": f"({measuring(cell(SCSI, 20_000, WCE=0), 'meanwhile')}) & "
    + f"for i in $(seq 90); do {OF_SCSI} | grep -q 'WCE 0, write through' && break; sleep 1; done; "
    + f'"$PYTHON" -m iopatterns restore; echo restore ends with $?; {OF_SCSI}; '
    + f"sdparm --set=WCE=1 $A; wait $!; s=$?; {OF_SCSI}; exit $s",
    "scsi bit": measuring(cell(SCSI, DRA=1), "scsi-bit"),
    "nvme bit": measuring(cell(NVME, DRA=1), "nvme-bit"),
    "user's view": "cd /sys/block/${A#/dev/}/queue; view=$PWD/write_cache; echo write through >$view; "
    + "echo 64 >read_ahead_kb; cd /tmp/here; "
    + f"{measuring(cell(SCSI), 'disagreeing')}; {measuring(cell(SCSI, WCE=0), 'user-view')}; {OF_SCSI};"
    + "echo read-ahead $(cat ${view%/*}/read_ahead_kb); echo write back >$view",
    "cache found off": f"sdparm --set=WCE=0 $A; {OF_SCSI}; echo 1 >/sys/block/${{A#/dev/}}/device/rescan; {OF_SCSI}; "
    + f"{measuring(cell(SCSI, WCE=1), 'scsi-on')}; {OF_SCSI}; "
    + "sdparm --set=WCE=1 $A; echo 1 >/sys/block/${A#/dev/}/device/rescan",
    "view": f"{measuring(cell(SCSI, write_cache='write through'), 'view')}; {OF_SCSI}; "
    + f"{measuring(cell(SCSI, write_cache='write through', WCE=0), 'both')}; {OF_SCSI}",
    "view of a mounted disk": 'modprobe ext4; mkfs.ext4 -q "$A"; mkdir -p /mnt/a; mount "$A" /mnt/a; '
    + f"{measuring(cell(SCSI, 150, write_cache='write through'), 'mounted')}; umount /mnt/a; {OF_SCSI}",
    "look-ahead of QEMU's disk": measuring(cell(SATA, look_ahead=1), "no-look-ahead"),
    "look-ahead of a SCSI disk": measuring(cell(SCSI, look_ahead=0), "scsi-look-ahead"),
    "without hdparm": 'for hdparm in $(which -a hdparm); do rm "$hdparm"; done; '
    + measuring(cell(SATA, 150, look_ahead=0), "no-hdparm"),
    "takes": look_ahead("takes"),
    "look-ahead killed": STAND_IN
    + "echo takes >/tmp/mode; "
    + killed(cell(SATA, 60_000, look_ahead=0), "echo look-ahead $(cat /tmp/look-ahead)", "look-ahead 0"),
    "ignores": look_ahead("ignores"),
    "rejects": look_ahead("rejects"),
    "health": "; ".join(measuring(cell(disk), f"health-{disk.bus}") for disk in (SATA, NVME, VIRTIO)),
    # 300 K, 27 °C: QEMU's drive has 50 °C, so with this threshold it reports a critical warning
    "hot": "nvme set-feature --feature-id=4 --value=300 /dev/nvme0; "
    + measuring(cell(NVME, 210), "hot")
    + "; rm $(which -a smartctl); "
    + measuring(cell(NVME, 220), "hot-nvme")
    + "; rm $(which -a nvme); "
    + measuring(cell(NVME, 230), "no-tool"),
}


@pytest.fixture(scope="module")
def boot(guests: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Section], Path]:
    """Return the results of the sections, and the folder with the metadata files."""
    missing = [program for program in ("hdparm", "nvme", "smartctl") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (apt-get install hdparm nvme-cli smartmontools)")
    guest = Guest(tmp_path_factory.mktemp("guest"), [SCSI, SATA, NVME, VIRTIO])
    (guest.share / "drives.yaml").write_text(yaml.safe_dump({disk.name: drive(disk) for disk in guest.disks}))
    found = guest.run_sections({name: HERE + piece for name, piece in SECTIONS.items()}, timeout_s=300)
    return found, guest.share


@pytest.fixture(scope="module")
def said(boot: tuple[dict[str, Section], Path]) -> dict[str, Section]:
    return boot[0]


@pytest.fixture(scope="module")
def share(boot: tuple[dict[str, Section], Path]) -> Path:
    return boot[1]


def metadata(share: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((share / f"{name}.json").read_text())
    return found


def step(share: Path, name: str) -> dict[str, Any]:
    (found,) = metadata(share, name)["tuning"]
    return dict(found)


def doubts(share: Path, name: str) -> list[str]:
    """Return the doubts in a metadata file, except that the machine was busy, as emulated machines often are."""
    return [doubt for doubt in metadata(share, name)["doubts"] if doubt != "a busy machine"]


def states(section: Section) -> list[str]:
    return [
        line
        for line in section.output.splitlines()
        if line.startswith(("WCE", "look-ahead", "read-ahead", "before", "killed", "after"))
    ]


@pytest.mark.parametrize("name", ["scsi", "sata", "nvme"])
def test_a_write_cache_and_the_kernel_s_view_are_switched_off_and_restored(
    said: dict[str, Section], share: Path, name: str
) -> None:
    assert said[f"{name} off"].status == 0, said[f"{name} off"].output
    found = step(share, f"{name}-off")
    assert (found["before"], found["after"], found["outcome"], found["changeable"]) == (1, 0, "changed", True)
    assert metadata(share, f"{name}-off")["write_cache"] == {"drive": 0, "kernel": "write through"}
    assert states(said[f"{name} off"]) == ["WCE 1, write back"] * 2


def test_the_write_cache_of_an_nvme_drive_goes_through_nvme_and_is_not_saved(share: Path) -> None:
    commands = [each["command"] for each in step(share, "nvme-off")["exchange"]]
    assert ["nvme", "set-feature", "/dev/nvme0", "--feature-id=6", "--value=0"] in commands
    assert not [word for command in commands for word in command if "save" in word]


def test_a_write_cache_that_is_already_on_is_not_written(share: Path) -> None:
    found = step(share, "nvme-on")
    assert found["outcome"] == "already so"
    assert not [each for each in found["exchange"] if "set-feature" in each["command"]]


@pytest.mark.parametrize("name", ["scsi", "nvme"])
def test_a_write_cache_and_the_kernel_s_view_are_restored_after_a_kill(said: dict[str, Section], name: str) -> None:
    off, on = "WCE 0, write through", "WCE 1, write back"
    assert states(said[f"{name} killed"]) == ["before:", off, "killed:", off, "after:", on]
    assert "restored WCE of /dev/" in said[f"{name} killed"].output


def test_a_write_cache_changed_by_another_program_ends_the_run(said: dict[str, Section]) -> None:
    section = said["scsi changed meanwhile"]
    # restore skips a disk that is being measured, and the measurement finds the change by sdparm
    assert re.search(
        r"a: /dev/sd[a-z]+ is being measured by process \d+, which will restore WCE, write_cache", section.output
    )
    assert "restore ends with 0" in section.output
    assert states(section) == ["WCE 0, write through", "WCE 1, write back"]
    assert section.status == 1
    assert "01.json: discarded, because settings changed meanwhile: WCE of sd" in section.output
    assert "was 0 after tuning and is 1 now" in section.output


@pytest.mark.parametrize(
    ("name", "outcome", "reason"),
    [
        ("scsi-bit", "not changeable", ""),
        ("nvme-bit", "not applicable", "no caching mode page"),
        ("mounted", "not applicable", "may lose its data"),
        ("no-look-ahead", "not applicable", "the drive reports no look_ahead: look-ahead    = not supported"),
        ("scsi-look-ahead", "not applicable", "no SATA disk"),
        ("no-hdparm", "not applicable", "hdparm is not installed (apt-get install hdparm)"),
        ("ignores", "ignored", ""),
        ("rejects", "refused", ""),
    ],
)
def test_a_setting_that_does_not_change_is_recorded_with_outcome_and_reason(
    share: Path, name: str, outcome: str, reason: str
) -> None:
    found = step(share, name)
    assert found["outcome"] == outcome
    assert reason in (found.get("reason") or "")


def test_a_bit_that_cannot_change_is_reported_and_the_cell_is_measured(said: dict[str, Section]) -> None:
    assert said["scsi bit"].status == 0, said["scsi bit"].output
    assert "settings did not take effect" in said["scsi bit"].output


def test_fio_runs_with_readonly_if_a_cell_only_reads(share: Path) -> None:
    assert "--readonly" in metadata(share, "nvme-on")["command"]


def test_a_view_set_by_the_user_raises_a_doubt_and_is_restored(said: dict[str, Section], share: Path) -> None:
    before = metadata(share, "disagreeing")
    assert before["write_cache"] == {"drive": 1, "kernel": "write through"}
    assert "drive and kernel disagree on the write cache" in before["doubts"]
    during = metadata(share, "user-view")
    assert during["write_cache"] == {"drive": 0, "kernel": "write through"}
    assert "drive and kernel disagree on the write cache" not in during["doubts"]
    assert states(said["user's view"])[-2:] == ["WCE 1, write through", "read-ahead 64"]


def test_the_kernel_flushes_a_cache_that_is_switched_on(said: dict[str, Section], share: Path) -> None:
    stale, rescanned, after = states(said["cache found off"])
    assert stale == "WCE 0, write back"  # the kernel's view is out of date after sdparm
    assert rescanned == after == "WCE 0, write through"
    assert metadata(share, "scsi-on")["write_cache"] == {"drive": 1, "kernel": "write back"}


def test_the_kernel_s_view_is_a_setting(said: dict[str, Section], share: Path) -> None:
    found = step(share, "view")
    assert (found["before"], found["after"], found["outcome"]) == ("write back", "write through", "changed")
    assert doubts(share, "view") == []  # the cell sets it
    outcomes = {each["setting"]: each["outcome"] for each in metadata(share, "both")["tuning"]}
    assert outcomes == {"WCE": "changed", "write_cache": "already so"}  # it follows WCE, which is set first
    assert states(said["view"]) == ["WCE 1, write back"] * 2


def test_flushes_stay_on_for_a_mounted_disk(said: dict[str, Section]) -> None:
    assert states(said["view of a mounted disk"]) == ["WCE 1, write back"]


def test_look_ahead_is_switched_off_and_restored(said: dict[str, Section], share: Path) -> None:
    found = step(share, "takes")
    assert (found["before"], found["after"], found["outcome"]) == (1, 0, "changed")
    assert "off meanwhile\n" in said["takes"].output
    assert "then 1\n" in said["takes"].output


def test_look_ahead_is_restored_after_a_kill(said: dict[str, Section]) -> None:
    off, on = "look-ahead 0", "look-ahead 1"
    assert states(said["look-ahead killed"]) == ["before:", off, "killed:", off, "after:", on]


@pytest.mark.parametrize("mode", ["ignores", "rejects"])
def test_look_ahead_that_does_not_change_stays_on(said: dict[str, Section], mode: str) -> None:
    assert "off meanwhile" not in said[mode].output


def test_the_health_of_drives_is_recorded_before_and_after(share: Path) -> None:
    for bus, degrees, firmware in (("sata", 31, "2.5+"), ("nvme", 50, None)):
        for moment in ("before", "after"):
            health = metadata(share, f"health-{bus}")["health"][moment]
            assert (health["program"], health["temperature_c"]) == ("smartctl", degrees)
            assert health["passed"] is True
            assert health["media_errors"] == 0
            assert health["firmware"] == (firmware or metadata(share, f"health-{bus}")["drive"]["firmware"])
        assert doubts(share, f"health-{bus}") == []
    assert metadata(share, "health-nvme")["health"]["after"]["warning_c"] == 70
    assert metadata(share, "health-nvme")["health"]["after"]["critical_c"] == 100


def test_a_drive_without_health_data_has_the_reason_in_the_metadata(share: Path) -> None:
    health = metadata(share, "health-virtio")["health"]
    assert list(health["after"]) == ["not available"]
    assert "Unable to detect device type" in health["after"]["not available"]


@pytest.mark.parametrize(("name", "program"), [("hot", "smartctl"), ("hot-nvme", "nvme")])
def test_a_hot_drive_raises_doubts_with_each_program(share: Path, name: str, program: str) -> None:
    found = metadata(share, name)
    assert found["health"]["after"]["program"] == program
    assert found["health"]["after"]["warning_c"] == 27
    assert "drive at its warning temperature" in found["doubts"]
    assert "drive with a critical warning" in found["doubts"]


def test_without_a_program_the_reason_is_recorded_and_no_doubt_raised(share: Path) -> None:
    found = metadata(share, "no-tool")
    assert "neither smartctl nor nvme is installed" in found["health"]["before"]["not available"]
    assert doubts(share, "no-tool") == []
