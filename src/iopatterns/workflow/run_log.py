"""Print what a user wants to read of a run: reasons, progress and failures.

`RunLog` is a logger plugin of Snakemake, which receives Snakemake's log records. It prints a text for some of
Snakemake's events, such as the start of a job. A record without an event is printed if it is a warning or an error.
Snakemake's log file has every record. With --verbose, --printshellcmds or --debug-dag, Snakemake's own handler prints
instead.
"""

import atexit
import logging
import os
import re
import shlex
import signal
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from snakemake.common import NOTHING_TO_BE_DONE_MSG
from snakemake.scheduling import job_scheduler
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from iopatterns.measuring import progress
from iopatterns.workflow import batches, forecast, provenance, run_reasons
from iopatterns.workflow.planned_cells import Cells

if TYPE_CHECKING:
    from rich.progress import Progress

# The state in which Slurm ended a job. Snakemake's executor reports it only in the text of the job's error.
_SLURM_STATE = re.compile(r"SLURM status is:\s+'(?P<state>\w+)'")
_STATES = {
    "TIMEOUT": "it reached its time limit",
    "NODE_FAIL": "its host failed",
    "OUT_OF_MEMORY": "it needed more memory than it had requested",
    "CANCELLED": "it was cancelled",
    "PREEMPTED": "another job took its place",
}
# Text of Python's subprocess.CalledProcessError, in Snakemake's RuleException for a command that failed. A command that
# a signal killed has printed nothing itself.
_COMMAND_FAILED, _KILLED = "CalledProcessError", re.compile(r"died with <Signals\.\w+: \d+>")
# An error without an event, printed in addition to the error of the job
_JOB_FAILED = getattr(job_scheduler, "_ERROR_MSG_FINAL", None)
# Exceptions with which a run ends after a failed job or an interrupt
_ENDINGS = frozenset({"WorkflowError", "KeyboardInterrupt"})
# Environment variable with the command that the user typed, set by a script that calls Snakemake
COMMAND_VARIABLE = "IOPATTERNS_COMMAND"
_LONGEST_REASON = 100
_MOST_FILES = 2
# Without a progress bar, progress is printed when a study is complete, and otherwise at most this often
_PROGRESS_INTERVAL_S = 60.0


@dataclass
class _Job:
    """A job that has started.

    Attributes:
        rule: The name of its Snakemake rule.
        message: The message of its rule. For a job that measures, it has a line for each cell.
        logs: The paths of its log files.
        ending: Why the job failed, if Slurm or a signal ended it; otherwise empty.
    """

    rule: str
    message: str
    logs: list[str]
    ending: str = ""


class _Measuring:
    """The progress of measuring, printed for the user.

    It is a bar on a terminal, and an occasional line for any other stream.
    """

    def __init__(self, cells: Cells, outstanding: list[batches.Batch], stream: Any) -> None:
        self._repetitions = {batch.name: len(cells.missing(batch.cells)) for batch in outstanding}
        self._outstanding = Counter(batch.study for batch in outstanding)
        self._printed_s = time.monotonic()
        self._bar = _progress_bar(stream)
        if self._bar:
            self._task = self._bar.add_task("Measuring", total=sum(self._repetitions.values()))
            self._bar.start()
            atexit.register(self.stop)  # otherwise a run that ends in an error would leave the cursor hidden

    def batch_done(self, batch: batches.Batch) -> str:
        """Count a batch of cells as measured, and advance the bar.

        Returns:
            A line with the progress to print. The line is empty if a bar shows the progress. It is also empty if the
            study is not complete and a line was printed less than a minute ago.
        """
        self._outstanding[batch.study] -= 1
        is_study_complete = not self._outstanding[batch.study]
        if self._bar:
            self._bar.advance(self._task, self._repetitions[batch.name])
            if not self._outstanding.total():
                self.stop()
            return ""
        if not is_study_complete and time.monotonic() - self._printed_s < _PROGRESS_INTERVAL_S:
            return ""
        self._printed_s = time.monotonic()
        return f"{f'{batch.study} is measured' if is_study_complete else 'Measuring'}{progress.progress_text()}"

    def stop(self) -> None:
        """Remove the bar from the terminal, if there is one."""
        if self._bar:
            self._bar.stop()


def _progress_bar(stream: Any) -> "Progress | None":
    """Return a progress bar; None if the stream is not a terminal that can show a bar."""
    if not stream.isatty():
        return None
    from rich import progress as bars
    from rich.console import Console

    console = Console(file=stream)
    if console.is_dumb_terminal:
        return None
    columns = (
        "{task.description}",
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        "repetitions, left:",
        bars.TimeRemainingColumn(elapsed_when_finished=True),
    )
    # one estimate from the complete run: a batch takes seconds, so that a short period has too few samples
    return bars.Progress(*columns, console=console, transient=True, speed_estimate_period=1e9)


