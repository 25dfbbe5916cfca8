"""Notebooks: parameters are checked before a kernel starts, and errors are one line."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from iopatterns.workflow.notebooks import (
    NotebookError,
    declared_notebook_parameters,
    execute_notebook,
    from_root,
    project_root,
    require_outputs,
)

PARAMETERS = """
# A comment says why
path: str
confidence: float = 0.95
count: int = 10
sizes: list[int] = [4096]
levels: list[float] = [0.9]
title: str | None = None
quick: bool = False
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "Snakefile").touch()
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def notebook(project: Path, *cells: str, parameters: str = PARAMETERS) -> Path:
    first = new_code_cell(parameters.strip(), metadata={"tags": ["parameters"]})
    path = project / "notebooks" / "study.ipynb"
    nbformat.write(new_notebook(cells=[first, *(new_code_cell(cell) for cell in cells)]), path)
    return path


def outputs(path: Path) -> list[str]:
    cells = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    return [output.text for cell in cells for output in cell.outputs if output.output_type == "stream"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"confidense": 0.9}, "has no parameter 'confidense'. Did you mean 'confidence'?"),
        ({"zzz": 1}, "has no parameter 'zzz'. Parameters: path, confidence, count"),
        ({"path": ...}, "the parameter 'path' has no default and must be given"),
        ({"path": None}, "the parameter 'path' must be of type str, but None is of type NoneType"),
        ({"confidence": "0.9"}, "the parameter 'confidence' must be of type float, but '0.9' is of type str"),
        ({"count": 2.0}, "the parameter 'count' must be of type int, but 2.0 is of type float"),
        ({"count": True}, "the parameter 'count' must be of type int, but True is of type bool"),
        ({"quick": 1}, "the parameter 'quick' must be of type bool, but 1 is of type int"),
        ({"sizes": "[4096]"}, "the parameter 'sizes' must be of type list[int], but '[4096]' is of type str"),
        ({"sizes": [4096, "28k"]}, "the parameter 'sizes' must be of type list[int]"),
        ({"title": 5}, "the parameter 'title' must be of type str | None, but 5 is of type int"),
    ],
)
def test_a_wrong_parameter_is_reported_before_anything_is_executed(
    project: Path, given: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "papermill", None)  # so that importing it fails
    path = notebook(project)
    values = {name: value for name, value in ({"path": "x"} | given).items() if value is not ...}
    with pytest.raises(NotebookError) as caught:
        execute_notebook(path, project / "executed.ipynb", values)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert not (project / "executed.ipynb").exists()


def test_declared_parameters_have_name_type_and_default(project: Path) -> None:
    declared = declared_notebook_parameters(notebook(project))
    assert list(declared) == ["path", "confidence", "count", "sizes", "levels", "title", "quick"]
    assert declared["confidence"].type is float
    assert [name for name, parameter in declared.items() if parameter.required] == ["path"]


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("confidence = 0.95", "'confidence = 0.95' is not a typed parameter"),
        ("import os", "'import os' is not a typed parameter"),
        ("when: datetime = None", "unknown type datetime. Valid types: str, int"),
        ("confidence: float =", "not valid Python"),
    ],
)
def test_an_invalid_line_in_the_parameters_cell_is_refused(project: Path, cell: str, message: str) -> None:
    with pytest.raises(NotebookError, match=message):
        declared_notebook_parameters(notebook(project, parameters=cell))


def test_a_file_without_a_parameters_cell_is_refused(project: Path) -> None:
    nbformat.write(new_notebook(cells=[new_code_cell("1")]), project / "none.ipynb")
    (project / "broken.ipynb").write_text("{")
    for name, message in (
        ("none", "0 cells have the tag 'parameters'"),
        ("broken", r"broken\.ipynb: not a notebook"),
        ("missing", r"missing\.ipynb: there is no such notebook"),
    ):
        with pytest.raises(NotebookError, match=message):
            declared_notebook_parameters(project / f"{name}.ipynb")


