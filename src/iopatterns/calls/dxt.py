"""Darshan's extended traces (DXT) of parallel programs, read through PyDarshan.

The library behind PyDarshan ends its process on some damaged logs, and returns a part of others with a word on standard
error. So it runs in a process of its own (this module as a program), and whatever it says there is a fault of the log.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from iopatterns.base import subprocess_env
from iopatterns.base.input_file import printable
from iopatterns.calls.form import CALL_COLUMNS, CALL_TYPE, PIECE_CALLS, CallTraceFile

# What reached the system is preferred to what MPI was asked for; a log may have either
_MODULES = ("DXT_POSIX", "DXT_MPIIO")
_MAGIC = (b"75d\x00", b"\x00d57")
_CALLS = ("pread64", "pwrite64")
_COLUMNS = ("rank", "file_number", "writes", "offset", "length", "begin_s", "end_s")
# And what those of a segment are called by PyDarshan
_SEGMENT = {"offset": "offset", "length": "length", "begin_s": "start_time", "end_s": "end_time"}


def is_darshan_log(head: bytes) -> bool:
    """Return whether a file with these first bytes is a log of Darshan."""
    return head[8:12] == _MAGIC[0] or head[12:16] == _MAGIC[1]


def read_dxt(source: CallTraceFile) -> Iterator[pd.DataFrame]:
    """Yield the reads and writes of a log by their times, as tables of calls (columns as of `Trace.pieces`).

    The process is the rank. DXT says offset and size of each access, and neither opens nor which call it was: so all
    are pread64 and pwrite64. The log is read as a whole. Raises CallsError.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "segments.npz"
        done = subprocess.run(
            [sys.executable, "-m", __name__, str(source.path), str(output)],
            env=subprocess_env.child_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        complaint = next((line for line in done.stderr.splitlines() if line.startswith("Error: ")), "")
        if done.returncode or complaint or not output.is_file():
            why = complaint or (done.stderr.strip().splitlines() or ["the library of Darshan gave up"])[-1]
            raise source.error(f"not readable as a log of Darshan: {printable(why.removeprefix('Error: '))}")
        with np.load(output, allow_pickle=False) as read:
            columns = {name: read[name] for name in read.files}
    if not columns["modules"].any():
        raise source.error(
            "holds no DXT records, only counters. Record with DXT_ENABLE_IO_TRACE=1 in the environment, which keeps"
            " each access."
        )
    yield from _pieces(columns)


def _pieces(columns: dict[str, Any]) -> Iterator[pd.DataFrame]:
    begin = columns["begin_s"]
    order = np.lexsort((columns["rank"], begin))
    names = columns["names"].astype(object)
    for start in range(0, len(order), PIECE_CALLS):
        its = order[start : start + PIECE_CALLS]
        time_ns = np.round(begin[its] * 1e9).astype(np.int64)
        duration = np.round((columns["end_s"][its] - begin[its]) * 1e9).astype(np.int64)
        codes = np.array([list(CALL_TYPE.categories).index(call) for call in _CALLS])[columns["writes"][its]]
        table = pd.DataFrame(
            {
                "process": columns["rank"][its],
                "time_ns": time_ns,
                "call": pd.Categorical.from_codes(codes, dtype=CALL_TYPE),
                "file": pd.Series(names[columns["file_number"][its]], dtype=object),
                "offset_bytes": columns["offset"][its],
                "size_bytes": columns["length"][its],
                "duration_ns": np.maximum(duration, 0),
            }
        )
        yield table[list(CALL_COLUMNS)]


def _segments(path: str) -> dict[str, Any]:
    """Return all accesses of a log as arrays. This runs in a process of its own."""
    import darshan

    report = darshan.DarshanReport(path, read_all=False)
    columns: dict[str, list[Any]] = {name: [] for name in _COLUMNS}
    names: dict[str, int] = {}
    modules = [module for module in _MODULES if module in report.modules]
    for module in modules[:1]:
        report.mod_read_all_dxt_records(module)
        for record in report.records[module].to_df():
            file = names.setdefault(str(report.name_records[record["id"]]), len(names))
            for writes, segments in enumerate((record["read_segments"], record["write_segments"])):
                if not len(segments):
                    continue
                columns["rank"].append(np.full(len(segments), record["rank"]))
                columns["file_number"].append(np.full(len(segments), file))
                columns["writes"].append(np.full(len(segments), writes))
                for name, its in _SEGMENT.items():
                    columns[name].append(segments[its].to_numpy())
    types = {"begin_s": np.float64, "end_s": np.float64}
    arrays: dict[str, Any] = {
        name: np.concatenate([np.empty(0), *parts]).astype(types.get(name, np.int64)) for name, parts in columns.items()
    }
    return {**arrays, "names": np.array(list(names) or [""]), "modules": np.array(modules[:1] != [])}


if __name__ == "__main__":
    np.savez(sys.argv[2], **_segments(sys.argv[1]))
