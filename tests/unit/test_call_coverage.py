"""Traces of system calls report what of their source they represent, and odd recordings are read or refused."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet
import pytest

from iopatterns import calls
from iopatterns.calls import CallsError

needs_strace = pytest.mark.skipif(not shutil.which("strace"), reason="strace is not installed (apt-get install strace)")
RECORD = ["strace", "-f", "-y", "-ttt", "-T", "-s", "0", "-e", "abbrev=!io_submit", "-o"]


def read(folder: Path, text: str, name: str = "t.strace", only: str = "*") -> tuple[pd.DataFrame, calls.Coverage]:
    (folder / name).write_text(text)
    trace = calls.open_trace([folder / name], only=only)
    return trace.table(), trace.coverage


def accesses(table: pd.DataFrame) -> list[tuple[str, str, int, int]]:
    moving = table[table["size_bytes"] > 0]
    return list(
        zip(moving["call"].astype(str), moving["file"], moving["offset_bytes"], moving["size_bytes"], strict=True)
    )


# ---- strace


@pytest.mark.parametrize("pid", ["", "562   ", "12345 ", "[pid   562] "])
def test_times_since_the_previous_call_are_refused(pid: str, tmp_path: Path) -> None:
    lines = [f'{pid}     0.000000 open("f", O_RDONLY) = 3 <0.1>', f"{pid}     0.000217 read(3, 9) = 9 <0.1>"]
    with pytest.raises(
        CallsError, match=r"line 1: no time in seconds since the epoch in .* Record with `strace -f -ttt"
    ):
        read(tmp_path, "\n".join(lines))
    with pytest.raises(CallsError, match="line 2: no time in seconds since the epoch in '7 10:02:03"):
        read(tmp_path, 'strace: Process 7 attached\n7 10:02:03.5 open("f", O_RDONLY) = 3\n')
    squeezed = '7 0.3 open("f", O_RDONLY) = 3\n7 0.2 read(3, 9) = 9\n'
    with pytest.raises(CallsError, match="no time in seconds since the epoch"):
        read(tmp_path, squeezed)


def test_the_summary_of_counts_is_left_out(tmp_path: Path) -> None:
    summary = (
        "% time     seconds  usecs/call     calls    errors syscall\n------ ----------- ----------- --------- ------\n"
    )
    summary += (
        " 62.56    0.014495        2899         5         2 wait4\n100.00    0.023172                   9 total\n"
    )
    table, _ = read(tmp_path, f'7 1700000000.1 pread64(3</f>, "", 9, 0) = 9\n{summary}')
    assert accesses(table) == [("pread64", "/f", 0, 9)]


def test_escaped_names_keep_their_folders(tmp_path: Path) -> None:
    def escaped(text: str) -> str:
        return "".join(f"\\x{byte:02x}" for byte in text.encode())

    folder, name, path = escaped("/data/run"), escaped("a.dat"), escaped("/data/run/a.dat")
    opened = f'7 1.1 openat(AT_FDCWD<{folder}>, "{name}", O_RDONLY) = 3<{path}>'
    table, _ = read(tmp_path, f'{opened}\n7 1.2 read(3<{escaped("/data/run/a.dat")}>, "", 9) = 9\n', only="/data/run/*")
    assert accesses(table) == [("read", "/data/run/a.dat", 0, 9)]


@pytest.mark.parametrize(
    "line",
    [
        '7 1.1 openat(AT_FDCWD, "a.dat", O_RDONLY) = 3</run/a.dat>',  # of strace before it printed the folder
        '7 1.1 open("a.dat", O_RDONLY) = 3</run/a.dat>',
        '7 1.1 openat2(AT_FDCWD</run>, "a.dat", {flags=O_RDONLY, resolve=0}, 24) = 3</run/a.dat>',
        '7<cat> 1.1 (+     0.000217) [  59] [00007f1f] open("/run/a.dat", O_RDONLY) = 3</run/a.dat>',
    ],
)
def test_the_forms_of_an_open_are_read(line: str, tmp_path: Path) -> None:
    table, _ = read(
        tmp_path, f'{line}\r\n7 1.2 pread64(3</run/a.dat (deleted)>, "", 9, 5) = 9\r\n > /lib/libc.so(x) [0]\r\n'
    )
    assert accesses(table) == [("pread64", "/run/a.dat", 5, 9)]


ON_STDERR = """\
1.100000 openat(AT_FDCWD, "/f", O_RDWR) = 3 <0.1>
1.200000 clone(child_stack=NULL, flags=SIGCHLDstrace: Process 9 attached
, child_tidptr=0x7f) = 9 <0.1>
[pid     9] 1.300000 read(3, "", 10) = 10 <0.1>
[pid     8] 1.400000 read(3, "", 20) = 20 <0.1>
[pid     9] 1.500000 +++ exited with 0 +++
1.600000 read(3, "", 30) = 30 <0.1>
"""


def test_a_recording_on_standard_error_is_read(tmp_path: Path) -> None:
    table, _ = read(tmp_path, ON_STDERR)
    assert [(process, *row[2:]) for process, row in zip(table["process"][1:], accesses(table), strict=True)] == [
        (9, 0, 10),
        (0, 10, 20),
        (0, 30, 30),
    ]
    with pytest.raises(CallsError, match=r"line 8: .* Record with -o FILE"):
        read(tmp_path, ON_STDERR + "hello from the program\n")


def test_copies_between_files_are_a_read_and_a_write(tmp_path: Path) -> None:
    text = """7 1.1 copy_file_range(3</a>, [100], 4</b>, [10], 99, 0) = 50 <0.000100>
