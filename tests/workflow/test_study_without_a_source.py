"""A study without a source, published values and claims has a complete report."""

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
    """Return a run of only this study, on a simulated drive."""
    project = copy_project(module_disk_folder / "project")
    assert project.iopatterns("study", "new", "mine").returncode == 0
    (project.root / "config/studies/mine.yaml").write_text(yaml.safe_dump(STUDY))
    project.edit("config/config.yaml", studies=["mine"], drives=["c400"], runtime="20 ms", file_size="64 MiB")
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project


def text_of(project: Project) -> str:
    return pdf_text(project.root / "results/report.pdf")


def test_the_report_shows_the_measurements_and_names_no_source(alone: Project) -> None:
    text = text_of(alone)
    for words in ("What I wanted to know", "Experiment depths", "Experiment depths: rate over I/O depth on c400."):
        assert words in text
    for words in ("source", "claim", "0 of 0", "scorecard", "The same over the levels"):
        assert words not in text


def test_abstract_and_conclusion_state_the_range_of_the_means(alone: Project) -> None:
    numbers = json.loads((alone.root / "results/numbers/mine.json").read_text())
    smallest, largest = (round(each["mean"]) for each in numbers["ranges"]["depths"]["means"])
    abstract, conclusion = text_of(alone).split("2 Method")[0], text_of(alone).split("5 Conclusion")[1]
    assert f"the mean rate in experiment depths ranges from {smallest} IOPS to {largest} IOPS" in abstract
    assert f"the smallest mean rate is {smallest} IOPS (I/O depth 1), and the largest {largest} IOPS" in conclusion


def test_every_chapter_has_text_and_the_figure_is_below_its_heading(alone: Project) -> None:
    section = text_of(alone).split("3.1 Experiment depths")[1].split("References")[0]
    order = ["Table 1.", "Figure 1.", "4 Discussion", "4.1 Limits", "5 Conclusion"]
    assert sorted(order, key=section.index) == order
    assert len(section.split("5 Conclusion")[1]) > 50


def test_the_table_has_no_column_of_published_values(alone: Project) -> None:
    table = (alone.root / "results/tables/mine/depths.typ").read_text()
    assert "Rate (IOPS)" in table
    assert "Published" not in table


def test_the_scorecard_is_empty_and_the_summary_has_no_claims(alone: Project) -> None:
    assert json.loads((alone.root / "results/scorecard.json").read_text()) == {"studies": {}}
    assert alone.snakemake("scorecard").returncode == 0
    said = alone.iopatterns("summary", "--since", "0")
    assert said.returncode == 0, said.stdout
    assert "claims" not in said.stdout


def test_only_studies_with_a_source_are_judged(alone: Project) -> None:
    overrides = ("studies=[tiny,mine]", "drives=[c400]", "repetitions=2")
    done = alone.snakemake("--config", *overrides)
    assert done.returncode == 0, done.stdout
    assert list(json.loads((alone.root / "results/scorecard.json").read_text())["studies"]) == ["tiny"]
    assert "What I wanted to know" in text_of(alone)


def test_a_folder_of_published_values_without_its_files_is_refused(alone: Project) -> None:
    (alone.root / "data/published/mine").mkdir()
    try:
        said = alone.snakemake("-n")
    finally:
        (alone.root / "data/published/mine").rmdir()
    assert said.returncode == 2
    assert "data/published/mine/values.csv: there is no such file" in said.stdout
