"""YAML files that people write: read, and held against closed schemas, with messages that name the nearest choice."""

import difflib
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs

from iopatterns.base import files, units, yaml_files
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable

# No valid name is nearly as long; comparing longer ones takes long
_LONGEST_WORD = 100
# How many mistakes of a file are explained; the others are counted
_MOST_PROBLEMS = 20


class ConfigError(IoPatternsError):
    """Something in config/ is not as its schema says; the message names file, key and valid choices."""

    exit_status = 2


def read_yaml(root: Path, file: str) -> Any:
    """Return the content of a YAML file below ``root``: what JSON can hold. Raises ConfigError with file and line."""
    try:
        text = files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such file below {root}") from None
    except files.UnreadableError as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    try:
        return yaml_files.parse_yaml(text)
    except yaml_files.YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise ConfigError(f"{file}{line}: not valid YAML: {error}") from None


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the valid word nearest to a mistyped one, or nothing."""
    if len(word) > _LONGEST_WORD:
        return ""
    close = difflib.get_close_matches(word, list(valid), n=1, cutoff=0.5)
    return f" Did you mean '{close[0]}'?" if close else ""


def require_valid(file: str, content: Any, schema: dict[str, Any]) -> None:
    """Raise ConfigError with one line for each place at which ``content`` breaks ``schema``."""
    if content is None:
        raise ConfigError(f"{file}: the file is empty")
    try:
        errors = jsonschema_rs.validator_for(schema, keywords={"x-unit": _UnitKeyword}).iter_errors(content)
    except ValueError as error:  # of what --config gives, Snakemake makes dates and the like, which JSON has not
        raise ConfigError(f"{file}: holds a value that is neither text nor a number: {printable(error)}") from None
    first = list(itertools.islice(errors, _MOST_PROBLEMS))
    problems = [problem for error in first for problem in _explain(error, schema)]
    if problems:
        lines = [f"{file}: {problem}" for problem in dict.fromkeys(problems)]
        more = len(lines[_MOST_PROBLEMS:]) + sum(1 for _ in errors)
        counted = [f"{file}: and {more} more mistakes"] if more else []
        raise ConfigError("\n".join([*lines[:_MOST_PROBLEMS], *counted]))


def _place(path: Iterable[str | int]) -> str:
    """Return ``drives[0].kind`` for ``["drives", 0, "kind"]``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explain(error: jsonschema_rs.ValidationError, schema: dict[str, Any]) -> list[str]:
    """Return one sentence a mistake: the key, what is wrong, the nearest valid choice."""
    place = printable(_place(error.instance_path))
    instance = printable(repr(error.instance))
    prefix = f"{place}: " if place else ""
    kind = error.kind.as_dict()
    node = _resolve(schema, error.schema_path)
    hint = node.get("x-hint", "")
    expected = f" Expected: {hint}." if hint else ""
    if "unexpected" in kind:
        valid = list(node.get("properties", {}))
        return [
            f"{prefix}unknown key '{printable(key)}'.{did_you_mean(key, valid)} Valid here: {', '.join(valid)}."
            for key in kind["unexpected"][:_MOST_PROBLEMS]
        ]
    match error.kind.name:
        case "required":
            return [f"{prefix}the key '{kind['property']}' is missing. Add it: see the comments in the file."]
        case "propertyNames":
            return [f"{prefix}a name here {printable(error.message)}. Use letters, digits, '_', '-' and '.'."]
        case "enum":
            options = [str(option) for option in kind["options"]]
            return [f"{prefix}{instance} is not valid.{did_you_mean(str(error.instance), options)}{expected}"]
        case "x-unit":
            return [f"{prefix}{printable(error.message)}.{_unit_help(str(error.instance))}{expected}"]
        case "minItems" | "minProperties":
            return [f"{prefix}must not be empty.{expected}"]
        case "uniqueItems":
            return [f"{prefix}{instance} holds a value twice.{expected}"]
        case "type" | "oneOf":
            return [f"{prefix}{instance} is not valid.{expected}"]
    return [f"{prefix}{instance} is not valid ({printable(error.message)}).{expected}"]


def _resolve(schema: dict[str, Any], path: Iterable[str | int]) -> dict[str, Any]:
    """Return the subschema that an error's schema path ends in, through any ``$ref`` on the way."""
    node: Any = schema
    found: dict[str, Any] = schema
    for part in path:
        if isinstance(node, dict) and "$ref" in node and part != "$ref":
            node = _reference(schema, node)
        node = _reference(schema, node) if part == "$ref" else node[part]
        # a list is not valid because one of its items is not: the item's own hint is the better one
        if isinstance(node, dict):
            found = node
    return found


def _reference(schema: dict[str, Any], node: Mapping[str, Any]) -> Any:
    target: Any = schema
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return target


class _UnitKeyword:
    """The keyword ``x-unit``: a text must read as the unit says, and be no less than the schema's minimum."""

    def __init__(self, schema: dict[str, Any], unit: str, _: Any) -> None:
        self._least = schema.get("minimum")
        self._unit = unit

    def validate(self, instance: Any) -> None:
        """Raise ValueError for a text that is not valid. The schema's type decides about other values."""
        if isinstance(instance, str):
            value = units.canonical_value(instance, self._unit)
            if self._least is not None and value < self._least:
                raise ValueError(f"{instance!r} is too small")


def _unit_help(text: str) -> str:
    """Return advice for the units that people write and that could mean two things."""
    unit = text.lstrip("0123456789. ")
    if unit.upper() in {"KB", "MB", "GB", "TB"}:
        binary = f"{unit[0].upper()}iB"
        return f" '{unit}' may mean powers of ten or of two; write '{binary}' for powers of two."
    if unit in {"sec", "secs", "second", "seconds"}:
        return " Did you mean 's'?"
    if unit in {"m", "minutes", "minute"}:
        return " Did you mean 'min'?"
    return " The unit is missing." if not unit else ""
