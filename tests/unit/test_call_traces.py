"""Traces of system calls: each format gives the calls with their offsets, and messages name faulty lines."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns import calls
from iopatterns.base.errors import OutputError
from iopatterns.calls import form, parquet, stand_ins, strace
from iopatterns.calls.form import UNKNOWN, Call, CallsError
from iopatterns.calls.positions import EXECUTE, EXIT, FORK, Event, PositionTracker

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed (apt-get install strace)")


def followed(*events: Event) -> list[tuple[int, str, str, int, int]]:
    """Return process, call, file, offset and size of the calls that events give."""
    return [(each.process, each.call, *each[3:6]) for each in PositionTracker().follow(events)]


def opened(file: str = "/f", at: int = 3, process: int = 1, *flags: str) -> Event:
    return Event(process, 0, "openat", file=file, result=at, flags=frozenset(flags))


# ---- Positions


@pytest.mark.parametrize("name", ["read", "readv", "write", "writev", "iread", "iwrite"])
def test_reads_and_writes_advance_the_position(name: str) -> None:
    made = followed(opened(), *(Event(1, 0, name, 3, size_bytes=size, result=9) for size in (10, 20)))
    assert made[1:] == [(1, name, "/f", 0, 10), (1, name, "/f", 10, 20)]


@pytest.mark.parametrize("name", ["pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2"])
def test_reads_and_writes_with_an_offset_keep_the_position(name: str) -> None:
    made = followed(opened(), Event(1, 0, name, 3, size_bytes=5, offset_bytes=70), Event(1, 0, "read", 3, size_bytes=1))
    assert made[1:] == [(1, name, "/f", 70, 5), (1, "read", "/f", 0, 1)]


@pytest.mark.parametrize("name", ["lseek", "_llseek", "lseek64"])
def test_a_seek_sets_the_position_by_its_result_or_its_arguments(name: str) -> None:
    read = Event(1, 0, "read", 3, size_bytes=10)
    by_result = Event(1, 0, name, 3, result=500, offset_bytes=0, whence="SEEK_END")
    assert followed(opened(), by_result, read)[1:] == [(1, name, "/f", 500, 0), (1, "read", "/f", 500, 10)]
    seeks = [
        Event(1, 0, name, 3, offset_bytes=at, whence=whence) for whence, at in (("SEEK_SET", 40), ("SEEK_CUR", -5))
    ]
    assert [each[3] for each in followed(opened(), *seeks, read)[1:]] == [40, 35, 35]
    wrote = Event(1, 0, "write", 3, size_bytes=100)
    assert followed(opened(), wrote, Event(1, 0, name, 3, offset_bytes=-1, whence="SEEK_END"))[-1][3] == 99


@pytest.mark.parametrize("name", ["open", "openat", "creat"])
def test_an_open_begins_at_offset_0_and_a_close_ends_the_descriptor(name: str) -> None:
    first = Event(1, 0, name, file="/f", result=3)
    write = Event(1, 0, "write", 3, size_bytes=4)
    made = followed(first, write, Event(1, 0, "close", 3), write, first, write)
    assert [each[1] for each in made] == [name, "write", "close", name, "write"]
    assert made[-1][3] == 0


@pytest.mark.parametrize("name", ["fsync", "fdatasync"])
def test_syncs_have_their_file(name: str) -> None:
    assert followed(opened(), Event(1, 0, name, 3))[1:] == [(1, name, "/f", UNKNOWN, 0)]


def test_appends_continue_at_the_new_size_after_a_truncation() -> None:
    cut = Event(1, 0, "ftruncate", 3, offset_bytes=7)
    write = Event(1, 0, "write", 3, size_bytes=20)
    made = followed(opened("/f", 3, 1, "O_APPEND"), write, cut, write)
    assert made[1:] == [(1, "write", "/f", 0, 20), (1, "ftruncate", "/f", 7, 0), (1, "write", "/f", 7, 20)]


def test_an_iowait_has_the_file_of_its_iread() -> None:
    events = [Event(1, 0, "iread", 3, size_bytes=5, result=77), Event(1, 0, "close", 3), Event(1, 0, "iowait", 77)]
    made = followed(opened(), *events, Event(1, 0, "iowait", 77))[1:]
    assert [each[1:4] for each in made] == [("iread", "/f", 0), ("close", "/f", UNKNOWN), ("iowait", "/f", UNKNOWN)]


@pytest.mark.parametrize("name", ["dup", "dup2", "dup3"])
def test_duplicated_descriptors_share_a_position(name: str) -> None:
    events = [Event(1, 0, name, 3, result=8)]
    events += [Event(1, 0, "write", at, size_bytes=10) for at in (3, 8)]
    events += [Event(1, 0, "close", 3), Event(1, 0, "write", 8, size_bytes=1), Event(1, 0, "write", 3, size_bytes=1)]
    writes = [each for each in followed(opened(), *events) if each[1] == "write"]
    assert [each[3] for each in writes] == [0, 10, 20]


def test_a_child_shares_positions_but_not_descriptors() -> None:
    write = [Event(process, 0, "write", 3, size_bytes=10) for process in (1, 2)]
    fork = Event(1, 0, FORK, result=2)
    made = followed(opened(), write[0], fork, write[1], Event(2, 0, "close", 3), write[1], write[0])
    assert [(each[0], each[3]) for each in made if each[1] == "write"] == [(1, 0), (2, 10), (1, 20)]


def test_threads_share_descriptors() -> None:
    fork = Event(1, 0, FORK, result=2, flags=frozenset({"CLONE_FILES"}))
    made = followed(
        fork, opened("/f", 3, 2), Event(1, 0, "read", 3, size_bytes=1), Event(2, 0, EXIT), Event(1, 0, "close", 3)
    )
    assert [each[:2] for each in made] == [(2, "openat"), (1, "read"), (1, "close")]


def test_execve_closes_descriptors_with_close_on_exec() -> None:
    events = [opened("/a", 3, 1, "O_CLOEXEC"), opened("/b", 4), Event(1, 0, EXECUTE)]
    events += [Event(1, 0, "read", at, size_bytes=1) for at in (3, 4)]
    assert [each[2] for each in followed(*events)[2:]] == ["/b"]


def test_calls_without_a_file_are_left_out_and_counted() -> None:
    positions = PositionTracker()
    events = [Event(1, 0, "read", 0, size_bytes=1), Event(1, 0, "close", 9), opened("/dev/null", 5)]
    events += [Event(1, 0, "write", 5, size_bytes=1), Event(1, 0, "write", 6, file="pipe:[7]", size_bytes=1)]
    assert list(positions.follow(events)) == []
    assert positions.left_out == 2


def test_strace_y_gives_the_file_of_a_descriptor_opened_before_the_trace() -> None:
    read = Event(1, 0, "read", 3, "/old", size_bytes=4)
    pread = Event(1, 0, "pread64", 3, "/old", size_bytes=4, offset_bytes=9)
    made = followed(read, pread, Event(1, 0, "lseek", 3, "/old", result=50), read)
    assert made == [(1, "pread64", "/old", 9, 4), (1, "lseek", "/old", 50, 0), (1, "read", "/old", 50, 4)]


@given(st.lists(st.tuples(st.sampled_from(["read", "write", "lseek", "dup"]), st.integers(3, 5), st.integers(0, 50))))
def test_positions_equal_those_of_the_kernel(steps: list[tuple[str, int, int]]) -> None:
    events, expected = [opened("/f", 3)], []
    with open(os.memfd_create("f"), "w+b", buffering=0) as file:
        real = {3: file.fileno()}
        for name, at, number in steps:
            if at not in real:
                continue
            if name == "dup":
                new = 3 + number % 3
                if new not in real:
                    real[new] = os.dup(real[at])
                    events.append(Event(1, 0, name, at, result=new))
                continue
            if name == "lseek":
                os.lseek(real[at], number, os.SEEK_SET)
                events.append(Event(1, 0, name, at, offset_bytes=number))
            else:
                before = os.lseek(real[at], 0, os.SEEK_CUR)
                moved = len(os.read(real[at], number)) if name == "read" else os.write(real[at], b"x" * number)
                events.append(Event(1, 0, name, at, size_bytes=moved))
                expected.append((name, before, moved))
        for descriptor in set(real.values()) - {file.fileno()}:
            os.close(descriptor)
    assert [each[1::2][:1] + each[3:] for each in followed(*events) if each[1] in {"read", "write"}] == expected


# ---- strace

_PROGRAM = """
import os
f = os.open('a b"\\u00fc.dat', os.O_CREAT | os.O_RDWR | os.O_TRUNC)
os.write(f, b'x' * 1000)
os.write(f, b') = 5 <0.1>\\n"' * 10)
os.lseek(f, 0, 0)
os.read(f, 100)
os.pwrite(f, b'abc', 5000)
os.pread(f, 50, 3)
os.writev(f, [b'ab', b'cd'])
os.preadv(f, [bytearray(10), bytearray(7)], 20)
os.pwritev(f, [b'1', b'2'], 30)
g = os.dup(f)
os.write(g, b'zz')
os.write(f, b'yy')
os.ftruncate(f, 3000)
os.fsync(f)
os.fdatasync(f)
log = os.open('log', os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_TRUNC)
if os.fork() == 0:
    os.write(log, b'child')
    os.lseek(f, 77, 0)
    os.write(f, b'c')
    os._exit(0)
