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
from support import ROOT, lay_out_recorded

from iopatterns.analysis import published
from iopatterns.base.units import size_bytes
from iopatterns.configuration import default
from iopatterns.configuration.factors import get
from iopatterns.configuration.sources import PublishedError
from iopatterns.judging import checks, claims, classes, scorecard
from iopatterns.judging.checks.findings import DEVIATES, REPRODUCED, UNDECIDED, WITHIN, ClaimsError
from iopatterns.judging.claims import CONTRADICTED, UNTESTABLE
from iopatterns.judging.scorecard import ScorecardError

pytestmark = pytest.mark.slow  # each worker judges whole studies first

STUDY = "saif2020"
MEASUREMENT = f"results/measurements/{STUDY}.parquet"
TUNING = f"results/measurements/{STUDY}.tuning.json"
EXPECTATIONS = f"data/published/{STUDY}/expectations.yaml"
HOLDS = {REPRODUCED, WITHIN}
# The drive that most of the study is about
PX05 = "px05smb040"

Scorecard = Mapping[str, Any]
Change = Callable[[pd.DataFrame], pd.DataFrame]


def expected_of(root: Path) -> Mapping[str, str]:
    """Return what is expected of the study in a project."""
    expectations = default.load(root, STUDY)
    assert expectations is not None
    return expectations.expected


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the recorded measurement, its scorecard and the expectations; not to be written to."""
    return lay_out_recorded(tmp_path_factory.mktemp("recorded") / "project")


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
    scorecard.write(root, {STUDY: scorecard.judge(root, STUDY)})
    return root


def study_of(root: Path) -> Scorecard:
    study: Scorecard = scorecard.load(root)["studies"][STUDY]
    return study


def by_id(entries: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {entry["id"]: entry for entry in entries}


def mean_bandwidth(table: pd.DataFrame, row: Mapping[Any, Any]) -> float:
    """Return the mean bandwidth in MB/s where a published value was measured, worked out from the table alone."""
    rows = table.query("drive == @row['drive_key'] and rw == @row['rw']")
    rows = rows[rows["bs_bytes"] == size_bytes(row["bs"])]
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
    assert card["hold"] == statuses[REPRODUCED] + statuses[WITHIN]
    assert card["checkable"] == card["hold"] + statuses[DEVIATES] + statuses[UNDECIDED]


@pytest.mark.parametrize("status", [DEVIATES, UNTESTABLE])
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
        claim["id"]: sum(part["status"] in HOLDS for part in claim["parts"])
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
    table = published.load(ROOT / "data/published" / STUDY)
    assert [value["id"] for value in card["values"]] == table["id"].tolist()


def test_every_published_value_has_a_known_status(card: Scorecard) -> None:
    assert {value["status"] for value in card["values"]} <= set(scorecard.STATUSES)


def test_every_cell_of_tables_2_and_3_was_measured(card: Scorecard) -> None:
    cells = [value for value in card["values"] if value["place"] in {"Table 2", "Table 3"}]
    assert sum(value["measured"] is not None for value in cells) == 24


def test_every_error_is_that_of_the_mean_of_the_measurement(recorded: Path, card: Scorecard) -> None:
    table = pd.read_parquet(recorded / MEASUREMENT)
    rows = {row["id"]: row for row in published.load(recorded / "data/published" / STUDY).to_dict("records")}
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
    worst_last = [REPRODUCED, WITHIN, UNDECIDED, DEVIATES]
    for claim in card["claims"]:
        if claim["status"] == CONTRADICTED:
            parts = [part["status"] for part in claim["parts"]]
            assert claim["finding"] == max(parts, key=worst_last.index), claim["id"]


def test_the_finding_of_a_contradicted_value_is_what_its_error_came_to(card: Scorecard) -> None:
    table = published.load(ROOT / "data/published" / STUDY).set_index("id")
    found = {value["id"]: value for value in card["values"] if value["status"] == CONTRADICTED}
    assert set(table.loc[list(found), "relation"]) == {"~", "<"}
    for value in found.values():
        error = abs(value["error_percent"])
        finding = REPRODUCED if error <= 5 else WITHIN if error <= 20 else DEVIATES
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
        if wanted.get(entry["id"]) in HOLDS and entry["finding"] in {DEVIATES, UNDECIDED}
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
    "function", [scorecard.load, scorecard.regressions, scorecard.expect, scorecard.overview], ids=lambda f: f.__name__
)
def test_without_a_scorecard_the_error_says_how_to_get_one(tmp_path: Path, function: Callable[[Path], Any]) -> None:
    with pytest.raises(ScorecardError, match=r"^results/scorecard\.json: there is none yet\. Run `snakemake"):
        function(tmp_path)


def test_what_is_found_can_be_made_what_is_expected(slow_reads: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(slow_reads, tmp_path / "project"))
    scorecard.expect(root)
    assert scorecard.regressions(root) == []


def test_expectations_are_written_where_there_are_none(copy: Path) -> None:
    (copy / EXPECTATIONS).unlink()
    assert scorecard.expect(copy) == [copy / EXPECTATIONS]
    assert (copy / EXPECTATIONS).is_file()


def test_expectations_of_the_recorded_measurement_are_those_of_the_project(copy: Path) -> None:
    scorecard.expect(copy)
    assert (copy / EXPECTATIONS).read_bytes() == (ROOT / EXPECTATIONS).read_bytes()


def test_what_has_come_to_hold_is_no_regression(copy: Path) -> None:
    default.record(copy, STUDY, default.Expectations({}, dict.fromkeys(expected_of(copy), DEVIATES)))
    assert scorecard.regressions(copy) == []


def test_what_nothing_is_expected_of_is_no_regression(slow_reads: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(slow_reads, tmp_path / "project"))
    default.record(root, STUDY, default.Expectations({}, {"sensitive": DEVIATES}))
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
    deviating = [c for c in study_of(own_drive)["claims"] if c["drive"] == "mydisk" and c["finding"] == DEVIATES]
    assert deviating
    assert scorecard.regressions(own_drive) == []


def test_nothing_is_expected_of_an_own_drive(own_drive: Path, tmp_path: Path) -> None:
    root = Path(shutil.copytree(own_drive, tmp_path / "project"))
    scorecard.expect(root)
    wanted = expected_of(root)
    study = study_of(root)
    of_the_source = [claim for claim in study["claims"] if claim["drive"] is None] + study["values"]
    assert set(wanted) == {entry["id"] for entry in of_the_source if entry["finding"] != UNTESTABLE}


def test_a_deviation_of_a_twin_does_not_explain_an_own_drive_s(own_drive: Path) -> None:
    mine = [c for c in study_of(own_drive)["claims"] if c["drive"] == "mydisk" and c["finding"] == DEVIATES]
    assert {claim["because"] for claim in mine} == {""}


# ---- In words


def check_of(check: dict[str, Any], values: pd.DataFrame | None = None) -> checks.Check:
    return checks.parse({"experiment": "e", **check}, pd.DataFrame() if values is None else values)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        (
            {"ratio": {"rw": "randread"}, "to": {"rw": "read"}, "where": {"drive": "c400", "bs": ["4k", "28k"]}},
            "mean bandwidth, randread / read; c400, 4k|28k",
        ),
        (
            {"ratio": {"DRA": 1}, "to": {"DRA": 0}, "over_ratio": {"RCD": 1}, "over_to": {"RCD": 0}},
            "mean bandwidth, (DRA 1 / DRA 0) / (RCD 1 / RCD 0)",
        ),
        (
            {"difference": {"rw": "write"}, "to": {"rw": "randwrite"}, "where": {"bs": "all"}},
            "mean bandwidth, write − randwrite; each bs",
        ),
        ({"mean": {"numjobs": 16, "bs": "4k"}}, "mean bandwidth, 16 jobs, 4k"),
        ({"growth": "numjobs"}, "mean bandwidth, from each numjobs to the next"),
        (
            {"growth": "bs", "ratio": {"rw": "randread"}, "to": {"rw": "read"}},
            "mean bandwidth, randread / read, from each bs to the next",
        ),
        ({"column": "iodepth_reached"}, "largest iodepth reached"),
        ({"outcome": "DRA", "to": 1, "where": {"drive": "c400"}}, "outcome of setting DRA to 1; c400"),
    ],
)
def test_each_statistic_is_described(check: dict[str, Any], text: str) -> None:
    wanted = {"is": ["refused"]} if "outcome" in check else {"at_most": 1}
    assert check_of({**check, **wanted}).describe() == text


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"ratio": {}, "to": {}, "at_most": 0.5, "tolerance": 0.1}, "≤ 0.5, tolerance 10 %"),
        ({"growth": "bs", "at_least": 1}, "≥ 1"),
        ({"difference": {}, "to": {}, "at_most": "limit"}, "≤ 30 MB/s"),
        ({"mean": {}, "equals": "limit", "tolerance": 0.2}, "= 30 MB/s, tolerance 20 %"),
        ({"ratio": {}, "to": {}, "within": 0.05}, "1 ± 5 % (equivalence)"),
        ({"outcome": "DRA", "to": 1, "is": ["ignored", "refused"]}, "ignored or refused"),
    ],
)
def test_each_expectation_is_put_in_words(check: dict[str, Any], text: str) -> None:
    assert check_of(check, pd.DataFrame({"id": ["limit"], "value": [30.0], "unit": "MB/s"})).expected() == text


def test_the_overview_counts_claims_that_hold(recorded: Path, card: Scorecard) -> None:
    independent = card["by_class"]["claims"]["independent"]
    first = scorecard.overview(recorded).splitlines()[0]
    assert first.startswith(
        f"saif2020: {independent['hold']} of {independent['checkable']} independent claims hold; {card['hold']} of all"
        f" {card['checkable']} checkable ones"
    )


def test_each_claim_that_was_measured_has_one_class_and_a_reason(card: Scorecard) -> None:
    of_source = [claim for claim in card["claims"] if claim["parts"]]
    assert {claim["class"] for claim in of_source} == set(classes.CLASSES)
    assert all(claim["class_because"] for claim in of_source)
    assert {claim["class"] for claim in card["claims"] if not claim["parts"]} == {""}
    counts = card["by_class"]["claims"].values()
    assert sum(count["checkable"] for count in counts) == card["checkable"]
    assert sum(count["hold"] for count in counts) == card["hold"]


def test_the_overview_names_each_claim_that_deviates(recorded: Path, card: Scorecard) -> None:
    named = [line.split()[1] for line in scorecard.overview(recorded).splitlines() if line.startswith("  deviates: ")]
    assert named == [claim["id"] for claim in card["claims"] if claim["status"] == DEVIATES]


def test_the_overview_names_the_own_drive_that_a_claim_deviates_on(own_drive: Path) -> None:
    assert "  deviates on mydisk: gap-with-one-process (Section 4.3)" in scorecard.overview(own_drive)


# ---- Any quantity, any unit, zeros, and numbers that come of several


OWN = "own-study"
SPEED = {"read": (9000.0, 3.2), "randrw": (4500.0, 6.4), "write": (0.0, None)}
OWN_VALUES = """\
id,place,quantity,drive,drive_key,rw,bs,experiment,conditions,relation,value,unit,quote
rate,Table 1,iops,D,d,read,4k,e,iodepth=32,=,9450,IOPS,9450
latency-us,Table 1,latency,D,d,read,4k,e,iodepth=32,=,3200,us,3200
latency-ms,Table 1,latency,D,d,read,4k,e,iodepth=32,=,3.2,ms,3.2
bandwidth-mib,Table 1,bandwidth,D,d,read,4k,e,iodepth=32,=,35.15625,MiB/s,35.15625
reads-of-mix,Table 1,read iops,D,d,randrw,4k,e,iodepth=32,=,2250,IOPS,2250
no-reads,Table 1,read iops,D,d,write,4k,e,iodepth=32,=,0,IOPS,0
other-zero,Table 1,iops,D,d,read,4k,e,iodepth=32,=,0,IOPS,0
at-another-depth,Table 1,iops,D,d,read,4k,e,iodepth=64,=,9000,IOPS,9000
below,Table 1,latency,D,d,read,4k,e,iodepth=32,<,5,ms,5
cost,Text,reads that one write costs,D,d,,,,,=,2.0,reads,2.0
mean-latency,Text,mean latency,D,d,,,,,=,6400,us,6400
never-checked,Text,capacity,D,d,,,,,=,5,GB,5
"""
OWN_CLAIMS: dict[str, Any] = {
    "claims": [
        {
            "id": "cost-of-a-mix",
            "place": "Text",
            "quote": "2.0 reads",
            "says": "A request of the mix costs two reads",
            "check": {
                "value": "read / mix",
                "with": {"read": {"rw": "read"}, "mix": {"rw": "randrw"}},
                "of": "iops",
                "experiment": "e",
                "equals": "cost",
            },
        },
        {
            "id": "latency-of-a-mix",
            "place": "Text",
            "quote": "6400 us",
            "says": "The mix's latency",
            "check": {"mean": {"rw": "randrw"}, "of": "latency", "experiment": "e", "equals": "mean-latency"},
        },
    ]
}


def own_study(root: Path, claims_: dict[str, Any] = OWN_CLAIMS, values: str = OWN_VALUES) -> Path:
    """Lay out a study of one's own: reads, a mix and writes that stand still, two executions each."""
    folder = root / "data/published" / OWN
    folder.mkdir(parents=True)
    (root / "data/twins").mkdir()
    shutil.copytree(ROOT / "workflow/schemas", root / "workflow/schemas")
    (folder / "values.csv").write_text(values, encoding="utf-8")
    (folder / "drives.csv").write_text("table,drive,drive_key\n,D,d\n", encoding="utf-8")
    (folder / "claims.yaml").write_text(yaml.safe_dump(claims_), encoding="utf-8")
    rows = []
    for rw, (iops, latency_ms) in SPEED.items():
        for direction in {"read": ["read"], "randrw": ["read", "write"], "write": ["write"]}[rw]:
            share = iops / (2 if rw == "randrw" else 1)
            about = {
                "study": OWN,
                "drive": "d",
                "cell": rw,
                "experiments": "e",
                "drive_kind": "file",
                "drive_model": "",
                "rw": rw,
            }
            fio = {"document": 0, "direction": direction, "iops": share, "total_ios": round(share)}
            fio |= {"bandwidth_bytes_per_s": round(4096 * share), "lat_mean_ns": 1e6 * (latency_ms or 0)}
            rows += [{**about, "execution": number, "bs_bytes": 4096, "iodepth": 32, **fio} for number in (1, 2)]
    (root / "results/measurements").mkdir(parents=True)
    pd.DataFrame(rows).assign(iodepth_reached=32).to_parquet(root / f"results/measurements/{OWN}.parquet")
    (root / f"results/measurements/{OWN}.tuning.json").write_text("[]", encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def own_card(tmp_path_factory: pytest.TempPathFactory) -> Scorecard:
    return scorecard.judge(own_study(tmp_path_factory.mktemp("own")), OWN)


@pytest.mark.parametrize(
    ("value", "measured", "error_percent", "status"),
    [
        ("rate", 9000.0, 100 * (9000 / 9450 - 1), REPRODUCED),
        ("latency-us", 3200.0, 0.0, REPRODUCED),
        ("latency-ms", 3.2, 0.0, REPRODUCED),
        ("bandwidth-mib", 35.15625, 0.0, REPRODUCED),
        ("reads-of-mix", 2250.0, 0.0, REPRODUCED),
        ("no-reads", 0.0, None, REPRODUCED),
        ("other-zero", 9000.0, None, DEVIATES),
        ("at-another-depth", None, None, UNTESTABLE),
        ("below", 3.2, None, REPRODUCED),
        ("cost", 2.0, 0.0, REPRODUCED),
        ("mean-latency", 6400.0, 0.0, REPRODUCED),
        ("never-checked", None, None, UNTESTABLE),
    ],
)
def test_a_published_value_is_met_in_its_own_quantity_and_unit(
    own_card: Scorecard, value: str, measured: float | None, error_percent: float | None, status: str
) -> None:
    row = by_id(own_card["values"])[value]
    assert row["status"] == status
    for name, expected in (("measured", measured), ("error_percent", error_percent)):
        assert row[name] == (None if expected is None else pytest.approx(expected, abs=1e-9))


@pytest.mark.parametrize(
    ("setting", "levels"),
    [
        ("look_ahead", (0, 1)),
        ("read_ahead_kb", (0, 128)),
        ("nr_requests", (4, 64)),
        ("write_cache", ("write through", "write back")),
        ("scheduler", ("none", "cfq")),
        ("DRA", (1, 0)),
    ],
)
def test_a_value_published_at_a_level_of_any_setting_is_judged(
    tmp_path: Path, setting: str, levels: tuple[Any, Any]
) -> None:
    head, first, _ = OWN_VALUES.split("\n", 2)
    rows = [
        first.replace("rate", f"v{n}").replace("iodepth=32", f"{setting}={level}") for n, level in enumerate(levels)
    ]
    root = own_study(tmp_path, one_claim(mean={}, at_least=0), "\n".join([head, *rows, ""]))
    path = root / f"results/measurements/{OWN}.parquet"
    table = pd.read_parquet(path)
    table.insert(0, f"set_{setting}", table["execution"].map({1: levels[0], 2: None}))
    table.to_parquet(path)
    found = by_id(scorecard.judge(root, OWN)["values"])
    assert (found["v0"]["measured"], found["v1"]["measured"]) == (9000.0, None)


@pytest.mark.parametrize(
    ("value", "because"),
    [
        ("rate", ""),
        ("cost", "See the claim cost-of-a-mix."),
        ("mean-latency", "See the claim latency-of-a-mix."),
        ("at-another-depth", "Its drive or experiment was not measured."),
        ("never-checked", "It describes the source's set-up, or what it tells of drives in general."),
    ],
)
def test_it_is_said_where_a_value_was_judged(own_card: Scorecard, value: str, because: str) -> None:
    assert by_id(own_card["values"])[value]["because"] == because


def test_a_claim_about_a_mean_tells_it_in_the_quantity_s_unit(own_card: Scorecard) -> None:
    claim = by_id(own_card["claims"])["latency-of-a-mix"]
    assert (claim["found"], claim["expected"]) == ("6.400 ms", "= 6.4 ms")


def test_a_claim_of_arithmetic_has_no_unit(own_card: Scorecard) -> None:
    claim = by_id(own_card["claims"])["cost-of-a-mix"]
    assert (claim["found"], claim["expected"]) == ("2.000", "= 2")


def test_a_scorecard_with_zeros_is_json_that_others_can_read(own_card: Scorecard, tmp_path: Path) -> None:
    scorecard.write(tmp_path, {OWN: own_card})
    text = (tmp_path / scorecard.FILE).read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail)["studies"] == {OWN: own_card}