def test_parameters_keep_their_types_and_paths_start_at_the_project(project: Path) -> None:
    show = "print([confidence, count, sizes, levels, title, quick])"
    where = (
        "from iopatterns.workflow.notebooks import from_root; print(from_root('results').relative_to(from_root('.')))"
    )
    here = "from pathlib import Path; print((Path.cwd() / 'Snakefile').is_file())"
    path = notebook(project, show, where, here)
    given = {"path": "a {b}", "confidence": 1, "sizes": [4096, 28672], "levels": [1, 0.5], "title": 'a "b"'}
    executed = execute_notebook(path, project / "a {b}" / "executed.ipynb", given)
    assert outputs(executed) == ["[1.0, 10, [4096, 28672], [1.0, 0.5], 'a \"b\"', False]\n", "results\n", "True\n"]


@pytest.mark.slow
def test_two_executions_write_the_same_bytes_without_paths_of_the_machine(project: Path) -> None:
    path = notebook(project, "print(count)")
    first = execute_notebook(path, project / "one" / "executed.ipynb", {"path": "x"})
    second = execute_notebook(path, project / "two" / "executed.ipynb", {"path": "x"})
    assert first.read_bytes() == second.read_bytes()
    assert str(project) not in first.read_text()
    assert [file.name for file in first.parent.iterdir()] == ["executed.ipynb"]


def test_a_failing_cell_is_reported_in_one_line_and_leaves_its_traceback(project: Path) -> None:
    path = notebook(project, "# why\nraise ValueError('the first line\\nthe second')", "print('after')")
    with pytest.raises(NotebookError) as caught:
        execute_notebook(path, project / "executed.ipynb", {"path": "x"})
    assert str(caught.value) == f"{path}: cell 3 (# why) failed: ValueError: the first line"
    cells = nbformat.read(project / "executed.ipynb", as_version=4).cells
    errors = [out for cell in cells for out in cell.get("outputs", []) if out.output_type == "error"]
    assert [error.ename for error in errors] == ["ValueError"]
    assert any("raise" in line for line in errors[0].traceback)
    assert outputs(project / "executed.ipynb") == []


@pytest.mark.slow
def test_a_cell_that_takes_too_long_is_named(project: Path) -> None:
    path = notebook(project, "# wait\nimport time; time.sleep(60)", "print('after')")
    with pytest.raises(NotebookError) as caught:
        execute_notebook(path, project / "executed.ipynb", {"path": "x"}, cell_limit_s=1)
    assert str(caught.value).startswith(f"{path}: cell 3 (# wait) was stopped after 1 s, the limit for a cell.")
    assert "notebook_time_limit in config/config.yaml" in str(caught.value)


def test_the_project_is_found_from_its_root_and_from_below(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (project, project / "notebooks"):
        monkeypatch.chdir(folder)
        assert project_root() == project.resolve()
        assert from_root("results/x.csv") == project.resolve() / "results" / "x.csv"
        assert from_root("/elsewhere/x.csv") == Path("/elsewhere/x.csv")


def test_a_folder_outside_of_the_project_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotebookError, match="not inside the project"):
        project_root(tmp_path)


def test_a_missing_declared_output_is_reported_with_the_undeclared_ones(project: Path) -> None:
    folder = project / "results/figures/mine"
    folder.mkdir(parents=True)
    for name, changed_s in (("old.svg", 0.0), ("depth.svg", 1000.0), ("read.svg", 1000.0)):
        (folder / name).touch()
        os.utime(folder / name, (changed_s, changed_s))
    declared = [folder / "read.svg", folder / "depths.svg"]
    with pytest.raises(NotebookError) as caught:
        require_outputs("notebooks/mine.ipynb", map(str, declared), 1000.0)
    message = f"notebooks/mine.ipynb: did not write {declared[1]}, which config/studies/mine.yaml declares."
    assert str(caught.value).startswith(f"{message} Undeclared files that it wrote: {folder / 'depth.svg'}. Correct")
    (folder / "depths.svg").touch()
    require_outputs("notebooks/mine.ipynb", map(str, declared), 1000.0)
