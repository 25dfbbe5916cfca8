"""The checks of a disk before it is read or written.

They ensure that the device is the configured disk, that nothing else uses it, and that writing destroys no data without
the user's consent.
"""

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
from iopatterns.base.messages import printable
from iopatterns.configuration.kinds import BlockEntry
from iopatterns.measuring import machine
from iopatterns.measuring.drives import content, descriptors, file_users, signatures
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.lock import kernel_node, wrong_node
from iopatterns.raw.records import OpenedTarget

_BY_ID = Path("/dev/disk/by-id")
# Types of the signatures of partition tables. They explain data in the first and in the last MiB of a disk only.
_TABLES = frozenset({"atari", "bsd", "dos", "gpt", "mac", "PMBR", "sgi", "sun"})
_TABLE_BYTES = 2**20
_LONGEST_PATH = 4096  # PATH_MAX
# The value of `expendable` that permits overwriting data without a signature
_DATA = "data"


@dataclass(frozen=True)
class Check:
    """The result of one check of a disk.

    Attributes:
        name: The name of the check, such as ``mounts``.
        passed: Whether the check passed.
        found: What was found, as text for the user, such as "no part of it is mounted".
        remedy: What the user can do if the check failed; empty if it passed.
    """

    name: str
    passed: bool
    found: str
    remedy: str = ""


class _RefusedError(Exception):
    """The error raised by a check that fails.

    Attributes:
        found: What was found, as text for the user.
        remedy: What the user can do.
    """

    def __init__(self, found: str, remedy: str) -> None:
        self.found, self.remedy = found, remedy
        super().__init__(found)