def one_claim(**check: Any) -> dict[str, Any]:
    return {"claims": [OWN_CLAIMS["claims"][0] | {"check": {"of": "iops", "experiment": "e", **check}}]}


def test_a_claim_that_misses_a_published_zero_is_off_without_bound(tmp_path: Path) -> None:
    content = one_claim(mean={"rw": "read"}, equals="no-reads")
    card_ = scorecard.judge(own_study(tmp_path, content), OWN)
    scorecard.write(tmp_path, {OWN: card_})
    (claim,) = card_["claims"]
    assert (claim["status"], claim["off_percent"]) == (DEVIATES, None)
    assert "Infinity" not in (tmp_path / scorecard.FILE).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "check",
    [
        {"ratio": {"rw": "read"}, "to": {"rw": "write"}, "at_most": 1},
        {"value": "1 / w", "with": {"w": {"rw": "write"}}, "at_most": 1},
    ],
    ids=["ratio", "value"],
)
def test_a_claim_that_divides_by_zero_is_named_with_its_file(tmp_path: Path, check: dict[str, Any]) -> None:
    root = own_study(tmp_path, one_claim(**check))
    with pytest.raises(ClaimsError, match=rf"^data/published/{OWN}/claims\.yaml: claim 'cost-of-a-mix': its stat"):
        scorecard.judge(root, OWN)


