"""The closed schemas of config/, with the definitions that several of them share."""

from pathlib import Path
from typing import Any

from iopatterns.base.yaml_schema import read_yaml
from iopatterns.configuration import factors, kinds

SCHEMAS_FOLDER = "workflow/schemas"
_SHARED = f"{SCHEMAS_FOLDER}/shared.yaml"


def load_schema(root: Path, name: str) -> dict[str, Any]:
    """Return the schema of that name; its ``$defs`` are those of shared.yaml, `factors` and `kinds`."""
    schema: dict[str, Any] = read_yaml(root, f"{SCHEMAS_FOLDER}/{name}.schema.yaml")
    return {**schema, "$defs": {**read_yaml(root, _SHARED), **factors.factor_definitions(), **kinds.kind_definitions()}}
