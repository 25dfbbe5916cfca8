"""The report's tables: measured against published, random against sequential, one setting against another."""

import itertools
from collections.abc import Callable, Mapping, Sequence
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
    shared_decimals,
    sort_rows,
    three_digits,
)
from iopatterns.configuration import factors
from iopatterns.raw import tuning_steps

# A setting or scheduler counts as without effect where a bandwidth, or the gap between random and sequential access,
# changes by less than this, shown by a test of equivalence.
SETTING_MARGIN = 0.10
SCHEDULER_MARGIN = 0.05
# How many quantities of a table have room for their intervals
_WITH_INTERVALS = 2

_BITS = factors.factor_names(factors.FactorRole.MODE_PAGE)  # in the order of RR-9319, section 4.4
_VERDICTS = {"equivalent": "no effect", "different": "effect", "undecided": "undecided"}


def drive_label(key: str) -> str:
    """Return the printed name of a published drive: ``px02ssf020`` is ``PX02SSF020``."""
    return key.upper()


def bandwidth_table(summary: pd.DataFrame, published: pd.DataFrame, workloads: Sequence[str]) -> Table:
    """Return the table of some workloads' bandwidth, measured, with the published drives' beside it.

    ``summary``: columns drive, rw, bs_bytes, executions, mean, low, high (MB/s), cv (a fraction), method,
    confidence and iodepth_reached, as ``statistics.summarise`` makes it from MB/s. ``published``: as
    ``published.load`` returns it, bandwidth in MB/s. One row per drive, workload and block size. Columns of
    the data: drive, rw, bs_bytes, executions, bandwidth_mean_mb_per_s, bandwidth_low_mb_per_s,
    bandwidth_high_mb_per_s, confidence, interval_method, cv_percent, iodepth_reached and
    published_<drive>_mb_per_s; and for a drive that bears the name of a published one, published_mb_per_s (its own
    value), error_percent (of the mean measured against it) and use (the value's class, for a twin; from the
    optional column ``use`` of ``published``).
    """
    wanted = summary[summary["rw"].isin(workloads)]
    if wanted.empty:
        raise TableError(f"no drive was measured with {' or '.join(workloads)}, so that there is no table of it")
    cells = sort_rows(wanted, ["drive", "rw", "bs_bytes"], rw=workloads)
    data = cells[["drive", "rw", "bs_bytes", "executions"]].copy()
    for name in ("mean", "low", "high"):
        data[f"bandwidth_{name}_mb_per_s"] = cells[name]
    data["confidence"], data["interval_method"] = cells["confidence"], cells["method"]
    data["cv_percent"] = (100 * cells["cv"]).round(9)  # what is left of equal values is the noise of arithmetic
    data["iodepth_reached"] = cells["iodepth_reached"]
    values = published[(published["quantity"] == "bandwidth") & published["rw"].isin(workloads)]
    data, own = _own(data, values)
    data, others = _beside(data, values, ["rw", "bs_bytes"], "value", "published_{}_mb_per_s")
    here, limits = "Measured here", ("bandwidth_low_mb_per_s", "bandwidth_high_mb_per_s")
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Workload", WORKLOAD_NAMES.__getitem__, align_right=False, hide_repeats=True),
        Column(("bs_bytes",), "Block size", block_label),
        Column(("bandwidth_mean_mb_per_s",), "Mean", fixed_decimals(1), "MB/s", here),
        Column(limits, _interval_head(summary), interval_decimals(1), "MB/s", here),
        Column(("cv_percent",), "CV", fixed_decimals(1), "%", here),
        Column(("iodepth_reached",), "Depth", fixed_decimals(0), "", here),
        *own,
        *(Column((name,), head, _as_published, "MB/s", "Published") for name, head in others),
    )
    return Table(data, columns, "drive")


