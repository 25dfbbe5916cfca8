"""Tuning steps: what happened to each drive setting that a cell asks for."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, TypeVar

from iopatterns.base import files

# The outcomes of a step. The wanted value is in effect after the first two only.
ALREADY = "already so"
CHANGED = "changed"
NOT_CHANGEABLE = "not changeable"  # according to the drive's mask of changeable values
REFUSED = "refused"  # changeable, but the drive rejected the command
IGNORED = "ignored"  # the drive accepted the command, but still reports the old value
NOT_APPLICABLE = "not applicable"  # the drive has no such setting
_IN_EFFECT = frozenset({ALREADY, CHANGED})


class CommandResult(TypedDict):
    """A command with its exit status and what it printed."""

    command: list[str]
    exit_status: int
    stdout: str
    stderr: str


class TuningStep(TypedDict):
    """One setting of one drive: the wanted value, and the result of setting it.

    Attributes:
        before: The value that the drive reported before; None if it reports no such setting.
        after: The value that the drive reported afterwards.
        changeable: Whether the drive's mask of changeable values allows a change; None if it has no mask.
        exchange: The commands that were run, in order.
    """

    setting: str
    wanted: int | str
    before: int | str | None
    after: int | str | None
    changeable: bool | None
    outcome: str
    reason: str
    exchange: list[CommandResult]


class TuningRecord(TuningStep):
    """The tuning step of a setting in one cell.

    Attributes:
        experiments: The experiments that ask for the cell.
        measured: Whether all settings of the cell took effect, so that the cell was measured.
    """

    drive: str
    cell: str
    experiments: list[str]
    measured: bool


# The steps of all settings in all cells of a study
TuningRecords = Sequence[TuningRecord]

_AnyStep = TypeVar("_AnyStep", bound=Mapping[str, Any])


def tuning_step(
    setting: str,
    wanted: int | str,
    outcome: str,
    reason: str,
    *,
    before: int | str | None = None,
    after: int | str | None = None,
    changeable: bool | None = None,
    exchange: Iterable[CommandResult] = (),
) -> TuningStep:
    """Return a tuning step; `TuningStep` describes the arguments."""
    return {
        "setting": setting,
        "wanted": wanted,
        "before": before,
        "after": after,
        "changeable": changeable,
        "outcome": outcome,
        "reason": reason,
        "exchange": list(exchange),
    }


def is_in_effect(step: Mapping[str, Any]) -> bool:
    """Return whether the wanted value is in effect after a step."""
    return step["outcome"] in _IN_EFFECT


def steps_not_in_effect(steps: Iterable[_AnyStep]) -> list[_AnyStep]:
    """Return the steps after which the wanted value is not in effect."""
    return [step for step in steps if not is_in_effect(step)]


def write_tuning_records(path: Path, records: TuningRecords) -> None:
    """Write records as JSON.

    Names of experiments are joined by spaces, as in the table of measurements.
    """
    files.write_json(path, [{**record, "experiments": " ".join(record["experiments"])} for record in records])


def read_tuning_records(path: Path) -> list[TuningRecord]:
    """Return the records in a file that `write_tuning_records` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return [record | {"experiments": record["experiments"].split()} for record in content]
