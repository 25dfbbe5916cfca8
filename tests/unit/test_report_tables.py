"""Tables of drives, schedulers, settings, refusals and quantities."""

from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from recorded import TINY
from support import FIXTURE

from iopatterns.analysis import quantities
from iopatterns.analysis.published import load_source_drives
from iopatterns.analysis.report_tables import (
    SCHEDULER_MARGIN,
    SETTING_MARGIN,
    drive_table,
    level_table,
    quantity_table,
    refusal_reason,
    refusal_table,
    scheduler_effect_table,
    setting_effect_table,
    workload_table,
)
from iopatterns.analysis.statistics import product_interval
from iopatterns.analysis.tables import NO_VALUE, Table, TableError, printed_frame
from iopatterns.raw.tuning_steps import TuningRecord

DRIVES = load_source_drives(FIXTURE / "data/published/tiny")
REFUSING = [step for step in TINY.steps if step["experiments"] == ["refusing"]]
# Factors of repetitions that vary little and much
EXACT, NOISY = (0.99, 1.0, 1.01), (0.5, 1.0, 1.5)
WORKLOADS = ("read", "randread", "write", "randwrite")


def record(drive: str = "d", setting: str = "DRA", wanted: int | str = 1, **changes: Any) -> TuningRecord:
    """Return the record of a setting that the drive accepted and ignored, with changes."""
    step: Any = {"drive": drive, "cell": "c", "experiments": ["refusing"], "measured": False, "setting": setting}
    step |= {"wanted": wanted, "before": 0, "after": 0, "changeable": True, "outcome": "ignored"}
    step |= {"reason": f"accepted, but {setting} still reads back as 0", "exchange": [], **changes}
    return cast(TuningRecord, step)


def command(action: str, exit_status: int = 0) -> dict[str, Any]:
    return {"command": ["sdparm", action, "{drive}"], "exit_status": exit_status, "stdout": "", "stderr": ""}


def toggle(
    bit: str,
    off: Mapping[str, float],
    on: Mapping[str, float],
    *,
    drive: str = "d",
    size: int = 4096,
    spread: tuple[float, ...] = EXACT,
) -> pd.DataFrame:
    """Return repetitions with a bit 0 and 1; `off` and `on` are the means by workload."""
    rows = [
        {"drive": drive, "rw": rw, "bs_bytes": size, f"set_{bit}": level, "mb": mean * factor}
        for level, means in ((0, off), (1, on))
        for rw, mean in means.items()
        for factor in spread
    ]
    return pd.DataFrame(rows).astype({f"set_{bit}": "Int64"})


def reads(sequential: float, random: float) -> dict[str, float]:
    return {"read": sequential, "randread": random}


def settings(*parts: pd.DataFrame, tuned: list[TuningRecord] | None = None) -> pd.DataFrame:
    return setting_effect_table(pd.concat(parts), tuned or [], "mb", 0.95, "t").data


def scheduled(
    means: Mapping[str, float],
    *,
    drive: str = "d",
    rw: str = "read",
    sizes: tuple[int, ...] = (4096,),
    spread: tuple[float, ...] = EXACT,
) -> pd.DataFrame:
    """Return repetitions under each scheduler, with its mean at every block size."""
    rows = [
        {"drive": drive, "rw": rw, "bs_bytes": size, "set_scheduler": scheduler, "mb": mean * factor}
        for scheduler, mean in means.items()
        for size in sizes
        for factor in spread
    ]
    return pd.DataFrame(rows)


def schedulers(*parts: pd.DataFrame, tuned: list[TuningRecord] | None = None) -> pd.DataFrame:
    return scheduler_effect_table(pd.concat(parts), tuned or [], "mb").data


# ---- Drives


def test_the_drive_table_has_the_drives_of_one_table_of_the_source() -> None:
    assert list(drive_table(DRIVES, 2, {"other": "file"}).data["drive_key"]) == ["ssdsc2kg480g7"]


def test_the_drive_table_has_the_kind_of_each_measured_drive() -> None:
    drives = DRIVES.assign(table="1")
    data = drive_table(drives, 1, {"c400": "twin", "other": "file"}).data
    assert data.set_index("drive_key")["measured_as"].to_dict() == {"c400": "twin", "ssdsc2kg480g7": "not measured"}


def test_drives_are_printed_as_in_the_source() -> None:
    frame = printed_frame(drive_table(DRIVES, 1, {"c400": "twin"}))
    assert list(frame.iloc[0]) == ["C400-64", "MLC", "64 GB", "—", "Micron", "< 2012", "twin"]


