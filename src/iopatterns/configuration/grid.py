"""Expansion of a study to its cells.

The grid of a study is the set of all combinations of levels (values) that its experiments list for their fio options
and drive settings. Each combination on a drive is a cell. Its name is readable, and ends with digits of a hash, such as
``randread-4k-q1-j1-1a2b3c4d``.
"""

import itertools
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Literal, NamedTuple, cast

from iopatterns.base import engines, files, units, yaml_schema
from iopatterns.configuration import config, drive_entries, kinds, study_check
from iopatterns.configuration.factors import FACTORS, OPTION_ROLES, SETTING_ROLES, factor_names
from iopatterns.raw import cells, records

# Increment it when fio is called in another way that the specification does not show. Every cell then gets a new hash,
# and is measured again.
PROTOCOL = 2

_MIB = 2**20

# Keys of config/drives.yaml that no measurement depends on: note, host, settable settings, consent
_WITHOUT_EFFECT = frozenset({"description", "host", "tune", "destroy", "expendable"})


class GridError(yaml_schema.ConfigError):
    """The error raised for a study that cannot be expanded to cells.

    A cell is one configuration: a drive, its settings and a workload. The message names the file and the place in it.
    """


@dataclass(frozen=True, slots=True)
class Cell:
    """One configuration of a study: a drive, its settings and a workload.

    Attributes:
        study: The name of the study.
        drive: The name of the drive.
        name: The name of the cell, such as ``randread-4k-q32-j1-1a2b3c4d``. It consists of the main fio options, the
            drive settings, and the first eight digits of the SHA-256 sum of the specification.
        specification: All values that can change the result of the measurement, and no others, in canonical units.
        experiments: The names of the experiments of the study that contain the cell, in the order of the study file; at
            least one.
    """

    study: str
    drive: str
    name: str
    specification: records.Specification
    experiments: tuple[str, ...]

    @property
    def folder(self) -> str:
        """The folder of the raw files (JSON output of fio) of this cell.

        The folder is relative to data/raw, and has the form ``DRIVE/STUDY/CELL``.
        """
        return f"{self.drive}/{self.study}/{self.name}"


def expand_grid(conf: config.Config, study: str) -> Iterator[Cell]:
    """Yield the cells of a study on all configured drives.

    A cell is one configuration: a drive, its settings and a workload. Drives are in the order of config.yaml, the cells
    of a drive in the order of the study file. A cell that several experiments contain is yielded once.

    For an archived drive, which was measured elsewhere, the cells come from its archive. Only cells that belong to an
    experiment of the study are yielded.

    Args:
        conf: The configuration of the project.
        study: The name of a configured study.

    Raises:
        GridError: An experiment lacks a required option, cannot be measured, or has an option without effect. Or an
            archive has no suitable cell, or too few repetitions of a cell.
    """
    file = f"{config.STUDIES_FOLDER}/{study}.yaml"
    if problems := list(study_check.output_problems(conf, study)):
        raise GridError("\n".join(problems))
    tags = _Tags()
    for drive, entry in conf.drives.items():
        if kinds.is_archived(entry):
            yield from _archived(conf, study, drive, entry)
            continue
        found: dict[str, tuple[records.Specification, list[str]]] = {}
        for point in _points(conf, study, drive):
            name, specification = _named_specification(study, drive, point, tags)
            known, experiments = found.setdefault(name, (specification, []))
            if known != specification:
                raise GridError(f"{file}: two cells have the name {name}. Change one level slightly.")
            if point.experiment not in experiments:
                experiments.append(point.experiment)
        for name, (specification, experiments) in found.items():
            yield Cell(study, drive, name, specification, tuple(experiments))


def experiment_cells(conf: config.Config, study: str, experiment: str) -> Iterator[Cell]:
    """Yield the cells of one experiment of a study on all configured drives.

    A cell is one configuration: a drive, its settings and a workload. Drives are in the order of config.yaml. The cells
    of a drive are in the order of the combinations of levels, one for each combination. Archived drives, which were
    measured elsewhere, are left out.

    Args:
        conf: The configuration of the project.
        study: The name of a configured study.
        experiment: The name of an experiment of the study.

    Raises:
        GridError: A combination of levels lacks a required option, cannot be measured, or has an option without effect.
    """
    tags = _Tags()
    for drive in drives_of_experiment(conf, study, experiment):
        if not kinds.is_archived(conf.drives[drive]):
            for point in _points_of_experiment(conf, study, experiment, drive):
                name, specification = _named_specification(study, drive, point, tags)
                yield Cell(study, drive, name, specification, (experiment,))


