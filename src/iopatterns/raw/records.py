"""The types of metadata files: specifications of cells, records of repetitions.

A raw file stores what fio printed in one repetition of a cell. Its metadata file says how the raw file was made.

The types are dictionaries, not classes, because a specification is hashed as the JSON text that it was read from,
including the keys of other versions of this package. `files.decode_json` checks the types at runtime. The page
``docs/raw-files.md`` describes each key.
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
    """The drive of a cell: the keys that all kinds of drive have.

    Attributes:
        name: The name of the drive in the configuration.
        kind: ``twin`` (simulated drive), ``file``, ``block``, or another kind that only archives contain.
        file_size_bytes: How much of the drive is read and written.
    """

    name: str
    kind: str
    file_size_bytes: int


class TwinSpecification(DriveSpecification):
    """A simulated drive (kind ``twin``).

    Attributes:
        model: The name of the drive's model file.
        model_digest: The SHA-256 of everything in the model and in `set` that can change what the drive does.
        set: The changed parameters of the model, by name.
    """

    model: str
    model_digest: str
    set: NotRequired[Mapping[str, str]]


class FileSpecification(DriveSpecification):
    """A file on a mounted disk (kind ``file``).

    Attributes:
        path: The path of the file as configured.
        tune: The names of the disk's settings that a cell may change.
    """

    path: str
    tune: NotRequired[Sequence[str]]


class Precondition(TypedDict):
    """How a disk is brought into a known state before it is measured.

    Attributes:
        mode: ``fill`` (write once, sequentially) or ``steady`` (then also write randomly until the rate is steady).
        round_ms: The duration of one round of random writes.
    """

    mode: str
    round_ms: int


class BlockSpecification(DriveSpecification):
    """A disk, given by its block device (kind ``block``).

    Attributes:
        path: The path of the block device as configured.
        serial: The serial number that the disk must report.
        model: The model that the disk must report, if configured.
        size: The size that the disk must have, if configured: a number of bytes, or a text with a unit.
        precondition: How the disk is prepared before it is measured, if requested.
        tune: The names of the disk's settings that a cell may change.
    """

    path: str
    serial: str
    model: NotRequired[str]
    size: NotRequired[str | int]
    precondition: NotRequired[Precondition]
    tune: NotRequired[Sequence[str]]


class CallTrace(TypedDict):
    """A recording of a program's system calls, and the part of it that a cell replays.

    The cell replays the requests of one process to some of the files.

    Attributes:
        path: Path of the recording.
        only: Pattern of the paths of these files.
        process: Number of this process.
        sha256: SHA-256 of the replayed requests. It does not depend on the other requests in the recording.
    """

    path: str
    only: str
    process: int
    sha256: str


class Replay(TypedDict):
    """The phase of a block trace that a cell replays instead of running fio.

    A block trace lists requests to a drive with their times. A phase is a named part of it. The user gives the trace,
    or the run itself records one.

    Attributes:
        trace: Path of the trace.
        phase: Name of the phase. ``NAME*`` selects all phases whose name begins with NAME.
        sha256: SHA-256 of a trace that the user gives. Absent if the run records the trace.
        made_of: SHA-256 of everything that determines a trace that the run records. Absent if the user gives the trace.
        depth: Number of requests to keep outstanding. If this key is given, the times in the trace are ignored.
        latencies: Whether to store latencies over time.
        blocks_over_time: Number of equally spaced times at which to count the valid pages of all flash blocks.
        blocks_every_ms: Interval at which to count the valid pages of all flash blocks. The last of these counts
            replaces the count at the end of the phase.
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
    """Everything that can change what is measured in a cell, in canonical units.

    The SHA-256 of this dictionary identifies the cell.

    Attributes:
        protocol: A number that is raised when the package changes what it asks fio to do.
        runtime_ms: The duration of a repetition.
        warmup_ms: How long the workload runs before the first repetition; 0 for none.
        seed: The ``seed`` of config/config.yaml.
        drive: The drive, as a dictionary of the type for its kind.
        fio: The fio options of the workload. Sizes are in bytes, durations in µs.
        iolog: The key ``sha256`` with the checksum of the fio I/O log that the cell replays. Absent without a log.
        calls: The system calls that the cell replays. Absent without any.
        replay: The block trace that the cell replays. Absent without a trace.
        settings: The wanted drive settings by name. Absent without any.
    """

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

    Attributes:
        model: The model name.
        serial: The serial number.
        firmware: The firmware version.
        size_bytes: The size of the drive.
        rotational: Whether the drive is a hard disk.
        logical_block_bytes: The size of a logical block.
        scheduler: The I/O scheduler in use.
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

    Attributes:
        device: The kernel's name of the disk, such as ``sda``. None if it is unknown.
    """

    device: str | None


class OpenedTarget(TypedDict):
    """The disk or file that was opened for a measurement.

    Attributes:
        path: The path with symbolic links resolved.
        size_bytes: The size; None if unknown.
        number: The device number of a disk, such as ``8:16``. Absent for a file.
        file_system_number: The device number of a file's file system. Absent for a disk.
        inode: The inode of a file. Absent for a disk.
    """

    path: str
    size_bytes: int | None
    number: NotRequired[str]
    file_system_number: NotRequired[str]
    inode: NotRequired[int]


class PreconditioningRecord(TypedDict):
    """How a disk was preconditioned: filled, and then possibly written in rounds.

    Only the mode ``steady`` has rounds of random writes and the keys about them. The disk is steady if the IOPS of its
    last five rounds vary little.

    Attributes:
        mode: ``fill`` or ``steady``.
        size_bytes: The size of the part that was written, from the start of the disk.
        round_ms: The duration of a round.
        rounds: The IOPS of each round.
        steady: Whether the last five rounds met SNIA's limits for steady state.
        excursion: The range of the last five rounds, divided by their mean.
        rise: The rise of the best linear fit through the last five rounds, divided by their mean.
    """

    mode: str
    size_bytes: int
    round_ms: NotRequired[int]
    rounds: NotRequired[list[float]]
    steady: NotRequired[bool]
    excursion: NotRequired[float]
    rise: NotRequired[float]


class DriveIdentity(DriveFacts):
    """The drive in a metadata file. Some keys exist only for some kinds of drive.

    Attributes:
        name: The name of the drive in the configuration.
        kind: ``twin`` (simulated drive), ``file`` or ``block``.
        file_size_bytes: How much of the drive is read and written.
        twin: Simulated drives: the name of the model file.
        set: Simulated drives: the changed parameters of the model, if any.
        model_digest: Simulated drives: the SHA-256 of everything in model and parameters that can change what the drive
            does.
        device: Real drives: the kernel's name of the disk, such as ``sda``; None if it is unknown.
        path: Real drives: the path as configured.
        opened: Real drives: the file or disk that was opened. None if none was.
        file_system: Kind ``file``: the type of the file system, such as ``ext4``.
        preconditioned: Kind ``block``: how the disk was preconditioned; None if it was not.
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
    """The health of a real drive, as smartctl or nvme reports it.

    A value that the drive does not report is None. If nothing can be read, the only key is ``not available``, with the
    reason.

    Attributes:
        program: The program that read the health, ``smartctl`` or ``nvme``.
        temperature_c: The temperature.
        warning_c: The temperature from which the drive warns.
        critical_c: The temperature from which the drive reports a critical state.
        passed: The drive's own SMART assessment.
        critical_warning: NVMe's critical-warning bits.
        media_errors: The number of media errors so far.
        overheated: The sum of several NVMe counters: the minutes in which the drive was too hot, and how often it was
            slowed down to cool. The sum rises if the drive overheats.
        firmware: The firmware version.
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
    """The state of a disk's write cache, according to the disk and to the kernel.

    Attributes:
        drive: 1 if the disk reports that its cache is on, 0 if off, None if unknown.
        kernel: ``write back`` (the kernel sends flushes) or ``write through`` (it sends none); None if unknown.
    """

    drive: int | None
    kernel: int | str | None


class MachineFacts(TypedDict):
    """The properties of a machine that stay constant during a run.

    Attributes:
        kernel: System, release and architecture, such as ``Linux 6.1.0 x86_64``.
        cpu_model: The model name of the CPU.
        cpu_count: The number of logical CPUs.
        memory_bytes: The size of the main memory.
    """

    kernel: str
    cpu_model: str | None
    cpu_count: int | None
    memory_bytes: int | None


class LoadSnapshot(TypedDict):
    """The load of a machine at one time.

    Attributes:
        memory_available_bytes: The available memory.
        load_average: The load averages over 1, 5 and 15 minutes.
        cpu_governor: The frequency governor of the first CPU; None if it has none.
    """

    memory_available_bytes: int | None
    load_average: list[float]
    cpu_governor: str | None


# ---- How a raw file was made


class CellMetadata(TypedDict):
    """The metadata that all repetitions of a cell share if they are measured together.

    Attributes:
        specification: Everything that can change what is measured.
        drive: The drive's name, kind and properties.
        tuning: The result of setting each drive setting of the cell.
        host: The name of the host that measured the cell. Files of earlier versions lack it.
        fio_version: The output of ``fio --version``. Absent if a setting did not take effect, because the cell is not
            measured then.
        simulator: Simulated drives: the SHA-256 of the simulator's sources. Files of earlier versions lack it.
    """

    specification: Specification
    drive: DriveIdentity
    tuning: Sequence[TuningStep]
    host: NotRequired[str]
    fio_version: NotRequired[str]
    simulator: NotRequired[str]


class RepetitionMetadata(CellMetadata):
    """The metadata of one repetition of a cell.

    If a setting did not take effect, the repetition was not measured. It then has only the keys of `CellMetadata` and
    `execution`.

    Attributes:
        execution: The number of the repetition, from 1.
        randseed: fio's seed.
        command: The command line.
        machine: The constant properties of the machine.
        before: The load of the machine before the start.
        started: The time of the start (UTC, ISO 8601).
        ended: The time of the end (UTC, ISO 8601).
        wall_s: The wall-clock duration.
        counters: Simulated drives: the drive's counters at the end, by name.
        health: Real drives: the health ``before`` the first repetition of the cell and ``after`` this repetition.
        write_cache: Real drives: the state of the write cache.
        held_up: Real drives: what disturbed earlier attempts at this repetition, a sentence for each.
        others_bytes: Real drives: how many bytes other programs read or wrote on the disk during the repetition; None
            if unknown.
        doubts: Real drives: what makes the result doubtful, such as "a busy machine".
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
    """The checksum and size of the raw file that a metadata file describes.

    Attributes:
        sha256: The SHA-256 of the raw file.
        size_bytes: The size of the raw file.
    """

    sha256: str
    size_bytes: int


class MetadataFile(RepetitionMetadata):
    """The content of a metadata file: the metadata of a repetition, and two checksums.

    Attributes:
        raw: The checksum and size of the raw file.
        sha256: The SHA-256 of all lines of the metadata file except the line with this key.
            `metadata_files.write_metadata` adds it.
    """

    raw: RawFile
    sha256: NotRequired[str]
