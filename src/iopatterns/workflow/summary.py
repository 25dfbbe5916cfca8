"""Summarise a finished run as text: measurements, time, claims and next steps."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import files, units
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, kinds
from iopatterns.judging import scorecard
from iopatterns.measuring import progress
from iopatterns.workflow.planned_cells import PROGRESS_FILE

if TYPE_CHECKING:  # it imports pandas, which takes longer than the summary
    from iopatterns.analysis.collect import Colophon, DescribedDrive, StudySummary

COLOPHON_FILE = "colophon.json"  # in a results folder
# Up to this number, drives are listed by name
_MOST_DRIVES = 4


class SummaryError(IoPatternsError):
    """The results folder has no results of a complete run.

    The message says how to run the workflow.
    """


def run_summary(root: Path, since_s: float | None, results: str = config.DEFAULT_RESULTS) -> str:
    """Return a text about the results in a results folder, for the terminal.

    The text names the report, the number of repetitions, the drives and the version of fio. A table has the numbers of
    cells and claims of each study. The last lines suggest what to do next.

    Args:
        root: The project's folder.
        since_s: The start of the run in seconds since the epoch, to print how long the run took. None: the time is left
            out.
        results: The results folder, relative to `root`.

    Raises:
        SummaryError: The folder has no results of a complete run.
    """
    with files.outdated_results_reported(f"{results}/{COLOPHON_FILE}"):
        colophon = _colophon(root, results)
        versions = ", ".join(colophon["fio_versions"])
        lines = [
            f"Report:   {results}/report.pdf",
            f"Measured: {colophon['executions']} repetitions with {versions} on {_drives_text(colophon['drives'])}",
        ]
        if since_s is not None:
            duration = units.format_duration(time.time() - since_s)
            lines.append(f"Time:     {duration} ({_time_shares(root, since_s)})")
        lines += ["", *_study_lines(root, results, colophon), ""]
    in_folder = "" if results == config.DEFAULT_RESULTS else f" --results {results}"
    return "\n".join(
        [
            *lines,
            f"Next:     `iopatterns scorecard{in_folder}` prints every verdict.",
            f"          Change a key of {config.CONFIG_FILE}: `snakemake -n` prints what would run again, and why.",
        ]
    )


def _drives_text(drives: Iterable["DescribedDrive"]) -> str:
    """Return the measured drives as text.

    Up to four drives are listed. If there are more, simulated drives are only counted.
    """
    simulated = list(dict.fromkeys(drive["name"] for drive in drives if drive["simulated"] and "archive" not in drive))
    others = [_drive_text(drive) for drive in drives if not drive["simulated"] or "archive" in drive]
    if len(simulated) + len(others) <= _MOST_DRIVES:
        return ", ".join([*(f"{name} (twin)" for name in simulated), *others])
    return ", ".join([f"{len(simulated)} simulated drives"] * bool(simulated) + others)


def _drive_text(drive: "DescribedDrive") -> str:
    if "archive" in drive:
        return f"{drive['name']} (archive of kind {drive['kind']}: {drive['archive']['archive']})"
    disk = drive["model"] or drive["device"] or "an unknown disk"
    if drive["kind"] in kinds.WHOLE_DISK_KINDS:
        return f"{drive['name']} ({drive['path']}, {disk}, serial {drive['serial']})"
    return f"{drive['name']} ({drive['path']} on {disk}, {drive['file_system']})"


def _time_shares(root: Path, since_s: float) -> str:
    """Return the percentages of the jobs' time for each part of a run, as text.

    Times in seconds would not add up to the duration of the run, because jobs run at the same time. Unpacking an
    archive counts as measuring.

    Args:
        root: The project's folder.
        since_s: Start of the run in seconds since the epoch.
    """
    seconds = progress.seconds_by_part(root / PROGRESS_FILE, since_s)
    if not seconds:
        return "nothing had to be done"
    shares = [f"{part} {100 * part_s / sum(seconds.values()):.0f} %" for part, part_s in seconds.items()]
    return f"shares of the jobs' time: {', '.join(shares)}"


def _study_lines(root: Path, results: str, colophon: "Colophon") -> list[str]:
    """Return lines with a table of the studies and notes below it.

    The table has the numbers of cells and claims of each study. The notes are about drives of the user, cells that were
    not measured, and results that are not compared with expected verdicts.
    """
    try:
        judged = scorecard.load_scorecard(root, results)["studies"]
    except scorecard.ScorecardError:
        judged = {}
    names = colophon["order"]
    cells = [colophon["studies"][name]["cells"] for name in names]
    columns = [["study", *names, "all"], ["cells", *map(str, [*cells, sum(cells)])]]
    if any(study["claims"] for study in judged.values()):
        counts = [_claim_counts(judged[name]) if name in judged else Counter() for name in names]
        counts.append(sum(counts, Counter()))
        for heading, kind in (("claims reproduced", "all"), ("independent claims", "independent")):
            texts = [f"{each[kind, 'hold']} of {each[kind, 'checkable']}" for each in counts]
            columns.append([heading, *("-" if text == "0 of 0" else text for text in texts)])
    widths = [max(map(len, column)) for column in columns]
    rows = list(zip(*columns, strict=True))
    rows = rows if len(names) > 1 else rows[:-1]
    table = ["   ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
    on_own_drives = [
        f"{name}, on {drive}: {own['hold']} of {own['checkable']} claims reproduced"
        for name, study in judged.items()
        for drive, own in study["own"].items()
    ]
    notes = scorecard.skipped_expectations(root, results) if judged else []
    return [*table, *on_own_drives, *_left_out(colophon["studies"]), *notes]


def _claim_counts(study: Mapping[str, Any]) -> Counter[tuple[str, str]]:
    """Return the numbers of checkable and of reproduced claims of a study.

    Args:
        study: The verdicts of the study.

    Returns:
        Numbers by pairs such as ``("independent", "hold")``. The first element is ``all`` or ``independent``: claims
        that neither the construction of a model nor a fitted value decides. The second is ``checkable`` or ``hold``
        (reproduced).
    """
    counts = {"all": study, "independent": study["by_class"]["claims"]["independent"]}
    return Counter({(kind, key): count[key] for kind, count in counts.items() for key in ("hold", "checkable")})


def _left_out(studies: "Mapping[str, StudySummary]") -> list[str]:
    """Return a line with the number of cells that were not measured, as a list.

    The list is empty if all cells were measured.
    """
    counts = [f"{study['left_out']} of {name}" for name, study in studies.items() if study["left_out"]]
    if not counts:
        return []
    return [f"Cells without a measurement, because a drive does not accept their settings: {', '.join(counts)}."]


def _colophon(root: Path, results: str) -> "Colophon":
    try:
        content: Colophon = json.loads((root / results / COLOPHON_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SummaryError(f"{results}/{COLOPHON_FILE}: there are no results yet. Run `snakemake --cores 1`.") from None
    return content


def compare_with_manifest(root: Path, results: str = config.DEFAULT_RESULTS) -> tuple[bool, str]:
    """Compare the results of a run with the committed manifests.

    A manifest has SHA-256 checksums of the results of a default run.

    Args:
        root: The project's folder.
        results: The results folder, relative to `root`.

    Returns:
        Whether the results are as expected; and a text for the terminal, which begins with ``Manifest:``. The first
        value is False only if a result differs from the manifest for the version of fio that measured. It is therefore
        True if nothing was compared, for example because several versions of fio measured.

    Raises:
        SummaryError: The folder has no results of a complete run.
        ManifestError: A result is missing.
    """
    from iopatterns.workflow import manifest

    versions = _colophon(root, results)["fio_versions"]
    if len(versions) > 1:
        return True, "Manifest: not compared, because several versions of fio measured"
    same, text = manifest.compare_results(root, versions[0], results)
    return same, f"Manifest: {text}"
