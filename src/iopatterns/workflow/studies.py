"""Describe the studies of the project, and find mistakes in them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable
from iopatterns.base.yaml_schema import ConfigError, read_yaml
from iopatterns.configuration import config, grid, sources, study_files


def study_problems(root: Path, study: str) -> list[str]:
    """Return a message for each mistake in a study; an empty list if there is none.

    The configuration of the study is checked, and whether its files exist: the notebook, the section of the report, and
    the published data if the study has any. A study is checked even if config/config.yaml does not name it.

    Args:
        root: The project's folder.
        study: The name of the study.
    """
    found: list[str] = []
    try:
        conf = _load(root, study)
        if not any(True for _ in grid.expand_grid(conf, study)):
            found.append(
                f"{study_files.GRID.format(study=study)}: no configured drive has a cell. Name one under drives."
            )
    except IoPatternsError as error:
        found += str(error).splitlines()
    wanted = [study_files.NOTEBOOK, study_files.SECTION]
    if sources.has_published(root, study):
        wanted += [f"{study_files.PUBLISHED_PLACE}/{name}" for name in ("values.csv", "drives.csv", "claims.yaml")]
    return found + sources.file_problems(root, (path.format(study=study) for path in wanted))


def study_overview(root: Path, study: str) -> str:
    """Return a description of a study as several lines of text.

    The first line has the title. The second line says whether config/config.yaml names the study, and how many cells,
    drives, repetitions and claims the study has. The other lines are the places of the study's files. An invalid study
    is described, too.

    Args:
        root: The project's folder.
        study: The name of the study.
    """
    lines = [f"{study}: {_title(root, study)}", f"  {', '.join(_extent(root, study))}"]
    files = study_files.files_of_study(root, study)
    lines += [f"  {place}{_count(root / place, files, root)}" for place in study_files.existing_places(root, study)]
    return "\n".join(lines)


def study_extent(root: Path, study: str) -> str:
    """Return a study's number of cells, drives and repetitions as text.

    An example is ``12 cells on 2 drives, 10 repetitions each``. A cell is one configuration: a drive, its settings and
    a workload. If config/config.yaml does not name the study, the cells on the drives that the study names are counted.

    Args:
        root: The project's folder.
        study: The name of the study.

    Raises:
        ConfigError: The study is invalid or does not exist.
    """
    conf = _load(root, study)
    cells = list(grid.expand_grid(conf, study))
    counts = [(len(cells), "cell"), (len({cell.drive for cell in cells}), "drive")]
    return (
        f"{' on '.join(_number(*each) for each in counts)}, {_number(grid.repetitions(conf, study), 'repetition')} each"
    )


def _load(root: Path, study: str) -> config.Config:
    """Return the configuration with one study only.

    If config/config.yaml does not name the study, the drives that the study names replace the configured drives.
    """
    conf = config.load_config(root, {"studies": [study]})
    drives = list(dict.fromkeys(drive_names_in(study_grid(root, study))))
    if is_configured(root, study) or not drives:
        return conf
    return config.load_config(root, {"studies": [study], "drives": drives, "independent_drives": []})


def is_configured(root: Path, study: str) -> bool:
    """Return whether the list ``studies`` in config/config.yaml contains a study."""
    return study in (yaml_mapping(root, config.CONFIG_FILE).get("studies") or ())


def yaml_mapping(root: Path, file: str) -> dict[str, Any]:
    """Return the content of a YAML file of the project as a mapping.

    The mapping is empty if the file is missing, is not valid YAML, or contains something other than a mapping.

    Args:
        root: The project's folder.
        file: The path of the file, relative to `root`, such as ``config/drives.yaml``.
    """
    try:
        content = read_yaml(root, file)
    except ConfigError:
        return {}
    return content if isinstance(content, dict) else {}


def study_grid(root: Path, study: str) -> dict[str, Any]:
    """Return the content of config/studies/<study>.yaml as a mapping.

    The mapping is empty if the file is missing or is not valid YAML. The values are not checked.
    """
    return yaml_mapping(root, study_files.GRID.format(study=study))


def drive_names_in(content: Any) -> Iterator[str]:
    """Yield each drive name in the content of a study's file or file of recordings.

    Drive names are the values of the keys ``drive``, ``drives`` and ``others`` at any depth. A name that occurs several
    times is yielded several times.

    Args:
        content: The content of the YAML file: mappings, lists and scalars.
    """
    if isinstance(content, dict):
        for key, value in content.items():
            if key in {"drive", "drives", "others"}:
                yield from (name for name in (value if isinstance(value, list) else [value]) if isinstance(name, str))
            yield from drive_names_in(value)
    elif isinstance(content, list):
        for value in content:
            yield from drive_names_in(value)


def _title(root: Path, study: str) -> str:
    return printable(study_grid(root, study).get("title", "without a title"))


def _extent(root: Path, study: str) -> Iterator[str]:
    yield "configured" if is_configured(root, study) else f"not configured ({config.CONFIG_FILE}: studies)"
    try:
        yield study_extent(root, study)
    except IoPatternsError:
        yield f"with mistakes (`iopatterns study check {study}`)"
    claims = yaml_mapping(root, f"{study_files.PUBLISHED_PLACE.format(study=study)}/claims.yaml").get("claims")
    yield _number(len(claims), "claim") if isinstance(claims, list) and claims else "no claims"


def _count(place: Path, files: Iterable[Path], root: Path) -> str:
    """Return the number of a study's files in a folder, such as `` (3 files)``.

    The text is empty if the place is not a folder.
    """
    if place.is_symlink() or not place.is_dir():
        return ""
    return f" ({_number(sum((root / file).is_relative_to(place) for file in files), 'file')})"


def _number(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
