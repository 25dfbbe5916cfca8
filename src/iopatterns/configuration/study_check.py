"""Check a study before anything is measured.

A study file in config/studies lists experiments. An experiment varies factors (fio options or drive settings) over
levels (their values). The checks refuse combinations of levels that cannot be measured, options without effect, and
tables and figures that the notebook of the study does not write. Each message names the line in the study file.
"""

import ast
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from iopatterns.base import engines, files, units, yaml_files, yaml_schema
from iopatterns.configuration import config, iologs, kinds, study_files
from iopatterns.configuration.factors import FACTORS

SECTOR_BYTES = 512  # the smallest logical block of a drive
# an upper bound for the part of a drive that the first process of a stand-in accesses
_STAND_IN_BYTES = 16 * 2**20
# these options determine the order of requests in fio; a log has its own order
_ORDER_OPTIONS = (
    "skip",
    "offset_increment",
    "blockalign",
    "percentage_random",
    "random_distribution",
    "rwmixread",
    "ramp_time",  # the log would end during this time
)
# the positions and lengths of requests
_WHOLE_SECTORS = ("bs", "size", "offset", "offset_increment", "blockalign", "skip")
_MOST_NOTEBOOK_BYTES = 64 * 2**20


class GridProblem(NamedTuple):
    """The reason why a combination of levels cannot be measured.

    Attributes:
        option: The fio option or the key of the study file that causes the problem, such as ``iodepth``.
        text: The problem and its remedy, as sentences.
    """

    option: str
    text: str


@dataclass(frozen=True)
class GridPoint:
    """A combination of levels on one drive, which `find_problem` checks.

    A level is a value that an experiment gives to an option of fio or to a drive setting.

    Attributes:
        study: The content of the study file.
        experiment: The name of the experiment that contains the combination.
        options: The fio options in canonical units: sizes in bytes, durations in microseconds.
        drive: The entry of the drive in `config.Config.drives`.
        runtime_ms: The time that fio runs in a repetition, in milliseconds. It is 0 for a replay of a block trace, and
            if fio ends when it has transferred the file once.
    """

    study: config.StudyConfig
    experiment: str
    options: Mapping[str, Any]
    drive: kinds.ResolvedEntry
    runtime_ms: int

    @property
    def replays(self) -> bool:
        """Whether the experiment replays a recorded block trace instead of running fio.

        If so, ``options`` describes the program whose requests were recorded.
        """
        return "replay" in self.study["experiments"][self.experiment]


# ---- Places in the file of a study


def _place(root: Path, study: str, path: tuple[str | int, ...]) -> str:
    """Return file and line of a value in a study, for messages.

    An example is ``config/studies/x.yaml:12``. The line is left out if the file cannot be read.

    Args:
        root: The folder of the project.
        study: The name of the study.
        path: Keys and list indices that lead to the value.
    """
    file = study_files.GRID.format(study=study)
    try:
        text = files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
        yaml_files.parse_yaml(text)  # line_of() has no limits of its own
    except (OSError, files.UnreadableError, yaml_files.YamlError):
        return file
    return f"{file}:{yaml_files.line_of(text, path)}"


def place_of_option(root: Path, study: str, experiment: str, option: str) -> str:
    """Return the place of an option in a study file, for messages.

    The place consists of file, line and experiment, such as ``config/studies/x.yaml:12: experiments.mix``. If an option
    takes its levels from a named list under ``levels``, the line is that of the list. If the study file does not set
    the option, the line is that of the experiment. The line is left out if the file cannot be read.

    Args:
        root: The folder of the project.
        study: The name of the study.
        experiment: The name of the experiment.
        option: The name of a fio option or drive setting, or another key of the experiment.
    """
    file = study_files.GRID.format(study=study)
    path: tuple[str | int, ...] = ("experiments", experiment)
    try:
        content = yaml_schema.read_yaml(root, file)
        body = content["experiments"][experiment]
        for keys, options in (
            (("experiments", experiment, "vary"), body["vary"]),
            (("experiments", experiment), body),
            (("experiments", experiment, "fio"), body.get("fio", {})),
            (("fio",), content.get("fio", {})),
        ):
            if option in options:
                named = options[option]  # a text may be the name of a list under `levels`
                path = (
                    ("levels", named)
                    if isinstance(named, str) and named in content.get("levels", {})
                    else (*keys, option)
                )
                break
    except (yaml_schema.ConfigError, LookupError, TypeError, AttributeError):
        pass  # the file has changed meanwhile
    return f"{_place(root, study, path)}: experiments.{experiment}"


