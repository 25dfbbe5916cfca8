"""What is on a device, by a sample of it: whether there are data, and whether they are those that were left there."""

import hashlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

from iopatterns.measuring.drives.descriptors import reopen

_MIB = 2**20
_BLOCKS = 64  # spread over the device: a hard disk reads them in less than a second
_BLOCK_BYTES = 2**16
# What a drive holds where nothing has been written
_EMPTY = (b"\x00", b"\xff")


@dataclass(frozen=True)
class ContentSample:
    """The offsets in bytes at which data were found, and a digest of all that was read."""

    data_at_bytes: list[int]
    sha256: str


def sample_content(descriptor: int, size_bytes: int) -> ContentSample:
    """Read the first and the last MiB of a device, and blocks spread between them, past the page cache.

    Raises OSError where some of it cannot be read.
    """
    data_at_bytes: list[int] = []
    digest = hashlib.sha256()
    direct = reopen(descriptor, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 2 * _MIB) as buffer:  # anonymous memory, hence aligned
            for start, length in _places(size_bytes):
                with memoryview(buffer) as view, view[:length] as part:
                    got = os.preadv(direct, [part], start)
                    found = bytes(part[:got])
                digest.update(found)
                if not _is_empty(found):
                    data_at_bytes.append(start)
    finally:
        os.close(direct)
    return ContentSample(data_at_bytes, digest.hexdigest())


def _places(size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield offset and length of what is read, offsets in multiples of the largest logical block there is."""
    if size_bytes <= 2 * _MIB:
        yield 0, size_bytes
        return
    yield 0, _MIB
    room = size_bytes - 2 * _MIB - _BLOCK_BYTES
    for index in range(_BLOCKS if room > 0 else 0):
        yield (_MIB + room * index // (_BLOCKS - 1)) // _BLOCK_BYTES * _BLOCK_BYTES, _BLOCK_BYTES
    last = (size_bytes - _MIB) // _BLOCK_BYTES * _BLOCK_BYTES
    yield last, size_bytes - last


def _is_empty(content: bytes) -> bool:
    return content[:1] in _EMPTY and content.count(content[:1]) == len(content)
