"""Expands a study's factors and levels into cells with readable, hashed names. Pure: no files, no clock, no chance."""

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, cast

from iopatterns.base import engines, files, units, yaml_schema
from iopatterns.configuration import config, drive_entries, kinds, study_check
from iopatterns.configuration.factors import FACTORS, OPTION_ROLES, SETTING_ROLES, factor_names
from iopatterns.raw import cells, records

# Raise it when the measuring code changes what fio is asked to do in a way that the specification does not show:
# every cell then gets a new hash, and is measured again.
PROTOCOL = 2

_MIB = 2**20

# What an entry of drives.yaml says and no measurement depends on: a note, its host, what may be set, consent
_ABOUT_A_DRIVE = frozenset({"description", "host", "tune", "destroy", "expendable"})


class GridError(yaml_schema.ConfigError):
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
    specification: records.Specification
    experiments: tuple[str, ...]

    @property
    def folder(self) -> str:
        """Where the raw files of this cell lie, below the raw folder."""
        return f"{self.drive}/{self.study}/{self.name}"


def expand_grid(conf: config.Config, study: str) -> Iterator[Cell]:
    """Yield the cells of a study on all drives of the configuration, each cell once, in the order of the file.

    Two experiments of a study may hold the same point: it is measured once. Raises GridError when an experiment
    leaves out what every cell needs, or asks for what cannot be done or has no effect. The cells of an archived drive
    are those of its archive that an experiment of the study asks for; GridError where one of them holds too few
    executions, and where there is none of any study.
    """
    file = f"{config.STUDIES_FOLDER}/{study}.yaml"
    if problems := list(study_check.output_problems(conf, study)):
        raise GridError("\n".join(problems))
    tags = _Tags()
    for drive, settings in conf.drives.items():
        if kinds.is_archived(settings):
            yield from _archived(conf, study, drive, settings)
            continue
        found: dict[str, tuple[str, records.Specification, list[str]]] = {}
        for experiment, point, part, drive_settings, replay in _points(conf, study, drive):
            # a replay ends with its trace, and uses as much of the drive as that
            runtime_ms = 0 if replay else config.experiment_runtime_ms(conf, study, experiment)
            file_size_bytes = 0 if replay else conf.file_size_bytes
            asked = study_check.GridPoint(conf.studies[study], experiment, {**point, **part}, settings, runtime_ms)
            _check_point(conf, study, asked)
            specification: records.Specification = {
                "protocol": PROTOCOL,
                "runtime_ms": runtime_ms,
                # each execution finds a simulated drive in the same state
                "warmup_ms": 0 if kinds.is_simulated(settings) else conf.warmup_ms,
                "seed": conf.seed,
                "drive": _measured(conf, drive, settings, file_size_bytes, is_set=bool(drive_settings)),
                "fio": {**point, **part},
            }
            if "read_iolog" in point:
                specification["iolog"] = {"sha256": conf.iologs[point["read_iolog"]].sha256}
            if "trace" in point:
                specification["calls"] = conf.traces[point["trace"]].planned()
            if replay:
                specification["replay"] = replay
            if drive_settings:
                specification["settings"] = drive_settings
            digest = cells.specification_digest(specification)
            name = f"{tags.readable(point, drive_settings)}-{digest[:8]}"
            known, _, experiments = found.setdefault(name, (digest, specification, []))
            if known != digest:
                raise GridError(f"{file}: two cells are both named {name}. Change one level slightly.")
            if experiment not in experiments:
                experiments.append(experiment)
        for name, (_, specification, experiments) in found.items():
            yield Cell(study, drive, name, specification, tuple(experiments))


def _measured(
    conf: config.Config, name: str, entry: kinds.ResolvedEntry, file_size_bytes: int, *, is_set: bool
) -> records.DriveSpecification:
    """Return a drive as a specification has it; ``is_set``: whether the cell sets anything on it."""
    about: dict[str, Any] = {key: value for key, value in entry.items() if key not in _ABOUT_A_DRIVE}
    about |= {"name": name, "file_size_bytes": file_size_bytes}
    if kinds.kind_of(entry).is_preconditioned and conf.precondition != "none":
        about["precondition"] = {"mode": conf.precondition, "round_ms": conf.precondition_round_ms}
    if is_set and kinds.is_real(entry) and "tune" in entry:
        about["tune"] = entry["tune"]
    return cast(records.DriveSpecification, about)


