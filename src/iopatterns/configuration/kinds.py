"""The kinds of drive in config/drives.yaml, with keys and properties.

Only this module and `measuring/drives/` refer to a kind by its name.
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
    """A simulated drive.

    Attributes:
        model: The name of its model in data/twins.
        set: Values that replace parameters of the model.
    """

    kind: Literal["twin"]
    model: str
    set: NotRequired[Mapping[str, str | int | float | bool]]


class FileEntry(_Described):
    """A file on a mounted disk. The package creates and owns the file.

    Attributes:
        path: The file.
        host: The host that has the disk, for a workflow on several hosts.
        tune: The settings of the disk that studies may change.
    """

    kind: Literal["file"]
    path: str
    host: NotRequired[str]
    tune: NotRequired[Sequence[str]]


class BlockEntry(_Described):
    """A whole disk.

    Attributes:
        path: The block device.
        host: The host that has the disk, for a workflow on several hosts.
        serial: The serial number of the disk.
        model: The model of the disk.
        size: The size of the disk.
        tune: The settings of the disk that studies may change.
        destroy: The serial number again, as consent to overwrite the disk.
        expendable: The partitions and signatures that may be overwritten.
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
    """A drive that was measured elsewhere.

    Attributes:
        path: The archive with its raw files.
    """

    kind: Literal["archive"]
    path: str


DriveEntry = TwinEntry | FileEntry | BlockEntry | ArchiveEntry


class ResolvedTwin(TwinEntry):
    """A simulated drive with the digest of its model.

    The cells of the drive change when the digest does.

    The values of ``set`` are in the shortest text form of a model file.

    Attributes:
        model_digest: The digest of the model with the values of ``set``.
    """

    model_digest: str


class ResolvedArchive(ArchiveEntry):
    """An archived drive with the contents of its archive, which determine its cells.

    Attributes:
        contents: The contents.
    """

    contents: "ArchiveContents"


ResolvedEntry = ResolvedTwin | FileEntry | BlockEntry | ResolvedArchive

# ---- Kinds


@dataclass(frozen=True)
class DriveKind:
    """A kind of drive.

    Attributes:
        name: The name of the kind in config/drives.yaml.
        entry: The type of an entry of this kind.
        hint: A description for messages.
        is_simulated: Whether the drive is simulated. It then needs virtual time only, and each repetition finds it in
            the same state.
        is_archived: Whether the drive was measured elsewhere, so that its raw files are unpacked.
        is_whole_disk: Whether the path is a block device.
        is_filled: Whether the package writes the measured part of the drive once before the first measurement.
        is_preconditioned: Whether the package does so if the configuration asks for it, optionally until the drive is
            in a steady state.
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
        """Whether the drive belongs to this host.

        Other activity of the host disturbs such a drive.
        """
        return not (self.is_simulated or self.is_archived)

    @property
    def needed(self) -> list[str]:
        """The keys that an entry must have besides its kind."""
        return [key for key in self.entry.__annotations__ if key in self.entry.__required_keys__ and key != "kind"]

    @property
    def allowed(self) -> frozenset[str]:
        """All keys that an entry may have."""
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
    """Return the ``$defs`` for the schema of config/drives.yaml.

    The only key is ``kind``, the names of all kinds.
    """
    *first, last = (f"{name} ({kind.hint})" for name, kind in DRIVE_KINDS.items())
    return {"kind": {"enum": list(DRIVE_KINDS), "x-hint": f"{', '.join(first)} or {last}"}}


def kind_of(entry: DriveEntry) -> DriveKind:
    """Return the kind of a drive, from its entry."""
    return DRIVE_KINDS[entry["kind"]]


# ---- Type guards. A resolved entry remains a resolved entry.


def is_simulated(entry: DriveEntry) -> "TypeIs[TwinEntry]":
    """Return whether a drive is simulated."""
    return kind_of(entry).is_simulated


def is_archived(entry: DriveEntry) -> "TypeIs[ArchiveEntry]":
    """Return whether a drive was measured elsewhere."""
    return kind_of(entry).is_archived


def is_real(entry: DriveEntry) -> "TypeIs[FileEntry | BlockEntry]":
    """Return whether a drive belongs to this host.

    Simulated and archived drives do not.
    """
    return kind_of(entry).is_real


def is_whole_disk(entry: DriveEntry) -> "TypeIs[BlockEntry]":
    """Return whether a drive is a whole disk of this host."""
    return kind_of(entry).is_whole_disk


def host_of(entry: DriveEntry) -> str:
    """Return the name of the host that has a drive; empty if the entry names none."""
    return entry.get("host", "") if is_real(entry) else ""
