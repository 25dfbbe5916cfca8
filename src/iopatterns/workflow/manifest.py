"""The manifest: the SHA-256 sums that a default run on twins gives, a file for each study and one for the report."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, expected_verdicts, grid, kinds
from iopatterns.raw import cells
from iopatterns.workflow import planned_cells, study_rules
from iopatterns.workflow.planned_cells import Cells

# Below it, a folder for each version of fio, which is written into every raw file
MANIFEST_FOLDER = "data/manifests"
# The manifest of the files that are made of all studies together
REPORT_MANIFEST = "report"
_OF_REPORT = ("results/scorecard.json", "results/report.pdf")
# Raw files, what is collected of them, and the report name the version of fio
_OF_NO_VERSION = ("results/tables/", "results/figures/", "results/numbers/")
_ALL = ("",)
_NOT_CONFIGURED = "not compared: the configuration is not the one that the committed manifest is for"
_SHOWN = 10
_CONFIGURATION = "# configuration "


class ManifestError(IoPatternsError):
    """A result is missing, so that the run cannot be compared; the message names the file."""


@dataclass(frozen=True)
class _Manifest:
    """A manifest file: the digest of the configuration that it is for, and SHA-256 sums by path."""

    configuration: str
    sums: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "_Manifest":
        """Return the content of a manifest file; of a missing file a manifest that fits no configuration."""
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        digests = [line.removeprefix(_CONFIGURATION) for line in lines if line.startswith(_CONFIGURATION)]
        sums = (line.split("  ", 1) for line in lines if not line.startswith("#"))
        return cls(digests[0] if digests else "", {name: digest for digest, name in sums})

    def write(self, path: Path, fio_version: str) -> None:
        """Write the manifest in the form that `sha256sum --check` reads."""
        lines = [f"# A default run with {fio_version} gives these files; `sha256sum --check` reads this list.\n"]
        lines.append(f"{_CONFIGURATION}{self.configuration}\n")
        lines += [f"{digest}  {name}\n" for name, digest in self.sums.items()]
        files.write_text(path, "".join(lines))


def _files(folder: Path, plan: Cells, study: str) -> list[str]:
    """Return the raw files of a study and the results made of them alone.

    Executed notebooks are left out: they hold times of day.
    """
    derived = [
        *folder.glob(f"measurements/{study}.*"),
        *folder.glob(f"numbers/{study}.json"),
        *(folder / "tables" / study).rglob("*"),
        *(folder / "figures" / study).rglob("*"),
    ]
    paths = sorted(f"{config.DEFAULT_RESULTS}/{path.relative_to(folder)}" for path in derived if path.is_file())
    return plan.raw_files(plan.of_study(study)) + paths


def _sums(root: Path, paths: Iterable[str], results: str) -> dict[str, str]:
    """Return the SHA-256 of files by the path that they have with the default results folder.

    Raises:
        ManifestError: A file is missing, because the run is not complete.
    """
    found = {}
    for path in paths:
        begin, _, rest = path.partition("/")
        file = f"{results}/{rest}" if begin == config.DEFAULT_RESULTS else path
        if not (root / file).exists():
            raise ManifestError(f"{file}: not there; run `snakemake --cores 1` first")
        found[path] = files.sha256(root / file)
    return found


def study_digest(plan: Cells, study: str) -> str:
    """Return a digest of what is asked for of a study: two runs of it are comparable when it is the same."""
    asked = hashlib.sha256(f"{grid.repetitions(plan.config, study)}\n".encode())
    for cell in plan.of_study(study):
        asked.update(f"{cell.folder} {cells.specification_digest(cell.specification)}\n".encode())
    asked.update(f"{study_rules.notebook_parameters(plan.config, study)}\n".encode())
    return asked.hexdigest()


def report_digest(plan: Cells) -> str:
    """Return a digest of the identities of all studies, in the order of the report."""
    identities = "".join(f"{study_digest(plan, study)}\n" for study in plan.studies)
    return hashlib.sha256(identities.encode()).hexdigest()


def manifest_path(root: Path, fio_version: str, name: str) -> Path:
    """Return the committed manifest of a study, or of `REPORT_MANIFEST`, for a version of fio."""
    return root / MANIFEST_FOLDER / fio_version / f"{name}.sha256"


def write_manifests(root: Path, fio_version: str) -> Path:
    """Write the sums of the present results as manifests, and return their folder. Raises ManifestError."""
    plan = planned_cells.load_cells(root)
    names = {study: _files(root / config.DEFAULT_RESULTS, plan, study) for study in plan.studies}
    found = {
        study: _Manifest(study_digest(plan, study), _sums(root, paths, config.DEFAULT_RESULTS))
        for study, paths in names.items()
    }
    found[REPORT_MANIFEST] = _Manifest(report_digest(plan), _sums(root, _OF_REPORT, config.DEFAULT_RESULTS))
    folder = root / MANIFEST_FOLDER / fio_version
    for name, manifest in found.items():
        manifest.write(manifest_path(root, fio_version, name), fio_version)
    return folder


def compare_results(root: Path, fio_version: str, results: str = config.DEFAULT_RESULTS) -> tuple[bool, str]:
    """Return whether the results are those of the committed manifest, and a sentence that says so.

    A study is compared where its configuration is that of its manifest, and the report where all studies are. For a
    version of fio without a manifest, the results that do not name the version are compared with the nearest manifest.
    The answer is True, too, where nothing can be compared: a real or archived drive is measured, or every study is
    configured otherwise. Raises ManifestError when the run is not complete.
    """
    plan = planned_cells.load_cells(root)
    if archived := planned_cells.archives_by_drive(plan.config):
        return True, f"not compared: {', '.join(archived)} came out of archives"
    if any(kinds.is_real(entry) for entry in plan.config.drives.values()):
        return True, "not compared: a real drive never measures the same twice"
    if (root / MANIFEST_FOLDER / fio_version).exists():
        compared = _compare(root, plan, fio_version, _ALL, results)
        if not compared.studies:
            return True, _NOT_CONFIGURED
        if not compared.different:
            same = f"all {compared.count} files{compared.what} are those of {compared.folder}, byte for byte"
            return True, f"{same}{compared.rest}"
        of_all = f"{len(compared.different)} of {compared.count} files{compared.what}"
        listed = f"{of_all} are not those of {compared.folder}{compared.rest}"
        return False, f"{listed}:{compared.names_of_different()}"
    versions = sorted({path.parent.name for path in (root / MANIFEST_FOLDER).glob("*/*.sha256")})
    if not versions:
        return True, f"not compared: none is committed, for {fio_version} or any other"
    of_versions = [_compare(root, plan, version, _OF_NO_VERSION, results) for version in versions]
    compared = min(of_versions, key=lambda each: len(each.different))
    if not compared.studies:
        return True, _NOT_CONFIGURED
    text = (
        f"none is committed for {fio_version}. Of {compared.count} tables, figures and numbers{compared.what},"
        f" {compared.count - len(compared.different)} are those of {compared.folder}, byte for byte{compared.rest}"
    )
    return True, f"{text}; these are not:{compared.names_of_different()}" if compared.different else text


@dataclass(frozen=True)
class _Compared:
    """Results compared with the manifests in a folder: the studies, the number of files, and the files that differ.

    ``what`` names the studies where the report is not compared, ``rest`` the studies that are not compared.
    """

    folder: str
    studies: Sequence[str]
    count: int
    different: Sequence[str]
    what: str
    rest: str

    def names_of_different(self) -> str:
        """Return the first files that differ, a line each."""
        shown = "".join(f"\n  {name}" for name in self.different[:_SHOWN])
        more = f"\n  and {len(self.different) - _SHOWN} more" if len(self.different) > _SHOWN else ""
        return shown + more


def _compare(root: Path, plan: Cells, fio_version: str, folders: tuple[str, ...], results: str) -> _Compared:
    """Compare results below ``folders`` with the manifests of a version of fio that are of the same configuration."""
    expected: dict[str, str] = {}
    paths: list[str] = []
    same = []
    for study in plan.studies:
        manifest = _Manifest.read(manifest_path(root, fio_version, study))
        if _was_run(root / results, plan, study) and study_digest(plan, study) == manifest.configuration:
            same.append(study)
            expected |= manifest.sums
            paths += _files(root / results, plan, study)
    others = [study for study in plan.studies if study not in same]
    of_report = _Manifest.read(manifest_path(root, fio_version, REPORT_MANIFEST))
    with_report = not others and of_report.configuration == report_digest(plan)
    if with_report:
        expected |= of_report.sums
        paths += _OF_REPORT
    expected = {name: digest for name, digest in expected.items() if name.startswith(folders)}
    found = _sums(root, [name for name in paths if name.startswith(folders)], results)
    names = sorted(expected.keys() | found.keys())
    return _Compared(
        folder=f"{MANIFEST_FOLDER}/{fio_version}",
        studies=same,
        count=len(names),
        different=[name for name in names if expected.get(name) != found.get(name)],
        what="" if with_report else f" of {', '.join(same)}",
        rest=f"; not compared: {', '.join(others)}, of another configuration than the manifest" if others else "",
    )


def _was_run(folder: Path, plan: Cells, study: str) -> bool:
    """Return whether the results are of the configuration in config/, as far as they tell: `--config` is not in it."""
    try:
        colophon = json.loads((folder / "colophon.json").read_text(encoding="utf-8"))
        cards = json.loads((folder / "scorecard.json").read_text(encoding="utf-8"))["studies"]
    except FileNotFoundError:
        return True
    if study not in colophon["order"]:
        return False
    measured = {drive["name"] for drive in colophon["drives"]}
    if not measured.issuperset({cell.drive for cell in plan.of_study(study)}):
        return False
    told = cards.get(study, {}).get("configuration")
    return told is None or told == expected_verdicts.study_settings(plan.config, study)
