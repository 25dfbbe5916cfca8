"""The commands of docs/add-a-study.md, typed: a new study from its grid to the report, and how to undo it."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT, pdf_text, user_files
from typed_pages import fresh_clone, shell_blocks, typed

STUDY, DRIVE = "gap", "c400"
PAGE = (ROOT / "docs/add-a-study.md").read_text(encoding="utf-8")


def section(title: str) -> str:
    (text,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", PAGE, flags=re.MULTILINE | re.DOTALL)
    return str(text)


BLOCKS = shell_blocks(section("Step by step"))


@pytest.fixture(scope="module")
def run(module_disk_folder: Path) -> tuple[Path, list[str], dict[str, bytes]]:
    """Return the project, the output of each block of commands, and the user's files before."""
    root = fresh_clone(module_disk_folder / "project")
    before = user_files(root)
    return root, [typed(root, block) for block in BLOCKS], before


@pytest.fixture(scope="module")
def root(run: tuple[Path, list[str], dict[str, bytes]]) -> Path:
    return run[0]


@pytest.fixture(scope="module")
def outputs(run: tuple[Path, list[str], dict[str, bytes]]) -> list[str]:
    return run[1]


def outputs_of(outputs: list[str], command: str) -> list[str]:
    return [text for block, text in zip(BLOCKS, outputs, strict=True) if command in block]


def test_the_section_needs_no_python() -> None:
    assert BLOCKS
    assert not any(re.search(r"\bpython\b|\.py\b|ipynb", block) for block in BLOCKS)


def test_a_notebook_and_a_section_are_created(outputs: list[str]) -> None:
    (text,) = outputs_of(outputs, "iopatterns study new")
    assert f"notebooks/{STUDY}.ipynb: written" in text
    assert f"paper/studies/{STUDY}.typ: written" in text


def test_only_the_cells_of_the_study_are_measured(root: Path) -> None:
    cells = sorted(path.relative_to(root / "data/raw").parts[:3] for path in root.glob("data/raw/*/*/*/01.json"))
    assert {cell[:2] for cell in cells} == {(DRIVE, STUDY)}
    names = [cell[2].rsplit("-", 1)[0] for cell in cells]
    assert names == ["randread-28k-j1", "randread-4k-j1", "read-28k-j1", "read-4k-j1"]


def test_the_report_has_the_section_and_the_verdict(root: Path) -> None:
    text = pdf_text(root / "results/mine/report.pdf")
    assert "Sequential and random reads of one drive" in text
    assert f"Study {STUDY} · A. Saif" in text
    assert "Experiment reads" in text
    claim = "On the C400 random reads of 4 KiB have at most half of the bandwidth of sequential ones"
    assert re.search(rf"{claim} ≤ 0\.5 † 0\.\d+ fitted reproduced", text)
    assert "1 of 1 checkable claims hold" in text


def test_table_and_scorecard_have_the_published_values_with_errors(root: Path) -> None:
    table = pd.read_csv(root / f"results/mine/tables/{STUDY}/reads.csv").set_index(["rw", "bs_bytes"])
    published = {("read", 4096): 61.9 * 1.048576, ("randread", 4096): 25 * 1.048576}
    assert table["published_bandwidth_mb_per_s"].dropna().to_dict() == pytest.approx(published)
    for key, value in published.items():
        row = table.to_dict("index")[key]
        error = 100 * (row["bandwidth_mb_per_s_mean"] / value - 1)
        assert row["error_bandwidth_mb_per_s_percent"] == pytest.approx(error, abs=1e-6)
    studies = json.loads((root / "results/mine/scorecard.json").read_text(encoding="utf-8"))["studies"]
    assert list(studies) == [STUDY]
    assert [value["id"] for value in studies[STUDY]["values"]] == ["table2-read-4k", "table2-randread-4k"]
    for value in studies[STUDY]["values"]:
        error = 100 * (float(value["measured"]) / float(value["printed"]) - 1)
        assert value["error_percent"] == pytest.approx(error)
    assert [claim["status"] for claim in studies[STUDY]["claims"]] == ["reproduced"]


def test_the_scorecard_prints_what_the_page_shows(outputs: list[str]) -> None:
    (shown,) = re.findall(r"^```\n(data/published/gap/expectations.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    assert outputs_of(outputs, "iopatterns scorecard") == [shown]


def test_a_second_run_has_nothing_to_do(outputs: list[str]) -> None:
    first, second = outputs_of(outputs, "snakemake")
    assert "Nothing to be done" not in first
    assert "Nothing to be done" in second


# This test is the last one, because it removes what the others check
def test_the_last_commands_undo_the_page(run: tuple[Path, list[str], dict[str, bytes]]) -> None:
    root, _, before = run
    (undoing,) = shell_blocks(section("Undo it"))
    typed(root, undoing)
    assert user_files(root) == before
    assert not list(root.glob(f"results/*/{STUDY}*"))
