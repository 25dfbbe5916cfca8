"""Two drives, or two runs, held against each other point by point: which differences are told apart from chance."""

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

# What an execution is known by, beside the levels of its factors
_ABOUT = frozenset(
    {"drive", "cell", "execution", "study", "experiments", "drive_kind", "drive_model", "tuned", "steady"}
)
HIGHER, LOWER, INDISTINGUISHABLE, NO_INTERVAL = "higher", "lower", "not told apart", "no interval"
_MOST_NAMED = 10


class ComparisonError(IoPatternsError):
    """There is nothing to compare; the message says what there is."""

    exit_status = 2


@dataclass(frozen=True)
class ComparedSide:
    """One side of a comparison: its name, and the executions of each study (`quantities.read_executions`).

    ``fio_versions`` are those with which a whole folder was measured.
    """

    name: str
    executions: dict[str, pd.DataFrame]
    fio_versions: tuple[str, ...] = ()


def sides(root: Path, *names: str) -> list[ComparedSide]:
    """Return the sides that are named.

    They are drives or levels of one factor, of the results below ``root``, or folders of results.
    A level is ``DRA=0``, ``iodepth=8`` and the like. A folder is one with ``measurements``, or that holds one with it
    under ``results``: another checkout, a copy, or what `iopatterns bench` made. Raises ComparisonError.
    """
    folders = [folder for name in names if (folder := _measurements(root / name))]
    if len(folders) == len(names):
        return [_of_folder(name, folder) for name, folder in zip(names, folders, strict=True)]
    here = _measurements(root)
    if here is None:
        raise ComparisonError("results/measurements: nothing is measured yet. Run `snakemake --cores 1`.")
    measured = _read(here)
    if all("=" in name for name in names):
        return [_of_level(measured, name) for name in names]
    known = sorted({drive for rows in measured.values() for drive in rows["drive"]})
    for name in names:
        if name not in known:
            raise ComparisonError(
                f"'{printable(name)}' is no drive of results/measurements, and no folder of results. The drives are"
                f" {', '.join(known[:_MOST_NAMED])}{' …' if len(known) > _MOST_NAMED else ''}."
            )
    return [
        ComparedSide(name, {study: rows[rows["drive"] == name] for study, rows in measured.items()}) for name in names
    ]


def _of_level(whole: dict[str, pd.DataFrame], text: str) -> ComparedSide:
    """Return the executions at one level of a factor, without that factor: the points are those of all others."""
    name, _, level = text.partition("=")
    try:
        factor = factors.find_factor(name)
        wanted = str(factor.read(level))
    except (factors.FactorError, ValueError) as error:
        raise ComparisonError(f"{printable(text)}: {error}") from None
    column = factor.column
    found = {study: rows for study, rows in whole.items() if column in rows}
    parts = {study: rows[rows[column].astype("string") == wanted] for study, rows in found.items()}
    if all(rows.empty for rows in parts.values()):
        there = sorted({str(each) for rows in found.values() for each in rows[column].dropna()})
        raise ComparisonError(
            f"{printable(text)}: nothing was measured at that level. Measured of {name}:"
            f" {', '.join(there) or 'nothing'}."
        )
    return ComparedSide(text, {study: rows.drop(columns=column) for study, rows in parts.items() if not rows.empty})


def _measurements(folder: Path) -> Path | None:
    return next((place for place in (folder / "measurements", folder / "results/measurements") if place.is_dir()), None)


def _read(folder: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: quantities.read_executions(path) for path in sorted(folder.glob("*.parquet"))}


def _of_folder(name: str, folder: Path) -> ComparedSide:
    columns = [pd.read_parquet(path, columns=["fio_version"])["fio_version"] for path in folder.glob("*.parquet")]
    versions = {str(each) for column in columns for each in column.dropna()}
    return ComparedSide(name, _read(folder), tuple(sorted(versions)))


def shared_experiments(of_sides: Sequence[ComparedSide], of: str) -> Iterator[tuple[str, str, list[pd.DataFrame]]]:
    """Yield study, experiment and each side's executions of every experiment in which all sides measured ``of``."""
    column = quantities.get_quantity(of).column
    for study, first in of_sides[0].executions.items():
        for experiment in quantities.experiment_names(first):
            tables = [side.executions.get(study, first.iloc[:0]) for side in of_sides]
            parts = [quantities.select_experiments(table, experiment) for table in tables]
            parts = [rows[rows[column].notna()] if column in rows else rows.iloc[:0] for rows in parts]
            if not any(rows.empty for rows in parts):
                yield study, experiment, parts


def shared_points(of_sides: Sequence[ComparedSide], of: str) -> Iterator[tuple[dict[str, Any], list[FloatArray]]]:
    """Yield study, experiment, rw and point (levels in words) of every point of all sides, with each side's values."""
    column = quantities.get_quantity(of).column
    for study, experiment, parts in shared_experiments(of_sides, of):
        by, both = point_factors(parts), pd.concat(parts, ignore_index=True)
        groups = [dict(list(rows.groupby(by, sort=False, dropna=False)[column])) for rows in parts]
        for key in groups[0]:
            if all(key in group for group in groups):
                levels = dict(zip(by, key, strict=True))
                about = {
                    "study": study,
                    "experiment": experiment,
                    "rw": levels["rw"],
                    "point": levels_text(levels, both),
                }
                yield about, [group[key].to_numpy(dtype=np.float64) for group in groups]


