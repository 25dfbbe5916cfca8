"""Manifests are compared with a run study by study, and the report if all studies have their default configuration."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from support import Project, copy_project

from iopatterns.workflow import manifest
from iopatterns.workflow.planned_cells import load_cells

STUDIES, FIO = ["one", "two"], "fio-0"
SCORECARD, REPORT = SHARED = ("results/scorecard.json", "results/report.pdf")


@pytest.fixture
def run(tmp_path: Path) -> Project:
    """Return a project with the files of two studies on a simulated drive, and a manifest of these files."""
    project = copy_project(tmp_path / "project")
    project.edit("config/config.yaml", studies=STUDIES, drives=["c400"], repetitions=1)
    for number, study in enumerate(STUDIES):
        content = yaml.safe_load((project.root / "config/studies/tiny.yaml").read_text())
        vary = {"rw": ["read"], "bs": ["4k", f"{8 << number}k"]}
        content["experiments"] = {"reads": {"vary": vary, "drives": ["c400"]}}
        (project.root / f"config/studies/{study}.yaml").write_text(yaml.safe_dump(content))
    fill(project)
    manifest.write_manifests(project.root, FIO)
    return project


def fill(project: Project) -> None:
    """Write all files of the studies, with placeholders as content, and the colophon and scorecard of the run."""
    derived = [
        place.format(study)
        for study in STUDIES
        for place in ("results/tables/{}/t.csv", "results/measurements/{}.parquet")
    ]
    cells = load_cells(project.root)
    for path in (*cells.raw_files(cells), *derived, *SHARED):
        (project.root / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / path).write_text(path)
    (project.root / SCORECARD).write_text(json.dumps({"studies": {}}))
    colophon = {"order": STUDIES, "drives": [{"name": "c400"}]}
    (project.root / "results/colophon.json").write_text(json.dumps(colophon))


def other_configuration(run: Project) -> None:
    run.edit("config/studies/two.yaml", repetitions=2)
    fill(run)


def removed_study(run: Project) -> None:
    manifest.manifest_path(run.root, FIO, "one").unlink()
    (run.root / "config/studies/one.yaml").unlink()
    run.edit("config/config.yaml", studies=["two"])


def run_of_one_study(run: Project) -> None:
    (run.root / "results/colophon.json").write_text(json.dumps({"order": ["one"], "drives": [{"name": "c400"}]}))


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda run: None, "all 10 files are equal to {}, byte for byte", id="same run"),
        pytest.param(
            other_configuration,
            "all 4 files of one are equal to {}, byte for byte; not compared: two, because of another configuration",
            id="another configuration",
        ),
        pytest.param(
            lambda run: run.edit("config/config.yaml", studies=["two"]),
            "all 4 files of two are equal to {}, byte for byte",
            id="fewer studies",
        ),
        pytest.param(removed_study, "all 4 files of two are equal to {}, byte for byte", id="removed study"),
        pytest.param(
            lambda run: manifest.manifest_path(run.root, FIO, "one").unlink(),
            "all 4 files of two are equal to {}, byte for byte; not compared: one, because of another configuration",
            id="study without a manifest",
        ),
        pytest.param(
            lambda run: run.edit("config/config.yaml", studies=STUDIES[::-1]),
            "all 8 files of two, one are equal to {}, byte for byte",
            id="another order",
        ),
        pytest.param(
            run_of_one_study,
            "all 4 files of one are equal to {}, byte for byte; not compared: two, because of another configuration",
            id="study left out on the command line",
        ),
    ],
)
def test_only_studies_with_the_configuration_of_their_manifest_are_compared(
    run: Project, change: Callable[[Project], None], expected: str
) -> None:
    change(run)
    if "files of" in expected:
        (run.root / REPORT).write_text("a report that is not compared")
    assert manifest.compare_results(run.root, FIO) == (True, expected.format(f"data/manifests/{FIO}"))


@pytest.mark.parametrize(
    ("change", "file"), [(other_configuration, "results/tables/one/t.csv"), (lambda run: None, REPORT)]
)
def test_a_different_file_is_named(run: Project, change: Callable[[Project], None], file: str) -> None:
    change(run)
    (run.root / file).write_text("another")
    same, text = manifest.compare_results(run.root, FIO)
    assert not same
    assert text.splitlines()[1:] == [f"  {file}"]


def test_sha256sum_reads_each_file_of_the_manifest(run: Project) -> None:
    for name, count in {"one": 4, "two": 4, manifest.REPORT_MANIFEST: 2}.items():
        path = manifest.manifest_path(run.root, FIO, name)
        done = subprocess.run(
            ["sha256sum", "--check", "--strict", path], cwd=run.root, check=True, capture_output=True, text=True
        )
        assert done.stdout.count(": OK\n") == len(done.stdout.splitlines()) == count


def test_values_given_on_the_command_line_are_another_configuration(run: Project) -> None:
    card = {"studies": {study: {"configuration": {"repetitions": 3}} for study in STUDIES}}
    (run.root / SCORECARD).write_text(json.dumps(card))
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert "the configuration is not the one" in text


def test_a_missing_result_is_reported(run: Project) -> None:
    (run.root / REPORT).unlink()
    with pytest.raises(manifest.ManifestError, match=r"results/report\.pdf: this result is missing\. Run"):
        manifest.compare_results(run.root, FIO)


def test_with_another_fio_results_without_version_are_compared_with_the_most_similar_manifest(run: Project) -> None:
    expected = "none is committed for fio-1; all 2 tables, figures and numbers are equal to data/manifests/fio-0,"
    assert manifest.compare_results(run.root, "fio-1") == (True, f"{expected} byte for byte")
    for study in STUDIES:
        (run.root / f"results/tables/{study}/t.csv").write_text("of a later fio")
    manifest.write_manifests(run.root, "fio-2")
    for file in ("results/tables/two/t.csv", "results/measurements/two.parquet"):
        (run.root / file).write_text("of this fio")
    same, text = manifest.compare_results(run.root, "fio-1")
    assert same
    assert "1 of 2 tables, figures and numbers are equal to data/manifests/fio-2," in text
    assert text.splitlines()[1:] == ["  results/tables/two/t.csv"]


def test_without_a_committed_manifest_nothing_is_compared(run: Project) -> None:
    shutil.rmtree(run.root / manifest.MANIFEST_FOLDER / FIO)
    assert manifest.compare_results(run.root, FIO) == (True, "not compared, because no manifest is committed")
