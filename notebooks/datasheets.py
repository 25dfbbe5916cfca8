"""Means of all cells of a study, and means of drives in the steady state.

The means are compared with vendors' data sheets. A cell is one configuration: a drive, its settings and a workload. A
drive is in the steady state when it has been written at random until its rate no longer changes.
"""

import dataclasses
from collections.abc import Sequence

import pandas as pd

from iopatterns.study import Study

# Suffix of the names, in config/drives.yaml, of drives in the steady state
_STEADY = "-steady"


def all_cells(study: Study, by: Sequence[str], of: Sequence[str]) -> pd.DataFrame:
    """Return the means of some quantities in all cells of a study, sorted by drive.

    A cell is one configuration: a drive, its settings and a workload. A cell that belongs to several experiments has
    one row.

    Args:
        study: The study.
        by: The columns of the factors that distinguish cells, besides drive, rw and bs_bytes; an example is
            ``["iodepth"]``.
        of: The names of the quantities, such as ``iops``.

    Returns:
        A row per cell, with the columns of `Study.comparison`. All published values are missing, because a published
        value belongs to one experiment, not to a cell.
    """
    measured = dataclasses.replace(study, values=study.values[:0])
    parts = [measured.comparison(experiment, by, of) for experiment in study.experiments]
    rows = pd.concat([part for part in parts if not part.empty] or parts[:1])
    return rows.drop_duplicates(["drive", "rw", "bs_bytes", *by]).sort_values("drive", kind="stable", ignore_index=True)


def steady_state_means(values: pd.DataFrame, steady: pd.DataFrame) -> pd.DataFrame:
    """Return the steady-state means that published values are compared with.

    A drive is in the steady state when random writes no longer change its rate. The name of such a drive is the name of
    the drive with the ending ``-steady``, such as ``c400-steady``. A published value of c400 is compared with the mean
    of c400-steady for the same workload and block size.

    Args:
        values: The published values, as `published.load_values` returns them.
        steady: The means of drives in the steady state, with the columns drive, rw, bs_bytes and mean.

    Returns:
        A row for each published value that has such a mean. Columns: drive (name with the ending ``-steady``), rw,
        bs_bytes, id (of the published value) and mean.
    """
    keys = ["drive", "rw", "bs_bytes"]
    wanted = values.assign(drive=values["drive_key"] + _STEADY)
    return wanted[[*keys, "id"]].merge(steady[[*keys, "mean"]], on=keys)
