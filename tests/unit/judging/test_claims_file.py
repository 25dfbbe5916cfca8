"""Read claims.yaml: accept every kind of check, and report mistakes with file and claim."""

import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from claim_checks import RANDOM_TO_SEQUENTIAL, VALUES, executions, parts_of, statuses
from support import ROOT

from iopatterns.base.yaml_schema import ConfigError
from iopatterns.judging.check_statistics import ClaimsError
from iopatterns.judging.claims import CLAIMS_SCHEMA, REPRODUCED, Judge, load_claims

GOOD: dict[str, Any] = {
    "id": "reads-affected",
    "place": "Section 3",
    "quote": "has a significant effect",
    "says": "Random reads are slower",
    "check": {**RANDOM_TO_SEQUENTIAL, "at_most": 0.95},
}
UNTESTED = {key: GOOD[key] for key in ("place", "quote", "says")} | {
    "id": "adjacency",
    "untestable": "It is not shown.",
}
CONTRADICTION = {"id": "of-reads", "between": ["reads-affected", "table1-read"], "contradicted": [], "says": "Both."}
RATIO = {"ratio": {"rw": "randread"}, "to": {"rw": "read"}}


def load(root: Path, *listed: dict[str, Any], **more: Any) -> dict[str, Any]:
    (root / "workflow/schemas").mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / CLAIMS_SCHEMA, root / CLAIMS_SCHEMA)
    (root / "claims.yaml").write_text(yaml.safe_dump({"claims": list(listed), **more}), encoding="utf-8")
    return load_claims(root, "claims.yaml", VALUES)


def with_check(**check: Any) -> dict[str, Any]:
    return GOOD | {"check": {"experiment": "initial", **check}}


def test_the_content_of_the_file_is_returned(tmp_path: Path) -> None:
    content = load(tmp_path, GOOD, UNTESTED, contradictions=[CONTRADICTION])
    assert content == {"claims": [GOOD, UNTESTED], "contradictions": [CONTRADICTION]}


