"""Queue depths, miss ratios of the map cache and zombie curves: Kapoor's figures and tables, made of replays."""

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
_CONTENT = ("depth", "blocks", "blocks_over_time")
_ZOMBIES: Sequence[tuple[str, str]] = (
    ("zombies-large", "Large sequential writes"),
    ("zombies-small", "Small random writes"),
)
# Of the times at which the blocks are known, so many are drawn side by side
_COLUMNS = 4
_FRAMES_PER_SECOND = 4
_LAST_FRAMES = 8
_SCREEN_DPI = 110
_LINES = tuple(zip(_GREYS, ("-", "--", ":"), strict=True))
_MIX = ("s3500-random-write", "s3500-random-read", "s3500-sequential-write")
# The same on the drive that the source simulated
_MIX_ELSEWHERE = ("mix-random-write", "mix-random-read", "mix-sequential-write")
_HEIGHT_INCH = 2.3
# The experiments of one workload, by the file system; its program writes 100 files of 4 MB (section 3.1)
_FILE_SYSTEMS = {"on-ext4": "ext4", "on-xfs": "XFS", "on-btrfs": "Btrfs", "on-f2fs": "F2FS"}
_PROGRAM_MIB = 400
# The experiments of the same two workloads, by the drive for which the programs waited
_LOOPS = {
    "closed-loop": "this drive",
    "open-loop": "a quicker drive",
    "without-times": "a quicker drive, times left out",
}
# By rule: what it is measured by, the experiments that have a workload that follows it and one that breaks it, and by
# what the two are told apart
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
# Schedulers of a Linux kernel beside those of the model: the same jobs on the same drives
_ORDER_NOTHING = {"none": "none", "kyber": "noop"}
# By the kernel's scheduler, the model's: of those that order nothing, and what Linux has now of deadline and cfq
MODELLED: Mapping[str, str] = {
    **_ORDER_NOTHING,
    **{today: older for older, today in SUCCESSORS.items() if today not in _ORDER_NOTHING},
}
# The experiments: of each scheduler of the kernel, and of the model by drive
_KERNEL = "linux-"
_MODEL = "modelled-"


def shown(measurements: Path) -> pd.DataFrame:
    """Return what figures are drawn of: a row for each replay with what was asked, and `_CONTENT`."""
    return replay_details(measurements, *_CONTENT)


def of(replays: pd.DataFrame, experiment: str) -> list[dict[str, Any]]:
    """Return the replays of an experiment, by the number of jobs and then by that of writes between two fsync."""
    rows = quantities.select_experiments(replays, experiment)
    rows = rows.sort_values([name for name in ("numjobs", "fsync") if name in rows], kind="stable")
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


@report_style()
def depth_figure(replays: pd.DataFrame) -> Figure:
    """Return figure 1: the extremes of the queue depth over time in the three phases of the mix, one after another."""
    figure, (axes,) = figure_with_panels(1, 1, _HEIGHT_INCH)
    end_s = 0.0
    phases = [each for name in _MIX for each in of(replays, name)]
    for replay, colour in zip(phases, itertools.cycle(_GREYS), strict=False):
        depth: Mapping[str, Any] = replay["depth"]
        seconds = end_s + np.arange(len(depth["most"])) * depth["part_ns"] / 1e9
        axes.fill_between(seconds, depth["least"], depth["most"], step="post", color=colour, linewidth=0.7)
        axes.text(seconds.mean(), 35, WORKLOAD_NAMES[replay["rw"]], ha="center")
        end_s = float(seconds[-1]) + depth["part_ns"] / 1e9
        axes.axvline(end_s, color="0.5", linewidth=0.5)
    axes.set(xlim=(0, end_s), ylim=(0, 39), xlabel="Time (s), phases put one after another", ylabel="Queue depth")
    return figure


