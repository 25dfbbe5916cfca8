"""What a run says on the terminal: why it measures, a line for each finished batch, and, where it ends early, what is
kept and how it goes on. Snakemake's own words go to its log file.

Snakemake's interface for loggers hands over each of its log records; `snakemake_logger_plugin_iopatterns` names the
class here. With --verbose, --printshellcmds or --debug-dag Snakemake speaks for itself.
"""

import logging
import os
import re
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from iopatterns.base import units
from iopatterns.configuration import grid
from iopatterns.measuring import progress
from iopatterns.workflow import batches, forecast, run_reasons
from iopatterns.workflow.planned_cells import Cells

# With these begin messages of Snakemake's that tell its own business
_OF_SNAKEMAKE = (
    "Assuming unrestricted shared filesystem usage",
    "Building DAG of jobs",
    "Cannot restore data/raw/",  # of a raw file that was not there before its job
    "Cleaning up SLURM log files",
    "Complete log",
    "Conda environments: ignored",
    "Elapsed time",
    "Exiting because a job execution failed",
    "Group jobs: inactive",
    "No SLURM account given",
    "No account was given",
    "Rules with ",
    "Select jobs to execute",
    "SLURM run ID",
    "Shutting down, this might take some time",
    "Singularity containers: ignored",
    "Some jobs were triggered by provenance information",
    "This was a dry-run",
    "Unable to guess SLURM account",
    "Using shell",
    "Will exit after finishing currently running jobs",
    "--keep-incomplete mode is set",
)
_METADATA = re.compile(r"\d+ jobs have (missing|outdated) provenance/metadata")
_SUBMITTED = re.compile(r"Job \d+ has been submitted with SLURM jobid")
_BEGUN_AGAIN = re.compile(r"Trying to restart job (?P<number>\d+)")
# How Slurm ended a job, by the word that its executor says
_OF_SLURM = re.compile(r"SLURM status is:\s+'(?P<state>\w+)'")
_STATES = {
    "TIMEOUT": "it reached its time limit",
    "NODE_FAIL": "its host failed",
    "OUT_OF_MEMORY": "it took more memory than it had asked for",
    "CANCELLED": "it was cancelled",
    "PREEMPTED": "another job took its place",
}
_REASONS = "Reasons:"
_BY_USER = ("Terminating processes on user request", "Cancelling snakemake on user request")
# How Snakemake tells that a job's command has failed, whose own message has been said
_COMMAND_FAILED = re.compile(
    r"RuleException:\s+CalledProcessError in file .*"
    r"(?P<how>died with <Signals\.\w+: \d+>|returned non-zero exit status \d+)",
    re.DOTALL,
)
_FAILED = "At least one job did not complete successfully"
# Events that say nothing to a user that is not said otherwise
_SILENT = frozenset(
    {
        LogEvent.WORKFLOW_STARTED,
        LogEvent.SHELLCMD,
        LogEvent.JOB_STARTED,
        LogEvent.RESOURCES_INFO,
        LogEvent.DEBUG_DAG,
        LogEvent.PROGRESS,
        LogEvent.RULEGRAPH,
        LogEvent.GROUP_INFO,
        LogEvent.GROUP_ERROR,
    }
)
_MEASURING = re.compile(r"Measuring (?P<study>\S+) on (?P<drive>\S+): \S+")
# By which a script that calls Snakemake says how it was called itself
COMMAND = "IOPATTERNS_COMMAND"
_LONGEST_REASON = 100
_MOST_FILES = 2


@dataclass
class _Job:
    """A job that was begun: its rule, its message, its log, when it began (by the monotonic clock), and how Slurm has
    ended it where that says more than that it failed.
    """

    rule: str
    message: str
    log: list[str]
    began_s: float
    how: str = ""


@dataclass
class _Run:
    """How far a run is: its jobs by Snakemake's number, those that failed, how the last of their commands ended, and
    whether the run was asked to stop.
    """

    jobs: dict[int, _Job] = field(default_factory=dict)
    failed: list[_Job] = field(default_factory=list)
    how: str = ""
    stopped: bool = False
    told_plan: bool = False


