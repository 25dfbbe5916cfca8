"""Find the model files of simulated drives (twins) that Snakemake rules read."""

import os
from pathlib import Path

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.twin.state import model_file_path


def model_names(conf: config.Config) -> dict[str, str]:
    """Return the name of the model of each configured simulated drive, by drive name."""
    return {name: drive["model"] for name, drive in conf.drives.items() if kinds.is_simulated(drive)}


def model_files(conf: config.Config) -> list[str]:
    """Return the paths of the configured simulated drives' model files.

    The paths are relative to the project's folder, and each is returned once.
    """
    return [os.path.relpath(model_file_path(model), conf.root) for model in sorted(set(model_names(conf).values()))]


def fitted_models(root: Path) -> list[str]:
    """Return the names of the models in data/twins that were fitted to values.

    These are the model files with the key ``fit``.
    """
    models = sorted((root / "data/twins").glob("*.yaml"))
    return [file.stem for file in models if "\nfit:" in file.read_text(encoding="utf-8")]


def fitted_values_file(root: Path, model: str) -> str:
    """Return the path of the file with the values that a model was fitted to.

    Args:
        root: The project's folder.
        model: The name of a model that `fitted_models` returns.
    """
    return str(yaml_schema.read_yaml(root, f"data/twins/{model}.yaml")["fit"]["points"])
