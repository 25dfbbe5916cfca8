"""The fields of a fio document with their places, and what several tables need of them; standard library only."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fio_parser_json.documents import Document, FioParseError, json_type

LATENCIES = ("slat", "clat", "lat")
DIRECTIONS = ("read", "write", "trim", "mixed")


class Fields:
    """A JSON object that knows its place in a document, for messages; a missing or null field is None."""

    __slots__ = ("document", "fields", "place")

    def __init__(self, document: Document, place: str, fields: dict[str, Any]) -> None:
        self.document = document
        self.place = place
        self.fields = fields

    def child(self, key: str) -> Fields:
        """Return an object within this one, empty if missing."""
        value = self.fields.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, "an object", value)
        return Fields(self.document, self._place_of(key), value or {})

    def real(self, key: str, scale: int = 1) -> float | None:
        """Return a number, ``scale`` times."""
        value = self.fields.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(key, "a number", value)
        return value * scale

    def integer(self, key: str, scale: int = 1) -> int | None:
        """Return a whole number, ``scale`` times; none that no column could hold."""
        value = self.real(key, scale)
        # Some versions write the start value of a minimum, 2**64 - 1, where they had no samples.
        if value is None or not -(2**63) <= value < 2**63:
            return None
        return round(value)

    def text(self, key: str) -> str | None:
        """Return a string."""
        value = self.fields.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a string", value)
        return value

    def objects(self, key: str) -> list[Fields]:
        """Return a list of objects, empty if missing."""
        value = self.fields.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.wrong(key, "a list", value)
        for number, each in enumerate(value):
            if not isinstance(each, dict):
                raise self.wrong(f"{key}[{number}]", "an object", each)
        return [Fields(self.document, self._place_of(f"{key}[{number}]"), each) for number, each in enumerate(value)]

    def _place_of(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, key: str, expected: str, found: object) -> FioParseError:
        """Return the error of a field of the wrong type."""
        return self.error(self._place_of(key), f"expected {expected}, found {json_type(found)}")

    def error(self, place: str, problem: str) -> FioParseError:
        """Return an error at a place of this document."""
        label = f"document {self.document.index}: " if self.document.index else ""
        return FioParseError(self.document.source, label + place, problem)


def directions(document: Document) -> Iterator[tuple[int, Fields, str, Fields]]:
    """Give position and fields of each job with name and fields of each of its directions."""
    key = "jobs" if "jobs" in document.data else "client_stats"
    for number, fields in enumerate(document.jobs):
        job = Fields(document, f"{key}[{number}]", fields)
        # With unified_rw_reporting=both "mixed" stands beside its own parts: it would count them twice.
        names = fields.keys() & {"read", "write", "trim"} or fields.keys() & {"mixed"}
        if not names:
            raise job.error(job.place, 'there is no "read", "write", "trim" or "mixed" in this job')
        for name in sorted(names, key=DIRECTIONS.index):
            yield number, job, name, job.child(name)


def version_of(top: Fields) -> tuple[int, int] | None:
    """Return the version of the fio that wrote a document, as far as it says."""
    match = re.search(r"(\d+)\.(\d+)", top.text("fio version") or "")
    return (int(match[1]), int(match[2])) if match else None


def sampled(statistics: Fields, count: str) -> bool:
    """Tell whether fio had samples; a version that does not count them (N: before 3.18) had."""
    return statistics.integer(count) != 0


def latencies(direction: Fields) -> Iterator[tuple[str, Fields, int]]:
    """Give the three latencies of a direction, each with the factor from its unit to nanoseconds."""
    for latency in LATENCIES:
        if f"{latency}_ns" not in direction.fields and latency in direction.fields:
            yield latency, direction.child(latency), 1000
        else:
            yield latency, direction.child(f"{latency}_ns"), 1


def clat_is_lat(top: Fields, options: dict[str, str]) -> bool:
    """Tell whether what fio puts into clat_ns is the histogram of lat.

    fio 3.1 to 3.12 keep one histogram, of total latency if lat_percentiles is on or clat_percentiles is off,
    but write its percentiles (fio 3.1 its bins too) into clat_ns all the same.
    """
    version = version_of(top)
    if version is None or not (3, 1) <= version < (3, 13):
        return False
    lat, clat = options.get("lat_percentiles"), options.get("clat_percentiles")
    return _is_off(clat) if lat is None else not _is_off(lat)


def _is_off(option: str | None) -> bool:
    return option is not None and option.strip() == "0"


def percentiles_of(
    top: Fields, direction: Fields, options: dict[str, str]
) -> Iterator[tuple[tuple[int, float], int | None]]:
    """Give each percentile of the latencies of a direction, by place in `LATENCIES` and number, in nanoseconds."""
    moved = clat_is_lat(top, options)
    for latency, statistics, scale in latencies(direction):
        values = statistics.child("percentile")
        which = LATENCIES.index("lat" if moved and latency == "clat" else latency)
        for key in values.fields:
            try:
                percentile = float(key)
            except ValueError:
                percentile = -1
            if not 0 <= percentile <= 100:
                raise values.error(f"{values.place}.{key}", "expected a percentile as the name")
            # Versions before 3.4 fill unused places of the list with "0.00": 0.
            if percentile > 0:
                yield (which, percentile), values.integer(key, scale)


# Far above any latency or count, and far below what a column of integers can hold.
_LARGEST = 2**53
# fio 2.2.12 to 2.19 wrote all counts of a histogram by index, and among them the constants of its layout.
_PLAT_BITS = "FIO_IO_U_PLAT_BITS"
_PLAT_CONSTANTS = frozenset({_PLAT_BITS, "FIO_IO_U_PLAT_VAL", "FIO_IO_U_PLAT_NR"})


def bins_of(histogram: Fields, scale: int) -> tuple[list[int], list[int]]:
    """Return latencies in ns and counts of the bins that are not empty, ascending."""
    entries = histogram.fields
    bits, limit = 0, _LARGEST
    if not _PLAT_CONSTANTS.isdisjoint(entries):
        bits = 6 if _PLAT_BITS not in entries else histogram.integer(_PLAT_BITS) or 0
        if not 0 < bits < 16:
            raise histogram.error(f"{histogram.place}.{_PLAT_BITS}", "expected a number from 1 to 15")
        limit = 32 << bits
        entries = {key: value for key, value in entries.items() if key not in _PLAT_CONSTANTS and value != 0}
    if not entries:
        return [], []
    counts = list(entries.values())
    try:
        bins = list(map(int, entries))
        # Checked as a whole first: a thousand files hold a million bins.
        plain = set(map(type, counts)) == {int} and min(bins) >= 0 and min(counts) >= 0
        plain = plain and max(bins) < limit and max(counts) < _LARGEST
    except ValueError:
        plain = False
    if not plain:
        raise _wrong_bin(histogram, entries, limit)
    if bits:
        bins = [plat_index_to_value(index, bits) for index in bins]
    ascending = sorted(bins)
    if bins != ascending:
        counts = [count for _, count in sorted(zip(bins, counts, strict=True))]
    return [value * scale for value in ascending] if scale != 1 else ascending, counts


def _wrong_bin(histogram: Fields, entries: dict[str, Any], limit: int) -> FioParseError:
    """Say which of the bins is none."""
    for key, value in entries.items():
        if not key.isdecimal() or len(key) > 19 or int(key) >= limit:
            return histogram.error(f"{histogram.place}.{key}", "expected a latency as the name of a bin")
        if type(value) is not int or not 0 <= value < _LARGEST:
            return histogram.wrong(key, "a count", value)
    return histogram.error(histogram.place, "expected a histogram")


def plat_index_to_value(index: int, bits: int) -> int:
    """Convert the index of a bin to its latency: plat_idx_to_val in fio's stat.c."""
    if index < 2 << bits:
        return index
    error_bits = (index >> bits) - 1
    base = 1 << (error_bits + bits)
    return base + int((index % (1 << bits) + 0.5) * (1 << error_bits))


def options_of(document: Document, top: Fields, job: Fields) -> dict[str, str]:
    """Merge global options and those of the job, which win."""
    merged: dict[str, str] = {}
    for options in (_global_options(document, top, job), job.child("job options")):
        for name, value in options.fields.items():
            if isinstance(value, dict | list):
                raise options.wrong(name, "a string", value)
            merged[name] = "" if value is None else str(value)
    return merged


def _global_options(document: Document, top: Fields, job: Fields) -> Fields:
    key = "global options"
    everyone = top.fields.get(key)
    if not isinstance(everyone, list):
        return top.child(key)
    # fio 3.39 and later, client of several servers: one object each, which says whose it is.
    for number, options in enumerate(everyone):
        if not isinstance(options, dict):
            raise top.wrong(f"{key}[{number}]", "an object", options)
        if all(options.get(name) == job.fields.get(name) for name in ("hostname", "port")):
            own = {name: value for name, value in options.items() if name not in {"hostname", "port"}}
            return Fields(document, f"{key}[{number}]", own)
    return Fields(document, key, {})
