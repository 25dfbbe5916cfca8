"""Class claims and values: no statement that a model was made from counts as independent of the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from support import ROOT

from iopatterns.analysis import published
from iopatterns.judging import evidence
from iopatterns.judging.check_statistics import CachedExecutions
from iopatterns.judging.claims import ClaimChecks
from iopatterns.judging.evidence import (
    BUILT_INTO_MODEL,
    FITTED,
    INDEPENDENT,
    Classifier,
    EvidenceClass,
    EvidenceError,
    FitProvenance,
)

STUDY = "mine"
INDEPENDENT_VALUE = "No model was fitted to this value, and no parameter chosen for it."
VALUES = (
    ("read", "bandwidth", "MB/s", "d", "read", "4k", "10"),
    ("read-latency", "latency", "ms", "d", "read", "4k", "10"),
    ("read-p99", "clat p99", "ms", "d", "read", "4k", "10"),
    ("write", "bandwidth", "MB/s", "d", "write", "4k", "10"),
    ("write-latency", "latency", "ms", "d", "write", "4k", "10"),
    ("large", "bandwidth", "MB/s", "d", "read", "8k", "10"),
    ("none", "write iops", "IOPS", "d", "write", "8k", "0"),
    ("of-a-file", "bandwidth", "MB/s", "f", "read", "4k", "10"),
)
CHECKS: dict[str, dict[str, Any]] = {
    "write-over-read": {"ratio": {"rw": "write"}, "to": {"rw": "read"}, "where": {"drive": "d", "bs": "4k"}},
    "read-over-write": {"ratio": {"rw": "read"}, "to": {"rw": "write"}, "where": {"drive": "d", "bs": "4k"}},
    "read-latency-alone": {"mean": {"rw": "read"}, "of": "latency", "where": {"drive": "d", "bs": "4k"}},
    "larger-is-faster": {"growth": "bs", "where": {"drive": "d", "rw": "read"}},
    "of-a-file-alone": {"mean": {"rw": "read"}, "where": {"drive": "f"}},
}


def source(folder: Path) -> pd.DataFrame:
    """Return the published values of the study, whose files are written to ``folder``."""
    folder.mkdir(parents=True)
    names = ("id", "place", "quantity", "drive", "drive_key", "rw", "bs", "experiment", "conditions", "relation")
    lines = [",".join((*names, "value", "unit", "quote"))]
    for name, quantity, unit, drive, rw, bs, value in VALUES:
        lines.append(",".join((name, "T", quantity, drive, drive, rw, bs, "e", "", "=", value, unit, value)))
    (folder / "values.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "claims.yaml").write_text(yaml.safe_dump({"claims": [{"id": name} for name in CHECKS]}), encoding="utf-8")
    return published.load_values(folder)


def executions() -> pd.DataFrame:
    """Return two repetitions of each of eight cells on a twin (simulated drive) d and a file f."""
    cells = [(drive, rw, size) for drive in "df" for rw in ("read", "write") for size in (4096, 8192)]
    rows = [
        {"drive": drive, "cell": f"{rw}-{size}", "execution": number}
        | ({"drive_kind": "twin", "drive_model": "d"} if drive == "d" else {"drive_kind": "file", "drive_model": ""})
        | {"experiments": "e", "rw": rw, "bs_bytes": size, "bandwidth_bytes_per_s": 1e7, "bandwidth_mb_per_s": 10.0}
        | {"iops": 1.0, "write_iops": 0.0, "latency_ms": 1.0, "outstanding": 1.0, "clat_p99_ms": 2.0}
        for drive, rw, size in cells
        for number in (1, 2)
    ]
    return pd.DataFrame(rows)


def model(folder: Path, name: str = "d", *, fitted: tuple[str, ...] = (), **chosen: list[str]) -> Path:
    """Write a model file with a parameter ``g.<keyword>`` for each keyword; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"parameters": {"g": {key: {"chosen_for": ids} for key, ids in chosen.items()}}}
    content["fit"] = {"points": f"data/published/{STUDY}/values.csv", "fitted": dict.fromkeys(fitted, "10")}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def classifier(
    tmp_path: Path,
    flips: Mapping[str, list[str]] | None = None,
    table: pd.DataFrame | None = None,
    study: str = STUDY,
    **making: Any,
) -> Classifier:
    """Return the classifier of a study with a model d, made as the keywords of `model` state."""
    twins = model(tmp_path / "data/twins", **making)
    values = source(tmp_path / "data/published" / STUDY)
    parsed = {
        name: ClaimChecks.parse({"check": {"experiment": "e", "at_least": 0, **check}}, values)
        for name, check in CHECKS.items()
    }
    checks = {name: check for name, check in parsed.items() if check}
    provenance = FitProvenance.load(twins, study)
    found = executions() if table is None else table
    return Classifier(provenance, CachedExecutions(found), values, checks, flips or {})


