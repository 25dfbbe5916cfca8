"""Runs whose results do not fit on the disk."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path

import pytest
from loops import run, undone
from support import Project, copy_project

pytestmark = pytest.mark.slow

MESSAGE = "No space left on device. Free space there or make it writable, and run again. Finished results are kept."
# the files of each rule that writes results
RESULTS = {
    "collect_tiny": "results/measurements/*",
    "analyse_tiny": "results/[tfn][aiuo][bgmt]*/**/*.*",
    "judge": "results/scorecard.json",
    "report": "results/report.pdf",
}


@pytest.fixture(scope="module")
def complete(module_disk_folder: Path) -> Project:
    project = copy_project(module_disk_folder / "complete", without=("data/traces", "data/workloads"))
    done = project.snakemake()
    assert done.returncode == 0, done.stdout
    return project


@contextmanager
def in_memory(folder: Path, size_mib: int) -> Iterator[None]:
    """Put a folder with its content on a small file system in memory."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as saved:
        shutil.copytree(folder, saved, symlinks=True, dirs_exist_ok=True)
        try:
            run("mount", "-t", "tmpfs", "-o", f"size={size_mib}m", "none", folder)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no tmpfs can be mounted here: {error.stderr}")
        with undone("umount", "--lazy", folder):
            shutil.copytree(saved, folder, symlinks=True, dirs_exist_ok=True)
            yield


def fill(folder: Path, left_bytes: int) -> Path:
    """Fill a file system except ``left_bytes``; return the file that fills it."""
    ballast = folder / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        with pytest.raises(OSError, match="No space left"):
            write_until_error(file)
        file.truncate(file.tell() - left_bytes)
    return ballast


def write_until_error(file: FileIO) -> None:
    while True:
        file.write(bytes(4096))


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "ballast"}


@pytest.mark.parametrize("rule", RESULTS)
def test_results_on_a_full_disk_are_an_error(rule: str, complete: Project) -> None:
    results = complete.root / "results"
    with in_memory(results, 16):
        missing = [*sorted(complete.root.glob(RESULTS[rule])), results / f"provenance/{rule}.json"]
        for path in missing:
            path.unlink()
        before = contents(results)
        ballast = fill(results, left_bytes=12288)
        refused = complete.snakemake(rule, "--rerun-triggers", "mtime")
        assert refused.returncode == 1
        assert MESSAGE in refused.stdout
        assert "Traceback" not in refused.stdout
        assert not list(results.rglob(".*.partial"))
        assert before.items() <= contents(results).items()
        ballast.unlink()
        done = complete.snakemake(rule, "--rerun-triggers", "mtime")
        assert done.returncode == 0, done.stdout
        assert all(path.stat().st_size for path in missing)


def test_a_project_on_a_full_disk_is_an_error(complete: Project) -> None:
    with in_memory(complete.root, 200):
        ballast = fill(complete.root, left_bytes=0)
        refused = complete.snakemake("--forcerun", "collect_tiny")
        assert refused.returncode == 1
        assert MESSAGE in refused.stdout
        assert "Traceback" not in refused.stdout
        ballast.unlink()
        done = complete.snakemake("--forcerun", "collect_tiny")
        assert done.returncode == 0, done.stdout
