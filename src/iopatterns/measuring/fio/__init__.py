"""Run fio: its command line, its processes, and the check of its results."""

from iopatterns.measuring.fio.command_line import (
    buffers_writes,
    fio_command_line,
    histogram_log,
    one_pass_bytes,
    only_reads,
)
from iopatterns.measuring.fio.fork_server import FioForkServer
from iopatterns.measuring.fio.preparation import fill, random_writes
from iopatterns.measuring.fio.process import DisturbedError, FioError, FioOutcome, die_with_parent, run_fio, version
from iopatterns.measuring.fio.result import check_result

__all__ = [
    "DisturbedError",
    "FioError",
    "FioForkServer",
    "FioOutcome",
    "buffers_writes",
    "check_result",
    "die_with_parent",
    "fill",
    "fio_command_line",
    "histogram_log",
    "one_pass_bytes",
    "only_reads",
    "random_writes",
    "run_fio",
    "version",
]
