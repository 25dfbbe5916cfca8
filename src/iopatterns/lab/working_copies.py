"""Working copies of the notebooks for JupyterLab, so that running or saving one changes no committed file.

A working copy in ``notebooks/working`` writes its tables, figures and numbers to ``results/working``. Neither folder is
an input of the workflow, and git ignores both. `save_working_copies` copies edits back.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iopatterns.base import files
from iopatterns.base.errors import IoPatternsError

NOTEBOOKS, COPIES_FOLDER = "notebooks", "notebooks/working"
# What a parameters cell of a copy has in place of the committed notebook's: the folders that the notebook writes to
_OUTPUTS = {f'"results/{kind}/': f'"results/working/{kind}/' for kind in ("tables", "figures", "numbers")}


_COMMITTED_OUTPUTS = {copied: committed for committed, copied in _OUTPUTS.items()}


class WorkingCopyError(IoPatternsError):
    """A notebook cannot be copied or copied back; the message names the notebook."""


@dataclass(frozen=True)
class SavedNotebook:
    """A notebook whose edits were copied back, and how many of its code cells lost their outputs."""

    path: Path
    cleared_cells: int


def create_working_copies(root: Path) -> list[str]:
    """Copy the notebooks to `COPIES_FOLDER`, and return the names of the copies that hold edits, which are kept.

    Raises WorkingCopyError.
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
    """Copy the edits of working copies, all or the named ones, into the committed notebooks.

    The outputs of cells that were not edited stay as committed. Edited cells lose their outputs, because the outputs
    of a copy may rest on other measurements. Raises WorkingCopyError for a notebook without a copy, and for a notebook
    that has changed since it was copied.
    """
    known = [path.stem for path in sorted((root / COPIES_FOLDER).glob("*.ipynb"))]
    for name in names:
        if name not in known:
            there = ", ".join(known) or "none: `./reproduce.sh lab` makes them"
            raise WorkingCopyError(f"{COPIES_FOLDER}/{name}.ipynb: there is no such working copy. There are {there}.")
    saved = []
    for name in names or known:
        copy, committed = root / COPIES_FOLDER / f"{name}.ipynb", root / NOTEBOOKS / f"{name}.ipynb"
        base = _read(_base(copy))
        edited, present = _replaced(_read(copy), _COMMITTED_OUTPUTS), _read(committed)
        if _sources(edited) == _sources(base):
            continue
        if _sources(present) != _sources(base):
            raise WorkingCopyError(
                f"{NOTEBOOKS}/{name}.ipynb: changed since its working copy was made. Nothing was copied back. Compare"
                f" the two, and delete one of them: {COPIES_FOLDER}/{name}.ipynb is the working copy."
            )
        saved.append(SavedNotebook(committed.relative_to(root), _merge(present, edited)))
        _write(committed, present)
        _copy(committed, _base(copy))
    return saved


def _base(copy: Path) -> Path:
    """Return the place of the committed notebook as it was when the copy was made; JupyterLab does not list it."""
    return copy.with_name(f".{copy.stem}.base")


def _merge(committed: Any, edited: Any) -> int:
    """Give ``committed`` the cells of ``edited``; return how many code cells are new and without outputs."""
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
    """Return the notebook with texts replaced in its parameters cell."""
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
        raise WorkingCopyError(f"{path}: not there. `./reproduce.sh lab` makes the working copies.") from None
    except Exception as error:  # nbformat has no common base for what a broken file makes it raise
        raise WorkingCopyError(f"{path}: not a notebook: {str(error).splitlines()[0]}") from None


def _copy(source: Path, target: Path) -> None:
    files.write_atomically(target, lambda temporary: temporary.write_bytes(source.read_bytes()))


def _write(path: Path, notebook: Any) -> None:
    import nbformat

    files.write_atomically(path, lambda temporary: nbformat.write(notebook, temporary))
