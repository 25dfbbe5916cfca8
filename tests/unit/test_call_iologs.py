"""I/O logs made from traces of system calls: fio reads and writes what the trace contains."""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from iopatterns.calls import form, replaying, stand_ins
from iopatterns.calls.form import READS, WRITES, Call, CallsError, Trace


def trace_of(calls: Sequence[Call], name: str = "mine") -> Trace:
    return Trace(name, "recorded", "test", lambda: form.call_tables(calls))


def replayed(job_file: str, folder: Path) -> list[dict[str, Any]]:
    """Run a job file with fio in a folder; return its jobs."""
    done = subprocess.run(
        ["fio", "-", "--output-format=json"],
        cwd=folder,
        input=job_file,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jobs: list[dict[str, Any]] = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    return jobs


def make_files(folder: Path, sizes_bytes: Mapping[str, int]) -> None:
    folder.mkdir(exist_ok=True)
    for name, size in sizes_bytes.items():
        if size:
            (folder / name).write_bytes(b"\1" * size)


def transferred(jobs: Sequence[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    return [
        tuple(job[direction][what] for direction in ("read", "write") for what in ("total_ios", "io_bytes"))
        for job in jobs
    ]


def expected(trace: Trace, processes: Iterable[int]) -> list[tuple[int, int, int, int]]:
    calls = trace.table()
    found = []
    for process in processes:
        own = calls[(calls["process"] == process) & (calls["size_bytes"] > 0)]
        sizes = [own[own["call"].isin(kind)]["size_bytes"] for kind in (READS, WRITES)]
        found.append((len(sizes[0]), int(sizes[0].sum()), len(sizes[1]), int(sizes[1].sum())))
    return found


@pytest.mark.parametrize("workload", stand_ins.STAND_IN_NAMES)
def test_fio_transfers_what_the_processes_of_a_stand_in_transfer(workload: str, tmp_path: Path) -> None:
    trace = stand_ins.stand_in(workload)
    logs = replaying.to_iologs(trace, tmp_path / "logs", processes=range(2))
    make_files(tmp_path / "files", logs.sizes_bytes)
    jobs = replayed(logs.job_file({"ioengine": "psync", "thread": 1}), tmp_path / "files")
    assert transferred(jobs) == expected(trace, range(2))
    assert {path.name for path in (tmp_path / "files").iterdir()} == set(logs.names.values())


def test_files_with_the_required_sizes_suffice_and_smaller_files_do_not(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "open", "f"), Call(0, 1, "write", "f", 0, 100), Call(0, 2, "read", "f", 50, 1000)])
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    assert logs.sizes_bytes == {"f": 1050}
    make_files(tmp_path / "files", logs.sizes_bytes)
    replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "files")
    make_files(tmp_path / "short", {"f": 1049})
    with pytest.raises(AssertionError):
        replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "short")


@pytest.mark.parametrize(
    ("calls", "size"),
    [
        (["write 0 10", "write 20 10", "pwrite64 5 15", "read 0 30"], 0),
        (["write 0 10", "write 20 10", "read 0 30"], 30),
        (["read 0 30", "write 0 10", "write 20 10", "pwrite64 5 15"], 30),
    ],
)
def test_data_that_a_process_has_written_are_not_required(calls: list[str], size: int, tmp_path: Path) -> None:
    made = [Call(0, 0, name, "f", int(at), int(length)) for name, at, length in map(str.split, calls)]
    assert replaying.to_iologs(trace_of(made), tmp_path).sizes_bytes == {"f": size}


def test_a_log_opens_a_file_once_for_all_its_descriptors(tmp_path: Path) -> None:
    calls = ["open", "openat", "write 0 10", "dup", "close", "close", "write 10 10", "close", "close"]
    calls.append("read 0 10")  # by a descriptor from before the trace
    made = [Call(0, at, name, "f", *map(int, numbers)) for at, (name, *numbers) in enumerate(map(str.split, calls))]
    trace = trace_of(made)
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    assert [line.split()[1] for line in logs.logs[0].read_text().splitlines()[1:]] == [
        *("add", "open", "write", "write", "close", "open", "read", "close")
    ]
    make_files(tmp_path / "files", logs.sizes_bytes)
    assert transferred(replayed(logs.job_file({}), tmp_path / "files")) == [(1, 10, 2, 20)]


def test_fio_calls_fsync_and_fdatasync(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "write", "f", 0, 9), Call(0, 1, "fsync", "f"), Call(0, 2, "fdatasync", "f")])
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    (tmp_path / "files").mkdir()
    seen = tmp_path / "seen"
    command = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(seen), "fio", "-"]
    job_file = logs.job_file({"ioengine": "psync", "thread": 1})
    subprocess.run(
        command, cwd=tmp_path / "files", input=job_file, text=True, check=True, timeout=60, capture_output=True
    )
    assert re.findall(r"(f\w*sync)\(", seen.read_text()) == ["fsync", "fdatasync"]


