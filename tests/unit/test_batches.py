"""Batches: the cells that one job measures."""

import shlex

import yaml
from support import ROOT, Project

from iopatterns.workflow import batches
from iopatterns.workflow.planned_cells import load_cells


def batches_of_tiny(project: Project, **values: object) -> list[batches.Batch]:
    return batches.study_batches(load_cells(project.root, values), "tiny")


def test_the_batches_of_a_study_contain_each_cell_once_and_one_drive_each() -> None:
    cells = load_cells(ROOT)
    for study in cells.studies:
        found = batches.study_batches(cells, study)
        assert [cell for batch in found for cell in batch.cells] == cells.of_study(study)
        assert all({cell.drive for cell in batch.cells} == {batch.drive} for batch in found)
    assert len(batches.batches_by_name(cells)) == sum(
        len(batches.study_batches(cells, study)) for study in cells.studies
    )


def test_existing_raw_files_change_neither_batches_nor_hide_missing_ones(project: Project) -> None:
    values = {"drives": ["c400", "scratch"], "repetitions": 2, "runtime": "10 ms"}
    before = load_cells(project.root, values)
    complete, half, *others = before.of_study("tiny", "c400")
    for raw in (*before.raw_files([complete]), before.raw_files([half])[0]):
        (project.root / raw).parent.mkdir(parents=True, exist_ok=True)
        (project.root / raw).touch()
    cells = load_cells(project.root, values)
    assert batches.study_batches(cells, "tiny") == batches.study_batches(before, "tiny")
    lines = batches.job_message(cells, [complete, half, *others]).splitlines()
    assert lines == [f"Measuring tiny on c400: {cell.name}" for cell in (half, *others)]
    assert batches.job_message(cells, [complete]) == "Checking that 1 cells are complete"


def test_a_cell_that_takes_seconds_has_a_batch_of_its_own(project: Project) -> None:
    found = batches_of_tiny(project, drives=["scratch"], repetitions=10, runtime="1 s")
    assert [len(batch.cells) for batch in found] == [1] * 8
    (batch,) = batches_of_tiny(project, drives=["scratch"], repetitions=1, runtime="10 ms")
    assert len(batch.cells) == 8


def test_the_command_line_of_a_batch_is_within_the_kernel_s_limit(project: Project) -> None:
    study = yaml.safe_load((project.root / "config/studies/tiny.yaml").read_text())
    vary = {"rw": ["read"], "bs": ["4k"], "thinktime": [f"{number} us" for number in range(500)]}
    project.edit("config/studies/tiny.yaml", experiments={"many": {**study["experiments"]["initial"], "vary": vary}})
    cells = load_cells(project.root, {"drives": ["c400"], "repetitions": 1, "runtime": "10 ms"})
    found = batches.study_batches(cells, "tiny")
    assert 1 < len(found) < 50
    for batch in found:
        words = [*batches.specification_options(batch.cells), *cells.raw_files(batch.cells)]
        # Snakemake passes the command to the shell as one word (execve(2), MAX_ARG_STRLEN)
        assert len(shlex.join(words)) < 128 * 1024 - 1000


def test_a_time_limit_grows_with_the_batch_and_with_each_attempt(project: Project) -> None:
    def limit(attempt: int, **values: object) -> int:
        cells = load_cells(project.root, {"drives": ["c400"], **values})
        return batches.time_limit_min(cells, batches.study_batches(cells, "tiny")[0], attempt)

    assert 10 <= limit(1, repetitions=1, runtime="10 ms") <= 12
    assert limit(1, repetitions=500, runtime="60 s") > 60
    assert limit(3, repetitions=500, runtime="60 s") > 2 * limit(1, repetitions=500, runtime="60 s")