os.wait()
os.write(log, b'parent')
os.write(f, b'after')
try:
    os.read(99, 1)
except OSError:
    pass
os.close(f)
os.close(g)
"""
# fmt: off
_MADE = [
    ("openat", UNKNOWN, 0), ("write", 0, 1000), ("write", 1000, 130), ("lseek", 0, 0), ("read", 0, 100),
    ("pwrite64", 5000, 3), ("pread64", 3, 50), ("writev", 100, 4), ("preadv", 20, 17), ("pwritev", 30, 2),
    ("dup", UNKNOWN, 0), ("write", 104, 2), ("write", 106, 2), ("ftruncate", 3000, 0), ("fsync", UNKNOWN, 0),
    ("fdatasync", UNKNOWN, 0), ("openat", UNKNOWN, 0), ("write", 0, 5), ("lseek", 77, 0), ("write", 77, 1),
    ("write", 5, 6), ("write", 78, 5), ("close", UNKNOWN, 0), ("close", UNKNOWN, 0),
]
# fmt: on


@needs_strace
@pytest.mark.parametrize("options", [["-f"], ["-f", "-y"], ["-ff"], ["-f", "-s", "2000", "-x"]])
def test_strace_of_a_program_gives_its_calls(options: list[str], tmp_path: Path) -> None:
    program = [sys.executable, "-S", "-c", _PROGRAM]
    command = ["strace", *options, "-ttt", "-T", "-o", "trace", *program]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    files = sorted(tmp_path.glob("trace*"))
    table = calls.open_trace(files).table()
    mine = table[table["file"].str.contains(r'a b"ü\.dat$|log$')]
    plain = mine["call"].astype(str).str.replace("v2", "v", regex=False)  # the C library calls preadv2 for preadv
    assert list(zip(plain, mine["offset_bytes"], mine["size_bytes"], strict=True)) == _MADE
    assert mine["process"].nunique() == 2
    assert (mine["duration_ns"] > 0).all()
    assert mine["time_ns"].is_monotonic_increasing
    assert 0 <= table["time_ns"].iloc[0] < 10**9


@needs_strace
def test_calls_that_strace_prints_in_two_parts_are_joined(tmp_path: Path) -> None:
    # threads also make calls before strace prints the end of the clone that created them
    program = """
