"""Queue depths, miss ratios of the map cache and zombie curves: Kapoor's figures, drawn of replays."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis.plots import WIDTH_INCH, styled
from iopatterns.analysis.replays import SHOWN, zombie_curve
from iopatterns.analysis.tables import WORKLOAD_NAMES

_GREYS = ("0.0", "0.45", "0.7")
_DASHES = ("-", "--", ":")
_MIX = ("mix-random-write", "mix-random-read", "mix-sequential-write")
_HEIGHT_INCH = 2.3


def shown(measurements: Path) -> pd.DataFrame:
    """Return what figures are drawn of: a row for each replay with what was asked, ``depth`` and ``blocks``.

    These two are those of a raw file, see `measuring.replays.measure`.
    """
    table = pd.read_parquet(measurements).drop_duplicates(["drive", "cell"]).reset_index(drop=True)
    content = table.pop(SHOWN).map(json.loads)
    return table.assign(depth=content.map(lambda each: each["depth"]), blocks=content.map(lambda each: each["blocks"]))


def of(replays: pd.DataFrame, experiment: str) -> list[dict[str, Any]]:
    """Return the replays of an experiment, by the number of jobs and then by that of writes between two fsync."""
    rows = replays[replays["experiments"].map(lambda names: experiment in names.split())]
    rows = rows.sort_values([name for name in ("numjobs", "fsync") if name in rows], kind="stable")
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


@styled()
def depth_figure(replays: pd.DataFrame) -> Figure:
    """Return figure 1: the extremes of the queue depth over time in the three phases of the mix, one after another."""
    figure = Figure(figsize=(WIDTH_INCH, _HEIGHT_INCH), layout="constrained")
    axes = figure.add_subplot()
    end_s = 0.0
    for number, replay in enumerate(each for name in _MIX for each in of(replays, name)):
        depth: Mapping[str, Any] = replay["depth"]
        seconds = end_s + np.arange(len(depth["most"])) * depth["part_ns"] / 1e9
        axes.fill_between(seconds, depth["least"], depth["most"], step="post", color=_GREYS[number], linewidth=0)
        axes.text(seconds.mean(), 35, WORKLOAD_NAMES[replay["rw"]], ha="center")
        end_s = float(seconds[-1]) + depth["part_ns"] / 1e9
        axes.axvline(end_s, color="0.5", linewidth=0.5)
    axes.set(xlim=(0, end_s), ylim=(0, 39), xlabel="Time (s), phases put one after another", ylabel="Queue depth")
    return figure


@styled()
def box_figure(replays: pd.DataFrame) -> Figure:
    """Return figure 2: the queue depths with and without fsync, each event counting once; whiskers as J. W. Tukey's."""
    figure = Figure(figsize=(WIDTH_INCH, 1.7), layout="constrained")
    axes = figure.add_subplot()
    rows = of(replays, "scale")
    depths = [np.repeat(np.arange(len(row["depth"]["events"])), row["depth"]["events"]) for row in rows]
    axes.boxplot(depths, orientation="horizontal", showfliers=False, medianprops={"color": "0.0", "linewidth": 2.5})
    labels = [f"fsync after {row['fsync']}" if row["fsync"] else "no fsync" for row in rows]
    axes.set_yticks(range(1, len(rows) + 1), labels)
    axes.set(xlabel="Queue depth", xlim=(-1, 33))
    return figure


@styled()
def zombie_figure(replays: pd.DataFrame) -> Figure:
    """Return figures 4 and 5: the zombie curves after large sequential and small random writes, by threads."""
    figure = Figure(figsize=(WIDTH_INCH, _HEIGHT_INCH), layout="constrained")
    panels: Sequence[tuple[str, str]] = (
        ("zombies-large", "Large sequential writes"),
        ("zombies-small", "Small random writes"),
    )
    for number, (experiment, title) in enumerate(panels):
        axes = figure.add_subplot(1, 2, number + 1)
        for replay, colour, dashes in zip(of(replays, experiment), _GREYS, _DASHES, strict=True):
            curve = zombie_curve(replay["blocks"])
            threads = f"{replay['numjobs']} thread{'s' if replay['numjobs'] > 1 else ''}"
            axes.step(curve["space"], curve["valid_ratio"], where="pre", color=colour, linestyle=dashes, label=threads)
        axes.set(title=title, xlabel="Blocks, by size over that of the drive", ylabel="Valid ratio", ylim=(0, 1.05))
        axes.set_xlim(left=0)
        axes.legend()
    return figure
