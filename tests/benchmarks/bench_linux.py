"""Boot time and requests per second of `twin linux`.

The kernel must have been built by `./reproduce.sh linux`.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPETITIONS = 3
TWIN = [sys.executable, "-m", "iopatterns.twin", "linux", "--set", "capacity.size=4GiB"]
FIO = ["fio", "--name=job", "--direct=1", "--bs=4k", "--rw=randread", "--size=256m", "--eta=never", "--randrepeat=0"]
FIO += ["--filename={drive}", "--output-format=json"]
FEW, MANY = 1000, 41_000
WORKLOADS = {
    "psync, one at a time": ["--ioengine=psync"],
    "libaio, 32 deep": ["--ioengine=libaio", "--iodepth=32"],
    "io_uring, 32 deep": ["--ioengine=io_uring", "--iodepth=32"],
}


def wall_s(options: list[str], command: list[str]) -> float:
    """Return the shortest wall time of several runs, in seconds."""
    taken = []
    for _ in range(REPETITIONS):
        begun = time.perf_counter()
        subprocess.run([*TWIN, *options, "px05smb040", "--", *command], check=True, capture_output=True)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def requests(trace: Path) -> int:
    """Return the number of requests in a trace."""
    with trace.open() as file:
        return sum(1 for _ in file) - 1


def main() -> None:
    """Print one result per line."""
    probe = subprocess.run([*TWIN, "px05smb040", "--", "true"], capture_output=True, text=True, check=False)
    if probe.returncode != 0:
        print(probe.stderr.strip())
        return
    empty = wall_s(["--fs", "none"], ["true"])
    print(f"boot to power-off: {empty:.2f} s")
    print(f"boot, mkfs.ext4, mount, unmount, power-off: {wall_s([], ['true']):.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        for name, words in WORKLOADS.items():
            taken_s, made = [], []
            for ios in (FEW, MANY):  # their difference excludes boot and start of fio
                options = ["--fs", "none", "--trace", str(trace), "--overwrite"]
                taken_s.append(wall_s(options, [*FIO, *words, f"--number_ios={ios}"]))
                made.append(requests(trace))
            rate = (made[1] - made[0]) / (taken_s[1] - taken_s[0])
            print(
                f"{name}: {rate:,.0f} requests per wall second, after {taken_s[0] - empty:.1f} s for the start of fio"
            )


if __name__ == "__main__":
    main()
