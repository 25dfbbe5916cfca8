"""Checks of the grid of a study before a run.

They refuse cells that cannot be measured, options without effect, and tables and figures that the notebook does not
write. Each problem is reported with the line of the file of the study.
"""

import ast
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
    """A problem in a grid.

    Attributes:
        option: The option or key that causes the problem.
        text: The problem and its remedy.
    """

    option: str
    text: str


@dataclass(frozen=True)
class GridPoint:
    """A combination of levels on a drive, to be checked.

    Attributes:
        study: The study.
        experiment: The name of the experiment.
        options: The fio options in canonical units.
        drive: The entry of the drive.
        runtime_ms: The runtime of a repetition.
    """

    study: config.StudyConfig
    experiment: str
    options: Mapping[str, Any]
    drive: kinds.ResolvedEntry
    runtime_ms: int

    @property
    def replays(self) -> bool:
        """Whether a recorded trace is replayed, instead of running fio.

        The options then describe the trace.
        """
        return "replay" in self.study["experiments"][self.experiment]


# ---- Places in the file of a study


def _place(root: Path, study: str, path: tuple[str | int, ...]) -> str:
    """Return file and line of a node in a grid.

    An example is ``config/studies/x.yaml:12``. The line is left out if the file cannot be read.
    """
    file = study_files.GRID.format(study=study)
    try:
        text = files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
        yaml_files.parse_yaml(text)  # line_of() has no limits of its own
    except (OSError, files.UnreadableError, yaml_files.YamlError):
        return file
    return f"{file}:{yaml_files.line_of(text, path)}"


def place_of_option(root: Path, study: str, experiment: str, option: str) -> str:
    """Return file, line and experiment at which an experiment gets an option.

    The place is under ``vary``, ``fio`` or ``levels``, or in the ``fio`` options of the study.
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
    """Return the first problem of a point.

    Returns None if the point can be measured and all its options have an effect.
    """
    for option in ("rw", "bs"):
        if option not in point.options:
            return GridProblem(option, f"no '{option}'. Add it under vary, or to the fio options.")
    checks = (
        _depth_problem,
        _engine_problem,
        _sector_problem,
        _size_problem,
        _pause_problem,
        _order_problem,
        _log_problem,
    )
    return next(filter(None, (check(point, conf) for check in checks)), None)


def _depth_problem(point: GridPoint, _: config.Config) -> GridProblem | None:
    """Return a problem if ``iodepth`` has no effect.

    A study that keeps the number from the command of its source declares this with ``iodepth_has_no_effect``. A varied
    depth is refused in any case, because its levels would give a flat curve.
    """
    engine, depth = point.options.get("ioengine", engines.DEFAULT_ENGINE), point.options.get("iodepth", 1)
    if depth <= 1 or point.replays or engine in engines.ASYNCHRONOUS_ENGINES:
        return None
    text = (
        f"iodepth {depth} has no effect: with the synchronous ioengine {engine} a job has one outstanding request. Use"
        " ioengine libaio, or vary numjobs"
    )
    if "iodepth" in point.study["experiments"][point.experiment]["vary"]:
        return GridProblem("iodepth", f"{text}.")
    if point.study.get("iodepth_has_no_effect"):
        return None
    keep = "to keep the number from the command of a source, add `iodepth_has_no_effect: true` to the study"
    return GridProblem("iodepth", f"{text}; {keep}.")


def _engine_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return a problem if a simulated drive does not support the engine."""
    engine = point.options.get("ioengine", engines.DEFAULT_ENGINE)
    if point.replays or not kinds.is_simulated(point.drive) or engine in engines.SIMULATED_ENGINES:
        return None
    name = next(name for name, entry in conf.drives.items() if entry is point.drive)
    return GridProblem(
        "ioengine",
        f"a simulated drive does not support ioengine {engine}, and '{name}' is one. Use"
        f" {', '.join(engines.SIMULATED_ENGINES[:-1])} or {engines.SIMULATED_ENGINES[-1]}.",
    )


