"""Ablation of kernel and file system: traces recorded without a mechanism are replayed instead of others."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
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
# A mechanism of all studies, which no drive measured here has
OF_ALL = {"seeks": {"says": "Heads move", "set": [{"disk.average_seek": 0}]}}
EXPERIMENTS = ("zombies-small", "scale")
DRIVE = "kapoor-128m"
PLACE = f"config/studies/kapoor.yaml: mechanisms.{NAME}: traces:"

# Cells are measured in the process of the test, which turns a warning of pandas about types into an error
pytestmark = pytest.mark.filterwarnings("ignore:The convert_:DeprecationWarning")


@contextmanager
def declaring(project: Project, mechanisms: dict[str, Any], file: str = "config/studies/kapoor.yaml") -> Iterator[None]:
    """Declare other mechanisms for a while."""
    with changing(project.root / file):
        project.edit(file, mechanisms=mechanisms)
        yield


@contextmanager
def changing(path: Path, content: bytes | None = None) -> Iterator[None]:
    """Restore a file at the end; write `content` to the file first, if given."""
    before = path.read_bytes() if path.exists() else None
    if content is not None:
        path.write_bytes(content)
    try:
        yield
    finally:
        if before is None:
            path.unlink()
        else:
            path.write_bytes(before)


@pytest.fixture(scope="module")
def project(module_disk_folder: Path) -> Project:
    """Create a project with two experiments of kapoor and one mechanism, of a trace of the first experiment."""
    project = copy_project(module_disk_folder / "project", without=("notebooks", "paper"))
    project.edit("config/config.yaml", drives=[DRIVE, "s3500"], studies=["kapoor"])
    study = yaml.safe_load((project.root / "config/studies/kapoor.yaml").read_text(encoding="utf-8"))
    experiments = {name: study["experiments"][name] for name in EXPERIMENTS}
    project.edit("config/studies/kapoor.yaml", experiments=experiments)
    project.edit("config/ablations.yaml", mechanisms=OF_ALL)
    project.edit("config/studies/kapoor.yaml", mechanisms={NAME: MECHANISM})
    return project


def declared(project: Project) -> list[ablation.Mechanism]:
    """Return the mechanisms of the study only."""
    return [each for each in ablation.load_mechanisms(config.load_config(project.root)) if each.study is not None]


# ---- Declarations


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
def test_an_invalid_mechanism_is_refused(project: Project, mechanism: dict[str, Any], message: str) -> None:
    with declaring(project, {NAME: mechanism}), pytest.raises(IoPatternsError) as raised:
        declared(project)
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1


def test_a_mechanism_may_be_declared_as_assumed(project: Project) -> None:
    with declaring(project, {NAME: {**MECHANISM, "assumed": True}}):
        assert [each.kind for each in declared(project)] == ["assumed"]
    assert [each.kind for each in declared(project)] == ["traces"]


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        ("config/ablations.yaml", NAME, r"^config/ablations\.yaml: mechanisms\..*: traces: each trace belongs to"),
        (
            "config/studies/kapoor.yaml",
            "seeks",
            r"^config/studies/kapoor\.yaml: mechanisms\.seeks: config/ablations\.yaml has",
        ),
    ],
)
def test_a_mechanism_of_traces_must_be_in_the_file_of_its_study_with_a_name_of_its_own(
    project: Project, file: str, name: str, message: str
) -> None:
    with declaring(project, {name: MECHANISM}, file), pytest.raises(IoPatternsError, match=message):
        declared(project)


def test_all_replayed_traces_are_shipped() -> None:
    shipped = {str(path.relative_to(ROOT)) for path in (ROOT / "data/traces").glob("*/*.parquet")}
    conf = config.load_config(ROOT)
    found = config.replayed_traces(conf)
    assert {trace for traces in found.values() for trace in traces} <= shipped
    for study in conf.studies:
        replays = {cell.specification["replay"]["trace"] for cell in grid.expand_grid(conf, study) if is_replay(cell)}
        assert replays == found[study]


def is_replay(cell: grid.Cell) -> bool:
    return "replay" in cell.specification


def test_mechanisms_of_unconfigured_studies_are_not_read(project: Project) -> None:
    path = project.root / "config/studies/mistaken.yaml"
    with changing(path, b"mechanisms: {one: {traces: {a: b}}}\n"):
        assert [each.name for each in declared(project)] == [NAME]


# ---- Measurements


def test_a_trace_is_replaced_only_in_the_cells_that_replay_it(project: Project) -> None:
    conf = config.load_config(project.root)
    (mechanism,) = declared(project)
    off = mechanism.switched_off_in(conf)
    assert list(off.drives) == [DRIVE]
    before, after = (
        {cell.specification["fio"]["numjobs"]: cell for cell in grid.expand_grid(each, "kapoor") if cell.drive == DRIVE}
        for each in (conf, off)
    )
    other = "data/traces/kapoor/on-simulated-small-10.parquet"
    compared = [{"trace": other, "sha256": files.sha256(project.root / other)}]
    replayed = {"trace": RECORDED, "phase": "run", "depth": 1, "compare": compared, "blocks_over_time": 24}
    assert before[10].specification["replay"] == {**replayed, "sha256": files.sha256(project.root / RECORDED)}
    replaced = {**replayed, "trace": WITHOUT, "sha256": files.sha256(project.root / WITHOUT)}
    assert after[10].specification == {**before[10].specification, "replay": replaced}
    assert after[10].name != before[10].name
    assert (after[1], after[20]) == (before[1], before[20])


def test_a_trace_recorded_on_another_drive_is_replayed_on_that_drive(project: Project) -> None:
    with declaring(project, {NAME: {**MECHANISM, "drive": "s3500"}}):
        (mechanism,) = declared(project)
        off = mechanism.switched_off_in(config.load_config(project.root))
        assert dict(off.drives) == {DRIVE: drive_entries.read_drive_entries(project.root).resolved("s3500")}
        assert WITHOUT in {cell.specification["replay"]["trace"] for cell in grid.expand_grid(off, "kapoor")}


def test_a_mechanism_without_replayed_traces_has_no_drives(project: Project) -> None:
    (mechanism,) = declared(project)
    conf = config.load_config(project.root, {"drives": [DRIVE, "c400"], "studies": [FIXTURE_STUDY]})
    assert not mechanism.switched_off_in(conf).drives


@pytest.fixture(scope="module")
def measured(project: Project) -> Path:
    """Measure with and without the mechanism, record the result, and return the folder."""
    folder = project.root / ablation.ABLATION_FOLDER
    for name in ablation.ablation_runs(config.load_config(project.root)):
        ablation_runs.measure_without_mechanism(project.root, name, {}, folder / name)
    ablation.record_ablation(project.root, {}, folder)
    return folder


@pytest.mark.slow
def test_measurements_only_differ_in_the_cell_with_the_replaced_trace(measured: Path) -> None:
    tables = [pd.read_parquet(measured / name / "kapoor.parquet") for name in (ablation.BASELINE_RUN, SLUG)]
    assert [set(table["drive"]) for table in tables] == [{DRIVE, "s3500"}, {DRIVE}]
    before, after = (table[table["drive"] == DRIVE].set_index("numjobs") for table in tables)
    columns = ["direction", "io_bytes", "total_ios", "bandwidth_bytes_per_s", "iops"]

    def results(table: pd.DataFrame, jobs: int) -> list[list[Any]]:
        rows: list[list[Any]] = table.loc[[jobs], columns].to_numpy().tolist()
        return rows

    assert [jobs for jobs in (1, 10, 20) if results(before, jobs) != results(after, jobs)] == [10]
    # the cell with one process replayed this trace on this drive
    assert results(after, 10) == results(before, 1)


@pytest.mark.slow
def test_the_record_lists_the_drives_that_replay_the_trace(measured: Path, project: Project) -> None:
    content = yaml.safe_load((project.root / RECORD).read_text(encoding="utf-8"))
    assert content["mechanisms"] == {NAME: [DRIVE]}
    record = ablation.load_ablation_records(project.root)["kapoor"]
    assert record["mechanisms"] == [{"name": NAME, "says": MECHANISM["says"], "by": "traces"}]
    assert record["stale"] == []


@pytest.mark.slow
def test_records_of_other_studies_are_kept(measured: Path, project: Project) -> None:
    other = project.root / "data/ablation/tiny.yaml"
    other.write_text("as it was", encoding="utf-8")
    before = (project.root / RECORD).read_bytes()
    assert ablation.record_ablation(project.root, {}, measured).splitlines()[-1] == f"{RECORD}: written"
    assert (project.root / RECORD).read_bytes() == before
    assert other.read_text(encoding="utf-8") == "as it was"


# ---- Stale records


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trace", "stale"),
    [
        *((trace, ["traces"]) for trace in (RECORDED, WITHOUT, "data/traces/kapoor/zombies-small-20.parquet")),
        ("data/traces/kapoor/mix.parquet", []),  # not replayed by the two experiments
    ],
)
def test_a_record_is_stale_after_a_change_of_a_replayed_trace(
    measured: Path, project: Project, trace: str, stale: list[str]
) -> None:
    path = project.root / trace
    with changing(path, path.read_bytes() + b"x"):
        assert ablation.load_ablation_records(project.root)["kapoor"]["stale"] == stale


@pytest.mark.slow
def test_a_record_is_stale_after_a_change_of_a_drive(measured: Path, project: Project) -> None:
    path = project.root / "config/studies/kapoor.yaml"
    changed = path.read_bytes().replace(b"ftl.over_provisioning: 7", b"ftl.over_provisioning: 6")
    with changing(path, changed):
        stale = ablation.load_ablation_records(project.root)["kapoor"]["stale"]
    assert stale == ["config/studies/kapoor.yaml", f"drive {DRIVE}"]


def test_the_traces_are_inputs_of_the_ablation_and_of_the_scorecard(project: Project) -> None:
    conf = config.load_config(project.root)
    names = ("scale-fsync-0", "scale-fsync-10", "zombies-small-1", "zombies-small-10", "zombies-small-20")
    traces = [f"data/traces/kapoor/{name}.parquet" for name in names]
    assert ablation.ablation_trace_files(conf) == traces
    record = project.root / RECORD
    record.parent.mkdir(exist_ok=True)
    with changing(record, b""):
        files_read = [ablation.MECHANISMS_FILE, "config/studies/kapoor.yaml", RECORD, *traces]
        assert ablation.ablation_input_files(conf) == files_read


def test_a_replacement_trace_is_an_input(project: Project) -> None:
    other = "data/traces/kapoor/mix.parquet"  # not replayed by the two experiments
    with declaring(project, {NAME: {**MECHANISM, "traces": {RECORDED: other}}}):
        assert other in ablation.ablation_trace_files(config.load_config(project.root))


# ---- Claims


@pytest.mark.slow
def test_mechanisms_of_the_kernel_do_not_make_a_claim_built_in(tmp_path: Path) -> None:
    root = copy_recorded_results(tmp_path, ["kapoor"])
    card = json.loads((root / "results/scorecard.json").read_text(encoding="utf-8"))["studies"]["kapoor"]
    claims = [each for each in card["claims"] if each["drive"] is None]
    claim = next(
        each["id"] for each in claims if each["class"] == "independent" and each["status"] in {"reproduced", "within"}
    )

    def class_of(by: str) -> str:
        record = {"mechanisms": [{"name": NAME, "says": "", "by": by}], "flips": {claim: [NAME]}, "stale": []}
        judged = scorecard.judge_study(root, "kapoor", ablation=record)
        return next(str(each["class"]) for each in judged["claims"] if each["id"] == claim)

    assert class_of("traces") == "independent"
    assert class_of("source") == "independent"
    assert class_of("set") == "built into the model"
    assert class_of("assumed") == "built into the model"
