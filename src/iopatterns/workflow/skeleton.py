"""Begin a study: a grid that runs, and a notebook and a section of the report that show each experiment of any grid."""

import os
from pathlib import Path

from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.configuration import study_files

_TEMPLATES = Path(__file__).with_name("templates")
_FILES = {
    "study.yaml": study_files.GRID,
    "study.ipynb": study_files.NOTEBOOK,
    "study.typ": study_files.SECTION,
}
# What the files of a source are begun from
_OF_A_SOURCE = {name: f"{study_files.PUBLISHED_PLACE}/{name}" for name in ("values.csv", "drives.csv", "claims.yaml")}
# What stands for the names of study and drive in the templates
_NAME, _DRIVE = "the-study", "the-drive"
_USUAL_DRIVE = "c400"


class SkeletonError(IoPatternsError):
    """A study cannot be begun under a name."""

    exit_status = 2


def create_study(root: Path, study: str, *, with_source: bool = False) -> list[Path]:
    """Write grid, notebook and section of a study, or those that are missing; return their paths.

    ``with_source`` adds the files of published values, with an example of each. Nothing is overwritten. Raises
    SkeletonError for an invalid name, where all files are there already, and outside of a project.
    """
    if not study_files.is_study_name(study):
        shown = printable(study)
        raise SkeletonError(
            f"'{shown}' is no name for a study. Use small letters, digits, '-' and '_', such as depth-2."
        )
    places = _FILES | (_OF_A_SOURCE if with_source else {})
    paths = {template: Path(place.format(study=study)) for template, place in places.items()}
    for path in (Path(place) for place in _FILES.values()):
        if not (root / path.parent).is_dir():
            raise SkeletonError(f"{path.parent}: there is no such folder here. Run this in the project's own folder.")
    missing = {template: path for template, path in paths.items() if not os.path.lexists(root / path)}
    if not missing:
        there = ", ".join(map(str, paths.values()))
        raise SkeletonError(f"the study '{study}' is there already: {there}. Choose another name.")
    for template, path in missing.items():
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.replace(_NAME, study).replace(_DRIVE, default_drive(root)), encoding="utf-8")
    return list(missing.values())


def default_drive(root: Path) -> str:
    """Return the simulated drive of a new study: the usual one, or the first model where that was removed."""
    models = sorted(path.stem for path in (root / "data/twins").glob("*.yaml"))
    return _USUAL_DRIVE if _USUAL_DRIVE in models or not models else models[0]


def next_step(root: Path, study: str, *, with_source: bool = False) -> str:
    """Return for people how to run a new study, and how to keep it."""
    grid, published = study_files.GRID.format(study=study), study_files.PUBLISHED_PLACE.format(study=study)
    run = f"snakemake --cores 1 --config 'studies=[{study}]' 'drives=[{default_drive(root)}]'"
    first = (
        f"Fill in `source` in {grid}, and what the source published in {published}/ (data/published/README.md explains"
        f" each column and key). Then run it: {run}"
        if with_source
        else f"Run it: {run}\nThen edit {grid}: what it varies is up to you."
    )
    return f"{first}\nTo keep it, add {study} to studies in config/config.yaml. docs/add-a-study.md has an example."
