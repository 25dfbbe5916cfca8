"""Finding and decoding fio's documents in whatever text they come."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fio_parser_json.documents import FioParseError, parse_documents, read_documents
from hypothesis import given
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data"
SINGLE = (DATA / "fio-3.33-randread.json").read_text()
SEVERAL = (DATA / "fio-3.33-status-interval.json").read_text()
# Any text, rich in what could be taken for JSON.
anything = st.lists(st.text() | st.sampled_from([*'{}[]":,\n', '{"', '": ', "{}", "nan"])).map("".join)
# Real outputs without a preamble and with one, of one document and of several.
outputs = st.sampled_from(
    [
        (DATA / f"fio-{name}.json").read_text()
        for name in (
            "2.0.10-randread",
            "2.16-status-interval",
            "3.33-status-interval",
            "3.33-sigint",
            "3.33-client",
            "3.33-description",
            "3.42-git-two-servers",
        )
    ]
)


def test_every_output_is_read(output: Path) -> None:
    assert read_documents(output)


def test_fio_version_is_that_of_the_fio_that_wrote_the_file(output: Path) -> None:
    version = output.name.split("-")[1]
    assert read_documents(output)[0].data["fio version"].startswith(f"fio-{version}")


@given(preambles=st.lists(anything, min_size=1, max_size=4))
def test_any_text_before_and_between_documents_leaves_them_alone(preambles: list[str]) -> None:
    text = "".join(f"{preamble}\n{SINGLE}" for preamble in preambles)
    expected = parse_documents(SINGLE, "alone")[0].data
    assert [document.data for document in parse_documents(text, "all")] == [expected] * len(preambles)


@given(preambles=st.lists(anything, min_size=1, max_size=4))
def test_text_around_documents_is_kept(preambles: list[str]) -> None:
    body = SINGLE.rstrip("\n")
    text = "".join(f"{preamble}\n{body}" for preamble in preambles) + "\nthe end"
    documents = parse_documents(text, "all")
    assert [document.preamble for document in documents] == [f"{preamble}\n" for preamble in preambles]
    assert [document.trailer for document in documents] == [""] * (len(preambles) - 1) + ["\nthe end"]


@given(text=outputs, share=st.floats(0, 1))
def test_a_cut_output_is_an_error_or_gives_the_whole_documents_before_the_cut(text: str, share: float) -> None:
    cut = text[: round(share * len(text))]
    try:
        found = parse_documents(cut, "cut.json")
    except FioParseError:
        return
    whole = parse_documents(text, "whole.json")
    # fio opens each document, and nothing else, with a brace on a line of its own.
    assert [document.data for document in found] == [document.data for document in whole[: cut.split("\n").count("{")]]


@given(share=st.floats(0, 1))
def test_a_cut_document_is_an_error_that_names_the_file_and_fios_death(share: float) -> None:
    cut = SINGLE[: round(share * (len(SINGLE.rstrip()) - 1))]
    with pytest.raises(FioParseError, match=r"^run7\.json: .*killed"):
        parse_documents(cut, "run7.json")


def test_a_cut_last_document_is_an_error_that_counts_the_whole_ones() -> None:
    with pytest.raises(FioParseError, match="after 2 whole documents"):
        parse_documents(SEVERAL[:-200], "cut.json")


@pytest.mark.parametrize("opening", ["{", '{\n  "fi', '{\n  "fio version"'])
def test_a_last_document_cut_in_its_opening_is_an_error(opening: str) -> None:
    with pytest.raises(FioParseError, match="after 1 whole document"):
        parse_documents(SINGLE + opening, "cut.json")


def test_an_error_in_a_document_gives_line_and_column() -> None:
    broken = SINGLE.replace('"jobname" :', '"jobname"', 1)
    line = broken[: broken.index('"jobname"')].count("\n") + 1
    with pytest.raises(FioParseError, match=rf"^broken\.json: line {line}, column \d+: invalid JSON"):
        parse_documents(broken, "broken.json")


def test_a_killed_fio_leaves_an_empty_file_and_the_message_says_so(tmp_path: Path) -> None:
    path = tmp_path / "empty.json"
    path.touch()
    with pytest.raises(FioParseError, match=r"empty\.json: the file is empty; fio was probably killed"):
        read_documents(path)


def test_a_file_of_nul_bytes_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "nul.json"
    path.write_bytes(bytes(4096))
    with pytest.raises(FioParseError, match="the file is blank"):
        read_documents(path)


def test_text_without_json_is_an_error_that_quotes_its_beginning() -> None:
    with pytest.raises(FioParseError, match=r"begins with 'fio: unable to open'.*--output-format=json"):
        parse_documents("fio: unable to open\n", "x.json")


def test_json_of_something_else_is_an_error() -> None:
    with pytest.raises(FioParseError, match=r"line 2, column 1: this JSON is not fio's"):
        parse_documents('\n{"name": "iperf", "intervals": []}', "x.json")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"fio version": "fio-3.33"}', "top level"),
        ('{"fio version": "fio-3.33", "jobs": {}}', "jobs"),
        ('{"fio version": "fio-3.33", "jobs": [{}, 3]}', r"jobs\[1\]"),
        ('{"client_stats": ["a"]}', r"client_stats\[0\]"),
    ],
)
def test_a_document_without_a_list_of_jobs_is_an_error_with_its_place(text: str, place: str) -> None:
    with pytest.raises(FioParseError, match=f"^x.json: {place}: "):
        parse_documents(text, "x.json")


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    with pytest.raises(FioParseError, match="nested"):
        parse_documents('{"fio version": ' + "[" * 100_000, "x.json")


@pytest.mark.parametrize("written", ["nan", "-nan", "inf", "-inf", "-nan(ind)", "NaN", "-Infinity"])
def test_a_float_that_is_no_number_is_a_missing_value(written: str) -> None:
    text = SINGLE.replace('"ctx" :', f'"ctx" : {written}, "was" :')
    assert parse_documents(text, "nan.json")[0].jobs[0]["ctx"] is None


def test_a_string_that_looks_like_nan_survives_beside_a_real_nan(data: Path) -> None:
    text = (data / "fio-3.33-description.json").read_text().replace('"ctx" : ', '"ctx" : nan, "was" : ')
    assert parse_documents(text, "nan.json")[0].jobs[0]["desc"] == 'a "b" {c}\ttab: nan, d'


def test_an_error_after_a_nan_keeps_its_place() -> None:
    broken = SINGLE.replace('"ctx" :', '"was" : -nan, "ctx"', 1)
    before = broken[: broken.index('"ctx" ') + len('"ctx" ')]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rindex(chr(10))}"
    with pytest.raises(FioParseError, match=place):
        parse_documents(broken, "x.json")


def test_a_control_character_in_a_description_is_kept(data: Path) -> None:
    assert "\t" in read_documents(data / "fio-3.33-description.json")[0].jobs[0]["desc"]


def test_bytes_that_are_not_utf8_become_replacement_characters(tmp_path: Path) -> None:
    path = tmp_path / "latin1.json"
    path.write_bytes(b"fio: na\xefve\n" + SINGLE.replace("randread", "lecture\0").encode().replace(b"\0", b"\xe9"))
    document = read_documents(path)[0]
    assert (document.preamble, document.jobs[0]["jobname"]) == ("fio: na\ufffdve\n", "lecture\ufffd")


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_text(encoding: str, tmp_path: Path) -> None:
    path = tmp_path / "windows.json"
    path.write_text(SINGLE, encoding=encoding)
    assert read_documents(path)[0].preamble == ""


def test_a_document_may_be_on_one_line_with_its_keys_in_any_order() -> None:
    compact = json.dumps(json.loads(SINGLE), sort_keys=True)
    assert parse_documents(compact, "jq.json")[0].data == json.loads(SINGLE)


def test_a_cut_document_with_its_keys_in_another_order_is_an_error() -> None:
    compact = json.dumps(json.loads(SINGLE), sort_keys=True)
    with pytest.raises(FioParseError, match="cut short"):
        parse_documents(compact[: compact.index('"fio version"')], "jq.json")


def test_a_result_inside_a_larger_json_is_found() -> None:
    wrapped = '{"host": "a", "result": ' + SINGLE + "}"
    assert parse_documents(wrapped, "wrapped.json")[0].data == json.loads(SINGLE)


def test_status_interval_gives_a_document_for_each_interval_and_the_end() -> None:
    documents = parse_documents(SEVERAL, "x.json")
    assert [document.index for document in documents] == [0, 1, 2]


def test_a_terminated_run_keeps_fios_note(data: Path) -> None:
    preamble = read_documents(data / "fio-3.33-sigterm.json")[0].preamble
    assert preamble.strip() == "fio: terminating on signal 15"


def test_a_lost_server_is_told_in_the_preamble(data: Path) -> None:
    document = read_documents(data / "fio-3.39-server-lost.json")[0]
    assert "client: host=127.0.0.1 disconnected" in document.preamble


def test_output_in_other_formats_stands_around_the_json(data: Path) -> None:
    document = read_documents(data / "fio-3.33-json-and-normal.json")[0]
    assert ("3;fio-3.33;both;" in document.preamble, "Run status group 0" in document.trailer) == (True, True)


def test_the_summary_of_all_clients_is_no_job(data: Path) -> None:
    document = read_documents(data / "fio-3.33-two-servers.json")[0]
    assert len(document.data["client_stats"]) == 5
    assert [job["jobname"] for job in document.jobs] == ["one", "two", "one", "two"]


def test_a_missing_file_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        read_documents(tmp_path / "nowhere.json")


@pytest.mark.parametrize("statement", ["import fio_parser_json.documents", "import fio_parser_json"])
def test_reading_documents_does_without_pandas(statement: str) -> None:
    program = f"{statement}; import sys; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_unknown_name_in_the_package_is_an_attribute_error() -> None:
    import fio_parser_json

    with pytest.raises(AttributeError, match="no attribute 'tables_of_contents'"):
        fio_parser_json.tables_of_contents  # noqa: B018