@pytest.mark.parametrize(
    "check",
    [
        {"ratio": {"rw": "randread"}, "to": {"rw": "read"}, "within": 0.1},
        {"ratio": {"rw": "a"}, "to": {"rw": "b"}, "over_ratio": {"rw": "c"}, "over_to": {"rw": "d"}, "at_least": 1},
        {"difference": {"rw": "write"}, "to": {"rw": "randwrite"}, "at_most": "table1-limit"},
        {"mean": {"rw": "read"}, "equals": "table1-read", "tolerance": 0.2},
        {"growth": "bs", "at_least": 1},
        {"growth": "bs", "ratio": {"rw": "randread"}, "to": {"rw": "read"}, "at_least": 1},
        {"column": "iodepth_reached", "at_least": "table1-limit"},
        {"outcome": "DRA", "to": 1, "is": ["refused"]},
        {"mean": {"rw": "read"}, "of": "iops", "at_most": 1},
        {"mean": {"rw": "read", "of": "clat p99.9"}, "at_most": 1},
        {"ratio": {"of": "read iops"}, "to": {"experiment": "other", "of": "iops"}, "at_most": 1},
        {"value": "read / 2", "with": {"read": {"rw": "read", "experiment": "other"}}, "within": 0.1},
        {"value": "read / numjobs", "with": {"read": {}}, "where": {"numjobs": "all"}, "at_most": 1},
        {
            "value": "read * bs",
            "with": {"read": {}},
            "where": {"bs": ["4k", 8192]},
            "equals": "table1-read",
            "tolerance": 1,
        },
        {"growth": "iodepth", "of": "latency", "at_least": 3},
        {"mean": {"skip": "-4k"}, "where": {"thinktime": "1 ms"}, "at_least": 3},
    ],
)
def test_each_kind_of_check_is_accepted(tmp_path: Path, check: dict[str, Any]) -> None:
    assert load(tmp_path, with_check(**check))["claims"][0]["check"] == {"experiment": "initial", **check}


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (GOOD | {"untestable": "It is not shown."}, "give exactly one of 'check', 'checks'"),
        (
            {key: GOOD[key] for key in GOOD if key != "check"},
            "give exactly one of 'check', 'checks'",
        ),
        (with_check(**RATIO, mean={"rw": "read"}, at_most=1), "a check needs exactly one of ratio, .*, and has 2"),
        (
            with_check(**RATIO, growth="bs", column="numjobs", at_most=1),
            "a check needs exactly one of ratio, .*, and has 2",
        ),
        (with_check(at_most=1), "a check needs exactly one of ratio, .*, and has 0"),
        (with_check(**RATIO, at_most=1, at_least=1), "a check needs exactly one of at_most, .*, and has 2"),
        (with_check(**RATIO), "a check needs exactly one of at_most, .*, and has 0"),
        (with_check(ratio={"rw": "read"}, at_most=1), "'to' is required with ratio"),
        (with_check(difference={"rw": "read"}, at_most=1), "'to' is required with ratio"),
        (with_check(outcome="DRA", **{"is": ["refused"]}), "'to' is required with ratio"),
        (with_check(growth="bs", ratio={"rw": "read"}, at_most=1), "'to' is required with ratio"),
        (with_check(mean={"rw": "read"}, to={"rw": "write"}, at_most=1), "not allowed otherwise"),
        (with_check(**RATIO, over_ratio={"rw": "write"}, at_most=1), "'over_ratio' and 'over_to' require each other"),
        (with_check(**RATIO, over_to={"rw": "write"}, at_most=1), "'over_ratio' and 'over_to' require each other"),
        (with_check(**RATIO, at_most="table1-raed"), "no published value has the id 'table1-raed'"),
        (with_check(**RATIO, at_least="table1-raed"), "Did you mean 'table1-read'"),
        (with_check(**RATIO, equals="table1-limits", tolerance=0.1), "Did you mean 'table1-limit'"),
        (with_check(outcome="DRA", to=1, at_most=1), "'outcome' requires 'is'"),
        (with_check(**{"ratio": {"rw": "read"}, "to": {"rw": "write"}, "is": ["refused"]}), "'outcome' requires 'is'"),
        (
            with_check(difference={"rw": "read"}, to={"rw": "write"}, within=0.1),
            "only ratio, growth and value can have it",
        ),
        (with_check(ratio={"rw": "read"}, to=3, at_most=1), "'to' needs one level for each factor"),
        (
            with_check(ratio={"rw": "read"}, to={"rw": ["read", "write"]}, at_most=1),
            "'to' needs one level",
        ),
        (
            with_check(mean={"rw": "a"}, over_ratio={"rw": "c"}, over_to={"rw": "d"}, at_least=1),
            "require each other",
        ),
        (
            with_check(**{"outcome": "DRA", "to": 1, "is": ["ignored"], "where": {"drive": "all"}}),
            "can only name drives",
        ),
        (
            with_check(growth="bs", ratio={"rw": "all"}, to={"rw": "read"}, at_most=1),
            "'ratio' needs one level for each",
        ),
    ],
)
def test_a_wrong_claim_is_named_by_file_and_id(tmp_path: Path, claim: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimsError, match=rf"^claims\.yaml: claim 'reads-affected': .*{message}"):
        load(tmp_path, claim)


@pytest.mark.parametrize(
    ("check", "possible"),
    [
        ({"mean": {"rw": "read"}, "at_least": 0}, "0 MB/s or more"),
        ({**RATIO, "at_least": 0.5, "tolerance": 1}, "0 or more"),
        ({"ratio": {"rw": "read"}, "to": {"rw": "read"}, "at_most": 2}, "1 to 1"),
        ({"ratio": {"rw": "read"}, "to": {"rw": "read"}, "within": 0.1}, "1 to 1"),
        ({"mean": {"rw": "read"}, "of": "miss ratio", "at_most": 1}, "0 to 1"),
        ({"difference": {}, "to": {}, "of": "miss ratio", "at_least": 0}, "0 to 0"),
        ({"growth": "bs", "at_least": 0}, "0 or more"),
        ({"value": "100 / (99 + r / w)", "with": {"r": {}, "w": {"rw": "write"}}, "at_most": 2}, "0 to 1.0101"),
        ({"value": "r / bs", "with": {"r": {}}, "where": {"bs": ["4k"]}, "of": "miss ratio", "at_most": 1}, "0 to"),
        (
            {
                "outcome": "DRA",
                "to": 1,
                "is": ["already so", "changed", "not changeable", "refused", "ignored", "not applicable"],
            },
            "already so, changed",
        ),
    ],
)
def test_a_check_that_cannot_fail_is_refused(tmp_path: Path, check: dict[str, Any], possible: str) -> None:
    message = rf"^claims\.yaml: claim 'reads-affected': the check cannot fail: .*{re.escape(possible)}"
    with pytest.raises(ClaimsError, match=message):
        load(tmp_path, with_check(**check))


