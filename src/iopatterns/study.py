"""What a study's notebook works with: executions by experiment, summaries, published values, the report's numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import pandas as pd

from iopatterns.analysis import quantities, report_tables
from iopatterns.analysis.published import load_source_drives, load_values, parse_conditions
from iopatterns.analysis.statistics import (
    METHOD_NAMES,
    Method,
    interval_method_used,
    random_to_sequential_ratios,
    summarise_groups,
)
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label, sort_rows
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import factors, kinds
from iopatterns.judging.evidence import add_evidence_classes
from iopatterns.measuring.steadiness import steadiness_doubts
from iopatterns.raw import tuning_steps

BANDWIDTH_COLUMN = quantities.QUANTITIES["bandwidth"].column
_CELL = ("drive", "rw", "bs_bytes")
_ABOUT_A_CELL = frozenset({*_CELL, "cell", "execution", "study", "experiments", "drive_kind", "drive_model", "tuned"})


class AnalysisError(IoPatternsError):
    """A notebook asks for what was not measured, or for a mean over different cells."""


@dataclass(frozen=True)
class Study:
    """The measurements of one study beside what its source published.

    ``executions``: as ``quantities.read_executions`` returns it. ``steps``: as ``collect.tuned`` returns it.
    ``values``: as ``published.load`` returns it, with a column for each factor that its conditions name, as the
    executions have it (numjobs, set_DRA …), and ``use`` (its class, where a twin of the drive was measured).
    ``source_drives``: as ``published.load_drives`` returns it.
    """

    executions: pd.DataFrame
    steps: tuning_steps.TuningRecords
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
        """Read the files of a study: what was measured, and the folder of what its source ``published``.

        ``twins`` is the folder of models, which say what they were fitted to.
        """
        executions = quantities.read_executions(measurements)
        values = _published_values(published, twins, executions)
        steps = tuning_steps.read_tuning_records(tuning)
        drives = load_source_drives(published)
        return cls(executions, steps, values, drives, confidence, cast("Method", method), seed)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each drive measured, by name."""
        return quantities.drive_kinds(self.executions)

    @property
    def experiments(self) -> list[str]:
        """The experiments that were run, whether or not the drives took their settings, in the order of the study."""
        names = (name for step in self.steps for name in step["experiments"])
        return list(dict.fromkeys([*quantities.experiment_names(self.executions), *names]))

    def overview(self) -> pd.DataFrame:
        """Return how many cells and executions each experiment has on each drive."""
        table = self.executions.assign(experiment=self.executions["experiments"].str.split()).explode("experiment")
        groups = table.groupby(["experiment", "drive"], sort=False)
        return groups.agg(cells=("cell", "nunique"), executions=("cell", "size")).reset_index()

    def rows(self, *experiments: str) -> pd.DataFrame:
        """Return the executions of some experiments together, each once."""
        return quantities.select_experiments(self.executions, *experiments)

    def tuned(self, *experiments: str) -> list[tuning_steps.TuningRecord]:
        """Return what became of the settings that some experiments ask for."""
        wanted = set(experiments)
        return [step for step in self.steps if wanted.intersection(step["experiments"])]

    def drives(self, *experiments: str) -> list[str]:
        """Return the drives of some experiments, those that did not take their settings included."""
        names = [*self.rows(*experiments)["drive"], *(step["drive"] for step in self.tuned(*experiments))]
        return list(dict.fromkeys(names))

    def factors(self, experiment: str) -> list[str]:
        """Return the columns that tell an experiment's cells apart, beside drive, rw and bs_bytes."""
        return [name for name in varied_columns(self.rows(experiment)) if name not in _CELL]

    def quantities(self, experiment: str) -> list[str]:
        """Return the quantities that the source published of an experiment; without any, rate and mean latency."""
        values = self.values[self.values["experiment"] == experiment]
        return list(dict.fromkeys(values["quantity"])) or ["iops", "latency"]

    def why_not(self, experiment: str, drive: str) -> str:
        """Return in two lines why a drive did not take a setting that an experiment asks for."""
        return report_tables.refusal_reason(self.tuned(experiment), drive) or "not measured"

    def summary(self, experiment: str, by: Sequence[str] = (), of: str = "bandwidth") -> pd.DataFrame:
        """Return ``statistics.summarise`` of a quantity in an experiment, in its unit, and the I/O depth reached.

        ``of``: a quantity of ``measures``. One row per drive, rw, bs_bytes and level of ``by`` (columns of the
        executions); two cells of the grid are never averaged over. Raises AnalysisError.
        """
        measure = quantities.get_quantity(of)
        rows, keys = self.rows(experiment), list(dict.fromkeys([*_CELL, *by]))
        if rows.empty:
            head = [*keys, "executions", "mean", "low", "high", "cv", "method", "confidence", "iodepth_reached"]
            return pd.DataFrame(columns=head)
        missing = [name for name in (*keys, measure.column) if name not in rows]
        if missing:
            raise AnalysisError(f"experiment '{experiment}': its executions have no column '{missing[0]}'")
        if rows.groupby(keys, dropna=False)["cell"].nunique().max() > 1:
            raise AnalysisError(
                f"experiment '{experiment}': two cells share {', '.join(keys)}. Name the factor that tells them apart."
            )
        rows = rows[rows[measure.column].notna()]  # what only writes has no latency of reads
        table = summarise_groups(rows, keys, measure.column, **self._how())
        return table.merge(rows.groupby(keys, dropna=False)["iodepth_reached"].max().reset_index())

    def ratios(self, experiment: str) -> pd.DataFrame:
        """Return ``statistics.random_to_sequential`` of an experiment, by drive and block size."""
        return random_to_sequential_ratios(
            self.rows(experiment), ["drive", "bs_bytes"], BANDWIDTH_COLUMN, **self._how()
        )

    def _how(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "method": self.method, "seed": self.seed}

    def published(
        self, experiment: str, drive: str | None = None, rw: Sequence[str] | None = None, of: str = "bandwidth"
    ) -> pd.DataFrame:
        """Return the published values of a quantity that an experiment measures, of one drive or some workloads.

        The column ``value`` is in the quantity's unit here, whatever the source prints.
        """
        measure = quantities.get_quantity(of)
        wanted = (self.values["experiment"] == experiment) & (self.values["quantity"] == of)
        if drive is not None:
            wanted &= self.values["drive_key"] == drive
        if rw is not None:
            wanted &= self.values["rw"].isin(rw)
        found = self.values[wanted].reset_index(drop=True)
        found["value"] *= pd.Series([measure.from_unit(unit) for unit in found["unit"]], dtype="float64")
        return found

    def comparison(self, experiment: str, by: Sequence[str] = (), of: Sequence[str] = ("bandwidth",)) -> pd.DataFrame:
        """Return some quantities of an experiment side by side, with what the source published of each.

        One row per drive, rw, bs_bytes and level of ``by``, in order. Columns: study, these, executions, confidence,
        interval_method, iodepth_reached, use; and for each quantity, under the name of its column in the executions:
        <name>_mean, <name>_low, <name>_high, <name>_cv_percent, published_<name> (in the same unit; the first where the
        source has several) and error_<name>_percent, missing where it has none or a zero. Raises AnalysisError.
        """
        keys = list(dict.fromkeys([*_CELL, *by]))
        # all cells, also those that have none of a quantity, as writes have no latency of reads
        cells = self.summary(experiment, by)
        table = cells[[*keys, "executions", "confidence", "iodepth_reached"]]
        table = table.assign(study=experiment, interval_method=cells["method"], use="")
        for name in of:
            summary = self.summary(experiment, by, name)
            column = quantities.get_quantity(name).column
            part = summary[keys].assign(**{f"{column}_{stat}": summary[stat] for stat in ("mean", "low", "high")})
            # of equal values the noise of arithmetic is left
            part[f"{column}_cv_percent"] = (100 * summary["cv"]).round(9)
            values = self.published(experiment, of=name)
            there = values.drop(columns="drive").rename(columns={"drive_key": "drive", "value": f"published_{column}"})
            # a value that names no level of a factor belongs to none of its levels
            there = there.reindex(columns=[*keys, f"published_{column}", "use"]).dropna(subset=keys)
            there = there.drop_duplicates(keys).astype(summary[keys].dtypes.to_dict())
            part = part.merge(there.rename(columns={"use": "its_use"}), on=keys, how="left", validate="one_to_one")
            reference = part[f"published_{column}"]
            part[f"error_{column}_percent"] = 100 * (part[f"{column}_mean"] / reference.where(reference != 0) - 1)
            table = table.merge(part, on=keys, how="left", validate="one_to_one")
            table["use"] = table["use"].where(table["use"] != "", table.pop("its_use").astype("object").fillna(""))
        return sort_rows(table, keys, rw=list(WORKLOAD_NAMES))

    def facts(self) -> dict[str, Any]:
        """Return the numbers that the report tells of any study, as JSON has them.

        Keys: experiments (the drives of each), drives, block_sizes, left_out, doubts, steady, executions and interval.
        """
        per_cell = self.executions.groupby(["drive", "cell"], sort=False).size()
        cells = summarise_groups(self.executions, ["drive", "cell"], BANDWIDTH_COLUMN)
        methods = dict.fromkeys(interval_method_used(int(count), self.method) for count in per_cell)
        return {
            "experiments": {name: self.drives(name) for name in self.experiments},
            "drives": list(dict.fromkeys([*self.executions["drive"], *(step["drive"] for step in self.steps)])),
            "block_sizes": block_labels(self.executions["bs_bytes"]),
            "left_out": self.left_out(),
            "doubts": self.doubts(),
            "steady": self.steady(),
            "executions": {
                "per_cell_smallest": per_cell.min(),
                "per_cell_largest": per_cell.max(),
                "iodepth_asked": self.executions.get("iodepth", pd.Series([1])).max(),  # 1 is fio's own default
                "iodepth_reached_largest": self.executions["iodepth_reached"].max(),
                "cv_largest_percent": 100 * cells["cv"].max(),
            },
            "interval": {
                "confidence_percent": 100 * self.confidence,
                "method": " and ".join(METHOD_NAMES[name] for name in methods),
            },
        }

    def left_out(self) -> list[dict[str, Any]]:
        """Return each setting that a drive did not take, once: drive, setting, wanted, outcome, reason."""
        steps = tuning_steps.steps_not_in_effect(self.steps)
        keys = ("drive", "setting", "wanted", "outcome", "reason")
        return [dict(zip(keys, row, strict=True)) for row in dict.fromkeys(map(itemgetter(*keys), steps))]

    def steady(self) -> dict[str, int] | None:
        """Return how many ``cells``, ``of`` all that tell it, were steady in each execution; None where none tells."""
        if "steady" not in self.executions or self.executions["steady"].isna().all():
            return None
        told = self.executions[self.executions["steady"].notna()]
        cells = told.astype({"steady": bool}).groupby(["drive", "cell"], sort=False)["steady"].all()
        return {"cells": int(cells.sum()), "of": len(cells)}

    def doubts(self) -> list[dict[str, Any]]:
        """Return what makes means doubtful on real drives: drive, doubt, cells (how many), of (all cells of the drive).

        A twin's executions differ by their offsets alone, and are passed over.
        """
        found: dict[tuple[str, str], int] = {}
        real = self.executions[~self.executions["drive_kind"].isin(kinds.SIMULATED_KINDS)]
        for _, rows in real.groupby(["drive", "cell"], sort=False):
            for doubt in steadiness_doubts(rows.sort_values("execution")[BANDWIDTH_COLUMN].tolist()):
                key = (str(rows["drive"].iloc[0]), doubt)
                found[key] = found.get(key, 0) + 1
        cells = real.groupby("drive")["cell"].nunique()
        return [
            {"drive": drive, "doubt": doubt, "cells": count, "of": int(cells[drive])}
            for (drive, doubt), count in found.items()
        ]


