"""Settings and health of real SCSI, SATA and NVMe drives: write caches, the kernel's view of them, look-ahead, heat."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from guest.guest import Disk, Guest, Section

from iopatterns.raw import cells

SCSI = Disk("a", "scsi", "T1", "LAB SSD", 32)
SATA = Disk("b", "sata", "A1", "LAB SATA", 32)
NVME = Disk("c", "nvme", "N1", "QEMU NVMe Ctrl", 32)
VIRTIO = Disk("d", "virtio", "V1", "", 32)
TUNE = ["WCE", "DRA", "write_cache", "look_ahead"]

Spec = dict[str, Any]


def cell(disk: Disk, runtime_ms: int = 200, **settings: Any) -> Spec:
    drive = {"kind": "block", "path": f"/dev/disk/by-id/{disk.by_id}", "serial": disk.serial, "tune": TUNE}
    # the emulated processor rests while something long is measured
    unhurried = {"thinktime": 20_000} if runtime_ms > 1000 else {}
    return {
        "protocol": 2,
        "runtime_ms": runtime_ms,
        "warmup_ms": 0,
        "seed": 1,
        "drive": {**drive, "name": disk.name, "file_size_bytes": 8 * 2**20},
        "fio": {"rw": "randread", "bs": 4096, "ioengine": "psync", "direct": 1, "group_reporting": 1, **unhurried},
        "settings": settings,
    }


def measuring(specification: Spec, name: str) -> str:
    """Return the command that measures a cell in /tmp/here; its sidecar lies in the share under this name then."""
    folder = f"raw/{specification['drive']['name']}/study/{name}-{cells.specification_digest(specification)[:8]}"
    text = json.dumps(specification)
    return (
        f"\"$PYTHON\" -m iopatterns measure --specification '{text}' {folder}/01.json; s=$?;"
        f' cp {folder}/01.sidecar.json "$SHARE/{name}.json"; (exit $s)'
    )


def killed(specification: Spec, changed: str, told: str) -> str:
    """Return what kills a measurement (SIGKILL) once a command prints a text, and then puts settings back."""
    text = json.dumps(specification)
    raw = f"raw/{specification['drive']['name']}/study/k-{cells.specification_digest(specification)[:8]}/01.json"
    return (
        f"(\"$PYTHON\" -m iopatterns measure --specification '{text}' {raw}) & "
        f"while kill -0 $! && ! {changed} | grep -q '{told}'; do sleep 1; done; echo before:; {changed};"
        f' kill -9 $!; pkill -9 fio; sleep 1; echo killed:; {changed}; "$PYTHON" -m iopatterns restore;'
        f" echo after:; {changed}"
    )


HERE = 'mkdir -p /tmp/here/config; cd /tmp/here; cp "$SHARE/drives.yaml" config/; '
# What a disk and the kernel say of its write cache, in one line
OF_SCSI = "echo WCE $(sdparm --get=WCE $A | awk '/^WCE/ {print $2}'), $(cat /sys/block/${A#/dev/}/queue/write_cache)"
OF_SATA = OF_SCSI.replace("$A", "$B").replace("{A", "{B")
OF_NVME = (
    "echo WCE $(nvme get-feature --feature-id=6 /dev/nvme0 | grep -o '[01]$'),"
    " $(cat /sys/block/${C#/dev/}/queue/write_cache)"
)
# QEMU's SATA disk has no look-ahead to set: this stands for hdparm on one that has, and behaves as MODE says
STAND_IN = """
mkdir -p /tmp/bin; echo 1 >/tmp/look-ahead; cat >/tmp/bin/hdparm <<'END'
#!/bin/bash
case "$MODE $1" in
  "takes -A0" | "takes -A1") echo "${1#-A}" >/tmp/look-ahead ;;
  "rejects -A0") echo "SG_IO: bad/missing sense data" >&2 ;;
