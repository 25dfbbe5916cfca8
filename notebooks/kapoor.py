"""Figures and tables of Kapoor's "Performance of User-Level Workloads on SSDs".

The full title is "Performance of User-Level Workloads on Solid State Drives". The data come from replays: block traces
of the paper's programs, submitted to simulated drives. The data are queue depths, miss ratios of the cache of the
drive's address map, and zombie curves. A zombie curve has the shares of valid pages of the flash blocks, in descending
order.
"""

import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.animation import PillowWriter
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from iopatterns.analysis import quantities
from iopatterns.analysis.plots import WIDTH_INCH, figure_with_panels, panel_letter, report_style
from iopatterns.analysis.replays import replay_details, zombie_curve
from iopatterns.analysis.tables import (
    WORKLOAD_NAMES,
    Column,
    Table,
    block_label,
    fixed_decimals,
    sort_rows,
    three_digits,
)
from iopatterns.base.schedulers import SUCCESSORS
from iopatterns.study import Study

_GREYS = ("0.0", "0.45", "0.7")
_LINES = tuple(zip(_GREYS, ("-", "--", ":"), strict=True))
_HEIGHT_INCH = 2.3
_BLOCKS = "Blocks, share of the drive"
_DETAILS = ("depth", "blocks", "blocks_before_discards", "blocks_over_time")
_ZOMBIES: Sequence[tuple[str, str]] = (
    ("zombies-large", "Large sequential writes"),
    ("zombies-small", "Small random writes"),
)
# The states of the flash blocks that figure and table show, with their names in `load_replays`
_STATES = {"before deletion": "blocks_before_discards", "at the end": "blocks"}
# The interval between two snapshots of the simulator WiscSim (config_helper/rule_parameter.py, GroupingParaIter)
_WISCSIM_SNAPSHOT_NS = 100_000_000
# Snapshots per row
_COLUMNS = 4
# The animation: frames per second, how often the last frame is repeated, and its resolution
_FRAMES_PER_SECOND = 4
_LAST_FRAMES = 8
_SCREEN_DPI = 110
_MIX = ("s3500-random-write", "s3500-random-read", "s3500-sequential-write")
# The mix on the drive that the source simulated
_SIMULATED_MIX = ("mix-random-write", "mix-random-read", "mix-sequential-write")
# The experiments of one workload, with their file systems; its program writes 100 files of 4 MB (section 3.1)
_FILE_SYSTEMS = {"on-ext4": "ext4", "on-xfs": "XFS", "on-btrfs": "Btrfs", "on-f2fs": "F2FS"}
_PROGRAM_MIB = 400
# The experiments of two workloads, with the drive for which the programs waited, and what a replay keeps of their trace
_LOOPS = {
    "closed-loop": "this drive",
    "with-dependencies": "a quicker drive, dependencies kept",
    "open-loop": "a quicker drive, times kept",
    "without-times": "a quicker drive, order kept",
}
# For each rule: its quantity; pairs of experiments with workloads that follow and break the rule; and the levels of
# these two workloads
_RULES: Sequence[tuple[str, str, Sequence[tuple[str, str]], Mapping[str, Any], Mapping[str, Any]]] = (
    (
        "Request scale",
        "queue depth",
        (("scale", "scale"), ("modern-scale", "modern-scale")),
        {"fsync": 0},
        {"fsync": 10},
    ),
    (
        "Locality",
        "miss ratio",
        (("locality", "locality"), ("modern-locality-sequential", "modern-locality-random")),
        {"rw": "read", "bs_bytes": 64 * 1024},
        {"rw": "randread", "bs_bytes": 512},
    ),
    (
        "Grouping by death time",
        "valid ratio",
        (("zombies-large", "zombies-small"), ("modern-zombies-large", "modern-zombies-small")),
        {"numjobs": 10},
        {"numjobs": 10},
    ),
)
# Schedulers of the kernel, with the model's counterparts; none and kyber order nothing
MODELLED: Mapping[str, str] = {"none": "none", "kyber": "noop"} | {
    today: older for older, today in SUCCESSORS.items() if today != "none"
}
# Prefixes of the experiments: one per scheduler of the kernel, and one per drive with the schedulers of the model
_KERNEL = "linux-"
_MODEL = "modelled-"