def test_a_value_with_an_unknown_quantity_is_named_with_its_file(tmp_path: Path) -> None:
    root = own_study(tmp_path, values=OWN_VALUES.replace("rate,Table 1,iops", "rate,Table 1,iosp"))
    with pytest.raises(PublishedError, match=r"values\.csv, line 2: quantity: .*did you mean 'iops'"):
        scorecard.judge(root, OWN)


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"ratio": {"rwmixread": 99}, "to": {"rw": "read"}, "of": "iops"}, "mean iops, rwmixread 99 / read"),
        (
            {"ratio": {"of": "read iops"}, "to": {"of": "iops", "experiment": "baseline"}},
            "means, read iops / iops, experiment baseline",
        ),
        ({"mean": {"of": "latency", "rw": "read"}}, "mean latency, read"),
        ({"difference": {"rw": "read"}, "to": {"rw": "write"}, "of": "latency"}, "mean latency, read − write"),
        ({"growth": "iodepth", "of": "latency"}, "mean latency, from each iodepth to the next"),
        (
            {"value": "r / w", "with": {"r": {"rw": "read"}, "w": {"of": "latency"}}, "of": "iops"},
            "r / w (r: mean iops, read; w: mean latency)",
        ),
    ],
)
def test_the_statistic_of_any_quantity_is_described(check: dict[str, Any], text: str) -> None:
    wanted = {"is": ["refused"]} if "outcome" in check else {"at_most": 1}
    assert check_of({**check, **wanted}).describe() == text


