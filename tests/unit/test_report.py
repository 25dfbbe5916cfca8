"""Typesetting of a report."""

from pathlib import Path

import pypdfium2
import pytest
from support import pdf_text

from iopatterns.workflow.report import ReportError, compile_report


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "paper" / "report.typ"
    path.parent.mkdir()
    path.write_text('#let n = json("/results/n.json")\nThe mean is #n.mean #sys.inputs.at("unit", default: "MB/s").')
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "n.json").write_text('{"mean": 12.5}')
    return path


def test_numbers_are_read_from_files_below_the_root(source: Path, tmp_path: Path) -> None:
    assert "The mean is 12.5 MB/s." in pdf_text(compile_report(source, tmp_path / "out" / "report.pdf"))


def test_inputs_reach_the_document(source: Path, tmp_path: Path) -> None:
    assert "12.5 GB/s" in pdf_text(compile_report(source, tmp_path / "report.pdf", inputs={"unit": "GB/s"}))


def test_equal_input_gives_equal_bytes(source: Path, tmp_path: Path) -> None:
    first = compile_report(source, tmp_path / "one.pdf")
    assert first.read_bytes() == compile_report(source, tmp_path / "two.pdf").read_bytes()


def year_of(report: Path) -> int:
    """Return the year of the creation date in a PDF."""
    with pypdfium2.PdfDocument(report) as pdf:
        return int(pdf.get_metadata_value("CreationDate").removeprefix("D:")[:4])


def test_the_date_comes_from_the_environment(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    years = [year_of(compile_report(source, tmp_path / "a.pdf"))]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    years.append(year_of(compile_report(source, tmp_path / "b.pdf")))
    assert years == [1970, 2020]


def test_an_invalid_date_is_refused(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ReportError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        compile_report(source, tmp_path / "report.pdf")


def test_an_error_names_its_line_and_keeps_the_earlier_report(source: Path, tmp_path: Path) -> None:
    pdf = compile_report(source, tmp_path / "out" / "report.pdf")
    before = pdf.read_bytes()
    source.write_text("Fine.\n#nothing")
    with pytest.raises(ReportError) as caught:
        compile_report(source, pdf)
    assert "unknown variable: nothing" in str(caught.value)
    assert "report.typ:2:" in str(caught.value)
    assert pdf.read_bytes() == before
    assert [file.name for file in pdf.parent.iterdir()] == ["report.pdf"]


def test_a_missing_number_or_file_is_named(source: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "results" / "n.json"
    numbers.write_text('{"median": 12.5}')
    with pytest.raises(ReportError, match='does not contain key "mean"'):
        compile_report(source, tmp_path / "report.pdf")
    numbers.unlink()
    with pytest.raises(ReportError, match=r"file not found.*n\.json"):
        compile_report(source, tmp_path / "report.pdf")


def test_a_source_that_is_missing_or_outside_the_root_is_named(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"none\.typ"):
        compile_report(tmp_path / "none.typ", tmp_path / "report.pdf")
    with pytest.raises(ReportError, match=r"report\.typ"):
        compile_report(source, tmp_path / "report.pdf", tmp_path / "results")
