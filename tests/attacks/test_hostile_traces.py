"""Traces to replay that are broken or hostile: one clear line, in bounded time, and nothing simulated of them."""

import io
import json
import os
import struct
import subprocess
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from twins import TWIN

from iopatterns.measuring.replays import phase_bounds
from iopatterns.twin import TwinError
from iopatterns.twin.cli import main
from iopatterns.twin.traces import convert_trace

HEAD = "operation,offset_bytes,size_bytes,time_us\n"
LOG = "fio version 2 iolog\n/d add\n/d open\n"


def replay(trace: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this process, as starting one for each case takes long."""
    output, errors = io.StringIO(), io.StringIO()
    status = 0
    with redirect_stdout(output), redirect_stderr(errors):
        try:
            main(["replay", "c400", str(trace), *options])
        except SystemExit as end:
            status = int(end.code or 0)
    return subprocess.CompletedProcess(["twin"], status, output.getvalue(), errors.getvalue())


def replay_in_time(trace: Path) -> subprocess.CompletedProcess[str]:
    """Run the command where reading may never end."""
    command = [*TWIN, "replay", "c400", str(trace)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def assert_told(done: subprocess.CompletedProcess[str], *says: str) -> None:
    assert done.returncode == 2, (done.stdout, done.stderr)
    line = done.stderr.removesuffix("\n")
    assert line.isprintable(), line
    assert len(line) < 1200
    assert line.startswith("twin: error: ")
    for part in says:
        assert part in line


VALUES = ["inf", "-inf", "nan", "-1", "18446744073709551616", "18446744073709551615", "9223372036854775807", "1e300"]
ODD = ["", "1.5", "'x'", "0x10", "1;2", "\x1b[31m"]


@pytest.mark.parametrize("value", [*VALUES, *ODD])
@pytest.mark.parametrize("column", ["offset_bytes", "size_bytes"])
def test_a_number_of_a_csv_that_is_none_is_named(column: str, value: str, tmp_path: Path) -> None:
    row = {"operation": "read", "offset_bytes": "0", "size_bytes": "4096", "time_us": "1"}
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{HEAD}read,0,4096,0\n{','.join({**row, column: value}.values())}\n")
    assert_told(replay(trace, "--depth", "1"), str(trace), "line 3", column)


@pytest.mark.parametrize("value", ["inf", "-inf", "nan", "", "1e300", "18446744073709551616", "soon"])
def test_a_time_of_a_csv_that_is_none_is_named(value: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{HEAD}read,0,4096,0\nread,0,4096,{value}\n")
    assert_told(replay(trace), "line 3", "time_us")


def test_a_request_whose_end_is_beyond_all_numbers_is_named(tmp_path: Path) -> None:
    for number, (offset, size) in enumerate([(2**62 - 4096, 2**62 - 4096), (2**61, 4096), (0, 2**61), (0, 0)]):
        trace = tmp_path / f"{number}.csv"
        trace.write_text(f"{HEAD}read,{offset},{size},0\n")
        assert_told(replay(trace, "--depth", "1"), "request 0")


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
def test_a_parquet_s_odd_values_are_told(columns: dict[str, object], tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    table = {"operation": ["read"], "offset_bytes": [0], "size_bytes": [4096], "time_ns": [0], **columns}
    pd.DataFrame(table).to_parquet(trace)
    assert_told(replay(trace), str(trace), "request 0" if "size_bytes" in columns else "")


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
def test_an_odd_line_of_a_log_is_named(lines: str, tmp_path: Path) -> None:
    log = tmp_path / "io.log"
    log.write_text(f"{LOG}{lines}\n")
    assert_told(replay(log), str(log), "line")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".log"])
def test_what_is_no_regular_file_or_no_trace_ends_at_once(suffix: str, tmp_path: Path) -> None:
    pipe = tmp_path / f"pipe{suffix}"
    os.mkfifo(pipe)
    zero = tmp_path / f"zero{suffix}"
    zero.symlink_to("/dev/zero")
    loop = tmp_path / f"loop{suffix}"
    loop.symlink_to(loop)
    missing = tmp_path / f"missing{suffix}"
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    noise = tmp_path / f"noise{suffix}"
    noise.write_bytes(os.urandom(100_000))
    empty = tmp_path / f"empty{suffix}"
    empty.touch()
    for trace in (pipe, zero):
        assert_told(replay_in_time(trace), trace.name)
    for trace in (loop, missing, noise, empty):
        assert_told(replay(trace), trace.name)
    assert replay(folder).returncode == 2


@pytest.mark.parametrize("content", ['operation"\rb,size\n', f'{HEAD}read"\rb,0,4096,5\n'])
def test_quotation_marks_that_fit_no_csv_are_told(content: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_bytes(content.encode())
    assert_told(replay(trace), trace.name)


def test_names_with_line_ends_and_escapes_stay_in_one_line(tmp_path: Path) -> None:
    trace = tmp_path / "a\n\x1b[31mb.csv"
    trace.write_text("operation,\x1b[31m\n")
    assert_told(replay(trace), "no column")
    trace.write_text(HEAD + '"re\nad",0,4096,0\n')
    assert_told(replay(trace), "line 2: 1 values, but the head names 4 columns")
    trace.write_text(HEAD + f"re\x1b[31m{'x' * 4000},0,4096,0\n")
    assert_told(replay(trace), "line 2: no operation")
    trace.write_text(",".join(f"c{number}" for number in range(20_000)) + "\n1\n")
    assert_told(replay(trace), "line 1: longer than 4096 characters")


def record(action: int = 1, category: int = 1 << 1, size: int = 4096, extra: bytes = b"", **other: int) -> bytes:
    """Return a record of blktrace: a write queued, unless told otherwise."""
    values = {"magic": 0x65617407, "sequence": 1, "time": 0, "sector": 8, "device": 8 << 20, **other}
    head = [values[name] for name in ("magic", "sequence", "time", "sector")]
    fields = [*head, size, action | category << 16, 697, values["device"], 0, 0, len(extra)]
    return struct.pack("<IIQQIIIIIHH", *fields) + extra


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (record() + record()[:40], "byte 48: a record ends after 40 bytes, but has 48"),
        (record() + record(extra=b"x" * 9)[:-1], "byte 48: the 9 bytes after a record are not all there"),
        (record() + b"?" * 10**6, "byte 48: no record of blktrace begins here"),
        (record(magic=0x65617406), "byte 0: records of blktrace's version 6, but only 7 is known"),
        (record(sector=2**63), "byte 0: sector 9223372036854775808 is beyond all drives"),
        (record(time=2**63), "byte 0: more than 146 years after the start"),
        (record() + record(device=8 << 20 | 16), "byte 48: device 8,16, but 8,0 before"),
        (record(action=9), "no request queued (Q) or issued to the drive (D)"),
        (struct.pack("<I", 0x65617407), "byte 0: a record ends after 4 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_broken_record_of_blktrace_is_named(content: bytes, says: str, tmp_path: Path) -> None:
    trace = tmp_path / "dump"
    trace.write_bytes(content)
    assert_told(replay(trace), str(trace), says)


def test_faulty_lines_are_left_out_and_counted_where_that_is_asked_for(tmp_path: Path) -> None:
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
    assert_told(replay(trace, "--skip-bad"), str(trace), "no line is sound", "longer than 4096")
    trace.write_bytes(record() + b"?" * 100_001 + record(time=7) + record(sector=2**63) + record()[:7])
    done = replay(trace, "--skip-bad")
    assert (json.loads(done.stdout)["skipped"], json.loads(done.stdout)["summary"]["requests"]) == (3, 2)


def test_a_conversion_that_fails_leaves_nothing_and_overwrites_nothing(tmp_path: Path) -> None:
    trace, output = tmp_path / "trace.csv", tmp_path / "out.parquet"
    trace.write_text(f"{HEAD}read,0,4096,5\nraed,0,4096,5\n")
    with pytest.raises(TwinError, match="line 3: no operation"):
        convert_trace(trace, output)
    with pytest.raises(TwinError, match="give the file this ending"):
        convert_trace(trace, tmp_path / "out.csv")
    trace.write_text(f"{HEAD}read,0,4096,5\nread,0,4096,4\n")
    with pytest.raises(TwinError, match="request 1: arrives 1000 ns before"):
        convert_trace(trace, output)
    trace.write_text(HEAD)
    with pytest.raises(TwinError, match="no request in it"):
        convert_trace(trace, output)
    assert [path.name for path in tmp_path.iterdir()] == ["trace.csv"]
    trace.write_text(f"{HEAD}read,0,4096,5\n")
    convert_trace(trace, output)
    was = output.read_bytes()
    with pytest.raises(TwinError, match="is the trace that is to be read"):
        convert_trace(output, output)
    assert output.read_bytes() == was


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" + bytes(1000) + b"PAR1", b"no trace at all"])
def test_a_damaged_trace_of_a_study_is_named_before_its_phases_are_looked_for(content: bytes, tmp_path: Path) -> None:
    trace = tmp_path / "trace.parquet"
    trace.write_bytes(content)
    with pytest.raises(TwinError, match=r"trace\.parquet: not readable as a trace: "):
        phase_bounds(trace, "run")


def test_a_sound_trace_is_replayed(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text(f"{HEAD}read,0,4096,5\nwrite,1e6,4096.0,6.5\n".replace("1e6", "1048576"))
    done = replay(trace)
    assert done.returncode == 0, done.stderr
    assert '"requests": 2' in done.stdout
