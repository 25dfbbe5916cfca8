"""The JSON schemas that validate the files in config/."""

from pathlib import Path
from typing import Any

from iopatterns.base.yaml_schema import read_yaml
from iopatterns.configuration import factors, kinds

SCHEMAS_FOLDER = "workflow/schemas"
_SHARED = f"{SCHEMAS_FOLDER}/shared.yaml"


def load_schema(root: Path, name: str) -> dict[str, Any]:
    """Return the JSON schema of one kind of configuration file.

    The schema validates ``config/config.yaml`` (``config``), ``config/drives.yaml`` (``drives``) or a study file in
    ``config/studies`` (``study``). Its ``$defs`` contain the definitions that all schemas share: those in
    ``workflow/schemas/shared.yaml``, a definition for each factor (an option of fio or a drive setting), and a
    definition for each kind of drive.

    Args:
        root: The folder of the project.
        name: The name of the schema: ``config``, ``drives`` or ``study``.

    Returns:
        The schema as a nested dictionary.

    Raises:
        ConfigError: A schema file is missing, cannot be read or is not valid YAML.
    """
    schema: dict[str, Any] = read_yaml(root, f"{SCHEMAS_FOLDER}/{name}.schema.yaml")
    return {**schema, "$defs": {**read_yaml(root, _SHARED), **factors.factor_definitions(), **kinds.kind_definitions()}}
