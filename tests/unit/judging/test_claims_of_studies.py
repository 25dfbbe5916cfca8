"""Check the claims of each study: they select cells of its grid, and the ones not reproduced have a reason."""

from typing import Any

import pytest
import yaml
from support import ROOT

from iopatterns.analysis import published
from iopatterns.configuration.factors import find_factor
from iopatterns.judging.claims import load_claims

STUDIES = sorted(path.stem for path in (ROOT / "config/studies").glob("*.yaml"))
SELECTIONS = ("where", "ratio", "to", "over_ratio", "over_to", "difference", "mean")


def levels_of(grid: dict[str, Any], experiment: str) -> dict[str, list[Any]]:
    """Return the levels of an experiment by factor, with fixed options and drives."""
    body = grid["experiments"][experiment]
    fixed = {factor: [level] for factor, level in {**grid["fio"], **body.get("fio", {})}.items()}
    varied = {name: grid["levels"][level] if isinstance(level, str) else level for name, level in body["vary"].items()}
    return {**fixed, **varied, "drive": body.get("drives", grid.get("drives"))}


@pytest.mark.parametrize("study", STUDIES)
def test_each_claim_selects_levels_of_the_study_s_grid(study: str) -> None:
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
                there = [find_factor(factor).read(each) for each in levels[factor]]
                wanted = [] if level == "all" else level if isinstance(level, list) else [level]
                assert {find_factor(factor).read(each) for each in wanted} <= set(there), (claim, factor)
        assert check.get("growth", "rw") in levels_of(grid, check["experiment"]), claim


@pytest.mark.parametrize("study", STUDIES)
def test_each_file_of_claims_is_accepted(study: str) -> None:
    values = published.load_values(ROOT / "data/published" / study)
    content = load_claims(ROOT, f"data/published/{study}/claims.yaml", values)
    assert content["claims"] or content["held_out"]


@pytest.mark.parametrize("study", STUDIES)
def test_a_claim_that_is_not_reproduced_has_a_reason(study: str) -> None:
    content = yaml.safe_load((ROOT / f"data/published/{study}/claims.yaml").read_text())
    expected = yaml.safe_load((ROOT / f"data/published/{study}/expectations.yaml").read_text())["expected"]
    contradicted = {name for each in content.get("contradictions", []) for name in each["contradicted"]}
    reasons = {"not reproduced": "deviation", "undecided": "undecided"}
    for claim in content.get("claims", []):
        key = reasons.get(expected.get(claim["id"], ""))
        assert key is None or claim["id"] in contradicted or claim.get(key), claim["id"]
