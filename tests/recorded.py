"""The recorded measurement of a study, as `Study` and as the table it comes from."""

from dataclasses import replace
from functools import cache, cached_property

import numpy as np
import pandas as pd
from support import FIXTURE, FIXTURE_STUDY, ROOT, recorded_file

from iopatterns.raw import tuning_steps
from iopatterns.raw.tuning_steps import TuningRecord
from iopatterns.study import Study


class Recorded:
    """The recorded measurement of one study.

    Attributes:
        name: The name of the study.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    @cached_property
    def raw(self) -> pd.DataFrame:
        """The table of repetitions, with the bandwidth in MB/s as ``mb``."""
        table = pd.read_parquet(recorded_file(self.name, "parquet"))
        return table.assign(mb=table["bandwidth_bytes_per_s"] / 1e6)

    @cached_property
    def steps(self) -> list[TuningRecord]:
        """The settings that were asked for."""
        return tuning_steps.read_tuning_records(recorded_file(self.name, "tuning.json"))

    @cache  # noqa: B019 - there are as many as studies
    def study(self, confidence: float = 0.95, method: str = "t") -> Study:
        """Return the study as its notebook loads it."""
        published = (FIXTURE if self.name == FIXTURE_STUDY else ROOT) / "data/published" / self.name
        return Study.load(
            measurements=recorded_file(self.name, "parquet"),
            tuning=recorded_file(self.name, "tuning.json"),
            published=published,
            twins=ROOT / "data/twins",
            confidence=confidence,
            method=method,
        )

    def only(self, *drives: str) -> Study:
        """Return the study with the repetitions on some drives alone."""
        found = self.study()
        return replace(found, executions=found.executions[found.executions["drive"].isin(drives)])

    def asks(self, experiment: str) -> pd.DataFrame:
        """Return the raw repetitions of an experiment."""
        return self.raw[self.raw["experiments"].map(lambda names: experiment in names.split())]

    def mean_of(self, experiment: str, **levels: object) -> float:
        """Return the mean bandwidth (MB/s) of the only cell of an experiment at some levels."""
        rows = self.asks(experiment)
        for name, level in levels.items():
            rows = rows[rows[name] == level]
        assert rows["cell"].nunique() == 1
        return float(np.mean(rows["mb"].to_list()))


TINY = Recorded(FIXTURE_STUDY)
