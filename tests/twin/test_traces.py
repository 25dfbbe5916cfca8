"""Traces: each form gives the same requests, and our own gives them back, byte for byte the same each time."""

import json
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import ROOT
from twins import command

from iopatterns import twin
from iopatterns.twin import traces
from iopatterns.twin.traces import UNKNOWN_TIME, form


def test_csv_parquet_and_fio_logs_give_the_same_replay(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {
            "operation": ["read", "write", "flush", "read"],
            "offset_bytes": [0, 8192, 0, 65536],
            "size_bytes": [4096, 8192, 0, 4096],
            "time_us": [0, 100, 200, 300],
        }
    )
    table.to_csv(tmp_path / "trace.csv", index=False)
    table.to_parquet(tmp_path / "trace.parquet")
    lines = ["fio version 3 iolog", "0 f add", "0 f open", "0 f read 0 4096", "100 f write 8192 8192", "200 f sync 0 0"]
    (tmp_path / "trace.log").write_text("\n".join([*lines, "300 f read 65536 4096", "300 f close"]) + "\n")
    said = [command("replay", "px05smb040", str(tmp_path / f"trace.{kind}")) for kind in ("csv", "parquet", "log")]
    assert [each.returncode for each in said] == [0, 0, 0], said[2].stderr
    assert said[0].stdout == said[1].stdout == said[2].stdout
    assert json.loads(said[0].stdout)["summary"]["requests"] == 4


def test_bad_traces_are_told(tmp_path: Path) -> None:
    bad = {
        "no.csv": ("operation,offset_bytes\nread,0\n", "no column 'size_bytes'"),
        "odd.csv": ("operation,offset_bytes,size_bytes\nraed,0,4096\n", "line 2: no operation 'raed'"),
        "far.csv": (
            "operation,offset_bytes,size_bytes\nread,0,4096\nread,400088457216,4096\n",
            "request 1: 4096 bytes at",
        ),
        "log.log": ("fio version 9 iolog\n", "line 1: not a trace"),
    }
    for name, (text, words) in bad.items():
        (tmp_path / name).write_text(text)
        said = command("replay", "px05smb040", str(tmp_path / name), "--depth", "1")
        assert said.returncode == 2
        assert words in said.stderr
        assert "Traceback" not in said.stderr
    assert "no such file" in command("replay", "px05smb040", str(tmp_path / "none.csv")).stderr


DATA = Path(__file__).parent / "data"


def rows_of(path: Path) -> list[tuple[int, int, int, int]]:
    table = pd.concat(list(traces.read_pieces(path)))
    return list(table[["operation", "offset_bytes", "size_bytes", "arrival_ns"]].itertuples(index=False, name=None))


def test_a_trace_of_msr_cambridge_is_read_as_bytes_and_hundreds_of_nanoseconds(tmp_path: Path) -> None:
    rows = [(0, 383496192, 32768, 0), (1, 310378496, 4096, 1332052600)]
    rows += [(1, 310382592, 8192, 2332061600), (0, 2822144, 16384, 2332061600)]
    assert rows_of(DATA / "msr-cambridge.csv") == rows
    text = (DATA / "msr-cambridge.csv").read_text()
    headed = tmp_path / "headed"  # told by its content, not by its name
    headed.write_text("Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n" + text)
    assert rows_of(headed) == rows
    said = command("replay", "px05smb040", str(DATA / "msr-cambridge.csv"))
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["summary"]["requests"] == 4


def test_a_text_of_blkparse_is_read_as_the_requests_queued(tmp_path: Path) -> None:
    write, read, flush, discard = (traces.OPERATIONS[name] for name in ("write", "read", "flush", "discard"))
    rows = [(write, 223490 * 512, 4096, 0), (read, 4096 * 512, 256 * 512, 301644)]
    rows += [(flush, 0, 0, 500000), (write, 1024 * 512, 8192, 500000), (flush, 0, 0, 700000)]
    rows += [(discard, 8192 * 512, 2048 * 512, 800000)]
    assert rows_of(DATA / "blkparse.txt") == rows
    text = (DATA / "blkparse.txt").read_text()
    (tmp_path / "issued").write_text(
        "\n".join(line for line in text.splitlines() if "  Q" not in line and " Q " not in line)
    )
    assert rows_of(tmp_path / "issued") == [rows[0]]
    said = command("replay", "px05smb040", str(DATA / "blkparse.txt"), "--depth", "1")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["summary"]["requests"] == 6


