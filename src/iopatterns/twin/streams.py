"""Synthetic streams of requests, as fio makes them, for replays without fio."""

import numpy as np

RequestColumns = tuple[np.ndarray, np.ndarray, np.ndarray]


def synthetic_requests(
    generator: np.random.Generator,
    count: int,
    *,
    bs_bytes: int,
    region_bytes: int,
    at_random: bool,
    read_share: float,
    numjobs: int = 1,
) -> RequestColumns:
    """Return synthetic requests: operations, offsets and sizes.

    Args:
        generator: Source of the random offsets and operations.
        count: Number of requests.
        bs_bytes: Size of each request.
        region_bytes: Size of the accessed region, which begins at offset 0. It must hold one request per job.
        at_random: Whether offsets are uniformly random. If not, each job reads or writes its own part of the region
            sequentially, and the jobs take turns.
        read_share: Probability that a request is a read; all others are writes.
        numjobs: Number of jobs that access the region sequentially.

    Returns:
        Arrays of type uint8 (0: read, 1: write), uint64 and uint64.
    """
    region = region_bytes // bs_bytes
    if at_random:
        blocks = generator.integers(0, region, count, dtype=np.uint64)
    else:
        part = region // numjobs
        step = np.arange(count, dtype=np.uint64)
        jobs = np.uint64(numjobs)
        blocks = step % jobs * np.uint64(part) + step // jobs % np.uint64(part)
    operation = (generator.random(count) >= read_share).astype(np.uint8)
    return operation, blocks * np.uint64(bs_bytes), np.full(count, bs_bytes, dtype=np.uint64)