def _own(data: pd.DataFrame, values: pd.DataFrame) -> tuple[pd.DataFrame, list[Column]]:
    """Return ``data`` with the values published for the very drives measured, and the columns to print of them."""
    own = values.assign(use=values.get("use", ""))[["drive_key", "rw", "bs_bytes", "value", "use"]]
    own = own.rename(columns={"drive_key": "drive", "value": "published_mb_per_s"}).astype({"bs_bytes": "int64"})
    data = data.merge(own, on=["drive", "rw", "bs_bytes"], how="left", validate="many_to_one")
    data["use"] = data["use"].fillna("")
    reference = data["published_mb_per_s"]
    data["error_percent"] = 100 * (data["bandwidth_mean_mb_per_s"] / reference.where(reference != 0) - 1)
    if data["published_mb_per_s"].isna().all():
        return data, []
    columns = [
        Column(("published_mb_per_s",), "Value", _as_published, "MB/s", "Published"),
        Column(("error_percent",), "Error", _signed, "%", "Published"),
    ]
    if data["use"].any():
        columns.append(Column(("use",), "Use", str, align_right=False, spanner="Published"))
    return data, columns


def _signed(value: float) -> str:
    return NO_VALUE if pd.isna(value) else f"{value:+.1f}".replace("-", "−")


def ratio_table(ratios: pd.DataFrame, published: pd.DataFrame) -> Table:
    """Return the table of random over sequential bandwidth, with those of the published drives beside it.

    ``ratios``: as ``statistics.random_to_sequential`` makes it by drive and bs_bytes; ``published``: as
    ``published.load`` returns it. One row per drive, operation and block size. Columns of the data: drive,
    operation, bs_bytes, random_to_sequential, random_to_sequential_low, random_to_sequential_high,
    confidence, interval_method and published_<drive>_random_to_sequential; and for a drive that bears the name of a
    published one, published_random_to_sequential (its own value) and error_percent.
    """
    cells = sort_rows(ratios, ["drive", "operation", "bs_bytes"], operation=("read", "write"))
    data = cells[["drive", "operation", "bs_bytes"]].copy()
    data["random_to_sequential"] = cells["ratio"]
    data["random_to_sequential_low"], data["random_to_sequential_high"] = cells["low"], cells["high"]
    data["confidence"], data["interval_method"] = cells["confidence"], cells["method"]
    values = random_to_sequential_ratios(
        published[published["quantity"] == "bandwidth"], ["drive_key", "bs_bytes"], "value"
    )
    own = values.rename(columns={"drive_key": "drive", "ratio": "published_random_to_sequential"})
    keys = ["drive", "operation", "bs_bytes"]
    own = own[[*keys, "published_random_to_sequential"]].astype({"bs_bytes": "int64"})
    data = data.merge(own, on=keys, how="left", validate="many_to_one")
    data["error_percent"] = 100 * (data["random_to_sequential"] / data["published_random_to_sequential"] - 1)
    own_columns = [
        Column(("published_random_to_sequential",), "Ratio", fixed_decimals(2), "", "Published"),
        Column(("error_percent",), "Error (%)", _signed, "", "Published"),
    ]
    name = "published_{}_random_to_sequential"
    data, others = _beside(data, values, ["operation", "bs_bytes"], "ratio", name)
    limits = ("random_to_sequential_low", "random_to_sequential_high")
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("operation",), "Operation", str.capitalize, align_right=False, hide_repeats=True),
        Column(("bs_bytes",), "Block size", block_label),
        Column(("random_to_sequential",), "Ratio", fixed_decimals(2), "", "Measured here"),
        Column(limits, _interval_head(ratios), interval_decimals(2), "", "Measured here"),
        *(own_columns if data["error_percent"].notna().any() else ()),
        *(Column((column,), head, fixed_decimals(2), "", "Published") for column, head in others),
    )
    return Table(data, columns, "drive")


