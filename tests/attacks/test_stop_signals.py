"""Every signal that ends a process ends a measurement, whenever it arrives, and settings are restored."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from loops import Loop, loop_device
from measurements import Spec, describe_drive, measured, raw_files, start
from patience import communicate, stretched, wait_for
from support import disk_cell, processes_matching

from iopatterns.base.signals import STOP_SIGNALS, Interrupted, interruptible
from iopatterns.measuring import fio
from iopatterns.raw import cells

# Signals that no process can handle, that report a fault of the process itself, or that Python turns into an OSError
NOT_HANDLED = {signal.SIGKILL, signal.SIGPIPE, signal.SIGXFSZ} | {
    *(signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGSYS, signal.SIGTRAP)
}


@pytest.fixture
def disk(disk_folder: Path) -> Iterator[Loop]:
    with loop_device(disk_folder) as found:
        yield found


def test_the_stop_signals_are_those_that_end_a_process_by_default() -> None:
    stopping = {signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}
    assert {number for number in signal.valid_signals() - stopping if _ends_a_process(number)} == {
        *STOP_SIGNALS,
        *NOT_HANDLED,
    }


def _ends_a_process(number: int) -> bool:
    with subprocess.Popen(["env", "--default-signal", "sleep", "60"], start_new_session=True) as process:
        wait_for(lambda: Path(f"/proc/{process.pid}/comm").read_text() == "sleep\n", 10)
        process.send_signal(number)
        try:
            return process.wait(stretched(0.3)) == -number
        except subprocess.TimeoutExpired:
            process.kill()
            return False


@pytest.mark.parametrize(
    "number",
    [signal.SIGQUIT, signal.SIGUSR1, signal.SIGALRM, signal.SIGXCPU, signal.SIGABRT, signal.SIGRTMIN, 40],
    ids=str,
)
def test_settings_are_restored_after_each_stop_signal(number: int, disk: Loop, disk_folder: Path) -> None:
    read_ahead = disk.scheduler.with_name("read_ahead_kb")
    found, wanted = read_ahead.read_text(), 64
    assert found != f"{wanted}\n"
    entry = {"kind": "block", "path": str(disk.device), "serial": disk.serial, "tune": ["read_ahead_kb"]}
    describe_drive(disk_folder, entry)
    specification = disk_cell(entry, "disk", "randread", 30_000, read_ahead_kb=wanted)
    (raw,) = raw_files(disk_folder, specification)
    running = start(disk_folder, specification, [raw])
    wait_for(lambda: processes_matching(f"--output={raw.parent}"))
    assert read_ahead.read_text() == f"{wanted}\n"
    running.send_signal(number)
    _, printed = communicate(running, 20)
    assert running.returncode == 128 + number, printed
    assert "stopped by " in printed
    assert read_ahead.read_text() == found
    assert not processes_matching(f"--output={raw.parent}")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_stop_signal_during_a_destructor_is_not_lost(specification: Spec, disk_folder: Path) -> None:
    class Interrupting:
        """An object whose destructor gets a signal; Python discards the exception of the handler there."""

        def __del__(self) -> None:
            os.kill(os.getpid(), signal.SIGTERM)

    def measure() -> None:
        with interruptible():
            Interrupting()
            measured(disk_folder, specification)

    with pytest.raises(Interrupted):
        measure()
    assert not raw_files(disk_folder, specification)[0].exists()


# Measures while another thread, not the waiting one, gets the stop signal, as in a kernel of Jupyter.
_WITH_A_THREAD = """
import json, signal, sys, threading
from pathlib import Path
from iopatterns.base.signals import STOP_SIGNALS, interruptible
from iopatterns.measuring.cell import measure_cell
threading.Thread(target=threading.Event().wait, daemon=True).start()
with interruptible():
    measure_cell(Path.cwd(), json.loads(sys.argv[1]), [Path(sys.argv[2])])
"""


def test_a_stop_signal_that_another_thread_gets_ends_the_measurement(specification: Spec, disk_folder: Path) -> None:
    specification["runtime_ms"] = 60_000
    (raw,) = raw_files(disk_folder, specification)
    words = [sys.executable, "-c", _WITH_A_THREAD, cells.canonical_json(specification), str(raw)]
    with subprocess.Popen(words, cwd=disk_folder, stderr=subprocess.PIPE, text=True) as running:
        wait_for(lambda: processes_matching(f"--output={raw.parent}"))
        clock = time.monotonic()
        running.send_signal(signal.SIGTERM)
        _, printed = communicate(running, 30)
    assert "Interrupted" in printed
    assert time.monotonic() - clock < stretched(10)
    assert not processes_matching(f"--output={raw.parent}")


def test_an_ignored_stop_signal_does_not_end_fio() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGUSR1))
    try:
        timer.start()
        fio.run_fio(["sleep", "0.5"], expected_s=1)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)


@pytest.mark.parametrize("moment_ms", range(0, 40, 2))
def test_a_stop_signal_while_fio_starts_ends_it(moment_ms: int, disk_folder: Path) -> None:
    """Send the signal to the whole process group, as a terminal does."""
    code = (
        "import time; from iopatterns.base.signals import Interrupted, interruptible\n"
        "from iopatterns.measuring import fio\n"
        "print('ready', flush=True)\n"
        "try:\n"
        "    with interruptible():\n"
        f"        while True: fio.run_fio(['true', {str(disk_folder)!r}], 1)\n"
        "except Interrupted: print('stopped')"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "ready\n"
        time.sleep(0.02 + moment_ms / 1000)
        os.killpg(running.pid, signal.SIGINT)
        stdout, stderr = communicate(running, 20)
    assert (stdout, stderr) == ("stopped\n", "")
    assert not processes_matching(str(disk_folder))
