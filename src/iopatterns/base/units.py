"""Conversion of sizes and durations between text and numbers.

Sizes are in bytes, durations in microseconds, unless a function says otherwise.
"""

import os.path
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

_NUMBER_AND_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Za-z]*)")
# Suffixes of sizes in fio (HOWTO, "Parameter types": kb_base=1024), and their IEC names
_SIZE_BYTES = {"": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_SIZE_BYTES |= {
    letter: 2**power for power, letters in {10: "kK", 20: "mM", 30: "gG", 40: "tT"}.items() for letter in letters
}
_DURATION_US = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6}


def _parse(text: str, factors: Mapping[str, int], what: str, base_unit: str) -> int:
    """Return the number in a text such as ``4 KiB``, converted to the base unit.

    Args:
        text: The number, and after an optional blank the unit.
        factors: The factor from each valid unit to the base unit.
        what: What the text should be, for messages, such as "size".
        base_unit: Name of the base unit, for messages.

    Raises:
        ValueError: The text has another form or unit, or the result is not a whole number.
    """
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None or match[2] not in factors:
        raise ValueError(f"{text!r} is no {what}")
    value = Decimal(match[1]) * factors[match[2]]
    if value != int(value):
        raise ValueError(f"{text!r} is no whole number of {base_unit}")
    return int(value)


def parse_size(value: str | int) -> int:
    """Return a size in bytes: 4096 for ``4096``, ``'4k'`` or ``'4 KiB'``.

    Units are ``B``; ``k``, ``m``, ``g`` and ``t`` in either case; and ``KiB``, ``MiB``, ``GiB`` and ``TiB``. They are
    powers of 1024. Text without a unit, and an integer, are in bytes.

    Raises:
        ValueError: The text is not a size with one of these units, or not a whole number of bytes.
    """
    return value if isinstance(value, int) else _parse(value, _SIZE_BYTES, "size", "bytes")


def parse_signed_size(value: str | int) -> int:
    """Return a size in bytes, which may be negative: -8192 for ``'-8k'``.

    `parse_size` describes the units.

    Raises:
        ValueError: The text is not a size, or not a whole number of bytes.
    """
    if isinstance(value, str) and value.startswith("-"):
        return -parse_size(value[1:])
    return parse_size(value)


def parse_duration_us(value: str) -> int:
    """Return a duration in microseconds: 500000 for ``'500 ms'``.

    Units are us, ms, s, min and h. The unit is required, the blank before it is not.

    Raises:
        ValueError: The text is not a duration with a unit, or not a whole number of microseconds.
    """
    return _parse(value, _DURATION_US, "duration", "microseconds")


# The function that converts a value of each kind to its canonical form
READERS: dict[str, Callable[[Any], Any]] = {
    "size": parse_size,
    "signed size": parse_signed_size,
    "duration": parse_duration_us,
    "path": os.path.normpath,
}


def canonical_value(value: Any, kind: str | None) -> Any:
    """Convert a value of the configuration to its canonical form.

    Sizes become bytes (4096 for ``'4k'``), durations become microseconds (2000 for ``'2 ms'``), and paths are
    normalised (``a/b`` for ``a//b``).

    Args:
        value: The value. Durations and paths are text; sizes are text or integers.
        kind: ``size``, ``signed size``, ``duration`` or ``path``; None for any other value, which is returned
            unchanged.

    Raises:
        ValueError: The text is not a value of this kind.
    """
    return value if kind is None else READERS[kind](value)


def format_size(value_bytes: int) -> str:
    """Return a size as text for fio, in the largest unit that gives a whole number.

    Examples: ``'4k'`` for 4096, ``'4097'`` for 4097, ``'-8k'`` for -8192. The units are k, m, g and t, powers of 1024.

    Args:
        value_bytes: The size, which may be negative.
    """
    for suffix, factor in (("t", 2**40), ("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if value_bytes and value_bytes % factor == 0:
            return f"{value_bytes // factor}{suffix}"
    return str(value_bytes)


def format_duration_us(value_us: int) -> str:
    """Return a duration as text, in the largest unit that gives a whole number.

    Units are s, ms and us. Examples: ``'4s'`` for 4000000, ``'1500us'`` for 1500.

    Args:
        value_us: The duration in microseconds.
    """
    for suffix, factor in (("s", 10**6), ("ms", 10**3)):
        if value_us and value_us % factor == 0:
            return f"{value_us // factor}{suffix}"
    return f"{value_us}us"


def format_duration(seconds: float) -> str:
    """Return a duration as text for people, such as ``'42 s'`` or ``'3 min 20 s'``.

    From one hour on, seconds are left out: ``'2 h 05 min'``.

    Args:
        seconds: The duration, at least 0. It is rounded to whole seconds.
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
