"""Reading and validation of a project's configuration, the YAML files in config/."""

import contextlib
import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
# For a config.yaml of a version that had no such key
DEFAULT_NOTEBOOK_TIME_LIMIT = "1 h"
# Folders in `DEFAULT_RESULTS` that runs with the default results folder write, followed by folders of other commands
_TAKEN_FOLDERS = frozenset({"figures", "logs", "measurements", "notebooks", "numbers", "tables", "traces", "twins"})
_TAKEN_FOLDERS |= {"ablation", "bench", "calls", "compare", "scale", "site", "spread", "working"}
# As the levels of the factor `trace` in a study, this word stands for all traces in config.yaml
_ALL_TRACES = "traces"


class SourceScale(TypedDict):
    """The scale at which the source measured, where the default run measures less.

    Keys that are absent have the values of the default run. The scale applies to simulated drives only.

    Attributes:
        place: Where the source states the scale, such as ``Section 3``.
        drives: The names of the drives for which the source states it; without this key, all drives.
        file_size: The size of the file or of the part of the drive that was read and written.
        runtime: The time for which fio measured in each repetition.
        one_pass: Whether fio ended when each job had transferred its part of the file once, instead of after a time.
        regions: Number of equal parts of the file, one for each job.
        fio: The fio options that differ from those of the default run.
        differs: Why the default run is shorter although its results differ from those at this scale.
    """

    place: str
    drives: NotRequired[list[str]]
    file_size: NotRequired[str]
    runtime: NotRequired[str]
    one_pass: NotRequired[bool]
    regions: NotRequired[int]
    fio: NotRequired[dict[str, int | str]]
    differs: NotRequired[str]


class LongerCells(TypedDict):
    """Cells of an experiment that run longer than the others.

    Attributes:
        runtime: The time for which fio measures in each repetition of these cells, such as ``500 s``.
        drives: The names of the drives of the cells; without this key, all drives.
        where: The levels of the cells, by factor, such as ``{"bs": ["28k"]}``. Cells have any level of a factor that is
            not named.
    """

    runtime: str
    drives: NotRequired[list[str]]
    where: NotRequired[dict[str, list[int | str]]]


class ReplayConfig(TypedDict):
    """The key ``replay`` of an experiment: the block trace that is replayed, instead of running fio.

    A block trace lists the requests that a drive has received. Texts may contain names of factors in braces, and
    ``{drive}`` for the name of the drive.

    Attributes:
        trace: The path of the trace.
        phase: The name of the replayed part.
        others: The drive whose recording the user's own drives replay.
        depth: The number of outstanding requests, whatever the times of the trace.
        arrival_times: Whether requests are submitted at their times in the trace.
        compare: Paths of recordings of the same program on other drives.
        latencies: Whether latencies over time are stored.
        blocks_over_time: The number of times at which the state of the drive's blocks is stored.
    """

    trace: str
    phase: str
    others: NotRequired[str]
    depth: NotRequired[int]
    arrival_times: NotRequired[bool]
    compare: NotRequired[list[str]]
    latencies: NotRequired[bool]
    blocks_over_time: NotRequired[int]


