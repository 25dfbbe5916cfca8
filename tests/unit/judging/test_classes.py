"""Facts about classes: what a model was fitted to or chosen for is never counted as independent of it."""

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
    """Return two executions of each of eight cells on a twin, d, and a file, f."""
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
    """Write a model file with one parameter a keyword, ``g.<keyword>``, and return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    content: dict[str, Any] = {"parameters": {"g": {key: {"chosen_for": ids} for key, ids in chosen.items()}}}
    content["fit"] = {"points": f"data/published/{STUDY}/values.csv", "fitted": dict.fromkeys(fitted, "10")}
    (folder / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    return folder


def classifier(tmp_path: Path, flips: Mapping[str, list[str]] | None = None, **making: Any) -> Classifier:
    """Return the classifier of a study whose twin d was made so."""
    twins = model(tmp_path / "twins", **making)
    found = executions()
    values = evidence.add_evidence_classes(source(tmp_path / "published" / STUDY), twins, STUDY, found)
    listed = [
        ({"id": name}, ClaimChecks.parse({"check": {"experiment": "e", "at_least": 0, **check}}, values))
        for name, check in CHECKS.items()
    ]
    provenance = FitProvenance.load(twins, STUDY)
    return Classifier(provenance, CachedExecutions(found), values, listed=listed, models={"d": "d"}, flips=flips or {})


def of_value(tmp_path: Path, name: str, **making: Any) -> EvidenceClass:
    return classifier(tmp_path, **making).of_value(name, None)


def of_claim(tmp_path: Path, name: str, *, holds: bool = True, **making: Any) -> EvidenceClass:
    return classifier(tmp_path, **making).of_claim(name, holds=holds)


# ---- Values


def test_a_value_that_a_model_was_fitted_to_is_fitted(tmp_path: Path) -> None:
    assert of_value(tmp_path, "read", fitted=("read",)) == EvidenceClass(FITTED, "A twin was fitted to it.")


def test_a_latency_follows_from_the_fitted_rate_of_its_cell(tmp_path: Path) -> None:
    assert of_value(tmp_path, "read-latency", fitted=("read",)) == EvidenceClass(
        FITTED, "It follows from a fitted value."
    )


@pytest.mark.parametrize("name", ["read-p99", "write", "large"])
def test_a_percentile_another_workload_and_another_size_do_not_follow_from_it(tmp_path: Path, name: str) -> None:
    assert of_value(tmp_path, name, fitted=("read",)).name == INDEPENDENT


def test_a_value_that_a_parameter_was_chosen_for_is_built_in_and_says_by_which(tmp_path: Path) -> None:
    found = of_value(tmp_path, "write", time=[f"{STUDY}/write"])
    assert found == EvidenceClass(BUILT_INTO_MODEL, "The parameter g.time of d was chosen for it.")


def test_a_value_of_the_same_cell_is_built_in_with_it(tmp_path: Path) -> None:
    found = of_value(tmp_path, "write-latency", time=[f"{STUDY}/write"])
    assert found == EvidenceClass(
        BUILT_INTO_MODEL, "The parameter g.time of d was chosen for write, from which it follows."
    )


def test_what_was_chosen_for_in_the_model_of_another_drive_says_nothing_of_this_one(tmp_path: Path) -> None:
    model(tmp_path / "twins", "other", time=[f"{STUDY}/write"])
    assert of_value(tmp_path, "write").name == INDEPENDENT


def test_a_value_is_built_in_where_the_drive_s_model_has_another_name_than_the_drive(tmp_path: Path) -> None:
    twins = model(tmp_path / "twins", "other", time=[f"{STUDY}/write"])
    found = executions().replace({"drive_model": {"d": "other"}})
    values = evidence.add_evidence_classes(source(tmp_path / "published" / STUDY), twins, STUDY, found).set_index("id")
    assert values.loc["write", "use"] == BUILT_INTO_MODEL


def test_fitted_goes_before_chosen_for(tmp_path: Path) -> None:
    assert of_value(tmp_path, "read", fitted=("read",), time=[f"{STUDY}/*"]).name == FITTED


def test_a_printed_zero_is_built_in(tmp_path: Path) -> None:
    assert of_value(tmp_path, "none") == EvidenceClass(BUILT_INTO_MODEL, "Nothing of the kind was asked for.")


def test_a_value_that_no_twin_measured_has_no_class(tmp_path: Path) -> None:
    assert of_value(tmp_path, "of-a-file", fitted=("of-a-file",)) == EvidenceClass()


# ---- Claims


def test_a_claim_whose_figures_were_all_fitted_is_fitted(tmp_path: Path) -> None:
    assert of_claim(tmp_path, "write-over-read", fitted=("read", "write")).name == FITTED
    assert of_claim(tmp_path / "2", "read-latency-alone", fitted=("read", "write")).name == FITTED


def test_a_claim_is_independent_where_one_figure_was_not_fitted(tmp_path: Path) -> None:
    assert of_claim(tmp_path, "write-over-read", fitted=("read",)).name == INDEPENDENT


def test_a_claim_that_a_parameter_names_is_built_in_and_says_by_which(tmp_path: Path) -> None:
    found = of_claim(tmp_path, "larger-is-faster", window=[f"{STUDY}/larger-*"])
    assert found == EvidenceClass(BUILT_INTO_MODEL, "The parameter g.window of d was chosen for it.")


def test_a_claim_that_compares_the_same_as_one_that_is_named_is_built_in(tmp_path: Path) -> None:
    found = of_claim(tmp_path, "read-over-write", window=[f"{STUDY}/write-over-read"])
    assert found.name == BUILT_INTO_MODEL
    assert "chosen for write-over-read, which compares the same" in found.because


def test_a_claim_about_fitted_and_chosen_figures_alone_is_built_in(tmp_path: Path) -> None:
    assert of_claim(tmp_path, "write-over-read", fitted=("read",), window=[f"{STUDY}/write"]).name == BUILT_INTO_MODEL


def test_a_claim_that_one_mechanism_off_makes_fall_is_built_in(tmp_path: Path) -> None:
    flips = {"larger-is-faster": ["read-ahead"]}
    found = of_claim(tmp_path, "larger-is-faster", flips=flips)
    assert found == EvidenceClass(BUILT_INTO_MODEL, "Switching off read-ahead alone makes it fall.")


def test_a_claim_that_fails_is_not_excused_by_a_flip(tmp_path: Path) -> None:
    flips = {"larger-is-faster": ["read-ahead"]}
    assert of_claim(tmp_path, "larger-is-faster", holds=False, flips=flips).name == INDEPENDENT


def test_a_claim_about_a_file_has_no_class(tmp_path: Path) -> None:
    assert of_claim(tmp_path, "of-a-file-alone") == EvidenceClass()


# ---- Statements that do not exist


def test_a_statement_that_the_source_does_not_make_is_named_with_the_nearest(tmp_path: Path) -> None:
    twins = model(tmp_path / "twins", window=[f"{STUDY}/larger-is-fastr"])
    source(tmp_path / "published" / STUDY)
    with pytest.raises(EvidenceError) as raised:
        evidence.check_chosen_for(twins, tmp_path / "published", STUDY)
    assert str(raised.value) == (
        "twins/d.yaml: g.window: chosen_for: 'mine/larger-is-fastr': no claim or value of data/published/mine has the"
        " id 'larger-is-fastr'. Did you mean 'larger-is-faster'? Name one that it has, or delete this."
    )


def test_a_misspelt_study_is_named_whatever_study_is_judged(tmp_path: Path) -> None:
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