def level_table(measured: pd.DataFrame, by: Sequence[str], of: Sequence[str]) -> Table:
    """Return the table of some quantities at each level of some factors, with published values and errors beside.

    ``measured``: as ``analysis.study.Study.comparison`` returns it for the same ``by`` and ``of``. One row per drive,
    workload and level, with all columns of it. Drive, workload and block size are printed where there are several, and
    intervals where there is room: of two quantities at most. Of the quantities' coefficients of variation the largest
    is printed.
    """
    first = by[0] if by else "bs_bytes"
    shown = [name for name in ("drive", "rw", "bs_bytes") if name in by or measured[name].nunique() > 1]
    shown += [name for name in by if name not in shown]
    columns = []
    for name in shown:
        texts = factors.level_scale(name, measured[name])
        level = WORKLOAD_NAMES.__getitem__ if name == "rw" else texts.texts.__getitem__
        once = name in ("drive", "rw")
        columns.append(Column((name,), texts.label, level, align_right=not once, hide_repeats=once))
    for name in of:
        measure = quantities.get_quantity(name)
        over, stem = f"{measure.label} ({measure.unit})", measure.column
        form = shared_decimals(measured[f"{stem}_mean"])
        limits = (f"{stem}_low", f"{stem}_high")
        columns.append(Column((f"{stem}_mean",), "Mean", form, spanner=over))
        if len(of) <= _WITH_INTERVALS:
            columns.append(Column(limits, _interval_head(measured), _range(form), spanner=over))
        if measured[f"published_{stem}"].notna().any():
            columns.append(Column((f"published_{stem}",), "Published", _as_published, spanner=over))
            columns.append(Column((f"error_{stem}_percent",), "Error (%)", _signed, spanner=over))
    scatter = tuple(f"{quantities.get_quantity(name).column}_cv_percent" for name in of)
    columns.append(
        Column(scatter, "CV (%)" if len(of) == 1 else "Largest CV (%)", _largest, spanner=over if len(of) == 1 else "")
    )
    if measured["use"].any():
        columns.append(Column(("use",), "Use", align_right=False))
    group = next((name for name in ("drive", "rw") if name in shown), first)
    return Table(measured, tuple(columns), group if measured[group].nunique() < len(measured) else "study")


def _largest(*values: float) -> str:
    return fixed_decimals(1)(max((value for value in values if not pd.isna(value)), default=np.nan))


def quantity_table(measured: pd.DataFrame, of: Sequence[str]) -> Table:
    """Return the table of one cell's quantities, a row for each, with published values and errors.

    ``measured``: as ``analysis.study.Study.comparison`` returns it for the same ``of``; its first row of each drive is
    shown. Columns of the data: drive, quantity, unit, mean, low, high, cv_percent, published, error_percent and use.
    """
    rows = []
    for cell in measured.drop_duplicates("drive").to_dict("records"):
        for name in of:
            measure = quantities.get_quantity(name)
            stats = [cell[f"{measure.column}_{stat}"] for stat in ("mean", "low", "high", "cv_percent")]
            published = [cell[f"published_{measure.column}"], cell[f"error_{measure.column}_percent"]]
            rows.append((cell["drive"], name, measure.unit, *stats, *published, cell["use"]))
    names = ["drive", "quantity", "unit", "mean", "low", "high", "cv_percent", "published", "error_percent", "use"]
    data = pd.DataFrame(rows, columns=names)
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("quantity", "unit"), "Quantity", "{} ({})".format, align_right=False),
        Column(("mean",), "Mean", three_digits),
        Column(("low", "high"), _interval_head(measured), _range(three_digits)),
        Column(("cv_percent",), "CV (%)", fixed_decimals(1)),
        Column(("published",), "Published", _as_published),
        Column(("error_percent",), "Error (%)", _signed),
        Column(("use",), "Use", align_right=False),
    )
    return Table(data, columns, "drive")


