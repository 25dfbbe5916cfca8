"""Cells are measured at the scale of the source, recorded, and compared with the default run."""

import json
import re
from typing import Any

import pytest
import yaml
from support import FIXTURE, FIXTURE_GRID, FIXTURE_STUDY, Project, copy_project

RECORD = "data/scale/tiny.yaml"
# The source transferred a file of 96 MiB once; four jobs had a part of 24 MiB each
SCALE: dict[str, Any] = {"place": "Section 1", "file_size": "96 MiB", "one_pass": True}
# The buffer of the C400 takes the first writes, so that a short run shows more than the flash writes
DIFFERING = ("rw=write bs=28k", "rw=randwrite bs=28k")


def experiments(**more: Any) -> dict[str, Any]:
    """Return two experiments with a stated scale, and one without.

    Args:
        more: Further keys of the stated scales.
    """
    bodies = yaml.safe_load((FIXTURE / FIXTURE_GRID).read_text())["experiments"]
    bodies["initial"]["source_scale"] = {**SCALE, **more}
    bodies["concurrency"] |= {"vary": {"numjobs": [4], "rw": ["randread"], "bs": ["28k"]}}
    bodies["concurrency"]["source_scale"] = {**SCALE, "regions": 4, **more}
    bodies["depth"] |= {"drives": ["c400"], "source_scale": "not stated"}
    return {name: bodies[name] for name in ("initial", "concurrency", "depth")}


@pytest.fixture(scope="module")
def scaled(module_disk_folder: Any) -> tuple[Project, str]:
    """Return a project whose default run differs from the scale of the source, and what `snakemake scale` printed."""
    project = copy_project(module_disk_folder / "scaled")
    project.edit("config/config.yaml", drives=["c400"], file_size="64 MiB", runtime="20 ms", repetitions=2)
    project.edit(FIXTURE_GRID, experiments=experiments())
    done = project.snakemake("scale")
    assert done.returncode == 1, done.stdout
    return project, done.stdout


def record(project: Project) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((project.root / RECORD).read_text())
    return content


def scale_of(project: Project) -> dict[str, Any]:
    assert project.snakemake("results/scorecard.json").returncode == 0
    card = json.loads((project.root / "results/scorecard.json").read_text())
    found: dict[str, Any] = card["studies"][FIXTURE_STUDY]["scale"]
    return found


def test_the_record_has_the_cells_whose_source_states_another_scale(scaled: tuple[Project, str]) -> None:
    cells = record(scaled[0])["cells"]
    assert {name: list(drives) for name, drives in cells.items()} == {"initial": ["c400"], "concurrency": ["c400"]}
    assert len(cells["initial"]["c400"]) == 8
    assert list(cells["concurrency"]["c400"]) == ["rw=randread bs=28k numjobs=4"]
    assert all(value > 0 for cell in cells["initial"]["c400"].values() for value in cell.values())


