"""Values of data sheets: each has its document and is of a twin, none is used by a fit, and how they are judged."""

import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support import ROOT, lay_out_recorded

from iopatterns.analysis import scorecard
from iopatterns.analysis.checks.findings import DEVIATES, REPRODUCED, WITHIN, ClaimsError
from iopatterns.analysis.classes import BUILT_IN, FITTED, INDEPENDENT
from iopatterns.analysis.published import load, load_drives
from iopatterns.twin import models

FOLDER = ROOT / "data/published/datasheets"
CLAIMS = "data/published/datasheets/claims.yaml"
MEASUREMENT = "results/measurements/datasheets.parquet"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the recorded measurement and its scorecard; not to be written to."""
    return lay_out_recorded(tmp_path_factory.mktemp("recorded") / "project", ["datasheets"])


@pytest.fixture
def copy(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recorded project for a test to write to."""
    return Path(shutil.copytree(recorded, tmp_path / "project"))


def card_of(project: Path) -> dict[str, Any]:
    card: dict[str, Any] = scorecard.load(project)["studies"]["datasheets"]
    return card


def test_each_value_is_of_a_twin_and_of_a_document_with_its_address() -> None:
    values, drives = load(FOLDER), load_drives(FOLDER)
    assert set(values["drive_key"]) == set(drives["drive_key"]) <= set(models.names())
    assert all(drives["document"])
    assert all(str(address).startswith("https://") for address in drives["address"])


def test_no_twin_is_fitted_to_a_data_sheet_or_predicts_one_in_its_fit() -> None:
    identifiers = set(load(FOLDER)["id"])
    for model in map(models.load, models.names()):
        assert "datasheets" not in model.fit.get("points", ""), model.name
        assert not identifiers & {*model.fit.get("fitted", {}), *model.fit.get("predicted", {})}, model.name


def test_what_a_sheet_does_not_say_is_not_there() -> None:
    values = load(FOLDER).set_index("id")
    assert values.loc["c400-randread-4k", "conditions"] == "iodepth=32"
    assert [values.loc["ssdsc2kg480g7-read", column] for column in ("bs", "conditions")] == ["", ""]


def test_every_value_is_measured_held_out_and_judged_by_its_error_on_either_side(recorded: Path) -> None:
    card = card_of(recorded)
    assert {value["class"] for value in card["values"]} == {INDEPENDENT}
    for value in card["values"]:
        off = abs(value["error_percent"])
        assert value["status"] == (REPRODUCED if off <= 5 else WITHIN if off <= 25 else DEVIATES), value["id"]
    errors = card["by_class"]["values"]
    assert errors[BUILT_IN] == errors[FITTED] == {"values": 0}
    # of one cell rate and latency are one figure
    assert errors[INDEPENDENT]["values"] == len(card["values"])
    assert (card["claims"], card["checkable"], card["own"]) == ([], 0, {})


def test_every_miss_has_its_cause_and_no_cause_is_of_a_hit(recorded: Path) -> None:
    misses = {value["id"]: value["because"] for value in card_of(recorded)["values"] if value["status"] == DEVIATES}
    assert misses == yaml.safe_load((ROOT / CLAIMS).read_text())["held_out"]["misses"]


def test_a_drive_far_below_up_to_so_much_misses_it(copy: Path) -> None:
    table = pd.read_parquet(copy / MEASUREMENT)
    slow = table["bandwidth_bytes_per_s"].where(table["rw"] != "read", table["bandwidth_bytes_per_s"] // 2)
    table.assign(bandwidth_bytes_per_s=slow).to_parquet(copy / MEASUREMENT)
    found = {value["id"]: value["status"] for value in scorecard.judge(copy, "datasheets")["values"]}
    assert found["c400-read-128k"] == found["ssdsc2kg480g7-read"] == DEVIATES


def test_a_value_without_a_size_is_not_held_against_cells_of_several(copy: Path) -> None:
    path = copy / "data/published/datasheets/values.csv"
    text = path.read_text(encoding="utf-8").replace("c400,randread,4k,random", "c400,randread,,random")
    path.write_text(text, encoding="utf-8")
    found = {value["id"]: value for value in scorecard.judge(copy, "datasheets")["values"]}
    assert found["c400-randread-4k"]["measured"] is None
    assert found["ssdsc2kg480g7-read"]["measured"] == pytest.approx(547, abs=1)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ({"contradictions": []}, "holds no claim"),
        (
            {"held_out": {"tolerance": 0.25, "misses": {"c400-read-128": "a reason"}}},
            "held_out.misses: no published value has the id 'c400-read-128'. Did you mean 'c400-read-128k'?",
        ),
    ],
)
def test_a_file_that_says_neither_or_of_what_is_not_there_is_refused(
    copy: Path, content: dict[str, Any], expected: str
) -> None:
    (copy / CLAIMS).write_text(yaml.safe_dump(content))
    with pytest.raises(ClaimsError) as caught:
        scorecard.judge(copy, "datasheets")
    assert expected in str(caught.value)


def test_the_steady_state_stands_beside_every_random_write_that_a_sheet_has(recorded: Path) -> None:
    values = load(FOLDER)
    random = set(values[values["rw"].eq("randwrite") & values["quantity"].eq("iops")]["id"])
    notebook = json.loads((ROOT / "notebooks/datasheets.ipynb").read_text(encoding="utf-8"))
    shown = json.dumps([cell.get("outputs") for cell in notebook["cells"]])
    assert random
    assert all(name in shown for name in random)
