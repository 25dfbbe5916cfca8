"""Errors of simulated drives at points that other people measured on the real drives; code for this notebook only."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from iopatterns.analysis.plots import report_style
from iopatterns.analysis.tables import NO_VALUE, WORKLOAD_NAMES, Column, Table, block_label, fixed_decimals
from iopatterns.twin import models, validation
from iopatterns.twin.recorded_errors import FIGURES

PARTS = ("fit", "selection", "test")

# Levels of the part "fit"; `part_of` states the rule
_FITTED_JOBS, _FITTED_DEPTHS = (1, 4), (1, 4, 16)
_FITTED_MIXES = (95, 50)  # percent of reads
_DEEP = 128  # the only depth of some drives
_FITTED_JOBS_DEEP = (1, 4, 8)
_IDENTITY = ("drive", "rw", "rwmixread", "bs_bytes", "iodepth", "numjobs")

_KINDS = {"read": "reads", "randread": "reads", "write": "writes", "randwrite": "writes", "randrw": "mixes"}
_MOST_OUTSTANDING = 64  # the targets are for points up to this number of outstanding requests
_LEAST_TARGET_NOISE = 0.20  # no target where repeated measurements differ by more
_LONGER = "longer-"  # first letters of the experiments that repeat a part of the cells for a longer time
# Targets on test rows: kind of drive, workloads, figures, largest mean and largest error
_RATES = ("iops", "lat_mean")
_TARGETS: Sequence[tuple[Sequence[str], str, Sequence[str], float, float | None]] = (
    (("s4610", "sabrent-rocket-4-plus"), "reads", _RATES, 0.05, 0.15),
    (("sabrent-rocket-4-plus",), "mixes", _RATES, 0.05, 0.15),
    (("s4610", "sabrent-rocket-4-plus"), "writes", _RATES, 0.06, None),
    (("f1",), "reads", _RATES, 0.08, None),
    (("f1",), "writes", _RATES, 0.08, None),
    (("s4610", "f1", "sabrent-rocket-4-plus"), "reads", ("p99",), 0.25, None),
    (("sabrent-rocket-4-plus",), "mixes", ("p99",), 0.25, None),
    (("s4610", "f1", "sabrent-rocket-4-plus"), "writes", ("p99",), 0.25, None),
)


def part_of(point: Mapping[str, Any] | pd.Series) -> str:
    """Return the part of a point: fit, selection or test.

    A point is in the part "fit" if one or four jobs keep 1, 4 or 16 requests outstanding each, in a mix only with 95
    or 50 % of reads; at a depth of 128, if there are 1, 4 or 8 jobs. The other points are divided by the last bit of
    a hash of drive and workload: 0 for selection, 1 for test. Sector format and version of fio are not hashed, so that
    a repeated measurement is in the part of the first one.

    Args:
        point: Drive and workload, by column of points.csv. NaN stands for an unknown number.
    """
    depth, jobs, mix = point["iodepth"], point["numjobs"], point["rwmixread"]
    if depth == _DEEP and jobs in _FITTED_JOBS_DEEP:
        return "fit"
    if depth in _FITTED_DEPTHS and jobs in _FITTED_JOBS and (pd.isna(mix) or mix in _FITTED_MIXES):
        return "fit"
    values = (point[name] for name in _IDENTITY)
    identity = " ".join(each if isinstance(each, str) else "" if pd.isna(each) else f"{each:.0f}" for each in values)
    return ("selection", "test")[hashlib.sha256(identity.encode()).digest()[-1] & 1]


def load_points(path: Path) -> pd.DataFrame:
    """Return the measured points, one per row, with the part of each in the column ``part``.

    Args:
        path: The file points.csv, which data/published/README.md describes.
    """
    points = pd.read_csv(path)
    return points.assign(part=points.apply(part_of, axis=1))


def simulated_figures(points: pd.DataFrame, measurements: pd.DataFrame, *, longer: bool = False) -> pd.DataFrame:
    """Return the figures of the simulated drives at some points.

    Args:
        points: The points, as `load_points` returns them.
        measurements: The measurements of the study, a row for each direction of each repetition.
        longer: Whether to use the experiments that repeat a part of the cells for a longer time.

    Returns:
        A row for each point, with its index and with the columns of figures of ``points``. Figures of points that were
        not measured are missing.
    """
    is_longer = measurements["experiments"].str.startswith(_LONGER)
    rows = measurements[is_longer == longer]
    if "rwmixread" not in rows:
        rows = rows.assign(rwmixread=np.nan)
    keys = list(_IDENTITY)
    found = points[keys].astype({"rwmixread": "float64"})
    for direction in ("read", "write"):
        of_direction = rows[rows["direction"] == direction].astype({"rwmixread": "float64"})
        values = of_direction[keys].assign(**{f"{direction}_iops": of_direction["iops"]})
        for figure, column in (("lat_mean", "lat_mean"), ("clat_p50", "clat_p50"), ("clat_p99", "clat_p99")):
            values[f"{direction}_{figure}_us"] = of_direction[f"{column}_ns"] / 1e3
        found = found.merge(values, on=keys, how="left")
    return found.drop(columns=keys).set_axis(points.index)


def errors_of(points: pd.DataFrame, simulated: pd.DataFrame) -> pd.DataFrame:
    """Return the errors of the simulated drives, as `validation.errors` returns them, with the kind of workload.

    Args:
        points: The points, as `load_points` returns them.
        simulated: The figures of the simulated drives, as `simulated_figures` returns them.

    Returns:
        The rows of the points that were simulated. Columns are added: kind (reads, writes or mixes) and outstanding
        (the largest number of outstanding requests).
    """
    errors = validation.errors(points, simulated)
    errors["kind"] = errors["rw"].map(_KINDS)
    errors["outstanding"] = errors["iodepth"] * errors["numjobs"]
    return errors[errors["model_iops"].notna()]


def _percent(value: float) -> str:
    return NO_VALUE if pd.isna(value) else fixed_decimals(1)(100 * value)


def _signed(value: float) -> str:
    return NO_VALUE if pd.isna(value) else f"{100 * value:+.0f}"


def _place(row: pd.Series) -> str:
    """Return a point in words, such as ``rand. read, 4 KiB, depth 16, 4 jobs``."""
    mix = "" if pd.isna(row["rwmixread"]) else f", {row['rwmixread']:.0f} % reads"
    jobs = "one job" if row["numjobs"] == 1 else f"{row['numjobs']} jobs"
    name = WORKLOAD_NAMES[row["rw"]].lower()
    return f"{name}{mix}, {block_label(row['bs_bytes'])}, depth {row['iodepth']}, {jobs}"


def _worst_row(errors: pd.DataFrame, figure: str) -> pd.Series:
    worst: pd.Series = errors.iloc[int(errors[f"error_{figure}"].abs().to_numpy().argmax())]
    return worst


def leaderboard(errors: pd.DataFrame) -> Table:
    """Return the table of errors of all drives: a row for each drive and figure.

    Args:
        errors: The errors, as `errors_of` returns them.
    """
    rows = []
    for drive, of_drive in errors.groupby("drive", sort=False):
        for figure, name in FIGURES.items():
            row: dict[str, object] = {"drive": drive, "figure": name}
            for part in PARTS:
                of_part = of_drive[(of_drive["part"] == part) & of_drive[f"error_{figure}"].notna()]
                absolute = of_part[f"error_{figure}"].abs()
                row[f"{part}_points"] = len(of_part)
                row |= {f"{part}_{name}": getattr(absolute, name)() for name in ("mean", "median", "max")}
                row[f"{part}_p90"] = absolute.quantile(0.9)
                if part == "test" and len(of_part):
                    worst = _worst_row(of_part, figure)
                    row |= {"test_worst": worst[f"error_{figure}"], "test_worst_at": _place(worst)}
            rows.append(row)
    means = tuple(Column((f"{part}_mean",), part.capitalize(), _percent, "%", "Mean error") for part in PARTS[:2])
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("figure",), "Figure", align_right=False),
        *means,
        *(
            Column((f"test_{name}",), label, form, unit, "Error on test rows")
            for name, label, form, unit in (
                ("points", "Rows", str, ""),
                ("mean", "Mean", _percent, "%"),
                ("median", "Median", _percent, "%"),
                ("p90", "p90", _percent, "%"),
                ("worst", "Worst", _signed, "%"),
            )
        ),
    )
    return Table(pd.DataFrame(rows), columns, "drive")


def drive_errors_table(errors: pd.DataFrame, noise: pd.DataFrame) -> Table:
    """Return the errors of one drive by workload and figure, with the noise floor.

    Args:
        errors: The errors of the drive, as `errors_of` returns them.
        noise: The noise floor by rw and rwmixread, as `validation.noise_floor` returns it.
    """
    rows = []
    keys = ["rw", "rwmixread", "bs_bytes"]
    for _, of_workload in errors.groupby(keys, sort=False, dropna=False):
        rw, mix, bs_bytes = of_workload[keys].iloc[0]
        repeated = noise[(noise["rw"] == rw) & (noise["rwmixread"].fillna(-1) == (-1 if pd.isna(mix) else mix))]
        for figure, name in FIGURES.items():
            row: dict[str, object] = {"rw": rw, "rwmixread": mix, "bs_bytes": bs_bytes, "figure": name}
            for part in PARTS:
                error = of_workload.loc[of_workload["part"] == part, f"error_{figure}"].dropna()
                row |= {f"{part}_points": len(error), f"{part}_mean": error.abs().mean()}
                row[f"{part}_worst"] = error.iloc[int(error.abs().to_numpy().argmax())] if len(error) else np.nan
            floor = repeated[repeated["figure"] == figure]
            row |= {f"noise_{each}": floor[each].iloc[0] if len(floor) else np.nan for each in ("median", "p90")}
            rows.append(row)

    def workload(rw: str, mix: float, bs_bytes: int) -> str:
        name = WORKLOAD_NAMES[rw]
        return f"{name}, {block_label(bs_bytes)}" if pd.isna(mix) else f"{name}, {mix:.0f} % reads"

    columns = [
        Column(("rw", "rwmixread", "bs_bytes"), "Workload", workload, align_right=False, hide_repeats=True),
        Column(("figure",), "Figure", align_right=False),
        *(
            Column((f"{part}_{each}",), each.capitalize(), form, "%", f"{part.capitalize()} rows")
            for part in PARTS
            for each, form in (("mean", _percent), ("worst", _signed))
        ),
    ]
    if len(noise):
        floors = (("median", "Median"), ("p90", "p90"))
        columns += [Column((f"noise_{each}",), label, _percent, "%", "Noise floor") for each, label in floors]
    data = pd.DataFrame(rows)
    return Table(
        data.assign(workload=data.groupby(keys, sort=False, dropna=False).ngroup()), tuple(columns), "workload"
    )


def drive_figure(errors: pd.DataFrame, noise: pd.DataFrame) -> Figure:
    """Return the heat maps of one drive: a row of panels for each workload, a column for each figure.

    All mixes of reads and writes share a row of panels, with their mean error.

    Args:
        errors: The errors of the drive, as `errors_of` returns them.
        noise: The noise floor by rw and rwmixread, as `noise_of` returns it.
    """
    with report_style():
        return validation.error_maps(errors.assign(rwmixread=np.nan), noise=noise[noise["rwmixread"].isna()])


def noise_of(points: pd.DataFrame, by: Sequence[str] = ("rw", "rwmixread")) -> pd.DataFrame:
    """Return how much repeated measurements of one drive differ, as `validation.noise_floor` returns it.

    Args:
        points: The points of one drive.
        by: The columns whose combinations have rows of their own.
    """
    found = validation.noise_floor(points.assign(rwmixread=points["rwmixread"].fillna(-1)), by)
    return found.replace({"rwmixread": {-1: np.nan}}) if "rwmixread" in found else found


def targets_table(errors: pd.DataFrame, points: pd.DataFrame) -> Table:
    """Return the targets on test rows up to 64 outstanding requests, with their outcome.

    The limit of a mean is twice the median of the noise floor if that is more; the limit of the worst error is twice
    the 90th percentile. No target applies where the median of the noise floor exceeds 20 %.

    Args:
        errors: The errors, as `errors_of` returns them.
        points: The points, as `load_points` returns them.
    """
    few = points["iodepth"] * points["numjobs"] <= _MOST_OUTSTANDING
    rows = []
    for drives, kind, figures, mean_limit, worst_limit in _TARGETS:
        for drive in drives:
            of_kind = points["rw"].map(_KINDS) == kind
            of_noise = noise_of(points[(points["drive"] == drive) & of_kind & few], ()).set_index("figure")
            test = errors[(errors["drive"] == drive) & (errors["part"] == "test") & (errors["kind"] == kind)]
            test = test[test["outstanding"] <= _MOST_OUTSTANDING]
            for figure in figures:
                error = test[f"error_{figure}"].dropna().abs()
                floor = of_noise.loc[figure] if figure in of_noise.index else {"median": np.nan, "p90": np.nan}
                noisy = floor["median"] > _LEAST_TARGET_NOISE
                limits = {"mean": np.fmax(mean_limit, 2 * floor["median"])}
                limits["worst"] = np.nan if worst_limit is None else np.fmax(worst_limit, 2 * floor["p90"])
                values = {"mean": error.mean(), "worst": error.max()}
                missed = any(values[name] > limit for name, limit in limits.items())
                outcome = "no target" if noisy or error.empty else "missed" if missed else "met"
                rows.append(
                    {"drive": drive, "kind": kind, "figure": FIGURES[figure], "rows": len(error), "outcome": outcome}
                    | {f"{name}_error": value for name, value in values.items()}
                    | {f"{name}_limit": np.nan if noisy else limit for name, limit in limits.items()}
                    | {"noise_median": floor["median"]}
                )
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("kind",), "Workloads", align_right=False),
        Column(("figure",), "Figure", align_right=False),
        Column(("rows",), "Rows"),
        *(
            Column((f"{name}_{each}",), each.capitalize(), _percent, "%", name.capitalize())
            for name in ("mean", "worst")
            for each in ("error", "limit")
        ),
        Column(("noise_median",), "Noise", _percent, "%"),
        Column(("outcome",), "Outcome", align_right=False),
    )
    data = pd.DataFrame(rows)
    order = {drive: place for place, drive in enumerate(dict.fromkeys(points["drive"]))}
    return Table(data.sort_values("drive", key=lambda drives: drives.map(order), kind="stable"), columns, "drive")


def misses(errors: pd.DataFrame, lacking: Mapping[str, str]) -> Table:
    """Return the largest error of each drive on test rows, of the rate and of the 99th percentile.

    Args:
        errors: The errors, as `errors_of` returns them.
        lacking: By drive, what the model lacks.
    """
    rows = []
    for drive, of_drive in errors[errors["part"] == "test"].groupby("drive", sort=False):
        for figure in ("iops", "p99"):
            worst = _worst_row(of_drive[of_drive[f"error_{figure}"].notna()], figure)
            values = {f"{each}": worst[f"{each}_{figure}"] for each in ("measured", "model", "error")}
            rows.append(
                {"drive": drive, "figure": FIGURES[figure], "at": _place(worst), "lacking": lacking[str(drive)]}
                | values
            )
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("figure",), "Figure", align_right=False),
        Column(("at",), "Largest error at", align_right=False),
        Column(("error",), "Error", _signed, "%"),
        Column(("lacking",), "What the model lacks", align_right=False, hide_repeats=True),
    )
    return Table(pd.DataFrame(rows), columns, "drive")


def engine_cost(points: pd.DataFrame) -> dict[str, float] | None:
    """Return the most that a request can cost a job with io_uring, on the real machine.

    Args:
        points: The points, as `load_points` returns them.

    Returns:
        rate: the most requests per second of a single job; us: its inverse in µs; share: the latter divided by the
        shortest mean latency of reads. None without measurements with io_uring.
    """
    single = points[(points["engine"] == "io_uring") & (points["numjobs"] == 1)]
    if single.empty:
        return None
    rate = single[["read_iops", "write_iops"]].sum(axis=1).max()
    return {"rate": rate, "us": 1e6 / rate, "share": 1e6 / rate / single["read_lat_mean_us"].min()}


def agreement(points: pd.DataFrame, measurements: pd.DataFrame) -> Table:
    """Return how far the cells of the default run are from cells that ran for a longer time.

    Args:
        points: The points, as `load_points` returns them.
        measurements: The measurements of the study.
    """
    distinct = points.drop_duplicates(list(_IDENTITY))
    short = simulated_figures(distinct, measurements)
    long = simulated_figures(distinct, measurements, longer=True)
    # the longer cell takes the place of the measured drive
    compared = validation.errors(distinct.assign(**{str(name): long[name] for name in long}), short)
    compared = compared[long.notna().any(axis=1) & compared["model_iops"].notna()]
    rows = [
        {"drive": drive, "cells": len(of_drive)}
        | {
            f"{figure}_{name}": getattr(of_drive[f"error_{figure}"].abs(), name)()
            for figure in FIGURES
            for name in ("mean", "max")
        }
        for drive, of_drive in compared.groupby("drive", sort=False)
    ]
    columns = (
        Column(("drive",), "Drive", align_right=False),
        Column(("cells",), "Cells"),
        *(
            Column((f"{figure}_{name}",), label, _percent, "%", title)
            for figure, title in FIGURES.items()
            for name, label in (("mean", "Mean"), ("max", "Worst"))
        ),
    )
    return Table(pd.DataFrame(rows), columns, "drive")


def error_record(errors: pd.DataFrame, twins: Path) -> Table:
    """Return the errors of each model on test rows, by workload and number of outstanding requests.

    `recorded_errors` reads the CSV file of this table, for the documentation of the models.

    Args:
        errors: The errors, as `errors_of` returns them.
        twins: The folder of the models.
    """
    test = errors[errors["part"] == "test"]
    few = f"up to {_MOST_OUTSTANDING}", f"more than {_MOST_OUTSTANDING}"
    bands = (test["outstanding"] <= _MOST_OUTSTANDING).map({True: few[0], False: few[1]})
    rows = []
    for (model, workloads, outstanding), group in test.groupby(["drive", "kind", bands], sort=False):
        row = {"model": model, "digest": models.load_model(str(twins / f"{model}.yaml")).digest}
        row |= {"workloads": workloads, "outstanding": outstanding, "points": len(group)}
        for figure in FIGURES:
            row[f"{figure}_mean"] = group[f"error_{figure}"].abs().mean()
            row[f"{figure}_worst"] = _worst_row(group, figure)[f"error_{figure}"]
        rows.append(row)
    order = {name: place for place, name in enumerate(("reads", "mixes", "writes", *few))}
    data = pd.DataFrame(rows)
    data = data.sort_values(["workloads", "outstanding"], key=lambda texts: texts.map(order), kind="stable")
    data = data.sort_values(
        "model",
        key=lambda names: names.map({name: i for i, name in enumerate(dict.fromkeys(errors["drive"]))}),
        kind="stable",
    )
    columns = (
        Column(("model",), "Drive", align_right=False, hide_repeats=True),
        Column(("workloads",), "Workloads", align_right=False),
        Column(("outstanding",), "Outstanding", align_right=False),
        Column(("points",), "Rows"),
        *(
            Column((f"{figure}_{name}",), label, form, "%", title)
            for figure, title in FIGURES.items()
            for name, label, form in (("mean", "Mean", _percent), ("worst", "Worst", _signed))
        ),
    )
    return Table(data, columns, "model")


@report_style()
def leaderboard_figure(errors: pd.DataFrame) -> Figure:
    """Return a heat map of the error of the rate of each drive, above a chart of the errors on test rows.

    A square of the heat map is a number of jobs and a depth, and has the mean of the workloads. Squares with a frame
    were used by a fit. In the chart a dot is the mean, a line reaches from the median to the 90th percentile, and a
    cross is the worst error.

    Args:
        errors: The errors, as `errors_of` returns them.
    """
    drives = list(dict.fromkeys(errors["drive"]))
    figure = Figure(figsize=(7.2, 5.4), layout="constrained")
    halves: Any = figure.subfigures(2, 1, height_ratios=[1.15, 1])
    top, bottom = halves
    maps: Any = top.subplots(2, len(drives), squeeze=False)
    for column, drive in zip(maps.T, drives, strict=True):
        of_drive = errors[errors["drive"] == drive]
        for panel, reads in zip(column, (True, False), strict=True):
            part = of_drive[(of_drive["kind"] == "writes") != reads]
            _draw_map(panel, part)
            panel.set_title(
                f"{drive}\n{'reads, mixes' if (part['kind'] == 'mixes').any() else 'reads' if reads else 'writes'}",
                fontsize=6,
            )
    top.supxlabel("jobs", fontsize=6)
    top.supylabel("depth", fontsize=6)
    bar = top.colorbar(maps[0, 0].collections[0], ax=maps.ravel().tolist(), extend="both", shrink=0.9)
    bar.ax.tick_params(labelsize=6)
    bar.ax.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f} %")
    bar.set_label("error of IOPS", fontsize=6)
    _draw_chart(bottom, errors[errors["part"] == "test"], drives)
    return figure


def _draw_map(panel, errors: pd.DataFrame) -> None:  # type: ignore[no-untyped-def]
    """Draw the mean error of the rate over the number of jobs and the depth."""
    means = errors.pivot_table("error_iops", "iodepth", "numjobs")
    panel.pcolormesh(means.to_numpy(), cmap="RdBu_r", vmin=-0.5, vmax=0.5, edgecolors="white", linewidth=0.3)
    fitted = errors[errors["part"] == "fit"]
    for depth, jobs in set(zip(fitted["iodepth"], fitted["numjobs"], strict=True)):
        x, y = list(means.columns).index(jobs), list(means.index).index(depth)
        panel.plot(
            [x + 0.06, x + 0.94, x + 0.94, x + 0.06, x + 0.06],
            [y + 0.06, y + 0.06, y + 0.94, y + 0.94, y + 0.06],
            color="black",
            linewidth=0.6,
        )
    panel.set_xticks(np.arange(len(means.columns)) + 0.5, [str(each) for each in means.columns], fontsize=5)
    panel.set_yticks(np.arange(len(means.index)) + 0.5, [str(each) for each in means.index], fontsize=5)
    panel.tick_params(length=0)
    panel.grid(visible=False)


def _draw_chart(figure, test: pd.DataFrame, drives: Sequence[str]) -> None:  # type: ignore[no-untyped-def]
    """Draw mean, median, 90th percentile and worst error of each figure: a panel for each figure, a line a drive."""
    panels = figure.subplots(1, len(FIGURES), sharey=True)
    for panel, (name, title) in zip(panels, FIGURES.items(), strict=True):
        for place, drive in enumerate(drives):
            error = 100 * test.loc[test["drive"] == drive, f"error_{name}"].abs().dropna()
            if error.empty:
                continue
            panel.plot(
                [error.median(), error.quantile(0.9)],
                [place, place],
                color="#4878a8",
                linewidth=3,
                solid_capstyle="butt",
            )
            panel.plot(error.mean(), place, "o", color="black", markersize=3.5)
            panel.plot(error.max(), place, "x", color="#b04040", markersize=4)
            panel.annotate(
                f"{error.mean():.0f}",
                (error.mean(), place),
                (0, 4),
                textcoords="offset points",
                fontsize=6,
                ha="center",
            )
        panel.set_title(title, fontsize=7)
        panel.set_xscale("symlog", linthresh=10)
        panel.set_xticks([0, 5, 10, 25, 50, 100, 400], ["0", "5", "10", "25", "50", "100", "400"], fontsize=6)
        panel.set_xlim(0, 1000)
        panel.set_xlabel("error on test rows (%)", fontsize=6)
    panels[0].set_yticks(range(len(drives)), drives, fontsize=6)
    panels[0].invert_yaxis()
