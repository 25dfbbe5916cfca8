"""Journals of disks: the original values of settings, recorded before a change.

A journal is a JSON file on this host. If a run is killed, the journal says which settings are to be restored.
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
from iopatterns.configuration import factors
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
    """The error raised if settings of a disk cannot be restored.

    It is also raised for a journal (the file with the original values) that is not valid, and before a change that
    could not be undone. The message names the setting or the journal, and says what is wrong.
    """


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A disk as the kernel identifies it.

    A value that the kernel does not report is None.

    Attributes:
        device: The kernel's name, such as ``sda``.
        number: The device number, such as ``8:0``.
        sequence: The kernel's running number of the disk (diskseq). It distinguishes two disks that had the same name
            one after the other.
        serial: The serial number; for a loop device, the path of the file behind it.
        model: The model name.
        size_bytes: The size of the disk.
    """

    device: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9!_-]{1,64}\Z")]
    number: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,10}:[0-9]{1,10}\Z")]
    sequence: _Count | None
    serial: _Text | None
    model: _Text | None
    size_bytes: _Count | None

    @property
    def node(self) -> Path:
        """The path of the kernel's device node, such as ``/dev/sda``."""
        return Path("/dev") / self.device.replace("!", "/")

    @property
    def device_number(self) -> int:
        """The device number as an integer, in the form of ``st_rdev``."""
        major, minor = map(int, self.number.split(":"))
        return os.makedev(major, minor)

    @property
    def _digest(self) -> str:
        identity = f"serial {self.serial}" if self.serial else f"model {self.model}, device {self.device}"
        return hashlib.sha256(identity.encode("utf-8", errors="surrogatepass")).hexdigest()[:12]

    def file_name(self) -> str:
        """Return the file name of the disk's journal.

        The journal is the file with the original values of changed settings. An example of its name is
        ``S3Z8NB0K-5d41402abc4b.sda.json``. The three parts are the end of the serial number, a digest of the serial
        number, and the kernel's name of the disk. If the disk has no serial number, the first part is the end of the
        model name, and the digest is of the model name and the kernel's name.
        """
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.serial or self.model or "disk")[-24:].strip("-")
        return f"{readable}-{self._digest}.{self.device}.json"

    def file_pattern(self) -> str:
        """Return a glob pattern for the file names of the disk's journals.

        A journal is a file with the original values of changed settings. A disk may have several journals, because the
        kernel may have named the disk ``sda`` and later ``sdb``. The pattern matches all of them, such as
        ``*-5d41402abc4b.*.json``. For a disk without a serial number, only the journal under its present name is
        matched.
        """
        return f"*-{self._digest}.*.json"


def connected_disk(device: str) -> Disk | None:
    """Return the connected disk that has a given kernel name; None if there is none.

    Args:
        device: The kernel's name, such as ``sda``.
    """
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
    """The drive and the project folder for which settings of a disk are changed.

    Attributes:
        drive: The name of the drive in config/drives.yaml.
        checkout: The absolute path of the project folder.
    """

    drive: _Text
    checkout: _Text


class ChangedSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting of a disk, and the value that it had before the first change.

    Attributes:
        setting: The name of the setting, such as ``scheduler``.
        value: The original value, such as ``mq-deadline``.
    """

    setting: str
    value: SettingValue


class JournalEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"owner": "by", "changed": "settings"}
):
    """The content of a journal: which settings of a disk are changed, and for whom.

    A journal is a JSON file from which the original values are restored. In the file, the attribute `owner` has the key
    ``by``, and `changed` has the key ``settings``.

    Attributes:
        disk: The disk.
        boot: The kernel's ID of the boot (time between two restarts) in which the settings were changed.
        owner: The drive and the project folder for which the settings were changed.
        process: The ID of the process that changed the settings.
        changed: The settings with their original values, in the order in which they were changed.
    """

    disk: Disk
    boot: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f-]{0,36}\Z")]
    owner: Owner
    process: _Count
    changed: tuple[ChangedSetting, ...]

    @property
    def settings(self) -> dict[str, SettingValue]:
        """The original values, by name of the setting, such as ``{"scheduler": "none"}``."""
        return {each.setting: each.value for each in self.changed}


class Journal:
    """The file that records the original values of changed settings of one disk.

    If a run is interrupted, a later run restores the settings from this file. The file exists only while settings are
    changed: the first `record` creates it, and `restore` deletes it. The caller must hold the lock of the disk.

    Attributes:
        path: The path of the file.
    """

    def __init__(self, disk: Disk, owner: Owner) -> None:
        self.path = host_state.own_state_folder(_FOLDER) / disk.file_name()
        self._entry = JournalEntry(disk, _boot_id(), owner, os.getpid(), ())

    def record(self, setting: str, value: SettingValue) -> None:
        """Record the original value of a setting; call this before changing the setting.

        The record is on stable storage when the method returns. If a setting is recorded again, nothing happens,
        because only the first recorded value is the original value.

        Args:
            setting: The name of the setting, such as ``scheduler``.
            value: The present value, before the change.

        Raises:
            RestoreError: The setting is unknown, or the value is not valid, so that it could not be restored.
            StateError: The journal cannot be written.
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
        """Restore all recorded settings of the disk, then delete the file.

        Returns:
            A line for each setting that says what was done, such as "restored scheduler of /dev/sda: none". The list is
            empty if no setting was recorded.

        Raises:
            RestoreError: The disk is not found, or a setting could not be restored. The file is kept.
        """
        if not self._entry.changed:
            return []
        lines = restore_entry(self.path, self._entry, find_disk(self.path, self._entry))
        self._entry = msgspec.structs.replace(self._entry, changed=())
        return lines


