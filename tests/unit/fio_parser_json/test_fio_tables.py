"""The tables of jobs and latency bins, held against fio's own outputs."""

import csv
import json
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fio_parser_json import Document, FioParseError, jobs, latency_bins, parse_documents, read_documents

DATA = Path(__file__).parent / "data"
DIRECTIONS = ("read", "write", "trim")
KEYS = ["source", "document", "job", "direction"]
PLUS = sorted(DATA.glob("*-plus.json"))


def at(name: str) -> Path:
    return DATA / f"fio-{name}.json"


@cache
def table_of(path: Path) -> pd.DataFrame:
    return jobs(path)


@cache
def bins_of(path: Path) -> pd.DataFrame:
    return latency_bins(path)


def row(name: str, **where: object) -> Any:
    """The one row of an output, or of it the one that has these values."""
    table = table_of(at(name))
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def version(path: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in path.name.split("-")[1].split("."))


# Rows and columns


def test_each_job_has_a_row_for_each_direction_fio_wrote(output: Path) -> None:
    written = [
        (document.index, number, direction)
        for document in read_documents(output)
        for number, job in enumerate(document.jobs)
        for direction in [name for name in DIRECTIONS if name in job] or ["mixed"]
    ]
    table = jobs(output, all_directions=True)
    assert list(table[["document", "job", "direction"]].itertuples(index=False, name=None)) == written


def test_directions_without_io_are_left_out(output: Path) -> None:
    table = jobs(output, all_directions=True)
    issued = table[(table["total_ios"].fillna(0) > 0) | (table["io_bytes"] > 0)]
    assert len(jobs(output)) == len(issued)


def test_a_job_that_never_issued_io_shows_with_all_directions_alone() -> None:
    path = at("3.33-enoent")
    assert (len(jobs(path)), len(jobs(path, all_directions=True))) == (0, 3)


def test_a_job_that_failed_has_its_errno() -> None:
    assert [row("2.16-enospc")["error"], row("3.33-enospc")["error"]] == [28, 28]


def test_no_sources_give_an_empty_table_with_the_fixed_columns() -> None:
    empty, full = jobs([]), jobs(at("3.33-randread"))
    assert len(empty) == 0
    assert empty.dtypes.to_dict().items() <= full.dtypes.to_dict().items()
    assert list(full.columns[: len(empty.columns)]) == list(empty.columns)


def test_no_sources_give_an_empty_table_of_bins() -> None:
    empty = latency_bins([])
    pd.testing.assert_series_equal(empty.dtypes, latency_bins(PLUS).dtypes)
    assert len(empty) == 0


def test_columns_do_not_depend_on_the_order_of_sources() -> None:
    paths = sorted(DATA.glob("*.json"))
    assert list(jobs(paths).columns) == list(jobs(reversed(paths)).columns)


def test_every_column_is_integer_real_or_text(output: Path) -> None:
    assert {str(dtype) for dtype in jobs(output).dtypes} == {"Int64", "float64", "string"}


def test_tables_of_several_sources_are_the_tables_of_each_one_below_the_other() -> None:
    one, other = at("2.16-randrw-plus"), at("3.33-randrw-plus")
    pd.testing.assert_frame_equal(
        latency_bins([one, other]),
        pd.concat([latency_bins(one), latency_bins(other)], ignore_index=True),
    )


def test_a_source_may_be_a_path_its_name_or_a_document() -> None:
    path = at("3.33-randrw-plus")
    tables = [jobs(source) for source in (path, str(path), [path], read_documents(path))]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


def test_unified_reporting_gives_the_one_direction_mixed() -> None:
    assert row("3.33-unified-mixed")["direction"] == "mixed"


def test_unified_reporting_of_both_does_not_count_ios_twice() -> None:
    assert jobs(at("3.33-unified-both"))["io_bytes"].sum() == 1 << 20


def test_all_clients_is_not_counted_again() -> None:
    assert jobs(at("3.33-two-servers"))["io_bytes"].sum() == 4 << 20


def test_client_mode_gives_the_host() -> None:
    assert set(jobs(at("3.42-git-two-servers"))["hostname"]) == {"127.0.0.1"}


