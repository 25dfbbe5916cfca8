"""Fit the parameters of a simulated drive to measured points.

A point is a workload and the figures that fio measured for it. A fit changes parameters of the model, which describes
the drive, until the simulated workloads give the measured figures as nearly as possible. Points that are held out do
not take part in the fit; they show how well the fitted model predicts.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base.ownership import OutputFile
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.twin import models, points, ranges, recorded_errors, search, simulation, validation
from iopatterns.twin.error import TwinError

# Largest mean of the absolute errors of rate and mean latency at the fitted points, and largest error of one point
MAX_MEAN_ERROR, MAX_POINT_ERROR = 0.2, 0.3
HELD_OUT_SHARE = 0.25
NEAREST = "auto"  # in place of a model's name: the shipped model whose figures are nearest to the points
_MUCH_NEARER = 0.5  # share of the error of the user's model below which another model is proposed
_LIMITED = ("iops", "lat_mean")  # figures that the limits concern
_RECORDED_RUNTIME_S, _RECORDED_REGION_BYTES = 2.0, 2**30  # of published values whose record does not state them
_MOST_REPEATED = 2_000_000  # requests of a point; with more, a repeated fit simulates the points as a search does

# The search simulates as few requests of a point as agree with a longer run, within these limits, and evaluates models
# until it has simulated _SEARCHED_REQUESTS. A start of a simulation costs as much time as _STARTING requests.
_FEWEST_SEARCHED, _MOST_SEARCHED = 600, 20_000
_SEARCHED_REQUESTS, _STARTING = 14_000_000, 2000
_EVALUATIONS = 120  # at most, for each moved parameter
_MOST_CHECKED = 200_000  # requests of a point of the fitted model; `twin validate` simulates more
_COMPARED = 5000  # requests of a run that only compares models: more than the write caches of most disks take
_SEARCHED_POINTS = 16  # at most, in the global search; they differ most from each other
# Shares of the evaluations in the rounds of a global search. Each round begins at the model of the previous one, at
# which other parameters may have the largest effect.
_ROUNDS = (0.6, 0.4)
# A parameter takes part in a search without --move if its values change the figures by this much (root mean square of
# the logarithms), and if it is among the _MOST_MOVED with the largest effect
_LEAST_EFFECT, _MOST_MOVED = 0.03, 12
_SCREENED = (0.15, 0.85)  # positions in the range at which the effect of a parameter is measured
# A direction of the fitted parameters is flat if a change by half, or to twice the value, changes the residuals by less
_FLAT = 0.01
_NEAR_BOUND = 0.005  # relative distance below which a parameter counts as being at a bound
_PART_OF_COMBINATION = 0.4  # share of a parameter in a flat direction above which the direction is named after it


class NoFitError(TwinError):
    """Error of a fit whose simulated values are too far from the measured values.

    Attributes:
        report: The fitted parameters and the error of each point as text, see `fit_report`.
        exit_status: Exit status of the command `twin` for this error.
    """

    exit_status = 1

    def __init__(self, report: str, message: str) -> None:
        super().__init__(message)
        self.report = report


@dataclass(frozen=True)
class FitResult:
    """Fitted model of a drive, and its errors.

    Attributes:
        model: The model with the fitted parameters.
        moved: Values of the fitted parameters by ``group.name``, in the units of `models.Model.values`.
        table: The points with the columns `points.POINT_COLUMNS`, held-out points included. Repeats of a
            point are one row.
        errors: The errors at the points, as `validation.errors` returns them. The part of fitted points is
            `points.FIT_PART`; all other parts are held out.
        at_bounds: The fitted parameters that ended at a bound of the search, with the bound in words.
        flat: The fitted parameters that the points do not determine, with the reason in words.
        settings: Values that replaced values of the model during the fit. The fitted model does not contain them.
        taken: Values of further parameters by ``group.name``. They are those of another shipped model, with which the
            search began.
    """

    model: models.Model
    moved: Mapping[str, models.ParameterValue]
    table: pd.DataFrame
    errors: pd.DataFrame
    at_bounds: Mapping[str, str] = field(default_factory=dict)
    flat: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    taken: Mapping[str, models.ParameterValue] = field(default_factory=dict)

    @property
    def fitted(self) -> pd.Series:
        """Whether each row of ``errors`` is a fitted point."""
        return self.errors["part"] == points.FIT_PART

    def mean_absolute_error(self, *, held_out: bool = False) -> float:
        """Return the mean of the absolute errors of rate and mean latency; NaN if there are no points.

        Args:
            held_out: True for the held-out points, False for the fitted points.
        """
        limited = _limited_errors(self.errors[self.fitted != held_out])
        return float(np.nanmean(np.abs(limited))) if limited.size else math.nan

    def worst(self) -> tuple[str, float]:
        """Return the fitted point with the largest error of rate or mean latency, and this error."""
        limited = _limited_errors(self.errors[self.fitted])
        line, column = np.unravel_index(np.nanargmax(np.abs(limited)), limited.shape)
        return points.point_texts(self.table[self.fitted.to_numpy()])[line], float(limited[line, column])


def _limited_errors(errors: pd.DataFrame) -> np.ndarray:
    limited: np.ndarray = errors[[f"error_{figure}" for figure in _LIMITED]].to_numpy(dtype=float)
    return limited


def fit_model(
    model: models.Model,
    table: pd.DataFrame,
    move: Sequence[str] = (),
    *,
    settings: Mapping[str, Any] | None = None,
    seed: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> FitResult:
    """Fit parameters of a model to the points that are not held out.

    The fit searches all of the space, then near the best model, by least squares from several starts. The loss is the
    mean square of the logarithms of simulated divided by measured figures: rate, mean latency, and, with smaller
    weights, the 50th and 99th percentile. Figures that vary between repeats count less. The same arguments always give
    the same result.

    Args:
        model: The model, with the values at which the search begins.
        table: The points with the columns `points.POINT_COLUMNS`, see `points.with_parts` for the parts.
        move: Names of the parameters to fit, as ``group.name``. Empty: the parameters without a value from a data sheet
            whose values change the figures of the points most.
        settings: Values that replace values of the model during the fit, as in a model file.
        seed: Seed of the search.
        say: Function for messages on the progress.

    Returns:
        The fitted model and its errors. The caller decides whether the errors are small enough.

    Raises:
        TwinError: A parameter does not exist or cannot be moved, a setting is not valid, or the points are fewer than
            the parameters.
    """
    measured = model.with_values(settings or {}, "--set")
    merged, noise = points.merged_repeats(table)
    fitted = merged[merged["part"] == points.FIT_PART]
    chosen = [_checked_range(measured, name) for name in move]
    if len(fitted) < max(1, len(move)):
        raise TwinError(
            f"{model.name}: {len(fitted)} points are too few to fit {len(move)} parameters. Give more points, or fit"
            " fewer parameters."
        )
    searched = _spread(fitted)
    first = measured if chosen else _first_model(measured, settings or {}, searched, noise, say)
    found, spaces = _found_globally(first, searched, noise, chosen, seed=seed, say=say)
    # the best model may need longer runs than the first model
    goals = search.search_targets(fitted, noise.loc[fitted.index], _lengths(found, fitted))
    steps = _evaluations(goals, len(spaces)) // (len(spaces) + 1)
    say(f"Searching near the best model (parameters: {len(spaces)}, points: {len(fitted)})")
    best, jacobian = search.refine(found, spaces, goals, min(max(steps, 2), search.LOCAL_STEPS))
    say("Simulating all points at length")
    errors = validation.errors(merged, validation.simulate_points(best, merged, most_requests=_MOST_CHECKED))
    moved = {each.name: best.values[each.name] for each in spaces}
    taken = {
        name: value for name, value in first.values.items() if value != measured.values[name] and name not in moved
    }
    return FitResult(
        model.replaced({**moved, **taken}),
        moved,
        merged,
        errors,
        _at_bounds(best, spaces),
        _flat(spaces, jacobian),
        settings or {},
        taken,
    )


def nearest_models(table: pd.DataFrame) -> list[tuple[models.Model, float]]:
    """Return the shipped models and their errors at points, in ascending order of the error.

    The error is the mean of the absolute logarithms of simulated divided by measured rate and mean latency, as a share:
    0.1 is a factor of 1.1. Models that are too small for a point are left out.

    Args:
        table: The points with the columns `points.POINT_COLUMNS`. At most `_SEARCHED_POINTS` of them are simulated.

    Raises:
        TwinError: All models are too small.
    """
    merged, noise = points.merged_repeats(table)
    chosen = _spread(merged)
    goals = search.search_targets(chosen, noise.loc[chosen.index], [(_COMPARED, _COMPARED // 2)] * len(chosen))
    found = []
    for name in models.list_models():
        model = models.load_model(name)
        try:
            found.append((model, math.expm1(search.mean_distance(model, goals, _LIMITED))))
        except TwinError:
            continue
    if not found:
        raise TwinError("no shipped model is large enough for the points")
    return sorted(found, key=lambda each: each[1])


def repeat_fit(model: models.Model, root: Path) -> FitResult:
    """Repeat the fit that a model file records, from the recorded values.

    The recorded values are the start, and the search is local: the result equals the recorded values if they are the
    best ones nearby. The simulated requests are those of the measurement, or as many as in a search if these are many.

    Args:
        model: The model with a record.
        root: Folder to which the path of the points is relative.

    Raises:
        TwinError: The model has no record, or the points cannot be read.
    """
    settings = model.fit.get("set", {})
    measured = model.with_values(settings, "set")
    table = recorded_points(root, model)
    fitted = table[table["part"] == points.FIT_PART]
    spaces = [_checked_range(measured, name) for name in model.fit["moved"]]
    _, noise = points.merged_repeats(fitted)
    goals = search.search_targets(
        fitted, noise.set_index(fitted.index), _complete(fitted) or _lengths(measured, fitted)
    )
    best, jacobian = search.refine(measured, spaces, goals, steps=None)
    moved = {each.name: best.values[each.name] for each in spaces}
    bounds, flat = _at_bounds(best, spaces), _flat(spaces, jacobian)
    return FitResult(model.replaced(moved), moved, table, complete_errors(best, table), bounds, flat, settings)


def complete_errors(model: models.Model, table: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of a model at points.

    The points are simulated for as many requests as were measured, or until their figures are settled if a point has
    many requests.

    Args:
        model: The model.
        table: The points with the columns `points.POINT_COLUMNS`.
    """
    complete = _complete(table)
    if complete is None:
        return validation.errors(table, validation.simulate_points(model, table))
    workloads = [simulation.PointWorkload.of(row) for row in table.to_dict("records")]
    simulated = [
        simulation.simulate(model, workload, *length) for workload, length in zip(workloads, complete, strict=True)
    ]
    columns = list(points.FIGURE_COLUMNS)
    return validation.errors(table, pd.DataFrame(simulated, index=table.index, columns=columns))


