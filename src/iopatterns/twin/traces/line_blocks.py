"""Read the lines of text files in large blocks, whose columns pyarrow extracts.

A reader of block traces parses a block of plain lines at once. A block with a line that is not plain, or is faulty, is
parsed line by line, so that messages name the line.
"""

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from iopatterns.base import compressed
from iopatterns.twin.traces.form import TraceFile

if TYPE_CHECKING:
    import pyarrow

BLOCK_BYTES = 2**22
DECIMALS = 9


class NotPlainError(Exception):
    """The error for a block of lines that must be parsed line by line."""


def require_plain(is_plain: object) -> None:
    """Raise NotPlainError unless a condition is true."""
    if not is_plain:
        raise NotPlainError


def line_blocks(source: TraceFile) -> Iterator[tuple[int, bytes]]:
    """Yield blocks of complete lines of a text file, each with the number of its first line, from 1.

    Args:
        source: The trace file.
    """
    number = 1
    with compressed.opened(source.path) as file:
        rest = b""
        while content := file.read(BLOCK_BYTES):
            whole, newline, after = content.rpartition(b"\n")
            block, rest = (rest + whole + newline, after) if newline else (b"", rest + content)
            if not newline and len(rest) > 2 * BLOCK_BYTES:  # a binary file, not lines
                block, rest = rest, b""
            if block:
                yield number, block
                number += block.count(b"\n")
        if rest:
            yield number, rest


def numbered_lines(source: TraceFile, block: bytes, begin: int) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line of a block, as `InputFile.lines` does for a file.

    Args:
        source: The trace file, which receives the faults.
        block: The lines.
        begin: Number of the first line.
    """
    text = io.StringIO(block.decode("utf-8-sig", errors="replace"), newline="\n")
    for number, line in enumerate(text, begin):
        if len(line) >= source.MOST_LINE:
            source.fault(f"line {number}", f"longer than {source.MOST_LINE} characters")
        else:
            yield number, f"{line[:-2]}\n" if line.endswith("\r\n") else line


def split_lines(source: TraceFile, block: bytes) -> "pyarrow.Array":
    """Return the lines of a block that are not blank as an array of strings.

    Args:
        source: The trace file.
        block: The lines.

    Raises:
        NotPlainError: A line is too long, or is not text in UTF-8.
    """
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.csv

    block = block.replace(b"\r\n", b"\n")
    require_plain(b"\r" not in block)
    try:
        table = pyarrow.csv.read_csv(
            pa.BufferReader(block),
            pyarrow.csv.ReadOptions(column_names=["line"], use_threads=False, block_size=len(block) + 1),
            pyarrow.csv.ParseOptions(delimiter="\x01", quote_char=False),
            pyarrow.csv.ConvertOptions(column_types={"line": pa.string()}),
        )
    except pa.ArrowInvalid:
        raise NotPlainError from None
    lines = table.column("line").combine_chunks()
    longest = pc.max(pc.binary_length(lines)).as_py()
    require_plain(longest is not None and longest < source.MOST_LINE)
    return lines


def extract_columns(lines: "pyarrow.Array", pattern: str) -> dict[str, "pyarrow.Array"]:
    """Return the groups of a regular expression as arrays by name; a group without a match is an empty string.

    Args:
        lines: The lines.
        pattern: The expression, in the syntax of RE2.

    Raises:
        NotPlainError: A line does not match.
    """
    import pyarrow.compute as pc

    found = pc.extract_regex(lines, pattern)
    require_plain(found.null_count == 0)
    return dict(zip((each.name for each in found.type), found.flatten(), strict=True))


def encoded_words(column: "pyarrow.Array") -> tuple[list[str], np.ndarray]:
    """Return the different words in a column, and the position of each row's word.

    Raises:
        NotPlainError: A row has no word.
    """
    import pyarrow as pa

    require_plain(column.null_count == 0)
    array = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    return array.dictionary.to_pylist(), array.indices.to_numpy(zero_copy_only=False)


def whole_numbers(column: "pyarrow.Array", below: int) -> np.ndarray:
    """Return a column of digits as numbers (uint64); an empty string is 0.

    Args:
        column: The digits.
        below: Limit of the numbers.

    Raises:
        NotPlainError: A number is not below the limit.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = pc.if_else(pc.equal(column, ""), "0", column).cast(pa.uint64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        raise NotPlainError from None
    require_plain(not len(numbers) or numbers.max() < below)
    return np.asarray(numbers)


def scaled_decimals(column: "pyarrow.Array", unit: int) -> np.ndarray:
    """Return a column of numbers with at most nine decimals as whole numbers (int64) of a smaller unit.

    Args:
        column: The numbers as strings, decimals; an empty string is 0.
        unit: Smaller units per unit of the column, at most 10^9.

    Raises:
        NotPlainError: A number is not from 0 to 2^63 / 10^9.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_decimal(column.type):
        try:
            column = pc.if_else(pc.equal(column, ""), "0", column).cast(pa.decimal128(28, DECIMALS))
        except pa.ArrowInvalid:
            raise NotPlainError from None
    low, high = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)[column.offset :][: len(column)].T
    require_plain(not ((high != 0) | (low < 0)).any())
    divisor = 10**DECIMALS // unit
    scaled: np.ndarray = low if divisor == 1 else (low + divisor // 2) // divisor
    return scaled
