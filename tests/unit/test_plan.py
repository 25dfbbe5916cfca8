"""What a plan says before anything runs: how many executions, how long, how much is written."""

import os
import shlex
from pathlib import Path

import pytest
import yaml
from support import ROOT, Project, copy_project

from iopatterns.configuration.grid import GridError
from iopatterns.measuring import health, progress
from iopatterns.workflow.plan import Plan


@pytest.fixture
def fresh(tmp_path: Path) -> Project:
    return copy_project(tmp_path / "project")


def test_twins_write_nothing(fresh: Project) -> None:
    (forecast,) = Plan(fresh.root, {"drives": ["c400"], "repetitions": 10}).forecasts()
    assert (forecast.executions, forecast.written_bytes) == (80, 0)


def test_an_execution_that_is_there_is_not_planned_again(fresh: Project) -> None:
    plan = Plan(fresh.root, {"drives": ["c400"], "repetitions": 10})
    raw = fresh.root / plan.raw_files("saif2020")[0]
    raw.parent.mkdir(parents=True)
    raw.touch()
    assert plan.forecasts()[0].executions == 79


def test_a_file_is_laid_out_and_written_by_the_writing_half(fresh: Project) -> None:
    plan = Plan(fresh.root, {"drives": ["scratch"], "repetitions": 10, "runtime": "1 s", "file_size": "1 GiB"})
    (forecast,) = plan.forecasts()
    # two writing workloads with two block sizes, ten executions of a second each, at 1 GB/s
    assert forecast.written_bytes == 40 * 10**9 + 2**30
    assert forecast.seconds == pytest.approx(80 * 1.35, rel=0.01)


def test_the_forecast_names_each_drive_and_the_sum(fresh: Project) -> None:
    said = Plan(fresh.root, {"drives": ["scratch", "c400"]}).forecast()
    first, second, steps, total = said.splitlines()
    assert first.startswith("scratch: 16 executions")
    assert "GB written" in first
    assert second.endswith("simulated: nothing is written")
    assert steps.startswith("Then 4 steps of analysis and report, about ")
    assert total.startswith("In all about ")


@pytest.mark.slow
def test_snakemake_plan_prints_it_and_measures_nothing(fresh: Project) -> None:
    said = fresh.snakemake("plan", "--config", "drives=[c400]")
    assert said.returncode == 0, said.stdout
    assert "c400: 16 executions" in said.stdout
    assert not list((fresh.root / "data/raw").glob("*/*"))


def test_independent_drives_take_a_resource_each_and_all_others_every_one(fresh: Project) -> None:
    paths = {name: f"{fresh.root}/{name}.bin" for name in ("one", "two", "three")}
    fresh.edit("config/drives.yaml", **{name: {"kind": "file", "path": path} for name, path in paths.items()})

    def taken(independent: list[str], *drives: str) -> dict[str, list[int]]:
        plan = Plan(fresh.root, {"drives": list(drives), "independent_drives": independent})
        return {drive: [plan.occupies(drive, resource) for resource in plan.resources] for drive in drives}

    assert taken([], "one", "two", "c400") == {"one": [1], "two": [1], "c400": [0]}
    assert taken(["one"], "one", "three") == {"one": [0, 1], "three": [1, 1]}
    # one that is not measured in this run takes no part in it
    assert taken(["one", "two"], "three") == {"three": [1]}


def test_drives_of_other_hosts_do_not_wait_for_each_other(fresh: Project) -> None:
    hosts = {"one": "node1", "two": "node1", "three": "node2", "four": ""}
    for name, host in hosts.items():
        entry = {"kind": "file", "path": f"{fresh.root}/{name}.bin", **({"host": host} if host else {})}
        fresh.edit("config/drives.yaml", **{name: entry})
    plan = Plan(fresh.root, {"drives": [*hosts, "c400"], "independent_drives": ["two"]})
    taken = {drive: {each for each in plan.resources if plan.occupies(drive, each)} for drive in [*hosts, "c400"]}
    assert taken == {
        "one": {"real_drives_of_node1", "real_drive_two"},
        "two": {"real_drive_two"},
        "three": {"real_drives_of_node2"},
        "four": {"real_drive"},
        "c400": set(),
    }
    assert [plan.slurm_extra(drive) for drive in taken] == [
        "--exclusive --nodelist=node1",
        "--nodelist=node1",
        "--exclusive --nodelist=node2",
        "",
        "",
    ]


def test_a_host_is_no_part_of_a_cell(fresh: Project) -> None:
    def raws(**more: str) -> list[str]:
        fresh.edit("config/drives.yaml", mine={"kind": "file", "path": "mine.bin", **more})
        return Plan(fresh.root, {"drives": ["mine"]}).raw_files("saif2020")

    assert raws(host="node1") == raws()


def test_a_time_limit_grows_with_the_batch_and_with_each_attempt(fresh: Project) -> None:
    def limit(attempt: int, **values: object) -> int:
        plan = Plan(fresh.root, {"drives": ["c400"], **values})
        return plan.time_limit_min(plan.batches("saif2020")[0], attempt)

    assert 10 <= limit(1, repetitions=1, runtime="10 ms") <= 12
    assert limit(1, repetitions=500, runtime="60 s") > 60
    assert limit(3, repetitions=500, runtime="60 s") > 2 * limit(1, repetitions=500, runtime="60 s")


