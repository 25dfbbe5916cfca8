"""Time until a measurement starts, and until a mistake in the configuration is reported."""

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RUNS = 11


def median_s(*command: str) -> float:
    """Run a command several times after one warm-up; return the median wall time in seconds."""
    times = []
    for _ in range(RUNS + 1):
        start = time.perf_counter()
        subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    """Print the median wall times and their ratios."""
    tools = Path(sys.executable).parent
    python_s = median_s(sys.executable, "-c", "pass")
    # ends in the first check of the measuring code, after all imports of a measurement
    start_s = median_s(f"{tools}/iopatterns", "measure", "--specification", "{}", "x/no-such-cell/01.json")
    print(f"iopatterns measure starts in {start_s:.3f} s, {start_s / python_s:.1f} x python -c pass ({python_s:.3f} s)")
    version_s = median_s(f"{tools}/snakemake", "--version")
    mistake_s = median_s(f"{tools}/snakemake", "--cores", "1", "--config", "repetition=3")
    print(f"a mistyped key is reported in {mistake_s:.2f} s, {mistake_s / version_s:.2f} x snakemake --version")


if __name__ == "__main__":
    main()
