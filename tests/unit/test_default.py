"""What is not the default is not judged as it: which values differ, and what is then not held against expectations."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT, fixture_root, lay_out_recorded

from iopatterns.base.yaml_schema import ConfigError
from iopatterns.configuration import config, default
from iopatterns.judging import scorecard

STUDY = "tiny"
COMMITTED = config.load(ROOT)
CONFIGURED = config.load(fixture_root())


def described(overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    return default.described(config.load(fixture_root(), overrides) if overrides else CONFIGURED, STUDY)


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A project with the recorded measurement, of which nothing that was found is expected."""
    root = lay_out_recorded(tmp_path / "project")
    studies = scorecard.load(root)["studies"]
    studies[STUDY]["configuration"] = described()
    scorecard.write(root, studies)
    scorecard.expect(root)
    for entry in studies[STUDY]["claims"]:
        entry["finding"] = "deviates"
    scorecard.write(root, studies)
    return root


def configure(root: Path, **changes: Any) -> None:
    """Have the scorecard say that its study was configured otherwise."""
    studies = json.loads((root / f"results/{scorecard.NAME}").read_text())["studies"]
    studies[STUDY]["configuration"] |= changes
    scorecard.write(root, studies)


@pytest.mark.parametrize("study", COMMITTED.studies)
def test_the_default_recorded_is_the_committed_configuration(study: str) -> None:
    expectations = default.load(ROOT, study)
    assert expectations is not None
    assert expectations.configured == default.described(COMMITTED, study), "iopatterns scorecard --expect renews it"


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        ({"repetitions": 2}, ["repetitions"]),
        ({"runtime": "200ms", "repetitions": 2}, ["repetitions", "runtime"]),
        ({"runtime": "3 s"}, ["runtime"]),
        ({"file_size": "64 MiB", "seed": 1}, ["file_size", "seed"]),
        ({"interval": "bca", "confidence": 0.9}, ["interval", "confidence"]),
        ({"drives": ["c400"], "warmup": "0 s"}, []),
    ],
)
def test_what_differs_is_named_as_the_configuration_has_it(overrides: dict[str, Any], named: list[str]) -> None:
    assert default.differences(described(overrides), described()) == named


def test_another_level_differs_and_a_missing_or_new_experiment_does_not() -> None:
    found = described()
    found["experiments"] = {**found["experiments"], "initial": "00000000", "of-my-own": "11111111"}
    del found["experiments"]["schedulers"]
    assert default.differences(found, described()) == ["the levels or options of initial"]


def test_a_changed_level_is_another_digest(tmp_path: Path) -> None:
    for folder in ("config", "workflow/schemas", "data/twins"):
        shutil.copytree(fixture_root() / folder, tmp_path / folder)
    path = tmp_path / f"config/studies/{STUDY}.yaml"
    content = yaml.safe_load(path.read_text())
    content["experiments"]["initial"]["vary"]["bs"] = ["4k", "12k"]
    content["experiments"]["initial"]["description"] = "another"
    path.write_text(yaml.safe_dump(content))
    found = default.described(config.load(tmp_path), STUDY)
    assert default.differences(found, described()) == ["the levels or options of initial"]


@pytest.mark.slow
def test_a_run_of_the_default_is_judged(judged: Path) -> None:
    assert scorecard.regressions(judged)
    assert scorecard.not_judged(judged) == []


@pytest.mark.slow
def test_a_run_of_other_values_is_not_judged_and_says_why(judged: Path) -> None:
    configure(judged, repetitions=2, seed=1)
    assert scorecard.regressions(judged) == []
    (said,) = scorecard.not_judged(judged)
    assert said == "tiny differs from the default in repetitions, seed: expectations not judged."


@pytest.mark.slow
def test_what_is_made_the_default_is_judged_from_then_on(judged: Path) -> None:
    configure(judged, repetitions=2)
    assert scorecard.expect(judged) == [default.path_for(judged, STUDY)]
    assert scorecard.not_judged(judged) == []
    expectations = default.load(judged, STUDY)
    assert expectations is not None
    assert expectations.configured == {**described(), "repetitions": 2}
    assert set(expectations.expected.values()) >= {"deviates"}


@pytest.mark.parametrize("text", ["", "expected: {a: reproduced}", "configured: {}\nexpected: [a]", "- a"])
def test_a_file_that_holds_no_expectations_is_named_with_its_keys(tmp_path: Path, text: str) -> None:
    path = default.path_for(tmp_path, STUDY)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"^data/published/{STUDY}/expectations\.yaml: needs the keys 'configured'"):
        default.load(tmp_path, STUDY)


@pytest.mark.slow
def test_the_overview_names_no_worst_place_where_there_is_none(judged: Path) -> None:
    assert "worst at" in scorecard.overview(judged)
    assert "None" not in scorecard.overview(judged)
