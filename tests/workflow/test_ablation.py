"""An ablation finds the claims that depend on read-ahead, and a stale record is detected."""

import json
from typing import Any

import pandas as pd
import pytest
import yaml
from support import FIXTURE, FIXTURE_DRIVES, FIXTURE_GRID, FIXTURE_STUDY, ROOT, Project, copy_project, fixture_root

from iopatterns.configuration import config
from iopatterns.workflow import ablation

RECORD = "data/ablation/tiny.yaml"
CLAIMS = "data/published/tiny/claims.yaml"
# The claims that depend on read-ahead; the last claim has two checks
FLIPS = {name: ["read-ahead"] for name in ("reads-affected", "writes-less-than-reads", "gap-with-one-job")}
MEASURED = {"drives": list(FIXTURE_DRIVES), "file_size": "64 MiB", "runtime": "50 ms", "repetitions": 2}
MECHANISMS: dict[str, Any] = {
    "read-ahead": {"says": "The drive reads ahead", "set": [{"read_ahead.window": 0, "read_ahead.refill": 0}]},
    "seeks": {"says": "Heads move", "set": [{"disk.average_seek": 0}]},
}

# Declared in the file of the study
OWN = {"codewords": {"says": "They are small", "set": [{"flash.codeword": "1 MiB"}], "models": ["c400"]}}


@pytest.fixture(scope="module")
def ablated(module_disk_folder: Any) -> Project:
    """Return a project with the record of an ablation of read-ahead and seeks on one SSD, and its scorecard."""
    project = copy_project(module_disk_folder / "ablated")
    project.edit("config/config.yaml", **MEASURED)
    project.edit("config/ablations.yaml", mechanisms=MECHANISMS)
    study = yaml.safe_load((FIXTURE / FIXTURE_GRID).read_text())
    experiments = {name: study["experiments"][name] for name in ("initial", "concurrency")}
    project.edit(FIXTURE_GRID, experiments=experiments, mechanisms=OWN)
    for target in ("ablate", "results/scorecard.json"):
        done = project.snakemake(target)
        assert done.returncode == 0, done.stdout
        assert target != "ablate" or "repetitions done" not in done.stdout  # not counted
    return project


def record(project: Project) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((project.root / RECORD).read_text())
    return content


def study_of(project: Project) -> dict[str, Any]:
    card = json.loads((project.root / "results/scorecard.json").read_text())
    study: dict[str, Any] = card["studies"][FIXTURE_STUDY]
    return study


def test_the_claims_about_read_ahead_depend_on_read_ahead_only(ablated: Project) -> None:
    assert record(ablated)["flips"] == FLIPS


def test_a_drive_without_the_mechanism_is_not_measured(ablated: Project) -> None:
    assert record(ablated)["mechanisms"] == {"read-ahead": list(FIXTURE_DRIVES), "codewords": ["c400"]}
    assert not list((ablated.root / "results/ablation/seeks").glob("*.parquet"))


def test_a_mechanism_of_a_study_is_measured_under_the_name_of_the_study(ablated: Project) -> None:
    assert [path.name for path in sorted((ablated.root / "results/ablation").glob("tiny.*/*.parquet"))] == [
        "tiny.parquet"
    ]


def test_an_ablation_leaves_no_raw_files(ablated: Project) -> None:
    assert not [name for name in ablated.raw_files() if "ablation" in name]
    assert not list((ablated.root / "results/ablation").glob("*/raw"))
    specifications = [
        json.loads(path.read_text())["specification"]["drive"]
        for path in (ablated.root / "data/raw").glob("*/*/*/*.sidecar.json")
    ]
    assert specifications
    assert not [drive for drive in specifications if "set" in drive]


def test_the_scorecard_has_the_record_and_the_descriptions_of_mechanisms(ablated: Project) -> None:
    assert study_of(ablated)["ablation"] == {
        "mechanisms": [
            {"name": "read-ahead", "says": "The drive reads ahead", "by": "set"},
            {"name": "codewords", "says": "They are small", "by": "set"},
        ],
        "flips": FLIPS,
        "stale": [],
    }


def test_a_record_is_stale_if_one_of_several_checks_of_a_claim_changes(ablated: Project) -> None:
    path = ablated.root / CLAIMS
    before = path.read_text(encoding="utf-8")
    content = yaml.safe_load(before)
    (claim,) = [each for each in content["claims"] if each["id"] == "gap-with-one-job"]
    claim["checks"][1]["check"]["at_most"] = 0.8
    try:
        path.write_text(yaml.safe_dump(content), encoding="utf-8")
        assert ablated.snakemake("results/scorecard.json").returncode == 0
        assert study_of(ablated)["ablation"]["stale"] == [CLAIMS]
    finally:
        path.write_text(before, encoding="utf-8")


