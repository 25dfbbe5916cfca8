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

from iopatterns.analysis import published, quantities
from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import default, kinds
from iopatterns.judging import checks, claims, classes
from iopatterns.judging.checks.findings import (
    DEVIATES,
    REPRODUCED,
    TOLERANCE,
    UNDECIDED,
    WITHIN,
    ClaimsError,
    Part,
    error_of,
    of_error,
)
from iopatterns.judging.claims import CONTRADICTED, UNTESTABLE
from iopatterns.judging.classes import CLASSES, Class, Classifier, Making
from iopatterns.judging.scorecard_types import (
    Errors,
    Judged,
    JudgedClaim,
    JudgedPart,
    JudgedValue,
    Number,
    Printed,
    Reading,
    Verdict,
)
from iopatterns.raw import tuning_steps

FILE = "results/scorecard.json"
EXPECTATIONS = "data/expectations"
STATUSES = (REPRODUCED, WITHIN, DEVIATES, UNDECIDED, CONTRADICTED, UNTESTABLE)
_HOLDS = {REPRODUCED, WITHIN}
# Under which key a claim says why it came out as it did on the twins
_REASONS = {DEVIATES: "deviation", UNDECIDED: "undecided"}
# What arithmetic leaves of a difference between equal numbers
_EQUAL = 1e-9
_SET_UP = "It describes the source's set-up, or what it tells of drives in general."
_NOT_MEASURED = "Its drive or experiment was not measured."
_NOT_COUNTED = "It is about what goes on in the drive, which twins count and real drives do not tell."


class ScorecardError(IoPatternsError):
    """There is no scorecard, or no expectation to hold it against."""


def judge(
    root: Path,
    study: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    models: Mapping[str, str] | None = None,
    ablation: Mapping[str, Any] | None = None,
) -> Judged:
    """Return what became of the claims and numbers of a study.

    Keys: claims, values, contradictions, counts (by status), held_out, tolerance (of values), checkable and hold
    (claims about the source's drives), by_class (of these claims how many are checkable and hold, and how far values
    are off; by class), and under own the first two of each drive of yours on which a claim can be checked.

    A claim or value has its ``status`` (one of `STATUSES`), and its ``finding``: what it came to regardless of whether
    the source contradicts it; and its ``class``, see `classes`. ``models`` has the name of each twin's model by that of
    the drive, where they differ; ``ablation`` (in the scorecard under the same name) has the mechanisms that were
    switched off, and by claim the names of those that change its outcome (flips). Those that another trace switches
    off, of a real kernel and its file system, make no claim built in, unless they were assumed.
    Reads data/published/<study>, data/twins and results/measurements/<study>.* below ``root``.
    Raises ClaimsError, PublishedError, ClassesError.
    """
    folder, twins = root / "data/published" / study, root / "data/twins"
    executions = quantities.read_executions(root / f"results/measurements/{study}.parquet")
    classes.check_statements(twins, folder.parent, study)
    drive_kinds = claims.kinds(executions)
    values = classes.with_uses(published.load(folder), twins, study, executions)
    content = claims.load(root, f"data/published/{study}/claims.yaml", values)
    tuned = tuning_steps.read_records(root / f"results/measurements/{study}.tuning.json")
    judge_ = claims.Judge(executions, tuned, confidence, method)
    listed = [(claim, checks.of_claim(claim, values)) for claim in content["claims"]]
    simulated = [drive for drive, kind in drive_kinds.items() if kind in kinds.SIMULATED]
    of_twin = {drive: (models or {}).get(drive, drive) for drive in simulated}
    making = Making.load(twins, study)
    flips = _of_models(ablation or {})
    classifier = Classifier(making, judge_.selected, values, listed=listed, models=of_twin, flips=flips)
    # a drive that a claim names beside the source's is none of yours
    of_source = set(published.load_drives(folder)["drive_key"]).union(*(check.drives for _, check in listed if check))
    own = [drive for drive in dict.fromkeys(executions["drive"]) if listed and drive not in of_source]
    held_out = content.get("held_out")
    contradictions = content.get("contradictions", [])
    contradicted = {name for each in contradictions for name in each["contradicted"]}
    try:
        judged = [_claim(judge_, claim, check, contradicted, classifier=classifier) for claim, check in listed]
        for drive in own:
            there = [(claim, check.on(drive)) for claim, check in listed if check is not None]
            on_it = [
                _claim(judge_, claim, check, contradicted, classifier=classifier, drive=drive)
                for claim, check in there
                if check is not None
            ]
            # a twin that an experiment beyond the source alone measures is asked nothing
            judged += on_it if _verdict(on_it)["checkable"] else []
    except ClaimsError as error:
        raise ClaimsError(f"data/published/{study}/claims.yaml: {error}") from None
    numbers = [
        _value(judge_, row, contradicted, judged, held_out=held_out, classifier=classifier)
        for row in values.to_dict("records")
    ]
    of_source_claims = [claim for claim in judged if claim["drive"] is None]
    return {
        "claims": judged,
        "values": numbers,
        "contradictions": contradictions,
        "counts": {"claims": _counts(judged), "values": _counts(numbers)},
        "held_out": bool(held_out),
        "tolerance": held_out["tolerance"] if held_out else TOLERANCE,
        "checkable": (whole := _verdict(of_source_claims))["checkable"],
        "hold": whole["hold"],
        "by_class": {
            "claims": {
                name: _verdict(claim for claim in of_source_claims if claim["class"] == name) for name in CLASSES
            },
            "values": _errors_by_class(numbers, classifier),
        },
        "ablation": dict(ablation or {}),
        "own": {
            drive: _verdict(claim for claim in judged if claim["drive"] == drive)
            for drive in own
            if any(claim["drive"] == drive for claim in judged)
        },
    }


