"""Public block traces: each format gives its requests in bytes and nanoseconds, and what it leaves out is reported."""

import bz2
import gzip
import json
import lzma
import shlex
import struct
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support import ROOT
from twins import command
from typed_pages import shell_blocks, typed

from iopatterns import twin
from iopatterns.twin import traces
from iopatterns.twin.traces import blktrace, delimited, event_tools, iolog, oracle_general
from iopatterns.twin.traces.line_blocks import NotPlainError

READ, WRITE, FLUSH, DISCARD = range(4)
# Format, text, and the requests: operation, offset, size and arrival time
SPC = "0,20941264,8192,W,0.551706,Alpha/NT\n0,20939840,8192,W,0.554041\n0,8,512,R,0.554042,0x1,5.99,test\n"
SPC_ROWS = [(WRITE, 20941264 * 512, 8192, 0), (WRITE, 20939840 * 512, 8192, 2335000), (READ, 4096, 512, 2336000)]
ALIBABA = "0,R,126703661056,4096,1577808000000046\n0,W,19496058880,77824,1577808000000426\n"
ALIBABA_ROWS = [(READ, 126703661056, 4096, 0), (WRITE, 19496058880, 77824, 380000)]
MSR = "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,310378496,4096,96\n"
PUBLIC = [
    ("SPC (UMass)", SPC, SPC_ROWS),
    ("SPC (UMass)", "ASU,LBA,Size,Opcode,Timestamp\n" + SPC, SPC_ROWS),
    ("Alibaba", ALIBABA, ALIBABA_ROWS),
    ("Alibaba", "device_id,opcode,offset,length,timestamp\r\n" + ALIBABA.replace("\n", "\r\n"), ALIBABA_ROWS),
    ("Alibaba", "\ufeffDevice ID,OpCode,Offset,Length,Timestamp\n" + ALIBABA, ALIBABA_ROWS),
    (
        "Alibaba",
        "timestamp,device_id,opcode,offset,length\n46,0,R,4096,512\n47,0,W,0,512\n",
        [(0, 4096, 512, 0), (1, 0, 512, 1000)],
    ),
    ("Alibaba", "dev,op,off,len,ts\n" + ALIBABA, ALIBABA_ROWS),
    ("Alibaba", ALIBABA.replace(",", "\t"), ALIBABA_ROWS),
    ("Alibaba", ALIBABA.lower().replace(",", "; "), ALIBABA_ROWS),
    (
        "Tencent",
        "1538323199,16,8,1,1063\n1538323200,24,72,0,1063\n",
        [(WRITE, 8192, 4096, 0), (READ, 12288, 36864, 10**9)],
    ),
    ("MSR Cambridge", MSR, [(READ, 383496192, 32768, 0), (WRITE, 310378496, 4096, 1332052600)]),
    (
        "SYSTOR 2017",
        "Timestamp,Response,IOType,LUN,Offset,Size\n1455592255.000099000,0.000341000,R,1,8192,4096\n"
        "1455592255.000100000,0.1,W,1,0,4096\n",
        [(READ, 8192, 4096, 0), (WRITE, 0, 4096, 1000)],
    ),
    (
        "MQSim",
        "938513000 4 264719034 16 0\n938828000 4 8 16 1\n",
        [(WRITE, 264719034 * 512, 8192, 0), (READ, 4096, 8192, 315000)],
    ),
    ("DiskSim", "0.5 0 8 16 1\n2.25   0\t16 8 0\n", [(READ, 4096, 8192, 0), (WRITE, 8192, 4096, 1750000)]),
    (
        "FIU",
        "89967404 4892 syslogd 904265560 8 W 6 0 531e\n89967505 4892 cron 8 16 R 6 0 aa bb\n",
        [(WRITE, 904265560 * 512, 4096, 0), (READ, 4096, 8192, 101)],
    ),
]


def rows_of(path: Path, **options: object) -> list[tuple[int, int, int, int]]:
    table: pd.DataFrame = pd.concat(list(traces.read_pieces(path, **options)))  # type: ignore[arg-type]
    return list(table[["operation", "offset_bytes", "size_bytes", "arrival_ns"]].itertuples(index=False, name=None))


