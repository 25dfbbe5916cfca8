"""The journal of a disk: original values of settings, recorded before a change.

After a run that was killed, the journal says what to restore.
"""

import contextlib
import hashlib
import os
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from iopatterns.base import host_state, signals
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.measuring import machine
from iopatterns.measuring.tuning import disk_settings, queue_settings
from iopatterns.raw.tuning_steps import is_in_effect

_FOLDER = "journal"
_SYS_BLOCK = Path("/sys/block")
_FILE_NAME = re.compile(r"[A-Za-z0-9-]*-[0-9a-f]{12}\.[A-Za-z0-9!_-]+\.json")

SettingValue = int | str
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class RestoreError(IoPatternsError):
    """A setting could not be restored.

    The message names it, and says how to restore it manually.
    """


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A disk as the kernel identifies it.

    None for a value that the kernel does not report.

    Attributes:
        device: The kernel's name, such as ``sda``.
        number: The device number, such as ``8:0``.
        sequence: The kernel's count of disks when this disk appeared (diskseq). It distinguishes two disks that had the
            same name one after the other.
        serial: The serial number; for a loop device, the path of the file behind it.
        model: The model.
        size_bytes: The size.
    """

    device: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9!_-]{1,64}\Z")]
    number: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,10}:[0-9]{1,10}\Z")]
    sequence: _Count | None
    serial: _Text | None
    model: _Text | None
    size_bytes: _Count | None

    @property
    def node(self) -> Path:
        """The kernel's device node."""
        return Path("/dev") / self.device.replace("!", "/")

    @property
    def device_number(self) -> int:
        """The device number in the form of ``st_rdev``."""
        major, minor = map(int, self.number.split(":"))
        return os.makedev(major, minor)

    @property
    def _digest(self) -> str:
        identity = f"serial {self.serial}" if self.serial else f"model {self.model}, device {self.device}"
        return hashlib.sha256(identity.encode("utf-8", errors="surrogatepass")).hexdigest()[:12]

    def file_name(self) -> str:
        """Return the name of the disk's journal.

        It consists of the end of the serial number, a digest, and the kernel's name of the disk.
        """
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.serial or self.model or "disk")[-24:].strip("-")
        return f"{readable}-{self._digest}.{self.device}.json"

    def file_pattern(self) -> str:
        """Return a glob pattern for the disk's journals under all its names."""
        return f"*-{self._digest}.*.json"


def connected_disk(device: str) -> Disk | None:
    """Return the disk that has a kernel's name at present; None if there is none."""
    number = machine.read_kernel_file(_SYS_BLOCK / device / "dev")
    sequence = machine.read_kernel_file(_SYS_BLOCK / device / "diskseq")  # since Linux 5.15
    try:
        facts = machine.disk_facts(Path("/dev") / device.replace("!", "/"))
    except OSError:
        return None
    if number is None or facts["device"] != device:
        return None
    return Disk(
        device, number, int(sequence) if sequence else None, facts["serial"], facts["model"], facts["size_bytes"]
    )


class Owner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The drive, by its name, and the checkout for which settings are changed."""

    drive: _Text
    checkout: _Text


class ChangedSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting and its original value."""

    setting: str
    value: SettingValue


class JournalEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"owner": "by", "changed": "settings"}
):
    """The content of a journal.

    The file has the keys of earlier versions, so that the settings of their interrupted runs can still be restored.

    Attributes:
        disk: The disk.
        boot: The kernel's id of the current boot.
        owner: For which drive and checkout the settings are changed.
        process: The number of the process that changes them.
        changed: The settings in the order in which they are changed.
    """

    disk: Disk
    boot: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f-]{0,36}\Z")]
    owner: Owner
    process: _Count
    changed: tuple[ChangedSetting, ...]

    @property
    def settings(self) -> dict[str, SettingValue]:
        """The original values by setting."""
        return {each.setting: each.value for each in self.changed}


