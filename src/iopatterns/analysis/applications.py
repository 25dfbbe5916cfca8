"""Tables and figures of the system calls of programs.

They show access patterns, request sizes, and maps of accesses over time. The table of access patterns and the figures
of request sizes are those of Park and Shen (2009), "A Performance Evaluation of Scientific I/O Workloads on Flash-Based
SSDs" (table I, figures 1 and 2), for any trace. The paper has no maps.
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
# A direction is sequential if at least this share of its requests begins where the previous request ended
_SEQUENTIAL_SHARE = 0.9
_KB = 1024
# Labels of the buckets of figures 1 and 2. A bucket contains the sizes above the previous label, up to its own.
_BUCKETS_KB = tuple(2**power for power in range(12))
_LABELS = (*map(str, _BUCKETS_KB), f">{_BUCKETS_KB[-1]}")
_DIRECTIONS = {"read": READS, "write": WRITES}
_PANELS_PER_ROW = 3
_PANEL_INCH = 1.55
_MAP_INCH = 2.4


@dataclass
class _Direction:
    """Counts of the requests of one direction (reads or writes) in a trace.

    Attributes:
        requests: Number of requests.
        moved_bytes: Sum of their sizes.
        followed: Number of requests that have a previous request of the same process in the same file.
        continued: Number of these requests that begin where the previous request ended.
        buckets: Number of requests in each range of sizes.
    """

    requests: int = 0
    moved_bytes: int = 0
    followed: int = 0
    continued: int = 0
    buckets: np.ndarray = field(default_factory=lambda: np.zeros(len(_LABELS), dtype=np.int64))
    _ends: dict[tuple[int, str], int] = field(default_factory=dict, repr=False)

    def add(self, piece: pd.DataFrame) -> None:
        """Add the requests of a part of a trace to the counts.

        Args:
            piece: Requests of this direction, with the columns process, file, offset_bytes and size_bytes. Parts are
                added in their order in the trace.
        """
        sizes = piece["size_bytes"].to_numpy()
        self.requests += len(piece)
        self.moved_bytes += int(sizes.sum())
        self.buckets += np.bincount(np.searchsorted(np.array(_BUCKETS_KB) * _KB, sizes), minlength=len(_LABELS))
        keys = piece[["process", "file"]]
        ends = piece["offset_bytes"] + piece["size_bytes"]
        shifted = ends.groupby([keys["process"], keys["file"]], sort=False).shift()
        before = shifted.to_numpy(dtype=np.float64, copy=True)
        # the first request of a process in a file may continue a request of an earlier piece
        for at in np.flatnonzero(np.isnan(before)):
            before[at] = self._ends.get(tuple(keys.iloc[at]), np.nan)
        self.followed += int((~np.isnan(before)).sum())
        self.continued += int((before == piece["offset_bytes"].to_numpy()).sum())
        last = ~keys.duplicated(keep="last").to_numpy()
        self._ends.update(zip(keys[last].itertuples(index=False, name=None), ends[last], strict=True))

    @property
    def continued_share(self) -> float:
        """The share of requests that begin where the previous request ended.

        The previous request is that of the same process in the same file. Requests without a previous one do not count.
        The share is NaN if no request has a previous one.
        """
        return self.continued / self.followed if self.followed else float("nan")

    @property
    def pattern(self) -> str:
        """The access pattern, in the words of table I of Park and Shen (2009).

        - ``Sequential`` if `continued_share` is at least 0.9
        - ``N/A`` if there are no requests
        - ``Unrecognized pattern`` otherwise
        """
        if not self.requests:
            return NONE
        return SEQUENTIAL if self.continued_share >= _SEQUENTIAL_SHARE else UNRECOGNISED


@dataclass(frozen=True)
class TraceCharacteristics:
    """Characteristics of the requests in a trace of system calls.

    A request is a read or write of at least one byte.

    Attributes:
        name: Name of the trace.
        label: Name for tables and figures. It ends with ``(stand-in)`` if the trace is synthetic and replaces an
            unpublished trace.
        origin: ``recorded``, or ``stand-in`` for such a synthetic trace.
        directions: Counts of requests, with the keys ``read`` and ``write``.
        processes: Number of processes that read or write.
        files: Number of files that are read or written.
    """

    name: str
    label: str
    origin: str
    directions: Mapping[str, _Direction]
    processes: int
    files: int

    def row(self) -> dict[str, object]:
        """Return the access patterns and request sizes of the trace as one row of a table.

        The result is a dictionary by column, such as ``read_pattern`` and ``read_share``. `characteristics_frame`
        describes all columns.
        """
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
    """Return the characteristics of a trace of system calls.

    A request is a read or write of at least one byte. The trace is read in parts, so that memory use does not grow with
    the number of calls. Logs of Darshan are an exception.

    Args:
        trace: A trace, as the package `iopatterns.calls` reads it.

    Raises:
        CallsError: The trace cannot be read.
    """
    directions = {name: _Direction() for name in _DIRECTIONS}
    processes: set[int] = set()
    files: set[str] = set()
    for piece in trace.pieces():
        moving = piece[piece["size_bytes"] > 0]
        for name, calls in _DIRECTIONS.items():
            requests = moving[moving["call"].isin(calls)]
            processes.update(requests["process"].unique())
            files.update(requests["file"].unique())
            if len(requests):
                directions[name].add(requests)
    return TraceCharacteristics(trace.name, trace.label, trace.origin, directions, len(processes), len(files))


def characteristics_frame(traces: Iterable[TraceCharacteristics]) -> pd.DataFrame:
    """Return the characteristics of traces as a table with a row per trace.

    The table has all data of table I of Park and Shen (2009). The paper does not say whether its read/write ratio
    counts requests or bytes. For this reason the table has the shares of both.

    Args:
        traces: The characteristics, as `characterise_trace` returns them.

    Returns:
        A table with these columns:

        - trace: name of the trace
        - label: name of the trace in print
        - origin: ``recorded``, or ``stand-in`` for a synthetic trace that replaces an unpublished trace
        - read_pattern and write_pattern: ``Sequential`` (at least 0.9 of the requests continue the previous request),
          ``Unrecognized pattern``, or ``N/A`` without requests
        - read_share and write_share: shares of reads and of writes among all requests, 0 to 1
        - read_share_bytes: share of the bytes read among all bytes, 0 to 1
        - read_continued_share and write_continued_share: the share of requests that begin where the previous request of
          the same process in the same file ended, 0 to 1
        - reads and writes: numbers of requests
        - read_bytes and write_bytes: numbers of bytes
        - processes and files: numbers of processes and files with requests

        Shares are NaN if there is no request to compute them from.
    """
    return pd.DataFrame([each.row() for each in traces])


def characteristics_table(data: pd.DataFrame) -> Table:
    """Return table I of Park and Shen (2009) with a row per trace, ready to print.

    The table has access patterns, read/write ratios, and numbers of requests, MiB, processes and files.

    Args:
        data: A table that `characteristics_frame` returned.

    Raises:
        TableError: The data have no rows.
    """
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


def size_distribution(traces: Iterable[TraceCharacteristics], direction: str) -> pd.DataFrame:
    """Return the distribution of request sizes in traces.

    These are the data of figure 1 (reads) or figure 2 (writes) of Park and Shen (2009).

    Args:
        traces: The characteristics of the traces, as `characterise_trace` returns them.
        direction: ``read`` or ``write``.

    Returns:
        A row for each trace and range of sizes. A range begins above the largest size of the previous range. Traces
        without requests of the direction have no rows. Columns:

        - label: name of the trace in print
        - bucket: the largest size of the range in KB, as text such as ``64``; ``>2048`` for the last range, which has
          no largest size
        - upto_kb: the largest size as a number, in KB of 1024 bytes; NaN for the last range
        - requests: number of requests with a size in the range
        - share: share of these requests among the trace's requests of the direction, 0 to 1
    """
    rows = []
    for each in traces:
        counts = each.directions[direction]
        if counts.requests:
            upto = [*map(float, _BUCKETS_KB), float("nan")]
            for bucket, kb, count in zip(_LABELS, upto, counts.buckets, strict=True):
                rows.append((each.label, bucket, kb, int(count), count / counts.requests))
    return pd.DataFrame(rows, columns=["label", "bucket", "upto_kb", "requests", "share"])


@report_style()
def size_figure(distribution: pd.DataFrame, direction: str) -> Figure:
    """Return a bar chart of the sizes of requests, with a panel per trace.

    A bar is the share of requests (in percent) in one range of sizes.

    Args:
        distribution: The sizes, as `size_distribution` returns them for the direction.
        direction: ``read`` or ``write``, for labels and messages.

    Raises:
        PlotError: No trace has requests of the direction.
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
        rows = distribution[distribution["label"] == label]
        axes.bar(rows["bucket"], rows["share"] * 100, color="0.35", width=0.8)
        axes.set_title(label)
        axes.set_ylim(0, 105)
        axes.tick_params(axis="x", rotation=90, labelbottom=True)
    figure.supxlabel(f"Size of {direction} requests, up to (KB of 1024 bytes)", fontsize="medium")
    figure.supylabel(f"Share of {direction}s (%)", fontsize="medium")
    return figure


