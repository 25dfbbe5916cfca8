"""The table of factors: the fio options and drive settings that studies vary.

Other parts of the package derive from this table: the schemas of config/, the command line of fio, the names of cells
(measured configurations), the columns of tables with results, and the names valid in claims and published values. To
add a factor, add an entry.
"""

from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from numbers import Real  # includes the numbers of NumPy
from typing import Any, Literal

from iopatterns.base import engines, schedulers, units
from iopatterns.base.errors import IoPatternsError

LevelKind = Literal["number", "percent", "size", "signed size", "duration", "path", "text"]


class FactorError(IoPatternsError):
    """The error raised for a name that is not the name of a factor.

    A factor is a fio option or drive setting that studies vary, or the drive. Its name occurs in claims (published
    statements that are checked) and published values.
    """


class FactorRole(Enum):
    """The part of a measurement that a factor belongs to.

    A factor is something that a study varies, such as a fio option. Its values are called levels. The role of a factor
    determines how its levels are applied.

    Attributes:
        DRIVE: The drive that is measured.
        FIO: An option that is passed to fio unchanged.
        OURS: An option of this package. It is replaced by options of fio, or by a log of requests that fio replays.
        MODE_PAGE: A bit of the caching mode page of a disk, such as WCE.
        LOOK_AHEAD: The read look-ahead of a SATA disk.
        QUEUE: An attribute of the kernel's request queue for the disk, such as the I/O scheduler.
    """

    DRIVE = "the drive itself"
    FIO = "fio option"  # passed to fio unchanged
    OURS = "fio option made here"  # replaced by other options of fio, see `fio.fio_command_line` and `iologs`
    MODE_PAGE = "bit of the caching mode page"
    LOOK_AHEAD = "look-ahead of a SATA disk"
    QUEUE = "attribute of the kernel's queue"


OPTION_ROLES = frozenset({FactorRole.FIO, FactorRole.OURS})
SETTING_ROLES = frozenset({FactorRole.MODE_PAGE, FactorRole.LOOK_AHEAD, FactorRole.QUEUE})


@dataclass(frozen=True)
class Factor:
    """A factor that a study can vary: a fio option, a drive setting, or the drive.

    The values of a factor are called levels. A cell is one measured configuration: a drive, its settings and a
    workload. An empty ``hint``, ``label``, ``phrase`` or ``column`` is derived from the other attributes.

    Attributes:
        name: The name of the factor, such as ``bs``.
        role: The part of a measurement that the factor belongs to.
        kind: The kind of the levels, such as ``size``.
        choices: The valid levels; empty if they are not a fixed list.
        least: The smallest valid number; None if there is no limit.
        most: The greatest valid number; None if there is no limit.
        tag: The text before a level in the name of a cell, such as ``q`` in ``randread-4k-q32``. None if names of cells
            do not contain the factor.
        hint: The valid levels in words, for messages, such as ``0 or 1``.
        about: An explanation of the factor, in addition to ``name`` and ``hint``.
        label: The name of the factor on axes and in tables, such as ``Block size``.
        phrase: A template for a level in sentences, such as ``{} jobs``.
        column: The column of the factor in tables with results, such as ``bs_bytes``.
        turn: A number that orders the settings of a drive. Settings with smaller numbers are applied first, and
            settings with equal numbers in the order of their names.
        shared: Whether the setting may be changed on a disk that other programs use too. An example is the disk that
            contains the file of a ``file`` drive.
        is_of_workload: Whether a level is a part of what a drive is asked to do. It is not if it only states how long,
            on how much of the drive or with which reports fio measures.
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
    is_of_workload: bool = True

    def __post_init__(self) -> None:
        """Derive hint, label, phrase and column if they are empty."""
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
        """Whether the levels (values) of the factor are names or paths, not numbers."""
        return self.kind in {"text", "path"}

    @property
    def unit(self) -> str | None:
        """The kind of conversion for levels that are given as text, such as ``duration``.

        A level is a value of the factor. The kind is one that `units.canonical_value` accepts: ``size``,
        ``signed size``, ``duration`` or ``path``. It is None if levels are not converted.
        """
        return self.kind if self.kind in units.READERS else None

    def read(self, level: Any) -> Any:
        """Convert a level (value of the factor) in a study file to its canonical form.

        Text with a unit becomes a number: ``'4k'`` becomes 4096 bytes, ``'1 ms'`` becomes 1000 µs. Paths are
        normalised. Other levels are returned unchanged.

        Raises:
            ValueError: The factor is a size or duration, and the level is text that is not valid for it.
        """
        return units.canonical_value(level, self.unit) if isinstance(level, str) else level

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of one level (value) of this factor in a study file.

        Two keywords are not part of JSON Schema. ``x-unit`` is the kind of unit, see `unit`. ``x-hint`` describes the
        valid levels for messages. The module `yaml_schema` interprets both.
        """
        if self.choices:
            found: dict[str, Any] = {"enum": list(self.choices)}
        elif self.kind in {"size", "signed size"}:
            found = {"type": ["string", "integer"]}
        elif self.kind in {"number", "percent"}:
            found = {"type": "integer"}
        else:
            found = {"type": "string"} if self.kind == "duration" else {"type": "string", "minLength": 1}
        bounds = {"minimum": self.least, "maximum": self.most, "x-unit": self.unit}
        return {**found, **{key: bound for key, bound in bounds.items() if bound is not None}, "x-hint": self.hint}


