"""An execution that was stopped or held up is no measurement: it is run again, or told."""

import functools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import file_cell, processes_matching

from iopatterns.base import files
from iopatterns.measuring import fio
from iopatterns.measuring.cell import measure_cell
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata

Spec = Any  # a `records.Specification`, or one that a test has spoilt
RUNTIME_MS = 1000


def _is_empty(group: Path) -> bool:
    """Return whether no process is left in a control group."""
    return not (group / "cgroup.procs").read_text()


@pytest.fixture
def spec(disk_folder: Path) -> Spec:
    """A random read of one second, on a file that is laid out already."""
    found = file_cell(disk_folder) | {"runtime_ms": 20}
    measure_cell(disk_folder, found, [raw_of(disk_folder, found)])
    return {**found, "runtime_ms": RUNTIME_MS}


def raw_of(folder: Path, spec: Spec) -> Path:
    return folder / f"data/raw/test/study/cell-{cells.specification_digest(spec)[:8]}/01.json"


def start(folder: Path, spec: Spec, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "iopatterns", "measure", "--specification", json.dumps(spec)]
    command.append(str(raw_of(folder, spec)))
    return subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True, **options)


def wait_for(find: Callable[[], Any], seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
    return found


def fio_of(folder: Path, spec: Spec, but: int | None = None) -> int:
    """Return the number of the fio process of the execution, once it does I/O; of another than ``but`` where given."""
    partial = str(files.partial_path(raw_of(folder, spec)))

    def find() -> list[int]:
        # the process is a copy of Python before it is fio
        return [
            number
            for number in processes_matching(partial)
            if number != but and name_of(number) == "fio" and reads(number)
        ]

    return int(wait_for(find)[0])


def name_of(number: int) -> str:
    try:
        return Path(f"/proc/{number}/comm").read_text().strip()
    except OSError:
        return ""


def reads(number: int) -> bool:
    """Return whether a process has read a mebibyte from a disk (proc(5), /proc/pid/io)."""
    try:
        counts = dict(line.split(": ") for line in Path(f"/proc/{number}/io").read_text().splitlines())
    except OSError:
        return False
    return int(counts["rchar"]) > 2**20


def state_of(number: int) -> str:
    """Return the letter of a process's state: T for stopped, Z for ended (proc(5), /proc/pid/stat)."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def stop(number: int, seconds: float) -> None:
    os.kill(number, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(number, signal.SIGCONT)


def is_whole(folder: Path, spec: Spec, held_up: str) -> None:
    """See that the raw file is of an undisturbed try, and that the sidecar tells of the one before."""
    raw = raw_of(folder, spec)
    (job,) = json.loads(raw.read_text())["jobs"]
    assert 0.9 * RUNTIME_MS <= job["read"]["runtime"] < 1.5 * RUNTIME_MS
    told = read_metadata(raw)["held_up"]
    assert told
    assert held_up in told[0]


@pytest.mark.parametrize("seconds", [0.3, 6.0])
def test_fio_that_was_stopped_is_run_again(seconds: float, spec: Spec, disk_folder: Path) -> None:
    running = start(disk_folder, spec)
    stop(fio_of(disk_folder, spec), seconds)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    (line,) = [line for line in said.splitlines() if "not kept" in line]
    assert "01.json: not kept, for fio was stopped by a signal for a while. Measuring it again, try 2 of 3." in line
    is_whole(disk_folder, spec, "was stopped by a signal")


def test_fio_that_is_stopped_each_time_is_told(spec: Spec, disk_folder: Path) -> None:
    running = start(disk_folder, spec)
    number = None
    for _ in range(3):
        number = fio_of(disk_folder, spec, but=number)
        stop(number, 0.1)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "01.json: not measured: each of 3 tries was held up, the last one thus: fio was stopped" in said
    assert "Traceback" not in said
    assert list(raw_of(disk_folder, spec).parent.iterdir()) == []


def test_a_stop_of_both_that_only_the_parent_outlives_is_known(spec: Spec, disk_folder: Path) -> None:
    running = start(disk_folder, spec)
    number = fio_of(disk_folder, spec)
    os.kill(running.pid, signal.SIGSTOP)
    stop(number, 0.3)
    wait_for(lambda: state_of(number) == "Z")
    os.kill(running.pid, signal.SIGCONT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert "try 2 of 3" in said
    is_whole(disk_folder, spec, "ran while the measuring process itself was stopped")


@pytest.fixture
def freezer() -> Iterator[Path]:
    """A control group whose processes can be frozen; of version 1 or 2, wherever either may be made."""
    for base in (Path("/sys/fs/cgroup/freezer"), Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        group = base / f"iopatterns-test-{os.getpid()}"
        try:
            group.mkdir()
        except OSError:
            continue
        if (group / "freezer.state").exists() or (group / "cgroup.freeze").exists():
            try:
                yield group
            finally:
                wait_for(functools.partial(_is_empty, group))
                group.rmdir()
            return
        group.rmdir()
    pytest.skip("no control group can be made here (as root, with cgroups)")


def freeze(group: Path, number: int, seconds: float) -> None:
    (group / "cgroup.procs").write_text(str(number))
    file, on, off = ("freezer.state", "FROZEN", "THAWED") if (group / "freezer.state").exists() else (
        "cgroup.freeze", "1", "0"
    )  # fmt: skip
    (group / file).write_text(on)
    time.sleep(seconds)
    (group / file).write_text(off)


def test_fio_that_was_frozen_is_run_again(freezer: Path, spec: Spec, disk_folder: Path) -> None:
    running = start(disk_folder, spec)
    freeze(freezer, fio_of(disk_folder, spec), 6)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said
    assert "not kept, for fio ran for " in said
    is_whole(disk_folder, spec, "ms where 1000 ms were asked for, and its last requests explain no more than")


def test_a_machine_that_was_suspended_is_known(
    spec: Spec, disk_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # nothing here may suspend the machine that tests run on
    clock_gettime, begun = time.clock_gettime, time.monotonic()

    def clock(number: int) -> float:
        slept_s = 90.0 if number == time.CLOCK_BOOTTIME and time.monotonic() > begun + 0.5 else 0.0
        return clock_gettime(number) + slept_s

    monkeypatch.setattr(time, "clock_gettime", clock)
    measure_cell(disk_folder, spec, [raw_of(disk_folder, spec)])
    assert "fio ran while the machine was suspended for 90.0 s. Measuring it again" in capsys.readouterr().err
    is_whole(disk_folder, spec, "suspended for 90.0 s")


def test_an_undisturbed_execution_is_not_run_again(spec: Spec, disk_folder: Path) -> None:
    measure_cell(disk_folder, spec, [raw_of(disk_folder, spec)])
    assert read_metadata(raw_of(disk_folder, spec))["held_up"] == []


def test_a_parent_that_ignores_the_end_of_its_children_changes_nothing(spec: Spec, disk_folder: Path) -> None:
    spec["fio"]["random_distribution"] = "nonsense"
    running = start(disk_folder, spec, preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "fio failed with exit status" in said


# ---- How late fio may end


def written(folder: Path, runtime_ms: int, total_ios: int) -> Path:
    """Write what fio writes of an execution of so many milliseconds and requests."""
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
        (1, 1900, 20_000),  # its last request waited for a drive that collects garbage
        (1, 3000, 2),  # two requests of a second and a half
        (1024, 11_200, 1120),  # a hard disk of 100 IOPS
        (1024, 12_000, 1024),  # it answered those of the beginning and no other
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
        (1024, 12_000, 1120, {"ioengine": "psync"}),  # which has one outstanding, whatever it was asked
    ],
)
def test_an_execution_that_ends_later_than_the_drive_explains_is_none(
    iodepth: int, runtime_ms: int, total_ios: int, options: dict[str, Any], disk_folder: Path
) -> None:
    output = written(disk_folder, runtime_ms, total_ios)
    with pytest.raises(fio.DisturbedError, match=f"fio ran for {runtime_ms} ms where 1000 ms were asked for"):
        fio.check_result(output, of_depth(disk_folder, iodepth, **options), None, UNDISTURBED)


def test_fio_that_takes_long_beside_its_io_is_told(disk_folder: Path) -> None:
    output = written(disk_folder, 1000, 20_000)
    with pytest.raises(fio.DisturbedError, match="fio took 59 s in addition to the 1000 ms of its I/O"):
        fio.check_result(output, of_depth(disk_folder, 1), None, fio.FioOutcome(0.0, 60.0, 60.0))
    buffered = of_depth(disk_folder, 1, direct=0)  # the page cache may have to be written first
    fio.check_result(output, buffered, None, fio.FioOutcome(0.0, 60.0, 60.0))
