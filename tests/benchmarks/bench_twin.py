"""Speed of simulated drives: fio on them, the start of fio, and replays.

Run it as ``python tests/benchmarks/bench_twin.py``; most results are ratios within one run.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from iopatterns import twin
from iopatterns.twin.trace_replay import ReplaySession

TWIN = [str(Path(sys.executable).with_name("twin")), "run"]
FIO = ["fio", "--name=bench", "--size=1g", "--rw=randread", "--bs=4k", "--thread=1", "--clocksource=clock_gettime"]
FIO += ["--time_based=1", "--randrepeat=0", "--randseed=1", "--norandommap=1"]


def wall_s(argv: Sequence[str], times: int = 1) -> float:
    """Return the median wall time of a command in seconds."""
    found = []
    for _ in range(times):
        begin = time.perf_counter()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        found.append(time.perf_counter() - begin)
    return statistics.median(found)


def on_twin(state: str, *options: str) -> list[str]:
    """Return the command of a run of fio on the model px05smb040."""
    return [*TWIN, "px05smb040", "--state", state, "--", *FIO, "--filename={drive}", "--direct=1", *options]


def requests_of(argv: Sequence[str]) -> int:
    """Return the number of requests of a run of fio."""
    done = subprocess.run([*argv, "--output-format=json"], check=True, capture_output=True, text=True)
    text = done.stdout
    jobs = json.loads(text[text.index("{") :])["jobs"]
    return sum(job[direction]["total_ios"] for job in jobs for direction in ("read", "write"))


def cpu_s(argv: Sequence[str], times: int) -> float:
    """Return the median processor time of a command, in seconds."""
    found = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return statistics.median(found)


def cpu_us_a_request(short: list[str], long: list[str]) -> float:
    """Return the processor time per request in µs: the difference of a long and a short run, without start-up."""
    more = requests_of(long) - requests_of(short)
    return 1e6 * (cpu_s(long, 3) - cpu_s(short, 3)) / more


def steady_trace(operation: int, region_bytes: int, count: int, seed: int) -> pd.DataFrame:
    """Return random 4 KiB requests in a region."""
    numbers = np.random.Generator(np.random.PCG64(seed))
    blocks = numbers.integers(0, region_bytes // 4096, count, dtype=np.uint64)
    return pd.DataFrame(
        {
            "operation": np.full(count, operation, dtype=np.uint8),
            "offset_bytes": blocks * np.uint64(4096),
            "size_bytes": np.full(count, 4096, dtype=np.uint64),
        }
    )


def replay_rate(model: twin.Model, operation: int, region_bytes: int, pieces: int, depth: int) -> tuple[float, int]:
    """Replay requests in pieces of half a million; return requests per wall second, and used memory in bytes."""
    session = ReplaySession(model, depth=depth)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    traces = [steady_trace(operation, region_bytes, 500_000, seed) for seed in range(2)]
    begin = time.process_time()
    for _ in session.run(traces[number % 2] for number in range(pieces)):
        pass
    elapsed = time.process_time() - begin
    return pieces * 500_000 / elapsed, 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)


def main() -> None:
    """Print all results."""
    with tempfile.TemporaryDirectory() as state:
        version_s = wall_s(["fio", "--version"], 15)
        short_s = wall_s(on_twin(state, "--runtime=1", "--ioengine=psync"), 15)
        print(f"1 virtual second of 4 KiB random reads, start of fio included: {1000 * short_s:.0f} ms,")
        print(f"    {short_s / version_s:.1f} x fio --version ({1000 * version_s:.0f} ms)")

        null = [*FIO, "--ioengine=null"]
        null_us = cpu_us_a_request([*null, "--runtime=1"], [*null, "--runtime=3"])
        psync = on_twin(state, "--ioengine=psync")
        one_us = cpu_us_a_request([*psync, "--runtime=1"], [*psync, "--runtime=200"])
        print(f"fio psync, 4 KiB random reads at depth 1: {one_us:.2f} us of processor time per request,")
        print(f"    {one_us / null_us:.2f} x fio's null engine ({null_us:.2f} us)")

        libaio = on_twin(state, "--ioengine=libaio", "--iodepth=32")
        deep_us = cpu_us_a_request([*libaio, "--runtime=1"], [*libaio, "--runtime=20"])
        print(f"fio libaio, depth 32: {deep_us:.2f} us of processor time per request, {deep_us / one_us:.2f} x depth 1")

        jobs = [*psync, "--numjobs=16", "--group_reporting"]
        jobs_us = cpu_us_a_request([*jobs, "--runtime=1"], [*jobs, "--runtime=20"])
        print(f"fio psync, 16 jobs: {jobs_us:.2f} us of processor time per request, {jobs_us / one_us:.2f} x one job")

        polling = [*libaio, "--iodepth_batch_complete_min=0", "--numjobs=2", "--runtime=1"]
        spinning = [*psync, "--thinktime=200", "--thinktime_spin=200", "--numjobs=4", "--runtime=1"]
        for name, argv in (("polling in 2 jobs", polling), ("spinning between requests in 4 jobs", spinning)):
            print(f"1 virtual second of {name}: {cpu_s(argv, 3):.2f} s of processor time")

    model = twin.load_model("px05smb040")
    rate, _ = replay_rate(model, 0, model.size_bytes, 20, 1)
    print(f"replay, 10 million 4 KiB random reads over {model.size_bytes / 1e9:.0f} GB: {rate / 1e6:.2f} million/s")
    small = model.overridden(["capacity.size=16GiB", "flash.pages_per_block=64", "ftl.initial_state=random"])
    units = small.size_bytes // 4096
    rate, memory = replay_rate(small, 1, small.size_bytes, 20, 32)
    print(f"replay, 10 million random overwrites with garbage collection at steady state: {rate / 1e6:.2f} million/s,")
    print(f"    {memory / units:.1f} bytes per 4 KiB unit, {units} units touched")
    _, memory = replay_rate(small, 1, small.size_bytes, 40, 32)
    print(f"    {memory / units:.1f} bytes more after 20 million more overwrites")


if __name__ == "__main__":
    main()
