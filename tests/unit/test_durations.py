"""What a run took, and the forecasts that are made of it."""

import time
from pathlib import Path

import pytest
from support import copy_project

from iopatterns.workflow.durations import FILE, Durations, Run
from iopatterns.workflow.plan import Plan


def run_of(steps: dict[str, float], measured: tuple[float, float] | None = None, beside_s: float = 0.0) -> Run:
    """A run that took such times, of which ``beside_s`` were between its jobs."""
    jobs_s = sum(steps.values()) + (measured[1] if measured else 0.0)
    run = Run(began_s=time.monotonic() - jobs_s - beside_s)
    for rule, took_s in steps.items():
        run.step(rule, took_s)
    if measured:
        run.measuring("c400", *measured, real=False)
    return run


def test_the_first_forecast_knows_no_run(tmp_path: Path) -> None:
    known = Durations.load(tmp_path)
    assert known.measuring_s("c400", 10, real=False) == 10
    assert known.step_s("analyse_zhou") > known.step_s("report") > 0


def test_the_next_forecast_is_what_the_last_run_took(tmp_path: Path) -> None:
    run_of({"report": 5.0}, (10.0, 30.0), beside_s=7.0).keep(tmp_path)
    known = Durations.load(tmp_path)
    assert known.measuring_s("c400", 20, real=False) == pytest.approx(60)
    assert known.step_s("report") == 5
    assert known.beside_s == pytest.approx(7, abs=0.5)


def test_a_drive_that_was_not_measured_is_taken_for_one_of_its_kind(tmp_path: Path) -> None:
    run_of({}, (10.0, 30.0)).keep(tmp_path)
    known = Durations.load(tmp_path)
    assert known.measuring_s("other-twin", 1, real=False) == pytest.approx(3)
    assert known.measuring_s("a-disk", 1, real=True) == 1


def test_what_a_run_had_no_part_in_is_kept(tmp_path: Path) -> None:
    run_of({"report": 5.0, "analyse_zhou": 40.0}).keep(tmp_path)
    run_of({"report": 6.0}).keep(tmp_path)
    known = Durations.load(tmp_path)
    assert (known.step_s("report"), known.step_s("analyse_zhou")) == (6, 40)


def test_a_run_without_a_job_teaches_nothing(tmp_path: Path) -> None:
    Run().keep(tmp_path)
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"factors": {"c400": "much"}, "steps_s": {}, "beside_s": 1}', "\0"]
)
def test_a_file_that_is_damaged_is_as_none(content: str, tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir()
    (tmp_path / FILE).write_text(content)
    assert Durations.load(tmp_path) == Durations()


def test_the_plan_forecasts_the_same_run_as_what_it_took(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    overrides = {"drives": ["c400"], "repetitions": 10}
    plan = Plan(project.root, overrides)
    (forecast,) = plan.forecasts()
    steps = {"collect_saif2020": 4.0, "analyse_saif2020": 20.0, "judge": 6.0, "report": 5.0}
    run_of(steps, (forecast.seconds, 3 * forecast.seconds), beside_s=10.0).keep(project.root)
    said = Plan(project.root, overrides).forecast().splitlines()
    assert said[0].startswith("c400: 80 executions, about")
    assert said[1] == "Then 4 steps of analysis and report, about 45 s."
    assert said[2].startswith("In all about ")


def test_only_drives_that_are_measured_are_named(tmp_path: Path) -> None:
    project = copy_project(tmp_path / "project")
    overrides = {"drives": ["c400", "px02ssf020"], "repetitions": 1}
    for raw in Plan(project.root, overrides).raw_files("saif2020", "c400"):
        (project.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (project.root / raw).touch()
    assert "c400" not in Plan(project.root, overrides).forecast()
    for raw in Plan(project.root, overrides).raw_files("saif2020"):
        (project.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (project.root / raw).touch()
    assert Plan(project.root, overrides).forecast().splitlines()[0] == "Nothing is left to measure."
