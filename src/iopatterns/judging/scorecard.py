"""Determine the verdicts on a study's claims and published values: the scorecard.

A claim is a published statement, and a published value is a number in a paper or data sheet. A verdict says whether the
measurements reproduce the claim or value. The module also compares the verdicts with the expected ones in
data/published/STUDY/expectations.yaml.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pandas as pd

from iopatterns.analysis import published, quantities
from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import committed_records, config, expected_verdicts, study_files
from iopatterns.judging import evidence, scale_agreement
from iopatterns.judging.check_statistics import ClaimsError
from iopatterns.judging.claims import (
    CONTRADICTED,
    COUNT_AS_REPRODUCED,
    NOT_REPRODUCED,
    REPRODUCED,
    UNDECIDED,
    UNTESTABLE,
    VALUE_TOLERANCE,
    WITHIN_TOLERANCE,
    ClaimChecks,
    Judge,
    is_close,
    load_claims,
    relative_error,
    status_of_error,
    worst_status,
)
from iopatterns.judging.evidence import EVIDENCE_CLASSES, Classifier, EvidenceClass, FitProvenance
from iopatterns.judging.scorecard_types import (
    ClaimCounts,
    ClaimVerdict,
    PublishedRow,
    StudyVerdicts,
    ValueVerdict,
)
from iopatterns.raw import tuning_steps

SCORECARD_FILE = "scorecard.json"  # in a results folder
STATUSES = (REPRODUCED, WITHIN_TOLERANCE, NOT_REPRODUCED, UNDECIDED, CONTRADICTED, UNTESTABLE)
# The key of a claim that explains its status on the twins (simulated drives)
_REASONS = {NOT_REPRODUCED: "deviation", UNDECIDED: "undecided"}
_ROUNDING = 1e-9  # relative difference that arithmetic leaves between equal numbers
_SET_UP = "It describes the set-up of the source, or drives in general."
_NOT_MEASURED = "Its drive or experiment was not measured."
_NOT_COUNTED = "It needs counters from inside the drive, which simulated drives have and real drives do not report."


class ScorecardError(IoPatternsError):
    """The error raised if a scorecard or a file of expected verdicts is missing.

    The message names the file and the command that writes the file.
    """


def judge_study(
    root: Path,
    study: str,
    *,
    confidence: float = 0.95,
    method: str = "t",
    ablation: Mapping[str, Any] | None = None,
    robustness: Mapping[str, Any] | None = None,
    results: str = config.DEFAULT_RESULTS,
) -> StudyVerdicts:
    """Return the verdicts on the claims and published values of a study.

    A claim is a published statement, and a verdict says whether the measurements reproduce the claim. The claims are
    also applied to each drive of the user that was measured: a drive that neither the source nor the study names. A
    claim about particular drives is not applied to other drives, see `ClaimCheck.on`.

    Args:
        root: The folder of the project.
        study: The name of the study.
        confidence: Confidence level of intervals, between 0 and 1.
        method: Method of intervals: ``t`` (Student) or ``bca`` (bootstrap), see `statistics.mean_interval`.
        ablation: The study's record of simulations with one mechanism of the simulated drive switched off, as
            `ablation.load_ablation_records` returns it. Its key ``flips`` lists, by claim, the mechanisms without which
            the claim has another outcome. On the source's drives, a reproduced claim with such a mechanism does not
            count as independent of the models. Mechanisms that the source states, and those of a recorded kernel and
            file system, are ignored.
        robustness: The study's record of samples of plausible parameters, as `robustness.load_records` returns it. Its
            key ``claims`` has, by claim, the share of samples in which the claim is reproduced.
        results: The results folder below ``root``. Its files measurements/STUDY.parquet and
            measurements/STUDY.tuning.json are read.

    Raises:
        ClaimsError: A claim is invalid, or its statistic divides by a mean of zero.
        PublishedError: The published values are invalid.
        EvidenceError: A model file names a claim or value that the study does not have.
    """
    folder, twins = root / "data/published" / study, root / "data/twins"
    executions = quantities.read_executions(root / f"{results}/measurements/{study}.parquet")
    evidence.check_chosen_for(twins, folder.parent, study)
    values = published.load_values(folder)
    claims_file = f"data/published/{study}/claims.yaml"
    content = load_claims(root, claims_file, values)
    tuned = tuning_steps.read_tuning_records(root / f"{results}/measurements/{study}.tuning.json")
    judge = Judge(executions, tuned, confidence, method)
    listed = [(claim, ClaimChecks.parse(claim, values)) for claim in content["claims"]]
    checks = {claim["id"]: check for claim, check in listed if check}
    provenance = FitProvenance.load(twins, study)
    classifier = Classifier(provenance, judge.selected, values, checks, _flips_of_models(ablation or {}))
    named_drives = _drives_of_experiments(root, study)
    # a drive that a claim or the grid names is not the user's, even if the source has no such drive
    source_drives = published.load_source_drives(folder)["drive_key"]
    known_drives = set(source_drives).union(*named_drives.values(), *(check.drives for check in checks.values()))
    contradictions = content.get("contradictions", [])
    contradicted = {name for each in contradictions for name in each["contradicted"]}
    own: dict[str, ClaimCounts] = {}
    try:
        of_source = [_judge_claim(judge, claim, check, contradicted, classifier=classifier) for claim, check in listed]
        claims = list(of_source)
        for drive in dict.fromkeys(executions["drive"]) if listed else ():
            if drive in known_drives:
                continue
            moved = [
                (claim, check.on(drive, named_drives))
                for claim, check in listed
                if check and claim.get("general", True)
            ]
            of_drive = [
                _judge_claim(judge, claim, check, contradicted, classifier=classifier, drive=drive)
                for claim, check in moved
                if check
            ]
            counts = _claim_counts(of_drive)
            if counts["checkable"]:  # a drive may be measured by experiments without claims only
                own[drive] = counts
                claims += of_drive
    except ClaimsError as error:
        raise ClaimsError(f"{claims_file}: {error}") from None
    sampled = (robustness or {}).get("claims", {})
    for verdict in of_source:
        if verdict["id"] in sampled and verdict["parts"]:
            verdict["robustness"] = sampled[verdict["id"]]
    source_counts, held_out = _claim_counts(of_source), content.get("held_out")
    numbers = [
        _judge_value(judge, row, contradicted, of_source, held_out=held_out, classifier=classifier)
        for row in values.to_dict("records")
    ]
    return {
        "claims": claims,
        "values": numbers,
        "contradictions": contradictions,
        "counts": {"claims": _status_counts(claims), "values": _status_counts(numbers)},
        "held_out": bool(held_out),
        "tolerance": held_out["tolerance"] if held_out else VALUE_TOLERANCE,
        "checkable": source_counts["checkable"],
        "hold": source_counts["hold"],
        "by_class": {
            "claims": {
                name: _claim_counts(claim for claim in of_source if claim["class"] == name) for name in EVIDENCE_CLASSES
            },
            "values": _errors_by_class(numbers, classifier),
        },
        "ablation": dict(ablation or {}),
        "robustness": {key: value for key, value in (robustness or {}).items() if key != "claims"},
        "own": own,
    }


def _drives_of_experiments(root: Path, study: str) -> dict[str, frozenset[str]]:
    """Return the drives that a study names for each of its experiments; empty if the study has no grid."""
    file = study_files.GRID.format(study=study)
    grid = yaml_schema.read_yaml(root, file) if (root / file).exists() else {}
    usual = grid.get("drives", ())
    return {name: frozenset(body.get("drives", usual)) for name, body in grid.get("experiments", {}).items()}


def _flips_of_models(ablation: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the mechanisms of models that change the outcome of each claim.

    Mechanisms of a recorded kernel and file system are left out, as are mechanisms that the source states. Mechanisms
    that are assumed are kept.

    Args:
        ablation: The study's record, as `ablation.load_ablation_records` returns it.
    """
    real = {each["name"] for each in ablation.get("mechanisms", ()) if each.get("by") in {"traces", "source"}}
    flips = ablation.get("flips", {})
    return {claim: [name for name in names if name not in real] for claim, names in flips.items()}


