"""Access to the fields of fio documents, the same for all versions of fio.

The names and units of fields have changed between versions. The functions of this module hide these differences.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from fio_parser_json.documents import Document, FioParseError, json_type

LATENCIES = ("slat", "clat", "lat")
DIRECTIONS = ("read", "write", "trim", "mixed")


class Fields:
    """A JSON object in a document of fio, with typed access to its fields.

    A method that reads a field raises FioParseError if the value has another type than the method returns.

    Attributes:
        document: The document that contains the object.
        place: JSON path of the object in the document, such as ``jobs[0].read``; empty for the top level.
        fields: The decoded object.
    """

    __slots__ = ("document", "fields", "place")

    def __init__(self, document: Document, place: str, fields: dict[str, Any]) -> None:
        self.document = document
        self.place = place
        self.fields = fields

    def child(self, key: str) -> Fields:
        """Return the object in a field.

        If the field is missing or null, an object without fields is returned.

        Raises:
            FioParseError: The field contains another type than an object.
        """
        return Fields(self.document, self._path(key), self._typed(key, dict, "an object") or {})

    def real(self, key: str, scale: int = 1) -> float | None:
        """Return the number in a field, multiplied by ``scale``.

        Returns None if the field is missing or null.

        Raises:
            FioParseError: The field contains another type than a number.
        """
        value: float | None = self._typed(key, (int, float), "a number")
        return None if value is None else value * scale

    def integer(self, key: str, scale: int = 1) -> int | None:
        """Return the number in a field, multiplied by ``scale`` and then rounded.

        Returns None if the field is missing or null, or if the product does not fit into a signed integer of 64 bits.

        Raises:
            FioParseError: The field contains another type than a number.
        """
        value = self.real(key, scale)
        # without samples, some versions write the initial value of a minimum, 2**64 - 1
        if value is None or not -(2**63) <= value < 2**63:
            return None
        return round(value)

    def text(self, key: str) -> str | None:
        """Return the string in a field, or None if the field is missing or null.

        Raises:
            FioParseError: The field contains another type than a string.
        """
        value: str | None = self._typed(key, str, "a string")
        return value

    def objects(self, key: str) -> list[Fields]:
        """Return the objects in a field that contains a list.

        If the field is missing or null, the returned list is empty.

        Raises:
            FioParseError: The field contains another type than a list, or the list contains another type than objects.
        """
        found = []
        for number, value in enumerate(self._typed(key, list, "a list") or []):
            if not isinstance(value, dict):
                raise self.wrong(f"{key}[{number}]", "an object", value)
            found.append(Fields(self.document, self._path(f"{key}[{number}]"), value))
        return found

    def _typed(self, key: str, types: type | tuple[type, ...], expected: str) -> Any:
        value = self.fields.get(key)
        if value is not None and (not isinstance(value, types) or isinstance(value, bool)):
            raise self.wrong(key, expected, value)
        return value

    def _path(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def wrong(self, key: str, expected: str, found: object) -> FioParseError:
        """Return the error for a field whose value has the wrong type, without raising it.

        Args:
            key: Name of the field.
            expected: The expected type with its article, such as "a list".
            found: The value of the field.
        """
        return self.error(self._path(key), f"expected {expected}, found {json_type(found)}")

    def error(self, place: str, problem: str) -> FioParseError:
        """Return the error for a problem in the document, without raising it.

        Args:
            place: JSON path of the problem in the document, such as ``jobs[0].read``.
            problem: What is wrong there.
        """
        label = f"document {self.document.index}: " if self.document.index else ""
        return FioParseError(self.document.source, label + place, problem)


def jobs_of(document: Document) -> Iterator[tuple[int, Fields]]:
    """Yield each job of a document with its position.

    Yields:
        Position of the job in `Document.jobs`, from 0, and the job as JSON object.
    """
    key = "jobs" if "jobs" in document.data else "client_stats"
    for number, fields in enumerate(document.jobs):
        yield number, Fields(document, f"{key}[{number}]", fields)


def directions(document: Document) -> Iterator[tuple[int, Fields, str, Fields]]:
    """Yield the directions (read, write, trim) of all jobs of a document.

    A direction is the part of a job's results that is about reads, writes or trims. With ``unified_rw_reporting=1``,
    the only direction of a job is ``mixed``.

    Yields:
        Position of the job in `Document.jobs`, object of the job, name of the direction, and object of the direction.

    Raises:
        FioParseError: A job has no direction.
    """
    for number, job in jobs_of(document):
        # with unified_rw_reporting=both, "mixed" repeats the I/Os of the other directions
        names = job.fields.keys() & {"read", "write", "trim"} or job.fields.keys() & {"mixed"}
        if not names:
            raise job.error(job.place, 'there is no "read", "write", "trim" or "mixed" in this job')
        for name in sorted(names, key=DIRECTIONS.index):
            yield number, job, name, job.child(name)


def version_of(top: Fields) -> tuple[int, int] | None:
    """Return the version of fio that wrote a document, such as ``(3, 33)``.

    Returns None if the document does not contain the version.

    Args:
        top: The top level of the document.
    """
    match = re.search(r"(\d+)\.(\d+)", top.text("fio version") or "")
    return (int(match[1]), int(match[2])) if match else None


def sampled(statistics: Fields, count: str) -> bool:
    """Return whether fio took any samples for a statistic.

    Args:
        statistics: The object that contains the statistic, such as ``clat_ns``.
        count: Name of the field of ``statistics`` with the number of samples, such as ``N``. If this field is missing,
            the result is True, because older versions of fio do not write it. fio writes ``N`` since version 3.18.
    """
    return statistics.integer(count) != 0


def latencies(direction: Fields) -> Iterator[tuple[str, Fields, int]]:
    """Yield the submission, completion and total latency of a direction.

    Args:
        direction: The object of a direction in a job, such as ``jobs[0].read``.

    Yields:
        Three values for each of these latencies:

        - the name: ``slat``, ``clat`` or ``lat``;
        - the object with the statistics; empty if fio did not write this latency;
        - the factor that converts the statistics to nanoseconds: 1000 if fio wrote microseconds (before fio 3.0),
          otherwise 1.
    """
    for latency in LATENCIES:
        if f"{latency}_ns" not in direction.fields and latency in direction.fields:
            yield latency, direction.child(latency), 1000
        else:
            yield latency, direction.child(f"{latency}_ns"), 1


def clat_is_lat(top: Fields, options: dict[str, str]) -> bool:
    """Return whether ``clat_ns`` has percentiles and bins of total latencies.

    This is the case in some results of fio 3.1 to 3.12. These versions keep one histogram for each direction. By
    default it counts completion latencies (clat). If the option lat_percentiles is on or clat_percentiles is off, it
    counts total latencies (lat). In both cases these versions write the percentiles of the histogram into ``clat_ns``,
    and fio 3.1 also writes its bins there.

    Args:
        top: The top level of the document, which contains the version of fio.
        options: The options of the job, as returned by `options_of`.
    """
    version = version_of(top)
    if version is None or not (3, 1) <= version < (3, 13):
        return False
    lat, clat = (options.get(name, "").strip() for name in ("lat_percentiles", "clat_percentiles"))
    return lat != "0" if "lat_percentiles" in options else clat == "0"


def percentiles_of(
    top: Fields, direction: Fields, options: dict[str, str]
) -> Iterator[tuple[tuple[int, float], int | None]]:
    """Yield the latency percentiles of a direction.

    Args:
        top: The top level of the document.
        direction: The object of a direction in a job, such as ``jobs[0].read``.
        options: The options of the job, as returned by `options_of`.

    Yields:
        A key and a value for each percentile. The key is a pair: the index of the latency in `LATENCIES` (slat, clat,
        lat), and the percentile. For example, ``(1, 99.9)`` is the 99.9th percentile of clat. The value is in ns, or
        None if fio wrote no valid number.

    Raises:
        FioParseError: The name of a percentile is not a number from 0 to 100.
    """
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
            # versions before 3.4 fill the unused places of the list with "0.00": 0
            if percentile > 0:
                yield (which, percentile), values.integer(key, scale)


# far above any latency or count, and well within 64 bits
_LARGEST = 2**53
# fio 2.2.12 to 2.19 write all counts of a histogram by index, together with the constants of its layout
_PLAT_BITS = "FIO_IO_U_PLAT_BITS"
_PLAT_CONSTANTS = frozenset({_PLAT_BITS, "FIO_IO_U_PLAT_VAL", "FIO_IO_U_PLAT_NR"})


def bins_of(histogram: Fields, scale: int) -> tuple[list[int], list[int]]:
    """Return the non-empty bins of a latency histogram.

    Args:
        histogram: The object ``bins`` of a latency, such as ``jobs[0].read.clat_ns.bins``.
        scale: Factor from the unit of the bins to nanoseconds.

    Returns:
        The latencies of the bins in ns, in ascending order, and the number of I/Os in each bin. Both lists are empty if
        there is no histogram.

    Raises:
        FioParseError: The name of a bin is not a latency, or its value is not a count.
    """
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
        # one check for all bins, because a thousand files contain a million bins
        valid = set(map(type, counts)) == {int} and min(bins) >= 0 and min(counts) >= 0
        valid = valid and max(bins) < limit and max(counts) < _LARGEST
    except ValueError:
        valid = False
    if not valid:
        raise _invalid_bin(histogram, entries, limit)
    if bits:
        bins = [plat_index_to_value(index, bits) for index in bins]
    pairs = sorted(zip(bins, counts, strict=True))
    return [value * scale for value, _ in pairs], [count for _, count in pairs]


def _invalid_bin(histogram: Fields, entries: dict[str, Any], limit: int) -> FioParseError:
    """Return the error for the first invalid bin of a histogram.

    Args:
        histogram: The object ``bins`` of a latency.
        entries: Its bins: counts by name.
        limit: The names of valid bins are whole numbers below this limit.
    """
    for key, value in entries.items():
        if not key.isdecimal() or len(key) > 19 or int(key) >= limit:
            return histogram.error(f"{histogram.place}.{key}", "expected a latency as the name of a bin")
        if type(value) is not int or not 0 <= value < _LARGEST:
            return histogram.wrong(key, "a count", value)
    return histogram.error(histogram.place, "expected a histogram")


def plat_index_to_value(index: int, bits: int) -> int:
    """Return the latency of a histogram bin: the middle of its range.

    This is the function ``plat_idx_to_val`` in ``stat.c`` of fio.

    Args:
        index: Index of the bin, from 0.
        bits: Base-2 logarithm of the number of bins for each power of two (``FIO_IO_U_PLAT_BITS`` in fio), usually 6.

    Returns:
        The latency in the unit of the histogram: nanoseconds, or microseconds before fio 3.0.
    """
    if index < 2 << bits:
        return index
    error_bits = (index >> bits) - 1
    base = 1 << (error_bits + bits)
    return base + int((index % (1 << bits) + 0.5) * (1 << error_bits))


def options_of(top: Fields, job: Fields) -> dict[str, str]:
    """Return the options of a job as text, by name, such as ``{"bs": "4k"}``.

    An option of the job overrides the global option of the same name. An option without a value is "".

    Args:
        top: The top level of the document, which contains the global options.
        job: The object of the job.

    Raises:
        FioParseError: The value of an option is a list or an object.
    """
    merged: dict[str, str] = {}
    for options in (_global_options(top, job), job.child("job options")):
        for name, value in options.fields.items():
            if isinstance(value, dict | list):
                raise options.wrong(name, "a string", value)
            merged[name] = "" if value is None else str(value)
    return merged


def _global_options(top: Fields, job: Fields) -> Fields:
    key = "global options"
    if not isinstance(top.fields.get(key), list):
        return top.child(key)
    # fio 3.39 and later, client mode with several servers: one object for each server, with its address
    for options in top.objects(key):
        if all(options.fields.get(name) == job.fields.get(name) for name in ("hostname", "port")):
            own = {name: value for name, value in options.fields.items() if name not in {"hostname", "port"}}
            return Fields(top.document, options.place, own)
    return Fields(top.document, key, {})
