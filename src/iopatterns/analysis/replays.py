"""Results of replayed block traces, in the form of fio's results.

A replay submits the requests of a recorded block trace to a simulated drive instead of running fio.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# Prefix of the columns that only replays have
REPLAY_PREFIX = "replay_"
# A column of JSON text: the details from which figures are drawn
DETAILS_COLUMN = f"{REPLAY_PREFIX}shown"
_DETAILS = ("depth", "blocks", "blocks_before_discards", "blocks_over_time", "runs_ns", "latency", "recordings")
_MAP_USERS = ("read", "write", "discard")
_KIB = 1024
_MIB = 1024 * _KIB


def replay_rows(raw_files: Sequence[Path]) -> pd.DataFrame:
    """Return results of replayed block traces with the column names of fio's results.

    A block trace lists requests to a drive with their times; a replay submits them to a simulated drive. Columns that
    results of fio also have are named as in `fio_parser_json.jobs`, so that both kinds of results fit into one table.

    Args:
        raw_files: Raw files of replays: JSON files with the content that `measuring.replays.replay_phase` returns.

    Returns:
        A row for each raw file and each direction (read, write) that has requests. Columns:

        - source (path of the raw file), document (always 0) and direction
        - total_ios, io_bytes, bandwidth_bytes_per_s, iops and lat_mean_ns: results of the direction
        - iodepth_reached: the largest depth of the drive's queue
        - replay_<name> for each result of `replay_results`, equal in both rows of a raw file
        - `DETAILS_COLUMN`: the data of figures, as JSON text
    """
    found = []
    for raw in raw_files:
        content = json.loads(raw.read_text(encoding="utf-8"))
        seconds = content["duration_ns"] / 1e9
        results = {f"{REPLAY_PREFIX}{name}": value for name, value in replay_results(content).items()}
        details = json.dumps({name: content[name] for name in _DETAILS if name in content})
        for direction in ("read", "write"):
            requests = content["requests"].get(direction)
            if requests is None:
                continue
            found.append(
                {
                    "source": str(raw),
                    "document": 0,
                    "direction": direction,
                    "io_bytes": requests["bytes"],
                    "total_ios": requests["count"],
                    "bandwidth_bytes_per_s": round(requests["bytes"] / seconds),
                    "iops": requests["count"] / seconds,
                    "lat_mean_ns": requests["latency_mean_ns"],
                    "iodepth_reached": len(content["depth"]["events"]) - 1,
                    **results,
                    DETAILS_COLUMN: details,
                }
            )
    return with_nullable_columns(pd.DataFrame(found))


def with_nullable_columns(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table whose integer and boolean columns can have missing values.

    Columns of whole numbers, also if they are stored as floats, become Int64. Columns of truth values become boolean.
    Columns of text and of numbers with fractions are unchanged.
    """
    converted = {name: column.convert_dtypes() for name, column in table.items() if column.dtype != "str"}
    return table.assign(**{str(name): column for name, column in converted.items() if column.dtype != "Float64"})


def replay_details(measurements: Path, *names: str) -> pd.DataFrame:
    """Return a row for each replay of a study, with data for figures in columns.

    A replay submits the requests of a recorded block trace to a simulated drive.

    Args:
        measurements: The Parquet file of a study's measurements, with the table that `collect.measurement_table`
            returns.
        names: Names of the data to return. `measuring.replays.replay_phase` describes each of them:

            - ``depth``: how often the queue reached each depth, and the depth over time
            - ``blocks``: numbers of flash blocks by their valid pages
            - ``blocks_before_discards``: the same numbers before the first discard
            - ``blocks_over_time``: the same numbers at several times
            - ``runs_ns``: durations of the runs
            - ``latency``: the largest latency over time, the median, and latency peaks
            - ``recordings``: durations of recordings of the same program, and of their replays

    Returns:
        The columns of the measurements without `DETAILS_COLUMN`, and one for each of `names`. A value in an added
        column is a dictionary or list, as in the raw file of the replay, or None if the replay does not have these
        data. There are no rows if the study has no replays.
    """
    table = pd.read_parquet(measurements).drop_duplicates(["drive", "cell"])
    if DETAILS_COLUMN not in table:
        return table.iloc[:0].reindex(columns=[*table.columns, *names])
    table = table[table[DETAILS_COLUMN].notna()].reset_index(drop=True)  # jobs of fio have no details
    content = table.pop(DETAILS_COLUMN).map(json.loads)
    return table.assign(**{name: content.map(lambda each, name=name: each.get(name)) for name in names})


