"""Ablation of kernel and file system: a trace, recorded with a mechanism off, is replayed in the place of another."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support import FIXTURE_STUDY, ROOT, Project, copy_project, copy_recorded_results

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, drive_entries, grid
from iopatterns.judging import scorecard
from iopatterns.workflow import ablation, ablation_runs

RECORDED = "data/traces/kapoor/zombies-small-10.parquet"
WITHOUT = "data/traces/kapoor/zombies-small-1.parquet"
MECHANISM = {"says": "The kernel reads ahead of programs", "traces": {RECORDED: WITHOUT}}
NAME = "read-ahead of the kernel"
SLUG = "kapoor.read-ahead-of-the-kernel"
RECORD = "data/ablation/kapoor.yaml"
# Of all studies: no drive measured here has it
OF_ALL = {"seeks": {"says": "Heads move", "set": [{"disk.average_seek": 0}]}}
EXPERIMENTS = ("zombies-small", "scale")
DRIVE = "kapoor-128m"
PLACE = f"config/studies/kapoor.yaml: mechanisms.{NAME}: traces:"

# Runs are here in the test's own process, which makes errors of warnings that pandas gives of how rows get their types
pytestmark = pytest.mark.filterwarnings("ignore:The convert_:DeprecationWarning")


def declare(project: Project, **changes: Any) -> None:
    project.edit("config/studies/kapoor.yaml", mechanisms={NAME: {**MECHANISM, **changes}})


@pytest.fixture(scope="module")
def project(module_disk_folder: Path) -> Project:
    """A project with one mechanism of the kernel, and two experiments of kapoor; it is of a trace of the first."""
    project = copy_project(module_disk_folder / "project", without=("notebooks", "paper"))
    project.edit("config/config.yaml", drives=[DRIVE, "s3500"], studies=["kapoor"])
    study = yaml.safe_load((project.root / "config/studies/kapoor.yaml").read_text(encoding="utf-8"))
    experiments = {name: study["experiments"][name] for name in EXPERIMENTS}
    project.edit("config/studies/kapoor.yaml", experiments=experiments)
    project.edit("config/ablations.yaml", mechanisms=OF_ALL)
    declare(project)
    return project


def declared(project: Project) -> list[ablation.Mechanism]:
    """Return the mechanisms of the study alone."""
    return [each for each in ablation.load_mechanisms(config.load_config(project.root)) if each.study is not None]


# ---- What may be declared


@pytest.mark.parametrize(
    ("mechanism", "message"),
    [
        (
            {"says": "It reads ahead", "traces": {"data/traces/kapoor/zombies-smal-10.parquet": WITHOUT}},
            f"{PLACE} no experiment of the study replays 'data/traces/kapoor/zombies-smal-10.parquet'. Did you mean"
            f" '{RECORDED}'?",
        ),
        (
            {"says": "It reads ahead", "traces": {RECORDED: "data/traces/kapoor/zombies-small-11.parquet"}},
            f"{PLACE} there is no file 'data/traces/kapoor/zombies-small-11.parquet'. Did you mean '{WITHOUT}'?",
        ),
        (
            {"says": "It reads ahead", "traces": {RECORDED: "x" * 300}},
            f"{PLACE} there is no file 'xxx",
        ),
        ({**MECHANISM, "set": [{"read_ahead.window": 0}]}, " Expected: one of set, to which models may be added, and "),
        ({**MECHANISM, "models": ["wiscsim"]}, " Expected: one of set, to which models may be added, and traces,"),
        (
            {"says": "It is slow", "set": [{"read_ahead.window": 0}], "drive": "s3500"},
            " Expected: one of set, to which models may be added, and traces,",
        ),
        (
            {**MECHANISM, "drive": "s350"},
            f"{PLACE.removesuffix('traces:')}drive: there is no simulated drive 's350'. Did you mean 's3500'?",
        ),
        (
            {"says": "It reads ahead", "traces": {}},
            f"mechanisms.{NAME}.traces: must not be empty. Expected: replayed traces, each with the trace that",
        ),
        (
            {"says": "It reads ahead", "traces": {RECORDED: 1}},
            ": 1 is not valid. Expected: the path of a trace that was recorded with the mechanism off.",
        ),
    ],
)
def test_what_cannot_be_replaced_is_told(project: Project, mechanism: dict[str, Any], message: str) -> None:
    project.edit("config/studies/kapoor.yaml", mechanisms={NAME: mechanism})
    try:
        with pytest.raises(IoPatternsError) as raised:
            declared(project)
        assert message in str(raised.value)
        assert len(str(raised.value).splitlines()) == 1
    finally:
        declare(project)


def test_what_the_source_does_not_say_of_its_programs_is_told_as_assumed(project: Project) -> None:
    declare(project, assumed=True)
    try:
        assert [each.kind for each in declared(project)] == ["assumed"]
    finally:
        declare(project)
    assert [each.kind for each in declared(project)] == ["traces"]


def test_a_mechanism_of_traces_belongs_into_the_file_of_its_study(project: Project) -> None:
    project.edit("config/ablations.yaml", mechanisms={NAME: MECHANISM})
    try:
        with pytest.raises(
            IoPatternsError, match=r"^config/ablations\.yaml: mechanisms\..*: traces: each trace belongs to"
        ):
            declared(project)
    finally:
        project.edit("config/ablations.yaml", mechanisms=OF_ALL)


def test_a_name_of_a_mechanism_of_all_studies_is_none_for_a_study(project: Project) -> None:
    project.edit("config/studies/kapoor.yaml", mechanisms={"seeks": MECHANISM})
    try:
        with pytest.raises(
            IoPatternsError, match=r"^config/studies/kapoor\.yaml: mechanisms\.seeks: config/ablations\.yaml has"
        ):
            declared(project)
    finally:
        declare(project)


def test_what_is_replayed_is_in_the_package() -> None:
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "data/traces").glob("*/*.parquet")}
    conf = config.load_config(ROOT)
    found = config.replayed_traces(conf)
    assert {trace for traces in found.values() for trace in traces} <= shipped
    for study in conf.studies:
        replays = {cell.specification["replay"]["trace"] for cell in grid.expand_grid(conf, study) if is_replay(cell)}
        assert replays == found[study]


def is_replay(cell: grid.Cell) -> bool:
    return "replay" in cell.specification


def test_a_mechanism_of_a_study_that_is_not_configured_stops_nothing(project: Project) -> None:
    path = project.root / "config/studies/mistaken.yaml"
    path.write_text("mechanisms: {one: {traces: {a: b}}}\n", encoding="utf-8")
    try:
        assert [each.name for each in declared(project)] == [NAME]
    finally:
        path.unlink()


# ---- What is measured


def test_a_trace_and_its_sum_are_replaced_in_the_cells_that_replay_it_alone(project: Project) -> None:
    conf = config.load_config(project.root)
    (mechanism,) = declared(project)
    off = mechanism.switched_off_in(conf)
    assert list(off.drives) == [DRIVE]
    before, after = (
        {cell.specification["fio"]["numjobs"]: cell for cell in grid.expand_grid(each, "kapoor") if cell.drive == DRIVE}
        for each in (conf, off)
    )
    replayed = {"trace": RECORDED, "phase": "run", "depth": 1, "blocks_over_time": 24, "blocks_every_ms": 100}
    assert before[10].specification["replay"] == {**replayed, "sha256": files.sha256(project.root / RECORDED)}
    replaced = {**replayed, "trace": WITHOUT, "sha256": files.sha256(project.root / WITHOUT)}
    assert after[10].specification == {**before[10].specification, "replay": replaced}
    assert after[10].name != before[10].name
    assert (after[1], after[20]) == (before[1], before[20])


def test_a_trace_of_a_program_that_waited_for_another_drive_is_replayed_on_that(project: Project) -> None:
    declare(project, drive="s3500")
    try:
        (mechanism,) = declared(project)
        off = mechanism.switched_off_in(config.load_config(project.root))
        assert list(off.drives) == [DRIVE]
        assert dict(off.drives) == {DRIVE: drive_entries.read_drive_entries(project.root).resolved("s3500")}
        assert WITHOUT in {cell.specification["replay"]["trace"] for cell in grid.expand_grid(off, "kapoor")}
    finally:
        declare(project)


def test_no_drive_has_a_mechanism_whose_traces_the_configured_studies_do_not_replay(project: Project) -> None:
    (mechanism,) = declared(project)
    conf = config.load_config(project.root, {"drives": [DRIVE, "c400"], "studies": [FIXTURE_STUDY]})
    assert not mechanism.switched_off_in(conf).drives


@pytest.fixture(scope="module")
def measured(project: Project) -> Path:
    """The folder with what was measured with nothing off, and with the mechanism off, and the record of it."""
    folder = project.root / ablation.ABLATION_FOLDER
    for name in ablation.ablation_runs_by_name(config.load_config(project.root)):
        ablation_runs.measure_without_mechanism(project.root, name, {}, folder / name)
    ablation.record_ablation(project.root, {}, folder)
    return folder


@pytest.mark.slow
def test_what_is_measured_differs_in_the_cell_whose_trace_is_replaced(measured: Path) -> None:
    tables = [pd.read_parquet(measured / name / "kapoor.parquet") for name in (ablation.BASELINE_RUN, SLUG)]
    assert [set(table["drive"]) for table in tables] == [{DRIVE, "s3500"}, {DRIVE}]
    before, after = (table[table["drive"] == DRIVE].set_index("numjobs") for table in tables)
    columns = ["direction", "io_bytes", "total_ios", "bandwidth_bytes_per_s", "iops"]

    def told(table: pd.DataFrame, jobs: int) -> list[list[Any]]:
        rows: list[list[Any]] = table.loc[[jobs], columns].to_numpy().tolist()
        return rows

    assert [jobs for jobs in (1, 10, 20) if told(before, jobs) != told(after, jobs)] == [10]
    # the cell of one process has replayed the same trace on the same drive
    assert told(after, 10) == told(before, 1)


@pytest.mark.slow
def test_the_record_lists_the_drives_that_replay_the_trace(measured: Path, project: Project) -> None:
    content = yaml.safe_load((project.root / RECORD).read_text(encoding="utf-8"))
    assert content["mechanisms"] == {NAME: [DRIVE]}
    told = ablation.load_ablation_records(project.root)["kapoor"]
    assert told["mechanisms"] == [{"name": NAME, "says": MECHANISM["says"], "by": "traces"}]
    assert told["stale"] == []


@pytest.mark.slow
def test_records_of_other_studies_stay_as_they_are(measured: Path, project: Project) -> None:
    other = project.root / "data/ablation/tiny.yaml"
    other.write_text("as it was", encoding="utf-8")
    before = (project.root / RECORD).read_bytes()
    assert ablation.record_ablation(project.root, {}, measured).splitlines()[-1] == f"{RECORD}: written"
    assert (project.root / RECORD).read_bytes() == before
    assert other.read_text(encoding="utf-8") == "as it was"


# ---- When it is made anew


@pytest.mark.slow
@pytest.mark.parametrize("trace", [RECORDED, WITHOUT, "data/traces/kapoor/zombies-small-20.parquet"])
def test_a_record_is_stale_once_a_trace_was_recorded_anew(measured: Path, project: Project, trace: str) -> None:
    path = project.root / trace
    before = path.read_bytes()
    path.write_bytes(before + b"x")
    try:
        assert ablation.load_ablation_records(project.root)["kapoor"]["stale"] == ["traces"]
    finally:
        path.write_bytes(before)


@pytest.mark.slow
def test_a_record_is_stale_once_a_drive_has_other_settings(measured: Path, project: Project) -> None:
    path = project.root / "config/studies/kapoor.yaml"
    before = path.read_text(encoding="utf-8")
    path.write_text(before.replace("ftl.over_provisioning: 7", "ftl.over_provisioning: 6"), encoding="utf-8")
    try:
        assert ablation.load_ablation_records(project.root)["kapoor"]["stale"] == [
            "config/studies/kapoor.yaml",
            f"drive {DRIVE}",
        ]
    finally:
        path.write_text(before, encoding="utf-8")


@pytest.mark.slow
def test_a_record_is_not_stale_for_a_trace_that_nothing_replays(measured: Path, project: Project) -> None:
    path = project.root / "data/traces/kapoor/mix.parquet"
    before = path.read_bytes()
    path.write_bytes(before + b"x")
    try:
        assert ablation.load_ablation_records(project.root)["kapoor"]["stale"] == []
    finally:
        path.write_bytes(before)


def test_the_runs_of_an_ablation_and_the_scorecard_rest_on_the_traces(project: Project) -> None:
    conf = config.load_config(project.root)
    names = ("scale-fsync-0", "scale-fsync-10", "zombies-small-1", "zombies-small-10", "zombies-small-20")
    traces = [f"data/traces/kapoor/{name}.parquet" for name in names]
    assert ablation.ablation_trace_files(conf) == traces
    record = project.root / RECORD
    before = record.read_bytes() if record.exists() else None
    record.parent.mkdir(exist_ok=True)
    record.write_text("", encoding="utf-8")
    try:
        assert ablation.ablation_input_files(conf) == [
            ablation.MECHANISMS_FILE,
            "config/studies/kapoor.yaml",
            RECORD,
            *traces,
        ]
    finally:
        record.unlink()
        if before is not None:
            record.write_bytes(before)


def test_a_trace_that_takes_the_place_of_another_is_one_of_them(project: Project) -> None:
    other = "data/traces/kapoor/mix.parquet"  # which no experiment left here replays
    declare(project, traces={RECORDED: other})
    try:
        assert other in ablation.ablation_trace_files(config.load_config(project.root))
    finally:
        declare(project)


# ---- What it says of a claim


@pytest.mark.slow
def test_a_claim_that_falls_without_a_mechanism_of_the_kernel_is_not_built_in_for_that(tmp_path: Path) -> None:
    root = copy_recorded_results(tmp_path, ["kapoor"])
    card = json.loads((root / "results/scorecard.json").read_text(encoding="utf-8"))["studies"]["kapoor"]
    claims = [each for each in card["claims"] if each["drive"] is None]
    claim = next(
        each["id"] for each in claims if each["class"] == "independent" and each["status"] in {"reproduced", "within"}
    )

    def class_of(by: str) -> str:
        told = {"mechanisms": [{"name": NAME, "says": "", "by": by}], "flips": {claim: [NAME]}, "stale": []}
        judged = scorecard.judge_study(root, "kapoor", ablation=told)
        return next(str(each["class"]) for each in judged["claims"] if each["id"] == claim)

    assert class_of("traces") == "independent"
    assert class_of("source") == "independent"
    assert class_of("set") == "built into the model"
    assert class_of("assumed") == "built into the model"
