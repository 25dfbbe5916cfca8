"""Fits a twin to measured points: moves the parameters that it may until the model agrees, and says how well."""

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.optimize
from fio_parser_json.documents import FioParseError, read_documents

from iopatterns import _twin
from iopatterns.base import engines, files, units
from iopatterns.twin import models, streams
from iopatterns.twin.error import TwinError

_WORKLOADS = ("read", "randread", "write", "randwrite", "randrw")
# What a point may be given in, and how the unit turns a rate in requests per second into it.
_QUANTITIES = ("MB/s", "MiB/s", "IOPS", "us")
# Quantities that count one direction of a mix.
_DIRECTIONS = {"read iops": "read", "write iops": "write"}
_MOST_BYTES = 16 * 2**20
_MOST_FIO_BYTES = 256 * 2**20
_COLUMNS = ("id", "rw", "bs", "value", "unit")
# The factors that a point may have beside rw and bs: all else about its workload is fixed (see simulate()).
_FACTORS = ("numjobs", "iodepth", "rwmixread")
# Options of fio with which a job's requests are not those that simulate() makes.
_NOT_SIMULATED = (
    *("bsrange", "blocksize_range", "bssplit", "bs_unaligned", "percentage_random", "random_distribution", "zonemode"),
    *("thinktime", "rate", "rate_iops", "rate_process", "fsync", "fdatasync", "sync", "read_iolog"),
)
_REGION_BYTES = 2**30  # where the points' workloads work, as the file of the report's measurements
_RUNTIME_S = 2.0  # of each point's workload, as long as an execution of the report
_SIGNIFICANT_DIGITS = 4  # of a fitted parameter: what the last digits of a solver say is noise
# A mean absolute relative error of the fitted points above this is no fit: the shipped models stay below 0.03.
MAX_MEAN_ERROR = 0.2
_NEAR_BOUND = 0.005  # relative distance from a bound within which a parameter has stopped there
# Rate times latency (Little's law) may exceed the number of outstanding requests that a job's options allow by this
# factor, for fio counts in whole ms.
_MOST_OUTSTANDING = 1.1


class NoFitError(TwinError):
    """The best values found leave the model too far from the points. ``fit_report`` is the fit as text, as of `fit_report`."""

    exit_status = 1

    def __init__(self, report: str, message: str) -> None:
        """Keep the report beside the message."""
        super().__init__(message)
        self.report = report


@dataclass(frozen=True)
class MeasuredPoint:
    """One measured figure: a workload, and what it gave.

    ``unit`` is one of MB/s, MiB/s, IOPS or us (mean time per request); ``numjobs`` jobs each keep ``iodepth`` requests
    in flight. Of a mix (randrw) ``rwmixread`` percent of the requests are reads, and ``direction`` says whether the
    figure counts those alone, the writes alone, or (empty) both. ``predicted`` points take no part in the fit; the
    model's error on them is reported apart.
    """

    id: str
    rw: str
    bs_bytes: int
    value: float
    unit: str
    numjobs: int = 1
    iodepth: int = 1
    rwmixread: int = 50
    direction: str = ""
    predicted: bool = False

    @property
    def read_share(self) -> float:
        """How much of the workload's requests are reads."""
        return self.rwmixread / 100 if self.rw == "randrw" else float(self.rw.endswith("read"))

    @property
    def counted_share(self) -> float:
        """How much of the workload's requests the figure counts."""
        return {"read": self.read_share, "write": 1 - self.read_share}.get(self.direction, 1.0)


@dataclass(frozen=True)
class PointRun:
    """How the points' workloads run on the drive, in fio's terms.

    What was measured in the first ``ramp_time_s`` is not counted, as with fio's ramp_time; ``runtime_s`` follow.
    ``settings`` are parameters, ``group.name`` by value as in a model file, that the drive has for the fit alone, such
    as the capacity that it is cut to where it is measured.
    """

    ramp_time_s: float = 0.0
    runtime_s: float = _RUNTIME_S
    settings: Mapping[str, Any] = field(default_factory=dict)


_USUAL_RUN = PointRun()


