"""Begins a study: a notebook and a section of the report that show each experiment of any grid."""

import os
import re
from pathlib import Path

from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable

_TEMPLATES = Path(__file__).with_name("templates")
# Where each template goes; {study} is the study's name
_FILES = {"study.ipynb": "notebooks/{study}.ipynb", "study.typ": "paper/studies/{study}.typ"}
_NAME = "the-study"  # what stands for the study's name in the templates


class SkeletonError(IoPatternsError):
    """A study cannot be begun under a name."""

    exit_status = 2


def write(root: Path, study: str) -> list[Path]:
    """Write the notebook and the section of a study below ``root``, or the one that is missing; return their paths.

    Nothing is overwritten. Raises SkeletonError for a name that is none, where both files are there already, and for a
    folder that is not the project's.
    """
    if not re.fullmatch("[a-z0-9][a-z0-9_-]*", study):
        shown = printable(study)
        raise SkeletonError(f"'{shown}' is no name for a study. Use small letters, digits, '-' and '_', such as zhou.")
    paths = {template: Path(path.format(study=study)) for template, path in _FILES.items()}
    for path in paths.values():
        if not (root / path.parent).is_dir():
            raise SkeletonError(f"{path.parent}: there is no such folder here. Run this in the project's own folder.")
    missing = {template: path for template, path in paths.items() if not os.path.lexists(root / path)}
    if not missing:
        there = " and ".join(map(str, paths.values()))
        raise SkeletonError(f"{there}: there already. Choose another name for the study, or delete one of them.")
    for template, path in missing.items():
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        (root / path).write_text(text.replace(_NAME, study), encoding="utf-8")
    return list(missing.values())


def what_else(study: str) -> str:
    """Return what a study needs besides, for people."""
    return (
        f"Now write config/studies/{study}.yaml (each experiment with tables and figures of its own name), and, where"
        f" it has a source, what that published: values.csv, drives.csv and claims.yaml in data/published/{study}/."
        " CONTRIBUTING.md goes through an example."
    )