class Journal:
    """The journal of one disk, used by the process that holds the disk's lock.

    The file exists only while settings are changed.

    Attributes:
        path: The path of the file.
    """

    def __init__(self, disk: Disk, owner: Owner) -> None:
        self.path = host_state.own_state_folder(_FOLDER) / disk.file_name()
        self._entry = JournalEntry(disk, _boot_id(), owner, os.getpid(), ())

    def record(self, setting: str, value: SettingValue) -> None:
        """Record the value of a setting before it is changed.

        Returns once the record is on stable storage.

        Only the first value of each setting is recorded: it is the user's.

        Raises:
            RestoreError: The value is not valid, so that it could not be restored.
        """
        if setting in self._entry.settings:
            return
        if problem := _fault(setting, value):
            raise RestoreError(
                f"{self._entry.disk.node}: {setting} is not changed, because {problem}: it is {value!r}."
            )
        entry = msgspec.structs.replace(self._entry, changed=(*self._entry.changed, ChangedSetting(setting, value)))
        host_state.write_state(self.path, msgspec.to_builtins(entry))
        self._entry = entry

    def restore(self) -> list[str]:
        """Restore all recorded settings; see `restore_entry`."""
        if not self._entry.changed:
            return []
        lines = restore_entry(self.path, self._entry, find_disk(self.path, self._entry))
        self._entry = msgspec.structs.replace(self._entry, changed=())
        return lines


def journal_paths(disk: Disk | None = None) -> list[Path]:
    """Return the paths of this user's and root's journals.

    If ``disk`` is given, only journals of this disk are returned.

    Raises:
        RestoreError: A folder of journals cannot be listed.
    """
    found: list[Path] = []
    for folder in host_state.all_state_folders(_FOLDER):
        try:
            paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RestoreError(f"{folder}: cannot be listed: {error.strerror}. Settings may be left changed.") from None
        found += [path for path in paths if disk is None or path.match(disk.file_pattern())]
    return found


def has_unrestored_settings(drive: str, checkout: Path) -> bool:
    """Return whether a run for a drive of a checkout has left settings changed."""
    owner = Owner(drive, str(checkout.resolve()))
    for path in journal_paths():
        with contextlib.suppress(RestoreError):  # reported when the disk is used
            entry = read_journal(path)
            if entry is not None and entry.owner == owner:
                return True
    return False


def is_reserved_for_root(path: Path) -> bool:
    """Return whether a journal belongs to root and this user is not root."""
    with contextlib.suppress(OSError):
        return os.geteuid() != 0 and path.stat(follow_symlinks=False).st_uid == 0
    return False


# ---- Reading


def read_journal(path: Path) -> JournalEntry | None:
    """Return the content of a journal, None if there is none.

    A journal contains settings and a disk, but no paths: the files to write follow from the disk that is found.

    Raises:
        RestoreError: Anything in the journal is not of the known form.
    """
    if _FILE_NAME.fullmatch(path.name) is None:
        raise _malformed(path, "its name is not that of a journal")
    try:
        content = host_state.read_state(path)
    except host_state.StateError as error:
        raise RestoreError(str(error)) from None
    if content is None and not path.exists():  # an existing file may contain null
        return None
    try:
        entry = msgspec.convert(content, JournalEntry)
    except (ValueError, RecursionError) as error:
        raise _malformed(path, str(error)) from None
    if not entry.changed or len(entry.settings) < len(entry.changed):
        raise _malformed(path, "it has no setting, or a setting twice")
    for setting, value in entry.settings.items():
        if problem := _fault(setting, value):
            raise _malformed(path, problem)
    if path.name != entry.disk.file_name():
        raise _malformed(path, "its name does not match the disk that it describes")
    return entry


def _fault(setting: str, value: Any) -> str:
    """Return what is wrong with a setting or its value.

    The result is empty if the value can be restored.
    """
    if setting in disk_settings.DISK_SETTINGS:
        form = "" if type(value) is int and value in {0, 1} else "0 or 1"
    elif setting in queue_settings.QUEUE_SETTINGS:
        form = queue_settings.expected_form(setting, value)
    else:
        return f"there is no setting {setting!r}"
    return f"the value of {setting} is not {form}" if form else ""


def _malformed(path: Path, reason: str) -> RestoreError:
    return RestoreError(
        f"{printable(path)}: not a valid journal: {printable(reason)}. Restore its settings manually, then delete it."
    )


# ---- Restoring


