"""Make working copies of notebooks, and copy edits back."""

from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output

from iopatterns.lab import working_copies
from iopatterns.lab.working_copies import WorkingCopyError
from iopatterns.workflow.provenance import source_sha256


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a project with one executed notebook: a parameters cell, and a cell that prints."""
    (tmp_path / "notebooks").mkdir()
    parameters = new_code_cell(
        'measurements: str = "results/measurements/tiny.parquet"\ntables: str = "results/tables/tiny"', id="first"
    )
    parameters.metadata["tags"] = ["parameters"]
    printing = new_code_cell("print(1)", id="second", execution_count=2, outputs=[new_output("stream", text="1\n")])
    nbformat.write(new_notebook(cells=[parameters, printing]), tmp_path / "notebooks/tiny.ipynb")
    return tmp_path


def edit(path: Path, cell: int, source: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    notebook.cells[cell].source = source
    nbformat.write(notebook, path)


def test_a_copy_writes_to_its_own_results_folder(root: Path) -> None:
    assert working_copies.create_working_copies(root) == []
    source = nbformat.read(root / "notebooks/working/tiny.ipynb", as_version=4).cells[0].source
    assert 'measurements: str = "results/measurements/tiny.parquet"' in source
    assert 'tables: str = "results/working/tables/tiny"' in source


def test_an_unedited_copy_is_replaced_and_not_copied_back(root: Path) -> None:
    before = (root / "notebooks/tiny.ipynb").read_bytes()
    working_copies.create_working_copies(root)
    assert working_copies.save_working_copies(root, []) == []
    edit(root / "notebooks/tiny.ipynb", 1, "print(3)")
    assert working_copies.create_working_copies(root) == []
    assert "print(3)" in (root / "notebooks/working/tiny.ipynb").read_text()
    edit(root / "notebooks/tiny.ipynb", 1, "print(1)")
    assert (root / "notebooks/tiny.ipynb").read_bytes() == before


def test_edits_are_kept_until_they_are_copied_back(root: Path) -> None:
    working_copies.create_working_copies(root)
    edit(root / "notebooks/working/tiny.ipynb", 1, "print(2)")
    assert working_copies.create_working_copies(root) == ["tiny"]
    (saved,) = working_copies.save_working_copies(root, ["tiny"])
    assert (saved.path, saved.cleared_cells) == (Path("notebooks/tiny.ipynb"), 1)
    committed = nbformat.read(root / "notebooks/tiny.ipynb", as_version=4)
    assert committed.cells[1].source == "print(2)"
    assert committed.cells[1].outputs == []
    assert 'tables: str = "results/tables/tiny"' in committed.cells[0].source
    assert working_copies.create_working_copies(root) == []


def test_a_notebook_of_the_user_is_not_replaced_by_a_copy(root: Path) -> None:
    working_copies.create_working_copies(root)
    copy = root / "notebooks/working/tiny.ipynb"
    edit(copy, 1, "print(2)")
    (root / "notebooks/working/.tiny.base").unlink()
    assert working_copies.create_working_copies(root) == ["tiny"]
    assert "print(2)" in copy.read_text()


def test_unedited_cells_keep_their_committed_outputs(root: Path) -> None:
    working_copies.create_working_copies(root)
    copy = root / "notebooks/working/tiny.ipynb"
    notebook = nbformat.read(copy, as_version=4)
    notebook.cells[1].outputs = [new_output("stream", text="of another measurement\n")]
    notebook.cells.append(new_code_cell("print(2)", id="third"))
    nbformat.write(notebook, copy)
    (saved,) = working_copies.save_working_copies(root, [])
    assert saved.cleared_cells == 1
    assert nbformat.read(root / "notebooks/tiny.ipynb", as_version=4).cells[1].outputs[0].text == "1\n"


def test_a_notebook_that_changed_after_the_copy_is_not_overwritten(root: Path) -> None:
    working_copies.create_working_copies(root)
    edit(root / "notebooks/working/tiny.ipynb", 1, "print(2)")
    edit(root / "notebooks/tiny.ipynb", 1, "print(3)")
    with pytest.raises(WorkingCopyError, match="changed since its working copy was made"):
        working_copies.save_working_copies(root, [])
    assert "print(3)" in (root / "notebooks/tiny.ipynb").read_text()


def test_a_missing_copy_is_named(root: Path) -> None:
    working_copies.create_working_copies(root)
    with pytest.raises(WorkingCopyError, match=r"tinny.ipynb: there is no such working copy. Working copies: tiny."):
        working_copies.save_working_copies(root, ["tinny"])


def test_outputs_and_execution_counts_are_not_part_of_the_source(root: Path) -> None:
    notebook = root / "notebooks/tiny.ipynb"
    before = source_sha256(notebook)
    content = nbformat.read(notebook, as_version=4)
    content.cells[1].update(execution_count=7, outputs=[])
    nbformat.write(content, notebook)
    assert source_sha256(notebook) == before
    edit(notebook, 1, "print(2)")
    assert source_sha256(notebook) != before