@report_style()
def box_figure(replays: pd.DataFrame) -> Figure:
    """Return figure 2: the queue depths with and without fsync, each event counting once; whiskers as J. W. Tukey's."""
    figure, (axes,) = figure_with_panels(1, 1, 1.7)
    rows = of(replays, "scale")
    depths = [np.repeat(np.arange(len(row["depth"]["events"])), row["depth"]["events"]) for row in rows]
    axes.boxplot(depths, orientation="horizontal", showfliers=False, medianprops={"color": "0.0", "linewidth": 2.5})
    labels = [f"fsync after {row['fsync']}" if row["fsync"] else "no fsync" for row in rows]
    axes.set_yticks(range(1, len(rows) + 1), labels)
    axes.set(xlabel="Queue depth", xlim=(-1, 33))
    return figure


@report_style()
def zombie_figure(replays: pd.DataFrame) -> Figure:
    """Return figures 4 and 5: the zombie curves after large sequential and small random writes, by threads."""
    figure, panels = figure_with_panels(2, 2, _HEIGHT_INCH)
    for axes, (experiment, title) in zip(panels, _ZOMBIES, strict=True):
        _draw_zombies(axes, of(replays, experiment))
        axes.set(title=title, xlabel="Blocks, by size over that of the drive", ylabel="Valid ratio", ylim=(0, 1.05))
        axes.set_xlim(left=0)
        axes.legend()
    return figure


def _draw_zombies(axes: Axes, replays: Sequence[Mapping[str, Any]], time: int | None = None) -> None:
    """Draw the curves of some replays, by threads: at their end, or at one of the times that they have."""
    for replay, (colour, dashes) in zip(replays, itertools.cycle(_LINES), strict=False):
        curve = _zombie_curve(replay, time)
        threads = f"{replay['numjobs']} thread{'s' if replay['numjobs'] > 1 else ''}"
        axes.step(curve["space"], curve["valid_ratio"], where="pre", color=colour, linestyle=dashes, label=threads)


def _zombie_curve(replay: Mapping[str, Any], time: int | None) -> pd.DataFrame:
    """Return the zombie curve of a replay at its end, or at one of the times at which its blocks are known."""
    at_time = {} if time is None else {"by_valid_pages": replay["blocks_over_time"][time]["by_valid_pages"]}
    return zombie_curve({**replay["blocks"], **at_time})


def times(replays: pd.DataFrame) -> int:
    """Return at how many times the blocks of the zombie curves are known; 0 where they are at the end alone."""
    known = [row.get("blocks_over_time") for name, _ in _ZOMBIES for row in of(replays, name)]
    return min((len(each) if isinstance(each, list) else 0 for each in known), default=0)


@report_style()
def zombie_times_figure(replays: pd.DataFrame) -> Figure:
    """Return the zombie curves at some times, side by side: a row for each workload."""
    count = times(replays)
    figure = Figure(figsize=(WIDTH_INCH, 2 * 1.55), layout="constrained")
    panels = figure.subplots(len(_ZOMBIES), _COLUMNS, sharey=True)
    space = _largest_space(replays, count)
    for row, (experiment, title) in enumerate(_ZOMBIES):
        for column in range(_COLUMNS):
            time = count * (column + 1) // _COLUMNS - 1
            axes = panels[row, column]
            _draw_zombies(axes, of(replays, experiment), time)
            axes.set(xlim=(0, space), yticks=(0, 0.5, 1), ylim=(0, 1.05))
            axes.xaxis.set_major_locator(MaxNLocator(nbins=4, steps=[1, 2, 5, 10]))
            axes.set(title=f"{title if column == 0 else ''}\n{_share(time, count)}")
        panels[row, 0].set_ylabel("Valid ratio")
    figure.supxlabel("Blocks, by size over that of the drive", fontsize="medium")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=len(_LINES))
    return figure


