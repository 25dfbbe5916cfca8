"""The journal of a disk: its settings as they were before anything was changed, noted first, so that they come back."""

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

_FOLDER = "journal"
_SYS_BLOCK = Path("/sys/block")
_FILE_NAME = re.compile(r"[A-Za-z0-9-]*-[0-9a-f]{12}\.[A-Za-z0-9!_-]+\.json")
_BY_HAND = "Look at what it says, put that back by hand, then delete it."

SettingValue = int | str
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=4096)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class RestoreError(IoPatternsError):
    """A setting could not be put back; the message names it, and says how to do it by hand."""


class Disk(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A whole disk as the kernel knows it. None for what it does not say.

    ``device`` is the kernel's name (``sda``), ``number`` its device number (``8:0``), ``sequence`` what the kernel
    counts up with each disk that comes (diskseq): of two disks that have one name one after the other, each has its
    own. The path of the file behind a loop device stands for its serial number.
    """

    device: Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9!_-]{1,64}\Z")]
    number: Annotated[str, msgspec.Meta(pattern=r"\A[0-9]{1,10}:[0-9]{1,10}\Z")]
    sequence: _Count | None
    serial: _Text | None
    model: _Text | None
    size_bytes: _Count | None

    @property
    def node(self) -> Path:
        """The kernel's own node of it."""
        return Path("/dev") / self.device.replace("!", "/")

    @property
    def device_number(self) -> int:
        """Its number as ``st_rdev`` has it."""
        major, minor = map(int, self.number.split(":"))
        return os.makedev(major, minor)

    @property
    def _identity(self) -> str:
        return f"serial {self.serial}" if self.serial else f"model {self.model}, device {self.device}"

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self._identity.encode("utf-8", errors="surrogatepass")).hexdigest()[:12]

    def file_name(self) -> str:
        """Return the name of its journal: the end of what tells it apart, a digest of that, and the kernel's name."""
        readable = re.sub(r"[^A-Za-z0-9]+", "-", self.serial or self.model or "disk")[-24:].strip("-")
        return f"{readable}-{self._digest}.{self.device}.json"

    def file_pattern(self) -> str:
        """Return what the names of all its journals match, whatever the kernel called it then (glob)."""
        return f"*-{self._digest}.*.json"


def connected_disk(device: str) -> Disk | None:
    """Return the disk that has a name of the kernel's at present, None where there is none."""
    number = machine.read_kernel_file(_SYS_BLOCK / device / "dev")
    sequence = machine.read_kernel_file(_SYS_BLOCK / device / "diskseq")  # Linux has it since 5.15
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
    """The drive, by its name in config/drives.yaml, and the checkout for which settings are changed."""

    drive: _Text
    checkout: _Text


class ChangedSetting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A setting and its original value."""

    setting: str
    value: SettingValue


class JournalEntry(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"owner": "by", "changed": "settings"}
):
    """The content of a journal; ``changed`` is in the order in which the settings were changed.

    The file has the keys of earlier versions, so that the settings of their interrupted runs can still be restored.
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
    """The settings of one disk as they were, for whoever holds the disk's lock; a file only while some are changed."""

    def __init__(self, disk: Disk, owner: Owner) -> None:
        self.path = host_state.own_state_folder(_FOLDER) / disk.file_name()
        self._entry = JournalEntry(disk, _boot(), owner, os.getpid(), ())

    def record(self, setting: str, value: SettingValue) -> None:
        """Note a setting before it is changed; the note is on the disk when this returns.

        The first value counts: what the user had set. Raises RestoreError for one that could not be put back.
        """
        if setting in self._entry.settings:
            return
        if problem := _fault(setting, value):
            raise RestoreError(f"{self._entry.disk.node}: {setting} is left as it is, for {problem}: it is {value!r}.")
        entry = msgspec.structs.replace(self._entry, changed=(*self._entry.changed, ChangedSetting(setting, value)))
        host_state.write_state(self.path, msgspec.to_builtins(entry))
        self._entry = entry

    def restore(self) -> list[str]:
        """Put back what this journal has noted; see `restore_entry`."""
        if not self._entry.changed:
            return []
        told = restore_entry(self.path, self._entry, find_disk(self.path, self._entry))
        self._entry = msgspec.structs.replace(self._entry, changed=())
        return told


def journal_paths(of: Disk | None = None) -> list[Path]:
    """Return the journals that are there, of all disks or of one: this user's, and root's, which he may not read.

    Raises RestoreError where a folder of them cannot be listed.
    """
    found: list[Path] = []
    for folder in host_state.all_state_folders(_FOLDER):
        try:
            there = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RestoreError(f"{folder}: cannot be listed: {error.strerror}. Settings may be left changed.") from None
        found += [path for path in there if of is None or path.match(of.file_pattern())]
    return found


def has_unrestored_settings(drive: str, checkout: Path) -> bool:
    """Return whether a run for a drive's entry in a checkout has left settings changed."""
    owner = Owner(drive, str(checkout.resolve()))
    for path in journal_paths():
        with contextlib.suppress(RestoreError):  # what cannot be read is told where that disk is used
            entry = read_journal(path)
            if entry is not None and entry.owner == owner:
                return True
    return False


def is_reserved_for_root(path: Path) -> bool:
    """Return whether a journal is root's, and this user is not: it is none of his to read or to carry out."""
    with contextlib.suppress(OSError):
        return os.geteuid() != 0 and path.stat(follow_symlinks=False).st_uid == 0
    return False


# ---- What a journal may say


