"""Measure a study of the project on a real file instead of simulated drives."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from support import copy_project, pdf_text, shortened


def check_on_a_file(
    root: Path, study: str, changed: dict[str, Any] | None = None, *, has_general_claims: bool = True
) -> None:
    """Require that a study can be measured, judged and reported on a file.

    Args:
        root: The folder for a copy of the project.
        study: The name of the study.
        changed: The experiments that replace those of the grid, if any.
        has_general_claims: Whether the study has claims that are not about particular drives of its source.
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
    assert (len(own) >= 5) is has_general_claims
    assert bool(own) is has_general_claims
    # only the internal counters of a real drive are unknown
    unknown = {claim["because"] for claim in own if claim not in known}
    assert all("which simulated drives have and real drives do not report" in because for because in unknown)
    of_themselves = [claim for claim in own if claim["status"] == "contradicted by the source itself"]
    checkable = {"scratch": len(known) - len(of_themselves)} if has_general_claims else {}
    assert {drive: counts["checkable"] for drive, counts in card["own"].items()} == checkable

    text = pdf_text(project.root / "results/report.pdf")
    assert f"{content['title']} Study {study}" in text
    assert ("On scratch" in text) is has_general_claims
    assert "not measured" in text  # on the drives of the source
    assert "Nothing to be done" in project.snakemake("-n").stdout
