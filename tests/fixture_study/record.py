"""Measure the fixture study again, and execute its notebook.

Usage: python tests/fixture_study/record.py
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import FIXTURE, FIXTURE_DRIVES, FIXTURE_GRID, FIXTURE_STUDY, RECORDED_KINDS, copy_project, recorded_file

MEASURED = {"drives": list(FIXTURE_DRIVES), "repetitions": 10, "runtime": "200 ms", "file_size": "64 MiB"}

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        project = copy_project(Path(folder) / "project")
        shutil.copy(FIXTURE / FIXTURE_GRID, project.root / FIXTURE_GRID)
        project.edit("config/config.yaml", **MEASURED)
        done = project.snakemake("--cores", "2", f"collect_{FIXTURE_STUDY}", timeout_s=600)
        if done.returncode != 0:
            sys.exit(done.stdout)
        for kind in RECORDED_KINDS:
            made = project.root / f"results/measurements/{FIXTURE_STUDY}.{kind}"
            recorded_file(FIXTURE_STUDY, kind).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(made, recorded_file(FIXTURE_STUDY, kind))
    notebook = FIXTURE / f"notebooks/{FIXTURE_STUDY}.ipynb"
    subprocess.run([sys.executable, FIXTURE.parent / "notebooks/execute.py", notebook], check=True)
