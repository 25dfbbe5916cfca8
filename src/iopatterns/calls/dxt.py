"""Read Darshan's extended traces (DXT) of parallel programs with PyDarshan.

With some damaged logs the C library of PyDarshan ends its process. With other damaged logs it prints an error and
returns only a part. So this module runs itself as a program in a separate process, which reads the log. Each error that
is printed there counts as a fault of the log.
"""

import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base import parquet, subprocess_env
from iopatterns.base.coverage import Coverage
from iopatterns.base.input_file import printable
from iopatterns.calls.form import CALL_COLUMNS, CALL_TYPE, PIECE_CALLS, CallTraceFile

_COVERAGE = b"coverage"
# Counters of all reads, and of all writes, by module
_COUNTERS = {
    "POSIX": (("POSIX_READS",), ("POSIX_WRITES",)),
    "MPI-IO": (
        ("MPIIO_INDEP_READS", "MPIIO_COLL_READS", "MPIIO_SPLIT_READS", "MPIIO_NB_READS"),
        ("MPIIO_INDEP_WRITES", "MPIIO_COLL_WRITES", "MPIIO_SPLIT_WRITES", "MPIIO_NB_WRITES"),
    ),
    "STDIO": (("STDIO_READS",), ("STDIO_WRITES",)),
}
# Modules with DXT records, and those with their counters. The first that a log contains is read: system calls are
# preferred to MPI calls.
_MODULES = {"DXT_POSIX": "POSIX", "DXT_MPIIO": "MPI-IO"}
_MAGIC = (b"75d\x00", b"\x00d57")


def is_darshan_log(head: bytes) -> bool:
    """Return whether a file is a log of Darshan, which traces parallel programs.

    Args:
        head: The first bytes of the file, at least 16. With fewer bytes, the result may be False for a log.
    """
    return head[8:12] == _MAGIC[0] or head[12:16] == _MAGIC[1]


def read_dxt(source: CallTraceFile, coverage: Coverage) -> Iterator[pd.DataFrame]:
    """Yield the reads and writes in a log of Darshan as tables, in order of time.

    The tables have the columns of `Trace.pieces`. The number of a process is its MPI rank. The DXT records of a log
    contain offset and size of each access, but neither opens nor the names of calls. So each read is reported as
    pread64, and each write as pwrite64. A separate process reads the complete log into its memory.

    Args:
        source: The log.
        coverage: Receives the numbers of reads and writes that Darshan counted, and the accesses without DXT records.

    Raises:
        CallsError: The log is damaged, or contains no DXT records.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "segments.parquet"
        done = subprocess.run(
            [sys.executable, "-I", "-m", __name__, str(source.path), str(output)],
            env=subprocess_env.child_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        lines = done.stderr.strip().splitlines()
        error = next((line for line in lines if line.startswith("Error: ")), "")
        if done.returncode or error or not output.is_file():
            problem = error or (lines or ["the library of Darshan failed"])[-1]
            raise source.error(f"not readable as a log of Darshan: {printable(problem.removeprefix('Error: '))}")
        yield from _tables(output, source, coverage)


def _tables(converted: Path, source: CallTraceFile, coverage: Coverage) -> Iterator[pd.DataFrame]:
    """Yield the calls in a file that `_write_calls` has written as tables.

    Args:
        converted: The file.
        source: The log, for messages.
        coverage: Receives the coverage in the metadata of the file.

    Raises:
        CallsError: The log contains no DXT records.
    """
    with parquet.open_parquet(converted) as file:
        if not file.metadata.num_rows:
            raise source.error(
                "contains no DXT records, only counters. Record with DXT_ENABLE_IO_TRACE=1 in the environment, which"
                " traces each access."
            )
        coverage.update(json.loads(file.schema_arrow.metadata[_COVERAGE]))
        for batch in parquet.read_batches(file, converted, CALL_COLUMNS, PIECE_CALLS):
            piece = batch.to_pandas()
            yield piece.assign(call=piece["call"].astype(CALL_TYPE), file=piece["file"].astype(object))


def _write_calls(log: str, output: str) -> None:
    """Write all reads and writes in a log of Darshan to Parquet, in order of time.

    Only the separate process of this module calls this function. The columns are those of `Trace.pieces`.

    Args:
        log: The log.
        output: The Parquet file.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    coverage = Coverage()
    segments = _segments(log, coverage).sort_values(["start_time", "process"], kind="stable", ignore_index=True)
    time_ns = (segments["start_time"] * 1e9).round().astype(np.int64)
    duration_ns = ((segments["end_time"] - segments["start_time"]) * 1e9).round().astype(np.int64)
    calls = segments.assign(
        time_ns=time_ns - (time_ns.iloc[0] if len(time_ns) else 0), duration_ns=duration_ns.clip(lower=0)
    ).rename(columns={"offset": "offset_bytes", "length": "size_bytes"})
    table = pa.Table.from_pandas(calls[list(CALL_COLUMNS)], preserve_index=False)
    pq.write_table(table.replace_schema_metadata({_COVERAGE: coverage.to_json()}), output, row_group_size=PIECE_CALLS)


