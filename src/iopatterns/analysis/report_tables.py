"""Tables of the report: measured against published values, and effects of settings and schedulers."""

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
    """Return the table of measured and published bandwidth, with a row for each drive, workload and block size.

    Args:
        summary: Means in MB/s by drive, rw and bs_bytes, as `statistics.summarise_groups` returns them, and the
            column iodepth_reached.
        published: The published values, see `published.load_values`, in MB/s; its optional column use is the evidence
            class of a value.
        workloads: The values of rw to include.

    Returns:
        A table whose data have the columns drive, rw, bs_bytes, executions, bandwidth_mean_mb_per_s,
        bandwidth_low_mb_per_s, bandwidth_high_mb_per_s, confidence, interval_method, cv_percent and iodepth_reached;
        published_<drive>_mb_per_s for each published drive; and for measured drives with the name of a published
        drive, published_mb_per_s, error_percent (of the measured mean) and use.

    Raises:
        TableError: No drive was measured with one of the workloads.
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
    """Return the table of random over sequential bandwidth, with a row for each drive, operation and block size.

    Args:
        ratios: Measured ratios by drive and bs_bytes, as `statistics.random_to_sequential_ratios` returns them.
        published: The published values, see `published.load_values`.

    Returns:
        A table whose data have the columns drive, operation, bs_bytes, random_to_sequential,
        random_to_sequential_low, random_to_sequential_high, confidence and interval_method;
        published_<drive>_random_to_sequential for each published drive; and for measured drives with the name of a
        published drive, published_random_to_sequential and error_percent.
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
    """Return `data` with the values published for the measured drives.

    Args:
        data: A row for each drive and level of `by`.
        values: The columns to add, by drive_key and `by`.
        by: The columns of the levels, bs_bytes among them.
    """
    own = values.rename(columns={"drive_key": "drive"}).astype({"bs_bytes": "int64"})
    return data.merge(own, on=["drive", *by], how="left", validate="many_to_one")


def _with_other_drives(
    data: pd.DataFrame, values: pd.DataFrame, by: list[str], value: str, pattern: str
) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return `data` with a column for each published drive, and the names and labels of these columns.

    No names are returned if each measured drive has published values of its own: the columns need not be printed then.
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
    """Return the table of some quantities at each level of some factors, with published values and errors.

    Drive, workload and block size are printed if there are several. Intervals are printed for at most two quantities.
    The largest coefficient of variation of the quantities is printed.

    Args:
        measured: The quantities, as `Study.comparison` returns them for equal `by` and `of`. All its columns become
            data of the table.
        by: The columns of the factors.
        of: The names of the quantities.
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
    """Return the table of the quantities of one cell, with a row for each quantity of each drive.

    Args:
        measured: The quantities, as `Study.comparison` returns them for equal `of`. The first row of a
            drive is used.
        of: The names of the quantities.

    Returns:
        A table whose data have the columns drive, quantity, unit, mean, low, high, cv_percent, published,
        error_percent and use.
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
    """Return the table of one quantity, with a row per drive and level and columns per workload.

    Args:
        summary: The summary of the quantity, as `Study.summary` returns it by `factor`.
        factor: The column of the factor.
        of: The name of the quantity.

    Returns:
        A table whose data have the columns drive, the factor, and for each workload <workload>_mean, <workload>_low and
        <workload>_high in the unit of the quantity, and <workload>_ratio, the mean divided by the mean at the lowest
        level.
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
    """Return one of a source's tables of its drives, with the kind of drive measured in place of each.

    Args:
        drives: The source's drives, as `published.load_source_drives` returns them.
        number: The number of the table in the source; None if the source has no numbered table.
        measured: The kind (twin, file …) of each measured drive.

    Returns:
        A table whose data have the columns of `drives` and measured_as.
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
    """Return the table of the differences between the bandwidth under each I/O scheduler and that under CFQ.

    Args:
        executions: A row for each repetition, with the columns drive, rw, bs_bytes, set_scheduler and `value`.
        tuned: The outcomes of settings, as `collect.tuning_records` returns them.
        value: The column of the bandwidth.

    Returns:
        A table with a row for each drive, workload and scheduler other than CFQ, and for each scheduler that a drive
        does not offer. Columns of the data: drive, rw, scheduler, block_sizes (their number), smallest_ratio and
        largest_ratio (of mean bandwidths, over all block sizes), margin, and verdict: "no effect" if the test of
        equivalence shows it at each block size, otherwise the worst verdict.
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
    """Return the largest difference of ratios between `low` and `high` from 1, as text in percent."""
    return fixed_decimals(2)(100 * max(abs(low - 1), abs(high - 1)))


def setting_effect_table(
    executions: pd.DataFrame, tuned: tuning_steps.TuningRecords, value: str, confidence: float, method: str
) -> Table:
    """Return the table of the effects of mode page bits on the gap between random and sequential access.

    The gap is random over sequential bandwidth.

    Args:
        executions: A row for each repetition, with the columns drive, rw, bs_bytes, `value`, and set_<bit> for each
            bit, which has a value in the cells that set the bit.
        tuned: The outcomes of settings, as `collect.tuning_records` returns them.
        value: The column of the bandwidth.
        confidence: Confidence level of the intervals.
        method: Method of the intervals, ``t`` or ``bca``.

    Returns:
        A table with a row for each drive, bit, operation and block size, and for each value of a bit that a drive did
        not take. Columns of the data: drive, setting, operation, bs_bytes; gap_off and gap_on (with the bit 0 and 1);
        change, change_low and change_high (gap_on over gap_off); sequential_change and random_change (bandwidth with
        the bit 1 over that with the bit 0); confidence, interval_method, margin; and the verdict of a test of
        equivalence on the change of the gap.
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
    """Return the table of attempts to change a setting, with a row for each drive, value and outcome.

    Settings that already had the wanted value are left out, unless all settings had it.

    Args:
        tuned: The outcomes of settings, as `collect.tuning_records` returns them.

    Returns:
        A table whose data have the columns drive, setting, wanted, before, changeable, exit_status (of the last
        ``sdparm --set``; missing if the drive's mask forbids the attempt), after, outcome and reason.
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
    """Return outcome and reason, on two lines, of the first setting that a drive did not take.

    Returns an empty string if the drive took all settings.
    """
    steps = [step for step in tuning_steps.steps_not_in_effect(tuned) if step["drive"] == drive]
    return f"{steps[0]['outcome']}:\n{steps[0]['reason']}" if steps else ""


def _not_taken(tuned: tuning_steps.TuningRecords, settings: set[str]) -> list[tuple[str, str, int | str, str]]:
    """Return drive, setting, wanted value and outcome of each value that a drive did not take, without duplicates."""
    steps = [step for step in tuning_steps.steps_not_in_effect(tuned) if step["setting"] in settings]
    steps.sort(key=lambda step: _BITS.index(step["setting"]) if step["setting"] in _BITS else 0)
    return list(dict.fromkeys((step["drive"], step["setting"], step["wanted"], step["outcome"]) for step in steps))


def _samples(group: pd.DataFrame, by: list[str], value: str) -> dict[Any, np.ndarray]:
    """Return the values of the repetitions of each cell, with the cell's levels of `by` as key."""
    return {key: rows[value].to_numpy(dtype=np.float64) for key, rows in group.groupby(by, sort=False)}


def _or_dash(value: Any) -> str:
    return NO_VALUE if pd.isna(value) or value == "" else str(value)


def _interval_label(summary: pd.DataFrame) -> str:
    """Return the column label of intervals, such as ``95 % interval``.

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
    return NO_VALUE if pd.isna(value) else f"{value:g}"
