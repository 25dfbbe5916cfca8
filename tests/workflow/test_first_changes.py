"""The commands of docs/first-changes.md, typed: three changes, what runs after each, and how to undo them."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT, user_files
from typed_pages import fresh_clone, shell_blocks, typed

PAGE, _, UNDOING = (ROOT / "docs/first-changes.md").read_text(encoding="utf-8").partition("## Undo it\n")
TABLES = ROOT / "docs/images/first-changes"
MEASURED = "snakemake --cores 1 --configfile mine.yaml\n"


@pytest.fixture(scope="module")
def run(module_disk_folder: Path) -> tuple[list[str], Path]:
    """Return the outputs of all dry runs, and a folder with the table after each run. All changes are undone."""
    root = fresh_clone(module_disk_folder / "project")
    tables = module_disk_folder / "tables"
    tables.mkdir()
    before = user_files(root)
    dry_runs = []
    for block in shell_blocks(PAGE):
        output = typed(root, block)
        if "snakemake -n" in block:
            dry_runs.append(output)
        if block == MEASURED:
            number = len(list(tables.iterdir()))
            shutil.copy(root / "results/mine/tables/first/sizes.csv", tables / f"run-{number}.csv")
    for block in shell_blocks(UNDOING):
        typed(root, block)
    assert user_files(root) == before
    return dry_runs, tables


def test_dry_runs_print_what_the_page_shows(run: tuple[list[str], Path]) -> None:
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL)
    shown = [text for language, text in blocks if not language]
    assert len(shown) == len(run[0]) == 3
    for wanted, output in zip(shown, run[0], strict=True):
        assert [line for line in wanted.splitlines() if line not in output.splitlines()] == []


def test_the_tables_behind_the_pictures_are_the_measured_ones(run: tuple[list[str], Path]) -> None:
    names = sorted(path.name for path in run[1].iterdir())
    assert names == sorted(path.name for path in TABLES.glob("*.csv"))
    for name in names:
        measured, committed = (pd.read_csv(folder / name) for folder in (run[1], TABLES))
        # another version of fio draws other offsets
        pd.testing.assert_frame_equal(measured, committed, rtol=0.02)
