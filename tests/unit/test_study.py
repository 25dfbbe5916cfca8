"""Give notebooks the repetitions, summaries and published values of a recorded measurement."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from recorded import TINY
from support import FIXTURE, FIXTURE_GRID, ROOT, recorded_file

from iopatterns.analysis.statistics import Method, mean_interval
from iopatterns.configuration.sources import VALUE_COLUMNS
from iopatterns.study import AnalysisError, Study

RAW, STEPS, REFUSERS = TINY.raw, TINY.steps, ["c400", "ssdsc2kg480g7"]
study, only, asks, mean_of = TINY.study, TINY.only, TINY.asks, TINY.mean_of


# ---- Experiments and drives


def test_experiments_are_the_configured_ones_and_begin_with_the_initial_one() -> None:
    content = yaml.safe_load((FIXTURE / FIXTURE_GRID).read_text(encoding="utf-8"))
    assert sorted(study().experiments) == sorted(content["experiments"])
    assert study().experiments[0] == "initial"


def test_an_experiment_whose_settings_all_drives_refused_is_listed() -> None:
    steps = [step | {"experiments": ["forbidden"]} for step in STEPS if not step["measured"]]
    assert replace(study(), steps=steps).experiments[-1] == "forbidden"


def test_the_overview_counts_cells_and_repetitions_of_each_experiment_and_drive() -> None:
    overview = study().overview()
    table = overview.set_index(["experiment", "drive"])
    assert list(table.loc["schedulers"].loc["c400"]) == [32, 320]
    assert list(table.loc["refusing"].loc["c400"]) == [4, 40]
    counts = overview.groupby("experiment")["executions"].sum().to_dict()
    assert counts == {name: len(asks(name)) for name in study().experiments}


def test_the_rows_of_an_experiment_are_all_its_repetitions() -> None:
    assert list(study().rows("toggle-wce").index) == list(asks("toggle-wce").index)
    assert study().rows("size").empty  # a part of another experiment's name


def test_the_rows_of_several_experiments_are_listed_once() -> None:
    both = study().rows("initial", "block-size")
    assert len(both) == 200
    assert not both.index.duplicated().any()


def test_tuning_steps_are_selected_by_experiment() -> None:
    assert study().tuned("refusing") == [step for step in STEPS if step["setting"] == "DRA"]


@pytest.mark.parametrize(
    ("experiments", "drives"),
    [
        (["initial"], ["c400", "ssdsc2kg480g7"]),
        (["initial", "schedulers", "depth"], ["c400", "ssdsc2kg480g7"]),
        (["refusing"], REFUSERS),
        (["other"], []),
    ],
)
def test_each_drive_of_the_experiments_is_listed_once(experiments: list[str], drives: list[str]) -> None:
    assert study().drives(*experiments) == drives


def test_a_drive_without_repetitions_belongs_to_the_experiment_that_it_refused() -> None:
    assert only("hard-disk").drives("refusing") == REFUSERS


@pytest.mark.parametrize(
    ("drive", "reason"),
    [("ssdsc2kg480g7", "ignored:\naccepted, but DRA still reads back as 0"), ("other", "not measured")],
)
def test_a_drive_that_was_not_measured_has_a_reason(drive: str, reason: str) -> None:
    assert study().why_not("refusing", drive) == reason


# ---- Summaries


def test_a_summary_has_one_row_per_cell() -> None:
    assert len(study().summary("initial")) == 16
    assert len(study().summary("schedulers", ["set_scheduler"])) == 32


def test_a_summary_equals_a_computation_from_the_raw_table() -> None:
    rows = study().summary("initial")
    row = rows[(rows["drive"] == "c400") & (rows["rw"] == "randread") & (rows["bs_bytes"] == 28672)].iloc[0]
    cell = asks("initial").query("drive == 'c400' and rw == 'randread' and bs_bytes == 28672")
    low, high, method = mean_interval(cell["mb"].to_list())
    assert row[["mean", "low", "high"]].to_list() == pytest.approx([cell["mb"].mean(), low, high])
    assert row[["executions", "method", "iodepth_reached"]].to_list() == [10, method, cell["iodepth_reached"].max()]


LEVELS = [
    ("schedulers", "set_scheduler"),
    ("concurrency", "numjobs"),
    ("depth", "iodepth"),
    ("toggle-wce", "set_WCE"),
]


@pytest.mark.parametrize(("experiment", "by"), LEVELS)
def test_a_summary_never_averages_over_two_cells(experiment: str, by: str) -> None:
    with pytest.raises(AnalysisError, match=f"'{experiment}': two cells have the same drive, rw, bs_bytes"):
        study().summary(experiment)
    assert set(study().summary(experiment, [by])["executions"]) == {10}


def test_the_summary_of_an_experiment_without_repetitions_is_empty() -> None:
    full, empty = study().summary("toggle-wce", ["set_WCE"]), study().summary("other", ["set_WCE"])
    assert empty.empty
    assert list(empty) == list(full)


def test_a_summary_has_the_confidence_and_method_of_the_study() -> None:
    rows = study(0.9, "bca").summary("initial")
    assert set(rows["confidence"]) == {0.9}
    assert set(rows["method"]) == {"bca"}


def test_ratios_divide_random_by_sequential_bandwidth() -> None:
    rows = study().ratios("initial").set_index(["drive", "operation", "bs_bytes"])
    at = {"drive": "c400", "bs_bytes": 4096}
    expected = mean_of("initial", rw="randread", **at) / mean_of("initial", rw="read", **at)
    assert len(rows) == 8
    assert rows.loc[("c400", "read", 4096), "ratio"] == pytest.approx(expected)


# ---- Published values


@pytest.mark.parametrize(
    ("drive", "rw", "count"),
    [
        (None, None, 16),
        ("c400", None, 8),
        (None, ["write", "randwrite"], 8),
        ("c400", ["randread"], 2),
        ("other", None, 0),
    ],
)
def test_published_values_are_selected_by_drive_and_workload(
    drive: str | None, rw: list[str] | None, count: int
) -> None:
    rows = study().published("initial", drive, rw)
    assert len(rows) == count
    assert set(rows["experiment"]) <= {"initial"}
    assert drive is None or set(rows["drive_key"]) <= {drive}
    assert rw is None or set(rows["rw"]) <= set(rw)


def test_published_values_have_columns_for_their_conditions() -> None:
    assert study().published("concurrency")["numjobs"].to_list() == [16, 16]


def test_values_that_no_twin_measured_have_no_class(tmp_path: Path) -> None:
    values = study().values
    assert set(values[values["experiment"] == ""]["use"]) == {""}
    RAW.assign(drive_kind="file").drop(columns="mb").to_parquet(tmp_path / "m.parquet")
    found = Study.load(
        measurements=tmp_path / "m.parquet",
        tuning=recorded_file("tiny", "tuning.json"),
        published=FIXTURE / "data/published/tiny",
        twins=ROOT / "data/twins",
    )
    assert set(found.values["use"]) == {""}


# ---- Facts for the report


def test_facts_have_the_drives_of_each_experiment_and_the_range_of_repetitions() -> None:
    facts = study().facts()
    assert facts["experiments"] == {name: study().drives(name) for name in study().experiments}
    found = facts["executions"]
    assert (found["per_cell_smallest"], found["per_cell_largest"]) == (10, 10)
    values = RAW.groupby(["drive", "cell"])["mb"]
    assert found["cv_largest_percent"] == pytest.approx(100 * (values.std() / values.mean()).max())


def test_each_setting_that_is_not_in_effect_is_listed_once() -> None:
    keys = ("drive", "setting", "wanted", "outcome")
    found = [tuple(step[key] for key in keys) for step in study().facts()["left_out"]]
    assert found == [
        ("c400", "DRA", 1, "not changeable"),
        ("ssdsc2kg480g7", "DRA", 1, "ignored"),
    ]


@pytest.mark.parametrize(("method", "name"), [("t", "Student’s t"), ("bca", "BCa bootstrap")])
def test_facts_name_the_method_of_the_intervals(method: Method, name: str) -> None:
    some = replace(only("c400"), method=method)
    assert some.facts()["interval"] == {"confidence_percent": 95, "method": name}


def test_twins_have_no_doubts() -> None:
    assert study().doubts() == []


def test_doubts_about_a_real_drive_are_counted_by_cell() -> None:
    executions = study().executions
    rows = executions[executions["drive"] == "c400"].assign(drive="mydisk", drive_kind="file")
    rising = rows["cell"] == rows["cell"].iloc[0]
    rows.loc[rising, "bandwidth_mb_per_s"] *= 1 + 0.1 * rows.loc[rising, "execution"].astype(float)
    (found,) = [each for each in replace(study(), executions=rows).doubts() if each["doubt"] == "not in a steady state"]
    assert found == {"drive": "mydisk", "doubt": "not in a steady state", "cells": 1, "of": rows["cell"].nunique()}


def test_a_cell_is_steady_if_every_repetition_is() -> None:
    executions = study().executions
    rows = executions[executions["drive"] == "c400"].assign(steady=True).astype({"steady": "boolean"})
    first, second = rows["cell"].unique()[:2]
    rows.loc[(rows["cell"] == first) & (rows["execution"] == 1), "steady"] = False
    rows.loc[rows["cell"] == second, "steady"] = pd.NA
    count = rows["cell"].nunique()
    assert replace(study(), executions=rows).steady() == {"cells": count - 2, "of": count - 1}
    unknown = rows.assign(steady=pd.Series(pd.NA, rows.index, dtype="boolean"))
    assert replace(study(), executions=unknown).steady() is None


# ---- Any quantity, any grid


def mix(
    folder: Path, *lines: str, factors: dict[str, list[Any]] | None = None, options: dict[str, Any] | None = None
) -> Study:
    """Return a study with one experiment ``e``: reads, writes and a mix at each level of a factor.

    At the n-th level reads have n × 1000 IOPS and n ms, writes half the rate and twice the latency. The second of two
    repetitions is a tenth faster.

    Args:
        folder: The folder for the files of the study.
        lines: Rows of values.csv.
        factors: The levels of one factor.
        options: Further columns with their values.
    """
    ((factor, levels),) = (factors or {"iodepth": [1, 32]}).items()
    rows: list[dict[str, Any]] = []
    for number, level in enumerate(levels, 1):
        for rw, directions in {"read": ["read"], "write": ["write"], "randrw": ["read", "write"]}.items():
            for execution, direction in ((e, d) for e in (1, 2) for d in directions):
                scale_ = 1.0 if direction == "read" else 0.5
                iops = 1000 * number * scale_ * (1.1 if execution == 2 else 1.0)
                about = {"study": "mine", "drive": "d", "cell": f"{rw}-{number}", "execution": execution}
                about |= {
                    "experiments": "e",
                    "drive_kind": "twin",
                    "drive_model": "",
                    "tuned": False,
                    "rw": rw,
                    "bs_bytes": 4096,
                }
                about |= {factor: level, **(options or {})}
                fio = {"document": 0, "direction": direction, "iops": iops, "total_ios": round(iops)}
                fio |= {"bandwidth_bytes_per_s": round(4096 * iops), "lat_mean_ns": 1e6 * number / scale_}
                rows.append({**about, **fio, "iodepth_reached": 1})
    table = pd.DataFrame(rows)
    whole = [name for name in table if pd.api.types.is_integer_dtype(table[name])]
    table.astype(dict.fromkeys(whole, "Int64")).to_parquet(folder / "m.parquet")
    (folder / "m.json").write_text("[]", encoding="utf-8")
    published = folder / "mine"
    published.mkdir()
    values = lines or ("x,Text,capacity,D,d,,,,,=,5,GB,5 GB",)
    (published / "values.csv").write_text("\n".join([",".join(VALUE_COLUMNS), *values]) + "\n", encoding="utf-8")
    (published / "drives.csv").write_text("table,drive,drive_key\n,D,d\n", encoding="utf-8")
    return Study.load(
        measurements=folder / "m.parquet", tuning=folder / "m.json", published=published, twins=folder / "none"
    )


def value_of(name: str, quantity: str, rw: str, conditions: str, printed: str) -> str:
    value, unit = printed.split()
    return f"{name},Table 1,{quantity},D,d,{rw},4k,e,{conditions},=,{value},{unit},{value}"


def at(table: pd.DataFrame, **levels: Any) -> pd.Series:
    """Return the one row at some levels."""
    for name, level in levels.items():
        table = table[table[name] == level]
    assert len(table) == 1
    return table.iloc[0]


@pytest.mark.parametrize(
    ("of", "rw", "expected"),
    [
        ("iops", "randrw", 1.05 * 1500),
        ("read iops", "randrw", 1.05 * 1000),
        ("write iops", "randrw", 1.05 * 500),
        ("read iops", "write", 0.0),
        ("latency", "read", 1.0),
        ("read latency", "randrw", 1.0),
        ("write latency", "randrw", 2.0),
        ("latency", "randrw", (1000 * 1 + 500 * 2) / 1500),
    ],
)
def test_a_summary_is_of_the_given_quantity(tmp_path: Path, of: str, rw: str, expected: float) -> None:
    row = at(mix(tmp_path).summary("e", ["iodepth"], of), rw=rw, iodepth=1)
    assert row["mean"] == pytest.approx(expected)
    assert row["executions"] == 2


@pytest.mark.parametrize(("of", "missing"), [("read latency", "write"), ("write latency", "read")])
def test_a_summary_leaves_out_cells_without_the_quantity(tmp_path: Path, of: str, missing: str) -> None:
    assert set(mix(tmp_path).summary("e", ["iodepth"], of)["rw"]) == {"read", "write", "randrw"} - {missing}


@pytest.mark.parametrize(
    ("by", "of", "missing"), [(["numjobs"], "iops", "numjobs"), (["iodepth"], "clat p7", "clat_p7_ms")]
)
def test_a_summary_of_a_missing_column_is_refused(tmp_path: Path, by: list[str], of: str, missing: str) -> None:
    with pytest.raises(AnalysisError, match=f"experiment 'e': the measurements have no column '{missing}'"):
        mix(tmp_path).summary("e", by, of)


@pytest.mark.parametrize("factor", ["iodepth", "skip", "replay", "set_DRA", "blockalign"])
def test_factors_are_columns_that_differ_between_cells(tmp_path: Path, factor: str) -> None:
    levels: list[Any] = ["write-read", "read-write"] if factor == "replay" else [0, 1]
    assert mix(tmp_path, factors={factor: levels}, options={"numjobs": 4}).factors("e") == [factor]


@pytest.mark.parametrize(
    ("experiment", "factors"),
    [
        ("block-size", []),
        ("initial", []),
        ("schedulers", ["set_scheduler"]),
        ("concurrency", ["numjobs"]),
        ("toggle-wce", ["set_WCE"]),
    ],
)
def test_an_experiment_has_the_factors_that_it_varies(experiment: str, factors: list[str]) -> None:
    assert study().factors(experiment) == factors


TABLE = (
    value_of("a", "iops", "read", "iodepth=1", "1000 IOPS"),
    value_of("b", "latency", "read", "iodepth=1", "1050 us"),
    value_of("c", "read iops", "write", "iodepth=32", "0 IOPS"),
    value_of("d", "latency", "randrw", "iodepth=32", "2 ms"),
    value_of("e", "iops", "read", "iodepth=1", "7777 IOPS"),
)


def test_published_values_are_converted_to_the_unit_of_the_quantity(tmp_path: Path) -> None:
    found = mix(tmp_path, *TABLE)
    assert found.published("e", of="latency")["value"].tolist() == pytest.approx([1.05, 2.0])
    assert found.published("e", of="read iops")["id"].tolist() == ["c"]
    assert found.published("e").empty
    assert found.values["value"].tolist() == [1000, 1050, 0, 2, 7777]


def test_a_comparison_has_measured_and_published_values(tmp_path: Path) -> None:
    table = mix(tmp_path, *TABLE).comparison("e", ["iodepth"], ["iops", "latency"])
    row = at(table, rw="read", iodepth=1)
    assert row[["study", "drive", "bs_bytes", "executions"]].tolist() == ["e", "d", 4096, 2]
    assert row[["iops_mean", "published_iops", "error_iops_percent"]].tolist() == pytest.approx([1050, 1000, 5])
    assert row[["latency_ms_mean", "published_latency_ms"]].tolist() == pytest.approx([1, 1.05])
    assert row["error_latency_ms_percent"] == pytest.approx(100 * (1 / 1.05 - 1))
    low, high, method = mean_interval([1000, 1100])
    assert row[["iops_low", "iops_high"]].tolist() == pytest.approx([low, high])
    assert row[["interval_method", "confidence", "use"]].tolist() == [method, 0.95, "independent"]


def test_a_comparison_has_no_error_without_a_published_value(tmp_path: Path) -> None:
    table = mix(tmp_path, *TABLE).comparison("e", ["iodepth"], ["iops", "latency"])
    rest = table[(table["rw"] != "read") | (table["iodepth"] != 1)]
    assert rest["published_iops"].isna().all()
    assert rest["error_iops_percent"].isna().all()
    assert at(rest, rw="randrw", iodepth=32)["use"] == "independent"  # the class of its latency
    assert set(rest[rest["rw"] != "randrw"]["use"]) == {""}


@pytest.mark.parametrize(("rw", "mean"), [("write", 0.0), ("read", 1050.0)])
def test_a_comparison_has_no_error_for_a_published_zero(tmp_path: Path, rw: str, mean: float) -> None:
    found = mix(tmp_path, value_of("a", "read iops", rw, "iodepth=1", "0 IOPS"))
    row = at(found.comparison("e", ["iodepth"], ["read iops"]), rw=rw, iodepth=1)
    assert (row["read_iops_mean"], row["published_read_iops"]) == (pytest.approx(mean), 0)
    assert pd.isna(row["error_read_iops_percent"])


def test_a_comparison_includes_cells_without_a_quantity(tmp_path: Path) -> None:
    table = mix(tmp_path).comparison("e", ["iodepth"], ["read latency", "write latency"])
    assert len(table) == 6
    assert table.set_index(["rw", "iodepth"])["read_latency_ms_mean"].isna().to_dict() == {
        (rw, depth): rw == "write" for rw in ("read", "write", "randrw") for depth in (1, 32)
    }


def test_a_comparison_is_sorted_by_drive_workload_and_level(tmp_path: Path) -> None:
    table = mix(tmp_path, factors={"iodepth": [32, 4, 1]}).comparison("e", ["iodepth"], ["iops"])
    assert [*zip(table["rw"], table["iodepth"], strict=True)] == [
        (rw, depth) for rw in ("read", "write", "randrw") for depth in (1, 4, 32)
    ]


@pytest.mark.parametrize(
    ("factor", "levels", "condition"),
    [
        ("replay", ["write-read", "read-write"], "replay=write-read"),
        ("offset", [1024, 2048], "offset=1k"),
        ("thinktime", [1000, 2000], "thinktime=1 ms"),
        ("skip", [-8192, 4096], "skip=-8k"),
        ("set_DRA", [1, 0], "DRA=1"),
    ],
)
def test_a_published_value_belongs_to_its_level_of_any_factor(
    tmp_path: Path, factor: str, levels: list[Any], condition: str
) -> None:
    line = value_of("a", "iops", "read", condition, "1000 IOPS")
    table = mix(tmp_path, line, factors={factor: levels}).comparison("e", [factor], ["iops"])
    assert at(table, rw="read", **{factor: levels[0]})["error_iops_percent"] == pytest.approx(5)
    assert table["published_iops"].notna().sum() == 1


@pytest.mark.parametrize("levels", [["write-read", "read-write"], [1, 2]], ids=["names", "numbers"])
def test_a_published_value_without_a_level_belongs_to_no_level(tmp_path: Path, levels: list[Any]) -> None:
    factor = "replay" if isinstance(levels[0], str) else "numjobs"
    line = value_of("a", "iops", "read", "", "1000 IOPS")
    table = mix(tmp_path, line, factors={factor: levels}).comparison("e", [factor], ["iops"])
    assert table["published_iops"].isna().all()


def test_the_comparison_of_an_experiment_without_repetitions_is_empty() -> None:
    assert study().comparison("other", [], ["iops"]).empty


def test_an_experiment_has_the_published_quantities_or_else_rate_and_latency(tmp_path: Path) -> None:
    assert mix(tmp_path, *TABLE).quantities("e") == ["iops", "latency", "read iops"]
    assert study().quantities("initial") == ["bandwidth"]
    assert study().quantities("block-size") == ["iops", "latency"]


@pytest.mark.parametrize(("factors", "depth"), [({"numjobs": [1, 2]}, 1), ({"iodepth": [1, 32]}, 32)])
def test_facts_have_the_largest_depth_that_was_requested(
    tmp_path: Path, factors: dict[str, list[Any]], depth: int
) -> None:
    facts = mix(tmp_path, factors=factors).facts()
    assert facts["executions"]["iodepth_asked"] == depth
    assert facts["experiments"] == {"e": ["d"]}
    assert facts["block_sizes"] == ["4 KiB"]
