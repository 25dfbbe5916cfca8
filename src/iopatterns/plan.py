"""What a configuration asks for, as the workflow's rules need it: its files, and what is still to measure."""

import fcntl
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from iopatterns import cells, config, grid, messages, progress, units
from iopatterns.twin.state import find_model

RAW = "data/raw"
# What fio takes beside its runtime, to start and to stop; only estimates rest on it
_FIO_START_STOP_S = 0.35


class Plan:
    """The cells of all studies that a configuration names, and their files below ``data/raw``."""

    def __init__(self, root: Path, overrides: Mapping[str, Any] | None = None) -> None:
        """Read and expand the configuration. Raises ConfigError."""
        self.config = config.load(root, overrides)
        self._root = root
        self._cells = {
            study: {cell.folder: cell for cell in grid.expand(self.config, study)} for study in self.config.studies
        }

    @classmethod
    def or_exit(cls, root: Path, overrides: Mapping[str, Any] | None = None) -> "Plan":
        """Return the plan, or print what is wrong with the configuration and end with its exit status."""
        try:
            return cls(root, overrides)
        except config.ConfigError as error:
            messages.say(str(error))
            raise SystemExit(error.exit_status) from None

    @property
    def studies(self) -> list[str]:
        """The names of the studies, in the order of the configuration."""
        return list(self.config.studies)

    def executions(self, study: str) -> list[str]:
        """Return the names of the executions of each cell of a study: ``["01", … "10"]``."""
        return grid.execution_names(grid.repetitions(self.config, study))

    def raw_files(self, study: str) -> list[str]:
        """Return the paths of all raw files of a study."""
        executions = self.executions(study)
        return [f"{RAW}/{folder}/{execution}.json" for folder in self._cells[study] for execution in executions]

    def specification(self, drive: str, study: str, cell: str) -> str:
        """Return the specification of a cell as canonical JSON."""
        return cells.canonical(self._cells[study][f"{drive}/{study}/{cell}"].specification)

    def experiments(self, study: str) -> dict[str, str]:
        """Return which experiments ask for each cell of a study: their names, spaces between, by the cell's folder."""
        return {folder: " ".join(cell.experiments) for folder, cell in self._cells[study].items()}

    def is_real(self, drive: str) -> bool:
        """Return whether a drive is one of this machine, that only one measurement may use at a time."""
        return bool(self.config.drives[drive]["kind"] != "twin")

    def fitted_models(self) -> list[str]:
        """Return the names of the models in data/twins that record a fit."""
        files = sorted((self._root / "data/twins").glob("*.yaml"))
        return [file.stem for file in files if "\nfit:" in file.read_text(encoding="utf-8")]

    def models(self) -> list[str]:
        """Return the files of the models of twins that are measured."""
        models = {drive["model"] for drive in self.config.drives.values() if drive["kind"] == "twin"}
        return [os.path.relpath(find_model(model), self._root) for model in sorted(models)]

    def tables(self, study: str) -> list[str]:
        """Return the table files that a study's notebook writes: CSV, LaTeX and typst for each table it names."""
        names = self._outputs(study, "tables")
        return [f"results/tables/{study}/{name}.{suffix}" for name in names for suffix in ("csv", "tex", "typ")]

    def figures(self, study: str) -> list[str]:
        """Return the figure files that a study's notebook writes: SVG and PNG for each figure it names."""
        names = self._outputs(study, "figures")
        return [f"results/figures/{study}/{name}.{suffix}" for name in names for suffix in ("svg", "png")]

    def _outputs(self, study: str, kind: str) -> list[str]:
        """Return what a study's notebook makes of one kind: of each experiment that runs on any drive configured."""
        content = self.config.studies[study]
        names = list(content.get(kind, []))
        for experiment, body in content["experiments"].items():
            if grid.drives_of(self.config, study, experiment):
                names += body.get(kind, [])
        return list(dict.fromkeys(names))

    def analysis_parameters(self) -> dict[str, Any]:
        """Return the notebook parameters that the configuration decides."""
        return {"confidence": self.config.confidence, "interval": self.config.interval}

    def titles(self) -> dict[str, dict[str, str]]:
        """Return title and source of each study, for the report."""
        return {
            study: {"title": content["title"], "source": content["source"]}
            for study, content in self.config.studies.items()
        }

    def to_measure(self) -> tuple[int, float]:
        """Return how many executions are not there yet, and an estimate of fio's time for them in seconds."""
        executions, seconds = 0, 0.0
        warm_up_s = self.config.warmup_ms / 1000 + _FIO_START_STOP_S if self.config.warmup_ms else 0.0
        for study in self.studies:
            wanted = {f"{execution}.json" for execution in self.executions(study)}
            for folder in self._cells[study]:
                missing = len(wanted - self._present(folder))
                executions += missing
                seconds += missing * (self.config.runtime_ms / 1000 + _FIO_START_STOP_S)
                seconds += warm_up_s if missing else 0.0
        return executions, seconds

    def _present(self, folder: str) -> set[str]:
        try:
            return set(os.listdir(self._root / RAW / folder))
        except FileNotFoundError:
            return set()

    def begin(self) -> None:
        """Keep other runs out of this folder, say what this one will measure, and start its progress count."""
        self._lock = _lock_folder(self._root / RAW)
        # jobs call `iopatterns` by name: it lies beside the Python that runs Snakemake, active environment or not
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}"
        executions, seconds = self.to_measure()
        progress.begin(self._root / RAW / ".progress", executions)
        if executions:
            drives = ", ".join(self.config.drives)
            messages.say(f"To measure: {executions} executions on {drives}, about {units.format_duration(seconds)}.")


def _lock_folder(folder: Path) -> TextIO:
    """Return an open lock file, held until this process ends; end with a message while another process holds it.

    Snakemake's own lock outlives a killed run and must then be removed by hand; the kernel releases this one.
    """
    folder.mkdir(parents=True, exist_ok=True)
    lock = open(folder / ".run.lock", "a+", encoding="utf-8")  # noqa: SIM115 - held as long as the process lives
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        messages.say(f"Process {lock.read().strip()} is running this workflow already. Wait for it, or stop it.")
        raise SystemExit(1) from None
    lock.truncate(0)
    lock.write(str(os.getpid()))
    lock.flush()
    return lock
