"""Tries a workload on a twin at once, in this very process, and draws what came out."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
_REGION_BYTES = 2**30  # where the requests lie, as in the file of the report's measurements
_PIECE_BYTES = 4 * 2**20  # of requests that are handed to the drive at once
_PIECE_REQUESTS = 256
# Flash pages read and units programmed for each request asked for, from which on no more requests are made: garbage
# collection may do a hundred times the work of what the host has written
_WORK_PER_REQUEST = 2
_BINS = 40  # of the curve of throughput
_POINTS = 200  # of the curve of latencies
_SIZE_INCH = (8.2, 4.6)
_DPI = 100
_GREY = "0.6"
_PERCENT = "(%)"
_NO_ARRIVALS = np.empty(0, dtype=np.int64)

# What a parameter that is 0 may be tried with, by the unit that the drive counts in
_ROUND = {
    "ns": [10**power for power in range(3, 10)],
    "bytes": [4096 * 8**power for power in range(7)],
    "bytes/s": [10**power for power in range(7, 11)],
    "count": [2**power for power in range(11)],
}

_Integers = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]


class ExploreError(IoPatternsError):
    """A workload that cannot be tried; the message names what is wrong with it and what is valid."""

    exit_status = 2


@dataclass(frozen=True)
class Workload:
    """A stream of requests, in the words of fio.

    Closed loop: ``numjobs`` jobs keep ``iodepth`` requests each outstanding. Open loop, where ``arrivals_per_s`` is
    above 0: so many requests arrive in a second, at random times, whatever is still outstanding; numjobs and iodepth
    then say nothing. ``rwmixread`` is the percentage of reads of the workloads that mix (readwrite, randrw).
    ``requests`` is how many are made at most. Raises ExploreError.
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
        """Check each value, and those that must go together."""
        if self.rw not in WORKLOAD_NAMES:
            hint = did_you_mean(self.rw, WORKLOAD_NAMES)
            raise ExploreError(f"rw is '{self.rw}', which is no workload.{hint} Valid: {', '.join(WORKLOAD_NAMES)}.")
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
            raise ExploreError(f"bs_bytes is {self.bs_bytes}, which is no multiple of 512, a sector")
        if self.iodepth * self.numjobs > MAX_OUTSTANDING:
            raise ExploreError(
                f"{self.numjobs} jobs of iodepth {self.iodepth} keep more than {MAX_OUTSTANDING} requests outstanding"
            )

    @property
    def read_share(self) -> float:
        """How much of the requests are reads."""
        if self.rw in {"readwrite", "randrw"}:
            return self.rwmixread / 100
        return float(self.rw.endswith("read"))

    @property
    def title(self) -> str:
        """What it is, in a line."""
        mix = f", {self.rwmixread} % reads" if self.rw in {"readwrite", "randrw"} else ""
        jobs = f"{self.numjobs} job{'' if self.numjobs == 1 else 's'} × depth {self.iodepth}"
        loop = f"{self.arrivals_per_s:,} arrivals/s" if self.arrivals_per_s else jobs
        return f"{WORKLOAD_NAMES[self.rw]}, {block_label(self.bs_bytes)}{mix}, {loop}"


