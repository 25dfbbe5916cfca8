"""The drives that can be measured.

These are the drives of the user in config/drives.yaml, the simulated drives that studies define, and one simulated
drive for each model in data/twins.
"""

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from iopatterns.base.messages import printable
from iopatterns.base.yaml_schema import ConfigError, read_yaml, require_valid
from iopatterns.configuration import kinds, schemas, study_files

DRIVES_FILE = "config/drives.yaml"
# In `drives` of config.yaml, this word stands for all simulated drives that the configured studies name
ALL_TWINS = "twins"


@dataclass(frozen=True)
class DriveEntries:
    """All drives that can be measured.

    Attributes:
        root: The folder of the project.
        entries: The entry of each drive, by name.
        places: The file and key of each entry, for messages.
        user_drives: The names of drives in config/drives.yaml.
        study_drives: The names of drives that any study names, configured or not. All other drives run in every
            experiment.
    """

    root: Path
    entries: Mapping[str, kinds.DriveEntry]
    places: Mapping[str, str]
    user_drives: frozenset[str]
    study_drives: frozenset[str]

    def resolved(self, name: str) -> kinds.ResolvedEntry:
        """Return the entry of a drive with the content that it refers to.

        A simulated drive gets the digest of its model, and an archived drive gets the contents of its archive.

        Raises:
            ConfigError: The model or the archive cannot be read.
        """
        entry = self.entries[name]
        if kinds.is_archived(entry):
            from iopatterns.raw import archive  # few projects have archives

            try:
                return {**entry, "contents": archive.read_archive(self.root / entry["path"])}
            except archive.ArchiveError as error:
                raise ConfigError(f"{self.places[name]}.path: {error}") from None
        if not kinds.is_simulated(entry):
            return entry
        from iopatterns.twin import models
        from iopatterns.twin.error import TwinError

        try:
            model = models.load_model(entry["model"])
            if "set" not in entry:
                return {**entry, "model_digest": model.digest}
            model = model.with_values(entry["set"], f"{self.places[name]}.set:")
            values = {parameter: models.format_value(parameter, model.values[parameter]) for parameter in entry["set"]}
            return {**entry, "set": values, "model_digest": model.digest}
        except TwinError as error:
            raise ConfigError(str(error)) from None


def read_drive_entries(root: Path, *, complete: bool = True) -> DriveEntries:
    """Return all drives of a project.

    Studies that cannot be read are ignored.

    Args:
        root: The folder of the project.
        complete: Whether each entry of config/drives.yaml must have all keys that its kind requires.

    Raises:
        ConfigError: config/drives.yaml has a mistake, or two files have different drives of the same name.
    """
    entries = _of_user(root, complete=complete)
    places = {name: f"{DRIVES_FILE}: {name}" for name in entries}
    user_drives, study_drives = frozenset(entries), set[str]()
    for file, content in _studies(root):
        named = set(_all_names(content))
        study_drives |= named
        defined = _defined(content)
        for name, twin in {**_models(named), **defined}.items():
            if name not in entries:
                entries[name] = twin
                places[name] = f"{file}: {ALL_TWINS}.{name}" if name in defined else f"{file}: drives: {name}"
            elif name in user_drives or entries[name] != twin:
                raise ConfigError(
                    f"{places[name]}: {file} has another drive of this name: {_as_text(twin)}. Give one of the two"
                    " another name."
                )
    if ALL_TWINS in entries:
        raise ConfigError(
            f"{places[ALL_TWINS]}: this word stands for all simulated drives of the studies in config.yaml. Give the"
            " drive another name."
        )
    for name, twin in _models().items():
        if name not in entries:
            entries[name], places[name] = twin, f"data/twins/{name}.yaml"
    return DriveEntries(root, entries, places, user_drives, frozenset(study_drives))


def valid_drive_names(study: Mapping[str, Any], known: DriveEntries) -> list[str]:
    """Return the names that a study may list under ``drives``.

    These are the drives of the user, the twins of the study, and models.
    """
    return [*known.user_drives, *_defined(study), *_models()]


def named_drives(root: Path) -> Iterator[str]:
    """Yield the drives in config/drives.yaml and in studies.

    Files with mistakes are ignored. Names may occur several times.
    """
    for _, drives in _readable(root, [root / DRIVES_FILE]):
        yield from drives
    for _, study in _studies(root):
        yield from _defined(study)
        yield from _all_names(study)


def twins_of_studies(studies: Iterable[Mapping[str, Any]], known: DriveEntries) -> list[str]:
    """Return the simulated drives that the given studies name.

    The drives of each study keep their order in its file, so that the results of a study do not depend on other
    studies.
    """
    named = [dict.fromkeys(_all_names(study)) for study in studies]
    return _merged([[name for name in names if kinds.is_simulated(known.entries[name])] for names in named])


