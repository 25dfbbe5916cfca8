"""The workflows on GitHub run the project's commands on all supported versions of Debian, without extra rights."""

import re

import yaml
from support import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yaml"))
COMMANDS = {
    "tests.yaml": ".ci/run --all",
    "report.yaml": "./reproduce.sh",
    "nightly.yaml": "./reproduce.sh test --nightly",
}


def test_each_workflow_runs_one_command_of_the_project_on_both_debians() -> None:
    assert {file.name for file in WORKFLOWS} == set(COMMANDS)
    for file in WORKFLOWS:
        (job,) = yaml.safe_load(file.read_text(encoding="utf-8"))["jobs"].values()
        assert job["strategy"]["matrix"] == {"debian": ["12", "13"]}
        assert COMMANDS[file.name] in [step.get("run") for step in job["steps"]]


def test_actions_are_pinned_by_commit_with_a_version_comment() -> None:
    for file in WORKFLOWS:
        for action in re.findall(r"uses: (.*)", file.read_text(encoding="utf-8")):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action), (file.name, action)


def test_only_the_code_of_main_runs_in_a_privileged_container() -> None:
    workflow = yaml.safe_load((ROOT / ".github/workflows/tests.yaml").read_text(encoding="utf-8"))
    # YAML 1.1 reads the key `on` as true
    assert workflow[True] == {"push": {"branches": ["main"]}, "pull_request": None}
    (job,) = workflow["jobs"].values()
    assert job["container"]["options"] == "${{ github.event_name == 'push' && '--privileged' || '' }}"
    texts = [file.read_text(encoding="utf-8") for file in WORKFLOWS]
    assert sum(text.count("--privileged") for text in texts) == 2
    nightly = yaml.safe_load((ROOT / ".github/workflows/nightly.yaml").read_text(encoding="utf-8"))
    assert nightly[True] == {"schedule": [{"cron": "17 1 * * *"}], "workflow_dispatch": None}
    assert nightly["jobs"]["nightly"]["container"]["options"] == "--privileged"


def test_no_file_contains_a_url() -> None:
    for file in [*WORKFLOWS, *(ROOT / ".github").rglob("*.md"), ROOT / ".ci/run"]:
        assert not re.search(r"https?://", file.read_text(encoding="utf-8")), file
