"""Models of drives: the files in data/twins, checked against what the simulated drive declares."""

import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import yaml

from iopatterns import _twin
from iopatterns.base import yaml_schema
from iopatterns.base.yaml_schema import did_you_mean
from iopatterns.twin.error import TwinError
from iopatterns.twin.state import model_file_path, models_folder

__all__ = ["Model", "did_you_mean", "format_value", "list_models", "load_model", "write_fitted_model"]

PROVENANCES = ("datasheet", "fitted", "assumed")
BEHAVIOURS = ("changeable", "fixed", "refused", "ignored")
TRANSPORTS = ("sas", "sata", "nvme")

ParameterValue = int | float | bool | str

# Units that a value may be written in, by the unit that the simulated drive counts in.
_UNITS = {
    "ns": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
    "bytes": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    | {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    "bytes/s": {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9},
}
_EXAMPLES = {"ns": "72 us", "bytes": "16 KiB", "bytes/s": "868 MB/s"}
# Those that format_value() writes, the largest that gives a short number first.
_WRITTEN = {
    "ns": ("s", "ms", "us", "ns"),
    "bytes": ("TiB", "GiB", "MiB", "KiB", "B"),
    "bytes/s": ("GB/s", "MB/s", "B/s"),
}


@dataclass(frozen=True)
class Model:
    """A drive, checked.

    ``values`` has each parameter by ``group.name``: nanoseconds, bytes, bytes per second or counts as int, ratios as
    float, switches as bool, choices as str. ``sources`` has for each of them (provenance, source in words).
    ``mode_page`` has for each field of the caching page (value, behaviour). ``fit`` is the file's own record of a fit.
    ``chosen_for`` has the published statements, as ``study/id``, of those that were chosen with some in view.
    """

    name: str
    path: Path
    description: str
    kind: str
    identity: Mapping[str, Any]
    values: Mapping[str, ParameterValue]
    sources: Mapping[str, tuple[str, str]]
    mode_page: Mapping[str, tuple[int, str]]
    savable: bool
    fit: Mapping[str, Any] = field(default_factory=dict)
    chosen_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """What the drive holds, in bytes."""
        return int(self.values["capacity.size"])

    @property
    def text(self) -> str:
        """The form that the simulated drive reads: a line ``key value`` each."""
        lines = [f"kind {self.kind}"]
        lines += [f"identity.{key} {self.identity[key]}" for key in sorted(self.identity)]
        lines += [f"{name} {int(value) if isinstance(value, bool) else value}" for name, value in self.values.items()]
        lines.append(f"mode_page.savable {int(self.savable)}")
        lines += [f"mode_page.{name} {value} {how}" for name, (value, how) in sorted(self.mode_page.items())]
        return "\n".join(lines) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 of all that can change what the drive does; comments, sources and names of files are not in it."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def number(self, name: str) -> float:
        """Return a parameter that is a number. Raises TwinError for one that is none."""
        value = self.values[name]
        if isinstance(value, (bool, str)):
            raise TwinError(f"{self.name}: '{name}' is no number")
        return value

    def replaced(self, values: Mapping[str, ParameterValue]) -> "Model":
        """Return the same drive with other values of some parameters."""
        return replace(self, values={**self.values, **values})

    def overridden(self, settings: Iterable[str]) -> "Model":
        """Return the same drive with parameters as in ``group.name=value``, the value as in a model file.

        Raises TwinError for an unknown parameter or a value out of its range.
        """
        return self.with_values(parse_settings(settings), "--set")

    def with_values(self, given: Mapping[str, Any], place: str) -> "Model":
        """Return the same drive with other values of some parameters, by ``group.name``, written as in a model file.

        Raises TwinError that begins with ``place`` for an unknown parameter, a value out of its range, or values that
        together make no drive.
        """
        changed: dict[str, ParameterValue] = {}
        for name, value in given.items():
            if name not in self.values:
                raise TwinError(f"{place} {name}: {self.name} has no such parameter.{did_you_mean(name, self.values)}")
            try:
                changed[name] = parse_value(declared_parameters()[name], value)
            except ValueError as error:
                raise TwinError(f"{place} {name}: {error}") from None
        model = self.replaced(changed)
        _check_drive(f"{place} {', '.join(given)}", model)
        return model


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """Return parameters given as ``group.name=value``, the value as in a model file. Raises TwinError."""
    given = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise TwinError(f"--set {setting}: needs the form group.name=value, such as flash.read_time=60us")
        given[name] = _plain(text)
    return given


def _plain(text: str) -> Any:
    """Return what YAML makes of a value given on the command line."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


@cache
def declared_parameters() -> "dict[str, _twin.Parameter]":
    """Return what the simulated drive declares of each parameter, by ``group.name``."""
    return {f"{each['group']}.{each['name']}": each for each in _twin.parameters()}


def valid_values_text(parameter: "_twin.Parameter") -> str:
    """Return in words what a parameter's value may be."""
    match parameter["kind"]:
        case "toggle":
            return "on or off"
        case "choice":
            return f"one of {', '.join(parameter['choices'])}"
        case "ratio":
            return f"a number from {parameter['minimum']:g} to {parameter['maximum']:g}"
    unit = parameter["unit"]
    low, high = (format_number(unit, parameter[end]) for end in ("minimum", "maximum"))
    example = f", such as {_EXAMPLES[unit]}" if unit in _EXAMPLES else ""
    return f"a {'whole number' if unit == 'count' else 'value with its unit'} from {low} to {high}{example}"


def parse_value(parameter: "_twin.Parameter", value: Any) -> ParameterValue:
    """Return a value of a model file as the simulated drive counts. Raises ValueError with what is valid."""
    problem = f"{value!r} is not valid. Expected: {valid_values_text(parameter)}."
    match parameter["kind"]:
        case "toggle":
            if not isinstance(value, bool):
                raise ValueError(problem)
            return value
        case "choice":
            if value not in parameter["choices"]:
                raise ValueError(
                    f"{value!r} is not valid.{did_you_mean(str(value), parameter['choices'])} Expected: {valid_values_text(parameter)}."
                )
            return str(value)
        case "ratio":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(problem)
            number: float = float(value)
        case _:
            number = _read_number(parameter["unit"], value, problem)
    if not parameter["minimum"] <= number <= parameter["maximum"]:
        raise ValueError(problem)
    return number


def _read_number(unit: str, value: Any, problem: str) -> int:
    if unit == "count":
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(problem)
        return value
    if value == 0 and not isinstance(value, bool):
        return 0
    match_ = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z/]+)", str(value))
    if match_ is None or match_[2] not in _UNITS[unit]:
        raise ValueError(problem)
    try:
        number = Decimal(match_[1]) * _UNITS[unit][match_[2]]
    except InvalidOperation:
        raise ValueError(problem) from None
    if number != int(number):
        raise ValueError(f"{value!r} is no whole number of {unit}")
    return int(number)


