"""The manifest: which SHA-256 sums a run on twins must give, and whether this one did."""

import hashlib
from pathlib import Path

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import grid
from iopatterns.raw import cells
from iopatterns.workflow.plan import Plan

FOLDER = "data/manifests"
# What is derived from raw files alone; notebooks as executed and logs hold times of day.
_DERIVED = ("measurements", "tables", "figures", "numbers")
_SHOWN = 10


class ManifestError(IoPatternsError):
    """The sums of this run cannot be told, or are not the committed ones; the message names files."""


def current(root: Path) -> dict[str, str]:
    """Return the SHA-256 of each raw file and each result of the configuration, by path.

    Raises ManifestError when a file is missing: the run is not complete.
    """
    plan = Plan(root)
    paths = [raw for study in plan.studies for raw in plan.raw_files(study)]
    paths += sorted(
        str(path.relative_to(root))
        for name in _DERIVED
        for path in (root / "results" / name).rglob("*")
        if path.is_file()
    )
    paths += ["results/scorecard.json", "results/report.pdf"]
    missing = [path for path in paths if not (root / path).exists()]
    if missing:
        raise ManifestError(f"{missing[0]}: not there; run `snakemake --cores 1` first")
    return {path: files.sha256(root / path) for path in paths}


def identity(root: Path) -> str:
    """Return a digest of what the configuration asks for: two runs are comparable when it is the same."""
    plan = Plan(root)
    asked = hashlib.sha256()
    for study in plan.studies:
        asked.update(f"{study} {grid.repetitions(plan.config, study)}\n".encode())
        for cell in grid.expand(plan.config, study):
            asked.update(f"{cell.folder} {cells.digest(cell.specification)}\n".encode())
    asked.update(f"{plan.analysis_parameters()}\n".encode())
    return asked.hexdigest()


def path_for(root: Path, fio_version: str) -> Path:
    """Return the committed manifest for a version of fio, which is written into every raw file."""
    return root / FOLDER / f"{fio_version}.sha256"


def write(root: Path, fio_version: str) -> Path:
    """Write the sums of the present results as the manifest for this version of fio. Raises ManifestError."""
    lines = [f"# A default run with {fio_version} gives these files; `sha256sum --check` reads this list.\n"]
    lines.append(f"# configuration {identity(root)}\n")
    lines += [f"{digest}  {path}\n" for path, digest in current(root).items()]
    path = path_for(root, fio_version)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, lambda temporary: temporary.write_text("".join(lines), encoding="utf-8"))
    return path


def verdict(root: Path, fio_version: str) -> tuple[bool, str]:
    """Return whether the results are those of the committed manifest, and a sentence that says so.

    True also where nothing can be said: not twins alone are measured, or not here, the configuration is not the one
    committed, or there is no manifest for this fio. Raises ManifestError when the run is not complete.
    """
    plan = Plan(root)
    if plan.archived_drives():
        return True, f"not compared: {', '.join(plan.archived_drives())} came out of archives"
    if any(plan.is_real(drive) for drive in plan.config.drives):
        return True, "not compared: a real drive never measures the same twice"
    path = path_for(root, fio_version)
    if not path.exists():
        known = sorted(each.stem for each in (root / FOLDER).glob("*.sha256"))
        return True, f"not compared: none is committed for {fio_version} (there: {', '.join(known) or 'none'})"
    lines = path.read_text(encoding="utf-8").splitlines()
    if f"# configuration {identity(root)}" not in lines:
        return True, "not compared: the configuration is not the one that the committed manifest is for"
    expected = {name: digest for digest, name in (line.split("  ", 1) for line in lines if not line.startswith("#"))}
    found = current(root)
    names = sorted(expected.keys() | found.keys())
    different = [name for name in names if expected.get(name) != found.get(name)]
    if not different:
        return True, f"all {len(found)} files are those of {path.relative_to(root)}, byte for byte"
    shown = "".join(f"\n  {name}" for name in different[:_SHOWN])
    more = f"\n  and {len(different) - _SHOWN} more" if len(different) > _SHOWN else ""
    return False, f"{len(different)} of {len(names)} files are not those of {path.relative_to(root)}:{shown}{more}"
