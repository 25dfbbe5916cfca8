"""Simulate a workload on a twin (simulated drive), and draw the result.

The notebook notebooks/explore.ipynb uses this module for its sliders.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, MultipleLocator, NullLocator

from iopatterns import _twin
from iopatterns.analysis.plots import report_style, write_png
from iopatterns.analysis.tables import WORKLOAD_NAMES, block_label
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.twin import models, streams

MAX_EXPLORED_REQUESTS = 64_000
MAX_OUTSTANDING = 4096
_REGION_BYTES = 2**30  # the range of the requests' offsets, as large as the file of the report's measurements
_PIECE_BYTES = 4 * 2**20  # at most this much is requested from the drive in one call
_PIECE_REQUESTS = 256
# The simulation stops at this many flash operations per request, because garbage collection may do a hundred times
# the work of what the host has written
_WORK_PER_REQUEST = 2
_BINS = 40  # of the curve of throughput
_POINTS = 200  # of the curve of latencies
_SIZE_INCH = (8.2, 4.6)
_DPI = 100
_GREY = "0.6"
_PERCENT = "(%)"

# Values to try for a parameter that is 0, by the unit of the parameter
_ROUND_VALUES = {
    "ns": [10**power for power in range(3, 10)],
    "bytes": [4096 * 8**power for power in range(7)],
    "bytes/s": [10**power for power in range(7, 11)],
    "count": [2**power for power in range(11)],
}

_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_Curve = tuple[_Floats, _Floats]
_NO_CURVE = (np.empty(0), np.empty(0))


class ExploreError(IoPatternsError):
    """The error raised if a workload cannot be simulated.

    `values_to_try` also raises it for a parameter that is not a number. The message names the wrong value or parameter.
    """

    exit_status = 2


@dataclass(frozen=True)
class Workload:
    """A stream of requests; most attributes are named like the options of fio.

    Raises ExploreError if a value or a combination of values is invalid.

    Attributes:
        rw: The workload: ``read``, ``write``, ``randread``, ``randwrite``, ``readwrite`` or ``randrw``.
        bs_bytes: The block size in bytes, a multiple of 512.
        iodepth: The number of requests that each job keeps outstanding (closed loop).
        numjobs: The number of jobs. All jobs together keep at most `MAX_OUTSTANDING` requests outstanding.
        rwmixread: The percentage of reads in ``readwrite`` and ``randrw``.
        arrivals_per_s: 0 for a closed loop, in which ``iodepth`` determines when requests are made. Otherwise the mean
            number of requests per second in an open loop: requests arrive at random times, regardless of outstanding
            requests.
        requests: The maximum number of requests, at most `MAX_EXPLORED_REQUESTS`.
        seed: The seed of offsets, directions and arrival times.
    """

    rw: str = "randread"
    bs_bytes: int = 4096
    iodepth: int = 1
    numjobs: int = 1
    rwmixread: int = 50
    arrivals_per_s: int = 0
    requests: int = 4000
    seed: int = 1

    def __post_init__(self) -> None:
        """Raise ExploreError if a value or a combination of values is invalid."""
        if self.rw not in WORKLOAD_NAMES:
            hint = did_you_mean(self.rw, WORKLOAD_NAMES)
            raise ExploreError(f"rw is '{self.rw}', which is not a workload.{hint} Valid: {', '.join(WORKLOAD_NAMES)}.")
        bounds = {
            "bs_bytes": (512, _REGION_BYTES),
            "iodepth": (1, MAX_OUTSTANDING),
            "numjobs": (1, MAX_OUTSTANDING),
            "rwmixread": (0, 100),
            "arrivals_per_s": (0, 10**9),
            "requests": (1, MAX_EXPLORED_REQUESTS),
        }
        for name, (least, most) in bounds.items():
            value = getattr(self, name)
            if not least <= value <= most:
                raise ExploreError(f"{name} is {value}, but must be from {least} to {most}")
        if self.bs_bytes % 512:
            raise ExploreError(f"bs_bytes is {self.bs_bytes}, which is not a multiple of the sector size, 512")
        if self.iodepth * self.numjobs > MAX_OUTSTANDING:
            raise ExploreError(
                f"{self.numjobs} jobs of iodepth {self.iodepth} keep more than {MAX_OUTSTANDING} requests outstanding"
            )

    @property
    def read_share(self) -> float:
        """The expected share of reads among the requests, 0 to 1."""
        if self.rw in {"readwrite", "randrw"}:
            return self.rwmixread / 100
        return float(self.rw.endswith("read"))

    @property
    def title(self) -> str:
        """The workload in one line, for the title of a figure.

        The line states operation, block size, share of reads, and jobs and depth (or arrivals per second).
        """
        mix = f", {self.rwmixread} % reads" if self.rw in {"readwrite", "randrw"} else ""
        jobs = f"{self.numjobs} job{'' if self.numjobs == 1 else 's'} × depth {self.iodepth}"
        loop = f"{self.arrivals_per_s:,} arrivals/s" if self.arrivals_per_s else jobs
        return f"{WORKLOAD_NAMES[self.rw]}, {block_label(self.bs_bytes)}{mix}, {loop}"


@dataclass(frozen=True)
class SimulationResult:
    """The result of a workload on a simulated drive.

    The arrays ``issue_ns``, ``latency_ns`` and ``is_read`` have one element for each request, in the order of the
    requests. There may be fewer requests than ``workload.requests``, because the simulation ends early if the drive
    does much internal work.

    Attributes:
        model: The model of the drive, including changed parameters.
        workload: The workload.
        issue_ns: The simulated time at which each request was made, in nanoseconds.
        latency_ns: The latency of each request in nanoseconds.
        is_read: Whether each request is a read.
        duration_ns: The simulated time in nanoseconds until the last request was complete.
        programmed: Cumulative counts of mapping units, the units in which the drive maps addresses to flash. The first
            column counts the units that the host wrote. The second counts all units that the drive programmed. The
            first row is the start of the simulation; each further row follows a group of requests.
        counters: The counters of the drive at the end, by name, such as ``units_programmed``.
    """

    model: models.Model
    workload: Workload
    issue_ns: _Integers
    latency_ns: _Integers
    is_read: npt.NDArray[np.bool_]
    duration_ns: int
    programmed: _Integers
    counters: Mapping[str, int]

    @property
    def requests(self) -> int:
        """The number of requests that were made, which may be less than requested."""
        return len(self.issue_ns)

    @property
    def iops(self) -> float:
        """The number of requests per second of simulated time."""
        return self.requests / self.duration_ns * 1e9

    @property
    def bandwidth_mb_per_s(self) -> float:
        """The bandwidth in MB (10^6 bytes) per second of simulated time."""
        return self.iops * self.workload.bs_bytes / 1e6

    @property
    def write_amplification(self) -> float | None:
        """The number of units programmed to flash, per unit written by the host.

        A unit is the unit in which the drive maps addresses to flash. The value is None if no write of the host reached
        the flash.
        """
        host, all_units = self.counters["units_host"], self.counters["units_programmed"]
        return all_units / host if host else None

    def quantile_us(self, share: float) -> float:
        """Return a quantile of the latencies in microseconds.

        Args:
            share: The share of requests with at most this latency, from 0 to 1: 0.5 for the median, 0.99 for the 99th
                percentile.
        """
        return float(np.quantile(self.latency_ns, share)) / 1e3

    def throughput(self) -> tuple[_Floats, _Floats]:
        """Return the bandwidth over simulated time, as a step curve.

        Returns:
            Two arrays of equal length. The first has the edges of equal time intervals in ms. The second has the
            bandwidth in MB/s from each edge to the next; its last element repeats the one before.
        """
        bins = max(1, min(_BINS, self.requests // 10))
        completed, edges = np.histogram(self.issue_ns + self.latency_ns, bins, (0, self.duration_ns))
        width_s = self.duration_ns / bins / 1e9
        return edges / 1e6, np.append(completed, completed[-1]) * self.workload.bs_bytes / width_s / 1e6

    def depth_shares(self) -> _Floats:
        """Return the share of time at each number of outstanding requests.

        Returns:
            An array. Element i is the share of simulated time with i outstanding requests. The shares add up to 1.
        """
        times = np.concatenate([self.issue_ns, self.issue_ns + self.latency_ns])
        steps = np.concatenate([np.ones(self.requests, np.int64), -np.ones(self.requests, np.int64)])
        # at equal times completions come first, so that a request does not overlap the one that it follows
        order = np.lexsort((steps, times))
        depth = np.concatenate([[0], np.cumsum(steps[order])])
        spans = np.diff(np.concatenate([[0], times[order], [self.duration_ns]]))
        return np.bincount(depth, weights=spans.astype(np.float64)) / self.duration_ns


def simulate_workload(
    model: models.Model, workload: Workload, settings: Mapping[str, Any] | None = None
) -> SimulationResult:
    """Simulate a workload on a simulated drive in its initial state.

    Equal arguments give equal results.

    Args:
        model: The model of the drive.
        workload: The workload.
        settings: Values that replace parameters of the model, such as ``{"read_ahead.window": "1 MiB"}``.

    Raises:
        TwinError: A parameter does not exist, or a value is invalid.
        ExploreError: The drive is too small for one request of each job.
    """
    if settings:
        model = model.with_values(settings, "settings:")
    region_bytes = min(_REGION_BYTES, model.size_bytes)
    if region_bytes // workload.bs_bytes < workload.numjobs:
        raise ExploreError(f"{model.name}: the drive is smaller than {workload.bs_bytes} bytes for each job")
    numbers = np.random.Generator(np.random.PCG64(workload.seed))
    columns = streams.synthetic_requests(
        numbers,
        workload.requests,
        bs_bytes=workload.bs_bytes,
        region_bytes=region_bytes,
        at_random=workload.rw.startswith("rand"),
        read_share=workload.read_share,
        numjobs=workload.numjobs,
    )
    arrival_ns = np.empty(0, dtype=np.int64)
    if workload.arrivals_per_s:
        arrival_ns = numbers.exponential(1e9 / workload.arrivals_per_s, workload.requests).cumsum().astype(np.int64)
    depth = 0 if workload.arrivals_per_s else workload.iodepth
    native = _twin.Replay(model.text, workload.numjobs, depth, workload.seed)
    done, programmed = [], [(0, 0)]
    at_once = max(1, min(_PIECE_REQUESTS, _PIECE_BYTES // workload.bs_bytes))
    for start in range(0, workload.requests, at_once):
        piece = slice(start, start + at_once)
        done.append(native.feed(arrival_ns[piece], *(column[piece] for column in columns)))
        counters = native.counters()
        programmed.append((counters["units_host"], counters["units_programmed"]))
        if counters["page_reads"] + counters["units_programmed"] > _WORK_PER_REQUEST * workload.requests:
            break
    done.append(native.finish())
    request, issue_ns, latency_ns = (np.concatenate(parts) for parts in zip(*done, strict=True))
    order = np.argsort(request)
    return SimulationResult(
        model,
        workload,
        issue_ns[order],
        latency_ns[order],
        columns[0][: len(order)] == 0,
        native.end_ns,
        np.array(programmed),
        native.counters(),
    )


def values_to_try(name: str, value: models.ParameterValue) -> list[models.ParameterValue]:
    """Return the values that a slider offers for a parameter of a simulated drive.

    If the present value is 0, the slider offers 0 and round numbers. Otherwise the slider offers the present value, its
    products with 2, 4, 8 and 16, and its quotients by the same factors. Values outside the parameter's valid range are
    left out.

    Args:
        name: The parameter, such as ``read_ahead.window``.
        value: The present value, in the unit of the parameter: nanoseconds, bytes, bytes per second, or a count.

    Returns:
        The values in ascending order, in the same unit. They are rounded to whole numbers.

    Raises:
        ExploreError: The parameter is not a number.
    """
    declared = models.declared_parameters()[name]
    if declared["kind"] != "number" or isinstance(value, str):
        raise ExploreError(f"'{name}' is not a number")
    candidates = [value * 2**power for power in range(-4, 5)] if value else [0, *_ROUND_VALUES[declared["unit"]]]
    return sorted({round(one) for one in candidates if declared["minimum"] <= one <= declared["maximum"]})


def draw_png(result: SimulationResult, reference: SimulationResult | None = None) -> bytes:
    """Return the figure of a simulation result as the bytes of a PNG file.

    The figure shows throughput, latencies, queue depth and write amplification.

    Args:
        result: The result, drawn in colour.
        reference: Another result for comparison, drawn in grey behind ``result``; None without a comparison.
    """
    return SimulationFigure().png(result, reference)


class SimulationFigure:
    """A figure of a simulation result that can be redrawn quickly.

    The figure shows throughput, latencies, queue depth and write amplification. Axes, ticks and lines are created once,
    because creating them takes longer than drawing them.
    """

    @report_style()
    def __init__(self) -> None:
        """Create the axes and empty lines of the figure; draw nothing yet."""
        self._figure = Figure(figsize=_SIZE_INCH, dpi=_DPI)
        FigureCanvasAgg(self._figure)
        axes = list(self._figure.subplots(2, 2).flat)
        self._title = self._figure.suptitle("", fontsize=8, y=0.985)
        # fixed margins, because an automatic layout takes longer than drawing
        self._figure.subplots_adjust(left=0.075, right=0.985, top=0.86, bottom=0.095, hspace=0.55, wspace=0.2)
        for panel, each in zip(_PANELS, axes, strict=True):
            each.set_xlabel(panel.x)
            each.set_ylabel(panel.y)
            each.yaxis.set_major_locator(MultipleLocator(25) if _PERCENT in panel.y else MaxNLocator(nbins=4))
            if panel.logarithmic:
                each.set_xscale("log")
                each.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
                each.xaxis.set_major_formatter("{x:,g}")
                each.xaxis.set_minor_locator(NullLocator())
            else:
                each.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=panel.drawstyle == "steps-mid"))
        # a fixed height, because an automatic one measures all ticks a second time
        self._titles = [each.set_title("", y=1.03) for each in axes]
        # for each panel the lines in grey, then the lines in colour
        self._lines = [
            [
                each.plot([], [], drawstyle=panel.drawstyle, color=colour, linestyle="--" if number else "-")[0]
                for colours in ([_GREY] * len(panel.colours), panel.colours)
                for number, colour in enumerate(colours)
            ]
            for panel, each in zip(_PANELS, axes, strict=True)
        ]
        reads, writes = self._lines[1][2:]
        axes[1].legend([reads, writes], ("reads", "writes"), loc="lower right")

    @report_style()
    def png(self, result: SimulationResult, reference: SimulationResult | None = None) -> bytes:
        """Draw the figure for a result, and return the bytes of a PNG file.

        Equal results give equal bytes.

        Args:
            result: The result, drawn in colour.
            reference: Another result for comparison, drawn in grey behind ``result``; None without a comparison.
        """
        for panel, title, lines in zip(_PANELS, self._titles, self._lines, strict=True):
            text, curves = panel.content(result)
            title.set_text(text)
            grey = panel.content(reference)[1] if reference else [_NO_CURVE] * len(curves)
            for line, curve in zip(lines, [*grey, *curves], strict=True):
                line.set_data(*curve)
            _fit_axes(lines[0].axes, [*grey, *curves], logarithmic=panel.logarithmic)
        title = f"{result.model.name}: {result.workload.title}"
        if reference:
            title += f"\nin grey, {reference.model.name}: {reference.workload.title}"
        self._title.set_text(title)
        png = io.BytesIO()
        write_png(self._figure, png, _DPI)
        return png.getvalue()


def _fit_axes(axes: Axes, curves: Sequence[_Curve], *, logarithmic: bool) -> None:
    """Set the limits of both axes to the range of all curves, with a small margin.

    Args:
        axes: The axes.
        curves: The x and y values of each curve.
        logarithmic: Whether the horizontal axis is logarithmic.
    """
    x, y = (np.concatenate(parts) for parts in zip(*curves, strict=True))
    if not len(x):
        axes.set(xlim=(0, 1), ylim=(0, 1))
        return
    low, high = float(x.min()), float(x.max())
    if logarithmic:
        low, high = max(low, 1e-3), max(high, 1e-3)
        factor = 1.3 if high > 4 * low else 2.0
        axes.set_xlim(low / factor, high * factor)
    else:
        margin = 0.02 * (high - low) or 1.0
        axes.set_xlim(max(low - margin, -0.5), high + margin)  # no drawn value is negative
    axes.set_ylim(0, 1.08 * float(y.max()) or 1)


def _throughput(result: SimulationResult) -> tuple[str, list[_Curve]]:
    rate = f"{result.iops:,.0f}" if result.iops >= 100 else f"{result.iops:.3g}"
    return f"Throughput: {rate} IOPS, {result.bandwidth_mb_per_s:,.4g} MB/s", [result.throughput()]


def _latencies(result: SimulationResult) -> tuple[str, list[_Curve]]:
    """Return the title of the latency panel, and its curves of reads and of writes.

    A curve has the percentage of requests whose latency is at most x µs.
    """
    shares = np.linspace(0, 1, _POINTS)
    curves = [
        (np.quantile(result.latency_ns[rows], shares) / 1e3, 100 * shares) if rows.any() else _NO_CURVE
        for rows in (result.is_read, ~result.is_read)
    ]
    median, high = result.quantile_us(0.5), result.quantile_us(0.99)
    return f"Latency: half within {median:,.4g} µs, 99 % within {high:,.4g} µs", curves


def _depths(result: SimulationResult) -> tuple[str, list[_Curve]]:
    """Return the title of the queue depth panel, and its curve.

    The curve has the percentage of time at each number of outstanding requests.
    """
    shares = result.depth_shares()
    mean = float(shares @ np.arange(len(shares)))
    # zeros at both ends, so that a single depth is drawn as a column
    curve = np.arange(-1.0, len(shares) + 1), 100 * np.concatenate([[0], shares, [0]])
    return f"Queue depth: {mean:,.3g} in the mean, {len(shares) - 1} at most", [curve]


def _amplification(result: SimulationResult) -> tuple[str, list[_Curve]]:
    factor = result.write_amplification
    if factor is None:
        return "Write amplification: nothing reached the flash", [_NO_CURVE]
    host, programmed = result.programmed[result.programmed[:, 0] > 0].T.astype(np.float64)
    return f"Write amplification: {factor:.3g}", [(host, programmed / host)]


class _Panel(NamedTuple):
    """A panel of `SimulationFigure`.

    Attributes:
        content: A function that returns the title and one curve per colour for a result.
        x: The label of the horizontal axis.
        y: The label of the vertical axis.
        colours: The colours of the curves.
        drawstyle: The style of the curves, as Matplotlib names it.
        logarithmic: Whether the horizontal axis is logarithmic.
    """

    content: Callable[[SimulationResult], tuple[str, list[_Curve]]]
    x: str
    y: str
    colours: tuple[str, ...]
    drawstyle: str = "default"
    logarithmic: bool = False


_PANELS = (
    _Panel(_throughput, "Time of the drive (ms)", "MB/s", ("C0",), "steps-post"),
    _Panel(_latencies, "Latency (µs, logarithmic)", f"Requests within it {_PERCENT}", ("C0", "C1"), logarithmic=True),
    _Panel(_depths, "Outstanding requests", f"Time {_PERCENT}", ("C2",), "steps-mid"),
    _Panel(_amplification, "Written by the host, in units of the flash", "Programmed / written", ("C3",)),
)
