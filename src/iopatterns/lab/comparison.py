"""Compare two drives, levels or runs point by point, with confidence intervals.

Each of the two is a side of the comparison. A point is a combination of workload and levels (values of fio options and
drive settings) that both sides measured.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis import plots, quantities
from iopatterns.analysis.statistics import FloatArray, product_interval, ratio_verdict, summarise_groups
from iopatterns.analysis.tables import (
    NO_VALUE,
    WORKLOAD_NAMES,
    Column,
    Table,
    fixed_decimals,
    interval_decimals,
    three_digits,
)
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.configuration import factors
from iopatterns.study import varied_columns

HIGHER, LOWER, INDISTINGUISHABLE, NO_INTERVAL = "higher", "lower", "indistinguishable", "no interval"
_MAX_NAMED = 10


class ComparisonError(IoPatternsError):
    """The error raised if there is nothing to compare.

    The message names the drive, level or quantity that was not measured. If other drives or levels were measured, it
    lists them.
    """

    exit_status = 2


@dataclass(frozen=True)
class ComparedSide:
    """One side of a comparison: a drive, a level of a factor, or a run.

    A factor is an option of fio or a drive setting, and its values are levels. A run is a folder with measurements.

    Attributes:
        name: The name of the side, as typed: ``c400``, ``DRA=0`` or the path of a folder.
        executions: The repetitions of each study, by the name of the study. Each table has one row per repetition, as
            `quantities.read_executions` returns it. If the side is a level, the column of the factor is left out.
        fio_versions: The versions of fio that measured a run; empty for a drive or level.
    """

    name: str
    executions: dict[str, pd.DataFrame]
    fio_versions: tuple[str, ...] = ()


def load_sides(root: Path, *names: str) -> list[ComparedSide]:
    """Return the sides of a comparison, in the order of their names.

    Args:
        root: The folder of the project, with results/measurements.
        names: Two or more names, all of one kind:

            - drives, such as ``c400``,
            - levels of a factor, such as ``DRA=0`` and ``DRA=1``,
            - folders of runs, which contain ``measurements`` or ``results/measurements``. Such a folder is another
              checkout, a copy of a results folder, or a folder that `iopatterns bench` made. The paths are absolute or
              relative to ``root``.

    Raises:
        ComparisonError: A drive or level does not exist or was not measured, or nothing is measured yet.
    """
    folders = [folder for name in names if (folder := _measurements_folder(root / name))]
    if len(folders) == len(names):
        return [_side_of_run(name, folder) for name, folder in zip(names, folders, strict=True)]
    here = _measurements_folder(root)
    if here is None:
        raise ComparisonError("results/measurements: nothing is measured yet. Run `snakemake --cores 1`.")
    measured = _read_folder(here)
    if all("=" in name for name in names):
        return [_side_at_level(measured, name) for name in names]
    known = sorted({drive for rows in measured.values() for drive in rows["drive"]})
    for name in names:
        if name not in known:
            raise ComparisonError(
                f"'{printable(name)}' is neither a drive in results/measurements nor a folder of results. Drives:"
                f" {', '.join(known[:_MAX_NAMED])}{' …' if len(known) > _MAX_NAMED else ''}."
            )
    return [
        ComparedSide(name, {study: rows[rows["drive"] == name] for study, rows in measured.items()}) for name in names
    ]


def _side_at_level(measured: dict[str, pd.DataFrame], text: str) -> ComparedSide:
    """Return the side with the repetitions at one level of a factor.

    The repetitions do not have the factor's column, so that the points of two levels are the same.

    Args:
        measured: The repetitions of each study.
        text: The factor and the level, such as ``DRA=0``.

    Raises:
        ComparisonError: The factor or level does not exist, or nothing was measured at the level.
    """
    name, _, level = text.partition("=")
    try:
        factor = factors.find_factor(name)
        wanted = str(factor.read(level))
    except (factors.FactorError, ValueError) as error:
        raise ComparisonError(f"{printable(text)}: {error}") from None
    column = factor.column
    found = {study: rows for study, rows in measured.items() if column in rows}
    parts = {study: rows[rows[column].astype("string") == wanted] for study, rows in found.items()}
    if all(rows.empty for rows in parts.values()):
        levels = sorted({str(each) for rows in found.values() for each in rows[column].dropna()})
        raise ComparisonError(
            f"{printable(text)}: nothing was measured at that level. Measured levels of {name}:"
            f" {', '.join(levels) or 'none'}."
        )
    return ComparedSide(text, {study: rows.drop(columns=column) for study, rows in parts.items() if not rows.empty})


def _measurements_folder(folder: Path) -> Path | None:
    return next((place for place in (folder / "measurements", folder / "results/measurements") if place.is_dir()), None)


def _read_folder(folder: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: quantities.read_executions(path) for path in sorted(folder.glob("*.parquet"))}


def _side_of_run(name: str, folder: Path) -> ComparedSide:
    columns = [pd.read_parquet(path, columns=["fio_version"])["fio_version"] for path in folder.glob("*.parquet")]
    versions = {str(each) for column in columns for each in column.dropna()}
    return ComparedSide(name, _read_folder(folder), tuple(sorted(versions)))


def shared_experiments(sides: Sequence[ComparedSide], of: str) -> Iterator[tuple[str, str, list[pd.DataFrame]]]:
    """Yield each experiment in which all sides measured a quantity.

    Args:
        sides: The sides of the comparison, such as two drives.
        of: The name of the quantity, such as ``bandwidth``.

    Yields:
        The name of the study, the name of the experiment, and a table of repetitions for each side. The tables have one
        row per repetition with a value of the quantity.
    """
    column = quantities.get_quantity(of).column
    for study, first in sides[0].executions.items():
        for experiment in quantities.experiment_names(first):
            tables = [side.executions.get(study, first.iloc[:0]) for side in sides]
            parts = [quantities.select_experiments(table, experiment) for table in tables]
            parts = [rows[rows[column].notna()] if column in rows else rows.iloc[:0] for rows in parts]
            if not any(rows.empty for rows in parts):
                yield study, experiment, parts


def shared_points(sides: Sequence[ComparedSide], of: str) -> Iterator[tuple[dict[str, Any], list[FloatArray]]]:
    """Yield each combination of levels at which all sides measured a quantity.

    A level is a value of a factor (fio option or drive setting), such as a block size of 4 KiB.

    Args:
        sides: The sides of the comparison, such as two drives.
        of: The name of the quantity, such as ``bandwidth``.

    Yields:
        A pair. First a dictionary that identifies the combination, with the keys study, experiment, rw (the workload)
        and point (the other levels as text). Then a list with an array for each side: a measured value per repetition,
        in the unit of the quantity.
    """
    column = quantities.get_quantity(of).column
    for study, experiment, parts in shared_experiments(sides, of):
        by, both = point_factors(parts), pd.concat(parts, ignore_index=True)
        groups = [dict(list(rows.groupby(by, sort=False, dropna=False)[column])) for rows in parts]
        for key in groups[0]:
            if all(key in group for group in groups):
                levels = dict(zip(by, key, strict=True))
                point = levels_text(levels, both)
                about = {"study": study, "experiment": experiment, "rw": levels["rw"], "point": point}
                yield about, [group[key].to_numpy(dtype=np.float64) for group in groups]


def point_columns(points: pd.DataFrame) -> list[Column]:
    """Return the columns that identify a point in a printed table.

    A point is a combination of workload and levels. The columns show the experiment, the workload and the levels. A
    column with the study comes first if there are several studies.

    Args:
        points: One row per point, with the columns study, experiment, rw (the workload) and point (the levels as text).
    """
    columns = [
        Column(("study",), "Study", align_right=False, hide_repeats=True),
        Column(("experiment",), "Experiment", align_right=False, hide_repeats=True),
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False),
        Column(("point",), "Levels", align_right=False),
    ]
    return columns if points["study"].nunique() > 1 else columns[1:]


@dataclass(frozen=True)
class Comparison:
    """A comparison of one quantity between two sides, such as two drives.

    The sides are compared at each point, which is a combination of workload and levels that both sides measured.

    Attributes:
        sides: The two sides. The second is compared with the first.
        of: The name of the quantity, such as ``bandwidth``.
        confidence: Confidence level of the intervals, between 0 and 1.
    """

    sides: Sequence[ComparedSide]
    of: str
    confidence: float = 0.95

    def points(self) -> pd.DataFrame:
        """Return one row for each point (workload and levels) that both sides measured.

        The columns are

        - study, experiment, rw (the workload) and point (the other levels as text),
        - first and second: the means of the two sides, in the unit of the quantity,
        - executions_first and executions_second: the numbers of repetitions,
        - ratio: the second mean divided by the first; NaN if the first mean is 0,
        - low and high: the confidence interval of the ratio; NaN without an interval,
        - verdict: ``higher``, ``lower`` or ``indistinguishable`` for the second side compared with the first; ``no
          interval`` if the ratio has no confidence interval, such as for a single repetition.

        Raises:
            ComparisonError: The sides have no point in common.
        """
        rows = []
        for about, (first, second) in shared_points(self.sides, self.of):
            low, high, method = math.nan, math.nan, "none"
            if first.mean() > 0 and second.mean() > 0:
                low, high, method = product_interval([second], [first], self.confidence)
            verdict = {"faster": HIGHER, "slower": LOWER}.get(ratio_verdict(low, high), INDISTINGUISHABLE)
            rows.append(
                {
                    **about,
                    "first": first.mean(),
                    "second": second.mean(),
                    "executions_first": len(first),
                    "executions_second": len(second),
                    "ratio": second.mean() / first.mean() if first.mean() else math.nan,
                    "low": low,
                    "high": high,
                    "verdict": NO_INTERVAL if method == "none" else verdict,
                }
            )
        if not rows:
            first_name, second_name = (side.name for side in self.sides)
            raise ComparisonError(
                f"{first_name} and {second_name} have no point in common at which '{self.of}' was measured."
                " Measure both at the same levels."
            )
        return pd.DataFrame(rows)

    def table(self, points: pd.DataFrame) -> Table:
        """Return a table of points for printing.

        The table has the columns that identify a point, both means, the ratio with its interval, and the verdict.

        Args:
            points: The rows that the method `points` returned.
        """
        unit = quantities.get_quantity(self.of).unit
        first, second = (_short_name(side.name) for side in self.sides)
        columns = (
            *point_columns(points),
            Column(("first",), first, three_digits, unit),
            Column(("second",), second, three_digits, unit),
            Column(("ratio",), "Ratio", fixed_decimals(2)),
            Column(("low", "high"), f"{100 * self.confidence:g} % interval", interval_decimals(2)),
            Column(("verdict",), "Second is", align_right=False),
        )
        return Table(points, columns, "experiment")

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Yield a figure for each experiment, with the curves of both sides.

        Each mean is drawn with its confidence interval.

        Yields:
            A pair: the name of the figure, such as ``kapoor-scale`` (study and experiment), and the figure.
        """
        column = quantities.get_quantity(self.of).column
        for study, experiment, parts in shared_experiments(self.sides, self.of):
            by = point_factors(parts)
            tables = [
                summarise_groups(rows, by, column, confidence=self.confidence).assign(variant=_short_name(side.name))
                for side, rows in zip(self.sides, parts, strict=True)
            ]
            levels = [name for name in by if name not in {"rw", "drive"}]
            summary = pd.concat(tables, ignore_index=True).assign(drive=experiment)
            nothing_published = pd.DataFrame(columns=["drive_key", "rw", "value"])
            x, panels = plots.panels_by_level(summary, levels, self.of, nothing_published)
            yield f"{study}-{experiment}", plots.curves_figure(panels, x, columns=min(2, len(panels)))

    def summary_text(self, points: pd.DataFrame) -> str:
        """Return the number of points with each verdict as text.

        A point is a combination of workload and levels. A verdict is, for example, ``higher``. The text also states the
        number of differences to expect by chance, and the versions of fio if they differ.

        Args:
            points: The rows that the method `points` returned.
        """
        count = points["verdict"].value_counts()
        verdicts = (HIGHER, LOWER, INDISTINGUISHABLE, NO_INTERVAL)
        counts = ", ".join(f"{count[name]} {name}" for name in verdicts if name in count)
        by_chance = (1 - self.confidence) * len(points)
        first, second = self.sides
        versions = [" and ".join(side.fio_versions) for side in self.sides]
        other_fio = f" Measured with {versions[0]} and {versions[1]}." if versions[0] != versions[1] else ""
        return (
            f"{self.of} of {second.name} compared with {first.name}, at {len(points)} points: {counts}."
            f" Expect about {by_chance:.2g} false positives for identical drives.{other_fio}"
        )