def load_replays(measurements: Path) -> pd.DataFrame:
    """Return the replays of the study with the details from which figures are drawn.

    A replay submits the requests of a recorded block trace to a simulated drive.

    Args:
        measurements: The Parquet file of the study's measurements.

    Returns:
        A row per replay, with the columns of the measurements and four more. Each value of these is a dictionary or
        list, or None if a replay does not have it:

        - depth: how often the queue reached each depth, and the depth over time
        - blocks: the numbers of flash blocks by their number of valid pages, at the end
        - blocks_before_discards: such numbers before the first discard (request that reports deleted data)
        - blocks_over_time: a list of such numbers at several times (snapshots)
    """
    return replay_details(measurements, *_DETAILS)


def replays_of(replays: pd.DataFrame, experiment: str) -> list[dict[str, Any]]:
    """Return the replays of an experiment, each as a dictionary by column name.

    The replays are sorted by numjobs (number of threads) and fsync (number of writes between two calls of fsync).

    Args:
        replays: The replays, as `load_replays` returns them.
        experiment: The name of the experiment, such as ``zombies-large``.
    """
    rows = quantities.select_experiments(replays, experiment)
    rows = rows.sort_values([name for name in ("numjobs", "fsync") if name in rows], kind="stable")
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


@report_style()
def depth_figure(replays: pd.DataFrame) -> Figure:
    """Return figure 1 of Kapoor's paper: the queue depth over time.

    The figure has the three phases of a mix one after another: random writes, random reads and sequential writes. It
    shows the range of the depth, from least to most, in each short part of a phase.

    Args:
        replays: The replays, as `load_replays` returns them.
    """
    figure, (axes,) = figure_with_panels(1, 1, _HEIGHT_INCH)
    end_s = 0.0
    phases = [each for name in _MIX for each in replays_of(replays, name)]
    for replay, colour in zip(phases, itertools.cycle(_GREYS), strict=False):
        depth: Mapping[str, Any] = replay["depth"]
        seconds = end_s + np.arange(len(depth["most"])) * depth["part_ns"] / 1e9
        axes.fill_between(seconds, depth["least"], depth["most"], step="post", color=colour, linewidth=0.7)
        axes.text(seconds.mean(), 35, WORKLOAD_NAMES[replay["rw"]], ha="center")
        end_s = float(seconds[-1]) + depth["part_ns"] / 1e9
        axes.axvline(end_s, color="0.5", linewidth=0.5)
    axes.set(xlim=(0, end_s), ylim=(0, 39), xlabel="Time (s), phases one after another", ylabel="Queue depth")
    return figure


@report_style()
def box_figure(replays: pd.DataFrame) -> Figure:
    """Return figure 2 of Kapoor's paper: box plots of the queue depth.

    There is a box for sequential writes without fsync and for each number of writes between two calls of fsync. Each
    change of the depth counts once, however long the depth lasted. Outliers are not drawn.

    Args:
        replays: The replays, as `load_replays` returns them.
    """
    figure, (axes,) = figure_with_panels(1, 1, 1.7)
    rows = replays_of(replays, "scale")
    depths = [np.repeat(np.arange(len(row["depth"]["events"])), row["depth"]["events"]) for row in rows]
    axes.boxplot(depths, orientation="horizontal", showfliers=False, medianprops={"color": "0.0", "linewidth": 2.5})
    labels = [f"fsync after {row['fsync']}" if row["fsync"] else "no fsync" for row in rows]
    axes.set_yticks(range(1, len(rows) + 1), labels)
    axes.set(xlabel="Queue depth", xlim=(-1, 33))
    return figure


@report_style()
def zombie_figure(replays: pd.DataFrame) -> Figure:
    """Return figures 4 and 5 of Kapoor's paper as four panels: zombie curves.

    A zombie curve shows the shares of valid pages of the flash blocks in descending order. There is a row of panels for
    large sequential writes, and one for small random writes. The panels of a row show the blocks before the discards of
    deleted files, and at the end of the replay. Each panel has a curve per number of threads.

    Args:
        replays: The replays, as `load_replays` returns them.
    """
    figure = Figure(figsize=(WIDTH_INCH, 2 * 1.9), layout="constrained")
    panels = figure.subplots(len(_ZOMBIES), 2, sharex="row", sharey=True)
    for row, (experiment, title) in zip(panels, _ZOMBIES, strict=True):
        for axes, (state, key) in zip(row, _STATES.items(), strict=True):
            _draw_zombies(axes, [(replay, replay[key]) for replay in replays_of(replays, experiment)])
            axes.set(title=f"{title}, {state}", ylim=(0, 1.05))
            axes.set_xlim(left=0)
        row[0].set_ylabel("Valid ratio")
        row[0].legend()
    figure.supxlabel(_BLOCKS, fontsize="medium")
    return figure


