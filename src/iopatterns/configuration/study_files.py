"""The places of the files of a study, which follow from the name of the study.

A study is a set of experiments that reproduce a source, such as a paper or data sheet. A study has files in no other
place, so that the study can be packed, added and removed as a unit.
"""

import re
from collections.abc import Iterator
from pathlib import Path

# Files, by content. `{study}` stands for the name of the study.
GRID = "config/studies/{study}.yaml"
NOTEBOOK = "notebooks/{study}.ipynb"
CODE = "notebooks/{study}.py"  # code for the notebook only
SECTION = "paper/studies/{study}.typ"
ABLATION = "data/ablation/{study}.yaml"
SCALE = "data/scale/{study}.yaml"
ROBUSTNESS = "data/robustness/{study}.yaml"
MANIFESTS = "data/manifests/*/{study}.sha256"  # one for each version of fio
# Folders. PUBLISHED_PLACE contains values.csv, drives.csv, claims.yaml and expectations.yaml. TESTS_PLACE contains the
# recorded measurement (recorded.parquet, recorded.tuning.json) and the tests of the study.
PUBLISHED_PLACE = "data/published/{study}"
TRACES_PLACE = "data/traces/{study}"
WORKLOADS_PLACE = "data/workloads/{study}"
TESTS_PLACE = "tests/studies/{study}"

FOLDERS = (PUBLISHED_PLACE, TRACES_PLACE, WORKLOADS_PLACE, TESTS_PLACE)
PLACES = (
    GRID,
    PUBLISHED_PLACE,
    NOTEBOOK,
    CODE,
    SECTION,
    TRACES_PLACE,
    WORKLOADS_PLACE,
    TESTS_PLACE,
    ABLATION,
    SCALE,
    ROBUSTNESS,
    MANIFESTS,
)

_NAME = re.compile("[a-z0-9][a-z0-9_-]*")


def is_study_name(text: str) -> bool:
    """Return whether a text is a valid name for a study.

    A name consists of lower-case letters, digits, ``_`` and ``-``, and begins with a letter or digit.
    """
    return _NAME.fullmatch(text) is not None


def study_names(root: Path) -> list[str]:
    """Return the names of all studies in config/studies, sorted.

    Each file ``config/studies/NAME.yaml`` is a study. Studies that config.yaml does not select are included.

    Args:
        root: The folder of the project.
    """
    return sorted(path.stem for path in root.glob(GRID.format(study="*")))


def existing_places(root: Path, study: str) -> Iterator[Path]:
    """Yield the existing files and folders that belong to a study.

    Examples are ``config/studies/x.yaml`` and the folder ``data/published/x``. Symbolic links are yielded too. The
    files inside a folder are not yielded; `files_of_study` returns them.

    Args:
        root: The folder of the project.
        study: The name of the study.

    Yields:
        Paths relative to ``root``, in the order of `PLACES`.
    """
    for place in PLACES:
        for path in sorted(root.glob(place.format(study=study))):
            yield path.relative_to(root)


def files_of_study(root: Path, study: str) -> list[Path]:
    """Return all files of a study, including those in its folders.

    Symbolic links are included, but not followed. Hidden files, files in hidden folders, and compiled Python files
    (``__pycache__``) are left out.

    Args:
        root: The folder of the project.
        study: The name of the study.

    Returns:
        Paths relative to ``root``: in the order of `PLACES`, and sorted within a place.
    """
    found: list[Path] = []
    for place in existing_places(root, study):
        path = root / place
        inside = sorted(path.rglob("*")) if path.is_dir() and not path.is_symlink() else [path]
        found += [each.relative_to(root) for each in inside if each.is_symlink() or each.is_file()]
    return [path for path in found if not any(part == "__pycache__" or part[0] == "." for part in path.parts)]


def belongs_to_study(path: str, study: str) -> bool:
    """Return whether a path is a file of a study, or inside a folder of the study.

    Only the path is compared. The file need not exist.

    Args:
        path: The path relative to the folder of the project, such as ``data/published/x/values.csv``.
        study: The name of the study, such as ``x``.
    """
    for place in PLACES:
        pattern = re.escape(place.format(study=study)).replace(r"\*", "[^/]+")
        if re.fullmatch(f"{pattern}(/[^/]+)+" if place in FOLDERS else pattern, path):
            return True
    return False