def _claim_counts(claims: Iterable[ClaimVerdict]) -> ClaimCounts:
    """Return how many claims can be checked, and how many of these are reproduced.

    A claim can be checked if it was measured and its source does not contradict it.
    """
    checkable = [claim for claim in claims if claim["status"] not in {CONTRADICTED, UNTESTABLE}]
    return {"checkable": len(checkable), "hold": sum(claim["status"] in COUNT_AS_REPRODUCED for claim in checkable)}


def _status_counts(entries: Sequence[ClaimVerdict] | Sequence[ValueVerdict]) -> dict[str, int]:
    found = Counter(entry["status"] for entry in entries)
    return {status: found[status] for status in STATUSES}


def _errors_by_class(values: Sequence[ValueVerdict], classifier: Classifier) -> dict[str, dict[str, Any]]:
    """Return a summary of the errors of published values for each evidence class.

    Values that the source contradicts are left out, as are printed zeros, which have no relative error. Several values
    may be compared with the same measured numbers. Only the value with the largest error then counts.

    Returns:
        The result of `_error_summary` for each class in `EVIDENCE_CLASSES`.
    """
    worst: dict[Any, ValueVerdict] = {}
    for value in sorted(values, key=_absolute_error, reverse=True):
        if not value["class"] or value["status"] == CONTRADICTED or value["error_percent"] is None:
            continue
        measured = classifier.measurands_of_value(value["id"]) or classifier.measurands_of_claim(value["measured_by"])
        worst.setdefault(measured or value["id"], value)
    return {
        name: _error_summary([value for value in worst.values() if value["class"] == name]) for name in EVIDENCE_CLASSES
    }