def setting_column(name: str) -> str:
    """Return the column of a drive setting in tables with results.

    The column of ``DRA`` is ``set_DRA``. The name is not checked.

    Args:
        name: The name of the setting.
    """
    return f"set_{name}"


_PATTERNS = ("read", "randread", "write", "randwrite", "readwrite", "randrw")
_REPLAYS = ("write-read", "read-write", "read-read", "write-write")
# the names of `calls.stand_ins`, which takes half a second to import
_STAND_INS = ("LANL-64KB", "LANL-1024KB", "Sandia-alegra", "Sandia-cth", "Sandia-s3d", "web-server")
_SWITCH = (0, 1)
_PERCENT: dict[str, Any] = {"kind": "percent", "least": 0, "most": 100}

_FIO, _OURS, _PAGE, _QUEUE = FactorRole.FIO, FactorRole.OURS, FactorRole.MODE_PAGE, FactorRole.QUEUE

# in the order in which messages list the factors
_TABLE = (
    Factor("drive", FactorRole.DRIVE, "text", phrase="{}", hint="a drive, by its name", is_of_workload=False),
    # ---- fio options
    Factor("rw", _FIO, "text", _PATTERNS, tag="", label="Workload", phrase="{}", about="access pattern and direction"),
    Factor(
        "bs",
        _FIO,
        "size",
        least=1,
        tag="",
        label="Block size",
        phrase="{}",
        column="bs_bytes",
        hint="a block size such as 4k, 28k or 1m (powers of two)",
    ),
    Factor("rwmixread", _FIO, **_PERCENT, tag="mix", label="Share of reads"),
    Factor(
        "ioengine",
        _FIO,
        "text",
        (*engines.SYNCHRONOUS_ENGINES, *engines.ASYNCHRONOUS_ENGINES),
        about="how fio issues I/O; synchronous engines have one outstanding request per job, whatever iodepth is",
        is_of_workload=False,
    ),
    Factor("iodepth", _FIO, least=1, most=65536, tag="q", label="I/O depth"),
    Factor("numjobs", _FIO, least=1, most=1024, tag="j", label="Number of jobs", phrase="{} jobs"),
    Factor("group_reporting", _FIO, choices=_SWITCH, is_of_workload=False),
    Factor("direct", _FIO, choices=_SWITCH, hint="1 (O_DIRECT, past the page cache) or 0"),
    Factor(
        "size",
        _FIO,
        "size",
        least=1,
        tag="size",
        label="Target size",
        hint="a size such as 8 MiB, up to file_size",
        about="the part of the file that is used, from its beginning; by default the whole file",
        is_of_workload=False,
    ),
    Factor(
        "offset",
        _FIO,
        "size",
        least=0,
        tag="off",
        hint="a size such as 512 or 1 MiB",
        about="the beginning of the part of the file that is used; without `size`, the part extends to the end of the"
        " file, in whole MiB",
    ),
    Factor(
        "offset_increment",
        _FIO,
        "size",
        least=0,
        tag="inc",
        label="Offset from job to job",
        hint="a size such as 64 MiB",
        is_of_workload=False,
    ),
    Factor(
        "skip",
        _OURS,
        "signed size",
        tag="skip",
        label="Gap",
        hint="a size, also a negative one, such as 4k or -8k",
        about="bytes from the end of a sequential request to the next (rw=read:SKIP in fio); with requests of 4k, 4k"
        " leaves gaps, -4k repeats the same block, -8k goes backwards",
    ),
    Factor(
        "partitions",
        _OURS,
        least=1,
        most=65536,
        tag="parts",
        about="number of equal parts of the file that one job accesses in turn, sequentially in each (a replay"
        " generated for the cell)",
    ),
    Factor(
        "replay",
        _OURS,
        "text",
        _REPLAYS,
        tag="",
        about="random requests, then the same requests again in the same order, in these directions, repeatedly (a"
        " replay generated for the cell)",
    ),
    Factor(
        "read_iolog",
        _OURS,
        "path",
        tag="log",
        label="Log replayed",
        hint="the path of an I/O log of fio, version 2 or 3, such as data/traces/x.iolog",
        about="an I/O log in the format of fio, which is replayed on the drive, whatever file it names; `rw` and `bs`"
        " of the cell then describe the log",
    ),
    Factor(
        "stand_in",
        _OURS,
        "text",
        _STAND_INS,
        tag="",
        label="Stand-in",
        about="the first process of a synthetic trace of an application, replayed on the bare drive without pauses, its"
        " files one after another (a replay generated for the cell)",
    ),
    Factor(
        "trace",
        _OURS,
        "text",
        tag="",
        label="Trace",
        hint="the name of a trace under traces in config/config.yaml",
        about="one process of a trace of system calls, replayed on the bare drive without pauses, its files one after"
        " another; `rw` and `bs` of the cell then describe it; `traces` instead of a list stands for all traces",
    ),
    Factor(
        "replay_no_stall",
        _FIO,
        choices=_SWITCH,
        tag="nostall",
        hint="0 (requests of a log at their times) or 1 (each request as soon as the previous one is complete)",
    ),
    Factor("blockalign", _FIO, "size", least=1, tag="align", label="Alignment", hint="a size such as 512 or 4k"),
    Factor("percentage_random", _FIO, **_PERCENT, tag="rnd", label="Share of random requests"),
    Factor("random_distribution", _FIO, "text", tag="", hint="random, zipf:1.2, pareto:0.3, normal:10 …"),
    Factor("norandommap", _FIO, choices=_SWITCH),
    Factor("thinktime", _FIO, "duration", tag="think", label="Pause", hint="a duration such as 100 us or 2 ms"),
    Factor("thinktime_blocks", _FIO, least=1, tag="burst", label="Requests in a burst"),
    Factor(
        "ramp_time",
        _OURS,
        "duration",
        tag="ramp",
        label="Time before counting",
        hint="a duration such as 500 ms or 10 s",
        about="for how long the workload runs in each repetition before fio measures, so that caches are full",
        is_of_workload=False,
    ),
    Factor(
        "log_hist_msec",
        _OURS,
        least=10,
        hint="a whole number of milliseconds from 10",
        about="interval at which fio logs a histogram of latencies; the log is beside the raw file",
        is_of_workload=False,
    ),
    Factor(
        "iopsavgtime",
        _OURS,
        least=1,
        hint="a whole number of milliseconds",
        about="interval of each rate for which fio reports minimum, maximum, mean and standard deviation; by default a"
        " fifth of the repetition; steady state is determined from these rates",
        is_of_workload=False,
    ),
    Factor("rate_iops", _FIO, least=1, tag="rate", hint="I/Os per second"),
    Factor("fsync", _FIO, least=0, tag="fsync", hint="a number of writes; 0 for never"),
    Factor("fdatasync", _FIO, least=0, tag="fdatasync", hint="a number of writes; 0 for never"),
    # ---- Settings of the drive
    Factor("RCD", _PAGE, choices=_SWITCH, tag="rcd", hint="0 or 1 (read cache disable, caching mode page)"),
    Factor(
        "WCE",
        _PAGE,
        choices=_SWITCH,
        tag="wce",
        hint="0 or 1 (write cache enable, caching mode page; for NVMe disks the volatile write cache)",
    ),
    Factor("FSW", _PAGE, choices=_SWITCH, tag="fsw", hint="0 or 1 (force sequential write, caching mode page)"),
    Factor("DRA", _PAGE, choices=_SWITCH, tag="dra", hint="0 or 1 (disable read ahead, caching mode page)"),
    Factor(
        "look_ahead",
        FactorRole.LOOK_AHEAD,
        choices=_SWITCH,
        tag="la",
        hint="0 or 1 (read look-ahead of SATA disks, as set by hdparm -A; for SCSI disks see DRA)",
    ),
    Factor(
        "read_ahead_kb",
        _QUEUE,
        least=0,
        tag="ra",
        shared=True,
        hint="KiB that the kernel reads ahead, from 0; without effect on direct I/O",
    ),
    Factor(
        "nr_requests", _QUEUE, least=1, tag="nr", shared=True, hint="capacity of the kernel's queue in requests, from 1"
    ),
    Factor(
        "write_cache",
        _QUEUE,
        "text",
        ("write back", "write through"),
        tag="",
        hint="write back (the kernel sends flushes) or write through (it does not)",
        about="whether the kernel assumes that the disk has a write cache, and sends flushes; WCE sets the cache of the"
        " disk itself",
        turn=2,  # after WCE, which changes it
    ),
    Factor(
        "scheduler",
        _QUEUE,
        "text",
        schedulers.LEGACY_SCHEDULERS,
        tag="",
        phrase="{}",
        about="the I/O scheduler of the kernel's block layer; modern kernels use mq-deadline instead of deadline and"
        " bfq instead of cfq",
        turn=0,  # it changes other settings
        shared=True,
    ),
)

