"""Runs Snakemake in processes that have loaded it already: loading takes longer than most of what tests ask of it."""

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

# One process loads Snakemake, and is forked for each run; what a run changes in its own process is gone with it. The
# package is not loaded there: each run loads it anew, under its own environment.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["snakemake.cli", "snakemake.report.html_reporter", "nbformat", "smart_open"])


def run(
    arguments: Sequence[str], limit_s: float, folder: Path, environment: Mapping[str, str]
) -> "subprocess.CompletedProcess[str]":
    """Run ``python -m snakemake`` with ``arguments`` in ``folder``; what it and its jobs say comes as one text.

    Where it does not end in time it is killed; TimeoutExpired.
    """
    command = [sys.executable, "-m", "snakemake", *arguments]
    limit = Limit(limit_s)
    with tempfile.NamedTemporaryFile(mode="r", encoding="utf-8") as said:
        process = _processes.Process(target=_snakemake, args=(arguments, folder, environment, said.name))
        process.start()
        try:
            while process.is_alive():
                process.join(limit.remaining_s())
                if process.is_alive() and limit.expired():
                    raise subprocess.TimeoutExpired(command, limit_s, output=said.read())
        finally:
            process.kill()
            process.join()
        assert process.exitcode is not None
        return subprocess.CompletedProcess(command, process.exitcode, said.read())


def _snakemake(arguments: Sequence[str], folder: Path, environment: Mapping[str, str], said: str) -> None:
    """Become ``python -m snakemake``, in the process that was forked."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(said, os.O_WRONLY | os.O_APPEND)
    for standard in (1, 2):
        os.dup2(output, standard)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    sys.argv[1:] = arguments
    sys.path[0] = str(folder)
    runpy.run_module("snakemake", run_name="__main__", alter_sys=True)
