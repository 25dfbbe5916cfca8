"""The places of the files of a study, which follow from the name of the study.

No other file of the project belongs to a study, so that a study can be packed, added and removed as a unit.
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
    MANIFESTS,
)

_NAME = re.compile("[a-z0-9][a-z0-9_-]*")


def is_study_name(text: str) -> bool:
    """Return whether a text is a valid name for a study."""
    return _NAME.fullmatch(text) is not None


def study_names(root: Path) -> list[str]:
    """Return the names of all studies in a project, configured or not."""
    return sorted(path.stem for path in root.glob(GRID.format(study="*")))


def existing_places(root: Path, study: str) -> Iterator[Path]:
    """Yield the existing files, folders and links of a study.

    The paths are relative to ``root``, in the order of `PLACES`.
    """
    for place in PLACES:
        for path in sorted(root.glob(place.format(study=study))):
            yield path.relative_to(root)


def files_of_study(root: Path, study: str) -> list[Path]:
    """Return the files of a study, relative to ``root``, in the order of `PLACES`.

    Links are included, but not their targets. Hidden files and compiled Python are left out.
    """
    found: list[Path] = []
    for place in existing_places(root, study):
        path = root / place
        inside = sorted(path.rglob("*")) if path.is_dir() and not path.is_symlink() else [path]
        found += [each.relative_to(root) for each in inside if each.is_symlink() or each.is_file()]
    return [path for path in found if not any(part == "__pycache__" or part[0] == "." for part in path.parts)]


def belongs_to_study(path: str, study: str) -> bool:
    """Return whether a path is a place of a study, or inside its folders.

    Args:
        path: The path, relative to the project.
        study: The name of the study.
    """
    for place in PLACES:
        pattern = re.escape(place.format(study=study)).replace(r"\*", "[^/]+")
        if re.fullmatch(f"{pattern}(/[^/]+)+" if place in FOLDERS else pattern, path):
            return True
    return False
