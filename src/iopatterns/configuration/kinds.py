"""The kinds of drive in config/drives.yaml, with their keys and properties.

The kinds are ``twin`` (a simulated drive), ``file``, ``block`` (a whole disk) and ``archive``. Outside this module and
`measuring/drives/`, code depends on the properties of a kind, not on its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from iopatterns.raw.archive import ArchiveContents

# ---- Entries of config/drives.yaml, by kind


class _Described(TypedDict):
    description: NotRequired[str]  # a note for people, without effect


class TwinEntry(_Described):
    """The entry of a simulated drive in the configuration, of the kind ``twin``.

    An example is ``{"kind": "twin", "model": "c400"}``.

    Attributes:
        kind: Always ``twin``.
        model: The name of the drive's model, a file in data/twins without its suffix.
        set: Values that replace parameters of the model, by name of the parameter, such as
            ``{"ftl.initial_state": "random"}``.
    """

    kind: Literal["twin"]
    model: str
    set: NotRequired[Mapping[str, str | int | float | bool]]


class FileEntry(_Described):
    """The entry of a drive that is a file on a mounted disk, in config/drives.yaml.

    The package creates the file. It refuses a file that it has not created.

    Attributes:
        kind: Always ``file``.
        path: The file, such as ``/mnt/ssd/iopatterns.bin``.
        host: The name of the host that has the disk, for a workflow on several hosts.
        tune: The names of the settings of the disk that studies may change, such as ``scheduler``.
    """

    kind: Literal["file"]
    path: str
    host: NotRequired[str]
    tune: NotRequired[Sequence[str]]


class BlockEntry(_Described):
    """The entry of a drive that is a whole disk, in config/drives.yaml.

    Attributes:
        kind: Always ``block``.
        path: The block device, preferably in /dev/disk/by-id.
        host: The name of the host that has the disk, for a workflow on several hosts.
        serial: The serial number that the disk must report.
        model: The model name that the disk must report.
        size: The size that the disk must report: bytes, or text with a unit.
        tune: The names of the settings of the disk that studies may change, such as ``WCE``.
        destroy: The serial number again, as consent to overwrite the disk. Without this key, only reading workloads
            run.
        expendable: Content of the disk that may be overwritten: types of file systems or other signatures, such as
            ``ext4``, and ``data`` for data without a signature.
    """

    kind: Literal["block"]
    path: str
    host: NotRequired[str]
    serial: str
    model: NotRequired[str]
    size: NotRequired[str | int]
    tune: NotRequired[Sequence[str]]
    destroy: NotRequired[str]
    expendable: NotRequired[Sequence[str]]


class ArchiveEntry(_Described):
    """The entry of a drive that was measured elsewhere, in config/drives.yaml.

    Attributes:
        kind: Always ``archive``.
        path: The archive with the raw files (JSON output of fio) of the drive, written by `iopatterns archive`.
    """

    kind: Literal["archive"]
    path: str


DriveEntry = TwinEntry | FileEntry | BlockEntry | ArchiveEntry


class ResolvedTwin(TwinEntry):
    """The entry of a simulated drive, with the digest of its model.

    The values of ``set`` are text, in the shortest form that model files accept. If the digest changes, all
    measurements of the drive are made again.

    Attributes:
        model_digest: SHA-256 of the model, after the values of ``set`` have replaced parameters of the model.
    """

    model_digest: str


class ResolvedArchive(ArchiveEntry):
    """The entry of an archived drive, with the contents of its archive.

    A cell is one configuration that was measured: the drive, its settings and a workload. The contents determine the
    cells of the drive.

    Attributes:
        contents: The list of the cells in the archive, with their checksums.
    """

    contents: "ArchiveContents"


ResolvedEntry = ResolvedTwin | FileEntry | BlockEntry | ResolvedArchive

# ---- Kinds


@dataclass(frozen=True)
class DriveKind:
    """A kind of drive, with the properties that other code depends on.

    The kinds are ``twin`` (a simulated drive), ``file``, ``block`` (a whole disk) and ``archive`` (a drive measured
    elsewhere).

    Attributes:
        name: The name of the kind in config/drives.yaml.
        entry: The type of an entry of this kind, such as `TwinEntry`.
        hint: A description for messages.
        is_simulated: Whether the drive is simulated. Its requests take virtual time only, and it is in the same state
            before each repetition of a measurement.
        is_archived: Whether the drive was measured elsewhere. Its raw files (JSON output of fio) are unpacked instead
            of measured.
        is_whole_disk: Whether the drive is a block device.
        is_filled: Whether the measured part of the drive is always written once before the first measurement.
        is_preconditioned: Whether the measured part of the drive is written before the first measurement if the
            configuration demands it (``precondition``). It is written once, or until the drive is in a steady state.
    """

    name: str
    entry: type[Any]
    hint: str
    is_simulated: bool = False
    is_archived: bool = False
    is_whole_disk: bool = False
    is_filled: bool = False
    is_preconditioned: bool = False

    @property
    def is_real(self) -> bool:
        """Whether the drive is hardware that is measured on a host.

        It is true for whole disks and for files on a disk, and false for simulated and archived drives. Other activity
        of the host disturbs a real drive.
        """
        return not (self.is_simulated or self.is_archived)

    @property
    def needed(self) -> list[str]:
        """The keys, such as ``path``, that an entry of this kind must have.

        The key ``kind``, which every entry has, is left out.
        """
        return [key for key in self.entry.__annotations__ if key in self.entry.__required_keys__ and key != "kind"]

    @property
    def allowed(self) -> frozenset[str]:
        """All keys that an entry of this kind may have, including ``kind``."""
        return frozenset(self.entry.__annotations__)


DRIVE_KINDS: Mapping[str, DriveKind] = {
    kind.name: kind
    for kind in (
        DriveKind("twin", TwinEntry, "a simulated drive", is_simulated=True),
        DriveKind("file", FileEntry, "a file on a mounted disk, made by this package", is_filled=True),
        DriveKind("block", BlockEntry, "a whole disk", is_whole_disk=True, is_preconditioned=True),
        DriveKind(
            "archive", ArchiveEntry, "a drive measured elsewhere, packed with `iopatterns archive`", is_archived=True
        ),
    )
}

# A raw file may come from another version, with a kind that is not in the table. Compare its kind with these names.
SIMULATED_KINDS = tuple(name for name, kind in DRIVE_KINDS.items() if kind.is_simulated)
WHOLE_DISK_KINDS = tuple(name for name, kind in DRIVE_KINDS.items() if kind.is_whole_disk)


def kind_definitions() -> dict[str, Any]:
    """Return the JSON schema for the names of drive kinds in config/drives.yaml.

    Returns:
        A dictionary with the single key ``kind``. Its value is the schema: the valid names (``enum``), and their
            description for messages (``x-hint``).
    """
    *first, last = (f"{name} ({kind.hint})" for name, kind in DRIVE_KINDS.items())
    return {"kind": {"enum": list(DRIVE_KINDS), "x-hint": f"{', '.join(first)} or {last}"}}


def kind_of(entry: DriveEntry) -> DriveKind:
    """Return the kind of a drive.

    Args:
        entry: The configuration entry of the drive, such as ``{"kind": "twin", "model": "c400"}``.
    """
    return DRIVE_KINDS[entry["kind"]]


# ---- Type guards. A resolved entry remains a resolved entry.


def is_simulated(entry: DriveEntry) -> "TypeIs[TwinEntry]":
    """Return whether the configuration entry of a drive describes a simulated drive."""
    return kind_of(entry).is_simulated


def is_archived(entry: DriveEntry) -> "TypeIs[ArchiveEntry]":
    """Return whether an entry describes a drive that was measured elsewhere.

    The measurements of such a drive come from an archive, see `ArchiveEntry`.
    """
    return kind_of(entry).is_archived


def is_real(entry: DriveEntry) -> "TypeIs[FileEntry | BlockEntry]":
    """Return whether an entry describes a real drive: a whole disk, or a file on one.

    Simulated and archived drives are not real drives.
    """
    return kind_of(entry).is_real


def is_whole_disk(entry: DriveEntry) -> "TypeIs[BlockEntry]":
    """Return whether an entry describes a whole disk, as opposed to a file on a disk.

    The result is also False for simulated and archived drives.
    """
    return kind_of(entry).is_whole_disk


def host_of(entry: DriveEntry) -> str:
    """Return the name of the host that has a drive, such as ``node7``.

    The name is empty if the entry of the drive names no host, and for simulated and archived drives.
    """
    return entry.get("host", "") if is_real(entry) else ""
