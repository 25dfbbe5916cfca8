"""Tests of the tables of jobs and latency bins, compared with outputs of fio."""

import csv
import json
import re
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
    """Return the only row of an output with these values."""
    table = table_of(at(name))
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def version_of(path: Path) -> tuple[int, ...]:
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


def test_no_sources_give_empty_tables_with_the_fixed_columns() -> None:
    empty, full = jobs([]), jobs(at("3.33-randread"))
    assert len(empty) == 0
    assert empty.dtypes.to_dict().items() <= full.dtypes.to_dict().items()
    assert list(full.columns[: len(empty.columns)]) == list(empty.columns)
    pd.testing.assert_series_equal(latency_bins([]).dtypes, latency_bins(PLUS).dtypes)
    assert latency_bins([]).empty


def test_columns_do_not_depend_on_the_order_of_sources() -> None:
    paths = sorted(DATA.glob("*.json"))
    assert list(jobs(paths).columns) == list(jobs(reversed(paths)).columns)


def test_every_column_is_integer_real_or_text(output: Path) -> None:
    assert {str(dtype) for dtype in jobs(output).dtypes} == {"Int64", "float64", "string"}


def test_a_source_may_be_a_path_its_name_or_a_document() -> None:
    path = at("3.33-randrw-plus")
    tables = [jobs(source) for source in (path, str(path), [path], read_documents(path))]
    for table in tables[1:]:
        pd.testing.assert_frame_equal(table, tables[0])


# Values


@pytest.mark.parametrize(
    ("name", "column", "value"),
    [
        *(
            (f"{version}-randread", "io_bytes", 1 << 20)
            for version in ("2.0.10", "2.1.11", "2.16", "2.21", "3.0", "3.1", "3.7", "3.33", "3.42-git")
        ),
        ("2.16-enospc", "error", 28),
        ("3.33-enospc", "error", 28),
        ("3.33-unified-mixed", "direction", "mixed"),
        ("3.33-group", "total_ios", 4 * 256),
        ("3.33-group", "option_numjobs", "4"),
        ("3.33-libaio-depth16", "iodepth_reached", 16),
        ("3.33-sync-depth64", "iodepth_reached", 1),
        ("3.33-sync-depth64", "option_iodepth", "64"),
        # rate_iops: 500 reads of 4 KiB per second
        ("3.33-samples", "iops_mean", pytest.approx(500, rel=0.05)),
        ("3.33-samples", "bandwidth_mean_bytes_per_s", pytest.approx(500 * 4096, rel=0.05)),
    ],
)
def test_a_row_has_the_value_that_the_command_of_the_output_implies(name: str, column: str, value: object) -> None:
    assert row(name)[column] == value


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("3.33-randread", "hostname"),
        ("3.33-gtod-reduce", "clat_mean_ns"),
        ("2.16-randread", "job_runtime_ms"),
        ("3.7-randread", "job_runtime_ms"),
        # without samples, although fio writes 0
        ("3.33-randread", "slat_mean_ns"),
        ("3.33-randread", "bandwidth_mean_bytes_per_s"),
        ("3.33-randread", "iops_min"),
    ],
)
def test_a_value_that_fio_did_not_measure_is_missing(name: str, column: str) -> None:
    assert pd.isna(row(name)[column])


@pytest.mark.parametrize("name", ["3.12", "3.33"])
def test_the_runtime_of_the_job_exists_since_fio_3_8(name: str) -> None:
    assert pd.notna(row(f"{name}-randread")["job_runtime_ms"])


@pytest.mark.parametrize(("name", "mebibytes"), [("3.33-unified-both", 1), ("3.33-two-servers", 4)])
def test_sums_count_each_io_once(name: str, mebibytes: int) -> None:
    assert jobs(at(name))["io_bytes"].sum() == mebibytes << 20


def test_client_mode_gives_the_host() -> None:
    assert set(jobs(at("3.42-git-two-servers"))["hostname"]) == {"127.0.0.1"}


def test_bandwidth_is_bytes_over_runtime(output: Path) -> None:
    table = table_of(output)
    table = table[table["runtime_ms"] > 0]
    expected = table["io_bytes"] * 1000 / table["runtime_ms"]
    # bandwidth before fio 3.2, and bytes before 2.21, are whole KiB
    rounding = pd.Series(1.0 if version_of(output) >= (3, 2) else 1024.0, index=table.index)
    if version_of(output) < (2, 21):
        rounding += 1024 * 1000 / table["runtime_ms"]
    assert ((table["bandwidth_bytes_per_s"] - expected).abs() <= rounding).all()


def test_iops_are_ios_over_runtime(output: Path) -> None:
    table = table_of(output)
    table = table[(table["runtime_ms"] > 0) & table["total_ios"].notna()]
    expected = table["total_ios"] * 1000 / table["runtime_ms"]
    assert ((table["iops"] - expected).abs() < 0.001).all()


