"""The manifest: which SHA-256 sums a run on twins must give, and whether this one did."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import default, grid, kinds
from iopatterns.raw import cells
from iopatterns.workflow import planned_cells, study_rules
from iopatterns.workflow.planned_cells import Cells

FOLDER = "data/manifests"
# What is made of all studies together
_OF_ALL = ("results/scorecard.json", "results/report.pdf")
# Raw files, what is collected of them, and the report name the version of fio
_OF_NO_VERSION = ("results/tables/", "results/figures/", "results/numbers/")
_ALL = ("",)
_NOT_CONFIGURED = "not compared: the configuration is not the one that the committed manifest is for"
_SHOWN = 10
_CONFIGURATION = "# configuration"


class ManifestError(IoPatternsError):
    """The sums of this run cannot be told, or are not the committed ones; the message names files."""


def _files(root: Path, plan: Cells, study: str) -> list[str]:
    """Return the raw files of a study, and what is derived from them alone; notebooks as executed hold times of day."""
    derived = [
        *(root / "results/measurements").glob(f"{study}.*"),
        *(root / "results/numbers").glob(f"{study}.json"),
        *(root / "results/tables" / study).rglob("*"),
        *(root / "results/figures" / study).rglob("*"),
    ]
    paths = sorted(str(path.relative_to(root)) for path in derived if path.is_file())
    return plan.raw_files(plan.of_study(study)) + paths


def _study_of(path: str) -> str | None:
    """Return the study that a file of a manifest belongs to; None for what is made of all."""
    if path in _OF_ALL:
        return None
    parts = path.split("/")
    return parts[3] if path.startswith("data/raw/") else parts[2].partition(".")[0]


def _sums(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return the SHA-256 of files by path. Raises ManifestError when one is missing: the run is not complete."""
    found = {}
    for path in paths:
        if not (root / path).exists():
            raise ManifestError(f"{path}: not there; run `snakemake --cores 1` first")
        found[path] = files.sha256(root / path)
    return found


def identity(plan: Cells, study: str) -> str:
    """Return a digest of what is asked for of a study: two runs of it are comparable when it is the same."""
    asked = hashlib.sha256(f"{grid.repetitions(plan.config, study)}\n".encode())
    for cell in plan.of_study(study):
        asked.update(f"{cell.folder} {cells.digest(cell.specification)}\n".encode())
    asked.update(f"{study_rules.notebook_parameters(plan.config, study)}\n".encode())
    return asked.hexdigest()


def path_for(root: Path, fio_version: str) -> Path:
    """Return the committed manifest for a version of fio, which is written into every raw file."""
    return root / FOLDER / f"{fio_version}.sha256"


def write(root: Path, fio_version: str) -> Path:
    """Write the sums of the present results as the manifest for this version of fio. Raises ManifestError."""
    plan = planned_cells.load(root)
    paths = [path for study in plan.studies for path in _files(root, plan, study)]
    lines = [f"# A default run with {fio_version} gives these files; `sha256sum --check` reads this list.\n"]
    lines += [f"{_CONFIGURATION} {study} {identity(plan, study)}\n" for study in plan.studies]
    lines += [f"{digest}  {path}\n" for path, digest in _sums(root, [*paths, *_OF_ALL]).items()]
    path = path_for(root, fio_version)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, lambda temporary: temporary.write_text("".join(lines), encoding="utf-8"))
    return path


def verdict(root: Path, fio_version: str) -> tuple[bool, str]:
    """Return whether the results are those of the committed manifest, and a sentence that says so.

    Each study is held against the manifest by itself, where its configuration is the manifest's. Where there is none
    for this fio, what holds nothing of fio's version is held against the manifest that it comes nearest to. True then,
    and where nothing can be said: not twins alone are measured, or not here, or no study's configuration is the one
    committed. Raises ManifestError when the run is not complete.
    """
    plan = planned_cells.load(root)
    if archived := planned_cells.archives(plan.config):
        return True, f"not compared: {', '.join(archived)} came out of archives"
    if any(kinds.is_real(entry) for entry in plan.config.drives.values()):
        return True, "not compared: a real drive never measures the same twice"
    path = path_for(root, fio_version)
    if path.exists():
        held = _hold(root, plan, path, _ALL)
        if not held.studies:
            return True, _NOT_CONFIGURED
        if not held.different:
            return True, f"all {held.count} files{held.what} are those of {held.path}, byte for byte{held.rest}"
        listed = f"{len(held.different)} of {held.count} files{held.what} are not those of {held.path}{held.rest}"
        return False, f"{listed}:{held.names_of_different()}"
    committed = sorted((root / FOLDER).glob("*.sha256"))
    if not committed:
        return True, f"not compared: none is committed, for {fio_version} or any other"
    held = min((_hold(root, plan, each, _OF_NO_VERSION) for each in committed), key=lambda each: len(each.different))
    if not held.studies:
        return True, _NOT_CONFIGURED
    told = (
        f"none is committed for {fio_version}. Of {held.count} tables, figures and numbers{held.what},"
        f" {held.count - len(held.different)} are those of {held.path}, byte for byte{held.rest}"
    )
    return True, f"{told}; these are not:{held.names_of_different()}" if held.different else told


@dataclass(frozen=True)
class _Held:
    """Results held against a manifest, ``path``: of which studies, how many files, and which of them differ."""

    path: str
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


def _hold(root: Path, plan: Cells, path: Path, folders: tuple[str, ...]) -> _Held:
    """Hold the results below some folders against a manifest, those of the studies that are configured as in it."""
    lines = path.read_text(encoding="utf-8").splitlines()
    configured = [line.removeprefix(_CONFIGURATION).split() for line in lines if line.startswith(_CONFIGURATION)]
    meant = {words[0]: words[-1] for words in configured}
    was_run = [study for study in plan.studies if _was_run(root, plan, study)]
    same = [study for study in was_run if identity(plan, study) == meant.get(study)]
    others = [study for study in plan.studies if study not in same]
    # what all studies make together is the manifest's only where all of them are
    whole = not others and list(meant) == same
    sums = (line.split("  ", 1) for line in lines if not line.startswith("#"))
    wanted = {*same, None} if whole else set(same)
    expected = {name: digest for digest, name in sums if name.startswith(folders) and _study_of(name) in wanted}
    paths = [name for study in same for name in _files(root, plan, study)]
    found = _sums(root, [name for name in ([*paths, *_OF_ALL] if whole else paths) if name.startswith(folders)])
    names = sorted(expected.keys() | found.keys())
    return _Held(
        path=str(path.relative_to(root)),
        studies=same,
        count=len(names),
        different=[name for name in names if expected.get(name) != found.get(name)],
        what="" if whole else f" of {', '.join(same)}",
        rest=f"; not compared: {', '.join(others)}, of another configuration than the manifest" if others else "",
    )


def _was_run(root: Path, plan: Cells, study: str) -> bool:
    """Return whether the results are of the configuration in config/, as far as they tell: `--config` is not in it."""
    try:
        colophon = json.loads((root / "results/colophon.json").read_text(encoding="utf-8"))
        cards = json.loads((root / "results/scorecard.json").read_text(encoding="utf-8"))["studies"]
    except FileNotFoundError:
        return True
    if study not in colophon["order"]:
        return False
    measured = {drive["name"] for drive in colophon["drives"]}
    if not measured.issuperset({cell.drive for cell in plan.of_study(study)}):
        return False
    told = cards.get(study, {}).get("configuration")
    return told is None or told == default.described(plan.config, study)
