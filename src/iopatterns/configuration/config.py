"""Reading and validation of config/."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from iopatterns.base import units
from iopatterns.base.messages import printable
from iopatterns.base.yaml_schema import ConfigError, did_you_mean, read_yaml, require_valid
from iopatterns.configuration import drive_entries, factors, iologs, kinds, schemas, study_files
from iopatterns.configuration.drive_entries import DriveEntries
from iopatterns.configuration.iologs import SyscallLog

CONFIG_FILE = "config/config.yaml"
STUDIES_FOLDER = "config/studies"
DEFAULT_RESULTS = "results"
# Folders in `DEFAULT_RESULTS` that runs with the default results folder write, followed by folders of other commands
_TAKEN_FOLDERS = frozenset({"figures", "logs", "measurements", "notebooks", "numbers", "tables", "traces", "twins"})
_TAKEN_FOLDERS |= {"ablation", "bench", "calls", "compare", "site", "spread", "working"}
# As the levels of the factor `trace` in a study, this word stands for all traces in config.yaml
_ALL_TRACES = "traces"


class ExperimentConfig(TypedDict):
    """An experiment of a study.

    Attributes:
        vary: The levels of each factor that the experiment varies.
        replay: The recorded trace that is replayed, instead of running fio.

    All other keys override or extend the keys of the study.
    """

    vary: dict[str, list[int | str]]
    description: NotRequired[str]
    drives: NotRequired[list[str]]
    tables: NotRequired[list[str]]
    figures: NotRequired[list[str]]
    runtime: NotRequired[str]
    regions: NotRequired[int]
    twins_only: NotRequired[bool]
    fio: NotRequired[dict[str, int | str]]
    replay: NotRequired[dict[str, str | bool | int]]


class StudyConfig(TypedDict):
    """The content of a file in config/studies.

    Attributes:
        fio: The fio options common to all experiments.
        experiments: The experiments, by name.
        levels: Lists of levels that experiments refer to, by name.
        twins: The simulated drives that the study defines, by name.
        mechanisms: The mechanisms that the ablation of the study switches off, by name.
    """

    title: str
    fio: dict[str, int | str]
    experiments: dict[str, ExperimentConfig]
    source: NotRequired[str]
    drives: NotRequired[list[str]]
    repetitions: NotRequired[int]
    tables: NotRequired[list[str]]
    figures: NotRequired[list[str]]
    iodepth_has_no_effect: NotRequired[bool]
    levels: NotRequired[dict[str, list[int | str]]]
    twins: NotRequired[dict[str, dict[str, Any]]]
    mechanisms: NotRequired[dict[str, dict[str, Any]]]


@dataclass(frozen=True)
class PlannedRecording:
    """A trace that the run records before it replays it.

    Attributes:
        path: The file of the trace.
        made_of: SHA-256 sum of everything that the recording depends on.
    """

    path: str
    made_of: str


@dataclass(frozen=True)
class Config:
    """The validated configuration of a project, in canonical units.

    Attributes:
        root: The folder of the project.
        drives: The configured drives, by name, in the order of config.yaml.
        independent_drives: Configured drives that may be measured at the same time.
        source_drives: Drives that any study in config/studies names, configured or not. All other drives are the
            user's own.
        studies: The configured studies, by name, in the order of config.yaml. An experiment that names no drives has
            the drives of its study.
        iologs: The logs that studies replay through fio, by path.
        repetitions, runtime_ms, warmup_ms, precondition, precondition_round_ms, file_size_bytes, seed, interval,
            confidence: The values of config.yaml.
        results: The results folder, relative to ``root``.
        traces: The requests of the user's own traces of system calls, by name.
        live: Whether recordings are made again.
        recordings: The recordings that are then used instead of shipped traces, by the path of the shipped trace.
        trace_replacements: The traces that an ablation replays instead of others, by the path of the other trace.
    """

    root: Path
    drives: Mapping[str, kinds.ResolvedEntry]
    independent_drives: Sequence[str]
    source_drives: frozenset[str]
    studies: Mapping[str, StudyConfig]
    iologs: Mapping[str, iologs.IoLog]
    repetitions: int
    runtime_ms: int
    warmup_ms: int
    precondition: str
    precondition_round_ms: int
    file_size_bytes: int
    seed: int
    interval: str
    confidence: float
    results: str = DEFAULT_RESULTS
    traces: Mapping[str, SyscallLog] = field(default_factory=dict)
    live: bool = False
    recordings: Mapping[str, PlannedRecording] = field(default_factory=dict)
    trace_replacements: Mapping[str, str] = field(default_factory=dict)


def load_config(root: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the validated configuration of a project.

    Args:
        root: The folder of the project.
        overrides: Values that replace values of config.yaml (``--config`` and ``--configfile`` of Snakemake).

    Raises:
        ConfigError: A file has mistakes. The message has a line for each mistake of the first such file.
    """
    main = _config_yaml(root, overrides)
    known = drive_entries.read_drive_entries(root)
    where = f"in {drive_entries.DRIVES_FILE}, under twins in {STUDIES_FOLDER}/, or in data/twins"
    _check_names(main["drives"], "drives", [*known.entries, drive_entries.ALL_TWINS], where)
    _check_independent(main["independent_drives"], known, where)

    _check_names(main["studies"], "studies", study_files.study_names(root), f"in {STUDIES_FOLDER}/")
    study_schema = schemas.load_schema(root, "study")
    studies: dict[str, StudyConfig] = {}
    for name in main["studies"]:
        file = f"{STUDIES_FOLDER}/{name}.yaml"
        study = studies[name] = _with_levels(file, read_yaml(root, file), main["traces"])
        require_valid(file, study, study_schema)
        _check_traces(file, study, main["traces"])
        valid = drive_entries.valid_drive_names(study, known)
        where = f"in {drive_entries.DRIVES_FILE}, under twins in this file, or in data/twins"
        _check_names(study.get("drives", ()), "drives", valid, where, file=file)
        for experiment, body in study["experiments"].items():
            place = f"experiments.{experiment}."
            _check_names(body.get("drives", ()), "drives", valid, where, file=file, place=place)
            if overrides and "runtime" in overrides:
                body.pop("runtime", None)  # the runtime of the command line applies to every experiment
            if "runtime" in body:
                _milliseconds(body, "runtime", at_least=1, file=file, place=place)
            if "drives" in study:
                body.setdefault("drives", study["drives"])

    drives: list[str] = []
    for name in main["drives"]:
        drives += drive_entries.twins_of_studies(studies.values(), known) if name == drive_entries.ALL_TWINS else [name]
    if not drives:
        raise ConfigError(f"{CONFIG_FILE}: drives: the configured studies name no simulated drive. Name a drive here.")
    return Config(
        root=root,
        drives={name: known.resolved(name) for name in drives},
        independent_drives=[name for name in main["independent_drives"] if name in drives],
        source_drives=known.study_drives,
        studies=studies,
        iologs=_iologs(root, studies),
        repetitions=main["repetitions"],
        runtime_ms=_milliseconds(main, "runtime", at_least=1),
        warmup_ms=_milliseconds(main, "warmup", at_least=0),
        precondition=main["precondition"],
        precondition_round_ms=_milliseconds(main, "precondition_round", at_least=1),
        file_size_bytes=_file_size(main),
        seed=main["seed"],
        interval=main["interval"],
        confidence=main["confidence"],
        results=_results(main["results"]),
        traces=_traces(root, main["traces"]),
        live=main["live"] in {True, "true"},
    )