class ExperimentConfig(TypedDict):
    """An experiment of a study, as in a file in config/studies.

    A cell of the experiment is one configuration: a drive, its settings and a workload. ``drives`` replaces the drives
    of the study. ``fio`` adds options to the fio options of the study, or replaces them.

    Attributes:
        vary: The levels (values) of each factor that the experiment varies, such as
            ``{"bs": ["4k", "28k"], "DRA": [0, 1]}``. A factor is a fio option or a drive setting. Every combination of
            levels is measured.
        description: The purpose of the experiment.
        drives: The names of the drives that run the experiment.
        tables: The tables about the experiment that the notebook writes, by file name without suffix.
        figures: The figures about the experiment that the notebook writes, by file name without suffix.
        runtime: The shortest time for which fio must measure in each repetition, such as ``2 s``.
        longer: Cells with a longer runtime. If several entries apply to a cell, the longest runtime is used.
        most_outstanding: The largest number of outstanding requests, ``iodepth`` times ``numjobs``. Combinations of
            levels with more are left out.
        file_size: Size of the part of a simulated drive that is read and written, such as ``40 GiB``, instead of the
            size in config.yaml. It replaces the size of the study.
        regions: Number of equal parts of the measured file. Each job of fio uses one part.
        twins_only: Whether the experiment is for simulated drives only.
        fio: The fio options that are the same in all cells of the experiment, such as ``{"numjobs": 4}``.
        replay: The recorded block trace that is replayed, instead of running fio.
        source_scale: The scale at which the source measured. The text ``not stated`` if the source states none, or did
            not run the experiment.
    """

    vary: dict[str, list[int | str]]
    description: NotRequired[str]
    drives: NotRequired[list[str]]
    tables: NotRequired[list[str]]
    figures: NotRequired[list[str]]
    runtime: NotRequired[str]
    longer: NotRequired[list[LongerCells]]
    most_outstanding: NotRequired[int]
    file_size: NotRequired[str]
    regions: NotRequired[int]
    twins_only: NotRequired[bool]
    fio: NotRequired[dict[str, int | str]]
    replay: NotRequired[ReplayConfig]
    source_scale: NotRequired[SourceScale | str]


class StudyConfig(TypedDict):
    """The content of a study file, config/studies/STUDY.yaml.

    A study consists of experiments, which reproduce a publication or measure drives of the user. A cell is one
    configuration: a drive, its settings and a workload.

    Attributes:
        title: The title of the publication that the study reproduces; without a publication, the title of the study.
        fio: The fio options common to all experiments, such as ``{"direct": 1}``.
        experiments: The experiments, by name.
        source: Authors, number or venue, and year of the publication that the study reproduces.
        drives: The names of the drives that run the experiments without a key ``drives``.
        repetitions: Number of repetitions of each cell, instead of the number in config.yaml.
        runtime: The time for which fio measures in each repetition, such as ``20 ms``, instead of the time in
            config.yaml. Experiments may need longer.
        file_size: Size of the part of a simulated drive that is read and written, such as ``40 GiB``, instead of the
            size in config.yaml.
        tables: The other tables that the notebook writes, which belong to no single experiment. They are given by file
            name without suffix.
        figures: The other figures that the notebook writes, which belong to no single experiment. They are given by
            file name without suffix.
        iodepth_has_no_effect: Whether an ``iodepth`` above 1 is accepted with a synchronous fio engine, which ignores
            it.
        levels: Lists of levels (values of a factor), by name. An experiment may give this name under ``vary``, instead
            of a list.
        twins: The simulated drives that the study defines, by name. Each has a ``model`` in data/twins, and optionally
            other values of its parameters (``set``).
        mechanisms: The mechanisms of simulated drives that the study switches off to show their effect (ablation), by
            name.
        source_scale: The source's scale of the experiments without a key ``source_scale``.
    """

    title: str
    fio: dict[str, int | str]
    experiments: dict[str, ExperimentConfig]
    source: NotRequired[str]
    drives: NotRequired[list[str]]
    repetitions: NotRequired[int]
    runtime: NotRequired[str]
    file_size: NotRequired[str]
    tables: NotRequired[list[str]]
    figures: NotRequired[list[str]]
    iodepth_has_no_effect: NotRequired[bool]
    levels: NotRequired[dict[str, list[int | str]]]
    twins: NotRequired[dict[str, dict[str, Any]]]
    mechanisms: NotRequired[dict[str, dict[str, Any]]]
    source_scale: NotRequired[SourceScale | str]


@dataclass(frozen=True)
class PlannedRecording:
    """A block trace that this run records, before a study replays it.

    A block trace lists the requests that a drive has received, with their times.

    Attributes:
        path: The file of the trace.
        made_of: SHA-256 sum of everything that the recording depends on. It identifies the trace before its file
            exists.
    """

    path: str
    made_of: str


