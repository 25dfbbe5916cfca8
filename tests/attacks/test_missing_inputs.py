"""A run whose sources are missing or empty ends before it measures anything, and says which they are."""

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


def test_an_old_report_is_no_source_of_a_new_one(project: Project) -> None:
    report = project.root / "results/report.pdf"
    for path in (report, project.root / "results/scorecard.json", project.root / "results/numbers/tiny.json"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("of an earlier run")
    missing = [
        NOTEBOOK,
        SECTION,
        VALUES,
        "workflow/schemas/claims.schema.yaml",
        "src/iopatterns/analysis/statistics.py",
    ]
    for name in missing:
        (project.root / name).unlink()
    said = project.snakemake()
    assert said.returncode == 2
    lines = said.stdout.strip().splitlines()
    lines = lines[next(at for at, line in enumerate(lines) if line.startswith("Nothing is run")) :]
    assert sorted(line.split(":")[0] for line in lines[1:]) == sorted(missing)
    assert "`iopatterns study new tiny`" in said.stdout
    assert "CONTRIBUTING.md" in said.stdout
    assert report.read_text() == "of an earlier run"
    assert project.raw_files() == {}


@pytest.mark.parametrize(
    ("path", "content", "expected"),
    [
        (VALUES, (FIXTURE / VALUES).read_text().splitlines()[0] + "\n", "no value follows the head"),
        (VALUES, "a,b\n1,2\n", "line 1: the columns must be id,"),
        (VALUES, "", "line 1: the columns must be id,"),
        (CLAIMS, "", "holds no claim"),
        (CLAIMS, "# none yet\n", "holds no claim"),
        (CLAIMS, "claims: []\n", "holds no claim"),
        (NOTEBOOK, "{}", "no notebook with cells"),
        (NOTEBOOK, "[" * 100_000, "no notebook with cells"),
    ],
)
def test_an_empty_source_is_told_like_a_missing_one(checkout: Path, path: str, content: str, expected: str) -> None:
    whole = (checkout / path).read_bytes()
    (checkout / path).write_text(content)
    try:
        said = refusal(checkout, path)
    finally:
        (checkout / path).write_bytes(whole)
    assert f"{path}: " in said
    assert expected in said
    assert len(said.splitlines()) == 2


def test_a_folder_in_place_of_a_source_is_told(checkout: Path) -> None:
    assert "paper: no plain file" in refusal(checkout, "paper")


def test_the_check_takes_no_time(checkout: Path) -> None:
    paths = [str(path.relative_to(checkout)) for path in (checkout / "data/published/tiny").iterdir()]
    raw = [f"data/raw/{number}.json" for number in range(20_000)]
    began = time.process_time()
    entry.require_sources(checkout, [*paths, NOTEBOOK, SECTION, *raw])
    assert time.process_time() - began < 0.1


def test_the_cells_for_other_commands_need_no_notebook(checkout: Path) -> None:
    (checkout / NOTEBOOK).rename(checkout / "away")
    try:
        assert load_cells(checkout).of_study("tiny")
    finally:
        (checkout / "away").rename(checkout / NOTEBOOK)


def test_what_the_message_advises_makes_the_missing_file(project: Project) -> None:
    (project.root / NOTEBOOK).unlink()
    section = (project.root / SECTION).read_bytes()
    said = project.iopatterns("study", "new", "tiny")
    assert said.returncode == 0
    assert (project.root / NOTEBOOK).is_file()
    assert (project.root / SECTION).read_bytes() == section
