"""Expands a study's factors and levels into cells with readable, hashed names. Pure: no files, no clock, no chance."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from iopatterns import cells, config, units

# Raise it when the measuring code changes what fio is asked to do in a way that the specification does not show:
# every cell then gets a new hash, and is measured again.
PROTOCOL = 1

# Their queue depth is what iodepth says; a synchronous engine has one request in flight whatever it says.
ASYNCHRONOUS_ENGINES = frozenset({"libaio", "io_uring"})


# What an entry of drives.yaml says and no measurement depends on: a note for people, what may be set, consent
_ABOUT_A_DRIVE = frozenset({"description", "tune", "destroy", "expendable"})


class GridError(config.ConfigError):
    """A study's grid cannot be expanded; the message names the study file and the place."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One point of a study's grid.

    ``specification`` holds all that can change what is measured, in canonical units, and nothing else; ``name`` is a
    function of it alone: readable factors, then the first eight digits of its SHA-256. ``experiments`` are those of the
    study that ask for this point, in the order of the file; one or more.
    """

    study: str
    drive: str
    name: str
    specification: Mapping[str, Any]
    experiments: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Where the raw files of this cell lie, below the raw folder."""
        return f"{self.drive}/{self.study}/{self.name}"


def expand(conf: config.Config, study: str) -> Iterator[Cell]:
    """Yield the cells of a study on all drives of the configuration, each cell once, in the order of the file.

    Two experiments of a study may hold the same point: it is measured once. Raises GridError when an experiment
    leaves out what every cell needs, or asks for blocks larger than the file. The cells of an archived drive are those
    of its archive that an experiment of the study asks for; GridError where one of them holds too few executions, and
    where there is none of any study.
    """
    file = f"{config.STUDIES_FOLDER}/{study}.yaml"
    base = {
        "protocol": PROTOCOL,
        "runtime_ms": conf.runtime_ms,
        "warmup_ms": conf.warmup_ms,
        "seed": conf.seed,
    }
    tags = _Tags(conf.fio_options, conf.settings)
    for drive, settings in conf.drives.items():
        if settings["kind"] == "archive":
            yield from _archived(conf, study, drive)
            continue
        identity = {key: value for key, value in settings.items() if key not in _ABOUT_A_DRIVE}
        drive_specification = {**identity, "name": drive, "file_size_bytes": conf.file_size_bytes}
        if settings["kind"] == "block" and conf.precondition != "none":
            asked = {"mode": conf.precondition, "round_ms": conf.precondition_round_ms}
            drive_specification["precondition"] = asked
        found: dict[str, tuple[str, dict[str, Any], list[str]]] = {}
        for experiment, point, drive_settings in _points(conf, study, drive):
            _check_point(point, conf, f"{file}: experiments.{experiment}")
            specification = {**base, "drive": drive_specification, "fio": point}
            if drive_settings:
                specification["settings"] = drive_settings
                if "tune" in settings:
                    specification["drive"] = {**drive_specification, "tune": settings["tune"]}
            if settings["kind"] == "twin":
                specification["warmup_ms"] = 0  # each execution finds a twin in the same state
            digest = cells.digest(specification)
            name = f"{tags.readable(point, drive_settings)}-{digest[:8]}"
            known, _, experiments = found.setdefault(name, (digest, specification, []))
            if known != digest:
                raise GridError(f"{file}: two cells are both named {name}. Change one level slightly.")
            if experiment not in experiments:
                experiments.append(experiment)
        for name, (_, specification, experiments) in found.items():
            yield Cell(study, drive, name, specification, tuple(experiments))


def repetitions(conf: config.Config, study: str) -> int:
    """Return how many executions each cell of a study gets: the study's own number, or else config.yaml's."""
    return int(conf.studies[study].get("repetitions", conf.repetitions))


def drives_of(conf: config.Config, study: str, experiment: str) -> list[str]:
    """Return the drives of the configuration on which an experiment runs.

    An experiment that names drives runs on those of them that are configured, as in the source, and on every drive that
    no experiment of the study names, such as your own; one that names none runs on all.
    """
    experiments = conf.studies[study]["experiments"]
    of_source = {drive for body in experiments.values() for drive in body.get("drives", ())}
    own = experiments[experiment].get("drives", conf.drives)
    return [
        drive
        for drive, settings in conf.drives.items()
        if (
            any(experiment in cell.experiments for cell in _held(conf, study, drive))
            if settings["kind"] == "archive"
            else drive in own or drive not in of_source
        )
    ]


def _held(conf: config.Config, study: str, drive: str) -> Iterator[Cell]:
    """Yield the cells of a study that an archive holds, under the name that its drive has here."""
    contents = conf.drives[drive]["contents"]
    for cell in contents.cells:
        experiments = tuple(name for name in cell.experiments if name in conf.studies[study]["experiments"])
        if cell.study == study and experiments:
            yield Cell(study, drive, cell.name, cell.specification, experiments)


