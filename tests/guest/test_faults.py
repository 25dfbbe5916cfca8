"""Drives of a guest: drives that must not be written, drives that fail, and measurements that are killed."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from guest.guest import Disk, Guest, Section
from support import disk_cell, file_cell

LAB = Disk("a", "scsi", "T1", "TWO ALIKE", 16)
OTHER = Disk("b", "scsi", "T2", "TWO ALIKE", 8)  # differs in its serial number and in its size
BYSTANDER = Disk("c", "nvme", "N1", "", 4)
KILLED = (Disk("a", "scsi", "T1", "SCSI", 16), Disk("b", "sata", "T2", "SATA", 16), BYSTANDER)

# The results of all sections, and the names of the unchanged drives of each guest
Boots = tuple[dict[str, Section], list[list[str]]]

# The options keep the kernel from writing to the file system in the background
MAKE_FILE_SYSTEM = "mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0"

# Writes a DOS partition table with one partition. sfdisk, which could do it, is not installed everywhere.
PARTITION = """
"$PYTHON" - "$1" <<'END'
import struct, sys
entry = struct.pack("<BBBBBBBBII", 0, 0, 0, 0, 0x83, 0, 0, 0, 2048, 32768)
with open(sys.argv[1], "r+b") as disk:
    disk.seek(446)
    disk.write(entry + bytes(48) + b"\\x55\\xaa")
END
"""

# Measures two repetitions of the cell in a file. @A@ stands for the device of drive A, @DEBUG@ for the device of
# scsi_debug, and @SERIAL@ for the serial number of the latter; only the guest knows them.
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
    text = text.replace("@SERIAL@", machine.disk_facts(Path(os.environ["DEBUG"]))["serial"])
entry, cell = json.loads(text)
name = cell["drive"]["name"]
Path("config/drives.yaml").write_text(json.dumps({name: entry}))  # which is YAML, too
folder = f"data/raw/{name}/study/x-{cells.specification_digest(cell)[:8]}"
raws = [f"{folder}/01.json", f"{folder}/02.json"]
sys.argv = ["iopatterns", "measure", "--specification", cells.canonical_json(cell), *raws]
cli.main()
"""

# Functions of the shell for the sections below
FUNCTIONS = """
cd /run/here
measure() { "$PYTHON" "$SHARE/measure.py" "$SHARE/$1.json"; }
raws() { find data/raw -name '0?.json' 2>/dev/null | sort; }

# Creates the drive of the module scsi_debug, with options of the module
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

# Measures the cell $1 and runs the command $2 shortly after the first of two repetitions is complete. The loop polls
# without starting processes, because the guest has only one processor, which fio needs.
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

# Measures a cell that must be refused; prints the unchanged drives, and files in /dev and in the folder of raw files
attempt() {
  sync
  for drive in $A $B $C; do dd if=$drive of=/run/before-${drive#/dev/} bs=1M iflag=direct status=none; done
  measure "$1"; local status=$?
  for drive in A B C; do
    dd if=${!drive} bs=1M iflag=direct status=none | cmp - /run/before-${!drive#/dev/} && echo "UNCHANGED: $drive"
  done
  find /dev -xdev -type f | sed 's/^/FILE IN DEV: /'
  raws | sed 's/^/RAW FILE: /'
  return $status
}
"""

# Name: the script, which measures a cell of CELLS, and three texts of the refusal: check, fault, remedy
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
        ("block device", "/dev/mistake is a file", "use 'file' for a file"),
    ),
    "read-only": (
        'blockdev --setro "$A"; attempt lab; status=$?; blockdev --setrw "$A"; exit $status',
        ("writable", "is read-only", "Measure reading workloads only"),
    ),
    "write-protected": (
        "debug_drive wp=1; attempt debug; status=$?; rmmod scsi_debug; exit $status",
        ("writable", "is read-only", "Measure reading workloads only"),
    ),
}
# The command `check` for a drive that may be written, and for the same drive in use as swap
CHECKED = """
mkdir workflow; cp -r "$PROJECT/workflow/schemas" workflow
check() { "$PYTHON" -m iopatterns check lab; echo "STATUS: $?"; }
wipefs -qa "$A"; check; mkswap "$A" >/dev/null; swapon "$A"; check; swapoff "$A"
"""
# Tools that some sections need and that a machine may lack
NEEDS = {"volume": "lvm (apt-get install lvm2)", "array": "mdadm (apt-get install mdadm)"}

