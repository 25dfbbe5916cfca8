"""Drives of a kernel of their own that must not be written, that fail, and whose measurement is killed."""

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from guest.guest import Disk, Guest, Section
from guest.measuring import PARTITION, entry
from support import disk_cell, file_cell

LAB = Disk("a", "scsi", "T1", "TWO ALIKE", 16)
OTHER = Disk("b", "scsi", "T2", "TWO ALIKE", 8)  # differs in its serial number and in its size
BYSTANDER = Disk("c", "nvme", "N1", "", 4)
KILLED = (Disk("a", "scsi", "T1", "SCSI", 16), Disk("b", "sata", "T2", "SATA", 16), BYSTANDER)

# What the sections said by the guest's name, and which drives are as they were
Boots = dict[str, tuple[dict[str, Section], list[str]]]

# Nothing is written to it later, when nobody expects it any more
MAKE_FILE_SYSTEM = "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0"

# Measures two executions of the cell in a file. What the kernel alone knows is put in: @A@ is the device of the drive
# of that name, @DEBUG@ that of scsi_debug, @SERIAL@ the serial number of the latter.
MEASURE = """
import json
import os
import sys
from pathlib import Path

from iopatterns.raw import cells
from iopatterns import cli
from iopatterns.measuring import machine

text = Path(sys.argv[1]).read_text().replace("@A@", os.environ["A"])
if "@DEBUG@" in text:
    text = text.replace("@DEBUG@", os.environ["DEBUG"])
    text = text.replace("@SERIAL@", machine.disk(Path(os.environ["DEBUG"]))["serial"])
entry, cell = json.loads(text)
name = cell["drive"]["name"]
Path("config/drives.yaml").write_text(json.dumps({name: entry}))  # which is YAML, too
folder = f"data/raw/{name}/study/x-{cells.digest(cell)[:8]}"
sys.argv = ["iopatterns", "measure", "--specification", cells.canonical(cell), f"{folder}/01.json", f"{folder}/02.json"]
cli.main()
"""

# What the sections below are made of
WORDS = """
cd /run/here
measure() { "$PYTHON" "$SHARE/measure.py" "$SHARE/$1.json"; }
raws() { find data/raw -name '0?.json' 2>/dev/null | sort; }

# Makes the drive of scsi_debug, with options of that module's, unless it is there
debug_drive() {
  modprobe scsi_debug dev_size_mb=16 ndelay=50000 "$@"
  until ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block/* >/dev/null 2>&1; do sleep 0.1; done
  export DEBUG=/dev/$(ls /sys/bus/pseudo/drivers/scsi_debug/adapter*/host*/target*/*/block)
}

settings() {
  local queue=/sys/block/${1#/dev/}/queue
  cat $queue/scheduler $queue/nr_requests $queue/read_ahead_kb
  sdparm --get=WCE $1 | awk '/^WCE/ {print "WCE", $2}'
}

# Measures, and does what is said, a moment after the first of two executions is there. It asks by what needs no process
# of its own, for fio is to have the one processor.
measure_until() {
  [ -z "$DEBUG" ] || settings $DEBUG >/run/settings
  rm -f /run/measured
  (
    until compgen -G 'data/raw/*/study/*/01.json' >/dev/null || [ -e /run/measured ]; do sleep 0.1; done
    raws | xargs sha256sum >/run/first
    until pgrep -f '[-]-output=.*02[.]json' >/dev/null || [ -e /run/measured ]; do sleep 0.3; done; sleep 0.7
    eval "$2"
  ) &
  measure $1; status=$?
  touch /run/measured
  wait
  sha256sum --check /run/first
  raws | sed 's/^/RAW FILE: /'
}

# To be refused: says of each drive whether it is as before, and what lies in /dev that does not belong there
attempt() {
  sync
  for drive in $A $B $C; do dd if=$drive of=/run/before-${drive#/dev/} bs=1M iflag=direct status=none; done
  measure "$1"; local status=$?
  for drive in A B C; do
    dd if=${!drive} bs=1M iflag=direct status=none | cmp - /run/before-${!drive#/dev/} && echo "AS BEFORE: $drive"
  done
  find /dev -xdev -type f | sed 's/^/FILE IN DEV: /'
  raws | sed 's/^/RAW FILE: /'
  return $status
}
"""

