"""Facts about the studies that are nothing but a grid, run on a real file by configuration alone."""

import json

import pandas as pd
import pytest
import yaml
from support import Project, copy_project, pdf_text, shortened

STUDIES = ("clarke2024", "zhou")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Run both studies on a file, an execution of each cell."""
    made = copy_project(tmp_path_factory.mktemp("grid") / "project")
    made.edit("config/config.yaml", studies=list(STUDIES), repetitions=1, file_size="64 MiB")
    made.edit("config/studies/zhou.yaml", repetitions=1)
    # less of everything: what is measured means nothing here
    of = {study: yaml.safe_load((made.root / f"config/studies/{study}.yaml").read_text()) for study in STUDIES}
    zhou = of["zhou"]["experiments"]
    zhou["locality"]["vary"]["size"] = ["1m", "4m"]
    zhou["pause"]["vary"]["thinktime"] = ["10 ms"]
    zhou["rewritten"]["fio"]["size"] = "4m"
    zhou["bursts"]["fio"]["thinktime"] = "5 ms"
    for study, content in of.items():
        made.edit(f"config/studies/{study}.yaml", experiments=shortened(content["experiments"]))
    result = made.snakemake(timeout_s=900)
    assert result.returncode == 0, result.stdout[-6000:]
    return made


@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_is_measured_on_a_real_file(project: Project, study: str) -> None:
    table = pd.read_parquet(project.root / f"results/measurements/{study}.parquet")
    assert set(table["drive_kind"]) == {"file"}
    content = yaml.safe_load((project.root / f"config/studies/{study}.yaml").read_text())
    run = {name for names in table["experiments"] for name in names.split()}
    assert run == set(content["experiments"])
    assert (table["total_ios"] > 0).all()


@pytest.mark.parametrize("study", STUDIES)
def test_every_claim_that_can_be_put_to_one_drive_is_judged_for_it(project: Project, study: str) -> None:
    card = json.loads((project.root / "results/scorecard.json").read_text())["studies"][study]
    own = [claim for claim in card["claims"] if claim["drive"] == "scratch"]
    assert len(own) >= 5
    # of a real drive everything is known but what goes on in it
    unknown = {claim["because"] for claim in own if not claim["parts"]}
    assert len(unknown) == 1
    assert "which twins count and real drives do not tell" in unknown.pop()
    of_themselves = [claim for claim in own if claim["status"] == "contradicted by the source itself"]
    known = [claim for claim in own if claim["parts"]]
    assert card["own"]["scratch"]["checkable"] == len(known) - len(of_themselves)


def test_the_report_has_a_section_for_each_study(project: Project) -> None:
    text = pdf_text(project.root / "results/report.pdf")
    for study in STUDIES:
        title = yaml.safe_load((project.root / f"config/studies/{study}.yaml").read_text())["title"]
        assert f"{title} Study {study}" in text
    assert "On scratch" in text
    assert "not measured" in text  # of the source's own drives


def test_nothing_is_left_to_do(project: Project) -> None:
    assert "Nothing to be done" in project.snakemake("-n").stdout