def _complete(table: pd.DataFrame) -> list[tuple[int, int]] | None:
    """Return the measured numbers of requests and of ramp requests of each point; None if a point has too many."""
    times = [validation.measured_times(row) for row in table.to_dict("records")]
    if max(each.requests for each in times) > _MOST_REPEATED:
        return None
    return [(each.requests, each.ramp) for each in times]


def _found_globally(
    model: models.Model,
    table: pd.DataFrame,
    noise: pd.DataFrame,
    chosen: Sequence[ranges.PlausibleRange],
    *,
    seed: int,
    say: Callable[[str], None],
) -> tuple[models.Model, list[ranges.PlausibleRange]]:
    """Return the best model of a search of all of the space, and the ranges of its moved parameters.

    Args:
        model: The model with the initial values.
        table: The points.
        noise: The noise of the points, see `points.merged_repeats`.
        chosen: The ranges of the parameters to move. Empty: those with the largest effect on the points, in each round.
        seed: Seed of the search.
        say: Function for messages on the progress.
    """
    found, moved = model, list(chosen)
    for number, share in enumerate(_ROUNDS):
        say(f"Search {number + 1} of {len(_ROUNDS)}: choosing the lengths of the runs (points: {len(table)})")
        goals = search.search_targets(table, noise.loc[table.index], _lengths(found, table))
        spaces = list(chosen) or _influential(model, found, goals, len(table))
        evaluations = round(share * _evaluations(goals, len(spaces)))
        say(f"About {evaluations} models, moving {', '.join(each.name for each in spaces)}")

        def seen(count: int) -> None:
            if count % 100 == 0:
                say(f"{count} models")

        found = search.Search(found, spaces, goals).search_globally(evaluations, seed + number, seen)
        moved += [each for each in spaces if each not in moved]
    return found, [each for each in moved if chosen or found.values[each.name] != model.values[each.name]] or moved