def point_columns(points: pd.DataFrame) -> list[Column]:
    """Return the columns that print study (if there are several), experiment, workload and levels of each point."""
    columns = [
        Column(("study",), "Study", align_right=False, hide_repeats=True),
        Column(("experiment",), "Experiment", align_right=False, hide_repeats=True),
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False),
        Column(("point",), "Levels", align_right=False),
    ]
    return columns if points["study"].nunique() > 1 else columns[1:]


@dataclass(frozen=True)
class Comparison:
    """Two sides, and the quantity in which they are compared at each point that both have measured."""

    sides: Sequence[ComparedSide]
    of: str
    confidence: float = 0.95

    def points(self) -> pd.DataFrame:
        """Return one row for each point that both sides have.

        Columns: study, experiment, rw, point (its levels in words), first, second (means, in the quantity's unit),
        executions_first, executions_second, ratio (second over first), low, high (of the ratio's interval) and
        verdict. Raises ComparisonError where there is none.
        """
        rows = []
        for about, (first, second) in shared_points(self.sides, self.of):
            low, high, method = math.nan, math.nan, "none"
            if first.mean() > 0 and second.mean() > 0:
                low, high, method = product_interval([second], [first], self.confidence)
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
                    "verdict": _verdict(low, high, method),
                }
            )
        if not rows:
            first_name, second_name = (side.name for side in self.sides)
            raise ComparisonError(
                f"{first_name} and {second_name} have no point in common of which '{self.of}' was measured."
                " Measure both at the same levels."
            )
        return pd.DataFrame(rows)

    def table(self, points: pd.DataFrame) -> Table:
        """Return the table of `points`."""
        unit = quantities.get_quantity(self.of).unit
        first, second = (_short(side.name) for side in self.sides)
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
        """Yield a name and the figure of each experiment: both sides' curves, with the interval of each mean."""
        column = quantities.get_quantity(self.of).column
        for study, experiment, parts in shared_experiments(self.sides, self.of):
            by = point_factors(parts)
            tables = [
                summarise_groups(rows, by, column, confidence=self.confidence).assign(variant=_short(side.name))
                for side, rows in zip(self.sides, parts, strict=True)
            ]
            levels = [name for name in by if name not in {"rw", "drive"}]
            summary = pd.concat(tables, ignore_index=True).assign(drive=experiment)
            nothing = pd.DataFrame(columns=["drive_key", "rw", "value"])
            x, panels = plots.panels_by_level(summary, levels, self.of, nothing)
            yield f"{study}-{experiment}", plots.curves_figure(panels, x, columns=min(2, len(panels)))

    def told(self, points: pd.DataFrame) -> str:
        """Return in a sentence how many points are told apart, and how many chance alone would tell apart."""
        count = points["verdict"].value_counts()
        parts = [f"{count[name]} {name}" for name in (HIGHER, LOWER, INDISTINGUISHABLE, NO_INTERVAL) if name in count]
        by_chance = (1 - self.confidence) * len(points)
        first, second = self.sides
        versions = [" and ".join(side.fio_versions) for side in self.sides]
        other_fio = f" Measured with {versions[0]} and {versions[1]}." if versions[0] != versions[1] else ""
        return (
            f"{self.of} of {second.name} against {first.name}, at {len(points)} points: {', '.join(parts)}."
            f" Of two drives that were the same, about {by_chance:.2g} of so many points would be told apart by chance."
            f"{other_fio}"
        )


def _verdict(low: float, high: float, method: str) -> str:
    if method == "none":
        return NO_INTERVAL
    return {"faster": HIGHER, "slower": LOWER}.get(ratio_verdict(low, high), INDISTINGUISHABLE)


def _short(name: str) -> str:
    """Return a side's name as a head of a table has it: of a folder the last part."""
    return Path(name).name or name


def point_factors(parts: Sequence[pd.DataFrame]) -> list[str]:
    """Return the columns whose levels tell the points of an experiment apart; the drive where a side has several.

    ``parts``: the executions of each side.
    """
    asked = parts[0].columns[: parts[0].columns.get_loc("bandwidth_bytes_per_s")]
    everywhere = [name for name in asked if name not in _ABOUT and all(name in rows for rows in parts)]
    whole = pd.concat(parts, ignore_index=True)
    varied = [name for name in everywhere if whole[name].nunique(dropna=False) > 1]
    drives = ["drive"] if max(rows["drive"].nunique() for rows in parts) > 1 else []
    return list(dict.fromkeys([*drives, "rw", "bs_bytes", *varied]))


def levels_text(levels: dict[str, Any], executions: pd.DataFrame) -> str:
    """Return the levels of a point that vary in the executions as text, without the workload."""
    told = []
    for name, level in levels.items():
        if name != "rw" and executions[name].nunique(dropna=False) > 1:
            scale = factors.level_scale(name, [level])
            told.append(f"{scale.label} {NO_VALUE if pd.isna(level) else scale.texts[level]}")
    return ", ".join(told) or NO_VALUE
