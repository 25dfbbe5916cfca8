"""Reading of user files line by line, which reports or skips faulty lines."""

import io
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from iopatterns.base import compressed, messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable as printable  # noqa: PLC0414 - exported

MAX_NUMBER = 2**62  # of bytes or nanoseconds, so that sums fit into 64 bits
_MOST_EXAMPLES = 3

_Item = TypeVar("_Item")


@dataclass
class SkippedLines:
    """The number of faulty lines that were skipped in files, with examples.

    In a format without lines, each record or row counts as a line.

    Attributes:
        count: The number of skipped lines.
        first: The first three error messages.
    """

    count: int = 0
    first: list[str] = field(default_factory=list)

    def report(self) -> int:
        """Print the number of skipped lines, and the first three error messages.

        The message is printed on standard error. Nothing is printed if no line was skipped.

        Returns:
            The number of skipped lines.
        """
        if self.count:
            messages.say("\n".join([f"Skipped {self.count} faulty lines. The first:", *self.first]))
        return self.count


@dataclass(frozen=True)
class InputFile:
    """A user file that is read line by line.

    A fault is anything in the file that cannot be read, such as a line with a missing field.

    Attributes:
        path: The file.
        skipped: The counter of faulty lines, which are then skipped. None if the first faulty line raises an error.
        ERROR: The type of the errors. Subclasses may override it.
        ADVICE: What to do about a fault, at the end of its message. Subclasses may override it.
        MOST_LINE: The limit of characters in a line: a line that reaches it is faulty. Subclasses may override it.
    """

    path: Path
    skipped: SkippedLines | None = None

    ERROR: ClassVar[type[IoPatternsError]] = IoPatternsError
    ADVICE: ClassVar[str] = ""
    MOST_LINE: ClassVar[int] = 4096

    def fault(self, place: str, why: object, count: int = 1) -> None:
        """Count a fault in `skipped`, or raise an error if `skipped` is None.

        A fault is anything in the file that cannot be read. The first three faults are kept as examples.

        Args:
            place: The place in the file, such as ``line 3``.
            why: What is wrong there, as text or as an exception.
            count: The number of faulty lines, if one call reports several.

        Raises:
            IoPatternsError: An error of type `ERROR`, if `skipped` is None.
        """
        if self.skipped is None:
            raise self.error(f"{str(why).removesuffix('.')}{self.ADVICE}", place)
        error = self.error(why, place)
        if len(self.skipped.first) < _MOST_EXAMPLES:
            self.skipped.first.append(str(error))
        self.skipped.count += count

    def error(self, why: object, place: str = "") -> IoPatternsError:
        """Return an error of type `ERROR` about this file, without raising it.

        The message is ``PATH, PLACE: WHY``, or ``PATH: WHY`` without a place.

        Args:
            why: What is wrong, as text or as an exception.
            place: The place in the file, such as ``line 3``; empty for the entire file.
        """
        return self.ERROR(f"{printable(self.path)}{f', {place}' if place else ''}: {why}")

    def lines(self) -> Iterator[tuple[int, str]]:
        r"""Yield the number, from 1, and the text of each line.

        The text ends with ``\n``, also if the file has the line breaks of Windows. The last line may have no line
        break. A compressed file is decompressed. Bytes that are not UTF-8 become U+FFFD, and a byte order mark is left
        out. A line of `MOST_LINE` or more characters is a fault, and is not yielded.

        Raises:
            IoPatternsError: A line is too long, and `skipped` is None.
            OSError: The file cannot be read.
        """
        most = self.MOST_LINE
        with compressed.opened(self.path) as binary:
            file = io.TextIOWrapper(binary, encoding="utf-8-sig", errors="replace", newline="\n")
            number = 0
            while line := file.readline(most):
                number += 1
                if len(line) == most and line[-1] != "\n":
                    self.fault(f"line {number}", f"longer than {most} characters")
                    while (rest := file.readline(most)) and rest[-1] != "\n":
                        pass
                    continue
                yield number, f"{line[:-2]}\n" if line.endswith("\r\n") else line

    def parsed(self, lines: Iterable[tuple[int, str]], parse: Callable[[str], Iterable[_Item]]) -> Iterator[_Item]:
        """Yield the items that the function ``parse`` returns for each line.

        Args:
            lines: Number and text of each line, as yielded by `lines`.
            parse: A function that returns any number of items for the text of a line. If it raises ValueError, the line
                is a fault, described by the message of the ValueError.

        Raises:
            IoPatternsError: A line is a fault, and `skipped` is None.
        """
        for number, line in lines:
            try:
                yield from parse(line)
            except ValueError as why:
                self.fault(f"line {number}", why)


def whole_number(word: str, name: str, what: str = "whole number below 2^62") -> int:
    """Convert a word of digits to a whole number below 2^62.

    Args:
        word: The word, such as ``4096``.
        name: What the number is, for the error message, such as "the offset".
        what: What a valid number is, for the error message ``NAME is 'WORD', no WHAT``.

    Raises:
        ValueError: The word does not consist of decimal digits only, or the number is too large.
    """
    if word.isdigit() and word.isascii() and len(word) <= 19 and (number := int(word)) < MAX_NUMBER:
        return number
    raise ValueError(f"{name} is '{printable(word)}', no {what}")
