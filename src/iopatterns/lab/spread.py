"""Compare the variation between drives with the variation within a drive.

The drives should be of one model. The variation within a drive is the variation between its repetitions (runs of fio).
"""

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
from iopatterns.lab.comparison import INDISTINGUISHABLE, ComparedSide, load_sides, point_columns, shared_points

DRIVES_DIFFER = "drives differ"
_MIN_DRIVES = 2
_ROW_INCH, _FRAME_INCH = 0.19, 1.0


class SpreadError(IoPatternsError):
    """The error raised for too few drives or repetitions to compare variations.

    The variation between drives can be separated from the variation within a drive only with at least two drives, and
    two repetitions (runs of fio) on one of them. The message says what to measure or to name.
    """

    exit_status = 2


class VarianceComponents(NamedTuple):
    """The variance of a quantity, split into variance within and between drives.

    The attributes ``within``, ``between`` and ``share`` have confidence intervals. The ends of an interval are further
    attributes, such as ``within_low`` and ``within_high``.

    Attributes:
        drives: The number of drives.
        executions: The number of repetitions (runs of fio) on all drives.
        mean: The mean of the drives' means, in the unit of the quantity.
        within: Standard deviation of the repetitions on one drive, in the unit of the quantity.
        between: Standard deviation between drives, without the variation of repetitions, in the unit of the quantity.
        share: The variance between drives, divided by the sum of both variances; from 0 to 1.
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
    """Estimate the variance between drives and the variance within drives.

    The model is a one-way model with random effects: each value is the sum of a common mean, a normal effect of the
    drive and a normal error of the repetition.

    - Within drives: the estimate is the pooled variance of the groups. Its interval follows from the chi-square
      distribution.
    - Between drives: the estimate is computed from the unweighted means of the groups (Thomas and Hultquist 1978). For
      groups of equal size, this is the estimate of the analysis of variance. A negative estimate is replaced by 0. The
      interval is that of Williams (1962).
    - Share: the interval follows from the F distribution of the ratio of mean squares (Searle, Casella, McCulloch 1992,
      chapter 3).

    Args:
        groups: For each drive, the values of its repetitions (runs of fio).
        confidence: Confidence level of the intervals, between 0 and 1.

    Returns:
        The numbers of drives and values, the mean, and both standard deviations and the share with their intervals.

    Raises:
        StatisticsError: There are fewer than two drives, or no drive has two values. Or a value is not finite, or the
            confidence level is invalid.
    """
    check_interval_method(confidence)
    samples = [checked_sample(group) for group in groups]
    sizes = np.array([sample.size for sample in samples])
    if len(samples) < _MIN_DRIVES or sizes.max() < 2:
        raise StatisticsError("variance components need at least two drives, and two repetitions on one of them")
    means = np.array([sample.mean() for sample in samples])
    freedom_between, freedom_within = len(samples) - 1, int(sizes.sum()) - len(samples)
    # equal values have a sum of exactly 0; the formula would leave rounding errors
    squares = sum(float(((s - m) ** 2).sum()) if np.ptp(s) else 0.0 for s, m in zip(samples, means, strict=True))
    within = squares / freedom_within
    size = len(samples) / float((1 / sizes).sum())  # the harmonic mean of the groups' sizes
    among = size * float(means.var(ddof=1)) if np.ptp(means) else 0.0
    low, high = (1 - confidence) / 2, (1 + confidence) / 2
    ratio = among / within if within else math.inf if among else 0.0
    f_low, f_high = (float(special.fdtri(freedom_between, freedom_within, p)) for p in (low, high))
    between_bounds = [
        freedom_between * among * (max(0.0, 1 - f / ratio) if ratio else 0.0) / (size * _chi_square(freedom_between, p))
        for p, f in ((high, f_high), (low, f_low))
    ]
    variances = (
        within,
        *(squares / _chi_square(freedom_within, p) for p in (high, low)),
        max(0.0, (among - within) / size),
        *between_bounds,
    )
    shares = [_share(ratio, f, size) for f in (1.0, f_high, f_low)]
    return VarianceComponents(
        len(samples), int(sizes.sum()), float(means.mean()), *(math.sqrt(v) for v in variances), *shares
    )


def _share(ratio: float, f: float, size: float) -> float:
    """Return the variance between drives as a share of the sum of both variances.

    Args:
        ratio: The mean square between drives divided by the mean square within drives.
        f: 1 for the estimate, or a quantile of the F distribution for an end of the interval.
        size: The harmonic mean of the numbers of repetitions on a drive.
    """
    if math.isinf(ratio):
        return 1.0
    above = ratio / f - 1
    return max(0.0, above / (above + size))


def _chi_square(freedom: int, p: float) -> float:
    return float(special.chdtri(freedom, 1 - p))


@dataclass(frozen=True)
class DriveSpread:
    """The standard deviation of a quantity between drives and within a drive.

    The standard deviation within a drive is that of its repetitions (runs of fio). Both standard deviations are
    computed at each point. A point is a combination of workload and levels at which all drives were measured.

    Attributes:
        drives: The drives with their repetitions.
        of: The name of the quantity, such as ``bandwidth``.
        confidence: Confidence level of the intervals, between 0 and 1.
    """

    drives: Sequence[ComparedSide]
    of: str
    confidence: float = 0.95

    @classmethod
    def load(cls, root: Path, names: Sequence[str], of: str, confidence: float = 0.95) -> "DriveSpread":
        """Read the measurements of several drives from the project's results.

        Args:
            root: The folder of the project, with results/measurements.
            names: The names of two or more drives. Runs or levels may take the place of drives, see
                `comparison.load_sides`.
            of: The name of the quantity, such as ``bandwidth``.
            confidence: Confidence level of the intervals, between 0 and 1.

        Raises:
            SpreadError: Fewer than two different names are given.
            ComparisonError: A drive was not measured.
        """
        distinct = list(dict.fromkeys(names))
        if len(distinct) < _MIN_DRIVES:
            raise SpreadError("Name at least two drives, preferably of one model.")
        return cls(load_sides(root, *distinct), of, confidence)

    def points(self) -> pd.DataFrame:
        """Return one row for each point (workload and levels) that all drives measured.

        The columns are

        - study, experiment, rw (the workload) and point (the other levels as text),
        - drives and executions: the numbers of drives and of repetitions,
        - mean: the mean of the drives' means, in the unit of the quantity,
        - within and between: the standard deviations within and between drives, in percent of the mean,
        - share: the variance between drives, in percent of the sum of both variances,
        - the ends of the confidence intervals of within, between and share, such as within_low and within_high, in
          percent too,
        - verdict: ``drives differ`` if the interval of the share is above 0, else ``indistinguishable``.

        A point is left out if no drive has two repetitions, or if the mean is not positive.

        Raises:
            SpreadError: No point is left.
        """
        rows = []
        for about, values in shared_points(self.drives, self.of):
            if max(each.size for each in values) < 2 or np.mean([each.mean() for each in values]) <= 0:
                continue
            found = variance_components(values, self.confidence)
            percent = {
                name: 100 * value / (1 if name.startswith("share") else found.mean)
                for name, value in found._asdict().items()
                if name.startswith(("within", "between", "share"))
            }
            verdict = DRIVES_DIFFER if found.share_low > 0 else INDISTINGUISHABLE
            rows.append({**about, **found._asdict(), **percent, "verdict": verdict})
        if not rows:
            names = ", ".join(side.name for side in self.drives)
            raise SpreadError(
                f"{names} have no point in common at which one drive has two repetitions of '{self.of}'. Measure all"
                " drives at the same levels, with two repetitions per cell or more."
            )
        return pd.DataFrame(rows)

    def table(self, points: pd.DataFrame) -> Table:
        """Return a table of points for printing.

        The table has the columns that identify a point, the mean, both standard deviations with their intervals, the
        share of the variance between drives, and the verdict.

        Args:
            points: The rows that the method `points` returned.
        """
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
            Column(("verdict",), "Verdict", align_right=False),
        )
        return Table(points, columns, "experiment")

    def figures(self, points: pd.DataFrame) -> Iterator[tuple[str, Figure]]:
        """Yield a figure for each experiment, with the standard deviations of each point.

        These are the standard deviations within and between drives, with their confidence intervals.

        Args:
            points: The rows that the method `points` returned.

        Yields:
            A pair: the name of the figure, such as ``kapoor-scale`` (study and experiment), and the figure.
        """
        for (study, experiment), rows in points.groupby(["study", "experiment"], sort=False):
            yield f"{study}-{experiment}", self._figure(str(experiment), rows)

    @plots.report_style()
    def _figure(self, experiment: str, rows: pd.DataFrame) -> Figure:
        figure, (axes,) = plots.figure_with_panels(1, 1, _ROW_INCH * len(rows), frame_inch=_FRAME_INCH)
        y = np.arange(len(rows), dtype=np.float64)
        for name, label, marker, fill, shift in (
            ("within", "within a drive", "o", "white", -0.14),
            ("between", "between drives", "s", "black", 0.14),
        ):
            low, high = rows[f"{name}_low"].to_numpy(), rows[f"{name}_high"].to_numpy()
            axes.hlines(y + shift, low, high, color="black", linewidth=0.8)
            axes.plot(rows[name].to_numpy(), y + shift, marker, color="black", markerfacecolor=fill, ms=4, label=label)
        labels = [f"{WORKLOAD_NAMES[rw]}, {point}" for rw, point in zip(rows["rw"], rows["point"], strict=True)]
        axes.set_yticks(y, labels)
        axes.invert_yaxis()
        # few drives have a very large upper end of `between`, which would compress the rest of the figure
        axes.set_xlim(0, 1.3 * max(1e-9, rows[["within_high", "between"]].to_numpy().max()))
        axes.set_xlabel(f"Standard deviation of {quantities.get_quantity(self.of).label} (% of the mean)")
        axes.set_title(f"{experiment}: {len(self.drives)} drives")
        axes.legend(loc="lower right")
        return figure

    def summary_text(self, points: pd.DataFrame) -> str:
        """Return a summary of the points as text.

        The text states at how many points the drives differ, and the median standard deviations between and within
        drives. If the drives are of several models, the text names the models, because drives of different models are
        expected to differ.

        Args:
            points: The rows that the method `points` returned.
        """
        differ = int((points["verdict"] == DRIVES_DIFFER).sum())
        text = (
            f"{self.of} of {len(self.drives)} drives at {len(points)} points: the drives differ at {differ}. Median"
            f" standard deviation: {points['between'].median():.2g} % between drives,"
            f" {points['within'].median():.2g} % within a drive."
        )
        models = sorted(
            {str(model) for side in self.drives for rows in side.executions.values() for model in rows["drive_model"]}
        )
        if len(models) > 1:
            text += f" The drives are of {len(models)} models ({', '.join(models)}), which is part of the difference."
        return text