def test_the_experiments_of_all_checks_are_measured(ablated: Project) -> None:
    table = pd.read_parquet(ablated.root / "results/ablation/read-ahead/tiny.parquet")
    assert {"initial", "concurrency"} <= {name for names in table["experiments"] for name in names.split()}


def test_a_record_is_stale_if_a_model_changes_and_the_scorecard_names_the_model(ablated: Project) -> None:
    content = record(ablated)
    content["made_from"]["data/twins/c400.yaml"] = "0" * 16
    before = (ablated.root / RECORD).read_bytes()
    try:
        (ablated.root / RECORD).write_text(yaml.safe_dump(content))
        assert ablated.snakemake("results/scorecard.json").returncode == 0
        assert study_of(ablated)["ablation"]["stale"] == ["data/twins/c400.yaml"]
        done = ablated.iopatterns("scorecard", "--expect")
        assert done.returncode == 0, done.stdout
        done = ablated.iopatterns("scorecard")
        assert f"{RECORD} is stale: data/twins/c400.yaml changed since it was made" in done.stdout
        assert "snakemake --cores 2 ablate" in done.stdout
    finally:
        (ablated.root / RECORD).write_bytes(before)


@pytest.mark.parametrize(
    ("mechanisms", "message"),
    [
        (
            {"read-ahead": {"says": "It reads ahead", "set": [{"read_ahead.windw": 0}]}},
            "config/ablations.yaml: mechanisms.read-ahead: twins have no parameter 'read_ahead.windw'. Did you mean"
            " 'read_ahead.window'?",
        ),
        (
            {"read-ahead": {"says": "It reads ahead"}},
            "config/ablations.yaml: mechanisms.read-ahead: {'says': 'It reads ahead'} is not valid. Expected: one of"
            " set, to which models may be added, and traces, to which a drive, assumed and chosen_for may be;",
        ),
        (
            {"read-ahead": {"says": "It reads ahead", "set": [{"read_ahead.window": 0}], "models": ["c40"]}},
            "config/ablations.yaml: mechanisms.read-ahead: models: there is no model 'c40'. Did you mean 'c400'?",
        ),
    ],
)
def test_a_mechanism_that_cannot_be_switched_off_is_refused_before_anything_runs(
    ablated: Project, mechanisms: dict[str, Any], message: str
) -> None:
    ablated.edit("config/ablations.yaml", mechanisms=mechanisms)
    try:
        done = ablated.snakemake("ablate")
        assert done.returncode == 2
        assert message in done.stdout
        assert "Traceback" not in done.stdout
    finally:
        ablated.edit("config/ablations.yaml", mechanisms=MECHANISMS)


def test_switching_off_a_mechanism_keeps_the_parameters_that_a_drive_sets() -> None:
    drive: Any = {**config.load_config(fixture_root()).drives["c400"], "set": {"ftl.initial_state": "random"}}
    off: Any = ablation.Mechanism(
        "read-ahead", "It reads ahead", switches=MECHANISMS["read-ahead"]["set"]
    ).switched_off(drive)
    assert drive["set"] == {"ftl.initial_state": "random"}
    assert off["set"] == {"ftl.initial_state": "random", "read_ahead.window": "0", "read_ahead.refill": "0"}


def test_a_mechanism_is_switched_off_only_in_its_models() -> None:
    drives = config.load_config(fixture_root()).drives
    switches = MECHANISMS["read-ahead"]["set"]
    off = ablation.Mechanism("read-ahead", "It reads ahead", switches=switches, models=["c400"])
    assert [name for name, drive in drives.items() if off.switched_off(drive)] == ["c400"]


def test_each_declared_mechanism_can_be_switched_off_on_a_default_drive() -> None:
    conf = config.load_config(ROOT, {})
    for mechanism in ablation.load_mechanisms(conf):
        assert mechanism.switched_off_in(conf).drives, mechanism.name


def test_the_committed_records_are_not_stale() -> None:
    assert {
        study: record["stale"] for study, record in ablation.load_ablation_records(ROOT).items() if record["stale"]
    } == {}


def test_a_changed_grid_and_an_interrupted_run_are_measured_again(ablated: Project) -> None:
    assert "Measuring with" not in ablated.snakemake("ablate", "-n").stdout
    (ablated.root / "results/ablation/read-ahead.measured").unlink()  # the folder stays, as after a killed job
    assert "Measuring with read-ahead" in ablated.snakemake("ablate", "-n").stdout
    before = (ablated.root / FIXTURE_GRID).read_text()
    (ablated.root / FIXTURE_GRID).write_text(before + "# changed\n")
    planned = ablated.snakemake("ablate", "-n").stdout
    (ablated.root / FIXTURE_GRID).write_text(before)
    assert all(f"Measuring with {run}" in planned for run in ("nothing", "read-ahead", "seeks"))