class RunLog(LogHandlerBase):
    """A handler of Snakemake's log records that prints short texts for the user.

    The texts are the reasons why cells are measured, progress and failures. A cell is one configuration: a drive, its
    settings and a workload.

    Attributes:
        cells: The cells of the run; None until `entry.load_workflow` sets them.
        changed: The files that differ from the records of how results were made, by the name of the rule.
    """

    cells: Cells | None = None
    changed: provenance.ChangedResults = {}  # noqa: RUF012 - replaced, never changed
    writes_to_file = needs_rulegraph = False
    has_filter = has_formatter = True

    def __post_init__(self) -> None:
        """Initialise the state, and read from Snakemake's settings what to print.

        A handler of SIGINT is installed, which notes that the user has pressed Ctrl-C.
        """
        settings = self.common_settings
        self._quiet = any(getattr(each, "name", "") == "ALL" for each in settings.quiet or ())
        self._is_off = settings.verbose or settings.printshellcmds or settings.debug_dag
        self._batches: Mapping[str, batches.Batch] = {}
        # rules whose jobs a dry run does not list, because the list of cells implies them
        self._implied: frozenset[str] = frozenset()
        self._measuring: _Measuring | None = None
        self._jobs: dict[int, _Job] = {}
        self._failed: dict[int, _Job] = {}
        self._has_begun = self._was_interrupted = False
        self._killed = ""
        self._watch_interrupts()

    @property
    def writes_to_stream(self) -> bool:
        """Whether this handler prints in place of Snakemake's own handler.

        The value is False if Snakemake was started with --verbose, --printshellcmds or --debug-dag.
        """
        return not self._is_off

    def emit(self, record: logging.LogRecord) -> None:
        """Print a text for the user if the log record is of interest.

        Other records are ignored. An error while printing is reported by `logging`, but does not end the run.

        Raises:
            BrokenPipeError: The output was closed.
        """
        try:
            if not self._is_off:
                self._take(record)
        except BrokenPipeError:
            raise
        except Exception:  # an error in printing must not end the run
            self.handleError(record)

    def _watch_interrupts(self) -> None:
        """Install a handler of SIGINT that records a Ctrl-C.

        It then calls the previous handler. Snakemake has no event for a Ctrl-C, and reports it like a failed job.
        """
        previous = signal.getsignal(signal.SIGINT)

        def interrupted(number: int, frame: FrameType | None) -> Any:
            self._was_interrupted = True
            return previous(number, frame) if callable(previous) else None

        if callable(previous):
            signal.signal(signal.SIGINT, interrupted)

    def _take(self, record: logging.LogRecord) -> None:
        about, text = record.__dict__, str(record.msg or "")
        match about.get("event"):
            case LogEvent.RUN_INFO:
                self._run_begins(about.get("stats", {}))
            case LogEvent.JOB_INFO:
                self._job_begins(about)
            case LogEvent.JOB_FINISHED:
                self._job_ends(self._jobs.get(about.get("job_id", -1)))
            case LogEvent.JOB_ERROR:
                self._job_fails(about)
            case LogEvent.ERROR:
                self._error(str(about.get("exception")), text)
            case None:
                # after a failure, warnings concern the files that the failed job has left
                is_warning = record.levelno == logging.WARNING and not (self._failed or self._was_interrupted)
                is_error = record.levelno > logging.WARNING and text != _JOB_FAILED
                if is_warning or is_error or text == NOTHING_TO_BE_DONE_MSG:
                    self._print(text, error=is_error)

    def _print(self, text: str, *, error: bool = False) -> None:
        if text.strip() and (error or not self._quiet):
            print(text.strip("\n"), file=self._stream, flush=True)

    @property
    def _stream(self) -> Any:
        """The standard stream to print to: stdout or stderr.

        It is looked up at each use, because rich replaces it while a progress bar is shown, and prints above the bar.
        """
        return sys.stdout if self.common_settings.stdout else sys.stderr

    def _run_begins(self, stats: Mapping[str, Any]) -> None:
        """Print which cells are measured, and why; in a dry run also the number of steps.

        Snakemake reports the jobs of a dry run twice. The second report is ignored.

        Args:
            stats: The number of jobs of each rule.
        """
        if self._has_begun:
            return
        self._has_begun = True
        is_dry = self.common_settings.dryrun
        for line in provenance.changed_lines(self.changed, stats):
            self._print(line)
        self._batches = batches.batches_by_name(self.cells) if self.cells else {}
        outstanding = [self._batches[rule] for rule in stats if rule in self._batches]
        unfinished = self.cells.unfinished(cell for batch in outstanding for cell in batch.cells) if self.cells else []
        if self.cells and unfinished:
            lines = run_reasons.measuring_reasons(self.cells, unfinished)
            for line in lines + (forecast.own_repetitions_lines(self.cells) if is_dry else []):
                self._print(line)
            if not (is_dry or self._quiet):
                self._measuring = _Measuring(self.cells, outstanding, self._stream)
        if is_dry:
            self._implied = frozenset(f"collect_{cell.study}" for cell in unfinished)
        others = sum(
            int(count)
            for rule, count in stats.items()
            if rule not in {"total", "all", *self._implied} and not rule.startswith("measure_")
        )
        if is_dry and others:
            self._print(f"{'Then' if outstanding else 'To do:'} {others} step{'' if others == 1 else 's'}:")

    def _job_begins(self, about: Mapping[str, Any]) -> None:
        number, rule = about.get("jobid", -1), str(about.get("rule_name"))
        if number in self._failed:
            self._print(f"{self._failure(self._failed.pop(number))} It is started again.")
        message = str(about.get("rule_msg") or rule).strip()
        self._jobs[number] = _Job(rule, message, list(about.get("log") or ()))
        if rule.startswith("measure_") or rule in self._implied:
            return
        if not self.common_settings.dryrun:
            self._print(message)
        elif rule != "all":
            self._print(f"  {message}{_because(str(about.get('reason') or ''))}")

    def _job_ends(self, job: _Job | None) -> None:
        if job and self._measuring and job.rule in self._batches:
            self._print(self._measuring.batch_done(self._batches[job.rule]))

    def _job_fails(self, about: Mapping[str, Any]) -> None:
        job = self._jobs.get(about.get("jobid", -1))
        if job is not None:
            state = _SLURM_STATE.search(str(about.get("rule_msg", "")))
            job.ending = _STATES.get(state["state"], "") if state else self._killed
            self._failed[about["jobid"]] = job
        self._killed = ""

    def _error(self, exception: str, text: str) -> None:
        """Print an exception of Snakemake.

        If the exception only reports that the run ends after a failed job or an interrupt, the text of `_end` is
        printed instead.

        Args:
            exception: The name of the exception's class.
            text: Its message.
        """
        if exception == "RuleException" and _COMMAND_FAILED in text:
            killed = _KILLED.search(text)
            self._killed = killed[0] if killed else ""
            return
        is_explained = exception in _ENDINGS and (self._failed or self._was_interrupted)
        if not is_explained:
            self._print(text, error=True)
        if is_explained or (exception in _ENDINGS and self._jobs and not self.common_settings.dryrun):
            self._end()

    def _end(self) -> None:
        """Print why the run ended, and the command that continues it.

        The reason is an interrupt by the user, or the jobs that failed.
        """
        if self._measuring:
            self._measuring.stop()
        if self._was_interrupted:
            self._print("Stopped.", error=True)
        else:
            for job in self._failed.values():
                self._print(self._failure(job), error=True)
        done = progress.progress_text().removeprefix(" - ").partition(",")[0]
        kept = f": {done}" if done and " of 0 " not in done else ""
        self._print(f"Finished measurements are kept{kept}. To continue: {_command()}", error=True)

    def _failure(self, job: _Job) -> str:
        """Return a message about a failed job, with the cause and the non-empty log files."""
        what = job.message.splitlines()[0] if job.message else job.rule
        if job.rule in self._batches and "\n" in job.message:
            what = what.partition(":")[0]
        logs = [path for path in job.logs if Path(path).is_file() and Path(path).stat().st_size]
        log = f" See {', '.join(logs)}." if logs else ""
        return f"Failed{f' ({job.ending})' if job.ending else ''}: {what}.{log}"


