"""Runs fio: the command line of an execution, its process, what disturbed it, and the check of what it wrote."""

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fio_parser_json.documents import FioParseError, read_documents

from iopatterns.base import children, engines
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.signals import STOPPING
from iopatterns.configuration import factors
from iopatterns.measuring.steadiness import ROUNDS
from iopatterns.raw.records import Options, Specification

# A direction of a mix may have had no request where chance alone makes that this likely
_LEAST_LIKELIHOOD = 1e-6
# An execution whose I/O ran for less than this share of the runtime asked for was cut short by something
_LEAST_RUNTIME_SHARE = 0.9
# One whose I/O ran for so much longer than asked for was held up. fio begins its last requests within the runtime; what
# they take beyond it is theirs (`_longest_runtime_ms`). The share and the milliseconds are for a drive that answers its
# last requests late, as when it collects garbage: half a second is more than solid-state and hard disks take for one
# request, error recovery left out, and an execution of which a third was no I/O is no measurement of anything else.
_MOST_RUNTIME_SHARE = 1.5
_LATEST_END_MS = 500
# The length of a round as a share of the runtime. fio tells the rate of each round (iopsavgtime), and the definition of
# steady state needs ROUNDS of them. A round whose last requests come late ends late: 5 % of the runtime allow for that.
_ROUND_SHARE = 0.95 / ROUNDS
# The log_hist_coarseness of logs of latencies. With it a bin of the log holds eight (2**3) of fio's own bins, and is at
# most 1/8 as wide as the latencies in it.
_LOG_COARSENESS = 3
# What fio may take beside its I/O to start and to stop: threads, reading a log, emptying the page cache of the drive.
# Far more than it needs on a busy machine, for what happens there changes no figure by itself
_MOST_START_STOP_S = 30.0
# By so much the clock that counts suspension may be ahead: the two are not read at the same moment
_SUSPENDED_LEAST_S = 0.001
# fio that has not ended so long after it should have hangs (a dead disk, a stuck kernel)
_PATIENCE_S = 120.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_STOPPED_TOO = "ran while the measuring process itself was stopped"
_STOPS = (signal.SIGCHLD, signal.SIGCONT)
_STATUS = struct.Struct("i")  # what wait(2) says of how a process has ended


class FioError(IoPatternsError):
    """fio failed, or wrote something that is no valid measurement; the message holds fio's own words."""


class DisturbedError(FioError):
    """fio ended well, but something held it up or misled its clock, so that its figures are not the drive's."""


@dataclass(frozen=True)
class Outcome:
    """How one fio process went: when it started and ended (seconds since the epoch) and how long it took.

    ``disturbed`` says what held it up or may have, in words that go on "fio …": it was stopped, or the machine slept.
    ``counters`` are those of a simulated drive at its end, by name.
    """

    started_s: float
    ended_s: float
    wall_s: float
    disturbed: str | None = None
    counters: Mapping[str, int] | None = None


def version() -> str:
    """Return what ``fio --version`` prints, such as ``fio-3.33``. Raises FioError where there is no fio."""
    path = shutil.which("fio")
    if path is None:
        raise FioError("fio is not installed. Run ./reproduce.sh, which installs it.")
    state = os.stat(path)
    return _version(path, state.st_ino, state.st_mtime_ns)


@functools.cache
def _version(path: str, *_state: int) -> str:
    """Ask the fio of that path for its version; a file in its place that is another one is asked anew."""
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, check=True, env=children.environment()
        )
        return asked.stdout.strip()
    except OSError as error:
        raise FioError(f"{path}: {error.strerror}. Is it a program of this machine?") from None
    except subprocess.CalledProcessError as error:
        raise FioError(f"fio --version failed: {error.stderr.strip()}") from None