def test_without_client_mode_there_is_no_host() -> None:
    assert pd.isna(row("3.33-randread")["hostname"])


def test_group_reporting_gives_one_row_for_the_group() -> None:
    merged = row("3.33-group")
    assert (merged["total_ios"], merged["option_numjobs"]) == (4 * 256, "4")


# Values


def test_bandwidth_is_bytes_over_runtime(output: Path) -> None:
    table = table_of(output)
    table = table[table["runtime_ms"] > 0]
    expected = table["io_bytes"] * 1000 / table["runtime_ms"]
    # Before fio 3.2 bandwidth, and before 2.21 the bytes too, are whole KiB.
    rounding = pd.Series(1.0 if version(output) >= (3, 2) else 1024.0, index=table.index)
    if version(output) < (2, 21):
        rounding += 1024 * 1000 / table["runtime_ms"]
    assert ((table["bandwidth_bytes_per_s"] - expected).abs() <= rounding).all()


def test_iops_are_ios_over_runtime(output: Path) -> None:
    table = table_of(output)
    table = table[(table["runtime_ms"] > 0) & table["total_ios"].notna()]
    expected = table["total_ios"] * 1000 / table["runtime_ms"]
    assert ((table["iops"] - expected).abs() < 0.001).all()


@pytest.mark.parametrize("name", ["2.0.10", "2.1.11", "2.16", "2.21", "3.0", "3.1", "3.7", "3.33", "3.42-git"])
def test_a_mebibyte_read_is_a_mebibyte_whatever_the_version(name: str) -> None:
    assert row(f"{name}-randread")["io_bytes"] == 1 << 20


@pytest.mark.parametrize("which", ["slat", "clat", "lat"])
def test_mean_latency_lies_between_least_and_greatest(which: str) -> None:
    table = jobs(sorted(DATA.glob("*.json")))
    table = table[table[f"{which}_mean_ns"].notna()]
    assert (table[f"{which}_mean_ns"] >= table[f"{which}_min_ns"]).all()
    assert (table[f"{which}_mean_ns"] <= table[f"{which}_max_ns"]).all()


def test_latency_has_the_same_unit_in_every_version() -> None:
    table = jobs(sorted(DATA.glob("*-randread.json")))
    # The same work on the same machine: about a microsecond each. A wrong unit is a factor of 1,000.
    assert table["clat_mean_ns"].between(100, 30_000).all()


def test_a_statistic_without_samples_is_missing_not_zero() -> None:
    short = row("3.33-randread")
    assert short[["slat_mean_ns", "bandwidth_mean_bytes_per_s", "iops_min"]].isna().all()


def test_sampled_bandwidth_is_in_bytes() -> None:
    # 500 reads of 4 KiB a second, as rate_iops asked.
    assert row("3.33-samples")["bandwidth_mean_bytes_per_s"] == pytest.approx(500 * 4096, rel=0.05)


def test_deviation_of_bandwidth_is_in_bytes() -> None:
    written = read_documents(at("3.33-samples"))[0].jobs[0]["read"]["bw_dev"]
    assert row("3.33-samples")["bandwidth_stddev_bytes_per_s"] == written * 1024


def test_sampled_iops_are_iops() -> None:
    assert row("3.33-samples")["iops_mean"] == pytest.approx(500, rel=0.05)


def test_gtod_reduce_measures_no_latency() -> None:
    assert pd.isna(row("3.33-gtod-reduce")["clat_mean_ns"])


def test_libaio_reaches_its_iodepth() -> None:
    assert row("3.33-libaio-depth16")["iodepth_reached"] == 16


def test_sync_runs_at_depth_1_whatever_iodepth_says() -> None:
    shallow = row("3.33-sync-depth64")
    assert (shallow["iodepth_reached"], shallow["option_iodepth"]) == (1, "64")


def test_iodepth_is_missing_where_there_is_none() -> None:
    assert jobs(at("3.33-enoent"), all_directions=True)["iodepth_reached"].isna().all()


def test_timestamp_is_in_milliseconds_in_client_mode_too() -> None:
    client = row("3.33-client", jobname="one")["timestamp_ms"]
    # Both outputs were made within a quarter of an hour.
    assert client == pytest.approx(row("3.33-randread")["timestamp_ms"], abs=900_000)


