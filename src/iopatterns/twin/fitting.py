"""Fit the parameters of a simulated drive to measured points.

A point is a workload and the rate or latency that was measured for it. A fit changes parameters of the model, which
describes the drive, until the simulated workloads give the measured values as nearly as possible. Points that are held
out do not take part in the fit; they show how well the fitted model predicts.
"""

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
from iopatterns.base.ownership import OutputFile
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.twin import models, streams
from iopatterns.twin.error import TwinError

_WORKLOADS = ("read", "randread", "write", "randwrite", "randrw")
_UNITS = ("MB/s", "MiB/s", "IOPS", "us")
# Quantities that count one direction of a mixed workload
_DIRECTIONS = {"read iops": "read", "write iops": "write"}
_MAX_TABLE_BYTES = 16 * 2**20
_MAX_FIO_BYTES = 256 * 2**20
_COLUMNS = ("id", "rw", "bs", "value", "unit")
# The factors of a point beside rw and bs; simulate_point() fixes everything else about the workload
_FACTORS = ("numjobs", "iodepth", "rwmixread")
# Options of fio whose effect on the requests simulate_point() does not simulate
_NOT_SIMULATED = (
    *("bsrange", "blocksize_range", "bssplit", "bs_unaligned", "percentage_random", "random_distribution", "zonemode"),
    *("thinktime", "rate", "rate_iops", "rate_process", "fsync", "fdatasync", "sync", "read_iolog"),
)
_REGION_BYTES = 2**30  # accessed part of the drive; as large as the file of most measurements of the report
_RUNTIME_S = 2.0  # simulated time of each point; as long as a repetition of the report
_FEW_OFFSETS = 0.5  # random offsets, as a share of the blocks, that may be drawn independently of each other
_SIGNIFICANT_DIGITS = 4  # of a fitted parameter; further digits of the solver are noise
# Largest mean absolute relative error of a fit; the shipped models have less than 0.03
MAX_MEAN_ERROR = 0.2
_NEAR_BOUND = 0.005  # relative distance below which a parameter counts as being at a bound
# Rate times latency (Little's law) may exceed the outstanding requests that a job's options allow by this factor,
# because fio counts in whole milliseconds
_OUTSTANDING_TOLERANCE = 1.1


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
class MeasuredPoint:
    """Workload, and the rate or latency that was measured for it.

    Attributes:
        id: Name of the point.
        rw: Kind of workload as in fio: read, randread, write, randwrite or randrw.
        bs_bytes: Size of each request; a multiple of 512.
        value: The measured rate, or mean time per request; above 0.
        unit: Unit of the value: MB/s, MiB/s or IOPS for a rate, us for a time.
        numjobs: Number of concurrent jobs.
        iodepth: Number of requests that each job keeps outstanding.
        rwmixread: Percentage of reads in a mixed workload (randrw), from 0 to 100. It has no effect on other workloads.
        direction: ``read`` or ``write`` if the value counts only the reads or only the writes of a mixed workload;
            otherwise empty.
        predicted: Whether the point is held out: the fit ignores it, and its error is reported separately.
        runtime_s: Simulated time of the measurement; None for the time of the other points (`PointRun.runtime_s`).
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
    runtime_s: float | None = None

    @property
    def read_share(self) -> float:
        """Share of the workload's requests that are reads, from 0 to 1."""
        return self.rwmixread / 100 if self.rw == "randrw" else float(self.rw.endswith("read"))

    @property
    def counted_share(self) -> float:
        """Share of the workload's requests that the measured value counts, from 0 to 1.

        The share is 1 unless the value counts only the reads or only the writes of a mixed workload.
        """
        return {"read": self.read_share, "write": 1 - self.read_share}.get(self.direction, 1.0)


