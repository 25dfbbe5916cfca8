"""The files and compiled parts that scripts, notebooks and modules depend on, derived from imports."""

import json
import os
from pathlib import Path

import pytest
from support import ROOT

from iopatterns.workflow import rule_code

SCRIPTS = sorted((ROOT / "workflow/scripts").glob("*.py"))
# Only notebooks of studies: no rule executes other notebooks
NOTEBOOKS = sorted(ROOT / f"notebooks/{study.stem}.ipynb" for study in (ROOT / "config/studies").glob("*.yaml"))
# Ablation, and the study of robustness
ABLATION = {"ablate.py", "ablate_mechanism.py", "robustness.py", "robustness_study.py"}
CAPTURE = {"capture.py", "record.py"}


def dependencies(*files: Path) -> list[str]:
    return rule_code.dependencies_of(ROOT, *(str(file.relative_to(ROOT)) for file in files))


def notebook(folder: Path, *cells: tuple[str, str]) -> Path:
    path = folder / "a.ipynb"
    path.write_text(json.dumps({"cells": [{"cell_type": kind, "source": [code]} for kind, code in cells]}))
    return path


def script(folder: Path, code: str) -> list[str]:
    (folder / "a.py").write_text(code)
    (folder / "src").symlink_to(ROOT / "src")
    return rule_code.dependencies_of(folder, "a.py")


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Return copies of the installed compiled parts that a test may change."""
    copies = {name: tmp_path / "built" / path.name for name, path in rule_code._native_parts().items()}
    (tmp_path / "built").mkdir()
    for copy in copies.values():
        copy.write_bytes(b"as built")
    monkeypatch.setattr(rule_code, "_native_parts", lambda: copies)
    return copies


def changed_by(parts: dict[str, Path], *of: str) -> set[str]:
    """Return the names of the compiled parts that change the checksum of some scripts and modules."""
    found, before = set(), rule_code.native_checksum(ROOT, *of)
    for name, part in parts.items():
        part.write_bytes(b"another build")
        if rule_code.native_checksum(ROOT, *of) != before:
            found.add(name)
        part.write_bytes(b"as built")
    assert rule_code.native_checksum(ROOT, *of) == before
    return found


@pytest.mark.parametrize("file", [*SCRIPTS, *NOTEBOOKS], ids=lambda file: file.name)
def test_every_dependency_of_a_script_or_notebook_exists(file: Path) -> None:
    found = dependencies(file)
    assert found == sorted(set(found))
    assert all((ROOT / path).is_file() for path in found)


@pytest.mark.parametrize(
    ("module", "scripts", "all_notebooks"),
    [
        ("measuring/cell.py", {"ablate_mechanism.py", "record_scale.py", "robustness_study.py"}, False),
        (
            "measuring/steadiness.py",
            {"ablate_mechanism.py", "record_scale.py", "robustness_study.py", "collect.py", "report.py"},
            True,
        ),
        (
            "raw/tuning_steps.py",
            {*ABLATION, *CAPTURE, "analyse.py", "collect.py", "judge.py", "record_scale.py", "report.py"},
            True,
        ),
        ("judging/formulas.py", {*ABLATION, "judge.py"}, True),
        ("workflow/report.py", {"report.py"}, False),
    ],
)
def test_exactly_the_importing_scripts_depend_on_a_module(module: str, scripts: set[str], all_notebooks: bool) -> None:
    depending = {file.name for file in [*SCRIPTS, *NOTEBOOKS] if f"src/iopatterns/{module}" in dependencies(file)}
    scripts = scripts | {"twin_of.py"}  # it measures, judges steadiness and makes a report
    assert depending == scripts | ({file.name for file in NOTEBOOKS} if all_notebooks else set())


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        # claims -> formulas -> errors
        ("from iopatterns.judging.claims import Judge", {"judging/claims.py", "judging/formulas.py", "base/errors.py"}),
        ("from iopatterns.base import units", {"base/units.py"}),
        ("from iopatterns.analysis import plots", {"analysis/plots.mplstyle"}),
    ],
)
def test_indirect_imports_and_data_files_of_modules_are_found(code: str, expected: set[str], tmp_path: Path) -> None:
    assert {f"src/iopatterns/{file}" for file in expected} <= set(script(tmp_path, code))


@pytest.mark.parametrize(
    ("code", "files"),
    [
        ("def f():\n    import iopatterns.base.units\n", ["__init__.py", "base/__init__.py", "base/units.py"]),
        ("import json, numpy", []),
    ],
)
def test_imports_in_functions_count_and_other_packages_do_not(code: str, files: list[str], tmp_path: Path) -> None:
    assert script(tmp_path, code) == [f"src/iopatterns/{file}" for file in files]


def test_a_named_module_or_package_is_included_with_its_imports() -> None:
    found = rule_code.dependencies_of(ROOT, "iopatterns.twin.fitting")
    assert {"src/iopatterns/twin/fitting.py", "src/iopatterns/twin/streams.py"} <= set(found)
    assert "src/iopatterns/twin/linux.py" not in found
    assert rule_code.dependencies_of(ROOT, "iopatterns.twin.fitting", "workflow/scripts/record.py") == sorted(
        {*found, *dependencies(ROOT / "workflow/scripts/record.py")}
    )
    package = rule_code.dependencies_of(ROOT, "iopatterns.calls")
    assert {f"src/iopatterns/calls/{name}.py" for name in ("__init__", "strace", "dxt")} <= set(package)


def test_an_unknown_module_is_refused() -> None:
    with pytest.raises(ValueError, match=r"There is no module iopatterns\.twin\.fiting\."):
        rule_code.dependencies_of(ROOT, "iopatterns.twin.fiting")


def test_the_checksum_changes_with_parts_that_code_imports_or_names(parts: dict[str, Path]) -> None:
    assert {"iopatterns._twin", "twin_linux_machine", "libtwin_preload.so"} <= parts.keys()
    assert changed_by(parts, "workflow/scripts/record.py") == parts.keys()
    # fitting uses the native module, and names the library of the programs that it does not run
    assert changed_by(parts, "iopatterns.twin.fitting") == {"iopatterns._twin", "libtwin_preload.so"}
    assert changed_by(parts, "workflow/scripts/ablate_mechanism.py") == {"iopatterns._twin", "libtwin_preload.so"}
    assert changed_by(parts, "iopatterns.calls") == set()


def test_the_native_checksum_is_a_parameter_of_rules_that_a_default_run_does_not_use() -> None:
    rules = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")}
    assert {name for name, text in rules.items() if "native_checksum(" in text} == {
        "ablate",
        "calibrate",
        "capture",
        "robustness",
    }


def test_another_build_with_the_same_bytes_keeps_the_checksum(parts: dict[str, Path]) -> None:
    before = rule_code.native_checksum(ROOT, "workflow/scripts/record.py")
    for part in parts.values():
        part.write_bytes(part.read_bytes())
        os.utime(part, (2_000_000_000, 2_000_000_000))
    assert rule_code.native_checksum(ROOT, "workflow/scripts/record.py") == before


def test_only_the_code_cells_of_a_notebook_count(tmp_path: Path) -> None:
    path = notebook(tmp_path, ("markdown", "import iopatterns.base.units"), ("code", "import iopatterns.base.signals"))
    (tmp_path / "src").symlink_to(ROOT / "src")
    found = rule_code.dependencies_of(tmp_path, path.name)
    assert found == ["src/iopatterns/__init__.py", "src/iopatterns/base/__init__.py", "src/iopatterns/base/signals.py"]
