"""Repetitions that were stopped or delayed: they are discarded and repeated."""

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from measurements import Spec, measured, raw_files, start
from patience import communicate, wait_for
from support import file_cell, processes_matching

from iopatterns.base import files
from iopatterns.measuring import fio
from iopatterns.raw.metadata_files import read_metadata

RUNTIME_MS = 1000


@pytest.fixture
def spec(disk_folder: Path) -> Spec:
    """Return a random read of one second, on a file that exists already."""
    found = file_cell(disk_folder) | {"runtime_ms": 20}
    measured(disk_folder, found)
    return {**found, "runtime_ms": RUNTIME_MS}


def raw_of(folder: Path, spec: Spec) -> Path:
    return raw_files(folder, spec)[0]


def fio_of(folder: Path, spec: Spec, but: int | None = None) -> int:
    """Wait until fio does I/O; return its process number, which is not ``but``."""
    partial = str(files.partial_path(raw_of(folder, spec)))

    def find() -> list[int]:
        # before it becomes fio, the process is a copy of Python
        return [
            number
            for number in processes_matching(partial)
            if number != but and name_of(number) == "fio" and has_read(number)
        ]

    wait_for(find)
    return find()[0]


def name_of(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text().strip()
    except OSError:
        return ""


def has_read(number: int) -> bool:
    """Return whether a process has read a mebibyte (proc(5), /proc/pid/io)."""
    try:
        counts = dict(line.split(": ") for line in Path(f"/proc/{number}/io").read_text().splitlines())
    except OSError:
        return False
    return int(counts["rchar"]) > 2**20


def state_of(number: int) -> str:
    """Return the state of a process: T for stopped, Z for ended (proc(5))."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stop(number: int, seconds: float) -> None:
    os.kill(number, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(number, signal.SIGCONT)


def require_repeated(folder: Path, spec: Spec, held_up: str) -> None:
    """Require a valid raw file after an attempt that was disturbed for a reason."""
    raw = raw_of(folder, spec)
    (job,) = json.loads(raw.read_text())["jobs"]
    assert 0.9 * RUNTIME_MS <= job["read"]["runtime"] < 1.5 * RUNTIME_MS
    assert held_up in read_metadata(raw)["held_up"][0]


def begin(folder: Path, spec: Spec, **popen: Any) -> Any:
    return start(folder, spec, [raw_of(folder, spec)], **popen)


@pytest.mark.parametrize("seconds", [0.3, 6.0])
def test_a_repetition_in_which_fio_was_stopped_is_repeated(seconds: float, spec: Spec, disk_folder: Path) -> None:
    running = begin(disk_folder, spec)
    stop(fio_of(disk_folder, spec), seconds)
    _, result = communicate(running, 60)
    assert running.returncode == 0, result
    (line,) = [line for line in result.splitlines() if "discarded" in line]
    assert "01.json: discarded: fio was stopped by a signal for a while. Measuring again, attempt 2 of 3." in line
    require_repeated(disk_folder, spec, "was stopped by a signal")


def test_fio_stopped_in_each_attempt_is_an_error(spec: Spec, disk_folder: Path) -> None:
    running = begin(disk_folder, spec)
    number = None
    for _ in range(3):
        number = fio_of(disk_folder, spec, but=number)
        stop(number, 0.1)
    _, printed = communicate(running, 60)
    assert running.returncode == 1
    assert "01.json: not measured: each of 3 attempts was disturbed, at last: fio was stopped" in printed
    assert "Traceback" not in printed
    assert list(raw_of(disk_folder, spec).parent.iterdir()) == []


def test_a_stop_of_fio_is_noticed_by_a_stopped_parent(spec: Spec, disk_folder: Path) -> None:
    running = begin(disk_folder, spec)
    number = fio_of(disk_folder, spec)
    os.kill(running.pid, signal.SIGSTOP)
    stop(number, 0.3)
    wait_for(lambda: state_of(number) == "Z")
    os.kill(running.pid, signal.SIGCONT)
    _, printed = communicate(running, 60)
    assert running.returncode == 0, printed
    assert "attempt 2 of 3" in printed
    require_repeated(disk_folder, spec, "ran while the measuring process itself was stopped")


def test_a_repetition_during_a_suspend_is_repeated(
    spec: Spec, disk_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # a test cannot suspend the machine
    clock_gettime, begun = time.clock_gettime, time.monotonic()

    def clock(number: int) -> float:
        slept_s = 90.0 if number == time.CLOCK_BOOTTIME and time.monotonic() > begun + 0.5 else 0.0
        return clock_gettime(number) + slept_s

    monkeypatch.setattr(time, "clock_gettime", clock)
    measured(disk_folder, spec)
    assert "fio ran while the machine was suspended for 90.0 s. Measuring again" in capsys.readouterr().err
    require_repeated(disk_folder, spec, "suspended for 90.0 s")


def test_an_inherited_ignored_sigchld_has_no_effect(spec: Spec, disk_folder: Path) -> None:
    spec["fio"]["random_distribution"] = "nonsense"
    running = begin(disk_folder, spec, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    _, printed = communicate(running, 60)
    assert running.returncode == 1
    assert "fio failed with exit status" in printed


# ---- How late fio may end


def written(folder: Path, runtime_ms: int, total_ios: int) -> Path:
    """Write a result of fio with this runtime and number of requests; return its path."""
    done = {"io_bytes": 4096 * total_ios, "total_ios": total_ios, "runtime": runtime_ms}
    nothing = {"io_bytes": 0, "total_ios": 0, "runtime": 0}
    job = {"jobname": "x", "error": 0, "read": done, "write": nothing, "trim": nothing}
    output = folder / "out.json"
    output.write_text(json.dumps({"fio version": "fio-3.33", "jobs": [job]}))
    return output


UNDISTURBED = fio.FioOutcome(0.0, 1.0, 1.3)


def of_depth(folder: Path, iodepth: int, **options: Any) -> Spec:
    spec = {**file_cell(folder), "runtime_ms": RUNTIME_MS}
    spec["fio"] |= {"ioengine": "libaio", "iodepth": iodepth, **options}
    return spec


@pytest.mark.parametrize(
    ("iodepth", "runtime_ms", "total_ios"),
    [
        (1, 1000, 20_000),
        (1, 1900, 20_000),  # the last request waited for garbage collection
        (1, 3000, 2),  # two requests of a second and a half
        (1024, 11_200, 1120),  # a hard disk of 100 IOPS
        (1024, 12_000, 1024),  # only the first requests were completed
    ],
)
def test_a_slow_drive_may_end_late(iodepth: int, runtime_ms: int, total_ios: int, disk_folder: Path) -> None:
    output = written(disk_folder, runtime_ms, total_ios)
    assert fio.check_result(output, of_depth(disk_folder, iodepth), None, UNDISTURBED) == 4096 * total_ios


@pytest.mark.parametrize(
    ("iodepth", "runtime_ms", "total_ios", "options"),
    [
        (1, 2100, 20_000, {}),
        (32, 7000, 20_000, {}),
        (1024, 12_000, 100_000, {}),
        (1024, 12_000, 1120, {"ioengine": "psync"}),  # a synchronous engine has one outstanding request
    ],
)
def test_a_repetition_that_ends_later_than_the_drive_explains_is_disturbed(
    iodepth: int, runtime_ms: int, total_ios: int, options: dict[str, Any], disk_folder: Path
) -> None:
    output = written(disk_folder, runtime_ms, total_ios)
    with pytest.raises(fio.DisturbedError, match=f"fio ran for {runtime_ms} ms where 1000 ms were asked for"):
        fio.check_result(output, of_depth(disk_folder, iodepth, **options), None, UNDISTURBED)


def test_long_overhead_is_a_disturbance_of_direct_io_only(disk_folder: Path) -> None:
    output = written(disk_folder, 1000, 20_000)
    with pytest.raises(fio.DisturbedError, match="fio took 59 s in addition to the 1000 ms of its I/O"):
        fio.check_result(output, of_depth(disk_folder, 1), None, fio.FioOutcome(0.0, 60.0, 60.0))
    buffered = of_depth(disk_folder, 1, direct=0)  # the page cache may have to be written first
    fio.check_result(output, buffered, None, fio.FioOutcome(0.0, 60.0, 60.0))