@dataclass(frozen=True)
class PointRun:
    """Conditions under which a fit simulates the workloads of the points.

    A point is a workload and the rate or latency that was measured for it.

    Attributes:
        ramp_time_s: Simulated time that passes before the measurement begins, as with fio's ramp_time.
        runtime_s: Simulated time of the measurement.
        settings: Values that replace values of the model during the fit, by parameter and as in a model file:
            ``{"capacity.size": "4 GiB"}`` if the points were measured on that part of the drive. The fitted model does
            not contain these values.
        region_bytes: Size of the part of the drive that the workloads access, from its start. A larger size than the
            drive stands for all of the drive.
    """

    ramp_time_s: float = 0.0
    runtime_s: float = _RUNTIME_S
    settings: Mapping[str, Any] = field(default_factory=dict)
    region_bytes: int = _REGION_BYTES


_DEFAULT_RUN = PointRun()


@dataclass(frozen=True)
class FitResult:
    """Fitted model of a drive, and the simulated value for each point.

    A point is a workload and the rate or latency that was measured for it. A held-out point takes no part in the fit.

    Attributes:
        model: The model with the fitted parameters.
        moved: Values of the fitted parameters by ``group.name``, in the units of `models.Model.values`.
        points: The points, including held-out points.
        values: The simulated value for each point, in the order of ``points`` and in the unit of the point.
        at_bounds: The fitted parameters that ended at a bound of the search. The value says which bound, such as ``ten
            times its initial value``; the key is ``group.name``. The best value of such a parameter may be beyond the
            bound.
        run: The conditions under which the workloads of the points were simulated.
    """

    model: models.Model
    moved: Mapping[str, int]
    points: Sequence[MeasuredPoint]
    values: Sequence[float]
    at_bounds: Mapping[str, str]
    run: PointRun = _DEFAULT_RUN

    def compared(self, *, predicted: bool) -> list[tuple[MeasuredPoint, float, float]]:
        """Return the measured and the simulated values of the points, with their errors.

        Args:
            predicted: True for the held-out points, which took no part in the fit. False for the fitted points.

        Returns:
            A tuple for each point, in the order of ``points``: the point, the simulated value in the unit of the point,
            and the relative error. An error of 0.05 means that the simulated value is 5 % above the measured value.
        """
        return [
            (point, value, value / point.value - 1)
            for point, value in zip(self.points, self.values, strict=True)
            if point.predicted is predicted
        ]

    def mean_absolute_error(self, *, predicted: bool) -> float:
        """Return the mean of the absolute relative errors of the points.

        A result of 0.05 means that the simulated values are 5 % above or below the measured values on average. The
        result is NaN if there are no points.

        Args:
            predicted: True for the held-out points, which took no part in the fit. False for the fitted points.
        """
        errors = [error for _, _, error in self.compared(predicted=predicted)]
        return float(np.mean(np.abs(errors))) if errors else math.nan


