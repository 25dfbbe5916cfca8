"""Read the measurements and published values of a study for its notebook.

`Study` returns repetitions, summaries, comparisons with published values, and the numbers that the report prints.
"""

from collections import Counter
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
    """A column is missing in the measurements, or a mean would mix repetitions of different cells."""


@dataclass(frozen=True)
class Study:
    """The measurements of one study, and the published values of its source.

    Factors are options of fio and drive settings; an experiment varies some of them. A cell is one configuration: a
    drive, its settings and a workload.

    Attributes:
        executions: One row per repetition, as `quantities.read_executions` returns it.
        steps: The tuning steps, as `tuning_steps.read_tuning_records` returns them: what happened to each drive setting
            of each cell.
        values: The published values, as `published.load_values` returns them, with further columns. There is one for
            each factor that the conditions of a value name, such as ``numjobs``. The column ``use`` has the evidence
            class of each value, see `evidence.add_evidence_classes`.
        source_drives: The drives of the source, as `published.load_source_drives` returns them.
        confidence: Confidence level of intervals.
        method: Method of intervals: ``t`` or ``bca``, see `statistics.mean_interval`.
        seed: Seed of the bootstrap.
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
        """Read a study from its files.

        Args:
            measurements: The measurements, results/measurements/<study>.parquet.
            tuning: The tuning steps, results/measurements/<study>.tuning.json.
            published: The folder of published values and claims, data/published/<study>.
            twins: The folder of model files, data/twins. They determine the evidence classes of the published values.
            confidence: Confidence level of intervals.
            method: Method of intervals: ``t`` or ``bca``.
            seed: Seed of the bootstrap.
        """
        executions = quantities.read_executions(measurements)
        values = _published_values(published, twins, executions)
        steps = tuning_steps.read_tuning_records(tuning)
        drives = load_source_drives(published)
        return cls(executions, steps, values, drives, confidence, cast("Method", method), seed)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each measured drive, such as ``twin`` or ``file``, by drive name."""
        return quantities.drive_kinds(self.executions)

    @property
    def experiments(self) -> list[str]:
        """The names of all experiments, measured ones first.

        Experiments that were not measured, because every drive refused their settings, come last.
        """
        names = (name for step in self.steps for name in step["experiments"])
        return list(dict.fromkeys([*quantities.experiment_names(self.executions), *names]))

    def overview(self) -> pd.DataFrame:
        """Return the number of cells and repetitions of each experiment on each drive.

        There is a row per experiment and drive, with the columns experiment, drive, cells and executions (the number of
        repetitions).
        """
        table = self.executions.assign(experiment=self.executions["experiments"].str.split()).explode("experiment")
        groups = table.groupby(["experiment", "drive"], sort=False)
        return groups.agg(cells=("cell", "nunique"), executions=("cell", "size")).reset_index()

    def rows(self, *experiments: str) -> pd.DataFrame:
        """Return the repetitions of the named experiments.

        A repetition that belongs to several of these experiments is returned once. The columns are those of the
        attribute ``executions``.
        """
        return quantities.select_experiments(self.executions, *experiments)

    def tuned(self, *experiments: str) -> list[tuning_steps.TuningRecord]:
        """Return the tuning steps of the named experiments.

        A step is one setting that a cell required, with the outcome on its drive, see `TuningRecord`.
        """
        wanted = set(experiments)
        return [step for step in self.steps if wanted.intersection(step["experiments"])]

    def drives(self, *experiments: str) -> list[str]:
        """Return the names of the drives in the named experiments, measured drives first.

        Drives that were not measured, because they refused the settings, come last.
        """
        names = [*self.rows(*experiments)["drive"], *(step["drive"] for step in self.tuned(*experiments))]
        return list(dict.fromkeys(names))

    def factors(self, experiment: str) -> list[str]:
        """Return the columns of the factors that an experiment varies.

        Drive, workload (rw) and block size (bs_bytes) are left out.
        """
        return [name for name in varied_columns(self.rows(experiment)) if name not in _CELL]

    def quantities(self, experiment: str) -> list[str]:
        """Return the quantities that the source published for an experiment.

        Returns ``iops`` and ``latency`` if the source published none.
        """
        values = self.values[self.values["experiment"] == experiment]
        return list(dict.fromkeys(values["quantity"])) or ["iops", "latency"]

    def why_not(self, experiment: str, drive: str) -> str:
        """Return why a drive was not measured in an experiment, for printing.

        Returns:
            Two lines about the first setting that the drive did not accept: the outcome, such as ``refused``, and the
            reason. If the drive accepted all settings, the text is ``not measured``.
        """
        return report_tables.refusal_reason(self.tuned(experiment), drive) or "not measured"

    def summary(self, experiment: str, by: Sequence[str] = (), of: str = "bandwidth") -> pd.DataFrame:
        """Return the mean of a quantity in each cell of an experiment, with its interval.

        Args:
            experiment: The name of the experiment.
            by: The columns of the factors that distinguish cells in addition to drive, rw and bs_bytes.
            of: The name of the quantity.

        Returns:
            One row per cell. The columns are

            - drive, rw, bs_bytes and the columns in ``by``,
            - executions, mean, low, high, cv, method and confidence, see `statistics.summarise_groups`,
            - iodepth_reached: the largest queue depth that was reached.

            Means and intervals are in the unit of the quantity.

        Raises:
            AnalysisError: A column was not measured, or two cells have the same levels.
        """
        measure = quantities.get_quantity(of)
        rows, keys = self.rows(experiment), list(dict.fromkeys([*_CELL, *by]))
        if rows.empty:
            statistics = ["executions", "mean", "low", "high", "cv", "method", "confidence", "iodepth_reached"]
            return pd.DataFrame(columns=[*keys, *statistics])
        missing = [name for name in (*keys, measure.column) if name not in rows]
        if missing:
            raise AnalysisError(f"experiment '{experiment}': the measurements have no column '{missing[0]}'")
        if rows.groupby(keys, dropna=False)["cell"].nunique().max() > 1:
            raise AnalysisError(
                f"experiment '{experiment}': two cells have the same {', '.join(keys)}. Add the factor that differs."
            )
        rows = rows[rows[measure.column].notna()]  # a workload that only writes has no latency of reads
        table = summarise_groups(rows, keys, measure.column, **self._how())
        return table.merge(rows.groupby(keys, dropna=False)["iodepth_reached"].max().reset_index())

    def ratios(self, experiment: str) -> pd.DataFrame:
        """Return the ratios of random to sequential bandwidth in an experiment.

        There is a row for each drive, block size and direction (read or write). For the columns, see
        `statistics.random_to_sequential_ratios`.
        """
        return random_to_sequential_ratios(
            self.rows(experiment), ["drive", "bs_bytes"], BANDWIDTH_COLUMN, **self._how()
        )

    def _how(self) -> dict[str, Any]:
        return {"confidence": self.confidence, "method": self.method, "seed": self.seed}

    def published(
        self, experiment: str, drive: str | None = None, rw: Sequence[str] | None = None, of: str = "bandwidth"
    ) -> pd.DataFrame:
        """Return the published values of a quantity that an experiment measures.

        Args:
            experiment: The name of the experiment.
            drive: The drive whose values are returned; None for all drives.
            rw: The workloads whose values are returned; None for all workloads.
            of: The name of the quantity.

        Returns:
            Rows of the attribute ``values``, with the column ``value`` converted to the unit of the quantity.
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
        """Return the measured means of an experiment's cells beside the published values.

        Args:
            experiment: The name of the experiment.
            by: The columns of the factors that distinguish cells in addition to drive, rw and bs_bytes.
            of: The names of the quantities.

        Returns:
            One row per cell, sorted. The columns about the cell are study (the name of the experiment), drive, rw,
            bs_bytes, the columns in ``by``, executions, confidence, interval_method, iodepth_reached, and use (the
            evidence class of the published value). Further columns are about each quantity. With <name> for the
            quantity's column in the measurements, they are

            - <name>_mean, <name>_low, <name>_high and <name>_cv_percent,
            - published_<name>: the published value in the unit of the mean; the first if there are several,
            - error_<name>_percent: the relative error of the mean; missing if no value or zero was published.

        Raises:
            AnalysisError: A column was not measured, or two cells have the same levels.
        """
        keys = list(dict.fromkeys([*_CELL, *by]))
        # all cells, including cells without a quantity: writes have no latency of reads
        cells = self.summary(experiment, by)
        table = cells[[*keys, "executions", "confidence", "iodepth_reached"]]
        table = table.assign(study=experiment, interval_method=cells["method"], use="")
        for name in of:
            summary = self.summary(experiment, by, name)
            column = quantities.get_quantity(name).column
            part = summary[keys].assign(**{f"{column}_{stat}": summary[stat] for stat in ("mean", "low", "high")})
            # rounding removes the noise of arithmetic in the variation of equal values
            part[f"{column}_cv_percent"] = (100 * summary["cv"]).round(9)
            values = self.published(experiment, of=name)
            renamed = {"drive_key": "drive", "value": f"published_{column}", "use": "quantity_use"}
            values = values.drop(columns="drive").rename(columns=renamed)
            # a value without a level of a factor does not belong to any level of the factor
            values = values.reindex(columns=[*keys, f"published_{column}", "quantity_use"]).dropna(subset=keys)
            values = values.drop_duplicates(keys).astype(summary[keys].dtypes.to_dict())
            part = part.merge(values, on=keys, how="left", validate="one_to_one")
            reference = part[f"published_{column}"]
            part[f"error_{column}_percent"] = 100 * (part[f"{column}_mean"] / reference.where(reference != 0) - 1)
            table = table.merge(part, on=keys, how="left", validate="one_to_one")
            quantity_use = table.pop("quantity_use").astype("object").fillna("")
            table["use"] = table["use"].where(table["use"] != "", quantity_use)
        return sort_rows(table, keys, rw=list(WORKLOAD_NAMES))

    def facts(self) -> dict[str, Any]:
        """Return the numbers that the report prints for every study, for a JSON file.

        Returns:
            A mapping with these keys:

            - ``experiments``: the names of the drives of each experiment,
            - ``drives``: the names of all drives,
            - ``block_sizes``: the labels of all block sizes,
            - ``left_out``, ``doubts`` and ``steady``: the results of the methods with these names,
            - ``executions``: the smallest and the largest number of repetitions of a cell, the largest requested and
              the largest reached I/O depth, and the largest coefficient of variation of a cell's bandwidth,
            - ``interval``: the confidence level in percent, and the name of the interval method.
        """
        per_cell = self.executions.groupby(["drive", "cell"], sort=False).size()
        cells = summarise_groups(self.executions, ["drive", "cell"], BANDWIDTH_COLUMN)
        methods = dict.fromkeys(interval_method_used(int(count), self.method) for count in per_cell)
        return {
            "experiments": {name: self.drives(name) for name in self.experiments},
            "drives": self.drives(*self.experiments),
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
        """Return each setting that a drive did not accept, without duplicates.

        Each entry has the keys drive, setting, wanted (the value), outcome and reason.
        """
        steps = tuning_steps.steps_not_in_effect(self.steps)
        keys = ("drive", "setting", "wanted", "outcome", "reason")
        return [dict(zip(keys, row, strict=True)) for row in dict.fromkeys(map(itemgetter(*keys), steps))]

    def steady(self) -> dict[str, int] | None:
        """Return in how many cells every repetition was in a steady state.

        Returns:
            A mapping with two keys. ``of`` is the number of cells for which fio reported enough to tell (see
            `measuring.steadiness.is_steady`). ``cells`` is the number of these cells that were steady in every
            repetition. None if ``of`` would be 0.
        """
        if "steady" not in self.executions:
            return None
        reported = self.executions.dropna(subset="steady").astype({"steady": bool})
        cells = reported.groupby(["drive", "cell"], sort=False)["steady"].all()
        return {"cells": int(cells.sum()), "of": len(cells)} if len(cells) else None

    def doubts(self) -> list[dict[str, Any]]:
        """Return reasons to doubt the means of real drives, such as outliers.

        There are three reasons: the repetitions of a cell are not in a steady state, have outliers, or are at two
        levels. Simulated drives are not examined, because their repetitions differ only in their offsets.

        Returns:
            An entry for each drive and reason. Its keys are drive, doubt (the reason), cells (the number of the drive's
            cells with this doubt) and of (the number of all cells of the drive).
        """
        real = self.executions[~self.executions["drive_kind"].isin(kinds.SIMULATED_KINDS)]
        found = Counter(
            (str(drive), doubt)
            for (drive, _), rows in real.groupby(["drive", "cell"], sort=False)
            for doubt in steadiness_doubts(rows.sort_values("execution")[BANDWIDTH_COLUMN].tolist())
        )
        cells = real.groupby("drive")["cell"].nunique()
        return [
            {"drive": drive, "doubt": doubt, "cells": count, "of": int(cells[drive])}
            for (drive, doubt), count in found.items()
        ]


def varied_columns(rows: pd.DataFrame) -> list[str]:
    """Return the columns of the factors that have several levels in a table.

    If they have several levels, the columns drive, rw and bs_bytes come first.

    Args:
        rows: One row per repetition, as `quantities.read_executions` returns it.
    """
    factor_columns = rows.columns[: rows.columns.get_loc("bandwidth_bytes_per_s")]
    names = [*_CELL, *(name for name in factor_columns if name not in _ABOUT_A_CELL)]
    return [name for name in names if rows[name].nunique(dropna=False) > 1]


def block_labels(sizes_bytes: pd.Series) -> list[str]:
    """Return the labels of block sizes, such as ``4 KiB``, in ascending order of size.

    Each label is returned once.
    """
    return [block_label(int(size)) for size in sorted(set(sizes_bytes.dropna()))]


def _published_values(folder: Path, twins: Path, executions: pd.DataFrame) -> pd.DataFrame:
    """Return the published values of a study with further columns.

    These are ``use``, the evidence class, and one for each factor that the conditions of a value name.

    Args:
        folder: The study's folder of published data.
        twins: The folder of model files.
        executions: One row per repetition.
    """
    values = add_evidence_classes(load_values(folder), twins, folder.name, executions)
    measured = values["experiment"] != ""  # other values may have conditions of any kind
    named = [parse_conditions(text) if one else {} for text, one in zip(values["conditions"], measured, strict=True)]
    for name in dict.fromkeys(name for each in named for name in each):
        factor = factors.find_factor(name)
        column = pd.Series([factor.read(each.get(name)) for each in named], dtype="object")
        is_integer = column.dropna().map(lambda level: isinstance(level, int)).all()
        values[factor.column] = column.astype("Int64") if is_integer else column
    return values
