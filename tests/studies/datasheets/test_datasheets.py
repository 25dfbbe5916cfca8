"""Cells and steady-state means that are compared with data sheets."""

import dataclasses

import datasheets
import pandas as pd
from recorded import Recorded

OF = ["bandwidth", "iops", "latency"]


study = Recorded("datasheets").study


def test_each_cell_has_one_row_without_published_values_grouped_by_drive() -> None:
    rows = datasheets.all_cells(study(), ["iodepth"], OF)
    assert len(rows) == study().executions.groupby(["drive", "cell"]).ngroups
    assert rows["published_iops"].isna().all()
    assert rows["iops_mean"].notna().all()
    assert list(rows["drive"]) == sorted(rows["drive"])


def test_a_cell_of_two_experiments_has_one_row() -> None:
    executions = study().executions
    random = executions["experiments"] == "random"
    shared = executions.assign(experiments=executions["experiments"].where(~random, "random sequential"))
    both = dataclasses.replace(study(), executions=shared)
    assert len(datasheets.all_cells(both, ["iodepth"], OF)) == len(datasheets.all_cells(study(), ["iodepth"], OF))


def test_without_measurements_there_are_no_cells() -> None:
    nothing = dataclasses.replace(study(), executions=study().executions[:0])
    assert datasheets.all_cells(nothing, ["iodepth"], OF).empty


def test_a_value_gets_the_mean_of_its_drive_workload_and_size_in_the_steady_state() -> None:
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
    found = datasheets.steady_state_means(values, rates)
    assert found[["drive", "id", "mean"]].to_numpy().tolist() == [["c400-steady", "one", 700.0]]