def simulate_point(model: models.Model, point: MeasuredPoint, seed: int = 1, run: PointRun = _DEFAULT_RUN) -> float:
    """Simulate the workload of a point; return its rate or mean time per request.

    The number of simulated requests follows from the measured value. Requests of the ramp time come first and are not
    counted; their number is the measured rate times the ramp time. The number of counted requests is the measured rate
    times the runtime, but at least a thousand.

    Args:
        model: The model of the drive.
        point: The point: a workload and the rate or latency that was measured for it. The measured value only
            determines the number of requests.
        seed: Seed of the offsets and operations, and of the drive's random numbers.
        run: Ramp time, runtime and region. The attribute ``settings`` is ignored: the caller applies the settings to
            the model.

    Returns:
        The simulated value in the unit of the point.

    Raises:
        TwinError: The drive is too small for one request per job.
    """
    ramp = round(run.ramp_time_s * _requests_per_second(point))
    runtime_s = run.runtime_s if point.runtime_s is None else point.runtime_s
    requests = ramp + max(1000, round(runtime_s * _requests_per_second(point)))
    region = min(run.region_bytes, model.size_bytes) // point.bs_bytes
    if region < point.numjobs:
        raise TwinError(
            f"{model.name}: point '{point.id}': the drive has less than {point.bs_bytes} bytes for each job"
        )
    columns = streams.synthetic_requests(
        np.random.Generator(np.random.PCG64(seed)),
        requests,
        bs_bytes=point.bs_bytes,
        region_bytes=region * point.bs_bytes,
        at_random=point.rw.startswith("rand"),
        read_share=point.read_share,
        numjobs=point.numjobs,
        each_once=requests > _FEW_OFFSETS * region,
    )
    native = _twin.Replay(model.text, point.numjobs, point.iodepth, seed)
    done = [native.feed(np.empty(0, np.int64), *columns), native.finish()]
    latency_ns = np.concatenate([each for _, _, each in done])
    completed_ns = np.concatenate([each for _, each, _ in done]) + latency_ns
    # the ramp time is a number of requests, so that requests remain to be counted if the model is far too fast
    in_order = np.argsort(completed_ns, kind="stable")
    if point.unit == "us":
        return float(latency_ns[in_order[ramp:]].mean() / 1e3)
    begin_ns = completed_ns[in_order[ramp - 1]] if ramp else 0
    per_second = (requests - ramp) / (native.end_ns - begin_ns) * 1e9
    return float(per_second * point.counted_share * _unit_per_iops(point))


def _unit_per_iops(point: MeasuredPoint) -> float:
    """Return how much one request per second is in the unit of a point's rate.

    For example, with requests of 1 MB and the unit MB/s the result is 1.
    """
    return {"IOPS": 1.0, "MB/s": point.bs_bytes / 1e6, "MiB/s": point.bs_bytes / 2**20}[point.unit]


def _requests_per_second(point: MeasuredPoint) -> float:
    """Return the measured rate of a point as requests per second.

    Reads and writes both count, even if the value counts one direction only. A time per request is converted by
    Little's law: outstanding requests divided by the time.
    """
    if point.unit == "us":
        return point.numjobs * point.iodepth * 1e6 / point.value
    return point.value / point.counted_share / _unit_per_iops(point)


def fit_model(
    model: models.Model, points: Sequence[MeasuredPoint], move: Sequence[str], run: PointRun = _DEFAULT_RUN
) -> FitResult:
    """Fit parameters of a model to the points that are not held out.

    The error of a point is the logarithm of the ratio of the simulated value to the measured value. The fit minimizes
    the sum of the squared errors with scipy.optimize.least_squares. Each parameter is searched between a tenth of its
    initial value and ten times that value, within its valid range. Fitted values are rounded to four significant digits
    and to whole units. The same arguments always give the same result.

    Args:
        model: The model, with the values at which the search begins.
        points: The measured points, including held-out points. A point is a workload and the rate or latency that was
            measured for it.
        move: Names of the numeric parameters to fit, as ``group.name``: ``["controller.read_command_time"]``.
        run: The conditions under which the workloads of the points are simulated.

    Returns:
        The fitted model, and the simulated value for each point, held-out points included. The caller decides whether
        the errors are small enough.

    Raises:
        TwinError: A parameter does not exist or its initial value is not a number above 0, a setting of ``run`` is not
            valid, or the points that are not held out are fewer than the parameters.
    """
    measured = model.with_values(run.settings, "--set")
    start, lower, upper = _bounds(model, move)
    fitted = [point for point in points if not point.predicted]
    if len(fitted) < len(move):
        raise TwinError(
            f"{model.name}: {len(fitted)} points are too few to fit {len(move)} parameters. Give more points, or fit"
            " fewer parameters."
        )

    def residuals(logarithms: np.ndarray) -> np.ndarray:
        moved = _with_rounded(measured, move, logarithms)
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
    best = _with_rounded(measured, move, solution.x)
    moved = {name: int(best.number(name)) for name in move}
    values = [simulate_point(best, point, run=run) for point in points]
    return FitResult(model.replaced(moved), moved, list(points), values, _at_bounds(moved, start, lower, upper), run)