# Name: what is done, the drive by its name in CELLS, and of the refusal the check, what was found, what to do
REFUSED = {
    "mounted, by device": (
        f'{MAKE_FILE_SYSTEM} "$A"; mount "$A" /mnt/a; attempt plain',
        ("mounts", "is mounted on /mnt/a", "If nothing on it is needed: umount /mnt/a"),
    ),
    "mounted, by symbolic link": ("attempt lab", ("mounts", "is mounted on /mnt/a", "umount /mnt/a")),
    "mounted, by another node": (
        "mknod /run/node b $(lsblk -dno MAJ:MIN $A | tr : ' '); attempt node",
        ("mounts", "is mounted on /mnt/a", "umount /mnt/a"),
    ),
    "the root file system": (
        """
        for entry in /*; do
          if [ -L $entry ]; then cp -P $entry /mnt/a
          elif [ $entry != /mnt ]; then mkdir -p /mnt/a$entry; mount --rbind $entry /mnt/a$entry; fi
        done
        export -f measure attempt raws
        chroot /mnt/a bash -c "cd /run/here; attempt lab"
        """,
        ("root device", "holds the root file system", "Take another disk"),
    ),
    "mounted elsewhere": (
        """
        umount -R /mnt/a
        unshare --mount sh -c 'mount "$A" /mnt/a; touch /run/mounted; while [ -e /run/mounted ]; do sleep 0.1; done' &
        until [ -e /run/mounted ]; do sleep 0.1; done
        attempt lab; status=$?; rm /run/mounted; wait; exit $status
        """,
        ("exclusive use", "is in use", "Find out by what"),
    ),
    "file system": ("attempt strict", ("signatures", "signature of type ext4", "add `expendable: [ext4]`")),
    "swap": (
        'mkswap "$A" >/dev/null; swapon "$A"; attempt lab; status=$?; swapoff "$A"; exit $status',
        ("swap", "is in use as swap", "If it is not needed: swapoff /dev/sd"),
    ),
    "partition mounted": (
        f"""
        part() {{ {PARTITION} }}; wipefs -qa "$A"; part "$A"; blockdev --rereadpt "$A"
        until [ -e "${{A}}1" ]; do sleep 0.1; done
        {MAKE_FILE_SYSTEM} "${{A}}1"; mount "${{A}}1" /mnt/a; attempt lab; status=$?; umount /mnt/a; exit $status
        """,
        ("mounts", "1 is mounted on /mnt/a", "umount /mnt/a"),
    ),
    "partition's file system": (
        "attempt table",
        ("signatures", "1 carries a signature of type ext4", "add `expendable: [ext4]`"),
    ),
    "partition as swap": (
        'mkswap "${A}1" >/dev/null; swapon "${A}1"; attempt lab; status=$?; swapoff "${A}1"; exit $status',
        ("swap", "1 is in use as swap", "swapoff /dev/sd"),
    ),
    "a partition": (
        f'ln -s "${{A}}1" /dev/disk/by-id/{LAB.by_id}-part1; attempt partition',
        ("block device", "1 is a partition of /dev/sd", "Give the whole disk"),
    ),
    "volume in use": (
        """
        wipefs -qa "${A}1" "$A"; blockdev --rereadpt "$A"
        lvm pvcreate -qq "$A" && lvm vgcreate -qq group "$A" || exit 77
        lvm lvcreate -qq --size 4M --name volume group || exit 77
        attempt volume
        """,
        ("holders", "is part of dm-0 (LVM, RAID or encryption)", "Take that apart first"),
    ),
    "volume at rest": (
        "lvm vgchange -qq --activate n group || exit 77; attempt lab",
        ("signatures", "signature of type LVM2_member", "add `expendable: [LVM2_member]`"),
    ),
    "array in use": (
        """
        wipefs -qa "$A"; modprobe raid1
        mdadm --quiet --create /dev/md0 --level=1 --raid-devices=2 --metadata=1.2 --run "$A" missing || exit 77
        attempt array
        """,
        ("holders", "is part of md0 (LVM, RAID or encryption)", "Take that apart first"),
    ),
    "array at rest": (
        "mdadm --quiet --stop /dev/md0 || exit 77; attempt lab",
        ("signatures", "signature of type linux_raid_member", "add `expendable: [linux_raid_member]`"),
    ),
    "encrypted": (
        r"""wipefs -qa "$A"; printf 'LUKS\xba\xbe\x00\x01' | dd of="$A" conv=notrunc status=none; attempt lab""",
        ("signatures", "signature of type crypto_LUKS", "add `expendable: [crypto_LUKS]`"),
    ),
    "serial number": (
        'wipefs -qa "$A"; attempt wrong',
        ("identity", "says serial 'T1', the device says 'T2'", "Correct the entry only if this is the drive you mean"),
    ),
    "consent": (
        "attempt unconsented",
        ("consent", "consents to destroying 'T2', and this is 'T1'", "add `destroy: T1` there"),
    ),
    "mistyped": ("attempt mistyped", ("block device", "/dev/sdzz: No such file", "Is the name mistyped? In /dev/disk")),
    "a file in /dev": (
        "touch /dev/mistake; attempt mistake; status=$?; rm /dev/mistake; exit $status",
        ("block device", "/dev/mistake is a file", "take 'file' for a file"),
    ),
    "read-only": (
        'blockdev --setro "$A"; attempt lab; status=$?; blockdev --setrw "$A"; exit $status',
        ("writable", "is read-only", "Measure reading workloads alone"),
    ),
    "write-protected": (
        "debug_drive wp=1; attempt debug; status=$?; rmmod scsi_debug; exit $status",
        ("writable", "is read-only", "Measure reading workloads alone"),
    ),
}
# What is said before anything is measured, of a drive that may be written, and of the same as swap
CHECKED = """
mkdir workflow; cp -r "$PROJECT/workflow/schemas" workflow
check() { "$PYTHON" -m iopatterns check lab; echo "STATUS: $?"; }
wipefs -qa "$A"; check; mkswap "$A" >/dev/null; swapon "$A"; check; swapoff "$A"
"""
# Which tools some of them need, that a machine may lack
NEEDS = {"volume": "lvm (apt-get install lvm2)", "array": "mdadm (apt-get install mdadm)"}