def format_number(unit: str, value: float) -> str:
    """Return a number with its unit, exactly and as short as may be: 72000 ns is ``72 us``."""
    if unit == "count" or value == 0:
        return f"{value:g}" if isinstance(value, float) else str(value)
    for name in _WRITTEN[unit]:
        number = (Decimal(int(value)) / _UNITS[unit][name]).normalize()
        if number >= 1 and len(str(number)) <= 8 and number.as_tuple().exponent >= -6:  # type: ignore[operator]
            return f"{number:f} {name}"
    return f"{int(value)} {_WRITTEN[unit][-1]}"


def format_value(name: str, value: ParameterValue) -> str:
    """Return a parameter's value as a model file has it."""
    parameter = declared_parameters()[name]
    if parameter["kind"] == "toggle":
        return "on" if value else "off"
    if parameter["kind"] == "number":
        assert not isinstance(value, str)
        return format_number(parameter["unit"], value)
    return str(value)


@cache
def _schema(kind: str, mapping: str) -> dict[str, Any]:
    """Return the closed schema of a model file of this kind."""
    text = {"type": "string", "minLength": 1, "x-hint": "words"}
    sourced = {
        "provenance": {"enum": list(PROVENANCES), "x-hint": f"one of {', '.join(PROVENANCES)}"},
        "source": {**text, "x-hint": "where the value comes from, in words"},
    }
    statement = {
        "type": "string",
        "pattern": r"^[a-z0-9][a-z0-9_-]*/[a-z0-9*][a-z0-9.*-]*$",
        "x-hint": "study/id of a published claim or value, such as my-study/table-1; * stands for any letters",
    }
    chosen = {"type": "array", "minItems": 1, "items": statement, "x-hint": "a list such as [my-study/table-1]"}
    groups: dict[str, Any] = {}
    wanted = list(_twin.groups(kind, mapping))
    for name, parameter in declared_parameters().items():
        group, short = name.split(".")
        if group in wanted:
            value = {"value": {"x-hint": valid_values_text(parameter)}, **sourced}
            groups.setdefault(group, {})[short] = _closed(value, chosen_for=chosen)
    whole = {"type": "integer", "minimum": 0, "x-hint": "a whole number"}
    plain = {**text, "pattern": r"^[ -~]*$"}  # what INQUIRY can carry, and no line of its own in `text`
    identity = {
        "vendor": {**plain, "maxLength": 8, "x-hint": "at most 8 characters of ASCII"},
        "product": {**plain, "maxLength": 16, "x-hint": "at most 16 characters of ASCII"},
        "revision": {**plain, "maxLength": 4, "x-hint": "at most 4 characters of ASCII, in quotes"},
        "serial": {**plain, "maxLength": 20, "x-hint": "at most 20 characters of ASCII, in quotes"},
        "naa": {"type": "string", "pattern": "^[0-9a-f]{16}$", "x-hint": "16 hexadecimal digits, in quotes"},
        "rotation_rpm": {**whole, "minimum": 1, "maximum": 65534, "x-hint": "1 for an SSD, or turns in a minute"},
        "form_factor": {**whole, "maximum": 5, "x-hint": "the code of SBC-3: 2 is 3.5 inches, 3 is 2.5 inches"},
        "transport": {"enum": list(TRANSPORTS), "x-hint": f"one of {', '.join(TRANSPORTS)}"},
    }
    page = {
        name: _closed(
            {
                "value": {**whole, "maximum": 2**width - 1, "x-hint": f"a whole number from 0 to {2**width - 1}"},
                "behaviour": {"enum": list(BEHAVIOURS), "x-hint": f"one of {', '.join(BEHAVIOURS)}"},
                **sourced,
            },
            chosen_for=chosen,
        )
        for name, width in _twin.caching_fields().items()
    }
    rows = {"type": "object", "additionalProperties": {"type": "string"}}
    fit = _closed(
        {"points": text, "moved": {"type": "array", "items": text}, "fitted": rows},
        set={"type": "object", "x-hint": "parameters by name, such as capacity.size: 4 GiB"},
        ramp_time_s={"type": "number", "minimum": 0, "x-hint": "a number of seconds from 0"},
        runtime_s={"type": "number", "exclusiveMinimum": 0, "x-hint": "a number of seconds above 0"},
        predicted=rows,
        at_bounds=rows,
    )
    return _closed(
        {
            "name": text,
            "description": text,
            "kind": {"enum": ["ssd", "hard_disk"], "x-hint": "ssd or hard_disk"},
            "identity": _closed(identity),
            "parameters": _closed({group: _closed(parameters) for group, parameters in groups.items()}),
            "mode_page": _closed({"savable": {"type": "boolean", "x-hint": "yes or no"}}, **page),
        },
        fit=fit,
    )


