"""New studies: notebook and section work with any measurement, and nothing is overwritten."""

import json
import re
from pathlib import Path

import nbformat
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from support import FIXTURE, FIXTURE_GRID, copy_recorded_results, pdf_text

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
    """Return a project with the folders to which the files of a study are written."""
    for name in ("config/studies", "notebooks", "paper/studies"):
        (tmp_path / name).mkdir(parents=True)
    return tmp_path


def renamed_fixture_study(root: Path) -> Path:
    """Return a project with a new study `mine` on the recorded measurement of the fixture study."""
    copy_recorded_results(root)
    (root / "config/studies").mkdir(parents=True)
    skeleton.create_study(root, "mine")
    (root / "data/published/tiny").rename(root / "data/published/mine")
    for kind in ("parquet", "tuning.json"):
        (root / f"results/measurements/tiny.{kind}").rename(root / f"results/measurements/mine.{kind}")
    return root


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a new study, and its report."""
    root = renamed_fixture_study(tmp_path_factory.mktemp("built") / "project")
    colophon = json.loads((root / "results/colophon.json").read_text(encoding="utf-8"))
    colophon |= {"studies": {"mine": colophon["studies"]["tiny"]}, "order": ["mine"]}
    (root / "results/colophon.json").write_text(json.dumps(colophon), encoding="utf-8")
    scorecard.write_scorecard(root, {"mine": scorecard.judge_study(root, "mine")})
    execute_notebook(root / "notebooks/mine.ipynb", root / "results/notebooks/mine.ipynb")
    compile_report(root / "paper/report.typ", root / "results/report.pdf")
    return root


EXPERIMENTS = list(yaml.safe_load((FIXTURE / FIXTURE_GRID).read_text(encoding="utf-8"))["experiments"])


# ---- Files


def test_grid_notebook_and_section_are_written_with_the_name_of_the_study(folders: Path) -> None:
    assert [str(path) for path in skeleton.create_study(folders, "mine")] == FILES
    texts = [(folders / file).read_text(encoding="utf-8") for file in FILES]
    assert all("the-study" not in text for text in texts)
    assert "title: mine" in texts[0]
    assert "results/measurements/mine.parquet" in texts[1]
    assert '#let name = "mine"' in texts[2]


def test_the_notebook_declares_the_same_parameters_as_the_fixture_study(folders: Path) -> None:
    skeleton.create_study(folders, "mine")
    new, fixture = (
        declared_notebook_parameters(path) for path in (folders / FILES[1], FIXTURE / "notebooks/tiny.ipynb")
    )
    assert {name: parameter.type for name, parameter in new.items()} == {
        name: parameter.type for name, parameter in fixture.items()
    }


def test_the_notebook_is_short_and_not_executed(folders: Path) -> None:
    skeleton.create_study(folders, "mine")
    cells = [cell for cell in nbformat.read(folders / FILES[1], as_version=4).cells if cell.cell_type == "code"]
    assert len(cells) <= 15
    assert not any(cell.outputs or cell.execution_count for cell in cells)


@pytest.mark.parametrize("name", ["", "Mine", "my study", "../mine", "-mine", "mine/", "mine\n", "mïne"])
def test_an_invalid_name_is_refused(folders: Path, name: str) -> None:
    with pytest.raises(SkeletonError) as caught:
        skeleton.create_study(folders, name)
    assert str(caught.value).startswith(f"'{printable(name)}' cannot be the name of a study. Use lower-case letters")
    assert list(folders.rglob("*.*")) == []


@pytest.mark.parametrize("file", FILES)
def test_only_missing_files_are_written(folders: Path, file: str) -> None:
    (folders / file).write_text("my own", encoding="utf-8")
    assert [str(path) for path in skeleton.create_study(folders, "mine")] == [other for other in FILES if other != file]
    assert (folders / file).read_text(encoding="utf-8") == "my own"


def test_nothing_is_written_if_all_files_exist(folders: Path) -> None:
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


def test_the_command_prints_the_written_files_and_how_to_run_the_study(
    folders: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folders)
    done = CliRunner().invoke(iopatterns_command, ["study", "new", "mine"])
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert lines[:3] == [f"{file}: written" for file in FILES]
    assert lines[3] == "Run the study: snakemake --cores 1 --config 'studies=[mine]' 'drives=[c400]'"


def test_files_of_a_source_are_written_on_request(folders: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folders)
    done = CliRunner().invoke(iopatterns_command, ["study", "new", "mine", "--with-source"])
    files = [f"data/published/mine/{name}" for name in ("values.csv", "drives.csv", "claims.yaml")]
    assert done.output.splitlines()[:6] == [f"{file}: written" for file in [*FILES, *files]]
    problems = sources.file_problems(folders, files)
    assert [problem.split(":")[0] for problem in problems] == sorted(files)
    (folders / files[0]).write_text((folders / files[0]).read_text() + "a,,iops,D,d,read,4k,depth,,=,1,IOPS,1 IOPS\n")
    assert len(sources.file_problems(folders, files)) == 2


# ---- Tables, figures and report


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
def test_a_figure_has_a_panel_for_each_level_of_the_remaining_factor(
    built: Path, experiment: str, panels: list[str]
) -> None:
    text = (built / f"results/figures/mine/{experiment}.svg").read_text(encoding="utf-8")
    words = re.findall(r"<!-- (.*?) -->", text)
    assert words.count("c400") == len(panels)
    assert [word for word in words if word in panels] == [panel for panel in panels if panel]


def test_an_experiment_that_no_drive_accepts_shows_why(tmp_path: Path) -> None:
    root = renamed_fixture_study(tmp_path / "project")
    table = pd.read_parquet(root / "results/measurements/mine.parquet")
    table[table["experiments"] != "refusing"].to_parquet(root / "results/measurements/mine.parquet")
    execute_notebook(root / "notebooks/mine.ipynb", root / "results/notebooks/mine.ipynb")
    table = pd.read_csv(root / "results/tables/mine/refusing.csv")
    outcomes = dict(zip(table["drive"], table["outcome"], strict=True))
    assert outcomes == {"c400": "not changeable", "ssdsc2kg480g7": "ignored"}
    text = (root / "results/figures/mine/refusing.svg").read_text(encoding="utf-8")
    assert text.count("<!-- ignored: -->") == 1


def test_the_report_has_the_study_s_section_with_every_experiment(built: Path) -> None:
    text = pdf_text(built / "results/report.pdf")
    assert [name for name in EXPERIMENTS if f"Experiment {name} " not in text] == []


def test_the_numbers_have_the_records_of_every_experiment(built: Path) -> None:
    numbers = json.loads((built / "results/numbers/mine.json").read_text(encoding="utf-8"))
    assert set(numbers["levels"]) == set(EXPERIMENTS)
    assert {row["study"] for row in numbers["levels"]["initial"]} == {"initial"}
    assert len(numbers["levels"]["initial"]) == 16