class _Point(NamedTuple):
    """A combination of levels on a drive, from which a cell is made.

    Attributes:
        config: The configuration with the runtime and file size of the experiment.
        experiment: The name of the experiment.
        options: The fio options in canonical units. For a replay they describe the traced program.
        size: ``{"size": …}``, the part of the file that a job uses, if it follows from other options; otherwise empty.
        settings: The settings of the drive, by name.
        replay: The block trace that is replayed, instead of running fio; otherwise None.
    """

    config: config.Config
    experiment: str
    options: dict[str, Any]
    size: dict[str, int]
    settings: dict[str, Any]
    replay: records.Replay | None


def _named_specification(study: str, drive: str, point: _Point, tags: "_Tags") -> tuple[str, records.Specification]:
    """Return the name and the specification of a cell, see `Cell`.

    Args:
        study: The name of the study.
        drive: The name of the drive.
        point: The levels.
        tags: The maker of the readable part of names.

    Raises:
        GridError: The cell cannot be measured.
    """
    specification = _specification(study, drive, point)
    digest = cells.specification_digest(specification)
    return f"{tags.readable(point.options, point.settings)}-{digest[:8]}", specification


def _specification(study: str, drive: str, point: _Point) -> records.Specification:
    """Return the specification of a cell: everything that can change its results.

    Args:
        study: The name of the study.
        drive: The name of the drive.
        point: The levels.

    Raises:
        GridError: The cell cannot be measured.
    """
    conf, options, replay = point.config, point.options, point.replay
    entry = conf.drives[drive]
    # a replay ends with its trace, and uses as much of the drive as the trace needs
    runtime_ms = 0 if replay else _runtime_ms(conf, study, drive, point)
    fio = {**options, **point.size}
    to_check = study_check.GridPoint(conf.studies[study], point.experiment, fio, entry, runtime_ms)
    if problem := study_check.find_problem(to_check, conf):
        place = study_check.place_of_option(conf.root, study, point.experiment, problem.option)
        raise GridError(f"{place}: {problem.text}")
    specification: records.Specification = {
        "protocol": PROTOCOL,
        "runtime_ms": runtime_ms,
        # each repetition finds a simulated drive in the same state
        "warmup_ms": 0 if kinds.is_simulated(entry) else conf.warmup_ms,
        "seed": conf.seed,
        "drive": _drive_specification(conf, drive, entry, point),
        "fio": fio,
    }
    if "read_iolog" in options:
        specification["iolog"] = {"sha256": conf.iologs[options["read_iolog"]].sha256}
    if "trace" in options:
        specification["calls"] = conf.traces[options["trace"]].planned()
    if replay:
        specification["replay"] = replay
    if point.settings:
        specification["settings"] = point.settings
    return specification