def _short_name(name: str) -> str:
    """Return the label of a side in tables and figures.

    It is the name of the side, or the last part of its path.
    """
    return Path(name).name or name


def point_factors(parts: Sequence[pd.DataFrame]) -> list[str]:
    """Return the columns whose levels identify a point of an experiment.

    A point is a combination of workload and levels (values of fio options and drive settings). The columns are those of
    the workload (``rw``), of the block size (``bs_bytes``) and of all factors that vary. The column ``drive`` comes
    first if a side has several drives. Otherwise it is left out.

    Args:
        parts: The repetitions of each side, as tables with one row per repetition.
    """
    several_drives = any(rows["drive"].nunique() > 1 for rows in parts)
    varied = varied_columns(pd.concat(parts, ignore_index=True, join="inner"))
    names = dict.fromkeys([*(["drive"] if several_drives else []), "rw", "bs_bytes", *varied])
    return [name for name in names if name != "drive" or several_drives]


def levels_text(levels: dict[str, Any], executions: pd.DataFrame) -> str:
    """Return the levels of a point as text, such as ``I/O depth 8``.

    A point is a combination of workload and levels (values of fio options and drive settings). The workload is left
    out, and so are factors that do not vary. The text is a dash if no level is left. A missing level is printed as a
    dash too.

    Args:
        levels: The level of each factor of the point, by column.
        executions: The repetitions of the experiment. A factor varies if it has several levels in them.
    """
    texts = []
    for name, level in levels.items():
        if name != "rw" and executions[name].nunique(dropna=False) > 1:
            scale = factors.level_scale(name, [level])
            texts.append(f"{scale.label} {NO_VALUE if pd.isna(level) else scale.texts[level]}")
    return ", ".join(texts) or NO_VALUE