def _absolute_error(value: ValueVerdict) -> float:
    return abs(value["error_percent"] or 0.0)


def _error_summary(values: Sequence[ValueVerdict]) -> dict[str, Any]:
    """Return the number of some published values, and their mean and largest error.

    Args:
        values: The values, in descending order of absolute error.

    Returns:
        Keys: ``values`` (their number), ``mean_absolute_percent``, ``largest_percent`` (with its sign) and
        ``largest_at`` (drive, quantity and conditions of the largest error, as text). Without values there is only the
        first key.
    """
    if not values:
        return {"values": 0}
    place = (values[0][key] for key in ("drive", "quantity", "rw", "bs", "conditions"))
    return {
        "values": len(values),
        "mean_absolute_percent": _rounded(sum(map(_absolute_error, values)) / len(values)),
        "largest_percent": values[0]["error_percent"],
        "largest_at": ", ".join(filter(None, place)),
    }


def _judge_claim(
    judge: Judge,
    claim: Mapping[str, Any],
    check: ClaimChecks | None,
    contradicted: set[str],
    *,
    classifier: Classifier,
    drive: str | None = None,
) -> ClaimVerdict:
    """Return the verdict on a claim.

    Args:
        judge: The measurements of the study.
        claim: The claim, as in claims.yaml.
        check: The checks of the claim; None if the claim is untestable.
        contradicted: The ids of the claims and values that the source contradicts.
        classifier: The classifier of the study's claims.
        drive: The user's drive that the checks were applied to; None for the drives of the source.
    """
    try:
        parts = judge.results(check) if check else []
    except ClaimsError as error:
        raise ClaimsError(f"claim '{claim['id']}': {error}") from None
    finding = worst_status(parts)
    if check is None:
        because = claim["untestable"]
    elif not parts:
        because = _NOT_COUNTED if drive and check.is_of_counters else _NOT_MEASURED
    else:
        because = "" if drive else claim.get(_REASONS.get(finding, ""), "")
    reproduced = finding in COUNT_AS_REPRODUCED
    class_ = EvidenceClass()
    if parts:
        class_ = classifier.class_of_claim(claim["id"], reproduced=reproduced, drive=drive, moved=check)
    verdict: ClaimVerdict = {
        "id": claim["id"],
        "place": claim["place"],
        "quote": claim["quote"],
        "says": claim["says"],
        "drive": drive,
        "status": CONTRADICTED if claim["id"] in contradicted and parts else finding,
        "finding": finding,
        "because": because,
        "bounds": check.published_ids if check else [],
        "compared": _rounded(check.in_published_unit(parts)) if check else None,
        "parts": [
            {
                "label": part.label,
                "value": part.value if isinstance(part.value, str) else _rounded(part.value),
                "low": _rounded(part.low),
                "high": _rounded(part.high),
                "status": part.status,
                "off_percent": _rounded(100 * part.off),
                "close": part.close,
            }
            for part in parts
        ],
        "class": class_.name,
        "class_because": class_.because,
    }
    if check:
        worst = max(parts, key=lambda part: part.off, default=None)
        verdict |= {
            "statistic": check.describe(),
            "expected": check.expected(),
            "found": check.found(parts),
            "chosen": any(one.criterion.is_chosen for one in check.each),
            "close": is_close(parts),
            "holding": sum(part.holds for part in parts),
            "worst": None if worst is None or not worst.off else worst.label,
            "off_percent": 100 * worst.off if worst and math.isfinite(worst.off) else None,
            "readings": [
                {
                    "says": says,
                    "expected": one.expected(),
                    "found": one.found(own),
                    "finding": worst_status(own),
                    "chosen": one.criterion.is_chosen,
                    "close": is_close(own),
                    "parts": len(own),
                    "holding": sum(part.holds for part in own),
                }
                for says, (one, own) in zip(check.says, check.with_results(parts), strict=False)
            ],
        }
    return verdict