def _closed(properties: dict[str, Any], **optional: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": {**properties, **optional},
        "x-hint": "a mapping",
    }


def list_models(folder: Path | None = None) -> list[str]:
    """Return the names of the models that there are, sorted."""
    folder = folder or Path(models_folder())
    return sorted(path.stem for path in folder.glob("*.yaml"))


def find_model_file(name: str | Path) -> Path:
    """Return the file of the model of that name, or of that path. Raises TwinError when there is none."""
    path = Path(model_file_path(str(name)))
    if not path.is_file():
        there = list_models(path.parent)
        raise TwinError(
            f"{_shown(path)}: no such model.{did_you_mean(path.stem, there)} There: {', '.join(there) or 'none'}."
        )
    return path


def load_model(name: str | Path) -> Model:
    """Return the model of that name in data/twins, or of the file at a path.

    Raises TwinError with every mistake of the file, one a line: file, key, what is wrong, what is valid. A file that
    has not changed since it was last read is not read again.
    """
    path = find_model_file(name)
    state = path.stat()
    version = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return _loaded(path, _shown(path), version)


@lru_cache(maxsize=32)
def _loaded(path: Path, shown: str, _version: tuple[int, ...]) -> Model:
    """Read and check a model's file; ``shown`` is its path in messages."""
    try:
        content = yaml_schema.read_yaml(path.parent, path.name)
    except yaml_schema.ConfigError as error:
        raise TwinError(f"{shown}{str(error).removeprefix(path.name)}") from None
    kind, mapping = "ssd", "page"
    if isinstance(content, dict):
        kind = "hard_disk" if content.get("kind") == "hard_disk" else "ssd"
        try:
            mapping = str(content["parameters"]["ftl"]["mapping"]["value"])
        except (KeyError, TypeError):
            mapping = "page"
    problems = []
    try:
        yaml_schema.require_valid(shown, content, _schema(kind, mapping))
    except yaml_schema.ConfigError as error:
        problems = str(error).split("\n")
    values, wrong = _read_values(content)
    problems += [f"{shown}: parameters.{line}" for line in wrong]
    if problems:
        raise TwinError("\n".join(problems))
    model = _read(path, content, values)
    _check_switches(shown, model)
    _check_drive(shown, model)
    return model


