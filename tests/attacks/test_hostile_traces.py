"""Hostile and broken traces are refused with one line, in bounded time, before anything is simulated."""

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from twins import TWIN, command

from iopatterns.base.errors import OutputError
from iopatterns.measuring.recordings import phase_bounds
from iopatterns.twin import TwinError
from iopatterns.twin.traces import convert_trace

HEAD = "operation,offset_bytes,size_bytes,time_us\n"
LOG = "fio version 2 iolog\n/d add\n/d open\n"


def replay(trace: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return command("replay", "c400", str(trace), *options)


def assert_refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Assert that the command ended with status 2 and one printable line that contains the parts."""
    assert done.returncode == 2, (done.stdout, done.stderr)
    line = done.stderr.removesuffix("\n")
    assert line.isprintable(), line
    assert len(line) < 1200
    assert line.startswith("twin: error: ")
    for part in parts:
        assert part in line


BEYOND_INT64 = ["inf", "-inf", "nan", "18446744073709551616", "18446744073709551615", "9223372036854775807", "1e300"]
NOT_NUMBERS = ["", "-1", "1.5", "'x'", "0x10", "0X10", "1;2", "\x1b[31m"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *((column, value) for column in ("offset_bytes", "size_bytes") for value in [*BEYOND_INT64, *NOT_NUMBERS]),
        *(("time_us", value) for value in ["inf", "-inf", "nan", "-5", "", "1e300", "18446744073709551616", "soon"]),
    ],
)
def test_the_message_names_an_invalid_number_in_csv(column: str, value: str, tmp_path: Path) -> None:
    row = {"operation": "read", "offset_bytes": "0", "size_bytes": "4096", "time_us": "1"}
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{HEAD}read,0,4096,0\n{','.join({**row, column: value}.values())}\n")
    assert_refused(replay(trace), str(trace), "line 3", column)


@pytest.mark.parametrize(("offset", "size"), [(2**62 - 4096, 2**62 - 4096), (2**61, 4096), (0, 2**61), (0, 0)], ids=str)
def test_a_request_beyond_the_drive_or_without_bytes_is_refused(offset: int, size: int, tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text(f"{HEAD}read,{offset},{size},0\n")
    assert_refused(replay(tmp_path / "trace.csv", "--depth", "1"), "request 0")


@pytest.mark.parametrize(
    "columns",
    [
        {"offset_bytes": [np.inf]},
        {"offset_bytes": [np.nan]},
        {"size_bytes": np.array([2**64 - 1], dtype=np.uint64)},
        {"size_bytes": np.array([-4096])},
        {"offset_bytes": [[1, 2]]},
        {"offset_bytes": [b"\xff"]},
        {"operation": ["read\n\x1b[31m" + "x" * 10**6]},
        {"operation": [None]},
        {"operation": [3]},
        {"time_ns": [np.nan]},
        {"time_ns": ["now"]},
        {"time_ns": np.array([2**64 - 1], dtype=np.uint64)},
    ],
    ids=str,
)
def test_invalid_values_in_parquet_are_refused(columns: dict[str, object], tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    table = {"operation": ["read"], "offset_bytes": [0], "size_bytes": [4096], "time_ns": [0], **columns}
    pd.DataFrame(table).to_parquet(trace)
    assert_refused(replay(trace), str(trace), "request 0" if "size_bytes" in columns else "")


@pytest.mark.parametrize(
    "lines",
    [
        "/d read -1 4096",
        "/d read inf 4096",
        f"/d read {2**64} 4096",
        f"/d read 0 {2**64}",
        "/d read ² 4096",
        "/d read 0",
        f"/d wait {2**61}\n/d read 0 4096",
        "/d wait 4000000000000000\n" * 3 + "/d read 0 4096",
        "/d \x1b[31m\x07 0 4096",
        "x" * 3_000_000,
        "/d read 0 4096 " + "9" * 100_000,
        "nonsense\r\x1b]0;title\x07",
    ],
    ids=lambda lines: lines[:24],
)
def test_the_message_names_an_invalid_line_of_a_log(lines: str, tmp_path: Path) -> None:
    log = tmp_path / "io.log"
    log.write_text(f"{LOG}{lines}\n")
    assert_refused(replay(log), str(log), "line")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".log"])
def test_files_that_are_not_traces_are_refused_at_once(suffix: str, tmp_path: Path) -> None:
    paths = {
        name: tmp_path / f"{name}{suffix}" for name in ("pipe", "zero", "loop", "missing", "folder", "noise", "empty")
    }
    os.mkfifo(paths["pipe"])
    paths["zero"].symlink_to("/dev/zero")
    paths["loop"].symlink_to(paths["loop"])
    paths["folder"].mkdir()
    paths["noise"].write_bytes(os.urandom(100_000))
    paths["empty"].touch()
    for name in ("pipe", "zero"):  # in a process of its own, because reading may never end
        argv = [*TWIN, "replay", "c400", str(paths[name])]
        assert_refused(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False), name)
    for name in ("loop", "missing", "noise", "empty"):
        assert_refused(replay(paths[name]), name)
    assert replay(paths["folder"]).returncode == 2


@pytest.mark.parametrize("content", ['operation"\rb,size\n', f'{HEAD}read"\rb,0,4096,5\n'])
def test_invalid_quotation_marks_are_refused(content: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_bytes(content.encode())
    assert_refused(replay(trace), trace.name)


def test_line_breaks_and_escapes_do_not_reach_the_message(tmp_path: Path) -> None:
    trace = tmp_path / "a\n\x1b[31mb.csv"
    trace.write_text("operation,\x1b[31m\n")
    assert_refused(replay(trace), "no column")
    trace.write_text(HEAD + '"re\nad",0,4096,0\n')
    assert_refused(replay(trace), "line 2: 1 values, but there are 4: operation")
    trace.write_text(HEAD + f"re\x1b[31m{'x' * 4000},0,4096,0\n")
    assert_refused(replay(trace), "line 2: no operation")
    trace.write_text(",".join(f"c{number}" for number in range(20_000)) + "\n1\n")
    assert_refused(replay(trace), "line 1: longer than 4096 characters")


def record(action: int = 1, category: int = 1 << 1, size: int = 4096, extra: bytes = b"", **other: int) -> bytes:
    """Return a record of blktrace, by default of a queued write."""
    values = {"magic": 0x65617407, "sequence": 1, "time": 0, "sector": 8, "device": 8 << 20, **other}
    head = [values[name] for name in ("magic", "sequence", "time", "sector")]
    fields = [*head, size, action | category << 16, 697, values["device"], 0, 0, len(extra)]
    return struct.pack("<IIQQIIIIIHH", *fields) + extra


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (record() + record()[:40], "byte 48: the record is cut off: 40 of 48 bytes"),
        (record() + record(extra=b"x" * 9)[:-1], "byte 48: the 9 bytes after the record are cut off"),
        (record() + b"?" * 10**6, "byte 48: not a record of blktrace"),
        (record(magic=0x65617406), "byte 0: version 6 of blktrace; only version 7 is supported"),
        (record(time=2**63), "byte 0: more than 146 years after the start"),
        (record(action=9), "no request queued (Q) or issued to the drive (D)"),
        (struct.pack("<I", 0x65617407), "byte 0: the record is cut off: 4 of 48 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_message_names_a_broken_record_of_blktrace(content: bytes, message: str, tmp_path: Path) -> None:
    trace = tmp_path / "dump"
    trace.write_bytes(content)
    assert_refused(replay(trace), str(trace), message)


@pytest.mark.parametrize(
    ("other", "coverage"),
    [
        (record(sector=2**63), "1 requests; left out: 1 events at the impossible sector 9223372036854775808"),
        (record(device=8 << 20 | 16), "2 requests; by part: 8,0 (1), 8,16 (1); nothing left out"),
    ],
    ids=["impossible sector", "second device"],
)
def test_the_coverage_names_what_a_record_of_blktrace_changes(other: bytes, coverage: str, tmp_path: Path) -> None:
    trace = tmp_path / "dump"
    trace.write_bytes(record() + other)
    done = replay(trace)
    assert done.returncode == 0
    assert coverage in done.stderr


def test_faulty_lines_are_skipped_and_counted_with_skip_bad(tmp_path: Path) -> None:
    sound, long = "read,0,4096,5\n", "x" * 10**6 + "\n"
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{HEAD}{sound}{long}rread,0,4096,6\n{sound}read,\x1b[31m,4096,7\n")
    done = replay(trace, "--skip-bad")
    assert done.returncode == 0, done.stderr
    assert (json.loads(done.stdout)["skipped"], json.loads(done.stdout)["summary"]["requests"]) == (3, 2)
    assert done.stderr.splitlines()[:2] == [
        "Skipped 3 faulty lines. The first:",
        f"{trace}, line 3: longer than 4096 characters",
    ]
    trace.write_text(f"{HEAD}{long}")
    assert_refused(replay(trace, "--skip-bad"), str(trace), "all lines are faulty", "longer than 4096")
    trace.write_bytes(record() + b"?" * 100_001 + record(time=7) + record(sector=2**63) + record()[:7])
    done = replay(trace, "--skip-bad")
    assert (json.loads(done.stdout)["skipped"], json.loads(done.stdout)["summary"]["requests"]) == (2, 2)
    assert "left out: 1 events at the impossible sector" in done.stderr


def test_a_failed_conversion_leaves_no_file_and_overwrites_nothing(tmp_path: Path) -> None:
    trace, output = tmp_path / "trace.csv", tmp_path / "out.parquet"
    trace.write_text(f"{HEAD}read,0,4096,5\nraed,0,4096,5\n")
    with pytest.raises(TwinError, match="line 3: no operation"):
        convert_trace(trace, output)
    with pytest.raises(TwinError, match="line 3: no operation"):
        convert_trace(trace, tmp_path / "out.csv")
    with pytest.raises(TwinError, match=r"must end in \.parquet"):
        convert_trace(trace, tmp_path / "out.doc")
    trace.write_text(f"{HEAD}read,0,4096,5\nread,0,4096,4\n")
    with pytest.raises(TwinError, match="request 1: arrives 1000 ns before"):
        convert_trace(trace, output)
    trace.write_text(HEAD)
    with pytest.raises(TwinError, match="the trace has no requests"):
        convert_trace(trace, output)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]
    trace.write_text(f"{HEAD}read,0,4096,5\n")
    convert_trace(trace, output)
    before = output.read_bytes()
    with pytest.raises(OutputError, match="an input of this command"):
        convert_trace(output, output)
    assert output.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(1000) + b"PAR1", b"no trace at all"])
def test_reading_phases_of_a_damaged_trace_names_the_file(content: bytes, tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    trace.write_bytes(content)
    with pytest.raises(TwinError, match=r"trace\.parquet: not readable as a trace: "):
        phase_bounds(trace, "run")


def test_a_valid_trace_is_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{HEAD}read,0,4096,5\nwrite,1048576,4096.0,6.5\n")
    done = replay(trace)
    assert done.returncode == 0, done.stderr
    assert '"requests": 2' in done.stdout