@report_style()
def zombie_animation(replays: pd.DataFrame) -> bytes:
    """Return the zombie curves over time as an animated GIF, a frame for each time, which begins again at its end."""
    count = times(replays)
    space = _largest_space(replays, count)
    figure, panels = figure_with_panels(2, 2, _HEIGHT_INCH, frame_inch=0.2, sharey=True)
    FigureCanvasAgg(figure)
    drawn = [(axes, of(replays, experiment)) for axes, (experiment, _) in zip(panels, _ZOMBIES, strict=True)]

    def draw(time: int) -> None:
        for axes, shown_here in drawn:
            for line in [*axes.lines]:
                line.remove()
            _draw_zombies(axes, shown_here, time)
        figure.suptitle(_share(time, count), fontsize="medium")

    draw(count - 1)
    for (axes, _), (_, title) in zip(drawn, _ZOMBIES, strict=True):
        axes.set(title=title, xlabel="Blocks, by size over that of the drive", xlim=(0, space), ylim=(0, 1.05))
        axes.legend(loc="upper right")
    panels[0].set_ylabel("Valid ratio")
    # all frames are laid out as this one, once
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    with tempfile.TemporaryDirectory(prefix="animation-") as folder:
        made = Path(folder) / "zombies.gif"
        writer = PillowWriter(fps=_FRAMES_PER_SECOND)
        with writer.saving(figure, str(made), _SCREEN_DPI):
            # the last frame stands for a while
            for time in [*range(count), *[count - 1] * _LAST_FRAMES]:
                draw(time)
                writer.grab_frame()
        return made.read_bytes()


def _share(time: int, count: int) -> str:
    return f"after {100 * (time + 1) / count:.0f} % of the time"


def _largest_space(replays: pd.DataFrame, count: int) -> float:
    """Return how far the longest of all curves reaches."""
    spaces = [
        _zombie_curve(row, time)["space"].max()
        for name, _ in _ZOMBIES
        for row in of(replays, name)
        for time in range(count)
    ]
    return 1.03 * float(np.nanmax(spaces))


def _here(name: str, head: str, unit: str = "", spanner: str = "") -> Column:
    return Column((f"{name}_mean",), head, three_digits, unit, spanner)


def _published(name: str, unit: str = "", spanner: str = "") -> Column:
    return Column((f"published_{name}",), "Published", three_digits, unit, spanner)


def _fsync(hide_repeats: bool = False) -> Column:
    return Column(
        ("fsync",),
        "Writes between fsync",
        lambda count: str(count) if count else "none",
        align_right=False,
        hide_repeats=hide_repeats,
    )


_DEPTHS = (
    _here("depth_mean", "Mean", spanner="Queue depth"),
    _here("depth_largest", "Largest", spanner="Queue depth"),
    _here("drained", "Emptied", "times", "Queue depth"),
)


def _comparisons(study: Study, experiments: Iterable[str], by: str, of: Sequence[str]) -> pd.DataFrame:
    """Return the comparisons of some experiments, of those that the study has, one under another."""
    here = [experiment for experiment in experiments if experiment in study.experiments]
    return pd.concat([study.comparison(experiment, [by], of) for experiment in here], ignore_index=True)


def scale_table(study: Study) -> Table:
    """Return table 1 with the queue depths of figure 2; a row for each number of writes between two fsync."""
    quartiles = ["queue depth first quartile", "queue depth median", "queue depth third quartile"]
    data = study.comparison("scale", ["fsync"], ["workload duration", "maximum request size", *quartiles])
    columns = [
        _fsync(),
        _here("duration_s", "Here", "s", "Duration"),
        _published("duration_s", "s", "Duration"),
        _here("largest_write_kib", "Here", "KiB", "Largest write"),
        _published("largest_write_kib", "KiB", "Largest write"),
        _here("depth_first_quartile", "First quartile", spanner="Queue depth"),
        _here("depth_median", "Median", spanner="Queue depth"),
        _here("depth_third_quartile", "Third quartile", spanner="Queue depth"),
    ]
    return Table(data, tuple(columns), "study")


