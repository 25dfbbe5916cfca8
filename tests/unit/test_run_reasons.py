"""Reasons for measuring: new cells, changed cells, and missing repetitions."""

import json
import os
from collections.abc import Iterable
from typing import Any

import pytest
import yaml
from support import ROOT, Project

from iopatterns.configuration import grid
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.raw.metadata_files import metadata_path
from iopatterns.workflow import run_reasons
from iopatterns.workflow.planned_cells import load_cells

STUDIES = sorted(path.stem for path in (ROOT / "config/studies").glob("*.yaml"))
DRIVES = yaml.safe_load((ROOT / "config/config.yaml").read_text())["drives"]
STUDY = "config/studies/tiny.yaml"


def store(project: Project, cells: Iterable[grid.Cell]) -> None:
    """Write the first raw file of some cells with its metadata; the last cell gets the latest time."""
    for second, cell in enumerate(cells, start=1):
        raw = project.root / RAW_FOLDER / cell.folder / "01.json"
        raw.parent.mkdir(parents=True, exist_ok=True)
        raw.touch()
        metadata_path(raw).write_text(json.dumps({"specification": cell.specification}))
        os.utime(raw.parent, (second, second))


def reasons(project: Project, **values: Any) -> list[str]:
    cells = load_cells(project.root, values)
    unfinished = [cell for study in cells.studies for cell in cells.unfinished(cells.of_study(study))]
    return [line for line in run_reasons.measuring_reasons(cells, unfinished) if not line.startswith("Measuring ")]


@pytest.mark.parametrize("order", [1, -1])
def test_a_changed_seed_is_the_reason_in_every_study(project: Project, order: int) -> None:
    # the same points are also stored with another runtime and file size
    project.edit("config/config.yaml", drives=DRIVES, studies=STUDIES, runtime="1 s", file_size="1 GiB")
    for quick in ({"runtime": "500 ms", "file_size": "512 MiB"}, {}):
        cells = load_cells(project.root, quick)
        store(project, [cell for study in STUDIES for cell in cells.of_study(study)[::order]])
    lines = reasons(project, seed=1)
    assert [line.partition(": ")[0] for line in lines] == STUDIES
    assert [line for line in lines if not line.endswith(" changed: seed")] == []


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"seed": 2, "file_size": "32 MiB"}, "8 cells changed: seed, file_size"),
        ({"runtime": "200 ms"}, "8 cells changed: runtime"),
        ({"repetitions": 3}, "8 cells with repetitions to add"),
    ],
)
def test_changed_values_of_the_configuration_are_named(project: Project, changes: dict[str, Any], reason: str) -> None:
    before = load_cells(project.root, {"drives": ["c400"]})
    store(project, before.of_study("tiny"))
    assert f"tiny: {reason}" in reasons(project, drives=["c400"], **changes)


def test_a_changed_parameter_of_a_simulated_drive_is_named_without_its_digest(project: Project) -> None:
    entry = {"kind": "twin", "model": "c400"}
    project.edit("config/drives.yaml", mine=entry)
    store(project, load_cells(project.root, {"drives": ["mine"]}).of_study("tiny"))
    project.edit("config/drives.yaml", mine={**entry, "set": {"flash.channels": 2}})
    assert "tiny: 8 cells changed: parameters under set of the twin" in reasons(project, drives=["mine"])


def test_a_level_that_depends_on_the_file_size_is_no_reason(project: Project) -> None:
    study = yaml.safe_load((project.root / STUDY).read_text())
    body = {"regions": 4, "vary": {"rw": ["read"], "bs": ["4k"], "numjobs": [1, 4]}}
    project.edit(STUDY, experiments={**study["experiments"], "parts": body})
    store(project, load_cells(project.root, {"drives": ["scratch"]}).of_study("tiny"))
    (line,) = reasons(project, drives=["scratch"], file_size="32 MiB")
    assert line == "tiny: 10 cells changed: file_size"


def test_a_cell_with_the_levels_of_a_planned_cell_is_new(project: Project) -> None:
    store(project, load_cells(project.root, {"drives": ["c400"]}).of_study("tiny"))
    study = yaml.safe_load((project.root / STUDY).read_text())
    longer = {"drives": ["c400"], "runtime": "5 s", "vary": {"rw": ["read"], "bs": ["4k"]}}
    project.edit(STUDY, experiments={**study["experiments"], "longer": longer})
    cells = load_cells(project.root, {"drives": ["c400"]})
    lines = run_reasons.measuring_reasons(cells, cells.of_study("tiny")[-1:])
    assert lines[-1] == "tiny: 1 cell new"


def test_without_readable_metadata_changed_keys_are_not_named(project: Project) -> None:
    store(project, load_cells(project.root, {"drives": ["c400"]}).of_study("tiny"))
    for metadata in (project.root / RAW_FOLDER).glob("*/*/*/*.sidecar.json"):
        metadata.write_text("[]")
    assert "tiny: 8 cells changed" in reasons(project, drives=["c400"], seed=2)
