"""Records of expensive measurements that are committed, such as data/ablation/<study>.yaml.

A default run only reads these records. A record has checksums of everything that it was made from (``made_from``), so
that a later change shows that the record is stale.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, kinds
from iopatterns.raw import cells
from iopatterns.twin import models

_DIGITS = 16  # of a checksum


class RecordError(IoPatternsError):
    """The error raised if a committed record cannot be read.

    The message names the file and the command that makes it.
    """

    exit_status = 2


def checksum(content: Any) -> str:
    """Return a checksum of 16 hexadecimal digits of a value that can be written as JSON."""
    return hashlib.sha256(cells.canonical_json(content).encode()).hexdigest()[:_DIGITS]


def drive_checksums(drives: Mapping[str, kinds.ResolvedEntry]) -> dict[str, str]:
    """Return checksums of everything that simulated drives depend on.

    Args:
        drives: The entries of the drives, by name. Drives that are not simulated are left out.

    Returns:
        A checksum for each model, with the path of its file as key, and for each drive with changed parameters, with
        ``drive NAME`` as key. The checksum of a model covers its parameters.
    """
    twins = {name: entry for name, entry in drives.items() if kinds.is_simulated(entry)}
    sums = {
        f"data/twins/{model}.yaml": models.load_model(model).digest[:_DIGITS]
        for model in sorted({entry["model"] for entry in twins.values()})
    }
    changed = {name: entry for name, entry in twins.items() if entry.get("set")}
    return sums | {f"drive {name}": checksum([entry["model"], entry["set"]]) for name, entry in changed.items()}


def trace_checksums(root: Path, paths: Iterable[str]) -> dict[str, str]:
    """Return one checksum of all given trace files, with the key ``traces``; empty without files.

    Args:
        root: The project's folder.
        paths: The paths of the files, relative to `root`.
    """
    sums = {path: files.sha256(root / path) for path in paths}
    return {"traces": checksum(sums)} if sums else {}


def settings_checksum(conf: config.Config) -> dict[str, str]:
    """Return a checksum of the settings of config/config.yaml that determine a measurement, with the file as key."""
    settings = {"runtime_ms": conf.runtime_ms, "file_size_bytes": conf.file_size_bytes, "seed": conf.seed}
    return {config.CONFIG_FILE: checksum(settings)}


def write_record(root: Path, file: str, head: str, content: Mapping[str, Any], *, flow: Collection[str] = ()) -> str:
    """Write a record, and return a line that says so.

    Args:
        root: The project's folder.
        file: The path of the record, relative to `root`.
        head: The comment at the beginning of the file.
        content: The content. Its key ``made_from`` has the checksums of the inputs, by name.
        flow: Keys of `content` whose innermost mappings are written on one line each.
    """
    style: dict[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 120}
    parts = [
        yaml.safe_dump({key: value}, default_flow_style=None if key in flow else False, **style)
        for key, value in content.items()
    ]
    files.write_text(root / file, head + "".join(parts))
    return f"{file}: written"


def read_record(root: Path, file: str, command: str, *keys: str) -> dict[str, Any] | None:
    """Return the content of a record; None if the file does not exist.

    Args:
        root: The project's folder.
        file: The path of the record, relative to `root`.
        command: The command that makes the record, for the message.
        keys: The keys that the record must have, each with a mapping, beside ``made_from``.

    Raises:
        RecordError: The file is not a record.
        ConfigError: The file cannot be read.
    """
    if not (root / file).exists():
        return None
    content = yaml_schema.read_yaml(root, file)
    if not isinstance(content, dict) or not all(isinstance(content.get(key), dict) for key in ("made_from", *keys)):
        raise RecordError(f"{file}: this is not a record of `{command}`. Make it again: {command}")
    return content


def stale_inputs(content: Mapping[str, Any], sums: Mapping[str, str]) -> list[str]:
    """Return the sorted names of the inputs that have changed since a record was made.

    Inputs that the record does not have are not compared.

    Args:
        content: The content of the record.
        sums: The checksums of the present inputs, by name.
    """
    return sorted(name for name, value in sums.items() if content["made_from"].get(name, value) != value)


def stale_text(file: str, stale: Collection[str], command: str) -> str:
    """Return a sentence that a record is stale, with the changed inputs and the command that makes it again.

    Args:
        file: The path of the record.
        stale: The names of the changed inputs, at least one.
        command: The command that makes the record.
    """
    return f"{file} is stale: {', '.join(stale)} changed since it was made. Make it again: {command}"