def test_empty_requests_truncations_and_seeks_are_left_out(tmp_path: Path) -> None:
    calls = [Call(0, 0, "write", "f", 0, 0), Call(0, 1, "ftruncate", "f", 5), Call(0, 2, "lseek", "f", 9)]
    trace = trace_of([*calls, Call(0, 3, "write", "f", 9, 1)])
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    (tmp_path / "files").mkdir()
    assert transferred(replayed(logs.job_file({}), tmp_path / "files")) == [(0, 0, 1, 1)]


def test_fio_waits_for_the_times_of_a_timed_log(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "write", "f", 0, 9), Call(0, 400_000_000, "write", "f", 9, 9)])
    (tmp_path / "files").mkdir()
    for timed, min_ms, max_ms in ((True, 390, 30_000), (False, 0, 300)):
        logs = replaying.to_iologs(trace, tmp_path / f"logs-{timed}", timed=timed)
        [job] = replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "files")
        assert min_ms <= job["job_runtime"] <= max_ms


def test_names_that_fio_cannot_read_are_replaced_by_unique_names(tmp_path: Path) -> None:
    files = ["/a b/c", "/a:b/c", "a_b/c", "ü", "/" + "x" * 300, "/" + "x" * 301]
    trace = trace_of([Call(0, at, "write", file, 0, 10 + at) for at, file in enumerate(files)])
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    (tmp_path / "files").mkdir()
    replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "files")
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "files").iterdir()}
    assert [sizes[logs.names[file]] for file in files] == [10, 11, 12, 13, 14, 15]


def test_files_have_the_given_prefix(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    trace = trace_of([Call(0, 0, "write", "f", 0, 9)])
    logs = replaying.to_iologs(trace, tmp_path / "logs", within=f"{tmp_path}/there/")
    replayed(logs.job_file({}), tmp_path)
    assert (tmp_path / "there" / "f").stat().st_size == 9


def test_files_follow_one_another_on_a_bare_drive(tmp_path: Path) -> None:
    calls = [Call(0, 0, "write", "a", 0, 5000), Call(1, 0, "write", "b", 4000, 200), Call(1, 1, "read", "a", 0, 1)]
    trace = trace_of([*calls, Call(1, 2, "fsync", "a")])
    logs = replaying.to_drive_iologs(trace, tmp_path / "logs")
    lines = [logs.logs[process].read_text().splitlines()[1:] for process in (0, 1)]
    assert lines[0] == ["drive add", "drive open", "drive write 0 8192", "drive close"]
    requests = ["drive write 8192 8192", "drive read 0 4096"]
    assert lines[1][2:] == [*requests, "drive sync 0 0", "drive close"]
    assert logs.sizes_bytes == {"drive": 16384}
    os.truncate(os.open(tmp_path / "dev", os.O_CREAT | os.O_RDWR), logs.sizes_bytes["drive"])
    jobs = replayed(logs.job_file({"thread": 1, "ioengine": "psync", "replay_redirect": "dev"}), tmp_path)
    assert transferred(jobs) == [(0, 0, 1, 8192), (1, 4096, 1, 8192)]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = stand_ins.stand_in("Sandia-cth")
    first, second = (replaying.to_iologs(trace, tmp_path / name, processes=[0, 31]) for name in ("1", "2"))
    assert [path.name for path in first.logs.values()] == ["Sandia-cth.00.log", "Sandia-cth.31.log"]
    for process in (0, 31):
        assert first.logs[process].read_bytes() == second.logs[process].read_bytes()


@pytest.mark.parametrize(
    ("calls", "processes", "problem"),
    [
        ([Call(0, 0, "write", "f", 0, 9)], [0, 7], "mine: process 7 is missing or neither reads nor writes"),
        ([Call(0, 0, "open", "f")], None, "mine: its processes neither read nor write"),
    ],
)
def test_a_trace_that_cannot_be_replayed_is_refused_and_leaves_no_log(
    calls: list[Call], processes: list[int] | None, problem: str, tmp_path: Path
) -> None:
    with pytest.raises(CallsError, match=problem):
        replaying.to_iologs(trace_of(calls), tmp_path / "logs", processes=processes)
    assert list((tmp_path / "logs").iterdir()) == []


def test_folders_and_prefixes_that_fio_would_split_are_refused(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "write", "f", 0, 9)])
    with pytest.raises(CallsError, match="without spaces and colons"):
        replaying.to_iologs(trace, tmp_path, within="a b/")
    with pytest.raises(CallsError, match="at colons"):
        replaying.to_iologs(trace, tmp_path / "a:b")
