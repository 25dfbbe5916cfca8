"""Numbers and findings of Inria research report RR-9319 (Saif et al. 2020).

They are about the gap between random and sequential access: how their bandwidths differ.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from iopatterns.analysis import quantities, report_tables
from iopatterns.analysis.statistics import random_to_sequential_ratios, ratio_verdict
from iopatterns.analysis.tables import NO_VALUE, block_label, interval_decimals
from iopatterns.base.units import format_size
from iopatterns.study import Study, block_labels

# For each experiment, the factors at whose levels the report gives the gap, besides drive and block size
_GAP_FACTORS: dict[str, tuple[str, ...]] = {
    "block-size": (),
    "concurrency": ("numjobs",),
    "read-ahead": ("set_DRA",),
}


def report_numbers(study: Study, initial: pd.DataFrame, ratios: pd.DataFrame, limit: str) -> dict[str, Any]:
    """Return the numbers in the report's text about this study, ready for JSON.

    The initial experiment reads and writes, sequentially and at random, without changing drive settings. A gap is how
    random and sequential bandwidth differ, as a difference (MB/s) or a ratio.

    Args:
        study: The study.
        initial: Mean bandwidths of the initial experiment, as `Study.summary` returns them.
        ratios: Ratios of random to sequential bandwidth in the initial experiment, as `Study.ratios` returns them.
        limit: The id of a published bandwidth. According to the source, the difference between sequential and
            random writes is below this value.

    Returns:
        A dictionary with these keys:

        - facts: numbers that every study has, from `Study.facts`
        - initial_block_sizes: the labels of the block sizes of the initial experiment
        - jobs: the numbers of fio jobs in the experiment ``concurrency``
        - margins_percent: margins within which bandwidths count as equivalent, for ``settings`` and ``schedulers``
        - drives: for each measured drive, its bandwidths, ratios, and the block size with the widest gap of writes
        - gaps: for each of the experiments ``block-size``, ``concurrency`` and ``read-ahead``, bandwidths and ratios at
          each level
        - published: block sizes, drives, ratios and gaps that the source published
    """
    (published_limit,) = study.values[study.values["id"] == limit].to_dict("records")
    limit_mb_per_s = published_limit["value"] * quantities.get_quantity("bandwidth").from_unit(published_limit["unit"])
    source = study.published("initial")
    source_ratios = random_to_sequential_ratios(source, ["drive_key", "bs_bytes"], "value")
    reads = source_ratios[source_ratios["operation"] == "read"]
    halved = reads[reads["drive_key"].isin(["px05smb040", "c400"])]
    gap = _widest_gap(source_ratios[source_ratios["operation"] == "write"])
    return {
        "facts": study.facts(),
        "initial_block_sizes": block_labels(initial["bs_bytes"]),
        "jobs": sorted(int(jobs) for jobs in set(study.rows("concurrency")["numjobs"])),
        "margins_percent": {
            "settings": 100 * report_tables.SETTING_MARGIN,
            "schedulers": 100 * report_tables.SCHEDULER_MARGIN,
        },
        "drives": [_drive_numbers(drive, initial, ratios, limit_mb_per_s) for drive in initial["drive"].unique()],
        "gaps": {name: _gaps(study, name, by) for name, by in _GAP_FACTORS.items()},
        "published": {
            "block_sizes": block_labels(source["bs_bytes"]),
            "drives": [key.upper() for key in source["drive_key"].unique()],
            "read_ratio_smallest": reads["ratio"].min(),
            "read_ratio_largest": reads["ratio"].max(),
            "halved_read_ratio_smallest": halved["ratio"].min(),
            "halved_read_ratio_largest": halved["ratio"].max(),
            "write_gap_limit_mb_per_s": limit_mb_per_s,
            "write_gap": _gap_numbers(gap, limit_mb_per_s) | {"drive": gap["drive_key"].upper()},
        },
    }


def _gaps(study: Study, experiment: str, by: Sequence[str]) -> list[dict[str, Any]]:
    """Return random and sequential bandwidth at each level of an experiment.

    Args:
        study: The study.
        experiment: The name of the experiment.
        by: The columns of its factors besides drive and block size.

    Returns:
        A dictionary for each drive, block size, level of `by` and operation. Its keys are drive, bs_bytes, block_size
        (text), the factors (settings without the prefix set_), operation (read or write), random_to_sequential (the
        ratio), sequential_mb_per_s and random_mb_per_s.
    """
    found = []
    for _, rows in study.summary(experiment, by).groupby(["drive", "bs_bytes", *by], sort=False):
        means = dict(zip(rows["rw"], rows["mean"], strict=True))
        cell = rows.iloc[0]
        for operation in ("read", "write"):
            if not {operation, f"rand{operation}"} <= set(means):
                continue
            sequential, random = float(means[operation]), float(means[f"rand{operation}"])
            found.append(
                {
                    "drive": cell["drive"],
                    "bs_bytes": cell["bs_bytes"],
                    "block_size": block_label(int(cell["bs_bytes"])),
                    **{name.removeprefix("set_"): cell[name] for name in by},
                    "operation": operation,
                    "random_to_sequential": random / sequential,
                    "sequential_mb_per_s": sequential,
                    "random_mb_per_s": random,
                }
            )
    return found


def findings(study: Study, ratios: pd.DataFrame) -> str:
    """Return the findings as a Markdown list: ratios, and refused drive settings.

    There is a line for each ratio of random to sequential bandwidth, with its confidence interval and the verdict
    (slower, faster or indistinguishable). A line follows for each setting that a drive rejected, such as a write cache
    that cannot be switched off, with the outcome and the reason.

    Args:
        study: The measurements of RR-9319.
        ratios: A row per drive, operation and block size, with the columns of `Study.ratios`, of the experiment
            ``initial``: the drives with their default settings.
    """
    lines = []
    for row in ratios.sort_values(["drive", "operation", "bs_bytes"], kind="stable").to_dict("records"):
        interval = interval_decimals(2)(row["low"], row["high"])
        lines.append(
            f"- {row['drive']}, {row['operation']}, {block_label(row['bs_bytes'])}: random access has"
            f" {row['ratio']:.2f} of the sequential bandwidth{'' if interval == NO_VALUE else f' ({interval})'}:"
            f" {ratio_verdict(row['low'], row['high'])}"
        )
    for step in study.left_out():
        lines.append(f"- {step['drive']}, {step['setting']}={step['wanted']}: {step['outcome']}, {step['reason']}")
    return "\n".join(lines)


def _drive_numbers(drive: str, initial: pd.DataFrame, ratios: pd.DataFrame, limit_mb_per_s: float) -> dict[str, Any]:
    cells, of_drive = initial[initial["drive"] == drive], ratios[ratios["drive"] == drive]
    writes = of_drive[of_drive["operation"] == "write"]
    return {
        "name": drive,
        "cells": {
            f"{row['rw']}_{format_size(row['bs_bytes'])}": {
                "bandwidth_mean_mb_per_s": row["mean"],
                "bandwidth_low_mb_per_s": row["low"],
                "bandwidth_high_mb_per_s": row["high"],
                "cv_percent": 100 * row["cv"],
                "executions": row["executions"],
                "iodepth_reached": row["iodepth_reached"],
            }
            for row in cells.to_dict("records")
        },
        "ratios": [
            {
                "block_size": block_label(row["bs_bytes"]),
                "operation": row["operation"],
                "random_is": ratio_verdict(row["low"], row["high"]),
                "random_to_sequential": row["ratio"],
                "random_to_sequential_low": row["low"],
                "random_to_sequential_high": row["high"],
            }
            for row in of_drive.sort_values(["operation", "bs_bytes"]).to_dict("records")
        ],
        "write_gap": None if writes.empty else _gap_numbers(_widest_gap(writes), limit_mb_per_s),
    }


def _widest_gap(ratios: pd.DataFrame) -> dict[Any, Any]:
    """Return the row in which random and sequential bandwidth differ most.

    Args:
        ratios: Ratios with the column gap, the difference of the bandwidths.

    Returns:
        The row as a dictionary by column.
    """
    return max(ratios.to_dict("records"), key=lambda row: abs(row["gap"]))


def _gap_numbers(row: Mapping[Any, Any], limit_mb_per_s: float) -> dict[str, Any]:
    return {
        "block_size": block_label(row["bs_bytes"]),
        "difference_mb_per_s": abs(row["gap"]),
        "holds": abs(row["gap"]) <= limit_mb_per_s,
    }