def _rounded(value: float | None) -> float | None:
    """Return a number rounded to twelve significant digits, as in all result files.

    Returns None for None, NaN and infinity.
    """
    return None if value is None or not math.isfinite(value) else float(f"{value:.12g}")


def _judge_value(
    judge: Judge,
    row: Mapping[Any, Any],
    contradicted: set[str],
    claims: Sequence[ClaimVerdict],
    *,
    held_out: Mapping[str, Any] | None,
    classifier: Classifier,
) -> ValueVerdict:
    """Return the verdict on a published value.

    Values of a study with the key ``held_out`` are reserved for testing models. Such a value must be matched from both
    sides, even if the source prints it as a limit: a drive far below "up to 500 MB/s" does not match its data sheet.

    Args:
        judge: The measurements of the study.
        row: The published value, a row of what `published.load_values` returns.
        contradicted: The ids of the claims and values that the source contradicts.
        claims: The verdicts on the claims about the source's drives. If no experiment measures the value, a claim that
            is compared with it may supply the measured number.
        held_out: The content of ``held_out`` in claims.yaml; None if models may be fitted to the values.
        classifier: The classifier of the study's values.
    """
    measured = _measured(judge, row)
    through = None if measured is not None else next((each for each in claims if row["id"] in each["bounds"]), None)
    because, by = "", None
    if through and isinstance(through["compared"], float):
        measured, by = through["compared"], through
        because = f"See the claim {through['id']}."
    error_percent, class_ = None, EvidenceClass()
    if measured is None:
        finding = through["finding"] if through else UNTESTABLE
        because = f"See the claim {through['id']}." if through else _NOT_MEASURED if row["experiment"] else _SET_UP
    else:
        error = relative_error(measured, row["value"])
        respects_bound = {
            "<": error < 0,
            "<=": error <= _ROUNDING,
            ">": error > 0,
            ">=": error >= -_ROUNDING,
        }.get(row["relation"], False)
        if held_out:
            finding = status_of_error(error, held_out["tolerance"])
            because = held_out.get("misses", {}).get(row["id"], "") if finding == NOT_REPRODUCED else ""
        else:
            finding = REPRODUCED if respects_bound else status_of_error(error)
        # a bound that is respected has no error, and a printed zero has no relative error
        if row["value"] != 0 and (held_out or not respects_bound):
            error_percent = _rounded(100 * error)
        class_ = EvidenceClass(by["class"], by["class_because"]) if by else classifier.class_of_value(row["id"])
    return {
        **cast(PublishedRow, {name: row[name] for name in PublishedRow.__annotations__}),
        "measured": _rounded(measured),
        "error_percent": error_percent,
        "finding": finding,
        "status": CONTRADICTED if row["id"] in contradicted and finding != UNTESTABLE else finding,
        "because": because,
        "class": class_.name,
        "class_because": class_.because,
        "measured_by": by["id"] if by else "",
    }


