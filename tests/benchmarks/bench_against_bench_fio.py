"""Time and rates of `iopatterns bench` and of bench-fio with fio-plot, for the same grid on the same file.

The benchmark installs the package fio-plot, which has bench-fio, into a temporary environment. Both programs run
without a warm-up; `iopatterns bench` draws six figures, fio-plot one for each block size. Then bench-fio reads a file
that was never written, which `iopatterns bench` never does.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pandas as pd
from support import ROOT, Project, copy_project

SIZES, DEPTHS, JOBS, RUNTIME_S, FILE_MIB = ("4k", "64k"), ("1", "8"), ("1", "2"), 3, 256
FILE = "data/scratch/scratch.bin"
LITTLE = ("--repetitions", "1", "--file-size", f"{FILE_MIB}MiB")


def run(command: Sequence[str | Path], folder: Path) -> float:
    """Run a command; return its wall time in seconds."""
    start = time.perf_counter()
    done = subprocess.run(
        list(map(str, command)), cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}")
    return time.perf_counter() - start


def install(folder: Path) -> Path:
    """Install fio-plot into a new environment in ``folder``; return the folder of its programs."""
    uv = (sys.executable, "-m", "uv", "--quiet")
    run((*uv, "venv", folder / "venv"), folder)
    run((*uv, "pip", "install", "--python", folder / "venv/bin/python", "fio-plot"), folder)
    return folder / "venv/bin"


def ours(project: Project, sizes: Sequence[str], depths: Sequence[str], jobs: Sequence[str], runtime: str) -> float:
    """Measure the grid with `iopatterns bench`; return the wall time in seconds."""
    grid = ("--rw", "randread", "--bs", ",".join(sizes), "--iodepth", ",".join(depths), "--numjobs", ",".join(jobs))
    command = (sys.executable, "-m", "iopatterns", "bench", "--drive", "scratch", *grid, "--runtime", runtime)
    return run((*command, *LITTLE), project.root)


def theirs(programs: Path, file: Path, output: Path) -> float:
    """Measure the grid with bench-fio and draw it with fio-plot; return the wall time in seconds."""
    grid = ("--mode", "randread", "--block-size", *SIZES, "--iodepth", *DEPTHS, "--numjobs", *JOBS)
    about = ("--target", file, "--type", "file", "--size", f"{FILE_MIB}m", "--runtime", str(RUNTIME_S), "--time-based")
    took_s = run((programs / "bench-fio", *about, *grid, "--output", output, "--quiet"), output.parent)
    for size in SIZES:
        results = next(output.glob(f"**/{size}"))
        graph = ("-i", results, "-T", size, "-L", "-t", "iops", "-r", "randread", "-o", output / f"{size}.png")
        took_s += run((programs / "fio-plot", *graph), output)
    return took_s


def rates_of_bench_fio(output: Path) -> dict[tuple[str, int, int], float]:
    """Return the IOPS that bench-fio measured, by block size, depth and jobs."""
    found = {}
    for path in output.glob("**/*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        options = {**content.get("global options", {}), **content["jobs"][0]["job options"]}
        key = (options["bs"], int(options["iodepth"]), int(options["numjobs"]))
        found[key] = sum(job["read"]["iops"] for job in content["jobs"])
    return found


def rates_of_ours(project: Project) -> dict[tuple[str, int, int], float]:
    """Return the IOPS that `iopatterns bench` measured, by block size, depth and jobs."""
    found = {}
    for path in (project.root / "results/bench").glob("*/tables/bench.csv"):
        for row in pd.read_csv(path).to_dict("records"):
            if {"iodepth", "numjobs"} <= row.keys():
                key = (f"{row['bs_bytes'] // 1024}k", int(row["iodepth"]), int(row["numjobs"]))
                found[key] = row["iops_mean"]
    return found


def main() -> None:
    """Print the wall times, their ratio, and the rates."""
    parent = ROOT / "data/scratch"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        programs = install(folder)
        project = copy_project(folder / "project")
        project.edit("config/config.yaml", warmup="0 s")
        written_s = ours(project, SIZES[:1], DEPTHS[:1], JOBS[:1], "100ms")
        # bench-fio runs before and after, so that the warming up of the machine favours neither program
        before, after = folder / "before", folder / "after"
        before.mkdir()
        after.mkdir()
        theirs_s = theirs(programs, project.root / FILE, before)
        ours_s = ours(project, SIZES, DEPTHS, JOBS, f"{RUNTIME_S}s")
        theirs_s = (theirs_s + theirs(programs, project.root / FILE, after)) / 2
        unwritten = folder / "unwritten.bin"
        with open(unwritten, "wb") as file:
            file.truncate(FILE_MIB * 2**20)
        (folder / "of-unwritten").mkdir()
        theirs(programs, unwritten, folder / "of-unwritten")
        here, first, second = rates_of_ours(project), rates_of_bench_fio(before), rates_of_bench_fio(after)
        there = {cell: (first[cell] + second[cell]) / 2 for cell in first.keys() & second.keys()}
        nothing = rates_of_bench_fio(folder / "of-unwritten")
    cells = sorted(here.keys() & there.keys(), key=lambda cell: (len(cell[0]), *cell))
    if len(cells) != len(SIZES) * len(DEPTHS) * len(JOBS):
        sys.exit(f"the two have {len(cells)} cells in common: {sorted(here)} and {sorted(there)}")
    print(f"{len(cells)} cells of {RUNTIME_S} s each on the same file of {FILE_MIB} MiB")
    print(f"writing the file, and its first cell: {written_s:.1f} s")
    print(f"iopatterns bench: {ours_s:.1f} s, with its table and figures")
    print(f"bench-fio and fio-plot: {theirs_s:.1f} s, the mean of one run before and one after")
    print(f"iopatterns bench against bench-fio: {ours_s / theirs_s:.2f} x the time")
    for cell in cells:
        rates = f"{here[cell]:,.0f} IOPS, bench-fio {there[cell]:,.0f}, on a file never written {nothing[cell]:,.0f}"
        print(f"randread {cell[0]}, depth {cell[1]}, jobs {cell[2]}: {rates}")
    ratio = statistics.median(here[cell] / there[cell] for cell in cells)
    print(f"median of the ratios of the rates: {ratio:.2f}")
    lie = statistics.median(nothing[cell] / there[cell] for cell in cells)
    print(f"bench-fio on a file never written: {lie:.1f} x the rate of the written file, in the median")


if __name__ == "__main__":
    main()
