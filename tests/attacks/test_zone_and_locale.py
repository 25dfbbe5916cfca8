"""Tests that results do not depend on time zone, locale, umask or user."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support import ROOT, SNAKEMAKE, copy_project

from iopatterns.base import subprocess_env
from iopatterns.measuring import fio
from iopatterns.workflow import batches
from iopatterns.workflow.planned_cells import Cells, load_cells

EXECUTIONS = ("01", "02")
NOBODY = 65534
# variables that must not matter
ODD = {
    "POSIXLY_CORRECT": "1",
    "PYTHONWARNINGS": "error",
    "PYTHONOPTIMIZE": "2",
    "MPLBACKEND": "no such backend",
    "MATPLOTLIBRC": "/nowhere/matplotlibrc",
    "LANGUAGE": "de:fr",
}


@dataclass(frozen=True)
class Host:
    """The environment of a measurement.

    Attributes:
        variables: The environment variables.
        umask: The umask.
        is_of_nobody: Whether another user than root measures.
    """

    variables: dict[str, str] = field(default_factory=dict)
    umask: int = 0o022
    is_of_nobody: bool = False


GERMAN = dict.fromkeys(("LANG", "LC_ALL", "LC_NUMERIC", "LC_TIME", "LC_MESSAGES"), "de_DE.UTF-8")
HOSTS = {
    "Berlin, in German": Host({"TZ": "Europe/Berlin", **GERMAN}),
    "Kathmandu, all may write": Host({"TZ": "Asia/Kathmandu", "LC_NUMERIC": "de_DE.UTF-8", "LC_TIME": "C"}, 0o000),
    "another user, without a home": Host(
        {"TZ": "XYZ-13:45", "LC_ALL": "no_SUCH.locale", "HOME": "/nonexistent", "POSIXLY_CORRECT": "1"},
        0o077,
        is_of_nobody=True,
    ),
}


def sums() -> dict[str, str]:
    """Return the committed SHA-256 sum of each raw file, by path.

    The sums are for the installed version of fio.
    """
    folder = ROOT / "data/manifests" / fio.version()
    if not folder.exists():
        pytest.skip(f"{folder.name}: no manifest is committed for this fio")
    texts = (path.read_text() for path in sorted(folder.glob("*.sha256")))
    lines = (line.split() for text in texts for line in text.splitlines() if line[:1] not in {"", "#"})
    return {path: sum_ for sum_, path in lines}


# cells with a setting that sdparm changes
TUNED = re.compile(r"-(dra1|wce0|rcd1|fsw1)-[0-9a-f]{8}$")


def cells_of(found: dict[str, str]) -> list[str]:
    """Return the folders of some cells in data/raw.

    These are the first and last cell of some studies, and a tuned cell.
    """
    folders = [path.removeprefix("data/raw/").rpartition("/")[0] for path in found if path.endswith("/02.json")]
    studies = dict.fromkeys(folder.split("/")[1] for folder in folders)
    of_study = [[folder for folder in folders if folder.split("/")[1] == study] for study in studies]
    tuned = [folder for folder in folders if TUNED.search(folder)][:1]
    return [*(cells[place] for cells in of_study[:3] for place in (0, -1)), *tuned]


@pytest.fixture(scope="module")
def locales(module_disk_folder: Path) -> Path:
    """Return a folder with the German locale, which has a decimal comma.

    Few hosts have this locale.
    """
    if shutil.which("localedef") is None or not Path("/usr/share/i18n/locales/de_DE").exists():
        return module_disk_folder
    made = ["localedef", "-i", "de_DE", "-f", "UTF-8", str(module_disk_folder / "de_DE.UTF-8")]
    subprocess.run(made, check=False, capture_output=True)
    return module_disk_folder


@pytest.fixture(scope="module")
def cells() -> Cells:
    return load_cells(ROOT)


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS.keys())
def test_cells_of_a_default_run_give_the_committed_bytes(
    host: Host, cells: Cells, locales: Path, disk_folder: Path
) -> None:
    expected = sums()
    prefix: list[str] = []
    if host.is_of_nobody:
        if os.geteuid() != 0:
            pytest.skip("only root can become another user")
        prefix = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        reached = subprocess.run([*prefix, "sh", "-c", 'test -x "$0"', sys.executable], check=False)
        if reached.returncode:
            pytest.skip(f"{sys.executable}: is in a folder that other users may not enter")
        os.chown(disk_folder, NOBODY, NOBODY)
    # as in the active virtual environment
    here = {"PATH": f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin", "LOCPATH": str(locales)}
    differing = {}
    for folder in cells_of(expected):
        raws = [f"data/raw/{folder}/{name}.json" for name in EXECUTIONS]
        command = [sys.executable, "-m", "iopatterns", "measure"]
        ran = subprocess.run(
            [*prefix, *command, *batches.specification_options(cells.of_files(raws)), *raws],
            cwd=disk_folder,
            env={**here, **host.variables},
            umask=host.umask,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert ran.returncode == 0, ran.stderr
        for raw in raws:
            content = (disk_folder / raw).read_bytes()
            if hashlib.sha256(content).hexdigest() != expected[raw]:
                differing[raw] = content[:200]
    assert differing == {}


def test_a_run_gives_the_same_results_everywhere(disk_folder: Path, locales: Path) -> None:
    made = {}
    odd = {**ODD, "TZ": "Asia/Kathmandu", "LOCPATH": str(locales), **GERMAN}
    for name, variables, umask in (("here", {}, 0o022), ("there", odd, 0o077)):
        project = copy_project(disk_folder / name / "project")
        project.edit("config/config.yaml", drives=["c400"], runtime="20 ms", file_size="64 MiB")
        ran = subprocess.run(
            SNAKEMAKE,
            cwd=project.root,
            env={**os.environ, **variables},
            umask=umask,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=400,
        )
        assert ran.returncode == 0, ran.stdout
        # logs have times, and so have metadata, whose checksums are in the records of provenance
        kept = (path for path in (project.root / "results").rglob("*") if not {"logs", "provenance"} & set(path.parts))
        results = filter(Path.is_file, kept)
        made[name] = {
            **project.raw_files(),
            **{str(path.relative_to(project.root)): path.read_bytes() for path in results},
        }
    assert made["here"].keys() == made["there"].keys()
    assert "results/report.pdf" in made["here"]
    assert [path for path, content in made["here"].items() if made["there"][path] != content] == []


def test_locale_and_time_zone_of_the_user_are_replaced() -> None:
    given = {"PATH": "/bin", "LC_ALL": "de_DE", "LC_PAPER": "x", "LANG": "x", "TZ": "x", "TZDIR": "x", "LOCPATH": "x"}
    assert subprocess_env.child_environment(given) == {
        "PATH": "/bin",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "LC_NUMERIC": "C",
    }


def test_all_child_processes_have_the_uniform_environment() -> None:
    sources = {path: path.read_text() for path in (ROOT / "src/iopatterns").rglob("*.py") if "twin" not in path.parts}
    started = {path: len(re.findall(r"subprocess\.(?:run|Popen)\(", text)) for path, text in sources.items()}
    # `process.spawned` gets an environment that is minimal or prepared for a simulated drive
    given = re.compile(r"env=(?:(?:subprocess_env\.)?(?:child|minimal)_environment\(|dict\(environment\))")
    uniform = {path: len(given.findall(text)) for path, text in sources.items()}
    assert sum(started.values())
    assert started == uniform
