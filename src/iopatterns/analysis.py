"""What a study's notebook works with: executions by experiment, summaries, published values, the report's numbers."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pandas as pd

from iopatterns import claims, comparisons, tuning
from iopatterns.comparisons import drive_label
from iopatterns.published import load, load_drives, with_uses
from iopatterns.statistics import METHOD_NAMES, Method, method_for, random_to_sequential, summarise
from iopatterns.steadiness import doubts
from iopatterns.tables import block_label
from iopatterns.units import format_size

BANDWIDTH = claims.BANDWIDTH
_CELL = ("drive", "rw", "bs_bytes")


@dataclass(frozen=True)
class Study:
    """The measurements of one study beside what its source published.

    ``executions``: as ``collect.measurements`` returns it, with the column bandwidth_mb_per_s. ``steps``: as
    ``collect.tuned`` returns it. ``values``: as ``published.load`` returns it, with the columns ``numjobs`` (from its
    conditions) and ``use`` (fitted or predicted, where a twin of the drive was measured). ``source_drives``: as
    ``published.load_drives`` returns it.
    """

    executions: pd.DataFrame
    steps: Sequence[Mapping[str, Any]]
    values: pd.DataFrame
    source_drives: pd.DataFrame
    confidence: float
    method: Method
    seed: int

    @classmethod
    def load(
        cls,
        *,
        measurements: Path,
        tuning: Path,
        published: Path,
        twins: Path,
        confidence: float = 0.95,
        method: str = "t",
        seed: int = 1,
    ) -> "Study":
        """Read the files of a study. ``twins`` is the folder of models, which say what they were fitted to."""
        executions = claims.read_executions(measurements)
        values = with_uses(load(published), twins, claims.kinds(executions))
        values["numjobs"] = values["conditions"].str.extract(r"\bnumjobs=(\d+)", expand=False).astype("Int64")
        steps = json.loads(tuning.read_text(encoding="utf-8"))
        return cls(executions, steps, values, load_drives(published), confidence, cast("Method", method), seed)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each drive measured, by name."""
        return claims.kinds(self.executions)

    @property
    def experiments(self) -> list[str]:
        """The experiments that were run, whether or not the drives took their settings, in the order of the study."""
        names = [*self.executions["experiments"], *(step["experiments"] for step in self.steps)]
        return list(dict.fromkeys(name for text in names for name in text.split()))

    def overview(self) -> pd.DataFrame:
        """Return how many cells and executions each experiment has on each drive."""
        table = self.executions.assign(experiment=self.executions["experiments"].str.split()).explode("experiment")
        groups = table.groupby(["experiment", "drive"], sort=False)
        return groups.agg(cells=("cell", "nunique"), executions=("cell", "size")).reset_index()

    def rows(self, *experiments: str) -> pd.DataFrame:
        """Return the executions of some experiments together, each once."""
        return claims.of_experiment(self.executions, *experiments)

    def tuned(self, *experiments: str) -> list[Mapping[str, Any]]:
        """Return what became of the settings that some experiments ask for."""
        wanted = set(experiments)
        return [step for step in self.steps if wanted & set(step["experiments"].split())]

    def drives(self, *experiments: str) -> list[str]:
        """Return the drives of some experiments, those that did not take their settings included."""
        names = [*self.rows(*experiments)["drive"], *(step["drive"] for step in self.tuned(*experiments))]
        return list(dict.fromkeys(names))

    def why_not(self, experiment: str, drive: str) -> str:
        """Return in two lines why a drive did not take a setting that an experiment asks for."""
        return comparisons.reasons(self.tuned(experiment), drive) or "not measured"

    def summary(self, experiment: str, by: Sequence[str] = ()) -> pd.DataFrame:
        """Return ``statistics.summarise`` of an experiment's bandwidth in MB/s, and the I/O depth reached.

        One row per drive, rw, bs_bytes and level of ``by``; two cells of the grid are never averaged over.
        """
        rows, keys = self.rows(experiment), [*_CELL, *by]
        if rows.empty:
            head = [*keys, "executions", "mean", "low", "high", "cv", "method", "confidence", "iodepth_reached"]
            return pd.DataFrame(columns=head)
        assert rows.groupby(keys)["cell"].nunique().max() == 1, f"{experiment}: two cells share {', '.join(keys)}"
        table = summarise(rows, keys, BANDWIDTH, **self._how())
        return table.merge(rows.groupby(keys)["iodepth_reached"].max().reset_index())

    def ratios(self, experiment: str) -> pd.DataFrame:
        """Return ``statistics.random_to_sequential`` of an experiment, by drive and block size."""
        return random_to_sequential(self.rows(experiment), ["drive", "bs_bytes"], BANDWIDTH, **self._how())

    def _how(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "method": self.method, "seed": self.seed}

    def published(self, experiment: str, drive: str | None = None, rw: Sequence[str] | None = None) -> pd.DataFrame:
        """Return the published values that an experiment measures, of one drive and of some workloads where given."""
        wanted = self.values["experiment"] == experiment
        if drive is not None:
            wanted &= self.values["drive_key"] == drive
        if rw is not None:
            wanted &= self.values["rw"].isin(rw)
        return self.values[wanted].reset_index(drop=True)

    # ---- The numbers of the report's text

    def numbers(self, initial: pd.DataFrame, ratios: pd.DataFrame, limit: str) -> dict[str, Any]:
        """Return the numbers of the report's text, as JSON has them.

        ``initial`` and ``ratios`` are summary and ratios of the experiment of that name; ``limit`` is the id of the
        published limit of the difference between sequential and random writes, in MB/s.
        """
        limit_mb_per_s = float(self.values.loc[self.values["id"] == limit, "value"].iloc[0])
        source = self.published("initial")
        source_ratios = random_to_sequential(source, ["drive_key", "bs_bytes"], "value")
        reads = source_ratios[source_ratios["operation"] == "read"]
        halved = reads[reads["drive_key"].isin(["px05smb040", "c400"])]
        writes = source_ratios[source_ratios["operation"] == "write"]
        gap = _widest(writes)
        per_cell = self.executions.groupby(["drive", "cell"], sort=False).size()
        cells = summarise(self.executions, ["drive", "cell"], BANDWIDTH)
        methods = dict.fromkeys(method_for(int(count), self.method) for count in per_cell)
        return {
            "experiments": {name: self.drives(name) for name in self.experiments},
            "block_sizes": _labels(self.executions["bs_bytes"]),
            "initial_block_sizes": _labels(initial["bs_bytes"]),
            "jobs": sorted(int(jobs) for jobs in set(self.rows("concurrency")["numjobs"])),
            "margins_percent": {
                "settings": 100 * comparisons.MARGIN,
                "schedulers": 100 * comparisons.SCHEDULER_MARGIN,
            },
            "drives": [
                _drive_numbers(drive, initial, ratios, limit_mb_per_s) for drive in dict.fromkeys(initial["drive"])
            ],
            "gaps": {name: self._gaps(name, by) for name, by in _GAPS.items()},
            "left_out": self._left_out(),
            "doubts": self.doubts(),
            "executions": {
                "per_cell_smallest": per_cell.min(),
                "per_cell_largest": per_cell.max(),
                "iodepth_asked": self.executions["iodepth"].max(),
                "iodepth_reached_largest": self.executions["iodepth_reached"].max(),
                "cv_largest_percent": 100 * cells["cv"].max(),
            },
            "interval": {
                "confidence_percent": 100 * self.confidence,
                "method": " and ".join(METHOD_NAMES[name] for name in methods),
            },
            "published": {
                "block_sizes": _labels(source["bs_bytes"]),
                "drives": [drive_label(key) for key in dict.fromkeys(source["drive_key"])],
                "read_ratio_smallest": reads["ratio"].min(),
                "read_ratio_largest": reads["ratio"].max(),
                "halved_read_ratio_smallest": halved["ratio"].min(),
                "halved_read_ratio_largest": halved["ratio"].max(),
                "write_gap_limit_mb_per_s": limit_mb_per_s,
                "write_gap": _gap_numbers(gap, limit_mb_per_s) | {"drive": drive_label(gap["drive_key"])},
            },
        }

    def _gaps(self, experiment: str, by: Sequence[str]) -> list[dict[str, Any]]:
        """Return random over sequential bandwidth at each level of an experiment, and the two bandwidths in MB/s."""
        summary = self.summary(experiment, by)
        found = []
        for _, rows in summary.groupby(["drive", "bs_bytes", *by], sort=False):
            means = dict(zip(rows["rw"], rows["mean"], strict=True))
            key = rows.iloc[0]
            for operation in ("read", "write"):
                if not {operation, f"rand{operation}"} <= set(means):
                    continue
                sequential, random = float(means[operation]), float(means[f"rand{operation}"])
                levels = {name.removeprefix("set_"): key[name] for name in by}
                found.append(
                    {
                        "drive": key["drive"],
                        "bs_bytes": key["bs_bytes"],
                        "block_size": block_label(int(key["bs_bytes"])),
                        **levels,
                        "operation": operation,
                        "random_to_sequential": random / sequential,
                        "sequential_mb_per_s": sequential,
                        "random_mb_per_s": random,
                    }
                )
        return found

    def _left_out(self) -> list[dict[str, Any]]:
        """Return each setting that a drive did not take, once."""
        steps = tuning.not_taken(self.steps)
        keys = ("drive", "setting", "wanted", "outcome", "reason")
        return [
            dict(zip(keys, row, strict=True))
            for row in dict.fromkeys(tuple(step[key] for key in keys) for step in steps)
        ]

    def doubts(self) -> list[dict[str, Any]]:
        """Return what makes means doubtful on real drives: drive, doubt, cells (how many), of (all cells of the drive).

        A twin's executions differ by their offsets alone, and are passed over.
        """
        found: dict[tuple[str, str], int] = {}
        real = self.executions[self.executions["drive_kind"] != "twin"]
        for _, rows in real.groupby(["drive", "cell"], sort=False):
            for doubt in doubts(rows.sort_values("execution")[BANDWIDTH].tolist()):
                key = (str(rows["drive"].iloc[0]), doubt)
                found[key] = found.get(key, 0) + 1
        cells = real.groupby("drive")["cell"].nunique()
        return [
            {"drive": drive, "doubt": doubt, "cells": count, "of": int(cells[drive])}
            for (drive, doubt), count in found.items()
        ]

    def findings(self, ratios: pd.DataFrame) -> list[str]:
        """Return what came out of the initial experiment, and which settings were not taken, as lines of Markdown."""
        lines = []
        for row in ratios.sort_values(["drive", "operation", "bs_bytes"], kind="stable").to_dict("records"):
            where = f"{row['drive']}, {row['operation']}, {block_label(row['bs_bytes'])}"
            value = f"{row['ratio']:.2f} of sequential (interval {row['low']:.2f} to {row['high']:.2f})"
            lines.append(f"- {where}: random is {value}: {_verdict(row['low'], row['high'])}")
        for step in self._left_out():
            lines.append(f"- {step['drive']}, {step['setting']}={step['wanted']}: {step['outcome']}, {step['reason']}")
        return lines


