"""Tables as CSV, LaTeX, typst and text, and numbers as JSON."""

import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typst
from hypothesis import given, settings
from hypothesis import strategies as st
from support import FIXTURE, pdf_text

from iopatterns.analysis.published import load_values
from iopatterns.analysis.report_tables import bandwidth_table, ratio_table
from iopatterns.analysis.statistics import random_to_sequential_ratios, summarise_groups
from iopatterns.analysis.tables import (
    Column,
    Table,
    TableError,
    block_label,
    fixed_decimals,
    interval_decimals,
    printed_frame,
    shared_decimals,
    signed_percent,
    three_digits,
    to_csv,
    to_latex,
    to_typst,
    write_numbers,
    write_table,
)

PUBLISHED = load_values(FIXTURE / "data/published/tiny").query("experiment == 'initial'")
WORKLOADS = {"read": 100.0, "randread": 40.0, "write": 120.0, "randwrite": 90.0}


def executions(*drives: str, count: int = 3) -> pd.DataFrame:
    rows = [
        {"drive": drive, "rw": rw, "bs_bytes": size, "mb": base * factor + number, "iodepth_reached": 1}
        for drive in drives
        for size, factor in ((28672, 4), (4096, 1))
        for rw, base in WORKLOADS.items()
        for number in range(count)
    ]
    return pd.DataFrame(rows)


def reading(*drives: str, count: int = 3) -> Table:
    summary = summarise_groups(executions(*drives, count=count), ["drive", "rw", "bs_bytes"], "mb")
    return bandwidth_table(summary.assign(iodepth_reached=1), PUBLISHED, ["read", "randread"])


def simple(**columns: list[object]) -> Table:
    data = pd.DataFrame({"group": ["g"] * len(next(iter(columns.values()))), **columns})
    return Table(data, tuple(Column((name,), name) for name in columns), "group")


def typeset(source: str) -> str:
    return pdf_text(typst.compile(source.encode()))


def test_rows_are_sorted_by_drive_in_order_of_appearance_then_workload_and_block_size() -> None:
    data = reading("b", "a").data
    assert list(data["drive"]) == ["b"] * 4 + ["a"] * 4
    assert list(data["rw"][:4]) == ["read", "read", "randread", "randread"]
    assert list(data["bs_bytes"][:4]) == [4096, 28672, 4096, 28672]


def test_published_values_are_in_the_row_of_their_workload_and_block_size() -> None:
    data = reading("a").data.set_index(["rw", "bs_bytes"])
    assert data.loc[("randread", 28672), "published_ssdsc2kg480g7_mb_per_s"] == 180
    assert data.loc[("read", 4096), "published_c400_mb_per_s"] == 62


def test_published_values_are_printed_with_their_own_digits() -> None:
    frame = printed_frame(reading("a"))
    assert frame[("Published", "C400", "(MB/s)")].tolist() == ["62", "150", "25.3", "75"]


def test_repeated_names_are_hidden_within_a_group() -> None:
    frame = printed_frame(reading("a", "b"))
    assert frame[("", "Drive", "")].tolist() == ["a", "", "", "", "b", "", "", ""]
    assert frame[("", "Workload", "")].tolist() == ["Read", "", "Rand. read", ""] * 2


def test_a_single_repetition_has_dashes_for_interval_and_variation() -> None:
    frame = printed_frame(reading("a", count=1))
    assert frame[("Measured here", "95 % interval", "(MB/s)")].tolist() == ["–"] * 4
    assert frame[("Measured here", "CV", "(%)")].tolist() == ["–"] * 4
    assert frame[("Measured here", "Mean", "(MB/s)")].tolist() == ["100.0", "400.0", "40.0", "160.0"]


def test_the_ratio_table_has_published_ratios_of_other_drives() -> None:
    ratios = random_to_sequential_ratios(executions("a"), ["drive", "bs_bytes"], "mb")
    frame = printed_frame(ratio_table(ratios, PUBLISHED))
    assert frame[("Measured here", "Ratio", "")].tolist() == ["0.41", "0.40", "0.75", "0.75"]
    assert frame[("Published", "C400", "")].tolist() == ["0.41", "0.50", "0.66", "0.89"]