@pytest.mark.parametrize(
    "check",
    [
        {"mean": {"rw": "read"}, "at_least": 0.001},
        {"difference": {"rw": "read"}, "to": {"rw": "write"}, "at_least": 0},
        {"mean": {"rw": "read"}, "of": "miss ratio", "at_most": 0.99},
        {"value": "r - w", "with": {"r": {}, "w": {"rw": "write"}}, "at_least": 0},
        {"value": "r / (r - w)", "with": {"r": {}, "w": {"rw": "write"}}, "at_least": 0},
    ],
)
def test_a_check_that_can_fail_is_accepted(tmp_path: Path, check: dict[str, Any]) -> None:
    assert load(tmp_path, with_check(**check))


@pytest.mark.parametrize("listed", [[GOOD, GOOD], [GOOD | {"id": "table1-read"}]], ids=["claims", "claim and value"])
def test_an_id_can_be_used_only_once(tmp_path: Path, listed: list[dict[str, Any]]) -> None:
    with pytest.raises(ClaimsError, match=f"claim '{listed[-1]['id']}': another claim or published value has this id"):
        load(tmp_path, *listed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"between": ["reads-afected"]}, "no claim and no published value has the id 'reads-afected'"),
        ({"between": ["reads-afected"]}, "Did you mean 'reads-affected'"),
        ({"contradicted": ["table1-raed"]}, "Did you mean 'table1-read'"),
        ({"contradicted": ["table1-limit"]}, "table1-limit must also be listed under 'between'"),
    ],
)
def test_a_wrong_contradiction_is_named_by_file_and_id(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ClaimsError, match=rf"^claims\.yaml: contradiction 'of-reads': .*{message}"):
        load(tmp_path, GOOD, contradictions=[CONTRADICTION | change])


@pytest.mark.parametrize(
    ("claim", "message"),
    [
        (GOOD | {"chekk": {}}, "chekk"),
        (with_check(**RATIO, at_mots=1), "at_mots"),
        ({key: GOOD[key] for key in GOOD if key != "quote"}, "quote"),
        (GOOD | {"id": "Reads affected"}, "Reads affected"),
        (with_check(**RATIO, equals=1), "equals"),
        (with_check(**RATIO, within=0), "within"),
        (with_check(**RATIO, at_most=1, tolerance=-0.1), "tolerance"),
    ],
)
def test_a_violation_of_the_schema_is_named(tmp_path: Path, claim: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"claims\.yaml: .*{message}"):
        load(tmp_path, claim)


def test_a_file_without_claims_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"claims\.yaml: claims"):
        load(tmp_path)


def test_a_claim_may_have_several_checks_instead_of_one(tmp_path: Path) -> None:
    several = [{"says": "One", "check": GOOD["check"]}, {"says": "Two", "check": GOOD["check"]}]
    assert load(tmp_path, {key: GOOD[key] for key in GOOD if key != "check"} | {"checks": several})
    with pytest.raises(ClaimsError, match="give exactly one of 'check', 'checks'"):
        load(tmp_path, GOOD | {"checks": several})


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
def test_a_claim_can_be_about_any_setting(tmp_path: Path, setting: str, levels: tuple[Any, Any]) -> None:
    check = {"ratio": {setting: levels[1]}, "to": {setting: levels[0]}, "at_least": 2}
    check = load(tmp_path, with_check(**check))["claims"][0]["check"]
    cells = [([value], {f"set_{setting}": level}) for value, level in zip((10.0, 40.0), levels, strict=True)]
    assert statuses(parts_of(Judge(pd.concat(executions(cell) for cell in cells), []), check)) == [REPRODUCED]