def _at_bounds(
    moved: Mapping[str, int], start: Sequence[float], lower: Sequence[float], upper: Sequence[float]
) -> dict[str, str]:
    """Return the fitted parameters that ended at a bound of the search.

    The last three arguments are in the order of ``moved``.

    Args:
        moved: Fitted values by ``group.name``.
        start: Initial values.
        lower: Lower bounds of the search.
        upper: Upper bounds of the search.

    Returns:
        The bound in words by ``group.name``, such as ``ten times its initial value``.
    """
    ended = {}
    for (name, value), initial, low, high in zip(moved.items(), start, lower, upper, strict=True):
        for bound, declared, factor in ((low, "smallest", "a tenth of"), (high, "largest", "ten times")):
            if abs(math.log(value / bound)) <= _NEAR_BOUND:
                relative = math.isclose(bound, initial / 10) or math.isclose(bound, initial * 10)
                ended[name] = f"{factor} its initial value" if relative else f"the {declared} valid value"
    return ended


def _bounds(model: models.Model, move: Sequence[str]) -> tuple[list[float], list[float], list[float]]:
    """Return initial values, lower bounds and upper bounds for a search.

    Each list has one element per parameter, in the order of ``move``. The bounds are a tenth of the initial value and
    ten times that value, within the valid range of the parameter.

    Args:
        model: The model with the initial values.
        move: Names of the parameters to fit, as ``group.name``.

    Raises:
        TwinError: A parameter does not exist, or is not a positive number.
    """
    start, lower, upper = [], [], []
    for name in move:
        if name not in model.values:
            raise TwinError(f"{model.name}: no parameter '{name}' to fit.{did_you_mean(name, model.values)}")
        declared = models.declared_parameters()[name]
        if declared["kind"] != "number":
            raise TwinError(f"{model.name}: cannot fit '{name}': it is not a number")
        value = float(model.number(name))
        if value <= 0:
            raise TwinError(f"{model.name}: cannot fit '{name}': its initial value is {value:g}, but must be above 0")
        start.append(value)
        lower.append(max(value / 10, declared["minimum"], 1))
        upper.append(min(value * 10, declared["maximum"]))
    return start, lower, upper


def _with_rounded(model: models.Model, move: Sequence[str], logarithms: np.ndarray) -> models.Model:
    """Return the model with parameters set to rounded values.

    Args:
        model: The model.
        move: Names of the parameters, as ``group.name``.
        logarithms: Natural logarithms of the values, in the order of ``move``. The values are rounded to four
            significant digits and to whole units.
    """
    values = [math.exp(x) for x in logarithms]
    digits = [_SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(value)) for value in values]
    rounded = [round(round(value, places)) for value, places in zip(values, digits, strict=True)]
    return model.replaced(dict(zip(move, rounded, strict=True)))


def read_points(path: Path) -> list[MeasuredPoint]:
    """Read measured points from a CSV table or from fio's JSON output.

    A point is a workload and the rate or latency that was measured for it. A table (``.csv``) has the columns id, rw,
    bs (such as ``4k``), value and unit, see `MeasuredPoint`. Optional columns:

    - numjobs, iodepth and rwmixread.
    - conditions: numjobs, iodepth and rwmixread as one text, such as ``numjobs=16; iodepth=4``.
    - quantity: ``read iops`` or ``write iops`` if the value counts one direction of a mixed workload.
    - use: ``fit`` (the default), or ``predict`` for a held-out point.

    A file without the ending ``.csv`` is read as fio's output. Each section of the job file gives up to two points: one
    for its reads and one for its writes. The value of a point is the total IOPS of all jobs of the section.

    Returns:
        The points in the order of the file. A table may have none; fio's output without points is an error.

    Raises:
        TwinError: The file cannot be read, or a point cannot be simulated. The message names the file, and the line of
            the table or the job of fio.
    """
    return _read_table(path) if path.suffix == ".csv" else _read_fio(path)


