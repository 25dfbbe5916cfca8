"""CPU time of a repetition on a simulated drive, by how fio is started, compared with the start of fio.

CPU time is used because other load changes it little. The workload is one virtual second of random reads of 4 KiB, one
at a time.
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

REPETITIONS = 20
JOB = ["--name=randread", "--filename={drive}", "--rw=randread", "--bs=4k", "--size=1g", "--direct=1"]
JOB += ["--ioengine=psync", "--time_based=1", "--randrepeat=0", "--randseed=1", "--eta=never"]
JOB += ["--output-format=json+", "--allow_file_create=0", "--readonly"]


def cpu_s() -> float:
    """Return the CPU time of all finished child processes, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def each_ms(work: Callable[[], object]) -> float:
    """Return the mean CPU time of the repetitions that ``work`` makes, in milliseconds."""
    before = cpu_s()
    work()
    return 1000 * (cpu_s() - before) / REPETITIONS


def repeated(argv: list[str], environment: dict[str, str] | None = None) -> Callable[[], None]:
    """Return a function that runs a command `REPETITIONS` times, each time in a new process."""

    def work() -> None:
        for _ in range(REPETITIONS):
            subprocess.run(argv, env=environment, check=True, stdout=subprocess.DEVNULL)

    return work


def main() -> None:
    """Print the milliseconds per repetition, and the ratio to ``fio --version``."""
    twin = str(Path(sys.executable).with_name("twin"))
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        environment = running.prepare_environment("px05smb040", folder)

        def forked(runtime: str) -> None:
            argv = running.command_on_drive(["fio", *JOB, f"--runtime={runtime}", "--output=out.json"], environment)
            process = fio.FioForkServer(environment)
            for _ in range(REPETITIONS):
                process.run(argv, 1, argv)
            process.close()

        argv = ["fio", *JOB, "--runtime=1", "--output=out.json"]
        version_ms = each_ms(repeated(["fio", "--version"]))
        print(f"fio --version: {version_ms:.1f} ms")
        ways = {
            "twin run": each_ms(repeated([twin, "run", "px05smb040", "--state", folder, "--", *argv])),
            "fio started on a twin": each_ms(repeated(running.command_on_drive(argv, environment), environment)),
            "fio in a fork server": each_ms(lambda: forked("1")),
            "fio in a fork server, a millisecond instead of a second": each_ms(lambda: forked("1ms")),
        }
        for name, found_ms in ways.items():
            print(f"{name}: {found_ms:.1f} ms per repetition, {found_ms / version_ms:.2f} x fio --version")


if __name__ == "__main__":
    main()
