"""Block traces: every format gives the same requests, and Parquet files give them back unchanged."""

import json
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.twin import traces
from iopatterns.twin.traces import UNKNOWN_TIME, delimited, form, line_blocks

DATA = Path(__file__).parent / "data"
MSR = DATA / "msr-cambridge.csv"
BLKPARSE = DATA / "blkparse.txt"
READ, WRITE, FLUSH, DISCARD = (traces.OPERATIONS[name] for name in ("read", "write", "flush", "discard"))
HEADER = "operation,offset_bytes,size_bytes"


def replayed(path: Path, *options: str) -> str:
    """Return what `twin replay` prints for a valid trace."""
    done = command("replay", "px05smb040", str(path), *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rows_of(path: Path) -> list[tuple[int, int, int, int]]:
    table = pd.concat(list(traces.read_pieces(path)))
    return list(table[["operation", "offset_bytes", "size_bytes", "arrival_ns"]].itertuples(index=False, name=None))


def times_of(path: Path, *, issued: bool = False) -> list[tuple[int, ...]]:
    """Return operation, offset and the three times of each request; -1 for an unknown time."""
    table = pd.concat(list(traces.read_pieces(path, issued=issued)))
    for name in form.TIME_COLUMNS:
        table[name] = table[name].where(table[name] != UNKNOWN_TIME, -1) if name in table else -1
    return list(table[["operation", "offset_bytes", *form.TIME_COLUMNS]].itertuples(index=False, name=None))


def test_csv_parquet_and_fio_logs_of_the_same_requests_have_the_same_replay(tmp_path: Path) -> None:
    lines = [f"{HEADER},time_us", "read,0,4096,0", "write,8192,8192,100", "flush,0,0,200", "read,65536,4096,300"]
    (tmp_path / "trace.csv").write_text("\n".join(lines))
    pd.read_csv(tmp_path / "trace.csv").to_parquet(tmp_path / "trace.parquet")
    lines = ["fio version 3 iolog", "0 f add", "0 f open", "0 f read 0 4096", "100 f write 8192 8192", "200 f sync 0 0"]
    (tmp_path / "trace.log").write_text("\n".join([*lines, "300 f read 65536 4096", "300 f close"]) + "\n")
    printed = {replayed(tmp_path / f"trace.{suffix}") for suffix in ("csv", "parquet", "log")}
    assert len(printed) == 1
    assert json.loads(printed.pop())["summary"]["requests"] == 4


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("no.csv", "operation,offset_bytes\nread,0\n", "no column 'size_bytes'"),
        ("odd.csv", f"{HEADER}\nraed,0,4096\n", "line 2: no operation 'raed'"),
        ("far.csv", f"{HEADER}\nread,0,4096\nread,400088457216,4096\n", "request 1: 4096 bytes at"),
        ("log.log", "fio version 9 iolog\n", "line 1: not an I/O log of fio, version 2 or 3"),
        ("notes.txt", "bought milk\n", "line 1: not a trace. Valid formats: Parquet, .*blkparse, .*MSR Cambridge"),
        ("none.csv", None, "no such file"),
    ],
)
def test_an_invalid_trace_is_refused(name: str, text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    done = command("replay", "px05smb040", str(tmp_path / name), "--depth", "1")
    assert (done.returncode, "Traceback" in done.stderr) == (2, False)
    assert re.search(message, done.stderr)


def test_a_trace_of_msr_cambridge_has_offsets_in_bytes_and_times_in_100_ns(tmp_path: Path) -> None:
    rows = [(READ, 383496192, 32768, 0), (WRITE, 310378496, 4096, 1332052600)]
    rows += [(WRITE, 310382592, 8192, 2332061600), (READ, 2822144, 16384, 2332061600)]
    assert rows_of(MSR) == rows
    headed = tmp_path / "headed"  # recognized by its content, not by its name
    headed.write_text("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n" + MSR.read_text())
    assert rows_of(headed) == rows
    assert [row[4] for row in times_of(MSR)] == [41300, 1332062200, 2332165100, 2332073600]
    assert json.loads(replayed(MSR))["summary"]["requests"] == 4


def test_a_text_of_blkparse_gives_the_queued_requests(tmp_path: Path) -> None:
    rows = [(WRITE, 223490 * 512, 4096, 0), (READ, 4096 * 512, 256 * 512, 301644)]
    rows += [(FLUSH, 0, 0, 500000), (WRITE, 1024 * 512, 8192, 500000), (FLUSH, 0, 0, 700000)]
    rows += [(DISCARD, 8192 * 512, 2048 * 512, 800000)]
    assert rows_of(BLKPARSE) == rows
    lines = BLKPARSE.read_text().splitlines()
    (tmp_path / "issued").write_text("\n".join(line for line in lines if "  Q" not in line and " Q " not in line))
    assert rows_of(tmp_path / "issued") == [rows[0]]
    assert json.loads(replayed(BLKPARSE, "--depth", "1"))["summary"]["requests"] == 6


@pytest.mark.parametrize(
    ("sample", "valid", "faulty", "message"),
    [
        (MSR, ",Write,310382592", ",Wrote,310382592", "line 3: no operation 'Wrote' in the column Type"),
        (MSR, ",310382592,", ",31038259x,", "line 3: Offset is '31038259x', not a"),
        (MSR, ",8192,1035", ",8192,1035,7", "line 3: 8 values, but there are 7"),
        (BLKPARSE, "8192 + 2048", "8192", "line 13: 'DS' requires 'SECTOR + SECTORS', not '8192 [fstrim]'"),
        (BLKPARSE, "  8,0    3        2 ", "what    3        2 ", "line 2: not an event of blkparse"),
        (BLKPARSE, "Q  DS 8192 + 2048 [fstrim]", "Q", "line 13: not an event of blkparse"),
    ],
)
def test_the_message_names_the_faulty_line(sample: Path, valid: str, faulty: str, message: str, tmp_path: Path) -> None:
    text = sample.read_text()
    assert text.count(valid) == 1
    (tmp_path / sample.name).write_text(text.replace(valid, faulty))
    with pytest.raises(twin.TwinError, match=re.escape(message)) as caught:
        list(traces.read_pieces(tmp_path / sample.name))
    assert str(caught.value).startswith(str(tmp_path / sample.name))


def test_decreasing_times_are_refused_unless_a_depth_is_given(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEADER},time_ns\nread,0,4096,0\nread,0,4096,7\nread,0,4096,3\n")
    done = command("replay", "px05smb040", str(path))
    assert done.returncode == 2
    assert f"{path}: request 2: arrives 4 ns before the previous request. Sort the trace by time" in done.stderr
    replayed(path, "--depth", "1")


ISSUED_TEXT = """\
  8,0    0        1     1.000000000   697  D   W 800 + 8 [fio]
  8,0    0        2     1.000000010   697  D   R 1600 + 8 [fio]
  8,0    0        3     1.000000020   697  D  FN [kworker]
  8,0    0        4     1.000000030   697  D   W 2400 + 8 [fio]
  8,0    0        5     1.000000040   697  R   W 2400 + 8 [0]
  8,0    0        6     1.000000050     0  C   R 1600 + 8 [0]
  8,0    0        7     1.000000060     0  C   W 800 + 8 [0]
  8,0    0        8     1.000000070     0  C  FN 0 [0]
  8,0    0        9     1.000000080   697  D   W 2400 + 8 [fio]
  8,0    0       10     1.000000090   697  D   R 3200 + 8 [fio]
  8,0    0       11     1.000000100     0  C   R 3200 + 8 [0]
"""


def test_issued_requests_have_their_completions(tmp_path: Path) -> None:
    path = tmp_path / "issued"
    path.write_text(ISSUED_TEXT)
    assert times_of(path) == [
        (WRITE, 800 * 512, 0, 0, 60),
        (READ, 1600 * 512, 10, 10, 50),
        (FLUSH, 0, 20, 20, 70),
        (WRITE, 2400 * 512, 80, 80, -1),  # requeued once; its completion is missing
        (READ, 3200 * 512, 90, 90, 100),
    ]
    done = command("trace", str(path), str(tmp_path / "converted.parquet"))
    assert (done.returncode, done.stderr) == (
        0,
        "twin: coverage: 5 requests, 1 of these without completion; nothing left out\n",
    )
    coverage = {"represented": {"requests": 5, "of these without completion": 1}, "parts": {"8,0": 5}}
    form_and_times = {"form": "text of blkparse", "requests": 5, "duration_ns": 90}
    assert json.loads(done.stdout) == {**form_and_times, "coverage": coverage}
    assert times_of(tmp_path / "converted.parquet") == times_of(path)


def test_only_blktrace_records_issued_requests_separately(tmp_path: Path) -> None:
    done = command("trace", str(MSR), str(tmp_path / "converted.parquet"), "--issued")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "the format MSR Cambridge does not record issued requests separately" in done.stderr


def test_missing_completions_do_not_accumulate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iopatterns.twin.traces.blktrace._MAX_IN_FLIGHT", 3)
    lines = [f"  8,0 0 {n} 1.{n:09} 697 D W {n * 8} + 8 [fio]\n" for n in range(10)]
    lines += ["  8,0 0 10 1.000000010 0 C W 0 + 8 [0]\n", "  8,0 0 11 1.000000011 0 C W 72 + 8 [0]\n"]
    (tmp_path / "issued").write_text("".join(lines))
    assert [row[4] for row in times_of(tmp_path / "issued")] == [-1] * 9 + [11]


# ---- Binary records of blktrace

# Actions and categories of blktrace_api.h
QUEUED, MERGED, ISSUED, COMPLETED = 1, 2, 7, 8
READS, WRITES, FLUSHES, SYNC, PACKET, NOTE, DISCARDS = (1 << bit for bit in (0, 1, 2, 3, 9, 10, 13))

EVENTS = [  # time_ns, CPU, action, categories, sector, bytes, data after the record
    (0, 0, 0, NOTE, 0, 0, b"kworker\0"),
    (1_000, 0, QUEUED, WRITES | SYNC, 800, 4096, b""),
    (1_500, 1, QUEUED, READS, 1600, 8192, b""),
    (1_700, 0, MERGED, WRITES, 808, 4096, b""),
    (2_000, 1, ISSUED, READS, 1600, 8192, b""),
    (2_500, 0, ISSUED, WRITES | SYNC, 800, 8192, b""),
    (3_000, 0, QUEUED, WRITES | FLUSHES, 0, 0, b""),
    (3_500, 0, ISSUED, FLUSHES, 0, 0, b""),
    (4_000, 1, COMPLETED, READS, 1600, 8192, b""),
    (5_000, 1, COMPLETED, WRITES | SYNC, 800, 8192, b""),
    (6_000, 1, COMPLETED, FLUSHES, 0, 0, b""),
    (7_000, 1, QUEUED, WRITES | DISCARDS, 4096, 2**20, b""),
    (7_500, 1, ISSUED, WRITES | DISCARDS, 4096, 2**20, b""),
    (8_000, 0, ISSUED, READS | PACKET, 0, 36, b"\x12\0\0\0\x24\0"),
    (8_500, 0, COMPLETED, READS | PACKET, 0, 36, b""),
    (9_000, 0, COMPLETED, WRITES | DISCARDS, 4096, 2**20, b""),
]


def write_records(folder: Path, order: str = "<") -> Path:
    """Write `EVENTS` in files per CPU, as blktrace does, with an idle third CPU; return the first file."""
    records: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for number, (time_ns, cpu, action, category, sector, size, extra) in enumerate(EVENTS):
        fields = [0x65617407, number, time_ns, sector, size, action | category << 16, 697, 8 << 20, cpu, 0, len(extra)]
        records[cpu].append(struct.pack(f"{order}IIQQIIIIIHH", *fields) + extra)
    for cpu, each in records.items():
        (folder / f"sda.blktrace.{cpu}").write_bytes(b"".join(each))
    return folder / "sda.blktrace.0"


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_of_all_cpus_are_one_trace_in_both_byte_orders(order: str, tmp_path: Path) -> None:
    path = write_records(tmp_path, order)
    queued = [(WRITE, 800, 4096, 0), (READ, 1600, 8192, 500), (FLUSH, 0, 0, 2000), (DISCARD, 4096, 2**20, 6000)]
    assert rows_of(path) == [(kind, sector * 512, size, time) for kind, sector, size, time in queued]
    assert times_of(path, issued=True) == [
        (READ, 1600 * 512, 0, 0, 2000),
        (WRITE, 800 * 512, 500, 500, 3000),
        (FLUSH, 0, 1500, 1500, 4000),
        (DISCARD, 4096 * 512, 5500, 5500, 7000),
    ]
    assert rows_of(tmp_path / "sda.blktrace.2") == rows_of(path)  # the file of the idle CPU


@pytest.mark.skipif(shutil.which("blkparse") is None, reason="blkparse is not installed (apt-get install blktrace)")
def test_blkparse_prints_the_same_trace_as_its_binary_records(tmp_path: Path) -> None:
    path = write_records(tmp_path)
    done = subprocess.run(["blkparse", "-i", "sda", "-d", "dump"], cwd=tmp_path, capture_output=True, check=True)
    (tmp_path / "text").write_bytes(done.stdout)
    for issued in (False, True):
        expected = times_of(path, issued=issued)
        assert len(expected) == 4
        assert times_of(tmp_path / "text", issued=issued) == expected
        assert times_of(tmp_path / "dump", issued=issued) == expected


# ---- I/O logs of fio


def test_a_log_of_fio_contains_the_requests_that_fio_counts(tmp_path: Path) -> None:
    log = tmp_path / "io.log"
    options = ["--name=a", "--rw=randrw", "--bs=8k", "--size=1m", "--filename={drive}", "--direct=1", "--fsync=16"]
    done = command("run", "px05smb040", "--", "fio", *options, f"--write_iolog={log}", "--output-format=json")
    assert done.returncode == 0, done.stderr
    job = json.loads(done.stdout)["jobs"][0]
    table = pd.concat(list(traces.read_pieces(log)))
    counts = table["operation"].value_counts()
    assert [counts[READ], counts[WRITE]] == [job[name]["total_ios"] for name in ("read", "write")]
    assert counts[FLUSH] == job["sync"]["total_ios"]
    assert set(table.loc[table["operation"] < 2, "size_bytes"]) == {8192}
    assert table["arrival_ns"].is_monotonic_increasing


def test_a_wait_in_a_log_ends_at_a_time_since_its_start(tmp_path: Path) -> None:
    log = tmp_path / "io.log"
    log.write_text(
        "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 2000\nf read 0 4096\nf wait 100\nf trim 0 4096\n"
        "f wait 2001 0\nf datasync 0 0\nf close\n"
    )
    expected = [(READ, 0), (READ, 2 * 10**9), (DISCARD, 2 * 10**9), (FLUSH, 2001 * 10**6)]
    assert [(row[0], row[3]) for row in rows_of(log)] == expected


# ---- Conversion to Parquet

MOMENT = st.none() | st.integers(0, 10**6)
ROWS = st.lists(
    st.tuples(st.sampled_from(list(traces.OPERATIONS)), st.integers(0, 2**40), st.integers(0, 2**20), MOMENT, MOMENT),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, gap_ns=st.integers(0, 10**12), start_ns=st.integers(0, 10**18))
def test_a_converted_trace_has_the_same_requests_and_always_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int, int, int]], gap_ns: int, start_ns: int
) -> None:
    folder = tmp_path_factory.mktemp("form")
    lines, expected = [",".join([*form.REQUEST_COLUMNS, *form.TIME_COLUMNS.values()])], []
    for number, (operation, offset, size, waited, lasted) in enumerate(rows):
        queued = number * gap_ns
        dispatched = None if waited is None else queued + waited
        completed = None if lasted is None else (queued if dispatched is None else dispatched) + lasted
        times = (queued, dispatched, completed)
        moments = ["" if time is None else str(start_ns + time) for time in times]
        lines.append(",".join([operation, str(offset), str(size), *moments]))
        expected.append((traces.OPERATIONS[operation], offset, *(-1 if t is None else t for t in times)))
    given_csv = folder / "given.csv"
    given_csv.write_text("\n".join(lines) + "\n")
    once, twice = folder / "once.parquet", folder / "twice.parquet"
    traces.convert_trace(given_csv, once)
    traces.convert_trace(once, twice)
    assert times_of(given_csv) == times_of(once) == times_of(twice) == expected
    traces.convert_trace(given_csv, twice, overwrite=True)
    assert once.read_bytes() == twice.read_bytes()