def test_the_ratio_table_compares_a_drive_of_the_source_with_its_own_ratio() -> None:
    ratios = random_to_sequential_ratios(executions("c400"), ["drive", "bs_bytes"], "mb")
    frame = printed_frame(ratio_table(ratios, PUBLISHED))
    assert frame[("Published", "Ratio", "")].tolist() == ["0.41", "0.50", "0.66", "0.89"]
    assert frame[("Published", "Error (%)", "")].tolist() == ["−0.5", "−19.7", "+14.8", "−15.3"]
    assert ("Published", "SSDSC2KG480G7", "") not in frame.columns


def test_csv_has_units_in_its_header_and_no_index() -> None:
    header = to_csv(reading("a")).splitlines()[0].split(",")
    assert header[:5] == ["drive", "rw", "bs_bytes", "executions", "bandwidth_mean_mb_per_s"]
    assert "cv_percent" in header


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_csv_keeps_twelve_digits_of_floats(values: list[float]) -> None:
    text = to_csv(simple(value_mb_per_s=list(values)))
    assert pd.read_csv(io.StringIO(text))["value_mb_per_s"].tolist() == [float(f"{value:.12g}") for value in values]


def test_latex_is_a_tabular_with_booktabs_rules() -> None:
    text = to_latex(reading("a", "b"))
    lines = text.splitlines()
    assert lines[1] == r"\begin{tabular}{llrrrrrrr}"
    assert lines[-1] == r"\end{tabular}"
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule", r"\addlinespace")] == [1, 1, 1, 1]
    assert lines[4] == r"\cmidrule(lr){4-7} \cmidrule(lr){8-9}"
    assert text.count("{") == text.count("}")


def test_each_latex_row_has_all_columns() -> None:
    rows = [line for line in to_latex(reading("a", "b")).splitlines() if line.endswith(r"\\")]
    assert len(rows) == 3 + 8
    for row in rows:
        spanned = sum(int(count) - 1 for count in re.findall(r"\\multicolumn\{(\d+)\}", row))
        assert row.count("&") + 1 + spanned == 9


def test_latex_without_units_and_spanners_has_one_header_row() -> None:
    assert to_latex(simple(a=[1], b=[2])).splitlines()[2:5] == [r"\toprule", r"a & b \\", r"\midrule"]


def test_latex_has_space_before_each_further_group() -> None:
    lines = to_latex(reading("first", "second", "third")).splitlines()
    after = [lines[number + 1].split(" ")[0] for number, line in enumerate(lines) if line == r"\addlinespace"]
    assert after == ["second", "third"]


def test_latex_special_characters_are_escaped() -> None:
    columns: dict[str, list[object]] = {"50 % & more_of #1": ["a_b & 5 % {x} $y$ ~ ^ \\"]}
    text = to_latex(simple(**columns))
    assert r"50 \% \& more\_of \#1" in text
    assert r"a\_b \& 5 \% \{x\} \$y\$" in text


def test_typst_has_all_texts_of_the_table() -> None:
    text = typeset("#set page(width: auto)\n" + to_typst(reading("drive-a", "drive-b")))
    for expected in ("drive-a", "drive-b", "Rand. read", "95 % interval", "(MB/s)", "C400", "25.3"):
        assert expected in text


@settings(max_examples=20, deadline=None)
@given(st.text(st.sampled_from('a"\\#$*_[]{}@<>/`~=-+ '), min_size=1, max_size=12))
def test_typst_prints_any_text_literally(text: str) -> None:
    printed = typeset(to_typst(simple(head=[f"x{text}y"])))
    assert f"x{text}y".replace(" ", "") in printed.replace(" ", "").replace("\n", "")


def test_equal_tables_give_three_equal_files(tmp_path: Path) -> None:
    files = []
    for name in ("one", "two"):
        write_table(reading("a"), tmp_path / name / "table2")
        files.append({path.name: path.read_bytes() for path in (tmp_path / name).iterdir()})
    assert set(files[0]) == {"table2.csv", "table2.tex", "table2.typ"}
    assert files[0] == files[1]


def test_a_missing_column_is_named() -> None:
    with pytest.raises(TableError, match="no column iops"):
        Table(pd.DataFrame({"drive": ["a"]}), (Column(("iops",), "IOPS"),), "drive")


def test_a_table_of_workloads_that_were_not_measured_is_refused() -> None:
    summary = summarise_groups(executions("a").query("rw == 'read'"), ["drive", "rw", "bs_bytes"], "mb")
    with pytest.raises(TableError, match="no drive was measured with write or randwrite"):
        bandwidth_table(summary.assign(iodepth_reached=1), PUBLISHED, ["write", "randwrite"])