def read_journal(path: Path) -> JournalEntry | None:
    """Return the content of a journal, None if there is none.

    A journal names settings and a disk, never a path: the paths that are written follow from the disk that is found.

    Raises:
        RestoreError: Anything in the journal is not of the known form.
    """
    if _FILE_NAME.fullmatch(path.name) is None:
        raise _malformed(path, "its name is not that of a journal")
    try:
        content = host_state.read_state(path)
    except host_state.StateError as error:
        raise RestoreError(str(error)) from None
    if content is None and not path.exists():  # else it says null
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
        raise _malformed(path, "its name is not that of the disk that it is about")
    return entry


def _fault(setting: str, value: Any) -> str:
    """Return what is wrong with a setting or its value, nothing where it is one that can be put back."""
    if setting in disk_settings.DISK_SETTINGS:
        good = type(value) is int and value in {0, 1}
        form = "0 or 1"
    elif setting in queue_settings.QUEUE_SETTINGS:
        good = queue_settings.is_valid_value(setting, value)
        form = queue_settings.attribute_values_text(setting)
    else:
        return f"there is no setting {setting!r}"
    return "" if good else f"the value of {setting} is not {form}"


def _malformed(path: Path, reason: str) -> RestoreError:
    return RestoreError(f"{printable(path)}: not a valid journal: {printable(reason)}. {_BY_HAND}")


# ---- Putting back


def find_disk(path: Path, entry: JournalEntry) -> Disk:
    """Return the disk that a journal is about, under the name that the kernel has for it now. Raises RestoreError.

    Without a serial number it is known for as long as the machine runs, by all that the kernel says of it.
    """
    same_name = connected_disk(entry.disk.device)
    if same_name == entry.disk and entry.boot == _boot():
        return same_name
    alike: list[Disk] = []
    if entry.disk.serial is not None:
        names = sorted(entry.name for entry in _SYS_BLOCK.iterdir())
        alike = [found for name in names if (found := connected_disk(name)) is not None and _is(found, entry.disk)]
    if same_name in alike:
        alike = [same_name]
    if len(alike) == 1:
        return alike[0]
    told = ", ".join(f"{setting} (it was {value})" for setting, value in entry.settings.items())
    which = f"{entry.disk.node} is no longer the disk with the serial {entry.disk.serial!r}, and no other is"
    if alike:
        which = f"{len(alike)} disks have the serial {entry.disk.serial!r}: {', '.join(str(one.node) for one in alike)}"
    elif entry.disk.serial is None:
        which = f"{entry.disk.node}, which has no serial number, is not the disk that it was"
    raise RestoreError(
        f"{path}: {which}, of which was changed: {told}. Connect that disk, and run `iopatterns restore` again. If it"
        f" has been without power since, its settings are back: then delete {path}."
    )


def _is(found: Disk, noted: Disk) -> bool:
    return (found.serial, found.model, found.size_bytes) == (noted.serial, noted.model, noted.size_bytes)


def is_undone_by_reboot(entry: JournalEntry) -> bool:
    """Return whether a restart of the machine has undone all that is noted: the kernel's settings begin anew then."""
    return entry.boot != _boot() and not set(entry.settings) & set(disk_settings.DISK_SETTINGS)


def restore_entry(path: Path, entry: JournalEntry, on: Disk) -> list[str]:
    """Set on a disk, whose lock is held, what is noted, in the order in which it was changed; return what was done.

    In that order since a scheduler brings values of its own, and WCE the kernel's view, which are put right after
    them. After a restart of the machine, or where the disk has come back under another name, the kernel has set its
    queue up anew, and udev's rules with it: that is left so. What a disk keeps itself outlasts a restart without a loss
    of power, and is put back. A signal to stop waits until all is done. Raises RestoreError once all is tried that can
    be; the journal stays then.
    """
    anew = entry.boot != _boot() or on.device != entry.disk.device
    told, problems = [], []
    with signals.stop_signals_blocked():
        for setting, value in entry.settings.items():
            what = f"{setting} of {on.node}"
            if anew and setting in queue_settings.QUEUE_SETTINGS:
                told.append(f"the kernel has set {what} up anew since it was changed; left as it is")
            elif problem := _set(on, setting, value):
                problems.append(
                    f"{what} could not be set back to {value}: {problem}. As root: {_by_hand(on, setting, value)},"
                    f" then delete {path}."
                )
            else:
                told.append(f"put back {what}: {value}")
        if problems:
            raise RestoreError("\n".join(problems))
        path.unlink(missing_ok=True)
    return told


def _set(on: Disk, setting: str, value: SettingValue) -> str:
    """Set what is noted, unless it is so: a disk that refused a value refuses to have it put back too.

    Returns what is in the way, nothing where it is so.
    """
    if setting in queue_settings.QUEUE_SETTINGS:
        return queue_settings.restore_attribute(on.device, setting, value)
    step = disk_settings.set_on_disk(on.node, setting, int(value))
    if setting == "WCE" and step.taken:
        disk_settings.align_kernel_write_cache(
            on.node
        )  # something else may have set it back, of which the kernel knows nothing
    return "" if step.taken else step.reason


def _by_hand(on: Disk, setting: str, value: SettingValue) -> str:
    if setting in queue_settings.QUEUE_SETTINGS:
        return f"echo {value} > {queue_settings.attribute_path(on.device, setting)}"
    return disk_settings.manual_command(on.node, setting, int(value))


def _boot() -> str:
    """Return the kernel's name for the time since the machine started."""
    return machine.read_kernel_file("/proc/sys/kernel/random/boot_id") or ""