class RunLog(LogHandlerBase):
    """Turns Snakemake's log records into what a user wants to read."""

    def __post_init__(self) -> None:
        """Decide whether Snakemake is to speak for itself, and where to."""
        settings = self.common_settings
        self._run = _Run()
        self.cells: Cells | None = None  # set by the Snakefile's entry
        self._stream = sys.stdout if settings.stdout else sys.stderr
        self._quiet = any(getattr(each, "name", "") == "ALL" for each in settings.quiet or ())
        self._own: logging.Handler | None = None
        if settings.verbose or settings.printshellcmds or settings.debug_dag:
            self._own = _snakemakes_own(settings, self._stream)

    @property
    def writes_to_stream(self) -> bool:
        """Say that this takes the place of Snakemake's own handler."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Say that this writes no file."""
        return False

    @property
    def has_filter(self) -> bool:
        """Say that what is left out is decided here."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Say that the words are chosen here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """Say that the graph of rules is of no use here."""
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Say what a record of Snakemake's comes to, if it comes to anything."""
        if self._own is not None:
            if self._own.filter(record):
                self._own.emit(record)
            return
        try:
            self._take(record)
        except BrokenPipeError:
            raise
        except Exception:  # a fault here must not end the run that it tells of
            self.handleError(record)

    def _take(self, record: logging.LogRecord) -> None:
        event = getattr(record, "event", None)
        text = str(record.msg or "")
        if event in _SILENT:
            return
        if event == LogEvent.RUN_INFO:
            self._begin(getattr(record, "stats", {}))
        elif event == LogEvent.JOB_INFO:
            self._job_begins(record)
        elif event == LogEvent.JOB_FINISHED:
            self._job_ends(self._run.jobs.get(getattr(record, "job_id", -1)))
        elif event == LogEvent.JOB_ERROR:
            job = self._run.jobs.get(getattr(record, "jobid", -1))
            if job is not None:
                ended = _OF_SLURM.search(str(getattr(record, "rule_msg", "")))
                job.how = _STATES.get(ended["state"], "") if ended else ""
                self._run.failed.append(job)
        elif again := _BEGUN_AGAIN.match(text):
            self._begun_again(self._run.jobs.get(int(again["number"])))
        elif text.startswith(_BY_USER):
            self._run.stopped = True
            if event == LogEvent.ERROR:
                self._end()
        elif found := _COMMAND_FAILED.match(text):
            self._run.how = found["how"]
        elif event == LogEvent.ERROR and _FAILED in text:
            self._end()
        elif not (text.startswith((*_OF_SNAKEMAKE, _REASONS)) or _METADATA.match(text) or _SUBMITTED.match(text)):
            self._say(text, error=record.levelno >= logging.ERROR)

    def _say(self, text: str, *, error: bool = False) -> None:
        if text.strip() and (error or not self._quiet):
            print(text.strip("\n"), file=self._stream, flush=True)

    def _begin(self, stats: Mapping[str, Any]) -> None:
        """Say which cells are measured, and why. Of a dry run Snakemake tells the jobs twice."""
        if self._run.told_plan:
            return
        self._run.told_plan = True
        measured: list[grid.Cell] = []
        others = 0
        by_name = batches.by_name(self.cells) if self.cells else {}
        for rule, count in stats.items():
            if rule in by_name:
                measured += by_name[rule].cells
            elif rule not in {"total", "all"} and not rule.startswith("measure_"):
                others += int(count)
        if self.cells and measured:
            for line in run_reasons.lines(self.cells, self.cells.unfinished(measured)):
                self._say(line)
            for line in forecast.own_repetitions(self.cells) if self.common_settings.dryrun else ():
                self._say(line)
        if self.common_settings.dryrun and others:
            self._say(f"{'Then' if measured else 'To do:'} {others} step{'' if others == 1 else 's'}:")

    def _job_begins(self, record: logging.LogRecord) -> None:
        about = record.__dict__
        message = str(about.get("rule_msg") or about.get("rule_name") or "").strip()
        job = _Job(str(about.get("rule_name")), message, list(about.get("log") or ()), time.monotonic())
        self._run.jobs[about.get("jobid", -1)] = job
        if _is_measuring(job) or job.rule.startswith("measure_"):
            return
        if not self.common_settings.dryrun:
            self._say(message)
        elif job.rule != "all":
            self._say(f"  {message}{_because(str(about.get('reason') or ''))}")

    def _job_ends(self, job: _Job | None) -> None:
        if job is None:
            return
        took_s = time.monotonic() - job.began_s
        if not (found := _MEASURING.match(job.message)):
            return
        cells = len(job.message.splitlines())
        took = units.format_duration(took_s)
        of = f"{found['study']} on {found['drive']}: {cells} cell{'' if cells == 1 else 's'} in {took}"
        self._say(f"{of}{progress.outlook()}")

    def _begun_again(self, job: _Job | None) -> None:
        if job is not None and job in self._run.failed:
            self._run.failed.remove(job)
            self._say(f"{_failed(job)} It is begun again.")

    def _end(self) -> None:
        """Say why the run ends before its end, what is kept, and how it goes on."""
        if self._run.stopped:
            self._say("Stopped.", error=True)
        for job in [] if self._run.stopped else self._run.failed:
            # a command that was killed has said nothing itself
            self._say(_failed(job, self._run.how if "died" in self._run.how else ""), error=True)
        done = progress.outlook().removeprefix(" - ").partition(",")[0]
        kept = f"What is finished is kept: {done}." if done and " of 0 " not in done else "What is finished is kept."
        self._say(f"{kept} This goes on from there: {_command()}", error=True)