def _sector_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return a problem if a size is not a multiple of the sector size.

    Returns None if the page cache is used, which accepts any size.
    """
    if point.replays or not (point.options.get("direct") or kinds.is_simulated(point.drive)):
        return None
    # with a log, bs is the length of its largest request
    wanted = _WHOLE_SECTORS[1:] if user_log(point.options, conf) else _WHOLE_SECTORS
    for option in wanted:
        size = point.options.get(option, 0)
        if size % SECTOR_BYTES:
            lower = size // SECTOR_BYTES * SECTOR_BYTES
            near = f"{lower} or {lower + SECTOR_BYTES}" if lower else str(SECTOR_BYTES)
            return GridProblem(
                option, f"{option} {size} is not a multiple of a sector, {SECTOR_BYTES} bytes. Use {near}."
            )
    return None


def _size_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return a problem with the part of the file that a workload uses."""
    options = point.options
    size_bytes, file_text = options.get("size", conf.file_size_bytes), units.format_size(conf.file_size_bytes)
    if size_bytes > conf.file_size_bytes:
        return GridProblem(
            "size",
            f"size {units.format_size(size_bytes)} is larger than the file ({config.CONFIG_FILE}: file_size:"
            f" {file_text}). Use a smaller size or a larger file.",
        )
    if options["bs"] > size_bytes and user_log(options, conf) is None:
        used = "the used part of the file" if "size" in options else "the file"
        return GridProblem(
            "bs",
            f"bs {units.format_size(options['bs'])} is larger than {used} ({config.CONFIG_FILE}: file_size)."
            " Use a smaller block size or a larger file.",
        )
    last_bytes = options.get("offset", 0) + (options.get("numjobs", 1) - 1) * options.get("offset_increment", 0)
    if "size" in options and last_bytes + size_bytes > conf.file_size_bytes:
        if "offset_increment" in options:
            jobs = options.get("numjobs", 1)
            return GridProblem("numjobs", f"{jobs} jobs need {jobs} regions. Increase regions, or decrease numjobs.")
        return GridProblem(
            "size",
            f"size {units.format_size(size_bytes)} from offset {units.format_size(last_bytes)} exceeds the file"
            f" ({file_text}). Use a smaller size, or remove it to use the rest of the file.",
        )
    return None


def _pause_problem(point: GridPoint, _: config.Config) -> GridProblem | None:
    """Return a problem with the pauses of a workload."""
    options = point.options
    if "thinktime" in options and options["thinktime"] >= point.runtime_ms * 1000:
        return GridProblem(
            "thinktime",
            f"thinktime {options['thinktime']} us is not shorter than a repetition ({config.CONFIG_FILE}: runtime:"
            f" {point.runtime_ms} ms). Use a shorter pause or a longer runtime.",
        )
    if "thinktime_blocks" in options and "thinktime" not in options:
        return GridProblem(
            "thinktime_blocks",
            "thinktime_blocks is the number of requests between pauses. Add thinktime, or remove thinktime_blocks.",
        )
    return None