@dataclass(frozen=True)
class FitResult:
    """A fitted model: its parameters' new values by name, and for each point the model's value in the point's unit.

    ``at_bounds`` says, by name, of which parameters the best value may lie outside what was searched, and where they
    stopped: such a value was not found, it is where the search ended. ``run`` is how the points' workloads ran.
    """

    model: models.Model
    moved: Mapping[str, int]
    points: Sequence[MeasuredPoint]
    values: Sequence[float]
    at_bounds: Mapping[str, str]
    run: PointRun = _USUAL_RUN

    def compared(self, *, predicted: bool) -> list[tuple[MeasuredPoint, float, float]]:
        """Return the points of that kind, each with the model's value and its relative error."""
        return [
            (point, value, value / point.value - 1)
            for point, value in zip(self.points, self.values, strict=True)
            if point.predicted is predicted
        ]

    def errors(self, *, predicted: bool) -> dict[str, float]:
        """Return the relative error of each point by its id: 0.05 where the model gives 5 % more than was measured."""
        return {point.id: error for point, _, error in self.compared(predicted=predicted)}

    def mean_absolute_error(self, *, predicted: bool) -> float:
        """Return the mean of the absolute relative errors; NaN without points of that kind."""
        errors = list(self.errors(predicted=predicted).values())
        return float(np.mean(np.abs(errors))) if errors else math.nan


def simulate_point(model: models.Model, point: MeasuredPoint, seed: int = 1, run: PointRun = _USUAL_RUN) -> float:
    """Return what the model gives for a point, in the point's unit. Raises TwinError where the drive is too small.

    The workload has as many requests as the point's rate makes in the run's time, of which at least a thousand are
    counted. The run's settings are for the caller to apply.
    """
    numbers = np.random.Generator(np.random.PCG64(seed))
    ramp = round(run.ramp_time_s * _per_second(point))
    requests = ramp + max(1000, round(run.runtime_s * _per_second(point)))
    region = min(_REGION_BYTES, model.size_bytes) // point.bs_bytes
    if region < point.numjobs:
        raise TwinError(f"{model.name}: point '{point.id}': the drive holds no {point.bs_bytes} bytes for each job")
    columns = streams.synthetic_requests(
        numbers,
        requests,
        bs_bytes=point.bs_bytes,
        region_bytes=region * point.bs_bytes,
        at_random=point.rw.startswith("rand"),
        read_share=point.read_share,
        numjobs=point.numjobs,
    )
    native = _twin.Replay(model.text, point.numjobs, point.iodepth, seed)
    done = [native.feed(np.empty(0, np.int64), *columns), native.finish()]
    latency_ns = np.concatenate([each for _, _, each in done])
    completed_ns = np.concatenate([each for _, each, _ in done]) + latency_ns
    # What lies in the ramp time is told by its number, so that a model that is far too fast has something to count, too
    in_order = np.argsort(completed_ns, kind="stable")
    if point.unit == "us":
        return float(latency_ns[in_order[ramp:]].mean() / 1e3)
    begin_ns = completed_ns[in_order[ramp - 1]] if ramp else 0
    per_second = (requests - ramp) / (native.end_ns - begin_ns) * 1e9
    return float(per_second * point.counted_share * _in_unit(point))


def _in_unit(point: MeasuredPoint) -> float:
    """Return a rate of one request per second in the point's unit."""
    return {"IOPS": 1.0, "MB/s": point.bs_bytes / 1e6, "MiB/s": point.bs_bytes / 2**20}[point.unit]


def _per_second(point: MeasuredPoint) -> float:
    """Return the requests per second that were measured."""
    if point.unit == "us":
        return point.numjobs * point.iodepth * 1e6 / point.value
    return point.value / point.counted_share / _in_unit(point)