def journal_paths(disk: Disk | None = None) -> list[Path]:
    """Return the paths of the journals of this user and of root on this host.

    A journal is a file with the original values of changed disk settings. It exists until the settings are restored.

    Args:
        disk: Only journals of this disk are returned. With None, journals of all disks are returned.

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
    """Return whether an earlier measurement of a drive has left settings changed.

    This is so if a journal, a file with original values of changed settings, names the drive and the project folder.
    Journals that are not valid are ignored.

    Args:
        drive: The name of the drive in config/drives.yaml.
        checkout: The project folder. Measurements from other project folders do not count.

    Raises:
        RestoreError: A folder of journals cannot be listed.
    """
    owner = Owner(drive, str(checkout.resolve()))
    for path in journal_paths():
        with contextlib.suppress(RestoreError):  # reported when the disk is used
            entry = read_journal(path)
            if entry is not None and entry.owner == owner:
                return True
    return False


def is_reserved_for_root(path: Path) -> bool:
    """Return whether a journal belongs to root and this user is not root.

    If so, this user may not restore the settings in the journal. The result is False if the file does not exist.

    Args:
        path: The path of the journal.
    """
    with contextlib.suppress(OSError):
        return os.geteuid() != 0 and path.stat(follow_symlinks=False).st_uid == 0
    return False


# ---- Reading


def read_journal(path: Path) -> JournalEntry | None:
    """Return the content of a journal; None if the file does not exist.

    A journal is a file with the original values of changed disk settings. The content is checked strictly, so that
    restoring it can only set valid values of known settings.

    Args:
        path: The path of the journal.

    Raises:
        RestoreError: The journal is not valid, or is not trusted because another user could have changed it.
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
    """Return what is wrong with a setting or its value, as text for a message.

    The text is empty if the setting can be restored to this value.
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

    The kernel may have given the disk another name since. A disk is recognised by serial number, model and size. A disk
    without a serial number is recognised only until the machine restarts, and only if all its properties are unchanged.

    Args:
        path: The path of the journal, for the error message.
        entry: The content of the journal.

    Raises:
        RestoreError: The disk is not connected, or several disks match.
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
    """Return whether a restart of the machine has reset all settings in a journal.

    The result is True if both conditions hold:

    - the machine has restarted since the settings were changed
    - all settings in the journal are settings of the disk's request queue in the kernel, such as ``scheduler``

    Settings that the disk itself stores, such as ``WCE``, may survive a restart.

    Args:
        entry: The content of the journal.
    """
    return entry.boot != _boot_id() and not set(entry.settings) & set(disk_settings.DISK_SETTINGS)


def restore_entry(path: Path, entry: JournalEntry, disk: Disk) -> list[str]:
    """Restore the settings in a journal on a locked disk, then delete the journal.

    A journal is a file with the original values of changed settings.

    - Settings are restored in the order in which measurements apply them (`factors.in_setting_order`), because some
      affect others. For example, a new scheduler resets the number of requests.
    - Settings that the disk itself stores, such as ``WCE``, are always restored.
    - Settings of the disk's request queue in the kernel, such as ``scheduler``, are not restored if the machine has
      restarted, or if the disk has another name now. In these cases, the kernel has already set up the queue again.

    Stop signals, such as SIGINT, are blocked meanwhile.

    Args:
        path: The path of the journal.
        entry: The content of the journal.
        disk: The disk under its present name, from `find_disk`. The caller must hold its lock.

    Returns:
        A line for each setting that says what was done, such as "restored scheduler of /dev/sda: none".

    Raises:
        RestoreError: A setting could not be restored. All other settings were restored, and the journal is kept.
    """
    is_queue_reset = entry.boot != _boot_id() or disk.device != entry.disk.device
    lines, problems = [], []
    with signals.stop_signals_blocked():
        for setting in factors.in_setting_order(entry.settings):
            value, what = entry.settings[setting], f"{setting} of {disk.node}"
            if is_queue_reset and setting in queue_settings.QUEUE_SETTINGS:
                lines.append(f"left {what} as it is: the kernel has set it up again since it was changed")
            elif problem := _restore_problem(disk, setting, value):
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


def _restore_problem(disk: Disk, setting: str, value: SettingValue) -> str:
    """Restore a setting of a disk; return the reason why it could not be restored, or an empty text."""
    try:
        return _restore_setting(disk, setting, value)
    except OSError as error:  # the other settings are to be restored nevertheless
        return error.strerror or str(error)


def _restore_setting(disk: Disk, setting: str, value: SettingValue) -> str:
    """Restore a setting of a disk.

    A setting that already has its original value is not set again, because a disk that refused a change may refuse
    that, too.

    Returns:
        An empty text, or the reason why the setting could not be restored.
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
    """Return the kernel's ID of the current boot, which changes when it restarts.

    The text is empty if the kernel reports none.
    """
    return machine.read_kernel_file("/proc/sys/kernel/random/boot_id") or ""
