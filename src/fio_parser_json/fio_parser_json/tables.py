"""Make tidy pandas tables of fio documents: of jobs and directions, latency bins, syncs, and the disks below."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import pandas as pd

from fio_parser_json.documents import Document
from fio_parser_json.fields import (
    LATENCIES,
    Fields,
    bins_of,
    clat_is_lat,
    directions,
    latencies,
    options_of,
    percentiles_of,
    sampled,
    version_of,
)
from fio_parser_json.options import NUMBERS, numbers
from fio_parser_json.sources import Errors, Item, Skipped, Sources, documents_of, gather

_INTEGER, _REAL, _TEXT = "Int64", "float64", "string"
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
        for latency in LATENCIES
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

_SYNC_COLUMNS: dict[str, str] = {
    **{name: _JOB_COLUMNS[name] for name in ("source", "document", "job", "hostname", "jobname")},
    "syncs": _INTEGER,
    "sync_min_ns": _INTEGER,
    "sync_max_ns": _INTEGER,
    "sync_mean_ns": _REAL,
    "sync_stddev_ns": _REAL,
}

# Of disk_util fio's field and its type by column; of a disk made of others the same again of these.
_DISK_FIELDS: dict[str, tuple[str, str]] = {
    f"{prefix}{column}": (f"{prefix}{key}", dtype)
    for prefix in ("", "aggr_")
    for column, key, dtype in (
        *(
            (f"{way}_{what}", f"{way}_{what}", _INTEGER)
            for what in ("ios", "merges", "sectors")
            for way in ("read", "write")
        ),
        ("read_ticks_ms", "read_ticks", _INTEGER),
        ("write_ticks_ms", "write_ticks", _INTEGER),
        ("in_queue_ms", "in_queue", _INTEGER),
        ("util_percent", "util", _REAL),
    )
}
_DISK_COLUMNS: dict[str, str] = {
    "source": _TEXT,
    "document": _INTEGER,
    "disk": _TEXT,
    **{column: dtype for column, (_, dtype) in _DISK_FIELDS.items()},
}

_BIN_COLUMNS: dict[str, str] = {
    **{name: _JOB_COLUMNS[name] for name in ("source", "document", "job", "jobname", "direction")},
    "latency": _TEXT,
    "bin_ns": _INTEGER,
    "count": _INTEGER,
}


def jobs(
    sources: Sources,
    *,
    all_directions: bool = False,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
) -> pd.DataFrame:
    """Tabulate fio results: one row per job and direction.

    With ``group_reporting`` fio itself merges the jobs of a group: there is one row per group and direction,
    and ``option_numjobs`` says how many jobs its first section started. The summary "All clients" of
    ``fio --client`` is left out, so that sums over rows count each I/O once.

    Args:
        sources: files, folders, globs, open files, decoded results or documents: see `all_documents`.
        all_directions: keep the directions in which a job issued no I/O. Without it a job that failed before
            its first I/O has no row.
        errors: ``"raise"`` for the first source that cannot be read, or ``"skip"`` it: see `all_documents`.
        skipped: a list to which the sources that are left out are appended.

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

        Last, options as numbers, each that any source sets, in the order of ``options.NUMBERS``: ``bs_bytes``,
        ``size_bytes``, ``io_size_bytes``, ``offset_bytes``, ``iodepth``, ``numjobs``, ``rwmixread_percent``,
        ``rwmixwrite_percent``, ``rate_bytes_per_s``, ``rate_iops``, ``thinktime_us``, ``ramp_time_us`` and
        ``asked_runtime_us`` (of ``runtime``). Of an option with a value for each direction it is that of the row.

        A statistic of which fio says that it had no samples is NA, not the 0 that fio writes.

    Raises:
        FioParseError: a source is not a whole, valid output of fio, or a field has the wrong type.
        OSError: a file cannot be read.
    """
    rows_of = functools.partial(_job_rows, all_directions=all_directions)
    found = list(gather(sources, rows_of, errors=errors, skipped=skipped))
    data = _columns([row.fields for row in found], _JOB_COLUMNS)
    for latency, percentile in sorted({key for row in found for key in row.percentiles}):
        values = [row.percentiles.get((latency, percentile)) for row in found]
        data[f"{LATENCIES[latency]}_p{_label(percentile)}_ns"] = pd.Series(values, dtype=_INTEGER)
    for option in sorted({name for row in found for name in row.options}):
        data[f"option_{option}"] = pd.Series([row.options.get(option) for row in found], dtype=_TEXT)
    in_numbers = [numbers(row.options, row.fields["direction"]) for row in found]
    for column, (_, names) in NUMBERS.items():
        if any(name in row.options for row in found for name in names):
            data[column] = pd.Series([each[column] for each in in_numbers], dtype=_INTEGER)
    return pd.DataFrame(data)


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of `jobs`: its fixed columns, and what it has of those that depend on the sources."""

    fields: dict[str, Any]
    percentiles: dict[tuple[int, float], int | None]
    options: dict[str, str]