def _read_table(path: Path) -> list[MeasuredPoint]:
    try:
        text = files.read_bounded(path, _MAX_TABLE_BYTES).decode()
        reader = csv.DictReader(io.StringIO(text, newline=""))
        missing = [column for column in _COLUMNS if column not in (reader.fieldnames or [])]
        if missing:
            raise TwinError(f"{path}, line 1: no column '{missing[0]}'. Required: {', '.join(_COLUMNS)}.")
        return [_point_of_row(row, f"{path}, line {reader.line_num}") for row in reader]
    except (FileNotFoundError, files.UnreadableError, UnicodeDecodeError, csv.Error) as error:
        problem = getattr(error, "strerror", None) or error
        raise TwinError(f"{path}: not readable as a table of points: {problem}") from None


def _point_of_row(row: Mapping[str, str], where: str) -> MeasuredPoint:
    row = {**row, **_parse_conditions(row.get("conditions") or "", where)}
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
    _check_point(point, where)
    return point


def _parse_conditions(text: str, where: str) -> dict[str, str]:
    """Return the names and values in a text such as ``numjobs=16; iodepth=4``.

    Tables of published values have a column ``conditions`` with such texts.

    Args:
        text: The text.
        where: File and line, for error messages.

    Raises:
        TwinError: A name is none of numjobs, iodepth and rwmixread. The fit would compare the point with a different
            workload.
    """
    pairs = [pair.strip().partition("=") for pair in text.split(";") if pair.strip()]
    for factor, _, level in pairs:
        if factor not in _FACTORS or not level:
            raise TwinError(
                f"{where}: the condition '{factor}={level}' cannot be simulated by a fit, which varies only rw, bs and"
                f" {', '.join(_FACTORS)}. Leave this point out."
            )
    return {factor: level for factor, _, level in pairs}


def _check_point(point: MeasuredPoint, where: str) -> None:
    """Raise TwinError for a point that cannot be simulated.

    Args:
        point: The point.
        where: File and line, with which error messages begin.
    """
    if point.rw not in _WORKLOADS:
        raise TwinError(f"{where}: rw is '{point.rw}'. Valid: {', '.join(_WORKLOADS)}.")
    if point.unit not in _UNITS:
        raise TwinError(f"{where}: unit is '{point.unit}'. Valid: {', '.join(_UNITS)}.")
    if not 0 < point.value < math.inf or min(point.bs_bytes, point.numjobs, point.iodepth) < 1 or point.bs_bytes % 512:
        raise TwinError(f"{where}: value, bs, numjobs and iodepth must be above 0, and bs a multiple of 512 bytes")
    if not 0 <= point.rwmixread <= 100:
        raise TwinError(f"{where}: rwmixread is {point.rwmixread}, but must be from 0 to 100")
    if point.counted_share == 0:
        raise TwinError(
            f"{where}: the value counts the direction {point.direction}, which rwmixread={point.rwmixread} excludes"
        )
    if point.direction and point.unit == "us":
        raise TwinError(
            f"{where}: cannot fit the time per request of one direction of a mixed workload. Give its rate."
        )


def _read_fio(path: Path) -> list[MeasuredPoint]:
    try:
        files.read_bounded(path, _MAX_FIO_BYTES)  # refuses pipes and devices, from which reading may never end
        documents = read_documents(path)
    except FioParseError as error:  # its message names the file
        raise TwinError(str(error)) from None
    except (files.UnreadableError, OSError) as error:
        raise TwinError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    points = []
    for document in documents:
        shared = _global_options(document.data)
        sections: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for job in document.jobs:
            name = (job.get("hostname"), job.get("groupid"), job["jobname"])
            sections.setdefault(name, []).append(job)
        _check_not_concurrent(path, sections)
        for jobs in sections.values():
            try:
                points += _fio_points(path, jobs, {**shared, **jobs[0].get("job options", {})})
            except ValueError as error:
                raise TwinError(f"{path}, job {jobs[0]['jobname']}: {error}") from None
    if not points:
        raise TwinError(f"{path}: no job in it reads or writes")
    return points


