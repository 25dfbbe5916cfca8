"""The drives that can be measured, and the entries that describe them.

There are three groups: the user's drives in config/drives.yaml, the simulated drives that studies define, and one
simulated drive for each model in data/twins. Such a model file contains the parameters of a simulated drive.
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
    """All drives of a project that can be measured, with their configuration entries.

    The drives are those in config/drives.yaml, the simulated drives that studies define, and one simulated drive for
    each model in data/twins.

    Attributes:
        root: The folder of the project.
        entries: The entry of each drive, by name. An entry is a dictionary with the keys of config/drives.yaml, such as
            ``{"kind": "twin", "model": "c400"}``.
        places: The file and key of each entry, by name of the drive, for messages. An example is
            ``config/drives.yaml: labdisk``.
        user_drives: The names of the drives in config/drives.yaml.
        study_drives: The names of the drives that a study names, even if the study is not configured. These drives run
            only in the experiments that name them.
    """

    root: Path
    entries: Mapping[str, kinds.DriveEntry]
    places: Mapping[str, str]
    user_drives: frozenset[str]
    study_drives: frozenset[str]

    def resolved(self, name: str) -> kinds.ResolvedEntry:
        """Return the entry of a drive, with what is read from the file that it refers to.

        - The entry of a simulated drive gets the SHA-256 of its model with the values of ``set`` (key
          ``model_digest``). The values of ``set`` become text.
        - The entry of an archived drive gets the list of the cells in its archive (key ``contents``).
        - Other entries are returned unchanged.

        Args:
            name: The name of a drive in `entries`.

        Raises:
            ConfigError: The model or the archive cannot be read, or a value of ``set`` is not valid.
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
    """Return all drives of a project that can be measured, with their entries.

    The drives are those in config/drives.yaml, the simulated drives that studies define, and one simulated drive for
    each model in data/twins. Studies that cannot be read are ignored.

    Args:
        root: The folder of the project.
        complete: Whether to check that each entry of config/drives.yaml has all keys that its kind requires, and no
            keys that its kind does not allow.

    Raises:
        ConfigError: config/drives.yaml has a mistake, or two files define different drives of the same name.
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

    These are the drives in config/drives.yaml, the simulated drives that the study defines, and the models of simulated
    drives in data/twins. A name may occur several times.

    Args:
        study: The content of the study file.
        known: All drives of the project, from `read_drive_entries`.
    """
    return [*known.user_drives, *_defined(study), *_models()]


def named_drives(root: Path) -> Iterator[str]:
    """Yield the names of the drives in config/drives.yaml and in all study files.

    Study files are in config/studies. Files with mistakes are ignored. A name may be yielded several times.

    Args:
        root: The folder of the project.
    """
    for _, drives in _readable(root, [root / DRIVES_FILE]):
        yield from drives
    for _, study in _studies(root):
        yield from _defined(study)
        yield from _all_names(study)


def twins_of_studies(studies: Iterable[Mapping[str, Any]], known: DriveEntries) -> list[str]:
    """Return the names of the simulated drives that the given studies name.

    Real and archived drives are left out. Each name occurs once. The drives of each study keep the order of its file.
    If two studies contradict each other, the order in the first applies.

    Args:
        studies: The contents of the study files.
        known: All drives of the project, from `read_drive_entries`.
    """
    named = [dict.fromkeys(_all_names(study)) for study in studies]
    return _merged([[name for name in names if kinds.is_simulated(known.entries[name])] for names in named])


def _merged(sequences: Sequence[Sequence[str]]) -> list[str]:
    """Merge sequences into one that contains each name once and keeps their orders.

    This works like the method resolution order of Python, which merges base classes. If the orders of two sequences
    contradict each other, the order of the first applies.
    """
    merged: list[str] = []
    while sequences := [sequence for sequence in sequences if sequence]:
        later = {name for sequence in sequences for name in sequence[1:]}
        first = [sequence[0] for sequence in sequences]
        merged.append(next((name for name in first if name not in later), first[0]))
        sequences = [[name for name in sequence if name != merged[-1]] for sequence in sequences]
    return merged


def _of_user(root: Path, *, complete: bool) -> dict[str, kinds.DriveEntry]:
    """Return the validated entries of config/drives.yaml, by name.

    Args:
        root: The folder of the project.
        complete: Whether to check that each entry has the keys that its kind requires.

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
    """Yield the path and content of each study in config/studies.

    Paths are relative to ``root``. Files that are unreadable or not a mapping are ignored.
    """
    yield from _readable(root, sorted(root.glob(study_files.GRID.format(study="*"))))


def _readable(root: Path, paths: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the path and content of each YAML file that is a readable mapping.

    The yielded paths are relative to ``root``. Other files are ignored.
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
    """Yield the names of the drives that a study and its experiments list.

    Malformed parts of the study are ignored.
    """
    experiments = study.get("experiments")
    bodies = experiments.values() if isinstance(experiments, dict) else ()
    for place in (study, *bodies):
        names = place.get("drives") if isinstance(place, dict) else None
        yield from (name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def _defined(study: Mapping[str, Any]) -> dict[str, kinds.TwinEntry]:
    """Return the entries of the simulated drives that a study defines, by name.

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
    """Return an entry of a simulated drive for each model in data/twins, by its name.

    Args:
        among: The names to return; by default all. Names without a model are ignored.
    """
    from iopatterns.twin import models

    names = models.list_models()
    return {name: {"kind": "twin", "model": name} for name in names if among is None or name in among}


def _as_text(twin: kinds.TwinEntry) -> str:
    """Return a simulated drive in the syntax of study files, for a message.

    An example is ``{model: nvme-generic, set: {ftl.initial_state: random}}``.
    """
    values = ", ".join(f"{name}: {value}" for name, value in twin.get("set", {}).items())
    return printable(f"{{model: {twin['model']}{f', set: {{{values}}}' if values else ''}}}")


def _kind_with(key: str) -> str:
    return next(kind.name for kind in kinds.DRIVE_KINDS.values() if key in kind.allowed)


def _check_kinds(drives: Mapping[str, kinds.DriveEntry]) -> None:
    """Raise ConfigError if an entry lacks a key, or has a key of another kind."""
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
    """Raise ConfigError for a path that the operating system cannot resolve.

    Examples are a loop of symbolic links, or too long a name. The path need not exist.
    """
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