esac
printf '\\n%s:\\n look-ahead    =  %s\\n' "$2" "$(cat /tmp/look-ahead) (on)"
END
chmod +x /tmp/bin/hdparm; export PATH=/tmp/bin:$PATH;
"""


def look_ahead(mode: str) -> str:
    """Return what switches look-ahead off through the stand-in, and prints what it is meanwhile and afterwards."""
    return (
        HERE + STAND_IN + f"export MODE={mode}; ({measuring(cell(SATA, 1500, look_ahead=0), mode)}) & sleep 0;"
        " while kill -0 $! 2>/dev/null; do read now </tmp/look-ahead; [ $now = 0 ] && echo off meanwhile && break;"
        " sleep 0.1; done; wait $!; s=$?; echo then $(cat /tmp/look-ahead); exit $s"
    )


SECTIONS = {
    "scsi off": HERE + f"{OF_SCSI}; {measuring(cell(SCSI, WCE=0), 'scsi-off')}; {OF_SCSI}",
    "sata off": HERE + f"{OF_SATA}; {measuring(cell(SATA, WCE=0), 'sata-off')}; {OF_SATA}",
    "nvme off": HERE + f"{OF_NVME}; {measuring(cell(NVME, WCE=0), 'nvme-off')}; {OF_NVME}",
    "nvme on": HERE + f"{measuring(cell(NVME, WCE=1), 'nvme-on')}; {OF_NVME}",
    "nvme killed": HERE + killed(cell(NVME, 60_000, WCE=0), OF_NVME, "WCE 0, write through"),
    "scsi killed": HERE + killed(cell(SCSI, 60_000, WCE=0), OF_SCSI, "WCE 0, write through"),
    "scsi changed meanwhile": HERE
    + f"({measuring(cell(SCSI, 20_000, WCE=0), 'meanwhile')}) & "
    + f"for i in $(seq 90); do {OF_SCSI} | grep -q 'WCE 0, write through' && break; sleep 1; done; "
    + f'"$PYTHON" -m iopatterns restore; echo restore ends with $?; {OF_SCSI}; '
    + f"sdparm --set=WCE=1 $A; wait $!; s=$?; {OF_SCSI}; exit $s",
    "scsi bit": HERE + measuring(cell(SCSI, DRA=1), "scsi-bit"),
    "nvme bit": HERE + measuring(cell(NVME, DRA=1), "nvme-bit"),
    "user's view": HERE
    + "cd /sys/block/${A#/dev/}/queue; view=$PWD/write_cache; echo write through >$view; echo 64 >read_ahead_kb; "
    + "cd /tmp/here; "
    + f"{measuring(cell(SCSI), 'disagreeing')}; {measuring(cell(SCSI, WCE=0), 'user-view')}; {OF_SCSI};"
    + "echo read-ahead $(cat ${view%/*}/read_ahead_kb); echo write back >$view",
    "cache found off": HERE
    + f"sdparm --set=WCE=0 $A; {OF_SCSI}; echo 1 >/sys/block/${{A#/dev/}}/device/rescan; {OF_SCSI}; "
    + f"{measuring(cell(SCSI, WCE=1), 'scsi-on')}; {OF_SCSI}; "
    + "sdparm --set=WCE=1 $A; echo 1 >/sys/block/${A#/dev/}/device/rescan",
    "view": HERE
    + f"{measuring(cell(SCSI, write_cache='write through'), 'view')}; {OF_SCSI}; "
    + f"{measuring(cell(SCSI, write_cache='write through', WCE=0), 'both')}; {OF_SCSI}",
    "view of a mounted disk": HERE
    + 'modprobe ext4; mkfs.ext4 -q "$A"; mkdir -p /mnt/a; mount "$A" /mnt/a; '
    + f"{measuring(cell(SCSI, 150, write_cache='write through'), 'mounted')}; umount /mnt/a; {OF_SCSI}",
    "look-ahead of QEMU's disk": HERE + measuring(cell(SATA, look_ahead=1), "no-look-ahead"),
    "look-ahead of a SCSI disk": HERE + measuring(cell(SCSI, look_ahead=0), "scsi-look-ahead"),
    "without hdparm": HERE
    + 'for hdparm in $(which -a hdparm); do rm "$hdparm"; done; '
    + measuring(cell(SATA, 150, look_ahead=0), "no-hdparm"),
    "takes": look_ahead("takes"),
    "look-ahead killed": HERE
    + STAND_IN
    + "export MODE=takes; "
    + killed(cell(SATA, 60_000, look_ahead=0), "echo look-ahead $(cat /tmp/look-ahead)", "look-ahead 0"),
    "ignores": look_ahead("ignores"),
    "rejects": look_ahead("rejects"),
    "health": HERE + "; ".join(measuring(cell(disk), f"health-{disk.bus}") for disk in (SATA, NVME, VIRTIO)),
    # 300 K, 27 °C: QEMU's drive has 50 °C, and by this threshold of its own a critical warning
    "hot": HERE
    + "nvme set-feature --feature-id=4 --value=300 /dev/nvme0; "
    + measuring(cell(NVME, 210), "hot")
    + "; rm $(which -a smartctl); "
    + measuring(cell(NVME, 220), "hot-nvme")
    + "; rm $(which -a nvme); "
    + measuring(cell(NVME, 230), "no-tool"),
}


@pytest.fixture(scope="module")
def boot(guests: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Section], Path]:
    """What each section said, and the folder with the sidecars."""
    missing = [program for program in ("hdparm", "nvme", "smartctl") if shutil.which(program) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (apt-get install hdparm nvme-cli smartmontools)")
    guest = Guest(tmp_path_factory.mktemp("guest"), disks=[SCSI, SATA, NVME, VIRTIO])
    entries = {disk.name: cell(disk)["drive"] for disk in guest.disks}
    for disk_entry in entries.values():
        del disk_entry["name"], disk_entry["file_size_bytes"]
    (guest.share / "drives.yaml").write_text(yaml.safe_dump(entries))
    found = guest.run_sections(SECTIONS, timeout_s=300)
    for name, section in found.items():
        print(f"== {name}: status {section.status} after {section.duration_s:.1f} s\n{section.output}")
    return found, guest.share


@pytest.fixture(scope="module")
def said(boot: tuple[dict[str, Section], Path]) -> dict[str, Section]:
    return boot[0]


@pytest.fixture(scope="module")
def share(boot: tuple[dict[str, Section], Path]) -> Path:
    return boot[1]


def sidecar(share: Path, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((share / f"{name}.json").read_text())
    return found


def step(share: Path, name: str) -> dict[str, Any]:
    (found,) = sidecar(share, name)["tuning"]
    return dict(found)


def doubts(share: Path, name: str) -> list[str]:
    """Return the doubts about the drive: an emulated machine is busy now and then."""
    return [doubt for doubt in sidecar(share, name)["doubts"] if doubt != "a busy machine"]


def states(section: Section) -> list[str]:
    return [
        line
        for line in section.output.splitlines()
        if line.startswith(("WCE", "look-ahead", "read-ahead", "before", "killed", "after"))
    ]


@pytest.mark.parametrize("name", ["scsi", "sata", "nvme"])
def test_a_write_cache_is_switched_off_and_back_and_the_kernel_knows(
    said: dict[str, Section], share: Path, name: str
) -> None:
    assert said[f"{name} off"].status == 0, said[f"{name} off"].output
    found = step(share, f"{name}-off")
    assert (found["before"], found["after"], found["outcome"], found["changeable"]) == (1, 0, "changed", True)
    assert sidecar(share, f"{name}-off")["write_cache"] == {"drive": 0, "kernel": "write through"}
    assert states(said[f"{name} off"]) == ["WCE 1, write back"] * 2


def test_the_write_cache_of_an_nvme_drive_goes_through_nvme_and_is_not_saved(share: Path) -> None:
    commands = [each["command"] for each in step(share, "nvme-off")["exchange"]]
    assert ["nvme", "set-feature", "/dev/nvme0", "--feature-id=6", "--value=0"] in commands
    assert not [word for command in commands for word in command if "save" in word]


def test_a_write_cache_that_is_on_is_only_read(share: Path) -> None:
    found = step(share, "nvme-on")
    assert found["outcome"] == "already so"
    assert not [each for each in found["exchange"] if "set-feature" in each["command"]]


@pytest.mark.parametrize("name", ["scsi", "nvme"])
def test_a_write_cache_is_put_back_after_a_kill_and_so_is_the_kernel_s_view(
    said: dict[str, Section], name: str
) -> None:
    off, on = "WCE 0, write through", "WCE 1, write back"
    assert states(said[f"{name} killed"]) == ["before:", off, "killed:", off, "after:", on]
    assert "restored WCE of /dev/" in said[f"{name} killed"].output


def test_a_write_cache_that_something_else_changes_ends_the_run(said: dict[str, Section]) -> None:
    section = said["scsi changed meanwhile"]
    # restore leaves alone what is being measured, and the measurement finds what sdparm has changed
    assert re.search(
        r"a: /dev/sd[a-z]+ is being measured by process \d+, which will restore WCE, write_cache", section.output
    )
    assert "restore ends with 0" in section.output
    assert states(section) == ["WCE 0, write through", "WCE 1, write back"]
    assert section.status == 1
    assert "01.json: discarded, because settings changed meanwhile: WCE of sd" in section.output
    assert "was 0 after tuning and is 1 now" in section.output


def test_a_bit_that_cannot_change_is_told_so(said: dict[str, Section], share: Path) -> None:
    assert said["scsi bit"].status == 0, said["scsi bit"].output
    assert step(share, "scsi-bit")["outcome"] == "not changeable"
    assert "settings did not take effect" in said["scsi bit"].output


def test_fio_itself_is_told_to_write_nothing_where_a_cell_reads(share: Path) -> None:
    assert "--readonly" in sidecar(share, "nvme-on")["command"]


def test_an_nvme_drive_has_no_bits_of_a_mode_page(share: Path) -> None:
    assert step(share, "nvme-bit")["outcome"] == "not applicable"
    assert "no caching mode page" in step(share, "nvme-bit")["reason"]


def test_a_view_of_the_user_s_own_raises_a_doubt_and_is_put_back(said: dict[str, Section], share: Path) -> None:
    before = sidecar(share, "disagreeing")
    assert before["write_cache"] == {"drive": 1, "kernel": "write through"}
    assert "drive and kernel disagree on the write cache" in before["doubts"]
    during = sidecar(share, "user-view")
    assert during["write_cache"] == {"drive": 0, "kernel": "write through"}
    assert "drive and kernel disagree on the write cache" not in during["doubts"]
    assert states(said["user's view"])[-2:] == ["WCE 1, write through", "read-ahead 64"]


def test_a_cache_switched_on_is_flushed_meanwhile(said: dict[str, Section], share: Path) -> None:
    stale, rescanned, after = states(said["cache found off"])
    assert stale == "WCE 0, write back"  # so is the kernel when somebody uses sdparm alone
    assert rescanned == after == "WCE 0, write through"
    assert sidecar(share, "scsi-on")["write_cache"] == {"drive": 1, "kernel": "write back"}


def test_the_kernel_s_view_is_a_setting_too(said: dict[str, Section], share: Path) -> None:
    found = step(share, "view")
    assert (found["before"], found["after"], found["outcome"]) == ("write back", "write through", "changed")
    assert doubts(share, "view") == []  # it was asked for
    outcomes = {each["setting"]: each["outcome"] for each in sidecar(share, "both")["tuning"]}
    assert outcomes == {"WCE": "changed", "write_cache": "already so"}  # it follows WCE, which is set first
    assert states(said["view"]) == ["WCE 1, write back"] * 2


def test_flushes_are_not_left_out_where_others_have_data(said: dict[str, Section], share: Path) -> None:
    assert step(share, "mounted")["outcome"] == "not applicable"
    assert "may lose its data" in step(share, "mounted")["reason"]
    assert states(said["view of a mounted disk"]) == ["WCE 1, write back"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no-look-ahead", "the drive reports no look_ahead: look-ahead    = not supported"),
        ("scsi-look-ahead", "no SATA disk"),
        ("no-hdparm", "hdparm is not installed (apt-get install hdparm)"),
    ],
)
def test_look_ahead_that_is_not_there_is_told_with_the_reason(share: Path, name: str, reason: str) -> None:
    assert step(share, name)["outcome"] == "not applicable"
    assert reason in step(share, name)["reason"]


def test_look_ahead_is_switched_off_and_back(said: dict[str, Section], share: Path) -> None:
    found = step(share, "takes")
    assert (found["before"], found["after"], found["outcome"]) == (1, 0, "changed")
    assert "off meanwhile\n" in said["takes"].output
    assert "then 1\n" in said["takes"].output


def test_look_ahead_is_put_back_after_a_kill(said: dict[str, Section]) -> None:
    off, on = "look-ahead 0", "look-ahead 1"
    assert states(said["look-ahead killed"]) == ["before:", off, "killed:", off, "after:", on]


@pytest.mark.parametrize(("mode", "outcome"), [("ignores", "ignored"), ("rejects", "refused")])
def test_look_ahead_that_is_not_taken_is_told(said: dict[str, Section], share: Path, mode: str, outcome: str) -> None:
    assert step(share, mode)["outcome"] == outcome
    assert "off meanwhile" not in said[mode].output


def test_drives_say_how_they_are_before_and_after(share: Path) -> None:
    for bus, degrees, firmware in (("sata", 31, "2.5+"), ("nvme", 50, None)):
        for moment in ("before", "after"):
            health = sidecar(share, f"health-{bus}")["health"][moment]
            assert (health["program"], health["temperature_c"]) == ("smartctl", degrees)
            assert health["passed"] is True
            assert health["media_errors"] == 0
            assert health["firmware"] == (firmware or sidecar(share, f"health-{bus}")["drive"]["firmware"])
        assert doubts(share, f"health-{bus}") == []
    assert sidecar(share, "health-nvme")["health"]["after"]["warning_c"] == 70
    assert sidecar(share, "health-nvme")["health"]["after"]["critical_c"] == 100


def test_a_drive_that_says_nothing_has_the_reason_in_its_sidecar(share: Path) -> None:
    health = sidecar(share, "health-virtio")["health"]
    assert list(health["after"]) == ["not available"]
    assert "Unable to detect device type" in health["after"]["not available"]


@pytest.mark.parametrize(("name", "program"), [("hot", "smartctl"), ("hot-nvme", "nvme")])
def test_a_hot_drive_raises_doubts_whatever_program_tells(share: Path, name: str, program: str) -> None:
    found = sidecar(share, name)
    assert found["health"]["after"]["program"] == program
    assert found["health"]["after"]["warning_c"] == 27
    assert "drive at its warning temperature" in found["doubts"]
    assert "drive with a critical warning" in found["doubts"]


def test_without_a_program_the_reason_is_told_and_no_doubt_raised(share: Path) -> None:
    found = sidecar(share, "no-tool")
    assert "neither smartctl nor nvme is installed" in found["health"]["before"]["not available"]
    assert doubts(share, "no-tool") == []
