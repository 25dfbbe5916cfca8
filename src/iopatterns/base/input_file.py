"""A user's file of many lines as it is being read: the lines, the numbers in them, and what becomes of a fault."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, TypeVar

from iopatterns.base import messages
from iopatterns.base.errors import IoPatternsError

MAX_NUMBER = 2**62  # bytes and nanoseconds: their sums stay within 64 bits
_FAULTS_KEPT = 3

_Item = TypeVar("_Item")


@dataclass
class SkippedLines:
    """The faulty lines (records, rows) that were left out of a file: how many, and what the first ones were."""

    count: int = 0
    first: list[str] = field(default_factory=list)

    def report(self) -> int:
        """Print the first skipped lines, if any; return the number of all."""
        if self.count:
            messages.say("\n".join([f"Skipped {self.count} faulty lines. The first:", *self.first]))
        return self.count


@dataclass(frozen=True)
class InputFile:
    """A file as it is being read.

    Where ``skipped`` is given, a fault is counted there and its line left out; else the first one ends the reading.
    """

    path: Path
    skipped: SkippedLines | None = None

    # What a fault raises, and how long a line may be
    ERROR: ClassVar[type[IoPatternsError]] = IoPatternsError
    MOST_LINE: ClassVar[int] = 4096

    def fault(self, place: str, why: object, count: int = 1) -> None:
        """Count the fault at a place of the file, which stands for ``count`` of them. Raises `ERROR`."""
        error = self.error(why, place)
        if self.skipped is None:
            raise error
        if len(self.skipped.first) < _FAULTS_KEPT:
            self.skipped.first.append(str(error))
        self.skipped.count += count

    def error(self, why: object, place: str = "") -> IoPatternsError:
        """Return the error that names the file and the place in it."""
        return self.ERROR(f"{printable(self.path)}{f', {place}' if place else ''}: {why}")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of a text with their numbers, from 1. One too long to be one is a fault."""
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
        """Yield the items of lines. ``parse`` returns those of a line, and raises ValueError with what is wrong."""
        for number, line in lines:
            try:
                yield from parse(line)
            except ValueError as why:
                self.fault(f"line {number}", why)


def whole_number(word: str, name: str, what: str = "whole number below 2^62") -> int:
    """Return a number of a text. Raises ValueError naming it where it is none, or too large."""
    if word.isdigit() and word.isascii() and len(word) <= 19 and (number := int(word)) < MAX_NUMBER:
        return number
    raise ValueError(f"{name} is '{printable(word)}', no {what}")


def printable(value: object) -> str:
    """Return what a file holds, or is called, as it may stand in a message: in one line, and not too long."""
    return messages.printable(value)
