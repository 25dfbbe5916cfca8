"""The fio process that stays loaded for all repetitions on a simulated drive."""

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
from measurements import Spec, measured, raw_files, start, twin_cell
from support import ROOT, processes_matching

from iopatterns.configuration import config, grid
from iopatterns.measuring import fio
from iopatterns.measuring.cell import MeasureError, measure_cell, measure_cells
from iopatterns.measuring.drives.twin import TwinDrive
from iopatterns.raw.metadata_files import read_metadata
from iopatterns.twin import running


@pytest.fixture(autouse=True)
def in_folder(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run each test in its own folder, which contains the state folder of a twin."""
    monkeypatch.chdir(disk_folder)


def sample() -> list[grid.Cell]:
    """Return a cell of each experiment of each study, on drives that vary."""
    conf = config.load_config(ROOT, {"runtime": "200 ms"})
    chosen: dict[tuple[str, str], list[grid.Cell]] = {}
    for study in conf.studies:
        for cell in grid.expand_grid(conf, study):
            if "replay" not in cell.specification:  # block traces are replayed without fio
                chosen.setdefault((study, cell.experiments[0]), []).append(cell)
    return [found[(7 * number) % len(found)] for number, found in enumerate(chosen.values())]


@pytest.mark.parametrize("cell", sample(), ids=lambda cell: cell.folder.rpartition("-")[0])
def test_raw_files_equal_those_of_twin_run(cell: grid.Cell, disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = measured(disk_folder, cell.specification, 2)
    loaded = [raw.read_bytes() for raw in found]
    shutil.rmtree(found[0].parent)
    # the command line in the metadata, which a user can run
    monkeypatch.setattr(TwinDrive, "run", lambda _, argv, expected_s: fio.run_fio(argv, expected_s))
    measured(disk_folder, cell.specification, 2)
    assert [raw.read_bytes() for raw in found] == loaded


def begin(root: Path, specification: Spec, count: int) -> tuple["subprocess.Popen[str]", list[Path]]:
    """Start measuring, and wait until the folder of the cell exists."""
    found = raw_files(root, specification, count)
    process = start(Path.cwd(), specification, found)
    patience.wait_for(found[0].parent.exists)
    return process, found


def children(parent: int) -> list[int]:
    """Return the running children of a process (proc(5), /proc/pid/stat)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, number, *_ = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(number) == parent and state != "Z":
            found.append(int(stat.parent.name))
    return found


def descendants(process: int) -> set[int]:
    below = children(process)
    return set(below).union(*map(descendants, below))


def is_fio(number: int) -> bool:
    try:
        return Path(f"/proc/{number}/comm").read_text() == "fio\n"
    except OSError:
        return False


def is_gone(processes: set[int], cell: str) -> bool:
    """Return whether no process is fio, and no other process measures a cell."""
    return not any(map(is_fio, processes)) and not processes_matching(cell)


def require_complete(found: list[Path]) -> list[Path]:
    """Return the raw files that exist, after checking that they are complete."""
    existing = [raw for raw in found if raw.exists()]
    for raw in existing:
        assert json.loads(raw.read_text())["jobs"]
        read_metadata(raw)
    return existing


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_at_any_time_leaves_neither_fio_nor_incomplete_raw_files(
    number: signal.Signals, disk_folder: Path
) -> None:
    specification = twin_cell()
    count, points = 6, 5
    chance = random.Random(number.name)
    process, wanted = begin(disk_folder / "undisturbed", specification, count)
    clock = time.monotonic()
    patience.wait(process, 60)
    lasts_s = time.monotonic() - clock
    for point in range(1, points + 1):
        process, found = begin(disk_folder / f"point{point}", specification, count)
        time.sleep(lasts_s * (point - chance.random()) / points)
        below = descendants(process.pid)
        process.send_signal(number)
        _, printed = patience.communicate(process, 30)
        assert "Traceback" not in printed
        assert process.returncode in {0, -number, 128 + number}
        patience.wait_for(functools.partial(is_gone, below, str(found[0].parent)))
        before = {raw: raw.read_bytes() for raw in require_complete(found)}
        # the next run keeps the existing raw files, and deletes temporary files
        measure_cell(disk_folder, specification, found)
        assert [raw.read_bytes() for raw in found] == [raw.read_bytes() for raw in wanted]
        assert all(raw.read_bytes() == content for raw, content in before.items())
        assert not list(found[0].parent.glob(".*"))


@pytest.mark.parametrize("which", ["server", "repetition"])
def test_killed_fio_is_an_error_that_leaves_nothing(which: str, disk_folder: Path) -> None:
    specification = {**twin_cell(), "runtime_ms": 60_000}
    process, found = begin(disk_folder, specification, 1)

    def servers() -> list[int]:
        return [number for number in children(process.pid) if is_fio(number) and children(number)]

    patience.wait_for(servers)
    server = servers()[0]
    repetition = children(server)[0]
    os.kill(server if which == "server" else repetition, signal.SIGKILL)
    _, printed = patience.communicate(process, 30)
    assert process.returncode == 1
    assert "fio was killed by signal 9" in printed
    assert "Command: twin run px05smb040 --state" in printed
    assert list(found[0].parent.iterdir()) == []
    patience.wait_for(lambda: not is_fio(repetition))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"random_distribution": "nonsense"}, r"(?s)failed with exit status 1.*nonsense"),
        (
            {"ioengine": "io_uring", "iodepth": 4},
            r"drive 'twin' \(twin px05smb040\): ioengine=io_uring is not supported",
        ),
    ],
)
def test_the_error_of_a_repetition_contains_the_reason(
    options: dict[str, Any], message: str, disk_folder: Path
) -> None:
    with pytest.raises(fio.FioError, match=message):
        measured(disk_folder, twin_cell(**options))
    assert measured(disk_folder, twin_cell())[0].exists()


