"""Tests of finding and decoding the documents of fio in any text."""

import json
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fio_parser_json.documents import FioParseError, parse_documents, read_documents
from hypothesis import given
from hypothesis import strategies as st

DATA = Path(__file__).parent / "data"
SINGLE = (DATA / "fio-3.33-randread.json").read_text()
SEVERAL = (DATA / "fio-3.33-status-interval.json").read_text()
# any text, with many fragments of JSON
anything = st.lists(st.text() | st.sampled_from([*'{}[]":,\n', '{"', '": ', "{}", "nan"])).map("".join)
# outputs with and without a preamble, of one and of several documents
OUTPUTS = "2.0.10-randread 2.16-status-interval 3.33-status-interval 3.33-sigint 3.33-client 3.42-git-two-servers"
outputs = st.sampled_from([(DATA / f"fio-{name}.json").read_text() for name in OUTPUTS.split()])


def test_every_output_is_read_with_its_version(output: Path) -> None:
    version = output.name.split("-")[1]
    assert read_documents(output)[0].data["fio version"].startswith(f"fio-{version}")


@given(preambles=st.lists(anything, min_size=1, max_size=4))
def test_text_around_documents_is_kept_and_does_not_change_them(preambles: list[str]) -> None:
    body = SINGLE.rstrip("\n")
    text = "".join(f"{preamble}\n{body}" for preamble in preambles) + "\nthe end"
    documents = parse_documents(text, "all")
    assert [document.data for document in documents] == [json.loads(SINGLE)] * len(preambles)
    assert [document.preamble for document in documents] == [f"{preamble}\n" for preamble in preambles]
    assert [document.trailer for document in documents] == [""] * (len(preambles) - 1) + ["\nthe end"]


@given(text=outputs, share=st.floats(0, 1))
def test_a_truncated_output_is_an_error_or_gives_the_complete_documents(text: str, share: float) -> None:
    cut = text[: round(share * len(text))]
    try:
        found = parse_documents(cut, "cut.json")
    except FioParseError:
        return
    whole = parse_documents(text, "whole.json")
    # a line with a brace only is the beginning of a document
    assert [document.data for document in found] == [document.data for document in whole[: cut.split("\n").count("{")]]


@given(share=st.floats(0, 1))
def test_a_truncated_document_is_an_error_that_names_the_file_and_the_cause(share: float) -> None:
    cut = SINGLE[: round(share * (len(SINGLE.rstrip()) - 1))]
    with pytest.raises(FioParseError, match=r"^run7\.json: .*killed"):
        parse_documents(cut, "run7.json")


COMPACT = json.dumps(json.loads(SINGLE), sort_keys=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (SEVERAL[:-200], "truncated (after 2 complete documents)"),
        (SINGLE + "{", "truncated (after 1 complete document)"),
        (SINGLE + '{\n  "fi', "truncated (after 1 complete document)"),
        (SINGLE + '{\n  "fio version"', "truncated (after 1 complete document)"),
        (COMPACT[: COMPACT.index('"fio version"')], "truncated"),
        ("", "the file is empty; fio was probably killed"),
        ("\0" * 4096, "the file is blank"),
        ("fio: unable to open\n", "begins with 'fio: unable to open'. Was fio run with --output-format=json"),
        ('\n{"name": "iperf", "intervals": []}', "line 2, column 1: this JSON is not output of fio"),
        ('{"fio version": "fio-3.33"}', "x.json: top level: "),
        ('{"fio version": "fio-3.33", "jobs": {}}', "x.json: jobs: expected a list"),
        ('{"fio version": "fio-3.33", "jobs": [{}, 3]}', "x.json: jobs[1]: expected an object"),
        ('{"client_stats": ["a"]}', "x.json: client_stats[0]: expected an object"),
        ('{"fio version": ' + "[" * 100_000, "nested too deeply"),
    ],
    ids=[f"text {number}" for number in range(14)],
)
def test_text_without_complete_documents_is_an_error(text: str, message: str) -> None:
    with pytest.raises(FioParseError, match=re.escape(message)):
        parse_documents(text, "x.json")


def test_an_error_in_a_document_gives_line_and_column() -> None:
    broken = SINGLE.replace('"jobname" :', '"jobname"', 1)
    line = broken[: broken.index('"jobname"')].count("\n") + 1
    with pytest.raises(FioParseError, match=rf"^broken\.json: line {line}, column \d+: invalid JSON"):
        parse_documents(broken, "broken.json")


@pytest.mark.parametrize("written", ["nan", "-nan", "inf", "-inf", "-nan(ind)", "NaN", "-Infinity"])
def test_a_float_that_is_not_a_number_is_missing(written: str) -> None:
    text = SINGLE.replace('"ctx" :', f'"ctx" : {written}, "was" :')
    assert parse_documents(text, "nan.json")[0].jobs[0]["ctx"] is None