def _order_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return a problem with the order of the requests of a workload."""
    options, rw = point.options, point.options["rw"]
    for option in ("skip", "partitions"):
        if option in options and rw not in {"read", "write"}:
            return GridProblem(option, f"{option} is for sequential requests: rw read or write, not {rw}.")
    if "skip" in options and abs(options["skip"]) + options["bs"] > options.get("size", conf.file_size_bytes):
        skip = units.format_size(options["skip"])
        return GridProblem("skip", f"skip {skip} leads outside the used part of the file. Use a smaller value.")
    for option in ("blockalign", "percentage_random", "random_distribution"):
        if option in options and not rw.startswith("rand"):
            return GridProblem(
                option, f"{option} is for random requests: rw {rw} has none. Use randread, randwrite or randrw."
            )
    return None


def _log_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return a problem of a workload that is replayed from a log."""
    options = point.options
    logs = [option for option in iologs.LOG_OPTIONS if option in options]
    if not logs:
        return None
    log = logs[0]
    places = ("offset", "size") if {"read_iolog", "stand_in", "trace"} & set(options) else ()
    others = [option for option in (*_ORDER_OPTIONS, *places) if option in options] + logs[1:]
    file_size = f"the file ({config.CONFIG_FILE}: file_size)"
    own = user_log(options, conf)
    if others:
        text = f"{log} and {others[0]} exclude each other: a log determines the requests. Remove one of them."
    elif options.get("numjobs", 1) > 1:
        text = f"{log} is for one job, not for {options['numjobs']}: all would do the same. Set numjobs to 1."
    elif "replay" in options and options["rw"] != _rw_of(options["replay"]):
        text = f"replay {options['replay']} is rw {_rw_of(options['replay'])}, not {options['rw']}."
    elif "partitions" in options and _part_bytes(options, conf) < options["bs"]:
        part_bytes = _part_bytes(options, conf)
        text = f"a part of {part_bytes} bytes is smaller than a request of {options['bs']}. Use fewer partitions."
    elif "stand_in" in options and conf.file_size_bytes < _STAND_IN_BYTES:
        needed, size = units.format_size(_STAND_IN_BYTES), units.format_size(conf.file_size_bytes)
        text = f"stand_in needs {needed}, and {file_size} has {size}. Use a larger file."
    elif own is not None and own[1].end_bytes > conf.file_size_bytes:
        text = (
            f"{own[0]} extends to byte {own[1].end_bytes}, and {file_size} has {conf.file_size_bytes}. Use a larger"
            " file."
        )
    else:
        return None
    return GridProblem(log, text)


def _rw_of(replay: str) -> str:
    actions = set(replay.split("-"))
    return "randrw" if len(actions) > 1 else f"rand{actions.pop()}"


def _part_bytes(options: Mapping[str, Any], conf: config.Config) -> int:
    return int(options.get("size", conf.file_size_bytes) // options["partitions"])


def user_log(options: Mapping[str, Any], conf: config.Config) -> tuple[str, iologs.IoLog] | None:
    """Return the log or trace of the user that a workload replays.

    Returns:
        The name of the log for messages, and the log; None if there is no log.
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
    """The names of tables and figures that code may write.

    Attributes:
        texts: The text constants in the code.
        patterns: The f-strings in the code, as patterns.
        has_variables: Whether a variable names an output, such as the variable of a loop over the experiments.
    """

    texts: set[str]
    patterns: list[re.Pattern[str]]
    has_variables: bool

    def may_write(self, name: str) -> bool:
        """Return whether a constant or an f-string gives the name."""
        return name in self.texts or any(pattern.fullmatch(name) for pattern in self.patterns)


def output_problems(conf: config.Config, study: str) -> Iterator[str]:
    """Yield a message for each output that the notebook does not write.

    Outputs are the tables and figures in a grid.

    The notebook is not executed. A name counts as written if it is a text constant of the notebook or of the code
    beside it. If a variable names an output, the names of experiments, drives, factors and levels count, too. A
    notebook that cannot be read, or that computes names in another way, is not checked.
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
    """Yield the values that a notebook may loop over.

    These are experiments, drives, factors and levels.
    """
    yield from content["experiments"]
    yield from conf.drives
    for body in content["experiments"].values():
        for factor, levels in body["vary"].items():
            yield from (factor, FACTORS[factor].column, *map(str, levels))


def _code_of(root: Path, study: str) -> _Code | None:
    """Return the names in the notebook of a study and the code beside it.

    Returns None if the code cannot be read, or computes names.
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
    """Return the pattern of an f-string with some constant text.

    Returns None for any other node.
    """
    if not isinstance(node, ast.JoinedStr) or not any(isinstance(part, ast.Constant) for part in node.values):
        return None
    parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values]
    return re.compile("".join(parts))


def _aliases(node: ast.AST) -> Iterator[str]:
    """Yield variables that an assignment binds to a writer.

    An example is ``show, draw = outputs.table, outputs.figure``.
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
    """Return the expression that names the output of a writer.

    If the expression is a path, its last part is returned.
    """
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
    name = given or (call.args[1] if len(call.args) > 1 else None)
    while isinstance(name, ast.BinOp) and isinstance(name.op, ast.Div):
        name = name.right
    return name