def test_the_forecast_says_what_is_measured_at_the_same_time(fresh: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    fresh.edit("config/drives.yaml", second={"kind": "file", "path": "second.bin"})
    monkeypatch.setattr(Plan, "_disks", lambda plan, drive: [drive])  # as if they were on two
    overrides = {"drives": ["scratch", "second"], "independent_drives": ["scratch", "second"]}
    said = Plan(fresh.root, overrides).forecast()
    assert said.endswith("less with --cores 2: scratch, second are measured at the same time then.")


@pytest.mark.parametrize(("drive", "told"), [("scratch", 1), ("c400", 0)])
def test_that_health_is_not_recorded_is_told_once_a_run(
    fresh: Project, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], drive: str, told: int
) -> None:
    for variable in ("PATH", progress.VARIABLE):  # which a run sets for its jobs
        monkeypatch.setenv(variable, os.environ.get(variable, ""))
    for tool, times in (("smartctl", 0), (None, told)):
        monkeypatch.setattr(health, "tool", lambda tool=tool: tool)
        Plan(fresh.root, {"drives": [drive]}).begin()
        assert "".join(capfd.readouterr()).count("apt-get install smartmontools") == times


def test_a_drive_that_no_configured_study_names_has_nothing_to_do_and_the_plan_says_so(fresh: Project) -> None:
    said = Plan(fresh.root, {"drives": ["c400", "px05smb040", "scratch"]})
    assert "named by no experiment" not in said.forecast()
    study = yaml.safe_load((fresh.root / "config/studies/saif2020.yaml").read_text())
    other = {**study, "experiments": {"initial": {**study["experiments"]["initial"], "drives": ["px05smb040"]}}}
    (fresh.root / "config/studies/other.yaml").write_text(yaml.safe_dump(other))
    plan = Plan(fresh.root, {"drives": ["c400", "px05smb040"], "studies": ["other"]})
    assert "c400: named by no experiment of other: nothing to measure" in plan.forecast()
    assert {path.split("/")[2] for path in plan.raw_files("other")} == {"px05smb040"}