def file_system_table(study: Study) -> Table:
    """Return what file systems make of the same writes with fsync: a row for each, with both write amplifications.

    That of the file system is what it wrote to the drive over what the program wrote to its files.
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


def loop_table(study: Study) -> Table:
    """Return what it changes whether programs wait for the drive that is measured: a row for each workload and way."""
    of = ["workload duration", "write latency", "queue depth", "largest queue depth", "times drained"]
    data = _comparisons(study, _LOOPS, "fsync", of).sort_values("fsync", kind="stable", ignore_index=True)
    data = data.assign(loop=data["study"].map(_LOOPS))
    columns = [
        _fsync(hide_repeats=True),
        Column(("loop",), "The programs waited for", align_right=False),
        _here("duration_s", "Duration", "s"),
        _here("write_latency_ms", "Latency of writes", "ms"),
        *_DEPTHS,
    ]
    return Table(data, tuple(columns), "fsync")


def told_of_loops(table: Table) -> str:
    """Return what the replays of another drive's trace make of each workload, in words; ``table`` is `loop_table`."""
    closed, opened, untimed = (table.data[table.data["loop"] == name].set_index("fsync") for name in _LOOPS.values())
    sentences = []
    for fsync in closed.index.intersection(opened.index):
        latency = opened["write_latency_ms_mean"][fsync] / closed["write_latency_ms_mean"][fsync]
        duration = opened["duration_s_mean"][fsync] / closed["duration_s_mean"][fsync]
        workload = f"fsync after every {fsync}" if fsync else "no fsync"
        without = ""
        if fsync in untimed.index:
            times_as_long = untimed["duration_s_mean"][fsync] / closed["duration_s_mean"][fsync]
            without = f" Without its times it takes {times_as_long:.2f} times as long."
        sentences.append(
            f"With {workload} the replay of the quicker drive's trace takes {duration:.2f} times as long as the"
            f" programs did, and a write {latency:.0f} times as long.{without}"
        )
    return " ".join(sentences)