7 1.2 open("/c", O_RDONLY) = 5
7 1.3 sendfile(4</b>, 5</c>, NULL, 100) = 20
7 1.4 sendfile(6<socket:[1]>, 5</c>, [40] => [50], 10) = 10
7 1.5 splice(5</c>, NULL, 7<pipe:[2]>, NULL, 30, 0) = 30
7 1.6 copy_file_range(3</a>, [100], 4</b>, [10], 99, 0) = 0
7 1.7 copy_file_range(3, 0x7ffc, 4, 0x7ffd, 99, 0) = 50
"""
    table, coverage = read(tmp_path, text)
    assert accesses(table) == [
        ("pread64", "/a", 100, 50),
        ("pwrite64", "/b", 10, 50),
        ("read", "/c", 0, 20),
        ("pread64", "/c", 40, 10),
        ("read", "/c", 20, 30),
    ]
    assert coverage.left_out["copy_file_range not followed"] == 1
    assert "record with `strace -f -y -ttt -T -s 0 -e abbrev='!io_submit'" in coverage.text()


@pytest.mark.parametrize(
    "request_text",
    [
        "{aio_data=0, aio_lio_opcode=IOCB_CMD_PREAD, aio_fildes=6</f>, aio_buf=0x7f, aio_nbytes=512, aio_offset=8}",
        "{data=0x1, pread, fildes=6</f>, buf=0x7f, nbytes=512, offset=8}",
        "{aio_lio_opcode=IOCB_CMD_PREADV, aio_fildes=6</f>, aio_buf=[{iov_base=0x1, iov_len=500}, {iov_base=0x2,"
        " iov_len=12}], aio_offset=8}",
    ],
)
def test_requests_of_io_submit_are_followed(request_text: str, tmp_path: Path) -> None:
    fsync = "{aio_data=0, aio_lio_opcode=IOCB_CMD_FSYNC, aio_fildes=6</f>}"
    text = f"7 1.1 io_submit(0x7f, 4, [{request_text}, {fsync}, ...]) = 4 <0.1>\n7 1.2 io_submit(0x7f, 1, [...]) = 1\n"
    table, coverage = read(tmp_path, text)
    assert accesses(table) == [("pread64", "/f", 8, 512)]
    assert table["call"].tolist() == ["pread64", "fsync"]
    assert coverage.left_out["io_submit not followed"] == 3  # two of the first call are not printed
    assert table["duration_ns"].tolist() == [-1, -1]


def test_calls_that_are_not_followed_are_counted_unless_only_excludes_their_file(tmp_path: Path) -> None:
    text = """7 1.1 mmap(NULL, 10, PROT_READ, MAP_PRIVATE, 3</lib/x>, 0) = 0x7f