@pytest.mark.parametrize(
    ("sample", "was", "becomes", "message"),
    [
        (
            "msr-cambridge.csv",
            ",Write,310382592",
            ",Wrote,310382592",
            "line 3: Type is 'Wrote', but must be Read or Write",
        ),
        ("msr-cambridge.csv", ",310382592,", ",31038259x,", "line 3: Offset is '31038259x', no whole number"),
        ("msr-cambridge.csv", "hm,1,Read,2822144", "hm,0,Read,2822144", "line 4: another disk (hm 0) than before"),
        ("msr-cambridge.csv", ",8192,1035", ",8192,1035,7", "line 3: 8 values, but there are 7"),
        (
            "msr-cambridge.csv",
            "128166372016382155,hm,1,Write,310378496,4096,96",
            "",
            "line 2: 1 values, but there are 7",
        ),
        (
            "blkparse.txt",
            "Q  DS 8192 + 2048",
            "Q  DS 8192",
            "line 13: 'DS' needs 'SECTOR + SECTORS', not '8192 [fstrim]'",
        ),
        ("blkparse.txt", "8,0    3       11", "8,16    3       11", "line 13: device 8,16, but 8,0 before"),
        ("blkparse.txt", "  8,0    3        2 ", "what    3        2 ", "line 2: no event of blkparse"),
        ("blkparse.txt", "Q  DS 8192 + 2048 [fstrim]", "Q", "line 13: no event of blkparse"),
    ],
)
def test_a_line_of_a_trace_that_is_none_is_named(
    tmp_path: Path, sample: str, was: str, becomes: str, message: str
) -> None:
    text = (DATA / sample).read_text()
    assert text.count(was) == 1
    (tmp_path / sample).write_text(text.replace(was, becomes))
    with pytest.raises(twin.TwinError, match=re.escape(message)) as told:
        list(traces.read_pieces(tmp_path / sample))
    assert str(told.value).startswith(str(tmp_path / sample))


def test_times_before_zero_and_before_one_another_are_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("operation,offset_bytes,size_bytes,time_ns\nread,0,4096,-5\n")
    said = command("replay", "px05smb040", str(path))
    assert (said.returncode, "line 2: time_ns is '-5', no time from 0" in said.stderr) == (2, True)
    signed = pd.DataFrame({"operation": ["read"], "offset_bytes": [0], "size_bytes": [-4096]})
    signed.to_parquet(tmp_path / "trace.parquet")
    said = command("replay", "px05smb040", str(tmp_path / "trace.parquet"), "--depth", "1")
    assert (said.returncode, "request 0: size_bytes is '-4096', no whole number" in said.stderr) == (2, True)
    path.write_text("operation,offset_bytes,size_bytes,time_ns\nread,0,4096,0\nread,0,4096,7\nread,0,4096,3\n")
    said = command("replay", "px05smb040", str(path))
    assert said.returncode == 2
    assert f"{path}: request 2: arrives 4 ns before the one in front of it. Sort the trace by time" in said.stderr
    assert command("replay", "px05smb040", str(path), "--depth", "1").returncode == 0


