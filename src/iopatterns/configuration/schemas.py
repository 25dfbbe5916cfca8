"""The JSON schemas of config/, with the definitions that they share."""

from pathlib import Path
from typing import Any

from iopatterns.base.yaml_schema import read_yaml
from iopatterns.configuration import factors, kinds

SCHEMAS_FOLDER = "workflow/schemas"
_SHARED = f"{SCHEMAS_FOLDER}/shared.yaml"


def load_schema(root: Path, name: str) -> dict[str, Any]:
    """Return a schema with the shared definitions in its ``$defs``.

    The definitions come from shared.yaml, `factors` and `kinds`.

    Args:
        root: The folder of the project.
        name: The name of the schema, such as ``study``.
    """
    schema: dict[str, Any] = read_yaml(root, f"{SCHEMAS_FOLDER}/{name}.schema.yaml")
    return {**schema, "$defs": {**read_yaml(root, _SHARED), **factors.factor_definitions(), **kinds.kind_definitions()}}
