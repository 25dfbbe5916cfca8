"""Reading of user files line by line, with a report of faulty lines."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from iopatterns.base import messages
from iopatterns.base.errors import IoPatternsError
from iopatterns.base.messages import printable as printable  # noqa: PLC0414 - exported

MAX_NUMBER = 2**62  # of bytes or nanoseconds, so that sums fit into 64 bits
_MOST_EXAMPLES = 3

_Item = TypeVar("_Item")


@dataclass
class SkippedLines:
    """The faulty lines, records or rows that were skipped in a file.

    Attributes:
        count: The number of skipped lines.
        first: The messages for the first few lines.
    """

    count: int = 0
    first: list[str] = field(default_factory=list)

    def report(self) -> int:
        """Print the number of skipped lines and the first of them.

        Nothing is printed if there are none. Returns the number.
        """
        if self.count:
            messages.say("\n".join([f"Skipped {self.count} faulty lines. The first:", *self.first]))
        return self.count


@dataclass(frozen=True)
class InputFile:
    """A file that is being read.

    Attributes:
        path: The file.
        skipped: Counts faulty lines, which are then skipped. Without it, the first faulty line raises an error.
        ERROR: The type of the error that a faulty line raises.
        MOST_LINE: The length from which on a line is faulty.
    """

    path: Path
    skipped: SkippedLines | None = None

    ERROR: ClassVar[type[IoPatternsError]] = IoPatternsError
    MOST_LINE: ClassVar[int] = 4096

    def fault(self, place: str, why: object, count: int = 1) -> None:
        """Count a fault, or raise it as an error if faults are not counted.

        Args:
            place: The place in the file, such as ``line 3``.
            why: What is wrong there.
            count: The number of faults that this call stands for.

        Raises:
            IoPatternsError: The error of type `ERROR`, if `skipped` is None.
        """
        error = self.error(why, place)
        if self.skipped is None:
            raise error
        if len(self.skipped.first) < _MOST_EXAMPLES:
            self.skipped.first.append(str(error))
        self.skipped.count += count

    def error(self, why: object, place: str = "") -> IoPatternsError:
        """Return the error with the path, the place in the file and the problem."""
        return self.ERROR(f"{printable(self.path)}{f', {place}' if place else ''}: {why}")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number, from 1, and the text of each line.

        A line that is longer than `MOST_LINE` is a fault.
        """
        most = self.MOST_LINE
        with self.path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            number = 0
            while line := file.readline(most):
                number += 1
                if len(line) == most and line[-1] != "\n":
                    self.fault(f"line {number}", f"longer than {most} characters")
                    while (rest := file.readline(most)) and rest[-1] != "\n":
                        pass
                    continue
                yield number, line

    def parsed(self, lines: Iterable[tuple[int, str]], parse: Callable[[str], Iterable[_Item]]) -> Iterator[_Item]:
        """Yield the items of all lines.

        Args:
            lines: Numbers and texts of the lines.
            parse: Returns the items of a line, or raises ValueError with the problem, which is then a fault.
        """
        for number, line in lines:
            try:
                yield from parse(line)
            except ValueError as why:
                self.fault(f"line {number}", why)


def whole_number(word: str, name: str, what: str = "whole number below 2^62") -> int:
    """Return the whole number that a word consists of.

    Args:
        word: The word.
        name: What the number is, for the message, such as "the offset".
        what: The expected value in words, for the message.

    Raises:
        ValueError: The word is not a number, or is not less than 2^62.
    """
    if word.isdigit() and word.isascii() and len(word) <= 19 and (number := int(word)) < MAX_NUMBER:
        return number
    raise ValueError(f"{name} is '{printable(word)}', no {what}")