def test_converted_traces_have_the_documented_columns(tmp_path: Path) -> None:
    page = (ROOT / "docs/traces.md").read_text(encoding="utf-8")
    columns = re.findall(r"^\| `(\w+)` \| (\w+)", page, flags=re.MULTILINE)
    example = re.search(r"```\n(operation,.*?)```", page, flags=re.DOTALL)
    assert example is not None
    (tmp_path / "a.csv").write_text(example[1])
    traces.convert_trace(tmp_path / "a.csv", tmp_path / "a.parquet")
    schema = pyarrow.parquet.read_schema(tmp_path / "a.parquet")
    assert [(field.name, str(field.type).partition("<")[0]) for field in schema] == columns
    assert schema.metadata == {b"iopatterns.trace": b"1", b"iopatterns.trace.source": b"CSV with a head"}
    for each in (*traces.TRACE_FORMS, *delimited.LAYOUTS):
        assert f"| {each.name} |" in page


@pytest.mark.parametrize(
    ("times", "message"), [("5,4,9", "dispatched_ns is 4, before"), ("5,7,6", "completed_ns is 6, before")]
)
def test_a_request_cannot_complete_before_it_begins(times: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text(f"{HEADER},time_ns,dispatched_ns,completed_ns\nread,0,4096,{times}\n")
    pd.read_csv(path).to_parquet(tmp_path / "trace.parquet")
    for name, place in (("trace.csv", "line 2"), ("trace.parquet", "request 0")):
        with pytest.raises(twin.TwinError, match=f"{place}: {message}"):
            list(traces.read_pieces(tmp_path / name))


def test_faulty_rows_of_parquet_are_skipped_and_counted(tmp_path: Path) -> None:
    table = {"operation": ["rread", "read", None, "write"], "offset_bytes": [0, 4096, 0, -1], "size_bytes": 4096}
    pd.DataFrame(table).to_parquet(tmp_path / "trace.parquet")
    skipped = traces.SkippedLines()
    pieces = list(traces.read_pieces(tmp_path / "trace.parquet", skipped=skipped))
    assert [list(piece["offset_bytes"]) for piece in pieces] == [[4096]]
    assert skipped.count == 3
    assert "request 3: offset_bytes is '-1', not a whole number" in skipped.first[2]


@pytest.mark.parametrize("block_bytes", [100, 300])
def test_a_long_trace_is_read_in_pieces(block_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = pd.concat(list(traces.read_pieces(BLKPARSE)), ignore_index=True)
    monkeypatch.setattr(line_blocks, "BLOCK_BYTES", block_bytes)
    pieces = list(traces.read_pieces(BLKPARSE))
    assert len(pieces) > 1
    pd.testing.assert_frame_equal(pd.concat(pieces, ignore_index=True), complete)


# Runs in a process of its own; prints the largest size of Arrow's memory in bytes
READ_IN_PIECES = """
import sys
from pathlib import Path
import pyarrow
from iopatterns.twin import traces
for _ in traces.read_pieces(Path(sys.argv[1])): pass
print(pyarrow.default_memory_pool().max_memory())
"""


@pytest.mark.slow
@pytest.mark.parametrize("group", [100_000, 10**9], ids=["many row groups", "one row group"])
def test_memory_does_not_grow_with_the_length_of_a_parquet_file(group: int, tmp_path: Path) -> None:
    def memory_bytes(count: int) -> int:
        numbers = np.random.default_rng(1).integers(0, 2**40, count)  # do not compress
        table = pd.DataFrame({"operation": "read", "offset_bytes": numbers, "size_bytes": numbers % 2**20})
        table.to_parquet(tmp_path / "a.parquet", row_group_size=group)
        command = [sys.executable, "-c", READ_IN_PIECES, str(tmp_path / "a.parquet")]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    assert memory_bytes(4_000_000) < 2 * memory_bytes(500_000)
