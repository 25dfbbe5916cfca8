"""The commands of docs/add-a-study.md, typed: a study from nothing to its place in the report, and undoing it."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import run
from support import ROOT, copy_project, pdf_text, user_files

STUDY, DRIVE = "gap", "c400"
PAGE = ROOT / "docs/add-a-study.md"
# Where the copy of the project differs from a fresh clone: a small configuration, which this is not to be run with
AS_COMMITTED = ("config/config.yaml",)


def blocks() -> list[str]:
    """Return the shell commands of the page's section step by step, block by block."""
    text = PAGE.read_text(encoding="utf-8")
    (section,) = re.findall(r"^## Step by step\n(.*?)^## ", text, flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"^```sh\n(.*?)^```", section, flags=re.MULTILINE | re.DOTALL)


def typed(root: Path, block: str) -> str:
    """Run a block of commands as in a shell in which .venv is active; return what was said."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = run(
        ["bash", "-euo", "pipefail", "-c", block],
        600,
        cwd=root,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return str(done.stdout)


@pytest.fixture(scope="module")
def said(module_disk_folder: Path) -> dict[str, str]:
    """Return the output of each block in order, under `root` the project, and under `before` its files."""
    project = copy_project(module_disk_folder / "project")
    for file in AS_COMMITTED:
        shutil.copy(ROOT / file, project.root / file)
    before = user_files(project.root)
    said = {"root": str(project.root), "before": repr(before)}
    return said | {block: typed(project.root, block) for block in _distinct(blocks())}


def _distinct(texts: list[str]) -> list[str]:
    """Return the blocks, one that stands twice with a comment that tells it from the first."""
    return [text + "# again\n" * texts[:number].count(text) for number, text in enumerate(texts)]


@pytest.fixture(scope="module")
def root(said: dict[str, str]) -> Path:
    return Path(said["root"])


@pytest.fixture(scope="module")
def card(root: Path) -> dict[str, object]:
    content = json.loads((root / "results/mine/scorecard.json").read_text(encoding="utf-8"))
    assert list(content["studies"]) == [STUDY]
    return dict(content["studies"][STUDY])


def output_of(said: dict[str, str], command: str) -> list[str]:
    """Return what the blocks with a command said, in their order."""
    return [text for block, text in said.items() if command in block]


def test_the_section_needs_no_python() -> None:
    assert blocks()
    assert not any(re.search(r"\bpython\b|\.py\b|ipynb", block) for block in blocks())


def test_the_notebook_and_the_section_are_begun(said: dict[str, str]) -> None:
    (text,) = output_of(said, "iopatterns study new")
    assert f"notebooks/{STUDY}.ipynb: written" in text
    assert f"paper/studies/{STUDY}.typ: written" in text


def test_its_cells_alone_are_measured(root: Path) -> None:
    cells = sorted(path.relative_to(root / "data/raw").parts[:3] for path in root.glob("data/raw/*/*/*/01.json"))
    assert {cell[:2] for cell in cells} == {(DRIVE, STUDY)}
    assert [cell[2].rsplit("-", 1)[0] for cell in cells] == [
        "randread-28k-j1",
        "randread-4k-j1",
        "read-28k-j1",
        "read-4k-j1",
    ]


def test_the_report_has_its_section_and_the_claim_s_verdict(root: Path) -> None:
    text = pdf_text(root / "results/mine/report.pdf")
    assert "Sequential and random reads of one drive" in text
    assert f"Study {STUDY} · A. Saif" in text
    assert "Experiment reads" in text
    claim = "On the C400 random reads of 4 KiB have at most half of the bandwidth of sequential ones"
    assert re.search(rf"{claim} ≤ 0\.5 0\.\d+ independent reproduced", text)
    assert "1 of 1 checkable claims hold" in text


def test_the_table_has_the_published_values_with_their_errors(root: Path) -> None:
    lines = (root / f"results/mine/tables/{STUDY}/reads.csv").read_text(encoding="utf-8").splitlines()
    head, rows = lines[0].split(","), [line.split(",") for line in lines[1:]]
    table = {(row[head.index("rw")], row[head.index("bs_bytes")]): dict(zip(head, row, strict=True)) for row in rows}
    for key, published in {("read", "4096"): "61.9", ("randread", "4096"): "25"}.items():
        row = table.pop(key)
        error = 100 * (float(row["bandwidth_mb_per_s_mean"]) / float(published) - 1)
        assert row["published_bandwidth_mb_per_s"] == published
        assert float(row["error_bandwidth_mb_per_s_percent"]) == pytest.approx(error, abs=1e-6)
    assert {row["published_bandwidth_mb_per_s"] for row in table.values()} == {""}


def test_the_scorecard_has_its_numbers_with_errors(card: dict[str, list[dict[str, object]]]) -> None:
    values = {value["id"]: value for value in card["values"]}
    assert list(values) == ["table2-read-4k", "table2-randread-4k"]
    for value in values.values():
        error = 100 * (float(str(value["measured"])) / float(str(value["printed"])) - 1)
        assert value["error_percent"] == pytest.approx(error)
    assert [claim["status"] for claim in card["claims"]] == ["reproduced"]


def test_what_the_section_says_is_seen_is_seen(said: dict[str, str]) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```\n(data/published/gap/expectations.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert output_of(said, "iopatterns scorecard") == [shown]


def test_a_second_run_has_nothing_to_do(said: dict[str, str]) -> None:
    first, second = output_of(said, "snakemake")
    assert "Nothing to be done" not in first
    assert "Nothing to be done" in second


# It comes last, since the tests above look at what this removes
def test_the_last_commands_undo_the_page(said: dict[str, str], root: Path) -> None:
    (undoing,) = re.findall(
        r"^## Undo it\n.*?^```sh\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    typed(root, undoing)
    assert repr(user_files(root)) == said["before"]
    assert not list(root.glob(f"results/*/{STUDY}*"))
