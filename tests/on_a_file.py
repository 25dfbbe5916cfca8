"""A study of the project on a real file, by configuration alone."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from support import copy_project, pdf_text, shortened


def check_on_a_file(root: Path, study: str, changed: dict[str, Any] | None = None) -> None:
    """Fail unless a study is measured on a file, each claim that applies to one drive is judged, and a report is made.

    Args:
        root: The folder in which the project is laid out.
        study: The name of the study.
        changed: The experiments that take the place of those of the grid, if any.
    """
    project = copy_project(root)
    grid = f"config/studies/{study}.yaml"
    content = yaml.safe_load((project.root / grid).read_text())
    experiments = shortened(changed or content["experiments"])
    project.edit("config/config.yaml", studies=[study], repetitions=1, file_size="64 MiB")
    project.edit(grid, repetitions=1, experiments=experiments)
    done = project.snakemake(timeout_s=900)
    assert done.returncode == 0, done.stdout[-6000:]

    table = pd.read_parquet(project.root / f"results/measurements/{study}.parquet")
    assert set(table["drive_kind"]) == {"file"}
    assert {name for names in table["experiments"] for name in names.split()} == set(experiments)
    assert (table["total_ios"] > 0).all()

    card = json.loads((project.root / "results/scorecard.json").read_text())["studies"][study]
    own = [claim for claim in card["claims"] if claim["drive"] == "scratch"]
    known = [claim for claim in own if claim["parts"]]
    assert len(own) >= 5
    # of a real drive everything is known but what goes on in it
    unknown = {claim["because"] for claim in own if claim not in known}
    assert all("which twins count and real drives do not tell" in because for because in unknown)
    of_themselves = [claim for claim in own if claim["status"] == "contradicted by the source itself"]
    assert card["own"]["scratch"]["checkable"] == len(known) - len(of_themselves)

    text = pdf_text(project.root / "results/report.pdf")
    assert f"{content['title']} Study {study}" in text
    assert "On scratch" in text
    assert "not measured" in text  # on the drives of the source
    assert "Nothing to be done" in project.snakemake("-n").stdout
