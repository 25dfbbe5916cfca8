"""A read cache as large as the file cache of a host: initial content, and written data."""

import numpy as np

from iopatterns import _twin
from iopatterns.twin import models


def latencies_us(blocks: list[int], writes: list[int], *settings: str) -> list[float]:
    """Return the latencies of requests of 4 KiB, one after the other; `writes` has a 1 for each write."""
    model = models.load_model("wsl-ssd").overridden(settings)
    native = _twin.Replay(model.text, 1, 1, 1)
    offsets = np.array(blocks, dtype=np.uint64) * np.uint64(4096)
    sizes = np.full(len(blocks), 4096, dtype=np.uint64)
    columns = [native.feed(np.empty(0, np.int64), np.array(writes, np.uint8), offsets, sizes), native.finish()]
    return [float(each) / 1e3 for each in np.concatenate([latency_ns for _, _, latency_ns in columns])]


def test_initial_content_of_the_cache_is_as_fast_as_data_read_before() -> None:
    warm = latencies_us([7, 900, 7], [0, 0, 0])
    assert max(warm) - min(warm) < 1
    cold_first, cold_other, cold_again = latencies_us([7, 900, 7], [0, 0, 0], "read_cache.initial=0")
    assert min(cold_first, cold_other) > cold_again + 50
    assert abs(cold_again - warm[0]) < 1


def test_a_cache_that_keeps_written_data_serves_them_after_the_write_buffer() -> None:
    cold = ("read_cache.initial=0", "flash.program_time=1us", "write_buffer.destage_delay=1us")
    blocks = [7, *range(100, 400), 7]
    kinds = [1, *[0] * 300, 0]
    kept = latencies_us(blocks, kinds, *cold, "read_cache.keeps_written=on")[-1]
    forgotten = latencies_us(blocks, kinds, *cold, "read_cache.keeps_written=off")[-1]
    assert forgotten > kept + 50
