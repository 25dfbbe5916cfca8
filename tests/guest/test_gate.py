"""The gate and the settings on real SCSI, SATA and NVMe drives of a kernel of their own."""

import json

import pytest
import yaml
from guest.guest import Disk, Guest, Section
from guest.measuring import PARTITION, entry, measuring
from support import ROOT, cell_on_a_disk

LAB = Disk("a", "scsi", "T1", "TWO ALIKE", 32)
OTHER = Disk("b", "scsi", "T2", "TWO ALIKE", 32)  # differs in its serial number alone
BYSTANDER = Disk("c", "nvme", "N1", "", 32)

TUNED = {**entry(LAB), "tune": ["WCE", "DRA", "scheduler"]}
CONFIG = {
    "lab": entry(LAB),
    "tuned": TUNED,
    "unconsented": entry(LAB, destroy=LAB.serial + "0"),
    "strict": entry(LAB, expendable=[]),
    "wrong": entry(OTHER, serial=LAB.serial, destroy=LAB.serial),
    "other": entry(OTHER),
    "mistyped": entry(LAB, path="/dev/disk/by-id/no-such-disk"),
    "partition": entry(LAB, path=f"/dev/disk/by-id/{LAB.by_id}-part1"),
    "gone": {"kind": "block", "path": "/dev/vanishing", "serial": "VANISHING"},
}
# scsi_debug's drive, which dies or has a sector (0x1234) that cannot be read, as the options say
DEBUG_DRIVE = """
modprobe scsi_debug dev_size_mb=16 OPTIONS
until grep -sq scsi_debug /sys/block/sd*/device/model; do sleep 0.1; done
disk=$(grep -l scsi_debug /sys/block/sd*/device/model | cut -d/ -f4)
ln -sf /dev/$disk /dev/vanishing
serial=$("$PYTHON" -c "from iopatterns.measuring import machine; from pathlib import Path
print(machine.disk(Path('/dev/$disk'))['serial'])")
cd /tmp/here; cp "$SHARE/drives.yaml" config/; sed "s/VANISHING/$serial/" "$SHARE/vanishing.json" >gone.json
sed -i "s/VANISHING/$serial/" config/drives.yaml
"""
MEASURE_GONE = """
"$PYTHON" -c "
import json
import sys
from pathlib import Path
from iopatterns.raw import cells
from iopatterns.base.errors import IoPatternsError
from iopatterns.measuring.cell import measure
found = json.loads(Path('gone.json').read_text())
try:
    measure(Path.cwd(), found, [Path('raw/gone/study/x-' + cells.digest(found)[:8] + '/01.json')])
except IoPatternsError as error:
    print('TOLD:', error)
    sys.exit(1)
"
s=$?; find raw/gone -name 01.json | sed 's/^/FOUND /'
"""
HERE = "cd /tmp/here; "
CHECK = HERE + '"$PYTHON" -m iopatterns check '
WCE = "sdparm --get=WCE /dev/disk/by-id/" + LAB.by_id + " | awk '/^WCE/ {print \"WCE is\", $2}'"
SECTIONS = {
    "setup": 'mkdir -p /tmp/here/config /tmp/here/workflow; cp "$SHARE/drives.yaml" /tmp/here/config/; '
    f"cp -r {ROOT}/workflow/schemas /tmp/here/workflow/; "
    "modprobe dm-mod; modprobe ext4",
    "free": CHECK + "lab",
    "serial": CHECK + "wrong",
    "unconsented": CHECK + "unconsented",
    "mistyped": CHECK + "mistyped",
    "reading": HERE + measuring(cell_on_a_disk(CONFIG["lab"], "lab", "randread", 300)),
    "refused": HERE + measuring(cell_on_a_disk(CONFIG["unconsented"], "unconsented", "randwrite", 300)),
    "write cache": HERE
    + f"{WCE}; "
    + measuring(cell_on_a_disk(TUNED, "tuned", "randread", 300, WCE=0))
    + f"; s=$?; {WCE}; exit $s",
    "read-ahead": HERE + measuring(cell_on_a_disk(TUNED, "tuned", "randread", 300, DRA=1)),
    "killed": HERE
    + f"({measuring(cell_on_a_disk(TUNED, 'tuned', 'read', 60_000, WCE=0))}) &"
    + f" while kill -0 $! && ! {WCE} | grep -q 0; do sleep 1; done; {WCE};"
    + f' pkill -9 python; sleep 1; {WCE}; "$PYTHON" -m iopatterns restore; {WCE}',
    "swap": 'mkswap "$A" >/dev/null; swapon "$A"; ' + CHECK + 'lab; s=$?; swapoff "$A"; exit $s',
    "signature": CHECK + "strict",
    "holder": 'dmsetup create upon --table "0 2048 linear $A 0"; ' + CHECK + "lab; s=$?; dmsetup remove upon; exit $s",
    "mounted": 'mkfs.ext4 -q "$A"; mkdir -p /mnt/a; mount "$A" /mnt/a; ' + CHECK + "lab; s=$?; umount /mnt/a; exit $s",
    "partitioned": f'part() {{ {PARTITION} }}; wipefs -qa "$A"; part "$A"; blockdev --rereadpt "$A"; '
    + 'until [ -e "${A}1" ]; do sleep 0.1; done; '
    + 'mkfs.ext4 -q "${A}1"; mkdir -p /mnt/p; mount "${A}1" /mnt/p; '
    + CHECK
    + "lab; s=$?; umount /mnt/p; exit $s",
    "a partition": f'ln -sf "${{A}}1" /dev/disk/by-id/{LAB.by_id}-part1; ' + CHECK + "partition",
    "bad sector": DEBUG_DRIVE.replace("OPTIONS", "opts=2") + MEASURE_GONE + "modprobe -r scsi_debug; exit $s",
    "vanishing": DEBUG_DRIVE.replace("OPTIONS", "")
    # two seconds after fio has started; the brackets keep the pattern from finding itself
    + "(until pgrep -f '[-]-filename=' >/dev/null; do [ -e /proc/$$ ] || exit; sleep 0.2; done; sleep 2; "
    + "echo 1 >/sys/block/$disk/device/delete) & "
    + MEASURE_GONE
    + "exit $s",
}