def workload_table(summary: pd.DataFrame, factor: str, of: str) -> Table:
    """Return the table of one quantity with columns for each workload: a row per drive and level of a factor.

    Args:
        summary: The summary of the quantity, as `Study.summary` returns it by ``factor``.
        factor: The column of the factor.
        of: The name of the quantity.

    Returns:
        A table whose data have the columns drive, the factor, and for each workload <workload>_mean, <workload>_low and
        <workload>_high in the quantity's unit, and <workload>_ratio, the mean divided by that at the lowest level.
    """
    measure = quantities.get_quantity(of)
    workloads = [rw for rw in WORKLOAD_NAMES if rw in set(summary["rw"])]
    keys = ["drive", factor]
    data = summary[keys].drop_duplicates().reset_index(drop=True)
    for rw in workloads:
        part = summary[summary["rw"] == rw][[*keys, "mean", "low", "high"]]
        names = {name: f"{rw}_{name}" for name in ("mean", "low", "high")}
        data = data.merge(part.rename(columns=names), on=keys, how="left", validate="one_to_one")
        lowest = data.sort_values(factor, kind="stable").drop_duplicates("drive").set_index("drive")[f"{rw}_mean"]
        data[f"{rw}_ratio"] = data[f"{rw}_mean"] / data["drive"].map(lowest.where(lowest != 0))
    texts = factors.level_scale(factor, data[factor])
    columns = [
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column((factor,), texts.label, texts.texts.__getitem__),
    ]
    for rw in workloads:
        form = shared_decimals(data[f"{rw}_mean"])
        columns.append(Column((f"{rw}_mean",), "Mean", form, measure.unit, WORKLOAD_NAMES[rw]))
        columns.append(
            Column((f"{rw}_low", f"{rw}_high"), _interval_head(summary), _range(form), measure.unit, WORKLOAD_NAMES[rw])
        )
        columns.append(Column((f"{rw}_ratio",), "Ratio", three_digits, spanner=WORKLOAD_NAMES[rw]))
    return Table(data, tuple(columns), "drive")


def _range(form: Callable[[float], str]) -> Callable[[float, float], str]:
    return lambda low, high: NO_VALUE if pd.isna(low) else f"{form(low)}–{form(high)}"


def drive_table(drives: pd.DataFrame, number: int | None, measured: Mapping[str, str]) -> Table:
    """Return one of a source's tables of its drives, as printed there, with what was measured of each.

    ``drives``: as ``published.load_drives`` returns it; ``number``: of the table in the source, None where it has none;
    ``measured``: the kind (twin, file …) of each drive measured, by name. Columns of the data: those of ``drives``, and
    measured_as.
    """
    data = drives[drives["table"] == ("" if number is None else str(number))]
    data = data.drop(columns="table").reset_index(drop=True)
    data["measured_as"] = [measured.get(key, "not measured") for key in data["drive_key"]]
    heads = {"cell": "SSD type", "measured_as": "Here"}
    printed = [str(name) for name in data if name != "drive_key"]
    columns = tuple(
        Column((name,), heads.get(name, name.replace("_", " ").capitalize()), align_right=name in {"size", "year"})
        for name in printed
    )
    group = "cell" if "cell" in data and data["cell"].nunique() == 1 else "drive"
    return Table(data, columns, group)