@dataclass(frozen=True)
class Config:
    """The validated configuration of a project, from the files in its folder config/.

    Sizes are in bytes. Durations are in milliseconds, unless the name of the attribute has another unit. A study is a
    set of experiments, usually those of one publication. A cell is one configuration: a drive, its settings and a
    workload. A repetition is one run of fio for a cell.

    Attributes:
        root: The folder of the project.
        drives: The entries of the configured drives, by name, in the order of config.yaml.
        independent_drives: The names of configured drives that may be measured at the same time, because they share no
            bus, controller or link.
        source_drives: The names of the drives that a study in config/studies names, even if the study is not
            configured. All other drives are the user's own.
        studies: The configured studies, by name, in the order of config.yaml. An experiment without drives has the
            drives of its study, if the study names any.
        iologs: The I/O logs of fio that the studies replay, by path.
        repetitions: Number of repetitions of each cell, unless its study sets another number.
        runtime_ms: How long fio measures in a repetition, unless the experiment needs longer.
        warmup_ms: How long the workload of a cell runs, unmeasured, before the first repetition; 0 for no warm-up.
        precondition: How a whole disk is prepared before its first measurement: ``none``, ``fill`` (written once in
            sequence) or ``steady`` (then written at random until the rate is steady).
        precondition_round_ms: Length of a round of writes of the mode ``steady``.
        file_size_bytes: Size of the part of a drive that is read and written.
        seed: The seed from which the seeds of all repetitions are derived.
        interval: The method of confidence intervals: ``t`` (Student's t) or ``bca`` (bootstrap).
        confidence: The confidence level, such as 0.95.
        notebook_limit_s: How long one code cell of a notebook may run, in seconds.
        average_over_origins: Whether repetitions of a cell that different versions of fio, simulators or hosts made are
            averaged. If false, only those of the most frequent origin are used.
        results: The results folder, relative to ``root``, such as ``results``.
        traces: The requests of the user's own traces of system calls, by name.
        live: Whether this run records block traces again, instead of replaying the traces in data/traces. A block trace
            lists the requests that a drive has received.
        recordings: The block traces that this run records if ``live`` is set. The key is the path of the trace in
            data/traces that the recording replaces.
        trace_replacements: The block traces that an ablation (a run with a mechanism of the drive switched off) replays
            instead of others. The key is the path of the replaced trace, and the value the path of the replacement.
        at_source_scale: Whether experiments on simulated drives run at the scale of their source, see `SourceScale`.
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
    notebook_limit_s: int
    results: str = DEFAULT_RESULTS
    average_over_origins: bool = False
    traces: Mapping[str, SyscallLog] = field(default_factory=dict)
    live: bool = False
    recordings: Mapping[str, PlannedRecording] = field(default_factory=dict)
    trace_replacements: Mapping[str, str] = field(default_factory=dict)
    at_source_scale: bool = False


def load_config(root: Path, overrides: Mapping[str, Any] | None = None) -> Config:
    """Return the validated configuration of a project, from its folder config/.

    Values are converted to canonical units, and models of simulated drives and traces are read. ``recordings`` and
    ``trace_replacements`` of the result are empty.

    Args:
        root: The folder of the project.
        overrides: Values that replace top-level values of config.yaml, such as ``{"repetitions": 3}`` (``--config`` and
            ``--configfile`` of Snakemake). An overridden ``runtime`` also replaces the runtimes of all experiments.

    Raises:
        ConfigError: A file has a mistake. If several files have mistakes, the message is only about the first.
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
            if isinstance(scale := body.get("source_scale", study.get("source_scale")), dict):
                _check_names(scale.get("drives", ()), "drives", valid, where, file=file, place=f"{place}source_scale.")
            for index, cells in enumerate(body.get("longer", ())):
                _check_names(
                    cells.get("drives", ()), "drives", valid, where, file=file, place=f"{place}longer[{index}]."
                )
            _complete_experiment(body, study, overrides or {}, file=file, place=place)

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
        notebook_limit_s=_milliseconds(main, "notebook_time_limit", at_least=1000) // 1000,
        results=_results(main["results"]),
        average_over_origins=main.get("average_over_origins") in {True, "true"},
        traces=_traces(root, main["traces"]),
        live=main["live"] in {True, "true"},
    )