@pytest.fixture(scope="module")
def boots(guests: None, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Section], dict[str, bool]]:
    """What each section said, and whether each drive is as it was."""
    guest = Guest(tmp_path_factory.mktemp("guest"), disks=[LAB, OTHER, BYSTANDER])
    before = guest.checksums()
    (guest.share / "drives.yaml").write_text(yaml.safe_dump(CONFIG))
    gone = cell_on_a_disk(CONFIG["gone"], "gone", "randread", 30_000)
    (guest.share / "vanishing.json").write_text(json.dumps(gone))
    found = guest.run_sections(SECTIONS, timeout_s=300)
    for name, section in found.items():
        print(f"== {name}: status {section.status} after {section.duration_s:.1f} s\n{section.output}")
    after = guest.checksums()
    return found, {name: before[name] == after[name] for name in before}


@pytest.fixture(scope="module")
def said(boots: tuple[dict[str, Section], dict[str, bool]]) -> dict[str, Section]:
    return boots[0]


def test_a_free_drive_with_consent_may_be_written(said: dict[str, Section]) -> None:
    assert said["free"].status == 0, said["free"].output
    assert "lab may be written." in said["free"].output


@pytest.mark.parametrize(
    ("section", "check", "found"),
    [
        ("serial", "identity", "serial 'T1', the device says 'T2'"),
        ("unconsented", "consent", "consents to destroying 'T10', and this is 'T1'"),
        ("mistyped", "block device", "No such file or directory"),
        ("swap", "swap", "is in use as swap"),
        ("signature", "signatures", "carries a signature of type swap"),
        ("holder", "holders", "is part of dm-0"),
        ("mounted", "mounts", "is mounted on /mnt/a"),
        ("partitioned", "mounts", "1 is mounted on /mnt/p"),
        ("a partition", "block device", "is a partition of /dev/sd"),
    ],
)
def test_each_refusal_has_its_own_reason(said: dict[str, Section], section: str, check: str, found: str) -> None:
    assert said[section].status == 1, said[section].output
    assert f"REFUSED  {check}: " in said[section].output
    assert found in said[section].output


def test_what_is_refused_is_not_written_and_nobody_else_is(
    boots: tuple[dict[str, Section], dict[str, bool]],
) -> None:
    said, as_before = boots
    assert said["refused"].status == 1
    assert "refused by the check of consent" in said["refused"].output
    assert as_before["b"]
    assert as_before["c"]


def test_a_drive_is_read(said: dict[str, Section]) -> None:
    assert said["reading"].status == 0, said["reading"].output
    assert "--readonly" in said["reading"].output


def test_the_write_cache_is_switched_for_the_cell_and_put_back(said: dict[str, Section]) -> None:
    text = said["write cache"].output
    assert said["write cache"].status == 0, text
    assert '"outcome": "changed"' in text
    assert text.count("WCE is 1") == 2
    assert "WCE is 0" not in text


def test_a_bit_that_cannot_change_is_told_so(said: dict[str, Section]) -> None:
    assert '"outcome": "not changeable"' in said["read-ahead"].output
    assert "the drive does not take its settings" in said["read-ahead"].output


def test_what_a_killed_measurement_left_changed_is_put_back(said: dict[str, Section]) -> None:
    states = [line for line in said["killed"].output.splitlines() if line.startswith("WCE is")]
    assert states == ["WCE is 0", "WCE is 0", "WCE is 1"], said["killed"].output
    assert "tuned: put back WCE of /dev/sd" in said["killed"].output


@pytest.mark.parametrize("section", ["vanishing", "bad sector"])
def test_a_drive_that_fails_is_told_and_leaves_no_raw_file(said: dict[str, Section], section: str) -> None:
    assert said[section].status == 1, said[section].output
    assert "TOLD:" in said[section].output
    assert "FOUND" not in said[section].output
    assert "Traceback" not in said[section].output
