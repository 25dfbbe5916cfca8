"""Records of expensive measurements that are committed, such as data/ablation/<study>.yaml.

A default run only reads these records. A record has checksums of everything that it was made from (``made_from``), so
that a later change shows that the record is stale.
"""

import hashlib
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from iopatterns.base import files, yaml_schema
from iopatterns.base.errors import IoPatternsError
from iopatterns.configuration import config, kinds, study_files
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


@dataclass(frozen=True)
class RecordKind:
    """A kind of committed record: a file for each study, which one command makes.

    Attributes:
        place: The path of the file, relative to the project's folder. ``{study}`` stands for the name of the study.
        command: The command that makes the files.
        keys: The keys that a file has, each with a mapping, in addition to ``made_from``.
    """

    place: str
    command: str
    keys: tuple[str, ...]

    def file(self, study: str) -> str:
        """Return the path of a study's record, relative to the project's folder."""
        return self.place.format(study=study)

    def write(
        self, root: Path, study: str, head: str, content: Mapping[str, Any], *, flow: Collection[str] = ()
    ) -> str:
        """Write the record of a study, and return a line that says so.

        Args:
            root: The project's folder.
            study: The name of the study.
            head: The comment at the beginning of the file.
            content: The content. Its key ``made_from`` has the checksums of the inputs, by name.
            flow: Keys of `content` whose innermost mappings are written on one line each.
        """
        parts = [
            yaml.safe_dump(
                {key: value},
                sort_keys=False,
                allow_unicode=True,
                default_flow_style=None if key in flow else False,
                width=math.inf if key in flow else 120,
            )
            for key, value in content.items()
        ]
        files.write_text(root / self.file(study), head + "".join(parts))
        return f"{self.file(study)}: written"

    def read(self, root: Path, study: str) -> dict[str, Any] | None:
        """Return the content of the record of a study; None if the file does not exist.

        Args:
            root: The project's folder.
            study: The name of the study.

        Raises:
            RecordError: The file is not a record.
            ConfigError: The file cannot be read.
        """
        file = self.file(study)
        if not (root / file).exists():
            return None
        content = yaml_schema.read_yaml(root, file)
        if not isinstance(content, dict) or not all(
            isinstance(content.get(key), dict) for key in ("made_from", *self.keys)
        ):
            raise RecordError(f"{file}: this is not a record of `{self.command}`. Make it again: {self.command}")
        return content

    def stale_text(self, study: str, stale: Collection[str]) -> str:
        """Return a sentence that the record of a study is stale, and which command makes it again.

        Args:
            study: The name of the study.
            stale: The names of the changed inputs, at least one, see `stale_inputs`.
        """
        changed = ", ".join(stale)
        return f"{self.file(study)} is stale: {changed} changed since it was made. Make it again: {self.command}"


ABLATION_RECORDS = RecordKind(study_files.ABLATION, "snakemake --cores 2 ablate", ("mechanisms", "flips"))
ROBUSTNESS_RECORDS = RecordKind(study_files.ROBUSTNESS, "snakemake --cores 2 robustness", ("screening", "claims"))
SCALE_RECORDS = RecordKind(study_files.SCALE, "snakemake --cores 2 scale", ("cells",))


def stale_inputs(content: Mapping[str, Any], sums: Mapping[str, str]) -> list[str]:
    """Return the sorted names of the inputs that have changed since a record was made.

    Inputs that the record does not have are not compared.

    Args:
        content: The content of the record.
        sums: The checksums of the present inputs, by name.
    """
    return sorted(name for name, value in sums.items() if content["made_from"].get(name, value) != value)
