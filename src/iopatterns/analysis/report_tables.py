"""Tables of the report.

The tables compare measured with published values, and show the effects of drive settings and I/O schedulers.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.analysis import quantities
from iopatterns.analysis.statistics import equivalence_test, product_interval, random_to_sequential_ratios
from iopatterns.analysis.tables import (
    NO_VALUE,
    WORKLOAD_NAMES,
    Column,
    Table,
    TableError,
    block_label,
    fixed_decimals,
    interval_decimals,
    interval_format,
    shared_decimals,
    signed_percent,
    sort_rows,
    three_digits,
)
from iopatterns.configuration import factors
from iopatterns.raw import tuning_steps

# Margins of the tests of equivalence: a setting or scheduler has no effect if it changes the ratio of random to
# sequential bandwidth, or a bandwidth, by less than this.
SETTING_MARGIN = 0.10
SCHEDULER_MARGIN = 0.05
# A table of more quantities has no room for intervals
_MOST_WITH_INTERVALS = 2

_BITS = factors.factor_names(factors.FactorRole.MODE_PAGE)  # in the order of RR-9319, section 4.4
_VERDICTS = {"equivalent": "no effect", "different": "effect", "undecided": "undecided"}

_DRIVE = Column(("drive",), "Drive", align_right=False, hide_repeats=True)
_BLOCK_SIZE = Column(("bs_bytes",), "Block size", block_label)
_USE = Column(("use",), "Use", align_right=False)


def bandwidth_table(summary: pd.DataFrame, published: pd.DataFrame, workloads: Sequence[str]) -> Table:
    """Return the table of measured and published bandwidths.

    Args:
        summary: Means in MB/s by drive, rw (fio's name of the workload) and bs_bytes, as `statistics.summarise_groups`
            returns them. A column iodepth_reached (the largest I/O depth that fio reached) must be added.
        published: The published values of all quantities, as `published.load_values` returns them. Those of the
            bandwidth must be in MB/s. An optional column use says how independent a value is of the simulated drive's
            model: fitted, built into the model, or independent.
        workloads: The values of rw to include, in the order of the table, such as read and randread.

    Returns:
        A table with a row for each drive, workload and block size. Its data have these columns:

        - drive, rw and bs_bytes
        - executions: number of repetitions (runs of fio)
        - bandwidth_mean_mb_per_s
        - bandwidth_low_mb_per_s and bandwidth_high_mb_per_s: the ends of the confidence interval of the mean
        - confidence and interval_method: level and method of the interval
        - cv_percent: coefficient of variation
        - iodepth_reached
        - published_mb_per_s: the value published for the drive of the row; missing if there is none
        - error_percent: relative error of the measured mean against the published value; missing if there is none
        - use: the use of the published value; "" if there is none
        - published_<drive>_mb_per_s for each drive with published values, measured or not

    Raises:
        TableError: No drive was measured with one of the workloads, or the intervals have several confidence levels.
    """
    wanted = summary[summary["rw"].isin(workloads)]
    if wanted.empty:
        raise TableError(f"no drive was measured with {' or '.join(workloads)}, so that there is no table of it")
    cells = sort_rows(wanted, ["drive", "rw", "bs_bytes"], rw=workloads)
    data = cells[["drive", "rw", "bs_bytes", "executions"]].copy()
    for name in ("mean", "low", "high"):
        data[f"bandwidth_{name}_mb_per_s"] = cells[name]
    data["confidence"], data["interval_method"] = cells["confidence"], cells["method"]
    data["cv_percent"] = (100 * cells["cv"]).round(9)  # removes the rounding errors of equal values
    data["iodepth_reached"] = cells["iodepth_reached"]
    values = published[(published["quantity"] == "bandwidth") & published["rw"].isin(workloads)]
    own_values = values.assign(use=values.get("use", "")).rename(columns={"value": "published_mb_per_s"})
    keys = ["rw", "bs_bytes"]
    data = _with_published(data, own_values[["drive_key", *keys, "published_mb_per_s", "use"]], keys)
    data["use"] = data["use"].fillna("")
    data["error_percent"] = _error_percent(data["bandwidth_mean_mb_per_s"], data["published_mb_per_s"])
    own = []
    if data["published_mb_per_s"].notna().any():
        own = [
            Column(("published_mb_per_s",), "Value", _as_published, "MB/s", "Published"),
            Column(("error_percent",), "Error", signed_percent, "%", "Published"),
        ]
        if data["use"].any():
            own.append(Column(("use",), "Use", align_right=False, spanner="Published"))
    data, others = _with_other_drives(data, values, keys, "value", "published_{}_mb_per_s")
    here, limits = "Measured here", ("bandwidth_low_mb_per_s", "bandwidth_high_mb_per_s")
    columns = (
        _DRIVE,
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False, hide_repeats=True),
        _BLOCK_SIZE,
        Column(("bandwidth_mean_mb_per_s",), "Mean", fixed_decimals(1), "MB/s", here),
        Column(limits, _interval_label(summary), interval_decimals(1), "MB/s", here),
        Column(("cv_percent",), "CV", fixed_decimals(1), "%", here),
        Column(("iodepth_reached",), "Depth", fixed_decimals(0), "", here),
        *own,
        *(Column((name,), label, _as_published, "MB/s", "Published") for name, label in others),
    )
    return Table(data, columns, "drive")


def ratio_table(ratios: pd.DataFrame, published: pd.DataFrame) -> Table:
    """Return the table of random over sequential bandwidth, measured and published.

    Args:
        ratios: Measured ratios by drive and bs_bytes, as `statistics.random_to_sequential_ratios` returns them.
        published: The published values, as `published.load_values` returns them. Their ratios are computed here.

    Returns:
        A table with a row for each drive, operation (read or write) and block size. Its data have these columns:

        - drive, operation and bs_bytes
        - random_to_sequential: the measured ratio
        - random_to_sequential_low and random_to_sequential_high: the ends of the ratio's confidence interval
        - confidence and interval_method: level and method of the interval
        - published_random_to_sequential: the ratio published for the drive of the row; missing if there is none
        - error_percent: relative error of the measured ratio against the published ratio; missing if there is none
        - published_<drive>_random_to_sequential for each drive with published values, measured or not

    Raises:
        TableError: There are no measured ratios, or their intervals have several confidence levels.
    """
    cells = sort_rows(ratios, ["drive", "operation", "bs_bytes"], operation=("read", "write"))
    data = cells[["drive", "operation", "bs_bytes"]].copy()
    data["random_to_sequential"] = cells["ratio"]
    data["random_to_sequential_low"], data["random_to_sequential_high"] = cells["low"], cells["high"]
    data["confidence"], data["interval_method"] = cells["confidence"], cells["method"]
    bandwidths = published[published["quantity"] == "bandwidth"]
    values = random_to_sequential_ratios(bandwidths, ["drive_key", "bs_bytes"], "value")
    keys = ["operation", "bs_bytes"]
    own_values = values.rename(columns={"ratio": "published_random_to_sequential"})
    data = _with_published(data, own_values[["drive_key", *keys, "published_random_to_sequential"]], keys)
    data["error_percent"] = _error_percent(data["random_to_sequential"], data["published_random_to_sequential"])
    data, others = _with_other_drives(data, values, keys, "ratio", "published_{}_random_to_sequential")
    own = [
        Column(("published_random_to_sequential",), "Ratio", fixed_decimals(2), "", "Published"),
        Column(("error_percent",), "Error (%)", signed_percent, "", "Published"),
    ]
    limits = ("random_to_sequential_low", "random_to_sequential_high")
    columns = (
        _DRIVE,
        Column(("operation",), "Operation", str.capitalize, align_right=False, hide_repeats=True),
        _BLOCK_SIZE,
        Column(("random_to_sequential",), "Ratio", fixed_decimals(2), "", "Measured here"),
        Column(limits, _interval_label(ratios), interval_decimals(2), "", "Measured here"),
        *(own if data["error_percent"].notna().any() else ()),
        *(Column((column,), label, fixed_decimals(2), "", "Published") for column, label in others),
    )
    return Table(data, columns, "drive")


def _with_published(data: pd.DataFrame, values: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Return `data` with the columns of values that were published for its drives.

    Rows without a published value have missing values.

    Args:
        data: A row for each drive and combination of the columns in `by`.
        values: The published values: drive_key (the drive), the columns in `by`, and the columns to add.
        by: The columns that identify a value of a drive, bs_bytes among them.
    """
    own = values.rename(columns={"drive_key": "drive"}).astype({"bs_bytes": "int64"})
    return data.merge(own, on=["drive", *by], how="left", validate="many_to_one")


def _with_other_drives(
    data: pd.DataFrame, values: pd.DataFrame, by: list[str], value: str, pattern: str
) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return `data` with a column of published values for each published drive.

    Args:
        data: A row for each measured drive and combination of the columns in `by`.
        values: The published values: drive_key (the drive), the columns in `by`, and `value`.
        by: The columns that identify a value of a drive, bs_bytes among them.
        value: The column of the values.
        pattern: Format of the new columns' names, with ``{}`` for the drive.

    Returns:
        The data, and a pair of name and label for each new column that needs to be printed. There are no pairs if each
        measured drive has published values of its own.
    """
    names = {key: pattern.format(key) for key in dict.fromkeys(values["drive_key"])}
    for key, name in names.items():
        drive = values.loc[values["drive_key"] == key, [*by, value]].rename(columns={value: name})
        data = data.merge(drive.astype({"bs_bytes": "int64"}), on=by, how="left", validate="many_to_one")
    if set(data["drive"]) <= set(names):
        return data, []
    return data, [(name, key.upper()) for key, name in names.items()]


def _error_percent(measured: pd.Series, reference: pd.Series) -> pd.Series:
    return 100 * (measured / reference.where(reference != 0) - 1)


def level_table(measured: pd.DataFrame, by: Sequence[str], of: Sequence[str]) -> Table:
    """Return the table of some quantities at each level of some factors.

    A factor is a fio option or drive setting that an experiment varies; its levels are the values.

    Args:
        measured: A row per cell (one configuration: a drive, its settings and a workload) with means and published
            values of the quantities, as `Study.comparison` returns it for the same `by` and `of`.
        by: The columns of the factors that the experiment varies, such as iodepth.
        of: The names of the quantities, such as ``latency``.

    Returns:
        A table with the data `measured`. These columns are printed:

        - drive, workload and block size, each if it has several values or is in `by`
        - the other factors in `by`
        - for each quantity, the mean; if there are at most two quantities, the confidence interval; and the published
          value with the error of the mean, if there are published values
        - the coefficient of variation (CV), the largest of all quantities
        - how independent the published value is of the simulated drive's model (fitted, built into the model, or
          independent), if known

    Raises:
        TableError: `measured` has no rows, or its intervals have several confidence levels.
        QuantityError: A quantity does not exist.
    """
    first = by[0] if by else "bs_bytes"
    shown = [name for name in ("drive", "rw", "bs_bytes") if name in by or measured[name].nunique() > 1]
    shown += [name for name in by if name not in shown]
    columns = []
    for name in shown:
        scale = factors.level_scale(name, measured[name])
        texts = WORKLOAD_NAMES if name == "rw" else scale.texts
        is_name = name in ("drive", "rw")
        columns.append(Column((name,), scale.label, texts.__getitem__, align_right=not is_name, hide_repeats=is_name))
    for name in of:
        quantity = quantities.get_quantity(name)
        spanner, stem = f"{quantity.label} ({quantity.unit})", quantity.column
        formatter = shared_decimals(measured[f"{stem}_mean"])
        limits = (f"{stem}_low", f"{stem}_high")
        columns.append(Column((f"{stem}_mean",), "Mean", formatter, spanner=spanner))
        if len(of) <= _MOST_WITH_INTERVALS:
            columns.append(Column(limits, _interval_label(measured), interval_format(formatter), spanner=spanner))
        if measured[f"published_{stem}"].notna().any():
            columns.append(Column((f"published_{stem}",), "Published", _as_published, spanner=spanner))
            columns.append(Column((f"error_{stem}_percent",), "Error (%)", signed_percent, spanner=spanner))
    variations = tuple(f"{quantities.get_quantity(name).column}_cv_percent" for name in of)
    label, spanner = ("CV (%)", spanner) if len(of) == 1 else ("Largest CV (%)", "")
    columns.append(Column(variations, label, _largest, spanner=spanner))
    if measured["use"].any():
        columns.append(_USE)
    group = next((name for name in ("drive", "rw") if name in shown), first)
    return Table(measured, tuple(columns), group if measured[group].nunique() < len(measured) else "study")


def _largest(*values: float) -> str:
    return fixed_decimals(1)(pd.Series(values).max())


def quantity_table(measured: pd.DataFrame, of: Sequence[str]) -> Table:
    """Return the table of several quantities of one cell, with a row per quantity.

    A cell is one configuration: a drive, its settings and a workload. Each drive has its own rows.

    Args:
        measured: A row per cell with means and published values of the quantities, as `Study.comparison` returns it for
            the same `of`. Only the first row of each drive is used.
        of: The names of the quantities, such as ``latency``.

    Returns:
        A table whose data have these columns:

        - drive, quantity (the name) and unit
        - mean, low and high: the mean and the ends of its confidence interval
        - cv_percent: coefficient of variation
        - published: the published value; missing if there is none
        - error_percent: relative error of the mean against the published value
        - use: how independent the published value is of the simulated drive's model (fitted, built into the model, or
          independent)

    Raises:
        TableError: `measured` has no rows, or its intervals have several confidence levels.
        QuantityError: A quantity does not exist.
    """
    rows = []
    for cell in measured.drop_duplicates("drive").to_dict("records"):
        for name in of:
            quantity = quantities.get_quantity(name)
            stem = quantity.column
            statistics = [cell[f"{stem}_{statistic}"] for statistic in ("mean", "low", "high", "cv_percent")]
            published = [cell[f"published_{stem}"], cell[f"error_{stem}_percent"]]
            rows.append((cell["drive"], name, quantity.unit, *statistics, *published, cell["use"]))
    names = ["drive", "quantity", "unit", "mean", "low", "high", "cv_percent", "published", "error_percent", "use"]
    columns = (
        _DRIVE,
        Column(("quantity", "unit"), "Quantity", "{} ({})".format, align_right=False),
        Column(("mean",), "Mean", three_digits),
        Column(("low", "high"), _interval_label(measured), interval_format(three_digits)),
        Column(("cv_percent",), "CV (%)", fixed_decimals(1)),
        Column(("published",), "Published", _as_published),
        Column(("error_percent",), "Error (%)", signed_percent),
        _USE,
    )
    return Table(pd.DataFrame(rows, columns=names), columns, "drive")


def workload_table(summary: pd.DataFrame, factor: str, of: str) -> Table:
    """Return the table of one quantity at each level of a factor, by workload.

    A factor is a fio option or drive setting that an experiment varies; its levels are the values.

    Args:
        summary: Means of the quantity, as `Study.summary` returns them by `factor`. There is one row for each drive,
            workload and level.
        factor: The column of the factor, such as bs_bytes.
        of: The name of the quantity, such as ``bandwidth``.

    Returns:
        A table with a row for each drive and level. Its data have the columns drive and `factor`. For each workload,
        such as randread, there are four more columns:

        - <workload>_mean: the mean, in the quantity's unit
        - <workload>_low and <workload>_high: the ends of the mean's confidence interval
        - <workload>_ratio: the mean divided by the drive's mean at the lowest level

    Raises:
        TableError: `summary` has no rows, or its intervals have several confidence levels.
        QuantityError: The quantity does not exist.
    """
    quantity = quantities.get_quantity(of)
    keys = ["drive", factor]
    data = summary[keys].drop_duplicates().reset_index(drop=True)
    scale = factors.level_scale(factor, data[factor])
    columns = [_DRIVE, Column((factor,), scale.label, scale.texts.__getitem__)]
    for rw in (rw for rw in WORKLOAD_NAMES if rw in set(summary["rw"])):
        part = summary[summary["rw"] == rw][[*keys, "mean", "low", "high"]]
        names = {name: f"{rw}_{name}" for name in ("mean", "low", "high")}
        data = data.merge(part.rename(columns=names), on=keys, how="left", validate="one_to_one")
        lowest = data.sort_values(factor, kind="stable").drop_duplicates("drive").set_index("drive")[f"{rw}_mean"]
        data[f"{rw}_ratio"] = data[f"{rw}_mean"] / data["drive"].map(lowest.where(lowest != 0))
        formatter, spanner = shared_decimals(data[f"{rw}_mean"]), WORKLOAD_NAMES[rw]
        limits = (f"{rw}_low", f"{rw}_high")
        columns += [
            Column((f"{rw}_mean",), "Mean", formatter, quantity.unit, spanner),
            Column(limits, _interval_label(summary), interval_format(formatter), quantity.unit, spanner),
            Column((f"{rw}_ratio",), "Ratio", three_digits, spanner=spanner),
        ]
    return Table(data, tuple(columns), "drive")


def drive_table(drives: pd.DataFrame, number: int | None, measured: Mapping[str, str]) -> Table:
    """Return a table of the drives that a source describes, as the source prints it.

    A last column is added. It shows the kind of drive that was measured in this project in place of the source's drive.

    Args:
        drives: The source's drives, as `published.load_source_drives` returns them.
        number: The number of the table in the source; None if the source has no numbered table.
        measured: The kind of each measured drive, by name, such as ``twin`` (a simulated drive) or ``file``.

    Returns:
        A table whose data have all columns of `drives` except table, and a column measured_as: the kind, or ``not
        measured``.

    Raises:
        TableError: The source describes no drive in a table of this number.
    """
    data = drives[drives["table"] == ("" if number is None else str(number))]
    data = data.drop(columns="table").reset_index(drop=True)
    data["measured_as"] = [measured.get(key, "not measured") for key in data["drive_key"]]
    labels = {"cell": "SSD type", "measured_as": "Here"}
    columns = tuple(
        Column((name,), labels.get(name, name.replace("_", " ").capitalize()), align_right=name in {"size", "year"})
        for name in map(str, data)
        if name != "drive_key"
    )
    group = "cell" if "cell" in data and data["cell"].nunique() == 1 else "drive"
    return Table(data, columns, group)


def scheduler_effect_table(executions: pd.DataFrame, tuned: tuning_steps.TuningRecords, value: str) -> Table:
    """Return the table of bandwidths under I/O schedulers relative to that under CFQ.

    CFQ is an I/O scheduler of Linux. A test of equivalence decides at each block size whether another scheduler changes
    the bandwidth by less than 5 %.

    Args:
        executions: A row for each repetition (run of fio), with the columns drive, rw (fio's name of the workload),
            bs_bytes, set_scheduler (such as ``cfq`` or ``noop``) and `value`.
        tuned: The outcomes of setting the schedulers, as `collect.tuning_records` returns them.
        value: The column of the bandwidth.

    Returns:
        A table with a row for each drive, workload and scheduler other than CFQ. A scheduler that a drive did not take
        has one row, without workload. Columns of the data:

        - drive
        - rw: fio's name of the workload; "" for a scheduler that was not taken
        - scheduler
        - block_sizes: number of block sizes at which the scheduler and CFQ were measured
        - smallest_ratio and largest_ratio over these block sizes: mean bandwidth divided by that under CFQ
        - margin: 0.05
        - verdict: one of these texts

            - "effect": the scheduler has an effect at one block size or more
            - "undecided": there is no such block size, but the test is undecided at one or more
            - "no effect": the scheduler has no effect at any block size
            - the outcome, such as "not applicable", for a scheduler that was not taken

    Raises:
        TableError: The table would have no rows.
        StatisticsError: A bandwidth is missing, or a mean bandwidth is not above 0.
    """
    rows: list[tuple[Any, ...]] = []
    for (drive, rw), group in executions.groupby(["drive", "rw"], sort=False) if len(executions) else ():
        samples = _samples(group, ["set_scheduler", "bs_bytes"], value)
        for scheduler in (name for name in group["set_scheduler"].unique() if name != "cfq"):
            pairs = [
                (sample, samples["cfq", size])
                for (name, size), sample in samples.items()
                if name == scheduler and ("cfq", size) in samples
            ]
            if not pairs:
                continue
            ratios = [above.mean() / below.mean() for above, below in pairs]
            verdicts = {equivalence_test([above], [below], SCHEDULER_MARGIN).verdict for above, below in pairs}
            worst = next(name for name in ("different", "undecided", "equivalent") if name in verdicts)
            rows.append(
                (drive, rw, scheduler, len(pairs), min(ratios), max(ratios), SCHEDULER_MARGIN, _VERDICTS[worst])
            )
    for drive, _, wanted, outcome in _not_taken(tuned, {"scheduler"}):
        rows.append((drive, "", wanted, 0, np.nan, np.nan, SCHEDULER_MARGIN, outcome))
    names = ["drive", "rw", "scheduler", "block_sizes", "smallest_ratio", "largest_ratio", "margin", "verdict"]
    columns = (
        _DRIVE,
        Column(("rw",), "Workload", lambda rw: WORKLOAD_NAMES.get(rw, NO_VALUE), align_right=False, hide_repeats=True),
        Column(("scheduler",), "Scheduler", align_right=False),
        Column(("block_sizes",), "Block sizes"),
        Column(("smallest_ratio", "largest_ratio"), "Largest difference from CFQ (%)", _largest_difference),
        Column(("verdict",), "Effect", align_right=False),
    )
    return Table(pd.DataFrame(rows, columns=names), columns, "rw")


def _largest_difference(low: float, high: float) -> str:
    """Return the largest difference from 1 of two ratios, as text in percent."""
    return fixed_decimals(2)(100 * max(abs(low - 1), abs(high - 1)))


def setting_effect_table(
    executions: pd.DataFrame, tuned: tuning_steps.TuningRecords, value: str, confidence: float, method: str
) -> Table:
    """Return the table of effects of mode page bits on the gap in bandwidth.

    The bits are settings of the drive's caching mode page, such as DRA (disable read-ahead). The gap is the ratio of
    random to sequential bandwidth. A test of equivalence decides whether a bit changes the gap by less than 10 %.

    Args:
        executions: A row for each repetition (run of fio), with the columns drive, rw (fio's name of the workload),
            bs_bytes and `value`, and a column set_<bit> for each bit: 0 or 1 in the cells (measured configurations)
            that set the bit, missing in other cells.
        tuned: The outcomes of setting the bits, as `collect.tuning_records` returns them.
        value: The column of the bandwidth.
        confidence: Confidence level of the intervals, between 0 and 1.
        method: Method of the intervals, ``t`` (Student's t) or ``bca`` (bootstrap).

    Returns:
        A table with a row for each drive, bit, operation (read or write) and block size, and a row for each value of a
        bit that a drive did not take. Columns of the data:

        - drive, setting (such as ``DRA``, or ``DRA=1`` for a value that was not taken), operation and bs_bytes
        - gap_off and gap_on: the gap with the bit 0 and with the bit 1
        - change: gap_on divided by gap_off
        - change_low and change_high: the ends of the confidence interval of the change
        - sequential_change and random_change: bandwidth with the bit 1 divided by bandwidth with the bit 0
        - confidence, interval_method, and margin (0.1)
        - verdict: "no effect", "effect" or "undecided"; for a value that was not taken the outcome, such as "refused"

    Raises:
        TableError: The table would have no rows.
        StatisticsError: The confidence level or the method is invalid, or a mean bandwidth is not above 0.
    """
    rows: list[tuple[Any, ...]] = []
    bits = [bit for bit in _BITS if f"set_{bit}" in executions]
    drives, sizes = dict.fromkeys(executions.get("drive", ())), sorted(set(executions.get("bs_bytes", ())))
    for drive, bit, operation, size in itertools.product(drives, bits, ("read", "write"), sizes):
        here = executions[(executions["drive"] == drive) & (executions["bs_bytes"] == size)]
        samples = _samples(here[here[f"set_{bit}"].notna()], ["rw", f"set_{bit}"], value)
        keys = [(f"rand{operation}", 1), (operation, 1), (operation, 0), (f"rand{operation}", 0)]
        if any(key not in samples for key in keys):
            continue
        random_on, sequential_on, sequential_off, random_off = (samples[key] for key in keys)
        above, below = [random_on, sequential_off], [sequential_on, random_off]
        low, high, used = product_interval(above, below, confidence, method)
        off, on = random_off.mean() / sequential_off.mean(), random_on.mean() / sequential_on.mean()
        changes = (sequential_on.mean() / sequential_off.mean(), random_on.mean() / random_off.mean())
        verdict = _VERDICTS[equivalence_test(above, below, SETTING_MARGIN).verdict]
        levels = (drive, bit, operation, size)
        rows.append((*levels, off, on, on / off, low, high, *changes, confidence, used, SETTING_MARGIN, verdict))
    for drive, setting, wanted, outcome in _not_taken(tuned, set(_BITS)):
        rows.append((drive, f"{setting}={wanted}", "", 0, *[np.nan] * 8, "none", SETTING_MARGIN, outcome))
    names = ["drive", "setting", "operation", "bs_bytes", "gap_off", "gap_on", "change", "change_low", "change_high"]
    names += ["sequential_change", "random_change", "confidence", "interval_method", "margin", "verdict"]
    columns = (
        _DRIVE,
        Column(("setting",), "Bit", align_right=False, hide_repeats=True),
        Column(("operation",), "Operation", str.capitalize, align_right=False, hide_repeats=True),
        Column(("bs_bytes",), "Block size", lambda size: block_label(size) if size else NO_VALUE),
        Column(("sequential_change",), "Seq.", fixed_decimals(2), "", "Bandwidth, 1 over 0"),
        Column(("random_change",), "Rand.", fixed_decimals(2), "", "Bandwidth, 1 over 0"),
        Column(("gap_off",), "Bit 0", fixed_decimals(2), "", "Random over sequential"),
        Column(("gap_on",), "Bit 1", fixed_decimals(2), "", "Random over sequential"),
        Column(("change_low", "change_high"), "Change", interval_decimals(2), "", "Random over sequential"),
        Column(("verdict",), "Effect", align_right=False),
    )
    return Table(pd.DataFrame(rows, columns=names), columns, "setting")


def refusal_table(tuned: tuning_steps.TuningRecords) -> Table:
    """Return the table of attempts to change settings of drives, with their outcomes.

    Attempts with equal drive, setting, wanted value and outcome are one row. A setting that already had the wanted
    value was not changed, and has no row. If all settings already had the wanted values, all have rows.

    Args:
        tuned: The outcomes of settings, as `collect.tuning_records` returns them.

    Returns:
        A table whose data have these columns:

        - drive, setting (such as ``WCE`` or ``scheduler``) and wanted (the wanted value)
        - before and after: the values that the drive reported, as text; "" if none
        - changeable: whether the drive's mask of changeable values allows the change; None if it has no mask
        - exit_status: exit status of the last ``sdparm --set``; missing if no such command was run, for example because
          the mask forbids the change
        - outcome: such as ``changed`` or ``refused``
        - reason: reason of the outcome

    Raises:
        TableError: `tuned` is empty.
    """
    names = ["drive", "setting", "wanted", "before", "changeable", "exit_status", "after", "outcome", "reason"]
    rows = {}
    attempts = [step for step in tuned if step["outcome"] != tuning_steps.ALREADY]
    for step in attempts or tuned:
        sets = [result for result in step["exchange"] if any(word.startswith("--set=") for word in result["command"])]
        row = {**step, "exit_status": sets[-1]["exit_status"] if sets else None}
        rows[step["drive"], step["setting"], step["wanted"], step["outcome"]] = [row[name] for name in names]
    data = pd.DataFrame(list(rows.values()), columns=names)
    data["exit_status"] = pd.array(list(data["exit_status"]), dtype="Int64")
    for name in ("before", "after"):  # a number for a bit, a name for a scheduler
        data[name] = ["" if value is None else str(value) for value in data[name]]
    changeable = {True: "changeable", False: "not changeable"}
    columns = (
        Column(("drive",), "Drive", align_right=False),
        Column(("setting", "wanted"), "Asked for", "{}={}".format, align_right=False),
        Column(("before",), "Before", _or_dash),
        Column(
            ("changeable",), "According to the mask", lambda value: changeable.get(value, NO_VALUE), align_right=False
        ),
        Column(("exit_status",), "Exit status of sdparm --set", _or_dash),
        Column(("after",), "After", _or_dash),
        Column(("outcome",), "Outcome", align_right=False),
    )
    return Table(data, columns, "setting")


def refusal_reason(tuned: tuning_steps.TuningRecords, drive: str) -> str:
    """Return why a drive did not take a setting, as two lines: outcome and reason.

    The first line is the outcome with a colon, such as ``refused:``. If the drive did not take several settings, the
    lines are about the first of them. The text is empty if the drive took all settings.

    Args:
        tuned: The outcomes of settings, as `collect.tuning_records` returns them.
        drive: The name of the drive.
    """
    steps = [step for step in tuning_steps.steps_not_in_effect(tuned) if step["drive"] == drive]
    return f"{steps[0]['outcome']}:\n{steps[0]['reason']}" if steps else ""


def _not_taken(tuned: tuning_steps.TuningRecords, settings: set[str]) -> list[tuple[str, str, int | str, str]]:
    """Return the values of settings that drives did not take, each once.

    Args:
        tuned: The outcomes of settings, as `collect.tuning_records` returns them.
        settings: The names of the settings to include.

    Returns:
        Tuples of drive, setting, wanted value and outcome.
    """
    steps = [step for step in tuning_steps.steps_not_in_effect(tuned) if step["setting"] in settings]
    steps.sort(key=lambda step: _BITS.index(step["setting"]) if step["setting"] in _BITS else 0)
    return list(dict.fromkeys((step["drive"], step["setting"], step["wanted"], step["outcome"]) for step in steps))


def _samples(group: pd.DataFrame, by: list[str], value: str) -> dict[Any, np.ndarray]:
    """Return the values of the repetitions of each cell, as an array per cell.

    Args:
        group: A row per repetition.
        by: The columns that distinguish the cells. The tuple of their values is the cell's key in the result.
        value: The column of the values.
    """
    return {key: rows[value].to_numpy(dtype=np.float64) for key, rows in group.groupby(by, sort=False)}


def _or_dash(value: Any) -> str:
    return NO_VALUE if pd.isna(value) or value == "" else str(value)


def _interval_label(summary: pd.DataFrame) -> str:
    """Return the label of the column of intervals, such as ``95 % interval``.

    Args:
        summary: Any table with the column confidence, the confidence level.

    Raises:
        TableError: The summary has no rows, or several confidence levels.
    """
    levels = sorted(set(summary["confidence"]))
    if not levels:
        raise TableError("the table has no rows")
    if len(levels) != 1:
        raise TableError(f"a table can have one confidence level, not {len(levels)}")
    return f"{100 * levels[0]:g} % interval"


def _as_published(value: float) -> str:
    """Return a published value as text. A value that was converted to another unit has four digits."""
    return NO_VALUE if pd.isna(value) else f"{value:g}" if value == round(value, 4) else f"{value:.4g}"
