"""Quantities of all cells, and rates of drives in the steady state, for comparison with data sheets."""

import dataclasses
from collections.abc import Sequence

import pandas as pd

from iopatterns.study import Study

# Suffix of the names, in config/drives.yaml, of drives in the steady state
_STEADY = "-steady"


def all_cells(study: Study, by: Sequence[str], of: Sequence[str]) -> pd.DataFrame:
    """Return some quantities of all cells, sorted by drive, without published values.

    A cell of several experiments is included once. Published values are left out because each belongs to one of
    several experiments.

    Args:
        study: The study.
        by: The columns of the factors.
        of: The names of the quantities.

    Returns:
        A table with the columns of `Study.comparison`.
    """
    measured = dataclasses.replace(study, values=study.values[:0])
    parts = [measured.comparison(experiment, by, of) for experiment in study.experiments]
    rows = pd.concat([part for part in parts if not part.empty] or parts[:1])
    return rows.drop_duplicates(["drive", "rw", "bs_bytes", *by]).sort_values("drive", kind="stable", ignore_index=True)


def steady_state_means(values: pd.DataFrame, steady: pd.DataFrame) -> pd.DataFrame:
    """Return the means in the steady state that correspond to published values.

    Args:
        values: The published values, see `published.load_values`.
        steady: The means of drives in the steady state, with the columns drive, rw, bs_bytes and mean.

    Returns:
        A row for each published value with such a mean. Columns: drive (in the steady state), rw, bs_bytes, id (of the
        value) and mean.
    """
    keys = ["drive", "rw", "bs_bytes"]
    wanted = values.assign(drive=values["drive_key"] + _STEADY)
    return wanted[[*keys, "id"]].merge(steady[[*keys, "mean"]], on=keys)
