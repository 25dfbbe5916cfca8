"""The last words of a run: what was measured, where the report lies, how long it took."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from iopatterns.base import files, units
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, kinds
from iopatterns.judging import scorecard
from iopatterns.measuring import progress
from iopatterns.raw.metadata_files import UNPACKED, metadata_path, read_metadata
from iopatterns.workflow.planned_cells import PROGRESS_FOLDER

if TYPE_CHECKING:  # it imports pandas, which a summary needs not
    from iopatterns.analysis.collect import Colophon, DescribedDrive, StudySummary

COLOPHON_FILE = "colophon.json"  # in a results folder


class SummaryError(IoPatternsError):
    """There are no results to sum up."""


def run_summary(root: Path, since_s: float | None, results: str = config.DEFAULT_RESULTS) -> str:
    """Return the summary of the results in a results folder.

    ``since_s`` (seconds since the epoch) is when the run began; with it the summary says how long the run took and
    how much of that was fio. Raises SummaryError where no report has been made.
    """
    with files.outdated_results_reported(f"{results}/{COLOPHON_FILE}"):
        colophon = _colophon(root, results)
        drives = ", ".join(_drive(drive) for drive in colophon["drives"])
        versions = ", ".join(colophon["fio_versions"])
        lines = [f"Measured: {colophon['executions']} executions with {versions} on {drives}"]
        lines += [f"  {name}: {study['cells']} cells, {study['title']}" for name, study in colophon["studies"].items()]
        lines += _left_out(colophon["studies"])
    lines += _claims(root, results)
    lines.append(f"Report:   {results}/report.pdf")
    if since_s is not None:
        elapsed_s = time.time() - since_s
        fio_s = _fio_seconds_since(root, since_s)
        share = f", {units.format_duration(fio_s)} of it in fio" if fio_s else ", nothing had to be measured anew"
        lines.append(f"Time:     {units.format_duration(elapsed_s)}{share}")
        lines += _parts(root, since_s, elapsed_s)
    return "\n".join(lines)


def _left_out(studies: "Mapping[str, StudySummary]") -> list[str]:
    """Return a line on the cells that were planned and are not among those measured, if there are any."""
    cells = {name: study["left_out"] for name, study in studies.items() if study["left_out"]}
    if not cells:
        return []
    # all cells of a study have as many executions
    executions = sum(count * studies[name]["executions"] // studies[name]["cells"] for name, count in cells.items())
    of = ", ".join(f"{count} of {name}" for name, count in cells.items())
    return [f"  not applicable: {of}, {executions} executions, for their drives do not take the settings asked for"]


def _claims(root: Path, results: str) -> list[str]:
    """Return a line that says how many claims hold, those first that hold although no twin was made so, and a line for
    each study that was not run as by default.
    """
    try:
        studies = scorecard.load_scorecard(root, results)["studies"].values()
    except scorecard.ScorecardError:
        return []
    others = [f"          {line}" for line in scorecard.skipped_expectations(root, results)]
    if not any(study["claims"] for study in studies):
        return others
    found = [study["by_class"]["claims"]["independent"] for study in studies]
    checkable, hold = (sum(each[key] for each in found) for key in ("checkable", "hold"))
    all_checkable, all_hold = (sum(study[key] for study in studies) for key in ("checkable", "hold"))
    return [
        f"Claims:   {hold} of {checkable} independent ones hold; {all_hold} of {all_checkable} with those that are"
        " built into the twins or rest on fitted values alone",
        *others,
    ]


def _parts(root: Path, since_s: float, elapsed_s: float) -> list[str]:
    """Return a line that says how long the jobs of each part of the run took, and what was left beside them."""
    took_s = progress.seconds_by_part(root / PROGRESS_FOLDER, since_s)
    if not took_s:
        return []
    # of several jobs at a time the sum is longer than the run
    beside_s = max(0.0, elapsed_s - sum(took_s.values()))
    told = [f"{part} {units.format_duration(seconds)}" for part, seconds in took_s.items()]
    return [f"  {', '.join(told)}; Snakemake itself {units.format_duration(beside_s)}"]


def _colophon(root: Path, results: str) -> "Colophon":
    try:
        content: Colophon = json.loads((root / results / COLOPHON_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SummaryError(f"{results}/{COLOPHON_FILE}: there are no results yet. Run `snakemake --cores 1`.") from None
    return content


def _drive(drive: "DescribedDrive") -> str:
    if "archive" in drive:
        return f"{drive['name']} (archive of kind {drive['kind']}: {drive['archive']['archive']})"
    if drive["simulated"]:
        return f"{drive['name']} (twin)"
    disk = drive["model"] or drive["device"] or "an unknown disk"
    if drive["kind"] in kinds.WHOLE_DISK_KINDS:
        return f"{drive['name']} ({drive['path']}, {disk}, serial {drive['serial']})"
    return f"{drive['name']} ({drive['path']} on {disk}, {drive['file_system']})"


def _fio_seconds_since(root: Path, since_s: float) -> float:
    """Return the wall time of all fio processes of the measurements made since then."""
    # what was unpacked was measured at another time, whatever its files' times say
    drives = (folder for folder in (root / "data/raw").glob("*") if not (folder / UNPACKED).exists())
    raws = (raw for folder in drives for raw in folder.glob("*/*/*.json") if metadata_path(raw).exists())
    recent = (raw for raw in raws if metadata_path(raw).stat().st_mtime >= since_s)
    return float(sum(read_metadata(raw).get("wall_s", 0.0) for raw in recent))


def compare_with_manifest(root: Path, results: str = config.DEFAULT_RESULTS) -> tuple[bool, str]:
    """Return whether the results are those of the committed manifest (True where there is none to hold them against),
    and a line that says so. Raises SummaryError or ManifestError where the run is not complete.
    """
    from iopatterns.workflow import manifest

    versions = _colophon(root, results)["fio_versions"]
    same, text = (
        manifest.compare_results(root, versions[0], results)
        if len(versions) == 1
        else (True, "not compared: several versions of fio")
    )
    return same, f"Manifest: {text}"
