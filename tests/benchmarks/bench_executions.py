"""Processor time of a repetition on a simulated drive, by the way in which fio is started.

Processor time depends less than wall time on other programs of the machine. The workload is a virtual second of 4 KiB
random reads, one at a time, as in the studies.
"""

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from iopatterns.measuring import fio
from iopatterns.twin import running

EXECUTIONS = 20
JOB = ["--name=randread", "--filename={drive}", "--rw=randread", "--bs=4k", "--size=1g", "--direct=1"]
JOB += ["--ioengine=psync", "--time_based=1", "--randrepeat=0", "--randseed=1", "--eta=never"]
JOB += ["--output-format=json+", "--allow_file_create=0", "--readonly"]


def cpu_s() -> float:
    """Return the processor time of all child processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def each_ms(work: Callable[[], object]) -> float:
    """Return the processor time per repetition, in milliseconds, when ``work`` makes `EXECUTIONS` repetitions."""
    before = cpu_s()
    work()
    return 1000 * (cpu_s() - before) / EXECUTIONS


def repeated(argv: list[str], environment: dict[str, str] | None = None) -> Callable[[], None]:
    """Return a function that runs a command `EXECUTIONS` times, each in a new process."""

    def work() -> None:
        for _ in range(EXECUTIONS):
            subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)

    return work


def main() -> None:
    """Print milliseconds per repetition, and ratios to ``fio --version``."""
    twin = str(Path(sys.executable).with_name("twin"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        environment = running.prepare_environment("px05smb040", folder)

        def loaded(runtime: str) -> None:
            argv = running.command_on_drive(["fio", *JOB, f"--runtime={runtime}", "--output=out.json"], environment)
            process = fio.FioForkServer(environment)
            for _ in range(EXECUTIONS):
                process.run(argv, 1, argv)
            process.close()

        argv = ["fio", *JOB, "--runtime=1", "--output=out.json"]
        version_ms = each_ms(repeated(["fio", "--version"]))
        print(f"fio --version: {version_ms:.1f} ms")
        ways = {
            "twin run": each_ms(repeated([twin, "run", "px05smb040", "--state", folder, "--", *argv])),
            "fio started on a twin": each_ms(repeated(running.command_on_drive(argv, environment), environment)),
            "fio kept loaded": each_ms(lambda: loaded("1")),
            "fio kept loaded, runtime of a millisecond": each_ms(lambda: loaded("1ms")),
        }
        for name, found_ms in ways.items():
            print(f"{name}: {found_ms:.1f} ms per repetition, {found_ms / version_ms:.2f} x fio --version")


if __name__ == "__main__":
    main()
