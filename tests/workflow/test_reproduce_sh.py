"""reproduce.sh, as far as it can be tested without installing anything."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from support import ROOT, Project, copy_project

from iopatterns.workflow.planned_cells import load_cells


def run(root: Path, *arguments: str, prefix: tuple[str, ...] = ()) -> "subprocess.CompletedProcess[str]":
    command = [*prefix, "bash", str(root / "reproduce.sh"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def quick(module_disk_folder: Path) -> Project:
    """Return a copy of the project with a small study and its quick report; nothing is installed."""
    project = copy_project(module_disk_folder / "project")
    project.edit("config/config.yaml", drives=["c400", "ssdsc2kg480g7"], runtime="20 ms")
    project.edit("config/quick.yaml", drives=["c400"])
    text = (ROOT / "reproduce.sh").read_text(encoding="utf-8")
    set_up = f'\nset_up() {{ export PATH="{Path(sys.executable).parent}:$PATH"; }}\nunused() {{'
    (project.root / "reproduce.sh").write_text(text.replace("\nset_up() {", set_up), encoding="utf-8")
    said = run(project.root, "quick")
    assert said.returncode == 0, said.stderr
    assert "tiny differs from the default in" not in said.stdout  # this copy has no recorded default
    assert "Measured: 16 repetitions" in said.stdout
    return project


def test_the_quick_report_has_its_own_results_folder(quick: Project) -> None:
    assert (quick.root / "results/quick/report.pdf").is_file()
    assert not (quick.root / "results/report.pdf").exists()


def test_the_complete_report_uses_the_measurements_of_the_quick_report(quick: Project) -> None:
    before = quick.raw_files()
    assert {path.split("/")[0] for path in before} == {"c400"}
    dry = quick.snakemake("-n")
    assert dry.returncode == 0, dry.stdout
    assert "Measuring tiny on ssdsc2kg480g7: " in dry.stdout
    assert "Measuring tiny on c400: " not in dry.stdout


def test_a_second_quick_report_measures_nothing(quick: Project) -> None:
    before = quick.raw_files()
    times = {path: (quick.root / "data/raw" / path).stat().st_mtime_ns for path in before}
    said = run(quick.root, "quick")
    assert said.returncode == 0, said.stderr
    assert {path: (quick.root / "data/raw" / path).stat().st_mtime_ns for path in quick.raw_files()} == times


def test_the_raw_files_of_the_quick_report_are_a_part_of_those_of_the_complete_one() -> None:
    changes = yaml.safe_load((ROOT / "config/quick.yaml").read_text(encoding="utf-8"))
    complete, quick = load_cells(ROOT), load_cells(ROOT, changes)
    assert changes["repetitions"] == 2
    study = complete.studies[0]
    some, all_raws = (set(cells.raw_files(cells.of_study(study))) for cells in (quick, complete))
    assert some < all_raws


def test_an_unknown_command_is_refused() -> None:
    said = run(ROOT, "tset")
    assert said.returncode == 2
    assert "there is no command 'tset'" in said.stderr


def test_a_user_without_sudo_gets_the_command_to_run_as_root(disk_folder: Path) -> None:
    if not shutil.which("apt-get"):
        pytest.skip("no Debian or Ubuntu")
    if shutil.which("sudo"):
        pytest.skip("sudo is installed here, and would ask for a password")
    shutil.copy(ROOT / "reproduce.sh", disk_folder)
    (disk_folder / "envs").mkdir()
    (disk_folder / "envs/apt.txt").write_text("no-such-package-1   # for this test\nbash   # is there\n")
    (disk_folder / "envs/apt-tests.txt").write_text("no-such-package-2   # for this test\n")
    disk_folder.chmod(0o755)
    nobody = ("setpriv", "--reuid=65534", "--clear-groups") if os.geteuid() == 0 else ()
    if subprocess.run([*nobody, "test", "-r", str(disk_folder / "reproduce.sh")], check=False).returncode:
        pytest.skip("another user cannot read this checkout")
    said = run(disk_folder, prefix=nobody)
    assert said.returncode == 1
    assert "    apt-get update && apt-get install --yes --no-install-recommends no-such-package-1\n" in said.stderr
    for words in (("test",), ("test", "--all")):
        said = run(disk_folder, *words, prefix=nobody)
        assert ("install --yes --no-install-recommends no-such-package-1\n" in said.stderr) == (len(words) == 1)
        assert ("no-such-package-1 no-such-package-2\n" in said.stderr) == (len(words) == 2)
    assert not (disk_folder / ".venv").exists()
