"""Compare results with manifests: committed SHA-256 checksums of a default run.

A default run measures simulated drives (twins), and gives the same files on every machine. A manifest lists the
checksums of the files of one study, or of the report and the scorecard. The manifests are in data/manifests, in a
folder for each version of fio.
"""

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

# Contains a folder for each version of fio, because every raw file contains the version
MANIFEST_FOLDER = "data/manifests"
# The name of the manifest of the files that are made from all studies together
REPORT_MANIFEST = "report"
_OF_REPORT = ("results/scorecard.json", "results/report.pdf")
# Results that do not contain the version of fio: not raw files, the tables of measurements and the report
_WITHOUT_VERSION = ("results/tables/", "results/figures/", "results/numbers/")
_ALL = ("",)
_MOST_NAMES = 10
_CONFIGURATION = "# configuration "


class ManifestError(IoPatternsError):
    """A result is missing, so that the run cannot be compared with a manifest.

    A manifest is a committed list of SHA-256 checksums of the files of a default run.
    """


@dataclass(frozen=True)
class _Manifest:
    """The content of a manifest file.

    Attributes:
        configuration: The digest of the configuration that the checksums apply to, see `study_digest` and
            `report_digest`.
        sums: The SHA-256 checksum of each file, by its path relative to the project's folder.
    """

    configuration: str
    sums: dict[str, str]

    @classmethod
    def read(cls, path: Path) -> "_Manifest":
        """Return the content of a manifest file.

        Both attributes are empty if the file does not exist.
        """
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        digests = [line.removeprefix(_CONFIGURATION) for line in lines if line.startswith(_CONFIGURATION)]
        sums = (line.split("  ", 1) for line in lines if not line.startswith("#"))
        return cls(digests[0] if digests else "", {name: digest for digest, name in sums})

    def write(self, path: Path, fio_version: str) -> None:
        """Write the manifest in the format that `sha256sum --check` reads.

        Args:
            path: The file to write.
            fio_version: The version of fio, for the comment in the first line.
        """
        lines = [f"# A default run with {fio_version} gives these files; `sha256sum --check` reads this list.\n"]
        lines.append(f"{_CONFIGURATION}{self.configuration}\n")
        lines += [f"{digest}  {name}\n" for name, digest in self.sums.items()]
        files.write_text(path, "".join(lines))