def _check_not_concurrent(path: Path, sections: Mapping[tuple[Any, ...], Sequence[Mapping[str, Any]]]) -> None:
    """Raise TwinError if two sections of fio's job file ran at the same time.

    A fit simulates each section alone. Sections of one group run at the same time, except for sections with the option
    ``wait_for``. fio begins a new group at the option ``stonewall``.

    Args:
        path: fio's JSON file, for error messages.
        sections: Results of each section, by host, number of the group, and name.
    """
    first_names: dict[tuple[Any, ...], str] = {}
    for (host, group, name), jobs in sections.items():
        if group is None or "wait_for" in jobs[0].get("job options", {}):
            continue
        other = first_names.setdefault((host, group), name)
        if other != name:
            raise TwinError(
                f"{path}: the jobs {other} and {name} ran at the same time (fio's group {group}), but a fit simulates"
                " each job alone. Put 'stonewall' between them and measure again, or give only one of them."
            )


def _global_options(document: Mapping[str, Any]) -> dict[str, str]:
    """Return the options that all jobs in fio's JSON output share.

    The key ``global options`` holds a mapping, or a list of mappings.

    Args:
        document: fio's JSON output.
    """
    options = document.get("global options", {})
    return {key: value for part in (options if isinstance(options, list) else [options]) for key, value in part.items()}


