"""Sizes and durations as people write them, and back: '28k' is 28672 bytes, '500 ms' is 500 milliseconds."""

import os.path
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

SIZE_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(B|[kKmMgGtT]|[KMGT]iB)?$"
DURATION_PATTERN = r"^[0-9]+(\.[0-9]+)? ?(us|ms|s|min|h)$"

# fio's own reading of a suffix (HOWTO, "Parameter types": kb_base=1024), and the IEC names for the same
_SIZE_BYTES = {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_SIZE_BYTES |= {"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_DURATION_US = {"us": 1, "ms": 10**3, "s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6}


def _split(text: str, pattern: str, what: str) -> tuple[Decimal, str]:
    if not re.fullmatch(pattern, text):
        raise ValueError(f"{text!r} is no {what}")
    number = re.match(r"[0-9.]+", text)
    assert number is not None
    return Decimal(number.group()), text[number.end() :].strip()


def _whole(value: Decimal, text: str, unit: str) -> int:
    if value != int(value):
        raise ValueError(f"{text!r} is no whole number of {unit}")
    return int(value)


def parse_size(value: str | int) -> int:
    """Return a size in bytes: ``4096``, ``'4k'``, ``'4 KiB'``. Raises ValueError for anything else."""
    if isinstance(value, int):
        return value
    number, unit = _split(value, SIZE_PATTERN, "size")
    return _whole(number * _SIZE_BYTES[unit.lower()], value, "bytes")


def parse_signed_size(value: str | int) -> int:
    """Return a size in bytes that may be negative: ``'-8k'``. Raises ValueError for anything else."""
    if isinstance(value, str) and value.startswith("-"):
        return -parse_size(value[1:])
    return parse_size(value)


def parse_duration_us(value: str) -> int:
    """Return a duration in microseconds: ``'500 ms'``, ``'2 s'``. Raises ValueError without a unit."""
    number, unit = _split(value, DURATION_PATTERN, "duration")
    return _whole(number * _DURATION_US[unit], value, "microseconds")


# What a value is written in, and how it is read; a path has one spelling too
READERS: dict[str, Callable[[Any], Any]] = {
    "size": parse_size,
    "signed size": parse_signed_size,
    "duration": parse_duration_us,
    "path": os.path.normpath,
}


def canonical_value(value: Any, unit: str | None) -> Any:
    """Return a value in its canonical unit: bytes for ``size``, microseconds for ``duration``. Raises ValueError."""
    return value if unit is None else READERS[unit](value)


def format_size(value_bytes: int) -> str:
    """Return the shortest exact fio spelling of a size: 4096 is ``'4k'``, 4097 is ``'4097'``, -8192 is ``'-8k'``."""
    for suffix, factor in (("t", 2**40), ("g", 2**30), ("m", 2**20), ("k", 2**10)):
        if value_bytes and value_bytes % factor == 0:
            return f"{value_bytes // factor}{suffix}"
    return str(value_bytes)


def format_duration_us(value_us: int) -> str:
    """Return the shortest exact spelling of a duration: 4000000 is ``'4s'``, 1500 is ``'1500us'``."""
    for suffix, factor in (("s", 10**6), ("ms", 10**3)):
        if value_us and value_us % factor == 0:
            return f"{value_us // factor}{suffix}"
    return f"{value_us}us"


def format_duration(seconds: float) -> str:
    """Return a duration for people: ``'42 s'``, ``'3 min 20 s'``, ``'2 h 05 min'``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
