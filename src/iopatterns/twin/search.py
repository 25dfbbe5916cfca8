"""Search for the parameters of a simulated drive that give measured figures: globally, then locally."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import scipy.optimize

from iopatterns.twin import models, simulation, validation
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
_FEWEST_MEMBERS, _MEMBERS = 15, 2  # of a population: at least, and for each parameter
_LOCAL_STEPS = 8

Figures = Mapping[str, float]


@dataclass(frozen=True)
class Target:
    """A point to which a search fits.

    Attributes:
        workload: The workload of the point.
        requests: Number of simulated requests.
        ramp: Number of these requests that come first and are not counted.
        measured: The measured figures by name, see `validation.FIGURES`.
        direction: Direction whose latencies were measured.
        rates: The directions that the measured rate counts.
        weights: The weights of the figures.
    """

    workload: simulation.Workload
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
                value = figures.get(f"{self.direction}_{validation.COLUMNS[name]}", math.nan)
            found.append(self.weights[name] * math.log(value / measured) if value > 0 else _UNREACHED)
        return found


def targets(table: pd.DataFrame, noise: pd.DataFrame, lengths: Sequence[tuple[int, int]]) -> list[Target]:
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
        measured = {name: row[f"measured_{name}"] for name in validation.FIGURES if row[f"measured_{name}"] > 0}
        weights = {}
        for name in measured:
            column = f"{row['direction']}_{'iops' if name == 'iops' else validation.COLUMNS[name]}"
            deviation = noise.loc[index, column]
            weights[name] = _WEIGHTS[name] / math.hypot(1, (0 if pd.isna(deviation) else deviation) / _USUAL_NOISE)
        workload = simulation.Workload.of(point.to_dict())
        found.append(Target(workload, *length, measured, str(row["direction"]), rates, weights))
    return found


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
        return (1 + _PENALTY * repairs) * float(np.mean(residuals**2)), valid

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

    def search_globally(self, evaluations: int, starts: int, seed: int, seen: Callable[[int], None]) -> models.Model:
        """Search all of the space by differential evolution, from several starts; return the best model.

        Args:
            evaluations: Number of evaluations of all starts together.
            starts: Number of starts: the model's values, and random populations.
            seed: Seed of the populations.
            seen: Function that is called after each evaluation, with their number.
        """
        best: tuple[float, np.ndarray] = (math.inf, self.start)
        count = 0

        def loss(position: np.ndarray) -> float:
            nonlocal best, count
            count += 1
            seen(count)
            value, valid = self.loss(position)
            if value < best[0]:
                best = (value, valid.copy())
            return value

        for number in range(starts):
            generator = np.random.default_rng([seed, number])
            _evolve(
                loss, self.start if not number else generator.random(len(self.start)), evaluations // starts, generator
            )
        return self.model_at(best[1])


def _evolve(
    loss: Callable[[np.ndarray], float], first: np.ndarray, evaluations: int, generator: np.random.Generator
) -> None:
    """Minimize a loss by differential evolution.

    In one comparison with CMA-ES (a disk with 12 points and 7 parameters, 400 evaluations, two starts each) the losses
    were 0.080 and 0.082, and with CMA-ES 0.079 and 0.094. Two starts do not show which method is better;
    differential evolution needs no further library.

    Args:
        loss: The loss at a position with numbers from 0 to 1.
        first: A position in the first population; the others are random.
        evaluations: About how often the loss is evaluated.
        generator: Source of the random numbers.
    """
    members = max(_FEWEST_MEMBERS, _MEMBERS * len(first))
    population = generator.random((members, len(first)))
    population[0] = np.clip(first, 0, 1)
    generations = max(1, evaluations // members - 1)
    bounds = scipy.optimize.Bounds(np.zeros(len(first)), np.ones(len(first)))
    scipy.optimize.differential_evolution(
        loss, bounds, init=population, maxiter=generations, rng=generator, polish=False, tol=0
    )


def refine(
    model: models.Model, ranges: Sequence[PlausibleRange], targets: Sequence[Target], steps: int | None = _LOCAL_STEPS
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
