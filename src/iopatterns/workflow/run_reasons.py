"""Why cells are measured: they are new, their configuration has changed, or they lack repetitions."""

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns.configuration import grid
from iopatterns.configuration.factors import FACTORS
from iopatterns.raw.metadata_files import metadata_path
from iopatterns.workflow.planned_cells import RAW_FOLDER, Cells

# Up to this number, cells are named one by one
_MOST_NAMED = 8
_MOST_LEVELS = 6
_HASH_CHARACTERS = 9  # with which a cell's name ends: "-" and the first digits of its digest
_FOLLOWING = re.compile(rf"-(?:{FACTORS['size'].tag}|{FACTORS['offset_increment'].tag})\d+[a-z]*(?=-|$)")
# Keys of a specification that a user knows by another name
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
# Keys that follow from other keys: a change of the latter explains a change of the former
_DERIVED = {
    "the model of the twin": {"drive.model", "parameters under set of the twin"},
    "size": {"file_size", "offset_increment"},
    "offset_increment": {"file_size"},
    "runtime": {"replay"},
    "file_size": {"replay"},
}

# The specification of a cell without its nesting, by the names that a user has for its keys
FlatSpecification = Mapping[str, Any]


def measuring_reasons(cells: Cells, unfinished: Sequence[grid.Cell]) -> list[str]:
    """Return a line for each study with unfinished cells, after a line for each cell if the cells are few.

    A cell has changed if another configuration's measurement of its point exists and is not planned any more.
    """
    told = [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in unfinished]
    told = told if len(told) <= _MOST_NAMED else []
    for study in cells.studies:
        of_study = [cell for cell in unfinished if cell.study == study]
        begun = [cell for cell in of_study if _has_raw_files(cells.modified_ns[cell.folder])]
        stored = _stored(cells, [cell for cell in of_study if cell not in begun])
        changed = [cell for cell in of_study if cell.folder in stored]
        new = [cell for cell in of_study if cell not in begun and cell.folder not in stored]
        parts = []
        if new:
            others = [cell for cell in cells.of_study(study) if cell not in new]
            parts.append(f"{_count(new)} new{_new_levels(new, others)}")
        if changed:
            names = dict.fromkeys(name for cell in changed for name in _changed_keys(cell, stored[cell.folder]))
            parts.append(f"{_count(changed)} changed" + (f": {', '.join(names)}" if names else ""))
        if begun:
            parts.append(f"{_count(begun)} with repetitions to add")
        if parts:
            told.append(f"{study}: {'; '.join(parts)}")
    return told


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
    """Return a cell's folder without its hash, and without the levels that may follow from the size of the file."""
    return _FOLLOWING.sub("", folder[:-_HASH_CHARACTERS])


def _stored(cells: Cells, unmeasured: Iterable[grid.Cell]) -> dict[str, list[FlatSpecification]]:
    """Return what is stored of the points of some cells under other configurations, by the cell's folder.

    The measurement of a cell that is still planned is left out: its configuration has not changed.
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
    """Return the specification of the measurement in a folder, None where its metadata file cannot be read."""
    raws = sorted(name for name in names if name.endswith(".json") and name.count(".") == 1)
    try:
        return _flat(json.loads(metadata_path(folder / raws[0]).read_text(encoding="utf-8"))["specification"])
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _flat(specification: Mapping[str, Any]) -> dict[str, Any]:
    """Return a specification without its nesting; the key `replay` has whether there is a replay."""
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
    """Return the levels that only new cells have; nothing where no level tells new cells from others."""
    if not others:
        return ", all that there are"
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
    """Return the keys in which a cell differs from the nearest stored configuration, without keys that follow."""
    now = _flat(cell.specification)
    differing = ([name for name in {**now, **old} if old.get(name) != now.get(name)] for old in stored)
    nearest = min(differing, key=len, default=[])
    explained = {name for name in nearest if _DERIVED.get(name, set()) & set(nearest)}
    explained |= {name for name in nearest if "replay" in nearest and name.startswith("replay.")}
    return [name for name in nearest if name not in explained]