def of_value(tmp_path: Path, name: str, **making: Any) -> EvidenceClass:
    return classifier(tmp_path, **making).class_of_value(name)


def of_claim(tmp_path: Path, name: str, *, reproduced: bool = True, **making: Any) -> EvidenceClass:
    return classifier(tmp_path, **making).class_of_claim(name, reproduced=reproduced)


# ---- Values


@pytest.mark.parametrize(
    ("name", "making", "class_", "because"),
    [
        ("read", {"fitted": ("read",)}, FITTED, "A model was fitted to this value."),
        ("read", {"fitted": ("read",), "time": [f"{STUDY}/*"]}, FITTED, "A model was fitted to this value."),
        ("read-latency", {"fitted": ("read",)}, FITTED, "It follows from a fitted value."),
        (
            "write",
            {"time": [f"{STUDY}/write"]},
            BUILT_INTO_MODEL,
            "The parameter g.time of d was chosen for this value.",
        ),
        (
            "write-latency",
            {"time": [f"{STUDY}/write"]},
            BUILT_INTO_MODEL,
            "The parameter g.time of d was chosen for write, from which it follows.",
        ),
        ("none", {}, BUILT_INTO_MODEL, "No request of this kind was made."),
        ("read-p99", {"fitted": ("read",)}, INDEPENDENT, INDEPENDENT_VALUE),
        ("write", {"fitted": ("read",)}, INDEPENDENT, INDEPENDENT_VALUE),
        ("large", {"fitted": ("read",)}, INDEPENDENT, INDEPENDENT_VALUE),
        ("of-a-file", {"fitted": ("of-a-file",)}, "", ""),
    ],
)
def test_a_value_has_a_class_and_a_reason(
    tmp_path: Path, name: str, making: dict[str, Any], class_: str, because: str
) -> None:
    assert of_value(tmp_path, name, **making) == EvidenceClass(class_, because)


def test_the_model_of_another_drive_does_not_affect_a_value(tmp_path: Path) -> None:
    model(tmp_path / "twins", "other", time=[f"{STUDY}/write"])
    assert of_value(tmp_path, "write").name == INDEPENDENT


def test_the_model_of_a_drive_may_have_another_name_than_the_drive(tmp_path: Path) -> None:
    twins = model(tmp_path / "twins", "other", time=[f"{STUDY}/write"])
    found = executions().replace({"drive_model": {"d": "other"}})
    published_values = source(tmp_path / "published" / STUDY)
    values = evidence.add_evidence_classes(published_values, twins, STUDY, found).set_index("id")
    assert values.loc["write", "use"] == BUILT_INTO_MODEL
    assert values.loc["of-a-file", "use"] == ""


# ---- Claims


