"""Use JupyterLab in a real browser, as `./reproduce.sh lab` opens it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from browser import Page, opened_page
from patience import Limit, wait_for
from support import FIXTURE, FIXTURE_STUDY, ROOT, copy_recorded_results, processes_matching

TOKEN = "a-token-of-this-test"
STUDY = FIXTURE_STUDY
# The digest of the first figure's bytes; empty while there is no figure
FIGURE_DIGEST = """(async () => {
  const image = document.querySelector('img.widget-image');
  if (!image || !image.src) return '';
  const bytes = await (await fetch(image.src)).arrayBuffer();
  const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', bytes));
  return bytes.byteLength ? Array.from(sum, (each) => each.toString(16)).join('') : '';
})()"""
# The value that the slider of the I/O depth shows
DEPTH = """[...document.querySelectorAll('.widget-inline-hbox')]
  .find((each) => each.innerText.startsWith('I/O depth')).innerText.split('\\n').at(-1)"""
CELLS = """window.jupyterapp.shell.currentWidget.content.widgets
  .filter((cell) => cell.model.type === 'code').map((cell) => cell.model.sharedModel.toJSON())"""
ERRORS = (
    f"{CELLS}.flatMap((cell) => cell.outputs).filter((out) => out.output_type === 'error').map((out) => out.evalue)"
)
STDERR = f"{CELLS}.flatMap((cell) => cell.outputs).filter((out) => out.name === 'stderr').map((out) => out.text)"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a project with a recorded study and a reproduce.sh that installs nothing."""
    folder = copy_recorded_results(tmp_path_factory.mktemp("lab") / "project", [STUDY])
    text = (ROOT / "reproduce.sh").read_text(encoding="utf-8")
    set_up = f'\nset_up() {{ export PATH="{Path(sys.executable).parent}:$PATH"; }}\nunused() {{'
    shutil.copytree(ROOT / "envs/jupyterlab", folder / "envs/jupyterlab")
    (folder / "reproduce.sh").write_text(text.replace("\nset_up() {", set_up), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def lab(project: Path) -> Iterator[str]:
    """Yield the address of a running JupyterLab; end it and its kernels afterwards."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    own = project.parent / "jupyter"
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
    folders = {"CONFIG": "config", "DATA": "data", "RUNTIME": "run"}
    environment |= {f"JUPYTER_{name}_DIR": str(own / folder) for name, folder in folders.items()}
    environment |= {"HOME": str(own), "IPYTHONDIR": str(own), "JUPYTER_PREFER_ENV_PATH": "1"}
    arguments: tuple[str, ...] = ("lab", "--no-browser", f"--port={port}", "--ServerApp.port_retries=0")
    arguments += (f"--IdentityProvider.token={TOKEN}", "--LabApp.expose_app_in_browser=True")
    own.mkdir()
    with open(own / "log", "wb") as log:
        process = subprocess.Popen(
            ["bash", "reproduce.sh", *arguments],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(lambda: answers(address, process, own / "log"), 60, otherwise="JupyterLab does not answer")
        yield f"{address}/?token={TOKEN}"
    finally:
        process.send_signal(signal.SIGTERM)  # JupyterLab ends its kernels before it exits
        try:
            process.wait(Limit(60).remaining_s())
        finally:
            for left in {process.pid} & set(processes_matching("jupyter-lab")):
                os.killpg(left, signal.SIGKILL)
    assert processes_matching(str(own)) == []


def answers(address: str, process: "subprocess.Popen[bytes]", log: Path) -> bool:
    assert process.poll() is None, log.read_text(encoding="utf-8")
    try:
        with urllib.request.urlopen(f"{address}/api", timeout=60):
            return True
    except urllib.error.URLError:
        return False


@pytest.fixture(scope="module")
def page(lab: str) -> Iterator[Page]:
    with opened_page() as opened:
        opened.open(lab)
        opened.wait_for("Boolean(window.jupyterapp && window.jupyterapp.shell.currentWidget)", 120)
        yield opened


def run_all(page: Page, path: str) -> None:
    """Open a notebook, clear its outputs and run all its cells, with the commands of the menus."""
    page.evaluate(f"window.jupyterapp.commands.execute('docmanager:open', {{path: '{path}'}}).then(() => true)")
    page.wait_for(f"window.jupyterapp.shell.currentWidget?.context?.path === '{path}'")
    page.wait_for("window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'", 120)
    page.evaluate("window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs').then(() => true)")
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
    page.wait_for(f"{CELLS}.every((cell) => cell.execution_count > 0)", 120)


def screenshot(page: Page, folder: Path, name: str) -> None:
    """Write a screenshot into the folder that the variable SCREENSHOTS names, otherwise into ``folder``."""
    page.screenshot(Path(os.environ.get("SCREENSHOTS", folder)) / name)


def test_a_moved_slider_redraws_the_figure(page: Page, tmp_path: Path) -> None:
    run_all(page, "notebooks/working/explore.ipynb")
    page.evaluate("document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0")
    before = page.wait_for(FIGURE_DIGEST)
    assert page.evaluate(DEPTH) == "1"
    focus = DEPTH.replace(".innerText.split('\\n').at(-1)", ".querySelector('.noUi-handle').focus()")
    for depth in ("2", "4", "8"):
        page.evaluate(focus)
        page.press("ArrowRight", 39)
        page.wait_for(f"{DEPTH} === '{depth}'")
        after = page.wait_for(f"{FIGURE_DIGEST}.then((now) => now !== '{before}' && now)")
        assert after != before
        before = after
    screenshot(page, tmp_path, "explore.png")
    assert page.evaluate(ERRORS) == []
    assert page.evaluate(STDERR) == []
    assert page.errors == []


def test_the_menus_show_the_measurements_of_a_run(page: Page, tmp_path: Path) -> None:
    page.evaluate("[...document.querySelectorAll('img.widget-image')].at(-1).scrollIntoView({block: 'center'})")
    page.wait_for(f"[...document.querySelectorAll('option')].some((each) => each.innerText === 'results/{STUDY}')")
    page.wait_for("[...document.querySelectorAll('img.widget-image')].at(-1).naturalWidth > 100")
    screenshot(page, tmp_path, "explore-runs.png")
    assert page.errors == []


def test_a_study_s_notebook_shows_its_figures(page: Page, tmp_path: Path) -> None:
    run_all(page, f"notebooks/working/{STUDY}.ipynb")
    committed = nbformat.read(FIXTURE / f"notebooks/{STUDY}.ipynb", as_version=4)
    wanted = sum("image/png" in out.get("data", {}) for cell in committed.cells for out in cell.get("outputs", ()))
    found = page.evaluate(f"{CELLS}.flatMap((cell) => cell.outputs).filter((out) => out.data?.['image/png']).length")
    assert found == wanted > 0
    page.evaluate("window.jupyterapp.shell.currentWidget.node.querySelector('.jp-WindowedPanel-outer').scrollTop = 1e6")
    shown = "[...window.jupyterapp.shell.currentWidget.node.querySelectorAll('.jp-OutputArea img')]"
    page.wait_for(f"{shown}.some((image) => image.naturalWidth > 100)")
    screenshot(page, tmp_path, "study.png")
    assert page.evaluate(ERRORS) == []
    assert page.errors == []