def scheduler_effect_table(executions: pd.DataFrame, tuned: tuning_steps.TuningRecords, value: str) -> Table:
    """Return how far each I/O scheduler's bandwidth lies from CFQ's, over all block sizes of a workload.

    ``executions``: one row per execution, columns drive, rw, bs_bytes, set_scheduler and ``value``. ``tuned``: as
    ``collect.tuned`` returns it. One row per drive, workload and scheduler other than cfq; and one per drive and
    scheduler that the drive does not offer. Columns of the data: drive, rw, scheduler, block_sizes, smallest_ratio,
    largest_ratio (of mean bandwidths, over all block sizes), margin and verdict (no effect where the test of
    equivalence holds at every block size, else the worst of them).
    """
    rows: list[tuple[Any, ...]] = []
    for (drive, rw), group in executions.groupby(["drive", "rw"], sort=False) if len(executions) else ():
        samples = _samples(group, ["set_scheduler", "bs_bytes"], value)
        schedulers = list(dict.fromkeys(group["set_scheduler"]))
        for scheduler in [name for name in schedulers if name != "cfq"]:
            sizes = [size for (name, size) in samples if name == scheduler and ("cfq", size) in samples]
            if not sizes:
                continue
            pairs = [(samples[scheduler, size], samples["cfq", size]) for size in sizes]
            ratios = [above.mean() / below.mean() for above, below in pairs]
            verdicts = {equivalence_test([above], [below], SCHEDULER_MARGIN).verdict for above, below in pairs}
            worst = next(name for name in ("different", "undecided", "equivalent") if name in verdicts)
            rows.append(
                (drive, rw, scheduler, len(sizes), min(ratios), max(ratios), SCHEDULER_MARGIN, _VERDICTS[worst])
            )
    for drive, _, wanted, outcome in _left_out(tuned, {"scheduler"}):
        rows.append((drive, "", wanted, 0, np.nan, np.nan, SCHEDULER_MARGIN, outcome))
    names = ["drive", "rw", "scheduler", "block_sizes", "smallest_ratio", "largest_ratio", "margin", "verdict"]
    data = pd.DataFrame(rows, columns=names)
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
        Column(("rw",), "Workload", lambda rw: WORKLOAD_NAMES.get(rw, NO_VALUE), align_right=False, hide_repeats=True),
        Column(("scheduler",), "Scheduler", align_right=False),
        Column(("block_sizes",), "Block sizes"),
        Column(("smallest_ratio", "largest_ratio"), "Largest difference from CFQ (%)", _largest_difference),
        Column(("verdict",), "Effect", align_right=False),
    )
    return Table(data, columns, "rw")


def _largest_difference(low: float, high: float) -> str:
    """Return by how many percent ratios from ``low`` to ``high`` differ from 1 at most; a dash for none."""
    return NO_VALUE if pd.isna(low) else fixed_decimals(2)(100 * max(abs(low - 1), abs(high - 1)))


