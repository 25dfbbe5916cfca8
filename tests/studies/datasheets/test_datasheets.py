"""What is set beside data sheets: each cell once, and the drive in the steady state that belongs to a value."""

import dataclasses
from functools import cache

import datasheets
import pandas as pd
from support import ROOT, recorded_file

from iopatterns.study import Study

OF = ["bandwidth", "iops", "latency"]


@cache
def study() -> Study:
    return Study.load(
        measurements=recorded_file("datasheets", "parquet"),
        tuning=recorded_file("datasheets", "tuning.json"),
        published=ROOT / "data/published/datasheets",
        twins=ROOT / "data/twins",
    )


def test_every_cell_has_one_row_and_no_published_value() -> None:
    rows = datasheets.cells(study(), ["iodepth"], OF)
    assert len(rows) == study().executions.groupby(["drive", "cell"]).ngroups
    assert rows["published_iops"].isna().all()
    assert rows["iops_mean"].notna().all()


def test_a_cell_that_two_experiments_ask_for_has_one_row() -> None:
    executions = study().executions
    random = executions["experiments"] == "random"
    shared = executions.assign(experiments=executions["experiments"].where(~random, "random sequential"))
    both = dataclasses.replace(study(), executions=shared)
    assert len(datasheets.cells(both, ["iodepth"], OF)) == len(datasheets.cells(study(), ["iodepth"], OF))


def test_the_cells_of_a_drive_stand_together() -> None:
    drives = list(datasheets.cells(study(), ["iodepth"], OF)["drive"])
    assert drives == sorted(drives)


def test_without_a_measurement_there_are_no_cells() -> None:
    nothing = dataclasses.replace(study(), executions=study().executions[:0])
    assert datasheets.cells(nothing, ["iodepth"], OF).empty


def test_a_value_has_the_rate_of_its_own_drive_workload_and_size_in_the_steady_state() -> None:
    values = pd.DataFrame(
        {
            "id": ["one", "other size", "other drive"],
            "drive_key": ["c400", "c400", "intel"],
            "rw": "randwrite",
            "bs_bytes": [4096, 16384, 4096],
        }
    )
    rates = pd.DataFrame(
        {
            "drive": ["c400-steady", "c400-steady", "c400"],
            "rw": ["randwrite", "randread", "randwrite"],
            "bs_bytes": 4096,
            "mean": [700.0, 9.0, 8.0],
        }
    )
    found = datasheets.in_the_steady_state(values, rates)
    assert found[["drive", "id", "mean"]].to_numpy().tolist() == [["c400-steady", "one", 700.0]]
