"""The outcomes of the settings that cells ask for: the steps that metadata files record."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypedDict, TypeVar, cast

from iopatterns.base import files

# What can become of a setting; the value asked for is in effect after the first two alone.
ALREADY = "already so"
CHANGED = "changed"
NOT_CHANGEABLE = "not changeable"  # the drive's own mask says so
REFUSED = "refused"  # changeable, but the drive rejects the command
IGNORED = "ignored"  # the drive accepts the command, and reads back as before
NOT_APPLICABLE = "not applicable"  # there is no such setting
_TAKEN = frozenset({ALREADY, CHANGED})


class CommandResult(TypedDict):
    """A command with its exit status and what it printed."""

    command: list[str]
    exit_status: int
    stdout: str
    stderr: str


class StepRecord(TypedDict):
    """A `Step` as JSON has it; a test holds the keys of the two together."""

    setting: str
    wanted: int | str
    before: int | str | None
    after: int | str | None
    changeable: bool | None
    outcome: str
    reason: str
    exchange: list[CommandResult]


class TuningRecord(StepRecord):
    """The outcome of a setting in one cell.

    Attributes:
        experiments: The experiments that ask for the cell.
        measured: Whether the drive took all settings of the cell.
    """

    drive: str
    cell: str
    experiments: list[str]
    measured: bool


# The outcomes of all settings of a study's cells
TuningRecords = Sequence[TuningRecord]

# A record, or one with more in it
_Record = TypeVar("_Record", bound=Mapping[str, Any])


@dataclass(frozen=True)
class Step:
    """One setting of one drive: what was asked for, and what became of it.

    ``before`` and ``after`` are what the drive reported; None where it reports no such setting. ``changeable`` is what
    its mask of changeable values says, None where it has none. ``exchange`` holds each command with its exit status and
    what it printed, in order.
    """

    setting: str
    wanted: int | str
    before: int | str | None
    after: int | str | None
    changeable: bool | None
    outcome: str
    reason: str
    exchange: list[CommandResult] = field(default_factory=list)

    @property
    def taken(self) -> bool:
        """Whether the value asked for is in effect."""
        return self.outcome in _TAKEN

    def record(self) -> StepRecord:
        """Return the step as JSON has it."""
        return cast(StepRecord, asdict(self))


def not_applicable_step(setting: str, wanted: int | str, reason: str) -> Step:
    """Return the step of a setting that a drive does not have."""
    return Step(setting, wanted, None, None, None, NOT_APPLICABLE, reason)


def steps_not_in_effect(steps: Iterable[_Record]) -> list[_Record]:
    """Return those records of steps after which the value asked for is not in effect."""
    return [step for step in steps if step["outcome"] not in _TAKEN]


def write_tuning_records(path: Path, records: TuningRecords) -> None:
    """Write records as JSON; experiments are joined by blanks, as in the table of measurements."""
    files.write_json(path, [{**record, "experiments": " ".join(record["experiments"])} for record in records])


def read_tuning_records(path: Path) -> list[TuningRecord]:
    """Read the records that `write_tuning_records` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return [record | {"experiments": record["experiments"].split()} for record in content]
