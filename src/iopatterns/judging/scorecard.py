"""The scorecard: the verdict on every published number and claim, and comparison with the expected verdicts."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from iopatterns.analysis import published, quantities
from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, expected_verdicts, kinds, study_files
from iopatterns.judging import evidence
from iopatterns.judging.check_statistics import ClaimsError
from iopatterns.judging.claims import (
    CONTRADICTED,
    COUNT_AS_REPRODUCED,
    DEFAULT_TOLERANCE,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    UNTESTABLE,
    WITHIN_TOLERANCE,
    ClaimChecks,
    Judge,
    PartResult,
    load_claims,
    relative_error,
    status_of_error,
    worst_status,
)
from iopatterns.judging.evidence import EVIDENCE_CLASSES, Classifier, EvidenceClass, FitProvenance
from iopatterns.judging.scorecard_types import (
    CheckVerdict,
    ClaimCounts,
    ClaimVerdict,
    ErrorSummary,
    PartVerdict,
    PublishedRow,
    ScorecardValue,
    StudyVerdicts,
    ValueVerdict,
)
from iopatterns.raw import tuning_steps

SCORECARD_FILE = "scorecard.json"  # in a results folder
STATUSES = (REPRODUCED, WITHIN_TOLERANCE, NOT_REPRODUCED, UNDECIDED, CONTRADICTED, UNTESTABLE)
# The key of a claim that explains its status on the twins (simulated drives)
_REASONS = {NOT_REPRODUCED: "deviation", UNDECIDED: "undecided"}
# Relative difference that arithmetic leaves between equal numbers
_EQUAL = 1e-9
_SET_UP = "It describes the source's set-up, or what it tells of drives in general."
_NOT_MEASURED = "Its drive or experiment was not measured."
_NOT_COUNTED = "It is about what goes on in the drive, which twins count and real drives do not tell."


class ScorecardError(IoPatternsError):
    """The scorecard, or the file of expected verdicts, is missing or cannot be read."""


def judge_study(
    root: Path,
    study: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    models: Mapping[str, str] | None = None,
    ablation: Mapping[str, Any] | None = None,
    results: str = config.DEFAULT_RESULTS,
) -> StudyVerdicts:
    """Return the verdicts on the claims and published numbers of a study.

    A claim or value has a ``status`` (one of `STATUSES`), a ``finding`` (the status regardless of whether the source
    contradicts itself), and a ``class``, see `classes`. The counts of ``checkable`` and ``hold`` are of claims about
    the source's drives; ``own`` has them for each drive of the user on which a claim can be checked.

    Args:
        root: The folder of the project.
        study: The name of the study.
        confidence: Confidence level of intervals.
        method: ``t`` or ``bca``, see `statistics.interval`.
        models: The model of each twin (simulated drive) by drive, where the names differ.
        ablation: The mechanisms that were switched off, and under ``flips``, by claim, the names of those that change
            its outcome. Mechanisms of a real kernel and its file system do not make a claim built in, unless they were
            assumed.
        results: The results folder below ``root``, with measurements/<study>.*.

    Raises:
        ClaimsError: A claim is wrong, or its statistic divides by a mean of zero.
        PublishedError: The published values are wrong.
        ClassesError: A model names a statement that the study does not make.
    """
    folder, twins = root / "data/published" / study, root / "data/twins"
    executions = quantities.read_executions(root / f"{results}/measurements/{study}.parquet")
    evidence.check_chosen_for(twins, folder.parent, study)
    drive_kinds = quantities.drive_kinds(executions)
    values = evidence.add_evidence_classes(published.load_values(folder), twins, study, executions)
    content = load_claims(root, f"data/published/{study}/claims.yaml", values)
    tuned = tuning_steps.read_tuning_records(root / f"{results}/measurements/{study}.tuning.json")
    judge_ = Judge(executions, tuned, confidence, method)
    listed = [(claim, ClaimChecks.parse(claim, values)) for claim in content["claims"]]
    simulated = [drive for drive, kind in drive_kinds.items() if kind in kinds.SIMULATED_KINDS]
    of_twin = {drive: (models or {}).get(drive, drive) for drive in simulated}
    provenance = FitProvenance.load(twins, study)
    flips = _of_models(ablation or {})
    classifier = Classifier(provenance, judge_.selected, values, listed=listed, models=of_twin, flips=flips)
    # a drive that a claim names is not the user's, even if the source has no such drive
    of_source = set(published.load_source_drives(folder)["drive_key"]).union(
        *(check.drives for _, check in listed if check)
    )
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
            # drop a drive that only experiments without claims measure
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
        "tolerance": held_out["tolerance"] if held_out else DEFAULT_TOLERANCE,
        "checkable": (whole := _verdict(of_source_claims))["checkable"],
        "hold": whole["hold"],
        "by_class": {
            "claims": {
                name: _verdict(claim for claim in of_source_claims if claim["class"] == name)
                for name in EVIDENCE_CLASSES
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
    """Return the flips by mechanisms that were fitted or assumed, not by a real kernel or by the source."""
    real = {each["name"] for each in ablation.get("mechanisms", ()) if each.get("by") in {"traces", "source"}}
    flips = ablation.get("flips", {})
    return {claim: [name for name in names if name not in real] for claim, names in flips.items()}


def _verdict(judged: Iterable[ClaimVerdict]) -> ClaimCounts:
    """Return how many claims are checkable and not contradicted by their source, and how many of these hold."""
    checkable = [claim for claim in judged if claim["status"] in {*COUNT_AS_REPRODUCED, NOT_REPRODUCED, UNDECIDED}]
    return {"checkable": len(checkable), "hold": sum(claim["status"] in COUNT_AS_REPRODUCED for claim in checkable)}


def _counts(entries: Sequence[ClaimVerdict] | Sequence[ValueVerdict]) -> dict[str, int]:
    found = Counter(entry["status"] for entry in entries)
    return {status: found[status] for status in STATUSES}


def _errors_by_class(values: Sequence[ValueVerdict], classifier: Classifier) -> dict[str, ErrorSummary]:
    """Return the errors of values by class.

    Values that the source contradicts are left out, as are printed zeros, which have no relative error. Of several
    values with the same measurands, only the value with the largest error counts.
    """
    worst: dict[Any, tuple[float, ValueVerdict]] = {}
    for value in values:
        error = value["error_percent"]
        if not value["class"] or value["status"] == CONTRADICTED or error is None or float(value["printed"]) == 0:
            continue
        measured = classifier.measurands_of_value(value["id"]) or classifier.measurands_of_claim(value["measured_by"])
        before = worst.get(measured or value["id"])
        if before is None or abs(error) > abs(before[0]):
            worst[measured or value["id"]] = error, value
    return {name: _errors([each for each in worst.values() if each[1]["class"] == name]) for name in EVIDENCE_CLASSES}


def _errors(values: Sequence[tuple[float, ValueVerdict]]) -> ErrorSummary:
    """Return the mean absolute error and the largest error of some values, given as (error, value)."""
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
    judge_: Judge,
    claim: Mapping[str, Any],
    check: ClaimChecks | None,
    contradicted: set[str],
    *,
    classifier: Classifier,
    drive: str | None = None,
) -> ClaimVerdict:
    """Return the verdict on a claim; ``drive`` is the user's drive that the checks were applied to, if any."""
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
        parts = judge_.results(check)
    except ClaimsError as error:
        raise ClaimsError(f"claim '{claim['id']}': {error}") from None
    finding = worst_status(parts)
    worst = max(parts, key=lambda part: part.off, default=None)
    status = CONTRADICTED if claim["id"] in contradicted and parts else finding
    class_ = (
        classifier.of_claim(claim["id"], holds=finding in COUNT_AS_REPRODUCED, drive=drive)
        if parts
        else EvidenceClass()
    )
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
        "holding": sum(part.status in COUNT_AS_REPRODUCED for part in parts),
        "worst": None if worst is None or not worst.off else worst.label,
        "off_percent": 100 * worst.off if worst and math.isfinite(worst.off) else None,
        "bounds": check.published_ids,
        "compared": _told(check.in_published_unit(parts)),
        "because": because,
        "parts": [_plain(part) for part in parts],
        "readings": _readings(check, parts),
    }


