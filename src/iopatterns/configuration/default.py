"""What a study was configured with, and in what that differs from the default run that expectations are of."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from iopatterns.base import files, yaml_schema
from iopatterns.configuration import config, grid
from iopatterns.raw import cells

FILE = "data/default.yaml"
_HEAD = (
    "# What each study was configured with in the run that data/expectations are of; `iopatterns scorecard --expect`\n"
    "# renews it. A run of other values is not held against the expectations.\n"
)
_DIGITS = 8  # of the digest of an experiment's options and levels


def described(conf: config.Config, study: str) -> dict[str, Any]:
    """Return all that decides what is measured and computed of a study on twins, other than the drives themselves.

    Keys: repetitions, runtime_ms (by experiment), file_size_bytes, seed, interval, confidence, and experiments: a
    digest of the options and levels of each.
    """
    content = conf.studies[study]
    return {
        "repetitions": grid.repetitions(conf, study),
        "runtime_ms": {name: config.runtime_ms(conf, study, name) for name in content["experiments"]},
        "file_size_bytes": conf.file_size_bytes,
        "seed": conf.seed,
        "interval": conf.interval,
        "confidence": conf.confidence,
        "experiments": {name: _digest(content, body) for name, body in content["experiments"].items()},
    }


def _digest(content: config.Study, body: config.Experiment) -> str:
    asked = {"fio": {**content["fio"], **body.get("fio", {})}, "vary": body["vary"], "regions": body.get("regions")}
    return cells.digest(asked)[:_DIGITS]


def differences(found: Mapping[str, Any], default: Mapping[str, Any]) -> list[str]:
    """Return the names of what one configuration of a study has otherwise than another, as config/ has them.

    Both are as `described` returns them. An experiment that only one of them has makes no difference: of what was not
    measured nothing is said.
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


def load(root: Path) -> dict[str, dict[str, Any]]:
    """Return the default's configuration of each study by name; nothing where none is recorded. Raises ConfigError."""
    if not (root / FILE).exists():
        return {}
    content = yaml_schema.read_yaml(root, FILE)
    if not (isinstance(content, dict) and all(isinstance(study, dict) for study in content.values())):
        raise yaml_schema.ConfigError(
            f"{FILE}: no mapping from studies to what they were configured with. Restore it: git checkout -- {FILE}"
        )
    return content


def record(root: Path, studies: Mapping[str, Mapping[str, Any]]) -> Path:
    """Make what some studies were configured with the default; others keep theirs. Return the file's path."""
    content = {**load(root), **{name: dict(found) for name, found in studies.items()}}
    text = _HEAD + yaml.safe_dump(content, sort_keys=False)
    path = root / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    return path