def test_a_study_without_a_cell_says_which_drives_it_is_for(fresh: Project) -> None:
    study = yaml.safe_load((fresh.root / "config/studies/saif2020.yaml").read_text())
    for body in study["experiments"].values():
        body["drives"] = ["px05smb040"]
    (fresh.root / "config/studies/other.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(GridError, match=r"none has a cell of the study other\. Add one of those .* \(px05smb040\)"):
        Plan(fresh.root, {"drives": ["c400"], "studies": ["saif2020", "other"]})
    (fresh.root / "config/studies/other.yaml").write_text(
        yaml.safe_dump({**study, "experiments": {"e": {"vary": {"rw": ["read"], "bs": ["4k"]}}}})
    )
    with pytest.raises(GridError, match=r"none has a cell of the study other\. Name drives in its file"):
        Plan(fresh.root, {"drives": ["c400"], "studies": ["other"]})


def test_a_twin_under_a_name_of_your_own_gets_every_study(fresh: Project) -> None:
    fresh.edit("config/drives.yaml", **{"my-c400": {"kind": "twin", "model": "c400"}})
    overrides = {
        "drives": ["my-c400"],
        "studies": ["saif2020", "zhou", "clarke2024", "datasheets", "kapoor", "park2009"],
        "file_size": "1 GiB",
    }
    plan = Plan(fresh.root, {**overrides, "runtime": "1 s"})
    for study in plan.studies:
        content = plan.config.studies[study]
        asked = {name for names in plan.experiments(study).values() for name in names}
        assert asked == set(content["experiments"])


@pytest.mark.parametrize(
    ("study", "most_cells"), [("zhou", 80), ("clarke2024", 15), ("datasheets", 24), ("kapoor", 71), ("park2009", 47)]
)
def test_cells_of_a_study_are_as_few_as_the_run_can_afford(fresh: Project, study: str, most_cells: int) -> None:
    fresh.edit("config/drives.yaml", mine={"kind": "twin", "model": "c400"})
    plan = Plan(fresh.root, {"drives": ["mine"], "studies": [study], "file_size": "1 GiB", "runtime": "1 s"})
    assert len(plan.experiments(study)) <= most_cells


def test_a_changed_log_is_measured_again_and_nothing_else(fresh: Project) -> None:
    study = yaml.safe_load((fresh.root / "config/studies/saif2020.yaml").read_text())
    vary = {"read_iolog": ["x.iolog", "y.iolog"]}
    fresh.edit("config/studies/saif2020.yaml", experiments={**study["experiments"], "own": {"vary": vary}})
    (fresh.root / "y.iolog").write_text("fio version 2 iolog\na write 0 512\n")

    def raw_files(log: str) -> set[str]:
        (fresh.root / "x.iolog").write_text(log)
        return set(Plan(fresh.root, {"drives": ["scratch"]}).raw_files("saif2020"))

    before = raw_files("fio version 2 iolog\na read 0 512\n")
    after = raw_files("fio version 2 iolog\na read 512 512\n")
    assert {path.split("/")[4].rsplit("-", 1)[0] for path in before - after} == {"randread-512-j1-logx"}
    assert len(before - after) == len(after - before) == 2
    assert any("randwrite-512-j1-logy-" in path for path in before & after)


# ---- Batches: the cells that one job measures


def test_the_batches_of_a_study_hold_each_raw_file_once_and_one_drive_each() -> None:
    plan = Plan(ROOT)
    for study in plan.studies:
        batches = plan.batches(study)
        assert [raw for batch in batches for raw in batch.raw_files] == plan.raw_files(study)
        assert len({batch.name for batch in batches}) == len(batches)
        for batch in batches:
            assert {raw.split("/")[2] for raw in batch.raw_files} == {batch.drive}


def test_what_is_measured_already_changes_no_batch(fresh: Project) -> None:
    overrides = {"drives": ["c400", "scratch"], "repetitions": 2}
    before = Plan(fresh.root, overrides).batches("saif2020")
    for raw in before[0].raw_files[:5]:
        (fresh.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (fresh.root / raw).touch()
    assert Plan(fresh.root, overrides).batches("saif2020") == before


def test_a_cell_that_takes_seconds_is_a_batch_of_its_own(fresh: Project) -> None:
    times = {"repetitions": 10, "runtime": "1 s"}
    batches = Plan(fresh.root, {"drives": ["scratch"], **times}).batches("saif2020")
    assert [len(batch.raw_files) for batch in batches] == [10] * 8
    (batch,) = Plan(fresh.root, {"drives": ["scratch"], "repetitions": 1, "runtime": "10 ms"}).batches("saif2020")
    assert len(batch.raw_files) == 8


def test_the_command_line_of_a_batch_is_one_that_the_kernel_takes(fresh: Project) -> None:
    study = yaml.safe_load((fresh.root / "config/studies/saif2020.yaml").read_text())
    vary = {"rw": ["read"], "bs": ["4k"], "thinktime": [f"{number} us" for number in range(500)]}
    fresh.edit("config/studies/saif2020.yaml", experiments={"many": {**study["experiments"]["initial"], "vary": vary}})
    plan = Plan(fresh.root, {"drives": ["c400"], "repetitions": 1, "runtime": "10 ms"})
    batches = plan.batches("saif2020")
    assert 1 < len(batches) < 50
    for batch in batches:
        words = [*plan.specifications(batch.raw_files), *batch.raw_files]
        # Snakemake gives all of it to the shell as one word (execve(2), MAX_ARG_STRLEN)
        assert len(shlex.join(words)) < 128 * 1024 - 1000


@pytest.mark.parametrize(
    ("oldest_first", "watched"),
    [
        ([], ["04"]),
        (["01", "02"], ["04"]),  # its job measures what is missing
        (["01", "02", "03"], ["04"]),
        (["01", "02", "03", "04"], ["04"]),
        (["01", "03", "04"], ["02", "04"]),
        (["01", "02", "04", "03"], ["03", "04"]),
        (["04", "01"], ["01", "02", "03", "04"]),
    ],
)
def test_snakemake_is_told_of_the_last_execution_of_a_cell_and_of_what_that_does_not_stand_for(
    oldest_first: list[str], watched: list[str], fresh: Project
) -> None:
    overrides = {"drives": ["c400"], "repetitions": 4, "runtime": "10 ms"}
    raws = Plan(fresh.root, overrides).raw_files("saif2020")
    first, others = Path(raws[0]).parent, [raw for raw in raws[4:] if raw.endswith("/04.json")]
    for second, name in enumerate(oldest_first, start=1):
        path = fresh.root / first / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (second, second))
    plan = Plan(fresh.root, overrides)
    told = [f"{first}/{name}.json" for name in watched]
    assert plan.watched_files("saif2020") == told + others
    (batch,) = plan.batches("saif2020")
    assert plan.watched(batch.raw_files) == told + others
    assert plan.all_of_cells(told + others) == raws


def test_what_built_the_package_is_a_parameter_of_rules_of_which_a_default_run_makes_nothing() -> None:
    rules = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")}
    assert {name for name, text in rules.items() if "PLAN.built(" in text} == {"ablate", "calibrate", "capture"}


def test_the_cells_of_a_batch_that_lack_something_are_named(fresh: Project) -> None:
    plan = Plan(fresh.root, {"drives": ["c400"], "repetitions": 2, "runtime": "10 ms"})
    (batch,) = plan.batches("saif2020")
    whole, half, *others = dict.fromkeys(Path(raw).parent for raw in batch.raw_files)
    for raw in (whole / "01.json", whole / "02.json", half / "01.json"):
        (fresh.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (fresh.root / raw).touch()
    lines = plan.to_measure(batch.raw_files).splitlines()
    assert lines == [f"Measuring saif2020 on c400: {cell.name}" for cell in (half, *others)]
    assert plan.to_measure([f"{whole}/01.json"]) == "Seeing that all is there of 1 cells"