7 1.2 mmap(NULL, 10, PROT_READ, MAP_SHARED, 4</run/a>, 0) = 0x7f
7 1.3 mmap(NULL, 10, PROT_READ, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7f
7 1.4 io_uring_enter(5<anon_inode:[io_uring]>, 8, 0, 0, NULL, 8) = 8
7 1.5 pread64(4</run/a>, "", 5, 0) = 5
7 1.6 pread64(3</lib/x>, "", 5, 0) = 5
"""
    _, coverage = read(tmp_path, text, only="/run/*")
    assert coverage.left_out["mmap not followed"] == 1
    assert coverage.left_out["io_uring_enter not followed"] == 1
    assert coverage.left_out["reads and writes of files that --only excludes"] == 1
    assert coverage.represented["reads"] == 1


@needs_strace
def test_the_recording_command_of_the_page_shows_the_requests_of_fio(tmp_path: Path) -> None:
    fio = ["fio", "--name=u", "--ioengine=libaio", "--filename=u.dat", "--size=64k", "--bs=4k", "--iodepth=8"]
    job = [*fio, "--iodepth_batch=4", "--rw=randread", "--thread", "--output=/dev/null"]
    subprocess.run([*RECORD, "t.strace", *job], cwd=tmp_path, check=True, timeout=120)
    trace = calls.open_trace([tmp_path / "t.strace"], only="*/u.dat")
    table = trace.table()
    assert sorted(table.loc[table["call"] == "pread64", "offset_bytes"]) == list(range(0, 65536, 4096))
    assert "io_submit not followed" not in +trace.coverage.left_out


# ---- Other formats


def test_a_compressed_trace_is_read_and_the_coverage_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "mine.strace.gz"
    path.write_bytes(gzip.compress(b'7 1.1 read(3</f>, "", 9) = 9\n7 1.2 pread64(3</f>, "", 9, 0) = 9\n'))
    trace = calls.open_trace([path])
    assert trace.name == "mine"
    calls.convert_calls(trace, tmp_path / "t.parquet")
    again = calls.open_trace([tmp_path / "t.parquet"])
    again.table()
    assert again.coverage.text() == trace.coverage.text()
    assert "left out: 1 reads and writes without a known file" in again.coverage.text()
    stored = pyarrow.parquet.ParquetFile(tmp_path / "t.parquet").metadata.metadata[b"iopatterns.calls.coverage"]
    assert json.loads(stored) == trace.coverage.to_dict()


def test_a_log_of_fio_is_covered_by_file(tmp_path: Path) -> None:
    _, coverage = read(tmp_path, "fio version 2 iolog\n/a read 0 9\n/b write 0 9\n/a trim 0 9\n/a read 9 9\n", "log")
    assert coverage.parts == {"/a": 2, "/b": 1}
    assert coverage.left_out["trims, for which programs have no system call"] == 1


def darshan_example(name: str) -> Path:
    import darshan

    return Path(darshan.__file__).parent / "examples" / "example_logs" / name


def test_a_log_of_darshan_is_compared_with_its_counters() -> None:
    trace = calls.open_trace([darshan_example("dxt.darshan")])
    trace.table()
    assert trace.coverage.recorded == {"reads": 6126, "writes": 1497}
    assert trace.coverage.text().startswith("coverage: 6,126 of 6,126 reads, 1,497 of 1,497 writes")


def test_a_log_of_darshan_whose_memory_was_full_is_not_complete(tmp_path: Path) -> None:
    content = bytearray(darshan_example("dxt.darshan").read_bytes())
    content[20:22] = b"\xff\xff"  # partial_flag of darshan_header, a bit for each module
    (tmp_path / "full.darshan").write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "iopatterns", "calls", "show", str(tmp_path / "full.darshan")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Darshan's memory for DXT_POSIX was full, so that its records are incomplete" in done.stdout


@pytest.mark.parametrize(
    ("bit", "module", "what"), [(1, "POSIX", "counters"), (7, "STDIO", "counters"), (8, "DXT_POSIX", "records")]
)
def test_a_full_memory_of_one_module_of_darshan_is_named(bit: int, module: str, what: str, tmp_path: Path) -> None:
    content = bytearray(darshan_example("dxt.darshan").read_bytes())
    content[20:24] = (1 << bit).to_bytes(4, "little")  # the numbers of modules in logs of version 3.10
    (tmp_path / "full.darshan").write_bytes(content)
    trace = calls.open_trace([tmp_path / "full.darshan"])
    trace.table()
    full = [each for each in trace.coverage.remarks if "was full" in each]
    assert len(full) == 1
    assert full[0].startswith(f"Darshan's memory for {module} was full, so that its {what} are incomplete")


def test_fewer_records_than_counted_are_shown_as_a_share() -> None:
    coverage = calls.Coverage()
    coverage.represented.update(reads=65_536, writes=0)
    coverage.recorded.update(reads=1_000_000, writes=0)
    assert coverage.text() == "coverage: 65,536 of 1,000,000 reads (6.6%), 0 of 0 writes; nothing left out"
    assert not coverage.is_complete