# What goes wrong in the middle of the second execution, and how the drive, or its file, can be used afterwards
FAILING = {
    "unreadable": """
        debug_drive
        measure_until reading 'echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts'
        settings $DEBUG | diff - /run/settings && echo SETTINGS AS BEFORE
        echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
        measure reading; echo "AGAIN: $?"; raws | sed 's/^/RAW FILE AGAIN: /'
        rm -r data/raw; exit $status
        """,
    "unwritable": """
        debug_drive
        debug=/sys/bus/pseudo/drivers/scsi_debug
        measure_until writing "echo 16 >$debug/opts; echo 1 >$debug/every_nth"
        settings $DEBUG 2>&1 | head -3 | diff - <(head -3 /run/settings) && echo QUEUE AS BEFORE
        echo 0 >$debug/every_nth; echo 0 >$debug/opts
        "$PYTHON" -m iopatterns restore
        settings $DEBUG | diff - /run/settings && echo SETTINGS AS BEFORE
        measure writing; echo "AGAIN: $?"; raws | sed 's/^/RAW FILE AGAIN: /'
        rm -r data/raw; exit $status
        """,
    "gone": """
        debug_drive
        host=$(readlink -f /sys/block/${DEBUG#/dev/} | grep -o 'host[0-9]*')
        measure_until writing 'echo 1 >/sys/block/${DEBUG#/dev/}/device/delete'
        echo "- - -" >/sys/class/scsi_host/$host/scan
        rm -r data/raw; exit $status
        """,
    "file": """
        truncate --size 100M /dev/shm/image; loop=$(losetup --find --show /dev/shm/image)
        table="0 $(blockdev --getsz $loop)"
        dmsetup create under --table "$table linear $loop 0"
        become() { dmsetup suspend --noflush --nolockfs under; dmsetup load under --table "$1"; dmsetup resume under; }
        mkfs.ext4 -q /dev/mapper/under; mkdir -p /mnt/file; mount /dev/mapper/under /mnt/file
        measure_until file 'become "$table error"'
        become "$table linear $loop 0"; umount /mnt/file; mount /dev/mapper/under /mnt/file
        measure file; echo "AGAIN: $?"; raws | sed 's/^/RAW FILE AGAIN: /'
        rm -r data/raw; exit $status
        """,
}


def written(name: str, entry: dict[str, Any], **settings: Any) -> list[dict[str, Any]]:
    return [entry, disk_cell(entry, name, "randwrite", 300, **settings)]


