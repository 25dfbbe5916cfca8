"""A notebook runs on this project's own interpreter, whatever kernels and variables a user has."""

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
    """Plant kernels and start-up code that write a file ``sprung``; return the variables that lead to them."""
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


def test_no_kernel_and_no_variable_of_a_user_s_has_a_part_in_it(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "notebooks").mkdir(parents=True)
    (project / "Snakefile").touch()
    parameters = nbformat.v4.new_code_cell("level: float = 0.5", metadata={"tags": ["parameters"]})
    book = nbformat.v4.new_notebook(cells=[parameters, nbformat.v4.new_code_cell(PROBE)])
    book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(book, project / "notebooks/a.ipynb")
    (tmp_path / "tmp").mkdir()
    # PYTHONPATH would change what runs before the notebook, too: it is set in the process that executes it
    program = (
        "import os, sys; from iopatterns.workflow.notebooks import execute;"
        " os.environ['PYTHONPATH'] = sys.argv[1]; execute('notebooks/a.ipynb', 'executed.ipynb')"
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
    # and nothing is left behind
    assert list((tmp_path / "tmp").iterdir()) == []
    assert not (tmp_path / "runtime").exists()
