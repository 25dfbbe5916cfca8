"""What may be given to the tables: files, folders, globs, open files, dicts; and what is left out on request."""

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
    """A folder with two results below it, one of them in a folder of its own, and what is none."""
    (tmp_path / "b").mkdir()
    (tmp_path / "b/read.json").write_bytes(READ.read_bytes())
    (tmp_path / "mix.json").write_bytes(MIX.read_bytes())
    (tmp_path / "notes.txt").write_text("no result")
    return tmp_path


def command(*words: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "fio_parser_json", *map(str, words)],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        **options,
    )


def test_a_folder_stands_for_all_results_below_it_by_name(folder: Path) -> None:
    table = jobs(folder)
    assert list(dict.fromkeys(table["source"])) == [str(folder / "b/read.json"), str(folder / "mix.json")]


def test_a_glob_stands_for_the_files_that_match(folder: Path) -> None:
    assert set(jobs(f"{folder}/*.json")["source"]) == {str(folder / "mix.json")}
    assert set(jobs(f"{folder}/**/*.json")["source"]) == {str(folder / "b/read.json"), str(folder / "mix.json")}


def test_a_file_whose_name_looks_like_a_glob_is_that_file(folder: Path) -> None:
    odd = folder / "run[1].json"
    odd.write_bytes(READ.read_bytes())
    assert set(jobs(odd)["source"]) == {str(odd)}


def test_open_files_of_text_and_of_bytes_are_read_and_keep_their_names(folder: Path) -> None:
    plain = jobs(READ)
    with open(READ, encoding="utf-8") as text, open(READ, "rb") as content:
        tables = [jobs(text), jobs([content])]
    for table in tables:
        pd.testing.assert_frame_equal(table, plain)


def test_decoded_results_are_taken_as_they_are_and_told_apart_by_their_place() -> None:
    decoded = json.loads(READ.read_text(encoding="utf-8"))
    table = jobs([decoded, READ, decoded])
    assert list(table["source"]) == ["<decoded 0>", str(READ), "<decoded 2>"]
    pd.testing.assert_frame_equal(jobs(decoded).drop(columns="source"), jobs(READ).drop(columns="source"))


def test_a_decoded_mapping_that_is_not_fios_is_told() -> None:
    with pytest.raises(FioParseError, match="<decoded 0>: this JSON is not fio's"):
        jobs({"results": []})


@pytest.mark.parametrize("given", [{"fio version": "fio-3.33"}, {"jobs": {}}])
def test_a_decoded_mapping_without_jobs_is_told(given: dict[str, Any]) -> None:
    with pytest.raises(FioParseError, match="jobs"):
        jobs(given)


def test_a_glob_without_a_file_and_an_empty_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(FioParseError, match="no file matches"):
        jobs(f"{tmp_path}/*.json")
    with pytest.raises(FioParseError, match=r"there is no file in this folder whose name ends in \.json"):
        jobs(tmp_path)


def test_what_is_no_source_at_all_is_a_type_error() -> None:
    with pytest.raises(TypeError, match="not int"):
        jobs([3])  # type: ignore[list-item]


# ---- What is left out


def test_skipping_leaves_out_a_whole_source_and_says_why(folder: Path) -> None:
    (folder / "cut.json").write_text(MIX.read_text()[:5000])
    (folder / "empty.json").touch()
    good = READ.read_text()
    (folder / "second-cut.json").write_text(good + good[:2000])
    skipped: list[Skipped] = []
    table = jobs([folder, folder / "absent.json"], errors="skip", skipped=skipped)
    assert set(table["source"]) == {str(folder / "b/read.json"), str(folder / "mix.json")}
    told = {Path(each.source).name: each.problem for each in skipped}
    assert list(told) == ["cut.json", "empty.json", "second-cut.json", "absent.json"]
    assert "cut short" in told["cut.json"]
    assert "the file is empty" in told["empty.json"]
    assert "after 1 whole document" in told["second-cut.json"]
    assert told["absent.json"] == os.strerror(2)


def test_a_field_of_the_wrong_type_leaves_out_its_source_too() -> None:
    wrong = json.loads(READ.read_text(encoding="utf-8"))
    wrong["jobs"][0]["read"]["iops"] = "many"
    skipped: list[Skipped] = []
    assert len(jobs([wrong, READ], errors="skip", skipped=skipped)) == 1
    assert skipped == [Skipped("<decoded 0>", "jobs[0].read.iops: expected a number, found a string")]


def test_without_a_list_what_is_left_out_is_a_warning(folder: Path) -> None:
    (folder / "empty.json").touch()
    with pytest.warns(UserWarning, match=r"1 of the sources left out, the first: .*empty\.json: the file is empty"):
        jobs(folder, errors="skip")


def test_nothing_is_said_where_nothing_is_left_out(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(jobs(folder, errors="skip")) == 3
        assert len(latency_bins(folder, errors="skip"))


def test_errors_is_one_of_two_words() -> None:
    with pytest.raises(ValueError, match="'raise' or 'skip'"):
        jobs(READ, errors="ignore")  # type: ignore[arg-type]


def test_documents_of_any_sources_come_without_pandas(folder: Path) -> None:
    assert [each.data for each in all_documents(folder)] == [
        each.data for path in (READ, MIX) for each in read_documents(path)
    ]
    code = f"import sys, fio_parser_json as f; list(f.all_documents({str(folder)!r})); print('pandas' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "False\n"


# ---- The command


def test_the_command_prints_the_table(folder: Path) -> None:
    said = command(folder / "mix.json", folder / "b")
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout == jobs([folder / "mix.json", folder / "b"]).to_csv(index=False, lineterminator="\n")


@pytest.mark.parametrize("table", ["latency-bins", "disk-util", "sync-latencies"])
def test_the_command_prints_other_tables(table: str) -> None:
    given = DATA / "fio-3.33-fdatasync-plus.json"
    expected = getattr(fio_parser_json, table.replace("-", "_"))(given)
    assert len(expected)
    assert command("--table", table, given).stdout == expected.to_csv(index=False, lineterminator="\n")


def test_the_command_reads_what_is_piped_into_it() -> None:
    with open(READ, "rb") as file:
        said = command("-", stdin=file)
    assert len(said.stdout.splitlines()) == 2
    assert said.returncode == 0


@pytest.mark.slow
def test_the_command_leaves_out_only_what_it_is_told_to(folder: Path) -> None:
    (folder / "a.json").write_text("nothing")
    refused = command(folder)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith(f"fio-parser-json: {folder}/a.json: no JSON of fio's in it")
    assert len(refused.stderr.splitlines()) == 1
    said = command("--skip", folder)
    assert said.returncode == 1
    assert len(said.stdout.splitlines()) == 4
    assert said.stderr.startswith(f"fio-parser-json: left out {folder}/a.json: ")


@pytest.mark.parametrize(
    ("words", "status", "told"),
    [
        (["absent.json"], 1, "absent.json: No such file or directory"),
        ([], 2, "SOURCE"),
        (["--table", "job", "x"], 2, "'job'"),
        (["--table", "disk-util", "--all-directions", "x"], 2, "--all-directions is of the table jobs"),
    ],
)
def test_a_mistake_is_one_message(words: list[str], status: int, told: str, tmp_path: Path) -> None:
    said = command(*words, cwd=tmp_path)
    assert said.returncode == status
    assert told in said.stderr
    assert "Traceback" not in said.stderr


def test_the_command_says_its_version() -> None:
    assert command("--version").stdout == f"fio-parser-json {fio_parser_json.__version__}\n"
