"""Run Snakemake in forks of a process that has imported it, because importing takes longer than most test runs."""

import multiprocessing
import os
import runpy
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from patience import Limit

# A process imports Snakemake, and is forked for each run. It does not import the package, which each run imports in its
# own environment.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["snakemake.cli", "snakemake.report.html_reporter", "nbformat", "smart_open"])


def run(
    arguments: Sequence[str], limit_s: float, folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m snakemake``; return the exit status and the output of the run and its jobs as one text.

    Raises:
        TimeoutExpired: The run did not end within the limit, and was killed.
    """
    command = [sys.executable, "-m", "snakemake", *arguments]
    limit = Limit(limit_s)
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as output:
        process = _processes.Process(target=_snakemake, args=(arguments, folder, environment, output.name))
        process.start()
        try:
            while process.is_alive():
                process.join(limit.remaining_s())
                if process.is_alive() and limit.expired():
                    raise subprocess.TimeoutExpired(command, limit_s, output=output.read())
        finally:
            process.kill()
            process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(command, process.exitcode, output.read())


def _snakemake(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], output_file: str) -> None:
    """Become ``python -m snakemake``, in a forked process."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(output_file, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[1:] = arguments
    sys.path[0] = str(folder)
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