def unhurried(cell: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a cell that waits between its requests, so that the emulated processor rests while it is measured."""
    return {**cell, "fio": {**cell["fio"], "thinktime": 10_000, **options}}


def read_over(entry: dict[str, Any]) -> list[dict[str, Any]]:
    """Reads so large that they soon come to the few sectors that scsi_debug fails."""
    return [entry, unhurried(disk_cell(entry, "reading", "read", 2500, **TUNED), bs=65536)]


def written_over(entry: dict[str, Any]) -> list[dict[str, Any]]:
    return [entry, unhurried(disk_cell(entry, "writing", "randwrite", 2500, **TUNED))]


def on_a_file(folder: str) -> list[dict[str, Any]]:
    cell = unhurried(file_cell(Path(folder)), rw="randwrite")
    return [{"kind": "file", "path": cell["drive"]["path"]}, {**cell, "runtime_ms": 6000}]


TUNED: dict[str, Any] = {"WCE": 0, "read_ahead_kb": 64, "scheduler": "none"}
DEBUG: dict[str, Any] = {
    "kind": "block",
    "path": "@DEBUG@",
    "serial": "@SERIAL@",
    "destroy": "@SERIAL@",
    "tune": list(TUNED),
}
CELLS = {
    "lab": written("lab", entry(LAB)),
    "plain": written("plain", entry(LAB, path="@A@")),
    "node": written("node", entry(LAB, path="/run/node")),
    "strict": written("strict", entry(LAB, expendable=[])),
    "table": written("table", entry(LAB, expendable=["dos"])),
    "volume": written("volume", entry(LAB, expendable=["LVM2_member"])),
    "array": written("array", entry(LAB, expendable=["linux_raid_member"])),
    "wrong": written("wrong", entry(OTHER, serial=LAB.serial, destroy=LAB.serial)),
    "unconsented": written("unconsented", entry(LAB, destroy=OTHER.serial)),
    "partition": written("partition", entry(LAB, path=f"/dev/disk/by-id/{LAB.by_id}-part1")),
    "mistyped": written("mistyped", entry(LAB, path="/dev/sdzz")),
    "mistake": written("mistake", entry(LAB, path="/dev/mistake")),
    "reading": read_over(DEBUG),
    "writing": written_over(DEBUG),
    "file": on_a_file("/mnt/file"),
    "debug": written("debug", DEBUG),
}


# Signals at random moments while settings of a real drive are changed, how many points each
KILLS = {"a": "SIGTERM=2 SIGINT=1 SIGKILL=2", "b": "SIGTERM=1 SIGKILL=1"}
KILLED_SETTINGS: dict[str, Any] = {"scheduler": "none", "read_ahead_kb": 64, "WCE": 0}


def kill(disk: str) -> str:
    entry = {"kind": "block", "path": "@", "tune": list(KILLED_SETTINGS), "expendable": ["data"]}
    lab = {
        "entry": entry,
        "cell": disk_cell(entry, "lab", "randwrite", 200, **KILLED_SETTINGS),
        "found": {"scheduler": "mq-deadline", "nr_requests": "60", "read_ahead_kb": "512", "WCE": "1"},
    }
    script = '"$PYTHON" "$PROJECT/tests/kill_points.py"'
    return f"modprobe -q mq-deadline; {script} ${disk.upper()} /run/{disk} '{json.dumps(lab)}' {KILLS[disk]}"


def boot(folder: Path, disks: tuple[Disk, ...], sections: dict[str, str]) -> tuple[dict[str, Section], list[str]]:
    """Return what each section said, and the names of the drives that are as they were."""
    guest = Guest(folder, disks=disks)
    for disk in disks:
        guest.image(disk.name).write_bytes(os.urandom(disk.size_mb * 2**20))
    before = guest.checksums()
    (guest.share / "measure.py").write_text(MEASURE)
    for name, content in CELLS.items():
        (guest.share / f"{name}.json").write_text(json.dumps(content))
    setup = "mkdir -p /run/here/config /mnt/a; modprobe dm-mod; modprobe ext4; modprobe loop"
    found = guest.run_sections({"setup": setup, **sections}, timeout_s=600)
    for name, section in found.items():
        print(f"== {name}: status {section.status} after {section.duration_s:.1f} s\n{section.output}")
    after = guest.checksums()
    return found, [name for name in before if before[name] == after[name]]


@pytest.fixture(scope="module")
def boots(guests: None, tmp_path_factory: pytest.TempPathFactory) -> Boots:
    """Two guests side by side, for each takes minutes: drives that must not be written, and drives that fail."""
    refused = {name: WORDS + script for name, (script, _) in REFUSED.items()}
    refused |= {"written at last": WORDS + "wipefs -qa $A; attempt lab", "checked": WORDS + CHECKED}
    failing = {name: WORDS + script for name, script in FAILING.items()} | {
        f"kill {disk}": kill(disk) for disk in KILLS
    }
    with ThreadPoolExecutor() as pool:
        first = pool.submit(boot, tmp_path_factory.mktemp("refused"), (LAB, OTHER, BYSTANDER), refused)
        second = pool.submit(boot, tmp_path_factory.mktemp("failing"), KILLED, failing)
        return {"refused": first.result(), "failing": second.result()}


@pytest.mark.parametrize("name", REFUSED)
def test_a_drive_that_must_not_be_written_is_refused_and_no_byte_of_any_changes(boots: Boots, name: str) -> None:
    section = boots["refused"][0][name]
    if section.status == 77:
        pytest.skip(f"needs {NEEDS[name.partition(' ')[0]]} and its kernel modules: {section.output}")
    check, what, remedy = REFUSED[name][1]
    assert section.status == 1, section.output
    assert f"refused by the check of {check}: " in section.output
    assert what in section.output
    assert remedy in section.output
    assert section.output.count("iopatterns: error: ") == 1
    assert re.findall("AS BEFORE: (.)", section.output) == ["A", "B", "C"]
    assert "RAW FILE: " not in section.output
    assert "FILE IN DEV: " not in section.output.replace("FILE IN DEV: /dev/mistake\n", "")


def test_the_same_drive_is_written_once_nothing_speaks_against_it_and_no_other_is(boots: Boots) -> None:
    section = boots["refused"][0]["written at last"]
    assert section.status == 0, section.output
    assert re.findall("AS BEFORE: (.)", section.output) == ["B", "C"]
    assert boots["refused"][1] == ["b", "c"]
    assert boots["failing"][1] == ["c"]


def test_whether_a_drive_may_be_written_is_told_before_anything_is_measured(boots: Boots) -> None:
    free, in_use = re.split("STATUS: . *\n", boots["refused"][0]["checked"].output)[:2]
    assert "lab may be written." in free
    assert re.search("REFUSED  swap: .* is in use as swap", in_use)
    assert re.findall("STATUS: (.)", boots["refused"][0]["checked"].output) == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unreadable", "No data available: read"),
        ("unwritable", "Input/output error: write"),
        # before fio opens it for the next execution (the name or the device behind it is gone), or after. In between it
        # has no size any more, and a write is beyond its end.
        # a write that is in flight when the device is deleted ends with an input/output error
        (
            "gone",
            "No such (file or directory|device or address|device: write)|(No space left on device|output error): write",
        ),
        ("file", "Input/output error: write"),
    ],
)
def test_a_drive_that_fails_is_told_in_one_message_and_what_was_measured_before_stays(
    boots: Boots, name: str, words: str
) -> None:
    section = boots["failing"][0][name]
    assert section.status == 1, section.output
    assert "Traceback" not in section.output
    assert section.output.count("iopatterns: error: ") == 1
    assert "fio failed with exit status 1. It printed:" in section.output
    assert re.search(words, section.output)
    assert re.search(r"/01\.json: OK$", section.output, re.MULTILINE)
    assert re.findall(r"RAW FILE: .*/(\d+)\.json", section.output) == ["01"]
    if name != "gone":
        assert "AGAIN: 0\n" in section.output
        assert re.findall(r"RAW FILE AGAIN: .*/(\d+)\.json", section.output) == ["01", "02"]


def test_settings_are_back_after_a_drive_has_failed(boots: Boots) -> None:
    assert "SETTINGS AS BEFORE" in boots["failing"][0]["unreadable"].output


def test_what_a_failing_drive_does_not_take_back_is_told_and_put_back_later(boots: Boots) -> None:
    said = boots["failing"][0]["unwritable"].output
    assert "could not be restored to 1" in said
    assert re.search("As root, run sdparm --set=WCE=1 /dev/sd[a-z]+, then delete .*/iopatterns/journal/.*json", said)
    assert "QUEUE AS BEFORE" in said
    assert re.search("writing: restored WCE of /dev/sd[a-z]+: 1", said)
    assert "SETTINGS AS BEFORE" in said


def test_settings_of_a_drive_that_is_gone_are_told(boots: Boots) -> None:
    said = boots["failing"][0]["gone"].output
    assert "is no longer the disk with the serial" in said
    assert "WCE (originally 1)" in said


@pytest.mark.parametrize("disk", KILLS)
def test_a_signal_at_any_moment_leaves_a_scsi_and_a_sata_drive_as_they_were(boots: Boots, disk: str) -> None:
    section = boots["failing"][0][f"kill {disk}"]
    assert section.status == 0, section.output
    assert re.findall("AS FOUND after (.*)", section.output) == re.findall("([A-Z]+)=", KILLS[disk])
