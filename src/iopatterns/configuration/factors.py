"""The levels of a study's factors: as people write them, and as tables and axes print them."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from numbers import Real  # which NumPy's numbers are too
from typing import Any, Literal

from iopatterns.base.units import duration_us, signed_size_bytes

Kind = Literal["number", "percent", "size", "duration", "text"]


@dataclass(frozen=True)
class Scale:
    """A factor's levels as they are printed: ``label`` with the unit in it, and the text of each level."""

    label: str
    texts: Mapping[Hashable, str]


# By the column of the executions. A factor that is not here is printed under its own name, its levels as they are.
_FACTORS: dict[str, tuple[str, Kind]] = {
    "drive": ("Drive", "text"),
    "rw": ("Workload", "text"),
    "bs_bytes": ("Block size", "size"),
    "iodepth": ("I/O depth", "number"),
    "numjobs": ("Number of jobs", "number"),
    "rwmixread": ("Share of reads", "percent"),
    "percentage_random": ("Share of random requests", "percent"),
    "offset": ("Offset", "size"),
    "offset_increment": ("Offset from job to job", "size"),
    "blockalign": ("Alignment", "size"),
    "size": ("Target size", "size"),
    "skip": ("Gap", "size"),
    "partitions": ("Partitions", "number"),
    "thinktime": ("Pause", "duration"),
    "thinktime_blocks": ("Requests in a burst", "number"),
    "random_distribution": ("Random distribution", "text"),
    "replay": ("Replay", "text"),
    "read_iolog": ("Log replayed", "text"),
    "set_scheduler": ("Scheduler", "text"),
}


def level_of(factor: str, level: Any) -> Any:
    """Return a level as the executions have it: ``'4k'`` is 4096 bytes, ``'1 ms'`` is 1000 microseconds.

    ``factor`` is a column of the executions. Raises ValueError for text that is no such size or duration.
    """
    kind = _FACTORS.get(factor, ("", "number"))[1]
    if not isinstance(level, str) or kind not in ("size", "duration"):
        return level
    return signed_size_bytes(level) if kind == "size" else duration_us(level)


def is_text(factor: str) -> bool:
    """Return whether a factor's levels are names, with which nothing can be computed."""
    return _FACTORS.get(factor, ("", "number"))[1] == "text"


def scale(factor: str, levels: Iterable[Any]) -> Scale:
    """Return how the levels of a factor are printed, in one unit that makes the numbers short.

    ``factor`` is a column of the executions; sizes are bytes there, durations microseconds.
    """
    wanted = list(dict.fromkeys(levels))
    name = factor.removeprefix("set_")
    label, kind = _FACTORS.get(factor, (name if name.isupper() else name.replace("_", " ").capitalize(), "number"))
    numbers = [abs(float(level)) for level in wanted if isinstance(level, Real)]
    largest = max(numbers, default=0.0)
    unit, divisor = "", 1
    if kind == "percent":
        unit = "%"
    elif kind == "size":
        unit, divisor = ("MiB", 2**20) if largest > 2**23 else ("KiB", 2**10) if largest >= 2**12 else ("B", 1)
    elif kind == "duration":
        unit, divisor = ("s", 10**6) if largest > 10**7 else ("ms", 10**3) if largest >= 10**3 else ("µs", 1)
    texts = {level: _text(level, divisor) for level in wanted}
    return Scale(f"{label} ({unit})" if unit else label, texts)


def _text(level: Any, divisor: int) -> str:
    if isinstance(level, bool) or not isinstance(level, Real):
        return str(level)
    return f"{float(level) / divisor:g}".replace("-", "−")