def _runtime_ms(conf: config.Config, study: str, drive: str, point: _Point) -> int:
    """Return how long fio measures in each repetition of a cell, in ms.

    The arguments are those of `_specification`.
    """
    runtimes = [config.experiment_runtime_ms(conf, study, point.experiment)]
    levels = {**point.options, **point.settings}
    for longer in conf.studies[study]["experiments"][point.experiment].get("longer", ()):
        wanted = {name: map(FACTORS[name].read, given) for name, given in longer.get("where", {}).items()}
        if drive in longer.get("drives", [drive]) and all(levels.get(name) in given for name, given in wanted.items()):
            runtimes.append(units.parse_duration_us(longer["runtime"]) // 1000)
    return max(runtimes)


def _drive_specification(
    conf: config.Config, name: str, entry: kinds.ResolvedEntry, point: _Point
) -> records.DriveSpecification:
    """Return the part of a specification that describes the drive.

    Keys that no measurement depends on, such as ``description``, are left out.

    Args:
        conf: The configuration.
        name: The name of the drive.
        entry: The entry of the drive.
        point: The levels.
    """
    drive: dict[str, Any] = {key: value for key, value in entry.items() if key not in _WITHOUT_EFFECT}
    drive |= {"name": name, "file_size_bytes": 0 if point.replay else conf.file_size_bytes}
    if kinds.kind_of(entry).is_preconditioned and conf.precondition != "none":
        drive["precondition"] = {"mode": conf.precondition, "round_ms": conf.precondition_round_ms}
    if point.settings and kinds.is_real(entry) and "tune" in entry:
        drive["tune"] = entry["tune"]
    return cast(records.DriveSpecification, drive)


def repetitions(conf: config.Config, study: str) -> int:
    """Return the number of repetitions of each cell of a study.

    A repetition is one run of fio for a cell (one configuration of drive, settings and workload). The number is from
    the study file or, if the study has none, from config.yaml.

    Args:
        conf: The configuration of the project.
        study: The name of a configured study.
    """
    return conf.studies[study].get("repetitions", conf.repetitions)


def drives_of_experiment(conf: config.Config, study: str, experiment: str) -> list[str]:
    """Return the names of the configured drives on which an experiment runs.

    - If any study names a drive, the drive runs only in the experiments that name it. Studies that are not configured
      count, too.
    - If no study names a drive, the drive runs in every experiment. However, a real drive does not run in an experiment
      that is for simulated drives only.
    - An archived drive, which was measured elsewhere, runs only in the experiments that its archive has results of.

    Args:
        conf: The configuration of the project.
        study: The name of a configured study.
        experiment: The name of an experiment of the study.

    Returns:
        The names, in the order of config.yaml.
    """
    named = conf.studies[study]["experiments"][experiment].get("drives", ())
    return [
        drive
        for drive, settings in conf.drives.items()
        if (
            any(experiment in cell.experiments for cell in _in_archive(conf, study, drive, settings))
            if kinds.is_archived(settings)
            else drive in named
            or (
                drive not in conf.source_drives
                and not (_is_for_twins(conf, study, experiment) and kinds.is_real(settings))
            )
        )
    ]


def _is_for_twins(conf: config.Config, study: str, experiment: str) -> bool:
    """Return whether only simulated drives run an experiment, such as a replay."""
    body = conf.studies[study]["experiments"][experiment]
    return "replay" in body or body.get("twins_only", False)


def _in_archive(conf: config.Config, study: str, drive: str, entry: kinds.ResolvedArchive) -> Iterator[Cell]:
    """Yield the cells of an archive that belong to an experiment of a study.

    They get the name of the drive in this project.
    """
    for cell in entry["contents"].cells:
        experiments = tuple(name for name in cell.experiments if name in conf.studies[study]["experiments"])
        if cell.study == study and experiments:
            yield Cell(study, drive, cell.name, cell.specification, experiments)


def _archived(conf: config.Config, study: str, drive: str, entry: kinds.ResolvedArchive) -> Iterator[Cell]:
    """Yield the cells of a study on an archived drive, after checking the archive.

    Raises:
        GridError: The archive has no suitable cell, or too few repetitions of a cell.
    """
    contents = entry["contents"]
    available = {cell.name: cell.executions for cell in contents.cells if cell.study == study}
    wanted = repetitions(conf, study)
    place = f"{drive_entries.DRIVES_FILE}: {drive}: the archive {entry['path']}"
    found = list(_in_archive(conf, study, drive, entry))
    if not any(True for each in conf.studies for _ in _in_archive(conf, each, drive, entry)):
        experiments = sorted({f"{cell.study}: {name}" for cell in contents.cells for name in cell.experiments})
        raise GridError(
            f"{place} has no cell of an experiment of {', '.join(conf.studies)}. It has {', '.join(experiments)}."
            " Name such a study and experiment, or leave the drive out."
        )
    for cell in found:
        if available[cell.name] < wanted:
            raise GridError(
                f"{place} has {available[cell.name]} repetitions of the cell {study}/{cell.name}; {wanted} are"
                f" configured. Set repetitions to at most {min(available[each.name] for each in found)}, or use an"
                " archive with more."
            )
    yield from found


def repetition_names(count: int) -> list[str]:
    """Return the names of the repetitions of a cell: ``01``, ``02``, ….

    A repetition is one run of fio for a cell, which is one configuration of drive, settings and workload. The raw file
    of a repetition has this name, followed by a suffix.

    Args:
        count: Number of repetitions of the cell.
    """
    return [f"{number:02d}" for number in range(1, count + 1)]


def _points(conf: config.Config, study: str, drive: str) -> Iterator[_Point]:
    """Yield each combination of levels of a study on a drive, by experiment.

    Raises:
        GridError: An experiment has both ``regions`` and ``size``, or replays a trace that does not exist.
    """
    for experiment in conf.studies[study]["experiments"]:
        if drive in drives_of_experiment(conf, study, experiment):
            yield from _points_of_experiment(conf, study, experiment, drive)


def _points_of_experiment(conf: config.Config, study: str, experiment: str, drive: str) -> Iterator[_Point]:
    """Yield each combination of levels of an experiment on a drive, like `_points`."""
    conf = config.with_file_size_of(conf, study, experiment, drive)
    if kinds.is_simulated(conf.drives[drive]):
        conf = config.with_scale_of(conf, study, experiment, drive)
    content = conf.studies[study]
    body = content["experiments"][experiment]
    fixed = {**content["fio"], **body.get("fio", {})}
    fixed = {option: FACTORS[option].read(value) for option, value in fixed.items()}
    regions = body.get("regions")
    if regions is not None:
        if "size" in {*fixed, *body["vary"]}:
            place = study_check.place_of_option(conf.root, study, experiment, "size")
            raise GridError(f"{place}: regions already determines how much of the file a job uses. Remove size.")
        # whole MiB, so that any block size divides it, or leaves a small remainder
        fixed["offset_increment"] = conf.file_size_bytes // regions // _MIB * _MIB
    for combination in itertools.product(*body["vary"].values()):
        written = dict(zip(body["vary"], combination, strict=True))
        varied = {name: FACTORS[name].read(level) for name, level in written.items()}
        settings = {name: value for name, value in varied.items() if FACTORS[name].role in SETTING_ROLES}
        point = {**fixed, **{name: value for name, value in varied.items() if name not in settings}}
        if point.get("iodepth", 1) * point.get("numjobs", 1) > body.get("most_outstanding", math.inf):
            continue
        log = study_check.user_log(point, conf)
        if log is not None:
            point |= {"rw": log[1].rw, "bs": log[1].largest_bytes}
        replay = _replay(conf, study, experiment, drive, written) if "replay" in body else None
        size = _used_size(point, conf.file_size_bytes, by_regions=regions is not None)
        yield _Point(conf, experiment, point, size, settings, replay)


def _replay(
    conf: config.Config, study: str, experiment: str, drive: str, levels: Mapping[str, int | str]
) -> records.Replay:
    """Return the block trace and the phase that a cell replays, with the options.

    The user's own drives have no recorded trace. They replay the trace of the drive under the key ``others`` of the
    experiment.

    Args:
        conf: The configuration.
        study: The name of the study.
        experiment: The name of the experiment.
        drive: The name of the drive.
        levels: The level of each varied factor, as in the study file.

    Raises:
        GridError: There is no such trace.
    """
    body = conf.studies[study]["experiments"][experiment]["replay"]
    own = drive not in conf.source_drives
    place = study_check.place_of_option(conf.root, study, experiment, "replay")
    try:
        recorded_on = body.get("others", drive) if own else drive
        path, phase = (config.fill_template(body[key], levels, recorded_on) for key in ("trace", "phase"))
        compared = [] if own else _compared_traces(conf, study, experiment, drive, levels)
    except ValueError:
        names = ", ".join(f"{{{name}}}" for name in (*levels, "drive"))
        raise GridError(
            f"{place}: replay: '{body['trace']}' or '{body['phase']}' names a factor that is not varied. Valid are"
            f" {names}."
        ) from None
    path = conf.trace_replacements.get(path, path)
    live = conf.recordings.get(path)
    try:
        if live is not None:
            found: records.Replay = {"trace": live.path, "phase": phase, "made_of": live.made_of}
            # what the project has are other recordings of the same program
            others = [_trace_file(conf, each) for each in (path, *compared) if (conf.root / each).is_file()]
        else:
            found = {"trace": path, "phase": phase, "sha256": _trace_file(conf, path)["sha256"]}
            others = [_trace_file(conf, each) for each in compared if each != path]
    except OSError as error:
        raise GridError(
            f"{place}: replay: {Path(error.filename).relative_to(conf.root)}: {error.strerror}. Name an existing trace."
        ) from None
    if others:
        found["compare"] = others
    number: Literal["depth", "blocks_over_time"]
    for number in ("depth", "blocks_over_time"):
        if number in body:
            found[number] = body[number]
    flag: Literal["arrival_times", "latencies"]
    for flag in ("arrival_times", "latencies"):
        if body.get(flag):
            found[flag] = True
    return found


def _compared_traces(
    conf: config.Config, study: str, experiment: str, drive: str, levels: Mapping[str, int | str]
) -> list[str]:
    """Return the paths of other recordings of the program that an experiment replays.

    These are the paths under the key ``compare``, by default the path under the key ``trace``. In each, ``{drive}``
    stands for each other drive of the experiment in turn.

    Args:
        conf: The configuration.
        study: The name of the study.
        experiment: The name of the experiment.
        drive: The name of the drive.
        levels: The level of each varied factor, as in the study file.

    Raises:
        ValueError: A path names a factor that is not varied.
    """
    body = conf.studies[study]["experiments"][experiment]
    others = [each for each in body.get("drives", ()) if each != drive]
    trace = body["replay"]["trace"]
    templates = body["replay"].get("compare", [trace] if "{drive}" in trace else [])
    found = (
        config.fill_template(template, levels, each)
        for template in templates
        for each in (others if "{drive}" in template else [drive])
    )
    return list(dict.fromkeys(found))


def _trace_file(conf: config.Config, path: str) -> records.TraceReference:
    return {"trace": path, "sha256": files.sha256(conf.root / path)}


def _used_size(point: Mapping[str, Any], file_size_bytes: int, *, by_regions: bool) -> dict[str, int]:
    """Return ``{"size": …}`` for a workload that can use only part of the file.

    The size is in bytes, counted from the offset of the workload. It is rounded down to whole MiB. The result is empty
    if the workload has its own size, or can use the complete file. Without a size, fio would delete a file that is too
    short, and write a longer one.

    Args:
        point: The fio options in canonical units.
        file_size_bytes: Size of the file.
        by_regions: Whether each job has its own region of the file, as long as the distance between the offsets of two
            jobs.
    """
    if "size" in point:
        return {}
    offset_bytes, increment_bytes = point.get("offset", 0), point.get("offset_increment", 0)
    others_bytes = (point.get("numjobs", 1) - 1) * increment_bytes
    room_bytes = increment_bytes if by_regions else file_size_bytes - others_bytes
    if not (by_regions or offset_bytes or others_bytes):
        return {}
    return {"size": max(0, room_bytes - offset_bytes) // _MIB * _MIB}


class _Tags:
    """The maker of the readable part of cell names.

    It remembers the text of each level, because the same levels occur in many cells.
    """

    def __init__(self) -> None:
        # rw, bs and iodepth come first; numjobs is in every name; other options follow in alphabetical order if set
        tagged = {option for option in factor_names(*OPTION_ROLES) if FACTORS[option].tag is not None}
        first = ["rw", "bs", "iodepth", "numjobs"]
        self._order = [*first, *sorted(tagged - set(first))]
        self._known: dict[tuple[str, Any], str] = {}

    def readable(self, point: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
        """Return the readable part of a cell name, such as ``randread-4k-q32-j4-mix70``.

        A cell is one configuration: a drive, its settings and a workload.

        Args:
            point: The fio options of the cell, in canonical units.
            settings: The drive settings of the cell, by name.
        """
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
    """Return the text of a level (value of a factor) in the name of a cell.

    Examples are ``4k`` for a block size of 4096 bytes, and ``10us`` for a pause of 10 µs. A path is shortened to its
    file name without suffix. Characters that a cell name cannot contain become ``_``.

    Args:
        option: The name of the factor, such as ``bs``. If there is no such factor, the level is written without a unit.
        level: The level in canonical form: sizes in bytes, durations in microseconds.
    """
    unit = FACTORS[option].unit if option in FACTORS else None
    if unit in {"size", "signed size"}:
        return units.format_size(level)
    if unit == "duration":
        return units.format_duration_us(level)
    text = PurePath(level).stem if unit == "path" else str(level)
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)  # a valid folder name
