"""Read the measurements and published values of a study for its notebook.

A study is one source document with the experiments that reproduce it. `Study` returns the repetitions, summaries,
comparisons with published values, and the numbers that the report prints.
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
_ABOUT_A_CELL = frozenset(
    {*_CELL, "cell", "execution", "study", "experiments", "drive_kind", "drive_model", "drive_set", "tuned"}
)


class AnalysisError(IoPatternsError):
    """Error of an analysis: a column is missing, or a mean would mix different cells.

    A cell is one configuration: a drive, its settings and a workload. A mean is over the repetitions of one cell.
    """


@dataclass(frozen=True)
class Study:
    """The measurements of one study, and the published values of its source.

    A study is one source document with the experiments that reproduce it. A cell is one configuration: a drive, its
    settings and a workload. A repetition is one run of a cell's workload. Factors are fio options and drive settings,
    such as ``iodepth``; an experiment varies some of them.

    Attributes:
        executions: One row per repetition, as `quantities.read_executions` returns it.
        steps: The tuning records, as `tuning_steps.read_tuning_records` returns them. Each describes the attempt to set
            one drive setting for a cell, and its outcome.
        values: The published values, as `published.load_values` returns them, with further columns. There is one for
            each factor that the conditions of a value name, such as ``numjobs``. The column ``use`` has the evidence
            class of each value: ``independent``, ``built into the model`` or ``fitted`` (the model was fitted to this
            value). See `evidence.add_evidence_classes`.
        source_drives: The drives of the source, as `published.load_source_drives` returns them.
        confidence: Confidence level of the intervals, between 0 and 1.
        method: Method of the intervals: ``t`` (Student's t) or ``bca`` (bootstrap), see `statistics.mean_interval`.
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
            tuning: The outcomes of drive settings, results/measurements/<study>.tuning.json.
            published: The folder of published values and claims, data/published/<study>.
            twins: The folder of the models of simulated drives, data/twins. The models record to which published values
                they were fitted, which determines the evidence classes of the values.
            confidence: Confidence level of the intervals, between 0 and 1.
            method: Method of the intervals: ``t`` (Student's t) or ``bca`` (bootstrap).
            seed: Seed of the bootstrap.

        Raises:
            PublishedError: A file in the folder of published values is not valid.
            OSError: A file cannot be read.
        """
        executions = quantities.read_executions(measurements)
        values = _published_values(published, twins, executions)
        steps = tuning_steps.read_tuning_records(tuning)
        drives = load_source_drives(published)
        return cls(executions, steps, values, drives, confidence, cast("Method", method), seed)

    @property
    def kinds(self) -> dict[str, str]:
        """The kind of each measured drive by drive name: ``{"px05smb040": "twin"}``.

        ``twin`` is a simulated drive, ``file`` a file on a real drive, ``block`` a whole real drive.
        """
        return quantities.drive_kinds(self.executions)

    @property
    def experiments(self) -> list[str]:
        """The names of all experiments of the study, measured experiments first.

        Experiments that were not measured, because every drive refused their settings, come last.
        """
        names = (name for step in self.steps for name in step["experiments"])
        return list(dict.fromkeys([*quantities.experiment_names(self.executions), *names]))

    def overview(self) -> pd.DataFrame:
        """Return the number of cells and repetitions of each experiment on each drive.

        A cell is one configuration: a drive, its settings and a workload. A cell that belongs to several experiments is
        counted in each of them.

        Returns:
            A row for each measured pair of experiment and drive, with the columns experiment, drive, cells (the number
            of cells) and executions (the number of repetitions).
        """
        table = self.executions.assign(experiment=self.executions["experiments"].str.split()).explode("experiment")
        groups = table.groupby(["experiment", "drive"], sort=False)
        return groups.agg(cells=("cell", "nunique"), executions=("cell", "size")).reset_index()

    def rows(self, *experiments: str) -> pd.DataFrame:
        """Return the repetitions of the named experiments, one row each.

        A repetition that belongs to several of these experiments is returned once. The columns are those of the
        attribute ``executions``. The table is empty if no repetition belongs to these experiments.
        """
        return quantities.select_experiments(self.executions, *experiments)

    def tuned(self, *experiments: str) -> list[tuning_steps.TuningRecord]:
        """Return the tuning records of the named experiments, in the order of the file.

        A tuning record describes the attempt to set one drive setting for a cell, and its outcome, such as ``changed``
        or ``refused``; see `TuningRecord`. A record that belongs to several of these experiments is returned once.
        """
        wanted = set(experiments)
        return [step for step in self.steps if wanted.intersection(step["experiments"])]

    def drives(self, *experiments: str) -> list[str]:
        """Return the names of the drives in the named experiments, measured drives first.

        Drives that were not measured, because they refused a setting, come last.
        """
        names = [*self.rows(*experiments)["drive"], *(step["drive"] for step in self.tuned(*experiments))]
        return list(dict.fromkeys(names))

    def factors(self, experiment: str) -> list[str]:
        """Return the columns of the factors that an experiment varies.

        Factors are fio options and drive settings, such as ``iodepth``. The columns drive, rw (kind of workload) and
        bs_bytes (block size) are left out. The result can be the argument ``by`` of `summary` and `comparison`.

        Args:
            experiment: The name of the experiment.
        """
        return [name for name in varied_columns(self.rows(experiment)) if name not in _CELL]

    def quantities(self, experiment: str) -> list[str]:
        """Return the names of the quantities that the source published for an experiment.

        A quantity is what a value measures, such as ``bandwidth``, ``iops`` or ``latency``. If the source published no
        value for the experiment, the result is ``["iops", "latency"]``.

        Args:
            experiment: The name of the experiment.
        """
        values = self.values[self.values["experiment"] == experiment]
        return list(dict.fromkeys(values["quantity"])) or ["iops", "latency"]

    def why_not(self, experiment: str, drive: str) -> str:
        """Return why a drive was not measured in an experiment, as text for people.

        Args:
            experiment: The name of the experiment.
            drive: The name of the drive.

        Returns:
            Two lines about the first setting that the drive did not accept: the outcome, such as ``refused:``, and the
            reason. If the drive accepted all settings, the text is ``not measured``.
        """
        return report_tables.refusal_reason(self.tuned(experiment), drive) or "not measured"

    def summary(self, experiment: str, by: Sequence[str] = (), of: str = "bandwidth") -> pd.DataFrame:
        """Return the mean of a quantity in each cell of an experiment, with its interval.

        A cell is one configuration: a drive, its settings and a workload. The mean is over the repetitions of the cell.

        Args:
            experiment: The name of the experiment.
            by: Columns of factors (fio options and drive settings), such as ``iodepth``. They distinguish cells in
                addition to the columns drive, rw (kind of workload) and bs_bytes (block size). See `factors`.
            of: The name of the quantity, such as ``bandwidth``, ``iops`` or ``latency``; see
                `quantities.find_quantity`.

        Returns:
            One row per cell that has the quantity. A cell that only writes has no read latency, for example. If the
            experiment was not measured, the table has columns but no rows. The columns are

            - drive, rw, bs_bytes and the columns in ``by``,
            - executions: the number of repetitions,
            - mean, and low and high, the ends of its confidence interval, in the unit of the quantity,
            - cv: the coefficient of variation, which is the sample standard deviation over the mean,
            - method and confidence: method and level of the interval,
            - iodepth_reached: the largest queue depth that fio reached.

        Raises:
            AnalysisError: A column was not measured, or two cells have the same levels in the columns that distinguish
                cells.
            QuantityError: There is no quantity of that name.
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
        """Return the ratios of random to sequential mean bandwidth in an experiment.

        Args:
            experiment: The name of the experiment.

        Returns:
            A row for each drive, block size and operation (``read`` or ``write``) of which both workloads were
            measured. The columns are drive, bs_bytes, operation, ratio, low, high, gap, method and confidence, see
            `statistics.random_to_sequential_ratios`. The gap is in MB/s.
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
            drive: The drive whose values are returned, by its name in this project; None for all drives.
            rw: The fio workloads whose values are returned, such as ``["randread"]``; None for all workloads.
            of: The name of the quantity, such as ``bandwidth``, ``iops`` or ``latency``.

        Returns:
            The matching rows of the attribute ``values``, with a new index. The column ``value`` is converted to the
            unit of the quantity; the column ``unit`` still has the unit of the source.

        Raises:
            QuantityError: There is no quantity of that name.
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

        A cell is one configuration: a drive, its settings and a workload. A cell without a published value has missing
        values in the columns about published values.

        Args:
            experiment: The name of the experiment.
            by: Columns of factors (fio options and drive settings), such as ``iodepth``. They distinguish cells in
                addition to the columns drive, rw (kind of workload) and bs_bytes (block size).
            of: The names of the quantities, such as ``bandwidth``.

        Returns:
            One row per cell, sorted by the columns that distinguish cells. These columns describe the cell:

            - drive, rw, bs_bytes and the columns in ``by``,
            - study: the name of the experiment,
            - executions: the number of repetitions,
            - confidence and interval_method: level and method of the confidence intervals,
            - iodepth_reached: the largest queue depth that fio reached,
            - use: the evidence class of the published value; empty if there is none.

            Further columns describe each quantity. <name> is the quantity's column in the measurements, such as
            ``bandwidth_mb_per_s``:

            - <name>_mean; <name>_low and <name>_high, the ends of its confidence interval,
            - <name>_cv_percent: the coefficient of variation,
            - published_<name>: the published value in the unit of the mean; the first if there are several,
            - error_<name>_percent: the relative error of the mean; missing if no value or zero was published.

        Raises:
            AnalysisError: A column was not measured, or two cells have the same levels in the columns that distinguish
                cells.
            QuantityError: There is no quantity of that name.
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

        A cell is one configuration: a drive, its settings and a workload.

        Returns:
            A mapping with these keys:

            - ``experiments``: the names of the drives of each experiment, by the experiment's name,
            - ``drives``: the names of all drives,
            - ``block_sizes``: the labels of all block sizes, such as ``4 KiB``, in ascending order,
            - ``left_out``, ``doubts`` and ``steady``: the results of the methods with these names,
            - ``executions``: a mapping. ``per_cell_smallest`` and ``per_cell_largest`` are the smallest and the largest
              number of repetitions of a cell. ``iodepth_asked`` is the largest requested I/O depth, and
              ``iodepth_reached_largest`` the largest depth that fio reached. ``cv_largest_percent`` is the largest
              coefficient of variation of a cell's bandwidth.
            - ``interval``: a mapping. ``confidence_percent`` is the confidence level, and ``method`` the name of the
              interval method in words.
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
        """Return the settings that drives did not accept, without duplicates.

        Returns:
            An entry for each combination of drive, setting and value. Its keys are drive, setting (such as ``DRA``),
            wanted (the value to set), outcome (such as ``refused``) and reason (the outcome in words).
        """
        steps = tuning_steps.steps_not_in_effect(self.steps)
        keys = ("drive", "setting", "wanted", "outcome", "reason")
        return [dict(zip(keys, row, strict=True)) for row in dict.fromkeys(map(itemgetter(*keys), steps))]

    def steady(self) -> dict[str, int] | None:
        """Return the number of cells in which every repetition was in steady state.

        A cell is one configuration: a drive, its settings and a workload. A repetition is in steady state if its rate
        varied little, see `measuring.steadiness.is_steady`.

        Returns:
            A mapping with two keys. ``of`` is the number of cells for which fio reported enough to decide. ``cells`` is
            the number of these cells that were steady in every repetition. None if ``of`` would be 0.
        """
        if "steady" not in self.executions:
            return None
        reported = self.executions.dropna(subset="steady").astype({"steady": bool})
        cells = reported.groupby(["drive", "cell"], sort=False)["steady"].all()
        return {"cells": int(cells.sum()), "of": len(cells)} if len(cells) else None

    def doubts(self) -> list[dict[str, Any]]:
        """Return reasons to doubt the mean bandwidths of real drives, such as outliers.

        There are three reasons: the repetitions of a cell are not in a steady state, have outliers, or are at two
        levels. A cell is one configuration: a drive, its settings and a workload. Simulated drives are not examined,
        because their repetitions differ only in their offsets.

        Returns:
            An entry for each pair of drive and reason that occurs. Its keys are drive, doubt (the reason in words),
            cells (the number of the drive's cells with this doubt) and of (the number of all cells of the drive).
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
    """Return the columns of a table's factors that have more than one level.

    Factors are what an experiment may vary: fio options and drive settings, such as ``iodepth``. The columns drive, rw
    (kind of workload) and bs_bytes (block size) count as factors, and come first. A missing value counts as a level.

    Args:
        rows: One row per repetition, as `quantities.read_executions` returns it.
    """
    factor_columns = rows.columns[: rows.columns.get_loc("bandwidth_bytes_per_s")]
    names = [*_CELL, *(name for name in factor_columns if name not in _ABOUT_A_CELL)]
    return [name for name in names if rows[name].nunique(dropna=False) > 1]


def block_labels(sizes_bytes: pd.Series) -> list[str]:
    """Return the labels of block sizes, such as ``4 KiB``, in ascending order of size.

    Each label is returned once. Missing values are ignored.

    Args:
        sizes_bytes: Block sizes in bytes, in any order.
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
