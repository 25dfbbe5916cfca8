"""Measurements for tests: cells, their raw files, and `iopatterns measure`."""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from loops import Loop

from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata, write_metadata
from iopatterns.twin import models

MIB = 2**20
Spec = Any  # a `records.Specification`, or one that a test has made invalid


def twin_cell(model: str = "px05smb040", settings: Mapping[str, Any] | None = None, **options: Any) -> Spec:
    """Return the specification of a short random read on a simulated drive.

    ``options`` are those of fio.
    """
    drive = {"kind": "twin", "model": model, "name": "twin", "file_size_bytes": 64 * MIB}
    found: Spec = {
        "protocol": 2,
        "runtime_ms": 500,
        "warmup_ms": 0,
        "seed": 1,
        "drive": {**drive, "model_digest": models.load_model(model).digest},
        "fio": {"rw": "randread", "bs": 4096, "ioengine": "psync", "direct": 1, "group_reporting": 1, **options},
    }
    return found if settings is None else {**found, "settings": settings}


def writing(specification: Spec, **options: Any) -> Spec:
    """Return a specification with random writes, and with other options of fio."""
    return {**specification, "fio": {**specification["fio"], "rw": "randwrite", **options}}


def block_entry(loop: Loop, **changes: Any) -> dict[str, Any]:
    """Return the entry of a disk, with consent to writing; None removes a key."""
    entry = {"kind": "block", "path": str(loop.device), "serial": loop.serial, "destroy": loop.serial, **changes}
    return {key: value for key, value in entry.items() if value is not None}


def describe_drive(root: Path, entry: Mapping[str, Any], name: str = "disk") -> None:
    """Write config/drives.yaml of a project with one drive."""
    (root / "config").mkdir(parents=True, exist_ok=True)
    (root / "config/drives.yaml").write_text(yaml.safe_dump({name: dict(entry)}))


def raw_files(root: Path, specification: Spec, count: int = 1) -> list[Path]:
    """Return the paths of the first raw files of a cell in a project."""
    digest = cells.specification_digest(specification)[:8]
    folder = root / f"data/raw/{specification['drive']['name']}/study/cell-{digest}"
    return [folder / f"{number:02d}.json" for number in range(1, count + 1)]


def measured(root: Path, specification: Spec, count: int = 1) -> list[Path]:
    """Measure repetitions of a cell; return their raw files."""
    raws = raw_files(root, specification, count)
    measure_cell(root, specification, raws)
    return raws


def start(
    root: Path, specification: Spec, raws: Sequence[Path], *options: str, **popen: Any
) -> "subprocess.Popen[str]":
    """Start `iopatterns measure` for a cell; its standard error is a pipe."""
    words = ["measure", "--specification", json.dumps(specification), *options, *map(str, raws)]
    command = [sys.executable, "-m", "iopatterns", *words]
    return subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True, **popen)


def rewrite_metadata(raw: Path, changes: Mapping[str, object], *, of: Path | None = None) -> None:
    """Write valid metadata of a raw file, with changes.

    The unchanged metadata are those of the raw file ``of``, by default ``raw``.
    """
    content: Any = {**read_metadata(of or raw), **changes}
    del content["sha256"]
    write_metadata(raw, content)
