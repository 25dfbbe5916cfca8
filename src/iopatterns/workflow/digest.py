"""Why cells are to be measured, in a few lines: what is new, what has changed, what lacks executions."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns.configuration import grid
from iopatterns.configuration.factors import FACTORS
from iopatterns.raw import records
from iopatterns.raw.sidecars import sidecar_path
from iopatterns.workflow.planned_cells import RAW, Cells

# So many cells are named one by one; of more it is told what they have in common
FEW = 8
_MOST_LEVELS = 6
_HASH_CHARACTERS = 9  # with which a cell's name ends: "-" and the first digits of its digest
# What a specification has under names of its own, as config/ has it
_WORDS = {
    "runtime_ms": "runtime",
    "warmup_ms": "warmup",
    "file_size_bytes": "file_size",
    "model_digest": "the model of the twin",
    "set": "what is set of the model",
    "sha256": "the log replayed",
    "protocol": "the protocol of this version",
}


def lines(planned: Cells, unfinished: Sequence[grid.Cell]) -> list[str]:
    """Return what to say of the cells that lack raw files: what they have in common, and a line for each cell of a few.

    A cell is new where nothing is there of it, changed where another configuration's measurement of the same point is,
    and lacks executions where some of its own are.
    """
    told = [f"Measuring {cell.study} on {cell.drive}: {cell.name}" for cell in unfinished[: FEW + 1]]
    if len(told) > FEW:
        told = []
    raw = planned.root / RAW
    for study in planned.studies:
        cells = [cell for cell in unfinished if cell.study == study]
        if not cells:
            continue
        siblings = _siblings(raw, study, cells)
        some = [cell for cell in cells if _has_executions(raw / cell.folder)]
        begun = {cell.folder for cell in some}
        changed = [cell for cell in cells if cell.folder not in begun and siblings.get(_point(cell.folder))]
        known = begun | {cell.folder for cell in changed}
        new = [cell for cell in cells if cell.folder not in known]
        named = {cell.folder for cell in new}
        others = [cell for cell in planned.of_study(study) if cell.folder not in named]
        parts = []
        if new:
            parts.append(f"{_cells(new)} new{_levels(new, others)}")
        if changed:
            parts.append(f"{_cells(changed)} changed{_changes(changed, siblings)}")
        if some:
            parts.append(f"{_cells(some)} with executions to add")
        told.append(f"{study}: {'; '.join(parts)}")
    return told


def _cells(cells: Sequence[grid.Cell]) -> str:
    return f"{len(cells)} cell{'' if len(cells) == 1 else 's'}"


def _point(folder: str) -> str:
    """Return what a cell's folder says of the point without its hash."""
    return folder[:-_HASH_CHARACTERS]


def _has_executions(folder: Path) -> bool:
    return any(name.endswith(".json") and not name.startswith(".") for name in _listed(folder))


def _listed(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _siblings(raw: Path, study: str, cells: Iterable[grid.Cell]) -> dict[str, list[Path]]:
    """Return the folders of raw files of the same points as some cells, under any hash, by point; the latest first."""
    own = {cell.folder for cell in cells}
    found: dict[str, list[Path]] = {}
    for drive in {cell.drive for cell in cells}:
        for name in _listed(raw / drive / study):
            folder = f"{drive}/{study}/{name}"
            if folder not in own and _has_executions(raw / folder):
                found.setdefault(_point(folder), []).append(raw / folder)
    for folders in found.values():
        folders.sort(key=lambda folder: folder.stat().st_mtime, reverse=True)
    return found


def _flat(specification: records.Specification) -> dict[str, Any]:
    """Return all that a specification says, by the name that it has in config/."""
    drive, log = dict(specification["drive"]), dict(specification.get("iolog", {}))
    own = {key: value for key, value in specification.items() if not isinstance(value, Mapping)}
    about = {key: value for key, value in drive.items() if key not in {"name", "kind", "model"}}
    levels = {**specification["fio"], **specification.get("settings", {})}
    return {
        "drive": drive["name"],
        **levels,
        **{_WORDS.get(key, key): value for key, value in (own | about | log).items()},
    }


def _levels(new: Sequence[grid.Cell], others: Sequence[grid.Cell]) -> str:
    """Return which levels only new cells have, or nothing where all are new or none tells them apart."""
    if not others:
        return ", all that there are"
    there: dict[str, set[str]] = {}
    for cell in others:
        for name, level in _flat(cell.specification).items():
            there.setdefault(name, set()).add(json.dumps(level, sort_keys=True))
    found: dict[str, dict[str, str]] = {}
    for cell in new:
        for name, level in _flat(cell.specification).items():
            text = json.dumps(level, sort_keys=True)
            if name in FACTORS and text not in there.get(name, ()):
                found.setdefault(name, {})[text] = grid.level_text(name, level)
    shown = []
    for name, levels in found.items():
        texts = list(levels.values())
        more = f" and {len(texts) - _MOST_LEVELS} more" if len(texts) > _MOST_LEVELS else ""
        shown.append(f"{name}={','.join(texts[:_MOST_LEVELS])}{more}")
    return f": {'; '.join(shown)}" if shown else ""


def _changes(changed: Sequence[grid.Cell], siblings: Mapping[str, Sequence[Path]]) -> str:
    """Return what of the specifications of cells is otherwise than where the same points were measured last."""
    names: dict[str, None] = {}
    for cell in changed:
        before = _measured(siblings[_point(cell.folder)][0])
        if before is not None:
            old, now = _flat(before), _flat(cell.specification)
            names |= dict.fromkeys(name for name in {**old, **now} if old.get(name) != now.get(name))
    return f": {', '.join(names)}" if names else ""


def _measured(folder: Path) -> records.Specification | None:
    """Return the specification of what is in a folder of raw files, if it can be read."""
    raws = sorted(name for name in _listed(folder) if name.endswith(".json") and name.count(".") == 1)
    try:
        content = json.loads(sidecar_path(folder / raws[0]).read_text(encoding="utf-8"))
        found: records.Specification = content["specification"]
        _flat(found)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None
    return found