# ---- Points


def find_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return the first problem of a combination of levels on a drive.

    For example, a size that is not a multiple of 512 bytes, an I/O engine that a simulated drive does not support, and
    an ``iodepth`` without effect are problems.

    Args:
        point: The combination of levels and its drive.
        conf: The configuration of the project.

    Returns:
        The problem. None if the combination can be measured and all its options have an effect.
    """
    checks = (_missing, _without_depth, _unsupported, _beyond_sectors, _beyond_file, _bad_pauses, _bad_order, _bad_log)
    problems = itertools.chain.from_iterable(check(point, conf) for check in checks)
    return next((GridProblem(option, text) for option, text in problems), None)


# Each check yields pairs of an option and the text of its problem


def _missing(point: GridPoint, _: config.Config) -> Iterator[tuple[str, str]]:
    for option in ("rw", "bs"):
        if option not in point.options:
            yield option, f"no '{option}'. Add it under vary, or to the fio options."


def _without_depth(point: GridPoint, _: config.Config) -> Iterator[tuple[str, str]]:
    """Yield a problem if ``iodepth`` is above 1 and has no effect.

    With a synchronous engine, a job has one outstanding request whatever the depth. A study may keep such a depth from
    the command of its source, if it declares ``iodepth_has_no_effect``. A varied depth is always refused, because all
    its levels would give the same result.
    """
    engine, depth = point.options.get("ioengine", engines.DEFAULT_ENGINE), point.options.get("iodepth", 1)
    if depth <= 1 or point.replays or engine in engines.ASYNCHRONOUS_ENGINES:
        return
    text = f"iodepth {depth} has no effect: with the synchronous ioengine {engine} a job has one outstanding request."
    if "iodepth" in point.study["experiments"][point.experiment]["vary"]:
        yield "iodepth", f"{text} Use ioengine libaio, or vary numjobs."
    elif not point.study.get("iodepth_has_no_effect"):
        keep = "to keep the number from the command of a source, add `iodepth_has_no_effect: true` to the study"
        yield "iodepth", f"{text} Use ioengine libaio, or vary numjobs; {keep}."


def _unsupported(point: GridPoint, conf: config.Config) -> Iterator[tuple[str, str]]:
    """Yield a problem if the drive is simulated and does not support the I/O engine."""
    engine = point.options.get("ioengine", engines.DEFAULT_ENGINE)
    if not (point.replays or engine in engines.SIMULATED_ENGINES) and kinds.is_simulated(point.drive):
        name = next(name for name, entry in conf.drives.items() if entry is point.drive)
        valid = f"{', '.join(engines.SIMULATED_ENGINES[:-1])} or {engines.SIMULATED_ENGINES[-1]}"
        yield "ioengine", f"a simulated drive does not support ioengine {engine}, and '{name}' is one. Use {valid}."


def _beyond_sectors(point: GridPoint, conf: config.Config) -> Iterator[tuple[str, str]]:
    """Yield a problem for each size that is not a multiple of the sector size.

    I/O through the page cache (``direct=0`` on a real drive) is not checked, because the cache accepts any size.
    """
    if point.replays or not (point.options.get("direct") or kinds.is_simulated(point.drive)):
        return
    # with a log, bs is the length of its largest request
    for option in _WHOLE_SECTORS[1:] if user_log(point.options, conf) else _WHOLE_SECTORS:
        size = point.options.get(option, 0)
        if size % SECTOR_BYTES:
            lower = size // SECTOR_BYTES * SECTOR_BYTES
            near = f"{lower} or {lower + SECTOR_BYTES}" if lower else str(SECTOR_BYTES)
            yield option, f"{option} {size} is not a multiple of a sector, {SECTOR_BYTES} bytes. Use {near}."


def _beyond_file(point: GridPoint, conf: config.Config) -> Iterator[tuple[str, str]]:
    """Yield problems of a workload that extends beyond the end of the file."""
    options, file = point.options, f"{config.CONFIG_FILE}: file_size"
    size_bytes, jobs = options.get("size", conf.file_size_bytes), options.get("numjobs", 1)
    size, file_size = units.format_size(size_bytes), units.format_size(conf.file_size_bytes)
    if size_bytes > conf.file_size_bytes:
        yield "size", f"size {size} is larger than the file ({file}: {file_size}). Use a smaller size or a larger file."
    if options["bs"] > size_bytes and user_log(options, conf) is None:
        used = f"{'the used part of ' if 'size' in options else ''}the file ({file})"
        block = units.format_size(options["bs"])
        yield "bs", f"bs {block} is larger than {used}. Use a smaller block size or a larger file."
    last_bytes = options.get("offset", 0) + (jobs - 1) * options.get("offset_increment", 0)
    if "size" in options and last_bytes + size_bytes > conf.file_size_bytes:
        if "offset_increment" in options:
            yield "numjobs", f"{jobs} jobs need {jobs} regions. Increase regions, or decrease numjobs."
        remedy = "Use a smaller size, or remove it to use the rest of the file."
        yield (
            "size",
            f"size {size} from offset {units.format_size(last_bytes)} exceeds the file ({file_size}). {remedy}",
        )


def _bad_pauses(point: GridPoint, _: config.Config) -> Iterator[tuple[str, str]]:
    pause, runtime = point.options.get("thinktime"), f"{config.CONFIG_FILE}: runtime: {point.runtime_ms} ms"
    if pause is not None and 0 < point.runtime_ms * 1000 <= pause:
        text = f"thinktime {pause} us is not shorter than a repetition ({runtime})."
        yield "thinktime", f"{text} Use a shorter pause or a longer runtime."
    if "thinktime_blocks" in point.options and pause is None:
        text = "thinktime_blocks is the number of requests between pauses."
        yield "thinktime_blocks", f"{text} Add thinktime, or remove thinktime_blocks."


def _bad_order(point: GridPoint, conf: config.Config) -> Iterator[tuple[str, str]]:
    """Yield problems with options that determine the order of requests.

    For example, ``skip`` requires sequential requests.
    """
    options, rw = point.options, point.options["rw"]
    for option in ("skip", "partitions"):
        if option in options and rw not in {"read", "write"}:
            yield option, f"{option} is for sequential requests: rw read or write, not {rw}."
    if "skip" in options and abs(options["skip"]) + options["bs"] > options.get("size", conf.file_size_bytes):
        skip = units.format_size(options["skip"])
        yield "skip", f"skip {skip} leads outside the used part of the file. Use a smaller value."
    for option in ("blockalign", "percentage_random", "random_distribution"):
        if option in options and not rw.startswith("rand"):
            yield option, f"{option} is for random requests: rw {rw} has none. Use randread, randwrite or randrw."


def _bad_log(point: GridPoint, conf: config.Config) -> Iterator[tuple[str, str]]:
    """Yield problems of a workload whose requests come from a log.

    For example, such a workload has only one job, and must not extend beyond the end of the file.
    """
    options = point.options
    log, *others = [option for option in iologs.LOG_OPTIONS if option in options] or [""]
    if not log:
        return
    places = ("offset", "size") if {"read_iolog", "stand_in", "trace"} & set(options) else ()
    if not (point.runtime_ms or point.replays):
        yield log, f"{log} and one_pass exclude each other: the runtime limits a log. Give source_scale a runtime."
    for other in (*(option for option in (*_ORDER_OPTIONS, *places) if option in options), *others):
        yield log, f"{log} and {other} exclude each other: a log determines the requests. Remove one of them."
    if options.get("numjobs", 1) > 1:
        yield log, f"{log} is for one job, not for {options['numjobs']}: all would do the same. Set numjobs to 1."
    if "replay" in options and options["rw"] != (rw := _rw_of(options["replay"])):
        yield log, f"replay {options['replay']} is rw {rw}, not {options['rw']}."
    if "partitions" in options:
        part_bytes = options.get("size", conf.file_size_bytes) // options["partitions"]
        if part_bytes < options["bs"]:
            text = f"a part of {part_bytes} bytes is smaller than a request of {options['bs']}."
            yield log, f"{text} Use fewer partitions."
    file = f"the file ({config.CONFIG_FILE}: file_size)"
    if "stand_in" in options and conf.file_size_bytes < _STAND_IN_BYTES:
        needed, size = units.format_size(_STAND_IN_BYTES), units.format_size(conf.file_size_bytes)
        yield log, f"stand_in needs {needed}, and {file} has {size}. Use a larger file."
    own = user_log(options, conf)
    if own is not None and own[1].end_bytes > conf.file_size_bytes:
        text = f"{own[0]} extends to byte {own[1].end_bytes}, and {file} has {conf.file_size_bytes}."
        yield log, f"{text} Use a larger file."


def _rw_of(replay: str) -> str:
    actions = set(replay.split("-"))
    return "randrw" if len(actions) > 1 else f"rand{actions.pop()}"


def user_log(options: Mapping[str, Any], conf: config.Config) -> tuple[str, iologs.IoLog] | None:
    """Return the recorded requests of the user that a workload replays.

    The user may give a fio I/O log (option ``read_iolog``) or a trace of system calls (option ``trace``).

    Args:
        options: The fio options of the workload.
        conf: The configuration, which contains the requests of all logs and traces.

    Returns:
        A pair: the name of the log or trace for messages, and its requests. None if the workload replays neither a log
        nor a trace of the user.
    """
    if "read_iolog" in options:
        return options["read_iolog"], conf.iologs[options["read_iolog"]]
    if "trace" in options:
        return f"the trace {options['trace']}", conf.traces[options["trace"]]
    return None


# ---- Outputs

# Functions that write a table or figure. The last part of their second argument is its name.
_WRITERS = frozenset({"table", "figure", "write_table", "save"})


class _Code(NamedTuple):
    """The names of tables and figures that the code of a notebook may write.

    Attributes:
        texts: All text constants in the code.
        patterns: The f-strings in the code. In each pattern, any text matches the expressions in braces.
        has_variables: Whether a variable names an output, such as the variable of a loop over the experiments.
    """

    texts: set[str]
    patterns: list[re.Pattern[str]]
    has_variables: bool

    def may_write(self, name: str) -> bool:
        """Return whether the code contains a name as a text constant, or an f-string that can produce it."""
        return name in self.texts or any(pattern.fullmatch(name) for pattern in self.patterns)


def output_problems(conf: config.Config, study: str) -> Iterator[str]:
    """Yield a message for each table and figure that the notebook does not write.

    A study file lists the expected tables and figures under ``tables`` and ``figures``, for the study and for each
    experiment. The notebook ``notebooks/STUDY.ipynb`` and the code file ``notebooks/STUDY.py`` are read, but not
    executed.

    The notebook counts as writing a table or figure in each of these cases:

    - The code contains the name of the table or figure as a text constant.
    - The code contains an f-string that can produce the name.
    - The code names an output by a variable, and the name is that of an experiment, drive, factor or level.

    A notebook that cannot be read, or that computes names in another way, is not checked.

    Args:
        conf: The configuration, which contains the study.
        study: The name of the study.

    Yields:
        A text that begins with file and line in the study file, and names the table or figure and the remedy.
    """
    content = conf.studies[study]
    code = _code_of(conf.root, study)
    if code is None:
        return
    looped = set(_loop_values(conf, content)) if code.has_variables else set()
    notebook = study_files.NOTEBOOK.format(study=study)
    places: list[tuple[tuple[str | int, ...], Mapping[str, Any]]] = [((), content)]
    places += [(("experiments", experiment), body) for experiment, body in content["experiments"].items()]
    kind: Literal["tables", "figures"]
    for path, body in places:
        for kind in ("tables", "figures"):
            for index, name in enumerate(body.get(kind, ())):
                if name in looped or code.may_write(name):
                    continue
                noun = kind.removesuffix("s")
                near = yaml_schema.did_you_mean(name, {*content["experiments"], *filter(_is_output_name, code.texts)})
                where, key = _place(conf.root, study, (*path, kind, index)), ".".join(map(str, (*path, kind)))
                yield (
                    f"{where}: {key}: {notebook} writes no {noun} '{name}'.{near}"
                    f" Write it there with outputs.{noun}(…, '{name}'), or remove the name here."
                )


def _is_output_name(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9][a-z0-9_-]*", text) is not None


def _loop_values(conf: config.Config, content: config.StudyConfig) -> Iterator[str]:
    """Yield the names that a notebook may loop over to name its outputs.

    These are the names of experiments, of drives (of the configuration and of the study) and of factors, and the levels
    as text.
    """
    yield from content["experiments"]
    yield from conf.drives
    for body in content["experiments"].values():
        yield from body.get("drives", ())
        for factor, levels in body["vary"].items():
            yield from (factor, FACTORS[factor].column, *map(str, levels))


def _code_of(root: Path, study: str) -> _Code | None:
    """Return the possible names of outputs in the notebook of a study.

    The code file of the study, notebooks/STUDY.py, is included. Returns None if the code cannot be read, or computes
    names in a way that this check does not understand.
    """
    try:
        notebook = json.loads(files.read_bounded(root / study_files.NOTEBOOK.format(study=study), _MOST_NOTEBOOK_BYTES))
        cells = [cell["source"] for cell in notebook["cells"] if cell["cell_type"] == "code"]
        sources = ["".join(source) for source in cells]
        beside = root / study_files.CODE.format(study=study)
        if beside.exists():
            sources.append(files.read_text_bounded(beside, yaml_files.MAX_YAML_BYTES))
        without_magics = [re.sub(r"^(\s*)[%!?].*$", r"\1pass", source, flags=re.MULTILINE) for source in sources]
        nodes = [node for source in without_magics for node in ast.walk(ast.parse(source))]
    except (OSError, files.UnreadableError, ValueError, RecursionError, LookupError, TypeError, SyntaxError):
        return None
    writers = _WRITERS | {alias for node in nodes for alias in _aliases(node)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and _name_of(node.func) in writers]
    names = [name for call in calls if (name := _output_name(call)) is not None]
    runs_other_code = any(re.search(r"^\s*%run\b|\bexec\(", source, flags=re.MULTILINE) for source in sources)
    if runs_other_code or not all(isinstance(name, ast.Constant | ast.Name | ast.JoinedStr) for name in names):
        return None
    return _Code(
        {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)},
        [pattern for node in nodes if (pattern := _pattern(node))],
        any(not isinstance(name, ast.Constant) and _pattern(name) is None for name in names),
    )


def _pattern(node: ast.AST) -> re.Pattern[str] | None:
    """Return a pattern that matches the results of an f-string.

    Returns None for any other node, and for an f-string without constant text.
    """
    if not isinstance(node, ast.JoinedStr) or not any(isinstance(part, ast.Constant) for part in node.values):
        return None
    parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values]
    return re.compile("".join(parts))


def _aliases(node: ast.AST) -> Iterator[str]:
    """Yield the variables to which an assignment binds functions that write outputs.

    For ``show, draw = outputs.table, outputs.figure``, these are ``show`` and ``draw``.
    """
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        pairs = list(zip(target.elts, value.elts, strict=False))
    else:
        pairs = [(target, value)]
    for name, given in pairs:
        if isinstance(name, ast.Name) and isinstance(given, ast.Attribute) and given.attr in _WRITERS:
            yield name.id


def _name_of(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _output_name(call: ast.Call) -> ast.expr | None:
    """Return the expression that names the output, in a call that writes one.

    It is the second argument, or the argument ``name``. Of a path such as ``folder / "x"``, the last part is returned.
    Returns None if there is no such argument.
    """
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
    name = given or (call.args[1] if len(call.args) > 1 else None)
    while isinstance(name, ast.BinOp) and isinstance(name.op, ast.Div):
        name = name.right
    return name