# The levels, beside drive and block size, at which the report tells the gap of each experiment
_GAPS: dict[str, tuple[str, ...]] = {"block-size": (), "concurrency": ("numjobs",), "read-ahead": ("set_DRA",)}


def _labels(sizes_bytes: pd.Series) -> list[str]:
    return [block_label(int(size)) for size in sorted(set(sizes_bytes.dropna()))]


def _verdict(low: float, high: float) -> str:
    return "slower" if high < 1 else "faster" if low > 1 else "not told apart"


def _drive_numbers(drive: str, initial: pd.DataFrame, ratios: pd.DataFrame, limit_mb_per_s: float) -> dict[str, Any]:
    cells, shape = initial[initial["drive"] == drive], ratios[ratios["drive"] == drive]
    writes = shape[shape["operation"] == "write"]
    return {
        "name": drive,
        "cells": {
            f"{row['rw']}_{format_size(row['bs_bytes'])}": _cell_numbers(row) for row in cells.to_dict("records")
        },
        "ratios": [_ratio_numbers(row) for row in shape.sort_values(["operation", "bs_bytes"]).to_dict("records")],
        "write_gap": None if writes.empty else _gap_numbers(_widest(writes), limit_mb_per_s),
    }


def _widest(ratios: pd.DataFrame) -> dict[Any, Any]:
    """Return the row with the largest difference between sequential and random bandwidth."""
    return max(ratios.to_dict("records"), key=lambda row: abs(row["gap"]))


def _cell_numbers(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "bandwidth_mean_mb_per_s": row["mean"],
        "bandwidth_low_mb_per_s": row["low"],
        "bandwidth_high_mb_per_s": row["high"],
        "cv_percent": 100 * row["cv"],
        "executions": row["executions"],
        "iodepth_reached": row["iodepth_reached"],
    }


def _ratio_numbers(row: Mapping[Any, Any]) -> dict[str, Any]:
    return {
        "block_size": block_label(row["bs_bytes"]),
        "operation": row["operation"],
        "random_is": _verdict(row["low"], row["high"]),
        "random_to_sequential": row["ratio"],
        "random_to_sequential_low": row["low"],
        "random_to_sequential_high": row["high"],
    }


def _gap_numbers(row: Mapping[Any, Any], limit_mb_per_s: float) -> dict[str, Any]:
    return {
        "block_size": block_label(row["bs_bytes"]),
        "difference_mb_per_s": abs(row["gap"]),
        "holds": abs(row["gap"]) <= limit_mb_per_s,
    }
