"""Compare a simulated drive with measured points: run the points on a model, and tabulate and draw the errors.

An error is the simulated value divided by the measured value, minus 1: 0.05 is 5 % too much.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from iopatterns.base import units
from iopatterns.twin import models, points, simulation
from iopatterns.twin.recorded_errors import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# The columns of latencies by figure, without the direction
LATENCY_COLUMNS = {"lat_mean": "lat_mean_us", "p50": "clat_p50_us", "p99": "clat_p99_us"}
MOST_REQUESTS = 1_000_000  # of a simulated point
_RUNTIME_S = 60.0  # of a point whose runtime is unknown
_DARKEST = 0.5  # error with the darkest colour of the heat map


def simulate_points(
    model: models.Model,
    table: pd.DataFrame,
    *,
    most_requests: int = MOST_REQUESTS,
    seen: Callable[[int], None] = lambda _: None,
) -> pd.DataFrame:
    """Run points on a model; return the simulated figures.

    Each point is simulated until its figures are settled, at most for its runtime, see `simulation.settled`.

    Args:
        model: The model of the drive.
        table: Points with the columns `points.POINT_COLUMNS`.
        most_requests: Limit of the simulated requests of a point.
        seen: Function that is called after each point, with the number of points so far.

    Returns:
        A table of the same index with a column for each of `points.FIGURE_COLUMNS`; NaN for directions without
        requests.

    Raises:
        TwinError: The drive is too small for a point.
    """
    found: dict[simulation.PointWorkload, dict[str, float]] = {}  # repeats of a point are simulated once
    rows = []
    for number, row in enumerate(table.to_dict("records")):
        workload = simulation.PointWorkload.of(row)
        if workload not in found:
            found[workload], _ = simulation.settled(model, workload, measured_times(row), most_requests)
        rows.append(found[workload])
        seen(number + 1)
    return pd.DataFrame(rows, index=table.index, columns=list(points.FIGURE_COLUMNS), dtype=float)


def measured_times(row: Mapping[Any, Any]) -> simulation.Times:
    """Return rate, runtime and ramp time of a measured point; 60 s without a ramp if they are unknown.

    Args:
        row: Values by column of `points.POINT_COLUMNS`.
    """
    runtime_s = float(row["runtime_s"]) if row["runtime_s"] > 0 else _RUNTIME_S
    return simulation.Times(measured_rate(row), runtime_s, float(row["ramp_s"]) if row["ramp_s"] > 0 else 0.0)


def measured_rate(row: Mapping[Any, Any]) -> float:
    """Return the measured rate of a point in requests per second, reads and writes together.

    The rate of one direction gives that of both by the shares of the workload. Without a rate it follows from the
    latency by Little's law: outstanding requests divided by the latency.

    Args:
        row: Values by column of `points.POINT_COLUMNS`.
    """
    shares = points.read_write_shares(row["rw"], row["rwmixread"])
    known = [direction for direction in points.COUNTED_DIRECTIONS if row[f"{direction}_iops"] > 0]
    if known:
        return float(sum(row[f"{each}_iops"] for each in known) / sum(shares[each] for each in known))
    latencies = [row[name] for name in points.FIGURE_COLUMNS if not name.endswith("iops") and row[name] > 0]
    return float(row["iodepth"] * row["numjobs"] * 1e6 / latencies[0])


def errors(table: pd.DataFrame, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of a simulated drive at points.

    Args:
        table: Points with the columns `points.POINT_COLUMNS`.
        simulated: Simulated figures with the columns `points.FIGURE_COLUMNS`, of the same index.

    Returns:
        A row for each point, of the same index: the columns `points.IDENTITY`, ``part``, ``source``, ``direction``
        (read or write: the direction with more requests), and for each figure of `FIGURES` the columns ``measured_``,
        ``model_`` and ``error_`` with its name. The rate counts the directions whose rate was measured. Errors of
        unknown figures are NaN.
    """
    found = table[[*points.IDENTITY, "part", "source"]].copy()
    shares = [points.read_write_shares(rw, mix) for rw, mix in zip(table["rw"], table["rwmixread"], strict=True)]
    reads = pd.Series([share["read"] >= 0.5 for share in shares], index=table.index, dtype=bool)
    found["direction"] = reads.map({True: "read", False: "write"})
    for figure in FIGURES:
        for kind, source in (("measured", table), ("model", simulated)):
            if figure == "iops":
                counted = pd.concat([table[f"{each}_iops"] > 0 for each in points.COUNTED_DIRECTIONS], axis=1)
                rates = source[[f"{each}_iops" for each in points.COUNTED_DIRECTIONS]]
                value = rates.where(counted.to_numpy()).sum(axis=1, min_count=1)
            else:
                column = LATENCY_COLUMNS[figure]
                value = source[f"read_{column}"].where(reads, source[f"write_{column}"])
            found[f"{kind}_{figure}"] = value.where(value > 0)
        found[f"error_{figure}"] = found[f"model_{figure}"] / found[f"measured_{figure}"] - 1
    return found


