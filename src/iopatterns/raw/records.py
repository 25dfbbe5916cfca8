"""The types of metadata files: specifications of cells, records of repetitions.

Each raw file, which holds what fio printed in one repetition of a cell, has a metadata file that says how it was made.

The types are dictionaries, not classes: a specification is hashed as the JSON text that it was read from, including the
keys of other versions of this package. `files.decode_json` checks the types at runtime. `docs/raw-files.md` describes
each key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NotRequired, TypedDict

from iopatterns.raw.tuning_steps import TuningStep

# ---- The specification of a cell

# The fio options of a workload, and the settings of a drive, by name. `configuration.factors` declares the names, types
# and units.
FioOptions = Mapping[str, Any]
Settings = Mapping[str, int | str]


class DriveSpecification(TypedDict):
    """A drive of any kind.

    ``kind`` names one of the types below, or a kind that only archives contain.
    """

    name: str
    kind: str
    file_size_bytes: int


class TwinSpecification(DriveSpecification):
    """A simulated drive: its model file, changed parameters, and the digest of both."""

    model: str
    model_digest: str
    set: NotRequired[Mapping[str, str]]


class FileSpecification(DriveSpecification):
    """A file on a mounted disk.

    ``tune`` names the settings of the disk that a cell may change.
    """

    path: str
    tune: NotRequired[Sequence[str]]


class Precondition(TypedDict):
    """How a disk is brought into a known state before it is measured.

    ``mode`` is ``fill`` or ``steady``.
    """

    mode: str
    round_ms: int


class BlockSpecification(DriveSpecification):
    """A disk: its path and its identity.

    ``tune`` names the settings of the disk that a cell may change.
    """

    path: str
    serial: str
    model: NotRequired[str]
    size: NotRequired[str | int]
    precondition: NotRequired[Precondition]
    tune: NotRequired[Sequence[str]]


class CallTrace(TypedDict):
    """The selected requests of the user's system call trace that a cell replays.

    Attributes:
        path: Path of the trace.
        only: Pattern that the paths of the selected files match.
        process: Number of the selected process.
        sha256: SHA-256 of the requests that result. Other changes of the trace do not change it.
    """

    path: str
    only: str
    process: int
    sha256: str


class Replay(TypedDict):
    """The phase of a block trace that a cell replays instead of running fio.

    Attributes:
        trace: Path of the trace.
        phase: Name of the phase. ``NAME*`` selects all phases whose name begins with NAME.
        sha256: SHA-256 of the trace. In the specification, absent for a trace that the same run records.
        made_of: SHA-256 of everything that a recorded trace is made of.
        depth: Number of requests to keep outstanding. The times in the trace are ignored then.
        latencies: Whether to store latencies over time.
        blocks_over_time: Number of equally spaced times at which to count the valid pages of all flash blocks.
        blocks_every_ms: Interval at which to count them instead. The last count replaces the one at the end.
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
    """Everything that can change what is measured in a cell, in canonical units."""

    protocol: int
    runtime_ms: int
    warmup_ms: int
    seed: int
    drive: DriveSpecification
    fio: FioOptions
    iolog: NotRequired[Mapping[str, str]]  # SHA-256 of the user's I/O log
    calls: NotRequired[CallTrace]
    replay: NotRequired[Replay]
    settings: NotRequired[Settings]


# ---- What drive and machine report


class DriveFacts(TypedDict):
    """What drives of all kinds report about themselves.

    A value that the drive does not report is None.
    """

    model: str | None
    serial: str | None
    firmware: str | None
    size_bytes: int | None
    rotational: bool | None
    logical_block_bytes: int | None
    scheduler: str | None


class DiskFacts(DriveFacts):
    """What the kernel reports about a disk.

    ``device`` is the kernel's name, such as ``sda``.
    """

    device: str | None


class OpenedTarget(TypedDict):
    """The device or file that was opened; ``path`` has symbolic links resolved.

    ``number`` is the device number of a disk. ``file_system_number`` and ``inode`` identify a file.
    """

    path: str
    size_bytes: int | None
    number: NotRequired[str]
    file_system_number: NotRequired[str]
    inode: NotRequired[int]


class PreconditioningRecord(TypedDict):
    """How a disk was preconditioned: filled, and possibly written in rounds.

    ``rounds`` has the IOPS of each round; `measuring.steadiness` defines the last three keys.
    """

    mode: str
    size_bytes: int
    round_ms: NotRequired[int]
    rounds: NotRequired[list[float]]
    steady: NotRequired[bool]
    excursion: NotRequired[float]
    rise: NotRequired[float]


class DriveIdentity(DriveFacts):
    """The drive in a metadata file.

    Keys that only some kinds of drive have are not required.
    """

    name: str
    kind: str
    file_size_bytes: int
    # simulated drives: name of the model file, changed parameters if any, and the digest of both
    twin: NotRequired[str]
    set: NotRequired[Mapping[str, str]]
    model_digest: NotRequired[str]
    # real drives
    device: NotRequired[str | None]
    path: NotRequired[str]
    opened: NotRequired[OpenedTarget | None]
    file_system: NotRequired[str | None]
    preconditioned: NotRequired[PreconditioningRecord | None]


_NoHealth = TypedDict("_NoHealth", {"not available": str}, total=False)


class Health(_NoHealth, total=False):
    """The health of a real drive, or only the key ``not available`` with the reason.

    A value that the drive does not report is None. `measuring.health.read_health` describes each key.
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


class WriteCache(TypedDict):
    """The state of a disk's write cache; None if unknown.

    The drive reports 0 or 1; the kernel has a view of its own.
    """

    drive: int | None
    kernel: int | str | None


class MachineFacts(TypedDict):
    """The properties of a machine that stay constant during a run."""

    kernel: str
    cpu_model: str | None
    cpu_count: int | None
    memory_bytes: int | None


class LoadSnapshot(TypedDict):
    """The load of a machine at one time; ``load_average`` is over 1, 5 and 15 minutes."""

    memory_available_bytes: int | None
    load_average: list[float]
    cpu_governor: str | None


# ---- How a raw file was made


class CellMetadata(TypedDict):
    """The metadata that all repetitions of a cell share if they are measured together.

    ``fio_version`` is missing if the drive rejected the settings, because fio did not run then.
    """

    specification: Specification
    drive: DriveIdentity
    tuning: Sequence[TuningStep]
    fio_version: NotRequired[str]


class RepetitionMetadata(CellMetadata):
    """The metadata of one repetition, whose number is ``execution``.

    The other keys require that fio ran.
    """

    execution: int
    randseed: NotRequired[int]
    command: NotRequired[list[str]]
    machine: NotRequired[MachineFacts]
    before: NotRequired[LoadSnapshot]
    started: NotRequired[str]
    ended: NotRequired[str]
    wall_s: NotRequired[float]
    # simulated drives: the drive's counters, by the names in src/twin/core/counters.h
    counters: NotRequired[Mapping[str, int]]
    # real drives
    health: NotRequired[Mapping[str, Health]]  # "before" the cell and "after" this repetition
    write_cache: NotRequired[WriteCache]
    held_up: NotRequired[Sequence[str]]
    others_bytes: NotRequired[int | None]
    doubts: NotRequired[Sequence[str]]


class RawFile(TypedDict):
    """The checksum and size of the raw file that a metadata file describes."""

    sha256: str
    size_bytes: int


class MetadataFile(RepetitionMetadata):
    """The content of a metadata file.

    ``sha256`` is the SHA-256 of all lines except its own; `metadata_files.write_metadata` adds it.
    """

    raw: RawFile
    sha256: NotRequired[str]
