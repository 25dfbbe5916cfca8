"""Which files a script or notebook rests on: derived from imports, direct and indirect, of packages that are ours."""

import json
from pathlib import Path

import pytest
from support import ROOT

from iopatterns.workflow import rule_code

SCRIPTS = sorted((ROOT / "workflow/scripts").glob("*.py"))
# Of studies: what is in no rule rests on nothing
NOTEBOOKS = sorted(ROOT / f"notebooks/{study.stem}.ipynb" for study in (ROOT / "config/studies").glob("*.yaml"))
ABLATION = {"ablate.py", "ablate_mechanism.py"}
CAPTURE = {"capture.py", "record.py"}


def behind(*files: Path) -> list[str]:
    return rule_code.behind(ROOT, *(str(file.relative_to(ROOT)) for file in files))


def notebook(folder: Path, *cells: tuple[str, str]) -> Path:
    path = folder / "a.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": [code]} for kind, code in cells]}))
    return path


def script(folder: Path, code: str) -> list[str]:
    (folder / "a.py").write_text(code)
    (folder / "src").symlink_to(ROOT / "src")
    return rule_code.behind(folder, "a.py")


@pytest.mark.parametrize("file", [*SCRIPTS, *NOTEBOOKS], ids=lambda file: file.name)
def test_every_file_behind_a_script_or_notebook_is_there(file: Path) -> None:
    found = behind(file)
    assert found == sorted(set(found))
    assert all((ROOT / path).is_file() for path in found)


def test_what_decides_that_an_execution_stands_apart_is_behind_each_study() -> None:
    for file in NOTEBOOKS:
        assert "src/iopatterns/measuring/steadiness.py" in behind(file)


@pytest.mark.parametrize(
    ("module", "scripts", "all_notebooks"),
    [
        ("measuring/cell.py", {"ablate_mechanism.py"}, False),
        ("measuring/steadiness.py", {"ablate_mechanism.py", "collect.py", "report.py"}, True),
        ("raw/tuning_steps.py", {*ABLATION, *CAPTURE, "collect.py", "judge.py", "report.py"}, True),
        ("analysis/formulas.py", {*ABLATION, "judge.py"}, True),
        ("workflow/report.py", {"report.py"}, False),
    ],
)
def test_exactly_those_rest_on_a_module_that_import_it(module: str, scripts: set[str], all_notebooks: bool) -> None:
    resting = {file.name for file in [*SCRIPTS, *NOTEBOOKS] if f"src/iopatterns/{module}" in behind(file)}
    assert resting == scripts | ({file.name for file in NOTEBOOKS} if all_notebooks else set())


def test_what_is_imported_by_what_is_imported_is_behind_a_script(tmp_path: Path) -> None:
    found = script(tmp_path, "from iopatterns.analysis.claims import Judge")
    assert {"src/iopatterns/analysis/claims.py", "src/iopatterns/analysis/formulas.py"} <= set(found)
    assert "src/iopatterns/base/errors.py" in found  # claims -> formulas -> errors
    assert "src/iopatterns/analysis/plots.py" not in found


def test_an_import_within_a_function_counts(tmp_path: Path) -> None:
    found = script(tmp_path, "def f():\n    import iopatterns.base.units\n")
    assert found == ["src/iopatterns/__init__.py", "src/iopatterns/base/__init__.py", "src/iopatterns/base/units.py"]


def test_a_module_out_of_a_package_is_found(tmp_path: Path) -> None:
    assert "src/iopatterns/base/units.py" in script(tmp_path, "from iopatterns.base import units")


def test_data_that_bear_a_module_s_name_lie_behind_it(tmp_path: Path) -> None:
    found = script(tmp_path, "from iopatterns.analysis import plots")
    assert "src/iopatterns/analysis/plots.mplstyle" in found


def test_nothing_of_other_packages_is_behind_a_script(tmp_path: Path) -> None:
    assert script(tmp_path, "import json, numpy") == []


def test_of_a_notebook_the_code_cells_alone_count(tmp_path: Path) -> None:
    path = notebook(tmp_path, ("markdown", "import iopatterns.base.units"), ("code", "import iopatterns.base.signals"))
    (tmp_path / "src").symlink_to(ROOT / "src")
    found = rule_code.behind(tmp_path, path.name)
    assert found == ["src/iopatterns/__init__.py", "src/iopatterns/base/__init__.py", "src/iopatterns/base/signals.py"]