def command(
    specification: Specification,
    target: str,
    randseed: int,
    runtime_ms: int,
    output: str,
    *,
    iolog: str | None = None,
) -> list[str]:
    """Return fio's command line for one run of a cell's workload.

    ``target`` is the path of the drive, ``output`` that of the json+ file, ``iolog`` that of the log to replay, whose
    requests all go to the drive. The options that follow the cell's own are
    what every measurement needs: one process whose death ends all jobs (``thread``), offsets that differ between
    executions and repeat with the seed (``randrepeat=0`` with ``randseed``; fio's default ignores the seed), no file
    made by mistake (``allow_file_create=0``), and the rate in each of the rounds by which steady state is told
    (``iopsavgtime``, unless the cell gives another time).
    """
    options = specification["fio"]
    argv = ["fio", f"--name={options['rw']}", f"--filename={_escaped(target)}"]
    given = {"size": specification["drive"]["file_size_bytes"], **options}
    for ours in factors.names(factors.Role.OURS):
        given.pop(ours, None)
    if options.get("skip"):
        given["rw"] = f"{options['rw']}:{options['skip']}"
    if "ramp_time" in options:
        given["ramp_time"] = f"{options['ramp_time']}us"
    if iolog is not None:
        given |= {"read_iolog": _escaped(iolog), "replay_redirect": target}
    if "log_hist_msec" in options:
        # one log of all jobs, of coarse bins, so that it stays small
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


def log_of(output: Path) -> Path:
    """Return where fio writes the log of latencies, given where it writes its result."""
    return output.with_name(f"{output.name}_clat_hist.log")


def _escaped(path: str) -> str:
    """Return a path as fio takes it where several may stand, with colons between."""
    return path.replace(":", "\\:")


def only_reads(options: Options) -> bool:
    """Return whether a cell's workload writes nothing.

    Of a cell that replays a user's log, ``rw`` says what that log does, and the log is held against it when it is read.
    """
    return options["rw"] in {"read", "randread"} and "write" not in options.get("replay", "")


def fill(descriptor: int, size_bytes: int) -> None:
    """Write the first part of an open file or block device once, in sequence, with incompressible data.

    Past the page cache, and down to the disk. A file must be as long before: fio would delete a shorter one. Raises
    FioError.
    """
    argv = [*_writing(descriptor, size_bytes), "--rw=write", "--bs=1m", "--ioengine=psync", "--output=/dev/null"]
    run(argv, expected_s=size_bytes / 2**20, descriptors=[descriptor])


def random_writes(descriptor: int, size_bytes: int, runtime_ms: int, randseed: int, output: Path) -> float:
    """Write 4 KiB blocks at random in the first part of an open device for a time, 32 outstanding; return IOPS.

    ``output`` is where fio's JSON goes, for as long as it is needed. Raises FioError.
    """
    argv = [*_writing(descriptor, size_bytes, randseed), "--rw=randwrite", "--bs=4k"]
    argv += ["--ioengine=libaio", "--iodepth=32", "--norandommap=1"]
    argv += ["--time_based=1", f"--runtime={runtime_ms}ms", "--output-format=json"]
    try:
        run([*argv, f"--output={output}"], expected_s=runtime_ms / 1000, descriptors=[descriptor])
        (document,) = read_documents(output)
    finally:
        output.unlink(missing_ok=True)
    return float(document.jobs[0]["write"]["iops"])


def _writing(descriptor: int, size_bytes: int, randseed: int = 1) -> list[str]:
    """Return the options of all writing that prepares: past the page cache, down to the disk, in one process."""
    target = f"/proc/self/fd/{descriptor}"
    how = ["--allow_file_create=0", "--direct=1", "--end_fsync=1", "--thread=1"]
    # without refill_buffers fio writes the same block over and over, which a drive may compress or deduplicate
    data = ["--refill_buffers=1", "--randrepeat=0", f"--randseed={randseed}", "--eta=never"]
    return ["fio", "--name=prepare", f"--filename={target}", f"--size={size_bytes}", *how, *data]


def run(argv: list[str], expected_s: float, descriptors: Collection[int] = ()) -> Outcome:
    """Run fio, which inherits the ``descriptors``, in a process group of its own and wait for it.

    Whatever ends the wait early (an interrupt, an error) kills the whole group at once; should this process itself be
    killed, the kernel kills fio. Raises FioError with fio's own words when it fails.
    """
    started_s, clock, asleep_s = time.time(), time.monotonic(), _suspended_s()
    with tempfile.TemporaryFile() as words, _told_of_stops() as blocked:
        with _started(argv, words, blocked, os.environ, descriptors) as process, _bounded(argv, expected_s):
            status, disturbed = _wait(process, _timeout_s(expected_s))
        _require_success(status, words, argv)
    slept_s = _suspended_s() - asleep_s
    if slept_s > _SUSPENDED_LEAST_S:
        disturbed = f"ran while the machine was suspended for {slept_s:.1f} s"
    return Outcome(started_s, time.time(), time.monotonic() - clock, disturbed)


