"""Explain why cells are measured: they are new, changed, or lack repetitions.

A cell is one configuration: a drive, its settings and a workload. A changed configuration makes another cell, with
another folder.
"""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns.configuration import grid
from iopatterns.configuration.factors import FACTORS
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.raw.metadata_files import metadata_path
from iopatterns.workflow.planned_cells import Cells

_MOST_NAMED = 8  # up to this number, cells are listed by name
_MOST_LEVELS = 6  # listed for each factor
_HASH_CHARACTERS = 9  # at the end of a cell's name: "-" and the first digits of its digest
_FOLLOWING = re.compile(rf"-(?:{FACTORS['size'].tag}|{FACTORS['offset_increment'].tag})\d+[a-z]*(?=-|$)")
# Names that users know for keys of a specification
_LABELS = {
    "runtime_ms": "runtime",
    "warmup_ms": "warmup",
    "drive.file_size_bytes": "file_size",
    "drive.model_digest": "the model of the twin",
    "drive.set": "parameters under set of the twin",
    "drive.precondition.mode": "precondition",
    "drive.precondition.round_ms": "precondition_round",
    "iolog.sha256": "the content of the log",
    "calls.sha256": "the content of the trace",
    "replay.sha256": "the content of the trace",
    "replay.made_of": "what the trace is recorded of",
    "protocol": "the protocol of this version",
}
# Keys with values that depend on other keys. A change of one of the other keys explains a change of the key.
_DERIVED = {
    "the model of the twin": {"drive.model", "parameters under set of the twin"},
    "size": {"file_size", "offset_increment"},
    "offset_increment": {"file_size"},
    "runtime": {"replay"},
    "file_size": {"replay"},
}

# The specification of a cell as a flat mapping, by the names that users know for its keys
FlatSpecification = Mapping[str, Any]


def measuring_reasons(cells: Cells, unfinished: Sequence[grid.Cell]) -> list[str]:
    """Return lines that explain why cells are measured, for the terminal.

    A cell is one configuration: a drive, its settings and a workload. There is a line for each study, such as ``kapoor:
    3 cells new: iodepth=64``. If at most eight cells are measured, a line for each cell comes first.

    The reasons, which depend on what data/raw contains, are:

    - new: data/raw has no measurement of the cell, nor of an earlier configuration of the cell.
    - changed: data/raw has a measurement with the same levels (such as iodepth=64), but with another configuration,
      which is no longer planned. The line names the keys that differ.
    - with repetitions to add: data/raw has raw files of the cell, but not of all its repetitions.
    - measured with another simulator or fio: data/raw has raw files of the cell that other programs made than those
      installed here.

    Args:
        cells: All cells of the run.
        unfinished: The cells with missing raw files, as `Cells.unfinished` returns them.
    """
    lines = [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in unfinished]
    lines = lines if len(lines) <= _MOST_NAMED else []
    for study in cells.studies:
        of_study = [cell for cell in unfinished if cell.study == study]
        outdated = [cell for cell in of_study if cell.folder in cells.outdated]
        others = [cell for cell in of_study if cell.folder not in cells.outdated]
        begun = [cell for cell in others if _has_raw_files(cells.modified_ns[cell.folder])]
        stored = _stored(cells, [cell for cell in others if cell not in begun])
        changed = [cell for cell in others if cell.folder in stored]
        new = [cell for cell in others if cell not in begun and cell.folder not in stored]
        parts = []
        if new:
            planned = [cell for cell in cells.of_study(study) if cell not in new]
            parts.append(f"{_count(new)} new{_new_levels(new, planned)}")
        if changed:
            names = dict.fromkeys(name for cell in changed for name in _changed_keys(cell, stored[cell.folder]))
            parts.append(f"{_count(changed)} changed" + (f": {', '.join(names)}" if names else ""))
        if begun:
            parts.append(f"{_count(begun)} with repetitions to add")
        if outdated:
            parts.append(f"{_count(outdated)} measured with another simulator or fio")
        if parts:
            lines.append(f"{study}: {'; '.join(parts)}")
    return lines


def _count(cells: Sequence[grid.Cell]) -> str:
    return f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"


def _has_raw_files(names: Iterable[str]) -> bool:
    return any(name.endswith(".json") and not name.startswith(".") for name in names)


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _point(folder: str) -> str:
    """Return the part of a cell's folder that depends on its levels only.

    The hash at the end is removed, as are levels that follow from file_size.
    """
    return _FOLLOWING.sub("", folder[:-_HASH_CHARACTERS])


