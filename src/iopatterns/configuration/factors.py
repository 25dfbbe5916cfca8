"""The factors of studies, declared once: what each is, which levels it has, and how they are read, named and printed.

The schemas of config/, fio's command line, the names of cells, the columns of measurements, and what claims and
published values may name follow from the table here. To add a factor, add a line.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from numbers import Real  # which NumPy's numbers are too
from typing import Any, Literal

from iopatterns.base import engines, schedulers, units
from iopatterns.base.errors import IoPatternsError

LevelKind = Literal["number", "percent", "size", "signed size", "duration", "path", "text"]


class FactorError(IoPatternsError):
    """No factor has the name that a claim or a published value gives."""


class FactorRole(Enum):
    """What a factor is, which says who makes a level of it so."""

    DRIVE = "the drive itself"
    FIO = "fio option"  # given to fio as it stands
    OURS = "fio option made here"  # `fio.fio_command_line` and `iologs` say what fio gets in its place
    MODE_PAGE = "bit of the caching mode page"
    LOOK_AHEAD = "look-ahead of a SATA disk"
    QUEUE = "attribute of the kernel's queue"


OPTION_ROLES = frozenset({FactorRole.FIO, FactorRole.OURS})
SETTING_ROLES = frozenset({FactorRole.MODE_PAGE, FactorRole.LOOK_AHEAD, FactorRole.QUEUE})


@dataclass(frozen=True)
class Factor:
    """A factor of a grid.

    ``choices`` are its levels where they are closed; ``least`` and ``most`` bound numbers. ``tag`` stands before a
    level in a cell's name; an option without one (None) is in the cell's hash alone. ``hint`` words the valid levels
    for messages, ``label`` names the factor on axes and in tables, ``phrase`` a level of it in sentences; where nothing
    is given, each follows from the rest. ``about`` explains what name and hint do not. Settings are set in the order
    of their ``turn``, then by name; ``shared`` ones may be set on a disk that serves others too, that under a `file`.
    """

    name: str
    role: FactorRole
    kind: LevelKind = "number"
    choices: tuple[int | str, ...] = ()
    least: int | None = None
    most: int | None = None
    tag: str | None = None
    hint: str = ""
    about: str = ""
    label: str = ""
    phrase: str = ""
    column: str = ""
    turn: int = 1
    shared: bool = False

    def __post_init__(self) -> None:
        """Derive what the declaration does not give."""
        derived = {
            "hint": self._hint(),
            "label": self.name if self.name.isupper() else self.name.replace("_", " ").capitalize(),
            "phrase": f"{self.name} {{}}",
            "column": setting_column(self.name) if self.role in SETTING_ROLES else self.name,
        }
        for name, value in derived.items():
            if not getattr(self, name):
                object.__setattr__(self, name, value)

    def _hint(self) -> str:
        if self.choices:
            return "0 or 1" if self.choices == (0, 1) else f"one of {', '.join(map(str, self.choices))}"
        if self.kind == "percent":
            return f"a percentage from {self.least} to {self.most}"
        return f"a whole number from {self.least}" + (f" to {self.most}" if self.most is not None else "")

    @property
    def is_text(self) -> bool:
        """Whether its levels are names, with which nothing can be computed."""
        return self.kind in {"text", "path"}

    @property
    def unit(self) -> str | None:
        """How a level that is written as text is read, see `units.canonical_value`."""
        return self.kind if self.kind in units.READERS else None

    def read(self, level: Any) -> Any:
        """Return a level as specifications and executions have it: ``'4k'`` is 4096 bytes, ``'1 ms'`` 1000 µs.

        Raises ValueError for text that is no such size or duration.
        """
        return units.canonical_value(level, self.unit) if isinstance(level, str) else level

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a level as a study's file has it, with the keywords of ours that `config` reads."""
        found: dict[str, Any] = {}
        if self.choices:
            found["enum"] = list(self.choices)
        elif self.kind in {"size", "signed size"}:
            found["type"] = ["string", "integer"]
        elif self.kind in {"number", "percent"}:
            found["type"] = "integer"
        else:
            found["type"] = "string"
        if found.get("type") == "string" and self.unit != "duration":
            found["minLength"] = 1
        bounds = {"minimum": self.least, "maximum": self.most, "x-unit": self.unit}
        return {**found, **{key: bound for key, bound in bounds.items() if bound is not None}, "x-hint": self.hint}


def setting_column(name: str) -> str:
    """Return the column of the executions that holds a setting of the drive."""
    return f"set_{name}"


