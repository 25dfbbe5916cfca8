"""The fio command line for one repetition of a cell.

A cell is one configuration: a drive, its settings and a workload.
"""

from pathlib import Path

from iopatterns.configuration import factors
from iopatterns.measuring.steadiness import ROUNDS
from iopatterns.raw.records import FioOptions, Specification

# The length of a round as a share of the runtime. The definition of steady state needs ROUNDS rounds. The last requests
# of a round end late: 5 % of the runtime allow for that.
_ROUND_SHARE = 0.95 / ROUNDS
# log_hist_coarseness of latency logs. A bin of the log holds eight (2**3) of fio's own bins, and is at most 1/8 as wide
# as the latencies in it.
_LOG_COARSENESS = 3


def fio_command_line(
    specification: Specification, target: str, randseed: int, runtime_ms: int, output: str, *, iolog: str | None = None
) -> list[str]:
    """Return fio's command line for one repetition of a cell, as a list of words.

    A cell is one configuration: a drive, its settings and a workload. The options of the cell come first, then the
    options that every measurement needs:

    - ``thread``: jobs are threads of one process. If this process ends, all jobs end
    - ``randrepeat=0`` with ``randseed``: the offsets follow from the seed, which differs between repetitions
    - ``allow_file_create=0``: fio never creates a file in place of a missing drive
    - ``iopsavgtime``: the length of the intervals in which fio measures the rate. It is chosen so that there are at
      least five, because fewer do not show whether the rate is steady. A cell may set another length

    Args:
        specification: Everything that can change what is measured in the cell. Its key ``fio`` has the fio options.
        target: The path of the drive, such as ``/proc/self/fd/100``.
        randseed: The seed of the repetition.
        runtime_ms: How long fio runs, in milliseconds. With 0, each job transfers its part of the file once.
        output: The path of fio's result file (json+ format).
        iolog: The path of the I/O log (list of requests) that fio replays on the drive. None if fio replays no log.
    """
    options = specification["fio"]
    argv = ["fio", f"--name={options['rw']}", f"--filename={_escaped(target)}"]
    given = {"size": specification["drive"]["file_size_bytes"], **options}
    for name in factors.factor_names(factors.FactorRole.OURS):
        given.pop(name, None)
    if options.get("skip"):
        given["rw"] = f"{options['rw']}:{options['skip']}"
    if "ramp_time" in options:
        given["ramp_time"] = f"{options['ramp_time']}us"
    if iolog is not None:
        given |= {"read_iolog": _escaped(iolog), "replay_redirect": target}
    if "log_hist_msec" in options:
        # one log for all jobs, with coarse bins, is small
        given |= {"log_hist_msec": options["log_hist_msec"], "log_hist_coarseness": _LOG_COARSENESS}
        given |= {"write_hist_log": _escaped(output), "per_job_logs": 0}
    argv += [f"--{option}={given[option]}" for option in sorted(given)]
    if runtime_ms:
        argv += ["--time_based=1", f"--runtime={runtime_ms}ms"]
        options = {"iopsavgtime": max(1, int(_ROUND_SHARE * runtime_ms)), **options}
    if "iopsavgtime" in options:
        argv.append(f"--iopsavgtime={options['iopsavgtime']}")
    argv += ["--thread=1", "--randrepeat=0", f"--randseed={randseed}"]
    argv += ["--allow_file_create=0", "--output-format=json+", f"--output={output}", "--eta=never"]
    if only_reads(options):
        argv.append("--readonly")
    return argv


def histogram_log(output: Path) -> Path:
    """Return the path of the latency log that fio writes beside a result file.

    fio writes this log only if the cell has the option ``log_hist_msec``. For ``01.json``, its name is
    ``01.json_clat_hist.log``.

    Args:
        output: The path of the result file.
    """
    return output.with_name(f"{output.name}_clat_hist.log")


def one_pass_bytes(specification: Specification) -> int:
    """Return how many bytes all jobs of a cell transfer if each transfers its part of the file once.

    A cell is one configuration: a drive, its settings and a workload. A part of a block at the end of the file is left
    out.

    Args:
        specification: Everything that can change what is measured in the cell.
    """
    options = specification["fio"]
    size_bytes = options.get("size", specification["drive"]["file_size_bytes"] - options.get("offset", 0))
    return int(options.get("numjobs", 1) * (size_bytes // options["bs"] * options["bs"]))


def _escaped(path: str) -> str:
    """Return a path with its colons escaped, because fio separates paths by colons."""
    return path.replace(":", "\\:")


def only_reads(options: FioOptions) -> bool:
    """Return whether a workload only reads, according to its options.

    The option ``rw`` must be ``read`` or ``randread``. If the workload replays requests (option ``replay``), these must
    not include writes, either. Log files are not read.

    Args:
        options: The fio options of the workload, by name.
    """
    return options["rw"] in {"read", "randread"} and "write" not in options.get("replay", "")


def buffers_writes(options: FioOptions) -> bool:
    """Return whether a workload writes through the page cache.

    This is so if the workload writes, and its option ``direct`` is 0 or missing.

    Args:
        options: The fio options of the workload, by name.
    """
    return not only_reads(options) and not options.get("direct")