def test_a_string_with_nan_and_a_control_character_is_kept_beside_a_nan(data: Path) -> None:
    text = (data / "fio-3.33-description.json").read_text().replace('"ctx" : ', '"ctx" : nan, "was" : ')
    assert parse_documents(text, "nan.json")[0].jobs[0]["desc"] == 'a "b" {c}\ttab: nan, d'


def test_an_error_after_a_nan_keeps_its_place() -> None:
    broken = SINGLE.replace('"ctx" :', '"was" : -nan, "ctx"', 1)
    before = broken[: broken.index('"ctx" ') + len('"ctx" ')]
    place = f"line {before.count(chr(10)) + 1}, column {len(before) - before.rindex(chr(10))}"
    with pytest.raises(FioParseError, match=place):
        parse_documents(broken, "x.json")


def test_bytes_that_are_not_utf8_become_replacement_characters(tmp_path: Path) -> None:
    path = tmp_path / "latin1.json"
    path.write_bytes(b"fio: na\xefve\n" + SINGLE.replace("randread", "lecture\0").encode().replace(b"\0", b"\xe9"))
    document = read_documents(path)[0]
    assert (document.preamble, document.jobs[0]["jobname"]) == ("fio: na\ufffdve\n", "lecture\ufffd")


def test_utf_16_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "windows.json"
    path.write_text(SINGLE, encoding="utf-16")
    assert read_documents(path)[0].preamble == ""


def test_status_interval_gives_a_document_for_each_interval_and_the_end() -> None:
    assert [document.index for document in parse_documents(SEVERAL, "x.json")] == [0, 1, 2]


@pytest.mark.parametrize(
    ("name", "preamble", "trailer"),
    [
        ("3.33-sigterm", "fio: terminating on signal 15", ""),
        ("3.39-server-lost", "client: host=127.0.0.1 disconnected", ""),
        ("3.33-json-and-normal", "3;fio-3.33;both;", "Run status group 0"),
    ],
)
def test_messages_and_other_formats_around_the_json_are_kept(name: str, preamble: str, trailer: str) -> None:
    document = read_documents(DATA / f"fio-{name}.json")[0]
    assert preamble in document.preamble
    assert trailer in document.trailer


def test_the_summary_of_all_clients_is_not_a_job(data: Path) -> None:
    document = read_documents(data / "fio-3.33-two-servers.json")[0]
    assert len(document.data["client_stats"]) == 5
    assert [job["jobname"] for job in document.jobs] == ["one", "two", "one", "two"]


def test_a_missing_file_is_an_os_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.json"):
        read_documents(tmp_path / "nowhere.json")


@pytest.mark.parametrize("statement", ["import fio_parser_json.documents", "import fio_parser_json"])
def test_reading_documents_does_not_import_pandas(statement: str) -> None:
    program = f"{statement}; import sys; sys.exit('pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_an_unknown_name_in_the_package_is_an_attribute_error() -> None:
    import fio_parser_json

    with pytest.raises(AttributeError, match="no attribute 'tables_of_contents'"):
        fio_parser_json.tables_of_contents  # noqa: B018


# Text by a count: shapes for which a parser may begin again at each character. All are refused.
ENDLESS = {
    "escaped quotes in an unterminated string": lambda count: '{"fio version": nan, "x": "' + r"\"" * count,
    "an unterminated string that ends in a backslash": lambda count: (
        '{"fio version": nan, "x": "' + r"\"" * count + "\\"
    ),
    "quotes between messages": lambda count: "note " + '{"a": "' * count,
    "nested objects": lambda count: "note " + '{"a": ' * min(count, 400) + "[" + "{}, " * count,
    "nested objects in strings": lambda count: (
        'note {"a": ["' + ':[{","' * min(count, 300) + ":0,".join(['"a"'] * count)
    ),
    "nested lists": lambda count: '{"a": ' + "[" * count,
    "numbers that are none": lambda count: "note " + '{"a": nan, ' * count,
    "objects of other programs": lambda count: "note " + '{"a": "b"} ' * count,
    "braces": lambda count: "note " + "{" * count,
    "blanks": lambda count: "note " + "{ " * count,
    "a document in many objects": lambda count: (
        '{"a": ' * min(count, 400) + '{"fio version": "fio-3.33"}, "b": [' + "0, " * count
    ),
}


@pytest.mark.parametrize("shape", ENDLESS)
def test_the_time_grows_with_the_length_of_the_text(shape: str) -> None:
    def processor_time_s(count: int) -> float:
        text = ENDLESS[shape](count)
        times = []
        for _ in range(3):
            began_s = time.process_time()
            with pytest.raises(FioParseError):
                parse_documents(text, "hostile.json")
            times.append(time.process_time() - began_s)
        return min(times)

    # a quadratic parser needs 256 times as long
    assert processor_time_s(16_000) < 64 * max(processor_time_s(1_000), 1e-4)
