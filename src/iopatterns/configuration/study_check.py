"""Checks of a study's grid: what cannot be measured, has no effect, or is never written is refused before a run.

Each mistake is named with the line of the study's file.
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
# The first process of any stand-in reads and writes this much of a drive at most
_STAND_IN_BYTES = 16 * 2**20
# fio decides the order of requests by these options, and a log has its own order
_OF_FIOS_OWN_ORDER = (
    "skip",
    "offset_increment",
    "blockalign",
    "percentage_random",
    "random_distribution",
    "rwmixread",
    "ramp_time",  # during which the log would be used up
)
# Positions and lengths of direct requests
_WHOLE_SECTORS = ("bs", "size", "offset", "offset_increment", "blockalign", "skip")
_MOST_NOTEBOOK_BYTES = 64 * 2**20


class GridProblem(NamedTuple):
    """A mistake in a grid: the option or key that has it, and what is wrong and what to do."""

    option: str
    text: str


@dataclass(frozen=True)
class GridPoint:
    """One combination of levels on one drive, as `find_problem` judges it; ``options`` are fio's, in canonical units."""

    study: config.StudyConfig
    experiment: str
    options: Mapping[str, Any]
    drive: kinds.ResolvedEntry
    runtime_ms: int

    @property
    def replays(self) -> bool:
        """Whether a recorded trace takes the place of fio; the options then describe the traced program."""
        return "replay" in self.study["experiments"][self.experiment]


# ---- Places in a study's file


def grid_place(root: Path, study: str, path: tuple[str | int, ...]) -> str:
    """Return ``config/studies/x.yaml:12`` for the node at ``path``; without the line where the file cannot be read."""
    file = study_files.GRID.format(study=study)
    try:
        text = files.read_text_bounded(root / file, yaml_files.MAX_YAML_BYTES)
        yaml_files.parse_yaml(text)  # bounds what `line_of` composes
    except (OSError, files.UnreadableError, yaml_files.YamlError):
        return file
    return f"{file}:{yaml_files.line_of(text, path)}"


def place_of_option(root: Path, study: str, experiment: str, option: str) -> str:
    """Return file, line and experiment at which an experiment gets an option: its levels, or its or the study's fio."""
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
                named = options[option]  # the name of a list under `levels`, where it is text
                path = (
                    ("levels", named)
                    if isinstance(named, str) and named in content.get("levels", {})
                    else (*keys, option)
                )
                break
    except (yaml_schema.ConfigError, LookupError, TypeError, AttributeError):
        pass  # the experiment is not of the file as it is now
    return f"{grid_place(root, study, path)}: experiments.{experiment}"


# ---- Points


