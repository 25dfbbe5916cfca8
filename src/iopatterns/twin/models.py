"""Read, check and write models of simulated drives (data/twins/*.yaml).

A model gives each parameter of a drive a value, and says where the value comes from: a data sheet, a fit to
measurements, or an assumption.
"""

import hashlib
import re
import tempfile
from collections.abc import Iterable, Mapping
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

_PROVENANCES = ("datasheet", "fitted", "assumed")
_BEHAVIOURS = ("changeable", "fixed", "refused", "ignored")
_TRANSPORTS = ("sas", "sata", "nvme")

ParameterValue = int | float | bool | str

# Units accepted in a model file, by the unit in which the simulated drive counts
_UNITS = {
    "ns": {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9},
    "bytes": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
    | {"kB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12},
    "bytes/s": {"B/s": 1, "kB/s": 10**3, "MB/s": 10**6, "GB/s": 10**9},
}
# Origin of a parameter that a model file leaves out
_DEFAULT_ENTRY = {"provenance": "assumed", "source": "the default: the model file has no value"}
_EXAMPLES = {"ns": "72 us", "bytes": "16 KiB", "bytes/s": "868 MB/s"}
# Units that format_number() tries, in this order
_NO_BLOCK_LAYER: Mapping[str, ParameterValue] = {
    "host.scheduler": "none",
    "host.lock_time": 0,
    "host.max_request": 1 << 30,
    "host.nr_requests": 65536,
}
_WRITTEN_UNITS = {
    "ns": ("s", "ms", "us", "ns"),
    "bytes": ("TiB", "GiB", "MiB", "KiB", "B"),
    "bytes/s": ("GB/s", "MB/s", "B/s"),
}


@dataclass(frozen=True)
class Model:
    """Model of a drive: the parameters with which the drive is simulated.

    `load_model` reads a model from a YAML file and checks it.

    Attributes:
        name: Name of the file without its suffix, such as ``px05smb040``.
        path: Path of the model file.
        description: Description of the drive for people.
        kind: ``ssd`` or ``hard_disk``.
        identity: What the drive reports about itself in SCSI commands, by key, such as ``vendor`` and ``serial``.
        values: Value of each parameter by ``group.name``, such as ``flash.read_time``. An int is a time in nanoseconds,
            a size in bytes, a rate in bytes per second, or a count. A float is a ratio, a bool is a switch, and a str
            is a choice.
        sources: Origin of each value, by ``group.name`` for a parameter and by ``mode_page.FIELD`` for a field of the
            mode page. An origin is a pair: the provenance (``datasheet``, ``fitted`` or ``assumed``), and the source in
            words.
        mode_page: Fields of the SCSI mode page that controls the drive's caches. The keys are sdparm's acronyms, such
            as ``WCE``. Each value is a pair: the initial value of the field, and how the drive treats a change of the
            field. ``changeable``: the change has effect. ``fixed``: the drive reports that the field cannot be changed.
            ``refused``: the drive reports that the field can be changed, but rejects the change. ``ignored``: the drive
            accepts the change, which has no effect.
        savable: Whether the drive can save its mode page, so that the settings survive a power cycle.
        fit: The section ``fit`` of the file, which records how parameters were fitted to measured points, see
            `fitting.fit_record`; empty if no fit is recorded.
        chosen_for: The published statements for which a value was chosen, as ``study/id``. The keys are those of
            ``sources``; a value that was not chosen for a statement has no key.
        ranges: The ranges of plausible values that the file states, by ``group.name``. `ranges.plausible_range` returns
            the range of any parameter.
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
    ranges: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        """Capacity of the drive in bytes."""
        return int(self.values["capacity.size"])

    @property
    def text(self) -> str:
        """Model as the simulated drive reads it: lines of the form ``key value``.

        Times are in nanoseconds, sizes in bytes, rates in bytes per second. Switches are 0 or 1. A parameter with its
        default value is left out, so that a new parameter does not change the digests of existing models.
        """
        lines = [f"kind {self.kind}"]
        lines += [f"identity.{key} {self.identity[key]}" for key in sorted(self.identity)]
        lines += [
            f"{name} {int(value) if isinstance(value, bool) else value}"
            for name, value in self.values.items()
            if value != _defaults().get(name)
        ]
        lines.append(f"mode_page.savable {int(self.savable)}")
        lines += [f"mode_page.{name} {value} {how}" for name, (value, how) in sorted(self.mode_page.items())]
        return "\n".join(lines) + "\n"

    @property
    def digest(self) -> str:
        """SHA-256 in hexadecimal of everything that determines the drive's behaviour.

        Comments, descriptions, sources and file names do not change the digest.
        """
        return hashlib.sha256(self.text.encode()).hexdigest()

    def number(self, name: str) -> float:
        """Return the value of a numeric parameter, in the unit of `Model.values`.

        Args:
            name: The parameter as ``group.name``, such as ``flash.read_time``.

        Raises:
            TwinError: The parameter is a switch or a choice.
            KeyError: The model has no such parameter.
        """
        value = self.values[name]
        if isinstance(value, (bool, str)):
            raise TwinError(f"{self.name}: '{name}' is not a number")
        return value

    def replaced(self, values: Mapping[str, ParameterValue]) -> "Model":
        """Return a copy of the model with other values of some parameters.

        Neither names nor values are checked; `with_values` checks them.

        Args:
            values: Values by ``group.name``, in the units of `Model.values`: ``{"flash.read_time": 60000}``.
        """
        return replace(self, values={**self.values, **values})

    def without_block_layer(self) -> "Model":
        """Return a copy of the model whose host neither schedules, merges nor splits requests.

        This drive receives requests that the block layer of a kernel has already handled.
        """
        return self.replaced(_NO_BLOCK_LAYER)

    def overridden(self, settings: Iterable[str]) -> "Model":
        """Return a copy of the model with parameters that a user has set (option --set).

        Args:
            settings: Parameters as ``group.name=value``, with the value as in a model file:
                ``["flash.read_time=60us"]``.

        Raises:
            TwinError: A setting has no equals sign, a parameter does not exist, a value is out of range, or the values
                contradict each other.
        """
        return self.with_values(parse_settings(settings), "--set")

    def with_values(self, given: Mapping[str, Any], place: str) -> "Model":
        """Return a copy of the model with other values of some parameters, after checks.

        The names, the values and their combination are checked. If no values are given, the model itself is returned.

        Args:
            given: Values by ``group.name``, as in a model file: ``{"flash.read_time": "60 us"}``.
            place: Origin of the values, such as ``--set``, with which error messages begin.

        Raises:
            TwinError: A parameter does not exist, a value is out of range, or the values contradict each other.
        """
        if not given:
            return self
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
    """Return the values in settings of the form ``group.name=value`` (option --set).

    Each value is parsed as YAML, as in a model file. Neither names nor values are checked against the parameters that
    exist.

    Args:
        settings: The settings: ``["flash.read_time=60us", "disk.read_ahead=off"]``. The last value of a parameter
            counts.

    Returns:
        Values by ``group.name``: ``{"flash.read_time": "60us", "disk.read_ahead": False}``.

    Raises:
        TwinError: A setting has no equals sign.
    """
    given: dict[str, Any] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        if not equals:
            raise TwinError(f"--set {setting}: needs the form group.name=value, such as flash.read_time=60us")
        try:
            given[name] = yaml.safe_load(text)
        except yaml.YAMLError:
            given[name] = text
    return given


@cache
def declared_parameters() -> "dict[str, _twin.Parameter]":
    """Return the declarations of all parameters of simulated drives.

    The C++ code of the simulated drive declares the parameters.

    Returns:
        Declarations by ``group.name``, such as ``flash.read_time``. A declaration is a mapping with the keys ``group``,
        ``name``, ``text`` (the meaning in words) and ``kind`` (``number``, ``ratio``, ``toggle`` or ``choice``). A
        number also has ``unit`` (``ns``, ``bytes``, ``bytes/s`` or ``count``), ``minimum`` and ``maximum``, a ratio has
        ``minimum`` and ``maximum``, and a choice has ``choices``. A parameter that a model file may leave out has a
        ``default``.
    """
    return {f"{each['group']}.{each['name']}": each for each in _twin.parameters()}


@cache
def _defaults() -> dict[str, float]:
    """Return the value of each parameter that a model file may leave out, by ``group.name``."""
    return {
        name: each["default"]
        for name, each in declared_parameters().items()
        if (each["kind"] == "number" or each["kind"] == "ratio") and "default" in each
    }


def valid_values_text(parameter: "_twin.Parameter") -> str:
    """Return the valid values of a parameter in words, such as ``on or off``.

    Args:
        parameter: The declaration of the parameter, an item of `declared_parameters`.
    """
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
    """Convert a parameter's value in a model file to the unit of the simulated drive.

    ``72 us`` becomes 72000.

    Args:
        parameter: The declaration of the parameter, an item of `declared_parameters`.
        value: The value as YAML gives it: a bool, a number, or text such as ``72 us``.

    Returns:
        Nanoseconds, bytes, bytes per second or a count as int, a ratio as float, a switch as bool, or a choice as str.

    Raises:
        ValueError: The value is not valid. The message describes the valid values.
    """
    problem = f"{value!r} is not valid. Expected: {valid_values_text(parameter)}."
    match parameter["kind"]:
        case "toggle":
            if not isinstance(value, bool):
                raise ValueError(problem)
            return value
        case "choice":
            if value not in parameter["choices"]:
                guess = did_you_mean(str(value), parameter["choices"])
                raise ValueError(problem.replace(" Expected:", f"{guess} Expected:"))
            return str(value)
        case "ratio":
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise ValueError(problem)
            number: float = float(value)
        case _:
            number = _parse_number(parameter["unit"], value, problem)
    if not parameter["minimum"] <= number <= parameter["maximum"]:
        raise ValueError(problem)
    return number


def _parse_number(unit: str, value: Any, problem: str) -> int:
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
        raise ValueError(f"{value!r} is not a whole number of {unit}")
    return int(number)


def format_number(unit: str, value: float) -> str:
    """Return a number with the largest suitable unit, such as ``72 us`` for 72000 ns.

    In a suitable unit the number is at least 1, and has at most eight characters and six decimals. The number is never
    rounded. If no unit is suitable, the smallest unit is used. Counts, and the value 0, have no unit.

    Args:
        unit: Unit of the value: ``ns``, ``bytes``, ``bytes/s`` or ``count``.
        value: The number, a whole number of the unit.
    """
    if unit == "count" or value == 0:
        return f"{value:g}" if isinstance(value, float) else str(value)
    for name in _WRITTEN_UNITS[unit]:
        number = (Decimal(int(value)) / _UNITS[unit][name]).normalize()
        if number >= 1 and len(str(number)) <= 8 and number.as_tuple().exponent >= -6:  # type: ignore[operator]
            return f"{number:f} {name}"
    return f"{int(value)} {_WRITTEN_UNITS[unit][-1]}"


def format_value(name: str, value: ParameterValue) -> str:
    """Return the value of a parameter as written in a model file, such as ``72 us``.

    Args:
        name: The parameter as ``group.name``, such as ``flash.read_time``.
        value: The value in the unit of the simulated drive, as in `Model.values`: 72000 (nanoseconds), for example.

    Raises:
        KeyError: Simulated drives have no such parameter.
    """
    parameter = declared_parameters()[name]
    if parameter["kind"] == "toggle":
        return "on" if value else "off"
    if parameter["kind"] == "number":
        assert not isinstance(value, str)
        return format_number(parameter["unit"], value)
    return str(value)


_RANGE_KINDS: dict[str, dict[str, Any]] = {
    "factor": {"type": "number", "exclusiveMinimum": 1, "x-hint": "a factor above 1, such as 2"},
    "doublings": {
        "type": "array",
        "minItems": 2,
        "maxItems": 2,
        "items": {"type": "integer"},
        "x-hint": "the first and the last power of two, such as [-1, 1]",
    },
    "between": {"type": "array", "minItems": 2, "maxItems": 2, "x-hint": "two values, such as [10 us, 40 us]"},
    "choices": {"type": "array", "minItems": 2, "x-hint": "a list of values"},
    "fixed": {"const": True, "x-hint": "true"},
}
# JSON Schema of a range of plausible values; plausible_ranges.yaml explains its keys
RANGE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["because"],
    "oneOf": [{"required": [kind]} for kind in _RANGE_KINDS],
    "properties": {**_RANGE_KINDS, "because": {"type": "string", "minLength": 1, "x-hint": "the reason in a line"}},
    "x-hint": "one of factor, doublings, between, choices and fixed, and because; such as {factor: 2, because: …}",
}


@cache
def _schema(kind: str, mapping: str) -> dict[str, Any]:
    """Return the JSON Schema of model files of one kind of drive.

    Args:
        kind: ``ssd`` or ``hard_disk``.
        mapping: How an SSD maps logical to physical addresses, ``page`` or ``log_block``. It decides which groups of
            parameters the model has.
    """
    text = {"type": "string", "minLength": 1, "x-hint": "words"}
    sourced = {
        "provenance": {"enum": list(_PROVENANCES), "x-hint": f"one of {', '.join(_PROVENANCES)}"},
        "source": {**text, "x-hint": "where the value comes from, in words"},
    }
    statement = {
        "type": "string",
        "pattern": r"^[a-z0-9][a-z0-9_-]*/[a-z0-9*][a-z0-9.*-]*$",
        "x-hint": "study/id of a published claim or value, such as my-study/table-1; * matches any characters",
    }
    chosen = {"type": "array", "minItems": 1, "items": statement, "x-hint": "a list such as [my-study/table-1]"}
    groups: dict[str, dict[str, Any]] = {}
    optional: dict[str, dict[str, Any]] = {}
    wanted = list(_twin.groups(kind, mapping))
    for name, parameter in declared_parameters().items():
        group, short = name.split(".")
        if group in wanted:
            value = {"value": {"x-hint": valid_values_text(parameter)}, **sourced}
            target = optional if name in _defaults() else groups
            target.setdefault(group, {})[short] = _closed(value, chosen_for=chosen, range=RANGE_SCHEMA)
    whole = {"type": "integer", "minimum": 0, "x-hint": "a whole number"}
    plain = {**text, "pattern": r"^[ -~]*$"}  # INQUIRY data are ASCII, and a line break would corrupt Model.text
    lengths = {"vendor": 8, "product": 16, "revision": 4, "serial": 20}
    identity: dict[str, Any] = {
        **{
            name: {**plain, "maxLength": length, "x-hint": f"at most {length} characters of ASCII, in quotes"}
            for name, length in lengths.items()
        },
        "naa": {"type": "string", "pattern": "^[0-9a-f]{16}$", "x-hint": "16 hexadecimal digits, in quotes"},
        "rotation_rpm": {**whole, "minimum": 1, "maximum": 65534, "x-hint": "1 for an SSD, or rotations per minute"},
        "form_factor": {**whole, "maximum": 5, "x-hint": "the code of SBC-3: 2 is 3.5 inches, 3 is 2.5 inches"},
        "transport": {"enum": list(_TRANSPORTS), "x-hint": f"one of {', '.join(_TRANSPORTS)}"},
    }
    page = {
        name: _closed(
            {
                "value": {**whole, "maximum": 2**width - 1, "x-hint": f"a whole number from 0 to {2**width - 1}"},
                "behaviour": {"enum": list(_BEHAVIOURS), "x-hint": f"one of {', '.join(_BEHAVIOURS)}"},
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
        runtimes_s={
            "type": "object",
            "additionalProperties": {"type": "number", "exclusiveMinimum": 0, "x-hint": "a number of seconds above 0"},
            "x-hint": "numbers of seconds by id of the point",
        },
        region_bytes={"type": "integer", "minimum": 1, "x-hint": "a number of bytes above 0"},
        predicted=rows,
        at_bounds=rows,
        flat=rows,
    )
    return _closed(
        {
            "name": text,
            "description": text,
            "kind": {"enum": ["ssd", "hard_disk"], "x-hint": "ssd or hard_disk"},
            "identity": _closed(identity),
            "parameters": _closed({name: _closed(group, **optional.get(name, {})) for name, group in groups.items()}),
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
    """Return the sorted names of the models in a folder, such as ``px05smb040``.

    A model is a file ``NAME.yaml`` with the parameters of a simulated drive. The files are not read.

    Args:
        folder: Folder of model files; None for the models of the project (data/twins).
    """
    return sorted(path.stem for path in (folder or Path(models_folder())).glob("*.yaml"))


def find_model_file(name: str | Path) -> Path:
    """Return the path of an existing model file.

    A model is a YAML file with the parameters of a simulated drive.

    Args:
        name: Name of a model in data/twins, such as ``px05smb040``, or path of a model file.

    Raises:
        TwinError: The file does not exist. The message suggests a similar name and lists the models in the folder.
    """
    path = Path(model_file_path(str(name)))
    if not path.is_file():
        known = list_models(path.parent)
        raise TwinError(
            f"{_relative_text(path)}: no such model.{did_you_mean(path.stem, known)} There:"
            f" {', '.join(known) or 'none'}."
        )
    return path


def load_model(name: str | Path) -> Model:
    """Read and check a model file; return the model.

    A model is a YAML file with the parameters of a simulated drive. Models are cached. A file that has changed is read
    again.

    Args:
        name: Name of a model in data/twins, such as ``px05smb040``, or path of a model file.

    Raises:
        TwinError: The file does not exist or has mistakes. The message has one line for each mistake, with file, key,
            problem and valid values.
    """
    path = find_model_file(name)
    state = path.stat()
    version = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
    return _load_cached(path, _relative_text(path), version)


@lru_cache(maxsize=32)
def _load_cached(path: Path, shown: str, _version: tuple[int, ...]) -> Model:
    """Read and check a model file; return the model.

    Args:
        path: The model file.
        shown: Path of the file for error messages.
        _version: Size, times and other properties of the file. A changed file has another version, so that the cached
            model is not used.

    Raises:
        TwinError: The file has mistakes.
    """
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
    values, wrong = _parse_values(content)
    problems += [f"{shown}: parameters.{line}" for line in wrong]
    if problems:
        raise TwinError("\n".join(problems))
    model = _build_model(path, content, values)
    _check_switches(shown, model)
    _check_drive(shown, model)
    return model


def _relative_text(path: Path) -> str:
    """Return a path as text for messages.

    The path is relative to the current folder if the file is in that folder or below. Other paths are returned
    unchanged.
    """
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _parse_values(content: Any) -> tuple[dict[str, ParameterValue], list[str]]:
    """Return the valid parameters of a model file, and a line per invalid one.

    A missing parameter has its default. Missing parameters without a default are skipped here: the check against the
    schema reports them.

    Args:
        content: The parsed YAML file.

    Returns:
        Values by ``group.name``, and lines of ``group.name: problem``.
    """
    values: dict[str, ParameterValue] = {}
    problems = []
    for name, parameter in declared_parameters().items():
        group, short = name.split(".")
        try:
            entries = content["parameters"][group]
            if short not in entries and name in _defaults():
                values[name] = _defaults()[name]
                continue
            value = entries[short]["value"]
        except (KeyError, TypeError, IndexError):
            continue
        try:
            values[name] = parse_value(parameter, value)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return values, problems


def _build_model(path: Path, content: Mapping[str, Any], values: Mapping[str, ParameterValue]) -> Model:
    entries = {}
    for name in values:
        group, short = name.split(".")
        entries[name] = content["parameters"][group].get(short, _DEFAULT_ENTRY)
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
        ranges={name: entry["range"] for name, entry in entries.items() if "range" in entry},
    )


# Bits of the mode page that are also parameters: the parameter of an SSD, the parameter of a hard disk, and the value
# of the parameter if the bit is 1
_SWITCHES = {
    "WCE": ("write_buffer.enabled", "disk.write_cache_enabled", True),
    "RCD": ("read_cache.enabled", "disk.read_cache", False),
    "DRA": ("read_ahead.enabled", "disk.read_ahead", False),
}


def _check_switches(shown: str, model: Model) -> None:
    """Raise TwinError if a parameter contradicts a bit of the mode page.

    The bits WCE, RCD and DRA (write cache enabled, read cache disabled, read-ahead disabled) are parameters of the
    drive, too.

    Args:
        shown: Path of the model file for error messages.
        model: The model.
    """
    problems = []
    for bit, (ssd_name, disk_name, value_of_one) in _SWITCHES.items():
        name = ssd_name if model.kind == "ssd" else disk_name
        if bit in model.mode_page and model.values[name] != (model.mode_page[bit][0] == value_of_one):
            problems.append(
                f"{shown}: mode_page.{bit}.value: {model.mode_page[bit][0]} contradicts parameters.{name}:"
                f" {format_value(name, model.values[name])}. Change one of them."
            )
    if problems:
        raise TwinError("\n".join(problems))


def _check_drive(shown: str, model: Model) -> None:
    """Raise TwinError if no drive can be simulated with the parameters of a model.

    Args:
        shown: Start of the error message, such as the path of the model file.
        model: The model.
    """
    with tempfile.TemporaryDirectory() as folder:
        try:
            _twin.check(model.text, folder)
        except (ValueError, RuntimeError) as error:
            raise TwinError(f"{shown}: parameters.{error}") from None


def write_fitted_model(
    model: Model, path: Path, moved: Mapping[str, ParameterValue], source: str, fit: Mapping[str, Any]
) -> None:
    """Write a copy of a model file with fitted parameters and a record of the fit.

    The comments before the section ``fit`` and the order of the model file are kept.

    Args:
        model: The model whose file is copied. The file must still have the content that was loaded.
        path: The file to write, which is overwritten.
        moved: Values of the fitted parameters by ``group.name``, in the units of `Model.values`.
        source: Source of the fitted values in words, written beside each of them.
        fit: The new section ``fit`` of the file, as `fitting.fit_record` returns it.

    Raises:
        TwinError: In the model file, the entry of a fitted parameter is not on a single line.
    """
    text = re.split(r"^fit:", model.path.read_text(encoding="utf-8"), maxsplit=1, flags=re.MULTILINE)[0]
    lines = text.rstrip().splitlines()
    for name, value in moved.items():
        _replace_line(lines, model, name, format_value(name, value), source)
    record = yaml.safe_dump({"fit": dict(fit)}, sort_keys=False, allow_unicode=True, width=1000)
    path.write_text("\n".join(lines) + "\n" + record, encoding="utf-8")


def _replace_line(lines: list[str], model: Model, name: str, value: str, source: str) -> None:
    """Replace the line of a parameter in the lines of a model file.

    Args:
        lines: The lines, which are changed in place.
        model: The model, for its path and for the published statements that the parameter was chosen for.
        name: The parameter as ``group.name``.
        value: The new value as text.
        source: The source of the value.

    A parameter without an entry, whose value is the default, gets a line at the beginning of its group.

    Raises:
        TwinError: The entry of the parameter is not on a line of its own.
    """
    # not by ruamel.yaml, whose rules for text and numbers differ from the rules of the reader
    group, short = name.split(".")
    text = yaml.safe_dump(source, width=10_000, default_style='"').strip()
    # a fitted value still serves the statements for which the parameter was chosen
    chosen = f", chosen_for: [{', '.join(model.chosen_for[name])}]" if name in model.chosen_for else ""
    kept = dict(model.ranges.get(name, {}))
    kept_text = yaml.safe_dump(kept, default_flow_style=True, width=10_000, allow_unicode=True).strip()
    chosen += f", range: {kept_text}" if kept else ""
    entry = f"    {short}: {{value: {value}, provenance: fitted, source: {text}{chosen}}}"
    inside, begin = False, 0
    for number, line in enumerate(lines):
        if re.match(r"  [a-z_]+:", line):
            inside = line.startswith(f"  {group}:")
            begin = number + 1 if line.rstrip() == f"  {group}:" else begin
        if inside and line.startswith(f"    {short}:"):
            if not line.startswith(f"    {short}: {{"):
                begin = 0
                break
            lines[number] = entry
            return
    if not begin:
        raise TwinError(f"{model.path}: cannot replace '{name}': put it on one line, as {short}: {{value: …}}")
    lines.insert(begin, entry)
