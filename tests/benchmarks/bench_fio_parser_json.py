"""Time to read a thousand json+ results into tables, against json.load of the same files."""

import argparse
import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from fio_parser_json import jobs, latency_bins, read_documents

# A runtime of two seconds gives histograms of the usual size
FIO = (
    "fio --name=randrw --rw=randrw --bs=4k --ioengine=psync --filename=f --size=64m --time_based --runtime=2 "
    "--output-format=json+ --output=result.json"
)


def seconds(work: Callable[[], object]) -> float:
    """Call a function once; return the wall time in seconds."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main() -> None:
    """Make the files with the installed fio; print the time of each way of reading them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1000)
    count = parser.parse_args().files
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(FIO.split(), cwd=folder, check=True)
        result = Path(folder, "result.json")
        paths = [Path(folder, f"{number:04}.json") for number in range(count)]
        for path in paths:
            shutil.copy(result, path)
        bins = len(latency_bins(result))
        print(f"{count} files of {result.stat().st_size} bytes, {bins} bins each")

        def load() -> None:
            for path in paths:
                with path.open() as file:
                    json.load(file)

        def both() -> None:
            documents = [document for path in paths for document in read_documents(path)]
            jobs(documents)
            latency_bins(documents)

        ways: dict[str, Callable[[], object]] = {
            "json.load": load,
            "read_documents": lambda: [read_documents(path) for path in paths],
            "jobs": lambda: jobs(paths),
            "latency_bins": lambda: latency_bins(paths),
            "both, read once": both,
        }
        baseline = 0.0
        for name, work in ways.items():
            best = min(seconds(work) for _ in range(3))
            baseline = baseline or best
            print(f"{name:16} {best:6.2f} s {best / baseline:6.1f} × json.load")


if __name__ == "__main__":
    main()
