"""Synthetic streams of requests, made as fio's jobs make theirs: what is replayed on a twin without fio."""

import numpy as np

RequestColumns = tuple[np.ndarray, np.ndarray, np.ndarray]


def synthetic_requests(
    numbers: np.random.Generator,
    count: int,
    *,
    bs_bytes: int,
    region_bytes: int,
    at_random: bool,
    read_share: float,
    numjobs: int = 1,
) -> RequestColumns:
    """Return ``count`` requests as a replay takes them: operation (uint8), offset_bytes and size_bytes (uint64).

    All are of ``bs_bytes`` and lie in the first ``region_bytes`` of the drive. At random, each is anywhere in it; else
    each of ``numjobs`` jobs goes through a part of its own, one request of each job in turn. ``read_share`` of them, by
    chance, are reads. The region must hold a request for each job.
    """
    region = region_bytes // bs_bytes
    if at_random:
        blocks = numbers.integers(0, region, count, dtype=np.uint64)
    else:
        part = region // numjobs
        step = np.arange(count, dtype=np.uint64)
        jobs = np.uint64(numjobs)
        blocks = step % jobs * np.uint64(part) + step // jobs % np.uint64(part)
    operation = (numbers.random(count) >= read_share).astype(np.uint8)
    return operation, blocks * np.uint64(bs_bytes), np.full(count, bs_bytes, dtype=np.uint64)