def _segments(path: str, coverage: Coverage) -> pd.DataFrame:
    """Return all reads and writes in a log of Darshan.

    Args:
        path: The log.
        coverage: Receives what Darshan counted.

    Returns:
        A row for each access. Columns: process (the MPI rank), offset, length, start_time and end_time (in seconds),
            call (``pread64`` or ``pwrite64``) and file.
    """
    import darshan

    report = darshan.DarshanReport(path, read_all=False)
    numbers = {"process": np.int64, "offset": np.int64, "length": np.int64, "start_time": float, "end_time": float}
    tables = [pd.DataFrame(columns=[*numbers, "call", "file"])]
    for module in [module for module in _MODULES if module in report.modules][:1]:
        _compare_counters(report, module, coverage)
        report.mod_read_all_dxt_records(module)
        for record in report.records[module].to_df():
            file = str(report.name_records[record["id"]])
            for call, segments in (("pread64", record["read_segments"]), ("pwrite64", record["write_segments"])):
                if len(segments):
                    tables.append(segments.assign(process=record["rank"], call=call, file=file)[[*tables[0]]])
    return pd.concat(tables, ignore_index=True).astype(numbers)


def _compare_counters(report: Any, module: str, coverage: Coverage) -> None:
    """Report how many accesses Darshan counted, and which of them have no DXT records.

    Args:
        report: The log (darshan.DarshanReport).
        module: The module whose DXT records are read, such as ``DXT_POSIX``.
        coverage: Receives the numbers of accesses, and remarks about modules whose records are incomplete.
    """
    totals: Counter[str] = Counter()
    for each in _COUNTERS:
        if each in report.modules:
            report.mod_read_all_records(each)
            counters = report.records[each].to_df()["counters"].select_dtypes("number")
            totals.update({name: int(values.clip(lower=0).sum()) for name, values in counters.items()})  # -1: no value
    own = _MODULES[module]
    if own in report.modules:
        for kind, names in zip(("reads", "writes"), _COUNTERS[own], strict=True):
            coverage.recorded[kind] = sum(totals[name] for name in names)
    else:
        coverage.remark(f"the log has no counters of {own} with which to compare the number of accesses")
    coverage.left_out["reads and writes through STDIO (fread, fwrite), of which Darshan keeps counters only"] = (
        totals["STDIO_READS"] + totals["STDIO_WRITES"]
    )
    coverage.left_out["mappings of files to memory (mmap)"] = totals["POSIX_MMAPS"]
    for each in (module, *_COUNTERS):
        if each in report.modules and report.modules[each]["partial_flag"]:
            what = "records" if each == module else "counters"
            coverage.remark(
                f"Darshan's memory for {each} was full, so that its {what} are incomplete: record with a larger"
                " DARSHAN_MODMEM"
            )


if __name__ == "__main__":
    _write_calls(sys.argv[1], sys.argv[2])