def _shown(path: Path) -> str:
    """Return a path as messages have it: from the present folder where it lies below that."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _read_values(content: Any) -> tuple[dict[str, ParameterValue], list[str]]:
    """Return the parameters that read well, and a line for each that does not; what is missing, the schema says."""
    values: dict[str, ParameterValue] = {}
    problems = []
    for name, parameter in declared_parameters().items():
        group, short = name.split(".")
        try:
            value = content["parameters"][group][short]["value"]
        except (KeyError, TypeError, IndexError):
            continue
        try:
            values[name] = parse_value(parameter, value)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return values, problems


def _read(path: Path, content: Mapping[str, Any], values: Mapping[str, ParameterValue]) -> Model:
    entries = {}
    for name in values:
        group, short = name.split(".")
        entries[name] = content["parameters"][group][short]
    page = {name: entry for name, entry in content["mode_page"].items() if name != "savable"}
    entries |= {f"mode_page.{name}": entry for name, entry in page.items()}
    return Model(
        name=path.stem,
        path=path,
        description=content["description"],
        kind=content["kind"],
        identity=content["identity"],
        values=values,
        sources={name: (entry["provenance"], entry["source"]) for name, entry in entries.items()},
        mode_page={name: (entry["value"], entry["behaviour"]) for name, entry in page.items()},
        savable=content["mode_page"]["savable"],
        fit=content.get("fit", {}),
        chosen_for={name: tuple(entry["chosen_for"]) for name, entry in entries.items() if "chosen_for" in entry},
    )


# Switches that a drive has twice: as a parameter and as a bit of the mode page, which is 1 when the switch is so.
_SWITCHES = {
    "WCE": ("write_buffer.enabled", "disk.write_cache_enabled", True),
    "RCD": ("read_cache.enabled", "disk.read_cache", False),
    "DRA": ("read_ahead.enabled", "disk.read_ahead", False),
}


def _check_switches(shown: str, model: Model) -> None:
    """Raise TwinError for a switch of which parameter and mode page say different things."""
    problems = []
    for bit, (of_ssd, of_disk, one_means) in _SWITCHES.items():
        name = of_ssd if model.kind == "ssd" else of_disk
        if bit in model.mode_page and model.values[name] != (model.mode_page[bit][0] == one_means):
            problems.append(
                f"{shown}: mode_page.{bit}.value: {model.mode_page[bit][0]} does not go with parameters.{name}:"
                f" {format_value(name, model.values[name])}. Say the same in both."
            )
    if problems:
        raise TwinError("\n".join(problems))


def _check_drive(shown: str, model: Model) -> None:
    """Raise TwinError unless the values together make a drive."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _twin.check(model.text, folder)
        except (ValueError, RuntimeError) as error:
            raise TwinError(f"{shown}: parameters.{error}") from None


