"""Model files of simulated drives (twins) that rules read."""

import os
from pathlib import Path

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.twin.state import model_file_path


def model_names(conf: config.Config) -> dict[str, str]:
    """Return the model of each configured simulated drive, by drive."""
    return {name: drive["model"] for name, drive in conf.drives.items() if kinds.is_simulated(drive)}


def model_files(conf: config.Config) -> list[str]:
    """Return the model files of the configured simulated drives."""
    return [os.path.relpath(model_file_path(model), conf.root) for model in sorted(set(model_names(conf).values()))]


def fitted_models(root: Path) -> list[str]:
    """Return the names of the models in data/twins that record a fit."""
    models = sorted((root / "data/twins").glob("*.yaml"))
    return [file.stem for file in models if "\nfit:" in file.read_text(encoding="utf-8")]


def fitted_values_file(root: Path, model: str) -> str:
    """Return the path of the published values that a model was fitted to."""
    return str(yaml_schema.read_yaml(root, f"data/twins/{model}.yaml")["fit"]["points"])
