"""Studies that differ from the default configuration are not compared with expectations."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import ROOT, copy_recorded_results, fixture_root

from iopatterns.base.yaml_schema import ConfigError
from iopatterns.configuration import config, expected_verdicts
from iopatterns.judging import scorecard

STUDY = "tiny"
COMMITTED = config.load_config(ROOT)
CONFIGURED = config.load_config(fixture_root())


def described(overrides: dict[str, Any] | None = None) -> dict[str, Any]:
    return expected_verdicts.study_settings(
        config.load_config(fixture_root(), overrides) if overrides else CONFIGURED, STUDY
    )


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """Return a project with the recorded measurement, in which every verdict differs from its expectation."""
    root = copy_recorded_results(tmp_path / "project")
    studies = scorecard.load_scorecard(root)["studies"]
    studies[STUDY]["configuration"] = described()
    scorecard.write_scorecard(root, studies)
    scorecard.record_expectations(root)
    for entry in studies[STUDY]["claims"]:
        entry["finding"] = "not reproduced"
    scorecard.write_scorecard(root, studies)
    return root


def configure(root: Path, **changes: Any) -> None:
    """Change the configuration that the scorecard records for its study."""
    studies = json.loads((root / f"results/{scorecard.SCORECARD_FILE}").read_text())["studies"]
    studies[STUDY]["configuration"] |= changes
    scorecard.write_scorecard(root, studies)


@pytest.mark.parametrize("study", COMMITTED.studies)
def test_the_recorded_default_is_the_committed_configuration(study: str) -> None:
    expectations = expected_verdicts.load_expectations(ROOT, study)
    assert expectations is not None
    assert expectations.configured == expected_verdicts.study_settings(COMMITTED, study), (
        "iopatterns scorecard --expect renews it"
    )


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
def test_differences_are_keys_of_the_configuration(overrides: dict[str, Any], named: list[str]) -> None:
    assert expected_verdicts.setting_differences(described(overrides), described()) == named


def test_changed_levels_differ_and_missing_or_new_experiments_do_not() -> None:
    found = described()
    found["experiments"] = {**found["experiments"], "initial": "00000000", "of-my-own": "11111111"}
    del found["experiments"]["schedulers"]
    assert expected_verdicts.setting_differences(found, described()) == ["the levels or options of initial"]


def test_a_changed_level_changes_the_digest_and_a_description_does_not(tmp_path: Path) -> None:
    for folder in ("config", "workflow/schemas", "data/twins"):
        shutil.copytree(fixture_root() / folder, tmp_path / folder)
    path = tmp_path / f"config/studies/{STUDY}.yaml"
    content = yaml.safe_load(path.read_text())
    content["experiments"]["initial"]["vary"]["bs"] = ["4k", "12k"]
    content["experiments"]["initial"]["description"] = "another"
    path.write_text(yaml.safe_dump(content))
    found = expected_verdicts.study_settings(config.load_config(tmp_path), STUDY)
    assert expected_verdicts.setting_differences(found, described()) == ["the levels or options of initial"]


@pytest.mark.slow
def test_only_a_run_with_the_default_configuration_is_compared_with_expectations(judged: Path) -> None:
    assert scorecard.regressions(judged)
    assert scorecard.skipped_expectations(judged) == []
    configure(judged, repetitions=2, seed=1)
    assert scorecard.regressions(judged) == []
    (said,) = scorecard.skipped_expectations(judged)
    assert said == "tiny differs from the default in repetitions, seed: not compared with the expected verdicts."


@pytest.mark.slow
def test_recorded_expectations_make_the_configuration_the_default(judged: Path) -> None:
    configure(judged, repetitions=2)
    assert scorecard.record_expectations(judged) == [expected_verdicts.expectations_path(judged, STUDY)]
    assert scorecard.skipped_expectations(judged) == []
    expectations = expected_verdicts.load_expectations(judged, STUDY)
    assert expectations is not None
    assert expectations.configured == {**described(), "repetitions": 2}
    assert set(expectations.expected.values()) >= {"not reproduced"}


@pytest.mark.parametrize("text", ["", "expected: {a: reproduced}", "configured: {}\nexpected: [a]", "- a"])
def test_an_invalid_file_of_expectations_is_reported_with_the_required_keys(tmp_path: Path, text: str) -> None:
    path = expected_verdicts.expectations_path(tmp_path, STUDY)
    path.parent.mkdir(parents=True)
    path.write_text(text)
    with pytest.raises(ConfigError, match=rf"^data/published/{STUDY}/expectations\.yaml: needs the keys 'configured'"):
        expected_verdicts.load_expectations(tmp_path, STUDY)


@pytest.mark.slow
def test_the_text_names_no_worst_place_if_there_is_none(judged: Path) -> None:
    assert "worst at" in scorecard.scorecard_text(judged)
    assert "None" not in scorecard.scorecard_text(judged)
