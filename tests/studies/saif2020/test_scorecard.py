"""Facts about the scorecard of the recorded measurement, and about what it is expected to find."""

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
    """Return what is expected of the study in a project."""
    expectations = expected_verdicts.load_expectations(root, STUDY)
    assert expectations is not None
    return expectations.expected


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the recorded measurement, its scorecard and the expectations; not to be written to."""
    return copy_recorded_results(tmp_path_factory.mktemp("recorded") / "project", [STUDY])


@pytest.fixture(scope="module")
def card(recorded: Path) -> Scorecard:
    """The scorecard of the recorded measurement."""
    return study_of(recorded)


@pytest.fixture(scope="module")
def slow_reads(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which sequential reads are half as fast as recorded."""
    return judged_anew(recorded, tmp_path_factory.mktemp("slow") / "project", halve_sequential_reads)


@pytest.fixture(scope="module")
def without_px05(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which the drive that most of the study is about was not measured."""
    return judged_anew(
        recorded, tmp_path_factory.mktemp("without") / "project", lambda table: table[table["drive"] != PX05]
    )


@pytest.fixture(scope="module")
def own_drive(recorded: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project in which a drive that the source does not know was measured, with slow sequential reads."""
    root = tmp_path_factory.mktemp("own") / "project"

    def rename(table: pd.DataFrame) -> pd.DataFrame:
        of_mine = table["drive"] == PX05
        mine = halve_sequential_reads(table[of_mine]).assign(drive="mydisk")
        return pd.concat([table[~of_mine], mine], ignore_index=True)

    return judged_anew(recorded, root, rename, {PX05: "mydisk"})


@pytest.fixture
def copy(recorded: Path, tmp_path: Path) -> Path:
    """A copy of the recorded project for a test to write to."""
    return Path(shutil.copytree(recorded, tmp_path / "project"))


def halve_sequential_reads(table: pd.DataFrame) -> pd.DataFrame:
    bandwidth = table["bandwidth_bytes_per_s"]
    return table.assign(bandwidth_bytes_per_s=bandwidth.where(table["rw"] != "read", bandwidth // 2))


def judged_anew(recorded: Path, root: Path, change: Change, renamed: dict[str, str] | None = None) -> Path:
    """Copy the recorded project to ``root``, change what was measured (``renamed``: of drives), and judge it."""
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
    """Return the mean bandwidth in MB/s where a published value was measured, worked out from the table alone."""
    rows = table.query("drive == @row['drive_key'] and rw == @row['rw']")
    rows = rows[rows["bs_bytes"] == parse_size(row["bs"])]
    rows = rows[[row["experiment"] in names.split() for names in rows["experiments"]]]
    if row["conditions"]:
        name, level = row["conditions"].split("=")
        rows = rows[rows["numjobs"] == int(level)] if name == "numjobs" else rows[rows[f"set_{name}"] == level]
    return float(rows["bandwidth_bytes_per_s"].mean()) / 1e6


# ---- The claims of saif2020


def test_saif2020_has_at_least_25_claims_with_a_check(card: Scorecard) -> None:
    assert sum("expected" in claim for claim in card["claims"]) >= 25


def test_what_holds_is_counted_among_claims_that_can_hold(card: Scorecard) -> None:
    statuses = Counter(claim["status"] for claim in card["claims"])
    assert card["hold"] == statuses[REPRODUCED] + statuses[WITHIN_TOLERANCE]
    assert card["checkable"] == card["hold"] + statuses[NOT_REPRODUCED] + statuses[UNDECIDED]


@pytest.mark.parametrize("status", [NOT_REPRODUCED, UNTESTABLE])
def test_it_is_said_why_a_claim_does_not_hold_or_was_not_tested(card: Scorecard, status: str) -> None:
    found = [claim for claim in card["claims"] if claim["status"] == status]
    assert found
    assert [claim["id"] for claim in found if not claim["because"].strip()] == []


def test_it_is_said_why_a_value_was_not_tested(card: Scorecard) -> None:
    found = [value for value in card["values"] if value["status"] == UNTESTABLE]
    assert found
    assert [value["id"] for value in found if not value["because"].strip()] == []


def test_every_claim_has_a_quote_and_its_place(card: Scorecard) -> None:
    assert [claim["id"] for claim in card["claims"] if not (claim["quote"].strip() and claim["place"].strip())] == []


def test_every_quote_stands_at_one_place(card: Scorecard) -> None:
    places = {(claim["quote"], claim["place"]) for claim in card["claims"]}
    assert [quote for quote, number in Counter(quote for quote, _ in places).items() if number > 1] == []


def test_every_claim_of_the_file_has_one_row_in_its_order(card: Scorecard) -> None:
    content = yaml.safe_load((ROOT / "data/published" / STUDY / "claims.yaml").read_text(encoding="utf-8"))
    assert [claim["id"] for claim in card["claims"]] == [claim["id"] for claim in content["claims"]]


def test_every_claim_has_a_known_status(card: Scorecard) -> None:
    assert {claim["status"] for claim in card["claims"]} <= set(scorecard.STATUSES)


@pytest.mark.parametrize("kind", ["claims", "values"])
def test_counts_are_those_of_the_rows(card: Scorecard, kind: str) -> None:
    found = Counter(entry["status"] for entry in card[kind])
    assert card["counts"][kind] == {status: found[status] for status in scorecard.STATUSES}


def test_the_parts_that_hold_are_counted(card: Scorecard) -> None:
    counted = {claim["id"]: claim["holding"] for claim in card["claims"] if "holding" in claim}
    assert counted == {
        claim["id"]: sum(part["status"] in COUNT_AS_REPRODUCED for part in claim["parts"])
        for claim in card["claims"]
        if "holding" in claim
    }


def test_the_worst_part_of_a_claim_is_the_one_farthest_off(card: Scorecard) -> None:
    for claim in card["claims"]:
        if claim.get("worst"):
            off = {part["label"]: part["off_percent"] for part in claim["parts"]}
            assert off[claim["worst"]] == max(off.values()) > 0, claim["id"]


# ---- The published values of saif2020


def test_every_published_value_has_one_row_in_its_order(card: Scorecard) -> None:
    table = published.load_values(ROOT / "data/published" / STUDY)
    assert [value["id"] for value in card["values"]] == table["id"].tolist()


def test_every_published_value_has_a_known_status(card: Scorecard) -> None:
    assert {value["status"] for value in card["values"]} <= set(scorecard.STATUSES)


def test_every_cell_of_tables_2_and_3_was_measured(card: Scorecard) -> None:
    cells = [value for value in card["values"] if value["place"] in {"Table 2", "Table 3"}]
    assert sum(value["measured"] is not None for value in cells) == 24


def test_every_error_is_that_of_the_mean_of_the_measurement(recorded: Path, card: Scorecard) -> None:
    table = pd.read_parquet(recorded / MEASUREMENT)
    rows = {row["id"]: row for row in published.load_values(recorded / "data/published" / STUDY).to_dict("records")}
    measured = {value["id"]: value for value in card["values"] if value["measured"] is not None}
    expected = {name: 100 * (mean_bandwidth(table, rows[name]) / rows[name]["value"] - 1) for name in measured}
    assert {name: value["error_percent"] for name, value in measured.items()} == pytest.approx(expected)


def test_a_value_without_a_measurement_has_no_error(card: Scorecard) -> None:
    unmeasured = [value for value in card["values"] if value["measured"] is None]
    assert {value["error_percent"] for value in unmeasured} == {None}


def test_the_errors_of_a_class_leave_out_what_the_source_contradicts(card: Scorecard) -> None:
    errors = [
        abs(value["error_percent"])
        for value in card["values"]
        if value["class"] == "fitted" and value["status"] != CONTRADICTED
    ]
    found = card["by_class"]["values"]["fitted"]
    assert found["values"] == len(errors)  # each is of a cell of its own
    assert found["mean_absolute_percent"] == pytest.approx(sum(errors) / len(errors))
    assert abs(found["largest_percent"]) == max(errors)


def test_a_limit_of_a_claim_is_judged_there(card: Scorecard) -> None:
    limit = by_id(card["values"])["section3-write-gap"]
    assert limit["because"] == "See the claim write-gap."
    assert limit["finding"] == by_id(card["claims"])["write-gap"]["finding"]


# ---- Contradictions


def test_what_the_source_contradicts_has_that_status(card: Scorecard) -> None:
    named = {name for each in card["contradictions"] for name in each["contradicted"]}
    entries = [*card["claims"], *card["values"]]
    assert {entry["id"] for entry in entries if entry["status"] == CONTRADICTED} == named


def test_the_finding_of_a_contradicted_claim_is_what_its_parts_came_to(card: Scorecard) -> None:
    worst_last = [REPRODUCED, WITHIN_TOLERANCE, UNDECIDED, NOT_REPRODUCED]
    for claim in card["claims"]:
        if claim["status"] == CONTRADICTED:
            parts = [part["status"] for part in claim["parts"]]
            assert claim["finding"] == max(parts, key=worst_last.index), claim["id"]


def test_the_finding_of_a_contradicted_value_is_what_its_error_came_to(card: Scorecard) -> None:
    table = published.load_values(ROOT / "data/published" / STUDY).set_index("id")
    found = {value["id"]: value for value in card["values"] if value["status"] == CONTRADICTED}
    assert set(table.loc[list(found), "relation"]) == {"~", "<"}
    for value in found.values():
        error = abs(value["error_percent"])
        finding = REPRODUCED if error <= 5 else WITHIN_TOLERANCE if error <= 20 else NOT_REPRODUCED
        if table.loc[value["id"], "relation"] == "<" and value["error_percent"] < 0:
            finding = REPRODUCED
        assert value["finding"] == finding, value["id"]


def test_all_else_has_its_finding_as_status(card: Scorecard) -> None:
    others = [entry for entry in [*card["claims"], *card["values"]] if entry["status"] != CONTRADICTED]
    assert [entry["id"] for entry in others if entry["status"] != entry["finding"]] == []


def test_what_was_not_measured_is_not_testable_even_where_the_source_contradicts_it(without_px05: Path) -> None:
    assert by_id(study_of(without_px05)["claims"])["writes-not-affected"]["status"] == UNTESTABLE


# ---- Expectations


def test_the_recorded_measurement_is_as_expected(recorded: Path) -> None:
    assert scorecard.regressions(recorded) == []


def test_every_finding_of_the_recorded_measurement_is_expected(recorded: Path, card: Scorecard) -> None:
    found = {
        entry["id"]: entry["finding"] for entry in [*card["claims"], *card["values"]] if entry["finding"] != UNTESTABLE
    }
    assert expected_of(recorded) == found


def test_a_claim_that_no_longer_holds_is_named_with_what_it_was_and_is(slow_reads: Path) -> None:
    lines = scorecard.regressions(slow_reads)
    claim = by_id(study_of(slow_reads)["claims"])["reads-affected"]
    assert (
        "saif2020: reads-affected (Section 3): was reproduced, now deviates. "
        f"Expected {claim['expected']}, found {claim['found']}."
    ) in lines


def test_a_value_that_no_longer_holds_is_named_with_what_it_was_and_is(slow_reads: Path) -> None:
    lines = scorecard.regressions(slow_reads)
    measured = by_id(study_of(slow_reads)["values"])["table2-px05smb040-read-4k"]["measured"]
    assert (
        "saif2020: table2-px05smb040-read-4k (Table 2): was reproduced, now deviates. "
        f"Published 136 MB/s, measured {measured:.4g}."
    ) in lines


def test_each_regression_is_of_a_finding_that_held_and_does_not_any_more(slow_reads: Path) -> None:
    wanted = expected_of(slow_reads)
    study = study_of(slow_reads)
    broken = [
        entry["id"]
        for entry in [*study["claims"], *study["values"]]
        if wanted.get(entry["id"]) in COUNT_AS_REPRODUCED and entry["finding"] in {NOT_REPRODUCED, UNDECIDED}
    ]
    assert [line.split()[1] for line in scorecard.regressions(slow_reads)] == broken


def test_what_was_not_measured_is_no_regression(without_px05: Path) -> None:
    assert scorecard.regressions(without_px05) == []


def test_claims_about_a_drive_that_was_not_measured_say_so(without_px05: Path) -> None:
    claim = by_id(study_of(without_px05)["claims"])["writes-grow"]
    assert (claim["status"], claim["because"]) == (UNTESTABLE, "Its drive or experiment was not measured.")


def test_without_expectations_the_error_names_their_file(copy: Path) -> None:
    (copy / EXPECTATIONS).unlink()
    with pytest.raises(ScorecardError, match=rf"^{EXPECTATIONS}: not there"):
        scorecard.regressions(copy)


@pytest.mark.parametrize(
    "function",
    [scorecard.load_scorecard, scorecard.regressions, scorecard.record_expectations, scorecard.scorecard_text],
    ids=lambda f: f.__name__,
)
def test_without_a_scorecard_the_error_says_how_to_get_one(tmp_path: Path, function: Callable[[Path], Any]) -> None:
    with pytest.raises(ScorecardError, match=r"^results/scorecard\.json: there is none yet\. Run `snakemake"):
        function(tmp_path)


def test_what_is_found_can_be_made_what_is_expected(slow_reads: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(slow_reads, tmp_path / "project"))
    scorecard.record_expectations(root)
    assert scorecard.regressions(root) == []


def test_expectations_are_written_where_there_are_none(copy: Path) -> None:
    (copy / EXPECTATIONS).unlink()
    assert scorecard.record_expectations(copy) == [copy / EXPECTATIONS]
    assert (copy / EXPECTATIONS).is_file()


def test_expectations_of_the_recorded_measurement_are_those_of_the_project(copy: Path) -> None:
    scorecard.record_expectations(copy)
    assert (copy / EXPECTATIONS).read_bytes() == (ROOT / EXPECTATIONS).read_bytes()


def test_what_has_come_to_hold_is_no_regression(copy: Path) -> None:
    expected_verdicts.write_expectations(
        copy, STUDY, expected_verdicts.Expectations({}, dict.fromkeys(expected_of(copy), NOT_REPRODUCED))
    )
    assert scorecard.regressions(copy) == []


def test_what_nothing_is_expected_of_is_no_regression(slow_reads: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(slow_reads, tmp_path / "project"))
    expected_verdicts.write_expectations(root, STUDY, expected_verdicts.Expectations({}, {"sensitive": NOT_REPRODUCED}))
    assert scorecard.regressions(root) == []


# ---- A drive that the source does not know


def test_an_own_drive_has_rows_of_its_own(own_drive: Path) -> None:
    assert {claim["drive"] for claim in study_of(own_drive)["claims"]} == {None, "mydisk"}


def test_an_own_drive_of_which_no_claim_can_be_checked_has_no_rows(recorded: Path, tmp_path: Path) -> None:
    def add_one_cell(table: pd.DataFrame) -> pd.DataFrame:
        return pd.concat([table, table.head(10).assign(drive="mydisk", experiments="unknown")], ignore_index=True)

    judged = study_of(judged_anew(recorded, tmp_path / "project", add_one_cell))
    assert {claim["drive"] for claim in judged["claims"]} == {None}
    assert judged["own"] == {}


def test_an_own_drive_is_judged_by_its_own_measurement(own_drive: Path, slow_reads: Path) -> None:
    mine = by_id([claim for claim in study_of(own_drive)["claims"] if claim["drive"] == "mydisk"])
    theirs = by_id(study_of(slow_reads)["claims"])
    assert mine["read-ahead-behind-gap"]["found"] == theirs["read-ahead-behind-gap"]["found"] != "–"


def test_the_source_s_claims_keep_their_rows_beside_an_own_drive(own_drive: Path, card: Scorecard) -> None:
    rows = [claim["id"] for claim in study_of(own_drive)["claims"] if claim["drive"] is None]
    assert rows == [claim["id"] for claim in card["claims"]]


def test_an_own_drive_is_not_held_against_numbers_and_outcomes_of_other_drives(own_drive: Path) -> None:
    mine = {claim["id"] for claim in study_of(own_drive)["claims"] if claim["drive"] == "mydisk"}
    not_asked = {"sixteen-jobs-4k", "mz7km240-not-changeable", "px05-more-affected-than-c400", "adjacency"}
    assert mine & not_asked == set()


def test_published_values_are_not_held_against_an_own_drive(own_drive: Path) -> None:
    measured = {value["drive"] for value in study_of(own_drive)["values"] if value["measured"] is not None}
    assert measured == {"PX02SSF020", "C400-MTFDDAA064M"}


def test_an_own_drive_that_deviates_is_no_regression(own_drive: Path) -> None:
    deviating = [c for c in study_of(own_drive)["claims"] if c["drive"] == "mydisk" and c["finding"] == NOT_REPRODUCED]
    assert deviating
    assert scorecard.regressions(own_drive) == []


def test_nothing_is_expected_of_an_own_drive(own_drive: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(own_drive, tmp_path / "project"))
    scorecard.record_expectations(root)
    wanted = expected_of(root)
    study = study_of(root)
    of_the_source = [claim for claim in study["claims"] if claim["drive"] is None] + study["values"]
    assert set(wanted) == {entry["id"] for entry in of_the_source if entry["finding"] != UNTESTABLE}


def test_a_deviation_of_a_twin_does_not_explain_an_own_drive_s(own_drive: Path) -> None:
    mine = [c for c in study_of(own_drive)["claims"] if c["drive"] == "mydisk" and c["finding"] == NOT_REPRODUCED]
    assert {claim["because"] for claim in mine} == {""}


# ---- The overview


def test_the_overview_counts_claims_that_hold(recorded: Path, card: Scorecard) -> None:
    independent = card["by_class"]["claims"]["independent"]
    first = scorecard.scorecard_text(recorded).splitlines()[0]
    assert first.startswith(
        f"saif2020: {independent['hold']} of {independent['checkable']} independent claims hold; {card['hold']} of all"
        f" {card['checkable']} checkable ones"
    )


def test_each_claim_that_was_measured_has_one_class_and_a_reason(card: Scorecard) -> None:
    of_source = [claim for claim in card["claims"] if claim["parts"]]
    assert {claim["class"] for claim in of_source} == set(evidence.EVIDENCE_CLASSES)
    assert all(claim["class_because"] for claim in of_source)
    assert {claim["class"] for claim in card["claims"] if not claim["parts"]} == {""}
    counts = card["by_class"]["claims"].values()
    assert sum(count["checkable"] for count in counts) == card["checkable"]
    assert sum(count["hold"] for count in counts) == card["hold"]


def test_the_overview_names_each_claim_that_deviates(recorded: Path, card: Scorecard) -> None:
    named = [
        line.split()[1] for line in scorecard.scorecard_text(recorded).splitlines() if line.startswith("  deviates: ")
    ]
    assert named == [claim["id"] for claim in card["claims"] if claim["status"] == NOT_REPRODUCED]


def test_the_overview_names_the_own_drive_that_a_claim_deviates_on(own_drive: Path) -> None:
    assert "  deviates on mydisk: gap-with-one-process (Section 4.3)" in scorecard.scorecard_text(own_drive)