@pytest.mark.parametrize(
    ("check", "text"),
    [
        ({"mean": {"of": "iops"}, "at_least": 9000}, "≥ 9000 IOPS"),
        ({"difference": {}, "to": {}, "of": "latency", "equals": "limit"}, "= 0.03 ms"),
        ({"ratio": {}, "to": {}, "of": "latency", "at_most": "limit"}, "≤ 30"),
        ({"value": "a", "with": {"a": {}}, "at_most": "limit"}, "≤ 30"),
    ],
)
def test_the_expectation_of_any_quantity_is_put_in_its_unit(check: dict[str, Any], text: str) -> None:
    assert check_of(check, pd.DataFrame({"id": ["limit"], "value": [30.0], "unit": "us"})).expected() == text


# ---- The claims and values of every study


STUDIES = sorted(path.stem for path in (ROOT / "config/studies").glob("*.yaml"))
SELECTIONS = ("where", "ratio", "to", "over_ratio", "over_to", "difference", "mean")


def levels_of(grid: dict[str, Any], experiment: str) -> dict[str, list[Any]]:
    """Return the levels that a study's grid has in an experiment, those of fixed options and its drives included."""
    body = grid["experiments"][experiment]
    fixed = {factor: [level] for factor, level in {**grid["fio"], **body.get("fio", {})}.items()}
    varied = {name: grid["levels"][level] if isinstance(level, str) else level for name, level in body["vary"].items()}
    return {**fixed, **varied, "drive": body.get("drives", grid.get("drives"))}


