"""Signals at random moments of tuning and measuring a disk: its settings are back, raw files whole, fio gone."""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from loops import Loop, loop_device
from support import cell_on_a_disk, processes_with

from iopatterns import cells
from iopatterns.measure import read_sidecar

POINTS = 10
FOUND = {"scheduler": "none", "nr_requests": "100", "read_ahead_kb": "64"}  # what the user has set
ASKED_FOR = {"scheduler": "mq-deadline", "nr_requests": 32, "read_ahead_kb": 256}


@dataclass
class Lab:
    """A disk with settings of the user's own, and a project in whose folder a cell changes all of them."""

    loop: Loop
    folder: Path
    cell: dict[str, Any]

    def set(self, values: dict[str, str]) -> None:
        for name, value in values.items():
            self.loop.scheduler.with_name(name).write_text(value)

    def settings(self) -> dict[str, str]:
        found = {name: self.loop.scheduler.with_name(name).read_text().strip() for name in FOUND}
        return found | {"scheduler": self.loop.present_scheduler()}

    def raws(self, point: int) -> list[Path]:
        folder = self.folder / f"raw{point}/disk/study/x-{cells.digest(self.cell)[:8]}"
        return [folder / f"{execution:02d}.json" for execution in (1, 2)]

    def owner(self) -> str:
        """Return who holds the disk, as the project says."""
        try:
            return (self.folder / "data/raw/disk/.owner").read_text()
        except FileNotFoundError:
            return ""

    def start(self, point: int) -> "subprocess.Popen[str]":
        """Start measuring; the process holds the disk when this returns, and has changed nothing yet or little."""
        raws = [str(raw.relative_to(self.folder)) for raw in self.raws(point)]
        words = ["measure", "--specification", json.dumps(self.cell), *raws]
        command = [sys.executable, "-m", "iopatterns", *words]
        process = subprocess.Popen(command, cwd=self.folder, stderr=subprocess.PIPE, text=True)
        while process.poll() is None and str(process.pid) not in self.owner():
            time.sleep(0.001)
        return process

    def run(self, point: int) -> float:
        """Measure without being disturbed, and return for how many seconds the disk was held."""
        process = self.start(point)
        started = time.monotonic()
        _, said = process.communicate(timeout=60)
        assert process.returncode == 0, said
        return time.monotonic() - started

    def whole(self, point: int) -> int:
        """Return how many raw files there are; each is what was measured, and nothing else lies there."""
        there = [raw for raw in self.raws(point) if raw.exists()]
        for raw in there:
            assert json.loads(raw.read_text())["jobs"]
            steps = read_sidecar(raw)["tuning"]
            assert {step["setting"]: str(step["before"]) for step in steps if step["setting"] == "scheduler"} == {
                "scheduler": "none"
            }
        return len(there)


@pytest.fixture
def lab(disk_folder: Path) -> Iterator[Lab]:
    with loop_device(disk_folder) as loop:
        if "mq-deadline" not in loop.scheduler.read_text():
            pytest.skip("this kernel offers no mq-deadline")
        entry = {"kind": "block", "path": str(loop.device), "serial": loop.serial, "tune": list(ASKED_FOR)}
        (disk_folder / "config").mkdir()
        consenting = {"disk": {**entry, "destroy": loop.serial}}
        (disk_folder / "config/drives.yaml").write_text(yaml.safe_dump(consenting))
        cell = {**cell_on_a_disk(entry, "disk", "randwrite", 50, **ASKED_FOR), "warmup_ms": 50}
        lab = Lab(loop, disk_folder, cell)
        lab.set(FOUND)
        assert lab.settings() == FOUND
        yield lab


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_a_signal_at_any_moment_leaves_the_disk_as_it_was(number: signal.Signals, lab: Lab) -> None:
    chance = random.Random(number)
    lasts_s = lab.run(0)
    for point in range(1, POINTS + 1):
        process = lab.start(point)
        time.sleep(lasts_s * (point - chance.random()) / POINTS)
        process.send_signal(number)
        _, said = process.communicate(timeout=20)
        told = f"point {point}, status {process.returncode}: {said}"
        assert "Traceback" not in said, told
        if number == signal.SIGKILL:
            before = lab.whole(point)
            if point % 2:
                words = [sys.executable, "-m", "iopatterns", "restore"]
                subprocess.run(words, cwd=lab.folder, capture_output=True, check=True)
            else:
                lab.run(point)
                assert lab.whole(point) == 2, told
            assert before <= lab.whole(point), told
        else:
            assert process.returncode in {0, -number, 128 + number}, told  # -N: it was ending already
        assert lab.settings() == FOUND, told
        assert not (lab.folder / "data/raw/disk/.restore/journal.json").exists(), told
        end = time.monotonic() + 5
        while processes_with(f"--filename={lab.loop.device}"):  # one that was killed takes a moment to be gone
            assert number == signal.SIGKILL, told
            assert time.monotonic() < end, told
            time.sleep(0.02)
        lab.whole(point)