_PATTERNS = ("read", "randread", "write", "randwrite", "readwrite", "randrw")
_REPLAYS = ("write-read", "read-write", "read-read", "write-write")
# As in `calls.stand_ins`, which takes half a second to import
_STAND_INS = ("LANL-64KB", "LANL-1024KB", "Sandia-alegra", "Sandia-cth", "Sandia-s3d", "web-server")
_SWITCH = (0, 1)
_PERCENT: dict[str, Any] = {"kind": "percent", "least": 0, "most": 100}

# The order is that in which messages list them.
_TABLE = (
    Factor("drive", FactorRole.DRIVE, "text", phrase="{}", hint="a drive, by its name"),
    # ---- fio options
    Factor(
        "rw",
        FactorRole.FIO,
        "text",
        _PATTERNS,
        tag="",
        label="Workload",
        phrase="{}",
        about="access pattern and direction",
    ),
    Factor(
        "bs",
        FactorRole.FIO,
        "size",
        least=1,
        tag="",
        label="Block size",
        phrase="{}",
        column="bs_bytes",
        hint="a block size such as 4k, 28k or 1m (powers of two)",
    ),
    Factor("rwmixread", FactorRole.FIO, **_PERCENT, tag="mix", label="Share of reads"),
    Factor(
        "ioengine",
        FactorRole.FIO,
        "text",
        (*engines.SYNCHRONOUS_ENGINES, *engines.ASYNCHRONOUS_ENGINES),
        about="how fio issues I/O; synchronous engines keep one request per job in flight whatever iodepth says",
    ),
    Factor("iodepth", FactorRole.FIO, least=1, most=65536, tag="q", label="I/O depth"),
    Factor("numjobs", FactorRole.FIO, least=1, most=1024, tag="j", label="Number of jobs", phrase="{} jobs"),
    Factor("group_reporting", FactorRole.FIO, choices=_SWITCH),
    Factor("direct", FactorRole.FIO, choices=_SWITCH, hint="1 (O_DIRECT, past the page cache) or 0"),
    Factor(
        "size",
        FactorRole.FIO,
        "size",
        least=1,
        tag="size",
        label="Target size",
        hint="a size such as 8 MiB, up to file_size",
        about="the first part of the file that is used, in place of all of it",
    ),
    Factor(
        "offset",
        FactorRole.FIO,
        "size",
        least=0,
        tag="off",
        hint="a size such as 512 or 1 MiB",
        about="where the part that is used begins; without `size`, what lies behind it is used, in whole MiB",
    ),
    Factor(
        "offset_increment",
        FactorRole.FIO,
        "size",
        least=0,
        tag="inc",
        label="Offset from job to job",
        hint="a size such as 64 MiB",
    ),
    Factor(
        "skip",
        FactorRole.OURS,
        "signed size",
        tag="skip",
        label="Gap",
        hint="a size, also a negative one, such as 4k or -8k",
        about="bytes from the end of a sequential request to the next (fio's rw=read:SKIP); of 4k requests, 4k leaves"
        " gaps, -4k stays in place, -8k goes backwards",
    ),
    Factor(
        "partitions",
        FactorRole.OURS,
        least=1,
        most=65536,
        tag="parts",
        about="one job reads or writes in so many equal parts of the file in turn, sequentially in each (a replay made"
        " for the cell)",
    ),
    Factor(
        "replay",
        FactorRole.OURS,
        "text",
        _REPLAYS,
        tag="",
        about="requests at random, then the same ones again in the same order, in these directions, over and over (a"
        " replay made for the cell)",
    ),
    Factor(
        "read_iolog",
        FactorRole.OURS,
        "path",
        tag="log",
        label="Log replayed",
        hint="the path of a log of fio's, version 2 or 3, such as data/traces/x.iolog",
        about="a log of fio's own format that is replayed on the drive, whatever file it names; `rw` and `bs` of the"
        " cell then say what it does",
    ),
    Factor(
        "stand_in",
        FactorRole.OURS,
        "text",
        _STAND_INS,
        tag="",
        label="Stand-in",
        about="the first process of a stand-in for an application's trace, replayed on the bare drive without its"
        " pauses, its files one after another (a replay made for the cell)",
    ),
    Factor(
        "trace",
        FactorRole.OURS,
        "text",
        tag="",
        label="Trace",
        hint="the name of a trace of yours, as config/config.yaml has it under traces",
        about="one process of a trace of calls, replayed on the bare drive without its pauses, its files one after"
        " another; `rw` and `bs` of the cell then say what it does; `traces` in place of a list stands for all",
    ),
    Factor(
        "replay_no_stall",
        FactorRole.FIO,
        choices=_SWITCH,
        tag="nostall",
        hint="0 (a log's requests at their times) or 1 (each as soon as the one before is over)",
    ),
    Factor(
        "blockalign", FactorRole.FIO, "size", least=1, tag="align", label="Alignment", hint="a size such as 512 or 4k"
    ),
    Factor("percentage_random", FactorRole.FIO, **_PERCENT, tag="rnd", label="Share of random requests"),
    Factor("random_distribution", FactorRole.FIO, "text", tag="", hint="random, zipf:1.2, pareto:0.3, normal:10 …"),
    Factor("norandommap", FactorRole.FIO, choices=_SWITCH),
    Factor(
        "thinktime", FactorRole.FIO, "duration", tag="think", label="Pause", hint="a duration such as 100 us or 2 ms"
    ),
    Factor("thinktime_blocks", FactorRole.FIO, least=1, tag="burst", label="Requests in a burst"),
    Factor(
        "ramp_time",
        FactorRole.OURS,
        "duration",
        tag="ramp",
        label="Time before counting",
        hint="a duration such as 500 ms or 10 s",
        about="how long the workload runs in each execution before fio counts, so that what is counted is no filling of"
        " caches",
    ),
    Factor(
        "log_hist_msec",
        FactorRole.OURS,
        least=10,
        hint="a whole number of milliseconds from 10",
        about="how often fio logs which latencies the requests had since; the log lies beside the raw file",
    ),
    Factor(
        "iopsavgtime",
        FactorRole.OURS,
        least=1,
        hint="a whole number of milliseconds",
        about="over how long fio takes each rate of which it tells least, most, mean and deviation, in place of a fifth"
        " of the execution; steady state is told by these",
    ),
    Factor("rate_iops", FactorRole.FIO, least=1, tag="rate", hint="I/Os per second"),
    Factor("fsync", FactorRole.FIO, least=0, tag="fsync", hint="a number of writes; 0 for never"),
    Factor("fdatasync", FactorRole.FIO, least=0, tag="fdatasync", hint="a number of writes; 0 for never"),
    # ---- Settings of the drive
    Factor(
        "RCD", FactorRole.MODE_PAGE, choices=_SWITCH, tag="rcd", hint="0 or 1 (read cache disable, caching mode page)"
    ),
    Factor(
        "WCE",
        FactorRole.MODE_PAGE,
        choices=_SWITCH,
        tag="wce",
        hint="0 or 1 (write cache enable, caching mode page; of NVMe disks the volatile write cache)",
    ),
    Factor(
        "FSW",
        FactorRole.MODE_PAGE,
        choices=_SWITCH,
        tag="fsw",
        hint="0 or 1 (force sequential write, caching mode page)",
    ),
    Factor(
        "DRA", FactorRole.MODE_PAGE, choices=_SWITCH, tag="dra", hint="0 or 1 (disable read ahead, caching mode page)"
    ),
    Factor(
        "look_ahead",
        FactorRole.LOOK_AHEAD,
        choices=_SWITCH,
        tag="la",
        hint="0 or 1 (read look-ahead of SATA disks, as hdparm -A sets it; of SCSI disks see DRA)",
    ),
    Factor(
        "read_ahead_kb",
        FactorRole.QUEUE,
        least=0,
        tag="ra",
        shared=True,
        hint="KiB that the kernel reads ahead, from 0; of no effect on direct I/O",
    ),
    Factor(
        "nr_requests",
        FactorRole.QUEUE,
        least=1,
        tag="nr",
        shared=True,
        hint="requests that the kernel's queue holds, from 1",
    ),
    Factor(
        "write_cache",
        FactorRole.QUEUE,
        "text",
        ("write back", "write through"),
        tag="",
        hint="write back (flushes are sent) or write through (they are not)",
        about="whether the kernel takes the disk to have a write cache, and sends flushes to it; WCE sets the"
        " disk's own",
        turn=2,  # after WCE, which changes it
    ),
    Factor(
        "scheduler",
        FactorRole.QUEUE,
        "text",
        schedulers.LEGACY_SCHEDULERS,
        tag="",
        phrase="{}",
        about="the I/O scheduler of the kernel's block layer; of today's kernels, mq-deadline stands for deadline and"
        " bfq for cfq",
        turn=0,  # it brings values of its own for others
        shared=True,
    ),
)

