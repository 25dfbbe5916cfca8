"""Quantities of repetitions, compared with the output of fio."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fio_parser_json.options import NUMBERS
from hypothesis import given, settings
from hypothesis import strategies as st

import fio_parser_json
from iopatterns.analysis.quantities import QUANTITIES, QuantityError, find_quantity, get_quantity, read_executions

DATA = Path(__file__).parent / "fio_parser_json/data"
MIXED = DATA / "fio-3.33-randrw-plus.json"
READS = DATA / "fio-3.33-randread.json"
WRITES = DATA / "fio-3.33-group.json"
# A job that writes and then another that reads; and two machines with two such jobs each
SEVERAL = (DATA / "fio-3.33-stonewall.json", DATA / "fio-3.33-two-servers.json")
# fio measured no latency
WITHOUT_LATENCY = DATA / "fio-3.33-gtod-reduce.json"
EVERY = (MIXED, READS, WRITES, *SEVERAL, WITHOUT_LATENCY)


def parquet(path: Path, *raw_files: Path, **options: Any) -> Path:
    """Write measurements as `collect.measurement_table` returns them, with a repetition per raw file."""
    tables = []
    for number, raw in enumerate(raw_files, 1):
        keys = {"study": "s", "drive": "d", "cell": "c", "execution": number, "experiments": "initial", **options}
        rows = fio_parser_json.jobs([raw]).drop(columns=["source", *NUMBERS], errors="ignore")
        tables.append(pd.concat([pd.DataFrame([keys] * len(rows)), rows], axis=1))
    pd.concat(tables, ignore_index=True).to_parquet(path, index=False)
    return path


def executions(folder: Path, *raw_files: Path) -> pd.DataFrame:
    return read_executions(parquet(folder / "m.parquet", *raw_files))


def in_fio(raw: Path, *directions: str) -> list[dict[str, Any]]:
    """Return fio's own JSON of each job in the directions in which it did I/O."""
    text = raw.read_text(encoding="utf-8")
    content = json.loads(
        text[text.index("\n{") if text[0] != "{" else 0 :]
    )  # the output of a client begins with the output of servers
    jobs = content.get("jobs") or [job for job in content["client_stats"] if job["jobname"] != "All clients"]
    return [job[name] for job in jobs for name in directions if job[name]["total_ios"]]


def mean_latency_ms(parts: Iterable[dict[str, Any]]) -> float:
    """Return the mean over all requests from the means of the parts."""
    rows = list(parts)
    total_ns = sum(row["total_ios"] * row["lat_ns"]["mean"] for row in rows)
    return float(total_ns / sum(row["total_ios"] for row in rows) / 1e6)


def test_there_is_one_row_per_repetition_in_order(tmp_path: Path) -> None:
    table = executions(tmp_path, *EVERY)
    assert table["execution"].tolist() == list(range(1, len(EVERY) + 1))


def test_the_columns_of_the_request_are_kept(tmp_path: Path) -> None:
    raw = parquet(tmp_path / "m.parquet", MIXED, READS, rw="randrw", bs_bytes=4096, set_DRA=1)
    request = read_executions(raw)[["study", "drive", "cell", "experiments", "rw", "bs_bytes", "set_DRA"]]
    assert request.to_numpy().tolist() == [["s", "d", "c", "initial", "randrw", 4096, 1]] * 2


def test_repetitions_of_two_cells_with_one_number_are_two_rows(tmp_path: Path) -> None:
    tables = [pd.read_parquet(parquet(tmp_path / "one", MIXED, cell=name)) for name in ("a", "b")]
    pd.concat(tables).to_parquet(tmp_path / "both")
    assert read_executions(tmp_path / "both")["iops"].nunique() == 1
    assert len(read_executions(tmp_path / "both")) == 2


# ---- Sums


@pytest.mark.parametrize("raw", EVERY, ids=lambda raw: raw.stem)
def test_bandwidth_is_the_sum_over_directions_and_jobs(tmp_path: Path, raw: Path) -> None:
    row = executions(tmp_path, raw).iloc[0]
    expected = sum(part["bw_bytes"] for part in in_fio(raw, "read", "write"))
    assert row["bandwidth_bytes_per_s"] == expected
    assert row["bandwidth_mb_per_s"] == pytest.approx(expected / 1e6)


