"""A manifest is held against a run study by study, and what all of them make where all are as the manifest has them."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from support import Project, copy_project

from iopatterns.workflow import manifest
from iopatterns.workflow.planned_cells import load_cells

STUDIES, FIO = ["one", "two"], "fio-0"
SHARED = ("results/scorecard.json", "results/report.pdf")


@pytest.fixture
def run(tmp_path: Path) -> Project:
    """A project whose two studies on a twin have their files, and a manifest of them."""
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
    """Have all files of the studies there, and of the run what it says of itself."""
    cells = load_cells(project.root)
    of_each = ("results/tables/{}/t.csv", "results/measurements/{}.parquet")
    derived = [path.format(study) for study in STUDIES for path in of_each]
    for path in (*(raw for study in STUDIES for raw in cells.raw_files(cells.of_study(study))), *derived, *SHARED):
        (project.root / path).parent.mkdir(parents=True, exist_ok=True)
        (project.root / path).write_text(path)
    (project.root / SHARED[0]).write_text(json.dumps({"studies": {}}))
    colophon = {"order": STUDIES, "drives": [{"name": "c400"}]}
    (project.root / "results/colophon.json").write_text(json.dumps(colophon))


def test_the_same_run_agrees(run: Project) -> None:
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert text == f"all {2 * 2 + 2 * 2 + 2} files are those of data/manifests/{FIO}, byte for byte"


def test_a_study_of_another_configuration_is_not_compared_and_the_other_is(run: Project) -> None:
    run.edit("config/studies/two.yaml", repetitions=2)
    fill(run)
    for path in SHARED[1:]:
        (run.root / path).write_text("another")
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert text.startswith("all 4 files of one are those of")
    assert text.endswith("not compared: two, of another configuration than the manifest")


def test_a_file_of_a_study_that_differs_is_named_whatever_the_others_are(run: Project) -> None:
    run.edit("config/studies/two.yaml", repetitions=2)
    fill(run)
    (run.root / "results/tables/one/t.csv").write_text("another")
    same, text = manifest.compare_results(run.root, FIO)
    assert not same
    assert text.splitlines()[1:] == ["  results/tables/one/t.csv"]


def test_a_report_that_differs_is_named_where_all_studies_are_compared(run: Project) -> None:
    (run.root / SHARED[1]).write_text("another")
    same, text = manifest.compare_results(run.root, FIO)
    assert not same
    assert text.splitlines()[1:] == ["  results/report.pdf"]


def test_a_run_of_fewer_studies_is_compared_by_those(run: Project) -> None:
    run.edit("config/config.yaml", studies=["two"])
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert text.startswith("all 4 files of two are those of")


def test_after_a_study_and_its_manifest_are_removed_the_others_are_compared(run: Project) -> None:
    manifest.manifest_path(run.root, FIO, "one").unlink()
    (run.root / "config/studies/one.yaml").unlink()
    run.edit("config/config.yaml", studies=["two"])
    (run.root / SHARED[1]).write_text("another report, of one study")
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert text == f"all 4 files of two are those of data/manifests/{FIO}, byte for byte"


def test_a_study_without_a_manifest_is_not_compared_and_the_others_are(run: Project) -> None:
    manifest.manifest_path(run.root, FIO, "one").unlink()
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert text.startswith("all 4 files of two are those of")
    assert text.endswith("not compared: one, of another configuration than the manifest")


def test_a_report_of_the_studies_in_another_order_is_not_compared(run: Project) -> None:
    run.edit("config/config.yaml", studies=STUDIES[::-1])
    (run.root / SHARED[1]).write_text("the studies in another order")
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert text.startswith("all 8 files of two, one are those of")


def test_sha256sum_reads_each_file_of_the_manifest(run: Project) -> None:
    for name, count in {"one": 4, "two": 4, manifest.REPORT_MANIFEST: 2}.items():
        path = manifest.manifest_path(run.root, FIO, name)
        done = subprocess.run(
            ["sha256sum", "--check", "--strict", path], cwd=run.root, check=True, capture_output=True, text=True
        )
        assert done.stdout.count(": OK\n") == len(done.stdout.splitlines()) == count


def test_a_study_that_was_left_out_on_the_command_line_is_not_missed(run: Project) -> None:
    (run.root / "results/colophon.json").write_text(json.dumps({"order": ["one"], "drives": [{"name": "c400"}]}))
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert "of one are those of" in text


def test_values_given_on_the_command_line_are_another_configuration(run: Project) -> None:
    card = {"studies": {study: {"configuration": {"repetitions": 3}} for study in STUDIES}}
    (run.root / SHARED[0]).write_text(json.dumps(card))
    same, text = manifest.compare_results(run.root, FIO)
    assert same
    assert "the configuration is not the one" in text


def test_a_missing_file_says_that_the_run_is_not_complete(run: Project) -> None:
    (run.root / SHARED[1]).unlink()
    with pytest.raises(manifest.ManifestError, match=r"results/report\.pdf: not there"):
        manifest.compare_results(run.root, FIO)


def test_with_another_fio_what_names_no_version_is_held_against_the_manifest_that_it_comes_nearest_to(
    run: Project,
) -> None:
    same, text = manifest.compare_results(run.root, "fio-1")
    assert same
    assert text.startswith("none is committed for fio-1. Of 2 tables, figures and numbers, 2 are those of")
    assert text.endswith(f"data/manifests/{FIO}, byte for byte")
    for study in STUDIES:
        (run.root / f"results/tables/{study}/t.csv").write_text("of a later fio")
    manifest.write_manifests(run.root, "fio-2")
    (run.root / "results/tables/two/t.csv").write_text("of this fio")
    (run.root / "results/measurements/two.parquet").write_text("of this fio")
    same, text = manifest.compare_results(run.root, "fio-1")
    assert same
    assert "2 tables, figures and numbers, 1 are those of data/manifests/fio-2," in text
    assert text.splitlines()[1:] == ["  results/tables/two/t.csv"]


def test_where_no_manifest_is_committed_nothing_is_compared(run: Project) -> None:
    shutil.rmtree(run.root / manifest.MANIFEST_FOLDER / FIO)
    assert manifest.compare_results(run.root, FIO) == (True, f"not compared: none is committed, for {FIO} or any other")