def written(folder: Path, content: str | bytes, name: str = "trace") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize(("form", "text", "rows"), PUBLIC)
def test_a_public_trace_has_its_requests_in_bytes_and_nanoseconds(
    form: str, text: str, rows: list[tuple[int, int, int, int]], tmp_path: Path
) -> None:
    path = written(tmp_path, text)
    assert rows_of(path) == rows
    coverage = traces.Coverage()
    done = traces.convert_trace(path, tmp_path / "out.parquet", coverage=coverage)
    assert (done.form, coverage.represented, coverage.is_complete) == (form, {"requests": len(rows)}, True)


@pytest.mark.parametrize(
    "pack", [gzip.compress, bz2.compress, lzma.compress, lambda text: pa.compress(text, "zstd", asbytes=True)]
)
def test_a_compressed_trace_is_read(pack: object, tmp_path: Path) -> None:
    if not callable(pack):
        raise TypeError
    assert rows_of(written(tmp_path, pack(ALIBABA.encode()), "trace.csv.gz")) == ALIBABA_ROWS


def test_a_damaged_compressed_trace_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, gzip.compress((ALIBABA * 10_000).encode())[:-500])
    with pytest.raises(twin.TwinError, match="compressed data are damaged or incomplete"):
        rows_of(path)


def test_an_unknown_response_time_is_an_unknown_completion(tmp_path: Path) -> None:
    lines = [f"145559225{at}.5,{response},R,1,8192,4096" for at, response in enumerate(["0.000341000", "", ""])]
    table = pd.concat(list(traces.read_pieces(written(tmp_path, "\n".join(lines)))))
    assert table["completed_ns"].tolist() == [341_000, traces.UNKNOWN_TIME, traces.UNKNOWN_TIME]


@pytest.mark.parametrize("separator", [",", "\t", ";"])
def test_the_own_csv_may_have_other_separators_and_capitals(separator: str, tmp_path: Path) -> None:
    lines = "Operation,Offset_Bytes,Size_Bytes,Time_ns\nwrite,4096,512,7\n"
    assert rows_of(written(tmp_path, lines.replace(",", separator), "t.csv")) == [(WRITE, 4096, 512, 0)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty. Valid formats: Parquet, "),
        ("\n\n", "the file is blank. Valid formats: Parquet, "),
        ("op,lba,len\nR,5,8\n", "no column 'operation'.* Read another format with --adapter FILE.py:CLASS"),
        ("0,x,5,8,7\n", "line 1: not a trace. Valid formats: Parquet, .* --adapter FILE.py:CLASS"),
        (
            ALIBABA + "0,R,18446744073709551615,512,1577808000000427\n",
            "line 3: offset is '18446744073709551615', not a"
            " whole number of bytes from 0 to 2.62. `twin trace --skip-bad` leaves out faulty lines",
        ),
    ],
)
def test_a_file_that_is_no_trace_is_refused_with_what_to_do(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(twin.TwinError, match=message):
        rows_of(written(tmp_path, text, "t.csv"))


def test_the_message_about_a_trace_without_header_says_what_it_looks_like(tmp_path: Path) -> None:
    done = command("trace", str(written(tmp_path, ALIBABA)), str(tmp_path / "o.parquet"))
    assert (
        "this looks like a block trace of Alibaba: device_id, opcode (R read, W write), offset (bytes)" in done.stderr
    )
    assert "twin: coverage: 2 requests; nothing left out" in done.stderr
    stored = pyarrow.parquet.ParquetFile(tmp_path / "o.parquet").metadata.metadata[b"iopatterns.trace.coverage"]
    assert json.loads(stored) == json.loads(done.stdout)["coverage"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["0", "12", "a b"]),
            st.sampled_from(["R", "W", " R", "X", ""]),
            st.sampled_from(["0", "4096", "4096.0", "-1", "", "99999999999999999999", "1e3", "x"]),
            st.sampled_from(["512", "512.5"]),
            st.sampled_from(["5", "5.25", "", "6.1234567891"]),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from(["Alibaba", "SPC (UMass)"]),
)
def test_a_block_of_lines_is_parsed_as_its_lines_are(rows: list[tuple[str, ...]], name: str) -> None:
    layout = next(each for each in delimited.LAYOUTS if each.name == name)
    order = [0, 1, 2, 3, 4] if name == "Alibaba" else [0, 2, 3, 1, 4]
    lines = [",".join(row[at] for at in order) for row in rows]
    piece = delimited.parse_block("\n".join(lines).encode(), layout)
    if piece is not None:
        expected = [layout.request(layout.split(line)) for line in lines]
        found = piece[["operation", "offset_bytes", "size_bytes", "arrival_ns", "volume"]]
        assert list(found.itertuples(index=False, name=None)) == [(*row[:4], row[6]) for row in expected]


