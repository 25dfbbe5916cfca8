"""What `snakemake plan` prints: repetitions, time, and bytes written."""

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from support import Project, copy_project

from iopatterns.workflow import forecast
from iopatterns.workflow.planned_cells import load_cells


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    return copy_project(tmp_path / "project")


def touch(project: Project, raws: Iterable[str]) -> None:
    for raw in raws:
        (project.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (project.root / raw).touch()


def text(project: Project, **values: object) -> str:
    return forecast.forecast_text(load_cells(project.root, values))


def test_twins_write_nothing(fresh: Project) -> None:
    (found,) = forecast.drive_forecasts(load_cells(fresh.root, {"drives": ["c400"], "repetitions": 10}))
    assert (found.repetitions, found.written_bytes) == (80, 0)


def test_a_raw_file_that_exists_is_not_counted(fresh: Project) -> None:
    values = {"drives": ["c400"], "repetitions": 10}
    cells = load_cells(fresh.root, values)
    touch(fresh, cells.raw_files(cells.of_study("tiny"))[:1])
    assert forecast.drive_forecasts(load_cells(fresh.root, values))[0].repetitions == 79


def test_a_file_is_filled_and_written_by_the_writing_half(fresh: Project) -> None:
    values = {"drives": ["scratch"], "repetitions": 10, "runtime": "1 s", "file_size": "1 GiB"}
    (found,) = forecast.drive_forecasts(load_cells(fresh.root, values))
    # two writing workloads with two block sizes, ten repetitions of a second each, at 1 GB/s
    assert found.written_bytes == 40 * 10**9 + 2**30
    assert found.seconds == pytest.approx(80 * 1.35, rel=0.01)


def test_the_forecast_names_each_drive_and_the_sum(fresh: Project) -> None:
    first, second, steps, total = text(fresh, drives=["scratch", "c400"]).splitlines()
    assert first.startswith("scratch: 16 repetitions")
    assert "GB written" in first
    assert second.endswith("simulated: nothing is written")
    assert steps.startswith("Then 4 steps of analysis and report, about ")
    assert total.startswith("Total: about ")


def test_a_drive_that_is_measured_already_is_not_in_the_forecast(fresh: Project) -> None:
    values = {"drives": ["c400", "ssdsc2kg480g7"], "repetitions": 1}
    cells = load_cells(fresh.root, values)
    touch(fresh, cells.raw_files(cells.of_study("tiny", "c400")))
    assert "c400" not in text(fresh, **values)
    touch(fresh, cells.raw_files(cells.of_study("tiny")))
    assert text(fresh, **values).splitlines()[0] == "All measurements are complete."


def test_studies_that_set_their_repetitions_are_named(fresh: Project) -> None:
    values = {"drives": ["c400"], "repetitions": 3}
    assert "Repetitions of a cell" not in text(fresh, **values)
    fresh.edit("config/studies/tiny.yaml", repetitions=5)
    assert "Repetitions of a cell: 3; set by the study's file: tiny 5" in text(fresh, **values).splitlines()


def test_a_drive_that_no_configured_study_names_has_nothing_to_measure(fresh: Project) -> None:
    assert "nothing to measure" not in text(fresh, drives=["c400", "ssdsc2kg480g7", "scratch"])
    study = yaml.safe_load((fresh.root / "config/studies/tiny.yaml").read_text())
    other = {**study, "experiments": {"initial": {**study["experiments"]["initial"], "drives": ["ssdsc2kg480g7"]}}}
    (fresh.root / "config/studies/other.yaml").write_text(yaml.safe_dump(other))
    cells = load_cells(fresh.root, {"drives": ["c400", "ssdsc2kg480g7"], "studies": ["other"]})
    assert "c400: nothing to measure, because no experiment of other names it" in forecast.forecast_text(cells)
    assert {cell.drive for cell in cells.of_study("other")} == {"ssdsc2kg480g7"}


def test_the_forecast_names_drives_measured_at_the_same_time(fresh: Project) -> None:
    fresh.edit("config/drives.yaml", second={"kind": "file", "path": "second.bin"})
    said = text(fresh, drives=["scratch", "second"], independent_drives=["scratch", "second"])
    assert said.endswith("less with --cores 2, which measures scratch, second at the same time.")


@pytest.mark.slow
def test_snakemake_plan_prints_the_forecast_and_measures_nothing(fresh: Project) -> None:
    said = fresh.snakemake("plan", "--config", "drives=[c400]")
    assert said.returncode == 0, said.stdout
    assert "c400: 16 repetitions" in said.stdout
    assert not list((fresh.root / "data/raw").glob("*/*"))
