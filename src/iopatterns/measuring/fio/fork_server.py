"""A fio process that stays loaded, and forks for each repetition.

The process is used for simulated drives only. With these, loading fio takes longer than running it.
"""

import contextlib
import os
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from typing import IO

from iopatterns.measuring.fio.process import (
    FioOutcome,
    child_signals_blocked,
    require_success,
    spawned,
    timeout_as_error,
)

_STATUS = struct.Struct("i")  # the wait status of wait(2)


class FioForkServer:
    """A fio process that forks a child for each repetition on a simulated drive.

    A repetition is one run of fio for a cell. Loading fio and its libraries takes longer than a repetition in virtual
    time. The server loads them only once.

    If a repetition fails, the server and its children are killed. The next repetition then starts a new server. If this
    process dies, the kernel kills the server and its children. The caller must call `close` at the end.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        """Store the environment of fio; the server starts with the first repetition.

        Args:
            environment: The environment variables for programs on the simulated drive, from
                `iopatterns.twin.running.prepare_environment`.
        """
        self._environment = environment
        self._resources = contextlib.ExitStack()  # the process and everything that it needs
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket
        self._output: IO[bytes]

    def run(self, argv: list[str], expected_s: float, displayed: list[str]) -> FioOutcome:
        """Run one repetition and wait for its end.

        Args:
            argv: The words of the command line, from `iopatterns.twin.running.command_on_drive`.
            expected_s: The expected duration in seconds. A repetition that takes far longer is killed.
            displayed: The command line by which a user gets the same result, for messages.

        Returns:
            When the repetition started and ended. The attributes `disturbed` and `counters` are None.

        Raises:
            FioError: fio failed or hangs. The message contains what fio printed.
        """
        started_s, clock = time.time(), time.monotonic()
        if self._process is None:
            self._process = self._start(argv[0])
        try:
            with timeout_as_error(displayed, expected_s) as timeout_s:
                self._channel.settimeout(timeout_s)
                status = self._execute(argv, self._process)
            require_success(status, self._output, displayed)
            self._output.seek(0)
            self._output.truncate()
        except BaseException:
            self.close()
            raise
        return FioOutcome(started_s, time.time(), time.monotonic() - clock)

    def _execute(self, argv: list[str], process: subprocess.Popen[bytes]) -> int:
        """Have the server run one repetition; return the exit status of its process.

        Args:
            argv: The command line. The first word, the program, is already loaded.
            process: The process of the server.

        Returns:
            The exit status; minus the number of the signal if a signal killed the process.

        Raises:
            TimeoutError: The repetition does not end.
        """
        try:
            self._channel.send(b"".join(os.fsencode(argument) + b"\0" for argument in argv[1:]))
            reply = self._channel.recv(_STATUS.size)
        except ConnectionError:
            reply = b""
        if not reply:  # the server itself has failed, was killed, or does not load the preload library
            return process.wait() or 1
        return os.waitstatus_to_exitcode(*_STATUS.unpack(reply))

    def _start(self, program: str) -> subprocess.Popen[bytes]:
        with contextlib.ExitStack() as resources:
            self._output = resources.enter_context(tempfile.TemporaryFile())
            self._channel, server_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            resources.enter_context(self._channel)
            environment = {**self._environment, "TWIN_EXECUTIONS": str(server_end.fileno())}
            with server_end, child_signals_blocked() as mask:
                server = spawned([program], self._output, mask, environment, [server_end.fileno()])
                process = resources.enter_context(server)
            self._resources = resources.pop_all()
        return process

    def close(self) -> None:
        """Kill the server and any running repetition. Nothing happens if no server runs."""
        self._process = None
        self._resources.close()