def _merged(sequences: Sequence[Sequence[str]]) -> list[str]:
    """Merge sequences into one that keeps the order of each.

    Python merges base classes in this way.

    If two sequences contradict each other, the first sequence decides.
    """
    merged: list[str] = []
    while sequences := [sequence for sequence in sequences if sequence]:
        later = {name for sequence in sequences for name in sequence[1:]}
        first = [sequence[0] for sequence in sequences]
        merged.append(next((name for name in first if name not in later), first[0]))
        sequences = [[name for name in sequence if name != merged[-1]] for sequence in sequences]
    return merged


def _of_user(root: Path, *, complete: bool) -> dict[str, kinds.DriveEntry]:
    """Return the validated entries of config/drives.yaml.

    Raises:
        ConfigError: The file has a mistake.
    """
    drives: dict[str, kinds.DriveEntry] = read_yaml(root, DRIVES_FILE)
    require_valid(DRIVES_FILE, drives, schemas.load_schema(root, "drives"))
    if complete:
        _check_kinds(drives)
    _check_paths(root, drives)
    return drives


def _studies(root: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and content of each file in config/studies that is a mapping."""
    yield from _readable(root, sorted(root.glob(study_files.GRID.format(study="*"))))


def _readable(root: Path, paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and content of each file that is a readable mapping.

    The path is relative to ``root``.
    """
    for path in paths:
        file = str(path.relative_to(root))
        try:
            content = read_yaml(root, file)
        except ConfigError:  # reported when the file itself is needed
            continue
        if isinstance(content, dict):
            yield file, content


def _all_names(study: Mapping[str, Any]) -> Iterator[str]:
    """Yield the drives that a study and its experiments name.

    Malformed parts are ignored.
    """
    experiments = study.get("experiments")
    bodies = experiments.values() if isinstance(experiments, dict) else ()
    for place in (study, *bodies):
        names = place.get("drives") if isinstance(place, dict) else None
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _defined(study: Mapping[str, Any]) -> dict[str, kinds.TwinEntry]:
    """Return the simulated drives that a study defines.

    Malformed entries are left out.
    """
    twins = study.get(ALL_TWINS)
    found = twins.items() if isinstance(twins, dict) else ()
    return {
        str(name): cast(kinds.TwinEntry, {"kind": "twin", **body})
        for name, body in found
        if isinstance(body, dict) and isinstance(body.get("model"), str) and isinstance(body.get("set", {}), dict)
    }


def _models(among: Iterable[str] | None = None) -> dict[str, kinds.TwinEntry]:
    """Return a simulated drive for each model in data/twins, by the name of the model.

    Args:
        among: The names to return; by default all.
    """
    from iopatterns.twin import models

    names = models.list_models()
    return {name: {"kind": "twin", "model": name} for name in names if among is None or name in among}


def _as_text(twin: kinds.TwinEntry) -> str:
    """Return a simulated drive in the syntax of a study file, for a message."""
    values = ", ".join(f"{name}: {value}" for name, value in twin.get("set", {}).items())
    return printable(f"{{model: {twin['model']}{f', set: {{{values}}}' if values else ''}}}")


def _kind_with(key: str) -> str:
    return next(kind.name for kind in kinds.DRIVE_KINDS.values() if key in kind.allowed)


def _check_kinds(drives: Mapping[str, kinds.DriveEntry]) -> None:
    """Raise ConfigError for entries with a missing or superfluous key."""
    problems = []
    for name, drive in drives.items():
        kind = kinds.kind_of(drive)
        problems += [
            f"{DRIVES_FILE}: {name}: a drive of kind '{kind.name}' needs the key '{key}'. Add it."
            for key in kind.needed
            if key not in drive
        ]
        problems += [
            f"{DRIVES_FILE}: {name}.{key}: belongs to kind '{_kind_with(key)}', but this drive is a '{kind.name}'"
            for key in sorted(set(drive) - kind.allowed)
        ]
    if problems:
        raise ConfigError("\n".join(problems))


def _check_paths(root: Path, drives: Mapping[str, kinds.DriveEntry]) -> None:
    """Raise ConfigError for a path that the operating system cannot resolve."""
    for name, drive in drives.items():
        if kinds.is_simulated(drive) or "path" not in drive:
            continue
        try:
            os.stat(root / drive["path"])
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            if isinstance(error, ValueError) or error.errno in {errno.ELOOP, errno.ENAMETOOLONG}:
                place = f"{DRIVES_FILE}: {name}.path: {printable(drive['path'])}"
                raise ConfigError(f"{place}: {reason}. Correct the path, or remove the link.") from None
