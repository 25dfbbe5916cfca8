"""Run a function in a child process, and let one of its system calls fail.

The calls of all programs that the child starts count, too. At each call in `CALLS`, the kernel asks this process what
the call returns (seccomp_unotify(2)). A preloaded library would miss the calls that the C library makes itself, such as
those of printf. strace selects calls by single paths only, and would have to be started for each fault.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import re
import select
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest
from patience import Limit

# ---- The calls

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
_NAMES = (errno.ENOSPC, errno.EIO, errno.EROFS)


class Call(NamedTuple):
    """A system call that can fail.

    Attributes:
        number: Its number on x86-64.
        path: The position of the argument with the path; None if the call has none.
        descriptor: The position of the argument with the file, or with the folder to which the path is relative; None
            if the call has none.
        errors: The errors that the call may return.
    """

    number: int
    path: int | None
    descriptor: int | None
    errors: tuple[int, ...]


CALLS = {
    "read": Call(0, None, 0, (errno.EIO, errno.EINTR)),
    "write": Call(1, None, 0, (*_DISK_FULL, errno.EINTR)),
    "open": Call(2, 0, None, (errno.EIO, errno.EMFILE, errno.ENOSPC, errno.EACCES)),
    "close": Call(3, None, 0, (errno.EIO, errno.EINTR, errno.EDQUOT)),
    "stat": Call(4, 0, None, (errno.EIO,)),
    "fstat": Call(5, None, 0, (errno.EIO,)),
    "lstat": Call(6, 0, None, (errno.EIO,)),
    "pread64": Call(17, None, 0, (errno.EIO, errno.EINTR)),
    "pwrite64": Call(18, None, 0, (*_DISK_FULL, errno.EINTR)),
    "writev": Call(20, None, 0, _DISK_FULL),
    "flock": Call(73, None, 0, (errno.ENOLCK, errno.EINTR)),
    "fsync": Call(74, None, 0, _DISK_FULL),
    "fdatasync": Call(75, None, 0, _DISK_FULL),
    "truncate": Call(76, 0, None, (errno.EIO, errno.ENOSPC)),
    "ftruncate": Call(77, None, 0, (errno.EIO, errno.ENOSPC)),
    "getdents64": Call(217, None, 0, (errno.EIO,)),
    "rename": Call(82, 0, None, _NAMES),
    "mkdir": Call(83, 0, None, _NAMES),
    "rmdir": Call(84, 0, None, (errno.EIO, errno.EROFS)),
    "link": Call(86, 1, None, _NAMES),
    "unlink": Call(87, 0, None, (errno.EIO, errno.EROFS, errno.EBUSY)),
    "chmod": Call(90, 0, None, (errno.EIO, errno.EPERM)),
    "fchmod": Call(91, None, 0, (errno.EIO, errno.EPERM)),
    "openat": Call(257, 1, 0, (errno.EIO, errno.EMFILE, errno.ENOSPC, errno.EACCES)),
    "mkdirat": Call(258, 1, 0, _NAMES),
    "newfstatat": Call(262, 1, 0, (errno.EIO,)),
    "unlinkat": Call(263, 1, 0, (errno.EIO, errno.EROFS, errno.EBUSY)),
    "renameat": Call(264, 1, 0, _NAMES),
    "linkat": Call(265, 3, 2, _NAMES),
    "fallocate": Call(285, None, 0, (errno.ENOSPC, errno.EOPNOTSUPP, errno.EIO)),
    "renameat2": Call(316, 1, 0, (*_NAMES, errno.EINVAL)),
    "statx": Call(332, 1, 0, (errno.EIO,)),
}
_BY_NUMBER = {call.number: name for name, call in CALLS.items()}

# ---- The kernel's interface (linux/seccomp.h, linux/filter.h)

_SYS_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER = 317, 1, 8
_PR_SET_NO_NEW_PRIVS = 38
_RET_USER_NOTIF, _RET_ALLOW = 0x7FC00000, 0x7FFF0000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_NOTIFICATION = struct.Struct("=QIIiIQ6Q")  # id, pid, flags; number, architecture, instruction, arguments
_RESPONSE = struct.Struct("=QqiI")  # id, value, error, flags
_AT_FDCWD = -100


def _program(numbers: Collection[int]) -> bytes:
    """Return the filter that asks about calls with these numbers, and allows all others."""
    load_number, jump_if_equal, give_back = 0x20, 0x15, 0x06
    lines = [(load_number, 0, 0, 0)]
    lines += [(jump_if_equal, len(numbers) - place, 0, number) for place, number in enumerate(numbers)]
    lines += [(give_back, 0, 0, _RET_ALLOW), (give_back, 0, 0, _RET_USER_NOTIF)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)


def _install_filter() -> int:
    """Install the filter in this process; return the descriptor from which its calls are received."""
    libc = ctypes.CDLL(None, use_errno=True)
    program = ctypes.create_string_buffer(_program([call.number for call in CALLS.values()]))
    header = ctypes.create_string_buffer(struct.pack("=H6xQ", len(CALLS) + 3, ctypes.addressof(program)))
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    listener = int(libc.syscall(_SYS_SECCOMP, _SET_MODE_FILTER, _NEW_LISTENER, ctypes.byref(header)))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


# ---- Observed calls

# #12 of an unlinked file; names of tempfile; the process in mode-pages.123; the disk in names of state files; the
# digests of cells
_VARYING = re.compile(
    r"#\d+|\btmp[a-z0-9_]{8}\b|(?<=/\.)[a-z0-9_]{8}$|(?<=\.)\d+$|[^/]+-[0-9a-f]{12}\.\w+(?=\.json$)"
    r"|\b[0-9a-f]{16}\b|(?<=/cell-)[0-9a-f]{8}\b"
)


class Site(NamedTuple):
    """A call of a run, named so that another run of the same function has the same call.

    Attributes:
        call: The name of the call.
        path: The path of its file, below one of the watched folders.
        turn: How often the run has made this call on this path before.
    """

    call: str
    path: str
    turn: int


class Fault(NamedTuple):
    """A call that fails, and the error (errno) that it returns."""

    site: Site
    error: int

    def __str__(self) -> str:
        return f"{errno.errorcode[self.error]} from {self.site.call} of {self.site.path}, turn {self.site.turn}"


class Crash(NamedTuple):
    """The call at which all processes are killed, as a number from 0 on."""

    number: int


class _CrashError(Exception):
    """The error raised to kill the processes."""


@dataclass
class Observed:
    """What a run did.

    Attributes:
        status: The exit status; minus the number of a signal.
        printed: What was printed.
        sites: The calls, in their order.
        has_failed: Whether the fault occurred.
    """

    status: int = 0
    printed: str = ""
    sites: list[Site] = field(default_factory=list)
    has_failed: bool = False


def require_filter() -> None:
    """Skip the test if the kernel offers no filter whose questions a process can answer."""
    if platform.machine() != "x86_64":
        pytest.skip("the numbers of system calls are those of x86-64")
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            _install_filter()
            os._exit(0)
        os._exit(1)
    if os.waitpid(child, 0)[1]:
        pytest.skip("this kernel or container offers no seccomp_unotify(2)")


def run_observed(
    function: Callable[[], object],
    watched: Mapping[str, Path],
    *,
    fault: Fault | Crash | None = None,
    limit_s: float = 60,
    most_turns: Callable[[str, str], int] = lambda call, path: 2**30,
) -> Observed:
    """Run a function in a child process, and let one of its calls fail.

    Args:
        function: The function. An exception becomes a printed traceback and status 1.
        watched: Folders and files by name. Only calls on them, and on files below them, count.
        fault: The call that fails, or at which the processes are killed; None for none.
        limit_s: The limit for the run and all processes that it starts. Later, they are killed.
        most_turns: Returns how many of the calls on one path count, given the name of the call and the path.
    """
    own_end, child_end = socket.socketpair()
    with own_end, child_end, tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _be_observed(function, child_end, output.fileno())
        child_end.close()
        _, (listener,), _, _ = socket.recv_fds(own_end, 1, 1)
        run = Observed()
        try:
            _serve(listener, run, _Selection(watched, most_turns, fault), Limit(limit_s))
        except _CrashError:
            os.killpg(child, signal.SIGKILL)
        except TimeoutError:
            os.killpg(child, signal.SIGKILL)
            run.printed = f"not ended within {limit_s:g} s\n"
        finally:
            os.close(listener)
        run.status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        run.printed += output.read().decode(errors="replace")
    return run


def run_alone(function: Callable[[], object]) -> Observed:
    """Run a function in a child process that is not observed."""
    with tempfile.TemporaryFile() as output:
        child = os.fork()
        if child == 0:
            _end_with(function, output.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return Observed(status, output.read().decode(errors="replace"))


def _be_observed(function: Callable[[], object], channel: socket.socket, output: int) -> NoReturn:
    os.setsid()
    listener = _install_filter()
    socket.send_fds(channel, [b"."], [listener])
    os.close(listener)
    _end_with(function, output)


def _end_with(function: Callable[[], object], output: int) -> NoReturn:
    """Run a function in a forked process, and end the process as Python would."""
    os.dup2(output, 1)
    os.dup2(output, 2)
    # pytest has replaced these
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", buffering=1, closefd=False)
    status = 0
    try:
        function()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        os.write(2, traceback.format_exc().encode())
        status = 1
    os._exit(status)


def _serve(listener: int, run: Observed, selection: "_Selection", limit: Limit) -> None:
    """Answer the kernel until all processes with the filter have ended."""
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    while True:
        ready = poll.poll(max(1.0, limit.remaining_s() * 1000))
        if not ready:
            if limit.expired():
                raise TimeoutError
            continue
        if ready[0][1] & select.POLLHUP and not ready[0][1] & select.POLLIN:
            return
        question = bytearray(_NOTIFICATION.size)
        try:
            fcntl.ioctl(listener, _RECEIVE, question)
        except (FileNotFoundError, InterruptedError):  # a signal has ended the call
            continue
        number, process, _, nr, _, _, *arguments = _NOTIFICATION.unpack(question)
        error = selection.error(run, process, _BY_NUMBER[nr], arguments)
        with contextlib.suppress(FileNotFoundError):
            answer = _RESPONSE.pack(number, 0, -error, 0 if error else _CONTINUE)
            fcntl.ioctl(listener, _SEND, answer)


def stable_name(path: str) -> str:
    """Return a path without the parts that differ between runs, such as random names and numbers of processes."""
    return _VARYING.sub("*", path)


class _Selection:
    """Decides which calls count, and which call fails."""

    def __init__(
        self, watched: Mapping[str, Path], most_turns: Callable[[str, str], int], fault: Fault | Crash | None
    ) -> None:
        self._watched = [(name, os.path.realpath(path)) for name, path in watched.items()]
        self._most_turns = most_turns
        self._fault = fault
        self._turns: Counter[tuple[str, str]] = Counter()

    def error(self, run: Observed, process: int, call: str, arguments: list[int]) -> int:
        """Return the error that a call returns; 0 if the kernel executes the call.

        A call that counts is added to ``run``.

        Raises:
            _CrashError: All processes are to be killed.
        """
        path = self._name(process, CALLS[call], arguments)
        if path is None or self._turns[call, path] >= self._most_turns(call, path):
            return 0
        site = Site(call, path, self._turns[call, path])
        self._turns[call, path] += 1
        run.sites.append(site)
        if isinstance(self._fault, Crash) and len(run.sites) > self._fault.number:
            run.has_failed = True
            raise _CrashError
        if isinstance(self._fault, Fault) and site == self._fault.site:
            run.has_failed = True
            return self._fault.error
        return 0

    def _name(self, process: int, call: Call, arguments: list[int]) -> str | None:
        """Return the path of a call's file, below the name of its watched folder; None if it is not watched."""
        try:
            path = _path(process, call, arguments)
        except OSError:  # ended meanwhile, or a call with a bad argument
            return None
        for name, folder in self._watched:
            if path == folder or path.startswith(f"{folder}/"):
                return stable_name(name + path.removeprefix(folder))
        return None


def _path(process: int, call: Call, arguments: list[int]) -> str:
    folder = f"/proc/{process}/cwd"
    if call.descriptor is not None:
        descriptor = ctypes.c_int32(arguments[call.descriptor]).value
        if call.path is None or descriptor != _AT_FDCWD:
            folder = f"/proc/{process}/fd/{descriptor}"
    given = "" if call.path is None else _text(process, arguments[call.path])
    given = re.sub(r"^/proc/self/", f"/proc/{process}/", given)
    if re.match(r"/proc/\d+/fd/\d+$", given):
        return _target(given)
    if given.startswith("/"):
        return os.path.normpath(given)
    return os.path.normpath(f"{_target(folder)}/{given}")


def _target(link: str) -> str:
    return str(Path(link).readlink()).removesuffix(" (deleted)")


def _text(process: int, address: int) -> str:
    with open(f"/proc/{process}/mem", "rb", buffering=0) as memory:
        memory.seek(address)
        text = b""
        while b"\0" not in text and len(text) < 4096:
            end = 4096 - (address + len(text)) % 4096  # the next page may not exist
            text += memory.read(end)
    return os.fsdecode(text.partition(b"\0")[0])
