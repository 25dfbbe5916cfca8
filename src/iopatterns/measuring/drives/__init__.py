"""Drives: what a cell is measured on.

A drive is a simulated drive, a file on a disk, or a disk. All kinds have one interface, `Drive`, and measuring uses
nothing else. A cell is one configuration: a drive, its settings and a workload.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from iopatterns.base.messages import printable
from iopatterns.configuration import kinds
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.fio import FioOutcome
from iopatterns.raw.records import DriveIdentity, Replay, Settings, Specification
from iopatterns.raw.tuning_steps import TuningStep

__all__ = ["Drive", "DriveError", "ReplayingDrive", "open_drive"]


class Drive(Protocol):
    """The interface of all kinds of drive, for measuring one cell.

    The methods are called in this order: `hold`, and within its context `guard`, `prepare`, `tune`, `identify`; then
    for each repetition `verify`, `run`, `verify` and `changed_settings`.
    """

    @property
    def target(self) -> str:
        """The path that is given to fio as ``--filename``, valid after `prepare`."""

    @property
    def prefix(self) -> list[str]:
        """The words before ``fio`` on the command line; empty for a real drive.

        For a simulated drive, they are the ``twin run`` command with its options.
        """

    def hold(self) -> AbstractContextManager[None]:
        """Lock the drive while the context lasts; restore its settings on exit."""

    def identify(self) -> DriveIdentity:
        """Return the drive's name, kind and properties for metadata files."""

    def doubts(self) -> list[str]:
        """Return what makes all measurements on the drive doubtful.

        Each doubt is a short text, such as "stored in memory: ext4 on loop0 on tmpfs".
        """

    def guard(self) -> None:
        """Raise DriveError unless the drive may be measured with the cell's workload."""

    def verify(self) -> None:
        """Raise DriveError if the drive is no longer the one that `guard` checked."""

    def prepare(self) -> None:
        """Bring the drive into the state in which measuring starts.

        What this means depends on the kind of drive:

        - ``twin``: the simulated drive is reset
        - ``file``: the file is created and filled with data, unless it exists with the right size
        - ``block``: the disk is preconditioned if the configuration asks for it, unless this was done earlier
        """

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set the drive settings of a cell.

        Args:
            settings: The wanted values, by name of the setting.

        Returns:
            For each setting, the values before and after, and whether the wanted value is in effect. A setting that the
            drive does not accept raises no error; its result has the reason.
        """

    def run(self, argv: list[str], expected_s: float) -> FioOutcome:
        """Run fio on the drive and wait for its end.

        Args:
            argv: The command line. It begins with `prefix`.
            expected_s: The expected duration in seconds. fio that takes far longer is killed.

        Returns:
            When fio started and ended, and what disturbed it. For a simulated drive, also the drive's counters.

        Raises:
            FioError: fio failed.
        """

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message for each setting that has changed since `tune`.

        Args:
            steps: The steps that `tune` returned.
        """


@runtime_checkable
class ReplayingDrive(Protocol):
    """A drive that can replay block traces without fio: a simulated drive."""

    def replay(self, path: Path, replay: Replay) -> tuple[list[str], dict[str, Any], dict[str, int]]:
        """Replay a phase of a block trace on a fresh simulated drive.

        A block trace lists requests to a drive with their times. A phase is a named part of it.

        Args:
            path: The trace.
            replay: The key ``replay`` of the cell's specification: the name of the phase, and the options.

        Returns:
            Three values:

            - the command line by which a user replays the trace
            - the content of the raw file: a summary of the replay
            - the counters of the simulated drive, by name
        """


def open_drive(root: Path, specification: Specification) -> Drive:
    """Return the drive that the specification of a cell names.

    The device or file of the drive is not opened or locked yet.

    Args:
        root: The project folder.
        specification: The specification of the cell.

    Raises:
        DriveError: Drives of this kind cannot be measured.
    """
    match specification["drive"]["kind"]:
        case "twin":
            from iopatterns.measuring.drives.twin import TwinDrive

            return TwinDrive(root, specification)
        case "block":
            from iopatterns.measuring.drives.block import BlockDrive

            return BlockDrive(root, specification)
        case "file":
            from iopatterns.measuring.drives.file import FileDrive

            return FileDrive(root, specification)
        case other:
            measurable = ", ".join(name for name, kind in kinds.DRIVE_KINDS.items() if not kind.is_archived)
            raise DriveError(
                f"drive '{printable(str(specification['drive']['name']))}': drives of kind '{printable(str(other))}'"
                f" cannot be measured. Valid kinds are {measurable}."
            )
