"""Settings are restored, and raw files complete, after signals at random times."""

import signal
from pathlib import Path
from typing import Any

import pytest
from kill_points import Lab, shoot
from loops import loop_device
from support import disk_cell

POINTS = 10
FOUND = {"scheduler": "none", "nr_requests": "100", "read_ahead_kb": "64"}
ASKED_FOR: dict[str, Any] = {"scheduler": "mq-deadline", "nr_requests": 32, "read_ahead_kb": 256}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL], ids=lambda number: number.name)
def test_settings_are_restored_after_a_signal_at_any_time(number: signal.Signals, disk_folder: Path) -> None:
    with loop_device(disk_folder) as loop:
        if "mq-deadline" not in loop.scheduler.read_text():
            pytest.skip("this kernel offers no mq-deadline")
        entry: dict[str, Any] = {"kind": "block", "path": str(loop.device), "serial": loop.serial}
        entry |= {"tune": list(ASKED_FOR), "expendable": ["data"]}  # a killed run leaves data behind
        cell = {**disk_cell(entry, "disk", "randwrite", 50, **ASKED_FOR), "warmup_ms": 50}
        lab = Lab(loop.device, disk_folder, {**entry, "destroy": loop.serial}, cell, FOUND)
        lab.set_up()
        shoot(lab, number, POINTS)
