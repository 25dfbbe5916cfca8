"""Executes the notebooks in place, all or those named, on the recorded measurement: after a change of their outputs."""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ROOT, lay_out_recorded

from iopatterns.workflow.notebooks import execute

if __name__ == "__main__":
    for notebook in [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "notebooks").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            recorded = (ROOT / f"tests/notebooks/data/{notebook.stem}.parquet").exists()  # else it is of no study
            project = lay_out_recorded(Path(folder) / "project", [notebook.stem] if recorded else [])
            executed = execute(project / "notebooks" / notebook.name, Path(folder) / notebook.name)
            shutil.copyfile(executed, notebook)
        print(notebook.relative_to(ROOT))
