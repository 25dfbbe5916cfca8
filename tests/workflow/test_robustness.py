"""Sampled parameters show how far claims survive, and a record of them is detected when it is stale."""

import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import FIXTURE_DRIVES, FIXTURE_STUDY, ROOT, Project, copy_project

from iopatterns.configuration import committed_records, config
from iopatterns.twin import models, ranges
from iopatterns.workflow import ablation, robustness, robustness_runs
from iopatterns.workflow.robustness import ParameterSet

MEASURED: dict[str, Any] = {
    "drives": list(FIXTURE_DRIVES),
    "file_size": "64 MiB",
    "runtime": "50 ms",
    "repetitions": 1,
    "studies": [FIXTURE_STUDY],
}
RECORD = f"data/robustness/{FIXTURE_STUDY}.yaml"


# ---- Designs


@pytest.fixture(scope="module")
def design() -> robustness.Design:
    conf = config.load_config(ROOT)
    return robustness.Design.load(conf, ["px05smb040", "px05smb040-one-die", "c400", "hard-disk"])


def test_a_value_that_a_study_sets_is_not_varied_for_its_drive(design: robustness.Design) -> None:
    (name,) = [name for name in design.drives["px05smb040-one-die"]["set"] if name.startswith("flash.dies")]
    assert ("px05smb040", name) in design.free  # for the drive as delivered
    (first, *_) = design.batch(0)
    changed = {drive: design.entry(drive, first)["set"] for drive in design.drives}
    stated = design.drives["px05smb040-one-die"]["set"]
    assert stated.items() <= changed["px05smb040-one-die"].items()
    own = {name: value for name, value in changed["px05smb040-one-die"].items() if name not in stated}
    assert own.items() <= changed["px05smb040"].items()  # drives of one model share its parameters


def test_nothing_that_a_data_sheet_fixes_is_varied(design: robustness.Design) -> None:
    for model, name in design.free:
        assert models.load_model(model).sources[name][0] != "datasheet"


def test_each_set_gives_drives_that_can_be_simulated(design: robustness.Design) -> None:
    for parameters in design.batch(0):
        for drive in design.drives:
            entry = design.entry(drive, parameters)
            model = models.load_model(entry["model"]).overridden(
                f"{key}={value}" for key, value in entry["set"].items()
            )
            assert model.digest == entry["model_digest"]


def test_contradicting_values_are_moved_towards_the_model(design: robustness.Design) -> None:
    extreme = dict(design.baseline_shares) | {("c400", "read_ahead.window"): 0.0, ("c400", "read_ahead.refill"): 0.999}
    free = {name: design.free["c400", name] for name in ("read_ahead.window", "read_ahead.refill")}
    assert all(not each.is_fixed for each in free.values())
    entry = design.entry("c400", ParameterSet("mine", extreme | {("c400", "flash.page"): 0.5}))
    assert models.load_model("c400").overridden(f"{key}={value}" for key, value in entry["set"].items())


def test_the_position_of_the_model_s_value_gives_the_value(design: robustness.Design) -> None:
    for (model, name), found in design.free.items():
        value, given = models.load_model(model).values[name], found.value_at(design.baseline_shares[model, name])
        assert given == (value if found.values else pytest.approx(value, rel=1e-6))
    assert not design.entry("c400", ParameterSet("usual", design.baseline_shares)).get("set")


def test_each_batch_is_a_latin_hypercube_and_the_same_in_each_run(design: robustness.Design) -> None:
    sets = design.batch(1)
    assert [each.name for each in sets][:2] == ["sample-020", "sample-021"]
    for factor in design.free:
        cells = sorted(int(each.shares[factor] * robustness.BATCH_SETS) for each in sets)
        assert cells == list(range(robustness.BATCH_SETS))
    assert [each.shares for each in sets] == [each.shares for each in design.batch(1)]
    assert [each.shares for each in sets] != [each.shares for each in design.batch(0)]


