"""Create the files of a new study from templates.

The new study can be run without editing. The templates of its notebook and of its section of the report show each
experiment that the study's file declares. If the user later declares other experiments, they are shown, too.
"""

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
# Templates of the published values and claims of a source
_OF_A_SOURCE = {name: f"{study_files.PUBLISHED_PLACE}/{name}" for name in ("values.csv", "drives.csv", "claims.yaml")}
# Placeholders for the names of study and drive in the templates
_NAME, _DRIVE = "the-study", "the-drive"
_USUAL_DRIVE = "c400"


class SkeletonError(IoPatternsError):
    """The files of a new study cannot be created.

    The message has the cause and the remedy.
    """

    exit_status = 2


def create_study(root: Path, study: str, *, with_source: bool = False) -> list[Path]:
    """Write the missing files of a new study; existing files are kept.

    The files are config/studies/<study>.yaml, the notebook notebooks/<study>.ipynb, and the section of the report
    paper/studies/<study>.typ. The study can be run without editing.

    Args:
        root: The project's folder.
        study: The name of the study: lower-case letters, digits, ``-`` and ``_``, such as ``depth-2``.
        with_source: Whether to write also examples of published values, drives and claims, for a study that reproduces
            a publication. They are in data/published/<study>.

    Returns:
        The paths of the written files, relative to `root`.

    Raises:
        SkeletonError: The name is invalid, all files exist already, or `root` is not a project's folder.
    """
    if not study_files.is_study_name(study):
        raise SkeletonError(
            f"'{printable(study)}' cannot be the name of a study. Use lower-case letters, digits, '-' and '_', such as"
            " depth-2."
        )
    places = _FILES | (_OF_A_SOURCE if with_source else {})
    paths = {template: Path(place.format(study=study)) for template, place in places.items()}
    for path in (Path(place) for place in _FILES.values()):
        if not (root / path.parent).is_dir():
            raise SkeletonError(
                f"{path.parent}: there is no such folder here. Run this command in the project's folder."
            )
    missing = {template: path for template, path in paths.items() if not os.path.lexists(root / path)}
    if not missing:
        existing = ", ".join(map(str, paths.values()))
        raise SkeletonError(f"the study '{study}' exists already: {existing}. Choose another name.")
    for template, path in missing.items():
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text.replace(_NAME, study).replace(_DRIVE, default_drive(root)), encoding="utf-8")
    return list(missing.values())


def default_drive(root: Path) -> str:
    """Return the name of the simulated drive that a new study measures, ``c400``.

    If data/twins has no model c400, the drive is the first model in data/twins in alphabetical order.

    Args:
        root: The project's folder.
    """
    models = sorted(path.stem for path in (root / "data/twins").glob("*.yaml"))
    return _USUAL_DRIVE if _USUAL_DRIVE in models or not models else models[0]


def next_step(root: Path, study: str, *, with_source: bool = False) -> str:
    """Return a text for the user: how to run a new study, and how to keep it.

    The text has the command that runs the study, and says how to add the study to the default run.

    Args:
        root: The project's folder.
        study: The name of the study.
        with_source: Whether the study has files of published values. If so, the text asks the user to fill them in.
    """
    grid, published = study_files.GRID.format(study=study), study_files.PUBLISHED_PLACE.format(study=study)
    run = f"snakemake --cores 1 --config 'studies=[{study}]' 'drives=[{default_drive(root)}]'"
    first = (
        f"Fill in `source` in {grid}, and the published values in {published}/ (data/published/README.md explains each"
        f" column and key). Then run the study: {run}"
        if with_source
        else f"Run the study: {run}\nThen edit {grid} to vary what you are interested in."
    )
    last = f"To run the study by default, add {study} to studies in config/config.yaml."
    return f"{first}\n{last} docs/add-a-study.md has an example."
