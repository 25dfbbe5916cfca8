"""A sample of the content of a device: where data are, and their SHA-256."""

import hashlib
import mmap
import os
from collections.abc import Iterator
from dataclasses import dataclass

from iopatterns.measuring.drives.descriptors import reopen

_MIB = 2**20
_BLOCKS = 64  # a hard disk reads them in less than a second
_BLOCK_BYTES = 2**16
# The bytes of a device where nothing has been written
_EMPTY = (b"\x00", b"\xff")


@dataclass(frozen=True)
class ContentSample:
    """The result of reading a sample of the blocks of a device.

    Attributes:
        data_at_bytes: The offsets in bytes of the sampled blocks that contain data, in ascending order. A block without
            data has only zeros, or only bytes 0xff.
        sha256: The SHA-256 of all sampled blocks together, as hexadecimal digits.
    """

    data_at_bytes: list[int]
    sha256: str


def sample_content(descriptor: int, size_bytes: int) -> ContentSample:
    """Read a sample of a device: its first and last MiB, and 64 blocks between them.

    The blocks between have 64 KiB each, at equal distances. A device of at most 2 MiB is read completely. The page
    cache is bypassed.

    Args:
        descriptor: The file descriptor of the open device.
        size_bytes: The size of the device.

    Returns:
        The offsets of the blocks that contain data, and the SHA-256 of the sample.

    Raises:
        OSError: A block cannot be read.
    """
    data_at_bytes: list[int] = []
    digest = hashlib.sha256()
    direct = reopen(descriptor, os.O_RDONLY | os.O_DIRECT)
    try:
        with mmap.mmap(-1, 2 * _MIB) as buffer:  # anonymous memory is aligned, as direct I/O requires
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
    """Yield the offset and the length in bytes of each block to sample.

    The blocks are the first MiB, 64 blocks of 64 KiB at equal distances, and the last MiB. A device of at most 2 MiB is
    one block. Offsets are multiples of 64 KiB, and thereby of every logical block size.
    """
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