def find_disk(path: Path, entry: JournalEntry) -> Disk:
    """Return the disk that a journal describes, under its present name.

    A disk without a serial number is recognized only until the machine restarts, if all its properties are the same.

    Raises:
        RestoreError: The disk is not connected, or cannot be distinguished from another disk.
    """
    same_name = connected_disk(entry.disk.device)
    if same_name == entry.disk and entry.boot == _boot_id():
        return same_name
    candidates: list[Disk] = []
    if entry.disk.serial is not None:
        disks = map(connected_disk, sorted(folder.name for folder in _SYS_BLOCK.iterdir()))
        candidates = [found for found in disks if found is not None and _is_same_hardware(found, entry.disk)]
    if same_name in candidates:
        candidates = [same_name]
    if len(candidates) == 1:
        return candidates[0]
    changed = ", ".join(f"{setting} (originally {value})" for setting, value in entry.settings.items())
    problem = f"{entry.disk.node} is no longer the disk with the serial {entry.disk.serial!r}, and no other is"
    if candidates:
        nodes = ", ".join(str(each.node) for each in candidates)
        problem = f"{len(candidates)} disks have the serial {entry.disk.serial!r}: {nodes}"
    elif entry.disk.serial is None:
        problem = f"{entry.disk.node}, which has no serial number, is not the same disk as before"
    raise RestoreError(
        f"{path}: {problem}. Changed settings: {changed}. Connect the disk, and run `iopatterns restore` again. If the"
        f" disk has lost power since, its settings are already restored: then delete {path}."
    )


def _is_same_hardware(found: Disk, recorded: Disk) -> bool:
    return (found.serial, found.model, found.size_bytes) == (recorded.serial, recorded.model, recorded.size_bytes)


def is_undone_by_reboot(entry: JournalEntry) -> bool:
    """Return whether a restart of the machine has reset all settings in a journal."""
    return entry.boot != _boot_id() and not set(entry.settings) & set(disk_settings.DISK_SETTINGS)


def restore_entry(path: Path, entry: JournalEntry, disk: Disk) -> list[str]:
    """Restore the settings in a journal on a locked disk, then delete the journal.

    Settings are restored in the order in which they were changed: a scheduler changes nr_requests, and WCE changes the
    kernel's view of the write cache.

    Settings of the queue are not restored after a restart of the machine, or if the disk has another name now: the
    kernel and udev have set up its queue again. Settings that the disk stores are restored, because they may survive a
    restart. Stop signals are blocked meanwhile.

    Returns:
        One line for each setting that says what was done.

    Raises:
        RestoreError: A setting could not be restored. All others were, and the journal is kept.
    """
    is_queue_reset = entry.boot != _boot_id() or disk.device != entry.disk.device
    lines, problems = [], []
    with signals.stop_signals_blocked():
        for setting, value in entry.settings.items():
            what = f"{setting} of {disk.node}"
            if is_queue_reset and setting in queue_settings.QUEUE_SETTINGS:
                lines.append(f"left {what} as it is: the kernel has set it up again since it was changed")
            elif problem := _restore_setting(disk, setting, value):
                problems.append(
                    f"{what} could not be restored to {value}: {problem}. As root, run"
                    f" {_manual_command(disk, setting, value)}, then delete {path}."
                )
            else:
                lines.append(f"restored {what}: {value}")
        if problems:
            raise RestoreError("\n".join(problems))
        path.unlink(missing_ok=True)
    return lines


def _restore_setting(disk: Disk, setting: str, value: SettingValue) -> str:
    """Restore a setting; return the reason if that fails, otherwise an empty text.

    A setting that has its original value is not set: a disk that refused a change may also refuse the original value.
    """
    if setting in queue_settings.QUEUE_SETTINGS:
        return queue_settings.restore_attribute(disk.device, setting, value)
    step = disk_settings.set_on_disk(disk.node, setting, int(value))
    if not is_in_effect(step):
        return step["reason"]
    if setting == "WCE":
        disk_settings.align_kernel_write_cache(disk.node)  # the disk may have been restored without the kernel
    return ""


def _manual_command(disk: Disk, setting: str, value: SettingValue) -> str:
    if setting in queue_settings.QUEUE_SETTINGS:
        return f"echo {value} > {queue_settings.attribute_path(disk.device, setting)}"
    return disk_settings.manual_command(disk.node, setting, int(value))


def _boot_id() -> str:
    """Return the kernel's id of the current boot."""
    return machine.read_kernel_file("/proc/sys/kernel/random/boot_id") or ""
