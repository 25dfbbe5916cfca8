"""Reading of YAML files, and their validation against JSON schemas.

Error messages suggest the most similar valid name.
"""

import difflib
import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iopatterns.base import files, units, yaml_files
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable

if TYPE_CHECKING:
    import jsonschema_rs

# no valid name is nearly as long, and comparing longer words is slow
_LONGEST_WORD = 100
# the number of mistakes of a file that are explained; further ones are counted
_MOST_PROBLEMS = 20


class ConfigError(IoPatternsError):
    """The error raised for a mistake in a configuration file.

    The message names the file, the key and, where they are known, the valid choices. A command that ends with this
    error has the exit status 2.
    """

    exit_status = 2


def read_yaml(root: Path, file: str) -> Any:
    """Return the content of a YAML file, without checking it against a schema.

    The content consists of dict, list, str, int, float, bool and None. An empty file gives None.
    `yaml_files.parse_yaml` describes the accepted YAML. A file may have at most 4 MiB.

    Args:
        root: The folder of the project.
        file: Path of the file, relative to ``root``.

    Raises:
        ConfigError: The file is missing, cannot be read or is not valid YAML. The message names the file and, where it
            is known, the line.
    """
    try:
        text = files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
    except FileNotFoundError:
        raise ConfigError(f"{file}: there is no such file in {root}") from None
    except files.UnreadableError as error:
        raise ConfigError(f"{file}: cannot be read: {error}") from None
    try:
        return yaml_files.parse_yaml(text)
    except yaml_files.YamlError as error:
        line = f", line {error.line}" if error.line else ""
        raise ConfigError(f"{file}{line}: not valid YAML: {error}") from None


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """Return a hint such as ``" Did you mean 'x'?"`` for a mistyped word.

    The hint begins with a space, so that it can follow a sentence. It is empty if no valid word is similar. Letter case
    does not matter.

    Args:
        word: The mistyped word.
        valid: The valid words.
    """
    if len(word) > _LONGEST_WORD:
        return ""
    by_lower_case = {each.lower(): each for each in valid}
    close = difflib.get_close_matches(word.lower(), by_lower_case, n=1, cutoff=0.5)
    return f" Did you mean '{by_lower_case[close[0]]}'?" if close else ""


def require_valid(file: str, content: Any, schema: dict[str, Any]) -> None:
    """Raise ConfigError if the content of a file does not match a JSON schema.

    The message has one line for each mistake. It explains at most 20 mistakes, and counts the others. A line has the
    file, the key, the problem and the valid choices. An empty file (None) is a mistake.

    Args:
        file: Name of the file, for messages.
        content: The content of the file, as `read_yaml` returns it.
        schema: The schema. Two keywords extend JSON Schema. ``x-unit`` is the kind of a text, such as ``duration`` (see
            `units.canonical_value`). ``x-hint`` describes the valid values in messages.
    """
    if content is None:
        raise ConfigError(f"{file}: the file is empty")
    import jsonschema_rs

    try:
        errors = jsonschema_rs.validator_for(schema, keywords={"x-unit": _UnitKeyword}).iter_errors(content)
    except ValueError as error:  # Snakemake converts values of --config to types that JSON lacks, such as dates
        raise ConfigError(f"{file}: has a value that is neither text nor a number: {printable(error)}") from None
    first = list(itertools.islice(errors, _MOST_PROBLEMS))
    problems = [problem for error in first for problem in _explain(error, schema)]
    if problems:
        lines = [f"{file}: {problem}" for problem in dict.fromkeys(problems)]
        if more := len(lines[_MOST_PROBLEMS:]) + sum(1 for _ in errors):
            lines[_MOST_PROBLEMS:] = [f"{file}: and {more} more mistakes"]
        raise ConfigError("\n".join(lines))


def _place(path: Iterable[str | int]) -> str:
    """Return the place of a value in a file as text, such as ``drives[0].kind``.

    Args:
        path: Keys and list indices that lead to the value.
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _explain(error: "jsonschema_rs.ValidationError", schema: dict[str, Any]) -> list[str]:
    """Return the mistakes of a validation error, a line for each.

    A line contains the key, the problem, and the valid values or the most similar valid name.

    Args:
        error: The error.
        schema: The schema that the file was validated against.
    """
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
            return [f"{prefix}invalid name: {printable(error.message)}. Use letters, digits, '_', '-' and '.'."]
        case "enum":
            options = [str(option) for option in kind["options"]]
            return [f"{prefix}{instance} is not valid.{did_you_mean(str(error.instance), options)}{expected}"]
        case "x-unit":
            return [f"{prefix}{printable(error.message)}.{_unit_help(str(error.instance))}{expected}"]
        case "minItems" | "minProperties":
            return [f"{prefix}must not be empty.{expected}"]
        case "uniqueItems":
            return [f"{prefix}{instance} has a value twice.{expected}"]
        case "type" | "oneOf":
            return [f"{prefix}{instance} is not valid.{expected}"]
    return [f"{prefix}{instance} is not valid ({printable(error.message)}).{expected}"]


def _resolve(schema: dict[str, Any], path: Iterable[str | int]) -> dict[str, Any]:
    """Return the part of a schema that an error is about.

    Each ``$ref`` on the way is followed.

    Args:
        schema: The schema.
        path: The keys and indices that lead from the schema to the violated keyword.
    """
    node: Any = schema
    found: dict[str, Any] = schema
    for part in path:
        if isinstance(node, dict) and "$ref" in node and part != "$ref":
            node = _reference(schema, node)
        node = _reference(schema, node) if part == "$ref" else node[part]
        # for an invalid item of a list, the hint of the item is better than the hint of the list
        if isinstance(node, dict):
            found = node
    return found


def _reference(schema: dict[str, Any], node: Mapping[str, Any]) -> Any:
    target: Any = schema
    for step in node["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return target


class _UnitKeyword:
    """The implementation of the schema keyword ``x-unit``.

    A text must be a value of the given kind, such as a size. The value must not be less than the ``minimum`` of the
    schema.
    """

    def __init__(self, schema: dict[str, Any], unit: str, _: Any) -> None:
        self._least = schema.get("minimum")
        self._unit = unit

    def validate(self, instance: Any) -> None:
        """Raise ValueError if a text is not of the kind, or is below the ``minimum``.

        The kind, such as ``size``, and the minimum are from the schema. Values that are not text are not checked.
        """
        if isinstance(instance, str):
            value = units.canonical_value(instance, self._unit)
            if self._least is not None and value < self._least:
                raise ValueError(f"{instance!r} is too small")


def _unit_help(text: str) -> str:
    """Return advice for a text with a wrong, ambiguous or missing unit.

    The advice begins with a space. It is empty if there is none.
    """
    unit = text.lstrip("0123456789. ")
    if unit.upper() in {"KB", "MB", "GB", "TB"}:
        binary = f"{unit[0].upper()}iB"
        return f" '{unit}' may mean powers of ten or of two; write '{binary}' for powers of two."
    if unit in {"sec", "secs", "second", "seconds"}:
        return " Did you mean 's'?"
    if unit in {"m", "minutes", "minute"}:
        return " Did you mean 'min'?"
    return " The unit is missing." if not unit else ""
