"""The gate: what is checked before a block device is read or written, in which order, each refusal in its own words."""

import contextlib
import errno
import functools
import hashlib
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from iopatterns.base import host_state, units
from iopatterns.configuration.kinds import BlockEntry
from iopatterns.measuring import machine
from iopatterns.measuring.drives import content, descriptors, file_users, signatures
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.lock import kernel_node
from iopatterns.raw.records import OpenedTarget

_BY_ID = Path("/dev/disk/by-id")
# Signatures of partition tables, which explain no data but their own, in the first MiB of a disk and the last
_TABLES = frozenset({"atari", "bsd", "dos", "gpt", "mac", "PMBR", "sgi", "sun"})
_TABLE_BYTES = 2**20
# What `expendable` names beside types of signatures: data that carry none
DATA = "data"


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it passed, what was found, and what the user can do about it."""

    name: str
    passed: bool
    found: str
    remedy: str = ""


class PrewriteChecks:
    """The checks of one block device as config/drives.yaml describes it. Looks, and changes nothing on it.

    ``entry``: the drive's entry, with path, serial, and where given model, size, destroy (consent to writing:
    the serial once more) and expendable (types of signatures that may be overwritten, and ``data``).

    The path is resolved once, by the first check, which opens the device; everything else is of the device that was
    opened, wherever the path leads by then. As the device is held open, its number stays its own. The caller closes
    the gate.
    """

    def __init__(self, entry: BlockEntry) -> None:
        self._given = entry
        self._path = Path(entry["path"])
        self._descriptor: int | None = None
        self._found_at = ""
        self._facts: Mapping[str, Any] = {}
        self._kinds: set[str] = set()  # of the signatures on it

    def close(self) -> None:
        """Close the device."""
        descriptors.close_descriptor(self._descriptor)
        self._descriptor = None

    @property
    def descriptor(self) -> int:
        """The device, open for reading, as fio and others inherit it; the check of the block device has passed."""
        assert self._descriptor is not None
        return self._descriptor

    @property
    def number(self) -> int:
        """Its device number."""
        return os.fstat(self.descriptor).st_rdev

    @property
    def node(self) -> Path:
        """The kernel's node of it, for programs that want a name. Raises DriveError where that is another device."""
        node = kernel_node(self.number)
        try:
            same = os.stat(node).st_rdev == self.number
        except OSError:
            same = False
        if not same:
            number = descriptors.device_number_text(self.number)
            raise DriveError(f"{node} is not the disk {number}. Is /dev as the kernel or udev made it?")
        return node

    @property
    def name(self) -> str:
        """The kernel's name of it."""
        return self._entries()[0].name

    def about(self) -> OpenedTarget:
        """Return what was opened: ``path``, symbolic links followed, device ``number`` and ``size_bytes``."""
        number = descriptors.device_number_text(self.number)
        return {"path": self._found_at, "number": number, "size_bytes": machine.disk_facts(self.number)["size_bytes"]}

    def verify(self) -> None:
        """Raise DriveError unless the device is still there, with the serial number and size that were checked."""
        now = machine.disk_facts(self.number)
        for key in ("device", "serial", "size_bytes"):
            if now[key] != self._facts[key]:
                raise DriveError(
                    f"{self._found_at}: it had {key} {self._facts[key]!r} when it was checked, and now has"
                    f" {now[key]!r}. Is the disk still connected?"
                )

    def checks(self, *, writing: bool) -> Iterator[Check]:
        """Yield the outcome of each check in order, to the first that does not pass.

        Reading needs the first two alone; what comes later would have no sense once one has failed.
        """
        steps: list[Callable[[], Check]] = [self._is_block_device, self._is_the_drive_meant]
        if writing:
            steps += [self._is_writable, self._is_not_root]
            steps += [functools.partial(self._is_unused, *use) for use in _USES]
            steps += [self._has_backing_of_its_own, self._has_no_signature, self._has_no_data, self._is_consented]
        for step in steps:
            check = step()
            yield check
            if not check.passed:
                return

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the device exclusively (O_EXCL, open(2)): nothing can mount it or build upon it meanwhile.

        Raises OSError (EBUSY) if something uses the device.
        """
        held = descriptors.reopen(self.descriptor, os.O_RDONLY | os.O_EXCL)
        try:
            yield
        finally:
            os.close(held)

    # ---- Identity

    def _is_block_device(self) -> Check:
        name = "block device"
        try:
            mode = self._open()
        except OSError as error:
            if isinstance(error, PermissionError):
                return Check(
                    name, False, f"{self._path}: {error.strerror}", "Run as root, or as a user who may read it."
                )
            known = ", ".join(sorted(entry.name for entry in _BY_ID.iterdir())) if _BY_ID.is_dir() else "none"
            return Check(name, False, f"{self._path}: {error.strerror}", f"Is the name mistyped? In {_BY_ID}: {known}.")
        if not stat.S_ISBLK(mode):
            kind = "a file" if stat.S_ISREG(mode) else "a folder" if stat.S_ISDIR(mode) else "no block device"
            return Check(
                name, False, f"{self._path} is {kind}", "Kind 'block' measures a disk; take 'file' for a file."
            )
        disk = machine.sysfs_folder(self.number)
        if disk is None:
            return Check(name, False, f"{self._found_at} is not in /sys", "Is it a disk of this machine?")
        if (disk / "partition").exists():
            whole = f"/dev/{disk.parent.name}"
            return Check(name, False, f"{self._found_at} is a partition of {whole}", "Give the whole disk.")
        return Check(name, True, f"{self._path} is {self._found_at}, {disk.name} to the kernel")

    def _open(self) -> int:
        """Open the device, unless it is open or is none; return the mode of what is there. Raises OSError."""
        if self._descriptor is not None:
            return os.fstat(self._descriptor).st_mode
        looked_at = descriptors.open_path_only(self._path)
        try:
            mode = os.fstat(looked_at).st_mode
            if stat.S_ISBLK(mode):
                self._found_at = descriptors.resolved_path(looked_at)
                self._descriptor = descriptors.make_inheritable(
                    descriptors.reopen(looked_at, os.O_RDONLY | os.O_NONBLOCK)
                )
        finally:
            os.close(looked_at)
        return mode

    def _is_the_drive_meant(self) -> Check:
        name = "identity"
        self._facts = facts = cast(Mapping[str, Any], machine.disk_facts(self.number))
        if "serial" not in self._given:
            found = f"config/drives.yaml gives no serial, the device says {facts['serial']!r}"
            return Check(name, False, found, "If this is the drive that you mean, add the serial to its entry.")
        wanted: dict[str, str | int | None] = {"serial": self._given["serial"], "model": self._given.get("model")}
        if "size" in self._given:
            wanted["size_bytes"] = units.parse_size(self._given["size"])
        for key, value in wanted.items():
            if value is not None and facts[key] != value:
                return Check(
                    name,
                    False,
                    f"config/drives.yaml says {key} {value!r}, the device says {facts[key]!r}",
                    "Is it another disk under the same name? Correct the entry only if this is the drive you mean.",
                )
        return Check(name, True, ", ".join(f"{key} {facts[key]}" for key in ("model", "serial", "size_bytes")))

    # ---- Nobody else's

    def _is_writable(self) -> Check:
        if (self._entries()[0] / "ro").read_text().strip() == "1":
            return Check("writable", False, f"{self._found_at} is read-only", "Measure reading workloads alone.")
        if not os.access(descriptors.descriptor_path(self.descriptor), os.W_OK):
            return Check("writable", False, f"this user may not write {self._found_at}", "Run as root.")
        return Check("writable", True, "not read-only")

    def _is_not_root(self) -> Check:
        names = {disk.name for disk in machine.whole_disks_under(Path("/"))}
        if self.name in names:
            return Check("root device", False, f"{self._found_at} holds the root file system", "Take another disk.")
        return Check("root device", True, f"the root file system is on {', '.join(sorted(names)) or 'no disk'}")

    def _is_unused(self, name: str, find_use: "_FindUse", unused: str) -> Check:
        use = find_use(self._entries())
        return Check(name, False, *use) if use else Check(name, True, unused)

    def _has_backing_of_its_own(self) -> Check:
        """Check that nothing else uses the file or disk behind a loop device, for they are what is written."""
        name, disk = "backing file", self._entries()[0]
        if not (disk / "loop").exists():
            return Check(name, True, "it is no loop device")
        file = (disk / "loop/backing_file").read_text().rstrip("\n")
        remedy = "Take a loop device on a file that nothing else uses."
        try:
            behind = file_users.loop_backing(self.descriptor)
        except OSError as error:
            return Check(name, False, f"{file} behind {disk.name}: {error.strerror}", "Is it still there?")
        if other := file_users.find_file_user(behind.device, behind.inode, but_loop=disk.name):
            return Check(name, False, f"{file} is behind {disk.name}, and {other}", remedy)
        entry = machine.sysfs_folder(behind.number) if behind.number else None
        if entry is not None:
            entries = _with_partitions(entry)
            for _, find_use, _ in _USES:
                if used := find_use(entries):
                    return Check(name, False, f"{file} is behind {disk.name}, and {used[0]}", used[1])
            if entry.name in {root.name for root in machine.whole_disks_under(Path("/"))}:
                return Check(name, False, f"{file} is behind {disk.name}, and holds the root file system", remedy)
        return Check(name, True, f"nothing else uses {file}")

    # ---- What is on it

    def _has_no_signature(self) -> Check:
        found = self._signatures()
        self._kinds = {kind for _, kind in found}
        expendable = set(self._given.get("expendable", ()))
        for name, kind in found:
            if kind not in expendable:
                return Check(
                    "signatures",
                    False,
                    f"{name} carries a signature of type {kind}: somebody's data",
                    f"If they may be destroyed, add `expendable: [{kind}]` to the drive in config/drives.yaml.",
                )
        told = ", ".join(f"{kind} on {name}, expendable" for name, kind in found)
        return Check("signatures", True, told or "no file system, partition table, LVM, RAID or encryption")

    def _signatures(self) -> list[tuple[str, str]]:
        """Return place and type of all signatures: of the disk, and of its partitions, known to the kernel or not."""
        disk, *parts = self._entries()
        found = [(disk.name, kind) for kind in signatures.find_signatures(self.descriptor)]
        for part in parts:
            descriptor = _opened(part, os.O_RDONLY)
            try:
                found += [(part.name, kind) for kind in signatures.find_signatures(descriptor)]
            finally:
                os.close(descriptor)
        if found:  # there may be a table
            known = {(int((part / "start").read_text()), int((part / "size").read_text())) for part in parts}
            for unread, kind in signatures.find_partition_signatures(self.descriptor, known):
                place = f"from byte {unread.start * 512} on, and not read by the kernel"
                found.append((f"partition {unread.number} of {disk.name} ({place})", kind))
        return found

    def _has_no_data(self) -> Check:
        """Data without a signature are somebody's too, unless this package has left them there.

        Where there are signatures, those of file systems and the like, they have been named expendable with their data.
        """
        if DATA in self._given.get("expendable", ()):
            return Check(DATA, True, "whatever it holds is expendable")
        if self._kinds - _TABLES:
            return Check(DATA, True, "what goes with its signatures is expendable")
        try:
            sample = content.sample_content(self.descriptor, self._facts["size_bytes"])
            noted = host_state.read_state(self._note)
        except OSError as error:
            return Check(DATA, False, f"it cannot be read: {error.strerror}", self._data_remedy)
        last = self._facts["size_bytes"] - 2 * _TABLE_BYTES
        data_at = [at for at in sample.data_at_bytes if not self._kinds or _TABLE_BYTES <= at <= last]
        if not data_at:
            return Check(DATA, True, "no data where it was looked at")
        if isinstance(noted, dict) and noted.get("sha256", "") in {None, sample.sha256}:
            return Check(DATA, True, "what this package has written")
        changed = "" if noted is None else ", other than this package left there"
        found = f"there are data without a signature, from byte {data_at[0]} on{changed}: somebody's, perhaps"
        return Check(DATA, False, found, self._data_remedy)

    @property
    def _data_remedy(self) -> str:
        named = ", ".join([*self._given.get("expendable", ()), DATA])
        return f"If all on it may be destroyed, add `expendable: [{named}]` to the drive in config/drives.yaml."

    @property
    def _note(self) -> Path:
        """Where this host keeps what this package has written to this disk."""
        known = f"{self._facts['serial']}\n{self._facts['size_bytes']}"
        return host_state.own_state_folder("written") / f"{hashlib.sha256(known.encode()).hexdigest()[:16]}.json"

    def note_writing(self, *, done: bool) -> None:
        """Note that this package writes to the disk, or, once it is ``done``, which data it leaves there.

        Raises OSError, or StateError where nothing can be noted.
        """
        about = {key: self._facts[key] for key in ("model", "serial", "size_bytes")}
        left = content.sample_content(self.descriptor, self._facts["size_bytes"]).sha256 if done else None
        host_state.write_state(self._note, {**about, "sha256": left})

    def _is_consented(self) -> Check:
        serial, given = self._given["serial"], self._given.get("destroy")
        if given == serial:
            return Check("consent", True, f"destroy: {given}")
        what = "config/drives.yaml does not say that its data may be destroyed"
        if given is not None:
            what = f"config/drives.yaml consents to destroying {given!r}, and this is {serial!r}"
        return Check("consent", False, what, f"If all data on it may be lost, add `destroy: {serial}` there.")

    def _entries(self) -> list[Path]:
        disk = machine.sysfs_folder(self.number)
        if disk is None:
            raise DriveError(f"{self._found_at}: the disk is gone. Is it still connected?")
        return _with_partitions(disk)


# ---- A disk's sysfs folder and those of its partitions: in what use they are, in words, and what to do about it

_Use = tuple[str, str] | None
_FindUse = Callable[[Sequence[Path]], _Use]


def _with_partitions(disk: Path) -> list[Path]:
    return [disk, *sorted(path.parent for path in disk.glob("*/partition"))]


def _mounted(entries: Sequence[Path]) -> _Use:
    numbers = {_number(entry): entry.name for entry in entries}
    for point, number in machine.mounted_devices():
        if number in numbers:
            return f"/dev/{numbers[number]} is mounted on {point}", f"If nothing on it is needed: umount {point}"
    return None


def _swap(entries: Sequence[Path]) -> _Use:
    numbers = {_number(entry) for entry in entries}
    for name in machine.active_swaps("partition"):
        if os.stat(name).st_rdev in numbers:
            return f"{name} is in use as swap", f"If it is not needed: swapoff {name}"
    return None


def _built_upon(entries: Sequence[Path]) -> _Use:
    for entry in entries:
        holders = sorted(path.name for path in (entry / "holders").glob("*"))
        if holders:
            what = f"{entry.name} is part of {', '.join(holders)} (LVM, RAID or encryption)"
            return what, "Take that apart first, if nothing on it is needed."
    return None


def _taken(entries: Sequence[Path]) -> _Use:
    for entry in [*entries[1:], entries[0]]:  # the partitions first: a claimed disk claims them
        try:
            os.close(_opened(entry, os.O_RDONLY | os.O_EXCL))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return f"/dev/{entry.name} is in use", "Find out by what: lsblk, lsof."
            return f"/dev/{entry.name}: {error.strerror}", "Is the drive still there?"
    return None


# The checks of use by others: name, function that finds a use, and what the check reports if there is none
_USES: tuple[tuple[str, _FindUse, str], ...] = (
    ("mounts", _mounted, "no part of it is mounted"),
    ("swap", _swap, "no part of it is swap"),
    ("holders", _built_upon, "nothing is built upon it"),
    ("exclusive use", _taken, "it and its partitions can be opened exclusively"),
)


def _number(entry: Path) -> int:
    major, minor = map(int, (entry / "dev").read_text().split(":"))
    return os.makedev(major, minor)


def _opened(entry: Path, flags: int) -> int:
    """Open the device of a sysfs folder by the kernel's node. Raises OSError, also where that is of another device."""
    looked_at = descriptors.open_path_only(f"/dev/{entry.name.replace('!', '/')}")
    try:
        if os.fstat(looked_at).st_rdev != _number(entry):
            raise OSError(errno.ENXIO, "this node is of another device")
        return descriptors.reopen(looked_at, flags)
    finally:
        os.close(looked_at)