# Faults during the second repetition, and a second measurement after the fault is removed
FAILING = {
    "unreadable": """
        debug_drive
        measure_until reading 'echo 2 >/sys/bus/pseudo/drivers/scsi_debug/opts'
        settings $DEBUG | diff - /run/settings && echo SETTINGS RESTORED
        echo 0 >/sys/bus/pseudo/drivers/scsi_debug/opts
        measure reading; echo "AGAIN: $?"; raws | sed 's/^/RAW FILE AGAIN: /'
        rm -r data/raw; exit $status
        """,
    "unwritable": """
        debug_drive
        debug=/sys/bus/pseudo/drivers/scsi_debug
        measure_until writing "echo 16 >$debug/opts; echo 1 >$debug/every_nth"
        settings $DEBUG 2>&1 | head -3 | diff - <(head -3 /run/settings) && echo QUEUE RESTORED
        echo 0 >$debug/every_nth; echo 0 >$debug/opts
        "$PYTHON" -m iopatterns restore
        settings $DEBUG | diff - /run/settings && echo SETTINGS RESTORED
        measure writing; echo "AGAIN: $?"; raws | sed 's/^/RAW FILE AGAIN: /'
        rm -r data/raw; exit $status
        """,
    "recovered": """
        debug_drive
        debug=/sys/bus/pseudo/drivers/scsi_debug
        measure healthy; status=$?
        echo 8 >$debug/opts; echo 20 >$debug/every_nth # each 20th command reports a recovered error
        measure recovered; status=$((status + $?))
        echo 0 >$debug/every_nth; echo 0 >$debug/opts
        for raw in $(raws); do
          echo "FAILED COMMANDS: $raw: $(grep -c 'commands to the disk failed' ${raw%.json}.sidecar.json)"
        done
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
        rm /mnt/file/drive.bin # its disk failed while it was written
        measure file; echo "AGAIN: $?"; raws | sed 's/^/RAW FILE AGAIN: /'
        rm -r data/raw; exit $status
        """,
}


def slow(cell: dict[str, Any], **options: Any) -> dict[str, Any]:
    """Return a cell that waits between requests, so that the emulated processor rests during the measurement."""
    return {**cell, "fio": {**cell["fio"], "thinktime": 10_000, **options}}


TUNED: dict[str, Any] = {"WCE": 0, "read_ahead_kb": 64, "scheduler": "none"}
DEBUG: dict[str, Any] = {
    "kind": "block",
    "path": "@DEBUG@",
    "serial": "@SERIAL@",
    "destroy": "@SERIAL@",
    "expendable": ["data"],  # left by a measurement whose disk failed
    "tune": list(TUNED),
}
ENTRIES = {
    "lab": LAB.entry(),
    "plain": LAB.entry(path="@A@"),
    "node": LAB.entry(path="/run/node"),
    "strict": LAB.entry(expendable=[]),
    "table": LAB.entry(expendable=["dos"]),
    "volume": LAB.entry(expendable=["LVM2_member"]),
    "array": LAB.entry(expendable=["linux_raid_member"]),
    "wrong": OTHER.entry(serial=LAB.serial, destroy=LAB.serial),
    "unconsented": LAB.entry(destroy=OTHER.serial),
    "partition": LAB.entry(path=f"/dev/disk/by-id/{LAB.by_id}-part1"),
    "mistyped": LAB.entry(path="/dev/sdzz"),
    "mistake": LAB.entry(path="/dev/mistake"),
    "debug": DEBUG,
}
FILE = file_cell(Path("/mnt/file"))
CELLS = {name: [entry, disk_cell(entry, name, "randwrite", 300)] for name, entry in ENTRIES.items()} | {
    # requests so large that they soon reach the few sectors in which scsi_debug fails
    "reading": [DEBUG, slow(disk_cell(DEBUG, "reading", "read", 5000, **TUNED), bs=65536)],
    "writing": [DEBUG, slow(disk_cell(DEBUG, "writing", "randwrite", 5000, **TUNED))],
    "healthy": [DEBUG, disk_cell(DEBUG, "healthy", "read", 300)],
    "recovered": [DEBUG, disk_cell(DEBUG, "recovered", "read", 300)],
    "file": [
        {"kind": "file", "path": FILE["drive"]["path"]},
        {**slow(FILE, rw="randwrite"), "runtime_ms": 6000},
    ],
}


# By drive: signals while settings of the drive are changed, and at how many random moments each is sent
KILLS = {"a": "SIGTERM=2 SIGINT=1 SIGKILL=2", "b": "SIGTERM=1 SIGKILL=1"}


def kill(disk: str) -> str:
    entry = {"kind": "block", "path": "@", "tune": list(TUNED), "expendable": ["data"]}
    lab = {
        "entry": entry,
        "cell": disk_cell(entry, "lab", "randwrite", 200, **TUNED),
        "found": {"scheduler": "mq-deadline", "nr_requests": "60", "read_ahead_kb": "512", "WCE": "1"},
    }
    script = '"$PYTHON" "$PROJECT/tests/kill_points.py"'
    return f"modprobe -q mq-deadline; {script} ${disk.upper()} /run/{disk} '{json.dumps(lab)}' {KILLS[disk]}"


def boot(folder: Path, disks: tuple[Disk, ...], sections: dict[str, str]) -> tuple[dict[str, Section], list[str]]:
    """Return the results of the sections, and the names of the unchanged drives."""
    guest = Guest(folder, disks)
    before = guest.fill()
    (guest.share / "measure.py").write_text(MEASURE)
    for name, content in CELLS.items():
        (guest.share / f"{name}.json").write_text(json.dumps(content))
    setup = "mkdir -p /run/here/config /mnt/a; modprobe dm-mod; modprobe ext4; modprobe loop"
    found = guest.run_sections({"setup": setup, **sections}, timeout_s=600)
    return found, guest.unchanged(before)


