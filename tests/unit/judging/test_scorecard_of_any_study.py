"""Judge a made-up study with several quantities and units, and with zeros."""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support import ROOT

from iopatterns.configuration.sources import PublishedError
from iopatterns.judging import scorecard
from iopatterns.judging.check_statistics import ClaimsError
from iopatterns.judging.claims import NOT_REPRODUCED, REPRODUCED, UNTESTABLE

Scorecard = Mapping[str, Any]


def by_id(entries: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {entry["id"]: entry for entry in entries}


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
                "tolerance": 0.1,
            },
        },
        {
            "id": "latency-of-a-mix",
            "place": "Text",
            "quote": "6400 us",
            "says": "The mix's latency",
            "check": {
                "mean": {"rw": "randrw"},
                "of": "latency",
                "experiment": "e",
                "equals": "mean-latency",
                "tolerance": 0.1,
            },
        },
    ]
}


def own_study(root: Path, claims_: dict[str, Any] = OWN_CLAIMS, values: str = OWN_VALUES) -> Path:
    """Write the files of a study: reads, a mix and writes with zero rate, two repetitions each."""
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
    return scorecard.judge_study(own_study(tmp_path_factory.mktemp("own")), OWN)


@pytest.mark.parametrize(
    ("value", "measured", "error_percent", "status"),
    [
        ("rate", 9000.0, 100 * (9000 / 9450 - 1), REPRODUCED),
        ("latency-us", 3200.0, 0.0, REPRODUCED),
        ("latency-ms", 3.2, 0.0, REPRODUCED),
        ("bandwidth-mib", 35.15625, 0.0, REPRODUCED),
        ("reads-of-mix", 2250.0, 0.0, REPRODUCED),
        ("no-reads", 0.0, None, REPRODUCED),
        ("other-zero", 9000.0, None, NOT_REPRODUCED),
        ("at-another-depth", None, None, UNTESTABLE),
        ("below", 3.2, None, REPRODUCED),
        ("cost", 2.0, 0.0, REPRODUCED),
        ("mean-latency", 6400.0, 0.0, REPRODUCED),
        ("never-checked", None, None, UNTESTABLE),
    ],
)
def test_a_published_value_is_judged_in_its_quantity_and_unit(
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
    root = own_study(tmp_path, one_claim(mean={}, at_least=1), "\n".join([head, *rows, ""]))
    path = root / f"results/measurements/{OWN}.parquet"
    table = pd.read_parquet(path)
    table.insert(0, f"set_{setting}", table["execution"].map({1: levels[0], 2: None}))
    table.to_parquet(path)
    found = by_id(scorecard.judge_study(root, OWN)["values"])
    assert (found["v0"]["measured"], found["v1"]["measured"]) == (9000.0, None)


@pytest.mark.parametrize(
    ("value", "because"),
    [
        ("rate", ""),
        ("cost", "See the claim cost-of-a-mix."),
        ("mean-latency", "See the claim latency-of-a-mix."),
        ("at-another-depth", "Its drive or experiment was not measured."),
        ("never-checked", "It describes the set-up of the source, or drives in general."),
    ],
)
def test_the_reason_names_the_claim_that_measured_a_value(own_card: Scorecard, value: str, because: str) -> None:
    assert by_id(own_card["values"])[value]["because"] == because


@pytest.mark.parametrize(
    ("claim", "found", "expected"),
    [("latency-of-a-mix", "6.400 ms", "= 6.4 ms, tolerance 10 %"), ("cost-of-a-mix", "2.000", "= 2, tolerance 10 %")],
)
def test_a_mean_has_the_unit_of_its_quantity_and_arithmetic_has_none(
    own_card: Scorecard, claim: str, found: str, expected: str
) -> None:
    verdict = by_id(own_card["claims"])[claim]
    assert (verdict["found"], verdict["expected"]) == (found, expected)


def test_a_scorecard_with_zeros_is_valid_json(own_card: Scorecard, tmp_path: Path) -> None:
    scorecard.write_scorecard(tmp_path, {OWN: own_card})
    text = (tmp_path / f"results/{scorecard.SCORECARD_FILE}").read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=pytest.fail)["studies"] == {OWN: own_card}


