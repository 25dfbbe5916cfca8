"""Signals at random moments of measuring a disk, and whether it is then as it was. As a program it runs in guests."""

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

import yaml
from patience import communicate, wait_for
from support import processes_matching

from iopatterns.measuring import machine
from iopatterns.measuring.tuning import journal, queue_settings
from iopatterns.raw import cells
from iopatterns.raw.metadata_files import read_metadata


def _none_with(text: str) -> bool:
    """Return whether no process has this text in its command line."""
    return not processes_matching(text)


@dataclass
class Lab:
    """A disk with settings of its user, ``found``, and the folder of a project in which a cell changes all of them."""

    device: Path
    folder: Path
    entry: dict[str, Any]
    cell: dict[str, Any]
    found: dict[str, str]

    def set_up(self) -> None:
        """Have the disk as its user has it, and the project know it."""
        (self.folder / "config").mkdir(parents=True, exist_ok=True)
        (self.folder / "config/drives.yaml").write_text(yaml.safe_dump({self._name: self.entry}))
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
        # its exit status is not 0 on drives that save no values
        asked = subprocess.run(["sdparm", f"--get={name}", self.device], capture_output=True, text=True, check=False)
        return next(line.split()[1] for line in asked.stdout.splitlines() if line.startswith(name))

    def raws(self, point: str) -> list[Path]:
        folder = self.folder / f"raw-{point}/{self._name}/study/x-{cells.specification_digest(self.cell)[:8]}"
        return [folder / f"{execution:02d}.json" for execution in (1, 2)]

    def start(self, point: str) -> "subprocess.Popen[str]":
        """Start measuring; the process holds the disk when this returns, and has changed nothing yet, or little."""
        raws = [str(raw.relative_to(self.folder)) for raw in self.raws(point)]
        words = ["measure", "--specification", json.dumps(self.cell), *raws]
        command = [sys.executable, "-m", "iopatterns", *words]
        process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not _holds_a_lock(process.pid):
            time.sleep(0.001)
        return process

    @functools.cached_property
    def lasts_s(self) -> float:
        """For how many seconds the disk is held by a measurement that nothing disturbs."""
        lasts_s = self.run("undisturbed")
        assert self.check_raw_files("undisturbed") == 2
        return lasts_s

    def run(self, point: str) -> float:
        """Measure without being disturbed, and return for how many seconds the disk was held."""
        process = self.start(point)
        started = time.monotonic()
        _, said = communicate(process, 60)
        assert process.returncode == 0, said
        return time.monotonic() - started

    def check_raw_files(self, point: str) -> int:
        """Return how many raw files there are; each is whole, and was measured on the disk as its user had it."""
        there = [raw for raw in self.raws(point) if raw.exists()]
        for raw in there:
            assert json.loads(raw.read_text())["jobs"]
            first, *_ = read_metadata(raw)["tuning"]  # what comes later may start from what the first brings
            assert str(first["before"]) == self.found[first["setting"]]
        return len(there)


def _holds_a_lock(process: int) -> bool:
    locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return any(words[1] == "FLOCK" and words[4] == str(process) for words in locks)


def shoot(lab: Lab, number: signal.Signals, points: int) -> None:
    """Measure so many times, each time with a signal at a moment of its own, spread over all that is done.

    After SIGKILL, `iopatterns restore` puts settings back, or the next measurement, by turns.
    """
    chance = random.Random(f"{number.name} {lab.device}")
    for turn in range(1, points + 1):
        point = f"{number.name}-{turn}"
        delay_s = lab.lasts_s * (turn - chance.random()) / points
        process = lab.start(point)
        time.sleep(delay_s)
        process.send_signal(number)
        _, said = communicate(process, 20)
        told = f"{number.name}, point {turn} of {points}, status {process.returncode}: {said}"
        assert "Traceback" not in said, told
        assert process.returncode in {0, -number, 128 + number}, told  # 0 and -N: it had all but ended
        if number == signal.SIGKILL:
            before = lab.check_raw_files(point)
            if turn % 2:
                words = [sys.executable, "-m", "iopatterns", "restore"]
                subprocess.run(words, cwd=lab.folder, capture_output=True, check=True)
            else:
                lab.run(point)
                assert lab.check_raw_files(point) == 2, told
            assert before <= lab.check_raw_files(point), told
        assert lab.settings() == lab.found, told
        assert not journal.journal_paths(journal.connected_disk(lab.device.name)), told
        output = f"--output={lab.raws(point)[0].parent.relative_to(lab.folder)}"
        if number == signal.SIGKILL:  # one that is killed takes a moment to be gone
            wait_for(functools.partial(_none_with, output), 5, otherwise=told)
        assert not processes_matching(output), told
        lab.check_raw_files(point)


if __name__ == "__main__":  # a device, a folder, a description of a lab as JSON, signals and how many points each has
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