def test_runtime_of_the_job_came_with_fio_3_8() -> None:
    known = [pd.notna(row(f"{name}-randread")["job_runtime_ms"]) for name in ("2.16", "3.7", "3.12", "3.33")]
    assert known == [False, False, True, True]


# Options


def test_options_of_the_job_win_over_global_ones() -> None:
    options = parse_documents(
        json.dumps(
            {
                "global options": {"bs": "4k", "size": "1m"},
                "jobs": [{"job options": {"bs": "8k"}, "read": {"total_ios": 1}}],
            }
        ),
        "x",
    )
    table = jobs(options)
    assert (table.at[0, "option_bs"], table.at[0, "option_size"]) == ("8k", "1m")


def test_an_option_without_a_value_is_an_empty_text() -> None:
    assert row("3.42-git-globals", jobname="b")["option_norandommap"] == ""


def test_an_option_of_another_job_is_missing() -> None:
    assert pd.isna(row("3.42-git-globals", jobname="a")["option_norandommap"])


def test_global_options_reach_every_job() -> None:
    assert list(jobs(at("3.33-client"))["option_bs"]) == ["4k", "4k"]


def test_each_server_of_a_client_has_its_own_global_options() -> None:
    table = jobs(damaged("3.42-git-two-servers", ("global options", 1, "size"), "2m"))
    assert list(table["option_size"]) == ["1m", "2m", "1m", "2m"]


def test_the_address_of_a_server_is_no_option() -> None:
    assert not {"option_hostname", "option_port"} & set(table_of(at("3.42-git-two-servers")).columns)


# Percentiles and bins


def percentile_columns(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if name[0] in "scl" and "lat_p" in name]


def test_percentile_columns_say_what_fio_was_asked_for() -> None:
    table = jobs(at("3.33-all-percentiles-plus"))
    names = ["p50", "p99", "p99_9", "p99_999"]
    assert percentile_columns(table) == [f"{which}_{name}_ns" for which in ("slat", "clat", "lat") for name in names]


def test_old_versions_fill_of_the_percentile_list_is_no_percentile() -> None:
    assert "clat_p0_ns" not in jobs(at("2.16-randread"))


@pytest.mark.parametrize("name", ["3.1-lat", "3.7-lat", "3.12-lat"])
def test_lat_percentiles_that_fio_filed_under_clat_are_lat(name: str) -> None:
    table = jobs(at(f"{name}-percentiles-plus"))
    assert {column.split("_")[0] for column in percentile_columns(table)} == {"lat"}


def test_clat_percentiles_off_meant_lat_percentiles_until_fio_3_12() -> None:
    table = jobs(at("3.12-no-clat-percentiles"))
    assert {column.split("_")[0] for column in percentile_columns(table)} == {"lat"}


def test_plain_json_has_no_bins() -> None:
    assert len(latency_bins(at("3.33-randread"))) == 0


@pytest.mark.parametrize("path", PLUS, ids=lambda path: path.stem)
def test_bins_sum_to_the_ios_of_their_direction(path: Path) -> None:
    sums = bins_of(path).groupby([*KEYS, "latency"])["count"].sum().reset_index()
    merged = sums.merge(table_of(path), on=KEYS)
    assert len(merged) >= 1
    assert (merged["count"] == merged["total_ios"]).all()


@pytest.mark.parametrize("path", PLUS, ids=lambda path: path.stem)
def test_bins_sum_to_fios_count_of_samples(path: Path) -> None:
    counted = {
        (number, direction, which): job[direction][f"{which}_ns"]["N"]
        for document in read_documents(path)
        for number, job in enumerate(document.jobs)
        for direction in DIRECTIONS
        for which in ("slat", "clat", "lat")
        if job[direction].get(f"{which}_ns", {}).get("bins") and "N" in job[direction][f"{which}_ns"]
    }
    sums = bins_of(path).groupby(["job", "direction", "latency"])["count"].sum().to_dict()
    assert sums == counted or (version(path) < (3, 18) and not counted)


