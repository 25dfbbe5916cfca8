"""The forecast of a run, which `snakemake plan` prints."""

from collections.abc import Iterable

import pytest
import yaml
from support import Project

from iopatterns.workflow import forecast
from iopatterns.workflow.planned_cells import load_cells


def touch(project: Project, raws: Iterable[str]) -> None:
    for raw in raws:
        (project.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (project.root / raw).touch()


def text(project: Project, **values: object) -> str:
    return forecast.forecast_text(load_cells(project.root, values))


def test_existing_raw_files_are_not_counted_and_simulated_drives_are_not_written(project: Project) -> None:
    values = {"drives": ["c400"], "repetitions": 10}
    cells = load_cells(project.root, values)
    (before,) = forecast.drive_forecasts(cells)
    assert (before.repetitions, before.written_bytes) == (80, 0)
    touch(project, cells.raw_files(cells.of_study("tiny"))[:1])
    assert forecast.drive_forecasts(load_cells(project.root, values))[0].repetitions == 79


def test_written_bytes_include_filling_the_file_and_writing_workloads(project: Project) -> None:
    values = {"drives": ["scratch"], "repetitions": 10, "runtime": "1 s", "file_size": "1 GiB"}
    (found,) = forecast.drive_forecasts(load_cells(project.root, values))
    # two writing workloads with two block sizes, ten repetitions of a second each, at 1 GB/s
    assert found.written_bytes == 40 * 10**9 + 2**30
    assert found.seconds == pytest.approx(80 * 1.35, rel=0.01)


def test_the_text_has_a_line_for_each_drive_and_the_total(project: Project) -> None:
    first, second, steps, total = text(project, drives=["scratch", "c400"]).splitlines()
    assert first.startswith("scratch: 16 repetitions")
    assert "GB written" in first
    assert second.endswith("simulated: nothing is written")
    assert steps.startswith("Then 4 steps of analysis and report, about ")
    assert total.startswith("Total: about ")


def test_a_completely_measured_drive_is_left_out(project: Project) -> None:
    values = {"drives": ["c400", "ssdsc2kg480g7"], "repetitions": 1}
    cells = load_cells(project.root, values)
    touch(project, cells.raw_files(cells.of_study("tiny", "c400")))
    assert "c400" not in text(project, **values)
    touch(project, cells.raw_files(cells.of_study("tiny")))
    assert text(project, **values).splitlines()[0] == "All measurements are complete."


def test_studies_with_their_own_number_of_repetitions_are_listed(project: Project) -> None:
    values = {"drives": ["c400"], "repetitions": 3}
    assert "Repetitions of a cell" not in text(project, **values)
    project.edit("config/studies/tiny.yaml", repetitions=5)
    assert "Repetitions of a cell: 3; set by the study's file: tiny 5" in text(project, **values).splitlines()


def test_a_drive_that_no_configured_study_names_has_nothing_to_measure(project: Project) -> None:
    assert "nothing to measure" not in text(project, drives=["c400", "ssdsc2kg480g7", "scratch"])
    study = yaml.safe_load((project.root / "config/studies/tiny.yaml").read_text())
    other = {**study, "experiments": {"initial": {**study["experiments"]["initial"], "drives": ["ssdsc2kg480g7"]}}}
    (project.root / "config/studies/other.yaml").write_text(yaml.safe_dump(other))
    found = text(project, drives=["c400", "ssdsc2kg480g7"], studies=["other"])
    assert "c400: nothing to measure, because no experiment of other names it" in found


def test_independent_drives_are_listed_as_measured_at_the_same_time(project: Project) -> None:
    project.edit("config/drives.yaml", second={"kind": "file", "path": "second.bin"})
    found = text(project, drives=["scratch", "second"], independent_drives=["scratch", "second"])
    assert found.endswith("less with --cores 2, which measures scratch, second at the same time.")


@pytest.mark.slow
def test_snakemake_plan_prints_the_forecast_and_measures_nothing(project: Project) -> None:
    done = project.snakemake("plan", "--config", "drives=[c400]")
    assert done.returncode == 0, done.stdout
    assert "c400: 16 repetitions" in done.stdout
    assert not list((project.root / "data/raw").glob("*/*"))