@pytest.mark.parametrize("raw", EVERY, ids=lambda raw: raw.stem)
def test_rates_are_sums_over_jobs_of_each_direction_and_of_both(tmp_path: Path, raw: Path) -> None:
    row = executions(tmp_path, raw).iloc[0]
    reads, writes = (sum(part["iops"] for part in in_fio(raw, name)) for name in ("read", "write"))
    assert row[["read_iops", "write_iops", "iops"]].tolist() == pytest.approx([reads, writes, reads + writes])


def test_a_reading_workload_has_a_rate_of_writes_of_zero(tmp_path: Path) -> None:
    assert executions(tmp_path, READS)["write_iops"].tolist() == [0.0]


# ---- Latencies


@pytest.mark.parametrize("raw", [MIXED, READS, WRITES, *SEVERAL], ids=lambda raw: raw.stem)
def test_latency_is_the_mean_over_all_requests(tmp_path: Path, raw: Path) -> None:
    found = executions(tmp_path, raw)["latency_ms"].iloc[0]
    assert found == pytest.approx(mean_latency_ms(in_fio(raw, "read", "write")))


@pytest.mark.parametrize("raw", [MIXED, *SEVERAL], ids=lambda raw: raw.stem)
@pytest.mark.parametrize("direction", ["read", "write"])
def test_the_latency_of_a_direction_is_the_mean_over_its_requests(tmp_path: Path, raw: Path, direction: str) -> None:
    found = executions(tmp_path, raw)[f"{direction}_latency_ms"].iloc[0]
    assert found == pytest.approx(mean_latency_ms(in_fio(raw, direction)))


def test_the_latency_of_a_mix_is_between_those_of_its_directions(tmp_path: Path) -> None:
    row = executions(tmp_path, MIXED).iloc[0]
    assert row["read_latency_ms"] < row["latency_ms"] < row["write_latency_ms"]


@pytest.mark.parametrize(("raw", "missing"), [(READS, "write_latency_ms"), (WRITES, "read_latency_ms")])
def test_a_direction_without_requests_has_no_latency(tmp_path: Path, raw: Path, missing: str) -> None:
    row = executions(tmp_path, raw).iloc[0]
    there = next(name for name in ("read_latency_ms", "write_latency_ms") if name != missing)
    assert pd.isna(row[missing])
    assert row[there] == row["latency_ms"]


@pytest.mark.parametrize("name", ["latency_ms", "read_latency_ms", "outstanding"])
def test_a_latency_that_fio_did_not_measure_is_missing_and_not_zero(tmp_path: Path, name: str) -> None:
    table = executions(tmp_path, WITHOUT_LATENCY, READS)
    assert table[name].isna().tolist() == [True, False]


def test_outstanding_requests_are_rate_times_latency(tmp_path: Path) -> None:
    row = executions(tmp_path, MIXED).iloc[0]
    total_ns = sum(part["total_ios"] * part["lat_ns"]["mean"] for part in in_fio(MIXED, "read", "write"))
    runtime_ms = max(part["runtime"] for part in in_fio(MIXED, "read", "write"))
    # Little's law: the time spent by all requests, divided by the elapsed time
    assert row["outstanding"] == pytest.approx(total_ns / 1e6 / runtime_ms)


def test_latency_statistics_of_fio_are_in_milliseconds(tmp_path: Path) -> None:
    (fio,) = in_fio(READS, "read")
    row = executions(tmp_path, READS).iloc[0]
    assert row["clat_mean_ms"] == pytest.approx(fio["clat_ns"]["mean"] / 1e6)
    assert row["lat_max_ms"] == pytest.approx(fio["lat_ns"]["max"] / 1e6)
    assert row["clat_p99_9_ms"] == pytest.approx(fio["clat_ns"]["percentile"]["99.900000"] / 1e6)