FACTORS: Mapping[str, Factor] = {factor.name: factor for factor in _TABLE}
_BY_COLUMN = {factor.column: factor for factor in _TABLE}


def factor_names(*roles: FactorRole) -> tuple[str, ...]:
    """Return the names of all factors that have one of the given roles.

    A factor is something that a study varies, such as the fio option ``bs``. The names are in the order of the table of
    factors, which is the same in every call.

    Args:
        roles: The roles. `OPTION_ROLES` are those of fio options, `SETTING_ROLES` those of drive settings.
    """
    return tuple(factor.name for factor in _TABLE if factor.role in roles)


def find_factor(name: str) -> Factor:
    """Return the factor of the given name.

    A factor is something that a study varies: a fio option, a drive setting, or the drive.

    Args:
        name: The name, such as ``bs``.

    Raises:
        FactorError: There is no such factor. The message suggests a similar name, or lists the valid names.
    """
    return _find(name, FACTORS, "factor")


def find_setting(name: str) -> Factor:
    """Return the factor of a drive setting by its name, such as ``scheduler``.

    Raises:
        FactorError: There is no drive setting of this name. The message suggests a similar name, or lists the valid
            names.
    """
    return _find(name, factor_names(*SETTING_ROLES), "setting")


def _find(name: str, known: Collection[str], what: str) -> Factor:
    if name in known:
        return FACTORS[name]
    from difflib import get_close_matches  # only after a mistake

    by_lower_case = {each.lower(): each for each in known}
    near = get_close_matches(name.lower(), by_lower_case, n=1)
    hint = f"did you mean '{by_lower_case[near[0]]}'?" if near else f"valid are {', '.join(known)}"
    raise FactorError(f"there is no {what} '{name}'; {hint}")