def _columns(rows: list[dict[str, Any]], types: dict[str, str]) -> dict[str, pd.Series]:
    return {name: pd.Series([row[name] for row in rows], dtype=dtype) for name, dtype in types.items()}


def _job_rows(item: Item, *, all_directions: bool) -> list[_Row]:
    rows = []
    for document in documents_of(item):
        top = Fields(document, "", document.data)
        for number, job, name, direction in directions(document):
            if not all_directions and not _issued_io(direction):
                continue
            options = options_of(document, top, job)
            fields = {
                **_place(document, number),
                "direction": name,
                **_job_fields(top, job),
                **_direction_fields(top, direction),
            }
            rows.append(_Row(fields, dict(percentiles_of(top, direction, options)), options))
    return rows


def _place(document: Document, job: int) -> dict[str, Any]:
    return {"source": document.source, "document": document.index, "job": job}


def _label(percentile: float) -> str:
    """Return a percentile as the names of columns have it: 99.9 as 99_9."""
    return f"{percentile:.6f}".rstrip("0").rstrip(".").replace(".", "_")


def latency_bins(sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None) -> pd.DataFrame:
    """Tabulate the latency histograms that fio writes with ``--output-format=json+``: one row per bin.

    Args:
        sources: files, folders, globs, open files, decoded results or documents: see `all_documents`.
        errors: ``"raise"`` for the first source that cannot be read, or ``"skip"`` it: see `all_documents`.
        skipped: a list to which the sources that are left out are appended.

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
    described: dict[str, list[Any]] = {name: [] for name in _BIN_COLUMNS if name not in {"bin_ns", "count"}}
    lengths: list[int] = []
    bins: list[int] = []
    counts: list[int] = []
    for block in gather(sources, _histograms, errors=errors, skipped=skipped):
        for column, value in zip(described.values(), block.about, strict=True):
            column.append(value)
        lengths.append(len(block.bins))
        bins += block.bins
        counts += block.counts
    blocks = pd.DataFrame({name: pd.Series(described[name], dtype=_BIN_COLUMNS[name]) for name in described})
    table = blocks.loc[blocks.index.repeat(lengths)].reset_index(drop=True)
    # By way of int64, which is ten times as fast for a million numbers.
    table["bin_ns"] = pd.Series(bins, dtype="int64").astype("Int64")
    table["count"] = pd.Series(counts, dtype="int64").astype("Int64")
    return table


@dataclass(frozen=True, slots=True)
class _Histogram:
    """What `latency_bins` has of one histogram: what it is of, by column, and its bins."""

    about: tuple[Any, ...]
    bins: list[int]
    counts: list[int]


def _histograms(item: Item) -> list[_Histogram]:
    found = []
    for document in documents_of(item):
        top = Fields(document, "", document.data)
        for number, job, name, direction in directions(document):
            moved = clat_is_lat(top, options_of(document, top, job))
            for latency, statistics, scale in latencies(direction):
                bins, counts = bins_of(statistics.child("bins"), scale)
                if bins:
                    which = "lat" if moved and latency == "clat" else latency
                    about = (document.source, document.index, number, job.text("jobname"), name, which)
                    found.append(_Histogram(about, bins, counts))
    return found


def sync_latencies(sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None) -> pd.DataFrame:
    """Tabulate how long syncs took (``fsync``, ``fdatasync``, ``sync_file_range``): one row per job that made any.

    Args:
        sources: files, folders, globs, open files, decoded results or documents: see `all_documents`.
        errors: ``"raise"`` for the first source that cannot be read, or ``"skip"`` it: see `all_documents`.
        skipped: a list to which the sources that are left out are appended.

    Returns:
        A frame with the columns ``source``, ``document``, ``job``, ``hostname`` and ``jobname`` as in `jobs`; then
        ``syncs`` (how many were timed), ``sync_{min,max,mean,stddev}_ns`` of the latency that the program saw,
        and ``sync_p<percentile>_ns`` for each percentile that any source has. fio 3.5 and later write them.

    Raises:
        FioParseError: a source is not a whole, valid output of fio, or a field has the wrong type.
        OSError: a file cannot be read.
    """
    found = list(gather(sources, _sync_rows, errors=errors, skipped=skipped))
    data = _columns([row.fields for row in found], _SYNC_COLUMNS)
    for key in sorted({key for row in found for key in row.percentiles}):
        values = [row.percentiles.get(key) for row in found]
        data[f"sync_p{_label(key[1])}_ns"] = pd.Series(values, dtype=_INTEGER)
    return pd.DataFrame(data)


def _sync_rows(item: Item) -> list[_Row]:
    rows = []
    for document in documents_of(item):
        top = Fields(document, "", document.data)
        for number, fields in enumerate(document.jobs):
            job = Fields(document, f"{'jobs' if 'jobs' in document.data else 'client_stats'}[{number}]", fields)
            sync = job.child("sync")
            statistics = sync.child("lat_ns")
            # Newer versions count the syncs in N alone, and write total_ios as 0.
            syncs = statistics.integer("N") or sync.integer("total_ios")
            if not syncs:
                continue
            about = {
                **_place(document, number),
                "hostname": job.text("hostname"),
                "jobname": job.text("jobname"),
                "syncs": syncs,
                **_statistics("sync", statistics),
            }
            rows.append(_Row(about, dict(percentiles_of(top, sync, {})), {}))
    return rows


def disk_util(sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None) -> pd.DataFrame:
    """Tabulate what the kernel counted of the disks meanwhile: one row per document and disk.

    Args:
        sources: files, folders, globs, open files, decoded results or documents: see `all_documents`.
        errors: ``"raise"`` for the first source that cannot be read, or ``"skip"`` it: see `all_documents`.
        skipped: a list to which the sources that are left out are appended.

    Returns:
        A frame with the columns ``source`` and ``document`` as in `jobs`; ``disk``, the kernel's name;
        ``{read,write}_{ios,merges,sectors}`` (a sector is 512 bytes; fio 3.38 and later write them),
        ``{read,write}_ticks_ms`` and ``in_queue_ms`` (time that requests waited, summed up), and ``util_percent``. Of
        a disk made of others (RAID, LVM) the columns with ``aggr_`` in front are sums over these, and
        ``aggr_util_percent`` the largest of theirs.

    Raises:
        FioParseError: a source is not a whole, valid output of fio, or a field has the wrong type.
        OSError: a file cannot be read.
    """
    found = list(gather(sources, _disk_rows, errors=errors, skipped=skipped))
    return pd.DataFrame(_columns(found, _DISK_COLUMNS))


def _disk_rows(item: Item) -> list[dict[str, Any]]:
    rows = []
    for document in documents_of(item):
        top = Fields(document, "", document.data)
        for disk in top.objects("disk_util"):
            row = {"source": document.source, "document": document.index, "disk": disk.text("name")}
            for column, (key, dtype) in _DISK_FIELDS.items():
                row[column] = disk.integer(key) if dtype == _INTEGER else disk.real(key)
            rows.append(row)
    return rows


def _issued_io(direction: Fields) -> bool:
    # total_ios came with fio 2.1.14.
    return any(direction.real(key) for key in ("total_ios", "io_bytes", "runtime"))


def _job_fields(top: Fields, job: Fields) -> dict[str, Any]:
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


def _direction_fields(top: Fields, direction: Fields) -> dict[str, Any]:
    # io_bytes counted KiB until fio 2.21 corrected it, and brought io_kbytes with that; bw_bytes came later.
    in_bytes = "io_kbytes" in direction.fields or "bw_bytes" in direction.fields
    in_bytes = in_bytes or (version_of(top) or (0, 0)) >= (2, 21)
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
        there = sampled(direction, f"{key}_samples")
        row[f"{name}_min{unit}"] = direction.integer(f"{key}_min", scale) if there else None
        row[f"{name}_max{unit}"] = direction.integer(f"{key}_max", scale) if there else None
        row[f"{name}_mean{unit}"] = direction.real(f"{key}_mean", scale) if there else None
        row[f"{name}_stddev{unit}"] = direction.real(deviation, scale) if there else None
        row[f"{name}_samples"] = direction.integer(f"{key}_samples")
    row["bandwidth_share_percent"] = direction.real("bw_agg") if sampled(direction, "bw_samples") else None
    for latency, statistics, scale in latencies(direction):
        row |= _statistics(latency, statistics, scale)
    return row


def _statistics(name: str, statistics: Fields, scale: int = 1) -> dict[str, Any]:
    """Return least, greatest, mean and deviation of a latency, all missing where fio had no samples."""
    there = sampled(statistics, "N")
    return {
        f"{name}_min_ns": statistics.integer("min", scale) if there else None,
        f"{name}_max_ns": statistics.integer("max", scale) if there else None,
        f"{name}_mean_ns": statistics.real("mean", scale) if there else None,
        f"{name}_stddev_ns": statistics.real("stddev", scale) if there else None,
    }
