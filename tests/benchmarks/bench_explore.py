"""Time to redraw the figure of notebooks/explore.ipynb after a slider has moved.

Run it as ``python tests/benchmarks/bench_explore.py``. Each time includes simulation and drawing.
"""

import time

import numpy as np

from iopatterns.lab import explore
from iopatterns.twin import models

WORKLOADS = {
    "random reads, depth 1": explore.Workload(),
    "random reads, depth 256": explore.Workload(iodepth=256),
    "sequential reads, 4 jobs": explore.Workload("read", numjobs=4),
    "random writes of 16 KiB, depth 32": explore.Workload("randwrite", 16384, iodepth=32),
    "mixed, 64 KiB": explore.Workload("randrw", 65536, iodepth=8),
    "100,000 arrivals a second": explore.Workload(arrivals_per_s=100_000),
}


def main() -> None:
    """Print the median and the 95th percentile of the redraw time, for all models together and for each workload."""
    picture = explore.SimulationFigure()
    drives = [models.load_model(name) for name in models.list_models()]
    took_ms: dict[str, list[float]] = {}
    busy = time.process_time()
    for name, workload in WORKLOADS.items():
        for model in drives:
            begin = time.perf_counter()
            picture.png(explore.simulate_workload(model, workload, {}))
            took_ms.setdefault(name, []).append(1e3 * (time.perf_counter() - begin))
    everything = [one for each in took_ms.values() for one in each]
    busy_ms = 1e3 * (time.process_time() - busy) / len(everything)
    print(f"a redraw takes {busy_ms:.0f} ms of processor time in the mean")
    for name, each in {f"{len(drives)} twins, {len(WORKLOADS)} workloads": everything, **took_ms}.items():
        median, high = np.quantile(each, [0.5, 0.95])
        print(f"{name}: {median:.0f} ms, 95 % within {high:.0f} ms, of {len(each)} redraws")


if __name__ == "__main__":
    main()