def test_a_step_of_the_screening_changes_one_parameter_of_each_model(design: robustness.Design) -> None:
    ((*sets,),) = design.screening()
    changed_parameters = set()
    for before, after in itertools.pairwise(sets):
        changed = [factor for factor, share in after.shares.items() if share != before.shares[factor]]
        assert len({model for model, _ in changed}) == len(changed)
        changed_parameters |= set(changed)
    assert changed_parameters == set(design.free)


# ---- Results


@pytest.mark.parametrize(
    ("baseline", "share", "class_"),
    [
        (True, 1.0, "robust"),
        (True, 0.95, "robust"),
        (True, 0.94, "contingent"),
        (True, 0.0, "contingent"),
        (False, 0.06, "contingent"),
        (False, 0.05, "not reproduced"),
        (False, 0.96, "robust"),
    ],
)
def test_the_class_follows_from_the_share(baseline: bool, share: float, class_: str) -> None:
    assert robustness.robustness_class(baseline, share) == class_


def test_73_sets_that_agree_are_enough() -> None:
    assert not robustness.are_shares_known([{"claim": True}] * 72)
    assert robustness.are_shares_known([{"claim": True}] * 73)
    assert robustness.are_shares_known([{"claim": False}] * 73)
    assert not robustness.are_shares_known([{"claim": True}, {"claim": False}] * 100)
    assert robustness.are_shares_known([{"claim": True}, {"claim": False}] * 200)


def test_a_study_with_many_cells_has_fewer_sets() -> None:
    assert [robustness.most_batches(cells) for cells in (1, 100, 383, 100_000)] == [4, 4, 2, 1]


def sets_of(*shares: tuple[float, float]) -> list[ParameterSet]:
    return [ParameterSet(f"s{number}", {("m", "a"): a, ("m", "b"): b}) for number, (a, b) in enumerate(shares)]


def test_the_deciding_parameter_is_the_one_whose_halves_differ_most() -> None:
    sets = sets_of((0.1, 0.2), (0.9, 0.3), (0.2, 0.8), (0.7, 0.9))
    candidates = [("m", "a"), ("m", "b")]
    assert robustness.deciding_factor(sets, [False, False, True, True], candidates) == ("m", "b")
    assert robustness.deciding_factor(sets, [False, True, False, True], candidates) == ("m", "a")
    assert robustness.deciding_factor(sets, [True] * 4, candidates) is None
    assert robustness.deciding_factor(sets, [True, False, True, True], []) is None


def test_an_effect_is_the_change_of_the_logarithm_over_the_step() -> None:
    sets = sets_of((0.0, 0.0), (0.5, 0.0), (0.5, 1.0))
    figures: Mapping[str, Mapping[Any, float]] = {
        "s0": {"cell": 1.0, "zero": 0.0, "other": 1.0},
        "s1": {"cell": 2.0, "zero": 0.0, "other": 9.0},
        "s2": {"cell": 2.0, "zero": 0.0, "other": 1.0},
    }
    effects = robustness.screening_effects([sets], figures, {"cell": "m", "zero": "m", "other": "n"})
    assert effects == {("m", "a"): pytest.approx(2 * 0.693147, rel=1e-5), ("m", "b"): 0.0}


# ---- A run


@pytest.fixture(scope="module")
def sampled(module_disk_folder: Any) -> Iterator[tuple[Project, Path]]:
    """Return a project and the result of sampling three parameters of its drives in four sets."""
    project = copy_project(module_disk_folder / "sampled")
    project.edit("config/config.yaml", **MEASURED)
    every = ranges.free_parameters
    with pytest.MonkeyPatch.context() as patch:
        kept = {"flash.read_time", "read_ahead.window", "link.rate"}
        patch.setattr(ranges, "free_parameters", lambda *given: [each for each in every(*given) if each.name in kept])
        patch.setattr(robustness, "BATCH_SETS", 4)
        patch.setattr(robustness, "MOST_SETS", 4)
        patch.chdir(project.root)
        output = project.root / "results/robustness" / f"{FIXTURE_STUDY}.json"
        robustness_runs.measure_robustness(project.root, FIXTURE_STUDY, {}, output)
        robustness.write_records(project.root, {}, {FIXTURE_STUDY: output})
        yield project, output


