"""Only drives that the configuration declares independent are measured at the same time."""

import contextlib
import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import Loop, loop_device
from support import Project, copy_project

from iopatterns.measuring import machine

Interval = tuple[str, str]


@pytest.fixture
def loops(disk_folder: Path) -> Iterator[dict[str, Loop]]:
    """Three disks, each with its own queue in the kernel."""
    with contextlib.ExitStack() as held:
        yield {name: held.enter_context(loop_device(disk_folder, name, 16)) for name in ("ssd-1", "ssd.2", "other")}


def project_on(loops: dict[str, Loop], root: Path, independent: list[str]) -> Project:
    project = copy_project(root)
    entries = {name: {"kind": "block", "path": str(loop.device), "serial": loop.serial} for name, loop in loops.items()}
    project.edit("config/drives.yaml", **entries)
    project.edit("config/config.yaml", drives=list(loops), independent_drives=independent, runtime="500 ms")
    one = {"vary": {"rw": ["read", "randread"], "bs": ["4k"]}}
    project.edit("config/studies/tiny.yaml", experiments={"one": one})
    return project


def intervals(project: Project) -> dict[str, list[Interval]]:
    """Return start and end of each run of fio by drive, sorted by time."""
    found: dict[str, list[Interval]] = {}
    for path in (project.root / "data/raw").glob("*/*/*/*.sidecar.json"):
        sidecar = json.loads(path.read_text())
        found.setdefault(sidecar["drive"]["name"], []).append((sidecar["started"], sidecar["ended"]))
    return {name: sorted(runs) for name, runs in found.items()}


def overlap(some: list[Interval], others: list[Interval]) -> bool:
    return any(start < end_of and start_of < end for start, end in some for start_of, end_of in others)


@pytest.mark.parametrize("independent", [[], ["ssd-1", "ssd.2"]], ids=["by default", "declared"])
def test_only_independent_drives_are_measured_at_the_same_time(
    loops: dict[str, Loop], disk_folder: Path, independent: list[str]
) -> None:
    project = project_on(loops, disk_folder / "project", independent)
    done = project.snakemake("--cores", "3", "collect_tiny")
    assert done.returncode == 0, done.stdout
    ran = intervals(project)
    assert {name: len(runs) for name, runs in ran.items()} == dict.fromkeys(loops, 4)
    assert overlap(ran["ssd-1"], ran["ssd.2"]) == bool(independent)
    assert not overlap(ran["other"], ran["ssd-1"] + ran["ssd.2"])
    for runs in ran.values():  # measurements of one drive never overlap
        assert all(ended <= started for (_, ended), (started, _) in itertools.pairwise(runs))


def test_independent_drives_on_the_same_disk_are_refused(disk_folder: Path) -> None:
    project = copy_project(disk_folder / "project")
    second = {"kind": "file", "path": "data/scratch/second.bin"}
    project.edit("config/drives.yaml", second=second)
    project.edit("config/config.yaml", drives=["scratch", "second"], independent_drives=["scratch", "second"])
    if not machine.whole_disks_under(project.root):
        pytest.skip("the kernel shows no disk under this checkout")
    said = project.snakemake("-n")
    assert said.returncode == 2
    assert "independent_drives: 'scratch' and 'second' are both on" in said.stdout