@pytest.fixture(scope="module")
def boots(guests: None, tmp_path_factory: pytest.TempPathFactory) -> Boots:
    """Return the results of two guests that run concurrently, because each takes minutes.

    The drives of one guest must not be written; the drives of the other guest fail.
    """
    refused = {name: FUNCTIONS + script for name, (script, _) in REFUSED.items()}
    refused |= {"written": FUNCTIONS + "wipefs -qa $A; attempt lab", "checked": FUNCTIONS + CHECKED}
    failing = {name: FUNCTIONS + script for name, script in FAILING.items()} | {
        f"kill {disk}": kill(disk) for disk in KILLS
    }
    with ThreadPoolExecutor() as pool:
        first = pool.submit(boot, tmp_path_factory.mktemp("refused"), (LAB, OTHER, BYSTANDER), refused)
        second = pool.submit(boot, tmp_path_factory.mktemp("failing"), KILLED, failing)
        return first.result()[0] | second.result()[0], [first.result()[1], second.result()[1]]


@pytest.mark.parametrize("name", REFUSED)
def test_a_drive_that_must_not_be_written_is_refused_and_no_drive_changes(boots: Boots, name: str) -> None:
    section = boots[0][name]
    if section.status == 77:
        pytest.skip(f"needs {NEEDS[name.partition(' ')[0]]} and its kernel modules: {section.output}")
    check, what, remedy = REFUSED[name][1]
    assert section.status == 1, section.output
    assert f"refused by the check of {check}: " in section.output
    assert what in section.output
    assert remedy in section.output
    assert section.output.count("iopatterns: error: ") == 1
    assert re.findall("UNCHANGED: (.)", section.output) == ["A", "B", "C"]
    assert "RAW FILE: " not in section.output
    assert "FILE IN DEV: " not in section.output.replace("FILE IN DEV: /dev/mistake\n", "")


def test_a_drive_that_passes_all_checks_is_written_and_no_other(boots: Boots) -> None:
    section = boots[0]["written"]
    assert section.status == 0, section.output
    assert re.findall("UNCHANGED: (.)", section.output) == ["B", "C"]
    assert boots[1] == [["b", "c"], ["c"]]


def test_check_reports_whether_a_drive_may_be_written(boots: Boots) -> None:
    free, in_use = re.split("STATUS: . *\n", boots[0]["checked"].output)[:2]
    assert "lab may be written." in free
    assert re.search("REFUSED  swap: .* is in use as swap", in_use)
    assert re.findall("STATUS: (.)", boots[0]["checked"].output) == ["0", "1"]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("unreadable", "No data available: read"),
        ("unwritable", "Input/output error: write"),
        # the device is deleted before fio opens it (no such file or device), between opening and writing (its size is
        # 0, so that a write is beyond its end), or during a write (input/output error)
        (
            "gone",
            "No such (file or directory|device or address|device: write)|(No space left on device|output error): write",
        ),
        ("file", "Input/output error: write"),
    ],
)
def test_a_drive_that_fails_ends_in_one_message_and_earlier_repetitions_stay(
    boots: Boots, name: str, words: str
) -> None:
    section = boots[0][name]
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


@pytest.mark.parametrize(
    ("name", "patterns"),
    [
        ("unreadable", ["SETTINGS RESTORED"]),
        # the failing drive rejects WCE, which is restored later
        (
            "unwritable",
            [
                "could not be restored to 1",
                "As root, run sdparm --set=WCE=1 /dev/sd[a-z]+, then delete .*/iopatterns/journal/.*json",
                "QUEUE RESTORED",
                "writing: restored WCE of /dev/sd[a-z]+: 1",
                "SETTINGS RESTORED",
            ],
        ),
        ("gone", ["is no longer the disk with the serial", r"WCE \(originally 1\)"]),
    ],
)
def test_settings_of_a_drive_that_fails_are_restored_or_reported(boots: Boots, name: str, patterns: list[str]) -> None:
    output = boots[0][name].output
    assert [pattern for pattern in patterns if not re.search(pattern, output)] == []


def test_failed_commands_of_a_disk_are_a_doubt_although_it_recovers(boots: Boots) -> None:
    section = boots[0]["recovered"]
    assert section.status == 0, section.output
    counts = re.findall(r"FAILED COMMANDS: data/raw/(\w+)/.*/(\d+)\.json: (\d+)$", section.output, re.MULTILINE)
    assert counts == [
        ("healthy", "01", "0"),
        ("healthy", "02", "0"),
        ("recovered", "01", "1"),
        ("recovered", "02", "1"),
    ]


@pytest.mark.parametrize("disk", KILLS)
def test_settings_of_a_drive_are_restored_after_a_signal_at_any_moment(boots: Boots, disk: str) -> None:
    section = boots[0][f"kill {disk}"]
    assert section.status == 0, section.output
    assert re.findall("AS FOUND after (.*)", section.output) == re.findall("([A-Z]+)=", KILLS[disk])