def test_what_is_no_trace_is_told_which_forms_there_are(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("bought milk\n")
    said = command("replay", "px05smb040", str(tmp_path / "notes.txt"))
    assert said.returncode == 2
    for part in ("line 1: not a trace", "Parquet", "fio", "MSR Cambridge", "blkparse"):
        assert part in said.stderr


def times_of(path: Path, *, issued: bool = False) -> list[tuple[int, ...]]:
    """Return operation, offset, and the three times of each request; -1 for a time that is not known."""
    table = pd.concat(list(traces.read_pieces(path, issued=issued)))
    for name in form.TIME_COLUMNS:
        table[name] = table[name].where(table[name] != UNKNOWN_TIME, -1) if name in table else -1
    return list(table[["operation", "offset_bytes", *form.TIME_COLUMNS]].itertuples(index=False, name=None))


def test_a_response_time_of_msr_is_when_a_request_was_over() -> None:
    assert [row[4] for row in times_of(DATA / "msr-cambridge.csv")] == [41300, 1332062200, 2332165100, 2332073600]


ISSUED = """\
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


def test_requests_issued_have_their_completions(tmp_path: Path) -> None:
    path = tmp_path / "issued"
    path.write_text(ISSUED)
    read, write, flush = (traces.OPERATIONS[name] for name in ("read", "write", "flush"))
    assert times_of(path) == [
        (write, 800 * 512, 0, 0, 60),
        (read, 1600 * 512, 10, 10, 50),
        (flush, 0, 20, 20, 70),
        (write, 2400 * 512, 80, 80, -1),  # taken back once; its end was lost
        (read, 3200 * 512, 90, 90, 100),
    ]
    done = command("trace", str(path), str(tmp_path / "ours.parquet"))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"form": "text of blkparse", "requests": 5, "duration_ns": 90}
    assert times_of(tmp_path / "ours.parquet") == times_of(path)


def test_requests_issued_are_asked_for_of_blktrace_alone(tmp_path: Path) -> None:
    done = command("trace", str(DATA / "msr-cambridge.csv"), str(tmp_path / "ours.parquet"), "--issued")
    assert (done.returncode, list(tmp_path.iterdir())) == (2, [])
    assert "a trace of the form CSV of MSR Cambridge has no requests issued apart" in done.stderr


def test_completions_that_were_lost_cost_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("iopatterns.twin.traces.blktrace._MOST_IN_FLIGHT", 3)
    path = tmp_path / "issued"
    lines = [f"  8,0 0 {n} 1.{n:09} 697 D W {n * 8} + 8 [fio]\n" for n in range(10)]
    path.write_text(
        "".join([*lines, "  8,0 0 10 1.000000010 0 C W 0 + 8 [0]\n  8,0 0 11 1.000000011 0 C W 72 + 8 [0]\n"])
    )
    assert [row[4] for row in times_of(path)] == [-1] * 9 + [11]


# ---- blktrace's binary records

# Action, categories (blktrace_api.h): write, read, flush in front, discard, packet, note
QUEUED, REQUEUED, ISSUED_TO, COMPLETED, MERGED = 1, 6, 7, 8, 2
READ, WRITE, FLUSH, SYNC, PACKET, NOTE, DISCARD = (1 << bit for bit in (0, 1, 2, 3, 9, 10, 13))

EVENTS = [  # time_ns, CPU, action, categories, sector, bytes, what follows the record
    (0, 0, 0, NOTE, 0, 0, b"kworker\0"),
    (1_000, 0, QUEUED, WRITE | SYNC, 800, 4096, b""),
    (1_500, 1, QUEUED, READ, 1600, 8192, b""),
    (1_700, 0, MERGED, WRITE, 808, 4096, b""),
    (2_000, 1, ISSUED_TO, READ, 1600, 8192, b""),
    (2_500, 0, ISSUED_TO, WRITE | SYNC, 800, 8192, b""),
    (3_000, 0, QUEUED, WRITE | FLUSH, 0, 0, b""),
    (3_500, 0, ISSUED_TO, FLUSH, 0, 0, b""),
    (4_000, 1, COMPLETED, READ, 1600, 8192, b""),
    (5_000, 1, COMPLETED, WRITE | SYNC, 800, 8192, b""),
    (6_000, 1, COMPLETED, FLUSH, 0, 0, b""),
    (7_000, 1, QUEUED, WRITE | DISCARD, 4096, 2**20, b""),
    (7_500, 1, ISSUED_TO, WRITE | DISCARD, 4096, 2**20, b""),
    (8_000, 0, ISSUED_TO, READ | PACKET, 0, 36, b"\x12\0\0\0\x24\0"),
    (8_500, 0, COMPLETED, READ | PACKET, 0, 36, b""),
    (9_000, 0, COMPLETED, WRITE | DISCARD, 4096, 2**20, b""),
]


def write_records(folder: Path, order: str = "<", name: str = "sda") -> Path:
    """Write `EVENTS` as blktrace does, a file a CPU, one of which had none; return that of the first."""
    records: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    for number, (time_ns, cpu, action, category, sector, size, extra) in enumerate(EVENTS):
        fields = [0x65617407, number, time_ns, sector, size, action | category << 16, 697, 8 << 20, cpu, 0, len(extra)]
        records[cpu].append(struct.pack(f"{order}IIQQIIIIIHH", *fields) + extra)
    for cpu, each in records.items():
        (folder / f"{name}.blktrace.{cpu}").write_bytes(b"".join(each))
    return folder / f"{name}.blktrace.0"


@pytest.mark.parametrize("order", ["<", ">"])
def test_records_of_blktrace_are_read_as_those_of_all_cpus(order: str, tmp_path: Path) -> None:
    path = write_records(tmp_path, order)
    read, write, flush, discard = (traces.OPERATIONS[name] for name in ("read", "write", "flush", "discard"))
    queued = [(write, 800, 4096, 0), (read, 1600, 8192, 500), (flush, 0, 0, 2000), (discard, 4096, 2**20, 6000)]
    assert rows_of(path) == [(kind, sector * 512, size, time) for kind, sector, size, time in queued]
    assert times_of(path, issued=True) == [
        (read, 1600 * 512, 0, 0, 2000),
        (write, 800 * 512, 500, 500, 3000),
        (flush, 0, 1500, 1500, 4000),
        (discard, 4096 * 512, 5500, 5500, 7000),
    ]
    assert rows_of(tmp_path / "sda.blktrace.2") == rows_of(path)  # of a CPU that had no event


def test_records_and_blkparse_s_text_of_them_are_the_same_trace(tmp_path: Path) -> None:
    if shutil.which("blkparse") is None:
        pytest.skip("blkparse is not installed (apt-get install blktrace)")
    path = write_records(tmp_path)
    parsed = ["blkparse", "-i", "sda", "-d", "dump"]
    said = subprocess.run(parsed, cwd=tmp_path, capture_output=True, text=True, check=True)
    (tmp_path / "text").write_text(said.stdout)
    for issued in (False, True):
        once = times_of(path, issued=issued)
        assert len(once) == 4
        assert times_of(tmp_path / "text", issued=issued) == once
        assert times_of(tmp_path / "dump", issued=issued) == once


# ---- fio's logs


def test_the_log_that_fio_writes_has_the_requests_that_fio_made(tmp_path: Path) -> None:
    log = tmp_path / "io.log"
    options = ["--name=a", "--rw=randrw", "--bs=8k", "--size=1m", "--filename={drive}", "--direct=1", "--fsync=16"]
    said = command("run", "px05smb040", "--", "fio", *options, f"--write_iolog={log}", "--output-format=json")
    assert said.returncode == 0, said.stderr
    job = json.loads(said.stdout)["jobs"][0]
    table = pd.concat(list(traces.read_pieces(log)))
    counts = table["operation"].value_counts()
    for name in ("read", "write"):
        assert counts[traces.OPERATIONS[name]] == job[name]["total_ios"]
    assert counts[traces.OPERATIONS["flush"]] == job["sync"]["total_ios"]
    assert set(table.loc[table["operation"] < 2, "size_bytes"]) == {8192}
    assert table["arrival_ns"].is_monotonic_increasing


def test_a_wait_of_a_log_lasts_until_so_many_milliseconds_after_the_log_began(tmp_path: Path) -> None:
    log = tmp_path / "io.log"
    log.write_text(
        "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 2000\nf read 0 4096\nf wait 100\nf trim 0 4096\n"
        "f wait 2001 0\nf datasync 0 0\nf close\n"
    )
    assert [(row[0], row[3]) for row in rows_of(log)] == [(0, 0), (0, 2 * 10**9), (3, 2 * 10**9), (2, 2001 * 10**6)]


# ---- Our own form

MOMENT = st.none() | st.integers(0, 10**6)
ROWS = st.lists(
    st.tuples(st.sampled_from(list(traces.OPERATIONS)), st.integers(0, 2**40), st.integers(0, 2**20), MOMENT, MOMENT),
    min_size=1,
    max_size=40,
)


@settings(max_examples=40, deadline=None)
@given(rows=ROWS, gap_ns=st.integers(0, 10**12), start_ns=st.integers(0, 10**18))
def test_a_trace_comes_back_as_it_was_from_csv_and_parquet(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, int, int, int, int]], gap_ns: int, start_ns: int
) -> None:
    folder = tmp_path_factory.mktemp("form")
    lines, expected = [",".join([*form.REQUEST_COLUMNS, *form.TIME_COLUMNS.values()])], []
    for number, (operation, offset, size, waited, lasted) in enumerate(rows):
        queued = number * gap_ns
        dispatched = None if waited is None else queued + waited
        completed = None if lasted is None else (queued if dispatched is None else dispatched) + lasted
        moments = [None if time is None else start_ns + time for time in (queued, dispatched, completed)]
        lines.append(",".join([operation, str(offset), str(size), *("" if t is None else str(t) for t in moments)]))
        known = [-1 if time is None else time for time in (queued, dispatched, completed)]
        expected.append((traces.OPERATIONS[operation], offset, *known))
    given_csv = folder / "given.csv"
    given_csv.write_text("\n".join(lines) + "\n")
    once, twice = folder / "once.parquet", folder / "twice.parquet"
    traces.convert_trace(given_csv, once)
    traces.convert_trace(once, twice)
    assert times_of(given_csv) == times_of(once) == times_of(twice) == expected
    traces.convert_trace(given_csv, twice)
    assert once.read_bytes() == twice.read_bytes()


def test_a_trace_has_the_form_that_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs/traces.md").read_text(encoding="utf-8")
    columns = re.findall(r"^\| `(\w+)` \| (\w+)", page, flags=re.MULTILINE)
    example = re.search(r"```\n(operation,.*?)```", page, flags=re.DOTALL)
    assert example is not None
    (tmp_path / "a.csv").write_text(example[1])
    traces.convert_trace(tmp_path / "a.csv", tmp_path / "a.parquet")
    with pyarrow.parquet.ParquetFile(tmp_path / "a.parquet") as file:
        schema = file.schema_arrow
    assert [(field.name, str(field.type).partition("<")[0]) for field in schema] == columns
    assert schema.metadata == {b"iopatterns.trace": b"1", b"iopatterns.trace.source": b"CSV with a head"}
    for each in traces.TRACE_FORMS:
        assert f"| {each.name} |" in page


def test_a_request_cannot_end_before_it_begins(tmp_path: Path) -> None:
    head = "operation,offset_bytes,size_bytes,time_ns,dispatched_ns,completed_ns\n"
    for row, says in (("5,4,9", "dispatched_ns is 4, before"), ("5,7,6", "completed_ns is 6, before")):
        path = tmp_path / "trace.csv"
        path.write_text(f"{head}read,0,4096,{row}\n")
        with pytest.raises(twin.TwinError, match=f"line 2: {says}"):
            list(traces.read_pieces(path))
        pd.read_csv(path).to_parquet(tmp_path / "trace.parquet")
        with pytest.raises(twin.TwinError, match=f"request 0: {says}"):
            list(traces.read_pieces(tmp_path / "trace.parquet"))


def test_faulty_rows_of_parquet_are_left_out_and_counted(tmp_path: Path) -> None:
    table = pd.DataFrame(
        {"operation": ["rread", "read", None, "write"], "offset_bytes": [0, 4096, 0, -1], "size_bytes": 4096}
    )
    table.to_parquet(tmp_path / "trace.parquet")
    skipped = traces.SkippedLines()
    pieces = list(traces.read_pieces(tmp_path / "trace.parquet", skipped=skipped))
    assert [list(piece["offset_bytes"]) for piece in pieces] == [[4096]]
    assert skipped.count == 3
    assert "request 3: offset_bytes is '-1'" in skipped.first[2]


def test_a_long_trace_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(form, "PIECE_REQUESTS", 2)
    assert [len(piece) for piece in traces.read_pieces(DATA / "blkparse.txt")] == [2, 2, 2]
    first = [piece["arrival_ns"].iloc[0] for piece in traces.read_pieces(DATA / "blkparse.txt")]
    assert first == [0, 500000, 700000]