class Loaded:
    """fio kept loaded on a twin: one process, which forks another for each execution that it is told to run.

    To load fio with its libraries takes longer than an execution in virtual time. The protocol is that of
    ``src/twin/preload/executions.cc``. As with `run`, all processes of fio end with this one; and they end when an
    execution fails, so that the next begins with a new process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """``environment`` is the one in which programs run on the twin (`iopatterns.twin.running.prepare`)."""
        self._environment = environment
        self._resources = contextlib.ExitStack()  # of what the process needs, and the process
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket
        self._words: IO[bytes]

    def run(self, argv: list[str], expected_s: float, typed: list[str]) -> Outcome:
        """Run one execution and wait for it: as `run`, but that nothing is told of what may have held it up.

        ``argv`` is a command line that `iopatterns.twin.running.on_drive` has made, ``typed`` the one by which a user
        would have the same, for messages.
        """
        started_s, clock = time.time(), time.monotonic()
        if self._process is None:
            self._process = self._start(argv[0])
        try:
            self._channel.settimeout(_timeout_s(expected_s))
            with _bounded(typed, expected_s):
                status = self._execute(argv, self._process)
            _require_success(status, self._words, typed)
            self._words.seek(0)
            self._words.truncate()
        except BaseException:
            self.close()
            raise
        return Outcome(started_s, time.time(), time.monotonic() - clock)

    def _execute(self, argv: list[str], process: subprocess.Popen[bytes]) -> int:
        """Return the exit status of an execution, negative where a signal ended it. Raises TimeoutError."""
        try:
            self._channel.send(b"".join(os.fsencode(word) + b"\0" for word in argv[1:]))
            answer = self._channel.recv(_STATUS.size)
        except ConnectionError:
            answer = b""
        if not answer:  # fio itself has ended: with a message, or killed, or it is none that loads our library
            return process.wait() or 1
        return os.waitstatus_to_exitcode(*_STATUS.unpack(answer))

    def _start(self, program: str) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as resources:
            self._words = resources.enter_context(tempfile.TemporaryFile())
            self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            resources.enter_context(self._channel)
            environment = {**self._environment, "TWIN_EXECUTIONS": str(theirs.fileno())}
            with theirs, _told_of_stops() as blocked:
                started = _started([program], self._words, blocked, environment, [theirs.fileno()])
                process = resources.enter_context(started)
            self._resources = resources.pop_all()
        return process

    def close(self) -> None:
        """End fio; it may be in the midst of an execution."""
        self._process = None
        self._resources.close()


@contextlib.contextmanager
def _started(
    argv: list[str],
    words: IO[bytes],
    mask: set[int | signal.Signals],
    environment: Mapping[str, str],
    descriptors: Collection[int],
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program, which writes its words to a file; its process group is killed at the end, and reaped.

    ``mask`` are the signals that it is to have blocked. To be called in the context `_told_of_stops`. Raises FioError
    where there is no such program.
    """
    # a signal that comes while fio is started waits until fio can be stopped
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOPPING)
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=words,
            stderr=subprocess.STDOUT,
            process_group=0,
            env=children.environment(environment),
            pass_fds=tuple(descriptors),
            preexec_fn=functools.partial(_begin, os.getpid(), mask),  # noqa: PLW1509 - no threads here
        )
    except FileNotFoundError:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        raise FioError(f"{argv[0]} is not installed. Run ./reproduce.sh, which installs it.") from None
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        yield process
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)  # not yet reaped, so the group's number is still fio's
            process.wait()


@contextlib.contextmanager
def _bounded(argv: list[str], expected_s: float) -> Iterator[None]:
    """Raise FioError in place of TimeoutError, for a command line that was to take so long."""
    clock = time.monotonic()
    try:
        yield
    except TimeoutError:
        raise FioError(
            f"fio did not end: it was to take {expected_s:.1f} s and was stopped after"
            f" {time.monotonic() - clock:.0f} s. Does the drive still answer? Command: {' '.join(argv)}"
        ) from None


