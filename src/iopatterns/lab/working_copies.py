"""Make working copies of the notebooks for JupyterLab, and save edits from them.

A working copy is in ``notebooks/working``. It writes its tables, figures and numbers to ``results/working``. The
committed notebooks and results therefore do not change while a user experiments. Snakemake reads neither folder, and
git ignores both.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError

NOTEBOOKS, COPIES_FOLDER = "notebooks", "notebooks/working"
# The output folders in the parameters cell of a committed notebook, and their replacements in a copy
_OUTPUTS = {f'"results/{kind}/': f'"results/working/{kind}/' for kind in ("tables", "figures", "numbers")}
_COMMITTED_OUTPUTS = {copied: committed for committed, copied in _OUTPUTS.items()}


class WorkingCopyError(IoPatternsError):
    """The error raised if a notebook cannot be copied, or its edits cannot be saved.

    The message names the notebook.
    """


@dataclass(frozen=True)
class SavedNotebook:
    """A committed notebook into which the edits of its working copy were copied.

    A working copy is a notebook in notebooks/working, which a user may edit.

    Attributes:
        path: The committed notebook, relative to the folder of the project, such as ``notebooks/kapoor.ipynb``.
        cleared_cells: The number of edited code cells. They lost their outputs, which may come from other measurements.
    """

    path: Path
    cleared_cells: int


def create_working_copies(root: Path) -> list[str]:
    """Copy the notebooks to ``notebooks/working``, but keep copies with edits.

    Copies without edits are replaced. The copies write their tables, figures and numbers to ``results/working``.

    Args:
        root: The folder of the project.

    Returns:
        The names of the notebooks, such as ``kapoor``, whose working copies have edits. These copies were not replaced.

    Raises:
        WorkingCopyError: A notebook cannot be read.
    """
    edited: list[str] = []
    (root / COPIES_FOLDER).mkdir(parents=True, exist_ok=True)
    for path in sorted((root / NOTEBOOKS).glob("*.ipynb")):
        copy = root / COPIES_FOLDER / path.name
        base = _base(copy)
        # a copy whose base is missing may be the user's own notebook: only an exact copy is replaced
        before = base if base.exists() else path
        if copy.exists() and _sources(_read(copy)) != _sources(_replaced(_read(before), _OUTPUTS)):
            edited.append(path.stem)
            continue
        _write(copy, _replaced(_read(path), _OUTPUTS))
        _copy(path, base)
    return edited


def save_working_copies(root: Path, names: list[str]) -> list[SavedNotebook]:
    """Copy the edits in working copies into the committed notebooks.

    A working copy is a notebook in ``notebooks/working``. Cells without edits keep their committed outputs. Edited code
    cells lose their outputs, because the outputs in a copy may come from other measurements. Notebooks are saved one
    after another: those before an error remain saved.

    Args:
        root: The folder of the project.
        names: The names of the notebooks, such as ``kapoor``; all working copies if empty.

    Returns:
        The notebooks that changed, in the order in which they were saved.

    Raises:
        WorkingCopyError: A notebook has no working copy or cannot be read, or a committed notebook was changed since it
            was copied.
    """
    known = [path.stem for path in sorted((root / COPIES_FOLDER).glob("*.ipynb"))]
    for name in names:
        if name not in known:
            copies = ", ".join(known) or "none; `./reproduce.sh lab` makes them"
            raise WorkingCopyError(
                f"{COPIES_FOLDER}/{name}.ipynb: there is no such working copy. Working copies: {copies}."
            )
    saved = []
    for name in names or known:
        copy, committed = root / COPIES_FOLDER / f"{name}.ipynb", root / NOTEBOOKS / f"{name}.ipynb"
        base = _read(_base(copy))
        edited, present = _replaced(_read(copy), _COMMITTED_OUTPUTS), _read(committed)
        if _sources(edited) == _sources(base):
            continue
        if _sources(present) != _sources(base):
            raise WorkingCopyError(
                f"{NOTEBOOKS}/{name}.ipynb: changed since its working copy was made. Its edits were not copied back."
                f" Compare it with {COPIES_FOLDER}/{name}.ipynb, and delete one of the two."
            )
        saved.append(SavedNotebook(committed.relative_to(root), _merge(present, edited)))
        _write(committed, present)
        _copy(committed, _base(copy))
    return saved


def _base(copy: Path) -> Path:
    """Return the path of the hidden file that keeps a notebook as it was when copied.

    JupyterLab does not list hidden files.

    Args:
        copy: The working copy.
    """
    return copy.with_name(f".{copy.stem}.base")


def _merge(committed: Any, edited: Any) -> int:
    """Replace the cells of a notebook by edited ones; other cells keep their outputs.

    Args:
        committed: The notebook to change.
        edited: The notebook with the new cells.

    Returns:
        The number of edited code cells, which have no outputs.
    """
    outputs = {(cell.id, cell.source): cell for cell in committed.cells if cell.cell_type == "code"}
    cleared = 0
    for cell in edited.cells:
        if cell.cell_type == "code":
            before = outputs.get((cell.id, cell.source))
            cell.outputs = before.outputs if before else []
            cell.execution_count = before.execution_count if before else None
            cleared += before is None
    committed.cells = edited.cells
    return cleared


def _replaced(notebook: Any, texts: dict[str, str]) -> Any:
    """Replace texts in the parameters cell of a notebook, and return the notebook.

    The notebook is changed in place.

    Args:
        notebook: The notebook.
        texts: The new text of each text to replace.
    """
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", ()):
            for old, new in texts.items():
                cell.source = cell.source.replace(old, new)
    return notebook


def _sources(notebook: Any) -> list[tuple[str, str]]:
    return [(cell.cell_type, cell.source) for cell in notebook.cells]


def _read(path: Path) -> Any:
    import nbformat

    try:
        return nbformat.read(path, as_version=4)
    except FileNotFoundError:
        raise WorkingCopyError(f"{path}: the file is missing. `./reproduce.sh lab` makes the working copies.") from None
    except Exception as error:  # nbformat has no common base class for the errors of a broken file
        raise WorkingCopyError(f"{path}: not a notebook: {str(error).splitlines()[0]}") from None


def _copy(source: Path, target: Path) -> None:
    files.write_atomically(target, lambda temporary: temporary.write_bytes(source.read_bytes()))


def _write(path: Path, notebook: Any) -> None:
    import nbformat

    files.write_atomically(path, lambda temporary: nbformat.write(notebook, temporary))
