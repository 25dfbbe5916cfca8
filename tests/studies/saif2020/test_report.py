"""The report of saif2020: its numbers, and its text about drives that RR-9319 does not have."""

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from reports import report
from support import ROOT, copy_recorded_results, pdf_text, recorded_file

from iopatterns.judging import scorecard

pytestmark = pytest.mark.slow

EXPERIMENTS = yaml.safe_load((ROOT / "config/studies/saif2020.yaml").read_text(encoding="utf-8"))["experiments"]
FIGURES = {name for body in EXPERIMENTS.values() for name in body.get("figures", [])}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a project with the report of the recorded measurement."""
    project = copy_recorded_results(tmp_path_factory.mktemp("built") / "project", ["saif2020"])
    report(project)
    return project


def test_numbers_equal_the_measurement(built: Path) -> None:
    executions = pd.read_parquet(recorded_file("saif2020", "parquet"))
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


def test_errors_are_summarised_by_evidence_class(built: Path) -> None:
    errors = json.loads((built / "results/scorecard.json").read_text())["studies"]["saif2020"]["by_class"]["values"]
    assert errors["fitted"]["values"] + errors["built into the model"]["values"] + errors["independent"]["values"] == 27
    assert errors["fitted"]["mean_absolute_percent"] <= 5
    assert errors["independent"]["mean_absolute_percent"] <= 20


def printed_interval(low: float, high: float, digits: int) -> str:
    return "–".join(dict.fromkeys((f"{low:.{digits}f}", f"{high:.{digits}f}")))


def test_the_report_contains_the_numbers(built: Path) -> None:
    text = pdf_text(built / "results/report.pdf")
    numbers = json.loads((built / "results/numbers/saif2020.json").read_text())
    colophon = json.loads((built / "results/colophon.json").read_text())
    for drive in numbers["drives"]:
        for cell in drive["cells"].values():
            assert f"{cell['bandwidth_mean_mb_per_s']:.1f}" in text
            assert printed_interval(cell["bandwidth_low_mb_per_s"], cell["bandwidth_high_mb_per_s"], 1) in text
        for part in drive["ratios"]:
            interval = printed_interval(part["random_to_sequential_low"], part["random_to_sequential_high"], 2)
            ratio = f"{part['random_to_sequential']:.2f}"
            assert (f"{ratio} ({interval})" if "–" in interval else f"{ratio}, ") in text
    assert colophon["fio_versions"][0] in text
    assert "simulated drives, in virtual time" in text
    card = json.loads((built / "results/scorecard.json").read_text())["studies"]["saif2020"]
    for part in card.get("by_class", {}).get("values", {}).values():
        assert not part["values"] or f"{part['mean_absolute_percent']:.1f} %" in text


def measured_on(project: Path, drives: dict[str, str]) -> pd.DataFrame:
    """Turn the recorded measurement of some drives into one of files with the given new names."""
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
    scorecard.write_scorecard(project, {"saif2020": scorecard.judge_study(project, "saif2020")})
    return table


def test_the_report_says_that_other_drives_cannot_be_compared(tmp_path: Path) -> None:
    project = copy_recorded_results(tmp_path / "project", ["saif2020"])
    measured_on(project, {"c400": "scratch"})
    text = pdf_text(report(project))
    assert "not among the source’s, and neither is the machine" in text
    assert "other drives, another machine" in text


def test_settings_that_a_drive_does_not_offer_are_not_applicable(tmp_path: Path) -> None:
    project = copy_recorded_results(tmp_path / "project", ["saif2020"])
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


def test_the_report_names_drives_with_the_name_of_a_drive_of_the_source(tmp_path: Path) -> None:
    project = copy_recorded_results(tmp_path / "project", ["saif2020"])
    path = project / "results" / "measurements" / "saif2020.parquet"
    table = pd.read_parquet(path)
    table = table[table["drive"] == "px05smb040"]
    scratch = table.assign(drive="scratch", drive_kind="file")
    once = scratch[scratch["execution"] == 1].assign(drive="once")
    pd.concat([scratch, table, once]).to_parquet(path, index=False)
    scorecard.write_scorecard(project, {"saif2020": scorecard.judge_study(project, "saif2020", confidence=0.9)})
    text = pdf_text(report(project, {"confidence": 0.9, "interval": "bca"}))
    assert "with 1 to 10 repetitions" in text
    assert "px05smb040 have the name of a drive of the source" in text
    assert "90 % confidence interval (BCa bootstrap and no interval)" in text