@pytest.mark.parametrize(
    ("name", "making", "class_", "because"),
    [
        ("write-over-read", {"fitted": ("read", "write")}, FITTED, "every number that the claim compares"),
        ("read-latency-alone", {"fitted": ("read", "write")}, FITTED, "every number that the claim compares"),
        ("write-over-read", {"fitted": ("read",)}, INDEPENDENT, "No parameter was chosen for this claim"),
        (
            "larger-is-faster",
            {"window": [f"{STUDY}/larger-*"]},
            BUILT_INTO_MODEL,
            "The parameter g.window of d was chosen for this claim.",
        ),
        (
            "read-over-write",
            {"window": [f"{STUDY}/write-over-read"]},
            BUILT_INTO_MODEL,
            "chosen for write-over-read, which compares the same numbers",
        ),
        (
            "write-over-read",
            {"fitted": ("read",), "window": [f"{STUDY}/write"]},
            BUILT_INTO_MODEL,
            "compares only numbers that models were fitted to, or made with in view",
        ),
        (
            "larger-is-faster",
            {"flips": {"larger-is-faster": ["read-ahead"]}},
            BUILT_INTO_MODEL,
            "Without read-ahead, the claim is not reproduced.",
        ),
        (
            "larger-is-faster",
            {"flips": {"larger-is-faster": ["read-ahead"]}, "reproduced": False},
            INDEPENDENT,
            "No parameter was chosen for this claim",
        ),
        ("of-a-file-alone", {}, "", ""),
    ],
)
def test_a_claim_has_a_class_and_a_reason(
    tmp_path: Path, name: str, making: dict[str, Any], class_: str, because: str
) -> None:
    found = of_claim(tmp_path, name, **making)
    assert found.name == class_
    assert because in found.because


# ---- The same figure


READ_AGAIN = {"cell": "again", "experiments": "e", "ramp_time": 1000, "size": 4096 * 8}


def with_copies(**changes: Any) -> pd.DataFrame:
    """Return the repetitions in which the reads of 4 KiB on drive d were also measured with changed columns."""
    levels: dict[str, Any] = {"ramp_time": None, "size": None, "offset": None, "drive_set": "{}", "iodepth": 64}
    table: pd.DataFrame = executions().assign(ioengine="sync", **levels)
    reads = table[(table["drive"] == "d") & (table["cell"] == "read-4096")]
    copied: dict[str, Any] = {**READ_AGAIN, **changes}
    others: pd.DataFrame = table[table["cell"] != "read-4096"]
    return pd.concat([others, reads.assign(**copied)])


@pytest.mark.parametrize(
    ("changes", "class_"),
    [
        ({}, FITTED),  # measured for another time, on another part of the drive
        ({"drive": "e"}, FITTED),  # a drive with the same parameters
        ({"drive": "e", "drive_set": '{"capacity.size":"4 GiB"}'}, FITTED),
        ({"iodepth": 8}, FITTED),  # a synchronous engine has one outstanding request
        ({"drive": "e", "drive_set": '{"ftl.initial_state":"random"}'}, INDEPENDENT),
        ({"ioengine": "libaio", "iodepth": 8}, INDEPENDENT),
        ({"offset": 512}, INDEPENDENT),
        ({"bs_bytes": 512}, INDEPENDENT),
        ({"duration_s": 1.0}, INDEPENDENT),  # the replay of a trace
    ],
)
def test_a_figure_is_identified_by_the_parameters_of_the_drive_and_by_the_workload(
    tmp_path: Path, changes: dict[str, Any], class_: str
) -> None:
    table = pd.concat([executions().assign(drive_set="{}"), with_copies(**changes).query("cell == 'again'")])
    check = ClaimChecks.parse(
        {"check": {"mean": {}, "of": "iops", "experiment": "again", "at_least": 1}}, pd.DataFrame({"id": []})
    )
    assert check is not None
    values = source(tmp_path / "data/published" / STUDY)
    provenance = FitProvenance.load(model(tmp_path / "data/twins", fitted=("read",)), STUDY)
    table["experiments"] = ["again" if cell == "again" else "e" for cell in table["cell"]]
    classes = Classifier(provenance, CachedExecutions(table), values, {"again": check})
    assert classes.class_of_claim("again", reproduced=True).name == class_


@pytest.mark.parametrize(("making", "class_"), [({"fitted": ("read",)}, FITTED), ({"time": ["mine/read"]}, "built")])
def test_a_copy_of_a_number_in_another_study_is_no_independent_evidence(
    tmp_path: Path, making: dict[str, Any], class_: str
) -> None:
    found = classifier(tmp_path, study="copy", table=with_copies(), **making)
    assert found.class_of_value("read").name.startswith(class_)
    assert found.class_of_value("read-latency").name.startswith(class_)
    assert found.class_of_claim("read-latency-alone", reproduced=True).name.startswith(class_)
    assert found.class_of_value("write").name == INDEPENDENT
    assert found.class_of_value("read-p99").name == INDEPENDENT


