"""Reading of fio output from files, folders, globs and open files."""

from __future__ import annotations

import glob
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from fio_parser_json.documents import Document, FioParseError, as_text, document_of_mapping, parse_documents, read_text

Errors = Literal["raise", "skip"]
_Made = TypeVar("_Made")


@runtime_checkable
class Readable(Protocol):
    """An open file in text or binary mode, or another object with a method ``read``."""

    def read(self) -> str | bytes:
        """Return the content from the current position to the end of the file."""


Source = str | os.PathLike[str] | Readable | Mapping[str, Any] | Document
Sources = Source | Iterable[Source]


@dataclass(frozen=True, slots=True)
class FolderFilter:
    """A pattern for the names of the files that are read from a folder.

    Attributes:
        name: Regular expression. A file is read if the expression matches any part of the file's name.
        description: The pattern in words, for messages, such as "a name that ends in .json".
    """

    name: re.Pattern[str]
    description: str


COMPRESSED = r"(?:\.(?:gz|bz2|xz|zst))?$"
_JSON = FolderFilter(re.compile(r"\.json" + COMPRESSED), "a name that ends in .json, or .json.gz")


@dataclass(frozen=True, slots=True)
class Skipped:
    """A source that was skipped because it could not be read.

    Attributes:
        source: Name of the source.
        problem: What is wrong. It begins with the place in the source, such as ``line 12, column 3``, if the place is
            known.
    """

    source: str
    problem: str


def all_documents(
    sources: Sources, *, errors: Errors = "raise", skipped: list[Skipped] | None = None
) -> Iterator[Document]:
    """Yield the documents of any number of sources, in the order of the sources.

    This function does not import pandas.

    Args:
        sources: One of the following, or an iterable of them:

            - the path of a file with the output of fio;
            - the path of a folder: all files below it that end in ``.json`` (or ``.json.gz`` and the like), sorted by
              path;
            - a glob, such as ``runs/**/*.json``: all files that match, sorted by path. If a file of exactly this name
              exists, only this file is read;
            - an open file, in text or binary mode, read from its current position;
            - a result of fio that is already decoded, as ``json.load`` returns it. Its `Document.source` is
              ``<decoded 0>``, where the number is the position among ``sources``;
            - a `Document`.
        errors: What to do with a source that cannot be read or is not complete, valid output of fio: ``"raise"`` its
            error, or ``"skip"`` the source. A skipped source yields no documents, even if some of them are complete.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.

    Raises:
        FioParseError: A source is not complete, valid output of fio, or a folder or glob has no files.
        OSError: A file cannot be read.
    """
    return gather(sources, documents_of, errors=errors, skipped=skipped)


def documents_of(item: Item) -> list[Document]:
    """Return the documents (results of runs of fio) of one source.

    Args:
        item: The source: a file, an open file, a decoded result or a document.

    Raises:
        FioParseError: The source is not complete, valid output of fio.
        OSError: The file cannot be read.
    """
    if isinstance(item.source, Document):
        return [item.source]
    if isinstance(item.source, Mapping):
        return [document_of_mapping(item.source, item.name)]
    return parse_documents(item.text(), item.name)


@dataclass(frozen=True, slots=True)
class Item:
    """A single source. A folder or a glob becomes one item for each of its files.

    Attributes:
        source: A path, an open file, a decoded result or a document.
        name: Name of the source, for messages and the column ``source`` of tables. For files it is the path.
    """

    source: Source
    name: str

    def text(self) -> str:
        """Return the text of the file, decoded if it is in binary mode.

        An open file is read from its current position.

        Raises:
            OSError: The file cannot be read.
        """
        if isinstance(self.source, Readable):
            content = self.source.read()
            return content if isinstance(content, str) else as_text(content)
        return read_text(self.name)


def gather(
    sources: Sources,
    make: Callable[[Item], Iterable[_Made]],
    *,
    in_folder: FolderFilter = _JSON,
    errors: Errors = "raise",
    skipped: list[Skipped] | None = None,
) -> Iterator[_Made]:
    """Yield the results of a function for each source, in the order of the sources.

    Args:
        sources: Files, folders, globs, open files, decoded results or documents, see `all_documents`.
        make: The function. It is called with one source (a file of a folder or glob is one source), and returns any
            number of results.
        in_folder: Selects the files that are read from a folder; by default files whose names end in ``.json``.
        errors: What to do if ``make`` raises FioParseError or OSError for a source, or if a folder or glob has no
            files: ``"raise"`` the error, or ``"skip"`` the source.
        skipped: A list to which a `Skipped` is appended for each skipped source. Without a list, a warning gives the
            number of skipped sources.

    Raises:
        FioParseError: A folder or glob has no files, or ``make`` raised this error.
        OSError: ``make`` raised this error.
        TypeError: A source has none of the types listed under ``sources``.
        ValueError: ``errors`` is neither ``"raise"`` nor ``"skip"``.
    """
    if errors not in {"raise", "skip"}:
        raise ValueError(f"errors is {errors!r}, but must be 'raise' or 'skip'")
    left_out: list[Skipped] = []
    if isinstance(sources, str | os.PathLike | Mapping | Document | Readable):
        sources = [sources]
    for number, source in enumerate(sources):
        try:
            items = _items(source, number, in_folder)
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
            f"fio_parser_json: skipped sources: {len(left_out)}. The first: {first.source}: {first.problem}",
            stacklevel=3,
        )


def _problem(error: FioParseError | OSError) -> str:
    if isinstance(error, FioParseError):
        return ": ".join(filter(None, (error.place, error.problem)))
    return error.strerror or str(error)


def _items(source: Source, number: int, in_folder: FolderFilter) -> list[Item]:
    """Return the items of a source: its files if it is a folder or glob, or itself.

    Files of a folder or glob are sorted by path.

    Args:
        source: The source.
        number: Position of the source. A source without a path is named by it, such as ``<decoded 0>``.
        in_folder: Selects the files that are read from a folder.

    Raises:
        FioParseError: A folder or glob has no files.
        TypeError: The source is of no valid type.
    """
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
        found = [str(path) for path in Path(name).rglob("*") if in_folder.name.search(path.name) and path.is_file()]
        if not found:
            raise FioParseError(name, "", f"no file in this folder has {in_folder.description}")
    elif glob.has_magic(name) and not Path(name).exists():
        # unlike Path.glob, glob.glob accepts both absolute and relative patterns
        found = [path for path in glob.glob(name, recursive=True) if Path(path).is_file()]  # noqa: PTH207
        if not found:
            raise FioParseError(name, "", "no file matches")
    else:
        found = [name]
    return [Item(path, path) for path in sorted(found)]