def fit_model(
    model: models.Model, points: Sequence[MeasuredPoint], move: Sequence[str], run: PointRun = _USUAL_RUN
) -> FitResult:
    """Move the parameters named until the model agrees with the points that are not predicted.

    The parameters, numbers of the model by ``group.name``, move on a logarithmic scale between a tenth and ten times
    their present values, within their declared ranges, so that the squared relative errors become least
    (scipy.optimize.least_squares). The same input gives the same output. Raises TwinError for a parameter that the
    model has not or that is no number, and where there are fewer points than parameters.
    """
    measured = model.with_values(run.settings, "--set")
    start, lower, upper = _bounds(model, move)
    fitted = [point for point in points if not point.predicted]
    if len(fitted) < len(move):
        raise TwinError(
            f"{model.name}: {len(move)} parameters cannot be found from {len(fitted)} points."
            " Give more points, or fix some of the parameters."
        )

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        moved = _with(measured, move, logarithms)
        return np.array([math.log(simulate_point(moved, point, run=run) / point.value) for point in fitted])

    solution = scipy.optimize.least_squares(
        residuals,
        np.log(start),
        bounds=(np.log(lower), np.log(upper)),
        diff_step=np.array([0.002]),
        x_scale=1.0,
        xtol=1e-6,
        ftol=1e-8,
    )
    best = _with(measured, move, solution.x)
    moved = {name: int(best.number(name)) for name in move}
    values = [simulate_point(best, point, run=run) for point in points]
    return FitResult(model.replaced(moved), moved, list(points), values, _at_bounds(moved, start, lower, upper), run)


