"""Drives: what a cell is measured on.

A drive is a simulated drive (a twin), a file on a disk, or a disk. All kinds have one interface, `Drive`, and measuring
uses nothing else. A cell is one configuration: a drive, its settings and a workload.
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

    A cell is one configuration: a drive, its settings and a workload. `open_drive` returns a drive.

    The methods are called in this order:

    - `hold`, whose context contains all further calls
    - once for the cell: `guard`, `prepare`, `tune` and `identify`; for a real drive also `doubts`
    - for each repetition (one run of fio): `verify`, `run`, `verify` and `changed_settings`
    """

    @property
    def target(self) -> str:
        """The path that is given to fio as ``--filename``, valid after `prepare`.

        For a simulated drive, it is ``{drive}``, which stands for the path of the drive.
        """

    @property
    def prefix(self) -> list[str]:
        """The words before ``fio`` on the command line; empty for a real drive.

        For a simulated drive, the words are the command ``twin run`` with its options, such as ``["twin", "run",
        "hard-disk", …, "--"]``.
        """

    def hold(self) -> AbstractContextManager[None]:
        """Lock the drive while the context lasts; restore its settings on exit.

        If another process holds the lock, a message is printed, and the lock is waited for. A simulated drive is not
        locked itself, but only the cell: several cells of the drive can be measured at once.

        Raises:
            DriveError: The drive cannot be opened, or must not be measured.
            RestoreError: A setting of a real drive could not be restored.
        """

    def identify(self) -> DriveIdentity:
        """Return the drive's name, kind and properties for metadata files.

        A metadata file says how the result of a repetition was made. `records.DriveIdentity` describes the keys, such
        as ``name``, ``serial`` and ``size_bytes``.
        """

    def doubts(self) -> list[str]:
        """Return what makes all measurements on the drive doubtful.

        Each doubt is a short text, such as "stored in memory: ext4 on loop0 on tmpfs". The list is empty if there is no
        doubt.
        """

    def guard(self) -> None:
        """Raise DriveError unless the drive may be measured with the cell's workload.

        The conditions depend on the kind of drive:

        - ``twin``: the model file is unchanged since the run was planned, and the drive is large enough
        - ``file``: the file is missing, or was made by this package and not changed by others
        - ``block``: the device is the configured disk and large enough. If the workload writes, nothing else uses the
          disk, and the user has consented to losing its data
        """

    def verify(self) -> None:
        """Raise DriveError if the drive is no longer the one that `guard` checked.

        Examples are a disk that was replaced, and a model file that was edited.
        """

    def prepare(self) -> None:
        """Bring the drive into the state in which measuring starts.

        What this means depends on the kind of drive:

        - ``twin``: the simulated drive is reset
        - ``file``: the file is created and filled with data, unless it exists with the right size
        - ``block``: the disk is preconditioned if the configuration asks for this, unless it was done earlier.
          Preconditioning writes to the disk until it is in a known state

        Raises:
            DriveError: The drive must not be written, or has too little space.
            FioError: fio, which writes the data, failed.
        """

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set the drive settings of a cell, such as the I/O scheduler.

        Args:
            settings: The wanted values, by name of the setting, such as ``{"scheduler": "deadline", "WCE": 1}``.

        Returns:
            For each setting, the values before and after, and whether the wanted value is in effect. A setting that the
            drive does not accept raises no error. Its step has the outcome and the reason instead.
        """

    def run(self, argv: list[str], expected_s: float) -> FioOutcome:
        """Run fio on the drive and wait for its end.

        Args:
            argv: The words of the command line. They begin with `prefix`.
            expected_s: The expected duration in seconds. fio that takes far longer is killed.

        Returns:
            When fio started and ended, and what disturbed it. For a simulated drive, also the drive's counters.

        Raises:
            FioError: fio failed.
        """

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message for each setting that has changed since `tune`.

        The list is empty if no setting has changed.

        Args:
            steps: The steps that `tune` returned.
        """


@runtime_checkable
class ReplayingDrive(Protocol):
    """A drive that can replay block traces without fio: a simulated drive.

    A block trace lists requests to a drive with their times.
    """

    def replay(self, root: Path, replay: Replay) -> tuple[list[str], dict[str, Any], dict[str, int]]:
        """Replay a phase of a block trace on a fresh simulated drive.

        A block trace lists requests to a drive with their times. A phase is a named part of a trace.

        Args:
            root: The project's folder, to which paths of traces are relative.
            replay: The key ``replay`` of the cell's specification: the trace, the name of the phase, and the options of
                the replay.

        Returns:
            Three values:

            - the words of the command line by which a user replays the trace
            - the content of the raw file: a summary of the replay
            - the counters of the simulated drive, by name

        Raises:
            ReplayError: The trace has changed since the run was planned, or lacks the phase.
            TwinError: The trace or the model is not valid.
        """


def open_drive(root: Path, specification: Specification) -> Drive:
    """Return the drive that the specification of a cell names.

    A cell is one configuration: a drive, its settings and a workload. The device or file of the drive is not opened or
    locked yet. `Drive.hold` opens and locks it.

    Args:
        root: The project folder.
        specification: Everything that can change what is measured in the cell. The kind of the drive is
            ``specification["drive"]["kind"]``: ``twin``, ``file`` or ``block``.

    Raises:
        DriveError: Drives of this kind cannot be measured. An example is ``archive``, the kind of drives that were
            measured elsewhere.
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
