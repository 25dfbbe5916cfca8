"""Time to expand a study to 100,000 cells, against json.dumps of the same cells."""

import json
import time
from dataclasses import replace
from pathlib import Path

from iopatterns.configuration import config, grid


def main() -> None:
    """Print the time in seconds, the cells per second and the ratio to json.dumps."""
    # no study names the drive scratch, so it runs in all experiments
    base = config.load_config(Path(__file__).resolve().parents[2], {"drives": ["scratch"]})
    vary: dict[str, list[int | str]] = {
        "rw": ["read", "randread"],
        "bs": [512 * n for n in range(1, 501)],
        "numjobs": list(range(1, 101)),
    }
    study: config.StudyConfig = {
        "title": "",
        "source": "",
        "fio": {"ioengine": "sync", "direct": 1},
        "experiments": {"all": {"vary": vary}},
    }
    start = time.perf_counter()
    cells = list(grid.expand_grid(replace(base, studies={"study": study}), "study"))
    expanding_s = time.perf_counter() - start
    start = time.perf_counter()
    for cell in cells:
        json.dumps(cell.specification)
    dumping_s = time.perf_counter() - start
    print(f"{len(cells)} cells in {expanding_s:.2f} s, {len(cells) / expanding_s:,.0f}/s")
    print(f"{expanding_s / dumping_s:.1f} x json.dumps of their specifications ({dumping_s:.2f} s)")


if __name__ == "__main__":
    main()
