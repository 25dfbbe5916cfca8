"""Drives: what fio is pointed at. One small interface whatever the kind; the measuring code knows nothing else."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from iopatterns.base.messages import printable
from iopatterns.configuration import kinds
from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.fio import FioOutcome
from iopatterns.raw.records import DriveIdentity, Replay, Settings, Specification
from iopatterns.raw.tuning_steps import Step, StepRecord

__all__ = ["Drive", "DriveError", "ReplayingDrive", "open_drive"]


class Drive(Protocol):
    """A drive of any kind."""

    @property
    def target(self) -> str:
        """The path that fio is given, once the drive is prepared."""

    @property
    def prefix(self) -> list[str]:
        """What stands before fio on the command line: nothing for a real drive."""

    def hold(self) -> AbstractContextManager[None]:
        """Keep every other measurement off this drive while the context lasts."""

    def identify(self) -> DriveIdentity:
        """Return what the drive is: name, kind, path, model, serial, size_bytes, file_system, scheduler …"""

    def guard(self) -> None:
        """Raise DriveError unless this drive may be measured."""

    def verify(self) -> None:
        """Raise DriveError unless what fio is given is still the drive that was checked."""

    def prepare(self) -> None:
        """Bring the drive into the state in which measuring starts; quick when it is in that state."""

    def tune(self, settings: Settings) -> list[Step]:
        """Set what is asked for as far as the drive takes it; all is put back when `hold` ends."""

    def run(self, argv: list[str], expected_s: float) -> FioOutcome:
        """Run fio, as `fio.run_fio` does, by a command line that begins with ``prefix``."""

    def changed_settings(self, steps: Sequence[StepRecord]) -> list[str]:
        """Return which settings are not as `tune` read them back: each with its name, that value and the present one.

        ``steps`` are the records of what `tune` returned.
        """


@runtime_checkable
class ReplayingDrive(Protocol):
    """What a drive of any kind can do besides that replays traces without fio."""

    def replay(self, path: Path, asked: Replay) -> tuple[list[str], dict[str, Any], dict[str, int]]:
        """Replay a phase of the trace at ``path`` on a new drive of this kind.

        Returns the command by which a user replays that trace, and what `replays.measure` returns.
        """


def open_drive(root: Path, specification: Specification) -> Drive:
    """Return the drive that a cell's specification names; nothing is touched yet.

    Each kind is imported where it is asked for: what one needs takes time that another's measurement can do without.
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
            measured = ", ".join(name for name, kind in kinds.DRIVE_KINDS.items() if not kind.is_archived)
            raise DriveError(
                f"drive '{printable(str(specification['drive']['name']))}': none of the kind '{printable(str(other))}'"
                f" can be measured. Valid are {measured}."
            )