def test_a_record_has_the_share_of_each_claim(sampled: tuple[Project, Path]) -> None:
    project, _ = sampled
    content = yaml.safe_load((project.root / RECORD).read_text())
    assert content["sets"] == 4
    claims = {claim["id"] for claim in ablation.claims_if_any(project.root, FIXTURE_STUDY) if "untestable" not in claim}
    assert content["claims"]
    assert content["claims"].keys() <= claims  # the project has one of the study's experiments
    for claim in content["claims"].values():
        assert claim["low"] <= claim["share"] <= claim["high"]
        assert claim["class"] in robustness.ROBUSTNESS_CLASSES
        assert ("decides" in claim) <= (0 < claim["share"] < 1)
    assert any(claim.get("moved", True) for claim in content["claims"].values())
    assert content["screening"].keys() == set(FIXTURE_DRIVES)
    assert all(
        set(effects) <= {"flash.read_time", "read_ahead.window", "link.rate"}
        for effects in content["screening"].values()
    )


def test_an_interrupted_run_continues_where_it_ended(sampled: tuple[Project, Path]) -> None:
    project, output = sampled
    before = json.loads(output.read_text())
    folder = output.with_suffix("")
    measured = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert "baseline.parquet" in measured
    (folder / "sample-002.parquet").unlink()
    robustness_runs.measure_robustness(project.root, FIXTURE_STUDY, {}, output)
    after = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert [name for name in measured if after[name] != measured[name]] == ["sample-002.parquet"]
    assert json.loads(output.read_text()) == before


def test_a_record_is_stale_if_a_range_or_a_check_changes(sampled: tuple[Project, Path]) -> None:
    project, _ = sampled
    assert robustness.load_records(project.root)[FIXTURE_STUDY]["stale"] == []
    path = project.root / "data/published" / FIXTURE_STUDY / "claims.yaml"
    text = path.read_text(encoding="utf-8")
    changed = yaml.safe_load(text)
    next(claim for claim in changed["claims"] if "check" in claim)["check"]["of"] = "iops"
    try:
        path.write_text(yaml.safe_dump(changed), encoding="utf-8")
        assert robustness.load_records(project.root)[FIXTURE_STUDY]["stale"] == [str(path.relative_to(project.root))]
    finally:
        path.write_text(text, encoding="utf-8")
    content = yaml.safe_load((project.root / RECORD).read_text())
    content["made_from"]["ranges of parameters"] = "0" * 16
    record = (project.root / RECORD).read_bytes()
    try:
        (project.root / RECORD).write_text(yaml.safe_dump(content))
        assert robustness.load_records(project.root)[FIXTURE_STUDY]["stale"] == ["ranges of parameters"]
        (project.root / RECORD).write_text("claims: 3\n")
        with pytest.raises(committed_records.RecordError, match=r"tiny\.yaml: this is not a record of `snakemake"):
            robustness.load_records(project.root)
    finally:
        (project.root / RECORD).write_bytes(record)


def test_the_scorecard_shows_the_share_beside_each_claim(sampled: tuple[Project, Path]) -> None:
    project, _ = sampled
    done = project.snakemake("results/scorecard.json")
    assert done.returncode == 0, done.stdout
    study = json.loads((project.root / "results/scorecard.json").read_text())["studies"][FIXTURE_STUDY]
    content = yaml.safe_load((project.root / RECORD).read_text())
    shown = {claim["id"]: claim["robustness"] for claim in study["claims"] if "robustness" in claim}
    assert shown
    assert all(content["claims"][name] == claim for name, claim in shown.items())
    assert study["robustness"]["sets"] == 4


def test_the_committed_records_are_not_stale() -> None:
    stale = {study: record["stale"] for study, record in robustness.load_records(ROOT).items() if record["stale"]}
    assert stale == {}
