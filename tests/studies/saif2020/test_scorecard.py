"""Judge the recorded measurement of saif2020, and compare the verdicts with the expected ones."""

import json
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support import ROOT, copy_recorded_results

from iopatterns.analysis import published
from iopatterns.base.units import parse_size
from iopatterns.configuration import expected_verdicts
from iopatterns.judging import evidence, scorecard
from iopatterns.judging.claims import (
    CONTRADICTED,
    COUNT_AS_REPRODUCED,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    UNTESTABLE,
    WITHIN_TOLERANCE,
)
from iopatterns.judging.scorecard import ScorecardError

pytestmark = pytest.mark.slow  # each worker judges whole studies first

STUDY = "saif2020"
MEASUREMENT = f"results/measurements/{STUDY}.parquet"
TUNING = f"results/measurements/{STUDY}.tuning.json"
EXPECTATIONS = f"data/published/{STUDY}/expectations.yaml"
# The drive that most of the study is about
PX05 = "px05smb040"

Scorecard = Mapping[str, Any]
Change = Callable[[pd.DataFrame], pd.DataFrame]


def expected_of(root: Path) -> Mapping[str, str]:
    """Return the expected findings of the study in a project, by id."""
    expectations = expected_verdicts.load_expectations(root, STUDY)
    assert expectations is not None
    return expectations.expected


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with the recorded measurement, its scorecard and the expectations, to be read only."""
    return copy_recorded_results(tmp_path_factory.mktemp("recorded") / "project", [STUDY])


@pytest.fixture(scope="module")
def card(recorded: Path) -> Scorecard:
    """Return the verdicts on the recorded measurement."""
    return study_of(recorded)


@pytest.fixture(scope="module")
def slow_reads(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project in which sequential reads are half as fast as recorded."""
    return judge_changed_copy(recorded, tmp_path_factory.mktemp("slow") / "project", halve_sequential_reads)


