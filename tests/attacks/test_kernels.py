"""Execute a notebook although the user has other kernels, start-up code and variables."""

import json
import os
import subprocess
import sys
from pathlib import Path

import nbformat

PROBE = """import json, os, sys
variables = [name for name in os.environ if name.startswith(("JUPYTER", "IPYTHON", "PYTHON"))]
print(json.dumps([sys.executable, variables, sys.path]))"""


def _traps(folder: Path) -> dict[str, str]:
    """Write kernels and start-up code that create the file ``sprung``; return the variables that select them."""
    springs = f"open({str(folder / 'sprung')!r}, 'a').write('x')\n"
    kernel = {"argv": [sys.executable, "-c", springs], "display_name": "trap", "language": "python"}
    for place in ("jupyter", "home/.local/share/jupyter"):
        path = folder / place / "kernels/python3/kernel.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(kernel))
    for place in ("startup.py", "modules/nbformat_probe.py", "modules/sitecustomize.py"):
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(springs)
    profile = folder / "ipython/profile_default/startup/00.py"
    profile.parent.mkdir(parents=True)
    profile.write_text(springs)
    config = folder / "config/ipython_kernel_config.py"
    config.parent.mkdir()
    config.write_text(springs)
    return {
        "HOME": str(folder / "home"),
        "JUPYTER_PATH": str(folder / "jupyter"),
        "JUPYTER_DATA_DIR": str(folder / "jupyter"),
        "JUPYTER_CONFIG_DIR": str(folder / "config"),
        "JUPYTER_CONFIG_PATH": str(folder / "config"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYTHONSTARTUP": str(folder / "startup.py"),
    }


def test_a_notebook_ignores_kernels_and_variables_of_the_user(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "notebooks").mkdir(parents=True)
    (project / "Snakefile").touch()
    parameters = nbformat.v4.new_code_cell("level: float = 0.5", metadata={"tags": ["parameters"]})
    book = nbformat.v4.new_notebook(cells=[parameters, nbformat.v4.new_code_cell(PROBE)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, project / "notebooks/a.ipynb")
    (tmp_path / "tmp").mkdir()
    # PYTHONPATH is set inside the process, because it would also change the interpreter before the notebook starts
    program = (
        "import os, sys; from iopatterns.workflow.notebooks import execute_notebook;"
        " os.environ['PYTHONPATH'] = sys.argv[1]; execute_notebook('notebooks/a.ipynb', 'executed.ipynb')"
    )
    traps = _traps(tmp_path)
    subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "modules")],
        cwd=project,
        env={**os.environ, **traps, "TMPDIR": str(tmp_path / "tmp")},
        check=True,
        timeout=300,
    )
    assert not (tmp_path / "sprung").exists()
    executed = nbformat.read(project / "executed.ipynb", as_version=4)
    text = "".join(output.text for cell in executed.cells for output in cell.get("outputs", []) if "text" in output)
    executable, variables, path = json.loads(text)
    assert executable == sys.executable
    assert variables == []
    assert str(tmp_path / "modules") not in path
    # no file is left behind
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "runtime").exists()