def put_in_path(script: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a shell script the program `fio`."""
    program = folder / "bin/fio"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


def test_another_program_with_the_name_fio_is_an_error(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_in_path('[ "$1" = --version ] || { echo "who is fio?"; exit 3; }', disk_folder, monkeypatch)
    with pytest.raises(fio.FioError, match=r"(?s)failed with exit status 3. It printed:.*who is fio\?"):
        measured(disk_folder, twin_cell())


def test_a_script_that_runs_fio_gives_the_same_raw_files(disk_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct = measured(disk_folder / "direct", twin_cell(), 2)
    put_in_path(f'exec {shutil.which("fio")} "$@"', disk_folder, monkeypatch)
    through = measured(disk_folder / "through", twin_cell(), 2)
    assert [raw.read_bytes() for raw in through] == [raw.read_bytes() for raw in direct]


def test_fio_without_requests_is_an_error(disk_folder: Path) -> None:
    environment = running.prepare_environment("px05smb040", str(disk_folder / "state"))
    job = ["fio", "--name=job", "--filename={drive}", "--size=4k", "--rw=write", "--create_only=1"]
    server = fio.FioForkServer(environment)
    try:
        with pytest.raises(fio.FioError, match="made no request on the drive"):
            server.run(running.command_on_drive(job, environment), 1, job)
    finally:
        server.close()


def test_a_job_of_several_cells_measures_only_missing_repetitions(disk_folder: Path) -> None:
    specifications = [twin_cell(bs=size) for size in (4096, 8192, 16384)]
    found = [raw_files(disk_folder, specification, 2) for specification in specifications]
    measure_cell(disk_folder, specifications[1], found[1])
    found[1][0].unlink()
    before_ns = found[1][1].stat().st_mtime_ns
    words = [f"--specification={json.dumps(specification)}" for specification in specifications]
    words += [str(raw) for raws in found for raw in raws]
    done = patience.run([sys.executable, "-m", "iopatterns", "measure", *words], 60, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stderr
    printed = [line.split(":")[1].split(" in ")[0] for line in done.stderr.splitlines()]
    assert printed == [" 2 repetitions", " 1 repetitions", " 2 repetitions"]
    assert all(len(require_complete(raws)) == 2 for raws in found)
    assert found[1][1].stat().st_mtime_ns == before_ns


def test_a_job_of_several_cells_ends_at_the_first_error(disk_folder: Path) -> None:
    specifications = [twin_cell(), twin_cell(random_distribution="nonsense"), twin_cell(bs=8192)]
    raws = [raw_files(disk_folder, specification)[0] for specification in specifications]
    with pytest.raises(fio.FioError, match="nonsense"):
        measure_cells(disk_folder, specifications, raws)
    assert [raw.exists() for raw in raws] == [True, False, False]


def test_a_raw_file_without_specification_is_an_error(disk_folder: Path) -> None:
    with pytest.raises(MeasureError, match="x-00000000: the name of the folder matches none"):
        measure_cells(disk_folder, [twin_cell()], [disk_folder / "twin/study/x-00000000/01.json"])
