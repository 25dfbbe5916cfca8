"""The types of metadata files, which record how raw files were made.

A cell is one configuration: a drive, its settings and a workload. A raw file contains the result of one repetition of a
cell, such as fio's JSON output. Its metadata file has the specification of the cell (everything that can change what is
measured), and a record of the repetition.

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
    """The drive of a cell, in the cell's specification: keys of all kinds of drive.

    A cell is one configuration: a drive, its settings and a workload.

    Attributes:
        name: The name of the drive in the configuration, such as ``px05smb040``.
        kind: ``twin`` (simulated drive), ``file``, ``block`` (whole disk), or another kind that only archives contain.
        file_size_bytes: The size of the part of the drive that is read and written.
    """

    name: str
    kind: str
    file_size_bytes: int


class TwinSpecification(DriveSpecification):
    """A simulated drive (kind ``twin``) in a cell's specification.

    The behaviour of a simulated drive is described by a model: a YAML file in data/twins with the drive's parameters.

    Attributes:
        model: The name of the model, such as ``px05smb040``.
        model_digest: The SHA-256 of everything in the model and in `set` that can change what the drive does.
        set: The values that replace values of the model, by parameter: ``{"flash.read_time": "60 us"}``. Absent if none
            is replaced.
    """

    model: str
    model_digest: str
    set: NotRequired[Mapping[str, str]]


class FileSpecification(DriveSpecification):
    """A file on a mounted disk (kind ``file``) in a cell's specification.

    Attributes:
        path: The path of the file, as configured.
        tune: The names of the disk's settings that a cell may change, such as ``scheduler``. Absent if no such list is
            configured.
    """

    path: str
    tune: NotRequired[Sequence[str]]


class Precondition(TypedDict):
    """How a disk is written before it is measured, to bring it into a known state.

    Attributes:
        mode: ``fill`` or ``steady``. ``fill`` writes the measured part of the disk once, sequentially. ``steady`` does
            so too, and then writes at random, in rounds, until the rate is steady or a limit is reached.
        round_ms: The duration of a round of random writes, in milliseconds.
    """

    mode: str
    round_ms: int


class BlockSpecification(DriveSpecification):
    """A disk, given by its block device (kind ``block``), in a cell's specification.

    Attributes:
        path: The path of the block device as configured, such as ``/dev/disk/by-id/ata-…``.
        serial: The serial number that the disk must report.
        model: The model name that the disk must report. Absent if none is configured.
        size: The size that the disk must have: a number of bytes, or a text with a unit. Absent if none is configured.
        precondition: How the disk is written before it is measured. Absent if this is not requested.
        tune: The names of the disk's settings that a cell may change, such as ``scheduler``. Absent if no such list is
            configured.
    """

    path: str
    serial: str
    model: NotRequired[str]
    size: NotRequired[str | int]
    precondition: NotRequired[Precondition]
    tune: NotRequired[Sequence[str]]


class CallTrace(TypedDict):
    """The part of a system call trace that a cell replays.

    A system call trace is a recording of the system calls of programs. The cell replays the requests of one process to
    the files whose paths match a pattern.

    Attributes:
        path: Path of the recording.
        only: Shell pattern of the paths of the files, such as ``/home/me/*``.
        process: Number of the process in the recording.
        sha256: SHA-256 of the replayed requests. Other requests in the recording do not change it.
    """

    path: str
    only: str
    process: int
    sha256: str


class TraceReference(TypedDict):
    """A block trace that the user gives.

    A block trace lists requests to a drive with their times.

    Attributes:
        trace: Path of the trace.
        sha256: SHA-256 of the trace.
    """

    trace: str
    sha256: str


class Replay(TypedDict):
    """The part of a block trace that a cell replays on a simulated drive, without fio.

    A block trace lists requests to a drive with their times. A phase is a named part of a trace. The trace is either
    given by the user, or recorded by the same run of the workflow.

    Attributes:
        trace: Path of the trace.
        sha256: SHA-256 of the trace, if the user gives it. Absent if the run records the trace.
        made_of: SHA-256 of everything that determines the trace, if the run records it. Absent if the user gives the
            trace.
        phase: Name of the phase to replay. ``NAME*`` selects all phases whose names begin with NAME.
        depth: Number of requests to keep outstanding. The times in the trace are then ignored.
        arrival_times: Whether to submit the requests at their times in the trace. If this key and ``depth`` are absent,
            the dependencies between the requests are kept, see `dependencies`.
        compare: Other recordings of the same program, whose dependent replays are compared with the recording on this
            drive.
        latencies: Whether to store latencies over time.
        blocks_over_time: Number of equally spaced times at which to count the valid pages of all flash blocks.
    """

    trace: str
    sha256: NotRequired[str]
    made_of: NotRequired[str]
    phase: str
    depth: NotRequired[int]
    arrival_times: NotRequired[bool]
    compare: NotRequired[Sequence[TraceReference]]
    latencies: NotRequired[bool]
    blocks_over_time: NotRequired[int]


class Specification(TypedDict):
    """Everything that can change what is measured in a cell, in canonical units.

    A cell is one configuration: a drive, its settings and a workload. The SHA-256 of this dictionary identifies the
    cell, see `cells.specification_digest`. A repetition is one run of the workload, usually by fio.

    Attributes:
        protocol: A number that is raised when the package changes what it asks fio to do.
        runtime_ms: The duration of a repetition, in milliseconds. It is 0 for a replay of a block trace, and if each
            job of fio transfers its part of the file once.
        warmup_ms: The time for which the workload runs before the first repetition, in milliseconds; 0 for no warm-up.
        seed: The ``seed`` of config/config.yaml.
        drive: The drive, as a `TwinSpecification`, `FileSpecification` or `BlockSpecification`.
        fio: The fio options of the workload by name: ``{"rw": "randread", "bs": 4096}``. Sizes are in bytes, durations
            in µs.
        iolog: The key ``sha256`` with the checksum of the fio I/O log that the cell replays. Absent if the cell replays
            no log.
        calls: The part of a system call trace that the cell replays. Absent if the cell replays none.
        replay: The part of a block trace that the cell replays. Absent if the cell replays none.
        settings: The drive settings to make before the measurement, by name: ``{"WCE": 1}``. Absent if there are none.
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
    """What a drive of any kind reports about itself.

    A value that the drive does not report is None.

    Attributes:
        model: The model name.
        serial: The serial number.
        firmware: The firmware version.
        size_bytes: The size of the drive.
        rotational: Whether the drive is a hard disk.
        logical_block_bytes: The size of a logical block.
        scheduler: The I/O scheduler in use, such as ``mq-deadline``.
    """

    model: str | None
    serial: str | None
    firmware: str | None
    size_bytes: int | None
    rotational: bool | None
    logical_block_bytes: int | None
    scheduler: str | None


class DiskFacts(DriveFacts):
    """What the kernel reports about a real disk.

    Attributes:
        device: The kernel's name of the disk, such as ``sda``. None if it is unknown.
    """

    device: str | None


class OpenedTarget(TypedDict):
    """The disk or file that was opened for a measurement of a real drive.

    Attributes:
        path: The path with symbolic links resolved.
        size_bytes: The size; None if it is unknown.
        number: The device number of a disk, such as ``8:16``. Absent for a file.
        file_system_number: The device number of the file system that contains the file. Absent for a disk.
        inode: The inode number of a file. Absent for a disk.
    """

    path: str
    size_bytes: int | None
    number: NotRequired[str]
    file_system_number: NotRequired[str]
    inode: NotRequired[int]


class PreconditioningRecord(TypedDict):
    """How a disk was preconditioned: written before it was measured.

    In the mode ``fill``, the disk was written once, sequentially. In the mode ``steady``, rounds of random writes
    followed, until the IOPS of the last five rounds varied little or a limit was reached. Only this mode has the keys
    from ``round_ms`` on.

    Attributes:
        mode: ``fill`` or ``steady``.
        size_bytes: The size of the part that was written, from the start of the disk.
        round_ms: The duration of a round, in milliseconds.
        rounds: The IOPS of each round, in order.
        steady: Whether the last five rounds met SNIA's limits for steady state.
        excursion: The range of the last five rounds (largest minus smallest IOPS), divided by their mean.
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
    """The measured drive in a metadata file: its name, kind and properties.

    Some keys exist only for some kinds of drive. Real drives are those of the kinds ``file`` and ``block``.

    Attributes:
        name: The name of the drive in the configuration, such as ``px05smb040``.
        kind: ``twin`` (simulated drive), ``file`` or ``block`` (whole disk).
        file_size_bytes: The size of the part of the drive that is read and written.
        twin: Simulated drives: the name of the model, which is the file with the drive's parameters.
        set: Simulated drives: the values that replace values of the model, by parameter. Absent if none is replaced.
        model_digest: Simulated drives: the SHA-256 of everything in the model and in `set` that can change what the
            drive does.
        device: Real drives: the kernel's name of the disk, such as ``sda``; None if it is unknown.
        path: Real drives: the path as configured.
        opened: Real drives: the file or disk that was opened; None if none was opened.
        file_system: Kind ``file``: the type of the file system, such as ``ext4``; None if it is unknown.
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
    reason as text.

    Attributes:
        program: The program that read the health, ``smartctl`` or ``nvme``.
        temperature_c: The temperature, in °C.
        warning_c: The temperature from which the drive warns, in °C.
        critical_c: The temperature from which the drive reports a critical state, in °C.
        passed: Whether the drive passes its own SMART assessment.
        critical_warning: NVMe's critical-warning bits; 0 means no warning.
        media_errors: The number of media errors so far.
        overheated: The sum of several NVMe counters: the minutes in which the drive was too hot, and the number of
            times that the drive was slowed down to cool. The sum rises if the drive overheats.
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
        drive: 1 if the disk reports that its write cache is on, 0 if off, None if unknown.
        kernel: ``write back`` if the kernel sends flushes to the disk, ``write through`` if it sends none, None if
            unknown.
    """

    drive: int | None
    kernel: int | str | None


class MachineFacts(TypedDict):
    """The properties of a machine that stay constant during a run.

    A value that is unknown is None.

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
        memory_available_bytes: The available memory; None if unknown.
        load_average: The kernel's load averages over 1, 5 and 15 minutes, in processes.
        cpu_governor: The frequency governor of the first CPU, such as ``performance``; None if it has none.
    """

    memory_available_bytes: int | None
    load_average: list[float]
    cpu_governor: str | None


# ---- How a raw file was made


class CellMetadata(TypedDict):
    """The metadata that all repetitions of a cell share if they are measured together.

    A cell is one configuration: a drive, its settings and a workload. A repetition is one run of the workload, usually
    by fio.

    Attributes:
        specification: Everything that can change what is measured in the cell.
        drive: The drive's name, kind and properties.
        tuning: The outcome of each drive setting that the cell requires, in the order in which they were set.
        host: The name of the host that measured the cell. Files of earlier versions lack this key.
        fio_version: The output of ``fio --version``, such as ``fio-3.33``. Absent if a setting did not take effect,
            because the cell is then not measured.
        simulator: Simulated drives: the SHA-256 of the simulator's sources. Files of earlier versions lack this key.
    """

    specification: Specification
    drive: DriveIdentity
    tuning: Sequence[TuningStep]
    host: NotRequired[str]
    fio_version: NotRequired[str]
    simulator: NotRequired[str]


class RepetitionMetadata(CellMetadata):
    """The metadata of one repetition: one run of a cell's workload.

    A cell is one configuration: a drive, its settings and a workload.

    If a drive setting of the cell did not take effect, the repetition was not measured. The only keys are then those of
    `CellMetadata` and `execution`.

    Attributes:
        execution: The number of the repetition, from 1.
        randseed: The value of fio's option ``randseed``, see `cells.randseed`.
        command: The words of the command line.
        machine: The constant properties of the machine.
        before: The load of the machine just before the start.
        started: The time of the start (UTC, ISO 8601).
        ended: The time of the end (UTC, ISO 8601).
        wall_s: The wall-clock duration in seconds.
        counters: Simulated drives: the final values of the drive's counters by name, such as ``write_bytes``.
        health: Real drives: the drive's health. The key ``before`` has the health before the first repetition of the
            cell, and the key ``after`` the health after this repetition.
        write_cache: Real drives: the state of the write cache.
        held_up: Real drives: the reasons why earlier attempts at this repetition were discarded, a sentence for each.
        others_bytes: Real drives: the number of bytes that other programs read or wrote on the disk during the
            repetition; None if unknown.
        doubts: Real drives: the reasons to doubt the result, such as "a busy machine".
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
    """The checksum and size of a raw file, which a metadata file describes.

    A raw file contains the result of one repetition, such as fio's JSON output.

    Attributes:
        sha256: The SHA-256 of the raw file, in hexadecimal.
        size_bytes: The size of the raw file.
    """

    sha256: str
    size_bytes: int


class MetadataFile(RepetitionMetadata):
    """The content of a metadata file, which records how a raw file was made.

    It consists of the metadata of a repetition and the checksums of both files.

    Attributes:
        raw: The checksum and size of the raw file.
        sha256: The SHA-256 of all lines of the metadata file except the line with this key.
            `metadata_files.write_metadata` adds this key.
    """

    raw: RawFile
    sha256: NotRequired[str]
