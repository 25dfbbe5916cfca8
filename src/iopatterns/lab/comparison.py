"""Two drives, or two runs, held against each other point by point: which differences are told apart from chance."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis import plots, quantities
from iopatterns.analysis.statistics import direction, product_interval, summarise
from iopatterns.analysis.tables import NOTHING, WORKLOAD_NAMES, Column, Table, between, fixed, significant
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.configuration import factors

# What an execution is known by, beside the levels of its factors
_ABOUT = frozenset(
    {"drive", "cell", "execution", "study", "experiments", "drive_kind", "drive_model", "tuned", "steady"}
)
HIGHER, LOWER, OPEN, UNKNOWN = "higher", "lower", "not told apart", "no interval"
_MOST_NAMED = 10


class ComparisonError(IoPatternsError):
    """There is nothing to compare; the message says what there is."""

    exit_status = 2


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its name, and the executions of each study (`quantities.read_executions`).

    ``fio_versions`` are those with which a whole folder was measured.
    """

    name: str
    executions: dict[str, pd.DataFrame]
    fio_versions: tuple[str, ...] = ()


def sides(root: Path, first: str, second: str) -> tuple[Side, Side]:
    """Return the two sides that are named.

    They are two drives or two levels of a factor, of the results below ``root``, or two folders of results.
    A level is ``DRA=0``, ``iodepth=8`` and the like. A folder is one with ``measurements``, or that holds one with it
    under ``results``: another checkout, a copy, or what `iopatterns bench` made. Raises ComparisonError.
    """
    folders = [_measurements(root / name) for name in (first, second)]
    if folders[0] is not None and folders[1] is not None:
        return _of_folder(first, folders[0]), _of_folder(second, folders[1])
    here = _measurements(root)
    if here is None:
        raise ComparisonError("results/measurements: nothing is measured yet. Run `snakemake --cores 1`.")
    whole = _read(here)
    if "=" in first and "=" in second:
        return _of_level(whole, first), _of_level(whole, second)
    known = sorted({drive for rows in whole.values() for drive in rows["drive"]})
    for name in (first, second):
        if name not in known:
            raise ComparisonError(
                f"'{printable(name)}' is no drive of results/measurements, and no folder of results. The drives are"
                f" {', '.join(known[:_MOST_NAMED])}{' …' if len(known) > _MOST_NAMED else ''}."
            )
    drives = [{study: rows[rows["drive"] == name] for study, rows in whole.items()} for name in (first, second)]
    return Side(first, drives[0]), Side(second, drives[1])


def _of_level(whole: dict[str, pd.DataFrame], text: str) -> Side:
    """Return the executions at one level of a factor, without that factor: the points are those of all others."""
    name, _, level = text.partition("=")
    try:
        factor = factors.get(name)
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
    return Side(text, {study: rows.drop(columns=column) for study, rows in parts.items() if not rows.empty})


def _measurements(folder: Path) -> Path | None:
    return next((place for place in (folder / "measurements", folder / "results/measurements") if place.is_dir()), None)


def _read(folder: Path) -> dict[str, pd.DataFrame]:
    return {path.stem: quantities.read_executions(path) for path in sorted(folder.glob("*.parquet"))}


def _of_folder(name: str, folder: Path) -> Side:
    columns = [pd.read_parquet(path, columns=["fio_version"])["fio_version"] for path in folder.glob("*.parquet")]
    versions = {str(each) for column in columns for each in column.dropna()}
    return Side(name, _read(folder), tuple(sorted(versions)))


