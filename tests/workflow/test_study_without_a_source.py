"""A study of one's own, with no source: nothing published, no claims, and a whole report all the same."""

import json
from pathlib import Path

import pytest
import yaml
from support import Project, copy_project, pdf_text

STUDY = {
    "title": "What I wanted to know",
    "fio": {"ioengine": "libaio", "direct": 1},
    "experiments": {
        "depths": {
            "vary": {"rw": ["randread"], "bs": ["4k"], "iodepth": [1, 8]},
            "drives": ["c400"],
            "tables": ["depths"],
            "figures": ["depths"],
        }
    },
}


@pytest.fixture(scope="module")
def alone(module_disk_folder: Path) -> Project:
    """A run of that study alone, on a twin."""
    project = copy_project(module_disk_folder / "project")
    assert project.iopatterns("study", "mine").returncode == 0
    (project.root / "config/studies/mine.yaml").write_text(yaml.safe_dump(STUDY))
    project.edit("config/config.yaml", studies=["mine"], drives=["c400"], runtime="20 ms", file_size="64 MiB")
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project


def text_of(project: Project) -> str:
    return pdf_text(project.root / "results/report.pdf")


def test_the_report_shows_what_was_measured_and_speaks_of_no_source(alone: Project) -> None:
    text = text_of(alone)
    assert "What I wanted to know" in text
    assert "Experiment depths" in text
    assert "No study of this report has published values or claims" in text
    assert "0 of 0" not in text
    assert "what the source published" not in text


def test_the_table_has_no_column_of_published_values(alone: Project) -> None:
    table = (alone.root / "results/tables/mine/depths.typ").read_text()
    assert "Rate (IOPS)" in table
    assert "Published" not in table


def test_the_scorecard_leaves_it_out_and_nothing_fails(alone: Project) -> None:
    assert json.loads((alone.root / "results/scorecard.json").read_text()) == {"studies": {}}
    assert alone.snakemake("scorecard").returncode == 0
    said = alone.iopatterns("summary", "--since", "0")
    assert said.returncode == 0, said.stdout
    assert "Claims:" not in said.stdout


def test_beside_a_study_with_a_source_that_one_alone_is_judged(alone: Project) -> None:
    overrides = ("studies=[saif2020,mine]", "drives=[c400]", "repetitions=2")
    done = alone.snakemake("--config", *overrides)
    assert done.returncode == 0, done.stdout
    assert list(json.loads((alone.root / "results/scorecard.json").read_text())["studies"]) == ["saif2020"]
    assert "What I wanted to know" in text_of(alone)


def test_a_folder_of_published_values_needs_all_its_files(alone: Project) -> None:
    (alone.root / "data/published/mine").mkdir()
    try:
        said = alone.snakemake("-n")
    finally:
        (alone.root / "data/published/mine").rmdir()
    assert said.returncode == 2
    assert "data/published/mine/values.csv: not there" in said.stdout