# Parts of lines, from which blocks of plain lines and blocks with odd lines are made
BLKPARSE_LINES = [
    "  8,0    3        1     0.{at:09d}   697  Q  WS 2048 + 8 [fio]",
    "  8,16   0       12     0.{at:09d} 12345  D FWFS 8 + 16 [Web Content 2]",
    "  8,0    0       13     0.{at:09d}     0  C   R 8 + 16 [0]",
    "  8,0    0       14     0.{at:09d}     0  C  FN 18446744073709551615 + 0 [0]",
    "  8,0    0       15     0.{at:09d}     1  Q  FN [jbd2]",
    "  8,0    0       16     0.{at:09d}     1  Q  FWS 8 + 8 [jbd2]",
    "  8,0    0       17     0.{at:09d}     1  D   R 8 + 16 [fio]",
    "  8,0    0       18     0.{at:09d}     1  R   R 8 + 16 [0]",
    "  8,0    0       19     0.{at:09d}     0  m   N cfq1234 insert: Q R 8 + 8",
    "  8,0    0       20     0.{at:09d}     1  A   W 8 + 8 <- (8,1) 0",
    "  8,0    0       21     0.{at:09d}     1  U   N [fio] 3",
    "  8,0    0       22     0.{at:09d}     1  Q   D 64 + 0 [fstrim]",
    "  8,0    0       23     0.{at:09d}     1  D   N 36 (12 01 00 00 24 00 ..) [smartctl]",
    "  8,0    0       24     0.{at:09d}     1  Q   R (12 01 00 00 24 00 ..) [smartctl]",
    "  8,0    0       25     0.{at:09d}     1  Q   W 36028797018963968 + 8 [f]",
    "",
]
PERF_LINES = [
    "  fio  697 [001]     5.{at:09d}: block:block_rq_issue: 8,16 WS 4096 () 8 + 8 none,0,0 [fio]",
    "  Web Content 2 9 [001]  5.{at:09d}:   1 block:block_bio_queue: 8,16 R 8 + 8 [Web Content]",
    "  swapper     0 [006]     5.{at:09d}: block:block_rq_complete: 8,16 WS () 8 + 8 [0]",
    "  swapper     0 [006]     5.{at:09d}: block:block_rq_complete: 8,16 FF () 18446744073709551615 + 0 [0]",
    "  fio  697 [001]     5.{at:09d}: sched:sched_switch: prev_comm=fio",
    "  fio  697 [001]     5.{at:09d}: block:block_plug: [fio]",
    "  fio  697 [001]     5.{at:09d}: block:block_rq_issue: 8,16 FF 0 () 0 + 0 [fio]",
    "  fio  697 [001]     5.{at:09d}: block:block_rq_issue: 8,16 R 4096 () 36028797018963968 + 8 [fio]",
]
BIOSNOOP_LINES = [
    "1.{at:09d}  java           10958  sda     W 8          4096      0.25",
    "1.{at:09d}  Web Content 2  2406   sdb     WS 24        512       0.123456",
    "1.{at:09d}  jbd2           2406           R 24        512       0.01",
    "1.{at:09d}  jbd2           2406   sda     FF 0        0       0.01",
    "1.{at:09d}  kworker/23:1   9126           R 18446744073709551615 0         0.61",
    "1.{at:09d}                 9126   sda     N 8 512         0.61",
]
IOLOG_LINES = [
    "{at} /a read 0 4096",
    "{at} /b  write 4096 512",
    "{at} /a sync 4096 512",
    "{at} /a datasync",
    "{at} /b trim 0 4096",
    "{at} /c add",
    "{at} /c open",
    "{at} /a close",
]