@report_style()
def access_map(trace: Trace, processes: Collection[int] | None = None) -> Figure:
    """Return a figure of the file offsets that processes access over time.

    One panel shows reads, the other writes. Each request is a point: the horizontal axis is the time in seconds, the
    vertical axis the offset in the file in MiB. Each process has a colour.

    Args:
        trace: A trace of system calls.
        processes: The numbers of the processes to draw; None for all.

    Raises:
        PlotError: None of the processes reads or writes.
        CallsError: The trace cannot be read.
    """
    figure = Figure(figsize=(WIDTH_INCH, _MAP_INCH), layout="constrained")
    _draw_map(figure, trace, processes)
    return figure


@report_style()
def access_maps(traces: Sequence[Trace]) -> Figure:
    """Return a figure with the access map of each trace, one below the other.

    An access map shows the file offsets that processes read and write over time, see `access_map`.

    Args:
        traces: Traces of system calls, from top to bottom.

    Raises:
        PlotError: A trace has no reads and writes.
        CallsError: A trace cannot be read.
    """
    figure = Figure(figsize=(WIDTH_INCH, _MAP_INCH * len(traces)), layout="constrained")
    for part, trace in zip(figure.subfigures(len(traces), 1, squeeze=False)[:, 0], traces, strict=True):
        _draw_map(part, trace, None)
    return figure


