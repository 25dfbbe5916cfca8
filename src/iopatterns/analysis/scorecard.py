"""The scorecard: what became of every published number and claim, and whether that is what is expected of the twins."""

import functools
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from iopatterns.analysis import checks, claims, published, quantities
from iopatterns.analysis.checks.findings import (
    DEVIATES,
    REPRODUCED,
    UNDECIDED,
    WITHIN,
    ClaimsError,
    Part,
    error_of,
    of_error,
)
from iopatterns.analysis.checks.selections import of_experiment, select
from iopatterns.analysis.claims import CONTRADICTED, UNTESTABLE
from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError

FILE = "results/scorecard.json"
EXPECTATIONS = "data/expectations"
STATUSES = (REPRODUCED, WITHIN, DEVIATES, UNDECIDED, CONTRADICTED, UNTESTABLE)
_HOLDS = {REPRODUCED, WITHIN}
_SET_UP = "It describes the source's set-up, or what it tells of drives in general."
_NOT_MEASURED = "Its drive or experiment was not measured."


class ScorecardError(IoPatternsError):
    """There is no scorecard, or no expectation to hold it against."""


def judge(root: Path, study: str, *, confidence: float = 0.95, method: str = "t") -> dict[str, Any]:
    """Return what became of the claims and numbers of a study.

    Keys: claims, values, contradictions, counts (by status), errors (of twins, by use), checkable and hold (claims
    about the source's drives), and under own the same of each drive of yours.

    A claim or value has its ``status`` (one of `STATUSES`), and its ``finding``: what it came to regardless of whether
    the source contradicts it. Reads data/published/<study> and results/measurements/<study>.* below ``root``. Raises
    ClaimsError, PublishedError.
    """
    folder = root / "data/published" / study
    executions = quantities.read_executions(root / f"results/measurements/{study}.parquet")
    values = published.with_uses(published.load(folder), root / "data/twins", study, claims.kinds(executions))
    content = claims.load(root, f"data/published/{study}/claims.yaml", values)
    tuned = json.loads((root / f"results/measurements/{study}.tuning.json").read_text(encoding="utf-8"))
    judge_ = claims.Judge(executions, tuned, confidence, method)
    listed = [
        (claim, checks.parse(claim["check"], values) if "check" in claim else None) for claim in content["claims"]
    ]
    of_source = set(published.load_drives(folder)["drive_key"])
    own = [drive for drive in dict.fromkeys(executions["drive"]) if drive not in of_source]
    contradictions = content.get("contradictions", [])
    contradicted = {name for each in contradictions for name in each["contradicted"]}
    try:
        judged = [_claim(judge_, claim, check, contradicted) for claim, check in listed]
        for drive in own:
            there = [(claim, check.on(drive)) for claim, check in listed if check is not None]
            judged += [_claim(judge_, claim, check, contradicted, drive) for claim, check in there if check is not None]
    except ClaimsError as error:
        raise ClaimsError(f"data/published/{study}/claims.yaml: {error}") from None
    numbers = [_value(judge_, row, contradicted, judged) for row in values.to_dict("records")]
    return {
        "claims": judged,
        "values": numbers,
        "contradictions": contradictions,
        "counts": {"claims": _counts(judged), "values": _counts(numbers)},
        "errors": {use: _errors(numbers, use) for use in ("fitted", "predicted")},
        **_verdict(claim for claim in judged if claim["drive"] is None),
        "own": {drive: _verdict(claim for claim in judged if claim["drive"] == drive) for drive in own},
    }


