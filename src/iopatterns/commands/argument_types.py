"""Names of drives and studies as arguments that a shell completes."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from iopatterns.base.command_line import CompletedName
from iopatterns.configuration import study_files

_DRIVES_FILE = "config/drives.yaml"


class DriveName(CompletedName):
    """The name of a drive in config/drives.yaml, or of a simulated drive that a study names."""

    name = "drive"

    def names(self) -> Iterable[str]:
        """Return the drives of the project in the current folder."""
        return _drive_names(Path.cwd())


class StudyName(CompletedName):
    """The name of a study, which is that of its file in config/studies."""

    name = "study"

    def names(self) -> Iterable[str]:
        """Return the studies of the project in the current folder."""
        return [path.stem for path in _study_files(Path.cwd())]


def _study_files(root: Path) -> list[Path]:
    return sorted(root.glob(study_files.GRID.format(study="*")))


def _drive_names(root: Path) -> Iterator[str]:
    """Yield the drives that config/drives.yaml and the studies define or name. Files with mistakes have none."""
    yield from _names_in(_content(root / _DRIVES_FILE))
    for path in _study_files(root):
        study = _content(path)
        yield from _names_in(study.get("twins"))
        experiments = study.get("experiments")
        bodies = experiments.values() if isinstance(experiments, dict) else ()
        for body in (study, *bodies):
            yield from _names_in(body.get("drives") if isinstance(body, dict) else None)


def _names_in(content: Any) -> list[str]:
    """Return the texts in a list, or the keys of a mapping."""
    return [each for each in content if isinstance(each, str)] if isinstance(content, (dict, list)) else []


def _content(path: Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; an empty one if the file is missing or has a mistake."""
    from iopatterns.base import yaml_files

    try:
        content = yaml_files.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