@pytest.mark.parametrize(
    ("check", "message"),
    [
        ({"mean": {"lookahead": 1}, "at_most": 1}, "mean: there is no factor 'lookahead'; did you mean 'look_ahead'?"),
        ({"mean": {}, "where": {"dra": 1}, "at_most": 1}, "where: there is no factor 'dra'; did you mean 'DRA'?"),
        (
            {"mean": {}, "where": {"bss": 1}, "at_most": 1},
            "where: there is no factor 'bss'; did you mean 'bs'?",
        ),
        ({"ratio": {}, "to": {"numjob": 1}, "at_most": 1}, "to: there is no factor 'numjob'; did you mean 'numjobs'?"),
        (
            {"value": "a", "with": {"a": {"iodeph": 1}}, "at_most": 1},
            "with.a: there is no factor 'iodeph'; did you mean 'iodepth'?",
        ),
        ({"growth": "iodepths", "at_most": 1}, "growth: there is no factor 'iodepths'; did you mean 'iodepth'?"),
        ({"outcome": "DAR", "to": 1, "is": ["refused"]}, "outcome: there is no setting 'DAR'; did you mean 'DRA'?"),
        ({"outcome": "bs", "to": 1, "is": ["refused"]}, "outcome: there is no setting 'bs'; valid are RCD, "),
        ({"mean": {"xyzzy": 1}, "at_most": 1}, "mean: there is no factor 'xyzzy'; valid are drive, rw, bs, "),
        (
            {"mean": {}, "of": "bandwidt", "at_most": 1},
            "of: there is no quantity 'bandwidt'; did you mean 'bandwidth'?",
        ),
        ({"mean": {"of": "iosp"}, "at_most": 1}, "of: there is no quantity 'iosp'; did you mean 'iops'?"),
        ({**RATIO, "to": {"of": "xyz"}, "at_most": 1}, "of: there is no quantity 'xyz'; valid are bandwidth"),
        ({"value": "a", "with": {"a": {"of": "clat p"}}, "at_most": 1}, "of: there is no quantity 'clat p'"),
        ({"value": "a +", "with": {"a": {}}, "at_most": 1}, "value: 'a +' is not an arithmetic expression such as"),
        (
            {"value": "a ** 2", "with": {"a": {}}, "at_most": 1},
            "value: 'a ** 2' in 'a ** 2' is not a number, a name or",
        ),
        (
            {"value": "abs(a)", "with": {"a": {}}, "at_most": 1},
            "value: 'abs(a)' in 'abs(a)' is not a number, a name or",
        ),
        (
            {"value": "rread / 2", "with": {"read": {}}, "at_most": 1},
            "value: 'rread' is named neither under 'with' nor under 'where'. Did you mean 'read'?",
        ),
        (
            {"value": "1 / numjobs", "where": {"numjobs": 1}, "at_most": 1},
            "value: the formula uses no mean of measurements",
        ),
        ({"value": "1 + 1", "with": {"a": {}}, "at_most": 1}, "value: the formula uses no mean of measurements"),
        (
            {"value": "a * rw", "with": {"a": {}}, "where": {"rw": "read"}, "at_most": 1},
            "value: the levels of 'rw' are not numbers",
        ),
        (
            {"value": "a * scheduler", "with": {"a": {}}, "where": {"scheduler": "all"}, "at_most": 1},
            "value: the levels of 'scheduler' are not numbers",
        ),
        (
            {**RATIO, "with": {"a": {}}, "at_most": 1},
            "'with' names the means of a 'value'; no other check can have it",
        ),
        ({"value": "a", "with": {"a": {}}, "mean": {}, "at_most": 1}, "a check needs exactly one of ratio, "),
        ({"value": "a", "with": {"a": {"rw": ["read"]}}, "at_most": 1}, "'with.a' needs one level for each factor"),
        ({"value": "a", "with": {"a": {"bs": "all"}}, "at_most": 1}, "'with.a' needs one level for each factor"),
        ({"mean": {"bs": "4q"}, "at_most": 1}, "mean.bs: '4q' is no size"),
        ({"mean": {}, "where": {"offset": ["1k", "2x"]}, "at_most": 1}, "where.offset: '2x' is no size"),
        ({"mean": {}, "where": {"thinktime": "10"}, "at_most": 1}, "where.thinktime: '10' is no duration"),
        ({"value": "a", "with": {"a": {"skip": "--1"}}, "at_most": 1}, "with.a.skip: '-1' is no size"),
        (
            {"mean": {}, "where": {"of": "iops"}, "at_most": 1},
            "'where' selects levels of factors; write 'of' beside 'where'",
        ),
        (
            {"mean": {}, "where": {"experiment": "x"}, "at_most": 1},
            "'where' selects levels of factors; write 'experiment'",
        ),
        (
            {"mean": {}, "of": "iops", "equals": "table1-read", "tolerance": 0.1},
            "'table1-read' was published in 'MB/s', which cannot be converted to 'IOPS'",
        ),
        (
            {"difference": {"of": "latency"}, "to": {"of": "latency"}, "at_most": "table1-limit"},
            "'table1-limit' was published in 'MB/s', which cannot be converted to 'ms'",
        ),
    ],
)
def test_a_wrong_factor_quantity_or_formula_is_named_by_file_and_claim(
    tmp_path: Path, check: dict[str, Any], message: str
) -> None:
    with pytest.raises(ClaimsError) as caught:
        load(tmp_path, with_check(**check))
    assert str(caught.value).startswith(f"claims.yaml: claim 'reads-affected': {message}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("check", [{"mean": {"of": 3}, "at_most": 1}, {"mean": {"experiment": ["a"]}, "at_most": 1}])
def test_a_quantity_or_experiment_that_is_not_text_is_named(tmp_path: Path, check: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"^claims\.yaml: claims\[0\]\.check\.mean\.(of|experiment): "):
        load(tmp_path, with_check(**check))