@pytest.mark.parametrize(
    ("parser", "first", "lines"),
    [
        ((blktrace, "_parse_plain"), "  8,0 0 1 0.0 1 D R 8 + 8 [f]", BLKPARSE_LINES),
        ((blktrace, "_parse_plain"), "  8,0 0 1 0.0 1 Q R 8 + 8 [f]", BLKPARSE_LINES),
        ((event_tools, "_parse_plain"), "  f 1 [000] 4.5: block:block_rq_issue: 8,0 R 4096 () 8 + 8 [f]", PERF_LINES),
        ((event_tools, "_parse_plain"), "  f 1 [000] 4.5: block:block_bio_queue: 8,0 R 8 + 8 [f]", PERF_LINES),
        ((event_tools, "_parse_plain_requests"), BIOSNOOP_LINES[0].format(at=0), BIOSNOOP_LINES),
        ((iolog, "_parse_plain"), "fio version 3 iolog", IOLOG_LINES),
    ],
)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_blocks_of_events_are_parsed_as_their_lines_are(
    parser: tuple[ModuleType, str], first: str, lines: list[str], data: st.DataObject, tmp_path: Path
) -> None:
    module, function = parser
    chosen = data.draw(st.lists(st.sampled_from(lines), max_size=12))
    path = written(tmp_path, "\n".join([first, *(line.format(at=at + 1) for at, line in enumerate(chosen))]))

    def read() -> tuple[object, object]:
        coverage = traces.Coverage()
        pieces = list(traces.read_pieces(path, coverage=coverage))
        return pd.concat([pd.DataFrame(), *pieces]).to_dict("list"), coverage.to_dict()

    found = read()
    by_line = {"side_effect": NotPlainError} if module is not iolog else {"return_value": None}
    with mock.patch.object(module, function, **by_line):
        assert read() == found


@pytest.mark.parametrize(
    ("module", "function", "text"),
    [
        (blktrace, "_parse_plain", "\n".join(BLKPARSE_LINES[:12]).format(at=5)),
        (event_tools, "_parse_plain", "\n".join(PERF_LINES[:7]).format(at=5)),
        (event_tools, "_parse_plain_requests", "\n".join(BIOSNOOP_LINES[:4]).format(at=5)),
        (
            iolog,
            "_parse_plain",
            "fio version 3 iolog\n" + "\n".join(IOLOG_LINES).replace("datasync", "sync 0 0").format(at=5),
        ),
    ],
)
def test_plain_lines_of_events_are_not_parsed_one_by_one(
    module: ModuleType, function: str, text: str, tmp_path: Path
) -> None:
    with (
        mock.patch.object(module, "numbered_lines", side_effect=AssertionError),
        mock.patch.object(module, function, wraps=getattr(module, function)) as parse,
    ):
        assert rows_of(written(tmp_path, text + "\n"))
    assert parse.called