def _verdict(judged: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many claims can be checked and are not contradicted by their source, how many of these hold, and of
    these how many because the twins' models were made so.
    """
    checkable = [claim for claim in judged if claim["status"] in {*_HOLDS, DEVIATES, UNDECIDED}]
    hold = [claim for claim in checkable if claim["status"] in _HOLDS]
    return {"checkable": len(checkable), "hold": len(hold), "assumed": sum(bool(claim["assumed"]) for claim in hold)}


def _counts(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    found = Counter(entry["status"] for entry in entries)
    return {status: found[status] for status in STATUSES}


def _errors(values: Sequence[Mapping[str, Any]], use: str) -> dict[str, Any]:
    """Return how well twins meet the values that they were fitted to, or predict; contradicted ones are left out."""
    rows = [
        value
        for value in values
        if value["use"] == use and value["status"] != CONTRADICTED and value["error_percent"] is not None
    ]
    if not rows:
        return {"values": 0}
    worst = max(rows, key=lambda value: abs(value["error_percent"]))
    return {
        "values": len(rows),
        "mean_absolute_percent": _rounded(sum(abs(value["error_percent"]) for value in rows) / len(rows)),
        "largest_percent": worst["error_percent"],
        "largest_at": ", ".join(filter(None, (worst[key] for key in ("drive", "quantity", "rw", "bs", "conditions")))),
    }


def _claim(
    judge_: claims.Judge,
    claim: Mapping[str, Any],
    check: checks.Check | None,
    contradicted: set[str],
    drive: str | None = None,
) -> dict[str, Any]:
    """Return what became of a claim; ``drive`` is the drive of yours that its check was put to, if any."""
    entry = {key: claim[key] for key in ("id", "place", "quote", "says")} | {"drive": drive}
    if check is None:
        nothing: dict[str, Any] = {
            "status": UNTESTABLE,
            "finding": UNTESTABLE,
            "bounds": [],
            "compared": None,
            "parts": [],
        }
        return {**entry, **nothing, "because": claim["untestable"]}
    try:
        parts = judge_.parts(check)
    except ClaimsError as error:
        raise ClaimsError(f"claim '{claim['id']}': {error}") from None
    finding = claims.status_of(parts)
    worst = max(parts, key=lambda part: part.off, default=None)
    because = _NOT_MEASURED if not parts else claim.get("deviation", "") if finding == DEVIATES and not drive else ""
    return {
        **entry,
        "status": CONTRADICTED if claim["id"] in contradicted and parts else finding,
        "finding": finding,
        "statistic": check.describe(),
        "expected": check.expected(),
        "found": check.found(parts),
        "holding": sum(part.status in _HOLDS for part in parts),
        "worst": None if worst is None or not worst.off else worst.label,
        "off_percent": 100 * worst.off if worst and math.isfinite(worst.off) else None,
        "bounds": check.published_ids(),
        "compared": _rounded(check.compared(parts)),
        "because": because,
        "assumed": "" if drive else claim.get("assumed", ""),
        "parts": [_plain(part) for part in parts],
    }


def _plain(part: Part) -> dict[str, Any]:
    numbers = {"value": part.value, "low": part.low, "high": part.high}
    shown = {name: _rounded(value) for name, value in numbers.items()}
    return {"label": part.label, **shown, "status": part.status, "off_percent": _rounded(100 * part.off)}


def _rounded(value: float | str | None) -> float | str | None:
    """Return a number as the scorecard has it: twelve digits, as all results, and None for what is not finite."""
    if value is None or isinstance(value, str):
        return value
    return float(f"{value:.12g}") if math.isfinite(value) else None


def _value(
    judge_: claims.Judge,
    row: Mapping[Any, Any],
    contradicted: set[str],
    judged: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    keys = ("id", "place", "quantity", "drive", "rw", "bs", "conditions", "relation", "printed", "unit", "quote")
    entry = {key: row[key] for key in keys}
    measured = _measured(judge_, row)
    through = None if measured is not None else next((claim for claim in judged if _is_bound(claim, row)), None)
    because = ""
    if measured is None and through and through["compared"] is not None:
        measured = through["compared"]
        because = f"See the claim {through['id']}."
    if measured is None:
        finding = through["finding"] if through else UNTESTABLE
        because = f"See the claim {through['id']}." if through else _NOT_MEASURED if row["experiment"] else _SET_UP
        numbers: dict[str, Any] = {"measured": None, "error_percent": None, "use": ""}
    else:
        error = error_of(measured, row["value"])
        on_the_right_side = {"<": error < 0, "<=": error <= 0, ">": error > 0, ">=": error >= 0}.get(row["relation"])
        finding = REPRODUCED if on_the_right_side else of_error(error)
        shown = _rounded(100 * error) if math.isfinite(error) else None
        numbers = {"measured": _rounded(measured), "error_percent": shown, "use": row["use"]}
    status = CONTRADICTED if row["id"] in contradicted and finding != UNTESTABLE else finding
    return {**entry, **numbers, "finding": finding, "status": status, "because": because}


def _is_bound(claim: Mapping[str, Any], row: Mapping[Any, Any]) -> bool:
    """Return whether a value is what a claim about the source's drives is held against."""
    return claim["drive"] is None and row["id"] in claim["bounds"]


def _measured(judge_: claims.Judge, row: Mapping[Any, Any]) -> float | None:
    """Return the mean, in the unit printed, where a published value was measured; None where it was not."""
    if not row["experiment"]:
        return None
    measure = quantities.get(row["quantity"])
    levels = {"drive": row["drive_key"], "rw": row["rw"], "bs": row["bs"], **published.conditions(row["conditions"])}
    rows = select(of_experiment(judge_.executions, row["experiment"]), levels)
    values = rows.get(measure.column, pd.Series(dtype="float64")).dropna()
    return float(values.mean()) / (measure.from_unit(row["unit"]) or 1.0) if len(values) else None


def write(root: Path, studies: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the scorecard of all studies to results/scorecard.json."""
    files.write_json(root / FILE, {"studies": studies})


def load(root: Path) -> dict[str, Any]:
    """Return the scorecard below ``root``. Raises ScorecardError where there is none."""
    try:
        content: dict[str, Any] = json.loads((root / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ScorecardError(f"{FILE}: there is none yet. Run `snakemake --cores 1`.") from None
    return content


def _entries(study: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the claims and values about the source's own drives; of your own drive nothing is expected."""
    yield from (claim for claim in study["claims"] if claim["drive"] is None)
    yield from study["values"]


def expect(root: Path) -> list[Path]:
    """Make what the present scorecard says what is expected from now on; return the files written."""
    written = []
    for name, study in load(root)["studies"].items():
        path = root / EXPECTATIONS / f"{name}.yaml"
        found = {entry["id"]: entry["finding"] for entry in _entries(study) if entry["finding"] != UNTESTABLE}
        head = (
            "# What a run on the twins finds of each claim and number: `snakemake scorecard` holds a run against it.\n"
        )
        text = head + yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
        files.write(path, functools.partial(_fill, text))
        written.append(path)
    return written


def _fill(text: str, temporary: Path) -> None:
    temporary.write_text(text, encoding="utf-8")


def regressions(root: Path) -> list[str]:
    """Return a line for each claim or number that is expected to hold and no longer does.

    What was not measured is passed over: a run of fewer drives shows nothing about the others. Raises ScorecardError.
    """
    lines = []
    for name, study in load(root)["studies"].items():
        path = root / EXPECTATIONS / f"{name}.yaml"
        if not path.exists():
            raise ScorecardError(f"{path.relative_to(root)}: not there. `iopatterns scorecard --expect` writes it.")
        wanted = yaml_schema.read_yaml(root, f"{EXPECTATIONS}/{name}.yaml")
        if not isinstance(wanted, dict):
            raise ScorecardError(f"{path.relative_to(root)}: holds no expectations. Restore it, or write it anew.")
        for entry in _entries(study):
            before, now = wanted.get(entry["id"]), entry["finding"]
            if before in _HOLDS and now not in {*_HOLDS, UNTESTABLE}:
                lines.append(
                    f"{name}: {entry['id']} ({entry['place']}): was {before}, now {now}. {_amount(entry)}".strip()
                )
    return lines


def _amount(entry: Mapping[str, Any]) -> str:
    if "error_percent" in entry:
        measured = "no measurement of its own" if entry["measured"] is None else f"measured {entry['measured']:.4g}"
        return " ".join((f"Published {entry['printed']} {entry['unit']}, {measured}.", entry["because"])).strip()
    return f"Expected {entry['expected']}, found {entry['found']}."


def overview(root: Path) -> str:
    """Return the scorecard as a few lines for a terminal."""
    lines = []
    for name, study in load(root)["studies"].items():
        for kind in ("claims", "values"):
            counts = [f"{count} {status}" for status, count in study["counts"][kind].items() if count]
            lines.append(f"{name}, {len(study[kind])} {kind}: {', '.join(counts)}")
        made_so = f", {study['assumed']} of them because the twins' models were made so" if study["assumed"] else ""
        lines.append(f"{name}: {study['hold']} of {study['checkable']} checkable claims hold{made_so}")
        for drive, own in study["own"].items():
            lines.append(f"{name}, on {drive}: {own['hold']} of {own['checkable']} checkable claims hold")
        for claim in study["claims"]:
            if claim["status"] in {DEVIATES, UNDECIDED}:
                on = f" on {claim['drive']}" if claim["drive"] else ""
                lines.append(f"  {claim['status']}{on}: {claim['id']} ({claim['place']}). {claim['says']}:")
                lines.append(f"    expected {claim['expected']}, found {claim['found']}, worst at {claim['worst']}")
    return "\n".join(lines)