def summary(errors: pd.DataFrame, by: Sequence[str] = ("part",)) -> pd.DataFrame:
    """Return a summary of the errors of each figure.

    Args:
        errors: The errors, as `errors` returns them.
        by: Columns of ``errors``: each combination of their values has rows of its own. Empty: all points together.

    Returns:
        A row for each combination and figure, with the columns ``by``, ``figure``, ``points`` (the number of points
        with the figure), ``mean``, ``median``, ``p90`` and ``worst`` (of the absolute errors), ``worst_error`` (with
        its sign) and ``worst_point`` (its identity, see `points.identities`). Figures without points have no row.
    """
    rows = []
    groups = errors.groupby(list(by), sort=True, dropna=False) if by else [((), errors)]
    for key, group in groups:
        names = points.identities(group)
        for figure in FIGURES:
            known = group[f"error_{figure}"].dropna()
            if known.empty:
                continue
            absolute = known.abs()
            worst = int(absolute.to_numpy().argmax())
            rows.append(
                {
                    **dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True)),
                    "figure": figure,
                    "points": len(known),
                    "mean": absolute.mean(),
                    "median": absolute.median(),
                    "p90": absolute.quantile(0.9),
                    "worst": absolute.iloc[worst],
                    "worst_error": known.iloc[worst],
                    "worst_point": names[known.index[worst]],
                }
            )
    columns = [*by, "figure", "points", "mean", "median", "p90", "worst", "worst_error", "worst_point"]
    return pd.DataFrame(rows, columns=columns)


def noise_floor(table: pd.DataFrame, by: Sequence[str] = ()) -> pd.DataFrame:
    """Return how much repeated measurements of the same point differ.

    No simulated drive can be expected to have smaller errors. The difference of two measurements is the larger figure
    divided by the smaller, minus 1.

    Args:
        table: Points with the columns `points.POINT_COLUMNS`.
        by: Columns of ``table``: each combination of their values has rows of its own.

    Returns:
        A row for each combination and figure of `FIGURES`, with the columns ``by``, ``figure``, ``pairs`` (the number
        of pairs of measurements), ``median`` and ``p90``. Empty if no point was repeated.
    """
    compared = errors(table, table)  # only for the choice of the direction
    names = points.identities(table)
    pairs = [pair for _, group in compared.groupby(names, sort=False) for pair in combinations(group.index, 2)]
    rows = [
        {
            **{name: table.loc[first, name] for name in by},
            "figure": figure,
            "difference": math.expm1(abs(math.log(compared.loc[first, measured] / compared.loc[second, measured]))),
        }
        for figure in FIGURES
        for measured in [f"measured_{figure}"]
        for first, second in pairs
        if not compared.loc[[first, second], measured].isna().any()
    ]
    differences = pd.DataFrame(rows, columns=[*by, "figure", "difference"])
    grouped = differences.groupby([*by, "figure"], sort=False)["difference"]
    return grouped.agg(pairs="size", median="median", p90=lambda values: values.quantile(0.9)).reset_index()


# --- text and picture -----------------------------------------------------------------------------------------------


def error_table(errors: pd.DataFrame) -> str:
    """Return the errors of the points as text: a line for each point, with the measured and simulated figures.

    Args:
        errors: The errors, as `errors` returns them.
    """
    width = max((len(text) for text in points.point_texts(errors)), default=0)
    titles = "".join(f"{title:>30}" for title in FIGURES.values())
    lines = [
        f"{'point':<{width}}  {'part':<9}{titles}",
        f"{'':<{width}}  {'':<9}" + f"{'measured model error':>30}" * 4,
    ]
    for text, row in zip(points.point_texts(errors), errors.to_dict("records"), strict=True):
        cells = ""
        for figure in FIGURES:
            measured, model, error = (row[f"{kind}_{figure}"] for kind in ("measured", "model", "error"))
            cells += f"{'–':>30}" if math.isnan(error) else f"{measured:>12.5g} {model:>8.4g} {error:>+8.1%}"
        lines.append(f"{text:<{width}}  {row['part']:<9}{cells}")
    return "\n".join(lines)


def summary_table(found: pd.DataFrame, noise: pd.DataFrame | None = None) -> str:
    """Return a summary of errors as text, with the noise floor if there is one.

    Args:
        found: The summary, as `summary` returns it for the parts.
        noise: The noise floor, as `noise_floor` returns it for all points together; None for none.
    """
    lines = [f"{'part':<12}{'figure':<14}{'points':>7}{'mean':>9}{'median':>9}{'p90':>9}{'worst':>9}  worst point"]
    lines += [
        f"{row['part']:<12}{FIGURES[row['figure']]:<14}{row['points']:>7}"
        + "".join(f"{row[name]:>9.1%}" for name in ("mean", "median", "p90"))
        + f"{row['worst_error']:>+9.1%}  {row['worst_point'].strip()}"
        for row in found.to_dict("records")
    ]
    for row in [] if noise is None else noise.to_dict("records"):
        lines.append(
            f"{'noise floor':<12}{FIGURES[row['figure']]:<14}{row['pairs']:>7}{'':>9}"
            f"{row['median']:>9.1%}{row['p90']:>9.1%}"
        )
    return "\n".join(lines)


