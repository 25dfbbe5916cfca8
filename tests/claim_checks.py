"""Small tables of repetitions, and checks of claims evaluated on them."""

from typing import Any

import pandas as pd
from hypothesis import strategies as st

from iopatterns.judging.claims import ClaimChecks, Judge, PartResult

VALUES = pd.DataFrame({"id": ["table1-read", "table1-limit"], "value": [100.0, 30.0], "unit": "MB/s"})
RANDOM_TO_SEQUENTIAL = {"ratio": {"rw": "randread"}, "to": {"rw": "read"}, "experiment": "initial"}
MEAN_OF_READS = {"mean": {"rw": "read"}, "experiment": "initial"}
READ_AND_RANDOM = {"read": {"rw": "read"}, "random": {"rw": "randread"}}
bandwidths = st.floats(1.0, 1e4)
samples = st.lists(bandwidths, min_size=1, max_size=6)
tolerances = st.floats(0.0, 2.0)
bounds = st.floats(0.01, 100.0)
ratio_checks = st.one_of(
    st.fixed_dictionaries({"at_most": bounds, "tolerance": tolerances}),
    st.fixed_dictionaries({"at_least": bounds, "tolerance": tolerances}),
    st.fixed_dictionaries({"within": st.floats(0.01, 0.9)}),
)


def executions(*cells: tuple[list[float], dict[str, Any]]) -> pd.DataFrame:
    """One row per bandwidth; each cell is sequential reads of 4 KiB by one job on drive d but for what it says."""
    usual = {
        "drive": "d",
        "experiments": "initial",
        "rw": "read",
        "bs_bytes": 4096,
        "numjobs": 1,
        "set_DRA": None,
        "set_scheduler": None,
        "iodepth_reached": 1,
    }
    rows = [{**usual, **cell, "bandwidth_mb_per_s": one} for many, cell in cells for one in many]
    return pd.DataFrame(rows).astype({"set_DRA": "Int64", "bs_bytes": "Int64"})


def judge(*cells: tuple[list[float], dict[str, Any]]) -> Judge:
    return Judge(executions(*cells), [])


def parts_of(judge_: Judge, check: dict[str, Any], published: pd.DataFrame = VALUES) -> list[PartResult]:
    """Return the results of a check as claims.yaml has it."""
    parsed = ClaimChecks.parse({"check": check}, published)
    assert parsed is not None
    return judge_.results(parsed)


def reads_and_random_reads(sequential: list[float], random: list[float]) -> Judge:
    return judge((sequential, {}), (random, {"rw": "randread"}))


def statuses(parts: list[PartResult]) -> list[str]:
    return [part.status for part in parts]


def labels(parts: list[PartResult]) -> list[str]:
    return [part.label for part in parts]


def values(parts: list[PartResult]) -> list[float | str]:
    return [part.value for part in parts]


def arithmetic(value: str, names: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"value": value, "with": names, "experiment": "initial", "at_least": 0, **more}