def _of_models(ablation: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the flips by what was fitted or assumed: neither a real kernel was, nor what a source fixes."""
    real = {each["name"] for each in ablation.get("mechanisms", ()) if each.get("by") in {"traces", "source"}}
    flips = ablation.get("flips", {})
    return {claim: [name for name in names if name not in real] for claim, names in flips.items()}


def _verdict(judged: Iterable[JudgedClaim]) -> Verdict:
    """Return how many claims can be checked and are not contradicted by their source, and how many of these hold."""
    checkable = [claim for claim in judged if claim["status"] in {*_HOLDS, DEVIATES, UNDECIDED}]
    return {"checkable": len(checkable), "hold": sum(claim["status"] in _HOLDS for claim in checkable)}


def _counts(entries: Sequence[JudgedClaim] | Sequence[JudgedValue]) -> dict[str, int]:
    found = Counter(entry["status"] for entry in entries)
    return {status: found[status] for status in STATUSES}


def _errors_by_class(values: Sequence[JudgedValue], classifier: Classifier) -> dict[str, Errors]:
    """Return how far values are off, by class; contradicted ones and printed zeros, which prove nothing, are left out.

    Of values that tell the same figure, the one that is furthest off counts alone.
    """
    worst: dict[Any, tuple[float, JudgedValue]] = {}
    for value in values:
        error = value["error_percent"]
        if not value["class"] or value["status"] == CONTRADICTED or error is None or float(value["printed"]) == 0:
            continue
        figures = classifier.figures_of_value(value["id"]) or classifier.figures_of_claim(value["measured_by"])
        before = worst.get(figures or value["id"])
        if before is None or abs(error) > abs(before[0]):
            worst[figures or value["id"]] = error, value
    return {name: _errors([each for each in worst.values() if each[1]["class"] == name]) for name in CLASSES}


def _errors(values: Sequence[tuple[float, JudgedValue]]) -> Errors:
    """Return the mean of the absolute errors of some values, given with these, and the largest error."""
    if not values:
        return {"values": 0}
    largest, worst = max(values, key=lambda each: abs(each[0]))
    place = (worst["drive"], worst["quantity"], worst["rw"], worst["bs"], worst["conditions"])
    return {
        "values": len(values),
        "mean_absolute_percent": _rounded(sum(abs(error) for error, _ in values) / len(values)),
        "largest_percent": largest,
        "largest_at": ", ".join(filter(None, place)),
    }


def _claim(
    judge_: claims.Judge,
    claim: Mapping[str, Any],
    check: checks.Check | checks.Checks | None,
    contradicted: set[str],
    *,
    classifier: Classifier,
    drive: str | None = None,
) -> JudgedClaim:
    """Return what became of a claim; ``drive`` is the drive of yours that its check was put to, if any."""
    if check is None:
        return {
            "id": claim["id"],
            "place": claim["place"],
            "quote": claim["quote"],
            "says": claim["says"],
            "drive": drive,
            "status": UNTESTABLE,
            "finding": UNTESTABLE,
            "because": claim["untestable"],
            "bounds": [],
            "compared": None,
            "parts": [],
            "class": "",
            "class_because": "",
        }
    try:
        parts = judge_.parts(check)
    except ClaimsError as error:
        raise ClaimsError(f"claim '{claim['id']}': {error}") from None
    finding = claims.status_of(parts)
    worst = max(parts, key=lambda part: part.off, default=None)
    status = CONTRADICTED if claim["id"] in contradicted and parts else finding
    class_ = classifier.of_claim(claim["id"], holds=finding in _HOLDS, drive=drive) if parts else Class()
    not_there = _NOT_COUNTED if drive and check.is_of_counters else _NOT_MEASURED
    because = not_there if not parts else "" if drive else claim.get(_REASONS.get(finding, ""), "")
    return {
        "id": claim["id"],
        "place": claim["place"],
        "quote": claim["quote"],
        "says": claim["says"],
        "drive": drive,
        "status": status,
        "finding": finding,
        "class": class_.name,
        "class_because": class_.because,
        "statistic": check.describe(),
        "expected": check.expected(),
        "found": check.found(parts),
        "holding": sum(part.status in _HOLDS for part in parts),
        "worst": None if worst is None or not worst.off else worst.label,
        "off_percent": 100 * worst.off if worst and math.isfinite(worst.off) else None,
        "bounds": check.published_ids(),
        "compared": _told(check.compared(parts)),
        "because": because,
        "parts": [_plain(part) for part in parts],
        "readings": [] if isinstance(check, checks.Check) else _readings(check, parts),
    }


def _readings(check: checks.Checks, parts: Sequence[Part]) -> list[Reading]:
    """Return what became of each of several checks of a claim: what it says, what was expected, and what was found."""
    return [
        {"says": says, "expected": one.expected(), "found": one.found(own), "finding": claims.status_of(own)}
        for says, (one, own) in zip(check.says, check.of_each(parts), strict=True)
    ]


def _plain(part: Part) -> JudgedPart:
    return {
        "label": part.label,
        "value": _told(part.value),
        "low": _told(part.low),
        "high": _told(part.high),
        "status": part.status,
        "off_percent": _rounded(100 * part.off),
    }


def _told(value: Number) -> Number:
    """Return what the scorecard has of a value that may be a word, or none."""
    return value if value is None or isinstance(value, str) else _rounded(value)


def _rounded(value: float) -> float | None:
    """Return a number as the scorecard has it: twelve digits, as all results, and None for what is not finite."""
    return float(f"{value:.12g}") if math.isfinite(value) else None


def _value(
    judge_: claims.Judge,
    row: Mapping[Any, Any],
    contradicted: set[str],
    judged: Sequence[JudgedClaim],
    *,
    held_out: Mapping[str, Any] | None,
    classifier: Classifier,
) -> JudgedValue:
    """Return what became of a published value; ``measured_by`` is the id of the claim that measures it, if one does.

    One that is ``held_out`` is missed on either side: a drive far below "up to 500 MB/s" is not the drive of the sheet.
    """
    measured = _measured(judge_, row)
    through = None if measured is not None else next((claim for claim in judged if _is_bound(claim, row)), None)
    because, by = "", None
    if through and isinstance(through["compared"], float):
        measured, by = through["compared"], through
        because = f"See the claim {through['id']}."
    if measured is None:
        finding = through["finding"] if through else UNTESTABLE
        because = f"See the claim {through['id']}." if through else _NOT_MEASURED if row["experiment"] else _SET_UP
        shown, class_ = None, Class()
    else:
        error = error_of(measured, row["value"])
        on_the_right_side = {"<": error < 0, "<=": error <= _EQUAL, ">": error > 0, ">=": error >= -_EQUAL}.get(
            row["relation"]
        )
        if held_out:
            finding = of_error(error, held_out["tolerance"])
            because = held_out.get("misses", {}).get(row["id"], "") if finding == DEVIATES else ""
        else:
            finding = REPRODUCED if on_the_right_side else of_error(error)
        # of a bound that is kept there is no error, and of a printed zero no relative one
        is_error = row["value"] != 0 and (held_out or not on_the_right_side)
        shown = _rounded(100 * error) if math.isfinite(error) and is_error else None
        class_ = classifier.of_value(row["id"], None if by is None else Class(by["class"], by["class_because"]))
    status = CONTRADICTED if row["id"] in contradicted and finding != UNTESTABLE else finding
    printed: Printed = {
        "id": row["id"],
        "place": row["place"],
        "quantity": row["quantity"],
        "drive": row["drive"],
        "rw": row["rw"],
        "bs": row["bs"],
        "conditions": row["conditions"],
        "relation": row["relation"],
        "printed": row["printed"],
        "unit": row["unit"],
        "quote": row["quote"],
    }
    return {
        **printed,
        "measured": None if measured is None else _rounded(measured),
        "error_percent": shown,
        "finding": finding,
        "status": status,
        "because": because,
        "class": class_.name,
        "class_because": class_.because,
        "measured_by": by["id"] if by else "",
    }


def _is_bound(claim: JudgedClaim, row: Mapping[Any, Any]) -> bool:
    """Return whether a value is what a claim about the source's drives is held against."""
    return claim["drive"] is None and row["id"] in claim["bounds"]


def _measured(judge_: claims.Judge, row: Mapping[Any, Any]) -> float | None:
    """Return the mean, in the unit printed, where a published value was measured; None where it was not.

    A value whose source does not say the workload or the size is held against the experiment's own, if it has but one.
    """
    if not row["experiment"]:
        return None
    measure = quantities.get(row["quantity"])
    said = {name: row[name] for name in ("rw", "bs") if row[name]}
    levels = {"drive": row["drive_key"], **said, **published.conditions(row["conditions"])}
    rows = judge_.selected.of_experiment(row["experiment"]).select(levels)
    if len(said) < 2 and rows["cell"].nunique() > 1:
        return None
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
    """Make what the present scorecard says what is expected from now on; return the files written.

    What its studies were configured with is the default from now on.
    """
    written, studies = [], load(root)["studies"]
    for name, study in studies.items():
        path = root / EXPECTATIONS / f"{name}.yaml"
        found = {entry["id"]: entry["finding"] for entry in _entries(study) if entry["finding"] != UNTESTABLE}
        head = (
            "# What a run on the twins finds of each claim and number: `snakemake scorecard` holds a run against it.\n"
        )
        text = head + yaml.safe_dump(found, sort_keys=False, allow_unicode=True)
        files.write(path, functools.partial(_fill, text))
        written.append(path)
    configured = {name: study["configuration"] for name, study in studies.items() if "configuration" in study}
    return [*written, default.record(root, configured)] if configured else written


def _fill(text: str, temporary: Path) -> None:
    temporary.write_text(text, encoding="utf-8")


def not_default(root: Path) -> dict[str, list[str]]:
    """Return in what the scorecard's studies differ from the default, by study: those alone that differ.

    A scorecard that does not say what it is of is taken to be of the default.
    """
    defaults, found = default.load(root), {}
    for name, study in load(root)["studies"].items():
        if "configuration" in study and name in defaults:
            found[name] = default.differences(study["configuration"], defaults[name])
    return {name: names for name, names in found.items() if names}


def not_judged(root: Path) -> list[str]:
    """Return a sentence for each study that differs from the default, and so is not held against expectations."""
    return [
        f"{name} differs from the default in {', '.join(names)}: expectations not judged."
        for name, names in not_default(root).items()
    ]


def regressions(root: Path) -> list[str]:
    """Return a line for each claim or number that is expected to hold and no longer does.

    What was not measured is passed over: a run of fewer drives shows nothing about the others. So is a study that was
    configured otherwise than by default, see `not_default`. Raises ScorecardError.
    """
    lines, others = [], not_default(root)
    for name, study in load(root)["studies"].items():
        if name in others:
            continue
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


def _of_claims(name: str, study: Mapping[str, Any]) -> str:
    """Return in words how many claims of a study hold, independent ones first."""
    count = study["by_class"]["claims"]
    independent = count[classes.INDEPENDENT]
    return (
        f"{name}: {independent['hold']} of {independent['checkable']} independent claims hold; {study['hold']} of all"
        f" {study['checkable']} checkable ones, {count[classes.BUILT_IN]['checkable']} of which are built into the"
        f" twins and {count[classes.FITTED]['checkable']} rest on fitted values alone"
    )


def _of_values(name: str, study: Mapping[str, Any]) -> Iterator[str]:
    """Yield in words how far the values of each class are off, independent ones first."""
    for class_, errors in study["by_class"]["values"].items():
        if errors["values"]:
            yield (
                f"{name}: {errors['values']} {class_} values, off by {errors['mean_absolute_percent']:.1f} % in the"
                f" mean, by {errors['largest_percent']:+.1f} % at most ({errors['largest_at']})"
            )


def overview(root: Path) -> str:
    """Return the scorecard as a few lines for a terminal."""
    lines = []
    for name, study in load(root)["studies"].items():
        if study["claims"]:
            lines.append(_of_claims(name, study))
        lines += _of_values(name, study)
        for kind in ("claims", "values"):
            counts = [f"{count} {status}" for status, count in study["counts"][kind].items() if count]
            if counts:
                lines.append(f"{name}, {len(study[kind])} {kind}: {', '.join(counts)}")
        if stale := study["ablation"].get("stale"):
            lines.append(
                f"{name}: data/ablation.yaml is stale: {', '.join(stale)} changed since it was made. Make it anew:"
                " snakemake --cores 2 ablate"
            )
        for drive, own in study["own"].items():
            lines.append(f"{name}, on {drive}: {own['hold']} of {own['checkable']} checkable claims hold")
        for claim in study["claims"]:
            if claim["status"] in {DEVIATES, UNDECIDED}:
                on = f" on {claim['drive']}" if claim["drive"] else ""
                lines.append(f"  {claim['status']}{on}: {claim['id']} ({claim['place']}). {claim['says']}:")
                worst = f", worst at {claim['worst']}" if claim["worst"] else ""
                lines.append(f"    expected {claim['expected']}, found {claim['found']}{worst}")
    return "\n".join(lines)
