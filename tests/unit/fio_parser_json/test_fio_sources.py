"""Tests of the sources of tables, of skipped sources, and of the command."""

import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from fio_parser_json.sources import Skipped, all_documents

import fio_parser_json
from fio_parser_json import FioParseError, jobs, latency_bins, read_documents

DATA = Path(__file__).parent / "data"
READ, MIX = DATA / "fio-3.33-randread.json", DATA / "fio-3.33-randrw-plus.json"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with two results and another file.

    One result is in a subfolder.
    """
    (tmp_path / "b").mkdir()
    (tmp_path / "b/read.json").write_bytes(READ.read_bytes())
    (tmp_path / "mix.json").write_bytes(MIX.read_bytes())
    (tmp_path / "notes.txt").write_text("not a result")
    return tmp_path


def command(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fio_parser_json", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        **options,
    )


def test_a_folder_gives_all_results_below_it_sorted_by_path(folder: Path) -> None:
    table = jobs(folder)
    assert list(dict.fromkeys(table["source"])) == [str(folder / "b/read.json"), str(folder / "mix.json")]


def test_a_glob_gives_the_files_that_match_unless_a_file_has_this_name(folder: Path) -> None:
    assert set(jobs(f"{folder}/*.json")["source"]) == {str(folder / "mix.json")}
    assert set(jobs(f"{folder}/**/*.json")["source"]) == {str(folder / "b/read.json"), str(folder / "mix.json")}
    odd = folder / "run[1].json"
    odd.write_bytes(READ.read_bytes())
    assert set(jobs(odd)["source"]) == {str(odd)}


def test_open_files_of_text_and_of_bytes_are_read_and_keep_their_names(folder: Path) -> None:
    with open(READ, encoding="utf-8") as text, open(READ, "rb") as content:
        for table in (jobs(text), jobs([content])):
            pd.testing.assert_frame_equal(table, jobs(READ))


def test_decoded_results_are_named_by_their_position() -> None:
    decoded = json.loads(READ.read_text(encoding="utf-8"))
    table = jobs([decoded, READ, decoded])
    assert list(table["source"]) == ["<decoded 0>", str(READ), "<decoded 2>"]
    pd.testing.assert_frame_equal(jobs(decoded).drop(columns="source"), jobs(READ).drop(columns="source"))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"results": []}, "<decoded 0>: this JSON is not output of fio"),
        ({"fio version": "fio-3.33"}, "jobs"),
        ({"jobs": {}}, "jobs"),
        ("nowhere/*.json", "no file matches"),
    ],
)
def test_a_source_without_a_result_is_an_error(given: Any, message: str) -> None:
    with pytest.raises(FioParseError, match=message):
        jobs(given)


def test_a_folder_without_results_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FioParseError, match=r"no file in this folder has a name that ends in \.json"):
        jobs(tmp_path)


def test_a_source_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not int"):
        jobs([3])  # type: ignore[list-item]


# ---- Skipped sources


def test_a_skipped_source_yields_nothing_and_its_problem_is_returned(folder: Path) -> None:
    (folder / "cut.json").write_text(MIX.read_text()[:5000])
    (folder / "empty.json").touch()
    good = READ.read_text()
    (folder / "second-cut.json").write_text(good + good[:2000])
    skipped: list[Skipped] = []
    table = jobs([folder, folder / "absent.json"], errors="skip", skipped=skipped)
    assert set(table["source"]) == {str(folder / "b/read.json"), str(folder / "mix.json")}
    problems = {Path(each.source).name: each.problem for each in skipped}
    assert list(problems) == ["cut.json", "empty.json", "second-cut.json", "absent.json"]
    assert "truncated" in problems["cut.json"]
    assert "the file is empty" in problems["empty.json"]
    assert "after 1 complete document" in problems["second-cut.json"]
    assert problems["absent.json"] == os.strerror(2)


def test_a_source_with_a_field_of_the_wrong_type_is_skipped() -> None:
    wrong = json.loads(READ.read_text(encoding="utf-8"))
    wrong["jobs"][0]["read"]["iops"] = "many"
    skipped: list[Skipped] = []
    assert len(jobs([wrong, READ], errors="skip", skipped=skipped)) == 1
    assert skipped == [Skipped("<decoded 0>", "jobs[0].read.iops: expected a number, found a string")]


def test_without_a_list_a_warning_counts_the_skipped_sources(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(jobs(folder, errors="skip")) == 3
        assert len(latency_bins(folder, errors="skip"))
    (folder / "empty.json").touch()
    with pytest.warns(UserWarning, match=r"skipped sources: 1. The first: .*empty\.json: the file is empty"):
        jobs(folder, errors="skip")


def test_errors_is_one_of_two_words() -> None:
    with pytest.raises(ValueError, match="'raise' or 'skip'"):
        jobs(READ, errors="ignore")  # type: ignore[arg-type]


def test_reading_documents_of_any_source_does_not_import_pandas(folder: Path) -> None:
    assert [each.data for each in all_documents(folder)] == [
        each.data for path in (READ, MIX) for each in read_documents(path)
    ]
    code = f"import sys, fio_parser_json as f; list(f.all_documents({str(folder)!r})); print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "False\n"


# ---- The command


def test_the_command_prints_the_table_of_jobs(folder: Path) -> None:
    done = command(folder / "mix.json", folder / "b")
    assert (done.returncode, len(done.stderr.splitlines())) == (0, 1)
    assert done.stdout == jobs([folder / "mix.json", folder / "b"]).to_csv(index=False, lineterminator="\n")


@pytest.mark.parametrize("table", ["latency-bins", "disk-util", "sync-latencies"])
def test_the_command_prints_other_tables(table: str) -> None:
    given = DATA / "fio-3.33-fdatasync-plus.json"
    expected = getattr(fio_parser_json, table.replace("-", "_"))(given)
    assert len(expected)
    assert command("--table", table, given).stdout == expected.to_csv(index=False, lineterminator="\n")


def test_the_command_reads_standard_input() -> None:
    with open(READ, "rb") as file:
        done = command("-", stdin=file)
    assert len(done.stdout.splitlines()) == 2
    assert done.returncode == 0


@pytest.mark.slow
def test_the_command_skips_invalid_sources_on_request_only(folder: Path) -> None:
    (folder / "a.json").write_text("nothing")
    refused = command(folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"fio-parser-json: {folder}/a.json: no JSON output of fio found")
    assert len(refused.stderr.splitlines()) == 1
    done = command("--skip", folder)
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) == 4
    assert done.stderr.startswith(f"fio-parser-json: skipped {folder}/a.json: ")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["absent.json"], 1, "absent.json: No such file or directory"),
        ([], 2, "SOURCE"),
        (["--table", "job", "x"], 2, "'job'"),
        (["--table", "disk-util", "--all-directions", "x"], 2, "--all-directions is valid with --table jobs only"),
    ],
)
def test_a_mistake_gives_one_message(words: list[str], status: int, message: str, tmp_path: Path) -> None:
    done = command(*words, cwd=tmp_path)
    assert done.returncode == status
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_the_command_prints_its_version() -> None:
    assert command("--version").stdout == f"fio-parser-json {fio_parser_json.__version__}\n"
