"""Speed and memory of converting the text of strace.

The benchmark converts texts of 250,000 and of 1,000,000 lines, to show that memory does not grow with the length.
"""

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

LINES = 250_000
LONGER = 4
PROCESSES = 4
MIB = 2**20
# Runs in a process of its own; prints processor seconds, peak memory in KiB, and the number of calls
CONVERT = """
import resource, sys
from pathlib import Path
from iopatterns import calls
done = calls.convert_calls(calls.open_trace([Path(sys.argv[1])]), Path(sys.argv[2]), overwrite=True)
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, done.calls)
"""


def strace(count: int) -> Iterable[str]:
    """Yield lines of strace: processes write in turn, and each tenth call is in two parts."""
    for process in range(PROCESSES):
        yield f'{process + 1} 1700000000.000000 openat(AT_FDCWD, "/data/{process}", O_RDWR) = 3 <0.000010>\n'
    left = ""
    for number in range(count - PROCESSES):
        begin = f"{number % PROCESSES + 1} {1700000001 + number // 10**6}.{number % 10**6:06d}"
        if left:
            yield f"{left} <... write resumed>) = 4096 <0.000020>\n"
            left = ""
        elif number % 10 == 8:
            yield f'{begin} write(3, "abcdefgh"..., 4096 <unfinished ...>\n'
            left = begin
        else:
            yield f'{begin} write(3, "abcdefgh"..., 4096) = 4096 <0.000012>\n'


def main() -> None:
    """Convert both texts; print processor time and peak memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES, help="of the shorter text  [default: %(default)s]")
    count = parser.parse_args().lines
    taken = []
    with tempfile.TemporaryDirectory() as folder:
        text, output = Path(folder) / "strace.txt", Path(folder) / "calls.parquet"
        for times in (1, LONGER):
            with text.open("w", encoding="utf-8") as file:
                file.writelines(strace(count * times))
            command = [sys.executable, "-c", CONVERT, str(text), str(output)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            taken.append([float(word) for word in done.stdout.split()])
        size = text.stat().st_size
    (_, memory, _), (seconds, more, calls) = taken
    print(
        f"text of strace: {count * LONGER} lines, {size / MIB:.0f} MiB, {calls:.0f} calls, {seconds:.1f} processor"
        f" seconds; at most {more / 1024:.0f} MiB of memory, {more / memory:.2f} times the"
        f" {memory / 1024:.0f} MiB for a quarter of the trace",
        flush=True,
    )


if __name__ == "__main__":
    main()
