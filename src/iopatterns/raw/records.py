"""The types of metadata files (sidecars): the specification of a cell, and the course of a repetition.

The types are dictionaries, not classes: a specification is hashed as the JSON text that it was read from, with keys of
other versions of this package. `files.decode_json` checks them at runtime. `docs/raw-files.md` describes each key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from iopatterns.raw.tuning_steps import StepRecord

# ---- What a cell is

# A workload's options, and the settings of a drive that a cell asks for, by name. Which there are, and what type and
# unit each has, is declared once, in `configuration.factors`.
FioOptions = Mapping[str, Any]
Settings = Mapping[str, int | str]


class DriveSpecification(TypedDict):
    """A drive. ``kind`` names one of the types below, or a kind that an archive brings."""

    name: str
    kind: str
    file_size_bytes: int


class TwinSpecification(DriveSpecification):
    """A simulated drive: its model file, the parameters that are set, and the digest of both together."""

    model: str
    model_digest: str
    set: NotRequired[Mapping[str, str]]


class FileSpecification(DriveSpecification):
    """A file on a mounted disk; ``tune`` names the settings of the disk that may be set, if the cell sets any."""

    path: str
    tune: NotRequired[Sequence[str]]


class Precondition(TypedDict):
    """How a disk is brought into a known state before it is measured."""

    mode: str
    round_ms: int


class BlockSpecification(DriveSpecification):
    """A disk: its path and its identity; ``tune`` as in `FileSpecification`."""

    path: str
    serial: str
    model: NotRequired[str]
    size: NotRequired[str | int]
    precondition: NotRequired[Precondition]
    tune: NotRequired[Sequence[str]]


class IologChecksum(TypedDict):
    """The log of the user's own that a cell replays."""

    sha256: str


class CallTrace(TypedDict):
    """The user's own trace of calls that a cell replays: its path, and which files and process of it count.

    ``sha256`` is that of the requests made of them, so that what else changes in the file changes nothing.
    """

    path: str
    only: str
    process: int
    sha256: str


class Replay(TypedDict):
    """The phase of a trace that a cell replays in place of running fio, by the trace's path and SHA-256.

    Of one that is recorded in the same run, ``made_of`` is the SHA-256 of all that it is made of; its raw file then has
    both. A ``phase`` that ends with ``*`` is each that begins so. With ``depth`` so many requests are outstanding, and
    the trace's times count for nothing. With ``latencies`` what became of them over time is kept, and with
    ``blocks_over_time`` how many blocks had how many valid pages at so many times. With ``blocks_every_ms`` blocks are
    looked at so often alone, and not at the end.
    """

    trace: str
    phase: str
    sha256: NotRequired[str]
    made_of: NotRequired[str]
    depth: NotRequired[int]
    latencies: NotRequired[bool]
    blocks_over_time: NotRequired[int]
    blocks_every_ms: NotRequired[int]


class Specification(TypedDict):
    """All that can change what is measured in a cell, in canonical units, and nothing else."""

    protocol: int
    runtime_ms: int
    warmup_ms: int
    seed: int
    drive: DriveSpecification
    fio: FioOptions
    iolog: NotRequired[IologChecksum]
    calls: NotRequired[CallTrace]
    replay: NotRequired[Replay]
    settings: NotRequired[Settings]


# ---- What drive and machine say of themselves


class DriveFacts(TypedDict):
    """What a drive says of itself whatever its kind; None for what it does not say."""

    model: str | None
    serial: str | None
    firmware: str | None
    size_bytes: int | None
    rotational: bool | None
    logical_block_bytes: int | None
    scheduler: str | None


class DiskFacts(DriveFacts):
    """What the kernel says of a disk, by its own name of it; None for what it does not say."""

    device: str | None


class OpenedTarget(TypedDict):
    """What was opened: its path, symbolic links followed; of a disk its device number, of a file where it lies."""

    path: str
    size_bytes: int | None
    number: NotRequired[str]
    file_system_number: NotRequired[str]
    inode: NotRequired[int]


class PreconditioningRecord(TypedDict):
    """What was done to a disk before it was measured: filled, and written at random in rounds (their IOPS)."""

    mode: str
    size_bytes: int
    round_ms: NotRequired[int]
    rounds: NotRequired[list[float]]
    steady: NotRequired[bool]
    excursion: NotRequired[float]
    rise: NotRequired[float]


class DriveIdentity(DriveFacts):
    """What a sidecar says of the drive. What only some kinds have is not required."""

    name: str
    kind: str
    file_size_bytes: int
    # of twins: the name of the model file, other values of its parameters where there are any, and the digest of both
    twin: NotRequired[str]
    set: NotRequired[Mapping[str, str]]
    model_digest: NotRequired[str]
    # of real drives
    device: NotRequired[str | None]
    path: NotRequired[str]
    opened: NotRequired[OpenedTarget | None]
    file_system: NotRequired[str | None]
    preconditioned: NotRequired[PreconditioningRecord | None]


_NoHealth = TypedDict("_NoHealth", {"not available": str}, total=False)


class Health(_NoHealth, total=False):
    """The health of a real drive, None for what it does not report; or the reason why it is not available.

    `measuring.health` describes each key.
    """

    program: str
    temperature_c: int | None
    warning_c: int | None
    critical_c: int | None
    passed: bool | None
    critical_warning: int | None
    media_errors: int | None
    overheated: int | None
    firmware: str | None


class HealthBeforeAfter(TypedDict):
    """A drive's health before its cell's first execution, and after this one."""

    before: Health
    after: Health


class WriteCache(TypedDict):
    """Whether a write cache is on by what the drive says (0, 1), and by the kernel's view; None for neither."""

    drive: int | None
    kernel: int | str | None


class MachineFacts(TypedDict):
    """What of a machine stays the same during a run."""

    kernel: str
    cpu_model: str | None
    cpu_count: int | None
    memory_bytes: int | None


class LoadSnapshot(TypedDict):
    """What of a machine changes; the load averages are those of 1, 5 and 15 minutes."""

    memory_available_bytes: int | None
    load_average: list[float]
    cpu_governor: str | None


# ---- How it came about


class CellMetadata(TypedDict):
    """What the sidecars of all executions of a cell that are measured together share.

    ``drive`` is what the drive says of itself. ``fio_version`` is missing where the drive did not take the settings.
    """

    specification: Specification
    drive: DriveIdentity
    tuning: Sequence[StepRecord]
    fio_version: NotRequired[str]


class RepetitionMetadata(CellMetadata):
    """What is known of one execution; ``execution`` alone where fio did not run."""

    execution: int
    randseed: NotRequired[int]
    command: NotRequired[list[str]]
    machine: NotRequired[MachineFacts]
    before: NotRequired[LoadSnapshot]
    started: NotRequired[str]
    ended: NotRequired[str]
    wall_s: NotRequired[float]
    # of twins: what the drive has counted, by the names of src/twin/core/counters.h
    counters: NotRequired[Mapping[str, int]]
    # of real drives
    health: NotRequired[HealthBeforeAfter]
    write_cache: NotRequired[WriteCache]
    held_up: NotRequired[Sequence[str]]
    others_bytes: NotRequired[int | None]
    doubts: NotRequired[Sequence[str]]


class RawFile(TypedDict):
    """The raw file beside which a sidecar lies."""

    sha256: str
    size_bytes: int


class MetadataFile(RepetitionMetadata):
    """A whole sidecar. ``sha256`` is that of all its lines but its own; `sidecars.write_sidecar` adds it."""

    raw: RawFile
    sha256: NotRequired[str]
