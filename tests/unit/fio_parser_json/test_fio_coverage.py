"""What tables of fio results leave out is reported, and odd forms of results are read."""

import bz2
import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fio_parser_json import FioParseError, TableCoverage, jobs, read_documents

DATA = Path(__file__).parent / "data"
READ = DATA / "fio-3.33-randread.json"


def result(folder: Path, text: str) -> Path:
    path = folder / "result.json"
    path.write_text(text)
    return path


def job(**fields: Any) -> dict[str, Any]:
    return {"jobname": "a", "error": 0, "mixed": {"io_bytes": 4, "total_ios": 273_369, "iops": 2.5}, **fields}


def test_a_lone_sum_over_all_servers_is_a_row(tmp_path: Path) -> None:
    alone = {"fio version": "fio-2.6", "client_stats": [job(jobname="All clients")]}
    coverage = TableCoverage()
    table = jobs(result(tmp_path, json.dumps(alone)), coverage=coverage)
    assert table[["jobname", "total_ios"]].to_numpy().tolist() == [["All clients", 273_369]]
    assert "a document has no jobs, only the sum over all servers" in coverage.text()
    alone["client_stats"] = [job(), job(jobname="All clients")]
    coverage = TableCoverage()
    assert jobs(result(tmp_path, json.dumps(alone)), coverage=coverage)["jobname"].tolist() == ["a"]
    assert coverage.left_out['sums over all servers ("All clients")'] == 1


def test_a_document_without_jobs_is_counted(tmp_path: Path) -> None:
    coverage = TableCoverage()
    assert jobs(result(tmp_path, '{"fio version": "fio-3.42", "jobs": []}'), coverage=coverage).empty
    assert coverage.text() == "coverage: 0 rows of 1 document; left out: 1 documents without jobs"


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4096B", 4096),
        ("4096b", 4096),
        ("4k", 4096),
        ("4KiB", 4000),
        ("1.5k", 1536),
        ("512B,4096B", 512),
        ("4kB", 4096),
    ],
)
def test_sizes_with_the_letter_b_are_read(text: str, size: int, tmp_path: Path) -> None:
    document = {"fio version": "fio-3.42", "jobs": [job(**{"job options": {"bs": text}, "read": {"total_ios": 1}})]}
    assert jobs(result(tmp_path, json.dumps(document)))["bs_bytes"].tolist() == [size]


@pytest.mark.parametrize(
    ("options", "remark"),
    [
        ({"size": "50%"}, "size_bytes is empty in 1 row, whose option is no number: '50%'"),
        ({"bs": ",8k"}, "bs_bytes is empty in 1 row, whose option is no number: ',8k'"),
        ({"bs": "4k,8k", "iodepth": "16", "bssplit": "4k/50:8k/50"}, None),
    ],
)
def test_an_option_that_is_no_number_is_named(options: dict[str, str], remark: str | None, tmp_path: Path) -> None:
    document = {"fio version": "fio-3.42", "jobs": [job(**{"job options": options, "read": {"total_ios": 1}})]}
    coverage = TableCoverage()
    jobs(result(tmp_path, json.dumps(document)), coverage=coverage)
    assert coverage.remarks == ([] if remark is None else [remark])


def test_repeated_options_are_joined_or_named(tmp_path: Path) -> None:
    options = '{"filename": "Nvme0n1", "filename": "Nvme1n1", "bs": "4k", "bs": "8k"}'
    text = json.dumps({"fio version": "fio-3.33", "jobs": [job(**{"job options": "HERE"})]})
    path = result(tmp_path, text.replace('"HERE"', options))
    coverage = TableCoverage()
    table = jobs(path, coverage=coverage)
    assert table[["option_filename", "bs_bytes"]].to_numpy().tolist() == [["Nvme0n1:Nvme1n1", 8192]]
    assert "the key 'filename' occurs up to 2 times in an object, joined with colons" in coverage.text()
    assert "the key 'bs' occurs up to 2 times in an object, of which the last counts" in coverage.text()
    assert read_documents(path)[0].repeated == {"filename": 2, "bs": 2}


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_compressed_result_is_read(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    packed = tmp_path / "result.json.gz"
    packed.write_bytes(pack(READ.read_bytes()))
    assert jobs(tmp_path)["iops"].tolist() == jobs(READ)["iops"].tolist()
    packed.write_bytes(pack(READ.read_bytes())[:-20])
    with pytest.raises(FioParseError, match=r"result\.json\.gz: the compressed data are damaged or incomplete"):
        jobs(packed)
    packed.write_bytes(b"\x28\xb5\x2f\xfd\0")
    with pytest.raises(FioParseError, match="compressed with zstd; decompress it"):
        jobs(packed)


def test_the_command_prints_the_coverage() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "fio_parser_json", str(READ)], capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("fio-parser-json: coverage: 1 row of 1 document; left out: 2 directions without I/O;")
    assert "fields of jobs in no table: elapsed, eta" in done.stderr