def _measured(judge: Judge, row: Mapping[Any, Any]) -> float | None:
    """Return the measured mean that a published value is compared with, in its unit.

    If the source states no workload or block size, the experiment must have a single cell on the drive.

    Returns None if no experiment measures the value, or if several cells match.

    Args:
        judge: The measurements of the study.
        row: The published value, a row of what `published.load_values` returns.
    """
    rows = evidence.measured_rows(judge.selected, row)
    if rows is None or (not (row["rw"] and row["bs"]) and rows["cell"].nunique() > 1):
        return None
    quantity = quantities.get_quantity(row["quantity"])
    values = rows.get(quantity.column, pd.Series(dtype="float64")).dropna()
    return float(values.mean()) / (quantity.from_unit(row["unit"]) or 1.0) if len(values) else None


def write_scorecard(
    root: Path, studies: Mapping[str, Mapping[str, Any]], results: str = config.DEFAULT_RESULTS
) -> None:
    """Write the scorecard of all studies as scorecard.json.

    The scorecard lists the verdicts on published claims and values. An existing file is replaced.

    Args:
        root: The folder of the project.
        studies: The result of `judge_study` for each study, by name. Each result may have the further key
            ``configuration``, see `StudyVerdicts`.
        results: The results folder below ``root``.
    """
    files.write_json(root / results / SCORECARD_FILE, {"studies": studies})


