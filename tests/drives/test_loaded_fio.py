"""fio kept loaded for the executions of a twin's cell: the same bytes, and nothing of it left whatever happens."""

import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import patience
import pytest
from support import ROOT, processes_matching

from iopatterns.configuration import config, grid
from iopatterns.measuring import fio
from iopatterns.measuring.cell import MeasureError, measure_cell, measure_cells
from iopatterns.measuring.drives.twin import TwinDrive
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata
from iopatterns.twin import models, running

Spec = Any  # a `records.Specification`, or one that a test has spoilt


@pytest.fixture(autouse=True)
def in_folder(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run each test in a folder of its own: a twin's state folder lies below the working directory."""
    monkeypatch.chdir(disk_folder)
    return disk_folder


def sample() -> list[grid.Cell]:
    """Return a cell of each experiment of each study, of a drive that varies: all that fio is ever asked to do."""
    conf = config.load_config(ROOT, {"runtime": "200 ms"})
    chosen: dict[tuple[str, str], list[grid.Cell]] = {}
    for study in conf.studies:
        for cell in grid.expand_grid(conf, study):
            if "replay" in cell.specification:  # of a trace, without fio
                continue
            chosen.setdefault((study, cell.experiments[0]), []).append(cell)
    return [found[(7 * number) % len(found)] for number, found in enumerate(chosen.values())]


def raws(folder: Path, specification: Spec, count: int) -> list[Path]:
    cell = folder / f"twin/study/x-{cells.specification_digest(specification)[:8]}"
    return [cell / f"{execution:02d}.json" for execution in range(1, count + 1)]


@pytest.mark.parametrize("cell", sample(), ids=lambda cell: cell.folder.rpartition("-")[0])
def test_raw_files_are_those_of_twin_run(cell: grid.Cell, disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = raws(disk_folder, cell.specification, 2)
    measure_cell(disk_folder, cell.specification, found)
    loaded = [raw.read_bytes() for raw in found]
    shutil.rmtree(found[0].parent)
    # the command line that the sidecar tells, by which a user would have the same
    monkeypatch.setattr(TwinDrive, "run", lambda _, argv, expected_s: fio.run_fio(argv, expected_s))
    measure_cell(disk_folder, cell.specification, found)
    assert [raw.read_bytes() for raw in found] == loaded


def twin_cell(**options: Any) -> Spec:
    drive = {"kind": "twin", "model": "px05smb040", "name": "twin", "file_size_bytes": 64 * 2**20}
    return {
        "protocol": 2,
        "runtime_ms": 500,
        "warmup_ms": 0,
        "seed": 1,
        "drive": {**drive, "model_digest": models.load_model("px05smb040").digest},
        "fio": {"rw": "randread", "bs": 4096, "ioengine": "psync", "direct": 1, "group_reporting": 1, **options},
    }


def start(found: list[Path], specification: Spec) -> "subprocess.Popen[str]":
    words = ["measure", "--specification", json.dumps(specification), *map(str, found)]
    return subprocess.Popen([sys.executable, "-m", "iopatterns", *words], stderr=subprocess.PIPE, text=True)


def begin(found: list[Path], specification: Spec) -> "subprocess.Popen[str]":
    """Start measuring; when this returns, it has come as far as the cell's folder."""
    process = start(found, specification)
    patience.wait_for(found[0].parent.exists)
    return process


def children(parent: int) -> list[int]:
    """Return the processes that a process has started and that have not ended (proc(5), /proc/pid/stat)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, number, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(number) == parent and state != "Z":
            found.append(int(stat.parent.name))
    return found


def loaded_fio(measuring: int) -> int:
    """Return the number of the fio that is kept loaded, once there is one and it runs an execution."""

    def find() -> list[int]:
        return [number for number in children(measuring) if _is_fio(number) and children(number)]

    patience.wait_for(find)
    return find()[0]


def _is_fio(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/comm").read_text() == "fio\n"
    except OSError:
        return False


def family(measuring: int) -> set[int]:
    """Return all processes below the measuring one."""
    found, waiting = set(), [measuring]
    while waiting:
        below = children(waiting.pop())
        found |= set(below)
        waiting += below
    return found


def check_whole(found: list[Path]) -> list[Path]:
    """See that the raw files that are there are whole, and return them."""
    there = [raw for raw in found if raw.exists()]
    for raw in there:
        assert json.loads(raw.read_text())["jobs"]
        read_metadata(raw)
    return there


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_any_moment_leaves_no_fio_and_no_half_raw_file(number: signal.Signals, disk_folder: Path) -> None:
    specification = twin_cell()
    count, points = 6, 5
    chance = random.Random(number.name)
    wanted = raws(disk_folder / "undisturbed", specification, count)
    process = begin(wanted, specification)
    clock = time.monotonic()
    patience.wait(process, 60)
    lasts_s = time.monotonic() - clock
    for point in range(1, points + 1):
        found = raws(disk_folder / f"point{point}", specification, count)
        process = begin(found, specification)
        time.sleep(lasts_s * (point - chance.random()) / points)
        below = family(process.pid)
        process.send_signal(number)
        _, said = patience.communicate(process, 30)
        assert "Traceback" not in said
        assert process.returncode in {0, -number, 128 + number}
        of_cell = str(found[0].parent)
        patience.wait_for(functools.partial(_is_gone, below, of_cell))
        before = {raw: raw.read_bytes() for raw in check_whole(found)}
        # the next run keeps what is there, measures the rest, and clears away what was left
        measure_cell(disk_folder, specification, found)
        assert [raw.read_bytes() for raw in found] == [raw.read_bytes() for raw in wanted]
        assert all(raw.read_bytes() == content for raw, content in before.items())
        assert not list(found[0].parent.glob(".*"))


def _is_gone(processes: set[int], cell: str) -> bool:
    """Return whether no fio is left among some processes, and none at all that has a cell in its command line."""
    return not processes & set(_running()) and not processes_matching(cell)


def _running() -> list[int]:
    """Return the numbers of all processes of the name fio."""
    return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _is_fio(int(path.name))]


@pytest.mark.parametrize("which", ["the one that is loaded", "the execution"])
def test_fio_that_is_killed_is_told_and_measured_when_run_again(which: str, disk_folder: Path) -> None:
    specification = {**twin_cell(), "runtime_ms": 60_000}
    found = raws(disk_folder, specification, 1)
    process = start(found, specification)
    loaded = loaded_fio(process.pid)
    execution = children(loaded)[0]
    os.kill(loaded if which == "the one that is loaded" else execution, signal.SIGKILL)
    _, said = patience.communicate(process, 30)
    assert process.returncode == 1
    assert "fio was killed by signal 9" in said
    assert "Command: twin run px05smb040 --state" in said
    assert list(found[0].parent.iterdir()) == []
    patience.wait_for(functools.partial(_has_ended, execution))


def _has_ended(number: int) -> bool:
    return not _is_fio(number)


def test_an_execution_that_fails_is_told_with_fio_s_words_and_the_next_ones_run(disk_folder: Path) -> None:
    bad = twin_cell(random_distribution="nonsense")
    with pytest.raises(fio.FioError, match=r"(?s)failed with exit status 1.*nonsense"):
        measure_cell(disk_folder, bad, raws(disk_folder, bad, 1))
    good = twin_cell()
    assert measure_cell(disk_folder, good, raws(disk_folder, good, 1)) == 1


def test_what_a_twin_cannot_serve_is_told_by_name(disk_folder: Path) -> None:
    specification = twin_cell(ioengine="io_uring", iodepth=4)
    with pytest.raises(fio.FioError, match=r"drive 'twin' \(twin px05smb040\): ioengine=io_uring cannot be served"):
        measure_cell(disk_folder, specification, raws(disk_folder, specification, 1))


def test_a_stranger_under_fio_s_name_is_told(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = disk_folder / "bin/fio"
    stranger.parent.mkdir()
    stranger.write_text('#!/bin/sh\n[ "$1" = --version ] || { echo "who is fio?"; exit 3; }\n')
    stranger.chmod(0o755)
    monkeypatch.setenv("PATH", f"{stranger.parent}:{os.environ['PATH']}")
    specification = twin_cell()
    with pytest.raises(fio.FioError, match=r"(?s)failed with exit status 3. It printed:.*who is fio\?"):
        measure_cell(disk_folder, specification, raws(disk_folder, specification, 1))


def test_a_script_that_starts_fio_passes_on_what_it_is_given(
    disk_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    specification = twin_cell()
    direct, through = (raws(disk_folder / name, specification, 2) for name in ("direct", "through"))
    measure_cell(disk_folder, specification, direct)
    script = disk_folder / "bin/fio"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shutil.which("fio")} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}:{os.environ['PATH']}")
    measure_cell(disk_folder, specification, through)
    assert [raw.read_bytes() for raw in through] == [raw.read_bytes() for raw in direct]


def test_fio_that_makes_no_request_ends_with_a_message(disk_folder: Path) -> None:
    environment = running.prepare_environment("px05smb040", str(disk_folder / "state"))
    job = ["fio", "--name=job", "--filename={drive}", "--size=4k", "--rw=write", "--create_only=1"]
    loaded = fio.FioForkServer(environment)
    try:
        with pytest.raises(fio.FioError, match="made no request on the drive"):
            loaded.run(running.command_on_drive(job, environment), 1, job)
    finally:
        loaded.close()


def test_a_job_of_several_cells_measures_those_that_lack_something(disk_folder: Path) -> None:
    specifications = [twin_cell(bs=size) for size in (4096, 8192, 16384)]
    found = [raws(disk_folder, specification, 2) for specification in specifications]
    measure_cell(disk_folder, specifications[1], found[1])
    found[1][0].unlink()
    before = {raw: raw.stat().st_mtime_ns for raw in [found[1][1]]}
    words = [f"--specification={json.dumps(specification)}" for specification in specifications]
    words += [str(raw) for raws_of_cell in found for raw in raws_of_cell]
    done = patience.run([sys.executable, "-m", "iopatterns", "measure", *words], 60, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    told = [line.split(":")[1].split(" in ")[0] for line in done.stderr.splitlines()]
    assert told == [" 2 executions", " 1 executions", " 2 executions"]
    assert all(len(check_whole(raws_of_cell)) == 2 for raws_of_cell in found)
    assert {raw: raw.stat().st_mtime_ns for raw in before} == before


def test_a_cell_that_cannot_be_measured_ends_the_job_and_what_is_measured_is_kept(disk_folder: Path) -> None:
    specifications = [twin_cell(), twin_cell(random_distribution="nonsense"), twin_cell(bs=8192)]
    first, second, third = (raws(disk_folder, specification, 1)[0] for specification in specifications)
    with pytest.raises(fio.FioError, match="nonsense"):
        measure_cells(disk_folder, specifications, [first, second, third])
    assert first.exists()
    assert not second.exists()
    assert not third.exists()


def test_raw_files_of_no_specification_given_are_told(disk_folder: Path) -> None:
    with pytest.raises(MeasureError, match="x-00000000: the folder's name is not that of a specification given"):
        measure_cells(disk_folder, [twin_cell()], [disk_folder / "twin/study/x-00000000/01.json"])
