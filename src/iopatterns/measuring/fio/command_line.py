"""The fio command line of a repetition."""

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
    """Return fio's command line for one repetition of a cell.

    The options of the cell come first, then the options that every measurement needs:

    - ``thread``: one process, whose death ends all jobs
    - ``randrepeat=0`` with ``randseed``: offsets that differ between repetitions and follow from the seed (by default
      fio ignores the seed)
    - ``allow_file_create=0``: fio never creates a file in place of a missing drive
    - ``iopsavgtime``: the rate in each of the rounds by which steady state is defined, unless the cell sets it

    Args:
        specification: The specification of the cell.
        target: The path of the drive.
        randseed: The seed of the repetition.
        runtime_ms: For how long fio runs.
        output: The path of fio's json+ file.
        iolog: The path of the log to replay. All its requests go to the drive.
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
    argv += [
        "--time_based=1",
        f"--runtime={runtime_ms}ms",
        f"--iopsavgtime={options.get('iopsavgtime', max(1, int(_ROUND_SHARE * runtime_ms)))}",
        "--thread=1",
        "--randrepeat=0",
        f"--randseed={randseed}",
    ]
    argv += ["--allow_file_create=0", "--output-format=json+", f"--output={output}", "--eta=never"]
    if only_reads(options):
        argv.append("--readonly")
    return argv


def histogram_log(output: Path) -> Path:
    """Return the path of the latency log that fio writes beside its result."""
    return output.with_name(f"{output.name}_clat_hist.log")


def _escaped(path: str) -> str:
    """Return `path` with its colons escaped; fio separates paths by colons."""
    return path.replace(":", "\\:")


def only_reads(options: FioOptions) -> bool:
    """Return whether a workload writes nothing.

    For a replayed log of the user, ``rw`` says what the log does. The log is checked against ``rw`` when it is read.
    """
    return options["rw"] in {"read", "randread"} and "write" not in options.get("replay", "")