def _draw_zombies(axes: Axes, replays: Iterable[tuple[Mapping[str, Any], Mapping[str, Any] | None]]) -> None:
    """Draw the zombie curve of each replay, labelled with the number of threads.

    Args:
        axes: Where to draw.
        replays: Each replay, as `replays_of` returns it, with the numbers of flash blocks by their number of valid
            pages. A replay without such numbers has an empty curve.
    """
    for (replay, blocks), (colour, dashes) in zip(replays, itertools.cycle(_LINES), strict=False):
        curve = _zombie_curve(replay, blocks)
        threads = f"{replay['numjobs']} thread{'s' if replay['numjobs'] > 1 else ''}"
        axes.step(curve["space"], curve["valid_ratio"], where="pre", color=colour, linestyle=dashes, label=threads)


def _zombie_curve(replay: Mapping[str, Any], blocks: Mapping[str, Any] | None) -> pd.DataFrame:
    """Return a zombie curve of a replay, as `replays.zombie_curve` returns it.

    Args:
        replay: A replay, as `replays_of` returns it.
        blocks: The numbers of flash blocks by their number of valid pages; None for no blocks.
    """
    return zombie_curve({**replay["blocks"], "by_valid_pages": blocks["by_valid_pages"] if blocks else [0]})


def _snapshots(replays: Iterable[Mapping[str, Any]], time: int) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Return each replay with the flash blocks of one of its snapshots, counted from 0."""
    return [(replay, replay["blocks_over_time"][time]) for replay in replays]


def snapshot_count(replays: pd.DataFrame) -> int:
    """Return the smallest number of snapshots of the flash blocks in a replay.

    A snapshot has the valid pages of the flash blocks at one time during the replay. Only the replays of
    `zombie_figure` count: large sequential writes and small random writes. The number is 0 if one of these replays has
    no snapshots.

    Args:
        replays: The replays, as `load_replays` returns them.
    """
    known = [row.get("blocks_over_time") for name, _ in _ZOMBIES for row in replays_of(replays, name)]
    return min((len(each) if isinstance(each, list) else 0 for each in known), default=0)


@report_style()
def zombie_times_figure(replays: pd.DataFrame) -> Figure:
    """Return a figure of zombie curves at four times, a row of panels per workload.

    A zombie curve shows the shares of valid pages of the flash blocks in descending order. The workloads are large
    sequential writes and small random writes. The times are those of snapshots of the flash blocks during the replays;
    the last time is the end.

    Args:
        replays: The replays, as `load_replays` returns them. They must have at least four snapshots, see
            `snapshot_count`.
    """
    count = snapshot_count(replays)
    figure = Figure(figsize=(WIDTH_INCH, 2 * 1.55), layout="constrained")
    panels = figure.subplots(len(_ZOMBIES), _COLUMNS, sharey=True)
    space = _largest_space(replays, count)
    for row, (experiment, title) in enumerate(_ZOMBIES):
        for column in range(_COLUMNS):
            time = count * (column + 1) // _COLUMNS - 1
            axes = panels[row, column]
            _draw_zombies(axes, _snapshots(replays_of(replays, experiment), time))
            axes.set(xlim=(0, space), yticks=(0, 0.5, 1), ylim=(0, 1.05))
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
            axes.set(title=f"{title if column == 0 else ''}\n{_time_text(time, count)}")
        panels[row, 0].set_ylabel("Valid ratio")
    figure.supxlabel(_BLOCKS, fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(_LINES))
    return figure


@report_style()
def zombie_animation(replays: pd.DataFrame) -> bytes:
    """Return an animated GIF of the zombie curves over time, as bytes.

    A zombie curve shows the shares of valid pages of the flash blocks in descending order. The GIF has a frame per
    snapshot of the flash blocks, pauses at the last frame, and repeats forever.

    Args:
        replays: The replays, as `load_replays` returns them. They must have at least one snapshot, see
            `snapshot_count`.
    """
    count = snapshot_count(replays)
    space = _largest_space(replays, count)
    figure, panels = figure_with_panels(2, 2, _HEIGHT_INCH, frame_inch=0.2, sharey=True)
    FigureCanvasAgg(figure)
    panel_replays = [
        (axes, replays_of(replays, experiment)) for axes, (experiment, _) in zip(panels, _ZOMBIES, strict=True)
    ]

    def draw(time: int) -> None:
        for axes, rows in panel_replays:
            for line in [*axes.lines]:
                line.remove()
            _draw_zombies(axes, _snapshots(rows, time))
        figure.suptitle(_time_text(time, count), fontsize="medium")

    draw(count - 1)
    for axes, (_, title) in zip(panels, _ZOMBIES, strict=True):
        axes.set(title=title, xlabel=_BLOCKS, xlim=(0, space), ylim=(0, 1.05))
        axes.legend(loc="upper right")
    panels[0].set_ylabel("Valid ratio")
    # the layout is computed once, for all frames
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    with tempfile.TemporaryDirectory(prefix="animation-") as folder:
        path = Path(folder) / "zombies.gif"
        writer = PillowWriter(fps=_FRAMES_PER_SECOND)
        with writer.saving(figure, str(path), _SCREEN_DPI):
            for time in [*range(count), *[count - 1] * _LAST_FRAMES]:
                draw(time)
                writer.grab_frame()
        return path.read_bytes()


def _time_text(time: int, count: int) -> str:
    return f"after {100 * (time + 1) / count:.0f} % of the time"


def _largest_space(replays: pd.DataFrame, count: int) -> float:
    """Return a limit of the horizontal axis that fits all zombie curves over time.

    Args:
        replays: The replays, as `load_replays` returns them.
        count: Number of snapshots.
    """
    spaces = [
        _zombie_curve(row, blocks)["space"].max()
        for name, _ in _ZOMBIES
        for row in replays_of(replays, name)
        for blocks in row["blocks_over_time"][:count]
    ]
    return 1.03 * float(np.nanmax(spaces))


def _here(name: str, label: str, unit: str = "", spanner: str = "") -> Column:
    return Column((f"{name}_mean",), label, three_digits, unit, spanner)


def _here_and_published(name: str, unit: str, spanner: str) -> tuple[Column, Column]:
    """Return two columns of a table: measured mean and published value of a quantity.

    Args:
        name: The quantity's column in the measurements, such as duration_s.
        unit: The printed unit.
        spanner: The header above both columns.
    """
    published = Column((f"published_{name}",), "Published", three_digits, unit, spanner)
    return _here(name, "Here", unit, spanner), published


def _fsync_text(writes: int) -> str:
    return str(writes) if writes else "none"


_FSYNC = Column(("fsync",), "Writes between fsync", _fsync_text, align_right=False, hide_repeats=True)
_WORKLOAD = Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False, hide_repeats=True)
_DEPTHS = (
    _here("depth_mean", "Mean", spanner="Queue depth"),
    _here("depth_largest", "Largest", spanner="Queue depth"),
    _here("drained", "Emptied", "times", "Queue depth"),
)


def _comparisons(study: Study, experiments: Iterable[str], by: str, of: Sequence[str]) -> pd.DataFrame:
    """Return means and published values of several experiments in one table.

    Experiments that the study does not have are left out.

    Args:
        study: The study.
        experiments: The names of the experiments.
        by: The column of the factor besides drive, rw and bs_bytes.
        of: The names of the quantities.
    """
    here = [experiment for experiment in experiments if experiment in study.experiments]
    return pd.concat([study.comparison(experiment, [by], of) for experiment in here], ignore_index=True)


def scale_table(study: Study) -> Table:
    """Return table 1 of Kapoor's paper, with the queue depths of its figure 2.

    There is a row of sequential writes for each number of writes between two calls of fsync, and one without fsync. The
    columns are:

    - duration (s) and largest write (KiB), measured and published
    - the quartiles of the queue depth, measured
    """
    quartiles = ["queue depth first quartile", "queue depth median", "queue depth third quartile"]
    data = study.comparison("scale", ["fsync"], ["workload duration", "maximum request size", *quartiles])
    columns = [
        _FSYNC,
        *_here_and_published("duration_s", "s", "Duration"),
        *_here_and_published("largest_write_kib", "KiB", "Largest write"),
        _here("depth_first_quartile", "First quartile", spanner="Queue depth"),
        _here("depth_median", "Median", spanner="Queue depth"),
        _here("depth_third_quartile", "Third quartile", spanner="Queue depth"),
    ]
    return Table(data, tuple(columns), "study")


def file_system_table(study: Study) -> Table:
    """Return the table of sequential writes with fsync on several file systems.

    There is a row per file system. The columns are the duration (s), the amount written to the drive (MiB), the median
    size of these writes (KiB), the number of flushes, and two write amplifications:

    - of the file system: the amount that it wrote to the drive, divided by the amount that the program wrote to files
    - of the drive: the amount that it wrote to its flash, divided by the amount that was written to the drive
    """
    of = ["workload duration", "written", "flushes", "median write", "write amplification"]
    data = _comparisons(study, _FILE_SYSTEMS, "fsync", of)
    data = data.assign(
        study="file-systems",
        file_system=data["study"].map(_FILE_SYSTEMS),
        file_system_amplification=data["written_mib_mean"] / _PROGRAM_MIB,
    )
    columns = [
        Column(("file_system",), "File system", align_right=False),
        _here("duration_s", "Duration", "s"),
        _here("written_mib", "Written", "MiB", "To the drive"),
        _here("median_write_kib", "Median write", "KiB", "To the drive"),
        _here("flushes", "Flushes", "times", "To the drive"),
        Column(("file_system_amplification",), "File system", fixed_decimals(2), spanner="Write amplification"),
        Column(("write_amplification_mean",), "Drive", fixed_decimals(2), spanner="Write amplification"),
    ]
    return Table(data, tuple(columns), "study")


def is_time_based(experiment: str) -> bool:
    """Return whether the program of an experiment runs for a fixed time: if it compares schedulers of Linux.

    Args:
        experiment: The name of the experiment.
    """
    return experiment.startswith(_KERNEL)


def loop_table(study: Study) -> Table:
    """Return the table of replays that keep more or less of a trace, with durations, latencies and depths.

    The programs ran on the drive of the replay, and on a faster drive. The trace of the faster drive is replayed with
    the dependencies between its requests, with their times, and with their order only.

    Returns:
        A table with a row for each workload and replay. A workload is a number of writes between two calls of fsync.
        The columns are the duration (s), the mean latency of writes (ms), and the mean and largest queue depth and how
        often the queue became empty.
    """
    of = ["workload duration", "write latency", "queue depth", "largest queue depth", "times drained"]
    data = _comparisons(study, _LOOPS, "fsync", of).sort_values("fsync", kind="stable", ignore_index=True)
    data = data.assign(loop=data["study"].map(_LOOPS))
    columns = [
        _FSYNC,
        Column(("loop",), "The programs waited for", align_right=False),
        _here("duration_s", "Duration", "s"),
        _here("write_latency_ms", "Latency of writes", "ms"),
        *_DEPTHS,
    ]
    return Table(data, tuple(columns), "fsync")


def loops_text(table: Table) -> str:
    """Return a paragraph that compares replays of a faster drive's trace with the programs on the replayed drive.

    For each workload, a sentence gives the duration of each replay, and the latency of writes with the times of the
    trace, divided by those of the programs.

    Args:
        table: The table that `loop_table` returns.
    """
    programs, *replays = (table.data[table.data["loop"] == name].set_index("fsync") for name in _LOOPS.values())
    sentences = []
    for fsync in programs.index:
        if not all(fsync in each.index for each in replays):
            continue
        durations = [each["duration_s_mean"][fsync] / programs["duration_s_mean"][fsync] for each in replays]
        latency = replays[1]["write_latency_ms_mean"][fsync] / programs["write_latency_ms_mean"][fsync]
        workload = f"fsync after every {fsync} writes" if fsync else "no fsync"
        sentences.append(
            f"With {workload}, a replay of the faster drive's trace takes {durations[0]:.2f} times as long as the"
            f" programs did if it keeps the dependencies, {durations[1]:.2f} times if it keeps the times, and"
            f" {durations[2]:.2f} times if it keeps the order only. With the times kept, a write takes {latency:.2f}"
            " times as long."
        )
    return " ".join(sentences)


def rule_table(study: Study) -> Table:
    """Return the table of the cost of breaking each rule of Kapoor's paper.

    There are three rules:

    - request scale: have many requests outstanding
    - locality: access neighbouring data
    - grouping by death time: write data together that are deleted together

    For each rule, one workload follows the rule and another breaks it.

    Returns:
        A table with a row for each pair of such workloads and drive. If some drives have published durations, only
        these drives are included. Columns of the data:

        - rule and drive
        - follows_s and breaks_s: durations of the workload that follows the rule and of the one that breaks it
        - cost: breaks_s divided by follows_s
        - measure: the quantity that shows the effect of the rule, such as ``queue depth``
        - follows and breaks: means of this quantity for the two workloads
    """
    rows = []
    for rule, quantity, pairs, follows, breaks in _RULES:
        for experiments in pairs:
            if not set(experiments) <= set(study.experiments):
                continue
            keys = [name for name in follows if name not in {"rw", "bs_bytes"}]
            sides = []
            for experiment, level in zip(experiments, (follows, breaks), strict=True):
                cells = study.comparison(experiment, keys, ["workload duration", quantity])
                for name, value in level.items():
                    cells = cells[cells[name] == value]
                sides.append(cells.set_index("drive"))
            column = f"{quantities.get_quantity(quantity).column}_mean"
            timed = sides[0].index[sides[0]["published_duration_s"].notna()]
            for drive in timed if len(timed) else sides[0].index:
                (follows_s, kept), (breaks_s, broken) = (side.loc[drive, ["duration_s_mean", column]] for side in sides)
                rows.append((rule, drive, follows_s, breaks_s, breaks_s / follows_s, quantity, kept, broken))
    names = ["rule", "drive", "follows_s", "breaks_s", "cost", "measure", "follows", "breaks"]
    columns = [
        Column(("rule",), "Rule", align_right=False, hide_repeats=True),
        Column(("drive",), "Drive", align_right=False),
        Column(("follows_s",), "Follows", three_digits, "s", "Duration"),
        Column(("breaks_s",), "Breaks", three_digits, "s", "Duration"),
        Column(("cost",), "Times as long", fixed_decimals(2)),
        Column(("measure",), "Measured by", lambda name: quantities.get_quantity(name).label, align_right=False),
        Column(("follows",), "Follows", three_digits, spanner="Value"),
        Column(("breaks",), "Breaks", three_digits, spanner="Value"),
    ]
    return Table(pd.DataFrame(rows, columns=names), tuple(columns), "rule")


def mix_table(study: Study) -> Table:
    """Return the table of durations and queue depths in the phases of a mix.

    The phases are random writes, random reads and sequential writes. There is a row for each drive and phase. The queue
    depths are those of figure 1 of Kapoor's paper. The columns are the number of threads, the duration (s), the mean
    and largest queue depth, and how often the queue became empty.
    """
    quantities = ["workload duration", "queue depth", "largest queue depth", "times drained"]
    data = _comparisons(study, [*_MIX, *_SIMULATED_MIX], "numjobs", quantities)
    columns = [
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Phase", WORKLOAD_NAMES.__getitem__, align_right=False),
        Column(("numjobs",), "Threads"),
        _here("duration_s", "Duration", "s"),
        *_DEPTHS,
    ]
    return Table(data, tuple(columns), "drive")


def locality_table(study: Study) -> Table:
    """Return the table of the miss ratios in figure 3 of Kapoor's paper.

    A miss is a look-up of an address that the cached part of the drive's address map does not have.

    Returns:
        A table with a row for each workload and request size. There is a column with the miss ratio for each drive; the
        drives differ in the share of the map that is cached. Two more columns have the duration (s), measured and
        published, on the drive whose durations are published.
    """
    cells = study.comparison("locality", of=["miss ratio", "workload duration"])
    keys = ["rw", "bs_bytes"]
    drives = list(dict.fromkeys(cells["drive"]))
    data = cells[cells["drive"] == drives[0]][keys].reset_index(drop=True)
    for drive in drives:
        here = cells[cells["drive"] == drive]
        data = data.merge(here[[*keys, "miss_ratio_mean"]].rename(columns={"miss_ratio_mean": drive}), on=keys)
    timed = cells[cells["published_duration_s"].notna()]["drive"].unique()
    wanted = cells[cells["drive"].isin(timed if len(timed) else drives[:1])]
    data = data.merge(wanted[[*keys, "duration_s_mean", "published_duration_s"]], on=keys)
    columns = [
        _WORKLOAD,
        Column(("bs_bytes",), "Size", block_label),
        *(
            Column(
                (drive,),
                drive.rpartition("-")[2],
                fixed_decimals(3),
                spanner="Miss ratio, by the map in memory (%)",
            )
            for drive in drives
        ),
        *_here_and_published("duration_s", "s", "Duration"),
    ]
    return Table(data, tuple(columns), "rw")


def zombie_table(study: Study) -> Table:
    """Return tables 2 and 3 of Kapoor's paper, with data of its figures 4 and 5.

    There is a row for each workload and number of threads. The columns are:

    - duration (s) and bandwidth (MiB/s), measured and published
    - before the discards of deleted files, and at the end: the space occupied by flash blocks with valid pages, as a
      share of the drive; the mean share of valid pages in these blocks; and the share of these blocks whose pages are
      only partly valid (zombies)
    """
    blocks = ["occupied space", "valid ratio", "share of zombies"]
    before = [f"{name} before discards" for name in blocks]
    names = [name for name in study.experiments if name.startswith("zombies")]
    data = _comparisons(study, names, "numjobs", ["workload duration", "bandwidth", *before, *blocks])
    # the source's MB are 2^20 bytes, because WiscSim divides by 2^20
    for name in ("bandwidth_mb_per_s_mean", "published_bandwidth_mb_per_s"):
        data[name.replace("_mb_", "_mib_")] = data[name] * 1e6 / 2**20
    two = fixed_decimals(2)
    columns = [
        _WORKLOAD,
        Column(("numjobs",), "Threads"),
        *_here_and_published("duration_s", "s", "Duration"),
        Column(("bandwidth_mib_per_s_mean",), "Here", two, "MiB/s", "Bandwidth"),
        Column(("published_bandwidth_mib_per_s",), "Published", two, "MiB/s", "Bandwidth"),
        *(
            Column((f"{quantities.get_quantity(name).column}_mean",), label, two, spanner=f"Blocks {state}")
            for state, of in zip(_STATES, (before, blocks), strict=True)
            for name, label in zip(of, ("Occupied", "Valid", "Partly valid"), strict=True)
        ),
    ]
    return Table(data, tuple(columns), "rw")


def deletion_text(replays: pd.DataFrame) -> str:
    """Return a paragraph that says when the discards of deleted files reach the drive.

    It gives the time of the first discard, and the last time at which the simulator WiscSim would keep a snapshot of
    the flash blocks.

    Args:
        replays: The replays, as `load_replays` returns them. Large sequential writes and small random writes count.
    """
    rows = [(name, row) for name, _ in _ZOMBIES for row in replays_of(replays, name) if row["blocks_before_discards"]]
    if not rows:
        return ""
    # from the first discard to the end of the replay, and from the last multiple of the interval to that end
    discards_ms, snapshots_ms = [], []
    for _, row in rows:
        duration_ns = round(row["replay_duration_s"] * 1e9)
        discards_ms.append((duration_ns - row["blocks_before_discards"]["at_ns"]) / 1e6)
        snapshots_ms.append((row["depth"]["began_ns"] + duration_ns) % _WISCSIM_SNAPSHOT_NS / 1e6)
    earlier = sum(snapshot > discard for snapshot, discard in zip(snapshots_ms, discards_ms, strict=True))
    large = [row for name, row in rows if name == _ZOMBIES[0][0]]
    times = "; ".join(
        f"{row['blocks_before_discards']['at_ns'] / 1e9:.3f} of {row['replay_duration_s']:.3f} s with {row['numjobs']}"
        for row in large
    )
    return (
        f"The first discard of deleted files reaches the drive {_range_text(discards_ms, 1)} ms before the end of each"
        f" replay: of large sequential writes after {times} threads. WiscSim keeps a snapshot every"
        f" {_WISCSIM_SNAPSHOT_NS / 1e9:g} s of its own time, none at the end, and the last one is drawn. Here the last"
        f" multiple of this interval is {_range_text(snapshots_ms, 0)} ms before the end. A snapshot at that time comes"
        f" before any file is deleted in {earlier} of {len(rows)} replays, and lacks what is written after it."
    )


def _range_text(values: Sequence[float], digits: int) -> str:
    """Return the smallest and the largest value, such as ``0.8 to 1.0``; one number if they are equal as printed."""
    return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values))))


def compare_schedulers(study: Study) -> pd.DataFrame:
    """Return bandwidths under schedulers of Linux and schedulers of the model.

    The model of a simulated drive has I/O schedulers of its own. Each scheduler of Linux is compared with the
    corresponding scheduler of the model, see `MODELLED`.

    Args:
        study: The study. Its experiments ``linux-SCHEDULER`` have the schedulers of Linux. Its experiments
            ``modelled-NAME`` have those of the model.

    Returns:
        A row for each drive, workload and scheduler of Linux. Columns:

        - drive and rw (fio's name of the workload)
        - scheduler: the scheduler of Linux
        - modelled: the corresponding scheduler of the model
        - bandwidth_mb_per_s: mean bandwidth under the scheduler of Linux
        - modelled_mb_per_s: mean bandwidth under the scheduler of the model
        - difference_percent: how much modelled_mb_per_s is above bandwidth_mb_per_s; 0 if the difference is less than
          0.05 %
    """
    models = [study.summary(name, ["set_scheduler"]) for name in study.experiments if name.startswith(_MODEL)]
    model = pd.concat(models, ignore_index=True).rename(columns={"set_scheduler": "modelled"})
    kernels = [
        study.summary(name).assign(scheduler=name.removeprefix(_KERNEL))
        for name in study.experiments
        if name.startswith(_KERNEL)
    ]
    kernel = pd.concat(kernels, ignore_index=True)
    kernel["modelled"] = kernel["scheduler"].map(MODELLED)
    keys = ["drive", "rw", "modelled"]
    table = kernel[["drive", "rw", "scheduler", "modelled", "mean"]].merge(
        model[[*keys, "mean"]], on=keys, suffixes=("_kernel", "_model")
    )
    table = table.rename(columns={"mean_kernel": "bandwidth_mb_per_s", "mean_model": "modelled_mb_per_s"})
    difference = 100 * (table["modelled_mb_per_s"] / table["bandwidth_mb_per_s"] - 1)
    # differences below the printed digits are 0
    table["difference_percent"] = difference.where(difference.abs() >= 0.05, 0.0)
    return sort_rows(table, ["drive", "rw", "scheduler"], rw=list(WORKLOAD_NAMES), scheduler=list(MODELLED))


def scheduler_table(found: pd.DataFrame) -> Table:
    """Return the table of bandwidths under schedulers of Linux and of the model.

    There is a row for each drive, workload and scheduler of Linux. Bandwidths are in MB/s, their difference is in
    percent.

    Args:
        found: The bandwidths, as `compare_schedulers` returns them.
    """
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        _WORKLOAD,
        Column(("scheduler",), "Linux", align_right=False, spanner="Scheduler"),
        Column(("modelled",), "Model", align_right=False, spanner="Scheduler"),
        Column(("bandwidth_mb_per_s",), "Linux", three_digits, "MB/s", "Bandwidth"),
        Column(("modelled_mb_per_s",), "Model", three_digits, "MB/s", "Bandwidth"),
        Column(("difference_percent",), "Difference", fixed_decimals(1), "%", "Bandwidth"),
    )
    return Table(found, columns, "rw")


@report_style()
def scheduler_figure(found: pd.DataFrame) -> Figure:
    """Return a figure of bandwidths under schedulers of Linux and of the model.

    There is a row of panels per drive and a panel per workload. Each panel has a point per scheduler of Linux, and one
    for the corresponding scheduler of the model.

    Args:
        found: The bandwidths, as `compare_schedulers` returns them.
    """
    drives, workloads = list(dict.fromkeys(found["drive"])), list(dict.fromkeys(found["rw"]))
    of_panels = list(itertools.product(drives, workloads))
    figure, panels = figure_with_panels(len(of_panels), len(workloads), 1.75, frame_inch=0.3)
    for number, (axes, (drive, rw)) in enumerate(zip(panels, of_panels, strict=True)):
        here = found[(found["drive"] == drive) & (found["rw"] == rw)]
        places = np.arange(len(here))
        axes.plot(places, here["bandwidth_mb_per_s"], "o", color="0.0", markersize=3.5, label="Linux")
        hollow: dict[str, Any] = {"markersize": 7.5, "markerfacecolor": "none", "color": "0.45"}
        axes.plot(places, here["modelled_mb_per_s"], "s", label="the model's counterpart", **hollow)
        axes.set_xticks(places, here["scheduler"])
        highest = here[["bandwidth_mb_per_s", "modelled_mb_per_s"]].to_numpy().max()
        axes.set(xlim=(-0.5, len(here) - 0.5), ylim=(0, 1.15 * highest))
        axes.set_title(f"{panel_letter(number)} {drive}, {WORKLOAD_NAMES[rw].lower()}")
    figure.supylabel("Bandwidth (MB/s)", fontsize="medium")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2)
    return figure


def schedulers_text(found: pd.DataFrame) -> str:
    """Return a paragraph that compares bandwidths of the model with those under Linux.

    The paragraph gives the number of bandwidths that differ by at most 10 %, the median difference, and the largest
    difference with its drive and workload.

    Args:
        found: The bandwidths, as `compare_schedulers` returns them.
    """
    differences = found["difference_percent"].abs()
    worst = found.iloc[int(np.argmax(differences.to_numpy()))]
    model, kernel = (f"{three_digits(worst[name])} MB/s" for name in ("modelled_mb_per_s", "bandwidth_mb_per_s"))
    return (
        f"{int((differences <= 10).sum())} of {len(found)} bandwidths of the model are within 10 % of the kernel's, and"
        f" the median difference is {differences.median():.1f} %. The largest difference is that of"
        f" {worst['scheduler']} on {worst['drive']} ({WORKLOAD_NAMES[worst['rw']].lower()}): {model} with"
        f" {worst['modelled']} of the model, {kernel} with the kernel."
    )