def _fio_points(path: Path, jobs: Sequence[Mapping[str, Any]], options: Mapping[str, str]) -> list[MeasuredPoint]:
    """Return the points of one section of fio's job file.

    Args:
        path: fio's JSON file, for error messages.
        jobs: The results of the section: one for each job, or a single result for all jobs (``group_reporting``). The
            number of results decides which, because fio before 3.39 does not write that option. The rates of several
            jobs are added.
        options: The options of the section.

    Returns:
        A point in IOPS for the reads and another for the writes, if there are any.

    Raises:
        TwinError: The section cannot be simulated.
        ValueError: An option is not a number or a size.
    """
    rw = options.get("rw") or options.get("readwrite") or "read"
    where = f"{path}, job {jobs[0]['jobname']}"
    for option in _NOT_SIMULATED:
        if options.get(option) not in {None, "0", "none"}:
            raise TwinError(
                f"{where}: its option {option}={options[option]} cannot be simulated by a fit, which varies only rw,"
                f" bs and {', '.join(_FACTORS)}. Leave this job out."
            )
    numjobs = int(options.get("numjobs", 1))
    asynchronous = options.get("ioengine") in engines.ASYNCHRONOUS_ENGINES
    iodepth = int(options.get("iodepth", 1)) if asynchronous else 1
    if len(jobs) not in {1, numjobs}:
        raise TwinError(
            f"{where}: {len(jobs)} results have this name, but numjobs={numjobs} gives {numjobs} results, or one with"
            " group_reporting. Give each section a name of its own, or give the points as a table."
        )
    results = {direction: [job.get(direction, {}) for job in jobs] for direction in ("read", "write")}
    outstanding = sum(
        (result.get("iops") or 0) * (result.get("lat_ns", {}).get("mean") or 0) / 1e9
        for each in results.values()
        for result in each
    )
    if outstanding > numjobs * iodepth * _OUTSTANDING_TOLERANCE:
        raise TwinError(
            f"{where}: by its rate and latency, {outstanding:.1f} requests were outstanding (Little's law), but its"
            f" options allow {numjobs * iodepth} (numjobs={numjobs}, ioengine={options.get('ioengine', 'psync')})."
            " Possible causes: several sections in one group, or an engine other than"
            f" {' or '.join(engines.ASYNCHRONOUS_ENGINES)}. Give the points as a table with numjobs and iodepth."
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
        _check_point(point, where)
        found.append(point)
    return found


def published_points(root: Path, recipe: Mapping[str, Any]) -> list[MeasuredPoint]:
    """Return the points of a fit that a model file records.

    A point is a workload and the rate or latency that was measured for it. The section ``fit`` of a model file records
    how the model was fitted. These keys of the section determine the points:

    - ``points``: path of a CSV table of published values, such as ``data/published/saif2020/values.csv``.
    - ``fitted``: a mapping whose keys are the ids of the rows that become fitted points.
    - ``predicted``: a mapping whose keys are the ids of the rows that become held-out points. It may be missing.
    - ``runtimes_s``: the runtime of each point that has one of its own, by id. It may be missing.

    Args:
        root: Folder to which the path of the table is relative.
        recipe: The section ``fit``.

    Returns:
        The fitted points, then the held-out points.

    Raises:
        TwinError: The table has no row with one of the ids, or a point cannot be simulated.
        OSError: The table cannot be read.
    """
    path = root / recipe["points"]
    with path.open(encoding="utf-8", newline="") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    points = []
    for use in ("fitted", "predicted"):
        for name in recipe.get(use, {}):
            if name not in rows:
                raise TwinError(f"{path}: there is no value '{name}', which the fit section of the model refers to")
            point = _point_of_row(rows[name], f"{path}: {name}")
            own_s = recipe.get("runtimes_s", {}).get(name)
            points.append(replace(point, predicted=use == "predicted", runtime_s=own_s))
    return points


def fit_report(fitted: FitResult) -> str:
    """Return the result of a fit as text of several lines.

    The text lists the fitted parameters, then the fitted points, then the held-out points. The line of a point has its
    name, the measured value, the unit, the simulated value and the relative error in percent.
    """
    lines = ["Fitted parameters:"]
    for name, moved in fitted.moved.items():
        lines.append(f"  {name:<34} {models.format_value(name, moved)}")
        if name in fitted.at_bounds:
            lines.append(f"    At a bound of the search: {fitted.at_bounds[name]}. The best value may be beyond it.")
    for predicted, title in ((False, "Fitted points"), (True, "Held-out points")):
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
    """Return the conditions under which a recorded fit simulated its points.

    Args:
        recipe: Section ``fit`` of a model file, which records the fit. The keys ``ramp_time_s``, ``runtime_s``, ``set``
            and ``region_bytes`` become the attributes of the result. A missing key has the default value of `PointRun`.
    """
    return PointRun(
        recipe.get("ramp_time_s", 0.0),
        recipe.get("runtime_s", _RUNTIME_S),
        recipe.get("set", {}),
        recipe.get("region_bytes", _REGION_BYTES),
    )


def fit_record(fitted: FitResult, points_source: str) -> dict[str, Any]:
    """Return the section ``fit``, with which a model file records a fit.

    Args:
        fitted: The result of the fit.
        points_source: Where the points come from, such as the path of a table.

    Returns:
        A mapping with these keys. ``set``, ``ramp_time_s``, ``runtime_s``, ``runtimes_s``, ``region_bytes``,
        ``predicted`` and ``at_bounds`` are left out if they have their default values or are empty.

        - ``points``: the source of the points.
        - ``set``, ``ramp_time_s``, ``runtime_s`` and ``region_bytes``: the conditions of the simulation, see
          `PointRun`.
        - ``runtimes_s``: the runtime of each point that has one of its own, by the id of the point.
        - ``moved``: the names of the fitted parameters.
        - ``fitted`` and ``predicted``: for each fitted and each held-out point, a text with the measured value, the
          simulated value and the error.
        - ``at_bounds``: the bounds at which fitted parameters ended, see `FitResult`.
    """

    def rows(predicted: bool) -> dict[str, str]:
        return {
            point.id: f"measured {point.value:g} {point.unit}, model {value:.4g}, error {100 * error:+.1f} %"
            for point, value, error in fitted.compared(predicted=predicted)
        }

    defaults = {"set": {}, "ramp_time_s": 0.0, "runtime_s": _RUNTIME_S, "region_bytes": _REGION_BYTES}
    defaults |= {"runtimes_s": {}, "predicted": {}, "at_bounds": {}}
    section = {
        "points": points_source,
        "set": dict(fitted.run.settings),
        "ramp_time_s": fitted.run.ramp_time_s,
        "runtime_s": fitted.run.runtime_s,
        "runtimes_s": {point.id: point.runtime_s for point in fitted.points if point.runtime_s is not None},
        "region_bytes": fitted.run.region_bytes,
        "moved": list(fitted.moved),
        "fitted": rows(False),
        "predicted": rows(True),
        "at_bounds": dict(fitted.at_bounds),
    }
    return {key: value for key, value in section.items() if key not in defaults or value != defaults[key]}


def fit_from_files(
    model: models.Model,
    tables: Sequence[Path],
    move: Sequence[str],
    output: OutputFile | None,
    root: Path,
    *,
    max_error: float = MAX_MEAN_ERROR,
    given: Mapping[str, Any] = MappingProxyType({}),
) -> str:
    """Fit a model to points in files, as `twin fit` does; return the report.

    A point is a workload and the rate or latency that was measured for it.

    Args:
        model: The model of the drive.
        tables: Files with points, see `read_points`.
        move: Names of the parameters to fit, as ``group.name``. If ``tables`` and ``move`` are both empty, the fit that
            the model file records is repeated.
        output: File for the fitted model; None to write no file.
        root: Folder to which the paths in the model file are relative.
        max_error: Limit for the mean of the absolute relative errors of the fitted points; 0.2 is 20 %.
        given: Conditions of the simulation by name: ``ramp_time_s``, ``runtime_s``, ``region_bytes`` and ``set`` (the
            settings of `PointRun`). They replace the defaults, or in a repeated fit the conditions that the model file
            records.

    Returns:
        The text of `fit_report`.

    Raises:
        NoFitError: The mean error of the fitted points is above ``max_error``. Nothing is written.
        TwinError: A file, a point or a parameter is not valid, or only one of ``tables`` and ``move`` is given.
    """
    if not tables and not move:
        if not model.fit:
            raise TwinError(f"{model.name}: the model file records no fit to repeat. Give --points and --move.")
        points = published_points(root, model.fit)
        move, source = model.fit["moved"], model.fit["points"]
    elif tables and move:
        points = [point for table in tables for point in read_points(table)]
        source = ", ".join(map(str, tables))
    else:
        raise TwinError("give both --points (the measured points) and --move (the parameters to fit), or neither")
    found = fit_model(model, points, move, recorded_run({**({} if tables else model.fit), **given}))
    error = found.mean_absolute_error(predicted=False)
    if error > max_error:
        worst, _, worst_error = max(found.compared(predicted=False), key=lambda each: abs(each[2]))
        raise NoFitError(
            fit_report(found),
            f"{model.name}: no fit: the mean error of the fitted points is {100 * error:.1f} %, more than"
            f" {100 * max_error:g} % (largest: {worst.id}, {100 * worst_error:+.1f} %)."
            f" {'Nothing was written. ' if output is not None else ''}Fit other parameters too (--move), check the"
            " points, or raise the limit (--most-error).",
        )
    if output is not None:
        with output as temporary:
            models.write_fitted_model(model, temporary, found.moved, f"twin fit to {source}", fit_record(found, source))
    return fit_report(found)