def varied_columns(rows: pd.DataFrame) -> list[str]:
    """Return the columns that tell the cells of some executions apart: drive, rw and bs_bytes, then other factors."""
    asked = rows.columns[: rows.columns.get_loc("bandwidth_bytes_per_s")]
    factors = [*_CELL, *(name for name in asked if name not in _ABOUT_A_CELL)]
    return [name for name in factors if rows[name].nunique(dropna=False) > 1]


def block_labels(sizes_bytes: pd.Series) -> list[str]:
    """Return block sizes as they are printed, each once, from the smallest to the largest."""
    return [block_label(int(size)) for size in sorted(set(sizes_bytes.dropna()))]


def _published_values(folder: Path, twins: Path, executions: pd.DataFrame) -> pd.DataFrame:
    """Return the published values of a study with their use and the factors that their conditions name."""
    values = add_evidence_classes(load_values(folder), twins, folder.name, executions)
    measured = values["experiment"] != ""  # what no experiment measures may have conditions of any kind
    named = [parse_conditions(text) if one else {} for text, one in zip(values["conditions"], measured, strict=True)]
    for name in dict.fromkeys(name for each in named for name in each):
        factor = factors.find_factor(name)
        column = pd.Series([factor.read(each.get(name)) for each in named], dtype="object")
        whole = column.dropna().map(lambda level: isinstance(level, int)).all()
        values[factor.column] = column.astype("Int64") if whole else column
    return values
