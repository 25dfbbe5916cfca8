"""The measurement of saif2020 that tests/notebooks/data records: as a study, and as the table that it comes from."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
from support import ROOT

from iopatterns.raw import tuning_steps
from iopatterns.study import Study

RECORDED = ROOT / "tests/notebooks/data"
RAW = pd.read_parquet(RECORDED / "saif2020.parquet").assign(mb=lambda rows: rows["bandwidth_bytes_per_s"] / 1e6)
STEPS = tuning_steps.read_records(RECORDED / "saif2020.tuning.json")
REFUSERS = ["mz7km240", "ssdsc2bb300g4", "ssdsc2kg480g7"]


@cache
def study(confidence: float = 0.95, method: str = "t") -> Study:
    return Study.load(
        measurements=RECORDED / "saif2020.parquet",
        tuning=RECORDED / "saif2020.tuning.json",
        published=ROOT / "data/published/saif2020",
        twins=ROOT / "data/twins",
        confidence=confidence,
        method=method,
    )


def only(*drives: str) -> Study:
    """Return the study with the executions of some drives alone."""
    whole = study()
    return replace(whole, executions=whole.executions[whole.executions["drive"].isin(drives)])


def asks(experiment: str) -> pd.DataFrame:
    """Return the raw executions of an experiment."""
    return RAW[RAW["experiments"].map(lambda names: experiment in names.split())]


def mean_of(experiment: str, **levels: object) -> float:
    """Return the mean bandwidth (MB/s) of the raw executions of an experiment at some levels."""
    rows = asks(experiment)
    for name, level in levels.items():
        rows = rows[rows[name] == level]
    assert rows["cell"].nunique() == 1
    return float(np.mean(rows["mb"].to_list()))