def write_fitted_model(
    model: Model, path: Path, moved: Mapping[str, ParameterValue], source: str, fit: Mapping[str, Any]
) -> None:
    """Write a model file: the model's own, ``moved`` as values fitted to ``source``, and ``fit`` as their record.

    Comments and order of the model's file are kept. Raises TwinError where the file does not have a parameter on a line
    of its own.
    """
    lines = model.path.read_text(encoding="utf-8").splitlines()
    begin = next((number for number, line in enumerate(lines) if line.startswith("fit:")), len(lines))
    lines = lines[:begin]
    while lines and not lines[-1].strip():
        lines.pop()
    for name, value in moved.items():
        _replace_line(lines, model, name, format_value(name, value), source)
    record = yaml.safe_dump({"fit": dict(fit)}, sort_keys=False, allow_unicode=True, width=1000)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n" + record, encoding="utf-8")


def _replace_line(lines: list[str], model: Model, name: str, value: str, source: str) -> None:
    # not by ruamel.yaml, which would be a second reader of YAML with rules of its own for what is text or a number
    group, short = name.split(".")
    inside = False
    for number, line in enumerate(lines):
        if re.match(r"  [a-z_]+:", line):
            inside = line.startswith(f"  {group}:")
        if inside and line.startswith(f"    {short}: {{"):
            text = yaml.safe_dump(source, width=10_000, default_style='"').strip()
            # a fit gives the value, and takes nothing from what the parameter was chosen for
            chosen = f", chosen_for: [{', '.join(model.chosen_for[name])}]" if name in model.chosen_for else ""
            lines[number] = f"    {short}: {{value: {value}, provenance: fitted, source: {text}{chosen}}}"
            return
    raise TwinError(f"{model.path}: '{name}' does not stand on a line of its own, and cannot be replaced")


def parameter_rows(model: Model) -> Sequence[tuple[str, str, str, str, str]]:
    """Return a row for each parameter: name, value with unit, provenance, source, what it is.

    The source names the published statements that the value was chosen for, if any.
    """

    def origin(name: str) -> tuple[str, str]:
        provenance, source = model.sources[name]
        chosen = model.chosen_for.get(name)
        return provenance, f"{source}; chosen for {', '.join(chosen)}" if chosen else source

    rows = [
        (name, format_value(name, value), *origin(name), declared_parameters()[name]["text"])
        for name, value in model.values.items()
    ]
    for name, (value, behaviour) in model.mode_page.items():
        full = f"mode_page.{name}"
        rows.append((full, f"{value}, {behaviour}", *origin(full), "field of the caching mode page"))
    return rows