def _failed(job: _Job, how: str = "") -> str:
    """Return that a job has failed, how, and where its messages are."""
    what = job.message.splitlines()[0] if job.message else job.rule
    if _is_measuring(job) and "\n" in job.message:
        what = what.partition(":")[0]
    logs = [path for path in job.log if Path(path).is_file() and Path(path).stat().st_size]
    log = f" Its messages are in {', '.join(logs)}." if logs else ""
    how = job.how or how
    return f"Failed{f' ({how})' if how else ''}: {what}.{log}"


def _is_measuring(job: _Job) -> bool:
    return _MEASURING.match(job.message) is not None


def _because(reason: str) -> str:
    """Return why a step is taken, unless that is only that what it is made of is made first."""
    told = []
    for part in reason.split("; "):
        kind, _, files = part.partition(": ")
        named = [name for name in files.split(", ") if name]
        if kind.startswith("Input files updated by another job"):
            continue
        if kind.startswith("Updated input files"):
            more = f" and {len(named) - _MOST_FILES} more" if len(named) > _MOST_FILES else ""
            told.append(f"newer: {', '.join(named[:_MOST_FILES])}{more}")
        elif kind.startswith("Missing output files"):
            told.append("not there yet")
        elif kind.startswith(("Params have changed", "Code has changed", "Set of input files has changed")):
            told.append(kind.lower().removesuffix(" since last execution"))
        elif part and part != "Rules with neither input nor output files are always executed":
            told.append(part if len(part) <= _LONGEST_REASON else f"{part[:_LONGEST_REASON]} …")
    return f" ({'; '.join(told)})" if told else ""


def _command() -> str:
    """Return the command line that this run was started with: Snakemake's own, or that of the script that called it."""
    import shlex

    if script := os.environ.get(COMMAND):
        return script
    words = ["snakemake", *sys.argv[1:]]
    if not any(word.startswith(("--cores", "-c", "--jobs", "-j", "--profile")) for word in words):
        words[1:1] = ["--cores", "1"]
    return shlex.join(words)


def _snakemakes_own(settings: Any, stream: Any) -> logging.Handler:
    """Return the handler that Snakemake has without this one."""
    from snakemake.logging import ColorizingTextHandler, DefaultFilter, DefaultFormatter

    handler: logging.Handler = ColorizingTextHandler(
        nocolor=settings.nocolor,
        stream=stream,
        formatter=DefaultFormatter(settings.quiet, settings.show_failed_logs),
        filter=DefaultFilter(
            settings.quiet, settings.debug_dag, settings.verbose, settings.dryrun, settings.printshellcmds
        ),
    )
    return handler
