"""Results of replayed traces as rows of the measurements."""

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
_DETAILS = ("depth", "blocks", "blocks_over_time", "runs_ns", "latency")
_MAP_USERS = ("read", "write", "discard")
_KIB = 1024
_MIB = 1024 * _KIB


def replay_rows(raw_files: Sequence[Path]) -> pd.DataFrame:
    """Return a row for each raw file of a replay and each direction with data, as `fio_parser_json.jobs` does.

    Columns: source, document, direction, total_ios, io_bytes, bandwidth_bytes_per_s, iops, lat_mean_ns,
    iodepth_reached; replay_<name> for each result of `replay_results`; and `DETAILS_COLUMN`.
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
    return pd.DataFrame(found).convert_dtypes(convert_string=False, convert_floating=False)


def replay_details(measurements: Path, *names: str) -> pd.DataFrame:
    """Return a row for each replay of a study, with a column for each named detail.

    Args:
        measurements: The Parquet file of a study's measurements.
        names: Details: depth, blocks, blocks_over_time, runs_ns or latency. A detail has the form that it has in a raw
            file, see `measuring.replays.measure_replay`; it is None if the replay does not have it.
    """
    table = pd.read_parquet(measurements).drop_duplicates(["drive", "cell"])
    if DETAILS_COLUMN not in table:
        return table.iloc[:0].reindex(columns=[*table.columns, *names])
    table = table[table[DETAILS_COLUMN].notna()].reset_index(drop=True)  # jobs of fio have no details
    content = table.pop(DETAILS_COLUMN).map(json.loads)
    return table.assign(**{name: content.map(lambda each, name=name: each.get(name)) for name in names})


def replay_results(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the results of a replayed phase.

    Args:
        content: The content of a raw file, see `measuring.replays.measure_replay`.

    Returns:
        A number for each name; NaN if the phase has no such requests.

        - duration_s.
        - largest_write_kib, median_write_kib: sizes of write requests; written_mib: their sum; flushes: how many.
        - write_amplification: bytes of complete pages that the drive wrote to its flash, divided by written bytes.
        - depth_mean, depth_first_quartile, depth_median, depth_third_quartile, depth_largest: of the queue depth, in
          which each event counts once, as in WiscSee; drained: how often the queue was emptied.
        - miss_ratio: misses of the map's cache divided by its look-ups, one per page of a read, write or discard.
        - Of the blocks with at least one valid page: occupied (their size divided by that of the drive), area (valid
          data divided by the size of the drive), mean_valid_ratio, and zombies (the share of partly valid blocks).
        - For several runs: longest_run_s, mean_run_s, and spread_of_runs (longest minus shortest, divided by the mean).
        - If latencies were recorded, the results of `_latency_results`.
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
    """Return median and largest latency, and statistics of the peaks, which `measuring.replays` defines.

    peak_latency_ms is the mean latency of the peaks, peaks_per_thousand their number per thousand requests, and
    irregularity_of_peaks the standard deviation of the distances between peaks, divided by the mean distance: 0 for
    periodic and 1 for random peaks.
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


def zombie_curve(blocks: Mapping[str, Any]) -> pd.DataFrame:
    """Return a zombie curve: the valid ratios of the blocks with a valid page, in descending order.

    Args:
        blocks: block_bytes, capacity_bytes, and by_valid_pages: the numbers of blocks with 0, 1, … valid pages.

    Returns:
        A row per block. Columns: space, the size of this and all previous blocks divided by the capacity, and
        valid_ratio.
    """
    counts = np.array(blocks["by_valid_pages"])
    pages = len(counts) - 1
    valid = np.repeat(np.arange(pages, 0, -1), counts[:0:-1])
    space = np.arange(1, len(valid) + 1) * blocks["block_bytes"] / blocks["capacity_bytes"]
    return pd.DataFrame({"space": space, "valid_ratio": valid / pages})