def setting_effect_table(
    executions: pd.DataFrame, tuned: tuning_steps.TuningRecords, value: str, confidence: float, method: str
) -> Table:
    """Return what each bit of the caching mode page does to the gap between random and sequential access.

    ``executions``: one row per execution with columns drive, rw, bs_bytes, ``value``, and set_<bit> for each bit, set
    in the cells that toggle it. ``tuned``: as ``collect.tuned`` returns it. One row per drive, bit, operation and block
    size; and one per drive and value of a bit that the drive does not take. Columns of the data: drive, setting,
    operation, bs_bytes, gap_off and gap_on (random over sequential bandwidth with the bit 0 and 1), change, change_low,
    change_high (gap_on over gap_off), sequential_change and random_change (bandwidth with the bit 1 over that with 0),
    margin, and verdict: of the change of the gap, by a test of equivalence.
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
        about = (drive, bit, operation, size)
        rows.append((*about, off, on, on / off, low, high, *changes, confidence, used, SETTING_MARGIN, verdict))
    for drive, setting, wanted, outcome in _left_out(tuned, set(_BITS)):
        nothing = (np.nan,) * 8
        rows.append((drive, f"{setting}={wanted}", "", 0, *nothing, "none", SETTING_MARGIN, outcome))
    names = ["drive", "setting", "operation", "bs_bytes", "gap_off", "gap_on", "change", "change_low", "change_high"]
    names += ["sequential_change", "random_change", "confidence", "interval_method", "margin", "verdict"]
    data = pd.DataFrame(rows, columns=names)
    columns = (
        Column(("drive",), "Drive", align_right=False, hide_repeats=True),
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
    return Table(data, columns, "setting")


def refusal_table(tuned: tuning_steps.TuningRecords) -> Table:
    """Return what became of each attempt to change a setting, from the recorded exchanges.

    ``tuned``: records as ``collect.tuned`` returns them. One row per drive, value asked for and outcome; without those
    that were so already, unless all were. Columns of the data: drive, setting, wanted, before, changeable, exit_status
    (of ``sdparm --set``; missing where the drive's mask forbids the attempt), after, outcome, reason.
    """
    names = ["drive", "setting", "wanted", "before", "changeable", "exit_status", "after", "outcome", "reason"]
    rows = {}
    attempts = [step for step in tuned if step["outcome"] != tuning_steps.ALREADY]
    for step in attempts or tuned:
        sets = [said for said in step["exchange"] if any(word.startswith("--set=") for word in said["command"])]
        row = {**step, "exit_status": sets[-1]["exit_status"] if sets else None}
        rows[step["drive"], step["setting"], step["wanted"], step["outcome"]] = [row[name] for name in names]
    data = pd.DataFrame(list(rows.values()), columns=names)
    data["exit_status"] = pd.array(list(data["exit_status"]), dtype="Int64")
    for name in ("before", "after"):  # of a bit a number, of a scheduler its name
        data[name] = ["" if value is None else str(value) for value in data[name]]
    changeable = {True: "changeable", False: "not changeable"}
    columns = (
        Column(("drive",), "Drive", align_right=False),
        Column(("setting", "wanted"), "Asked for", "{}={}".format, align_right=False),
        Column(("before",), "Before", _number),
        Column(("changeable",), "The mask says", lambda value: changeable.get(value, NO_VALUE), align_right=False),
        Column(("exit_status",), "sdparm --set exits with", _number),
        Column(("after",), "After", _number),
        Column(("outcome",), "Outcome", align_right=False),
    )
    return Table(data, columns, "setting")


def refusal_reason(tuned: tuning_steps.TuningRecords, drive: str) -> str:
    """Return outcome and reason, a line each, of the first setting that a drive did not take; empty without any."""
    found = [step for step in tuning_steps.steps_not_in_effect(tuned) if step["drive"] == drive]
    return f"{found[0]['outcome']}:\n{found[0]['reason']}" if found else ""


def _left_out(tuned: tuning_steps.TuningRecords, settings: set[str]) -> list[tuple[str, str, int | str, str]]:
    """Return (drive, setting, wanted, outcome) of each value that was not taken, once."""
    steps = [step for step in tuning_steps.steps_not_in_effect(tuned) if step["setting"] in settings]
    steps.sort(key=lambda step: _BITS.index(step["setting"]) if step["setting"] in _BITS else 0)
    return list(dict.fromkeys((step["drive"], step["setting"], step["wanted"], step["outcome"]) for step in steps))


def _samples(group: pd.DataFrame, by: list[str], value: str) -> dict[Any, np.ndarray]:
    """Return the values of the executions of each cell, by the levels that tell the cells apart."""
    return {key: rows[value].to_numpy(dtype=np.float64) for key, rows in group.groupby(by, sort=False)}


def _number(value: Any) -> str:
    return NO_VALUE if pd.isna(value) or value == "" else str(value)


def _beside(
    data: pd.DataFrame, values: pd.DataFrame, by: list[str], value: str, pattern: str
) -> tuple[pd.DataFrame, list[tuple[str, str]]]:
    """Return ``data`` with a column per published drive, and the (name, head) of those columns to print.

    None is printed if each drive measured has published values of its own.
    """
    beside = []
    keys = list(dict.fromkeys(values["drive_key"]))
    for key in keys:
        name = pattern.format(key)
        drive = values.loc[values["drive_key"] == key, [*by, value]].rename(columns={value: name})
        data = data.merge(drive.astype({"bs_bytes": "int64"}), on=by, how="left", validate="many_to_one")
        beside.append((name, drive_label(key)))
    return data, [] if set(data["drive"]) <= set(keys) else beside


def _interval_head(summary: pd.DataFrame) -> str:
    levels = sorted(set(summary["confidence"]))
    if not levels:
        raise TableError("the table has no rows")
    if len(levels) != 1:
        raise TableError(f"one table has one confidence level, not {len(levels)}")
    return f"{100 * levels[0]:g} % interval"


def _as_published(value: float) -> str:
    return NO_VALUE if pd.isna(value) else f"{value:g}"
