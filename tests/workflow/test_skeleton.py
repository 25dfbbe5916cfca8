"""New studies: notebook and section work with any measurement, and nothing is overwritten."""

import ast
import json
import re
import shutil
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from support import FIXTURE, FIXTURE_GRID, copy_recorded_results, pdf_text

from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.cli import iopatterns_command
from iopatterns.configuration import sources
from iopatterns.judging import scorecard
from iopatterns.workflow import skeleton
from iopatterns.workflow.notebooks import declared_notebook_parameters, execute_notebook
from iopatterns.workflow.report import compile_report
from iopatterns.workflow.skeleton import SkeletonError

GRID, *OTHERS = FILES = ["config/studies/mine.yaml", "notebooks/mine.ipynb", "paper/studies/mine.typ"]


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A folder with those of a project that files are written to."""
    for name in ("config/studies", "notebooks", "paper/studies"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a new study on the measurement and published values of the fixture study, and its report."""
    root = copy_recorded_results(tmp_path_factory.mktemp("begun") / "project")
    (root / "config/studies").mkdir(parents=True)
    skeleton.create_study(root, "mine")
    shutil.copytree(root / "data/published/tiny", root / "data/published/mine")
    for kind in ("parquet", "tuning.json"):
        (root / f"results/measurements/tiny.{kind}").rename(root / f"results/measurements/mine.{kind}")
    colophon = json.loads((root / "results/colophon.json").read_text(encoding="utf-8"))
    colophon |= {"studies": {"mine": colophon["studies"]["tiny"]}, "order": ["mine"]}
    (root / "results/colophon.json").write_text(json.dumps(colophon), encoding="utf-8")
    scorecard.write_scorecard(root, {"mine": scorecard.judge_study(root, "mine")})
    execute_notebook(root / "notebooks/mine.ipynb", root / "results/notebooks/mine.ipynb")
    compile_report(root / "paper/report.typ", root / "results/report.pdf")
    return root


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Likewise, but no drive took the settings of the experiment ``refusing``."""
    root = copy_recorded_results(tmp_path_factory.mktemp("refused") / "project")
    (root / "config/studies").mkdir(parents=True)
    skeleton.create_study(root, "mine")
    (root / "data/published/tiny").rename(root / "data/published/mine")
    for kind in ("parquet", "tuning.json"):
        (root / f"results/measurements/tiny.{kind}").rename(root / f"results/measurements/mine.{kind}")
    table = pd.read_parquet(root / "results/measurements/mine.parquet")
    table[table["experiments"] != "refusing"].to_parquet(root / "results/measurements/mine.parquet")
    execute_notebook(root / "notebooks/mine.ipynb", root / "results/notebooks/mine.ipynb")
    return root


EXPERIMENTS = list(yaml.safe_load((FIXTURE / FIXTURE_GRID).read_text(encoding="utf-8"))["experiments"])


# ---- Files


def test_a_grid_a_notebook_and_a_section_are_written_and_named(folders: Path) -> None:
    assert [str(path) for path in skeleton.create_study(folders, "mine")] == FILES
    assert all((folders / file).is_file() for file in FILES)


def test_what_is_written_bears_the_study_s_name_everywhere(folders: Path) -> None:
    skeleton.create_study(folders, "mine")
    texts = [(folders / file).read_text(encoding="utf-8") for file in FILES]
    assert all("the-study" not in text for text in texts)
    assert "title: mine" in texts[0]
    assert "results/measurements/mine.parquet" in texts[1]
    assert '#let name = "mine"' in texts[2]


def test_the_notebook_declares_the_parameters_that_those_of_the_project_have(folders: Path) -> None:
    skeleton.create_study(folders, "mine")
    begun, there = (
        declared_notebook_parameters(path) for path in (folders / FILES[1], FIXTURE / "notebooks/tiny.ipynb")
    )
    assert {name: parameter.type for name, parameter in begun.items()} == {
        name: parameter.type for name, parameter in there.items()
    }


def test_the_notebook_is_thin_and_not_executed(folders: Path) -> None:
    skeleton.create_study(folders, "mine")
    cells = [cell for cell in nbformat.read(folders / FILES[1], as_version=4).cells if cell.cell_type == "code"]
    nodes = [node for cell in cells for node in ast.walk(ast.parse(cell.source))]
    lengths = [len(ast.unparse(node).splitlines()) for node in nodes if isinstance(node, ast.FunctionDef)]
    assert len(cells) <= 15
    assert max(lengths) <= 10
    assert not any(cell.outputs or cell.execution_count for cell in cells)


@pytest.mark.parametrize("name", ["", "Mine", "my study", "../mine", "-mine", "mine/", "mine\n", "mïne"])
def test_a_name_that_is_none_is_refused(folders: Path, name: str) -> None:
    with pytest.raises(SkeletonError) as caught:
        skeleton.create_study(folders, name)
    assert str(caught.value).startswith(f"'{printable(name)}' cannot be the name of a study. Use lower-case letters")
    assert list(folders.rglob("*.*")) == []


@pytest.mark.parametrize("file", FILES)
def test_of_a_begun_study_only_the_missing_file_is_written(folders: Path, file: str) -> None:
    (folders / file).write_text("my own", encoding="utf-8")
    assert [str(path) for path in skeleton.create_study(folders, "mine")] == [other for other in FILES if other != file]
    assert (folders / file).read_text(encoding="utf-8") == "my own"


def test_nothing_is_written_where_all_files_are_there_already(folders: Path) -> None:
    for file in FILES:
        (folders / file).write_text("my own", encoding="utf-8")
    with pytest.raises(SkeletonError, match=r"the study 'mine' exists already: .*\. Choose another name\."):
        skeleton.create_study(folders, "mine")
    assert {path.read_text(encoding="utf-8") for path in folders.rglob("*.*")} == {"my own"}


@pytest.mark.parametrize("missing", ["config/studies", "notebooks", "paper/studies"])
def test_nothing_is_written_outside_of_a_project(folders: Path, missing: str) -> None:
    (folders / missing).rmdir()
    with pytest.raises(SkeletonError) as caught:
        skeleton.create_study(folders, "mine")
    assert str(caught.value) == f"{missing}: there is no such folder here. Run this command in the project's folder."
    assert list(folders.rglob("*.*")) == []


# ---- The command


def test_the_command_names_what_it_wrote_and_how_to_run_it(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    said = CliRunner().invoke(iopatterns_command, ["study", "new", "mine"])
    assert said.exit_code == 0
    lines = said.output.splitlines()
    assert lines[:3] == [f"{file}: written" for file in FILES]
    assert lines[3] == "Run the study: snakemake --cores 1 --config 'studies=[mine]' 'drives=[c400]'"


def test_a_source_is_begun_on_request(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    said = CliRunner().invoke(iopatterns_command, ["study", "new", "mine", "--with-source"])
    begun = [f"data/published/mine/{name}" for name in ("values.csv", "drives.csv", "claims.yaml")]
    assert said.output.splitlines()[:6] == [f"{file}: written" for file in [*FILES, *begun]]
    problems = sources.file_problems(folders, begun)
    assert [problem.split(":")[0] for problem in problems] == sorted(begun)
    (folders / begun[0]).write_text((folders / begun[0]).read_text() + "a,,iops,D,d,read,4k,depth,,=,1,IOPS,1 IOPS\n")
    assert len(sources.file_problems(folders, begun)) == 2


def test_a_wrong_name_is_a_mistake_of_the_command_s_words(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    said = CliRunner().invoke(iopatterns_command, ["study", "new", "No Name"])
    assert isinstance(said.exception, SkeletonError)
    assert isinstance(said.exception, IoPatternsError)
    assert said.exception.exit_status == 2


# ---- What comes of it


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_each_experiment_of_any_grid_has_a_table_and_a_figure(built: Path, experiment: str) -> None:
    for file in (f"tables/mine/{experiment}.csv", f"tables/mine/{experiment}.typ", f"figures/mine/{experiment}.svg"):
        assert (built / "results" / file).stat().st_size > 0


@pytest.mark.parametrize(
    ("experiment", "panels"),
    [
        ("block-size", [""]),
        ("schedulers", [f"Block size (KiB): {size}" for size in (4, 28)]),
        ("concurrency", [f"Block size (KiB): {size}" for size in (4, 28)]),
    ],
)
def test_a_figure_has_a_panel_for_each_level_of_all_factors_but_one(
    built: Path, experiment: str, panels: list[str]
) -> None:
    text = (built / f"results/figures/mine/{experiment}.svg").read_text(encoding="utf-8")
    words = re.findall(r"<!-- (.*?) -->", text)
    assert words.count("c400") == len(panels)
    assert [word for word in words if word in panels] == [panel for panel in panels if panel]


def test_an_experiment_that_no_drive_could_run_shows_why(refused: Path) -> None:
    table = pd.read_csv(refused / "results/tables/mine/refusing.csv")
    assert dict(zip(table["drive"], table["outcome"], strict=True)) == {
        "c400": "not changeable",
        "ssdsc2kg480g7": "ignored",
    }
    text = (refused / "results/figures/mine/refusing.svg").read_text(encoding="utf-8")
    assert text.count("<!-- ignored: -->") == 1


def test_the_report_has_the_study_s_section_with_every_experiment(built: Path) -> None:
    text = pdf_text(built / "results/report.pdf")
    assert [name for name in EXPERIMENTS if f"Experiment {name} " not in text] == []


def test_the_numbers_have_the_records_of_every_experiment(built: Path) -> None:
    numbers = json.loads((built / "results/numbers/mine.json").read_text(encoding="utf-8"))
    assert set(numbers["levels"]) == set(EXPERIMENTS)
    assert {row["study"] for row in numbers["levels"]["initial"]} == {"initial"}
    assert len(numbers["levels"]["initial"]) == 16
