"""The report of recorded measurements, and of one drive of them."""

from pathlib import Path
from typing import Any

import pandas as pd
from support import copy_recorded_results, pdf_text

from iopatterns.judging import scorecard
from iopatterns.workflow.notebooks import execute_notebook
from iopatterns.workflow.report import compile_report


def report(project: Path, parameters: dict[str, Any] | None = None) -> Path:
    """Execute the notebooks of all measured studies, and typeset the report; return its path."""
    for measurements in sorted((project / "results/measurements").glob("*.parquet")):
        notebook = f"{measurements.stem}.ipynb"
        execute_notebook(project / "notebooks" / notebook, project / "results/notebooks" / notebook, parameters)
    return compile_report(project / "paper/report.typ", project / "results/report.pdf")


def text_of_one_drive(root: Path, study: str, drive: str) -> str:
    """Return the text of the report of a study that was measured on one drive only."""
    project = copy_recorded_results(root, [study])
    path = project / f"results/measurements/{study}.parquet"
    table = pd.read_parquet(path)
    table[table["drive"] == drive].reset_index(drop=True).to_parquet(path)
    scorecard.write_scorecard(project, {study: scorecard.judge_study(project, study)})
    return pdf_text(report(project))