def _files(folder: Path, plan: Cells, study: str) -> list[str]:
    """Return the paths of a study's raw files, and of the results made from them.

    Executed notebooks are left out, because they contain times of day.

    Args:
        folder: The results folder.
        plan: The cells of the run.
        study: The name of the study.

    Returns:
        Paths relative to the project's folder. Results are named as if they were in the default results folder.
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
    """Return the SHA-256 checksums of files, by the given paths.

    Args:
        root: The project's folder.
        paths: Paths relative to `root`. Results are named as if they were in the default results folder.
        results: The results folder in which they are.

    Raises:
        ManifestError: A file is missing, because the run is not complete.
    """
    found = {}
    for path in paths:
        begin, _, rest = path.partition("/")
        file = f"{results}/{rest}" if begin == config.DEFAULT_RESULTS else path
        if not (root / file).exists():
            raise ManifestError(f"{file}: this result is missing. Run `snakemake --cores 1` first.")
        found[path] = files.sha256(root / file)
    return found


def study_digest(plan: Cells, study: str) -> str:
    """Return a SHA-256 of the configuration that a study's results depend on.

    The digest covers the number of repetitions, the cells (drive, settings and workload of each), and the parameters of
    the notebook. The results of two runs are comparable only if their digests are equal.

    Args:
        plan: The cells of the run.
        study: The name of the study.

    Returns:
        64 hexadecimal digits.
    """
    requested = hashlib.sha256(f"{grid.repetitions(plan.config, study)}\n".encode())
    for cell in plan.of_study(study):
        requested.update(f"{cell.folder} {cells.specification_digest(cell.specification)}\n".encode())
    requested.update(f"{study_rules.notebook_parameters(plan.config, study)}\n".encode())
    return requested.hexdigest()


def report_digest(plan: Cells) -> str:
    """Return a SHA-256 of the configurations of all studies, as 64 hexadecimal digits.

    The digest is computed from the result of `study_digest` for each study, in the order of the report.

    Args:
        plan: The cells of the run.
    """
    digests = "".join(f"{study_digest(plan, study)}\n" for study in plan.studies)
    return hashlib.sha256(digests.encode()).hexdigest()


def manifest_path(root: Path, fio_version: str, name: str) -> Path:
    """Return the path of a manifest, the file with the checksums of a default run.

    An example is data/manifests/fio-3.39/kapoor.sha256. The file need not exist.

    Args:
        root: The project's folder.
        fio_version: The version of fio, such as ``fio-3.39``.
        name: The name of a study, or `REPORT_MANIFEST` for the manifest of report and scorecard.
    """
    return root / MANIFEST_FOLDER / fio_version / f"{name}.sha256"


def write_manifests(root: Path, fio_version: str) -> Path:
    """Write manifests: SHA-256 checksums of the results in the default folder.

    One manifest is written for each configured study, and one for the report and the scorecard. Existing manifests of
    this version of fio are replaced. The default folder is results.

    Args:
        root: The project's folder.
        fio_version: The version of fio that measured, such as ``fio-3.39``.

    Returns:
        The folder of the manifests, data/manifests/<fio_version> below `root`.

    Raises:
        ManifestError: A result is missing.
        ConfigError: The configuration is invalid.
    """
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
    """Compare the results of a run with the committed manifests.

    A manifest lists SHA-256 checksums of the files of a default run. For each version of fio, there is a manifest for
    each study, and one for report and scorecard. Compared are:

    - each study whose configuration has not changed since its manifest was written
    - report and scorecard, if no study has a changed configuration
    - nothing, if a configured drive is real or an archive (measured elsewhere)

    If no manifest exists for the given version of fio, the manifests of the version with the fewest differences are
    used. In this case only tables, figures and numbers are compared, because other files contain the version.

    Args:
        root: The project's folder.
        fio_version: The version of fio that measured, such as ``fio-3.39``.
        results: The results folder, relative to `root`.

    Returns:
        Whether the results are as expected; and a text about the comparison. The first value is False only if a file
        differs from a manifest of the given version of fio. It is therefore True if nothing was compared, or if the
        manifests are of another version.

    Raises:
        ManifestError: A result is missing.
        ConfigError: The configuration is invalid.
    """
    plan = planned_cells.load_cells(root)
    if archived := planned_cells.archives_by_drive(plan.config):
        return True, f"not compared, because archives contain the measurements of {', '.join(archived)}"
    if any(kinds.is_real(entry) for entry in plan.config.drives.values()):
        return True, "not compared, because a real drive never measures the same twice"
    has_version = (root / MANIFEST_FOLDER / fio_version).exists()
    versions = sorted({path.parent.name for path in (root / MANIFEST_FOLDER).glob("*/*.sha256")})
    if not versions:
        return True, "not compared, because no manifest is committed"
    prefixes = _ALL if has_version else _WITHOUT_VERSION
    comparisons = [
        _compare(root, plan, version, prefixes, results) for version in ([fio_version] if has_version else versions)
    ]
    nearest = min(comparisons, key=lambda each: len(each.different))
    if not nearest.studies:
        return True, "not compared, because the configuration is not the one of the committed manifest"
    if has_version:
        return not nearest.different, nearest.text("files")
    return True, f"none is committed for {fio_version}; {nearest.text('tables, figures and numbers')}"


@dataclass(frozen=True)
class _Comparison:
    """The result of comparing files with the manifests of one version of fio.

    Attributes:
        folder: The folder of the manifests.
        studies: The compared studies.
        others: The studies whose configuration is not the one of their manifest.
        has_report: Whether report and scorecard were compared.
        count: The number of compared files.
        different: The paths of the files that differ.
    """

    folder: str
    studies: Sequence[str]
    others: Sequence[str]
    has_report: bool
    count: int
    different: Sequence[str]

    def text(self, kind: str) -> str:
        """Return how many files are equal to the manifest, and which ones differ, as text.

        Args:
            kind: What the compared files are called in the text, such as ``files``.
        """
        number = f"{self.count - len(self.different)} of" if self.different else "all"
        of_studies = "" if self.has_report else f" of {', '.join(self.studies)}"
        text = f"{number} {self.count} {kind}{of_studies} are equal to {self.folder}, byte for byte"
        if self.others:
            text += f"; not compared: {', '.join(self.others)}, because of another configuration"
        if not self.different:
            return text
        more = len(self.different) - _MOST_NAMES
        names = [*self.different[:_MOST_NAMES], *([f"and {more} more"] if more > 0 else [])]
        return "\n  ".join([f"{text}. Different:", *names])


def _compare(root: Path, plan: Cells, fio_version: str, prefixes: tuple[str, ...], results: str) -> _Comparison:
    """Compare the results of a run with the manifests of one version of fio.

    Args:
        root: The project's folder.
        plan: The cells of the run.
        fio_version: The version of fio whose manifests are used.
        prefixes: Only files whose path begins with one of these are compared.
        results: The results folder, relative to `root`.

    Raises:
        ManifestError: A result is missing.
    """
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
    has_report = not others and of_report.configuration == report_digest(plan)
    if has_report:
        expected |= of_report.sums
        paths += _OF_REPORT
    expected = {name: digest for name, digest in expected.items() if name.startswith(prefixes)}
    found = _sums(root, [name for name in paths if name.startswith(prefixes)], results)
    names = sorted(expected.keys() | found.keys())
    different = [name for name in names if expected.get(name) != found.get(name)]
    return _Comparison(f"{MANIFEST_FOLDER}/{fio_version}", same, others, has_report, len(names), different)


def _was_run(folder: Path, plan: Cells, study: str) -> bool:
    """Return whether a study's results were made with the configuration in config/.

    A run with other values (`--config`) has another configuration. Results that do not record their configuration are
    assumed to be from config/.

    Args:
        folder: The results folder.
        plan: The cells of the configuration in config/.
        study: The name of the study.
    """
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
    recorded = cards.get(study, {}).get("configuration")
    return recorded is None or recorded == expected_verdicts.study_settings(plan.config, study)