def _complete_experiment(
    body: ExperimentConfig, study: StudyConfig, overrides: Mapping[str, Any], *, file: str, place: str
) -> None:
    """Check the times and sizes of an experiment, and add what it has from its study, in place.

    Args:
        body: The experiment.
        study: The study.
        overrides: Values that replace top-level values of config.yaml.
        file: The path of the study, for messages.
        place: The keys that lead to the experiment, for messages, such as ``experiments.mix.``.

    Raises:
        ConfigError: A time or size is invalid.
    """
    if "runtime" in overrides:  # the runtime of the command line applies to every experiment
        study.pop("runtime", None)
        body.pop("runtime", None)
        body.pop("longer", None)
    if "runtime" in study:
        _milliseconds(study, "runtime", at_least=1, file=file)
    if "runtime" in body:
        _milliseconds(body, "runtime", at_least=1, file=file, place=place)
    for index, cells in enumerate(body.get("longer", ())):
        _milliseconds(cells, "runtime", at_least=1, file=file, place=f"{place}longer[{index}].")
    if "file_size" in overrides:  # as with the runtime
        body.pop("file_size", None)
    elif "file_size" in study:
        body.setdefault("file_size", study["file_size"])
    if "file_size" in body:
        _file_size(body, file=file, place=place)
    if "drives" in study:
        body.setdefault("drives", study["drives"])
    if "source_scale" in study:
        body.setdefault("source_scale", study["source_scale"])
    scale = body.get("source_scale")
    if isinstance(scale, dict) and "runtime" in scale:
        _milliseconds(scale, "runtime", at_least=1, file=file, place=f"{place}source_scale.")
    if isinstance(scale, dict) and "file_size" in scale:
        _file_size(scale, file=file, place=f"{place}source_scale.")


