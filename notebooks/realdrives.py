"""Simulated drives compared with measurements of real drives: for the notebook of this study only."""

import hashlib
from pathlib import Path

import pandas as pd

POINTS = Path("data/published/realdrives/points.csv")

# Levels of the part "fit"; `part_of` states the rule
_FITTED_JOBS, _FITTED_DEPTHS = (1, 4), (1, 4, 16)
_FITTED_MIXES = (95, 50)  # percent of reads
_DEEP = 128  # the only depth of some drives
_FITTED_JOBS_DEEP = (1, 4, 8)
_IDENTITY = ("drive", "rw", "rwmixread", "bs_bytes", "iodepth", "numjobs")


def part_of(point: pd.Series) -> str:
    """Return the part of a point: fit, selection or test.

    A point is in the part "fit" if one or four jobs keep 1, 4 or 16 requests outstanding each, in a mix only with 95
    or 50 % of reads; at a depth of 128, if there are 1, 4 or 8 jobs. The other points are divided by the last bit of
    a hash of drive and workload: 0 for selection, 1 for test. Sector format and version of fio are not hashed, so that
    a repeated measurement is in the part of the first one.

    Args:
        point: A row of `load_points`.
    """
    depth, jobs, mix = point["iodepth"], point["numjobs"], point["rwmixread"]
    if depth == _DEEP and jobs in _FITTED_JOBS_DEEP:
        return "fit"
    if depth in _FITTED_DEPTHS and jobs in _FITTED_JOBS and (pd.isna(mix) or mix in _FITTED_MIXES):
        return "fit"
    identity = " ".join("" if pd.isna(point[name]) else str(point[name]) for name in _IDENTITY)
    return ("selection", "test")[hashlib.sha256(identity.encode()).digest()[-1] & 1]


def load_points(path: Path = POINTS) -> pd.DataFrame:
    """Return the measured points, one per row, with the part of each in the column ``part``.

    Args:
        path: A CSV file with the columns that data/published/README.md describes.
    """
    whole = ["rwmixread", "size_bytes", "sector_bytes"]  # whole numbers that may be unknown
    points = pd.read_csv(path, dtype=dict.fromkeys(whole, "Int64"))
    return points.assign(part=points.apply(part_of, axis=1))