def _first_model(
    model: models.Model,
    fixed: Collection[str],
    table: pd.DataFrame,
    noise: pd.DataFrame,
    say: Callable[[str], None],
) -> models.Model:
    """Return the model with the free values of that shipped model with which it is nearest to the points.

    Several mechanisms have an effect only together, so that a search that begins without them would rarely find them.
    Switches and values from a data sheet remain.

    Args:
        model: The model.
        fixed: Names of parameters that keep their values.
        table: The points.
        noise: The noise of the points, see `points.merged_repeats`.
        say: Function for a message.
    """
    goals = search.search_targets(table, noise.loc[table.index], [(_COMPARED, _COMPARED // 2)] * len(table))
    best, least, name_of_best = model, _MUCH_NEARER * search.loss(model, goals), ""
    for other in map(models.load_model, models.list_models()):
        names = [name for name in _free_names(model) if name in other.values and name not in fixed]
        values = {name: other.values[name] for name in names}
        candidate = model.replaced(values)
        if other.kind != model.kind or values == {name: model.values[name] for name in values}:
            continue
        try:
            loss = search.loss(candidate, goals)
        except TwinError:  # the values contradict others of the model
            continue
        if loss < least:
            best, least, name_of_best = candidate, loss, other.path.stem
    if name_of_best:
        say(f"Beginning with values of {name_of_best}, with which {model.path.stem} is nearer to the points")
    return best


def _free_names(model: models.Model) -> list[str]:
    """Return the names of the parameters that a fit may move without being asked to.

    Parameters with a value from a data sheet, switches and choices are left out, unless the table of ranges has values
    for a search.
    """
    return [
        name
        for name, value in model.values.items()
        if ranges.has_search_range(name)
        or (not isinstance(value, (bool, str)) and model.sources[name][0] != "datasheet")
    ]


def _spread(table: pd.DataFrame) -> pd.DataFrame:
    """Return at most `_SEARCHED_POINTS` points that differ from each other as much as possible.

    Each next point is the one with the largest distance to the points that are already chosen. The distance of two
    points counts doublings of depth, jobs and block size, and twice as much for another workload.

    Args:
        table: The points.
    """
    shares = [
        points.read_write_shares(rw, mix)["read"] for rw, mix in zip(table["rw"], table["rwmixread"], strict=True)
    ]
    places = np.column_stack(
        [
            np.log2(table[["iodepth", "numjobs", "bs_bytes"]].to_numpy(dtype=float)),
            4 * np.array(shares),
            4 * table["rw"].str.startswith("rand").to_numpy(dtype=float),
        ]
    )
    chosen = [int(np.argmin(places[:, 0] + places[:, 1]))]
    nearest = np.full(len(table), np.inf)
    while len(chosen) < min(_SEARCHED_POINTS, len(table)):
        nearest = np.minimum(nearest, np.linalg.norm(places - places[chosen[-1]], axis=1))
        chosen.append(int(np.argmax(np.where(np.isin(np.arange(len(table)), chosen), -1, nearest))))
    return table.iloc[sorted(chosen)]


def _checked_range(model: models.Model, name: str) -> ranges.PlausibleRange:
    """Return the range of a parameter that the user chose.

    Raises:
        TwinError: The parameter does not exist or cannot be moved.
    """
    if name not in model.values:
        raise TwinError(f"{model.name}: no parameter '{name}' to fit.{did_you_mean(name, model.values)}")
    value = model.values[name]
    found = ranges.search_range(model, name, chosen=True)
    if found.is_fixed and isinstance(value, (bool, str)):
        raise TwinError(f"{model.name}: cannot fit '{name}': it is not a number")
    if found.is_fixed:
        raise TwinError(
            f"{model.name}: cannot fit '{name}': its value {models.format_value(name, value)} has no range. Give it a"
            " value above 0, or a range in the model file."
        )
    return found


def _lengths(model: models.Model, table: pd.DataFrame) -> list[tuple[int, int]]:
    """Return the numbers of requests and of ramp requests of each point for a search.

    They are the fewest whose figures agree with those of a run of `_MOST_SEARCHED` requests, or of the measurement if
    it had fewer.
    """
    lengths = []
    for row in table.to_dict("records"):
        workload = simulation.PointWorkload.of(row)
        longest = min(validation.measured_times(row).requests, _MOST_SEARCHED)
        expected = simulation.simulate(model, workload, longest, longest // 2)
        requests = max(_FEWEST_SEARCHED, 8 * workload.outstanding)
        while requests < longest:
            if simulation.agree(simulation.simulate(model, workload, requests, requests // 2), expected):
                break
            requests *= 2
        requests = min(requests, longest)
        lengths.append((requests, requests // 2))
    return lengths


def _evaluations(goals: Sequence[search.Target], parameters: int) -> int:
    """Return the number of models that a search evaluates, all starts together."""
    cost = sum(each.requests + _STARTING for each in goals)
    return min(_SEARCHED_REQUESTS // cost, _EVALUATIONS * parameters)


def _influential(
    model: models.Model, found: models.Model, goals: Sequence[search.Target], most: int
) -> list[ranges.PlausibleRange]:
    """Return the ranges of the free parameters whose values change the figures most.

    Args:
        model: The model with the initial values, which determine the ranges.
        found: The model at which the effects are measured.
        goals: The points.
        most: Largest number of parameters.
    """
    free = [ranges.search_range(model, name) for name in _free_names(model)]
    free = [each for each in free if not each.is_fixed]
    whole = search.Search(found, free, goals)
    usual = whole.residuals(found)
    effects: dict[str, float] = {}
    for number, each in enumerate(free):
        for share in _SCREENED:
            position = whole.start.copy()
            position[number] = share
            change = whole.valid_residuals(position) - usual
            effects[each.name] = max(effects.get(each.name, 0.0), float(np.sqrt(np.mean(change**2))))
    ordered = sorted(free, key=lambda each: (-effects[each.name], each.name))
    return [each for each in ordered if effects[each.name] >= _LEAST_EFFECT][: min(most, _MOST_MOVED)] or ordered[:1]


def _at_bounds(model: models.Model, spaces: Sequence[ranges.PlausibleRange]) -> dict[str, str]:
    """Return the parameters of a model that are at a bound of their range, with the bound in words."""
    ended = {}
    for each in spaces:
        if each.values:
            continue
        for bound, kind in ((each.low, "smallest"), (each.high, "largest")):
            if math.isclose(model.number(each.name), bound, rel_tol=_NEAR_BOUND):
                ended[each.name] = f"the {kind} value of the search, {each.text_of(bound)}"
    return ended


def _flat(spaces: Sequence[ranges.PlausibleRange], jacobian: np.ndarray) -> dict[str, str]:
    """Return the parameters that the points do not determine, with the reason in words.

    Args:
        spaces: The ranges of the fitted parameters.
        jacobian: The Jacobian of the residuals by the logarithms of the parameters, at the fitted values.
    """
    continuous = [number for number in range(len(spaces)) if jacobian[:, number].any() or not spaces[number].values]
    if not continuous or not jacobian.size:
        return {}
    names = [spaces[number].name for number in continuous]
    scaled = jacobian[:, continuous] * math.log(2) / math.sqrt(len(jacobian))
    found = {}
    for name, column in zip(names, scaled.T, strict=True):
        if np.linalg.norm(column) < _FLAT:
            found[name] = f"half or twice its value changes the figures by less than {_FLAT:.0%}"
    _, strengths, directions = np.linalg.svd(scaled, full_matrices=True)
    strengths = np.append(strengths, np.zeros(len(names) - len(strengths)))
    for strength, direction in zip(strengths, directions, strict=True):
        part = [name for name, share in zip(names, direction, strict=True) if abs(share) > _PART_OF_COMBINATION]
        if strength < _FLAT and len(part) > 1:
            for name in part:
                others = ", ".join(each for each in part if each != name)
                found.setdefault(name, f"a change of it is balanced by changes of {others}")
    return found


# --- records --------------------------------------------------------------------------------------------------------


def recorded_points(root: Path, model: models.Model) -> pd.DataFrame:
    """Return the points of a fit that a model file records.

    These keys of the section ``fit`` of the file determine the points:

    - ``points``: path of a CSV table, such as ``data/published/saif2020/values.csv``; or several paths, separated by a
      comma and a space.
    - ``fitted``: a mapping whose keys are the names of the fitted points.
    - ``predicted``: a mapping whose keys are the names of the held-out points. It may be missing.
    - ``ramp_time_s``, ``runtime_s``, ``region_bytes``, and ``runtimes_s`` by the name of a point: the conditions of
      points that do not state them.

    Args:
        root: Folder to which the paths are relative.
        model: The model.

    Returns:
        The fitted points, then the held-out points, with the columns `points.POINT_COLUMNS` and ``id``.

    Raises:
        TwinError: The model records no fit, there is no point of one of the names, or a point cannot be simulated.
        OSError: A table cannot be read.
    """
    recipe = model.fit
    if not recipe:
        raise TwinError(f"{model.name}: the model file records no fit to repeat. Give the measured points.")
    names = {name: use for use in ("fitted", "predicted") for name in recipe.get(use, {})}
    found = points.named_points([root / each for each in str(recipe["points"]).split(", ")], list(names), model.name)
    uses = found["id"].map(names)
    found = found.assign(part=uses.map({"fitted": points.FIT_PART, "predicted": "held out"}))
    own = found["id"].map(recipe.get("runtimes_s", {})).astype(float)
    stated = with_conditions(
        found.assign(runtime_s=found["runtime_s"].fillna(own)),
        ramp_s=recipe.get("ramp_time_s", 0.0),
        runtime_s=recipe.get("runtime_s"),
        size_bytes=recipe.get("region_bytes"),
    )
    if "unit" not in stated:  # measured points without a region are of the whole drive
        return stated
    usual = with_conditions(stated, runtime_s=_RECORDED_RUNTIME_S, size_bytes=_RECORDED_REGION_BYTES)
    return stated.where(stated["unit"] == "", usual)


def with_conditions(table: pd.DataFrame, **conditions: float | None) -> pd.DataFrame:
    """Return points with the conditions that they do not state themselves.

    Args:
        table: The points.
        conditions: Values by column, such as ``runtime_s``; None for no value.
    """
    given = {name: value for name, value in conditions.items() if value is not None}
    return table.assign(**{name: table[name].fillna(value) for name, value in given.items()})


def fit_report(fitted: FitResult) -> str:
    """Return the result of a fit as text of several lines.

    The text lists the fitted parameters, those that the points do not determine, the errors of each point, and a
    summary for the fitted and the held-out points.
    """
    lines = ["Fitted parameters:"]
    for name, value in fitted.moved.items():
        lines.append(f"  {name:<34} {models.format_value(name, value)}")
        if name in fitted.at_bounds:
            lines.append(f"    At a bound: {fitted.at_bounds[name]}. The best value may be beyond it.")
        if name in fitted.flat:
            lines.append(f"    Not determined by the points: {fitted.flat[name]}.")
    if fitted.taken:
        lines.append(f"Also taken from the shipped model with which the search began: {', '.join(fitted.taken)}")
    shown = fitted.errors.assign(id=points.point_texts(fitted.table))
    lines += ["", validation.error_table(shown), "", validation.summary_table(validation.summary(fitted.errors))]
    for held_out, title in ((False, "fitted points"), (True, "held-out points")):
        error = fitted.mean_absolute_error(held_out=held_out)
        if not math.isnan(error):
            lines.append(f"Mean absolute error of rate and mean latency, {title}: {100 * error:.1f} %")
    return "\n".join(lines)


def fit_record(fitted: FitResult, points_source: str, conditions: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the section ``fit``, with which a model file records a fit.

    Args:
        fitted: The result of the fit.
        points_source: Where the points come from, such as the path of a table.
        conditions: The conditions of points that do not state them, see `recorded_points`.

    Returns:
        A mapping with these keys. All but ``points``, ``moved`` and ``fitted`` are left out if they are empty.

        - ``points``: the source of the points.
        - ``set``, ``ramp_time_s``, ``runtime_s``, ``region_bytes``, ``runtimes_s``: the conditions.
        - ``moved``: the names of the fitted parameters.
        - ``fitted`` and ``predicted``: for each fitted and each held-out point, a text with the measured value, the
          simulated value and the error of each figure.
        - ``at_bounds`` and ``flat``: see `FitResult`.
    """

    def rows(chosen: pd.Series) -> dict[str, str]:
        table, errors = fitted.table[chosen.to_numpy()], fitted.errors[chosen]
        pairs = zip(points.point_texts(table), table.to_dict("records"), errors.to_dict("records"), strict=True)
        return {name: _figures_text(point, row) for name, point, row in pairs}

    section = {
        "points": points_source,
        "set": dict(fitted.settings),
        **(conditions or {}),
        "moved": list(fitted.moved),
        "fitted": rows(fitted.fitted),
        "predicted": rows(~fitted.fitted),
        "at_bounds": dict(fitted.at_bounds),
        "flat": dict(fitted.flat),
    }
    return {key: value for key, value in section.items() if value or key in {"points", "moved", "fitted"}}


def _figures_text(point: Mapping[Any, Any], row: Mapping[Any, Any]) -> str:
    """Return the figures of a point as text: ``measured 136 MiB/s, model 133.6, error -1.8 %``."""
    texts = []
    for figure, title in recorded_errors.FIGURES.items():
        measured, model, error = (row[f"{kind}_{figure}"] for kind in ("measured", "model", "error"))
        if math.isnan(error):
            continue
        unit = (point.get("unit") or "IOPS") if figure == "iops" else "us"
        factor = points.unit_per_iops(unit, point["bs_bytes"])
        name = "" if figure == "iops" else f"{title} "
        texts.append(
            f"{name}measured {measured * factor:.6g} {unit}, model {model * factor:.4g}, error {100 * error:+.1f} %"
        )
    return "; ".join(texts)


# --- commands -------------------------------------------------------------------------------------------------------


def check_limits(fitted: FitResult, name: str, max_error: float, max_point_error: float, remedy: str) -> None:
    """Raise NoFitError if the errors of rate and mean latency at the fitted points are above the limits.

    Args:
        fitted: The result of the fit.
        name: The name of the model, for the message.
        max_error: Limit for the mean of the absolute errors; 0.2 is 20 %.
        max_point_error: Limit for the absolute error of each point.
        remedy: What the user may change, for the message.
    """
    error, (worst, worst_error) = fitted.mean_absolute_error(), fitted.worst()
    problems = []
    if error > max_error:
        problems.append(f"the mean error of the fitted points is {100 * error:.1f} %, more than {100 * max_error:g} %")
    if abs(worst_error) > max_point_error:
        problems.append(f"a point misses by more than {100 * max_point_error:g} %")
    if problems:
        raise NoFitError(
            fit_report(fitted),
            f"{name}: no fit: {', and '.join(problems)} (largest: {worst}, {100 * worst_error:+.1f} %)."
            f" {advice(fitted)} {remedy}",
        )


def advice(fitted: FitResult) -> str:
    """Return what else to measure, in words, if a fit misses: which points miss, and which factors do not vary.

    Args:
        fitted: The result of the fit.
    """
    errors = fitted.errors[fitted.fitted]
    size = errors[[f"error_{figure}" for figure in _LIMITED]].abs().max(axis=1)
    levels = {
        (name, level): size[errors[name] == level].mean() / size[errors[name] != level].mean()
        for name in ("rw", "bs_bytes", "iodepth", "numjobs")
        for level in set(errors[name])
        if errors[name].nunique() > 1
    }
    words = {"rw": "rw={}", "bs_bytes": "bs={}", "iodepth": "iodepth={}", "numjobs": "numjobs={}"}
    texts = []
    if levels:
        (name, level), ratio = max(levels.items(), key=lambda item: item[1])
        if ratio > 1.5:
            texts.append(
                f"The points with {words[name].format(level)} miss {ratio:.1f} times as much as the others:"
                " measure them again, and levels between them and the next."
            )
    lacking = [
        text
        for name, text in {
            "numjobs": "several jobs (numjobs 1 and 4)",
            "iodepth": "several depths (iodepth 1, 4 and 16)",
        }.items()
        if errors[name].nunique() == 1
    ]
    if not any("write" in rw or rw == "randrw" for rw in errors["rw"]):
        lacking.append("writes")
    if not errors["measured_p99"].notna().any():
        lacking.append("percentiles (fio's JSON output as it is)")
    if lacking:
        texts.append(
            f"The points do not have {', '.join(lacking)}, which tell costs of the host from costs of the drive."
        )
    if not (fitted.table["runtime_s"] >= 10).all():
        texts.append(
            "Measure for 10 s or more, on a block device or a file that was written completely, with direct=1."
        )
    return " ".join(texts)


def _nearest(table: pd.DataFrame, say: Callable[[str], None]) -> models.Model:
    """Return the shipped model that is nearest to the points; report the distances of this and the next model."""
    first, *others = nearest_models(table)
    text = f"Beginning at {first[0].path.stem}, whose rates and latencies differ from the points by {first[1]:.0%}"
    say(text + (f"; next: {others[0][0].path.stem}, by {others[0][1]:.0%}" if others else ""))
    return first[0]


def _propose_nearer(model: models.Model, table: pd.DataFrame, say: Callable[[str], None]) -> None:
    """Report the shipped model that is nearest to the points if it is much nearer than the user's model."""
    found = nearest_models(table)
    nearest, error = found[0]
    own = next((distance for each, distance in found if each.path == model.path), None)
    if own is not None and error < _MUCH_NEARER * own:
        say(
            f"{nearest.path.stem} begins nearer: its rates and latencies differ from the points by {error:.0%}, those"
            f" of {model.path.stem} by {own:.0%}. `twin fit {nearest.path.stem}` or `twin fit {NEAREST}` begins there."
        )


def fit_from_files(
    model: models.Model | None,
    paths: Sequence[str | Path],
    move: Sequence[str],
    output: OutputFile | None,
    root: Path,
    *,
    max_error: float = MAX_MEAN_ERROR,
    max_point_error: float = MAX_POINT_ERROR,
    held_out: float = HELD_OUT_SHARE,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    conditions: Mapping[str, float | None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> str:
    """Fit a model to points in files, as `twin fit` does; return the report.

    Args:
        model: The model with the values at which the search begins. None: the shipped model whose figures are nearest
            to the points, see `nearest_models`.
        paths: Files, folders and globs with points, see `points.read_points`. Empty: the fit that the model file
            records is repeated.
        move: Names of the parameters to fit, see `fit_model`.
        output: File for the fitted model; None to write no file.
        root: Folder to which the paths in the model file are relative.
        max_error: Limit for the mean error of the fitted points, see `check_limits`.
        max_point_error: Limit for the error of each fitted point.
        held_out: Share of the points that are held out, see `points.with_parts`.
        seed: Seed of the split and of the search.
        settings: Values that replace values of the model during the fit.
        conditions: Conditions of points that do not state them, by column: ``ramp_s``, ``runtime_s``, ``size_bytes``.
        say: Function for messages: refused points, assumptions and progress.

    Returns:
        The text of `fit_report`.

    Raises:
        NoFitError: The errors of the fitted points are above the limits. Nothing is written.
        TwinError: A file, a point or a parameter is not valid, or there is no point.
    """
    stated = {name: value for name, value in (conditions or {}).items() if value is not None}
    recorded: dict[str, Any] = {}
    if paths:
        read = points.read_points(paths)
        if model is None:
            model = _nearest(with_conditions(read.table, **stated), say)
        else:
            _propose_nearer(model, with_conditions(points.of_drive(read.table, model.name), **stated), say)
        read = points.possible_points(read, model)
        for line in [*read.refused, *read.notes]:
            say(line)
        table = with_conditions(points.with_parts(read.table, seed, held_out), **stated)
        found = fit_model(model, table, move, settings=settings, seed=seed, say=say)
        source = ", ".join(map(str, paths))
        keys = {"ramp_s": "ramp_time_s", "runtime_s": "runtime_s", "size_bytes": "region_bytes"}
        recorded = {keys[name]: value for name, value in stated.items()}
    elif model is None:
        raise TwinError(f"'{NEAREST}' chooses the model that is nearest to measured points. Give the points.")
    elif move or settings or stated:
        raise TwinError(f"{model.name}: to repeat the recorded fit, give only the model. To fit again, give points.")
    else:
        found, source = repeat_fit(model, root), str(model.fit.get("points"))
        keys_kept = ("ramp_time_s", "runtime_s", "runtimes_s", "region_bytes")
        recorded = {key: model.fit[key] for key in keys_kept if key in model.fit}
    nothing = "Nothing was written. " if output is not None else ""
    remedy = f"{nothing}Or begin at another model, or raise the limits (--most-error, --most-point-error)."
    check_limits(found, model.name, max_error, max_point_error, remedy)
    if output is not None:
        with output as temporary:
            record = fit_record(found, source, recorded)
            values = {**found.moved, **found.taken}
            models.write_fitted_model(model, temporary, values, f"twin fit to {source}", record)
    return fit_report(found)
