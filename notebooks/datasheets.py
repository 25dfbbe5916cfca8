"""What data sheets state beside what was measured: every cell once, and rates on a drive in the steady state."""

import dataclasses
from collections.abc import Sequence

import pandas as pd

from iopatterns.study import Study

# A drive of config/drives.yaml that is another one in the steady state bears that one's name with this behind it
_STEADY = "-steady"


def cells(study: Study, by: Sequence[str], of: Sequence[str]) -> pd.DataFrame:
    """Return some quantities of every cell, each once although several experiments may ask for it, drive by drive.

    Columns as of ``study.comparison`` by the columns ``by``; no value of a sheet stands beside any, for a sheet's value
    may be one of several experiments.
    """
    alone = dataclasses.replace(study, values=study.values[:0])
    parts = [alone.comparison(experiment, by, of) for experiment in study.experiments]
    rows = pd.concat([part for part in parts if not part.empty] or parts[:1])
    once = rows.drop_duplicates(["drive", "rw", "bs_bytes", *by])
    return once.sort_values("drive", kind="stable").reset_index(drop=True)


def in_the_steady_state(values: pd.DataFrame, steady: pd.DataFrame) -> pd.DataFrame:
    """Return the published values of which the same drive in the steady state has a cell, with its mean there.

    ``values``: as ``published.load`` returns it; ``steady``: columns drive, rw, bs_bytes and mean, of such drives.
    Columns: drive (in the steady state), rw, bs_bytes, id (of the value), mean (as in ``steady``).
    """
    keys = ["drive", "rw", "bs_bytes"]
    wanted = values.assign(drive=values["drive_key"] + _STEADY)
    return wanted[[*keys, "id"]].merge(steady[[*keys, "mean"]], on=keys)
