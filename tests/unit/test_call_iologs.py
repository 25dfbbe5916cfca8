"""Calls as logs that real fio replays: what it reads and writes is what the trace has."""

import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from iopatterns.calls import form, replaying, stand_ins
from iopatterns.calls.form import READS, WRITES, Call, CallsError, Trace


def trace_of(calls: Sequence[Call], name: str = "mine") -> Trace:
    return Trace(name, "recorded", "test", lambda: form.call_tables(calls))


def replayed(job_file: str, folder: Path) -> list[dict[str, Any]]:
    """Have fio run a job file in a folder, and return its jobs."""
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


def lay_out(folder: Path, sizes_bytes: Iterable[tuple[str, int]]) -> None:
    folder.mkdir(exist_ok=True)
    for name, size in sizes_bytes:
        if size:
            (folder / name).write_bytes(b"\1" * size)


def moved(jobs: Sequence[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    return [tuple(job[way][what] for way in ("read", "write") for what in ("total_ios", "io_bytes")) for job in jobs]


def expected(trace: Trace, processes: Iterable[int]) -> list[tuple[int, int, int, int]]:
    calls = trace.table()
    found = []
    for process in processes:
        its = calls[(calls["process"] == process) & (calls["size_bytes"] > 0)]
        sizes = [its[its["call"].isin(kind)]["size_bytes"] for kind in (READS, WRITES)]
        found.append((len(sizes[0]), int(sizes[0].sum()), len(sizes[1]), int(sizes[1].sum())))
    return found


@pytest.mark.parametrize("workload", stand_ins.STAND_IN_NAMES)
def test_fio_moves_what_the_processes_of_a_stand_in_move(workload: str, tmp_path: Path) -> None:
    trace = stand_ins.stand_in(workload)
    logs = replaying.to_iologs(trace, tmp_path / "logs", processes=range(2))
    lay_out(tmp_path / "files", logs.sizes_bytes.items())
    jobs = replayed(logs.job_file({"ioengine": "psync", "thread": 1}), tmp_path / "files")
    assert moved(jobs) == expected(trace, range(2))
    assert {path.name for path in (tmp_path / "files").iterdir()} == set(logs.names.values())


def test_fio_reads_to_the_last_byte_that_must_be_there_and_fails_with_one_less(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "open", "f"), Call(0, 1, "write", "f", 0, 100), Call(0, 2, "read", "f", 50, 1000)])
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    assert logs.sizes_bytes == {"f": 1050}
    lay_out(tmp_path / "files", logs.sizes_bytes.items())
    replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "files")
    lay_out(tmp_path / "short", [("f", 1049)])
    with pytest.raises(AssertionError):
        replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "short")


def test_what_the_process_has_written_itself_need_not_be_there() -> None:
    def needed(*calls: Call) -> int:
        job = replaying._OnFiles(replaying._Names(""))
        for call in calls:
            list(job.lines(call))
        return job.needed_bytes.get("f", 0)

    wrote = [Call(0, 0, "write", "f", 0, 10), Call(0, 0, "write", "f", 20, 10), Call(0, 0, "pwrite64", "f", 5, 15)]
    assert needed(*wrote, Call(0, 0, "read", "f", 0, 30)) == 0
    assert needed(*wrote[:2], Call(0, 0, "read", "f", 0, 30)) == 30
    assert needed(Call(0, 0, "read", "f", 0, 30), *wrote) == 30


def test_files_are_opened_once_though_descriptors_are_many(tmp_path: Path) -> None:
    """fio aborts on an open of what is open, and does not read what was not opened."""
    trace = trace_of(
        [
            Call(0, 0, "open", "f"),
            Call(0, 1, "openat", "f"),
            Call(0, 2, "write", "f", 0, 10),
            Call(0, 3, "dup", "f"),
            Call(0, 4, "close", "f"),
            Call(0, 5, "close", "f"),
            Call(0, 6, "write", "f", 10, 10),
            Call(0, 7, "close", "f"),
            Call(0, 8, "close", "f"),
            Call(0, 9, "read", "f", 0, 10),  # by a descriptor from before the trace
        ]
    )
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    assert [line.split()[1] for line in logs.logs[0].read_text().splitlines()[1:]] == [
        *("add", "open", "write", "write", "close", "open", "read", "close")
    ]
    lay_out(tmp_path / "files", logs.sizes_bytes.items())
    assert moved(replayed(logs.job_file({}), tmp_path / "files")) == [(1, 10, 2, 20)]


def test_fsync_and_fdatasync_reach_fio(tmp_path: Path) -> None:
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


