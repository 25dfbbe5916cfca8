"""Executes the notebooks in place on the recorded measurement: run it after a change that alters their outputs."""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ROOT, lay_out_recorded

from iopatterns.workflow.notebooks import execute

if __name__ == "__main__":
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            project = lay_out_recorded(Path(folder) / "project", [notebook.stem])
            executed = execute(project / "notebooks" / notebook.name, Path(folder) / notebook.name)
            shutil.copyfile(executed, notebook)
        print(notebook.relative_to(ROOT))