BINARY_RECORDS = [struct.Struct(f"{order}IIQQIIIIIHH") for order in "<>"]
# Sector, size, action with its category (1 << 16 + bit of BLK_TC_*), device, and bytes after the record
BINARY = [
    (8, 4096, 1 | 1 << 17, 8 << 20, 0),
    (8, 4096, 7 | 1 << 16, 8 << 20, 0),
    (8, 4096, 8 | 1 << 16, 8 << 20, 0),
    (8, 4096, 7 | 1 << 17 | 1 << 18, 8 << 20 | 16, 0),
    (0, 0, 1 | 1 << 17 | 1 << 18, 8 << 20, 0),
    (64, 4096, 1 | 1 << 29, 8 << 20, 0),
    (8, 4096, 15 | 1 << 16, 8 << 20, 16),
    (0, 36, 7 | 1 << 25, 8 << 20, 3),
    (0, 0, 2 | 1 << 26, 0, 13),
    (8, 4096, 1 | 1 << 8 | 1 << 17, 8 << 20, 8),
    (2**60, 4096, 1 | 1 << 17, 8 << 20, 0),
]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cpus=st.lists(st.lists(st.tuples(st.sampled_from(BINARY), st.integers(0, 3)), max_size=8), max_size=3),
    record=st.sampled_from(BINARY_RECORDS),
)
def test_blocks_of_binary_records_are_parsed_as_their_records_are(
    cpus: list[list[tuple[tuple[int, int, int, int, int], int]]], record: struct.Struct, tmp_path: Path
) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    for cpu, events in enumerate([[(BINARY[0], 1), (BINARY[1], 0)], *cpus]):
        content, time_ns = b"", 5
        for (sector, size, action, device, extra), later in events:
            time_ns += later
            content += record.pack(0x65617407, 1, time_ns, sector, size, action, 697, device, cpu, 0, extra)
            content += b"\x07tae"[:extra].ljust(extra, b"x")
        written(tmp_path, content, f"sda.blktrace.{cpu}")

    def read(*, issued: bool) -> tuple[object, object]:
        coverage = traces.Coverage()
        pieces = list(traces.read_pieces(tmp_path / "sda.blktrace.0", issued=issued, coverage=coverage))
        return pd.concat(pieces).to_dict("list"), coverage.to_dict()

    for issued in (False, True):
        found = read(issued=issued)
        with mock.patch.object(blktrace, "_parse_records", side_effect=NotPlainError):
            assert read(issued=issued) == found


def test_a_faulty_line_among_many_is_named(tmp_path: Path) -> None:
    lines = ["0,R,4096,512,5"] * 400_000
    lines[399_998] = "0,R,4096,many,5"
    path = written(tmp_path, "\n".join(lines))
    with pytest.raises(twin.TwinError, match="line 399999: length is 'many', not a whole number"):
        list(traces.read_pieces(path))
    skipped, coverage = traces.SkippedLines(), traces.Coverage()
    assert sum(map(len, traces.read_pieces(path, skipped=skipped, coverage=coverage))) == 399_999
    assert (skipped.count, coverage.left_out["faulty lines"]) == (1, 1)


# ---- Volumes

DISKS = MSR.replace("hm,1,Write", "hm,0,Write")
IOLOG = "fio version 3 iolog\n1 /a add\n1 /b add\n2 /a read 0 4096\n"
IOLOG += "3 /b read 0 8192\n4 /a read 4096 512\n5 /b write 0 4096\n"


def test_the_files_of_a_log_of_fio_are_placed_one_after_another(tmp_path: Path) -> None:
    coverage = traces.Coverage()
    path = written(tmp_path, IOLOG)
    assert [row[:3] for row in rows_of(path, coverage=coverage)] == [
        (READ, 0, 4096),
        (READ, 8192, 8192),
        (READ, 4096, 512),
        (WRITE, 8192, 4096),
    ]
    assert coverage.parts == {"/a": 2, "/b": 2}
    assert "the 2 volumes are placed one after another, on 16,384 bytes" in coverage.text()
    done = command("replay", "px05smb040", str(path), "--depth", "1")
    assert "the 2 volumes are placed one after another" in done.stderr


def test_a_replay_of_four_files_reads_each_block_once(tmp_path: Path) -> None:
    reads = [(file, block * 4096) for block in range(4) for file in range(4)]
    log = "".join(f"{at} /run/j.0.{file} read {offset} 4096\n" for at, (file, offset) in enumerate(reads, 1))
    apart = "".join(f"read,{file * 2**30 + offset},4096\n" for file, offset in reads)
    paths = [
        written(tmp_path, f"fio version 3 iolog\n{log}", "log"),
        written(tmp_path, f"operation,offset_bytes,size_bytes\n{apart}", "apart.csv"),
    ]
    found = [json.loads(command("replay", "px05smb040", str(path), "--depth", "1").stdout) for path in paths]
    assert found[0] == found[1]
    assert (found[0]["counters"]["read_commands"], found[0]["counters"]["buffer_read_hits"]) == (16, 0)