def error_maps(
    errors: pd.DataFrame, figures: Sequence[str] = tuple(FIGURES), noise: pd.DataFrame | None = None
) -> "Figure":
    """Draw the errors over depth and jobs: a row of panels for each workload, and a column for each figure.

    Points that a fit used (part ``fit``) have a frame. Repeats of a point are one cell, with their mean error.

    Args:
        errors: The errors, as `errors` returns them.
        figures: The figures to draw, keys of `FIGURES`.
        noise: The noise floor (see `noise_floor`) by ``rw`` and ``rwmixread``, whose median the titles of panels then
            state; None for none.
    """
    from matplotlib.figure import Figure

    workloads = sorted(set(zip(errors["rw"], errors["rwmixread"].fillna(-1), errors["bs_bytes"], strict=True)))
    depths, jobs = points.distinct(errors["iodepth"]), points.distinct(errors["numjobs"])
    width, height = 1.0 + 0.42 * max(len(jobs), 4), 0.65 + 0.24 * max(len(depths), 3)
    figure = Figure(figsize=(width * len(figures) + 0.8, height * len(workloads) + 0.4), layout="constrained")
    axes = figure.subplots(len(workloads), len(figures), squeeze=False)
    for line, (rw, mix, bs_bytes) in zip(axes, workloads, strict=True):
        same = (errors["rw"] == rw) & (errors["rwmixread"].fillna(-1) == mix) & (errors["bs_bytes"] == bs_bytes)
        group = errors[same]
        name = f"{rw}{'' if mix < 0 else f' {mix:.0f} % reads'} {units.format_size(int(bs_bytes))}"
        for panel, key in zip(line, figures, strict=True):
            _draw_panel(panel, group, key, depths, jobs)
            panel.set_title(f"{name}: {FIGURES[key]}{_noise_text(noise, rw, mix, key)}", fontsize=7)
    for panel in axes[-1]:
        panel.set_xlabel("jobs", fontsize=7)
    for panel in axes[:, 0]:
        panel.set_ylabel("depth", fontsize=7)
    figure.colorbar(
        axes[0][0].collections[0],
        ax=axes.ravel().tolist(),
        extend="both",
        label="error of the simulated drive",
        shrink=0.9,
    ).ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f} %")
    return figure


def _noise_text(noise: pd.DataFrame | None, rw: str, mix: float, figure: str) -> str:
    if noise is None or noise.empty:
        return ""
    same = (noise["rw"] == rw) & (noise["figure"] == figure)
    if "rwmixread" in noise and mix >= 0:
        same &= noise["rwmixread"] == mix
    return f" (noise {noise.loc[same, 'median'].iloc[0]:.0%})" if same.any() else ""


def _draw_panel(panel: "Axes", group: pd.DataFrame, figure: str, depths: list[int], jobs: list[int]) -> None:
    from matplotlib.patches import Rectangle

    errors = group.pivot_table(f"error_{figure}", "iodepth", "numjobs", aggfunc="mean", dropna=False)
    values = errors.reindex(index=depths, columns=jobs).to_numpy(dtype=float)
    panel.pcolormesh(np.ma.masked_invalid(values), cmap="RdBu_r", vmin=-_DARKEST, vmax=_DARKEST, edgecolors="white")
    fitted = set(
        zip(*(group.loc[group["part"] == points.FIT_PART, name] for name in ("iodepth", "numjobs")), strict=True)
    )
    for y, depth in enumerate(depths):
        for x, job in enumerate(jobs):
            if not math.isnan(values[y, x]):
                colour = "white" if abs(values[y, x]) > 0.7 * _DARKEST else "black"
                text = f"{100 * values[y, x]:+.0f}"
                panel.text(x + 0.5, y + 0.5, text, ha="center", va="center", fontsize=5.5, color=colour)
            if (depth, job) in fitted:
                panel.add_patch(
                    Rectangle((x + 0.04, y + 0.04), 0.92, 0.92, fill=False, edgecolor="black", linewidth=0.8)
                )
    panel.set_xticks(np.arange(len(jobs)) + 0.5, [str(job) for job in jobs], fontsize=6)
    panel.set_yticks(np.arange(len(depths)) + 0.5, [str(depth) for depth in depths], fontsize=6)
    panel.tick_params(length=0)
    panel.grid(visible=False)
    for spine in panel.spines.values():
        spine.set_visible(False)
