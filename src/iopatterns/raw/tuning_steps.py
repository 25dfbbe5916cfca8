"""Tuning steps: what happened to each drive setting that a cell asks for.

A cell is one configuration: a drive, its settings and a workload.
"""

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
    """A command that was run, with its result.

    Attributes:
        command: The words of the command line.
        exit_status: The exit status.
        stdout: What the command printed to stdout.
        stderr: What the command printed to stderr.
    """

    command: list[str]
    exit_status: int
    stdout: str
    stderr: str


class TuningStep(TypedDict):
    """The attempt to set one setting of one drive, and its result.

    Attributes:
        setting: The name of the setting, such as ``scheduler`` or ``WCE``.
        wanted: The value to set.
        before: The value that the drive reported before; None if it reports no such setting.
        after: The value that the drive reported afterwards; None if it reports no such setting.
        changeable: Whether the drive declares the setting as changeable; None if it declares nothing.
        outcome: ``already so``, ``changed``, ``not changeable``, ``refused``, ``ignored`` or ``not applicable``. The
            wanted value is in effect after the first two only.
        reason: The outcome in words, for messages.
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
    """A tuning step together with the cell that asked for the setting.

    Attributes:
        drive: The name of the drive.
        cell: The name of the cell's folder.
        experiments: The names of the experiments that use the cell.
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
    """Return the record of an attempt to set one drive setting.

    Args:
        setting: The name of the setting.
        wanted: The value to set.
        outcome: One of the outcomes that this module declares, such as `CHANGED` or `REFUSED`.
        reason: The outcome in words.
        before: The value that the drive reported before.
        after: The value that the drive reported afterwards.
        changeable: Whether the drive declares the setting as changeable; None if it declares nothing.
        exchange: The commands that were run, in order.
    """
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
    """Return whether the drive has the wanted value of a setting after a tuning step.

    This is so if the drive already had the value, or was changed to it.

    Args:
        step: A `TuningStep`, or any mapping with its key ``outcome``.
    """
    return step["outcome"] in _IN_EFFECT


def steps_not_in_effect(steps: Iterable[_AnyStep]) -> list[_AnyStep]:
    """Return the tuning steps after which the drive does not have the wanted value."""
    return [step for step in steps if not is_in_effect(step)]


def write_tuning_records(path: Path, records: TuningRecords) -> None:
    """Write the tuning records of a study to a JSON file.

    The file has a list with one object for each record. The names of experiments are joined by spaces, as in the
    study's table of measurements.
    """
    files.write_json(path, [{**record, "experiments": " ".join(record["experiments"])} for record in records])


def read_tuning_records(path: Path) -> list[TuningRecord]:
    """Return the tuning records in a JSON file that `write_tuning_records` wrote.

    The names of experiments, joined by spaces in the file, are lists again.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return [record | {"experiments": record["experiments"].split()} for record in content]