def _config_yaml(root: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the validated content of config.yaml with overrides."""
    main: dict[str, Any] = read_yaml(root, CONFIG_FILE)
    if isinstance(main, dict) and overrides:
        main = {**main, **overrides}
    require_valid(CONFIG_FILE, main, schemas.load_schema(root, "config"))
    return main


def replayed_traces(conf: Config) -> dict[str, set[str]]:
    """Return the paths of the traces that each study replays, by study."""
    own = conf.drives.keys() - conf.source_drives
    return {
        study: {
            trace
            for body in content["experiments"].values()
            if "replay" in body
            for trace in _traces_of(body, body.get("drives", ()), own)
        }
        for study, content in conf.studies.items()
    }


def _traces_of(body: ExperimentConfig, named: Iterable[str], own: Iterable[str]) -> Iterator[str]:
    """Yield the traces that an experiment replays.

    Args:
        body: The experiment.
        named: The drives that the experiment names.
        own: The drives of the user.
    """
    replay = body["replay"]
    drives = {*named, *([str(replay["others"])] if "others" in replay else own)}
    for combination, drive in itertools.product(itertools.product(*body["vary"].values()), drives):
        levels = dict(zip(body["vary"], combination, strict=True))
        with contextlib.suppress(ValueError):  # the grid reports it
            yield fill_template(str(replay["trace"]), levels, drive)


def fill_template(text: str, levels: Mapping[str, int | str], drive: str) -> str:
    """Return a text of ``replay`` with its placeholders filled in.

    ``{drive}`` is replaced by the drive, and the name of a factor in braces by the level.

    Raises:
        ValueError: The text refers to a factor that is not varied, or has an invalid syntax.
    """
    try:
        return text.format(**{**levels, "drive": drive})
    except (KeyError, IndexError) as error:
        raise ValueError(str(error)) from None


def _levels_of(option: str, study: StudyConfig) -> Iterator[tuple[str, str]]:
    """Yield the levels of a fio option in a study, varied or fixed.

    Each level follows the name of its experiment.
    """
    for experiment, body in study["experiments"].items():
        fixed = {**study["fio"], **body.get("fio", {})}
        levels = [*body["vary"].get(option, []), *([fixed[option]] if option in fixed else [])]
        yield from ((experiment, str(level)) for level in levels)


def _iologs(root: Path, studies: Mapping[str, StudyConfig]) -> dict[str, iologs.IoLog]:
    """Return the logs that studies replay, by path.

    Raises:
        ConfigError: A log is missing or malformed.
    """
    found: dict[str, iologs.IoLog] = {}
    for study, content in studies.items():
        for experiment, named in _levels_of("read_iolog", content):
            path = os.path.normpath(named)
            try:
                found[path] = found.get(path) or iologs.load_iolog(root / path)
            except iologs.IologError as error:
                place = f"{STUDIES_FOLDER}/{study}.yaml: experiments.{experiment}: read_iolog"
                raise ConfigError(f"{place}: {error}") from None
    return found


def _traces(root: Path, entries: Mapping[str, Mapping[str, Any]]) -> dict[str, SyscallLog]:
    """Return the requests of the traces in config.yaml, by name.

    Raises:
        ConfigError: A trace cannot be replayed.
    """
    stand_ins = {str(name).lower(): name for name in factors.find_factor("stand_in").choices}
    found = {}
    for name, entry in entries.items():
        place = f"{CONFIG_FILE}: traces.{name}"
        if name.lower() in stand_ins:
            raise ConfigError(f"{place}: {stand_ins[name.lower()]} is the name of a stand-in. Use another name.")
        try:
            process = int(entry["process"]) if "process" in entry else None
            found[name] = iologs.read_syscall_trace(root, entry["path"], entry.get("only", "*"), process)
        except iologs.IologError as error:
            raise ConfigError(f"{place}: {error}") from None
    return found


def _check_traces(file: str, study: StudyConfig, names: Iterable[str]) -> None:
    """Raise ConfigError if a study replays a trace that config.yaml does not define."""
    for experiment, name in _levels_of("trace", study):
        if name not in names:
            raise ConfigError(
                f"{file}: experiments.{experiment}: no trace '{printable(name)}' is under traces in"
                f" {CONFIG_FILE}.{did_you_mean(name, names)} There: {', '.join(names) or 'none yet'}."
            )


def experiment_runtime_ms(conf: Config, study: str, experiment: str) -> int:
    """Return for how long fio measures in each repetition of an experiment, in ms.

    The runtime of the experiment applies if it is longer than the runtime of config.yaml.
    """
    own = conf.studies[study]["experiments"][experiment].get("runtime")
    return conf.runtime_ms if own is None else max(conf.runtime_ms, units.parse_duration_us(own) // 1000)


def _milliseconds(
    content: Mapping[str, Any], key: str, at_least: int, *, file: str = CONFIG_FILE, place: str = ""
) -> int:
    value_us = units.parse_duration_us(content[key])
    if value_us % 1000 or value_us < at_least * 1000:
        raise ConfigError(f"{file}: {place}{key}: {content[key]!r} must be whole milliseconds, at least {at_least} ms")
    return value_us // 1000


def results_folder(root: Path) -> str:
    """Return the results folder of config.yaml.

    If there is no such file, the default folder is returned.

    Raises:
        ConfigError: config.yaml has a mistake.
    """
    if not (root / CONFIG_FILE).exists():
        return DEFAULT_RESULTS
    return _results(_config_yaml(root)["results"])


def results_folders(root: Path) -> list[Path]:
    """Return all folders that may be results folders.

    These are the default folder, and folders in it that no run or command uses otherwise.
    """
    inside = sorted((root / DEFAULT_RESULTS).glob("*/"))
    return [root / DEFAULT_RESULTS, *(folder for folder in inside if not _is_taken(folder.name))]


def _is_taken(name: str) -> bool:
    return name in _TAKEN_FOLDERS or name.startswith("twin_of_")


def _results(folder: str) -> str:
    """Return a results folder. Raises ConfigError for a folder with other results."""
    if folder != DEFAULT_RESULTS and _is_taken(folder.rpartition("/")[2]):
        raise ConfigError(
            f"{CONFIG_FILE}: results: {folder}: other results are written there. Use another name, such as"
            f" {DEFAULT_RESULTS}/mine."
        )
    return folder


def _file_size(main: Mapping[str, Any]) -> int:
    value = units.parse_size(main["file_size"])
    if value < 2**20 or value % 2**20:
        raise ConfigError(f"{CONFIG_FILE}: file_size: {main['file_size']!r} must be whole MiB, at least 1 MiB")
    return value


def _check_independent(names: Iterable[str], known: DriveEntries, where: str) -> None:
    """Raise ConfigError for an independent drive that is unknown or not real."""
    _check_names(names, "independent_drives", known.entries, where)
    for index, name in enumerate(names):
        kind = kinds.kind_of(known.entries[name])
        if not kind.is_real:
            raise ConfigError(
                f"{CONFIG_FILE}: independent_drives[{index}]: '{name}' is of kind '{kind.name}', which disturbs no"
                " other drive. Remove it."
            )


def _with_levels(file: str, content: Any, traces: Iterable[str]) -> Any:
    """Return a study in which names of lists under ``vary`` are replaced.

    The lists are defined under ``levels``; `_ALL_TRACES` is the list of ``traces``. If there are no traces, an
    experiment that varies them is removed, because it has nothing to measure.
    """
    if not (isinstance(content, dict) and isinstance(content.get("experiments"), dict)):
        return content  # reported by the schema
    levels = content.get("levels", {})
    for experiment, body in list(content["experiments"].items()):
        vary = body.get("vary") if isinstance(body, dict) else None
        if not isinstance(vary, dict):
            continue
        for factor, value in vary.items():
            if not isinstance(value, str):
                continue
            if (factor, value) == ("trace", _ALL_TRACES):
                vary[factor] = list(traces)
                if not traces:
                    del content["experiments"][experiment]
                continue
            if not isinstance(levels, dict) or value not in levels:
                known = sorted(levels) if isinstance(levels, dict) else []
                raise ConfigError(
                    f"{file}: experiments.{experiment}.vary.{factor}: no list '{printable(value)}' is under levels."
                    f"{did_you_mean(value, known)} Give a list, or the name of one: {', '.join(known) or 'none yet'}."
                )
            vary[factor] = levels[value]
    return content


def _check_names(
    names: Iterable[str], key: str, valid: Iterable[str], where: str, *, file: str = CONFIG_FILE, place: str = ""
) -> None:
    valid, what = sorted(valid), "study" if key == "studies" else "drive"
    for index, name in enumerate(names):
        if name not in valid:
            raise ConfigError(
                f"{file}: {place}{key}[{index}]: no {what} '{printable(name)}' is {where}."
                f"{did_you_mean(name, valid)} There: {', '.join(valid)}."
            )
