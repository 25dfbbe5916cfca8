"""fio: its command line, its processes, the server for simulated drives, and the check of its results."""

from iopatterns.measuring.fio.command_line import command, histogram_log, only_reads
from iopatterns.measuring.fio.fork_server import FioForkServer
from iopatterns.measuring.fio.preparation import fill, random_writes
from iopatterns.measuring.fio.process import DisturbedError, FioError, Outcome, die_with_parent, run, version
from iopatterns.measuring.fio.result import check

__all__ = [
    "DisturbedError",
    "FioError",
    "FioForkServer",
    "Outcome",
    "check",
    "command",
    "die_with_parent",
    "fill",
    "histogram_log",
    "only_reads",
    "random_writes",
    "run",
    "version",
]