@dataclass(frozen=True)
class SimulationResult:
    """What a workload gave on a twin.

    ``issue_ns`` and ``latency_ns`` have an entry per request, in the order in which they were made; ``is_read`` says
    which are reads. ``duration_ns`` is the simulated time from 0 to the last return. ``programmed`` has a row per
    piece of the stream: units (mapping units of the flash) that host and drive had programmed by then. ``counters`` are
    the drive's totals by name. ``workload.requests`` were asked for; fewer are there where they made the drive work so
    much that it would have taken long.
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
        """How many requests were made."""
        return len(self.issue_ns)

    @property
    def iops(self) -> float:
        """Requests in a second of the drive's time."""
        return self.requests / self.duration_ns * 1e9

    @property
    def bandwidth_mb_per_s(self) -> float:
        """Bandwidth in 10^6 bytes per second."""
        return self.iops * self.workload.bs_bytes / 1e6

    @property
    def write_amplification(self) -> float | None:
        """Units programmed for each that the host had written; None where nothing has got to the flash."""
        host, all_units = self.counters["units_host"], self.counters["units_programmed"]
        return all_units / host if host else None

    def quantile_us(self, share: float) -> float:
        """Return the latency in microseconds that ``share`` of the requests do not exceed."""
        return float(np.quantile(self.latency_ns, share)) / 1e3

    def throughput(self) -> tuple[_Floats, _Floats]:
        """Return the bandwidth in MB/s from each of some times in ms to the next; at the last one it is told again."""
        bins = max(1, min(_BINS, self.requests // 10))
        ended, edges = np.histogram(self.issue_ns + self.latency_ns, bins, (0, self.duration_ns))
        width_s = self.duration_ns / bins / 1e9
        return edges / 1e6, np.append(ended, ended[-1]) * self.workload.bs_bytes / width_s / 1e6

    def depth_shares(self) -> _Floats:
        """Return how much of the duration so many requests were outstanding: the entry at 3 is of three."""
        times = np.concatenate([self.issue_ns, self.issue_ns + self.latency_ns])
        steps = np.concatenate([np.ones(self.requests, np.int64), -np.ones(self.requests, np.int64)])
        # at one moment what ends goes first, so that a request that follows another does not overlap it
        order = np.lexsort((steps, times))
        depth = np.concatenate([[0], np.cumsum(steps[order])])
        spans = np.diff(np.concatenate([[0], times[order], [self.duration_ns]]))
        return np.bincount(depth, weights=spans.astype(np.float64)) / self.duration_ns


def simulate_workload(
    model: models.Model, workload: Workload, settings: Mapping[str, Any] | None = None
) -> SimulationResult:
    """Return what a workload gives on a new drive of the model, with other values of some of its parameters.

    ``settings``: by ``group.name``, written as in a model file (``{"read_ahead.window": "1 MiB"}``). The same arguments
    give the same outcome. Raises TwinError for a parameter or value that the drive cannot have, ExploreError where the
    drive holds no request for each job.
    """
    if settings:
        model = model.with_values(settings, "settings:")
    region_bytes = min(_REGION_BYTES, model.size_bytes)
    if region_bytes // workload.bs_bytes < workload.numjobs:
        raise ExploreError(f"{model.name}: the drive holds no {workload.bs_bytes} bytes for each job")
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
    arrival_ns = _NO_ARRIVALS
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
    """Return values to try of a parameter that is a number, its present value among them, in order.

    They are some halves and doubles of it within its declared range; of a 0, round numbers of its unit.
    """
    declared = models.declared_parameters()[name]
    if declared["kind"] != "number" or isinstance(value, str):
        raise ExploreError(f"'{name}' is no number")
    tried = [value * 2**power for power in range(-4, 5)] if value else [0, *_ROUND[declared["unit"]]]
    return sorted({round(one) for one in tried if declared["minimum"] <= one <= declared["maximum"]})


def draw_png(outcome: SimulationResult, kept: SimulationResult | None = None) -> bytes:
    """Return the figure of an outcome as PNG, see `Picture.png`."""
    return SimulationFigure().png(outcome, kept)


class SimulationFigure:
    """A figure of outcomes that is drawn again and again: throughput, latencies, queue depth, write amplification.

    Axes, ticks and lines are made once, for making them takes longer than drawing them.
    """

    @report_style()
    def __init__(self) -> None:
        """Make the figure, still empty."""
        self._figure = Figure(figsize=_SIZE_INCH, dpi=_DPI)
        FigureCanvasAgg(self._figure)
        axes = self._figure.subplots(2, 2).flat
        self._title = self._figure.suptitle("", fontsize=8, y=0.985)
        # not by a layout that fits everything to everything else, which takes longer than all that is drawn
        self._figure.subplots_adjust(left=0.075, right=0.985, top=0.86, bottom=0.095, hspace=0.55, wspace=0.2)
        self._throughput = _Panel(next(axes), "Time of the drive (ms)", "MB/s", ("C0",), drawstyle="steps-post")
        self._latencies = _Panel(
            next(axes), "Latency (µs, logarithmic)", f"Requests within it {_PERCENT}", ("C0", "C1"), logarithmic=True
        )
        self._depths = _Panel(next(axes), "Outstanding requests", f"Time {_PERCENT}", ("C2",), drawstyle="steps-mid")
        self._amplification = _Panel(
            next(axes), "Written by the host, in units of the flash", "Programmed / written", ("C3",)
        )
        self._latencies.legend(("reads", "writes"))

    @report_style()
    def png(self, outcome: SimulationResult, kept: SimulationResult | None = None) -> bytes:
        """Return the figure of an outcome as PNG, ``kept`` in grey behind it. The same outcomes give the same bytes."""
        rate = f"{outcome.iops:,.0f}" if outcome.iops >= 100 else f"{outcome.iops:.3g}"
        of_both = [(outcome, False)] if kept is None else [(kept, True), (outcome, False)]
        shares = outcome.depth_shares()
        mean_depth = float(shares @ np.arange(len(shares)))
        factor = outcome.write_amplification
        median, high = outcome.quantile_us(0.5), outcome.quantile_us(0.99)
        self._throughput.show(
            f"Throughput: {rate} IOPS, {outcome.bandwidth_mb_per_s:,.4g} MB/s",
            [(0, in_grey, *each.throughput()) for each, in_grey in of_both],
        )
        self._latencies.show(
            f"Latency: half within {median:,.4g} µs, 99 % within {high:,.4g} µs",
            [(number, in_grey, *curve) for each, in_grey in of_both for number, curve in _latencies(each)],
        )
        self._depths.show(
            f"Queue depth: {mean_depth:,.3g} in the mean, {len(shares) - 1} at most",
            [(0, in_grey, *_depths(each)) for each, in_grey in of_both],
        )
        self._amplification.show(
            "Write amplification: nothing got to the flash" if factor is None else f"Write amplification: {factor:.3g}",
            [(0, in_grey, *_amplification(each)) for each, in_grey in of_both if each.write_amplification is not None],
        )
        title = f"{outcome.model.name}: {outcome.workload.title}"
        self._title.set_text(title if kept is None else f"{title}\nin grey, {kept.model.name}: {kept.workload.title}")
        png = io.BytesIO()
        write_png(self._figure, png, _DPI)
        return png.getvalue()


def _latencies(outcome: SimulationResult) -> list[tuple[int, tuple[_Floats, _Floats]]]:
    """Return latencies in µs and the percentage within them, of reads (0) and of writes (1), where there are any."""
    shares = np.linspace(0, 1, _POINTS)
    chosen = [(number, rows) for number, rows in enumerate((outcome.is_read, ~outcome.is_read)) if rows.any()]
    return [(number, (np.quantile(outcome.latency_ns[rows], shares) / 1e3, 100 * shares)) for number, rows in chosen]


def _depths(outcome: SimulationResult) -> tuple[_Floats, _Floats]:
    shares = outcome.depth_shares()
    # begins and ends at nothing, so that a single depth is a column, too
    return np.arange(-1.0, len(shares) + 1), 100 * np.concatenate([[0], shares, [0]])


def _amplification(outcome: SimulationResult) -> tuple[_Floats, _Floats]:
    host, programmed = outcome.programmed[outcome.programmed[:, 0] > 0].T.astype(np.float64)
    return host, programmed / host


class _Panel:
    """One panel: a line in grey and one in colour for each of ``colours``, whose ticks and titles are kept."""

    def __init__(
        self,
        axes: Axes,
        x: str,
        y: str,
        colours: Sequence[str],
        *,
        logarithmic: bool = False,
        drawstyle: str = "default",
    ) -> None:
        self._axes = axes
        self._logarithmic = logarithmic
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        if logarithmic:
            axes.set_xscale("log")
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5), numticks=9))
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.xaxis.set_minor_locator(NullLocator())
        else:
            axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=drawstyle == "steps-mid"))
        axes.yaxis.set_major_locator(MultipleLocator(25) if _PERCENT in y else MaxNLocator(nbins=4))
        # at a height of its own: finding one measures all ticks a second time
        self._title = axes.set_title("", y=1.03)
        self._lines = {}
        for in_grey in (True, False):
            for number, colour in enumerate(colours):
                (self._lines[number, in_grey],) = axes.plot(
                    [],
                    [],
                    drawstyle=drawstyle,
                    color=_GREY if in_grey else colour,
                    linestyle="--" if number else "-",
                )

    def legend(self, names: Sequence[str]) -> None:
        """Name the lines in colour."""
        self._axes.legend([self._lines[number, False] for number in range(len(names))], names, loc="lower right")

    def show(self, title: str, curves: Sequence[tuple[int, bool, _Floats, _Floats]]) -> None:
        """Show curves, each with its number, whether it is in grey, its x and its y."""
        self._title.set_text(title)
        given = {(number, in_grey): (x, y) for number, in_grey, x, y in curves}
        for key, line in self._lines.items():
            line.set_data(*given.get(key, ([], [])))
        if not given:
            self._axes.set(xlim=(0, 1), ylim=(0, 1))
            return
        all_x, all_y = (np.concatenate(parts) for parts in zip(*given.values(), strict=True))
        low, high = float(all_x.min()), float(all_x.max())
        if self._logarithmic:
            low, high = max(low, 1e-3), max(high, 1e-3)
            room = 1.3 if high > 4 * low else 2.0
            self._axes.set_xlim(low / room, high * room)
        else:
            room = 0.02 * (high - low) or 1.0
            self._axes.set_xlim(max(low - room, -0.5), high + room)  # nothing that is drawn is negative
        self._axes.set_ylim(0, 1.08 * float(all_y.max()) or 1)
