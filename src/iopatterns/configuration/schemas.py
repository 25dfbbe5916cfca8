"""The JSON schemas that validate the files in config/."""

from pathlib import Path
from typing import Any

from iopatterns.base.yaml_schema import read_yaml
from iopatterns.configuration import factors, kinds

SCHEMAS_FOLDER = "workflow/schemas"
_SHARED = f"{SCHEMAS_FOLDER}/shared.yaml"


def load_schema(root: Path, name: str) -> dict[str, Any]:
    """Return a JSON schema with the shared definitions in its ``$defs``.

    The definitions come from workflow/schemas/shared.yaml, from the table of factors and from the table of drive kinds.

    Args:
        root: The folder of the project.
        name: The name of the schema: ``config``, ``drives`` or ``study``.

    Raises:
        ConfigError: A schema file cannot be read.
    """
    schema: dict[str, Any] = read_yaml(root, f"{SCHEMAS_FOLDER}/{name}.schema.yaml")
    return {**schema, "$defs": {**read_yaml(root, _SHARED), **factors.factor_definitions(), **kinds.kind_definitions()}}