def replay_results(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the results of a replay of a phase (named part) of a block trace.

    A replay submits the requests of a recorded block trace to a simulated drive.

    Args:
        content: The content of the replay's raw file, as `measuring.replays.replay_phase` returns it.

    Returns:
        A number for each name; NaN if there is nothing to compute it from. Times and sizes are in the unit at the end
        of the name.

        Requests:

        - duration_s: duration of the phase
        - largest_write_kib and median_write_kib: sizes of write requests
        - written_mib: sum of the sizes of all write requests
        - flushes: number of flush requests
        - write_amplification: bytes that the drive wrote to its flash, in complete pages, divided by the bytes that the
          requests wrote

        The depth of the drive's queue, in requests. Each change of the depth counts once, however long the depth
        lasted, as in the simulator WiscSee:

        - depth_mean, depth_first_quartile, depth_median, depth_third_quartile and depth_largest
        - drained: how often the queue became empty

        The drive's address map and flash blocks. Only blocks with at least one valid page count:

        - miss_ratio: misses of the cache of the address map, divided by look-ups; 0 without look-ups
        - occupied: size of the blocks divided by the size of the drive
        - area: size of the valid data divided by the size of the drive
        - mean_valid_ratio: mean share of valid pages in a block
        - zombies: share of blocks whose pages are only partly valid

        The first discard (request by which a file system reports deleted data) of the phase:

        - first_discard_s: time from the begin of the phase to this request
        - occupied_before_discards and so on: the four numbers of the blocks when the request reaches the drive

        If the replay consists of several runs:

        - longest_run_s and mean_run_s
        - spread_of_runs: longest minus shortest run, divided by the mean

        If latencies were recorded (a peak is one request, or several in succession, with at least five times the median
        latency):

        - median_latency_ms and largest_latency_ms: of all requests
        - peak_latency_ms: mean over the peaks of the largest latency in each
        - peaks_per_thousand: number of peaks per thousand requests
        - irregularity_of_peaks: standard deviation of the distances between peaks (in requests), divided by their mean
    """
    counters = content["counters"]
    writes = content["requests"].get("write", {})
    events = content["depth"]["events"]
    depths = np.repeat(np.arange(len(events)), events)
    quartiles = np.quantile(depths, [0.25, 0.5, 0.75]) if len(depths) else [np.nan] * 3
    misses = sum(counters[f"map_{user}_misses"] for user in _MAP_USERS)
    lookups = misses + sum(counters[f"map_{user}_hits"] for user in _MAP_USERS)
    return {
        "duration_s": content["duration_ns"] / 1e9,
        "largest_write_kib": writes.get("largest_bytes", np.nan) / _KIB,
        "median_write_kib": writes.get("median_bytes", np.nan) / _KIB,
        "written_mib": writes.get("bytes", 0) / _MIB,
        "flushes": float(content["requests"].get("flush", {}).get("count", 0)),
        "write_amplification": _write_amplification(content),
        "depth_mean": float(depths.mean()) if len(depths) else np.nan,
        "depth_first_quartile": float(quartiles[0]),
        "depth_median": float(quartiles[1]),
        "depth_third_quartile": float(quartiles[2]),
        "depth_largest": float(len(events) - 1),
        "drained": float(events[0]) if events else 0.0,
        # a drive with its complete map in memory has no look-ups and no misses
        "miss_ratio": misses / lookups if lookups else 0.0,
        **_block_results(content["blocks"]),
        **_results_before_discards(content),
        **(_run_results(content["runs_ns"]) if "runs_ns" in content else {}),
        **(_latency_results(content) if "latency" in content else {}),
    }


def _write_amplification(content: Mapping[str, Any]) -> float:
    blocks, written_bytes = content["blocks"], content["counters"]["write_bytes"]
    if not blocks["block_bytes"] or not written_bytes:
        return np.nan
    page_bytes = blocks["block_bytes"] / (len(blocks["by_valid_pages"]) - 1)
    return float(content["counters"]["page_programs"] * page_bytes / written_bytes)


def _run_results(runs_ns: Sequence[int]) -> dict[str, float]:
    mean_s = float(np.mean(runs_ns)) / 1e9
    return {
        "longest_run_s": max(runs_ns) / 1e9,
        "mean_run_s": mean_s,
        "spread_of_runs": (max(runs_ns) - min(runs_ns)) / 1e9 / mean_s,
    }


def _latency_results(content: Mapping[str, Any]) -> dict[str, float]:
    """Return median and largest latency of a replay, and statistics of latency peaks.

    A peak is one request, or several in succession, with at least five times the median latency.

    Args:
        content: The content of a raw file with recorded latencies.

    Returns:
        A number for each name:

        - median_latency_ms and largest_latency_ms: of all requests
        - peak_latency_ms: mean over the peaks of the largest latency in each; NaN without peaks
        - peaks_per_thousand: number of peaks per thousand requests
        - irregularity_of_peaks: standard deviation of the distances between peaks (in requests), divided by their mean:
          0 for periodic peaks, about 1 for random ones; NaN for fewer than two peaks
    """
    peaks = content["latency"]["standing_out"]
    latencies_ns = np.array(peaks["largest_ns"], dtype=float)
    distances = np.diff(peaks["request"]).astype(float)
    requests = sum(each["count"] for each in content["requests"].values())
    return {
        "median_latency_ms": content["latency"]["median_ns"] / 1e6,
        "largest_latency_ms": max(content["latency"]["largest_ns"]) / 1e6,
        "peak_latency_ms": float(latencies_ns.mean()) / 1e6 if len(latencies_ns) else np.nan,
        "peaks_per_thousand": 1000 * len(latencies_ns) / requests,
        "irregularity_of_peaks": float(distances.std() / distances.mean()) if len(distances) else np.nan,
    }


def _block_results(blocks: Mapping[str, Any]) -> dict[str, float]:
    curve = zombie_curve(blocks)
    if curve.empty:
        return dict.fromkeys(("occupied", "area", "mean_valid_ratio", "zombies"), np.nan)
    return {
        "occupied": float(curve["space"].iloc[-1]),
        "area": float(curve["valid_ratio"].sum() * blocks["block_bytes"] / blocks["capacity_bytes"]),
        "mean_valid_ratio": float(curve["valid_ratio"].mean()),
        "zombies": float((curve["valid_ratio"] < 1).mean()),
    }


def _results_before_discards(content: Mapping[str, Any]) -> dict[str, float]:
    before = content.get("blocks_before_discards", {"at_ns": np.nan, "by_valid_pages": [0]})
    results = _block_results({**content["blocks"], "by_valid_pages": before["by_valid_pages"]})
    named = {f"{name}_before_discards": value for name, value in results.items()}
    return {"first_discard_s": before["at_ns"] / 1e9, **named}


def zombie_curve(blocks: Mapping[str, Any]) -> pd.DataFrame:
    """Return the shares of valid pages of a drive's flash blocks, in descending order.

    A page is valid if it holds current data. Blocks without valid pages are left out. Kapoor calls this a zombie curve,
    because blocks whose pages are only partly valid ("zombies") make up its falling end.

    Args:
        blocks: A dictionary with the keys block_bytes (size of a block), capacity_bytes (of the drive), and
            by_valid_pages (list of the numbers of blocks with 0, 1, … valid pages).

    Returns:
        A row per block. Columns: space, the size of this and all previous blocks divided by the capacity (0 to 1); and
        valid_ratio, the share of the block's pages that are valid (0 to 1).
    """
    counts = np.array(blocks["by_valid_pages"])
    pages = len(counts) - 1
    valid = np.repeat(np.arange(pages, 0, -1), counts[:0:-1])
    space = np.arange(1, len(valid) + 1) * blocks["block_bytes"] / blocks["capacity_bytes"]
    return pd.DataFrame({"space": space, "valid_ratio": valid / pages})
