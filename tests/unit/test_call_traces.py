"""Traces of calls: each form gives the calls that were made, with their offsets, and a fault is told with its line."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iopatterns import calls
from iopatterns.calls import form, parquet, stand_ins, texts
from iopatterns.calls.form import UNKNOWN, Call, CallsError
from iopatterns.calls.positions import EXECUTE, EXIT, FORK, Event, PositionTracker

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed (apt-get install strace)")


def followed(*events: Event) -> list[tuple[int, str, str, int, int]]:
    """Return the calls that events make: process, call, file, offset and size."""
    return [
        (call.process, call.call, call.file, call.offset_bytes, call.size_bytes)
        for call in PositionTracker().follow(events)
    ]


def opened(file: str = "/f", at: int = 3, process: int = 1, *flags: str) -> Event:
    return Event(process, 0, "openat", file=file, result=at, flags=frozenset(flags))


# ---- Positions


@pytest.mark.parametrize("name", ["read", "readv", "write", "writev", "iread", "iwrite"])
def test_what_reads_or_writes_moves_the_position(name: str) -> None:
    made = followed(opened(), *(Event(1, 0, name, 3, size_bytes=size, result=9) for size in (10, 20)))
    assert made[1:] == [(1, name, "/f", 0, 10), (1, name, "/f", 10, 20)]


@pytest.mark.parametrize("name", ["pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2"])
def test_what_says_where_leaves_the_position(name: str) -> None:
    made = followed(opened(), Event(1, 0, name, 3, size_bytes=5, offset_bytes=70), Event(1, 0, "read", 3, size_bytes=1))
    assert made[1:] == [(1, name, "/f", 70, 5), (1, "read", "/f", 0, 1)]


@pytest.mark.parametrize("name", ["lseek", "_llseek", "lseek64"])
def test_a_seek_sets_the_position_by_its_result_or_by_what_was_asked_for(name: str) -> None:
    read = Event(1, 0, "read", 3, size_bytes=10)
    by_result = Event(1, 0, name, 3, result=500, offset_bytes=0, whence="SEEK_END")
    assert followed(opened(), by_result, read)[1:] == [(1, name, "/f", 500, 0), (1, "read", "/f", 500, 10)]
    asked = [
        Event(1, 0, name, 3, offset_bytes=at, whence=whence) for whence, at in (("SEEK_SET", 40), ("SEEK_CUR", -5))
    ]
    assert [each[3] for each in followed(opened(), *asked, read)[1:]] == [40, 35, 35]
    wrote = Event(1, 0, "write", 3, size_bytes=100)
    assert followed(opened(), wrote, Event(1, 0, name, 3, offset_bytes=-1, whence="SEEK_END"))[-1][3] == 99


@pytest.mark.parametrize("name", ["open", "openat", "creat"])
def test_an_open_begins_at_0_and_a_close_ends_it(name: str) -> None:
    first = Event(1, 0, name, file="/f", result=3)
    write = Event(1, 0, "write", 3, size_bytes=4)
    made = followed(first, write, Event(1, 0, "close", 3), write, first, write)
    assert [each[1] for each in made] == [name, "write", "close", name, "write"]
    assert made[-1][3] == 0


@pytest.mark.parametrize("name", ["fsync", "fdatasync"])
def test_syncs_name_their_file(name: str) -> None:
    assert followed(opened(), Event(1, 0, name, 3))[1:] == [(1, name, "/f", UNKNOWN, 0)]


def test_a_truncation_says_the_new_length_and_appends_go_on_from_it() -> None:
    cut = Event(1, 0, "ftruncate", 3, offset_bytes=7)
    write = Event(1, 0, "write", 3, size_bytes=20)
    made = followed(opened("/f", 3, 1, "O_APPEND"), write, cut, write)
    assert made[1:] == [(1, "write", "/f", 0, 20), (1, "ftruncate", "/f", 7, 0), (1, "write", "/f", 7, 20)]


def test_an_iowait_is_of_the_file_of_its_iread() -> None:
    events = [Event(1, 0, "iread", 3, size_bytes=5, result=77), Event(1, 0, "close", 3), Event(1, 0, "iowait", 77)]
    assert followed(opened(), *events, Event(1, 0, "iowait", 77))[1:] == [
        (1, "iread", "/f", 0, 5),
        (1, "close", "/f", UNKNOWN, 0),
        (1, "iowait", "/f", UNKNOWN, 0),
    ]


@pytest.mark.parametrize("name", ["dup", "dup2", "dup3"])
def test_descriptors_of_one_open_share_a_position(name: str) -> None:
    events = [Event(1, 0, name, 3, result=8)]
    events += [Event(1, 0, "write", at, size_bytes=10) for at in (3, 8)]
    events += [Event(1, 0, "close", 3), Event(1, 0, "write", 8, size_bytes=1), Event(1, 0, "write", 3, size_bytes=1)]
    writes = [each for each in followed(opened(), *events) if each[1] == "write"]
    assert [each[3] for each in writes] == [0, 10, 20]


def test_a_child_shares_positions_and_has_descriptors_of_its_own() -> None:
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


def test_a_new_program_has_lost_what_closes_on_exec() -> None:
    events = [opened("/a", 3, 1, "O_CLOEXEC"), opened("/b", 4), Event(1, 0, EXECUTE)]
    events += [Event(1, 0, "read", at, size_bytes=1) for at in (3, 4)]
    assert [each[2] for each in followed(*events)[2:]] == ["/b"]


def test_what_was_not_opened_is_counted_and_what_is_no_file_left_out() -> None:
    positions = PositionTracker()
    events = [Event(1, 0, "read", 0, size_bytes=1), Event(1, 0, "close", 9), opened("/dev/null", 5)]
    events += [Event(1, 0, "write", 5, size_bytes=1), Event(1, 0, "write", 6, file="pipe:[7]", size_bytes=1)]
    assert list(positions.follow(events)) == []
    assert positions.left_out == 2


def test_a_descriptor_from_before_the_trace_is_known_by_the_file_that_strace_names() -> None:
    read = Event(1, 0, "read", 3, "/old", size_bytes=4)
    made = followed(
        read,
        Event(1, 0, "pread64", 3, "/old", size_bytes=4, offset_bytes=9),
        Event(1, 0, "lseek", 3, "/old", result=50),
        read,
    )
    assert made == [(1, "pread64", "/old", 9, 4), (1, "lseek", "/old", 50, 0), (1, "read", "/old", 50, 4)]


@given(st.lists(st.tuples(st.sampled_from(["read", "write", "lseek", "dup"]), st.integers(3, 5), st.integers(0, 50))))
def test_positions_are_those_of_the_kernel(steps: list[tuple[str, int, int]]) -> None:
    """The same steps on a real file end at the same positions."""
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
_MADE = [
    ("openat", UNKNOWN, 0),
    ("write", 0, 1000),
    ("write", 1000, 130),
    ("lseek", 0, 0),
    ("read", 0, 100),
    ("pwrite64", 5000, 3),
    ("pread64", 3, 50),
    ("writev", 100, 4),
    ("preadv", 20, 17),
    ("pwritev", 30, 2),
    ("dup", UNKNOWN, 0),
    ("write", 104, 2),
    ("write", 106, 2),
    ("ftruncate", 3000, 0),
    ("fsync", UNKNOWN, 0),
    ("fdatasync", UNKNOWN, 0),
    ("openat", UNKNOWN, 0),
    ("write", 0, 5),
    ("lseek", 77, 0),
    ("write", 77, 1),
    ("write", 5, 6),
    ("write", 78, 5),
    ("close", UNKNOWN, 0),
    ("close", UNKNOWN, 0),
]


@needs_strace
@pytest.mark.parametrize("options", [["-f"], ["-f", "-y"], ["-ff"], ["-f", "-s", "2000", "-x"]])
def test_strace_of_a_real_program_gives_its_calls(options: list[str], tmp_path: Path) -> None:
    program = [sys.executable, "-S", "-c", _PROGRAM]
    command = ["strace", *options, "-ttt", "-T", "-o", "trace", *program]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=120)
    files = sorted(tmp_path.glob("trace*"))
    notes = calls.ReadingNotes()
    table = calls.open_trace(files, notes=notes).table()
    mine = table[table["file"].str.contains(r'a b"ü\.dat$|log$')]
    plain = mine["call"].astype(str).str.replace("v2", "v", regex=False)  # what the C library calls for preadv
    assert list(zip(plain, mine["offset_bytes"], mine["size_bytes"], strict=True)) == _MADE
    assert mine["process"].nunique() == 2
    assert (mine["duration_ns"] > 0).all()
    assert mine["time_ns"].is_monotonic_increasing
    assert 0 <= table["time_ns"].iloc[0] < 10**9


@needs_strace
def test_threads_that_interrupt_each_other_are_put_together(tmp_path: Path) -> None:
    """strace prints calls at the same time in two parts, and threads act before the end of their clone is told."""
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


def read_text(
    tmp_path: Path, text: str, *, skip: bool = False, name: str = "t.txt"
) -> tuple[pd.DataFrame, calls.ReadingNotes]:
    (tmp_path / name).write_text(text)
    notes = calls.ReadingNotes(calls.SkippedLines() if skip else None)
    return calls.open_trace([tmp_path / name], notes=notes).table(), notes


def made_of(table: pd.DataFrame) -> list[tuple[str, int, int]]:
    return list(zip(table["call"].astype(str), table["offset_bytes"], table["size_bytes"], strict=True))


def test_lines_of_strace_that_few_programs_cause(tmp_path: Path) -> None:
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
    table, notes = read_text(tmp_path, text)
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
    assert notes.left_out == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("7 1000.2 read(3, 99", "no result behind the call of 'read'"),
        ("7 1000.2 read(x, 99) = 9", "no descriptor: 'x, 99'"),
        ("7 1000.2 <... read resumed>99) = 9", "'read' is resumed, but did not begin before"),
        ("7 1000.2 pread64(3, 9, 9, here) = 9", "'here' is no number"),
        ("7 1000.2 openat(AT_FDCWD, f) = 9", "'openat' names no file"),
        ("7 1000.2 read(3, 9) = 99999999999999999999", "no number of bytes"),
        ("7 1000.2 ftruncate(3, -1) = 0", "no number of bytes"),
        ("something else", "no line of strace: 'something else'"),
        ("7 1000.2 ???", "no call: '???'"),
    ],
)
def test_a_faulty_line_is_told_and_nothing_is_imported(line: str, why: str, tmp_path: Path) -> None:
    begin, end = '7 1000.1 open("f", O_RDONLY) = 3\n', "\n7 1000.3 read(3, 9) = 9\n"
    trace = tmp_path / "t.txt"
    trace.write_text(begin + line + end)
    with pytest.raises(CallsError, match=f"t.txt, line 2: .*{re.escape(why)}"):
        calls.convert_calls(calls.open_trace([trace]), tmp_path / "out.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["t.txt"]
    table, notes = read_text(tmp_path, begin + line + end, skip=True)
    assert made_of(table) == [("open", UNKNOWN, 0), ("read", 0, 9)]
    assert notes.skipped is not None
    assert (notes.skipped.count, len(notes.skipped.first)) == (1, 1)


@given(st.text(max_size=300))
def test_no_text_ends_in_anything_but_calls_or_one_message(text: str) -> None:
    try:
        event = texts.to_event(1, 0, texts.parse_printed_call("pread64", text))
    except ValueError:
        return
    assert event is None or event.size_bytes >= 0


@given(st.binary(max_size=60))
def test_names_of_files_come_back_from_what_strace_makes_of_them(name: bytes) -> None:
    plain = {10: "\\n", 9: "\\t", 34: '\\"', 92: "\\\\"}
    shown = "".join(plain.get(byte, chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}") for byte in name)
    event = texts.to_event(1, 0, texts.parse_printed_call("openat", f'AT_FDCWD, "{shown}", O_RDONLY) = 3'))
    assert event is not None
    assert event.file == name.decode(errors="backslashreplace")


# ---- Darshan


def example(*parts: str) -> Path:
    import darshan

    return Path(darshan.__file__).parent.joinpath("examples", "example_logs", *parts)


def test_the_dxt_log_that_pydarshan_ships_gives_the_accesses_that_it_has() -> None:
    table = calls.open_trace([example("ior_hdf5_example.darshan")]).table()
    assert set(table["process"]) == {0, 1, 2, 3}
    assert table["call"].value_counts().loc[["pread64", "pwrite64"]].tolist() == [36, 23]
    first = table[(table["process"] == 0) & (table["call"] == "pwrite64")].head(3)
    assert first["offset_bytes"].tolist() == [2048, 264192, 526336]
    assert first["size_bytes"].tolist() == [262144] * 3
    assert table["file"].unique().tolist() == ["/global/cscratch1/sd/ssnyder/test123.h5"]
    assert table["time_ns"].is_monotonic_increasing


def test_damaged_logs_of_darshan_end_in_a_message_though_their_library_crashes(tmp_path: Path) -> None:
    whole = example("dxt.darshan").read_bytes()
    for size in (3000, 90_000):
        log = tmp_path / "cut.darshan"
        log.write_bytes(whole[:size])
        with pytest.raises(CallsError, match=r"cut.darshan: not readable as a log of Darshan: "):
            calls.convert_calls(calls.open_trace([log]), tmp_path / "out.parquet")
    assert not (tmp_path / "out.parquet").exists()


def test_a_log_of_darshan_without_dxt_says_how_to_record_it() -> None:
    with pytest.raises(CallsError, match="DXT_ENABLE_IO_TRACE"):
        calls.open_trace([example("example.darshan")]).table()


# ---- Logs of fio


def test_a_log_that_fio_wrote_gives_what_fio_did(tmp_path: Path) -> None:
    options = [
        "--name=job",
        "--rw=randrw",
        "--bs=4k",
        "--size=256k",
        "--fsync=8",
        "--ioengine=psync",
        "--write_iolog=log",
    ]
    done = subprocess.run(["fio", *options], cwd=tmp_path, check=True, capture_output=True, text=True, timeout=120)
    issued = re.search(r"issued rwts: total=(\d+),(\d+)", done.stdout)
    assert issued is not None
    table = calls.open_trace([tmp_path / "log"]).table()
    counts = table["call"].value_counts()
    assert (counts["pread64"], counts["pwrite64"]) == (int(issued[1]), int(issued[2]))
    assert counts["fsync"] > 0
    assert sorted(table.loc[table["size_bytes"] > 0, "offset_bytes"]) == list(range(0, 256 * 1024, 4096))


def test_logs_of_a_stand_in_are_still_known_as_such(tmp_path: Path) -> None:
    from iopatterns.calls import replaying

    logs = replaying.to_iologs(stand_ins.stand_in("Sandia-cth"), tmp_path, processes=[0, 1], within="/mnt/x/")
    trace = calls.open_trace(list(logs.logs.values()))
    assert trace.label == "Sandia-cth.00 (stand-in)"
    assert trace.table()["process"].nunique() == 2


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("f rread 0 1", "no action 'rread'"),
        ("f read 0", "needs an offset and a length"),
        ("f read 0 x", "the length is 'x'"),
    ],
)
def test_a_faulty_line_of_a_log_of_fio_is_told(line: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(CallsError, match=f"line 3: .*{why}"):
        read_text(tmp_path, f"fio version 2 iolog\nf add\n{line}\n")


# ---- A form of the user's

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


def test_a_class_of_the_users_reads_what_is_not_known_here(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(_ADAPTER)
    (tmp_path / "trace").write_text("5 0 open /out 3\n6 0 write 3 10\n7 0 write 3 10\n")
    trace = calls.open_trace([tmp_path / "trace"], adapter=f"{tmp_path}/mine.py:Mine")
    assert made_of(trace.table()) == [("open", UNKNOWN, 0), ("write", 0, 10), ("write", 10, 10)]
    (tmp_path / "trace").write_text("5 0 open /out 3\n6 0 write 3 ten\n")
    with pytest.raises(CallsError, match=r"line 2: .*ten"):
        trace.table()


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("mine", "", "names no adapter"),
        ("no.py:Mine", None, "there is no such file"),
        ("mine.py:Other", _ADAPTER, "has no class 'Other'"),
        ("mine.py:Mine", "1/0", "cannot be imported: ZeroDivisionError"),
    ],
)
def test_an_adapter_that_is_none_is_told(name: str, text: str | None, why: str, tmp_path: Path) -> None:
    (tmp_path / "t").write_text("")
    if text is not None:
        (tmp_path / "mine.py").write_text(text)
    with pytest.raises(CallsError, match=why):
        calls.open_trace([tmp_path / "t"], adapter=f"{tmp_path}/{name}")


# ---- Our own form

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
def test_parquet_gives_back_what_was_written_with_the_same_bytes_each_time(made: list[Call]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path, again = Path(folder) / "a.parquet", Path(folder) / "b.parquet"
        calls.convert_calls(trace_of(made), path)
        read = calls.open_trace([path])
        assert (read.name, read.origin) == ("mine", "recorded")
        pd.testing.assert_frame_equal(read.table(), trace_of(made).table())
        calls.convert_calls(trace_of(made), again)
        assert path.read_bytes() == again.read_bytes()


def test_faulty_rows_of_parquet_are_told_with_their_number(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    calls.convert_calls(trace_of([Call(0, at, "read", "f", 0, 1) for at in range(3)]), path)
    import pyarrow as pa
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    for column, value, why in (
        ("call", "reed", "call is 'reed', no call that is kept"),
        ("size_bytes", -5, "size_bytes is '-5', no whole number"),
        ("time_ns", None, "time_ns is 'nan', no whole number"),
    ):
        values = [*table.column(column).to_pylist()[:2], value]
        place = table.schema.get_field_index(column)
        pyarrow.parquet.write_table(table.set_column(place, column, pa.array(values)), path)
        with pytest.raises(CallsError, match=f"t.parquet, call 2: {why}"):
            calls.open_trace([path]).table()
    pyarrow.parquet.write_table(table.drop_columns(["file"]), path)
    with pytest.raises(CallsError, match="no column 'file'"):
        calls.open_trace([path]).table()
    pyarrow.parquet.write_table(table.replace_schema_metadata({}), path)
    with pytest.raises(CallsError, match="origin"):
        calls.open_trace([path])


# ---- What is no trace


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no trace of calls"),
        ("hello\nworld\n", "no trace of calls"),
        ('12:00:00 open("f", O_RDONLY) = 3\n', "Record with `strace -f -ttt -T"),
        ('open("f", O_RDONLY) = 3\n', "Record with `strace -f -ttt -T"),
        ("PAR1", "not readable as Parquet"),
    ],
)
def test_what_is_no_trace_is_told(text: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(CallsError, match=why):
        read_text(tmp_path, text)


def test_missing_files_and_folders_are_told(tmp_path: Path) -> None:
    with pytest.raises(CallsError, match="no such file"):
        calls.open_trace([tmp_path / "none"])
    with pytest.raises(CallsError, match="no regular file"):
        calls.open_trace([tmp_path])


def test_only_files_that_fit_a_pattern_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text(
        "".join(f'7 1.{at} open("/{name}", O_RDONLY) = 3\n' for at, name in enumerate(("a/x", "b/x", "a/y")))
    )
    assert calls.open_trace([path], only="/a/*").table()["file"].tolist() == ["/a/x", "/a/y"]


def test_a_conversion_never_overwrites_its_input_nor_writes_an_empty_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    calls.convert_calls(trace_of([Call(0, 0, "open", "f")]), path)
    with pytest.raises(CallsError, match="is the trace that is to be read"):
        calls.convert_calls(calls.open_trace([path]), path, [path])
    with pytest.raises(CallsError, match=r"as .parquet"):
        calls.convert_calls(calls.open_trace([path]), tmp_path / "t.csv")
    with pytest.raises(CallsError, match="no call on a file in it"):
        calls.convert_calls(trace_of([]), tmp_path / "empty.parquet")
    assert [each.name for each in tmp_path.iterdir()] == ["t.parquet"]
    assert parquet.read_trace_origin(form.CallTraceFile(path)) == ("mine", "recorded")