def _archived(conf: config.Config, study: str, drive: str) -> Iterator[Cell]:
    """Yield the cells of a study on an archived drive. Raises GridError for one with too few executions."""
    contents, path = conf.drives[drive]["contents"], conf.drives[drive]["path"]
    held = {cell.name: cell.executions for cell in contents.cells if cell.study == study}
    wanted = repetitions(conf, study)
    place = f"{config.DRIVES_FILE}: {drive}: the archive {path}"
    found = list(_held(conf, study, drive))
    if not any(True for each in conf.studies for _ in _held(conf, each, drive)):
        holds = sorted({f"{cell.study}: {name}" for cell in contents.cells for name in cell.experiments})
        raise GridError(
            f"{place} holds no cell of an experiment that {', '.join(conf.studies)} has. It holds {', '.join(holds)}."
            " Name such a study and experiment, or leave the drive out."
        )
    for cell in found:
        if held[cell.name] < wanted:
            raise GridError(
                f"{place} holds {held[cell.name]} executions of the cell {study}/{cell.name}, and repetitions asks for"
                f" {wanted}. Set repetitions to at most {min(held[each.name] for each in found)}, or take an archive"
                " with more."
            )
    yield from found


def execution_names(count: int) -> list[str]:
    """Return the names of the raw files of a cell, without suffix: ``01`` … ``10``."""
    return [f"{number:02d}" for number in range(1, count + 1)]


def _points(conf: config.Config, study: str, drive: str) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Yield (experiment, fio options in canonical units, settings) for each combination of levels on a drive."""
    content = conf.studies[study]
    schemas = {**conf.fio_options, **conf.settings}
    for experiment, body in content["experiments"].items():
        if drive not in drives_of(conf, study, experiment):
            continue
        fixed = {**content["fio"], **body.get("fio", {})}
        fixed = {option: config.read_value(value, schemas[option]) for option, value in fixed.items()}
        if "regions" in body:
            # whole MiB, so that every block size of a study divides it or its remainder is small
            region_bytes = conf.file_size_bytes // body["regions"] // 2**20 * 2**20
            fixed |= {"size": region_bytes, "offset_increment": region_bytes}
        factors = list(body["vary"])
        levels = [[config.read_value(level, schemas[name]) for level in body["vary"][name]] for name in factors]
        for combination in itertools.product(*levels):
            varied = dict(zip(factors, combination, strict=True))
            settings = {name: value for name, value in varied.items() if name in conf.settings}
            options = {name: value for name, value in varied.items() if name not in settings}
            yield experiment, {**fixed, **options}, settings


def _check_point(point: Mapping[str, Any], conf: config.Config, place: str) -> None:
    for option in ("rw", "bs"):
        if option not in point:
            raise GridError(f"{place}: no '{option}'. Add it under vary, or to the fio options.")
    size_bytes = point.get("size", conf.file_size_bytes)
    if point["bs"] > size_bytes:
        raise GridError(
            f"{place}: bs {units.format_size(point['bs'])} is larger than"
            f" {'a region of the file' if 'size' in point else 'the file'}"
            f" ({config.CONFIG_FILE}: file_size). Take a smaller block or a larger file."
        )
    last_bytes = point.get("offset", 0) + (point.get("numjobs", 1) - 1) * point.get("offset_increment", 0)
    if "size" in point and last_bytes + size_bytes > conf.file_size_bytes:
        raise GridError(
            f"{place}: {point.get('numjobs', 1)} jobs need as many regions. Raise regions, or lower numjobs."
        )


class _Tags:
    """The readable part of a cell's name, a function of the fio options and the settings alone."""

    def __init__(self, options: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Mapping[str, Any]]) -> None:
        # rw and bs come first, numjobs is always said, the rest follow in alphabetical order where set
        tagged = [option for option in options if "x-tag" in options[option]]
        rest = sorted(set(tagged) - {"rw", "bs", "numjobs", "iodepth"})
        self._order = ["rw", "bs", "iodepth", "numjobs", *rest]
        self._tag = {option: str(options[option]["x-tag"]) for option in self._order}
        self._unit = {option: options[option].get("x-unit") for option in self._order}
        self._settings = {setting: str(schema["x-tag"]) for setting, schema in settings.items()}
        self._known: dict[tuple[str, Any], str] = {}

    def readable(self, point: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
        """Return such as ``randread-4k-j1``, ``randread-4k-q32-j4-mix70`` or ``randread-4k-j1-dra1``."""
        asynchronous = point.get("ioengine") in ASYNCHRONOUS_ENGINES
        parts = []
        for option in self._order:
            value = point.get(option, 1 if option == "numjobs" else None)
            if value is None or (option == "iodepth" and not asynchronous):
                continue
            text = self._known.get((option, value))
            if text is None:
                text = self._known[option, value] = self._tag[option] + self._text(option, value)
            parts.append(text)
        parts += [f"{self._settings[name]}{settings[name]}".replace(" ", "-") for name in sorted(settings)]
        return "-".join(parts)

    def _text(self, option: str, value: Any) -> str:
        if self._unit[option] == "size":
            return units.format_size(value)
        return f"{value}us" if self._unit[option] == "duration" else str(value)