def test_a_table_number_that_the_source_does_not_have_is_refused() -> None:
    with pytest.raises(TableError, match="no rows"):
        drive_table(DRIVES, 3, {"other": "file"})


# ---- Schedulers


def test_there_is_a_row_per_drive_workload_and_scheduler_except_cfq() -> None:
    means = {"none": 100.0, "cfq": 100.0, "deadline": 100.0}
    parts = [scheduled(means, drive=drive, rw=rw) for drive in ("a", "b") for rw in ("read", "randread")]
    data = schedulers(*parts)
    assert list(data[["drive", "rw", "scheduler"]].itertuples(index=False, name=None)) == [
        (drive, rw, scheduler)
        for drive in ("a", "b")
        for rw in ("read", "randread")
        for scheduler in ("none", "deadline")
    ]


def test_scheduler_ratios_are_the_smallest_and_largest_of_all_block_sizes() -> None:
    small = scheduled({"none": 90.0, "cfq": 100.0}, sizes=(4096,))
    middle = scheduled({"none": 100.0, "cfq": 100.0}, sizes=(8192,))
    large = scheduled({"none": 300.0, "cfq": 200.0}, sizes=(16384,))
    row = schedulers(small, middle, large).iloc[0]
    assert (row["block_sizes"], row["smallest_ratio"], row["largest_ratio"]) == pytest.approx((3, 0.9, 1.5))


def test_block_sizes_without_a_measurement_of_cfq_are_not_compared() -> None:
    data = schedulers(scheduled({"none": 100.0, "cfq": 100.0}), scheduled({"none": 500.0}, sizes=(8192,)))
    assert (data["block_sizes"][0], data["largest_ratio"][0]) == (1, 1)


@pytest.mark.parametrize(
    ("mean", "spread", "verdict"),
    [
        (100.0, EXACT, "no effect"),
        (150.0, EXACT, "effect"),
        (107.0, (0.999, 1.0, 1.001), "effect"),  # beyond the margin of schedulers, within the margin of settings
        (100.0, NOISY, "undecided"),
        (100.0, (1.0,), "undecided"),
    ],
)
def test_scheduler_verdicts_come_from_a_test_of_equivalence(
    mean: float, spread: tuple[float, ...], verdict: str
) -> None:
    data = schedulers(scheduled({"none": mean, "cfq": 100.0}, spread=spread))
    assert (data["margin"][0], data["verdict"][0]) == (SCHEDULER_MARGIN, verdict)


def test_the_worst_verdict_of_all_block_sizes_counts() -> None:
    means = {"none": 100.0, "cfq": 100.0}
    parts = [scheduled(means), scheduled(means, sizes=(8192,), spread=NOISY)]
    assert schedulers(*parts)["verdict"][0] == "undecided"
    parts.append(scheduled({"none": 150.0, "cfq": 100.0}, sizes=(16384,)))
    assert schedulers(*parts)["verdict"][0] == "effect"


def test_a_scheduler_that_the_drive_does_not_offer_has_one_row() -> None:
    missing = record("d", "scheduler", "kyber", before="cfq", after="cfq", outcome="not applicable")
    data = schedulers(scheduled({"none": 100.0, "cfq": 100.0}), tuned=[missing, missing])
    assert list(data["scheduler"]) == ["none", "kyber"]
    assert list(data[["rw", "block_sizes", "verdict"]].loc[1]) == ["", 0, "not applicable"]
    table = scheduler_effect_table(scheduled({"none": 100.0, "cfq": 100.0}), [missing], "mb")
    assert list(printed_frame(table).iloc[1]) == ["d", NO_VALUE, "kyber", "0", NO_VALUE, "not applicable"]


def test_schedulers_are_listed_if_the_drive_took_none_of_them() -> None:
    missing = [record("d", "scheduler", name, outcome="not applicable") for name in ("cfq", "none")]
    data = scheduler_effect_table(pd.DataFrame(), missing, "mb").data
    assert list(data["scheduler"]) == ["cfq", "none"]


def test_schedulers_that_were_taken_and_other_settings_have_no_extra_row() -> None:
    steps = [record(wanted=1), record("d", "scheduler", "none", outcome="changed", measured=True)]
    assert len(schedulers(scheduled({"none": 100.0, "cfq": 100.0}), tuned=steps)) == 1