@pytest.mark.parametrize(
    ("text", "volume", "expected"),
    [
        (IOLOG, "/b", [(READ, 0, 8192, 0), (WRITE, 0, 4096, 2000)]),
        (DISKS, "hm_0", [(WRITE, 310378496, 4096, 0)]),
        ("1,R,4096,512,7\n2,W,0,512,9\n", "2", [(WRITE, 0, 512, 0)]),
        (
            "  8,0 0 1 0.000000001 0 Q W 8 + 8 [f]\n  8,16 0 1 0.000000005 0 Q R 16 + 8 [f]\n",
            "8,16",
            [(READ, 8192, 4096, 0)],
        ),
    ],
)
def test_one_volume_keeps_its_offsets(text: str, volume: str, expected: object, tmp_path: Path) -> None:
    path, coverage = written(tmp_path, text), traces.Coverage()
    assert rows_of(path, volumes=(volume,), coverage=coverage) == expected
    assert coverage.left_out["requests of volumes that were not selected"] > 0
    with pytest.raises(twin.TwinError, match="no requests of a volume 'none'. Volumes of the trace: .*" + volume):
        rows_of(path, volumes=("none",))


def test_requests_of_two_devices_complete_apart(tmp_path: Path) -> None:
    lines = ["8,0 0 1 0.000000000 1 D R 8 + 8 [f]", "8,16 0 2 0.000000010 1 D R 8 + 8 [f]"]
    lines += ["8,16 0 3 0.000000020 1 C R 8 + 8 [0]", "8,0 0 4 0.000000050 1 C R 8 + 8 [0]"]
    table = pd.concat(list(traces.read_pieces(written(tmp_path, "\n".join(lines)))))
    assert table["completed_ns"].tolist() == [50, 20]
    assert table["offset_bytes"].tolist() == [4096, 8192 + 4096]


# ---- Samples


