"""Start-up time of a measurement, and time until a configuration error, compared with bare commands."""

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
    """Print medians and ratios."""
    tools = Path(sys.executable).parent
    python_s = median_s(sys.executable, "-c", "pass")
    # fails in the first check of a measurement, after all imports
    start_s = median_s(f"{tools}/iopatterns", "measure", "--specification", "{}", "x/no-such-cell/01.json")
    print(f"iopatterns measure starts in {start_s:.3f} s, {start_s / python_s:.1f} x python -c pass ({python_s:.3f} s)")
    version_s = median_s(f"{tools}/snakemake", "--version")
    mistake_s = median_s(f"{tools}/snakemake", "--cores", "1", "--config", "repetition=3")
    print(f"a misspelt key is reported after {mistake_s:.2f} s, {mistake_s / version_s:.2f} x snakemake --version")


if __name__ == "__main__":
    main()
