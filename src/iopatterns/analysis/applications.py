"""What the system calls of a program look like: patterns and shares, sizes of requests, and maps of accesses.

Table I and figures 1 and 2 of Park and Shen (2009), of any trace, and maps, which they have not.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from matplotlib.figure import Figure, FigureBase

from iopatterns.analysis.plots import WIDTH_INCH, PlotError, figure_with_panels, report_style
from iopatterns.analysis.tables import Column, Table, fixed_decimals
from iopatterns.calls.form import READS, WRITES, Trace

SEQUENTIAL, UNRECOGNISED, NONE = "Sequential", "Unrecognized pattern", "N/A"
# A direction is sequential where at least this share of its requests goes on where the one before has ended
_SEQUENTIAL_SHARE = 0.9
_KB = 1024
# The labels of the buckets of figures 1 and 2. A bucket has the sizes above the label before, up to its own.
_BUCKETS_KB = tuple(2**power for power in range(12))
_LABELS = (*map(str, _BUCKETS_KB), f">{_BUCKETS_KB[-1]}")
_DIRECTIONS = {"read": READS, "write": WRITES}
_PANELS_PER_ROW = 3
_PANEL_INCH = 1.55
_MAP_INCH = 2.4
_COLOURS = "viridis"


@dataclass
class _Direction:
    """What the requests of one direction are, as they are counted piece by piece."""

    requests: int = 0
    moved_bytes: int = 0
    followed: int = 0  # requests with one before them in the same file by the same process
    continued: int = 0  # those of them that begin where that one ended
    buckets: np.ndarray = field(default_factory=lambda: np.zeros(len(_LABELS), dtype=np.int64))
    _ends: dict[tuple[int, str], int] = field(default_factory=dict, repr=False)

    def add(self, piece: pd.DataFrame) -> None:
        """Count the requests of a piece of a trace, which are all of this direction."""
        sizes = piece["size_bytes"].to_numpy()
        self.requests += len(piece)
        self.moved_bytes += int(sizes.sum())
        self.buckets += np.bincount(np.searchsorted(np.array(_BUCKETS_KB) * _KB, sizes), minlength=len(_LABELS))
        by = piece[["process", "file"]]
        ends = piece["offset_bytes"] + piece["size_bytes"]
        before = ends.groupby([by["process"], by["file"]], sort=False).shift().to_numpy(dtype=np.float64, copy=True)
        for at in np.flatnonzero(np.isnan(before)):  # the first of a process in a file may go on from a piece before
            before[at] = self._ends.get(tuple(by.iloc[at]), np.nan)
        self.followed += int((~np.isnan(before)).sum())
        self.continued += int((before == piece["offset_bytes"].to_numpy()).sum())
        last = ~by.duplicated(keep="last").to_numpy()
        self._ends.update(zip(by[last].itertuples(index=False, name=None), ends[last], strict=True))

    @property
    def continued_share(self) -> float:
        """The share that goes on, of the requests that could; NaN where none could."""
        return self.continued / self.followed if self.followed else float("nan")

    @property
    def pattern(self) -> str:
        """The pattern as table I names it."""
        if not self.requests:
            return NONE
        return SEQUENTIAL if self.continued_share >= _SEQUENTIAL_SHARE else UNRECOGNISED


@dataclass(frozen=True)
class TraceCharacteristics:
    """What a trace looks like: its requests of both directions (``read``, ``write``), its processes and files."""

    name: str
    label: str
    origin: str
    directions: Mapping[str, _Direction]
    processes: int
    files: int

    def row(self) -> dict[str, object]:
        """Return a row of `characteristics_frame`."""
        read, write = self.directions["read"], self.directions["write"]
        requests, moved = read.requests + write.requests, read.moved_bytes + write.moved_bytes
        return {
            "trace": self.name,
            "label": self.label,
            "origin": self.origin,
            "read_pattern": read.pattern,
            "write_pattern": write.pattern,
            "read_share": read.requests / requests if requests else float("nan"),
            "write_share": write.requests / requests if requests else float("nan"),
            "read_share_bytes": read.moved_bytes / moved if moved else float("nan"),
            "read_continued_share": read.continued_share,
            "write_continued_share": write.continued_share,
            "reads": read.requests,
            "writes": write.requests,
            "read_bytes": read.moved_bytes,
            "write_bytes": write.moved_bytes,
            "processes": self.processes,
            "files": self.files,
        }


def characterise_trace(trace: Trace) -> TraceCharacteristics:
    """Return what a trace looks like. It is read piece by piece.

    A request is a read or write of at least one byte. Its direction is sequential where of all requests that have one
    before them (of the same direction, process and file) at least 0.9 begin where that one ended. Raises CallsError.
    """
    directions = {name: _Direction() for name in _DIRECTIONS}
    processes: set[int] = set()
    files: set[str] = set()
    for piece in trace.pieces():
        moving = piece[piece["size_bytes"] > 0]
        for name, calls in _DIRECTIONS.items():
            its = moving[moving["call"].isin(calls)]
            processes.update(its["process"].unique())
            files.update(its["file"].unique())
            if len(its):
                directions[name].add(its)
    return TraceCharacteristics(trace.name, trace.label, trace.origin, directions, len(processes), len(files))


def characteristics_frame(of: Iterable[TraceCharacteristics]) -> pd.DataFrame:
    """Return table I, a row a trace.

    Columns: ``trace``, ``label`` (which says of a stand-in that it is one), ``origin``, ``read_pattern``,
    ``write_pattern``, ``read_share``, ``write_share`` (of all requests), ``read_share_bytes``,
    ``read_continued_share``, ``write_continued_share``, ``reads``, ``writes``, ``read_bytes``, ``write_bytes``,
    ``processes``, ``files``. Shares are from 0 to 1. The paper does not say whether its ratio is one of requests or
    of bytes.
    """
    return pd.DataFrame([each.row() for each in of])


def characteristics_table(data: pd.DataFrame) -> Table:
    """Return table I as it is printed; ``data`` is that of `characteristics_frame`."""
    columns = (
        Column(("label",), "Trace", align_right=False),
        Column(("read_pattern",), "Read", spanner="I/O access pattern", align_right=False),
        Column(("write_pattern",), "Write", spanner="I/O access pattern", align_right=False),
        Column(("read_share", "write_share"), "of requests", _ratio, spanner="Read/write ratio"),
        Column(("read_share_bytes",), "of bytes", lambda share: _ratio(share, 1 - share), spanner="Read/write ratio"),
        Column(("reads",), "Reads"),
        Column(("writes",), "Writes"),
        Column(("read_bytes",), "Read", _mib, "MiB"),
        Column(("write_bytes",), "Written", _mib, "MiB"),
        Column(("processes",), "Processes"),
        Column(("files",), "Files"),
    )
    return Table(data, columns, "label")


def _ratio(read: float, write: float) -> str:
    return f"{fixed_decimals(2)(read)}/{fixed_decimals(2)(write)}"


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / 2**20:.1f}"


def size_distribution(of: Iterable[TraceCharacteristics], direction: str) -> pd.DataFrame:
    """Return figure 1 (``read``) or 2 (``write``): ``label``, ``bucket``, ``upto_kb``, ``requests`` and ``share``.

    A row for each trace that has such requests and each bucket. ``upto_kb`` is the bucket's label, in KB of 1024 bytes;
    NaN of the last, which has what is larger than any label of the paper's. ``share`` is that of the direction's
    requests.
    """
    rows = []
    for each in of:
        its = each.directions[direction]
        if its.requests:
            upto = [*map(float, _BUCKETS_KB), float("nan")]
            for bucket, kb, count in zip(_LABELS, upto, its.buckets, strict=True):
                rows.append((each.label, bucket, kb, int(count), count / its.requests))
    return pd.DataFrame(rows, columns=["label", "bucket", "upto_kb", "requests", "share"])


@report_style()
def size_figure(distribution: pd.DataFrame, direction: str) -> Figure:
    """Return a panel for each trace with the shares of its buckets; ``distribution`` is that of `size_distribution`.

    Raises PlotError where no trace has requests of the direction.
    """
    if distribution.empty:
        raise PlotError(f"no trace has {direction} requests")
    if not distribution.loc[distribution["bucket"] == _LABELS[-1], "requests"].any():
        distribution = distribution[distribution["bucket"] != _LABELS[-1]]
    labels = list(distribution["label"].unique())
    figure, panels = figure_with_panels(
        len(labels), _PANELS_PER_ROW, _PANEL_INCH, frame_inch=0.35, sharex=True, sharey=True
    )
    for axes, label in zip(panels, labels, strict=True):
        its = distribution[distribution["label"] == label]
        axes.bar(its["bucket"], its["share"] * 100, color="0.35", width=0.8)
        axes.set_title(label)
        axes.set_ylim(0, 105)
        axes.tick_params(axis="x", rotation=90, labelbottom=True)
    figure.supxlabel(f"Size of {direction} requests, up to (KB of 1024 bytes)", fontsize="medium")
    figure.supylabel(f"Share of {direction}s (%)", fontsize="medium")
    return figure


@report_style()
def access_map(trace: Trace, processes: Collection[int] | None = None) -> Figure:
    """Return where in their files the processes read and write over time, a colour for each process.

    ``processes``: all by default. Raises PlotError where none of them reads or writes, CallsError.
    """
    figure = Figure(figsize=(WIDTH_INCH, _MAP_INCH), layout="constrained")
    _draw_map(figure, trace, processes)
    return figure


@report_style()
def access_maps(traces: Sequence[Trace]) -> Figure:
    """Return the map of `access_map` of each of some traces, of all their processes, one below the other."""
    figure = Figure(figsize=(WIDTH_INCH, _MAP_INCH * len(traces)), layout="constrained")
    for part, trace in zip(figure.subfigures(len(traces), 1, squeeze=False)[:, 0], traces, strict=True):
        _draw_map(part, trace, None)
    return figure


def _draw_map(figure: FigureBase, trace: Trace, processes: Collection[int] | None) -> None:
    """Draw the map of a trace. Raises PlotError, CallsError."""
    found = []
    for piece in trace.pieces():
        kept = piece[(piece["size_bytes"] > 0) & piece["call"].isin([*READS, *WRITES])]
        found.append(kept if processes is None else kept[kept["process"].isin(list(processes))])
    calls = pd.concat(found) if found else pd.DataFrame()
    if calls.empty:
        raise PlotError(f"{trace.name}: there is no request to draw")
    panels: Sequence[tuple[str, tuple[str, ...]]] = (("Reads", READS), ("Writes", WRITES))
    ranks = {process: rank for rank, process in enumerate(sorted(calls["process"].unique()))}
    drawn = None
    all_axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (title, names) in zip(all_axes, panels, strict=True):
        its = calls[calls["call"].isin(names)]
        seconds, offsets = its["time_ns"].to_numpy() / 1e9, its["offset_bytes"].to_numpy() / 2**20
        colours = its["process"].map(ranks).to_numpy()
        look = {"s": 2.5, "linewidths": 0, "cmap": _COLOURS, "vmin": 0, "vmax": max(1, len(ranks) - 1)}
        drawn = axes.scatter(seconds, offsets, c=colours, rasterized=True, **look)
        axes.set(title=f"{title}: {trace.label}", xlabel="Time (s)")
        axes.set_ylim(bottom=0)
    all_axes[0].set_ylabel("Offset in the file (MiB)")
    if drawn is not None and len(ranks) > 1:
        bar = figure.colorbar(drawn, ax=list(all_axes), pad=0.01)
        ticks = sorted({0, (len(ranks) - 1) // 2, len(ranks) - 1})
        bar.set_ticks(ticks, labels=[str(list(ranks)[tick]) for tick in ticks])
        bar.set_label("Process")
