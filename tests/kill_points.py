"""Send signals at random times of a measurement, and check the disk.

Guests run this module as a program.
"""

import functools
import json
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from measurements import describe_drive, raw_files, start
from patience import Limit, communicate, wait_for
from support import processes_matching

from iopatterns.measuring import machine
from iopatterns.measuring.tuning import journal, queue_settings
from iopatterns.raw.metadata_files import read_metadata


def _none_with(text: str) -> bool:
    """Return whether no process has this text in its command line."""
    return not processes_matching(text)


@dataclass
class Lab:
    """A disk, and a project with a cell that changes the disk's settings.

    Attributes:
        device: The node of the disk.
        folder: The project.
        entry: The entry of the disk in config/drives.yaml.
        cell: The specification of the cell.
        found: The settings of the disk before.
    """

    device: Path
    folder: Path
    entry: dict[str, Any]
    cell: dict[str, Any]
    found: dict[str, str]

    def set_up(self) -> None:
        """Set the settings in ``found``, and write config/drives.yaml."""
        describe_drive(self.folder, self.entry, self._name)
        for name, value in self.found.items():
            if name in queue_settings.QUEUE_SETTINGS:
                self._attribute(name).write_text(value)
        assert self.settings() == self.found

    @property
    def _name(self) -> str:
        return str(self.cell["drive"]["name"])

    def _attribute(self, name: str) -> Path:
        return Path("/sys/block") / self.device.name / "queue" / name

    def settings(self) -> dict[str, str]:
        return {name: self._present(name) for name in self.found}

    def _present(self, name: str) -> str:
        if name in queue_settings.QUEUE_SETTINGS:
            return str(queue_settings.attribute_value(self._attribute(name)))
        # the exit status is not 0 for drives that save no values
        asked = subprocess.run(["sdparm", f"--get={name}", self.device], capture_output=True, text=True, check=False)
        return next(line.split()[1] for line in asked.stdout.splitlines() if line.startswith(name))

    def raws(self, point: str) -> list[Path]:
        return raw_files(self.folder / point, self.cell, 2)

    def start(self, point: str) -> "subprocess.Popen[str]":
        """Start measuring; return once the process holds the lock of the disk."""
        process = start(self.folder, self.cell, self.raws(point))
        while process.poll() is None and not _holds_a_lock(process.pid):
            time.sleep(0.001)
        return process

    @functools.cached_property
    def lasts_s(self) -> float:
        """For how many seconds an undisturbed measurement holds the disk."""
        lasts_s = self.run("undisturbed")
        assert self.check_raw_files("undisturbed") == 2
        return lasts_s

    def run(self, point: str) -> float:
        """Measure undisturbed; return for how many seconds the disk was held."""
        process = self.start(point)
        started = time.monotonic()
        _, printed = communicate(process, 60)
        assert process.returncode == 0, printed
        return time.monotonic() - started

    def check_raw_files(self, point: str) -> int:
        """Return the number of raw files; require that they are complete.

        Each must have started from the settings ``found``.
        """
        there = [raw for raw in self.raws(point) if raw.exists()]
        for raw in there:
            assert json.loads(raw.read_text())["jobs"]
            first, *_ = read_metadata(raw)["tuning"]  # later settings may depend on the first
            assert str(first["before"]) == self.found[first["setting"]]
        return len(there)


def _holds_a_lock(process: int) -> bool:
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[1] == "FLOCK" and words[4] == str(process) for words in locks)


def _ended(process: "subprocess.Popen[str]") -> str:
    """Return what a process printed until its end.

    Raises AssertionError if it hangs; the message says in which calls of the kernel all processes are.
    """
    limit = Limit(60)
    while True:
        try:
            return str(process.communicate(timeout=limit.remaining_s())[1])
        except subprocess.TimeoutExpired:
            if limit.expired():
                files = "head -v -n 20 /proc/[0-9]*/cmdline /proc/[0-9]*/wchan /proc/[0-9]*/stack"
                command = ["sh", "-c", f"{files}; ps -ef; dmesg | tail -30"]
                found = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
                process.kill()
                raise AssertionError(f"{process.args!r} has not ended:\n{found.stdout}") from None


def shoot(lab: Lab, number: signal.Signals, points: int) -> None:
    """Send a signal to ``points`` measurements, each at another time.

    After SIGKILL, `iopatterns restore` and the next measurement restore the settings by turns.
    """
    chance = random.Random(f"{number.name} {lab.device}")
    for turn in range(1, points + 1):
        point = f"{number.name}-{turn}"
        delay_s = lab.lasts_s * (turn - chance.random()) / points
        process = lab.start(point)
        time.sleep(delay_s)
        process.send_signal(number)
        printed = _ended(process)
        context = f"{number.name}, point {turn} of {points}, status {process.returncode}: {printed}"
        assert "Traceback" not in printed, context
        assert process.returncode in {0, -number, 128 + number}, context  # 0 and -N: it was about to end
        if number == signal.SIGKILL:
            before = lab.check_raw_files(point)
            if turn % 2:
                words = [sys.executable, "-m", "iopatterns", "restore"]
                subprocess.run(words, cwd=lab.folder, capture_output=True, check=True)
            else:
                lab.run(point)
                assert lab.check_raw_files(point) == 2, context
            assert before <= lab.check_raw_files(point), context
        assert lab.settings() == lab.found, context
        assert not journal.journal_paths(journal.connected_disk(lab.device.name)), context
        output = f"--output={lab.raws(point)[0].parent}"
        if number == signal.SIGKILL:  # a killed fio does not disappear at once
            wait_for(functools.partial(_none_with, output), 5, otherwise=context)
        assert not processes_matching(output), context
        lab.check_raw_files(point)


if __name__ == "__main__":  # arguments: device, folder, lab as JSON, and SIGNAL=POINTS
    device, folder, described, *shots = sys.argv[1:]
    about = json.loads(described)
    known = {"path": device, "serial": machine.disk_facts(Path(device))["serial"]}
    about["cell"]["drive"] |= known
    about["entry"] |= {**known, "destroy": known["serial"]}
    lab = Lab(Path(device), Path(folder), **about)
    lab.set_up()
    for shot in shots:
        name, _, points = shot.partition("=")
        shoot(lab, signal.Signals[name], int(points))
        print(f"AS FOUND after {name}", flush=True)
