"""Tests that missing or empty input files are named before a run."""

import time
from pathlib import Path

import pytest
from support import FIXTURE, Project, copy_project

from iopatterns.base.yaml_schema import ConfigError
from iopatterns.workflow import entry
from iopatterns.workflow.planned_cells import load_cells

NOTEBOOK, SECTION = "notebooks/tiny.ipynb", "paper/studies/tiny.typ"
VALUES, CLAIMS = "data/published/tiny/values.csv", "data/published/tiny/claims.yaml"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("sources") / "project").root


def refusal(root: Path, path: str) -> str:
    with pytest.raises(ConfigError) as refused:
        entry.require_sources(root, [path, "results/x.csv", "data/raw/x.json", NOTEBOOK])
    return str(refused.value)


def test_missing_inputs_end_a_run_although_old_results_exist(project: Project) -> None:
    report = project.root / "results/report.pdf"
    for path in (report, project.root / "results/scorecard.json", project.root / "results/numbers/tiny.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("old")
    missing = [
        NOTEBOOK,
        SECTION,
        VALUES,
        "workflow/schemas/claims.schema.yaml",
        "src/iopatterns/analysis/statistics.py",
    ]
    for name in missing:
        (project.root / name).unlink()
    done = project.snakemake()
    assert done.returncode == 2
    lines = done.stdout.strip().splitlines()
    lines = lines[next(at for at, line in enumerate(lines) if line.startswith("Nothing was run")) :]
    assert sorted(line.split(":")[0] for line in lines[1:]) == sorted(missing)
    assert "`iopatterns study new tiny`" in done.stdout
    assert "docs/add-a-study.md" in done.stdout
    assert report.read_text() == "old"
    assert project.raw_files() == {}


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (VALUES, (FIXTURE / VALUES).read_text().splitlines()[0] + "\n", "there is no value after the header"),
        (VALUES, "a,b\n1,2\n", "line 1: the columns must be id,"),
        (VALUES, "", "line 1: the columns must be id,"),
        (CLAIMS, "", "there are no claims in it"),
        (CLAIMS, "# none yet\n", "there are no claims in it"),
        (CLAIMS, "claims: []\n", "there are no claims in it"),
        (NOTEBOOK, "{}", "not a notebook with cells"),
        (NOTEBOOK, "[" * 100_000, "not a notebook with cells"),
    ],
)
def test_an_empty_input_is_named_like_a_missing_one(checkout: Path, path: str, content: str, expected: str) -> None:
    original = (checkout / path).read_bytes()
    (checkout / path).write_text(content)
    try:
        message = refusal(checkout, path)
    finally:
        (checkout / path).write_bytes(original)
    assert f"{path}: " in message
    assert expected in message
    assert len(message.splitlines()) == 2


def test_a_folder_instead_of_an_input_is_named(checkout: Path) -> None:
    assert "paper: not a regular file" in refusal(checkout, "paper")


def test_the_check_is_fast(checkout: Path) -> None:
    paths = [str(path.relative_to(checkout)) for path in (checkout / "data/published/tiny").iterdir()]
    raw = [f"data/raw/{number}.json" for number in range(20_000)]
    began = time.process_time()
    entry.require_sources(checkout, [*paths, NOTEBOOK, SECTION, *raw])
    assert time.process_time() - began < 0.1


def test_other_commands_need_no_notebook(checkout: Path) -> None:
    (checkout / NOTEBOOK).rename(checkout / "away")
    try:
        assert load_cells(checkout).of_study("tiny")
    finally:
        (checkout / "away").rename(checkout / NOTEBOOK)


def test_the_command_in_the_message_creates_the_missing_file(project: Project) -> None:
    (project.root / NOTEBOOK).unlink()
    section = (project.root / SECTION).read_bytes()
    assert project.iopatterns("study", "new", "tiny").returncode == 0
    assert (project.root / NOTEBOOK).is_file()
    assert (project.root / SECTION).read_bytes() == section
