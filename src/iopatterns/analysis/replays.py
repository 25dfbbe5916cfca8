"""What replays of traces give, as rows of the measurements: beside what fio tells, depths, misses and valid blocks."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

# With this begins the name of a column that a replay alone has; SHOWN is JSON, what figures are drawn of
REPLAY_PREFIX = "replay_"
DETAILS_COLUMN = f"{REPLAY_PREFIX}shown"
_SHOWN = ("depth", "blocks", "blocks_over_time", "runs_ns", "latency")
_MAP_USERS = ("read", "write", "discard")
_KIB = 1024
_MIB = 1024 * _KIB


def replay_rows(raw_files: Sequence[Path]) -> pd.DataFrame:
    """Return a row for each raw file of a replay and each direction in which data went, as `fio_parser_json.jobs` does.

    Columns: source, document, direction, total_ios, io_bytes, bandwidth_bytes_per_s, iops, lat_mean_ns,
    iodepth_reached, and replay_*: see `replay_results`.
    """
    found = []
    for raw in raw_files:
        content = json.loads(raw.read_text(encoding="utf-8"))
        seconds = content["duration_ns"] / 1e9
        of_all = {f"{REPLAY_PREFIX}{name}": value for name, value in replay_results(content).items()}
        shown = json.dumps({name: content[name] for name in _SHOWN if name in content})
        for direction in ("read", "write"):
            done = content["requests"].get(direction)
            if done is None:
                continue
            found.append(
                {
                    "source": str(raw),
                    "document": 0,
                    "direction": direction,
                    "io_bytes": done["bytes"],
                    "total_ios": done["count"],
                    "bandwidth_bytes_per_s": round(done["bytes"] / seconds),
                    "iops": done["count"] / seconds,
                    "lat_mean_ns": done["latency_mean_ns"],
                    "iodepth_reached": len(content["depth"]["events"]) - 1,
                    **of_all,
                    DETAILS_COLUMN: shown,
                }
            )
    return pd.DataFrame(found).convert_dtypes(convert_string=False, convert_floating=False)


def replay_details(measurements: Path, *names: str) -> pd.DataFrame:
    """Return a row for each replay of a study, with a column for each of the named parts of `_SHOWN`.

    A part is as in a raw file, see `measuring.replays.measure`; None where the replay does not have it.
    """
    table = pd.read_parquet(measurements).drop_duplicates(["drive", "cell"])
    if DETAILS_COLUMN not in table:
        return table.iloc[:0].reindex(columns=[*table.columns, *names])
    table = table[table[DETAILS_COLUMN].notna()].reset_index(drop=True)  # fio's jobs are no replays
    content = table.pop(DETAILS_COLUMN).map(json.loads)
    return table.assign(**{name: content.map(lambda each, name=name: each.get(name)) for name in names})


def replay_results(content: Mapping[str, Any]) -> dict[str, float]:
    """Return what a replayed phase (`measuring.replays.measure`) came to, missing where it has none of the kind.

    Sizes of write requests in KiB, what they come to in MiB, and how many flushes there were; what the drive wrote to
    its flash over that, pages as a whole (``write_amplification``); what a box plot of the queue depths shows, each
    event counting once as in WiscSee, and how often the queue was emptied; of the map's cache the misses over its
    lookups, one for each page of a read, write or discard; and of the blocks with a valid page their size over that of
    the drive (``occupied``), the valid data over it (``area``), their mean valid ratio, and the share that is partly
    valid (``zombies``). Of several runs their longest and mean duration, and by how much the longest is longer than
    the shortest, over the mean. Where latencies were kept, see `_of_latency`.
    """
    counters, blocks = content["counters"], content["blocks"]
    writes = content["requests"].get("write", {})
    depths = np.repeat(np.arange(len(content["depth"]["events"])), content["depth"]["events"])
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
        "depth_largest": float(len(content["depth"]["events"]) - 1),
        "drained": float(content["depth"]["events"][0]) if content["depth"]["events"] else 0.0,
        # a drive with its whole map in memory looks nothing up, and misses nothing
        "miss_ratio": misses / lookups if lookups else 0.0,
        **_of_blocks(blocks),
        **(_of_runs(content["runs_ns"]) if "runs_ns" in content else {}),
        **(_of_latency(content) if "latency" in content else {}),
    }


def _write_amplification(content: Mapping[str, Any]) -> float:
    blocks, written_bytes = content["blocks"], content["counters"]["write_bytes"]
    if not blocks["block_bytes"] or not written_bytes:
        return np.nan
    page_bytes = blocks["block_bytes"] / (len(blocks["by_valid_pages"]) - 1)
    return float(content["counters"]["page_programs"] * page_bytes / written_bytes)


def _of_runs(runs_ns: Sequence[int]) -> dict[str, float]:
    mean_s = float(np.mean(runs_ns)) / 1e9
    return {
        "longest_run_s": max(runs_ns) / 1e9,
        "mean_run_s": mean_s,
        "spread_of_runs": (max(runs_ns) - min(runs_ns)) / 1e9 / mean_s,
    }


def _of_latency(content: Mapping[str, Any]) -> dict[str, float]:
    """Return the median of the latencies, and what stands out of them (`measuring.replays`).

    That is the mean and the largest of the latencies that do, how many of a thousand requests do, and how irregular
    the distances between them are: standard deviation over mean, 0 for a clock's and 1 for chance.
    """
    standing_out = content["latency"]["standing_out"]
    latencies_ns = np.array(standing_out["largest_ns"], dtype=float)
    distances = np.diff(standing_out["request"]).astype(float)
    requests = sum(each["count"] for each in content["requests"].values())
    return {
        "median_latency_ms": content["latency"]["median_ns"] / 1e6,
        "largest_latency_ms": max(content["latency"]["largest_ns"]) / 1e6,
        "peak_latency_ms": float(latencies_ns.mean()) / 1e6 if len(latencies_ns) else np.nan,
        "peaks_per_thousand": 1000 * len(latencies_ns) / requests,
        "irregularity_of_peaks": float(distances.std() / distances.mean()) if len(distances) else np.nan,
    }


def _of_blocks(blocks: Mapping[str, Any]) -> dict[str, float]:
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
    """Return the valid ratios of the blocks with a valid page, the highest first: a zombie curve (figures 4 and 5).

    ``blocks``: block_bytes, capacity_bytes, and by_valid_pages, how many blocks have 0, 1, … valid pages. Columns:
    ``space``, the size of the block and those before it as a share of the capacity, and ``valid_ratio``.
    """
    counts = np.array(blocks["by_valid_pages"])
    pages = len(counts) - 1
    valid = np.repeat(np.arange(pages, 0, -1), counts[:0:-1])
    space = np.arange(1, len(valid) + 1) * blocks["block_bytes"] / blocks["capacity_bytes"]
    return pd.DataFrame({"space": space, "valid_ratio": valid / pages})
