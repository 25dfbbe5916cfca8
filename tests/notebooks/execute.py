"""Execute notebooks in place on the recorded measurements: all, or those named as arguments."""

import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support import ROOT, copy_recorded_results, recorded_file

from iopatterns.workflow.notebooks import execute_notebook

if __name__ == "__main__":
    for notebook in [Path(name).resolve() for name in sys.argv[1:]] or sorted((ROOT / "notebooks").glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            studies = [notebook.stem] if recorded_file(notebook.stem, "parquet").exists() else []
            project = copy_recorded_results(Path(folder) / "project", studies)
            executed = execute_notebook(project / "notebooks" / notebook.name, Path(folder) / notebook.name)
            shutil.copyfile(executed, notebook)
        print(notebook.relative_to(ROOT))
