"""Tests of unusual forms of output, options, disks, syncs and logs."""

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from fio_parser_json.options import NUMBERS

from fio_parser_json import (
    FioParseError,
    disk_util,
    jobs,
    latency_bins,
    log_bins,
    log_samples,
    parse_documents,
    sync_latencies,
)

DATA = Path(__file__).parent / "data"
FIO = ("--size=1m", "--bs=4k", "--ioengine=psync", "--filename=f")


def at(name: str) -> Path:
    return DATA / f"fio-{name}.json"


def text_of(name: str) -> str:
    return at(name).read_text(encoding="utf-8")


READ = text_of("3.33-randread")

# what people do to the text of a result, by description
FORMS: dict[str, Callable[[str], str]] = {
    "as fio wrote it": lambda text: text,
    "lines end as on Windows": lambda text: text.replace("\n", "\r\n"),
    "on one line": lambda text: json.dumps(json.loads(text)),
    "indented differently, keys sorted": lambda text: json.dumps(json.loads(text), indent=4, sort_keys=True),
    "with a byte order mark": lambda text: "\ufeff" + text,
    "after the transcript of a shell": lambda text: f"$ fio job.fio --output-format=json {{a,b}}\n+ true\n{text}",
    "between lines of a log": lambda text: (
        f"[2019-03-01 12:00:00] INFO {{run: 1}}\n{text}\n[2019-03-01 12:01:00] done\n"
    ),
    "in a code block of Markdown": lambda text: f"# Result\n\n```json\n{text}```\n",
    "after the name of the file, as `head` prints it": lambda text: f"==> out.json <==\n{text}",
    "in a list": lambda text: f"[{text}]",
    "in a larger object": lambda text: json.dumps({"host": "a", "results": {"fio": json.loads(text)}}),
    "without a final line break": lambda text: text.rstrip("\n"),
    "after zeros of a crashed file system": lambda text: "\0" * 512 + text,
    "after the progress line of a terminal": lambda text: (
        f"Jobs: 1 (f=1): [r(1)][100.0%][r=9MiB/s][eta 00m:00s]\r{text}"
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_result_is_found_in_any_text(form: str, tmp_path: Path) -> None:
    (tmp_path / "result.json").write_text(FORMS[form](READ), encoding="utf-8", newline="")
    found, plain = jobs(tmp_path / "result.json"), jobs(at("3.33-randread"))
    pd.testing.assert_frame_equal(found.drop(columns="source"), plain.drop(columns="source"))


# ---- Numeric options


@pytest.mark.parametrize(
    ("name", "column", "numbers"),
    [
        ("3.33-numbers", "bs_bytes", [8192]),
        ("3.33-numbers", "size_bytes", [512 * 1024]),
        ("3.33-numbers", "asked_runtime_us", [150_000]),
        ("3.33-numbers", "rate_iops", [200]),
        ("3.33-bs-by-direction", "bs_bytes", [4096, 16384]),
        ("3.33-libaio-depth16", "iodepth", [16]),
        ("3.33-numjobs", "numjobs", [3] * 6),
        ("3.33-zones", "io_size_bytes", [256 * 1024]),
        ("3.33-steadystate", "asked_runtime_us", [4_000_000]),
    ],
)
def test_numeric_options_have_columns_of_integers(name: str, column: str, numbers: list[int]) -> None:
    table = jobs(at(name))
    assert str(table[column].dtype) == "Int64"
    assert list(table[column]) == numbers


def test_an_option_that_no_source_sets_has_no_column() -> None:
    assert set(NUMBERS) & set(jobs(at("3.33-randread")).columns) == {"bs_bytes", "size_bytes"}


def test_an_option_that_is_not_a_number_is_missing() -> None:
    document = json.loads(READ)
    document["jobs"][0]["job options"] |= {"size": "50%", "bs": "4k-16k", "numjobs": "many"}
    table = jobs(document)
    assert table[["size_bytes", "bs_bytes", "numjobs"]].isna().all(axis=None)
    assert table["option_size"][0] == "50%"


@pytest.mark.slow
@pytest.mark.parametrize("written", ["4k", "4K", "4kb", "4Ki", "4kib", "4096", "0x1000", "1m", "1Mi", "2kB"])
@pytest.mark.parametrize("base", [None, "1000", "1024"])
def test_a_size_is_read_as_fio_reads_it(written: str, base: str | None, tmp_path: Path) -> None:
    words = [f"--kb_base={base}"] if base else []
    words += ["--name=size", "--rw=read", "--ioengine=null", "--size=64m", "--number_ios=8", f"--bs={written}"]
    done = subprocess.run(
        ["fio", *words, "--output-format=json"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    row = jobs(parse_documents(done.stdout, "fio")).iloc[0]
    assert row["bs_bytes"] == row["io_bytes"] / row["total_ios"]


# ---- Disks and syncs


def test_disks_have_the_statistics_that_fio_writes() -> None:
    table = disk_util([at("3.33-fdatasync-plus"), at("3.42-git-randread")])
    assert list(table["disk"]) == ["vda", "vda"]
    assert list(table["write_ios"]) == [308, 0]
    assert table["util_percent"][0] == pytest.approx(8.097166)
    assert table["read_sectors"].isna()[0]  # fio writes sectors since 3.38
    assert table["read_sectors"][1] == 0


def test_means_over_the_disks_of_a_raid_are_columns_of_their_own() -> None:
    document = json.loads(READ)
    # fio writes "aggr_write_merge" without the last letter of "write_merges"
    below = {"read_ios": 7, "write_ios": 0, "write_merge": 2, "read_ticks": 3, "in_queue": 4, "util": 1.5}
    document["disk_util"] = [{"name": "md0", "read_ios": 5, **{f"aggr_{key}": value for key, value in below.items()}}]
    (row,) = disk_util(document).to_dict("records")
    columns = ("disk", "read_ios", "aggr_read_ios", "aggr_write_merges", "aggr_read_ticks_ms", "aggr_util_percent")
    assert [row[column] for column in columns] == ["md0", 5, 7, 2, 3, 1.5]


@pytest.mark.parametrize("wrong", [{}, ["vda"], [{"name": 3}], [{"name": "vda", "read_ios": "5"}]])
def test_malformed_disks_are_an_error_with_the_path(wrong: Any) -> None:
    document = json.loads(READ)
    document["disk_util"] = wrong
    with pytest.raises(FioParseError, match=r"disk_util(\[0\])?"):
        disk_util(document)


def test_syncs_are_counted_apart_from_requests() -> None:
    (row,) = sync_latencies(at("3.33-fdatasync-plus")).to_dict("records")
    # 256 writes, a sync after every fourth one except the last
    assert (row["jobname"], row["syncs"]) == ("sync", 63)
    assert row["sync_min_ns"] < row["sync_p50_ns"] < row["sync_p99_ns"] <= row["sync_max_ns"] * 1.01


def test_a_job_without_syncs_has_no_row() -> None:
    assert sync_latencies(at("3.33-randread")).empty
    assert list(sync_latencies([]).columns[:3]) == ["source", "document", "job"]


# ---- Logs of the installed fio


def run_fio(folder: Path, *words: str) -> pd.DataFrame:
    (folder / "f").write_bytes(np.random.default_rng(1).bytes(1 << 20))
    command = ["fio", "--name=logged", *FIO, *words, "--output-format=json+", "--output=result.json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return jobs(folder / "result.json")


def test_each_line_of_a_log_is_an_io(tmp_path: Path) -> None:
    asked = [f"--write_{what}_log=run" for what in ("bw", "lat", "iops")]
    result = run_fio(tmp_path, "--rw=randrw", "--numjobs=2", "--log_offset=1", *asked)
    samples = log_samples(tmp_path)
    assert set(samples["log"]) >= {"bw", "lat", "clat", "iops"}  # synchronous engines have no submission latency
    ios = result.groupby(["job", "direction"])["total_ios"].sum()
    for what in ("bw", "lat", "clat", "iops"):
        counted = samples[samples["log"] == what].groupby(["job", "direction"]).size()
        assert list(counted) == list(ios), what
    mean = samples[samples["log"] == "lat"].groupby(["job", "direction"])["value"].mean()
    expected = result.groupby(["job", "direction"])["lat_mean_ns"].mean()
    assert list(mean) == pytest.approx(list(expected), rel=1e-6)
    assert (samples["bs_bytes"] == 4096).all()
    assert (samples["offset_bytes"] % 4096 == 0).all()
    assert samples["offset_bytes"].nunique() == 256
    bandwidth, latency = (samples[samples["log"] == what]["value"].to_numpy("float64") for what in ("bw", "lat"))
    assert np.median(bandwidth / (4096 * 1e9 / latency)) == pytest.approx(1, rel=0.2)


def test_each_line_of_an_averaged_log_is_an_interval(tmp_path: Path) -> None:
    asked = ("--time_based", "--runtime=1", "--log_avg_msec=200", "--write_iops_log=run", "--per_job_logs=0")
    result = run_fio(tmp_path, "--rw=randread", "--rate_iops=400", *asked)
    samples = log_samples(tmp_path / "run_iops.log")
    assert samples["job"].isna().all()
    assert 1 <= len(samples) <= 5  # on a busy machine an interval is longer
    lasted_s = samples["time_ms"].astype("float64").diff().fillna(float(samples["time_ms"].iloc[0])) / 1000
    logged, ios = float((samples["value"] * lasted_s).sum()), result["total_ios"][0]
    assert 0 < logged < 1.1 * ios
    assert len(samples) < 5 or logged > 0.5 * ios  # the last interval may be missing
    assert samples["offset_bytes"].isna().all()


@pytest.mark.slow
@pytest.mark.parametrize("coarseness", [0, 3, 6])
def test_a_log_of_histograms_counts_the_ios_of_each_interval(coarseness: int, tmp_path: Path) -> None:
    asked = ("--time_based", "--runtime=1", "--write_hist_log=run", "--log_hist_msec=200")
    run_fio(tmp_path, "--rw=randrw", "--rate_iops=400", *asked, f"--log_hist_coarseness={coarseness}")
    bins, total = log_bins(tmp_path), latency_bins(tmp_path / "result.json")
    for direction, of_run in total.groupby("direction"):
        logged = bins[bins["direction"] == direction]
        assert 0.5 * of_run["count"].sum() < logged["count"].sum() <= of_run["count"].sum()
        # the log is a part of the result, in bins that are at most twice as wide
        for limit_ns in of_run["bin_ns"]:
            longer, shorter = of_run["bin_ns"] > limit_ns, of_run["bin_ns"] < limit_ns
            assert logged["count"][logged["bin_ns"] > 2 * limit_ns].sum() <= of_run["count"][longer].sum()
            assert logged["count"][logged["bin_ns"] < limit_ns / 2].sum() <= of_run["count"][shorter].sum()
        if coarseness == 0:
            assert set(logged["bin_ns"]) <= set(of_run["bin_ns"])
    assert bins["time_ms"].is_monotonic_increasing


@pytest.mark.parametrize(
    ("line", "offset", "priority"),
    [
        ("12, 5000, 0, 4096", None, None),  # as in the manual of fio 2.2
        ("12, 5000, 0, 4096, 40960", 40960, None),  # log_offset, as in the manual of fio 3.1
        ("12, 5000, 0, 4096, 1", None, 1),
        ("12, 5000, 0, 4096, 40960, 0", 40960, 0),
        ("12, 5000, 0, 4096, 0x4002", None, 0x4002),
    ],
)
def test_lines_of_all_versions_are_read(line: str, offset: int | None, priority: int | None, tmp_path: Path) -> None:
    (tmp_path / "run_clat.3.log").write_text(f"{line}\n")
    (row,) = log_samples(tmp_path).to_dict("records")
    assert (row["log"], row["job"], row["time_ms"], row["value"], row["direction"]) == ("clat", 3, 12, 5000, "read")
    assert (pd.isna(row["offset_bytes"]), pd.isna(row["priority"])) == (offset is None, priority is None)
    assert row["offset_bytes"] is pd.NA or row["offset_bytes"] == offset
    assert row["priority"] is pd.NA or row["priority"] == priority


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("run_lat.1.log", "1, 2, 0, 4096\n1, 2, 3\n", "line 2: not a line of such a log"),
        ("run_lat.1.log", "1, 2, 0, 4096\n1, x, 0, 4096\n", "line 2: not a line of such a log"),
        ("run_lat.1.log", "1, 2, 5, 4096\n", "line 1: not a line of such a log"),
        ("run_lat.1.log", "1, 99999999999999999999, 0, 4096\n", "line 1: not a line of such a log"),
        ("run_lat.1.log", "{}", "line 1: not a line of such a log"),
        ("messages.log", "1, 2, 0, 4096\n", "this is not the name of a log of fio"),
        ("run_clat_hist.1.log", "1, 0, 4096, 1, 2\n", "this is a log of histograms: use log_bins"),
    ],
)
def test_a_file_that_is_not_a_log_is_an_error_with_its_line(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FioParseError, match=re.escape(message)):
        log_samples(tmp_path / name)


def test_a_histogram_of_another_size_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run_clat_hist.1.log").write_text("1, 0, 4096, 1, 2\n")
    with pytest.raises(FioParseError, match="fio writes no histogram of 2 bins"):
        log_bins(tmp_path)


def test_empty_logs_give_an_empty_table_with_the_columns(tmp_path: Path) -> None:
    (tmp_path / "run_slat.1.log").touch()
    assert log_samples(tmp_path).empty
    assert "value" in log_samples(tmp_path).columns