def one_claim(**check: Any) -> dict[str, Any]:
    return {"claims": [OWN_CLAIMS["claims"][0] | {"check": {"of": "iops", "experiment": "e", **check}}]}


def test_the_error_of_a_missed_zero_is_not_a_number(tmp_path: Path) -> None:
    content = one_claim(mean={"rw": "read"}, equals="no-reads", tolerance=0.1)
    card_ = scorecard.judge_study(own_study(tmp_path, content), OWN)
    scorecard.write_scorecard(tmp_path, {OWN: card_})
    (claim,) = card_["claims"]
    assert (claim["status"], claim["off_percent"]) == (NOT_REPRODUCED, None)
    assert "Infinity" not in (tmp_path / f"results/{scorecard.SCORECARD_FILE}").read_text(encoding="utf-8")


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
        scorecard.judge_study(root, OWN)


def test_a_value_with_an_unknown_quantity_is_named_with_its_file(tmp_path: Path) -> None:
    root = own_study(tmp_path, values=OWN_VALUES.replace("rate,Table 1,iops", "rate,Table 1,iosp"))
    with pytest.raises(PublishedError, match=r"values\.csv, line 2: quantity: .*did you mean 'iops'"):
        scorecard.judge_study(root, OWN)


# ---- Claims on other drives


def judged_on_another_drive(tmp_path: Path, claim: dict[str, Any], named: list[str]) -> list[str]:
    """Return the drives other than the source's on which a claim of a study with drives d and ``named`` is judged."""
    content = {"claims": [OWN_CLAIMS["claims"][0] | claim]}
    root = own_study(tmp_path, content)
    (root / "config/studies").mkdir(parents=True)
    grid = {"drives": ["d", *named], "experiments": {"e": {}}}
    (root / f"config/studies/{OWN}.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    path = root / f"results/measurements/{OWN}.parquet"
    table = pd.read_parquet(path)
    pd.concat([table, table.assign(drive="other")]).to_parquet(path)
    return [verdict["drive"] for verdict in scorecard.judge_study(root, OWN)["claims"] if verdict["drive"]]


READS_OF_D = {"mean": {"rw": "read"}, "of": "iops", "experiment": "e", "where": {"drive": "d"}, "at_least": 9000}


@pytest.mark.parametrize(
    ("claim", "named", "judged"),
    [
        ({"check": READS_OF_D}, [], ["other"]),
        ({"check": READS_OF_D | {"where": {}}}, ["another-of-the-source"], ["other"]),
        ({"check": READS_OF_D}, ["another-of-the-source"], []),  # about d, and not about all drives of the source
        ({"check": READS_OF_D}, ["other"], []),  # a drive of the study is not the reader's
        ({"check": READS_OF_D | {"at_least": "rate"}}, [], []),  # the source's number is of d
        ({"check": READS_OF_D, "general": False}, [], []),
    ],
)
def test_a_claim_about_some_drives_is_judged_on_no_other(
    tmp_path: Path, claim: dict[str, Any], named: list[str], judged: list[str]
) -> None:
    assert judged_on_another_drive(tmp_path, claim, named) == judged


def test_the_parts_of_several_checks_are_counted_one_by_one(tmp_path: Path) -> None:
    check = {key: READS_OF_D[key] for key in ("mean", "of", "experiment")}
    checks = [
        {"says": "Quick", "check": {**check, "mean": {"rw": ["read", "randrw"]}, "at_least": 4400}},
        {"says": "Quicker", "check": {**check, "mean": {"rw": ["read", "randrw"]}, "at_least": 9100}},
    ]
    claim = {key: value for key, value in OWN_CLAIMS["claims"][0].items() if key != "check"} | {"checks": checks}
    (verdict,) = scorecard.judge_study(own_study(tmp_path, {"claims": [claim]}), OWN)["claims"]
    readings = [(each["holding"], each["parts"], each["finding"], each["close"]) for each in verdict["readings"]]
    assert readings == [(2, 2, REPRODUCED, True), (0, 2, NOT_REPRODUCED, False)]
    assert (verdict["chosen"], verdict["close"]) == (True, False)
    assert [part["close"] for part in verdict["parts"]] == [False, True, True, False]