@pytest.mark.parametrize("which", ["slat", "clat", "lat"])
def test_mean_latency_is_between_minimum_and_maximum(which: str) -> None:
    table = jobs(sorted(DATA.glob("*.json")))
    table = table[table[f"{which}_mean_ns"].notna()]
    assert (table[f"{which}_mean_ns"] >= table[f"{which}_min_ns"]).all()
    assert (table[f"{which}_mean_ns"] <= table[f"{which}_max_ns"]).all()


def test_latency_has_the_same_unit_in_every_version() -> None:
    table = jobs(sorted(DATA.glob("*-randread.json")))
    # about a microsecond for each I/O on the same machine; a wrong unit is a factor of 1,000
    assert table["clat_mean_ns"].between(100, 30_000).all()


def test_deviation_of_bandwidth_is_in_bytes() -> None:
    written = read_documents(at("3.33-samples"))[0].jobs[0]["read"]["bw_dev"]
    assert row("3.33-samples")["bandwidth_stddev_bytes_per_s"] == written * 1024


def test_iodepth_is_missing_without_io() -> None:
    assert jobs(at("3.33-enoent"), all_directions=True)["iodepth_reached"].isna().all()


def test_timestamp_is_in_milliseconds_in_client_mode_too() -> None:
    client = row("3.33-client", jobname="one")["timestamp_ms"]
    # both outputs were made within a quarter of an hour
    assert client == pytest.approx(row("3.33-randread")["timestamp_ms"], abs=900_000)


# Options


def test_options_of_the_job_override_global_options() -> None:
    job = {"job options": {"bs": "8k"}, "read": {"total_ios": 1}}
    table = jobs({"global options": {"bs": "4k", "size": "1m"}, "jobs": [job]})
    assert (table.at[0, "option_bs"], table.at[0, "option_size"]) == ("8k", "1m")


def test_an_option_without_a_value_is_an_empty_text_and_missing_in_other_jobs() -> None:
    assert row("3.42-git-globals", jobname="b")["option_norandommap"] == ""
    assert pd.isna(row("3.42-git-globals", jobname="a")["option_norandommap"])


def test_global_options_apply_to_every_job() -> None:
    assert list(jobs(at("3.33-client"))["option_bs"]) == ["4k", "4k"]


def test_each_server_of_a_client_has_its_own_global_options() -> None:
    table = jobs(damaged("3.42-git-two-servers", ("global options", 1, "size"), "2m"))
    assert list(table["option_size"]) == ["1m", "2m", "1m", "2m"]


def test_the_address_of_a_server_is_not_an_option() -> None:
    assert not {"option_hostname", "option_port"} & set(table_of(at("3.42-git-two-servers")).columns)


# Percentiles and bins


def percentile_columns(table: pd.DataFrame) -> list[str]:
    return [name for name in table.columns if name[0] in "scl" and "lat_p" in name]


def test_percentile_columns_follow_the_percentile_list() -> None:
    table = jobs(at("3.33-all-percentiles-plus"))
    names = ["p50", "p99", "p99_9", "p99_999"]
    assert percentile_columns(table) == [f"{which}_{name}_ns" for which in ("slat", "clat", "lat") for name in names]


def test_padding_of_the_percentile_list_in_old_versions_is_ignored() -> None:
    assert "clat_p0_ns" not in jobs(at("2.16-randread"))


@pytest.mark.parametrize("name", [*(f"{v}-lat-percentiles-plus" for v in (3.1, 3.7, 3.12)), "3.12-no-clat-percentiles"])
def test_percentiles_of_lat_that_fio_wrote_as_clat_are_those_of_lat(name: str) -> None:
    table = jobs(at(name))
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
def test_bins_ascend_and_are_not_empty(path: Path) -> None:
    assert (bins_of(path)["count"] > 0).all()
    groups = bins_of(path).groupby([*KEYS, "latency"])["bin_ns"]
    assert groups.apply(lambda bins: bins.is_monotonic_increasing and bins.is_unique).all()


def test_bins_out_of_order_are_sorted() -> None:
    read = {"clat_ns": {"bins": {"100": 3, "20": 1, "9": 2}}}
    table = latency_bins({"fio version": "fio-3.33", "jobs": [{"read": read}]})
    assert list(zip(table["bin_ns"], table["count"], strict=True)) == [(9, 2), (20, 1), (100, 3)]


# Compared with the tools of fio


# the tool fails for the empty histograms of fio before 3.18
@pytest.mark.skipif(
    shutil.which("fio_jsonplus_clat2csv") is None, reason="fio_jsonplus_clat2csv is not installed (Debian: fio)"
)
@pytest.mark.parametrize("path", [path for path in PLUS if version_of(path) >= (3, 18)], ids=lambda path: path.stem)
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


