"""The cells of a configuration, and the raw files that are declared to Snakemake."""

import os
from pathlib import Path

import pytest
import yaml
from support import ROOT, Project

from iopatterns.configuration.grid import GridError
from iopatterns.workflow.planned_cells import Completion, StopReason, load_cells


def folders(project: Project, study: str, **values: object) -> set[str]:
    return {cell.folder for cell in load_cells(project.root, values).of_study(study)}


def test_a_study_without_a_cell_is_refused_with_its_drives(project: Project) -> None:
    study = yaml.safe_load((project.root / "config/studies/tiny.yaml").read_text())
    for body in study["experiments"].values():
        body["drives"] = ["ssdsc2kg480g7"]
    (project.root / "config/studies/other.yaml").write_text(yaml.safe_dump(study))
    with pytest.raises(GridError, match=r"of the study other\. Add a drive that the study names \(ssdsc2kg480g7\)"):
        load_cells(project.root, {"drives": ["c400"], "studies": ["tiny", "other"]})
    (project.root / "config/studies/other.yaml").write_text(
        yaml.safe_dump({**study, "experiments": {"e": {"vary": {"rw": ["read"], "bs": ["4k"]}}}})
    )
    with pytest.raises(GridError, match=r"none has a cell of the study other\. Name drives in its file"):
        load_cells(project.root, {"drives": ["c400"], "studies": ["other"]})


def test_a_simulated_drive_with_a_new_name_runs_all_experiments(project: Project) -> None:
    project.edit("config/drives.yaml", **{"my-c400": {"kind": "twin", "model": "c400"}})
    studies = sorted(path.stem for path in (ROOT / "config/studies").glob("*.yaml"))
    cells = load_cells(
        project.root, {"drives": ["my-c400"], "studies": studies, "file_size": "1 GiB", "runtime": "1 s"}
    )
    for study in studies:
        experiments = {name for cell in cells.of_study(study) for name in cell.experiments}
        assert experiments == set(cells.config.studies[study]["experiments"])


def test_the_host_of_a_drive_does_not_change_its_cells(project: Project) -> None:
    def with_entry(**more: str) -> set[str]:
        project.edit("config/drives.yaml", mine={"kind": "file", "path": "mine.bin", **more})
        return folders(project, "tiny", drives=["mine"])

    assert with_entry(host="node1") == with_entry()


def test_a_changed_iolog_changes_only_its_cell(project: Project) -> None:
    study = yaml.safe_load((project.root / "config/studies/tiny.yaml").read_text())
    vary = {"read_iolog": ["x.iolog", "y.iolog"]}
    project.edit("config/studies/tiny.yaml", experiments={**study["experiments"], "own": {"vary": vary}})
    (project.root / "y.iolog").write_text("fio version 2 iolog\na write 0 512\n")

    def with_log(log: str) -> set[str]:
        (project.root / "x.iolog").write_text(log)
        return folders(project, "tiny", drives=["scratch"])

    before = with_log("fio version 2 iolog\na read 0 512\n")
    after = with_log("fio version 2 iolog\na read 512 512\n")
    assert {folder.split("/")[2].rsplit("-", 1)[0] for folder in before - after} == {"randread-512-j1-logx"}
    assert len(before - after) == len(after - before) == 1
    assert any("randwrite-512-j1-logy-" in folder for folder in before & after)


def test_study_or_configuration_sets_the_repetitions_of_a_finished_cell(project: Project) -> None:
    values = {"drives": ["c400"], "repetitions": 3}
    before = load_cells(project.root, values)
    assert set(before.completions.values()) == {Completion(3, StopReason.CONFIGURATION)}
    assert before.own_repetitions() == {}
    project.edit("config/studies/tiny.yaml", repetitions=5)
    after = load_cells(project.root, values)
    assert set(after.completions.values()) == {Completion(5, StopReason.STUDY)}
    assert after.own_repetitions() == {"tiny": 5}
    cells = after.of_study("tiny")
    assert len(after.raw_files(cells)) == 5 * len(cells)


@pytest.mark.parametrize(
    ("oldest_first", "declared"),
    [
        ([], ["04"]),
        (["01", "02"], ["04"]),  # the job measures missing files
        (["01", "02", "03"], ["04"]),
        (["01", "02", "03", "04"], ["04"]),
        (["01", "03", "04"], ["02", "04"]),
        (["01", "02", "04", "03"], ["03", "04"]),
        (["04", "01"], ["01", "02", "03", "04"]),
    ],
)
def test_declared_are_the_last_raw_file_of_a_cell_and_missing_or_newer_ones(
    oldest_first: list[str], declared: list[str], project: Project
) -> None:
    values = {"drives": ["c400"], "repetitions": 4, "runtime": "10 ms"}
    before = load_cells(project.root, values)
    raws = before.raw_files(before.of_study("tiny"))
    first, others = Path(raws[0]).parent, [raw for raw in raws[4:] if raw.endswith("/04.json")]
    for second, name in enumerate(oldest_first, start=1):
        path = project.root / first / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (second, second))
    after = load_cells(project.root, values)
    outputs = after.declared_outputs(after.of_study("tiny"))
    assert outputs == [f"{first}/{name}.json" for name in declared] + others
    assert after.raw_files(after.of_files(outputs)) == raws