@pytest.mark.parametrize("path", PLUS, ids=lambda path: path.stem)
def test_percentiles_counted_from_the_bins_are_those_that_fio_gives(path: Path) -> None:
    rows = table_of(path).set_index(["job", "direction"])
    compared = 0
    for (number, direction, which), bins in bins_of(path).groupby(["job", "direction", "latency"]):
        running = bins["count"].cumsum()
        for column in percentile_columns(rows.reset_index()):
            given_by_fio: Any = rows[column].xs((number, direction))
            if column.startswith(f"{which}_") and pd.notna(given_by_fio):
                percentile = float(column.removeprefix(f"{which}_p").removesuffix("_ns").replace("_", "."))
                reached = running >= percentile / 100 * bins["count"].sum()
                assert bins["bin_ns"][reached].iloc[0] == given_by_fio, column
                compared += 1
    assert compared >= 4


@pytest.mark.parametrize("path", PLUS, ids=lambda path: path.stem)
def test_bins_ascend_within_their_histogram(path: Path) -> None:
    groups = bins_of(path).groupby([*KEYS, "latency"])["bin_ns"]
    assert groups.apply(lambda bins: bins.is_monotonic_increasing and bins.is_unique).all()


@pytest.mark.parametrize("path", PLUS, ids=lambda path: path.stem)
def test_no_bin_is_empty(path: Path) -> None:
    assert (bins_of(path)["count"] > 0).all()


def test_bins_out_of_order_are_put_in_order() -> None:
    read = {"clat_ns": {"bins": {"100": 3, "20": 1, "9": 2}}}
    text = json.dumps({"fio version": "fio-3.33", "jobs": [{"read": read}]})
    table = latency_bins(parse_documents(text, "jq.json"))
    assert list(zip(table["bin_ns"], table["count"], strict=True)) == [(9, 2), (20, 1), (100, 3)]


# Against fio's own tools


# The tool stumbles over the empty histograms that fio wrote before 3.18.
@pytest.mark.skipif(
    shutil.which("fio_jsonplus_clat2csv") is None, reason="fio_jsonplus_clat2csv is not installed (Debian: fio)"
)
@pytest.mark.parametrize("path", [path for path in PLUS if version(path) >= (3, 18)], ids=lambda path: path.stem)
def test_bins_are_those_of_fio_jsonplus_clat2csv(path: Path, tmp_path: Path) -> None:
    subprocess.run(["fio_jsonplus_clat2csv", path, tmp_path / "bins.csv"], check=True, capture_output=True)
    expected = set()
    with (tmp_path / "bins_job0.csv").open() as lines:
        for line in csv.DictReader(lines, skipinitialspace=True):
            for direction in DIRECTIONS:
                for which in ("slat", "clat", "lat"):
                    if count := line[f"{direction}_{which}_ns_count"].strip():
                        expected.add((direction, which, int(line["nsec"]), int(count)))
    found = bins_of(path)[["direction", "latency", "bin_ns", "count"]]
    assert set(found.itertuples(index=False, name=None)) == expected


@pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed")
@pytest.mark.parametrize("output_format", ["json", "json+"])
def test_the_installed_fio_is_read(output_format: str, tmp_path: Path) -> None:
    command = (
        "fio --name=live --ioengine=null --rw=randrw --bs=4k --size=4m --number_ios=500 "
        f"--output-format={output_format} --output=live.json"
    )
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    table = jobs(tmp_path / "live.json")
    counted = latency_bins(tmp_path / "live.json").groupby("direction")["count"].sum().to_dict()
    ios = dict(zip(table["direction"], table["total_ios"], strict=True))
    assert sum(ios.values()) >= 500
    assert counted == (ios if output_format == "json+" else {})


