"""Reads config/: closed schemas, and messages that name the file, the key and the nearest valid choice."""

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
from iopatterns.configuration import drive_entries, factors, iologs, kinds, schemas
from iopatterns.configuration.drive_entries import DriveEntries
from iopatterns.configuration.iologs import SyscallLog

CONFIG_FILE = "config/config.yaml"
STUDIES_FOLDER = "config/studies"
DEFAULT_RESULTS = "results"
# Folders below `DEFAULT_RESULTS` that runs with the default folder write, and folders that other commands write
_OF_RUNS = frozenset({"figures", "logs", "measurements", "notebooks", "numbers", "tables", "traces", "twins"})
_OF_COMMANDS = frozenset({"ablation", "bench", "calls", "compare", "site", "spread", "working"})
# In a study, in place of the levels of the factor `trace`: all traces of the user's own
ALL_TRACES = "traces"
# What `fill_template` raises for a text that names what is not varied
TEMPLATE_ERRORS = (KeyError, IndexError, ValueError)


class ExperimentConfig(TypedDict):
    """An experiment of a study: the levels of each factor that it varies, and what it has in place of its study's."""

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
    """A file of config/studies: the fio options common to all cells, and the experiments by name.

    ``twins`` are simulated drives that it defines, ``mechanisms`` what its ablation switches off, each by name.
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
    """A trace that is yet to be recorded: its ``path``, and the SHA-256 of all that it is made of."""

    path: str
    made_of: str


@dataclass(frozen=True)
class Config:
    """All of config/ below ``root``, checked, with units resolved.

    ``drives`` and ``studies`` hold the entries that the configuration names, in its order; each experiment of a study
    has the drives that it names, or else those that its study does. ``independent_drives`` are those of the drives that
    may be measured at the same time. ``source_drives`` are the drives that any study in config/studies names,
    configured or not; all others are the user's own. ``results`` is the results folder, relative to ``root``.
    ``iologs`` are the logs that studies have replayed, by path;
    ``traces`` what the user's own traces of calls ask of a drive, by name. ``live``: whether recordings are made anew;
    ``recordings`` are those that then stand in the place of shipped traces, by the paths of these. ``instead`` are the
    traces that an ablation replays in the place of others, by the paths of these.
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
    instead: Mapping[str, str] = field(default_factory=dict)


