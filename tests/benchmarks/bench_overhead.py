"""Run the default configuration in a copy of the project; print its wall time and what of it is not fio's."""

import json
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ROOT, SNAKEMAKE, copy_project


def main() -> None:
    """Print the wall time, the sum of the executions' fio processes, and the rest as a share of the wall time."""
    import tempfile

    parent = ROOT / "data/scratch"
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=parent) as folder:
        project = copy_project(Path(folder) / "project")
        for file in ("config/config.yaml", "config/studies/saif2020.yaml"):
            (project.root / file).write_bytes((ROOT / file).read_bytes())
        start = time.perf_counter()
        subprocess.run(SNAKEMAKE, cwd=project.root, check=True, capture_output=True)
        wall_s = time.perf_counter() - start
        sidecars = [json.loads(path.read_text()) for path in (project.root / "data/raw").glob("*/*/*/*.sidecar.json")]
    walls_s = [sidecar["wall_s"] for sidecar in sidecars if "wall_s" in sidecar]
    fio_s = sum(walls_s)
    print(f"{len(walls_s)} executions: {wall_s:.1f} s in all, {fio_s:.1f} s of them in fio")
    print(f"all else (layout and warm-up included): {100 * (wall_s - fio_s) / wall_s:.1f} % of the wall time")


if __name__ == "__main__":
    main()
