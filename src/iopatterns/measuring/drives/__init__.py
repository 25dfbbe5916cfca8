"""Drives: what fio measures.

All kinds of drive have one interface, and measuring uses nothing else.
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
    """A drive of any kind.

    The methods are called in this order: `hold`, and within its context `guard`, `prepare`, `tune`, `identify`; then
    for each repetition `verify`, `run`, `verify` and `changed_settings`.
    """

    @property
    def target(self) -> str:
        """The path that is given to fio. The drive must be prepared."""

    @property
    def prefix(self) -> list[str]:
        """The words before ``fio`` on the command line; empty for a real drive."""

    def hold(self) -> AbstractContextManager[None]:
        """Lock the drive while the context lasts; restore its settings on exit."""

    def identify(self) -> DriveIdentity:
        """Return the identity of the drive for metadata files."""

    def guard(self) -> None:
        """Raise DriveError unless this drive may be measured."""

    def verify(self) -> None:
        """Raise DriveError if the drive is no longer the one that `guard` checked."""

    def prepare(self) -> None:
        """Bring the drive into the state in which measuring starts."""

    def tune(self, settings: Settings) -> list[TuningStep]:
        """Set the settings of a cell.

        Returns a step for each that says whether it took effect.
        """

    def run(self, argv: list[str], expected_s: float) -> FioOutcome:
        """Run a fio command line that begins with ``prefix``, see `fio.run_fio`."""

    def changed_settings(self, steps: Sequence[TuningStep]) -> list[str]:
        """Return a message for each setting that has changed since `tune`.

        ``steps`` are the steps that `tune` returned.
        """


@runtime_checkable
class ReplayingDrive(Protocol):
    """A drive that can replay block traces without fio."""

    def replay(self, path: Path, replay: Replay) -> tuple[list[str], dict[str, Any], dict[str, int]]:
        """Replay a phase of the trace at ``path`` on a drive in its initial state.

        Returns:
            The command by which a user replays the trace, and the two results of `replays.replay_phase`.
        """


def open_drive(root: Path, specification: Specification) -> Drive:
    """Return the drive in the specification of a cell.

    Nothing is opened or locked yet.

    Each kind is imported only if it is used, because the imports take time.

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
