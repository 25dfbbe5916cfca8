"""The gate: what is checked before a block device is read or written, in which order, each refusal in its own words."""

import contextlib
import errno
import json
import os
import stat
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iopatterns import children, machine, units

_BY_ID = Path("/dev/disk/by-id")


@dataclass(frozen=True)
class Check:
    """One check: its name, whether it passed, what was found, and what the user can do about it."""

    name: str
    passed: bool
    found: str
    remedy: str = ""


class Gate:
    """The checks of one block device as config/drives.yaml describes it. Looks, and changes nothing.

    ``specification``: the drive's entry, with path, serial, and where given model, size, destroy (consent to writing:
    the serial once more) and expendable (types of signatures that may be overwritten). Nothing is opened before a check
    asks.
    """

    def __init__(self, specification: Mapping[str, Any]) -> None:
        self._given = specification
        self.path = Path(specification["path"])

    @property
    def device(self) -> Path:
        """The device node itself, symbolic links followed."""
        return self.path.resolve()

    def checks(self, *, writing: bool) -> Iterator[Check]:
        """Yield the outcome of each check in order, to the first that does not pass.

        Reading needs the first two alone; what comes later would have no sense once one has failed.
        """
        steps: list[Callable[[], Check]] = [self._is_block_device, self._is_the_drive_meant]
        if writing:
            steps += [self._is_writable, self._is_not_root, self._is_not_mounted, self._is_no_swap]
            steps += [self._has_no_holders, self._is_free, self._has_no_signature, self._is_consented]
        for step in steps:
            check = step()
            yield check
            if not check.passed:
                return

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the device exclusively: while the context lasts, nothing can mount it or build upon it."""
        with _exclusive(self.device):
            yield

    # ---- Identity

    def _is_block_device(self) -> Check:
        name = "block device"
        try:
            mode = self.device.stat().st_mode
        except OSError as error:
            known = ", ".join(sorted(entry.name for entry in _BY_ID.iterdir())) if _BY_ID.is_dir() else "none"
            return Check(name, False, f"{self.path}: {error.strerror}", f"Is the name mistyped? In {_BY_ID}: {known}.")
        if not stat.S_ISBLK(mode):
            kind = "a file" if stat.S_ISREG(mode) else "a folder" if stat.S_ISDIR(mode) else "no block device"
            return Check(name, False, f"{self.path} is {kind}", "Kind 'block' measures a disk; take 'file' for a file.")
        disk = machine.sysfs_of(self.device)
        if disk is None:
            return Check(name, False, f"{self.device} is not in /sys", "Is it a disk of this machine?")
        if (disk / "partition").exists():
            whole = f"/dev/{disk.parent.name}"
            return Check(name, False, f"{self.device} is a partition of {whole}", "Give the whole disk.")
        return Check(name, True, f"{self.path} is {self.device}")

    def _is_the_drive_meant(self) -> Check:
        name = "identity"
        facts = machine.disk(self.device)
        if "serial" not in self._given:
            found = f"config/drives.yaml gives no serial, the device says {facts['serial']!r}"
            return Check(name, False, found, "If this is the drive that you mean, add the serial to its entry.")
        wanted = {"serial": self._given["serial"], "model": self._given.get("model")}
        if "size" in self._given:
            wanted["size_bytes"] = units.size_bytes(self._given["size"])
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
        disk = machine.sysfs_of(self.device)
        if disk is not None and (disk / "ro").read_text().strip() == "1":
            return Check("writable", False, f"{self.device} is read-only", "Measure reading workloads alone.")
        if not os.access(self.device, os.W_OK):
            return Check("writable", False, f"this user may not write {self.device}", "Run as root.")
        return Check("writable", True, "not read-only")

    def _is_not_root(self) -> Check:
        root = machine.disks_under(Path("/"))
        names = {disk.name for disk in root}
        if self.device.name in names:
            return Check("root device", False, f"{self.device} holds the root file system", "Take another disk.")
        return Check("root device", True, f"the root file system is on {', '.join(sorted(names)) or 'no disk'}")

    def _is_not_mounted(self) -> Check:
        for point, number in machine.mounts():
            if number in self._numbers():
                remedy = f"If nothing on it is needed: umount {point}"
                return Check("mounts", False, f"{self._name(number)} is mounted on {point}", remedy)
        return Check("mounts", True, "neither it nor a partition of it is mounted")

    def _is_no_swap(self) -> Check:
        for name in machine.swaps():
            if os.stat(name).st_rdev in self._numbers():
                return Check("swap", False, f"{name} is in use as swap", f"If it is not needed: swapoff {name}")
        return Check("swap", True, "neither it nor a partition of it is swap")

    def _has_no_holders(self) -> Check:
        for entry in self._entries():
            holders = sorted(path.name for path in (entry / "holders").glob("*"))
            if holders:
                what = f"{entry.name} is part of {', '.join(holders)} (LVM, RAID or encryption)"
                return Check("holders", False, what, "Take that apart first, if nothing on it is needed.")
        return Check("holders", True, "nothing is built upon it")

    def _is_free(self) -> Check:
        for entry in [*self._entries()[1:], self._entries()[0]]:  # the partitions first: a claimed disk claims them
            node = Path("/dev") / entry.name
            try:
                with _exclusive(node):
                    pass
            except OSError as error:
                if error.errno == errno.EBUSY:
                    return Check("exclusive use", False, f"{node} is in use", "Find out by what: lsblk, lsof.")
                return Check("exclusive use", False, f"{node}: {error.strerror}", "Is the drive still there?")
        return Check("exclusive use", True, "it and its partitions can be opened exclusively")

    def _has_no_signature(self) -> Check:
        found = [(entry.name, kind) for entry in self._entries() for kind in signatures(Path("/dev") / entry.name)]
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

    def _is_consented(self) -> Check:
        serial, given = self._given["serial"], self._given.get("destroy")
        if given == serial:
            return Check("consent", True, f"destroy: {given}")
        what = "config/drives.yaml does not say that its data may be destroyed"
        if given is not None:
            what = f"config/drives.yaml consents to destroying {given!r}, and this is {serial!r}"
        return Check("consent", False, what, f"If all data on it may be lost, add `destroy: {serial}` there.")

    # ---- The disk and its partitions

    def _entries(self) -> list[Path]:
        """Return the sysfs folders of the disk, and then of its partitions."""
        disk = machine.sysfs_of(self.device)
        assert disk is not None  # the first check
        return [disk, *sorted(path.parent for path in disk.glob("*/partition"))]

    def _numbers(self) -> dict[int, str]:
        return {_number((entry / "dev").read_text()): entry.name for entry in self._entries()}

    def _name(self, number: int) -> str:
        return f"/dev/{self._numbers()[number]}"


def _number(text: str) -> int:
    major, minor = map(int, text.split(":"))
    return os.makedev(major, minor)


@contextlib.contextmanager
def _exclusive(node: Path) -> Iterator[None]:
    """Open a block device exclusively (O_EXCL, open(2)) for reading; OSError EBUSY where something uses it."""
    descriptor = os.open(node, os.O_RDONLY | os.O_EXCL)
    try:
        yield
    finally:
        os.close(descriptor)


def signatures(node: Path) -> Sequence[str]:
    """Return the types of all signatures on a device that wipefs(8) finds: ext4, gpt, LVM2_member, crypto_LUKS …"""
    argv = ["wipefs", "--no-act", "--json", str(node)]
    try:
        said = subprocess.run(argv, capture_output=True, text=True, check=False, env=children.environment())
    except FileNotFoundError:
        return ["unknown (wipefs is not installed)"]
    if said.returncode:
        return [f"unknown ({said.stderr.strip() or 'wipefs failed'})"]
    return [entry["type"] for entry in json.loads(said.stdout)["signatures"]] if said.stdout.strip() else []