def repetitions(conf: config.Config, study: str) -> int:
    """Return how many executions each cell of a study gets: the study's own number, or else config.yaml's."""
    return conf.studies[study].get("repetitions", conf.repetitions)


def drives_of_experiment(conf: config.Config, study: str, experiment: str) -> list[str]:
    """Return the drives of the configuration on which an experiment runs.

    A drive that any study names is one of a source's, and runs in the experiments that name it; one that none names,
    such as your own, runs in all; a real one in those that are not of twins alone.
    """
    named = conf.studies[study]["experiments"][experiment].get("drives", ())
    return [
        drive
        for drive, settings in conf.drives.items()
        if (
            any(experiment in cell.experiments for cell in _held(conf, study, drive, settings))
            if kinds.is_archived(settings)
            else drive in named
            or (
                drive not in conf.source_drives
                and not (_is_of_twins(conf, study, experiment) and kinds.is_real(settings))
            )
        )
    ]


def _is_of_twins(conf: config.Config, study: str, experiment: str) -> bool:
    """Return whether no real drive can have an experiment: a replay, or what is about the model of a twin."""
    body = conf.studies[study]["experiments"][experiment]
    return "replay" in body or body.get("twins_only", False)


def _held(conf: config.Config, study: str, drive: str, entry: kinds.ResolvedArchive) -> Iterator[Cell]:
    """Yield the cells of a study that an archive holds, under the name that its drive has here."""
    for cell in entry["contents"].cells:
        experiments = tuple(name for name in cell.experiments if name in conf.studies[study]["experiments"])
        if cell.study == study and experiments:
            yield Cell(study, drive, cell.name, cell.specification, experiments)


def _archived(conf: config.Config, study: str, drive: str, entry: kinds.ResolvedArchive) -> Iterator[Cell]:
    """Yield the cells of a study on an archived drive. Raises GridError for one with too few executions."""
    contents, path = entry["contents"], entry["path"]
    held = {cell.name: cell.executions for cell in contents.cells if cell.study == study}
    wanted = repetitions(conf, study)
    place = f"{drive_entries.DRIVES_FILE}: {drive}: the archive {path}"
    found = list(_held(conf, study, drive, entry))
    if not any(True for each in conf.studies for _ in _held(conf, each, drive, entry)):
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


def repetition_names(count: int) -> list[str]:
    """Return the names of the raw files of a cell, without suffix: ``01`` … ``10``."""
    return [f"{number:02d}" for number in range(1, count + 1)]


def _points(
    conf: config.Config, study: str, drive: str
) -> Iterator[tuple[str, dict[str, Any], dict[str, int], dict[str, Any], records.Replay | None]]:
    """Yield (experiment, options in canonical units, size, settings, replay) for each combination of levels on a drive.

    The size is that of the part of the file that a job uses, as ``{"size": …}``, where it follows from other options.
    Where there is a replay, the options say what the traced program did.
    """
    content = conf.studies[study]
    for experiment, body in content["experiments"].items():
        if drive not in drives_of_experiment(conf, study, experiment):
            continue
        fixed = {**content["fio"], **body.get("fio", {})}
        fixed = {option: FACTORS[option].read(value) for option, value in fixed.items()}
        regions = body.get("regions")
        if regions is not None:
            if "size" in {*fixed, *body["vary"]}:
                place = study_check.place_of_option(conf.root, study, experiment, "size")
                raise GridError(f"{place}: regions says already how much of the file a job uses. Leave out size.")
            # whole MiB, so that every block size of a study divides it or its remainder is small
            fixed["offset_increment"] = conf.file_size_bytes // regions // _MIB * _MIB
        for combination in itertools.product(*body["vary"].values()):
            written = dict(zip(body["vary"], combination, strict=True))
            varied = {name: FACTORS[name].read(level) for name, level in written.items()}
            settings = {name: value for name, value in varied.items() if FACTORS[name].role in SETTING_ROLES}
            point = {**fixed, **{name: value for name, value in varied.items() if name not in settings}}
            own = study_check.user_log(point, conf)
            if own is not None:
                point |= {"rw": own[1].rw, "bs": own[1].largest_bytes}
            replay = _replay(conf, study, experiment, drive, written) if "replay" in body else None
            yield (
                experiment,
                point,
                _part(point, conf.file_size_bytes, by_regions=regions is not None),
                settings,
                replay,
            )


