"""Reading of files that may be compressed, as if they were not."""

import bz2
import contextlib
import gzip
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, cast

from iopatterns.base import reading_progress


def _with_arrow(codec: str) -> Callable[[IO[bytes]], IO[bytes]]:
    def opened(file: IO[bytes]) -> IO[bytes]:
        import pyarrow

        return cast("IO[bytes]", pyarrow.CompressedInputStream(pyarrow.PythonFile(file), codec))

    return opened


def _gzip(file: IO[bytes]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=file))


# Suffix, and decompressor, by the first bytes of a compressed file
_FORMATS: dict[bytes, tuple[str, Callable[[IO[bytes]], Any]]] = {
    b"\x1f\x8b": (".gz", _gzip),
    b"BZh": (".bz2", bz2.BZ2File),
    b"\xfd7zXZ\x00": (".xz", lzma.LZMAFile),
    b"\x28\xb5\x2f\xfd": (".zst", _with_arrow("zstd")),
    b"\x04\x22\x4d\x18": (".lz4", _with_arrow("lz4")),
}
_SUFFIXES = frozenset(suffix for suffix, _ in _FORMATS.values())


def plain_name(path: Path) -> Path:
    """Return the path of a file without the suffix of its compression, such as ``.gz``."""
    return path.with_suffix("") if path.suffix in _SUFFIXES else path


@contextlib.contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for reading in binary mode, and decompress it if it is compressed.

    The compression follows from the first bytes of the file: gzip, bzip2, xz, zstd or lz4. The progress bar of
    `reading_progress.shown` includes the file.

    Args:
        path: The file.

    Raises:
        OSError: The file cannot be read, or its compressed data are damaged or incomplete.
    """
    with path.open("rb") as file, reading_progress.watched(file):
        head = file.read(6)
        file.seek(0)
        decompressor = next((each for magic, (_, each) in _FORMATS.items() if head.startswith(magic)), None)
        try:
            yield file if decompressor is None else decompressor(file)
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            raise OSError(f"the compressed data are damaged or incomplete: {error}") from None


def first_bytes(path: Path, count: int) -> bytes:
    """Return the first bytes of a file, decompressed if it is compressed.

    Args:
        path: The file.
        count: The number of bytes; a shorter file gives all its bytes.

    Raises:
        OSError: The file cannot be read, or its compressed data are damaged.
    """
    with opened(path) as file:
        return bytes(file.read(count))
