"""Drives: what fio is pointed at. One small interface whatever the kind; the measuring code knows nothing else."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol

from iopatterns.measuring.drives.error import DriveError
from iopatterns.measuring.drives.file import FileDrive
from iopatterns.raw.records import Settings, Specification
from iopatterns.raw.tuning_steps import Record, Step

__all__ = ["Drive", "DriveError", "open_drive"]


class Drive(Protocol):
    """A drive of any kind."""

    @property
    def target(self) -> str:
        """The path that fio is given, once the drive is prepared."""

    @property
    def descriptors(self) -> tuple[int, ...]:
        """The open files that fio inherits; ``target`` of a real drive is one of them."""

    @property
    def prefix(self) -> list[str]:
        """What stands before fio on the command line: nothing for a real drive."""

    def hold(self) -> AbstractContextManager[None]:
        """Keep every other measurement off this drive while the context lasts."""

    def identify(self) -> dict[str, Any]:
        """Return what the drive is: name, kind, path, model, serial, size_bytes, file_system, scheduler …"""

    def guard(self) -> None:
        """Raise DriveError unless this drive may be measured."""

    def verify(self) -> None:
        """Raise DriveError unless what fio is given is still the drive that was checked."""

    def prepare(self) -> None:
        """Bring the drive into the state in which measuring starts; quick when it is in that state."""

    def tune(self, settings: Settings) -> list[Step]:
        """Set what is asked for as far as the drive takes it; all is put back when `hold` ends."""

    def changed_settings(self, steps: Sequence[Record]) -> list[str]:
        """Return which settings are not as `tune` read them back: each with its name, that value and the present one.

        ``steps`` are the records of what `tune` returned.
        """


def open_drive(root: Path, specification: Specification) -> Drive:
    """Return the drive that a cell's specification names; nothing is touched yet."""
    if specification["drive"]["kind"] == "twin":
        from iopatterns.measuring.drives.twin import (
            TwinDrive,  # reads a model file, which no other kind has to wait for
        )

        return TwinDrive(root, specification)
    if specification["drive"]["kind"] == "block":
        from iopatterns.measuring.drives.block import BlockDrive

        return BlockDrive(root, specification)
    return FileDrive(root, specification)
