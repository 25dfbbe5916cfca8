"""What tables are made of: files, folders, globs, open files and decoded results, one after the other."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from fio_parser_json.documents import Document, FioParseError, as_text, of_mapping, parse_documents

Errors = Literal["raise", "skip"]
_Made = TypeVar("_Made")


@runtime_checkable
class Readable(Protocol):
    """An open file, of text or of bytes."""

    def read(self) -> str | bytes:
        """Return all that is left of it."""


Source = str | os.PathLike[str] | Readable | Mapping[str, Any] | Document
Sources = Source | Iterable[Source]


@dataclass(frozen=True, slots=True)
class OfFolder:
    """Which files of a folder are taken: a pattern for their names, and the same in words."""

    name: re.Pattern[str]
    words: str


_JSON = OfFolder(re.compile(r"\.json$"), "whose name ends in .json")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source that was left out: its name, and what is wrong with it and where."""

    source: str
    problem: str


def all_documents(
    sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None
) -> Iterator[Document]:
    """Yield the documents of any number of sources, in their order. Does not need pandas.

    Args:
        sources: one of these, or any number of them:

            - the path of a file that fio wrote, or into which its standard output went;
            - the path of a folder: all files below it that end in ``.json``, by name;
            - a glob, such as ``runs/**/*.json``: all files that match, by name (a file of that very name wins);
            - an open file, of text or of bytes, read from where it stands;
            - a decoded result: the mapping that ``json.load`` makes of one document, whose ``source`` is then
              ``<decoded 0>``, the number its position among the sources;
            - a `Document`.
        errors: what becomes of a source that is not a whole, valid output of fio, or that cannot be read:
            ``"raise"`` it, or ``"skip"`` the source, all of it.
        skipped: a list to which `Skipped` are appended, one for each source that is left out. Without it a
            warning says how many there are.

    Raises:
        FioParseError: as `parse_documents`; also for a folder or a glob without any file.
        OSError: a file cannot be read.
    """
    return gather(sources, documents_of, errors=errors, skipped=skipped)


def documents_of(item: Item) -> list[Document]:
    """Return the documents of one source."""
    if isinstance(item.source, Document):
        return [item.source]
    if isinstance(item.source, Mapping):
        return [of_mapping(item.source, item.name)]
    return parse_documents(item.text(), item.name)


@dataclass(frozen=True, slots=True)
class Item:
    """One source by itself, no folder and no glob, and its ``name``."""

    source: Source
    name: str

    def text(self) -> str:
        """Return what is in the file. Raises OSError."""
        if isinstance(self.source, Readable):
            content = self.source.read()
            return content if isinstance(content, str) else as_text(content)
        return as_text(Path(self.name).read_bytes())


def gather(
    sources: Sources,
    make: Callable[[Item], Iterable[_Made]],
    *,
    of_folder: OfFolder = _JSON,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
) -> Iterator[_Made]:
    """Yield what ``make`` makes of each source: of one that is skipped nothing at all.

    ``of_folder`` says which files of a folder are taken, by default those that end in ``.json``.
    """
    if errors not in {"raise", "skip"}:
        raise ValueError(f"errors is {errors!r}, but must be 'raise' or 'skip'")
    left_out: list[Skipped] = []
    if isinstance(sources, str | os.PathLike | Mapping | Document | Readable):
        sources = [sources]
    for number, source in enumerate(sources):
        try:
            items = _expanded(source, number, of_folder)
        except FioParseError as error:
            if errors == "raise":
                raise
            left_out.append(Skipped(error.source, error.problem))
            continue
        for item in items:
            try:
                made = list(make(item))
            except (FioParseError, OSError) as error:
                if errors == "raise":
                    raise
                left_out.append(Skipped(item.name, _problem(error)))
            else:
                yield from made
    if skipped is not None:
        skipped += left_out
    elif left_out:
        first = left_out[0]
        warnings.warn(
            f"fio_parser_json: {len(left_out)} of the sources left out, the first: {first.source}: {first.problem}",
            stacklevel=3,
        )


def _problem(error: FioParseError | OSError) -> str:
    if isinstance(error, FioParseError):
        return ": ".join(filter(None, (error.place, error.problem)))
    return error.strerror or str(error)


def _expanded(source: Source, number: int, of_folder: OfFolder) -> list[Item]:
    """Return the items that a source stands for: itself, or the files of a folder or glob, by name."""
    if isinstance(source, Document):
        return [Item(source, source.source)]
    if isinstance(source, Mapping):
        return [Item(source, f"<decoded {number}>")]
    if isinstance(source, Readable):
        name = getattr(source, "name", None)
        return [Item(source, name if isinstance(name, str) else f"<open file {number}>")]
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"a source is a path, a glob, an open file, a decoded mapping or a Document, not {type(source).__name__}"
        )
    name = os.fspath(source)
    if Path(name).is_dir():
        found = [str(path) for path in Path(name).rglob("*") if of_folder.name.search(path.name) and path.is_file()]
        if not found:
            raise FioParseError(name, "", f"there is no file in this folder {of_folder.words}")
    elif glob.has_magic(name) and not Path(name).exists():
        # glob's own function takes absolute patterns and relative ones alike, pathlib's only relative ones
        found = [path for path in glob.glob(name, recursive=True) if Path(path).is_file()]  # noqa: PTH207
        if not found:
            raise FioParseError(name, "", "no file matches")
    else:
        found = [name]
    return [Item(path, path) for path in sorted(found)]
