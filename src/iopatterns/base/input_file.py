"""Reading of user files line by line, which reports or skips faulty lines."""

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
    """The faulty lines of a file that were skipped.

    In formats without lines, it counts records or rows.

    Attributes:
        count: The number of skipped lines.
        first: The error messages of the first three lines.
    """

    count: int = 0
    first: list[str] = field(default_factory=list)

    def report(self) -> int:
        """Print the number of skipped lines, and the messages of the first.

        Nothing is printed if no line was skipped.

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
        skipped: Counts the faulty lines, which are then skipped. If it is None, the first faulty line raises an error.
        ERROR: The type of the errors. Subclasses may override it.
        MOST_LINE: Lines of this many characters or more are faulty.
    """

    path: Path
    skipped: SkippedLines | None = None

    ERROR: ClassVar[type[IoPatternsError]] = IoPatternsError
    MOST_LINE: ClassVar[int] = 4096

    def fault(self, place: str, why: object, count: int = 1) -> None:
        """Count a fault, or raise an error if faults are not skipped.

        Args:
            place: The place in the file, such as ``line 3``.
            why: What is wrong there.
            count: The number of faulty lines for which this call is made.

        Raises:
            IoPatternsError: An error of type `ERROR`, if `skipped` is None.
        """
        error = self.error(why, place)
        if self.skipped is None:
            raise error
        if len(self.skipped.first) < _MOST_EXAMPLES:
            self.skipped.first.append(str(error))
        self.skipped.count += count

    def error(self, why: object, place: str = "") -> IoPatternsError:
        """Return an error of type `ERROR` about this file, without raising it.

        The message consists of the path, the place and the problem.

        Args:
            why: The problem.
            place: The place in the file, such as ``line 3``; empty for the entire file.
        """
        return self.ERROR(f"{printable(self.path)}{f', {place}' if place else ''}: {why}")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the number, from 1, and the text of each line.

        The text includes the line break. Bytes that are not UTF-8 become U+FFFD. A line of `MOST_LINE` or more
        characters is a fault, and is not yielded.
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
        """Yield the items that a function returns for each line.

        Args:
            lines: Number and text of each line, as yielded by `lines`.
            parse: Returns any number of items for the text of a line. If it raises ValueError, the line is a fault, and
                the message of the error is the problem.
        """
        for number, line in lines:
            try:
                yield from parse(line)
            except ValueError as why:
                self.fault(f"line {number}", why)


def whole_number(word: str, name: str, what: str = "whole number below 2^62") -> int:
    """Return the whole number that a word consists of, from 0 to 2^62 - 1.

    Args:
        word: The word.
        name: Name of the number, for the message, such as "the offset".
        what: Description of a valid number, for the message.

    Raises:
        ValueError: The word does not consist of digits only, or the number is too large.
    """
    if word.isdigit() and word.isascii() and len(word) <= 19 and (number := int(word)) < MAX_NUMBER:
        return number
    raise ValueError(f"{name} is '{printable(word)}', no {what}")
