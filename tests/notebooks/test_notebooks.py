"""Facts about the committed notebook, and about the report that comes out of it."""

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
from support import ROOT, lay_out_recorded, pdf_text

from iopatterns.configuration import config
from iopatterns.judging import scorecard
from iopatterns.workflow import ablation
from iopatterns.workflow.notebooks import execute
from iopatterns.workflow.report import compile_report

RECORDED = Path(__file__).with_name("data")
CONTENTS = config.load(ROOT).studies  # without what needs traces of a reader's own
STUDIES = list(CONTENTS)


def outputs(study: str, kind: str, suffixes: tuple[str, ...]) -> list[str]:
    """Return the tables or figures that a study's notebook makes, below results/, by the study's own file."""
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
FIGURES = {Path(name).stem for name in outputs("saif2020", "figures", (".svg",))}


@pytest.fixture(scope="module")
def make_project(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return a function that lays out a project whose measurement is the recorded one, of saif2020 or other studies."""

    return lambda name, *studies: lay_out_recorded(tmp_path_factory.mktemp(name) / "project", studies or ["saif2020"])


def report(project: Path, parameters: dict[str, Any] | None = None) -> Path:
    """Execute the notebooks of the studies in ``project``, and typeset the report."""
    for measurements in sorted((project / "results/measurements").glob("*.parquet")):
        notebook = f"{measurements.stem}.ipynb"
        execute(project / "notebooks" / notebook, project / "results/notebooks" / notebook, parameters)
    return compile_report(project / "paper/report.typ", project / "results/report.pdf")


@pytest.fixture(scope="module")
def fresh(make_project: Callable[..., Path]) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A project in which all notebooks of studies were executed once more, and what nbval said of their outputs."""
    project = make_project("built", *STUDIES)
    return project, hold_against_fresh_execution(project, *STUDIES)


@pytest.fixture(scope="module")
def built(fresh: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """That project, with its report."""
    project, _ = fresh
    compile_report(project / "paper/report.typ", project / "results/report.pdf")
    return project


def hold_against_fresh_execution(project: Path, *notebooks: str) -> subprocess.CompletedProcess[str]:
    """Compare the committed outputs with those of a fresh execution, started in notebooks/ as JupyterLab does."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "--nbval",
            "--nbval-current-env",
            "-vv",
            "-p",
            "no:cacheprovider",
            *(f"{notebook}.ipynb" for notebook in notebooks),
        ],
        cwd=project / "notebooks",
        env=os.environ | {"IPYTHONDIR": str(project / "ipython")},
        capture_output=True,
        text=True,
        check=False,
    )


def code_cells(study: str) -> list[Any]:
    return [
        cell
        for cell in nbformat.read(ROOT / f"notebooks/{study}.ipynb", as_version=4).cells
        if cell.cell_type == "code"
    ]


@pytest.mark.parametrize("study", STUDIES)
def test_committed_outputs_equal_a_fresh_execution(
    fresh: tuple[Path, subprocess.CompletedProcess[str]], study: str
) -> None:
    _, result = fresh
    told = re.findall(rf"{study}::ipynb::Cell \d+ (\w+)", result.stdout)
    assert told == ["PASSED"] * len(code_cells(study)), result.stdout
    assert result.returncode == 0, result.stdout


def test_the_exploring_notebook_is_committed_executed_and_needs_no_run(make_project: Callable[..., Path]) -> None:
    project = make_project("explore")
    shutil.rmtree(project / "results/measurements")
    result = hold_against_fresh_execution(project, "explore")
    assert result.returncode == 0, result.stdout
    cells = code_cells("explore")
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert all(len(output.data.get("image/png", "")) < 80_000 for cell in cells for output in cell.outputs)


def test_notebooks_pass_in_a_checkout_where_something_else_was_run() -> None:
    measured = ROOT / "results/measurements/datasheets.parquet"
    before = measured.stat().st_mtime_ns if measured.exists() else None
    command = [sys.executable, "-m", "pytest", "--nbval", "-q", "-p", "no:cacheprovider", "notebooks/datasheets.ipynb"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout
    assert (measured.stat().st_mtime_ns if measured.exists() else None) == before


@pytest.mark.parametrize(
    ("folder", "given", "message"),
    [
        (".", ["confidenc", "0.9"], "the notebook has no parameter 'confidenc'; did you mean 'confidence'?"),
        (".", ["confidence", "high"], "the parameter 'confidence' must be of type float, but 'high' is of type str"),
        ("..", ["confidence", "0.9"], "is not inside the project: no folder at or above it holds a Snakefile"),
    ],
)
def test_papermill_by_itself_is_told_what_is_wrong(
    make_project: Callable[..., Path], folder: str, given: list[str], message: str
) -> None:
    project = make_project("papermill")
    command = [str(Path(sys.executable).with_name("papermill")), str(project / "notebooks/saif2020.ipynb"), "out.ipynb"]
    result = subprocess.run(
        [*command, "-p", *given, "--no-progress-bar"], cwd=project / folder, capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert result.stderr.rstrip().splitlines()[-1].startswith("NotebookError: ")
    assert message in result.stderr.rstrip().splitlines()[-1]
    assert not (project / "results/figures").exists()


def test_committed_outputs_differ_from_those_of_another_measurement(make_project: Callable[..., Path]) -> None:
    project = make_project("other")
    path = project / "results" / "measurements" / "saif2020.parquet"
    table = pd.read_parquet(path)
    table.loc[table["rw"] == "randread", "bandwidth_bytes_per_s"] //= 2
    table.to_parquet(path, index=False)
    result = hold_against_fresh_execution(project, "saif2020")
    assert result.returncode == 1
    assert "FAILED" in result.stdout


@pytest.mark.parametrize("study", STUDIES)
def test_the_notebook_is_thin(study: str) -> None:
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
def test_the_notebook_is_committed_executed_with_small_images_and_without_paths(study: str) -> None:
    cells = code_cells(study)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    kinds = {kind for cell in cells for output in cell.outputs for kind in output.get("data", {})}
    assert "text/html" in kinds
    images = [
        output.data["image/png"] for cell in cells for output in cell.outputs if "image/png" in output.get("data", {})
    ]
    assert len(images) == len(outputs(study, "figures", (".png",)))
    assert all(len(image) < 80_000 for image in images)
    # what is no text: by chance it has anything in it
    text = (ROOT / f"notebooks/{study}.ipynb").read_text(encoding="utf-8")
    text = re.sub(r'"image/png": "[^"]*"', "", text)
    assert not re.search(r"(?<![\w.])/(home|root|tmp|usr|work|Users)\b", text)
    assert "papermill" not in text
    assert not re.search(r"\d\d:\d\d:\d\d", text)


@pytest.mark.parametrize("study", STUDIES)
def test_all_outputs_are_made_and_no_others(built: Path, study: str) -> None:
    assert [name for name in OUTPUTS[study] if not (built / "results" / name).is_file()] == []
    for kind in ("tables", "figures"):
        found = {f"{kind}/{study}/{path.name}" for path in (built / "results" / kind / study).glob("*")}
        assert found <= set(OUTPUTS[study])


def test_papermill_makes_the_same_bytes(built: Path, make_project: Callable[..., Path]) -> None:
    again = make_project("again", *STUDIES)
    report(again)
    names = [f"results/{name}" for study in STUDIES for name in OUTPUTS[study]] + ["results/report.pdf"]
    beside = [(built / name, again / name) for name in names]
    notebooks = [f"notebooks/{study}.ipynb" for study in STUDIES]
    beside += [(ROOT / name, again / "results" / name) for name in notebooks]
    assert [str(one) for one, other in beside if one.read_bytes() != other.read_bytes()] == []


def test_numbers_are_those_of_the_measurement(built: Path) -> None:
    executions = pd.read_parquet(RECORDED / "saif2020.parquet")
    executions = executions[executions["experiments"].str.split().str[0] == "initial"]
    mean = executions.groupby(["drive", "rw", "bs_bytes"])["bandwidth_bytes_per_s"].mean() / 1e6
    numbers = json.loads((built / "results/numbers/saif2020.json").read_text())
    assert [drive["name"] for drive in numbers["drives"]] == ["px02ssf020", "px05smb040", "c400"]
    for drive in numbers["drives"]:
        own = mean[drive["name"]]
        found = drive["cells"]["randwrite_28k"]["bandwidth_mean_mb_per_s"]
        assert found == pytest.approx(own["randwrite", 28672], rel=1e-5)
        ratio = {(part["operation"], part["block_size"]): part["random_to_sequential"] for part in drive["ratios"]}
        assert ratio["read", "4 KiB"] == pytest.approx(own["randread", 4096] / own["read", 4096], rel=1e-5)
        gaps = [abs(own["write", size] - own["randwrite", size]) for size in (4096, 28672)]
        assert drive["write_gap"]["difference_mb_per_s"] == pytest.approx(max(gaps), rel=1e-5)


def test_errors_of_twins_are_told_apart_by_what_they_were_fitted_to(built: Path) -> None:
    errors = json.loads((built / "results/scorecard.json").read_text())["studies"]["saif2020"]["by_class"]["values"]
    assert errors["fitted"]["values"] + errors["built in"]["values"] + errors["independent"]["values"] == 27
    assert errors["fitted"]["mean_absolute_percent"] <= 5
    assert errors["independent"]["mean_absolute_percent"] <= 20


def test_table_3_of_the_source_agrees_with_its_own_claim_about_writes(built: Path) -> None:
    published = json.loads((built / "results/numbers/saif2020.json").read_text())["published"]
    assert published["write_gap_limit_mb_per_s"] == 30
    assert published["write_gap"] == {
        "block_size": "28 KiB",
        "difference_mb_per_s": 26.0,
        "drive": "PX05SMB040",
        "holds": True,
    }


def test_the_report_holds_the_numbers(built: Path) -> None:
    text = pdf_text(built / "results/report.pdf")
    numbers = json.loads((built / "results/numbers/saif2020.json").read_text())
    colophon = json.loads((built / "results/colophon.json").read_text())
    for drive in numbers["drives"]:
        for cell in drive["cells"].values():
            assert f"{cell['bandwidth_mean_mb_per_s']:.1f}" in text
            assert f"{cell['bandwidth_low_mb_per_s']:.1f}–{cell['bandwidth_high_mb_per_s']:.1f}" in text
        for part in drive["ratios"]:
            low, high = part["random_to_sequential_low"], part["random_to_sequential_high"]
            assert f"{part['random_to_sequential']:.2f} ({low:.2f}–{high:.2f})" in text
    assert colophon["fio_versions"][0] in text
    assert "simulated drives, in virtual time" in text
    card = json.loads((built / "results/scorecard.json").read_text())["studies"]["saif2020"]
    for part in card.get("by_class", {}).get("values", {}).values():
        assert not part["values"] or f"{part['mean_absolute_percent']:.1f} %" in text


def test_no_column_of_the_report_is_so_narrow_that_it_has_a_word_a_line(built: Path, tmp_path: Path) -> None:
    """With the shipped record of what rests on which mechanism, which has the most columns."""
    card_file = built / "results/scorecard.json"
    before = card_file.read_text()
    card = json.loads(before)
    for study, told in ablation.load(ROOT).items():
        card["studies"][study]["ablation"] = told
    try:
        card_file.write_text(json.dumps(card))
        made = compile_report(built / "paper/report.typ", tmp_path / "report.pdf")
    finally:
        card_file.write_text(before)
    with pypdfium2.PdfDocument(made) as pages:
        texts = [page.get_textpage().get_text_range().splitlines() for page in pages]
    assert any("whose outcome changes when one mechanism is switched off" in " ".join(lines) for lines in texts)
    for number, lines in enumerate(texts, start=1):
        words = [len(line.split()) for line in lines if line.strip()]
        assert words.count(1) < len(words) / 2, f"page {number}"


@pytest.mark.parametrize("study", STUDIES)
def test_the_report_tells_what_became_of_every_claim_and_number(built: Path, study: str) -> None:
    text = pdf_text(built / "results/report.pdf")
    letters = re.sub(r"\W", "", text)
    card = json.loads((built / "results/scorecard.json").read_text())["studies"][study]
    if card["claims"]:
        assert f"{card['hold']} of {card['checkable']} checkable claims hold" in text
    for claim in card["claims"]:
        assert re.sub(r"\W", "", claim["says"]) in letters
    for value in card["values"]:
        assert re.sub(r"\W", "", f"{value['printed']}{value['unit']}") in letters


def measured_on(project: Path, drives: dict[str, str]) -> pd.DataFrame:
    """Make the recorded measurement one of other drives: those of ``drives``, each under its new name, as files."""
    measurements = project / "results/measurements"
    table = pd.read_parquet(measurements / "saif2020.parquet")
    table = table[table["drive"].isin(drives) & ~table["tuned"]]
    table = table.assign(drive=table["drive"].map(drives), drive_kind="file")
    table.to_parquet(measurements / "saif2020.parquet", index=False)
    steps = json.loads((measurements / "saif2020.tuning.json").read_text())
    refused: dict[str, Any] = {"before": None, "after": None, "changeable": None, "exchange": [], "measured": False}
    refused |= {"outcome": "not applicable", "reason": "a file shares its disk with everything else"}
    steps = [step | refused | {"drive": drives[step["drive"]]} for step in steps if step["drive"] in drives]
    (measurements / "saif2020.tuning.json").write_text(json.dumps(steps))
    scorecard.write(project, {"saif2020": scorecard.judge(project, "saif2020")})
    return table


def test_the_report_of_other_drives_says_that_they_cannot_be_compared(make_project: Callable[..., Path]) -> None:
    project = make_project("other drive")
    measured_on(project, {"c400": "scratch"})
    text = pdf_text(report(project))
    assert "not among the source’s, and neither is the machine" in text
    assert "other drives, another machine" in text


@pytest.mark.parametrize(
    "drive_of", [{"kapoor": "kapoor-128m", "park2009": "x25-m-used"}, {"kapoor": "kapoor-1g", "park2009": "nvme"}]
)
def test_studies_of_one_of_their_drives_have_a_report(
    make_project: Callable[..., Path], drive_of: dict[str, str]
) -> None:
    project = make_project("one-drive", *drive_of)
    for study, drive in drive_of.items():
        path = project / f"results/measurements/{study}.parquet"
        table = pd.read_parquet(path)
        table[table["drive"] == drive].reset_index(drop=True).to_parquet(path)
    scorecard.write(project, {study: scorecard.judge(project, study) for study in drive_of})
    text = pdf_text(report(project))
    assert [drive for drive in drive_of.values() if drive not in text] == []


def test_settings_that_an_own_drive_does_not_offer_are_not_applicable(make_project: Callable[..., Path]) -> None:
    project = make_project("own drive")
    measured_on(project, {"px05smb040": "mydisk"})
    text = pdf_text(report(project))
    assert {path.stem for path in (project / "results/figures").rglob("*.svg")} == FIGURES
    for table in ("schedulers", "settings"):
        data = pd.read_csv(project / f"results/tables/saif2020/{table}.csv")
        assert set(data["drive"]) == {"mydisk"}
        assert set(data["verdict"]) == {"not applicable"}
    assert "not applicable" in text
    judged = json.loads((project / "results/scorecard.json").read_text())["studies"]["saif2020"]["claims"]
    own = {claim["id"]: claim["status"] for claim in judged if claim["drive"] == "mydisk"}
    assert own["gap-4k-512k"] == "contradicted by the source itself"
    assert own["writes-grow"] == "reproduced"
    assert own["read-ahead-helps-sequential"] == "not testable here"


def test_the_report_says_when_a_drive_bears_the_name_of_the_source_s(make_project: Callable[..., Path]) -> None:
    project = make_project("many")
    path = project / "results" / "measurements" / "saif2020.parquet"
    table = pd.read_parquet(path)
    table = table[table["drive"] == "px05smb040"]
    scratch = table.assign(drive="scratch", drive_kind="file")
    once = scratch[scratch["execution"] == 1].assign(drive="once")
    pd.concat([scratch, table, once]).to_parquet(path, index=False)
    scorecard.write(project, {"saif2020": scorecard.judge(project, "saif2020", confidence=0.9)})
    text = pdf_text(report(project, {"confidence": 0.9, "interval": "bca"}))
    assert "with 1 to 10 executions" in text
    assert "px05smb040 bear the name of a drive of the source" in text
    assert "90 % confidence interval (BCa bootstrap and no interval)" in text
