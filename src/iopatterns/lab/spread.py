"""How much drives of one model differ, beside how much the executions on one of them do: a table and a figure."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy import special

from iopatterns.analysis import plots, quantities
from iopatterns.analysis.statistics import FloatArray, StatisticsError, check_interval_method, checked_sample
from iopatterns.analysis.tables import WORKLOAD_NAMES, Column, Table, fixed_decimals, interval_decimals, three_digits
from iopatterns.base.errors import IoPatternsError
from iopatterns.lab.comparison import ComparedSide, point_columns, shared_points, sides

DRIVES_DIFFER, INDISTINGUISHABLE = "drives differ", "not told apart"
_LEAST_DRIVES = 2
_DEVIATIONS = frozenset({"within", "within_low", "within_high", "between", "between_low", "between_high"})
_ROW_INCH, _FRAME_INCH = 0.19, 1.0


class SpreadError(IoPatternsError):
    """There are too few drives, or executions, to say how much drives differ; the message says what there is."""

    exit_status = 2


class VarianceComponents(NamedTuple):
    """The variance of one quantity, split: ``within`` a drive (its executions) and ``interval_decimals`` drives.

    Each is a standard deviation in the quantity's unit, with the interval around it. ``share`` is the part that drives
    have in the whole variance, 0 to 1. ``mean`` is that of the drives' means.
    """

    drives: int
    executions: int
    mean: float
    within: float
    within_low: float
    within_high: float
    between: float
    between_low: float
    between_high: float
    share: float
    share_low: float
    share_high: float


def variance_components(groups: Sequence[Sequence[float] | FloatArray], confidence: float = 0.95) -> VarianceComponents:
    """Return the variance components of the executions of some drives, a group each.

    The model is one-way with random effects: an execution is a mean of all drives, plus what is its drive's, plus what
    is its own. ``within`` is the pooled variance in the groups. ``interval_decimals`` comes of the unweighted means of the groups
    (Thomas and Hultquist 1978), which for groups of one size is the analysis of variance; where it would be below 0, it
    is 0. The intervals: of ``within`` by chi square; of ``interval_decimals`` after Williams (1962); of ``share`` by the ratio of
    both mean squares, which is F (Searle, Casella, McCulloch 1992, chapter 3). They suppose normal values. Raises
    StatisticsError for fewer than two groups, or none of two executions.
    """
    check_interval_method(confidence)
    samples = [checked_sample(group) for group in groups]
    sizes = np.array([sample.size for sample in samples])
    if len(samples) < _LEAST_DRIVES or sizes.max() < 2:
        raise StatisticsError("variance components need two drives or more, and one of them two executions or more")
    means = np.array([sample.mean() for sample in samples])
    of_drives, of_executions = len(samples) - 1, int(sizes.sum()) - len(samples)
    # what is left of equal values would be the noise of arithmetic
    squares = sum(float(((s - m) ** 2).sum()) if np.ptp(s) else 0.0 for s, m in zip(samples, means, strict=True))
    within = squares / of_executions
    each = len(samples) / float((1 / sizes).sum())  # the harmonic mean of the groups' sizes
    among = each * float(means.var(ddof=1)) if np.ptp(means) else 0.0
    low, high = (1 - confidence) / 2, (1 + confidence) / 2
    ratio = among / within if within else math.inf if among else 0.0
    f_low, f_high = (float(special.fdtri(of_drives, of_executions, p)) for p in (low, high))
    # 1 - F/ratio, and 0 where the ratio itself is
    left = {p: max(0.0, 1 - f / ratio) if ratio else 0.0 for p, f in ((high, f_high), (low, f_low))}
    bounds = [of_drives * among * left[p] / (each * _chi_square(of_drives, p)) for p in (high, low)]
    shares = [_share(ratio, 1.0, each), *(_share(ratio, f, each) for f in (f_high, f_low))]
    variances = (
        within,
        *(squares / _chi_square(of_executions, p) for p in (high, low)),
        max(0.0, (among - within) / each),
        *bounds,
    )
    return VarianceComponents(
        len(samples), int(sizes.sum()), float(means.mean()), *(math.sqrt(v) for v in variances), *shares
    )


def _share(ratio: float, f: float, each: float) -> float:
    """Return the share of drives in the variance where the ratio of mean squares is ``ratio``, on a quantile of F."""
    if math.isinf(ratio):
        return 1.0
    above = ratio / f - 1
    return max(0.0, above / (above + each))


def _chi_square(freedom: int, p: float) -> float:
    return float(special.chdtri(freedom, 1 - p))


@dataclass(frozen=True)
class DriveSpread:
    """The executions of several drives, by study, and the quantity of which the spread is told."""

    drives: Sequence[ComparedSide]
    of: str
    confidence: float = 0.95

    @classmethod
    def of_drives(cls, root: Path, names: Sequence[str], of: str, confidence: float = 0.95) -> "DriveSpread":
        """Return that of some drives of the results below ``root``. Raises SpreadError or ComparisonError."""
        distinct = list(dict.fromkeys(names))
        if len(distinct) < _LEAST_DRIVES:
            raise SpreadError("Name two drives or more, best of one model: their spread is what is told.")
        return cls(sides(root, *distinct), of, confidence)

    def points(self) -> pd.DataFrame:
        """Return one row for each point that all drives have.

        Columns: study, experiment, rw, point (its levels in words), drives, executions, mean (in the quantity's unit),
        within, within_low, within_high, between, between_low and between_high (standard deviations in percent of the
        mean), share, share_low and share_high (of the drives in the variance, in percent), and verdict. Raises
        SpreadError where there is none.
        """
        rows = []
        for about, values in shared_points(self.drives, self.of):
            if max(each.size for each in values) < 2 or np.mean([each.mean() for each in values]) <= 0:
                continue
            found = variance_components(values, self.confidence)
            relative = {
                name: 100 * deviation / found.mean for name, deviation in found._asdict().items() if name in _DEVIATIONS
            }
            shares = {name: 100 * getattr(found, name) for name in ("share", "share_low", "share_high")}
            verdict = DRIVES_DIFFER if found.share_low > 0 else INDISTINGUISHABLE
            rows.append({**about, **found._asdict(), **relative, **shares, "verdict": verdict})
        if not rows:
            names = ", ".join(side.name for side in self.drives)
            raise SpreadError(
                f"{names} have no point in common of which '{self.of}' was measured twice on one of them. Measure all"
                " at the same levels, with two executions a cell or more."
            )
        return pd.DataFrame(rows)

    def table(self, points: pd.DataFrame) -> Table:
        """Return the table of `points`."""
        percent = f"{100 * self.confidence:g} % interval"
        inner, outer = "Within a drive (% of the mean)", "Between drives (% of the mean)"
        columns = (
            *point_columns(points),
            Column(("mean",), "Mean", three_digits, quantities.get_quantity(self.of).unit),
            Column(("within",), "SD", fixed_decimals(2), spanner=inner),
            Column(("within_low", "within_high"), percent, interval_decimals(2), spanner=inner),
            Column(("between",), "SD", fixed_decimals(2), spanner=outer),
            Column(("between_low", "between_high"), percent, interval_decimals(2), spanner=outer),
            Column(("share",), "Share", fixed_decimals(0), "%"),
            Column(("verdict",), "So", align_right=False),
        )
        return Table(points, columns, "experiment")

    def figures(self, points: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
        """Yield a name and the figure of each experiment: both standard deviations at each point, with intervals."""
        for (study, experiment), rows in points.groupby(["study", "experiment"], sort=False):
            yield f"{study}-{experiment}", self._figure(str(experiment), rows)

    @plots.report_style()
    def _figure(self, experiment: str, rows: pd.DataFrame) -> Figure:
        figure, (axes,) = plots.figure_with_panels(1, 1, _ROW_INCH * len(rows), frame_inch=_FRAME_INCH)
        looks = {"within": ("within a drive", "o", "white", -0.14), "between": ("between drives", "s", "black", 0.14)}
        places = np.arange(len(rows), dtype=np.float64)
        for name, (label, marker, fill, shift) in looks.items():
            low, high = rows[f"{name}_low"].to_numpy(), rows[f"{name}_high"].to_numpy()
            axes.hlines(places + shift, low, high, color="black", linewidth=0.8)
            axes.plot(
                rows[name].to_numpy(), places + shift, marker, color="black", markerfacecolor=fill, ms=4, label=label
            )
        axes.set_yticks(
            places, [f"{WORKLOAD_NAMES[rw]}, {at}" for rw, at in zip(rows["rw"], rows["point"], strict=True)]
        )
        axes.invert_yaxis()
        # an upper bound for few drives is far out, and what is drawn is to be seen
        axes.set_xlim(0, 1.3 * max(1e-9, rows[["within_high", "between"]].to_numpy().max()))
        axes.set_xlabel(f"Standard deviation of {quantities.get_quantity(self.of).label} (% of the mean)")
        axes.set_title(f"{experiment}: {len(self.drives)} drives")
        axes.legend(loc="lower right")
        return figure

    def told(self, points: pd.DataFrame) -> str:
        """Return in sentences at how many points drives differ, by how much, and whether they are of one model."""
        differ = int((points["verdict"] == DRIVES_DIFFER).sum())
        lines = [
            f"{self.of} of {len(self.drives)} drives at {len(points)} points: they differ at {differ}, by a standard"
            f" deviation of {points['between'].median():.2g} % (median), beside {points['within'].median():.2g} %"
            " within a drive."
        ]
        models = sorted(
            {str(model) for side in self.drives for rows in side.executions.values() for model in rows["drive_model"]}
        )
        if len(models) > 1:
            lines.append(f"They are of {len(models)} models ({', '.join(models)}): that is part of what differs.")
        return " ".join(lines)