# Damaged documents


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Give the place of every field and element of a decoded document."""
    items: Any = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


ORIGINALS = {
    name: json.dumps(read_documents(at(name))[0].data)
    for name in (
        "2.16-randrw-plus",
        "2.21-randread",
        "3.1-lat-percentiles-plus",
        "3.33-randrw-plus",
        "3.33-samples",
        "3.42-git-two-servers",
    )
}
PLACES = {name: list(places(json.loads(original))) for name, original in ORIGINALS.items()}
some_place = st.sampled_from(list(ORIGINALS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(PLACES[name]))
)


def damaged(name: str, place: tuple[str | int, ...], *replacement: object) -> list[Document]:
    """A document without what is at the place, or with something else there."""
    data = json.loads(ORIGINALS[name])
    target = data
    for key in place[:-1]:
        target = target[key]
    if replacement:
        target[place[-1]] = replacement[0]
    else:
        del target[place[-1]]
    return parse_documents(json.dumps(data), "damaged.json")


def error_of_tables(name: str, place: tuple[str | int, ...], *replacement: object) -> FioParseError | None:
    """What the tables of a damaged document fail with, if they do; any other exception gets through."""
    try:
        documents = damaged(name, place, *replacement)
        jobs(documents, all_directions=True)
        latency_bins(documents)
    except FioParseError as error:
        return error
    return None


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(where=some_place)
def test_a_missing_field_is_a_missing_value_or_a_clear_error(where: tuple[str, tuple[str | int, ...]]) -> None:
    error = error_of_tables(*where)
    assert error is None or str(error).startswith("damaged.json: ")


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(
    where=some_place,
    replacement=st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([2**70, -(2**70), 1e300])
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
)
def test_a_field_of_another_type_is_a_missing_value_or_a_clear_error(
    where: tuple[str, tuple[str | int, ...]], replacement: object
) -> None:
    error = error_of_tables(*where, replacement)
    assert error is None or str(error).startswith("damaged.json: ")


@pytest.mark.parametrize("field", ["iops", "bw_bytes", "io_bytes", "runtime", "short_ios", "bw_min"])
def test_a_missing_number_of_a_direction_is_na_there_alone(field: str) -> None:
    whole = jobs(damaged("3.33-samples", ("time",)))
    table = jobs(damaged("3.33-samples", ("jobs", 0, "read", field)))
    changed = [name for name in whole.columns if not table[name].equals(whole[name])]
    assert len(changed) == 1
    # bw_bytes gives way to bw in KiB/s.
    assert table[changed[0]].isna()[0] or field == "bw_bytes"


def test_a_wrong_type_is_told_with_the_path_of_the_field() -> None:
    documents = damaged("3.42-git-two-servers", ("client_stats", 2, "write", "iops"), "fast")
    with pytest.raises(
        FioParseError, match=r"^damaged\.json: client_stats\[2\]\.write\.iops: expected a number, found a string$"
    ):
        jobs(documents)


def test_io_bytes_of_fio_2_21_are_bytes_even_without_io_kbytes() -> None:
    assert jobs(damaged("2.21-randread", ("jobs", 0, "read", "io_kbytes"))).at[0, "io_bytes"] == 1 << 20


def test_an_index_beyond_any_histogram_is_told_with_its_path() -> None:
    place = ("jobs", 0, "read", "clat", "bins", "9007199254740000")
    with pytest.raises(FioParseError, match=r"clat\.bins\.9007199254740000: expected a latency"):
        latency_bins(damaged("2.16-randrw-plus", place, 1))


def test_a_wrong_bin_is_told_with_its_path() -> None:
    documents = damaged("3.33-randrw-plus", ("jobs", 0, "read", "clat_ns", "bins"), {"10": 1, "fast": 2})
    with pytest.raises(FioParseError, match=r"jobs\[0\]\.read\.clat_ns\.bins\.fast: expected a latency"):
        latency_bins(documents)


def test_an_error_in_a_later_document_names_the_document() -> None:
    text = at("3.33-status-interval").read_text()
    late = text.rindex('"iops" : ', 0, text.rindex('"write"'))
    broken = text[:late] + '"iops" : "many", "was" : ' + text[late + len('"iops" : ') :]
    with pytest.raises(FioParseError, match=r"document 2: jobs\[0\]\.read\.iops"):
        jobs(parse_documents(broken, "x.json"))


def test_a_job_without_any_direction_is_an_error() -> None:
    with pytest.raises(FioParseError, match=r'jobs\[0\]: there is no "read"'):
        jobs(parse_documents('{"fio version": "fio-3.33", "jobs": [{}]}', "x.json"))


def test_the_start_value_of_a_minimum_is_a_missing_value() -> None:
    documents = damaged("3.1-lat-percentiles-plus", ("jobs", 0, "read", "slat_ns", "min"), 2**64 - 1)
    assert jobs(documents)["slat_min_ns"].isna()[0]
