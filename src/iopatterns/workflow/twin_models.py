"""Find the model files of simulated drives (twins) that Snakemake rules read.

A model file in data/twins has the parameters of a simulated drive.
"""

import os
from pathlib import Path

from iopatterns.base import yaml_schema
from iopatterns.configuration import config, kinds
from iopatterns.twin.state import model_file_path


def model_names(conf: config.Config) -> dict[str, str]:
    """Return the name of the model of each configured simulated drive, by drive name.

    Several drives may have the same model. An example is ``{"c400-steady": "c400"}``.
    """
    return {name: drive["model"] for name, drive in conf.drives.items() if kinds.is_simulated(drive)}


def model_files(conf: config.Config) -> list[str]:
    """Return the paths of the model files of all configured simulated drives.

    The paths are sorted and relative to the project's folder, such as data/twins/c400.yaml. The file of a model that
    several drives have is returned once.
    """
    return [os.path.relpath(model_file_path(model), conf.root) for model in sorted(set(model_names(conf).values()))]


def fitted_models(root: Path) -> list[str]:
    """Return the names of the models in data/twins that were fitted to values.

    The values are measurements of real drives. A fitted model has the key ``fit`` in its file. The names are sorted.

    Args:
        root: The project's folder.
    """
    models = sorted((root / "data/twins").glob("*.yaml"))
    return [file.stem for file in models if "\nfit:" in file.read_text(encoding="utf-8")]


def fitted_values_file(root: Path, model: str) -> str:
    """Return the path of the file with the values that a model was fitted to.

    The path is relative to the project's folder, such as data/published/saif2020/values.csv.

    Args:
        root: The project's folder.
        model: The name of a model that `fitted_models` returns. Other models have no such file.

    Raises:
        KeyError: The model was not fitted.
    """
    return str(yaml_schema.read_yaml(root, f"data/twins/{model}.yaml")["fit"]["points"])