def test_schedulers_are_printed_with_their_largest_difference() -> None:
    table = scheduler_effect_table(
        pd.concat([scheduled({"none": 90.0, "cfq": 100.0}), scheduled({"none": 110.0, "cfq": 100.0}, sizes=(8192,))]),
        [],
        "mb",
    )
    assert list(printed_frame(table).iloc[0]) == ["d", "Read", "none", "2", "10.00", "effect"]


def test_a_table_of_schedulers_without_cfq_is_refused() -> None:
    with pytest.raises(TableError, match="no rows"):
        scheduler_effect_table(scheduled({"none": 100.0, "noop": 100.0}), [], "mb")


# ---- Settings


def test_settings_have_a_row_per_drive_operation_and_block_size() -> None:
    means = dict.fromkeys(WORKLOADS, 100.0)
    data = settings(*(toggle("DRA", means, means, drive=drive, size=size) for drive in "ab" for size in (4096, 8192)))
    rows = set(data[["drive", "setting", "operation", "bs_bytes"]].itertuples(index=False, name=None))
    assert len(data) == 8
    assert rows == {("ab"[n % 2], "DRA", ("read", "write")[n // 4], (4096, 8192)[n // 2 % 2]) for n in range(8)}


def test_bits_are_in_the_order_of_the_source() -> None:
    means = reads(100.0, 50.0)
    data = settings(*(toggle(bit, means, means) for bit in ("DRA", "FSW", "WCE", "RCD")))
    assert list(data["setting"]) == ["RCD", "WCE", "FSW", "DRA"]


def test_the_change_of_the_gap_equals_a_calculation_by_hand() -> None:
    # random over sequential: 40 / 100 with the bit 0, 45 / 60 with it 1
    row = settings(toggle("DRA", reads(100.0, 40.0), reads(60.0, 45.0))).iloc[0]
    found = row[["gap_off", "gap_on", "change", "sequential_change", "random_change"]].to_list()
    assert found == pytest.approx([0.4, 0.75, 1.875, 0.6, 1.125])


def test_the_interval_of_the_change_is_that_of_a_product_of_four_means() -> None:
    row = settings(toggle("DRA", reads(100.0, 40.0), reads(60.0, 45.0))).iloc[0]
    at = {mean: [mean * factor for factor in EXACT] for mean in (100.0, 40.0, 60.0, 45.0)}
    low, high, method = product_interval([at[45.0], at[100.0]], [at[60.0], at[40.0]], 0.95)
    assert (row["change_low"], row["change_high"]) == pytest.approx((low, high))
    assert (row["interval_method"], row["confidence"]) == (method, 0.95)


@pytest.mark.parametrize(
    ("random_on", "spread", "verdict"),
    [(40.0, EXACT, "no effect"), (80.0, EXACT, "effect"), (40.0, NOISY, "undecided"), (40.0, (1.0,), "undecided")],
)
def test_setting_verdicts_come_from_a_test_of_equivalence(
    random_on: float, spread: tuple[float, ...], verdict: str
) -> None:
    data = settings(toggle("DRA", reads(100.0, 40.0), reads(100.0, random_on), spread=spread))
    assert (data["margin"][0], data["verdict"][0]) == (SETTING_MARGIN, verdict)


def test_a_setting_that_slows_both_workloads_equally_has_no_effect_on_the_gap() -> None:
    row = settings(toggle("WCE", reads(100.0, 40.0), reads(50.0, 20.0))).iloc[0]
    assert row["verdict"] == "no effect"


def test_a_verdict_does_not_depend_on_the_confidence_of_the_printed_interval() -> None:
    executions = toggle("DRA", reads(100.0, 40.0), reads(100.0, 42.0))
    verdicts = {
        setting_effect_table(executions, [], "mb", level, "t").data["verdict"][0] for level in (0.5, 0.95, 0.9999)
    }
    assert verdicts == {"no effect"}


@pytest.mark.parametrize("workload", ["read", "randread"])
@pytest.mark.parametrize("level", [0, 1])
def test_an_operation_with_an_unmeasured_cell_has_no_row(workload: str, level: int) -> None:
    means = dict.fromkeys(WORKLOADS, 100.0)
    rows = toggle("DRA", means, means)
    data = settings(rows[(rows["rw"] != workload) | (rows["set_DRA"] != level)])
    assert list(data["operation"]) == ["write"]


def test_repetitions_that_do_not_set_a_bit_are_not_used_for_the_bit() -> None:
    alone = toggle("DRA", reads(100.0, 40.0), reads(100.0, 80.0))
    other = toggle("RCD", reads(7.0, 3.0), reads(5.0, 4.0))
    data = settings(alone, other)
    assert data[data["setting"] == "DRA"]["change"].to_list() == pytest.approx([2.0])


@pytest.mark.parametrize("outcome", ["not changeable", "refused", "ignored", "not applicable"])
def test_a_value_that_was_not_taken_has_one_row_with_its_outcome(outcome: str) -> None:
    same = reads(100.0, 40.0)
    steps = [record("b", outcome=outcome), record("b", cell="other", outcome=outcome)]
    data = settings(toggle("DRA", same, same, drive="a"), tuned=steps)
    assert list(data["drive"]) == ["a", "b"]
    assert list(data[["setting", "operation", "bs_bytes", "verdict"]].loc[1]) == ["DRA=1", "", 0, outcome]


def test_a_value_that_was_not_taken_has_no_numbers_and_is_printed_with_dashes() -> None:
    table = setting_effect_table(pd.DataFrame(), [record("d", "FSW", 0)], "mb", 0.95, "t")
    gaps = ["gap_off", "gap_on", "change", "change_low", "change_high", "sequential_change", "random_change"]
    assert table.data.iloc[0][gaps].isna().all()
    assert table.data["interval_method"][0] == "none"
    assert list(printed_frame(table).iloc[0]) == ["d", "FSW=0", "", *[NO_VALUE] * 6, "ignored"]


def test_bits_that_were_taken_and_schedulers_have_no_extra_row() -> None:
    steps = [
        record(outcome="changed", measured=True),
        record(wanted=0, outcome="already so", measured=True),
        record("d", "scheduler", "kyber", outcome="not applicable"),
    ]
    assert len(settings(toggle("DRA", reads(100.0, 40.0), reads(100.0, 40.0)), tuned=steps)) == 1


def test_settings_are_printed_with_their_change_as_an_interval() -> None:
    executions = toggle("DRA", reads(100.0, 40.0), reads(60.0, 45.0))
    frame = printed_frame(setting_effect_table(executions, [], "mb", 0.95, "t"))
    levels = ("d", "DRA", "Read", "4 KiB")
    assert list(frame.iloc[0]) == [*levels, "0.60", "1.12", "0.40", "0.75", "1.83–1.93", "effect"]
    without_width = toggle("DRA", reads(100.0, 40.0), reads(60.0, 45.0), spread=(1.0, 1.0))
    assert printed_frame(setting_effect_table(without_width, [], "mb", 0.95, "t")).iloc[0].iloc[-2] == NO_VALUE
    spanners = [*["Bandwidth, 1 over 0"] * 2, *["Random over sequential"] * 3]
    assert list(frame.columns.get_level_values(0))[4:9] == spanners


# ---- Refusals


def test_recorded_refusals_have_one_row_each() -> None:
    table = refusal_table(REFUSING)
    data = table.data.set_index("drive")
    assert data["exit_status"].isna()["c400"]  # the mask forbids the attempt
    assert data.loc["ssdsc2kg480g7", "exit_status"] == 0
    assert data.loc["c400", "reason"] == "the drive's mask says that DRA cannot change"
    frame = printed_frame(table)
    assert list(frame.iloc[0]) == ["c400", "DRA=1", "0", "not changeable", NO_VALUE, "0", "not changeable"]
    assert list(frame.iloc[1]) == ["ssdsc2kg480g7", "DRA=1", "0", "changeable", "0", "0", "ignored"]


@pytest.mark.parametrize(
    ("steps", "outcomes"),
    [
        ([record(wanted=0, outcome="already so"), record()], ["ignored"]),
        ([record(wanted=0, outcome="already so")], ["already so"]),
        ([record(after=1, outcome="changed", measured=True)], ["changed"]),
        ([record(outcome="ignored"), record(outcome="changed")], ["ignored", "changed"]),
    ],
)
def test_each_outcome_of_an_attempt_has_a_row(steps: list[TuningRecord], outcomes: list[str]) -> None:
    assert list(refusal_table(steps).data["outcome"]) == outcomes


def test_the_exit_status_is_that_of_the_last_command_that_sets() -> None:
    exchange = [command("--get=DRA"), command("--set=DRA=1", 6), command("--set=DRA=1", 5), command("--get=DRA", 9)]
    assert list(refusal_table([record(exchange=exchange)]).data["exit_status"]) == [5]


def test_a_setting_that_the_drive_does_not_report_is_printed_with_dashes() -> None:
    missing = record(before=None, after=None, changeable=None, outcome="not applicable")
    frame = printed_frame(refusal_table([missing]))
    assert list(frame.iloc[0]) == ["d", "DRA=1", *[NO_VALUE] * 4, "not applicable"]


def test_scheduler_names_are_kept() -> None:
    row = refusal_table([record(setting="scheduler", before="cfq", after="cfq", outcome="refused")]).data.iloc[0]
    assert row["before"] == "cfq"


def test_the_reason_is_that_of_the_first_setting_that_the_drive_did_not_take() -> None:
    steps = [record(setting="WCE", outcome="changed"), record("other", reason="of another drive"), record()]
    assert refusal_reason(steps, "d") == "ignored:\naccepted, but DRA still reads back as 0"


@pytest.mark.parametrize("drive", ["c400", "not-measured"])
def test_a_drive_that_took_all_settings_has_no_reason(drive: str) -> None:
    taken = [step for step in TINY.steps if step["experiments"] == ["schedulers"]]
    assert refusal_reason(taken, drive) == ""


# ---- Quantities at the levels of factors


def measured(*names: str, drives: tuple[str, ...] = ("d",), depths: tuple[int, ...] = (1, 32)) -> pd.DataFrame:
    """Return a comparison, as `Study.comparison` does, of random reads of 4 KiB with means of 1000 × the depth."""
    rows: list[dict[str, Any]] = []
    for drive in drives:
        for depth in depths:
            row: dict[str, Any] = {"drive": drive, "rw": "randread", "bs_bytes": 4096, "iodepth": depth}
            row |= {"study": "e", "executions": 2, "confidence": 0.95, "use": ""}
            for name in names:
                stem, mean = quantities.get_quantity(name).column, 1000.0 * depth
                row |= {f"{stem}_mean": mean, f"{stem}_low": 0.9 * mean, f"{stem}_high": 1.1 * mean}
                row |= {f"{stem}_cv_percent": 2.0, f"published_{stem}": np.nan, f"error_{stem}_percent": np.nan}
            rows.append(row)
    return pd.DataFrame(rows)


def texts(table: Table) -> list[tuple[str, ...]]:
    return list(printed_frame(table).itertuples(index=False, name=None))


def labels(table: Table) -> list[tuple[str, str]]:
    return [(column.spanner, column.label) for column in table.columns]


def test_each_level_has_a_row_with_mean_and_interval() -> None:
    table = level_table(measured("iops"), ["iodepth"], ["iops"])
    assert texts(table) == [("1", "1000", "900–1100", "2.0"), ("32", "32000", "28800–35200", "2.0")]
    rate = "Rate (IOPS)"
    assert labels(table) == [("", "I/O depth"), (rate, "Mean"), (rate, "95 % interval"), (rate, "CV (%)")]


def test_levels_are_printed_in_the_unit_of_their_label() -> None:
    data = measured("iops").assign(iodepth=[4096, 2**20]).rename(columns={"iodepth": "blockalign"})
    table = level_table(data, ["blockalign"], ["iops"])
    assert [row[0] for row in texts(table)] == ["4", "1024"]
    assert table.columns[0].label == "Alignment (KiB)"


def test_drive_workload_and_block_size_are_printed_if_there_are_several() -> None:
    one = level_table(measured("iops"), ["iodepth"], ["iops"])
    two = pd.concat([measured("iops", drives=("a", "b")), measured("iops").assign(rw="read", bs_bytes=8192)])
    several = level_table(two, ["iodepth"], ["iops"])
    assert [column.label for column in one.columns][:1] == ["I/O depth"]
    assert [column.label for column in several.columns][:4] == ["Drive", "Workload", "Block size (KiB)", "I/O depth"]


def test_a_table_by_the_block_size_has_it_once() -> None:
    table = level_table(measured("iops"), ["bs_bytes"], ["iops"])
    assert [column.label for column in table.columns][:2] == ["Block size (KiB)", "Mean"]


def test_published_values_and_errors_are_printed_if_there_are_any() -> None:
    data = measured("iops", "latency").assign(published_iops=[950.0, np.nan], error_iops_percent=[-5.26, np.nan])
    table = level_table(data.assign(use=["fitted", ""]), ["iodepth"], ["iops", "latency"])
    rate, latency = "Rate (IOPS)", "Mean latency (ms)"
    assert labels(table) == [
        ("", "I/O depth"),
        *((rate, label) for label in ("Mean", "95 % interval", "Published", "Error (%)")),
        *((latency, label) for label in ("Mean", "95 % interval")),
        ("", "Largest CV (%)"),
        ("", "Use"),
    ]
    assert [(row[3], row[4], row[-1]) for row in texts(table)] == [("950", "−5.3", "fitted"), (NO_VALUE, NO_VALUE, "")]


def test_the_largest_variation_of_several_quantities_is_printed() -> None:
    data = measured("iops", "latency").assign(iops_cv_percent=[3.1, 0.0], latency_ms_cv_percent=[0.04, np.nan])
    table = level_table(data, ["iodepth"], ["iops", "latency"])
    assert [row[-1] for row in texts(table)] == ["3.1", "0.0"]


def test_a_published_zero_has_a_dash_for_its_error() -> None:
    data = measured("write iops").assign(published_write_iops=[0.0, 0.0])
    assert [row[3:5] for row in texts(level_table(data, ["iodepth"], ["write iops"]))] == [("0", NO_VALUE)] * 2


def test_intervals_of_three_quantities_are_not_printed() -> None:
    quantities = ["iops", "latency", "bandwidth"]
    table = level_table(measured(*quantities), ["iodepth"], quantities)
    assert "95 % interval" not in [column.label for column in table.columns]
    assert "iops_low" in table.data


def test_a_missing_mean_is_printed_as_a_dash() -> None:
    data = measured("iops", "read latency")
    for name in data.columns[data.columns.str.startswith("read_latency")]:
        data.loc[0, name] = np.nan
    table = level_table(data, ["iodepth"], ["iops", "read latency"])
    assert texts(table)[0][3:5] == (NO_VALUE, NO_VALUE)


def test_each_quantity_of_a_cell_has_a_row_in_its_unit() -> None:
    data = measured("iops", "clat p99", depths=(32,)).assign(published_iops=[30000.0], error_iops_percent=[6.67])
    table = quantity_table(data, ["iops", "clat p99"])
    assert [row[1:3] for row in texts(table)] == [("iops (IOPS)", "32000"), ("clat p99 (ms)", "32000")]
    assert [row[5:7] for row in texts(table)] == [("30000", "+6.7"), (NO_VALUE, NO_VALUE)]


def test_quantities_are_grouped_by_drive() -> None:
    table = quantity_table(measured("iops", "latency", drives=("a", "b"), depths=(1,)), ["iops", "latency"])
    assert table.data["drive"].tolist() == ["a", "a", "b", "b"]
    assert [row[0] for row in texts(table)] == ["a", "", "b", ""]


def summary(*workloads: str, drives: tuple[str, ...] = ("d",), means: tuple[float, ...] = (10.0, 20.0)) -> pd.DataFrame:
    rows = [
        {"drive": drive, "rw": rw, "skip": level, "mean": mean, "low": mean - 1, "high": mean + 1, "confidence": 0.9}
        for drive in drives
        for rw in workloads
        for level, mean in zip((-4096, 4096), means, strict=True)
    ]
    return pd.DataFrame(rows)


def test_each_workload_has_columns_at_each_level() -> None:
    table = workload_table(summary("write", "read"), "skip", "latency")
    first, second = ["10.0", "9.0–11.0", "1.00"] * 2, ["20.0", "19.0–21.0", "2.00"] * 2
    assert texts(table) == [("d", "−4", *first), ("", "4", *second)]
    assert labels(table)[2:] == [
        (rw, label) for rw in ("Read", "Write") for label in ("Mean", "90 % interval", "Ratio")
    ]
    assert [column.unit for column in table.columns[2:]] == ["ms", "ms", ""] * 2
    assert list(table.data)[2:] == [
        f"{rw}_{name}" for rw in ("read", "write") for name in ("mean", "low", "high", "ratio")
    ]


def test_a_workload_that_was_not_measured_at_a_level_has_dashes() -> None:
    part = summary("read", "write").drop(index=3)
    assert texts(workload_table(part, "skip", "iops"))[1][-3:] == (NO_VALUE, NO_VALUE, NO_VALUE)


def test_a_source_without_numbered_tables_has_one_drive_table() -> None:
    drives = pd.DataFrame({"table": ["", ""], "drive": ["X", "Y"], "drive_key": ["x", "y"], "what_is_said": ["a", "b"]})
    table = drive_table(drives, None, {"x": "twin"})
    assert [column.label for column in table.columns] == ["Drive", "What is said", "Here"]
    assert texts(table) == [("X", "a", "twin"), ("Y", "b", "not measured")]
