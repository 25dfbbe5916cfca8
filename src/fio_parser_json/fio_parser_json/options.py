"""Numeric options of fio jobs: sizes in bytes, times in µs, and plain numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from fractions import Fraction

# The suffixes of sizes (parse.c, __get_mult_bytes). By default (kb_base=1024), k, kb and Ki are 1024, and kib is 1000.
# With kb_base=1000 it is the other way round.
_SIZE = re.compile(r"(0x[0-9a-f]+|\d+(?:\.\d+)?)(?:([kmgtp])(ib|b|i)?|b)?", re.I)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4, "p": 5}
# The units of times (parse.c, get_mult_time), in microseconds
_TIME = re.compile(r"(\d+(?:\.\d+)?)(us|usec|ms|msec|s|m|h|d)?", re.I)
_MICROSECONDS = {"us": 1, "usec": 1, "ms": 10**3, "msec": 10**3, "s": 10**6, "m": 60 * 10**6}
_MICROSECONDS |= {"h": 3600 * 10**6, "d": 86400 * 10**6}
_DIRECTIONS = {"read": 0, "write": 1, "trim": 2}
_MOST = 2**63

Reader = Callable[[str, Mapping[str, str]], int | None]


def size_bytes(text: str, options: Mapping[str, str]) -> int | None:
    """Return the size in an option, in bytes: 4096 for ``4k`` and ``4096B``.

    Returns None if the text is not a size, such as ``50%``.

    Args:
        text: The value of the option, such as ``4k``.
        options: All options of the job, as text by name. Their ``kb_base`` determines whether the suffix k stands for
            1000 or for 1024 (the default).
    """
    match = _SIZE.fullmatch(text.strip())
    if not match:
        return None
    digits, unit, rest = match[1], (match[2] or "").lower(), (match[3] or "").lower()
    number = int(digits, 16) if digits[:2].lower() == "0x" else Fraction(digits)
    decimal = (rest == "ib") != (options.get("kb_base") == "1000")
    return _bounded(int(number * (1000 if decimal else 1024) ** _POWERS.get(unit, 0)))


def time_us(text: str, default: str) -> int | None:
    """Return the time in an option, in microseconds: 10000 for ``10ms``.

    Returns None if the text is not a time.

    Args:
        text: The value of the option, such as ``10ms``.
        default: The unit of a number without a unit: ``us``, ``ms``, ``s``, ``m``, ``h`` or ``d``.
    """
    match = _TIME.fullmatch(text.strip())
    return _bounded(float(match[1]) * _MICROSECONDS[(match[2] or default).lower()]) if match else None


def count(text: str, _options: Mapping[str, str]) -> int | None:
    """Return the plain number in an option, or None if the text is not a number.

    Args:
        text: The value of the option, such as ``16`` or ``0x10``.
        _options: Not used. Functions that read sizes need it.
    """
    try:
        return _bounded(int(text, 0))
    except ValueError:
        return None


def _seconds(text: str, _options: Mapping[str, str]) -> int | None:
    return time_us(text, "s")


def _microseconds(text: str, _options: Mapping[str, str]) -> int | None:
    return time_us(text, "us")


def _bounded(number: float) -> int | None:
    return round(number) if abs(number) < _MOST else None


# The numeric options by column: how the value is read, and the names of the option in fio. "asked_runtime_us", because
# "runtime_us" would suggest the measured runtime.
NUMBERS: dict[str, tuple[Reader, tuple[str, ...]]] = {
    "bs_bytes": (size_bytes, ("bs", "blocksize")),
    "size_bytes": (size_bytes, ("size",)),
    "io_size_bytes": (size_bytes, ("io_size", "io_limit")),
    "offset_bytes": (size_bytes, ("offset", "fileoffset")),
    "iodepth": (count, ("iodepth",)),
    "numjobs": (count, ("numjobs",)),
    "rwmixread_percent": (count, ("rwmixread",)),
    "rwmixwrite_percent": (count, ("rwmixwrite",)),
    "rate_bytes_per_s": (size_bytes, ("rate",)),
    "rate_iops": (count, ("rate_iops",)),
    "thinktime_us": (_microseconds, ("thinktime",)),
    "ramp_time_us": (_seconds, ("ramp_time",)),
    "asked_runtime_us": (_seconds, ("runtime", "timeout")),
}


def numbers(options: Mapping[str, str], direction: str) -> dict[str, int | None]:
    """Return the numeric options of a job for one direction.

    An option may have a value for each direction: ``bs=4k,64k`` sets 4k for reads, and 64k for writes and trims.

    Args:
        options: All options of the job, as text by name.
        direction: ``read``, ``write``, ``trim`` or ``mixed``.

    Returns:
        A number for each key of `NUMBERS`, such as ``bs_bytes``. The key ends with the unit, if the number has one. The
        number is None in these cases:

        - The job does not set the option.
        - The text of the option is not a number of this kind.
        - The direction is ``mixed``, and the option has different values for reads, writes and trims.
    """
    return {
        column: next((read(_value(options[name], direction), options) for name in names if name in options), None)
        for column, (read, names) in NUMBERS.items()
    }


def _value(text: str, direction: str) -> str:
    """Return the part of an option that applies to a direction.

    For ``mixed``, the result is empty if the directions have different values.

    Args:
        text: The value of the option, such as ``4k,64k``.
        direction: ``read``, ``write``, ``trim`` or ``mixed``.
    """
    parts = text.split(",")
    if direction not in _DIRECTIONS:
        return parts[0] if len(set(parts)) == 1 else ""
    return parts[min(_DIRECTIONS[direction], len(parts) - 1)]
