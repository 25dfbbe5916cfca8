"""Generate requests to a drive as fio would, for simulations without fio."""

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
    each_once: bool = False,
) -> RequestColumns:
    """Return random or sequential requests for a simulated drive, as three arrays.

    Args:
        generator: Source of the random offsets and operations.
        count: Number of requests.
        bs_bytes: Size of each request.
        region_bytes: Size of the accessed region, which begins at offset 0. It must hold at least one request per job.
        at_random: True for uniformly random offsets. False for sequential offsets: each job accesses its own part of
            the region from start to end, again and again, and the jobs take turns.
        read_share: Probability that a request is a read, from 0 to 1. All other requests are writes.
        numjobs: Number of jobs. It has no effect on random offsets.
        each_once: Whether random offsets take each block of the region once before they take any block again, as fio's
            offsets do. Otherwise they are independent of each other, which is much the same if they are few.

    Returns:
        Operations (uint8; 0 is a read, 1 is a write), offsets in bytes (uint64) and sizes in bytes (uint64). Each array
        has ``count`` elements. Offsets are multiples of ``bs_bytes``.
    """
    region = region_bytes // bs_bytes
    if at_random and each_once:
        passes = [generator.permutation(region) for _ in range(-(-count // region))]
        blocks = np.concatenate(passes)[:count].astype(np.uint64)
    elif at_random:
        blocks = generator.integers(0, region, count, dtype=np.uint64)
    else:
        part = region // numjobs
        step = np.arange(count, dtype=np.uint64)
        jobs = np.uint64(numjobs)
        blocks = step % jobs * np.uint64(part) + step // jobs % np.uint64(part)
    operation = (generator.random(count) >= read_share).astype(np.uint8)
    return operation, blocks * np.uint64(bs_bytes), np.full(count, bs_bytes, dtype=np.uint64)