def _stored(cells: Cells, unmeasured: Iterable[grid.Cell]) -> dict[str, list[FlatSpecification]]:
    """Return configurations of existing measurements with the levels of some cells.

    Measurements of planned cells are left out, because their configuration has not changed.

    Args:
        cells: All cells of the run.
        unmeasured: The cells whose levels are searched.

    Returns:
        The configurations that were found, by the folder of the cell. A cell without such measurements is left out. The
        list of a cell is empty if none of its measurements can be read.
    """
    raw, planned = cells.root / RAW_FOLDER, cells.modified_ns.keys()
    by_point: dict[str, list[grid.Cell]] = {}
    for cell in unmeasured:
        by_point.setdefault(_point(cell.folder), []).append(cell)
    found: dict[str, list[FlatSpecification]] = {}
    for parent in dict.fromkeys(point.rpartition("/")[0] for point in by_point):
        for folder in (f"{parent}/{name}" for name in sorted(_listed(raw / parent))):
            of_point = by_point.get(_point(folder))
            if of_point and folder not in planned and _has_raw_files(names := _listed(raw / folder)):
                specification = _specification(raw / folder, names)
                for cell in of_point:
                    found.setdefault(cell.folder, []).extend([specification] if specification else [])
    return found


def _specification(folder: Path, names: Iterable[str]) -> FlatSpecification | None:
    """Return the flat specification of a measurement; None if it is unreadable.

    Args:
        folder: The folder of the measurement.
        names: The names of its files.
    """
    raws = sorted(name for name in names if name.endswith(".json") and name.count(".") == 1)
    try:
        return _flat(json.loads(metadata_path(folder / raws[0]).read_text(encoding="utf-8"))["specification"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _flat(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a cell's specification as a flat mapping, with names that users know.

    Nested keys are joined by dots. The value of the key ``replay`` is whether the cell replays a trace.
    """
    found: dict[str, Any] = {"replay": "replay" in specification}

    def add(part: Mapping[str, Any], prefix: str) -> None:
        for key, value in part.items():
            name = f"{prefix}{key}"
            if isinstance(value, Mapping) and name != "drive.set":
                add(value, "" if key in {"fio", "settings"} else f"{name}.")
            else:
                found[_LABELS.get(name, name)] = value

    add(specification, "")
    return found


def _new_levels(new: Sequence[grid.Cell], others: Sequence[grid.Cell]) -> str:
    """Return the levels that only new cells have, as the end of a line.

    An example is ``: iodepth=64``. The text is empty if there is no such level.

    Args:
        new: The new cells of a study.
        others: The other cells of the study.
    """
    if not others:
        return " (the complete study)"
    known = {_level(name, level) for cell in others for name, level in _flat(cell.specification).items()}
    found: dict[str, dict[str, None]] = {}
    for cell in new:
        for name, level in _flat(cell.specification).items():
            if name in FACTORS and _level(name, level) not in known:
                found.setdefault(name, {})[grid.level_text(name, level)] = None
    shown = []
    for name, levels in found.items():
        texts = list(levels)
        more = f" and {len(texts) - _MOST_LEVELS} more" if len(texts) > _MOST_LEVELS else ""
        shown.append(f"{name}={','.join(texts[:_MOST_LEVELS])}{more}")
    return f": {'; '.join(shown)}" if shown else ""


def _level(name: str, level: Any) -> tuple[str, str]:
    return name, json.dumps(level, sort_keys=True)


def _changed_keys(cell: grid.Cell, stored: Iterable[FlatSpecification]) -> list[str]:
    """Return the keys in which a cell differs from the most similar measurement.

    Keys are left out if they follow from another key that differs.

    Args:
        cell: The cell.
        stored: The configurations of existing measurements with the levels of the cell.
    """
    now = _flat(cell.specification)
    differing = ([name for name in {**now, **old} if old.get(name) != now.get(name)] for old in stored)
    nearest = min(differing, key=len, default=[])
    explained = {name for name in nearest if _DERIVED.get(name, set()) & set(nearest)}
    explained |= {name for name in nearest if "replay" in nearest and name.startswith("replay.")}
    return [name for name in nearest if name not in explained]