def _because(reason: str) -> str:
    """Return why Snakemake runs a job, in parentheses and with a leading blank.

    An example is `` (newer: config/config.yaml)``. The text is empty if the only reason is that the same run makes the
    job's inputs.

    Args:
        reason: The reason as worded by Snakemake, which provides no other form. Parts with unknown wording are kept.
    """
    parts = []
    for part in reason.split("; "):
        kind, _, files = part.partition(": ")
        named = [name for name in files.split(", ") if name and name != provenance.TRIGGER_FILE]
        if kind.startswith("Input files updated by another job"):
            continue
        if kind.startswith("Updated input files"):
            more = f" and {len(named) - _MOST_FILES} more" if len(named) > _MOST_FILES else ""
            parts.append(f"newer: {', '.join(named[:_MOST_FILES])}{more}" if named else "changed files")
        elif kind.startswith("Missing output files"):
            parts.append("missing")
        elif kind.startswith(("Params have changed", "Code has changed", "Set of input files has changed")):
            parts.append(kind.lower().removesuffix(" since last execution"))
        elif part and part != "Rules with neither input nor output files are always executed":
            parts.append(part if len(part) <= _LONGEST_REASON else f"{part[:_LONGEST_REASON]} …")
    return f" ({'; '.join(parts)})" if parts else ""


def _command() -> str:
    """Return the command with which the user can continue this run.

    It is Snakemake's command line, or the command of a script that called Snakemake.
    """
    if script := os.environ.get(COMMAND_VARIABLE):
        return script
    words = ["snakemake", *sys.argv[1:]]
    if not any(word.startswith(("--cores", "-c", "--jobs", "-j", "--profile")) for word in words):
        words[1:1] = ["--cores", "1"]
    return shlex.join(words)