def _readings(check: ClaimChecks, parts: Sequence[PartResult]) -> list[CheckVerdict]:
    """Return the verdict on each check of a claim with several checks; nothing for a single check."""
    return [
        {"says": says, "expected": one.expected(), "found": one.found(own), "finding": worst_status(own)}
        for says, (one, own) in zip(check.says, check.with_results(parts), strict=False)
    ]


def _plain(part: PartResult) -> PartVerdict:
    return {
        "label": part.label,
        "value": _told(part.value),
        "low": _told(part.low),
        "high": _told(part.high),
        "status": part.status,
        "off_percent": _rounded(100 * part.off),
    }


def _told(value: ScorecardValue) -> ScorecardValue:
    """Return a value that may be text or None as the scorecard has it."""
    return value if value is None or isinstance(value, str) else _rounded(value)


def _rounded(value: float) -> float | None:
    """Return a number with twelve digits, as in all results; None if it is not finite."""
    return float(f"{value:.12g}") if math.isfinite(value) else None


def _value(
    judge_: Judge,
    row: Mapping[Any, Any],
    contradicted: set[str],
    judged: Sequence[ClaimVerdict],
    *,
    held_out: Mapping[str, Any] | None,
    classifier: Classifier,
) -> ValueVerdict:
    """Return the verdict on a published value; ``measured_by`` is the id of the claim that measures it, if any.

    A held-out value can be missed on either side: a drive far below "up to 500 MB/s" does not match its data sheet.
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
        shown, class_ = None, EvidenceClass()
    else:
        error = relative_error(measured, row["value"])
        on_the_right_side = {"<": error < 0, "<=": error <= _EQUAL, ">": error > 0, ">=": error >= -_EQUAL}.get(
            row["relation"]
        )
        if held_out:
            finding = status_of_error(error, held_out["tolerance"])
            because = held_out.get("misses", {}).get(row["id"], "") if finding == NOT_REPRODUCED else ""
        else:
            finding = REPRODUCED if on_the_right_side else status_of_error(error)
        # a bound that is respected has no error, and a printed zero has no relative error
        is_error = row["value"] != 0 and (held_out or not on_the_right_side)
        shown = _rounded(100 * error) if math.isfinite(error) and is_error else None
        class_ = classifier.of_value(row["id"], None if by is None else EvidenceClass(by["class"], by["class_because"]))
    status = CONTRADICTED if row["id"] in contradicted and finding != UNTESTABLE else finding
    return {
        **cast(PublishedRow, {name: row[name] for name in PublishedRow.__annotations__}),
        "measured": None if measured is None else _rounded(measured),
        "error_percent": shown,
        "finding": finding,
        "status": status,
        "because": because,
        "class": class_.name,
        "class_because": class_.because,
        "measured_by": by["id"] if by else "",
    }


def _is_bound(claim: ClaimVerdict, row: Mapping[Any, Any]) -> bool:
    """Return whether a claim about the source's drives is compared with this value."""
    return claim["drive"] is None and row["id"] in claim["bounds"]


