"""The commands of docs/first-changes.md, typed: three changes of a line, what runs again after each, and undoing it."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from patience import run
from support import ROOT, copy_project, user_files

PAGE, _, UNDOING = (ROOT / "docs/first-changes.md").read_text(encoding="utf-8").partition("## Undo it\n")
TABLES = ROOT / "docs/images/first-changes"
AS_COMMITTED = ("config/config.yaml",)
MEASURED = "snakemake --cores 1 --configfile mine.yaml\n"


def typed(root: Path, block: str) -> str:
    """Run a block of commands as in a shell in which .venv is active; return its output."""
    done = run(
        ["bash", "-euo", "pipefail", "-c", block],
        600,
        cwd=root,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}"
    return str(done.stdout)


def blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def said(module_disk_folder: Path) -> list[tuple[str, str]]:
    """Return each block of commands with its output, and last the folder with the study's table after each run.

    The commands that undo the page are typed, too.
    """
    project = copy_project(module_disk_folder / "project")
    for file in AS_COMMITTED:
        shutil.copy(ROOT / file, project.root / file)
    tables = module_disk_folder / "tables"
    tables.mkdir()
    before = user_files(project.root)
    heard = []
    for block in blocks(PAGE):
        heard.append((block, typed(project.root, block)))
        if block == MEASURED:
            number = len(list(tables.iterdir()))
            shutil.copy(project.root / "results/mine/tables/first/sizes.csv", tables / f"run-{number}.csv")
    for block in blocks(UNDOING):
        typed(project.root, block)
    assert user_files(project.root) == before
    return [*heard, ("tables", str(tables))]


def test_what_a_dry_run_says_is_what_the_page_shows(said: list[tuple[str, str]]) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    shown = [text for language, text in blocks if not language]
    told = [text for block, text in said if "snakemake -n" in block]
    assert len(shown) == len(told) == 3
    for wanted, text in zip(shown, told, strict=True):
        assert [line for line in wanted.splitlines() if line not in text.splitlines()] == []


def test_the_tables_from_which_the_pictures_are_drawn_are_those_measured(said: list[tuple[str, str]]) -> None:
    tables = Path(said[-1][1])
    found = sorted(path.name for path in tables.iterdir())
    assert found == sorted(path.name for path in TABLES.glob("*.csv"))
    for name in found:
        measured, committed = (pd.read_csv(folder / name) for folder in (tables, TABLES))
        # another version of fio draws other offsets
        pd.testing.assert_frame_equal(measured, committed, rtol=0.02)