@dataclass(frozen=True)
class Comparison:
    """What two sides have in common, by experiment: the rows of both, and the factors that tell its points apart."""

    first: Side
    second: Side
    of: str
    confidence: float = 0.95
    method: str = "t"

    def points(self) -> pd.DataFrame:
        """Return one row for each point that both sides have.

        Columns: study, experiment, rw, point (its levels in words), first, second (means, in the quantity's unit),
        executions_first, executions_second, ratio (second over first), low, high (of the ratio's interval) and
        verdict. Raises ComparisonError where there is none.
        """
        rows = [
            row for study, experiment, by, parts in self._shared() for row in self._of(study, experiment, by, parts)
        ]
        if not rows:
            raise ComparisonError(
                f"{self.first.name} and {self.second.name} have no point in common of which '{self.of}' was measured."
                " Measure both at the same levels."
            )
        return pd.DataFrame(rows)

    def _shared(self) -> Iterator[tuple[str, str, list[str], tuple[pd.DataFrame, pd.DataFrame]]]:
        """Yield study, experiment, factors and both sides' executions of each experiment that both have."""
        column = quantities.get(self.of).column
        for study, mine in self.first.executions.items():
            theirs = self.second.executions.get(study)
            if theirs is None or column not in mine or column not in theirs:
                continue
            for experiment in quantities.experiments_of(mine):
                parts = (quantities.of_experiment(mine, experiment), quantities.of_experiment(theirs, experiment))
                parts = (parts[0][parts[0][column].notna()], parts[1][parts[1][column].notna()])
                if parts[0].empty or parts[1].empty:
                    continue
                yield study, experiment, point_factors(parts), parts

    def _of(
        self, study: str, experiment: str, by: Sequence[str], parts: tuple[pd.DataFrame, pd.DataFrame]
    ) -> Iterator[dict[str, Any]]:
        column = quantities.get(self.of).column
        groups = [dict(list(rows.groupby(list(by), sort=False, dropna=False))) for rows in parts]
        for key, before in groups[0].items():
            after = groups[1].get(key)
            if after is None:
                continue
            levels = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
            mine, theirs = (group[column].to_numpy(dtype="float64") for group in (before, after))
            found: dict[str, Any] = {"low": float("nan"), "high": float("nan"), "verdict": UNKNOWN}
            if mine.mean() > 0 and theirs.mean() > 0:
                low, high, method = product_interval([theirs], [mine], self.confidence, self.method)
                found = {"low": low, "high": high, "verdict": _verdict(low, high, method)}
            yield {
                "study": study,
                "experiment": experiment,
                "rw": levels["rw"],
                "point": in_words(levels, parts),
                "first": mine.mean(),
                "second": theirs.mean(),
                "executions_first": len(mine),
                "executions_second": len(theirs),
                "ratio": theirs.mean() / mine.mean() if mine.mean() else float("nan"),
                **found,
            }

    def table(self, points: pd.DataFrame) -> Table:
        """Return the table of `points`."""
        unit = quantities.get(self.of).unit
        percent = f"{100 * self.confidence:g} % interval"
        columns = (
            *((Column(("study",), "Study", right=False, once=True),) if points["study"].nunique() > 1 else ()),
            Column(("experiment",), "Experiment", right=False, once=True),
            Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, right=False),
            Column(("point",), "Levels", right=False),
            Column(("first",), _short(self.first.name), significant, unit),
            Column(("second",), _short(self.second.name), significant, unit),
            Column(("ratio",), "Ratio", fixed(2)),
            Column(("low", "high"), percent, between(2)),
            Column(("verdict",), "Second is", right=False),
        )
        return Table(points, columns, "experiment")

    def figures(self) -> Iterator[tuple[str, Figure]]:
        """Yield a name and the figure of each experiment: both sides' curves, with the interval of each mean."""
        column = quantities.get(self.of).column
        for study, experiment, by, parts in self._shared():
            both = []
            for side, rows in zip((self.first, self.second), parts, strict=True):
                table = summarise(rows, by, column, confidence=self.confidence, method=self.method)
                both.append(table.assign(variant=_short(side.name), drive=experiment))
            levels = [name for name in by if name not in {"rw", "drive"}]
            summary = pd.concat(both, ignore_index=True)
            nothing = pd.DataFrame(columns=["drive_key", "rw", "value"])
            x, panels = plots.level_panels(summary, levels, self.of, nothing)
            yield f"{study}-{experiment}", plots.curves_figure(panels, x, columns=min(2, len(panels)))

    def told(self, points: pd.DataFrame) -> str:
        """Return in a sentence how many points are told apart, and how many chance alone would tell apart."""
        count = points["verdict"].value_counts()
        parts = [f"{count[name]} {name}" for name in (HIGHER, LOWER, OPEN, UNKNOWN) if name in count]
        by_chance = (1 - self.confidence) * len(points)
        versions = [" and ".join(side.fio_versions) for side in (self.first, self.second)]
        other_fio = f" Measured with {versions[0]} and {versions[1]}." if versions[0] != versions[1] else ""
        return (
            f"{self.of} of {self.second.name} against {self.first.name}, at {len(points)} points: {', '.join(parts)}."
            f" Of two drives that were the same, about {by_chance:.2g} of so many points would be told apart by chance."
            f"{other_fio}"
        )


def _verdict(low: float, high: float, method: str) -> str:
    if method == "none":
        return UNKNOWN
    return {"faster": HIGHER, "slower": LOWER}.get(direction(low, high), OPEN)


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


def in_words(levels: dict[str, Any], parts: Sequence[pd.DataFrame]) -> str:
    """Return a point's levels, those alone that are not the same everywhere, the workload left out."""
    both = pd.concat(parts, ignore_index=True)
    told = []
    for name, level in levels.items():
        if name == "rw" or both[name].nunique(dropna=False) == 1:
            continue
        scale = factors.scale(name, [level])
        told.append(f"{scale.label} {NOTHING if pd.isna(level) else scale.texts[level]}")
    return ", ".join(told) or NOTHING