@pytest.fixture(scope="module")
def without_px05(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project without measurements of PX05SMB040."""
    return judge_changed_copy(
        recorded, tmp_path_factory.mktemp("without") / "project", lambda table: table[table["drive"] != PX05]
    )


@pytest.fixture(scope="module")
def own_drive(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with measurements of a drive that the source does not have, with slow sequential reads."""
    root = tmp_path_factory.mktemp("own") / "project"

    def rename(table: pd.DataFrame) -> pd.DataFrame:
        of_mine = table["drive"] == PX05
        mine = halve_sequential_reads(table[of_mine]).assign(drive="mydisk")
        return pd.concat([table[~of_mine], mine], ignore_index=True)

    return judge_changed_copy(recorded, root, rename, {PX05: "mydisk"})


@pytest.fixture
def copy(recorded: Path, tmp_path: Path) -> Path:
    """Return a copy of the recorded project for a test to write to."""
    return Path(shutil.copytree(recorded, tmp_path / "project"))


def halve_sequential_reads(table: pd.DataFrame) -> pd.DataFrame:
    bandwidth = table["bandwidth_bytes_per_s"]
    return table.assign(bandwidth_bytes_per_s=bandwidth.where(table["rw"] != "read", bandwidth // 2))


def judge_changed_copy(recorded: Path, root: Path, change: Change, renamed: dict[str, str] | None = None) -> Path:
    """Copy the recorded project to ``root``, change its measurements and the names of drives, and judge it."""
    shutil.copytree(recorded, root)
    change(pd.read_parquet(root / MEASUREMENT)).to_parquet(root / MEASUREMENT)
    steps = json.loads((root / TUNING).read_text())
    named = [{**step, "drive": (renamed or {}).get(step["drive"], step["drive"])} for step in steps]
    (root / TUNING).write_text(json.dumps(named))
    scorecard.write_scorecard(root, {STUDY: scorecard.judge_study(root, STUDY)})
    return root


def study_of(root: Path) -> Scorecard:
    study: Scorecard = scorecard.load_scorecard(root)["studies"][STUDY]
    return study


def by_id(entries: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {entry["id"]: entry for entry in entries}


def mean_bandwidth(table: pd.DataFrame, row: Mapping[Any, Any]) -> float:
    """Return the mean bandwidth in MiB/s for a published value, computed from the table without the package."""
    rows = table.query("drive == @row['drive_key'] and rw == @row['rw']")
    rows = rows[rows["bs_bytes"] == parse_size(row["bs"])]
    rows = rows[[row["experiment"] in names.split() for names in rows["experiments"]]]
    if row["conditions"]:
        name, level = row["conditions"].split("=")
        rows = rows[rows["numjobs"] == int(level)] if name == "numjobs" else rows[rows[f"set_{name}"] == level]
    return float(rows["bandwidth_bytes_per_s"].mean()) / 2**20


# ---- The claims of saif2020


def test_reproduced_claims_are_counted_among_checkable_claims(card: Scorecard) -> None:
    statuses = Counter(claim["status"] for claim in card["claims"])
    assert card["hold"] == statuses[REPRODUCED] + statuses[WITHIN_TOLERANCE]
    assert card["checkable"] == card["hold"] + statuses[NOT_REPRODUCED] + statuses[UNDECIDED]


@pytest.mark.parametrize(
    ("kind", "status"), [("claims", NOT_REPRODUCED), ("claims", UNTESTABLE), ("values", UNTESTABLE)]
)
def test_an_entry_that_is_not_reproduced_or_not_tested_has_a_reason(card: Scorecard, kind: str, status: str) -> None:
    found = [entry for entry in card[kind] if entry["status"] == status]
    assert found
    assert [entry["id"] for entry in found if not entry["because"].strip()] == []


def test_every_quote_has_one_place(card: Scorecard) -> None:
    places = {(claim["quote"], claim["place"]) for claim in card["claims"]}
    assert [quote for quote, number in Counter(quote for quote, _ in places).items() if number > 1] == []


def test_every_claim_and_value_has_one_row_in_the_order_of_its_file(card: Scorecard) -> None:
    content = yaml.safe_load((ROOT / "data/published" / STUDY / "claims.yaml").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in card["claims"]] == [claim["id"] for claim in content["claims"]]
    table = published.load_values(ROOT / "data/published" / STUDY)
    assert [value["id"] for value in card["values"]] == table["id"].tolist()


@pytest.mark.parametrize("kind", ["claims", "values"])
def test_statuses_are_counted(card: Scorecard, kind: str) -> None:
    found = Counter(entry["status"] for entry in card[kind])
    assert card["counts"][kind] == {status: found[status] for status in scorecard.STATUSES}


def test_the_parts_of_a_claim_are_counted_and_the_worst_is_named(card: Scorecard) -> None:
    for claim in card["claims"]:
        if "holding" in claim:
            assert claim["holding"] == sum(part["status"] in COUNT_AS_REPRODUCED for part in claim["parts"])
        if claim.get("worst"):
            off = {part["label"]: part["off_percent"] for part in claim["parts"]}
            assert off[claim["worst"]] == max(off.values()) > 0, claim["id"]


# ---- The published values of saif2020


def test_every_cell_of_tables_2_and_3_was_measured(card: Scorecard) -> None:
    cells = [value for value in card["values"] if value["place"] in {"Table 2", "Table 3"}]
    assert sum(value["measured"] is not None for value in cells) == 24


def test_every_error_is_computed_from_the_measured_mean(recorded: Path, card: Scorecard) -> None:
    table = pd.read_parquet(recorded / MEASUREMENT)
    rows = {row["id"]: row for row in published.load_values(recorded / "data/published" / STUDY).to_dict("records")}
    measured = {value["id"]: value for value in card["values"] if value["measured"] is not None}
    expected = {name: 100 * (mean_bandwidth(table, rows[name]) / rows[name]["value"] - 1) for name in measured}
    assert {name: value["error_percent"] for name, value in measured.items()} == pytest.approx(expected)


def test_the_errors_of_a_class_exclude_contradicted_values(card: Scorecard) -> None:
    errors = [
        abs(value["error_percent"])
        for value in card["values"]
        if value["class"] == "fitted" and value["status"] != CONTRADICTED
    ]
    found = card["by_class"]["values"]["fitted"]
    assert found["values"] == len(errors)  # each is of a cell of its own
    assert found["mean_absolute_percent"] == pytest.approx(sum(errors) / len(errors))
    assert abs(found["largest_percent"]) == max(errors)


def test_a_value_that_bounds_a_claim_is_judged_by_the_claim(card: Scorecard) -> None:
    limit = by_id(card["values"])["section3-write-gap"]
    assert limit["because"] == "See the claim write-gap."
    assert limit["finding"] == by_id(card["claims"])["write-gap"]["finding"]


# ---- Contradictions


def test_only_statements_that_the_source_contradicts_have_another_status_than_their_finding(card: Scorecard) -> None:
    named = {name for each in card["contradictions"] for name in each["contradicted"]}
    entries = [*card["claims"], *card["values"]]
    assert {entry["id"] for entry in entries if entry["status"] == CONTRADICTED} == named
    assert {entry["id"] for entry in entries if entry["status"] != entry["finding"]} == named


def test_the_finding_of_a_contradicted_claim_is_the_status_of_its_worst_part(card: Scorecard) -> None:
    worst_last = [REPRODUCED, WITHIN_TOLERANCE, UNDECIDED, NOT_REPRODUCED]
    for claim in card["claims"]:
        if claim["status"] == CONTRADICTED:
            parts = [part["status"] for part in claim["parts"]]
            assert claim["finding"] == max(parts, key=worst_last.index), claim["id"]


def test_the_finding_of_a_contradicted_value_follows_from_its_error(card: Scorecard) -> None:
    table = published.load_values(ROOT / "data/published" / STUDY).set_index("id")
    found = {value["id"]: value for value in card["values"] if value["status"] == CONTRADICTED}
    assert set(table.loc[list(found), "relation"]) == {"~", "<"}
    for value in found.values():
        error = abs(value["error_percent"])
        finding = REPRODUCED if error <= 5 else WITHIN_TOLERANCE if error <= 20 else NOT_REPRODUCED
        if table.loc[value["id"], "relation"] == "<" and value["error_percent"] < 0:
            finding = REPRODUCED
        assert value["finding"] == finding, value["id"]


def test_a_contradicted_claim_that_was_not_measured_is_not_testable(without_px05: Path) -> None:
    assert by_id(study_of(without_px05)["claims"])["writes-not-affected"]["status"] == UNTESTABLE


# ---- Expectations


def test_a_regression_is_reported_with_both_verdicts_and_the_numbers(slow_reads: Path) -> None:
    lines, study = scorecard.regressions(slow_reads), study_of(slow_reads)
    claim = by_id(study["claims"])["reads-affected"]
    measured = by_id(study["values"])["table2-px05smb040-read-4k"]["measured"]
    change = "expected 'reproduced', is now 'not reproduced'."
    assert (
        f"saif2020: reads-affected (Section 3): {change} Expected {claim['expected']}, found {claim['found']}." in lines
    )
    assert (
        f"saif2020: table2-px05smb040-read-4k (Table 2): {change} Published 136 MiB/s, measured {measured:.4g}."
        in lines
    )


def test_regressions_are_the_reproduced_findings_that_changed(slow_reads: Path) -> None:
    wanted = expected_of(slow_reads)
    study = study_of(slow_reads)
    broken = [
        entry["id"]
        for entry in [*study["claims"], *study["values"]]
        if wanted.get(entry["id"]) in COUNT_AS_REPRODUCED and entry["finding"] in {NOT_REPRODUCED, UNDECIDED}
    ]
    assert [line.split()[1] for line in scorecard.regressions(slow_reads)] == broken


def test_an_entry_that_was_not_measured_is_no_regression(without_px05: Path) -> None:
    assert scorecard.regressions(without_px05) == []


def test_claims_about_a_drive_that_was_not_measured_say_so(without_px05: Path) -> None:
    claim = by_id(study_of(without_px05)["claims"])["writes-grow"]
    assert (claim["status"], claim["because"]) == (UNTESTABLE, "Its drive or experiment was not measured.")


def test_missing_expectations_are_reported_with_their_file(copy: Path) -> None:
    (copy / EXPECTATIONS).unlink()
    with pytest.raises(ScorecardError, match=rf"^{EXPECTATIONS}: the file is missing"):
        scorecard.regressions(copy)


@pytest.mark.parametrize(
    "function",
    [scorecard.load_scorecard, scorecard.regressions, scorecard.record_expectations, scorecard.scorecard_text],
    ids=lambda f: f.__name__,
)
def test_a_missing_scorecard_is_reported_with_the_command_that_makes_it(
    tmp_path: Path, function: Callable[[Path], Any]
) -> None:
    with pytest.raises(ScorecardError, match=r"^results/scorecard\.json: there is no scorecard yet\. Run `snakemake"):
        function(tmp_path)


def test_findings_can_be_recorded_as_expected(slow_reads: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(slow_reads, tmp_path / "project"))
    scorecard.record_expectations(root)
    assert scorecard.regressions(root) == []


def test_the_expectations_of_the_recorded_measurement_are_the_committed_ones(copy: Path) -> None:
    assert scorecard.regressions(copy) == []
    scorecard.record_expectations(copy)
    assert (copy / EXPECTATIONS).read_bytes() == (ROOT / EXPECTATIONS).read_bytes()
    (copy / EXPECTATIONS).unlink()
    assert scorecard.record_expectations(copy) == [copy / EXPECTATIONS]
    assert expected_of(copy) == expected_of(ROOT)


def test_expectations_with_the_former_word_for_not_reproduced_are_read(copy: Path) -> None:
    text = (copy / EXPECTATIONS).read_text(encoding="utf-8")
    (copy / EXPECTATIONS).write_text(text.replace(NOT_REPRODUCED, "deviates"), encoding="utf-8")
    assert "deviates" in expected_of(copy).values()
    assert scorecard.regressions(copy) == []


@pytest.mark.parametrize("expected", [NOT_REPRODUCED, None])
def test_an_entry_that_was_not_expected_to_be_reproduced_is_no_regression(
    slow_reads: Path, tmp_path: Path, expected: str | None
) -> None:
    root = Path(shutil.copytree(slow_reads, tmp_path / "project"))
    findings = dict.fromkeys(expected_of(root), expected) if expected else {"sensitive": NOT_REPRODUCED}
    expected_verdicts.write_expectations(root, STUDY, expected_verdicts.Expectations({}, findings))
    assert scorecard.regressions(root) == []


# ---- A drive that the source does not know


def test_an_own_drive_has_rows_of_its_own(own_drive: Path) -> None:
    assert {claim["drive"] for claim in study_of(own_drive)["claims"]} == {None, "mydisk"}


def test_an_own_drive_without_a_checkable_claim_has_no_rows(recorded: Path, tmp_path: Path) -> None:
    def add_one_cell(table: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([table, table.head(10).assign(drive="mydisk", experiments="unknown")], ignore_index=True)

    judged = study_of(judge_changed_copy(recorded, tmp_path / "project", add_one_cell))
    assert {claim["drive"] for claim in judged["claims"]} == {None}
    assert judged["own"] == {}


def test_an_own_drive_is_judged_by_its_own_measurement(own_drive: Path, slow_reads: Path) -> None:
    mine = by_id([claim for claim in study_of(own_drive)["claims"] if claim["drive"] == "mydisk"])
    theirs = by_id(study_of(slow_reads)["claims"])
    assert mine["read-ahead-behind-gap"]["found"] == theirs["read-ahead-behind-gap"]["found"] != "–"


def test_the_claims_about_the_source_s_drives_keep_their_rows(own_drive: Path, card: Scorecard) -> None:
    rows = [claim["id"] for claim in study_of(own_drive)["claims"] if claim["drive"] is None]
    assert rows == [claim["id"] for claim in card["claims"]]


def test_an_own_drive_is_not_compared_with_numbers_and_outcomes_of_other_drives(own_drive: Path) -> None:
    mine = {claim["id"] for claim in study_of(own_drive)["claims"] if claim["drive"] == "mydisk"}
    not_asked = {"sixteen-jobs-4k", "mz7km240-not-changeable", "px05-more-affected-than-c400", "adjacency"}
    assert mine & not_asked == set()
    measured = {value["drive"] for value in study_of(own_drive)["values"] if value["measured"] is not None}
    assert measured == {"PX02SSF020", "C400-MTFDDAA064M"}


def test_a_claim_not_reproduced_on_an_own_drive_is_no_regression_and_has_no_reason(own_drive: Path) -> None:
    mine = [c for c in study_of(own_drive)["claims"] if c["drive"] == "mydisk" and c["finding"] == NOT_REPRODUCED]
    assert {claim["because"] for claim in mine} == {""}
    assert scorecard.regressions(own_drive) == []


def test_an_own_drive_has_no_expectations(own_drive: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(own_drive, tmp_path / "project"))
    scorecard.record_expectations(root)
    wanted = expected_of(root)
    study = study_of(root)
    of_the_source = [claim for claim in study["claims"] if claim["drive"] is None] + study["values"]
    assert set(wanted) == {entry["id"] for entry in of_the_source if entry["finding"] != UNTESTABLE}


# ---- The text, and the classes


def test_the_text_counts_and_lists_claims(recorded: Path, own_drive: Path, card: Scorecard) -> None:
    independent = card["by_class"]["claims"]["independent"]
    lines = scorecard.scorecard_text(recorded).splitlines()
    assert lines[0].startswith(
        f"saif2020: {independent['hold']} of {independent['checkable']} independent claims reproduced;"
        f" {card['hold']} of all {card['checkable']} checkable claims"
    )
    named = [line.split()[2] for line in lines if line.startswith("  not reproduced: ")]
    assert named == [claim["id"] for claim in card["claims"] if claim["status"] == NOT_REPRODUCED]
    own = "  not reproduced on mydisk: gap-with-one-process (Section 4.3)"
    assert own in scorecard.scorecard_text(own_drive)


def test_each_claim_that_was_measured_has_one_class_and_a_reason(card: Scorecard) -> None:
    of_source = [claim for claim in card["claims"] if claim["parts"]]
    assert {claim["class"] for claim in of_source} == set(evidence.EVIDENCE_CLASSES)
    assert all(claim["class_because"] for claim in of_source)
    assert {claim["class"] for claim in card["claims"] if not claim["parts"]} == {""}
    counts = card["by_class"]["claims"].values()
    assert sum(count["checkable"] for count in counts) == card["checkable"]
    assert sum(count["hold"] for count in counts) == card["hold"]