def test_requests_of_no_bytes_truncations_and_seeks_are_left_out(tmp_path: Path) -> None:
    trace = trace_of(
        [
            Call(0, 0, "write", "f", 0, 0),
            Call(0, 1, "ftruncate", "f", 5),
            Call(0, 2, "lseek", "f", 9),
            Call(0, 3, "write", "f", 9, 1),
        ]
    )
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    (tmp_path / "files").mkdir()
    assert moved(replayed(logs.job_file({}), tmp_path / "files")) == [(0, 0, 1, 1)]


def test_with_times_fio_waits_for_them(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "write", "f", 0, 9), Call(0, 400_000_000, "write", "f", 9, 9)])
    (tmp_path / "files").mkdir()
    for timed, least_ms, most_ms in ((True, 390, 30_000), (False, 0, 300)):
        logs = replaying.to_iologs(trace, tmp_path / f"logs-{timed}", timed=timed)
        [job] = replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "files")
        assert least_ms <= job["job_runtime"] <= most_ms


def test_names_that_fio_could_not_read_get_plain_ones_of_their_own(tmp_path: Path) -> None:
    files = ["/a b/c", "/a:b/c", "a_b/c", "ü", "/" + "x" * 300, "/" + "x" * 301]
    trace = trace_of([Call(0, at, "write", file, 0, 10 + at) for at, file in enumerate(files)])
    logs = replaying.to_iologs(trace, tmp_path / "logs")
    (tmp_path / "files").mkdir()
    replayed(logs.job_file({"ioengine": "psync"}), tmp_path / "files")
    there = {path.name: path.stat().st_size for path in (tmp_path / "files").iterdir()}
    assert [there[logs.names[file]] for file in files] == [10, 11, 12, 13, 14, 15]


def test_files_lie_where_the_caller_says(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    trace = trace_of([Call(0, 0, "write", "f", 0, 9)])
    logs = replaying.to_iologs(trace, tmp_path / "logs", within=f"{tmp_path}/there/")
    replayed(logs.job_file({}), tmp_path)
    assert (tmp_path / "there" / "f").stat().st_size == 9


def test_a_bare_drive_holds_all_files_one_after_another(tmp_path: Path) -> None:
    trace = trace_of(
        [
            Call(0, 0, "write", "a", 0, 5000),
            Call(1, 0, "write", "b", 4000, 200),
            Call(1, 1, "read", "a", 0, 1),
            Call(1, 2, "fsync", "a"),
        ]
    )
    logs = replaying.to_drive_iologs(trace, tmp_path / "logs", offset_bytes=2**20)
    lines = [logs.logs[process].read_text().splitlines()[1:] for process in (0, 1)]
    begin = 2**20
    assert lines[0] == ["drive add", "drive open", f"drive write {begin} 8192", "drive close"]
    assert lines[1][2:] == [
        f"drive write {begin + 8192} 8192",
        f"drive read {begin} 4096",
        "drive sync 0 0",
        "drive close",
    ]
    assert logs.sizes_bytes == {"drive": begin + 8192 + 8192}
    os.truncate(os.open(tmp_path / "dev", os.O_CREAT | os.O_RDWR), logs.sizes_bytes["drive"])
    jobs = replayed(logs.job_file({"thread": 1, "ioengine": "psync", "replay_redirect": "dev"}), tmp_path)
    assert moved(jobs) == [(0, 0, 1, 8192), (1, 4096, 1, 8192)]


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    trace = stand_ins.stand_in("Sandia-cth")
    first, second = (replaying.to_iologs(trace, tmp_path / name, processes=[0, 31]) for name in ("1", "2"))
    assert [path.name for path in first.logs.values()] == ["Sandia-cth.00.log", "Sandia-cth.31.log"]
    for process in (0, 31):
        assert first.logs[process].read_bytes() == second.logs[process].read_bytes()


@pytest.mark.parametrize(
    ("calls", "processes", "why"),
    [
        ([Call(0, 0, "write", "f", 0, 9)], [0, 7], "mine: process 7 is not in it, or reads and writes nothing"),
        ([Call(0, 0, "open", "f")], None, "mine: its processes read and write nothing"),
    ],
)
def test_what_cannot_be_replayed_is_told_and_leaves_nothing(
    calls: list[Call], processes: list[int] | None, why: str, tmp_path: Path
) -> None:
    with pytest.raises(CallsError, match=why):
        replaying.to_iologs(trace_of(calls), tmp_path / "logs", processes=processes)
    assert list((tmp_path / "logs").iterdir()) == []


def test_folders_and_names_that_fio_would_split_are_refused(tmp_path: Path) -> None:
    trace = trace_of([Call(0, 0, "write", "f", 0, 9)])
    with pytest.raises(CallsError, match="without spaces"):
        replaying.to_iologs(trace, tmp_path, within="a b/")
    with pytest.raises(CallsError, match="by colons"):
        replaying.to_iologs(trace, tmp_path / "a:b")
