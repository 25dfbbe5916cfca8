"""Facts about typesetting: the same bytes each time, all or nothing, and typst's own words when it fails."""

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


def test_numbers_are_taken_from_files_below_the_root(source: Path, tmp_path: Path) -> None:
    assert "The mean is 12.5 MB/s." in pdf_text(compile_report(source, tmp_path / "out" / "report.pdf"))


def test_inputs_reach_the_document(source: Path, tmp_path: Path) -> None:
    assert "12.5 GB/s" in pdf_text(compile_report(source, tmp_path / "report.pdf", inputs={"unit": "GB/s"}))


def test_the_same_input_gives_the_same_bytes(source: Path, tmp_path: Path) -> None:
    first = compile_report(source, tmp_path / "one.pdf")
    assert first.read_bytes() == compile_report(source, tmp_path / "two.pdf").read_bytes()


def year_of(report: Path) -> int:
    """Return the year in which a PDF says that it was made."""
    with pypdfium2.PdfDocument(report) as pdf:
        return int(pdf.get_metadata_value("CreationDate").removeprefix("D:")[:4])


def test_the_date_is_that_of_the_environment(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    years = [year_of(compile_report(source, tmp_path / "a.pdf"))]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1600000000")
    years.append(year_of(compile_report(source, tmp_path / "b.pdf")))
    assert years == [1970, 2020]


def test_a_date_that_is_none_is_told(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "yesterday")
    with pytest.raises(ReportError, match="SOURCE_DATE_EPOCH is 'yesterday'"):
        compile_report(source, tmp_path / "report.pdf")


def test_a_fault_is_told_with_its_line_and_leaves_the_earlier_report(source: Path, tmp_path: Path) -> None:
    pdf = compile_report(source, tmp_path / "out" / "report.pdf")
    before = pdf.read_bytes()
    source.write_text("Fine.\n#nothing")
    with pytest.raises(ReportError) as caught:
        compile_report(source, pdf)
    assert "unknown variable: nothing" in str(caught.value)
    assert "report.typ:2:" in str(caught.value)
    assert pdf.read_bytes() == before
    assert [file.name for file in pdf.parent.iterdir()] == ["report.pdf"]


def test_a_missing_number_is_told_by_name(source: Path, tmp_path: Path) -> None:
    (tmp_path / "results" / "n.json").write_text('{"median": 12.5}')
    with pytest.raises(ReportError, match='does not contain key "mean"'):
        compile_report(source, tmp_path / "report.pdf")


def test_a_missing_file_is_told_by_name(source: Path, tmp_path: Path) -> None:
    (tmp_path / "results" / "n.json").unlink()
    with pytest.raises(ReportError, match=r"file not found.*n\.json"):
        compile_report(source, tmp_path / "report.pdf")


def test_a_missing_source_is_told_by_name(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"none\.typ: there is no such file"):
        compile_report(tmp_path / "none.typ", tmp_path / "report.pdf")


def test_a_source_outside_of_the_root_is_told(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"report\.typ"):
        compile_report(source, tmp_path / "report.pdf", tmp_path / "results")
