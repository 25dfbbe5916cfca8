"""Helpers of several layers of tests."""

import atexit
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import loaded_snakemake
import pytest
import yaml
from patience import run as run_patiently

ROOT = Path(__file__).resolve().parent.parent
# The fixture study, in the layout of the project. Tests of the package need no other study.
FIXTURE = ROOT / "tests/fixture_study"
FIXTURE_STUDY = "tiny"
FIXTURE_GRID = f"config/studies/{FIXTURE_STUDY}.yaml"
FIXTURE_DRIVES = ("c400", "ssdsc2kg480g7")

# The files of a copy of the project
PROJECT = ("Snakefile", "config", "envs", "notebooks", "paper", "profiles", "pyproject.toml", "src", "workflow")

# The configuration of such a copy: a short run on a file
TINY = {
    "drives": ["scratch"],
    "studies": [FIXTURE_STUDY],
    "repetitions": 2,
    "runtime": "100 ms",
    "warmup": "0 s",
    "file_size": "8 MiB",
}


@dataclass
class Project:
    """A copy of the project in a folder of its own, like a fresh clone."""

    root: Path

    def edit(self, file: str, **changes: object) -> None:
        """Replace top-level keys in a YAML file of the project."""
        path = self.root / file
        content = yaml.load(path.read_text(), Loader=yaml.CSafeLoader)  # ten times as fast
        path.write_text(yaml.dump({**content, **changes}, Dumper=yaml.CSafeDumper))

    def snakemake(self, *arguments: str, timeout_s: float = 300) -> subprocess.CompletedProcess[str]:
        """Run Snakemake in the project. Standard output contains standard error, too."""
        return loaded_snakemake.run(["--cores", "1", *arguments], timeout_s, self.root, self._environment())

    def iopatterns(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the package in the project.

        Standard output contains standard error, too.
        """
        return run_patiently(
            [sys.executable, "-m", "iopatterns", *arguments],
            60,
            cwd=self.root,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _environment(self) -> dict[str, str]:
        """Return the environment of a user who has not activated the virtual environment."""
        path = [part for part in os.environ["PATH"].split(":") if Path(part) != Path(sys.executable).parent]
        return {**os.environ, "PATH": ":".join(path)}

    def raw_files(self) -> dict[str, bytes]:
        """Return the content of each raw file, by its path in data/raw."""
        raw = self.root / "data/raw"
        return {
            str(path.relative_to(raw)): path.read_bytes()
            for path in sorted(raw.glob("*/*/*/*.json"))
            if not path.name.endswith(".sidecar.json")
        }


SNAKEMAKE = (sys.executable, "-m", "snakemake", "--cores", "1")
# Processes that a shell starts in the background ignore Ctrl-C. A command with this prefix does not.
WITH_DEFAULT_SIGINT = ("env", "--default-signal=INT")


def shortened(experiments: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return experiments without ``runtime`` and ``ramp_time``.

    The configured runtime then applies.
    """
    found = {}
    for name, body in experiments.items():
        found[name] = {key: value for key, value in body.items() if key != "runtime"}
        if "fio" in body:
            found[name]["fio"] = {key: value for key, value in body["fio"].items() if key != "ramp_time"}
    return found


def pdf_text(pdf: Path | bytes) -> str:
    """Return the words of all pages of a PDF, separated by blanks.

    Hyphens at line ends are kept.
    """
    import pypdfium2  # slow to import in the guest

    with pypdfium2.PdfDocument(pdf) as document:
        text = " ".join(page.get_textpage().get_text_range() for page in document)
    return " ".join(text.replace("\ufffe", "-").split())  # a hyphen at the end of a line


def copy_project(root: Path, without: Collection[str] = ()) -> Project:
    """Copy the project, with a configuration for a short run.

    The fixture study has one experiment only.

    Args:
        root: The new folder.
        without: Files and folders that are not copied.
    """
    for name in sorted({*PROJECT} - {*without}):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints"))
        else:
            root.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, root / name)
    for data in sorted({"data/published", "data/traces", "data/twins", "data/workloads"} - {*without}):
        if (ROOT / data).exists():  # there may be no traces or workloads
            shutil.copytree(ROOT / data, root / data)
    project = Project(root)
    project.edit("config/config.yaml", **TINY)
    shutil.copytree(FIXTURE, root, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tests", "__pycache__"))
    study = yaml.safe_load((root / FIXTURE_GRID).read_text())
    project.edit(FIXTURE_GRID, experiments={"initial": study["experiments"]["initial"]})
    return project


@cache
def fixture_root() -> Path:
    """Return a read-only project with the complete fixture study."""
    folder = Path(tempfile.mkdtemp(prefix="iopatterns-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    project = copy_project(folder / "project", without=("src", "data/traces", "data/workloads"))
    shutil.copy(FIXTURE / FIXTURE_GRID, project.root / FIXTURE_GRID)
    shutil.copy(ROOT / "config/config.yaml", project.root / "config/config.yaml")
    project.edit("config/config.yaml", drives=list(FIXTURE_DRIVES), studies=[FIXTURE_STUDY])
    return project.root


# The recorded files of results/measurements for each study
RECORDED_KINDS = ("parquet", "tuning.json", "provenance.json")


def recorded_file(study: str, kind: str) -> Path:
    """Return the path of a recorded file of a study.

    ``kind`` is one of `RECORDED_KINDS`.
    """
    return (FIXTURE if study == FIXTURE_STUDY else ROOT) / f"tests/studies/{study}/recorded.{kind}"


def user_files(root: Path) -> dict[str, bytes]:
    """Return the content of each file in a project that no run creates, by path."""
    made = {"results", ".snakemake", "__pycache__", ".ipynb_checkpoints"}
    paths = (path for path in sorted(root.rglob("*")) if path.is_file())
    relative = {str(path.relative_to(root)): path for path in paths if not made & {*path.relative_to(root).parts}}
    return {name: path.read_bytes() for name, path in relative.items() if not name.startswith("data/raw/")}


# The scorecards of recorded studies, cached because judging takes seconds
_judged: dict[str, Mapping[str, Any]] = {}


def recorded_studies() -> list[str]:
    """Return the names of the studies of the project that have a recorded measurement."""
    return sorted(path.parent.name for path in ROOT.glob("tests/studies/*/recorded.parquet"))


def copy_recorded_results(project: Path, studies: Sequence[str] = (FIXTURE_STUDY,)) -> Path:
    """Copy recorded measurements of studies to a project.

    The project also gets all other input of analysis and report.
    """
    for folder in ("notebooks", "paper", "data/published", "data/twins", "workflow/schemas"):
        ignored = shutil.ignore_patterns(".ipynb_checkpoints", "conftest.py")
        shutil.copytree(ROOT / folder, project / folder, ignore=ignored)
        if (FIXTURE / folder).exists():
            shutil.copytree(FIXTURE / folder, project / folder, dirs_exist_ok=True)
    (project / "Snakefile").touch()
    (project / "results/measurements").mkdir(parents=True)
    provenance = {}
    for study in studies:
        for kind in RECORDED_KINDS:
            shutil.copy(recorded_file(study, kind), project / f"results/measurements/{study}.{kind}")
        grid_file = (FIXTURE if study == FIXTURE_STUDY else ROOT) / f"config/studies/{study}.yaml"
        grid = yaml.load(grid_file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
        title = {"title": grid["title"], "source": grid.get("source", "")}
        provenance[study] = title | json.loads(recorded_file(study, "provenance.json").read_text(encoding="utf-8"))
    from iopatterns.analysis import collect  # imports pandas, which few tests need
    from iopatterns.judging import scorecard

    (project / "results/colophon.json").write_text(json.dumps(collect.report_colophon(provenance)), encoding="utf-8")
    for study in studies:
        if study not in _judged:
            _judged[study] = scorecard.judge_study(project, study)
    scorecard.write_scorecard(project, {study: _judged[study] for study in studies})
    return project


def file_cell(folder: Path) -> Any:
    """Return the specification of a short random read of a file.

    The file ``drive.bin`` is in the folder. Tests may modify the specification.
    """
    return _cell({"kind": "file", "name": "test", "path": str(folder / "drive.bin")}, "randread")


def disk_cell(
    entry: Mapping[str, Any], name: str, rw: str, runtime_ms: int = 100, *, direct: int = 1, **settings: Any
) -> Any:
    """Return the specification of a short run on a disk.

    ``entry`` is the entry of the disk in config/drives.yaml.
    """
    identity = {key: value for key, value in entry.items() if key not in {"destroy", "expendable"}}
    cell = _cell({**identity, "name": name}, rw, runtime_ms, direct)
    return {**cell, "settings": settings} if settings else cell


def _cell(drive: Mapping[str, Any], rw: str, runtime_ms: int = 100, direct: int = 1) -> dict[str, Any]:
    return {
        "protocol": 2,
        "runtime_ms": runtime_ms,
        "warmup_ms": 0,
        "seed": 1,
        "drive": {**drive, "file_size_bytes": 8 * 2**20},
        "fio": {"rw": rw, "bs": 4096, "ioengine": "psync", "direct": direct, "group_reporting": 1},
    }


def script(path: Path) -> ModuleType:
    """Return a script of the project as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look up the module of a class there
    spec.loader.exec_module(module)
    return module


@contextmanager
def busy_processors() -> Iterator[None]:
    """Keep all processors busy in this context."""
    hogs = [subprocess.Popen([sys.executable, "-S", "-c", "while True: pass"]) for _ in range(os.cpu_count() or 1)]
    try:
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.wait()


def processes_matching(text: str) -> list[int]:
    """Return the live processes whose command line contains a text.

    This process is left out.
    """
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
            except OSError:
                continue
            if text.encode() in command:
                found.append(int(entry.name))
    return found


def make_odd_files(folder: Path) -> None:
    """Create files that are huge or not regular.

    Their names are fifo, zero, folder, loop and sparse.
    """
    os.mkfifo(folder / "fifo")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "folder").mkdir()
    (folder / "loop").symlink_to("loop")
    (folder / "sparse").touch()
    os.truncate(folder / "sparse", 10 * 2**30)


def refusal_message(read: Callable[[], object], error: type[Exception], most_characters: int) -> str:
    """Return the one-line message with which a reader refuses its input.

    The reader must take bounded time.
    """
    began = time.process_time()
    with pytest.raises(error) as caught:
        read()
    assert time.process_time() - began < 4  # much less on an idle machine
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < most_characters
    return message


@contextmanager
def other_writer(path: Path) -> Iterator[int]:
    """Let another process keep a file open for writing; yield its process id."""
    with subprocess.Popen(
        ["sh", "-c", 'exec 3<>"$0"; echo; read x', path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        program.stdout.readline()
        yield program.pid