def _draw_map(figure: FigureBase, trace: Trace, processes: Collection[int] | None) -> None:
    """Draw the access map of a trace into a figure; `access_map` describes it.

    Args:
        figure: A figure or part of a figure.
        trace: A trace of system calls.
        processes: The numbers of the processes to draw; None for all.
    """
    found = []
    for piece in trace.pieces():
        requests = piece[(piece["size_bytes"] > 0) & piece["call"].isin([*READS, *WRITES])]
        found.append(requests if processes is None else requests[requests["process"].isin(list(processes))])
    calls = pd.concat(found) if found else pd.DataFrame()
    if calls.empty:
        raise PlotError(f"{trace.name}: there is no request to draw")
    ranks = {process: rank for rank, process in enumerate(sorted(calls["process"].unique()))}
    last = len(ranks) - 1
    style = {"s": 2.5, "linewidths": 0, "cmap": "viridis", "vmin": 0, "vmax": max(1, last)}
    all_axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, (title, names) in zip(all_axes, (("Reads", READS), ("Writes", WRITES)), strict=True):
        requests = calls[calls["call"].isin(names)]
        seconds, offsets = requests["time_ns"].to_numpy() / 1e9, requests["offset_bytes"].to_numpy() / 2**20
        colours = requests["process"].map(ranks).to_numpy()
        points = axes.scatter(seconds, offsets, c=colours, rasterized=True, **style)
        axes.set(title=f"{title}: {trace.label}", xlabel="Time (s)")
        axes.set_ylim(bottom=0)
    all_axes[0].set_ylabel("Offset in the file (MiB)")
    if last:
        bar = figure.colorbar(points, ax=list(all_axes), pad=0.01)
        ticks = sorted({0, last // 2, last})
        bar.set_ticks(ticks, labels=[str(list(ranks)[tick]) for tick in ticks])
        bar.set_label("Process")
