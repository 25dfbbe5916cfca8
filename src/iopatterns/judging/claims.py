"""Holds what a source states against what was measured: how each claim's check came out, and files that are refused."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from iopatterns.base import yaml_schema
from iopatterns.judging import checks
from iopatterns.judging.checks.criteria import How
from iopatterns.judging.checks.findings import DEVIATES, REPRODUCED, UNDECIDED, WITHIN, ClaimsError, Part
from iopatterns.judging.checks.selections import Executions
from iopatterns.raw.tuning_steps import TuningRecords

SCHEMA = "workflow/schemas/claims.schema.yaml"

CONTRADICTED = "contradicted by the source itself"
UNTESTABLE = "not testable here"
# From best to worst: the status of a claim is that of its worst part
_ORDER = (REPRODUCED, WITHIN, UNDECIDED, DEVIATES)


@dataclass(frozen=True)
class Judge:
    """All that the claims of one study are held against.

    ``executions``: as ``quantities.read_executions`` returns it. ``tuned``: as ``collect.tuned`` returns it.
    """

    executions: pd.DataFrame
    tuned: TuningRecords
    confidence: float = 0.95
    method: str = "t"
    seed: int = 1

    def parts(self, check: checks.Check | checks.Checks) -> list[Part]:
        """Return the parts of a check for which there are measurements.

        Raises ClaimsError where the statistic does not exist, for it divides by a mean of zero.
        """
        return list(check.parts(self.selected, self.tuned, How(self.confidence, self.method, self.seed)))

    @functools.cached_property
    def selected(self) -> Executions:
        """The executions, from which all checks select."""
        return Executions(self.executions)


def status_of(parts: Sequence[Part]) -> str:
    """Return the status of a claim: that of its worst part, or not testable without any."""
    return max((part.status for part in parts), key=_ORDER.index, default=UNTESTABLE)


def kinds(executions: pd.DataFrame) -> dict[str, str]:
    """Return the kind of each drive measured (twin, file …), by name."""
    return dict(zip(executions["drive"], executions["drive_kind"], strict=True))


def load(root: Path, file: str, values: pd.DataFrame) -> dict[str, Any]:
    """Return the content of a file of claims, checked: `checks.parse` takes each check in it.

    A file without claims is one of values that are held out (key ``held_out``). ``values``: as ``published.load``
    returns it. Raises ClaimsError or ConfigError naming file and claim.
    """
    content: dict[str, Any] = yaml_schema.read_yaml(root, file)
    yaml_schema.check(file, content, yaml_schema.read_yaml(root, SCHEMA))
    if "claims" not in content and "held_out" not in content:
        raise ClaimsError(f"{file}: holds no claim. Give claims, or say with held_out that the values are held out.")
    content.setdefault("claims", [])
    known = set(values["id"])
    for name in content.get("held_out", {}).get("misses", ()):
        if name not in known:
            near = yaml_schema.nearest(name, known)
            raise ClaimsError(f"{file}: held_out.misses: no published value has the id '{name}'.{near}")
    for claim in content["claims"]:
        where = f"{file}: claim '{claim['id']}'"
        if claim["id"] in known:
            raise ClaimsError(f"{where}: another claim or published value has this id. Choose another.")
        known.add(claim["id"])
        if len({"check", "checks", "untestable"} & claim.keys()) != 1:
            raise ClaimsError(
                f"{where}: give either a check, or several under checks, or with untestable the reason why there is"
                " none"
            )
        try:
            checks.of_claim(claim, values)
        except ClaimsError as error:
            raise ClaimsError(f"{where}: {error}") from None
    for contradiction in content.get("contradictions", []):
        where = f"{file}: contradiction '{contradiction['id']}'"
        for name in [*contradiction["between"], *contradiction["contradicted"]]:
            if name not in known:
                near = yaml_schema.nearest(name, known)
                raise ClaimsError(f"{where}: no claim and no published value has the id '{name}'.{near}")
        stray = set(contradiction["contradicted"]) - set(contradiction["between"])
        if stray:
            raise ClaimsError(f"{where}: {', '.join(sorted(stray))} must also stand under between")
    return content
