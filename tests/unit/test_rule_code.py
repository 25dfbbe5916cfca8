"""What a script or notebook rests on: our files, derived from direct and indirect imports, and compiled parts."""

import json
import os
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
    """What the build has installed, as files of this test's own."""
    copies = {name: tmp_path / "built" / path.name for name, path in rule_code._native_parts().items()}
    (tmp_path / "built").mkdir()
    for copy in copies.values():
        copy.write_bytes(b"as built")
    monkeypatch.setattr(rule_code, "_native_parts", lambda: copies)
    return copies


def changed_by(parts: dict[str, Path], *of: str) -> set[str]:
    """Return which compiled parts change the sum of those that something rests on."""
    found, before = set(), rule_code.native_checksum(ROOT, *of)
    for name, part in parts.items():
        part.write_bytes(b"built anew")
        if rule_code.native_checksum(ROOT, *of) != before:
            found.add(name)
        part.write_bytes(b"as built")
    assert rule_code.native_checksum(ROOT, *of) == before
    return found


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
        ("judging/formulas.py", {*ABLATION, "judge.py"}, True),
        ("workflow/report.py", {"report.py"}, False),
    ],
)
def test_exactly_those_rest_on_a_module_that_import_it(module: str, scripts: set[str], all_notebooks: bool) -> None:
    resting = {file.name for file in [*SCRIPTS, *NOTEBOOKS] if f"src/iopatterns/{module}" in behind(file)}
    scripts = scripts | {"twin_of.py"}  # which measures, judges steadiness and makes a report of its own
    assert resting == scripts | ({file.name for file in NOTEBOOKS} if all_notebooks else set())


def test_what_is_imported_by_what_is_imported_is_behind_a_script(tmp_path: Path) -> None:
    found = script(tmp_path, "from iopatterns.judging.claims import Judge")
    assert {"src/iopatterns/judging/claims.py", "src/iopatterns/judging/formulas.py"} <= set(found)
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


def test_a_module_is_behind_itself_with_all_that_it_imports() -> None:
    found = rule_code.dependencies_of(ROOT, "iopatterns.twin.fitting")
    assert {"src/iopatterns/twin/fitting.py", "src/iopatterns/twin/streams.py"} <= set(found)
    assert "src/iopatterns/twin/linux.py" not in found
    assert rule_code.dependencies_of(ROOT, "iopatterns.twin.fitting", "workflow/scripts/record.py") == sorted(
        {*found, *behind(ROOT / "workflow/scripts/record.py")}
    )


def test_a_package_has_its_modules_behind_it_that_it_imports() -> None:
    found = rule_code.dependencies_of(ROOT, "iopatterns.calls")
    assert {f"src/iopatterns/calls/{name}.py" for name in ("__init__", "strace", "dxt")} <= set(found)


def test_a_module_that_there_is_not_is_refused() -> None:
    with pytest.raises(ValueError, match=r"There is no module iopatterns\.twin\.fiting\."):
        rule_code.dependencies_of(ROOT, "iopatterns.twin.fiting")


def test_a_part_that_is_built_anew_counts_where_it_is_imported_or_named(parts: dict[str, Path]) -> None:
    assert {"iopatterns._twin", "twin_linux_machine", "libtwin_preload.so"} <= parts.keys()
    assert changed_by(parts, "workflow/scripts/record.py") == parts.keys()
    # it asks the drive itself; programs that run on a drive it names, but runs none
    assert changed_by(parts, "iopatterns.twin.fitting") == {"iopatterns._twin", "libtwin_preload.so"}
    assert changed_by(parts, "workflow/scripts/ablate_mechanism.py") == {"iopatterns._twin", "libtwin_preload.so"}
    assert changed_by(parts, "iopatterns.calls") == set()


def test_the_native_checksum_is_a_parameter_of_rules_that_a_default_run_does_not_use() -> None:
    rules = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "workflow/rules").glob("*.smk")}
    assert {name for name, text in rules.items() if "native_checksum(" in text} == {"ablate", "calibrate", "capture"}


def test_a_part_that_is_built_to_the_same_bytes_changes_nothing(parts: dict[str, Path]) -> None:
    before = rule_code.native_checksum(ROOT, "workflow/scripts/record.py")
    for part in parts.values():
        part.write_bytes(part.read_bytes())
        os.utime(part, (2_000_000_000, 2_000_000_000))
    assert rule_code.native_checksum(ROOT, "workflow/scripts/record.py") == before


def test_of_a_notebook_the_code_cells_alone_count(tmp_path: Path) -> None:
    path = notebook(tmp_path, ("markdown", "import iopatterns.base.units"), ("code", "import iopatterns.base.signals"))
    (tmp_path / "src").symlink_to(ROOT / "src")
    found = rule_code.dependencies_of(tmp_path, path.name)
    assert found == ["src/iopatterns/__init__.py", "src/iopatterns/base/__init__.py", "src/iopatterns/base/signals.py"]
