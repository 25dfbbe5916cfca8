"""Functions that the Snakefile calls first: check the project, and load its cells."""

import contextlib
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from iopatterns.base import isolation, messages
from iopatterns.base.checksum_cache import ChecksumCache
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.yaml_schema import ConfigError
from iopatterns.configuration import sources
from iopatterns.raw.cells import RAW_FOLDER
from iopatterns.workflow import drive_resources, planned_cells, provenance
from iopatterns.workflow.run_log import RunLog

# Characters that Snakemake interprets in the path of a rule's file
_UNUSABLE = {"{": "braces", "}": "braces", "\n": "a line break"}


@contextlib.contextmanager
def errors_as_messages() -> Iterator[None]:
    """Print the message of an IoPatternsError raised in the context, and exit.

    An IoPatternsError is an error that the user can correct. Without this context, Snakemake would print a traceback.
    Other exceptions pass unchanged.

    Raises:
        SystemExit: The context raised an IoPatternsError. The exit status is the ``exit_status`` of the error: 2 for
            wrong usage or configuration, otherwise 1.
    """
    try:
        yield
    except IoPatternsError as error:
        messages.say(str(error))
        raise SystemExit(error.exit_status) from None


def load_workflow(workflow: Any, overrides: Mapping[str, Any]) -> tuple[planned_cells.Cells, provenance.ChangedResults]:
    """Check the project, and return the cells of the run and the changed results.

    A cell is one configuration to measure: a drive, its settings and a workload. A result is changed if it or one of
    its inputs differs from the SHA-256 checksum that was recorded when the result was made.

    The function also writes the trigger file (see `provenance.write_trigger`), by which Snakemake makes changed results
    again. It passes both return values to each `RunLog` of the workflow, which prints the progress of the run.

    A process that Snakemake starts for a single job does not look for changed results and gets an empty mapping,
    because the main process has looked for them.

    Args:
        workflow: Snakemake's object of the running workflow.
        overrides: Values that replace keys of config/config.yaml, such as ``{"repetitions": 3}``.

    Returns:
        The cells of the run; and the files that differ from their checksums, by the name of the rule that must run
        again.

    Raises:
        ConfigError: Snakemake cannot run in the folder or has an option without a meaning here, a file of the user
            hides a module of Python, or the configuration is invalid.
        CaptureError: Traces are to be recorded, but the Linux kernel for recording has not been built.
        ProvenanceError: The trigger file cannot be written.
    """
    root = Path(workflow.basedir)
    check_folder(root)
    for name, file in isolation.hiding_files().items():
        raise ConfigError(
            f"{messages.printable(file)} was imported in place of Python's module '{name}'. Rename the file, or unset"
            " PYTHONPATH, and start `snakemake` again."
        )
    cache = ChecksumCache(root / provenance.CACHE_FILE) if workflow.is_main_process else None
    cells = planned_cells.load_cells(root, overrides, cache)
    if workflow.is_main_process:
        refuse_options(workflow, root / cells.config.results / "report.pdf", sys.argv[1:])
    drive_resources.check_independence(cells.config)
    changed = provenance.changed_results(root, cells.config.results, cache)
    provenance.write_trigger(root, is_newest=bool(changed or cells.outdated))
    if cache is not None:
        cache.save()
    for handler in workflow.logger_manager.get_log_handlers():
        if isinstance(handler, RunLog):
            handler.cells, handler.changed = cells, changed
    for log in workflow.logger_manager.logfile_handlers:
        # on a full disk, the run reports the error itself; Python would print a traceback for each line of the log
        log.handleError = _ignore
    return cells, changed


def _ignore(record: logging.LogRecord) -> None:
    """Ignore that a record was not written to a log file."""


def check_folder(root: Path) -> None:
    """Raise ConfigError if Snakemake cannot run in the project's folder.

    The folder must be the working directory, and its path must not contain braces or line breaks.

    Args:
        root: The project's folder.
    """
    path = str(root.absolute())
    if root.resolve() != Path.cwd().resolve():
        raise ConfigError(f"{messages.printable(path)} is the project's folder. Run Snakemake there.")
    for character, name in _UNUSABLE.items():
        if character in path:
            raise ConfigError(
                f"{messages.printable(path)}: Snakemake cannot run in a folder with {name} in its path. Move or rename"
                " the folder."
            )


def _targets(words: Sequence[str]) -> Sequence[str]:
    """Return the targets on Snakemake's command line, which its settings have only after it has read all rules."""
    from snakemake.cli import get_argument_parser

    targets: Sequence[str] = get_argument_parser().parse_known_args(words)[0].targets
    return targets


def refuse_options(workflow: Any, report: Path, words: Sequence[str]) -> None:
    """Raise ConfigError if Snakemake has an option that cannot have its effect in this workflow.

    Args:
        workflow: Snakemake's object of the running workflow.
        report: The report, which is the last file of a complete run.
        words: The words of the command line, without the name of the program.
    """

    def asked(option: str, least: str, short: str = "") -> bool:
        # Snakemake accepts shortened options
        names = [word.partition("=")[0] for word in words]
        return any(option.startswith(name) and name.startswith(least) for name in names) or short in words

    if asked("--containerize", "--containeri"):
        raise ConfigError(
            "--containerize: no rule has a Conda environment that a container could have. Leave it out. Nothing was"
            " run."
        )
    if asked("--touch", "--to", "-t") and not report.is_file() and not _targets(words):
        raise ConfigError(
            f"--touch: there is no report {messages.printable(report)} whose time it could set. Make the report first:"
            " snakemake --cores 1. Nothing was run."
        )
    if methods := workflow.deployment_settings.deployment_method:
        names = ", ".join(sorted(each.name.lower().replace("_", "-") for each in methods))
        raise ConfigError(
            f"--software-deployment-method {names}: all rules run in the Python environment that `./reproduce.sh` has"
            " installed from envs/requirements.txt, and none has another. Leave it out. Nothing was run."
        )


def require_sources(root: Path, inputs: Iterable[object]) -> None:
    """Raise ConfigError unless all source files of the rules exist and are readable.

    A source file is an input that no rule makes, such as a notebook. If the result of an earlier run exists, Snakemake
    itself does not report that a source file of this result is missing.

    Args:
        root: The project's folder.
        inputs: The inputs of all rules. Only plain paths are checked. Paths in data/raw or results, patterns with
            braces, and input functions are ignored.
    """
    made = (f"{RAW_FOLDER}/", "results/")
    wanted = [file for file in inputs if isinstance(file, str) and "{" not in file and not file.startswith(made)]
    if problems := sources.file_problems(root, wanted):
        raise ConfigError("\n".join(["Nothing was run, because input files of the report cannot be used.", *problems]))