def _config_yaml(root: Path, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the validated content of config.yaml, with overrides applied.

    Raises:
        ConfigError: The file has a mistake.
    """
    main: dict[str, Any] = read_yaml(root, CONFIG_FILE)
    if isinstance(main, dict) and overrides:
        main = {**main, **overrides}
    require_valid(CONFIG_FILE, main, schemas.load_schema(root, "config"))
    return {"notebook_time_limit": DEFAULT_NOTEBOOK_TIME_LIMIT, **main}


def replayed_traces(conf: Config) -> dict[str, set[str]]:
    """Return the block traces that the experiments of each configured study replay.

    A block trace lists the requests that a drive has received. The user's own drives replay the traces of another drive
    if the experiment names it under ``others``.

    Returns:
        For each study, the set of the paths of its traces, relative to the project. The set is empty if the study
            replays no traces.
    """
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
    """Yield the path of each block trace that an experiment replays.

    The path may depend on the drive. The user's own drives have no recording: they replay the recording of the drive
    under ``others``, if there is this key.

    Args:
        body: The experiment.
        named: The drives that the experiment names.
        own: The user's own drives.
    """
    replay = body["replay"]
    drives = {*named, *([replay["others"]] if "others" in replay else own)}
    for combination, drive in itertools.product(itertools.product(*body["vary"].values()), drives):
        levels = dict(zip(body["vary"], combination, strict=True))
        with contextlib.suppress(ValueError):  # the grid reports it
            yield fill_template(replay["trace"], levels, drive)


def fill_template(text: str, levels: Mapping[str, int | str], drive: str) -> str:
    """Replace the names in braces in a path or phase under the key ``replay``.

    For example, ``x-{bs}-{drive}`` becomes ``x-4k-intel`` if the factor ``bs`` has the level ``4k`` and the drive is
    ``intel``.

    Args:
        text: The text with names in braces.
        levels: The level (value) of each varied factor, by name of the factor, as written in the study file.
        drive: The text that replaces ``{drive}``.

    Raises:
        ValueError: A name in braces is neither a varied factor nor ``drive``, or the text has an invalid syntax.
    """
    try:
        return text.format(**{**levels, "drive": drive})
    except (KeyError, IndexError) as error:
        raise ValueError(str(error)) from None


def _levels_of(option: str, study: StudyConfig) -> Iterator[tuple[str, str]]:
    """Yield all levels of a fio option in a study, varied or fixed.

    Yields:
        The name of the experiment, and the level as text.
    """
    for experiment, body in study["experiments"].items():
        fixed = {**study["fio"], **body.get("fio", {})}
        levels = [*body["vary"].get(option, []), *([fixed[option]] if option in fixed else [])]
        yield from ((experiment, str(level)) for level in levels)


def _iologs(root: Path, studies: Mapping[str, StudyConfig]) -> dict[str, iologs.IoLog]:
    """Return the I/O logs of fio that the studies replay, by normalised path.

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
    """Return the requests of the user's traces of system calls, by name.

    Args:
        root: The folder of the project.
        entries: The entries of the key ``traces`` of config.yaml, by name.

    Raises:
        ConfigError: A trace cannot be replayed, or has the name of a stand-in (a synthetic trace of this package).
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
    """Raise ConfigError if a study replays a trace that config.yaml does not define.

    Args:
        file: Path of the study, for the message.
        study: The study.
        names: The traces that config.yaml defines.
    """
    for experiment, name in _levels_of("trace", study):
        if name not in names:
            raise ConfigError(
                f"{file}: experiments.{experiment}: no trace '{printable(name)}' is under traces in"
                f" {CONFIG_FILE}.{did_you_mean(name, names)} Defined traces: {', '.join(names) or 'none yet'}."
            )


def stated_scale(body: ExperimentConfig, drive: str) -> SourceScale | None:
    """Return the scale at which the source ran an experiment on a drive.

    Args:
        body: The experiment.
        drive: The name of the drive.

    Returns:
        The scale; None if the file of the study states none.
    """
    scale = body.get("source_scale")
    return scale if isinstance(scale, dict) and drive in scale.get("drives", [drive]) else None


def with_scale_of(conf: Config, study: str, experiment: str, drive: str) -> Config:
    """Return the configuration with which an experiment runs on a simulated drive.

    With ``at_source_scale``, runtime, file size, regions and fio options of the returned configuration are those of the
    source, if the file of the study states them. Otherwise `conf` is returned. A replay always has the scale of its
    recording.

    Args:
        conf: The configuration.
        study: The name of a configured study.
        experiment: The name of an experiment of the study.
        drive: The name of the drive.
    """
    content = conf.studies[study]
    body = content["experiments"][experiment]
    scale = stated_scale(body, drive)
    if not conf.at_source_scale or scale is None or "replay" in body:
        return conf
    body = body.copy()
    if "fio" in scale:
        body["fio"] = {**body.get("fio", {}), **scale["fio"]}
    if "regions" in scale:
        body["regions"] = scale["regions"]
    runtime_ms = conf.runtime_ms
    if "runtime" in scale or scale.get("one_pass"):
        body.pop("runtime", None)
        body.pop("longer", None)
        runtime_ms = _milliseconds(scale, "runtime", at_least=1) if "runtime" in scale else 0
    scaled: StudyConfig = {**content, "experiments": {**content["experiments"], experiment: body}}
    if "runtime" in scale or scale.get("one_pass"):
        scaled.pop("runtime", None)
    return replace(
        conf,
        studies={**conf.studies, study: scaled},
        runtime_ms=runtime_ms,
        file_size_bytes=_file_size(scale) if "file_size" in scale else conf.file_size_bytes,
    )


def experiment_runtime_ms(conf: Config, study: str, experiment: str) -> int:
    """Return how long fio measures in each repetition of an experiment, in ms.

    The result is the runtime of the study, or that in config.yaml if the study has none. If the runtime of the
    experiment is longer, it is the result. It is 0 if fio ends when it has transferred the file once (see
    `with_scale_of`).

    Args:
        conf: The configuration.
        study: The name of a configured study.
        experiment: The name of an experiment of the study.
    """
    content = conf.studies[study]
    runtimes = (content.get("runtime"), content["experiments"][experiment].get("runtime"))
    general, own = (None if text is None else units.parse_duration_us(text) // 1000 for text in runtimes)
    return max(conf.runtime_ms if general is None else general, own or 0)


def with_file_size_of(conf: Config, study: str, experiment: str, drive: str) -> Config:
    """Return the configuration with the file size that an experiment has on a drive.

    The experiment may set a file size for simulated drives, on which a large file needs neither space nor time. It is
    at most the capacity of the drive. Real drives have the file size in config.yaml.

    Args:
        conf: The configuration.
        study: The name of a configured study.
        experiment: The name of an experiment of the study.
        drive: The name of a configured drive.
    """
    body, entry = conf.studies[study]["experiments"][experiment], conf.drives[drive]
    if "file_size" not in body or not kinds.is_simulated(entry):
        return conf
    from iopatterns.twin import models  # few studies set a file size

    model = models.load_model(entry["model"]).overridden(
        f"{name}={value}" for name, value in entry.get("set", {}).items()
    )
    return replace(conf, file_size_bytes=min(_file_size(body), model.size_bytes // 2**20 * 2**20))


def _milliseconds(
    content: Mapping[str, Any], key: str, at_least: int, *, file: str = CONFIG_FILE, place: str = ""
) -> int:
    value_us = units.parse_duration_us(content[key])
    if value_us % 1000 or value_us < at_least * 1000:
        raise ConfigError(f"{file}: {place}{key}: {content[key]!r} must be whole milliseconds, at least {at_least} ms")
    return value_us // 1000


def results_folder(root: Path) -> str:
    """Return the results folder that config.yaml names, such as ``results/mine``.

    The path is relative to the project. The folder need not exist. Without config.yaml, the default folder ``results``
    is returned.

    Args:
        root: The folder of the project.

    Raises:
        ConfigError: config.yaml has a mistake.
    """
    if not (root / CONFIG_FILE).exists():
        return DEFAULT_RESULTS
    return _results(_config_yaml(root)["results"])


def results_folders(root: Path) -> list[Path]:
    """Return the paths of the folders of a project that may be results folders.

    The default folder ``results`` is always the first, even if it does not exist. The others are its existing
    subfolders in alphabetical order, except those with a name that this package uses for other files, such as
    ``figures``.

    Args:
        root: The folder of the project.

    Returns:
        The paths, which begin with ``root``.
    """
    inside = sorted((root / DEFAULT_RESULTS).glob("*/"))
    return [root / DEFAULT_RESULTS, *(folder for folder in inside if not _is_taken(folder.name))]


def _is_taken(name: str) -> bool:
    return name in _TAKEN_FOLDERS or name.startswith("twin_of_")


def _results(folder: str) -> str:
    """Return a results folder unchanged, after checking it.

    Raises:
        ConfigError: A run or command writes other results to a folder of this name.
    """
    if folder != DEFAULT_RESULTS and _is_taken(folder.rpartition("/")[2]):
        raise ConfigError(
            f"{CONFIG_FILE}: results: {folder}: other results are written there. Use another name, such as"
            f" {DEFAULT_RESULTS}/mine."
        )
    return folder


def _file_size(content: Mapping[str, Any], *, file: str = CONFIG_FILE, place: str = "") -> int:
    value = units.parse_size(content["file_size"])
    if value < 2**20 or value % 2**20:
        raise ConfigError(f"{file}: {place}file_size: {content['file_size']!r} must be whole MiB, at least 1 MiB")
    return value


def _check_independent(names: Iterable[str], known: DriveEntries, where: str) -> None:
    """Raise ConfigError if an independent drive is unknown or not a real drive.

    Args:
        names: The drives under ``independent_drives``.
        known: All drives of the project.
        where: The places where drives are defined, for the message.
    """
    _check_names(names, "independent_drives", known.entries, where)
    for index, name in enumerate(names):
        kind = kinds.kind_of(known.entries[name])
        if not kind.is_real:
            raise ConfigError(
                f"{CONFIG_FILE}: independent_drives[{index}]: '{name}' is of kind '{kind.name}', which disturbs no"
                " other drive. Remove it."
            )


def _with_levels(file: str, content: Any, traces: Iterable[str]) -> Any:
    """Replace the names of lists under ``vary`` by the lists, in place.

    The lists are defined under ``levels`` of the study. The name ``traces`` of the factor ``trace`` stands for all
    traces in config.yaml. If config.yaml has no traces, an experiment with this name is removed, because it has nothing
    to measure.

    Args:
        file: Path of the study, for messages.
        content: The content of the study, not yet validated.
        traces: The names of the traces in config.yaml.

    Returns:
        The content.

    Raises:
        ConfigError: There is no list of this name.
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
                f"{did_you_mean(name, valid)} Valid names: {', '.join(valid)}."
            )