import os, threading
f = os.open('f', os.O_CREAT | os.O_RDWR)
def many(first):
    for at in range(100):
        os.pwrite(f, b'x' * 10, 10 * (first + 4 * at))
        os.fsync(f)
threads = [threading.Thread(target=many, args=(first,)) for first in range(4)]
for each in threads: each.start()
for each in threads: each.join()
"""
    command = ["strace", "-f", "-ttt", "-T", "-o", "trace", sys.executable, "-S", "-c", program]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    assert "<unfinished ...>" in (tmp_path / "trace").read_text()
    table = calls.open_trace([tmp_path / "trace"]).table()
    writes = table[table["call"] == "pwrite64"]
    assert sorted(writes["offset_bytes"]) == list(range(0, 4000, 10))
    assert writes["process"].nunique() == 4
    assert (table["call"] == "fsync").sum() == 400


def read_text(tmp_path: Path, text: str, *, skip: bool = False) -> tuple[pd.DataFrame, calls.Trace]:
    (tmp_path / "t.txt").write_text(text)
    skipped = calls.SkippedLines() if skip else None
    trace = calls.open_trace([tmp_path / "t.txt"], skipped=skipped)
    return trace.table(), trace


def made_of(table: pd.DataFrame) -> list[tuple[str, int, int]]:
    return list(zip(table["call"].astype(str), table["offset_bytes"], table["size_bytes"], strict=True))


def test_rare_lines_of_strace_are_read(tmp_path: Path) -> None:
    text = """strace: Process 7 attached
