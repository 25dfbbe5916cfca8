"""What raw files' sidecars are made of: a cell's specification, and how an execution of it came about.

Types alone, for the type checker and for readers; `docs/raw-files.md` tells of each key.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NotRequired, TypedDict

from iopatterns.raw.tuning_steps import Record

# ---- What a cell is

# A workload's options, and the settings of a drive that a cell asks for, by name. Which there are, and what type and
# unit each has, is declared once, in `configuration.factors`.
Options = Mapping[str, Any]
Settings = Mapping[str, int | str]


class _Drive(TypedDict):
    name: str
    file_size_bytes: int


class Twin(_Drive):
    """A simulated drive, by its model file and the digest of what is in that."""

    kind: Literal["twin"]
    model: str
    model_digest: str


class File(_Drive):
    """A file on a mounted disk; ``tune`` names the settings of that disk that may be set, where the cell sets any."""

    kind: Literal["file"]
    path: str
    tune: NotRequired[Sequence[str]]


class Precondition(TypedDict):
    """How a disk is brought into a known state before it is measured."""

    mode: str
    round_ms: int


class Block(_Drive):
    """A whole disk, by its path and what it says of itself; ``tune`` as that of a file."""

    kind: Literal["block"]
    path: str
    serial: str
    model: NotRequired[str]
    size: NotRequired[str | int]
    precondition: NotRequired[Precondition]
    tune: NotRequired[Sequence[str]]


Drive = Twin | File | Block


class Iolog(TypedDict):
    """The log of the user's own that a cell replays."""

    sha256: str


class Specification(TypedDict):
    """All that can change what is measured in a cell, in canonical units, and nothing else."""

    protocol: int
    runtime_ms: int
    warmup_ms: int
    seed: int
    drive: Drive
    fio: Options
    iolog: NotRequired[Iolog]
    settings: NotRequired[Settings]


# ---- How it came about


class OfCell(TypedDict):
    """What the sidecars of all executions of a cell that are measured together share.

    ``drive`` is what the drive says of itself. ``fio_version`` is missing where the drive did not take the settings.
    """

    specification: Specification
    drive: Mapping[str, Any]
    tuning: Sequence[Record]
    fio_version: NotRequired[str]


class OfExecution(OfCell):
    """What is known of one execution; ``execution`` alone where fio did not run."""

    execution: int
    randseed: NotRequired[int]
    command: NotRequired[list[str]]
    machine: NotRequired[Mapping[str, Any]]
    before: NotRequired[Mapping[str, Any]]
    started: NotRequired[str]
    ended: NotRequired[str]
    wall_s: NotRequired[float]
    # of real drives
    health: NotRequired[Mapping[str, Any]]
    write_cache: NotRequired[Mapping[str, Any]]
    held_up: NotRequired[Sequence[str]]
    others_bytes: NotRequired[int | None]
    doubts: NotRequired[Sequence[str]]


class RawFile(TypedDict):
    """The raw file beside which a sidecar lies."""

    sha256: str
    size_bytes: int


class Sidecar(OfExecution):
    """A whole sidecar. ``sha256`` is that of all its lines but its own; `sidecars.write_sidecar` adds it."""

    raw: RawFile
    sha256: NotRequired[str]