def load_config(root: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """Read and check ``config/`` below ``root``.

    ``overrides`` replace single keys of config.yaml (Snakemake's ``--config`` and ``--configfile``). Raises
    ConfigError with every mistake of the first file that has any, one a line.
    """
    main = read_yaml(root, CONFIG_FILE)
    if isinstance(main, dict) and overrides:
        main = {**main, **overrides}
    require_valid(CONFIG_FILE, main, schemas.load_schema(root, "config"))
    known = drive_entries.read_drive_entries(root)
    where = f"in {drive_entries.DRIVES_FILE}, under twins in {STUDIES_FOLDER}/, or in data/twins"
    _check_names(main["drives"], "drives", [*known.entries, drive_entries.ALL_TWINS], where)
    _check_independent(main["independent_drives"], known, where)

    files = {path.stem for path in (root / STUDIES_FOLDER).glob("*.yaml")}
    _check_names(main["studies"], "studies", files, f"in {STUDIES_FOLDER}/")
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
                body.pop("runtime", None)  # what is asked for this run alone stands for every experiment
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
        source_drives=known.of_studies,
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


def replayed_traces(conf: Config) -> dict[str, set[str]]:
    """Return the paths of the traces that each configured study replays, on the drives that it names or yours."""
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
    """Yield the traces that an experiment replays on the drives that it names, and on ``own``, the user's."""
    asked = body["replay"]
    drives = {*named, *([str(asked["others"])] if "others" in asked else own)}
    for combination, drive in itertools.product(itertools.product(*body["vary"].values()), drives):
        levels = dict(zip(body["vary"], combination, strict=True))
        with contextlib.suppress(*TEMPLATE_ERRORS):
            yield fill_template(str(asked["trace"]), levels, drive)


def fill_template(text: str, levels: Mapping[str, int | str], drive: str) -> str:
    """Return what stands under ``replay`` with levels and drive in their places. Raises one of `TEMPLATE_ERRORS`."""
    return text.format(**{**levels, "drive": drive})


def _levels_of(option: str, study: StudyConfig) -> Iterator[tuple[str, str]]:
    """Yield the levels of an option in a study, varied or fixed, each after its experiment."""
    for experiment, body in study["experiments"].items():
        fixed = {**study["fio"], **body.get("fio", {})}
        levels = [*body["vary"].get(option, []), *([fixed[option]] if option in fixed else [])]
        yield from ((experiment, str(level)) for level in levels)


def _iologs(root: Path, studies: Mapping[str, StudyConfig]) -> dict[str, iologs.IoLog]:
    """Return the logs that studies have replayed, by path. Raises ConfigError for one that is missing or malformed."""
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
    """Return what the user's own traces ask of a drive. Raises ConfigError for one that cannot be replayed."""
    stand_ins = {str(name).lower(): name for name in factors.find_factor("stand_in").choices}
    found = {}
    for name, entry in entries.items():
        place = f"{CONFIG_FILE}: traces.{name}"
        if name.lower() in stand_ins:
            raise ConfigError(f"{place}: {stand_ins[name.lower()]} is the name of a stand-in. Take another name.")
        try:
            process = int(entry["process"]) if "process" in entry else None
            found[name] = iologs.read_syscall_trace(root, entry["path"], entry.get("only", "*"), process)
        except iologs.IologError as error:
            raise ConfigError(f"{place}: {error}") from None
    return found


def _check_traces(file: str, study: StudyConfig, names: Iterable[str]) -> None:
    """Raise ConfigError where a study replays a trace that the configuration has not."""
    for experiment, name in _levels_of("trace", study):
        if name not in names:
            raise ConfigError(
                f"{file}: experiments.{experiment}: no trace '{printable(name)}' stands under traces in"
                f" {CONFIG_FILE}.{did_you_mean(name, names)} There: {', '.join(names) or 'none yet'}."
            )


def experiment_runtime_ms(conf: Config, study: str, experiment: str) -> int:
    """Return how long fio measures in an execution: as config.yaml says, or longer where the experiment asks for it."""
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
    """Return the results folder of config.yaml, or the default folder without that file. Raises ConfigError."""
    if not (root / CONFIG_FILE).exists():
        return DEFAULT_RESULTS
    main = read_yaml(root, CONFIG_FILE)
    require_valid(CONFIG_FILE, main, schemas.load_schema(root, "config"))
    return _results(main["results"])


def results_folders(root: Path) -> list[Path]:
    """Return the default results folder, and the folders in it that runs may have as their results folder."""
    inside = sorted((root / DEFAULT_RESULTS).glob("*/"))
    return [root / DEFAULT_RESULTS, *(folder for folder in inside if not _is_taken(folder.name))]


def _is_taken(name: str) -> bool:
    return name in _OF_RUNS | _OF_COMMANDS or name.startswith("twin_of_")


def _results(folder: str) -> str:
    """Return a results folder. Raises ConfigError for a folder that other results are written to."""
    if folder != DEFAULT_RESULTS and _is_taken(folder.rpartition("/")[2]):
        raise ConfigError(
            f"{CONFIG_FILE}: results: {folder}: other results are written there. Give another name, such as"
            f" {DEFAULT_RESULTS}/mine."
        )
    return folder


def _file_size(main: Mapping[str, Any]) -> int:
    value = units.parse_size(main["file_size"])
    if value < 2**20 or value % 2**20:
        raise ConfigError(f"{CONFIG_FILE}: file_size: {main['file_size']!r} must be whole MiB, at least 1 MiB")
    return value


def _check_independent(names: Iterable[str], known: DriveEntries, where: str) -> None:
    """Raise ConfigError for an independent drive that is not described, or is no real one."""
    _check_names(names, "independent_drives", known.entries, where)
    for index, name in enumerate(names):
        kind = kinds.kind_of(known.entries[name])
        if not kind.is_real:
            raise ConfigError(
                f"{CONFIG_FILE}: independent_drives[{index}]: '{name}' is of kind '{kind.name}', which disturbs no"
                " other drive. Leave it out."
            )


def _with_levels(file: str, content: Any, traces: Iterable[str]) -> Any:
    """Return a study with the names of lists under ``vary`` replaced by the lists that its ``levels`` define.

    `ALL_TRACES` is the list of the user's own ``traces``. Where there are none, an experiment that varies it is left
    out: it has nothing to measure.
    """
    if not (isinstance(content, dict) and isinstance(content.get("experiments"), dict)):
        return content  # the schema says what is wrong
    levels = content.get("levels", {})
    for experiment, body in list(content["experiments"].items()):
        vary = body.get("vary") if isinstance(body, dict) else None
        if not isinstance(vary, dict):
            continue
        for factor, value in vary.items():
            if not isinstance(value, str):
                continue
            if (factor, value) == ("trace", ALL_TRACES):
                vary[factor] = list(traces)
                if not traces:
                    del content["experiments"][experiment]
                continue
            if not isinstance(levels, dict) or value not in levels:
                known = sorted(levels) if isinstance(levels, dict) else []
                raise ConfigError(
                    f"{file}: experiments.{experiment}.vary.{factor}: no list '{printable(value)}' stands under levels."
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
