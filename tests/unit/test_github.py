"""The workflows on GitHub run the project's own commands, on every supported Debian, and name no other host."""

import re
from pathlib import Path

import pytest
import yaml
from support import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
COMMANDS = {"tests.yaml": ".ci/run --all", "report.yaml": "./reproduce.sh"}


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_runs_one_command_of_the_project_on_both_debians(file: Path) -> None:
    (job,) = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
    assert job["strategy"]["matrix"] == {"debian": ["12", "13"]}
    assert COMMANDS[file.name] in [step.get("run") for step in job["steps"]]


def test_there_is_a_workflow_for_tests_and_one_for_the_report() -> None:
    assert {file.name for file in WORKFLOWS} == set(COMMANDS)


def test_nothing_names_a_host_but_by_the_names_of_actions() -> None:
    for file in [*WORKFLOWS, *(ROOT / ".github").rglob("*.md"), ROOT / ".ci/run"]:
        assert not re.search(r"https?://", file.read_text(encoding="utf-8")), file


def test_the_command_of_continuous_integration_checks_and_tests() -> None:
    text = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.search(r"^\./reproduce\.sh check ", text, flags=re.MULTILINE)
    assert re.search(r'^\./reproduce\.sh test "\$@" --cov=src ', text, flags=re.MULTILINE)
