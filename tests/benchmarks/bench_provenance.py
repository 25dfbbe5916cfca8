"""Time to notice changed files at the start of a run, with and without the cache of checksums.

The program writes the raw files of a run ten times as large as the default one: 6,000 cells of ten repetitions, each
with a metadata file. Their times are set to yesterday, because files that changed recently are always read.
"""

import os
import tempfile
import time
from pathlib import Path

from iopatterns.base.checksum_cache import ChecksumCache
from iopatterns.workflow import provenance

CELLS, REPETITIONS = 6_000, 10
RAW, METADATA = b"x" * 7_000, b"y" * 4_000  # bytes, about as in a default run


def write_raw_files() -> list[Path]:
    """Write the files into the working directory; return the paths of the raw files."""
    yesterday_s = time.time() - 86_400
    found = []
    for cell in range(CELLS):
        folder = Path(f"data/raw/drive/study/cell-{cell:08x}")
        folder.mkdir(parents=True)
        for number in range(1, REPETITIONS + 1):
            raw = folder / f"{number:02d}.json"
            for path, content in ((raw, RAW), (folder / f"{number:02d}.sidecar.json", METADATA)):
                path.write_bytes(content)
                os.utime(path, (yesterday_s, yesterday_s))
            found.append(raw)
    return found


def main() -> None:
    """Compare a record of all raw files with the files, first without and then with the cache."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        raws = write_raw_files()
        record = provenance.Record("collect_study", {}, {}, provenance.raw_folders(raws), {})
        time.sleep(2.5)  # the time of the last status change cannot be set
        seconds = []
        for _ in range(2):
            began_s = time.perf_counter()
            cache = ChecksumCache(Path("cache.json"))
            assert not list(provenance.changed_files(record, cache))
            cache.save()
            seconds.append(time.perf_counter() - began_s)
        first_s, then_s = seconds
        print(f"{2 * len(raws):,} files: {first_s:.2f} s if all are read, {then_s:.2f} s with the cache")
        print(f"ratio: {first_s / then_s:.1f}")
        os.chdir("/")


if __name__ == "__main__":
    main()
