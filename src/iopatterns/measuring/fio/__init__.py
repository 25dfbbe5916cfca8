"""fio: command line, processes, server for simulated drives, check of results."""

from iopatterns.measuring.fio.command_line import fio_command_line, histogram_log, only_reads
from iopatterns.measuring.fio.fork_server import FioForkServer
from iopatterns.measuring.fio.preparation import fill, random_writes
from iopatterns.measuring.fio.process import DisturbedError, FioError, FioOutcome, die_with_parent, run_fio, version
from iopatterns.measuring.fio.result import check_result

__all__ = [
    "DisturbedError",
    "FioError",
    "FioForkServer",
    "FioOutcome",
    "check_result",
    "die_with_parent",
    "fill",
    "fio_command_line",
    "histogram_log",
    "only_reads",
    "random_writes",
    "run_fio",
    "version",
]
