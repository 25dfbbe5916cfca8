"""Time and memory for reading and converting the output of strace of two lengths.

The program writes a file of a quarter of a million lines and one of a million lines.
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
# Run in a new process; prints its CPU time in seconds, its peak memory in KiB, and the number of calls
CONVERT = """
import resource, sys
from pathlib import Path
from iopatterns import calls
done = calls.convert_calls(calls.open_trace([Path(sys.argv[1])]), Path(sys.argv[2]))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime, used.ru_maxrss, done.calls)
"""


def strace(count: int) -> Iterable[str]:
    """Yield lines of processes that write in turn. Each tenth call is recorded in two parts."""
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
    """Convert both files, and print the time and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES, help="length of the shorter file  [default: %(default)s]")
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
        f"output of strace: {count * LONGER} lines, {size / MIB:.0f} MiB, {calls:.0f} calls, {seconds:.1f} s of CPU;"
        f" peak memory {more / 1024:.0f} MiB, {memory / 1024:.0f} MiB for a quarter of the lines",
        flush=True,
    )


if __name__ == "__main__":
    main()