FACTORS: Mapping[str, Factor] = {factor.name: factor for factor in _TABLE}
_BY_COLUMN = {factor.column: factor for factor in _TABLE}


def factor_names(*roles: FactorRole) -> tuple[str, ...]:
    """Return the names of the factors of some roles, in the order of the table."""
    return tuple(factor.name for factor in _TABLE if factor.role in roles)


def find_factor(name: str) -> Factor:
    """Return the factor of that name. Raises FactorError, which names the nearest."""
    return _known(name, FACTORS, "factor")


def find_setting(name: str) -> Factor:
    """Return the setting of a drive of that name. Raises FactorError, which names the nearest."""
    return _known(name, factor_names(*SETTING_ROLES), "setting")


def _known(name: str, known: Collection[str], what: str) -> Factor:
    if name not in known:
        raise FactorError(f"there is no {what} '{name}'; {_nearest(name, known)}")
    return FACTORS[name]


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches  # only after a mistake

    by_small_letters = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_small_letters, n=1)
    return (
        f"did you mean '{by_small_letters[near[0]]}'?" if near else f"valid are {', '.join(by_small_letters.values())}"
    )


def column_of(name: str) -> str:
    """Return the column of the executions that holds a factor: bs is bs_bytes, DRA is set_DRA. Raises FactorError."""
    return find_factor(name).column


