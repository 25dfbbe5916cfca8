"""Time, memory and files of planning 100,000 repetitions on simulated drives and measuring 10,000."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ROOT, SNAKEMAKE, Project, copy_project

from iopatterns.workflow import batches
from iopatterns.workflow.planned_cells import load_cells

MODEL = "px05smb040"
STUDY = "tiny"
DRIVES = 10
REPETITIONS = 10
MILLION = 1_000_000
_MB = 1e6


class Cost(NamedTuple):
    """The cost of a run of Snakemake: wall and processor time in seconds, and peak memory in bytes."""

    wall_s: float
    processor_s: float
    memory_bytes: int

    def __str__(self) -> str:
        return f"{self.wall_s:.0f} s ({self.processor_s:.0f} s of processor time), {self.memory_bytes / _MB:.0f} MB"


def fleet(root: Path, executions: int) -> Project:
    """Return a project with a study of ``executions`` repetitions: ten of each cell, on ten drives."""
    project = copy_project(root)
    drives = [f"drive{number}" for number in range(DRIVES)]
    project.edit("config/drives.yaml", **{drive: {"kind": "twin", "model": MODEL} for drive in drives})
    values = {"repetitions": REPETITIONS, "runtime": "20 ms", "file_size": "64 MiB"}
    project.edit("config/config.yaml", drives=drives, **values)
    sizes = executions // REPETITIONS // DRIVES // 2
    vary = {"rw": ["read", "randread"], "bs": [str(512 * number) for number in range(1, sizes + 1)]}
    project.edit(f"config/studies/{STUDY}.yaml", experiments={"fleet": {"vary": vary}})
    return project


def cost(project: Project, *words: str) -> Cost:
    """Run Snakemake in a project; return its cost, without the memory of the jobs that it started."""
    started = time.perf_counter()
    with subprocess.Popen(
        [*SNAKEMAKE, *words], cwd=project.root, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(said)
    return Cost(time.perf_counter() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def pretend_measured(project: Project) -> None:
    """Make all raw files of a project as empty files, because a plan reads only their names and times."""
    cells = load_cells(project.root)
    for raw in cells.raw_files(cells.of_study(STUDY)):
        path = project.root / raw
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def main() -> None:
    """Print the costs of both sizes, and of a million repetitions by proportion."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--planned", type=int, default=100_000, help="executions that are planned")
    parser.add_argument("--measured", type=int, default=10_000, help="executions that are measured")
    arguments = parser.parse_args()
    parent = ROOT / "data/scratch"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        project = fleet(Path(folder) / "planned", arguments.planned)
        cells, jobs = load_cells(project.root), batches.study_batches(load_cells(project.root), STUDY)
        raws, declared = (files(cells.of_study(STUDY)) for files in (cells.raw_files, cells.declared_outputs))
        print(f"{len(raws):,} repetitions, {len(declared):,} files that Snakemake knows, {len(jobs):,} jobs")
        first = cost(project, "-n", f"measure_{STUDY}")
        print(f"planning them (snakemake -n): {first}")
        pretend_measured(project)
        second = cost(project, "-n", f"measure_{STUDY}")
        print(f"planning again when all files exist: {second}")

        project = fleet(Path(folder) / "measured", arguments.measured)
        ran = cost(project, f"measure_{STUDY}")
        files = [path.stat() for path in (project.root / "data/raw").glob("*/*/*/*.json")]
        stored_bytes = sum(state.st_blocks for state in files) * 512
        each_ms = 1000 * ran.wall_s / arguments.measured
        print(f"measuring {arguments.measured:,}: {ran.wall_s:.0f} s on one core, {each_ms:.0f} ms each")
        print(f"they leave {len(files):,} files, {stored_bytes / _MB:,.0f} MB on disk")
    more, of_measured = MILLION / arguments.planned, MILLION / arguments.measured
    memory_mb = more * first.memory_bytes / _MB
    print(
        f"a million, by proportion: planned in {more * first.wall_s:.0f} s with {memory_mb:,.0f} MB;"
        f" {of_measured * len(files):,.0f} files, {of_measured * stored_bytes / 1e9:,.0f} GB;"
        f" {of_measured * ran.wall_s / 3600:.0f} hours of one core"
    )


if __name__ == "__main__":
    main()