def _at_bounds(
    moved: Mapping[str, int], start: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> dict[str, str]:
    """Return where the parameters ended that ended at a bound of the search, by name, in words."""
    ended = {}
    for (name, value), began, least, most in zip(moved.items(), start, lower, upper, strict=True):
        for bound, declared, factor in ((least, "least", "a tenth of"), (most, "most", "ten times")):
            if abs(math.log(value / bound)) <= _NEAR_BOUND:
                own = math.isclose(bound, began / 10) or math.isclose(bound, began * 10)
                ended[name] = f"{factor} the value it began with" if own else f"the {declared} that it may be"
    return ended


def _bounds(model: models.Model, move: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
    start, lower, upper = [], [], []
    for name in move:
        if name not in model.values:
            raise TwinError(f"{model.name}: no parameter '{name}' to move.{models.did_you_mean(name, model.values)}")
        declared = models.declared_parameters()[name]
        if declared["kind"] != "number":
            raise TwinError(f"{model.name}: '{name}' is no number, and cannot be moved")
        value = float(model.number(name))
        if value <= 0:
            raise TwinError(f"{model.name}: '{name}' is {value:g}: begin with a value above 0")
        start.append(value)
        lower.append(max(value / 10, declared["minimum"], 1))
        upper.append(min(value * 10, declared["maximum"]))
    return start, lower, upper


def _with(model: models.Model, move: Sequence[str], logarithms: np.ndarray) -> models.Model:
    return model.replaced({name: _rounded(math.exp(x)) for name, x in zip(move, logarithms, strict=True)})


def _rounded(value: float) -> int:
    digits = _SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(value))
    return round(round(value, digits))


def read_points(path: Path) -> list[MeasuredPoint]:
    """Return the points of a table (``.csv``) or of a fio JSON file.

    A table has the columns id, rw, bs, value and unit, and may have numjobs, iodepth, rwmixread, conditions (these
    three as published values write them: ``numjobs=16; iodepth=4``), quantity (``read iops`` and ``write iops`` count
    one direction of a mix) and use (``fit_model`` or ``predict``). Of a fio file each section of the job file and direction
    gives a point: the IOPS of all its jobs together. Raises TwinError naming file and line, also for a point under a
    condition that the fit cannot simulate.
    """
    return _read_table(path) if path.suffix == ".csv" else _read_fio(path)


def _read_table(path: Path) -> list[MeasuredPoint]:
    try:
        text = files.read_bounded(path, _MOST_BYTES).decode()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [column for column in _COLUMNS if column not in (reader.fieldnames or [])]
        if missing:
            raise TwinError(f"{path}, line 1: no column '{missing[0]}'. Needed: {', '.join(_COLUMNS)}.")
        return [_point(row, f"{path}, line {reader.line_num}") for row in reader]
    except FileNotFoundError:
        raise TwinError(f"{path}: not readable as a table of points: there is no such file") from None
    except (files.UnreadableError, UnicodeDecodeError, csv.Error) as error:
        raise TwinError(f"{path}: not readable as a table of points: {error}") from None


def _point(row: Mapping[str, str], where: str) -> MeasuredPoint:
    row = {**row, **_conditions(row.get("conditions") or "", where)}
    try:
        point = MeasuredPoint(
            id=row["id"],
            rw=row["rw"],
            bs_bytes=units.parse_size(row["bs"] or ""),
            value=float(row["value"] or ""),
            unit=row["unit"],
            numjobs=int(row.get("numjobs") or 1),
            iodepth=int(row.get("iodepth") or 1),
            rwmixread=int(row.get("rwmixread") or 50),
            direction=_DIRECTIONS.get(row.get("quantity") or "", ""),
            predicted=(row.get("use") or "fit") == "predict",
        )
    except ValueError as error:
        raise TwinError(f"{where}: {error}") from None
    return _checked(point, where)


def _conditions(text: str, where: str) -> dict[str, str]:
    """Return the factors that the column ``conditions`` of published values names, such as ``numjobs=16``.

    Raises TwinError for a factor that no workload of the fit has: a point measured under it would be compared with
    another workload than its own.
    """
    pairs = [pair.strip().partition("=") for pair in text.split(";") if pair.strip()]
    for factor, _, level in pairs:
        if factor not in _FACTORS or not level:
            raise TwinError(
                f"{where}: the condition '{factor}={level}' cannot be simulated by a fit, which varies rw, bs and"
                f" {', '.join(_FACTORS)} alone. Leave this point out."
            )
    return {factor: level for factor, _, level in pairs}


def _checked(point: MeasuredPoint, where: str) -> MeasuredPoint:
    if point.rw not in _WORKLOADS:
        raise TwinError(f"{where}: no workload '{point.rw}'. Valid: {', '.join(_WORKLOADS)}.")
    if point.unit not in _QUANTITIES:
        raise TwinError(f"{where}: no unit '{point.unit}'. Valid: {', '.join(_QUANTITIES)}.")
    if (
        not 0 < point.value < math.inf
        or point.bs_bytes <= 0
        or point.bs_bytes % 512
        or point.numjobs < 1
        or point.iodepth < 1
    ):
        raise TwinError(f"{where}: value, bs (of whole sectors), numjobs and iodepth must be more than 0")
    if not 0 <= point.rwmixread <= 100 or point.counted_share == 0:
        raise TwinError(f"{where}: rwmixread is {point.rwmixread}, but must be from 0 to 100, and give what is counted")
    if point.direction and point.unit == "us":
        raise TwinError(f"{where}: the time per request of one direction of a mix cannot be fitted. Give its rate.")
    return point


def _read_fio(path: Path) -> list[MeasuredPoint]:
    try:
        files.read_bounded(path, _MOST_FIO_BYTES)  # what is no plain file would be read without end
        documents = read_documents(path)
    except FileNotFoundError:
        raise TwinError(f"{path}: there is no such file") from None
    except (FioParseError, files.UnreadableError, OSError) as error:
        raise TwinError(f"{path}: {error}") from None
    points = []
    for document in documents:
        shared = _global_options(document.data)
        sections: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for job in document.jobs:
            name = (job.get("hostname"), job.get("groupid"), job["jobname"])
            sections.setdefault(name, []).append(job)
        _check_alone(path, sections)
        for jobs in sections.values():
            try:
                points += _fio_points(path, jobs, {**shared, **jobs[0].get("job options", {})})
            except ValueError as error:
                raise TwinError(f"{path}, job {jobs[0]['jobname']}: {error}") from None
    if not points:
        raise TwinError(f"{path}: no job that reads or writes in it")
    return points


def _check_alone(path: Path, sections: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]]) -> None:
    """Raise TwinError where two sections of a job file ran at the same time: a fit simulates each by itself.

    fio begins a new group at ``stonewall``; what waits for another job by ``wait_for`` does not run beside it.
    """
    beside: dict[tuple[Any, ...], str] = {}
    for (host, group, name), jobs in sections.items():
        if group is None or "wait_for" in jobs[0].get("job options", {}):
            continue
        other = beside.setdefault((host, group), name)
        if other != name:
            raise TwinError(
                f"{path}: the jobs {other} and {name} ran at the same time (fio's group {group}), but a fit simulates"
                " each by itself. Put 'stonewall' between them and measure again, or give one of them."
            )