def _measured(judge_: Judge, row: Mapping[Any, Any]) -> float | None:
    """Return the measured mean in the unit of a published value; None if it was not measured.

    If the source gives no workload or block size, the value is compared with the only one of the experiment.
    """
    if not row["experiment"]:
        return None
    measure = quantities.get_quantity(row["quantity"])
    said = {name: row[name] for name in ("rw", "bs") if row[name]}
    levels = {"drive": row["drive_key"], **said, **published.parse_conditions(row["conditions"])}
    rows = judge_.selected.of_experiment(row["experiment"]).select(levels)
    if len(said) < 2 and rows["cell"].nunique() > 1:
        return None
    values = rows.get(measure.column, pd.Series(dtype="float64")).dropna()
    return float(values.mean()) / (measure.from_unit(row["unit"]) or 1.0) if len(values) else None


def write_scorecard(
    root: Path, studies: Mapping[str, Mapping[str, Any]], results: str = config.DEFAULT_RESULTS
) -> None:
    """Write the scorecard of all studies into a results folder."""
    files.write_json(root / results / SCORECARD_FILE, {"studies": studies})


def load_scorecard(root: Path, results: str = config.DEFAULT_RESULTS) -> dict[str, Any]:
    """Return the scorecard in a results folder. Raises ScorecardError if there is none."""
    try:
        content: dict[str, Any] = json.loads((root / results / SCORECARD_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ScorecardError(f"{results}/{SCORECARD_FILE}: there is none yet. Run `snakemake --cores 1`.") from None
    return content


def _entries(study: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the claims and values about the source's drives: there are no expectations for the user's drives."""
    yield from (claim for claim in study["claims"] if claim["drive"] is None)
    yield from study["values"]


def record_expectations(root: Path, results: str = config.DEFAULT_RESULTS) -> list[Path]:
    """Write the verdicts of the present scorecard as the expected verdicts; return the written files.

    The configuration of its studies becomes the default configuration.
    """
    written = []
    for name, study in load_scorecard(root, results)["studies"].items():
        before = expected_verdicts.load_expectations(root, name)
        configured = study.get("configuration", before.configured if before else {})
        found = {entry["id"]: entry["finding"] for entry in _entries(study) if entry["finding"] != UNTESTABLE}
        written.append(
            expected_verdicts.write_expectations(root, name, expected_verdicts.Expectations(configured, found))
        )
    return written


def non_default_keys(root: Path, results: str = config.DEFAULT_RESULTS) -> dict[str, list[str]]:
    """Return the keys of config/ in which studies of the scorecard differ from the default, by study.

    A study without a difference is left out. A scorecard without a configuration is taken to be of the default.
    """
    found = {}
    for name, study in load_scorecard(root, results)["studies"].items():
        expectations = expected_verdicts.load_expectations(root, name)
        if "configuration" in study and expectations:
            found[name] = expected_verdicts.setting_differences(study["configuration"], expectations.configured)
    return {name: names for name, names in found.items() if names}


def skipped_expectations(root: Path, results: str = config.DEFAULT_RESULTS) -> list[str]:
    """Return a sentence for each study that is not compared with expectations, because its configuration differs."""
    return [
        f"{name} differs from the default in {', '.join(names)}: expectations not judged."
        for name, names in non_default_keys(root, results).items()
    ]


def regressions(root: Path, results: str = config.DEFAULT_RESULTS) -> list[str]:
    """Return a line for each claim or number that is expected to hold and does not.

    Claims and numbers that were not measured are skipped, as are studies whose configuration is not the default, see
    `non_default_keys`.

    Raises:
        ScorecardError: There is no scorecard, or a study has no expectations.
        ConfigError: A file of expectations cannot be read.
    """
    lines, others = [], non_default_keys(root, results)
    for name, study in load_scorecard(root, results)["studies"].items():
        if name in others:
            continue
        expectations = expected_verdicts.load_expectations(root, name)
        if expectations is None:
            path = expected_verdicts.expectations_path(root, name).relative_to(root)
            raise ScorecardError(f"{path}: not there. `iopatterns scorecard --expect` writes it.")
        for entry in _entries(study):
            before, now = expectations.expected.get(entry["id"]), entry["finding"]
            if before in COUNT_AS_REPRODUCED and now not in {*COUNT_AS_REPRODUCED, UNTESTABLE}:
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
    """Return how many claims of a study hold as text, independent claims first."""
    count = study["by_class"]["claims"]
    independent = count[evidence.INDEPENDENT]
    return (
        f"{name}: {independent['hold']} of {independent['checkable']} independent claims hold; {study['hold']} of all"
        f" {study['checkable']} checkable ones, {count[evidence.BUILT_INTO_MODEL]['checkable']} of which are built into the"
        f" twins and {count[evidence.FITTED]['checkable']} rest on fitted values alone"
    )


def _of_values(name: str, study: Mapping[str, Any]) -> Iterator[str]:
    """Yield the errors of the values of each class as text, independent values first."""
    for class_, errors in study["by_class"]["values"].items():
        if errors["values"]:
            yield (
                f"{name}: {errors['values']} {class_} values, off by {errors['mean_absolute_percent']:.1f} % in the"
                f" mean, by {errors['largest_percent']:+.1f} % at most ({errors['largest_at']})"
            )


def scorecard_text(root: Path, results: str = config.DEFAULT_RESULTS) -> str:
    """Return the scorecard as a few lines for a terminal."""
    lines = []
    for name, study in load_scorecard(root, results)["studies"].items():
        if study["claims"]:
            lines.append(_of_claims(name, study))
        lines += _of_values(name, study)
        for kind in ("claims", "values"):
            counts = [f"{count} {status}" for status, count in study["counts"][kind].items() if count]
            if counts:
                lines.append(f"{name}, {len(study[kind])} {kind}: {', '.join(counts)}")
        if stale := study["ablation"].get("stale"):
            file = study_files.ABLATION.format(study=name)
            lines.append(
                f"{name}: {file} is stale: {', '.join(stale)} changed since it was made. Make it again:"
                " snakemake --cores 2 ablate"
            )
        for drive, own in study["own"].items():
            lines.append(f"{name}, on {drive}: {own['hold']} of {own['checkable']} checkable claims hold")
        for claim in study["claims"]:
            if claim["status"] in {NOT_REPRODUCED, UNDECIDED}:
                on = f" on {claim['drive']}" if claim["drive"] else ""
                lines.append(f"  {claim['status']}{on}: {claim['id']} ({claim['place']}). {claim['says']}:")
                worst = f", worst at {claim['worst']}" if claim["worst"] else ""
                lines.append(f"    expected {claim['expected']}, found {claim['found']}{worst}")
    return "\n".join(lines)