def _timeout_s(expected_s: float) -> float:
    return 10 * expected_s + _PATIENCE_S


def _require_success(status: int, words: IO[bytes], argv: list[str]) -> None:
    """Raise FioError unless an exit status is 0; ``words`` is the file to which fio wrote what it said."""
    if status:
        words.seek(0)
        said = words.read().decode(errors="replace").strip() or _preamble(argv) or "(fio said nothing)"
        how = f"was killed by signal {-status}" if status < 0 else f"failed with exit status {status}"
        raise FioError(f"fio {how}. It said:\n{_indent(said)}\n  Command: {' '.join(argv)}")


def _suspended_s() -> float:
    """Return for how long the machine has been suspended since it started (clock_gettime(2), CLOCK_BOOTTIME)."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


def _begin(parent: int, mask: set[int | signal.Signals]) -> None:
    """Make ready the process in which fio starts: it dies with its parent, and takes signals as that did."""
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:  # killed before the kernel was asked
        os._exit(1)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


@contextlib.contextmanager
def _told_of_stops() -> Iterator[set[int | signal.Signals]]:
    """Keep the signals pending that say that a child has stopped, gone on or ended, and that this process goes on.

    Yields the signals that were blocked before, which is how the child is to have them.
    SIGCHLD gets its default action: inherited as ignored, the kernel would forget how children ended.
    """
    action = signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        while signal.sigtimedwait(_STOPS, 0):  # of what was before
            pass
        yield set(mask)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGCHLD, action)


def _wait(process: subprocess.Popen[bytes], timeout_s: float) -> tuple[int, str | None]:
    """Return the exit status of a process as soon as it ends, and what stopped it meanwhile. Raises TimeoutError.

    To be called in the context `_told_of_stops`. `Popen.wait` with a timeout looks up to 50 ms late, which is as long
    as fio takes on a twin.
    """
    disturbed = None
    deadline_s = time.monotonic() + timeout_s
    stops = os.WSTOPPED | os.WCONTINUED | os.WNOHANG
    while True:
        change = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | stops)
        if change is not None and change.si_code not in {os.CLD_STOPPED, os.CLD_CONTINUED}:
            # of a child that stopped, went on and ended while this process was stopped, the end is all that is known
            if signal.SIGCONT in signal.sigpending():
                disturbed = disturbed or _STOPPED_TOO
            return process.wait(), disturbed
        if change is not None:
            disturbed = "was stopped by a signal for a while"
            with contextlib.suppress(ChildProcessError):  # it has ended since
                os.waitid(os.P_PID, process.pid, stops)
            continue
        told = signal.sigtimedwait(_STOPS, max(0.0, deadline_s - time.monotonic()))
        if told is None:
            raise TimeoutError
        if told.si_signo == signal.SIGCONT:
            disturbed = disturbed or _STOPPED_TOO


def die_with_parent(signal_number: int) -> None:
    """Ask the kernel for a signal to this process when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal_number)


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.strip().splitlines()[-12:])


def _preamble(argv: list[str]) -> str:
    """Return what fio wrote before the JSON in its output file: some errors land there."""
    for argument in argv:
        if argument.startswith("--output="):
            with contextlib.suppress(OSError):
                text = Path(argument.removeprefix("--output=")).read_text(errors="replace")
                return text[: text.find("{")].strip() if "{" in text else text.strip()
    return ""