def find_problem(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return the first reason for which a point cannot be measured or has an option without effect; else None."""
    for option in ("rw", "bs"):
        if option not in point.options:
            return GridProblem(option, f"no '{option}'. Add it under vary, or to the fio options.")
    checks = (_of_depth, _of_engine, _of_sectors, _of_place, _of_pauses, _of_order, _of_log)
    return next(filter(None, (check(point, conf) for check in checks)), None)


def _of_depth(point: GridPoint, _: config.Config) -> GridProblem | None:
    """Return why a point's ``iodepth`` has no effect.

    A study whose source has such a command declares it with ``iodepth_has_no_effect``. A depth that is varied is
    refused all the same: its levels would be measured and drawn as a flat curve.
    """
    engine, depth = point.options.get("ioengine", engines.DEFAULT_ENGINE), point.options.get("iodepth", 1)
    if depth <= 1 or point.replays or engine in engines.ASYNCHRONOUS_ENGINES:
        return None
    text = (
        f"iodepth {depth} has no effect: with the synchronous ioengine {engine} a job has one request outstanding. Use"
        " ioengine libaio, or vary numjobs"
    )
    if "iodepth" in point.study["experiments"][point.experiment]["vary"]:
        return GridProblem("iodepth", f"{text}.")
    if point.study.get("iodepth_has_no_effect"):
        return None
    keep = "to keep the number of a source's command, add `iodepth_has_no_effect: true` to the study"
    return GridProblem("iodepth", f"{text}; {keep}.")


def _of_engine(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return why a simulated drive cannot receive the requests of an engine."""
    engine = point.options.get("ioengine", engines.DEFAULT_ENGINE)
    if point.replays or not kinds.is_simulated(point.drive) or engine in engines.SIMULATED_ENGINES:
        return None
    name = next(name for name, entry in conf.drives.items() if entry is point.drive)
    return GridProblem(
        "ioengine",
        f"a simulated drive does not support ioengine {engine}, and '{name}' is one. Use"
        f" {', '.join(engines.SIMULATED_ENGINES[:-1])} or {engines.SIMULATED_ENGINES[-1]}.",
    )


def _of_sectors(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return which size is no multiple of a sector, where no page cache is between fio and the drive."""
    if point.replays or not (point.options.get("direct") or kinds.is_simulated(point.drive)):
        return None
    # a log's largest request is its own, whole sectors or not
    wanted = _WHOLE_SECTORS[1:] if user_log(point.options, conf) else _WHOLE_SECTORS
    for option in wanted:
        size = point.options.get(option, 0)
        if size % SECTOR_BYTES:
            lower = size // SECTOR_BYTES * SECTOR_BYTES
            near = f"{lower} or {lower + SECTOR_BYTES}" if lower else str(SECTOR_BYTES)
            return GridProblem(option, f"{option} {size} is no multiple of a sector, {SECTOR_BYTES} bytes. Use {near}.")
    return None


def _of_place(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return what is wrong with the part of the file that a workload uses."""
    options = point.options
    size_bytes, file_text = options.get("size", conf.file_size_bytes), units.format_size(conf.file_size_bytes)
    if size_bytes > conf.file_size_bytes:
        return GridProblem(
            "size",
            f"size {units.format_size(size_bytes)} is larger than the file ({config.CONFIG_FILE}: file_size:"
            f" {file_text}). Take a smaller size or a larger file.",
        )
    if options["bs"] > size_bytes and user_log(options, conf) is None:
        whole = "the part used of the file" if "size" in options else "the file"
        return GridProblem(
            "bs",
            f"bs {units.format_size(options['bs'])} is larger than {whole} ({config.CONFIG_FILE}: file_size)."
            " Take a smaller block or a larger file.",
        )
    last_bytes = options.get("offset", 0) + (options.get("numjobs", 1) - 1) * options.get("offset_increment", 0)
    if "size" in options and last_bytes + size_bytes > conf.file_size_bytes:
        if "offset_increment" in options:
            jobs = options.get("numjobs", 1)
            return GridProblem("numjobs", f"{jobs} jobs need as many regions. Raise regions, or lower numjobs.")
        return GridProblem(
            "size",
            f"size {units.format_size(size_bytes)} from offset {units.format_size(last_bytes)} on is more than the file"
            f" ({file_text}) has. Take a smaller size, or leave it out: then what lies behind the offset is used.",
        )
    return None


def _of_pauses(point: GridPoint, _: config.Config) -> GridProblem | None:
    """Return what is wrong with a workload's pauses."""
    options = point.options
    if "thinktime" in options and options["thinktime"] >= point.runtime_ms * 1000:
        return GridProblem(
            "thinktime",
            f"thinktime {options['thinktime']} us is no shorter than an execution ({config.CONFIG_FILE}: runtime:"
            f" {point.runtime_ms} ms). Take a shorter pause, or a longer runtime.",
        )
    if "thinktime_blocks" in options and "thinktime" not in options:
        return GridProblem(
            "thinktime_blocks",
            "thinktime_blocks is the number of requests between pauses: add thinktime, or leave it out.",
        )
    return None


def _of_order(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return what is wrong with the order of a workload's requests."""
    options, rw = point.options, point.options["rw"]
    for option in ("skip", "partitions"):
        if option in options and rw not in {"read", "write"}:
            return GridProblem(option, f"{option} is for sequential requests: rw read or write, not {rw}.")
    if "skip" in options and abs(options["skip"]) + options["bs"] > options.get("size", conf.file_size_bytes):
        skip = units.format_size(options["skip"])
        return GridProblem("skip", f"skip {skip} leads out of the part used of the file. Take a smaller one.")
    for option in ("blockalign", "percentage_random", "random_distribution"):
        if option in options and not rw.startswith("rand"):
            return GridProblem(
                option, f"{option} is for random requests: rw {rw} has none. Use randread, randwrite or randrw."
            )
    return None


def _of_log(point: GridPoint, conf: config.Config) -> GridProblem | None:
    """Return what is wrong with a workload that is replayed from a log."""
    options = point.options
    logs = [option for option in iologs.LOG_OPTIONS if option in options]
    if not logs:
        return None
    log = logs[0]
    places = ("offset", "size") if {"read_iolog", "stand_in", "trace"} & set(options) else ()
    others = [option for option in (*_OF_FIOS_OWN_ORDER, *places) if option in options] + logs[1:]
    file_size = f"the file ({config.CONFIG_FILE}: file_size)"
    own = user_log(options, conf)
    if others:
        text = f"{log} and {others[0]} do not go together: a log says which requests are made. Leave one out."
    elif options.get("numjobs", 1) > 1:
        text = f"{log} is for one job, not for {options['numjobs']}: each would do the same. Set numjobs to 1."
    elif "replay" in options and options["rw"] != _rw_of(options["replay"]):
        text = f"replay {options['replay']} is rw {_rw_of(options['replay'])}, not {options['rw']}."
    elif "partitions" in options and _part_bytes(options, conf) < options["bs"]:
        part_bytes = _part_bytes(options, conf)
        text = f"a part of {part_bytes} bytes holds no request of {options['bs']}. Take fewer partitions."
    elif "stand_in" in options and conf.file_size_bytes < _STAND_IN_BYTES:
        needed, size = units.format_size(_STAND_IN_BYTES), units.format_size(conf.file_size_bytes)
        text = f"stand_in needs {needed}, and {file_size} has {size}. Take a larger file."
    elif own is not None and own[1].end_bytes > conf.file_size_bytes:
        text = (
            f"{own[0]} goes up to byte {own[1].end_bytes}, and {file_size} has {conf.file_size_bytes}. Take a larger"
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
    """Return the log or trace of the user's own that a workload replays, after what messages call it; else None."""
    if "read_iolog" in options:
        return options["read_iolog"], conf.iologs[options["read_iolog"]]
    if "trace" in options:
        return f"the trace {options['trace']}", conf.traces[options["trace"]]
    return None


# ---- Outputs

# The functions that write a table or a figure; the last part of their second argument is its name
_WRITERS = frozenset({"table", "figure", "write_table", "save"})


class _Code(NamedTuple):
    """What code may name the tables and figures that it writes.

    ``texts`` are its text constants, ``patterns`` its f-strings. ``has_variables``: a variable names an output, such as
    that of a loop over the experiments.
    """

    texts: set[str]
    patterns: list[re.Pattern[str]]
    has_variables: bool

    def may_write(self, name: str) -> bool:
        """Return whether a constant or an f-string gives the name."""
        return name in self.texts or any(pattern.fullmatch(name) for pattern in self.patterns)


def output_problems(conf: config.Config, study: str) -> Iterator[str]:
    """Yield a line for each table and figure that a grid names and its notebook does not write.

    A notebook is not executed for this. A name counts as written where a text constant of the notebook, or of the code
    beside it, gives it; where outputs are named by a variable, those of the experiments, drives and levels count, too.
    A notebook that computes names in another way, or cannot be read, is not judged.
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
                one = kind.removesuffix("s")
                near = yaml_schema.did_you_mean(name, {*content["experiments"], *filter(_is_output_name, code.texts)})
                where, key = grid_place(conf.root, study, (*path, kind, index)), ".".join(map(str, (*path, kind)))
                yield (
                    f"{where}: {key}: {notebook} writes no {one} '{name}'.{near}"
                    f" Write it there with outputs.{one}(…, '{name}'), or remove the name here."
                )


def _is_output_name(text: str) -> bool:
    return re.fullmatch(r"[a-z0-9][a-z0-9_-]*", text) is not None


def _loop_values(conf: config.Config, content: config.StudyConfig) -> Iterator[str]:
    """Yield what a notebook may loop over: experiments, drives, factors and levels."""
    yield from content["experiments"]
    yield from conf.drives
    for body in content["experiments"].values():
        for factor, levels in body["vary"].items():
            yield from (factor, FACTORS[factor].column, *map(str, levels))


def _code_of(root: Path, study: str) -> _Code | None:
    """Return what a study's notebook and the code beside it name; None where they cannot be read or compute names."""
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
    """Return what an f-string with some constant text may give; None for any other node."""
    if not isinstance(node, ast.JoinedStr) or not any(isinstance(part, ast.Constant) for part in node.values):
        return None
    parts = [re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".+" for part in node.values]
    return re.compile("".join(parts))


def _aliases(node: ast.AST) -> Iterator[str]:
    """Yield the names under which an assignment such as ``show, draw = outputs.table, outputs.figure`` has writers."""
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
    """Return the expression by which the call of a writer names its output, of a path its last part."""
    given = next((keyword.value for keyword in call.keywords if keyword.arg == "name"), None)
    name = given or (call.args[1] if len(call.args) > 1 else None)
    while isinstance(name, ast.BinOp) and isinstance(name.op, ast.Div):
        name = name.right
    return name