def _global_options(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that all jobs share; fio writes them as a mapping, or as a list of them."""
    options = document.get("global options", {})
    return {key: value for part in (options if isinstance(options, list) else [options]) for key, value in part.items()}


def _fio_points(path: Path, jobs: Sequence[Mapping[str, Any]], options: Mapping[str, str]) -> list[MeasuredPoint]:
    """Return the points of one section of a job file, of which fio wrote ``jobs``; raises also ValueError.

    These are one for all of its jobs (``group_reporting``), or one for each, which ran side by side: then their rates
    add up. Which of the two it is shows in their number alone, for fio before 3.39 does not write that option.
    """
    rw = options.get("rw") or options.get("readwrite") or "read"
    where = f"{path}, job {jobs[0]['jobname']}"
    for option in _NOT_SIMULATED:
        if options.get(option) not in {None, "0", "none"}:
            raise TwinError(
                f"{where}: its option {option}={options[option]} cannot be simulated by a fit, which varies rw, bs and"
                f" {', '.join(_FACTORS)} alone. Leave this job out."
            )
    numjobs = int(options.get("numjobs", 1))
    asynchronous = options.get("ioengine") in engines.ASYNCHRONOUS_ENGINES
    iodepth = int(options.get("iodepth", 1)) if asynchronous else 1
    if len(jobs) not in {1, numjobs}:
        raise TwinError(
            f"{where}: {len(jobs)} results of that name, but numjobs={numjobs}, which gives one of each job, or one"
            " of all with group_reporting. Give each section a name of its own, or the points as a table."
        )
    results = {direction: [job.get(direction, {}) for job in jobs] for direction in ("read", "write")}
    outstanding = sum(
        (result.get("iops") or 0) * (result.get("lat_ns", {}).get("mean") or 0) / 1e9
        for each in results.values()
        for result in each
    )
    if outstanding > numjobs * iodepth * _MOST_OUTSTANDING:
        raise TwinError(
            f"{where}: its rate and latency say that {outstanding:.1f} requests were outstanding (Little's law), but"
            f" its options allow {numjobs * iodepth} (numjobs={numjobs}, ioengine={options.get('ioengine', 'psync')})."
            " Does it hold several sections in one group, or an engine that is not"
            f" {' or '.join(engines.ASYNCHRONOUS_ENGINES)}? Give the points as a table, with their numjobs and iodepth."
        )
    found = []
    for direction, each in results.items():
        iops = math.fsum(float(result.get("iops") or 0) for result in each)
        if not iops or rw not in _WORKLOADS:
            continue
        point = MeasuredPoint(
            id=f"{path.name}:{jobs[0]['jobname']}:{direction}",
            rw=rw,
            bs_bytes=units.parse_size(options.get("bs") or options.get("blocksize") or "4k"),
            value=iops,
            unit="IOPS",
            numjobs=numjobs,
            iodepth=iodepth,
            rwmixread=int(options.get("rwmixread", 50)),
            direction=direction if rw == "randrw" else "",
        )
        found.append(_checked(point, where))
    return found


def published_points(root: Path, recipe: Mapping[str, Any]) -> list[MeasuredPoint]:
    """Return the points that a model's own ``fit_model`` section names by their ids in a table of published values."""
    path = root / recipe["points"]
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    points = []
    for use in ("fitted", "predicted"):
        for name in recipe.get(use, {}):
            if name not in rows:
                raise TwinError(f"{path}: no value with the id '{name}', which the model's fit names")
            row = rows[name]
            point = _point(row, f"{path}: {name}")
            points.append(replace(point, predicted=use == "predicted"))
    return points


def fit_report(fitted: FitResult) -> str:
    """Return the fit as text for people: parameters moved, each point with the model's value and error."""
    lines = ["Moved:"]
    for name, moved in fitted.moved.items():
        lines.append(f"  {name:<34} {models.format_value(name, moved)}")
        if name in fitted.at_bounds:
            lines.append(
                f"    It ended at the bound of the search, {fitted.at_bounds[name]}: no value was found for it."
            )
    for predicted, title in ((False, "Fitted"), (True, "Predicted")):
        compared = fitted.compared(predicted=predicted)
        if compared:
            error = fitted.mean_absolute_error(predicted=predicted)
            lines.append(f"{title} (mean absolute error {100 * error:.1f} %):")
        lines += [
            f"  {point.id:<40} {point.value:>9.4g} {point.unit:<5} model {value:>9.4g}  {100 * error:+6.1f} %"
            for point, value, error in compared
        ]
    return "\n".join(lines)


def recorded_run(recipe: Mapping[str, Any]) -> PointRun:
    """Return how the points' workloads ran in the fit that a model file records."""
    return PointRun(recipe.get("ramp_time_s", 0.0), recipe.get("runtime_s", _RUNTIME_S), recipe.get("set", {}))


def fit_record(fitted: FitResult, points_source: str) -> dict[str, Any]:
    """Return the ``fit_model`` section that goes into the model file: where the points are, and how well the model does."""

    def rows(predicted: bool) -> dict[str, str]:
        return {
            point.id: f"measured {point.value:g} {point.unit}, model {value:.4g}, error {100 * error:+.1f} %"
            for point, value, error in fitted.compared(predicted=predicted)
        }

    section: dict[str, Any] = {"points": points_source}
    if fitted.run.settings:
        section["set"] = dict(fitted.run.settings)
    if fitted.run.ramp_time_s:
        section["ramp_time_s"] = fitted.run.ramp_time_s
    if fitted.run.runtime_s != _RUNTIME_S:
        section["runtime_s"] = fitted.run.runtime_s
    section |= {"moved": list(fitted.moved), "fitted": rows(False)}
    if rows(True):
        section["predicted"] = rows(True)
    if fitted.at_bounds:
        section["at_bounds"] = dict(fitted.at_bounds)
    return section


def fit_from_files(
    model: models.Model,
    tables: Sequence[Path],
    move: Sequence[str],
    output: Path | None,
    root: Path,
    *,
    most_error: float = MAX_MEAN_ERROR,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Do what `twin fit` does: fit, write the fitted model where one is wanted, and return the report.

    Without tables and parameters the fit that the model's own file records is repeated, its points read below ``root``.
    ``given`` is what is said of the run, by the names of that record (see `recorded_run`), and goes before what is recorded.
    Raises NoFitError, and writes nothing, where the mean absolute relative error of the fitted points is above
    ``most_error``; TwinError.
    """
    if not tables and not move:
        if not model.fit:
            raise TwinError(f"{model.name}: its file records no fit to repeat. Give --points and --move.")
        points = published_points(root, model.fit)
        move, source = model.fit["moved"], model.fit["points"]
    elif tables and move:
        points = [point for table in tables for point in read_points(table)]
        source = ", ".join(map(str, tables))
    else:
        raise TwinError("--points and --move belong together: what was measured, and which parameters may move")
    found = fit_model(model, points, move, recorded_run({**({} if tables else model.fit), **given}))
    error = found.mean_absolute_error(predicted=False)
    if error > most_error:
        worst = max(found.errors(predicted=False).items(), key=lambda each: abs(each[1]))
        raise NoFitError(
            fit_report(found),
            f"{model.name}: no fit: with the best values found, the model is {100 * error:.1f} % off the fitted points"
            f" in the mean, more than {100 * most_error:g} % (most at {worst[0]}, {100 * worst[1]:+.1f} %)."
            f" {'Nothing was written. ' if output is not None else ''}Other parameters must move too (--move), or a"
            " point is not what it says it is. --most-error takes another limit.",
        )
    if output is not None:
        models.write_fitted_model(model, output, found.moved, f"twin fit to {source}", fit_record(found, source))
    return fit_report(found)