def load_scorecard(root: Path, results: str = config.DEFAULT_RESULTS) -> dict[str, Any]:
    """Return the content of scorecard.json in a results folder.

    The scorecard lists the verdicts on published claims and values.

    Args:
        root: The folder of the project.
        results: The results folder below ``root``.

    Returns:
        A dictionary with the key ``studies``: the verdicts of each study by name, see `StudyVerdicts`.

    Raises:
        ScorecardError: The file does not exist.
    """
    try:
        content: dict[str, Any] = json.loads((root / results / SCORECARD_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ScorecardError(
            f"{results}/{SCORECARD_FILE}: there is no scorecard yet. Run `snakemake --cores 1`."
        ) from None
    return content


def _entries_with_expectations(study: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the verdicts of a study for which an expected verdict may exist.

    These are the verdicts on published values, and on claims about the drives of the source. Verdicts on a user's own
    drive have no expectation.
    """
    yield from (claim for claim in study["claims"] if claim["drive"] is None)
    yield from study["values"]


def record_expectations(root: Path, results: str = config.DEFAULT_RESULTS) -> list[Path]:
    """Save the verdicts of the scorecard as the expected verdicts of later runs.

    The verdicts on the drives of the source are saved in data/published/STUDY/expectations.yaml. Verdicts on the user's
    drives, and claims and values that were not measured, are left out. The file also contains the configuration of the
    run. Later runs are compared with the file only if they have this configuration.

    Args:
        root: The folder of the project.
        results: The results folder below ``root`` that contains the scorecard.

    Returns:
        The written files, one for each study.

    Raises:
        ScorecardError: There is no scorecard.
        ConfigError: An existing file of expected verdicts is malformed.
    """
    written = []
    for name, study in load_scorecard(root, results)["studies"].items():
        before = expected_verdicts.load_expectations(root, name)
        configured = study.get("configuration", before.configured if before else {})
        expected = {
            entry["id"]: entry["finding"]
            for entry in _entries_with_expectations(study)
            if entry["finding"] != UNTESTABLE
        }
        expectations = expected_verdicts.Expectations(configured, expected)
        written.append(expected_verdicts.write_expectations(root, name, expectations))
    return written


def non_default_keys(root: Path, results: str = config.DEFAULT_RESULTS) -> dict[str, list[str]]:
    """Return the settings of each study that differ from the default.

    The default is the configuration with which the expected verdicts were recorded.

    Args:
        root: The folder of the project.
        results: The results folder below ``root`` that contains the scorecard.

    Returns:
        The names of the settings by study, such as ``{"park2009": ["runtime", "seed"]}``. A study is left out if no
        setting differs, if the scorecard does not contain the study's configuration, or if the study has no expected
        verdicts.

    Raises:
        ScorecardError: There is no scorecard.
        ConfigError: A file of expected verdicts is malformed.
    """
    found = {}
    for name, study in load_scorecard(root, results)["studies"].items():
        expectations = expected_verdicts.load_expectations(root, name)
        if "configuration" in study and expectations:
            found[name] = expected_verdicts.setting_differences(study["configuration"], expectations.configured)
    return {name: names for name, names in found.items() if names}


def skipped_expectations(root: Path, results: str = config.DEFAULT_RESULTS) -> list[str]:
    """Return a sentence for each study that is not compared with expected verdicts.

    The configuration of such a study differs from the configuration with which its expected verdicts were recorded. The
    sentence names the settings that differ, such as ``runtime``.

    Args:
        root: The folder of the project.
        results: The results folder below ``root`` that contains the scorecard.

    Raises:
        ScorecardError: There is no scorecard.
        ConfigError: A file of expected verdicts is malformed.
    """
    return [
        f"{name} differs from the default in {', '.join(names)}: not compared with the expected verdicts."
        for name, names in non_default_keys(root, results).items()
    ]


def regressions(root: Path, results: str = config.DEFAULT_RESULTS) -> list[str]:
    """Return a line for each claim or value that is unexpectedly not reproduced.

    A claim (published statement) or published value is listed if it was measured, is not reproduced, and is expected to
    be reproduced. The verdict ``undecided`` counts as not reproduced. Studies are skipped if their configuration
    differs from the configuration of the expected verdicts.

    Args:
        root: The folder of the project.
        results: The results folder below ``root`` that contains the scorecard.

    Returns:
        The lines, each with study, id, place in the source, both verdicts and both numbers. Empty without a regression.

    Raises:
        ScorecardError: There is no scorecard, or a study has no file of expected verdicts.
        ConfigError: A file of expected verdicts cannot be read.
    """
    lines, others = [], non_default_keys(root, results)
    for name, study in load_scorecard(root, results)["studies"].items():
        if name in others:
            continue
        expectations = expected_verdicts.load_expectations(root, name)
        if expectations is None:
            path = expected_verdicts.expectations_path(root, name).relative_to(root)
            raise ScorecardError(f"{path}: the file is missing. `iopatterns scorecard --expect` writes it.")
        for entry in _entries_with_expectations(study):
            before, now = expectations.expected.get(entry["id"]), entry["finding"]
            if before in COUNT_AS_REPRODUCED and now not in {*COUNT_AS_REPRODUCED, UNTESTABLE}:
                place = f"{name}: {entry['id']} ({entry['place']})"
                lines.append(f"{place}: expected '{before}', is now '{now}'. {_comparison(entry)}".strip())
    return lines


def _comparison(entry: Mapping[str, Any]) -> str:
    """Return the expected and the found number of a verdict as text.

    Args:
        entry: The verdict on a claim or a published value.
    """
    if "error_percent" in entry:
        measured = "no measurement of its own" if entry["measured"] is None else f"measured {entry['measured']:.4g}"
        return f"Published {entry['printed']} {entry['unit']}, {measured}. {entry['because']}".strip()
    return f"Expected {entry['expected']}, found {entry['found']}."


def _summary_lines(name: str, study: Mapping[str, Any]) -> Iterator[str]:
    """Yield lines with a study's counts of claims and the errors of its values.

    Claims are counted in one line. There is a line of errors for each evidence class that has values.

    Args:
        name: The name of the study.
        study: The verdicts of the study.
    """
    count = study["by_class"]["claims"]
    if study["claims"]:
        independent = count[evidence.INDEPENDENT]
        yield (
            f"{name}: {independent['hold']} of {independent['checkable']} independent claims reproduced;"
            f" {study['hold']} of all {study['checkable']} checkable claims"
            f" ({count[evidence.BUILT_INTO_MODEL]['checkable']} are built into the models,"
            f" {count[evidence.FITTED]['checkable']} compare fitted values only)"
        )
    classes = Counter(claim["robustness"]["class"] for claim in study["claims"] if "robustness" in claim)
    if classes:
        counted = ", ".join(f"{number} {class_}" for class_, number in sorted(classes.items(), reverse=True))
        yield f"{name}: claims under other plausible parameters: {counted}"
    for class_, errors in study["by_class"]["values"].items():
        if errors["values"]:
            yield (
                f"{name}: {errors['values']} values, {class_}: mean error {errors['mean_absolute_percent']:.1f} %,"
                f" largest error {errors['largest_percent']:+.1f} % ({errors['largest_at']})"
            )


def scorecard_text(root: Path, results: str = config.DEFAULT_RESULTS) -> str:
    """Return the scorecard of all studies as text for a terminal.

    Each study has lines with the counts of reproduced claims (published statements) and the errors of published values.
    Two further lines follow for each claim that is not reproduced or undecided: what the claim says, and what was
    found.

    Args:
        root: The folder of the project.
        results: The results folder below ``root`` that contains the scorecard.

    Raises:
        ScorecardError: There is no scorecard.
    """
    lines: list[str] = []
    for name, study in load_scorecard(root, results)["studies"].items():
        lines += _summary_lines(name, study)
        for kind in ("claims", "values"):
            counts = [f"{count} {status}" for status, count in study["counts"][kind].items() if count]
            if counts:
                lines.append(f"{name}, {len(study[kind])} {kind}: {', '.join(counts)}")
        for kind, records in (
            ("ablation", committed_records.ABLATION_RECORDS),
            ("robustness", committed_records.ROBUSTNESS_RECORDS),
        ):
            if stale := study[kind].get("stale"):
                lines.append(f"{name}: {records.stale_text(name, stale)}")
        if scale := study.get("scale"):
            lines += [*scale_agreement.agreement_lines(name, scale), *scale_agreement.unexplained_lines(name, scale)]
        for drive, own in study["own"].items():
            lines.append(f"{name}, on {drive}: {own['hold']} of {own['checkable']} checkable claims reproduced")
        for claim in study["claims"]:
            if claim["status"] in {NOT_REPRODUCED, UNDECIDED}:
                on = f" on {claim['drive']}" if claim["drive"] else ""
                worst = f", worst at {claim['worst']}" if claim["worst"] else ""
                lines += [
                    f"  {claim['status']}{on}: {claim['id']} ({claim['place']}). {claim['says']}:",
                    f"    expected {claim['expected']}, found {claim['found']}{worst}",
                ]
    return "\n".join(lines)