def test_each_job_transfers_its_part_of_the_file_once(scaled: tuple[Project, str]) -> None:
    project, _ = scaled
    found = {}
    for path in (project.root / "results/scale/raw").glob("*/*/*/01.json"):
        job = json.loads(path.read_text())["jobs"][0]
        found[path.parent.name.rpartition("-")[0]] = job["read"]["io_bytes"] + job["write"]["io_bytes"]
    size_bytes, block_bytes = 96 * 2**20, 28 * 2**10
    assert found["randread-4k-j1"] == found["write-4k-j1"] == size_bytes
    assert found["randread-28k-j1"] == size_bytes // block_bytes * block_bytes
    (jobs,) = (value for name, value in found.items() if "j4" in name)
    assert jobs == 4 * (size_bytes // 4 // block_bytes * block_bytes)


def test_a_cell_that_differs_fails_the_command_and_says_what_to_change(scaled: tuple[Project, str]) -> None:
    printed = " ".join(scaled[1].split())
    assert "config/studies/tiny.yaml: experiments.initial: the default run differs from the scale" in printed
    for levels in DIFFERING:
        assert re.search(rf"bandwidth on c400, {levels}: \S+ MB/s, and \S+ MB/s in \S+ s at the scale", printed)
    assert "Traceback" not in printed


def test_the_scorecard_compares_the_run_with_the_record(scaled: tuple[Project, str]) -> None:
    project, _ = scaled
    found = scale_of(project)
    assert (found["shorter"], found["same"], found["not_stated"], found["unknown"]) == (9, 0, 3, 0)
    assert found["agree"] == 9 - len({row["levels"] for row in found["differing"]})
    assert set(DIFFERING) <= {row["levels"] for row in found["differing"]}
    for row in found["differing"]:
        assert not min(row["low"], 0.98 * row["mean"]) <= row["at_scale"] <= max(row["high"], 1.02 * row["mean"])
    assert found["stale"] == []
    done = project.iopatterns("scorecard", "--expect")
    assert done.returncode == 0, done.stdout
    assert f"tiny: {found['agree']} of 9 shorter cells agree" in project.iopatterns("scorecard").stdout


def test_a_default_run_that_is_lengthened_agrees(scaled: tuple[Project, str]) -> None:
    project, _ = scaled
    longer = experiments()
    seconds = record(project)["cells"]["initial"]["c400"][DIFFERING[0]]["seconds"]
    longer["initial"]["runtime"] = f"{1000 * seconds:.0f} ms"
    project.edit("config/config.yaml", file_size="96 MiB")
    project.edit(FIXTURE_GRID, experiments=longer)
    try:
        found = scale_of(project)
        assert found["stale"] == []
        assert [row for row in found["differing"] if row["levels"] == DIFFERING[0]] == []
    finally:
        project.edit("config/config.yaml", file_size="64 MiB")
        project.edit(FIXTURE_GRID, experiments=experiments())


def test_a_reason_in_the_file_of_the_study_is_accepted(scaled: tuple[Project, str]) -> None:
    project, _ = scaled
    project.edit(FIXTURE_GRID, experiments=experiments(differs="The run shows the buffer"))
    try:
        before = (project.root / "results/scale/raw").stat().st_mtime_ns
        done = project.snakemake("scale")
        assert done.returncode == 0, done.stdout
        assert "repetitions in" not in done.stdout  # nothing is measured again
        assert (project.root / "results/scale/raw").stat().st_mtime_ns == before
        assert {row["because"] for row in scale_of(project)["differing"]} == {"The run shows the buffer"}
        assert "the default run differs" not in project.iopatterns("scorecard").stdout
    finally:
        project.edit(FIXTURE_GRID, experiments=experiments())


def test_a_record_is_stale_if_a_model_changes(scaled: tuple[Project, str]) -> None:
    project, _ = scaled
    before = (project.root / RECORD).read_bytes()
    content = record(project)
    content["made_from"]["data/twins/c400.yaml"] = "0" * 16
    try:
        (project.root / RECORD).write_text(yaml.safe_dump(content))
        assert scale_of(project)["stale"] == ["data/twins/c400.yaml"]
        printed = project.iopatterns("scorecard").stdout
        assert f"{RECORD} is stale: data/twins/c400.yaml changed since it was made" in printed
        assert "snakemake --cores 2 scale" in printed
    finally:
        (project.root / RECORD).write_bytes(before)


@pytest.mark.parametrize(
    ("scale", "message"),
    [
        ({"file_size": "1 GiB"}, "source_scale: the key 'place' is missing"),
        ({**SCALE, "runtime": "1 s"}, "source_scale.runtime: '1 s' is not valid. Expected: no runtime beside one_pass"),
        ({"place": "1", "file_size": "1000 KiB"}, "source_scale.file_size: '1000 KiB' must be whole MiB"),
        ("unknown", "source_scale: 'unknown' is not valid"),
        ({"place": "1", "file_sise": "1 GiB"}, "unknown key 'file_sise'. Did you mean 'file_size'?"),
    ],
)
def test_an_invalid_scale_is_refused_before_anything_runs(
    scaled: tuple[Project, str], scale: Any, message: str
) -> None:
    project, _ = scaled
    bodies = experiments()
    bodies["initial"]["source_scale"] = scale
    project.edit(FIXTURE_GRID, experiments=bodies)
    try:
        done = project.snakemake("-n", "scale")
        assert done.returncode == 2
        assert message in done.stdout
        assert "Traceback" not in done.stdout
    finally:
        project.edit(FIXTURE_GRID, experiments=experiments())