class PrewriteChecks:
    """The checks that a disk must pass before it is measured.

    A disk that is only read needs to pass fewer checks than a disk that is written. The first check resolves the path
    and opens the device. All other checks, methods and properties use the device that was opened, even if the path
    leads to another device later. The checks change nothing on the device. The caller must call `close`.
    """

    def __init__(self, entry: BlockEntry) -> None:
        """Store the entry of the drive; nothing is opened yet.

        Args:
            entry: The drive's entry in config/drives.yaml. Its keys are ``path`` and ``serial``, and optionally
                ``model``, ``size``, ``destroy`` (the serial number again, as consent to writing) and ``expendable`` (a
                list of what may be overwritten: types of signatures, such as ``ext4``, and ``data`` for data without a
                signature).
        """
        self._entry = entry
        self._path = Path(entry["path"])
        self._descriptor: int | None = None
        self._resolved_path = ""
        self._facts: Mapping[str, Any] = {}
        self._signature_types: set[str] = set()

    def close(self) -> None:
        """Close the device. Nothing happens if it is not open."""
        descriptors.close_descriptor(self._descriptor)
        self._descriptor = None

    @property
    def descriptor(self) -> int:
        """The file descriptor of the device, open for reading.

        It is available from the first passed check of `checks` until `close`.
        """
        assert self._descriptor is not None
        return self._descriptor

    @property
    def number(self) -> int:
        """The device number of the opened device, in the form of ``st_rdev``."""
        return os.fstat(self.descriptor).st_rdev

    @property
    def node(self) -> Path:
        """The path of the opened device's node, such as ``/dev/sda``.

        Raises DriveError if the device is gone, or if another device is at this path.
        """
        node = kernel_node(self.number)
        try:
            same = os.stat(node).st_rdev == self.number
        except OSError:
            same = False
        if not same:
            raise wrong_node(node, self.number)
        return node

    @property
    def name(self) -> str:
        """The kernel's name of the opened device, such as ``sda``.

        Raises DriveError if the device is gone.
        """
        return self._sysfs_folders()[0].name

    def opened_target(self) -> OpenedTarget:
        """Return the resolved path, the device number and the size of the opened device.

        The keys are ``path``, ``number`` (text such as ``8:16``) and ``size_bytes`` (None if unknown).
        """
        number = descriptors.device_number_text(self.number)
        size_bytes = machine.disk_facts(self.number)["size_bytes"]
        return {"path": self._resolved_path, "number": number, "size_bytes": size_bytes}

    def verify(self) -> None:
        """Raise DriveError unless the disk that was checked is still connected.

        The kernel's name, the serial number and the size of the disk are compared with those that the check of the
        identity found. The check must therefore have been made.
        """
        now = machine.disk_facts(self.number)
        for key in ("device", "serial", "size_bytes"):
            if now[key] != self._facts[key]:
                raise DriveError(
                    f"{self._resolved_path}: it had {key} {self._facts[key]!r} when it was checked, and now has"
                    f" {now[key]!r}. Is the disk still connected?"
                )

    def checks(self, *, writing: bool) -> Iterator[Check]:
        """Make the checks in order, and yield the result of each.

        The first check that fails is the last one made. Two checks are always made:

        - ``block device``: the path leads to a block device, which is a disk and not a partition. The device is opened
        - ``identity``: the serial number, and also model and size if configured, are those in the configuration

        If the disk is to be written, further checks follow:

        - ``writable``: this user may write to the disk, and the disk is not read-only
        - ``root device``: the root file system is not on the disk
        - ``mounts``, ``swap``, ``holders`` and ``exclusive use``: nothing else uses the disk or its partitions
        - ``backing file``: nothing else uses the file or disk behind a loop device
        - ``signatures`` and ``data``: the disk has no file system, partition table or other data, except those that the
          user has declared expendable, and data that this package has written
        - ``consent``: the configuration has the serial number a second time, as consent to losing all data

        Args:
            writing: Whether the disk is to be written, which requires all checks.
        """
        steps: list[tuple[str, Callable[[], str]]] = [
            ("block device", self._require_block_device),
            ("identity", self._require_identity),
        ]
        if writing:
            steps += [("writable", self._require_writable), ("root device", self._require_not_root)]
            steps += [
                (name, functools.partial(self._require_unused, find_use, unused)) for name, find_use, unused in _USES
            ]
            steps += [("backing file", self._require_own_backing), ("signatures", self._require_no_signature)]
            steps += [(_DATA, self._require_no_data), ("consent", self._require_consent)]
        for name, require in steps:
            try:
                found = require()
            except _RefusedError as refused:
                yield Check(name, False, refused.found, refused.remedy)
                return
            yield Check(name, True, found)

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Open the device exclusively (O_EXCL, open(2)) while the context lasts.

        Meanwhile, nothing can mount the device or one of its partitions.

        Raises:
            OSError: The device is in use (EBUSY), or cannot be opened.
        """
        exclusive = descriptors.reopen(self.descriptor, os.O_RDONLY | os.O_EXCL)
        try:
            yield
        finally:
            os.close(exclusive)

    # ---- The checks: each returns what it found, or raises _RefusedError

    def _require_block_device(self) -> str:
        try:
            mode = self._open()
        except PermissionError as error:
            remedy = "Run as root, or as a user who may read it."
            raise _RefusedError(f"{self._path}: {error.strerror}", remedy) from None
        except OSError as error:
            known = ", ".join(sorted(entry.name for entry in _BY_ID.iterdir())) if _BY_ID.is_dir() else "none"
            remedy = f"Is the name mistyped? In {_BY_ID}: {known}."
            raise _RefusedError(f"{self._path}: {error.strerror}", remedy) from None
        if not stat.S_ISBLK(mode):
            kind = "a file" if stat.S_ISREG(mode) else "a folder" if stat.S_ISDIR(mode) else "no block device"
            raise _RefusedError(f"{self._path} is {kind}", "Kind 'block' measures a disk; use 'file' for a file.")
        disk = machine.sysfs_folder(self.number)
        if disk is None:
            raise _RefusedError(f"{self._resolved_path} is not in /sys", "Is it a disk of this machine?")
        if (disk / "partition").exists():
            found = f"{self._resolved_path} is a partition of /dev/{disk.parent.name}"
            raise _RefusedError(found, "Give the whole disk.")
        return f"{self._path} is {self._resolved_path}, {disk.name} to the kernel"

    def _open(self) -> int:
        """Open the device if the path leads to a block device.

        Returns:
            The file mode of what the path leads to (``st_mode``). Nothing else than a block device is opened.

        Raises:
            OSError: The path does not exist, or the device cannot be opened.
        """
        if self._descriptor is not None:
            return os.fstat(self._descriptor).st_mode
        path_only = descriptors.open_path_only(self._path)
        try:
            mode = os.fstat(path_only).st_mode
            if stat.S_ISBLK(mode):
                self._resolved_path = descriptors.resolved_path(path_only)
                device = descriptors.reopen(path_only, os.O_RDONLY | os.O_NONBLOCK)
                self._descriptor = descriptors.make_inheritable(device)
        finally:
            os.close(path_only)
        return mode

    def _require_identity(self) -> str:
        self._facts = facts = cast(Mapping[str, Any], machine.disk_facts(self.number))
        if "serial" not in self._entry:
            found = f"config/drives.yaml gives no serial, the device says {facts['serial']!r}"
            raise _RefusedError(found, "If this is the drive that you mean, add the serial to its entry.")
        wanted: dict[str, str | int | None] = {"serial": self._entry["serial"], "model": self._entry.get("model")}
        if "size" in self._entry:
            wanted["size_bytes"] = units.parse_size(self._entry["size"])
        for key, value in wanted.items():
            if value is not None and facts[key] != value:
                raise _RefusedError(
                    f"config/drives.yaml says {key} {value!r}, the device says {facts[key]!r}",
                    "Is it another disk under the same name? Correct the entry only if this is the drive you mean.",
                )
        return ", ".join(f"{key} {facts[key]}" for key in ("model", "serial", "size_bytes"))

    def _require_writable(self) -> str:
        if (self._sysfs_folders()[0] / "ro").read_text().strip() == "1":
            raise _RefusedError(f"{self._resolved_path} is read-only", "Measure reading workloads only.")
        if not os.access(descriptors.descriptor_path(self.descriptor), os.W_OK):
            raise _RefusedError(f"this user may not write {self._resolved_path}", "Run as root.")
        return "not read-only"

    def _require_not_root(self) -> str:
        names = {disk.name for disk in machine.whole_disks_under(Path("/"))}
        if self.name in names:
            raise _RefusedError(f"{self._resolved_path} holds the root file system", "Take another disk.")
        return f"the root file system is on {', '.join(sorted(names)) or 'no disk'}"

    def _require_unused(self, find_use: "_FindUse", unused: str) -> str:
        if use := find_use(self._sysfs_folders()):
            raise _RefusedError(*use)
        return unused

    def _require_own_backing(self) -> str:
        """Check that nothing else uses the file or disk behind a loop device.

        What is written to a loop device ends up in that file or disk.

        Returns:
            What was found, as text for the user. A disk that is no loop device passes.

        Raises:
            _RefusedError: Something else uses the file or disk, or it does not exist.
        """
        disk = self._sysfs_folders()[0]
        if not (disk / "loop").exists():
            return "it is no loop device"
        file = printable(file_users.backing_path(disk), _LONGEST_PATH)
        remedy = "Use a loop device on a file that nothing else uses."
        try:
            backing = file_users.loop_backing(self.descriptor)
        except OSError as error:
            raise _RefusedError(f"{file} behind {disk.name}: {error.strerror}", "Does it still exist?") from None
        if user := file_users.find_file_user(backing.device, backing.inode, but_loop=disk.name):
            raise _RefusedError(f"{file} is behind {disk.name}, and {user}", remedy)
        backing_disk = machine.sysfs_folder(backing.number) if backing.number else None
        if backing_disk is not None:
            for _, find_use, _ in _USES:
                if use := find_use(_with_partitions(backing_disk)):
                    raise _RefusedError(f"{file} is behind {disk.name}, and {use[0]}", use[1])
            if backing_disk.name in {root.name for root in machine.whole_disks_under(Path("/"))}:
                raise _RefusedError(f"{file} is behind {disk.name}, and holds the root file system", remedy)
        return f"nothing else uses {file}"

    def _require_no_signature(self) -> str:
        found = self._signatures()
        self._signature_types = {kind for _, kind in found}
        expendable = set(self._entry.get("expendable", ()))
        for name, kind in found:
            if kind not in expendable:
                raise _RefusedError(
                    f"{name} carries a signature of type {kind}: somebody's data",
                    f"If they may be destroyed, add `expendable: [{kind}]` to the drive in config/drives.yaml.",
                )
        expended = ", ".join(f"{kind} on {name}, expendable" for name, kind in found)
        return expended or "no file system, partition table, LVM, RAID or encryption"

    def _signatures(self) -> list[tuple[str, str]]:
        """Return all signatures of file systems and the like on the disk.

        Each item is a place, such as ``sda1``, and a type of signature, such as ``ext4``. Partitions are included, also
        those in a partition table that the kernel has not read.
        """
        disk, *parts = self._sysfs_folders()
        found = [(disk.name, kind) for kind in signatures.find_signatures(self.descriptor)]
        for part in parts:
            descriptor = _open_device(part, os.O_RDONLY)
            try:
                found += [(part.name, kind) for kind in signatures.find_signatures(descriptor)]
            finally:
                os.close(descriptor)
        if found:  # without any signature, there is no partition table either
            known = {(int((part / "start").read_text()), int((part / "size").read_text())) for part in parts}
            for unread, kind in signatures.find_partition_signatures(self.descriptor, known):
                place = f"from byte {unread.start * 512} on, and not read by the kernel"
                found.append((f"partition {unread.number} of {disk.name} ({place})", kind))
        return found

    def _require_no_data(self) -> str:
        """Check that the disk has no data that might be somebody's.

        A sample of the disk is read. Data pass if the user has declared them expendable, if they belong to a signature
        that the user has declared expendable, or if this package wrote them and they are unchanged. After a measurement
        that was killed while it wrote, no data are known to be this package's.

        Returns:
            What was found, as text for the user.

        Raises:
            _RefusedError: There are other data, or the disk cannot be read.
        """
        if _DATA in self._entry.get("expendable", ()):
            return "all data are expendable"
        if self._signature_types - _TABLES:
            return "data that belong to its signatures are expendable"
        types = ", ".join([*self._entry.get("expendable", ()), _DATA])
        remedy = f"If all data may be destroyed, add `expendable: [{types}]` to the drive in config/drives.yaml."
        try:
            sample = content.sample_content(self.descriptor, self._facts["size_bytes"])
            note = host_state.read_state(self._note)
        except OSError as error:
            raise _RefusedError(f"it cannot be read: {error.strerror}", remedy) from None
        last = self._facts["size_bytes"] - 2 * _TABLE_BYTES
        data_at = [at for at in sample.data_at_bytes if not self._signature_types or _TABLE_BYTES <= at <= last]
        if not data_at:
            return "no data in the sampled blocks"
        left = note.get("sha256", "") if isinstance(note, dict) else ""
        if left == sample.sha256:
            return "data that this package has written"
        changed = "" if note is None else ", other than this package left there"
        if left is None:
            changed = ", and the last measurement was killed, or the disk failed, while it wrote"
        found = f"there are data without a signature, from byte {data_at[0]} on{changed}: somebody's, perhaps"
        raise _RefusedError(found, remedy)

    @property
    def _note(self) -> Path:
        """The path of the note about which data this package has written to the disk.

        It is a file of this host, named by a digest of the disk's serial number and size.
        """
        identity = f"{self._facts['serial']}\n{self._facts['size_bytes']}"
        return host_state.own_state_folder("written") / f"{hashlib.sha256(identity.encode()).hexdigest()[:16]}.json"

    def note_writing(self, *, done: bool) -> None:
        """Record on this host that this package writes to the disk.

        Call this method with ``done=False`` before writing, and with ``done=True`` afterwards. Later checks then
        recognise the data on the disk as written by this package. If this process is killed between the two calls,
        later checks treat the data as somebody else's.

        Args:
            done: Whether writing has ended. If so, a sample of the data is read, and its SHA-256 is recorded.

        Raises:
            OSError: The disk cannot be read.
            StateError: The record cannot be written.
        """
        identity = {key: self._facts[key] for key in ("model", "serial", "size_bytes")}
        left = content.sample_content(self.descriptor, self._facts["size_bytes"]).sha256 if done else None
        host_state.write_state(self._note, {**identity, "sha256": left})

    def _require_consent(self) -> str:
        serial, given = self._entry["serial"], self._entry.get("destroy")
        if given == serial:
            return f"destroy: {given}"
        found = "config/drives.yaml does not say that its data may be destroyed"
        if given is not None:
            found = f"config/drives.yaml consents to destroying {given!r}, and this is {serial!r}"
        raise _RefusedError(found, f"If all data on it may be lost, add `destroy: {serial}` there.")

    def _sysfs_folders(self) -> list[Path]:
        """Return the sysfs folder of the disk, then the folders of its partitions.

        Raises DriveError if the disk is gone.
        """
        disk = machine.sysfs_folder(self.number)
        if disk is None:
            raise DriveError(f"{self._resolved_path}: the disk is gone. Is it still connected?")
        return _with_partitions(disk)


# ---- How other programs use a disk or its partitions

_Use = tuple[str, str] | None  # what uses the disk, and what the user can do
_FindUse = Callable[[Sequence[Path]], _Use]  # gets the sysfs folders of a disk and of its partitions


def _with_partitions(disk: Path) -> list[Path]:
    return [disk, *sorted(path.parent for path in disk.glob("*/partition"))]


def _find_mount(folders: Sequence[Path]) -> _Use:
    numbers = {_number(folder): folder.name for folder in folders}
    for mount in machine.mounts():
        if mount.number in numbers:
            point = printable(mount.point, _LONGEST_PATH)
            return f"/dev/{numbers[mount.number]} is mounted on {point}", f"If nothing on it is needed: umount {point}"
    return None


def _find_swap(folders: Sequence[Path]) -> _Use:
    numbers = {_number(folder) for folder in folders}
    for name in machine.active_swaps("partition"):
        with contextlib.suppress(FileNotFoundError):  # a deleted node; the check of exclusive use finds its device
            if os.stat(name).st_rdev in numbers:
                node = printable(name, _LONGEST_PATH)
                return f"{node} is in use as swap", f"If it is not needed: swapoff {node}"
    return None


def _find_holder(folders: Sequence[Path]) -> _Use:
    for folder in folders:
        holders = sorted(path.name for path in (folder / "holders").glob("*"))
        if holders:
            found = f"{folder.name} is part of {', '.join(holders)} (LVM, RAID or encryption)"
            return found, "Take that apart first, if nothing on it is needed."
    return None


def _find_exclusive_use(folders: Sequence[Path]) -> _Use:
    for folder in [*folders[1:], folders[0]]:  # the partitions first: claiming the disk claims them, too
        try:
            os.close(_open_device(folder, os.O_RDONLY | os.O_EXCL))
        except OSError as error:
            if error.errno == errno.EBUSY:
                return f"/dev/{folder.name} is in use", "Find out by what: lsblk, lsof."
            return f"/dev/{folder.name}: {error.strerror}", "Is the drive still there?"
    return None


# The checks of use by others: name, function that finds a use, and what the check reports if there is none
_USES: tuple[tuple[str, _FindUse, str], ...] = (
    ("mounts", _find_mount, "no part of it is mounted"),
    ("swap", _find_swap, "no part of it is swap"),
    ("holders", _find_holder, "no other device is built on it"),
    ("exclusive use", _find_exclusive_use, "it and its partitions can be opened exclusively"),
)


def _number(folder: Path) -> int:
    major, minor = map(int, (folder / "dev").read_text().split(":"))
    return os.makedev(major, minor)


def _open_device(folder: Path, flags: int) -> int:
    """Open the block device that a sysfs folder describes.

    Args:
        folder: The sysfs folder of a disk or partition.
        flags: The flags of open(2).

    Returns:
        The file descriptor.

    Raises:
        OSError: The device cannot be opened, or its node in /dev is another device.
    """
    path_only = descriptors.open_path_only(f"/dev/{folder.name.replace('!', '/')}")
    try:
        if os.fstat(path_only).st_rdev != _number(folder):
            raise OSError(errno.ENXIO, "this node is of another device")
        return descriptors.reopen(path_only, flags)
    finally:
        os.close(path_only)