def _replay(
    conf: config.Config, study: str, experiment: str, drive: str, levels: Mapping[str, int | str]
) -> records.Replay:
    """Return what a cell replays. Raises GridError where there is no such trace.

    A drive of the user's own has no recording, and gets that of the drive that the experiment names for it.
    """
    asked = conf.studies[study]["experiments"][experiment]["replay"]
    of_drive = drive if drive in conf.source_drives else str(asked.get("others", drive))
    try:
        path, phase = (config.fill_template(str(asked[key]), levels, of_drive) for key in ("trace", "phase"))
    except config.TEMPLATE_ERRORS:
        names = ", ".join(f"{{{name}}}" for name in (*levels, "drive"))
        place = study_check.place_of_option(conf.root, study, experiment, "replay")
        raise GridError(
            f"{place}: replay: '{asked['trace']}' or '{asked['phase']}' names what is not varied. Valid are {names}."
        ) from None
    path = conf.instead.get(path, path)
    found: records.Replay
    try:
        if path in conf.recordings:
            recording = conf.recordings[path]
            found = {"trace": recording.path, "phase": phase, "made_of": recording.made_of}
        else:
            found = {"trace": path, "phase": phase, "sha256": files.sha256(conf.root / path)}
    except OSError as error:
        place = study_check.place_of_option(conf.root, study, experiment, "replay")
        raise GridError(f"{place}: replay: {path}: {error.strerror}. Name a trace that is there.") from None
    if "depth" in asked:
        found["depth"] = int(asked["depth"])
    if asked.get("latencies"):
        found["latencies"] = True
    if "blocks_over_time" in asked:
        found["blocks_over_time"] = int(asked["blocks_over_time"])
    if "blocks_every_ms" in asked:
        found["blocks_every_ms"] = int(asked["blocks_every_ms"])
    return found


def _part(point: Mapping[str, Any], file_size_bytes: int, *, by_regions: bool) -> dict[str, int]:
    """Return ``{"size": …}`` for a workload that does not say how much of the file it uses, and cannot use all of it.

    fio takes the size to begin at the offset, and deletes a file that is too short for that.
    """
    if "size" in point:
        return {}
    offset_bytes, increment_bytes = point.get("offset", 0), point.get("offset_increment", 0)
    others_bytes = (point.get("numjobs", 1) - 1) * increment_bytes
    room_bytes = increment_bytes if by_regions else file_size_bytes - others_bytes
    if not (by_regions or offset_bytes or others_bytes):
        return {}
    return {"size": max(0, room_bytes - offset_bytes) // _MIB * _MIB}


def _check_point(conf: config.Config, study: str, point: study_check.GridPoint) -> None:
    """Raise GridError where a point cannot be measured, or has an option without effect."""
    if problem := study_check.find_problem(point, conf):
        place = study_check.place_of_option(conf.root, study, point.experiment, problem.option)
        raise GridError(f"{place}: {problem.text}")


class _Tags:
    """The readable part of a cell's name, a function of the fio options and the settings alone."""

    def __init__(self) -> None:
        # rw and bs come first, numjobs is always said, the rest follow in alphabetical order where set
        tagged = {option for option in factor_names(*OPTION_ROLES) if FACTORS[option].tag is not None}
        first = ["rw", "bs", "iodepth", "numjobs"]
        self._order = [*first, *sorted(tagged - set(first))]
        self._known: dict[tuple[str, Any], str] = {}

    def readable(self, point: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
        """Return such as ``randread-4k-j1``, ``randread-4k-q32-j4-mix70`` or ``randread-4k-j1-dra1``."""
        asynchronous = point.get("ioengine") in engines.ASYNCHRONOUS_ENGINES
        parts = []
        for option in self._order:
            value = point.get(option, 1 if option == "numjobs" else None)
            if value is None or (option == "iodepth" and not asynchronous):
                continue
            text = self._known.get((option, value))
            if text is None:
                text = self._known[option, value] = f"{FACTORS[option].tag}{level_text(option, value)}"
            parts.append(text)
        parts += [f"{FACTORS[name].tag}{settings[name]}".replace(" ", "-") for name in sorted(settings)]
        return "-".join(parts)


def level_text(option: str, level: Any) -> str:
    """Return a level of a factor as names have it: ``4k``, ``10us``; of what is no factor the level as it is."""
    unit = FACTORS[option].unit if option in FACTORS else None
    if unit in {"size", "signed size"}:
        return units.format_size(level)
    if unit == "duration":
        return units.format_duration_us(level)
    text = PurePath(level).stem if unit == "path" else str(level)
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)  # a name is one folder's