def in_setting_order(settings: Iterable[str]) -> list[str]:
    """Return settings in the order in which they are set.

    The scheduler comes first, because it changes nr_requests. WCE comes before the kernel's view of the write cache,
    which follows WCE.
    """
    return sorted(settings, key=lambda name: (FACTORS[name].turn, name))


def factor_definitions() -> dict[str, Any]:
    """Return what the schemas of config/ say about factors, for their ``$defs``.

    ``options`` and ``settings``, with a level each; ``factors``, all of these with a list of levels; ``tune``, a list
    of settings.
    """
    options, settings = (
        {name: FACTORS[name].schema() for name in factor_names(*roles)} for roles in (OPTION_ROLES, SETTING_ROLES)
    )
    return {
        "options": _closed(options),
        "settings": _closed(settings),
        "factors": {"minProperties": 1, **_closed({name: _levels(one) for name, one in (options | settings).items()})},
        "tune": _tune(),
    }


def _closed(properties: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _levels(level: Mapping[str, Any]) -> dict[str, Any]:
    hint = f"a list of levels, each {level['x-hint']}"
    return {"type": "array", "minItems": 1, "uniqueItems": True, "items": level, "x-hint": hint}


def _tune() -> dict[str, Any]:
    of_the_queue = in_setting_order(factor_names(FactorRole.QUEUE))
    of_the_disk = factor_names(FactorRole.MODE_PAGE, FactorRole.LOOK_AHEAD)
    known = [*of_the_queue, *of_the_disk]
    shared = [name for name in known if FACTORS[name].shared]
    hint = (
        f"settings that a study may change and puts back, as root: of a disk [{', '.join(known)}], of the disk under a"
        f" `file` [{', '.join(shared)}]"
    )
    return {"type": "array", "uniqueItems": True, "items": {"enum": known}, "x-hint": hint}


# ---- As tables and axes print them


@dataclass(frozen=True)
class LevelScale:
    """A factor's levels as they are printed: ``label`` with the unit in it, and the text of each level."""

    label: str
    texts: Mapping[Hashable, str]


def level_scale(column: str, levels: Iterable[Any]) -> LevelScale:
    """Return how the levels of a factor are printed, in one unit that makes the numbers short.

    ``column`` is that of the executions; sizes are bytes there, durations microseconds. A column that is no factor's is
    printed under its own name, its levels as they are.
    """
    wanted = list(dict.fromkeys(levels))
    factor = _BY_COLUMN.get(column) or Factor(column.removeprefix("set_"), FactorRole.FIO)
    numbers = [abs(float(level)) for level in wanted if isinstance(level, Real)]
    largest = max(numbers, default=0.0)
    unit, divisor = "", 1
    if factor.kind == "percent":
        unit = "%"
    elif factor.kind in {"size", "signed size"}:
        unit, divisor = ("MiB", 2**20) if largest > 2**23 else ("KiB", 2**10) if largest >= 2**12 else ("B", 1)
    elif factor.kind == "duration":
        unit, divisor = ("s", 10**6) if largest > 10**7 else ("ms", 10**3) if largest >= 10**3 else ("µs", 1)
    texts = {level: _text(level, divisor) for level in wanted}
    return LevelScale(f"{factor.label} ({unit})" if unit else factor.label, texts)


def _text(level: Any, divisor: int) -> str:
    if isinstance(level, bool) or not isinstance(level, Real):
        return str(level)
    return f"{float(level) / divisor:g}".replace("-", "−")