def check(
    output: Path, specification: Specification, requests: int | None = None, outcome: Outcome | None = None
) -> int:
    """Return how many bytes an execution moved. Raises FioError unless ``output`` is a whole, valid one of the cell.

    fio exits with 0 in several cases in which it measured nothing; so: one document, no error, the expected number of
    jobs, I/O in each direction, and a runtime near what was asked. A replay, of a log with so many ``requests``, may
    come no further than its first direction, and ends before the runtime once it has done them all. A direction of a
    mix may have had no request where so few were made that chance explains it. Where ``outcome`` says how fio went, on
    a drive that knows no virtual time, DisturbedError is raised for an execution that something held up, or that was
    too short.
    """
    if outcome is not None and outcome.disturbed:
        raise DisturbedError(f"fio {outcome.disturbed}.")
    try:
        documents = read_documents(output)
    except FioParseError as error:
        raise FioError(f"fio wrote no valid result: {error}") from None
    if len(documents) != 1:
        raise FioError(f"fio wrote {len(documents)} results where one was expected")
    document = documents[0]
    said = f" It said:\n{_indent(document.preamble)}" if document.preamble.strip() else ""
    options = specification["fio"]
    jobs = document.jobs
    expected_jobs = 1 if options.get("group_reporting") else options.get("numjobs", 1)
    if len(jobs) != expected_jobs:
        raise FioError(f"fio reported {len(jobs)} jobs where {expected_jobs} were expected.{said}")
    moved_bytes = 0
    for job in jobs:
        if job["error"]:
            raise FioError(f"fio reported error {job['error']} ({os.strerror(job['error'])}).{said}")
        shares = _shares(options)
        total_ios = sum(job[direction]["total_ios"] for direction in shares)
        for direction, share in shares.items():
            done = job[direction]
            moved_bytes += done["io_bytes"]
            if done["io_bytes"] <= 0:
                if total_ios and (requests is not None or (1 - share) ** total_ios >= _LEAST_LIKELIHOOD):
                    continue
                raise FioError(f"fio ended well but did no {direction} I/O.{said}")
            is_done = requests is not None and total_ios >= requests
            if not is_done and done["runtime"] < _LEAST_RUNTIME_SHARE * specification["runtime_ms"]:
                # fio measures the processor's clock when it starts, and on a busy machine it may do so badly
                kind = FioError if outcome is None else DisturbedError
                raise kind(
                    f"fio ran for {done['runtime']} ms where {specification['runtime_ms']} ms were asked for.{said}"
                )
    if outcome is not None:
        _check_not_held_up(jobs, specification, outcome)
    return moved_bytes


def _check_not_held_up(jobs: Sequence[Mapping[str, Any]], specification: Specification, outcome: Outcome) -> None:
    """Raise DisturbedError where fio's I/O, or fio, took longer than a drive explains."""
    options = specification["fio"]
    longest_ms = 0
    for job in jobs:
        done = [job[direction] for direction in _shares(options)]
        runtime_ms = max(each["runtime"] for each in done)
        longest_ms = max(longest_ms, runtime_ms)
        most_ms = _longest_runtime_ms(specification, sum(each["total_ios"] for each in done), runtime_ms)
        if runtime_ms > most_ms:
            raise DisturbedError(
                f"fio ran for {runtime_ms} ms where {specification['runtime_ms']} ms were asked for, and its last"
                f" requests explain no more than {most_ms:.0f} ms."
            )
    # what is written through the page cache, now or before, may have to reach the disk before fio starts or ends
    beside_s = outcome.wall_s - longest_ms / 1000 - options.get("ramp_time", 0) / 1e6
    if options.get("direct") and beside_s > _MOST_START_STOP_S:
        raise DisturbedError(f"fio took {beside_s:.0f} s beside the {longest_ms} ms of its I/O.")


def _longest_runtime_ms(specification: Specification, total_ios: int, runtime_ms: int) -> float:
    """Return for how long fio may have run that did so many requests in ``runtime_ms``.

    The last requests begin before the time is over, as many as are outstanding at once, and take what so many take on
    this drive: at a depth of 1024 a hard disk of 100 IOPS ends ten seconds late.
    """
    options = specification["fio"]
    depth = options.get("iodepth", 1) if options.get("ioengine") in engines.ASYNCHRONOUS else 1
    outstanding = depth * (options.get("numjobs", 1) if options.get("group_reporting") else 1)
    drain_ms = runtime_ms * min(1.0, outstanding / max(1, total_ios))
    pause_ms = options.get("thinktime", 0) / 1000
    return float(_MOST_RUNTIME_SHARE * specification["runtime_ms"] + _LATEST_END_MS + pause_ms + drain_ms)


def _shares(options: Options) -> dict[str, float]:
    """Return the directions of a workload, each with the share of the requests that fio draws for it."""
    rw = options["rw"]
    if rw in {"readwrite", "randrw"}:
        share = options.get("rwmixread", 50) / 100
        return {name: part for name, part in (("read", share), ("write", 1 - share)) if part > 0}
    return {"read" if rw.endswith("read") else "write": 1.0}
