"""The expected verdicts of a study, in its file expectations.yaml.

A verdict says whether a claim (published statement) or a published value is reproduced. The file also records the
configuration of the run that gave the verdicts.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from iopatterns.base import files, yaml_schema
from iopatterns.configuration import config, grid, study_files
from iopatterns.raw import cells

_HEAD = """\
# What the default run finds of each claim and number, and the configuration of that run: `snakemake scorecard` compares
# a run of the same configuration with it. `iopatterns scorecard --expect` writes this file.
"""
_DIGITS = 8  # of the digest of an experiment's options and levels


def study_settings(conf: config.Config, study: str) -> dict[str, Any]:
    """Return the values of the configuration that determine the results of a study.

    The models of its simulated drives are not included.

    Args:
        conf: The configuration.
        study: The name of a configured study.

    Returns:
        A dictionary with these keys:

        - ``repetitions``, ``file_size_bytes``, ``seed``, ``interval`` and ``confidence``: one value each, see
          `config.Config`
        - ``runtime_ms``: the runtime of each experiment, by name of the experiment
        - ``experiments``: eight hexadecimal digits for each experiment, by name. They are a hash of its fio options,
          its levels (the values that it varies), its number of regions, its file size and its longer cells.
    """
    content = conf.studies[study]
    return {
        "repetitions": grid.repetitions(conf, study),
        "runtime_ms": {name: config.experiment_runtime_ms(conf, study, name) for name in content["experiments"]},
        "file_size_bytes": conf.file_size_bytes,
        "seed": conf.seed,
        "interval": conf.interval,
        "confidence": conf.confidence,
        "experiments": {name: _digest(content, body) for name, body in content["experiments"].items()},
    }


def _digest(content: config.StudyConfig, body: config.ExperimentConfig) -> str:
    asked = {"fio": {**content["fio"], **body.get("fio", {})}, "vary": body["vary"], "regions": body.get("regions")}
    asked |= {key: body[key] for key in ("file_size", "longer", "most_outstanding") if key in body}
    return cells.specification_digest(asked)[:_DIGITS]


def setting_differences(found: Mapping[str, Any], default: Mapping[str, Any]) -> list[str]:
    """Return the names of the settings in which two configurations of a study differ.

    An experiment that only one configuration has does not count as a difference.

    Args:
        found: A configuration, as returned by `study_settings`.
        default: The configuration to compare with, as returned by `study_settings`. Settings that it lacks are not
            compared.

    Returns:
        Names for a message, such as ``seed``, ``file_size``, ``runtime`` or ``the levels or options of mix and pause``,
            where ``mix`` and ``pause`` are experiments. The list is empty if there is no difference.
    """
    names = []
    for key, value in default.items():
        now = found.get(key)
        if not isinstance(value, Mapping):
            if now != value:
                names.append(key.removesuffix("_bytes"))
            continue
        others = [name for name, one in value.items() if isinstance(now, Mapping) and name in now and now[name] != one]
        if others:
            names.append("runtime" if key == "runtime_ms" else f"the levels or options of {' and '.join(others)}")
    return names


@dataclass(frozen=True)
class Expectations:
    """The expected verdicts of a study, and the configuration that they apply to.

    A verdict says whether a claim (published statement) or a published value is reproduced.

    Attributes:
        configured: The configuration, as returned by `study_settings`; empty if it is unknown.
        expected: The expected verdicts, such as ``reproduced``, by id of the claim or published value.
    """

    configured: Mapping[str, Any]
    expected: Mapping[str, str]


def expectations_path(root: Path, study: str) -> Path:
    """Return the path of the file with the expected verdicts of a study.

    The file is ``data/published/STUDY/expectations.yaml`` in the project. It need not exist.

    Args:
        root: The folder of the project.
        study: The name of the study.
    """
    return root / study_files.PUBLISHED_PLACE.format(study=study) / "expectations.yaml"


def load_expectations(root: Path, study: str) -> Expectations | None:
    """Return the expected verdicts of a study, or None if their file does not exist.

    A verdict says whether a claim (published statement) or a published value is reproduced. The file is
    ``data/published/STUDY/expectations.yaml``.

    Args:
        root: The folder of the project.
        study: The name of the study.

    Raises:
        ConfigError: The file is malformed.
    """
    path = expectations_path(root, study)
    if not path.exists():
        return None
    file = str(path.relative_to(root))
    content = yaml_schema.read_yaml(root, file)
    configured, expected = (
        content.get(key) if isinstance(content, dict) else None for key in ("configured", "expected")
    )
    if not (isinstance(configured, dict) and isinstance(expected, dict)):
        raise yaml_schema.ConfigError(
            f"{file}: needs the keys 'configured' and 'expected', each with a mapping. Restore the file, or write it"
            " again: iopatterns scorecard --expect"
        )
    return Expectations(configured, expected)


def write_expectations(root: Path, study: str, expectations: Expectations) -> Path:
    """Write the expected verdicts of a study to its expectations.yaml.

    An existing file is replaced, atomically.

    Args:
        root: The folder of the project.
        study: The name of the study.
        expectations: The expected verdicts, and the configuration that they apply to.

    Returns:
        The path of the file.
    """
    path = expectations_path(root, study)
    files.write_text(path, _HEAD + yaml.safe_dump(asdict(expectations), sort_keys=False, allow_unicode=True))
    return path