def test_a_sample_has_all_requests_of_its_blocks_and_depends_on_the_seed(tmp_path: Path) -> None:
    blocks = np.random.default_rng(1).integers(0, 5000, 20_000)
    path = written(tmp_path, "".join(f"0,R,{block * 4096},512,{at}\n" for at, block in enumerate(blocks)))
    coverage = traces.Coverage()
    sampled = [row[1] // 4096 for row in rows_of(path, sample=0.1, coverage=coverage)]
    assert 300 < len(set(sampled)) < 700
    assert len(sampled) == int(np.isin(blocks, list(set(sampled))).sum()) == coverage.represented["requests"]
    assert (
        coverage.represented["requests"] + coverage.left_out["requests outside the sample of 0.1 of the blocks"]
        == 20_000
    )
    assert sampled == [row[1] // 4096 for row in rows_of(path, sample=0.1)]
    assert sampled != [row[1] // 4096 for row in rows_of(path, sample=0.1, sample_seed=1)]


# ---- Events of the block layer

BIOSNOOP = """\
TIME(s)     COMM           PID    DISK    T SECTOR     BYTES  LAT(ms)
0.000500    java           10958  sda     W 8          4096      0.25
0.000600    jbd2/sda5-8    1573   sda     R 16         8192      0.50
1.000000    Web Content 2  2406   sda     WS 24        512       0.00
2.000000    kworker/23:1   9126           R 18446744073709551615 0         0.61
"""


def test_biosnoop_gives_the_requests_in_the_order_of_their_issue(tmp_path: Path) -> None:
    coverage = traces.Coverage()
    table = pd.concat(list(traces.read_pieces(written(tmp_path, BIOSNOOP), coverage=coverage)))
    assert table["offset_bytes"].tolist() == [16 * 512, 8 * 512, 24 * 512]
    assert table["arrival_ns"].tolist() == [0, 150_000, 999_900_000]
    assert table["completed_ns"].tolist() == [500_000, 400_000, 999_900_000]
    assert coverage.left_out == {"requests at the impossible sector 18446744073709551615": 1}


def test_biosnoop_with_times_in_the_queue_and_without_header(tmp_path: Path) -> None:
    queued = BIOSNOOP.replace("LAT(ms)", "QUE(ms) LAT(ms)").replace("0.25", "0.10 0.25").splitlines()[:2]
    table = pd.concat(list(traces.read_pieces(written(tmp_path, "\n".join(queued)))))
    assert table["dispatched_ns"].tolist() == [100_000]
    bare = written(tmp_path, "".join(BIOSNOOP.splitlines(keepends=True)[1:]))
    assert len(rows_of(bare)) == 3


def test_the_biosnoop_of_bpftrace_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = written(
        tmp_path, "TIME(ms)     DISK    COMM             PID    LAT(ms)\n611          sda     bash 4179        10\n"
    )
    with pytest.raises(twin.TwinError, match=r"no sectors and sizes, as that of bpftrace's biosnoop\.bt"):
        rows_of(path)


PERF_SCRIPT = """\
             fio 12 [001]     5.000001: block:block_rq_issue: 8,16 W 4096 () 8 + 8 [fio]
         swapper     0 [006]     5.000101: block:block_rq_complete: 8,16 W () 8 + 8 [0]
         swapper     0 [006]     5.000201: block:block_rq_complete: 8,16 FF () 18446744073709551615 + 0 [0]
"""
FTRACE = "# tracer: nop\n  fio-12      [001] d..1.  5.000001: block_rq_issue: 8,16 W 4096 () 8 + 8 none,0,0 [fio]\n"
PERF_TRACE = """\
     0.250 fio/12 block:block_rq_issue(dev: 8388624, sector: 8, nr_sector: 8, bytes: 4096, rwbs: "W", comm: "fio")
     0.350 swapper/0 block:block_rq_complete(dev: 8388624, sector: 8, nr_sector: 8, rwbs: "W", cmd: "")
"""


@pytest.mark.parametrize(("text", "lasted"), [(PERF_SCRIPT, 100_000), (PERF_TRACE, 100_000), (FTRACE, None)])
def test_block_events_of_perf_and_ftrace_are_requests(text: str, lasted: int | None, tmp_path: Path) -> None:
    coverage = traces.Coverage()
    table = pd.concat(list(traces.read_pieces(written(tmp_path, text), coverage=coverage)))
    assert table[["operation", "offset_bytes", "size_bytes", "arrival_ns"]].values.tolist() == [[WRITE, 4096, 4096, 0]]
    assert (table["completed_ns"].tolist() if lasted else None) == ([lasted] if lasted else None)
    assert coverage.parts == {"8,16": 1}


def test_events_that_blktrace_lost_are_reported(tmp_path: Path) -> None:
    lines = ["8,0 0 1 0.000000000 1 Q R 8 + 8 [f]", "CPU0 (sda):", " Reads Queued: 1", "Skips: 1 forward (42 - 80.0%)"]
    coverage = traces.Coverage()
    assert len(rows_of(written(tmp_path, "\n".join(lines)), coverage=coverage)) == 1
    assert coverage.left_out["events that blktrace lost"] == 42


# ---- The commands of docs/traces.md


def test_each_command_of_the_page_converts_its_form(tmp_path: Path) -> None:
    text = {form: text for form, text, _ in PUBLIC}
    files = {
        "mine.csv": REQUESTS,
        "job.iolog": IOLOG,
        "sda.blktrace.0": struct.pack("<IIQQIIIIIHH", 0x65617407, 1, 5, 8, 4096, 1 | 1 << 16, 697, 8 << 20, 0, 0, 0),
        "sda.txt": "8,0 0 1 0.000000000 1 Q R 8 + 8 [f]\n8,0 0 1 0.000000001 1 D R 8 + 8 [f]\n",
        "perf.txt": PERF_SCRIPT,
        "ftrace.txt": FTRACE,
        "biosnoop.txt": BIOSNOOP,
        "hm_1.csv.gz": gzip.compress(MSR.encode()),
        "2016022213-LUN0.csv.gz": gzip.compress(text["SYSTOR 2017"].encode()),
        "Financial1.spc": SPC,
        "io_traces.csv": ALIBABA.replace("0,", "3,", 1) + "4,R,0,512,1577808000000500\n",
        "tencent.csv": "".join(f"1538323199,{8 * block},8,1,1063\n" for block in range(1000)),
        "homes.blkparse": text["FIU"],
        "disksim.trace": text["DiskSim"],
        "tpcc.trace": text["MQSim"],
        "w80.oracleGeneral.zst": pa.compress(
            np.array([(0, 8, 512, -1)], dtype=oracle_general.RECORD).tobytes(), "zstd", asbytes=True
        ),
    }
    for name, content in files.items():
        written(tmp_path, content, name)
    page = (ROOT / "docs/traces.md").read_text(encoding="utf-8").partition("One command line converts each form")[2]
    block = shell_blocks(page)[0]
    typed(tmp_path, block)
    lines = [shlex.split(line, comments=True) for line in block.splitlines()]
    assert {words[2] for words in lines} == {*files, "hm.parquet"}
    for _, _, source, output, *_ in lines:
        assert rows_of(tmp_path / output), source
    assert {"CSV with a head", *(form.name for form in (*traces.TRACE_FORMS[1:], *delimited.LAYOUTS))} == {
        pyarrow.parquet.read_metadata(tmp_path / words[3]).metadata[b"iopatterns.trace.source"].decode()
        for words in lines[:-1]
    }


# ---- Writers

REQUESTS = "operation,offset_bytes,size_bytes,time_ns,dispatched_ns,completed_ns\n" + "".join(
    f"{operation},{offset},{size},{at * 1_000_000},{at * 1_000_000 + 10},{at * 1_000_000 + 3_500_000}\n"
    for at, (operation, offset, size) in enumerate(
        [("write", 4096, 8192), ("read", 4096, 512), ("flush", 0, 0), ("discard", 8192, 4096), ("read", 0, 4096)]
    )
)


@pytest.mark.parametrize(
    "suffix", ["csv", "blkparse", "iolog", "mqsim", "oracleGeneral", "csv.zst", "oracleGeneral.zst"]
)
def test_a_written_trace_is_read_again(suffix: str, tmp_path: Path) -> None:
    path, output = written(tmp_path, REQUESTS, "given.csv"), tmp_path / f"out.{suffix}"
    done = traces.convert_trace(path, output)
    expected = rows_of(path)
    if suffix.startswith("mqsim"):
        expected = [row for row in expected if row[0] in {READ, WRITE}]
    if suffix.startswith("oracle"):
        expected = [(READ, row[1], row[2], 0) for row in expected if row[0] in {READ, WRITE}]
    assert rows_of(output) == expected
    lost = "flushes and discards, which the written format does not have"
    assert done.coverage.left_out[lost] == (2 if len(expected) == 3 else 0)
    if suffix == "blkparse":
        issued = pd.concat(list(traces.read_pieces(output, issued=True)))
        assert issued["completed_ns"].tolist() == [3_500_000 - 10 + at * 1_000_000 for at in range(5)]
    if suffix == "oracleGeneral":
        assert np.fromfile(output, dtype=oracle_general.RECORD)["next"].tolist() == [2, -1, -1]


def test_an_output_without_a_known_format_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, REQUESTS, "given.csv")
    with pytest.raises(twin.TwinError, match=r"must end in \.parquet, \.csv, \.blkparse"):
        traces.convert_trace(path, tmp_path / "out.txt")
    traces.convert_trace(path, tmp_path / "out.txt", to="mqsim")
    assert (tmp_path / "out.txt").read_text().splitlines()[0] == "0 0 8 16 0"


# ---- Adapters

ADAPTER = """
from iopatterns.twin.traces.adapter import BlockAdapter, BlockRequest


class Mine(BlockAdapter):
    def requests(self, line):
        time, disk, operation, block = line.split()
        return [BlockRequest(operation, int(block) * 4096, 4096, int(time), volume=disk)]
"""


def test_an_adapter_class_reads_another_format(tmp_path: Path) -> None:
    adapter = f"{written(tmp_path, ADAPTER, 'mine.py')}:Mine"
    path = written(tmp_path, "5 a read 1\n9 b write 2\n")
    assert rows_of(path, adapter=adapter, volumes=("b",)) == [(WRITE, 8192, 4096, 0)]
    done = command("trace", str(path), str(tmp_path / "o.parquet"), "--adapter", adapter)
    assert json.loads(done.stdout)["form"] == "Mine"
    with pytest.raises(twin.TwinError, match=r"line 1: no operation 'see'"):
        rows_of(written(tmp_path, "5 a see 1\n"), adapter=adapter)
