"""The kinds of drive that config/drives.yaml may name: what an entry of each says, and what others need to know of it.

Nothing outside this module and `measuring/drives/` knows a kind by its name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NotRequired, TypedDict

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from iopatterns.raw.archive import ArchiveContents

# ---- Entries of config/drives.yaml, by kind; further down `ResolvedEntry`, which is what `config.load` makes of them


class _Described(TypedDict):
    description: NotRequired[str]  # a note for people; nothing depends on it


class TwinEntry(_Described):
    """A simulated drive, by the name of its model in data/twins; ``set`` has other values of parameters of that."""

    kind: Literal["twin"]
    model: str
    set: NotRequired[Mapping[str, str | int | float | bool]]


class FileEntry(_Described):
    """A file of this package's own on a mounted disk; ``tune`` names the settings of that disk that a study may set.

    ``host`` names the host that has the disk, where a cluster of several runs the workflow.
    """

    kind: Literal["file"]
    path: str
    host: NotRequired[str]
    tune: NotRequired[Sequence[str]]


class BlockEntry(_Described):
    """A whole disk. ``destroy`` (the serial number again) and ``expendable`` consent to writing it.

    ``host`` as of `FileEntry`.
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
    """A drive that was measured elsewhere, by the file into which its raw files were packed."""

    kind: Literal["archive"]
    path: str


DriveEntry = TwinEntry | FileEntry | BlockEntry | ArchiveEntry


class ResolvedTwin(TwinEntry):
    """A twin with the digest of its model as it is set, so that its cells change when the drive does.

    The values under ``set`` are text here, as a model file has them in their shortest form.
    """

    model_digest: str


class ResolvedArchive(ArchiveEntry):
    """An archived drive with what its archive holds: that is what its cells are."""

    contents: "ArchiveContents"


ResolvedEntry = ResolvedTwin | FileEntry | BlockEntry | ResolvedArchive

# ---- The table


@dataclass(frozen=True)
class DriveKind:
    """One kind of drive.

    ``entry`` is what config/drives.yaml says of such a drive, ``hint`` what it is, in the words of a message.
    ``is_simulated``: it takes virtual time alone, and finds itself in the same state before each execution.
    ``is_archived``: it was measured elsewhere, and its raw files are unpacked. ``is_whole_disk``: its path is a device.
    ``is_filled``: the package writes all that is measured of it once before. ``is_preconditioned``: it does so where
    the configuration asks for it, and then may go on until the drive is in a steady state.
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
        """Whether such a drive is one of this machine, so that what else the machine does disturbs it."""
        return not (self.is_simulated or self.is_archived)

    @property
    def needed(self) -> list[str]:
        """The keys that an entry must have beside its kind."""
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

# Those of drives that are simulated, and of whole disks, by name. Raw files may come from elsewhere: what they call a
# kind need not be one.
SIMULATED_KINDS = tuple(name for name, kind in DRIVE_KINDS.items() if kind.is_simulated)
WHOLE_DISK_KINDS = tuple(name for name, kind in DRIVE_KINDS.items() if kind.is_whole_disk)


def kind_definitions() -> dict[str, Any]:
    """Return what the schema of config/drives.yaml has under its ``$defs``: ``kind``, one of their names."""
    *first, last = (f"{name} ({kind.hint})" for name, kind in DRIVE_KINDS.items())
    return {"kind": {"enum": list(DRIVE_KINDS), "x-hint": f"{', '.join(first)} or {last}"}}


def kind_with_key(key: str) -> DriveKind:
    """Return the first kind whose entries may have a key that others may not."""
    return next(kind for kind in DRIVE_KINDS.values() if key in kind.allowed)


def kind_of(entry: DriveEntry) -> DriveKind:
    """Return the kind of a drive by its entry."""
    return DRIVE_KINDS[entry["kind"]]


# ---- What an entry is, in a form that the type checker understands; what is resolved stays so


def is_simulated(entry: DriveEntry) -> "TypeIs[TwinEntry]":
    """Return whether a drive is simulated."""
    return kind_of(entry).is_simulated


def is_archived(entry: DriveEntry) -> "TypeIs[ArchiveEntry]":
    """Return whether a drive was measured elsewhere."""
    return kind_of(entry).is_archived


def is_real(entry: DriveEntry) -> "TypeIs[FileEntry | BlockEntry]":
    """Return whether a drive is one of this machine."""
    return kind_of(entry).is_real


def is_whole_disk(entry: DriveEntry) -> "TypeIs[BlockEntry]":
    """Return whether a drive is a whole disk of this machine."""
    return kind_of(entry).is_whole_disk


def host_of(entry: DriveEntry) -> str:
    """Return the name of the host that has a drive, nothing where its entry names none."""
    return entry.get("host", "") if is_real(entry) else ""