# Damaged documents


def places(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every field and element of a decoded document."""
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places(inner, (*path, key))


DAMAGED = "2.16-randrw-plus 2.21-randread 3.1-lat-percentiles-plus 3.33-randrw-plus 3.33-samples 3.42-git-two-servers"
ORIGINALS = {name: json.dumps(read_documents(at(name))[0].data) for name in DAMAGED.split()}
PLACES = {name: list(places(json.loads(original))) for name, original in ORIGINALS.items()}
some_place = st.sampled_from(list(ORIGINALS)).flatmap(
    lambda name: st.tuples(st.just(name), st.sampled_from(PLACES[name]))
)


_REMOVED = object()


def damaged(name: str, place: tuple[str | int, ...], replacement: object = _REMOVED) -> list[Document]:
    """Return documents with a field removed or replaced."""
    data = json.loads(ORIGINALS[name])
    target = data
    for key in place[:-1]:
        target = target[key]
    if replacement is _REMOVED:
        del target[place[-1]]
    else:
        target[place[-1]] = replacement
    return parse_documents(json.dumps(data), "damaged.json")


def error_of_tables(name: str, place: tuple[str | int, ...], replacement: object) -> FioParseError | None:
    try:
        documents = damaged(name, place, replacement)
        jobs(documents, all_directions=True)
        latency_bins(documents)
    except FioParseError as error:
        return error
    return None


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(
    where=some_place,
    replacement=st.just(_REMOVED)
    | st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([2**70, -(2**70), 1e300])
    | st.text(max_size=3)
    | st.lists(st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=3), max_size=2),
)
def test_a_missing_field_or_wrong_value_is_a_missing_value_or_a_clear_error(
    where: tuple[str, tuple[str | int, ...]], replacement: object
) -> None:
    error = error_of_tables(*where, replacement)
    assert error is None or str(error).startswith("damaged.json: ")


@pytest.mark.parametrize("field", ["iops", "bw_bytes", "io_bytes", "runtime", "short_ios", "bw_min"])
def test_a_missing_number_of_a_direction_changes_one_column(field: str) -> None:
    whole = jobs(damaged("3.33-samples", ("time",)))
    table = jobs(damaged("3.33-samples", ("jobs", 0, "read", field)))
    changed = [name for name in whole.columns if not table[name].equals(whole[name])]
    assert len(changed) == 1
    # without bw_bytes, bw in KiB/s is used
    assert table[changed[0]].isna()[0] or field == "bw_bytes"


BINS_2_16 = ("jobs", 0, "read", "clat", "bins", "9007199254740000")
BINS_3_33 = ("jobs", 0, "read", "clat_ns", "bins")


@pytest.mark.parametrize(
    ("name", "place", "value", "path"),
    [
        ("3.42-git-two-servers", ("client_stats", 2, "write", "iops"), "fast", "client_stats[2].write.iops: "),
        ("2.16-randrw-plus", BINS_2_16, 1, "jobs[0].read.clat.bins.9007199254740000: expected a latency"),
        ("3.33-randrw-plus", BINS_3_33, {"10": 1, "fast": 2}, "jobs[0].read.clat_ns.bins.fast: expected a latency"),
    ],
)
def test_an_error_names_the_path_of_the_field(
    name: str, place: tuple[str | int, ...], value: object, path: str
) -> None:
    documents = damaged(name, place, value)
    with pytest.raises(FioParseError, match=f"^{re.escape(f'damaged.json: {path}')}"):
        (latency_bins if "bins" in place else jobs)(documents)


def test_io_bytes_of_fio_2_21_are_bytes_even_without_io_kbytes() -> None:
    assert jobs(damaged("2.21-randread", ("jobs", 0, "read", "io_kbytes"))).at[0, "io_bytes"] == 1 << 20


def test_an_error_in_a_later_document_names_the_document() -> None:
    text = at("3.33-status-interval").read_text()
    late = text.rindex('"iops" : ', 0, text.rindex('"write"'))
    broken = text[:late] + '"iops" : "many", "was" : ' + text[late + len('"iops" : ') :]
    with pytest.raises(FioParseError, match=r"document 2: jobs\[0\]\.read\.iops"):
        jobs(parse_documents(broken, "x.json"))


def test_a_job_without_any_direction_is_an_error() -> None:
    with pytest.raises(FioParseError, match=r'jobs\[0\]: there is no "read"'):
        jobs({"fio version": "fio-3.33", "jobs": [{}]})


def test_the_initial_value_of_a_minimum_is_missing() -> None:
    documents = damaged("3.1-lat-percentiles-plus", ("jobs", 0, "read", "slat_ns", "min"), 2**64 - 1)
    assert jobs(documents)["slat_min_ns"].isna()[0]
