"""Nothing is lost or wrong if a system call of a measurement fails.

With `--nightly`, every call fails once. Without, a sample does.
"""

import concurrent.futures
import errno
import itertools
import multiprocessing
import os
import random
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from failing_calls import CALLS, Fault, Site, require_filter
from failing_measurements import KINDS, faulty, undisturbed_sites
from loops import loop_device

SAMPLE = 12
# As many as a process of the pool injects before it reports
BATCH = 10


@pytest.fixture(scope="module")
def pool(request: pytest.FixtureRequest) -> Iterator[ProcessPoolExecutor]:
    """Yield processes that have imported the package, and fork for each measurement."""
    require_filter()
    processes = len(os.sched_getaffinity(0)) if request.config.getoption("nightly") else 1
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as found:
        yield found


# Faults that once had consequences, with these
OWNER = "project/drive/.iopatterns/owner"
RAW = "project/data/raw/twin/study/cell-*"
STATE = "project/data/raw/.twins/*"
MENDED = {
    "the unfinished mark of the folder was taken for another's": ("file", "newfstatat", OWNER, 0, "EIO"),
    "the message named no drive": ("file", "pwrite64", "project/drive/.iopatterns/drive.bin.part", 0, "ENOSPC"),
    "an unfinished note was left": ("file", "fsync", "project/drive/.iopatterns/drive.bin.mark.new", 1, "EDQUOT"),
    "the message named no file": ("twin", "close", f"{STATE}.lock", 0, "EIO"),
    "a setting was recorded as refused": ("twin", "write", f"{STATE}/.model.partial", 0, "ENOSPC"),
    "a twin forgot its settings": ("twin", "openat", f"{STATE}/mode-pages", 17, "EMFILE"),
    "the original value was not recorded": ("block", "read", "sysfs/queue/nr_requests", 1, "EIO"),
    "the latency log was missing": ("twin", "openat", f"{RAW}/.01.json.partial_clat_hist.log", 0, "EIO"),
}


def fault_at(site: Site) -> Fault:
    return Fault(site, random.Random(str(site)).choice(CALLS[site.call].errors))


@pytest.mark.slow
@pytest.mark.parametrize("consequence", MENDED)
def test_a_mended_fault_stays_without_consequence(
    consequence: str, pool: ProcessPoolExecutor, disk_folder: Path
) -> None:
    kind, call, path, turn, error = MENDED[consequence]
    fault = Fault(Site(call, path, turn), getattr(errno, error))
    occurred, problems = pool.submit(faulty, kind, disk_folder, [fault]).result()
    assert not problems, "\n".join(problems)
    assert occurred == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_measurement_survives_a_failing_call(
    kind: str, pool: ProcessPoolExecutor, disk_folder: Path, request: pytest.FixtureRequest
) -> None:
    """Let calls fail; require that users' files, raw files and settings are right then, and after the next run."""
    if kind == "block":
        with loop_device(disk_folder, "trial") as loop:  # or the test is skipped
            if "mq-deadline" not in loop.scheduler.read_text():
                pytest.skip("this kernel offers no mq-deadline")
    sites = pool.submit(undisturbed_sites, kind, disk_folder).result()
    if not request.config.getoption("nightly"):
        sites = random.Random(kind).sample(sites, SAMPLE)
    faults = map(fault_at, sites)
    batches = iter(lambda: list(itertools.islice(faults, BATCH)), [])
    reports = [pool.submit(faulty, kind, disk_folder, batch) for batch in batches]
    results = [each.result() for each in concurrent.futures.as_completed(reports)]
    occurred = sum(number for number, _ in results)
    print(f"{kind}: {occurred} of {len(sites)} calls failed")
    problems = [problem for _, found in results for problem in found]
    assert not problems, "\n".join(problems)
    assert occurred > 0.8 * len(sites)  # some calls depend on timing