def rule_table(study: Study) -> Table:
    """Return what breaking each of the three rules costs: a row for each rule and drive.

    Of the source's drives these are the ones whose durations it prints.

    Columns of the data: rule, drive, follows_s and breaks_s (durations), cost (the second over the first), measure (a
    quantity), follows and breaks (its values).
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
                (follows_s, its), (breaks_s, others) = (side.loc[drive, ["duration_s_mean", column]] for side in sides)
                rows.append((rule, drive, follows_s, breaks_s, breaks_s / follows_s, quantity, its, others))
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
    """Return what figure 1 shows as numbers, a row for each phase of the mix on each drive."""
    quantities = ["workload duration", "queue depth", "largest queue depth", "times drained"]
    data = _comparisons(study, [*_MIX, *_MIX_ELSEWHERE], "numjobs", quantities)
    columns = [
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Phase", WORKLOAD_NAMES.__getitem__, align_right=False),
        Column(("numjobs",), "Threads"),
        _here("duration_s", "Duration", "s"),
        *_DEPTHS,
    ]
    return Table(data, tuple(columns), "drive")


def locality_table(study: Study) -> Table:
    """Return the miss ratios of figure 3, a row for each workload and size, and the durations on one of the drives."""
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
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False, hide_repeats=True),
        Column(("bs_bytes",), "Size", block_label),
        *(
            Column(
                (drive,), drive.rpartition("-")[2], fixed_decimals(3), spanner="Miss ratio, by the map in memory (%)"
            )
            for drive in drives
        ),
        _here("duration_s", "Here", "s", "Duration"),
        _published("duration_s", "s", "Duration"),
    ]
    return Table(data, tuple(columns), "rw")


def zombie_table(study: Study) -> Table:
    """Return tables 2 and 3 with what figures 4 and 5 show as numbers, a row for each number of threads."""
    quantities = ["workload duration", "bandwidth", "occupied space", "valid ratio", "share of zombies"]
    names = [name for name in study.experiments if name.startswith("zombies")]
    data = _comparisons(study, names, "numjobs", quantities)
    columns = [
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False, hide_repeats=True),
        Column(("numjobs",), "Threads"),
        _here("duration_s", "Here", "s", "Duration"),
        _published("duration_s", "s", "Duration"),
        _here("bandwidth_mb_per_s", "Here", "MB/s", "Bandwidth"),
        _published("bandwidth_mb_per_s", "MB/s", "Bandwidth"),
        Column(("occupied_mean",), "Occupied", fixed_decimals(2), spanner="Blocks"),
        Column(("mean_valid_ratio_mean",), "Valid ratio", fixed_decimals(2), spanner="Blocks"),
        Column(("zombies_mean",), "Partly valid", fixed_decimals(2), spanner="Blocks"),
    ]
    return Table(data, tuple(columns), "rw")


def schedulers(study: Study) -> pd.DataFrame:
    """Return a row for each drive, workload and scheduler of the kernel that was recorded and has one in the model.

    Columns: drive, rw, scheduler, modelled (the model's), bandwidth_mb_per_s of the kernel, modelled_mb_per_s, and
    difference_percent, of the model's from the kernel's.
    """
    model = pd.concat(
        [study.summary(name, ["set_scheduler"]) for name in study.experiments if name.startswith(_MODEL)],
        ignore_index=True,
    )
    found = [
        study.summary(name).assign(scheduler=name.removeprefix(_KERNEL))
        for name in study.experiments
        if name.startswith(_KERNEL)
    ]
    kernel = pd.concat(found, ignore_index=True)
    kernel = kernel.assign(modelled=kernel["scheduler"].map(MODELLED))
    table = kernel[["drive", "rw", "scheduler", "modelled", "mean"]].merge(
        model[["drive", "rw", "set_scheduler", "mean"]].rename(columns={"set_scheduler": "modelled"}),
        on=["drive", "rw", "modelled"],
        suffixes=("_kernel", "_model"),
    )
    table = table.rename(columns={"mean_kernel": "bandwidth_mb_per_s", "mean_model": "modelled_mb_per_s"})
    table["difference_percent"] = 100 * (table["modelled_mb_per_s"] / table["bandwidth_mb_per_s"] - 1)
    # a tenth of a percent is what is printed; of less no sign is left
    table["difference_percent"] = table["difference_percent"].where(table["difference_percent"].abs() >= 0.05, 0.0)
    return sort_rows(table, ["drive", "rw", "scheduler"], rw=list(WORKLOAD_NAMES), scheduler=list(MODELLED))


def scheduler_table(found: pd.DataFrame) -> Table:
    """Return `schedulers` as it is printed."""
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False, hide_repeats=True),
        Column(("scheduler",), "Linux", align_right=False, spanner="Scheduler"),
        Column(("modelled",), "Model", align_right=False, spanner="Scheduler"),
        Column(("bandwidth_mb_per_s",), "Linux", three_digits, "MB/s", "Bandwidth"),
        Column(("modelled_mb_per_s",), "Model", three_digits, "MB/s", "Bandwidth"),
        Column(("difference_percent",), "Difference", fixed_decimals(1), "%", "Bandwidth"),
    )
    return Table(found, columns, "rw")


@report_style()
def scheduler_figure(found: pd.DataFrame) -> Figure:
    """Return the bandwidths of `schedulers`: a row of panels for each drive, a panel for each workload."""
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


def scheduler_note(found: pd.DataFrame) -> str:
    """Return how far the model's bandwidths lie from the kernel's, and where they do so most, in words."""
    far = found["difference_percent"].abs()
    within = int((far <= 10).sum())
    worst = found.iloc[int(np.argmax(far.to_numpy()))]
    return (
        f"Of {len(found)} bandwidths {within} are within 10 % of the kernel's, and the median difference is"
        f" {far.median():.1f} %. The largest is that of {worst['scheduler']} on {worst['drive']}"
        f" ({WORKLOAD_NAMES[worst['rw']].lower()}): the model's {worst['modelled']} has"
        f" {three_digits(worst['modelled_mb_per_s'])} MB/s and the kernel {three_digits(worst['bandwidth_mb_per_s'])}."
    )
