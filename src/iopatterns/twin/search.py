"""Search for the parameters of a simulated drive that give measured figures: globally, then locally."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.optimize
from scipy.stats import qmc

from iopatterns.twin import models, recorded_errors, simulation, validation
from iopatterns.twin.error import TwinError
from iopatterns.twin.ranges import PlausibleRange

# Weights of the figures of a point. Rate and mean latency determine each other by Little's law. Percentiles count less,
# because they depend on mechanisms that a model may lack.
_WEIGHTS: Mapping[str, float] = {"iops": 1.0, "lat_mean": 1.0, "p50": 0.5, "p99": 0.35}
# A figure whose repeats differ by this standard deviation (of the logarithm) has 0.7 of the weight of an exact figure
_USUAL_NOISE = 0.05
_UNREACHED = 20.0  # residual of a figure that the model cannot simulate
_REPAIRS = 6  # steps of _REPAIR of the distance, by which an invalid position is moved towards the start
_REPAIR = 0.5
_PENALTY = 0.3  # growth of the loss by each repair, as a share
_SIGNIFICANT_DIGITS = 4  # of a fitted parameter; further digits of the solver are noise
_SAMPLED = 0.25  # share of the evaluations of a global search that random positions have
_DESCENTS = 3  # of a global search: from the model's values, and from the best of the random positions
_STEP = 0.02  # in positions, for the derivatives of a descent
LOCAL_STEPS = 8

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Target:
    """A point to which a search fits.

    Attributes:
        workload: The workload of the point.
        requests: Number of simulated requests.
        ramp: Number of these requests that come first and are not counted.
        measured: The measured figures by name, see `recorded_errors.FIGURES`.
        direction: Direction whose latencies were measured.
        rates: The directions that the measured rate counts.
        weights: The weights of the figures.
    """

    workload: simulation.PointWorkload
    requests: int
    ramp: int
    measured: Mapping[str, float]
    direction: str
    rates: Sequence[str]
    weights: Mapping[str, float]

    def residuals(self, figures: Figures) -> list[float]:
        """Return the weighted natural logarithm of simulated divided by measured value, for each measured figure."""
        found = []
        for name, measured in self.measured.items():
            if name == "iops":
                value = math.fsum(figures.get(f"{each}_iops", 0.0) for each in self.rates)
            else:
                value = figures.get(f"{self.direction}_{validation.LATENCY_COLUMNS[name]}", math.nan)
            found.append(self.weights[name] * math.log(value / measured) if value > 0 else _UNREACHED)
        return found


def search_targets(table: pd.DataFrame, noise: pd.DataFrame, lengths: Sequence[tuple[int, int]]) -> list[Target]:
    """Return the targets of a search.

    Args:
        table: The points, one row each.
        noise: The noise of the figures, as `points.merged_repeats` returns it.
        lengths: Numbers of requests and of ramp requests of each point.
    """
    compared = validation.errors(table, table)
    found = []
    for index, length in zip(table.index, lengths, strict=True):
        row, point = compared.loc[index], table.loc[index]
        rates = [each for each in ("read", "write") if point[f"{each}_iops"] > 0]
        measured = {name: row[f"measured_{name}"] for name in recorded_errors.FIGURES if row[f"measured_{name}"] > 0}
        weights = {}
        for name in measured:
            column = f"{row['direction']}_{'iops' if name == 'iops' else validation.LATENCY_COLUMNS[name]}"
            deviation = noise.loc[index, column]
            weights[name] = _WEIGHTS[name] / math.hypot(1, (0 if pd.isna(deviation) else deviation) / _USUAL_NOISE)
        workload = simulation.PointWorkload.of(point.to_dict())
        found.append(Target(workload, *length, measured, str(row["direction"]), rates, weights))
    return found


def loss(model: models.Model, targets: Sequence[Target]) -> float:
    """Return the mean square of the residuals of a model, see `Target.residuals`.

    Args:
        model: The model.
        targets: The points.

    Raises:
        TwinError: The values of the model contradict each other.
    """
    return float(np.mean(Search(model, (), targets).residuals(model) ** 2))


def mean_distance(model: models.Model, targets: Sequence[Target], figures: Sequence[str]) -> float:
    """Return the mean of the absolute logarithms of simulated divided by measured figures.

    Args:
        model: The model.
        targets: The points.
        figures: The figures that count, keys of `recorded_errors.FIGURES`.

    Raises:
        TwinError: The model is too small for a point.
    """
    distances = []
    for each in targets:
        simulated = simulation.simulate(model, each.workload, each.requests, each.ramp)
        residuals = zip(each.measured, each.residuals(simulated), strict=True)
        distances += [abs(residual / each.weights[name]) for name, residual in residuals if name in figures]
    return float(np.mean(distances))


class Search:
    """Search for the values of some parameters of a model.

    A position has a number from 0 to 1 for each parameter, see `ranges.PlausibleRange.value_at`.
    """

    def __init__(self, model: models.Model, ranges: Sequence[PlausibleRange], targets: Sequence[Target]) -> None:
        """Define a search.

        Args:
            model: The model with the initial values, which must be valid.
            ranges: The ranges of the parameters to move.
            targets: The points to fit to.
        """
        self.model, self.ranges, self.targets = model, ranges, targets
        self.start = np.array([each.share_of(model.values[each.name]) for each in ranges])

    def residuals(self, model: models.Model) -> np.ndarray:
        """Return the residuals of all figures of all targets.

        Raises:
            TwinError: The values of the model contradict each other.
        """
        return np.concatenate(
            [
                each.residuals(simulation.simulate(model, each.workload, each.requests, each.ramp))
                for each in self.targets
            ]
        )

    def model_at(self, position: np.ndarray) -> models.Model:
        """Return the model with the values of a position; neither names nor values are checked."""
        shares = zip(self.ranges, np.clip(position, 0, 1), strict=True)
        return self.model.replaced({each.name: each.value_at(float(share)) for each, share in shares})

    def loss(self, position: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the mean square of the residuals at the nearest valid position, and that position.

        Values that contradict each other, such as an average seek above the full seek, are moved towards the start
        until the drive can be simulated. The loss then grows with the distance.
        """
        residuals, valid, repairs = self._repaired(position)
        return _loss(residuals, repairs), valid

    def valid_residuals(self, position: np.ndarray) -> np.ndarray:
        """Return the residuals at the nearest valid position, see `loss`."""
        return self._repaired(position)[0]

    def _repaired(self, position: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        """Return the residuals at the nearest valid position, this position, and the number of repairs."""
        for repairs in range(_REPAIRS):
            try:
                return self.residuals(self.model_at(position)), position, repairs
            except TwinError:
                position = self.start + _REPAIR * (position - self.start)
        return self.residuals(self.model), self.start, _REPAIRS

    def search_globally(self, evaluations: int, seed: int, seen: Callable[[int], None]) -> models.Model:
        """Search all of the space; return the best model.

        The losses of random positions (a Latin hypercube) are evaluated. Then the search descends by least squares from
        the model's values and from the best of these positions, and tries the other values of parameters with a list of
        values.

        Args:
            evaluations: About how often the loss is evaluated.
            seed: Seed of the positions.
            seen: Function that is called after each evaluation, with their number.
        """
        best: tuple[float, np.ndarray] = (math.inf, self.start)
        count = 0

        def residuals(position: np.ndarray) -> np.ndarray:
            nonlocal best, count
            count += 1
            seen(count)
            found, valid, repairs = self._repaired(position)
            if (value := _loss(found, repairs)) < best[0]:
                best = (value, valid.copy())
            return found * math.sqrt(1 + _PENALTY * repairs)

        generator = np.random.default_rng(seed)
        sampled = qmc.LatinHypercube(len(self.ranges), rng=generator).random(max(1, int(_SAMPLED * evaluations)))
        order = np.argsort([np.mean(residuals(position) ** 2) for position in sampled], kind="stable")
        begins = [self.start, *sampled[order[: _DESCENTS - 1]]]
        for number, begin in enumerate(begins):
            self._descend(begin, (evaluations - count) // (len(begins) - number), residuals)
        for number, each in enumerate(self.ranges):
            for choice in range(len(each.values)):
                position = best[1].copy()
                position[number] = (choice + 0.5) / len(each.values)
                residuals(position)
        return self.model_at(best[1])

    def _descend(self, begin: np.ndarray, evaluations: int, residuals: Callable[[np.ndarray], np.ndarray]) -> None:
        """Reduce the mean square of the residuals by least squares, from a position.

        Parameters with a list of values keep their values.

        Args:
            begin: The position.
            evaluations: About how often the residuals are evaluated.
            residuals: Function of a position, which notes the best position.
        """
        moved = [number for number, each in enumerate(self.ranges) if not each.values]
        if not moved:
            return

        def shifted(values: np.ndarray) -> np.ndarray:
            position = begin.copy()
            position[moved] = values - 1
            return residuals(position)

        # positions are shifted by 1, because the steps of the derivatives are relative to the values
        scipy.optimize.least_squares(
            shifted,
            1 + np.clip(begin[moved], 0, 1),
            bounds=(1, 2),
            diff_step=np.array([_STEP]),
            max_nfev=max(2, evaluations // (len(moved) + 1)),
        )


def _loss(residuals: np.ndarray, repairs: int) -> float:
    return (1 + _PENALTY * repairs) * float(np.mean(residuals**2))


def refine(
    model: models.Model, ranges: Sequence[PlausibleRange], targets: Sequence[Target], steps: int | None = LOCAL_STEPS
) -> tuple[models.Model, np.ndarray]:
    """Search near the values of a model with scipy.optimize.least_squares.

    Only parameters with values above 0 move, in their logarithms; others, such as those with a list of values, keep
    their values. Fitted values are rounded to four significant digits and to whole units.

    Args:
        model: The model with the initial values.
        ranges: The ranges of the parameters to move.
        targets: The points to fit to.
        steps: Most steps of the solver; None for no limit.

    Returns:
        The model, and the Jacobian of the residuals by the logarithms of the moved parameters (residuals × parameters
        of ``ranges``; zeros for parameters that did not move).
    """
    moved = [each for each in ranges if not each.values and model.number(each.name) > 0]
    jacobian = np.zeros((sum(len(each.measured) for each in targets), len(ranges)))
    if not moved:
        return model, jacobian
    search = Search(model, (), targets)
    last = search.residuals(model)

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        nonlocal last
        try:
            last = search.residuals(_with_rounded(model, [each.name for each in moved], logarithms))
        except TwinError:  # values that contradict each other: a step that does not pay
            return last + np.where(last < 0, -1.0, 1.0)
        return last

    start = np.log([model.number(each.name) for each in moved])
    lower = np.log([each.low if each.low > 0 else model.number(each.name) / 10 for each in moved])
    upper = np.log([each.high for each in moved])
    solution = scipy.optimize.least_squares(
        residuals,
        start,
        bounds=(np.minimum(lower, start), np.maximum(upper, start)),
        diff_step=np.array([0.002]),
        x_scale=1.0,
        xtol=1e-6,
        ftol=1e-8,
        max_nfev=steps,
    )
    jacobian[:, [ranges.index(each) for each in moved]] = np.asarray(solution.jac)
    return _with_rounded(model, [each.name for each in moved], solution.x), jacobian


def _with_rounded(model: models.Model, names: Sequence[str], logarithms: np.ndarray) -> models.Model:
    """Return the model with parameters set to the rounded values of natural logarithms."""
    values: dict[str, models.ParameterValue] = {}
    for name, logarithm in zip(names, logarithms, strict=True):
        value = math.exp(logarithm)
        rounded = round(value, _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(value)))
        is_ratio = models.declared_parameters()[name]["kind"] == "ratio"
        values[name] = rounded if is_ratio else round(rounded)
    return model.replaced(values)
