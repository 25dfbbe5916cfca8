"""Shares of a default run's time: fio, measuring, analysis, report, Snakemake."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ROOT, SNAKEMAKE, copy_project

from iopatterns.measuring import progress
from iopatterns.workflow.planned_cells import PROGRESS_FILE


def main() -> None:
    """Run the default configuration in a copy of the project without results; print shares and overheads."""
    parent = ROOT / "data/scratch"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        project = copy_project(Path(folder) / "project")
        (project.root / "config/config.yaml").write_bytes((ROOT / "config/config.yaml").read_bytes())
        start_s, start = time.time(), time.perf_counter()
        subprocess.run(SNAKEMAKE, cwd=project.root, check=True, capture_output=True)
        wall_s = time.perf_counter() - start
        parts_s = progress.seconds_by_part(project.root / PROGRESS_FILE, start_s)
        sidecars = [json.loads(path.read_text()) for path in (project.root / "data/raw").glob("*/*/*/*.sidecar.json")]
    walls_s = [sidecar["wall_s"] for sidecar in sidecars if "wall_s" in sidecar]
    fio_s = sum(walls_s)
    print(f"fio: {fio_s / wall_s:.2f} of the run, {1000 * fio_s / len(walls_s):.1f} ms per repetition")
    for part, seconds in parts_s.items():
        print(f"{part}: {seconds / wall_s:.2f} of the run")
    print(f"Snakemake itself: {1 - sum(parts_s.values()) / wall_s:.2f} of the run")
    print(f"overhead of measuring: {parts_s['measuring'] / fio_s - 1:.2f} of the time in fio")
    print(f"overhead of everything: {wall_s / fio_s - 1:.2f} of the time in fio")


if __name__ == "__main__":
    main()