def test_a_table_without_rows_is_refused() -> None:
    with pytest.raises(TableError, match="no rows"):
        simple(a=[])


@pytest.mark.parametrize(("size", "label"), [(512, "512 B"), (4096, "4 KiB"), (28672, "28 KiB"), (2**20, "1 MiB")])
def test_block_sizes_are_printed_in_binary_units(size: int, label: str) -> None:
    assert block_label(size) == label


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(1.0, 2.25, "1.0–2.2"), (43.21, 43.24, "–"), (-0.04, 0.04, "–"), (math.nan,) * 2 + ("–",)],
)
def test_an_interval_without_width_as_printed_is_a_dash(low: float, high: float, text: str) -> None:
    assert interval_decimals(1)(low, high) == text


@pytest.mark.parametrize(
    ("value", "text", "signed"),
    [(1.0, "1.0", "+1.0"), (-0.04, "0.0", "0.0"), (0.04, "0.0", "0.0"), (-2.55, "-2.5", "−2.5"), (math.nan, "–", "–")],
)
def test_zero_is_printed_without_a_sign(value: float, text: str, signed: str) -> None:
    assert fixed_decimals(1)(value) == text
    assert signed_percent(value) == signed


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        ([1234.5, 100.0], ["1234", "100"]),
        ([10.04, 1000.0], ["10.0", "1000.0"]),
        ([1.234], ["1.23"]),
        ([0.1234, 5.0], ["0.123", "5.000"]),
        ([0.00012], ["0.000"]),
        ([0.0, 12.0], ["0.0", "12.0"]),
        ([-250.0, 300.0], ["-250", "300"]),
        ([math.nan, 12.34], ["–", "12.3"]),
        ([math.nan], ["–"]),
        ([0.0], ["0.00"]),
    ],
)
def test_a_column_has_as_many_decimals_as_its_smallest_number_needs(values: list[float], texts: list[str]) -> None:
    formatter = shared_decimals(values)
    assert [formatter(value) for value in values] == texts


def test_a_missing_number_of_a_nullable_column_is_a_dash() -> None:
    assert shared_decimals(pd.Series([pd.NA, 2.5], dtype="Float64"))(pd.NA) == "–"  # type: ignore[arg-type]


@given(st.lists(st.floats(1e-2, 1e9), min_size=1))
def test_the_smallest_number_of_a_column_keeps_three_digits_down_to_a_tenth(values: list[float]) -> None:
    smallest = min(values)
    assert float(shared_decimals(values)(smallest)) == pytest.approx(smallest, rel=0.005 if smallest >= 0.1 else 0.06)


@pytest.mark.parametrize(
    ("value", "text"), [(12345.6, "12346"), (9.876, "9.88"), (0.05, "0.050"), (0.0, "0.00"), (math.nan, "–")]
)
def test_a_single_number_has_three_significant_digits(value: float, text: str) -> None:
    assert three_digits(value) == text


def test_numbers_are_sorted_and_rounded(tmp_path: Path) -> None:
    path = write_numbers(
        {"b": 1 / 3, "a": {"n": np.int64(10), "ok": np.bool_(True), "none": math.nan, "na": pd.NA}}, tmp_path / "x.json"
    )
    assert path.read_text() == (
        '{\n  "a": {\n    "n": 10,\n    "na": null,\n    "none": null,\n    "ok": true\n  },\n'
        '  "b": 0.333333333333\n}\n'
    )


@given(st.dictionaries(st.text(max_size=5), st.floats(allow_nan=False, allow_infinity=False), max_size=5))
def test_numbers_are_read_back(tmp_path_factory: pytest.TempPathFactory, numbers: dict[str, float]) -> None:
    path = write_numbers(numbers, tmp_path_factory.mktemp("numbers") / "x.json")
    assert json.loads(path.read_text()) == pytest.approx(numbers, rel=1e-11)


def test_a_number_rounded_twice_prints_like_a_number_rounded_once(tmp_path: Path) -> None:
    value = 1.0449965603468045  # 1.045 with six digits, which prints as 1.05
    path = write_numbers({"ratio": value}, tmp_path / "x.json")
    assert f"{json.loads(path.read_text())['ratio']:.2f}" == f"{value:.2f}" == "1.04"


def test_a_value_without_a_json_type_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="type PosixPath cannot be written as JSON"):
        write_numbers({"path": [Path()]}, tmp_path / "x.json")