7 1000.000001 open("f", O_RDWR|O_CREAT, 0666) = 3 <0.000010>
7 1000.100000 _llseek(3, 4294967296, [4294967296], SEEK_SET) = 0 <0.000001>
7 1000.200000 read(3,  <unfinished ...>
7 1000.300000 --- SIGALRM {si_signo=SIGALRM, si_code=SI_KERNEL} ---
7 1000.400000 <... read resumed>"abc"..., 512) = 512 <0.200000>
7 1000.500000 read(3, 0x7ffc, 512) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.000001>
7 1000.600000 write(3, "a, b) = 7 <0.1>", 15) = -1 ENOSPC (No space left on device) <0.000001>
7 1000.700000 fcntl(3, F_DUPFD_CLOEXEC, 10) = 10 <0.000001>
7 1000.800000 write(10, "\\"\\n\\1) = 4", 9) = 9
7 1000.900000 creat("\\303\\274\\x41", 0644) = 4 <0.000001>
7 1001.000000 close_range(3, 9, 0) = 0 <0.000001>
7 1001.100000 write(3, "", 1) = 1 <0.000001>
7 1001.200000 readv(10, [{iov_base="a,b", iov_len=3}, {iov_base="", iov_len=0}], 2) = 3 <0.000001>
7 1001.300000 mmap(NULL, 10, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7f0000000000 <0.000001>
7 1001.400000 exit_group(0) = ?
7 1001.500000 +++ exited with 0 +++
"""
    table, trace = read_text(tmp_path, text)
    assert made_of(table) == [
        ("open", UNKNOWN, 0),
        ("_llseek", 2**32, 0),
        ("read", 2**32, 512),
        ("dup", UNKNOWN, 0),
        ("write", 2**32 + 512, 9),
        ("creat", UNKNOWN, 0),
        ("readv", 2**32 + 521, 3),
    ]
    assert list(table["file"].unique()) == ["f", "üA"]
    assert table["time_ns"].iloc[2] == 199_999_000
    assert table["duration_ns"].tolist()[2:5] == [200_000_000, 1000, UNKNOWN]
    assert trace.coverage.left_out["reads and writes without a known file, such as on pipes"] == 1
    assert trace.coverage.left_out["mmap not followed"] == 1


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("7 1000.2 read(3, 99", "no result after the call of 'read'"),
        ("7 1000.2 read(x, 99) = 9", "not a descriptor: 'x, 99'"),
        ("7 1000.2 <... read resumed>99) = 9", "'read' is resumed, but its start is missing"),
        ("7 1000.2 pread64(3, 9, 9, here) = 9", "'here' is not a number"),
        ("7 1000.2 openat(AT_FDCWD, f) = 9", "'openat' has no file name"),
        ("7 1000.2 read(3, 9) = 99999999999999999999", "not a number of bytes"),
        ("7 1000.2 ftruncate(3, -1) = 0", "not a number of bytes"),
        ("something else", "not a line of strace: 'something else'"),
        ("7 1000.2 ???", "not a call: '???'"),
    ],
)
def test_a_faulty_line_is_reported_and_nothing_is_written(line: str, problem: str, tmp_path: Path) -> None:
    begin, end = '7 1000.1 open("f", O_RDONLY) = 3\n', "\n7 1000.3 read(3, 9) = 9\n"
    trace = tmp_path / "t.txt"
    trace.write_text(begin + line + end)
    with pytest.raises(CallsError, match=f"t.txt, line 2: .*{re.escape(problem)}"):
        calls.convert_calls(calls.open_trace([trace]), tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]
    table, read = read_text(tmp_path, begin + line + end, skip=True)
    assert made_of(table) == [("open", UNKNOWN, 0), ("read", 0, 9)]
    assert read.coverage.left_out["faulty lines"] == 1


@given(st.text(max_size=300))
def test_any_text_gives_an_event_or_a_message(text: str) -> None:
    try:
        events = strace.parse_call(1, 0, "pread64", text)
    except ValueError:
        return
    assert all(event.size_bytes >= 0 for event in events)


@given(st.binary(max_size=60))
def test_file_names_escaped_by_strace_are_restored(name: bytes) -> None:
    plain = {10: "\\n", 9: "\\t", 34: '\\"', 92: "\\\\"}
    shown = "".join(plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in name)
    (event,) = strace.parse_call(1, 0, "openat", f'AT_FDCWD, "{shown}", O_RDONLY) = 3')
    assert event.file == name.decode(errors="backslashreplace")


# ---- Darshan


def example(*parts: str) -> Path:
    import darshan

    return Path(darshan.__file__).parent.joinpath("examples", "example_logs", *parts)


def test_a_log_of_pydarshan_gives_its_accesses() -> None:
    table = calls.open_trace([example("ior_hdf5_example.darshan")]).table()
    assert set(table["process"]) == {0, 1, 2, 3}
    assert table["call"].value_counts().loc[["pread64", "pwrite64"]].tolist() == [36, 23]
    first = table[(table["process"] == 0) & (table["call"] == "pwrite64")].head(3)
    assert first["offset_bytes"].tolist() == [2048, 264192, 526336]
    assert first["size_bytes"].tolist() == [262144] * 3
    assert table["file"].unique().tolist() == ["/global/cscratch1/sd/ssnyder/test123.h5"]
    assert table["time_ns"].is_monotonic_increasing


def test_damaged_logs_of_darshan_give_a_message_although_the_library_crashes(tmp_path: Path) -> None:
    whole = example("dxt.darshan").read_bytes()
    for size in (3000, 90_000):
        log = tmp_path / "cut.darshan"
        log.write_bytes(whole[:size])
        with pytest.raises(CallsError, match=r"cut.darshan: not readable as a log of Darshan: "):
            calls.convert_calls(calls.open_trace([log]), tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_the_message_about_a_log_without_dxt_records_shows_how_to_record_them() -> None:
    with pytest.raises(CallsError, match="DXT_ENABLE_IO_TRACE"):
        calls.open_trace([example("example.darshan")]).table()


# ---- Logs of fio


def test_a_log_of_fio_gives_its_calls(tmp_path: Path) -> None:
    options = ["--name=job", "--rw=randrw", "--bs=4k", "--size=256k", "--fsync=8", "--ioengine=psync"]
    options.append("--write_iolog=log")
    done = subprocess.run(["fio", *options], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120)
    issued = re.search(r"issued rwts: total=(\d+),(\d+)", done.stdout)
    assert issued is not None
    table = calls.open_trace([tmp_path / "log"]).table()
    counts = table["call"].value_counts()
    assert (counts["pread64"], counts["pwrite64"]) == (int(issued[1]), int(issued[2]))
    assert counts["fsync"] > 0
    assert sorted(table.loc[table["size_bytes"] > 0, "offset_bytes"]) == list(range(0, 256 * 1024, 4096))


def test_logs_of_a_stand_in_are_recognized(tmp_path: Path) -> None:
    from iopatterns.calls import replaying

    logs = replaying.to_iologs(stand_ins.stand_in("Sandia-cth"), tmp_path, processes=[0, 1], within="/mnt/x/")
    trace = calls.open_trace(list(logs.logs.values()))
    assert trace.label == "Sandia-cth.00 (stand-in)"
    assert trace.table()["process"].nunique() == 2


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("f rread 0 1", "no action 'rread'"),
        ("f read 0", "requires an offset and a length"),
        ("f read 0 x", "the length is 'x'"),
    ],
)
def test_a_faulty_line_of_a_log_of_fio_is_reported(line: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(CallsError, match=f"line 3: .*{problem}"):
        read_text(tmp_path, f"fio version 2 iolog\nf add\n{line}\n")


# ---- Adapters of users

_ADAPTER = """
from iopatterns.calls.adapter import Adapter, Event


class Mine(Adapter):
    def events(self, line):
        time, node, call, *rest = line.split()
        begin = {"process": int(node), "time_ns": int(time), "call": call}
        if call == "open":
            return [Event(**begin, file=rest[0], result=int(rest[1]))]
        return [Event(**begin, descriptor=int(rest[0]), size_bytes=int(rest[1]))]
"""


def test_an_adapter_class_reads_another_format(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(_ADAPTER)
    (tmp_path / "trace").write_text("5 0 open /out 3\n6 0 write 3 10\n7 0 write 3 10\n")
    trace = calls.open_trace([tmp_path / "trace"], adapter=f"{tmp_path}/mine.py:Mine")
    assert made_of(trace.table()) == [("open", UNKNOWN, 0), ("write", 0, 10), ("write", 10, 10)]
    (tmp_path / "trace").write_text("5 0 open /out 3\n6 0 write 3 ten\n")
    with pytest.raises(CallsError, match=r"line 2: .*ten"):
        trace.table()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("mine", "", "is not an adapter"),
        ("no.py:Mine", None, "no such file"),
        ("mine.py:Other", _ADAPTER, "no class 'Other'"),
        ("mine.py:Mine", "1/0", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_an_invalid_adapter_is_reported(name: str, text: str | None, problem: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(CallsError, match=problem):
        calls.open_trace([tmp_path / "t"], adapter=f"{tmp_path}/{name}")


# ---- Parquet

_CALLS = st.builds(
    Call,
    process=st.integers(0, 2**31),
    time_ns=st.integers(0, 2**61),
    call=st.sampled_from(list(form.CALL_KINDS)),
    file=st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    offset_bytes=st.integers(-1, 2**61),
    size_bytes=st.integers(0, 2**61),
    duration_ns=st.integers(-1, 2**61),
)


def trace_of(made: Sequence[Call], name: str = "mine") -> calls.Trace:
    return calls.Trace(name, "recorded", "test", lambda: form.call_tables(made))


@pytest.mark.slow
@given(st.lists(_CALLS, min_size=1, max_size=30))
def test_parquet_files_give_the_written_calls_and_have_the_same_bytes(made: list[Call]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder) / "a.parquet", Path(folder) / "b.parquet"
        calls.convert_calls(trace_of(made), path)
        read = calls.open_trace([path])
        assert (read.name, read.origin) == ("mine", "recorded")
        pd.testing.assert_frame_equal(read.table(), trace_of(made).table())
        calls.convert_calls(trace_of(made), again)
        assert path.read_bytes() == again.read_bytes()


def with_column(table: pa.Table, column: str, value: object) -> pa.Table:
    """Return a table of calls with another value in the last row."""
    values = [*table.column(column).to_pylist()[:-1], value]
    return table.set_column(table.schema.get_field_index(column), column, pa.array(values))


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda table: with_column(table, "call", "reed"), "call 2: call is 'reed', not a recorded call"),
        (lambda table: with_column(table, "size_bytes", -5), "call 2: size_bytes is '-5', not a whole number"),
        (lambda table: with_column(table, "time_ns", None), "call 2: time_ns is '.*', not a whole number"),
        (lambda table: table.drop_columns(["file"]), "no column 'file'"),
        (lambda table: table.replace_schema_metadata({}), "origin"),
    ],
)
def test_faulty_parquet_files_are_reported(change: Any, problem: str, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    calls.convert_calls(trace_of([Call(0, at, "read", "f", 0, 1) for at in range(3)]), path)
    pyarrow.parquet.write_table(change(pyarrow.parquet.read_table(path)), path)
    with pytest.raises(CallsError, match=f"t.parquet.*{problem}"):
        calls.open_trace([path]).table()


# ---- Invalid files


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "not a trace of system calls"),
        ("hello\nworld\n", "not a trace of system calls"),
        ('12:00:00 open("f", O_RDONLY) = 3\n', "Record with `strace -f -ttt -T"),
        ('open("f", O_RDONLY) = 3\n', "Record with `strace -f -ttt -T"),
        ("PAR1", "not readable as Parquet"),
    ],
)
def test_a_file_that_is_not_a_trace_is_reported(text: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(CallsError, match=problem):
        read_text(tmp_path, text)


def test_missing_files_and_folders_are_reported(tmp_path: Path) -> None:
    with pytest.raises(CallsError, match="no such file"):
        calls.open_trace([tmp_path / "none"])
    with pytest.raises(CallsError, match="not a regular file"):
        calls.open_trace([tmp_path])


def test_only_calls_on_matching_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(
        "".join(f'7 1.{at} open("/{name}", O_RDONLY) = 3\n' for at, name in enumerate(("a/x", "b/x", "a/y")))
    )
    assert calls.open_trace([path], only="/a/*").table()["file"].tolist() == ["/a/x", "/a/y"]


def test_a_conversion_does_not_overwrite_its_input_or_write_an_empty_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    calls.convert_calls(trace_of([Call(0, 0, "open", "f")]), path)
    with pytest.raises(OutputError, match="an input of this command"):
        calls.convert_calls(calls.open_trace([path]), path, [path])
    with pytest.raises(CallsError, match=r"must end in \.parquet"):
        calls.convert_calls(calls.open_trace([path]), tmp_path / "t.csv")
    with pytest.raises(CallsError, match="the trace has no calls on files"):
        calls.convert_calls(trace_of([]), tmp_path / "empty.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]
    assert parquet.read_trace_origin(form.CallTraceFile(path)) == ("mine", "recorded")