def column_of(name: str) -> str:
    """Return the column of a factor in tables with results.

    A factor is a fio option, a drive setting, or the drive. Examples are ``bs_bytes`` for ``bs``, and ``set_DRA`` for
    ``DRA``.

    Args:
        name: The name of the factor.

    Raises:
        FactorError: There is no such factor.
    """
    return find_factor(name).column


def in_setting_order(settings: Iterable[str]) -> list[str]:
    """Sort names of drive settings in the order in which they are applied.

    A setting that changes another setting comes before it:

    - ``scheduler`` comes before ``nr_requests``.
    - ``WCE`` (the write cache of the disk) comes before ``write_cache`` (whether the kernel assumes a write cache).

    Args:
        settings: The names. Each must be the name of a factor.
    """
    return sorted(settings, key=lambda name: (FACTORS[name].turn, name))


def factor_definitions() -> dict[str, Any]:
    """Return the definitions that the JSON schemas of config/ share about factors.

    A factor is a fio option or a drive setting. Its values are called levels.

    Returns:
        A JSON schema for each of these keys:

        - ``options``: a mapping from fio options to one level each, such as ``{"direct": 1}``
        - ``settings``: a mapping from drive settings to one level each, such as ``{"DRA": 0}``
        - ``factors``: a mapping from fio options and drive settings to a list of levels each, such as
          ``{"bs": ["4k", "28k"]}``
        - ``tune``: a list of names of drive settings, such as ``["DRA", "WCE"]``
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
    queue_settings = in_setting_order(factor_names(FactorRole.QUEUE))
    disk_settings = factor_names(FactorRole.MODE_PAGE, FactorRole.LOOK_AHEAD)
    known = [*queue_settings, *disk_settings]
    shared = [name for name in known if FACTORS[name].shared]
    hint = (
        f"settings that a study may change and then restores, as root: of a disk [{', '.join(known)}], of the disk"
        f" under a `file` [{', '.join(shared)}]"
    )
    return {"type": "array", "uniqueItems": True, "items": {"enum": known}, "x-hint": hint}


# ---- Levels in tables and on axes


@dataclass(frozen=True)
class LevelScale:
    """The levels (values) of a factor as text for tables and axes, in one unit.

    Attributes:
        label: The name of the factor, with the unit if there is one, such as ``Block size (KiB)``.
        texts: The text of each level, by level, without the unit, such as ``{4096: "4"}``.
    """

    label: str
    texts: Mapping[Hashable, str]


def level_scale(column: str, levels: Iterable[Any]) -> LevelScale:
    """Return levels (values) of a factor as text, in one unit that keeps it short.

    The largest level determines the unit: B, KiB or MiB for sizes, and µs, ms or s for durations. For example, the
    block sizes 4096 and 65536 become ``4`` and ``64`` with the label ``Block size (KiB)``. Percentages get the unit %,
    and all other levels no unit.

    Args:
        column: The column of the factor in tables with results, such as ``bs_bytes``. Any other column gets a label
            from its name, and no unit.
        levels: The levels. Sizes are in bytes, durations in microseconds. Equal levels may occur several times.
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
