"""Tuning steps: what happened to each drive setting that a cell requires.

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
OUTCOMES = (ALREADY, CHANGED, NOT_CHANGEABLE, REFUSED, IGNORED, NOT_APPLICABLE)
_IN_EFFECT = frozenset({ALREADY, CHANGED})


class CommandResult(TypedDict):
    """A command that was run to change or read a drive setting, with its result.

    Attributes:
        command: The words of the command line.
        exit_status: The exit status.
        stdout: The text that the command printed to stdout.
        stderr: The text that the command printed to stderr.
    """

    command: list[str]
    exit_status: int
    stdout: str
    stderr: str


class TuningStep(TypedDict):
    """The attempt to set one setting of one drive, and its outcome.

    Attributes:
        setting: The name of the setting, such as ``scheduler`` or ``WCE``.
        wanted: The value to set.
        before: The value that the drive reported before the attempt; None if it reports no such setting.
        after: The value that the drive reported after the attempt; None if it reports no such setting.
        changeable: Whether the drive declares the setting as changeable; None if it declares nothing.
        outcome: One of the texts below. Only after ``already so`` and ``changed`` does the drive have the wanted value.

            - ``already so``: The drive had the wanted value before.
            - ``changed``: The drive now has the wanted value.
            - ``not changeable``: The drive declares that the setting cannot be changed.
            - ``refused``: The drive rejected the command.
            - ``ignored``: The drive accepted the command, but still reports the old value.
            - ``not applicable``: The drive has no such setting.
        reason: An explanation of the outcome for messages, such as ``DRA reads back as 1``.
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
    """A tuning step, with the cell that required it.

    A tuning step is the attempt to set one drive setting, and its outcome. A cell is one configuration: a drive, its
    settings and a workload. An experiment is a part of a study, and uses several cells.

    Attributes:
        drive: The name of the drive.
        cell: The name of the cell's folder, such as ``randread-4k-q1-j1-1a2b3c4d``.
        experiments: The names of the experiments that use the cell.
        measured: Whether the cell was measured. It is measured only if all its settings took effect.
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

    The arguments become the values of the keys with the same names.

    Args:
        setting: The name of the setting, such as ``scheduler`` or ``WCE``.
        wanted: The value to set.
        outcome: One of the outcomes in `TuningStep`, such as ``changed`` or ``refused``. This module has a constant for
            each.
        reason: An explanation of the outcome for messages.
        before: The value that the drive reported before the attempt; None if it reports no such setting.
        after: The value that the drive reported after the attempt; None if it reports no such setting.
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
    """Return whether a drive has the wanted value of a setting after a tuning step.

    A tuning step is the attempt to set one drive setting. The result is true for the outcomes ``already so`` and
    ``changed``.

    Args:
        step: A `TuningStep`, or any mapping with its key ``outcome``.
    """
    return step["outcome"] in _IN_EFFECT


def steps_not_in_effect(steps: Iterable[_AnyStep]) -> list[_AnyStep]:
    """Return the tuning steps after which the drive does not have the wanted value.

    A tuning step is the attempt to set one drive setting.

    Args:
        steps: Items of type `TuningStep` or `TuningRecord`. Their order is kept.
    """
    return [step for step in steps if not is_in_effect(step)]


def write_tuning_records(path: Path, records: TuningRecords) -> None:
    """Write the tuning records of a study to a JSON file, and replace an existing one.

    A tuning record is the attempt to set one drive setting for a cell, and its outcome. The file has a list with one
    object for each record. The names of experiments become one text, separated by spaces.

    Args:
        path: The file to write.
        records: The tuning records.
    """
    files.write_json(path, [{**record, "experiments": " ".join(record["experiments"])} for record in records])


def read_tuning_records(path: Path) -> list[TuningRecord]:
    """Return the tuning records in a JSON file that `write_tuning_records` wrote.

    A tuning record is the attempt to set one drive setting for a cell, and its outcome. The names of experiments, which
    are one text in the file, become a list.

    Raises:
        OSError: The file cannot be read.
        ValueError: The file is not valid JSON.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    return [record | {"experiments": record["experiments"].split()} for record in content]