def test_the_file_of_the_other_study_says_what_its_values_leave_out(tmp_path: Path) -> None:
    (tmp_path / "config/studies").mkdir(parents=True)
    grid = {"fio": {"ioengine": "libaio"}, "experiments": {"e": {"fio": {"iodepth": 8}}}}
    (tmp_path / "config/studies/mine.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    making: dict[str, Any] = {"study": "copy", "fitted": ("read",)}
    found = classifier(tmp_path / "1", table=with_copies(), **making)
    assert found.class_of_value("read").name == FITTED
    (tmp_path / "2").mkdir()
    (tmp_path / "config").rename(tmp_path / "2/config")
    assert classifier(tmp_path / "2", table=with_copies(), **making).class_of_value("read").name == INDEPENDENT


def test_what_an_assumption_was_inferred_from_is_built_in(tmp_path: Path) -> None:
    (tmp_path / "config/studies").mkdir(parents=True)
    grid = {"mechanisms": {"a full disk": {"says": "It is full", "traces": {}, "chosen_for": ["write", "larger-*"]}}}
    (tmp_path / f"config/studies/{STUDY}.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    found = classifier(tmp_path)
    reason = 'The assumption "a full disk" was chosen for this value.'
    assert found.class_of_value("write") == EvidenceClass(BUILT_INTO_MODEL, reason)
    assert found.class_of_claim("larger-is-faster", reproduced=True).name == BUILT_INTO_MODEL
    assert found.class_of_value("read").name == INDEPENDENT
    evidence.check_chosen_for(tmp_path / "data/twins", tmp_path / "data/published", STUDY)
    grid["mechanisms"]["a full disk"]["chosen_for"] = ["writ"]
    (tmp_path / f"config/studies/{STUDY}.yaml").write_text(yaml.safe_dump(grid), encoding="utf-8")
    with pytest.raises(EvidenceError, match=r"mine\.yaml: mechanisms.a full disk: chosen_for: 'mine/writ': .*'write'"):
        evidence.check_chosen_for(tmp_path / "data/twins", tmp_path / "data/published", STUDY)


# ---- Statements that do not exist


def test_an_unknown_statement_is_refused_with_the_most_similar_one(tmp_path: Path) -> None:
    twins = model(tmp_path / "twins", window=[f"{STUDY}/larger-is-fastr"])
    source(tmp_path / "published" / STUDY)
    with pytest.raises(EvidenceError) as raised:
        evidence.check_chosen_for(twins, tmp_path / "published", STUDY)
    assert str(raised.value) == (
        "twins/d.yaml: g.window: chosen_for: 'mine/larger-is-fastr': no claim or value of data/published/mine has the"
        " id 'larger-is-fastr'. Did you mean 'larger-is-faster'? Give an id of the study, or delete this entry."
    )


def test_a_misspelt_study_is_refused_whichever_study_is_judged(tmp_path: Path) -> None:
    twins = model(tmp_path / "twins", window=["mien/read"])
    source(tmp_path / "published" / STUDY)
    with pytest.raises(EvidenceError, match=r"there is no study 'mien' in data/published\. Did you mean 'mine'\?"):
        evidence.check_chosen_for(twins, tmp_path / "published", STUDY)


def test_a_model_may_name_a_study_that_the_project_does_not_have(tmp_path: Path) -> None:
    twins = model(tmp_path / "twins", window=["removed/read"])
    source(tmp_path / "published" / STUDY)
    evidence.check_chosen_for(twins, tmp_path / "published", STUDY)


@pytest.mark.parametrize("study", sorted(path.parent.name for path in (ROOT / "data/published").glob("*/values.csv")))
def test_the_models_name_statements_that_the_sources_make(study: str) -> None:
    evidence.check_chosen_for(ROOT / "data/twins", ROOT / "data/published", study)
