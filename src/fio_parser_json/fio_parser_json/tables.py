"""Make tidy pandas tables of fio documents: one row per job and direction, one row per latency bin."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

from fio_parser_json.documents import Document, FioParseError, json_type, read_documents

Source = str | os.PathLike[str] | Document

_INTEGER, _REAL, _TEXT = "Int64", "float64", "string"
_LATENCIES = ("slat", "clat", "lat")
_DIRECTIONS = ("read", "write", "trim", "mixed")
# fio's io_u_mark_depth: the bucket "16" counts 16 to 31 I/Os in flight. The number is the lower bound.
_DEPTHS = {"1": 1, "2": 2, "4": 4, "8": 8, "16": 16, "32": 32, ">=64": 64}
_DEPTH_COLUMNS = {label: f"iodepth_level_{label.replace('>=', 'ge')}_percent" for label in _DEPTHS}
# fio's io_u_mark_submit and io_u_mark_complete: the bucket "4" counts calls with 1 to 4 I/Os.
_BATCHES = ("0", "4", "8", "16", "32", "64", ">=64")
_BATCH_COLUMNS = {
    (call, label): f"iodepth_{call}_{label.replace('>=', 'ge')}_percent"
    for call in ("submit", "complete")
    for label in _BATCHES
}
# fio's io_u_mark_latency: the bucket "10" counts latencies from that of the bucket before it up to 10 of the unit.
_UP_TO = ("2", "4", "10", "20", "50", "100", "250", "500", "750", "1000")
_LATENCY_COLUMNS = {
    (unit, label): f"latency_{label.replace('>=', 'ge')}_{unit}_percent"
    for unit, labels in {"ns": _UP_TO, "us": _UP_TO, "ms": (*_UP_TO, "2000", ">=2000")}.items()
    for label in labels
}

# The fixed columns of `jobs`, in order, with their types.
_JOB_COLUMNS: dict[str, str] = {
    "source": _TEXT,
    "document": _INTEGER,
    "job": _INTEGER,
    "hostname": _TEXT,
    "jobname": _TEXT,
    "groupid": _INTEGER,
    "direction": _TEXT,
    "error": _INTEGER,
    "fio_version": _TEXT,
    "timestamp_ms": _INTEGER,
    "runtime_ms": _INTEGER,
    "job_runtime_ms": _INTEGER,
    "io_bytes": _INTEGER,
    "total_ios": _INTEGER,
    "bandwidth_bytes_per_s": _INTEGER,
    "bandwidth_min_bytes_per_s": _INTEGER,
    "bandwidth_max_bytes_per_s": _INTEGER,
    "bandwidth_mean_bytes_per_s": _REAL,
    "bandwidth_stddev_bytes_per_s": _REAL,
    "bandwidth_samples": _INTEGER,
    "bandwidth_share_percent": _REAL,
    "iops": _REAL,
    "iops_min": _INTEGER,
    "iops_max": _INTEGER,
    "iops_mean": _REAL,
    "iops_stddev": _REAL,
    "iops_samples": _INTEGER,
    **{
        f"{latency}_{statistic}_ns": dtype
        for latency in _LATENCIES
        for statistic, dtype in {"min": _INTEGER, "max": _INTEGER, "mean": _REAL, "stddev": _REAL}.items()
    },
    "short_ios": _INTEGER,
    "drop_ios": _INTEGER,
    "usr_cpu_percent": _REAL,
    "sys_cpu_percent": _REAL,
    "context_switches": _INTEGER,
    "iodepth_reached": _INTEGER,
    **dict.fromkeys(_DEPTH_COLUMNS.values(), _REAL),
    **dict.fromkeys(_BATCH_COLUMNS.values(), _REAL),
    **dict.fromkeys(_LATENCY_COLUMNS.values(), _REAL),
}

_BIN_COLUMNS: dict[str, str] = {
    "source": _TEXT,
    "document": _INTEGER,
    "job": _INTEGER,
    "jobname": _TEXT,
    "direction": _TEXT,
    "latency": _TEXT,
    "bin_ns": _INTEGER,
    "count": _INTEGER,
}


def jobs(sources: Source | Iterable[Source], *, all_directions: bool = False) -> pd.DataFrame:
    """Tabulate fio results: one row per job and direction.

    With ``group_reporting`` fio itself merges the jobs of a group: there is one row per group and direction,
    and ``option_numjobs`` says how many jobs its first section started. The summary "All clients" of
    ``fio --client`` is left out, so that sums over rows count each I/O once.

    Args:
        sources: the path of a file that fio wrote, a `Document`, or any number of these.
        all_directions: keep the directions in which a job issued no I/O. Without it a job that failed before
            its first I/O has no row.

    Returns:
        A frame with these columns (Int64, float64 or string; NA where this fio did not write the
        field). fio's own fields are described in its manual (HOWTO) and written by its ``stat.c``.

        - ``source``, ``document``, ``job``: the path; the position of the document in it, and of the job in
          the document, from 0.
        - ``hostname``: the server, in client mode; otherwise NA.
        - ``jobname``, ``groupid``, ``error`` (errno of the job), ``fio_version`` (``fio-3.33``).
        - ``direction``: ``read``, ``write`` or ``trim``; ``mixed`` if ``unified_rw_reporting=1`` merged them.
        - ``timestamp_ms``: when the document was written, since 1970; whole seconds in client mode; fio
          2.2.5 and later.
        - ``runtime_ms`` of the direction, ``job_runtime_ms`` of the job (fio 3.8 and later).
        - ``io_bytes``: in fio before 2.21 from its KiB, rounded down.
        - ``total_ios``, ``short_ios``, ``drop_ios``: fio 2.1.14 and later.
        - ``bandwidth_bytes_per_s``: ``bw_bytes``, or before fio 3.2 from ``bw`` in KiB/s, rounded down.
        - ``bandwidth_{min,max,mean,stddev}_bytes_per_s``: of fio's samples in KiB/s, one each ``bwavgtime``.
        - ``iops``; ``iops_{min,max,mean,stddev}``: of fio's samples, fio 3.0 and later.
        - ``bandwidth_samples``, ``iops_samples``: how many samples those are, fio 3.0 and later;
          ``bandwidth_share_percent``: their mean as a share of the group's bandwidth (``bw_agg``).
        - ``{slat,clat,lat}_{min,max,mean,stddev}_ns``: submission, completion and total latency; measured in
          microseconds before fio 3.0.
        - ``usr_cpu_percent``, ``sys_cpu_percent``, ``context_switches``: of the job, the same in each of its
          directions.
        - ``iodepth_level_{1,2,4,8,16,32,ge64}_percent``: the share of the job's I/Os submitted with that many
          in flight, each level reaching up to the next: "16" is 16 to 31 (``io_u_mark_depth`` in fio's
          ``io_u.c``). fio writes any share above 0 as at least 0.1.
        - ``iodepth_{submit,complete}_{0,4,8,16,32,64,ge64}_percent``: the share of calls that submitted, or took the
          completions of, up to that many I/Os; each bucket begins where the one before it ends.
        - ``latency_{2,4,10,20,50,100,250,500,750,1000}_{ns,us,ms}_percent``, ``latency_{2000,ge2000}_ms_percent``: the
          share of the job's I/Os with a total latency up to that, above that of the bucket before
          (``io_u_mark_latency``). fio writes any share above 0 as at least 0.01.
        - ``iodepth_reached``: lower bound of the level with the largest share (the lower of equals).

        Then, in ascending order, a column ``{slat,clat,lat}_p<percentile>_ns`` (``clat_p99_9_ns``) for each
        percentile that any source has; and in alphabetical order a column ``option_<name>`` for each option
        that any source sets: text as fio wrote it, "" for an option without a value, NA where it was not set;
        an option of the job wins over a global one. fio 2.3 and later write options.

        A statistic of which fio says that it had no samples is NA, not the 0 that fio writes.

    Raises:
        FioParseError: a source is not a whole, valid output of fio, or a field has the wrong type.
        OSError: a file cannot be read.
    """
    columns: dict[str, list[Any]] = {name: [] for name in _JOB_COLUMNS}
    percentiles: list[dict[tuple[int, float], int | None]] = []
    options: list[dict[str, str]] = []
    for document in _documents(sources):
        top = _Object(document, "", document.data)
        for number, job, name, direction in _directions(document):
            if not all_directions and not _issued_io(direction):
                continue
            job_options = _options(document, top, job)
            row = {
                "source": document.source,
                "document": document.index,
                "job": number,
                "direction": name,
                **_job_fields(top, job),
                **_direction_fields(top, direction),
            }
            for column, values in columns.items():
                values.append(row[column])
            percentiles.append(dict(_percentiles(top, direction, job_options)))
            options.append(job_options)
    data = {name: pd.Series(values, dtype=_JOB_COLUMNS[name]) for name, values in columns.items()}
    for latency, percentile in sorted({key for row in percentiles for key in row}):
        label = f"{percentile:.6f}".rstrip("0").rstrip(".").replace(".", "_")
        values = [row.get((latency, percentile)) for row in percentiles]
        data[f"{_LATENCIES[latency]}_p{label}_ns"] = pd.Series(values, dtype=_INTEGER)
    for option in sorted({name for row in options for name in row}):
        data[f"option_{option}"] = pd.Series([row.get(option) for row in options], dtype=_TEXT)
    return pd.DataFrame(data)


def latency_bins(sources: Source | Iterable[Source]) -> pd.DataFrame:
    """Tabulate the latency histograms that fio writes with ``--output-format=json+``: one row per bin.

    Args:
        sources: the path of a file that fio wrote, a `Document`, or any number of these.

    Returns:
        A frame with the columns below, bins ascending; no row for a result without bins (``json``, fio before
        2.2.12) and none for empty bins.

        - ``source``, ``document``, ``job``, ``jobname``, ``direction``: as in `jobs`.
        - ``latency``: ``slat``, ``clat`` or ``lat``. fio writes ``clat`` unless ``slat_percentiles``,
          ``lat_percentiles`` or ``clat_percentiles`` say otherwise.
        - ``bin_ns``: the latency that fio gives for the bin, the middle of its range (``plat_idx_to_val`` in
          fio's ``stat.c``). Bins are 1 wide below 128 and at most 1/64 of their latency above; in
          microseconds before fio 3.0.
        - ``count``: I/Os in the bin. Their sum is fio's ``N``.

    Raises:
        FioParseError: a source is not a whole, valid output of fio, or a field has the wrong type.
        OSError: a file cannot be read.
    """
    blocks: dict[str, list[Any]] = {name: [] for name in _BIN_COLUMNS if name not in {"bin_ns", "count"}}
    lengths: list[int] = []
    bins: list[int] = []
    counts: list[int] = []
    for document in _documents(sources):
        top = _Object(document, "", document.data)
        for number, job, name, direction in _directions(document):
            moved = _clat_is_lat(top, _options(document, top, job))
            for latency, statistics, scale in _latencies(direction):
                block_bins, block_counts = _bins(statistics.child("bins"), scale)
                if not block_bins:
                    continue
                which = "lat" if moved and latency == "clat" else latency
                values = (document.source, document.index, number, job.text("jobname"), name, which)
                for column, value in zip(blocks.values(), values, strict=True):
                    column.append(value)
                lengths.append(len(block_bins))
                bins += block_bins
                counts += block_counts
    described = pd.DataFrame({name: pd.Series(blocks[name], dtype=_BIN_COLUMNS[name]) for name in blocks})
    table = described.loc[described.index.repeat(lengths)].reset_index(drop=True)
    # By way of int64, which is ten times as fast for a million numbers.
    table["bin_ns"] = pd.Series(bins, dtype="int64").astype("Int64")
    table["count"] = pd.Series(counts, dtype="int64").astype("Int64")
    return table


class _Object:
    """A JSON object that knows its place in a document, for messages; a missing or null field is None."""

    __slots__ = ("document", "fields", "place")

    def __init__(self, document: Document, place: str, fields: dict[str, Any]) -> None:
        self.document = document
        self.place = place
        self.fields = fields

    def child(self, key: str) -> _Object:
        """Return an object within this one, empty if missing."""
        value = self.fields.get(key)
        place = f"{self.place}.{key}" if self.place else key
        if value is None:
            return _Object(self.document, place, {})
        if not isinstance(value, dict):
            raise self.wrong(key, "an object", value)
        return _Object(self.document, place, value)

    def real(self, key: str, scale: int = 1) -> float | None:
        value = self.fields.get(key)
        if value is None:
            return None
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.wrong(key, "a number", value)
        return value * scale

    def integer(self, key: str, scale: int = 1) -> int | None:
        value = self.real(key, scale)
        # Some versions write the start value of a minimum, 2**64 - 1, where they had no samples.
        if value is None or not -(2**63) <= value < 2**63:
            return None
        return round(value)

    def text(self, key: str) -> str | None:
        value = self.fields.get(key)
        if value is not None and not isinstance(value, str):
            raise self.wrong(key, "a string", value)
        return value

    def wrong(self, key: str, expected: str, found: object) -> FioParseError:
        place = f"{self.place}.{key}" if self.place else key
        return self.error(place, f"expected {expected}, found {json_type(found)}")

    def error(self, place: str, problem: str) -> FioParseError:
        label = f"document {self.document.index}: " if self.document.index else ""
        return FioParseError(self.document.source, label + place, problem)


def _documents(sources: Source | Iterable[Source]) -> Iterator[Document]:
    if isinstance(sources, str | os.PathLike | Document):
        sources = [sources]
    for source in sources:
        if isinstance(source, Document):
            yield source
        else:
            yield from read_documents(source)


def _directions(document: Document) -> Iterator[tuple[int, _Object, str, _Object]]:
    """Give position and fields of each job with name and fields of each of its directions."""
    key = "jobs" if "jobs" in document.data else "client_stats"
    for number, fields in enumerate(document.jobs):
        job = _Object(document, f"{key}[{number}]", fields)
        # With unified_rw_reporting=both "mixed" stands beside its own parts: it would count them twice.
        names = fields.keys() & {"read", "write", "trim"} or fields.keys() & {"mixed"}
        if not names:
            raise job.error(job.place, 'there is no "read", "write", "trim" or "mixed" in this job')
        for name in sorted(names, key=_DIRECTIONS.index):
            yield number, job, name, job.child(name)


def _issued_io(direction: _Object) -> bool:
    # total_ios came with fio 2.1.14.
    return any(direction.real(key) for key in ("total_ios", "io_bytes", "runtime"))


def _version(top: _Object) -> tuple[int, int] | None:
    match = re.search(r"(\d+)\.(\d+)", top.text("fio version") or "")
    return (int(match[1]), int(match[2])) if match else None


def _job_fields(top: _Object, job: _Object) -> dict[str, Any]:
    timestamp_ms = top.integer("timestamp_ms")
    depths = job.child("iodepth_level")
    shares = {label: depths.real(label) for label in _DEPTHS}
    largest = max(_DEPTHS, key=lambda label: shares[label] or 0)
    return {
        "hostname": job.text("hostname"),
        "jobname": job.text("jobname"),
        "groupid": job.integer("groupid"),
        "error": job.integer("error"),
        "fio_version": top.text("fio version"),
        "timestamp_ms": top.integer("timestamp", 1000) if timestamp_ms is None else timestamp_ms,
        "job_runtime_ms": job.integer("job_runtime"),
        "usr_cpu_percent": job.real("usr_cpu"),
        "sys_cpu_percent": job.real("sys_cpu"),
        "context_switches": job.integer("ctx"),
        "iodepth_reached": _DEPTHS[largest] if shares[largest] else None,
        **{_DEPTH_COLUMNS[label]: share for label, share in shares.items()},
        **{column: job.child(f"iodepth_{call}").real(label) for (call, label), column in _BATCH_COLUMNS.items()},
        **{column: job.child(f"latency_{unit}").real(label) for (unit, label), column in _LATENCY_COLUMNS.items()},
    }


def _direction_fields(top: _Object, direction: _Object) -> dict[str, Any]:
    # io_bytes counted KiB until fio 2.21 corrected it, and brought io_kbytes with that; bw_bytes came later.
    in_bytes = "io_kbytes" in direction.fields or "bw_bytes" in direction.fields
    in_bytes = in_bytes or (_version(top) or (0, 0)) >= (2, 21)
    bandwidth = direction.integer("bw_bytes")
    row = {
        "runtime_ms": direction.integer("runtime"),
        "io_bytes": direction.integer("io_bytes", 1 if in_bytes else 1024),
        "total_ios": direction.integer("total_ios"),
        "short_ios": direction.integer("short_ios"),
        "drop_ios": direction.integer("drop_ios"),
        "iops": direction.real("iops"),
        "bandwidth_bytes_per_s": direction.integer("bw", 1024) if bandwidth is None else bandwidth,
    }
    # fio calls the standard deviation of bandwidth bw_dev, that of IOPS iops_stddev.
    for name, key, deviation, unit, scale in (
        ("bandwidth", "bw", "bw_dev", "_bytes_per_s", 1024),
        ("iops", "iops", "iops_stddev", "", 1),
    ):
        sampled = _sampled(direction, f"{key}_samples")
        row[f"{name}_min{unit}"] = direction.integer(f"{key}_min", scale) if sampled else None
        row[f"{name}_max{unit}"] = direction.integer(f"{key}_max", scale) if sampled else None
        row[f"{name}_mean{unit}"] = direction.real(f"{key}_mean", scale) if sampled else None
        row[f"{name}_stddev{unit}"] = direction.real(deviation, scale) if sampled else None
        row[f"{name}_samples"] = direction.integer(f"{key}_samples")
    row["bandwidth_share_percent"] = direction.real("bw_agg") if _sampled(direction, "bw_samples") else None
    for latency, statistics, scale in _latencies(direction):
        sampled = _sampled(statistics, "N")
        row[f"{latency}_min_ns"] = statistics.integer("min", scale) if sampled else None
        row[f"{latency}_max_ns"] = statistics.integer("max", scale) if sampled else None
        row[f"{latency}_mean_ns"] = statistics.real("mean", scale) if sampled else None
        row[f"{latency}_stddev_ns"] = statistics.real("stddev", scale) if sampled else None
    return row


def _sampled(statistics: _Object, count: str) -> bool:
    """Tell whether fio had samples; a version that does not count them (N: before 3.18) had."""
    return statistics.integer(count) != 0


def _latencies(direction: _Object) -> Iterator[tuple[str, _Object, int]]:
    """Give the three latencies of a direction, each with the factor from its unit to nanoseconds."""
    for latency in _LATENCIES:
        if f"{latency}_ns" not in direction.fields and latency in direction.fields:
            yield latency, direction.child(latency), 1000
        else:
            yield latency, direction.child(f"{latency}_ns"), 1


def _clat_is_lat(top: _Object, options: dict[str, str]) -> bool:
    """Tell whether what fio puts into clat_ns is the histogram of lat.

    fio 3.1 to 3.12 keep one histogram, of total latency if lat_percentiles is on or clat_percentiles is off,
    but write its percentiles (fio 3.1 its bins too) into clat_ns all the same.
    """
    version = _version(top)
    if version is None or not (3, 1) <= version < (3, 13):
        return False
    lat, clat = options.get("lat_percentiles"), options.get("clat_percentiles")
    return _is_off(clat) if lat is None else not _is_off(lat)


def _is_off(option: str | None) -> bool:
    return option is not None and option.strip() == "0"


def _percentiles(
    top: _Object, direction: _Object, options: dict[str, str]
) -> Iterator[tuple[tuple[int, float], int | None]]:
    moved = _clat_is_lat(top, options)
    for latency, statistics, scale in _latencies(direction):
        values = statistics.child("percentile")
        which = _LATENCIES.index("lat" if moved and latency == "clat" else latency)
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


def _bins(histogram: _Object, scale: int) -> tuple[list[int], list[int]]:
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
        bins = [_plat_index_to_value(index, bits) for index in bins]
    ascending = sorted(bins)
    if bins != ascending:
        counts = [count for _, count in sorted(zip(bins, counts, strict=True))]
    return [value * scale for value in ascending] if scale != 1 else ascending, counts


def _wrong_bin(histogram: _Object, entries: dict[str, Any], limit: int) -> FioParseError:
    """Say which of the bins is none."""
    for key, value in entries.items():
        if not key.isdecimal() or len(key) > 19 or int(key) >= limit:
            return histogram.error(f"{histogram.place}.{key}", "expected a latency as the name of a bin")
        if type(value) is not int or not 0 <= value < _LARGEST:
            return histogram.wrong(key, "a count", value)
    return histogram.error(histogram.place, "expected a histogram")


def _plat_index_to_value(index: int, bits: int) -> int:
    """Convert the index of a bin to its latency: plat_idx_to_val in fio's stat.c."""
    if index < 2 << bits:
        return index
    error_bits = (index >> bits) - 1
    base = 1 << (error_bits + bits)
    return base + int((index % (1 << bits) + 0.5) * (1 << error_bits))


def _options(document: Document, top: _Object, job: _Object) -> dict[str, str]:
    """Merge global options and those of the job, which win."""
    merged: dict[str, str] = {}
    for options in (_global_options(document, top, job), job.child("job options")):
        for name, value in options.fields.items():
            if isinstance(value, dict | list):
                raise options.wrong(name, "a string", value)
            merged[name] = "" if value is None else str(value)
    return merged


def _global_options(document: Document, top: _Object, job: _Object) -> _Object:
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
            return _Object(document, f"{key}[{number}]", own)
    return _Object(document, key, {})
