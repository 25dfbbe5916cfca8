"""The committed notebooks, and the report that they produce."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pandas as pd
import pypdfium2
import pytest
from reports import report
from support import FIXTURE_STUDY, ROOT, copy_recorded_results, pdf_text, recorded_file

from iopatterns.analysis import quantities
from iopatterns.configuration import config
from iopatterns.judging import scale_agreement
from iopatterns.workflow import ablation
from iopatterns.workflow.report import compile_report

CONTENTS = config.load_config(ROOT).studies
STUDIES = list(CONTENTS)


def outputs(study: str, kind: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the tables or figures that a study declares, as paths below results/."""
    content = CONTENTS[study]
    bodies: list[Any] = [content, *content["experiments"].values()]
    return [f"{kind}/{study}/{name}{suffix}" for body in bodies for name in body.get(kind, []) for suffix in suffixes]


OUTPUTS = {
    study: [
        *outputs(study, "tables", (".csv", ".tex", ".typ")),
        *outputs(study, "figures", (".svg", ".png")),
        f"numbers/{study}.json",
    ]
    for study in STUDIES
}


@pytest.fixture(scope="module")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that creates a project with recorded measurements of studies, by default the fixture study."""
    return lambda name, *studies: copy_recorded_results(
        tmp_path_factory.mktemp(name) / "project", studies or [FIXTURE_STUDY]
    )


@pytest.fixture(scope="module")
def fresh(make_project: Callable[..., Path]) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """Return a project in which all notebooks of studies were executed, and the output of nbval."""
    project = make_project("built", *STUDIES)
    return project, compare_with_fresh_execution(project, *STUDIES)


@pytest.fixture(scope="module")
def built(fresh: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """Return this project with its report."""
    project, _ = fresh
    compile_report(project / "paper/report.typ", project / "results/report.pdf")
    return project


def compare_with_fresh_execution(project: Path, *notebooks: str) -> subprocess.CompletedProcess[str]:
    """Compare committed outputs with a fresh execution, which starts in notebooks/ as in JupyterLab."""
    options = ["--nbval", "--nbval-current-env", "-vv", "-p", "no:cacheprovider"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *(f"{notebook}.ipynb" for notebook in notebooks)],
        cwd=project / "notebooks",
        env=os.environ | {"IPYTHONDIR": str(project / "ipython")},
        capture_output=True,
        text=True,
        check=False,
    )


def code_cells(study: str) -> list[Any]:
    cells = nbformat.read(ROOT / f"notebooks/{study}.ipynb", as_version=4).cells
    return [cell for cell in cells if cell.cell_type == "code"]


@pytest.mark.parametrize("study", STUDIES)
def test_committed_outputs_equal_a_fresh_execution(
    fresh: tuple[Path, subprocess.CompletedProcess[str]], study: str
) -> None:
    _, result = fresh
    outcomes = re.findall(rf"{study}::ipynb::Cell \d+ (\w+)", result.stdout)
    assert outcomes == ["PASSED"] * len(code_cells(study)), result.stdout
    assert result.returncode == 0, result.stdout


def test_explore_is_committed_executed_and_needs_no_measurements(make_project: Callable[..., Path]) -> None:
    project = make_project("explore")
    shutil.rmtree(project / "results/measurements")
    result = compare_with_fresh_execution(project, "explore")
    assert result.returncode == 0, result.stdout
    cells = code_cells("explore")
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(len(output.data.get("image/png", "")) < 80_000 for cell in cells for output in cell.outputs)


def test_nbval_neither_uses_nor_changes_the_results_of_the_checkout() -> None:
    study = min(STUDIES, key=lambda study: recorded_file(study, "parquet").stat().st_size)
    measured = ROOT / f"results/measurements/{study}.parquet"
    before = measured.stat().st_mtime_ns if measured.exists() else None
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", f"notebooks/{study}.ipynb"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert (measured.stat().st_mtime_ns if measured.exists() else None) == before


@pytest.mark.parametrize(
    ("folder", "given", "message"),
    [
        (".", ["confidenc", "0.9"], "the notebook has no parameter 'confidenc'. Did you mean 'confidence'?"),
        (".", ["confidence", "high"], "the parameter 'confidence' must be of type float, but 'high' is of type str"),
        ("..", ["confidence", "0.9"], "is not inside the project: no folder at or above it has a Snakefile"),
    ],
)
def test_papermill_reports_invalid_parameters(
    make_project: Callable[..., Path], folder: str, given: list[str], message: str
) -> None:
    project = make_project("papermill")
    command = [str(Path(sys.executable).with_name("papermill")), str(project / "notebooks/tiny.ipynb"), "out.ipynb"]
    result = subprocess.run(
        [*command, "-p", *given, "--no-progress-bar"], cwd=project / folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.rstrip().splitlines()[-1].startswith("NotebookError: ")
    assert message in result.stderr.rstrip().splitlines()[-1]
    assert not (project / "results/figures").exists()


def test_another_measurement_gives_other_outputs(make_project: Callable[..., Path]) -> None:
    project = make_project("other")
    path = project / "results" / "measurements" / "tiny.parquet"
    table = pd.read_parquet(path)
    table.loc[table["rw"] == "randread", "bandwidth_bytes_per_s"] //= 2
    table.to_parquet(path, index=False)
    result = compare_with_fresh_execution(project, FIXTURE_STUDY)
    assert result.returncode == 1
    assert "FAILED" in result.stdout


@pytest.mark.parametrize("study", STUDIES)
def test_notebooks_are_thin(study: str) -> None:
    assert len(code_cells(study)) <= 15
    functions = [
        node
        for cell in code_cells(study)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.FunctionDef)
    ]
    lengths = {function.name: (function.end_lineno or 0) - function.lineno + 1 for function in functions}
    assert max(lengths.values(), default=0) <= 10, lengths


@pytest.mark.parametrize("study", STUDIES)
def test_notebooks_are_committed_executed_with_small_images_and_without_paths(study: str) -> None:
    cells = code_cells(study)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", {})}
    assert "text/html" in kinds
    images = [
        output.data["image/png"] for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})
    ]
    assert len(images) == len(outputs(study, "figures", (".png",)))
    assert all(len(image) < 80_000 for image in images)
    # encoded images contain such texts by chance
    text = (ROOT / f"notebooks/{study}.ipynb").read_text(encoding="utf-8")
    text = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|usr|work|Users)\b", text)
    assert "papermill" not in text
    assert not re.search(r"\d\d:\d\d:\d\d", text)


@pytest.mark.parametrize("study", STUDIES)
def test_notebooks_make_all_declared_outputs_and_no_others(built: Path, study: str) -> None:
    assert [name for name in OUTPUTS[study] if not (built / "results" / name).is_file()] == []
    for kind in ("tables", "figures"):
        found = {f"{kind}/{study}/{path.name}" for path in (built / "results" / kind / study).glob("*")}
        assert found <= set(OUTPUTS[study])


def test_papermill_makes_equal_bytes(built: Path, make_project: Callable[..., Path]) -> None:
    again = make_project("again", *STUDIES)
    report(again)
    names = [f"results/{name}" for study in STUDIES for name in OUTPUTS[study]] + ["results/report.pdf"]
    pairs = [(built / name, again / name) for name in names]
    notebooks = [f"notebooks/{study}.ipynb" for study in STUDIES]
    pairs += [(ROOT / name, again / "results" / name) for name in notebooks]
    assert [str(one) for one, other in pairs if one.read_bytes() != other.read_bytes()] == []


def test_no_column_of_the_report_is_so_narrow_that_it_has_one_word_per_line(built: Path, tmp_path: Path) -> None:
    # the shipped records of ablations and of measurements at the scale of the sources give further tables
    card_file = built / "results/scorecard.json"
    before = card_file.read_text()
    card = json.loads(before)
    for study, record in ablation.load_ablation_records(ROOT).items():
        card["studies"][study]["ablation"] = record
    conf = config.load_config(ROOT)
    for study in card["studies"]:
        executions = quantities.read_executions(recorded_file(study, "parquet"))
        card["studies"][study]["scale"] = scale_agreement.scale_agreement(conf, study, executions)
    try:
        card_file.write_text(json.dumps(card))
        made = compile_report(built / "paper/report.typ", tmp_path / "report.pdf")
    finally:
        card_file.write_text(before)
    with pypdfium2.PdfDocument(made) as pages:
        texts = [page.get_textpage().get_text_range().splitlines() for page in pages]
    for caption in ("whose outcome changes when one mechanism is switched off", "Cells of this run and the scale of"):
        assert any(caption in " ".join(lines) for lines in texts)
    for number, lines in enumerate(texts, start=1):
        words = [len(line.split()) for line in lines if line.strip()]
        assert words.count(1) < len(words) / 2, f"page {number}"


@pytest.mark.parametrize("study", STUDIES)
def test_the_report_contains_all_claims_and_published_numbers(built: Path, study: str) -> None:
    text = pdf_text(built / "results/report.pdf")
    letters = re.sub(r"\W", "", text)
    card = json.loads((built / "results/scorecard.json").read_text())["studies"][study]
    if card["claims"]:
        assert f"{card['hold']} of {card['checkable']} checkable claims are reproduced" in text
    for claim in card["claims"]:
        assert re.sub(r"\W", "", claim["says"]) in letters
    for value in card["values"]:
        assert re.sub(r"\W", "", f"{value['printed']}{value['unit']}") in letters