@pytest.mark.parametrize("raw", [MIXED, *SEVERAL], ids=lambda raw: raw.stem)
def test_percentiles_of_several_rows_are_not_combined(tmp_path: Path, raw: Path) -> None:
    table = executions(tmp_path, raw, READS)
    assert table["clat_p50_ms"].isna().tolist() == [True, False]


def test_the_depth_reached_is_the_largest_of_all_jobs(tmp_path: Path) -> None:
    rows = pd.read_parquet(parquet(tmp_path / "m.parquet", SEVERAL[0]))
    rows.assign(iodepth_reached=[4, 16]).to_parquet(tmp_path / "m.parquet")
    assert read_executions(tmp_path / "m.parquet")["iodepth_reached"].tolist() == [16]


@pytest.fixture(scope="module")
def real_mix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the output of fio for three jobs that read and write at random, each reported separately."""
    folder = tmp_path_factory.mktemp("fio")
    mix = "--rw=randrw --rwmixread=80 --bs=4k --size=2m --numjobs=3 --ioengine=psync --thread --randrepeat=0"
    to_file = [f"--filename={folder / 'f'}", "--output-format=json+", f"--output={folder / 'mix.json'}"]
    subprocess.run(["fio", "--name=mix", *mix.split(), *to_file], check=True, capture_output=True)
    return folder / "mix.json"


def test_three_jobs_of_a_real_mix_are_combined(tmp_path: Path, real_mix: Path) -> None:
    assert len(in_fio(real_mix, "read", "write")) == 6
    row = executions(tmp_path, real_mix).iloc[0]
    for direction in ("read", "write"):
        parts = in_fio(real_mix, direction)
        assert row[f"{direction}_iops"] == pytest.approx(sum(part["iops"] for part in parts))
        assert row[f"{direction}_latency_ms"] == pytest.approx(mean_latency_ms(parts))
    assert row["iops"] == pytest.approx(row["read_iops"] + row["write_iops"])
    assert row["latency_ms"] == pytest.approx(mean_latency_ms(in_fio(real_mix, "read", "write")))


@cache
def row_of_reads() -> pd.DataFrame:
    """Return the measurements of one repetition, made once for all examples."""
    with tempfile.TemporaryDirectory() as folder:
        return pd.read_parquet(parquet(Path(folder) / "m.parquet", READS))


requests = st.integers(1, 10**9)
latencies = st.floats(1.0, 1e12)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["read", "write"]), requests, latencies), min_size=1, max_size=6))
def test_a_mean_latency_is_between_the_smallest_and_the_largest_of_its_rows(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[str, int, float]]
) -> None:
    path = tmp_path_factory.mktemp("m") / "m.parquet"
    row = row_of_reads()
    names = ("direction", "total_ios", "lat_mean_ns")
    changes: list[dict[str, Any]] = [dict(zip(names, part, strict=True)) for part in parts]
    table = pd.concat([row.assign(**change) for change in changes], ignore_index=True)
    table.to_parquet(path)
    found = read_executions(path).iloc[0]
    for name, directions in {"": ("read", "write"), "read_": ("read",), "write_": ("write",)}.items():
        parts_ms = [latency / 1e6 for direction, _, latency in parts if direction in directions]
        mean = found[f"{name}latency_ms"]
        assert pd.isna(mean) if not parts_ms else min(parts_ms) * (1 - 1e-9) <= mean <= max(parts_ms) * (1 + 1e-9)


# ---- Quantities by name


def test_each_quantity_has_its_column_in_the_repetitions(tmp_path: Path) -> None:
    table = executions(tmp_path, MIXED)
    assert [name for name, quantity in QUANTITIES.items() if table[quantity.column].isna().any()] == []


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("slat mean", "slat_mean_ms"),
        ("clat stddev", "clat_stddev_ms"),
        ("lat max", "lat_max_ms"),
        ("clat p50", "clat_p50_ms"),
        ("clat p99.9", "clat_p99_9_ms"),
        ("clat p99.99", "clat_p99_99_ms"),
    ],
)
def test_latency_statistics_are_found_by_the_names_of_fio(tmp_path: Path, name: str, column: str) -> None:
    quantity = get_quantity(name)
    assert (quantity.column, quantity.unit) == (column, "ms")
    assert column in executions(tmp_path, READS)


@pytest.mark.parametrize(
    "name",
    [
        *("clat", "clat median", "p99", "clat p", "clat mean ", "CLAT mean", "mean clat", ""),
        *("iops in intervals share", "share at depth", "block erase per request", "share"),
    ],
)
def test_other_names_are_no_quantities(name: str) -> None:
    assert find_quantity(name) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("bandwidt", "there is no quantity 'bandwidt'; did you mean 'bandwidth'?"),
        ("xyz", r"no quantity 'xyz'; valid are bandwidth, .*'clat p99.9' and its like, and 'block erases per request'"),
    ],
)
def test_an_unknown_quantity_gets_a_hint(name: str, hint: str) -> None:
    with pytest.raises(QuantityError, match=hint.replace("?", r"\?")):
        get_quantity(name)


@pytest.mark.parametrize(
    ("name", "unit", "factor"),
    [
        ("bandwidth", "MB/s", 1),
        ("bandwidth", "MiB/s", 1.048576),
        ("iops", "IOPS", 1),
        ("latency", "us", 1e-3),
        ("latency", "s", 1e3),
        ("clat p99", "ms", 1),
        ("outstanding requests", "requests", 1),
    ],
)
def test_units_of_sources_are_converted(name: str, unit: str, factor: float) -> None:
    assert get_quantity(name).from_unit(unit) == pytest.approx(factor)


@pytest.mark.parametrize(("name", "unit"), [("bandwidth", "IOPS"), ("iops", "MB/s"), ("latency", ""), ("iops", "%")])
def test_a_unit_of_another_quantity_cannot_be_converted(name: str, unit: str) -> None:
    assert get_quantity(name).from_unit(unit) is None


@pytest.mark.parametrize("name", [*QUANTITIES, "clat p99"])
def test_each_quantity_has_its_own_unit(name: str) -> None:
    quantity = get_quantity(name)
    assert quantity.from_unit(quantity.unit) == 1
    assert quantity.unit in quantity.units


# ---- Shares, intervals and counters


@pytest.mark.parametrize(
    ("name", "section", "key"),
    [
        ("share at depth 1", "iodepth_level", "1"),
        ("share at depth 64 and more", "iodepth_level", ">=64"),
        ("share of submissions of up to 4", "iodepth_submit", "4"),
        ("share of completions of more than 64", "iodepth_complete", ">=64"),
        ("share with a latency up to 250 us", "latency_us", "250"),
        ("share with a latency up to 2 ms", "latency_ms", "2"),
    ],
)
def test_a_share_equals_that_of_fio(tmp_path: Path, name: str, section: str, key: str) -> None:
    text = READS.read_text(encoding="utf-8")
    (job,) = json.loads(text)["jobs"]
    found = executions(tmp_path, READS)[get_quantity(name).column][0]
    assert found == pytest.approx(job[section][key])


def test_a_statistic_of_intervals_is_in_the_unit_of_its_quantity(tmp_path: Path) -> None:
    path = parquet(tmp_path / "m.parquet", READS)
    pd.read_parquet(path).assign(iops_max=9287, bandwidth_max_bytes_per_s=38_039_552).to_parquet(path)
    (row,) = read_executions(path).to_dict("records")
    assert row[get_quantity("iops in intervals max").column] == 9287
    assert row[get_quantity("bandwidth in intervals max").column] == pytest.approx(38.039552)
    assert get_quantity("bandwidth in intervals max").from_unit("KiB/s") == pytest.approx(0.001024)


def test_a_counter_is_divided_by_the_requests_that_reached_the_drive(tmp_path: Path) -> None:
    path = parquet(tmp_path / "m.parquet", MIXED)
    counters = {"read_commands": 150, "write_commands": 50, "block_erases": 20}
    pd.read_parquet(path).assign(**{f"counter_{name}": n for name, n in counters.items()}).to_parquet(path)
    assert read_executions(path)[get_quantity("block erases per request").column].tolist() == [0.1]


def test_a_drive_without_counters_has_no_columns_of_counters(tmp_path: Path) -> None:
    assert not [name for name in executions(tmp_path, READS).columns if name.endswith("_per_request")]