@pytest.mark.parametrize("study", STUDIES)
def test_each_claim_selects_what_the_study_s_grid_has(study: str) -> None:
    grid = yaml.safe_load((ROOT / f"config/studies/{study}.yaml").read_text(encoding="utf-8"))
    content = yaml.safe_load((ROOT / f"data/published/{study}/claims.yaml").read_text(encoding="utf-8"))
    checks_ = [
        (claim["id"], check)
        for claim in content.get("claims", [])
        for check in [claim.get("check"), *(each["check"] for each in claim.get("checks", []))]
        if check
    ]
    for claim, check in checks_:
        named = [check.get(name, {}) for name in SELECTIONS]
        for selection in [*named, *check.get("with", {}).values()]:
            asked = dict(selection) if isinstance(selection, dict) else {}
            levels = levels_of(grid, asked.pop("experiment", check["experiment"]))
            asked.pop("of", None)
            for factor, level in asked.items():
                there = [get(factor).read(each) for each in levels[factor]]
                wanted = [] if level == "all" else level if isinstance(level, list) else [level]
                assert {get(factor).read(each) for each in wanted} <= set(there), (claim, factor)
        assert check.get("growth", "rw") in levels_of(grid, check["experiment"]), claim


@pytest.mark.parametrize("study", STUDIES)
def test_each_file_of_claims_is_accepted(study: str) -> None:
    content = claims.load(ROOT, f"data/published/{study}/claims.yaml", published.load(ROOT / "data/published" / study))
    assert content["claims"] or content["held_out"]
