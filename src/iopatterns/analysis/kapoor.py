"""Queue depths, miss ratios of the map cache and zombie curves: what Kapoor's figures and tables show of a trace."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from iopatterns.twin.traces import OPERATIONS, UNKNOWN

_MAP_USERS = ("read", "write", "discard")


def queue_depth(requests: pd.DataFrame) -> pd.DataFrame:
    """Return the drive's queue depth over time (figure 1) from a trace with its completions.

    ``requests`` has the columns of `iopatterns.twin.traces.read_pieces`; those that were not seen to go to the drive
    and to end are left out. The result has a row for each dispatch and completion in order of time: ``time_ns``,
    ``before`` and ``depth`` (requests at the drive before and after it), and ``operation`` of the request. Of events at
    the same time, completions are first: a slot must be free before it is taken again.
    """
    seen = requests[(requests["dispatched_ns"] != UNKNOWN) & (requests["completed_ns"] != UNKNOWN)]
    # a request that took no time at all is dispatched before it is completed
    instant = (seen["dispatched_ns"] == seen["completed_ns"]).to_numpy()
    events = pd.DataFrame(
        {
            "time_ns": np.concatenate([seen["dispatched_ns"], seen["completed_ns"]]),
            "step": np.repeat([1, -1], len(seen)),
            "order": np.concatenate([np.ones(len(seen)), np.where(instant, 2, 0)]),
            "operation": np.tile(seen["operation"], 2),
        }
    )
    events = events.sort_values(["time_ns", "order"], kind="stable", ignore_index=True)
    depth = events["step"].cumsum()
    return pd.DataFrame(
        {
            "time_ns": events["time_ns"],
            "before": depth - events["step"],
            "depth": depth,
            "operation": events["operation"],
        }
    )


def box(depths: Sequence[int] | pd.Series) -> dict[str, float]:
    """Return what a box plot of queue depths shows (figure 2), each event counting once as in WiscSee.

    Quartiles are linear between the two nearest values. Whiskers end at the outermost value within 1.5 times the
    distance of the quartiles (J. W. Tukey, Exploratory Data Analysis, 1977). Raises ValueError where there is none.
    """
    values = np.asarray(depths, dtype=float)
    if not len(values):
        raise ValueError("a box plot of no queue depth")
    first, median, third = np.quantile(values, [0.25, 0.5, 0.75])
    reach = 1.5 * (third - first)
    inside = values[(values >= first - reach) & (values <= third + reach)]
    return {
        "low_whisker": float(inside.min()),
        "first_quartile": float(first),
        "median": float(median),
        "third_quartile": float(third),
        "high_whisker": float(inside.max()),
    }


def workload(requests: pd.DataFrame) -> dict[str, float]:
    """Return of a trace with its completions what tables 1, 2 and 3 have.

    ``duration_s`` from the first dispatch to the last completion, ``max_request_bytes`` of its writes, and
    ``write_mb_per_s``, bytes written to the drive over the duration in 10⁶ bytes per second. Raises ValueError where no
    request ended.
    """
    ended = requests[requests["completed_ns"] != UNKNOWN]
    if not len(ended):
        raise ValueError("a trace in which no request was completed has no duration")
    begun = ended["dispatched_ns"].where(ended["dispatched_ns"] != UNKNOWN, ended["arrival_ns"])
    duration_ns = int(ended["completed_ns"].max() - begun.min())
    written = ended.loc[ended["operation"] == OPERATIONS["write"], "size_bytes"].astype(np.int64)
    return {
        "duration_s": duration_ns / 1e9,
        "max_request_bytes": int(written.max()) if len(written) else 0,
        "write_mb_per_s": int(written.sum()) / duration_ns * 1e3 if duration_ns else 0.0,
    }


def miss_ratio(counters: Mapping[str, int]) -> float:
    """Return misses over lookups of the map cache (figure 3), a lookup for each page of a read, write or discard.

    ``counters`` are the drive's totals by name. A drive with its whole map in memory looks nothing up, and misses
    nothing.
    """
    misses = sum(counters[f"map_{user}_misses"] for user in _MAP_USERS)
    lookups = misses + sum(counters[f"map_{user}_hits"] for user in _MAP_USERS)
    return misses / lookups if lookups else 0.0


def miss_ratio_of_phase(series: pd.DataFrame, begin_ns: int) -> float:
    """Return the miss ratio from a time on, without that of the preparation before.

    ``series`` is what `twin replay --counters` writes. The last snapshot at ``begin_ns`` or earlier is where the phase
    begins; without one it is the beginning.
    """
    names = [f"map_{user}_{outcome}" for user in _MAP_USERS for outcome in ("hits", "misses")]
    own = series[series["series"].isin(names)]
    last = own.groupby("series", observed=True)["value"].last()
    before = own[own["time_ns"] <= begin_ns].groupby("series", observed=True)["value"].last()
    gained = last.sub(before, fill_value=0)
    return miss_ratio({name: int(gained.get(name, 0)) for name in names})


def zombie_curves(series: pd.DataFrame, block_bytes: int, capacity_bytes: int) -> pd.DataFrame:
    """Return the zombie curve of each snapshot (figures 4 and 5): the valid ratios of used blocks, the highest first.

    ``series`` is what `twin replay --counters` writes. The result has, by ``time_ns``, a row for each block with a
    valid page: ``space``, the size of that block and those before it as a share of the capacity, and ``valid_ratio``,
    its valid pages over its pages. Blocks without any are dropped, as they are free but for their erase.
    """
    blocks = series[(series["series"] == "valid_ratio") & (series["value"] > 0)]
    blocks = blocks.sort_values(["time_ns", "value", "index"], ascending=[True, False, True], ignore_index=True)
    rank = blocks.groupby("time_ns").cumcount() + 1
    return pd.DataFrame(
        {
            "time_ns": blocks["time_ns"],
            "space": rank * block_bytes / capacity_bytes,
            "valid_ratio": blocks["value"],
        }
    )


def zombies(curves: pd.DataFrame) -> pd.DataFrame:
    """Return of each snapshot of `zombie_curves` what the text says of its curve.

    By ``time_ns``: ``space`` where the curve ends, ``area`` below it (valid data over the capacity),
    ``mean_valid_ratio``, and ``zombie_share``, the share of used blocks that are partly valid.
    """
    step = curves.groupby("time_ns")["space"].min().rename("step")  # the first block's own space
    by_time = curves.groupby("time_ns")
    found = pd.DataFrame(
        {
            "space": by_time["space"].max(),
            "area": by_time["valid_ratio"].sum() * step,
            "mean_valid_ratio": by_time["valid_ratio"].mean(),
            "zombie_share": (curves["valid_ratio"] < 1).groupby(curves["time_ns"]).mean(),
        }
    )
    return found.reset_index()
